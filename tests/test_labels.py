"""constraints_from_labels: labels of any kind, squared percentile bounds, pairs that can be met."""

import datetime
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_wine

from bregmat import MetricLearner, constraints_from_labels


def pairs_of(c):
    return c.index[:, 0], c.index[:, 1]


def same_as(a, b):
    return np.array_equal(a.index, b.index) and np.array_equal(a.bound, b.bound) and np.array_equal(a.sense, b.sense)


@pytest.fixture
def blobs(rng):
    y = np.repeat([0, 1, 2], 20)
    return rng.normal(size=(60, 4)) + 3 * y[:, None], y


def test_default_number_senses_and_squared_bounds():
    X, y = load_wine(return_X_y=True)
    c = constraints_from_labels(X, y, random_state=0)
    i, j = pairs_of(c)
    assert c.n_constraints == 40 * 3**2
    assert np.array_equal(c.sense == 1, y[i] == y[j])
    assert (c.sense == 1).sum() == 180
    a, b = np.triu_indices(len(X), 1)
    low, high = np.percentile(((X[a] - X[b]) ** 2).sum(axis=1), [5, 95])
    assert np.allclose(c.bound, np.where(c.sense == 1, low, high), rtol=1e-12)
    assert c.ids is None and np.all(c.weight == 1)


def test_no_pair_twice_and_none_with_itself(blobs):
    X, y = blobs
    i, j = pairs_of(constraints_from_labels(X, y, 1500, random_state=1))
    assert np.all(i != j)
    assert len({(min(p), max(p)) for p in zip(i.tolist(), j.tolist())}) == 1500


def test_all_pairs_when_more_are_asked_for_than_exist(blobs):
    X, y = blobs
    c = constraints_from_labels(X, y, 10_000, random_state=1)
    assert c.n_constraints == 60 * 59 // 2
    assert (c.sense == 1).sum() == 3 * 20 * 19 // 2


def test_few_pairs_of_one_kind_are_made_up_by_the_other(rng):
    X, y = rng.normal(size=(30, 2)), np.repeat([0, 1], [2, 28])
    c = constraints_from_labels(X, y, 200, random_state=0)
    assert c.n_constraints == 200
    assert (c.sense == -1).sum() == 56  # all 2 * 28 of them
    c = constraints_from_labels(X, np.arange(30), 100, random_state=0)
    assert np.all(c.sense == -1) and c.n_constraints == 100


def test_rare_classes_have_their_share(rng):
    y = np.repeat([0, 1, 2], [900, 50, 50])
    i, j = pairs_of(constraints_from_labels(rng.normal(size=(1000, 3)), y, 600, random_state=0))
    kinds, counts = np.unique(np.sort(np.column_stack([y[i], y[j]]), axis=1), axis=0, return_counts=True)
    assert len(kinds) == 6
    assert np.array_equal(counts, np.full(6, 100))


def test_same_seed_same_pairs_whatever_the_spelling_of_the_classes(blobs):
    X, y = blobs
    want = constraints_from_labels(X, y, random_state=7)
    assert not same_as(want, constraints_from_labels(X, y, random_state=8))
    words = np.array(["setosa", "aardvark", "zebra"])[y]
    days = np.array([datetime.date(2020, 1, 1 + v) for v in y], dtype=object)
    mixed = np.array([("x", 3, 2.0)[v] for v in y], dtype=object)
    arrays = [y, y.astype(float), words, words.astype(object), words.tolist(), words.astype("S"), days, mixed]
    frames = [pd.Series(words), pd.Series(words, dtype="category"), pd.Series(y, dtype="Int64"), pl.Series(words)]
    for labels in arrays + frames:
        assert same_as(constraints_from_labels(X, labels, random_state=7), want)
    two = y > 0
    assert same_as(
        constraints_from_labels(X, two, random_state=7), constraints_from_labels(X, two.astype(int), random_state=7)
    )


