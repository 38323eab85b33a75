"""The passes of a pair-graph step beside what the machine can do, measured in the same run.

    python benchmarks/bench_roofline.py                         # 1,000,000 pairs of 10,000 points in 100 dimensions, one thread
    python benchmarks/bench_roofline.py --points 1e5 --plot roofline.png
    python benchmarks/bench_roofline.py --threads 1 2           # speed-up of the passes against threads

Ceilings: operations a second of a product of two square matrices; bytes a second of a sum of squares over an array that no cache
holds, and over one of the size of the points, from wherever that is kept. A pass has a least time by each: its operations; what it must
fetch from memory at least once (points, pairs, results); and every row that it gathers, as if the points were read one after the other.
The largest binds; the share is that time over the pass's own. All rounds take turns, in CPU seconds of one thread, and the best of
each counts; speed-ups are of wall seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
import numpy as np

TARGET = 0.6


@dataclass
class Pass:
    """A call, with its operations, the bytes that it must fetch from memory and those that it gathers."""

    run: Callable[[], Any]
    flops: float = 0.0
    memory: float = 0.0
    gathered: float = 0.0
    single: bool = False
    best: float = np.inf

    def once(self, clock: Callable[[], float]) -> None:
        """One round."""
        start = clock()
        self.run()
        self.best = min(self.best, clock() - start)


def ceilings(point_bytes: int) -> dict[str, Pass]:
    """Products of matrices in both precisions, sums of squares over a long array and over one as large as the points."""
    out = {}
    for name, dtype in (("double", np.float64), ("single", np.float32)):
        A = np.random.default_rng(0).normal(size=(1000, 1000)).astype(dtype)
        out[name] = Pass(lambda A=A: A @ A, flops=2e9)  # type: ignore[misc]
    long, short = np.ones(2**25), np.ones(point_bytes // 8)
    again = max(1, 2**28 // point_bytes)

    def sums() -> None:
        for _ in range(again):
            short @ short

    out["memory"] = Pass(lambda: long @ long, memory=float(long.nbytes))
    out["points"] = Pass(sums, gathered=float(again * short.nbytes))
    return out


def passes(n_pairs: int, n_points: int, rank: int) -> dict[str, Pass]:
    """What a Newton step is made of, on the operator that a metric of labelled clusters has."""
    from bregmat.operators.binding import bind

    problem = harness.clusters(n_pairs, n_points, rank)
    op: Any = bind(problem.constraints(), problem.X)
    c, n, r = op.c, n_points, rank
    rng = np.random.default_rng(1)
    F = np.linalg.cholesky(np.eye(r) + 0.1 * np.ones((r, r)))
    X = rng.normal(size=(r, r))
    X += X.T
    w = rng.random(c)
    moved, single = op.congruence(F), op.astype(np.float32)
    X32, w32 = X.astype(np.float32), w.astype(np.float32)
    moved._squares = None

    def lengths() -> None:
        moved._squares = None
        moved.values_diagonal(None)

    square = 2.0 * n * r * r
    points, pairs = 8.0 * n * r, 9.0 * c
    for one in (op, moved, single):
        one.adjoint(w if one is not single else w32), one.values(X if one is not single else X32)
    return {
        "points moved, Z F": Pass(lambda: op.Z @ F, square, 2 * points),
        "values of all rows": Pass(lengths, 3.0 * c * r, points + pairs + 8.0 * c, 16.0 * c * r),
        "gradient": Pass(lambda: moved.adjoint(w), 8.0 * c * r + square, 3 * points + 2 * pairs, 16.0 * c * r),
        "product, single": Pass(
            lambda: single.adjoint(w32 * single.values(X32)),
            13.0 * c * r + 2 * square,
            4 * points / 2 + 3 * pairs + 16.0 * c,
            24.0 * c * r,
            single=True,
        ),
    }


def measured(found: dict[str, Pass], tops: dict[str, Pass], rounds: int) -> None:
    """All in turn, the best of each kept."""
    for _ in range(rounds):
        for one in (*tops.values(), *found.values()):
            one.once(time.process_time)


def table(found: dict[str, Pass], tops: dict[str, Pass]) -> list[list[str]]:
    """Seconds, operations and bytes a second, what binds, and the share of it."""
    rows = []
    for name, one in found.items():
        peak = tops["single" if one.single else "double"]
        least = {
            "arithmetic": one.flops / (peak.flops / peak.best),
            "memory": one.memory / (tops["memory"].memory / tops["memory"].best),
            "gathers": one.gathered / (tops["points"].gathered / tops["points"].best),
        }
        binds = max(least, key=lambda kind: least[kind])
        share = least[binds] / one.best
        rows.append(
            [
                name,
                harness.seconds(one.best),
                f"{one.flops / one.best / 1e9:.1f}",
                f"{one.memory / one.best / 1e9:.1f}",
                f"{one.gathered / one.best / 1e9:.1f}",
                binds,
                f"{share:.0%}",
                harness.verdict_word(share >= TARGET),
            ]
        )
    return rows


def draw(found: dict[str, Pass], tops: dict[str, Pass], path: Path) -> None:
    """Operations a second against operations a byte gathered, under the ceilings."""
    import matplotlib.pyplot as plt

    plt.style.use("bregmat.plots.bregmat")
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    intensity = np.geomspace(0.1, 100, 200)
    for precision, dash in (("double", "-"), ("single", "--")):
        peak = tops[precision].flops / tops[precision].best
        for kind, color in (("memory", "0.6"), ("points", "0.2")):
            speed = (tops[kind].memory + tops[kind].gathered) / tops[kind].best
            label = f"{kind}, {speed / 1e9:.0f} GB/s; {precision} precision"
            axes.loglog(intensity, np.minimum(intensity * speed, peak) / 1e9, dash, color=color, label=label)
    for k, (name, one) in enumerate(found.items()):
        place = one.flops / max(one.gathered, one.memory), one.flops / one.best / 1e9
        axes.plot(*place, "o", color=f"C{k}")
        axes.annotate(name, place, (7, -7), textcoords="offset points", color=f"C{k}")
    axes.set(xlabel="operations a byte that is read", ylabel="Gflop/s", xlim=(0.1, 100))
    axes.legend(fontsize="small", loc="lower right")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=float, default=1e6)
    parser.add_argument("--points", type=float, default=1e4)
    parser.add_argument("--rank", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="*", help="also the passes on so many threads each")
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    from threadpoolctl import threadpool_limits

    print(harness.machine())
    size = f"{int(args.pairs):,} pairs of {int(args.points):,} points, r = {args.rank}"
    with threadpool_limits(1):
        tops, found = ceilings(int(8 * args.points * args.rank)), passes(int(args.pairs), int(args.points), args.rank)
        measured(found, tops, args.rounds)
    for name in ("double", "single"):
        print(f"{name} precision: {tops[name].flops / tops[name].best / 1e9:.1f} Gflop/s")
    print(f"memory: {tops['memory'].memory / tops['memory'].best / 1e9:.1f} GB/s")
    print(f"an array of the size of the points: {tops['points'].gathered / tops['points'].best / 1e9:.1f} GB/s")
    header = ["one thread", "best", "Gflop/s", "memory GB/s", "gathered GB/s", "what binds", "share", f"{TARGET:.0%}"]
    harness.print_table(size, header, table(found, tops))
    if args.plot:
        draw(found, tops, args.plot)
    if args.threads:
        rows = {name: [name] for name in found}
        walls: dict[int, dict[str, Pass]] = {k: {n: Pass(p.run) for n, p in found.items()} for k in args.threads}
        for _ in range(args.rounds):  # in turn, so that others' load falls on all alike
            for count, again in walls.items():
                with threadpool_limits(count):
                    for one in again.values():
                        one.once(time.perf_counter)
        for again in walls.values():
            for name, one in again.items():
                first = walls[args.threads[0]][name].best
                rows[name].append(f"{harness.seconds(one.best)} ({first / one.best:.2f} x)")
        harness.print_table(
            "wall seconds against threads", ["", *(f"{k} threads" for k in args.threads)], rows.values()
        )


if __name__ == "__main__":
    harness.steady(main)
