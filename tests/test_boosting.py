"""DefiniteBoost on vectors: eq. 13 and Theorem 4.1 of Tsuda 2004, and AdaBoost, step by step against one from the book."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from bregmat import boost_hypotheses, nearest_distribution
from bregmat.solvers import definite_boost as boost


# ---------------------------------------------------------------- the equations
def random_interval(rng):
    low, high = -np.exp(rng.normal()), np.exp(rng.normal())
    return low, high, rng.uniform(0.95 * low, 0.95 * high)


def printed_13(r, low, high):
    """Eq. 13 as it stands on the page."""
    return np.log((1 + r / high) / (1 + r / low)) / (high - low)


def test_tsuda_13(rng):
    """The corrected step minimises the bound of Theorem 4.1; the page's does so only for an interval symmetric about 0."""
    worse = 0
    for _ in range(200):
        low, high, r = random_interval(rng)
        alpha = boost.approximate_step(r, low, high)
        best = minimize_scalar(
            lambda t, args=(r, low, high): boost.log_step_bound(*args, t),
            bracket=(alpha - 0.5, alpha + 0.7),
            options={"xtol": 1e-10},
        )
        assert alpha == pytest.approx(best.x, abs=1e-6)  # a minimum is found to the root of rounding
        h = 1e-5
        slope = (boost.log_step_bound(r, low, high, alpha + h) - boost.log_step_bound(r, low, high, alpha - h)) / (
            2 * h
        )
        assert abs(slope) < 1e-8  # h^2 and rounding / h
        with np.errstate(invalid="ignore"):
            printed = printed_13(r, low, high)
            worse += (
                not boost.log_step_bound(r, low, high, printed) <= best.fun + 1e-6
            )  # undefined, or above the minimum
    assert worse > 150
    for r in (-0.6, 0.1, 0.9):
        assert boost.approximate_step(r, -2.0, 2.0) == pytest.approx(printed_13(r, -2.0, 2.0), rel=1e-12)


def test_tsuda_14_rho(rng):
    """At the step the bound is rho(r) as printed, which is at most 1."""
    for _ in range(50):
        low, high, r = random_interval(rng)
        rho = (1 - r / high) ** (high / (high - low)) * (1 - r / low) ** (-low / (high - low))
        assert np.exp(boost.log_step_bound(r, low, high, boost.approximate_step(r, low, high))) == pytest.approx(
            rho, rel=1e-12
        )
        assert rho <= 1


def test_printed_step_breaks_the_bound(rng):
    """On diagonal matrices the page's step ends above rho(r) in many cases, the corrected one in none."""
    broken = 0
    for _ in range(300):
        a = rng.normal(size=5) + rng.normal()
        w = rng.dirichlet(np.ones(5))
        low, high, r = a.min(), a.max(), a @ w
        if not (low < 0 < high and r > 0):
            continue
        log_rho = boost.log_step_bound(r, low, high, boost.approximate_step(r, low, high))
        assert np.log(w @ np.exp(-boost.approximate_step(r, low, high) * a)) <= log_rho + 1e-14
        with np.errstate(invalid="ignore"):
            broken += not np.log(w @ np.exp(-printed_13(r, low, high) * a)) <= log_rho + 1e-14
    assert broken > 20


# ---------------------------------------------------------------- AdaBoost
def plain_adaboost(H, y, n_steps):
    """AdaBoost with confidence-rated hypotheses, from the textbook."""
    w, f, story = np.full(len(y), 1 / len(y)), np.zeros(H.shape[1]), []
    for _ in range(n_steps):
        edges = (w * y) @ H
        j = edges.argmax()
        alpha = 0.5 * np.log((1 + edges[j]) / (1 - edges[j]))
        f[j] += alpha
        w = w * np.exp(-alpha * y * H[:, j])
        w = w / w.sum()
        loss = np.mean(np.exp(-y * (H @ f)))
        story.append((j, alpha, loss, edges[j]))
    return f, w, story


