"""Rows on the workers of a real cluster: the same bits as without one, killed workers and drivers."""

import os
import pickle
import signal
import threading
import time

import dask
import dask.array
import numpy as np
import pytest
from distributed import Client, LocalCluster

import bregmat
from bregmat import LogDet, MetricLearner, nearest_metric
from bregmat.io import open_constraints, open_points
from bregmat.sharded import cluster as cluster_module
from bregmat.sharded.expressions import Expression
from bregmat.sharded.nearest import sharded_coordinates
from bregmat.sharded.shard_rows import ShardSettings
from bregmat.sharded.sources import LazyConstraints, constraint_sources
from sharded_cases import KINDS, labelled_points, soft_problem, write_parquet, write_points

# the warnings of Dask come in other threads, while workers are killed
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def local_cluster(n_workers):
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None, silence_logs=50)


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(2) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


def problems():
    for divergence in KINDS:
        yield {"divergence": divergence, "slack_weight": 1.0}, *soft_problem(n=80, d=4, c=600)


def test_the_same_bits_on_1_2_and_4_workers_on_threads_and_without_a_cluster(client, cluster):
    alone = [nearest_metric(X, C, block_size=150, tol=1e-5, **settings) for settings, X, C in problems()]
    for k in ("threads", 1, 2, 4):
        executor = 2 if k == "threads" else only(client, cluster, k)
        for first, (settings, X, C) in zip(alone, problems()):
            other = nearest_metric(X, C, block_size=150, tol=1e-5, executor=executor, **settings)
            assert np.array_equal(first.metric(), other.metric())
            assert (first.objective, first.dual_bound) == (other.objective, other.dual_bound)
            assert np.array_equal(np.asarray(first.dual), np.asarray(other.dual))
    only(client, cluster, 2)


def only(client, cluster, k):
    """The client, once its cluster has k workers."""
    cluster.scale(k)
    deadline = time.monotonic() + 60
    while len(client.scheduler_info(n_workers=-1)["workers"]) != k:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return client


def test_killed_workers_change_nothing(client, cluster, tmp_path):
    """Ten workers are killed at moments of their own; their shards are read from the files again."""
    X, C = soft_problem(n=100, d=4, c=800)
    rows = open_constraints(write_parquet(tmp_path / "pairs", C, rows=200))
    points = open_points(write_points(tmp_path / "points.npy", X))
    settings = {"slack_weight": 1.0, "divergence": "vonneumann", "tol": 1e-9}
    alone = nearest_metric(points, rows, **settings)
    killed, done = [], threading.Event()

    def kill():
        rng = np.random.default_rng(0)
        while not done.is_set() and len(killed) < 10:
            pids = [worker.pid for worker in list(cluster.workers.values()) if getattr(worker, "pid", None)]
            if pids:
                os.kill(pids[rng.integers(len(pids))], signal.SIGKILL)
                killed.append(pids)
            done.wait(rng.uniform(0.1, 0.6))

    killer = threading.Thread(target=kill)
    killer.start()
    runs = 0
    try:
        while len(killed) < 10 or not runs:
            result = nearest_metric(points, rows, executor=client, **settings)
            assert np.array_equal(result.metric(), alone.metric())
            runs += 1
    finally:
        done.set()
        killer.join()
    assert len(killed) == 10


def test_what_travels_is_read_again_or_copied():
    """Arrays from a message need not be aligned, and compiled loops then add in another order."""
    X, C = soft_problem(n=50, d=4, c=100)
    settings = ShardSettings.of(sharded_coordinates(X, None, LogDet()), LogDet(), None, 1.0, 100)
    shard = cluster_module.WorkerShard(settings, *constraint_sources(C, 100), X, 0)
    shard.cache("key", 1)
    moved = pickle.loads(pickle.dumps(shard))
    assert moved.cached("key") is None
    assert np.array_equal(moved.rows.unit, shard.rows.unit)
    shifted = np.frombuffer(b"x" + X.tobytes(), dtype=np.uint8)[1:].view(float).reshape(X.shape)
    assert not shifted.flags.aligned
    expression = Expression(np.add, 1.0, 2.0)
    expression.__setstate__(vars(expression) | {"args": (shifted, 1.0)})
    assert expression.args[0].flags.aligned
    assert np.array_equal(expression.args[0], X)


