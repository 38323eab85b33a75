"""What Dask costs: milliseconds of a map and reduction in this process and on a cluster of this machine, side by side.

    python benchmarks/bench_dask.py                # steps at r = 100, then whole problems by workers and by rows
    python benchmarks/bench_dask.py --steps-only

A step is the adjoint of the values of all rows, as in a product of conjugate gradients: a matrix of order r is sent to the shards, and one
comes back. Turns in this process and on the cluster alternate, so that both see the same load of the machine. The table shows medians,
and the CPU time of this process, which also runs the scheduler. Both columns contain the arithmetic of the rows. With few rows the
difference is what Dask adds.
"""

from __future__ import annotations

import argparse
import os
import time

import harness
import numpy as np
from distributed import Client, LocalCluster

import bregmat
from bregmat.objective.divergences import LogDet
from bregmat.sharded.cluster import ClusterShards
from bregmat.sharded.local import LocalShards
from bregmat.sharded.nearest import sharded_coordinates
from bregmat.sharded.operators import ShardedOperator
from bregmat.sharded.shard_rows import ShardSettings
from bregmat.sharded.sources import constraint_sources

MOST_MS = 25.0  # that a step on the cluster may take longer


def problem(points: int, rank: int, pairs: int) -> tuple[np.ndarray, bregmat.Constraints]:
    """Clusters of points, and bounds on distances of random pairs."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(10, size=points)
    X = 3.0 * rng.normal(size=(10, rank))[kinds] / np.sqrt(rank) + rng.normal(size=(points, rank))
    i = rng.integers(points, size=pairs)
    j = (i + 1 + rng.integers(points - 1, size=pairs)) % points
    same = kinds[i] == kinds[j]
    near, far = np.percentile(((X[i[:5000]] - X[j[:5000]]) ** 2).sum(axis=1), [5, 95])
    rows = bregmat.Constraints.sq_distance(i, j, np.where(same, near, far), np.where(same, "<=", ">="))
    return X, rows


def steps(client: Client, rank: int, pairs: int, shards: int, turns: int) -> list[object]:
    """One line of the table of steps."""
    X, C = problem(2000, rank, pairs)
    block_size = -(-pairs // shards)
    settings = ShardSettings.of(sharded_coordinates(X, None, LogDet()), LogDet(), None, 1.0, block_size)
    sources = constraint_sources(C, block_size)
    here, there = LocalShards(settings, sources, X), ClusterShards(settings, sources, X, client)
    operators = [ShardedOperator(shards, rank) for shards in (here, there)]
    columns = [op.values_diagonal(None) for op in operators]
    rng = np.random.default_rng(1)
    for op, p in zip(operators, columns):
        op.adjoint(p)  # loads the shards
    found: list[list[float]] = [[], []]
    cpu: list[list[float]] = [[], []]
    for _ in range(turns):
        F = np.eye(rank) + 0.01 * rng.normal(size=(rank, rank))
        answers = []
        for k, op in enumerate(operators):
            clock, used = time.perf_counter(), time.process_time()
            moved = op.congruence(F)
            answers.append(moved.adjoint(moved.values_diagonal(np.ones(rank))))
            found[k].append(1e3 * (time.perf_counter() - clock))
            cpu[k].append(1e3 * (time.process_time() - used))
        assert np.array_equal(*answers)
    alone, on_cluster = (float(np.median(times)) for times in found)
    more = on_cluster - alone
    spread = f"{np.percentile(found[1], 10):.1f} ... {np.percentile(found[1], 90):.1f}"
    line = [
        f"{pairs:,}",
        shards,
        f"{alone:.1f}",
        f"{on_cluster:.1f}",
        spread,
        f"{np.median(cpu[1]):.1f}",
        f"{more:.1f}",
    ]
    return [*line, harness.verdict_word(more < MOST_MS)]


def whole(executor: object, rank: int, pairs: int, block: int) -> list[object]:
    """Time of a whole problem."""
    X, C = problem(20_000, rank, pairs)
    clock, used = time.perf_counter(), time.process_time()
    result = bregmat.nearest_metric(X, C, slack_weight=1.0, block_size=block, executor=executor, tol=1e-6)
    seconds = time.perf_counter() - clock
    return [
        f"{pairs:,}",
        f"{seconds:.2f}",
        f"{time.process_time() - used:.2f}",
        result.n_iter,
        f"{result.gap:.1e}",
        f"{result.objective:.12g}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, default=100)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--steps-only", action="store_true")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--pairs", type=float, nargs="*", default=[1e5, 1e6])
    args = parser.parse_args()
    print(harness.machine(), f"load {os.getloadavg()[0]:.1f}")
    header = ["rows", "shards", "here ms", "2 workers ms", "10 ... 90 %", "CPU ms", "more ms", ""]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        sizes = ((400, 2), (4000, 8), (40_000, 8), (40_000, 40))
        table = [steps(client, args.rank, pairs, shards, args.turns) for pairs, shards in sizes]
        harness.print_table(f"a map-reduce step, r = {args.rank}", header, table)
    if args.steps_only:
        return
    table = []
    for pairs in map(int, args.pairs):
        block = -(-pairs // 8)
        table.append(["none", *whole(None, args.rank, pairs, block)])
        for n in args.workers:
            with (
                LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster) as client,
            ):
                client.wait_for_workers(n)
                whole(client, args.rank, 2000, 250)  # workers import what they need
                table.append([n, *whole(client, args.rank, pairs, block)])
    harness.print_table(
        f"whole problems, r = {args.rank}, 8 shards",
        ["workers", "rows", "seconds", "CPU here", "steps", "gap", "objective"],
        table,
    )
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    harness.steady(main)