@pytest.mark.parametrize("kind", ["confident", "stumps", "separable"])
def test_adaboost(rng, kind):
    d, n, steps = 80, 30, 60
    y = rng.choice([-1, 1], size=d)
    H = np.tanh(rng.normal(size=(d, n)) + 0.2 * y[:, None])
    if kind == "stumps":
        H = np.sign(H)
    if kind == "separable":  # the set of example weights is empty, and AdaBoost goes on
        H[:, 0] = 0.3 * y
    f, w, story = plain_adaboost(H, y, steps)
    result = boost_hypotheses(H, y, n_steps=steps)
    rows, alphas, losses, edges = map(np.array, zip(*story))
    assert (result.rows == rows).all()
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(result.steps, alphas, **close)
    np.testing.assert_allclose(result.loss, losses, **close)
    np.testing.assert_allclose(result.weights, f, **close)
    np.testing.assert_allclose(result.sample_weight, w, **close)
    np.testing.assert_allclose(result.bound, np.cumprod(np.sqrt(1 - edges**2)), **close)  # rho for the interval (-1, 1)
    assert (result.loss <= result.bound * (1 + 1e-12)).all()
    np.testing.assert_allclose(result.decision_function(H), H @ f, **close)
    assert (result.predict(H) == np.where(H @ f >= 0, 1, -1)).all()
    assert np.mean(result.predict(H) != y) <= result.loss[-1]
    assert "n_iter=60, " in repr(result)
    if kind == "separable":
        assert nearest_distribution(np.ones(d) / d, (H * y[:, None]).T, 0.0, "<=").status == "INFEASIBLE"


def test_boosting_with_sample_weights_and_sparse_predictions(rng):
    y = rng.choice([-1, 1], size=50)
    H = np.where(rng.random((50, 20)) < 0.5, 0.0, rng.uniform(-1, 1, (50, 20)) + 0.3 * y[:, None]).clip(-1, 1)
    weight = rng.integers(0, 3, size=50)  # weights are copies
    copies = np.repeat(np.arange(50), weight)
    once = boost_hypotheses(sp.csr_array(H), y, n_steps=40, sample_weight=weight)
    many = boost_hypotheses(H[copies], y[copies], n_steps=40)
    np.testing.assert_allclose(once.weights, many.weights, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(once.sample_weight, np.bincount(copies, many.sample_weight, 50), rtol=1e-10, atol=1e-14)
    assert (once.predict(sp.csr_array(H)) == many.predict(H)).all()


def test_boosting_at_its_ends():
    y = np.array([1, 1, -1, -1])
    perfect = boost_hypotheses(y[:, None].astype(float), y, n_steps=2)  # an edge of 1 would have an infinite weight
    assert np.isfinite(perfect.weights).all()
    assert 15 < perfect.steps[0] < 20
    assert (perfect.predict(y[:, None]) == y).all()
    useless = boost_hypotheses(-y[:, None].astype(float), y)  # no hypothesis is better than chance
    assert (len(useless.rows), useless.weights[0]) == (0, 0.0)
    assert "n_iter=0, " in repr(useless)
    assert len(boost_hypotheses(np.eye(4), y, n_steps=0).loss) == 0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"y": [1, 0, -1]}, ValueError, r"y must be -1 or 1; got 0.0 in row 1"),
        ({"y": [1, -1]}, ValueError, r"H must have one row per label \(2\); got shape \(3, 2\)"),
        ({"y": ["a", "b", "c"]}, TypeError, "y must be numeric"),
        ({"H": [[1.0, 0.5], [0.2, -1.5], [0.0, 2.0]]}, ValueError, r"H must lie in \[-1, 1\]; got -1.5 in rows 1, 2"),
        ({"H": sp.csr_array([[1.0, 0.0], [0.0, 0.0], [0.0, 3.0]])}, ValueError, r"got 3.0 in row 2"),
        ({"H": [[1.0, 0.5], [np.nan, 0.0], [0.0, 1.0]]}, ValueError, "NaN or infinity in row 1"),
        ({"H": [1.0, 0.5, 0.2]}, ValueError, "H must be 2-dimensional"),
        ({"n_steps": -1}, ValueError, "n_steps must be at least 0; got -1"),
        ({"n_steps": 2.5}, TypeError, "n_steps must be an integer"),
        ({"sample_weight": [1.0, 2.0]}, ValueError, r"one entry per label \(3\); got shape \(2,\)"),
        ({"sample_weight": [1.0, -2.0, 1.0]}, ValueError, "got -2.0 in row 1"),
        ({"sample_weight": [0.0, 0.0, 0.0]}, ValueError, "somewhere positive; all are 0"),
    ],
)
def test_bad_input_of_boosting(change, error, message):
    given = {"H": [[1.0, 0.5], [0.2, -0.5], [0.0, 1.0]], "y": [1, 1, -1], "n_steps": 3} | change
    with pytest.raises(error, match=message):
        boost_hypotheses(given.pop("H"), given.pop("y"), **given)


def test_predictions_must_fit():
    result = boost_hypotheses(np.eye(3), [1, 1, -1])
    with pytest.raises(ValueError, match=r"one column per hypothesis \(3\); got shape \(3, 2\)"):
        result.predict(np.zeros((3, 2)))
