"""How many passes over the matrix the multiplicative updates make, and how many updates of blocks save.

Passes are counted until the relative duality gap, recomputed here from the coefficients alone, is 1e-3.

    BREGMAT_DATA=folder python benchmarks/bench_multiplicative.py    # 2 to 4 minutes; breast-cancer-wisconsin.data is read
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import harness
import numpy as np

GAP = 1e-3


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
    from bregmat.quadratic.program import QuadraticProgram

    def updated(machine: Machine, settings: MultiplicativeUpdates) -> UpdatesRun:
        A = machine.K * np.outer(machine.y, machine.y) + machine.ridge * np.eye(len(machine.y))

        def prove(state: Any) -> SimpleNamespace:
            gap = machine.gap(state.point.v)
            return SimpleNamespace(objective=state.point.F, dual_bound=np.nan, gap=gap)

        equality = (machine.y, 0.0) if machine.intercept else None
        program = QuadraticProgram.build(A, -np.ones(len(machine.y)), upper=machine.C, equality=equality)
        return run_updates(program, settings, prove=prove, tol=GAP, max_iter=cap)

    rows = []
    for machine in machines():
        end = updated(machine, MultiplicativeUpdates())
        gap, F = machine.gap(end.x), np.array([record.objective for record in end.log.history])
        blocks = ""
        if not machine.intercept:
            swept = updated(machine, MultiplicativeUpdates(block=32))
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
    parser.add_argument("--cap", type=int, default=2000, help="most steps of a run (default 2000)")
    args = parser.parse_args()
    print(harness.machine() + "; all threads")
    small_programs()
    runs(args.cap)


if __name__ == "__main__":
    harness.steady(main)
