"""MarginSVC: scikit-learn's own checks, agreement with its SVC, and what users do with it."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

from bregmat import KernelLearner, MarginSVC, SolverError, Status, verify
from bregmat.io import load, save
from bregmat.kernels import KernelFunction
from estimator_suite import run_array_api_check, sklearn_checks

AGREE = 1e-3  # of decision values in units of the margin: with a relative gap of 1e-10 they differ by sqrt(2 gap P K_ii) at most
EXACT = {"tol": 1e-10, "random_state": 0}


@pytest.mark.parametrize(("estimator", "check"), list(sklearn_checks(MarginSVC())))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_scikit_learn_array_api_check():
    run_array_api_check(MarginSVC)


def rivals(params, **more):
    """The same machine twice, SVC's to its own high accuracy."""
    return MarginSVC(**params, **more, **EXACT), SVC(**params, tol=1e-9, break_ties=True)


# ---------------------------------------------------------------------- the same machine as SVC
@pytest.mark.parametrize("data", ["cancer", "iris"])
@pytest.mark.parametrize(
    "params",
    [
        {"kernel": "rbf"},
        {"kernel": "rbf", "gamma": "auto", "C": 30.0},
        {"kernel": "rbf", "gamma": 0.3, "class_weight": "balanced"},
        {"kernel": "linear", "C": 1.0},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
        {"kernel": rbf_kernel},
    ],
    ids=lambda params: str({name: getattr(value, "__name__", value) for name, value in params.items()}),
)
def test_agrees_with_svc(request, data, params):
    X, y = request.getfixturevalue(data)
    machine, svc = (model.fit(X, y) for model in rivals(params))
    new = X[::3] * 1.1 + 0.05
    assert np.array_equal(machine.predict(new), svc.predict(new))
    assert machine.result_ is not None and 0 <= machine.gap_ <= 1e-10 * 1.001
    for shape in ("ovr", "ovo"):
        machine.decision_function_shape = svc.decision_function_shape = shape
        svc.break_ties = False
        assert np.abs(machine.decision_function(new) - svc.decision_function(new)).max() < AGREE
    assert machine.dual_coef_.shape == (len(svc.classes_) - 1, len(machine.support_))
    assert machine.n_support_.sum() == len(machine.support_) and np.all(machine.n_iter_ >= 1)
    # one row per example and other class; where an example supports for one machine only, both have it
    table = np.zeros((2, len(svc.classes_) - 1, len(X)))
    for k, model in enumerate((machine, svc)):
        table[k][:, model.support_] = model.dual_coef_
    assert np.abs(table[0] - table[1]).max() < 1e-2 * np.abs(table[1]).max()
    assert np.array_equal(machine.class_weight_, svc.class_weight_) and machine.shape_fit_ == svc.shape_fit_
    if params["kernel"] == "linear":
        assert np.abs(machine.coef_ - svc.coef_).max() < AGREE
    else:
        assert not hasattr(machine, "coef_")


@pytest.mark.parametrize("name", sorted(set(PAIRWISE_KERNEL_FUNCTIONS) - {"sigmoid", "additive_chi2"}))
def test_every_positive_semidefinite_kernel(cancer, name):
    X, y = cancer
    X = MinMaxScaler().fit_transform(X)
    machine = MarginSVC(kernel=name, gamma=0.5, coef0=1.0, **EXACT).fit(X, y)
    K = pairwise_kernels(X, metric=name, filter_params=True, gamma=0.5, degree=3, coef0=1.0)
    svc = SVC(kernel="precomputed", tol=1e-9).fit(K, y)
    assert np.abs(machine.decision_function(X) - svc.decision_function(K)).max() < AGREE


@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_weights(request, rng, data):
    X, y = request.getfixturevalue(data)
    weights = rng.integers(0, 4, len(y)) * 0.5
    machine, svc = (model.fit(X, y, sample_weight=weights) for model in rivals({"C": 2.0, "gamma": 0.1}))
    assert np.abs(machine.decision_function(X) - svc.decision_function(X)).max() < AGREE
    assert not np.isin(np.flatnonzero(weights == 0), machine.support_).any()


