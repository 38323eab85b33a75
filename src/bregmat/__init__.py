"""bregmat: learn positive semidefinite matrices - kernels and Mahalanobis metrics - with certificates."""

from __future__ import annotations

import importlib
from typing import Any

from bregmat.constraints import Constraints
from bregmat.coordinates import Factor
from bregmat.divergences import Frobenius, LogDet, VonNeumann
from bregmat.labels import constraints_from_labels
from bregmat.losses import Squared, SquaredHinge
from bregmat.nearest import nearest_kernel, nearest_metric
from bregmat.result import ExitReason, Record, Result, SolverError, Status, check

__version__ = "0.1.0"

# names that need scikit-learn or a file reader load on first use, so that ``import bregmat`` stays quick
_LAZY = {
    "MetricLearner": "bregmat.estimators",
    "save": "bregmat.io",
    "load": "bregmat.io",
    "ModelFileError": "bregmat.io",
}

__all__ = [
    "Constraints",
    "ExitReason",
    "Factor",
    "Frobenius",
    "LogDet",
    "MetricLearner",
    "ModelFileError",
    "Record",
    "Result",
    "SolverError",
    "Squared",
    "SquaredHinge",
    "Status",
    "VonNeumann",
    "check",
    "constraints_from_labels",
    "load",
    "nearest_kernel",
    "nearest_metric",
    "save",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'bregmat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
