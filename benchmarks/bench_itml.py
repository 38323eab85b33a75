"""How much CPU does an ITML metric cost beside metric-learn's ITML, and which of the two is optimal?

The same problem for both: identity prior, LogDet, slack weight 1, the same pairs and the same *squared* bounds.
metric-learn compares its `bounds` with squared distances but takes them, by default, from unsquared ones, so they are
passed explicitly here; one row, "root bounds", poses its default problem instead. Both run in this process on one
thread; bregmat several times before and after the rival. Objective, gap and violation of both come from
`harness.referee`, not from either library.

    python benchmarks/bench_itml.py               # about 3 minutes, nearly all of it the rival
    python benchmarks/bench_itml.py --quick       # the rival stops after 100 sweeps: its time is a lower bound
    python benchmarks/bench_itml.py --ours        # without the rival
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import harness
import numpy as np

TARGET = {
    "wine raw": 300,
    "wine standardised": 60,
    "wine std, root bounds": 60,
    "digits 1,000": 25,
    "digits 10,000": 300,
    "synthetic 10,000": 150,
}
SWEEPS = 1000  # metric-learn's default max_iter
QUICK = 100


def rival(problem: harness.PairProblem, max_iter: int) -> Any:
    tuples = np.stack([problem.X[problem.i], problem.X[problem.j]], axis=1)
    labels = np.where(problem.similar, 1, -1)
    model = harness.metric_learn().ITML(gamma=1.0, max_iter=max_iter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(tuples, labels, bounds=np.array([problem.near, problem.far]))


def compare(problem: harness.PairProblem, *, quick: bool, with_rival: bool) -> tuple[list[str], list[str]]:
    import bregmat

    constraints = problem.constraints()

    def learn() -> Any:
        return bregmat.nearest_metric(problem.X, constraints, slack_weight=1.0, tol=1e-6)

    first = harness.timed(learn)
    ours = harness.timed(learn, repeats=5, at_least=0.3)
    theirs = None
    if with_rival:
        theirs = harness.timed(lambda: rival(problem, QUICK if quick else SWEEPS))
        ours = ours.more(harness.timed(learn, repeats=5, at_least=0.3))
    result = ours.value
    mine = harness.referee(problem, np.asarray(result.B), np.asarray(result.dual))
    best, cpu = mine.bound, ours.cpu_median
    line = [
        problem.name,
        problem.size,
        harness.seconds(cpu),
        harness.seconds(first.cpu_median),
        result.n_iter,
        str(result.status.name),
        f"{mine.gap():.1e}",
        f"{mine.objective:.8g}",
        f"{mine.violation:.4g}",
    ]
    if theirs is None:
        return line, []
    judged = harness.referee(problem, theirs.value.components_.T)
    sweeps, ratio, target = theirs.value.n_iter_ + 1, theirs.cpu_median / cpu, TARGET[problem.name]
    capped = quick and sweeps == QUICK
    word = harness.verdict_word(ratio >= target and mine.gap() <= 1e-6)
    return line, [
        problem.name,
        harness.seconds(theirs.cpu_median),
        f"{sweeps}" + (" (limit)" if capped or sweeps == SWEEPS else ""),
        f"{judged.gap(best):.1e}",
        f"{judged.objective:.8g}",
        f"{judged.violation:.4g}",
        f"{'> ' * capped}{ratio:,.0f} x",
        f"{target} x",
        "open" if capped and word != "reached" else word,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="stop metric-learn after 100 sweeps")
    parser.add_argument("--ours", action="store_true", help="time bregmat only")
    parser.add_argument("--only", metavar="TEXT", default="", help="only problems whose name contains TEXT")
    args = parser.parse_args()
    harness.one_thread()
    print(harness.machine() + "; one thread, CPU seconds, medians")
    problems = [
        harness.wine(False),
        harness.wine(True),
        harness.unsquared_bounds(harness.wine(True), "wine std, root bounds"),
        harness.digits(1000),
        harness.digits(10_000),
        harness.clusters(10_000),
    ]
    chosen = [p for p in problems if args.only in p.name]
    lines = [compare(p, quick=args.quick, with_rival=not args.ours) for p in chosen]
    harness.print_table(
        "bregmat, slack weight 1, tol 1e-6",
        ["problem", "size", "CPU", "first call", "steps", "status", "relative gap", "objective", "max violation"],
        [ours for ours, _ in lines],
    )
    if not args.ours:
        harness.print_table(
            "metric-learn ITML, gamma 1, same pairs and bounds",
            ["problem", "CPU", "sweeps", "relative gap", "objective", "max violation", "ratio", "target", ""],
            [theirs for _, theirs in lines],
        )


if __name__ == "__main__":
    harness.steady(main)
