"""The divergences against the page: one test per numbered equation, lemma, proposition or theorem on their values.

Kulis 2009: JMLR 10, sections 3.1-3.2, 4 and appendix A; Tsuda 2004: NIPS 17, section 2. What is minimised is in test_equations.py.
"""

import numpy as np
import pytest
from scipy.linalg import logm, null_space

from bregmat import Constraints, Factor, Frobenius, LogDet, VonNeumann, nearest_kernel
from cases import BY_NAME, random_pairs
from formulas import (
    CLOSE,
    NAMES,
    low_rank_pair,
    matrix_divergence,
    orthogonal,
    positive,
    scalar_phi,
    symmetric,
    vector_divergence,
    well_conditioned,
)

DEFINED_ON_LOW_RANK = pytest.mark.parametrize("name", ["logdet", "vonneumann"])


# ---------------------------------------------------------------- Kulis 2009, section 3: the divergences
def test_kulis_1(rng):
    """tr(X log X - X log Y - X + Y)."""
    X, Y = positive(rng, 5), positive(rng, 5)
    assert VonNeumann()(X, Y) == pytest.approx(np.trace(X @ logm(X) - X @ logm(Y) - X + Y), **CLOSE)


@pytest.mark.parametrize("name", NAMES)
def test_divergences_of_hermitian_matrices(rng, name):
    """Half of that of the real matrices [[Re, -Im], [Im, Re]], whose eigenvalues are theirs twice (Tsuda 2004: density matrices)."""
    A, B = (rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4)) for _ in range(2))
    X, Y, D = A @ A.conj().T, B @ B.conj().T, BY_NAME[name]
    real = [np.block([[H.real, -H.imag], [H.imag, H.real]]) for H in (X, Y)]
    assert D(X, Y) == pytest.approx(0.5 * D(*real), **CLOSE)
    assert D(X, np.eye(4)) == pytest.approx(0.5 * D(real[0], np.eye(8)), **CLOSE)
    with pytest.raises(ValueError, match="X must be Hermitian"):
        D(A, Y)


def test_kulis_2(rng):
    """tr(X Y^-1) - logdet(X Y^-1) - n."""
    X, Y = positive(rng, 5), positive(rng, 5)
    P = X @ np.linalg.inv(Y)
    assert LogDet()(X, Y) == pytest.approx(np.trace(P) - np.linalg.slogdet(P)[1] - 5, **CLOSE)


def test_frobenius_is_half_the_squared_norm(rng):
    X, Y = positive(rng, 4), positive(rng, 4)
    assert Frobenius()(X, Y) == pytest.approx(np.linalg.norm(X - Y) ** 2 / 2, **CLOSE)


