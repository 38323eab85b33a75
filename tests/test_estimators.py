"""MetricLearner: scikit-learn's own checks, and what users do with it."""

import pickle
import re
import tracemalloc
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import validation

from bregmat import (
    Constraints,
    KernelKMeans,
    KernelLearner,
    MetricLearner,
    SolverError,
    VonNeumann,
    constraints_from_labels,
)
from bregmat.io import load, save
from estimator_suite import LIGHT, REPEATED, run_array_api_check, sklearn_checks

RANDOM = {"strategy": "random", "random_state": 0}


@pytest.mark.filterwarnings("ignore:.* coincide with points of another class")
@pytest.mark.parametrize(("estimator", "check"), list(sklearn_checks(MetricLearner(**LIGHT), unmet=REPEATED)))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_scikit_learn_array_api_check():
    run_array_api_check(MetricLearner)


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(wine):
    return MetricLearner(strategy="neighbors", random_state=0).fit(*wine)


@pytest.fixture
def named(wine):
    """Wine with string sample ids, and constraints of some classes by these names."""
    X, y = wine
    ids = np.array([f"bottle {i:03d}" for i in range(len(X))])
    c = constraints_from_labels(X, y, 120, random_state=1)
    given = Constraints.sq_distance(
        ids[c.index[:, 0]], ids[c.index[:, 1]], c.bound, ["<=" if s > 0 else ">=" for s in c.sense]
    )
    return X, y, ids, c, given


# ---------------------------------------------------------------------- what is learned
def test_transform_components_matrix_and_distances_agree(wine, fitted):
    X, _ = wine
    T = fitted.transform(X)
    assert fitted.components_.shape == (13, 13) and fitted.n_features_in_ == 13
    assert np.array_equal(T, X @ fitted.components_.T)
    W = fitted.get_mahalanobis_matrix()
    assert np.allclose(W, W.T) and np.linalg.eigvalsh(W)[0] > 0
    i, j = np.arange(0, 170), np.arange(5, 175)
    distance = np.linalg.norm(T[i] - T[j], axis=1)  # not squared
    pairs = np.stack([X[i], X[j]], axis=1)
    assert np.allclose(fitted.pair_distance(pairs), distance, rtol=1e-9)
    assert np.array_equal(fitted.pair_score(pairs), -fitted.pair_distance(pairs))
    metric = pickle.loads(pickle.dumps(fitted.get_metric()))
    assert np.isclose(metric(X[0], X[5]), distance[0]) and np.isclose(
        metric(X[0], X[5], squared=True), distance[0] ** 2
    )
    assert np.isclose(distance[0] ** 2, (X[0] - X[5]) @ W @ (X[0] - X[5]))
    by_metric = KNeighborsClassifier(4, metric=metric, algorithm="brute").fit(X[:60], wine[1][:60]).kneighbors(X[:20])
    by_map = KNeighborsClassifier(4).fit(T[:60], wine[1][:60]).kneighbors(T[:20])
    assert np.array_equal(by_metric[1], by_map[1])


def test_result_is_certified_and_belongs_to_the_constraints(wine, fitted):
    X, _ = wine
    assert fitted.result_.gap <= 1e-4
    assert fitted.constraints_.n_constraints == 178 * 30 == len(fitted.result_.dual)
    assert {row.stage for row in fitted.result_.history} == {1}  # one pass for up to 500 rows
    assert fitted.n_iter_ == fitted.result_.n_iter >= 1 and fitted.n_dropped_constraints_ == 0
    before, after = (fitted.constraints_.violation(G).mean() for G in (X / X.std(axis=0), fitted.transform(X)))
    # 0.27: points keep a margin that few can have, and scaled columns are already so good that the slack weight is 0.3
    assert after < 0.3 * before


