"""Every check of an argument, once: numbers, choices, limits, columns, matrices (points: :mod:`bregmat.points`).

``check_*`` only raises; ``as_*`` returns what the caller works with, which is the array given wherever nothing had to be
converted (callers that write into it pass ``copy=True``). One message for each mistake: the argument, what was expected, what
was given, and the first rows or the entry where. What is of the wrong kind (text, complex numbers, truth values where numbers
are meant) is a ``TypeError``, what is of the wrong shape or value a ``ValueError``; nothing is dropped or converted silently.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Number, Real
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.arrays import to_numpy

SYMMETRY = 1e-8  # difference of two mirrored entries, relative to the largest entry, that counts as rounding
SINGLE_SYMMETRY = 1e-5  # the same for data in single precision
NEGATIVITY = 1e-8  # negative eigenvalue of a PSD matrix, relative to the largest one, that counts as rounding
TILE = 256  # rows and columns of a tile that is compared with its mirror image: both stay in cache

Labels = tuple[list[Any], list[Any]] | None  # of rows and columns, from a DataFrame


# ---------------------------------------------------------------------- numbers
def check_number(name: str, value: Any, *, hint: str = "") -> None:
    """Raise ``TypeError`` unless ``value`` is a real number and not a truth value."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be {hint}a number; got {value!r}.")


def check_positive(name: str, value: Any, *, finite: bool = False, zero: bool = False, hint: str = "") -> None:
    """Raise unless ``value`` is a positive number.

    Parameters
    ----------
    name : str
        The argument, as the caller knows it.
    value : object
    finite, zero : bool
        Whether ``inf`` is refused, and whether 0 is taken.
    hint : str
        What else it may be, e.g. ``"None or "``.
    """
    check_number(name, value, hint=hint)
    if not (float(value) > 0 or (zero and value == 0)) or (finite and not np.isfinite(float(value))):
        words = ("finite and at least 0" if finite else "at least 0") if zero else "positive" + " and finite" * finite
        raise ValueError(f"{name} must be {hint}{words}; got {value!r}.")


def check_integer(name: str, value: Any, lowest: int, *, optional: bool = True) -> None:
    """Raise unless ``value`` is an integer.

    Parameters
    ----------
    name, value
        As in :func:`check_positive`.
    lowest : int
        Smallest value allowed.
    optional : bool
        Whether it may be None.
    """
    if value is None and optional:
        return
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer{' or None' if optional else ''}; got {value!r}.")
    if value < lowest:
        raise ValueError(f"{name} must be at least {lowest}; got {value!r}.")


def check_flag(name: str, value: Any, *, optional: bool = False) -> None:
    """Raise unless ``value`` is True or False, or None where that is allowed."""
    if not (isinstance(value, bool | np.bool_) or (optional and value is None)):
        raise TypeError(f"{name} must be {'None, ' * optional}True or False; got {value!r}.")


def check_limits(
    *, tol: Any, max_iter: Any = None, max_seconds: Any = None, callback: Any = None, fewest: int = 0
) -> None:
    """Raise for a tolerance, limits or a callback that make no sense: what every loop takes.

    Parameters
    ----------
    tol, max_iter, max_seconds, callback : object
    fewest : int
        Smallest ``max_iter`` allowed.
    """
    check_positive("tol", tol, finite=True)
    check_integer("max_iter", max_iter, fewest)
    if max_seconds is not None:
        check_positive("max_seconds", max_seconds)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable; got {callback!r}.")


def as_choice(name: str, value: Any, options: Iterable[Any], *, hint: str = "") -> Any:
    """``value``, which must be one of the options.

    Parameters
    ----------
    name, value
        As in :func:`check_positive`.
    options : iterable of str or None
    hint : str
        What else would do, behind the options in the message.
    """
    known = list(options)
    if not (value is None or isinstance(value, str)) or value not in known:
        shown = ", ".join(repr(option) for option in known)
        raise ValueError(f"{name} must be one of {shown}{hint}; got {value!r}.")
    return value


# ---------------------------------------------------------------------- words
def rows_text(rows: np.ndarray, most: int = 5) -> str:
    """Name the first few of the given row numbers."""
    head = ", ".join(str(int(r)) for r in rows[:most])
    return f"row{'s' if len(rows) > 1 else ''} {head}" + (f" and {len(rows) - most} more" if len(rows) > most else "")


def entry_text(i: Any, j: Any, labels: Labels = None) -> str:
    """An entry by its numbers, and by its labels where there are any."""
    place = f"[{int(i)}, {int(j)}]"
    return place if labels is None else f"{place} ({labels[0][int(i)]!r}, {labels[1][int(j)]!r})"


def _given(value: Any) -> str:
    """What was given, in a few words."""
    if value is None or isinstance(value, str | bytes | Real):
        return repr(value)
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ + (f" with dtype {dtype}" if dtype is not None else "")


