"""The classes whose objects model files may contain.

Only the class names listed here are imported, so a file cannot cause the import of other modules.
"""

from __future__ import annotations

import importlib
from typing import Any

# Name of a class -> the module from which it is imported when a file is read.
SAVABLE = {
    "BoostResult": "bregmat.applications.simplex.boosting",
    "CorrelationResult": "bregmat.applications.correlation.result",
    "CutResult": "bregmat.applications.cut.result",
    "DistributionResult": "bregmat.applications.simplex.nearest",
    "ITML": "bregmat.pairs.itml",
    "ITML_Supervised": "bregmat.pairs.itml",
    "KernelKMeans": "bregmat.estimators.cluster",
    "KernelLearner": "bregmat.estimators.kernel",
    "MarginResult": "bregmat.margin.result",
    "MarginSVC": "bregmat.estimators.svm",
    "MatrixExponentiatedGradient": "bregmat.online.gradient",
    "MatrixResult": "bregmat.certificates.result",
    "MetricLearner": "bregmat.estimators.metric",
    "OnlineLogDet": "bregmat.online.logdet",
    "OnlinePCA": "bregmat.online.pca",
    "PairsLearner": "bregmat.pairs.learner",
    "QPResult": "bregmat.quadratic.result",
    "RetrievalLearner": "bregmat.retrieval.learner",
    "SemidefiniteResult": "bregmat.applications.semidefinite.program",
    "ShrinkResult": "bregmat.applications.correlation.shrink",
    "SoftmaxResult": "bregmat.applications.softmax.nearest",
    "UnfoldResult": "bregmat.applications.unfolding",
}
# Module -> names of classes that occur only as attributes of those above.
_PARTS = {
    "bregmat.engine.status": "ExitReason Record Status",
    "bregmat.constraints.columns": "LowRankMatrix",
    "bregmat.constraints.constraints": "Constraints",
    "bregmat.coordinates.priors": "Coordinates Factored Spectral",
    "bregmat.coordinates.spans": "Span",
    "bregmat.estimators.learned_kernel": "FactorMap LowRankMap SpanMap",
    "bregmat.kernels.functions": "KernelFunction",
    "bregmat.kernels.lowrank": "Pivots",
    "bregmat.margin.train": "ActiveSet",
    "bregmat.online.gradient_state": "GradientState PairTally",
    "bregmat.online.settings": "GradientSettings SquaredLoss",
    "bregmat.quadratic.multiplicative": "MultiplicativeUpdates",
}
PARTS = {name: module for module, names in _PARTS.items() for name in names.split()}


def is_known(cls: type) -> bool:
    """Whether files may contain objects of this class; subclasses do not count."""
    return _module_of(cls.__name__) == cls.__module__


def class_named(name: Any) -> type:
    """The class of files with this name; ``ValueError`` for any other name."""
    module = _module_of(name) if isinstance(name, str) else None
    if module is None:
        raise ValueError(f"unknown class {name!r}")
    return getattr(importlib.import_module(module), name)


def _module_of(name: str) -> str | None:
    return SAVABLE.get(name, PARTS.get(name))


def is_estimator(cls: type) -> bool:
    """Whether a class is a scikit-learn estimator, without importing scikit-learn."""
    return any(base.__module__.startswith("sklearn.") and base.__name__ == "BaseEstimator" for base in cls.__mro__)
