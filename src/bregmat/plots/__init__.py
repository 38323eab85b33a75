"""Pictures of what was learned; scikit-learn's Display convention, Matplotlib imported on first use.

Every class has ``from_estimator`` / ``from_result`` / ``from_data``, which compute and draw, and ``plot(ax=None)``,
which draws again; ``ax_`` and ``figure_`` hold the Matplotlib objects.
"""

from bregmat.plots.coefficients import CoefficientDisplay
from bregmat.plots.comparisons import ComparisonDisplay
from bregmat.plots.convergence import ConvergenceDisplay
from bregmat.plots.embedding import EmbeddingDisplay
from bregmat.plots.matrix import MatrixDisplay
from bregmat.plots.online_loss import OnlineLossDisplay
from bregmat.plots.pairs import PairDistanceDisplay
from bregmat.plots.search import SearchDisplay
from bregmat.plots.spectrum import SpectrumDisplay
from bregmat.plots.violation import ViolationDisplay

__all__ = [
    "CoefficientDisplay",
    "ComparisonDisplay",
    "ConvergenceDisplay",
    "EmbeddingDisplay",
    "MatrixDisplay",
    "OnlineLossDisplay",
    "PairDistanceDisplay",
    "SearchDisplay",
    "SpectrumDisplay",
    "ViolationDisplay",
]
