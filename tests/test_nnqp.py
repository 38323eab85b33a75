"""Nonnegative quadratic programs: against every support, against SciPy, with bounds, rows, singular matrices, and their proofs."""

import sys

import numpy as np
import pytest
from scipy.optimize import lsq_linear, nnls

from bregmat import ExitReason, Status
from bregmat.io import load, save
from bregmat.quadratic import (
    ExactActiveSet,
    MultiplicativeUpdates,
    QPResult,
    QuadraticProgram,
    nnqp,
)
from cases import random_program
from formulas import least_over_supports

EXACT = 1e-12  # KKT residual promised where A is positive definite


def check_optimal(result, problem, best, tol=1e-8):
    """The figures of a result are those of its x, and the bound is one."""
    x = result.x
    assert result.status is Status.OPTIMAL
    assert (x >= 0).all()
    assert (x <= problem.upper).all()
    E, e = problem.E, problem.e
    # rounding of sums of up to a few terms of order 1
    np.testing.assert_allclose(E @ x, e, atol=1e-9)
    assert result.objective == pytest.approx(problem.objective(x), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(result.dual, problem.gradient(x) + result.equality_dual @ E, atol=1e-9)
    assert result.dual_bound <= best + tol * (1 + abs(best))
    assert abs(result.objective - best) <= tol * (1 + abs(best))


def check_unbounded(result, A, b, E):
    d = result.direction
    assert (d >= 0).all()
    assert np.abs(A @ d).max() <= 1e-8  # entries of A and d are of order 1
    assert np.abs(E @ d).max(initial=0.0) <= 1e-8
    assert b @ d < 0


def check_infeasible(result, upper, E, e):
    y = result.equality_dual
    gain = y @ E
    gain[gain <= 1e-11 * np.abs(y).max()] = 0.0
    assert np.isfinite(upper[gain > 0]).all()
    assert (gain[gain > 0] * upper[gain > 0]).sum() < y @ e
    assert set(result.conflict) == set(np.flatnonzero(y))


@pytest.mark.parametrize("solver", ["auto", "active_set"])
def test_against_every_support(rng, solver):
    seen = set()
    for _ in range(120):
        A, b, upper, E, e, inside = random_program(rng)
        start = inside if rng.random() < 0.3 else None
        rows = (E, e) if len(E) else None
        result = nnqp(A, b, upper=upper, equality=rows, solver=solver, x0=start)
        best = least_over_supports(A, b, upper, E, e)
        seen.add(result.status)
        if result.status is Status.UNBOUNDED:
            check_unbounded(result, A, b, E)
        elif result.status is Status.INFEASIBLE:
            assert best == np.inf
            check_infeasible(result, upper, E, e)
        else:
            check_optimal(result, QuadraticProgram.build(A, b, upper=upper, equality=rows), best)
    assert seen == {Status.OPTIMAL, Status.UNBOUNDED, Status.INFEASIBLE}


def regression(rng, n, m=None, decades=0.0):
    """X and t with half of the planted coefficients zero; singular values over some decades."""
    m = 2 * n if m is None else m
    X = rng.standard_normal((m, n))
    if decades:
        U, _, V = np.linalg.svd(X, full_matrices=False)
        X = (U * np.logspace(0, -decades, min(m, n))) @ V
    planted = np.maximum(rng.standard_normal(n), 0)
    return X, X @ planted + 0.1 * rng.standard_normal(m) / np.sqrt(n if decades else 1)


@pytest.mark.parametrize(("n", "decades"), [(20, 0), (150, 0), (400, 0), (60, 2), (400, 2), (400, 3)])
def test_positive_definite_to_rounding(rng, n, decades):
    """n = 400 has more than 256 free variables: float32 factors, refined."""
    X, t = regression(rng, n, decades=decades)
    result = nnqp(X.T @ X, -X.T @ t)
    assert result.status is Status.OPTIMAL
    assert result.kkt_residual <= EXACT
    assert result.gap <= 1e-8
    assert result.bound_perturbation == 0
    reference, norm = nnls(X, t, maxiter=100 * n)
    # both solve a system whose condition is 10^(2 decades)
    np.testing.assert_allclose(result.x, reference, atol=1e-13 * 10 ** (2 * decades) * n)
    assert result.objective + 0.5 * t @ t == pytest.approx(0.5 * norm**2, rel=1e-9, abs=1e-12 * (t @ t))


def test_box_against_lsq_linear(rng):
    X, t = regression(rng, 80)
    upper = rng.random(80)
    result = nnqp(X.T @ X, -X.T @ t, upper=upper)
    reference = lsq_linear(X, t, bounds=(0, upper), method="bvls", tol=1e-14).x
    assert result.status is Status.OPTIMAL
    assert result.kkt_residual <= EXACT
    np.testing.assert_allclose(result.x, reference, atol=1e-10)
    assert (result.x == upper).any()
    assert (result.dual[result.x == upper] <= 0).all()


@pytest.mark.parametrize("solver", ["auto", "active_set"])
def test_margin_machine(rng, solver):
    """The dual of a soft-margin machine with intercept: a box, one row, zero sum."""
    Z = rng.standard_normal((150, 2))
    y = np.where(Z[:, 0] + 0.5 * rng.standard_normal(150) > 0, 1.0, -1.0)
    K = np.exp(-((Z[:, None] - Z) ** 2).sum(axis=2))
    A = K * y * y[:, None]
    result = nnqp(A, -np.ones(150), upper=10.0, equality=(y, 0.0), solver=solver)
    assert result.status is Status.OPTIMAL
    assert result.gap <= 1e-10
    assert abs(y @ result.x) <= 1e-12 * result.x.sum()
    free = (result.x > 0) & (result.x < 10)
    # the multiplier of the row is minus the intercept: margins of free support vectors are 1
    np.testing.assert_allclose(
        y[free] * (K[free] @ (y * result.x) + y[free] ** 2 * result.equality_dual[0]), 1, rtol=1e-9
    )


@pytest.mark.parametrize("solver", ["auto", "active_set"])
def test_equal_columns_and_wide_data(rng, solver):
    for m, n in ((60, 60), (30, 120)):
        X = rng.standard_normal((m, n))
        X[:, : n // 4] = X[:, n // 4 : 2 * (n // 4)]
        t = 5 * rng.standard_normal(m)
        result = nnqp(X.T @ X, -X.T @ t, solver=solver)
        reference = nnls(X, t, maxiter=100 * n)[1]
        assert result.status is Status.OPTIMAL
        # 1/2 |t|^2 is the size of what cancels
        assert result.objective + 0.5 * t @ t == pytest.approx(0.5 * reference**2, rel=1e-10, abs=1e-13 * (t @ t))


def test_rows_that_say_the_same_twice(rng):
    X, t = regression(rng, 30)
    row = rng.random(30)
    once = nnqp(X.T @ X, -X.T @ t, equality=(row, 1.0))
    twice = nnqp(X.T @ X, -X.T @ t, equality=(np.array([row, -2 * row, 0 * row]), np.array([1.0, -2.0, 0.0])))
    np.testing.assert_allclose(once.x, twice.x, atol=1e-12)
    assert once.status is twice.status is Status.OPTIMAL
    E = np.array([row, -2 * row, 0 * row])
    np.testing.assert_allclose(twice.equality_dual @ E, once.equality_dual[0] * row, rtol=1e-9)


def test_unbounded_names_the_direction():
    A = np.array([[1.0, -1.0], [-1.0, 1.0]])
    result = nnqp(A, [-1.0, 0.5])
    assert result.status is Status.UNBOUNDED
    assert result.exit_reason is ExitReason.CERTIFICATE
    np.testing.assert_allclose(result.direction, [1.0, 1.0])
    assert result.dual_bound == -np.inf
    assert result.conflict is None, "a direction names no rows"
    assert nnqp(A, [-1.0, 0.5], upper=3.0).status is Status.OPTIMAL
    assert nnqp(np.zeros((1, 1)), [-1.0]).status is Status.UNBOUNDED


def test_optima_on_a_ray_are_told_apart():
    """Any (s, s + 1) is optimal; b lowered by anything makes it unbounded, so that the bound is for b raised by rounding."""
    A = np.array([[1.0, -1.0], [-1.0, 1.0]])
    b = 0.1 * np.array([1.0, -1.0])
    result = nnqp(A, b)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(-0.005)
    assert result.bound_perturbation <= 1e-15


def test_infeasible_rows():
    result = nnqp(
        np.eye(3), np.zeros(3), equality=(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]), np.array([1.0, -1.0]))
    )
    assert result.status is Status.INFEASIBLE
    assert result.exit_reason is ExitReason.CERTIFICATE
    assert "no point" in result._repr_html_().lower()
    boxed = nnqp(np.eye(2), np.zeros(2), upper=1.0, equality=(np.ones(2), 3.0))
    check_infeasible(boxed, np.ones(2), np.ones((1, 2)), np.array([3.0]))
    empty = nnqp(np.eye(2), np.zeros(2), equality=(np.zeros((1, 2)), np.array([1.0])))
    assert empty.status is Status.INFEASIBLE


