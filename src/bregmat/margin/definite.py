"""Whether a kernel matrix is positive semidefinite, as far as rounding lets one say; without it no duality gap is a proof."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

INDEFINITE = 1e-8  # what rounding may make of the smallest eigenvalue, relative to the largest
DENSE = 1000  # order up to which all eigenvalues are computed
NAMED = 4  # rows that a message names


@dataclass(frozen=True, eq=False)
class Negative:
    """The smallest eigenvalue of a matrix, the estimated largest, and the rows of the largest entries of its eigenvector.

    ``rounding`` says whether it is small enough to come from rounding.
    """

    value: float
    largest: float
    rows: np.ndarray
    rounding: bool


class IndefiniteKernelError(ValueError):
    """A direction of negative curvature; ``negative.rows`` are numbers of samples of the problem."""

    def __init__(self, negative: Negative, n: int) -> None:
        self.negative, self.n = negative, n
        super().__init__(f"the kernel is not positive semidefinite: {described(negative, n)}")


def described(negative: Negative, n: int) -> str:
    """What was found between n samples, and what to do."""
    rows = ", ".join(map(str, negative.rows))
    return (
        f"between {n} samples it has the eigenvalue {negative.value:.3g} (largest {negative.largest:.3g}), mostly from rows "
        f"{rows}. Use another kernel, or for a given matrix K + {1.1 * abs(negative.value):.2g} I or K with its negative "
        "eigenvalues cut to 0."
    )


def smallest_eigenvalue(K: np.ndarray, rounding: float = 0.0) -> Negative:
    """Of a symmetric matrix, shape (n, n); ``rounding`` is that of its entries, relative to the largest."""
    if len(K) <= DENSE:
        values, vectors = np.linalg.eigh(K)
        value, vector, largest = float(values[0]), vectors[:, 0], float(values[-1])
    else:
        largest = _norm(K)
        start = np.random.default_rng(0).standard_normal(len(K))
        try:
            values, vectors = eigsh(K, k=1, which="SA", v0=start, tol=1e-3, maxiter=2000)
        except ArpackNoConvergence:  # crowded eigenvalues: near the smallest there is nothing far from it
            v = start / np.linalg.norm(start)
            for _ in range(200):
                v = largest * v - K @ v
                v /= np.linalg.norm(v)
            values, vectors = np.array([v @ (K @ v)]), v[:, None]
        value, vector = float(values[0]), vectors[:, 0]
    rows = np.sort(np.argsort(-np.abs(vector), kind="stable")[:NAMED])
    return Negative(value, largest, rows, value >= -_allowed(K, largest, rounding))


def negative_eigenvalue(K: np.ndarray, rounding: float = 0.0) -> Negative | None:
    """The smallest eigenvalue where it is negative beyond rounding, else None; at the price of a Cholesky factor."""
    work = np.array(K, dtype=np.float64)
    # half of it: the factorisation rounds, too
    work.reshape(-1)[:: len(K) + 1] += 0.5 * _allowed(work, _norm(work), rounding)
    try:
        cholesky(work, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        found = smallest_eigenvalue(np.asarray(K, dtype=np.float64), rounding)
        return None if found.rounding else found
    return None


def _allowed(K: np.ndarray, largest: float, rounding: float) -> float:
    """How far below 0 rounding may take an eigenvalue."""
    top = max(float(K.max()), -float(K.min()))
    return max(INDEFINITE * abs(largest), len(K) * rounding * top, 1e-300)


def _norm(K: np.ndarray) -> float:
    """The largest absolute eigenvalue, by powers: seldom a tenth short."""
    v, length = np.random.default_rng(0).standard_normal(len(K)) + 1.0, 1.0
    for _ in range(12):
        v = K @ (v / np.linalg.norm(v))
        length = float(np.linalg.norm(v))
        if not length > 0:
            return 0.0
    return length
