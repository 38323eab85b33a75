"""The cyclic projection against the page, sweep by sweep, with dense matrices and SciPy.

Kulis 2009: JMLR 10, sections 3.4, 5 and 6.2, appendix B. Algorithm 1 (CHOLUPDATEMULT) is transcribed in test_row_kernels.py; the
vector case is in test_simplex.py; DefiniteBoost in test_equations_boost.py. The paper's alpha is minus the change of the multiplier.
"""

import itertools

import numpy as np
import pytest
from scipy.linalg import expm, logm
from scipy.optimize import brentq, minimize

from bregmat import Constraints, CyclicProjection, Factor, RelativeSlack, nearest_kernel
from cases import watch
from formulas import gradient, matrix_divergence, symmetric, well_conditioned

NAMES = ("logdet", "vonneumann")
CLOSE = {"rtol": 1e-8, "atol": 1e-9}  # logm and inv of matrices with a condition of 1e3
pair = Constraints.sq_distance


def root(f, low, high):
    return brentq(f, low, high, xtol=1e-300, rtol=1e-14, maxiter=1000)


def moved(name, X, A, alpha):
    """grad phi(X_t+1) = grad phi(X_t) + alpha A (eq. 7 and 9)."""
    if name == "logdet":
        return np.linalg.inv(np.linalg.inv(X) - alpha * A)
    return expm(logm(X) + alpha * A)


def parameter(name, X, A, f):
    """The alpha at which f(tr(X_t+1 A), alpha) = 0, by Brent's method between the ends of the cone."""
    if name == "logdet":
        L = np.linalg.cholesky(X)
        d = np.linalg.eigvalsh(L.T @ A @ L)
        low = 1 / d[0] * (1 - 1e-11) if d[0] < -1e-12 * d[-1] else -1e5
        high = 1 / d[-1] * (1 - 1e-11) if d[-1] > -1e-12 * d[0] else 1e5
    else:
        size = np.linalg.norm(A, 2)
        low, high = -40 / size, 12 / size
        low, high = (low, high) if np.trace(A) >= 0 else (-high, -low)
    return root(lambda a: f(np.trace(moved(name, X, A, a) @ A), a), low, high)


def page(name, X0, A, b, sense, sweeps):
    """Section 3.4 for rows of any rank: cyclic projections with the correction of eq. 8; (X, -nu) after each sweep."""
    X, nu, out = X0, np.zeros(len(b)), [(X0, np.zeros(len(b)))]
    for _ in range(sweeps):
        for i in range(len(b)):
            p = np.trace(X @ A[i])
            if sense[i] != 0 and nu[i] == 0 and sense[i] * (p - b[i]) <= 0:
                continue  # alpha >= 0 = nu: alpha' = 0
            alpha = parameter(name, X, A[i], lambda q, a, i=i: q - b[i])
            corrected = {1: min, -1: max}[int(sense[i])](nu[i], alpha) if sense[i] else alpha
            nu[i] -= corrected
            X = moved(name, X, A[i], corrected)
        out.append((X, nu.copy()))
    return out


def agree(found, expected):
    """Matrices and multipliers (nu of the page with our sign) after every sweep."""
    assert len(found) == len(expected)
    for (K, mu), (X, nu) in zip(found, expected):
        assert np.allclose(K, X, rtol=0, atol=1e-8 * np.abs(X).max())
        assert np.allclose(mu, nu, rtol=1e-7, atol=1e-8 * max(1e-300, np.abs(nu).max()))


def shapes(i, j, sign=-1.0):
    """Symmetric matrices of order 6 of a distance (i, j), a diagonal entry (i, i) or, with K_ij alone, a similarity."""
    e = np.eye(6)
    v = e[i] + (sign * e[j] if i != j else 0.0)
    return np.outer(v, v)


def similarity(i, j):
    A = np.zeros((6, 6))
    A[i, j] += 0.5
    A[j, i] += 0.5
    return A


