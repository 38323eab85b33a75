"""Conjugate gradients, line search and block pivoting, which every room shares, against direct methods.

Then the steps of nearest distributions, the numbers of pairs, and the multipliers of near copies.
"""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq, lsq_linear
from scipy.special import logsumexp

from bregmat import Constraints, Factor, nearest_kernel, nearest_metric, verify
from bregmat.applications.simplex.problem import NearestDistribution
from bregmat.applications.simplex.subproblems import balance, newton_direction, step_to_row
from bregmat.base.linalg import (
    armijo,
    cholesky,
    conjugate_gradients,
    factor_product,
    half_product,
    symmetric_product,
)
from bregmat.base.pivoting import Exchanges, pivot_in_box
from bregmat.base.sampling import PairGroups


def positive_definite(rng, n, spread=10.0):
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return (Q * np.geomspace(1.0, spread, n)) @ Q.T


@pytest.mark.parametrize("is_euclidean", [False, True])
def test_conjugate_gradients(is_euclidean, rng):
    A, b = positive_definite(rng, 30, 1e3), rng.normal(size=30)
    d = A.diagonal()
    end = conjugate_gradients(
        lambda v: A @ v, b, goal=1e-10, max_iter=200, precondition=lambda r: r / d, is_euclidean=is_euclidean
    )
    r = b - A @ end.x
    assert_allclose(end.x, np.linalg.solve(A, b), rtol=1e-8)
    assert end.norm <= 1e-10 and end.direction is None and 0 < end.steps < 100
    assert_allclose(r, end.residual, atol=1e-12)
    assert_allclose(end.norm, np.linalg.norm(r if is_euclidean else r / np.sqrt(d)), atol=1e-12)


def test_cholesky_in_the_place_of_its_matrix(rng):
    A = positive_definite(rng, 9)
    C, ok = cholesky(A)
    assert ok and not np.triu(C, 1).any()
    used = A.copy()
    D, ok = cholesky(used, is_used_up=True)
    assert ok and np.shares_memory(D, used)
    assert_allclose(np.tril(D), C, rtol=1e-12)
    for k, bad in ((0, np.nan), (4, np.inf), (4, -1.0)):
        broken = A.copy()
        broken[8, k] = broken[k, 8] = bad
        broken[k, k] = bad
        assert not cholesky(broken)[1] and not cholesky(broken, is_used_up=True)[1]


def test_conjugate_gradients_over_matrices_change_no_argument(rng):
    A, B = positive_definite(rng, 8), rng.normal(size=(8, 3))
    kept = B.copy()
    end = conjugate_gradients(lambda V: A @ V, B, goal=1e-12, max_iter=100)
    assert_allclose(A @ end.x, B, atol=1e-11)
    assert (kept == B).all()
    assert conjugate_gradients(lambda V: A @ V, B, goal=0.0, max_iter=3).steps == 3
    assert conjugate_gradients(lambda V: A @ V, 0 * B, goal=0.0, max_iter=3).steps == 0


def test_conjugate_gradients_stop_where_there_is_no_curvature_or_the_caller_says_so(rng):
    A, b = np.diag([2.0, 1.0, -1.0]), np.ones(3)
    end = conjugate_gradients(lambda v: A @ v, b, goal=1e-12, max_iter=100)
    assert end.direction is not None and not end.curvature > 0
    assert_allclose(end.direction @ A @ end.direction, end.curvature, rtol=1e-12)
    A = positive_definite(rng, 20)
    b = rng.normal(size=20)
    far = conjugate_gradients(lambda v: A @ v, b, goal=1e-12, max_iter=100)
    radius = 0.5 * np.linalg.norm(far.x)
    end = conjugate_gradients(
        lambda v: A @ v,
        b,
        goal=1e-12,
        max_iter=100,
        blocked=lambda steps, x, d, curvature, rho: bool(np.linalg.norm(x + rho / curvature * d) > radius),
    )
    assert np.linalg.norm(end.x) <= radius < np.linalg.norm(end.x + end.rho / end.curvature * end.direction)


