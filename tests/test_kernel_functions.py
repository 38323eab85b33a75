"""Kernel functions: scikit-learn's names and values, coefficients that data decide, tests of symmetry, pivots."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import KERNEL_PARAMS, PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels, rbf_kernel

from bregmat import KernelKMeans, KernelLearner, MarginSVC
from bregmat.kernels import KernelFunction, kernel_source
from bregmat.kernels.definite import check_definite, check_given, negative_eigenvalue
from bregmat.kernels.functions import NAMED, gamma_of
from bregmat.kernels.lowrank import incomplete_cholesky, pivoted_cholesky
from formulas import close


def test_names_and_parameters_are_scikit_learns():
    assert set(NAMED) == set(PAIRWISE_KERNEL_FUNCTIONS)
    assert {name: set(KERNEL_PARAMS[name]) for name in NAMED} == {name: set(k.parameters) for name, k in NAMED.items()}


@pytest.mark.parametrize("gamma", [None, 0.3])
@pytest.mark.parametrize("name", NAMED)
def test_values_are_scikit_learns_to_the_last_bit(rng, name, gamma):
    X, Y = np.abs(rng.standard_normal((2, 30, 5)))
    given = {"gamma": gamma, "degree": 3, "coef0": 0.5}
    values = KernelFunction.of(name, **given)(X, Y)
    if gamma is None:
        del given["gamma"]
    np.testing.assert_array_equal(values, pairwise_kernels(X, Y, metric=name, filter_params=True, **given))


def test_gamma_counts_with_weights_and_does_not_depend_on_the_form(rng):
    X = rng.standard_normal((40, 3)) * 5 + 100
    weights = rng.integers(0, 3, 40).astype(float)
    repeated = np.repeat(X, weights.astype(int), axis=0)
    assert gamma_of(X, "scale", weights) == pytest.approx(1 / (3 * repeated.var()), rel=1e-12)
    assert gamma_of(X, "scale") == pytest.approx(1 / (3 * X.var()), rel=1e-12)
    assert gamma_of(X.astype(np.float32), "scale") == pytest.approx(1 / (3 * X.var()), rel=1e-5)
    for constant in (np.ones((6, 3)), np.full((7, 5), 0.1), sp.csr_array(np.full((50, 3), 1e8 / 3))):
        assert gamma_of(constant, "scale") == 1.0  # the rounding of the mean is no variance
    assert gamma_of(sp.csr_array(X), "scale") == pytest.approx(1 / (3 * X.var()), rel=1e-9)
    with pytest.raises(ValueError, match="gamma must be .*got 'wide'"):
        kernel_source(X, "linear", gamma="wide")


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_asymmetric_entry_is_found_in_any_memory_order(rng, order):
    X = rng.standard_normal((150, 4))
    K = np.array(X @ X.T, order=order)
    check_given((K + K.T) / 2)
    K[70, 3] += 1.0
    with pytest.raises(ValueError, match=r"X must be symmetric; the largest asymmetry is 1: .*\[3, 70\]"):
        check_given(K)


# ---------------------------------------------------------------- kernel functions with complex values
@pytest.mark.parametrize(
    "estimator", [KernelLearner(), MarginSVC(), KernelKMeans(2, random_state=0)], ids=lambda e: type(e).__name__
)
def test_a_complex_kernel_function_is_refused_by_name(estimator, rng):
    def phased(X, Y):
        """Hermitian and positive definite: a Gaussian kernel with a phase."""
        distances = ((X[:, None] - Y[None]) ** 2).sum(axis=2)
        return np.exp(-distances + 1j * (X.sum(axis=1)[:, None] - Y.sum(axis=1)))

    X = rng.normal(size=(30, 3))
    with pytest.raises(TypeError, match="kernel phased must be real; got complex numbers"):
        estimator.set_params(kernel=phased).fit(X, X[:, 0] > 0)


def test_a_complex_precomputed_kernel_source_is_refused():
    with pytest.raises(TypeError, match="X must be real; got complex numbers"):
        kernel_source(np.eye(3) * (1 + 0j), "precomputed")


@pytest.mark.slow
def test_smallest_eigenvalue_of_any_order(rng):
    for n in (50, 1100):
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        values = np.linspace(1.0, 5.0, n)
        good = (Q * values) @ Q.T
        assert negative_eigenvalue(good) is None
        values[3] = -0.5
        found = negative_eigenvalue((Q * values) @ Q.T)
        assert found.value == pytest.approx(-0.5, rel=1e-2) and found.largest == pytest.approx(5.0, rel=0.2)
        np.testing.assert_array_equal(found.rows, np.sort(np.argsort(-np.abs(Q[:, 3]))[:4]))
        values[3] = -1e-9  # rounding
        assert negative_eigenvalue((Q * values) @ Q.T) is None


@pytest.mark.slow
def test_pivots_are_the_farthest_points(rng):
    assert len(pivoted_cholesky(rbf_kernel(np.repeat(rng.normal(size=(7, 4)), 5, axis=0))).rows) == 7
    X = rng.normal(size=(300, 3))
    K = rbf_kernel(X, gamma=0.3)
    G, pivots = incomplete_cholesky(lambda a, b: K[np.ix_(np.arange(300) if a is None else a, b)], np.diag(K), 40)
    left = K - G @ G.T
    assert np.linalg.eigvalsh(left)[0] > -1e-12 and np.isclose(1 - np.trace(left) / 300, pivots.captured)
    assert close(pivots.coordinates(K[:, pivots.rows]), G) and close(G[pivots.rows], pivots.L)
    # plain greedy pivoting, one point at a time, is what blocks of nearly farthest points stand for
    diagonal, H = np.ones(300), np.zeros((300, 0))
    for _ in range(40):
        p = diagonal.argmax()
        column = (K[:, p] - H @ H[p]) / np.sqrt(diagonal[p])
        H, diagonal = np.column_stack([H, column]), diagonal - column**2
    assert diagonal.sum() / 1.3 < np.trace(left) < 1.3 * diagonal.sum()
    eigenvalues = np.linalg.eigvalsh(K)
    assert np.trace(left) < 20 * eigenvalues[:-40].sum()


@pytest.mark.parametrize("n", [40, 400])
def test_singular_matrices_pass(rng, n):
    """Rank 5, equal rows, zero rows, and scales over sixteen decades: rounding is not taken for an eigenvalue."""
    X = rng.standard_normal((5, n))
    X[:, 3] = X[:, 4]
    X[:, 7] = 0.0
    for unit in (1.0, 10 ** rng.uniform(-8, 8, n), 1e-150, 1e100):
        check_definite((X * unit).T @ (X * unit))
