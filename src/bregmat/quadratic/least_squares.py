"""Nonnegative least squares from the data: the Gram matrix is formed, used and corrected here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from bregmat.checks import as_column, as_matrix
from bregmat.linalg import cholesky, cholesky_solve, single_thread_blas
from bregmat.quadratic.equality import unreduced
from bregmat.quadratic.nnqp import as_settings, as_start, solve_nonnegative
from bregmat.quadratic.problem import NonnegativeQP, as_equality, as_upper, conditions
from bregmat.quadratic.proof import judge, relative_gap, residual_of, shifts
from bregmat.quadratic.result import QPResult
from bregmat.quadratic.scale import data_exponents, finite_or_said, scaled_record
from bregmat.quadratic.watch import FEASIBLE, Watch
from bregmat.result import ExitReason, Record, Status

WIDE = 3000  # columns from which a wide X is solved on growing sets of columns
CORRECTIONS = 3
EXACT = 1e-14  # residual of the conditions, by the data's own gradient, from which no correction is due


def nonnegative_least_squares(
    X: Any,
    y: Any,
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
    """
    started = time.perf_counter()
    X = as_matrix("X", X, sparse="csc", booleans=True)
    X = X if sparse.issparse(X) else np.ascontiguousarray(X)
    y = np.ascontiguousarray(as_column("y", y, X.shape[0], per="row of X"))
    n = X.shape[1]
    bounds = None if upper is None else as_upper(upper, n)
    rows = None if equality is None else as_equality(equality, n)
    start = None if x0 is None else as_start(x0, np.full(n, np.inf) if bounds is None else bounds)
    shape = NonnegativeQP(np.zeros((1, 1)), np.zeros(n), bounds, rows)
    name, settings = as_settings(shape, solver, tol, max_iter, max_seconds, callback)
    call = _Call(name, settings, tol, max_iter, max_seconds, callback, started)
    with single_thread_blas(0), np.errstate(all="ignore"):
        columns, c = data_exponents(X, y)
        if not columns.any() and c == 0:
            return _interruptible(X, y, bounds, rows, start, call)
        # v = 2^(c - columns) v'
        to = c - columns
        if callback is not None:
            call.callback = lambda record: callback(scaled_record(record, 2 * c))
        scale = sparse.diags_array(np.ldexp(1.0, -columns)) if sparse.issparse(X) else np.ldexp(1.0, -columns)
        result = _interruptible(
            sparse.csc_array(X @ scale) if sparse.issparse(X) else np.ldexp(X, -columns),
            np.ldexp(y, -c),
            None if bounds is None else np.ldexp(bounds, -to),
            None if rows is None else (np.ldexp(rows[0], to), rows[1]),
            None if start is None else np.ldexp(start, -to),
            call,
        )
        x = np.ldexp(result.x, to)
        return finite_or_said(
            replace(
                result,
                x=x if bounds is None else np.minimum(x, bounds),
                dual=np.ldexp(result.dual, c + columns),
                equality_dual=np.ldexp(result.equality_dual, 2 * c),
                objective=float(np.ldexp(result.objective, 2 * c)),
                dual_bound=float(np.ldexp(result.dual_bound, 2 * c)),
                history=[scaled_record(record, 2 * c) for record in result.history],
            )
        )


@dataclass(eq=False)
class _Call:
    """What the caller asked for, apart from the data."""

    name: str
    settings: Any
    tol: float
    max_iter: int | None
    max_seconds: float | None
    callback: Callable[[Record], Any] | None
    started: float
    point: np.ndarray | None = None


def _interruptible(
    X: Any,
    y: np.ndarray,
    bounds: np.ndarray | None,
    rows: tuple[np.ndarray, np.ndarray] | None,
    start: np.ndarray | None,
    call: _Call,
) -> QPResult:
    """The solution, or after a KeyboardInterrupt outside of the solvers the last point and what its data say."""
    try:
        return _solve(X, y, bounds, rows, start, call)
    except KeyboardInterrupt:
        n = X.shape[1]
        x = np.zeros(n) if start is None else start
        x = x if call.point is None or len(call.point) != n else call.point
        residual = X @ x - y
        objective, gradient = 0.5 * float(residual @ residual), X.T @ residual
        data = NonnegativeQP(np.zeros((1, 1)), -(X.T @ y), bounds, rows)
        violation = unreduced(data, x).violation(data, x)
        result = QPResult(
            status=Status.FEASIBLE if violation <= FEASIBLE else Status.UNKNOWN,
            exit_reason=ExitReason.INTERRUPTED,
            x=x,
            dual=gradient,
            equality_dual=np.zeros(len(data.rows[0])),
            objective=objective,
            dual_bound=0.0,
            gap=relative_gap(objective, 0.0, max(objective, 0.5 * float((X @ x) @ (X @ x)))),
            kkt_residual=float(conditions(x, gradient, data.bounds).max()) / (float(np.abs(data.b).max()) or 1.0),
            max_violation=violation,
            tol=call.tol,
            seconds=time.perf_counter() - call.started,
            solver=call.name,
        )
        last = Record(0, result.seconds, objective, 0.0, result.gap, result.kkt_residual)
        return replace(result, history=[last])


