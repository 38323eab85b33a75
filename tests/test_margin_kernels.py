"""The compiled loops of the margin machines beside their NumPy twins, and the kernels they fill."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris

from bregmat import MarginSVC, Status, verify
from bregmat._kernels import kernel_rows, smo, vectors
from bregmat.engine.loop import RunLog
from bregmat.margin import MarginProblem, kernel_cache, kernel_source, train_margin
from bregmat.margin.certificate import Machine
from bregmat.margin.finish import finish
from bregmat.margin.kernel_cache import RowCache, WorkingKernel
from bregmat.margin.working_set import SupportSearch
from margin_cases import blobs

KINDS = [np.float32, np.float64]


def gaussian(A, B, gamma):
    """exp(-gamma |a - b|^2) from differences, float64."""
    return np.exp(-gamma * ((A[:, None, :] - B[None, :, :]) ** 2).sum(-1))


def semidefinite(rng, n, rank=None):
    F = rng.standard_normal((n, rank or n + 5))
    return F @ F.T / F.shape[1]


# ---------------------------------------------------------------- exponentials
def test_exp_f32_keeps_its_error_bound():
    # every 97th float32 between -87 and -1e-9; 2e-7 is what fill_error adds for it
    bits = np.arange(np.float32(1e-9).view(np.int32), np.float32(87).view(np.int32), 97, dtype=np.int32)
    x = -bits.view(np.float32)
    true = np.exp(x.astype(np.float64))
    assert np.max(np.abs(exponentials(x).astype(np.float64) / true - 1)) < 2e-7


def exponentials(x):
    out = np.empty_like(x)
    kernel_rows.exp_row_inplace(out, x, 1.0, 0.0, np.zeros_like(x))
    return out


def test_exp_f64_is_exact_to_rounding(rng):
    x = -np.concatenate([np.linspace(0, 1, 5000), np.exp(rng.uniform(-30, np.log(708), 5000))])
    assert np.max(np.abs(exponentials(x) / np.exp(x) - 1)) < 5e-16


@pytest.mark.parametrize("x", [-87.5, -1e4, -np.inf])
def test_exponentials_stop_where_floats_end(x):
    small, out = exponentials(np.array([x], np.float32)), exponentials(np.array([x]))
    assert 0 <= small[0] < 2e-38
    assert 0 <= out[0] <= max(1.0001 * np.exp(max(x, -708.0)), 4e-308)


# ---------------------------------------------------------------- kernel blocks
@pytest.mark.parametrize("d", [1, 2, 8, 9, 20, 300])
@pytest.mark.parametrize("spread", [0.3, 30.0])
def test_gaussian_rows_blocks_and_sums(rng, d, spread):
    n, gamma = 700, spread / d
    X = rng.standard_normal((n, d)) + 5.0
    source = kernel_source(X, gamma=gamma)
    some, others = rng.permutation(n)[:300], rng.permutation(n)[:613]
    true = gaussian(X[some], X, gamma)
    out = np.full((310, n), 7.0, np.float32)
    source.fill(out[10:], some)
    # the bound that certificates rest on; below 1e-37 float32 has no more digits
    assert np.all(np.abs(out[10:] - true) <= source.fill_error() * true + 1e-37)
    assert (out[:10] == 7.0).all()
    part = source.block(some, others, np.float32)
    assert np.all(np.abs(part - true[:, others]) <= source.fill_error()[others] * true[:, others] + 1e-37)
    # float64: the exponent, up to about 2 spread d gamma ... , loses a few units of rounding
    exponent = 1e-15 * (1 + gamma * 4 * ((X - X.mean(0)) ** 2).sum(1).max())
    np.testing.assert_allclose(source.block(some, others), true[:, others], rtol=10 * exponent, atol=1e-300)
    signs = np.where(rng.random(300) < 0.5, 1.0, -1.0)
    signed = source.signed_block(some, signs)
    np.testing.assert_allclose(signed, signs[:, None] * signs * true[:, some], rtol=10 * exponent, atol=1e-300)
    assert (signed == signed.T).all()
    w = rng.standard_normal(613)
    tolerance = 10 * exponent * np.abs(w).sum()
    np.testing.assert_allclose(source.sums(some, others, w), true[:, others] @ w, rtol=0, atol=tolerance)
    np.testing.assert_allclose(source.sums(some, some, w[:300]), true[:, some] @ w[:300], rtol=0, atol=tolerance)


@pytest.mark.parametrize("d", [3, 30])
def test_parts_of_a_loop_write_what_the_whole_writes(rng, d):
    n = 1300
    X = rng.standard_normal((n, d))
    s = kernel_source(X, gamma=0.5 / d)
    rows = rng.permutation(n)[:700]
    whole, cut = np.empty((2, 700, n), np.float32)
    near = (kernel_rows.gaussian_near_rows_inplace, s.Z[rows], s.ZT)
    ones = np.empty(0, np.float32)
    far = (kernel_rows.gaussian_block_inplace, s.Z[rows], s.h[rows], ones, s.Z, s.h, ones, 1.0, False)
    loop, *arguments = near if d == 3 else far
    loop(whole, *arguments, 0, n)
    for part in ((1024, n), (0, 512), (512, 1024)):
        loop(cut, *arguments, *part)
    assert (whole == cut).all()
    A, h = s._centred(rows)
    one = np.where(rng.random(700) < 0.5, 1.0, -1.0)
    for B, hB, same in ((A, h, True), (A[:650].copy(), h[:650], False)):
        whole, cut = np.empty((2, 700, len(B)))
        arguments = (A, h, one, B, hB, one[: len(B)], 2 * s.gamma, same)
        kernel_rows.gaussian_block_inplace(whole, *arguments, 0, len(B))
        for part in ((512, len(B)), (0, 256), (256, 512)):
            kernel_rows.gaussian_block_inplace(cut, *arguments, *part)
        assert (whole == cut).all()
    w, f, g, parts = rng.standard_normal(700), np.zeros((1, 700)), np.zeros((1, 700)), np.zeros((2, 700))
    kernel_rows.gaussian_sums_inplace(f, A, h, A, h, w, 2 * s.gamma, False, 0, 700)
    for part in ((256, 700), (0, 256)):
        kernel_rows.gaussian_sums_inplace(g, A, h, A, h, w, 2 * s.gamma, False, *part)
    assert (f == g).all()
    kernel_rows.gaussian_sums_inplace(parts, A, h, A, h, w, 2 * s.gamma, True, 1, 2)
    kernel_rows.gaussian_sums_inplace(parts, A, h, A, h, w, 2 * s.gamma, True, 0, 1)
    # other order of summation
    np.testing.assert_allclose(f[0], parts.sum(axis=0), rtol=0, atol=1e-13 * np.abs(w).sum())


@pytest.mark.parametrize("kind", KINDS)
def test_add_rows(rng, kind):
    K = rng.standard_normal((150, 5000)).astype(kind)
    rows, w, f = rng.permutation(150)[:131], rng.standard_normal(131).astype(kind), rng.standard_normal(5000)
    want = f + w.astype(float) @ K[rows].astype(float)
    vectors.add_rows_inplace(f, K, rows, w)
    # four products are added in the dtype of K
    np.testing.assert_allclose(f, want, rtol=0, atol=131 * 8 * np.finfo(kind).eps * np.abs(w).max() * 5)


def test_mirror(rng):
    S = rng.standard_normal((200, 200)).astype(np.float32)
    T = S.copy()
    vectors.mirror_inplace(T, 70, 191)
    S[:70, 70:191] = S[70:191, :70].T
    assert (S == T).all()


# ---------------------------------------------------------------- descent
def smo_twin(x, e, K, lower, upper, tol, max_iter):
    """WSS 2 in NumPy, float64."""
    d = np.diagonal(K)
    for step in range(max_iter):
        high = np.where(x < upper, e, -np.inf)
        i = int(np.argmax(high))
        low = np.where(x > lower, e, np.inf)
        if high[i] - low.min() <= tol:
            return step
        fall = np.maximum(high[i] - low, 0.0)
        fall[~np.isfinite(fall)] = 0.0
        both = d[i] + d
        j = int(np.argmax(fall**2 / np.maximum(both - 2 * K[i], d.max() * 4 * np.finfo(float).eps)))
        t = min((e[i] - e[j]) / max(d[i] + d[j] - 2 * K[i, j], 1e-30), upper[i] - x[i], x[j] - lower[j])
        x[i] += t
        x[j] -= t
        e -= t * (K[i] - K[j])
    return max_iter


def greedy_twin(x, e, K, lower, upper, tol, max_iter):
    for step in range(max_iter):
        slope = np.maximum(np.where(x < upper, e, 0.0), np.where(x > lower, -e, 0.0)).clip(0)
        if slope.max() <= tol:
            return step
        i = int(np.argmax(slope**2 / np.diagonal(K)))
        t = np.clip(x[i] + e[i] / K[i, i], lower[i], upper[i]) - x[i]
        x[i] += t
        e -= t * K[i]
    return max_iter


@pytest.mark.parametrize(
    ("kernel", "twin"), [(smo.pair_descent_inplace, smo_twin), (smo.greedy_descent_inplace, greedy_twin)]
)
@pytest.mark.parametrize("n", [2, 63, 64, 130])
def test_descent_takes_the_twins_steps(rng, kernel, twin, n):
    K, y = semidefinite(rng, n), np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    upper, lower = np.where(y > 0, 0.7, 0.0), np.where(y > 0, 0.0, -0.7)
    for most in (1, 7, 100):
        x, z = np.zeros(n), np.zeros(n)
        e, g = y.copy(), y.copy()
        steps = kernel(x, e, K, np.diagonal(K).copy(), lower, upper, 1e-3, most)[0]
        assert steps == twin(z, g, K, lower, upper, 1e-3, most)
        np.testing.assert_allclose(x, z, rtol=0, atol=1e-12)  # the same steps, rounded in another order
        np.testing.assert_allclose(e, g, rtol=0, atol=1e-12)
        assert np.all((x >= lower) & (x <= upper))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", [smo.pair_descent_inplace, smo.greedy_descent_inplace])
def test_descent_meets_its_tolerance(rng, kernel, kind):
    n = 300
    K = semidefinite(rng, n, 40).astype(kind)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    upper, lower = np.where(y > 0, 1.0, 0.0), np.where(y > 0, 0.0, -1.0)
    x, e = np.zeros(n), y.astype(kind)
    steps = kernel(x, e, K, np.diagonal(K).copy(), lower, upper, kind(1e-2), 200_000)[0]
    slope = y - K.astype(float) @ x
    up, down = slope[x < upper], slope[x > lower]
    left = up.max() - down.min() if kernel is smo.pair_descent_inplace else max(up.max(), -down.min())
    assert 0 < steps < 200_000
    assert left <= 1e-2 + 1e-3  # drift of e in float32
    assert kernel is smo.greedy_descent_inplace or abs(x.sum()) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", [smo.pair_descent_inplace, smo.greedy_descent_inplace])
def test_descent_ends_on_nan(rng, kernel, kind):
    n = 100
    K = semidefinite(rng, n).astype(kind)
    K[3] = K[:, 3] = np.nan
    x, e = np.zeros(n), np.where(np.arange(n) % 2 == 0, 1.0, -1.0).astype(kind)
    steps = kernel(x, e, K, np.ones(n, kind), np.full(n, -1.0), np.ones(n), kind(1e-9), 500)[0]
    assert steps <= 500  # terminates, indices in range; the caller finds the NaN in what it computes from x


def test_greedy_descent_on_a_singular_program(rng):
    n = 60
    A = semidefinite(rng, n, 12)
    b = A @ rng.standard_normal(n) - 0.1
    x, e, lower, upper = np.zeros(n), -b, np.zeros(n), np.full(n, 3.0)
    steps, left = smo.greedy_descent_inplace(x, e, A, np.diagonal(A).copy(), lower, upper, 1e-9, 10**6)
    gradient = A @ x + b
    assert 0 < steps < 10**6 and left <= 1e-9
    np.testing.assert_allclose(e, -gradient, atol=1e-12)
    assert np.all((x >= 0) & (x <= 3))
    assert np.abs(gradient[(x > 0) & (x < 3)]).max() <= 2e-9
    assert gradient[x == 0].min() >= -2e-9 and gradient[x == 3].max(initial=-1.0) <= 2e-9


# ---------------------------------------------------------------- one look over all samples


# ---------------------------------------------------------------- rows and blocks
@pytest.mark.parametrize("budget", [1, 40_000, 10**8])
def test_row_cache_gives_the_sum_within_any_budget(rng, budget):
    X = rng.standard_normal((400, 5))
    cache, f = RowCache(kernel_source(X, gamma=0.1), budget), np.zeros(400)
    K, total = gaussian(X, X, 0.1), np.zeros(400)
    for _ in range(4):
        rows = rng.permutation(400)[:90]
        w = rng.standard_normal(90)
        total[rows] += w
        cache.add(f, rows, w)
    np.testing.assert_allclose(f, K @ total, atol=1e-6 * np.abs(total).sum())  # float32 rows
    assert cache.size <= max(16, budget // 1600)


def test_block_grows_by_appending(rng):
    X = rng.standard_normal((1500, 4))
    ridge = rng.random(1500)
    block = WorkingKernel(kernel_source(X, gamma=0.3), ridge, 10, 10**9)
    order = rng.permutation(1500)
    for part in np.split(order, [20, 300, 1200]):
        block.append(part)
    m = len(block.members)
    true = gaussian(X[order], X[order], 0.3) + np.diag(ridge[order])
    np.testing.assert_array_equal(block.members, order)
    np.testing.assert_allclose(block.K[:m, :m], true, atol=2e-6)
    np.testing.assert_allclose(block.diagonal, np.diagonal(true), atol=2e-7)


@pytest.mark.not_verified("a verification computes the kernel, too")
@pytest.mark.parametrize("squared", [False, True])
def test_a_small_kernel_is_computed_once(rng, squared, monkeypatch):
    """The search, the exact last stage and the certificate share the whole kernel."""
    X, computed = rng.standard_normal((300, 4)), []
    source = kernel_source(X, "poly", gamma=0.2, coef0=1.0)
    block = source.block
    monkeypatch.setattr(source, "block", lambda rows, *rest: computed.append(len(rows)) or block(rows, *rest))
    signs = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1.0, -1.0)
    result = train_margin(MarginProblem.build(source, signs, C=1.0, squared_hinge=squared, intercept=True))
    assert result.status is Status.OPTIMAL
    assert computed == [300]


# ---------------------------------------------------------------- sources
@pytest.mark.parametrize("name", ["linear", "poly", "sigmoid", "laplacian", "cosine", "rbf"])
def test_named_kernels_are_scikit_learns(rng, name):
    from sklearn.metrics.pairwise import pairwise_kernels

    X = rng.standard_normal((90, 7))
    source = kernel_source(X, name, gamma=0.2, degree=3, coef0=0.5)
    given = {"gamma": 0.2, "degree": 3, "coef0": 0.5}
    true = pairwise_kernels(X, metric=name, filter_params=True, **given)
    i, j = np.arange(40), np.arange(30, 90)
    np.testing.assert_allclose(source.block(i, j), true[np.ix_(i, j)], atol=1e-12)
    np.testing.assert_allclose(source.diagonal(), np.diagonal(true), atol=1e-12)
    out = np.empty((40, 90), np.float32)
    source.fill(out, i)
    np.testing.assert_allclose(
        out, true[i], rtol=2.0**-24 * (1 + 1e-6), atol=2e-15 if name in ("linear", "poly") else 1e-5
    )
    w = rng.standard_normal(60)
    np.testing.assert_allclose(source.sums(i, j, w), true[np.ix_(i, j)] @ w, atol=1e-12)


def test_gamma_by_name(rng):
    X = rng.standard_normal((50, 4)) * 3
    assert kernel_source(X, gamma="scale").gamma == pytest.approx(1 / (4 * X.var()))
    assert kernel_source(X, gamma="auto").gamma == 0.25
    assert kernel_source(np.ones((3, 2))).gamma == 1.0
    assert kernel_source(X.astype(np.float32)).X.dtype == np.float32


def test_precomputed_and_functions_agree(rng):
    X = rng.standard_normal((60, 3))
    K = X @ X.T
    i, j = np.arange(20), np.arange(15, 60)
    for source in (kernel_source(K, "precomputed"), kernel_source(X, lambda A, B: A @ B.T)):
        np.testing.assert_allclose(source.block(i, j), K[np.ix_(i, j)], atol=1e-13)
        np.testing.assert_allclose(source.signed_block(i, -np.ones(20)), K[:20, :20], atol=1e-13)


def broken_function(A, B):
    return np.full((len(A), len(B)), np.nan)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: kernel_source(np.ones(3)), ValueError, "two-dimensional"),
        (lambda: kernel_source([[0.0, np.nan]]), ValueError, "row 0"),
        (lambda: kernel_source(np.eye(3), "rbf", gamma=0.0), ValueError, "gamma"),
        (lambda: kernel_source(np.eye(3), "rbf", gamma="wide"), ValueError, "gamma"),
        (lambda: kernel_source(np.eye(3), "spline"), ValueError, "spline"),
        (lambda: kernel_source(np.eye(3), 3), TypeError, "kernel"),
        (lambda: kernel_source(np.eye(3), "poly", degree="3"), TypeError, "degree"),
        (lambda: kernel_source(np.ones((2, 3)), "precomputed"), ValueError, "square"),
        (lambda: kernel_source([[1.0, np.nan], [0.0, 1.0]], "precomputed"), ValueError, "finite"),
        (lambda: kernel_source([[1.0, 0.5], [0.0, 1.0]], "precomputed"), ValueError, "symmetric"),
        (lambda: kernel_source(np.eye(3), broken_function).diagonal(), ValueError, "broken_function is not finite"),
        (lambda: kernel_source(np.eye(3), lambda A, B: np.ones(2)).diagonal(), ValueError, "shape"),
    ],
)
def test_bad_kernels_are_named(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("too_much", [1e-10, 1e-3])
def test_weights_with_another_sum_prove_less(rng, squared, too_much):
    """Weights of one class that sum to more than the other's have a dual value above the optimum."""
    X, y = rng.normal(size=(30, 3)), np.where(np.arange(30) % 3 > 0, 1.0, -1.0)
    problem = MarginProblem.build(kernel_source(X, "linear"), y, C=1.0, squared_hinge=squared)
    best = train_margin(problem, tol=1e-12)
    x = best.alpha * y
    row = int(np.argmax((y > 0) & (best.alpha < 0.9 * problem.upper)))
    x[row] += too_much
    f = problem.kernel.block(np.arange(30), np.arange(30)) @ x
    proof = Machine(problem, x, f, np.zeros(30), best.intercept).certify()
    assert proof.dual_bound <= best.objective * (1 + 1e-14)  # sums of thirty numbers
    assert proof.distance >= best.objective * (1 - 1e-14) - proof.dual_bound
    claim = replace(
        best, tol=1e-6, alpha=np.abs(x), dual_bound=float(np.abs(x).sum() - x @ f / 2 - problem.ridge @ x**2 / 2)
    )
    assert verify(claim, problem=problem).holds == (too_much < 1e-9)