# ---------------------------------------------------------------- Kulis 2009, section 3.4: corrections
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sense", ["<=", ">="])
def test_kulis_8(name, sense, rng):
    """alpha' = min(nu, alpha), nu <- nu - alpha': a bound that moves away takes the multiplier back, at most all of it."""
    X0 = well_conditioned(rng, 6)
    A, far = shapes(0, 3), {"<=": 0.5, ">=": 2.0}[sense]
    p0 = np.trace(A @ X0)
    tight = nearest_kernel(X0, pair(0, 3, far * p0, sense), divergence=name, tol=1e-13)
    nu, X1 = tight.dual[0], tight.kernel()
    flip = 1.0 if sense == "<=" else -1.0
    for factor in (far**0.5, far**2, 1.0, 1 / far):  # looser, tighter, at the prior's value, met by the prior with room
        b = factor * p0
        alpha = flip * parameter(name, X1, A, lambda q, a, b=b: q - b)
        corrected = min(flip * nu, alpha)
        states, _ = watch(X0, pair(0, 3, b, sense), divergence=name, warm_start=tight)
        (start, before), (X2, after) = states
        assert np.allclose(start, X1, rtol=1e-6)
        assert before[0] == pytest.approx(nu)
        # the start is known to 1e-6 of the multiplier, at which the tight problem was solved
        assert after[0] == pytest.approx(flip * (flip * nu - corrected), abs=1e-6 * abs(nu))
        assert flip * after[0] >= 0
        assert np.allclose(X2, moved(name, X1, A, flip * corrected), rtol=0, atol=1e-5 * np.abs(X1).max())
        if factor == 1 / far:
            assert after[0] == 0
            assert np.allclose(X2, X0, rtol=0, atol=1e-5 * np.abs(X0).max())


@pytest.mark.parametrize("name", NAMES)
def test_kulis_8_leaves_a_matrix_alone_that_meets_its_row(name):
    """Appendix B: X_11 + X_22 - 2 X_12 >= 1 at the identity, where it is 2; a projection on the plane would be wrong."""
    (_, (K, mu)), result = watch(np.eye(2), pair(0, 1, 1.0, ">="), divergence=name)
    assert result.status == "OPTIMAL"
    assert (mu[0], result.objective) == (0.0, 0.0)
    assert np.array_equal(K, np.eye(2))


def every_relation(rng, X0):
    """Rows of ranks one, two and more, both senses and equalities, that a matrix near X0 meets, and their A_i."""
    C, v = symmetric(rng, 6), rng.normal(size=(6, 3))
    F = np.eye(6) + 0.15 * rng.normal(size=(6, 6))
    X = F @ X0 @ F.T
    A = np.array(
        [
            shapes(0, 3),
            similarity(1, 2),
            shapes(0, 1) - shapes(2, 4),
            similarity(1, 5) - similarity(3, 4),
            C,
            v @ v.T,
            shapes(5, 5),
        ]
    )
    b = np.einsum("cij,ji->c", A, X)
    sense = np.where(b < np.einsum("cij,ji->c", A, X0), 1, -1)
    text = np.where(sense > 0, "<=", ">=")
    if sense[2] < 0:  # comparisons are <= rows
        A[2], b[2], sense[2] = -A[2], -b[2], 1
    if sense[3] < 0:
        A[3], b[3], sense[3] = -A[3], -b[3], 1
    nearer = (0, 1, 2, 4) if A[2][0, 0] > 0 else (2, 4, 0, 1)
    smaller = (1, 5, 3, 4) if A[3][1, 5] > 0 else (3, 4, 1, 5)
    sense[6] = 0
    rows = (
        pair(0, 3, b[0], str(text[0]))
        + Constraints.similarity(1, 2, b[1], str(text[1]))
        + Constraints.comparison(*nearer, -b[2])
        + Constraints.similarity_comparison(*smaller, -b[3])
        + Constraints.linear([C], b[4], str(text[4]))
        + Constraints.linear([(v, np.ones(3))], b[5], str(text[5]))
        + Constraints.diagonal([b[6]], [5])
    )
    return A, b, sense, rows


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_kulis_9(name, rng):
    """grad phi(X_t+1) = grad phi(X_t) + alpha' A_i over four sweeps of rows of every relation; so grad phi moves by -sum nu_i A_i."""
    X0 = well_conditioned(rng, 6)
    A, b, sense, rows = every_relation(rng, X0)
    found, _ = watch(X0, rows, divergence=name, sweeps=4)
    agree(found, page(name, X0, A, b, sense, 4))
    for X, mu in found:
        change = gradient(name, X) - gradient(name, X0)
        assert np.allclose(change, -np.tensordot(mu, A, 1), rtol=0, atol=1e-8 * max(1.0, np.abs(change).max()))