def test_components_are_ordered_by_variance_and_cut_at_n_components(wine, fitted):
    X, y = wine
    T = fitted.transform(X)
    S = np.cov(T.T)
    assert np.all(np.diff(np.diag(S)) <= 0)
    assert np.abs(S - np.diag(np.diag(S))).max() < 1e-6 * S[0, 0]
    two = MetricLearner(strategy="random", n_components=2, random_state=0).fit(X, y)
    assert np.allclose(two.components_, MetricLearner(**RANDOM).fit(X, y).components_[:2])
    assert two.transform(X).shape == (178, 2) and two.get_mahalanobis_matrix().shape == (13, 13)
    assert list(two.get_feature_names_out()) == ["metriclearner0", "metriclearner1"]


@pytest.mark.slow
def test_wine_neighbours_are_better(wine):
    """Raw units, slack weight chosen on the training folds: from .67 to at least .95 (0.978 over 2 x 5 folds)."""
    X, y = wine
    knn = KNeighborsClassifier(4)
    model = make_pipeline(MetricLearner(random_state=0), knn)
    inner = StratifiedKFold(3, shuffle=True, random_state=0)
    chosen = GridSearchCV(model, {"metriclearner__slack_weight": [0.1, 1.0, 10.0, 100.0]}, cv=inner)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    euclidean, default, learned = (cross_val_score(m, X, y, cv=folds).mean() for m in (knn, model, chosen))
    assert euclidean < 0.72 and default > 0.85 and learned >= 0.95


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann", "frobenius"])
def test_divergences(wine, divergence):
    X, y = wine
    X = X / X.std(axis=0)
    learner = MetricLearner(divergence, random_state=0).fit(X, y)
    assert learner.result_.gap <= 1e-4
    assert learner.constraints_.violation(learner.transform(X)).mean() < learner.constraints_.violation(X).mean()


def test_squared_bounds_are_met_when_hard(wine):
    X, _ = wine
    c = Constraints.sq_distance([0, 2], [1, 3], [4.0, 9.0], ["<=", "=="])
    learner = MetricLearner(slack_weight=np.inf, tol=1e-8).fit(X, constraints=c)
    got = learner.pair_distance(np.stack([X[[0, 2]], X[[1, 3]]], axis=1))
    assert np.allclose(got, [2.0, 3.0], rtol=1e-5)


@pytest.mark.parametrize("inf", [float("inf"), np.inf, np.float64("inf"), pickle.loads(pickle.dumps(np.inf))])
def test_every_infinity_is_hard(wine, inf):
    c = Constraints.sq_distance([0], [1], 4.0, "<=")
    learner = MetricLearner(slack_weight=inf, tol=1e-6).fit(wine[0], constraints=c)
    assert c.satisfied(learner.transform(wine[0]), tol=1e-5).all()


# ---------------------------------------------------------------------- labels, constraints, sample ids
def test_semi_supervised(wine):
    X, y = wine
    labels = np.where(np.arange(178) % 4 == 0, y, -1)
    learner = MetricLearner(random_state=0).fit(X, labels)
    assert np.all(labels[learner.constraints_.index[:, :2]] >= 0)
    words = np.array(["a", "b", "c", None], dtype=object)[labels]
    assert np.array_equal(MetricLearner(random_state=0).fit(X, words).components_, learner.components_)
    with pytest.raises(ValueError, match="exactly the labels -1 and 1"):
        MetricLearner().fit(X, np.where(y > 0, 1, -1))
    MetricLearner(unlabeled=None).fit(X, np.where(y > 0, 1, -1))


def test_the_check_of_a_random_state_does_not_advance_it(wine):
    X, y = wine
    learner = MetricLearner(strategy="random", random_state=np.random.RandomState(0)).fit(X, y)
    drawn = constraints_from_labels(X, y, random_state=np.random.RandomState(0))
    assert np.array_equal(learner.constraints_.index, drawn.index)


@pytest.mark.parametrize("estimator", [MetricLearner(), KernelKMeans(2)])
def test_a_module_as_random_state_is_named(wine, estimator):
    with pytest.raises(
        TypeError, match="random_state must be an integer, a Generator, a RandomState or None; got <module"
    ):
        estimator.set_params(random_state=np.random).fit(*wine)


