"""Nearest correlation matrices."""

from bregmat.applications.correlation.nearest import factor_correlation, nearest_correlation
from bregmat.applications.correlation.result import CorrelationResult
from bregmat.applications.correlation.shrink import ShrinkResult, shrink_correlation

__all__ = ["CorrelationResult", "ShrinkResult", "factor_correlation", "nearest_correlation", "shrink_correlation"]
