"""The vector case: nearest distributions under linear bounds, and AdaBoost."""

from bregmat.applications.simplex.boosting import BoostResult, boost_hypotheses
from bregmat.applications.simplex.nearest import DistributionResult, nearest_distribution

__all__ = ["BoostResult", "DistributionResult", "boost_hypotheses", "nearest_distribution"]
