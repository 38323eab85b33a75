"""Online learners in other libraries' hands: scikit-learn's checks, searches and pipelines."""

import copy
import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from bregmat import MatrixExponentiatedGradient, OnlineLogDet, OnlinePCA, load, save
from estimator_suite import sklearn_checks

WIDE = {"instances": "vectors", "spectral_spread": 1e6, "eta": 1e-6}  # the checks' rows are up to 1,000 long
# The first of a learner has no table of features, so that hardly a check applies to it.
GRADIENTS = [
    MatrixExponentiatedGradient(),
    MatrixExponentiatedGradient(instances="matrices"),
    MatrixExponentiatedGradient(**WIDE),
]
LOGDETS = [OnlineLogDet(), OnlineLogDet(differences=True)]
LABELS = pytest.mark.filterwarnings(
    "ignore::bregmat.online.UnreachableLabelWarning", "ignore::bregmat.online.SpectralSpreadWarning"
)


@LABELS
@pytest.mark.parametrize(("estimator", "check"), list(sklearn_checks(*GRADIENTS)))
def test_scikit_learn_checks_of_the_gradient(estimator, check):
    check(estimator)


@LABELS  # one of the checks has a row of zeros at a positive distance
@pytest.mark.parametrize(("estimator", "check"), list(sklearn_checks(*LOGDETS)))
def test_scikit_learn_checks_of_logdet(estimator, check):
    check(estimator)


def examples(rng, n=60):
    X = rng.normal(size=(n, 3)) / 3
    return X, (X @ [1.0, 0.5, 0.0]) ** 2


SHORT = {"instances": "vectors", "trace": 1.25, "spectral_spread": 4.0}
LEARNERS = [MatrixExponentiatedGradient(**SHORT), OnlineLogDet(differences=True, eta=0.3)]


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_one_at_a_time(rng, learner):
    """``learn_one`` returns the learner and leaves its input alone; a clone has seen nothing, a copy shares nothing."""
    X, y = examples(rng)
    model = clone(learner)
    assert np.isfinite(model.predict_one(X[0]))  # before any example
    for x, target in zip(X, y):
        before = x.copy()
        model.predict_one(x)
        assert model.learn_one(x, target) is model and np.array_equal(x, before)
    whole = copy.deepcopy(model)
    assert clone(model).n_seen_ == 0 and whole.n_seen_ == 60
    state = pickle.dumps(whole)
    model.learn_one(X[0], y[0])
    assert pickle.dumps(whole) == state and whole.predict_one(X[1]) != model.predict_one(X[1])


# ---------------------------------------------------------------- scikit-learn
@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_searches_and_pipelines(rng, learner):
    X, y = examples(rng, 200)
    grid = {"eta": [1e-6, 0.3]}
    search = GridSearchCV(clone(learner), grid, cv=KFold(4), scoring="neg_mean_squared_error").fit(X, y)
    assert search.best_params_ == {"eta": 0.3} and search.best_score_ > -np.var(y)
    frame = pd.DataFrame(X, columns=list("abc"))
    fitted = clone(learner).fit(frame, y)
    assert list(fitted.feature_names_in_) == list("abc") and fitted.n_features_in_ == 3
    assert np.array_equal(fitted.predict(frame), clone(learner).partial_fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[["c", "b", "a"]])
    model = make_pipeline(Normalizer(), clone(learner)).fit(X, y)
    assert np.isfinite(model.score(X, y)) and model.transform(X).shape == (200, 3)


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_fit_begins_anew_and_fails_as_a_whole(rng, learner, tmp_path):
    X, y = examples(rng)
    model = clone(learner).fit(X, y)
    once = model.predict(X)
    assert np.array_equal(model.fit(X, y).predict(X), once) and model.n_seen_ == 60
    model.partial_fit(X[:5], y[:5])
    assert model.n_seen_ == 65
    before = pickle.dumps(model)
    for bad in (lambda: model.fit(X, -1 - y[:-1]), lambda: model.fit(X * np.nan, y), lambda: model.fit(X[:0], y[:0])):
        with pytest.raises(ValueError):
            bad()
        assert pickle.dumps(model) == before
    save(tmp_path / "learner.bm", model)
    again = load(tmp_path / "learner.bm")
    assert np.array_equal(again.predict(X), model.predict(X)) and again.n_features_in_ == 3
    assert np.array_equal(again.partial_fit(X, y).predict(X), model.partial_fit(X, y).predict(X))


def test_parameters_are_asked_when_they_are_used(rng):
    learner = MatrixExponentiatedGradient(instances="vectors", eta=-1.0)  # as in scikit-learn
    with pytest.raises(ValueError, match="eta must be"):
        learner.learn_one([1.0, 0.0], 0.5)
    assert learner.set_params(eta=0.1).learn_one([1.0, 0.0], 0.5).eta_ == 0.1
    assert list(learner.get_params()) == sorted(set(inspect.signature(type(learner)).parameters))
    with pytest.raises(NotFittedError, match="dim is not known yet"):
        learner.set_params(eta=0.2).predict([[1.0, 0.0]])
    with pytest.raises(ValueError, match="dim must be given for instances='pairs'"):
        MatrixExponentiatedGradient().learn_one((0, 1), 0.5)
    assert MatrixExponentiatedGradient(3).predict([[0, 1]]).tolist() == [1 / 3]  # the prior


def test_sparse_and_complex_vectors(rng):
    X, y = examples(rng)
    learner = MatrixExponentiatedGradient(**SHORT)
    dense = clone(learner).fit(X, y).predict(X)
    assert np.allclose(clone(learner).fit(sp.csr_array(X), y).predict(sp.csr_array(X)), dense, rtol=1e-12)
    whirled = clone(learner).fit(X * 1j, y)
    assert whirled.matrix().dtype.kind == "c" and np.allclose(whirled.predict(X), dense)


@pytest.mark.parametrize("learner", [*LEARNERS, OnlinePCA(2)], ids=str)
def test_files_keep_the_names_of_columns(rng, tmp_path, learner):
    X, y = examples(rng)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = clone(learner).fit(frame, y)
    save(tmp_path / "model.bm", model)
    again = load(tmp_path / "model.bm")
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    other = frame.rename(columns={"a": "z"})
    with pytest.raises(ValueError, match="feature names should match"):
        again.transform(other) if isinstance(again, OnlinePCA) else again.predict(other)
