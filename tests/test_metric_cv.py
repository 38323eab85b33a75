"""MetricLearnerCV: the choice among candidates, never worse than not learning, in scikit-learn's manner."""

import time

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.model_selection import GroupKFold, RepeatedKFold, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

import bregmat as bm
from bregmat.estimators.candidates import choose, usual_folds, usual_weight
from bregmat.estimators.mahalanobis import inverse_within
from bregmat.estimators.metric_cv import MetricCandidate
from estimator_suite import REPEATED, sklearn_checks

LIGHT = bm.MetricLearner(passes=1, n_neighbors=1, n_impostors=3)
QUICK = {"learner": LIGHT, "slack_weights": (1.0,), "cv": 3, "random_state": 0}


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(wine):
    chooser = bm.MetricLearnerCV(**QUICK | {"slack_weights": (10.0, 0.1)}, n_components=(None, 2))
    return chooser.fit(*wine)


def test_the_table_has_every_candidate_and_what_is_chosen_is_in_it(fitted):
    table = fitted.cv_results_
    assert len(table["params"]) == 3 + 3 * 2 * 2  # three priors as they are; with two weights and two numbers
    assert table["params"][fitted.best_index_] == fitted.best_params_
    scores = np.array([table[f"split{k}_test_score"] for k in range(3)])
    assert np.allclose(table["mean_test_score"], scores.mean(axis=0))
    assert table["rank_test_score"][np.argmax(table["mean_test_score"])] == 1
    assert fitted.best_score_ == table["mean_test_score"][fitted.best_index_]


def test_scores_are_those_of_fits_by_hand(wine, fitted):
    X, y = wine
    table = fitted.cv_results_
    folds = list(StratifiedKFold(3).split(X, y))
    place = next(k for k, p in enumerate(table["params"]) if p == {"prior": "variance", "strategy": None})
    for fold, (train, test) in enumerate(folds):
        scale = X[train].std(axis=0)
        model = KNeighborsClassifier(4).fit(X[train] / scale, y[train])
        assert table[f"split{fold}_test_score"][place] == model.score(X[test] / scale, y[test])


def test_components_of_very_many_features_are_scored_as_they_are_kept(rng):
    X, y = rng.normal(size=(90, 2100)), np.arange(90) % 3
    X[:, :3] += 3 * np.eye(3)[y]
    chooser = bm.MetricLearnerCV(**QUICK, priors=("identity",), n_components=(2,)).fit(X, y)
    learner = bm.MetricLearner(prior="identity", n_components=2, passes=1, n_neighbors=1, n_impostors=3, tol=1e-3)
    for fold, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
        Z = learner.fit(X[train], y[train]).transform(X)
        assert chooser.cv_results_[f"split{fold}_test_score"][1] == KNeighborsClassifier(4).fit(
            Z[train], y[train]
        ).score(Z[test], y[test])


def test_never_worse_than_not_learning_on_its_own_folds(rng):
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(60, 4))
        y = rng.integers(0, 2, 60)  # nothing to learn
        chooser = bm.MetricLearnerCV(**QUICK).fit(X, y)
        table = chooser.cv_results_
        plain = [m for p, m in zip(table["params"], table["mean_test_score"]) if p["strategy"] is None]
        assert chooser.best_score_ >= max(plain)


def test_learns_where_learning_helps(rng):
    X = rng.normal(size=(200, 12))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)  # ten columns of noise
    chooser = bm.MetricLearnerCV(**QUICK).fit(X, y)
    assert chooser.best_params_["strategy"] == "neighbors"
    assert chooser.best_learner_.result_.status == "OPTIMAL"
    assert np.array_equal(chooser.transform(X), X @ chooser.components_.T)


def test_of_those_above_the_unlearned_the_simplest_within_a_standard_error_of_the_best():
    plain, light, heavy = (
        MetricCandidate("identity"),
        MetricCandidate("identity", strategy="neighbors", slack_weight=0.1),
        MetricCandidate("identity", strategy="neighbors", slack_weight=10.0),
    )
    same = np.array([0.90, 0.91, 0.92, 0.93])
    noise = np.array([0.02, -0.02, 0.03, -0.03])

    def chosen(*scores, usual=0.1):
        return choose([plain, light, heavy], np.array(scores), usual)

    assert chosen(same - 0.1, same - noise / 10, same) == 1
    assert chosen(same - 0.1, same - noise / 10, same, usual=10.0) == 2
    assert chosen(same - 0.1, same - 0.05, same) == 2
    assert chosen(same, same, same) == 0
    # not learning is within the error of learning, and no better
    assert chosen(same - 0.001 + noise, same - 0.05, same) == 2
    # light is within the error of heavy, but worse than not learning
    assert chosen(same - 0.001 * np.array([1, 1, 1, 1.1]), same - 0.002 + noise, same) == 2


