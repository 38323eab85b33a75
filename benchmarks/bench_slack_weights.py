"""How robust is the default solver against the slack weight? Every cell: status, gap, steps, CPU seconds.

Slack weights 1e-2 ... 1e4, LogDet, von Neumann and Frobenius (metric form, identity prior), tol 1e-6. The gap is recomputed by
`harness.referee` from the returned matrix and multipliers. A cell that is not OPTIMAL says so.

    python benchmarks/bench_slack_weights.py [--max-seconds 60] [--only TEXT] [--divergence NAME]
    python benchmarks/bench_slack_weights.py --large    # 1e5 and 1e6 pairs in the place of the others
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import harness
import numpy as np

WEIGHTS = (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4)
DIVERGENCES = ("logdet", "vonneumann", "frobenius")


def cell(problem: harness.PairProblem, divergence: str, weight: float, max_seconds: float) -> list[Any]:
    import bregmat

    start = time.process_time()
    result = bregmat.nearest_metric(
        problem.X,
        problem.constraints(),
        divergence=divergence,
        slack_weight=weight,
        tol=1e-6,
        max_seconds=max_seconds,
    )
    spent = time.process_time() - start
    verdict = harness.referee(
        problem,
        np.asarray(result.B),
        np.asarray(result.dual),
        slack_weight=weight,
        divergence=divergence,
    )
    return [
        problem.name,
        divergence,
        f"{weight:g}",
        result.status.name,
        result.exit_reason.name,
        f"{result.gap:.1e}",
        f"{verdict.gap():.1e}",
        result.n_iter,
        harness.seconds(spent),
        f"{verdict.objective:.7g}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-seconds", type=float, default=60.0, help="limit of one cell, wall seconds (default 60)")
    parser.add_argument("--only", metavar="TEXT", default="", help="only problems whose name contains TEXT")
    parser.add_argument("--divergence", choices=DIVERGENCES)
    parser.add_argument(
        "--large",
        action="store_true",
        help="1e5 and 1e6 pairs of 10,000 points in 100 dimensions, of unit size and raw",
    )
    args = parser.parse_args()
    harness.one_thread()
    print(harness.machine() + "; one thread, CPU seconds, one run each")
    problems = [
        harness.wine(False),
        harness.wine(True),
        harness.digits(1000),
        harness.digits(10_000),
        harness.clusters(10_000),
        harness.many_classes(),
    ]
    if args.large:
        problems = [harness.clusters(n, is_raw=raw) for raw in (False, True) for n in (100_000, 1_000_000)]
    header = ["problem", "divergence", "weight", "status", "exit", "gap", "recomputed", "steps", "time", "objective"]
    chosen = [args.divergence] if args.divergence else list(DIVERGENCES)
    rows = []
    for problem in problems:
        if args.only not in problem.name:
            continue
        for divergence in chosen:
            part = [cell(problem, divergence, weight, args.max_seconds) for weight in WEIGHTS]
            harness.print_table(f"{problem.name}, {problem.size}, {divergence}", header, part)
            rows += part
    optimal = sum(row[3] == "OPTIMAL" for row in rows)
    proven = sum(float(row[6]) <= 1.5e-6 for row in rows)
    print(f"\n{optimal} of {len(rows)} cells OPTIMAL; recomputed gap <= 1.5e-6 in {proven}")


if __name__ == "__main__":
    harness.steady(main)