def test_labels_and_constraints_are_joined(named):
    X, y, ids, _, given = named
    learner = MetricLearner(n_constraints=50, **RANDOM).fit(X, y, constraints=given, sample_id=ids)
    assert learner.constraints_.n_constraints == 170 == len(learner.result_.dual)
    assert set(learner.constraints_.ids) == set(ids)
    drawn = constraints_from_labels(X, y, 50, random_state=0)
    located, kept = learner.constraints_.locate(ids)
    assert kept.all() and np.array_equal(located.index[:50], drawn.index)
    only = MetricLearner(n_constraints=0).fit(X, np.sqrt(y + 0.5), constraints=given, sample_id=ids)
    assert only.constraints_.n_constraints == 120


def test_names_do_not_matter(named):
    X, _, ids, c, given = named
    want = MetricLearner().fit(X, constraints=c)
    shuffled = np.random.default_rng(0).permutation(178)
    frame = pd.DataFrame(X, index=ids).iloc[shuffled]
    numbers = Constraints.sq_distance(
        c.index[:, 0] * 7 + 1000, c.index[:, 1] * 7 + 1000, c.bound, ["<=" if s > 0 else ">=" for s in c.sense]
    )
    for learner in (
        MetricLearner().fit(X, constraints=given, sample_id=ids),
        MetricLearner().fit(X, constraints=given, sample_id=pd.Series(ids)),
        MetricLearner().fit(X, constraints=given, sample_id=pl.Series(ids)),
        MetricLearner().fit(X, constraints=given, sample_id=ids.astype(object)),
        MetricLearner().fit(X[shuffled], constraints=given, sample_id=ids[shuffled]),
        MetricLearner().fit(frame, constraints=given),  # a pandas index names the rows
        MetricLearner().fit(X, constraints=numbers, sample_id=np.arange(178) * 7 + 1000),
    ):
        assert np.allclose(learner.get_mahalanobis_matrix(), want.get_mahalanobis_matrix(), rtol=1e-3, atol=1e-9)
        assert learner.n_dropped_constraints_ == 0
    assert np.array_equal(learner.constraints_.index, numbers.index)


def test_absent_samples_are_dropped_and_counted(named):
    X, _, ids, c, given = named
    inside = (c.index[:, :2] < 100).all(axis=1)
    learner = MetricLearner().fit(X[:100], constraints=given, sample_id=ids[:100])
    assert learner.n_dropped_constraints_ == (~inside).sum() > 0
    assert learner.constraints_.n_constraints == inside.sum()
    assert np.array_equal(learner.constraints_.index[:, :2], c.index[inside][:, :2])


