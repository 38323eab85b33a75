"""What MarginSVC takes as a kernel, what it refuses, and numbers at the ends of the range."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from bregmat import MarginSVC, SolverError, Status
from bregmat.margin import kernel_source

AGREE = 1e-3  # of decision values in units of the margin
EXACT = {"tol": 1e-10, "random_state": 0}


@pytest.mark.parametrize("params", [{}, {"gamma": 1e-6, "coef0": -1.0}, {"solver": "multiplicative", "max_iter": 50}])
def test_sigmoid_is_no_kernel(params):
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(ValueError, match=r"kernel 'sigmoid'.* positive semidefinite"):
        MarginSVC(kernel="sigmoid", **params).fit(X, y)


def test_matrices_that_are_not_positive_semidefinite(cancer, rng):
    X, y = cancer
    G = rng.normal(size=(len(y), len(y)))
    with pytest.raises(ValueError, match=r"kernel 'precomputed'.* positive semidefinite"):
        MarginSVC(kernel="precomputed").fit(G + G.T + 20 * np.eye(len(y)), y)
    single = (X @ X.T).astype(np.float32)  # indefinite by rounding only
    machine = MarginSVC(kernel="precomputed", C=0.1, tol=1e-4).fit(single, y)
    double = MarginSVC(kernel="linear", C=0.1, tol=1e-4).fit(X, y)
    assert np.abs(machine.decision_function(single) - double.decision_function(X)).max() < 0.1


@pytest.mark.parametrize(
    "params",
    [
        {"kernel": "sigmoid", "gamma": 1.0, "coef0": -1.0},
        {"kernel": "poly", "degree": 1.5, "coef0": 20.0, "gamma": 0.1},
        {"kernel": "poly", "degree": 2, "coef0": -1.0},
        {"kernel": lambda A, B: rbf_kernel(A, B, gamma=0.1) - 0.5 * rbf_kernel(A, B, gamma=0.5)},
    ],
    ids=lambda params: str({name: getattr(value, "__name__", value) for name, value in params.items()}),
)
def test_no_proof_for_kernels_that_are_not_positive_semidefinite(params):
    """Where no step of the solver meets the negative curvature, the gap closes all the same."""
    X, t = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match="positive semidefinite"):
        MarginSVC(C=0.1, **params).fit(StandardScaler().fit_transform(X), t == 1)


@pytest.mark.parametrize("n", [300, 800])
@pytest.mark.parametrize("form", [np.float64, np.float32])
def test_one_negative_eigenvalue_of_a_given_kernel(rng, n, form):
    X, t = make_classification(n, 10, random_state=0)
    K = rbf_kernel(X)
    values, vectors = np.linalg.eigh(K)
    values[0] = -1.0
    K = (vectors * values) @ vectors.T
    K = ((K + K.T) / 2).astype(form)
    message = (
        r"'precomputed' must be positive semidefinite on the training data; .* eigenvalue -.*rows \d+, .*K \+ .* I"
    )
    with pytest.raises(ValueError, match=message):
        MarginSVC(kernel="precomputed", C=0.1).fit(K, t)
    assert MarginSVC(kernel="precomputed", C=0.1).fit(K + 1.1 * np.eye(n, dtype=form), t).gap_ <= 1e-6


@pytest.mark.parametrize("C", [0.1, 100.0])
def test_rows_of_a_refused_kernel_are_those_of_the_data(C):
    """Whether the finish meets the negative curvature or the look at the support vectors: both know a pair's examples only."""
    t = np.arange(1200) % 3
    K = np.eye(1200)
    K[np.ix_([1097, 1100], [1097, 1100])] = [[1.0, -3.0], [-3.0, 1.0]]  # both of class 2
    with pytest.raises(ValueError, match="eigenvalue -2 .*rows .*1097.*1100"):
        MarginSVC(kernel="precomputed", C=C).fit(K, t)


def test_every_entry_of_a_given_kernel_is_compared(cancer):
    X, y = cancer
    K = X @ X.T
    K[0, 1] += 1e3
    with pytest.raises(ValueError, match=r"X must be symmetric.*: 1\d\d\d\.\d+ at \[0, 1\] but -?\d+\.\d+ at \[1, 0\]"):
        MarginSVC(kernel="precomputed").fit(K, y)
    with pytest.raises(ValueError, match=r"got 1 in row \d, column \d and 0 the other way"):
        kernel_source(np.eye(4, k=1), "precomputed")


@pytest.mark.slow
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_float32_values_of_raw_data_are_fitted(C):
    """Entries up to 1e7, rounded in float32: negative eigenvalues that say nothing of the kernel."""
    X, y = load_breast_cancer(return_X_y=True)
    K = (X @ X.T).astype(np.float32)
    assert np.linalg.eigvalsh(K.astype(float))[0] < -1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the worst that may happen
        machine = MarginSVC(kernel="precomputed", C=C).fit(K, y)
    assert machine.score(K, y) > 0.9


def test_scales_that_float32_cannot_hold(cancer):
    X, y = cancer
    plain = MarginSVC(kernel="linear", **EXACT).fit(X, y)
    for scale in (1e10, 1e-10):
        far = MarginSVC(kernel="linear", C=1.0 / scale**2, **EXACT).fit(X * scale, y)
        assert far.result_.status is Status.OPTIMAL
        assert far.result_.dual_bound * scale**2 == pytest.approx(plain.result_.dual_bound, rel=1e-9)
        assert far.result_.history[-1].gap == far.gap_
        assert np.abs(far.decision_function(X * scale) - plain.decision_function(X)).max() < AGREE
    with pytest.raises(SolverError, match="cannot be separated"):
        MarginSVC(kernel="linear", C=np.inf).fit(np.ones((4, 2)) * 1e10, [0, 1, 0, 1])
    for scale in (1e20, 1e-20):
        with pytest.raises(
            ValueError, match="largest kernel value .* must be between 1e-25 and 1e.25; got .* Scale the features"
        ):
            MarginSVC(kernel="linear").fit(X * scale, y)
    for gamma in (1e38, 1e300):  # every point on its own
        alone = MarginSVC(gamma=gamma, **EXACT).fit(X, y)
        assert alone.gap_ <= 1e-10 and np.sign(alone.result_.decision[y == 0]).max() <= 0


def test_a_linear_machine_does_not_depend_on_the_origin(iris):
    X, y = iris
    near, far = (MarginSVC(kernel="linear", **EXACT).fit(X + shift, y) for shift in (0.0, 1e6))
    assert far.gap_ <= 1e-10
    # numbers of size 1e6 have 1e-10 units of rounding
    assert np.abs(far.decision_function(X + 1e6) - near.decision_function(X)).max() < 1e-6
    assert np.abs(far.coef_ - near.coef_).max() < 1e-6


def test_numbers_that_overflow(cancer):
    X, y = cancer
    with pytest.raises(ValueError, match="X is too large for gamma='scale'"):
        MarginSVC().fit(X * 1e160, y)
    with pytest.raises((ValueError, SolverError), match="not finite|overflow"):
        MarginSVC(kernel="linear").fit(X * 1e160, y)
    assert MarginSVC().fit(X * 1e150, y).score(X * 1e150, y) > 0.9
