"""Checks of matrices: square, symmetric, positive semidefinite."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.checks.arrays import as_numbers, check_finite
from bregmat.base.checks.messages import Labels, entry_text, given_text

SYMMETRY = 1e-8  # largest asymmetry, relative to the largest entry, that counts as rounding
SINGLE_SYMMETRY = 1e-5  # the same for data in single precision
NEGATIVITY = 1e-8  # negative eigenvalue of a PSD matrix, relative to the largest one, that counts as rounding


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
        Name of the argument, for messages.
    A : array-like, DataFrame or scipy.sparse matrix, shape (n, d)
    square, symmetric, psd : bool
        Each includes those before it. A symmetric matrix is exactly symmetric on return (Hermitian if it is complex):
        asymmetry up to ``SYMMETRY`` is averaged out. ``psd`` computes the eigenvalues: callers that need them anyway pass
        ``symmetric`` and call :func:`check_psd`.
    order : int, optional
        Of a square matrix.
    finite : bool
        False: NaN and infinities are allowed (not with ``symmetric``).
    sparse : {None, "csr", "csc", "dense"}
        Form to which a sparse matrix is converted; None raises for it.
    booleans : bool
        Whether truth values are allowed; they count as 0 and 1.
    complex_too : bool
        Whether complex numbers are allowed.
    empty : bool
        Whether a matrix without rows is allowed.
    labels : pair of lists, optional
        Names of rows and columns, for messages.
    hint : str
        Sentence with a leading space that ends the messages about asymmetry and infinities.
    copy : bool
        Whether to return a copy.
    """
    if scipy.sparse.issparse(A) and sparse is not None:
        A = _as_sparse(name, A, sparse, complex_too, copy)
    else:
        A = as_numbers(name, A, booleans=booleans, complex_too=complex_too, copy=copy)
    _check_shape(name, A, square or symmetric or psd or order is not None, order, empty)
    if finite or symmetric or psd:
        check_finite(name, A, labels, hint=hint)
    if symmetric or psd:
        A = A if is_exactly_symmetric(name, A, labels=labels, hint=hint) else 0.5 * (A + A.conj().T)
    if psd:
        check_psd(name, np.linalg.eigvalsh(A if isinstance(A, np.ndarray) else A.toarray()))
    return A


def _check_shape(name: str, A: Any, square: bool, order: int | None, empty: bool) -> None:
    """Raise unless A is two-dimensional, square or of an order if that is required, and not empty unless ``empty``."""
    if square and (A.ndim != 2 or A.shape[0] != A.shape[1]):
        raise ValueError(f"{name} must be square; got shape {A.shape}.")
    if A.ndim != 2:
        raise ValueError(f"{name} must be 2-dimensional; got shape {A.shape}.")
    if 0 in A.shape[empty:]:
        raise ValueError(f"{name} must have at least one row and one column; got shape {A.shape}.")
    if order is not None and A.shape[0] != order:
        raise ValueError(f"{name} must have shape ({order}, {order}); got {A.shape}.")


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
    kinds = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array}
    return kinds[form](A, dtype=dtype, copy=copy)


def is_exactly_symmetric(
    name: str, A: Any, *, tol: float = SYMMETRY, scale: float | None = None, labels: Labels = None, hint: str = ""
) -> bool:
    """Whether a finite square matrix is exactly symmetric (Hermitian); raises if its asymmetry is beyond rounding.

    It needs no memory of the size of A.

    Parameters
    ----------
    name, A, labels, hint
        As in :func:`as_matrix`.
    tol : float
        Largest asymmetry that counts as rounding, relative to ``scale``.
    scale : float, optional
        In units of A; by default its largest entry.
    """
    gap, i, j = asymmetry(A)
    if gap == 0.0:
        return True
    if gap > tol * (largest_entry(A) if scale is None else scale):
        word = "Hermitian" if A.dtype.kind == "c" else "symmetric"
        raise ValueError(
            f"{name} must be {word}; the largest asymmetry is {gap:.3g}: {A[i, j]:.12g} at {entry_text(i, j, labels)} but "
            f"{A[j, i]:.12g} at {entry_text(j, i, labels)}.{hint}"
        )
    return False


def asymmetry(A: Any) -> tuple[float, int, int]:
    """The largest ``|A_ij - conj(A_ji)|`` of a finite square matrix, dense or sparse, and its row and column."""
    tile = 256  # a tile and its mirror image stay in cache
    if scipy.sparse.issparse(A):
        apart = (A - A.conj().T).tocoo()
        sizes = np.abs(apart.data)
        k = int(sizes.argmax()) if len(sizes) else -1
        return (float(sizes[k]), int(apart.row[k]), int(apart.col[k])) if len(sizes) else (0.0, 0, 0)
    worst = (0.0, 0, 0)
    for i in range(0, len(A), tile):
        for j in range(i, len(A), tile):
            part = np.abs(A[i : i + tile, j : j + tile] - A[j : j + tile, i : i + tile].conj().T)
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
        Name of the matrix, for messages.
    eigenvalues : ndarray, shape (n,)
    tol : float
        Size that counts as 0, relative to the largest eigenvalue.
    definite : bool
        Whether every eigenvalue must be above it.
    """
    low = float(eigenvalues.min(initial=0.0 if not definite else np.inf))
    top = max(float(np.abs(eigenvalues).max(initial=0.0)), 1e-300)
    if low < -tol * top or (definite and not low > tol * top):
        words = "definite" if definite else "semidefinite"
        raise ValueError(f"{name} must be positive {words}; its smallest eigenvalue is {low:.3g}.")