def test_armijo():
    def cost(alpha):
        return ("point", (alpha - 0.1) ** 2)

    for options in ({}, {"is_parabolic": True}):
        point, alpha = armijo(cost, 0.01, -0.2, rounding=0.0, **options)
        assert point == "point" and 0 < alpha < 0.2
    assert_allclose(alpha, 0.1)  # the parabola's own minimiser
    assert armijo(lambda alpha: None if alpha > 0.1 else cost(alpha), 0.01, -0.2, rounding=0.0, outside=0.1)[1] == 0.1
    assert armijo(lambda alpha: (0, np.nan), 0.01, -0.2, rounding=0.0) is None
    assert armijo(lambda alpha: (0, 1.0), 1.0, -1.0, rounding=0.0, max_trials=5) is None
    # where nothing falls, rounding decides in the end
    assert armijo(lambda alpha: (0, 0.0), 0.0, -1.0, rounding=1e-7)[1] == 2.0**-10


def test_exchanges_take_all_while_that_helps_then_single_ones():
    exchanges = Exchanges(patience=1, singles=1)
    many = np.arange(5)
    assert exchanges.choose(many).tolist() == [0, 1, 2, 3, 4]
    assert exchanges.choose(many).tolist() == [0, 1, 2, 3, 4]
    assert exchanges.choose(many).tolist() == [4]
    assert exchanges.choose(many) is None
    assert exchanges.choose(many[:3]).tolist() == [0, 1, 2]
    exchanges.restart()
    assert exchanges.choose(many).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("n", [1, 6, 40])
def test_pivot_in_box(n, rng):
    A = rng.normal(size=(n + 10, n))
    H, q = A.T @ A, rng.normal(size=n) * 5
    lower, upper = -rng.uniform(0, 0.2, n), rng.uniform(0, 0.2, n)
    lower[::3], upper[1::4] = -np.inf, np.inf
    seen = []
    d = pivot_in_box(
        lambda free, b: np.linalg.solve(H[np.ix_(free, free)], b),
        lambda v: H @ v,
        q,
        lower,
        upper,
        np.zeros(n, int),
        Exchanges(patience=3),
        watch=lambda d, Hd: seen.append(d.copy()),
    )
    other = lsq_linear(A, -np.linalg.lstsq(A.T, q, rcond=None)[0], (lower, upper), method="bvls", tol=1e-14).x
    assert_allclose(d, other, atol=1e-9)
    assert len(seen) >= 1 and (seen[-1] == d).all()
    nothing = pivot_in_box(lambda free, b: None, lambda v: H @ v, q, lower, upper, np.zeros(n, int), Exchanges(3))
    assert nothing is None


# ---------------------------------------------------------------- gaps
@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
def test_no_gap_is_negative_at_the_prior(divergence):
    """Where all rows hold at the prior the objective is 0, but for rounding."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        G = rng.normal(size=(6, 4)) * 10.0 ** rng.uniform(-3, 3)
        D = ((G[0] - G[1]) ** 2).sum()
        result = nearest_kernel(G @ G.T, Constraints.sq_distance(0, 1, 2 * D, "<="), divergence=divergence)
        assert result.status == "OPTIMAL"
        assert result.objective >= 0 and result.gap >= 0


# ---------------------------------------------------------------- differences and products of the data as given
def exact_metric_objective(X, result, bound, loss):
    """Frobenius distance of ``B B'`` from the identity plus a loss of the squared distance of points 0 and 1, in fractions."""
    B = [[Fraction(float(x)) for x in row] for row in result.B]
    d = range(len(B))
    W = [[sum(x * y for x, y in zip(B[i], B[j], strict=True)) for j in d] for i in d]
    v = [Fraction(float(x)) - Fraction(float(y)) for x, y in zip(X[0], X[1], strict=True)]
    p = sum(v[i] * W[i][j] * v[j] for i in d for j in d)
    return sum((W[i][j] - (i == j)) ** 2 for i in d for j in d) / 2 + loss(p / Fraction(bound))


