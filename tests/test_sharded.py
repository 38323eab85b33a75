"""Rows that are spread over shards: the same answers as one operator, the same bits however they are worked on, files and their faults."""

import os

import numpy as np
import pytest

import bregmat
from bregmat import Constraints, Factor, LogDet, MetricLearner, nearest_kernel, nearest_metric
from bregmat.io import open_constraints, open_points, read_constraints, write_constraints
from bregmat.io.stored import StoredPoints
from bregmat.operators import linear_maps
from bregmat.operators.binding import bind
from bregmat.operators.linear_maps import PairGraph, drawn_numbers
from bregmat.sharded.expressions import FAN_IN, tree_reduce
from bregmat.sharded.local import LocalShards
from bregmat.sharded.nearest import sharded_coordinates
from bregmat.sharded.operators import ShardedOperator
from bregmat.sharded.points import PointsInBlocks
from bregmat.sharded.shard_rows import ShardSettings
from bregmat.sharded.sources import constraint_sources
from bregmat.solvers import mirror_newton, sampled_newton
from sharded_cases import KINDS, labelled_points, soft_problem, write_parquet, write_points


def mixed_rows():
    """Distances, comparisons and a trace."""
    X, C = soft_problem(n=90, d=9, c=700)
    i, j = C.index[:, 0], C.index[:, 1]
    return X, C + Constraints.comparison(i[:200], j[:200], i[200:400], j[200:400], margin=0.5) + Constraints.trace(40.0)


# ---------------------------------------------------------------------- the seam
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_sharded_operator_is_the_operator(is_shared, rng):
    X, C = mixed_rows()
    coordinates = sharded_coordinates(X, None, LogDet())
    settings = ShardSettings.of(coordinates, LogDet(), "squared_hinge", 1.0, 400 if is_shared else 40)
    assert settings.is_shared == is_shared
    shards = LocalShards(settings, constraint_sources(C, 130), X)
    op, whole = ShardedOperator(shards, 9), bind(C, X)
    assert op.c == whole.c == C.n_constraints
    F, w = rng.normal(size=(9, 9)), rng.normal(size=op.c)
    M = F @ F.T
    p = op.congruence(F).values_diagonal(None)
    np.testing.assert_allclose(np.asarray(p), whole.values(M), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.asarray(op.values(M)), np.asarray(p), rtol=1e-12, atol=1e-12)
    on = np.flatnonzero(np.abs(p) > 9.0)
    some = np.abs(np.asarray(p)) > 9.0
    assert len(on) == some.sum() == op.restrict(on).c
    np.testing.assert_allclose(
        op.restrict(on).adjoint(p[on]), whole.adjoint(np.where(some, np.asarray(p), 0.0)), rtol=1e-12, atol=1e-9
    )
    assert (op.extents(np.abs(p)) >= np.abs(np.diag(op.adjoint(p)))).all()
    with pytest.raises(TypeError):
        _ = p + w
    assert float(np.abs(p) @ p) == pytest.approx(float(np.abs(np.asarray(p)) @ np.asarray(p)), rel=1e-12)
    assert w.shape == p.shape


def test_partial_results_are_combined_in_their_order():
    parts = [str(k) for k in range(FAN_IN * FAN_IN + 3)]
    assert tree_reduce(parts, lambda a, b: a + b) == "".join(parts)
    depth = tree_reduce([0] * (FAN_IN + 1), lambda a, b: max(a, b) + 1)
    assert depth == FAN_IN  # one node of FAN_IN, and one of two: never a chain of all


@pytest.mark.parametrize("divergence", KINDS)
def test_soft_rows_in_blocks_are_soft_rows_in_memory(divergence):
    X, C = soft_problem()
    settings = {"divergence": divergence, "slack_weight": 1.0, "solver": "mirror_newton", "tol": 1e-9}
    whole = nearest_metric(X, C, **settings)
    assert np.array_equal(nearest_metric(X, C, block_size=3000, **settings).metric(), whole.metric())
    blocks = nearest_metric(X, C, block_size=428, **settings)
    np.testing.assert_allclose(blocks.metric(), whole.metric(), rtol=1e-12, atol=1e-12)
    assert (blocks.status, blocks.n_iter) == (whole.status, whole.n_iter)
    assert blocks.gap == pytest.approx(whole.gap, abs=1e-10)
    for name in ("dual", "values", "violation"):
        np.testing.assert_allclose(np.asarray(getattr(blocks, name)), getattr(whole, name), rtol=1e-10, atol=1e-10)
    threads = nearest_metric(X, C, block_size=428, executor=3, **settings)
    assert np.array_equal(threads.metric(), blocks.metric())
    assert threads.dual_bound == blocks.dual_bound


