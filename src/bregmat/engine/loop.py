"""The loop that drives every solver: limits, certificates, history, callback, interruption.

It also defines what a solver and its state must have, and makes results of runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import numpy as np

from bregmat.base.threads import on_one_blas_thread, take_interrupt, time_limit
from bregmat.engine.problem import Certificate, Problem, Proof
from bregmat.engine.result import Result
from bregmat.engine.status import ExitReason, Record, Status

CallBack = Callable[[Record], Any]
BROKEN = (np.linalg.LinAlgError, ArithmeticError)  # an eigenproblem does not converge, or a scalar overflows
ENDED = (ExitReason.TOLERANCE, ExitReason.INTERRUPTED, ExitReason.TIME)  # why no further solver is tried
CLOSING = 0.1  # share of the time limit that the last certificate may take after it, so that hard rows can be restored
RECENT, FAST = 5, 0.3  # a signal falls fast if it falls to this share of itself in so many steps


class NoStart(ArithmeticError):
    """A solver has no first point, because its numbers overflow there."""


class State:
    """The attributes of a solver's state that the loop reads; each solver derives a dataclass of its own."""

    objective: float
    signal: float  # estimate of the absolute gap; inf if the solver has none
    stalled: bool
    finished: bool = False  # whether a stopping rule of the solver itself is met; most solvers have none
    trace: Any = MappingProxyType({})  # arrays that only this solver records, by name; often a property

    def is_finite(self) -> bool:
        """Whether no number has overflowed."""
        return bool(np.isfinite(self.objective))


class Solver(Protocol):
    """A solver: frozen settings. Everything that changes is in the state."""

    @property
    def name(self) -> str: ...
    @property
    def works_on(self) -> str: ...  # whose value the state's objective is if rows are hard: "objective" or "dual_bound"
    @property
    def max_iter(self) -> int: ...  # steps that a run may take unless told otherwise
    def check(self, problem: Any) -> None: ...
    def init(self, problem: Any, tol: float, start: Any) -> Any: ...
    def step(self, problem: Any, state: Any) -> Any: ...


_R = TypeVar("_R", bound=Result)


@dataclass(eq=False)
class RunLog:
    """Clock, history and callback of one run, or of several runs that count as one.

    Solvers whose steps are too short for :func:`solve` write the same records.

    Parameters
    ----------
    callback : callable, optional
        Called with each :class:`Record`; True asks to stop.
    max_seconds : float, optional
        Limit on wall time from here on.
    units : callable, optional
        Converts a record into the user's units.
    """

    callback: CallBack | None = None
    max_seconds: float | None = None
    units: Callable[[Record], Record] | None = None
    clock: float = field(default_factory=time.perf_counter)
    history: list[Record] = field(default_factory=list)
    before: int = 0  # steps of the runs before this one

    def beside(self) -> RunLog:
        """A log with a history of its own and no callback, and the same clock and time limit."""
        return RunLog(None, self.max_seconds, self.units, clock=self.clock)

    def seconds(self) -> float:
        """Wall time since the start."""
        return time.perf_counter() - self.clock

    def is_late(self) -> bool:
        """Whether the time limit is exceeded."""
        return self.max_seconds is not None and self.seconds() > self.max_seconds

    def note(self, iteration: int, **figures: Any) -> Record:
        """Add a record to the history."""
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in figures.items()}
        row = Record(self.before + iteration, self.seconds(), **plain)
        self.history.append(row if self.units is None else self.units(row))
        return self.history[-1]