@pytest.mark.parametrize(
    "more", [{"class_weight": "balanced"}, {"C": np.inf, "fit_intercept": False, "gamma": 5.0}, {"squared_hinge": True}]
)
def test_weight_two_is_the_point_twice(iris, rng, more):
    """Weights 0, 1, 2 are the points repeated; under a hard margin all that matters is whether they are 0."""
    X, y = iris
    weights = rng.integers(0, 3, len(y))
    rows = np.arange(len(y)).repeat(weights)
    one = MarginSVC(**more, **EXACT).fit(X, y, sample_weight=weights)
    two = MarginSVC(**more, **EXACT).fit(X[rows], y[rows])
    assert np.abs(one.decision_function(X) - two.decision_function(X)).max() < AGREE


def test_pairs_are_scikit_learns(iris):
    X, y = iris
    machine = MarginSVC(gamma=0.3, **EXACT).fit(X, y)
    pairs = OneVsOneClassifier(MarginSVC(gamma=0.3, **EXACT)).fit(X, y)
    assert np.array_equal(machine.predict(X), pairs.predict(X))
    # the same arithmetic, reordered
    assert np.abs(machine.decision_function(X) - pairs.decision_function(X)).max() < 1e-9
    assert len(machine.result_) == 3 and machine.gap_ == max(r.gap for r in machine.result_)
    for result, inner in zip(machine.result_, pairs.estimators_):
        assert np.isclose(result.dual_bound, inner.result_.dual_bound, rtol=1e-9)


@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_precomputed_and_functions(request, data):
    X, y = request.getfixturevalue(data)
    new = X[1::4] * 0.9
    by_name = MarginSVC(gamma=0.2, **EXACT).fit(X, y)
    expected = by_name.decision_function(new)
    precomputed = MarginSVC(kernel="precomputed", **EXACT).fit(rbf_kernel(X, gamma=0.2), y)
    assert np.abs(precomputed.decision_function(rbf_kernel(new, X, gamma=0.2)) - expected).max() < AGREE
    assert not hasattr(precomputed, "support_vectors_")
    function = MarginSVC(kernel=rbf_kernel, kernel_params={"gamma": 0.2}, **EXACT).fit(X, y)
    assert np.abs(function.decision_function(new) - expected).max() < AGREE
    sparse = MarginSVC(gamma=0.2, **EXACT).fit(sp.csr_array(X), y)
    assert np.abs(sparse.decision_function(sp.csr_array(new)) - expected).max() < AGREE
    assert sp.issparse(sparse.support_vectors_)


def test_coefficients_of_sparse_data(cancer):
    X, y = cancer
    dense, sparse = (MarginSVC(kernel="linear", C=0.1, **EXACT).fit(form(X), y) for form in (np.asarray, sp.csr_array))
    assert np.abs(dense.coef_ - sparse.coef_).max() < AGREE
    assert np.abs(X @ dense.coef_[0] + dense.intercept_ - dense.decision_function(X)).max() < 1e-9


def test_prediction_block_by_block(iris, monkeypatch):
    X, y = iris
    machine = MarginSVC(random_state=0).fit(X, y)
    whole = machine.decision_function(X)
    monkeypatch.setattr("bregmat.estimators.svm.BLOCK", 1000)
    assert np.abs(machine.decision_function(X) - whole).max() < 1e-12


# ---------------------------------------------------------------------- the paper's machine
@pytest.mark.parametrize("C", [1.0, np.inf])
def test_multiplicative_updates_are_the_same_machine(iris, C):
    X, y = iris
    settings = {"gamma": 5.0, "C": C, "fit_intercept": False}
    exact = MarginSVC(**settings, **EXACT).fit(X, y)
    slow = MarginSVC(**settings, solver="multiplicative", tol=1e-4, max_iter=20_000).fit(X, y)
    assert slow.gap_ <= 1e-4
    # |f - f*|^2 <= 2 gap P, and every value of f moves by |f - f*| at most (K_ii = 1)
    room = [np.sqrt(2 * 1e-4 * result.objective) for result in slow.result_]
    slow.decision_function_shape = exact.decision_function_shape = "ovo"
    assert (np.abs(slow.decision_function(X) - exact.decision_function(X)).max(axis=0) <= room).all()
    assert (slow.intercept_ == 0).all()


