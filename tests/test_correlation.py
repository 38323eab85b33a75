"""Nearest correlation matrices: stored optima, certificates computed again, fixed entries, ranks, repairs, bad input."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.linalg
import scipy.sparse
from numpy.testing import assert_allclose

from bregmat import (
    Constraints,
    Factor,
    Frobenius,
    LogDet,
    VonNeumann,
    load,
    nearest_correlation,
    nearest_kernel,
    save,
    verify,
)
from bregmat.applications.correlation.entries import Entries, FixedBlocks, _cliques, fixed_blocks
from bregmat.applications.correlation.newton import Curvature
from bregmat.applications.correlation.problem import CorrelationProblem, DenseState
from states import saved_and_loaded

ORACLES = json.loads((Path(__file__).parent / "oracles" / "correlation.json").read_text(encoding="utf-8"))
NAMES = ["frobenius", "logdet", "vonneumann"]
EPS = np.finfo(float).eps


def broken(rng, n, noise=0.3):
    """An indefinite "correlation" matrix: a factor model plus noise."""
    F = rng.normal(size=(n, 3))
    S = F @ F.T + np.diag(rng.random(n))
    d = 1 / np.sqrt(np.diag(S))
    E = noise * rng.normal(size=(n, n))
    C = np.clip(d[:, None] * S * d + (E + E.T) / 2, -1, 1)
    np.fill_diagonal(C, 1.0)
    return C


def clipped(C):
    """The matrix with eigenvalues of at least 1e-6, symmetric to the last bit."""
    values, Q = np.linalg.eigh(C)
    C = (Q * values.clip(1e-6)) @ Q.T
    return (C + C.T) / 2


def accurate_cholesky(A):
    """The lower Cholesky factor in extended precision."""
    L = np.zeros(A.shape, np.longdouble)
    for k in range(len(A)):
        L[k:, k] = A[k:, k] - L[k:, :k] @ L[k, :k]
        L[k:, k] /= np.sqrt(L[k, k])
    return L


def definite(rng, n):
    X = rng.normal(size=(n, 2 * n))
    return X @ X.T / (2 * n)


def pairwise(rng, n=25, days=30, missing=0.4):
    """What a table of returns with gaps gives: each correlation from the days that both assets have."""
    table = pd.DataFrame(rng.normal(size=(days, 1)) + rng.normal(size=(days, n)))
    return table.mask(pd.DataFrame(rng.random((days, n)) < missing)).corr(min_periods=3)


def correlations(rng, n, days):
    C = np.corrcoef(rng.normal(size=(n, days)))
    C = (C + C.T) / 2
    np.fill_diagonal(C, 1.0)
    return C


def mask_of(n, pairs):
    mask = np.zeros((n, n), dtype=bool)
    for i, j in pairs:
        mask[i, j] = mask[j, i] = True
    return mask


def multiplier_matrix(result):
    Y = np.zeros(result.X.shape)
    for (i, j), y in zip(result.rows, result.dual, strict=True):
        Y[i, j] += y / 2
        Y[j, i] += y / 2
    return Y


def assert_certified(result, C, *, tol=1e-8, min_eig=0.0, fixed=None, low=1e-13):
    """Everything that a result claims, from the matrix and the multipliers alone; ``low``: rounding of an eigenvalue."""
    X, n = result.X, len(C)
    assert (result.status, result.exit_reason, result.converged) == ("OPTIMAL", "TOLERANCE", True)
    assert (np.diag(X) == 1).all() and (X == X.T).all()
    x = np.linalg.eigvalsh(X)
    assert x[0] >= min_eig - low * max(1, x[-1])
    if fixed is not None:
        assert (X[fixed] == C[fixed]).all()
    assert result.residual == pytest.approx(np.linalg.norm(X - C), rel=1e-12, abs=1e-13)
    i, j = result.rows.T
    Y, b = multiplier_matrix(result), np.where(i == j, 1 - min_eig, C[i, j])
    if result.divergence == "frobenius":
        T0 = C - min_eig * np.eye(n)
        t = np.linalg.eigvalsh(T0 - Y)
        bound = ((T0**2).sum() - (np.maximum(t, 0) ** 2).sum()) / 2 - result.dual @ b
        objective = ((X - C) ** 2).sum() / 2
    elif result.divergence == "logdet":
        inverse = np.linalg.inv(C)
        bound = np.linalg.slogdet(inverse + Y)[1] + np.linalg.slogdet(C)[1] - result.dual @ b
        objective = LogDet()(X, C)
    else:
        bound = np.trace(C) - np.trace(scipy.linalg.expm(scipy.linalg.logm(C) - Y)) - result.dual @ b
        objective = VonNeumann()(X, C)
    size = max(1.0, (C**2).sum())  # what is subtracted
    assert result.objective == pytest.approx(objective, rel=1e-9, abs=1e-13 * size)
    assert result.dual_bound == pytest.approx(bound, rel=1e-9, abs=1e-13 * size)
    assert result.gap == pytest.approx((objective - bound) / max(1, objective), abs=1e-12 * size)
    assert abs(result.gap) <= tol


# ---------------------------------------------------------------- against stored optima
@pytest.mark.parametrize("k", range(len(ORACLES)))
def test_oracle(k):
    """Twenty problems solved by CVXPY with Clarabel, and by SciPy's BFGS on the von Neumann dual."""
    problem = ORACLES[k]
    C = np.array(problem["C"])
    mask = mask_of(len(C), problem["fixed"]) if "fixed" in problem else None
    low = problem.get("min_eig", 0.0)
    result = nearest_correlation(C, divergence=problem["divergence"], fixed=mask, min_eig=low, tol=1e-12)
    assert_certified(result, C, tol=1e-12, min_eig=low, fixed=mask)
    assert result.objective == pytest.approx(problem["objective"], rel=1e-6, abs=1e-8)
    # the stored matrices are as good as their solver's gap of about 1e-11 .. 1e-9, a square root worse
    assert_allclose(result.X, problem["X"], atol=3e-5)


def test_there_are_twenty_oracles():
    assert len(ORACLES) == 20


# ---------------------------------------------------------------- certificates
@pytest.mark.parametrize("divergence", NAMES)
@pytest.mark.parametrize("n", [1, 2, 3, 10, 40])
def test_certificate(rng, divergence, n):
    C = broken(rng, n, 0.5) if divergence == "frobenius" else definite(rng, n)
    assert_certified(nearest_correlation(C, divergence=divergence), C)


def test_quick_start_is_frobenius(rng):
    C = broken(rng, 20)
    result = nearest_correlation(C)
    assert result.divergence == "frobenius"
    assert np.linalg.eigvalsh(C)[0] < -0.1
    assert np.linalg.eigvalsh(result.X)[0] >= 0  # not even rounding makes it negative


