"""The methods: from one dual vector to the next. Every step is a callable of a Point, with what it records in ``trace``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bregmat._kernels.boost import approximate_step, log_step_bound
from bregmat._kernels.simplex import balance
from bregmat.applications.simplex.rows import Point, Rows, log_sum, newton_direction
from bregmat.certificates import FEASIBLE
from bregmat.columns import rows_text
from bregmat.solvers.cyclic_projection import CyclicProjection
from bregmat.solvers.definite_boost import DefiniteBoost
from bregmat.solvers.dual_newton import DualNewton

FAR = 50.0  # largest change of an exponent in a step onto a row that no vector reaches


def step_to_row(
    u: np.ndarray, a: np.ndarray, b: float, total: float | None, rest: float = -np.inf, tol: float = 1e-10
) -> float:
    """t with ``a . x(t) = b`` for ``x(t) ~ exp(u - t a)``: the Bregman projection onto one row (Kulis 2009, eq. 6).

    ``rest`` is the logarithm of the mass where a is zero, left out of u and a. Plus or minus inf where b is out of reach.
    """
    scale = float(np.abs(a).max(initial=0.0))
    if not 0 < scale < np.inf:
        return 0.0
    a, b = a / scale, b / scale
    if total is None:
        return balance(u, a, np.maximum(a, 0.0), max(-b, 0.0), np.maximum(-a, 0.0), max(b, 0.0), tol)[0] / scale
    if rest > -np.inf:
        u, a = np.append(u, rest), np.append(a, 0.0)
    target, low, high = b / total, a.min(), a.max()
    if not low < high:
        return 0.0
    if not low < target < high:
        return np.inf if target <= low else -np.inf
    # (high - low) (a - b) as a difference of two positive parts: their log ratio is linear in t for two-valued rows
    return balance(u, a, (a - low) * (high - target), 0.0, (high - a) * (target - low), 0.0, tol)[0] / scale


def row_step(problem: Rows, logx: np.ndarray, j: int, tol: float) -> float:
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


class Newton:
    """Active-set Newton on the dual: the quadratic model on rows that may be active, then a search along its minimiser."""

    max_iter = 200

    def __init__(self, settings: DualNewton, problem: Rows) -> None:
        self.problem, self.settings = problem, settings
        self.trace: dict[str, list] = {}
        self.first, self.idle = 0.0, 0

    def __call__(self, at: Point) -> Point:
        P, sign, bounded = self.problem, self.problem.sign, self.problem.sense != 0
        q = -P.excess(at.p)  # gradient of -g in y = sign * mu
        y = sign * at.mu
        rows = np.flatnonzero((y != 0) | ~bounded | (q < 0.1 * P.unit))
        H = P.hessian(rows, at.x, at.p)
        D = np.maximum(np.diag(H), 1e-300 + 1e-14 * np.diag(H).max(initial=0.0))
        move = np.maximum(-q[rows] / D, np.where(bounded, -y, -np.inf)[rows])
        norm = float(np.sqrt(move @ (D * move)))
        self.first = max(self.first, norm)
        proximal = self.settings.proximal * min(1.0, norm / max(self.first, 1e-300)) + 1e-10
        H[np.diag_indices_from(H)] += proximal * D
        d = np.zeros_like(q)
        d[rows] = newton_direction(H, q[rows], y[rows], bounded[rows])
        slope = float(q @ d)
        if not slope < 0:
            return replace(at, stalled=True)
        new = self._moved(y, d, 1.0)
        if not (-P.excess(new.p) @ d <= -0.1 * slope and new.bound >= at.bound):
            alpha = step_to_row(at.logx, P.adjoint(sign * d), float(sign * d @ P.b), P.total)
            if 0 < alpha < 1:
                new = self._moved(y, d, alpha)
        self.idle = 0 if new.bound > at.bound + 1e-15 * max(1.0, abs(at.bound)) else self.idle + 1
        return replace(new, stalled=self.idle >= 3)

    def _moved(self, y: np.ndarray, d: np.ndarray, alpha: float) -> Point:
        new = y + alpha * d
        new[(self.problem.sense != 0) & (new <= 1e-15 * alpha * np.abs(d))] = 0.0
        return self.problem.point(self.problem.sign * new + 0.0)  # + 0.0: no negative zeros


class Cyclic:
    """One cycle of exact projections, row by row, with the dual corrections of Kulis 2009, eq. 8, or without."""

    max_iter = 10_000

    def __init__(self, settings: CyclicProjection, problem: Rows) -> None:
        self.problem, self.settings, self.cycles = problem, settings, 0
        self.trace: dict[str, list] = {}

    def __call__(self, at: Point) -> Point:
        P, settings, sign = self.problem, self.settings, self.problem.sign
        self.cycles += 1
        mu, moved = at.mu.copy(), 0
        v = P.adjoint(mu) if self.cycles % settings.refresh == 0 else at.v.copy()
        logx = P.normalized(P.log0 - v)
        x = np.exp(logx)
        for j in range(len(mu)):
            on, a = P.row(j)
            excess = sign[j] * (float(a @ x[on]) - P.b[j])
            if P.sense[j] != 0 and excess <= 0 and (mu[j] == 0 or not settings.corrected):
                continue
            if not settings.corrected and abs(excess) <= 0.1 * FEASIBLE * P.unit[j]:
                continue
            t = row_step(P, logx, j, settings.root_tol)
            if settings.corrected and P.sense[j] != 0:
                t = sign[j] * max(sign[j] * t, -sign[j] * mu[j])
            if t == 0:
                continue
            mu[j] += t
            v[on] += t * a
            logx = P.normalized(P.log0 - v)
            x = np.exp(logx)
            moved += 1
        new = P.point(mu, v)
        change, size = float(np.linalg.norm(mu - at.mu)), float(np.linalg.norm(mu))
        done = settings.movement_tol is not None and change <= settings.movement_tol * size
        if not settings.corrected:
            done = done or moved == 0 or float(P.violation(new.p).max(initial=0.0)) <= settings.violation_tol
        return replace(new, done=done, stalled=settings.corrected and moved == 0)


class Booster:
    """The most violated row (or the next one in turn), an exact or approximate step, and the bound of Theorem 4.1.

    For ``C_j = diag(a_j) - b_j / total I``; a ">=" row is the row ``-a_j <= -b_j``. An equality is whichever is violated.
    """

    max_iter = 100_000

    def __init__(self, settings: DefiniteBoost, problem: Rows) -> None:
        self.settings, self.problem, self.next = settings, problem, 0
        self.log_bound = 0.0
        self.trace: dict[str, list] = {name: [] for name in ("row", "step", "log_dual_objective", "log_bound")}
        if problem.total is not None:
            self.low, self.high = self._spectra()
        elif settings.projection == "approximate":
            raise TypeError(
                "DefiniteBoost(projection='approximate') needs total; with total=None use projection='exact'."
            )

    def _spectra(self) -> tuple[np.ndarray, np.ndarray]:
        """Interval of the entries of each ``C_j`` in the sense of the row."""
        P = self.problem
        shift = P.sign * P.b / P.total
        if isinstance(P.A, np.ndarray):
            ends = [P.A.min(axis=1), P.A.max(axis=1)]
        else:
            ends = [getattr(P.A, name)(axis=1).toarray().ravel() for name in ("min", "max")]
        ends = np.sort(P.sign * np.array(ends), axis=0) - shift
        if self.settings.spectrum is None:
            return ends[0], ends[1]
        low, high = self.settings.spectrum
        slip = 1e-12 * (high - low)
        bad = np.flatnonzero((ends[0] < low - slip) | (ends[1] > high + slip))
        if len(bad):
            j = bad[0]
            raise ValueError(
                f"DefiniteBoost: spectrum must hold the entries of every A_j - b_j / total; got ({low}, {high}) for "
                f"({ends[0][j]:.6g}, {ends[1][j]:.6g}) in {rows_text(bad)}."
            )
        return np.full_like(P.b, low), np.full_like(P.b, high)

    def __call__(self, at: Point) -> Point:
        P, settings = self.problem, self.settings
        excess = P.excess(at.p)
        score = np.where(P.sense == 0, np.abs(excess), excess)
        if settings.corrected:  # rows with weight may give it back
            score = np.where(at.mu != 0, np.abs(excess), score)
        j = self._chosen(score)
        if not score[j] > 0:
            return replace(at, stalled=settings.corrected, done=not settings.corrected)
        new = self._moved(at, j, float(excess[j]))
        worst = float(P.violation(new.p).max(initial=0.0))
        return replace(new, done=not settings.corrected and worst <= settings.violation_tol)

    def _chosen(self, score: np.ndarray) -> int:
        if self.settings.order == "greedy":
            return int(score.argmax())
        order = (np.arange(len(score)) + self.next) % len(score)
        wrong = (score > 0.1 * FEASIBLE * self.problem.unit)[order]
        j = int(order[wrong.argmax()]) if wrong.any() else int(score.argmax())
        self.next = j + 1
        return j

    def _moved(self, at: Point, j: int, excess: float) -> Point:
        """The step on row j, clipped where its weight would change sign, and its entry in the trace."""
        P, sign = self.problem, float(self.problem.sign[j])
        lowest = -sign * float(at.mu[j]) if self.settings.corrected and P.sense[j] != 0 else -np.inf
        alpha = model = 0.0
        if P.total is not None:
            low, high = self.low[j], self.high[j]
            r, far = min(max(excess / P.total, low), high), FAR / max(high - low, 1e-300)
            alpha = model = max(min(max(approximate_step(r, low, high), -far), far), lowest)
        if self.settings.projection == "exact":
            alpha = max(sign * row_step(P, at.logx, j, self.settings.root_tol), lowest)
        mu, v = at.mu.copy(), at.v.copy()
        mu[j] += sign * alpha
        on, a = P.row(j)
        v[on] += sign * alpha * a
        new = P.point(mu, v)
        self.trace["row"].append(j)
        self.trace["step"].append(sign * alpha)
        if P.total is not None:
            # an exact step lowers the dual objective at least as far as the approximate one
            self.log_bound += log_step_bound(r, low, high, model)
            mass = float(P.x0.sum())
            self.trace["log_dual_objective"].append((mass - P.total - new.bound) / P.total - np.log(mass / P.total))
            self.trace["log_bound"].append(self.log_bound)
        return new


STEPPERS: dict[Any, Any] = {DualNewton: Newton, CyclicProjection: Cyclic, DefiniteBoost: Booster}