def exact_sq_distance(x, y):
    return sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(x, y, strict=True))


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
def test_values_below_the_rounding_of_their_points_are_refused_by_name(divergence):
    times = np.array([[1.7e12], [1.7e12 + 0.125]])  # .0156 apart, which is not 0 and not at most .001
    assert exact_sq_distance(*times) == Fraction(1, 64)
    near = Constraints.sq_distance(0, 1, 0.001, "<=")
    with pytest.raises(ValueError, match=r"constraint 0: .* has the value 0.0156 at the prior.* Centre the columns"):
        nearest_metric(times, near, divergence=divergence)
    centred = nearest_metric(times - times[0], near, divergence=divergence)
    assert centred.status == "OPTIMAL" and centred.values == pytest.approx([0.001], rel=1e-2)
    assert centred.objective > 0.1
    lengths = np.array([[1e8], [1e-8]])  # the inner product is 1
    for bound, sense in ((2.0, ">="), (0.5, "<=")):
        row = Constraints.similarity(0, 1, bound, sense)
        with pytest.raises(ValueError, match="constraint 0: .* has the value 1 at the prior"):
            nearest_metric(lengths, row, divergence=divergence)
        with pytest.raises(ValueError, match="constraint 0: .* has the value 1 at the prior"):
            nearest_kernel(Factor(lengths), row, divergence=divergence)


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
def test_identical_points_and_points_at_the_origin_are_not_refused(divergence):
    X = np.array([[0.1, 0.3], [0.1, 0.3], [0.0, 0.0], [1.0, 2.0], [0.1, 0.1 + 0.2]])
    rows = Constraints.sq_distance([0, 0, 0], [1, 3, 4], [1.0, 2.0, 1.0], "<=") + Constraints.similarity(
        2, 3, 1.0, "<="
    )
    assert nearest_metric(X, rows, divergence=divergence).status == "OPTIMAL"
    assert nearest_kernel(Factor(X), rows, divergence=divergence).status == "OPTIMAL"


@pytest.mark.parametrize("gap", [1e-9, 1e-10])
@pytest.mark.parametrize("seed", range(3))
def test_nearly_equal_rows_of_a_factor(seed, gap):
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(5, 3))
    G[1] = G[0] + gap * rng.normal(size=3)
    rows = Constraints.sq_distance([0, 2], [1, 3], [0.3 * gap**2, 1.0], "<=")
    result = nearest_kernel(Factor(G), rows, divergence="frobenius")
    assert result.status == "OPTIMAL"
    # |(g_0 - g_1) B|^2 in fractions
    v = [Fraction(float(x)) - Fraction(float(y)) for x, y in zip(G[0], G[1], strict=True)]
    image = [sum(x * Fraction(float(b)) for x, b in zip(v, column, strict=True)) for column in result.B.T]
    assert float(sum(x * x for x in image) / Fraction(float(rows.bound[0]))) <= 1 + 1e-8
    assert verify(result, prior=Factor(G), constraints=rows, divergence="frobenius").holds


@pytest.mark.parametrize("size", [1e7, 1e8, 1e9])
@pytest.mark.parametrize("sense", ["<=", "=="])
def test_the_objective_of_large_features_is_that_of_the_returned_map(sense, size):
    for seed in range(4):
        X = np.random.default_rng(seed).normal(size=(6, 3)) * size
        rows = Constraints.sq_distance(0, 1, 1.0, sense)
        result = nearest_metric(X, rows, divergence="frobenius", slack_weight=1.0)

        def slack(q, is_equality=sense == "=="):
            return (q - 1) ** 2 / 2 if is_equality or q > 1 else Fraction(0)

        true = float(exact_metric_objective(X, result, 1.0, slack))
        assert result.objective == pytest.approx(true, rel=1e-6)
        assert result.status in ("OPTIMAL", "FEASIBLE")


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
@pytest.mark.parametrize("size", [1e-20, 1e-25, 1e-30])
def test_a_squared_loss_beside_a_tiny_prior_is_part_of_the_objective(size, divergence):
    for seed in range(4):
        G = np.random.default_rng(seed).normal(size=(5, 5)) * size
        rows = Constraints.sq_distance([0, 1], [2, 3], [1.0, 2.0], "==")
        result = nearest_kernel(G @ G.T, rows, divergence=divergence, loss="squared", slack_weight=1.0)
        Y = result.factor
        missed = [exact_sq_distance(Y[i], Y[j]) / b - 1 for i, j, b in ((0, 2, 1), (1, 3, 2))]
        assert float(sum(x * x for x in missed) / 2) <= result.objective * (1 + 1e-6)


def test_balance(rng):
    """The zero of the difference of two logarithms, against Brent's method."""
    found = 0
    for _ in range(100):
        u, a = rng.normal(scale=rng.choice([1, 100]), size=7), np.append(rng.normal(size=6), 0.0)
        up, down = np.maximum(a, 0) + 1e-3 * (a > 0), np.maximum(-a, 0)
        up[a.argmax()], down[a.argmin()], down[6] = 1.0, 1.0, rng.choice([0.0, 0.5])
        t = balance(u, a, up, down, 1e-10)

        def value(t, u=u, a=a, up=up, down=down):
            return logsumexp(u - t * a, b=up) - logsumexp(u - t * a, b=down)

        if np.sign(value(-1e6)) != np.sign(value(1e6)):  # else a is of one sign
            found += 1
            assert t == pytest.approx(brentq(value, -1e6, 1e6, xtol=1e-12, rtol=1e-14), rel=1e-9, abs=1e-9)
    assert found > 80
    none, one = np.zeros(2), np.ones(2)
    assert (balance(u[:2], a[:2], none, one, 1e-10), balance(u[:2], a[:2], one, none, 1e-10)) == (-np.inf, np.inf)