def test_constraints_that_do_not_fit_the_data(named):
    X, y, ids, c, given = named
    with pytest.raises(ValueError, match=r"name samples up to \d+ but X has 100 rows.*pass sample_id"):
        MetricLearner().fit(X[:100], constraints=c)
    with pytest.raises(ValueError, match="name samples such as .* sample_id"):
        MetricLearner().fit(X, constraints=given)
    with pytest.raises(ValueError, match="sample_id must name each of the 100 rows of X; got 178"):
        MetricLearner().fit(X[:100], constraints=given, sample_id=ids)
    with pytest.raises(ValueError, match="no constraint is left: 120 name a sample that is not in sample_id"):
        MetricLearner().fit(X, constraints=given, sample_id=[f"other {i}" for i in range(178)])
    with pytest.raises(ValueError, match="n_constraints=0 ignores y"):
        MetricLearner(n_constraints=0).fit(X, y)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        MetricLearner().fit(X)
    with pytest.raises(TypeError, match="constraints must be a bregmat.Constraints object; got list"):
        MetricLearner().fit(X, constraints=[(0, 1)])
    with pytest.raises(ValueError, match="y is continuous|it is continuous"):
        MetricLearner(strategy="random").fit(X, y + 0.5)
    with pytest.warns(DataConversionWarning):
        MetricLearner().fit(X, y[:, None])


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_grid_search_hands_constraints_over_whole(named, routing, in_pipeline):
    """Every fold gets all constraints, its own X and its own sample_id; what it lacks is dropped and counted."""
    X, y, ids, c, given = named
    seen = []

    class Watched(MetricLearner):
        def fit(self, X, y=None, *, constraints=None, sample_id=None):
            super().fit(X, y, constraints=constraints, sample_id=sample_id)
            seen.append((constraints is given, len(sample_id) == len(X), self.n_dropped_constraints_))
            return self

    learner = Watched(n_constraints=0)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    with config_context(enable_metadata_routing=routing):
        if in_pipeline:
            model = make_pipeline(learner, KNeighborsClassifier(4))
            prefix = "" if routing else "watched__"
            search = GridSearchCV(model, {"watched__slack_weight": [0.1, 10.0]}, cv=folds)
            params = {f"{prefix}constraints": given, f"{prefix}sample_id": ids}
            fitted = search.fit(X, y, **params).best_estimator_[0]
        else:

            def met(estimator, X, y=None):
                return float(np.isfinite(estimator.transform(X)).all())

            search = GridSearchCV(learner, {"slack_weight": [0.1, 10.0]}, cv=folds, scoring=met)
            fitted = search.fit(X, y, constraints=given, sample_id=ids).best_estimator_
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert all(whole and sliced for whole, sliced, _ in seen) and len(seen) == 7
    splits = [train for train, _ in folds.split(X, y)]
    expected = [int((~np.isin(c.index[:, :2], train).all(axis=1)).sum()) for train in splits]
    assert min(expected) > 0
    assert sorted(n for _, _, n in seen) == sorted([*expected, *expected, 0])
    assert fitted.n_dropped_constraints_ == 0 and fitted.constraints_.n_constraints == 120


def test_grid_search_with_row_numbers_as_names(named):
    X, y, _, c, _ = named
    model = make_pipeline(MetricLearner(n_constraints=0), KNeighborsClassifier(4))
    search = GridSearchCV(model, {"metriclearner__slack_weight": [1.0, 10.0]}, cv=3, error_score="raise")
    search.fit(X, y, metriclearner__constraints=c, metriclearner__sample_id=np.arange(178))
    assert search.best_score_ > 0.8
    with pytest.raises(ValueError, match="pass sample_id"):
        search.fit(X, y, metriclearner__constraints=c)


# ---------------------------------------------------------------------- priors


def test_prior_within_classes_needs_classes_in_memory(wine):
    X, y = wine
    c = constraints_from_labels(X, y, 60, random_state=0)
    for options in ({"constraints": c}, {"y": y, "n_constraints": 0, "constraints": c}):
        learner = MetricLearner(prior="within", n_constraints=options.pop("n_constraints", None))
        with pytest.raises(ValueError, match='prior="within".*needs labels y'):
            learner.fit(X, **options)
    with pytest.raises(ValueError, match='prior="within" needs points in memory'):
        MetricLearner(prior="within").fit(X, y, block_size=50)


@pytest.mark.parametrize("divergence", ["logdet", "vonneumann"])
def test_digits_with_constant_columns(divergence):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    learner = MetricLearner(divergence, prior="covariance", n_constraints=300, random_state=0).fit(X, y)
    constant = np.ptp(X, axis=0) == 0
    assert constant.any() and np.abs(learner.get_mahalanobis_matrix()[constant]).max() < 1e-9
    assert np.isfinite(learner.transform(X)).all()


def test_prior_array(wine):
    X, y = wine
    near = MetricLearner(prior=np.linalg.inv(np.cov(X.T)), strategy="neighbors", random_state=0).fit(X, y)
    assert np.allclose(
        near.get_mahalanobis_matrix(),
        MetricLearner(prior="covariance", strategy="neighbors", random_state=0).fit(X, y).get_mahalanobis_matrix(),
        rtol=1e-4,
    )
    with pytest.raises(ValueError, match=r"prior must have shape \(13, 13\).*got \(2, 2\)"):
        MetricLearner(prior=np.eye(2)).fit(X, y)


