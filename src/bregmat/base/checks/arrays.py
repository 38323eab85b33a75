"""Checks of arrays of any shape, columns and row numbers."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.arrays import to_numpy
from bregmat.base.checks.messages import Labels, entry_text, given_text, not_numbers_text, rows_text


def as_numbers(
    name: str, values: Any, *, booleans: bool = False, complex_too: bool = False, copy: bool = False
) -> np.ndarray:
    """A dense float64 array of any shape; complex128 for complex numbers.

    Raises for text, ragged lists, sparse and masked arrays, and for booleans and complex numbers unless they are allowed. Finiteness and
    shape are checked by :func:`as_column`, :func:`as_matrix` and :func:`as_points`.

    Parameters
    ----------
    name, booleans, complex_too, copy
        As in :func:`as_matrix`.
    values : array-like
    """
    if scipy.sparse.issparse(values):
        raise TypeError(f"{name} must be dense; got a sparse {type(values).__name__}: pass its .toarray().")
    if np.ma.isMaskedArray(values) and np.ma.is_masked(values):
        rows = np.unique(np.nonzero(np.atleast_1d(np.ma.getmaskarray(values)))[0])
        raise ValueError(f"{name} must have no masked entries; got some in {rows_text(rows)}.")
    try:
        is_here = isinstance(values, np.ndarray | float | int)  # not an array of another library
        array = np.asarray(values if is_here else to_numpy(name, values))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be numeric; got {given_text(values)}: {str(error).rstrip('.')}.") from error
    kind = array.dtype.kind
    if kind == "c" and not complex_too:
        raise TypeError(f"{name} must be real; got complex numbers.")
    if kind == "b" and not booleans:
        raise TypeError(f"{name} must be numeric; got truth values.")
    if kind not in "biufcO" or values is None:
        raise TypeError(f"{name} must be numeric; got {given_text(values if array.ndim == 0 else array)}.")
    try:
        if kind == "O" and any(isinstance(value, str | bytes) for value in array.flat):
            raise TypeError("it holds text")  # which NumPy would convert to numbers if it can
        return array.astype(complex if kind == "c" else float, copy=copy)
    except (TypeError, ValueError) as error:
        text = f"{name} must be numeric; got {given_text(values)}: {str(error).rstrip('.')}"
        raise TypeError(f"{text}{not_numbers_text(values, array)}.") from error


def check_finite(name: str, A: Any, labels: Labels = None, *, hint: str = "") -> None:
    """Raise for NaN and infinities, naming the first rows.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    A : ndarray, or csr or csc array
    labels, hint
        As in :func:`as_matrix`.
    """
    values = A.data if scipy.sparse.issparse(A) else A
    if np.isfinite(values).all():
        return
    if scipy.sparse.issparse(A):
        entries = A.tocoo()
        rows, first = np.unique(entries.row[~np.isfinite(entries.data)]), None
    else:
        bad = np.argwhere(~np.isfinite(A))
        rows, first = np.unique(bad[:, 0]), bad[0]
    if A.ndim == 1:
        raise ValueError(f"{name} must be finite; got {A[rows[0]]} in {rows_text(rows)}.{hint}")
    where = (
        ""
        if first is None or not (labels or hint)
        else f", the first is {A[tuple(first)]} at {entry_text(first[0], first[1], labels)}"
    )
    raise ValueError(f"{name} must be finite; got NaN or infinity in {rows_text(rows)}{where}.{hint}")


# ---------------------------------------------------------------------- columns
def as_column(
    name: str,
    values: Any,
    length: int | None = None,
    *,
    per: str = "row",
    scalar: bool = False,
    infinite: bool = False,
    lowest: float | None = None,
    positive: bool = False,
    hint: str = "",
    copy: bool = False,
) -> np.ndarray:
    """A float column, shape (length,), without NaN.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    values : array-like, shape (length,), or a number where ``scalar``
    length : int, optional
        None: any length.
    per : str
        What each entry belongs to, for messages.
    scalar : bool
        Whether a single number (or one entry) is allowed; it is repeated to a new column.
    infinite : bool
        Whether infinities are allowed.
    lowest : float, optional
        Smallest value allowed.
    positive : bool
        Whether values must be above 0.
    hint : str
        Text after the condition in messages, e.g. ``" (inf for no bound)"``.
    copy : bool
        Whether to return a copy.
    """
    column = as_numbers(name, values, copy=copy)
    if scalar and length is not None and column.size == 1 and column.ndim <= 1:
        column = np.full(length, column.item())
    if column.ndim != 1 or (length is not None and len(column) != length):
        shape = "be 1-dimensional" if length is None else f"have one entry per {per} ({length})"
        raise ValueError(f"{name} must {'be a number or ' * scalar}{shape}; got shape {np.shape(values)}.")
    good = ~np.isnan(column) if infinite else np.isfinite(column)
    if positive:
        good &= column > 0
    if lowest is not None:
        good &= column >= lowest
    if not good.all():
        wanted = ["finite"] if not infinite else []
        wanted += ["positive"] if positive else [f"at least {lowest:g}"] if lowest is not None else []
        rows = np.flatnonzero(~good)
        words = " and ".join(wanted) or "a number"
        raise ValueError(f"{name} must be {words}{hint}; got {column[rows[0]]} in {rows_text(rows)}.")
    return column


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
            raise ValueError(f"{name} must have one truth value per row ({n}); got shape {array.shape}.")
        return np.flatnonzero(array)
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-dimensional; got shape {array.shape}.")
    whole = array.dtype.kind in "iu" or all(isinstance(v, Integral) and not isinstance(v, bool) for v in array)
    if not whole:
        raise TypeError(f"{name} must be a mask, a slice or row numbers; got {given_text(value)}.")
    bad = np.flatnonzero((array < -n) | (array >= n))
    if len(bad):
        raise ValueError(f"{name} must be below the number of rows ({n}); got {array[bad[0]]} at place {bad[0]}.")
    rows = array.astype(np.int64)
    return np.where(rows < 0, rows + n, rows)


def as_row(name: str, value: Any, n: int) -> int:
    """One row number among n; negative numbers count from the end."""
    if np.ndim(value) or not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be a row number; got {value!r}.")
    return int(as_rows(name, int(value), n)[0])
