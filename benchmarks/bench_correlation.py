"""Nearest correlation matrices beside statsmodels' corr_nearest: time, distance, and its own stopping rule.

Broken matrices: a factor model plus noise, clipped to [-1, 1] ("noise"), and correlations of returns with gaps, each computed from
the days that both assets have ("pairwise"). The distance is ``|X - C|`` (Frobenius); below the proven lower bound only for what is no
correlation matrix. corr_nearest stops when the smallest eigenvalue of its matrix is at least 1e-15; the rule is applied to both
results as it is written there (``eigh``). It never is met in rounded arithmetic where the optimum is singular, so corr_nearest ends at
its iteration limit with a warning: its default of 100 n at n = 100, but n at n = 500, where the default would take half an hour.

    python benchmarks/bench_correlation.py [--sizes 100 500] [--large 2000] [--banded 150] [--skip-rival]
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import harness
import numpy as np

from bregmat import factor_correlation, nearest_correlation

RULE = 1e-15  # threshold of corr_nearest


def noisy(n: int, seed: int = 0) -> np.ndarray:
    """Correlations of a model with five factors plus noise."""
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, 5))
    S = F @ F.T + np.diag(rng.random(n))
    d = 1 / np.sqrt(np.diag(S))
    E = 0.1 * rng.normal(size=(n, n))
    C = np.clip(d[:, None] * S * d + (E + E.T) / 2, -1, 1)
    np.fill_diagonal(C, 1.0)
    return (C + C.T) / 2


def pairwise(n: int, seed: int = 0, missing: float = 0.4) -> np.ndarray:
    """Correlations of n returns on n / 2 days, each from the days that both have."""
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(n // 2, 3)) @ rng.normal(size=(3, n)) + rng.normal(size=(n // 2, n))
    here = (rng.random(R.shape) > missing).astype(float)
    R = R * here
    m = here.T @ here
    mean = R.T @ here / m  # of column i where j is present
    moment = (R * R).T @ here / m
    C = (R.T @ R / m - mean * mean.T) / np.sqrt((moment - mean**2) * (moment - mean**2).T)
    np.fill_diagonal(C, 1.0)
    return (C + C.T) / 2


def definite(C: np.ndarray, low: float = 0.01) -> np.ndarray:
    """Eigenvalues raised to ``low``: positive definite with a diagonal that is off, what LogDet and von Neumann start from."""
    t, U = np.linalg.eigh(C)
    A = (U * np.maximum(t, low)) @ U.T
    return (A + A.T) / 2


def banded(n: int, lag: int = 10, observations: int = 60, phi: float = 0.85) -> np.ndarray:
    """Sample correlations of an autoregressive process in order of its lag, set to 0 beyond a lag."""
    rng = np.random.default_rng(0)
    X = np.zeros((observations, n))
    X[:, 0] = rng.normal(size=observations)
    for k in range(1, n):
        X[:, k] = phi * X[:, k - 1] + np.sqrt(1 - phi**2) * rng.normal(size=observations)
    C = np.corrcoef(X.T)
    C = np.where(np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= lag, (C + C.T) / 2, 0.0)
    np.fill_diagonal(C, 1.0)
    return C


def meets_rule(X: np.ndarray) -> bool:
    """Stopping rule of corr_nearest, with the unit diagonal that it sets before the last clipping."""
    return not bool(np.any(np.linalg.eigh(X)[0] < RULE)) and bool(np.abs(np.diag(X) - 1).max() < 1e-12)


def made_feasible(X: np.ndarray) -> np.ndarray:
    """The matrix shifted until its smallest eigenvalue is the rule's, with its diagonal restored: a correlation matrix."""
    A = X + max(0.0, RULE - np.linalg.eigvalsh(X)[0]) * np.eye(len(X))
    d = 1 / np.sqrt(np.diag(A))
    return d[:, None] * A * d


def rival(C: np.ndarray) -> Any:
    from statsmodels.stats.correlation_tools import corr_nearest

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return corr_nearest(C, n_fact=100 if len(C) <= 100 else 1)


