"""DefiniteBoost on vectors, and AdaBoost, step by step against one from the book."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

from bregmat import boost_hypotheses, nearest_distribution

# ---------------------------------------------------------------- the equations


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
    gaps = [record.gap for record in result.history]  # of the bound 0, relative to 1: the first loss
    np.testing.assert_allclose(gaps, [1.0, *losses], **close)
    if kind == "separable":
        assert nearest_distribution(np.ones(d) / d, (H * y[:, None]).T, 0.0, "<=").status == "INFEASIBLE"


def test_ctrl_c_during_a_step_keeps_the_last_combination(rng, monkeypatch):
    y = rng.choice([-1, 1], size=50)
    H, n_calls = np.tanh(rng.normal(size=(50, 8)) + 0.2 * y[:, None]), []

    def interrupted(x):
        n_calls.append(None)
        if len(n_calls) == 4:  # the first is of the start
            raise KeyboardInterrupt
        return logsumexp(x)

    monkeypatch.setattr("bregmat.applications.simplex.boosting.log_sum", interrupted)
    with pytest.warns(RuntimeWarning, match="boost_hypotheses was interrupted after 2 iterations"):
        result = boost_hypotheses(H, y)
    expected = boost_hypotheses(H, y, n_steps=2)
    assert result.exit_reason == "INTERRUPTED"
    np.testing.assert_allclose(result.weights, expected.weights, rtol=1e-12)
    assert result.objective == pytest.approx(np.mean(np.exp(-y * (H @ result.weights))))


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
