"""The door: nonnegative quadratic programs, solved and proven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat._kernels.free_factor import onto_row
from bregmat.checks import check_limits
from bregmat.kernels.definite import check_definite
from bregmat.linalg import cholesky, cholesky_solve, single_thread_blas
from bregmat.proofs import Proof
from bregmat.quadratic.active_set import EXCHANGES, ExactActiveSet
from bregmat.quadratic.equality import nearest_feasible, rough_point
from bregmat.quadratic.multiplicative import MultiplicativeUpdates, run_updates
from bregmat.quadratic.pivoting import BlockPivoting
from bregmat.quadratic.problem import NonnegativeQP, QPCertificate
from bregmat.quadratic.program import Minimum, as_start
from bregmat.quadratic.result import QPResult, Units, exponent
from bregmat.quadratic.split_program import Point, SplitProgram
from bregmat.quadratic.splits import DenseSplit
from bregmat.result import ExitReason, Record, Status
from bregmat.solve import Outcome, RunLog

SOLVERS = ("auto", "pivoting", "active_set", "multiplicative")
ROUNDED = (
    1e-9  # KKT residual up to which a point of an exact solver is a solution that rounding only hides the proof of
)
RETRIES = 40  # free sets of an active set that pivoting's answer did not satisfy
EXACT = 1e-12  # to which pivoting tests its conditions, relative to the largest b that matters
FINE = 1e-13  # for the active set, whose exchanges stop at the rounding of the gradient in any case
MAX_ITER = 200  # free sets of the exact solvers
MOST_PIVOTS = 60  # of these, before an active set goes on


def nnqp(
    A: Any,
    b: Any,
    *,
    x0: Any = None,
    upper: Any = None,
    equality: Any = None,
    solver: Any = "auto",
    tol: float = 1e-8,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> QPResult:
    """``minimize 1/2 x'Ax + b'x`` over ``0 <= x <= upper``, ``E x = e``, with A positive semidefinite (Sha 2002, eq. 1).

    Parameters
    ----------
    A : array-like, shape (n, n)
        Symmetric positive semidefinite. Used as it is where it is float64 and C-contiguous; never changed.
    b : array-like, shape (n,)
    x0 : array-like, shape (n,), optional
        Start: nonnegative, at most ``upper``. It need not meet ``E x = e``. Copied.
    upper : float or array-like, shape (n,), optional
        Upper bounds, at least 0, in units of x; inf for none.
    equality : tuple (E, e), optional
        Shapes (m, n) and (m,), a few rows; or a vector and a number for one.
    solver : {"auto", "pivoting", "active_set", "multiplicative"} or MultiplicativeUpdates
        "auto" and "pivoting": block principal pivoting, and where A is singular on a free set, coordinate descent and an active
        set. "active_set": these two from the start, for solutions with few nonzeros of many. "multiplicative": the
        updates of Sha 2002, slow but faithful; of equalities they take one row of +-1 (times a constant).
    tol : float
        Relative duality gap for OPTIMAL; dimensionless. The exact solvers go on to rounding in any case; the updates
        stop there.
    max_iter : int, optional
        Limit on free sets of the exact solvers (200), or on updates.
    max_seconds : float, optional
        Limit on wall time, looked at between factorisations.
    callback : callable, optional
        Called with a :class:`bregmat.Record` after each step; True ends the run.

    Returns
    -------
    QPResult
        Also for infeasible and unbounded problems, with their proofs: nothing is raised for a numerical outcome, and a
        KeyboardInterrupt after the checks of the arguments ends the run with the best point.

    Raises
    ------
    ValueError
        Wrong shapes, values that are not finite, A not symmetric, A that shows itself not to be positive semidefinite,
        negative upper bounds, ``x0`` outside the box, an unknown solver.
    TypeError
        Arguments of the wrong type; for "multiplicative", equality rows that it does not take.

    Notes
    -----
    That A is positive semidefinite is tested by one factorisation of all of A (in float32 from 256 rows on), by the pivots of
    every free set that is factored and the curvature of every single exchange; what rounding hides from these is taken
    to be nonnegative, and the dual bound holds under that condition. Rounding of the gradient and of ``x'Ax`` is allowed for in the bound,
    so that OPTIMAL is proven for the numbers given; where the terms of F cancel too far for that, the status is FEASIBLE and the gap says
    what is known. The conditions are met to the rounding of the gradient's terms, which is above 1e-12 of b where these cancel.
    Sizes beyond 1e60 are brought to 1 by powers of two. Cost: n^3 / 3 for the test, and a few |F|^3 / 3 with F
    the variables that are nonzero; BLAS on one thread.
    """
    problem = NonnegativeQP.build(A, b, upper=upper, equality=equality)
    start = as_start(x0, problem.upper)
    request = Request.checked(solver, tol, max_iter, max_seconds, callback, E=problem.E)
    units, inner, start = _in_the_middle(problem, start)
    outcome = minimize(inner, start, request, request.log(units))
    with np.errstate(all="ignore"):
        return units.result(outcome, problem.upper)


def _in_the_middle(problem: NonnegativeQP, start: np.ndarray | None) -> tuple[Units, NonnegativeQP, np.ndarray | None]:
    """The problem with sizes that products do not overflow: ``A = 2^a A'``, ``b = 2^c b'``, so ``x = 2^(c-a) x'``."""
    falling = float(-problem.b.min())
    a = exponent(float(problem.diagonal.max()))
    c = exponent(falling if falling > 0.0 else float(np.abs(problem.b).max()))
    if a == 0 and c == 0:
        return Units(), problem, start
    units = Units(x=c - a, dual=c, multiplier=c, objective=2 * c - a)
    with np.errstate(all="ignore"):
        inner = NonnegativeQP(
            np.ldexp(problem.A, -a),
            np.ldexp(problem.b, -c),
            np.ldexp(problem.upper, a - c),
            problem.E,
            np.ldexp(problem.e, a - c),
        )
        return units, inner, None if start is None else np.ldexp(start, a - c)


