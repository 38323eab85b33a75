"""The matrix exponentiated gradient learner: the paper's equations and the formulas of its bounds, all kinds and losses."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from bregmat import VonNeumann
from bregmat._kernels import lanczos
from bregmat.online import MatrixExponentiatedGradient, SquaredLoss, bounds
from bregmat.online.bounds import relative_entropy
from bregmat.online.settings import as_online_loss
from gradient_streams import Absolute, Own, density, function, measured, stream, twin_trials
from states import state_of

EXACT = 1e-12  # the learner and its twin run the same recursion in different arithmetic; a few hundred trials of order-1 numbers
# noise takes labels beyond what the target's trace can predict; the warning has a test of its own
pytestmark = pytest.mark.filterwarnings("ignore::bregmat.online.UnreachableLabelWarning")


# ---------------------------------------------------------------- the equations of the paper
def test_tsuda_2_and_3_the_update_minimises_the_linearised_problem(rng):
    """``Delta(W, W_t) + 2 eta (yhat - y) tr(W X)``, eq. 2 with the approximation of eq. 3, over matrices of trace one."""
    d, eta, y = 4, 0.7, 0.9
    W = density(rng, d)
    X = rng.normal(size=(d, d))
    X = (X + X.T) / 2
    learner = MatrixExponentiatedGradient(prior=W, eta=eta, instances="matrices", spectral_spread=20.0)
    slope = 2 * eta * (learner.predict_one(X) - y)
    after = learner.learn_one(X, y).matrix()

    def objective(V):
        return relative_entropy(V, function(W, np.log)) + slope * float((V * X).sum())

    best = objective(after)
    for size in (1.0, 0.1, 1e-3):
        for _ in range(30):
            assert objective((1 - size) * after + size * density(rng, d)) >= best - 1e-13
    residual = function(after, np.log) - function(W, np.log) + slope * X  # eq. 3, up to the multiplier of the trace
    assert np.abs(residual - np.eye(d) * residual[0, 0]).max() < EXACT


@pytest.mark.parametrize("kind", ["pairs", "vectors", "matrices"])
def test_tsuda_4_by_the_matrix_logarithm(rng, kind):
    """``W <- exp(log W - 2 eta (yhat - y) X) / Z``, with a logarithm at each step."""
    d, eta = 5, 0.8
    _, X, y = stream(rng, kind, d, 30)
    learner = MatrixExponentiatedGradient(d, eta=eta, instances=kind)
    W = np.eye(d) / d
    for x, label in zip(X, y, strict=True):
        if kind == "pairs":
            v = (np.eye(d)[x[0]] - np.eye(d)[x[1]]) / np.sqrt(2)
            A = np.outer(v, v)
        else:
            A = x if kind == "matrices" else np.outer(x, x)
        p = float((W * A).sum())
        assert learner.predict_one(x) == pytest.approx(p, rel=1e-11)
        W = function(function(W, np.log) - 2 * eta * (p - label) * A, np.exp)
        W /= np.trace(W)
        learner.learn_one(x, label)
        assert np.abs(learner.matrix() - W).max() < 1e-11  # the logarithm loses digits at each step


def test_tsuda_7_the_unwrapped_form_survives_where_logarithms_do_not(rng):
    """All matrices from the sum in the exponent; eigenvalues of W go down to 1e-40."""
    d, eta = 6, 2.0
    v = np.eye(d)[0]
    learner = MatrixExponentiatedGradient(d, eta=eta, instances="vectors")
    H, W = np.eye(d) * np.log(1 / d), np.eye(d) / d
    for _ in range(300):
        learner.learn_one(v, 1.2)  # out of reach: the exponent grows without end
        H = H - 2 * eta * (W[0, 0] - 1.2) * np.outer(v, v)
        H -= np.linalg.eigvalsh(H)[-1] * np.eye(d)  # the free constant c_t
        W = function(H, np.exp)
        W /= np.trace(W)
    assert np.linalg.eigvalsh(W)[0] < 1e-40
    # W is diagonal; relative to each entry
    assert np.diag(learner.matrix()) == pytest.approx(np.diag(W), rel=1e-9)
    assert np.linalg.eigvalsh(learner.matrix())[0] >= -1e-300


def test_diagonal_instances_are_exponentiated_gradient(rng):
    """On diagonal instances W is a probability vector and the update that of Kivinen and Warmuth."""
    d, eta = 6, 0.5
    target, x = rng.dirichlet(np.ones(d)), rng.random((200, d))
    y = x @ target + 0.05 * rng.normal(size=200)
    learner = MatrixExponentiatedGradient(d, eta=eta, instances="matrices")
    predictions = learner.predict_then_learn([np.diag(row) for row in x], y)
    w, total = np.full(d, 1 / d), 0.0
    for t in range(200):
        p = w @ x[t]
        assert predictions[t] == pytest.approx(p, rel=EXACT)
        total += (p - y[t]) ** 2
        w = w * np.exp(-2 * eta * (p - y[t]) * x[t])
        w /= w.sum()
    assert np.abs(learner.matrix() - np.diag(w)).max() < EXACT
    assert learner.cumulative_loss_ == pytest.approx(total, rel=EXACT)


# ---------------------------------------------------------------- the twin in NumPy
CASES = {
    "bound": {},
    "loss budget": {"loss_budget": 1.0},
    "large rate": {"eta": 5.0},
    "trace": {"trace": 3.0},
    "absolute": {"eta": 0.05, "loss": Absolute()},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["pairs", "vectors", "matrices"])
@pytest.mark.parametrize("is_complex", [False, True])
def test_trials_equal_those_of_the_twin(rng, case, kind, is_complex):
    if kind == "pairs" and is_complex:
        prior = {"prior": density(rng, 7, is_complex=True)}
        _, X, y = stream(rng, kind, 7, 200)
    else:
        prior = {}
        _, X, y = stream(rng, kind, 7, 200, is_complex=is_complex)
    y = np.clip(y, 0.0, 1.0)
    if "trace" in CASES[case] and prior:
        prior = {"prior": 3.0 * prior["prior"]}
    learner = MatrixExponentiatedGradient(7, instances=kind, **CASES[case], **prior)
    loss, W1 = as_online_loss(CASES[case].get("loss", "squared")), learner.matrix()
    predictions = learner.predict_then_learn(X, y)
    twin, W = twin_trials(X, y, W1, learner.eta_, loss.derivative)
    assert np.abs(predictions - twin).max() < 1e-11  # 200 trials of feedback
    assert learner.cumulative_loss_ == pytest.approx(loss.value(twin, y).sum(), rel=1e-11)
    assert np.abs(learner.matrix() - W).max() < 1e-11
    assert np.abs(learner.predict(X) - measured(learner.matrix(), X)).max() < EXACT
    assert learner.predict_one(X[3]) == pytest.approx(learner.predict(X[3:4])[0], rel=1e-10)


@pytest.mark.slow
def test_total_loss_is_that_of_the_twin(rng):
    _, X, y = stream(rng, "pairs", 52, 6000, noise=0.0)
    predictions, _ = twin_trials(X, y, np.eye(52) / 52, 2.0)
    learner = MatrixExponentiatedGradient(52).partial_fit(X, y)
    assert learner.cumulative_loss_ == pytest.approx(((predictions - y) ** 2).sum(), rel=EXACT)


@pytest.mark.parametrize(("kind", "loss"), [("pairs", "squared"), ("vectors", "squared"), ("vectors", Own())])
def test_room_for_krylov_vectors_grows(rng, kind, loss):
    """The space that is set aside for them does not change a bit of the result."""
    _, X, y = stream(rng, kind, 20, 200)
    plenty, tight = (MatrixExponentiatedGradient(20, instances=kind, eta=2.0, loss=loss) for _ in range(2))
    plenty.partial_fit(X, y)
    for part in range(0, 200, 50):
        tight._started()._reserve(2)
        tight.partial_fit(X[part : part + 50], y[part : part + 50])
    tight._started()._reserve(2)
    assert tight.predict_one(X[0]) == plenty.predict_one(X[0])
    assert (tight.matrix() == plenty.matrix()).all()
    assert tight.cumulative_loss_ == plenty.cumulative_loss_


def test_large_steps(rng):
    """Exponents of 1e3 in one step: the normaliser is computed anew, nothing overflows."""
    d = 12
    _, X, _ = stream(rng, "vectors", d, 40)
    y = rng.choice([-500.0, 500.0], 40)
    learner = MatrixExponentiatedGradient(d, eta=1.0, instances="vectors")
    twin, _ = twin_trials(X, y, np.eye(d) / d, 1.0)
    assert np.abs(learner.predict_then_learn(X, y) - twin).max() < 1e-9  # differences of exponents of 1e4
    assert np.isfinite(learner.matrix()).all()


def test_sparse_instances(rng):
    d = 5
    dense = rng.normal(size=(10, d, d)) * (rng.random((10, d, d)) < 0.3) / 4
    dense += dense.transpose(0, 2, 1)
    y = rng.normal(size=10) * 0.1
    runs = [
        MatrixExponentiatedGradient(instances="matrices", spectral_spread=9.0).partial_fit(X, y)
        for X in (dense, [scipy.sparse.coo_array(x) for x in dense])
    ]
    assert (runs[0].matrix() == runs[1].matrix()).all()
    few = MatrixExponentiatedGradient(instances="vectors").partial_fit(scipy.sparse.csr_array(np.eye(4)), np.zeros(4))
    assert few.dim_ == 4


# ---------------------------------------------------------------- losses
def test_the_squared_loss_and_its_derivative(rng):
    loss, p, y, h = SquaredLoss(), rng.uniform(-2.0, 3.0, 50), rng.uniform(size=50), 1e-6
    assert loss.value(p, y) == pytest.approx((p - y) ** 2, rel=1e-12)
    difference = (loss.value(p + h, y) - loss.value(p - h, y)) / (2 * h)
    assert loss.derivative(p, y) == pytest.approx(difference, rel=1e-6, abs=1e-8)  # second order in h
    assert isinstance(loss.value(0.4, 1), float) and loss.derivative(0, 1) == -2.0


@pytest.mark.parametrize("kind", ["pairs", "vectors", "matrices"])
def test_a_loss_of_ones_own(rng, kind):
    _, X, y = stream(rng, kind, 6, 100)
    mine, built_in = (
        MatrixExponentiatedGradient(6, eta=0.5, loss=loss, instances=kind).partial_fit(X, y)
        for loss in (Own(), "squared")
    )
    assert mine.cumulative_loss_ == pytest.approx(built_in.cumulative_loss_, rel=EXACT)
    assert np.abs(mine.matrix() - built_in.matrix()).max() < EXACT
    with pytest.raises(TypeError, match=r"state.loss is a gradient_streams.Own, which cannot be saved"):
        state_of(mine)


# ---------------------------------------------------------------- what the matrix is good for
def test_factor_and_transform(rng):
    _, X, y = stream(rng, "pairs", 6, 100)
    learner = MatrixExponentiatedGradient(6).partial_fit(X, y)
    W, Z = learner.matrix(), learner.transform()
    assert np.abs(Z @ Z.T - W).max() < 1e-15
    a, b = X[:, 0], X[:, 1]
    # the label is half the squared distance
    assert ((learner.transform(a) - learner.transform(b)) ** 2).sum(axis=1) / 2 == pytest.approx(learner.predict(X))
    assert learner.transform([1, 2], n_components=2) == pytest.approx(Z[[1, 2], :2])
    lengths = (Z**2).sum(axis=0)
    assert (np.diff(lengths) <= 0).all()
    vectors = MatrixExponentiatedGradient(6, instances="vectors").partial_fit(np.eye(6), np.arange(6) / 15)
    v = rng.normal(size=(4, 6))
    assert (vectors.transform(v) ** 2).sum(axis=1) == pytest.approx(vectors.predict(v))


@pytest.mark.parametrize("settings", [{}, {"trace": 2.0}])
def test_always_positive_definite_of_the_promised_trace(rng, settings):
    _, X, y = stream(rng, "pairs", 6, 300)
    learner = MatrixExponentiatedGradient(6, **settings)
    for start in range(0, 300, 50):
        W = learner.partial_fit(X[start : start + 50], y[start : start + 50]).matrix()
        assert np.trace(W) == pytest.approx(settings.get("trace", 1.0), rel=1e-12)
        assert np.linalg.eigvalsh(W)[0] > 0


def test_one_point_and_two(rng):
    two = MatrixExponentiatedGradient(2).partial_fit([[0, 1]] * 50, [0.7] * 50)
    assert two.predict_one((1, 0)) == pytest.approx(0.7, abs=1e-6)
    one = MatrixExponentiatedGradient(1, instances="vectors").partial_fit([[1.0], [0.0]], [1.0, 0.0])
    assert one.matrix() == pytest.approx(np.ones((1, 1)))
    assert one.loss_bound() == pytest.approx(0.0)


def test_a_quantum_state_from_measurements(rng):
    """Three qubits, mixed; probabilities of product states of Pauli eigenvectors, with shot noise."""
    basis = np.array([[[1, 1], [1, -1]], [[1, 1], [1j, -1j]], [[np.sqrt(2), 0], [0, np.sqrt(2)]]]) / np.sqrt(2)
    ghz = np.zeros(8, complex)
    ghz[[0, 7]] = np.sqrt(0.5), 1j * np.sqrt(0.5)
    state = 0.95 * np.outer(ghz, ghz.conj()) + 0.05 * np.eye(8) / 8
    T = 20_000
    axis, outcome = rng.integers(0, 3, (T, 3)), rng.integers(0, 2, (T, 3))
    parts = [basis[axis[:, q], :, outcome[:, q]] for q in range(3)]
    V = np.einsum("ti,tj,tk->tijk", *parts).reshape(T, 8)
    p = measured(state, V)
    y = rng.binomial(1000, np.clip(p, 0, 1)) / 1000
    learner = MatrixExponentiatedGradient(8, instances="vectors", eta=0.2).partial_fit(V, y)
    root = function(state, np.sqrt)
    values = np.linalg.eigvalsh(root @ learner.matrix() @ root)
    assert np.sqrt(np.maximum(values, 0)).sum() ** 2 > 0.99  # Uhlmann's fidelity


# ---------------------------------------------------------------- kernels and their NumPy twins
@pytest.mark.parametrize("n", [1, 2, 3, 7, 52, 300])
@pytest.mark.parametrize("dtype", [float, complex])
def test_hermitian_product(rng, n, dtype):
    H = rng.normal(size=(n, n)) + (1j * rng.normal(size=(n, n)) if dtype is complex else 0)
    H, q = H + H.conj().T, rng.normal(size=n).astype(dtype)
    out, work = np.empty(n, dtype), np.empty((4, n), dtype)
    lanczos.hermitian_product_inplace(out, work, H, q)
    assert np.abs(out - H @ q).max() < 1e-13 * n
    H[-1, 0] = np.nan
    lanczos.hermitian_product_inplace(out, work, H, q)
    assert np.isnan(out[-1])  # fastmath keeps NaN


@pytest.mark.parametrize("m", [1, 2, 3, 12, 60])
def test_tridiagonal_eigenvalues(rng, m):
    d, e = rng.normal(size=m), np.append(rng.normal(size=m - 1), 0.0)
    e[m // 2] = 0.0  # decoupled
    values, V = np.linalg.eigh(np.diag(d) + np.diag(e[:-1], 1) + np.diag(e[:-1], -1))
    z, w = np.empty(m), np.empty(m)
    assert lanczos.tridiagonal_inplace(d, e, z, w, m, 0.0)
    order = np.argsort(d)
    assert np.abs(d[order] - values).max() < 1e-13
    assert np.abs(np.abs(z[order]) - np.abs(V[0])).max() < 1e-12
    assert np.abs(np.abs(w[order]) - np.abs(V[-1])).max() < 1e-12
    bad = np.array([np.nan] * 3)
    lanczos.tridiagonal_inplace(bad, np.ones(3), np.empty(3), np.empty(3), 3, 0.0)
    assert np.isnan(bad).all()


def test_tally(rng):
    a, b, y = np.array([0, 2, 1, 0]), np.array([1, 0, 0, 1]), np.array([1.0, 5.0, 2.0, 6.0])
    table = np.zeros((3, 3))
    assert lanczos.tally_pairs_inplace(table, a, b, y) == pytest.approx(((np.array([1, 2, 6]) - 3.0) ** 2).sum())
    assert table.tolist() == [[0, 3, 1], [3, 0, 0], [5, 0, 0]]


def rate_of(c, r, trace=1.0):
    """The learning rate of Lemma 3.2."""
    return (2.0 if np.isinf(c) else 2.0 * c / (2.0 + c)) / (trace * r * r)


def test_lemma_32_is_lemma_31_summed():
    """The formula, once by hand: c = 2, r = 3, Delta = 0.5, L_U = 4."""

    def bound(c, loss, times=1.0):
        return bounds.squared_loss_bound(0.5, loss_of_U=loss, eta=times * rate_of(c, 3.0), spread=3.0)

    assert bound(2.0, 4.0) == pytest.approx(2.0 * 4.0 + 1.0 * 9.0 * 0.5)
    assert bound(np.inf, 0.0) == pytest.approx(0.5 * 9.0 * 0.5)
    assert bound(np.inf, 1e-9) == np.inf
    assert bound(np.inf, 0.0, 1.01) == np.inf
    assert bounds.tightest_rate(0.5, loss_budget=0.0, spread=3.0, trace=2.0) == 2.0 / 18.0


@pytest.mark.parametrize("trace", [1.0, 3.0])
def test_the_rate_makes_the_bound_tightest(trace):
    """``c = r sqrt(2 Delta / l_max)`` is the minimum, ``L + r sqrt(2 l Delta) + r^2 Delta / 2`` its value."""
    r, divergence, loss = 1.5, 0.8, 2.0
    known = {"loss_of_U": loss, "spread": r, "trace": trace}
    best = bounds.tightest_rate(divergence, loss_budget=loss, spread=r, trace=trace)
    assert best == pytest.approx(rate_of(r * np.sqrt(2 * trace * divergence / loss), r, trace))
    value = bounds.squared_loss_bound(divergence, eta=best, **known)
    for eta in (0.9 * best, 1.1 * best):
        assert bounds.squared_loss_bound(divergence, eta=eta, **known) > value
    square = trace * r * r * divergence
    assert value == pytest.approx(loss + np.sqrt(2 * loss * square) + square / 2, rel=1e-12)


def test_relative_entropy_is_the_von_neumann_divergence(rng):
    U, W = density(rng, 5), density(rng, 5)
    assert bounds.relative_entropy(U, function(W, np.log)) == pytest.approx(VonNeumann()(U, W), rel=1e-10)


def test_relative_entropy_against_a_singular_and_a_complex_matrix(rng):
    v = np.array([0.6, 0.8j])
    assert bounds.relative_entropy(np.outer(v, v.conj()), np.eye(2) * np.log(0.5)) == pytest.approx(np.log(2))
    log_W = function(density(rng, 4, is_complex=True), np.log)
    Q = np.linalg.eigh(log_W)[1]
    worst = np.outer(Q[:, 0], Q[:, 0].conj())
    assert bounds.largest_divergence(log_W) == pytest.approx(bounds.relative_entropy(worst, log_W), rel=1e-10)


def test_largest_divergence_of_the_identity_is_log_d():
    assert bounds.largest_divergence(np.eye(7) * np.log(1 / 7)) == pytest.approx(np.log(7))


def test_small_losses_are_not_lost():
    totals = np.zeros(10)
    lanczos.account_inplace(totals, 1e6, 0.0)
    for _ in range(1000):
        lanczos.account_inplace(totals, 1e-11, 2.0)
    assert totals[lanczos.LOSS] - totals[lanczos.CARRY] == pytest.approx(1e6 + 1e-8, abs=1e-10)
    assert (totals[lanczos.SEEN], totals[lanczos.SLOPES]) == (1001, 4000.0)


def test_gradient_steps_with_correction_of_the_benchmark(rng, monkeypatch):
    """The baseline of ``bench_online.py``: ``W - 2 eta (tr(W X) - y) X`` with ``X = zz' / 2``, projected onto the cone."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    bench = importlib.import_module("bench_online")
    d, n, eta = 5, 60, 0.3
    pairs = np.array([rng.choice(d, 2, replace=False) for _ in range(n)])
    y, W, loss, n_corrected = rng.random(n), np.eye(d) / d, 0.0, 0
    for (a, b), label in zip(pairs, y, strict=True):
        z = np.eye(d)[a] - np.eye(d)[b]
        X = 0.5 * np.outer(z, z)
        error = np.vdot(W, X) - label
        loss += error**2
        lam, V = np.linalg.eigh(W - 2.0 * eta * error * X)
        n_corrected += lam[0] < 0.0
        W = (V * lam.clip(0.0)) @ V.T
    assert n_corrected >= 3
    assert bench.corrected_gradient(np.eye(d) / d, pairs, y, eta) == pytest.approx(loss, rel=1e-12)
