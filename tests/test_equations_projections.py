"""Projections against the page: one test per numbered equation or lemma on single rows, low rank, and rows with trace one.

Kulis 2009: JMLR 10, sections 3.3 to 5.1; Tsuda 2004: NIPS 17, sections 3 and 4. Expected values come from SciPy's matrix
functions, root finders and optimisers. Slack and the project's own dual bounds are in test_equations.py.
"""

import numpy as np
import pytest
from scipy.linalg import expm, logm, null_space, pinvh
from scipy.optimize import brentq, minimize

from bregmat import Constraints, Factor, Squared, nearest_kernel
from cases import random_pairs
from formulas import (
    NAMES,
    close,
    gradient,
    matrix_divergence,
    orthogonal,
    positive,
    symmetric,
    vector_divergence,
    well_conditioned,
)

WEIGHT = 1e-4  # relative accuracy of a dual weight: the root of the gap of 1e-9, with some room


# ---------------------------------------------------------------- Kulis 2009, section 3.3: the problem
@pytest.mark.parametrize("name", ["logdet", "vonneumann"])
def test_kulis_5(name, rng):
    """min D(X, X0) with z_i' X z_i <= b_i and rank(X) <= r, by a general-purpose optimiser over X = W L L' W'."""
    W, Y = orthogonal(rng, 5, 2), well_conditioned(rng, 2)
    X0, z = W @ Y @ W.T, rng.normal(size=(3, 5))
    b = np.einsum("ij,jk,ik->i", z, X0, z) * np.array([0.3, 0.5, 0.9])
    result = nearest_kernel(X0, Constraints.linear(np.einsum("ij,ik->ijk", z, z), b, "<="), divergence=name)

    def small(u):
        L = np.array([[np.exp(u[0]), 0.0], [u[1], np.exp(u[2])]])
        return L @ L.T

    room = {"type": "ineq", "fun": lambda u: b - np.einsum("ij,jk,ik->i", z @ W, small(u), z @ W)}
    start = np.array([np.log(0.3), 0.0, np.log(0.3)])
    given = {"constraints": room, "options": {"ftol": 1e-13, "maxiter": 500}}
    y, U = np.linalg.eigh(Y)

    def value(u):  # Theorems 6 and 7
        x, V = np.linalg.eigh(small(u))
        return np.sum((V.T @ U) ** 2 * vector_divergence(name, x[:, None], y))

    other = minimize(value, start, method="SLSQP", **given)
    assert result.status == "OPTIMAL"
    assert result.objective == pytest.approx(other.fun, rel=1e-6)
    assert np.allclose(result.kernel(), W @ small(other.x) @ W.T, atol=1e-3 * np.abs(X0).max())
    assert np.linalg.matrix_rank(result.kernel(), tol=1e-9) == 2


# ---------------------------------------------------------------- Kulis 2009, section 3.4: projections on one row
def projection(name, X, A, b):
    """The projection of X (an array or a Factor) on tr(X A) = b as learned, and its parameter alpha = -dual."""
    return learned(X, Constraints.linear([A], b, "=="), divergence=name)


def learned(X, row, **given):
    """The learned kernel and alpha = -dual for one row, solved to rounding, and to a gap of 1e-9 for sure."""
    result = nearest_kernel(X, row, tol=1e-13, **given)
    assert result.gap <= 1e-9
    return result.kernel(), -result.dual[0]


def alpha_range(X, A):
    """The interval of alpha in which X^-1 - alpha A is positive definite (used on the range of X)."""
    x, U = np.linalg.eigh(X)
    values = np.linalg.eigvalsh((U * np.sqrt(np.maximum(x, 0))).T @ A @ (U * np.sqrt(np.maximum(x, 0))))
    low = 1 / values[0] if values[0] < -1e-12 else -1e4
    high = 1 / values[-1] if values[-1] > 1e-12 else 1e4
    return low * (1 - 1e-9), high * (1 - 1e-9)


