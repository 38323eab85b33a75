"""Balanced cuts of graphs with a proven lower bound."""

from bregmat.applications.cut.balanced import balanced_cut
from bregmat.applications.cut.result import CutResult

__all__ = ["CutResult", "balanced_cut"]
