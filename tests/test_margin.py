"""Margin machines reach the optimum and prove it; the referee is plain float64 NumPy, the rivals are others' solvers."""

from itertools import product

import numpy as np
import pytest
from sklearn.svm import SVC

from bregmat import ExitReason, Status
from bregmat.margin import ActiveSet, MarginProblem, kernel_source, train_margin
from margin_cases import EXACT, blobs, check_optimal, gaussian, real_data


# ---------------------------------------------------------------- against every active set, one by one
def best_of_all_sets(K, y, C, ridge, intercept):
    """The dual optimum by trying every assignment of 'at 0', 'at C', 'between' to the samples."""
    n, best = len(y), -np.inf
    A = y[:, None] * y * K + ridge * np.eye(n)
    for states in product((0, 1, 2) if np.isfinite(C) else (0, 2), repeat=n):
        s = np.array(states)
        free, a = s == 2, np.where(s == 1, C, 0.0)
        k = int(free.sum())
        M = np.zeros((k + intercept, k + intercept))
        M[:k, :k] = A[np.ix_(free, free)]
        right = 1.0 - A[free] @ a
        if intercept:
            M[:k, k] = M[k, :k] = y[free]
            right = np.append(right, -(y @ a))
        solution = np.linalg.lstsq(M, right, rcond=None)[0] if len(M) else np.zeros(0)
        a[free] = solution[:k]
        if (a < -1e-12).any() or (a > C + 1e-12).any() or (intercept and abs(y @ a) > 1e-9):
            continue
        best = max(best, a.sum() - 0.5 * a @ A @ a)
    return best


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "hard"])
@pytest.mark.parametrize("seed", range(4))
def test_small_machines_are_the_best_of_all_active_sets(rng, intercept, loss, seed):
    rng = np.random.default_rng(seed)
    X, y = blobs(rng, 7)
    K, C = gaussian(X, 0.7), [0.3, 1.0, 4.0, 30.0][seed]
    problem = MarginProblem.build(
        kernel_source(X, gamma=0.7),
        y,
        C=np.inf if loss == "hard" else C,
        squared_hinge=loss == "squared_hinge",
        intercept=intercept,
    )
    assert problem.loss == loss
    result = train_margin(problem, tol=EXACT)
    dual = check_optimal(K, problem, result)
    limit, ridge = C if loss == "hinge" else np.inf, 1 / C if loss == "squared_hinge" else 0.0
    assert dual == pytest.approx(best_of_all_sets(K, y, limit, ridge, intercept), rel=1e-9)


# ---------------------------------------------------------------- few features


@pytest.mark.not_verified("counts the entries of the kernel that are read, all of which `verify` reads")
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("squared_hinge", [True, False])
@pytest.mark.parametrize("C", [0.003, 1.0, 1e4])
def test_few_features_take_no_kernel_rows(rng, monkeypatch, C, squared_hinge, intercept):
    """The optimum is proven here by weights of the features, from samples that many times outnumber them."""
    n, d = 3000, 4
    X = rng.normal(size=(n, d))
    y = np.where(X @ [1.0, -1, 0.5, 0] + rng.normal(size=n) > 0.3, 1.0, -1.0)
    weight = rng.integers(0, 3, n)
    kernel, entries = kernel_source(X, "linear"), []
    block = kernel.block

    def counted(rows, columns, dtype=np.float64):
        entries.append(len(rows) * len(columns))
        return block(rows, columns, dtype)

    monkeypatch.setattr(kernel, "block", counted)
    losses = {"C": C, "squared_hinge": squared_hinge, "intercept": intercept, "sample_weight": weight}
    result = train_margin(MarginProblem.build(kernel, y, **losses), tol=1e-9)
    assert (result.status, result.exit_reason) == (Status.OPTIMAL, ExitReason.TOLERANCE)
    assert sum(entries) < 100 * n
    alpha = result.alpha
    w, C = (y * alpha) @ X, C * weight
    assert alpha.min() >= 0 and (squared_hinge or (alpha <= C).all()) and not alpha[weight == 0].any()
    assert not intercept or abs(y @ alpha) <= 1e-12 * alpha.sum()
    slack = np.maximum(1.0 - y * (X @ w + result.intercept), 0.0)
    own = 0.5 * (C @ slack**2) if squared_hinge else C @ slack
    kept = 0.5 * (alpha[C > 0] ** 2 / C[C > 0]).sum() if squared_hinge else 0.0
    primal, dual = 0.5 * (w @ w) + own, alpha.sum() - 0.5 * (w @ w) - kept
    assert abs(primal - dual) <= 1e-8 * primal
    assert result.objective == pytest.approx(primal, rel=1e-8)