def test_squared_hinge_is_a_ridge(cancer):
    """C/2 max(0, 1 - y f)^2 is the hard margin on K + I/C."""
    X, y = cancer
    K = rbf_kernel(X, gamma=0.1)
    soft = MarginSVC(kernel="precomputed", C=3.0, squared_hinge=True, **EXACT).fit(K, y)
    hard = MarginSVC(kernel="precomputed", C=np.inf, **EXACT).fit(K + np.eye(len(K)) / 3.0, y)
    assert np.abs(soft.result_.alpha - hard.result_.alpha).max() < 1e-3 * hard.result_.alpha.max()
    infinite = MarginSVC(gamma=5.0, C=np.inf, squared_hinge=True, **EXACT).fit(X, y)
    plain = MarginSVC(gamma=5.0, C=np.inf, **EXACT).fit(X, y)
    assert np.abs(infinite.decision_function(X) - plain.decision_function(X)).max() < AGREE


@pytest.mark.parametrize(("squared", "loss", "share"), [(False, "hinge", 1.0), (True, "squared_hinge", 0.5)])
def test_without_intercept_agrees_with_linear_svc(cancer, squared, loss, share):
    X, y = cancer
    machine = MarginSVC(kernel="linear", C=0.2, fit_intercept=False, squared_hinge=squared, **EXACT).fit(X, y)
    rival = LinearSVC(loss=loss, C=0.2 * share, fit_intercept=False, tol=1e-9, max_iter=1_000_000, random_state=0)
    assert np.abs(machine.coef_ - rival.fit(X, y).coef_).max() < AGREE
    assert machine.intercept_ == 0.0


def test_hard_margin(cancer):
    X, y = cancer
    machine = MarginSVC(gamma=1.0, C=np.inf, **EXACT).fit(X, y)
    margins = np.where(y == 1, 1, -1) * machine.decision_function(X)
    assert margins.min() > 1 - AGREE and np.abs(margins[machine.support_] - 1).max() < AGREE


def test_hard_margin_of_what_cannot_be_separated(iris):
    X, y = iris
    machine = MarginSVC(kernel="linear").fit(X, y)
    machine.set_params(C=np.inf)
    with pytest.raises(SolverError, match="use a finite C") as error:
        machine.fit(X, y)
    assert error.value.__notes__ == ["Classes versicolor and virginica."]
    assert error.value.result.status is Status.INFEASIBLE
    assert not [name for name in vars(machine) if name.endswith("_") or name.startswith("_fit")]