# ---------------------------------------------------------------- Kulis 2009, section 5.1: LogDet
def rank_one(rng):
    """A matrix of rank 3 with its factor, the vector of a distance row, and z'Xz."""
    G = rng.normal(size=(6, 3))
    z = np.eye(6)[1] - np.eye(6)[4]
    return G, G @ G.T, z, z @ G @ G.T @ z


@pytest.mark.parametrize("shrink", [0.01, 0.7, 30.0])
def test_kulis_19(shrink, rng):
    """alpha = 1/p - 1/b, p the value of the row before the projection; twice, so that p is not the prior's."""
    G, X, z, p = rank_one(rng)
    b = shrink * p
    u = np.eye(6)[2] - np.eye(6)[4]
    rows = pair([1, 2], [4, 4], [b, 0.5 * (u @ X @ u)], "==")
    (_, (_, mu)), _ = watch(Factor(G), rows)
    alpha = 1 / p - 1 / b
    X1 = X + alpha / (1 - alpha * p) * np.outer(X @ z, z @ X)
    assert mu[0] == pytest.approx(-alpha, rel=1e-12)
    assert mu[1] == pytest.approx(-(1 / (u @ X1 @ u) - 1 / (0.5 * (u @ X @ u))), rel=1e-9)


@pytest.mark.parametrize("shrink", [0.01, 0.7, 30.0])
def test_kulis_20(shrink, rng):
    """beta = alpha / (1 - alpha p), which is (b - p) / p^2: read off X_t+1 - X_t = beta X_t z z' X_t."""
    G, X, z, p = rank_one(rng)
    ((_, _), (X1, mu)), _ = watch(Factor(G), pair(1, 4, shrink * p, "=="))
    beta = (z @ (X1 - X) @ z) / p**2
    assert beta == pytest.approx(-mu[0] / (1 + mu[0] * p), rel=1e-9)
    assert beta == pytest.approx((shrink - 1) / p, rel=1e-9)


@pytest.mark.parametrize("shrink", [0.01, 0.7, 30.0])
def test_kulis_21(shrink, rng):
    """X_t+1 = X_t + beta X_t z z' X_t, and the row is at its bound."""
    G, X, z, p = rank_one(rng)
    ((_, _), (X1, _)), _ = watch(Factor(G), pair(1, 4, shrink * p, "=="))
    assert np.allclose(X1, X + (shrink - 1) / p * np.outer(X @ z, z @ X), **CLOSE)
    assert z @ X1 @ z == pytest.approx(shrink * p, rel=1e-12)


def distances(rng, G, c=9):
    """Distance rows in both directions that another matrix of the same range meets, by their samples."""
    H = G @ (np.eye(G.shape[1]) + 0.3 * rng.normal(size=(G.shape[1], G.shape[1])))
    i, j = np.array(list(itertools.combinations(range(len(G)), 2)))[rng.permutation(15)[:c]].T
    d0, d = (((F[i] - F[j]) ** 2).sum(axis=1) for F in (G, H))
    return i, j, d, np.where(d < d0, 1, -1)


def test_kulis_algorithm_2(rng):
    """The page's loop over B with w = B'v, alpha = min(nu, 1/|w|^2 - 1/b), beta = alpha / (1 - alpha |w|^2), B <- B L; G = G0 B."""
    G0 = rng.normal(size=(6, 4))
    i, j, b, sense = distances(rng, G0)
    B, nu, expected = np.eye(4), np.zeros(len(b)), [(G0 @ G0.T, np.zeros(len(b)))]
    for _ in range(6):
        for k in range(len(b)):
            v = G0[i[k]] - G0[j[k]]
            w = B.T @ v
            alpha = 1 / (w @ w) - 1 / b[k]
            alpha = min(nu[k], alpha) if sense[k] > 0 else max(nu[k], alpha)
            nu[k] -= alpha
            beta = alpha / (1 - alpha * (w @ w))
            B = B @ np.linalg.cholesky(np.eye(4) + beta * np.outer(w, w))
        expected.append((G0 @ B @ B.T @ G0.T, nu.copy()))
    found, result = watch(Factor(G0), pair(i, j, b, np.where(sense > 0, "<=", ">=")), sweeps=6)
    agree(found, expected)
    assert result.trace["projections"].sum() > 20
    assert result.trace["evaluations"].sum() == 0  # closed forms only


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rank", [2, 5])
def test_kulis_lemma_9(name, rank, rng):
    """After every sweep, of rows of every rank and sign: positive semidefinite with the range of the prior."""
    G = rng.normal(size=(6, rank))
    X0 = G @ G.T
    A, b, sense, rows = every_relation(rng, X0)
    found, _ = watch(Factor(G), rows, divergence=name, sweeps=5)
    base, outside = np.linalg.qr(G)[0], np.linalg.qr(G, mode="complete")[0][:, rank:]
    moved_at_all = False
    for X, mu in found:
        values = np.linalg.eigvalsh(base.T @ X @ base)
        assert values[0] > 1e-9 * values[-1]
        assert np.abs(outside.T @ X).max() <= 1e-12 * values[-1]
        moved_at_all |= bool(mu.any())
    assert moved_at_all


