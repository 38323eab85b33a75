"""OnlineLogDet: its definition by brute force, its loss bound, streams, bad input, files."""

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from bregmat import LogDet
from bregmat import OnlineLogDet as Plain
from bregmat.online import UnreachableLabelWarning
from states import saved_and_loaded

SENSES = ("==", "<=", ">=")


def OnlineLogDet(*arguments, **settings):
    """Most tests show differences."""
    return Plain(*arguments, differences=True, **settings)


def definite(d, rng):
    G = rng.normal(size=(d, 2 * d))
    return G @ G.T / (2 * d)


def stream(n, d, rng, noise=0.0):
    """Differences, squared distances under a hidden metric with noise, that metric."""
    A, Z = definite(d, rng), rng.normal(size=(n, d))
    return Z, np.einsum("ij,jk,ik->i", Z, A, Z) * np.exp(noise * rng.normal(size=n)), A


def excess_of(p, y, sense):
    return {"==": p - y, "<=": max(p - y, 0.0), ">=": min(p - y, 0.0)}[sense]


def loss_of(U, Z, y, sense):
    """Total loss of a fixed matrix on a stream."""
    return sum(0.5 * excess_of(z @ U @ z, *row) ** 2 for z, *row in zip(Z, y, sense, strict=True))


def twin(A, z, y, sense, eta):
    """NumPy twin of a trial, as on the page: prediction, and the next matrix."""
    p = z @ A @ z
    if excess_of(p, y, sense) == 0.0:
        return p, A
    b = eta * y * p - 1.0
    ybar = (b + np.sqrt(b * b + 4.0 * eta * p * p)) / (2.0 * eta * p)
    v = A @ z
    return p, A - eta * (ybar - y) * np.outer(v, v) / (1.0 + eta * (ybar - y) * p)


# ---------------------------------------------------------------- the update
@pytest.mark.parametrize("sense", SENSES)
@pytest.mark.parametrize("eta", [0.03, 1.0, 30.0])
def test_step_minimises_its_definition(rng, sense, eta):
    d = 3
    A, z = definite(d, rng), rng.normal(size=d)
    lower = np.tril_indices(d)
    for y in (0.0, 0.3 * (z @ A @ z), 3.0 * (z @ A @ z)):

        def objective(x, y=y):
            L = np.zeros((d, d))
            L[lower] = x
            M = L @ L.T
            return LogDet()(M, A, rtol=1e-14) + 0.5 * eta * excess_of(z @ M @ z, y, sense) ** 2

        start = np.linalg.cholesky(A)[lower]
        best = minimize(
            objective, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 8000}
        )
        learned = OnlineLogDet(eta=eta, prior=A).learn_one(z, y, sense=sense).get_mahalanobis_matrix()
        assert objective(np.linalg.cholesky(learned)[lower]) <= best.fun + 1e-12
        # a simplex search finds the minimiser to about the square root of its tolerance in the value
        L = np.zeros((d, d))
        L[lower] = best.x
        assert np.allclose(learned, L @ L.T, rtol=0, atol=1e-5)


@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 52])
def test_stream_equals_the_numpy_twin(rng, d):
    Z, y, _ = stream(200, d, rng, noise=0.5)
    sense = rng.choice(SENSES, size=len(y))
    learner = OnlineLogDet(eta=0.1)
    predictions = learner.predict_then_learn(Z, y, sense=sense)
    A, expected = np.eye(d), []
    for t in range(len(y)):
        p, A = twin(A, Z[t], y[t], sense[t], 0.1)
        expected.append(p)
    assert np.allclose(predictions, expected, rtol=1e-9)
    assert np.allclose(learner.get_mahalanobis_matrix(), A, rtol=0, atol=1e-9 * np.abs(A).max())
    loss = sum(0.5 * excess_of(*row) ** 2 for row in zip(expected, y, sense, strict=True))
    assert learner.cumulative_loss_ == pytest.approx(loss, rel=1e-9)
    assert learner.n_seen_ == 200
    held = sum(excess_of(*row) == 0.0 for row in zip(expected, y, sense, strict=True))
    assert learner.n_updates_ == 200 - held < 200


