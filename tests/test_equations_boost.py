"""DefiniteBoost against the page, step by step, with dense matrices and SciPy: Tsuda 2004, NIPS 17, section 4.

Section 3.2 and eq. 13 are in test_row_kernels_spectral.py, the vector case in test_boosting.py; what
the solver does to a problem in test_definite_boost.py.
"""

import numpy as np
import pytest
from scipy.linalg import expm, logm
from scipy.optimize import brentq, minimize_scalar

from bregmat import Constraints, DefiniteBoost
from bregmat.online import MatrixExponentiatedGradient
from cases import watch
from formulas import matrix_divergence, positive, symmetric, well_conditioned
from gradient_streams import Entropic, ForwardEntropic

FINE = 1e-13  # the zero finder's relative accuracy


def root(f, low, high):
    return brentq(f, low, high, xtol=1e-300, rtol=1e-14, maxiter=1000)


# ---------------------------------------------------------------- Tsuda 2004, section 4: one projection
def boost_case(rng, tau=1.0, d=5):
    """A prior of trace tau and rows of ranks one, two and five: <=, >= and ==; C_j for trace one, so that tr(W C_j) <= 0 or == 0."""
    W1 = well_conditioned(rng, d)
    W1 = tau * W1 / np.trace(W1)
    v, S = rng.normal(size=(4, d)), symmetric(rng, d)
    A = np.array(
        [
            np.outer(v[0], v[0]),
            np.outer(v[1], v[1]),
            np.outer(v[2], v[2]) - np.outer(v[3], v[3]),
            S,
            np.outer(v[3], v[3]),
        ]
    )
    F = np.eye(d) + 0.25 * rng.normal(size=(d, d))
    U = F @ W1 @ F.T
    b = np.einsum("cij,ji->c", A, tau * U / np.trace(U))
    sense = np.where(b < np.einsum("cij,ji->c", A, W1), 1, -1)
    sense[4] = 0
    text = np.array([">=", "==", "<="])[sense + 1]
    rows = Constraints.linear(A, b, list(text)) + Constraints.trace(tau)
    return W1, A - b[:, None, None] / tau * np.eye(d), sense, rows


def first_step(rng, projection, tau=1.0):
    W1, C, sense, rows = boost_case(rng, tau)
    solver = DefiniteBoost(projection=projection, corrected=False, block=1, root_tol=FINE)
    states, result = watch(W1, rows, solver, divergence="vonneumann")
    W, r = W1 / tau, np.einsum("cij,ji->c", C, W1 / tau)
    r = np.where(sense == 0, np.abs(r), sense * r)
    j = int(np.argmax(r))  # the most unsatisfied constraint
    side = sense[j] or np.sign(np.trace(C[j] @ W))
    return W, side * C[j], r[j], side * result.trace["step"][0], states[1][0] / tau, (int(result.trace["row"][0]), j)


@pytest.mark.parametrize("tau", [1.0, 7.0])
def test_tsuda_10(tau, rng):
    """argmin D(W, W_t) with tr W = 1, tr(W C_t) <= 0: on the plane, and nearer to W_t than every other point of the half space."""
    W, C, _, alpha, new, (row, j) = first_step(rng, "exact", tau)
    assert row == j
    assert alpha > 0
    assert np.trace(new) == pytest.approx(1.0, abs=1e-12)
    assert np.trace(new @ C) == pytest.approx(0.0, abs=1e-11)
    least = matrix_divergence("vonneumann", new, W)
    for _ in range(50):
        Y = new + 0.05 * positive(rng, 5, 1)
        Y = Y / np.trace(Y)
        if np.trace(Y @ C) <= 0:
            sides = matrix_divergence("vonneumann", Y, W), matrix_divergence("vonneumann", Y, new) + least
            assert sides[0] >= sides[1] - 1e-9


@pytest.mark.parametrize("tau", [1.0, 7.0])
def test_tsuda_11(tau, rng):
    """alpha_t minimises tr exp(log W_t - alpha C_t) over alpha >= 0."""
    W, C, _, alpha, _, _ = first_step(rng, "exact", tau)
    start = logm(W)
    best = minimize_scalar(
        lambda a: np.trace(expm(start - a * C)), bounds=(0, 10 * alpha), method="bounded", options={"xatol": 1e-9}
    )
    assert alpha == pytest.approx(best.x, abs=1e-6)  # the square root of rounding
    slope = root(lambda a: np.trace(C @ expm(start - a * C)), 0.0, 10 * alpha)
    assert alpha == pytest.approx(slope, rel=1e-9)