# ---------------------------------------------------------------- Kulis 2009, section 5.2: von Neumann
def test_kulis_algorithm_3(rng):
    """The page's loop over W and Theta: ZEROFINDER by Brent's method, beta = min(nu, alpha), eigenvectors of Theta + beta w w'."""
    G0 = rng.normal(size=(6, 4))
    i, j, b, sense = distances(rng, G0)
    lam0, V0 = np.linalg.eigh(G0 @ G0.T)
    lam0, V0 = lam0[2:], V0[:, 2:]
    W, theta, nu, expected = np.eye(4), np.log(lam0), np.zeros(len(b)), [(G0 @ G0.T, np.zeros(len(b)))]
    for _ in range(6):
        for k in range(len(b)):
            w = W.T @ (V0[i[k]] - V0[j[k]])

            def f(alpha, w=w, k=k, theta=theta):
                return w @ expm(np.diag(theta) + alpha * np.outer(w, w)) @ w - b[k]

            if sense[k] * f(0.0) <= 0 and nu[k] == 0:
                continue
            alpha = root(f, -60 / (w @ w), 20 / (w @ w))
            beta = min(nu[k], alpha) if sense[k] > 0 else max(nu[k], alpha)
            nu[k] -= beta
            theta, U = np.linalg.eigh(np.diag(theta) + beta * np.outer(w, w))
            W = W @ U
        V = V0 @ W
        expected.append(((V * np.exp(theta)) @ V.T, nu.copy()))
    rows = pair(i, j, b, np.where(sense > 0, "<=", ">="))
    found, result = watch(Factor(G0), rows, sweeps=6, divergence="vonneumann")
    agree(found, expected)
    # section 5.2.2: rarely more than six evaluations a projection
    usual = watch(Factor(G0), rows, CyclicProjection(), sweeps=6, divergence="vonneumann")[1].trace
    assert usual["evaluations"].sum() <= 7 * (usual["projections"].sum() + 1)


# ---------------------------------------------------------------- Kulis 2009, section 6.2.1: slack
def slack_page(name, X0, A, b0, sense, gamma, sweeps, step):
    """Eq. 23 over rows of rank one, with the correction of eq. 8; ``step(p, b, i)`` gives alpha, b moves with it."""
    X, b, nu, out = X0, b0.copy(), np.zeros(len(b0)), [(X0, np.zeros(len(b0)))]
    for _ in range(sweeps):
        for i in range(len(b)):
            alpha = step(X, b[i], i)
            alpha = min(nu[i], alpha) if sense[i] > 0 else max(nu[i], alpha) if sense[i] < 0 else alpha
            nu[i] -= alpha
            X = moved(name, X, A[i], alpha)
            if name == "logdet":
                b[i] = gamma[i] * b[i] / (gamma[i] + alpha * b[i])
            else:
                b[i] = b[i] * np.exp(-alpha / gamma[i])
        out.append((X, nu.copy()))
    return out, b


def slack_case(rng):
    """Distances and diagonal entries of a prior, bounds that no matrix meets all of, weights of two sizes."""
    X0 = well_conditioned(rng, 6)
    pairs = [(0, 1), (1, 2), (0, 2), (3, 3), (4, 4), (3, 4), (0, 1)]
    A = np.array([shapes(*x) for x in pairs])
    b = np.einsum("cij,ji->c", A, X0) * np.array([0.2, 0.2, 3.0, 0.5, 0.4, 4.0, 1.4])
    sense = np.array([1, 1, -1, 0, 0, -1, -1])
    rows = pair([0, 1], [1, 2], b[:2], "<=") + pair(0, 2, b[2], ">=") + Constraints.diagonal(b[3:5], [3, 4])
    rows = rows + pair([3, 0], [4, 1], b[5:], ">=")
    return X0, A, b, sense, rows, np.array([1.0, 0.2, 1.0, 5.0, 1.0, 3.0, 0.5])