def test_trivial_problems():
    at_zero = nnqp(np.eye(3), np.ones(3))
    assert at_zero.status is Status.OPTIMAL
    assert (at_zero.x == 0).all()
    assert at_zero.gap == 0
    assert nnqp(np.eye(3), np.zeros(3)).status is Status.OPTIMAL
    pinned = nnqp(np.eye(2), [-1.0, -1.0], upper=[0.0, 0.5])
    np.testing.assert_array_equal(pinned.x, [0.0, 0.5])
    simplex = nnqp(np.zeros((3, 3)), [3.0, 1.0, 2.0], equality=(np.ones(3), 1.0))
    np.testing.assert_allclose(simplex.x, [0.0, 1.0, 0.0], atol=1e-15)
    assert simplex.objective == pytest.approx(1.0)


def test_scales_of_the_variables(rng):
    """Columns over eight decades: the conditions are tested in units of sqrt(A_ii), the bound holds."""
    X, t = regression(rng, 60)
    unit = 10 ** rng.uniform(-4, 4, 60)
    plain, scaled = nnqp(X.T @ X, -X.T @ t), nnqp((X * unit).T @ (X * unit), -(X * unit).T @ t)
    assert scaled.status is Status.OPTIMAL
    np.testing.assert_allclose(scaled.x * unit, plain.x, atol=1e-12)