@dataclass(frozen=True)
class Request:
    """What is asked for, apart from the data; ``settings`` are those of the updates, if it is them."""

    name: str
    settings: MultiplicativeUpdates | None
    tol: float
    max_iter: int | None
    max_seconds: float | None
    callback: Callable[[Record], Any] | None

    @classmethod
    def checked(
        cls,
        solver: Any,
        tol: float,
        max_iter: int | None,
        max_seconds: float | None,
        callback: Callable[[Record], Any] | None,
        *,
        E: np.ndarray,
    ) -> Request:
        """Check the arguments of a door.

        Parameters
        ----------
        solver, tol, max_iter, max_seconds, callback
            As of :func:`nnqp`.
        E : ndarray, shape (m, n)
            Equality rows, of which the updates take one of +-1 (times a constant).
        """
        settings = solver if isinstance(solver, MultiplicativeUpdates) else None
        name = solver if settings is None else settings.name
        if not isinstance(name, str):
            raise TypeError(f"solver must be a name or MultiplicativeUpdates; got {type(solver).__name__}.")
        if name not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(SOLVERS)}; got {name!r}.")
        if name == "multiplicative":
            settings = settings or MultiplicativeUpdates()
            E = E[np.abs(E).max(axis=1) > 0.0]
            size, sign = np.abs(E), np.sign(E)
            if len(E) and not ((size == size[:, :1]).all() and (sign == sign[0] * sign[:, :1] * sign[0, 0]).all()):
                raise TypeError(
                    'solver="multiplicative" takes one equality row whose entries are +-1 times a constant; use solver="auto" '
                    "for others."
                )
        check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback, fewest=1)
        return cls(name, settings, tol, max_iter, max_seconds, callback)

    def log(self, units: Units) -> RunLog:
        """Clock, limits and history in the caller's units."""
        return RunLog(self.callback, self.max_seconds, units.record if units.is_needed else None)


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
    with single_thread_blas(0), np.errstate(all="ignore"):
        try:
            if not trusted:
                check_definite(problem.A)
            outcome = course.run()
        except KeyboardInterrupt:
            outcome = course.interrupted()
        log.note(outcome.n_iter, **outcome.certificate.figures)
    return outcome


