"""The only iteration loop: limits, certificates, history, callback, interruption."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from bregmat.certificates import Certificate, certify
from bregmat.infeasibility import InfeasibilityProof, infeasibility, singular_rows
from bregmat.iterates import Iterate
from bregmat.linalg import single_thread_blas
from bregmat.problems import NearestMatrix
from bregmat.result import ExitReason, Record, Status


class State:
    """What the loop reads of a solver's private state; a dataclass of the solver's own derives from it."""

    dual: np.ndarray
    objective: float
    signal: float  # estimate of the absolute gap; inf where there is none
    stalled: bool
    finished: bool = False  # whether the solver's own stopping rule is met; most leave it to the certificate
    if TYPE_CHECKING:  # attributes, or properties that are worked out when a certificate asks

        @property
        def iterate(self) -> Iterate: ...
        @property
        def values(self) -> np.ndarray: ...

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """What only this solver records, one array per name."""
        return {}

    def violation(self, problem: NearestMatrix) -> float:
        """Largest relative violation of a hard row, for the history; nan where there is none."""
        if not problem.losses.has_hard:
            return np.nan
        return float(problem.violation(self.values)[problem.losses.hard].max(initial=0.0))

    def is_finite(self) -> bool:
        """Whether no number has overflowed."""
        return bool(np.isfinite(self.values).all() and np.isfinite(self.dual).all())


class Solver(Protocol):
    """Frozen settings; all that changes is in the state."""

    name: ClassVar[str]
    works_on: ClassVar[str]  # what its state calls objective where rows are hard: "objective" or "dual_bound"
    max_iter: ClassVar[int]  # steps that a run may take unless told otherwise

    def check(self, problem: NearestMatrix) -> None: ...
    def init(self, problem: NearestMatrix, tol: float, start: Certificate | None) -> Any: ...
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
    trace: dict[str, np.ndarray] = field(default_factory=dict)


def solve(
    problem: NearestMatrix,
    solver: Solver,
    *,
    tol: float = 1e-6,
    max_iter: int | None = None,
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
    max_iter : int, optional
        Limit on steps; by default the solver's own.
    max_seconds : float, optional
        Limit on wall time.
    start : Certificate, optional
        A warm start; its dual weights are copied.
    callback : callable, optional
        Called with each :class:`Record`.
    """
    solver.check(problem)
    # overflow far from the solution is part of the search: steps that are not finite are refused, not reported
    with single_thread_blas(problem.r), np.errstate(all="ignore"):
        limit = solver.max_iter if max_iter is None else max_iter
        return _iterate(problem, solver, tol, limit, max_seconds, start, callback)


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
    run = _Run(problem, tol, callback, solver.works_on)
    reason, iteration, state = ExitReason.MAX_ITER, 0, None
    try:
        state = solver.init(problem, tol, start)
        run.proof = singular_rows(problem) if problem.losses.has_hard else None
        while True:
            last = state.stalled or state.finished or iteration >= max_iter
            if run.record(iteration, state, last):
                reason = ExitReason.INTERRUPTED
            elif run.best is not None and run.best.proves(tol):
                reason = ExitReason.TOLERANCE
            elif run.contradiction(iteration, state, last):
                reason = ExitReason.CERTIFICATE
            elif state.finished:
                reason = ExitReason.TOLERANCE
            elif state.stalled:
                reason = ExitReason.STALLED
            elif iteration >= max_iter:
                reason = ExitReason.MAX_ITER
            elif max_seconds is not None and run.seconds() > max_seconds:
                reason = ExitReason.TIME
            else:
                following = solver.step(problem, state)
                iteration += 1
                if following.is_finite():
                    state = following
                    continue
                reason = ExitReason.NONFINITE
            break
    except KeyboardInterrupt:
        if state is None:
            raise
        reason = ExitReason.INTERRUPTED
    except np.linalg.LinAlgError:  # an eigenproblem that does not converge
        if state is None:
            raise
        reason = ExitReason.NONFINITE
    return run.outcome(solver.name, reason, iteration, state)


def proven_status(certificate: Certificate, tol: float) -> Status:
    """What a certificate proves."""
    if certificate.proves(tol):
        return Status.OPTIMAL
    return Status.FEASIBLE if np.isfinite(certificate.upper) else Status.UNKNOWN


class _Run:
    """Bookkeeping of one run: clock, history, best certificate, proof of infeasibility."""

    def __init__(
        self, problem: NearestMatrix, tol: float, callback: Callable[[Record], Any] | None, works_on: str
    ) -> None:
        self.problem, self.tol, self.callback, self.works_on = problem, tol, callback, works_on
        self.clock = time.perf_counter()
        self.history: list[Record] = []
        self.best: Certificate | None = None
        self.proof: InfeasibilityProof | None = None
        self._largest_dual = 0.0
        self._retry_below = np.inf

    def seconds(self) -> float:
        """Wall time since the start."""
        return time.perf_counter() - self.clock

    def record(self, iteration: int, state: State, last: bool) -> bool:
        """Certify where it is worth it, write the history, call back; whether the callback asks to stop.

        A certificate costs about one product of each row with a matrix, and a Gram system where hard rows must be
        restored, so it waits for the solver's own signal, unless somebody watches.
        """
        close = state.signal <= 10.0 * self.tol * max(1.0, abs(state.objective)) and state.signal <= self._retry_below
        watched = self.callback is not None and not self.problem.losses.has_hard
        if close or last or watched:
            new = self._certify(state)
            self._retry_below = np.inf if np.isfinite(new.gap) else state.signal / 4.0
            row = Record(iteration, self.seconds(), new.objective, new.dual_bound, new.gap, new.violation)
        else:
            known = self.works_on if self.problem.losses.has_hard else "objective"
            values = {"objective": np.nan, "dual_bound": np.nan, known: state.objective}
            row = Record(iteration, self.seconds(), gap=np.nan, violation=state.violation(self.problem), **values)
        self.history.append(row)
        return self.callback is not None and bool(self.callback(row))

    def _certify(self, state: State) -> Certificate:
        new = certify(self.problem, state.iterate, state.values, state.dual)
        self.best = new if self.best is None else self.best.joined(new)
        return new

    def contradiction(self, iteration: int, state: State, last: bool) -> bool:
        """Look for a proof of infeasibility when the multipliers have doubled, and once more at the end."""
        met = self.best is not None and np.isfinite(self.best.upper)  # then nothing contradicts anything
        if self.proof is None and self.problem.losses.has_hard and not met:
            size = float(np.abs(state.dual * self.problem.unit).max(initial=0.0))
            near = state.signal <= 1e-2 * max(1.0, abs(state.objective))  # no time for proofs: it is about to be solved
            if last or (iteration >= 3 and size > 2.0 * self._largest_dual and not near):
                self._largest_dual = size
                self.proof = infeasibility(self.problem, state.dual)
        return self.proof is not None

    def outcome(self, name: str, reason: ExitReason, iteration: int, state: State) -> Outcome:
        """The certified end of the run."""
        if self.best is None or reason in (ExitReason.INTERRUPTED, ExitReason.TIME):
            self._certify(state)
        assert self.best is not None
        best, rows = self.best, None
        if self.proof is not None:
            status, rows = Status.INFEASIBLE, self.proof.rows
            best = replace(best, dual=self.proof.dual, gap=np.inf)
        else:
            status = proven_status(best, self.tol)
        return Outcome(best, status, reason, iteration, self.seconds(), self.history, name, rows, state.trace)
