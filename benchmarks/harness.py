"""What the benchmarks share: problems, an independent referee, timing in CPU seconds, peak memory, tables.

The referee (`referee`) recomputes objective, dual bound and violation from a matrix and multipliers alone, in plain
NumPy and float64, so that a rival and bregmat are judged by the same ruler and neither by its own word.
"""

from __future__ import annotations

import compileall
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bregmat_papers.rivals import metric_learn as metric_learn


@dataclass(frozen=True)
class PairProblem:
    """Labelled points and pairs of them: similar pairs at most `near`, others at least `far` (squared distances)."""

    name: str
    X: np.ndarray
    i: np.ndarray
    j: np.ndarray
    similar: np.ndarray
    near: float
    far: float

    @property
    def bound(self) -> np.ndarray:
        return np.where(self.similar, self.near, self.far)

    @property
    def sign(self) -> np.ndarray:
        return np.where(self.similar, 1.0, -1.0)

    @property
    def n_pairs(self) -> int:
        return len(self.i)

    @property
    def size(self) -> str:
        n, d = self.X.shape
        return f"{n:,} x {d:,}, {self.n_pairs:,} pairs"

    def constraints(self) -> Any:
        from bregmat import Constraints

        return Constraints.sq_distance(self.i, self.j, self.bound, np.where(self.similar, "<=", ">="))

    def differences(self) -> np.ndarray:
        return np.asarray(self.X[self.i] - self.X[self.j])


def pairs_from_labels(name: str, X: np.ndarray, y: np.ndarray, n_pairs: int, seed: int = 0) -> PairProblem:
    """Davis 2007: random pairs, bounds at the 5th and 95th percentile of the squared distances of random pairs."""
    rng = np.random.default_rng(seed)
    n = len(X)
    a, b = rng.integers(0, n, (2, 5000))
    sq = ((X[a] - X[b]) ** 2).sum(1)
    near, far = np.percentile(sq[sq > 0], (5, 95))
    i, j = rng.integers(0, n, (2, 2 * n_pairs))
    apart = np.flatnonzero(np.any(X[i] != X[j], axis=1))[:n_pairs]
    i, j = i[apart], j[apart]
    return PairProblem(name, X, i, j, y[i] == y[j], float(near), float(far))


def wine(standardised: bool, n_pairs: int = 360) -> PairProblem:
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    if standardised:
        X = (X - X.mean(0)) / X.std(0)
    return pairs_from_labels("wine standardised" if standardised else "wine raw", X, y, n_pairs)


def unsquared_bounds(problem: PairProblem, name: str) -> PairProblem:
    """The problem metric-learn poses by default: percentiles of the distances used as bounds of squared distances."""
    return replace(problem, name=name, near=problem.near**0.5, far=problem.far**0.5)


def digits(n_pairs: int) -> PairProblem:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return pairs_from_labels(f"digits {n_pairs:,}", X, y, n_pairs)


def many_classes() -> PairProblem:
    """3,000 standardised points of 12 classes in 150 dimensions, with the pairs that `constraints_from_labels` draws."""
    from sklearn.datasets import make_classification

    from bregmat import constraints_from_labels

    shape = {"n_informative": 30, "n_classes": 12, "n_clusters_per_class": 1}
    X, y = make_classification(3000, 150, random_state=0, **shape)
    X = (X - X.mean(0)) / X.std(0)
    drawn = constraints_from_labels(X, y, random_state=0)
    i, j = drawn.index[:, 0], drawn.index[:, 1]
    similar = drawn.sense > 0
    return PairProblem("12 classes", X, i, j, similar, drawn.bound[similar][0], drawn.bound[~similar][0])


