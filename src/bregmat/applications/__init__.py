"""Problems beside the learning of matrices that its methods solve: nearest distributions, boosting."""

from bregmat.applications.boosting import BoostResult, boost_hypotheses
from bregmat.applications.distribution import DistributionResult
from bregmat.applications.simplex import nearest_distribution

__all__ = ["BoostResult", "DistributionResult", "boost_hypotheses", "nearest_distribution"]
