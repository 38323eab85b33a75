"""One Newton step on up to thousands of workers, simulated: stragglers, workers that die, and a reduction by a tree.

    python benchmarks/simulate_cluster.py                             # 1e10 pairs, 1 to 1,000 workers
    python benchmarks/simulate_cluster.py --pairs 1e9 --rank 300 --plot curve.png
    python benchmarks/simulate_cluster.py --straggle 0.5 --mtbf 100   # worse machines

Nothing is measured here but NumPy's random numbers: constants are arguments, by default those that docs/performance.md names with their
conditions. Each product of all rows is one map, whose shards every worker takes one after the other, and one reduction: FAN_IN results at a
time, each message with its latency and its bytes; the step is over when the slowest shard is in. A shard that takes long is not started
elsewhere. A worker that dies has its shards read again by another before the map goes on.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bregmat.sharded.expressions import FAN_IN

WORKERS = (1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000)


@dataclass(frozen=True)
class Cluster:
    """Constants of a machine and of a problem.

    Attributes
    ----------
    pairs, points : float
        Rows and points in all.
    rank : int
        Order of the matrix.
    block : float
        Rows of a shard.
    row : float
        Seconds that one row takes in a map, of all its passes, at r = 100; proportional to r.
    square : float
        Operations a second of a product of points with an r x r matrix.
    cubic : float
        Operations a second of the driver's factorisation.
    task, latency, bandwidth : float
        Seconds of the scheduler for a task; seconds of a message; bytes a second of a link.
    read : float
        Seconds that a row takes to be read and bound again.
    straggle : float
        Standard deviation of the logarithm of a shard's time.
    mtbf : float
        Hours until a worker dies, on average.
    """

    pairs: float
    points: float
    rank: int
    block: float
    row: float
    square: float
    cubic: float
    task: float
    latency: float
    bandwidth: float
    read: float
    straggle: float
    mtbf: float

    def shards(self) -> int:
        return max(1, round(self.pairs / self.block))

    def map_seconds(self, workers: int, rng: np.random.Generator, share: float = 1.0) -> np.ndarray:
        """Seconds of every worker in one map over a share of each shard's rows; dead workers' shards are read again by others."""
        s, r = self.shards(), self.rank
        touched = min(self.points, self.block * share)  # fewer rows than points: the rows' own vectors are multiplied
        each = self.block * share * self.row * r / 100 + 2.0 * touched * r * r / self.square
        noise = rng.lognormal(-0.5 * self.straggle**2, self.straggle, s) if self.straggle else np.ones(s)
        times = each * noise
        worker = np.arange(s) % workers
        total = np.bincount(worker, weights=times, minlength=workers)
        lost = np.flatnonzero(rng.random(workers) < 1.0 - np.exp(-total / (3600.0 * self.mtbf)))
        for w in lost if len(lost) < workers else lost[1:]:
            mine = np.flatnonzero(worker == w)
            others = np.setdiff1d(np.arange(workers), lost)
            others = others if len(others) else np.array([w])
            taker = others[np.arange(len(mine)) % len(others)]
            np.add.at(total, taker, times[mine] + self.block * self.read)
        return total

    def reduce_seconds(self, workers: int) -> float:
        """The tree: partial sums of r x r, FAN_IN at a time, then the driver; one worker sends nothing until the last."""
        levels = max(1, int(np.ceil(np.log(max(2, self.shards())) / np.log(FAN_IN))))
        return levels * (self.latency + (FAN_IN - 1) * 8.0 * self.rank**2 / self.bandwidth)

    def scheduler_seconds(self) -> float:
        """Every shard is a task of every map, and so is every node of the tree; one process hands them out."""
        return self.task * self.shards() * (1.0 + 1.0 / (FAN_IN - 1))

    def step_seconds(self, workers: int, rng: np.random.Generator, maps: tuple[float, ...]) -> dict[str, float]:
        """Seconds of a Newton step by what they go into."""
        out = dict.fromkeys(("constraints", "waiting", "scheduler", "reduction", "driver"), 0.0)
        for share in maps:
            busy = self.map_seconds(workers, rng, share)
            handing = self.scheduler_seconds()
            out["constraints"] += float(busy.mean())
            out["waiting"] += float(busy.max() - busy.mean())
            out["scheduler"] += max(0.0, handing - float(busy.max()))  # tasks are handed out while others run
            out["reduction"] += self.reduce_seconds(workers)
        out["driver"] += 25.0 * self.rank**3 / self.cubic
        return out


def curve(cluster: Cluster, maps: tuple[float, ...], draws: int) -> list[tuple[int, dict[str, float], float]]:
    """Mean seconds of a step by part, and the 95th percentile of the whole, for each number of workers."""
    found = []
    for workers in WORKERS:
        rng = np.random.default_rng(workers)
        runs = [cluster.step_seconds(workers, rng, maps) for _ in range(draws)]
        mean = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
        found.append((workers, mean, float(np.percentile([sum(run.values()) for run in runs], 95))))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=float, default=1e10)
    parser.add_argument("--points", type=float, default=1e7)
    parser.add_argument("--rank", type=int, default=100)
    parser.add_argument("--block", type=float, default=2.5e6, help="rows of a shard")
    parser.add_argument("--row", type=float, default=0.35e-6, help="seconds of a row in a map")
    parser.add_argument("--square", type=float, default=42e9, help="operations a second, points times r x r")
    parser.add_argument("--cubic", type=float, default=20e9, help="operations a second at the driver")
    parser.add_argument("--task", type=float, default=0.3e-3, help="seconds of the scheduler for a task")
    parser.add_argument("--latency", type=float, default=1e-3, help="seconds of a message")
    parser.add_argument("--bandwidth", type=float, default=1e9, help="bytes a second of a link")
    parser.add_argument("--read", type=float, default=0.7e-6, help="seconds to read and bind a row again")
    parser.add_argument(
        "--straggle", type=float, default=0.2, help="standard deviation of the logarithm of a shard's time"
    )
    parser.add_argument("--mtbf", type=float, default=1000.0, help="hours until a worker dies")
    parser.add_argument("--products", type=int, default=2, help="conjugate gradient products of a step")
    parser.add_argument("--active", type=float, default=0.4, help="share of the rows that take part in products")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--plot", type=Path, help="draw the curve to this file")
    args = vars(parser.parse_args())
    products, active, draws, plot = (args.pop(name) for name in ("products", "active", "draws", "plot"))
    cluster = Cluster(**args)
    maps = (1.0, active) + (active,) * products  # values and losses; gradient; products
    found = curve(cluster, maps, draws)
    one = sum(found[0][1].values())
    print(
        f"{cluster.pairs:.0e} pairs, r = {cluster.rank}, {cluster.shards():,} shards, {len(maps)} maps a step, {cluster}\n"
    )
    names = list(found[0][1])
    print("| workers | " + " | ".join(names) + " | step | 95 % of steps | speed-up |")
    print("| --- " * (len(names) + 4) + "|")
    for workers, parts, late in found:
        whole = sum(parts.values())
        cells = [f"{parts[name]:.3g}" for name in names]
        print(f"| {workers:,} | " + " | ".join(cells) + f" | {whole:.3g} | {late:.3g} | {one / whole:.0f} |")
    if plot is not None:
        draw(found, plot)


def draw(found: list[tuple[int, dict[str, float], float]], path: Path) -> None:
    """Seconds of a step by part against workers."""
    import matplotlib.pyplot as plt

    plt.style.use("bregmat.plots.bregmat")
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    workers = np.array([row[0] for row in found])
    ends = [(sum(parts.values()), "step", "k") for _, parts, _ in found[-1:]]
    for k, name in enumerate(found[0][1]):
        spent = np.array([row[1][name] for row in found])
        if spent.any():  # parts that take no time have no place on a log scale
            axes.loglog(workers[spent > 0], spent[spent > 0], color=f"C{k}")
            ends.append((spent[-1], name, f"C{k}"))
    axes.loglog(workers, [sum(row[1].values()) for row in found], "k", lw=2)
    for seconds, name, color in ends:
        side = "bottom" if name == "step" else "top"  # above all of its parts
        axes.annotate(name, (workers[-1], seconds), (4, 0), textcoords="offset points", color=color, va=side)
    axes.set(xlabel="workers", ylabel="seconds of a Newton step", xlim=(1, 6 * workers[-1]))
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