def test_inverse_moves_by_one_dyad(rng):
    """``A_{t+1}^-1 = A_t^-1 + eta (ybar - y) z z'``, ybar the prediction of the new metric: the optimality condition."""
    for eta in 10.0 ** rng.uniform(-3, 3, 30):
        A, z, y = definite(4, rng), rng.normal(size=4), rng.exponential()
        new = OnlineLogDet(eta=eta, prior=A).learn_one(z, y).get_mahalanobis_matrix()
        change = np.linalg.inv(new) - np.linalg.inv(A)
        expected = eta * (z @ new @ z - y) * np.outer(z, z)
        # ybar - y is a difference of rounded numbers here, times eta
        assert np.allclose(change, expected, rtol=1e-6, atol=1e-9 * (1.0 + eta) * np.linalg.norm(np.linalg.inv(new)))


def test_a_nearly_hard_label_is_met(rng):
    """Factors that shrink z'Az by up to 1e12, where one factor update would lose all digits."""
    for y in 10.0 ** rng.uniform(-12, 12, 20):
        z = rng.normal(size=6)
        learner = OnlineLogDet(eta=1e30, prior=definite(6, rng)).learn_one(z, y)
        assert learner.predict_one(z) == pytest.approx(y, rel=1e-9)
        assert (np.linalg.eigvalsh(learner.get_mahalanobis_matrix()) > 0.0).all()


def test_scales_with_the_data(rng):
    """Distances in other units and eta in one over their square: the same metric."""
    Z, y, _ = stream(50, 4, rng, noise=0.3)
    a = OnlineLogDet(eta=0.2).fit(Z, y)
    b = OnlineLogDet(eta=0.2 / 1e6, prior=1e3 * np.eye(4)).fit(Z, 1e3 * y)
    assert np.allclose(1e3 * a.get_mahalanobis_matrix(), b.get_mahalanobis_matrix(), rtol=1e-9)


def test_learns_a_hidden_metric(rng):
    Z, y, A = stream(5000, 5, rng)
    learner = OnlineLogDet(eta=1.0).fit(Z, y)
    assert np.allclose(learner.get_mahalanobis_matrix(), A, rtol=0, atol=1e-6)


# ---------------------------------------------------------------- the rate "auto"
def auto_rates(A, Z, y, sense):
    """NumPy twin of a stream with the automatic rate: the last matrix, and of every trial rate, prediction, excess."""
    labels, rows = {s: [] for s in SENSES}, []
    for z, label, s in zip(Z, y, sense, strict=True):
        labels[s].append(label)
        eta = 0.1 / max(z @ A @ z, label, np.mean(labels[s])) ** 2
        p, A = twin(A, z, label, s, eta)
        rows.append((eta, p, excess_of(p, label, s)))
    return A, *np.array(rows).T


@pytest.mark.parametrize("d", [1, 3, 9])
def test_auto_equals_its_definition(rng, d):
    Z, y, _ = stream(200, d, rng, noise=0.5)
    sense = rng.choice(SENSES, size=200)
    learner = OnlineLogDet()
    predictions = learner.predict_then_learn(Z, y, sense=sense)
    A, rates, p, excess = auto_rates(np.eye(d), Z, y, sense)
    assert np.allclose(predictions, p, rtol=1e-9)
    assert np.allclose(learner.get_mahalanobis_matrix(), A, rtol=0, atol=1e-9 * np.abs(A).max())
    assert learner.eta_ == pytest.approx(rates[excess != 0.0][-1], rel=1e-9)


