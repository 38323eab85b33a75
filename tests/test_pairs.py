"""Metrics from pairs, triplets and quadruplets; metric-learn's own tests are run by benchmarks/metric_learn_tests.py."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

from bad_inputs import WORD, column, count, number, table
from bregmat import CyclicProjection, SolverError, Status, load, save, verify
from bregmat.pairs import ITML, ITML_Supervised, PairsLearner
from bregmat_app.cli.app import app
from estimator_suite import sklearn_checks

X, KIND = load_iris(return_X_y=True)


@pytest.fixture
def pairs(rng):
    """Row numbers of iris, and whether the two are of one class."""
    index = np.stack([rng.permutation(150), rng.permutation(150)], axis=1)
    index = index[(X[index[:, 0]] != X[index[:, 1]]).any(axis=1)]
    return index, np.where(KIND[index[:, 0]] == KIND[index[:, 1]], 1, -1)


@pytest.fixture
def triplets(rng):
    """Row numbers: two of one class, one of another."""
    index = rng.integers(0, 150, (2000, 3))
    a, b, c = index.T
    return index[(KIND[a] == KIND[b]) & (KIND[a] != KIND[c]) & (X[a] != X[b]).any(axis=1)][:80]


def inverse_separation(Z):
    """Mean distance within classes over that to others, averaged over classes."""
    inside = [
        pairwise_distances(Z[k == KIND]).mean() / pairwise_distances(Z[k == KIND], Z[k != KIND]).mean()
        for k in range(3)
    ]
    return np.mean(inside)


# ---------------------------------------------------------------- ITML: the problem, its bounds, its solution
def test_itml_is_certified_and_its_own_iteration_ends_there(pairs):
    index, y = pairs
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    fast = ITML(tol=1e-7).fit(scaled[index], y)
    slow = ITML(tol=1e-7, max_iter=5000, solver=CyclicProjection()).fit(scaled[index], y)
    assert fast.result_.status is slow.result_.status is Status.OPTIMAL
    np.testing.assert_allclose(fast.get_mahalanobis_matrix(), slow.get_mahalanobis_matrix(), rtol=1e-2, atol=1e-3)
    assert (fast.tuples_used_ == np.arange(len(y))).all() and fast.constraints_.n_constraints == len(y)


def test_bounds_are_squared_distances(pairs):
    index, y = pairs
    points = np.unique(X[index].reshape(-1, 4), axis=0)
    sq = pairwise_distances(points)[np.triu_indices(len(points), 1)] ** 2
    learner = ITML().fit(X[index], y)
    np.testing.assert_allclose(learner.bounds_, np.percentile(sq, (5, 95)), rtol=1e-12)
    hard = ITML(gamma=np.inf, tol=1e-8).fit([[[0.0, 0.0], [1.0, 1.0]]], [1], bounds=(0.5, 0.5))
    assert hard.pair_distance([[[0.0, 0.0], [1.0, 1.0]]])[0] ** 2 == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize(
    "bounds", [None, (20.0, 100.0), [20.0, 100.0], np.array([20.0, 100.0]), np.array([[20.0, 100.0]]), [[20], [100]]]
)
def test_bounds_that_are_taken(bounds):
    given = bounds.copy() if isinstance(bounds, np.ndarray) else bounds
    learner = ITML().fit([[[-10.0, 0.0], [10.0, 0.0]], [[0.0, 50.0], [0.0, -60.0]]], [1, -1], bounds=given)
    drawn = ITML_Supervised().fit([[0, 0], [0, 1], [2, 0], [2, 1]], [1, 0, 1, 0], bounds=given)
    assert learner.bounds_.shape == drawn.bounds_.shape == (2,)
    if bounds is not None:
        assert np.array_equal(given, bounds) and learner.bounds_.tolist() == drawn.bounds_.tolist() == [20.0, 100.0]


@pytest.mark.parametrize(
    "bounds", ["weird", ["weird1", "weird2"], [1, 2, 3], (10, 1), (-1, 1), (0, 1), (1, np.nan), (1, np.inf)]
)
def test_bounds_that_are_refused(bounds, pairs):
    for learner, data in ((ITML(), (X[pairs[0]], pairs[1])), (ITML_Supervised(), (X, KIND))):
        with pytest.raises((ValueError, TypeError), match="bounds"):
            learner.fit(*data, bounds=bounds)
        assert "result_" not in vars(learner)


def test_supervised_separates_iris():
    learner = ITML_Supervised(n_constraints=200, random_state=1234).fit(X, KIND)
    assert inverse_separation(learner.transform(X)) < 0.2 < inverse_separation(X)
    assert learner.constraints_.n_constraints == 400


def test_contradictory_bounds_are_proven_so():
    pairs = [[[0.0], [1.0]], [[0.0], [1.0]]]
    with pytest.raises(SolverError) as caught:
        ITML(gamma=np.inf).fit(pairs, [1, -1], bounds=(1.0, 4.0))
    assert sorted(caught.value.result.conflict) == [0, 1]


def test_few_iterations_warn(pairs):
    index, y = pairs
    with pytest.warns(ConvergenceWarning):
        ITML(max_iter=1, tol=1e-9).fit(X[index], y)


def test_priors(pairs):
    index, y = pairs
    metric = [ITML(prior="random", random_state=s).fit(X[index], y).get_mahalanobis_matrix() for s in (0, 0, 1)]
    assert np.array_equal(metric[0], metric[1]) and not np.allclose(metric[0], metric[2])
    wide = np.column_stack([X, X[:, 0] + X[:, 1]])
    for prior in ("covariance", np.diag([1.0, 1.0, 1.0, 1.0, 0.0])):
        with pytest.raises(np.linalg.LinAlgError, match="strictly positive definite"):
            ITML(prior=prior).fit(wide[index], y)


def test_a_prior_within_classes_is_refused(pairs):
    index, y = pairs
    with pytest.raises(ValueError, match="prior must be .* tuples have no classes; got 'within'"):
        PairsLearner(prior="within", preprocessor=X).fit(index, y)


def test_identical_points():
    a, b = [0.0, 1.0], [2.0, 3.0]
    with pytest.warns(UserWarning, match="1 dissimilar pairs are of identical points"):
        learner = ITML().fit([[a, a], [a, a], [a, b]], [1, -1, 1])
    assert learner.tuples_used_.tolist() == [2]
    with pytest.raises(ValueError, match="identical|differ"):
        ITML().fit([[a, a]], [1])


# ---------------------------------------------------------------- points by value, by index, in scikit-learn
@pytest.mark.parametrize("cls", [ITML, PairsLearner])
@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, pd.DataFrame, sp.csr_array, lambda A: A.__getitem__])
def test_indices_are_as_good_as_points(cls, form, pairs):
    index, y = pairs
    given = cls(preprocessor=form(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given.fit(index, y)
        formed = cls().fit(X[index], y)
        np.testing.assert_allclose(given.pair_distance(index), formed.pair_distance(X[index]), rtol=1e-2)
        assert given.transform([3, 5]).shape == (2, 4)
    assert formed.preprocessor_ is None and callable(given.preprocessor_)
    assert given.score(index, y) == pytest.approx(formed.score(X[index], y), abs=0.01)
    with pytest.raises(ValueError, match="preprocessor"):
        formed.predict(index)


@pytest.mark.parametrize("cls", [ITML, PairsLearner])
def test_names_are_those_of_the_index(cls, pairs):
    """A table of pairs by name, as it comes from a file."""
    index, y = pairs
    names = np.array([f"flower {k}" for k in range(len(X))])
    by_name = pd.DataFrame(names[index], columns=["a", "b"])
    frame = pd.DataFrame(X, index=names)
    learner = cls(preprocessor=frame).fit(by_name, y)
    again = cls(preprocessor=X).fit(index, y)
    np.testing.assert_allclose(learner.pair_distance(by_name), again.pair_distance(index), rtol=1e-6)
    assert np.array_equal(learner.predict(names[index].tolist()), again.predict(index))
    with pytest.raises(ValueError, match=r"names of tuples must be in the index.*not there: \['rose'\]"):
        learner.predict([["flower 0", "rose"]])
    with pytest.raises(TypeError, match="such as flower .*Names need a pandas DataFrame whose index holds them"):
        cls(preprocessor=X).fit(by_name, y)
    with pytest.raises(ValueError, match="must name every row once; 'flower 3' occurs again"):
        cls(preprocessor=pd.concat([frame, frame[3:4]])).fit(by_name, y)


def test_columns_of_a_frame_are_known(pairs):
    frame = pd.DataFrame(X, columns=list("abcd"))
    learner = PairsLearner(preprocessor=frame).fit(*pairs)
    assert learner.feature_names_in_.tolist() == list("abcd") and learner.n_features_in_ == 4
    learner.transform(frame)


@pytest.mark.parametrize("learner", [ITML(), PairsLearner()])
def test_cross_validation(learner, pairs):
    index, y = pairs
    assert is_classifier(learner)
    named = clone(learner).set_params(preprocessor=X)
    scores = [cross_val_score(learner, X[index], y, cv=3), cross_val_score(named, index, y, cv=3)]
    np.testing.assert_allclose(*scores, atol=0.02)
    assert scores[0].mean() > 0.85
    assert set(cross_val_predict(learner, X[index], y, cv=3)) == {1, -1}
    assert np.isfinite(cross_val_score(named, index, y, cv=3, scoring="f1")).all()
    name = "gamma" if isinstance(learner, ITML) else "slack_weight"
    search = GridSearchCV(named, {name: [0.1, 1.0, 10.0]}, cv=3, error_score="raise").fit(index, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all() and search.predict(index).shape == y.shape
    assert make_pipeline(learner).fit(X[index], y).score(X[index], y) == clone(learner).fit(X[index], y).score(
        X[index], y
    )


@pytest.mark.parametrize(("estimator", "check"), list(sklearn_checks(ITML_Supervised(max_iter=50))))
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", [ITML, PairsLearner, ITML_Supervised])
def test_files_and_pickle(cls, pairs, tmp_path):
    data = (np.arange(150), KIND) if cls is ITML_Supervised else pairs
    learner = cls(preprocessor=X, prior=np.diag([1.0, 2.0, 1.0, 1.0])).fit(*data)
    save(tmp_path / "model.bm", learner)
    again, twin = load(tmp_path / "model.bm"), pickle.loads(pickle.dumps(learner))
    assert np.array_equal(twin.transform([1, 2]), learner.transform([1, 2]))
    assert again.preprocessor_ is None  # data stays out of files
    for call in (lambda: again.pair_distance(pairs[0][:2]), lambda: again.transform([0, 1])):
        with pytest.raises(ValueError, match=r"files do not keep it, so give the one .* to set_params\(preprocessor="):
            call()
    assert np.array_equal(again.transform(X), learner.transform(X))
    again.set_params(preprocessor=X)
    assert np.array_equal(again.pair_score(pairs[0]), learner.pair_score(pairs[0]))
    if cls is not ITML_Supervised:
        assert again.threshold_ == learner.threshold_ and np.array_equal(
            again.predict(pairs[0]), learner.predict(pairs[0])
        )
    shown = CliRunner().invoke(app, ["inspect", str(tmp_path / "model.bm")])
    assert shown.exit_code == 0 and "optimal" in shown.output.lower(), shown.output
    judged = verify(again)
    assert judged.verdict == "not recomputed" and not judged.problems
    assert str(again.result_) == str(learner.result_) and again.bounds_.tolist() == learner.bounds_.tolist()


# ---------------------------------------------------------------- the threshold


def test_threshold_is_used(pairs):
    index, y = pairs
    learner = PairsLearner(preprocessor=X).fit(index, y, calibration_params={"strategy": "max_tpr", "min_rate": 0.9})
    assert np.mean(learner.predict(index)[y < 0] < 0) >= 0.9
    assert (learner.set_threshold(np.inf).predict(index) == 1).all() and learner.threshold_ == np.inf
    assert np.array_equal(learner.decision_function(index), learner.pair_score(index))
    for bad in ("ABC", None, [1, 2]):
        with pytest.raises(ValueError, match="Parameter threshold"):
            learner.set_threshold(bad)
    with pytest.raises(ValueError, match="no dissimilar pair"):
        learner.calibrate_threshold(index[y > 0], y[y > 0], strategy="max_tpr", min_rate=0.5)


# ---------------------------------------------------------------- triplets and quadruplets
def test_triplets_and_quadruplets_are_learned(triplets):
    train, test = triplets[:50], triplets[50:]
    learner = PairsLearner(preprocessor=X).fit(train)
    four = PairsLearner(preprocessor=X).fit(train[:, [0, 1, 0, 2]])
    turned = PairsLearner(preprocessor=X).fit(train[:, [0, 2, 1]], -np.ones(50))
    assert learner.result_.status is Status.OPTIMAL and learner.margin_ > 0
    for other in (four, turned):
        np.testing.assert_allclose(other.get_mahalanobis_matrix(), learner.get_mahalanobis_matrix(), rtol=1e-9)
    near, far = learner.pair_distance(test[:, :2]), learner.pair_distance(test[:, [0, 2]])
    np.testing.assert_allclose(learner.decision_function(test), far - near, rtol=1e-12)
    np.testing.assert_allclose(learner.decision_function(test[:, [0, 1, 0, 2]]), far - near, rtol=1e-12)
    assert learner.score(test) == np.mean(learner.predict(test) == 1) == np.mean(near < far)
    before = np.linalg.norm(X[test[:, [0]]] - X[test[:, 1:]], axis=2)
    assert learner.score(test) > np.mean(before[:, 0] < before[:, 1]) - 0.05
    assert learner.score(test[:, [0, 2, 1]], -np.ones(len(test))) == learner.score(test)
    assert np.isfinite(cross_val_score(learner, triplets, cv=3)).all()
    with pytest.raises(AttributeError, match="threshold"):
        learner.predict(test[:, :2])
    assert set(learner.calibrate_threshold(test[:, [0, 2]], np.where(near < far, 1, -1)).predict(test[:, :2])) <= {
        1,
        -1,
    }


def test_units_of_columns_do_not_matter(pairs, triplets):
    units = np.array([1.0, 100.0, 0.01, 5.0])
    for tuples in ((X[pairs[0]], pairs[1]), (X[triplets], None)):
        plain, other = PairsLearner(tol=1e-8).fit(*tuples), PairsLearner(tol=1e-8).fit(tuples[0] * units, tuples[1])
        np.testing.assert_allclose(
            other.decision_function(tuples[0] * units), plain.decision_function(tuples[0]), atol=1e-3
        )
        assert plain.prior_ == "variance"
    assert PairsLearner().fit(X[pairs[0]], pairs[1], bounds=(1.0, 4.0)).prior_ == "identity"
    assert PairsLearner().fit(X[triplets], margin=1.0).margin_ == 1.0


def test_weights(triplets):
    first, last = PairsLearner(preprocessor=X), PairsLearner(preprocessor=X)
    first.fit(np.concatenate([triplets[:20], triplets[:5]]), margin=1.0)
    last.fit(triplets[:20], margin=1.0, sample_weight=np.where(np.arange(20) < 5, 2.0, 1.0) * 20 / 25)
    np.testing.assert_allclose(first.get_mahalanobis_matrix(), last.get_mahalanobis_matrix(), rtol=0.05, atol=1e-3)
    hard = PairsLearner(preprocessor=X).fit(triplets[:20], margin=1.0, sample_weight=np.full(20, np.inf))
    d = [hard.pair_distance(triplets[:20][:, ends]) ** 2 for ends in ([0, 1], [0, 2])]
    assert (d[0] + 1.0 <= d[1] * (1 + 1e-6)).all()


@pytest.mark.parametrize("settings", [{"divergence": "vonneumann"}, {"divergence": "frobenius"}, {"n_components": 2}])
def test_settings_of_the_metric_learner(settings, pairs):
    learner = PairsLearner(preprocessor=X, **settings).fit(*pairs)
    assert learner.result_.status is Status.OPTIMAL
    assert learner.components_.shape[0] == settings.get("n_components", learner.components_.shape[0])
    assert learner.set_params(warm_start=True).fit(*pairs).n_iter_ <= 3


# ---------------------------------------------------------------- bad input
@pytest.mark.parametrize("cls", [ITML, PairsLearner])
def test_a_prior_for_other_columns_is_refused_by_its_shape(cls, pairs):
    with pytest.raises(ValueError, match=r"prior must have shape \(4, 4\) for X with 4 features; got \(3, 3\)"):
        cls(preprocessor=X, prior=np.eye(3)).fit(*pairs)


BAD_PARAMETERS = {
    "gamma": number(0, -1.0, inf=False),
    "slack_weight": number(0, -1.0, inf=False),
    "tol": number(-1.0),
    "max_iter": count(1),
    "prior": WORD | table(np.eye(4), none=True, square=True),
    "solver": WORD,
    "preprocessor": {"number": 3, "flat": X[0], "deep": X[None]},
    "n_constraints": count(1),
    "divergence": WORD,
    "n_components": count(1) | {"many": 7},
}


@pytest.mark.parametrize("cls", [ITML, ITML_Supervised, PairsLearner])
@pytest.mark.parametrize("name", BAD_PARAMETERS)
def test_bad_parameters_are_refused_by_name(cls, name, pairs):
    data = (X, KIND) if cls is ITML_Supervised else (X[pairs[0]], pairs[1])
    if name not in cls().get_params():
        name = "tol"
    for kind, value in BAD_PARAMETERS[name].items():
        if kind in ("none", "number") and name == "prior" and value is None:
            continue
        with pytest.raises((ValueError, TypeError), match=name):
            cls(**{name: value}).fit(*data)


BAD_TUPLES = table(X[:6], none=True) | {
    "five": np.ones((6, 5, 4)),
    "single": np.ones((6, 1, 4)),
    "none": None,
    "far": [[0, 150]],
    "below": [[-1, 3]],
}


@pytest.mark.parametrize("learner", [ITML(), PairsLearner(), ITML(preprocessor=X), PairsLearner(preprocessor=X)])
def test_bad_tuples_and_labels_are_refused(learner, pairs):
    index, y = pairs[0][:6], pairs[1][:6].copy()
    y[:2] = 1, -1
    good = index if learner.preprocessor is not None else X[index]
    fitted = clone(learner).fit(good, y)
    bad = {"tuple" + kind: value for kind, value in BAD_TUPLES.items() if kind not in ("deep", "no rows")} | {
        "no rows": good[:0]
    }
    for kind, value in bad.items():
        for call in (lambda v: clone(learner).fit(v, y), fitted.predict, fitted.pair_distance):
            with pytest.raises((ValueError, TypeError)) as caught:
                call(value)
            assert any(
                word in str(caught.value).lower() for word in ("tuples", "indic", "array", "input x", "y must")
            ), (kind, caught.value)
    for value in ({**column(6, none=True, low=0)} | {"half": y + 0.5, "none": None}).values():
        with pytest.raises((ValueError, TypeError), match=r"\by\b"):
            clone(learner).fit(good, value)
    wide = np.ones((2, 2, 7))
    with pytest.raises(ValueError, match="7 features"):
        fitted.predict(wide)
    with pytest.raises(NotFittedError):
        clone(learner).predict(good)


def test_what_tuples_have_no_use_for(pairs, triplets):
    learner = PairsLearner(preprocessor=X)
    for tuples, y, more, message in (
        (pairs[0], pairs[1], {"margin": 1.0}, "margin"),
        (triplets, None, {"bounds": (1.0, 2.0)}, "bounds"),
        (triplets, None, {"margin": -1.0}, "margin"),
        (triplets, None, {"sample_weight": -np.ones(80)}, "sample_weight"),
        (pairs[0], None, {}, "y"),
        (pairs[0], pairs[1], {"calibration_params": {"strategy": "weird"}}, "Strategy"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.fit(tuples, y, **more)


def test_score_pairs_is_of_the_past(pairs):
    learner = ITML(preprocessor=X).fit(*pairs)
    with pytest.warns(FutureWarning, match="pair_distance"):
        assert np.array_equal(learner.score_pairs(pairs[0]), learner.pair_distance(pairs[0]))


def test_another_map_in_its_place(pairs):
    learner = ITML(preprocessor=X).fit(*pairs)
    learner.components_ = 2 * np.eye(4)
    np.testing.assert_allclose(learner.transform(X), 2 * X)
    assert learner.get_metric()(X[:1], [X[1]]) == pytest.approx(learner.pair_distance([[0, 1]])[0])


def test_progress_is_printed(pairs, capsys):
    ITML(verbose=True).fit(X[pairs[0]], pairs[1])
    said = capsys.readouterr().out
    assert "iteration" in said and "ITML: " in said and "MetricLearner" not in said


def test_interrupted_fits_keep_what_they_have(pairs):
    def stop(record):
        if record.iteration == 2:
            raise KeyboardInterrupt

    learner = PairsLearner(preprocessor=X, callback=stop)
    with pytest.raises(KeyboardInterrupt), pytest.warns(RuntimeWarning, match="PairsLearner was interrupted"):
        learner.fit(*pairs)
    assert learner.result_.exit_reason == "INTERRUPTED" and learner.prior_ == "variance"
    assert np.isfinite(learner.pair_distance(pairs[0])).all()
