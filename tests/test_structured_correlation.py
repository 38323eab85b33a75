"""Shrinking towards a target and k factors: brute force, certificates, forms of the input, bad input."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.optimize
from numpy.testing import assert_allclose

from bregmat import (
    Constraints,
    Factor,
    factor_correlation,
    load,
    nearest_correlation,
    nearest_kernel,
    save,
    shrink_correlation,
    verify,
)
from test_correlation import broken, correlations


# ---------------------------------------------------------------- shrinking
def bisected(C, T, low):
    """The smallest share of T by bisection, which Higham, Strabic and Sego call reliable and slow."""
    left, right = 0.0, 1.0
    for _ in range(60):
        middle = (left + right) / 2
        x = np.linalg.eigvalsh(middle * T + (1 - middle) * C)[0]
        left, right = (left, middle) if x >= low else (middle, right)
    return right


@pytest.mark.parametrize("low", [0.0, 0.05])
@pytest.mark.parametrize("kind", ["identity", "target", "fixed"])
def test_the_share_is_the_smallest(rng, kind, low):
    n = 12
    C = broken(rng, n, 0.5)
    C[:4, :4] = correlations(rng, 4, 30)
    more, T = {}, np.eye(n)
    if kind == "target":
        T = 0.5 * correlations(rng, n, 40) + 0.5 * np.eye(n)
        more = {"target": T}
    elif kind == "fixed":
        T[:4, :4] = C[:4, :4]
        more = {"fixed": np.kron(np.diag([1.0, 0.0, 0.0]), np.ones((4, 4))) > 0}
    result = shrink_correlation(C, **more, min_eig=low)
    assert (result.status, result.exit_reason) == ("OPTIMAL", "TOLERANCE")
    assert result.alpha == pytest.approx(bisected(C, T, low), abs=1e-12)
    assert_allclose(result.X, result.alpha * T + (1 - result.alpha) * C, atol=1e-14)
    assert (np.diag(result.X) == 1).all() and result.smallest_eigenvalue >= low - 1e-14
    if kind == "fixed":
        assert (result.X[:4, :4] == C[:4, :4]).all()
    less, v = 0.999 * result.dual_bound, result.vector
    assert v @ (less * T + (1 - less) * C) @ v < low * (v @ v)
    assert result.residual >= nearest_correlation(C, min_eig=low).residual
    assert verify(result, **({"C": C, "min_eig": low} | more)).holds


def test_what_is_a_correlation_matrix_is_not_shrunk(rng):
    for C in (correlations(rng, 8, 40), correlations(rng, 8, 5), np.ones((3, 3)), np.ones((1, 1))):  # also singular
        result = shrink_correlation(C)
        assert result.alpha == 0.0 and (result.X == C).all() and result.status == "OPTIMAL"
        assert verify(result, C=C).holds


def test_a_target_near_the_border_is_not_passed_off_as_optimal(rng):
    """With a target of smallest eigenvalue 1e-9, rounding alone moves alpha; what is returned is a correlation matrix all the same."""
    C = broken(rng, 10, 0.5)
    ones = np.full((10, 10), 1 - 1e-9)
    np.fill_diagonal(ones, 1.0)
    result = shrink_correlation(C, ones)
    assert result.smallest_eigenvalue >= 0 and result.dual_bound <= result.alpha <= 1
    assert (result.status == "OPTIMAL") == (result.gap <= result.tol)
    assert verify(result, C=C, target=ones).holds
    assert not verify(replace(result, dual_bound=result.alpha + 0.01, gap=0.0), C=C, target=ones).holds


def test_signs_and_order_stay_with_the_identity(rng):
    C = broken(rng, 15, 0.5)
    X = shrink_correlation(C).X
    i, j = np.triu_indices(15, 1)
    assert (np.argsort(C[i, j]) == np.argsort(X[i, j])).all() and (np.sign(C) == np.sign(X)).all()


@pytest.mark.parametrize("function", [shrink_correlation, lambda C, **k: factor_correlation(C, 2, **k)])
def test_frames_covariances_and_files(rng, tmp_path, function):
    names, d = list("abcdef"), np.array([2.0, 0.1, 5.0, 1.0, 3.0, 0.5])
    C = broken(rng, 6, 0.5)
    plain = function(C)
    frame = function(pd.DataFrame(C, names, names)).matrix
    assert list(frame.index) == list(frame.columns) == names and (frame.to_numpy() == plain.X).all()
    frame = function(pl.DataFrame(C, schema=names)).matrix
    assert isinstance(frame, pl.DataFrame) and (frame.to_numpy() == plain.X).all()
    S = pd.DataFrame(C * np.outer(d, d), names, names)
    result = function(S, scale=True)
    assert_allclose(result.matrix, plain.X, atol=1e-6)
    assert_allclose(result.covariance, result.X * np.outer(d, d), rtol=1e-14)
    with pytest.raises(ValueError, match="where a correlation matrix has 1"):
        function(S)
    save(tmp_path / "result.bm", result)
    again = load(tmp_path / "result.bm")
    assert (
        (again.X == result.X).all() and again.matrix.equals(result.matrix) and again.proof_text() == result.proof_text()
    )
    assert "distance" in result._repr_html_()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target": np.ones((3, 3))}, "target must have eigenvalues above min_eig = 0; the smallest is"),
        ({"target": 2 * np.eye(3)}, r"target must have a unit diagonal; got 2 at \[0, 0\]"),
        ({"target": np.eye(3), "fixed": np.eye(3, dtype=bool)}, "target and fixed exclude each other"),
        ({"target": np.eye(2)}, "target"),
        (
            {"fixed": ~np.eye(3, dtype=bool)},
            "fixed: the matrix of the fixed entries, and 0 elsewhere, must have eigenvalues",
        ),
        ({"min_eig": 1.0}, "min_eig"),
    ],
)
def test_targets_that_are_none(more, message):
    C = np.array([[1.0, 0.9, 0.7], [0.9, 1.0, -0.2], [0.7, -0.2, 1.0]])
    with pytest.raises(ValueError, match=message):
        shrink_correlation(C, **more)


# ---------------------------------------------------------------- factors
def planted(rng, n, k):
    """A matrix with k factors."""
    L = rng.normal(size=(n, k))
    L *= (rng.uniform(0.3, 0.95, n) / np.linalg.norm(L, axis=1))[:, None]
    C = L @ L.T
    np.fill_diagonal(C, 1.0)
    return C


def assert_has_factors(result, k):
    """What X claims to be."""
    L, X = result.factor, result.X
    own = 1 - (L**2).sum(axis=1)
    assert L.shape == (len(X), k) and own.min() >= -1e-14 and (np.diag(X) == 1).all()
    assert_allclose(X, L @ L.T + np.diag(own), atol=1e-14)
    assert result.objective >= result.dual_bound - 1e-9 * max(1.0, result.objective)
    assert (result.status == "OPTIMAL") == (result.gap <= result.tol)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_planted_factors_are_found(rng, k):
    C = planted(rng, 15, k)
    result = factor_correlation(C, k)
    assert result.status == "OPTIMAL" and result.n_factors == k
    assert_has_factors(result, k)
    assert_allclose(result.X, C, atol=1e-3)


def brute_force(C, k, rng, starts):
    """The best of many searches by SciPy over L = V[:, :k] of unit rows V."""
    n = len(C)

    def value(w):
        V = w.reshape(n, k + 1)
        L = (V / np.linalg.norm(V, axis=1)[:, None])[:, :k]
        E = L @ L.T - C
        np.fill_diagonal(E, 0.0)
        return 0.5 * (E**2).sum()

    return min(scipy.optimize.minimize(value, rng.normal(size=n * (k + 1)), method="BFGS").fun for _ in range(starts))


@pytest.mark.parametrize(("n", "k"), [(2, 1), (3, 1), (4, 1), (4, 2), (4, 3)])
def test_no_matrix_is_below_the_bound(rng, n, k):
    """Also where entries exceed 1; the search finds what many searches of SciPy find."""
    for scale in (0.7, 1.5):
        C = np.triu(rng.uniform(-scale, scale, (n, n)), 1)
        C += C.T + np.eye(n)
        result, best = factor_correlation(C, k), brute_force(C, k, rng, 8)
        assert_has_factors(result, k)
        assert result.dual_bound <= best + 1e-9
        assert result.objective == pytest.approx(best, rel=1e-5, abs=1e-6)
        assert verify(result, C=C, n_factors=k).holds


def test_the_bound_sees_what_no_factor_reaches(rng):
    """By each of its two arguments: a block off the diagonal of rank 2, and an eigenvalue beyond the first above 1."""
    C = np.eye(4)
    C[:2, 2:] = 0.5 * np.array([[1.0, -1.0], [1.0, 1.0]])
    C[2:, :2] = C[:2, 2:].T
    assert factor_correlation(C, 1).dual_bound == pytest.approx(0.5)  # singular values are 0.707 twice
    two = np.kron(np.eye(2), np.ones((3, 3)))  # eigenvalues 3, 3, 0: a block of its own for each half
    assert factor_correlation(two, 1).dual_bound == pytest.approx(2.0)  # (3 - 1)^2 / 2
    assert factor_correlation(two, 2).dual_bound == pytest.approx(0.0, abs=1e-25)
    for k in (1, 2, 5):
        assert factor_correlation(planted(rng, 40, k), k).dual_bound == pytest.approx(0.0, abs=1e-25)
        result = factor_correlation(broken(rng, 40, 0.3), k)
        assert result.dual_bound > 0.3 * result.objective  # no small part, as the bound of any form would be
        assert_has_factors(result, k)


def test_a_gap_is_closed_only_by_a_bound(rng):
    """With as many factors as the rank of the nearest matrix the bound is reached; with fewer it is not called optimal."""
    C = broken(rng, 8, 0.6)
    near = nearest_correlation(C)
    rank = int((np.linalg.eigvalsh(near.X) > 1e-6).sum())
    assert rank < 8
    full, few = factor_correlation(C, rank), factor_correlation(C, 2)
    assert full.status == "OPTIMAL" and full.objective == pytest.approx(near.objective, rel=1e-6)
    assert few.status == "FEASIBLE" and few.gap > 1e-3
    assert "every matrix allowed here is at least" in few.proof_text() and "n_factors=2" in repr(few)
    for change in (
        {"status": full.status, "gap": 0.0, "dual_bound": few.objective},
        {"n_factors": None},
        {"factor": None},
        {"factor": few.factor[:, :1]},
    ):
        assert not verify(replace(few, **change), C=C, n_factors=2).holds, change
    assert not verify(few, C=C, n_factors=1).holds


def test_the_search_starts_at_the_principal_factors(rng):
    g = rng.uniform(0.3, 0.8, 12)
    C = np.outer(g, g)
    np.fill_diagonal(C, 1.0)
    t, U = np.linalg.eigh(C)
    E = t[-1] * np.outer(U[:, -1], U[:, -1]) - C  # the communalities are below 1, so nothing is cut
    np.fill_diagonal(E, 0.0)
    assert factor_correlation(C, 1, max_iter=0).objective == pytest.approx(0.5 * (E**2).sum())


def test_limits_of_the_searches(rng):
    C = broken(rng, 20)
    stopped = factor_correlation(C, 3, max_iter=2)
    assert stopped.exit_reason == "MAX_ITER" and stopped.status == "FEASIBLE"
    assert_has_factors(stopped, 3)
    seen = []
    result = factor_correlation(C, 3, callback=lambda record: seen.append(record) or len(seen) == 9)
    assert len(seen) == 9 and result.exit_reason == "INTERRUPTED"
    assert factor_correlation(C, 3, max_seconds=1e-9).exit_reason == "TIME"


@pytest.mark.parametrize(
    ("C", "k", "error", "message"),
    [
        (np.eye(3), 4, ValueError, "n_factors must be between 1 and n = 3; got 4"),
        (np.eye(3), 0, ValueError, "n_factors"),
        (np.eye(3), None, TypeError, "n_factors must be an integer"),
        (np.eye(3) * [1.0, 1.0, -1.0], 1, ValueError, "C must have a positive diagonal"),
        (Factor(np.eye(3)), 1, TypeError, "C must be"),
    ],
)
def test_factors_that_are_none(C, k, error, message):
    with pytest.raises(error, match=message):
        factor_correlation(C, k)


# ---------------------------------------------------------------- rounded diagonals, constant columns, gaps beside fixed entries
def test_a_fixed_diagonal_may_be_rounded(rng):
    C = np.corrcoef(rng.normal(size=(12, 8)))
    np.fill_diagonal(C, 1.0 - 1e-15)
    C = (C + C.T) / 2
    result = nearest_correlation(C, fixed=np.eye(12, dtype=bool))
    assert (result.status, set(np.diag(result.X))) == ("OPTIMAL", {1.0})
    with pytest.raises(ValueError, match=r"scale=True divides"):
        nearest_correlation(C + 1e-6 * np.eye(12), fixed=np.eye(12, dtype=bool))


def test_constant_columns(rng):
    """A variance of 0 stays 0, and the others are repaired as without it."""
    X = rng.normal(size=(30, 6))
    X[:, 2] = 4.0
    S = np.cov(X.T) - 0.3 * np.eye(6) * (np.arange(6) != 2)
    S[2] = S[:, 2] = 0.0
    rest = np.delete(np.arange(6), 2)
    for more in ({}, {"weights": np.ones((6, 6))}, {"min_eig": 0.1}):
        result = nearest_correlation(S, scale=True, **more)
        assert result.status == "OPTIMAL"
        assert (result.covariance[2] == 0).all()
        assert_allclose(np.diag(result.covariance), np.diag(S), rtol=1e-14)
        few = {k: v[:5, :5] if k == "weights" else v for k, v in more.items()}
        alone = nearest_correlation(S[np.ix_(rest, rest)], scale=True, **few)
        assert_allclose(result.covariance[np.ix_(rest, rest)], alone.covariance, atol=1e-6)
        assert not verify(result, **({"C": S, "scale": True} | more)).problems
    with pytest.raises(ValueError, match="scale=True keeps variances of 0"):
        nearest_correlation(S, scale=False)


def test_nan_on_the_diagonal(rng):
    """Of a constant column, in tables of correlations."""
    C = np.corrcoef(rng.normal(size=(5, 4)))
    C[3] = C[:, 3] = np.nan
    weights = np.where(np.isnan(C), 0.0, 1.0)
    result = nearest_correlation(C, weights=weights)
    assert (result.status, result.X[3, 3]) == ("OPTIMAL", 1.0)
    assert not verify(result, C=C, weights=weights).problems
    with pytest.raises(ValueError, match="no variance at .3, 3."):
        nearest_correlation(C, weights=weights, scale=True)


def test_gaps_beside_fixed_entries_need_no_weights():
    C = np.array([[1.0, 0.9, np.nan], [0.9, 1.0, -0.2], [np.nan, -0.2, 1.0]])
    fixed = np.zeros((3, 3), dtype=bool)
    fixed[0, 1] = fixed[1, 0] = True
    result = nearest_correlation(C, fixed=fixed)
    assert (result.status, result.X[0, 1], round(result.X[1, 2], 6)) == ("OPTIMAL", 0.9, -0.2)
    assert not verify(result, C=C, fixed=fixed).problems
    fixed[0, 2] = fixed[2, 0] = True
    with pytest.raises(ValueError, match="it is unknown"):
        nearest_correlation(C, fixed=fixed)


def test_an_indefinite_prior_is_told_what_repairs_it(rng):
    S = np.diag([1.0, 4.0, 9.0]) + 3.0
    S[0, 2] = S[2, 0] = 9.0
    with pytest.raises(ValueError, match=r"nearest_correlation\(prior, scale=True\)\.covariance"):
        nearest_kernel(S, Constraints.diagonal(np.ones(3)))
    repaired = nearest_correlation(S, scale=True).covariance
    assert nearest_kernel(repaired, Constraints.diagonal(np.ones(3)), divergence="frobenius").status == "OPTIMAL"


# ---------------------------------------------------------------- completion, and Factors
def test_completion_has_the_largest_determinant(rng):
    """The inverse of the completion is 0 at the unknown entries (Dempster 1972), and its known entries are those of C."""
    n = 30
    truth = correlations(rng, n, 60)
    known = np.triu(rng.random((n, n)) < 0.3, 1)
    known |= known.T | np.eye(n, dtype=bool)
    C = np.where(known, truth, np.nan)
    for table in (C, pd.DataFrame(C)):
        result = nearest_kernel(np.eye(n), Constraints.entries(table), tol=1e-10)
        X = result.kernel()
        assert result.status == "OPTIMAL"
        assert_allclose(X[known], C[known], atol=1e-8)
        inverse = np.linalg.inv(X)
        assert_allclose(inverse[~known], 0.0, atol=1e-4 * np.abs(inverse).max())
        assert np.linalg.slogdet(X)[1] >= np.linalg.slogdet(truth)[1]


def test_entries_of_a_table_that_is_not_symmetric():
    with pytest.raises(ValueError, match=r"only one of .0, 1. and .1, 0. is NaN"):
        Constraints.entries([[1.0, np.nan], [0.5, 1.0]])
    with pytest.raises(ValueError, match="symmetric"):
        Constraints.entries([[1.0, 0.4], [0.5, 1.0]])
    assert Constraints.entries([[1.0, np.nan], [np.nan, np.nan]]).n_constraints == 1


def test_nearest_correlation_of_a_factor(rng):
    """LogDet, in the range of the factor: the same matrix as that of the dense method for a factor of full rank."""
    G = rng.normal(size=(9, 9))
    result = nearest_kernel(Factor(G), Constraints.diagonal(np.ones(9)), tol=1e-10)
    assert_allclose(result.kernel(), nearest_correlation(G @ G.T, divergence="logdet", tol=1e-10).X, atol=1e-6)
    with pytest.raises(TypeError, match=r"nearest_kernel\(C, Constraints.diagonal"):
        nearest_correlation(Factor(G))
