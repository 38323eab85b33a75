"""KernelKMeans: scikit-learn's own checks, the objective, and clusterings that can be worked out another way."""

import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_circles
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from bregmat import KernelKMeans, KernelLearner
from bregmat.estimators.lloyd import WeightedPoints, _fill_empty_inplace, kernel_lloyd
from bregmat.io import load, save
from estimator_suite import run_array_api_check, sklearn_checks


@pytest.mark.parametrize(("estimator", "check"), list(sklearn_checks(KernelKMeans(3, n_init=2))))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_scikit_learn_array_api_check():
    run_array_api_check(KernelKMeans)


@pytest.fixture(scope="module")
def iris():
    return load_iris().data


def objective(K, labels, weights=None):
    """Weighted squared distances to the means, cluster by cluster, from pairs of points alone."""
    w = np.ones(len(K)) if weights is None else weights
    total = 0.0
    for c in np.unique(labels):
        rows = labels == c
        W = w[rows] / max(w[rows].sum(), 1e-300)
        total += w[rows] @ np.diag(K)[rows] - w[rows].sum() * (W @ K[np.ix_(rows, rows)] @ W)
    return total


# ---------------------------------------------------------------------- the objective
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_inertia_is_the_objective(iris, rng, kernel):
    K = iris @ iris.T if kernel == "linear" else rbf_kernel(iris, gamma=0.2)
    X = K if kernel == "precomputed" else iris
    weights = rng.integers(0, 4, 150).astype(float)
    for w in (None, weights):
        model = KernelKMeans(4, kernel=kernel, gamma=0.2, tol=0.0, random_state=0).fit(X, sample_weight=w)
        assert np.isclose(model.inertia_, objective(K, model.labels_, w), rtol=1e-9)
        assert np.array_equal(model.predict(X), model.labels_) and model.n_iter_ >= 1


def test_features_and_kernel_are_the_same_problem(iris):
    by_features = KernelKMeans(3, random_state=0, tol=0.0).fit(iris)
    by_kernel = KernelKMeans(3, kernel="precomputed", random_state=0, tol=0.0).fit(iris @ iris.T)
    rival = KMeans(3, n_init=10, random_state=0, tol=0.0).fit(iris)
    assert np.isclose(by_features.inertia_, by_kernel.inertia_, rtol=1e-9)
    assert np.isclose(by_features.inertia_, rival.inertia_, rtol=1e-4)  # the best of ten starts of either
    assert adjusted_rand_score(by_features.labels_, by_kernel.labels_) == 1.0
    new = iris[:20] + 0.05
    by_function = KernelKMeans(3, kernel=lambda A, B: A @ B.T, random_state=0, tol=0.0).fit(iris)
    assert np.array_equal(by_kernel.predict(new @ iris.T), by_function.predict(new))


def test_inertia_never_rises(rng):
    for seed in range(20):
        X = rng.normal(size=(120, 3))
        K = rbf_kernel(X, gamma=2.0) if seed % 2 else X @ X.T
        weights = rng.random(120) + 0.1
        seeds = rng.choice(120, (4, 9))  # with repetition: some clusters start empty
        found, n_empty = kernel_lloyd(K, weights, seeds, max_iter=50, tol=0.0)
        assert n_empty == 0 and (np.diff(found.inertia) <= 1e-12 * found.inertia[0]).all()
        assert np.isclose(found.inertia[-1], objective(K, found.labels, weights), rtol=1e-9)


def test_tol_ends_a_start_late_enough(iris):
    """With the default tol a start goes on past its first assignments and ends close to where tol=0 does."""
    K = rbf_kernel(iris, gamma=0.1)
    loose, strict = (KernelKMeans(6, kernel="precomputed", n_init=1, tol=t, random_state=3).fit(K) for t in (1e-4, 0.0))
    assert 2 < loose.n_iter_ <= strict.n_iter_
    assert strict.inertia_ <= loose.inertia_ <= 1.01 * strict.inertia_


