"""The displays: what stands in the pictures, at the sizes and in the corner cases where pictures go wrong."""

import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score

from bregmat.constraints import Constraints
from bregmat.estimators import MetricLearner
from bregmat.nearest import nearest_kernel, nearest_metric
from bregmat.plots import (
    ConvergenceDisplay,
    EmbeddingDisplay,
    PairDistanceDisplay,
    SpectrumDisplay,
    ViolationDisplay,
)
from bregmat.result import Record

nan, inf = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def agg():
    """Draw into memory, and leave no figure open."""
    mpl.use("Agg")
    yield
    plt.close("all")


def pairs_of(rng, n, c, at_most=1.0, at_least=4.0):
    """c pairs among n points: even rows similar, odd rows dissimilar."""
    i = rng.integers(n, size=c)
    j = (i + rng.integers(1, n, size=c)) % n
    even = np.arange(c) % 2 == 0
    return Constraints.sq_distance(i, j, np.where(even, at_most, at_least), np.where(even, "<=", ">="))


def texts(axes):
    return [t.get_text() for t in axes.texts]


def legend_texts(axes):
    return [t.get_text() for t in axes.get_legend().get_texts()]


# ---------------------------------------------------------------------------------------------- embedding
def test_embedding_shows_the_principal_components(rng):
    X = rng.normal(size=(40, 5)) * [5, 3, 1, 1, 1]
    y = np.repeat(["a", "b"], 20)
    display = EmbeddingDisplay.from_data(X, X[:, :3], y)
    s = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    assert_allclose(np.linalg.norm(display.before, axis=0), s[:2])
    assert_allclose(display.share_before, s[:2] ** 2 / (s**2).sum())
    for axes, points in zip(display.ax_, (display.before, display.after), strict=True):
        first, second = axes.collections
        assert_allclose(first.get_offsets(), points[y == "a"])
        assert_allclose(second.get_offsets(), points[y == "b"])
        assert axes.get_aspect() == 1.0
    assert [axes.get_title() for axes in display.ax_] == ["before", "after"]
    assert display.ax_[0].get_xlabel() == f"1st component ({display.share_before[0]:.0%} of variance)"
    assert legend_texts(display.ax_[1]) == ["a", "b"]
    assert display.figure_ is display.ax_[0].figure


def test_embedding_keeps_the_side_of_the_points(rng):
    X = rng.normal(size=(50, 4)) * [9, 5, 1, 1]
    display = EmbeddingDisplay.from_data(X, -X)
    assert_allclose(display.after, display.before, atol=1e-10)


def test_embedding_ten_classes_have_ten_colours_and_names_among_the_points(rng):
    X = rng.normal(size=(500, 6))
    y = np.arange(500) % 10
    display = EmbeddingDisplay.from_data(X, X, y)
    colors = {tuple(c.get_facecolor()[0]) for c in display.ax_[0].collections}
    assert len(colors) == 10
    assert texts(display.ax_[0]) == [str(k) for k in range(10)]
    assert display.ax_[0].texts[3].get_position() == pytest.approx(np.median(display.before[y == 3], axis=0))
    assert display.classes_ == list(range(10))


def test_embedding_hundred_classes_shows_the_nine_largest(rng):
    y = np.concatenate([np.repeat(np.arange(9), 30), np.arange(9, 100)])
    X = rng.normal(size=(len(y), 3))
    display = EmbeddingDisplay.from_data(X, X, y)
    assert display.classes_ == list(range(9))
    assert legend_texts(display.ax_[1]) == ["91 other classes", *map(str, range(9))]
    assert sum(len(c.get_offsets()) for c in display.ax_[0].collections) == len(y)