@dataclass(frozen=True, eq=False)
class Run:
    """How a run went: its best certificate, what is proven, and why it stopped.

    Attributes
    ----------
    status : Status
        That of the proof, if there is one; otherwise what the certificate proves.
    exit_reason : ExitReason
        TOLERANCE if the certificate proves a gap within the tolerance, unless the run was interrupted; otherwise it is TOLERANCE only if a
        stopping rule of the solver itself was met.
    """

    log: RunLog
    certificate: Any  # the problem's own subclass of Certificate
    tol: float
    reason: ExitReason  # why the solver took no further step
    solver: str
    n_iter: int = 0
    proof: Proof | None = None  # that the problem is infeasible or unbounded
    by_own_rule: bool = False  # whether TOLERANCE means a stopping rule of the solver, which does not test the gap
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    state: Any = None  # last state of the solver
    status: Status = field(init=False)
    exit_reason: ExitReason = field(init=False)

    def __post_init__(self) -> None:
        status = self.certificate.status(self.tol) if self.proof is None else self.proof.status
        reason = self.reason
        if status is Status.OPTIMAL and reason in (ExitReason.STALLED, ExitReason.MAX_ITER, ExitReason.TIME):
            reason = ExitReason.TOLERANCE
        elif status in (Status.FEASIBLE, Status.UNKNOWN) and reason is ExitReason.TOLERANCE and not self.by_own_rule:
            reason = ExitReason.STALLED
        vars(self).update(status=status, exit_reason=reason)


def compose(cls: type[_R], run: Run | Result, **point: Any) -> _R:
    """The result of a run: every result is made here, from how the run went, its certificate and the point.

    Parameters
    ----------
    cls : type
        The kind of result. Its fields are taken from ``point``, or from the run and the certificate by the same names.
    run : Run or Result
        A run, or a result of another kind that holds the same numbers.
    point
        What the certificate does not have: the point in the form and the units of the user.
    """
    parts = vars(run)
    if isinstance(run, Run):
        conflict = run.proof.rows if run.proof is not None and len(run.proof.rows) else None
        how = {"history": run.log.history, "seconds": run.log.seconds(), "conflict": conflict}
        parts = parts | vars(run.certificate) | how
    parts = parts | point
    return cls(**{name: parts[name] for name in cls.__dataclass_fields__ if name in parts})


@on_one_blas_thread
def solve(
    problem: Problem,
    solver: Solver,
    *,
    tol: float = 1e-6,
    max_iter: int | None = None,
    start: Any = None,
    log: RunLog | None = None,
) -> Run:
    """Run a solver until its point is certified to ``tol`` or a limit is reached.

    It never raises for a numerical outcome and never prints. A KeyboardInterrupt, or a callback that returns True, ends the run
    with the best certified point. The function that the user called warns of an interrupt (:mod:`bregmat.base.threads`).

    Parameters
    ----------
    problem : Problem
        Certifies points and proves infeasibility.
    solver : Solver
        Raises ``TypeError`` before the first step if it cannot solve the problem.
    tol : float
        Relative gap at which the run stops; dimensionless.
    max_iter : int, optional
        Limit on steps; by default the solver's own.
    start : optional
        A warm start for the solver's ``init``: dual weights, shape (c,), for (P). Copied.
    log : RunLog, optional
        With the limit on wall time, the callback, and the steps of runs before this one.
    """
    solver.check(problem)
    limit = solver.max_iter if max_iter is None else max_iter
    return _loop(problem, solver, tol, limit, limit, start, RunLog() if log is None else log)


class Method(Protocol):
    """What :func:`repeat` drives: a method that keeps its own point."""

    def measure(self, is_last: bool) -> dict[str, float]: ...  # figures of a record; is_last: the limit is reached
    def ended(self) -> ExitReason | None: ...  # why it does not continue
    def step(self) -> None: ...  # raises one of ``BROKEN`` if a number overflows, and keeps its point


