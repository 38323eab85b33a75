"""20,000 dimensions, 500 pairs: time and peak memory of one process, dense data and sparse text-like data.

The parent starts one process per kind of data; it makes the data, learns, transforms, and reports. With ``--distances``, an estimator
learns from five pairs of points and predicts their distances.

    python benchmarks/bench_high_dimension.py [--dim 20000] [--pairs 500] [--points 1000]
    python benchmarks/bench_high_dimension.py --distances
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from functools import partial
from typing import Any

import harness
import numpy as np

SECONDS, MEMORY_MB = 5.0, 1000.0
MOST_BYTES = 8 * 2**30  # address space, so that a matrix of 50,000 x 50,000 entries raises an error


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
    solve = partial(bregmat.nearest_metric, X, constraints, slack_weight=1.0, tol=1e-6)
    first = harness.timed(solve)
    result, peak = first.value, harness.peak_memory_mb()
    again = harness.timed(solve, repeats=3)
    start = time.process_time()
    embedded = result.transform(X[:50])
    transform = time.process_time() - start
    got = ((embedded[:25] - embedded[25:50]) ** 2).sum(1)
    print(
        json.dumps(
            {
                "first": first.cpu_median,
                "seconds": again.cpu_median,
                "transform": transform,
                "width": embedded.shape[1],
                "before": before,
                "peak": peak,
                "status": result.status.name,
                "gap": result.gap,
                "steps": result.n_iter,
                "objective": result.objective,
                "finite": bool(np.isfinite(got).all()),
            }
        )
    )


def report_distances(kind: str, n: int, d: int, n_pairs: int) -> None:
    """Run in a fresh process: learn from pairs, predict, print one JSON line."""
    from bregmat.pairs import PairsLearner

    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    X = (dense if kind == "dense" else sparse)(rng, n, d, y)
    index = rng.permutation(n)[: 2 * n_pairs].reshape(n_pairs, 2)
    labels = np.where(np.arange(n_pairs) % 2, 1, -1)
    before, start = harness.peak_memory_mb(), time.process_time()
    try:
        learner = PairsLearner(preprocessor=X).fit(index, labels)
        fit = time.process_time() - start
        finite = bool(np.isfinite(learner.pair_distance(index)).all())
        seconds, status = [fit, time.process_time() - start - fit], learner.result_.status.name
    except MemoryError:
        seconds, status, finite = [np.nan, np.nan], "MemoryError", False
    print(
        json.dumps(
            {"seconds": seconds, "before": before, "peak": harness.peak_memory_mb(), "status": status, "finite": finite}
        )
    )


def in_process(report: str, kind: str, n: int, d: int, n_pairs: int) -> dict[str, Any]:
    """What a fresh process reports."""
    command = [sys.executable, __file__, "--report", report, "--kind", kind, "--dim", str(d), "--pairs", str(n_pairs)]
    command += ["--points", str(n)]
    line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
    return json.loads(line)


def distances() -> None:
    rows = []
    for kind, d in (("dense", 8_000), ("dense", 15_063), ("sparse", 50_000)):
        got = in_process("distances", kind, 60, d, 5)
        memory = f"{got['peak']:.0f} MB ({got['before']:.0f} before)"
        rows.append([kind, f"{d:,}", *(f"{t:.3f} s" for t in got["seconds"]), memory, got["status"]])
        print(*rows[-1], flush=True)
    header = ["data", "columns", "PairsLearner.fit", "pair_distance", "peak memory", "status"]
    harness.print_table("Five pairs of 60 points", header, rows)


def squared_rows(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dim", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--distances", action="store_true")
    parser.add_argument("--report", choices=("solve", "distances"), help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=("dense", "sparse"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.report:
        reporter = report if args.report == "solve" else report_distances
        reporter(args.kind, args.points, args.dim, args.pairs)
        return
    print(harness.machine() + "; CPU seconds")
    if args.distances:
        distances()
        return
    rows = []
    for kind in ("dense", "sparse"):
        got = in_process("solve", kind, args.points, args.dim, args.pairs)
        reached = got["first"] < SECONDS and got["peak"] < MEMORY_MB and got["gap"] <= 1e-6
        rows.append(
            [
                kind,
                harness.seconds(got["first"]),
                harness.seconds(got["seconds"]),
                harness.seconds(got["transform"]),
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
        [
            "data",
            "first run",
            "median of three",
            "transform",
            "peak memory",
            "status",
            "gap",
            "steps",
            "objective",
            "columns out",
            "",
        ],
        rows,
    )


if __name__ == "__main__":
    harness.steady(main)
