"""Columns of constraints: samples, senses and matrices from users, checked and converted to one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from bregmat.base.checks import (
    as_column,
    as_matrix,
    as_numbers,
    as_rectangular,
    given_text,
    is_missing,
    rows_text,
    to_numpy,
)

SENSES = {"<=": 1, ">=": -1, "==": 0}
SYMBOLS = {code: symbol for symbol, code in SENSES.items()}


@dataclass(frozen=True)
class LowRankMatrix:
    """``vectors @ diag(weights) @ vectors.T``: a symmetric matrix that is never multiplied out."""

    vectors: np.ndarray
    weights: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return (self.vectors.shape[0], self.vectors.shape[0])


def sample_names(name: str, values: Any) -> np.ndarray:
    """A 1-D array of samples: non-negative integers, or names of another kind unchanged."""
    array = np.atleast_1d(as_rectangular(name, to_numpy(name, values)))
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-dimensional, one sample per constraint; got shape {array.shape}.")
    if array.dtype.kind == "c":
        raise TypeError(f"{name} must hold row numbers or sample names, not complex numbers.")
    # NumPy writes None and NaN in a list of words as words; NaN in an array of floats is refused below
    members = values if array.dtype.kind == "U" and isinstance(values, list | tuple) else array
    bad = np.flatnonzero([is_missing(v) for v in members] if array.dtype.kind in "OmMU" else [])
    if len(bad):
        raise ValueError(
            f"{name} must hold row numbers or sample names; it is missing in {rows_text(bad, 'constraint')}."
        )
    whole = array.dtype.kind == "O" and all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in array)
    if (whole or array.dtype.kind == "u") and array.size:
        # Python integers and unsigned ones may not fit in 64 bits
        far = (array > np.iinfo(np.int64).max) | (array < np.iinfo(np.int64).min)
        _refuse(name, "be below 2^63", array, far)
        array = array.astype(np.int64)
    if array.dtype.kind == "f":
        is_whole = (array == np.rint(array)) & (np.abs(array) < 2.0**53)
        _refuse(name, "hold row numbers or sample names", array, ~is_whole)
        array = array.astype(np.int64)
    if array.dtype.kind == "b":
        raise TypeError(f"{name} must hold row numbers or sample names, not booleans.")
    if array.dtype.kind in "iu":
        _refuse(name, "be at least 0 where it holds numbers", array, array < 0)
        return array.astype(np.int64)
    return array


def _refuse(name: str, demand: str, array: np.ndarray, is_bad: np.ndarray) -> None:
    """Raise ValueError for the bad entries of an array, if there are any."""
    bad = np.flatnonzero(is_bad)
    if len(bad):
        raise ValueError(f"{name} must {demand}; got {array[bad[0]]} in {rows_text(bad, 'constraint')}.")


def as_rows(name: str, value: Any, n: int) -> np.ndarray:
    """Row numbers among n, from a boolean mask, a slice, a number or several; negative numbers count from the end."""
    if isinstance(value, slice):
        try:
            return np.arange(n)[value]
        except TypeError as error:
            raise TypeError(f"{name} must be a slice of integers; got {value!r}.") from error
    array = np.atleast_1d(np.asarray(value))
    if array.dtype.kind == "b":
        if array.shape != (n,):
            raise ValueError(f"{name} must have one truth value per constraint ({n}); got shape {array.shape}.")
        return np.flatnonzero(array)
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-dimensional; got shape {array.shape}.")
    whole = array.dtype.kind in "iu" or all(isinstance(v, Integral) and not isinstance(v, bool) for v in array)
    if not whole:
        raise TypeError(f"{name} must be a mask, a slice or numbers of constraints; got {given_text(value)}.")
    bad = np.flatnonzero((array < -n) | (array >= n))
    if len(bad):
        raise ValueError(
            f"{name} must be below the number of constraints ({n}); got {array[bad[0]]} at place {bad[0]}."
        )
    rows = array.astype(np.int64)
    return np.where(rows < 0, rows + n, rows)


def as_row(name: str, value: Any, n: int) -> int:
    """One row number among n; negative numbers count from the end."""
    if np.ndim(value) or not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be the number of a constraint; got {value!r}.")
    return int(as_rows(name, int(value), n)[0])


def is_number_word(value: Any) -> bool:
    """Whether `value` reads as a float."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def as_tuples(name: str, values: Any, roles: str) -> list[Any]:
    """Columns of a list of pairs or triplets of samples, shape (c, k); ``roles`` names the k members."""
    k = len(roles.split())
    want = f"{name} must have shape (c, {k}), the samples {', '.join(roles.split())} by row number or name, of each"
    values = to_numpy(name, values)
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if not np.iterable(values) or isinstance(values, str | bytes | dict | set):
        raise TypeError(f"{want}; got {values!r}.")
    if not isinstance(values, np.ndarray):  # NumPy would convert mixed names and numbers to names
        values = list(values)
        bad = [row for row, members in enumerate(values) if isinstance(members, str) or np.shape(members)[:1] != (k,)]
        if bad:
            raise ValueError(f"{want}; got {values[bad[0]]!r} in {rows_text(np.array(bad))}.")
        columns = [list(column) for column in zip(*values)]
        if any(np.ndim(member) for column in columns for member in column[:1]):
            raise ValueError(f"{want}; got points: stack these below each other and name them by their row numbers.")
    else:
        if values.ndim == 3:
            raise ValueError(f"{want}; got points: stack these below each other and name them by their row numbers.")
        if values.ndim != 2 or values.shape[1] != k:
            raise ValueError(f"{want}; got shape {values.shape}.")
        columns = list(values.T)
    if not columns or not len(columns[0]):
        raise ValueError(f"{name} are empty; give at least one.")
    return columns