@pytest.mark.parametrize("total", [1.0, 3.0, None])
def test_step_to_row(rng, total):
    """The projection onto one row lands on it, for values between the smallest and the largest that can be."""
    for _ in range(50):
        n = int(rng.integers(2, 9))
        u, a = rng.normal(scale=20, size=n), rng.normal(size=n) * np.exp(rng.normal(scale=3))
        a[:2] = [np.abs(a[0]), -np.abs(a[1])]
        b = rng.uniform(a.min(), a.max()) * (total or 1.0)
        t = step_to_row(u, a, b, total)
        x = np.exp(u - t * a - (0 if total is None else logsumexp(u - t * a) - np.log(total)))
        assert a @ x == pytest.approx(b, abs=1e-9 * np.abs(a).max() + 1e-9 * np.abs(a) @ x)  # entries cancel
    assert step_to_row(u, np.abs(a), -1e-3, total) == np.inf
    assert step_to_row(u, -np.abs(a), 1e-3, total) == -np.inf
    assert step_to_row(u, np.zeros(n), 1.0, total) == 0.0
    with np.errstate(all="ignore"):  # an exponent beyond float64
        assert step_to_row(np.log([1.0, 1e100]), np.array([1.0, 1e-305]), 1e-308, None) == np.inf


def test_newton_direction(rng):
    """The quadratic in half a box, also where its Hessian is singular, satisfies its optimality conditions."""
    for _ in range(100):
        c = int(rng.integers(1, 15))
        B = rng.normal(size=(c, rng.integers(1, c + 1)))
        H = B @ B.T + 1e-6 * np.eye(c)
        q, bounded = rng.normal(size=c), rng.random(c) < 0.8
        y = np.where(bounded, np.maximum(rng.normal(size=c), 0), rng.normal(size=c))
        d = newton_direction(H, q, y, bounded)
        z = q + H @ d
        assert (d[bounded] >= -y[bounded] - 1e-12).all()
        size = 1e-8 * max(1.0, np.abs(H @ d).max())  # rounding of a Hessian with a condition of 1e7
        inside = ~bounded | (d > -y + 1e-9)
        assert (np.abs(z[inside]) <= size).all()
        assert (z >= -size).all() or (z[~inside] >= -size).all()


def test_proofs_are_mended(rng):
    """With a free sum ``A'y`` must not be negative by more than rounding: weights off by 1e-9 prove nothing until mended."""
    A = rng.normal(size=(4, 300)) * np.array([[1e3], [1.0], [1e-3], [1.0]])
    A[3] = A[0] + A[1] + A[2]
    b = A @ rng.random(300)
    b[3] += 0.1 * abs(b[3])
    problem, _ = NearestDistribution.build(np.ones(300), A, b, "==", None)
    weights = np.array([1.0, 1.0, 1.0, -1.0]) * problem.factor
    y = weights + 1e-9 * rng.normal(size=4) / problem.unit
    assert not problem.proves(y)
    better = problem.mended(y, problem.adjoint(y))
    assert problem.proves(better)
    assert_allclose(better, weights, rtol=1e-6)
    # whose weight must not be negative
    one_sided, _ = NearestDistribution.build(np.ones(300), A, b, ["==", "==", "==", "<="], None)
    assert not one_sided.mended(y, problem.adjoint(y)).any()


