"""Nonnegative quadratic programs, solved to a certified duality gap: independent rows, then the solvers in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.base.checks import check_limits
from bregmat.base.linalg import cholesky, cholesky_solve
from bregmat.base.threads import returns_result, single_thread_blas, take_interrupt
from bregmat.engine.loop import Run, RunLog, compose, solve
from bregmat.engine.problem import Proof
from bregmat.engine.status import ExitReason, Record, Status
from bregmat.kernels.definite import check_definite
from bregmat.quadratic.active_set import ExactActiveSet
from bregmat.quadratic.arguments import as_start, check_range
from bregmat.quadratic.certificate import Evidence, QPCertificate, QPState
from bregmat.quadratic.equality import rough_point
from bregmat.quadratic.multiplicative import (
    MultiplicativeUpdates,
    Point,
    UpdatesState,
    keeps_total,
    on_constraint,
    run_updates,
)
from bregmat.quadratic.pivoting import BlockPivoting
from bregmat.quadratic.program import QuadraticProgram
from bregmat.quadratic.result import QPResult
from bregmat.typing import Points, QPSolverName, Values

PIVOTING = BlockPivoting()
ACTIVE_SET = ExactActiveSet(tol=1e-13)  # exchanges stop at the rounding of the gradient in any case
SOLVERS = {"auto": PIVOTING, "pivoting": PIVOTING, "active_set": ACTIVE_SET, "multiplicative": MultiplicativeUpdates()}
SOLVED = 1e-9  # KKT residual up to which a point is a solution, even if rounding hides its proof


@returns_result
def nnqp(
    A: Points,
    b: Values,
    *,
    x0: Values | None = None,
    upper: Values | None = None,
    equality: tuple[Points, Values] | None = None,
    solver: QPSolverName | MultiplicativeUpdates = "auto",
    tol: float = 1e-8,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> QPResult:
    """``minimize 1/2 x'Ax + b'x`` over ``0 <= x <= upper``, ``E x = e``, with A positive semidefinite (Sha 2002, eq. 1).

    Parameters
    ----------
    A : array-like, shape (n, n)
        Symmetric positive semidefinite: no eigenvalue is below ``-1e-10 sqrt(n) max(A_ii)``. It is not copied if it is float64
        and C-contiguous, and never changed.
    b : array-like, shape (n,)
    x0 : array-like, shape (n,), optional
        Start: nonnegative, at most ``upper``. It need not satisfy ``E x = e``. Copied.
    upper : float or array-like, shape (n,), optional
        Upper bounds, at least 0, in units of x; inf for none.
    equality : tuple (E, e), optional
        Shapes (m, n) and (m,) with small m; or a vector and a number for one equation.
    solver : {"auto", "pivoting", "active_set", "multiplicative"} or MultiplicativeUpdates
        "auto" and "pivoting": block principal pivoting and, if A is singular on a free set, coordinate descent followed by an active
        set. "active_set": these two from the start, for solutions with few nonzero variables. "multiplicative": the updates of
        Sha 2002, which are slow, with at most one equality constraint (Sha 2007).
    tol : float
        Relative duality gap for OPTIMAL; dimensionless. The exact solvers continue to rounding in any case; the updates
        stop there.
    max_iter : int, optional
        Limit on steps of the exact solvers (200), or on updates. A step is a free set or up to 50 exchanges.
    max_seconds : float, optional
        Limit on wall time, checked between steps.
    callback : callable, optional
        Called with a :class:`bregmat.Record` after each step; True ends the run.

    Returns
    -------
    QPResult
        Also for infeasible and unbounded problems, with their proofs: numerical outcomes never raise. A KeyboardInterrupt after the
        first point ends the run with the last point and a RuntimeWarning.

    Raises
    ------
    ValueError
        Wrong shapes, values that are not finite, A not symmetric or not positive semidefinite, negative upper bounds, ``x0`` outside
        of the box, an unknown solver, or sizes at which products would overflow: ``max(A_ii)`` and ``max |b|`` must be 0 or between
        1e-60 and 1e60.
    TypeError
        Arguments of the wrong type, or "multiplicative" with more than one equality constraint.

    Notes
    -----
    A factorisation of all of A tests whether it is positive semidefinite. Eigenvalues that are negative by less than the limit above
    are treated as rounding; ``curvature_tolerance`` of the result bounds them and says what they change in the bound.
    The bound includes the rounding of the gradient and of ``x'Ax``, so that OPTIMAL is proven for the given numbers. If the terms of
    the objective cancel too far for that, the status is FEASIBLE, and the gap says what is known. The conditions are met to the
    rounding of the gradient's terms, which exceeds 1e-12 of b if these cancel. Cost: n^3 / 3 for the test, and a few ``|F|^3 / 3``
    with F the nonzero variables; BLAS uses one thread.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import nnqp
    >>> result = nnqp([[2.0, 1.0], [1.0, 2.0]], [-2.0, 1.0])
    >>> print(result.status, result.x.round(6))
    OPTIMAL [1. 0.]
    >>> result.dual.round(6)  # the derivative of the objective in the second variable, which is at its bound
    array([0., 2.])
    """
    log = RunLog(callback, max_seconds)
    problem = QuadraticProgram.build(A, b, upper=upper, equality=equality)
    start = as_start(x0, problem.upper)
    settings = _settings_of(solver, problem.m)
    check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback, fewest=1)
    check_range("the largest diagonal entry of A", float(problem.diagonal.max()))
    check_range("the largest |b|", float(np.abs(problem.b).max()))
    with single_thread_blas(), np.errstate(all="ignore"):
        curvature = check_definite(problem.A)
        problem = problem.with_independent_rows(start)
        run = _minimize(problem, start, settings, tol, max_iter, log)
    proof = replace(run.certificate, curvature_tolerance=curvature)
    # the loop has written this line unless the run was stopped between two steps
    last = log.history[-1] if log.history else None
    if last is None or (last.gap, last.violation) != (proof.gap, proof.kkt_residual):
        log.note(run.n_iter, **proof.figures)
    is_unbounded = run.status is Status.UNBOUNDED
    # the dual of the certificate of an unbounded problem is the direction that proves it
    ray = {"dual": problem.gradient(proof.x), "direction": proof.dual} if is_unbounded else {}
    return compose(QPResult, replace(run, certificate=proof), **ray)


def _settings_of(solver: Any, m: int) -> BlockPivoting | ExactActiveSet | MultiplicativeUpdates:
    """The settings of a solver from its name or from themselves, for a program with m equality rows."""
    if not isinstance(solver, str | MultiplicativeUpdates):
        raise TypeError(f"solver must be a name or MultiplicativeUpdates; got {type(solver).__name__}.")
    if isinstance(solver, str) and solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}; got {solver!r}.")
    settings: Any = SOLVERS[solver] if isinstance(solver, str) else solver
    if isinstance(settings, MultiplicativeUpdates) and m > 1:
        raise TypeError(f'solver="multiplicative" takes one equality constraint; got {m}; use solver="auto".')
    return settings


def _minimize(
    problem: QuadraticProgram, start: np.ndarray | None, settings: Any, tol: float, max_iter: int | None, log: RunLog
) -> Run:
    """Minimise a program with independent rows; the certificate is in terms of the given rows."""
    rows = problem.rows
    if rows is not None and rows.conflict is not None:
        certificate = problem.unproven(rows.point, lower=np.inf, equality_dual=rows.conflict)
        proof = Proof(rows.conflict, np.flatnonzero(rows.conflict))
        return Run(log, certificate, tol, ExitReason.CERTIFICATE, "feasibility", proof=proof)
    if not (problem.b < 0.0).any() and not problem.whole.e.any():  # the objective is at least 0, its value at x = 0
        zero = QPState(np.zeros(problem.n), tol=tol)
        return Run(log, problem.certify(zero), tol, ExitReason.TOLERANCE, settings.name)
    if isinstance(settings, MultiplicativeUpdates):
        return _run_updates(problem, start, settings, tol, max_iter, log)
    return _run_exact(problem, start, settings, tol, ACTIVE_SET.max_iter if max_iter is None else max_iter, log)


def _run_exact(
    problem: QuadraticProgram, start: np.ndarray | None, settings: Any, tol: float, max_iter: int, log: RunLog
) -> Run:
    """Block pivoting, then the active set if pivoting gave no certified solution; or the active set alone."""
    limits: dict[str, Any] = {"tol": tol, "log": log}
    if settings is ACTIVE_SET:
        return solve(problem, ACTIVE_SET, max_iter=max_iter, start=rough_point(problem, start), **limits)
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
        return replace(first, reason=ExitReason.INTERRUPTED)
    finally:
        log.before = before
    second = replace(second, n_iter=first.n_iter + second.n_iter, solver=f"{first.solver} + {second.solver}")
    new = second.certificate
    is_better = new.gap < certificate.gap or new.kkt_residual < certificate.kkt_residual
    is_proven = second.status in (Status.OPTIMAL, Status.UNBOUNDED)
    return second if is_better or is_proven or not first.certificate.is_feasible else first


def _run_updates(
    problem: QuadraticProgram,
    start: np.ndarray | None,
    settings: MultiplicativeUpdates,
    tol: float,
    max_iter: int | None,
    log: RunLog,
) -> Run:
    """The multiplicative updates with proofs of their points; the last point is certified with more effort."""
    proofs = ProgramProofs(problem, tol, is_rough=log.is_late())
    if problem.m and problem.rows is not None:  # a point on the row: the start, or ones, multiplied by factors
        total = float(problem.e[0])
        points = [np.minimum(1.0, 0.5 * problem.upper), problem.rows.point]
        points = [on_constraint(problem, v, total) for v in ([] if start is None else [start]) + points]
        start = next((v for v in points if keeps_total(problem, v, total)), problem.rows.point)
    run = run_updates(problem, settings, start, prove=proofs, tol=tol, max_iter=max_iter, log=log)
    if run.ray is not None:
        certificate = replace(problem.unproven(run.x, lower=-np.inf), dual=run.ray)
        proof = Proof(run.ray, status=Status.UNBOUNDED)
        return Run(log, certificate, tol, run.exit_reason, settings.name, run.n_iter, proof)
    end = QPState(run.x, run.state.multiplier, tol=tol, directions=[run.x, *proofs.directions])
    return Run(log, problem.certify(end), tol, run.exit_reason, settings.name, run.n_iter)


class ProgramProofs:
    """Proofs of points of a quadratic program with at most one equality row, for the updates.

    A point is certified with more effort if its gap is above ``tol`` and its residual is small. ``is_rough`` skips the factorisation for
    directions that improve the bound, because the time is over.
    """

    def __init__(self, problem: QuadraticProgram, tol: float, *, is_rough: bool) -> None:
        self.problem, self.tol, root = problem, tol, problem.root
        self.tried = np.inf  # residual at which a proof was last sought with more effort
        self.directions: list[np.ndarray] = []
        if (root > 0).all() and not is_rough:
            if (problem.A >= 0).all():
                self.directions.append(1.0 / root)
            factor, definite = cholesky(problem.A)
            if definite:
                self.directions.append(cholesky_solve(factor, root))

    def __call__(self, state: UpdatesState) -> QPCertificate:
        """The proof of a state. A costlier proof is tried where rounding may hide it, each time the residual has fallen to a fourth."""
        close = 1e-6  # optimality residual below which rounding may hide the proof
        proof = self.proof(state.point, state.multiplier)
        if not proof.gap <= self.tol and state.residual <= min(close, 0.25 * self.tried):
            self.tried = state.residual
            end = QPState(state.point.v, state.multiplier, tol=self.tol, directions=[state.point.v, *self.directions])
            proof = min(proof, self.problem.certify(end), key=lambda proof: proof.gap)
        return proof

    def proof(self, point: Point, multiplier: np.ndarray) -> QPCertificate:
        """The certificate of a point and a multiplier of the row."""
        x, product = point.v, point.p - point.q
        directions = [(x, product), *((w, None) for w in self.directions)]
        return Evidence(self.problem, x, multiplier, product=product).certificate(directions)
