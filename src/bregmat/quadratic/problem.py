"""A nonnegative quadratic program with its proofs, and the course of a call: independent rows, a solver, one certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, replace
from typing import Any, get_args

import numpy as np

from bregmat._kernels.arrays import Quadratic
from bregmat.base.checks import check_limits
from bregmat.base.interrupts import take_interrupt
from bregmat.base.linalg import EPS
from bregmat.base.threads import single_thread_blas
from bregmat.certificates.problem import Problem, Proof
from bregmat.kernels.definite import check_definite
from bregmat.quadratic.active_set import EXCHANGES, ExactActiveSet
from bregmat.quadratic.certificate import Direction, Evidence, QPCertificate
from bregmat.quadratic.equality import EqualityRows, nearest_feasible, rough_point
from bregmat.quadratic.free_set import FreeFactor
from bregmat.quadratic.multiplicative import MultiplicativeUpdates, run_updates
from bregmat.quadratic.pivoting import BlockPivoting
from bregmat.quadratic.program import Minimum, QuadraticProgram, no_rows
from bregmat.quadratic.split_program import DenseUpdates
from bregmat.run.loop import Outcome, RunLog
from bregmat.run.result import ExitReason, Record, Status
from bregmat.typing import QPSolverName

SOLVERS = get_args(QPSolverName)
NEWTON = 20
FEASIBLE = 1e-8  # violation of the rows up to which a point counts as feasible
PRECISE = 1e-10  # residual from which a gap that is too large is likely to be rounding
# KKT residual up to which a point of an exact solver is a solution that rounding only hides the proof of
ROUNDED = 1e-9
RETRIES = 40  # free sets of an active set that pivoting's answer did not satisfy
EXACT = 1e-12  # to which pivoting tests its conditions, relative to the largest b that matters
FINE = 1e-13  # for the active set, whose exchanges stop at the rounding of the gradient in any case
MAX_ITER = 200  # free sets of the exact solvers
MOST_PIVOTS = 60  # of these, before an active set goes on
ROUGHLY = ExactActiveSet(tol=0.1)


@dataclass(frozen=True, eq=False)
class NonnegativeQP(QuadraticProgram, Problem):
    """A quadratic program with its proofs; see :class:`QuadraticProgram` for the data.

    Attributes
    ----------
    rows : EqualityRows or None
        Where E and e come from, after :meth:`with_independent_rows`.
    """

    rows: EqualityRows | None = None

    def with_independent_rows(self, start: np.ndarray | None) -> NonnegativeQP:
        """The problem that solvers work on; its ``rows`` hold a feasible point, or a proof that there is none."""
        if not self.m:
            return self
        rows = EqualityRows.reduce(self, start)
        return replace(self, E=rows.E, e=rows.e, rows=rows)

    @property
    def given(self) -> QuadraticProgram:
        """With the rows as they were given."""
        return self if self.rows is None else self.rows.given

    # ---------------------------------------------------------------- that there is nothing to find
    def proof_beforehand(self) -> Proof | None:
        """Multipliers with which the rows contradict the box, in terms of the rows given."""
        y = None if self.rows is None else self.rows.conflict
        return None if y is None else Proof(y, np.flatnonzero(y))

    def contradiction(self, state: Minimum) -> Proof | None:
        """A direction of the box along which the objective falls without end, where a run has met one.

        Where rounding in the direction blocked it, the point has gone far along it and is one itself.
        """
        for direction in (state.falling, state.x):
            if direction is not None and (ray := self._without_end(direction)) is not None:
                return Proof(ray, np.flatnonzero(ray), Status.UNBOUNDED)
        return None

    def _without_end(self, direction: np.ndarray) -> np.ndarray | None:
        """The direction with its rounding removed, if it is a proof."""
        if not float(np.abs(direction).max()) > 0.0:
            return None
        d = np.where(np.abs(direction) <= 1e-13 * float(np.abs(direction).max()), 0.0, direction)
        d = d / float(np.abs(d).max())
        if not np.isfinite(d).all() or (d < 0).any() or (d[np.isfinite(self.upper)] > 0).any():
            return None
        support = np.flatnonzero(d)
        length, unit = float(self.root @ d), 32 * EPS * (len(support) + 4)
        if (np.abs(self.A @ d) > 4 * unit * self.root * length).any():
            return None
        exact = self.A[:, support].astype(np.longdouble) @ d[support].astype(np.longdouble)
        bend = float(exact[support] @ d[support])
        flat = np.abs(exact) <= unit * self.root * length
        level = np.abs(self.E @ d) <= unit * (np.abs(self.E) @ d)
        if not flat.all() or not level.all() or bend > 0.25 * EPS * length * length:
            return None
        return d if float(self.b @ d) < -1e-10 * float(np.abs(self.b) @ d) else None

    # ---------------------------------------------------------------- what is proven about a point
    def certify(self, state: Minimum, tol: float = 0.0) -> QPCertificate:
        """Everything that is known about the end of a run, in terms of the rows given.

        More is tried, each at the price of a few products with A, while the gap is above ``tol``: multipliers with less violated
        conditions, zeros for what rounding left above zero, and sums in extended precision.
        """
        given, x, y = self.given, state.x, state.multiplier
        if len(y) != self.m:
            y = self.free_multiplier(x, self.gradient(x))
        missed = given.row_violation(x)
        if missed > FEASIBLE:  # a linear term that is large beside the rows leaves its rounding in them
            met = nearest_feasible(self, x)
            there = given.row_violation(met)
            x, missed = (met, there) if there < missed else (x, missed)
        directions = () if state.is_rough else self.rising_directions(x, state)
        best = Evidence(self, x, y).certificate(directions, is_tolerant=True)
        if self.m and not (best.gap <= tol and best.kkt_residual <= PRECISE):
            new = Evidence(self, x, self._repaired(x, y)).certificate(self.rising_directions(x), is_tolerant=True)
            if new.gap < best.gap > tol or (new.gap <= max(best.gap, tol) and new.kkt_residual < best.kkt_residual):
                best = new
        if not (best.gap <= tol and missed <= FEASIBLE) and (near := self._snapped(x)) is not None:
            y = self._repaired(near, best.equality_dual) if self.m else best.equality_dual
            new = Evidence(self, near, y, precise=True).certificate(self.rising_directions(near), is_tolerant=True)
            there = given.row_violation(near)
            if new.gap <= tol and there <= missed:
                best, missed = new, there
        if not best.gap <= tol and best.kkt_residual <= PRECISE:
            evidence = Evidence(self, best.x, best.equality_dual, precise=True)
            new = evidence.certificate(self.rising_directions(best.x), is_tolerant=True)
            best = new if new.gap < best.gap else best
        if not given.m:
            return best
        return replace(
            best,
            equality_dual=best.equality_dual if self.rows is None else self.rows.expand(best.equality_dual),
            violation=missed,
            upper=best.upper if missed <= FEASIBLE else np.inf,
        )

    def unproven(self, x: np.ndarray, proof: Proof) -> QPCertificate:
        """A point of a problem that is proven to have no solution."""
        is_unbounded = proof.status is Status.UNBOUNDED
        return QPCertificate(
            x=x,
            dual=self.gradient(x),
            equality_dual=np.zeros(self.given.m) if is_unbounded else proof.dual,
            objective=self.objective(x),
            dual_bound=-np.inf if is_unbounded else np.inf,
            upper=np.inf,
            violation=self.given.row_violation(x),
            kkt_residual=np.inf,
            falling=proof.dual if is_unbounded else None,
        )

    def rising_directions(self, x: np.ndarray, state: Minimum | None = None) -> Iterator[Direction]:
        """Directions that raise a reduced gradient which is too low by rounding: ``A_FF^-1`` of ``sqrt(A_ii)``, then others."""
        n, root = self.n, self.root
        for w in () if state is None or state.rising is None else state.rising():
            yield w, None
        yield x, None
        yield 1.0 / np.where(root > 0.0, root, np.inf), None
        # the free set and whatever has (almost) no reduced gradient
        reduced = self.gradient(x)
        near = (x > 0.0) | (np.abs(reduced) <= 1e-8 * self.unit(reduced))
        wide = np.flatnonzero((root > 0.0) & (x < self.upper) & near)
        if not len(wide):
            return
        factor = FreeFactor(Quadratic(self.A, no_rows(n)[0], self.upper, self.weights, 0.0), n)
        factor.rebuild(wide)
        w = np.zeros(n)
        w[factor.free] = factor.solve(root[factor.free], np.zeros(0))[0]
        yield w, None
        # the minimum of 1/2 w'Aw - sum sqrt(A_ii) w_i over w >= 0 has A w >= sqrt(A_ii); there is none where no w at all will do
        part = QuadraticProgram.of(np.ascontiguousarray(self.A[np.ix_(wide, wide)]), -root[wide])
        w = np.zeros(n)
        w[wide] = ROUGHLY.minimize(part, 1.0 / (root[wide] * len(wide))).x
        yield w, None

    def _snapped(self, x: np.ndarray) -> np.ndarray | None:
        """The point with zeros for what rounding left above zero; None where nothing is that small."""
        largest = float(self.diagonal.max())
        alone = float(np.abs(self.b).max()) / largest if largest > 0.0 else 1.0
        reached = float((np.abs(self.e) / np.abs(self.E).max(axis=1)).max(initial=0.0))
        tiny = (x > 0.0) & (x <= 1e-14 * max(float(x.max()), reached, alone))
        return np.where(tiny, 0.0, x) if tiny.any() else None

    def _repaired(self, x: np.ndarray, multiplier: np.ndarray) -> np.ndarray:
        """Multipliers near those given with the least violated conditions: Newton's method on the sum of their squares.

        For points with so many variables at bounds that the free ones leave the multipliers open.
        """
        g, weight = self.gradient(x), self.weights
        y = best = multiplier
        least = np.inf
        for _ in range(NEWTON):
            h = g + y @ self.E
            violated = self.violations(x, h) * weight
            if violated.max() < least:
                best, least = y, float(violated.max())
            part = (violated > 0.0) | ((x > 0.0) & (x < self.upper))
            if not violated.any():
                break
            rows = self.E[:, part] * weight[part]
            y = y - np.linalg.lstsq(rows.T, h[part] * weight[part], rcond=None)[0]
        return best


# -------------------------------------------------------------------- the course of a call
@dataclass(frozen=True)
class Request:
    """What is asked for, apart from the data: checked arguments of :func:`bregmat.nnqp` of these names.

    Parameters
    ----------
    E : ndarray, shape (m, n)
        Equality rows, of which the updates take one of +-1 (times a constant).
    """

    solver: Any
    tol: float
    max_iter: int | None
    max_seconds: float | None
    callback: Callable[[Record], Any] | None
    E: InitVar[np.ndarray]

    def __post_init__(self, E: np.ndarray) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"solver must be a name or MultiplicativeUpdates; got {type(self.solver).__name__}.")
        if self.name not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(SOLVERS)}; got {self.name!r}.")
        if self.updates is not None:
            E = E[np.abs(E).max(axis=1) > 0.0]
            size, sign = np.abs(E), np.sign(E)
            if len(E) and not ((size == size[:, :1]).all() and (sign == sign[0] * sign[:, :1] * sign[0, 0]).all()):
                raise TypeError(
                    'solver="multiplicative" takes one equality row whose entries are +-1 times a constant; use solver="auto" '
                    "for others."
                )
        limits = {"max_iter": self.max_iter, "max_seconds": self.max_seconds, "callback": self.callback}
        check_limits(tol=self.tol, fewest=1, **limits)

    @property
    def name(self) -> Any:
        """Of the solver."""
        return self.solver.name if isinstance(self.solver, MultiplicativeUpdates) else self.solver

    @property
    def updates(self) -> MultiplicativeUpdates | None:
        """Settings of the updates, if it is them."""
        if isinstance(self.solver, MultiplicativeUpdates):
            return self.solver
        return MultiplicativeUpdates() if self.solver == MultiplicativeUpdates.name else None


def minimize(
    problem: NonnegativeQP, start: np.ndarray | None, request: Request, log: RunLog, *, trusted: bool = False
) -> Outcome:
    """The course of every call on checked data: rows made independent, a solver, one certificate.

    Parameters
    ----------
    problem : NonnegativeQP
    start : ndarray, shape (n,), or None
    request : Request
    log : RunLog
        Its history is continued.
    trusted : bool
        Whether A is known to be positive semidefinite.

    Returns
    -------
    Outcome
        With a :class:`QPCertificate` in terms of the rows given, which is the last line of the history, too.
    """
    course = _Course(problem, start, request, log)
    curvature = 0.0 if trusted else np.inf
    with single_thread_blas(), np.errstate(all="ignore"):
        try:
            if not trusted:
                curvature = check_definite(problem.A)
            outcome = course.run()
        except KeyboardInterrupt:
            take_interrupt()
            outcome = course.interrupted()
        outcome = replace(outcome, certificate=replace(outcome.certificate, curvature_tolerance=curvature))
        log.note(outcome.n_iter, **outcome.certificate.figures)
    return outcome


class _Course:
    """One call on its way: the problem with independent rows, and what a Ctrl-C leaves."""

    def __init__(self, problem: NonnegativeQP, start: np.ndarray | None, request: Request, log: RunLog) -> None:
        self.problem, self.start, self.request, self.log = problem, start, request, log
        self.most = MAX_ITER if request.max_iter is None else request.max_iter
        self.point = np.zeros(problem.n) if start is None else start
        self.steps = self.before = 0  # of all solvers, and of those before this one
        self.name = request.name
        self.reason: ExitReason | None = None

    def run(self) -> Outcome:
        """The solver that was asked for."""
        self.problem = self.problem.with_independent_rows(self.start)
        if self.problem.rows is not None:
            self.point = self.problem.rows.point
        if (proof := self.problem.proof_beforehand()) is not None:
            self.name = "feasibility"
            return self.ended(Minimum(x=self.point), proof)
        if not (self.problem.b < 0.0).any() and not self.problem.given.e.any():  # the objective is nowhere below 0
            return self.ended(Minimum(x=np.zeros(self.problem.n)))
        if self.request.updates is not None:
            return self.updates(self.request.updates)
        if self.name == "active_set":
            return self.active_set(self.start, self.most)
        return self.pivoting()

    def pivoting(self) -> Outcome:
        """Block pivoting, and where A is singular on a free set, an active set."""
        most, self.name = self.most, "pivoting"
        end = BlockPivoting(EXACT, min(most, MOST_PIVOTS)).minimize(self.problem, self.start, self.watch)
        if not end.is_done and self.reason is None:
            if end.n_iter >= most:
                self.reason = ExitReason.MAX_ITER
                return self.ended(self.cut_off(end.n_iter))
            return self.active_set(end.guess, most - end.n_iter, after=end)
        stopped = self.reason is not None
        first = self.ended(end)
        if stopped or first.status is Status.OPTIMAL or end.n_iter >= most:
            return first
        if first.certificate.kkt_residual <= ROUNDED and first.certificate.dual_bound > -np.inf:
            return first
        # singular to rounding: the free set has a factor, but what it gave is no solution
        few = min(most - end.n_iter, RETRIES)
        again = self.active_set(end.guess, few, after=end)
        if again.exit_reason is ExitReason.MAX_ITER and few == RETRIES:
            again = replace(again, exit_reason=ExitReason.STALLED)  # our limit, not the caller's
        old, new = first.certificate, again.certificate
        better = again.status in (Status.OPTIMAL, Status.UNBOUNDED)
        return again if better or new.gap < old.gap or new.kkt_residual < old.kkt_residual else first

    def active_set(self, start: np.ndarray | None, most: int, *, after: Minimum | None = None) -> Outcome:
        """Coordinate descent to a rough point, then the active set; perhaps ``after`` pivoting."""
        problem = self.problem
        if after is not None:
            self.name, self.before = "pivoting + active_set", after.n_iter
        x = rough_point(problem, start)
        self.point = x.copy()
        end = ExactActiveSet(FINE, most).minimize(problem, x, self.watch)
        if (proof := problem.contradiction(end)) is not None:
            return self.ended(end, proof)
        if self.reason is None:
            h = problem.reduced(problem.gradient(end.x), end.multiplier)
            is_solved = problem.residual(end.x, h) <= ROUNDED
            spent = end.n_iter >= EXCHANGES * most
            self.reason = ExitReason.TOLERANCE if is_solved else ExitReason.MAX_ITER if spent else ExitReason.STALLED
        return self.ended(end)

    def updates(self, settings: MultiplicativeUpdates) -> Outcome:
        """The multiplicative updates, certified at every step."""
        request = self.request
        program = DenseUpdates(self.problem, is_rough=self.log.is_late())
        found = run_updates(program, settings, self.start, tol=request.tol, max_iter=request.max_iter, log=self.log)
        self.name += " + anderson" if settings.anderson else ""
        x = found.certificate.x
        if found.status is Status.UNBOUNDED:
            proof = Proof(found.certificate.dual, np.zeros(0), Status.UNBOUNDED)
            return self.ended(Minimum(x=x, n_iter=found.n_iter), proof)
        self.reason = found.exit_reason
        return self.ended(Minimum(x=x, n_iter=found.n_iter, rising=lambda: [x, *program.directions]))

    def watch(self, x: np.ndarray, h: np.ndarray, steps: int) -> bool:
        """Record a step with the reduced gradient h; True stops."""
        problem = self.problem
        self.steps, self.point = self.before + steps, x.copy()
        # at multipliers y: h = A x + b + E'y, so that x'(h + b) / 2 - y'E x / 2 is the objective; y'E x drops out with E x = e
        objective = problem.objective(x) if problem.m else 0.5 * float(x @ (h + problem.b))
        figures = {"dual_bound": -np.inf, "gap": np.inf, "violation": problem.residual(x, h)}
        if self.log.tell(self.steps, objective=objective, **figures):
            self.reason = ExitReason.INTERRUPTED
        elif self.log.is_late():
            self.reason = ExitReason.TIME
        return self.reason is not None

    def cut_off(self, n_iter: int) -> Minimum:
        """The last point, or one that meets the rows."""
        x = np.minimum(np.maximum(self.point, 0.0), self.problem.upper)
        return Minimum(x=nearest_feasible(self.problem, x), is_rough=True, n_iter=n_iter)

    def interrupted(self) -> Outcome:
        """What is known when a KeyboardInterrupt came."""
        self.reason, self.name = ExitReason.INTERRUPTED, self.request.name
        return self.ended(self.cut_off(self.steps - self.before))

    def ended(self, end: Minimum, proof: Proof | None = None) -> Outcome:
        """The certified end of a solver, or with a ``proof`` the end where there is nothing to find."""
        log, tol = self.log, self.request.tol
        if proof is not None:
            certificate, status, reason = self.problem.unproven(end.x, proof), proof.status, ExitReason.CERTIFICATE
        else:
            certificate = self.problem.certify(end, tol)
            status, reason = certificate.status(tol), self.reason or ExitReason.TOLERANCE
        n_iter = self.before + end.n_iter
        return Outcome(certificate, status, reason, tol, n_iter, log.seconds(), log.history, self.name)