# ---------------------------------------------------------------------- containers
def test_frames_in_and_out(wine, fitted):
    X, y = wine
    names = [f"c{k}" for k in range(13)]
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        learner = MetricLearner(strategy="neighbors", random_state=0).fit(frame, y)
        assert list(learner.feature_names_in_) == names
        assert np.allclose(learner.transform(frame), fitted.transform(X))
        for container, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
            out = clone(learner).set_output(transform=container).fit_transform(frame, y)
            assert isinstance(out, kind)
            assert list(out.columns) == [f"metriclearner{k}" for k in range(13)]
    with pytest.raises(ValueError, match="feature names"):
        learner.transform(pd.DataFrame(X, columns=names[::-1]))


def test_sparse_is_the_same_as_dense(rng):
    X = rng.normal(size=(80, 6)) * (rng.random((80, 6)) < 0.4)
    y = rng.integers(0, 2, size=80)
    for prior in ("identity", "covariance"):
        # of points that coincide either may be drawn: passes start from other duals, and agree where each is solved to the end
        want = MetricLearner(prior=prior, random_state=0, tol=1e-9).fit(X, y)
        for form in (sp.csr_array, sp.csc_matrix, sp.coo_array):
            got = MetricLearner(prior=prior, random_state=0, tol=1e-9).fit(form(X), y)
            assert np.allclose(got.get_mahalanobis_matrix(), want.get_mahalanobis_matrix(), rtol=1e-3, atol=1e-6)
            assert np.allclose(got.transform(form(X)), got.transform(X))


def test_large_d_stays_lazy(rng, tmp_path):
    """The map of 3,000 features is never a 3,000 x 3,000 array unless asked for."""
    X = sp.random_array((60, 3000), density=0.01, rng=rng, format="csr")
    y = np.arange(60) % 2
    learner = MetricLearner(strategy="random", n_constraints=60, random_state=0).fit(X, y)
    tracemalloc.start()
    T = learner.transform(X)
    assert learner.set_output(transform="pandas").transform(X).shape == T.shape == (60, 3000)
    assert tracemalloc.get_traced_memory()[1] < 3000 * 3000 * 8 / 2
    tracemalloc.stop()
    c = learner.constraints_
    spread = X.toarray().std(axis=0)
    assert c.violation(T).mean() < c.violation(X.toarray() / np.where(spread > 0, spread, np.inf)).mean()
    save(tmp_path / "model.bm", learner)
    assert np.allclose(load(tmp_path / "model.bm").transform(X), T)
    assert np.allclose(X @ learner.components_.T, T)


def test_dense_maps_of_sparse_rows_have_a_largest_size(rng, monkeypatch):
    """50,000 rows and columns of text would need 19 GiB: the message names n_components, which works."""
    X, y = sp.random_array((400, 50_000), density=0.001, rng=rng, format="csr"), np.arange(400) % 3
    params = {"n_constraints": 40, "prior": "identity", "slack_weight": 1.0} | RANDOM
    learner = MetricLearner(**params).fit(X, y)
    assert learner.transform(X[:50]).shape == (50, 50_000)
    many = X[rng.integers(400, size=50_000)]
    for transform in (learner.transform, learner.result_.transform):
        with pytest.raises(ValueError, match=r"shape \(50000, 50000\), 18.6 GiB; the limit is 2 GiB.*n_components="):
            transform(many)
    with pytest.raises(ValueError, match=r"components_ would be a dense array of shape \(50000, 50000\)"):
        learner.components_  # noqa: B018
    few = MetricLearner(n_components=10, **params).fit(X, y)
    assert few.transform(many).shape == (50_000, 10) and few.components_.shape == (10, 50_000)
    monkeypatch.setattr("bregmat.base.points.MAX_DENSE", 10_000)
    with pytest.raises(ValueError, match="transform of sparse X would be"):
        few.transform(many)