@pytest.mark.parametrize(("points", "label"), [(8.0, 64.0), (1.0, 1 / 16.0), (32.0, 1.0), (2.0**-40, 2.0**30)])
def test_auto_does_not_depend_on_units(rng, points, label):
    """Points times s, labels times c, prior times c / s^2: the metric times c / s^2, to the same bits for powers of 2."""
    Z, y, _ = stream(300, 7, rng, noise=0.5)
    sense, prior, c = rng.choice(SENSES, size=300), definite(7, rng), label / points**2
    a = OnlineLogDet(prior=prior).fit(Z, y, sense=sense)
    b = OnlineLogDet(prior=c * prior).fit(points * Z, label * y, sense=sense)
    assert (b.components_ == np.sqrt(c) * a.components_).all()
    assert b.eta_ == a.eta_ / label**2
    assert b.cumulative_loss_ == label**2 * a.cumulative_loss_


def test_auto_does_not_depend_on_the_basis(rng):
    """Any linear map M of the points, with the prior in the same coordinates: so for units of single features, too."""
    Z, y, _ = stream(300, 5, rng, noise=0.5)
    M = rng.normal(size=(5, 5)) * 10.0 ** rng.uniform(-2, 2, 5)
    inverse = np.linalg.inv(M)
    a = OnlineLogDet().fit(Z, y)
    b = OnlineLogDet(prior=inverse @ inverse.T).fit(Z @ M, y)
    # the prior has a condition number of up to 1e8, of which rounding keeps half the digits
    assert np.allclose(M @ b.get_mahalanobis_matrix() @ M.T, a.get_mahalanobis_matrix(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("factor", "prior"), [(0.0, 1.0), (1e-4, 1.0), (1e3, 1.0), (1.0, 1e6)])
def test_auto_gets_over_a_wild_first_label_or_prior(rng, factor, prior):
    Z, y, A = stream(10000, 4, rng)
    plain = OnlineLogDet().fit(Z, y).get_mahalanobis_matrix()
    y[0] *= factor
    learned = OnlineLogDet(prior=prior * np.eye(4)).fit(Z, y).get_mahalanobis_matrix()
    # what is left is of the order of what an undisturbed run still has to learn in the flattest direction
    assert np.abs(learned - plain).max() <= 0.05
    assert np.abs(learned - A).max() <= 0.1


@pytest.mark.parametrize("seed", range(40))
def test_auto_bounds_hold(seed):
    """Of the total loss, after the run; and of the losses relative to the largest of label, prediction, mean label, before."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 8))
    Z, y, A = stream(150, d, rng, noise=rng.choice([0.0, 0.1, 1.0]))
    y[rng.random(150) < 0.1] = 0.0
    y, sense = y * 10.0 ** rng.uniform(-3, 3), rng.choice(SENSES, size=150)
    learner = OnlineLogDet().partial_fit(Z, y, sense=sense)
    _, rates, _, excess = auto_rates(np.eye(d), Z, y, sense)
    for U in (A, np.eye(d), definite(d, rng)):
        assert learner.cumulative_loss_ <= learner.loss_bound(U, loss_of(U, Z, y, sense)) * (1.0 + 1e-9)
        other = np.array([excess_of(z @ U @ z, *row) for z, *row in zip(Z, y, sense, strict=True)])
        divergence = LogDet()(U, np.eye(d), rtol=1e-14)
        assert (rates * excess**2).sum() / 2.0 <= 1.21 * ((rates * other**2).sum() / 2.0 + divergence)


def test_auto_with_extreme_numbers():
    learner = OnlineLogDet(1).fit([[1.0]], [0.0], sense="<=")
    assert 0.0 < learner.predict_one([1.0]) < 1.0
    with pytest.raises(FloatingPointError, match="row 0 of X is not finite; scale X and y.$"):
        OnlineLogDet(1).fit([[1.0]], [1e200])
    with pytest.raises(FloatingPointError, match="row 0 of X"):
        OnlineLogDet(1).fit([[1e-170]], [1.0])
    held = OnlineLogDet(1).fit([[1e-170]], [1.0], sense="<=")
    assert (held.n_seen_, held.n_updates_, held.eta_) == (1, 0, 0.0)
    assert not hasattr(OnlineLogDet(1), "eta_")


# ---------------------------------------------------------------- loss bound


@pytest.mark.parametrize("seed", range(60))
def test_loss_bound_holds(seed):
    rng = np.random.default_rng(seed)
    d, eta = int(rng.integers(1, 8)), 10.0 ** rng.uniform(-3, 1)
    Z, y, A = stream(150, d, rng, noise=rng.choice([0.0, 0.1, 1.0]))
    sense = rng.choice(SENSES, size=len(y))
    learner = OnlineLogDet(eta=eta).partial_fit(Z, y, sense=sense)
    for U in (A, np.eye(d), definite(d, rng)):
        assert learner.cumulative_loss_ <= learner.loss_bound(U, loss_of(U, Z, y, sense)) * (1.0 + 1e-9)
    assert learner.loss_bound(np.diag([1.0] * (d - 1) + [0.0]), 1.0) == np.inf


# ---------------------------------------------------------------- streams
@pytest.mark.parametrize("eta", ["auto", 0.1])
def test_calls_of_any_length_give_the_same_bits(rng, eta):
    Z, y, _ = stream(120, 13, rng, noise=0.2)
    sense = rng.choice(SENSES, size=120)
    whole, parts, single = (OnlineLogDet(eta=eta) for _ in range(3))
    whole.partial_fit(Z, y, sense=sense)
    for k in range(0, 120, 50):
        parts.partial_fit(Z[k : k + 50], y[k : k + 50], sense=sense[k : k + 50])
    for z, label, s in zip(Z, y, sense, strict=True):
        before = single.predict_one(z)
        assert single.learn_one(z, label, sense=s) is single
        assert before >= 0.0
    for other in (parts, single):
        assert (other.components_ == whole.components_).all()
        assert other.cumulative_loss_ == whole.cumulative_loss_


def test_pairs_and_differences(rng):
    X, Y, y = rng.normal(size=(30, 4)), rng.normal(size=(30, 4)), rng.exponential(size=30)
    pairs = np.stack([X, Y], axis=1)
    a, b, c = Plain(), OnlineLogDet(), Plain()
    a.partial_fit(pairs, y)
    b.partial_fit(X - Y, y)
    for x, x2, label in zip(X, Y, y, strict=True):
        c.learn_one((x, x2), label)
    assert (a.components_ == b.components_).all()
    assert (a.components_ == c.components_).all()
    assert np.allclose(a.predict(pairs), a.pair_distance(pairs) ** 2)
    assert np.allclose(a.predict(pairs), [a.predict_one((x, x2)) for x, x2 in pairs])
    assert (a.pair_score(pairs) == -a.pair_distance(pairs)).all()
    assert np.allclose(a.get_metric()(X[0], Y[0]), a.pair_distance(pairs)[0])
    moved = a.transform(X) - a.transform(Y)
    assert np.allclose((moved**2).sum(axis=1), a.predict(pairs))


def test_before_the_first_example(rng):
    A, z = definite(3, rng), rng.normal(size=3)
    assert OnlineLogDet(prior=A).predict_one(z) == pytest.approx(z @ A @ z)
    assert OnlineLogDet().predict_one(z) == pytest.approx(z @ z)
    assert np.allclose(OnlineLogDet(prior=A).get_mahalanobis_matrix(), A)
    assert (OnlineLogDet(3).transform([z]) == z).all()
    fresh = OnlineLogDet()
    assert fresh.cumulative_loss_ == fresh.n_seen_ == fresh.n_updates_ == 0
    with pytest.raises(NotFittedError, match="number of features is not known"):
        _ = fresh.components_
    with pytest.raises(NotFittedError):
        fresh.loss_bound(A, 0.0)


def test_rows_are_not_taken_for_differences(rng):
    """What a pipeline hands over: rows and classes."""
    X = rng.normal(size=(20, 3))
    for learn in (Plain().fit, Plain().partial_fit):
        with pytest.raises(ValueError, match=r"\(n, 2, d\) pairs of points .*differences=True\); got \(20, 3\)"):
            learn(X, rng.integers(0, 2, 20))
    with pytest.raises(ValueError, match=r"\(n, d\) differences; got \(20, 2, 3\)"):
        OnlineLogDet().fit(np.stack([X, X], axis=1), np.ones(20))
    with pytest.raises(ValueError, match="differences=True"):
        Plain(3).predict_one(X[0])


def test_fit_forgets(rng):
    Z, y, _ = stream(20, 3, rng)
    learner = OnlineLogDet().fit(Z, y)
    once = learner.components_
    assert (learner.fit(Z, y).components_ == once).all()
    assert learner.n_seen_ == 20
    assert learner.fit(Z[:, :2], y).n_features_in_ == 2
    assert not hasattr(clone(learner), "n_features_in_")


@pytest.mark.parametrize("prior", [None, "given"])
@pytest.mark.parametrize("eta", ["auto", 0.3])
def test_checkpoint_continues_to_the_same_bits(rng, prior, eta):
    Z, y, A = stream(60, 5, rng, noise=0.2)
    learner = OnlineLogDet(eta=eta, prior=None if prior is None else A).partial_fit(Z[:30], y[:30])
    copy = saved_and_loaded(learner)
    for other in (copy, pickle.loads(pickle.dumps(learner))):
        other.partial_fit(Z[30:], y[30:])
    learner.partial_fit(Z[30:], y[30:])
    assert (copy.components_ == learner.components_).all()
    assert copy.cumulative_loss_ == learner.cumulative_loss_
    assert (copy.n_features_in_, copy.eta, copy.eta_) == (5, eta, learner.eta_)
    assert copy.loss_bound(A, 1.0) == learner.loss_bound(A, 1.0)
    fresh = saved_and_loaded(OnlineLogDet(4, eta=0.5))
    assert (fresh.dim, fresh.eta, hasattr(fresh, "n_features_in_")) == (4, 0.5, False)


# ---------------------------------------------------------------- bad input
Z2 = np.array([[1.0, 0.0], [0.0, 1.0]])
BAD = {
    "labels too few": (Z2, [1.0], "==", ValueError, "y must have one entry per example"),
    "label negative": (Z2, [1.0, -2.0], "==", ValueError, "not negative; got -2.0 in row 1"),
    "label nan": (Z2, [1.0, np.nan], "==", ValueError, "y must be finite"),
    "label text": (Z2, ["a", "b"], "==", TypeError, "y must be numeric"),
    "nan": ([[1.0, 2.0], [np.nan, 0.0]], [1.0, 1.0], "==", ValueError, "NaN or infinity in row 1"),
    "features": (np.ones((2, 3)), [1.0, 1.0], "==", ValueError, "2 features; got 3|expecting 2 features"),
    "shape": (np.ones((2, 3, 2)), [1.0, 1.0], "==", ValueError, "X must have shape|expecting 2 features"),
    "one dimension": ([1.0, 2.0], [1.0, 1.0], "==", ValueError, "X must have shape|Expected 2D array, got 1D array"),
    "complex": (Z2 * 1j, [1.0, 1.0], "==", (TypeError, ValueError), "X must be real; got complex numbers"),
    "text": ([["a", "b"]], [1.0], "==", TypeError, "X must be numeric"),
    "sense": (Z2, [1.0, 1.0], "<", ValueError, "sense must be"),
    "overflow": ([[1.0, 0.0], [1e200, 0.0]], [1.0, 1.0], "==", FloatingPointError, "at row 1 of X is not finite"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_examples_change_nothing(rng, name):
    X, y, sense, error, message = BAD[name]
    learner = OnlineLogDet(2)
    with pytest.raises(error, match=message):
        learner.partial_fit(X, y, sense=sense)
    assert not hasattr(learner, "n_features_in_")
    learner.partial_fit(rng.normal(size=(5, 2)), rng.exponential(size=5))
    before, loss = learner.components_, learner.cumulative_loss_
    with pytest.raises(error, match=message):
        learner.partial_fit(X, y, sense=sense)
    assert (learner.components_ == before).all()
    assert (learner.cumulative_loss_, learner.n_seen_) == (loss, 5)


@pytest.mark.parametrize("sense", ["==", ">="])
def test_identical_points_that_are_told_to_be_apart_are_left_out(rng, sense):
    """With one warning; the others count as if those had been told to be at 0, which all metrics put them at."""
    X, y = rng.normal(size=(6, 2)), rng.exponential(size=6)
    X[[1, 4]] = 0.0
    told = y.copy()
    learner, other = OnlineLogDet(2), OnlineLogDet(2)
    with pytest.warns(UnreachableLabelWarning, match="identical points in rows 1, 4") as caught:
        learner.partial_fit(X, told, sense=sense)
    assert len(caught) == 1 and (told == y).all()
    y[[1, 4]] = 0.0
    other.partial_fit(X, y, sense=sense)
    assert (learner.components_ == other.components_).all()
    assert (learner.cumulative_loss_, learner.n_seen_) == (other.cumulative_loss_, 6)
    U = np.diag([2.0, 0.5])
    assert learner.cumulative_loss_ <= learner.loss_bound(U, loss_of(U, X, y, [sense] * 6)) * (1.0 + 1e-9)


def test_identical_points_that_a_metric_can_have(rng):
    learner = OnlineLogDet(2).partial_fit(np.zeros((3, 2)), [0.0, 1.0, 0.0], sense=["==", "<=", ">="])
    assert (learner.components_ == np.eye(2)).all()
    assert (learner.n_seen_, learner.n_updates_, learner.cumulative_loss_) == (3, 0, 0.0)
    assert learner.loss_bound(np.diag([1.0, 0.0]), 0.0) == 0.0
    fixed = OnlineLogDet(2, eta=0.1).partial_fit(np.zeros((1, 2)), [0.0])
    assert fixed.loss_bound(np.diag([1.0, 0.0]), 0.0) == np.inf
    # their labels do not count in the mean
    alone = OnlineLogDet(2).learn_one([1.0, 0.0], 0.5, sense="<=")
    assert (learner.learn_one([1.0, 0.0], 0.5, sense="<=").components_ == alone.components_).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"eta": 0.0}, ValueError, "eta must be positive"),
        ({"eta": np.inf}, ValueError, "eta must be positive and finite"),
        ({"eta": "bound"}, ValueError, 'eta must be "auto" or a positive number'),
        ({"eta": None}, TypeError, "eta must be a number"),
        ({"dim": 0}, ValueError, "dim must be at least 1"),
        ({"dim": 2.0}, TypeError, "dim must be an integer"),
        ({"dim": 3}, ValueError, "3 features; got 2"),
        ({"prior": np.diag([1.0, 0.0])}, ValueError, "prior must be positive definite"),
        ({"prior": np.diag([1.0, -1.0])}, ValueError, "prior must be positive definite"),
        ({"prior": [[1.0, 1.0], [0.0, 1.0]]}, ValueError, "prior must be symmetric"),
        ({"prior": np.eye(2) * (1 + 0j)}, TypeError, "prior must be real"),
        ({"prior": np.eye(3), "dim": 2}, ValueError, "prior must have shape"),
    ],
)
def test_bad_parameters(arguments, error, message):
    learner = OnlineLogDet(**arguments)
    with pytest.raises(error, match=message):
        learner.partial_fit(Z2, [1.0, 1.0])
    assert not hasattr(learner, "n_features_in_")


def test_bad_comparisons():
    learner = OnlineLogDet().partial_fit(Z2, [1.0, 2.0])
    with pytest.raises(ValueError, match="U must be positive semidefinite"):
        learner.loss_bound(-np.eye(2), 1.0)
    with pytest.raises(ValueError, match="U must have shape"):
        learner.loss_bound(np.eye(3), 1.0)
    with pytest.raises(ValueError, match="loss_of_U must be finite"):
        learner.loss_bound(np.eye(2), loss_of_U=-1.0)
    with pytest.raises(ValueError, match="at least one example"):
        OnlineLogDet().partial_fit(np.zeros((0, 2)), [])
    assert learner.partial_fit(np.zeros((0, 2)), []).n_seen_ == 2