@pytest.mark.parametrize("solver", ["pivoting", "active_set"])
def test_start_at_the_solution(rng, solver):
    X, t = regression(rng, 100)
    A, b = X.T @ X, -X.T @ t
    cold = nnqp(A, b, solver=solver)
    start = cold.x.copy()
    warm = nnqp(A, b, x0=start, solver=solver)
    np.testing.assert_array_equal(start, cold.x)
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-13)
    assert warm.n_iter <= 2


# ---------------------------------------------------------------- the bound


# ---------------------------------------------------------------- the active set
def test_active_set_never_raises_the_objective(rng, monkeypatch):
    """Looked at after every single exchange."""
    monkeypatch.setattr(sys.modules[ExactActiveSet.__module__], "EXCHANGES", 1)
    longest = 0
    for _ in range(60):
        A, b, upper, E, e, inside = random_program(rng)
        rows = (E, E @ inside) if len(E) and np.linalg.matrix_rank(E) == len(E) else None
        values = []

        def watch(x, g, steps, A=A, b=b, values=values):
            values.append(0.5 * x @ A @ x + b @ x)
            return False

        end = ExactActiveSet().minimize(QuadraticProgram.of(A, b, upper, rows), inside, watch)
        values.append(0.5 * end.x @ A @ end.x + b @ end.x)
        assert (np.diff(values) <= 1e-12 * (1 + np.abs(values[:-1]))).all()
        assert end.falling is not None or end.violation <= 1e-9
        longest = max(longest, len(values))
    assert longest >= 6


