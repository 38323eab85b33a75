"""The convex hulls of two classes: their nearest points, and an exact proof that they meet.

The hulls of the classes in feature space are disjoint if and only if a hard margin exists. Rounding can neither prove nor refute that they
meet, so the proof uses rational arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy

from bregmat.base.tolerances import TINY
from bregmat.kernels import KernelSource
from bregmat.margin.finish import minimum_over
from bregmat.margin.problem import MarginProblem
from bregmat.margin.working_set import BAND
from bregmat.quadratic.active_set import ActiveSetState
from bregmat.quadratic.program import QuadraticProgram

LARGEST_SYSTEM = 100_000  # coordinates times squared number of weights: rational elimination then takes a second or two
SEPARABLE = 1e-7  # margin, relative to the largest norm of a sample, below which float64 may not tell it from 0


class Hulls(NamedTuple):
    """Nearest points of the convex hulls of the classes."""

    alpha: np.ndarray  # (n,) weights of these points; of the hard margin machine if the hulls are disjoint
    # half the distance of the hulls; without an intercept, the distance of the hull of signs_i phi_i from the origin
    margin: float
    separable: bool  # False if it is proven that the hulls meet
    n_iter: int


def nearest_points(
    problem: MarginProblem, alpha: np.ndarray, slope: np.ndarray, *, stop: Callable[[], bool] = lambda: False
) -> Hulls:
    """Find the largest margin geometrically: ``min |sum alpha_i signs_i phi_i|`` with weights that sum to 1 in each class.

    This is used if the weights of a hard margin are too large to be found in float32 or do not exist. If they do not exist, the
    distance is 0 and :func:`coinciding` proves it. If rounding hides whether the distance is 0, the weights are only a start.

    Parameters
    ----------
    problem, alpha, slope, stop
        The search starts at the weights alpha. ``slope`` is ``signs - K x - intercept`` to float32 accuracy, which tells the samples near
        the margin. ``stop`` is called between rounds; True ends the search.
    """
    y, counts, kernel = problem.signs, problem.counts, problem.kernel
    total = 2.0 if problem.intercept else 1.0
    largest = float(np.sqrt(max(kernel.diagonal()[counts].max(), TINY)))
    part = counts & ((alpha > 0) | (y * slope > -BAND))
    for sign in (1.0, -1.0):  # at least one sample of each class that exists
        rows = np.flatnonzero(counts & (y == sign))
        part[rows[:1]] |= not part[rows].any()
    n_iter, weight = 0, alpha
    for _ in range(40):
        F = np.flatnonzero(part)
        end, q = _nearest_over(problem, F, weight[F], total, stop)
        n_iter += end.work
        weight = np.zeros(problem.n)
        weight[F] = end.x
        # q = |sum|^2 of n terms is known up to a few units of rounding
        margin = float(np.sqrt(max(q, 0.0) + 4e-16 * total**2 * largest**2)) / total
        if margin <= SEPARABLE * largest:
            exact = coinciding(kernel, y, counts, weight, intercept=problem.intercept)
            if exact is not None:
                return Hulls(exact, margin, False, n_iter)
        f = kernel.sums(np.arange(problem.n), np.flatnonzero(weight), (y * weight)[weight > 0])
        # At the optimum signs (f + shift) is q / total for samples with weight, and not less for the others.
        shift, level = float(end.multiplier[1]) if problem.intercept else 0.0, q / total
        violated = counts & ~part & (y * (f + shift) < level * (1 - 1e-9) - 1e-15 * total * largest**2)
        if not violated.any() or stop():
            break
        part |= violated
    return Hulls(weight * (total / q if q > 0 else 1.0), margin, True, n_iter)


def _nearest_over(
    problem: MarginProblem, F: np.ndarray, weight: np.ndarray, total: float, stop: Callable[[], bool]
) -> tuple[ActiveSetState, float]:
    """Nearest points of the hulls of the samples F, from weights of these; and ``|sum alpha_i signs_i phi_i|^2``."""
    y = problem.signs[F]
    A = problem.kernel.signed_block(F, y)
    start, rows = np.zeros(len(F)), np.ones((1, len(F)))
    if problem.intercept:
        # sum(alpha) = 2 and signs'alpha = 0: the weights of each class sum to 1
        rows = np.vstack([rows, y])
    classes = [y == sign for sign in (1.0, -1.0)] if problem.intercept else [np.ones(len(F), dtype=bool)]
    for of_class in classes:
        held = weight[of_class]
        start[of_class] = held / held.sum() if held.sum() > 0 else 1.0 / of_class.sum()
    sums = np.array([total, 0.0][: len(rows)])
    end = minimum_over(problem, F, QuadraticProgram.of(A, np.zeros(len(F)), equality=(rows, sums)), start, stop)
    return end, float(end.x @ (A @ end.x))


# ---------------------------------------------------------------- proof in rational arithmetic
def coinciding(
    kernel: KernelSource, signs: np.ndarray, counts: np.ndarray, weight: np.ndarray, *, intercept: bool
) -> np.ndarray | None:
    """Rounded weights, shape (n,), of two points of the classes' hulls that coincide exactly; None if none are found.

    A sample that occurs in both classes is such a point. Otherwise, nonnegative least squares select a few samples with
    ``sum_i weight_i signs_i phi_i = 0`` among those with ``weight_i > 0``. Rational elimination solves for their weights, which must be
    nonnegative.

    Parameters
    ----------
    kernel, signs, counts, weight, intercept
        ``counts`` marks the samples that are not ignored. With an intercept the weights of each class sum to 1; otherwise all together
        do, and one of the points is the origin.
    """
    shared = _shared_point(kernel, signs, np.flatnonzero(counts if kernel.matrix is None else weight > 0))
    exact = np.zeros(len(weight))
    if shared is not None:
        exact[shared] = 1.0 if intercept else 0.5
        return exact
    rows = np.flatnonzero(weight > 0)
    P, is_linear = kernel.exact(rows)
    if not is_linear:
        return None
    P = P[:, P.any(axis=0)].astype(float)
    sums = [np.ones(len(rows)), signs[rows]] if intercept else [np.ones(len(rows))]
    values = np.r_[np.zeros(P.shape[1]), [2.0, 0.0] if intercept else 1.0]
    try:
        near = scipy.optimize.nnls(np.vstack([signs[rows] * (P / np.abs(P).max(axis=0)).T, *sums]), values)[0]
    except RuntimeError:  # nnls reached its iteration limit
        return None
    on = np.flatnonzero(near)
    if P.shape[1] * len(on) ** 2 > LARGEST_SYSTEM:
        return None
    solution = _rational_solution(np.vstack([signs[rows] * P.T, *sums])[:, on], values, near[on])
    if solution is None or min(solution) < 0:
        return None
    exact[rows[on]] = [float(value) for value in solution]
    return exact


def _shared_point(kernel: KernelSource, signs: np.ndarray, rows: np.ndarray) -> list[int] | None:
    """Two equal samples of different classes among ``rows``."""
    # + 0.0 turns -0.0 into 0.0, which np.unique compares by its bytes
    code = np.unique(kernel.exact(rows)[0] + 0.0, axis=0, return_inverse=True)[1].ravel()
    shared, first, second = np.intersect1d(code[signs[rows] > 0], code[signs[rows] < 0], return_indices=True)
    return [rows[signs[rows] > 0][first[0]], rows[signs[rows] < 0][second[0]]] if len(shared) else None


def _rational_solution(M: np.ndarray, values: np.ndarray, near: np.ndarray) -> list[Fraction] | None:
    """Solve ``M x = values`` in fractions by Gauss-Jordan elimination; free entries are those of ``near``. None if inconsistent."""
    rows = [[Fraction(float(v)) for v in (*row, value)] for row, value in zip(M, values, strict=True)]
    x = [Fraction(float(v)) for v in near]
    pivots: list[int] = []
    for column in range(len(x)):
        at = len(pivots)
        chosen = next((k for k in range(at, len(rows)) if rows[k][column]), None)
        if chosen is None:
            continue
        rows[at], rows[chosen] = rows[chosen], rows[at]
        rows[at] = [v / rows[at][column] for v in rows[at]]
        for k, row in enumerate(rows):
            if k != at and row[column]:
                rows[k] = [v - row[column] * p for v, p in zip(row, rows[at], strict=True)]
        pivots.append(column)
    if any(row[-1] for row in rows[len(pivots) :]):
        return None
    free = [k for k in range(len(x)) if k not in pivots]
    for row, column in zip(rows, pivots, strict=False):
        x[column] = row[-1] - sum((row[k] * x[k] for k in free), Fraction(0))
    return x