def root(f, low, high):
    return brentq(f, low, high, xtol=1e-14, rtol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_kulis_6(name, rng):
    """The nearest matrix of the plane tr(X A) = b: D(Y, X_t) = D(Y, X_t+1) + D(X_t+1, X_t) for every other Y in it."""
    X, A = well_conditioned(rng, 4), symmetric(rng, 4)
    b = np.trace(X @ A) + 0.4 * np.linalg.norm(A)  # Frobenius moves by 0.4, less than the smallest eigenvalue of X
    new, _ = projection(name, X, A, b)
    assert np.trace(new @ A) == pytest.approx(b, abs=1e-8)
    for _ in range(5):
        Y = new + 0.02 * symmetric(rng, 4)
        Y += (b - np.trace(Y @ A)) / np.sum(A * A) * A
        far = matrix_divergence(name, Y, X)
        parts = matrix_divergence(name, Y, new) + matrix_divergence(name, new, X)
        assert far == pytest.approx(parts, rel=WEIGHT)
        assert far > matrix_divergence(name, new, X)


@pytest.mark.parametrize("name", NAMES)
def test_kulis_7(name, rng):
    """grad phi(X_t+1) = grad phi(X_t) + alpha A and tr(X_t+1 A) = b, for A of any rank and sign."""
    X, A = well_conditioned(rng, 4), symmetric(rng, 4)
    for b in np.trace(X @ A) + np.array([-0.4, 0.4]) * np.linalg.norm(A):
        new, alpha = projection(name, X, A, b)
        assert np.trace(new @ A) == pytest.approx(b, abs=1e-8)
        step = gradient(name, new) - gradient(name, X)
        assert np.allclose(step, alpha * A, atol=WEIGHT * np.abs(step).max())
        assert np.sign(alpha) == np.sign(b - np.trace(X @ A))


@pytest.mark.parametrize("shrink", [0.2, 3.0])
def test_kulis_10(shrink, rng):
    """(X^-1 - alpha z z')^-1 and exp(log X + alpha z z'), alpha the root of z' X_t+1 z = b."""
    X, z = well_conditioned(rng, 4), rng.normal(size=4)
    A, b = np.outer(z, z), shrink * (z @ X @ z)
    formulas = {
        "logdet": (lambda a: np.linalg.inv(np.linalg.inv(X) - a * A), alpha_range(X, A)),
        "vonneumann": (lambda a: expm(logm(X) + a * A), (-20.0, 5.0)),
    }
    for name, (update, (low, high)) in formulas.items():
        alpha = root(lambda a, update=update: z @ update(a) @ z - b, low, high)
        new, found = projection(name, X, A, b)
        assert found == pytest.approx(alpha, rel=WEIGHT)
        assert close(new, update(alpha))


# ---------------------------------------------------------------- Kulis 2009, section 4: low rank
def low_rank_case(rng, n=6, r=3):
    """A matrix of rank r with its factor and reduced eigenvectors, and a row matrix."""
    G = rng.normal(size=(n, r))
    X = G @ G.T
    V = np.linalg.eigh(X)[1][:, n - r :]
    return G, X, V, symmetric(rng, n)


@pytest.mark.parametrize("name", ["logdet", "vonneumann"])
def test_kulis_rank_is_kept(name, rng):
    """Section 4: the learned kernel has the range space of the prior."""
    G0 = rng.normal(size=(10, 3))
    result = nearest_kernel(G0 @ G0.T, random_pairs(rng, G0, 6), divergence=name, slack_weight=1.0)
    assert result.factor.shape == (10, 3)
    outside = null_space(G0.T)
    assert np.abs(outside.T @ result.factor).max() < 1e-10 * np.abs(result.factor).max()


@pytest.mark.parametrize("name", ["logdet", "vonneumann"])
def test_kulis_14(name, rng):
    """The full-rank problem of W'X0W and W'A_iW has the same optimum, and X = W X^ W'."""
    _, X0, V, _ = low_rank_case(rng)
    W = V @ orthogonal(rng, 3)
    A = np.array([symmetric(rng, 6) for _ in range(3)])
    b = np.einsum("cij,ji->c", A, X0) - 2.0
    inner = Constraints.linear(np.einsum("ji,cjk,kl->cil", W, A, W), b, "<=")
    full = nearest_kernel(X0, Constraints.linear(A, b, "<="), divergence=name, tol=1e-9)
    small = nearest_kernel(W.T @ X0 @ W, inner, divergence=name, tol=1e-9)
    assert full.status == small.status == "OPTIMAL"
    assert full.objective == pytest.approx(small.objective, rel=1e-6)
    assert np.allclose(full.kernel(), W @ small.kernel() @ W.T, atol=1e-3)
    assert matrix_divergence(name, small.kernel(), W.T @ X0 @ W) == pytest.approx(full.objective, rel=1e-5)


@pytest.mark.parametrize("kind", ["dense", "factor"])
def test_kulis_15(kind, rng):
    """von Neumann: V exp(log Lambda + alpha V'AV) V'."""
    G, X, V, A = low_rank_case(rng)
    b = np.trace(X @ A) + 5.0
    start = logm(V.T @ X @ V)

    def update(a):
        return V @ expm(start + a * V.T @ A @ V) @ V.T

    alpha = root(lambda a: np.trace(update(a) @ A) - b, -5.0, 5.0)
    new, found = projection("vonneumann", Factor(G) if kind == "factor" else X, A, b)
    assert found == pytest.approx(alpha, rel=WEIGHT)
    assert close(new, update(alpha))


@pytest.mark.parametrize("kind", ["dense", "factor"])
def test_kulis_16(kind, rng):
    """LogDet: V ((V'XV)^-1 - alpha V'AV)^-1 V'."""
    G, X, V, A = low_rank_case(rng)
    b = np.trace(X @ A) + 5.0

    def update(a):
        return V @ np.linalg.inv(np.linalg.inv(V.T @ X @ V) - a * V.T @ A @ V) @ V.T

    alpha = root(lambda a: np.trace(update(a) @ A) - b, *alpha_range(X, A))
    new, found = projection("logdet", Factor(G) if kind == "factor" else X, A, b)
    assert found == pytest.approx(alpha, rel=WEIGHT)
    assert close(new, update(alpha))


# ---------------------------------------------------------------- Kulis 2009, section 5.1.1: LogDet, one rank-one row
def rank_one_case(rng):
    """A matrix of rank 3 with its factor, a distance row z = e_1 - e_4, and p = z'Xz."""
    G, X, V, _ = low_rank_case(rng)
    z = np.eye(6)[1] - np.eye(6)[4]
    return G, X, V, z, z @ X @ z


@pytest.mark.parametrize("shrink", [0.1, 0.9, 4.0])
def test_kulis_17(shrink, rng):
    """X + alpha X z z' X / (1 - alpha z'Xz), equal to eq. 16 by Sherman-Morrison."""
    _, X, V, z, p = rank_one_case(rng)
    new, alpha = learned(X, Constraints.sq_distance(1, 4, shrink * p, "=="))
    expected = X + alpha * np.outer(X @ z, z @ X) / (1 - alpha * p)
    assert close(new, expected)
    assert close(V @ np.linalg.inv(np.linalg.inv(V.T @ X @ V) - alpha * np.outer(V.T @ z, z @ V)) @ V.T, expected)


@pytest.mark.parametrize("shrink", [0.1, 0.9, 4.0])
def test_kulis_18(shrink, rng):
    """z'(X + alpha X z z' X / (1 - alpha z'Xz))z = b has one root, below 1/p; with p = 0 and b = 0 nothing moves."""
    _, X, _, z, p = rank_one_case(rng)
    b = shrink * p

    def rest(a):
        return z @ (X + a * np.outer(X @ z, z @ X) / (1 - a * p)) @ z - b

    alpha = root(rest, -1e3 / p, (1 - 1e-9) / p)
    assert learned(X, Constraints.sq_distance(1, 4, b, "=="))[1] == pytest.approx(alpha, rel=WEIGHT)
    beyond = np.linspace(1.0001, 100, 50) / p  # on the other side of the pole the values are negative
    assert all(rest(a) < -b for a in beyond)
    same = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0]])
    result = nearest_kernel(Factor(same), Constraints.sq_distance(0, 1, 0.0, "=="))
    assert result.status == "OPTIMAL"
    assert np.allclose(result.kernel(), same @ same.T, atol=1e-14)
    with pytest.raises(ValueError, match="can never hold"):
        nearest_kernel(Factor(same), Constraints.sq_distance(0, 1, 0.1, "=="))


