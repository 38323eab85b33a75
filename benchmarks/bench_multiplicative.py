"""What a pass of the multiplicative updates costs, and how many passes updates of blocks save.

A pass gives ``A+ v`` and ``A- v`` for the kernel matrix of a margin machine. The rival is NumPy: four products of blocks of
the class-sorted matrix with a vector, on every thread there is, in turn with ours in one process. Peak memory is that of a
process that makes the tiles from blocks of the kernel, beside one that makes the matrix. Passes are counted until the relative
duality gap, recomputed here from the coefficients alone, is 1e-3.

    BREGMAT_DATA=folder python benchmarks/bench_multiplicative.py    # 2 to 4 minutes; breast-cancer-wisconsin.data is read
    python benchmarks/bench_multiplicative.py --no-runs              # the passes alone, no data needed
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import harness
import numpy as np

SIZE = 10_000
PASS_TARGET = 0.6  # of the time of the four products
MEMORY_TARGET = 0.55  # of the matrix: half, and the padding of the classes to whole tiles
GAP = 1e-3


# ---------------------------------------------------------------- one pass
class Points:
    """A radial kernel of random points, block by block, so that the matrix is never there."""

    def __init__(self, n: int) -> None:
        self.X = np.random.default_rng(0).normal(size=(n, 5))

    def block(self, I: np.ndarray, J: np.ndarray) -> np.ndarray:
        A, B = self.X[I], self.X[J]
        sq = (A**2).sum(1)[:, None] + (B**2).sum(1) - 2.0 * A @ B.T
        return np.exp(-0.2 * np.maximum(sq, 0.0))


def labels(n: int) -> np.ndarray:
    return np.where(np.arange(n) < 2 * n // 5, 1.0, -1.0)


def matrix(n: int) -> np.ndarray:
    source, K = Points(n), np.empty((n, n))
    for start in range(0, n, 50):  # no more beside the matrix than the tiles have beside them
        rows = np.arange(start, min(start + 50, n))
        K[rows] = source.block(rows, np.arange(n))
    return K


def four_products(K: np.ndarray, m: int, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``A+ v`` and ``A- v`` where the first ``m`` rows are one class."""
    p, q = np.empty((2, len(v)), K.dtype)
    p[:m], p[m:] = K[:m, :m] @ v[:m], K[m:, m:] @ v[m:]
    q[:m], q[m:] = K[:m, m:] @ v[m:], K[m:, :m] @ v[:m]
    return p, q


def report_pass(rounds: int) -> None:
    """Run in a fresh process: print the times of the passes as JSON."""
    from bregmat.quadratic.splits import ClassBlocks, DenseSplit

    y, K = labels(SIZE), matrix(SIZE)
    m = int((y > 0).sum())
    v = np.random.default_rng(1).random(SIZE)
    tiles = ClassBlocks(K, y)
    general = DenseSplit(K)  # the signs do not matter for the time
    calls: dict[str, Callable[[], Any]] = {
        "products": lambda: four_products(K, m, v),
        "tiles": lambda: tiles.positive_negative(v),
        "general": lambda: general.positive_negative(v),
    }
    wall: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():  # touches every page of memory
        call()
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            wall[name].append(time.perf_counter() - start)
    error = max(
        float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(calls["tiles"](), calls["products"](), strict=True)
    )
    medians = {name: statistics.median(times) for name, times in wall.items()}
    print(json.dumps({**medians, "bytes": tiles.nbytes / K.nbytes, "error": error}))


