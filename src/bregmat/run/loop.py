"""The only iteration loop: limits, certificates, history, callback, interruption. What a problem proves is its own affair."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bregmat.base.interrupts import take_interrupt
from bregmat.base.registry import Registry
from bregmat.base.threads import single_thread_blas
from bregmat.certificates.nearness import Nearness
from bregmat.certificates.problem import Certificate, Problem, Proof
from bregmat.run.result import ExitReason, Record, Status

if TYPE_CHECKING:
    from bregmat.coordinates.iterates import Iterate

CallBack = Callable[[Record], Any]
BROKEN = (np.linalg.LinAlgError, ArithmeticError)  # an eigenproblem that does not converge, a scalar that overflows
RECENT, FALL = 5, 0.3  # steps, and what they leave of a signal that falls fast


class NoStart(ArithmeticError):
    """A solver has no first point: its own numbers overflow there."""


class State:
    """What the loop reads of a solver's private state; a dataclass of the solver's own derives from it."""

    objective: float
    signal: float  # estimate of the absolute gap; inf where there is none
    stalled: bool
    finished: bool = False  # whether the solver's own stopping rule is met; most leave it to the certificate

    @property
    def ended(self) -> ExitReason | None:
        """Why the solver itself goes no further, None where it does."""
        return ExitReason.TOLERANCE if self.finished else ExitReason.STALLED if self.stalled else None

    @property
    def last(self) -> Any:
        """The point itself, before a certificate restores feasibility; None where results do not keep it."""
        return None

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """What only this solver records, one array per name."""
        return {}

    def is_finite(self) -> bool:
        """Whether no number has overflowed."""
        return bool(np.isfinite(self.objective))


class MatrixState(State):
    """A state of a solver for (P): a matrix with the values of its rows, and their dual weights."""

    dual: np.ndarray
    if TYPE_CHECKING:  # attributes, or properties that are worked out when a certificate asks

        @property
        def iterate(self) -> Iterate: ...
        @property
        def values(self) -> np.ndarray: ...

    @property
    def last(self) -> Iterate | None:
        """The matrix of this state, where it is one (dense states of other problems are not)."""
        return getattr(self, "iterate", None)

    def violation(self, problem: Nearness) -> float:
        """Largest relative violation of a hard row, for the history; nan where there is none."""
        if not problem.losses.has_hard:
            return np.nan
        return float(problem.violation(self.values)[problem.losses.hard].max(initial=0.0))

    def is_finite(self) -> bool:
        """Whether no number has overflowed."""
        return bool(np.isfinite(self.values).all() and np.isfinite(self.dual).all())


class Solver(Protocol):
    """Frozen settings; all that changes is in the state."""

    @property
    def name(self) -> str: ...
    @property
    def works_on(self) -> str: ...  # what its state calls objective where rows are hard: "objective" or "dual_bound"
    @property
    def max_iter(self) -> int: ...  # steps that a run may take unless told otherwise
    def check(self, problem: Any) -> None: ...
    def init(self, problem: Any, tol: float, start: Any) -> Any: ...
    def step(self, problem: Any, state: Any) -> Any: ...


SOLVERS = Registry(
    "solver",
    example="CyclicProjection()",
    needs=("works_on", "max_iter", "check", "init", "step"),
    before="'auto' or ",
)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A certificate with the story of the run.

    The reason is that of the certificate: TOLERANCE where it proves a gap within the tolerance, however the run ended, and else only
    where the solver stopped by a rule of its own (``by_own_rule``).
    """

    certificate: Any  # the problem's own subclass of Certificate
    status: Status
    exit_reason: ExitReason
    tol: float
    n_iter: int
    seconds: float
    history: list[Record]
    solver: str
    conflict: np.ndarray | None = None
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    last: Any = None  # point of the solver's last state
    by_own_rule: bool = False  # whether the run ended by a stopping rule of the solver that does not test the gap

    def __post_init__(self) -> None:
        reason = self.exit_reason
        if self.status is Status.OPTIMAL and reason in (ExitReason.STALLED, ExitReason.MAX_ITER, ExitReason.TIME):
            reason = ExitReason.TOLERANCE
        elif self.status in (Status.FEASIBLE, Status.UNKNOWN) and reason is ExitReason.TOLERANCE:
            reason = reason if self.by_own_rule else ExitReason.STALLED
        object.__setattr__(self, "exit_reason", reason)

    def shared(self) -> dict[str, Any]:
        """The fields that every :class:`bregmat.Result` has."""
        proof = self.certificate
        own = ("certificate", "last", "by_own_rule")
        story = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in own}
        numbers = {name: getattr(proof, name) for name in ("objective", "dual_bound", "gap", "unit")}
        return story | numbers | {"max_violation": proof.violation}


