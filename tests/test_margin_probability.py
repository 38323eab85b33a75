"""MarginSVC(probability=True): probabilities by scikit-learn's calibration, ties as in SVC, files."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bregmat import KernelLearner, MarginSVC, load, save
from estimator_suite import sklearn_checks

BY_FOLDS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "an example of a weight goes to one of the folds that probabilities are from, its "
    "copies to several: in these data a class has one example that cannot be left out; decision values have the equality"
    for kind in ("dense", "sparse")
}


@pytest.mark.parametrize(
    ("estimator", "check"), list(sklearn_checks(MarginSVC(probability=True), unmet=BY_FOLDS, raises=ValueError))
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[::3], np.array(["malignant", "benign"])[y[::3]]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X + 0.3 * np.random.default_rng(0).normal(size=X.shape), np.array([3, 5, 9])[y]


@pytest.mark.parametrize("data", ["cancer", "iris"])
@pytest.mark.parametrize("weighted", [False, True])
def test_probabilities_are_those_of_scikit_learn(request, data, weighted, rng):
    X, y = request.getfixturevalue(data)
    w = rng.uniform(0.2, 2.0, len(y)) if weighted else None
    params = {"gamma": 0.1, "C": 2.0, "tol": 1e-10, "random_state": 0}
    machine = MarginSVC(probability=True, **params).fit(X, y, w)
    want = CalibratedClassifierCV(MarginSVC(**params), method="sigmoid", cv=5, ensemble=False).fit(X, y, w)
    P = machine.predict_proba(X)
    assert np.allclose(P, want.predict_proba(X), rtol=1e-4, atol=1e-6)
    assert np.allclose(P.sum(axis=1), 1) and P.shape == (len(X), len(machine.classes_))
    assert np.allclose(machine.predict_log_proba(X), np.log(P))
    plain = MarginSVC(**params).fit(X, y, w)
    assert np.array_equal(machine.decision_function(X), plain.decision_function(X))  # the machine is the same one
    assert (machine.classes_[P.argmax(axis=1)] == machine.predict(X)).mean() > 0.95


def test_probabilities_say_as_much_as_those_of_svc(iris):
    X, y = iris
    train, test = np.arange(0, 150, 2), np.arange(1, 150, 2)
    params = {"gamma": 0.1, "C": 2.0}
    ours = MarginSVC(probability=True, **params).fit(X[train], y[train]).predict_proba(X[test])
    rival = CalibratedClassifierCV(SVC(**params), ensemble=False).fit(X[train], y[train]).predict_proba(X[test])
    assert log_loss(y[test], ours) < log_loss(y[test], rival) + 0.05 < 0.7


def test_kernels_of_every_form(cancer):
    X, y = cancer
    want = MarginSVC(gamma=0.02, probability=True, random_state=0).fit(X, y).predict_proba(X)
    K = rbf_kernel(X, gamma=0.02)
    given = MarginSVC(kernel="precomputed", probability=True, random_state=0).fit(K, y)
    called = []

    def rbf(A, B):
        called.append(A.shape)
        return rbf_kernel(A, B, gamma=0.02)

    function = MarginSVC(kernel=rbf, probability=True, random_state=0).fit(X, y)
    assert len(called) <= 2  # not again for every fold
    sparse = MarginSVC(gamma=0.02, probability=True, random_state=0).fit(sp.csr_array(X), y)
    for found in (given.predict_proba(K), function.predict_proba(X), sparse.predict_proba(X)):
        assert np.allclose(found, want, atol=1e-3)
    scale = MarginSVC(probability=True, class_weight="balanced", random_state=0).fit(X, y)
    assert scale.predict_proba(X).argmax(axis=1).mean() > 0.3


def test_examples_of_weight_zero_are_absent(iris):
    X, y = iris
    w = np.where(np.arange(150) % 7 == 0, 0.0, 1.5)
    params = {"probability": True, "random_state": 0, "gamma": 0.1}
    whole, part = MarginSVC(**params).fit(X, y, w), MarginSVC(**params).fit(X[w > 0], y[w > 0], w[w > 0])
    assert np.allclose(whole.sigmoids_, part.sigmoids_, rtol=1e-3)


def test_only_on_request(iris):
    X, y = iris
    machine = MarginSVC().fit(X, y)
    assert not hasattr(machine, "predict_proba") and not hasattr(machine, "predict_log_proba")
    assert not hasattr(machine, "sigmoids_") and hasattr(MarginSVC(probability=True), "predict_proba")
    with pytest.raises(AttributeError):
        machine.predict_proba(X)
    with pytest.raises(NotFittedError, match="not fitted with probability=True: fit it again"):
        machine.set_params(probability=True).predict_proba(X)
    with pytest.raises(ValueError, match="probability=True needs two examples of every class.*class 9 has 1"):
        MarginSVC(probability=True).fit(X[:101], y[:101])
    few = MarginSVC(probability=True).fit(X[::20], y[::20])  # three folds of three examples
    assert np.isfinite(few.predict_proba(X)).all()


def test_in_searches_and_with_routing(iris):
    X, y = iris
    model = MarginSVC(probability=True, gamma=0.1, random_state=0)
    grid = GridSearchCV(
        model, {"C": [0.5, 2.0]}, scoring="neg_log_loss", cv=StratifiedKFold(3, shuffle=True, random_state=0)
    )
    assert grid.fit(X, y).best_score_ > -0.6
    with config_context(enable_metadata_routing=True):
        routed = clone(model).fit(X, y, np.ones(150))
    assert np.array_equal(routed.sigmoids_, clone(model).fit(X, y).sigmoids_)
    assert cross_val_score(model, X, y, scoring="roc_auc_ovr", cv=3).mean() > 0.9


@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_files_keep_them(request, data, tmp_path):
    X, y = request.getfixturevalue(data)
    machine = MarginSVC(probability=True, break_ties=False, random_state=0).fit(X, y)
    save(tmp_path / "machine.bm", machine)
    again = load(tmp_path / "machine.bm")
    assert np.array_equal(again.predict_proba(X), machine.predict_proba(X))
    assert (
        again.probability is True and again.break_ties is False and np.array_equal(again.sigmoids_, machine.sigmoids_)
    )
    learner = KernelLearner("linear", random_state=0).fit(X, y)
    save(
        tmp_path / "learned.bm", learned := MarginSVC(kernel=learner.kernel, probability=True, random_state=0).fit(X, y)
    )
    assert np.allclose(load(tmp_path / "learned.bm").predict_proba(X[:9]), learned.predict_proba(X[:9]))


def test_ties_are_broken_as_in_svc():
    X, y = make_blobs(300, centers=4, cluster_std=4.0, random_state=0)
    grid = np.random.default_rng(0).uniform(X.min(axis=0), X.max(axis=0), (5000, 2))
    params = {"gamma": 0.1, "C": 1.0}
    found = {}
    for break_ties in (True, False):
        ours = MarginSVC(**params, break_ties=break_ties, tol=1e-10).fit(X, y)
        rival = SVC(**params, break_ties=break_ties, tol=1e-8).fit(X, y)
        found[break_ties] = ours.predict(grid)
        assert np.mean(found[break_ties] == rival.predict(grid)) > 0.999
        assert np.array_equal(ours.decision_function(grid).argmax(axis=1), found[True])
    assert np.mean(found[True] != found[False]) > 0.001  # there are ties