def test_kulis_23_logdet(rng):
    """alpha = gamma / (gamma + 1) (1/p - 1/b), b <- gamma b / (gamma + alpha b); it solves eq. 23, by Brent's method."""
    X0, A, b0, sense, rows, gamma = slack_case(rng)

    def step(X, b, i):
        p = np.trace(X @ A[i])
        alpha = gamma[i] / (gamma[i] + 1) * (1 / p - 1 / b)
        low, high = -gamma[i] / b, 1 / p

        def f(a):  # tr(X_t+1 A) = e'b_t+1
            return p / (1 - a * p) - gamma[i] * b / (gamma[i] + a * b)

        assert alpha == pytest.approx(root(f, low * (1 - 1e-12), high * (1 - 1e-12)), rel=1e-6, abs=1e-9)
        return alpha

    expected, b = slack_page("logdet", X0, A, b0, sense, gamma, 6, step)
    found, result = watch(X0, rows, sweeps=6, slack_weight=gamma)
    agree(found, expected)
    # what has moved: xi = b / (1 - mu b / gamma), and its divergence is the price in eq. 22
    assert np.allclose(b, b0 / (1 - found[-1][1] * b0 / gamma), rtol=1e-9)


@pytest.mark.slow
def test_kulis_23_vonneumann(rng):
    """log tr(exp(log X + alpha A) A) + alpha / gamma - log b = 0, and log b <- log b - alpha / gamma."""
    X0, A, b0, sense, rows, gamma = slack_case(rng)

    def step(X, b, i):
        return parameter("vonneumann", X, A[i], lambda q, a: np.log(q) + a / gamma[i] - np.log(b))

    expected, b = slack_page("vonneumann", X0, A, b0, sense, gamma, 4, step)
    found, _ = watch(X0, rows, sweeps=4, slack_weight=gamma, divergence="vonneumann")
    agree(found, expected)
    assert np.allclose(b, b0 * np.exp(found[-1][1] / gamma), rtol=1e-9)


