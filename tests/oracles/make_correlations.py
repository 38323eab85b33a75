"""Make the stored optima of small nearest-correlation problems with CVXPY.

Not part of the test run: it needs ``cvxpy`` and ``clarabel`` in an environment of its own. Run it as
``python tests/oracles/make_correlations.py``; it writes ``correlation.json`` beside it. Nothing is imported from bregmat.

Frobenius and LogDet go to Clarabel. The von Neumann problems are solved by SciPy's BFGS on their smooth dual, with SciPy's
matrix functions: the conic form takes minutes at this size and ends less exact.
"""

import json
from pathlib import Path

import cvxpy as cp
import numpy as np
import scipy.linalg
from scipy.optimize import minimize

HERE = Path(__file__).parent


def symmetric(rng, n, noise):
    F = rng.normal(size=(n, 3))
    S = F @ F.T + np.diag(rng.random(n))
    d = 1 / np.sqrt(np.diag(S))
    E = noise * rng.normal(size=(n, n))
    C = np.clip(d[:, None] * S * d + (E + E.T) / 2, -1, 1)
    np.fill_diagonal(C, 1.0)
    return np.round(C, 6)


def definite(rng, n):
    X = rng.normal(size=(n, 2 * n))
    return np.round(X @ X.T / (2 * n) + 0.05 * np.eye(n), 6)


def problems():
    rng = np.random.default_rng(5)
    for n in (2, 3, 5, 8, 12, 15):
        yield {"divergence": "frobenius", "C": symmetric(rng, n, 0.5)}
    for n, low in ((4, 0.1), (8, 0.01), (12, 0.3)):
        yield {"divergence": "frobenius", "C": symmetric(rng, n, 0.4), "min_eig": low}
    for n, m in ((4, 2), (8, 6), (12, 20)):
        C, truth = symmetric(rng, n, 0.5), np.round(np.corrcoef(rng.normal(size=(n, 3 * n))), 6)
        i, j = np.triu_indices(n, 1)
        pick = rng.permutation(len(i))[:m]
        i, j = i[pick], j[pick]
        C[i, j] = C[j, i] = truth[i, j]
        yield {"divergence": "frobenius", "C": C, "fixed": np.column_stack([i, j])}
    for n in (2, 5, 9, 14):
        yield {"divergence": "logdet", "C": definite(rng, n)}
    for n in (2, 4, 6, 8):
        yield {"divergence": "vonneumann", "C": definite(rng, n)}


def solved(problem):
    """Objective and matrix."""
    C, n = problem["C"], len(problem["C"])
    if problem["divergence"] == "vonneumann":
        return by_dual(C)
    X = cp.Variable((n, n), symmetric=True)
    rows = [cp.diag(X) == 1, X - problem.get("min_eig", 0.0) * np.eye(n) >> 0]
    rows += [X[i, j] == C[i, j] for i, j in problem.get("fixed", [])]
    if problem["divergence"] == "frobenius":
        cost = cp.sum_squares(X - C) / 2
    else:
        cost = cp.trace(X @ np.linalg.inv(C)) - cp.log_det(X) + np.linalg.slogdet(C)[1] - n
    task = cp.Problem(cp.Minimize(cost), rows)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
    task.solve(solver="CLARABEL", **tight, max_iter=500)
    return float(task.value), X.value


def by_dual(C):
    """Maximise ``tr C - tr exp(log C - diag(y)) - sum y`` by BFGS, which shares no code and no method with bregmat's."""
    log = scipy.linalg.logm(C).real

    def cost(y):
        X = scipy.linalg.expm(log - np.diag(y))
        return np.trace(X) + y.sum(), 1.0 - np.diag(X)

    found = minimize(cost, np.zeros(len(C)), jac=True, method="BFGS", options={"gtol": 1e-11})
    return float(np.trace(C) - found.fun), scipy.linalg.expm(log - np.diag(found.x))


def main():
    out = []
    for problem in problems():
        objective, X = solved(problem)
        plain = {name: np.asarray(v).tolist() if name in ("C", "fixed") else v for name, v in problem.items()}
        out.append(plain | {"objective": objective, "X": np.round(X, 9).tolist()})
    (HERE / "correlation.json").write_text(json.dumps(out, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
