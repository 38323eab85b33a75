"""Nonnegative least squares from the data: the Gram matrix is formed, used and corrected here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from bregmat.base.checks import as_column, as_matrix
from bregmat.base.interrupts import take_interrupt, tells_interrupts
from bregmat.base.linalg import cholesky, cholesky_solve
from bregmat.base.threads import single_thread_blas
from bregmat.quadratic.certificate import Evidence, QPCertificate
from bregmat.quadratic.multiplicative import MultiplicativeUpdates
from bregmat.quadratic.nnqp import FAR, Units, exponent
from bregmat.quadratic.problem import FEASIBLE, NonnegativeQP, Request, minimize
from bregmat.quadratic.program import QuadraticProgram, as_equality, as_start, as_upper
from bregmat.quadratic.result import QPResult
from bregmat.run.loop import Outcome
from bregmat.run.result import ExitReason, Record, Status
from bregmat.typing import Points, QPSolverName, Values

WIDE = 3000  # columns from which a wide X is solved on growing sets of columns
FIRST = 200  # columns of the first set, and least growth of the next ones
CORRECTIONS = 3
EXACT = 1e-14  # residual of the conditions, by the data's own gradient, from which no correction is due
SHORT = 1e-12  # by how much a column outside may violate its condition, relative to the largest that matters


@tells_interrupts
def nonnegative_least_squares(
    X: Points,
    y: Values,
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
    """``minimize 1/2 |X v - y|^2`` over ``0 <= v <= upper``, ``E v = e``.

    Parameters
    ----------
    X : array-like or sparse matrix, shape (m, n)
        Of any shape and rank.
    y : array-like, shape (m,)
    x0, upper, equality, solver, tol, max_iter, max_seconds, callback
        As for :func:`bregmat.nnqp`, with n variables.

    Returns
    -------
    QPResult
        ``x`` is v; ``dual`` is ``X'(X v - y)`` (plus ``E' equality_dual``), computed from the residual; ``objective`` and
        ``dual_bound`` are in units of ``1/2 |y|^2``; ``gap`` is relative to the larger of the objective without its constant
        and ``1/2 |X v|^2``.

    Raises
    ------
    ValueError, TypeError
        As :func:`bregmat.nnqp`, for X and y in place of A and b.

    Notes
    -----
    The Gram matrix squares the condition number. What that costs is won back in two ways: the problem is solved again with the
    linear term ``-X'(y - X v) - A v``, in which v's residual is exact, until the gradient from the residual meets the
    conditions; and the free variables are corrected by that gradient (corrected seminormal equations: Bjorck 1987), except
    with equality rows. With more than 3000 columns and more columns than rows, without
    equalities, only columns in use and those that violate their conditions enter a Gram matrix. Cost: m n^2 for the Gram
    matrix, and a solution of :func:`bregmat.nnqp` whose later rounds start at the end of the first.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import nonnegative_least_squares
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> nonnegative_least_squares(X, [2.0, 1.0, -1.0]).x.round(6)
    array([1.5, 0. ])
    """
    X = as_matrix("X", X, sparse="csc", booleans=True)
    X = X if sparse.issparse(X) else np.ascontiguousarray(X)
    y = np.ascontiguousarray(as_column("y", y, X.shape[0], per="row of X"))
    bounds = as_upper(upper, X.shape[1])
    E, e = as_equality(equality, X.shape[1])
    start = as_start(x0, bounds)
    request = Request(solver, tol, max_iter, max_seconds, callback, E)
    with single_thread_blas(), np.errstate(all="ignore"):
        columns, c = _exponents(X), exponent(float(np.abs(y).max()))
        data = _Data(X, y, bounds, E, e)
        if columns.any() or c != 0:
            to = columns - c  # v = 2^-to v'
            is_sparse = sparse.issparse(X)
            powers = sparse.diags_array(np.ldexp(1.0, -columns)) if is_sparse else -columns
            X = sparse.csc_array(X @ powers) if is_sparse else np.ldexp(X, powers)
            data = _Data(X, np.ldexp(y, -c), np.ldexp(bounds, to), np.ldexp(E, -to), e)
            start = None if start is None else np.ldexp(start, to)
        run = _Corrections(data, request, Units(c - columns, c + columns, 2 * c, 2 * c))
        return run.units.result(run.outcome(start), bounds)


def _exponents(X: Any) -> np.ndarray:
    """Powers of two of columns whose squares would leave the range of the numbers; 0 elsewhere."""
    if sparse.issparse(X):
        largest = abs(X).max(axis=0).toarray().ravel()
    else:
        squares = np.einsum("ij,ij->j", X, X)
        if ((squares > 1.0 / FAR) & (squares < FAR)).all():
            largest = np.ones(len(squares))  # one pass without a copy settles almost every X
        else:
            largest = np.abs(X).max(axis=0)
    return np.array([exponent(float(size)) for size in largest])


@dataclass(frozen=True, eq=False)
class _Data:
    """X (m, n), y (m,), upper (n,), E (k, n), e (k,), whose squares are in the range of the numbers."""

    X: Any
    y: np.ndarray
    upper: np.ndarray
    E: np.ndarray
    e: np.ndarray

    def gradient(self, v: np.ndarray) -> np.ndarray:
        """``X'(X v - y)``, shape (n,)."""
        return self.X.T @ (self.X @ v - self.y)

    def objective(self, v: np.ndarray) -> float:
        """``1/2 |X v - y|^2``."""
        residual = self.X @ v - self.y
        return 0.5 * float(residual @ residual)

    def size(self, v: np.ndarray, objective: float) -> float:
        """What a gap is relative to where the bound is 0: the larger of the objective and ``1/2 |X v|^2``."""
        image = self.X @ v
        return max(objective, 0.5 * float(image @ image), 1e-300)

    def on(self, columns: np.ndarray) -> _Data:
        """Some of the columns."""
        return _Data(self.X[:, columns], self.y, self.upper[columns], self.E[:, columns], self.e)

    def shape(self, b: np.ndarray) -> QuadraticProgram:
        """The program without its matrix: for conditions and rows."""
        return QuadraticProgram(np.zeros((1, 1)), b, self.upper, self.E, self.e)

    def problem(self) -> NonnegativeQP:
        """The problem with the Gram matrix."""
        G = self.X.T @ self.X
        G = np.ascontiguousarray(G.toarray() if sparse.issparse(G) else G)
        return NonnegativeQP(G, -(self.X.T @ self.y), self.upper, self.E, self.e)

    def judged(self, proof: QPCertificate) -> QPCertificate:
        """The proof with ``1/2 |X v - y|^2`` from the residual; the bound below it by the distance that the Gram matrix gave."""
        objective, excess = self.objective(proof.x), proof.objective - proof.dual_bound
        upper = objective if proof.is_feasible else np.inf
        return replace(proof, objective=objective, dual_bound=objective - excess, upper=upper, excess=excess)


