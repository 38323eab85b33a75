"""Displays of learned metrics and kernels, made as scikit-learn's displays are; Matplotlib is imported on first use.

The classes have constructors such as ``from_estimator``, ``from_result`` and ``from_data``, which compute and draw, and
``plot(ax=None)``, which draws again. The attributes ``ax_`` and ``figure_`` are the Matplotlib objects.
"""

from bregmat.plots.convergence import ConvergenceDisplay
from bregmat.plots.embedding import EmbeddingDisplay

__all__ = ["ConvergenceDisplay", "EmbeddingDisplay"]