def test_large_products_and_vectors_of_pairs():
    """float32 products, the Gaussian preconditioner, points that are shared, and shards that are put away and taken out again."""
    X, C = soft_problem(n=120, d=40, c=6000)
    whole = nearest_metric(X, C, slack_weight=0.1)
    blocks = nearest_metric(X, C, slack_weight=0.1, block_size=2000)
    assert whole.n_iter == blocks.n_iter
    assert blocks.status == "OPTIMAL"
    np.testing.assert_allclose(blocks.metric(), whole.metric(), rtol=1e-6, atol=1e-6)


# ---------------------------------------------------------------------- a sample first
def test_a_row_is_drawn_by_its_number_alone():
    whole = drawn_numbers(0, 100_000, 0.125)
    assert abs(len(whole) - 12_500) < 4 * np.sqrt(12_500)
    later = drawn_numbers(30_000, 70_000, 0.125)
    assert np.array_equal(later + 30_000, whole[whole >= 30_000])
    assert np.isin(drawn_numbers(0, 100_000, 0.125 / 8), whole).all()
    gaps = np.bincount(np.minimum(np.diff(whole), 60))[1:40] / len(whole)
    np.testing.assert_allclose(gaps, 0.125 * 0.875 ** np.arange(39), atol=0.01)  # geometric, as of independent draws


@pytest.mark.slow
@pytest.mark.parametrize("divergence", KINDS)
def test_many_rows_start_from_a_sample_of_them(divergence, monkeypatch):
    X, C = soft_problem(c=20_000)
    settings = {"divergence": divergence, "slack_weight": 1.0, "solver": "mirror_newton", "tol": 1e-9}
    cold = nearest_metric(X, C, **settings)
    monkeypatch.setattr(mirror_newton, "SAMPLE_FROM", 1000)
    seen = []
    state_at = mirror_newton.state_at
    for module in (mirror_newton, sampled_newton):
        monkeypatch.setattr(
            module, "state_at", lambda problem, *args: seen.append(problem.c) or state_at(problem, *args)
        )
    found = nearest_metric(X, C, **settings)
    assert found.status == "OPTIMAL"
    assert found.objective == pytest.approx(cold.objective, rel=2e-9)
    assert found.dual_bound <= cold.objective
    assert 2000 < seen[0] < 3000
    assert seen.count(20_000) <= cold.n_iter + 1 - (divergence == "logdet")  # steps for all rows
    blocks = nearest_metric(X, C, block_size=3000, **settings)
    assert (blocks.n_iter, blocks.status) == (found.n_iter, found.status)
    np.testing.assert_allclose(blocks.metric(), found.metric(), rtol=1e-9, atol=1e-9)
    threads = nearest_metric(X, C, block_size=3000, executor=3, **settings)
    assert np.array_equal(threads.metric(), blocks.metric())


def test_a_sample_that_is_fitted_too_well_is_no_start(monkeypatch):
    """Three rows an entry: their solution is worse than the prior for all rows, and Newton's method is long in leaving it."""
    X, C = soft_problem(c=6000)
    settings = {"slack_weight": 1.0, "solver": "mirror_newton"}
    cold = nearest_metric(X, C, **settings)
    for name, few in (("SAMPLE_FROM", 1000), ("ROWS_PER_ENTRY", 100), ("SAMPLE_SHARE", 0.02)):
        monkeypatch.setattr(mirror_newton, name, few)
    found = nearest_metric(X, C, **settings)
    assert found.status == "OPTIMAL"
    assert found.objective == pytest.approx(cold.objective, rel=1e-6)
    assert found.n_iter <= cold.n_iter + 4 + sampled_newton.SAMPLE_STEPS


