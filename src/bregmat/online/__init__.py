"""Learners that see one example at a time, with bounds on their total loss."""

from bregmat.online.gradient import MatrixExponentiatedGradient
from bregmat.online.learner import SpectralSpreadWarning, UnreachableLabelWarning
from bregmat.online.logdet import OnlineLogDet
from bregmat.online.pca import OnlinePCA
from bregmat.online.settings import SquaredLoss

__all__ = [
    "MatrixExponentiatedGradient",
    "OnlineLogDet",
    "OnlinePCA",
    "SpectralSpreadWarning",
    "SquaredLoss",
    "UnreachableLabelWarning",
]