def report_memory(kind: str) -> None:
    """Run in a fresh process: print the peak that the kernel adds, in MB, as JSON."""
    from bregmat.quadratic.splits import ClassBlocks

    small, y = Points(600), labels(600)
    ClassBlocks(small, y).positive_negative(np.ones(600))
    before = harness.peak_memory_mb()
    if kind == "tiles":
        ClassBlocks(Points(SIZE), labels(SIZE)).positive_negative(np.ones(SIZE))
    else:
        four_products(matrix(SIZE), 2 * SIZE // 5, np.ones(SIZE))
    print(json.dumps(harness.peak_memory_mb() - before))


def child(*arguments: str) -> Any:
    command = [sys.executable, __file__, *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def passes(rounds: int) -> None:
    found = child("--pass", "--rounds", str(rounds))
    ratio = found["tiles"] / found["products"]
    peak = {kind: child("--memory", "--kind", kind) for kind in ("tiles", "matrix")}
    share = peak["tiles"] / peak["matrix"]
    row = [
        "float64",
        harness.seconds(found["products"]),
        harness.seconds(found["tiles"]),
        f"{ratio:.2f}",
        f"<= {PASS_TARGET}: {met(ratio <= PASS_TARGET)}",
        harness.seconds(found["general"]),
        f"{peak['tiles']:.0f} of {peak['matrix']:.0f} MB",
        f"{share:.2f}",
        f"<= {MEMORY_TARGET}: {met(share <= MEMORY_TARGET)}",
        f"{found['error']:.0e}",
    ]
    header = [
        "n = 10,000",
        "4 products",
        "tiles",
        "ratio",
        "target",
        "any A",
        "peak memory",
        "share",
        "target",
        "error",
    ]
    harness.print_table("one pass, both signs; median wall seconds, in turn", header, [row])


def met(reached: bool) -> str:
    return "met" if reached else "MISSED"


# ---------------------------------------------------------------- passes to a gap
@dataclass(frozen=True)
class Machine:
    """A margin machine: kernel, labels, bound of the coefficients, ridge, and whether there is an intercept."""

    name: str
    K: np.ndarray
    y: np.ndarray
    C: float = np.inf
    ridge: float = 0.0
    intercept: bool = False

    def gap(self, alpha: np.ndarray) -> float:
        """Relative duality gap of coefficients, in plain NumPy."""
        m = self.y * (self.K @ (self.y * alpha))
        q, total = float(alpha @ m), float(alpha.sum())
        if self.ridge:  # squared hinge: the primal value is least over the length of the normal vector
            low, high = 0.0, 10.0
            for _ in range(200):
                t = 0.5 * (low + high)
                slope = t * q - np.maximum(1 - t * m, 0) @ m / self.ridge
                low, high = (low, t) if slope > 0 else (t, high)
            primal = 0.5 * t * t * q + 0.5 * float((np.maximum(1 - t * m, 0) ** 2).sum()) / self.ridge
            dual = total**2 / (2 * (q + self.ridge * float(alpha @ alpha)))
        elif np.isfinite(self.C):
            if self.intercept:  # the best one is an order statistic of y - f
                k = int((self.y > 0).sum()) - 1
                m = m + self.y * np.partition(self.y - self.y * m, k)[k]
            primal, dual = 0.5 * q + self.C * float(np.maximum(1 - m, 0).sum()), total - 0.5 * q
        else:
            if not m.min() > 0:
                return np.inf
            primal, dual = 0.5 * q / float(m.min()) ** 2, total**2 / (2 * q)
        return (primal - dual) / primal


def radial(X: np.ndarray, gamma: float) -> np.ndarray:
    sq = (X**2).sum(1)
    return np.exp(-gamma * np.maximum(sq[:, None] + sq - 2 * X @ X.T, 0))


def machines() -> list[Machine]:
    from sklearn.datasets import load_digits, make_classification, make_moons

    from bregmat_papers.datasets import load_dataset

    cells = load_dataset("breast-cancer")
    rows = np.random.default_rng(0).permutation(len(cells.X))[:546]
    bcw, bcw_y = radial(cells.X[rows], 1 / 18), np.where(cells.y[rows] == 1, 1.0, -1.0)
    X, y = make_moons(1000, noise=0.2, random_state=0)
    moons, moons_y = radial((X - X.mean(0)) / X.std(0), 1.0), 2.0 * y - 1
    X, y = make_classification(1000, 20, n_informative=10, n_redundant=4, class_sep=1.0, flip_y=0.01, random_state=0)
    clf, clf_y = radial((X - X.mean(0)) / X.std(0), 1 / 20), 2.0 * y - 1
    X, y = load_digits(return_X_y=True)
    digits, digits_y = radial(X / 16, 1 / (64 * (X / 16).var())), np.where(y % 2 == 1, 1.0, -1.0)
    return [
        Machine("breast cancer, box C = 1", bcw, bcw_y, C=1.0),
        Machine("breast cancer, hard margin", bcw, bcw_y),
        Machine("moons 1000, squared hinge C = 1", moons, moons_y, ridge=1.0),
        Machine("breast cancer, box and intercept", bcw, bcw_y, C=1.0, intercept=True),
        Machine("classes 1000, box C = 1", clf, clf_y, C=1.0),
        Machine("classes 1000, box and intercept", clf, clf_y, C=1.0, intercept=True),
        Machine("digits, squared hinge C = 1", digits, digits_y, ridge=1.0),
        Machine("digits, box and intercept", digits, digits_y, C=1.0, intercept=True),
    ]


def runs(cap: int) -> None:
    from bregmat.quadratic.multiplicative import MultiplicativeUpdates, UpdatesRun, run_updates
    from bregmat.quadratic.split_program import SplitProgram
    from bregmat.quadratic.splits import ClassBlocks, DenseSplit

    def updated(machine: Machine, settings: MultiplicativeUpdates, is_dense: bool = False) -> UpdatesRun:
        split: Any = ClassBlocks(machine.K, machine.y, ridge=machine.ridge)
        if is_dense:
            A = machine.K * np.outer(machine.y, machine.y)
            split = DenseSplit(A + machine.ridge * np.eye(len(A)))

        def prove(state: Any) -> SimpleNamespace:
            gap = machine.gap(state.point.v)
            return SimpleNamespace(objective=state.point.F, dual_bound=np.nan, gap=gap)

        signs = machine.y if machine.intercept else None
        program = SplitProgram(split, -np.ones(len(machine.y)), upper=machine.C, signs=signs)
        return run_updates(program, settings, prove=prove, tol=GAP, max_iter=cap)

    rows = []
    for machine in machines():
        end = updated(machine, MultiplicativeUpdates())
        gap, F = machine.gap(end.x), np.array([record.objective for record in end.log.history])
        blocks = ""
        if not machine.intercept:
            swept = updated(machine, MultiplicativeUpdates(block=32), is_dense=True)
            blocks = f"{'> ' if machine.gap(swept.x) > GAP else ''}{2 * swept.n_iter + 1}"
        rows.append(
            [
                machine.name,
                f"{'> ' if gap > GAP else ''}{end.n_iter + 1}",
                f"{gap:.1e}",
                f"{(np.diff(F) / np.abs(F[1:])).max():.0e}",
                blocks,
            ]
        )
    header = ["machine", "passes", "gap", "largest rise of F", "blocks of 32"]
    harness.print_table(f"passes to a relative duality gap of {GAP:g}, at most {cap:,} steps", header, rows)


def small_programs(count: int = 800) -> None:
    """``nnqp(solver="multiplicative")`` on programs of 2 to 5 variables, half of them singular, beside a plain loop of 10,000 updates."""
    from bregmat import nnqp

    seconds: list[float] = []
    ends: list[str] = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 6))
        G = rng.normal(size=(n, int(rng.integers(1, n + 1))))
        A, b = G @ G.T, rng.normal(size=n)
        if G.shape[1] < n:
            b = A @ rng.normal(size=n)
        upper = rng.random(n) * 3 if rng.random() < 0.3 else np.full(n, np.inf)
        start = time.process_time()
        ends.append(str(nnqp(A, b, upper=upper, solver="multiplicative").status))
        seconds.append(time.process_time() - start)
    P, Q, v = np.maximum(A, 0.0), np.maximum(-A, 0.0), np.ones(n)
    start = time.process_time()
    for _ in range(10_000):
        p = P @ v
        v = np.minimum(v * (-b + np.sqrt(b * b + 4.0 * p * (Q @ v))) / (2.0 * p), upper)
    loop = time.process_time() - start
    times = np.array(seconds)
    row = [
        count,
        ends.count("OPTIMAL"),
        f"{1e3 * np.median(times):.2f} ms",
        f"{times.max():.2f} s",
        int((times > 0.3).sum()),
    ]
    header = ["programs", "OPTIMAL", "median", "slowest", "above 0.3 s", "all", "10,000 plain updates"]
    harness.print_table(
        "programs of 2 to 5 variables, to a gap of 1e-8", header, [[*row, f"{times.sum():.1f} s", f"{loop:.2f} s"]]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="passes of each kind (default 30)")
    parser.add_argument("--cap", type=int, default=2000, help="most steps of a run (default 2000)")
    parser.add_argument("--no-runs", action="store_true", help="the cost of a pass alone")
    parser.add_argument("--pass", dest="one_pass", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one_pass:
        report_pass(args.rounds)
    elif args.memory:
        report_memory(args.kind)
    else:
        print(harness.machine() + "; all threads")
        small_programs()
        passes(args.rounds)
        if not args.no_runs:
            runs(args.cap)


if __name__ == "__main__":
    harness.steady(main)