def test_generators_advance_and_seeds_do_not(blobs):
    X, y = blobs
    source = np.random.default_rng(3)
    first = constraints_from_labels(X, y, random_state=source)
    assert same_as(first, constraints_from_labels(X, y, random_state=3))
    assert not same_as(first, constraints_from_labels(X, y, random_state=source))
    legacy = [constraints_from_labels(X, y, random_state=np.random.RandomState(5)) for _ in range(2)]
    assert same_as(*legacy)
    with pytest.raises(TypeError, match="random_state must be"):
        constraints_from_labels(X, y, random_state="seed")
    with pytest.raises(ValueError, match="random_state must be at least 0; got -1"):
        constraints_from_labels(X, y, random_state=-1)


@pytest.mark.parametrize(
    ("mark", "unlabeled"),
    [(-1, -1), (None, -1), (np.nan, -1), (pd.NA, -1), (pd.NaT, None), ("?", "?"), (None, None), (-1.0, -1), (99, 99)],
)
def test_unlabelled_rows_take_no_part(blobs, mark, unlabeled):
    X, y = blobs
    known = np.arange(60) % 3 > 0
    labels = np.array([v if k else mark for v, k in zip(y.tolist(), known)], dtype=object)
    if unlabeled == "?":
        labels[known] = np.array(["a", "b", "c"], dtype=object)[y[known]]
    c = constraints_from_labels(X, labels, random_state=0, unlabeled=unlabeled)
    assert known[np.concatenate(pairs_of(c))].all()
    X2 = X.copy()
    X2[~known] += 1e6  # neither the pairs nor the bounds look at them
    assert same_as(c, constraints_from_labels(X2, labels, random_state=0, unlabeled=unlabeled))


@pytest.mark.parametrize("y", [[-1, 1] * 5, [-1.0, 1.0] * 5, np.array([-1, 1] * 5, dtype=object), [-1, 1, None] * 4])
def test_labels_minus_one_and_one_ask(rng, y):
    X = rng.normal(size=(len(y), 2))
    with pytest.raises(ValueError, match=r"exactly the labels -1 and 1.*unlabeled=None"):
        constraints_from_labels(X, y)
    c = constraints_from_labels(X, y, unlabeled=None, random_state=0)
    assert set(c.sense.tolist()) == {1, -1}


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.0, 1.5, 2.0, 0.25, 1.0, 0.0], r"continuous \(y\[1\] = 1.5; rows 1, 3\)"),
        (np.array([0.5, "a", None, 1, 1, 1], dtype=object)[[0, 2, 3, 4, 5, 0]], r"continuous"),
        ([0.0, np.inf, 1, 1, 0, 0], "y contains infinity or a value too large, in row 1"),
        ([1j, 0, 1, 0, 1, 0], "complex"),
        ([[0], [1], [0], [1], [0], [1]], r"1d array, one label per row; got shape \(6, 1\)"),
        ([0, 1], "y has 2 labels but X has 6 rows"),
        ([-1, -1, -1, -1, -1, 3], "at least 2 rows.*1 of 6 rows are labelled"),
        ([np.nan] * 6, "at least 2 rows.*0 of 6"),
        ([0, 1, 2, 3, 4, 5], None),
    ],
)
def test_bad_labels(rng, y, message):
    X = rng.normal(size=(6, 3))
    if message is None:
        assert constraints_from_labels(X, y).n_constraints == 15
        return
    with pytest.raises(ValueError, match=message):
        constraints_from_labels(X, y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, pd.DataFrame])
def test_nan_in_X_names_rows(blobs, bad, form):
    X, y = blobs
    X[[4, 17], 1] = bad
    with pytest.raises(ValueError, match="X must be finite; got NaN or infinity in rows 4, 17"):
        constraints_from_labels(form(X), y)