@pytest.mark.parametrize("b", [1e-6, 0.3, 1e6])
def test_kulis_lemma_9(b, rng):
    """PSD with the same range: I + beta G'zz'G has the eigenvalues 1 and 1 + beta p = b / p > 0."""
    G, X, _, z, p = rank_one_case(rng)
    tol = 1e-10 / max(1.0, b / 100)  # of an objective of b / p, what the other two eigenvalues add to it is 1 / b
    result = nearest_kernel(Factor(G), Constraints.sq_distance(1, 4, b, "=="), tol=tol)
    assert result.gap <= (1e-8 if b < 1e-3 else 1e-10)  # weights of 1 / b: that much of the bound is rounding
    assert np.allclose(np.sort(np.linalg.eigvalsh(result.B @ result.B.T)), np.sort([1.0, 1.0, b / p]), rtol=1e-5)
    assert np.linalg.matrix_rank(np.hstack([result.factor / np.linalg.norm(result.factor, axis=0), G])) == 3
    assert np.linalg.matrix_rank(result.factor, tol=1e-6 * np.sqrt(b)) == 3


def test_kulis_lemma_10(rng):
    """(X^+ - alpha A~)^+ with A~ = WW'AWW' is the update of eq. 16; with A itself (the footnote) it is not."""
    _, X, V, A = low_rank_case(rng)
    b = np.trace(X @ A) + 5.0
    new, alpha = projection("logdet", X, A, b)
    inside = V @ V.T @ A @ V @ V.T
    assert close(pinvh(pinvh(X) - alpha * inside, rtol=1e-9), new)
    assert not np.allclose(pinvh(pinvh(X) - alpha * A), new, atol=1e-2)