# ---------------------------------------------------------------------- learned kernels
def test_learned_kernel(iris, tmp_path):
    X, y = iris
    learner = KernelLearner("rbf", gamma=0.1, random_state=0).fit(X, y)
    machine = MarginSVC(kernel=learner.kernel, **EXACT).fit(X, y)
    by_values = MarginSVC(kernel="precomputed", **EXACT).fit(learner.kernel_, y)
    new = X[::5] + 0.1
    expected = by_values.decision_function(learner.kernel(new, X))
    assert np.abs(machine.decision_function(new) - expected).max() < AGREE
    assert clone(machine).fit(X, y).score(X, y) == machine.score(X, y) > 0.9
    search = GridSearchCV(machine, {"C": [0.1, 10.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    save(tmp_path / "machine.bm", machine)
    for again in (load(tmp_path / "machine.bm"), pickle.loads(pickle.dumps(machine))):
        assert np.allclose(again.decision_function(new), machine.decision_function(new), rtol=1e-12, atol=1e-12)
        assert isinstance(again.kernel.__self__, KernelLearner) and clone(again).fit(X, y).score(X, y) > 0.9
    machine.set_params(kernel=rbf_kernel)
    with pytest.raises(TypeError, match="kernel is a function, which cannot be saved"):
        save(tmp_path / "machine.bm", machine)


# ---------------------------------------------------------------------- with scikit-learn
def test_search_pipeline_calibration(cancer):
    X, y = cancer
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MarginSVC(random_state=0)),
        {"marginsvc__C": [0.1, 1.0, 10.0], "marginsvc__gamma": ["scale", 0.1]},
        cv=StratifiedKFold(3),
    ).fit(X, y)
    assert search.best_score_ > 0.95
    calibrated = CalibratedClassifierCV(MarginSVC(random_state=0), ensemble=False, cv=3).fit(X, y)
    chance = calibrated.predict_proba(X)
    assert chance.shape == (len(X), 2) and (chance.argmax(axis=1) == y).mean() > 0.95
    K = rbf_kernel(X, gamma=0.03)
    folds = cross_val_score(MarginSVC(kernel="precomputed", random_state=0), K, y, cv=StratifiedKFold(3))
    # the pairwise tag: both rows and columns of K are cut
    assert np.array_equal(folds, cross_val_score(MarginSVC(gamma=0.03, random_state=0), X, y, cv=StratifiedKFold(3)))


def test_names_of_columns(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    machine = MarginSVC().fit(frame, pd.Series(y))
    assert list(machine.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        machine.predict(frame[list("dcba")])
    assert "MarginSVC" in machine._repr_html_()


def test_not_fitted():
    with pytest.raises(NotFittedError):
        MarginSVC().predict(np.eye(3))
    with pytest.raises(NotFittedError):
        _ = MarginSVC(kernel="linear").coef_


@pytest.mark.parametrize("seed", [0, None, "state", "generator"])
def test_random_state(cancer, seed):
    X, y = cancer
    made = {"state": np.random.RandomState(3), "generator": np.random.default_rng(3)}.get(seed, seed)
    machine = MarginSVC(random_state=made, tol=1e-10).fit(X, y)
    other = MarginSVC(random_state=1, tol=1e-10).fit(X, y)
    assert np.abs(machine.decision_function(X) - other.decision_function(X)).max() < AGREE


def test_many_classes():
    X, y = make_classification(
        600, 12, n_informative=8, n_classes=8, n_clusters_per_class=1, class_sep=2.0, random_state=0
    )
    machine, svc = (model.fit(X, y) for model in rivals({"C": 3.0}))
    assert np.abs(machine.decision_function(X) - svc.decision_function(X)).max() < AGREE
    assert np.array_equal(machine.predict(X), svc.predict(X)) and machine.intercept_.shape == (28,)


# ---------------------------------------------------------------- coefficients of the multiplicative updates


@pytest.mark.not_verified("counts the values of the kernel, all of which `verify` computes")
def test_classes_share_the_values_of_the_kernel(rng, monkeypatch):
    """Every value is computed once, although each class takes part in several machines; results keep the order of X."""
    y = rng.permutation(np.repeat(np.arange(5), 30))
    X = rng.standard_normal((150, 6)) + y[:, None] * rng.standard_normal(6)
    computed, call = [], KernelFunction.__call__

    def counted(function, A, B=None, **settings):
        computed.append(len(A) * len(A if B is None else B))
        return call(function, A, B, **settings)

    monkeypatch.setattr(KernelFunction, "__call__", counted)
    machine = MarginSVC(kernel="poly").fit(X, y)
    assert sum(computed) == (5 + 10) * 30**2
    pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    for (i, j), result in zip(pairs, machine.result_, strict=True):
        rows = np.flatnonzero((y == i) | (y == j))
        alone = SVC(kernel="poly", gamma=1 / (6 * X.var()), tol=1e-8).fit(X[rows], y[rows])
        # equal but for the intercept, which is not unique if no weight is strictly between its bounds
        assert np.ptp(result.decision - alone.decision_function(X[rows])) < AGREE
        assert verify(result).holds


def test_a_conflict_of_two_classes_names_samples_in_the_order_of_x(rng):
    X, y = rng.normal(size=(60, 2)), rng.integers(3, size=60)
    with pytest.raises(SolverError, match="cannot be separated") as error:
        MarginSVC(kernel="linear", C=np.inf).fit(X, y)
    result, rows = error.value.result, np.flatnonzero(y < 2)
    assert result.conflict.tolist() == np.flatnonzero(result.alpha).tolist()
    # sum_i y_i alpha_i (x_i, 1) = 0: the hulls of the two classes share a point
    signed = np.where(y[rows] == 1, 1.0, -1.0) * result.alpha
    np.testing.assert_allclose(signed @ np.column_stack([X[rows], np.ones(len(rows))]), 0.0, atol=1e-12)
