"""A million pairs: time beside the pair-graph prototype, peak memory, and time against the number of pairs.

    python benchmarks/bench_million.py                            # bregmat alone
    python benchmarks/bench_million.py --reference pair_graph.py  # interleaved with a reference script
    python benchmarks/bench_million.py --plot curve.png
    python benchmarks/bench_million.py --wide                     # 768 dimensions, to a relative gap of 1e-4

A reference script is a file with `solve(X, a, b, sense, bound, gamma, tol=...)` that returns (L, objective, gap, steps,
CG steps); it runs in this process on the same arrays, in turn with bregmat, both with every thread there is. Peak
memory is that of a process that makes the problem, solves it once with bregmat and ends.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np

POINTS = 10_000
CURVE = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
MEMORY_LIMIT_MB = 600
SPEEDUP = 1.5


def learn(problem: harness.PairProblem, constraints: Any) -> Any:
    import bregmat

    return bregmat.nearest_metric(problem.X, constraints, slack_weight=1.0, tol=1e-6)


def load_reference(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"--reference {path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def interleaved(n_pairs: int, reference: Any, rounds: int) -> list[list[str]]:
    problem = harness.clusters(n_pairs, POINTS)
    constraints = problem.constraints()
    arrays = (problem.X, problem.i, problem.j, problem.sign, problem.bound)
    ours: harness.Timed | None = None
    theirs: harness.Timed | None = None
    for _ in range(rounds):
        run = harness.timed(lambda: learn(problem, constraints))
        ours = ours.more(run) if ours else run
        if reference is not None:
            run = harness.timed(lambda: reference.solve(*arrays, 1.0, tol=1e-6))
            theirs = theirs.more(run) if theirs else run
    assert ours is not None
    result = ours.value
    rows = [
        [
            "bregmat",
            problem.size,
            harness.seconds(ours.wall_median),
            harness.seconds(min(ours.wall)),
            harness.seconds(ours.cpu_median),
            f"{result.n_iter}",
            f"{result.gap:.1e}",
            f"{result.objective:.8g}",
            result.status.name,
        ]
    ]
    if theirs is not None:
        _, objective, gap, steps, cg_steps = theirs.value
        rows.append(
            [
                "reference",
                problem.size,
                harness.seconds(theirs.wall_median),
                harness.seconds(min(theirs.wall)),
                harness.seconds(theirs.cpu_median),
                f"{steps} ({cg_steps} CG)",
                f"{gap / max(1.0, abs(objective)):.1e}",
                f"{objective:.8g}",
                "",
            ]
        )
        pairs = sorted(b / a for a, b in zip(ours.wall, theirs.wall, strict=True))
        ratio = theirs.wall_median / ours.wall_median
        spread = f"{pairs[0]:.2f} ... {pairs[-1]:.2f}"
        word = harness.verdict_word(ratio >= SPEEDUP and result.gap <= 1e-6) if n_pairs == 1_000_000 else ""
        rows.append(["ratio", f"target {SPEEDUP} x", f"{ratio:.2f} x", spread, "", "", "", "", word])
    return rows


def report_memory(n_pairs: int) -> None:
    """Run in a fresh process: print the peak before and after the solve as JSON."""
    problem = harness.clusters(n_pairs, POINTS)
    constraints = problem.constraints()
    before = harness.peak_memory_mb()
    result = learn(problem, constraints)
    print(json.dumps({"before": before, "peak": harness.peak_memory_mb(), "gap": result.gap}))


def peak_memory(n_pairs: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--report-memory", str(n_pairs)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def curve(sizes: tuple[int, ...]) -> list[tuple[int, float, Any]]:
    points = []
    for size in sizes:
        problem = harness.clusters(size, POINTS)
        constraints = problem.constraints()
        run = harness.timed(lambda: learn(problem, constraints), repeats=1 if size >= 1_000_000 else 3)  # noqa: B023
        points.append((problem.n_pairs, run.wall_median, run.value))
    return points


def wide() -> None:
    """A million pairs in 768 dimensions, of few points and of many."""
    import bregmat

    rows = []
    for n_points in (POINTS, 100_000):
        problem = harness.clusters(1_000_000, n_points, 768)
        constraints = problem.constraints()
        run = harness.timed(partial(bregmat.nearest_metric, problem.X, constraints, slack_weight=1.0, tol=1e-4))
        result = run.value
        figures = [
            harness.seconds(run.cpu_median),
            harness.seconds(run.wall_median),
            f"{result.gap:.1e}",
            result.n_iter,
        ]
        rows.append([f"{n_points:,}", *figures, f"{harness.peak_memory_mb():.0f} MB", result.status.name])
    header = ["points", "CPU", "seconds", "relative gap", "steps", "peak memory so far", "status"]
    harness.print_table("1,000,000 pairs in 768 dimensions; goal 60 CPU s", header, rows)


def draw(points: list[tuple[int, float, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes, times = np.array([p[0] for p in points]), np.array([p[1] for p in points])
    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    axes.loglog(sizes, times, "o-", label="bregmat")
    axes.loglog(sizes, times[-1] * sizes / sizes[-1], "--", color="0.6", label="linear")
    axes.set(xlabel="pairs", ylabel="seconds", title="Time to a proven relative gap of 1e-6")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=Path, metavar="PATH", help="script to run in turn with bregmat")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each at a million pairs (default 3)")
    parser.add_argument("--largest", type=int, default=CURVE[-1], help="end of the curve (default 3,000,000)")
    parser.add_argument("--no-curve", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="draw the curve (needs Matplotlib)")
    parser.add_argument("--wide", action="store_true", help="only a million pairs in 768 dimensions")
    parser.add_argument("--report-memory", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.report_memory:
        report_memory(args.report_memory)
        return
    if args.wide:
        print(harness.machine())
        wide()
        return
    print(harness.machine() + "; all threads, wall seconds, medians")
    memory = peak_memory(1_000_000)
    print(
        f"peak memory, 1,000,000 pairs: {memory['peak']:.0f} MB, of which {memory['before']:.0f} MB before the solve; "
        f"target {MEMORY_LIMIT_MB} MB: {harness.verdict_word(memory['peak'] < MEMORY_LIMIT_MB)}"
    )
    reference = load_reference(args.reference) if args.reference else None
    if reference is not None:
        small = harness.clusters(500, 500)
        reference.solve(small.X, small.i, small.j, small.sign, small.bound, 1.0)
    rows = interleaved(100_000, reference, args.rounds) + interleaved(1_000_000, reference, args.rounds)
    header = ["", "size", "seconds", "best", "CPU", "steps", "relative gap", "objective", ""]
    harness.print_table("one problem, in turn", header, rows)
    if args.no_curve:
        return
    points = curve(tuple(size for size in CURVE if size <= args.largest))
    table = []
    for k, (n_pairs, wall, result) in enumerate(points):
        slope = ""
        if k:
            slope = f"{np.log(wall / points[k - 1][1]) / np.log(n_pairs / points[k - 1][0]):.2f}"
        table.append(
            [
                f"{n_pairs:,}",
                harness.seconds(wall),
                f"{wall / n_pairs * 1e6:.2f}",
                slope,
                result.n_iter,
                f"{result.gap:.1e}",
                result.status.name,
            ]
        )
    header = ["pairs", "seconds", "us a pair", "local exponent", "steps", "relative gap", "status"]
    harness.print_table(f"time against pairs, {POINTS:,} points in 100 dimensions", header, table)
    exponents = [float(row[3]) for row in table[1:]]
    if exponents:
        print(f"median local exponent {statistics.median(exponents):.2f} (1 is linear)")
    if args.plot:
        draw(points, args.plot)


if __name__ == "__main__":
    harness.steady(main)
