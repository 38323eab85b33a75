"""The data of the vector case of (P): linear constraints on the support of the prior, and the quadratic model of the dual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy

from bregmat.base.checks import as_column, as_matrix
from bregmat.base.linalg import EPS, Exchanges, cholesky, cholesky_solve, pivot_in_box
from bregmat.constraints.columns import sense_codes
from bregmat.constraints.rows import excess_of

MODEST = 16.0  # roundings of a few operations and of pairwise sums, in units of EPS


@dataclass(frozen=True, eq=False)
class LinearRows:
    """The data of the problem on the support of its prior.

    Attributes
    ----------
    A : ndarray or csr_array, shape (c, n)
        The user's rows divided by ``factor``, so that the largest entry of each is between 1/2 and 2.
    b, sense, unit : ndarray, shape (c,)
        Right-hand sides divided by ``factor``; 1 for "<=", -1 for ">=", 0 for "=="; units of violations.
    factor : ndarray, shape (c,)
        Powers of two, so that the division is exact.
    x0, log0 : ndarray, shape (n,)
        The prior, positive, and its logarithm.
    total : float or None
        The sum of x; None if it is free.
    """

    A: Any
    b: np.ndarray
    sense: np.ndarray
    unit: np.ndarray
    factor: np.ndarray
    x0: np.ndarray
    log0: np.ndarray
    total: float | None

    @classmethod
    def build(cls, x0: Any, A: Any, b: Any, sense: Any, total: float | None) -> tuple[Self, np.ndarray]:
        """Checked rows on the support of x0, and the support.

        Parameters
        ----------
        x0, A, b, sense, total
            As in :func:`bregmat.nearest_distribution`.
        """
        x0 = as_column("x0", x0, per="column of A", lowest=0.0)
        support = x0 > 0
        if not support.any():
            raise ValueError(f"x0 must have a positive entry; all {len(x0)} are 0.")
        A = as_matrix("A", A, sparse="csr", empty=True)
        if A.shape[1] != len(x0):
            raise ValueError(f"A must have one column per entry of x0 ({len(x0)}); got shape {A.shape}.")
        if isinstance(A, np.ndarray):
            A = np.ascontiguousarray(A)
        c = A.shape[0]
        b, sense = as_column("b", b, c, scalar=True), sense_codes(sense, c).astype(float)
        if not support.all():
            A, x0 = A[:, support], x0[support]
        largest = abs(A).max(axis=1, initial=0.0) if isinstance(A, np.ndarray) else abs(A).max(axis=1).toarray().ravel()
        factor = np.exp2(np.round(np.log2(np.where(largest > 0, largest, 1.0))))
        A = A / factor[:, None] if isinstance(A, np.ndarray) else scipy.sparse.diags_array(1.0 / factor).tocsr() @ A
        b = b / factor
        mass = 1.0 if total is None else total / x0.sum()
        unit = np.abs(b)
        if (unit == 0).any():
            size = mass * np.array([np.abs(A[[j]]) @ x0 for j in np.flatnonzero(unit == 0)])[:, 0]
            unit[unit == 0] = np.where(size > 0, size, 1.0)
        return cls(A, b, sense, unit, factor, x0, np.log(x0), None if total is None else float(total)), support

    @property
    def mass(self) -> float:
        """The natural size of KL(x, x0): the sum of x, or of the prior if that of x is free."""
        return float(self.x0.sum()) if self.total is None else self.total

    @property
    def sign(self) -> np.ndarray:
        """-1 for ">=", else 1: ``sign * mu >= 0`` wherever a row is an inequality."""
        return np.where(self.sense < 0, -1.0, 1.0)

    def row(self, j: int) -> tuple[Any, np.ndarray]:
        """The columns of a row and its entries there."""
        if isinstance(self.A, np.ndarray):
            return slice(None), self.A[j]
        part = slice(self.A.indptr[j], self.A.indptr[j + 1])
        return self.A.indices[part], self.A.data[part]

    def part(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        """A block of A as a sparse array."""
        if isinstance(self.A, np.ndarray):
            return scipy.sparse.csr_array(self.A[:, columns][rows])
        return self.A[rows][:, columns]

    def adjoint(self, mu: np.ndarray) -> np.ndarray:
        """``A' mu``, without the rows of weight 0."""
        on = np.flatnonzero(mu)
        if len(on) < 0.5 * len(mu):
            return mu[on] @ self.A[on] if len(on) else np.zeros(len(self.x0))
        return mu @ self.A

    def log_point(self, T: np.ndarray) -> np.ndarray:
        """The logarithm of ``x ~ exp(T)`` with the sum ``total``."""
        return T if self.total is None else T - log_sum(T) + np.log(self.total)

    def bound(self, mu: np.ndarray, v: np.ndarray) -> float:
        """The dual bound g(mu) with ``v = A'mu``."""
        if self.total is None:
            return float(-(mu @ self.b) - self.x0 @ np.expm1(-v))
        log_mass = log_sum(self.log0 - v) - np.log(self.total)
        return float(self.x0.sum() - self.total - self.total * log_mass - mu @ self.b)

    def bound_rounding(self, mu: np.ndarray, v: np.ndarray) -> float:
        """The largest rounding of :meth:`bound`: of the exponents, weighted with x, and of the sums."""
        on = np.flatnonzero(mu)
        exponents = np.abs(self.log0) + np.abs(v)
        if len(on):
            exponents += (MODEST + len(on)) * (np.abs(mu[on]) @ abs(self.A[on]))
        if self.total is None:
            x, sums = np.exp(self.log0 - v), float(self.x0 @ np.abs(np.expm1(-v)))
        else:
            T = self.log0 - v
            x = np.exp(self.log_point(T))
            sums = float(self.x0.sum()) + self.total * (1.0 + abs(log_sum(T)) + abs(np.log(self.total)))
        sums += (1.0 + len(on)) * float(np.abs(mu) @ np.abs(self.b))
        return EPS * (float(x @ exponents) + MODEST * sums)

    def divergence_rounding(self, logx: np.ndarray) -> float:
        """The largest rounding of :meth:`divergence`."""
        d, x = np.abs(logx - self.log0), np.exp(logx)
        terms = x * d * (1.0 + np.abs(logx) + np.abs(self.log0)) + np.minimum(d, 1.0) * (x + self.x0)
        return MODEST * EPS * float(terms.sum())

    def divergence(self, logx: np.ndarray) -> float:
        """KL(x, x0), without cancellation for x near x0."""
        d, x = logx - self.log0, np.exp(logx)
        return float(np.where(np.abs(d) > 1, x * d - (x - self.x0), self.x0 * (d * np.exp(d) - np.expm1(d))).sum())

    def excess(self, p: np.ndarray) -> np.ndarray:
        """``sign * (p - b)``: positive for violated inequalities."""
        return self.sign * (p - self.b)

    def violation(self, p: np.ndarray) -> np.ndarray:
        """Relative violation of each row."""
        return np.maximum(excess_of(p, self.b, self.sense), 0.0) / self.unit

    def worst(self, p: np.ndarray) -> float:
        """The largest relative violation."""
        return float(self.violation(p).max(initial=0.0))

    def hessian(self, rows: np.ndarray, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        """The Hessian of -g in ``sign * mu`` for some rows: ``A diag(x) A'``, or the covariance of the rows if the sum is fixed."""
        mean = p[rows] / self.total if self.total is not None else np.zeros(len(rows))
        if isinstance(self.A, np.ndarray):
            H = np.zeros((len(rows), len(rows)))
            for first in range(0, len(x), 8192):
                part = self.A[rows, first : first + 8192] - mean[:, None]
                H += (part * x[first : first + 8192]) @ part.T
        else:
            part = self.A[rows]
            H = ((part * x[None, :]) @ part.T).toarray() - np.outer(p[rows], mean)
        return H * np.multiply.outer(self.sign[rows], self.sign[rows])


def log_sum(T: np.ndarray) -> float:
    """``log sum exp T``."""
    top = float(T.max())
    return top + float(np.log(np.exp(T - top).sum()))


def newton_direction(H: np.ndarray, q: np.ndarray, y: np.ndarray, bounded: np.ndarray) -> np.ndarray:
    """``argmin q . d + d' H d / 2`` over ``d >= -y`` for bounded rows, by block principal pivoting or, if that stalls, SciPy's method.

    Parameters
    ----------
    H : ndarray, shape (k, k)
        Positive semidefinite.
    q, y : ndarray, shape (k,)
    bounded : ndarray of bool, shape (k,)
    """
    unit = 1.0 / np.sqrt(np.diag(H))
    K, q, low = H * unit * unit[:, None], q * unit, np.where(bounded, -y / unit, -np.inf)
    for _ in range(20):
        C, ok = cholesky(K) if len(q) else (K, True)
        if ok:
            break
        K[np.diag_indices_from(K)] *= 1.0 + 1e-8  # the rounding of dependent rows may exceed the proximal term
    else:
        return np.zeros_like(q)
    d = pivot_in_box(
        lambda free, b: cholesky_solve(cholesky(K[np.ix_(free, free)])[0], b),
        lambda v: K @ v,
        q,
        low,
        np.full(len(q), np.inf),
        np.where(bounded & (y <= 0) & (q >= 0), -1, 0),
        Exchanges(patience=3, singles=0),
        most=4 * len(q) + 4,
    )
    if d is not None:
        return d * unit
    # q . d + d' K d / 2 = |C' d + C^-1 q|^2 / 2 up to a constant
    half = scipy.linalg.solve_triangular(C, -q, lower=True)
    return scipy.optimize.lsq_linear(C.T, half, (low, np.inf), "bvls", tol=1e-15, max_iter=10 * len(q)).x * unit