# ---------------------------------------------------------------- against LIBSVM
CASES = [
    (name, C, kernel)
    for name in ("digits", "cancer", "moons", "unbalanced", "flipped")
    for C in (0.05, 1.0, 10.0, 100.0)
    for kernel in (("rbf", "poly") if C < 100 else ("rbf",))
]


@pytest.mark.parametrize(("name", "C", "kernel"), CASES)
def test_dual_objective_is_libsvms_or_better(name, C, kernel):
    X, y = real_data(name)
    gamma = 1 / (X.shape[1] * X.var())
    K = gaussian(X, gamma) if kernel == "rbf" else (gamma * X @ X.T + 1.0) ** 2
    problem = MarginProblem.build(kernel_source(X, kernel, gamma=gamma, degree=2, coef0=1.0), y, C=C)
    result = train_margin(problem, tol=EXACT)
    dual = check_optimal(K, problem, result)
    rival = SVC(C=C, kernel=kernel, gamma=gamma, degree=2, coef0=1.0, tol=1e-6, cache_size=500).fit(X, y)
    z = np.zeros(len(y))
    z[rival.support_] = rival.dual_coef_[0]
    theirs = np.abs(z).sum() - 0.5 * z @ K @ z
    # LIBSVM's float32 kernel leaves its dual a little short, and can leave sum(z) off zero: then it is not a lower bound
    assert dual >= theirs - 1e-8 * abs(theirs)
    assert dual - theirs <= 1e-6 * theirs


def test_the_same_machine_from_a_general_program_solver():
    from bregmat.quadratic import nnqp

    X, y = real_data("flipped")
    X, y = X[:200], y[:200]
    K = gaussian(X, 0.05)
    for intercept in (True, False):
        result = train_margin(MarginProblem.build(kernel_source(X, gamma=0.05), y, intercept=intercept), tol=EXACT)
        equality = (y[None, :], np.zeros(1)) if intercept else None
        other = nnqp(y[:, None] * y * K, -np.ones(200), upper=np.ones(200), equality=equality, tol=1e-10)
        assert other.status is Status.OPTIMAL
        assert result.dual_bound == pytest.approx(-other.objective, rel=1e-8)


# ---------------------------------------------------------------- special shapes
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("n", [2, 3, 40, 1200])
def test_duplicates_with_conflicting_labels(rng, intercept, loss, n):
    X, y = blobs(rng, n)
    k = n // 2
    X[k : 2 * k], y[k : 2 * k] = X[:k], -y[:k]
    problem = MarginProblem.build(
        kernel_source(X, gamma=0.5), y, C=5.0, squared_hinge=loss == "squared_hinge", intercept=intercept
    )
    check_optimal(gaussian(X, 0.5), problem, train_margin(problem, tol=1e-9))