class RunLog:
    """Clock, history and callback of one run, or of several that count as one.

    Also for inner solvers whose steps are too short for :func:`solve`: they write the same records.

    Parameters
    ----------
    callback : callable, optional
        Called with each :class:`Record`; True asks to stop.
    max_seconds : float, optional
        Limit on wall time from here on.
    units : callable, optional
        Record -> Record in the caller's units, where the run has others.
    watch : callable, optional
        Called with the number of each step and the solver's state, which a checkpoint is made of.
    """

    def __init__(
        self,
        callback: CallBack | None = None,
        max_seconds: float | None = None,
        units: Callable[[Record], Record] | None = None,
        watch: Callable[[int, Any], None] | None = None,
    ) -> None:
        self.callback, self.max_seconds, self.units, self.watch = callback, max_seconds, units, watch
        self.clock = time.perf_counter()
        self.history: list[Record] = []
        self.before = 0  # steps of the runs before this one

    def beside(self, *, is_quiet: bool = False) -> RunLog:
        """A log with a history of its own, by the same clock and to the same limit."""
        log = RunLog(None if is_quiet else self.callback, self.max_seconds, self.units)
        log.clock = self.clock
        return log

    def seconds(self) -> float:
        """Wall time since the start."""
        return time.perf_counter() - self.clock

    def is_late(self) -> bool:
        """Whether the time is up."""
        return self.max_seconds is not None and self.seconds() > self.max_seconds

    def note(self, iteration: int, **figures: Any) -> Record:
        """Add a line to the history."""
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in figures.items()}
        row = Record(self.before + iteration, self.seconds(), **plain)
        self.history.append(row if self.units is None else self.units(row))
        return self.history[-1]

    def tell(self, iteration: int, **figures: Any) -> bool:
        """Add a line to the history and call back; whether the callback asks to stop."""
        row = self.note(iteration, **figures)
        return self.callback is not None and bool(self.callback(row))


def solve(
    problem: Problem,
    solver: Solver,
    *,
    tol: float = 1e-6,
    max_iter: int | None = None,
    share: int | None = None,
    max_seconds: float | None = None,
    start: Any = None,
    callback: CallBack | None = None,
    log: RunLog | None = None,
) -> Outcome:
    """Run a solver until its point is certified to ``tol`` or a limit is reached.

    Never raises for a numerical outcome and never prints. A KeyboardInterrupt, or a callback that returns True, ends
    the run with the best certified point; of the former the caller's caller is told (:mod:`bregmat.base.interrupts`).

    Parameters
    ----------
    problem : Problem
        Certifies points and proves infeasibility.
    solver : Solver
        Refuses what it cannot handle before the first step (``TypeError``).
    tol : float
        Relative gap at which the run stops; dimensionless.
    max_iter : int, optional
        Limit on steps; by default the solver's own.
    share : int, optional
        Steps after which another solver may be better: the run ends there unless its signal falls to .3 in five steps.
    max_seconds : float, optional
        Limit on wall time.
    start : optional
        A warm start, as the solver's ``init`` takes it: dual weights, shape (c,), for (P). Copied.
    callback : callable, optional
        Called with each :class:`Record`.
    log : RunLog, optional
        Of a run that this one continues, in place of ``max_seconds`` and ``callback``.
    """
    solver.check(problem)
    run = _Run(problem, solver, tol, RunLog(callback, max_seconds) if log is None else log)
    limit = solver.max_iter if max_iter is None else max_iter
    share = limit if share is None else share
    # overflow far from the solution is part of the search: steps that are not finite are refused, not reported
    with single_thread_blas(), np.errstate(all="ignore"):
        return run.iterate(start, limit, share)


