"""Learners that see one example at a time. Those that need scikit-learn load on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bregmat.online.assumptions import SpectralSpreadWarning, UnreachableLabelWarning
from bregmat.online.blocks import StreamError
from bregmat.online.hindsight import BestInHindsight
from bregmat.online.losses import AbsoluteLoss, EntropicLoss, ForwardEntropicLoss, LogisticLoss, SquaredLoss
from bregmat.online.stream import FixedShare, StreamExit, StreamRecord, StreamRun, bound_against, run_stream

if TYPE_CHECKING:
    from bregmat.online.logdet import OnlineLogDet
    from bregmat.online.pca import OnlinePCA

if TYPE_CHECKING:
    from bregmat.online.gradient import MatrixExponentiatedGradient
    from bregmat.online.logdet import OnlineLogDet
    from bregmat.online.pca import OnlinePCA

_LAZY = {
    "MatrixExponentiatedGradient": "bregmat.online.gradient",
    "OnlineLogDet": "bregmat.online.logdet",
    "OnlinePCA": "bregmat.online.pca",
}

__all__ = [
    "AbsoluteLoss",
    "BestInHindsight",
    "EntropicLoss",
    "ForwardEntropicLoss",
    "FixedShare",
    "LogisticLoss",
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
    "bound_against",
    "run_stream",
]


if not TYPE_CHECKING:  # to a type checker a module with this function has every name

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            return getattr(importlib.import_module(_LAZY[name]), name)
        raise AttributeError(f"module 'bregmat.online' has no attribute {name!r}")
