"""MarginSVC as a caller meets it: limits, files, wrong arguments."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from bregmat import ExitReason, MarginSVC
from bregmat.io import load, save
from bregmat.margin import ActiveSet
from bregmat.quadratic import MultiplicativeUpdates


def test_constant_data_have_no_coefficient_of_1e31():
    machine = MarginSVC(kernel="poly").fit(np.ones((6, 3)), [0, 1] * 3)
    assert machine.gap_ <= 1e-6 and machine._fit_base.params["gamma"] == 1.0


# ---------------------------------------------------------------------- limits
@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_one_warning_when_stopped_early(request, data):
    X, y = request.getfixturevalue(data)
    machine = MarginSVC(solver="multiplicative", fit_intercept=False, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="stopped by MAX_ITER after 2 iterations") as caught:
        machine.fit(X, y)
    assert len(caught) == 1 and machine.gap_ > 1e-6 and machine.score(X, y) > 0.6
    with pytest.warns(ConvergenceWarning, match="stopped by TIME") as caught:
        machine.set_params(max_iter=None, max_seconds=1e-9).fit(X, y)
    assert len(caught) == 1


def test_a_warning_that_is_an_error_leaves_nothing_half_fitted(iris):
    machine = MarginSVC(solver="multiplicative", max_iter=2)
    with pytest.raises(ConvergenceWarning):  # the project's tests turn warnings into errors
        machine.fit(*iris)
    assert not [name for name in vars(machine) if name.endswith("_") or name.startswith("_fit")]


@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_callback_stops_all_pairs(request, data, capsys):
    X, y = request.getfixturevalue(data)
    records = []

    def stop(record):
        records.append(record)
        return True

    machine = MarginSVC(solver="multiplicative", fit_intercept=False, tol=1e-12, callback=stop, verbose=2).fit(X, y)
    results = machine.result_ if isinstance(machine.result_, list) else [machine.result_]
    assert all(result.exit_reason is ExitReason.INTERRUPTED for result in results)
    assert len(records) == 1 and records[0].iteration >= 0
    assert capsys.readouterr().out.startswith("[bregmat] iteration")


def test_interrupted_by_hand(iris):
    X, y = iris

    def interrupt(record):
        raise KeyboardInterrupt

    machine = MarginSVC(solver="multiplicative", fit_intercept=False, tol=1e-12, callback=interrupt)
    with (
        pytest.warns(RuntimeWarning, match="MarginSVC was interrupted with 0 of 3 machines trained"),
        pytest.raises(KeyboardInterrupt),
    ):
        machine.fit(X, y)
    assert len(machine.predict(X)) == len(y)
    assert all(result.exit_reason is ExitReason.INTERRUPTED for result in machine.result_)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
def test_interrupted_before_there_is_a_support_vector(iris, kernel, form):
    X, y = (part[:100] for part in iris)
    X = rbf_kernel(X) if kernel == "precomputed" else form(X)

    def interrupt(record):
        raise KeyboardInterrupt

    machine = MarginSVC(kernel=kernel, callback=interrupt)
    with pytest.warns(RuntimeWarning, match="MarginSVC was interrupted"), pytest.raises(KeyboardInterrupt):
        machine.fit(X, y)
    assert len(machine.support_) == 0
    assert np.array_equal(machine.decision_function(X), np.broadcast_to(machine.intercept_, 100))
    assert kernel != "linear" or not np.any(machine.coef_)


# ---------------------------------------------------------------------- files
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"kernel": "linear", "class_weight": "balanced"},
        {"kernel": "precomputed"},
        {"C": 5.0, "gamma": 0.5, "class_weight": {"setosa": 2.0, "versicolor": 1.0}},
        {"solver": ActiveSet(violation_tol=1e-3, cache_mb=10.0)},
        {"solver": MultiplicativeUpdates(clamp=1e-12), "fit_intercept": False, "tol": 0.5},
        {"solver": "multiplicative", "C": np.inf, "gamma": 5.0, "fit_intercept": False, "tol": 0.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_saved_and_loaded(iris, tmp_path, params, n_classes, form):
    X, y = (part[: 50 * n_classes] for part in iris)
    precomputed = params.get("kernel") == "precomputed"
    X = rbf_kernel(X) if precomputed else form(X)
    machine = MarginSVC(**params, random_state=0).fit(X, y)
    expected = machine.decision_function(X)
    machine.set_params(gamma=9.0)  # of the fit counts, not this one
    save(tmp_path / "machine.bm", machine)
    for again in (load(tmp_path / "machine.bm"), pickle.loads(pickle.dumps(machine))):
        assert np.array_equal(again.decision_function(X), expected)
        assert again.get_params() == machine.get_params() and np.array_equal(again.predict(X), machine.predict(X))
        assert again.gap_ == machine.gap_
        assert {name for name in vars(again) if name.endswith("_")} == {n for n in vars(machine) if n.endswith("_")}


def test_labels_that_are_objects_come_back_as_such(iris, tmp_path):
    X, y = iris[0], np.array(["no", "yes"], dtype=object)[(iris[1] == "setosa").astype(int)]
    save(tmp_path / "machine.bm", MarginSVC().fit(X, y))
    again = load(tmp_path / "machine.bm")
    assert again.classes_.dtype == object and again.classes_.tolist() == ["no", "yes"]
    assert again.predict(X).dtype == object and (again.predict(X) == y).all()


def test_functions_are_not_saved(iris, tmp_path):
    with pytest.raises(TypeError, match="kernel is a function, which cannot be saved"):
        save(tmp_path / "f.bm", MarginSVC(kernel=rbf_kernel).fit(*iris))


# ---------------------------------------------------------------------- bad input
EYE, Y = np.eye(4), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("params", "X", "y", "error", "message"),
    [
        ({"C": 0.0}, EYE, Y, ValueError, "C must be positive; got 0.0"),
        ({"C": -1}, EYE, Y, ValueError, "C must be positive; got -1"),
        ({"C": np.nan}, EYE, Y, ValueError, "C must be positive; got nan"),
        ({"C": "1"}, EYE, Y, TypeError, "C must be a number; got '1'"),
        ({"tol": 0.0}, EYE, Y, ValueError, "tol must be positive and finite; got 0.0"),
        ({"tol": 2.0}, EYE, Y, ValueError, "tol is a relative duality gap and must be below 1; got 2.0"),
        ({"solver": "smo"}, EYE, Y, ValueError, "solver must be one of 'active_set', 'multiplicative'.*got 'smo'"),
        ({"solver": None}, EYE, Y, ValueError, "solver must be one of .*got None"),
        ({"kernel": "gauss"}, EYE, Y, ValueError, "kernel must be .*got 'gauss'"),
        ({"kernel": "additive_chi2"}, EYE, Y, ValueError, "additive_chi2' is not positive semidefinite; use 'chi2'"),
        ({"kernel": None}, EYE, Y, TypeError, "kernel must be .*got None"),
        ({"gamma": 0.0}, EYE, Y, ValueError, "gamma must be positive and finite; got 0.0"),
        ({"gamma": "large"}, EYE, Y, ValueError, "gamma must be .*got 'large'"),
        ({"gamma": None}, EYE, Y, TypeError, "gamma must be a number; got None"),
        ({"kernel_params": {"gamma": 1.0}}, EYE, Y, ValueError, "kernel_params are for a kernel that is a function"),
        ({"fit_intercept": 1}, EYE, Y, TypeError, "fit_intercept must be True or False; got 1"),
        ({"squared_hinge": "no"}, EYE, Y, TypeError, "squared_hinge must be True or False; got 'no'"),
        ({"max_iter": 0}, EYE, Y, ValueError, "max_iter must be at least 1; got 0"),
        ({"max_iter": -1}, EYE, Y, ValueError, "max_iter must be at least 1; got -1"),
        ({"max_seconds": 0.0}, EYE, Y, ValueError, "max_seconds must be positive; got 0.0"),
        ({"callback": 3}, EYE, Y, TypeError, "callback must be callable; got 3"),
        ({"random_state": -1}, EYE, Y, ValueError, "random_state must be at least 0; got -1"),
        ({"decision_function_shape": "all"}, EYE, Y, ValueError, "decision_function_shape must be .*got 'all'"),
        ({"class_weight": {0: -1.0}}, EYE, Y, ValueError, r"class_weight\[0\] must be positive and finite; got -1.0"),
        ({"class_weight": {0: 0.0}}, EYE, Y, ValueError, r"class_weight\[0\] must be positive and finite; got 0.0"),
        ({"class_weight": "heavy"}, EYE, Y, ValueError, "class_weight"),
        ({}, EYE, np.zeros(4, int), ValueError, "y must have at least two classes; got 1 class"),
        ({}, EYE, Y[:3], ValueError, "inconsistent numbers of samples"),
        ({}, EYE, [0.5, 1.5, 2.5, 0.1], ValueError, "Unknown label type"),
        ({}, EYE, None, ValueError, "requires y"),
        ({}, np.full((4, 2), np.nan), Y, ValueError, "NaN"),
        ({"kernel": "chi2"}, -EYE, Y, ValueError, "negative"),
        ({"kernel": "precomputed"}, np.ones((4, 3)), Y, ValueError, r"X must be square.*\(4, 3\)"),
        ({"kernel": "precomputed"}, np.eye(4, k=1), Y, ValueError, "must be symmetric"),
        ({"kernel": "precomputed"}, np.full((4, 4), np.nan), Y, ValueError, "NaN"),
    ],
)
def test_bad_input(params, X, y, error, message):
    with pytest.raises(error, match=message):
        MarginSVC(**params).fit(X, y)


@pytest.mark.parametrize("weights", [[-1.0, 1, 1, 1], [0.0] * 4, [0.0, 1, 0, 1], [1.0] * 3, [np.nan, 1, 1, 1], "heavy"])
def test_bad_weights(weights):
    with pytest.raises((TypeError, ValueError), match=r"sample_weight|Negative values|Sample weights|inconsistent"):
        MarginSVC().fit(EYE, Y, sample_weight=weights)


def test_labels_of_different_lengths_are_named():
    with pytest.raises(
        TypeError, match=r"y must have rows of one length; got shape \(1,\) in row 0 and \(2,\) in row 1"
    ):
        MarginSVC().fit(EYE, [["a"], ["b", "c"], ["a"], ["b"]])


def test_functions_that_are_no_kernels(cancer):
    X, y = cancer
    with pytest.raises(ValueError, match="kernel <lambda> has NaN or infinite values in row"):
        MarginSVC(kernel=lambda A, B: np.full((len(A), len(B)), np.nan)).fit(X, y)
    with pytest.raises(ValueError, match=r"kernel must return an array of shape \(285, 285\)"):
        MarginSVC(kernel=lambda A, B: A).fit(X, y)
    with pytest.raises(ValueError, match="kernel <lambda> must be symmetric; the largest asymmetry"):
        MarginSVC(kernel=lambda A, B: rbf_kernel(A, B) * (1 + 0.01 * A[:, :1])).fit(X, y)
    with pytest.raises(ValueError, match=r"kernel <lambda> must be positive semidefinite; got K\["):
        MarginSVC(kernel=lambda A, B: -A @ B.T).fit(X, y)


def test_bad_points_to_predict(cancer):
    X, y = cancer
    K = rbf_kernel(X)
    machine = MarginSVC(kernel="precomputed").fit(K, y)
    with pytest.raises(ValueError, match="has 284 features, but MarginSVC is expecting 285"):
        machine.predict(K[:, 1:])
    with pytest.raises(ValueError, match="NaN"):
        MarginSVC().fit(X, y).predict(X * np.nan)


@pytest.mark.parametrize("bad", [{"C": -1.0}, {"kernel": "gauss"}])
def test_nothing_of_an_earlier_fit_stays(iris, bad):
    machine = MarginSVC().fit(*iris)
    with pytest.raises(ValueError):
        machine.set_params(**bad).fit(*iris)
    assert not [name for name in vars(machine) if name.endswith("_") or name.startswith("_fit")]
