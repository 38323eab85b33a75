"""Machines whose kernel is ``V V'`` with few columns, in O(n r^2) a step.

The hinge is solved by an interior-point method (Fine and Scheinberg 2001), the squared hinge by Newton's method for
``w = V'x`` (Mangasarian 2002). The dual problem is ``min 1/2 x'(V V' + ridge) x - signs'x`` in signed weights ``x = signs alpha``
with ``0 <= alpha <= upper`` and, with an intercept b, ``sum(x) = 0``. With the multipliers z and s of both bounds the optimality
condition is ``signs (f + b) + ridge alpha - 1 = z - s``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from bregmat.base.tolerances import TINY
from bregmat.margin.problem import MarginProblem

FEWEST = 1000  # samples from which on the factor is used: below, kernel rows take a few milliseconds
MOST_STEPS = 80  # twice what any problem of the tests takes
GAP = 1e-10  # relative duality gap at which the roles of the samples are clear


def has_small_factor(problem: MarginProblem) -> bool:
    """Whether steps with the factor of the kernel cost less than kernel rows."""
    share = 16  # and samples per column of it
    V = problem.kernel.factor
    return V is not None and problem.loss != "hard" and problem.n >= FEWEST and share * V.shape[1] <= problem.n


class LowRankSystem:
    """The matrix ``V V' + diag(D)``, factorised by its complement ``I + V' D^-1 V``; with or without a row for the sum of x."""

    def __init__(self, V: np.ndarray, D: np.ndarray, with_sum: bool) -> None:
        self.V, self.D = V, D
        M = (V / D[:, None]).T @ V
        M[np.diag_indices_from(M)] += 1.0
        self.cholesky = scipy.linalg.cho_factor(M, lower=True, check_finite=False)
        self.ones = self._apply(np.ones(len(D))) if with_sum else None

    def _apply(self, v: np.ndarray) -> np.ndarray:
        """The product of the inverse and v, by the Woodbury identity."""
        v = v / self.D
        return v - (self.V @ scipy.linalg.cho_solve(self.cholesky, self.V.T @ v, check_finite=False)) / self.D

    def solve(self, v: np.ndarray, total: float) -> tuple[np.ndarray, float]:
        """The step of x and of b: ``(V V' + D) dx + db = v`` and ``sum(dx) = total``."""
        dx = self._apply(v)
        if self.ones is None:
            return dx, 0.0
        db = (float(dx.sum()) - total) / float(self.ones.sum())
        return dx - db * self.ones, db


def interior_point(
    problem: MarginProblem, V: np.ndarray, stop: Callable[[], bool] = lambda: False
) -> tuple[np.ndarray, int]:
    """Signed weights (n,) near the optimum, with those at a bound set to it, and the number of steps.

    Parameters
    ----------
    problem : MarginProblem
        Of a hinge.
    V : ndarray, shape (n, r)
        Factor of the kernel.
    stop : callable
        Called between steps; True ends the run.
    """
    near = 0.995  # share of the way to the nearest bound that a step takes (Mehrotra 1992)
    rows = np.flatnonzero(problem.counts)
    x = np.zeros(problem.n)
    y, U, ridge, V = problem.signs[rows], problem.upper[rows], problem.ridge[rows], V[rows]
    a, b, steps = _start(problem, y, U), 0.0, 0
    boxed = np.isfinite(U)
    g = y * (V @ (V.T @ (y * a))) + ridge * a - 1.0
    z, s = np.maximum(g, 0.0) + 1.0, np.where(boxed, np.maximum(-g, 0.0) + 1.0, 0.0)
    while True:
        g = y * (V @ (V.T @ (y * a)) + b) + ridge * a - 1.0
        above = np.where(boxed, U - a, 1.0)
        gap, size = float(a @ z + above @ s), float(a.sum())
        if gap + float(np.abs(a @ (g - z + s))) <= GAP * size or steps == MOST_STEPS or stop():
            break
        steps += 1
        total = -float(y @ a) if problem.intercept else 0.0
        system = LowRankSystem(V, ridge + z / a + s / above, problem.intercept)
        cz = cs = np.zeros(len(a))  # predictor: complementarity of 0
        for is_last in (False, True):
            dx, db = system.solve(y * (cz / a - cs / above - g), total)
            da = y * dx
            dz, ds = (cz - z * da) / a - z, np.where(boxed, (cs + s * da) / above - s, 0.0)
            pairs = ((a, da), (z, dz), (above, -da * boxed), (s, ds))
            bounds = [float(np.min(-v / dv, initial=np.inf, where=dv < 0)) for v, dv in pairs]
            length = min(1.0, near * min(bounds))
            if not is_last:
                left = float((a + length * da) @ (z + length * dz) + (above - length * da) @ (s + length * ds))
                centre = gap / (len(a) + np.count_nonzero(boxed)) * max(left / gap, 0.0) ** 3
                cz, cs = centre - da * dz, np.where(boxed, centre + da * ds, 0.0)
        a, b, z, s = a + length * da, b + length * db, z + length * dz, s + length * ds
        if not np.isfinite(length * float(a.sum() + z.sum())) or length < 1e-10:
            break
    x[rows] = y * _rounded(a, z, s, U, y if problem.intercept else None)
    return x, steps


def newton(problem: MarginProblem, V: np.ndarray, stop: Callable[[], bool] = lambda: False) -> tuple[np.ndarray, int]:
    """Signed weights (n,) of a squared hinge, and the number of steps; arguments as of :func:`interior_point`.

    ``min |w|^2 / 2 + sum (1 - m_i)+^2 / 2 r_i`` over w and b, ``m = signs (V w + b)``. The function is quadratic while the same
    samples have margins below 1. The last steps refine the solution with the residuals of the previous one.
    """
    refinements = 4  # steps of Newton's method after the last change of the samples within the margin
    rows = np.flatnonzero(problem.counts)
    y, r = problem.signs[rows], problem.ridge[rows]
    V = np.column_stack([V[rows], np.ones(len(rows))]) if problem.intercept else V[rows]
    kept = np.ones(V.shape[1])  # the intercept is not regularised
    kept[V.shape[1] - 1 :] = 0.0 if problem.intercept else 1.0
    w, x, steps, refined = np.zeros(V.shape[1]), np.zeros(problem.n), 0, 0

    def value(w: np.ndarray) -> tuple[float, np.ndarray]:
        slack = np.maximum(1.0 - y * (V @ w), 0.0)
        return 0.5 * float(kept @ w**2 + slack @ (slack / r)), slack

    now, slack = value(w)
    while steps < MOST_STEPS and refined < refinements and not stop():
        steps += 1
        on = slack > 0
        M = (V[on] / r[on, None]).T @ V[on]
        M[np.diag_indices_from(M)] += kept
        gradient = kept * w - (y * slack / r) @ V
        step = -scipy.linalg.cho_solve(scipy.linalg.cho_factor(M, check_finite=False), gradient, check_finite=False)
        length = 1.0
        new, there = value(w + step)
        refined = refined + 1 if np.array_equal(there > 0, on) else 0
        while not refined and new > now + 1e-4 * length * float(gradient @ step) and length > 1e-10:
            length *= 0.5
            new, there = value(w + length * step)
        w, now, slack = w + length * step, new, there
    x[rows] = y * slack / r
    return x, steps


def _start(problem: MarginProblem, y: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Weights strictly between their bounds, with equal sums of both classes if there is an intercept."""
    a = np.minimum(0.5 * U, 1.0 / max(problem.largest, TINY))
    if problem.intercept:
        plus = y > 0
        sums = float(a[plus].sum()), float(a[~plus].sum())
        a *= np.where(plus, min(1.0, sums[1] / sums[0]), min(1.0, sums[0] / sums[1]))
    return a


def _rounded(a: np.ndarray, z: np.ndarray, s: np.ndarray, U: np.ndarray, y: np.ndarray | None) -> np.ndarray:
    """Weights at a bound where the multiplier of the bound exceeds the distance from it; y are signs whose sum with a stays 0."""
    unit = np.where(np.isfinite(U), U, max(float(a.max()), TINY))
    low, high = a / unit < z, np.isfinite(U) & ((U - a) / unit < s)
    out = np.where(low, 0.0, np.where(high, U, a))
    if y is not None:
        inner = int(np.argmax(np.minimum(a, unit - a)))
        out[inner] = min(max(out[inner] - y[inner] * float(y @ out), 0.0), U[inner])
    return out
