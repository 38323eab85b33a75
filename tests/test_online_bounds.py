"""Tsuda 2004, Lemmas 3.1, 3.2 and A.1 and the Golden-Thompson inequality, as numbers; the bound that a learner reports."""

import warnings

import numpy as np
import pytest

from bregmat import Constraints, nearest_kernel
from bregmat.online import MatrixExponentiatedGradient, SpectralSpreadWarning, SquaredLoss, UnreachableLabelWarning
from gradient_streams import Absolute, ForwardEntropic, Logistic
from states import saved_and_loaded

ROUNDING = 1e-11  # both sides of an inequality are sums of a few d x d products of numbers of order 1
# noise takes labels beyond what the target's trace can predict; the warning has a test of its own
pytestmark = pytest.mark.filterwarnings("ignore::bregmat.online.UnreachableLabelWarning")


def hermitian(rng, d, *, is_complex=False):
    A = rng.normal(size=(d, d)) + (1j * rng.normal(size=(d, d)) if is_complex else 0.0)
    return (A + A.conj().T) / 2


def function(A, f):
    values, U = np.linalg.eigh(A)
    return (U * f(values)) @ U.conj().T


def density(rng, d, *, is_complex=False, spread=2.0):
    W = function(spread * hermitian(rng, d, is_complex=is_complex), np.exp)
    return W / np.trace(W).real


def instance(rng, d, r, *, is_complex=False):
    """A random Hermitian matrix of spectral spread r."""
    X = hermitian(rng, d, is_complex=is_complex)
    return X * (r / np.ptp(np.linalg.eigvalsh(X)))


def inner(A, B):
    return float(np.vdot(A, B).real)


def learning_rate(c, spread):
    """``2 b / (2 + c)`` for ``b = c / r^2``, the rate of Lemma 3.1."""
    return 2 * c / (spread**2 * (2 + c))


def trial_sides(W, W_next, U, X, y, *, c, spread):
    """Both sides of Lemma 3.1, ``a (y - tr WX)^2 - b (y - tr UX)^2 <= Delta(U, W) - Delta(U, W_next)`` (Tsuda 2004, eq. 5)."""
    a, b = learning_rate(c, spread), c / spread**2
    left = a * (y - inner(W, X)) ** 2 - b * (y - inner(U, X)) ** 2
    return left, inner(U, function(W_next, np.log) - function(W, np.log))


# ---------------------------------------------------------------- inequalities that the proofs rest on
@pytest.mark.parametrize("is_complex", [False, True])
def test_golden_thompson(rng, is_complex):
    """``tr exp(A + B) <= tr exp(A) exp(B)``: the paper prints it the other way round."""
    strict = 0
    for _ in range(50):
        A, B = (hermitian(rng, 5, is_complex=is_complex) for _ in range(2))
        left = np.trace(function(A + B, np.exp)).real
        right = inner(function(A, np.exp), function(B, np.exp))
        assert left <= right * (1 + ROUNDING)
        strict += left < 0.99 * right
    assert strict > 25


def test_lemma_a1(rng):
    """``exp(d1 A + d2 (I - A)) <= e^d1 A + e^d2 (I - A)`` for 0 <= A <= I."""
    eye = np.eye(5)
    for _ in range(50):
        A = hermitian(rng, 5)
        low, high = np.linalg.eigvalsh(A)[[0, -1]]
        A = (A - low * eye) / (high - low)
        d1, d2 = rng.normal(size=2) * 3
        above = np.exp(d1) * A + np.exp(d2) * (eye - A) - function(d1 * A + d2 * (eye - A), np.exp)
        assert np.linalg.eigvalsh(above)[0] >= -ROUNDING * np.exp(max(abs(d1), abs(d2)))


# ---------------------------------------------------------------- Lemma 3.1
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("c", [0.1, 1.0, 20.0])
def test_lemma_31_holds_on_every_step(rng, c, is_complex):
    d, r = 4, 1.7
    U = density(rng, d, is_complex=is_complex)
    learner = MatrixExponentiatedGradient(d, instances="matrices", eta=learning_rate(c, r), spectral_spread=r)
    tight = []
    for _ in range(150):
        X = instance(rng, d, r, is_complex=is_complex) + rng.normal() * np.eye(d)
        y = inner(U, X) + 0.3 * rng.normal()
        before = learner.matrix()
        learner.learn_one(X, y)
        left, right = trial_sides(before, learner.matrix(), U, X, y, c=c, spread=r)
        assert left <= right + ROUNDING
        tight.append(right - left)
    assert min(tight) < 0.01  # the inequality is not empty


