"""nnqp beside piqp, quadprog, daqp (through qpsolvers) and scipy.optimize.nnls: one thread, interleaved, accuracy printed.

Problems: ``A = X'X``, ``b = -X't`` with X of twice as many rows as columns; "gauss": Gaussian X; "cond 1e3": singular values of X from 1 to
1e-3; the planted solution has half its entries at zero. The residual of each solver is judged here from its x alone: the largest of
``-x_i``, ``-g_i`` and ``|min(x_i / max x, g_i / max|b|)|`` with ``g = A x + b``, relative to max x and max|b|. nnls gets X and t, and is
compared with nnqp and the time that the Gram matrix of X takes.

    python benchmarks/bench_nnqp.py [--sizes 300 1000 3000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import harness
import numpy as np

from bregmat.quadratic import nnqp

# (problem, n, rival): how many times as long as ours it should take at least
TARGETS = {
    ("gauss", 1000, "piqp"): 4.0,
    ("gauss", 3000, "piqp"): 5.5,
    ("gauss", 1000, "quadprog"): 25.0,
    ("gauss", 3000, "quadprog"): 50.0,
    ("gauss", 1000, "nnls"): 5.5,
    ("gauss", 3000, "nnls"): 12.0,
    ("cond 1e3", 1000, "piqp"): 1.8,
    ("cond 1e3", 1000, "daqp"): 3.5,
}


def data(kind: str, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2 * n, n))
    noise = 0.5
    if kind != "gauss":
        U = np.linalg.qr(X)[0]
        V = np.linalg.qr(rng.standard_normal((n, n)))[0]
        X = (U * np.logspace(0, -3, n)) @ V.T
        noise = 1e-2 / np.sqrt(n)
    planted = np.maximum(rng.standard_normal(n), 0.0)
    return X, X @ planted + noise * rng.standard_normal(2 * n)


def residual(A: np.ndarray, b: np.ndarray, x: np.ndarray) -> float:
    g = (A @ x + b) / np.abs(b).max()
    u = x / np.abs(x).max()
    return float(max((-u).max(), (-g).max(), np.abs(np.minimum(u, g)).max()))


def rivals(X: np.ndarray, t: np.ndarray, A: np.ndarray, b: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    import qpsolvers
    from scipy.optimize import nnls

    lower = np.zeros(len(b))
    calls: dict[str, Callable[[], Any]] = {
        name: lambda name=name: qpsolvers.solve_qp(A, b, lb=lower, solver=name) for name in ("piqp", "daqp", "quadprog")
    }
    calls["nnls"] = lambda: nnls(X, t, maxiter=100 * len(b))[0]
    return calls


def compare(kind: str, n: int, repeats: int) -> list[list[str]]:
    X, t = data(kind, n)
    A = np.ascontiguousarray(X.T @ X)
    b = -X.T @ t
    ours: dict[str, Callable[[], Any]] = {
        "nnqp": lambda: nnqp(A, b),
        "least squares": lambda: nnqp(np.ascontiguousarray(X.T @ X), -X.T @ t),
    }
    calls = {**ours, **rivals(X, t, A, b)}
    for name in ours:
        calls[name]()
    times: dict[str, list[float]] = {name: [] for name in calls}
    values: dict[str, Any] = {}
    for k in range(repeats):
        for name, call in calls.items():
            if k and name not in ours and times[name][0] > 10.0:
                continue
            run = harness.timed(call)
            times[name] += run.cpu
            values[name] = run.value
    medians = {name: statistics.median(values) for name, values in times.items()}
    rows = []
    for name in calls:
        mine = "least squares" if name in ("nnls", "least squares") else "nnqp"
        x = values[name].x if name in ours else values[name]
        ratio = medians[name] / medians[mine]
        target = TARGETS.get((kind, n, name))
        word = "" if target is None else f"{target:g}: {'met' if ratio >= target else 'MISSED'}"
        off = "failed" if x is None else f"{residual(A, b, x):.0e}"
        more = [f"{values[name].gap:.0e}", str(values[name].n_iter)] if name in ours else ["", ""]
        ratio_text = "" if name in ours else f"{ratio:.1f}"
        rows.append([kind, n, name, harness.seconds(medians[name]), len(times[name]), off, *more, ratio_text, word])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 1000, 3000])
    parser.add_argument("--kinds", nargs="+", default=["gauss", "cond 1e3"])
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # qpsolvers advises sparse matrices
    print(harness.machine())
    harness.one_thread()
    np.empty(50_000_000)[:] = 1.0  # touch memory once, so that the first solver does not pay for it
    header = ["problem", "n", "solver", "CPU", "runs", "KKT residual", "gap", "steps", "time / ours", "target"]
    for kind in given.kinds:
        for n in given.sizes:
            if kind != "gauss" and n > 1000:
                continue
            harness.print_table(f"{kind}, n = {n}", header, compare(kind, n, given.repeats))


if __name__ == "__main__":
    harness.steady(main)