def test_best_of_many_starts_is_the_optimum_of_a_small_problem(rng):
    X = rng.normal(size=(9, 2))
    K = rbf_kernel(X, gamma=0.5)
    model = KernelKMeans(3, kernel="precomputed", n_init=50, tol=0.0, random_state=0).fit(K)
    best = min(
        objective(K, np.array(labels)) for labels in itertools.product(range(3), repeat=9) if len(set(labels)) == 3
    )
    assert np.isclose(model.inertia_, best, rtol=1e-9)


def test_update_of_changed_columns_is_the_full_product(rng):
    """Many points, few of which change late: products updated by their columns end where recomputed ones do."""
    X = np.vstack([rng.normal(size=(200, 2)), rng.normal(size=(200, 2)) + 3.0])
    K = rbf_kernel(X, gamma=0.1)
    seeds = np.array([[0, 1], [0, 399], [5, 7]])
    together, _ = kernel_lloyd(K, np.ones(400), seeds, max_iter=100, tol=0.0)
    alone = [kernel_lloyd(K, np.ones(400), s[None], max_iter=100, tol=0.0)[0] for s in seeds]
    assert np.isclose(together.inertia[-1], min(one.inertia[-1] for one in alone), rtol=1e-12)
    labels = np.array([0, 1])[(K[:, seeds[1]]).argmax(axis=1)]
    for _ in range(100):  # Lloyd's iteration, written out
        mean = np.stack([K[:, labels == c].mean(axis=1) for c in range(2)], axis=1)
        square = np.array([K[np.ix_(labels == c, labels == c)].mean() for c in range(2)])
        labels = (square - 2 * mean).argmin(axis=1)
    assert np.array_equal(labels, alone[1].labels)


def test_what_lines_cannot_separate():
    """Two rings: no straight line between them, but squared radii 0.04 and 1."""
    X, y = make_circles(300, factor=0.2, noise=0.05, random_state=0)

    def radius(A, B):
        return np.outer((A**2).sum(axis=1), (B**2).sum(axis=1))

    assert adjusted_rand_score(y, KernelKMeans(2, random_state=0).fit_predict(X)) < 0.1
    assert adjusted_rand_score(y, KernelKMeans(2, kernel=radius, random_state=0).fit_predict(X)) > 0.95


# ---------------------------------------------------------------------- seeds, weights, empty clusters
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_weight_two_is_the_point_twice(rng, kernel):
    X = rng.normal(size=(60, 3))
    weights = rng.integers(0, 4, 60)
    order = rng.permutation(weights.sum())
    twice = X.repeat(weights, axis=0)[order]
    if kernel == "precomputed":
        A, B, probe = rbf_kernel(X), rbf_kernel(twice), (rbf_kernel(X), rbf_kernel(X, twice))
    else:
        A, B, probe = X, twice, (X, X)
    one = KernelKMeans(5, kernel=kernel, n_init=3, tol=0.0, random_state=1).fit(A, sample_weight=weights)
    two = KernelKMeans(5, kernel=kernel, n_init=3, tol=0.0, random_state=1).fit(B)
    assert np.isclose(one.inertia_, two.inertia_, rtol=1e-9)
    assert np.array_equal(one.predict(probe[0]), two.predict(probe[1]))


def test_seeds_are_drawn_by_distance(rng):
    x = np.concatenate([np.zeros(50), np.ones(50), np.full(1, 100.0)])

    def seeds_of(weights, k):
        points = WeightedPoints(weights, x**2, x * (weights @ x) / weights.sum(), lambda rows: np.outer(x, x[rows]))
        return [points.seeds(k, np.random.RandomState(s)) for s in range(50)]

    seeds = seeds_of(np.ones(101), 2)
    assert all(100 in s for s in seeds)  # the point far out holds nearly all squared distance
    heavy = np.ones(101)
    heavy[100] = 0.0
    seeds = seeds_of(heavy, 3)
    assert not any(100 in s for s in seeds)  # weight 0: never a seed, even with too few different points
    assert all({0.0, 1.0} == set(x[s]) for s in seeds)