@pytest.mark.parametrize("prior", ["identity", "covariance"])
def test_leading_components_of_many_features_are_those_of_few(rng, monkeypatch, prior):
    n = 30 if prior == "identity" else 130  # with fewer rows than columns, all distances in the covariance are equal
    X, y = rng.normal(size=(n, 100)), np.arange(n) % 3
    params = {"n_constraints": 40, "n_components": 4, "prior": prior, "slack_weight": 1.0, "tol": 1e-8} | RANDOM
    want = MetricLearner(**params).fit(X, y).components_
    monkeypatch.setattr("bregmat.estimators.metric.MOST_FEATURES", 50)
    got = MetricLearner(**params).fit(X, y).components_
    assert np.allclose(got, want, rtol=1e-6, atol=1e-8 * np.abs(want).max())
    with pytest.raises(ValueError, match="n_components must be at most 29.*got 30"):
        MetricLearner(n_components=30, random_state=0).fit(X[:30], y[:30])


def test_float32_stays_float32(wine):
    X, y = wine
    learner = MetricLearner(random_state=0).fit(X.astype(np.float32), y)
    assert learner.components_.dtype == np.float64
    assert learner.transform(X.astype(np.float32)).dtype == np.float32


# ---------------------------------------------------------------------- life of an estimator
def test_deterministic_clone_pickle_joblib(wine, fitted, tmp_path):
    X, y = wine
    assert np.array_equal(clone(fitted).fit(X, y).components_, fitted.components_)
    joblib.dump(fitted, tmp_path / "m.joblib")
    for again in (pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "m.joblib")):
        assert np.array_equal(again.transform(X), fitted.transform(X))
        assert np.array_equal(again.result_.dual, fitted.result_.dual)
    with pytest.raises(NotFittedError):
        clone(fitted).transform(X)
    assert not hasattr(MetricLearner(), "components_")


def test_saved_and_loaded(named, tmp_path):
    X, y, ids, _, given = named
    frame = pd.DataFrame(X / X.std(axis=0), columns=[f"c{k}" for k in range(13)])
    learner = MetricLearner(VonNeumann(), prior=np.eye(13), n_neighbors=2, n_components=3)
    learner.set_params(callback=lambda record: None, slack_weight=0.5, random_state=3)
    learner.fit(frame, y, constraints=given, sample_id=ids)
    save(tmp_path / "model.bm", learner)
    again = load(tmp_path / "model.bm")
    assert np.array_equal(again.transform(frame), learner.transform(frame))
    assert again.divergence == VonNeumann() and again.slack_weight == 0.5 and again.n_neighbors == 2
    assert again.result_.status == learner.result_.status and np.array_equal(again.result_.dual, learner.result_.dual)
    assert list(again.feature_names_in_) == list(learner.feature_names_in_) and again.n_iter_ == learner.n_iter_
    assert np.array_equal(again.constraints_.index, learner.constraints_.index)
    assert np.array_equal(again.constraints_.ids, ids)
    with pytest.raises(NotFittedError):
        save(tmp_path / "model.bm", MetricLearner())


def test_warm_start(wine):
    X, y = wine
    pairs = np.stack([X[:-1], X[1:]], axis=1)
    learner = MetricLearner(warm_start=True, tol=1e-8, **RANDOM).fit(X, y)
    cold, distance = learner.n_iter_, learner.pair_distance(pairs)
    assert learner.fit(X, y).n_iter_ < cold / 2
    assert np.allclose(learner.pair_distance(pairs), distance, rtol=1e-2)
    learner.set_params(slack_weight=12.0).fit(X, y)
    assert np.allclose(learner.pair_distance(pairs), clone(learner).fit(X, y).pair_distance(pairs), rtol=1e-2)
    learner.set_params(n_constraints=100).fit(X, y)  # another number of constraints: starts cold
    assert learner.n_iter_ == clone(learner).fit(X, y).n_iter_
    learner.fit(X[:, :5], y)  # other columns: another problem
    assert learner.n_features_in_ == 5


