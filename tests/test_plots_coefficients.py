"""The picture of a margin machine's coefficients: Figure 1 of Sha 2002, and a fitted MarginSVC."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

from bregmat.estimators.svm import MarginSVC
from bregmat.plots.coefficients import OPEN, OUTSIDE, SUPPORT, CoefficientDisplay
from drawing import in_memory, legend_texts, texts

nan, inf = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def agg():
    yield from in_memory()


def heights(lines):
    """The upper ends of stems."""
    return np.array([segment[1, 1] for segment in lines.get_segments()])


def places(lines):
    return np.array([segment[0, 0] for segment in lines.get_segments()])


# ---------------------------------------------------------------------------------------------- iterates
ITERATES = np.array([[1.0, 1, 1, 1], [0.5, 2, 0.1, 1], [0.0, 4, 1e-9, 1]])


def test_one_panel_per_iteration():
    display = CoefficientDisplay.from_iterates(
        [0, 1, 64], ITERATES, train_error=[0.029, 0.02, 0.0], test_error=[0.036, 0.02, 0.01]
    )
    assert [ax.get_title(loc="left") for ax in display.ax_] == ["iteration 0", "iteration 1", "iteration 64"]
    assert display.ax_[0].get_title(loc="right") == "train error 2.9 %, test error 3.6 %"
    assert display.ax_[2].get_title(loc="right") == "train error 0.0 %, test error 1.0 %"
    assert legend_texts(display.ax_[0]) == ["2 support vectors", "2 no support vectors"]
    assert "support vectors first" in display.ax_[2].get_xlabel()
    display.figure_.canvas.draw()


def test_support_vectors_are_on_the_left_in_every_panel():
    display = CoefficientDisplay.from_iterates([0, 1, 64], ITERATES)
    for lines in display.lines_:  # the last iterate decides, the largest first
        assert_array_equal(places(lines[SUPPORT]), [0, 1])
        assert_array_equal(places(lines[OUTSIDE]), [2, 3])
    assert_array_equal(heights(display.lines_[1][SUPPORT]), [2, 1])
    assert_array_equal(heights(display.lines_[1][OUTSIDE]), [0.1, 0.5])
    given = CoefficientDisplay.from_iterates([0, 1, 64], ITERATES, support=[True, False, False, False])
    assert_array_equal(heights(given.lines_[1][SUPPORT]), [0.5])
    assert legend_texts(given.ax_[0]) == ["1 support vectors", "3 no support vectors"]


def test_errors_may_be_left_out():
    only_test = CoefficientDisplay.from_iterates([0, 1, 64], ITERATES, test_error=[0.1, 0.2, 1.0])
    assert [ax.get_title(loc="right") for ax in only_test.ax_] == [f"test error {k}.0 %" for k in (10, 20, 100)]
    assert CoefficientDisplay.from_iterates([0, 1, 64], ITERATES).ax_[0].get_title(loc="right") == ""


@pytest.mark.parametrize(
    ("iterations", "coefficients", "more", "message"),
    [
        ([], np.ones((0, 3)), {}, "iterations must be 1-dimensional and not empty"),
        ([0, 1], np.ones((3, 4)), {}, r"coefficients must have shape \(2, n\).*got \(3, 4\)"),
        ([0], np.ones(4), {}, r"coefficients must have shape \(1, n\).*got \(4,\)"),
        ([0], np.ones((1, 0)), {}, r"coefficients must have shape \(1, n\)"),
        ([0], [[1.0, -1.0]], {}, "coefficients must be nonnegative"),
        ([0], [[1.0, nan]], {}, "coefficients must be nonnegative"),
        ([0], [[1.0, 1.0]], {"support": [True]}, r"support must have shape \(2,\)"),
        ([0], [[1.0, 1.0]], {"train_error": [0.1, 0.2]}, "train_error must be 1 shares"),
        ([0], [[1.0, 1.0]], {"test_error": [3.6]}, "test_error must be 1 shares from 0 to 1"),
    ],
)
def test_bad_iterates(iterations, coefficients, more, message):
    with pytest.raises(ValueError, match=message):
        CoefficientDisplay.from_iterates(iterations, coefficients, **more)


def test_nothing_but_zeros():
    display = CoefficientDisplay.from_iterates([0], [[0.0, 0.0]])
    assert_array_equal(heights(display.lines_[0][SUPPORT]), [0, 0])
    display.figure_.canvas.draw()


def test_the_first_iterations_of_the_paper():
    """Non-support coefficients fall at once (the caption of Figure 1): here to a tenth of their sum in four steps."""
    X, y = load_breast_cancer(return_X_y=True)
    X, signs = X / X.std(axis=0), np.where(y == 1, 1.0, -1.0)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 18)
    A = signs[:, None] * signs * K
    positive, negative = np.maximum(A, 0), np.maximum(-A, 0)
    alpha, iterates = np.ones(len(X)), []
    for step in range(65):
        if step in (0, 1, 2, 4, 8, 16, 32, 64):
            iterates.append(alpha)
        p, q = positive @ alpha, negative @ alpha
        alpha = alpha * (1 + np.sqrt(1 + 4 * p * q)) / (2 * p)  # Sha 2002, eq. 7
    display = CoefficientDisplay.from_iterates([0, 1, 2, 4, 8, 16, 32, 64], iterates)
    outside = [heights(lines[OUTSIDE]).sum() for lines in display.lines_]
    assert len(display.ax_) == 8 and outside[3] < 0.1 * outside[0]
    display.figure_.canvas.draw()


# ---------------------------------------------------------------------------------------------- a fitted machine
@pytest.fixture(scope="module")
def machine():
    X, y = load_breast_cancer(return_X_y=True)
    X = X / X.std(axis=0)
    return MarginSVC(tol=1e-10, random_state=0).fit(X[::2], y[::2]), X[1::2], y[1::2]


def test_a_fitted_machine(machine):
    model, X, y = machine
    display = CoefficientDisplay.from_estimator(model, X, y)
    (ax,), (lines,) = display.ax_, display.lines_
    alpha, kind = model.result_.alpha, model.certified_
    assert_array_equal(heights(lines[SUPPORT]), np.sort(alpha[kind == 1])[::-1])
    assert_array_equal(heights(lines[OPEN]), np.sort(alpha[kind == 0])[::-1])
    assert len(places(lines[OUTSIDE])) == (kind == -1).sum() and heights(lines[OUTSIDE]).max() == 0
    error = 100 * (1 - model.score(X, y))
    counts = f"{(kind == 1).sum()} support, {(kind == -1).sum()} not, {(kind == 0).sum()} open"
    assert ax.get_title(loc="right") == f"{counts}, error {error:.1f} %"
    assert ax.get_title(loc="left") == "0 and 1" and texts(ax) == ["C = 1"]
    assert legend_texts(ax) == ["support vector (proven)", "no support vector (proven)", "not proven"]
    display.figure_.canvas.draw()


def test_what_is_not_proven_stands_between(machine):
    (lines,) = CoefficientDisplay.from_estimator(machine[0]).lines_
    assert places(lines[SUPPORT]).max() < places(lines[OPEN]).min() <= places(lines[OPEN]).max()
    assert places(lines[OPEN]).max() < places(lines[OUTSIDE]).min()


def test_all_is_proven_or_nothing(machine):
    model = copy.copy(machine[0])
    model.certified_ = np.where(model.certified_ == 0, -1, model.certified_)
    assert set(CoefficientDisplay.from_estimator(model).lines_[0]) == {SUPPORT, OUTSIDE}
    model.certified_ = np.zeros_like(model.certified_)
    display = CoefficientDisplay.from_estimator(model)
    assert set(display.lines_[0]) == {OPEN} and legend_texts(display.ax_[0]) == ["not proven"]


@pytest.mark.parametrize("params", [{"C": inf, "gamma": 5.0}, {"squared_hinge": True}])
def test_no_line_where_there_is_no_bound(machine, params):
    _, X, y = machine
    assert texts(CoefficientDisplay.from_estimator(MarginSVC(**params).fit(X, y)).ax_[0]) == []


@pytest.mark.parametrize(
    ("params", "weights", "label"),
    [
        ({"class_weight": {0: 0.5, 1: 0.1}}, None, []),
        ({"class_weight": {0: 2.0, 1: 2.0}}, None, ["C × weight = 2"]),
        ({}, [0.25, 0.5], []),
        ({}, [1.0, 1.0], ["C = 1"]),
    ],
)
def test_the_line_is_where_coefficients_end(machine, params, weights, label):
    _, X, y = machine
    sample_weight = None if weights is None else np.resize(weights, len(y))
    model = MarginSVC(**params).fit(X, y, sample_weight=sample_weight)
    display = CoefficientDisplay.from_estimator(model)
    assert texts(display.ax_[0]) == label
    assert display.bound is None or heights(display.lines_[0][SUPPORT]).max() == pytest.approx(display.bound)


def test_what_cannot_be_drawn(machine):
    model, X, y = machine
    with pytest.raises(NotFittedError):
        CoefficientDisplay.from_estimator(MarginSVC())
    with pytest.raises(TypeError, match="estimator must be a MarginSVC; got SVC"):
        CoefficientDisplay.from_estimator(SVC().fit(X, y))
    with pytest.raises(ValueError, match="y must be given with X"):
        CoefficientDisplay.from_estimator(model, X)


def test_one_panel_per_pair_of_classes():
    X, y = load_iris(return_X_y=True)
    model = MarginSVC().fit(X, load_iris().target_names[y])
    display = CoefficientDisplay.from_estimator(model)
    assert [ax.get_title(loc="left") for ax in display.ax_] == [
        "setosa and versicolor",
        "setosa and virginica",
        "versicolor and virginica",
    ]
    display.figure_.canvas.draw()
    chosen = CoefficientDisplay.from_estimator(model, X, load_iris().target_names[y], pairs=[2])
    assert chosen.ax_[0].get_title(loc="left") == "versicolor and virginica"
    assert chosen.ax_[0].get_title(loc="right").endswith("error 2.7 %")
    with pytest.raises(ValueError, match=r"13 pairs of classes .* choose up to 12"):
        CoefficientDisplay.from_estimator(model, pairs=[0] * 13)


# ---------------------------------------------------------------------------------------------- axes
def test_on_axes_of_ones_own():
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(3)
    assert list(CoefficientDisplay.from_iterates([0, 1, 64], ITERATES, ax=axes).ax_) == list(axes)
    _, ax = plt.subplots()
    divided = CoefficientDisplay.from_iterates([0, 1, 64], ITERATES, ax=ax)
    assert len(divided.ax_) == 3 and divided.figure_ is divided.ax_[0].figure
    with pytest.raises(ValueError, match="ax must be one axes or 3 axes; got 2"):
        CoefficientDisplay.from_iterates([0, 1, 64], ITERATES, ax=axes[:2])
    again = divided.plot()
    assert again is divided and again.figure_ is not ax.figure