def test_a_run_that_ends_on_a_sample_is_certified_on_all_rows(monkeypatch):
    X, C = soft_problem(c=6000)
    for name, few in (("SAMPLE_FROM", 1000), ("ROWS_PER_ENTRY", 80)):
        monkeypatch.setattr(mirror_newton, name, few)
    for limit in (0, 1, 3):
        result = nearest_metric(X, C, slack_weight=1.0, solver="mirror_newton", max_iter=limit)
        assert result.exit_reason == "MAX_ITER"
        assert len(result.values) == 6000
        assert bregmat.verify(result, X=X, constraints=C, slack_weight=1.0).holds
    blocks = nearest_metric(X, C, slack_weight=1.0, max_iter=3, block_size=950)
    assert blocks.objective == pytest.approx(result.objective, rel=1e-9)


@pytest.mark.parametrize("n", [3000, 200_000])
def test_gathers_in_their_own_order_give_the_same_values(n, rng, monkeypatch):
    Z = rng.normal(size=(n, 6))
    a, b = rng.integers(n, size=(2, 40_000)).astype(np.int32)
    X = rng.normal(size=(6, 6))
    X += X.T
    plain = PairGraph(Z, a, b, np.full(40_000, -1, np.int8))
    assert plain._ordered()[0] is None
    monkeypatch.setattr(linear_maps, "SORTED_WORK", 0)
    monkeypatch.setattr(linear_maps, "NEAR_BYTES", 10_000)
    sorted_ = PairGraph(Z, a, b, np.full(40_000, -1, np.int8))
    assert np.array_equal(np.sort(sorted_._ordered()[0]), np.arange(40_000))
    assert np.array_equal(sorted_.values(X), plain.values(X))
    assert np.array_equal(sorted_.values_diagonal(None), plain.values_diagonal(None))
    assert sorted_.congruence(X)._order is sorted_._order


def test_squared_lengths_are_worked_out_once(rng):
    Z = rng.normal(size=(40, 9))
    a, b = rng.integers(40, size=(2, 500)).astype(np.int32)
    op = PairGraph(Z, a, b, np.full(500, -1, np.int8))
    p = op.values_diagonal(None)
    assert op.values_diagonal(np.ones(9)) is p
    assert op.congruence(np.eye(9)) is op
    rows = np.arange(0, 500, 3)
    assert np.array_equal(op.restrict(rows).values_diagonal(None), p[rows])
    np.testing.assert_allclose(op.values_diagonal(np.full(9, 4.0)), 4.0 * p)


# ---------------------------------------------------------------------- files
def test_files_are_what_is_in_them(tmp_path):
    X, C = soft_problem(c=1000)
    points = open_points(write_points(tmp_path / "points.npy", X))
    assert points.shape == X.shape
    assert np.array_equal(points[5:8], X[5:8])
    assert np.array_equal(points[np.array([0, 71, 299])], X[[0, 71, 299]])
    reference = nearest_metric(X, C, slack_weight=1.0, block_size=500)
    rows = open_constraints(write_parquet(tmp_path / "pairs", C))
    assert rows.n_constraints == C.n_constraints
    result = nearest_metric(points, rows, slack_weight=1.0, block_size=500)
    assert np.array_equal(result.metric(), reference.metric())
    few = nearest_metric(points, rows, slack_weight=1.0, block_size=100)  # a shard keeps the points that it touches
    np.testing.assert_allclose(few.metric(), reference.metric(), rtol=1e-12, atol=1e-12)


def test_kernels_from_files_are_those_of_a_metric(tmp_path):
    X, C = soft_problem(c=1000)
    points, rows = (
        open_points(write_points(tmp_path / "points.npy", X)),
        open_constraints(write_parquet(tmp_path / "pairs", C)),
    )
    for prior, constraints in ((Factor(points), C), (Factor(X), rows)):
        with pytest.raises(TypeError, match=r"nearest_metric\(G0, constraints\) solves the same"):
            nearest_kernel(prior, constraints, slack_weight=1.0)


def replaced(path, X):
    other = path.with_name("other" + path.suffix)
    np.save(other, X)
    os.replace(other, path)


def written_to(path, X):
    mapped = np.load(path, mmap_mode="r+")
    mapped[:] = X
    mapped.flush()


