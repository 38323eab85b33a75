"""Newton's method and cyclic projections for distributions. The settings are those of the solvers for matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.simplex.linear_rows import LinearRows, log_sum, newton_direction
from bregmat.applications.simplex.problem import DistributionState, NearestDistribution
from bregmat.certificates.problem import FEASIBLE
from bregmat.solvers.cyclic_projection import CyclicProjection
from bregmat.solvers.dual_newton import DualNewton

FAR = 50.0  # largest change of an exponent in a step towards a bound that no vector attains


def balance(u: np.ndarray, a: np.ndarray, up: np.ndarray, down: np.ndarray, tol: float) -> float:
    """The zero t of the decreasing function ``log(sum_k up_k e_k) - log(sum_k down_k e_k)`` with ``e_k = exp(u_k - t a_k)``.

    It is infinite if all weights of one side are 0. The function is nearly linear unless one entry dominates both sums, so Newton's
    method is used; if the function is flat, the steps are limited, and bisection follows.

    Parameters
    ----------
    u, a : ndarray, shape (n,)
        Exponents at t = 0, and their rates of decrease.
    up, down : ndarray, shape (n,)
        Nonnegative weights of the two sums.
    tol : float
        Largest last change of an exponent.
    """
    weights = np.array([up, down])
    logs = u + np.log(weights, out=np.full(weights.shape, -np.inf), where=weights > 0.0)
    empty = np.isneginf(logs).all(axis=1)
    if empty.any():
        return np.inf if empty[1] else -np.inf
    size = max(float(np.abs(a).max()), 1e-300)
    left, right, t, last, reach = -np.inf, np.inf, 0.0, np.inf, (10.0 + float(np.ptp(u))) / size
    for _ in range(300):
        exponents = logs - t * a
        top = exponents.max(axis=1)
        e = np.exp(exponents - top[:, None])
        total, moment = e.sum(axis=1).tolist(), (e @ a).tolist()
        value = float(top[0] - top[1]) + math.log(total[0] / total[1])
        slope = moment[1] / total[1] - moment[0] / total[0]
        if value == 0.0:
            return t
        left, right = (t, right) if value > 0.0 else (left, t)
        change = -value / slope if slope < 0.0 else math.copysign(np.inf, value)
        if abs(change) > reach:
            change, reach = math.copysign(reach, value), 4.0 * reach
        after = t + change
        if right - left < np.inf and (abs(value) > 0.5 * last or not left < after < right):
            after = 0.5 * (left + right)
        if abs(after - t) * size <= tol or after == t:
            return after
        t, last = after, abs(value)
    return t


def step_to_row(
    u: np.ndarray, a: np.ndarray, b: float, total: float | None, rest: float = -np.inf, tol: float = 1e-10
) -> float:
    """The Bregman projection onto one row (Kulis 2009, eq. 6): t with ``a . x(t) = b`` for ``x(t) ~ exp(u - t a)``.

    It is infinite if no vector attains b.

    Parameters
    ----------
    u, a : ndarray, shape (n,)
        Logarithm of the vector, and the row.
    b : float
    total : float or None
        The sum of x(t); None if it is free.
    rest : float
        Logarithm of the sum of the entries at which the row is zero, which are not in u and a.
    tol : float
        Largest last change of an exponent; dimensionless.
    """
    scale = float(np.abs(a).max(initial=0.0))
    if not 0 < scale < np.inf:
        return 0.0
    a, b = a / scale, b / scale
    if total is None:
        weights = np.append(a, -b)
        return balance(np.append(u, 0.0), np.append(a, 0.0), weights, -weights, tol) / scale
    if rest > -np.inf:
        u, a = np.append(u, rest), np.append(a, 0.0)
    target, low, high = b / total, a.min(), a.max()
    if not low < high:
        return 0.0
    if not low < target < high:
        return np.inf if target <= low else -np.inf
    # (high - low) (a - b) = (a - low) (high - b) - (high - a) (b - low); the logarithm of their ratio is linear for rows of two values
    return balance(u, a, (a - low) * (high - target), (high - a) * (target - low), tol) / scale


def _row_step(problem: LinearRows, logx: np.ndarray, j: int, tol: float) -> float:
    """The step of :func:`step_to_row` for row j, limited in length."""
    on, a = problem.row(j)
    size, rest = float(np.abs(a).max(initial=0.0)), -np.inf
    if problem.total is not None:
        zeros = len(a) < len(logx)
        size = float(np.ptp(np.append(a, 0.0) if zeros else a))
        if zeros:
            off = np.ones(len(logx), dtype=bool)
            off[on] = False
            rest = log_sum(logx[off])
    t = step_to_row(logx[on], a, float(problem.b[j]), problem.total, rest, tol)
    far = FAR / max(size, 1e-300)
    return min(max(t, -far), far)


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

    settings: DualNewton
    name: ClassVar[str] = DualNewton.name
    max_iter: ClassVar[int] = 200

    def step(self, problem: NearestDistribution, state: DistributionState) -> DistributionState:
        """One Newton step."""
        sign, bounded = problem.sign, problem.sense != 0
        q = -problem.excess(state.p)  # gradient of -g in y = sign * mu
        y = sign * state.mu
        rows = np.flatnonzero((y != 0) | ~bounded | (q < 0.1 * problem.unit))
        H = problem.hessian(rows, state.x, state.p)
        D = np.maximum(np.diag(H), 1e-300 + 1e-14 * np.diag(H).max(initial=0.0))
        move = np.maximum(-q[rows] / D, np.where(bounded, -y, -np.inf)[rows])
        norm = float(np.sqrt(move @ (D * move)))
        largest = max(state.largest, norm)
        proximal = self.settings.proximal * min(1.0, norm / max(largest, 1e-300)) + 1e-10
        H[np.diag_indices_from(H)] += proximal * D
        d = np.zeros_like(q)
        d[rows] = newton_direction(H, q[rows], y[rows], bounded[rows])
        slope = float(q @ d)
        if not slope < 0:
            return replace(state, stalled=True)
        new = self._moved(problem, y, d, 1.0)
        if not (-problem.excess(new.p) @ d <= -0.1 * slope and new.objective >= state.objective):
            alpha = step_to_row(state.logx, problem.adjoint(sign * d), float(sign * d @ problem.b), problem.total)
            if 0 < alpha < 1:
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
    """Cycles of exact projections onto single rows, with or without the dual corrections (Kulis 2009, eq. 8)."""

    settings: CyclicProjection
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
            on, a = problem.row(j)
            excess = sign[j] * (float(a @ x[on]) - problem.b[j])
            if problem.sense[j] != 0 and excess <= 0 and (mu[j] == 0 or not settings.corrected):
                continue
            if not settings.corrected and abs(excess) <= 0.1 * FEASIBLE * problem.unit[j]:
                continue
            t = _row_step(problem, logx, j, settings.root_tol)
            if settings.corrected and problem.sense[j] != 0:
                t = sign[j] * max(sign[j] * t, -sign[j] * mu[j])
            if t == 0:
                continue
            mu[j] += t
            v[on] += t * a
            logx = problem.log_point(problem.log0 - v)
            x = np.exp(logx)
            moved += 1
        new = DistributionState.at(problem, mu, v, cycles=cycles)
        change, size = float(np.linalg.norm(mu - state.mu)), float(np.linalg.norm(mu))
        done = settings.has_settled(change, size)
        if not settings.corrected:
            done = done or moved == 0 or problem.worst(new.p) <= settings.violation_tol
        return replace(new, finished=done, stalled=settings.corrected and moved == 0)


VECTOR_SOLVERS: dict[Any, Any] = {DualNewton: VectorNewton, CyclicProjection: VectorCyclic}