def _solve(
    X: Any,
    y: np.ndarray,
    bounds: np.ndarray | None,
    rows: tuple[np.ndarray, np.ndarray] | None,
    start: np.ndarray | None,
    call: _Call,
) -> QPResult:
    """Squares of the data are in the range of the numbers."""
    b = -(X.T @ y)

    def on(columns: np.ndarray | None, v: np.ndarray | None) -> tuple[QPResult, np.ndarray]:
        """On some of the columns: the result and ``X'(X v - y)`` on all of them."""
        Z = X if columns is None else X[:, columns]
        G = Z.T @ Z
        G = np.ascontiguousarray(G.toarray() if sparse.issparse(G) else G)
        part = bounds if bounds is None or columns is None else bounds[columns]
        problem = NonnegativeQP(G, b if columns is None else b[columns], part, rows)
        result, accurate = _corrected(Z, y, problem, v if v is None or columns is None else v[columns], call)
        return result, accurate if columns is None else X.T @ (Z @ result.x - y)

    if X.shape[1] <= max(WIDE, X.shape[0]) or rows is not None:
        result = on(None, start)[0]
    else:
        result = _growing(on, b, bounds, start, call.tol, call.started)
    return _at_least_zero(result, X, call.tol)


def _at_least_zero(result: QPResult, X: Any, tol: float) -> QPResult:
    """A sum of squares is not below 0, which says more than the dual bound where y is met."""
    if result.status in (Status.INFEASIBLE, Status.UNKNOWN) or not result.dual_bound < 0.0:
        return _recorded(result)
    image = X @ result.x
    result.dual_bound = result.bound_perturbation = 0.0
    gap = relative_gap(result.objective, 0.0, max(0.5 * float(image @ image), result.objective))
    result.gap = min(result.gap, gap)
    if result.status is not Status.OPTIMAL and result.gap <= tol:
        result.status = Status.OPTIMAL
        if result.exit_reason is ExitReason.STALLED:
            result.exit_reason = ExitReason.TOLERANCE
    return _recorded(result)


def _recorded(result: QPResult) -> QPResult:
    """The last record says what the result says."""
    last = Record(result.n_iter, result.seconds, result.objective, result.dual_bound, result.gap, result.kkt_residual)
    result.history = [*result.history[:-1], last]
    return result


def _corrected(
    X: Any, y: np.ndarray, problem: NonnegativeQP, start: np.ndarray | None, call: _Call
) -> tuple[QPResult, np.ndarray]:
    """Solve, and again with the linear term that makes the gradient exact at the last point."""
    history: list[Record] = []
    half = 0.5 * float(y @ y)
    wide = X.shape[0] < X.shape[1]
    # where the Gram matrix is singular, pivoting would meet that only after some factorisations
    name = "active_set" if call.name == "auto" and wide else call.name
    told = call.callback
    callback = None if told is None else lambda record: told(scaled_record(record, 0, half))
    best: QPResult | None = None
    gradient = np.zeros(0)
    current, begin, steps = problem, start, 0
    for _ in range(1 + CORRECTIONS):
        watch = Watch(current, call.started, call.max_seconds, callback)
        result = solve_nonnegative(current, begin, name, call.settings, call.tol, call.max_iter, watch)
        history += [scaled_record(record, 0, half) for record in result.history]
        steps += result.n_iter
        call.point = v = result.x
        accurate = X.T @ (X @ v - y)
        if result.status is Status.INFEASIBLE:
            result.history, result.dual = history, accurate
            return _objective_from_data(result, X, y), accurate
        if result.status is Status.UNBOUNDED:  # rounding's, or the range of the numbers': a sum of squares has a bound
            result.status, result.exit_reason, result.direction = Status.FEASIBLE, ExitReason.STALLED, None
        h = _with_rows(accurate, problem, result)
        residual = residual_of(problem, v, h)
        before = np.inf if best is None else best.kkt_residual
        if residual < before or best is None:
            result.dual, result.kkt_residual = h, residual
            best, gradient = result, accurate
        exact = residual <= EXACT or residual > before
        if call.settings is not None or exact or result.exit_reason is not ExitReason.TOLERANCE:
            break
        current = NonnegativeQP(problem.A, accurate - problem.A @ v, problem.upper, problem.equality)
        begin = v
    assert best is not None
    result = best
    if call.settings is None and not wide:
        v, gradient = _polished(X, y, problem, result.x, gradient)
        moved, result.x = not np.array_equal(v, result.x), v
        result.dual = _with_rows(gradient, problem, result)
        result.kkt_residual = residual_of(problem, v, result.dual)
        if moved and result.gap > call.tol and result.status is Status.FEASIBLE:
            _judged_again(result, problem, gradient, call.tol)
    result.history, result.n_iter, result.seconds = history, steps, time.perf_counter() - call.started
    return _objective_from_data(result, X, y), gradient


