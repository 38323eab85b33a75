"""Dense algebra in the platform's long double (64 bits of mantissa on x86), or in float64 where that would take too long.

Written with NumPy's own routines and plain loops: nothing here is shared with the algebra that solvers use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from bregmat.base.checks import to_numpy

LONG = np.longdouble
LONG_EPS = float(np.finfo(LONG).eps)
MOST_LONG = 3e8  # operations that are done in extended precision: about a second


def arithmetic(operations: float) -> Any:
    """The precision that a number of operations allows."""
    return LONG if operations <= MOST_LONG else np.float64


def precision_text(dtype: Any) -> str:
    """A floating-point type in words."""
    return f"{np.finfo(dtype).nmant + 1} bits of mantissa"


def unit_of(dtype: Any) -> float:
    """The machine epsilon of a floating-point type."""
    return float(np.finfo(dtype).eps)


def numbers(x: Any) -> np.ndarray:
    """A matrix or vector, sparse or of another array library, as a dense float64 array."""
    return np.asarray(x.toarray() if scipy.sparse.issparse(x) else to_numpy("x", x), dtype=float)


def evaluate(f: Callable[..., Any], *x: Any) -> Any:
    """``f(*x)`` in the precision of the arguments, or in float64 if f does not accept another precision."""
    try:
        return f(*x)
    except TypeError:
        return np.asarray(f(*(np.asarray(a, dtype=float) for a in x))).astype(np.asarray(x[0]).dtype)


def eigenpairs(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ascending eigenvalues and eigenvectors of a symmetric matrix (n, n), refined in its own precision.

    Steps of Ogita and Aishima (2018, "Iterative refinement for symmetric eigenvalue decomposition"), each of which squares the
    error of float64 eigenvectors, and Rayleigh quotients; vectors of eigenvalues that are one up to rounding are left as they are.
    """
    scale = float(np.abs(A).max(initial=0.0)) or 1.0
    B = A / scale
    t, U = np.linalg.eigh(B.astype(float))
    if A.dtype == np.float64:
        return t * scale, U
    for _ in range(3):
        U = U.astype(A.dtype)
        R = np.eye(len(B), dtype=A.dtype) - U.T @ U
        S = U.T @ B @ U
        # Without this, rounding divided by a small eigenvalue gap would spoil the orthogonality.
        R, S = (R + R.T) / 2, (S + S.T) / 2
        d = np.diag(S) / (1.0 - np.diag(R))
        apart = d[None, :] - d[:, None]
        close = np.abs(apart) <= 1e-13
        E = np.where(close, R / 2, (S + d * R) / np.where(close, 1.0, apart))
        U = U + U @ E
    lengths = (U * U).sum(axis=0)
    values = (U * (B @ U)).sum(axis=0) / lengths
    order = np.argsort(values, kind="stable")
    return values[order] * A.dtype.type(scale), (U / np.sqrt(lengths))[:, order]


def eigenvalues(A: np.ndarray) -> np.ndarray:
    """Ascending eigenvalues of a symmetric matrix (n, n)."""
    return eigenpairs(A)[0]


def log_determinant(A: np.ndarray) -> float:
    """``log det A`` by a Cholesky factorization in the precision of A; -inf if A is not positive definite."""
    if A.dtype == np.float64:
        try:
            L = np.linalg.cholesky(A)
        except np.linalg.LinAlgError:
            return -np.inf
    else:  # NumPy has no factorizations in extended precision
        L = np.zeros_like(A)
        for k in range(len(A)):
            column = A[k:, k] - L[k:, :k] @ L[k, :k]
            if not column[0] > 0:
                return -np.inf
            L[k:, k] = column / np.sqrt(column[0])
    return 2 * np.log(np.diag(L)).sum()


def is_semidefinite(A: np.ndarray, terms: np.ndarray, share: float) -> bool:
    """Whether ``A + share terms`` is positive semidefinite, up to rounding of the arithmetic.

    ``terms`` is semidefinite: the sum of the absolute values of the terms that A is the sum of. Both matrices are scaled so that
    ``terms`` has a diagonal of ones. The answer therefore does not depend on the units of the coordinates.
    """
    size = np.sqrt(np.maximum(np.diag(terms), 0))
    on = size > 0
    if A[~on].any():
        return False
    if not on.any():
        return True
    B = (A + A.dtype.type(share) * terms)[np.ix_(on, on)] / np.multiply.outer(size[on], size[on])
    return bool(eigenvalues((B + B.T) / 2)[0] >= -16 * len(B) * unit_of(A.dtype.type))