@pytest.mark.parametrize("tau", [1.0, 7.0])
@pytest.mark.parametrize("projection", ["exact", "approximate"])
def test_tsuda_12(projection, tau, rng):
    """W_t+1 = exp(log W_t - alpha C_t) / Z."""
    W, C, _, alpha, new, _ = first_step(rng, projection, tau)
    E = expm(logm(W) - alpha * C)
    assert np.allclose(new, E / np.trace(E), rtol=0, atol=1e-12)


def bound(alpha, r, low, high):
    """The bound on tr exp(log W_t - alpha C_t) that the proof of Theorem 4.1 minimises."""
    return ((high - r) * np.exp(-alpha * low) + (r - low) * np.exp(-alpha * high)) / (high - low)


@pytest.mark.parametrize("tau", [1.0, 7.0])
def test_tsuda_13(tau, rng):
    """The step minimises the bound; the printed one, with the signs of r turned, does not, or is undefined."""
    worse = undefined = 0
    for _ in range(20):
        W, C, r, alpha, _, _ = first_step(rng, "approximate", tau)
        values = np.linalg.eigvalsh(C)
        low, high = values[0], values[-1]
        best = minimize_scalar(
            lambda a, r=r, low=low, high=high: bound(a, r, low, high),
            bounds=(0, 10 * alpha),
            method="bounded",
            options={"xatol": 1e-9},
        )
        assert alpha == pytest.approx(best.x, abs=1e-5)
        assert alpha == pytest.approx(np.log((1 - r / low) / (1 - r / high)) / (high - low), rel=1e-9)
        reached = np.trace(expm(logm(W) - alpha * C))
        assert reached <= bound(alpha, r, low, high) * (1 + 1e-12) <= 1
        ratio = (1 + r / high) / (1 + r / low)
        if ratio <= 0:
            undefined += 1
        else:
            printed = np.log(ratio) / (high - low)
            worse += bound(printed, r, low, high) > bound(alpha, r, low, high) * (1 + 1e-6)
    assert undefined > 0
    assert worse > 0
    assert undefined + worse == 20


@pytest.mark.parametrize("tau", [1.0, 7.0])
def test_tsuda_footnote_3(tau, rng):
    """An approximate projection is an online step of rate one under the forward entropic loss, of C_t between its eigenvalues and of 0."""
    for _ in range(5):
        W, C, _, alpha, new, _ = first_step(rng, "approximate", tau)
        values = np.linalg.eigvalsh(C)
        low, width = values[0], values[-1] - values[0]
        learner = MatrixExponentiatedGradient(prior=W, eta=1.0, loss=ForwardEntropic(), instances="matrices")
        learner.learn_one((C - low * np.eye(len(C))) / width, -low / width)
        assert np.allclose(learner.matrix(), new, rtol=0, atol=1e-11)
        reverse = MatrixExponentiatedGradient(prior=W, eta=1.0, loss=Entropic(), instances="matrices")
        reverse.learn_one((C - low * np.eye(len(C))) / width, -low / width)
        assert np.abs(reverse.matrix() - new).max() > 1e-4


def test_tsuda_13_with_a_given_interval(rng):
    """Any interval that holds the eigenvalues; for (-s, s) the printed form is right: 1/(2 s) log((1 + r/s) / (1 - r/s))."""
    W1, C, sense, rows = boost_case(rng)
    s = 1.1 * np.abs(np.linalg.eigvalsh(C)).max()
    solver = DefiniteBoost(projection="approximate", corrected=False, block=1, spectrum=(-s, s))
    _, result = watch(W1, rows, solver, divergence="vonneumann")
    r = np.abs(np.trace(C[result.trace["row"][0]] @ W1))
    assert abs(result.trace["step"][0]) == pytest.approx(np.log((1 + r / s) / (1 - r / s)) / (2 * s), rel=1e-10)