class _Course:
    """One call on its way: the problem with independent rows, and what a Ctrl-C leaves."""

    def __init__(self, problem: NonnegativeQP, start: np.ndarray | None, request: Request, log: RunLog) -> None:
        self.problem, self.start, self.request, self.log = problem, start, request, log
        self.most = MAX_ITER if request.max_iter is None else request.max_iter
        self.point = np.zeros(problem.n) if start is None else start
        self.steps = self.before = 0
        self.reason: ExitReason | None = None

    def run(self) -> Outcome:
        """The solver that was asked for."""
        self.problem = self.problem.with_independent_rows(self.start)
        if self.problem.rows is not None:
            self.point = self.problem.rows.point
        if (proof := self.problem.proof_beforehand()) is not None:
            return self.without_solution(proof, self.point, 0, "feasibility")
        if self.request.settings is not None:
            return self.updates(self.request.settings)
        if self.request.name == "active_set":
            return self.active_set(self.start, self.most, "active_set")
        return self.pivoting()

    def pivoting(self) -> Outcome:
        """Block pivoting, and where A is singular on a free set, an active set."""
        most = self.most
        end = BlockPivoting(EXACT, min(most, MOST_PIVOTS)).minimize(self.problem, self.start, self.watch)
        both = "pivoting + active_set"
        if not end.is_done and self.reason is None:
            if end.n_iter >= most:
                self.reason = ExitReason.MAX_ITER
                return self.ended(self.cut_off(), end.n_iter, "pivoting")
            return self.active_set(end.guess, most - end.n_iter, both, before=end.n_iter)
        stopped = self.reason is not None
        first = self.ended(end, end.n_iter, "pivoting")
        if stopped or first.status is Status.OPTIMAL or end.n_iter >= most:
            return first
        if first.certificate.kkt_residual <= ROUNDED and first.certificate.dual_bound > -np.inf:
            return first
        # singular to rounding: the free set has a factor, but what it gave is no solution
        few = min(most - end.n_iter, RETRIES)
        again = self.active_set(end.guess, few, both, before=end.n_iter)
        if again.exit_reason is ExitReason.MAX_ITER and few == RETRIES:
            again = replace(again, exit_reason=ExitReason.STALLED)  # our limit, not the caller's
        old, new = first.certificate, again.certificate
        better = again.status in (Status.OPTIMAL, Status.UNBOUNDED)
        return again if better or new.gap < old.gap or new.kkt_residual < old.kkt_residual else first

    def active_set(self, start: np.ndarray | None, most: int, name: str, *, before: int = 0) -> Outcome:
        """Greedy coordinate descent to a rough point, then the active set."""
        problem, self.before = self.problem, before
        x = rough_point(problem, start)
        self.point = x.copy()
        end = ExactActiveSet(FINE, most).minimize(problem, x, self.watch)
        n_iter = before + end.n_iter
        if (proof := problem.contradiction(end)) is not None:
            return self.without_solution(proof, end.x, n_iter, name)
        if self.reason is None:
            h = problem.reduced(problem.gradient(end.x), end.multiplier)
            is_solved = problem.residual(end.x, h) <= ROUNDED
            spent = end.n_iter >= EXCHANGES * most
            self.reason = ExitReason.TOLERANCE if is_solved else ExitReason.MAX_ITER if spent else ExitReason.STALLED
        return self.ended(end, n_iter, name)

    def updates(self, settings: MultiplicativeUpdates) -> Outcome:
        """The multiplicative updates, certified at every step."""
        problem, request = self.problem, self.request
        program = _CertifiedUpdates(problem, rough=self.log.is_late())
        found = run_updates(program, settings, self.start, tol=request.tol, max_iter=request.max_iter, log=self.log)
        name = settings.name if not settings.anderson else f"{settings.name} + anderson"
        x = found.certificate.x
        if found.status is Status.UNBOUNDED:
            proof = Proof(found.certificate.dual, np.zeros(0), Status.UNBOUNDED)
            return self.without_solution(proof, x, found.n_iter, name)
        self.reason = found.exit_reason
        end = Minimum(x=x, rising=lambda: [x, *program.directions])
        return self.ended(end, found.n_iter, name)

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

    def cut_off(self) -> Minimum:
        """The last point, or one that meets the rows."""
        x = np.minimum(np.maximum(self.point, 0.0), self.problem.upper)
        return Minimum(x=nearest_feasible(self.problem.E, self.problem.e, self.problem.upper, x), is_rough=True)

    def interrupted(self) -> Outcome:
        """What is known when a KeyboardInterrupt came."""
        self.reason = ExitReason.INTERRUPTED
        return self.ended(self.cut_off(), self.steps, self.request.name)

    def ended(self, end: Minimum, n_iter: int, name: str) -> Outcome:
        """The certified end of a solver."""
        tol = self.request.tol
        certificate = self.problem.certify(end, tol)
        status, reason = certificate.status(tol), self.reason or ExitReason.TOLERANCE
        if status is Status.OPTIMAL:
            reason = ExitReason.TOLERANCE if reason is ExitReason.STALLED else reason
        elif reason is ExitReason.TOLERANCE:
            reason = ExitReason.STALLED
        return self.outcome(certificate, status, reason, n_iter, name)

    def without_solution(self, proof: Proof, x: np.ndarray, n_iter: int, name: str) -> Outcome:
        """The end where there is nothing to find."""
        certificate = self.problem.unproven(x, proof)
        return self.outcome(certificate, proof.status, ExitReason.CERTIFICATE, n_iter, name)

    def outcome(
        self, certificate: QPCertificate, status: Status, reason: ExitReason, n_iter: int, name: str
    ) -> Outcome:
        """The end in the words of every run."""
        log = self.log
        return Outcome(certificate, status, reason, self.request.tol, n_iter, log.seconds(), log.history, name)


