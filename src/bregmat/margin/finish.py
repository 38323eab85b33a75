"""The exact finish: an active set in float64 on the samples whose part is open, widened until nothing outside objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bregmat.kernels.definite import IndefiniteKernelError, smallest_eigenvalue
from bregmat.margin.certificate import Machine
from bregmat.margin.hulls import coinciding
from bregmat.margin.problem import MarginProblem
from bregmat.margin.working_set import SupportSearch
from bregmat.quadratic.active_set import ExactActiveSet
from bregmat.quadratic.program import Minimum, QuadraticProgram

TOL = 1e-11  # violation that the active set leaves, in units of the margin
BAND = 0.02  # distance from the margin within which a sample takes part, in units of the margin
OBJECTION = 1e-9  # violation of a sample outside that brings it in
SEPARABLE = 1e-7  # margin, relative to the largest norm of a sample, that float64 may not tell from none


def finish(search: SupportSearch) -> None:
    """Exact optimum from signed weights whose support is nearly right: the search's weights, and their values in float64.

    Samples at their upper bound and far inside the margin enter through their sum only, so that the dense part is small.
    """
    problem, x = search.problem, search.x.copy()
    y, upper = problem.signs, problem.upper
    # to float32 accuracy: says who is near the margin
    slope = y - search.f - problem.ridge * x - search.shift
    band = BAND
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
        end = _minimum(problem, F, QuadraticProgram.of(A, pull - 1.0, upper[F], equality), alpha[F], search.late)
        search.steps += end.n_iter + end.n_factor
        x[F] = y[F] * end.x
        shift = float(end.multiplier[0]) if problem.intercept else 0.0
        machine = Machine.rough(problem, x, search.cache)
        # y f + ridge alpha over F from the block at hand; the bounded samples from sums.
        machine.f[F] = y[F] * (A @ end.x + pull - problem.ridge[F] * end.x)
        machine.error[F] = 0.0
        if len(B):
            machine.f[B] = problem.kernel.sums(B, F, x[F]) + problem.kernel.sums(B, B, x[B])
            machine.error[B] = 0.0
        outside = problem.counts & ~part & (x == 0)
        machine.sharpen(np.flatnonzero(outside & (y * (machine.f + shift) - machine.error < 1.0)))
        bent = 1.0 - y * (machine.f + shift) - problem.ridge * np.abs(x)
        held = np.zeros(problem.n, dtype=bool)
        held[B] = True
        objections = (outside & (machine.error == 0) & (bent > OBJECTION)) | (held & (bent < -OBJECTION))
        slope = y * bent
        if not objections.any() or search.late():
            break
        part |= objections
        band *= 2.0
    machine.intercept = shift
    search.x, search.shift, search.exact = x, shift, machine
    search.violation = max(end.violation, float(np.abs(bent[objections]).max(initial=0.0)))


def _minimum(
    problem: MarginProblem, F: np.ndarray, program: QuadraticProgram, start: np.ndarray, stop: Callable[[], bool]
) -> Minimum:
    """The active set over the samples F; what it says about its matrix is about the kernel here."""
    try:
        # the active set takes tol relative to the linear term; violations here are in margins
        scale = max(float(np.abs(program.b).max()), 1.0)
        return ExactActiveSet(TOL / scale).minimize(program, start, lambda *_: stop())
    except ValueError as error:
        found = smallest_eigenvalue(program.A, problem.kernel.rounding)
        raise IndefiniteKernelError(replace(found, rows=F[found.rows]), len(F)) from error


@dataclass(eq=False)
class Hulls:
    """Nearest points of the convex hulls of the classes: weights ``alpha`` (sum 2, or 1 without an intercept), the distance
    from the origin or half the distance between them, and whether they are not proven to coincide."""

    alpha: np.ndarray
    margin: float
    separable: bool
    n_iter: int


def nearest_points(
    problem: MarginProblem, alpha: np.ndarray, slope: np.ndarray, *, stop: Callable[[], bool] = lambda: False
) -> Hulls:
    """The largest margin geometrically: ``min |sum alpha_i signs_i phi_i|``, each class of weight 1.

    What the hard margin is where its weights are too large to be found in float32, or do not exist: then the distance is
    zero, and the weights prove it (:func:`coinciding`). Where rounding hides the distance and there is no proof, it is nothing but
    a start, and the machine says what it is worth.

    Parameters
    ----------
    problem : MarginProblem
    alpha : ndarray of shape (n,)
        Weights to start from.
    slope : ndarray of shape (n,)
        ``signs - K x - intercept``, to float32 accuracy: says who is near the margin.
    stop : callable
        Asked between rounds; True ends the search.
    """
    y, counts, total = problem.signs, problem.counts, 2.0 if problem.intercept else 1.0
    kernel = problem.kernel
    largest = float(np.sqrt(max(kernel.diagonal()[counts].max(), 1e-300)))
    part = counts & ((alpha > 0) | (y * slope > -BAND))
    for sign in (1.0, -1.0):  # at least one sample of each class there is
        rows = np.flatnonzero(counts & (y == sign))
        part[rows[:1]] |= not part[rows].any()
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
        end = _minimum(problem, F, QuadraticProgram.of(A, np.zeros(len(F)), equality=(E, e)), start, stop)
        n_iter += end.n_iter + end.n_factor
        weight = np.zeros(problem.n)
        weight[F] = end.x
        q = float(end.x @ (A @ end.x))
        # |sum|^2 of n terms is known to a few units of rounding
        margin = float(np.sqrt(max(q, 0.0) + 4e-16 * total**2 * largest**2)) / total
        if margin <= SEPARABLE * largest:
            exact = coinciding(kernel, y, counts, weight, intercept=problem.intercept)
            if exact is not None:
                return Hulls(exact, margin, False, n_iter)
        f = kernel.sums(np.arange(problem.n), np.flatnonzero(weight), (y * weight)[weight > 0])
        # Optimal: signs (f + shift) is q / total for those with weight, and at least that for the others.
        shift, level = float(end.multiplier[1]) if problem.intercept else 0.0, q / total
        objections = counts & ~part & (y * (f + shift) < level * (1 - 1e-9) - 1e-15 * total * largest**2)
        if not objections.any() or stop():
            break
        part |= objections
    return Hulls(weight * (total / q if q > 0 else 1.0), margin, True, n_iter)
