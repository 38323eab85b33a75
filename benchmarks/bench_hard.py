"""Hard constraints on a 52 x 52 kernel: time and proof beside SciPy's L-BFGS-B on the same dual.

The problem of Tsuda 2004, section 5, on made-up data: a target kernel of three classes with trace one, prior I / 52,
random pairs; same-class pairs at most, other pairs at least, their squared distance in the target, so the target itself
is feasible. The rival maximises the dual with its rows scaled to bound 1 and exact gradients; its matrix is the primal
of its multipliers, which meets the constraints only up to the violation shown, so its gap may be negative.

    python benchmarks/bench_hard.py [--divergence NAME] [--rows 100 300 500 1000]
"""

from __future__ import annotations

import argparse
from typing import Any

import harness
import numpy as np
import scipy.optimize

SIZE = 52


class Dual:
    """Spectral functions of one divergence with prior I / SIZE: M = psi(T), D(M, M0), the dual's part in T."""

    def __init__(self, name: str):
        self.name = name
        self.prior = 1.0 / SIZE
        self.start = {"logdet": -SIZE, "vonneumann": np.log(1 / SIZE), "frobenius": 1 / SIZE}[name]

    def psi(self, t: np.ndarray) -> np.ndarray:
        if self.name == "logdet":
            return -1 / t
        return np.exp(t) if self.name == "vonneumann" else np.maximum(t, 0.0)

    def value(self, t: np.ndarray) -> float:
        """The dual function without its linear term."""
        if self.name == "logdet":
            return float(np.log(t / self.start).sum()) if t.max() < 0 else -np.inf
        if self.name == "vonneumann":
            return float(SIZE * self.prior - np.exp(t).sum())
        return float((SIZE * self.prior**2 - (np.maximum(t, 0) ** 2).sum()) / 2)

    def distance(self, eigenvalues: np.ndarray) -> float:
        """D(M, I / SIZE) from the eigenvalues of M."""
        x = eigenvalues / self.prior
        if self.name == "logdet":
            return float((x - np.log(x) - 1).sum()) if x.min() > 0 else np.inf
        if self.name == "vonneumann":
            positive = x[x > 0]
            return float(self.prior * ((positive * np.log(positive)).sum() - x.sum() + len(x)))
        return float(((eigenvalues - self.prior) ** 2).sum() / 2)


def problem(rows: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], [18, 17, 17])
    points = 1.2 * rng.normal(size=(3, 10))[y] + rng.normal(size=(SIZE, 10))
    sq = ((points[:, None] - points[None]) ** 2).sum(2)
    target = np.exp(-sq / 26.0)
    target /= np.trace(target)
    i = rng.integers(0, SIZE, rows)
    j = (i + rng.integers(1, SIZE, rows)) % SIZE
    bound = target[i, i] + target[j, j] - 2 * target[i, j]
    return i, j, bound, np.where(y[i] == y[j], 1.0, -1.0)


def adjoint(i: np.ndarray, j: np.ndarray, weight: np.ndarray) -> np.ndarray:
    matrix = np.zeros((SIZE, SIZE))
    np.add.at(matrix, (i, i), weight)
    np.add.at(matrix, (j, j), weight)
    np.add.at(matrix, (i, j), -weight)
    np.add.at(matrix, (j, i), -weight)
    return matrix


def sq_distances(M: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    return M[i, i] + M[j, j] - 2 * M[i, j]


def rival(dual: Dual, i: np.ndarray, j: np.ndarray, bound: np.ndarray, sign: np.ndarray) -> tuple[Any, ...]:
    """L-BFGS-B on the dual in the variables |mu| b >= 0. Returns M, mu, evaluations."""

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        mu = sign * x / bound
        t, U = np.linalg.eigh(dual.start * np.eye(SIZE) - adjoint(i, j, mu))
        value = dual.value(t) - mu @ bound
        if not np.isfinite(value):
            return 1e10, np.zeros_like(x)
        p = sq_distances((U * dual.psi(t)) @ U.T, i, j)
        return -value, -sign * (p - bound) / bound

    options = {"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-8, "maxcor": 20}
    found = scipy.optimize.minimize(
        negative, np.zeros(len(i)), jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(i), options=options
    )
    mu = sign * found.x / bound
    t, U = np.linalg.eigh(dual.start * np.eye(SIZE) - adjoint(i, j, mu))
    return (U * dual.psi(t)) @ U.T, mu, found.nfev


def judge(dual: Dual, data: tuple[np.ndarray, ...], M: np.ndarray, mu: np.ndarray) -> tuple[float, float, float]:
    """Objective, gap as a share of it, and largest relative violation, recomputed."""
    i, j, bound, sign = data
    objective = dual.distance(np.linalg.eigvalsh((M + M.T) / 2))
    lower = dual.value(np.linalg.eigvalsh(dual.start * np.eye(SIZE) - adjoint(i, j, mu))) - mu @ bound
    excess = sign * (sq_distances(M, i, j) - bound) / bound
    return objective, (objective - lower) / abs(objective), float(excess.max(initial=0.0))


def compare(name: str, rows: int) -> list[list[Any]]:
    import bregmat

    dual, data = Dual(name), problem(rows)
    i, j, bound, sign = data
    prior = np.eye(SIZE) / SIZE
    constraints = bregmat.Constraints.sq_distance(i, j, bound, np.where(sign > 0, "<=", ">="))

    def learn() -> Any:
        return bregmat.nearest_kernel(prior, constraints, divergence=name, tol=1e-6)

    first = harness.timed(learn)
    ours = harness.timed(learn, repeats=3, at_least=0.2)
    theirs = harness.timed(lambda: rival(dual, *data))
    ours = ours.more(harness.timed(learn, repeats=3, at_least=0.2))
    result = ours.value
    lines = []
    for who, run, M, mu, steps, status in (
        ("bregmat", ours, result.kernel(), np.asarray(result.dual), result.n_iter, result.status.name),
        ("L-BFGS-B", theirs, *theirs.value[:2], theirs.value[2], ""),
    ):
        objective, gap, violation = judge(dual, data, M, mu)
        lines.append(
            [
                name,
                f"{rows:,}",
                who,
                harness.seconds(run.cpu_median),
                harness.seconds(first.cpu_median) if who == "bregmat" else "",
                steps,
                status,
                f"{gap:.1e}",
                f"{violation:.1e}",
                f"{objective:.8g}",
                f"{int((np.abs(mu) > 1e-9 * np.abs(mu).max(initial=1e-300)).sum())}",
            ]
        )
    lines[1].append(f"{theirs.cpu_median / ours.cpu_median:.1f} x")
    lines[0].append("")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--divergence", choices=("logdet", "vonneumann", "frobenius"))
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 300, 500, 1000])
    args = parser.parse_args()
    harness.one_thread()
    print(harness.machine() + "; one thread, CPU seconds, medians")
    names = [args.divergence] if args.divergence else ["logdet", "vonneumann", "frobenius"]
    header = ["divergence", "rows", "solver", "CPU", "first call", "steps", "status", "gap / objective", "violation"]
    header += ["objective", "active", "ratio"]
    for name in names:
        lines = [line for rows in args.rows for line in compare(name, rows)]
        harness.print_table(f"{SIZE} x {SIZE}, hard constraints, {name}", header, lines)


if __name__ == "__main__":
    harness.steady(main)
