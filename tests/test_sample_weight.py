"""Weights of points: rows count as much as the points they name, and a point of weight 0 is absent."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from bregmat import Constraints, KernelLearner, MetricLearner

LEARNERS = [
    MetricLearner(random_state=0),
    MetricLearner(strategy="neighbors", n_components=2, n_constraints=200, random_state=0),
    MetricLearner("vonneumann", strategy="random", prior="covariance", random_state=0),
    KernelLearner("rbf", gamma=0.2, n_constraints=100, random_state=0),
    KernelLearner("rbf", gamma=0.2, rank=10, strategy="neighbors", random_state=0),
    KernelLearner("linear", random_state=0),
]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    X = X[::3] + 0.01 * np.random.default_rng(0).normal(size=(50, 4))
    return X, y[::3]


def given(n):
    i = np.arange(10)
    return Constraints.sq_distance(i, n - 1 - i, 2.0, ">=", weight=np.where(i == 1, np.inf, 2.0))


# ---------------------------------------------------------------- what a weight means
@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_weight_zero_is_absence(iris, learner, rng):
    X, y = iris
    weight = rng.uniform(0.5, 2.0, 50)
    weight[rng.choice(50, 12, replace=False)] = 0.0
    here = np.flatnonzero(weight)
    c = given(50)
    whole = clone(learner).fit(X, y, constraints=c, sample_id=np.arange(50), sample_weight=weight)
    part = clone(learner).fit(X[here], y[here], constraints=c, sample_id=here, sample_weight=weight[here])
    assert np.array_equal(whole.transform(X), part.transform(X))
    assert np.array_equal(whole.constraints_.index, part.constraints_.index)  # by the numbers of X
    assert np.array_equal(whole.constraints_.weight, part.constraints_.weight)
    assert whole.n_dropped_constraints_ == part.n_dropped_constraints_ > 0
    assert np.array_equal(clone(learner).fit(X, y, constraints=c, sample_weight=weight).transform(X), part.transform(X))


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_only_ratios_count_and_equal_weights_change_nothing(iris, learner, rng):
    X, y = iris
    c = given(50)
    plain = clone(learner).fit(X, y, constraints=c).transform(X)
    for equal in (np.ones(50), [3.0] * 50, pd.Series(np.full(50, 0.25)), 2)[:: 1 if learner is LEARNERS[0] else 3]:
        assert np.array_equal(clone(learner).fit(X, y, constraints=c, sample_weight=equal).transform(X), plain)
    weight = rng.uniform(0.1, 2.0, 50)
    one, other = (
        clone(learner).fit(X, y, constraints=c, sample_weight=w).transform(X) for w in (weight, 1024 * weight)
    )
    assert np.array_equal(one, other) and not np.allclose(one, plain, rtol=1e-3)


def test_a_row_counts_as_the_product_of_its_points(iris, rng, set_passes):
    set_passes(1)
    X, y = iris
    w = rng.uniform(0.1, 2.0, 50)
    learner = MetricLearner(random_state=0)
    plain = learner.fit(X, y, constraints=given(50)).constraints_
    c = learner.fit(X, y, constraints=given(50), sample_weight=w).constraints_
    assert np.array_equal(c.index, plain.index) and np.array_equal(c.bound, plain.bound)  # what rows ask for stays
    i, j, _, l = plain.index[:-10].T
    product = w[i] * w[j] * w[l]
    assert np.allclose(c.weight[:-10], product / product.mean() * plain.weight[:-10], rtol=1e-12)
    assert np.isclose(c.weight[:-10].sum(), plain.weight[:-10].sum(), rtol=1e-12)
    v = w / w.mean()
    i, j = given(50).index.T
    assert np.allclose(c.weight[-10:], given(50).weight * v[i] * v[j]) and np.isinf(c.weight[-9])
    trace = Constraints.trace(3.0) + Constraints.diagonal([1.0], [4])
    assert trace.factors(w).tolist() == [1.0, w[4]]


def test_whole_weights_are_repetitions_where_all_pairs_are_drawn(iris, rng, monkeypatch):
    """The least and the largest squared distance are those of the repeated points, too; copies of a point are no pair."""
    X, y = iris[0][::2], iris[1][::2]
    times = rng.integers(0, 4, len(X))
    monkeypatch.setattr("bregmat.estimators.task.PERCENTILES", (0, 100))
    learner = MetricLearner(strategy="random", n_constraints=10**6, tol=1e-9, random_state=0)
    repeated = clone(learner).fit(X.repeat(times, axis=0), y.repeat(times))
    rows = clone(learner).fit(X, y, sample_weight=times).constraints_
    i, j = rows.index.T
    mean = (times[i] * times[j]).mean()  # which the sum of the rows' weights is scaled by
    weighted = clone(learner).set_params(slack_weight=mean).fit(X, y, sample_weight=times)
    assert weighted.constraints_.n_constraints < repeated.constraints_.n_constraints
    want = repeated.get_mahalanobis_matrix()
    assert np.allclose(weighted.get_mahalanobis_matrix(), want, rtol=0, atol=1e-4 * np.abs(want).max())
    plain = clone(learner).set_params(slack_weight=mean).fit(X, y).get_mahalanobis_matrix()
    assert np.abs(plain - want).max() > 1e-2 * np.abs(want).max()


def test_weights_move_the_metric_towards_heavy_points(iris):
    """Where the points of one class weigh nearly all, its rows are met better than without weights."""
    X, y = iris
    learner = MetricLearner(strategy="random", slack_weight=0.1, n_constraints=2000, random_state=0)
    weight = np.where(y == 2, 10.0, 0.1)
    plain, heavy = (clone(learner).fit(X, y, sample_weight=w) for w in (None, weight))
    here = (y[plain.constraints_.index] == 2).all(axis=1)
    rows = plain.constraints_.select(here)
    assert rows.violation(heavy.transform(X)).mean() < 0.5 * rows.violation(plain.transform(X)).mean()


# ---------------------------------------------------------------- containers, searches, routing
def test_containers(iris, rng):
    X, y = iris
    weight = rng.integers(0, 3, 50)
    want = MetricLearner(random_state=0).fit(X, y, sample_weight=weight).transform(X)
    names = [f"flower {k}" for k in range(50)]
    frame = pd.DataFrame(X, index=names)
    assert np.allclose(MetricLearner(random_state=0).fit(frame, pd.Series(y), sample_weight=weight).transform(X), want)
    sparse = MetricLearner(random_state=0).fit(sp.csr_array(X), list(y), sample_weight=list(weight))
    assert np.allclose(np.abs(sparse.transform(X)), np.abs(want), rtol=1e-6)
    learner = MetricLearner(random_state=0).fit(frame, y, sample_id=names, sample_weight=weight)
    used = learner.constraints_.ids[np.unique(learner.constraints_.index)]
    assert set(used) <= {names[k] for k in np.flatnonzero(weight)}


def test_routing(iris, rng):
    """Asked for like any metadata of scikit-learn's; each fold gets its part."""
    X, y = iris
    weight, seen = rng.uniform(0.5, 2.0, 50), []

    class Watched(MetricLearner):
        def fit(self, X, y=None, *, constraints=None, sample_id=None, sample_weight=None):
            seen.append(None if sample_weight is None else len(sample_weight) == len(X))
            return super().fit(X, y, sample_weight=sample_weight)

    knn = KNeighborsClassifier(3)
    grid = {"watched__slack_weight": [0.1, 1.0]}
    with config_context(enable_metadata_routing=True):
        for asked, want in ((True, True), (False, None)):
            seen.clear()
            model = make_pipeline(Watched(random_state=0).set_fit_request(sample_weight=asked), knn)
            scorer = make_scorer(accuracy_score).set_score_request(sample_weight=False)
            GridSearchCV(model, grid, cv=2, scoring=scorer).fit(X, y, **({"sample_weight": weight} if asked else {}))
            assert seen == [want] * 5
    search = GridSearchCV(make_pipeline(Watched(random_state=0), knn), grid, cv=2)
    seen.clear()
    search.fit(X, y, watched__sample_weight=weight)
    assert seen == [True] * 5


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(50), "sample_weight must not be zero for every row"),
        (np.eye(50)[0], "sample_weight must be positive for at least 2 points; got 1 of 50"),
        (-np.ones(50), "sample_weight must be finite and at least 0; got -1.0 in rows 0, 1"),
        (np.full(50, np.nan), "sample_weight must be finite and at least 0; got nan"),
        (np.ones(49), r"sample_weight must .* one entry per row of X \(50\); got shape \(49,\)"),
        (np.ones((50, 1)), r"sample_weight must .* got shape \(50, 1\)"),
    ],
)
def test_bad_weights(iris, weight, message):
    for learner in (MetricLearner(), KernelLearner()):
        with pytest.raises(ValueError, match=message):
            learner.fit(*iris, sample_weight=weight)


def test_where_nobody_can_be_absent(iris, tmp_path):
    X, y = iris
    weight = np.r_[0.0, np.ones(49)]
    with pytest.raises(ValueError, match="positive for a precomputed kernel; got 0 in row 0: leave these points out"):
        KernelLearner("precomputed").fit(X @ X.T, y, sample_weight=weight)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    with pytest.raises(ValueError, match="positive for a memory-mapped X"):
        KernelLearner("linear").fit(mapped, y, sample_weight=weight)
    assert KernelLearner("precomputed", random_state=0).fit(X @ X.T, y, sample_weight=1 + weight).result_.gap < 1e-3