def test_lemma_31_fails_for_a_larger_spread(rng):
    """With r understated the inequality breaks: the check of the spread is no formality."""
    d, c, broken = 3, 5.0, 0
    for _ in range(200):
        U, W = density(rng, d), density(rng, d)
        X, y = instance(rng, d, 2.0), rng.normal()
        eta = learning_rate(c, 1.0)
        W_next = function(function(W, np.log) - 2 * eta * (inner(W, X) - y) * X, np.exp)
        left, right = trial_sides(W, W_next / np.trace(W_next), U, X, y, c=c, spread=1.0)
        broken += left > right + ROUNDING
    assert broken > 20


# ---------------------------------------------------------------- Lemma 3.2
def noisy_stream(rng, k):
    """A small random stream of any kind, its target, and how the learner is told about it."""
    d, T = int(rng.integers(2, 7)), int(rng.integers(20, 120))
    kind, trace = ["pairs", "vectors", "matrices"][k % 3], [1.0, 2.5][k % 2]
    is_complex = kind != "pairs" and k % 4 == 1
    U = trace * density(rng, d, is_complex=is_complex)
    if kind == "pairs":
        a = rng.integers(0, d, T)
        X = np.column_stack([a, (a + rng.integers(1, d, T)) % d])
        Z = np.eye(d)[X[:, 0]] - np.eye(d)[X[:, 1]]
        clean = 0.5 * np.einsum("ij,jk,ik->i", Z, U, Z)
    elif kind == "vectors":
        X = rng.normal(size=(T, d)) + (1j * rng.normal(size=(T, d)) if is_complex else 0)
        X /= np.linalg.norm(X, axis=1)[:, None]
        clean = np.einsum("ij,jk,ik->i", X.conj(), U, X).real
    else:
        X = np.array([instance(rng, d, 1.0, is_complex=is_complex) for _ in range(T)])
        clean = np.einsum("tij,ij->t", X.conj(), U).real
    y = clean + rng.choice([0.0, 0.01, 0.3]) * rng.normal(size=T)
    y = np.maximum(y, 0.0) if kind == "pairs" else y
    return d, kind, trace, U, X, y, float(((clean - y) ** 2).sum())


@pytest.mark.parametrize("part", range(4))
def test_lemma_32_on_200_streams(rng, part):
    for k in range(50):
        stream = np.random.default_rng([part, k])
        d, kind, trace, U, X, y, loss_of_U = noisy_stream(stream, k)
        budget = float(stream.choice([0.0, 0.5, 2.0])) * loss_of_U
        learner = MatrixExponentiatedGradient(d, instances=kind, trace=trace, loss_budget=budget).partial_fit(X, y)
        bound = learner.loss_bound(U, loss_of_U)
        assert learner.cumulative_loss_ <= bound * (1 + ROUNDING)
        assert bound <= learner.loss_bound(loss_of_U=loss_of_U) * (1 + ROUNDING)
        if budget > 0:
            assert np.isfinite(bound)


@pytest.mark.parametrize(
    ("loss", "eta"),
    [(Absolute(), 0.05), (Logistic(), 0.3), (ForwardEntropic(), 0.05), (SquaredLoss(), 0.2)],
)
def test_bound_of_other_convex_losses(rng, loss, eta):
    for _ in range(10):
        d, T = 5, 80
        U = density(rng, d)
        X = rng.normal(size=(T, d))
        X /= np.linalg.norm(X, axis=1)[:, None]
        p = np.einsum("ij,jk,ik->i", X, U, X)
        y = (
            np.where(p + 0.1 * rng.normal(size=T) > 0.2, 1.0, -1.0)
            if isinstance(loss, Logistic)
            else np.clip(p, 0.0, 1.0)
        )
        learner = MatrixExponentiatedGradient(d, instances="vectors", loss=loss, eta=eta).partial_fit(X, y)
        bound = learner.loss_bound(U, float(np.sum(learner.settings.loss.value(p, y))))
        assert learner.cumulative_loss_ <= bound < np.inf


# ---------------------------------------------------------------- divergences


# ---------------------------------------------------------------- what a learner reports
def distance_stream(rng, d, T, noise=0.0):
    G = rng.normal(size=(d, 8))
    K = np.exp(-((G[:, None] - G[None]) ** 2).sum(-1) / 12.5)
    K /= np.trace(K)
    a = rng.integers(0, d, T)
    b = (a + rng.integers(1, d, T)) % d
    y = 0.5 * (K[a, a] + K[b, b] - 2 * K[a, b]) + noise * rng.normal(size=T)
    return K, np.column_stack([a, b]), np.maximum(y, 0.0)


