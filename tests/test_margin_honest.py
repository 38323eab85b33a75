"""The gap is that of the machine that is returned, judged by the plain referee."""

import re
import time
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from bregmat import ExitReason, MarginSVC, SolverError, Status, verify
from bregmat.margin import ActiveSet, MarginProblem, kernel_source, train_margin
from margin_cases import blobs, exact_optima, gaussian, real_data, referee


def honest(K, problem, result):
    """The referee's gap of alpha and intercept, and that the result claims no less."""
    dual, primal, _ = referee(K, problem, result)
    np.testing.assert_allclose([result.dual_bound, result.objective], [dual, primal], rtol=1e-9)
    # 1e-11: rounding of the referee's own kernel and sums, in units of the objective
    assert (primal - dual) / primal <= result.gap * (1 + 1e-6) + 1e-11
    return (primal - dual) / primal


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [1e3, 1e6, 1e9, 1e12, 1e15])
def test_a_price_at_which_rounding_is_dear(C, intercept):
    """No slack is needed, and 1e-15 of it would cost what the machine does: it is returned without any."""
    X, y = real_data("cancer")
    problem = MarginProblem.build(kernel_source(X, gamma=1 / 30), y, C=C, intercept=intercept)
    result = train_margin(problem)
    assert result.status is Status.OPTIMAL
    assert honest(gaussian(X, 1 / 30), problem, result) <= 1e-6
    hard = train_margin(MarginProblem.build(problem.kernel, y, C=np.inf, intercept=intercept))
    assert result.objective == pytest.approx(hard.objective, rel=3e-6)


@pytest.mark.parametrize("tol", [0.5, 0.1, 1e-3])
def test_updates_to_a_loose_gap(tol):
    X, t = load_iris(return_X_y=True)
    X, y = ((X - X.mean(0)) / X.std(0))[:100], 2.0 * t[:100] - 1
    for C in (100.0, np.inf):
        problem = MarginProblem.build(kernel_source(X, gamma=0.1), y, C=C)
        result = train_margin(problem, solver="multiplicative", tol=tol, max_iter=50_000)
        assert result.status is Status.OPTIMAL
        assert honest(gaussian(X, 0.1), problem, result) <= tol + 1e-11


@pytest.mark.parametrize("seed", range(40))
def test_active_sets_that_stop_early(seed):
    rng = np.random.default_rng(seed)
    X, y = blobs(rng, 60, distance=rng.choice([0.0, 2.0, 4.0]))
    C, squared, intercept = 10 ** rng.uniform(-1, 6), bool(rng.random() < 0.2), bool(rng.random() < 0.7)
    problem = MarginProblem.build(kernel_source(X, gamma=0.5), y, C=C, squared_hinge=squared, intercept=intercept)
    for violation in (0.3, 1e-2, 1e-3):
        result = train_margin(problem, solver=ActiveSet(violation_tol=violation), tol=0.05)
        honest(gaussian(X, 0.5), problem, result)
        assert (result.alpha <= problem.upper).all()


def test_a_hard_margin_is_met_by_what_is_returned(rng):
    X, y = blobs(rng, 200, d=5, distance=6.0)
    problem = MarginProblem.build(kernel_source(X, gamma=0.1), y, C=np.inf)
    result = train_margin(problem, solver="multiplicative", tol=0.1)
    value = y * (gaussian(X, 0.1) @ (y * result.alpha) + result.intercept)
    assert value.min() == pytest.approx(1.0, abs=1e-9) and result.gap <= 0.1


# ---------------------------------------------------------------- what is said of single samples
def small_data(rng, n, d):
    """Few points with few digits, of which some coincide, nearly coincide, vanish, or have another unit."""
    X = np.round(rng.normal(size=(n, d)), int(rng.integers(1, 3)))
    kind = rng.integers(6)
    if kind == 5:
        return X * 10.0 ** rng.integers(-8, 9)
    X[-1] = [X[-1], X[0], X[0] * (1 + 2.0**-52), 0 * X[0], np.nextafter(X[0], 9)][kind]
    return X


@pytest.mark.parametrize("seed", range(24))
def test_the_bounds_contain_the_exact_optimum(seed):
    rng, done = np.random.default_rng(seed), 0
    while done < 8:
        n, d = int(rng.integers(2, 5)), int(rng.integers(1, 3))
        X, y = small_data(rng, n, d), rng.integers(0, 2, n)
        C, intercept, squared = (
            [np.inf, np.inf, 1.0, 0.25, 1e6][rng.integers(5)],
            bool(rng.integers(2)),
            rng.random() < 0.25,
        )
        if len(set(y)) == 2:
            done += agrees_with_exact_optima(X, y, C, intercept, bool(squared))


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[-0.7], [0.4]], [0, 1]),
        ([[0.66, 0.78], [0.66 + 2**-53, 0.78], [-1.0, 0.91], [-0.49, -0.8]], [0, 0, 1, 1]),
        ([[-0.9], [-0.9], [-0.4], [0.7]], [1, 1, 1, 0]),
        ([[1.0, 0.5], [0.0, -0.1]], [1, 0]),
    ],
)
def test_the_bounds_contain_the_exact_optimum_of_nearly_equal_points(X, y):
    assert agrees_with_exact_optima(X, y, np.inf, False, False)


