"""The classes whose objects model files may hold.

A file names a class by a word. Only the words listed here are looked up, so that a file cannot choose what is imported.
"""

from __future__ import annotations

import importlib
from dataclasses import is_dataclass
from typing import Any, TypeVar

T = TypeVar("T", bound=type)

# Name in a file -> the class, or the module that it is imported from when such a file is read.
SAVABLE: dict[str, str | type] = {
    "BoostResult": "bregmat.applications.simplex.boosting",
    "CorrelationResult": "bregmat.applications.correlation.result",
    "CutResult": "bregmat.applications.cut.result",
    "DistributionResult": "bregmat.applications.simplex.nearest",
    "ITML": "bregmat.pairs.itml",
    "ITML_Supervised": "bregmat.pairs.itml",
    "KernelKMeans": "bregmat.estimators.cluster",
    "KernelLearner": "bregmat.estimators.kernel",
    "KernelLearnerCV": "bregmat.estimators.kernel_cv",
    "MarginResult": "bregmat.margin.result",
    "MarginSVC": "bregmat.estimators.svm",
    "MatrixExponentiatedGradient": "bregmat.online.gradient",
    "MatrixResult": "bregmat.run.result",
    "MetricLearner": "bregmat.estimators.metric",
    "MetricLearnerCV": "bregmat.estimators.metric_cv",
    "OnlineLogDet": "bregmat.online.logdet",
    "OnlinePCA": "bregmat.online.pca",
    "PairsLearner": "bregmat.pairs.learner",
    "QPResult": "bregmat.quadratic.result",
    "SemidefiniteResult": "bregmat.applications.semidefinite.program",
    "ShrinkResult": "bregmat.applications.correlation.shrink",
    "UnfoldResult": "bregmat.applications.unfolding.result",
}
# The same for classes that files hold only as parts of those above, by module.
_PARTS = {
    "bregmat.applications.correlation.result": "Repair",
    "bregmat.certificates.status": "ExitReason Record Status",
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
    "bregmat.online.records": "KeptExamples PairTally",
    "bregmat.online.settings": "GradientSettings",
    "bregmat.quadratic.multiplicative": "MultiplicativeUpdates",
}
PARTS = {name: module for module, names in _PARTS.items() for name in names.split()}


def savable(cls: T) -> T:
    """Let model files hold objects of a class of your own; a decorator.

    Of an estimator of scikit-learn a file holds the parameters and every attribute whose name ends in ``_`` or begins with it,
    of a dataclass its fields. Their values may be plain values, arrays, and objects of classes that files may hold.

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
        The class is neither an estimator nor a dataclass.
    ValueError
        Files know another class by this name.

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
    """Whether files may hold objects of this very class."""
    entry = SAVABLE.get(cls.__name__, PARTS.get(cls.__name__))
    return entry is not None and _place(entry) == cls.__module__


def class_named(name: Any) -> type:
    """The class that a file names; ``ValueError`` for any other word."""
    entry = SAVABLE.get(name, PARTS.get(name)) if isinstance(name, str) else None
    if entry is None:
        raise ValueError(f"unknown class {name!r}")
    return entry if isinstance(entry, type) else getattr(importlib.import_module(entry), name)


def is_estimator(cls: type) -> bool:
    """Whether a class is an estimator of scikit-learn, which need not be imported for this."""
    return any(base.__module__.startswith("sklearn.") and base.__name__ == "BaseEstimator" for base in cls.__mro__)
