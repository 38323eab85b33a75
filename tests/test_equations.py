"""One test per numbered equation or theorem that the code cites, computed from the page with SciPy's matrix functions.

Kulis 2009: JMLR 10; Tsuda 2004: NIPS 17; "design" is the project's own derivation of dual bounds.
"""

import numpy as np
import pytest
from scipy.linalg import expm, logm, null_space
from scipy.optimize import minimize, minimize_scalar

from bregmat import Constraints, Frobenius, LogDet, SquaredHinge, VonNeumann, nearest_kernel, nearest_metric
from bregmat.divergences import as_divergence
from cases import DIVERGENCES, random_pairs

CLOSE = {"rel": 1e-9, "abs": 1e-9}  # logm and inv of matrices with a condition of at most 1e4


def positive(rng, n, rank=None):
    A = rng.normal(size=(n, rank or n))
    return A @ A.T


def vector_divergence(name, x, y):
    """The scalar divergence of eigenvalues, elementwise."""
    if name == "logdet":
        return x / y - np.log(x / y) - 1
    if name == "vonneumann":
        return x * np.log(x / y) - x + y
    return (x - y) ** 2 / 2


# ---------------------------------------------------------------- Kulis 2009, section 3: the divergences
def test_kulis_1(rng):
    """tr(X log X - X log Y - X + Y); the same is eq. 1 of Tsuda 2004."""
    X, Y = positive(rng, 5), positive(rng, 5)
    assert VonNeumann()(X, Y) == pytest.approx(np.trace(X @ logm(X) - X @ logm(Y) - X + Y), **CLOSE)


def test_kulis_2(rng):
    """tr(X Y^-1) - logdet(X Y^-1) - n."""
    X, Y = positive(rng, 5), positive(rng, 5)
    P = X @ np.linalg.inv(Y)
    assert LogDet()(X, Y) == pytest.approx(np.trace(P) - np.linalg.slogdet(P)[1] - 5, **CLOSE)


@pytest.mark.parametrize("name", ["logdet", "vonneumann", "frobenius"])
def test_kulis_3(name, rng):
    """sum_ij (v_i . u_j)^2 D(lambda_i, theta_j): squared cosines between the eigenvectors."""
    X, Y = positive(rng, 5), positive(rng, 5)
    (x, V), (y, U) = np.linalg.eigh(X), np.linalg.eigh(Y)
    expected = np.sum((V.T @ U) ** 2 * vector_divergence(name, x[:, None], y))
    assert as_divergence(name)(X, Y) == pytest.approx(expected, **CLOSE)


def test_tsuda_1(rng):
    """F(X) - F(Y) - tr((X - Y) log Y) with F = tr(X log X - X); for trace 1 the last two terms of eq. 1 cancel."""
    X, Y = positive(rng, 4), positive(rng, 4)
    X, Y = X / np.trace(X), Y / np.trace(Y)
    assert VonNeumann()(X, Y) == pytest.approx(np.trace(X @ logm(X) - X @ logm(Y)), **CLOSE)


def test_kulis_proposition_12(rng):
    """LogDet does not change under M' X M, nor under scaling; the von Neumann divergence scales."""
    X, Y, M = positive(rng, 4), positive(rng, 4), rng.normal(size=(4, 4))
    assert LogDet()(M.T @ X @ M, M.T @ Y @ M) == pytest.approx(LogDet()(X, Y), rel=1e-7)
    assert LogDet()(7 * X, 7 * Y) == pytest.approx(LogDet()(X, Y), **CLOSE)
    assert VonNeumann()(7 * X, 7 * Y) == pytest.approx(7 * VonNeumann()(X, Y), **CLOSE)


def test_kulis_proposition_13(rng):
    """D_ld(X, Y) = D_vN(I, S) = D_ld(S, I) with S = Y^-1/2 X Y^-1/2."""
    X, Y = positive(rng, 4), positive(rng, 4)
    y, U = np.linalg.eigh(Y)
    root = (U / np.sqrt(y)) @ U.T
    S = root @ X @ root
    assert LogDet()(X, Y) == pytest.approx(VonNeumann()(np.eye(4), S), **CLOSE)
    assert LogDet()(X, Y) == pytest.approx(LogDet()(S, np.eye(4)), **CLOSE)