class _Corrections:
    """Solutions with the Gram matrix, each with the linear term that makes the gradient exact at the last point."""

    def __init__(self, data: _Data, request: Request, units: Units) -> None:
        self.data, self.request, self.units = data, request, units
        # the solvers' objectives lack the constant of the data
        self.log = replace(units, constant=0.5 * float(data.y @ data.y)).log(request)
        self.point: np.ndarray | None = None  # the last one with all columns, for a Ctrl-C

    def outcome(self, start: np.ndarray | None) -> Outcome:
        """The solution, or after a KeyboardInterrupt outside of the solvers the last point and what its data say."""
        data, log = self.data, self.log
        m, n = data.X.shape
        try:
            is_small = n <= max(WIDE, m) or len(data.e) > 0
            found = self.at_least_zero(self.corrected(data, start) if is_small else self.growing(start))
            del log.history[-1]  # what the solver said of its own program
        except KeyboardInterrupt:
            take_interrupt()
            found = self.interrupted(np.zeros(n) if start is None else start)
        log.units = self.units.record
        last = log.note(0, **found.certificate.figures)
        return replace(found, n_iter=log.before, seconds=last.seconds, history=log.history)

    def corrected(self, data: _Data, start: np.ndarray | None) -> Outcome:
        """Solve, and again with the linear term that makes the gradient exact at the last point."""
        problem, request, tol = data.problem(), self.request, self.request.tol
        is_wide = data.X.shape[0] < data.X.shape[1]
        if request.name == "auto" and is_wide:
            # where the Gram matrix is singular, pivoting would meet that only after some factorisations
            request = replace(request, solver="active_set", E=data.E)
        best: Outcome | None = None
        gradient, current, begin = np.zeros(0), problem, start
        for _ in range(1 + CORRECTIONS):
            outcome = minimize(current, begin, request, self.log, trusted=True)
            self.log.before += outcome.n_iter
            proof = outcome.certificate
            v = proof.x
            self.point = v if data is self.data else None
            accurate = data.gradient(v)
            if outcome.status is Status.INFEASIBLE:
                return replace(outcome, certificate=data.judged(replace(proof, dual=accurate)))
            if outcome.status is Status.UNBOUNDED:
                # rounding's, or the range of the numbers': a sum of squares has a bound
                outcome = replace(outcome, status=Status.FEASIBLE, exit_reason=ExitReason.STALLED)
                proof = replace(proof, falling=None)
            h = problem.reduced(accurate, proof.equality_dual)
            residual = problem.residual(v, h)
            before = np.inf if best is None else best.certificate.kkt_residual
            if residual < before or best is None:
                best = replace(outcome, certificate=replace(proof, dual=h, kkt_residual=residual))
                gradient = accurate
            is_exact = residual <= EXACT or residual > before
            if request.updates is not None or is_exact or outcome.exit_reason is not ExitReason.TOLERANCE:
                break
            current = replace(problem, b=accurate - problem.A @ v)
            begin = v
        assert best is not None
        proof, status = best.certificate, best.status
        if request.updates is None and not is_wide:
            v, gradient = _polished(data, problem, proof.x, gradient)
            moved = not np.array_equal(v, proof.x)
            h = problem.reduced(gradient, proof.equality_dual)
            proof = replace(proof, x=v, dual=h, kkt_residual=problem.residual(v, h))
            if moved and proof.gap > tol and status is Status.FEASIBLE:
                # what the point proves with the linear term that makes its gradient exact
                exact = replace(problem, b=gradient - problem.A @ v)
                new = Evidence(exact, v, proof.equality_dual).certificate(exact.rising_directions(v), is_tolerant=True)
                proof = replace(new, dual=h, kkt_residual=proof.kkt_residual) if new.gap < proof.gap else proof
                status = Status.OPTIMAL if proof.gap <= tol else status
        return replace(best, certificate=data.judged(proof), status=status)

    def growing(self, start: np.ndarray | None) -> Outcome:
        """Columns whose condition is violated join, worst first, until none is."""
        data, upper, tol = self.data, self.data.upper, self.request.tol
        n, b = len(upper), -(data.X.T @ data.y)
        v = np.zeros(n) if start is None else start
        scale = float(-b.min()) if b.min() < 0.0 else 1.0
        columns = np.union1d(np.flatnonzero(v), np.argsort(b, kind="stable")[:FIRST])
        while True:
            part = data.on(columns)
            found = self.corrected(part, v[columns])
            proof = found.certificate
            v = np.zeros(n)
            v[columns] = proof.x
            g = data.X.T @ (part.X @ proof.x - data.y)
            bad = np.setdiff1d(np.flatnonzero((g < -SHORT * scale) & (upper > 0.0)), columns)
            stopped = found.exit_reason in (ExitReason.TIME, ExitReason.INTERRUPTED, ExitReason.MAX_ITER)
            if len(bad) == 0 or stopped:
                break
            size = max(FIRST, len(columns) // 2)
            if len(bad) > size:
                bad = bad[np.argpartition(g[bad], size)[:size]]
            kept = columns[proof.x > 0.0] if len(columns) > n // 2 else columns
            columns = np.union1d(kept, bad)
        unlimited = np.isinf(upper) & ~np.isin(np.arange(n), columns)
        short = float(np.maximum(-g, 0.0)[unlimited].max(initial=0.0)) / scale
        outside = np.setdiff1d(np.flatnonzero(np.isfinite(upper)), columns)
        bound = proof.dual_bound + float(upper[outside] @ np.minimum(g[outside], 0.0))
        is_proven = not stopped and short <= SHORT
        whole = replace(
            proof,
            x=v,
            dual=g,
            dual_bound=bound if is_proven else -np.inf,
            excess=proof.excess if is_proven else np.inf,
            kkt_residual=float(data.shape(b).violations(v, g).max()) / scale,
            bound_perturbation=max(proof.bound_perturbation, short),
        )
        return replace(
            found,
            certificate=whole,
            status=found.status if is_proven and whole.gap <= tol else Status.FEASIBLE,
            solver=f"{found.solver} on {len(columns)} of {n} columns",
        )

    def at_least_zero(self, found: Outcome) -> Outcome:
        """A sum of squares is not below 0, which says more than the dual bound where y is met."""
        proof, tol = found.certificate, self.request.tol
        if found.status in (Status.INFEASIBLE, Status.UNKNOWN) or not proof.dual_bound < 0.0:
            return found
        size = self.data.size(proof.x, proof.objective)
        gap = min(proof.gap, proof.objective / size)
        proof = replace(
            proof, dual_bound=0.0, bound_perturbation=0.0, excess=gap * size, size=size, upper=proof.objective
        )
        if found.status is Status.OPTIMAL or not gap <= tol:
            return replace(found, certificate=proof)
        return replace(found, certificate=proof, status=Status.OPTIMAL)

    def interrupted(self, start: np.ndarray) -> Outcome:
        """The last point and what the data say of it."""
        data, log = self.data, self.log
        x = start if self.point is None else self.point
        shape = data.shape(-(data.X.T @ data.y))
        objective, gradient = data.objective(x), data.gradient(x)
        violation = shape.row_violation(x)
        proof = QPCertificate(
            x=x,
            dual=gradient,
            equality_dual=np.zeros(shape.m),
            objective=objective,
            dual_bound=0.0,
            excess=objective,
            size=data.size(x, objective),
            upper=objective if violation <= FEASIBLE else np.inf,
            violation=violation,
            kkt_residual=float(shape.violations(x, gradient).max()) / (float(np.abs(shape.b).max()) or 1.0),
        )
        status, reason, request = proof.status(0.0), ExitReason.INTERRUPTED, self.request
        return Outcome(proof, status, reason, request.tol, 0, log.seconds(), log.history, request.name)


def _polished(
    data: _Data, problem: NonnegativeQP, v: np.ndarray, gradient: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Corrected seminormal equations on the free variables; point and ``X'(X v - y)``, shapes (n,).

    The error of a correction is the condition of the Gram matrix times the correction's own size, so that two of them leave
    about what an orthogonal factorisation would.
    """
    F = np.flatnonzero((v > 0.0) & (v < problem.upper))
    if problem.m or len(F) == 0:
        return v, gradient
    L, definite = cholesky(problem.A[np.ix_(F, F)])
    if not definite:
        return v, gradient
    last = np.inf
    for _ in range(CORRECTIONS):
        step = cholesky_solve(L, -gradient[F])
        size = float(np.abs(step).max())
        new = v.copy()
        new[F] += step
        if not size < 0.5 * last or (new[F] <= 0.0).any() or (new[F] >= problem.upper[F]).any():
            break
        at = data.gradient(new)
        if problem.residual(new, at) > max(10 * problem.residual(v, gradient), EXACT):
            break
        v, gradient, last = new, at, size
    return v, gradient