@pytest.mark.parametrize("n", [5, 300, 1500])
def test_one_sample_against_the_rest(rng, n):
    X, y = rng.standard_normal((n, 4)), -np.ones(n)
    y[n // 2] = 1.0
    for C in (1.0, 1e4):
        problem = MarginProblem.build(kernel_source(X, gamma=0.2), y, C=C)
        check_optimal(gaussian(X, 0.2), problem, train_margin(problem, tol=1e-9))


def test_two_samples_by_hand():
    # k = <x, x'>: points 0 and 2 on a line; the widest margin is |w| = 1 at b = -1, alpha = 1/2 each
    problem = MarginProblem.build(kernel_source([[0.0], [2.0]], "linear"), [-1, 1], C=np.inf)
    result = train_margin(problem, tol=EXACT)
    np.testing.assert_allclose(result.alpha, [0.5, 0.5], rtol=1e-12)
    assert result.intercept == pytest.approx(-1.0, rel=1e-12)
    assert result.dual_bound == pytest.approx(0.5, rel=1e-12)
    np.testing.assert_allclose(result.decision, [-1.0, 1.0], rtol=1e-12)


def test_all_samples_in_one_place():
    for squared in (False, True):
        problem = MarginProblem.build(kernel_source(np.ones((6, 2))), [1, 1, -1, -1, -1, -1], squared_hinge=squared)
        result = train_margin(problem, tol=1e-9)
        assert result.status is Status.OPTIMAL
        # f is constant, so the better class is predicted: the hinge pays 2 C for the others
        assert result.objective == pytest.approx(4.0 if not squared else 8 / 3, rel=1e-9)


@pytest.mark.parametrize("C", [1e4, 1e6])
def test_large_prices(C):
    X, y = real_data("moons")
    gamma = 1.0
    problem = MarginProblem.build(kernel_source(X, gamma=gamma), y, C=C)
    result = train_margin(problem, tol=1e-8)  # 1e-16 times C n is left by rounding
    check_optimal(gaussian(X, gamma), problem, result, gap=3e-8)
    if C == 1e4:
        assert train_margin(problem, tol=EXACT).gap <= EXACT


@pytest.mark.parametrize("C", [1e-8, 1e-14])
def test_values_of_small_weights_keep_their_digits(rng, C):
    """The values are of the size of C, and ``alpha / C`` is about 1."""
    X, y = blobs(rng, 60)
    problem = MarginProblem.build(kernel_source(X, gamma=0.5), y, C=C, squared_hinge=True, intercept=False)
    result = train_margin(problem)
    np.testing.assert_allclose(result.decision, gaussian(X, 0.5) @ (y * result.alpha), rtol=1e-9, atol=1e-12 * C)


@pytest.mark.parametrize("intercept", [True, False])
def test_weights_are_prices_and_zero_is_absence(rng, intercept):
    X, y = blobs(rng, 500)
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], 500)
    problem = MarginProblem.build(kernel_source(X, gamma=0.5), y, C=2.0, sample_weight=weight, intercept=intercept)
    result = train_margin(problem, tol=EXACT)
    np.testing.assert_array_equal(problem.upper, 2 * weight)
    dual = check_optimal(gaussian(X, 0.5), problem, result)
    held = weight > 0
    assert (result.alpha[~held] == 0).all()
    fewer = MarginProblem.build(
        kernel_source(X[held], gamma=0.5), y[held], C=2.0, sample_weight=weight[held], intercept=intercept
    )
    assert train_margin(fewer, tol=EXACT).dual_bound == pytest.approx(dual, rel=1e-10)


def test_a_sample_of_weight_two_is_two_samples(rng):
    X, y = blobs(rng, 300)
    twice = rng.random(300) < 0.3
    weighted = MarginProblem.build(kernel_source(X, gamma=0.5), y, sample_weight=1.0 + twice)
    double = np.concatenate([np.arange(300), np.flatnonzero(twice)])
    doubled = MarginProblem.build(kernel_source(X[double], gamma=0.5), y[double])
    one, two = (train_margin(p, tol=EXACT) for p in (weighted, doubled))
    assert one.dual_bound == pytest.approx(two.dual_bound, rel=1e-10)
    np.testing.assert_allclose(one.decision, two.decision[:300], atol=1e-5)


def test_float32_input_is_solved_as_given(rng):
    X, y = blobs(rng, 400)
    X32 = X.astype(np.float32)
    problem = MarginProblem.build(kernel_source(X32, gamma=0.5), y, C=10.0)
    check_optimal(gaussian(X32.astype(float), 0.5), problem, train_margin(problem, tol=EXACT))


@pytest.mark.parametrize("kernel", ["linear", "laplacian", "precomputed", "function"])
def test_other_kernels(rng, kernel):
    X, y = blobs(rng, 1300, d=6)
    if kernel == "linear":
        K, source = X @ X.T, kernel_source(X, "linear")
    elif kernel == "laplacian":
        K = np.exp(-0.1 * np.abs(X[:, None] - X).sum(-1))
        source = kernel_source(X, "laplacian", gamma=0.1)
    elif kernel == "precomputed":
        K = gaussian(X, 0.1)
        source = kernel_source(K, "precomputed")
    else:
        K = (X @ X.T + 1) ** 2
        source = kernel_source(X, lambda A, B: (A @ B.T + 1) ** 2)
    problem = MarginProblem.build(source, y, C=0.5)
    check_optimal(K, problem, train_margin(problem, tol=EXACT))


def test_an_indefinite_kernel_ends_at_a_stationary_point(rng):
    X, y = blobs(rng, 200)
    problem = MarginProblem.build(kernel_source(X, "sigmoid", gamma=3.0, coef0=-2.0), y, C=10.0)
    K = np.tanh(3 * X @ X.T - 2)
    assert np.linalg.eigvalsh(K)[0] < -1
    proofless = train_margin(problem)
    assert proofless.status is Status.FEASIBLE and proofless.exit_reason is ExitReason.STALLED
    assert "not positive semidefinite" in proofless.advice
    result = train_margin(problem, solver=ActiveSet(violation_tol=1e-2, certify=False), max_iter=200_000)
    signed = y * result.alpha
    slope = y - K @ signed
    up, down = slope[signed < np.where(y > 0, 10, 0)], slope[signed > np.where(y > 0, 0, -10)]
    assert result.status is Status.FEASIBLE and result.gap == np.inf
    assert up.max() - down.min() <= 1e-2 + 1e-3