def test_kulis_6_2_1_relative_penalty_by_projections(rng):
    """gamma D(b / b0, 1) for von Neumann: the update of eq. 23 with gamma / b0."""
    X0, A, b0, sense, rows, gamma = slack_case(rng)
    weight = gamma / b0

    def step(X, b, i):
        return parameter("vonneumann", X, A[i], lambda q, a: np.log(q) + a / weight[i] - np.log(b))

    expected, _ = slack_page("vonneumann", X0, A, b0, sense, weight, 3, step)
    found, _ = watch(X0, rows, sweeps=3, slack_weight=gamma, loss=RelativeSlack(), divergence="vonneumann")
    agree(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_kulis_22_by_projections(name, rng):
    """min D(X, X0) + gamma D(b, b0), tr(X A_i) <= b_i, >=, ==: the limit, by a general optimiser over X = exp(S)."""
    X0, A, b0, sense, rows, gamma = slack_case(rng)
    result = nearest_kernel(X0, rows, divergence=name, slack_weight=gamma, solver="cyclic_projection", tol=1e-9)
    assert result.status == "OPTIMAL"
    at = np.tril_indices(6)

    def value(s):
        S = np.zeros((6, 6))
        S[at] = s
        X = expm((S + S.T) / 2)
        p = np.einsum("cij,ji->c", A, X)
        q = p / b0
        cost = q - np.log(q) - 1 if name == "logdet" else b0 * (q * np.log(q) - q + 1)
        hit = (sense == 0) | (sense * (p - b0) > 0)
        return matrix_divergence(name, X, X0) + np.sum((gamma * cost)[hit])

    S = np.real(logm(result.kernel()))
    start = np.where(at[0] == at[1], 1.0, 2.0) * S[at]
    assert value(start) == pytest.approx(result.objective, rel=1e-9)
    other = minimize(value, start + 0.05 * rng.normal(size=len(start)), method="L-BFGS-B", options={"maxiter": 500})
    assert other.fun >= result.objective - 1e-8
    assert other.fun == pytest.approx(result.objective, rel=1e-4)


# ---------------------------------------------------------------- Kulis 2009, section 6.2.2: other rows
ROWS = {
    "similarity": (similarity(1, 4), lambda b, s: Constraints.similarity(1, 4, b, s)),
    "diagonal": (similarity(2, 2), lambda b, s: Constraints.similarity(2, 2, b, s)),
    "comparison": (shapes(0, 1) - shapes(2, 3), lambda b, s: Constraints.comparison(0, 1, 2, 3, -b)),
    "comparison that shares a point": (
        shapes(0, 1) - shapes(0, 3),
        lambda b, s: Constraints.comparison(0, 1, 0, 3, -b),
    ),
    "comparison of similarities": (
        similarity(0, 1) - similarity(2, 3),
        lambda b, s: Constraints.similarity_comparison(0, 1, 2, 3, -b),
    ),
    "comparison of a similarity with a diagonal entry": (
        similarity(0, 1) - similarity(1, 1),
        lambda b, s: Constraints.similarity_comparison(0, 1, 1, 1, -b),
    ),
    "low rank": (
        shapes(0, 5) + 2 * shapes(1, 1),
        lambda b, s: Constraints.linear([shapes(0, 5) + 2 * shapes(1, 1)], b, s),
    ),
    "full rank": (
        np.diag([1.0, 2, -1, 3, -2, 0.5]) + 0.3,
        lambda b, s: Constraints.linear([np.diag([1.0, 2, -1, 3, -2, 0.5]) + 0.3], b, s),
    ),
    "the trace": (np.eye(6), lambda b, s: Constraints.linear([np.eye(6)], b, s)),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("size", [-0.5, -0.02])
def test_kulis_6_2_2(kind, name, size, rng):
    """One projection on tr(X A) = b: alpha by brute force; two Sherman-Morrison updates for rank two."""
    A, row = ROWS[kind]
    X = well_conditioned(rng, 6)
    b = np.trace(A @ X) + size * np.linalg.norm(A)
    alpha = parameter(name, X, A, lambda q, a: q - b)
    (_, (X1, mu)), result = watch(X, row(b, "<="), divergence=name)
    assert mu[0] == pytest.approx(-alpha, rel=1e-8)
    assert np.trace(A @ X1) == pytest.approx(b, rel=1e-8, abs=1e-9)
    assert np.allclose(X1, moved(name, X, A, alpha), rtol=0, atol=1e-8 * np.abs(X).max())
    assert result.status == "OPTIMAL" or result.gap * result.unit < 1e-12
    if name == "logdet" and np.linalg.matrix_rank(A) <= 2:
        values, V = np.linalg.eigh(A)
        for s, v in zip(values, V.T):
            if abs(s) > 1e-12:
                X = X + alpha * s / (1 - alpha * s * (v @ X @ v)) * np.outer(X @ v, v @ X)
        assert np.allclose(X1, X, rtol=0, atol=1e-8 * np.abs(X).max())
        # in closed form, as the page has it; comparisons of similarities are four terms, whatever their rank
        assert result.trace["evaluations"].sum() == 0 or kind.startswith("comparison of")


# ---------------------------------------------------------------- Kulis 2009, appendix B
@pytest.mark.parametrize("name", NAMES)
def test_appendix_b_corrections_decide(name, rng):
    """Without corrections the end is feasible and farther away; with them the projection, which another solver finds as well."""
    G = rng.normal(size=(6, 4))
    i, j, b, sense = distances(rng, G)
    rows = pair(i, j, b, np.where(sense > 0, "<=", ">="))
    best = nearest_kernel(Factor(G), rows, divergence=name, solver="dual_newton", tol=1e-10)
    wrong = nearest_kernel(Factor(G), rows, divergence=name, solver=CyclicProjection(corrected=False))
    right = nearest_kernel(Factor(G), rows, divergence=name, solver=CyclicProjection(), tol=1e-10)
    assert right.gap < 1e-8
    assert np.allclose(right.kernel(), best.kernel(), rtol=0, atol=1e-5 * np.abs(best.kernel()).max())
    assert wrong.max_violation <= 1e-9
    assert wrong.objective > best.objective
    assert wrong.objective == pytest.approx(matrix_divergence(name, *_inside(G, wrong.kernel())), rel=1e-6)


def _inside(G, K):
    """K and G G' in an orthonormal basis of the range (Kulis 2009, Definition 4)."""
    W = np.linalg.qr(G)[0]
    return W.T @ K @ W, W.T @ G @ G.T @ W
