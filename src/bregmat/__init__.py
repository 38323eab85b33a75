"""bregmat: learn positive semidefinite matrices - kernels and Mahalanobis metrics - with certificates."""

from __future__ import annotations

import importlib
from typing import Any

from bregmat.constraints import Constraints
from bregmat.coordinates import Factor
from bregmat.divergences import Frobenius, LogDet, VonNeumann
from bregmat.labels import constraints_from_labels
from bregmat.losses import RelativeSlack
from bregmat.nearest import nearest_kernel, nearest_metric
from bregmat.priors import widen_range
from bregmat.registry import register
from bregmat.relations import Relation
from bregmat.result import ExitReason, MatrixResult, Record, Result, SolverError, Status, check
from bregmat.scalar_losses import ScalarLoss, Squared, SquaredHinge
from bregmat.solvers.cyclic_projection import CyclicProjection
from bregmat.solvers.definite_boost import DefiniteBoost
from bregmat.spectral import SpectralDivergence

__version__ = "0.1.0"

# names that need scikit-learn or a file reader load on first use, so that ``import bregmat`` stays quick
_LAZY = {
    "BoostResult": "bregmat.applications",
    "CorrelationResult": "bregmat.applications",
    "CutResult": "bregmat.applications",
    "DistributionResult": "bregmat.applications",
    "balanced_cut": "bregmat.applications",
    "boost_hypotheses": "bregmat.applications",
    "nearest_correlation": "bregmat.applications",
    "nearest_distribution": "bregmat.applications",
    "KernelKMeans": "bregmat.estimators",
    "KernelLearner": "bregmat.estimators",
    "KernelLearnerCV": "bregmat.estimators",
    "MarginSVC": "bregmat.estimators",
    "MatrixExponentiatedGradient": "bregmat.online",
    "MetricLearner": "bregmat.estimators",
    "MetricLearnerCV": "bregmat.estimators",
    "MultiplicativeUpdates": "bregmat.quadratic",
    "OnlineLogDet": "bregmat.online",
    "OnlinePCA": "bregmat.online",
    "QPResult": "bregmat.quadratic",
    "nnqp": "bregmat.quadratic",
    "nonnegative_least_squares": "bregmat.quadratic",
    "Verification": "bregmat.verification",
    "verify": "bregmat.verification",
    "save": "bregmat.io",
    "spread_pairs": "bregmat.nearby",
    "load": "bregmat.io",
    "ModelFileError": "bregmat.io",
}

__all__ = [
    "BoostResult",
    "Constraints",
    "CorrelationResult",
    "CutResult",
    "CyclicProjection",
    "DefiniteBoost",
    "DistributionResult",
    "ExitReason",
    "Factor",
    "Frobenius",
    "KernelKMeans",
    "KernelLearner",
    "KernelLearnerCV",
    "LogDet",
    "MarginSVC",
    "MatrixExponentiatedGradient",
    "MatrixResult",
    "MetricLearner",
    "MetricLearnerCV",
    "ModelFileError",
    "MultiplicativeUpdates",
    "OnlineLogDet",
    "OnlinePCA",
    "QPResult",
    "Record",
    "Relation",
    "RelativeSlack",
    "Result",
    "ScalarLoss",
    "SolverError",
    "SpectralDivergence",
    "Squared",
    "SquaredHinge",
    "Status",
    "Verification",
    "VonNeumann",
    "balanced_cut",
    "boost_hypotheses",
    "check",
    "constraints_from_labels",
    "load",
    "nearest_correlation",
    "nearest_distribution",
    "nearest_kernel",
    "nearest_metric",
    "nnqp",
    "nonnegative_least_squares",
    "register",
    "save",
    "spread_pairs",
    "verify",
    "widen_range",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'bregmat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