def _not_numbers(values: Any, array: np.ndarray, most: int = 5) -> str:
    """Where a table holds what is no number: its first columns that do, with the first entry of each."""
    if array.ndim != 2:
        return ""
    names, found = list(getattr(values, "columns", range(array.shape[1]))), []
    for name, column in zip(names, array.T):
        for row, value in enumerate(column):
            if value is not None and not isinstance(value, Number | np.bool_):
                found.append(f"{name!r} ({value!r} in row {row})")
                break
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f", in column{'s' if len(found) > 1 else ''} {', '.join(found[:most])}{more}" if found else ""


# ---------------------------------------------------------------------- arrays of any shape
def as_numbers(
    name: str, values: Any, *, booleans: bool = False, complex_too: bool = False, copy: bool = False
) -> np.ndarray:
    """A dense float64 array of any shape; complex128 for complex numbers.

    Refuses by name: text, ragged lists, sparse and masked arrays, and what the parameters say. Finite-ness and shape are
    questions of :func:`as_column`, :func:`as_matrix` and :func:`as_points`.

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
        array = np.asarray(to_numpy(name, values))
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be numeric; got {_given(values)}: {str(error).rstrip('.')}.") from error
    kind = array.dtype.kind
    if kind == "c" and not complex_too:
        raise TypeError(f"{name} must be real; got complex numbers.")
    if kind == "b" and not booleans:
        raise TypeError(f"{name} must be numeric; got truth values.")
    if kind not in "biufcO" or values is None:
        raise TypeError(f"{name} must be numeric; got {_given(values if array.ndim == 0 else array)}.")
    try:
        if kind == "O" and any(isinstance(value, str | bytes) for value in array.flat):
            raise TypeError("it holds text")  # which NumPy would read as numbers where it can
        return array.astype(complex if kind == "c" else float, copy=copy)
    except (TypeError, ValueError) as error:
        text = f"{name} must be numeric; got {_given(values)}: {str(error).rstrip('.')}"
        raise TypeError(f"{text}{_not_numbers(values, array)}.") from error


def check_finite(name: str, A: Any, labels: Labels = None, *, hint: str = "") -> None:
    """Raise for NaN and infinities, naming the first rows.

    Parameters
    ----------
    name : str
        The argument, as the caller knows it.
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
        The argument, as the caller knows it.
    values : array-like, shape (length,), or a number where ``scalar``
    length : int, optional
        None: as long as it is.
    per : str
        What one entry belongs to, for the message.
    scalar : bool
        Whether a single number (or one entry) stands for a whole column; the column returned is the caller's own then.
    infinite : bool
        Whether infinities may stand in it.
    lowest : float, optional
        Smallest value allowed.
    positive : bool
        Whether values must be above 0.
    hint : str
        Stands in the message behind the condition, e.g. ``" (inf for no bound)"``.
    copy : bool
        Whether the caller needs a column of its own.
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
        raise TypeError(f"{name} must be a mask, a slice or row numbers; got {_given(value)}.")
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


# ---------------------------------------------------------------------- matrices
def as_matrix(
    name: str,
    A: Any,
    *,
    square: bool = False,
    symmetric: bool = False,
    psd: bool = False,
    order: int | None = None,
    finite: bool = True,
    sparse: str | None = None,
    booleans: bool = False,
    complex_too: bool = False,
    empty: bool = False,
    labels: Labels = None,
    hint: str = "",
    copy: bool = False,
) -> Any:
    """A two-dimensional array of float64 with at least one row and column (unless ``empty``).

    Parameters
    ----------
    name : str
        The argument, as the caller knows it.
    A : array-like, DataFrame or scipy.sparse matrix, shape (n, d)
    square, symmetric, psd : bool
        Each includes those before it. A symmetric matrix is exactly symmetric on return (Hermitian, where it is complex):
        differences up to ``SYMMETRY`` are rounding and averaged. ``psd`` costs the eigenvalues: callers that need those
        anyway pass ``symmetric`` and give them to :func:`check_psd`.
    order : int, optional
        Of a square matrix.
    finite : bool
        False: NaN and infinities are the caller's question (not with ``symmetric``).
    sparse : {None, "csr", "csc", "dense"}
        What becomes of a sparse matrix: None refuses it.
    booleans : bool
        Whether truth values count as 0 and 1.
    complex_too : bool
        Whether complex numbers are welcome.
    empty : bool
        Whether there may be no rows.
    labels : pair of lists, optional
        Names of rows and columns, for messages.
    hint : str
        A sentence, with a leading space, after the messages about asymmetry and infinities.
    copy : bool
        Whether the caller needs a matrix of its own.
    """
    if scipy.sparse.issparse(A) and sparse is not None:
        A = _as_sparse(name, A, sparse, complex_too, copy)
    else:
        A = as_numbers(name, A, booleans=booleans, complex_too=complex_too, copy=copy)
    square = square or symmetric or psd or order is not None
    if square and (A.ndim != 2 or A.shape[0] != A.shape[1]):
        raise ValueError(f"{name} must be square; got shape {A.shape}.")
    if A.ndim != 2:
        raise ValueError(f"{name} must be 2-dimensional; got shape {A.shape}.")
    if 0 in A.shape[empty:]:
        raise ValueError(f"{name} must have at least one row and one column; got shape {A.shape}.")
    if order is not None and A.shape[0] != order:
        raise ValueError(f"{name} must have shape ({order}, {order}); got {A.shape}.")
    if finite or symmetric or psd:
        check_finite(name, A, labels, hint=hint)
    if symmetric or psd:
        A = A if is_exactly_symmetric(name, A, labels=labels, hint=hint) else 0.5 * (A + A.conj().T)
    if psd:
        check_psd(name, np.linalg.eigvalsh(A if isinstance(A, np.ndarray) else A.toarray()))
    return A


