"""OnlinePCA: drawn subspaces, loss bounds, agreement with batch PCA, scikit-learn's checks, bad input, files."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from bregmat import OnlinePCA
from estimator_suite import run_array_api_check, sklearn_checks
from formulas import twin_cap
from states import saved_and_loaded


def twin_trial(W, x, eta, m):
    """A trial as on the page, with eigendecompositions; expected loss and the next W."""
    lam, V = np.linalg.eigh(W)
    H = (V * np.log(lam)) @ V.T - eta * np.outer(x, x)
    lam, V = np.linalg.eigh(H)
    return m * x @ W @ x, (V * twin_cap(np.exp(lam - lam[-1]), m)) @ V.T


def rows(n, d, rng, decay=0.4, longest=1.0):
    """A stationary stream with distinct variances along rotated axes."""
    X = rng.normal(size=(n, d)) * np.exp(-decay * np.arange(d)) @ np.linalg.qr(rng.normal(size=(d, d)))[0]
    return X * (longest / np.linalg.norm(X, axis=1).max())


# ---------------------------------------------------------------- capping and the subspaces


def test_expected_projection(rng):
    X = rows(60, 7, rng)
    pca = OnlinePCA(3, eta=0.5).fit(X)
    W, m = pca.matrix(), 4
    assert np.trace(W) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(W).max() <= 1.0 / m * (1.0 + 1e-12)


def test_sampling(rng):
    X = rows(40, 5, rng)
    pca = OnlinePCA(2, eta=0.5, random_state=3).fit(X)
    C = pca.sample_components()
    assert np.allclose(C @ C.T, np.eye(2))
    assert (pca.sample_components() == C).all()  # one subspace per trial
    mean = np.zeros((5, 5))
    for _ in range(1500):
        C = pca.sample_components(random_state=rng)
        mean += C.T @ C / 1500
    # standard error of each entry is at most 0.5 / sqrt(1500) = 0.013
    assert np.allclose(mean, np.eye(5) - 3.0 * pca.matrix(), atol=0.06)
    flat = OnlinePCA(3, eta=0.5).fit(
        np.zeros((1, 7))
    )  # four directions of weight 1/7 each, with equal ends by rounding
    for _ in range(200):
        C = flat.sample_components(random_state=rng)
        assert C.shape == (3, 7) and np.allclose(C @ C.T, np.eye(3))
    pca.set_params(random_state=np.random.RandomState(0))
    C = pca.sample_components()
    pca = OnlinePCA(2, eta=0.5, random_state=np.random.RandomState(0)).fit(X)
    assert (pca.sample_components() == C).all()  # the check of a fit does not advance it


# ---------------------------------------------------------------- trials
@pytest.mark.parametrize(("d", "k"), [(2, 1), (5, 2), (8, 7), (13, 4)])
def test_trials_equal_the_page(rng, d, k):
    X, eta = rows(150, d, rng), 0.7
    pca = OnlinePCA(k, eta=eta).fit(X)
    W, total = np.eye(d) / d, 0.0
    for x in X:
        loss, W = twin_trial(W, x, eta, d - k)
        total += loss
    assert pca.cumulative_loss_ == pytest.approx(total, rel=1e-10)
    assert np.allclose(pca.matrix(), W, rtol=0, atol=1e-10)


def test_falling_rate_equals_its_twin(rng):
    d, k, m = 6, 2, 4
    X = rows(120, d, rng) * rng.uniform(0.1, 3.0, 120)[:, None]
    X[5] = 0.0
    W, reach, paid, peak, eta = np.eye(d) / d, m * np.log(d / m), 0.0, 0.0, None
    for x in X:
        paid += m * x @ W @ x
        peak = max(peak, x @ x)
        if not x.any():
            continue
        new = np.sqrt(reach / (peak * (peak + paid)))
        lam, V = np.linalg.eigh(W)
        H = (V * (np.log(lam) * (1.0 if eta is None else new / eta))) @ V.T
        lam, V = np.linalg.eigh(H - new * np.outer(x, x))
        W, eta = (V * twin_cap(np.exp(lam - lam[-1]), m)) @ V.T, new
    pca = OnlinePCA(k).fit(X)
    assert pca.eta_ == pytest.approx(eta)
    assert pca.cumulative_loss_ == pytest.approx(paid)
    assert np.allclose(pca.matrix(), W, rtol=0, atol=1e-10)


# ---------------------------------------------------------------- bounds
def hard_stream(rng):
    """Streams that are stationary, that jump from subspace to subspace, or that ask for the direction last discarded."""
    d = int(rng.integers(2, 9))
    k, kind = int(rng.integers(1, d)), rng.choice(["stationary", "jumps", "axes", "lengths"])
    if kind == "axes":
        X = np.eye(d)[rng.integers(0, d, 300)]
    elif kind == "jumps":
        X = np.vstack([rows(60, d, rng, decay=1.5) for _ in range(5)])
    else:
        X = rows(300, d, rng, decay=rng.uniform(0, 2))
        if kind == "lengths":
            X = X * 10.0 ** rng.uniform(-4, 0, (300, 1))
    return X, k


@pytest.mark.parametrize("seed", range(60))
def test_loss_stays_below_the_bound(seed):
    rng = np.random.default_rng(seed)
    X, k = hard_stream(rng)
    unit = 10.0 ** rng.uniform(-3, 3)
    for settings in ({"eta": 10.0 ** rng.uniform(-3, 1)}, {"n_rounds": 300}, {}):
        pca = OnlinePCA(k, **settings).fit(X if settings else unit * X)
        assert pca.cumulative_loss_ <= pca.loss_bound() * (1.0 + 1e-10)
        assert pca.regret() == pytest.approx(pca.cumulative_loss_ - pca.loss_of_best())
        L, R = pca.loss_of_best(), (X.shape[1] - k) * np.log(X.shape[1] / (X.shape[1] - k))
        if "n_rounds" in settings:  # the paper's form of the bound for the tuned rate
            assert pca.loss_bound() <= L + np.sqrt(2.0 * R * 300 * (1.0 - k / X.shape[1])) + R * (1 + 1e-9)


def test_bound_against_a_learner_that_is_chased():
    """Rows along the direction that W discards most: every trial costs the learner as much as one can."""
    d, k = 6, 2
    for settings in ({"eta": 0.3}, {"n_rounds": 400}, {}):
        pca = OnlinePCA(k, **settings).partial_fit(np.eye(d)[:1])
        for _ in range(400):
            pca.learn_one(np.linalg.eigh(pca.matrix())[1][:, -1])
        assert pca.regret() > 1.0
        assert pca.cumulative_loss_ <= pca.loss_bound()


def test_best_in_hindsight(rng):
    X = rows(80, 6, rng)
    pca = OnlinePCA(2).fit(X)
    V = np.linalg.svd(X, full_matrices=False)[2][:2]
    assert pca.loss_of_best() == pytest.approx(((X - X @ V.T @ V) ** 2).sum())
    assert pca.loss_bound(0.0) < pca.loss_bound()
    with pytest.raises(ValueError, match="loss_of_best must be finite"):
        pca.loss_bound(-1.0)


def test_predict_before_update(rng):
    X = rows(30, 4, rng)
    pca, total = OnlinePCA(2, n_rounds=30).learn_one(X[0]), 2 * (X[0] @ X[0]) / 4
    for x in X[1:]:
        total += 2 * x @ pca.matrix() @ x
        pca.learn_one(x)
    assert pca.cumulative_loss_ == pytest.approx(total)


# ---------------------------------------------------------------- as scikit-learn's
@pytest.mark.parametrize("settings", [{}, {"n_rounds": 6000}])
def test_agrees_with_batch_pca(rng, settings):
    X = rows(6000, 8, rng, decay=0.7)
    pca = OnlinePCA(3, **settings).fit(X)
    exact = np.linalg.svd(X, full_matrices=False)[2][:3]
    # cosines of the angles between the subspaces, and of single components (gaps of exp(1.4) in the variances)
    assert np.linalg.svd(pca.components_ @ exact.T)[1].min() > 0.995
    assert np.abs((pca.components_ * exact).sum(axis=1)).min() > 0.98


def test_transform(rng):
    X = rows(200, 6, rng) + 1.0
    pca = OnlinePCA(4).fit(X)
    C = pca.components_
    assert np.allclose(C @ C.T, np.eye(4))
    assert (C[np.arange(4), np.abs(C).argmax(axis=1)] > 0.0).all()
    T = pca.transform(X)
    assert np.allclose(T, X @ C.T)
    assert pca.transform(X.astype(np.float32)).dtype == np.float32
    assert list(pca.get_feature_names_out()) == [f"onlinepca{i}" for i in range(4)]


@pytest.mark.parametrize("settings", [{}, {"eta": 0.4}])
def test_calls_of_any_length_give_the_same_bits(rng, settings):
    X = (rows(60, 5, rng) + 0.5) / 5.0
    whole, parts = OnlinePCA(2, **settings).fit(X), OnlinePCA(2, **settings)
    for k in range(0, 60, 7):
        parts.partial_fit(X[k : k + 7])
    assert (parts.matrix() == whole.matrix()).all()
    assert parts.cumulative_loss_ == whole.cumulative_loss_
    assert parts.n_samples_seen_ == 60
    assert (whole.fit(X).matrix() == parts.matrix()).all()  # fit forgets


def test_checkpoint_continues_to_the_same_bits(rng):
    X = rows(60, 5, rng)
    for settings in ({}, {"n_rounds": 60}, {"random_state": 1}):
        pca = OnlinePCA(2, **settings).partial_fit(X[:31])
        copy = saved_and_loaded(pca)
        for other in (pca, copy, pickle.loads(pickle.dumps(pca))):
            other.partial_fit(X[31:])
        assert (copy.matrix() == pca.matrix()).all()
        assert (copy.cumulative_loss_, copy.loss_bound(), copy.regret()) == (
            pca.cumulative_loss_,
            pca.loss_bound(),
            pca.regret(),
        )
        assert copy.n_samples_seen_ == 60
    assert not hasattr(saved_and_loaded(OnlinePCA(2)), "n_features_in_")


@pytest.mark.parametrize(("estimator", "check"), list(sklearn_checks(OnlinePCA())))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_scikit_learn_array_api_check():
    run_array_api_check(OnlinePCA)


# ---------------------------------------------------------------- bad input
@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([[0.1, np.nan, 0.1]], ValueError, "NaN"),
        ([[0.1, np.inf, 0.1]], ValueError, "infinity"),
        ([[0.0, 0.0, 0.5], [0.0, 3.0, 4.0]], ValueError, "at most 1 with eta or n_rounds; got 5 in row 1"),
        ([[0.0, 0.0, 0.0], [1e90, 0.0, 0.0]], ValueError, "overflow; got longer row 1"),
        ([[0.1, 0.1]], ValueError, "2 features"),
        ([0.1, 0.1, 0.1], ValueError, "2D"),
        ([["a", "b", "c"]], TypeError, "X must be numeric"),
    ],
)
def test_bad_rows_change_nothing(rng, X, error, message):
    pca = OnlinePCA(1, n_rounds=10)
    if np.shape(X) != (1, 2):
        with pytest.raises(error, match=message):
            pca.partial_fit(X)
        assert not hasattr(pca, "n_features_in_")
        with pytest.raises(NotFittedError):
            _ = pca.components_
    pca.partial_fit(rows(5, 3, rng))
    before = pca.matrix(), pca.cumulative_loss_, pca.loss_of_best(), pca.n_samples_seen_
    with pytest.raises(error, match=message):
        pca.partial_fit(X)
    assert (pca.matrix() == before[0]).all()
    assert (pca.cumulative_loss_, pca.loss_of_best(), pca.n_samples_seen_) == before[1:]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components must be at least 1"),
        ({"n_components": 3}, ValueError, "n_components must be below 3"),
        ({"n_components": 1.0}, TypeError, "n_components must be an integer"),
        ({"eta": 0.0}, ValueError, "eta must be positive"),
        ({"eta": "bound"}, TypeError, "eta must be a number"),
        ({"n_rounds": 0}, ValueError, "n_rounds must be at least 1"),
        ({"eta": 1.0, "n_rounds": 5}, ValueError, "eta or n_rounds, not both"),
        ({"random_state": -1}, ValueError, "random_state must be at least 0"),
    ],
)
def test_bad_parameters(arguments, error, message):
    pca = OnlinePCA(**arguments)
    with pytest.raises(error, match=message):
        pca.fit(np.eye(3))
    assert not hasattr(pca, "n_features_in_")


def test_rows_of_zeros():
    pca = OnlinePCA(1).fit(np.zeros((4, 3)))
    assert (pca.cumulative_loss_, pca.loss_bound(), pca.eta_, pca.n_samples_seen_) == (0.0, 0.0, 0.0, 4)
    pca.partial_fit(np.eye(3))
    assert 0.0 < pca.cumulative_loss_ <= pca.loss_bound()
