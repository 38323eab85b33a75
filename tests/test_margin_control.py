"""Margin machines as a caller meets them: tolerances, solvers, limits, interruption, results, bad input."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.datasets import make_moons

from bregmat import ExitReason, Record, Status
from bregmat.margin import ActiveSet, MarginProblem, kernel_source, train_margin
from margin_cases import EXACT, blobs, gaussian, real_data, referee
from states import saved_and_loaded


# ---------------------------------------------------------------- accuracy asked for
@pytest.mark.parametrize("tol", [0.3, 1e-2, 1e-3, 1e-4, 1e-6, 1e-12])
def test_the_tolerance_is_the_gap(tol):
    X, y = real_data("digits")
    gamma = 1 / (X.shape[1] * X.var())
    problem = MarginProblem.build(kernel_source(X, gamma=gamma), y)
    result = train_margin(problem, tol=tol)
    dual, primal, _ = referee(gaussian(X, gamma), problem, result)
    assert result.status is Status.OPTIMAL
    assert result.gap <= tol
    assert (primal - dual) / primal <= tol + 1e-12
    assert result.gap == pytest.approx((primal - dual) / primal, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n", [300, 2500])
def test_to_a_violation_as_libsvm(intercept, n):
    X, t = make_moons(n, noise=0.2, random_state=0)
    y = 2.0 * t - 1
    problem = MarginProblem.build(kernel_source(X, gamma=1.0), y, intercept=intercept)
    for certify in (True, False):
        result = train_margin(problem, solver=ActiveSet(violation_tol=1e-3, certify=certify))
        slope = y - gaussian(X, 1.0) @ (y * result.alpha)
        signed = y * result.alpha
        up, down = slope[signed < np.where(y > 0, 1, 0)], slope[signed > np.where(y > 0, 0, -1)]
        left = up.max() - down.min() if intercept else max(up.max(), -down.min())
        assert left <= 1e-3 + 1e-4  # what float32 adds
        assert result.exit_reason is ExitReason.TOLERANCE
        assert np.isfinite(result.gap) == certify


def test_any_memory_and_any_seed_give_the_same_machine(rng):
    X, y = blobs(rng, 2500, d=8)
    problem = MarginProblem.build(kernel_source(X, gamma=0.1), y, C=3.0)
    first = train_margin(problem, tol=EXACT)
    for solver, seed in ((ActiveSet(cache_mb=0.3), 0), (ActiveSet(cache_mb=2.0), 1), (ActiveSet(), 7)):
        other = train_margin(problem, solver=solver, tol=EXACT, random_state=seed)
        assert other.status is Status.OPTIMAL
        assert other.dual_bound == pytest.approx(first.dual_bound, rel=1e-9)
        np.testing.assert_allclose(other.alpha, first.alpha, atol=1e-6)


def test_the_same_call_gives_the_same_numbers(rng):
    X, y = blobs(rng, 1500)
    problem = MarginProblem.build(kernel_source(X), y)
    one, two = (train_margin(problem, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one.alpha, two.alpha)
    assert one.intercept == two.intercept


# ---------------------------------------------------------------- multiplicative updates
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "hard"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_multiplicative_updates_reach_the_same_machine(rng, intercept, loss, kernel):
    X, y = blobs(rng, 120, d=20 if kernel == "rbf" else 60, distance=5.0)
    K, source = (
        (gaussian(X, 0.05), kernel_source(X, gamma=0.05)) if kernel == "rbf" else (X @ X.T, kernel_source(X, "linear"))
    )
    C = np.inf if loss == "hard" else 1.0
    problem = MarginProblem.build(source, y, C=C, squared_hinge=loss == "squared_hinge", intercept=intercept)
    result = train_margin(problem, solver="multiplicative", tol=1e-3, max_iter=20_000)
    assert result.solver == "multiplicative"
    dual, primal, _ = referee(K, problem, result)
    assert result.status is Status.OPTIMAL and (primal - dual) / primal <= 1e-3 + 1e-9
    exact = train_margin(problem, tol=1e-9)
    assert result.dual_bound <= exact.objective * (1 + 1e-12)
    assert exact.dual_bound <= result.objective * (1 + 1e-12)


def test_multiplicative_updates_leave_out_what_does_not_count(rng):
    X, y = blobs(rng, 80)
    weight = (np.arange(80) % 4 > 0).astype(float)
    problem = MarginProblem.build(kernel_source(X, gamma=0.3), y, sample_weight=weight, intercept=False)
    result = train_margin(problem, solver="multiplicative", tol=1e-3)
    assert result.status is Status.OPTIMAL and (result.alpha[weight == 0] == 0).all()
    np.testing.assert_allclose(result.decision, gaussian(X, 0.3) @ (y * result.alpha), atol=1e-9)


def test_multiplicative_updates_stop_at_their_limit(rng):
    X, y = blobs(rng, 80)
    problem = MarginProblem.build(kernel_source(X, gamma=0.3), y)
    result = train_margin(problem, solver="multiplicative", tol=1e-9, max_iter=5)
    assert result.exit_reason is ExitReason.MAX_ITER and result.n_iter == 5
    assert result.status is Status.FEASIBLE and result.gap > 1e-9


# ---------------------------------------------------------------- control
@pytest.mark.parametrize("solver", ["active_set", "multiplicative"])
def test_a_callback_sees_records_and_can_stop(rng, solver):
    X, y = blobs(rng, 1500)
    problem = MarginProblem.build(kernel_source(X), y)
    seen = []

    def watch(record):
        seen.append(record)
        return len(seen) == 3

    result = train_margin(problem, solver=solver, callback=watch)
    assert len(seen) == 3 and all(isinstance(r, Record) for r in seen)
    assert result.exit_reason is ExitReason.INTERRUPTED
    dual, primal, _ = referee(gaussian(X, problem.kernel.gamma), problem, result)
    assert result.gap == pytest.approx((primal - dual) / primal, rel=1e-6)
    assert [r.iteration for r in result.history] == sorted(r.iteration for r in result.history)


@pytest.mark.parametrize("solver", ["active_set", "multiplicative"])
def test_ctrl_c_keeps_the_best_point(rng, solver):
    X, y = blobs(rng, 1500)
    problem = MarginProblem.build(kernel_source(X), y)

    def interrupt(record):
        raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="train_margin was interrupted after"):
        result = train_margin(problem, solver=solver, callback=interrupt)
    assert result.exit_reason is ExitReason.INTERRUPTED
    assert np.isfinite(result.alpha).all() and abs(y @ result.alpha) < 1e-9


def test_limits_of_steps_and_time(rng):
    X, y = blobs(rng, 2000, distance=0.5)
    problem = MarginProblem.build(kernel_source(X, gamma=5.0), y, C=100.0)
    few = train_margin(problem, max_iter=50)
    assert few.exit_reason is ExitReason.MAX_ITER and few.n_iter <= 50 and few.status is Status.FEASIBLE
    short = train_margin(problem, max_seconds=1e-9)
    assert short.exit_reason is ExitReason.TIME and np.isfinite(short.dual_bound)


def test_a_callback_may_train_another_machine(rng):
    X, y = blobs(rng, 1500)
    other_X, other_y = blobs(rng, 1600)
    problem = MarginProblem.build(kernel_source(X), y)
    other = MarginProblem.build(kernel_source(other_X), other_y)
    alone, alone_too = train_margin(problem), train_margin(other)
    within = []
    nested = train_margin(problem, callback=lambda record: within.append(train_margin(other)))
    np.testing.assert_array_equal(nested.alpha, alone.alpha)
    assert all((inner.alpha == alone_too.alpha).all() for inner in within)


def test_threads_do_not_share_memory(rng):
    problems = []
    for n in (1400, 1500, 1600, 1700):
        X, y = blobs(rng, n, d=300)  # wide enough for parallel loops, of which one runs at a time
        problems.append(MarginProblem.build(kernel_source(X), y))
    alone = [train_margin(problem) for problem in problems]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(train_margin, problems))
    for one, two in zip(alone, together):
        # which thread gets the parallel loops decides the order of sums: 1e-15 of weights up to 1
        np.testing.assert_allclose(one.alpha, two.alpha, rtol=0, atol=1e-12)


# ---------------------------------------------------------------- results
def test_state_goes_there_and_back(rng):
    X, y = blobs(rng, 100)
    result = train_margin(MarginProblem.build(kernel_source(X), y))
    copy = saved_and_loaded(result)
    for name in (
        "status",
        "exit_reason",
        "intercept",
        "objective",
        "dual_bound",
        "gap",
        "n_iter",
        "solver",
        "tol",
        "seconds",
    ):
        assert getattr(copy, name) == getattr(result, name)
    assert np.isnan(copy.margin_bound)
    for name in ("alpha", "decision"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(result, name))
    assert [r.iteration for r in copy.history] == [r.iteration for r in result.history]


def test_what_a_notebook_shows(rng):
    X, y = blobs(rng, 100)
    result = train_margin(MarginProblem.build(kernel_source(X), y))
    assert "OPTIMAL" in repr(result) and "n_support" in repr(result)
    assert "proven optimal" in result._repr_html_()
    X[1], y[1] = X[0], -y[0]
    proof = train_margin(MarginProblem.build(kernel_source(X), y, C=np.inf))
    assert "proven impossible" in proof._repr_html_() and "finite C" in proof._repr_html_()


# ---------------------------------------------------------------- bad input
def problem_with(**changes):
    given = {"C": 1.0} | changes
    signs = given.pop("signs", [1.0, -1.0, 1.0])
    return MarginProblem.build(kernel_source([[0.0], [1.0], [2.0]]), signs, **given)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"signs": [1, -1]}, ValueError, r"signs must have one entry per row of the kernel \(3\); got shape \(2,\)"),
        ({"signs": [1, 0, -1]}, ValueError, "row 1"),
        ({"signs": [1, np.nan, -1]}, ValueError, "row 1"),
        ({"signs": [1, 1, 1]}, ValueError, "two classes"),
        ({"C": 0.0}, ValueError, "C must be positive"),
        ({"C": np.nan}, ValueError, "C must be positive"),
        ({"C": "1"}, TypeError, "C must be a number"),
        ({"sample_weight": [1, 1]}, ValueError, r"sample_weight must have one entry per row of the kernel \(3\)"),
        ({"sample_weight": [1, -1, 1]}, ValueError, "row 1"),
        ({"sample_weight": [1, np.inf, 1]}, ValueError, "row 1"),
        ({"sample_weight": [1, 0, 1]}, ValueError, "two classes among the samples of positive weight"),
        ({"sample_weight": [0, 0, 0]}, ValueError, "two classes"),
        ({"squared_hinge": 1}, TypeError, "squared_hinge"),
        ({"intercept": None}, TypeError, "intercept"),
    ],
)
def test_bad_problems_are_named(changes, error, text):
    with pytest.raises(error, match=text):
        problem_with(**changes)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"solver": "simplex"}, ValueError, "simplex"),
        ({"solver": 3}, TypeError, "solver"),
        ({"tol": 0.0}, ValueError, "tol"),
        ({"tol": 1.5}, ValueError, "below 1"),
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"max_seconds": -1.0}, ValueError, "max_seconds"),
    ],
)
def test_bad_calls_are_named(changes, error, text):
    with pytest.raises(error, match=text):
        train_margin(problem_with(), **changes)


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="violation_tol"):
        ActiveSet(violation_tol=0.0)
    with pytest.raises(ValueError, match="cache_mb"):
        ActiveSet(cache_mb=np.inf)
    with pytest.raises(TypeError, match="certify"):
        ActiveSet(certify=1)


@pytest.mark.parametrize("solver", ["active_set", "multiplicative"])
def test_a_kernel_that_breaks_is_named(solver):
    def broken(A, B):
        return np.where((A == 1.0) | (B.T == 1.0), np.nan, 1.0)

    problem = MarginProblem.build(kernel_source([[0.0], [1.0], [2.0]], broken), [1, -1, 1])
    with pytest.raises(ValueError, match="broken is not finite"):
        train_margin(problem, solver=solver)


# ---------------------------------------------------------------- cost
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "hard"])
@pytest.mark.parametrize("intercept", [True, False])
def test_newton_ends_the_search_of_a_small_machine(rng, loss, intercept):
    """A search by coordinates alone takes two to ten times the steps to the same accuracy."""
    X, y = blobs(rng, 400, distance=1.0 if loss != "hard" else 6.0)
    settings = {
        "C": np.inf if loss == "hard" else 3.0,
        "squared_hinge": loss == "squared_hinge",
        "intercept": intercept,
    }
    problem = MarginProblem.build(kernel_source(X, gamma=0.5), y, **settings)
    result = train_margin(problem, tol=1e-9)
    slow = train_margin(problem, solver=ActiveSet(violation_tol=1e-10))
    dual, primal, _ = referee(gaussian(X, 0.5), problem, result)
    assert result.status is Status.OPTIMAL and (primal - dual) / primal <= 1e-9
    assert result.max_violation <= 1e-10
    assert 2 * result.n_iter <= slow.n_iter