@pytest.mark.parametrize("change", [replaced, written_to])
def test_points_that_change_during_a_run_are_no_points(change, tmp_path, monkeypatch):
    """Else the first blocks would be those of one file and the last ones those of another."""
    X, C = soft_problem(c=1000)
    path = write_points(tmp_path / "points.npy", X)
    points, read, calls = open_points(path), StoredPoints._read, []

    def read_and_change(self, rows):
        calls.append(rows)
        found = read(self, rows)
        if len(calls) == 2:
            change(path, X[::-1])
        return found

    monkeypatch.setattr(StoredPoints, "_read", read_and_change)
    with pytest.raises(ValueError, match=r"points\.npy: the file has changed since it was opened"):
        nearest_metric(points, C, slack_weight=1.0, block_size=100)
    assert len(calls) == 2
    with pytest.raises(ValueError, match="has changed"):
        points[:2]
    assert np.array_equal(open_points(path)[:2], X[::-1][:2])


@pytest.mark.parametrize("change", [replaced, written_to])
@pytest.mark.parametrize("kind", ["points", "view", "factor", "learner"])
def test_a_memory_map_that_changes_during_a_call_is_no_array(kind, change, tmp_path):
    X, C = soft_problem(c=300)
    path = write_points(tmp_path / "points.npy", X)

    def call(callback):
        mapped = np.load(path, mmap_mode="r")
        if kind == "factor":
            return nearest_kernel(Factor(mapped), C, callback=callback)
        if kind == "learner":
            y = np.arange(len(X)) % 5
            return MetricLearner(strategy="neighbors", prior="identity", callback=callback).fit(mapped, y)
        return nearest_metric(np.asarray(mapped)[:] if kind == "view" else mapped, C, callback=callback)

    call(None)
    with pytest.raises(ValueError, match=r"points\.npy: the file has changed during the call"):
        call(lambda record: change(path, X[::-1]) if record.iteration == 1 else None)


def test_constraints_that_change_during_a_run_are_none(tmp_path):
    _, C = soft_problem(c=1000)
    folder = write_parquet(tmp_path / "pairs", C)
    first, *_, last = open_constraints(folder).shards(300)
    kept = first.read()
    bound = kept.bound.copy()
    write_parquet(folder, C, rows=400)
    with pytest.raises(ValueError, match=r"1\.parquet: the file has changed since it was opened"):
        last.read()
    assert np.array_equal(kept.bound, bound)
    (folder / "1.parquet").unlink()
    with pytest.raises(ValueError, match=r"1\.parquet.*the file"):
        last.read()


FAULTS = {
    "bound": (1700, np.nan, "1.parquet, row group 0: .*bound must be finite; got nan in constraint 200"),
    "i": (2100, 999, "1.parquet, row group 1: .* 999 .* constraint 100"),
    "j": (3, -4, "0.parquet, row group 0: .*j must be at least 0 where it holds numbers; got -4 in constraint 3"),
    "sense": (2999, "<", "1.parquet, row group 2: .*sense must be .*; got '<' in constraint 499"),
    "relation": (10, "nonsense", "0.parquet, row group 0: relation must be .*; got 'nonsense'"),
}


@pytest.mark.parametrize("column", FAULTS)
def test_faults_name_file_and_row_group(column, tmp_path):
    X, C = soft_problem()
    row, value, said = FAULTS[column]
    rows = open_constraints(write_parquet(tmp_path / "pairs", C, **{column: (row, value)}))
    with pytest.raises(ValueError, match=said):
        nearest_metric(X, rows, slack_weight=1.0)


def test_relations_may_be_mixed_in_a_file(tmp_path):
    _, C = mixed_rows()
    C = C.select(np.random.default_rng(0).permutation(C.n_constraints))
    C.to_frame().to_parquet(tmp_path / "mixed.parquet")
    write_constraints(tmp_path / "written.parquet", C)
    write_constraints(tmp_path / "pairs.parquet", C.select(C.where("is_sq_distance")))
    for path, expected in (
        ("mixed.parquet", C),
        ("written.parquet", C),
        ("pairs.parquet", C.select(C.where("is_sq_distance"))),
    ):
        (shard,) = open_constraints(tmp_path / path).shards(10_000)
        for back in (shard.read(), read_constraints(tmp_path / path)):
            for name in ("index", "bound", "sense", "weight"):
                assert np.array_equal(getattr(back, name), getattr(expected, name))
            assert back.to_frame().equals(expected.to_frame())


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("k", 3.0, "'sq_distance' takes no sample in column 'k'"),
        ("i", np.nan, "with the relation 'sq_distance', counted from 0: i must hold row .*; got nan in constraint 0"),
        ("weight", 0.0, "weight must be positive"),
        ("relation", None, "row 0: the relation is empty"),
    ],
)
def test_bad_cells_of_a_file(column, value, said, tmp_path):
    frame = Constraints.sq_distance([0, 1], [2, 3], 4.0, "<=").to_frame().astype({"i": float, "k": float})
    frame.loc[0, column] = value
    frame.to_parquet(tmp_path / "bad.parquet")
    (shard,) = open_constraints(tmp_path / "bad.parquet").shards(10)
    with pytest.raises(ValueError, match=said):
        shard.read()


