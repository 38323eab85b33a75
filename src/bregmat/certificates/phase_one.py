"""A search for rows that contradict each other: phase one of an interior point method, which needs neither prior nor divergence.

``minimize b . y + R lambda  over  A*(y) + lambda I >= 0, lambda >= 0, |y_i| unit_i <= 1`` and the signs of y. This is the dual of
minimising the total relative violation of the rows over matrices of trace at most R. Its minimum is 0 if they can be met.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bregmat.base.linalg import (
    add_diagonal,
    armijo,
    cholesky,
    cholesky_solve,
    logdet_of_factor,
    symmetrize,
    triangular_inverse,
)
from bregmat.operators.linear_maps import Operator, svec

if TYPE_CHECKING:  # problems use this module
    from bregmat.certificates.problem import NearestMatrix

MAX_HARD_ROWS = 50
MOST_WORK = 2e9  # operations of all searches for one proof
TRACE = 1e4  # R, in units in which rows and bounds have size 1
LAST = 1e13  # weight t of the objective against the barrier at which the search ends
GROWTH = 30.0  # factor by which t grows
RANK = 4  # largest rank of rows of the built-in relations between points; a given matrix may have a larger one
MAX_NEWTON_STEPS = 12  # for one t


def work(problem: NearestMatrix, rows: np.ndarray) -> float:
    """Floating point operations of one search."""
    max_factorisations = 40  # factorisations of one search, as measured
    extents = problem.operator.restrict(rows).extents(1.0 / problem.unit[rows])
    c = float(len(rows))
    r = min(float((extents > 0).sum()), RANK * c)
    return max_factorisations * r**2 * (r + c * (c + 2.0 * r) / 2.0)


def phase_one(problem: NearestMatrix, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Weights (c,) with ``y . b < 0`` along the central path, each nearer to a proof than the last; none if the rows can be met.

    A barrier method in ``len(rows) + 1`` unknowns. The caller checks whether corrected weights are a proof.
    """
    met_from = 1e9  # t from which rows count as met if the objective is not negative: it is within (number of unknowns) / t of its minimum
    unit = problem.unit[rows]
    op = _on_range(problem.operator.restrict(rows), 1.0 / unit)
    if op.r == 0:
        return
    b, sense = problem.losses.bound[rows] / unit, problem.losses.sense[rows]
    lower, upper = np.where(sense > 0, 0.0, -1.0), np.where(sense < 0, 0.0, 1.0)
    x = np.append((lower + upper) / 2.0, 0.0)
    x[-1] = 1.0 + float(np.abs(op.adjoint(x[:-1] / unit)).sum(axis=1).max())
    barrier = _Barrier(op, unit, np.append(b, TRACE), np.append(lower, 0.0), np.append(upper, np.inf))
    t, dual = 1.0, np.zeros(problem.c)
    while t < LAST:
        x = barrier.centred(x, t)
        if t >= met_from and float(barrier.costs @ x) >= 0:
            return
        t *= GROWTH
        if float(b @ x[:-1]) < 0:
            dual[rows] = x[:-1] / unit
            yield dual.copy()


def _on_range(op: Operator, weight: np.ndarray) -> Operator:
    """The rows with terms of size 1 in every column, restricted to the range of all rows if their ranks are low."""
    extents = op.extents(weight)
    used = extents > 0
    op = op.congruence(np.diag(1.0 / np.sqrt(np.where(used, extents, 1.0)))[:, used])
    if op.r <= RANK * op.c:
        return op
    probes = np.random.default_rng(0).normal(size=(op.r, RANK))
    images = [op.restrict(np.array([k])).adjoint(weight[k : k + 1]) @ probes for k in range(op.c)]
    U, sigma, _ = np.linalg.svd(np.hstack(images), full_matrices=False)
    return op.congruence(U[:, sigma > 1e-12 * sigma[0]])


class _Barrier:
    """``t costs . x - logdet(A*(y) + lambda I) - sum log(x - lower) - sum log(upper - x)`` at ``x = (y unit, lambda)``."""

    def __init__(self, op: Operator, unit: np.ndarray, costs: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
        self.op, self.unit, self.costs, self.lower, self.upper = op, unit, costs, lower, upper

    def factor(self, x: np.ndarray) -> np.ndarray | None:
        """Cholesky factor of ``A*(y) + lambda I``; None outside the domain."""
        if not ((x > self.lower) & (x < self.upper)).all():
            return None
        C, ok = cholesky(add_diagonal(symmetrize(self.op.adjoint(x[:-1] / self.unit)), x[-1]))
        return C if ok else None

    def value(self, x: np.ndarray, C: np.ndarray, t: float) -> float:
        """The function at x, from the Cholesky factor there."""
        slack = np.concatenate([x - self.lower, (self.upper - x)[:-1]])
        return t * float(self.costs @ x) - logdet_of_factor(C) - float(np.log(slack).sum())

    def centred(self, x: np.ndarray, t: float) -> np.ndarray:
        """The minimum of the function for one t, to moderate accuracy, by Newton's method."""
        C = self.factor(x)
        if C is None:  # the entries of the sum overflow
            return x
        for _ in range(MAX_NEWTON_STEPS):
            newton = self._newton_direction(x, C, t)
            if newton is None:
                break
            d, decrement = newton
            here = self.value(x, C, t)
            trial = partial(self._trial, x, d, t)
            accepted = armijo(trial, here, -decrement, rounding=1e-12 * abs(here), max_trials=20)
            if accepted is None:
                break
            x, C = accepted[0]
            if decrement < 0.1:
                break
        return x

    def _trial(
        self, x: np.ndarray, d: np.ndarray, t: float, alpha: float
    ) -> tuple[tuple[np.ndarray, np.ndarray], float] | None:
        """The point ``x + alpha d`` with its Cholesky factor, and the function there; None outside the domain."""
        new = x + alpha * d
        C = self.factor(new)
        return None if C is None else ((new, C), self.value(new, C, t))

    def _newton_direction(self, x: np.ndarray, C: np.ndarray, t: float) -> tuple[np.ndarray, float] | None:
        """``-H^-1 g`` and the decrement ``g' H^-1 g``; None if H is numerically singular."""
        # with C C' = A*(y) + lambda I and F = C^-T: g = t costs - <A_i, F F'> - ..., H_ij = <F' A_i F, F' A_j F> + ...
        F = triangular_inverse(C).T
        framed = self.op.congruence(F)
        rows = np.vstack([framed.features(None) / self.unit[:, None], svec(F.T @ F)])
        below, above = 1.0 / (x - self.lower), 1.0 / (self.upper - x)
        traces = np.append(framed.values_diagonal(None) / self.unit, float(np.vdot(F, F)))
        gradient = t * self.costs - traces - below + above
        H = add_diagonal(rows @ rows.T, below**2 + above**2)
        size = np.sqrt(np.diag(H))
        L, ok = cholesky(add_diagonal(H / size / size[:, None], 1e-14))
        if not ok:
            return None
        d = -cholesky_solve(L, gradient / size) / size
        return d, -float(gradient @ d)