def test_bad_X(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match=r"X must be 2-dimensional.*\(60,\)"):
        constraints_from_labels(X[:, 0], y)
    with pytest.raises(TypeError, match="X must be real; got complex"):
        constraints_from_labels(X + 1j, y)
    with pytest.raises(TypeError, match="X must be numeric"):
        constraints_from_labels(np.full((60, 2), "a"), y)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"n_constraints": 0}, ValueError, "n_constraints must be at least 1; got 0"),
        ({"n_constraints": 2.5}, TypeError, "n_constraints must be an integer or None; got 2.5"),
        ({"percentiles": (95, 5)}, ValueError, r"percentiles must satisfy.*\(95, 5\)"),
        ({"percentiles": (-1, 5)}, ValueError, "percentiles must satisfy"),
        ({"percentiles": (5, np.nan)}, ValueError, "percentiles must satisfy"),
        ({"percentiles": 5}, TypeError, r"percentiles must be a pair \(lower, upper\); got 5"),
        ({"percentiles": ("a", "b")}, TypeError, "percentiles must be a pair"),
    ],
)
def test_bad_parameters(blobs, given, error, message):
    with pytest.raises(error, match=message):
        constraints_from_labels(*blobs, **given)


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, pd.DataFrame, pl.DataFrame, np.asfortranarray])
def test_other_containers_give_the_same(blobs, form):
    X, y = blobs
    got = constraints_from_labels(form(X), y, random_state=0)
    want = constraints_from_labels(X, y, random_state=0)
    assert np.array_equal(got.index, want.index) and np.allclose(got.bound, want.bound, rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_identical_points_are_never_drawn(rng, form):
    X = rng.integers(0, 2, size=(80, 3)).astype(float)  # 8 different points
    y = rng.integers(0, 2, size=80)
    c = constraints_from_labels(form(X), y, 5000, random_state=0)
    i, j = pairs_of(c)
    assert np.all((X[i] != X[j]).any(axis=1))
    a, b = np.triu_indices(80, 1)
    assert c.n_constraints == (X[a] != X[b]).any(axis=1).sum()  # every other pair is
    assert np.all(c.bound > 0)


def test_lower_bound_is_positive_with_mostly_duplicates(rng):
    X = np.repeat(rng.normal(size=(2, 3)), [97, 3], axis=0)
    c = constraints_from_labels(X, np.arange(100) % 2, random_state=0)
    assert np.allclose(c.bound, ((X[0] - X[99]) ** 2).sum())


def test_minus_one_beside_0_and_1_is_named(blobs):
    """Negative, neutral and positive look like two classes and unlabelled rows; one warning in a fit says what is done."""
    X, y = blobs[0], np.arange(60) % 3 - 1
    with pytest.warns(
        UserWarning, match="labels -1, 0 and 1, and unlabeled=-1: rows of .* pass unlabeled=None"
    ) as seen:
        fitted = MetricLearner(strategy="random", slack_weight=1.0, random_state=0).fit(X, y)
    assert len(seen) == 1 and not (y[fitted.constraints_.index] == -1).any()
    for labels, unlabeled in ((y, None), (np.where(y == -1, np.nan, y), -1), (y + 1, -1), (2 * y + 1, -1)):
        constraints_from_labels(X, labels, unlabeled=unlabeled, random_state=0)


def test_unavoidable_identical_points_name_rows():
    X = np.ones((6, 2))
    with pytest.raises(ValueError, match="no two labelled points of X were found to differ: see rows 0, 1, 2, 3, 4"):
        constraints_from_labels(X, [0, 0, 0, 1, 1, 1])
    X[5] = 2.0  # rows 3 to 5 are not labelled
    with pytest.raises(ValueError, match="rows 0, 1, 2"):
        constraints_from_labels(X, [0, 0, 2, -1, -1, -1])


def test_one_class_gives_only_near_pairs(blobs):
    c = constraints_from_labels(blobs[0], np.zeros(60), random_state=0)
    assert np.all(c.sense == 1) and c.n_constraints == 40


def test_many_classes_and_many_rows_in_linear_memory(rng):
    n = 30_000
    X = rng.normal(size=(n, 5))
    tracemalloc.start()
    c = constraints_from_labels(X, rng.integers(0, 2000, size=n), 20_000, random_state=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert c.n_constraints == 20_000 and (c.sense == 1).sum() == 10_000
    assert peak < 60e6  # n^2 / 2 distances would take 3.6e9 bytes


def test_sampled_percentiles_are_close(rng):
    X = rng.normal(size=(2000, 4))
    c = constraints_from_labels(X, np.arange(2000) % 2, random_state=0)
    a, b = np.triu_indices(2000, 1)
    q = ((X[a] - X[b]) ** 2).sum(axis=1)
    assert abs((q < c.bound.min()).mean() - 0.05) < 0.006  # 4 standard errors of 20,000 pairs
    assert abs((q < c.bound.max()).mean() - 0.95) < 0.006
