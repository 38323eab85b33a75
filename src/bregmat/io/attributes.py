"""The attributes of an object that model files contain.

These are all attributes except those that :data:`RULES` omits, replaces or recomputes, by the name of a class or base class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from bregmat.base.threads import cached_property
from bregmat.io.classes import is_estimator

LEFT_OUT = object()  # marks an attribute that is not written


@dataclass(frozen=True)
class Rule:
    """Exceptions for a class and its subclasses."""

    empty: tuple[str, ...] = ()  # attributes that are written as None
    # attributes that are replaced, by functions of the object; LEFT_OUT omits an attribute
    written: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    attributes: tuple[str, ...] | None = None  # all attributes of a class that is neither a dataclass nor an estimator
    made_by: Callable[..., Any] | None = None  # builds an object from these; by default they are set directly
    restored: Callable[[Any], None] | None = None  # called on the restored object, for checks


def _local_array(name: str) -> Callable[[Any], Any]:
    """An attribute if it is an array, or an empty array if it is distributed over shards of rows."""

    def written(result: Any) -> np.ndarray:
        value = getattr(result, name)
        return value if isinstance(value, np.ndarray) else np.zeros(0)

    return written


def _named_constraints(learner: Any) -> Any:
    """The constraints, unless sample ids have a type that files cannot contain, such as dates."""
    constraints = vars(learner).get("constraints_", LEFT_OUT)
    ids = None if constraints is LEFT_OUT or constraints is None else constraints.ids
    is_plain = ids is None or ids.dtype != object or all(isinstance(name, str | int | float) for name in ids)
    return constraints if is_plain else LEFT_OUT


def _plain_labels(result: Any) -> Any:
    """Labels of rows and columns as numbers or strings."""
    if result.labels is None:
        return None
    return tuple(
        [name if isinstance(name, str | int | float | np.number) else str(name) for name in names]
        for names in result.labels
    )


def _lost_parameters(learner: Any) -> Any:
    """Names of parameters that the file omits, for the error message of a learner that needs them."""
    return (learner._left_out or LEFT_OUT) if learner.preprocessor is None else ("preprocessor",)


def _gradient_state(cls: Any, settings: Any, log_prior: Any, H: Any, totals: Any, tally: Any, **words: Any) -> Any:
    """The state of a matrix exponentiated gradient learner, with checked shapes, which compiled loops rely on."""
    square = (len(H), len(H))
    _check_shape("the matrix", H, square)
    if log_prior is not None:
        _check_shape("the logarithm of the prior", log_prior, square)
    if settings.is_tallied:
        _check_shape("the table of pairs", tally.table, square)
    state = cls(settings, len(H), log_prior)
    _check_shape("the totals", totals, state.totals.shape)
    state.restore(H, totals)
    vars(state).update(words, tally=tally)
    return state


def _check_metric_shapes(learner: Any) -> None:
    """Check the shapes of an online LogDet learner, which compiled loops rely on."""
    from bregmat._kernels import online

    if learner.__sklearn_is_fitted__():
        order = -(-learner.n_features_in_ // 8) * 8
        _check_shape("the factor", learner._Bt, (order, order))
        _check_shape("the totals", learner._totals, (online.N_TOTALS,))


def _check_pca_shapes(pca: Any) -> None:
    """Check the shapes of an online PCA, which compiled loops rely on."""
    if pca.__sklearn_is_fitted__():
        d = pca.n_features_in_
        for name, shape in {"lam": (d,), "Vt": (d, d), "moment": (d, d), "totals": (5,)}.items():
            _check_shape(name, getattr(pca, f"_{name}"), shape)


def _check_shape(name: str, array: Any, shape: tuple[Any, ...]) -> None:
    if np.shape(array) != shape:
        raise ValueError(f"{name} must have shape {shape}; got {np.shape(array)}")


RULES = {
    # estimators
    "BaseEstimator": Rule(empty=("callback",)),
    "AllOrNothing": Rule(restored=lambda estimator: estimator._check_parameters()),
    "ResultLearner": Rule(written={"constraints_": _named_constraints}),
    "IndexedMetric": Rule(empty=("preprocessor",), written={"_left_out": _lost_parameters}),
    "GradientState": Rule(
        attributes=("settings", "log_prior", "H", "totals", "tally", "void", "no_fit", "misfit"),
        made_by=_gradient_state,
    ),
    "OnlineLogDet": Rule(restored=_check_metric_shapes),
    "OnlinePCA": Rule(restored=_check_pca_shapes),
    "PairTally": Rule(attributes=("table", "within")),
    # results
    "Result": Rule(written={"call": lambda result: LEFT_OUT}),
    "MatrixResult": Rule(written={name: _local_array(name) for name in ("dual", "values", "violation")}),
    "SoftmaxResult": Rule(written={name: lambda result: np.zeros((0, 0)) for name in ("dual", "values")}),
    "RepairedMatrix": Rule(written={"labels": _plain_labels}),
    "Coordinates": Rule(written={"base": lambda place: place.base if place.owns_base else None}),
    "Span": Rule(attributes=("basis",), made_by=lambda cls, basis: cls.of_basis(basis)),
    "Spectral": Rule(attributes=("divergence", "t0", "t", "F", "x")),
    "Factored": Rule(attributes=("F", "logdet")),
}


def _rules(cls: type) -> list[Rule]:
    """The rules of a class and its bases, bases first."""
    return [RULES[base.__name__] for base in reversed(cls.__mro__) if base.__name__ in RULES]


def attributes_of(obj: Any) -> dict[str, Any]:
    """The attributes of an object as a file contains them, by name."""
    cls, rules = type(obj), _rules(type(obj))
    plain = next((rule.attributes for rule in rules if rule.attributes is not None), None)
    if plain is not None:
        values = {name: getattr(obj, name) for name in plain}
    elif is_estimator(cls):
        values = _of_estimator(obj)
    else:
        values = {f.name: getattr(obj, f.name) for f in fields(cls) if f.init}
    for rule in rules:
        values |= dict.fromkeys(name for name in rule.empty if name in values)
        values |= {name: what(obj) for name, what in rule.written.items()}
    return {name: value for name, value in values.items() if value is not LEFT_OUT}


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
    """Whether an attribute is a fitted one: private or ending in "_", and no method, cached property or internal of scikit-learn."""
    if not name.isidentifier() or name.startswith(("__", "_sklearn", "_metadata_request")):
        return False
    own = getattr(cls, name, None)
    return (name.startswith("_") or name.endswith("_")) and not (callable(own) or isinstance(own, cached_property))


def object_of(cls: type, values: dict[str, Any]) -> Any:
    """Inverse of :func:`attributes_of`; raises errors of any kind if the attributes do not fit the class."""
    rules = _rules(cls)
    rule = next((rule for rule in rules if rule.attributes is not None), None)
    if rule is not None and rule.attributes is not None:
        if set(values) != set(rule.attributes):
            raise ValueError(f"a {cls.__name__} has {', '.join(rule.attributes)}; got {', '.join(values)}")
        if rule.made_by is not None:
            return rule.made_by(cls, **values)
        obj: Any = object.__new__(cls)
        vars(obj).update(values)
    elif is_estimator(cls):
        names = inspect.signature(cls).parameters
        obj = cls(**{name: value for name, value in values.items() if name in names})
        fitted = {name: value for name, value in values.items() if name not in names}
        if wrong := [name for name in fitted if not _is_fitted_name(cls, name)]:
            raise ValueError(f"{wrong[0][:100]!r} is no attribute of a {cls.__name__}")
        vars(obj).update(fitted)
    else:
        obj = cls(**values)
    for rule in rules:
        if rule.restored is not None:
            rule.restored(obj)
    return obj
