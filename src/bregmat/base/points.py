"""Checks of points as rows: in memory, on disk, sparse, or of another library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from bregmat.base.arrays import ArraySpace, array_space, is_foreign, working_space
from bregmat.base.checks import as_matrix, as_numbers, check_no_gradient, rows_text, to_numpy

MAX_DENSE = 2**28  # numbers in a dense result of sparse points: 2 GiB


@dataclass(frozen=True, eq=False)
class CheckedPoints:
    """Points that have been checked, so that inner functions do not check them again."""

    points: Any  # ndarray, memmap or csr array
    # library and device of the input if it is not NumPy; products with the points are computed there
    space: ArraySpace | None = None


def check_numeric(name: str, X: Any) -> None:
    """Raise for points that scikit-learn's check converts silently: text, masked or complex entries, objects."""
    if scipy.sparse.issparse(X) or (type(X) in (np.ndarray, np.memmap) and X.dtype.kind in "biuf"):
        return
    columns = list(getattr(X, "columns", ()))
    if len(set(columns)) < len(columns):
        repeated = next(column for column in columns if columns.count(column) > 1)
        raise ValueError(f"{name} must have columns of different names; column {repeated!r} occurs twice.")
    numbers = as_numbers(name, X, booleans=True, complex_too=True)
    if numbers.dtype.kind == "c":
        # the last sentence is the one that scikit-learn's checks look for
        raise ValueError(f"{name} must be real; got complex numbers. Complex data not supported.")
    space = array_space(X)
    if space is not None and not space.is_host:
        raise TypeError(f"{name} must be in the host's memory here; got a {space.words}: copy it there first.")
    if columns and numbers.ndim == 2 and not np.isfinite(numbers).all():
        bad = ~np.isfinite(numbers)
        counts = np.array([f"{column!r} ({n})" for column, n in zip(columns, bad.sum(axis=0)) if n])
        raise ValueError(
            f"{name} must be finite; got NaN or infinity in {rows_text(counts, 'column')}: "
            f"{rows_text(np.flatnonzero(bad.any(axis=1)))}, counted from 0. Leave these rows out (dropna), or fill these cells "
            "(sklearn.impute.SimpleImputer)."
        )


def as_points(name: str, X: Any, *, look: bool = True) -> Any:
    """Points as rows: a finite 2-D float array, memory map, or csr array.

    With ``look=False``, NaN and infinities are not checked. They are never checked for a memory map, which stays on disk.
    """
    if isinstance(X, CheckedPoints):
        return X.points
    if isinstance(X, np.memmap):
        if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "iuf":
            raise ValueError(
                f"{name} must be a 2-dimensional array of real numbers with at least one row and one column; got shape {X.shape}, "
                f"dtype {X.dtype}."
            )
        return X
    return as_matrix(name, X, sparse="csr", booleans=True, finite=look)


def copied_to_host(name: str, X: Any) -> tuple[Any, ArraySpace | None]:
    """Points, copied to the host if they are of another library, and the space for products with them (None: the host)."""
    if isinstance(X, np.ndarray) or not is_foreign(X):
        return X, None
    return to_numpy(name, X), working_space(X)


def as_array_points(name: str, x: Any, columns: int | None = None) -> Any:
    """Points as rows of another library: finite, in float32 or float64, not copied to the host; with the required number of columns."""
    space = array_space(x)
    assert space is not None
    xp = space.xp
    check_no_gradient(name, x)
    if xp.isdtype(x.dtype, "complex floating"):
        raise TypeError(f"{name} must be real; got complex numbers.")
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(
            f"{name} must be 2-dimensional, with at least one row and one column; got shape {tuple(x.shape)}."
        )
    if columns is not None and x.shape[1] != columns:
        raise ValueError(f"{name} must have {columns} columns, as what was learned from; got shape {tuple(x.shape)}.")
    if x.dtype not in (xp.float32, xp.float64):
        x = xp.astype(x, xp.float64)
    finite = xp.isfinite(x)
    if not bool(xp.all(finite)):
        bad = np.flatnonzero(~space.fetch(xp.all(finite, axis=1)))
        raise ValueError(f"{name} must be finite; got NaN or infinity in {rows_text(bad)}.")
    return x


def check_dense_size(name: str, n_rows: int, n_columns: int) -> None:
    """Raise for a dense result of sparse points that has more than MAX_DENSE numbers."""
    if n_rows * n_columns > MAX_DENSE:
        raise ValueError(
            f"{name} would be a dense array of shape ({n_rows}, {n_columns}), {n_rows * n_columns / 2**27:.1f} GiB; the limit is "
            f"{MAX_DENSE / 2**27:.0f} GiB. Learn a map to few columns with MetricLearner(n_components=...), or transform fewer rows "
            "at a time."
        )


def row_names(X: Any, constraints: Any, sample_id: Any) -> np.ndarray | None:
    """Name of each row of X; None: rows are named by their numbers.

    If the constraints name samples otherwise and no ``sample_id`` is given, the index of a pandas DataFrame is used.
    """
    if sample_id is None:
        if getattr(constraints, "ids", None) is None or not hasattr(X, "iloc"):
            return None
        sample_id = X.index
    names = np.asarray(to_numpy("sample_id", sample_id))
    if names.ndim != 1:
        raise ValueError(f"sample_id must be 1-dimensional, one name per row of X; got shape {names.shape}.")
    if names.dtype.kind == "O" and all(isinstance(v, str) for v in names):
        names = names.astype(str)
    return names