def test_from_many_points_the_usual_slack_weight_is_heavier_in_proportion():
    assert [usual_weight(2.0, n) for n in (10, 500, 2000)] == [2.0, 2.0, 8.0]


def test_what_is_compared_takes_few_steps_and_what_is_kept_as_many_as_it_needs(wine, monkeypatch):
    steps = []
    monkeypatch.setattr("bregmat.estimators.candidates.SEARCH_STEPS", 2)
    monkeypatch.setattr("bregmat.estimators.candidates.Search._is_late", lambda self, row: steps.append(row.iteration))
    chooser = bm.MetricLearnerCV(**QUICK, priors=("identity",)).fit(*wine)
    assert max(steps) == 2
    assert chooser.best_learner_.result_.status == "OPTIMAL" and chooser.best_learner_.n_iter_ > 2


@pytest.mark.parametrize(("n", "n_splits"), [(60, 15), (160, 10), (300, 5)])
def test_folds_are_drawn_at_random_and_again_where_rows_are_few(rng, n, n_splits):
    X, y = rng.normal(size=(n, 2)), np.repeat([0, 1], n // 2)
    quick = {"learner": LIGHT, "slack_weights": (1.0,), "priors": ("identity",)}
    first, again, other = (bm.MetricLearnerCV(**quick, random_state=seed).fit(X, y) for seed in (0, 0, 1))
    assert first.n_splits_ == n_splits
    scores = [[c.cv_results_[f"split{k}_test_score"][0] for k in range(n_splits)] for c in (first, again, other)]
    assert scores[0] == scores[1] != scores[2]


@pytest.mark.parametrize("kind", ["continuous", "multilabel"])
def test_folds_of_numbers_and_of_sets_of_labels_are_drawn_at_random_too(rng, kind):
    y = rng.normal(size=100) if kind == "continuous" else rng.integers(0, 2, (100, 3))
    first, again, other = (usual_folds(y, None, seed) for seed in (0, 0, 1))
    assert type(first) is RepeatedKFold and first.get_n_splits() == 15
    drawn = [[test.tolist() for _, test in folds.split(y)] for folds in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert type(usual_folds(y, np.arange(100) // 5, 0)) is GroupKFold
    assert type(usual_folds(np.arange(100) % 3, None, 0)) is RepeatedStratifiedKFold


def test_groups_stay_together_where_no_folds_are_asked_for(rng):
    X = np.repeat(rng.normal(size=(30, 3)), 4, axis=0)  # all of a group are one point, of a class at random
    y, groups = np.repeat(rng.integers(0, 2, 30), 4), np.repeat(np.arange(30), 4)
    quick = {"learner": LIGHT, "slack_weights": (1.0,), "priors": ("identity",), "random_state": 0}
    apart, within = (bm.MetricLearnerCV(**quick).fit(X, y, groups=g) for g in (groups, None))
    assert apart.n_splits_ == 5 and within.n_splits_ == 15
    assert apart.cv_results_["mean_test_score"][0] < 0.8 < within.cv_results_["mean_test_score"][0]


def test_the_search_draws_its_rows_until_they_settle(wine):
    X, y = wine
    chooser = bm.MetricLearnerCV(slack_weights=(1.0,), priors=("variance",), cv=2, random_state=0).fit(X, y)
    assert chooser.best_learner_.get_params()["passes"] == 6 > bm.MetricLearner().passes
    assert max(row.stage for row in chooser.best_learner_.result_.history) <= 6


def test_groups_scoring_and_an_estimator_of_ones_own(wine):
    X, y = wine
    groups = np.arange(len(y)) % 4
    chooser = bm.MetricLearnerCV(
        **QUICK | {"cv": GroupKFold(4)}, scoring="f1_macro", estimator=KNeighborsClassifier(1)
    ).fit(X, y, groups=groups)
    assert chooser.n_splits_ == 4 and 0 < chooser.best_score_ <= 1


def test_rows_without_a_label_take_no_part_in_the_scores(wine):
    X, y = wine
    some = np.where(np.arange(len(y)) % 2, y, -1)
    a = bm.MetricLearnerCV(**QUICK).fit(X, some)
    b = bm.MetricLearnerCV(**QUICK).fit(X[some >= 0], y[some >= 0])
    assert a.best_params_ == b.best_params_ and a.best_score_ == b.best_score_


def test_regression(rng):
    X = rng.normal(size=(150, 6))
    chooser = bm.MetricLearnerCV(**QUICK).fit(X, X[:, 0] + 0.1 * rng.normal(size=150))
    assert chooser.best_params_["strategy"] == "neighbors" and chooser.best_score_ > 0.5


def test_a_prior_within_classes_is_found_where_classes_lie_along_each_other(rng):
    y = np.repeat(np.arange(6), 40)
    X = rng.normal(size=(240, 5)) * [5, 1, 1, 1, 1]
    X[:, 1] += 2 * y + X[:, 0]  # parted across the first direction, which says nothing
    X[:, 2:] *= 3
    chooser = bm.MetricLearnerCV(**QUICK).fit(X, y)
    table = chooser.cv_results_
    plain = {p["prior"]: m for p, m in zip(table["params"], table["mean_test_score"]) if p["strategy"] is None}
    assert plain["within"] > max(plain["variance"], plain["identity"]) + 0.1
    assert chooser.best_score_ >= plain["within"]
    # as good as not learning
    alone = bm.MetricLearnerCV(**QUICK | {"slack_weights": (1e-9,)}, priors=("within",)).fit(X, y)
    assert alone.best_learner_ is None and np.array_equal(alone.components_, inverse_within(X, y).T)


def test_halving_keeps_the_unlearned_and_a_third(rng, monkeypatch):
    monkeypatch.setattr("bregmat.estimators.candidates.HALVING_FROM", 60)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    table = bm.MetricLearnerCV(**QUICK | {"slack_weights": (0.1, 1.0, 10.0)}).fit(X, y).cv_results_
    is_plain = np.array([p["strategy"] is None for p in table["params"]])
    assert np.all(table["n_samples"][is_plain] == 200)
    assert sorted(table["n_samples"][~is_plain]) == [22] * 6 + [66] * 2 + [200]
    assert np.all(table["n_folds"] == 3)


def test_where_a_third_of_the_folds_says_enough_it_decides_who_meets_the_others(rng):
    X = rng.normal(size=(800, 3))
    y = (X[:, 0] > 0).astype(int)
    quick = QUICK | {"slack_weights": (0.1, 1.0, 10.0), "cv": 5}
    table = bm.MetricLearnerCV(**quick).fit(X, y).cv_results_
    is_plain = np.array([p["strategy"] is None for p in table["params"]])
    assert np.all(table["n_folds"][is_plain] == 5) and np.all(table["n_samples"] == 640)
    assert sorted(table["n_folds"][~is_plain]) == [2] * 6 + [5] * 3
    scores = np.array([table[f"split{k}_test_score"] for k in range(5)])
    assert np.array_equal(np.isnan(scores).sum(axis=0), 5 - table["n_folds"])
    assert np.allclose(np.nanmean(scores, axis=0), table["mean_test_score"])
    first = scores[:2].mean(axis=0)
    assert first[~is_plain & (table["n_folds"] == 5)].min() >= first[table["n_folds"] == 2].max()
    whole = bm.MetricLearnerCV(**quick).fit(X[:700], y[:700]).cv_results_  # 280 rows in two of the folds
    assert np.all(whole["n_folds"] == 5)


def test_a_budget_of_time_is_kept(rng):
    X, y = rng.normal(size=(400, 30)), rng.integers(0, 4, 400)
    start = time.perf_counter()
    chooser = bm.MetricLearnerCV(slack_weights=np.logspace(-2, 3, 40), max_seconds=1.0).fit(X, y)
    assert time.perf_counter() - start < 60
    assert np.isnan(chooser.cv_results_["mean_test_score"]).any() and np.isfinite(chooser.best_score_)
    with pytest.raises(ValueError, match="max_seconds is too short"):
        bm.MetricLearnerCV(max_seconds=1e-9).fit(X, y)


def test_files(fitted, wine, tmp_path):
    bm.save(tmp_path / "chosen.bm", fitted)
    again = bm.load(tmp_path / "chosen.bm")
    assert again.best_params_ == fitted.best_params_
    assert np.array_equal(again.transform(wine[0]), fitted.transform(wine[0]))
    assert np.array_equal(again.cv_results_["mean_test_score"], fitted.cv_results_["mean_test_score"])


@pytest.mark.filterwarnings("ignore:.* coincide with points of another class")
@pytest.mark.parametrize(
    ("estimator", "check"), list(sklearn_checks(bm.MetricLearnerCV(**QUICK | {"cv": 2}), unmet=REPEATED))
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "options",
    [
        {"priors": "variance"},
        {"priors": ("scaled",)},
        {"strategies": ()},
        {"strategies": ("nearest",)},
        {"slack_weights": (0.0,)},
        {"slack_weights": 1.0},
        {"n_components": (0,)},
        {"max_seconds": -1},
        {"learner": KNeighborsClassifier()},
        {"random_state": "x"},
    ],
)
def test_bad_parameters_are_named(wine, options):
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        bm.MetricLearnerCV(**options).fit(*wine)
