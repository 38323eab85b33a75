"""The classes whose objects model files may contain.

Only the class names listed here are imported, so a file cannot cause the import of other modules.
"""

from __future__ import annotations

import importlib
from dataclasses import is_dataclass
from typing import Any, TypeVar

T = TypeVar("T", bound=type)

# Name of a class -> the class, or the module from which it is imported when a file is read.
SAVABLE: dict[str, str | type] = {
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
    "UnfoldResult": "bregmat.applications.unfolding.result",
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
    "bregmat.online.gradient_state": "GradientState",
    "bregmat.online.losses": "AbsoluteLoss EntropicLoss ForwardEntropicLoss LogisticLoss SquaredLoss",
    "bregmat.online.records": "PairTally",
    "bregmat.online.settings": "GradientSettings",
    "bregmat.quadratic.multiplicative": "MultiplicativeUpdates",
}
PARTS = {name: module for module, names in _PARTS.items() for name in names.split()}


def savable(cls: T) -> T:
    """Decorator that permits model files with objects of your own class.

    A file contains the fields of a dataclass, or the parameters of a scikit-learn estimator and its attributes whose names begin or
    end with ``_``. Their values may be plain values, arrays, and objects of savable classes.

    Parameters
    ----------
    cls : type
        An estimator of scikit-learn, or a dataclass.

    Returns
    -------
    type
        The same class.

    Raises
    ------
    TypeError
        If the class is neither an estimator nor a dataclass.
    ValueError
        If another savable class has this name.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from dataclasses import dataclass
    >>> import bregmat
    >>> from bregmat.io import savable
    >>> @savable
    ... @dataclass
    ... class Comparison:
    ...     first: bregmat.Result
    ...     second: bregmat.Result
    >>> one, two = (bregmat.nnqp([[2.0]], [slope]) for slope in (-1.0, 1.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "both.bm"
    ...     bregmat.save(path, Comparison(one, two))
    ...     float(bregmat.load(path).first.x[0])
    0.5
    """
    if not is_dataclass(cls) and not is_estimator(cls):
        raise TypeError(f"{cls!r} is neither an estimator of scikit-learn nor a dataclass, so files cannot hold it.")
    name = cls.__name__
    known = SAVABLE.get(name, PARTS.get(name))
    if known is not None and _place(known) != _place(cls):
        raise ValueError(f"files know {_place(known)}.{name} by the name {name!r}; give {cls!r} another name.")
    SAVABLE[name] = cls
    return cls


def _place(entry: str | type) -> str:
    return entry if isinstance(entry, str) else entry.__module__


def is_known(cls: type) -> bool:
    """Whether files may contain objects of this class; subclasses do not count."""
    entry = SAVABLE.get(cls.__name__, PARTS.get(cls.__name__))
    return entry is not None and _place(entry) == cls.__module__


def class_named(name: Any) -> type:
    """The savable class with this name; ``ValueError`` for any other name."""
    entry = SAVABLE.get(name, PARTS.get(name)) if isinstance(name, str) else None
    if entry is None:
        raise ValueError(f"unknown class {name!r}")
    return entry if isinstance(entry, type) else getattr(importlib.import_module(entry), name)


def is_estimator(cls: type) -> bool:
    """Whether a class is a scikit-learn estimator, without importing scikit-learn."""
    return any(base.__module__.startswith("sklearn.") and base.__name__ == "BaseEstimator" for base in cls.__mro__)