@pytest.mark.parametrize("name", NAMES)
def test_kulis_lemma_1(name, rng):
    """sum_ij (v_i . u_j)^2 (phi(lambda_i) - phi(theta_j) - (lambda_i - theta_j) phi'(theta_j)), phi' by differences."""
    X, Y = well_conditioned(rng, 5), well_conditioned(rng, 5)
    (x, V), (y, U) = np.linalg.eigh(X), np.linalg.eigh(Y)
    h = 1e-5 * y
    slope = (scalar_phi(name, y + h) - scalar_phi(name, y - h)) / (2 * h)
    each = scalar_phi(name, x)[:, None] - scalar_phi(name, y) - (x[:, None] - y) * slope
    D = BY_NAME[name]
    assert D(X, Y) == pytest.approx(np.sum((V.T @ U) ** 2 * each), rel=1e-7)  # h^2
    # what solvers use: Y diagonal, so that u_j = e_j
    assert D.from_diagonal(x, V, D.link(y)) == pytest.approx(np.sum((V.T) ** 2 * each), rel=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_kulis_3(name, rng):
    """sum_ij (v_i . u_j)^2 D(lambda_i, theta_j): squared cosines between the eigenvectors."""
    X, Y = positive(rng, 5), positive(rng, 5)
    (x, V), (y, U) = np.linalg.eigh(X), np.linalg.eigh(Y)
    expected = np.sum((V.T @ U) ** 2 * vector_divergence(name, x[:, None], y))
    assert BY_NAME[name](X, Y) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("name", NAMES)
def test_kulis_corollary_2(name, rng):
    """Eq. 3 holds for every choice of eigenvectors, where eigenvalues are equal, and is eq. 1 and 2."""
    x, y = np.array([0.5, 2.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0, 4.0])
    V, U = orthogonal(rng, 4), orthogonal(rng, 4)
    X, Y = (V * x) @ V.T, (U * y) @ U.T
    turned_V, turned_U = V.copy(), U.copy()
    turned_V[:, 1:3] = V[:, 1:3] @ orthogonal(rng, 2)
    turned_U[:, :3] = U[:, :3] @ orthogonal(rng, 3)
    each = vector_divergence(name, x[:, None], y)
    for left, right in ((V, U), (turned_V, U), (turned_V, turned_U)):
        assert np.sum((left.T @ right) ** 2 * each) == pytest.approx(matrix_divergence(name, X, Y), **CLOSE)
    assert BY_NAME[name](X, Y) == pytest.approx(np.sum((V.T @ U) ** 2 * each), **CLOSE)


# ---------------------------------------------------------------- Kulis 2009, section 4: low rank
def one(x):
    return np.array([[float(x)]])


def test_kulis_11():
    """von Neumann of numbers: l log l - l log t - l + t, 0 log 0 = 0, infinite where t = 0 but l is not."""
    for l, t in ((0.3, 2.0), (5.0, 0.1), (1.0, 1.0)):
        assert VonNeumann()(one(l), one(t)) == pytest.approx(l * np.log(l) - l * np.log(t) - l + t, abs=1e-14)
    assert VonNeumann()(one(0), one(0)) == 0
    assert VonNeumann()(one(0), one(3)) == 3
    assert VonNeumann()(one(3), one(0)) == np.inf


def test_kulis_12():
    """LogDet of numbers: l / t - log(l / t) - 1, 0 where both are 0, infinite where one is."""
    for l, t in ((0.3, 2.0), (5.0, 0.1), (1.0, 1.0)):
        assert LogDet()(one(l), one(t)) == pytest.approx(l / t - np.log(l / t) - 1, abs=1e-14)
    assert LogDet()(one(0), one(0)) == 0
    assert LogDet()(one(0), one(3)) == np.inf
    assert LogDet()(one(3), one(0)) == np.inf


def test_kulis_observations_1_and_2(rng):
    """Finite exactly if range(X) lies in range(Y) (von Neumann), or is equal to it (LogDet)."""
    small, Y, W = low_rank_pair(rng, inside=True)
    full = positive(rng, 6)
    other = null_space(W.T) @ positive(rng, 3) @ null_space(W.T).T
    finite = {
        (name, pair): np.isfinite(BY_NAME[name](*{"small": (small, Y), "larger": (full, Y), "other": (other, Y)}[pair]))
        for name in NAMES
        for pair in ("small", "larger", "other")
    }
    wrong = {("logdet", p) for p in ("small", "larger", "other")} | {("vonneumann", p) for p in ("larger", "other")}
    assert {key for key, is_finite in finite.items() if not is_finite} == wrong


@DEFINED_ON_LOW_RANK
def test_kulis_lemma_3(name, rng):
    """K = W W' K W W' for every W whose range holds that of K: true of what is learned and the range of the prior."""
    G0 = rng.normal(size=(8, 3))
    result = nearest_kernel(Factor(G0), random_pairs(rng, G0, 6), divergence=name, slack_weight=1.0)
    K = result.kernel()
    W = np.linalg.qr(np.hstack([G0, rng.normal(size=(8, 1))]))[0]  # one dimension more than needed
    assert np.abs(K).max() > 0.1
    assert np.allclose(W @ W.T @ K @ W @ W.T, K, atol=1e-12 * np.abs(K).max())
    other = np.linalg.qr(rng.normal(size=(8, 4)))[0]
    assert not np.allclose(other @ other.T @ K @ other @ other.T, K, atol=1e-2 * np.abs(K).max())


@DEFINED_ON_LOW_RANK
def test_kulis_definition_4(name, rng):
    """Low rank: the divergence of W'XW and W'YW as eq. 1 and 2 have it, W a basis of range(Y)."""
    X, Y, W = low_rank_pair(rng, inside=False)
    assert BY_NAME[name](X, Y) == pytest.approx(matrix_divergence(name, W.T @ X @ W, W.T @ Y @ W), rel=1e-7)


@DEFINED_ON_LOW_RANK
def test_kulis_13(name, rng):
    """D(X, Y) = D(W'XW, W'YW) for every orthogonal W whose range holds that of Y, also for a larger one."""
    X, Y, W = low_rank_pair(rng, inside=False)
    D = BY_NAME[name]
    larger = np.linalg.qr(np.hstack([W, rng.normal(size=(6, 2))]))[0] @ orthogonal(rng, 5)
    for basis in (W, larger):
        assert D(X, Y) == pytest.approx(D(basis.T @ X @ basis, basis.T @ Y @ basis), rel=1e-7)


@DEFINED_ON_LOW_RANK
def test_kulis_lemma_5(name, rng):
    """D(W'XW, W'YW) is the same for W and W Q."""
    X, Y, W = low_rank_pair(rng, inside=False)
    turned = W @ orthogonal(rng, 3)
    expected = matrix_divergence(name, turned.T @ X @ turned, turned.T @ Y @ turned)
    assert BY_NAME[name](X, Y) == pytest.approx(expected, rel=1e-7)
    assert matrix_divergence(name, W.T @ X @ W, W.T @ Y @ W) == pytest.approx(expected, rel=1e-9)


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


def test_kulis_lemma_8(rng):
    """tr(W'XW W'AW) = tr(XA) if range(X) lies in range(W): what rows measure does not change in the coordinates."""
    X, _, W = low_rank_pair(rng, inside=False)
    A = np.array([symmetric(rng, 6) for _ in range(4)])
    G = W @ np.linalg.cholesky(W.T @ X @ W)
    full = Constraints.linear(A, 1.0, "<=")
    reduced = Constraints.linear(np.einsum("ji,cjk,kl->cil", W, A, W), 1.0, "<=")
    expected = np.einsum("ij,cji->c", X, A)
    assert np.allclose(full.values(G), expected, rtol=1e-12)
    assert np.allclose(reduced.values(W.T @ G), expected, rtol=1e-12)


# ---------------------------------------------------------------- Kulis 2009, appendix A
@pytest.mark.parametrize("name", NAMES)
def test_kulis_proposition_11(name, rng):
    """D(Q'XQ, Q'YQ) = D(X, Y) for orthogonal Q, of full and of low rank."""
    D, X, Y = BY_NAME[name], positive(rng, 5), positive(rng, 5)
    Q = orthogonal(rng, 5)
    assert D(Q.T @ X @ Q, Q.T @ Y @ Q) == pytest.approx(matrix_divergence(name, X, Y), rel=1e-8)
    X, Y, _ = low_rank_pair(rng, inside=False)
    Q = orthogonal(rng, 6)
    assert D(Q.T @ X @ Q, Q.T @ Y @ Q) == pytest.approx(D(X, Y), rel=1e-7)


def test_kulis_proposition_12(rng):
    """LogDet does not change under M' X M, nor under scaling, also of low rank; the von Neumann divergence scales."""
    X, Y, M = positive(rng, 4), positive(rng, 4), rng.normal(size=(4, 4))
    assert LogDet()(M.T @ X @ M, M.T @ Y @ M) == pytest.approx(LogDet()(X, Y), rel=1e-7)
    assert LogDet()(7 * X, 7 * Y) == pytest.approx(LogDet()(X, Y), **CLOSE)
    assert VonNeumann()(7 * X, 7 * Y) == pytest.approx(7 * VonNeumann()(X, Y), **CLOSE)
    X, Y, _ = low_rank_pair(rng, inside=False)
    M = well_conditioned(rng, 6)
    assert LogDet()(M.T @ X @ M, M.T @ Y @ M) == pytest.approx(LogDet()(X, Y), rel=1e-6)


def test_kulis_proposition_13(rng):
    """D_ld(X, Y) = D_vN(I, S) = D_ld(S, I) with S = Y^-1/2 X Y^-1/2; all of them infinite for singular X."""
    Y = positive(rng, 4)
    y, U = np.linalg.eigh(Y)
    root = (U / np.sqrt(y)) @ U.T
    X = positive(rng, 4)
    S = root @ X @ root
    assert LogDet()(X, Y) == pytest.approx(VonNeumann()(np.eye(4), S), **CLOSE)
    assert LogDet()(X, Y) == pytest.approx(LogDet()(S, np.eye(4)), **CLOSE)
    X = positive(rng, 4, rank=3)
    S = root @ X @ root
    assert LogDet()(X, Y) == VonNeumann()(np.eye(4), S) == LogDet()(S, np.eye(4)) == np.inf


# ---------------------------------------------------------------- Tsuda 2004, section 2
def test_tsuda_1(rng):
    """F(W~) - F(W) - <W~ - W, grad F(W)> with F = tr(W log W - W), the gradient along W~ - W by differences."""
    new, old = well_conditioned(rng, 4), well_conditioned(rng, 4)

    def F(W):
        return np.trace(W @ logm(W) - W)

    h = 1e-4
    slope = (F(old + h * (new - old)) - F(old - h * (new - old))) / (2 * h)
    assert VonNeumann()(new, old) == pytest.approx(F(new) - F(old) - slope, rel=1e-6)  # h^2
    # of trace one the last two terms of tr(W~ log W~ - W~ log W - W~ + W) cancel
    new, old = new / np.trace(new), old / np.trace(old)
    assert VonNeumann()(new, old) == pytest.approx(np.trace(new @ logm(new) - new @ logm(old)), **CLOSE)


def test_tsuda_1_eigen_form(rng):
    """Trace one: sum_i l~_i ln l~_i - sum_ij l~_i ln l_j (v~_i . v_j)^2; the page has a plus before the double sum."""
    new, old = (A / np.trace(A) for A in (positive(rng, 4), positive(rng, 4)))
    (x, V), (y, U) = np.linalg.eigh(new), np.linalg.eigh(old)
    entropy, cross = np.sum(x * np.log(x)), np.sum(np.outer(x, np.log(y)) * (V.T @ U) ** 2)
    assert VonNeumann()(new, old) == pytest.approx(entropy - cross, **CLOSE)
    assert entropy + cross < 0  # as printed it would be negative: no divergence is