@pytest.mark.slow
def test_bound_over_loss_on_a_realizable_stream_of_distances(rng):
    """Tsuda 2004, Figure 2: d = 52, eta = 2, 2e5 examples; about 1.96."""
    K, X, y = distance_stream(rng, 52, 200_000)
    learner = MatrixExponentiatedGradient(52).partial_fit(X, y)
    assert learner.eta_ == 2.0
    assert 1.8 < learner.loss_bound(K) / learner.cumulative_loss_ < 2.2
    assert learner.loss_bound() == pytest.approx(np.log(52) / 2)


def test_spread_is_checked(rng):
    learner = MatrixExponentiatedGradient(3, instances="vectors", spectral_spread=2.0)
    learner.learn_one([1.0, 1.0, 0.0], 0.5)
    assert np.isfinite(learner.loss_bound())
    with pytest.warns(SpectralSpreadWarning, match="example 1 is 3, above spectral_spread=2"):
        learner.learn_one([1.0, 1.0, 1.0], 0.5)
    assert learner.loss_bound() == np.inf
    learner.learn_one([2.0, 1.0, 1.0], 0.5)  # said once: a second warning would be an error here
    assert learner.n_seen_ == 3
    assert "above spectral_spread" in learner.void_


def test_spread_of_matrices_is_exact(rng):
    """The quick Frobenius bound overstates it; then it is computed."""
    signs = np.diag([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    learner = MatrixExponentiatedGradient(6, instances="matrices", spectral_spread=2.0).learn_one(signs, 0.1)
    learner.learn_one(signs + 5.0 * np.eye(6), 5.1)
    assert learner.void_ is None
    with pytest.warns(SpectralSpreadWarning):
        learner.learn_one(1.001 * signs, 0.1)


# ---------------------------------------------------------------- streams that no matrix of the trace fits
def test_a_loss_above_the_bound_is_a_proof(rng):
    """Distances of a kernel of trace 4 at trace 1, each of them within reach."""
    K, X, y = distance_stream(rng, 10, 3000)
    y *= 4.0
    assert y.max() < 1.0
    learner = MatrixExponentiatedGradient(10).partial_fit(X, y)
    assert learner.cumulative_loss_ > learner.loss_bound(loss_of_U=0.0)  # what follows from a false assumption
    assert learner.loss_bound() == np.inf
    assert "no matrix of trace 1 fits this stream exactly" in learner.void_
    assert "allow a larger trace" in learner.void_ and "or a larger loss budget" in learner.void_
    assert learner.cumulative_loss_ <= learner.loss_bound(loss_of_U=1e9)
    fits = MatrixExponentiatedGradient(10, trace=4.0).partial_fit(X, y)
    assert fits.void_ is None and fits.cumulative_loss_ <= fits.loss_bound() < np.inf
    # what the docstring promises: the trace of the centred kernel, from the mean of all pairs
    J = np.eye(10) - 0.1
    i, j = np.triu_indices(10, 1)
    mean = np.mean(K[i, i] + K[j, j] - 2.0 * K[i, j]) / 2.0
    assert np.trace(J @ K @ J) == pytest.approx(9 * mean, rel=1e-12)


def test_a_loss_budget_is_what_the_bound_assumes(rng):
    K, X, y = distance_stream(rng, 10, 2000, noise=0.02)
    probe = MatrixExponentiatedGradient(10).partial_fit(X, y)
    budget = 1.01 * probe.loss_of(K)
    learner = MatrixExponentiatedGradient(10, loss_budget=budget).partial_fit(X, y)
    assert learner.void_ is None
    assert learner.cumulative_loss_ <= learner.loss_bound() == learner.loss_bound(loss_of_U=budget) < np.inf
    assert learner.loss_bound(K) == learner.loss_bound(K, learner.loss_of(K)) < learner.loss_bound()
    low = MatrixExponentiatedGradient(10, loss_budget=1e-3, eta=0.5).partial_fit(4 * [*X], 4 * [*(6 * y)])
    assert "no matrix of trace 1 has a total loss of at most 0.001 on this stream" in low.void_


@pytest.mark.parametrize("kind", ["pairs", "vectors", "matrices"])
def test_a_label_out_of_reach_is_a_proof(rng, kind):
    d, trace = 4, 2.0
    x = {"pairs": (0, 1), "vectors": 0.7 * np.eye(d)[1], "matrices": np.diag([0.5, -0.1, 0.2, 0.4]) + 0.05}[kind]
    high = {"pairs": 1.0, "vectors": 0.49, "matrices": np.linalg.eigvalsh(np.diag([0.5, -0.1, 0.2, 0.4]) + 0.05)[-1]}[
        kind
    ]
    learner = MatrixExponentiatedGradient(d, instances=kind, trace=trace).learn_one(x, trace * high)
    assert learner.void_ is None
    with pytest.warns(UnreachableLabelWarning, match="the label 3 of example 2 is beyond what one of that trace can"):
        learner.partial_fit([x, x], [trace * high, 3.0])
    assert learner.void_.startswith("no matrix of trace 2 fits this stream exactly") and learner.loss_bound() == np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.learn_one(x, 3.0)  # said once
    again = saved_and_loaded(learner)
    assert again.void_ == learner.void_ and again.n_seen_ == 4


def test_labels_out_of_reach_within_the_budget():
    """Each costs every matrix at least 0.25: three are within a budget of 0.8, four are not."""
    learner = MatrixExponentiatedGradient(3, loss_budget=0.8).partial_fit([(0, 1)] * 3, [1.5] * 3)
    assert np.isfinite(learner.loss_bound())
    with pytest.warns(UnreachableLabelWarning, match="at most 0.8 on this stream: the label 1.5 of example 3"):
        learner.learn_one((0, 1), 1.5)
    with pytest.raises(ValueError, match="at least 0"):
        learner.learn_one((0, 1), -0.1)
    assert learner.n_seen_ == 4


def test_no_bound_where_none_is_proven(rng):
    _, X, y = distance_stream(rng, 6, 20)
    assert MatrixExponentiatedGradient(6, eta=2.1).partial_fit(X, y).loss_bound() == np.inf


# ---------------------------------------------------------------- fixed matrices on the same stream
def test_loss_of_a_matrix_from_the_tally(rng):
    K, X, y = distance_stream(rng, 7, 300, noise=0.05)
    learner = MatrixExponentiatedGradient(7).partial_fit(X[:123], y[:123]).partial_fit(X[123:, ::-1], y[123:])
    plain = sum((0.5 * (K[a, a] + K[b, b]) - K[a, b] - label) ** 2 for (a, b), label in zip(X, y, strict=True))
    assert learner.loss_of(K) == pytest.approx(plain, rel=1e-12)
    assert learner.regret(K) == pytest.approx(learner.cumulative_loss_ - plain)


def test_the_best_matrix_in_hindsight_by_a_nearness_problem(rng):
    """``sum_t (tr(U X_t) - y_t)^2 + w Delta(U, W_1)`` is what `nearest_kernel` minimises for soft equalities of weight ``2 b^2 / w``."""
    K, X, y = distance_stream(rng, 6, 400, noise=0.02)
    learner = MatrixExponentiatedGradient(6, eta=0.5).partial_fit(X, y)
    keep, weight = y > 1e-4, 1e-4 * learner.cumulative_loss_
    labels = Constraints.sq_distance(*X[keep].T, 2.0 * y[keep], "==")
    gamma = np.append(2.0 * y[keep] ** 2 / weight, np.inf)
    rows = labels + Constraints.trace(1.0)
    result = nearest_kernel(np.eye(6) / 6, rows, divergence="vonneumann", loss="squared", slack_weight=gamma)
    U = result.kernel() / np.trace(result.kernel())
    dropped = (0.5 * (U[X[:, 0], X[:, 0]] + U[X[:, 1], X[:, 1]]) - U[X[:, 0], X[:, 1]] - y)[~keep]
    for other in [K, *(0.98 * U + 0.02 * density(rng, 6) for _ in range(100))]:
        assert learner.loss_of(other) >= learner.loss_of(U) - (dropped**2).sum() - weight * np.log(6) - 1e-6
    assert learner.regret(U) >= learner.regret(K)


def test_loss_of_a_matrix_is_known_for_pairs_with_the_squared_loss():
    assert MatrixExponentiatedGradient(3).loss_of(np.eye(3) / 3) == 0.0  # of no examples
    other = MatrixExponentiatedGradient(3, loss=Absolute(), eta=0.1).learn_one((0, 1), 0.2)
    for learner in (other, MatrixExponentiatedGradient(3, instances="vectors")):
        with pytest.raises(ValueError, match=r"for pairs with the squared loss only.*loss_bound\(U, loss_of_U\)"):
            learner.loss_of(np.eye(3) / 3)
    with pytest.raises(ValueError, match="U must have the trace 1; got 3"):
        other.loss_of(np.eye(3))
    with pytest.raises(ValueError, match="U must be positive semidefinite"):
        other.loss_bound(np.diag([1.5, -0.5, 0.0]))