# ---------------------------------------------------------------- hard margin
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n", [50, 1500])
def test_hard_margin_on_separable_data(rng, intercept, n):
    X, y = blobs(rng, n, d=5, distance=6.0)
    problem = MarginProblem.build(kernel_source(X, gamma=0.1), y, C=np.inf, intercept=intercept)
    result = train_margin(problem, tol=1e-9)
    check_optimal(gaussian(X, 0.1), problem, result)
    assert (y * result.decision).min() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_narrow_hard_margin(rng, intercept):
    # two lines of points 2e-3 apart: weights of about 1e6
    X = np.column_stack([np.linspace(-1, 1, 40), np.tile([1e-3, -1e-3], 20)])
    y = np.sign(X[:, 1])
    problem = MarginProblem.build(kernel_source(X, "linear"), y, C=np.inf, intercept=intercept)
    result = train_margin(problem, tol=1e-6)
    assert result.status is Status.OPTIMAL, repr(result)
    assert 1 / np.sqrt(2 * result.dual_bound) == pytest.approx(1e-3, rel=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["duplicate", "overlap", "line"])
def test_no_hard_margin_is_proven(rng, intercept, kind):
    if kind == "duplicate":
        X, y = blobs(rng, 300)
        X[7], y[7] = X[3], -y[3]
        source, K = kernel_source(X, gamma=0.5), gaussian(X, 0.5)
    elif kind == "overlap":
        X, y = blobs(rng, 1500, d=4, distance=1.0)
        source, K = kernel_source(X, "linear"), X @ X.T
    else:
        X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, -1.0, 1.0])
        source, K = kernel_source(X, "linear"), X @ X.T
    problem = MarginProblem.build(source, y, C=np.inf, intercept=intercept)
    result = train_margin(problem)
    assert result.status is Status.INFEASIBLE and result.exit_reason is ExitReason.CERTIFICATE
    assert "finite C" in result.advice
    a = result.alpha
    assert (a >= 0).all() and a.sum() == pytest.approx(2.0 if intercept else 1.0)
    if intercept:
        assert abs(y @ a) < 1e-12
    # the certificate itself: hulls meet
    length = np.sqrt(max((a * y) @ K @ (a * y), 0.0))
    assert length / a.sum() <= result.margin_bound <= 1e-7 * np.sqrt(K.diagonal().max())
    np.testing.assert_array_equal(result.conflict, np.flatnonzero(a))
    assert train_margin(MarginProblem.build(source, y, C=10.0, intercept=intercept)).status is Status.OPTIMAL


# ---------------------------------------------------------------- many
@pytest.mark.parametrize("seed", range(8))
def test_random_machines(seed):
    """Prices over six decades, widths over three, duplicates with and without conflicts, unbalanced classes, weights."""
    rng = np.random.default_rng(seed)
    for _ in range(25):
        n, d, C = int(np.exp(rng.uniform(np.log(2), np.log(400)))), int(rng.integers(1, 31)), 10 ** rng.uniform(-2, 4)
        X, y = blobs(rng, n, d, distance=rng.choice([0.0, 1.0, 4.0]), share=rng.choice([0.5, 0.9]))
        if rng.random() < 0.3:
            k = int(rng.integers(1, n // 2 + 1))
            rows = rng.integers(0, n, k)
            X[:k], y[2 : k + 2] = X[rows], rng.choice([1.0, -1.0], len(y[2 : k + 2]))
        weight = rng.choice([0.5, 1.0, 2.0], n) if rng.random() < 0.3 else None
        gamma, intercept, squared = 10 ** rng.uniform(-2, 1) / d, bool(rng.random() < 0.7), bool(rng.random() < 0.3)
        problem = MarginProblem.build(
            kernel_source(X, gamma=gamma), y, C=C, sample_weight=weight, squared_hinge=squared, intercept=intercept
        )
        # what rounding leaves of sums of up to 1e4 n weights, and of a kernel by products in the referee
        check_optimal(gaussian(X, gamma), problem, train_margin(problem, tol=EXACT, random_state=seed), gap=1e-9)