def test_pair_numbers_are_a_bijection():
    ordered, sizes = np.arange(100, 109), np.array([4, 0, 2, 3])
    for pairs, want in (
        (PairGroups.within(ordered, sizes), 6 + 1 + 3),
        (PairGroups.across(ordered, sizes), 8 + 12 + 6),
    ):
        i, j = pairs.rows(np.arange(pairs.n_pairs))
        assert pairs.n_pairs == want == len(set(zip(np.minimum(i, j).tolist(), np.maximum(i, j).tolist())))
    big = PairGroups.within(np.arange(3_000_000), np.array([3_000_000]))  # square roots of 3.6e13
    t = np.array([0, 1, big.n_pairs - 1, big.n_pairs - 2, big.n_pairs // 2])
    i, j = big.rows(t)
    assert np.array_equal(j * (j - 1) // 2 + i, t) and np.all(i < j)


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_an_infinite_loss_is_an_infinite_objective(divergence):
    seen = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        i, j = np.array([rng.choice(5, 2, replace=False) for _ in range(6)]).T
        rows = Constraints.similarity(i, j, rng.uniform(0.1, 3.0, 6), ">=")
        prior = Factor(rng.normal(size=(5, 3)))
        result = nearest_kernel(prior, rows, divergence=divergence, slack_weight=1.0, max_iter=2)
        if (result.values < -1e-6).any():
            seen += 1
            assert result.objective == np.inf and result.status == "UNKNOWN"
    assert seen > 5


NEAR_COPY = (
    1e-5  # distance of a near copy: the normal equations of the multipliers have a condition number of about 1e20
)


def planted_metric(rng):
    """Points with a near copy, all their squared distances under a metric, and its eigenvalues; no other metric has these distances."""
    X = rng.normal(size=(4, 3))
    X[1] = X[0] + NEAR_COPY * rng.normal(size=3)
    B = rng.normal(size=(3, 3)) / 3 + np.eye(3)
    i, j = np.triu_indices(4, 1)
    bound = (((X[i] - X[j]) @ B) ** 2).sum(axis=1)
    return X, Constraints.sq_distance(i, j, bound, "=="), np.linalg.eigvalsh(B @ B.T)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
def test_multipliers_of_near_copies(divergence, seed):
    X, constraints, x = planted_metric(np.random.default_rng(seed))
    optimum = {
        "logdet": (x - np.log(x) - 1).sum(),
        "vonneumann": (x * np.log(x) - x + 1).sum(),
        "frobenius": ((x - 1) ** 2).sum() / 2,
    }[divergence]
    result = nearest_metric(X, constraints, divergence=divergence)
    assert result.status == "OPTIMAL"
    missed = 1e-9 * float(
        np.abs(result.dual) @ constraints.bound
    )  # rows may be missed by 1e-9, at the price of their multipliers
    assert optimum - missed <= result.objective * (1 + 1e-6) <= optimum * (1 + 2e-6)
    assert optimum - 2e-6 * max(1.0, optimum) <= result.dual_bound <= optimum * (1 + 1e-8)
    if divergence == "logdet":  # g(mu) = logdet(I + A*(mu)) - mu . b, in fractions but for the logarithm
        assert result.dual_bound <= exact_logdet_bound(X, constraints, result.dual) + 1e-14


def exact_logdet_bound(X, constraints, mu):
    """The LogDet dual function at a metric of order 3 whose prior is the identity."""
    points = [[Fraction(float(x)) for x in row] for row in X]
    T, linear = [[Fraction(int(k == l)) for l in range(3)] for k in range(3)], Fraction(0)
    for i, j, weight, b in zip(*np.triu_indices(4, 1), mu, constraints.bound, strict=True):
        d, w = [p - q for p, q in zip(points[i], points[j], strict=True)], Fraction(float(weight))
        T = [[T[k][l] + w * d[k] * d[l] for l in range(3)] for k in range(3)]
        linear += w * Fraction(float(b))
    (a, b, c), (_, e, f), (_, _, g) = T
    minors = a, a * e - b * b, a * (e * g - f * f) - b * (b * g - f * c) + c * (b * f - e * c)
    assert min(minors) > 0  # T is positive definite
    return float(np.log(float(minors[2])) - float(linear))


@pytest.mark.parametrize("r", [5, 63, 64, 131, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_by_blocks_are_those_of_the_whole_matrices(rng, r, dtype):
    V, X = rng.normal(size=(40, r)).astype(dtype), rng.normal(size=(r, r)).astype(dtype)
    w, tol = rng.normal(size=40).astype(dtype), 40 * r * np.finfo(dtype).eps
    for F in (X, np.tril(X), np.triu(X)):
        assert_allclose(factor_product(V, F), V.astype(float) @ F, atol=tol)
    assert_allclose((half_product(V, X) * V).sum(axis=1), np.einsum("ij,jk,ik->i", V, X, V), atol=r * tol)
    S = symmetric_product(V, V * w[:, None])
    assert S.dtype == dtype
    assert_allclose(S, (V.T.astype(float) * w) @ V, atol=tol)
