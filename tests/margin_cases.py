"""What the tests of margin machines share: data, and a referee that is plain float64 NumPy."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_classification, make_moons

from bregmat.result import ExitReason, Status

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
