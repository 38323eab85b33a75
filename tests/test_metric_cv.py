"""MetricLearnerCV: the choice among candidates, never worse than not learning, in scikit-learn's manner."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.model_selection import (
    GroupKFold,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.neighbors import KNeighborsClassifier

import bregmat as bm
from bregmat.estimators.candidates import choose, usual_folds
from bregmat.estimators.linear_maps import inverse_within
from estimator_suite import LIGHT, REPEATED, sklearn_checks

QUICK = {"learner": bm.MetricLearner(**LIGHT), "slack_weights": (1.0,), "cv": 3, "random_state": 0}


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(wine):
    chooser = bm.MetricLearnerCV(**QUICK | {"slack_weights": (10.0, 0.1)}, n_components=(None, 2))
    return chooser.fit(*wine)


def test_the_default_comes_first_then_what_is_not_learned(fitted):
    table = fitted.cv_results_
    default, given, scaled, *learned = table["params"]
    assert default == {"prior": "auto", "strategy": "auto", "n_components": None, "slack_weight": 1.0}
    assert (given, scaled) == tuple({"prior": prior, "strategy": None} for prior in ("identity", "variance"))
    starts = [(p["prior"], p["n_components"]) for p in learned if p["slack_weight"] == 10.0]
    assert starts == [(prior, n) for prior in ("variance", "identity", "within") for n in (None, 2)]
    assert [p["slack_weight"] for p in learned[6:]] == [0.1]  # of the best start alone
    assert table["params"][fitted.best_index_] == fitted.best_params_


def test_means_are_of_the_folds_that_were_scored_and_ranks_of_those_with_all(fitted):
    table = fitted.cv_results_
    scores = np.array([table[f"split{k}_test_score"] for k in range(3)])
    is_whole = table["n_folds"] == 3
    assert is_whole[:3].all() and np.array_equal(np.isfinite(scores).sum(axis=0), table["n_folds"])
    assert np.allclose(table["mean_test_score"], np.nanmean(scores, axis=0))
    assert table["rank_test_score"][is_whole].min() == 1 < table["rank_test_score"][~is_whole].min(initial=9)
    assert is_whole[fitted.best_index_] and fitted.best_score_ == table["mean_test_score"][fitted.best_index_]


def test_scores_are_those_of_fits_by_hand(wine, fitted):
    X, y = wine
    table = fitted.cv_results_
    folds = list(StratifiedKFold(3).split(X, y))
    place = next(k for k, p in enumerate(table["params"]) if p == {"prior": "variance", "strategy": None})
    for fold, (train, test) in enumerate(folds):
        scale = X[train].std(axis=0)
        model = KNeighborsClassifier(4).fit(X[train] / scale, y[train])
        assert table[f"split{fold}_test_score"][place] == model.score(X[test] / scale, y[test])


def test_never_worse_than_the_default_and_not_learning_on_its_own_folds(rng):
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(60, 4))
        y = rng.integers(0, 2, 60)  # nothing to learn
        chooser = bm.MetricLearnerCV(**QUICK).fit(X, y)
        assert chooser.best_score_ >= max(chooser.cv_results_["mean_test_score"][:3])


def test_learns_where_learning_helps(rng):
    X = rng.normal(size=(200, 12))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)  # ten columns of noise
    chooser = bm.MetricLearnerCV(**QUICK).fit(X, y)
    assert chooser.best_params_["strategy"] in ("auto", "neighbors")
    assert chooser.best_learner_.strategy_ == "neighbors" and chooser.best_learner_.result_.status == "OPTIMAL"
    assert np.array_equal(chooser.transform(X), X @ chooser.components_.T)


def test_the_first_that_is_as_good_as_the_best_and_no_worse_than_the_default_nor_the_unlearned():
    is_learned = np.array([True, False, True, True])
    same = np.array([0.90, 0.91, 0.92, 0.93])
    noise = np.array([0.02, -0.02, 0.03, -0.03])

    def chosen(*scores):
        return choose(is_learned, np.array(scores))

    assert chosen(same, same - 0.1, same - 0.05, same) == 0
    assert chosen(same - 0.1, same - 0.1, same - noise / 10, same) == 2
    assert chosen(same - 0.1, same - 0.1, same - 0.05, same) == 3
    assert chosen(same - 0.1, same, same, same) == 1
    # not learning is within the error of learning, and no better
    assert chosen(same - 0.1, same - 0.001 + noise, same - 0.05, same) == 3
    # the third is within the error of the fourth, but worse than the default, or than not learning
    for floor in ((0.001, 0.1), (0.1, 0.001)):
        default, unlearned = (same - size * np.array([1, 1, 1, 1.1]) for size in floor)
        assert chosen(default, unlearned, same - 0.002 + noise, same) in (0, 3)
    assert chosen(same - 0.001, same - 0.1, same - 0.002 + noise, same - 0.0005) == 3


def test_what_is_compared_takes_few_steps_and_what_is_kept_as_many_as_it_needs(wine, monkeypatch):
    n_iter, fit = [], bm.MetricLearner.fit

    def counted(self, X, y, **given):
        fit(self, X, y, **given)
        n_iter.append(self.n_iter_)
        return self

    monkeypatch.setattr("bregmat.estimators.candidates.SEARCH_STEPS", 2)
    monkeypatch.setattr(bm.MetricLearner, "fit", counted)
    learner = bm.MetricLearner(strategy="neighbors", prior="variance", passes=1)
    chooser = bm.MetricLearnerCV(**QUICK | {"learner": learner}, priors=("variance",)).fit(*wine)
    assert max(n_iter[:-1]) == 2 < n_iter[-1]
    assert chooser.best_learner_.result_.status == "OPTIMAL"


def test_slack_weights_are_relative_to_the_learners_own(rng):
    X, chooser = rng.normal(size=(1200, 3)), bm.MetricLearnerCV()
    for own, want in (("auto", 0.5 * 1200 / 500), (3.0, 1.5)):
        params = {"prior": "identity", "strategy": "neighbors", "n_components": None, "slack_weight": 0.5}
        learner = chooser._set(bm.MetricLearner(slack_weight=own), params, X, len(X))
        assert learner.slack_weight == pytest.approx(want)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "n_splits"), [(60, 15), (160, 10), (300, 5)])
def test_folds_are_drawn_at_random_and_again_where_rows_are_few(rng, n, n_splits):
    X, y = rng.normal(size=(n, 2)), np.repeat([0, 1], n // 2)
    quick = {"learner": QUICK["learner"], "slack_weights": (1.0,), "priors": ("identity",)}
    first, again, other = (bm.MetricLearnerCV(**quick, random_state=seed).fit(X, y) for seed in (0, 0, 1))
    assert first.n_splits_ == n_splits
    scores = [[c.cv_results_[f"split{k}_test_score"][1] for k in range(n_splits)] for c in (first, again, other)]
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
    many = np.tile(y, (31,) if y.ndim == 1 else (31, 1))
    for labels, kind in ((many, ShuffleSplit), (np.arange(3100) % 3, StratifiedShuffleSplit)):
        folds = usual_folds(labels, None, 0)
        assert type(folds) is kind
        assert [(len(a), len(b)) for a, b in folds.split(labels, labels)] == [(2000, 1100)] * 3


@pytest.mark.slow
def test_groups_stay_together_where_no_folds_are_asked_for(rng):
    X = np.repeat(rng.normal(size=(30, 3)), 4, axis=0)  # all of a group are one point, of a class at random
    y, groups = np.repeat(rng.integers(0, 2, 30), 4), np.repeat(np.arange(30), 4)
    quick = {"learner": QUICK["learner"], "slack_weights": (1.0,), "priors": ("identity",), "random_state": 0}
    apart, within = (bm.MetricLearnerCV(**quick).fit(X, y, groups=g) for g in (groups, None))
    assert apart.n_splits_ == 5 and within.n_splits_ == 15
    assert apart.cv_results_["mean_test_score"][1] < 0.8 < within.cv_results_["mean_test_score"][1]


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
    assert chooser.best_learner_.strategy_ == "neighbors" and chooser.best_score_ > 0.5


def test_a_prior_within_classes_is_found_where_classes_lie_along_each_other(rng):
    y = np.repeat(np.arange(6), 40)
    X = rng.normal(size=(240, 5)) * [5, 1, 1, 1, 1]
    X[:, 1] += 2 * y + X[:, 0]  # parted across the first direction, which says nothing
    X[:, 2:] *= 3
    chooser = bm.MetricLearnerCV(**QUICK).fit(X, y)
    table = chooser.cv_results_
    means = {p["prior"]: m for p, m in zip(table["params"], table["mean_test_score"]) if p["strategy"] == "neighbors"}
    assert means["within"] > max(table["mean_test_score"][1:3]) + 0.1
    assert chooser.best_score_ >= means["within"]
    alone = bm.MetricLearner(prior="within", strategy=None).fit(X, y)
    assert np.allclose(alone.get_mahalanobis_matrix(), inverse_within(X, y) @ inverse_within(X, y).T)


def test_who_is_behind_on_the_first_folds_is_not_scored_on_the_others(rng):
    X = rng.normal(size=(200, 3)) * [1, 30, 30]
    y = (X[:, 0] > 0).astype(int)
    chooser = bm.MetricLearnerCV(**QUICK | {"cv": 5}, priors=("variance", "identity")).fit(X, y)
    table = chooser.cv_results_
    assert np.all(table["n_folds"][:3] == 5)  # whatever they are
    first = np.array([table[f"split{k}_test_score"] for k in range(2)]).mean(axis=0)
    behind = table["n_folds"] == 2
    assert behind.any() and first[behind].max() < first[~behind].max()


def test_nothing_else_is_learned_if_the_default_is_always_right(rng):
    y = np.arange(60) % 2
    X = 20.0 * y[:, None] + rng.normal(size=(60, 3))
    asked = {"cv": 3, "random_state": 0, "verbose": 0}
    chooser = bm.MetricLearnerCV(**asked).fit(X, y)
    assert len(chooser.cv_results_["params"]) == 3 and chooser.best_index_ == 0 and chooser.best_score_ == 1.0
    assert len(bm.MetricLearnerCV(scoring="roc_auc", **asked).fit(X, y).cv_results_["params"]) > 3


def test_when_the_time_is_up_the_best_so_far_is_kept(wine):
    chooser = bm.MetricLearnerCV(cv=3, max_seconds=1e-9, random_state=0).fit(*wine)
    table = chooser.cv_results_
    assert len(table["params"]) == 3 and np.all(table["n_folds"] == 3)
    assert chooser.best_index_ == 0 and chooser.best_learner_.strategy_ == "neighbors"


def test_candidates_are_told_of_on_a_terminal(wine, capsys, monkeypatch):
    search = bm.MetricLearnerCV(**QUICK, priors=("variance",))
    search.fit(*wine)
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    search.fit(*wine)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[bregmat] candidate 1: prior='auto', strategy='auto', slack_weight=1.0: score 0.9")
    assert "fit to all rows" in "".join(lines)
    search.set_params(verbose=0).fit(*wine)
    assert capsys.readouterr().out == ""


def test_files(fitted, wine, tmp_path):
    bm.save(tmp_path / "chosen.bm", fitted)
    again = bm.load(tmp_path / "chosen.bm")
    assert again.best_params_ == fitted.best_params_
    assert np.array_equal(again.transform(wine[0]), fitted.transform(wine[0]))
    assert np.array_equal(again.cv_results_["mean_test_score"], fitted.cv_results_["mean_test_score"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* coincide with points of another class")
@pytest.mark.parametrize(
    ("estimator", "check"),
    list(sklearn_checks(bm.MetricLearnerCV(**QUICK | {"cv": 2}, priors=("variance",)), unmet=REPEATED)),
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
