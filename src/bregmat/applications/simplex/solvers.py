"""The papers' methods and Newton's for distributions: from one dual vector to the next. Settings are those of the matrix solvers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.simplex.linear_rows import LinearRows, log_sum, newton_direction
from bregmat.applications.simplex.problem import DistributionState, NearestDistribution
from bregmat.base.checks import rows_text
from bregmat.certificates.problem import FEASIBLE
from bregmat.constraints.rows import excess_of
from bregmat.solvers.cyclic_projection import CyclicProjection
from bregmat.solvers.definite_boost import DefiniteBoost, approximate_step, log_step_bound
from bregmat.solvers.dual_newton import DualNewton

FAR = 50.0  # largest change of an exponent in a step onto a row that no vector reaches


def balance(u: np.ndarray, a: np.ndarray, up: np.ndarray, down: np.ndarray, tol: float) -> float:
    """Zero t of ``log(sum_k up_k e_k) - log(sum_k down_k e_k)``, ``e_k = exp(u_k - t a_k)``, which falls in t.

    Plus or minus inf if no weight of a side is positive; tol bounds the last change of an exponent. Newton's method, as the
    difference is nearly linear in t unless one entry outweighs all others on both sides. There it is flat, and steps of
    limited length and bisection take over.

    Parameters
    ----------
    u, a : ndarray, shape (n,)
        Exponents, and how fast they fall.
    up, down : ndarray, shape (n,)
        Weights of the two sides, not negative.
    tol : float
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
    """t with ``a . x(t) = b`` for ``x(t) ~ exp(u - t a)``: the Bregman projection onto one row (Kulis 2009, eq. 6).

    Plus or minus inf where b is out of reach.

    Parameters
    ----------
    u, a : ndarray, shape (n,)
        Logarithm of the vector, and the row.
    b : float
    total : float or None
        What x(t) sums to; None for a free sum.
    rest : float
        Logarithm of the mass where the row is zero, left out of u and a.
    tol : float
        What the last change of an exponent may be; dimensionless.
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
    # (high - low) (a - b) as a difference of two positive parts: their log ratio is linear in t for two-valued rows
    return balance(u, a, (a - low) * (high - target), (high - a) * (target - low), tol) / scale


def _row_step(problem: LinearRows, logx: np.ndarray, j: int, tol: float) -> float:
    """:func:`step_to_row` for a row of the problem, finite."""
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
    """What the methods share: the start, and no demands on the problem beyond its form."""

    works_on: ClassVar[str] = "dual_bound"

    def check(self, problem: NearestDistribution) -> None:
        """Every problem of this form is taken."""

    def init(self, problem: NearestDistribution, tol: float, start: Any) -> DistributionState:
        """The prior, at the total that is asked for."""
        return DistributionState.at(problem, np.zeros(len(problem.b)))


@dataclass(frozen=True)
class VectorNewton(_VectorSolver):
    """Active-set Newton on the dual: the quadratic model on rows that may be active, then a search along its minimiser."""

    settings: DualNewton
    name: ClassVar[str] = DualNewton.name
    max_iter: ClassVar[int] = 200

    def step(self, problem: NearestDistribution, state: DistributionState) -> DistributionState:
        """One Newton step."""
        sign, bounded = problem.sign, problem.sense != 0
        first, idle = state.kept or (0.0, 0)  # the first step's norm, steps in a row that gained nothing
        q = -problem.excess(state.p)  # gradient of -g in y = sign * mu
        y = sign * state.mu
        rows = np.flatnonzero((y != 0) | ~bounded | (q < 0.1 * problem.unit))
        H = problem.hessian(rows, state.x, state.p)
        D = np.maximum(np.diag(H), 1e-300 + 1e-14 * np.diag(H).max(initial=0.0))
        move = np.maximum(-q[rows] / D, np.where(bounded, -y, -np.inf)[rows])
        norm = float(np.sqrt(move @ (D * move)))
        first = max(first, norm)
        proximal = self.settings.proximal * min(1.0, norm / max(first, 1e-300)) + 1e-10
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
        idle = 0 if new.objective > state.objective + 1e-15 * max(problem.mass, abs(state.objective)) else idle + 1
        return replace(new, stalled=idle >= 3, kept=(first, idle))

    def _moved(self, problem: NearestDistribution, y: np.ndarray, d: np.ndarray, alpha: float) -> DistributionState:
        new = y + alpha * d
        new[(problem.sense != 0) & (new <= 1e-15 * alpha * np.abs(d))] = 0.0
        return DistributionState.at(problem, problem.sign * new + 0.0)  # + 0.0: no negative zeros


@dataclass(frozen=True)
class VectorCyclic(_VectorSolver):
    """One cycle of exact projections, row by row, with the dual corrections of Kulis 2009, eq. 8, or without."""

    settings: CyclicProjection
    name: ClassVar[str] = CyclicProjection.name
    max_iter: ClassVar[int] = 10_000

    def step(self, problem: NearestDistribution, state: DistributionState) -> DistributionState:
        """One cycle."""
        settings, sign = self.settings, problem.sign
        cycles = (state.kept or 0) + 1
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
        new = DistributionState.at(problem, mu, v, kept=cycles)
        change, size = float(np.linalg.norm(mu - state.mu)), float(np.linalg.norm(mu))
        done = settings.has_settled(change, size)
        if not settings.corrected:
            done = done or moved == 0 or problem.worst(new.p) <= settings.violation_tol
        return replace(new, finished=done, stalled=settings.corrected and moved == 0)


@dataclass(frozen=True)
class VectorBoost(_VectorSolver):
    """The most violated row (or the next one in turn), an exact or approximate step, and the bound of Theorem 4.1.

    For ``C_j = diag(a_j) - b_j / total I``; a ">=" row is the row ``-a_j <= -b_j``. An equality is whichever is violated.
    """

    settings: DefiniteBoost
    name: ClassVar[str] = DefiniteBoost.name
    max_iter: ClassVar[int] = 100_000

    def check(self, problem: NearestDistribution) -> None:
        """Approximate steps need the total."""
        if problem.total is None and self.settings.projection == "approximate":
            raise TypeError(
                "DefiniteBoost(projection='approximate') needs total; with total=None use projection='exact'."
            )

    def init(self, problem: NearestDistribution, tol: float, start: Any) -> DistributionState:
        """The prior, at the total that is asked for, with the interval of the entries of each ``C_j``."""
        spectra = None if problem.total is None else self._spectra(problem)
        steps: dict[str, list] = {name: [] for name in ("row", "step", "log_dual_objective", "log_bound")}
        return replace(super().init(problem, tol, start), kept=spectra, steps=steps)

    def _spectra(self, problem: NearestDistribution) -> tuple[np.ndarray, np.ndarray]:
        """Interval of the entries of each ``C_j`` in the sense of the row."""
        shift = problem.sign * problem.b / problem.total
        if isinstance(problem.A, np.ndarray):
            ends = [problem.A.min(axis=1), problem.A.max(axis=1)]
        else:
            ends = [getattr(problem.A, name)(axis=1).toarray().ravel() for name in ("min", "max")]
        ends = np.sort(problem.sign * np.array(ends), axis=0) - shift
        if self.settings.spectrum is None:
            return ends[0], ends[1]
        low, high = (end / problem.factor for end in self.settings.spectrum)
        slip = 1e-12 * (high - low)
        bad = np.flatnonzero((ends[0] < low - slip) | (ends[1] > high + slip))
        if len(bad):
            j = bad[0]
            found = ends[:, j] * problem.factor[j]
            raise ValueError(
                f"DefiniteBoost: spectrum must hold the entries of every A_j - b_j / total; got {self.settings.spectrum} for "
                f"({found[0]:.6g}, {found[1]:.6g}) in {rows_text(bad)}."
            )
        return low, high

    def step(self, problem: NearestDistribution, state: DistributionState) -> DistributionState:
        """A step on one row."""
        corrected, excess = self.settings.corrected, problem.excess(state.p)
        score = excess_of(state.p, problem.b, problem.sense)
        if corrected:  # rows with weight may give it back
            score = np.where(state.mu != 0, np.abs(excess), score)
        j = int((score * problem.factor).argmax())  # in the rows' own units, as published
        if self.settings.order == "cyclic":
            first = state.steps["row"][-1] + 1 if state.steps["row"] else 0
            order = (np.arange(len(score)) + first) % len(score)
            wrong = (score > 0.1 * FEASIBLE * problem.unit)[order]
            j = int(order[wrong.argmax()]) if wrong.any() else j
        if not score[j] > 0:
            return replace(state, stalled=corrected, finished=not corrected)
        new = self._moved(problem, state, j, float(excess[j]))
        return replace(new, finished=not corrected and problem.worst(new.p) <= self.settings.violation_tol)

    def _moved(
        self, problem: NearestDistribution, state: DistributionState, j: int, excess: float
    ) -> DistributionState:
        """The step on row j, clipped where its weight would change sign, and its entry in the trace."""
        settings, sign, total = self.settings, float(problem.sign[j]), problem.total
        lowest = -sign * float(state.mu[j]) if settings.corrected and problem.sense[j] != 0 else -np.inf
        alpha = model = 0.0
        if total is not None:
            low, high = (ends[j] for ends in state.kept)
            r, far = min(max(excess / total, low), high), FAR / max(high - low, 1e-300)
            alpha = model = max(min(max(approximate_step(r, low, high), -far), far), lowest)
        if settings.projection == "exact":
            alpha = max(sign * _row_step(problem, state.logx, j, settings.root_tol), lowest)
        mu, v = state.mu.copy(), state.v.copy()
        mu[j] += sign * alpha
        on, a = problem.row(j)
        v[on] += sign * alpha * a
        new = DistributionState.at(problem, mu, v, kept=state.kept, steps=state.steps)
        new.steps["row"].append(j)
        new.steps["step"].append(sign * alpha / problem.factor[j])
        if total is not None:
            # an exact step lowers the dual objective at least as far as the approximate one
            before, mass = new.steps["log_bound"][-1:] or [0.0], float(problem.x0.sum())
            new.steps["log_bound"].append(before[0] + log_step_bound(r, low, high, model))
            new.steps["log_dual_objective"].append((mass - total - new.objective) / total - np.log(mass / total))
        return new


VECTOR_SOLVERS: dict[Any, Any] = {DualNewton: VectorNewton, CyclicProjection: VectorCyclic, DefiniteBoost: VectorBoost}