@pytest.mark.parametrize(
    "learner",
    [
        MetricLearner(prior="identity", slack_weight=1.0, **RANDOM),
        KernelLearner("rbf", gamma=1e-5, slack_weight=1.0, **RANDOM),
    ],
    ids=str,
)
def test_the_data_is_looked_through_once(wine, monkeypatch, learner):
    """NaN is looked for by scikit-learn's check at the door, and by nobody after it."""
    X, y = wine
    learner.fit(X, y)  # what is compiled has been
    passes, is_finite, door = [], np.isfinite, validation._assert_all_finite

    def counted(A, *more, **given):
        if np.ndim(A) == 2 and np.shape(A)[1] == X.shape[1] < np.shape(A)[0]:
            passes.append(np.shape(A))
        return is_finite(A, *more, **given)

    def counted_at_the_door(A, **given):
        if not sklearn.get_config()["assume_finite"]:
            passes.append(np.shape(A))
        return door(A, **given)

    monkeypatch.setattr(np, "isfinite", counted)
    monkeypatch.setattr(validation, "_assert_all_finite", counted_at_the_door)
    learner.fit(X, y)
    assert passes == [X.shape]


def test_progress_and_callback(wine, capsys):
    X, y = wine
    MetricLearner(random_state=0).fit(X, y)
    assert capsys.readouterr().out == ""
    seen = []
    learner = MetricLearner(random_state=0, verbose=2, callback=lambda record: seen.append(record.gap)).fit(X, y)
    first, *lines, end = capsys.readouterr().out.splitlines()
    assert first == "[bregmat] y is read as classes; 11 candidates compared on 178 rows:"
    assert all(line.startswith("[bregmat]   ") for line in lines[:11]) and sum("chosen" in line for line in lines) == 1
    lines = lines[len(learner.selection_) :]
    assert len(lines) == len(seen) > 1
    assert lines[0].startswith("[bregmat] iteration ") and "gap" in lines[0] and "violation" in lines[0]
    assert re.match(
        r"\[bregmat\] MetricLearner: OPTIMAL after \d+ iterations \(TOLERANCE\): objective .*, gap .*, .* s$", end
    )


def test_stopping_early_is_said_once_and_usable(wine):
    X, y = wine
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner = MetricLearner(random_state=0, max_iter=1).fit(X, y)
    assert [w.category for w in caught] == [ConvergenceWarning]
    assert "MAX_ITER" in str(caught[0].message) and "gap" in str(caught[0].message)
    assert np.isfinite(learner.transform(X)).all() and learner.result_.gap > 1e-4
    learner = MetricLearner(random_state=0, callback=lambda record: True).fit(X, y)  # on request: no warning
    assert learner.result_.exit_reason == "INTERRUPTED" and np.isfinite(learner.transform(X)).all()


@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_losses_by_name(wine, loss):
    X, y = wine
    learner = MetricLearner(loss=loss, slack_weight=0.1, random_state=0).fit(X / X.std(axis=0), y)
    assert learner.result_.gap <= 1e-4 and learner.loss == loss