@pytest.mark.parametrize(
    ("y", "unlabeled"),
    [
        ([0, 1, -1, 1, 0], -1),
        ([0.0, 1.0, nan, 1.0, 0.0], None),
        (["x", "y", None, "y", "x"], None),
        ([0, 1, pd.NA, 1, 0], None),
    ],
)
def test_embedding_unlabelled_points_are_grey_and_not_a_class(rng, y, unlabeled):
    X = rng.normal(size=(5, 3))
    display = EmbeddingDisplay.from_data(X, X, np.array(y), unlabeled=unlabeled)
    assert len(display.classes_) == 2
    grey = display.ax_[0].collections[0]
    assert grey.get_label() == "unlabelled"
    assert_allclose(grey.get_offsets(), display.before[[2]])


def test_embedding_samples_many_points(rng):
    X = rng.normal(size=(100_000, 3))
    mapped = []

    class Learner:
        def transform(self, X):
            mapped.append(len(X))
            return 2 * X

    display = EmbeddingDisplay.from_estimator(Learner(), X, np.arange(len(X)) % 2, max_points=500)
    again = EmbeddingDisplay.from_result(Learner(), X, max_points=500)
    assert mapped == [500, 500]
    assert display.n_points == 100_000
    assert len(np.unique(display.rows)) == 500
    assert_array_equal(display.rows, again.rows)
    assert_allclose(display.after, 2 * display.before)
    other = EmbeddingDisplay.from_result(Learner(), X, max_points=500, random_state=1)
    assert (other.rows != display.rows).any()


@pytest.mark.parametrize("shape", [(1, 3), (2, 2), (3, 1), (30, 1), (5, 2), (4, 200)])
def test_embedding_few_points_or_dimensions(rng, shape):
    X = rng.normal(size=shape)
    display = EmbeddingDisplay.from_data(X, X[:, :1])
    assert display.before.shape == display.after.shape == (shape[0], 2)
    assert np.isfinite(display.before).all()


def test_embedding_of_equal_points_has_no_shares():
    display = EmbeddingDisplay.from_data(np.ones((10, 4)), np.zeros((10, 4)))
    assert_array_equal(display.before, 0.0)
    assert display.ax_[0].get_xlabel() == "1st component"


def test_embedding_sparse_and_frames_agree_with_arrays(rng):
    X = rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.4)
    dense = EmbeddingDisplay.from_data(X, X, max_points=50)
    for other in (sp.csr_array(X), pd.DataFrame(X), pl.DataFrame(X)):
        display = EmbeddingDisplay.from_data(other, X, max_points=50)
        assert_allclose(np.abs(display.before), np.abs(dense.before), atol=1e-8)


def test_embedding_labels_are_not_formulas_and_none_is_hidden(rng):
    X = rng.normal(size=(4, 3))
    display = EmbeddingDisplay.from_data(X, X, ["$\\frac$", "_hidden", "a\nb", "x" * 99])
    display.figure_.canvas.draw()
    assert [t.lstrip("\u200b") for t in legend_texts(display.ax_[1])] == [
        "\\$\\frac\\$",
        "_hidden",
        "a b",
        "x" * 23 + "…",
    ]


def test_embedding_wrong_number_of_labels(rng):
    with pytest.raises(ValueError, match=r"y must have shape \(5,\).*got \(4,\)"):
        EmbeddingDisplay.from_data(rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), [0, 1, 0, 1])


def test_axes_given_are_used(rng):
    X = rng.normal(size=(9, 3))
    figure, (left, right) = plt.subplots(1, 2)
    display = EmbeddingDisplay.from_data(X, X, ax=[left, right])
    assert list(display.ax_) == [left, right]
    figure, single = plt.subplots()
    display = display.plot(ax=single)
    assert display.figure_ is figure
    assert list(figure.axes) == list(display.ax_)  # the single axes became two
    with pytest.raises(ValueError, match="ax must be one axes or 2 axes; got 3"):
        display.plot(ax=[left, right, right])
    free = figure.add_axes([0, 0, 1, 1])
    with pytest.raises(ValueError, match="hand over 2 axes"):
        display.plot(ax=free)


