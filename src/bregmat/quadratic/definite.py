"""Whether a symmetric matrix is positive semidefinite, at the price of one factorisation in single precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from bregmat._kernels.descent import gather_triangle_inplace

SMALL = 256  # rows up to which float64 costs nothing worth saving
SHIFT = {
    np.float32: 1e-6,
    np.float64: 1e-13,
}  # times sqrt(n), of the diagonal: more than a factorisation of a singular A loses
RANGE = {np.float32: (1e-25, 1e25), np.float64: (0.0, np.inf)}  # of the largest diagonal entry
NEGATIVE = 1e-10  # eigenvalue, relative to the largest diagonal entry and times sqrt(n), that is no rounding


def check_definite(A: np.ndarray) -> None:
    """Raise unless ``A`` is positive semidefinite.

    The test is a Cholesky factorisation of A with its diagonal raised by a millionth times sqrt(n); where that fails, the
    same in float64; and where that fails, the smallest eigenvalue of the leading block that failed.

    Parameters
    ----------
    A : ndarray, shape (n, n)
        Symmetric and finite, with a nonnegative diagonal.

    Raises
    ------
    ValueError
        With the eigenvalue and the rows of the block.

    Notes
    -----
    What passes in float32 has ``x'Ax >= -delta sum A_ii x_i^2`` with delta a few millionths times sqrt(n); from 256 rows on smaller
    negative eigenvalues pass unless a free set or an exchange meets them. Cost: n^3 / 3 in float32.
    """
    n = len(A)
    if n > SMALL and _factors(A, np.float32) == 0:
        return
    failed = _factors(A, np.float64)
    if failed == 0:
        return
    values, vectors = np.linalg.eigh(A[:failed, :failed])
    largest = float(A.diagonal().max())
    if values[0] < -NEGATIVE * np.sqrt(n) * largest or not largest > 0:
        rows = np.argsort(-np.abs(vectors[:, 0]), kind="stable")[:4]
        raise ValueError(
            f"A is not positive semidefinite: its leading {failed} rows and columns have the eigenvalue {values[0]:.6g}; "
            f"largest entries of the eigenvector at {', '.join(map(str, rows))}."
        )


def _factors(A: np.ndarray, dtype: Any) -> int:
    """0 where A with a raised diagonal has a Cholesky factor, else the order of the leading block that has none."""
    n = len(A)
    largest = float(A.diagonal().max())
    if not largest > 0.0:
        return 0 if not A.any() else n
    if not RANGE[dtype][0] < largest < RANGE[dtype][1]:
        return n
    M = np.empty((n, n), dtype)
    gather_triangle_inplace(M, A, np.arange(n))
    raised = A.diagonal() * (1.0 + SHIFT[dtype] * np.sqrt(n)) + 1e-14 * largest
    M.reshape(-1)[:: n + 1] = raised
    _, info = get_lapack_funcs("potrf", dtype=dtype)(M.T, lower=1, overwrite_a=1, clean=0)
    return int(info)