def test_large_memory_is_given_back(rng, monkeypatch):
    monkeypatch.setattr(kernel_cache, "KEEP", 1_000_000)
    X, y = blobs(rng, 1500)
    train_margin(MarginProblem.build(kernel_source(X, gamma=2.0), y, C=10.0))
    held = [part for part in vars(kernel_cache._kept).values() if isinstance(part, np.ndarray)]
    assert all(part.nbytes <= 1_000_000 for part in held)


def test_negative_curvature_met_by_the_finish_is_named():
    K = np.kron(np.eye(2), [[1.0, 1.5], [1.5, 1.0]])
    K[0, 2] = K[2, 0] = 0.1
    problem = MarginProblem.build(kernel_source(K, "precomputed"), [1, 1, -1, -1], C=100.0)
    search = SupportSearch(problem, 1e-3, rng=np.random.default_rng(0), budget=10**6)
    search.x = 0.3 * problem.signs
    search.f = K @ search.x
    with pytest.raises(ValueError, match="kernel is not positive semidefinite"):
        finish(search)


# ---------------------------------------------------------------- cost
def test_the_time_limit_includes_the_checks_of_the_points(monkeypatch):
    now, limits = [0.0], []
    monkeypatch.setattr("bregmat.estimators.svm.time.monotonic", lambda: now[0])
    monkeypatch.setattr(
        "bregmat.estimators.svm_pairs.RunLog",
        lambda callback, seconds: limits.append(seconds) or RunLog(callback, None),
    )
    checked = MarginSVC._checked

    def slowly(*args):
        now[0] += 10.0
        return checked(*args)

    monkeypatch.setattr(MarginSVC, "_checked", slowly)
    MarginSVC(max_seconds=30.0).fit(*load_iris(return_X_y=True))
    assert limits == [20.0] * 3


def test_a_result_does_not_keep_the_kernel(rng):
    X, y = blobs(rng, 300)
    tracemalloc.start()
    try:
        result = train_margin(MarginProblem.build(kernel_source(X), y))
        assert tracemalloc.get_traced_memory()[0] < 8 * 300**2
    finally:
        tracemalloc.stop()
    assert result.status is Status.OPTIMAL


def test_the_updates_keep_one_matrix(rng):
    X, y = blobs(rng, 300)
    problem = MarginProblem.build(kernel_source(X), y, squared_hinge=True)
    tracemalloc.start()
    try:
        train_margin(problem, solver="multiplicative", max_iter=2)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * 8 * 300**2
    finally:
        tracemalloc.stop()
