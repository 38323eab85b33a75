"""Constraints as a table: from pairs, triplets and data frames, back to frames, row by row, and at a glance."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from packaging.version import Version
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import GridSearchCV
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, _is_arraylike

from bregmat import Constraints, MetricLearner, constraints_from_labels
from bregmat.io import read_constraints, write_constraints

PAIRS = [("a", "b"), ("c", "a"), ("b", "d")]
COLUMNS = ("relation", "i", "j", "k", "l", "bound", "sense", "weight")


def every_kind(named):
    i, j, k, l = (["x7", "x1"], ["x2", "x3"], ["x4", "x9"], ["x1", "x5"]) if named else ([7, 1], [2, 3], [4, 9], [1, 5])
    return (
        Constraints.sq_distance(i, j, [0.1 + 0.2, 2.0], ["<=", "=="], weight=[1.0, np.inf])
        + Constraints.comparison(i, j, k, l, 1 / 3)
        + Constraints.similarity(i, i, [-1.0, 2.0], ">=")
        + Constraints.diagonal([1.0, 2.0], i, weight=0.5)
        + Constraints.trace(3.0)
    )


def same(a, b):
    columns = ("relation", "bound", "sense", "weight", "index")
    assert all(np.array_equal(getattr(a, name), getattr(b, name)) for name in columns)
    assert (a.ids is None) == (b.ids is None) and (a.ids is None or np.array_equal(a.ids, b.ids))


# ---------------------------------------------------------------- pairs and triplets
@pytest.mark.parametrize("y", [[1, -1, 1], [1, 0, 1], [True, False, True], pd.Series([1, -1, 1]), [1.0, -1.0, 1.0]])
def test_pairs_say_squared_distances(y):
    c = Constraints.from_pairs(PAIRS, y, (1.5, 4.0), weight=[1.0, 2.0, np.inf])
    same(c, Constraints.sq_distance(*zip(*PAIRS), [1.5, 4.0, 1.5], ["<=", ">=", "<="], weight=[1.0, 2.0, np.inf]))
    assert [str(row) for row in c] == [
        "sq_dist(a, b) <= 1.5",
        "sq_dist(c, a) >= 4 (weight 2)",
        "sq_dist(b, d) <= 1.5 (hard)",
    ]


def test_bounds_that_are_not_given_are_percentiles_of_squared_distances():
    X = np.random.default_rng(0).normal(size=(60, 4))
    sq = pairwise_distances(X)[np.triu_indices(60, 1)] ** 2
    c = Constraints.from_pairs(np.array([[0, 1], [2, 3]]), [1, -1], X=X, percentiles=(10, 90))
    assert np.allclose(c.bound, np.percentile(sq, (10, 90)), rtol=1e-12)
    everyone = constraints_from_labels(X, np.arange(60) % 3, 20, percentiles=(10, 90), random_state=0)
    assert np.allclose(np.unique(everyone.bound), c.bound, rtol=1e-12)  # one rule
    with pytest.raises(TypeError, match=r"give bounds=\(u, l\), the largest squared distance .* or X"):
        Constraints.from_pairs(PAIRS, 1)


def test_triplets():
    X = np.random.default_rng(0).normal(size=(6, 2))
    rows = np.array([[0, 1, 2], [2, 3, 4], [1, 5, 0]])
    a, p, n = rows.T
    same(Constraints.from_triplets(rows), Constraints.comparison(a, p, a, n))
    same(Constraints.from_triplets(rows, 0.5, weight=3.0), Constraints.comparison(a, p, a, n, 0.5, weight=3.0))
    margin = np.median(np.sum((X[a] - X[p]) ** 2, axis=1))
    same(Constraints.from_triplets(rows, X=X), Constraints.comparison(a, p, a, n, margin))
    names = np.array(list("uvwxyz"))
    named = Constraints.from_triplets(names[rows].tolist(), X=X[::-1], sample_id=names[::-1])
    assert np.array_equal(named.bound, -np.full(3, margin)) and str(next(iter(named))).startswith("sq_dist(u, v) + ")
    same(Constraints.from_triplets(names[rows], X=pd.DataFrame(X[::-1], index=list(names[::-1]))), named)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: Constraints.from_pairs([("a", 1)], [1], (1, 2)),
            TypeError,
            "i, j must all be numbers or all be names",
        ),
        (
            lambda: Constraints.from_pairs([(0, 1), (1, 1)], 1, (1, 2)),
            ValueError,
            "must be different samples.*constraint 1",
        ),
        (lambda: Constraints.from_pairs(np.ones((2, 2, 3)), 1, (1, 2)), ValueError, "got points: stack these"),
        (lambda: Constraints.from_pairs([(0, 1)] * 2, [0, -1], (1, 2)), ValueError, "both 0 and -1"),
        (lambda: Constraints.from_pairs([(0, 1)] * 2, [1, 2], (1, 2)), ValueError, "y must be 1 .* got 2 in row 1"),
        (lambda: Constraints.from_pairs([(0, 1)], 1, (2, 1)), ValueError, r"bounds must be \(u, l\) with u <= l"),
        (lambda: Constraints.from_pairs([(0, 1)], 1, X=np.ones((4, 2))), ValueError, "no two points of X .* differ"),
        (lambda: Constraints.from_triplets([(0, 1, 1)]), ValueError, r"\(anchor, near\) and \(same anchor, far\)"),
        (lambda: Constraints.from_triplets([(0, 1)]), ValueError, r"triplets must have shape \(c, 3\)"),
        (lambda: Constraints.from_triplets([(0, 1, 2)], X=np.ones((9, 2))), ValueError, "identical in X everywhere"),
    ],
)
def test_what_is_wrong_is_said(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---------------------------------------------------------------- frames
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_round_trip(named, library, tmp_path):
    c = every_kind(named)
    frame = c.to_frame() if library == "pandas" else pl.from_pandas(c.to_frame())
    assert tuple(frame.columns) == COLUMNS
    same(Constraints.from_frame(frame), c)
    write_constraints(tmp_path / "rows.csv", c)  # the same columns as in files
    is_exact = Version(pd.__version__) >= Version("3.1")  # before, 0.30000000000000004 may be 0.3
    exact = {} if is_exact else {"float_precision": "round_trip"}
    read = pd.read_csv(tmp_path / "rows.csv", **exact) if library == "pandas" else pl.read_csv(tmp_path / "rows.csv")
    same(Constraints.from_frame(read), c)
    same(read_constraints(tmp_path / "rows.csv"), c)
    frame.to_parquet(tmp_path / "r.parquet") if library == "pandas" else frame.write_parquet(tmp_path / "r.parquet")
    same(read_constraints(tmp_path / "r.parquet"), c)


def test_an_infinite_weight_beside_an_empty_cell():
    cells = {
        "relation": ["sq_distance"] * 3,
        "i": [0, 1, 2],
        "j": [1, 2, 3],
        "bound": [1.0, 2.0, 3.0],
        "sense": ["<="] * 3,
    }
    c = Constraints.from_frame(cells | {"weight": np.array([2.0, None, np.inf], dtype=object)})
    same(c, Constraints.sq_distance([0, 1, 2], [1, 2, 3], [1.0, 2.0, 3.0], "<=", weight=[2.0, 1.0, np.inf]))


def test_names_stay_what_they_are_in_a_frame():
    row = {"relation": "sq_distance", "bound": 1, "sense": "<="}
    assert Constraints.from_frame(pd.DataFrame([row | {"i": "7", "j": "8"}])).ids.tolist() == ["7", "8"]
    assert Constraints.from_frame(pd.DataFrame([row | {"i": 7.0, "j": 8.0}])).index.tolist() == [[7, 8]]
    days = pd.to_datetime(["2026-01-02", "2026-01-01"])
    c = Constraints.from_frame(pd.DataFrame([row | {"i": days[0].date(), "j": days[1].date()}]))
    X = np.array([[0.0], [1.0]])
    assert c.locate(days.date)[0].values(X).tolist() == [1.0]
    categories = pd.DataFrame([row | {"i": "u", "j": "v"}]).astype({"i": "category", "sense": "category"})
    assert Constraints.from_frame(categories).ids.tolist() == ["u", "v"]
    short = {"relation": ["comparison"], "i": [0], "j": [1], "k": [0], "l": [2], "bound": [None], "sense": [None]}
    assert str(next(iter(Constraints.from_frame(short)))) == "sq_dist(0, 1) <= sq_dist(0, 2)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"j": [1, None]}, "row 1: 'sq_distance' needs a sample in column 'j'"),
        ({"i": [0, 0.5]}, "row 1: sample numbers must be whole; got i='0.5'"),
        ({"i": [0, -2]}, "row 1: sample numbers start at 0; got i='-2'"),
        ({"i": [0, "b"]}, "row 0: samples are numbers here and names elsewhere: i='0'"),
        ({"i": [True, False]}, "row 0: samples are numbers or names, not booleans"),
        (
            {"bound": [1.0, np.nan]},
            "row 1: the bound is empty; 'sq_distance' needs a number; a table of pairs or triplets without bounds has none",
        ),
        ({"bound": [1.0, -1.0]}, "row 1: bound '-1' is negative"),
        ({"sense": ["<=", "<"]}, "row 1: sense '<' must be"),
        ({"weight": [1.0, 0.0]}, "row 1: weight '0' must be positive"),
        ({"relation": ["sq_distance", "distance"]}, "row 1: unknown relation 'distance'"),
        ({"distance": [1, 2]}, "frame: unknown column 'distance'; known: relation, i"),
        ({"bound": None}, "frame: no column 'bound'; needed"),
    ],
)
def test_bad_frames_name_the_row(change, message):
    good = {"relation": ["sq_distance"] * 2, "i": [0, 1], "j": [1, 2], "bound": [1.0, 2.0], "sense": ["<=", ">="]}
    columns = {name: values for name, values in (good | change).items() if values is not None}
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    with pytest.raises(ValueError, match=message):
        Constraints.from_frame(frame)


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
def test_times_name_samples(unit):
    row = {"relation": ["sq_distance"] * 2, "bound": [1.0, 2.0], "sense": ["<="] * 2}
    days = pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"]).as_unit(unit)
    X = np.array([[0.0], [1.0], [3.0]])
    c = Constraints.from_frame(pd.DataFrame(row | {"i": days[:2], "j": days[1:]}))
    assert c.locate(days)[0].values(X).tolist() == [1.0, 4.0]
    same(c, Constraints.sq_distance(days[:2], days[1:], [1.0, 2.0], "<="))
    gap = pd.DataFrame(row | {"i": days[:2], "j": pd.DatetimeIndex([days[2], pd.NaT])})
    with pytest.raises(ValueError, match="row 1: 'sq_distance' needs a sample in column 'j', which is empty"):
        Constraints.from_frame(gap)


@pytest.mark.parametrize(
    "values", [["a", None], ["a", np.nan], pd.array([0, pd.NA], dtype="Int64"), pd.to_datetime(["2026-01-01", None])]
)
def test_missing_samples_are_named(values):
    far = ["c", "d"] if isinstance(values, list) else [8, 9]
    with pytest.raises(ValueError, match="i must hold row numbers or sample names; .* in constraint 1"):
        Constraints.sq_distance(values, far, 1.0, "<=")


def test_frames_with_two_columns_of_one_name_or_ragged_cells_are_refused():
    with pytest.raises(ValueError, match="frame: column 'b' occurs twice"):
        Constraints.from_frame(pd.DataFrame([[0, 1, 2]], columns=["a", "b", "b"]))
    with pytest.raises(
        TypeError, match=r"frame: column 'a' must have rows of one length; got shape \(1,\) in row 0 and"
    ):
        Constraints.from_frame({"a": [[0], [1, 2]], "b": [1, 2]})


# ---------------------------------------------------------------- pairs and triplets as people write them
LINKED = pd.DataFrame({"a": [0, 2, 4], "b": [1, 3, 5]})
POINTS = np.random.default_rng(1).normal(size=(9, 3))


@pytest.mark.parametrize("name", ["link", "same", "Is_similar", "y", "verdict"])
@pytest.mark.parametrize(
    "cells",
    [
        ["must", "cannot", "must"],
        ["Must-Link", "cannot_link", "ML"],
        ["same", "different", "SAME"],
        ["match", "distinct", "match"],
        ["yes", "no", "y"],
        [1, -1, 1],
        ["1.0", "-1", "+1"],
        [True, False, True],
    ],
)
def test_pairs_without_bounds(name, cells):
    """Whatever the third column is called, as long as its cells say it."""
    expected = Constraints.from_pairs(LINKED[["a", "b"]], [1, -1, 1], X=POINTS, random_state=0)
    same(Constraints.from_frame(LINKED.assign(**{name: cells}), X=POINTS), expected)
    renamed = LINKED.assign(**{name: cells}).rename(columns={"a": "this wine", "b": "other"})
    same(Constraints.from_frame(renamed, X=POINTS), expected)


def test_all_pairs_belong_together_where_nothing_says_otherwise():
    expected = Constraints.from_pairs(LINKED, 1, X=POINTS, weight=[1.0, 2.0, np.inf], random_state=0)
    same(Constraints.from_frame(LINKED.assign(weight=[1.0, 2.0, np.inf]), X=POINTS), expected)
    with pytest.raises(TypeError, match="frame: pairs and triplets without bounds need X="):
        Constraints.from_frame(LINKED)


@pytest.mark.parametrize(
    "names", [["anchor", "near", "far"], ["a", "p", "n"], ["i", "j", "l"], ["head", "winner", "loser"]]
)
def test_triplets_by_name(names):
    rows = np.array([[0, 1, 2], [2, 3, 4], [1, 5, 0]])
    table = pd.DataFrame(rows, columns=names)
    expected = Constraints.from_triplets(rows, X=POINTS)
    same(Constraints.from_frame(table, X=POINTS), expected)
    same(Constraints.from_frame(table[names[::-1]], X=POINTS), expected)


def test_triplets_of_words_by_place():
    words = np.array(list("uvwxyzqrs"))
    table = pd.DataFrame(words[[[0, 1, 2], [2, 3, 4]]], columns=["x", "y", "z"])
    expected = Constraints.from_triplets(table, X=POINTS, sample_id=words)
    same(Constraints.from_frame(table, X=POINTS, sample_id=words), expected)


@pytest.mark.parametrize("rating", [[3, 5, 1], [3.5, 5, 1], [-1, 2, 7]])
@pytest.mark.parametrize("is_named", [False, True])
def test_ratings_are_no_row_numbers(rating, is_named):
    """Three columns of numbers could be triplets; no name says that they are."""
    points = np.array(["u", "v", "w", "x"]) if is_named else np.arange(4)
    table = {"q1": points[[0, 1, 2]], "q2": points[[1, 2, 3]], "rating": rating}
    with pytest.raises(ValueError, match="'rating' do not say what the numbers in 'rating' are: call the three anchor"):
        Constraints.from_frame(table, X=POINTS)


@pytest.mark.parametrize("meaning", ["similarity", "distance"])
def test_scores_of_pairs(meaning):
    """The lowest and highest scores are bounded as pairs that belong together or not, the others are spread between."""
    ratings = np.array([1, 7, 4, 2.5])
    pairs = {"q1": [0, 1, 2, 3], "q2": [1, 2, 3, 4], "rating": ratings, "weight": [1.0, 2.0, 1.0, 3.0]}
    c = Constraints.from_frame(pairs, scores=meaning, X=POINTS)
    near, far = np.percentile(pairwise_distances(POINTS)[np.triu_indices(9, 1)] ** 2, (5, 95))
    share = (ratings - 1) / 6 if meaning == "distance" else (7 - ratings) / 6
    assert np.allclose(np.sqrt(c.bound), np.sqrt(near) + share * (np.sqrt(far) - np.sqrt(near)), rtol=1e-12)
    assert c.sense.tolist() == ([1, -1, 0, 0] if meaning == "distance" else [-1, 1, 0, 0])
    assert c.weight.tolist() == [1.0, 2.0, 1.0, 3.0]
    name = {"similarity": "similarity", "distance": "dissimilarity"}[meaning]
    same(Constraints.from_frame({name if k == "rating" else k: v for k, v in pairs.items()}, X=POINTS), c)


def test_a_metric_learned_from_scores_orders_pairs_that_were_not_rated(rng):
    X, scale = rng.normal(size=(80, 6)), np.array([2.0, 2.0, 1.0, 0.3, 0.3, 0.3])
    pairs = rng.integers(0, 80, (500, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]

    def distance(points, rows):
        return np.linalg.norm(points[rows[:, 0]] - points[rows[:, 1]], axis=1)

    true = distance(X * scale, pairs)
    rating = np.digitize(true, np.quantile(true, np.arange(1, 7) / 7))
    table = pd.DataFrame({"q1": pairs[:300, 0], "q2": pairs[:300, 1], "rating": rating[:300]})
    rows = Constraints.from_frame(table, scores="distance", X=X)
    learned = MetricLearner(prior="identity", slack_weight=1.0).fit(X, constraints=rows).transform(X)
    before, after = (spearmanr(distance(points, pairs[300:]), rating[300:])[0] for points in (X, learned))
    assert after > 0.9 and after > before + 0.2


@pytest.mark.parametrize(
    ("table", "scores", "message"),
    [
        ({"a": [0, 1], "b": [1, 2], "r": [4, 4]}, "distance", "all scores in 'r' are 4, so they order no pairs"),
        ({"a": [0, 1], "b": [1, 2], "r": [4, None]}, "distance", "row 1: score '' in 'r' is not a finite number"),
        ({"a": [0, 1], "b": [1, 2], "r": ["low", 1]}, "similarity", "row 0: score 'low' in 'r'"),
        ({"a": [0, 1], "b": [1, 2]}, "similarity", "two columns of points and the scores, here in 'b'"),
        ({"a": [0], "b": [1], "similarity": [2], "link": [1]}, None, "two columns of points and the scores"),
        ({"weight": [1.0]}, "distance", "no columns make no table of pairs"),
        ({"relation": ["trace"], "bound": [1.0], "sense": ["=="]}, "distance", "scores= is for a table of pairs"),
        (
            {"a": [0], "b": [1], "r": [1]},
            "rating",
            "scores must be one of None, 'similarity', 'distance'; got 'rating'",
        ),
    ],
)
def test_what_are_no_scores(table, scores, message):
    with pytest.raises(ValueError, match=message):
        Constraints.from_frame(table, scores=scores, X=POINTS)


def test_triplets_of_attention_checks_are_left_out_and_counted(tmp_path):
    rows = np.array([[0, 0, 2], [2, 3, 4], [1, 5, 1], [1, 5, 0], [6, 7, 7]])
    table = pd.DataFrame(rows, columns=["head", "winner", "loser"]).assign(weight=[1.0, 2.0, 3.0, 4.0, 5.0])
    expected = Constraints.from_triplets(rows[[1, 3]], X=POINTS, weight=[2.0, 4.0])
    with pytest.warns(
        UserWarning, match="frame was read as triplets.*3 of 5 rows name a point twice, as attention checks do"
    ):
        same(Constraints.from_frame(table, X=POINTS), expected)
    table.to_csv(tmp_path / "judged.csv", index=False)
    with pytest.warns(UserWarning, match="3 of 5 rows name a point twice"):
        same(read_constraints(tmp_path / "judged.csv", X=POINTS), expected)
    table["weight"] = [1.0, 2.0, 3.0, -4.0, 5.0]
    table.to_csv(tmp_path / "judged.csv", index=False)
    with pytest.raises(ValueError, match="judged.csv, line 5: weight '-4.0' must be positive"):
        read_constraints(tmp_path / "judged.csv", X=POINTS)
    with pytest.raises(ValueError, match="frame: each triplet names a point twice"):
        Constraints.from_frame(table[:1], X=POINTS)


def test_named_triplets():
    names = np.array(list("uvwxyzqrs"))
    table = pd.DataFrame(names[[[0, 1, 2], [2, 3, 4]]], columns=["anchor", "near", "far"])
    expected = Constraints.from_triplets(table, X=POINTS, sample_id=names)
    same(Constraints.from_frame(table, X=POINTS, sample_id=names), expected)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"a": [0], "b": [1], "link": ["perhaps"]},
            "row 0: link 'perhaps' says neither that two points belong together",
        ),
        ({"a": [0], "b": [1], "link": [None]}, "row 0: link '' says neither"),
        ({"a": [0, 2, 3], "b": [1, 3, 4], "link": [1, 0, -1]}, "'link' holds both 0 and -1: which one"),
        ({"u": [3, 2], "v": [5, 3], "w": [1, 0]}, "column 'w' holds 0 and 1 only: call it link if"),
        ({"a": [0, 1], "b": [1, None]}, "row 1: 'sq_distance' needs a sample in column 'b', which is empty"),
        ({"a": [0, 1], "b": [1, 1]}, "row 1"),
        (
            {"a": [5], "b": [7], "Sq_Distance": [1.0]},
            "column 'Sq_Distance' needs the columns relation, i, j, bound and sense; the row sq_distance, a, b, 4, <= says",
        ),
        ({"a": ["u"], "b": ["v"], "dist": ["near"]}, "column 'dist' needs the columns relation"),
        ({"a": [0], "b": [1], "bound": [1.0]}, "column 'bound' needs the columns relation"),
        (
            {"a": [0]},
            "columns 'a' make no table of pairs or triplets, and there is no column 'relation'; pairs have two",
        ),
        ({"a": [0], "b": [1], "c": [2], "d": [3], "e": [4]}, "unknown columns 'a', 'b', 'c', 'd', 'e' make no table"),
        ({"0": [1], "7": [2]}, "'0' is no name of a column; the first line must hold names"),
    ],
)
def test_what_is_no_table_of_pairs(table, message):
    with pytest.raises(ValueError, match=message):
        Constraints.from_frame(table, X=POINTS)


def test_files_of_pairs(tmp_path):
    path = tmp_path / "pairs.csv"
    LINKED.assign(link=["must", "cannot", "must"]).to_csv(path, index=False)
    expected = Constraints.from_pairs(LINKED, [1, -1, 1], X=POINTS, random_state=0)
    same(read_constraints(path, X=POINTS), expected)
    with pytest.raises(TypeError, match=r"pairs.csv: pairs and triplets without bounds need X="):
        read_constraints(path)
    path.write_text("a,b,link\n0,1,must\n2,3,\n")
    with pytest.raises(ValueError, match="pairs.csv, line 3: link '' says neither"):
        read_constraints(path, X=POINTS)


def test_decimal_commas_where_cells_are_told_apart_otherwise(tmp_path):
    (tmp_path / "near.csv").write_text("a;b;similarity;weight\n0;1;1,5;2\n2;3;0.5;0,25\n")
    rows = read_constraints(tmp_path / "near.csv", X=POINTS)
    assert rows.sense.tolist() == [1, -1] and rows.weight.tolist() == [2.0, 0.25]


def test_bounds_from_points():
    X = POINTS * [1.0, 10.0, 100.0]
    rows = Constraints.sq_distance([0, 1], [2, 3], 1.0, ["<=", ">="]).with_bounds_from(X, percentiles=(10, 90))
    assert np.allclose(rows.bound, np.percentile(pairwise_distances(X)[np.triu_indices(9, 1)] ** 2, (10, 90)))
    for other in (
        Constraints.trace(1.0),
        rows + Constraints.comparison(0, 1, 0, 2),
        Constraints.sq_distance(0, 1, 1.0, "=="),
    ):
        with pytest.raises(ValueError, match="bounds from points are for pairs with"):
            other.with_bounds_from(X)


def test_rows_of_matrices_have_no_columns():
    c = Constraints.linear([np.eye(3)], 1.0, "<=") + Constraints.sq_distance(0, 1, 1.0, "<=")
    with pytest.raises(ValueError, match=r"'linear' have no column form; constraints \[0\]"):
        c.to_frame()
    assert [str(row) for row in c] == ["tr(K C_0) <= 1", "sq_dist(0, 1) <= 1"]


# ---------------------------------------------------------------- to be looked at
def test_rows_are_those_of_the_frame():
    c = every_kind(named=True)
    for row, record in zip(c, pl.from_pandas(c.to_frame()).iter_rows(named=True), strict=True):
        assert {name: getattr(row, name) for name in COLUMNS} == record
    assert [str(row).split(" (")[0] for row in c] == [c.describe(k) for k in range(c.n_constraints)]


def test_at_a_glance():
    lines = repr(every_kind(named=True)).splitlines()
    assert lines[0] == "Constraints: 9 rows between 7 samples"
    assert lines[1].split() == ["relation", "rows", "<=", ">=", "==", "hard", "bound", "weight"]
    assert lines[2].split() == ["sq_distance", "2", "1", "0", "1", "1", "0.3", "to", "2", "1"]
    assert lines[4].split() == ["comparison", "2", "2", "0", "0", "0", "-0.3333", "1"]
    assert len(lines) == 7 and max(map(len, lines)) <= 80
    html = Constraints.from_pairs([("<b>", "y")] + [("x", f"z{k}") for k in range(20)], 1, (1.0, 2.0))._repr_html_()
    assert "<b>, y" not in html and "sq_dist(&lt;b&gt;, y) &lt;= 1" in html and "and 11 more" in html


def test_scikit_learn_still_hands_them_over_whole():
    """Iteration alone makes nothing array-like: as many rows as X has are not sliced with it."""
    X, y = load_wine(return_X_y=True)
    c = constraints_from_labels(X, y, len(X), random_state=0)
    assert c.n_constraints == len(X) == len(list(c)) and not _is_arraylike(c)
    assert _check_method_params(X, {"constraints": c}, np.arange(9))["constraints"] is c
    learner = MetricLearner(n_constraints=0)
    search = GridSearchCV(learner, {"slack_weight": [1.0]}, cv=2, scoring=lambda e, X, y: e.n_dropped_constraints_)
    search.fit(X, y, constraints=c, sample_id=np.arange(len(X)))
    assert search.best_estimator_.constraints_.n_constraints == len(X) and search.best_score_ > 0
    assert clone(learner).fit(X, constraints=c).n_dropped_constraints_ == 0
    assert _safe_indexing(X, np.arange(3)).shape == (3, 13)


def test_names_that_no_row_has_are_told():
    rows = Constraints.from_pairs([("Wine-1", "wine-22"), ("wine-1", "beer")], 1, (1.0, 2.0))
    names = [f"wine-{k}" for k in range(9)]
    with pytest.raises(
        ValueError, match=r"2 name a sample that is not in sample_id \('Wine-1'; is it 'wine-1'\?, 'wine-22'; is"
    ):
        MetricLearner().fit(POINTS, constraints=rows, sample_id=names)
    with pytest.raises(ValueError, match=r"\(77; it has 0, 1, 2 and 6 more\), and no labels are used"):
        MetricLearner().fit(POINTS, constraints=Constraints.sq_distance(0, 77, 1.0, "<="), sample_id=np.arange(9))
