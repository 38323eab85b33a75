"""Clock, history and callback of one run, and the result it ends with."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bregmat.quadratic.equality import Rows, unreduced
from bregmat.quadratic.problem import NonnegativeQP, conditions, weights_of
from bregmat.quadratic.proof import Verdict, judge, residual_of, shifts
from bregmat.quadratic.result import QPResult
from bregmat.result import ExitReason, Record, Status

NEWTON = 20
FEASIBLE = 1e-8  # violation of the rows up to which a point counts as feasible
PRECISE = 1e-10  # residual from which a gap that is too large is likely to be rounding


def free_multiplier(problem: NonnegativeQP, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Least-squares multipliers of the equality on the variables away from their bounds."""
    E = problem.rows[0]
    if not len(E):
        return np.zeros(0)
    room = np.minimum(x, problem.bounds - x)
    weight = np.sqrt(np.maximum(room, 0.0))
    if not weight.any():
        weight[:] = 1.0
    return np.linalg.lstsq((E * weight).T, -g * weight, rcond=None)[0]


def snapped(problem: NonnegativeQP, x: np.ndarray) -> np.ndarray | None:
    """The point with zeros for what rounding left above zero; None where nothing is that small."""
    E, e = problem.rows
    largest = float(problem.A.diagonal().max())
    alone = float(np.abs(problem.b).max()) / largest if largest > 0.0 else 1.0
    reached = float((np.abs(e) / np.abs(E).max(axis=1)).max(initial=0.0))
    tiny = (x > 0.0) & (x <= 1e-14 * max(float(x.max()), reached, alone))
    return np.where(tiny, 0.0, x) if tiny.any() else None


def repaired_multiplier(problem: NonnegativeQP, x: np.ndarray, multiplier: np.ndarray) -> np.ndarray:
    """Multipliers near those given with the least violated conditions: Newton's method on the sum of their squares.

    For points with so many variables at bounds that the free ones leave the multipliers open.
    """
    E = problem.rows[0]
    g, weight = problem.gradient(x), weights_of(problem.A)
    y = best = multiplier
    least = np.inf
    for _ in range(NEWTON):
        h = g + y @ E
        violated = conditions(x, h, problem.bounds) * weight
        if violated.max() < least:
            best, least = y, float(violated.max())
        part = (violated > 0.0) | ((x > 0.0) & (x < problem.bounds))
        if not violated.any():
            break
        rows = E[:, part] * weight[part]
        y = y - np.linalg.lstsq(rows.T, h[part] * weight[part], rcond=None)[0]
    return best


