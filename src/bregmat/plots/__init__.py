"""Displays of learned metrics and kernels, made as scikit-learn's displays are; Matplotlib is imported on first use.

The classes have constructors such as ``from_estimator``, ``from_data`` and ``from_run``, which compute and draw, and
``plot(ax=None)``, which draws again. The attributes ``ax_`` and ``figure_`` are the Matplotlib objects.
"""

from bregmat.plots.comparisons import ComparisonDisplay
from bregmat.plots.convergence import ConvergenceDisplay
from bregmat.plots.embedding import EmbeddingDisplay
from bregmat.plots.online_loss import OnlineLossDisplay
from bregmat.plots.pairs import PairDistanceDisplay

__all__ = [
    "ComparisonDisplay",
    "ConvergenceDisplay",
    "EmbeddingDisplay",
    "OnlineLossDisplay",
    "PairDistanceDisplay",
]
