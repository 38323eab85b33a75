"""Ten million pairs out of core: CPU time, peak memory, and what a block costs.

    python benchmarks/bench_out_of_core.py                       # 10,000,000 pairs of 100,000 points in 100 dimensions
    python benchmarks/bench_out_of_core.py --pairs 1e8 --block-size 2e6
    python benchmarks/bench_out_of_core.py --pairs 1e6 --in-core # the same rows in memory, beside it

Points are a mapped .npy file, pairs a Parquet file; both are written to a temporary folder first, by another process. Time is that of a
warm file cache.
"""

from __future__ import annotations

import argparse
import functools
import json
import operator
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness
import numpy as np
import pyarrow
import pyarrow.parquet

SECONDS, MEMORY_MB = 40.0, 2000.0


def write(folder: Path, pairs: int, points: int, rank: int) -> None:
    """Clusters of points, and pairs with bounds, ten million at a time."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(10, size=points)
    X = 3.0 * rng.normal(size=(10, rank))[kinds] / np.sqrt(rank) + rng.normal(size=(points, rank))
    np.save(folder / "points.npy", X)
    sample = rng.integers(points, size=(2, 20_000))
    near, far = np.percentile(((X[sample[0]] - X[sample[1]]) ** 2).sum(axis=1), [5, 95])
    types = {"i": pyarrow.int32(), "j": pyarrow.int32(), "bound": pyarrow.float64(), "sense": pyarrow.string()}
    with pyarrow.parquet.ParquetWriter(folder / "pairs.parquet", pyarrow.schema(types)) as file:
        for first in range(0, pairs, 10_000_000):
            c = min(10_000_000, pairs - first)
            i = rng.integers(points, size=c)
            j = (i + 1 + rng.integers(points - 1, size=c)) % points
            same = kinds[i] == kinds[j]
            columns = i, j, np.where(same, near, far), np.where(same, "<=", ">=")
            table = [pyarrow.array(column, kind) for column, kind in zip(columns, types.values())]
            file.write_table(pyarrow.table(dict(zip(types, table))), row_group_size=2_500_000)


def solve(folder: Path, block_size: int, threads: int, in_core: bool) -> None:
    """One run; prints what it took."""
    import bregmat
    from bregmat.io import open_constraints, open_points

    small = bregmat.Constraints.sq_distance(range(99), range(1, 100), 1.0, "<=")
    rows = open_constraints(folder / "pairs.parquet")
    X = open_points(folder / "points.npy")
    bregmat.nearest_metric(np.eye(100), small, slack_weight=1.0, block_size=50)  # imports what is imported on first use
    before = harness.peak_memory_mb()
    clock, cpu = time.perf_counter(), time.process_time()
    if in_core:
        whole = functools.reduce(operator.add, (shard.read() for shard in rows.shards(2**62)))
        result = bregmat.nearest_metric(X[:], whole, slack_weight=1.0, tol=1e-6)
    else:
        result = bregmat.nearest_metric(X, rows, slack_weight=1.0, tol=1e-6, block_size=block_size, executor=threads)
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - clock,
                "cpu": time.process_time() - cpu,
                "before": before,
                "peak": harness.peak_memory_mb(),
                "steps": result.n_iter,
                "gap": result.gap,
                "objective": result.objective,
                "status": result.status.name,
            }
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=float, default=1e7)
    parser.add_argument("--points", type=float, default=1e5)
    parser.add_argument("--rank", type=int, default=100)
    parser.add_argument("--block-size", type=float, default=2.5e6)
    parser.add_argument("--threads", type=int, default=1, help="shards worked on at once")
    parser.add_argument("--in-core", action="store_true", help="also all rows in memory")
    parser.add_argument("--folder", type=Path, help="where the files go; by default a temporary folder")
    parser.add_argument("--solve", choices=("blocks", "in-core"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.solve:
        solve(args.folder, int(args.block_size), args.threads, args.solve == "in-core")
        return
    print(harness.machine())
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        write(folder, int(args.pairs), int(args.points), args.rank)
        table = []
        for how in ("blocks", "in-core") if args.in_core else ("blocks",):
            command = [sys.executable, __file__, "--folder", name, "--solve", how, "--threads", str(args.threads)]
            command += ["--block-size", str(args.block_size)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
            row = json.loads(done.stdout.splitlines()[-1])
            fits = row["cpu"] < SECONDS and row["peak"] < MEMORY_MB
            table.append(
                [how, *(f"{row[k]:.1f}" for k in ("seconds", "cpu", "peak")), row["steps"], f"{row['gap']:.1e}"]
            )
            table[-1] += [f"{row['objective']:.10g}", row["status"], harness.verdict_word(fits)]
        title = f"{int(args.pairs):,} pairs of {int(args.points):,} points, r = {args.rank}, blocks of {int(args.block_size):,}"
        header = [
            "",
            "seconds",
            "CPU",
            "peak MB",
            "steps",
            "relative gap",
            "objective",
            "",
            f"{SECONDS:.0f} s, {MEMORY_MB:.0f} MB",
        ]
        harness.print_table(title, header, table)


if __name__ == "__main__":
    harness.steady(main)