# ---------------------------------------------------------------- Kulis 2009, section 4: low rank
def low_rank_pair(rng, inside):
    """X and Y of order 6; range(X) equal to range(Y) of rank 3, or a plane in it."""
    W = np.linalg.qr(rng.normal(size=(6, 3)))[0]
    return W @ positive(rng, 3, 2 if inside else 3) @ W.T, W @ positive(rng, 3) @ W.T, W


@pytest.mark.parametrize("D", [LogDet(), VonNeumann()], ids=lambda D: D.name)
def test_kulis_definition_4(D, rng):
    """D(X, Y) = D(W'XW, W'YW) for every orthogonal W whose range holds that of Y (Lemma 5: whichever W)."""
    X, Y, W = low_rank_pair(rng, inside=False)
    Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert D(X, Y) == pytest.approx(D(W.T @ X @ W, W.T @ Y @ W), rel=1e-7)
    assert D(X, Y) == pytest.approx(D(Q.T @ W.T @ X @ W @ Q, Q.T @ W.T @ Y @ W @ Q), rel=1e-7)


@pytest.mark.parametrize("inside", [True, False])
def test_kulis_theorem_6(inside, rng):
    """von Neumann, range(X) in range(Y): the sum of eq. 3 over the r eigenvalues of Y, with 0 log 0 = 0."""
    X, Y, _ = low_rank_pair(rng, inside)
    (x, V), (y, U) = (tuple(part[..., -3:] for part in np.linalg.eigh(A)) for A in (X, Y))
    x = np.maximum(x, 0.0)
    log = np.log(np.where(x > 1e-9, x, 1.0))
    expected = np.sum((V.T @ U) ** 2 * (x * log - x)[:, None] - (V.T @ U) ** 2 * (x[:, None] * np.log(y) - y))
    if inside:  # the third eigenvector of X is not determined; Theorem 6 needs it in range(Y)
        expected = np.trace(X @ (V * log) @ V.T) - np.trace(X @ (U * np.log(y)) @ U.T) - x.sum() + y.sum()
    assert VonNeumann()(X, Y) == pytest.approx(expected, rel=1e-8)


def test_kulis_theorem_7(rng):
    """LogDet, range(X) = range(Y): the sum of eq. 3 over the r positive eigenvalues."""
    X, Y, _ = low_rank_pair(rng, inside=False)
    (x, V), (y, U) = (tuple(part[..., -3:] for part in np.linalg.eigh(A)) for A in (X, Y))
    expected = np.sum((V.T @ U) ** 2 * (x[:, None] / y - np.log(x[:, None] / y) - 1))
    assert LogDet()(X, Y) == pytest.approx(expected, rel=1e-7)


def test_kulis_observations_1_and_2(rng):
    """Finite exactly if range(X) lies in range(Y) (von Neumann), or is equal to it (LogDet)."""
    small, Y, W = low_rank_pair(rng, inside=True)
    full = positive(rng, 6)
    other = null_space(W.T) @ positive(rng, 3) @ null_space(W.T).T
    finite = {
        (name, pair): np.isfinite(
            as_divergence(name)(*{"small": (small, Y), "larger": (full, Y), "other": (other, Y)}[pair])
        )
        for name in ("logdet", "vonneumann", "frobenius")
        for pair in ("small", "larger", "other")
    }
    wrong = {("logdet", p) for p in ("small", "larger", "other")} | {("vonneumann", p) for p in ("larger", "other")}
    assert {key for key, is_finite in finite.items() if not is_finite} == wrong


@pytest.mark.parametrize("name", ["logdet", "vonneumann"])
def test_kulis_rank_is_kept(name, rng):
    """Section 4: the learned kernel has the range space of the prior."""
    G0 = rng.normal(size=(10, 3))
    result = nearest_kernel(G0 @ G0.T, random_pairs(rng, G0, 6), divergence=name, slack_weight=1.0)
    assert result.factor.shape == (10, 3)
    outside = null_space(G0.T)
    assert np.abs(outside.T @ result.factor).max() < 1e-10 * np.abs(result.factor).max()