@pytest.mark.parametrize("divergence", [LogDet(), VonNeumann(), Frobenius()])
def test_divergence_objects(rng, divergence):
    C = definite(rng, 6)
    result = nearest_correlation(C, divergence=divergence, scale=False)
    assert result.divergence == divergence.name
    assert result.objective == pytest.approx(divergence(result.X, C), rel=1e-9)


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_agrees_with_the_general_method(rng, divergence):
    C = definite(rng, 12)
    general = nearest_kernel(C, Constraints.diagonal(np.ones(12)), divergence=divergence, tol=1e-12)
    assert_allclose(nearest_correlation(C, divergence=divergence, tol=1e-12).X, general.kernel(), atol=1e-8)


def test_what_is_one_comes_back(rng):
    C = correlations(rng, 8, 20)
    result = nearest_correlation(C)
    assert (result.X == C).all()
    assert (result.objective, result.gap, result.n_iter) == (0, 0, 0)
    for divergence in ("logdet", "vonneumann"):
        assert_allclose(nearest_correlation(C, divergence=divergence).X, C, atol=1e-12)


def test_repeated_rows(rng):
    C = np.kron(np.ones((2, 2)), broken(rng, 10))
    result = nearest_correlation(C)
    assert_certified(result, C)
    assert_allclose(np.diag(result.X[:10, 10:]), 1.0, atol=1e-6)
    assert_certified(nearest_correlation(np.ones((6, 6))), np.ones((6, 6)))


def test_pairwise_returns(rng):
    C = pairwise(rng)
    assert np.linalg.eigvalsh(C)[0] < -0.05
    result = nearest_correlation(C, min_eig=1e-3)
    assert_certified(result, C.to_numpy(), min_eig=1e-3)


def test_odd_sizes_of_entries(rng):
    """Entries far above 1, all -1, and a diagonal that is not 1."""
    C = broken(rng, 15)
    for A in (50 * C - 49 * np.eye(15), 2 * np.eye(15) - np.ones((15, 15)), C - 0.95 * np.eye(15), C + 30 * np.eye(15)):
        assert_certified(nearest_correlation(A, scale=False), A)


def test_scale(rng):
    C = broken(rng, 7)
    d = 10.0 ** rng.uniform(-3, 3, 7)
    S = d[:, None] * C * d
    with pytest.raises(ValueError, match=r"scale=True"):
        nearest_correlation(S)
    assert_allclose(nearest_correlation(S, scale=True).X, nearest_correlation(C).X, atol=1e-10)
    assert nearest_correlation(S, scale=False).residual > 1.0
    with pytest.raises(ValueError, match=r"scale=True divides"):
        nearest_correlation([[1.0, 5e-8], [5e-8, 1e-14]], divergence="vonneumann")


def test_logdet_does_not_care_for_scale_of_a_diagonal_prior():
    result = nearest_correlation(np.diag([1e-6, 1.0, 1e6]), divergence="logdet")
    assert_allclose(result.X, np.eye(3), atol=1e-12)
    assert (result.status, result.n_iter) == ("OPTIMAL", 0)


# ---------------------------------------------------------------- smallest eigenvalue
@pytest.mark.parametrize("low", [1e-6, 0.1, 0.9, 0.999])
def test_min_eig(rng, low):
    C = broken(rng, 20, 0.5)
    result = nearest_correlation(C, min_eig=low)
    assert_certified(result, C, min_eig=low)
    assert result.min_eig == low
    assert result.residual >= nearest_correlation(C).residual


