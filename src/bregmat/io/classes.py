"""The classes whose objects model files may hold, and the few attributes that files leave out, replace or recompute.

A file names classes by a word. Only the words listed here are looked up, so that a file cannot choose what is imported.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from bregmat.base.threads import cached_property

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
}
# The same for classes that files hold only as parts of those above.
PARTS = {
    "AbsoluteLoss": "bregmat.online.losses",
    "ActiveSet": "bregmat.margin.train",
    "Constraints": "bregmat.constraints.constraints",
    "Coordinates": "bregmat.coordinates.coordinates",
    "EntropicLoss": "bregmat.online.losses",
    "ExitReason": "bregmat.certificates.status",
    "FactorMap": "bregmat.estimators.learned_kernel",
    "Factored": "bregmat.coordinates.iterates",
    "ForwardEntropicLoss": "bregmat.online.losses",
    "GradientSettings": "bregmat.online.settings",
    "KeptExamples": "bregmat.online.records",
    "KernelFunction": "bregmat.kernels.functions",
    "LogisticLoss": "bregmat.online.losses",
    "LowRankMap": "bregmat.estimators.learned_kernel",
    "LowRankMatrix": "bregmat.constraints.columns",
    "MultiplicativeUpdates": "bregmat.quadratic.multiplicative",
    "PairTally": "bregmat.online.records",
    "Pivots": "bregmat.kernels.lowrank",
    "Record": "bregmat.certificates.status",
    "Repair": "bregmat.applications.correlation.result",
    "Span": "bregmat.coordinates.spans",
    "SpanMap": "bregmat.estimators.learned_kernel",
    "Spectral": "bregmat.coordinates.iterates",
    "SquaredLoss": "bregmat.online.losses",
    "Status": "bregmat.certificates.status",
    "SupportedMatrix": "bregmat.online.instances",
    "Unlearned": "bregmat.estimators.learned_kernel",
}
LEFT_OUT = object()  # in the place of a value that is not written


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
    if not is_dataclass(cls) and not _is_estimator(cls):
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


def _is_estimator(cls: type) -> bool:
    return any(base.__module__.startswith("sklearn.") and base.__name__ == "BaseEstimator" for base in cls.__mro__)


# ---------------------------------------------------------------------- what files do not hold as it is
@dataclass(frozen=True)
class Rule:
    """How files hold objects of a class and its subclasses, where that differs from writing every attribute.

    Attributes
    ----------
    empty : tuple of str
        Attributes in whose place files hold None.
    written : dict of str -> function of the object
        Attributes in whose place files hold something else; ``LEFT_OUT`` for nothing at all.
    attributes : tuple of str, optional
        All attributes of a class that is neither a dataclass nor an estimator.
    made_by : str, optional
        The class method that makes an object from these attributes; by default they are set without calling anything.
    restored : function of the object, optional
        Called when all attributes are set: checks them, or computes what follows from them.
    is_row : bool
        Whether a list of such objects is written column by column.
    """

    empty: tuple[str, ...] = ()
    written: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    attributes: tuple[str, ...] | None = None
    made_by: str | None = None
    restored: Callable[[Any], None] | None = None
    is_row: bool = False


def _left_out(obj: Any) -> Any:
    return LEFT_OUT


def _local_array(name: str) -> Callable[[Any], Any]:
    """An attribute if it is an array; an empty one for a column that stays with the shards of its rows."""

    def written(result: Any) -> np.ndarray:
        value = getattr(result, name)
        return value if isinstance(value, np.ndarray) else np.zeros(0)

    return written


def _named_constraints(learner: Any) -> Any:
    """The constraints, unless samples have names that files cannot hold, such as dates."""
    constraints = vars(learner).get("constraints_", LEFT_OUT)
    ids = None if constraints is LEFT_OUT else constraints.ids
    is_plain = ids is None or ids.dtype != object or all(isinstance(name, str | int | float) for name in ids)
    return constraints if is_plain else LEFT_OUT


def _plain_labels(result: Any) -> Any:
    """Labels of rows and columns; those that are neither numbers nor text become text."""
    if result.labels is None:
        return None
    return tuple(
        [name if isinstance(name, str | int | float | np.number) else str(name) for name in names]
        for names in result.labels
    )


def _lost_parameters(learner: Any) -> Any:
    """Parameters that the file does not hold, for the message of a learner that needs them."""
    return (learner._left_out or LEFT_OUT) if learner.preprocessor is None else ("preprocessor",)


def _restore_gradient(learner: Any) -> None:
    """Compute what a matrix exponentiated gradient learner keeps beside the matrix that was saved."""
    from bregmat.online.states import LogState

    if learner._settings is None:
        return
    learner._kind = learner._settings.kind
    if learner._state is not None:
        arrays = learner._state
        _check_shape("the matrix", arrays["H"], (learner._dim, learner._dim))
        state = LogState(arrays["H"].copy(), learner._settings, learner._eta)
        _check_shape("the totals", arrays["totals"], state.totals.shape)
        state.restore(arrays)
        learner._state = state


def _check_metric_shapes(learner: Any) -> None:
    """Compiled loops trust the shapes of an online LogDet learner."""
    from bregmat._kernels import online

    if learner.__sklearn_is_fitted__():
        order = -(-learner.n_features_in_ // 8) * 8
        _check_shape("the factor", learner._Bt, (order, order))
        _check_shape("the totals", learner._totals, (online.N_TOTALS,))


def _check_pca_shapes(pca: Any) -> None:
    """Compiled loops trust the shapes of an online PCA."""
    if pca.__sklearn_is_fitted__():
        d = pca.n_features_in_
        for name, shape in {"lam": (d,), "Vt": (d, d), "moment": (d, d), "sum": (d,), "totals": (5,)}.items():
            _check_shape(name, getattr(pca, f"_{name}"), shape)


def _check_shape(name: str, array: Any, shape: tuple[Any, ...]) -> None:
    if np.shape(array) != shape:
        raise ValueError(f"{name} must have shape {shape}; got {np.shape(array)}")


RULES = {
    # estimators
    "BaseEstimator": Rule(empty=("callback",)),
    "AllOrNothing": Rule(restored=lambda estimator: estimator._check_parameters()),
    "LearnerSearch": Rule(empty=("learner", "cv", "estimator", "scoring", "best_learner_")),
    "ResultLearner": Rule(written={"constraints_": _named_constraints}),
    "IndexedMetric": Rule(empty=("preprocessor",), written={"_left_out": _lost_parameters}),
    "Unlearned": Rule(empty=("base",)),
    "MatrixExponentiatedGradient": Rule(
        written={
            "_kind": _left_out,
            "_farthest": _left_out,
            "_state": lambda learner: None if learner._state is None else learner._state.arrays(),
        },
        restored=_restore_gradient,
    ),
    "OnlineLogDet": Rule(restored=_check_metric_shapes),
    "OnlinePCA": Rule(restored=_check_pca_shapes),
    "PairTally": Rule(attributes=("table", "within")),
    "KeptExamples": Rule(
        attributes=("names", "blocks"),
        written={"blocks": lambda record: [tuple(record.columns())] if record.blocks else []},
    ),
    "SupportedMatrix": Rule(is_row=True),
    # results
    "Record": Rule(is_row=True),
    "MatrixResult": Rule(written={name: _local_array(name) for name in ("dual", "values", "violation")}),
    "CorrelationResult": Rule(written={"labels": _plain_labels}),
    "Coordinates": Rule(written={"base": lambda place: place.base if place.owns_base else None}),
    "Span": Rule(attributes=("basis",), made_by="of_basis"),
    "Spectral": Rule(attributes=("divergence", "t0", "t", "F", "x")),
    "Factored": Rule(attributes=("F", "logdet")),
}


def _rules(cls: type) -> list[Rule]:
    """The rules of a class and its bases, those of the bases first."""
    return [RULES[base.__name__] for base in reversed(cls.__mro__) if base.__name__ in RULES]


def is_row(cls: type) -> bool:
    """Whether a list of objects of this class is written column by column."""
    return is_known(cls) and any(rule.is_row for rule in _rules(cls))


def attributes_of(obj: Any) -> dict[str, Any]:
    """What a file holds of an object, by the names of its attributes."""
    cls, rules = type(obj), _rules(type(obj))
    plain = next((rule.attributes for rule in rules if rule.attributes is not None), None)
    if plain is not None:
        found = {name: getattr(obj, name) for name in plain}
    elif _is_estimator(cls):
        found = _of_estimator(obj)
    else:
        found = {f.name: getattr(obj, f.name) for f in fields(cls) if f.init}
    for rule in rules:
        found |= dict.fromkeys(name for name in rule.empty if name in found)
        found |= {name: what(obj) for name, what in rule.written.items()}
    return {name: value for name, value in found.items() if value is not LEFT_OUT}


def _of_estimator(estimator: Any) -> dict[str, Any]:
    """Parameters, then fitted attributes, the public ones first."""
    from bregmat.estimators.base import AllOrNothing

    if isinstance(estimator, AllOrNothing):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator)
    params = estimator.get_params(deep=False)
    fitted = [name for name in vars(estimator) if name not in params and _is_fitted_name(type(estimator), name)]
    return params | {name: vars(estimator)[name] for name in sorted(fitted, key=lambda name: name.startswith("_"))}


def _is_fitted_name(cls: type, name: str) -> bool:
    """Whether an attribute of that name is learned: not a method, a cached property, or scikit-learn's own (set_output)."""
    if not name.isidentifier() or name.startswith(("__", "_sklearn", "_metadata_request")):
        return False
    own = getattr(cls, name, None)
    return (name.startswith("_") or name.endswith("_")) and not (callable(own) or isinstance(own, cached_property))


def object_of(cls: type, found: dict[str, Any]) -> Any:
    """Inverse of :func:`attributes_of`; any error it raises says that the attributes are not those of such an object."""
    rules = _rules(cls)
    rule = next((rule for rule in rules if rule.attributes is not None), None)
    if rule is not None and rule.attributes is not None:
        if set(found) != set(rule.attributes):
            raise ValueError(f"a {cls.__name__} has {', '.join(rule.attributes)}; got {', '.join(found)}")
        obj = getattr(cls, rule.made_by)(**found) if rule.made_by else object.__new__(cls)
        vars(obj).update({} if rule.made_by else found)
    elif _is_estimator(cls):
        names = inspect.signature(cls).parameters
        obj = cls(**{name: value for name, value in found.items() if name in names})
        fitted = {name: value for name, value in found.items() if name not in names}
        if wrong := [name for name in fitted if not _is_fitted_name(cls, name)]:
            raise ValueError(f"{wrong[0][:100]!r} is no attribute of a {cls.__name__}")
        vars(obj).update(fitted)
    else:
        obj = cls(**found)
    for rule in rules:
        if rule.restored is not None:
            rule.restored(obj)
    return obj
