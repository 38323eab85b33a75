"""The constraints of a fit: those given, found among the rows at hand, joined with those drawn from labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.columns import rows_text
from bregmat.constraints import Constraints


def sample_names(X: Any, constraints: Any, sample_id: Any) -> np.ndarray | None:
    """Name of each row of X, None for row numbers.

    A pandas index is used when constraints name samples by something else than numbers and no ``sample_id`` is given.
    """
    if sample_id is None:
        if getattr(constraints, "ids", None) is None or not hasattr(X, "iloc"):
            return None
        sample_id = X.index
    names = np.asarray(sample_id)
    if names.ndim != 1:
        raise ValueError(f"sample_id must be 1-dimensional, one name per row of X; got shape {names.shape}.")
    if names.dtype.kind == "O" and all(isinstance(v, str) for v in names):
        names = names.astype(str)
    return names


def rows_given(constraints: Any, names: np.ndarray | None, n: int) -> tuple[Constraints | None, int]:
    """Constraints in row numbers (None if none applies), and how many name a sample that is not there.

    Without names, a number beyond the data is an error: it would mean that the numbers are not those of these rows.
    """
    if constraints is None:
        return None, 0
    if not isinstance(constraints, Constraints):
        raise TypeError(f"constraints must be a bregmat.Constraints object; got {type(constraints).__name__}.")
    if names is None:
        named = ~constraints.where("is_whole")
        outside = np.flatnonzero((constraints.index >= n).any(axis=1) & named)
        if constraints.ids is None and len(outside):
            raise ValueError(
                f"constraints name samples up to {constraints.index[named].max()} but X has {n} rows "
                f"({rows_text(outside)} of the constraints). In cross-validation, or if these are not row numbers of "
                "X, pass sample_id."
            )
    elif len(names) != n:
        raise ValueError(f"sample_id must name each of the {n} rows of X; got {len(names)}.")
    located, kept = constraints.locate(names, n)
    return located, int((~kept).sum())


def joined(drawn: Constraints | None, given: Constraints | None, n_dropped: int) -> Constraints:
    """Both, or the one there is; an error if there is none."""
    if drawn is not None and given is not None:
        return drawn + given
    rows = drawn if drawn is not None else given
    if rows is None:
        raise ValueError(
            f"no constraint is left: {n_dropped} name a sample that is not in sample_id, and no labels are used."
            if n_dropped
            else "no constraint is left: n_constraints=0 ignores y, and constraints is None."
        )
    return rows


def renamed(rows: Constraints, names: np.ndarray | None) -> Constraints:
    """Constraints in row numbers, named by ``names``."""
    if names is None:
        return rows
    if names.dtype.kind not in "iu" or (names < 0).any():
        return replace(rows, ids=names)
    index = rows.index.copy()
    used = (index >= 0) & ~rows.where("is_whole")[:, None]
    index[used] = names[index[used]]
    return replace(rows, index=index)