# ---------------------------------------------------------------- fixed entries
@pytest.mark.parametrize("share", [0.02, 0.3, 0.8])
@pytest.mark.parametrize("low", [0.0, 0.05])
def test_fixed(rng, share, low):
    n = 24
    truth = correlations(rng, n, 3 * n)
    mask = np.triu(rng.random((n, n)) < share, 1)
    mask |= mask.T
    C = np.where(mask, truth, broken(rng, n))
    result = nearest_correlation(C, fixed=mask, min_eig=low)
    assert_certified(result, C, fixed=mask, min_eig=low, low=1e-11)
    assert result.max_violation == 0
    assert result.rows.shape == (n + mask.sum() // 2, 2)


def assert_impossible(result, C, min_eig=0.0):
    """``Y >= 0`` and ``<Y, X> = dual . b < 0`` for every X that is allowed."""
    Y, (i, j) = multiplier_matrix(result), result.rows.T
    b = np.where(i == j, 1 - min_eig, C[i, j])
    assert (result.status, result.exit_reason, result.converged) == ("INFEASIBLE", "CERTIFICATE", False)
    assert np.linalg.eigvalsh(Y)[0] >= -1e-13 * np.abs(Y).sum()
    assert result.dual @ b < -1e-9 * np.abs(result.dual) @ np.abs(b)
    assert {tuple(r) for r in result.conflict} == {tuple(r) for r in result.rows[result.dual != 0]}
    assert "free one of" in result.advice
    assert "proven" in result._repr_html_()


def test_contradiction_in_a_block():
    C = np.eye(5)
    C[0, 1] = C[1, 0] = C[1, 2] = C[2, 1] = 0.9
    C[0, 2] = C[2, 0] = -0.9
    mask = (C != 0) & ~np.eye(5, dtype=bool)
    result = nearest_correlation(C, fixed=mask)
    assert_impossible(result, C)
    assert set(result.conflict.ravel()) == {0, 1, 2}
    for low in (0.3, 0.0):
        B = np.eye(5)
        B[0, 1] = B[1, 0] = 0.8 if low else 1.2
        assert_impossible(nearest_correlation(B, fixed=mask_of(5, [(0, 1)]), min_eig=low), B, low)


def test_contradiction_without_a_block():
    """A cycle of four: no three of its variables have all entries fixed."""
    C = np.eye(6)
    for i, j, c in ((0, 1, 0.9), (1, 2, 0.9), (2, 3, 0.9), (0, 3, -0.9)):
        C[i, j] = C[j, i] = c
    mask = (C != 0) & ~np.eye(6, dtype=bool)
    result = nearest_correlation(C, fixed=mask)
    assert_impossible(result, C)
    assert result.conflict.max() == 3


def is_definite(X):
    """Whether a matrix of floats is positive definite, by Gaussian elimination in fractions."""
    A = [[Fraction(float(x)) for x in row] for row in X]
    for k in range(len(A)):
        if A[k][k] <= 0:
            return False
        for i in range(k + 1, len(A)):
            share = A[i][k] / A[k][k]
            A[i] = [a - share * b for a, b in zip(A[i], A[k])]
    return True


def test_a_block_with_tiny_eigenvalues_is_not_taken_for_singular(rng):
    """24 variables with the correlation 1 - 8e-13: OPTIMAL was said of a matrix that a feasible one is better than by 5.6e-6."""
    m, k = 24, 12
    C, apart = np.eye(m + k), 8e-13
    C[:m, :m] = 1.0 - apart
    np.fill_diagonal(C, 1.0)
    D = rng.normal(size=(k, m))
    D = np.linalg.qr((D - D.mean(axis=1, keepdims=True)).T)[0].T
    C[m:, :m], C[:m, m:] = D / np.sqrt(k), D.T / np.sqrt(k)
    fixed = np.zeros((m + k, m + k), dtype=bool)
    fixed[:m, :m] = ~np.eye(m, dtype=bool)
    X = C.copy()
    X[m:, :m], X[:m, m:] = 0.9 * np.sqrt(apart) * D, 0.9 * np.sqrt(apart) * D.T
    assert is_definite(X)
    known = sum((Fraction(float(x)) - Fraction(float(c))) ** 2 for x, c in zip(X.ravel(), C.ravel())) / 2
    result = nearest_correlation(C, fixed=fixed, max_iter=20)
    assert Fraction(result.dual_bound) <= known
    assert result.status in ("OPTIMAL", "FEASIBLE")
    assert result.status == "FEASIBLE" or result.objective <= float(known) + 1e-6
    assert verify(result).holds


def test_singular_blocks(rng):
    """Fixed entries that leave no interior: a one, and a block with a null space."""
    C = broken(rng, 12)
    C[0, 1] = C[1, 0] = 1.0
    mask = mask_of(12, [(0, 1)])
    result = nearest_correlation(C, fixed=mask)
    assert result.status == "OPTIMAL"
    assert_allclose(result.X[0], result.X[1], atol=1e-12)
    C = broken(rng, 12)
    C[:5, :5] = correlations(rng, 5, 3)
    mask = np.zeros((12, 12), dtype=bool)
    mask[:5, :5] = ~np.eye(5, dtype=bool)
    result = nearest_correlation(C, fixed=mask)
    assert result.status == "OPTIMAL"
    assert (result.X[mask] == C[mask]).all()
    assert np.linalg.eigvalsh(result.X)[0] > -1e-12
    assert result.objective == pytest.approx(((result.X - C) ** 2).sum() / 2, rel=1e-9)


def test_singular_block_is_certified_on_its_complement(rng):
    """The documented bound, with the null space that the result names."""
    C = broken(rng, 8)
    C[:4, :4] = correlations(rng, 4, 3)
    mask = np.zeros((8, 8), dtype=bool)
    mask[:4, :4] = ~np.eye(4, dtype=bool)
    result = nearest_correlation(C, fixed=mask)
    V, (i, j) = result.null_space, result.rows.T
    assert V.shape == (8, 2)
    N = np.linalg.svd(V)[0][:, 2:]
    assert_allclose(result.X @ V, 0.0, atol=1e-12)
    t = np.linalg.eigvalsh(N.T @ (C - multiplier_matrix(result)) @ N)
    bound = ((C**2).sum() - (np.maximum(t, 0) ** 2).sum()) / 2 - result.dual @ C[i, j]
    assert result.dual_bound == pytest.approx(bound, rel=1e-9)
    assert saved_and_loaded(result).null_space is not None


@pytest.mark.parametrize("e", [1e-8, 9e-11, 1e-13])
def test_nearly_singular_block(e):
    """An eigenvalue e of a fixed block lets X reach ``sqrt(e / 2)`` out of the complement: no bound may deny that."""
    C = np.array([[1, 1 - e, 0.9], [1 - e, 1, -0.9], [0.9, -0.9, 1]])
    result = nearest_correlation(C, fixed=mask_of(3, [(0, 1)]))
    best = 2 * (0.9 - np.sqrt(2 * e) / 2) ** 2  # X_13 = d / 2 = -X_23 with d^2 / 2 = e
    assert result.dual_bound <= best + 1e-13
    assert_claims_no_more_than_it_has(result, C, [(0, 1)])


def near_copies(seed):
    """Fixed entries of a correlation matrix with two rows 1e-7 apart, whose blocks have null vectors that agree up to rounding."""
    rng = np.random.default_rng(seed)
    n, apart = int(rng.integers(6, 13)), 10.0 ** rng.uniform(-8, -6.5)
    G = rng.normal(size=(n, n))
    G[1] = G[0] * (1.0 + apart * rng.normal(size=n))
    G /= np.linalg.norm(G, axis=1)[:, None]
    mask = np.triu(rng.random((n, n)) < 0.5, 1)
    mask[0, 1] = True
    return np.where(mask | mask.T, G @ G.T, np.eye(n)), mask | mask.T


@pytest.mark.not_verified("makes false claims on purpose, which `verify` refuses")
def test_rounding_of_null_vectors_carries_no_proof(monkeypatch):
    """The planted matrix is feasible; a proof on the complement of vectors that are null up to rounding said that none is."""
    drawn = [near_copies(seed) for seed in range(150)]
    assert "INFEASIBLE" not in [nearest_correlation(C, fixed=mask).status for C, mask in drawn]
    monkeypatch.setattr(FixedBlocks, "largest_decrease", lambda self, Y, reach: 0.0)
    results = [nearest_correlation(C, fixed=mask) for C, mask in drawn]
    claims = [verify(one, C=C, fixed=mask) for one, (C, mask) in zip(results, drawn) if one.status == "INFEASIBLE"]
    assert claims and {one.status for one in claims} == {"UNKNOWN"}


def assert_claims_no_more_than_it_has(result, C, pairs):
    """What is called a correlation matrix is one, and has its entries; no contradiction is claimed."""
    if result.status != "UNKNOWN":
        assert result.status in ("OPTIMAL", "FEASIBLE")
        assert all(result.X[pair] == C[pair] for pair in pairs)
        assert result.smallest_eigenvalue > -1e-13
        assert result.converged == (result.status == "OPTIMAL")


def test_nearly_singular_blocks_of_four(rng):
    for e in (1e-13, 1e-11, 4e-10, 1e-8):
        C, V = broken(rng, 8, 1.0), rng.normal(size=(4, 3))
        S = V @ V.T + e * np.eye(4)
        d = 1 / np.sqrt(np.diag(S))
        C[:4, :4] = d[:, None] * S * d
        C = (C + C.T) / 2
        np.fill_diagonal(C, 1.0)
        pairs = [(i, j) for i in range(4) for j in range(i)]
        assert_claims_no_more_than_it_has(nearest_correlation(C, fixed=mask_of(8, pairs)), C, pairs)


@pytest.mark.parametrize("is_interior_known", [True, False])
def test_a_written_entry_that_costs_an_eigenvalue(rng, is_interior_known):
    """The certificate moves the matrix towards the interior, if a matrix there is known; otherwise it is not feasible."""
    C = broken(rng, 10)
    pairs = [(0, 1)] if is_interior_known else [(0, 1), (1, 2)]
    for i, j in pairs:
        C[i, j] = C[j, i] = 0.3 if is_interior_known else 0.9  # with 0 at (0, 2), an eigenvalue is 1 - 0.9 sqrt(2)
    entries = Entries(10, *np.array(pairs).T)
    problem = CorrelationProblem.frobenius(C, entries)
    t, U = np.linalg.eigh(nearest_correlation(C, fixed=mask_of(10, pairs)).X)
    for x in (0.0, -2e-9):
        X = U @ np.diag(np.append(x, np.maximum(t[1:], 0.0))) @ U.T
        entries.write_inplace(X, entries.wanted(C))

        class Given(DenseState):
            dual, values, matrix = np.zeros(problem.c), entries.of(X), lambda self, X=X: X.copy()

        certificate = problem.certify(Given())
        assert certificate.is_feasible == (is_interior_known or x == 0.0)
        assert (entries.of(certificate.X) == entries.wanted(C)).all()
        if certificate.is_feasible:
            assert np.linalg.eigvalsh(certificate.X)[0] > -1e-14


def autoregressive(n, seed=0, observations=60, lag=10, phi=0.85):
    """Sample correlations of a process in order of its lag, set to 0 beyond a lag: indefinite."""
    rng = np.random.default_rng(seed)
    X = np.zeros((observations, n))
    X[:, 0] = rng.normal(size=observations)
    for k in range(1, n):
        X[:, k] = phi * X[:, k - 1] + np.sqrt(1 - phi**2) * rng.normal(size=observations)
    C = np.corrcoef(X.T)
    C = np.where(np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= lag, (C + C.T) / 2, 0.0)
    np.fill_diagonal(C, 1.0)
    return C


@pytest.mark.parametrize("low", [0.0, 0.01])
def test_many_fixed_entries(low):
    """The dual is nearly degenerate: Newton's method alone takes hundreds of steps."""
    C = autoregressive(110, seed=1, observations=30)
    result = nearest_correlation(C, fixed=C == 0, min_eig=low)
    assert_certified(result, C, fixed=C == 0, min_eig=low)
    assert result.n_iter < 100


@pytest.mark.slow
@pytest.mark.parametrize("n", [140, 150, 160, 200])
def test_many_fixed_entries_of_large_matrices(n):
    C = autoregressive(n)
    assert_certified(nearest_correlation(C, fixed=C == 0), C, fixed=C == 0)


def test_every_result_has_a_matrix_if_one_is_known():
    """After any number of steps: the identity has the fixed entries."""
    C = autoregressive(40, lag=4)
    for max_iter in range(0, 12, 2):
        result = nearest_correlation(C, fixed=C == 0, max_iter=max_iter)
        assert result.status in ("OPTIMAL", "FEASIBLE")
        assert (result.matrix[C == 0] == 0).all()
        assert np.linalg.eigvalsh(result.matrix)[0] > -1e-14
        assert result.objective >= result.dual_bound - 1e-12


def test_no_matrix_with_the_fixed_entries_is_known(rng):
    """The fixed entries with 0 elsewhere are indefinite; the interior-point method finds a matrix that has them."""
    n = 40
    G = rng.normal(size=(n, n // 2))
    G /= np.linalg.norm(G, axis=1)[:, None]
    mask = np.triu(rng.random((n, n)) < 0.8, 1)
    mask |= mask.T
    noise = 0.3 * rng.normal(size=(n, n))
    C = np.where(mask, G @ G.T, G @ G.T + noise + noise.T)
    np.fill_diagonal(C, 1.0)
    assert np.linalg.eigvalsh(np.where(mask | np.eye(n, dtype=bool), C, 0.0))[0] < 0
    assert_certified(nearest_correlation(C, fixed=mask), C, fixed=mask, low=1e-11)


def test_slightly_indefinite_block_is_impossible():
    C = np.array([[1, 1 + 5e-11, 0.9], [1 + 5e-11, 1, -0.9], [0.9, -0.9, 1]])
    result = nearest_correlation(C, fixed=mask_of(3, [(0, 1)]))
    assert (result.status, result.conflict.max()) == ("INFEASIBLE", 1)


def test_logdet_always_arrives(rng):
    """Priors with tiny eigenvalues, and variables of very different scale: every one allows a unit diagonal."""
    C = np.array([[1, 1.6, 1.3], [1.6, 1, 2.2], [1.3, 2.2, 1]])
    result = nearest_correlation(clipped(C), divergence="logdet")
    assert (result.status, result.solver) == ("OPTIMAL", "entry_newton + interior_point")
    for _ in range(40):
        A = rng.normal(size=(6, 6))
        A = (A + A.T) / 2
        np.fill_diagonal(A, 1.0)
        assert nearest_correlation(clipped(A), divergence="logdet").status == "OPTIMAL"
    for _ in range(10):
        A, d = definite(rng, 6), 10.0 ** rng.uniform(-3, 3, 6)
        result = nearest_correlation(d[:, None] * A * d, divergence="logdet")
        assert result.status == "OPTIMAL"
        # the bound once more, with rows and columns scaled as A
        scaled = np.linalg.inv(A) + np.diag(result.dual * d * d)
        bound = np.linalg.slogdet(scaled)[1] + np.linalg.slogdet(A)[1] - result.dual.sum()
        assert result.dual_bound == pytest.approx(bound, rel=1e-7)
        objective = np.trace(np.linalg.solve(A, result.X / d / d[:, None])) - 6
        objective -= np.linalg.slogdet(result.X / d / d[:, None])[1] - np.linalg.slogdet(A)[1]
        assert objective == pytest.approx(bound, rel=1e-6)


def test_no_matrix_where_there_is_none():
    C = np.array([[1.0, 1.5], [1.5, 1.0]])
    result = nearest_correlation(C, fixed=~np.eye(2, dtype=bool))
    assert result.X.shape == (2, 2)
    with pytest.raises(ValueError, match=r"INFEASIBLE.*\(0, 1\).*proven"):
        result.matrix  # noqa: B018
    assert nearest_correlation(C).smallest_eigenvalue == pytest.approx(0.0, abs=1e-13)
    result.X[:] = np.nan
    assert np.isnan(result.smallest_eigenvalue)


def test_all_entries_fixed(rng):
    mask = ~np.eye(6, dtype=bool)
    good = correlations(rng, 6, 9)
    assert_allclose(nearest_correlation(good, fixed=mask).X, good, atol=1e-15)
    bad = broken(rng, 6, 1.5)
    assert_impossible(nearest_correlation(bad, fixed=mask), bad)


def test_definite_blocks_are_not_decomposed(rng, monkeypatch):
    """Thousands of overlapping blocks, as beside a band, are found and judged before the first look at the clock."""
    n = 300
    entries = Entries(n, *np.triu_indices(n, 20))
    blocks = _cliques(entries)
    covered = np.zeros((n, n), dtype=bool)
    for block in blocks:
        assert np.diff(block).min() >= 20
        covered[np.ix_(block, block)] = True
    assert len(blocks) > 1000 and covered[entries.i, entries.j].all()
    monkeypatch.setattr(np.linalg, "eigh", lambda A: pytest.fail("a definite block was decomposed"))
    found = fixed_blocks(entries, np.eye(n))
    assert found.proof is None and found.basis is None


def test_fixed_blocks_cover_every_pair(rng):
    mask = np.triu(rng.random((15, 15)) < 0.4, 1)
    i, j = np.nonzero(mask)
    assert fixed_blocks(Entries(15, i, j), np.eye(15)).proof is None
    B = np.eye(15)
    for a, b in zip(i, j, strict=True):  # whichever pair is impossible, some block has it
        B[a, b] = B[b, a] = 1.5
        assert fixed_blocks(Entries(15, i, j), B).proof is not None
        B[a, b] = B[b, a] = 0.0


@pytest.mark.parametrize("divergence", [Frobenius(), VonNeumann()])
@pytest.mark.parametrize("shift", [-1.5, 0.0, 1.5])
@pytest.mark.parametrize("pairs", [0, 3, 40])
def test_curvature_is_the_derivative(rng, divergence, shift, pairs):
    """Hessian times v against a difference of values, on both sides of the spectrum and with few and many pairs."""
    n = 10
    T = broken(rng, n) + shift * np.eye(n)
    i, j = np.triu_indices(n, 1)
    pick = rng.permutation(len(i))[:pairs]
    entries = Entries(n, i[pick], j[pick])

    def values(mu):
        t, U = np.linalg.eigh(T - entries.adjoint(mu))
        X = (U * divergence.inverse_link(t)) @ U.T
        return np.concatenate([np.diag(X), X[entries.i, entries.j]])

    v = rng.normal(size=n + pairs)
    h = 1e-6
    numeric = (values(-h * v) - values(h * v)) / (2 * h)
    H = Curvature(divergence, entries, *np.linalg.eigh(T))
    assert_allclose(H.product(v), numeric, atol=1e-7 * np.abs(numeric).max())
    exact = [H.product(e)[k] for k, e in enumerate(np.eye(n + pairs)[:n])]
    assert_allclose(H.diagonal[:n], exact, atol=1e-8)


# ---------------------------------------------------------------- rank
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_rank(rng, rank):
    C = broken(rng, 15)
    result = nearest_correlation(C, rank=rank)
    V = result.factor
    assert (result.status, result.rank, result.converged) == ("FEASIBLE", rank, True)
    assert V.shape == (15, rank)
    assert_allclose((V**2).sum(axis=1), 1.0, rtol=1e-14)
    assert_allclose(V @ V.T, result.X, atol=1e-14)
    assert (np.diag(result.X) == 1).all()
    assert result.objective == pytest.approx(((result.X - C) ** 2).sum() / 2, rel=1e-12)
    full = nearest_correlation(C)
    assert result.dual_bound == full.dual_bound <= full.objective <= result.objective
    assert 0 < result.gap < np.inf
    assert "any rank" in result._repr_html_()


def test_rank_keeps_the_better_of_two_searches():
    """C is a correlation matrix, so that the bound is 0 and every relative gap of objectives above 1 is 1."""
    F = np.random.default_rng(2).normal(size=(6, 6))
    C = F @ F.T
    d = np.sqrt(np.diag(C))
    C = C / np.multiply.outer(d, d)
    np.fill_diagonal(C, 1.0)
    objectives = []
    for limit in range(1, 40):  # the second search starts at about 20
        result = nearest_correlation(C, rank=2, max_iter=limit)
        objectives.append(result.objective)
        assert result.objective == pytest.approx(0.5 * ((result.X - C) ** 2).sum())
    assert np.diff(objectives).max() <= 1e-12


def test_rank_that_does_not_bind_is_optimal(rng):
    C = broken(rng, 12)
    full = nearest_correlation(C)
    for rank in (int((np.linalg.eigvalsh(full.X) > 1e-8).sum()), 12):
        result = nearest_correlation(C, rank=rank)
        assert result.status == "OPTIMAL"
        assert_allclose(result.X, full.X, atol=1e-3)  # a gap of 1e-8 is a distance of 1e-4
        assert result.factor.shape == (12, rank)


def test_rank_finds_what_was_planted(rng):
    V = rng.normal(size=(20, 3))
    V /= np.linalg.norm(V, axis=1)[:, None]
    C = V @ V.T
    result = nearest_correlation((C + C.T) / 2, rank=3)
    assert result.objective < 1e-12


def test_rank_moves_variables_outside_of_the_largest_components():
    """Two groups whose correlations are rounding: components of one group have entries of about 1e-13 in the rows of the other."""
    rng = np.random.default_rng(16)
    groups = [np.corrcoef(rng.normal(size=(10, k))) for k in (4, 6)]
    C = scipy.linalg.block_diag(*groups) + 1e-13 * rng.uniform(size=(20, 20))
    C = (C + C.T) / 2
    np.fill_diagonal(C, 1.0)
    result = nearest_correlation(C, rank=2)
    V = result.factor
    G = 2 * (V @ V.T - C) @ V
    G -= (G * V).sum(axis=1, keepdims=True) * V
    assert np.abs(G).max() <= 1e-4  # a stationary point; at the start the largest entry is above 1


# ---------------------------------------------------------------- indefinite and singular priors, factors
@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_the_message_on_an_indefinite_matrix_says_how_to_clip_it(rng, divergence):
    C = broken(rng, 14)
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -.*values\.clip\(1e-6\)\) @ Q\.T"):
        nearest_correlation(C, divergence=divergence)
    values, Q = np.linalg.eigh(C)
    result = nearest_correlation((Q * values.clip(1e-6)) @ Q.T, divergence=divergence, scale=False)
    assert result.status == "OPTIMAL" and verify(result, C=clipped(C), divergence=divergence).holds


# ---------------------------------------------------------------- frames, files, limits
def test_frames(rng):
    names = ["equity", "bonds", "gold", "oil"]
    C = pd.DataFrame(broken(rng, 4, 1.0), index=names, columns=names)
    result = nearest_correlation(C)
    assert isinstance(result.matrix, pd.DataFrame)
    assert list(result.matrix.index) == list(result.matrix.columns) == names
    assert (result.matrix.to_numpy() == result.X).all()
    assert isinstance(nearest_correlation(C.to_numpy()).matrix, np.ndarray)
    C.iloc[0, 1] = C.iloc[1, 0] = 1.5
    mask = pd.DataFrame(mask_of(4, [(0, 1)]), index=names, columns=names)
    assert "(equity, bonds)" in nearest_correlation(C, fixed=mask)._repr_html_()
    with pytest.raises(ValueError, match="must have the columns of C"):
        nearest_correlation(C, fixed=mask[names[::-1]])
    with pytest.raises(ValueError, match="must have the index of C"):
        nearest_correlation(C, fixed=mask.loc[names[::-1]])
    with pytest.raises(ValueError, match=r"same labels.*'gold' is in one of them only"):
        nearest_correlation(C.rename(columns={"gold": "silver"}))
    with pytest.raises(ValueError, match="another order"):
        nearest_correlation(C[names[::-1]])


def test_polars(rng):
    names = ["equity", "bonds", "gold", "oil"]
    C = broken(rng, 4, 1.0)
    frame = pl.DataFrame(C, schema=names)
    result = nearest_correlation(frame)
    assert isinstance(result.matrix, pl.DataFrame) and result.matrix.columns == names
    assert (result.matrix.to_numpy() == nearest_correlation(C).X).all()
    assert verify(result, C=frame).holds
    weighted = nearest_correlation(frame, weights=pl.DataFrame(1 + C**2, schema=names))
    assert (weighted.matrix.to_numpy() == nearest_correlation(C, weights=1 + C**2).X).all()
    with pytest.raises(ValueError, match="weights must have the columns of C"):
        nearest_correlation(frame, weights=pl.DataFrame(C**2, schema=names[::-1]))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_covariance_keeps_its_variances(rng, tmp_path, weighted):
    names, d = ["a", "b", "c", "d", "e"], np.array([1e-3, 0.2, 1.0, 7.0, 400.0])
    S = pd.DataFrame(broken(rng, 5, 1.0) * np.outer(d, d), names, names)
    problem = {"C": S, "scale": True} | ({"weights": np.ones((5, 5))} if weighted else {})
    result = nearest_correlation(**problem)
    assert list(result.covariance.columns) == list(result.covariance.index) == names
    assert_allclose(np.diag(result.covariance), d**2, rtol=1e-14)
    assert_allclose(result.covariance / np.outer(d, d), result.X, atol=1e-14)
    assert verify(result, **problem).holds
    save(tmp_path / "covariance.npz", result)
    assert_allclose(load(tmp_path / "covariance.npz").covariance, result.covariance, rtol=0)
    with pytest.raises(ValueError, match="There is no covariance: .*scale=True"):
        nearest_correlation(result.matrix).covariance  # noqa: B018


def test_fixed_may_include_the_diagonal(rng):
    C = broken(rng, 6, 0.6)
    mask = mask_of(6, [(0, 1)])
    whole = mask | np.eye(6, dtype=bool)
    assert (nearest_correlation(C, fixed=whole).X == nearest_correlation(C, fixed=mask).X).all()
    assert verify(nearest_correlation(C, fixed=whole), C=C, fixed=whole).holds
    C[2, 2] = 1.05
    with pytest.raises(ValueError, match=r"fixed is True at \[2, 2\], where C has 1.05"):
        nearest_correlation(C, fixed=whole)


# ---------------------------------------------------------------- weights and bounds
def test_weights_of_one_are_no_weights(rng):
    for n in (1, 2, 12):
        C = broken(rng, n, 0.5)
        plain, same = nearest_correlation(C, tol=1e-11), nearest_correlation(C, weights=np.ones((n, n)), tol=1e-11)
        assert same.status == "OPTIMAL"
        assert_allclose(same.X, plain.X, atol=1e-5)  # sqrt of twice the gap
        assert same.objective == pytest.approx(plain.objective, abs=1e-10)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("case", ["weights", "unknown", "bounds", "fixed", "all"])
def test_weights_and_bounds_against_their_conditions(rng, case, scale):
    """Karush, Kuhn and Tucker: S >= 0, <S, X - min_eig I> = 0, and X minimises each entry's Lagrangian."""
    n, low = 15, 0.01
    C, H = broken(rng, n, 0.5), 10 ** rng.uniform(-1, 0, (n, n))
    H = scale * (H + H.T)
    lower, upper, settings = np.full((n, n), -1.0), np.full((n, n), 1.0), {"weights": H, "min_eig": low}
    if case in ("unknown", "all"):
        H[mask_of(n, [(0, 1), (3, 5), (2, 7)])] = 0
        C = np.where((H == 0) & ~np.eye(n, dtype=bool), np.nan, C)
    if case in ("bounds", "all"):
        lower, upper = np.full((n, n), -0.5), np.full((n, n), 0.6)
        settings["bounds"] = (lower, 0.6)
    if case in ("fixed", "all"):
        settings["fixed"] = mask_of(n, [(8, 9), (10, 11)])
        C[settings["fixed"]] = [0.3, 0.3, -0.2, -0.2]
        lower, upper = (np.where(settings["fixed"], C, side) for side in (lower, upper))
    result = nearest_correlation(C, tol=1e-10, **settings)
    X, off = result.X, ~np.eye(n, dtype=bool)
    S = multiplier_matrix(result)
    assert result.status == "OPTIMAL" and (np.diag(X) == 1).all()
    assert (X[off] >= lower[off]).all() and (X[off] <= upper[off]).all()
    assert np.linalg.eigvalsh(X)[0] >= low - 1e-13 and np.linalg.eigvalsh(S)[0] >= -1e-13 * scale**2
    assert abs(np.vdot(S, X - low * np.eye(n))) <= 1e-8 * max(result.unit, scale**2)
    known = np.where(H > 0, C, 0)
    assert result.objective == pytest.approx((H**2 * (X - known) ** 2)[off].sum() / 2, rel=1e-12)
    slope = H**2 * (X - known) - S  # >= 0 where X is at its lower bound, <= 0 at its upper one, 0 between
    inside = off & (np.minimum(X - lower, upper - X) > 1e-4)
    assert np.abs(slope[inside]).max() <= 1e-3 * scale**2
    assert verify(result, C=C, **settings).holds


def test_an_unknown_entry_costs_nothing():
    """The third correlation of two that are known: any of an interval, without a change of the others."""
    C = np.array([[1.0, 0.9, 0.8], [0.9, 1.0, np.nan], [0.8, np.nan, 1.0]])
    frame = pd.DataFrame(C, list("abc"), list("abc"))
    for weights in (~np.isnan(C), frame.notna(), np.where(np.isnan(C), np.nan, 2.0)):
        result = nearest_correlation(frame, weights=weights)
        assert result.status == "OPTIMAL" and result.objective <= 1e-8
        assert_allclose(result.X[0], C[0], atol=1e-4)
        assert verify(result, C=frame, weights=weights).holds
    with pytest.raises(ValueError, match="C must be finite|C has|NaN|nan"):
        nearest_correlation(frame, weights=np.ones((3, 3)))


@pytest.mark.parametrize("min_eig", [0.0, 0.3])
def test_bounds_that_the_identity_does_not_meet(rng, min_eig):
    problem = {"C": broken(rng, 20), "bounds": (0.05, None), "min_eig": min_eig}
    result = nearest_correlation(**problem)
    assert result.status == "OPTIMAL" and result.X.min() >= 0.05
    assert verify(result, **problem).holds
    stopped = nearest_correlation(**problem, max_iter=0)
    assert stopped.status == "UNKNOWN" and verify(stopped, **problem).holds
    none = nearest_correlation(**problem | {"min_eig": 0.96})  # the smallest eigenvalue is at most 0.95
    assert none.status == "INFEASIBLE" and verify(none, **(problem | {"min_eig": 0.96})).holds


def test_singular_fixed_blocks_and_weights_claim_nothing(rng):
    """No matrix near the block is definite, which the search needs: it must not call what it has a correlation matrix."""
    C = broken(rng, 8)
    C[:3, :3] = 1.0
    problem = {"C": C, "fixed": mask_of(8, [(0, 1), (0, 2), (1, 2)]), "weights": 1 + C**2}
    result = nearest_correlation(**problem, max_iter=50)
    assert result.status == "UNKNOWN" and verify(result, **problem).holds


def test_bounds_that_no_matrix_meets_name_a_small_block(rng):
    n = 30
    C, upper = correlations(rng, n, 60), np.ones((n, n))
    block = np.ix_([4, 11, 20], [4, 11, 20])
    upper[block] = -0.6  # three correlations cannot all be below -1/2
    result = nearest_correlation(C, bounds=(None, upper))
    assert result.status == "INFEASIBLE"
    assert result.conflict.tolist() == [[4, 4], [4, 11], [4, 20], [11, 11], [11, 20], [20, 20]]
    assert verify(result, C=C, bounds=(None, upper)).holds
    upper[4, 11] = upper[11, 4] = 1.0  # irreducible: without one of the bounds there is a matrix
    assert nearest_correlation(C, bounds=(None, upper)).status == "OPTIMAL"


def test_a_contradictory_block_is_named_without_what_it_does_not_need(rng):
    """Of 30 variables with all entries fixed, three contradict each other: 6 entries carry the proof, not 465."""
    n = 30
    C = correlations(rng, n, 200)
    three = [4, 11, 20]
    C[np.ix_(three, three)] = np.where(np.eye(3, dtype=bool), 1.0, -0.8)
    problem = {"C": C, "fixed": ~np.eye(n, dtype=bool)}
    result = nearest_correlation(**problem)
    assert result.status == "INFEASIBLE" and verify(result, **problem).holds
    assert result.conflict.tolist() == [[k, k] for k in three] + [[4, 11], [4, 20], [11, 20]]
    indefinite = broken(rng, n, 0.5)
    result = nearest_correlation(indefinite, fixed=problem["fixed"])
    kept = np.unique(result.conflict)
    assert verify(result, C=indefinite, fixed=problem["fixed"]).holds
    for k in kept:  # irreducible, up to the thousandth that keeps the proof clear of rounding
        rest = kept[kept != k]
        low = np.linalg.eigvalsh(indefinite[np.ix_(rest, rest)])[0]
        assert low >= 1e-3 * np.linalg.eigvalsh(indefinite)[0]


def test_a_weighted_claim_that_is_changed_does_not_hold(rng):
    C = broken(rng, 8, 0.5)
    problem = {"C": C, "weights": 1 + C**2, "bounds": (-0.7, 0.7)}
    result = nearest_correlation(**problem)
    assert verify(result, **problem).holds
    for change in (
        {"X": 0.5 * result.X + 0.5 * np.eye(8)},
        {"dual": 0.5 * result.dual},
        {"dual_bound": result.dual_bound + 1e-3},
        {"objective": result.objective - 1e-3},
    ):
        assert not verify(replace(result, **change), **problem).holds
    assert not verify(result, **(problem | {"weights": 2 + C**2})).holds
    assert not verify(result, **(problem | {"bounds": (-0.6, 0.6)})).holds


@pytest.mark.parametrize("settings", [{}, {"rank": 2}, {"min_eig": 0.01}])
def test_state(rng, tmp_path, settings):
    C = pd.DataFrame(broken(rng, 6), index=list("abcdef"), columns=list("abcdef"))
    result = nearest_correlation(C, **settings)
    save(tmp_path / "result.bm", result)
    back = load(tmp_path / "result.bm")
    assert repr(back) == repr(result)
    assert back.matrix.equals(result.matrix)
    assert [r.iteration for r in back.history] == [r.iteration for r in result.history]
    impossible = nearest_correlation(2 * np.ones((2, 2)) - np.eye(2), fixed=~np.eye(2, dtype=bool))
    save(tmp_path / "proof.bm", impossible)
    back = load(tmp_path / "proof.bm")
    assert (back.gap, back.conflict.tolist()) == (np.inf, impossible.conflict.tolist())


@pytest.mark.parametrize("divergence", NAMES)
def test_limits(rng, divergence):
    C = broken(rng, 20) if divergence == "frobenius" else definite(rng, 20)
    stopped = nearest_correlation(C, divergence=divergence, max_iter=0)
    assert (stopped.status, stopped.exit_reason, stopped.n_iter) == ("FEASIBLE", "MAX_ITER", 0)
    assert not stopped.converged
    assert (np.diag(stopped.X) == 1).all() and np.linalg.eigvalsh(stopped.X)[0] > -1e-13
    seen = []
    watched = nearest_correlation(
        C, divergence=divergence, callback=lambda record: seen.append(record) or len(seen) == 2
    )
    assert watched.exit_reason == "INTERRUPTED"
    assert len(seen) == len(watched.history) == 2
    assert nearest_correlation(C, divergence=divergence, max_seconds=1e-9).exit_reason == "TIME"


def test_rank_limits(rng):
    C = broken(rng, 20)
    assert nearest_correlation(C, rank=4, max_iter=8).exit_reason == "MAX_ITER"
    seen = []
    result = nearest_correlation(C, rank=4, callback=lambda record: seen.append(record) or len(seen) == 12)
    assert (result.status, result.exit_reason) == ("FEASIBLE", "INTERRUPTED")
    assert_allclose((result.factor**2).sum(axis=1), 1.0)

    def interrupt(record):
        if len(record_of) == 1:
            raise KeyboardInterrupt
        record_of.append(record)

    record_of = []
    with pytest.warns(RuntimeWarning, match="nearest_correlation was interrupted after"):
        result = nearest_correlation(C, callback=interrupt)
    assert (result.status, result.exit_reason) == ("FEASIBLE", "INTERRUPTED")


def test_nothing_is_changed(rng):
    C = broken(rng, 10)
    mask = mask_of(10, [(0, 1)])
    copy = C.copy()
    for settings in ({}, {"fixed": mask}, {"rank": 2}, {"min_eig": 0.01}):
        result = nearest_correlation(C, **settings)
        assert (copy == C).all()
        assert not np.shares_memory(result.X, C)


def test_bounds_of_the_history_only_rise(rng):
    result = nearest_correlation(broken(rng, 30))
    bounds = [r.dual_bound for r in result.history]
    assert bounds == sorted(bounds)


# ---------------------------------------------------------------- bad input
EYE = np.eye(3)


def changed(i, j, value, both=True):
    C = np.eye(3)
    C[i, j] = value
    if both:
        C[j, i] = value
    return C


@pytest.mark.parametrize(
    ("C", "error", "match"),
    [
        (changed(0, 1, 0.5, both=False), ValueError, r"symmetric.*0\.5 at \[0, 1\].*0 at \[1, 0\]"),
        (EYE + 1j, TypeError, "must be real"),
        (EYE.astype(complex), TypeError, "must be real"),
        (np.zeros((0, 0)), ValueError, r"at least one row and one column; got shape \(0, 0\)"),
        (np.ones((2, 3)), ValueError, r"must be square; got shape \(2, 3\)"),
        (np.ones(3), ValueError, r"must be square; got shape \(3,\)"),
        (np.ones((2, 2, 2)), ValueError, r"must be square; got shape \(2, 2, 2\)"),
        (1.0, ValueError, r"must be square; got shape \(\)"),
        (changed(1, 1, 0.0), ValueError, r"positive diagonal; got 0 at \[1, 1\]"),
        (changed(2, 2, -1.0), ValueError, r"positive diagonal; got -1 at \[2, 2\]"),
        (
            changed(0, 2, np.nan),
            ValueError,
            r"finite; got NaN or infinity in rows 0, 2, the first is nan at \[0, 2\]. Where an entry is unknown",
        ),
        (changed(0, 0, np.inf), ValueError, r"finite; got NaN or infinity in row 0, the first is inf at \[0, 0\]"),
        (changed(0, 1, 1e200), ValueError, r"scaled towards 1; got 1e\+200 at \[0, 1\]"),
        ("matrix", TypeError, "C must be numeric; got 'matrix'"),
        ([["1", "0"], ["0", "1"]], TypeError, "C must be numeric"),
        ([[1.0, "a"], ["a", 1.0]], TypeError, "C must be numeric"),
        ([[1.0, 0.0], [1.0]], TypeError, "C must have rows of one length"),
        (None, TypeError, "C must be numeric; got None"),
        (4 * EYE, ValueError, r"4 at \[0, 0\].*scale=True"),
        (Factor(np.eye(3)), TypeError, "C must be a matrix; got a Factor"),
    ],
)
def test_bad_matrices(C, error, match):
    with pytest.raises(error, match=match):
        nearest_correlation(C)


def test_labels_are_named():
    C = pd.DataFrame(changed(0, 2, np.nan), index=list("abc"), columns=list("abc"))
    with pytest.raises(ValueError, match=r"\[0, 2\] \('a', 'c'\)"):
        nearest_correlation(C)


def test_good_kinds_of_matrices():
    C = [[1, 1], [1, 1]]
    for given in (
        C,
        np.array(C, dtype=np.int8),
        np.array(C, dtype=object),
        scipy.sparse.csr_array(C),
        np.array(C, bool),
    ):
        assert_allclose(nearest_correlation(given).X, C, atol=1e-14)


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"fixed": np.zeros((2, 2), bool)}, ValueError, r"fixed must have shape \(3, 3\); got \(2, 2\)"),
        ({"fixed": np.zeros((3, 3))}, TypeError, "boolean mask; got dtype float64"),
        (
            {"fixed": np.triu(np.ones((3, 3), bool), 1)},
            ValueError,
            r"fixed must be symmetric.*1 at \[0, 1\] but 0 at \[1, 0\]",
        ),
        ({"weights": -np.ones((3, 3))}, ValueError, r"weights must not be negative; got -1 at \[0, 0\]"),
        ({"weights": np.ones((2, 2))}, ValueError, "weights"),
        ({"weights": np.triu(np.ones((3, 3)))}, ValueError, "weights must be symmetric"),
        (
            {"weights": np.ones((3, 3)), "divergence": "logdet"},
            ValueError,
            'weights and bounds need divergence="frobenius"',
        ),
        ({"weights": np.ones((3, 3)), "rank": 2}, ValueError, "weights and bounds do not go with rank"),
        ({"bounds": 0.5}, TypeError, r"bounds must be a pair \(lower, upper\)"),
        ({"bounds": (0.5, 0.4)}, ValueError, r"lower <= upper.*0.5 and 0.4 at \[0, 1\]"),
        ({"bounds": (1.5, None)}, ValueError, r"lower <= upper.*1.5 and 1 at \[0, 1\]"),
        ({"bounds": (np.nan, None)}, ValueError, "bounds: lower"),
        ({"bounds": (0.1, 1), "fixed": ~np.eye(3, dtype=bool)}, ValueError, "fixed and bounds disagree"),
        ({"weights": np.eye(3), "fixed": ~np.eye(3, dtype=bool)}, ValueError, "fixed has .*weight in weights is 0"),
        ({"rank": 0}, ValueError, "rank must be at least 1; got 0"),
        ({"rank": 4}, ValueError, "rank must be between 1 and n = 3; got 4"),
        ({"rank": 1.5}, TypeError, "rank must be an integer or None; got 1.5"),
        ({"rank": True}, TypeError, "rank"),
        ({"rank": 2, "min_eig": 0.1}, ValueError, "rank does not go with"),
        ({"rank": 2, "divergence": "logdet"}, ValueError, 'rank needs divergence="frobenius"'),
        ({"min_eig": -0.1}, ValueError, r"min_eig must be in \[0, 1\).*-0.1"),
        ({"min_eig": 1.0}, ValueError, r"min_eig must be in \[0, 1\)"),
        ({"min_eig": np.nan}, ValueError, "min_eig"),
        ({"min_eig": "0"}, TypeError, "min_eig must be a number"),
        ({"fixed": np.eye(3, dtype=bool), "divergence": "logdet"}, ValueError, "fixed needs .*Constraints.similarity"),
        ({"min_eig": 0.1, "divergence": "vonneumann"}, ValueError, "min_eig needs"),
        ({"scale": 1.0}, TypeError, "scale must be None, True or False"),
        ({"divergence": "euclid"}, ValueError, "divergence must be one of"),
        ({"divergence": LogDet}, TypeError, "divergence"),
        ({"tol": 0.0}, ValueError, "tol must be positive"),
        ({"tol": None}, TypeError, "tol must be a number"),
        ({"max_iter": -1}, ValueError, "max_iter"),
        ({"max_iter": 1.5}, TypeError, "max_iter"),
        ({"max_seconds": np.nan}, ValueError, "max_seconds"),
        ({"callback": 3}, TypeError, "callback must be callable"),
    ],
)
def test_bad_settings(settings, error, match):
    with pytest.raises(error, match=match):
        nearest_correlation(EYE, **settings)


