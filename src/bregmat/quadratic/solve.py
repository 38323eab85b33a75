"""The solution of a checked program: independent rows, then the solvers in turn, each run by the iteration loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np

from bregmat.base.checks import check_limits
from bregmat.base.threads import single_thread_blas, take_interrupt
from bregmat.engine.loop import Outcome, RunLog, compose, solve
from bregmat.engine.status import ExitReason, Status
from bregmat.kernels.definite import check_definite
from bregmat.quadratic.active_set import ExactActiveSet
from bregmat.quadratic.equality import rough_point
from bregmat.quadratic.multiplicative import MultiplicativeUpdates, run_updates
from bregmat.quadratic.pivoting import BlockPivoting
from bregmat.quadratic.program import QuadraticProgram
from bregmat.quadratic.result import QPResult
from bregmat.quadratic.split_program import ProgramProofs, SplitProgram
from bregmat.quadratic.splits import DenseSplit
from bregmat.quadratic.states import Minimum
from bregmat.typing import QPSolverName

SOLVERS = get_args(QPSolverName)
MAX_ITER = 200  # steps of the exact solvers
PIVOTING = BlockPivoting()
ACTIVE_SET = ExactActiveSet(tol=1e-13)  # exchanges stop at the rounding of the gradient in any case
SOLVED = 1e-9  # KKT residual up to which a point is a solution, even if rounding hides its proof


@dataclass(frozen=True)
class Request:
    """The checked solver and limits of :func:`bregmat.nnqp`; ``updates`` are the settings of the multiplicative updates, if chosen."""

    name: str
    updates: MultiplicativeUpdates | None
    tol: float
    max_iter: int | None

    @classmethod
    def of(cls, solver: Any, E: np.ndarray, **limits: Any) -> Request:
        """Check solver and limits; the updates accept one equality row E."""
        updates = solver if isinstance(solver, MultiplicativeUpdates) else None
        name = solver if updates is None else MultiplicativeUpdates.name
        if not isinstance(name, str):
            raise TypeError(f"solver must be a name or MultiplicativeUpdates; got {type(solver).__name__}.")
        if name not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(SOLVERS)}; got {name!r}.")
        if name == MultiplicativeUpdates.name:
            updates = updates or MultiplicativeUpdates()
            if len(E) > 1:
                raise TypeError(
                    f'solver="multiplicative" takes one equality constraint; got {len(E)}; use solver="auto".'
                )
        check_limits(fewest=1, **limits)
        return cls(name, updates, limits["tol"], limits["max_iter"])


def minimize(
    problem: QuadraticProgram, start: np.ndarray | None, request: Request, log: RunLog, *, trusted: bool = False
) -> Outcome:
    """Minimise a program with checked data; the certificate is in terms of the given rows, and is the last line of the history.

    Parameters
    ----------
    problem, start, request, log, trusted
        The history of the log is continued. ``trusted``: A is known to be positive semidefinite.
    """
    with single_thread_blas(), np.errstate(all="ignore"):
        curvature = 0.0 if trusted else check_definite(problem.A)
        problem = problem.with_independent_rows(start)
        rows = problem.rows
        if rows is not None and rows.conflict is not None:
            proof = problem.unproven(rows.point, lower=np.inf, equality_dual=rows.conflict)
            infeasible = log.outcome(proof, request.tol, ExitReason.CERTIFICATE, "feasibility")
            outcome = replace(infeasible, status=Status.INFEASIBLE, conflict=np.flatnonzero(rows.conflict))
        elif (
            not (problem.b < 0.0).any() and not problem.whole.e.any()
        ):  # the objective is at least 0, its value at x = 0
            zero = Minimum(np.zeros(problem.n), tol=request.tol)
            outcome = log.outcome(problem.certify(zero), request.tol, ExitReason.TOLERANCE, request.name)
        elif request.updates is not None:
            outcome = _run_updates(problem, start, request, request.updates, log)
        else:
            outcome = _run_exact(problem, start, request, log)
        outcome = replace(outcome, certificate=replace(outcome.certificate, curvature_tolerance=curvature))
        figures = outcome.certificate.figures
        # the loop has written this line unless the run was stopped between two steps
        last = log.history[-1] if log.history else None
        if last is None or (last.gap, last.violation) != (figures["gap"], figures["violation"]):
            log.note(outcome.n_iter, **figures)
    return outcome


def _run_exact(problem: QuadraticProgram, start: np.ndarray | None, request: Request, log: RunLog) -> Outcome:
    """Block pivoting, then the active set if pivoting gave no certified solution; or the active set alone."""
    max_iter = MAX_ITER if request.max_iter is None else request.max_iter
    limits: dict[str, Any] = {"tol": request.tol, "log": log}
    if request.name == ACTIVE_SET.name:
        outcome = solve(problem, ACTIVE_SET, max_iter=max_iter, start=rough_point(problem, start), **limits)
        return replace(outcome, conflict=None)
    first = solve(problem, PIVOTING, max_iter=min(max_iter, PIVOTING.max_iter), start=start, **limits)
    certificate = first.certificate
    is_stopped = first.exit_reason in (ExitReason.INTERRUPTED, ExitReason.TIME) or log.is_late()
    is_solution = first.status is Status.OPTIMAL or (
        certificate.kkt_residual <= SOLVED and certificate.dual_bound > -np.inf
    )
    if is_stopped or first.n_iter >= max_iter or (is_solution and not first.state.is_rough):
        return first
    # A is singular on a free set, perhaps up to rounding
    before = log.before
    log.before += first.n_iter
    try:
        left = max_iter - first.n_iter
        second = solve(problem, ACTIVE_SET, max_iter=left, start=rough_point(problem, start), **limits)
    except KeyboardInterrupt:
        take_interrupt()
        return replace(first, exit_reason=ExitReason.INTERRUPTED)
    finally:
        log.before = before
    n_iter, name = first.n_iter + second.n_iter, f"{first.solver} + {second.solver}"
    second = replace(second, n_iter=n_iter, solver=name, conflict=None)
    new = second.certificate
    is_better = new.gap < certificate.gap or new.kkt_residual < certificate.kkt_residual
    is_proven = second.status in (Status.OPTIMAL, Status.UNBOUNDED)
    return second if is_better or is_proven or not first.certificate.is_feasible else first


def _run_updates(
    problem: QuadraticProgram, start: np.ndarray | None, request: Request, settings: MultiplicativeUpdates, log: RunLog
) -> Outcome:
    """The multiplicative updates with proofs of their points; the last point is certified with more effort."""
    signs = problem.E[0] if problem.m else None
    proofs = ProgramProofs(problem, request.tol, is_rough=log.is_late())
    program = SplitProgram(DenseSplit(problem.A), problem.b, upper=problem.upper, signs=signs)
    if problem.m and problem.rows is not None:  # a point on the row: the start, or ones, multiplied by factors
        total = float(problem.e[0])
        points = [np.minimum(1.0, 0.5 * problem.upper), problem.rows.point]
        points = [program.on_constraint(v, total) for v in ([] if start is None else [start]) + points]
        start = next((v for v in points if program.keeps_total(v, total)), problem.rows.point)
    run = run_updates(program, settings, start, prove=proofs, tol=request.tol, max_iter=request.max_iter, log=log)
    if run.ray is not None:
        proof = replace(problem.unproven(run.x, lower=-np.inf), dual=run.ray)
        return log.outcome(proof, request.tol, run.exit_reason, settings.name, run.n_iter, status=Status.UNBOUNDED)
    multiplier = np.full(problem.m, run.state.multiplier)
    end = Minimum(run.x, multiplier, tol=request.tol, directions=[run.x, *proofs.directions])
    return log.outcome(problem.certify(end), request.tol, run.exit_reason, settings.name, run.n_iter)


def result_of(outcome: Outcome, problem: QuadraticProgram) -> QPResult:
    """The result of an outcome; the ``dual`` of the certificate of an unbounded problem is the direction that proves it."""
    proof = outcome.certificate
    is_unbounded = outcome.status is Status.UNBOUNDED
    ray = {"dual": problem.gradient(proof.x), "direction": proof.dual} if is_unbounded else {}
    return compose(QPResult, outcome, **ray)