# ---------------------------------------------------------------- Tsuda 2004, section 3: one step, solved without approximation
def online_case(rng):
    """A matrix of trace one, an instance, its label, and the exact minimiser of eq. 2 by the root of its one parameter."""
    W, X = positive(rng, 4), symmetric(rng, 4)
    W = W / np.trace(W)
    y = np.trace(W @ X) + 0.4

    def solution(eta):  # W+ = exp(log W - a X) with a = 2 eta (tr(W+ X) - y)
        start = logm(W)
        a = root(lambda a: a - 2 * eta * (np.trace(expm(start - a * X) @ X) - y), -20.0, 20.0)
        return expm(start - a * X)

    def step(eta):  # gamma / 2 ((p - y) / y)^2 = eta (p - y)^2
        rows = Constraints.linear([X], y, "==")
        return learned(W, rows, divergence="vonneumann", loss=Squared(), slack_weight=2 * eta * y**2)[0]

    return W, X, y, solution, step


@pytest.mark.parametrize("eta", [0.1, 5.0])
def test_tsuda_2(eta, rng):
    """argmin D(W, W_t) + eta (tr(W X_t) - y_t)^2; for large eta the projection on tr(W X_t) = y_t (footnote 2)."""
    W, X, y, solution, step = online_case(rng)

    def value(new):
        return matrix_divergence("vonneumann", new, W) + eta * (np.trace(new @ X) - y) ** 2

    new = step(eta)
    assert close(new, solution(eta))
    assert value(new) == pytest.approx(value(solution(eta)), rel=1e-7)
    assert all(value(new + 0.01 * symmetric(rng, 4) * np.linalg.eigvalsh(new)[0]) > value(new) for _ in range(10))
    assert close(step(1e8), projection("vonneumann", W, X, y)[0])


