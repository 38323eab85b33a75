"""Few pairs told to the points near their ends."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import bregmat as bm


def rows_of(constraints):
    """{(p, q): sense} of the rows that were added, which have the weight 0.1."""
    added = constraints.weight == 0.1
    ends = np.sort(constraints.index[added, :2].astype(int), axis=1).tolist()
    return dict(zip(map(tuple, ends), constraints.sense[added].tolist()))


def test_pairs_are_told_to_points_near_both_ends():
    X = np.array([0.0, 0.2, 0.9, 1.0, 1.1])[:, None]  # 2 is nearer to 3 than anything is to 0 but 1
    given = bm.Constraints.sq_distance([0], [3], [0.5], "<=")
    assert rows_of(bm.spread_pairs(X, given, n_neighbors=2, reach=0.35)) == dict.fromkeys(
        [(1, 3), (0, 2), (0, 4), (1, 2), (1, 4)], 1
    )
    assert rows_of(bm.spread_pairs(X, given, n_neighbors=2, reach=0.15)) == dict.fromkeys([(0, 2), (0, 4)], 1)
    same = bm.spread_pairs(csr_array(X), given, n_neighbors=2, reach=0.35)
    assert same.bound[1:] == pytest.approx(0.5 * (X[same.index[1:, 0], 0] - X[same.index[1:, 1], 0]) ** 2)
    assert same.n_constraints == 6 and same.weight[0] == 1


def test_pairs_that_are_entailed_tell_as_well():
    X = np.array([[0.0, 0], [0, 1], [9, 0], [9, 1], [0, 0.1], [9, 0.9]])
    given = bm.Constraints.sq_distance([0, 2, 0], [1, 3, 2], [0.5, 0.5, 90.0], ["<=", "<=", ">="])
    rows = rows_of(bm.spread_pairs(X, given, n_neighbors=1, reach=0.5))
    apart = [(0, 5), (1, 5), (2, 4), (3, 4), (4, 5)]  # 4 is near 0 and 1, 5 near 2 and 3
    assert rows == dict.fromkeys([(1, 4), (2, 5)], 1) | dict.fromkeys(apart, -1)


def test_what_is_told_both_ways_goes_by_the_majority():
    X = np.array([0.0, 0.01, 0.02, 1.0, 1.01])[:, None]
    given = bm.Constraints.sq_distance([0, 1, 2], [3, 3, 3], [0.5, 0.5, 2.0], ["<=", "<=", ">="])
    rows = rows_of(bm.spread_pairs(X, given, n_neighbors=2, reach=0.1))
    assert rows == {(0, 4): 1, (1, 4): 1, (2, 4): 1}  # two to one; 0 to 3 and 2 to 3 are entailed
    rows = rows_of(bm.spread_pairs(X, given.select([1, 2]), n_neighbors=2, reach=0.1))
    assert (1, 4) not in rows and (2, 4) not in rows  # one to one


def test_units_and_other_rows_change_nothing(rng):
    X = rng.normal(size=(40, 3))
    given = bm.Constraints.sq_distance(
        np.arange(9), np.arange(1, 10), np.ones(9), np.where(np.arange(9) % 3, "<=", ">=")
    )
    own = bm.spread_pairs(X, given)
    scaled = bm.spread_pairs(
        1e6 * X, bm.Constraints.sq_distance(*given.index.T[:2], 1e12, np.where(given.sense > 0, "<=", ">="))
    )
    assert np.array_equal(own.index, scaled.index) and np.allclose(own.bound * 1e12, scaled.bound)
    beside = bm.spread_pairs(X, given + bm.Constraints.comparison([0], [1], [0], [2]))
    assert beside.n_constraints == own.n_constraints + 1
    assert bm.spread_pairs(X, given, reach=1e-9).n_constraints == 9


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (bm.Constraints.sq_distance(["a"], ["b"], 1.0, "<="), "number"),
        (bm.Constraints.sq_distance([0], [1], 1.0, "=="), "<= or >="),
        (bm.Constraints.trace(1.0), "<= or >="),
        (bm.Constraints.sq_distance([0], [2], 1.0, "<="), "coincide"),
        (bm.Constraints.sq_distance([0], [7], 1.0, "<="), "constraints name samples up to 7"),
    ],
)
def test_rows_that_cannot_be_spread_are_named(rows, message):
    with pytest.raises(ValueError, match=message):
        bm.spread_pairs(np.array([[0.0], [1.0], [0.0]]), rows)
