"""Subproblems of a step: sums of exponentials, Newton directions within bounds, and projections onto one row."""

from __future__ import annotations

import math

import numpy as np
import scipy

from bregmat.base.linalg import cholesky, cholesky_solve
from bregmat.base.pivoting import Exchanges, pivot_in_box
from bregmat.base.tolerances import EPS


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
        max_iter=4 * len(q) + 4,
    )
    if d is not None:
        return d * unit
    # q . d + d' K d / 2 = |C' d + C^-1 q|^2 / 2 up to a constant
    half = scipy.linalg.solve_triangular(C, -q, lower=True)
    return scipy.optimize.lsq_linear(C.T, half, (low, np.inf), "bvls", tol=1e-15, max_iter=10 * len(q)).x * unit


def balance(u: np.ndarray, a: np.ndarray, up: np.ndarray, down: np.ndarray, tol: float) -> float:
    """The zero t of the decreasing function ``log(sum_k up_k e_k) - log(sum_k down_k e_k)`` with ``e_k = exp(u_k - t a_k)``.

    It is infinite if all weights of one side are 0, or if the zero is above 1e100.

    Parameters
    ----------
    u, a : ndarray, shape (n,)
        Exponents at t = 0, and their rates of decrease, of which the largest is about 1.
    up, down : ndarray, shape (n,)
        Nonnegative weights of the two sums.
    tol : float
        Accuracy of t.
    """
    largest = 1e100  # changes of exponents above this are taken for infinite, long before numbers overflow
    weights = np.array([up, down])
    logs = u + np.log(weights, out=np.full(weights.shape, -np.inf), where=weights > 0.0)
    empty = np.isneginf(logs).all(axis=1)
    if empty.any():
        return np.inf if empty[1] else -np.inf

    def difference(t: float) -> tuple[float, float]:
        """The function and its derivative."""
        exponents = logs - t * a
        top = exponents.max(axis=1)
        e = np.exp(exponents - top[:, None])
        total, moment = e.sum(axis=1).tolist(), (e @ a).tolist()
        slope = moment[1] / total[1] - moment[0] / total[0]
        return float(top[0] - top[1]) + math.log(total[0] / total[1]), slope

    # Newton's method while it halves the value: the function is nearly linear unless one entry dominates both sums
    t, last = 0.0, np.inf
    value, slope = difference(t)
    start = value
    while abs(value) < 0.5 * last and slope < 0.0:
        change, last = -value / slope, abs(value)
        t += change
        if abs(change) <= tol:
            return t
        value, slope = difference(t)
    end = math.copysign(10.0 + float(np.ptp(u)), start)
    while difference(end)[0] * start > 0.0:
        end *= 4.0
        if abs(end) > largest:
            return math.copysign(np.inf, start)
    # with disp=False, the last iterate is returned if the limit is reached
    limits = {"xtol": tol, "rtol": 4.0 * EPS, "maxiter": 300, "disp": False}
    return float(scipy.optimize.brentq(lambda t: difference(t)[0], 0.0, end, **limits))


def step_to_row(u: np.ndarray, a: np.ndarray, b: float, total: float | None, tol: float = 1e-10) -> float:
    """The Bregman projection onto one row (Kulis 2009, eq. 6): t with ``a . x(t) = b`` for ``x(t) ~ exp(u - t a)``.

    It is infinite if no vector attains b, or if the step is too large to compute with.

    Parameters
    ----------
    u, a : ndarray, shape (n,)
        Logarithm of the vector, and the row.
    b : float
    total : float or None
        The sum of x(t); None if it is free.
    tol : float
        Accuracy of the exponents; dimensionless.
    """
    scale = float(np.abs(a).max(initial=0.0))
    if not 0 < scale < np.inf:
        return 0.0
    a, b = a / scale, b / scale
    if total is None:
        weights = np.append(a, -b)
        return balance(np.append(u, 0.0), np.append(a, 0.0), weights, -weights, tol) / scale
    target, low, high = b / total, a.min(), a.max()
    if not low < high:
        return 0.0
    if not low < target < high:
        return np.inf if target <= low else -np.inf
    # (high - low) (a - b) = (a - low) (high - b) - (high - a) (b - low); the logarithm of their ratio is linear for rows of two values
    return balance(u, a, (a - low) * (high - target), (high - a) * (target - low), tol) / scale