def similar(y: Any, c: int) -> np.ndarray:
    """Which pairs are similar, from 1 and -1, 1 and 0, or truth values; boolean, shape (c,)."""
    values = as_numbers("y", y, booleans=True)
    values = as_column("y", values, c, per="pair", scalar=True)
    bad = np.flatnonzero(~np.isin(values, (-1.0, 0.0, 1.0)))
    if len(bad):
        raise ValueError(
            f"y must be 1 for similar and -1 for dissimilar pairs (or 1 and 0, or truth values); got {values[bad[0]]:g} in "
            f"{rows_text(bad)}."
        )
    if (values == 0).any() and (values == -1).any():
        raise ValueError("y holds both 0 and -1: which one means dissimilar?")
    return values > 0


def sense_codes(sense: Any, c: int) -> np.ndarray:
    """Codes +1, -1, 0 of "<=", ">=", "==", shape (c,)."""
    try:
        symbols = [sense] if isinstance(sense, str) else list(sense)
    except TypeError as error:
        raise TypeError(
            f'sense must be "<=", ">=" or "==", one string or one per constraint; got {sense!r}.'
        ) from error
    if len(symbols) not in (1, c):
        raise ValueError(f"sense must be one string or one per constraint ({c}); got {len(symbols)}.")
    bad = [k for k, s in enumerate(symbols) if s not in SENSES]
    if bad:
        raise ValueError(
            f'sense must be "<=", ">=" or "=="; got {symbols[bad[0]]!r} in {rows_text(np.array(bad), "constraint")}.'
        )
    return np.broadcast_to(np.array([SENSES[s] for s in symbols], dtype=np.int8), (c,)).copy()


def index_table(columns: dict[str, Any]) -> tuple[np.ndarray, np.ndarray | None]:
    """Columns of samples as positions (c, k), and the table of their names (None for row numbers)."""
    arrays = {name: sample_names(name, values) for name, values in columns.items()}
    lengths = {len(v) for v in arrays.values()}
    c = max(lengths)
    if lengths - {1, c}:
        shown = ", ".join(f"{k}: {len(v)}" for k, v in arrays.items())
        raise ValueError(f"{', '.join(arrays)} must have the same length; got {shown}.")
    numeric = [v.dtype.kind == "i" for v in arrays.values()]
    if all(numeric):
        return np.stack([np.broadcast_to(v, (c,)) for v in arrays.values()], axis=1), None
    if any(numeric):
        raise TypeError(f"{', '.join(arrays)} must all be numbers or all be names of the same kind.")
    stacked = np.concatenate([np.broadcast_to(v, (c,)) for v in arrays.values()])
    ids, inverse = np.unique(stacked, return_inverse=True)
    return inverse.reshape(len(arrays), c).T, ids


def stacked_indices(indices: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of positions stacked to one new array; missing columns are unused (-1)."""
    stacked = np.full((sum(map(len, indices)), max([index.shape[1] for index in indices])), -1, dtype=np.int64)
    begin = 0
    for index in indices:
        stacked[begin : begin + len(index), : index.shape[1]] = index
        begin += len(index)
    return stacked


def check_unique(names: np.ndarray) -> np.ndarray:
    """The order that sorts names of samples; raises unless they are a column of unique names."""
    if names.ndim != 1:
        raise ValueError(f"sample_id must be 1-dimensional; got shape {names.shape}.")
    try:
        order = np.argsort(names, kind="stable")
    except TypeError as error:
        raise TypeError(f"sample_id must hold names of one kind: {error}.") from error
    ordered = names[order]
    repeated = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(repeated):
        rows = np.sort(order[ordered == ordered[repeated[0]]])
        raise ValueError(
            f"sample_id must be unique; {ordered[repeated[0]]!s} occurs more than once, in {rows_text(rows)}."
        )
    return order


def positions(names: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Position of each key among the names, which must be unique; -2 for other keys."""
    order = check_unique(names)
    ordered = names[order]
    theirs, ours = ("numbers" if a.dtype.kind in "iuf" else "names" for a in (names, keys))
    if len(keys) and len(names) and ours != theirs:
        raise TypeError(
            f"sample_id holds {theirs} such as {names[0]!s} (row numbers, where it is not given) but the constraints name samples by "
            f"{ours} such as {keys[0]!s}; use one kind: pass sample_id= with the name of each row of X."
        )
    if not len(names):
        return np.full(len(keys), -2)
    place = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    return np.where(ordered[place] == keys, order[place], -2)


def symmetric_matrix(m: Any, row: int) -> Any:
    """The symmetric matrix of a linear constraint: dense, sparse or of low rank, as it was given."""
    name = f"matrices[{row}]"
    if isinstance(m, LowRankMatrix):
        return m
    if isinstance(m, Sequence) and len(m) == 2 and np.ndim(m[0]) in (1, 2) and np.ndim(m[1]) == 1 and not _is_square(m):
        vectors = as_matrix(f"{name}: vectors", np.reshape(m[0], (-1, 1)) if np.ndim(m[0]) == 1 else m[0], copy=True)
        return LowRankMatrix(vectors, as_column(f"{name}: weights", m[1], vectors.shape[1], per="vector", copy=True))
    return as_matrix(name, m, symmetric=True, sparse="csr", copy=True)


def _is_square(m: Any) -> bool:
    """Whether a pair is a 2 x 2 matrix given as two rows."""
    return np.ndim(m[0]) == 1 and len(m[0]) == 2 and len(m[1]) == 2 and not isinstance(m, tuple)
