"""Newton's method and cyclic projections for distributions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.simplex.problem import SUM_ROUNDINGS, DistributionState, NearestDistribution
from bregmat.applications.simplex.subproblems import newton_direction, step_to_row
from bregmat.base.tolerances import EPS, FEASIBLE, TINY
from bregmat.solvers.cyclic_projection import CyclicProjection

PROXIMAL = 1e-3  # largest proximal term, relative to the diagonal of the Hessian
MAX_CHANGE = 50.0  # largest change of an exponent in a step towards a bound that no vector attains
MAX_STEP = 1e4  # the same in a Newton step: larger dual weights have a rounding above usual tolerances of the gap


class _VectorSolver:
    """The methods that both solvers share."""

    works_on: ClassVar[str] = "dual_bound"

    def check(self, problem: NearestDistribution) -> None:
        """Accept every problem."""

    def init(self, problem: NearestDistribution, tol: float, start: Any) -> DistributionState:
        """Start at the prior, scaled to the total."""
        return DistributionState.at(problem, np.zeros(len(problem.b)))


@dataclass(frozen=True)
class VectorNewton(_VectorSolver):
    """Newton's method on the dual with an active set: the quadratic model of the rows that may be active, then a line search."""

    name: ClassVar[str] = "dual_newton"
    max_iter: ClassVar[int] = 200

    def step(self, problem: NearestDistribution, state: DistributionState) -> DistributionState:
        """One Newton step."""
        sign, bounded = problem.sign, problem.sense != 0
        q = -problem.excess(state.p)  # gradient of -g in y = sign * mu
        y = sign * state.mu
        rows = np.flatnonzero(problem.varies & ((y != 0) | ~bounded | (q < 0.1 * problem.unit)))
        H = problem.hessian(rows, state.x, state.p)
        if H is None:
            return state
        D = np.maximum(np.diag(H), TINY + 1e-14 * np.diag(H).max(initial=0.0))
        move = np.maximum(-q[rows] / D, np.where(bounded, -y, -np.inf)[rows])
        norm = float(np.sqrt(move @ (D * move)))
        largest = max(state.largest, norm)
        proximal = PROXIMAL * min(1.0, norm / max(largest, TINY)) + 1e-10
        # rounding of the gradient would be divided by the curvature of dependent rows, which vanishes as x nears a vertex
        H[np.diag_indices_from(H)] += proximal * D + SUM_ROUNDINGS * EPS * (
            abs(problem.A[rows]) @ state.x + np.abs(problem.b[rows])
        )
        d = np.zeros_like(q)
        d[rows] = newton_direction(H, q[rows], y[rows], bounded[rows])
        slope = float(q @ d)
        if not slope < 0:
            return replace(state, stalled=True)
        v = problem.adjoint(sign * d)
        reach = float(np.ptp(v) if problem.total is not None else np.abs(v).max())
        step = min(1.0, MAX_STEP / max(reach, TINY))
        new = self._moved(problem, y, d, step)
        if not (-problem.excess(new.p) @ d <= -0.1 * slope and new.objective >= state.objective):
            alpha = step_to_row(state.logx, v, float(sign * d @ problem.b), problem.total)
            if 0 < alpha < step:
                new = self._moved(problem, y, d, alpha)
        has_gained = new.objective > state.objective + 1e-15 * max(problem.mass, abs(state.objective))
        idle = 0 if has_gained else state.idle + 1
        return replace(new, stalled=idle >= 3, largest=largest, idle=idle)

    def _moved(self, problem: NearestDistribution, y: np.ndarray, d: np.ndarray, alpha: float) -> DistributionState:
        """The state after a step of length alpha along d; multipliers that are rounding are set to 0."""
        new = y + alpha * d
        new[(problem.sense != 0) & (new <= 1e-15 * alpha * np.abs(d))] = 0.0
        return DistributionState.at(problem, problem.sign * new + 0.0)  # + 0.0 removes negative zeros


@dataclass(frozen=True)
class VectorCyclic(_VectorSolver):
    """Cycles of exact projections onto single rows, with or without the dual corrections (Kulis 2009, eq. 8).

    The settings are those of the projections of matrices.
    """

    settings: CyclicProjection = CyclicProjection()
    name: ClassVar[str] = CyclicProjection.name
    max_iter: ClassVar[int] = 10_000

    def step(self, problem: NearestDistribution, state: DistributionState) -> DistributionState:
        """One cycle."""
        settings, sign = self.settings, problem.sign
        cycles = state.cycles + 1
        mu, moved = state.mu.copy(), 0
        v = problem.adjoint(mu) if cycles % settings.refresh == 0 else state.v.copy()
        logx = problem.log_point(problem.log0 - v)
        x = np.exp(logx)
        for j in range(len(mu)):
            a = problem.A[j]
            excess = sign[j] * (float(a @ x) - problem.b[j])
            if problem.sense[j] != 0 and excess <= 0 and (mu[j] == 0 or not settings.corrected):
                continue
            if not settings.corrected and abs(excess) <= 0.1 * FEASIBLE * problem.unit[j]:
                continue
            size = float(np.abs(a).max(initial=0.0) if problem.total is None else np.ptp(a))
            far = MAX_CHANGE / max(size, TINY)
            t = min(max(step_to_row(logx, a, float(problem.b[j]), problem.total, settings.root_tol), -far), far)
            if settings.corrected and problem.sense[j] != 0:
                t = sign[j] * max(sign[j] * t, -sign[j] * mu[j])
            if t == 0:
                continue
            mu[j] += t
            v += t * a
            logx = problem.log_point(problem.log0 - v)
            x = np.exp(logx)
            moved += 1
        new = DistributionState.at(problem, mu, v, cycles=cycles)
        change, size = float(np.linalg.norm(mu - state.mu)), float(np.linalg.norm(mu))
        done = settings.has_settled(change, size)
        if not settings.corrected:
            done = done or moved == 0 or problem.worst(new.p) <= settings.violation_tol
        return replace(new, finished=done, stalled=settings.corrected and moved == 0)


SOLVERS: dict[str, Any] = {"auto": VectorNewton(), VectorNewton.name: VectorNewton(), VectorCyclic.name: VectorCyclic()}