def test_two_clients_at_once(client, cluster):
    found = {}
    X, C = soft_problem(n=100, d=4, c=600)

    def learn(name, slack):
        with Client(cluster.scheduler_address, set_as_default=False) as own:
            found[name] = nearest_metric(X, C, slack_weight=slack, block_size=300, executor=own).metric()

    threads = [threading.Thread(target=learn, args=(k, slack)) for k, slack in enumerate((0.1, 1.0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, slack in enumerate((0.1, 1.0)):
        assert np.array_equal(found[k], nearest_metric(X, C, slack_weight=slack, block_size=300).metric())


def test_columns_of_a_result_are_fetched(client, tmp_path):
    for settings, X, C in problems():
        alone = nearest_metric(X, C, block_size=150, tol=1e-5, **settings)
        found = nearest_metric(X, C, block_size=150, tol=1e-5, executor=client, **settings)
        for name in ("dual", "values", "violation"):
            column = getattr(found, name)
            assert column.shape == (C.n_constraints,)
            assert np.array_equal(np.asarray(column), np.asarray(getattr(alone, name)))
        assert float(abs(found.dual).sum()) == pytest.approx(float(np.abs(alone.dual).sum()))
        repr(found), found._repr_html_()
    bregmat.save(tmp_path / "model.breg", found)
    assert np.array_equal(bregmat.load(tmp_path / "model.breg").metric(), found.metric())


def learned(**how):
    """What metrics from blocks consist of, as arrays."""
    X, y = labelled_points(n=120)
    found = []
    for divergence, strategy in zip(KINDS, ("random", "neighbors")):
        settings = {"divergence": divergence, "strategy": strategy, "slack_weight": 1.0, "n_impostors": 2}
        learner = MetricLearner(random_state=0, **settings).fit(X, y, block_size=60, **how)
        found += [learner.components_, learner.result_.dual]
    return found


def test_estimators_have_the_same_bits_on_1_and_4_workers(client, cluster):
    alone = learned()
    on_threads = learned(executor=2)
    on_one = learned(executor=only(client, cluster, 1))
    on_four = learned(executor=only(client, cluster, 4))
    for found in (on_threads, on_one, on_four):
        for one, other in zip(alone, found, strict=True):
            assert np.array_equal(one, other)


def test_faults_come_from_the_workers(client, tmp_path):
    X, C = soft_problem(c=1000)
    rows = open_constraints(write_parquet(tmp_path / "pairs", C, bound=(700, np.nan)))
    with pytest.raises(ValueError, match="1.parquet, row group 0: .*bound must be finite; got nan in constraint 200"):
        nearest_metric(X, rows, slack_weight=1.0, executor=client)


class Hungry(LazyConstraints):
    """Constraints whose shard takes more memory to read than a worker may have."""

    def shards(self, block_size):
        return [Hungry()]

    count, place = 1000, "rows 0 to 999"

    def read(self):
        mine = [np.ones(2**20)]  # 8 MB at a time, so that the limit is seen before the machine is short of memory
        while sum(len(some) for some in mine) < 2**29:
            mine.append(np.ones(2**20))
            time.sleep(0.005)
        raise AssertionError("nobody stopped it")


def test_a_worker_short_of_memory(monkeypatch):
    """It is killed each time it takes up the shard: an error that says what to change, and no hang."""
    monkeypatch.setattr(cluster_module, "MAX_RELOADS", 1)
    X, _ = soft_problem(c=1000)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="400MB", dashboard_address=None, silence_logs=50
        ) as c,
        Client(c) as client,
        pytest.raises(MemoryError, match="smaller block_size"),
    ):
        nearest_metric(X, Hungry(), slack_weight=1.0, executor=client)