def test_a_shard_that_cannot_be_read(tmp_path):
    X, C = soft_problem()
    folder = write_parquet(tmp_path / "pairs", C)
    rows, path = open_constraints(folder), folder / "1.parquet"
    raw = bytearray(path.read_bytes())
    raw[100:4000] = bytes(3900)
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="1.parquet, row group 0: .*damaged"):
        nearest_metric(X, rows, slack_weight=1.0)
    X[17, 2] = np.nan
    with pytest.raises(ValueError, match="row 17"):
        nearest_metric(open_points(write_points(tmp_path / "p.npy", X)), C, slack_weight=1.0)


def test_a_run_goes_on_from_a_saved_result(tmp_path):
    X, C = soft_problem()
    whole = nearest_metric(X, C, slack_weight=1.0, block_size=500)
    bregmat.save(tmp_path / "run.breg", nearest_metric(X, C, slack_weight=1.0, block_size=500, max_iter=3))
    halfway = bregmat.load(tmp_path / "run.breg")
    again = nearest_metric(X, C, slack_weight=1.0, block_size=500, warm_start=halfway)
    assert 0 < again.n_iter < whole.n_iter
    np.testing.assert_allclose(again.metric(), whole.metric(), rtol=1e-6, atol=1e-6)


def test_a_trace_is_a_row_of_all_points(tmp_path):
    """Also if a shard has only the points of its rows."""
    X, C = soft_problem(c=100)
    C += Constraints.trace(40.0)
    points = open_points(write_points(tmp_path / "points.npy", X))
    whole = nearest_metric(X, C, slack_weight=1.0, tol=1e-9)
    blocks = nearest_metric(points, C, slack_weight=1.0, tol=1e-9, block_size=40)
    np.testing.assert_allclose(blocks.metric(), whole.metric(), rtol=1e-6, atol=1e-6)


# ---------------------------------------------------------------------- what is refused
def test_what_is_missing_is_named(tmp_path):
    X, C = soft_problem()
    mixed = C + Constraints.sq_distance([0], [1], [9.0], ["<="], weight=np.inf)
    for given, error, said in (
        ({"constraints": mixed}, TypeError, "sharded constraints must be soft"),
        ({"slack_weight": np.inf}, TypeError, "give a finite slack_weight"),
        ({"solver": "dual_newton"}, TypeError, "mirror_newton"),
        ({"slack_weight": np.ones(C.n_constraints)}, TypeError, "slack_weight must be one number"),
        ({"block_size": 0}, ValueError, "block_size must be at least 1; got 0"),
        ({"executor": "threads"}, TypeError, "executor must be .*; got str"),
        ({"executor": 0}, ValueError, "executor must be at least 1; got 0"),
    ):
        with pytest.raises(error, match=said):
            nearest_metric(X, **{"constraints": C, "slack_weight": 1.0, "block_size": 500} | given)


def test_columns_stay_where_they_are():
    import pickle

    X, C = soft_problem()
    result = nearest_metric(X, C, slack_weight=1.0, block_size=500)
    assert "kept with the shards" in repr(result.dual)
    assert result.dual.shape == (C.n_constraints,)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(result.dual)
    assert "OPTIMAL" in repr(result)
    assert "objective" in result._repr_html_()


def test_points_in_blocks_are_the_points(tmp_path):
    X, _ = labelled_points()
    for source in (X, open_points(write_points(tmp_path / "p.npy", X))):
        points = PointsInBlocks(source, block_size=70)
        rows = np.array([399, 3, 3, 120])
        assert points.shape == X.shape
        assert np.array_equal(points[rows], X[rows])
        assert np.array_equal(points[5:300:7], X[5:300:7])
        squares, mean = points.moments()
        np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(squares, (X * X).mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(points.scatter()[0], np.cov(X.T) * (len(X) - 1), rtol=1e-12, atol=1e-10)
