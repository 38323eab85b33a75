"""Weights of the rows that contradict each other most, from the rows alone: no prior, no divergence, no other solver's path.

``minimize b . y + R lambda  over  A*(y) + lambda I >= 0, lambda >= 0, |y_i| unit_i <= 1`` and the signs of y: the dual of meeting the
rows with the least total relative violation at a trace of at most R. Its minimum is 0 where they can be met.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bregmat.base.linalg import add_diagonal, cholesky, cholesky_solve, logdet_of_factor, symmetrize, triangular_inverse
from bregmat.certificates.nearness import Nearness
from bregmat.operators.linear_maps import Operator, svec

MOST_ROWS = 50
MOST_WORK = 2e9  # operations of all searches for one proof
TRACE = 1e4  # of a matrix that counts as one, in units in which rows and bounds are 1
LAST = 1e13  # weight of the objective against the barrier at which the search ends
MET = 1e9  # and from which on rows count as met where nothing is gained: by less than the number of unknowns over it
FASTER = 30.0  # by which that weight grows
RANK = 4  # of rows of all relations between points; a matrix that was given may have more
STEPS = 40  # about as many factorisations as one search takes


def work(problem: Nearness, rows: np.ndarray) -> float:
    """Operations of one search."""
    extents = problem.operator.restrict(rows).extents(1.0 / problem.unit[rows])
    c = float(len(rows))
    r = min(float((extents > 0).sum()), RANK * c)
    return STEPS * r**2 * (r + c * (c + 2.0 * r) / 2.0)


def phase_one(problem: Nearness, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Weights (c,) with ``y . b < 0`` along the central path, each nearer to a proof than the last; none where rows are met.

    A barrier method in ``len(rows) + 1`` unknowns; the caller repairs the weights and proves.
    """
    unit = problem.unit[rows]
    op = _on_range(problem.operator.restrict(rows), 1.0 / unit)
    if op.r == 0:
        return
    b, sense = problem.losses.bound[rows] / unit, problem.losses.sense[rows]
    lower, upper = np.where(sense > 0, 0.0, -1.0), np.where(sense < 0, 0.0, 1.0)
    x = np.append((lower + upper) / 2.0, 0.0)
    x[-1] = 1.0 + float(np.abs(op.adjoint(x[:-1] / unit)).sum(axis=1).max())
    barrier = _Barrier(op, unit, np.append(b, TRACE), np.append(lower, 0.0), np.append(upper, np.inf))
    t, found = 1.0, np.zeros(problem.c)
    while t < LAST:
        x = barrier.centred(x, t)
        if t >= MET and float(barrier.costs @ x) >= 0:
            return
        t *= FASTER
        if float(b @ x[:-1]) < 0:
            found[rows] = x[:-1] / unit
            yield found.copy()


def _on_range(op: Operator, weight: np.ndarray) -> Operator:
    """The rows with columns in their own units, on the range of rows of low rank where that is much smaller."""
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
        """Cholesky factor of the matrix, None outside."""
        if not ((x > self.lower) & (x < self.upper)).all():
            return None
        C, ok = cholesky(add_diagonal(symmetrize(self.op.adjoint(x[:-1] / self.unit)), x[-1]))
        return C if ok else None

    def value(self, x: np.ndarray, C: np.ndarray, t: float) -> float:
        """The function, from the factor at x."""
        room = np.concatenate([x - self.lower, (self.upper - x)[:-1]])
        return t * float(self.costs @ x) - logdet_of_factor(C) - float(np.log(room).sum())

    def centred(self, x: np.ndarray, t: float, most: int = 12) -> np.ndarray:
        """Newton's method to moderate accuracy."""
        C = self.factor(x)
        for _ in range(most):
            assert C is not None
            F = triangular_inverse(C).T
            rows = np.vstack([self.op.congruence(F).features(None) / self.unit[:, None], svec(F.T @ F)])
            below, above = 1.0 / (x - self.lower), 1.0 / (self.upper - x)
            traces = np.append(self.op.congruence(F).values_diagonal(None) / self.unit, float(np.vdot(F, F)))
            gradient = t * self.costs - traces - below + above
            H = add_diagonal(rows @ rows.T, below**2 + above**2)
            size = np.sqrt(np.diag(H))
            L, ok = cholesky(add_diagonal(H / size / size[:, None], 1e-14))
            if not ok:
                break
            d = -cholesky_solve(L, gradient / size) / size
            decrement = -float(gradient @ d)
            here, alpha, moved = self.value(x, C, t), 1.0, None
            while alpha > 1e-6:
                new = x + alpha * d
                moved = self.factor(new)
                if moved is not None and self.value(new, moved, t) <= here - 0.1 * alpha * decrement + 1e-12 * abs(
                    here
                ):
                    break
                moved, alpha = None, 0.5 * alpha
            if moved is None:
                break
            x, C = new, moved
            if decrement < 0.1:
                break
        return x