# ---------------------------------------------------------------------------------------------- pair distances
def heights(patch):
    """Total of a step histogram's bins, read off the drawn polygon."""
    y = patch.get_xy()[:, 1]
    return y[1:-1:2][: (len(y) - 1) // 4]


@pytest.mark.parametrize("c", [2, 10, 1000, 100_000])
def test_pairs_histograms_hold_every_pair(rng, c):
    X = rng.normal(size=(200, 4)) * [3, 1, 1, 1]
    constraints = pairs_of(rng, 200, c)
    after = X / [3, 1, 1, 1]
    display = PairDistanceDisplay.from_data(X, after, constraints)
    for axes, points, k in zip(display.ax_, (X, after), (0, 1), strict=True):
        assert len(axes.patches) == 2
        for patch in axes.patches:
            assert heights(patch).sum() == pytest.approx(100)  # per cent
            assert len(patch.get_xy()) < 400  # binned: the size of the picture does not grow with the pairs
        met = constraints.satisfied(points)
        assert display.met_["similar"][k] == pytest.approx(met[::2].mean())
        assert display.met_["dissimilar"][k] == pytest.approx(met[1::2].mean())
        shown = [f"similar (≤): {met[::2].mean():.0%} met", f"dissimilar (≥): {met[1::2].mean():.0%} met"]
        assert legend_texts(axes) == shown
    assert display.ax_[1].get_xlabel().startswith("squared distance")
    assert "similar ≤ 1, dissimilar ≥ 4" in display.ax_[1].get_xlabel()


def test_pairs_bounds_are_marked(rng):
    X = rng.normal(size=(50, 4))
    display = PairDistanceDisplay.from_data(X, X, pairs_of(rng, 50, 200, 0.5, 9.0))
    for axes in display.ax_:
        assert sorted(line.get_xdata()[0] for line in axes.lines) == [0.5, 9.0]
    assert not display.is_relative_


def test_pairs_a_few_are_ticks_as_well(rng):
    X = rng.normal(size=(20, 4))
    constraints = pairs_of(rng, 20, 10)
    display = PairDistanceDisplay.from_data(X, X, constraints)
    ticks = [line for line in display.ax_[0].lines if line.get_marker() == "|"]
    assert_allclose(np.sort(ticks[0].get_xdata()), np.sort(constraints.values(X)[::2]))
    assert_allclose(np.sort(ticks[1].get_xdata()), np.sort(constraints.values(X)[1::2]))


def test_pairs_own_bounds_make_the_axis_relative(rng):
    X = rng.normal(size=(50, 4))
    constraints = pairs_of(rng, 50, 300, rng.uniform(0.5, 3, 300), 4.0)
    display = PairDistanceDisplay.from_data(X, X, constraints)
    assert display.is_relative_
    assert display.ax_[1].get_xlabel().startswith("squared distance / its bound")
    assert [line.get_xdata()[0] for line in display.ax_[0].lines] == [1.0]
    zero = constraints + Constraints.sq_distance([0, 1], [2, 3], 0.0, "<=")
    display = PairDistanceDisplay.from_data(X, X, zero)
    assert "2 pairs with bound 0 left out" in display.ax_[1].get_xlabel()


def test_pairs_ordered_is_the_area_under_the_roc_curve(rng):
    X = rng.integers(3, size=(60, 3)).astype(float)  # many ties
    constraints = pairs_of(rng, 60, 500)
    display = PairDistanceDisplay.from_data(X, 2 * X, constraints)
    expected = roc_auc_score(constraints.sense == -1, constraints.values(X))
    assert display.ordered_ == pytest.approx((expected, expected))
    assert display.ax_[0].get_title(loc="left").endswith(f"in {expected:.0%} of cases")


def test_pairs_identical_points_are_counted(rng):
    X = rng.normal(size=(30, 3)) * 100
    X[1] = X[0]
    constraints = pairs_of(rng, 30, 40) + Constraints.sq_distance(0, 1, 1.0, "<=")
    display = PairDistanceDisplay.from_data(X, X, constraints)
    assert display.ax_[0].get_xscale() == "log"
    assert heights(display.ax_[0].patches[0]).sum() == pytest.approx(100)


def test_pairs_of_one_kind_only(rng):
    X = rng.normal(size=(10, 3))
    same = Constraints.sq_distance([0, 1], [2, 3], 1.0, "<=")
    display = PairDistanceDisplay.from_data(X, X, same)
    assert np.isnan(display.ordered_).all()
    assert display.ax_[0].get_title(loc="left") == "before"
    fixed = Constraints.sq_distance([0, 1], [2, 3], 0.0, "==")
    assert PairDistanceDisplay.from_data(np.zeros((4, 2)), np.zeros((4, 2)), fixed).met_ == {"fixed": (1.0, 1.0)}


def test_pairs_other_relations_are_left_out(rng):
    X = rng.normal(size=(10, 3))
    mixed = Constraints.comparison(0, 1, 2, 3) + Constraints.sq_distance(0, 1, 1.0, "<=") + Constraints.trace(3.0)
    assert len(PairDistanceDisplay.from_data(X, X, mixed).bound) == 1
    with pytest.raises(ValueError, match="no squared distances"):
        PairDistanceDisplay.from_data(X, X, Constraints.comparison(0, 1, 2, 3))


# ---------------------------------------------------------------------------------------------- convergence
def history(gaps, violations=None):
    """Records whose objective falls to 1, with the given gaps."""
    return [
        Record(k, 0.1 * k, 1 + g if g == g else 2.0, 1.0 if g == g else nan, g, violations[k] if violations else 0.0)
        for k, g in enumerate(gaps)
    ]


def test_convergence_draws_the_records():
    display = ConvergenceDisplay.from_data(history([1, 0.1, 0.01]), tol=1e-3)
    assert_allclose(display.lines_["objective"].get_ydata(), [2, 1.1, 1.01])
    assert_allclose(display.lines_["dual_bound"].get_ydata(), 1.0)
    assert_allclose(display.lines_["gap"].get_xydata(), [[0, 1], [1, 0.1], [2, 0.01]])
    upper, lower = display.ax_
    assert lower.get_yscale() == "log"
    assert lower.get_xlabel() == "iteration"
    assert legend_texts(upper) == ["objective", "proven lower bound"]
    assert texts(lower) == ["tolerance 0.001"]


def test_convergence_against_seconds():
    display = ConvergenceDisplay.from_data(history([1, 0.1]), x="seconds")
    assert_allclose(display.lines_["gap"].get_xdata(), [0, 0.1])
    assert display.ax_[1].get_xlabel() == "seconds"
    with pytest.raises(ValueError, match="x must be"):
        display.plot(x="hours")


def test_convergence_history_of_one_record_is_visible():
    display = ConvergenceDisplay.from_data(history([0.5]))
    assert display.lines_["gap"].get_marker() == "o"
    assert_allclose(display.lines_["gap"].get_xydata(), [[0, 0.5]])
    display.figure_.canvas.draw()


def test_convergence_leaves_out_what_is_not_known():
    display = ConvergenceDisplay.from_data(history([nan, 0.1, nan, 1e-8], [nan] * 4))
    assert_allclose(display.lines_["gap"].get_xydata(), [[1, 0.1], [3, 1e-8]])
    assert "violation" not in display.lines_
    nothing = ConvergenceDisplay.from_data([Record(0, 0.0, nan, nan, nan, nan)])
    assert nothing.lines_ == {}
    assert texts(nothing.ax_[0]) == ["not recorded"]


def test_convergence_zero_gap_is_at_the_floor():
    display = ConvergenceDisplay.from_data(history([1.0, 0.0, -1e-18]))
    assert_allclose(display.lines_["gap"].get_ydata(), [1, 1e-16, 1e-16])


def test_convergence_far_bounds_do_not_flatten_the_objective():
    records = [Record(k, k, 2.0 - k, b, nan, 0.0) for k, b in enumerate([-inf, -1e9, 0.0])]
    low, high = ConvergenceDisplay.from_data(records).ax_[0].get_ylim()
    assert low > -5
    assert high < 5


def test_convergence_objective_that_falls_by_decades_is_logarithmic():
    records = [Record(k, k, 1e6 / 10**k, 100.0 - 1e5 / 10**k, nan, 0.0) for k in range(5)]
    upper = ConvergenceDisplay.from_data(records).ax_[0]
    assert upper.get_yscale() == "log"
    assert upper.get_ylim()[0] > 1
    upper.figure.canvas.draw()


def test_convergence_empty_history():
    with pytest.raises(ValueError, match="history is empty"):
        ConvergenceDisplay.from_data([])


# ---------------------------------------------------------------------------------------------- spectrum
def test_spectrum_sorts_and_counts_zeros():
    display = SpectrumDisplay.from_data([0.0, 4.0, 0.25, 0.0])
    assert_allclose(display.lines_["learned"].get_xydata(), [[1, 4], [2, 0.25]])
    assert_allclose(display.lines_["prior"].get_ydata(), 1.0)
    assert display.ax_.get_yscale() == "log"
    assert legend_texts(display.ax_) == ["prior: all 1", "learned: 0.25 to 4, 2 zero"]


def test_spectrum_of_a_prior_matrix(rng):
    A = rng.normal(size=(4, 4))
    display = SpectrumDisplay.from_data(np.ones(4), prior=A @ A.T)
    assert_allclose(display.lines_["prior"].get_ydata(), np.linalg.svd(A, compute_uv=False) ** 2)
    with pytest.raises(ValueError, match="1-dimensional"):
        SpectrumDisplay.from_data(np.ones((2, 2)))


def test_spectrum_within_three_decades_has_readable_ticks():
    display = SpectrumDisplay.from_data([0.5, 3.0])
    display.figure_.canvas.draw()
    labels = {t.get_text() for t in display.ax_.get_yticklabels()}
    assert {"0.5", "1", "2"} <= labels


def test_spectrum_over_decades_has_powers_of_ten():
    display = SpectrumDisplay.from_data([1e-8, 1e4])
    display.figure_.canvas.draw()
    labels = {t.get_text() for t in display.ax_.get_yticklabels()}
    assert {"1", "10⁻⁶", "10⁴"} <= labels


# ---------------------------------------------------------------------------------------------- violations
def test_violation_names_the_worst_rows():
    G = np.array([[0.0], [1.0], [3.0], [4.0]])
    constraints = (
        Constraints.sq_distance([0, 0], [1, 2], [0.5, 3.0], "<=")
        + Constraints.sq_distance(2, 3, 4.0, ">=")
        + Constraints.comparison(0, 2, 0, 1, 1.0)
        + Constraints.sq_distance(0, 1, 1.0, "==")
    )
    display = ViolationDisplay.from_data(G, constraints)
    assert_array_equal(display.rows, [3, 1, 0, 2])
    assert_allclose([bar.get_width() for bar in display.bars_], [9.0, 2.0, 1.0, 0.75])
    names = [t.get_text() for t in display.ax_.get_yticklabels()]
    assert names[0] == "row 3: sq_dist(0, 2) + 1 ≤ sq_dist(0, 1)"
    assert names[1] == "row 1: sq_dist(0, 2) ≤ 3"
    assert texts(display.ax_) == ["9", "2", "1", "0.75"]
    assert display.ax_.get_title(loc="left") == "4 worst of 4 violated constraints (5 in all)"
    assert display.ax_.yaxis_inverted()  # the worst on top


def test_violation_takes_names_and_a_limit():
    G = np.array([[0.0], [1.0], [3.0]])
    constraints = Constraints.sq_distance([0, 0], [1, 2], 0.5, "<=")
    display = ViolationDisplay.from_data(G, constraints, sample_id=["ann", "_b$", "cid"], most=1)
    assert display.labels == ["sq_dist(ann, cid) <= 0.5"]
    display.figure_.canvas.draw()
    assert display.n_violated == 2


def test_violation_none():
    G = np.zeros((3, 2))
    display = ViolationDisplay.from_data(G, Constraints.sq_distance([0, 0], [1, 2], 0.5, "<="))
    assert display.bars_ is None
    assert texts(display.ax_) == ["All 2 constraints are met (to a relative 0.001)."]


# ---------------------------------------------------------------------------------------------- real results
@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X, y, MetricLearner(slack_weight=1.0, random_state=0).fit(X, y)


def test_every_display_of_an_estimator(wine):
    X, y, learner = wine
    result, constraints = learner.result_, learner.constraints_
    embedding = EmbeddingDisplay.from_estimator(learner, X, y)
    assert embedding.classes_ == [0, 1, 2]
    assert_allclose(np.abs(embedding.after), np.abs(EmbeddingDisplay.from_result(result, X, y).after), rtol=1e-6)
    pairs = PairDistanceDisplay.from_estimator(learner, X)
    assert_allclose(pairs.sq_after, result.values, rtol=1e-6)
    assert pairs.ordered_[1] > pairs.ordered_[0]  # learning has put similar pairs nearer than dissimilar ones
    assert PairDistanceDisplay.from_result(result, X, constraints).ordered_ == pytest.approx(pairs.ordered_)
    convergence = ConvergenceDisplay.from_estimator(learner)
    assert convergence.lines_["objective"].get_ydata()[-1] == pytest.approx(result.objective)
    assert convergence.lines_["gap"].get_ydata()[-1] <= learner.tol
    assert "violation" not in convergence.lines_  # all rows have slack
    assert texts(convergence.ax_[1]) == ["tolerance 1e−4"]
    spectrum = SpectrumDisplay.from_estimator(learner)
    W = learner.get_mahalanobis_matrix()
    assert_allclose(spectrum.learned, np.linalg.eigvalsh(W)[::-1], rtol=1e-6)
    violation = ViolationDisplay.from_estimator(learner, X)
    worst = np.sort(result.violation)[::-1]
    assert_allclose(violation.violation, worst[:15], rtol=1e-6)
    assert_allclose(ViolationDisplay.from_result(result, constraints, X).violation, violation.violation)


def test_displays_of_a_fold_leave_out_absent_samples(wine):
    X, y, _ = wine
    names = np.array([f"w{k}" for k in range(len(X))])
    given = Constraints.sq_distance(names[[0, 1, 60]], names[[2, 60, 61]], 1000.0, "<=")
    learner = MetricLearner(slack_weight=1.0, random_state=0).fit(X, constraints=given, sample_id=names)
    fold = slice(0, 60)
    pairs = PairDistanceDisplay.from_estimator(learner, X[fold], sample_id=names[fold])
    assert len(pairs.bound) == 1
    frame = pd.DataFrame(X[fold], index=names[fold])
    assert len(PairDistanceDisplay.from_data(frame, X[fold], given.locate(names[fold])[0]).bound) == 1
    violation = ViolationDisplay.from_estimator(learner, X, given, sample_id=names)
    assert violation.n_constraints == 3
    with pytest.raises(ValueError, match="none of the 3 rows has all its samples in X"):
        ViolationDisplay.from_estimator(learner, X[100:], sample_id=names[100:])


def test_displays_of_a_kernel_with_hard_constraints(rng):
    G0 = rng.normal(size=(12, 12))
    K0 = G0 @ G0.T
    result = nearest_kernel(K0, Constraints.diagonal(np.ones(12)))
    display = ViolationDisplay.from_result(result, Constraints.diagonal(np.ones(12)))
    assert display.n_violated == 0
    convergence = ConvergenceDisplay.from_result(result)
    assert convergence.lines_["gap"].get_ydata()[-1] <= 1e-6
    assert SpectrumDisplay.from_result(result).learned.shape == (12,)


def test_displays_of_an_interrupted_run(wine):
    X, y, learner = wine
    rows = learner.constraints_
    result = nearest_metric(X, rows, slack_weight=1.0, callback=lambda record: True)
    assert ConvergenceDisplay.from_result(result).figure_ is not None
    assert EmbeddingDisplay.from_result(result, X, y).figure_ is not None


# ---------------------------------------------------------------------------------------------- the package
def test_matplotlib_is_imported_on_first_use():
    code = "import sys, bregmat.plots, bregmat.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
