"""Nonnegative least squares from the data: the Gram matrix is formed, used and corrected here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from bregmat.checks import check_integer, check_positive
from bregmat.linalg import calm_blas, cholesky, cholesky_solve
from bregmat.quadratic.nnqp import as_solver, as_start, solve_nonnegative
from bregmat.quadratic.problem import NonnegativeQP, as_equality, as_numbers, as_upper
from bregmat.quadratic.proof import residual_of
from bregmat.quadratic.result import QPResult
from bregmat.quadratic.watch import Watch
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
    X = _data(X)
    y = as_numbers("y", y, 1)
    if len(y) != X.shape[0]:
        raise ValueError(f"y must have one entry per row of X, {X.shape[0]}; got shape {y.shape}.")
    n = X.shape[1]
    bounds = None if upper is None else as_upper(upper, n)
    rows = None if equality is None else as_equality(equality, n)
    start = None if x0 is None else as_start(x0, np.full(n, np.inf) if bounds is None else bounds)
    name, settings = as_solver(solver)
    check_positive("tol", tol)
    check_integer("max_iter", max_iter, 1)
    if max_seconds is not None:
        check_positive("max_seconds", max_seconds)
    with calm_blas(0):
        b = -(X.T @ y)

        def solve(columns: np.ndarray | None, v: np.ndarray | None) -> tuple[QPResult, np.ndarray]:
            """On some of the columns: the result and ``X'(X v - y)`` on all of them."""
            Z = X if columns is None else X[:, columns]
            G = Z.T @ Z
            G = np.ascontiguousarray(G.toarray() if sparse.issparse(G) else G)
            part = None if bounds is None or columns is None else bounds[columns]
            linear = b if columns is None else b[columns]
            problem = NonnegativeQP(G, linear, bounds if columns is None else part, rows)
            v = None if v is None or columns is None else v[columns]
            begin = v if columns is not None or start is None else start
            result, accurate = _corrected(
                Z, y, problem, begin, name, settings, tol, max_iter, max_seconds, callback, started
            )
            if columns is None:
                return result, accurate
            return result, X.T @ (Z @ result.x - y)

        if X.shape[1] <= max(WIDE, X.shape[0]) or rows is not None:
            result, _ = solve(None, None)
            half = 0.5 * float(y @ y)
            result.objective, result.dual_bound = result.objective + half, result.dual_bound + half
        else:
            result = _growing(solve, b, y, bounds, start, tol, n, started)
        return _at_least_zero(result, X, tol)


def _at_least_zero(result: QPResult, X: Any, tol: float) -> QPResult:
    """A sum of squares is not below 0, which says more than the dual bound where y is met."""
    if result.status is not Status.FEASIBLE or not result.dual_bound < 0.0:
        return result
    image = X @ result.x
    size = max(0.5 * float(image @ image), result.objective)
    result.dual_bound = result.bound_perturbation = 0.0
    result.gap = result.objective / size if size > 0 else 0.0
    if result.gap <= tol:
        result.status = Status.OPTIMAL
        if result.exit_reason is ExitReason.STALLED:
            result.exit_reason = ExitReason.TOLERANCE
    return result


def _corrected(
    X: Any,
    y: np.ndarray,
    problem: NonnegativeQP,
    start: np.ndarray | None,
    name: str,
    settings: Any,
    tol: float,
    max_iter: int | None,
    max_seconds: float | None,
    callback: Callable[[Record], Any] | None,
    started: float,
) -> tuple[QPResult, np.ndarray]:
    """Solve, and again with the linear term that makes the gradient exact at the last point."""
    history: list[Record] = []
    wide = X.shape[0] < X.shape[1]
    if name == "auto" and wide:
        name = "active_set"  # the Gram matrix is singular: pivoting would meet that only after some factorisations
    best: tuple[float, QPResult, np.ndarray] | None = None
    current, begin, steps = problem, start, 0
    for _ in range(1 + CORRECTIONS):
        watch = Watch(current, started, max_seconds, callback)
        result = solve_nonnegative(current, begin, name, settings, tol, max_iter, watch)
        history += result.history
        steps += result.n_iter
        v = result.x
        accurate = X.T @ (X @ v - y)
        if result.status in (Status.INFEASIBLE, Status.UNBOUNDED):
            result.history, result.dual = history, accurate
            return result, accurate
        E = problem.rows[0]
        h = accurate + (result.equality_dual @ E if len(E) else 0.0)
        residual = residual_of(problem, v, h)
        if best is None or residual < best[0]:
            result.dual, result.kkt_residual = h, residual
            best = (residual, result, accurate)
        if (
            settings is not None
            or residual <= EXACT
            or residual > best[0]
            or result.exit_reason is not ExitReason.TOLERANCE
        ):
            break
        current = NonnegativeQP(problem.A, accurate - problem.A @ v, problem.upper, problem.equality)
        begin = v
    assert best is not None
    result = best[1]
    if settings is None and not wide:
        result.x, accurate = _polished(X, y, problem, result.x, best[2])
        result.dual = accurate + (result.equality_dual @ problem.rows[0] if len(problem.rows[0]) else 0.0)
        result.kkt_residual = residual_of(problem, result.x, result.dual)
        best = (result.kkt_residual, result, accurate)
    residual_vector = X @ result.x - y
    exact = 0.5 * float(residual_vector @ residual_vector) - 0.5 * float(y @ y)
    # both differ from the Gram matrix's figures by its rounding alone; the gap is between figures of one kind
    result.dual_bound += min(exact - result.objective, 0.0)
    result.objective = exact
    result.history, result.n_iter, result.seconds = history, steps, time.perf_counter() - started
    return result, best[2]


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
    y: np.ndarray,
    bounds: np.ndarray | None,
    start: np.ndarray | None,
    tol: float,
    n: int,
    started: float,
) -> QPResult:
    """Columns whose condition is violated join, worst first, until none is."""
    upper = np.full(n, np.inf) if bounds is None else bounds
    v = np.zeros(n) if start is None else start
    scale = float(np.abs(b).max()) or 1.0
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
    half = 0.5 * float(y @ y)
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
        objective=result.objective + half,
        dual_bound=bound + half if proven else -np.inf,
        gap=gap,
        kkt_residual=max(residual_of_point(v, g, upper) / scale, 0.0),
        bound_perturbation=max(result.bound_perturbation, short),
        n_iter=steps,
        seconds=time.perf_counter() - started,
        history=history,
        solver=f"{result.solver} on {len(columns)} of {n} columns",
    )


def residual_of_point(x: np.ndarray, h: np.ndarray, upper: np.ndarray) -> float:
    """Largest violation of the optimality conditions by the reduced gradient h."""
    low, high = x <= 0.0, x >= upper
    return float(np.where(low & high, 0.0, np.where(low, -h, np.where(high, h, np.abs(h)))).max())


def _data(X: Any) -> Any:
    """X as float64: CSC where it is sparse, else an array."""
    if not sparse.issparse(X):
        X = as_numbers("X", X, 2)
        if 0 in X.shape:
            raise ValueError(f"X must have rows and columns; got shape {X.shape}.")
        return X
    X = sparse.csc_array(X, dtype=np.float64)
    if 0 in X.shape:
        raise ValueError(f"X must have rows and columns; got shape {X.shape}.")
    if not np.isfinite(X.data).all():
        row = int(X.tocoo().row[~np.isfinite(X.tocoo().data)][0])
        raise ValueError(f"X must be finite; row {row} holds NaN or infinity.")
    return X
