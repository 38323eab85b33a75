"""Nearest correlation matrices."""

from bregmat.applications.correlation.nearest import nearest_correlation
from bregmat.applications.correlation.result import CorrelationResult

__all__ = ["CorrelationResult", "nearest_correlation"]
