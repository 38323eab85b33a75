"""Checks of arguments: numbers, choices, limits, percentiles, seeds, columns, matrices. Checks of points are in :mod:`bregmat.base.points`.

``check_*`` functions only raise. ``as_*`` functions return the converted argument: the given array itself if nothing had to be
converted (callers that write into it pass ``copy=True``). A message names the argument, what was expected, what was given, and the
first rows or the entry with the mistake. A wrong kind (text, complex numbers, truth values in place of numbers) is a ``TypeError``, a
wrong shape or value a ``ValueError``. Nothing is dropped or converted silently.

The functions share these parameters: ``name`` is the name of the argument, for messages, and ``value`` what was given; ``hint`` is text
for messages about other allowed values or the way out; ``labels`` are the names of rows and columns (a pair of lists), for messages;
``copy`` asks for a copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import date, timedelta
from decimal import Decimal
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.arrays import array_space
from bregmat.base.tolerances import HALF_DIGITS, TINY

SINGLE_SYMMETRY = 1e-5  # the same for data in single precision

TIMES = "; give times as numbers, for example (t - t.min()) / numpy.timedelta64(1, 'D')"

# with the words that scikit-learn's checks look for
OBJECTS = "; the argument must be free of strings and other objects, with numbers only"

Labels = tuple[list[Any], list[Any]] | None  # of rows and columns, from a DataFrame


# ---------------------------------------------------------------------- numbers and choices
def check_number(name: str, value: Any, *, hint: str = "") -> None:
    """Raise ``TypeError`` unless ``value`` is a real number and not a truth value."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be {hint}a number; got {value!r}.")


def check_positive(name: str, value: Any, *, finite: bool = False, zero: bool = False, hint: str = "") -> None:
    """Raise unless ``value`` is a positive number.

    Parameters
    ----------
    name, value, hint
        See the module; the hint is e.g. ``"None or "``.
    finite, zero : bool
        Whether ``inf`` is refused, and whether 0 is allowed.
    """
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be {hint}a number; got {value!r}.")
    if not (float(value) > 0 or (zero and value == 0)) or (finite and not np.isfinite(float(value))):
        words = ("finite and at least 0" if finite else "at least 0") if zero else "positive" + " and finite" * finite
        raise ValueError(f"{name} must be {hint}{words}; got {value!r}.")


def check_share(name: str, value: Any, *, zero: bool = False, why: str = "") -> None:
    """Raise unless ``value`` is a number between 0 and 1.

    Parameters
    ----------
    name, value
        See the module.
    zero : bool
        Whether 0 is allowed; 1 is not.
    why : str
        Text after the range in messages.
    """
    check_number(name, value)
    if not (0 < value < 1 or (zero and value == 0)):
        raise ValueError(f"{name} must be in {'[' if zero else '('}0, 1){why}; got {value!r}.")


def check_integer(name: str, value: Any, lowest: int, *, optional: bool = True) -> None:
    """Raise unless ``value`` is an integer.

    Parameters
    ----------
    name, value
        See the module.
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
    """Raise for an invalid tolerance, limit or callback of an iterative solver.

    Parameters
    ----------
    tol, max_iter, max_seconds, callback : object
    fewest : int
        Smallest ``max_iter`` allowed.
    """
    check_positive("tol", tol, finite=True)
    if max_iter is not None:
        check_integer("max_iter", max_iter, fewest)
    if max_seconds is not None:
        check_positive("max_seconds", max_seconds)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable; got {callback!r}.")


def as_choice(name: str, value: Any, options: Iterable[Any], *, hint: str = "") -> Any:
    """``value``, which must be one of the options.

    Parameters
    ----------
    name, value, hint
        See the module; the hint follows the options in messages.
    options : iterable of str or None
    """
    known = list(options)
    if not (value is None or isinstance(value, str)) or value not in known:
        shown = ", ".join(repr(option) for option in known)
        like = similar_name(value, [option for option in known if option is not None])
        raise ValueError(f"{name} must be one of {shown}{hint}; got {value!r}{like or '.'}")
    return value


def as_percentiles(percentiles: Any) -> tuple[float, float]:
    """A lower and an upper percentile, 0 to 100."""
    try:
        lower, upper = map(float, percentiles)
    except (TypeError, ValueError) as error:
        raise TypeError(f"percentiles must be a pair (lower, upper); got {percentiles!r}.") from error
    if not 0 <= lower <= upper <= 100:
        raise ValueError(f"percentiles must satisfy 0 <= lower <= upper <= 100; got {percentiles!r}.")
    return lower, upper


def generator(random_state: Any = None) -> np.random.Generator:
    """A NumPy generator from a seed, a Generator (shared), a RandomState (advanced), or None (new entropy)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31, size=4))
    if random_state is None:
        return np.random.default_rng()
    if not isinstance(random_state, int | np.integer) or isinstance(random_state, bool):
        raise TypeError(f"random_state must be an integer, a Generator, a RandomState or None; got {random_state!r}.")
    if random_state < 0:
        raise ValueError(f"random_state must be at least 0; got {random_state}.")
    return np.random.default_rng(int(random_state))