def test_active_set_on_many_variables(rng):
    X, t = regression(rng, 500)
    A, b = X.T @ X, -X.T @ t
    exact = nnqp(A, b).x
    start = np.maximum(exact + 0.05 * rng.standard_normal(500), 0.0)
    upper = np.full(500, np.inf)
    end = ExactActiveSet().minimize(QuadraticProgram.of(A, b, upper), start)
    np.testing.assert_allclose(end.x, exact, atol=1e-12)
    row = rng.choice([-1.0, 1.0], (1, 500))
    boxed = np.full(500, 1.5)
    start = np.minimum(start, boxed)
    end = ExactActiveSet().minimize(QuadraticProgram.of(A, b, boxed, (row, row @ start)), start)
    reference = nnqp(A, b, upper=boxed, equality=(row, row @ start))
    assert reference.solver == "pivoting"
    np.testing.assert_allclose(end.x, reference.x, atol=1e-10)


# ---------------------------------------------------------------- the updates through the same door
def test_multiplicative_updates(rng):
    X, t = regression(rng, 20)
    A, b = X.T @ X, -X.T @ t
    exact = nnqp(A, b)
    for solver in ("multiplicative", MultiplicativeUpdates(block=3)):
        result = nnqp(A, b, solver=solver, tol=1e-4, max_iter=5000)
        assert result.status is Status.OPTIMAL
        assert result.solver.startswith("multiplicative")
        # rounding below, ten times the gap asked for above
        assert exact.objective * (1 + 1e-12) <= result.objective <= exact.objective * (1 - 1e-3)
        assert result.exit_reason is ExitReason.TOLERANCE
        assert result.dual_bound <= exact.objective + 1e-9 * abs(exact.objective)
        assert len(result.history) > 3


def test_blocks_of_multiplicative_updates(rng):
    """With bounds, flat and unbounded directions; small blocks need fewer steps. SciPy's solver is the judge."""
    X, t = regression(rng, 20)
    runs = [nnqp(X.T @ X, -X.T @ t, solver=MultiplicativeUpdates(block=k), tol=1e-4) for k in (2, None)]
    assert 2 * runs[0].n_iter < runs[1].n_iter
    upper = np.where(np.arange(20) % 3, 0.05, 0.0)
    boxed = nnqp(X.T @ X, -X.T @ t, upper=upper, solver=MultiplicativeUpdates(block=4), tol=1e-8)
    judge = lsq_linear(X, t, (0.0, np.maximum(upper, 1e-300)), tol=1e-14)
    assert boxed.status is Status.OPTIMAL and (boxed.x <= upper).all()
    assert boxed.objective == pytest.approx(judge.cost - 0.5 * t @ t, rel=1e-7)
    flat = np.diag([1.0, 0.0, 2.0])
    assert nnqp(flat, [-1.0, -1.0, 0.0], solver=MultiplicativeUpdates(block=2)).status is Status.UNBOUNDED
    np.testing.assert_allclose(
        nnqp(flat, [-1.0, 1.0, 2.0], solver=MultiplicativeUpdates(block=2)).x, [1.0, 0.0, 0.0], atol=1e-8
    )


# ---------------------------------------------------------------- limits
def test_callback_stops_and_sees_every_step(rng):
    X, t = regression(rng, 120, decades=3)
    seen = []

    def stop(record):
        seen.append(record)
        return len(seen) == 2

    result = nnqp(X.T @ X, -X.T @ t, callback=stop)
    assert len(seen) == 2
    assert result.exit_reason is ExitReason.INTERRUPTED
    assert result.status is Status.FEASIBLE
    assert result.gap > 1e-8
    assert (result.x >= 0).all()
    assert result.history[:2] == seen
    assert len(result.history) == 3
    assert result.n_iter == 1