def _as_sparse(name: str, A: Any, form: str, complex_too: bool, copy: bool) -> Any:
    """A sparse matrix in one form; kinds of numbers as in :func:`as_numbers`."""
    kind = A.dtype.kind
    if kind == "c" and not complex_too:
        raise TypeError(f"{name} must be real; got complex numbers.")
    if kind not in "biufc":
        raise TypeError(f"{name} must be numeric; got {_given(A)}.")
    dtype = complex if kind == "c" else float
    if form == "dense":
        return A.toarray().astype(dtype, copy=False)
    kinds = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array}
    return kinds[form](A, dtype=dtype, copy=copy)


def is_exactly_symmetric(
    name: str, A: Any, *, tol: float = SYMMETRY, scale: float | None = None, labels: Labels = None, hint: str = ""
) -> bool:
    """Whether a finite square matrix is exactly symmetric (Hermitian); raises where it is not even up to rounding.

    No array of the size of A is made.

    Parameters
    ----------
    name, A, labels, hint
        As in :func:`as_matrix`.
    tol : float
        Difference of two mirrored entries that is rounding, relative to ``scale``.
    scale : float, optional
        In units of A; by default its largest entry.
    """
    gap, i, j = asymmetry(A)
    if gap > tol * (largest_entry(A) if scale is None else scale):
        word = "Hermitian" if A.dtype.kind == "c" else "symmetric"
        raise ValueError(
            f"{name} must be {word}; the largest asymmetry is {gap:.3g}: {A[i, j]:.12g} at {entry_text(i, j, labels)} but "
            f"{A[j, i]:.12g} at {entry_text(j, i, labels)}.{hint}"
        )
    return gap == 0.0


def asymmetry(A: Any) -> tuple[float, int, int]:
    """The largest ``|A_ij - conj(A_ji)|`` of a finite square matrix, dense or sparse, and where it is."""
    if scipy.sparse.issparse(A):
        apart = (A - A.conj().T).tocoo()
        sizes = np.abs(apart.data)
        k = int(sizes.argmax()) if len(sizes) else -1
        return (float(sizes[k]), int(apart.row[k]), int(apart.col[k])) if len(sizes) else (0.0, 0, 0)
    worst = (0.0, 0, 0)
    for i in range(0, len(A), TILE):
        for j in range(i, len(A), TILE):
            part = np.abs(A[i : i + TILE, j : j + TILE] - A[j : j + TILE, i : i + TILE].conj().T)
            k = int(part.argmax())
            if part.flat[k] > worst[0]:
                worst = (float(part.flat[k]), i + k // part.shape[1], j + k % part.shape[1])
    return worst


def largest_entry(A: Any) -> float:
    """``max |A_ij|`` of an array or sparse matrix, 0 for an empty one."""
    values = A.data if scipy.sparse.issparse(A) else A
    if values.dtype.kind == "c":
        return float(np.abs(values).max(initial=0.0))
    return max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))


def check_psd(name: str, eigenvalues: np.ndarray, *, tol: float = NEGATIVITY, definite: bool = False) -> None:
    """Raise unless eigenvalues are those of a positive semidefinite matrix.

    Parameters
    ----------
    name : str
        The matrix, as the caller knows it.
    eigenvalues : ndarray, shape (n,)
    tol : float
        What counts as 0, relative to the largest.
    definite : bool
        Whether all must be above that, not only none below.
    """
    low = float(eigenvalues.min(initial=0.0 if not definite else np.inf))
    top = max(float(np.abs(eigenvalues).max(initial=0.0)), 1e-300)
    if low < -tol * top or (definite and not low > tol * top):
        words = "definite" if definite else "semidefinite"
        raise ValueError(f"{name} must be positive {words}; its smallest eigenvalue is {low:.3g}.")