@pytest.mark.parametrize("n", [20, 60])
def test_logdet_at_large_condition_numbers(rng, n):
    """Distance and bound, both computed in extended precision, differ by the tolerance at most."""
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    C = (Q * np.geomspace(1e-11, 1.0, n)) @ Q.T
    C = (C + C.T) / 2
    result = nearest_correlation(C, divergence="logdet")
    assert result.status == "OPTIMAL"
    L, mu = accurate_cholesky(C), result.dual.astype(np.longdouble)
    K = accurate_cholesky(result.X)
    inverse = np.linalg.inv(L.astype(float)).astype(np.longdouble)
    inverse += inverse @ (np.eye(n) - L @ inverse)  # one step of Newton's method doubles its digits
    distance = ((inverse @ K) ** 2).sum() - 2 * np.log(np.diag(K) / np.diag(L)).sum() - n
    bound = 2 * np.log(np.diag(accurate_cholesky(np.eye(n) + (L.T * mu) @ L))).sum() - mu.sum()
    assert 0 <= distance - bound <= 1.01 * result.tol * distance
    assert float(distance) == pytest.approx(result.objective, rel=1e-9)


def test_priors_of_any_size(rng):
    """Definite matrices far from a unit diagonal: on the ray of the prior. A singular one is refused by name."""
    edges = np.triu(rng.random((30, 30)) < 0.2, 1)
    edges = (edges + edges.T).astype(float)
    singular, K = np.linalg.pinv(np.diag(edges.sum(axis=1)) - edges, hermitian=True), definite(rng, 30)
    for s in (1e-8, 1e-4, 1.0, 1e4, 1e8):
        for divergence in ("logdet", "vonneumann"):
            result = nearest_correlation(s * K, divergence=divergence)
            assert result.status == "OPTIMAL"
            assert result.n_iter <= (80 if divergence == "logdet" else 20)  # along the path where the prior is small
            with pytest.raises(ValueError, match="C must be positive definite beyond rounding"):
                nearest_correlation(s * singular, divergence=divergence)


@pytest.mark.parametrize("divergence", NAMES)
def test_covariances_come_out_symmetric(rng, divergence):
    X = nearest_correlation(definite(rng, 12), divergence=divergence, scale=True).X
    assert (X == X.T).all()