def repeat(method: Method, limit: int, log: RunLog) -> tuple[ExitReason, int]:
    """Alternate measurements and steps of a method until it ends or a limit is reached; return the reason and the number of steps.

    :func:`solve` drives solvers of problems with it. Methods that keep their own proof use it directly.
    """
    iteration, max_seconds = 0, np.inf if log.max_seconds is None else log.max_seconds
    # Numbers may overflow far from the solution. Such steps are rejected, so NumPy need not warn.
    with np.errstate(all="ignore"), time_limit(max_seconds - log.seconds()):
        try:
            while True:
                row = log.note(iteration, **method.measure(iteration >= limit))
                if log.callback is not None and log.callback(row):
                    return ExitReason.INTERRUPTED, iteration
                reason = method.ended()
                if reason is None and iteration >= limit:
                    reason = ExitReason.MAX_ITER
                if reason is None and log.seconds() > max_seconds:
                    reason = ExitReason.TIME
                if reason is not None:
                    return reason, iteration
                try:
                    method.step()
                except BROKEN:
                    return ExitReason.NONFINITE, iteration + 1
                iteration += 1
        except KeyboardInterrupt:
            take_interrupt()
            return ExitReason.INTERRUPTED, iteration
        except np.linalg.LinAlgError:  # in a certificate
            return ExitReason.NONFINITE, iteration


def _loop(problem: Problem, solver: Solver, tol: float, limit: int, share: int, start: Any, log: RunLog) -> Run:
    """Run a solver that can solve the problem.

    It takes at most ``limit`` steps, and only ``share`` of them if the signal does not fall fast.
    """
    max_seconds = np.inf if log.max_seconds is None else log.max_seconds
    with np.errstate(all="ignore"):
        with time_limit(max_seconds - log.seconds()):
            try:
                state = solver.init(problem, tol, start)
            except BROKEN as error:
                raise NoStart(
                    f"{solver.name} has no first point ({error}): scale the data and the bounds towards 1."
                ) from error
        method = _SolverMethod(problem, solver, tol, share, log, state)
        reason, iteration = repeat(method, limit, log)
        if reason is ExitReason.NONFINITE and method.proof is not None:
            reason = ExitReason.CERTIFICATE
        state = method.state
        with time_limit(max(max_seconds - log.seconds(), CLOSING * max_seconds)):
            if reason is ExitReason.TIME:
                problem.conclude(state)
            if method.best is None or reason in (ExitReason.INTERRUPTED, ExitReason.TIME):
                method.certify()
    best, proof = method.best, method.proof
    assert best is not None
    if proof is not None:
        best = replace(best, dual=proof.dual, upper=np.inf)
    how = {"proof": proof, "by_own_rule": state.finished, "trace": dict(state.trace), "state": state}
    return Run(log, best, tol, reason, solver.name, iteration, **how)


