"""How long do the papers' own algorithms take to a proven gap, beside the default solver?

Five problems: slack weight 1 on wine and digits (LogDet and von Neumann), and 300 hard rows with trace one on the 52 x 52
kernel of `bench_hard` (von Neumann and LogDet). Each solver runs through the public function with tol 1e-3 and 1e-6, the
relative gap at which its own certificate stops it, under a limit on wall time; certificates are part of the time, the
compiler is not. Gap and violation are recomputed: `harness.referee` on pairs, `bench_gyrb.judge` on the kernels.
DefiniteBoost takes von Neumann, hard rows and a fixed trace, so it is in one of the five.

    python benchmarks/bench_papers.py [--seconds 20] [--only TEXT]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import bench_gyrb
import bench_hard
import harness
import numpy as np

TOLERANCES = (1e-3, 1e-6)


@dataclass(frozen=True)
class Case:
    """A problem: how to solve it with given settings, and how the referee judges the result (gap, violation)."""

    name: str
    solve: Callable[..., Any]
    judge: Callable[[Any], tuple[float, float]]
    boosts: bool = False


def soft(problem: harness.PairProblem, divergence: str) -> Case:
    import bregmat

    constraints = problem.constraints()

    def solve(**settings: Any) -> Any:
        return bregmat.nearest_metric(problem.X, constraints, divergence=divergence, slack_weight=1.0, **settings)

    def judge(result: Any) -> tuple[float, float]:
        B, dual = np.asarray(result.B), np.asarray(result.dual)
        verdict = harness.referee(problem, B, dual, divergence=divergence)
        return verdict.gap(), 0.0  # with slack, violations are part of the objective

    return Case(f"{problem.name}, slack, {divergence}", solve, judge)


def hard(rows: int, divergence: str) -> Case:
    import bregmat

    data = bench_hard.problem(rows)
    i, j, bound, sign = data
    constraints = bregmat.Constraints.sq_distance(i, j, bound, np.where(sign > 0, "<=", ">="))
    constraints = constraints + bregmat.Constraints.trace(1.0)
    prior = np.eye(bench_hard.SIZE) / bench_hard.SIZE

    def solve(**settings: Any) -> Any:
        return bregmat.nearest_kernel(prior, constraints, divergence=divergence, **settings)

    def judge(result: Any) -> tuple[float, float]:
        dual = bench_hard.Dual(divergence)
        objective, lower, violation = bench_gyrb.judge(dual, data, result.kernel(), np.asarray(result.dual))
        return (objective - lower) / max(1.0, abs(objective)), violation

    return Case(f"kernel, {rows} hard rows, trace one, {divergence}", solve, judge, divergence == "vonneumann")


def solvers(case: Case) -> dict[str, Any]:
    from bregmat import CyclicProjection, DefiniteBoost

    found: dict[str, Any] = {"auto": "auto", "cyclic projection": CyclicProjection()}
    if case.boosts:
        for projection in ("exact", "approximate"):
            found[f"DefiniteBoost, {projection}"] = DefiniteBoost(projection=projection, order="greedy", block=50)
    return found


def projections(result: Any) -> str:
    trace = result.trace
    if "projections" in trace:
        return f"{int(trace['projections'].sum()):,}"
    return f"{len(trace['row']):,}" if "row" in trace else ""


def compare(case: Case, seconds: float) -> list[list[Any]]:
    lines = []
    for tol in TOLERANCES:
        default = np.nan
        for name, solver in solvers(case).items():

            def call(solver: Any = solver, tol: float = tol) -> Any:
                return case.solve(solver=solver, tol=tol, max_seconds=seconds)

            case.solve(solver=solver, tol=tol, max_iter=2)  # imports what is imported on first use
            run = harness.timed(call, at_least=2.0, repeats=1, at_most=25)
            default = run.cpu_median if name == "auto" else default
            result = run.value
            gap, violation = case.judge(result)
            reached = gap <= tol and violation <= 1e-8
            lines.append(
                [
                    case.name,
                    f"{tol:.0e}",
                    f"auto ({result.solver})" if name == "auto" else name,
                    harness.seconds(run.cpu_median) + ("" if reached else " (limit)"),
                    "" if name == "auto" else f"{run.cpu_median / default:.1f} x",
                    f"{result.n_iter:,}",
                    projections(result),
                    f"{gap:.1e}",
                    f"{violation:.0e}",
                    f"{result.status.name}, {result.exit_reason.name}",
                    harness.verdict_word(reached),
                ]
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of one run")
    parser.add_argument("--only", metavar="TEXT", default="", help="only problems whose name contains TEXT")
    args = parser.parse_args()
    harness.one_thread()
    print(harness.machine() + "; one thread, CPU seconds, medians")
    cases = [
        soft(harness.wine(True), "logdet"),
        soft(harness.digits(1000), "logdet"),
        soft(harness.digits(1000), "vonneumann"),
        hard(300, "vonneumann"),
        hard(300, "logdet"),
    ]
    lines = [line for case in cases if args.only in case.name for line in compare(case, args.seconds)]
    header = ["problem", "tol", "solver", "CPU", "over auto", "steps", "projections", "gap", "violation", "end", ""]
    harness.print_table(
        "Time to a proven gap; a step is a sweep, 50 projections of DefiniteBoost, or a Newton step", header, lines
    )


if __name__ == "__main__":
    harness.steady(main)