class _Run:
    """One run: best certificate, proof that there is nothing to find."""

    def __init__(self, problem: Problem, solver: Solver, tol: float, log: RunLog) -> None:
        self.problem, self.solver, self.tol, self.log = problem, solver, tol, log
        self.best: Certificate | None = None
        self.proof: Proof | None = None
        self._largest_dual = 0.0
        self._retry_below = np.inf
        self._signals: list[float] = []

    def iterate(self, start: Any, max_iter: int, share: int) -> Outcome:
        """The loop itself, for at most so many steps, or a share of them where the signal does not fall fast."""
        problem, solver = self.problem, self.solver
        iteration, state = 0, None
        try:
            try:
                state = solver.init(problem, self.tol, start)
            except BROKEN as error:
                raise NoStart(
                    f"{solver.name} has no first point ({error}): scale the data and the bounds towards 1."
                ) from error
            self.proof = problem.proof_beforehand()
            while True:
                self._signals.append(state.signal)
                is_spent = iteration >= max_iter or (iteration >= share and not self._falls_fast())
                last = state.ended is not None or is_spent
                if self.record(iteration, state, last):
                    reason = ExitReason.INTERRUPTED
                elif self.proof is None and self.best is not None and self.best.proves(self.tol):
                    reason = ExitReason.TOLERANCE
                elif self.contradiction(iteration, state, last):
                    reason = ExitReason.CERTIFICATE
                elif state.ended is not None:
                    reason = state.ended
                elif is_spent:
                    reason = ExitReason.MAX_ITER
                elif self.log.is_late():
                    reason = ExitReason.TIME
                else:
                    try:
                        following = solver.step(problem, state)
                    except BROKEN:
                        following = None
                    iteration += 1
                    if following is not None and following.is_finite():
                        state = following
                        continue
                    # weights that grow beyond all numbers may carry a proof before they do
                    broken = self.contradiction(iteration, state, last=True)
                    reason = ExitReason.CERTIFICATE if broken else ExitReason.NONFINITE
                break
        except KeyboardInterrupt:
            if state is None:
                raise
            take_interrupt()
            reason = ExitReason.INTERRUPTED
        except np.linalg.LinAlgError:  # of a certificate
            if state is None:
                raise
            reason = ExitReason.NONFINITE
        return self.outcome(reason, iteration, state)

    def _falls_fast(self) -> bool:
        """Whether the least signal of the last few steps is far below the least before them."""
        recent, before = self._signals[-RECENT:], self._signals[:-RECENT]
        return min(recent) < FALL * min(before, default=0.0)

    def record(self, iteration: int, state: Any, last: bool) -> bool:
        """Certify where it is worth it, write the history, call back; whether the callback asks to stop.

        A certificate has its price (for (P) about one product of each row with a matrix, and a Gram system where hard rows
        must be restored), so it waits for the solver's own signal, unless somebody watches.
        """
        problem = self.problem
        if self.log.watch is not None:
            self.log.watch(self.log.before + iteration, state)
        due = state.signal <= self._retry_below and problem.is_due(state, self.tol)
        if due or last or (self.log.callback is not None and problem.certifies_cheaply):
            if last:
                problem.conclude(state)
            new = self.certify(state)
            self._retry_below = problem.retry_below(new, state)
            return self.log.tell(iteration, **new.figures)
        return self.log.tell(iteration, **{"gap": np.nan} | problem.estimate(state, self.solver.works_on))

    def certify(self, state: Any) -> Certificate:
        """The certificate of a state; the best point and the best bound of all are kept."""
        new = self.problem.certify(state)
        self.best = new if self.best is None else self.best.joined(new)
        return new

    def contradiction(self, iteration: int, state: Any, last: bool) -> bool:
        """Look for a proof of infeasibility when the weights have doubled since the second step, and once more at the end."""
        met = self.best is not None and self.best.is_feasible  # then nothing contradicts anything
        if self.proof is None and not met:
            size = self.problem.dual_size(state)
            if iteration == 2:
                self._largest_dual = size
            if last or (iteration >= 3 and size > 2.0 * self._largest_dual):
                self._largest_dual = size
                self.proof = self.problem.contradiction(state)
            if last and self.proof is None:
                self.proof = self.problem.last_contradiction(state)
        return self.proof is not None

    def outcome(self, reason: ExitReason, iteration: int, state: Any) -> Outcome:
        """The certified end of the run."""
        if reason is ExitReason.TIME:
            self.problem.conclude(state)
        if self.best is None or reason in (ExitReason.INTERRUPTED, ExitReason.TIME):
            self.certify(state)
        assert self.best is not None
        best, status, rows = self.best, self.best.status(self.tol), None
        if self.proof is not None:
            status, rows = self.proof.status, self.proof.rows
            best = replace(best, dual=self.proof.dual, upper=np.inf)
        return Outcome(
            best,
            status,
            reason,
            self.tol,
            iteration,
            self.log.seconds(),
            self.log.history,
            self.solver.name,
            rows,
            state.trace,
            state.last,
            by_own_rule=reason is state.ended is ExitReason.TOLERANCE,
        )


