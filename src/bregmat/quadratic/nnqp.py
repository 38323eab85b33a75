"""The door: nonnegative quadratic programs, solved and proven."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bregmat._kernels.descent import greedy_inplace
from bregmat._kernels.free_factor import onto_row
from bregmat.checks import as_column, check_limits
from bregmat.kernels.definite import check_definite
from bregmat.linalg import cholesky, cholesky_solve, single_thread_blas
from bregmat.quadratic.active_set import EXCHANGES, active_set
from bregmat.quadratic.equality import Rows, reduce_rows, toward_rows
from bregmat.quadratic.multiplicative import MultiplicativeUpdates, run_updates
from bregmat.quadratic.pivoting import first_sides, pivot
from bregmat.quadratic.problem import NonnegativeQP
from bregmat.quadratic.proof import judge, residual_of, shifts
from bregmat.quadratic.result import QPResult
from bregmat.quadratic.scale import Units, gradient_unit
from bregmat.quadratic.splits import DenseSplit
from bregmat.quadratic.watch import Watch, free_multiplier
from bregmat.result import ExitReason, Record, Status

SOLVERS = ("auto", "pivoting", "active_set", "multiplicative")
EPS = float(np.finfo(float).eps)
ROUNDED = 1e-9  # KKT residual up to which a point of pivoting is a solution that rounding only hides the proof of
RETRIES = 40  # free sets of an active set that pivoting's answer did not satisfy
ROUGH = 1e-2  # KKT residual at which coordinate descent hands over
EXACT = 1e-12  # to which the exact solvers test their conditions, relative to the largest b that matters
FINE = 1e-13  # for the active set, whose exchanges stop at the rounding of the gradient in any case
MAX_ITER = 200  # free sets of the exact solvers


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
    started = time.perf_counter()
    problem = NonnegativeQP.build(A, b, upper=upper, equality=equality)
    start = None if x0 is None else as_start(x0, problem.bounds)
    name, settings = as_settings(problem, solver, tol, max_iter, max_seconds, callback)
    units = Units(problem)
    if not units.needed:
        watch = Watch(problem, started, max_seconds, callback)
        return solve_nonnegative(problem, start, name, settings, tol, max_iter, watch, trusted=False)
    with np.errstate(all="ignore"):
        inner = units.inner(problem)
        watch = Watch(inner, started, max_seconds, units.callback(callback))
        result = solve_nonnegative(inner, units.start(start), name, settings, tol, max_iter, watch, trusted=False)
        return units.outer(result, problem.bounds)


def as_settings(
    problem: NonnegativeQP, solver: Any, tol: float, max_iter: int | None, max_seconds: float | None, callback: Any
) -> tuple[str, MultiplicativeUpdates | None]:
    """Check what is not data; name of the solver and, for the updates, settings."""
    name, settings = as_solver(solver)
    check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback, fewest=1)
    E = problem.rows[0]
    E = E[np.abs(E).max(axis=1) > 0.0]
    if settings is not None and len(E):
        size = np.abs(E)
        same = np.sign(E) == np.sign(E[0]) * np.sign(E[:, :1]) * np.sign(E[0, 0])
        if not (size == size[:, :1]).all() or not same.all():
            raise TypeError(
                'solver="multiplicative" takes one equality row whose entries are +-1 times a constant; use solver="auto" for others.'
            )
    return name, settings


def solve_nonnegative(
    problem: NonnegativeQP,
    start: np.ndarray | None,
    name: str,
    settings: MultiplicativeUpdates | None,
    tol: float,
    max_iter: int | None,
    watch: Watch,
    *,
    trusted: bool = True,
) -> QPResult:
    """The solvers on validated data; ``trusted``: A is known to be positive semidefinite."""
    rows: Rows | None = None
    with single_thread_blas(0), np.errstate(all="ignore"):
        try:
            if not trusted:
                check_definite(problem.A)
            rows = reduce_rows(problem, start)
            if rows.conflict is not None:
                return watch.infeasible(rows.conflict, rows.point)
            watch.point = rows.point
            inner = NonnegativeQP(problem.A, problem.b, problem.upper, rows.equality)
            watch.inner = inner
            if settings is not None:
                return _updates(inner, rows, start, settings, tol, max_iter, watch)
            most = MAX_ITER if max_iter is None else max_iter
            if name == "active_set":
                return _active_set(inner, rows, start, tol, most, watch, 0, name)
            return _pivoting(inner, rows, start, tol, most, watch)
        except KeyboardInterrupt:
            return watch.interrupted(rows, start, tol, name)


def _pivoting(
    problem: NonnegativeQP, rows: Rows, start: np.ndarray | None, tol: float, most: int, watch: Watch
) -> QPResult:
    x, side = first_sides(toward_rows(problem), start)
    watch.point = x
    if len(problem.rows[0]) and not (side == 0).any():
        side[:] = np.where(problem.bounds > 0, 0, -1)
    run = pivot(problem, side, tol=EXACT, max_iter=min(most, 60), watch=watch)
    if run.done or watch.reason is not None:
        stopped = watch.reason is not None
        result = watch.end(rows, run.x, run.multiplier, shifts(problem, run, run.x), tol, run.n_iter, "pivoting")
        if stopped or result.status is Status.OPTIMAL or run.n_iter >= most:
            return result
        if result.kkt_residual <= ROUNDED and result.dual_bound > -np.inf:
            return result
        # singular to rounding: the free set has a factor, but what it gave is no solution
        few = min(most - run.n_iter, RETRIES)
        again = _active_set(problem, rows, x, tol, few, watch, run.n_iter, "pivoting + active_set")
        if again.exit_reason is ExitReason.MAX_ITER and few == RETRIES:
            again.exit_reason = ExitReason.STALLED  # our limit, not the caller's
        proven = again.status in (Status.OPTIMAL, Status.UNBOUNDED)
        return again if proven or again.gap < result.gap or again.kkt_residual < result.kkt_residual else result
    if run.n_iter >= most:
        watch.reason = ExitReason.MAX_ITER
        return watch.end(rows, watch.best(rows), None, (), tol, run.n_iter, "pivoting")
    return _active_set(problem, rows, x, tol, most - run.n_iter, watch, run.n_iter, "pivoting + active_set")


def _active_set(
    problem: NonnegativeQP,
    rows: Rows,
    start: np.ndarray | None,
    tol: float,
    most: int,
    watch: Watch,
    before: int,
    name: str,
) -> QPResult:
    """Greedy coordinate descent to a rough point, then the active set."""
    relaxed = toward_rows(problem)
    A, b, upper = relaxed.A, relaxed.b, relaxed.bounds
    x = np.zeros(len(b)) if start is None else start.copy()
    g = A @ x + b
    scale = gradient_unit(b, g, diagonal=A.diagonal(), upper=upper)
    greedy_inplace(x, g, A, upper, ROUGH * scale, 20 * len(b))
    # a singular A can send x far along flat directions; from there rounding rules, so start over nearer
    if not np.isfinite(x).all():
        x[:] = 0.0
    x = rows.onto(x, problem)
    watch.point, watch.before = x.copy(), before
    run = active_set(
        problem.A, problem.b, x, upper=problem.bounds, equality=problem.equality, tol=FINE, max_iter=most, watch=watch
    )
    # where rounding in the direction blocked it, the point has gone far along it
    for direction in (run.direction, run.x):
        if direction is not None and (ray := _ray(problem, direction)) is not None:
            return watch.unbounded(run.x, ray, rows, before + run.n_iter, name)
    if watch.reason is None:
        h = problem.gradient(run.x)
        residual = residual_of(problem, run.x, h + run.dual_equality @ problem.rows[0] if len(problem.rows[0]) else h)
        watch.reason = ExitReason.TOLERANCE if residual <= 1e-9 else ExitReason.STALLED
        if run.n_iter >= EXCHANGES * most and residual > 1e-9:
            watch.reason = ExitReason.MAX_ITER
    return watch.end(rows, run.x, run.dual_equality, shifts(problem, None, run.x), tol, before + run.n_iter, name)


def _updates(
    problem: NonnegativeQP,
    rows: Rows,
    start: np.ndarray | None,
    settings: MultiplicativeUpdates,
    tol: float,
    max_iter: int | None,
    watch: Watch,
) -> QPResult:
    """The multiplicative updates, certified at every step."""
    signs, x0 = None, start
    E, e = problem.rows
    if len(E):
        unit = float(np.abs(E[0]).max())
        signs = np.sign(E[0])
        x0 = onto_row(np.ones(problem.n) if start is None else start, signs, float(e[0]) / unit, problem.bounds)
    rate = np.sqrt(np.maximum(problem.A.diagonal(), 0.0))
    always: list[tuple[np.ndarray, np.ndarray | None]] = []
    late = watch.max_seconds is not None and watch.seconds() > watch.max_seconds
    if (rate > 0).all() and not late:
        if (problem.A >= 0).all():
            always.append((1.0 / rate, None))
        factor, definite = cholesky(problem.A)
        if definite:
            always.append((cholesky_solve(factor, rate), None))

    def certify(x: np.ndarray, p: np.ndarray, q: np.ndarray) -> float:
        product = p - q
        multiplier = free_multiplier(problem, x, product + problem.b)
        return judge(problem, x, multiplier, [(x, product), *always], product=product).gap

    end = run_updates(
        DenseSplit(problem.A),
        problem.b,
        x0,
        upper=problem.upper,
        signs=signs,
        settings=settings,
        tol=tol,
        max_iter=max_iter,
        max_seconds=watch.remaining(),
        callback=watch.callback,
        certify=certify,
    )
    watch.reason, watch.history = end.exit_reason, end.history
    if end.unbounded_row is not None:
        ray = np.zeros(problem.n)
        ray[end.unbounded_row] = 1.0
        if signs is not None:
            # the other of the pair: no curvature, no bound, the other sign
            able = (rate == 0.0) & np.isinf(problem.bounds) & (signs != signs[end.unbounded_row])
            ray[int(np.argmin(np.where(able, problem.b, np.inf)))] = 1.0
        return watch.unbounded(end.x, ray, rows, end.n_iter, settings.name)
    multiplier = free_multiplier(problem, end.x, problem.gradient(end.x))
    name = settings.name if not settings.anderson else f"{settings.name} + anderson"
    candidates = [(end.x, None), *always, *shifts(problem, None, end.x)]
    return watch.end(rows, end.x, multiplier, candidates, tol, end.n_iter, name)


def _ray(problem: NonnegativeQP, direction: np.ndarray) -> np.ndarray | None:
    """The direction of an unbounded problem with its rounding removed, if it is a proof."""
    if not float(np.abs(direction).max()) > 0.0:
        return None
    d = np.where(np.abs(direction) <= 1e-13 * float(np.abs(direction).max()), 0.0, direction)
    d = d / float(np.abs(d).max())
    if not np.isfinite(d).all() or (d < 0).any() or (d[np.isfinite(problem.bounds)] > 0).any():
        return None
    support = np.flatnonzero(d)
    root = np.sqrt(np.maximum(problem.A.diagonal(), 0.0))
    length, unit = float(root @ d), 32 * EPS * (len(support) + 4)
    if (np.abs(problem.A @ d) > 4 * unit * root * length).any():
        return None
    exact = problem.A[:, support].astype(np.longdouble) @ d[support].astype(np.longdouble)
    bend = float(exact[support] @ d[support])
    E = problem.rows[0]
    flat = np.abs(exact) <= unit * root * length
    level = np.abs(E @ d) <= unit * (np.abs(E) @ d)
    if not flat.all() or not level.all() or bend > 0.25 * EPS * length * length:
        return None
    return d if float(problem.b @ d) < -1e-10 * float(np.abs(problem.b) @ d) else None


def as_solver(solver: Any) -> tuple[str, MultiplicativeUpdates | None]:
    """Name and, for the updates, settings."""
    if isinstance(solver, MultiplicativeUpdates):
        return solver.name, solver
    if not isinstance(solver, str):
        raise TypeError(f"solver must be a name or MultiplicativeUpdates; got {type(solver).__name__}.")
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}; got {solver!r}.")
    return str(solver), MultiplicativeUpdates() if solver == "multiplicative" else None


def as_start(x0: Any, upper: np.ndarray) -> np.ndarray:
    """A start inside the box, copied."""
    x = as_column("x0", x0, len(upper), per="variable", copy=True)
    bad = np.flatnonzero((x < 0) | (x > upper))
    if len(bad):
        k = int(bad[0])
        raise ValueError(f"x0 must lie in [0, upper]; x0[{k}] = {x[k]:.6g} with upper bound {upper[k]:.6g}.")
    return x