# ---------------------------------------------------------------- Kulis 2009, section 6.2: slack and other rows
@pytest.mark.parametrize("sense", ["<=", ">="])
@pytest.mark.parametrize("name", ["logdet", "vonneumann", "frobenius"])
def test_kulis_22(name, sense, rng):
    """min over X and b of D(X, X0) + gamma d(b, b0) with <A_i, X> <= b_i, by a general-purpose optimiser over both."""
    z, gamma = rng.normal(size=(2, 2)) + np.eye(2), np.array([0.7, 3.0])
    now = (z**2).sum(axis=1)
    b0 = now * (0.4 if sense == "<=" else 2.5)
    result = nearest_metric(
        np.vstack([np.zeros(2), z]),
        Constraints.sq_distance([0, 0], [1, 2], b0, sense),
        divergence=name,
        slack_weight=gamma,
    )
    D, s = as_divergence(name), 1.0 if sense == "<=" else -1.0

    def matrix(u):
        L = np.array([[np.exp(u[0]), 0.0], [u[1], np.exp(u[2])]])
        return L @ L.T

    def total(u):
        b = b0 * np.exp(u[3:])
        return D(matrix(u), np.eye(2)) + gamma @ vector_divergence(name, b, b0)

    def room(u):
        return s * (b0 * np.exp(u[3:]) - np.einsum("ij,jk,ik->i", z, matrix(u), z))

    start = np.r_[0.0, 0.0, 0.0, np.log(now / b0) + 0.1 * s]
    given = {
        "constraints": {"type": "ineq", "fun": room},
        "bounds": [(-4, 4)] * 5,
        "options": {"ftol": 1e-12, "maxiter": 500},
    }
    other = minimize(total, start, method="SLSQP", **given)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(other.fun, rel=1e-5)


def test_kulis_22_where_the_bound_has_no_divergence(rng):
    """Rows with b <= 0 or indefinite A_i: gamma / 2 ((p - b)_+ / |b|)^2 (design, section 1)."""
    K0, gamma, b = np.array([[1.0, 0.5], [0.5, 1.0]]), 2.0, -0.4
    result = nearest_kernel(K0, Constraints.similarity(0, 1, b, "<="), divergence="frobenius", slack_weight=gamma)
    best = minimize_scalar(
        lambda k: (k - 0.5) ** 2 + gamma / 2 * (max(k - b, 0.0) / abs(b)) ** 2, bounds=(-1, 1), method="bounded"
    )
    assert result.objective == pytest.approx(best.fun, rel=1e-5)
    assert result.kernel()[0, 1] == pytest.approx(best.x, abs=1e-3)


def test_kulis_3_2_and_6_2_2_rows(rng):
    """A_i of distances (e_i - e_j)(e_i - e_j)', of similarities (e_i e_j' + e_j e_i') / 2, and their differences."""
    K = positive(rng, 5)
    G = np.linalg.cholesky(K)
    distance = {(i, j): K[i, i] + K[j, j] - 2 * K[i, j] for i in range(5) for j in range(5)}
    c = Constraints.sq_distance(0, 1, 1.0, "<=") + Constraints.similarity(1, 2, 0.0, "<=")
    c = c + Constraints.comparison(0, 1, 2, 3, 0.5) + Constraints.similarity_comparison(3, 4, 1, 1, 0.25)
    expected = [distance[0, 1], K[1, 2], distance[0, 1] - distance[2, 3], K[3, 4] - K[1, 1]]
    assert np.allclose(c.values(G), expected)
    assert c.bound.tolist() == [1.0, 0.0, -0.5, -0.25]
    assert (c.sense == 1).all()


