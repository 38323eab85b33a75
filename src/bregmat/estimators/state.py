"""Estimators as plain values and arrays, for files (``bregmat.save``)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from bregmat.constraints import Constraints
from bregmat.nearest import SOLVERS
from bregmat.relations import BUILT_IN, RELATIONS

_COLUMNS = ("relation", "index", "bound", "sense", "weight")


def parameters_state(params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Hyper-parameters as plain values and arrays.

    Library objects with a name become that name, solver objects their name and settings. Callbacks and random generators are
    not kept: None.
    """
    meta: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for name, value in params.items():
        if name == "callback" or isinstance(value, np.random.Generator | np.random.RandomState):
            meta[name] = None
        elif name in ("divergence", "loss") and hasattr(value, "name"):
            meta[name] = value.name
        elif name == "solver" and type(value) in SOLVERS.values():
            meta[name] = {"name": value.name, **asdict(value)}
        elif name == "prior" and not isinstance(value, str):
            arrays["params.prior"] = np.asarray(value, dtype=float)
        else:
            meta[name] = value
    return meta, arrays


def parameters_restored(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Inverse of :func:`parameters_state`."""
    solver = meta.get("solver")
    if isinstance(solver, dict):
        settings = {key: tuple(v) if isinstance(v, list) else v for key, v in solver.items() if key != "name"}
        meta = {**meta, "solver": SOLVERS[solver["name"]](**settings)}
    return {**meta, **{name.removeprefix("params."): a for name, a in arrays.items() if name.startswith("params.")}}


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
    relations = (*BUILT_IN, *(RELATIONS[name] for name in more))
    return Constraints(**columns, ids=arrays.get("constraints.ids"), relations=relations)


def prefixed(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every name with ``prefix.`` before it."""
    return {f"{prefix}.{name}": a for name, a in arrays.items()}


def unprefixed(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays that :func:`prefixed` named."""
    start = f"{prefix}."
    return {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}