# ---------------------------------------------------------------- Tsuda 2004, Theorem 4.1
@pytest.mark.parametrize("tau", [1.0, 5.0])
@pytest.mark.parametrize("order", ["greedy", "cyclic"])
@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("projection", ["exact", "approximate"])
def test_tsuda_14(projection, corrected, order, tau, rng):
    """tr exp(log W1 - sum gamma_j C_j) <= prod rho(r_t) at every step and decreasing; both worked out here for every step."""
    W1, C, sense, rows = boost_case(rng, tau)
    solver = DefiniteBoost(projection=projection, corrected=corrected, order=order, root_tol=FINE)
    states, result = watch(W1, rows, solver, sweeps=30, divergence="vonneumann")
    H, log_rho, nu = logm(W1 / tau), 0.0, np.zeros(len(C))
    trace = result.trace
    assert len(trace["row"]) >= 5
    for t, (j, step) in enumerate(zip(trace["row"], trace["step"])):
        E = expm(H)
        gap = np.trace(C[j] @ E) / np.trace(E)
        side = sense[j] or np.sign(gap)
        r, values = side * gap, side * np.linalg.eigvalsh(C[j])
        low, high = values.min(), values.max()
        alpha = np.log((1 - r / low) / (1 - r / high)) / (high - low)
        # a correction: the same bound at the length that is left
        cut = corrected and sense[j] != 0 and alpha < -side * nu[j]
        alpha = -side * nu[j] if cut else alpha
        log_rho += np.log(bound(alpha, r, low, high))
        if not cut:
            width = high - low
            rho = (1 - r / high) ** (high / width) * (1 - r / low) ** (-low / width)
            assert np.log(bound(alpha, r, low, high)) == pytest.approx(np.log(rho), abs=1e-12)
            assert rho <= 1 + 1e-15  # 1 at r = 0, but for rounding
        H, nu[j] = H - step * C[j], nu[j] + step
        assert trace["log_dual_objective"][t] == pytest.approx(np.log(np.trace(expm(H))), abs=1e-9)
        assert trace["log_bound"][t] == pytest.approx(log_rho, abs=1e-7 + 1e-6 * abs(log_rho))
    assert (trace["log_dual_objective"] <= trace["log_bound"] + 1e-12).all()
    assert (np.diff(trace["log_dual_objective"], prepend=0.0) <= 1e-12).all()
    assert (np.diff(trace["log_bound"], prepend=0.0) <= 1e-12).all()
    assert np.allclose(states[-1][0], tau * expm(H) / np.trace(expm(H)), rtol=0, atol=1e-9 * tau)
    # the dual objective is a dual bound: D(W, W1) >= -tau log tr exp(...)
    assert result.history[-1].dual_bound == pytest.approx(-tau * trace["log_dual_objective"][-1], abs=1e-9 * tau)


# ---------------------------------------------------------------- Tsuda 2004, section 3.2


# ---------------------------------------------------------------- Tsuda 2004, section 4.3
def adaboost(margins, rounds):
    """Schapire and Singer 1999: confidence-rated AdaBoost; margins y_i h_j(x_i) in [-1, 1], the best hypothesis of each round."""
    w = np.full(margins.shape[1], 1 / margins.shape[1])
    for _ in range(rounds):
        edges = margins @ w
        j = int(np.argmax(edges))
        alpha = 0.5 * np.log((1 + edges[j]) / (1 - edges[j]))
        w = w * np.exp(-alpha * margins[j])
        w = w / w.sum()
        yield j, alpha, w.copy()


def test_tsuda_4_3(rng):
    """DefiniteBoost on C_j = diag(y_i h_j(x_i)) from I / d, approximate and uncorrected: AdaBoost step by step, to 1e-12."""
    d, n, rounds = 60, 12, 60
    X, y = rng.normal(size=(d, n)), rng.choice([-1.0, 1.0], d)
    margins = (y[:, None] * np.tanh(X + 0.3 * y[:, None])).T
    rows = Constraints.linear([np.diag(m) for m in margins], 0.0, "<=") + Constraints.trace(1.0)
    solver = DefiniteBoost(projection="approximate", corrected=False, spectrum=(-1, 1), block=1)
    states, result = watch(np.eye(d) / d, rows, solver, sweeps=rounds, divergence="vonneumann")
    assert len(states) == len(result.trace["row"]) + 1 > 20
    loss, before = 0.0, np.full(d, 1 / d)
    for t, (j, alpha, w) in zip(range(len(states) - 1), adaboost(margins, rounds)):
        assert result.trace["row"][t] == j
        assert result.trace["step"][t] == pytest.approx(alpha, rel=1e-12)
        assert np.abs(states[t + 1][0] - np.diag(w)).max() <= 1e-12
        # the dual objective is AdaBoost's exponential loss, the bound the product of sqrt(1 - r^2)
        total = states[t + 1][1][:n] @ margins
        assert np.exp(result.trace["log_dual_objective"][t]) == pytest.approx(np.mean(np.exp(-total)), rel=1e-10)
        loss += 0.5 * np.log(1 - (margins[j] @ before) ** 2)
        assert result.trace["log_bound"][t] == pytest.approx(loss, rel=1e-10)
        before = w
