"""Estimators on points in blocks: the answers of memory, the same bits on threads."""

import pickle

import numpy as np
import pytest

from bregmat import Constraints, Factor, MetricLearner, nearest_kernel, nearest_metric
from bregmat.io import open_constraints, open_points
from sharded_cases import labelled_points, soft_problem, write_parquet, write_points


@pytest.fixture(scope="module")
def data():
    return labelled_points()


def test_bad_points_and_labels_are_named(data):
    X, y = data
    bad = X.copy()
    bad[207, 1] = np.nan
    with pytest.raises(ValueError, match="rows 200 to 299 of X: X must be finite; got NaN or infinity in row 7"):
        MetricLearner().fit(bad, y, block_size=100)
    with pytest.raises(ValueError, match="one label per row of X"):
        MetricLearner().fit(X, y[:-1], block_size=100)
    with pytest.raises(ValueError, match="continuous"):
        MetricLearner().fit(X, X[:, 0], block_size=100)
    with pytest.raises(ValueError, match="-1 and 1"):
        MetricLearner().fit(X, np.where(y == "a", -1, 1), block_size=100)


@pytest.mark.parametrize("kind", [list, np.ma.array])
def test_unknown_labels_are_those_of_memory(data, kind):
    X, y = data
    unknown = np.arange(len(y)) % 7 == 0
    names = [np.nan if skipped else str(name) for skipped, name in zip(unknown, y)]
    labels = names if kind is list else np.ma.array(np.unique(y, return_inverse=True)[1], mask=unknown)
    settings = {"strategy": "random", "prior": "identity", "slack_weight": 1.0, "random_state": 0}
    whole, blocks = (MetricLearner(**settings).fit(X, labels, **how).constraints_ for how in ({}, {"block_size": 150}))
    assert np.array_equal(blocks.index, whole.index) and not np.isin(blocks.index, np.flatnonzero(unknown)).any()


# ---------------------------------------------------------------------- metrics
DRAWS = (
    {"strategy": "random"},
    {"strategy": "random", "prior": "covariance", "n_constraints": 300},
    {"strategy": "neighbors", "prior": "variance", "n_impostors": 3},
    {"strategy": "neighbors", "prior": "variance", "n_impostors": 3, "n_components": 2},
    {"strategy": "neighbors", "prior": "variance", "n_impostors": 3, "n_constraints": 500},
)