def _with_rows(gradient: np.ndarray, problem: NonnegativeQP, result: QPResult) -> np.ndarray:
    """The reduced gradient."""
    E = problem.rows[0]
    return gradient + result.equality_dual @ E if len(E) else gradient


def _judged_again(result: QPResult, problem: NonnegativeQP, gradient: np.ndarray, tol: float) -> None:
    """The proof of a point that was corrected after its verdict, with the linear term that makes its gradient exact."""
    exact = NonnegativeQP(problem.A, gradient - problem.A @ result.x, problem.upper, problem.equality)
    verdict = judge(exact, result.x, result.equality_dual, shifts(exact, None, result.x), tolerant=True)
    if verdict.gap < result.gap:
        result.gap, result.bound_perturbation = verdict.gap, verdict.perturbation
        result.objective, result.dual_bound = verdict.objective, verdict.bound
    if result.gap <= tol:
        result.status = Status.OPTIMAL


def _objective_from_data(result: QPResult, X: Any, y: np.ndarray) -> QPResult:
    """``1/2 |X v - y|^2`` from the residual; the bound below it by the distance that was found with the Gram matrix."""
    residual = X @ result.x - y
    gap = result.objective - result.dual_bound
    result.objective = 0.5 * float(residual @ residual)
    result.dual_bound = result.objective - gap
    return result


def _polished(
    X: Any, y: np.ndarray, problem: NonnegativeQP, v: np.ndarray, gradient: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Corrected seminormal equations on the free variables; point and ``X'(X v - y)``.

    The error of a correction is the condition of the Gram matrix times the correction's own size, so that two of them leave
    about what an orthogonal factorisation would.
    """
    F = np.flatnonzero((v > 0.0) & (v < problem.bounds))
    if len(problem.rows[0]) or len(F) == 0:
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
        if not size < 0.5 * last or (new[F] <= 0.0).any() or (new[F] >= problem.bounds[F]).any():
            break
        at = X.T @ (X @ new - y)
        if residual_of(problem, new, at) > max(10 * residual_of(problem, v, gradient), EXACT):
            break
        v, gradient, last = new, at, size
    return v, gradient


def _growing(
    solve: Callable[[np.ndarray, np.ndarray], tuple[QPResult, np.ndarray]],
    b: np.ndarray,
    bounds: np.ndarray | None,
    start: np.ndarray | None,
    tol: float,
    started: float,
) -> QPResult:
    """Columns whose condition is violated join, worst first, until none is."""
    n = len(b)
    upper = np.full(n, np.inf) if bounds is None else bounds
    v = np.zeros(n) if start is None else start
    scale = float(-b.min()) if b.min() < 0.0 else 1.0
    size = 200
    columns = np.union1d(np.flatnonzero(v), np.argsort(b, kind="stable")[:size])
    history: list[Record] = []
    steps = 0
    while True:
        result, g = solve(columns, v)
        history += result.history
        steps += result.n_iter
        v = np.zeros(n)
        v[columns] = result.x
        bad = np.flatnonzero((g < -1e-12 * scale) & (upper > 0.0))
        bad = np.setdiff1d(bad, columns)
        stopped = result.exit_reason in (ExitReason.TIME, ExitReason.INTERRUPTED, ExitReason.MAX_ITER)
        if len(bad) == 0 or stopped:
            break
        size = max(200, len(columns) // 2)
        if len(bad) > size:
            bad = bad[np.argpartition(g[bad], size)[:size]]
        columns = np.union1d(columns[result.x > 0.0], bad) if len(columns) > n // 2 else np.union1d(columns, bad)
    short = float(np.maximum(-g, 0.0)[np.isinf(upper) & ~np.isin(np.arange(n), columns)].max(initial=0.0)) / scale
    outside = np.setdiff1d(np.flatnonzero(np.isfinite(upper)), columns)
    bound = result.dual_bound + float(upper[outside] @ np.minimum(g[outside], 0.0))
    proven = not stopped and short <= 1e-12
    gap = result.gap if proven else np.inf
    return replace(
        result,
        status=result.status if proven and result.gap <= tol else Status.FEASIBLE,
        x=v,
        dual=g,
        dual_bound=bound if proven else -np.inf,
        gap=gap,
        kkt_residual=float(conditions(v, g, upper).max()) / scale,
        bound_perturbation=max(result.bound_perturbation, short),
        n_iter=steps,
        seconds=time.perf_counter() - started,
        history=history,
        solver=f"{result.solver} on {len(columns)} of {n} columns",
    )
