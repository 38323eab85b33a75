"""What the tests of margin machines share: data, a referee that is plain float64 NumPy, and one in fractions."""

from fractions import Fraction
from itertools import product

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_classification, make_moons

from bregmat.engine.status import ExitReason, Status

EXACT = 1e-10  # gap asked for; float64 leaves 1e-12 and less up to C = 1e4


def gaussian(X, gamma):
    return np.exp(-gamma * np.maximum((X**2).sum(1)[:, None] + (X**2).sum(1) - 2 * X @ X.T, 0))


def referee(K, problem, result):
    """Dual and primal objective of the returned machine, from the whole kernel in float64."""
    a, y, counts = result.alpha, problem.signs, problem.upper > 0
    f = K @ (y * a)
    q, m = a @ (y * f), y * (f + result.intercept)
    dual = a.sum() - 0.5 * q - 0.5 * problem.ridge @ a**2
    slack = np.maximum(1 - m, 0)[counts]
    if problem.loss == "hinge":
        primal = 0.5 * q + problem.upper[counts] @ slack
    elif problem.loss == "squared_hinge":
        primal = 0.5 * q + 0.5 * (slack**2 / problem.ridge[counts]).sum()
    else:
        primal = 0.5 * q / m[counts].min() ** 2 if m[counts].min() > 0 else np.inf
    return dual, primal, m


def check_optimal(K, problem, result, gap=1e-9):
    """Feasible, and optimal to ``gap`` by the referee; the result says the same of itself."""
    a = result.alpha
    assert result.status is Status.OPTIMAL and result.exit_reason is ExitReason.TOLERANCE, repr(result)
    assert np.all((a >= 0) & (a <= problem.upper))
    if problem.intercept:
        assert abs(problem.signs @ a) <= 1e-12 * a.sum()
    else:
        assert result.intercept == 0.0
    dual, primal, m = referee(K, problem, result)
    assert (primal - dual) / primal <= gap
    assert -1e-15 <= result.gap <= result.tol
    # objective and bound are those of the referee to the rounding of sums over n^2 entries
    np.testing.assert_allclose([result.dual_bound, result.objective], [dual, primal], rtol=max(1e-11, gap))
    # decision values within the margin are exact, beyond it to float32
    value = problem.signs * (K @ (problem.signs * a) + result.intercept)
    inside = value < 1 + 1e-6
    np.testing.assert_allclose(
        problem.signs[inside] * result.decision[inside], value[inside], rtol=0, atol=1e-8 * a.sum() + 1e-9
    )
    return dual


def blobs(rng, n, d=3, distance=1.5, share=0.5):
    y = np.where(rng.random(n) < share, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return rng.standard_normal((n, d)) + 0.5 * distance * y[:, None] / np.sqrt(d), y


def real_data(name):
    if name == "digits":
        X, t = load_digits(return_X_y=True)
        return X / 16, np.where(t % 2 == 1, 1.0, -1.0)
    if name == "cancer":
        X, t = load_breast_cancer(return_X_y=True)
        return (X - X.mean(0)) / X.std(0), np.where(t == 1, 1.0, -1.0)
    if name == "moons":
        X, t = make_moons(700, noise=0.2, random_state=0)
    elif name == "unbalanced":
        X, t = make_classification(900, 12, n_informative=6, weights=[0.97], random_state=1)
    else:
        X, t = make_classification(600, 20, n_informative=10, flip_y=0.05, random_state=2)
    return X, 2.0 * t - 1


def solved(M, rhs):
    """The solution of a linear system in fractions; None where it is singular."""
    rows = [[*row, r] for row, r in zip(M, rhs)]
    for c in range(len(rows)):
        pivot = next((r for r in range(c, len(rows)) if rows[r][c] != 0), None)
        if pivot is None:
            return None
        rows[c], rows[pivot] = rows[pivot], rows[c]
        for r in range(len(rows)):
            if r != c and rows[r][c] != 0:
                factor = rows[r][c] / rows[c][c]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[c])]
    return [row[-1] / row[c] for c, row in enumerate(rows)]


def exact_optima(X, y, C, *, intercept, squared):
    """Dual weights of every optimal vertex of a linear machine in exact arithmetic, by trying all active sets."""
    n, X = len(X), [[Fraction(float(v)) for v in row] for row in X]
    ridge = 1 / Fraction(C) if squared and np.isfinite(C) else 0
    top = Fraction(C) if np.isfinite(C) and not squared else None
    A = [
        [int(y[i] * y[j]) * sum(a * b for a, b in zip(X[i], X[j])) + ridge * (i == j) for j in range(n)]
        for i in range(n)
    ]
    found = []
    for part in product((0, 1) if top is None else (0, 1, 2), repeat=n):
        F, B = [i for i in range(n) if part[i] == 1], [i for i in range(n) if part[i] == 2]
        M = [[A[i][j] for j in F] for i in F]
        rhs = [1 - sum(A[i][j] for j in B) * (top or 0) for i in F]
        if intercept and F:
            M = [[*row, Fraction(int(y[i]))] for row, i in zip(M, F)] + [
                [Fraction(int(y[j])) for j in F] + [Fraction(0)]
            ]
            rhs = [*rhs, -sum(int(y[i]) for i in B) * (top or 0)]
        values = solved(M, rhs) if F else []
        if values is None:
            continue
        alpha = [top if i in B else Fraction(0) for i in range(n)]
        for i, value in zip(F, values):
            alpha[i] = value
        if any(a < 0 or (top is not None and a > top) for a in alpha):
            continue
        if intercept and sum(int(s) * a for s, a in zip(y, alpha)) != 0:
            continue
        # slope - y b <= 0 where alpha can grow, >= 0 where it can shrink, for some b (0 without an intercept)
        low, high = (None, None) if intercept else (Fraction(0), Fraction(0))
        for i in range(n):
            slope = (1 - sum(A[i][j] * alpha[j] for j in range(n))) * int(y[i])
            grows, shrinks = top is None or alpha[i] < top, alpha[i] > 0
            if grows if y[i] > 0 else shrinks:
                low = slope if low is None else max(low, slope)
            if shrinks if y[i] > 0 else grows:
                high = slope if high is None else min(high, slope)
        if low is None or high is None or low <= high:
            found.append(alpha)
    return found