def solve_in_turn(
    problem: Problem,
    plan: Sequence[tuple[Solver, int]],
    *,
    tol: float,
    max_seconds: float | None = None,
    start: Any = None,
    callback: CallBack | None = None,
    log: RunLog | None = None,
) -> Outcome:
    """Try solvers one after the other until one is done; one history, and the best certificate of all.

    A solver that comes again starts from the dual weights of that certificate.

    Parameters
    ----------
    problem : Problem
    plan : sequence of (solver, int)
        Solvers in order, each with its share of the iterations; the last one's is the limit of all.
    tol, max_seconds, start, callback, log
        As in :func:`solve`.
    """
    best: Outcome | None = None
    log = RunLog(callback, max_seconds) if log is None else log
    limit = log.before + plan[-1][1]
    for k, (solver, share) in enumerate(plan):
        left = limit - log.before
        if best is not None and left <= 0:
            break
        if best is not None and solver in [before for before, _ in plan[:k]]:
            start = best.certificate.dual
        try:
            outcome = solve(problem, solver, tol=tol, max_iter=left, share=min(share, left), start=start, log=log)
        except KeyboardInterrupt:  # while the next solver was setting up: what the last one found is kept
            if best is None:
                raise
            take_interrupt()
            return replace(best, exit_reason=ExitReason.INTERRUPTED)
        except NoStart:  # the next one starts elsewhere
            if best is None and k + 1 == len(plan):
                raise
            continue
        log.before += outcome.n_iter
        best = outcome if best is None else _continued(best, outcome)
        if best.status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED) or best.exit_reason in (
            ExitReason.TOLERANCE,
            ExitReason.INTERRUPTED,
            ExitReason.TIME,
        ):
            break
    assert best is not None
    return best


def _continued(first: Outcome, then: Outcome) -> Outcome:
    """Two runs with one log as one, with the better point and the better bound, unless the second proves that there is none."""
    joined, status = then.certificate, then.status
    if status not in (Status.INFEASIBLE, Status.UNBOUNDED):
        joined = first.certificate.joined(then.certificate)
        status = joined.status(then.tol)
    return replace(
        then,
        certificate=joined,
        status=status,
        n_iter=first.n_iter + then.n_iter,
        solver=f"{first.solver} + {then.solver}",
    )
