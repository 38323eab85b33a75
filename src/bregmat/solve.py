"""The only iteration loop: limits, certificates, history, callback, interruption."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from bregmat.certificates import Certificate, certify, infeasibility
from bregmat.charts import Chart
from bregmat.linalg import calm_blas
from bregmat.problems import NearestMatrix
from bregmat.result import ExitReason, Record, Status


class State(Protocol):
    """What the loop reads of a solver's private state."""

    chart: Chart
    dual: np.ndarray
    values: np.ndarray
    objective: float
    signal: float  # estimate of the absolute gap; inf where there is none
    stalled: bool


class Solver(Protocol):
    """Frozen settings; all that changes is in the state."""

    name: str

    def check(self, problem: NearestMatrix) -> None: ...
    def init(self, problem: NearestMatrix, tol: float, start: Certificate | None) -> State: ...
    def step(self, problem: NearestMatrix, state: Any) -> Any: ...


@dataclass(frozen=True, eq=False)
class Outcome:
    """A certificate with the story of the run."""

    certificate: Certificate
    status: Status
    exit_reason: ExitReason
    n_iter: int
    seconds: float
    history: list[Record]
    solver: str
    conflict: np.ndarray | None = None


def solve(
    problem: NearestMatrix,
    solver: Solver,
    *,
    tol: float = 1e-6,
    max_iter: int = 200,
    max_seconds: float | None = None,
    start: Certificate | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> Outcome:
    """Run a solver until its point is certified to ``tol`` or a limit is reached.

    Never raises for a numerical outcome and never prints. A KeyboardInterrupt, or a callback that returns True, ends
    the run with the best certified point.

    Parameters
    ----------
    tol : float
        Relative gap at which the run stops; dimensionless.
    max_iter : int
        Limit on steps of the solver.
    max_seconds : float, optional
        Limit on wall time.
    start : Certificate, optional
        A warm start; its dual weights are copied.
    callback : callable, optional
        Called with each :class:`Record`.
    """
    solver.check(problem)
    with calm_blas(problem.r, problem.c * problem.r):
        return _iterate(problem, solver, tol, max_iter, max_seconds, start, callback)


def _iterate(
    problem: NearestMatrix,
    solver: Solver,
    tol: float,
    max_iter: int,
    max_seconds: float | None,
    start: Certificate | None,
    callback: Callable[[Record], Any] | None,
) -> Outcome:
    """The loop itself."""
    clock = time.perf_counter()
    history: list[Record] = []
    best: Certificate | None = None
    conflict = None
    reason = ExitReason.MAX_ITER
    iteration = 0
    growth, next_try = 0.0, np.inf
    state = None

    def better(new: Certificate, old: Certificate | None) -> Certificate:
        if old is None:
            return new
        if not np.isfinite(new.gap) and np.isfinite(old.gap):
            return old
        if new.dual_bound < old.dual_bound and np.isfinite(new.gap):  # the best bound holds whatever the matrix
            gap = (new.objective - old.dual_bound) / max(1.0, abs(new.objective))
            new = replace(new, dual=old.dual, dual_bound=old.dual_bound, gap=gap)
        if np.isfinite(old.gap) and old.gap <= new.gap:
            return old
        return new

    try:
        state = solver.init(problem, tol, start)
        while True:
            finite = bool(np.isfinite(state.values).all() and np.isfinite(state.dual).all())
            if not finite:
                reason = ExitReason.NONFINITE
                break
            record_gap, bound, violation, objective = np.nan, np.nan, np.nan, state.objective
            worth = state.signal <= 10.0 * tol * max(1.0, abs(state.objective)) and state.signal <= next_try
            if worth or state.stalled or iteration >= max_iter:
                certificate = certify(problem, state.chart, state.values, state.dual)
                best = better(certificate, best)
                objective, bound, record_gap, violation = (
                    certificate.objective,
                    certificate.dual_bound,
                    certificate.gap,
                    certificate.violation,
                )
                next_try = np.inf if np.isfinite(certificate.gap) else state.signal / 4.0
            record = Record(iteration, time.perf_counter() - clock, objective, bound, record_gap, violation)
            history.append(record)
            if callback is not None and callback(record):
                reason = ExitReason.INTERRUPTED
                break
            if best is not None and best.proves(tol):
                reason = ExitReason.TOLERANCE
                break
            if problem.losses.has_hard:
                size = float(np.abs(state.dual * problem.unit).max(initial=0.0))
                if size > 2.0 * growth and (iteration >= 3 or state.stalled):
                    growth = size
                    proof = infeasibility(problem, state.dual)
                    if proof is not None:
                        conflict = proof
                        reason = ExitReason.CERTIFICATE
                        break
            if state.stalled:
                reason = ExitReason.STALLED
                break
            if iteration >= max_iter:
                break
            if max_seconds is not None and time.perf_counter() - clock > max_seconds:
                reason = ExitReason.TIME
                break
            state = solver.step(problem, state)
            iteration += 1
    except KeyboardInterrupt:
        reason = ExitReason.INTERRUPTED
        if state is None:
            raise
    if best is None or reason in (ExitReason.INTERRUPTED, ExitReason.TIME):
        best = better(certify(problem, state.chart, state.values, state.dual), best)
    status = _status(problem, best, tol)
    rows = None
    if conflict is not None:
        status, rows = Status.INFEASIBLE, conflict.rows
        best = replace(best, dual=conflict.dual, gap=np.inf)
    elif status is Status.OPTIMAL and reason is not ExitReason.INTERRUPTED:
        reason = ExitReason.TOLERANCE
    return Outcome(best, status, reason, iteration, time.perf_counter() - clock, history, solver.name, rows)


def _status(problem: NearestMatrix, certificate: Certificate, tol: float) -> Status:
    if certificate.proves(tol):
        return Status.OPTIMAL
    return Status.FEASIBLE if np.isfinite(certificate.gap) or not problem.losses.has_hard else Status.UNKNOWN