class _CertifiedUpdates(SplitProgram):
    """A nonnegative QP as the updates see it, with a certificate of every step.

    Parameters
    ----------
    problem : NonnegativeQP
        With independent rows.
    rough : bool
        Whether the time is up, so that no direction is worth a factorisation.
    """

    is_certified = True

    def __init__(self, problem: NonnegativeQP, *, rough: bool) -> None:
        signs, total = None, 0.0
        if problem.m:
            signs = np.sign(problem.E[0])
            total = float(problem.e[0]) / float(np.abs(problem.E[0]).max())
        super().__init__(DenseSplit(problem.A), problem.b, upper=problem.upper, signs=signs)
        self.problem, self.given_total = problem, total
        root = problem.root
        self.directions: list[np.ndarray] = []
        if (root > 0).all() and not rough:
            if (problem.A >= 0).all():
                self.directions.append(1.0 / root)
            factor, definite = cholesky(problem.A)
            if definite:
                self.directions.append(cholesky_solve(factor, root))

    def first(self, start: np.ndarray | None) -> np.ndarray | None:
        """A start that meets the row."""
        if self.signs is None:
            return start
        begin = np.ones(self.problem.n) if start is None else start
        return onto_row(begin, self.signs, self.given_total, self.problem.upper)

    def prove(self, point: Point) -> QPCertificate:
        """What a point proves, with the multipliers that its free variables ask for."""
        x, product = point.v, point.p - point.q
        y = self.problem.free_multiplier(x, product + self.problem.b)
        return self.problem.proven(x, y, [(x, product), *((w, None) for w in self.directions)], product=product)
