"""The exact finish: an active set in float64 on the samples whose part is open, widened until nothing outside objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bregmat.kernels.definite import IndefiniteKernelError, smallest_eigenvalue
from bregmat.margin.certificate import Values, rough_values, sharpen
from bregmat.margin.problem import MarginProblem
from bregmat.margin.rows import RowCache
from bregmat.quadratic.active_set import ExactActiveSet
from bregmat.quadratic.program import Minimum, QuadraticProgram

BAND = 0.02  # distance from the margin within which a sample takes part, in units of the margin
OBJECTION = 1e-9  # violation of a sample outside that brings it in
SEPARABLE = 1e-7  # margin, relative to the largest norm of a sample, that float64 cannot tell from none


@dataclass(eq=False)
class Finish:
    """Signed weights, their values, the multiplier of the sum, the violation left, and the work done."""

    x: np.ndarray
    values: Values
    shift: float
    violation: float
    n_iter: int


def finish(
    problem: MarginProblem,
    x: np.ndarray,
    slope: np.ndarray,
    cache: RowCache,
    *,
    tol: float = 1e-11,
    stop: Callable[[], bool] = lambda: False,
) -> Finish:
    """Exact optimum from signed weights ``x`` whose support is nearly right.

    ``slope`` (n,) is ``signs - K x - ridge x - intercept`` to float32 accuracy: it says who is near the margin. Samples at
    their upper bound and far inside the margin enter through their sum only, so that the dense part is small.
    """
    y, upper = problem.signs, problem.upper
    x = x.copy()
    band, n_iter = BAND, 0
    part = np.zeros(problem.n, dtype=bool)
    for _ in range(12):
        alpha, bent = np.abs(x), y * slope
        low, high = alpha <= 0, alpha >= upper
        part |= problem.counts & np.where(low, bent > -band, np.where(high, bent < band, True))
        F = np.flatnonzero(part)
        B = np.flatnonzero(high & ~part & problem.counts)
        if len(F) == 0:  # everything at its bounds and far from the margin: the nearest say whether that stands
            distance = np.where(problem.counts, np.abs(bent), np.inf)
            for sign in (1.0, -1.0):
                rows = np.flatnonzero(problem.counts & (y == sign))
                part[rows[np.argsort(distance[rows])[:5]]] = True
            F = np.flatnonzero(part)
            B = np.flatnonzero(high & ~part & problem.counts)
        A = problem.kernel.signed_block(F, y[F])
        A.reshape(-1)[:: len(F) + 1] += problem.ridge[F]
        pull = y[F] * problem.kernel.sums(F, B, x[B]) if len(B) else np.zeros(len(F))
        equality = (y[F][None, :], -np.array([x[B].sum()])) if problem.intercept else None
        end = _solve(problem, F, A, pull - 1.0, alpha[F], upper[F], equality, tol, stop)
        n_iter += end.n_iter + end.n_factor
        x[F] = y[F] * end.x
        shift = float(end.multiplier[0]) if problem.intercept else 0.0
        values = rough_values(problem, x, cache)
        # y f + ridge alpha over F from the block at hand; the bounded samples from sums.
        values.f[F] = y[F] * (A @ end.x + pull - problem.ridge[F] * end.x)
        values.error[F] = 0.0
        if len(B):
            values.f[B] = problem.kernel.sums(B, F, x[F]) + problem.kernel.sums(B, B, x[B])
            values.error[B] = 0.0
        outside = problem.counts & ~part & (x == 0)
        sharpen(problem, x, values, np.flatnonzero(outside & (y * (values.f + shift) - values.error < 1.0)))
        bent = 1.0 - y * (values.f + shift) - problem.ridge * np.abs(x)
        held = np.zeros(problem.n, dtype=bool)
        held[B] = True
        objections = (outside & (values.error == 0) & (bent > OBJECTION)) | (held & (bent < -OBJECTION))
        slope = y * bent
        if not objections.any() or stop():
            worst = float(np.abs(bent[objections]).max(initial=0.0))
            return Finish(x, values, shift, max(end.violation, worst), n_iter)
        part |= objections
        band *= 2.0
    return Finish(x, values, shift, max(end.violation, float(np.abs(bent[objections]).max(initial=0.0))), n_iter)


def _solve(
    problem: MarginProblem,
    F: np.ndarray,
    A: np.ndarray,
    b: np.ndarray,
    x: np.ndarray,
    upper: np.ndarray,
    equality: tuple[np.ndarray, np.ndarray] | None,
    tol: float,
    stop: Callable[[], bool],
) -> Minimum:
    """The active set over the samples F; what it says about its matrix is about the kernel here."""
    try:
        scale = max(
            float(np.abs(b).max()), 1.0
        )  # the active set takes tol relative to it; violations here are in margins
        program = QuadraticProgram.of(A, b, upper, equality)
        return ExactActiveSet(tol / scale).minimize(program, x, lambda *_: stop())
    except ValueError as error:
        found = smallest_eigenvalue(A, problem.kernel.rounding)
        raise IndefiniteKernelError(replace(found, rows=F[found.rows]), len(F)) from error


@dataclass(eq=False)
class Hulls:
    """Nearest points of the convex hulls of the classes: weights ``alpha`` (sum 2, or 1 without an intercept), the distance
    from the origin or half the distance between them, and whether it is above what float64 can tell from none."""

    alpha: np.ndarray
    margin: float
    separable: bool
    n_iter: int


def nearest_points(
    problem: MarginProblem, alpha: np.ndarray, slope: np.ndarray, *, stop: Callable[[], bool] = lambda: False
) -> Hulls:
    """The largest margin geometrically: ``min |sum alpha_i signs_i phi_i|``, each class of weight 1.

    What the hard margin is where its weights are too large to be found in float32, or do not exist: then the distance is
    zero, and the weights prove it.
    """
    y, counts, total = problem.signs, problem.counts, 2.0 if problem.intercept else 1.0
    kernel = problem.kernel
    largest = float(np.sqrt(max(kernel.diagonal()[counts].max(), 1e-300)))
    part = counts & ((alpha > 0) | (y * slope > -BAND))
    part = _both_classes(problem, part)
    n_iter = 0
    weight = alpha
    for _ in range(40):
        F = np.flatnonzero(part)
        A = kernel.signed_block(F, y[F])
        start = np.zeros(len(F))
        for sign in (1.0, -1.0) if problem.intercept else (0.0,):
            rows = y[F] == sign if sign else np.ones(len(F), dtype=bool)
            held = weight[F][rows]
            start[rows] = held / held.sum() if held.sum() > 0 else 1.0 / rows.sum()
        E = np.vstack([np.ones(len(F)), y[F]]) if problem.intercept else np.ones((1, len(F)))
        e = np.array([total, 0.0]) if problem.intercept else np.array([total])
        end = _solve(problem, F, A, np.zeros(len(F)), start, np.full(len(F), np.inf), (E, e), 1e-11, stop)
        n_iter += end.n_iter + end.n_factor
        weight = np.zeros(problem.n)
        weight[F] = end.x
        q = float(end.x @ (A @ end.x))
        # |sum|^2 of n terms is known to a few units of rounding
        margin = float(np.sqrt(max(q, 0.0) + 4e-16 * total**2 * largest**2)) / total
        if margin <= SEPARABLE * largest:
            return Hulls(weight, margin, False, n_iter)
        f = kernel.sums(np.arange(problem.n), np.flatnonzero(weight), (y * weight)[weight > 0])
        # Optimal: signs (f + shift) is q / total for those with weight, and at least that for the others.
        shift, level = float(end.multiplier[1]) if problem.intercept else 0.0, q / total
        objections = counts & ~part & (y * (f + shift) < level * (1 - 1e-9) - 1e-15 * total * largest**2)
        if not objections.any() or stop():
            break
        part |= objections
    return Hulls(weight * (total / q), margin, True, n_iter)


def _both_classes(problem: MarginProblem, part: np.ndarray) -> np.ndarray:
    """``part`` with at least one sample of each class there is."""
    part = part.copy()
    for sign in (1.0, -1.0):
        rows = np.flatnonzero(problem.counts & (problem.signs == sign))
        if len(rows) and not part[rows].any():
            part[rows[0]] = True
    return part
