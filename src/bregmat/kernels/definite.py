"""Tests whether a matrix is symmetric and positive semidefinite up to rounding, which every duality gap assumes.

There are three tests of definiteness. :func:`check_entries` looks at the entries of a kernel matrix alone, in O(n^2). A Cholesky factor
of the whole matrix tests quadratic programs (:func:`check_definite`) and kernels (:func:`check_spectrum`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf

from bregmat.base.checks import SINGLE_SYMMETRY, asymmetry
from bregmat.base.linalg import add_diagonal, blocks, cholesky
from bregmat.base.tolerances import HALF_DIGITS, INDEFINITE, SUM_ROUNDING, UNIT_ROUNDOFF, VANISHING
from bregmat.kernels.functions import INDEFINITE_KERNEL, KernelFunction, check_values

NAMED = 4  # number of rows that a message names
CHECKED = 1_000_000  # squared distances that are checked at a time
MAX_TESTED = 500  # number of training examples up to which a precomputed kernel is tested as a whole
MOST_SUPPORT = 1000  # a larger one is tested on at most so many support vectors ...
SAMPLE = 300  # ... and on so many random examples


# ---------------------------------------------------------------- eigenvalues
@dataclass(frozen=True, eq=False)
class Negative:
    """The smallest eigenvalue of a matrix, an estimate of the largest, and the rows of the largest entries of its eigenvector.

    ``rounding`` tells whether the eigenvalue is so small that it may come from rounding.
    """

    value: float
    largest: float
    rows: np.ndarray
    rounding: bool

    def described(self, n: int) -> str:
        """The end of an error message: what was found for n samples, and what to do."""
        return (
            f"between {n} samples it has the eigenvalue {self.value:.3g} (largest {self.largest:.3g}), mostly from rows "
            f"{', '.join(map(str, self.rows))}. Use another kernel. If the kernel is a given matrix K, use "
            f"K + {1.1 * abs(self.value):.2g} I, or K with its negative eigenvalues cut to 0."
        )


class IndefiniteKernelError(ValueError):
    """The kernel has a direction of negative curvature; ``negative.rows`` are row numbers of the problem."""

    def __init__(self, negative: Negative, n: int) -> None:
        self.negative, self.n = negative, n
        super().__init__(f"the kernel is not positive semidefinite: {negative.described(n)}")


def smallest_eigenvalue(K: np.ndarray, rounding: float = 0.0) -> Negative:
    """The smallest eigenvalue of a symmetric matrix, shape (n, n); ``rounding`` is that of its entries, relative to the largest."""
    values, vectors = eigh(K, subset_by_index=[0, 0])
    value, vector, largest = float(values[0]), vectors[:, 0], _norm(K)
    return Negative(value, largest, _largest_entries(vector), value >= -_allowed(K, largest, rounding))


def negative_eigenvalue(K: np.ndarray, rounding: float = 0.0) -> Negative | None:
    """The smallest eigenvalue if it is negative beyond rounding, else None; costs one Cholesky factorisation if it is not."""
    work = np.array(K, dtype=np.float64, order="C")
    # raise the diagonal by half of what rounding may explain: the factorisation rounds, too
    add_diagonal(work, 0.5 * _allowed(work, _norm(work), rounding))
    if cholesky(work, is_used_up=True)[1]:
        return None
    lowest = smallest_eigenvalue(np.asarray(K, dtype=np.float64), rounding)
    return None if lowest.rounding else lowest


def _largest_entries(vector: np.ndarray) -> np.ndarray:
    """Positions of the largest entries, ascending."""
    return np.sort(np.argsort(-np.abs(vector), kind="stable")[:NAMED])


def _allowed(K: np.ndarray, largest: float, rounding: float) -> float:
    """How far below 0 rounding may take an eigenvalue."""
    top = max(float(K.max()), -float(K.min()))
    return max(HALF_DIGITS * largest, len(K) * rounding * top)


def _norm(K: np.ndarray) -> float:
    """Estimate of the largest absolute eigenvalue by 12 power iterations, seldom more than 10 % too small."""
    v, length = np.random.default_rng(0).standard_normal(len(K)) + 1.0, 1.0
    for _ in range(12):
        v = K @ (v / np.linalg.norm(v))
        length = float(np.linalg.norm(v))
        if not length > 0:
            return 0.0
    return length


# ---------------------------------------------------------------- matrices of quadratic programs
def way_out(A: np.ndarray) -> str:
    """What replaces a matrix that is not positive semidefinite, for the end of a message; empty for a negative diagonal entry."""
    if not (A.diagonal() >= 0).all():
        return ""
    return (
        " If it is a covariance in float32, rounded, or of data with missing values, pass "
        "nearest_correlation(A, scale=True).covariance, the nearest valid one with the same variances."
    )


def check_definite(A: np.ndarray) -> float:
    """Raise unless ``A`` is positive semidefinite up to rounding; return a bound of its negative eigenvalues.

    The test is a Cholesky factorisation of A with its diagonal raised by 1e-13 times sqrt(n). If that fails, the smallest
    eigenvalue may be at most 1e-10 times sqrt(n) below zero, relative to the largest diagonal entry.

    A (n, n) is symmetric and finite, with a nonnegative diagonal. The bound is a delta for which ``A + delta max(A_ii) I`` is positive
    semidefinite, the rounding of the test included. The message of the ``ValueError`` has the eigenvalue and the rows of the block.

    Notes
    -----
    The factor is exact for a matrix whose entries differ by at most ``(n + 2) u sqrt(A_ii A_jj)`` (Higham 2002, theorem 10.3) with
    the unit roundoff u. The same bound is used for computed eigenvalues. Cost: n^3 / 3.
    """
    n, largest = len(A), float(A.diagonal().max())
    rounding = n * (n + 2) * UNIT_ROUNDOFF
    if largest > 0.0:
        M = A.astype(float, order="C")
        M.reshape(-1)[:: n + 1] = A.diagonal() * (1.0 + VANISHING * np.sqrt(n)) + SUM_ROUNDING * largest
        _, failed = dpotrf(M.T, lower=1, overwrite_a=1, clean=0)  # order of the leading block without a factor, or 0
        if failed == 0:
            return float(VANISHING * np.sqrt(n)) + SUM_ROUNDING + rounding
    elif not A.any():
        return 0.0
    else:
        failed = n
    for leading in (failed, n):
        values, vectors = np.linalg.eigh(A[:leading, :leading])
        if values[0] < -INDEFINITE * np.sqrt(n) * largest or not largest > 0:
            raise ValueError(
                f"A is not positive semidefinite: its leading {leading} rows and columns have the eigenvalue {values[0]:.6g}; "
                f"largest entries of the eigenvector at {', '.join(map(str, _largest_entries(vectors[:, 0])))}.{way_out(A)}"
            )
    return max(-float(values[0]) / largest, 0.0) + rounding


# ---------------------------------------------------------------- kernels on training points
def check_given(K: np.ndarray) -> None:
    """Raise unless a precomputed kernel on the training points is square and symmetric; costs n^2."""
    if K.shape != (len(K), len(K)):
        raise ValueError(
            f"X must be square with kernel='precomputed': training points x training points; got {K.shape}."
        )
    top = float(np.abs(np.diagonal(K)).max())  # bounds all entries of a positive semidefinite matrix
    tol = SINGLE_SYMMETRY if K.dtype == np.float32 else HALF_DIGITS
    hint = " With kernel='precomputed' X is a kernel matrix; if that is rounding, pass (X + X.T) / 2."
    asymmetry("X", K, tol=tol, scale=top, hint=hint)


def check_entries(K: np.ndarray, kernel: KernelFunction) -> None:
    """Raise for a kernel on the training points that has NaN, a negative k(x, x), or a negative squared distance.

    It costs O(n^2) and does not find every kernel that is not positive semidefinite.
    """
    check_values(K, f"kernel {kernel.name}")
    diagonal = np.diag(K)
    least = -max(HALF_DIGITS, kernel.rounding) * max(float(K.max()), -float(K.min()))
    i = int(diagonal.argmin())
    if diagonal[i] < least:
        raise ValueError(
            f"kernel {kernel.name} must be positive semidefinite; got K[{i}, {i}] = {diagonal[i]:.6g}. {INDEFINITE_KERNEL}"
        )
    for part in blocks(len(K), len(K), CHECKED):
        sq = diagonal[part, None] + diagonal - 2.0 * K[part]
        i, j = divmod(int(sq.argmin()), len(K))
        if sq[i, j] < least:
            raise ValueError(
                f"kernel {kernel.name} must be positive semidefinite; got the squared distance K_ii + K_jj - 2 K_ij = "
                f"{sq[i, j]:.6g} at i = {part.start + i}, j = {j}. {INDEFINITE_KERNEL}"
            )


def checked_values(X: Any, kernel: KernelFunction) -> np.ndarray:
    """Values of a kernel on all training points, shape (n, n), checked to be symmetric and positive semidefinite."""
    K = kernel(X)
    check_entries(K, kernel)
    if asymmetry(f"kernel {kernel.name}", K) > 0.0:
        K = (K + K.T) / 2
    check_spectrum(K, np.arange(len(K)), kernel)
    return K


def check_support(K: np.ndarray, support: np.ndarray, kernel: KernelFunction) -> None:
    """Raise if the kernel between a machine's support vectors (at most ``MOST_SUPPORT``) and random others has a negative eigenvalue.

    ``K`` is the precomputed kernel on the training points; ``support`` are row numbers.
    """
    rng = np.random.default_rng(0)
    chosen = rng.permutation(support)[:MOST_SUPPORT]
    rows = np.union1d(chosen, rng.permutation(len(K))[:SAMPLE])
    check_spectrum(K[np.ix_(rows, rows)], rows, kernel)


def check_spectrum(K: np.ndarray, rows: np.ndarray, kernel: KernelFunction) -> None:
    """Raise if ``K``, the kernel between training examples ``rows``, has a negative eigenvalue beyond rounding."""
    single = K.dtype == np.float32 or kernel.rounding > 0
    proof = negative_eigenvalue(K, float(np.finfo(np.float32 if single else np.float64).eps))
    if proof is not None:
        refuse(replace(proof, rows=rows[proof.rows]), len(K), kernel)


def refuse(negative: Negative, n: int, kernel: KernelFunction) -> NoReturn:
    """The error for a kernel with a negative eigenvalue; ``negative.rows`` are rows of the training data."""
    raise ValueError(
        f"kernel {kernel.name} must be positive semidefinite on the training data; {negative.described(n)}"
    )
