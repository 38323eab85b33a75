"""Further problems that the methods of this library solve.

Nearest distributions, boosting, correlation matrices, balanced cuts, semidefinite programs, unfolding.
"""

from bregmat.applications.correlation import (
    CorrelationResult,
    ShrinkResult,
    factor_correlation,
    nearest_correlation,
    shrink_correlation,
)
from bregmat.applications.cut import CutResult, balanced_cut
from bregmat.applications.semidefinite import SemidefiniteResult, semidefinite_program
from bregmat.applications.simplex import BoostResult, DistributionResult, boost_hypotheses, nearest_distribution
from bregmat.applications.unfolding import UnfoldResult, unfold

__all__ = [
    "BoostResult",
    "CorrelationResult",
    "CutResult",
    "DistributionResult",
    "SemidefiniteResult",
    "ShrinkResult",
    "UnfoldResult",
    "balanced_cut",
    "boost_hypotheses",
    "factor_correlation",
    "nearest_correlation",
    "nearest_distribution",
    "semidefinite_program",
    "shrink_correlation",
    "unfold",
]