@pytest.mark.slow
@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: " ".join(map(str, draw.values())))
def test_rows_drawn_in_blocks_are_those_of_memory(draw, data):
    X, y = data
    y = np.where(np.arange(len(y)) % 50 == 0, None, y.astype(object))  # some without a label
    settings = draw | {"random_state": 3, "tol": 1e-9}
    whole = MetricLearner(**settings).fit(X, y)
    first = MetricLearner(**settings).fit(X, y, block_size=150)
    assert np.array_equal(first.constraints_.index, whole.constraints_.index)
    np.testing.assert_allclose(first.constraints_.bound, whole.constraints_.bound, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(first.get_mahalanobis_matrix(), whole.get_mahalanobis_matrix(), rtol=1e-4, atol=1e-5)
    assert first.result_.status == "OPTIMAL"
    assert len(first.result_.dual) == first.constraints_.n_constraints
    other = MetricLearner(**settings).fit(X, y, block_size=150, executor=2)
    assert np.array_equal(other.components_, first.components_)
    assert np.array_equal(other.result_.dual, first.result_.dual)
    again = pickle.loads(pickle.dumps(first))
    assert np.array_equal(again.transform(X), first.transform(X))


@pytest.mark.slow
def test_passes_in_the_learned_metric(data, set_passes):
    set_passes(3)
    X, y = data
    settings = {"strategy": "neighbors", "prior": "variance", "slack_weight": 1.0, "random_state": 0}
    whole = MetricLearner(tol=1e-9, n_impostors=3, **settings).fit(X, y)
    blocks = MetricLearner(tol=1e-9, n_impostors=3, **settings).fit(X, y, block_size=150)
    assert [row.stage for row in blocks.result_.history][-1] == [row.stage for row in whole.result_.history][-1]
    np.testing.assert_allclose(blocks.get_mahalanobis_matrix(), whole.get_mahalanobis_matrix(), rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_points_that_coincide_and_points_alone(data):
    X, y = data
    X, y = np.vstack([X, X[:1], [[9.0] * 5]]), np.concatenate([y, ["b" if y[0] != "b" else "c", "d"]])
    for options in ({}, {"block_size": 150}):
        with pytest.warns(UserWarning) as caught:
            settings = {"strategy": "neighbors", "prior": "variance", "slack_weight": 1.0}
            MetricLearner(random_state=0, n_impostors=3, **settings).fit(X, y, **options)
        said = sorted(str(one.message) for one in caught)
        assert [text[:9] for text in said] == ["1 points ", "2 points "]
        assert said[0].endswith("(row 401).")
        assert said[1].endswith("(rows 0, 400).")


def test_constraints_in_files_without_labels(tmp_path):
    X, C = soft_problem()
    rows = open_constraints(write_parquet(tmp_path / "pairs", C))
    points = open_points(write_points(tmp_path / "points.npy", X))
    stored = MetricLearner(tol=1e-9).fit(points, constraints=rows)
    whole = MetricLearner(tol=1e-9).fit(X, constraints=C)
    np.testing.assert_allclose(stored.get_mahalanobis_matrix(), whole.get_mahalanobis_matrix(), rtol=1e-5, atol=1e-6)
    assert np.asarray(stored.result_.dual).shape == (C.n_constraints,)
    np.testing.assert_allclose(np.abs(stored.transform(X)), np.abs(whole.transform(X)), rtol=1e-3, atol=1e-3)


def test_constraints_beside_labels(data):
    X, y = data
    more = Constraints.sq_distance([0, 1], [5, 9], [4.0, 5.0], "<=")
    settings = {"strategy": "random", "random_state": 0, "tol": 1e-9}
    blocks = MetricLearner(**settings).fit(X, y, constraints=more, block_size=150)
    whole = MetricLearner(**settings).fit(X, y, constraints=more)
    assert blocks.constraints_.n_constraints == whole.constraints_.n_constraints
    np.testing.assert_allclose(blocks.get_mahalanobis_matrix(), whole.get_mahalanobis_matrix(), rtol=1e-4, atol=1e-5)


def test_what_blocks_do_not_take(data, tmp_path):
    X, y = data
    _, C = soft_problem(n=400, c=100)
    rows = open_constraints(write_parquet(tmp_path / "pairs", C))
    for given, said in (
        ({"y": y, "sample_weight": np.ones(len(X))}, "sample_weight is not taken"),
        ({"y": y, "sample_id": np.arange(len(X))}, "sample_id is not taken"),
        ({"y": y, "constraints": rows}, "must be in memory to be joined"),
        ({"y": y, "executor": "dask"}, "executor must be .*; got str"),
    ):
        with pytest.raises(TypeError, match=said):
            MetricLearner().fit(X, block_size=100, **given)
    with pytest.raises(ValueError, match="warm_start=True is not taken"):
        MetricLearner(warm_start=True).fit(X, y, block_size=100)
    with pytest.raises(ValueError, match="requires y"):
        MetricLearner().fit(X, block_size=100)


# ---------------------------------------------------------------------- maps
def test_blocks_of_dask_are_mapped_by_dask(data):
    import dask.array

    X, y = data
    learner = MetricLearner(random_state=0, strategy="random").fit(X, y)
    lazy = dask.array.from_array(X, chunks=(100, 5)).map_blocks(learner.transform, dtype=float)
    # a product of fewer rows may be summed in another order, as the processor has it: equal but for rounding
    np.testing.assert_allclose(lazy.compute(), learner.transform(X), rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------------- kernels
def test_a_kernel_from_a_factor_in_blocks(tmp_path):
    G, C = soft_problem()
    whole = nearest_kernel(Factor(G), C, slack_weight=1.0, tol=1e-10)
    stored = open_points(write_points(tmp_path / "factor.npy", G))
    for G0 in (G, stored):
        found = nearest_metric(G0, C, slack_weight=1.0, tol=1e-10, block_size=1000)
        assert found.objective == pytest.approx(whole.objective, rel=1e-9)
        F = found.transform(G)
        np.testing.assert_allclose(F @ F.T, whole.kernel(), rtol=1e-4, atol=1e-4)