def test_empty_clusters_are_filled_from_the_farthest():
    labels, nearest = np.array([0, 0, 0, 1]), np.array([0.0, 5.0, 3.0, 9.0])
    _fill_empty_inplace(labels, nearest, np.ones(4), 3)
    assert labels.tolist() == [0, 2, 0, 1]  # not the only member of cluster 1
    labels = np.array([0, 0, 0, 1])
    _fill_empty_inplace(labels, np.zeros(4), np.ones(4), 3)
    assert labels.tolist() == [0, 0, 0, 1]
    _fill_empty_inplace(labels, nearest, np.array([1.0, 0.0, 1.0, 1.0]), 4)
    assert labels.tolist() == [0, 0, 2, 1]  # a point of weight 0 fills nothing


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_too_few_different_points(kernel):
    X = np.repeat([[0.0, 1.0], [5.0, 2.0]], 4, axis=0)
    model = KernelKMeans(3, kernel=kernel, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(2\) found smaller than n_clusters \(3\)"):
        model.fit(X)
    assert len(set(model.labels_)) == 2 and abs(model.inertia_) < 1e-12
    assert np.array_equal(model.predict(X), model.labels_)


# ---------------------------------------------------------------------- forms
def test_sparse_is_the_same_as_dense(iris):
    for kernel in ("linear", "rbf"):
        dense, sparse = (
            KernelKMeans(3, kernel=kernel, random_state=0).fit(form(iris)) for form in (np.asarray, sp.csr_array)
        )
        assert np.array_equal(dense.labels_, sparse.labels_)
        assert np.array_equal(sparse.predict(sp.csr_array(iris)), sparse.labels_)


def test_on_a_learned_kernel():
    data = load_iris()
    learner = KernelLearner("rbf", strategy="random", slack_weight=1.0, random_state=0).fit(data.data, data.target)
    on_features = KernelKMeans(3, random_state=0).fit(learner.transform(data.data))
    on_kernel = KernelKMeans(3, kernel="precomputed", random_state=0).fit(learner.kernel_)
    by_function = KernelKMeans(3, kernel=learner.kernel, random_state=0).fit(data.data)
    assert np.array_equal(on_kernel.labels_, by_function.labels_)
    for model in (on_features, on_kernel):
        assert adjusted_rand_score(data.target, model.labels_) > 0.85
    assert clone(by_function).fit(data.data).n_clusters == 3


@pytest.mark.parametrize("params", [{}, {"kernel": "rbf"}, {"kernel": "precomputed"}])
def test_saved_and_loaded(iris, tmp_path, params):
    X = rbf_kernel(iris) if params.get("kernel") == "precomputed" else iris
    model = KernelKMeans(3, **params, random_state=0).fit(X)
    save(tmp_path / "model.bm", model)
    for again in (load(tmp_path / "model.bm"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.predict(X), model.labels_) and np.array_equal(again.labels_, model.labels_)
        assert again.inertia_ == model.inertia_ and again.get_params() == model.get_params()
    with pytest.raises(TypeError, match="cannot be saved"):
        save(tmp_path / "f.bm", KernelKMeans(3, kernel=rbf_kernel).fit(iris))


def test_predicts_by_the_kernel_of_the_fit(iris, tmp_path):
    model = KernelKMeans(3, kernel="rbf", gamma=0.1, random_state=0).fit(iris)
    model.set_params(gamma=50.0)
    save(tmp_path / "model.bm", model)
    for one in (model, load(tmp_path / "model.bm")):
        assert np.array_equal(one.predict(iris), model.labels_) and one.gamma == 50.0
    assert not np.array_equal(clone(model).fit(iris).labels_, model.labels_)


# ---------------------------------------------------------------------- bad input
@pytest.mark.parametrize(("params", "bad"), [({"n_clusters": 0}, None), ({}, np.nan)])
def test_nothing_of_an_earlier_fit_stays(iris, params, bad):
    model = KernelKMeans(3, kernel="rbf", random_state=0).fit(iris)
    with pytest.raises(ValueError):
        model.set_params(**params).fit(iris if bad is None else iris * bad)
    assert not [name for name in vars(model) if name.endswith("_") or name.startswith("_fit")]


def test_kernels_that_are_no_kernels(iris):
    K = rbf_kernel(iris)
    K[5, 5] = -2.0
    with pytest.raises(
        ValueError, match=r"kernel 'precomputed' must be positive semidefinite; got K\[5, 5\] = -2.*cut to 0"
    ):
        KernelKMeans(2, kernel="precomputed").fit(K)
    K = rbf_kernel(iris)
    K[149, 3] = K[3, 149] = 1.5
    with pytest.raises(ValueError, match="K_ii .* = -1 at i = 3, j = 149"):
        KernelKMeans(2, kernel="precomputed").fit(K)

    def negative(A, B):
        return -A @ B.T

    with pytest.raises(ValueError, match=r"kernel negative must be .*K\[\d+, \d+\] = -"):
        KernelKMeans(2, kernel=negative).fit(iris)
    with pytest.raises(ValueError, match="kernel <lambda> has NaN or infinite values in row"):
        KernelKMeans(2, kernel=lambda A, B: np.full((len(A), len(B)), np.nan)).fit(iris)
    single = iris.astype(np.float32)  # rounding is no refusal
    for kernel, X in (("precomputed", single @ single.T), ("rbf", single), ("poly", single)):
        assert KernelKMeans(3, kernel=kernel).fit(X).inertia_ > 0


@pytest.mark.parametrize(
    ("params", "X", "error", "message"),
    [
        ({"n_clusters": 0}, np.eye(4), ValueError, "n_clusters must be at least 1; got 0"),
        ({"n_clusters": 2.5}, np.eye(4), TypeError, "n_clusters must be an integer.*got 2.5"),
        ({"n_clusters": None}, np.eye(4), TypeError, "n_clusters must be an integer; got None"),
        ({"n_clusters": 5}, np.eye(4), ValueError, "n_clusters must be at most n_samples=4.*got 5"),
        ({"n_init": 0}, np.eye(4), ValueError, "n_init must be at least 1; got 0"),
        ({"max_iter": -1}, np.eye(4), ValueError, "max_iter must be at least 1; got -1"),
        ({"tol": -1.0}, np.eye(4), ValueError, "tol must be finite and at least 0; got -1.0"),
        ({"tol": "auto"}, np.eye(4), TypeError, "tol must be a number; got 'auto'"),
        ({"kernel": "gauss"}, np.eye(4), ValueError, "kernel must be .*got 'gauss'"),
        ({"kernel": "rbf", "gamma": 0.0}, np.eye(4), ValueError, "gamma must be positive and finite; got 0.0"),
        ({"kernel": "precomputed"}, np.ones((4, 3)), ValueError, r"X must be square.*\(4, 3\)"),
        ({"kernel": "precomputed"}, np.eye(4, k=1), ValueError, "X must be symmetric"),
        ({"kernel": "rbf"}, np.full((4, 2), np.nan), ValueError, "NaN"),
        ({"random_state": -1}, np.eye(4), ValueError, "random_state must be at least 0"),
    ],
)
def test_bad_input(params, X, error, message):
    with pytest.raises(error, match=message):
        KernelKMeans(**({"n_clusters": 2} | params)).fit(X)


@pytest.mark.parametrize("weights", [[-1.0, 1, 1, 1], [0.0] * 4, [1.0] * 3, [np.nan, 1, 1, 1]])
def test_bad_weights(weights):
    with pytest.raises(ValueError, match=r"sample_weight|Negative values|Sample weights|inconsistent"):
        KernelKMeans(2, kernel="rbf").fit(np.eye(4), sample_weight=weights)