def check_random_state(random_state: Any) -> None:
    """Raise as :func:`generator` would, without advancing a RandomState."""
    if not isinstance(random_state, np.random.RandomState):
        generator(random_state)


# ---------------------------------------------------------------------- arrays and columns
_KNOWN = ("bool", "int8", "int16", "int32", "int64", "uint8", "float32", "float64")


def to_numpy(name: str, x: Any) -> Any:
    """An array of another library as a NumPy array; other objects unchanged.

    Raises ``TypeError``, which names the argument, for an array that records gradients, which are not supported, and for one that
    its library does not convert, such as a sparse tensor.
    """
    space = None if isinstance(x, np.ndarray) else array_space(x)
    if space is None:
        return x
    check_no_gradient(name, x)
    if x.dtype not in [getattr(space.xp, word) for word in _KNOWN] and space.xp.isdtype(x.dtype, "real floating"):
        x = space.xp.astype(x, space.xp.float32)  # half precisions, which NumPy may not have
    try:
        return space.fetch(x)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be numeric; got {given_text(x)}: {str(error).rstrip('.')}.") from error


def check_no_gradient(name: str, x: Any) -> None:
    """Raise for an array that records gradients."""
    if getattr(x, "requires_grad", False):
        raise TypeError(f"{name} must not record gradients, which are not followed here; pass {name}.detach().")


def as_numbers(
    name: str, values: Any, *, booleans: bool = False, complex_too: bool = False, copy: bool = False
) -> np.ndarray:
    """A dense float64 array of any shape; complex128 for complex numbers.

    Raises for text, times, ragged lists, sparse and masked arrays, and for booleans and complex numbers unless they are allowed. Among
    objects, None and ``pandas.NA`` are NaN. Finiteness and shape are checked by :func:`as_column`, :func:`as_matrix` and
    :func:`bregmat.base.points.as_points`.

    Parameters
    ----------
    name, copy
        See the module.
    values : array-like
    booleans, complex_too : bool
        As in :func:`as_matrix`.
    """
    if scipy.sparse.issparse(values):
        raise TypeError(f"{name} must be dense; got a sparse {type(values).__name__}: pass its .toarray().")
    if np.ma.isMaskedArray(values) and np.ma.is_masked(values):
        rows = np.unique(np.nonzero(np.atleast_1d(np.ma.getmaskarray(values)))[0])
        raise ValueError(f"{name} must have no masked entries; got some in {rows_text(rows)}.")
    if isinstance(values, np.ndarray | float | int):
        array = np.asarray(values)
    else:
        values = to_numpy(name, values)
        array = as_rectangular(name, values)
    kind = array.dtype.kind
    if kind == "c" and not complex_too:
        raise TypeError(f"{name} must be real; got complex numbers.")
    if kind == "b" and not booleans:
        raise TypeError(f"{name} must be numeric; got truth values.")
    if kind not in "biufcO" or values is None:
        shown = given_text(values if array.ndim == 0 else array)
        raise TypeError(f"{name} must be numeric; got {shown}{TIMES if kind in 'mM' else ''}.")
    if kind == "O":
        return _from_objects(name, values, array)
    return array.astype(complex if kind == "c" else float, copy=copy)