@pytest.mark.parametrize("eta", [0.1, 5.0])
def test_tsuda_3(eta, rng):
    """log W_t+1 - log W_t + eta grad (tr(W_t+1 X_t) - y_t)^2 = 0."""
    W, X, y, _, step = online_case(rng)
    new = step(eta)
    change = logm(new) - logm(W)
    assert np.allclose(change, -2 * eta * (np.trace(new @ X) - y) * X, atol=1e-3 * np.abs(change).max())


# ---------------------------------------------------------------- Tsuda 2004, section 4: trace one
def boost_case(rng):
    """W1 of trace one, C_j = v v' - b_j I, and the result for tr W = 1, tr(W C_j) <= 0."""
    W1 = well_conditioned(rng, 5)
    W1 = W1 / np.trace(W1)
    v = rng.normal(size=(3, 5))
    C = np.einsum("ij,ik->ijk", v, v)
    C -= 0.5 * np.einsum("cij,ji->c", C, W1)[:, None, None] * np.eye(5)
    rows = Constraints.trace(1.0) + Constraints.linear(C, 0.0, "<=")
    result = nearest_kernel(W1, rows, divergence="vonneumann", tol=1e-9)
    assert result.status == "OPTIMAL"
    return W1, C, result


def test_tsuda_8(rng):
    """The projection: feasible, and D(Y, W1) >= D(Y, W*) + D(W*, W1) for every other feasible Y."""
    W1, C, result = boost_case(rng)
    W = result.kernel()
    assert np.trace(W) == pytest.approx(1.0, abs=1e-8)
    assert np.einsum("cij,ji->c", C, W).max() < 1e-8
    moved = matrix_divergence("vonneumann", W, W1)
    assert result.objective == pytest.approx(moved, rel=1e-6)
    tried = 0
    for _ in range(500):
        Y = W + 0.05 * positive(rng, 5, 1)
        Y = Y / np.trace(Y)
        if np.einsum("cij,ji->c", C, Y).max() <= 0:
            tried += 1
            sides = matrix_divergence("vonneumann", Y, W1), matrix_divergence("vonneumann", Y, W) + moved
            assert sides[0] >= sides[1] - 1e-6
    assert tried > 10


def test_tsuda_9(rng):
    """gamma* minimises log tr exp(log W1 - sum gamma_j C_j) over gamma >= 0, and W* is that exponential over its trace."""
    W1, C, result = boost_case(rng)
    start = logm(W1)

    def log_partition(gamma):
        E = expm(start - np.tensordot(gamma, C, 1))
        return np.log(np.trace(E)), -np.einsum("cij,ji->c", C, E) / np.trace(E)

    given = {"jac": True, "bounds": [(0, None)] * 3, "method": "L-BFGS-B", "options": {"ftol": 1e-15, "gtol": 1e-10}}
    dual = minimize(log_partition, np.zeros(3), **given)
    E = expm(start - np.tensordot(dual.x, C, 1))
    assert (dual.x > 0.1).any()
    assert np.allclose(result.kernel(), E / np.trace(E), atol=1e-6)
    assert result.dual[1:] == pytest.approx(dual.x, abs=1e-4)
    # D(W*, W1) = -sum gamma_j tr(W* C_j) - log Z = -log Z, which is also the bound
    assert result.objective == pytest.approx(-dual.fun, rel=1e-8)
    assert result.dual_bound == pytest.approx(-dual.fun, rel=1e-8)