@dataclass(eq=False)
class _SolverMethod:
    """A solver as a method that :func:`repeat` drives: its state, its best certificate, and a proof of infeasibility if there is one."""

    problem: Problem
    solver: Solver
    tol: float
    share: int
    log: RunLog
    state: Any
    iteration: int = 0
    best: Certificate | None = None
    proof: Proof | None = None
    is_spent: bool = False  # whether the steps are used up
    is_last: bool = False  # whether the run ends with this state, as far as it is known before its certificate
    largest_dual: float = 0.0  # size of the dual weights when a proof of infeasibility was last sought
    retry_below: float = np.inf  # estimate of the gap below which the next certificate is computed
    signals: list[float] = field(default_factory=list)

    def certify(self) -> Certificate:
        """The certificate of the state, which joins the best one."""
        new = self.problem.certify(self.state)
        self.best = new if self.best is None else self.best.joined(new)
        return new

    def measure(self, is_last: bool) -> dict[str, float]:
        """Certify a promising state, or estimate its figures.

        A certificate of (P) costs about one product of each row with a matrix, and a linear system to restore hard rows. So it is
        computed only if the solver's own estimate of the gap is small, or if there is a callback.
        """
        problem, state = self.problem, self.state
        if self.iteration == 0 and not problem.is_always_feasible:
            self.proof = problem.proof_beforehand()
        self.signals.append(state.signal)
        # the least signal of the last few steps must be far below the least signal before them
        self.is_spent = is_last or (
            self.iteration >= self.share
            and not min(self.signals[-RECENT:]) < FAST * min(self.signals[:-RECENT], default=0.0)
        )
        self.is_last = state.finished or state.stalled or self.is_spent
        due = state.signal <= self.retry_below and problem.is_due(state, self.tol)
        if not (due or self.is_last or (self.log.callback is not None and problem.certifies_cheaply)):
            return {"gap": np.nan} | problem.estimate(state, self.solver.works_on)
        if self.is_last:
            problem.conclude(state)
        new = self.certify()
        is_soon = problem.retries_feasible and np.isfinite(new.upper)
        self.retry_below = np.inf if is_soon else state.signal / problem.retry_divisor
        return new.figures

    def ended(self) -> ExitReason | None:
        """Why the run ends with this state; None if it continues."""
        if self.proof is None and self.best is not None and self.best.status(self.tol) is Status.OPTIMAL:
            return ExitReason.TOLERANCE
        if not self.problem.is_always_feasible and self.is_contradicted(self.is_last):
            return ExitReason.CERTIFICATE
        # the certificate may have ended the state just now
        if self.state.finished:
            return ExitReason.TOLERANCE
        return ExitReason.STALLED if self.state.stalled else ExitReason.MAX_ITER if self.is_spent else None

    def step(self) -> None:
        """One step of the solver. The dual weights may have grown into a proof of infeasibility before numbers overflow."""
        try:
            following = self.solver.step(self.problem, self.state)
        except BROKEN:
            following = None
        self.iteration += 1
        if following is None or not following.is_finite():
            self.is_contradicted(last=True)
            raise OverflowError
        self.state = following

    def is_contradicted(self, last: bool) -> bool:
        """Whether the problem is proven infeasible; a proof is sought each time the dual weights have doubled, and at the end."""
        is_met = self.problem.is_always_feasible or (self.best is not None and self.best.is_feasible)
        if self.proof is None and not is_met:
            size = self.problem.dual_size(self.state)
            if self.iteration == 2:
                self.largest_dual = size
            if last or (self.iteration >= 3 and size > 2.0 * self.largest_dual):
                self.largest_dual = size
                self.proof = self.problem.contradiction(self.state)
            if last and self.proof is None:
                self.proof = self.problem.last_contradiction(self.state)
        return self.proof is not None


def solve_sequence(
    problem: Problem, plan: Sequence[tuple[Solver, int]], *, tol: float, log: RunLog, start: Any = None
) -> Run:
    """Try solvers one after the other until the problem is solved; one history, and the best certificate of all runs.

    A solver that is tried again starts from the dual weights of the best certificate.

    Parameters
    ----------
    problem : Problem
    plan : sequence of (solver, int)
        Solvers that can solve the problem, in order. Each has its share of the iterations, after which it ends unless its signal
        falls fast; the last one's is the limit of all.
    tol, log, start
        As in :func:`solve`.
    """
    best: Run | None = None
    limit = log.before + plan[-1][1]
    for k, (solver, share) in enumerate(plan):
        left = limit - log.before
        if best is not None and left <= 0:
            break
        if best is not None and solver in [before for before, _ in plan[:k]]:
            start = best.certificate.dual
        try:
            run = _loop(problem, solver, tol, left, min(share, left), start, log)
        except KeyboardInterrupt:  # while the next solver was starting: the run of the last one is kept
            if best is None:
                raise
            take_interrupt()
            return replace(best, reason=ExitReason.INTERRUPTED)
        except NoStart:  # another solver may have a first point
            if best is None and k + 1 == len(plan):
                raise
            continue
        log.before += run.n_iter
        best = run if best is None else _continued(best, run)
        if best.status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED) or best.exit_reason in ENDED:
            break
    assert best is not None
    return best


def _continued(first: Run, then: Run) -> Run:
    """Two runs with one log as one: the better point and the better bound, or the second run's proof of infeasibility."""
    joined = then.certificate if then.proof is not None else first.certificate.joined(then.certificate)
    n_iter, solver = first.n_iter + then.n_iter, f"{first.solver} + {then.solver}"
    return replace(then, certificate=joined, n_iter=n_iter, solver=solver)