def test_the_bound_of_equal_points_contains_the_squared_hinge():
    """The kernel of centred points is 0: each of the two has the error 1, which costs C / 2."""
    X, y = np.array([[-0.43, -1.4], [-0.43, -1.4]]), [1, 0]
    result = MarginSVC(kernel="linear", C=1e6, squared_hinge=True).fit(X, y).result_
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(1e6, rel=1e-12) and result.dual_bound == pytest.approx(1e6, rel=1e-12)


def agrees_with_exact_optima(X, y, C, intercept, squared):
    """Compare objective and bound with the exact optimum; False where nothing separates the classes."""
    machine = MarginSVC(kernel="linear", C=C, fit_intercept=intercept, squared_hinge=squared, tol=1e-9, max_iter=10_000)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = machine.fit(X, y).result_
    except SolverError:
        return False
    except ValueError as error:  # points that differ by rounding only
        assert "Scale the features" in str(error)
        return False
    signs = np.where(np.asarray(y) == 1, 1, -1)
    optima = exact_optima(X, signs, C, intercept=intercept, squared=squared)
    if not optima:  # no machine, though that was not found out: nothing is proven of it
        return False
    alpha, ridge = optima[0], 1 / Fraction(C) if squared and np.isfinite(C) else 0
    columns = [[Fraction(float(v)) * int(s) * a for v, s, a in zip(column, signs, alpha)] for column in np.transpose(X)]
    exact = sum(alpha) - sum(sum(column) ** 2 for column in columns) / 2 - ridge * sum(a * a for a in alpha) / 2
    best, allowed = float(exact), 1e-9 * float(sum(alpha) + abs(exact))
    if np.isfinite(result.gap):  # which contains the rounding of large weights
        allowed += result.gap * result.unit
        assert abs(result.objective - best) <= allowed, (X, y, C, intercept)
    assert result.dual_bound <= best + allowed, (X, y, C, intercept)
    return True


# ---------------------------------------------------------------- no end, no time, no memory
@pytest.mark.parametrize("intercept", [True, False])
def test_updates_prove_that_nothing_separates(rng, intercept):
    X, y = blobs(rng, 80, distance=1.0)
    problem = MarginProblem.build(kernel_source(X, "linear"), y, C=np.inf, intercept=intercept)
    result = train_margin(problem, solver="multiplicative", max_iter=100)
    assert result.status is Status.INFEASIBLE and result.exit_reason is ExitReason.CERTIFICATE
    assert result.alpha.sum() == pytest.approx(2.0 if intercept else 1.0)
    assert np.linalg.norm(X.T @ (y * result.alpha)) / result.alpha.sum() <= result.margin_bound <= 1e-6
    np.testing.assert_array_equal(result.conflict, np.flatnonzero(result.alpha))


def test_updates_that_end_early_on_what_separates(rng):
    X = np.column_stack([rng.standard_normal(40), np.tile([1e-2, -1e-2], 20)])  # the means differ mostly in the noise
    problem = MarginProblem.build(kernel_source(X, "linear"), np.sign(X[:, 1]), C=np.inf)
    early = train_margin(problem, solver="multiplicative", max_iter=1)
    assert early.status is Status.UNKNOWN and early.gap == np.inf
    assert "use a finite C" in early.advice and "max_iter" not in early.advice


def test_what_makes_errors_is_no_machine_where_none_are_allowed(rng):
    """Classes that nothing separates, and a search that ends before it has proven so."""
    problem = MarginProblem.build(kernel_source(rng.normal(size=(30, 2)), "linear"), np.repeat([1, -1], 15), C=np.inf)
    early = train_margin(problem, max_iter=2)
    assert early.status is Status.UNKNOWN and early.objective == np.inf
    found = verify(replace(early, status=Status.FEASIBLE), problem=problem)
    assert found.status is Status.UNKNOWN and "errors are not allowed" in found.problems[0]


