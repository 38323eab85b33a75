"""20,000 dimensions, 500 pairs: time and peak memory of one process, dense data and sparse text-like data.

The parent starts one process per kind of data; it makes the data, learns, transforms, and reports.

    python benchmarks/bench_high_dimension.py [--dim 20000] [--pairs 500] [--points 1000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import harness
import numpy as np

SECONDS, MEMORY_MB = 5.0, 1000.0


def dense(rng: np.random.Generator, n: int, d: int, y: np.ndarray) -> Any:
    X = rng.standard_normal((n, d))
    X[:, :50] += 2.0 * rng.standard_normal((5, 50))[y]
    X /= np.sqrt(d)
    return X


def sparse(rng: np.random.Generator, n: int, d: int, y: np.ndarray) -> Any:
    """Unit rows: 100 words from a Zipf vocabulary and 50 from the topic's own 200 words each."""
    import scipy.sparse

    frequency = 1.0 / np.arange(1, d + 1)
    general = rng.choice(d, size=(n, 100), p=frequency / frequency.sum())
    topics = rng.choice(d, size=(5, 200))
    own = np.take_along_axis(topics[y], rng.integers(0, 200, (n, 50)), axis=1)
    columns = np.hstack([general, own])
    rows = np.repeat(np.arange(n), columns.shape[1])
    counts = scipy.sparse.csr_array((np.ones(columns.size), (rows, columns.ravel())), shape=(n, d))
    counts.sum_duplicates()
    norm = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
    return scipy.sparse.csr_array(scipy.sparse.diags_array(1.0 / norm) @ counts)


def report(kind: str, n: int, d: int, n_pairs: int) -> None:
    """Run in a fresh process: learn, transform, print one JSON line."""
    import bregmat

    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    X = (dense if kind == "dense" else sparse)(rng, n, d, y)
    i = rng.integers(0, n, n_pairs)
    j = (i + rng.integers(1, n, n_pairs)) % n
    difference = X[i] - X[j]
    sq = np.asarray((difference * difference).sum(axis=1)).ravel() if kind == "dense" else squared_rows(difference)
    near, far = np.percentile(sq, (5, 95))
    similar = y[i] == y[j]
    constraints = bregmat.Constraints.sq_distance(i, j, np.where(similar, near, far), np.where(similar, "<=", ">="))
    del difference
    before = harness.peak_memory_mb()
    runs = [harness.timed(lambda: bregmat.nearest_metric(X, constraints, slack_weight=1.0, tol=1e-6)) for _ in range(2)]
    result = runs[-1].value
    start = time.perf_counter()
    embedded = result.transform(X[:50])
    transform = time.perf_counter() - start
    got = ((embedded[:25] - embedded[25:50]) ** 2).sum(1)
    print(
        json.dumps(
            {
                "first": runs[0].wall_median,
                "seconds": runs[1].wall_median,
                "transform": transform,
                "width": embedded.shape[1],
                "before": before,
                "peak": harness.peak_memory_mb(),
                "status": result.status.name,
                "gap": result.gap,
                "steps": result.n_iter,
                "objective": result.objective,
                "finite": bool(np.isfinite(got).all()),
            }
        )
    )


def squared_rows(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--report", choices=("dense", "sparse"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.report:
        report(args.report, args.points, args.dim, args.pairs)
        return
    print(harness.machine() + "; all threads, wall seconds")
    rows = []
    for kind in ("dense", "sparse"):
        command = [sys.executable, __file__, "--report", kind, "--dim", str(args.dim), "--pairs", str(args.pairs)]
        command += ["--points", str(args.points)]
        line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        got = json.loads(line)
        reached = got["first"] < SECONDS and got["peak"] < MEMORY_MB and got["gap"] <= 1e-6
        rows.append(
            [
                kind,
                harness.seconds(got["first"]),
                harness.seconds(got["seconds"]),
                f"{got['peak']:.0f} MB ({got['before']:.0f} before)",
                got["status"],
                f"{got['gap']:.1e}",
                got["steps"],
                f"{got['objective']:.7g}",
                got["width"],
                harness.verdict_word(reached),
            ]
        )
    harness.print_table(
        f"{args.points:,} x {args.dim:,}, {args.pairs} pairs; target {SECONDS:g} s and {MEMORY_MB:.0f} MB",
        ["data", "first run", "second", "peak memory", "status", "gap", "steps", "objective", "columns out", ""],
        rows,
    )


if __name__ == "__main__":
    harness.steady(main)