class Watch:
    """Clock, history and callback of one run; what it ends with."""

    def __init__(
        self,
        problem: NonnegativeQP,
        started: float,
        max_seconds: float | None,
        callback: Callable[[Record], Any] | None,
    ) -> None:
        self.problem, self.inner, self.started = problem, problem, started
        self.max_seconds, self.callback = max_seconds, callback
        self.history: list[Record] = []
        self.reason: ExitReason | None = None
        self.point = np.zeros(problem.n)
        self.steps = self.before = 0

    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def remaining(self) -> float | None:
        return None if self.max_seconds is None else max(self.max_seconds - self.seconds(), 1e-9)

    def __call__(self, x: np.ndarray, g: np.ndarray, steps: int | None = None) -> bool:
        """Record a step; True stops."""
        self.steps = self.steps + 1 if steps is None else self.before + steps
        self.point = x.copy()
        problem = self.inner
        violation = residual_of(problem, x, g)
        # at multipliers y: g = A x + b + E'y, so that x'(g + b) / 2 - y'E x / 2 is the objective; y'E x drops out with E x = e
        objective = problem.objective(x) if len(problem.rows[0]) else 0.5 * float(x @ (g + problem.b))
        record = Record(self.steps, self.seconds(), objective, -np.inf, np.inf, violation)
        self.history.append(record)
        if self.callback is not None and self.callback(record):
            self.reason = ExitReason.INTERRUPTED
        elif self.max_seconds is not None and self.seconds() > self.max_seconds:
            self.reason = ExitReason.TIME
        return self.reason is not None

    def best(self, rows: Rows) -> np.ndarray:
        """The last point, or a feasible one where rows have to be met."""
        x = np.minimum(np.maximum(self.point, 0.0), self.problem.bounds)
        return rows.onto(x, self.inner) if rows.equality is not None else x

    def end(
        self,
        rows: Rows,
        x: np.ndarray,
        multiplier: np.ndarray | None,
        candidates: Any,
        tol: float,
        n_iter: int,
        name: str,
    ) -> QPResult:
        problem = self.inner
        if multiplier is None:
            multiplier = free_multiplier(problem, x, problem.gradient(x))
        violation = rows.violation(self.problem, x)
        if violation > FEASIBLE:  # a linear term that is large beside the rows leaves its rounding in them
            met = rows.onto(x, problem)
            there = rows.violation(self.problem, met)
            x, violation = (met, there) if there < violation else (x, violation)
        verdict = judge(problem, x, multiplier, candidates, tolerant=True)
        if len(multiplier) and not (verdict.gap <= tol and verdict.residual <= PRECISE):
            other = repaired_multiplier(problem, x, multiplier)
            again = judge(problem, x, other, shifts(problem, None, x), tolerant=True)
            if again.gap < verdict.gap > tol or (
                again.gap <= max(verdict.gap, tol) and again.residual < verdict.residual
            ):
                verdict, multiplier = again, other
        if not (verdict.gap <= tol and violation <= FEASIBLE) and (near := snapped(problem, x)) is not None:
            other = repaired_multiplier(problem, near, multiplier) if len(multiplier) else multiplier
            again = judge(problem, near, other, shifts(problem, None, near), tolerant=True, precise=True)
            there = rows.violation(self.problem, near)
            if again.gap <= tol and there <= violation:
                verdict, multiplier, x, violation = again, other, near, there
        if not verdict.gap <= tol and verdict.residual <= PRECISE:
            again = judge(problem, x, multiplier, shifts(problem, None, x), tolerant=True, precise=True)
            verdict = again if again.gap < verdict.gap else verdict
        reason = self.reason or ExitReason.TOLERANCE
        status = Status.UNKNOWN if violation > FEASIBLE else Status.OPTIMAL if verdict.gap <= tol else Status.FEASIBLE
        if status is Status.OPTIMAL:
            reason = ExitReason.TOLERANCE if reason is ExitReason.STALLED else reason
        elif reason is ExitReason.TOLERANCE:
            reason = ExitReason.STALLED
        return self.result(
            status, reason, x, verdict, rows.expand(multiplier), n_iter, name, max_violation=violation, tol=tol
        )

    def result(
        self,
        status: Status,
        reason: ExitReason,
        x: np.ndarray,
        verdict: Verdict,
        multiplier: np.ndarray,
        n_iter: int,
        name: str,
        **more: Any,
    ) -> QPResult:
        last = Record(n_iter, self.seconds(), verdict.objective, verdict.bound, verdict.gap, verdict.residual)
        return QPResult(
            status=status,
            exit_reason=reason,
            x=x,
            dual=verdict.dual,
            equality_dual=multiplier,
            objective=verdict.objective,
            dual_bound=verdict.bound,
            gap=verdict.gap,
            kkt_residual=verdict.residual,
            bound_perturbation=verdict.perturbation,
            n_iter=n_iter,
            seconds=last.seconds,
            history=[*self.history, last],
            solver=name,
            **more,
        )

    def interrupted(self, rows: Rows | None, start: np.ndarray | None, tol: float, name: str) -> QPResult:
        """What is known when a KeyboardInterrupt came."""
        self.reason = ExitReason.INTERRUPTED
        if rows is None:
            x = np.zeros(self.problem.n) if start is None else start
            return self.end(unreduced(self.problem, x), x, None, (), tol, 0, name)
        return self.end(rows, self.best(rows), None, (), tol, self.steps, name)

    def infeasible(self, proof: np.ndarray, x: np.ndarray) -> QPResult:
        verdict = Verdict(self.problem.gradient(x), self.problem.objective(x), np.inf, np.inf, np.inf)
        violation = unreduced(self.problem, x).violation(self.problem, x)
        return self.result(
            Status.INFEASIBLE, ExitReason.CERTIFICATE, x, verdict, proof, 0, "feasibility", max_violation=violation
        )

    def unbounded(self, x: np.ndarray, ray: np.ndarray, rows: Rows, n_iter: int, name: str) -> QPResult:
        verdict = Verdict(self.inner.gradient(x), self.inner.objective(x), -np.inf, np.inf, np.inf)
        nothing = rows.expand(np.zeros(len(self.inner.rows[1])))
        return self.result(
            Status.UNBOUNDED, ExitReason.CERTIFICATE, x, verdict, nothing, n_iter, name, direction=ray,
            max_violation=rows.violation(self.problem, x),
        )  # fmt: skip