@pytest.mark.parametrize("steps", range(21, 61))
def test_a_margin_of_rounding_alone_is_none(steps):
    """Two classes share a point: weights grow until rounding parts the two copies, which is no margin."""
    rng = np.random.default_rng(steps)
    X, y = rng.normal(size=(16, 3)), np.where(np.arange(16) % 2, 1.0, -1.0)
    X[1] = X[0]
    result = train_margin(MarginProblem.build(kernel_source(X, gamma=1.0), y, C=np.inf), max_iter=steps)
    assert result.status in ("UNKNOWN", "INFEASIBLE")


@pytest.mark.parametrize("intercept", [True, False])
def test_a_round_ends_when_time_is_up(rng, intercept, monkeypatch):
    """By a clock that jumps after the first piece of a round: few steps are made after it."""
    X, y = blobs(rng, 2000, distance=0.0)
    problem = MarginProblem.build(kernel_source(X, gamma=2.0), y, C=1e3, intercept=intercept)
    monkeypatch.setattr("bregmat.margin.working_set.PIECE", 100_000)
    free = train_margin(problem, max_iter=30_000)
    start, calls = time.perf_counter(), []

    def clock():
        calls.append(0)
        return start if len(calls) < 3 else start + 1e3

    monkeypatch.setattr(time, "perf_counter", clock)
    result = train_margin(problem, max_seconds=1.0)
    assert result.exit_reason is ExitReason.TIME
    assert result.n_iter < 3000 < free.n_iter


# ---------------------------------------------------------------- words
def test_words_for_machines_without_hard_constraints(rng):
    X, y = blobs(rng, 300)
    problem = MarginProblem.build(kernel_source(X), y, C=10.0)
    seen = {
        ExitReason.MAX_ITER: train_margin(problem, max_iter=3),
        ExitReason.TIME: train_margin(problem, max_seconds=1e-9),
        ExitReason.INTERRUPTED: train_margin(problem, callback=lambda record: record.iteration < 2),
    }
    for reason, result in seen.items():
        text = re.sub("<[^>]+>", " ", result._repr_html_())
        assert result.exit_reason is reason and result.advice in text
        assert "not proven optimal" in text and "violation of optimality" in text
        for wrong in ("hard constraint", "warm_start", "start=", "slack_weight"):
            assert wrong not in text and wrong not in result.advice


# ---------------------------------------------------------------- hard margins that rounding of the kernel hides
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("solver", ["active_set", "multiplicative"])
@pytest.mark.parametrize("points", [[[1.0], [1.0 + 3e-8]], [[0.0], [3e-8], [1.0]], [[1e3, 2.0], [1e3 + 3e-8, 2.0]]])
def test_points_close_together_are_never_proven_inseparable(points, solver, kernel):
    """w = 1 / 3e-8 separates them; a kernel in double precision need not show it."""
    X, y = np.array(points), np.array([-1.0, 1.0, 1.0])[: len(points)]
    problem = MarginProblem.build(kernel_source(X, kernel, gamma=1.0), y, C=np.inf)
    result = train_margin(problem, solver=solver, max_iter=200)
    assert result.status != "INFEASIBLE"
    claim = replace(result, status=Status.INFEASIBLE, alpha=np.r_[1.0, 1.0, np.zeros(len(y) - 2)], margin_bound=1e-7)
    assert not verify(claim, problem=problem).holds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        MarginSVC(kernel=kernel, gamma=1.0, C=np.inf, solver=solver, max_iter=200).fit(X, y)


def test_centring_makes_no_two_points_equal():
    """The machine sees centred points, of which 0 and 3e-8 are one; the proof is about those given."""
    X, y = np.array([[0.0], [3e-8], [4e9]]), np.array([-1, 1, 1])
    assert len(np.unique(X - X.mean())) == 2
    with pytest.warns(ConvergenceWarning):
        machine = MarginSVC(kernel="linear", C=np.inf).fit(X, y)
    assert machine.result_.status == "UNKNOWN"


@pytest.mark.parametrize("intercept", [True, False])
def test_hulls_that_meet_are_proven_so_exactly(intercept, rng):
    """Three points of one line, in two columns that say the same; decimals; a matrix whose entries are whole numbers."""
    line = np.repeat([[1.0], [3.0], [2.0]], 2, axis=1)
    decimals = np.round(rng.normal(size=(60, 5)), 1)
    for source, signs in (
        (kernel_source(line, "linear"), [1, 1, -1]),
        (kernel_source(decimals, "linear"), np.sign(rng.normal(size=60))),
        (kernel_source(line @ line.T, "precomputed"), [1, 1, -1]),
        (kernel_source(np.vstack([decimals, -0.0 * decimals[:1], 0.0 * decimals[:1]]), "rbf"), np.r_[np.ones(61), -1]),
    ):
        problem = MarginProblem.build(source, signs, C=np.inf, intercept=intercept)
        result = train_margin(problem)
        assert result.status == "INFEASIBLE"
        assert verify(result, problem=problem).holds
