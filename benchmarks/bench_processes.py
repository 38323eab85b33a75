"""How much longer does the first call of a process take, and are later processes as fast as the first?

Each case runs in fresh processes one after the other. The first call of a process includes the import of modules that are imported
on first use. The calls after it are the steady state, which must be the same in every process: it is not where one
process leaves a cache on disk that slows others down. The later calls of a process take at least one second together.

    python benchmarks/bench_processes.py [--processes 3] [--calls 5] [--cases pairs-1m nnqp]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import harness
import numpy as np

import bregmat

SAME = 1.1  # a steady state at most this many times that of the first process counts as the same


def pairs(n_pairs: int) -> Callable[[], Any]:
    """A LogDet metric of 10,000 points in 96 dimensions."""
    problem = harness.clusters(n_pairs, dim=96)
    constraints = problem.constraints()
    return lambda: bregmat.nearest_metric(problem.X, constraints, slack_weight=1.0)


def sweeps(divergence: str) -> Callable[[], Any]:
    """Cyclic projections on wine."""
    problem = harness.wine(True)
    constraints = problem.constraints()
    options = {"divergence": divergence, "solver": "cyclic_projection", "slack_weight": 1.0, "max_iter": 20}
    return lambda: bregmat.nearest_metric(problem.X, constraints, **options)


def program() -> Callable[[], Any]:
    X = np.random.default_rng(0).normal(size=(600, 300))
    A, b = X.T @ X, -X.sum(axis=0)
    return lambda: bregmat.nnqp(A, b)


def machine() -> Callable[[], Any]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return lambda: bregmat.MarginSVC().fit(X / 16.0, y < 5)


def components() -> Callable[[], Any]:
    X = np.random.default_rng(0).normal(size=(2000, 20))
    return lambda: bregmat.OnlinePCA(5).fit(X)


CASES: dict[str, Callable[[], Callable[[], Any]]] = {
    "pairs-300k": lambda: pairs(300_000),
    "pairs-1m": lambda: pairs(1_000_000),
    "cyclic-logdet": lambda: sweeps("logdet"),
    "cyclic-vonneumann": lambda: sweeps("vonneumann"),
    "nnqp": program,
    "margin-svc": machine,
    "online-pca": components,
}


def report(case: str, calls: int) -> None:
    """Run in a fresh process: print the CPU seconds of each call as JSON."""
    call = CASES[case]()
    first = harness.timed(call).cpu
    print(json.dumps(first + harness.timed(call, repeats=calls, at_least=1.0).cpu))


def measured(case: str, calls: int) -> list[float]:
    """The CPU seconds of each call in a process of its own."""
    command = [sys.executable, __file__, "--report", case, "--calls", str(calls)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(value) for value in json.loads(done.stdout.splitlines()[-1])]


def rows(case: str, processes: int, calls: int) -> list[list[str]]:
    """Return one row per process: its first call, the median of its later calls, and the ratio of that to the first process."""
    runs = [measured(case, calls) for _ in range(processes)]
    steady = [statistics.median(run[1:]) for run in runs]
    return [
        [
            case,
            harness.seconds(run[0]),
            harness.seconds(median),
            f"{median / steady[0]:.2f}",
            harness.verdict_word(median <= SAME * steady[0]),
        ]
        for run, median in zip(runs, steady)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--calls", type=int, default=5, help="least number of calls after the first (default 5)")
    parser.add_argument("--cases", nargs="*", choices=list(CASES), metavar="CASE")
    parser.add_argument("--report", choices=list(CASES), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.report:
        report(args.report, args.calls)
        return
    print(harness.machine() + "; all threads, CPU seconds")
    header = ["case", "first call", "later calls", "ratio", f"at most {SAME}"]
    table = [row for case in args.cases or CASES for row in rows(case, args.processes, args.calls)]
    harness.print_table("fresh processes, one after the other", header, table)


if __name__ == "__main__":
    main()