@pytest.mark.parametrize("solver", ["pivoting", "active_set"])
def test_keyboard_interrupt_keeps_the_point(rng, solver):
    X, t = regression(rng, 120, decades=3)
    row = np.ones((1, 120))

    def interrupt(record):
        raise KeyboardInterrupt

    for rows in (None, (row, np.array([5.0]))):
        with pytest.warns(RuntimeWarning, match="nnqp was interrupted after"):
            result = nnqp(X.T @ X, -X.T @ t, callback=interrupt, solver=solver, equality=rows)
        assert result.exit_reason is ExitReason.INTERRUPTED
        assert (result.x >= 0).all()
        assert result.max_violation <= 1e-9
        assert np.isfinite(result.objective)


@pytest.mark.parametrize("solver", ["pivoting", "active_set"])
def test_limits(rng, solver):
    X, t = regression(rng, 120, decades=3)
    A, b = X.T @ X, -X.T @ t
    assert nnqp(A, b, max_seconds=1e-9, solver=solver).exit_reason is ExitReason.TIME
    X, t = regression(rng, 300, decades=7)  # needs more than the 50 exchanges that count as one free set
    hasty = nnqp(X.T @ X, -X.T @ t, max_iter=1, solver="active_set")
    assert hasty.exit_reason is ExitReason.MAX_ITER
    assert hasty.status is Status.FEASIBLE
    few = nnqp(A, b, max_iter=1, solver="pivoting")
    assert few.exit_reason is ExitReason.MAX_ITER
    assert few.status is Status.FEASIBLE
    assert few.n_iter == 1


# ---------------------------------------------------------------- results
@pytest.mark.parametrize("kind", ["optimal", "unbounded", "infeasible"])
def test_results_survive_a_file(tmp_path, kind):
    result = {
        "optimal": lambda: nnqp(np.eye(3), [-1.0, 0.0, 1.0]),
        "unbounded": lambda: nnqp(np.zeros((1, 1)), [-1.0]),
        "infeasible": lambda: nnqp(np.eye(2), np.zeros(2), equality=(np.ones(2), -1.0)),
    }[kind]()
    save(tmp_path / "qp.bm", result)
    again = load(tmp_path / "qp.bm")
    assert isinstance(again, QPResult)
    assert repr(again) == repr(result)
    assert again.history == result.history
    for name in ("x", "dual", "equality_dual", "direction"):
        np.testing.assert_equal(getattr(again, name), getattr(result, name))
    assert again._repr_html_() == result._repr_html_()


# ---------------------------------------------------------------- the result, handed to bregmat.check
def test_check_takes_the_result(rng):
    from sklearn.exceptions import ConvergenceWarning

    from bregmat import SolverError, check

    A, b = np.eye(3) + 0.5, np.array([-1.0, -2.0, 3.0])
    assert check(nnqp(A, b)).tol == 1e-8
    with pytest.raises(SolverError, match=r"UNBOUNDED: The objective has no lower bound\..*direction") as caught:
        check(nnqp(np.zeros((2, 2)), [-1.0, 1.0]))
    assert caught.value.result.direction is not None
    with pytest.raises(SolverError, match="INFEASIBLE: .*equality_dual.*Conflicting constraints: 0"):
        check(nnqp(A, b, equality=([[1.0, 1.0, 1.0]], [-1.0])))
    X = rng.standard_normal((30, 20))
    with pytest.warns(
        ConvergenceWarning, match=r"MAX_ITER after 1 iterations.*tol 1e-08\. The gap is .* Raise max_iter"
    ):
        check(nnqp(X.T @ X, rng.standard_normal(20), solver="multiplicative", max_iter=1))