def test_kulis_appendix_b_needs_no_correction():
    """X_11 + X_22 - 2 X_12 >= 0 holds at the identity, so the identity is the answer."""
    for D in DIVERGENCES:
        result = nearest_kernel(np.eye(2), Constraints.linear([[[1.0, -1.0], [-1.0, 1.0]]], 0.0, ">="), divergence=D)
        assert result.objective == 0.0
        assert np.allclose(result.kernel(), np.eye(2))
        assert result.dual.tolist() == [0.0]


# ---------------------------------------------------------------- design, section 4: closed forms of the dual bound
def dual_case(rng, name, slack_weight, **given):
    """A small solved problem: result, prior and dense row matrices."""
    K0 = positive(rng, 4) + 0.5 * np.eye(4)
    C = np.array([np.outer(v, v) for v in rng.normal(size=(3, 4))])
    b = np.einsum("ijk,jk->i", C, K0) * np.array([0.5, 0.6, 1.8])
    constraints = Constraints.linear(C, b, ["<=", "<=", ">="])
    result = nearest_kernel(K0, constraints, divergence=name, slack_weight=slack_weight, **given)
    assert result.status == "OPTIMAL"
    return result, K0, np.tensordot(result.dual, C, 1), b


def smooth_part(name, K0, A):
    """Infimum of D(K, K0) + <A, K>."""
    if name == "logdet":
        return np.linalg.slogdet(np.eye(4) + K0 @ A)[1]
    if name == "vonneumann":
        return np.trace(K0) - np.trace(expm(logm(K0) - A))
    t = np.linalg.eigvalsh(K0 - A)
    return np.sum(K0 * K0) / 2 - np.sum(np.maximum(t, 0) ** 2) / 2


@pytest.mark.parametrize("name", ["logdet", "vonneumann", "frobenius"])
def test_design_dual_bound_hard(name, rng):
    result, K0, A, b = dual_case(rng, name, np.inf)
    assert result.dual_bound == pytest.approx(smooth_part(name, K0, A) - result.dual @ b, **CLOSE)


@pytest.mark.parametrize("name", ["logdet", "vonneumann"])
def test_design_dual_bound_own_slack(name, rng):
    gamma = 1.5
    result, K0, A, b = dual_case(rng, name, gamma)
    mu = result.dual
    loss = -gamma * np.log(1 - mu * b / gamma) if name == "logdet" else gamma * b * (np.exp(mu / gamma) - 1)
    assert result.dual_bound == pytest.approx(smooth_part(name, K0, A) - loss.sum(), **CLOSE)


@pytest.mark.parametrize("name", ["logdet", "vonneumann", "frobenius"])
def test_design_dual_bound_squared_hinge(name, rng):
    gamma = 1.5
    result, K0, A, b = dual_case(rng, name, gamma, loss=SquaredHinge())
    mu = result.dual
    loss = mu * b + mu**2 * b**2 / (2 * gamma)
    assert result.dual_bound == pytest.approx(smooth_part(name, K0, A) - loss.sum(), **CLOSE)


def test_design_trace_eliminated(rng):
    """Tsuda 2004, eq. 8-9: the best weight of a trace row has a closed form, which the solver's bound attains."""
    K0, tau = positive(rng, 4), 1.0
    K0 = K0 / np.trace(K0)
    C = np.array([np.outer(v, v) for v in rng.normal(size=(2, 4))])
    b = 0.5 * np.einsum("ijk,jk->i", C, K0)
    result = nearest_kernel(
        K0, Constraints.trace(tau) + Constraints.linear(C, b, "<="), divergence="vonneumann", tol=1e-9
    )
    A = np.tensordot(result.dual[1:], C, 1)
    g = np.trace(K0) - tau - tau * np.log(np.trace(expm(logm(K0) - A)) / tau) - result.dual[1:] @ b
    assert result.dual_bound == pytest.approx(g, abs=1e-8)
    assert g >= result.dual_bound - 1e-12
    assert np.trace(result.kernel()) == pytest.approx(1.0, abs=1e-8)


def test_frobenius_is_half_the_squared_norm(rng):
    X, Y = positive(rng, 4), positive(rng, 4)
    assert Frobenius()(X, Y) == pytest.approx(np.linalg.norm(X - Y) ** 2 / 2, **CLOSE)
