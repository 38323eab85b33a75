"""Learners that see one example at a time, with bounds on their total loss, and :func:`run_stream`, which trains them on a stream."""

from bregmat.online.blocks import StreamError
from bregmat.online.gradient import MatrixExponentiatedGradient
from bregmat.online.learner import SpectralSpreadWarning, UnreachableLabelWarning
from bregmat.online.logdet import OnlineLogDet
from bregmat.online.pca import OnlinePCA
from bregmat.online.settings import SquaredLoss
from bregmat.online.stream import StreamExit, StreamRecord, StreamRun, run_stream

__all__ = [
    "MatrixExponentiatedGradient",
    "OnlineLogDet",
    "OnlinePCA",
    "SpectralSpreadWarning",
    "SquaredLoss",
    "StreamError",
    "StreamExit",
    "StreamRecord",
    "StreamRun",
    "UnreachableLabelWarning",
    "run_stream",
]