def test_contradiction_raises_and_leaves_nothing_fitted(wine):
    X, y = wine
    c = Constraints.sq_distance([0, 1, 0], [1, 2, 2], [1.0, 1.0, 100.0], ["<=", "<=", ">="])
    learner = MetricLearner(slack_weight=np.inf)
    learner.fit(X, constraints=c.select([0]))
    with pytest.raises(SolverError) as caught:
        learner.fit(X, constraints=c)
    assert set(caught.value.result.conflict) == {0, 1, 2}
    assert np.array_equal(caught.value.constraints.bound, c.bound)
    assert not [name for name in vars(learner) if name.endswith("_") or name.startswith("_fit_")]
    with pytest.raises(NotFittedError):
        learner.transform(X)
    with pytest.raises(ValueError, match="NaN"):
        learner.fit(np.where(X > 1000, np.nan, X), y)
    assert not hasattr(learner, "n_features_in_")


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"divergence": "euclid"}, ValueError, "divergence must be one of"),
        ({"slack_weight": 0}, ValueError, "slack_weight must be positive; got 0"),
        ({"slack_weight": -1.0}, ValueError, "slack_weight must be positive; got -1.0"),
        ({"slack_weight": np.nan}, ValueError, "slack_weight must be positive; got nan"),
        ({"slack_weight": "big"}, TypeError, "slack_weight must be a number; got 'big'"),
        ({"n_components": 0}, ValueError, "n_components must be at least 1; got 0"),
        ({"n_components": 14}, ValueError, "n_components must be at most 13, the number of features; got 14"),
        ({"n_components": 2.0}, TypeError, "n_components must be an integer or None; got 2.0"),
        ({"n_constraints": -1}, ValueError, "n_constraints must be at least 0; got -1"),
        ({"n_neighbors": 0}, ValueError, "n_neighbors must be at least 1; got 0"),
        ({"prior": "random"}, ValueError, "prior must be .* got 'random'"),
        ({"tol": 0.0}, ValueError, "tol must be positive and finite; got 0.0"),
        ({"tol": np.inf}, ValueError, "tol must be positive and finite; got inf"),
        ({"max_iter": 0}, ValueError, "max_iter must be at least 1; got 0"),
        ({"solver": "magic"}, ValueError, "solver"),
        ({"loss": "hinge2"}, (ValueError, TypeError), "loss"),
        ({"callback": 3}, TypeError, "callback must be callable; got 3"),
        ({"random_state": "seed"}, TypeError, "random_state must be"),
    ],
)
def test_bad_parameters(wine, params, error, message):
    learner = MetricLearner(**params)
    with pytest.raises(error, match=message):
        learner.fit(*wine)
    assert learner.get_params()[next(iter(params))] is next(iter(params.values()))


def test_bad_pairs(fitted):
    with pytest.raises(ValueError, match=r"pairs must have shape \(m, 2, 13\); got \(3, 13\)"):
        fitted.pair_distance(np.zeros((3, 13)))
    pairs = np.zeros((3, 2, 13))
    pairs[1, 0, 4] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity in row 1"):
        fitted.pair_distance(pairs)
    with pytest.raises(ValueError, match=r"u and v must have shape \(13,\)"):
        fitted.get_metric()(np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("options", [{}, {"n_components": 3}, {"strategy": "random"}])
def test_the_map_as_a_layer_of_torch(options):
    torch = pytest.importorskip("torch")
    X, y = load_wine(return_X_y=True)
    learner = MetricLearner(random_state=0, **options).fit(X, y)
    state = torch.random.get_rng_state()
    layer = learner.to_torch()
    assert torch.equal(state, torch.random.get_rng_state())
    assert isinstance(layer, torch.nn.Linear) and layer.bias is None
    mapped = layer(torch.from_numpy(X)).detach().numpy()
    assert np.allclose(mapped, learner.transform(X), rtol=1e-6, atol=1e-6)
    assert np.allclose(layer.float()(torch.tensor(X, dtype=torch.float32)).detach(), mapped, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_values_whose_powers_overflow_are_refused_by_name(form, rng):
    """Values of 1e155 ended in an error of LAPACK."""
    X = rng.normal(size=(20, 3))
    X[4, 1] = -1e155
    with pytest.raises(
        ValueError, match=r"values of X must be at most 1e\+70 .* got 1e\+155 in row 4. Divide X by 1e\+155"
    ):
        MetricLearner().fit(form(X), np.arange(20) % 2)
    X[4, 1] = 0.0
    y = (X[:, 0] > 0).astype(int)
    assert (
        MetricLearner(strategy="neighbors", prior="variance", slack_weight=1.0).fit(form(1e69 * X), y).result_.gap
        < 1e-3
    )
