"""What MetricLearner decides by itself: whether to scale, what to ask of the labels, the slack weight."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from bregmat import Constraints, Factor, KernelLearner, MetricLearner, nearest_metric
from bregmat.estimators import learner as learner_module
from bregmat.estimators import metric as metric_module
from bregmat.estimators.choice import best_strategy, scaled_or_not, shares_right, usual_weight


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


def noisy_components(rng, n=240, apart=6.0):
    """Principal components of two clusters: the first tells them apart, forty others are small noise."""
    y = np.repeat([0, 1], n // 2)
    X = np.column_stack([apart * (y - 0.5) + rng.normal(size=n), 0.05 * rng.normal(size=(n, 40))])
    return X, y


def test_shares_of_votes_by_hand():
    """Leave one out on a line, 4 neighbours; ties share the vote."""
    x, codes = np.array([[0.0], [1.0], [2.1], [10.0], [11.0], [12.1]]), np.array([0, 0, 0, 1, 1, 1])
    assert np.allclose(shares_right(x, codes), [0.5] * 6)  # two of its own, two of the others
    assert np.allclose(shares_right(x, codes, np.array([[-1.0], [13.0]]), np.array([0, 0])), [1.0, 0.0])


def test_columns_are_scaled_where_that_is_better():
    """Wine's columns have units of their own; pixels of digits, and components of little variance, are better left alone."""
    X, y = load_wine(return_X_y=True)
    assert scaled_or_not(X, y)[0] == "variance"
    X, y = load_digits(return_X_y=True)
    prior, accuracy = scaled_or_not(X[:900], y[:900])
    assert prior == "identity" and accuracy["as given"] > accuracy["scaled"] > 0.9


def test_the_learner_follows(rng):
    X, y = noisy_components(rng)
    train = np.arange(len(y)) % 2 == 0
    learner = MetricLearner(random_state=0).fit(X[train], y[train])
    assert learner.prior_ == "identity" and learner.strategy_ == "neighbors"
    assert learner.slack_weight_ == 0.3  # the identity tells the clusters apart as well as the learned metric
    assert learner.comparison_["as given"] > learner.comparison_["scaled"] + 0.1

    def accuracy(A, B):
        return KNeighborsClassifier(4).fit(A, y[train]).score(B, y[~train])

    scale = StandardScaler().fit(X[train])
    unlearned = max(accuracy(X[train], X[~train]), accuracy(scale.transform(X[train]), scale.transform(X[~train])))
    assert accuracy(learner.transform(X[train]), learner.transform(X[~train])) >= unlearned - 0.01


def test_ties_and_unknown_labels(rng):
    """Columns are scaled where it makes no difference, and where nothing is known."""
    X, y = rng.normal(size=(60, 3)), np.repeat([0, 1], 30)
    assert scaled_or_not(X / X.std(axis=0), y)[0] == "variance"
    assert scaled_or_not(X, np.full(60, -1)) == ("variance", {})
    some = np.where(np.arange(60) % 3 == 0, y, -1)
    assert scaled_or_not(X, some)[1].keys() == {"as given", "scaled"}
    assert scaled_or_not(sp.csr_array(X), y)[1] == pytest.approx(scaled_or_not(X, y)[1])


@pytest.mark.parametrize("best", ["neighbors", "random", None])
def test_what_is_better_by_far_is_chosen(best):
    y = np.arange(100) % 2

    def mapped(strategy, *halves):
        """A map that is exactly right, or exactly wrong, about the classes."""
        return [np.column_stack([y[rows] if strategy == best else rows % 7, 1e-3 * rows]) for rows in halves]

    found, factor, accuracy = best_strategy(mapped, y)
    assert found == best and factor == 1.0
    assert set(accuracy) == {"neighbors, on halves", "random, on halves", "not learned, on halves"}


