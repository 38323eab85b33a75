"""The vector case: nearest distributions under linear bounds, and AdaBoost."""

from bregmat.applications.simplex.boosting import BoostResult, boost_hypotheses
from bregmat.applications.simplex.nearest import nearest_distribution
from bregmat.applications.simplex.result import DistributionResult

__all__ = ["BoostResult", "DistributionResult", "boost_hypotheses", "nearest_distribution"]