def as_rectangular(name: str, values: Any) -> np.ndarray:
    """``np.asarray(values)``, or ``TypeError`` for lists of different lengths and for what NumPy does not convert."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        shapes = []
        with suppress(TypeError, ValueError):  # of a row that has no shape of its own
            shapes = [np.shape(row) for row in values] if isinstance(values, list | tuple) else []
        odd = next((row for row, shape in enumerate(shapes) if shape != shapes[0]), None)
        if odd is None:
            raise TypeError(f"{name} must be an array or a list of one shape; got {given_text(values)}.") from error
        got = f"shape {shapes[0]} in row 0 and {shapes[odd]} in row {odd}"
        raise TypeError(f"{name} must have rows of one length; got {got}.") from error


def _from_objects(name: str, values: Any, array: np.ndarray) -> np.ndarray:
    """An array of objects as numbers, with NaN for missing ones."""
    try:
        if any(isinstance(value, str | bytes) for value in array.flat):
            raise TypeError("text, which NumPy would convert to numbers if it can")
        return (
            np.where([is_missing(value) for value in array.flat], np.nan, array.ravel())
            .astype(float)
            .reshape(array.shape)
        )
    except (TypeError, ValueError) as error:
        text = f"{name} must be numeric; got {given_text(values)}"
        raise TypeError(f"{text}{_not_numbers_text(values, array)}.") from error


def check_finite(name: str, A: Any, labels: Labels = None, *, hint: str = "") -> None:
    """Raise for NaN and infinities, naming the first rows.

    Parameters
    ----------
    name, labels, hint
        As in :func:`as_matrix`.
    A : ndarray or csr array
    """
    if np.isfinite(A.data if scipy.sparse.issparse(A) else A).all():
        return
    if scipy.sparse.issparse(A):
        entries = A.tocoo()
        rows, first = np.unique(entries.row[~np.isfinite(entries.data)]), None
    else:
        bad = np.argwhere(~np.isfinite(A))
        rows, first = np.unique(bad[:, 0]), bad[0]
    if A.ndim == 1:
        raise ValueError(f"{name} must be finite; got {A[rows[0]]} in {rows_text(rows)}.{hint}")
    where = ""
    if first is not None and (labels or hint):
        where = f", the first is {A[tuple(first)]} at {entry_text(first[0], first[1], labels)}"
    raise ValueError(f"{name} must be finite; got NaN or infinity in {rows_text(rows)}{where}.{hint}")


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
    name, hint, copy
        See the module.
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
        rows, noun = np.flatnonzero(~good), "constraint" if per == "constraint" else "row"
        words = " and ".join(wanted) or "a number"
        raise ValueError(f"{name} must be {words}{hint}; got {column[rows[0]]} in {rows_text(rows, noun)}.")
    return column


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
    """A two-dimensional array of float64 with at least one row and column.

    Parameters
    ----------
    name, labels, hint, copy
        See the module; ``hint`` is a sentence with a leading space that ends the messages about asymmetry and infinities.
    A : array-like, DataFrame or scipy.sparse matrix, shape (n, d)
    square, symmetric, psd : bool
        Each includes those before it. A symmetric matrix is exactly symmetric on return (Hermitian if it is complex):
        asymmetry up to ``HALF_DIGITS`` is averaged out. ``psd`` computes the eigenvalues: callers that need them anyway pass
        ``symmetric`` and call :func:`check_psd`.
    order : int, optional
        Of a square matrix.
    finite : bool
        False: NaN and infinities are allowed (not with ``symmetric``).
    sparse : {None, "csr", "dense"}
        Form to which a sparse matrix is converted; None raises for it.
    booleans, complex_too, empty : bool
        Whether truth values (which count as 0 and 1), complex numbers, and matrices without rows are allowed.
    """
    if scipy.sparse.issparse(A) and sparse is not None:
        A = _as_sparse(name, A, sparse, complex_too, copy)
    else:
        A = as_numbers(name, A, booleans=booleans, complex_too=complex_too, copy=copy)
    is_square = A.ndim == 2 and A.shape[0] == A.shape[1]
    if not is_square and (square or symmetric or psd or order is not None):
        raise ValueError(f"{name} must be square; got shape {A.shape}.")
    if A.ndim != 2:
        raise ValueError(f"{name} must be 2-dimensional; got shape {A.shape}.")
    if 0 in A.shape[empty:]:
        raise ValueError(f"{name} must have at least one row and one column; got shape {A.shape}.")
    if order is not None and A.shape[0] != order:
        raise ValueError(f"{name} must have shape ({order}, {order}); got {A.shape}.")
    if (finite or symmetric or psd) and not np.isfinite(A if isinstance(A, np.ndarray) else A.data).all():
        check_finite(name, A, labels, hint=hint)  # which names the rows
    if (symmetric or psd) and asymmetry(name, A, labels=labels, hint=hint) > 0.0:
        A = 0.5 * (A + A.conj().T)
    if psd:
        check_psd(name, np.linalg.eigvalsh(A if isinstance(A, np.ndarray) else A.toarray()))
    return A


def _as_sparse(name: str, A: Any, form: str, complex_too: bool, copy: bool) -> Any:
    """A sparse matrix in the given form, with the kinds of numbers of :func:`as_numbers`."""
    kind = A.dtype.kind
    if kind == "c" and not complex_too:
        raise TypeError(f"{name} must be real; got complex numbers.")
    if kind not in "biufc":
        raise TypeError(f"{name} must be numeric; got {given_text(A)}.")
    dtype = complex if kind == "c" else float
    if form == "dense":
        return A.toarray().astype(dtype, copy=False)
    return scipy.sparse.csr_array(A, dtype=dtype, copy=copy)


def asymmetry(
    name: str, A: Any, *, tol: float = HALF_DIGITS, scale: float | None = None, labels: Labels = None, hint: str = ""
) -> float:
    """The largest ``|A_ij - conj(A_ji)|`` of a finite square matrix; raises if it is beyond rounding.

    It needs no memory of the size of a dense A.

    Parameters
    ----------
    name, labels, hint
        As in :func:`as_matrix`.
    A : ndarray or scipy.sparse, shape (n, n)
    tol : float
        Largest asymmetry that counts as rounding, relative to ``scale``.
    scale : float, optional
        In units of A; by default its largest entry.
    """
    tile = 256  # a tile and its mirror image stay in cache
    gap, i, j = 0.0, 0, 0
    if scipy.sparse.issparse(A):
        apart = (A - A.conj().T).tocoo()
        if apart.nnz:
            k = int(np.abs(apart.data).argmax())
            gap, i, j = float(np.abs(apart.data[k])), int(apart.row[k]), int(apart.col[k])
    else:
        for top in range(0, len(A), tile):
            for left in range(top, len(A), tile):
                part = np.abs(
                    A[top : top + tile, left : left + tile] - A[left : left + tile, top : top + tile].conj().T
                )
                k = int(part.argmax())
                if part.flat[k] > gap:
                    gap, i, j = float(part.flat[k]), top + k // part.shape[1], left + k % part.shape[1]
    if gap == 0.0:
        return 0.0
    if scale is None:
        values = A.data if scipy.sparse.issparse(A) else A
        scale = float(np.abs(values).max() if values.dtype.kind == "c" else max(values.max(), -values.min()))
    if gap > tol * scale:
        word = "Hermitian" if A.dtype.kind == "c" else "symmetric"
        raise ValueError(
            f"{name} must be {word}; the largest asymmetry is {gap:.3g}: {A[i, j]:.12g} at {entry_text(i, j, labels)} but "
            f"{A[j, i]:.12g} at {entry_text(j, i, labels)}.{hint}"
        )
    return gap


def check_psd(name: str, eigenvalues: np.ndarray, *, tol: float = HALF_DIGITS, definite: bool = False) -> None:
    """Raise unless eigenvalues are those of a positive semidefinite matrix.

    Parameters
    ----------
    name : str
        Name of the matrix, for messages.
    eigenvalues : ndarray, shape (n,)
    tol : float
        Size that counts as 0, relative to the largest eigenvalue.
    definite : bool
        Whether every eigenvalue must be above it.
    """
    low = float(eigenvalues.min(initial=0.0 if not definite else np.inf))
    top = max(float(np.abs(eigenvalues).max(initial=0.0)), TINY)
    if low < -tol * top or (definite and not low > tol * top):
        words, sign, least = (
            ("definite", "positive", ", min_eig=1e-6") if definite else ("semidefinite", "not negative", "")
        )
        raise ValueError(
            f"{name} must be positive {words}; its smallest eigenvalue is {low:.3g}. If its diagonal is {sign}, "
            f"nearest_correlation({name}, scale=True{least}).covariance is a near one with this diagonal."
        )


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas.NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and value != value


# ---------------------------------------------------------------------- texts for messages
def rows_text(rows: np.ndarray, noun: str = "row", max_rows: int = 5) -> str:
    """The first few of the given numbers of rows, or of what the noun says: "rows 0, 3 and 2 more"."""
    head = ", ".join(map(str, rows[:max_rows].tolist()))
    return f"{noun}{'s' if len(rows) > 1 else ''} {head}" + (
        f" and {len(rows) - max_rows} more" if len(rows) > max_rows else ""
    )


def entry_text(i: Any, j: Any, labels: Labels = None) -> str:
    """An entry by its indices, and by its labels if there are any."""
    place = f"[{int(i)}, {int(j)}]"
    return place if labels is None else f"{place} ({labels[0][int(i)]!r}, {labels[1][int(j)]!r})"


def similar_name(name: Any, known: Any) -> str:
    """``; is it 'b'?`` if a known name resembles an unknown one, both strings; else the empty string."""
    if not isinstance(name, str) or len(known) > 50_000:  # which would take over a second
        return ""
    plain = {str(other).strip().casefold(): str(other) for other in known}
    matches = get_close_matches(name.strip().casefold(), plain, n=1, cutoff=0.75)
    return f"; is it {plain[matches[0]]!r}?" if matches else ""


def given_text(value: Any) -> str:
    """The given value, or its type."""
    if value is None or isinstance(value, str | bytes | Real):
        return repr(value)
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ + (f" with dtype {dtype}" if dtype is not None else "")


def _not_numbers_text(values: Any, array: np.ndarray, max_entries: int = 5) -> str:
    """The first columns of a table with an entry that is no number, with the first such entry of each; that entry of a column."""
    if array.ndim not in (1, 2):
        return ""
    names, entries = list(getattr(values, "columns", range(array.shape[-1]))), []
    hint = ""
    for name, column in zip(names, array.T if array.ndim == 2 else [array]):
        for row, value in enumerate(column):
            if not isinstance(value, Real | Decimal | np.bool_) and not is_missing(value):
                entries.append(f"{name!r} ({value!r} in row {row})" if array.ndim == 2 else f"{value!r} in row {row}")
                if isinstance(value, str) and hasattr(values, "columns"):
                    hint = "; encode columns of words, for example with sklearn.preprocessing.OneHotEncoder"
                elif isinstance(value, np.datetime64 | np.timedelta64 | date | timedelta):
                    hint = hint or TIMES
                break
    hint = hint or OBJECTS
    if array.ndim == 1:
        return f": {entries[0]}{hint}" if entries else ""
    more = f" and {len(entries) - max_entries} more" if len(entries) > max_entries else ""
    return (
        f", in column{'s' if len(entries) > 1 else ''} {', '.join(entries[:max_entries])}{more}{hint}"
        if entries
        else ""
    )