def clusters(
    n_pairs: int, n_points: int = 10_000, dim: int = 100, seed: int = 0, *, is_raw: bool = False
) -> PairProblem:
    """Ten Gaussian clusters whose noise grows from column to column (0.2 to 2), all divided by sqrt(dim) unless raw."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n_points)
    X = rng.normal(size=(10, dim))[y] + rng.normal(size=(n_points, dim)) * np.linspace(0.2, 2.0, dim)
    if not is_raw:
        X /= np.sqrt(dim)
    sample = rng.integers(0, n_points, (2, 3000))
    sq = ((X[sample[0]] - X[sample[1]]) ** 2).sum(1)
    near, far = np.percentile(sq[sq > 0], (5, 95))
    i, j = rng.integers(0, n_points, n_pairs), rng.integers(0, n_points, n_pairs)
    apart = i != j
    i, j = i[apart], j[apart]
    return PairProblem(f"synthetic {'raw ' * is_raw}{n_pairs:,}", X, i, j, y[i] == y[j], float(near), float(far))


@dataclass(frozen=True)
class Verdict:
    """Objective, dual bound and largest relative violation, recomputed from a matrix alone."""

    objective: float
    bound: float
    violation: float

    def gap(self, bound: float | None = None) -> float:
        """(objective - bound) / max(1, |objective|), with the better of the two bounds."""
        best = self.bound if bound is None else max(bound, self.bound)
        return (self.objective - best) / max(1.0, abs(self.objective))


def referee(
    problem: PairProblem,
    B: np.ndarray,
    dual: np.ndarray | None = None,
    *,
    slack_weight: float = 1.0,
    divergence: str = "logdet",
) -> Verdict:
    """Judge the metric B B' with identity prior; without `dual`, the multipliers are the loss derivatives there.

    The spectrum comes from the singular values of B: eigenvalues of a product can turn negative by rounding.
    """
    D, b, s, g = problem.differences(), problem.bound, problem.sign, slack_weight
    p = ((D @ B) ** 2).sum(1)
    hit = s * (p - b) > 0
    q = np.where(hit, p / b, 1.0)
    eigenvalues = np.zeros(len(B))
    eigenvalues[: min(B.shape)] = np.linalg.svd(B, compute_uv=False) ** 2
    if divergence == "logdet":
        logdet = np.log(eigenvalues).sum() if eigenvalues.min() > 0 else -np.inf
        objective = eigenvalues.sum() - logdet - len(B) + g * (q - np.log(q) - 1).sum()
        mu = np.where(hit, g * (1 / b - 1 / p), 0.0) if dual is None else dual
    elif divergence == "vonneumann":
        positive = eigenvalues[eigenvalues > 0]
        objective = (positive * np.log(positive)).sum() - eigenvalues.sum() + len(B)
        objective += g * (b * (q * np.log(q) - q + 1))[hit].sum()
        mu = np.where(hit, g * np.log(q), 0.0) if dual is None else dual
    else:
        objective = 0.5 * ((eigenvalues - 1) ** 2).sum() + 0.5 * g * ((p - b)[hit] ** 2).sum()
        mu = np.where(hit, g * (p - b), 0.0) if dual is None else dual
    adjoint = np.linalg.eigvalsh((D.T * mu) @ D)
    if divergence == "logdet":
        scale = 1.0 if adjoint[0] > -1 else 0.999 / -adjoint[0]
        bound = np.log1p(scale * adjoint).sum() + g * np.log1p(-scale * mu * b / g).sum()
    elif divergence == "vonneumann":
        bound = -np.expm1(-adjoint).sum() - (g * b * np.expm1(mu / g)).sum()
    else:
        bound = 0.5 * (1 - np.maximum(1 - adjoint, 0) ** 2).sum() - (mu * b + mu**2 / (2 * g)).sum()
    return Verdict(float(objective), float(bound), float(np.max(s * (p - b) / b, initial=0.0)))


def one_thread() -> None:
    """BLAS, and with it bregmat's shared loops, on one thread for the rest of the process."""
    import threadpoolctl

    threadpoolctl.threadpool_limits(1)


def steady(main: Callable[[], None]) -> None:
    """Run `main` in a fresh process, after this one has filled all caches that outlive a process.

    These are the bytecode of modules and the file cache of the system: kernels are compiled when the package is built, and nothing else
    is kept on disk. This process has imported the modules of the script, compiles those of bregmat that are imported later,
    and replaces itself. Whether later processes stay as fast as the first is measured by bench_processes.py.
    """
    if os.environ.get("BREGMAT_CACHES") == "filled":
        main()
        return
    import bregmat

    compileall.compile_dir(Path(bregmat.__file__).parent, quiet=2)
    sys.stdout.flush()
    os.execve(sys.executable, sys.orig_argv, os.environ | {"BREGMAT_CACHES": "filled"})


@dataclass
class Timed:
    """The last value a call returned, with all its CPU and wall times in seconds."""

    value: Any
    cpu: list[float]
    wall: list[float]

    @property
    def cpu_median(self) -> float:
        return statistics.median(self.cpu)

    @property
    def wall_median(self) -> float:
        return statistics.median(self.wall)

    def more(self, other: Timed) -> Timed:
        return Timed(other.value, self.cpu + other.cpu, self.wall + other.wall)


def timed(call: Callable[[], Any], *, repeats: int = 1, at_least: float = 0.0, at_most: int = 100) -> Timed:
    """Run `call` `repeats` times, then on until `at_least` wall seconds or `at_most` runs are reached."""
    cpu, wall, value = [], [], None
    while len(cpu) < repeats or (sum(wall) < at_least and len(cpu) < at_most):
        start, cpu_start = time.perf_counter(), time.process_time()
        value = call()
        cpu.append(time.process_time() - cpu_start)
        wall.append(time.perf_counter() - start)
    return Timed(value, cpu, wall)


def peak_memory_mb() -> float:
    """Peak resident memory of this process in MB (10^6 bytes).

    VmHWM where there is one: ru_maxrss keeps the parent's peak across fork and exec on Linux.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def seconds(value: float) -> str:
    """Three significant digits with a unit."""
    if value < 0.0995:
        return f"{value * 1e3:.3g} ms"
    return f"{value:.3g} s" if value < 999.5 else f"{value:,.0f} s"


def verdict_word(reached: bool) -> str:
    return "reached" if reached else "MISSED"


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A Markdown table with aligned columns."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[k]) for row in [list(header), *cells]) for k in range(len(header))]
    print(f"\n{title}\n")
    for row in [list(header), ["-" * width for width in widths], *cells]:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
    sys.stdout.flush()


def machine() -> str:
    """One line that says where and with what a figure was measured."""
    import datetime
    import platform
    from importlib.metadata import version

    from bregmat._kernels import level

    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    load = os.getloadavg()[0]
    return (
        f"{datetime.date.today()}, {os.cpu_count()} cores (load {load:.1f}), "
        f"Python {platform.python_version()}, {versions}, kernels for {level} of {platform.machine()}"
    )
