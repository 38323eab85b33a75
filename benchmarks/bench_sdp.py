"""How near to the optimum are semidefinite programs, and how long do they take beside Clarabel and SCS?

Max-cut and Lovasz theta of random graphs. Every figure is recomputed here: the objective from the matrix, its feasibility from
eigenvalues and rows, and bregmat's bound from the weights alone. "apart" is the difference of the objectives, relative to Clarabel's.

    python benchmarks/bench_sdp.py            # 20 graphs of 20 to 100 vertices; needs cvxpy, clarabel and scs
    python benchmarks/bench_sdp.py --large    # max-cut and a sparse theta of 500 vertices
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import cvxpy as cp
import numpy as np

from bregmat import Constraints, semidefinite_program, verify


def random_graph(n: int, share: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < share, 1).astype(float)
    return A + A.T


def cut_program(A: np.ndarray) -> tuple[np.ndarray, Constraints]:
    return (A - np.diag(A.sum(axis=1))) / 4, Constraints.diagonal(np.ones(len(A)))


def theta_program(A: np.ndarray) -> tuple[np.ndarray, Constraints]:
    i, j = np.nonzero(np.triu(A))
    return -np.ones_like(A), Constraints.trace(1.0) + Constraints.similarity(i, j, 0.0, "==")


def by_cvxpy(C: np.ndarray, A: np.ndarray, kind: str, solver: str, **options: Any) -> tuple[float, float, float]:
    """Objective, seconds of the solver itself, and seconds with cvxpy's own work."""
    X = cp.Variable(C.shape, PSD=True)
    rows = [cp.diag(X) == 1] if kind == "cut" else [cp.trace(X) == 1, X[np.nonzero(np.triu(A))] == 0]
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(C, X))), rows)
    start = time.perf_counter()
    problem.solve(solver=solver, **options)
    return float(np.vdot(C, X.value)), float(problem.solver_stats.solve_time), time.perf_counter() - start


def compare(
    name: str, kind: str, A: np.ndarray, *, rivals: tuple[str, ...], is_checked: bool, tol: float = 1e-7
) -> None:
    C, rows = cut_program(A) if kind == "cut" else theta_program(A)
    start = time.perf_counter()
    result = semidefinite_program(C, rows, tol=tol)
    seconds = time.perf_counter() - start
    checked = verify(result, C=C, constraints=rows).verdict if is_checked else ""
    text = f"{name:<12} {rows.n_constraints:>5} rows  bregmat {result.status} {result.objective:.9g} "
    text += f"gap {result.gap:.0e} {seconds:.2f} s {checked}"
    for rival in rivals:
        options = (
            {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iters": 50_000, "time_limit_secs": 120.0} if rival == "SCS" else {}
        )
        objective, own, whole = by_cvxpy(C, A, kind, rival, **options)
        apart = abs(objective - result.objective) / abs(objective)
        text += f"  {rival} apart {apart:.0e} {own:.2f} s ({whole:.2f} s with cvxpy)"
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    large = parser.parse_args().large
    if large:
        # Clarabel factorises a dense block of order n (n + 1) / 2, which takes 125 GB for n = 500
        compare("cut 500", "cut", random_graph(500, 0.02, 0), rivals=("SCS",), is_checked=False)
        compare("theta 500", "theta", random_graph(500, 0.01, 0), rivals=("SCS",), is_checked=False)
        return
    for k, n in enumerate(np.linspace(20, 100, 10).astype(int)):
        A = random_graph(n, 4.0 / n + 0.05, k)
        for kind in ("cut", "theta"):
            compare(f"{kind} {n}", kind, A, rivals=("CLARABEL", "SCS") if n <= 60 else ("CLARABEL",), is_checked=True)


if __name__ == "__main__":
    main()