def test_nothing_is_compared_where_labels_are_few():
    never = None  # a call would raise TypeError
    assert best_strategy(never, np.arange(39) % 3) == ("neighbors", 1.0, {})
    assert best_strategy(never, np.arange(156) // 3) == ("neighbors", 1.0, {})  # 3 of each
    assert best_strategy(never, np.zeros(156, int)) == ("neighbors", 1.0, {})


def test_metric_stays_near_the_prior_where_learning_is_not_clearly_better(rng):
    """Two classes that nearest neighbours tell apart before learning, too."""
    y = np.arange(120) % 2
    X = np.column_stack([y, y]) * 6.0 + rng.normal(size=(120, 2))
    learner = MetricLearner(random_state=0).fit(X, y)
    assert learner.comparison_["neighbors, on halves"] == learner.comparison_["not learned, on halves"] == 1.0
    assert (learner.strategy_, learner.slack_weight_) == ("neighbors", 0.3)
    assert MetricLearner(slack_weight=1.0, random_state=0).fit(X, y).slack_weight_ == 1.0


def test_what_cannot_be_learned_is_not_chosen(rng):
    X = np.repeat([[0.0], [9.0]], 50, axis=0) + 0.1 * rng.normal(size=(100, 1))

    def mapped(strategy, train, test):
        if strategy is not None:
            raise ValueError("no constraint is left")
        return X[train], X[test]

    assert best_strategy(mapped, np.repeat([0, 1], 50))[0] is None


def test_not_learned_is_the_prior(monkeypatch, wine):
    X, y = wine
    monkeypatch.setattr(learner_module, "best_strategy", lambda *_: (None, 1.0, {}))
    for options in ({}, {"form": "sq_distance"}, {"loss": "squared"}, {"strategy": None}):
        learner = MetricLearner(**options, random_state=0).fit(X, y)
        assert learner.strategy_ is None and learner.prior_ == "variance"
        assert learner.result_.status == "OPTIMAL" and learner.result_.gap == 0 and not learner.result_.dual.any()
        assert np.allclose(learner.get_mahalanobis_matrix(), np.diag(1 / X.var(axis=0)), rtol=1e-12)


def test_plain_values_switch_it_off(wine):
    X, y = wine
    learner = MetricLearner(prior="identity", strategy="random", slack_weight=2.0, random_state=0).fit(X, y)
    assert (learner.prior_, learner.strategy_, learner.slack_weight_) == ("identity", "random", 2.0)
    assert learner.comparison_ == {}
    learner = MetricLearner(strategy="neighbors", random_state=0).fit(X, y)
    assert learner.comparison_.keys() == {"as given", "scaled"} and learner.slack_weight_ == 1.0
    given = Constraints.sq_distance([0], [1], 1.0, "<=")
    learner = MetricLearner(random_state=0).fit(X, constraints=given)
    assert (learner.prior_, learner.slack_weight_, learner.comparison_) == ("identity", 1.0, {})
    for name in ("slack_weight", "strategy"):
        with pytest.raises((TypeError, ValueError), match=name):
            MetricLearner(**{name: "automatic"}).fit(X, y)


def test_slack_weights_grow_with_the_rows(rng):
    assert [usual_weight(2.0, n) for n in (10, 500, 1500)] == [2.0, 2.0, 6.0]
    X, y = noisy_components(rng, 1000)
    learner = MetricLearner(strategy="neighbors", passes=1, random_state=0).fit(X, y)
    assert learner.slack_weight_ == 2.0
    weights = learner.constraints_.weight
    assert weights.sum() == pytest.approx(1000.0)  # whatever the number of rows


def test_numbers_and_sets_of_labels_are_not_compared(wine, rng):
    X, _ = wine
    for y in (X[:, 0] + 0.01 * rng.random(len(X)), rng.integers(0, 2, (len(X), 3))):
        learner = MetricLearner(passes=1, random_state=0).fit(X, y)
        assert (learner.prior_, learner.strategy_, learner.comparison_) == ("variance", "neighbors", {})


@pytest.mark.slow
def test_blocks_decide_as_memory_does(rng):
    X, y = noisy_components(rng, apart=3.0)
    here = MetricLearner(passes=1, random_state=0).fit(X, y)
    there = MetricLearner(passes=1, random_state=0).fit(X, y, block_size=50)
    assert here.comparison_ == pytest.approx(there.comparison_)
    assert (here.prior_, here.strategy_) == (there.prior_, there.strategy_) == ("identity", "neighbors")


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_kernels_are_compared_in_their_own_distances(rng, kernel):
    y = np.arange(80) % 2
    X = np.column_stack([3.0 * y + rng.normal(size=80), 4.0 * rng.normal(size=(80, 3))])
    K = X @ X.T if kernel == "precomputed" else X
    learner = KernelLearner(kernel, strategy="auto", slack_weight="auto", random_state=0).fit(K, y)
    # Learning is better than the linear kernel by a standard error, and not better than the Gaussian one.
    assert learner.strategy_ == "neighbors" and learner.slack_weight_ == (0.3 if kernel == "rbf" else 1.0)
    assert set(learner.comparison_) == {"neighbors, on halves", "random, on halves", "not learned, on halves"}
    unlearned = KernelLearner(kernel, strategy=None).fit(K, y)
    assert unlearned.result_.gap == 0 and unlearned.strategy_ is None
    if kernel != "rbf":
        assert np.allclose(unlearned.kernel_, X @ X.T)


def test_many_points_in_many_dimensions_are_learned_on_leading_components(rng, monkeypatch):
    """The prior keeps 95 % of the variance; the result is the optimum for that prior. A named prior keeps all dimensions."""
    monkeypatch.setattr(metric_module, "MANY_POINTS", 300)
    monkeypatch.setattr(metric_module, "FEW_FEATURES", 20)
    X, y = noisy_components(rng, 400)
    X = np.column_stack([X[:, 0], 3.0 * rng.normal(size=(400, 2)), X[:, 1:]])
    learner = MetricLearner(strategy="neighbors", random_state=0).fit(X, y)
    assert learner.prior_ == "identity" and learner.components_.shape == (3, 43)
    V = np.linalg.eigh(np.cov(X.T))[1][:, -3:]
    again = nearest_metric(
        X,
        learner.constraints_,
        prior=Factor(V),
        loss="squared_hinge",
        slack_weight=learner.slack_weight_,
    )
    assert learner.result_.status == "OPTIMAL"
    assert again.objective == pytest.approx(learner.result_.objective, rel=1e-3)
    assert MetricLearner(strategy="neighbors", n_components=5, random_state=0).fit(X, y).components_.shape == (5, 43)
    named = MetricLearner(strategy="neighbors", prior="identity", random_state=0).fit(X, y)
    assert named.components_.shape == (43, 43)
