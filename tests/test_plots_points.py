"""The display of points: what stands in the pictures, at all sizes and in the corner cases."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from bregmat.plots import EmbeddingDisplay
from drawing import in_memory, legend_texts, texts

nan = float("nan")


@pytest.fixture(autouse=True)
def agg():
    yield from in_memory()


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
    with pytest.raises(ValueError, match="ax must be 2 axes, one for each panel; got 3"):
        display.plot(ax=[left, right, right])
