"""Estimators as plain values and arrays, for files (``bregmat.save``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.constraints.constraints import Constraints
from bregmat.constraints.relations import BUILT_IN, RELATIONS, table_of
from bregmat.objective.divergences import DIVERGENCES
from bregmat.objective.losses import LOSSES
from bregmat.run.loop import SOLVERS

_TERMS = {"divergence": DIVERGENCES, "loss": LOSSES}
_COLUMNS = ("relation", "index", "bound", "sense", "weight")


# ---------------------------------------------------------------------- what every fitted estimator keeps
def estimator_state(estimator: Any, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Hyper-parameters, columns and what is ``_kept`` of a fitted estimator; callers add what else was learned."""
    if any(map(callable, (params.get("kernel"), *params.get("kernels", ())))):
        raise TypeError(f"a {type(estimator).__name__} whose kernel is a function cannot be saved: files hold no code.")
    plain, arrays = parameters_state(params, solvers=estimator._solvers)
    meta = {"params": plain, "n_features_in": estimator.n_features_in_} | names_state(estimator)
    if params.get("preprocessor") is not None:
        meta["left_out"] = ["preprocessor"]
    for name in estimator._kept:
        value = getattr(estimator, name, None)
        if isinstance(value, np.ndarray):
            arrays[_key(name)] = value
        elif value is not None:
            meta[_key(name).rstrip("_")] = value
    return meta, arrays


def _key(name: str) -> str:
    """What files call a fitted attribute; numbers without the underscore at the end."""
    return name.removeprefix("_fit_")


def estimator_restored(cls: Any, meta: dict[str, Any], arrays: dict[str, np.ndarray], **params: Any) -> Any:
    """An estimator with the hyper-parameters, columns and what was ``_kept`` in a file.

    Parameters
    ----------
    cls : type
        Its class.
    meta, arrays : dict
        What :func:`estimator_state` gave.
    **params
        Hyper-parameters that the file does not hold as they are.
    """
    estimator = cls(**parameters_restored(meta["params"], arrays, solvers=cls._solvers), **params)
    estimator._check_parameters()
    for name in cls._kept:
        value = arrays.get(_key(name), meta.get(_key(name).rstrip("_")))
        if value is not None:
            setattr(estimator, name, value)
    if meta.get("left_out"):
        estimator._left_out = tuple(meta["left_out"])
    estimator.n_features_in_ = int(meta["n_features_in"])
    restore_names(estimator, meta)
    return estimator


def names_state(estimator: Any) -> dict[str, Any]:
    """Names of the columns that an estimator was fitted on; empty where they had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return {} if names is None else {"feature_names_in": [str(name) for name in names]}


def restore_names(estimator: Any, meta: dict[str, Any]) -> None:
    """Set what :func:`names_state` gave; nothing where there were no names."""
    if meta.get("feature_names_in") is not None:
        estimator.feature_names_in_ = np.array(meta["feature_names_in"], dtype=object)


def parameters_state(
    params: dict[str, Any], *, solvers: Mapping[str, type] = SOLVERS
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Hyper-parameters as plain values and arrays.

    Divergences and losses become their name (and settings), solver objects (of the classes in ``solvers``) their name and
    settings. Callbacks, preprocessors and random generators are not kept: None.
    """
    meta: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for name, value in params.items():
        if name in ("callback", "preprocessor") or isinstance(value, np.random.Generator | np.random.RandomState):
            meta[name] = None
        elif name in _TERMS and value is not None and not isinstance(value, str):
            meta[name] = _TERMS[name].to_state(value)
        elif name == "solver" and type(value) in solvers.values():
            meta[name] = {"name": value.name, **asdict(value)}
        elif name == "prior" and not isinstance(value, str):
            arrays["params.prior"] = np.asarray(value, dtype=float)
        else:
            meta[name] = value
    return meta, arrays


def parameters_restored(
    meta: dict[str, Any], arrays: dict[str, np.ndarray], *, solvers: Mapping[str, type] = SOLVERS
) -> dict[str, Any]:
    """Inverse of :func:`parameters_state`."""
    terms = {name: _TERMS[name].from_state(meta[name]) for name in _TERMS if isinstance(meta.get(name), dict)}
    meta = {**meta, **terms}
    solver = meta.get("solver")
    if isinstance(solver, dict):
        settings = {key: tuple(v) if isinstance(v, list) else v for key, v in solver.items() if key != "name"}
        meta = {**meta, "solver": solvers[solver["name"]](**settings)}
    return {**meta, **{name.removeprefix("params."): a for name, a in arrays.items() if name.startswith("params.")}}


# ---------------------------------------------------------------------- parts of it
def constraints_state(constraints: Constraints) -> dict[str, np.ndarray] | None:
    """Columns as arrays, and the names of relations beside those of the library; None for rows with matrices of their own or
    with names that are not plain."""
    ids = constraints.ids
    if constraints.matrices or (ids is not None and ids.dtype.kind == "O"):
        return None
    arrays = {f"constraints.{name}": getattr(constraints, name) for name in _COLUMNS}
    if len(constraints.relations) > len(BUILT_IN):
        arrays["constraints.relations"] = np.array([r.name for r in constraints.relations[len(BUILT_IN) :]])
    return arrays if ids is None else {**arrays, "constraints.ids": ids}


def constraints_restored(arrays: dict[str, np.ndarray]) -> Constraints | None:
    """Inverse of :func:`constraints_state`."""
    if "constraints.relation" not in arrays:
        return None
    columns: dict[str, Any] = {name: arrays[f"constraints.{name}"] for name in _COLUMNS}
    more = [str(name) for name in arrays.get("constraints.relations", ())]
    if unknown := [name for name in more if name not in RELATIONS]:
        raise ValueError(
            f"the relation {unknown[0]!r} is not known; give it to bregmat.register before loading this file."
        )
    relations = table_of(*(RELATIONS[name] for name in more))
    return Constraints(**columns, ids=arrays.get("constraints.ids"), relations=relations)


def points_state(name: str, X: Any) -> dict[str, np.ndarray]:
    """An array, or the three arrays of a CSR matrix and its shape; nothing for None."""
    if X is None:
        return {}
    if not sp.issparse(X):
        return {name: np.asarray(X)}
    X = sp.csr_array(X)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
    return {f"{name}.{part}": a for part, a in parts.items()}


def points_restored(name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Inverse of :func:`points_state`; None if there are none."""
    if f"{name}.data" not in arrays:
        return arrays.get(name)
    data, indices, indptr, shape = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr", "shape"))
    return sp.csr_array((data, indices, indptr), shape=tuple(int(s) for s in shape))


def store(meta: dict[str, Any], arrays: dict[str, np.ndarray], name: str, part: Any) -> None:
    """Put the state of a part under its name, and ``name.`` before the names of its arrays.

    Parameters
    ----------
    meta, arrays : dict
        What gains the plain values and the arrays.
    name : str
    part : object
        With a method ``to_state``.
    """
    meta[name], more = part.to_state()
    arrays.update({f"{name}.{key}": a for key, a in more.items()})


def unprefixed(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays that :func:`store` named."""
    start = f"{prefix}."
    return {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}