def frobenius(sizes: list[int], with_rival: bool) -> None:
    rows = []
    for name, make in (("noise", noisy), ("pairwise", pairwise)):
        for n in sizes:
            C = make(n)
            nearest_correlation(C)
            ours = harness.timed(lambda C=C: nearest_correlation(C), repeats=3, at_least=1.0)
            result = ours.value
            lower = np.sqrt(2 * max(result.dual_bound, 0.0))
            row = [
                name,
                n,
                harness.seconds(ours.cpu_median),
                f"{result.residual:.8f}",
                f"{lower:.8f}",
                meets_rule(result.X),
            ]
            if with_rival:
                theirs = harness.timed(lambda C=C: rival(C))
                X = theirs.value
                ratio = theirs.cpu_median / ours.cpu_median
                feasible = np.linalg.norm(made_feasible(X) - C)
                row += [
                    harness.seconds(theirs.cpu_median),
                    f"{np.linalg.norm(X - C):.8f}",
                    f"{feasible:.8f}",
                    meets_rule(X),
                ]
                row += [f"{np.linalg.eigvalsh(X)[0]:.0e}", f"{ratio:.0f}", harness.verdict_word(ratio >= 40)]
            rows.append(row)
    header = ["matrix", "n", "bregmat", "distance", "proven lower bound", "rule met"]
    if with_rival:
        header += [
            "corr_nearest",
            "its distance",
            "made feasible",
            "rule met",
            "smallest eigenvalue",
            "ratio",
            "40 times",
        ]
    harness.print_table("Frobenius", header, rows)


def weighted(sizes: list[int]) -> None:
    """Weights per entry from 0.1 to 1, log-uniform, which corr_nearest does not take."""
    rows = []
    for name, make in (("noise", noisy), ("pairwise", pairwise)):
        for n in sizes:
            C, H = make(n), 10 ** np.random.default_rng(1).uniform(-1, 0, (n, n))
            run = harness.timed(lambda C=C, H=(H + H.T) / 2: nearest_correlation(C, weights=H))
            r = run.value
            word = f"10 s: {harness.verdict_word(run.cpu_median < 10.0)}" if n == 1000 else ""
            rows.append([name, n, harness.seconds(run.cpu_median), r.n_iter, str(r.status), f"{r.gap:.1e}", word])
    harness.print_table("Weights per entry", ["matrix", "n", "CPU", "steps", "status", "gap", "target"], rows)


def fixed_entries(sizes: list[int]) -> None:
    """Entries beyond lag 10 fixed at 0: nearly all of them."""
    rows = []
    for n in sizes:
        C = banded(n)
        run = harness.timed(lambda C=C: nearest_correlation(C, fixed=C == 0))
        r = run.value
        word = f"10 s: {harness.verdict_word(run.cpu_median < 10.0 and r.gap <= 1e-6)}"
        rows.append([n, harness.seconds(run.cpu_median), r.n_iter, str(r.status), f"{r.gap:.1e}", r.solver, word])
    harness.print_table("Fixed entries", ["n", "CPU", "steps", "status", "gap", "solver", "target"], rows)


def factors(sizes: list[int], k: int = 5) -> None:
    """As many factors as the model of ``noisy`` has, and the share of the objective that the bound proves."""
    rows = []
    factor_correlation(noisy(10), 1)  # the first call loads scipy.optimize
    for n in sizes:
        C = noisy(n)
        run = harness.timed(lambda C=C: factor_correlation(C, k))
        r = run.value
        share = f"{100 * r.dual_bound / r.objective:.0f} %"
        rows.append(
            [n, k, harness.seconds(run.cpu_median), f"{r.objective:.4g}", f"{r.dual_bound:.4g}", share, str(r.status)]
        )
    harness.print_table("Factors", ["n", "k", "CPU", "objective", "bound", "share", "status"], rows)


def divergences(sizes: list[int]) -> None:
    targets = {("logdet", 100): 0.005, ("logdet", 500): 0.1, ("logdet", 2000): 10.0}
    rows = []
    for divergence in ("logdet", "vonneumann", "frobenius"):
        for n in sizes:
            C = noisy(n) if divergence == "frobenius" else definite(noisy(n))
            if n <= 500:
                nearest_correlation(C, divergence=divergence)
            run = harness.timed(
                lambda C=C, divergence=divergence: nearest_correlation(C, divergence=divergence),
                repeats=3 if n <= 500 else 1,
                at_least=0.5 if n <= 500 else 0.0,
            )
            r, target = run.value, targets.get((divergence, n))
            word = (
                "" if target is None else f"{harness.seconds(target)}: {harness.verdict_word(run.cpu_median < target)}"
            )
            seconds = [harness.seconds(run.cpu_median), harness.seconds(run.wall_median)]
            rows.append([divergence, n, *seconds, r.n_iter, str(r.status), f"{r.gap:.1e}", word])
    harness.print_table(
        "Every divergence, one thread",
        ["divergence", "n", "CPU", "wall", "steps", "status", "gap", "target"],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--large", type=int, nargs="*", default=[2000])
    parser.add_argument("--banded", type=int, nargs="*", default=[140, 150, 160, 180, 200])
    parser.add_argument("--skip-rival", action="store_true")
    given = parser.parse_args()
    print(harness.machine())
    harness.one_thread()
    divergences([*given.sizes, *given.large])
    weighted([*given.sizes, 1000])
    fixed_entries(given.banded)
    factors(given.sizes)
    frobenius(given.sizes, not given.skip_rival)


if __name__ == "__main__":
    harness.steady(main)
