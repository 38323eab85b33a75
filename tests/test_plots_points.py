"""Displays of points and of pairs: what stands in the pictures, at all sizes and in the corner cases."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score

from bregmat import Constraints, Relation
from bregmat.plots import ComparisonDisplay, EmbeddingDisplay, PairDistanceDisplay
from drawing import in_memory, legend_texts, texts

nan = float("nan")


@pytest.fixture(autouse=True)
def agg():
    yield from in_memory()


def pairs_of(rng, n, c, at_most=1.0, at_least=4.0):
    """c pairs among n points: even rows similar, odd rows dissimilar."""
    i = rng.integers(n, size=c)
    j = (i + rng.integers(1, n, size=c)) % n
    even = np.arange(c) % 2 == 0
    return Constraints.sq_distance(i, j, np.where(even, at_most, at_least), np.where(even, "<=", ">="))


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
    assert [axes.get_title() for axes in display.ax_] == ["as given", "learned"]
    assert display.ax_[0].get_xlabel() == f"1st component ({display.share_before[0]:.0%} of variance)"
    assert legend_texts(display.ax_[1]) == ["a", "b"]
    assert display.figure_ is display.ax_[0].figure


def test_embedding_with_scaled_columns_between(rng):
    X = rng.normal(size=(2500, 4)) * [9, 5, 1, 1]
    scaled = X / X.std(axis=0)
    display = EmbeddingDisplay.from_data(X, X, np.arange(2500) % 2, scaled=scaled)
    assert [axes.get_title() for axes in display.ax_] == ["as given", "scaled", "learned"]
    assert legend_texts(display.ax_[2]) == ["0", "1"]
    assert display.scaled.shape == (2000, 2)
    assert [entry[0] for entry in display.legend_entries()] == ["0", "1"]
    with pytest.raises(ValueError, match="there is no panel 'scaled'"):
        EmbeddingDisplay.from_data(X, X).plot_view("scaled", display.ax_[0])


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

    display = EmbeddingDisplay.from_estimator(Learner(), X, np.arange(len(X)) % 2)
    again = EmbeddingDisplay.from_data(X, Learner().transform)
    assert mapped == [2000, 2000]
    assert display.n_points == 100_000
    assert len(np.unique(display.rows)) == 2000
    assert_array_equal(display.rows, again.rows)
    assert_allclose(display.after, 2 * display.before)


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
    X = rng.normal(size=(2400, 8)) * (rng.random((2400, 8)) < 0.4)
    dense = EmbeddingDisplay.from_data(X, X)
    for other in (sp.csr_array(X), pd.DataFrame(X), pl.DataFrame(X)):
        display = EmbeddingDisplay.from_data(other, X)
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
    with pytest.raises(ValueError, match="pass 2 axes"):
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


def test_pairs_no_bar_lies_on_both_sides_of_a_bound():
    X = np.array([[0.0], [1.0], [1.0 + 1e-9], [3.0], [9.0]])
    constraints = Constraints.sq_distance([0, 0, 0, 0], [1, 2, 3, 4], [1, 1, 81, 81], ["<=", "<=", ">=", ">="])
    for scale, is_log in ((1.0, True), (0.25, False)):  # all four on their bounds, or the two distances far off
        some = constraints if is_log else constraints.select([0, 1])
        display = PairDistanceDisplay.from_data(X, X * scale, some)
        assert (display.ax_[0].get_xscale() == "log") == is_log
        for patch in display.ax_[0].patches:
            edges = np.unique(patch.get_xy()[:, 0])
            assert np.isclose(edges, 1.0, rtol=1e-12).any()
        similar = display.ax_[0].patches[0].get_xy()
        assert similar[similar[:, 1] > 0, 0].max() == 1.0  # the pair at 1 + 1e-9 is drawn as met


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


# ---------------------------------------------------------------------------------------------- comparisons
def test_comparisons_histograms_hold_every_row(rng):
    X = rng.normal(size=(60, 3)) * [9, 1, 1]
    i, j, k, l = rng.permuted(np.tile(np.arange(60), (200, 1)), axis=1)[:, :4].T
    asked = Constraints.comparison(i, j, k, l, 0.5)
    after = X / [9, 1, 1]
    display = ComparisonDisplay.from_data(X, after, asked + Constraints.trace(3.0), scaled=X / X.std(axis=0))
    for name, points, axes in zip(("as given", "scaled", "learned"), (X, X / X.std(axis=0), after), display.ax_):
        near, far = (np.linalg.norm(points[a] - points[b], axis=1) for a, b in ((i, j), (k, l)))
        assert display.ordered_[name] == pytest.approx((near < far).mean())
        wrong, right = axes.patches
        assert heights(wrong).sum() == pytest.approx(100 * (near >= far).mean())
        assert heights(right).sum() == pytest.approx(100 * (near < far).mean())
        assert wrong.get_xy()[:, 0].max() == right.get_xy()[:, 0].min() == 1.0
        assert axes.get_title(loc="left").startswith(f"{name}: {(near < far).mean():.1%} the right way round")
    assert display.met == pytest.approx(asked.satisfied(after).mean())
    assert display.ax_[2].get_title(loc="left").endswith(f"{display.met:.1%} by their margin")


def test_comparisons_at_the_ends():
    """All the right way round, equal distances, and points at one place; each is drawn."""
    X = np.array([[0.0], [0.0], [1.0], [2.0], [1e9]])
    rows = Constraints.comparison([0, 0, 0, 2], [1, 2, 2, 3], [0, 2, 0, 0], [4, 3, 4, 1])
    display = ComparisonDisplay.from_data(X[:, [0, 0]], X, rows)
    assert_allclose(display.after, [np.inf, 1.0, 1e9, 0.0])
    assert display.ordered_ == {"as given": 0.5, "learned": 0.5}
    assert sum(heights(patch).sum() for patch in display.ax_[0].patches) == pytest.approx(100)
    assert sum(len(line.get_xdata()) for line in display.ax_[0].lines if line.get_marker() == "|") == 4
    same = ComparisonDisplay.from_data(np.zeros((4, 1)), np.zeros((4, 1)), Constraints.comparison(0, 1, 2, 3))
    assert (same.ordered_["learned"], same.before[0]) == (0.0, 1.0)
    assert ComparisonDisplay(np.array([2.0]), np.array([3.0])).plot().ax_[1].get_title(loc="left") == (
        "learned: 100% the right way round"
    )


def test_comparisons_the_other_way_round(rng):
    """A relation of one's own that says ">=" has its farther pair first."""
    X = rng.normal(size=(8, 2))
    farther = Relation("farther", {"i-j": 1.0, "k-l": -1.0}, sense=">=", bound=0.0)
    mine = Constraints.of(farther, [0, 1], [2, 3], [4, 5], [6, 7])
    theirs = Constraints.comparison([4, 5], [6, 7], [0, 1], [2, 3])
    assert_allclose(ComparisonDisplay.from_data(X, X, mine).after, ComparisonDisplay.from_data(X, X, theirs).after)


def test_comparisons_are_asked_for(rng):
    X = rng.normal(size=(10, 3))
    with pytest.raises(ValueError, match="hold no comparisons"):
        ComparisonDisplay.from_data(X, X, Constraints.sq_distance(0, 1, 1.0, "<="))
    with pytest.raises(ValueError, match="ComparisonDisplay draws comparisons"):
        PairDistanceDisplay.from_data(X, X, Constraints.comparison(0, 1, 2, 3))
    sparse = ComparisonDisplay.from_data(sp.csr_array(X), X, Constraints.comparison(0, 1, 2, 3))
    assert_allclose(sparse.before, sparse.after)
