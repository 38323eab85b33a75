"""The neighbours' strategy: who is near, what is asked of them, passes in the learned metric."""

import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.optimize import OptimizeResult, check_grad
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import bregmat as bm
from bregmat import Constraints, KernelLearner, MetricLearner, constraints_from_labels
from bregmat.base.linalg import smallest
from bregmat.estimators import task as fitting
from bregmat.estimators.learned_kernel import KernelSpace
from bregmat.estimators.metric import MetricProblem
from bregmat.from_labels import dimension, neighbors
from bregmat.from_labels.dimension import Neighborhood, few_components
from bregmat.from_labels.groups import LabelGroups, label_codes, label_groups
from bregmat.from_labels.neighbors import PointSpace


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def draw(X, y, **options):
    return constraints_from_labels(X, y, strategy="neighbors", random_state=0, **options)


def brute(X, is_candidate, k):
    """Sets of the k nearest candidates of each row; itself is no candidate."""
    sq = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    sq[~is_candidate | np.eye(len(X), dtype=bool)] = np.inf
    order = np.argsort(sq, axis=1)[:, :k]
    return [{int(j) for j in row if np.isfinite(sq[i, j])} for i, row in enumerate(order)]


# ---------------------------------------------------------------------- who is near
@pytest.mark.parametrize("as_sparse", [False, True])
def test_each_point_is_compared_with_its_nearest_of_either_kind(wine, as_sparse):
    X, y = wine
    c = draw(sp.csr_array(X) if as_sparse else X, y, n_neighbors=2, n_impostors=3)
    same = y[:, None] == y[None]
    targets, impostors = brute(X, same, 2), brute(X, ~same, 3)
    i, j, i_again, l = c.index.T
    assert np.array_equal(i, i_again) and c.n_constraints == 6 * len(X)
    assert set(zip(i, j)) == {(p, q) for p, near in enumerate(targets) for q in near}
    assert set(zip(i, l)) == {(p, q) for p, near in enumerate(impostors) for q in near}
    farthest = np.array([max(((X[p] - X[q]) ** 2).sum() for q in near) for p, near in enumerate(targets)])
    assert np.allclose(-c.bound, 2 * farthest[i])
    assert np.allclose(c.weight.sum(), 1000)


def test_pairs_in_the_place_of_comparisons(wine):
    X, y = wine
    compared, pairs = draw(X, y), draw(X, y, form="sq_distance")
    targets = brute(X, y[:, None] == y[None], 3)
    margin = np.median([((X[p] - X[q]) ** 2).sum() for p, near in enumerate(targets) for q in near])
    i, j = pairs.index[:, 0], pairs.index[:, 1]
    assert np.array_equal(pairs.sense > 0, y[i] == y[j])
    assert np.allclose(pairs.bound, np.where(pairs.sense > 0, margin, 2 * margin))
    assert set(zip(i, j)) == set(zip(compared.index[:, 0], compared.index[:, 1])) | set(
        zip(compared.index[:, 2], compared.index[:, 3])
    )


def test_a_kernel_finds_the_same_neighbours(rng):
    X = rng.normal(size=(60, 5))
    groups = LabelGroups(rng.integers(0, 3, 60))
    K = X @ X.T
    of_kernel = KernelSpace(lambda a, b: K[np.ix_(a, b)], np.diag(K), groups.ordered)
    plain, kernel = [s.nearest(groups, np.arange(60), 4, 4) for s in (PointSpace(X, groups.ordered), of_kernel)]
    assert len(plain.points) == 60
    assert np.array_equal(plain.targets, kernel.targets) and np.array_equal(plain.impostors, kernel.impostors)
    assert np.allclose(plain.near, kernel.near) and np.allclose(plain.far, kernel.far)


def test_the_search_is_the_same_in_blocks_of_any_size(rng, monkeypatch):
    X, groups, some = rng.normal(size=(90, 3)), LabelGroups(rng.integers(-1, 30, 90)), np.arange(0, 90, 2)
    X[10:20] = X[40:50]
    some = some[groups.codes[some] >= 0]
    whole = PointSpace(X, groups.ordered).nearest(groups, some, 5, 5)
    monkeypatch.setattr(neighbors, "BLOCK", 300)
    parts = PointSpace(X, groups.ordered).nearest(groups, some, 5, 5)
    assert np.array_equal(whole.targets, parts.targets) and np.array_equal(whole.impostors, parts.impostors)
    assert np.array_equal(whole.copies, parts.copies) and len(whole.copies)
    sizes = np.bincount(groups.codes[groups.codes >= 0], minlength=30)[groups.codes[some]]
    assert np.array_equal(whole.points, some[sizes > 1])
    assert np.array_equal((whole.targets >= 0).sum(axis=1), np.minimum(sizes[sizes > 1] - 1, 5))


def test_the_limit_leaves_out_points_and_the_seed_repeats(wine):
    X, y = wine
    a, b = (draw(X, y, n_constraints=100) for _ in range(2))
    assert a.n_constraints == 100 and np.array_equal(a.index, b.index)
    assert len(np.unique(a.index[:, 0])) == 4  # 30 rows each


# ---------------------------------------------------------------------- labels of other kinds
def test_unlabelled_points_take_no_part(wine):
    X, y = wine
    unknown = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    assert not np.isin(draw(X, unknown).index, np.flatnonzero(unknown == -1)).any()


def test_a_continuous_target_is_alike_in_one_tenth_and_apart_beyond_the_next(rng):
    y = rng.normal(size=200)
    groups = label_groups(y, 200, "neighbors")
    tenth = np.argsort(np.argsort(y)) // 20
    assert np.array_equal(groups.codes, tenth)
    steps = np.abs(np.subtract.outer(tenth, tenth))
    assert np.array_equal(
        groups.relation[groups.codes][:, groups.codes], np.select([steps == 0, steps == 1], [1, 0], -1)
    )
    assert (label_groups(np.where(y > 1, np.nan, y), 200, "neighbors").codes[y > 1] == -1).all()
    with pytest.raises(ValueError, match="y must hold class labels, but it is continuous"):
        constraints_from_labels(rng.normal(size=(200, 2)), y)


def test_sets_of_labels_are_alike_if_they_share_one():
    Y = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 1]])
    groups = label_groups(Y, 6, "neighbors")
    assert (groups.codes == -1).tolist() == [False, False, False, False, True, False]
    for a in (0, 1, 2, 3, 5):
        for b in (0, 1, 2, 3, 5):
            assert groups.relation[groups.codes[a], groups.codes[b]] == (1 if (Y[a] & Y[b]).any() else -1)
    with pytest.raises(ValueError, match="sets of labels as 0 and 1"):
        label_groups(2 * Y, 6, "neighbors")


def test_learning_from_numbers_and_from_sets(rng):
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    assert bm.MetricLearner(strategy="neighbors").fit(X, y / 10).result_.status == "OPTIMAL"
    X = rng.normal(size=(80, 4))
    Y = np.column_stack([X[:, 0] > 0, X[:, 1] > 0.5])
    assert bm.MetricLearner(strategy="neighbors").fit(X, Y).result_.status == "OPTIMAL"


def test_the_arrays_of_a_search_are_freed_before_the_solve(rng, monkeypatch):
    spaces, alive = [], []
    space, solve = MetricProblem.space, MetricProblem.solve

    def watched_space(*given):
        found = space(*given)
        spaces.append(weakref.ref(found))
        return found

    def watched_solve(*given, **settings):
        alive.append(sum(one() is not None for one in spaces))
        return solve(*given, **settings)

    monkeypatch.setattr(MetricProblem, "space", watched_space)
    monkeypatch.setattr(MetricProblem, "solve", watched_solve)
    bm.MetricLearner(strategy="neighbors", random_state=0).fit(rng.normal(size=(60, 3)), np.arange(60) % 2)
    assert spaces and not any(alive)


# ---------------------------------------------------------------------- points that nothing can be asked of
def test_points_alone_in_their_class_serve_as_impostors_only(rng):
    X, y = rng.normal(size=(21, 3)), np.r_[np.repeat([0, 1], 10), 2]
    with pytest.warns(UserWarning, match=r"1 points are alone in their class.*row 20") as told:
        c = constraints_from_labels(X, y, strategy="neighbors")
    assert told[0].filename == __file__  # the line of the caller
    assert 20 not in c.index[:, :2] and 20 in c.index[:, 3]


def test_identical_points_of_two_classes_are_not_compared(rng):
    X, y = rng.normal(size=(40, 3)) * 1e-3 + 1.0, np.repeat([0, 1], 20)
    X[25] = X[3]
    with pytest.warns(UserWarning, match="2 points coincide with points of another class"):
        c = draw(X, y)
    i, _, _, l = c.index.T
    assert not ((i == 3) & (l == 25)).any() and not ((i == 25) & (l == 3)).any()
    assert (i == 3).any() and np.all(c.bound != 0)


def test_copies_within_a_class_do_not_bring_the_margin_to_nothing(rng):
    X = np.repeat(rng.normal(size=(12, 3)), 6, axis=0)
    y = np.repeat(np.arange(12) % 2, 6)
    c = draw(X, y)
    assert np.all(np.abs(c.bound) > 0) and np.all(c.index[:, 0] != c.index[:, 1])
    X = np.vstack([X, rng.normal(size=(100, 3))])
    c = draw(X, np.r_[y, np.arange(100) % 2])
    assert np.allclose(-c.bound[c.index[:, 0] < 72], 0.01 * np.median(-c.bound[::30]), atol=0)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0] * 6, "at least two classes"),
        ([0, 1, 2, 3, 4, 5], "put no two points together"),
        ([0, -1, -1, -1, -1, -1], "at least 2 rows"),
    ],
)
def test_labels_of_which_nothing_can_be_asked(rng, y, message):
    with pytest.raises(ValueError, match=message):
        draw(rng.normal(size=(6, 2)), np.array(y))
    with pytest.raises(ValueError, match="identical points"):
        draw(np.ones((6, 2)), np.array([0, 1, 0, 1, 0, 1]))


@pytest.mark.parametrize("options", [{"n_neighbors": 0}, {"n_impostors": 2.5}, {"form": "pairs"}, {"strategy": "near"}])
def test_bad_options_are_named(wine, options):
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        constraints_from_labels(*wine, **{"strategy": "neighbors"} | options)


# ---------------------------------------------------------------------- passes
def test_every_pass_is_certified_and_the_history_tells_them_apart(wine, tmp_path, set_passes):
    seen = []
    set_passes(3)
    learner = bm.MetricLearner(
        strategy="neighbors", prior="variance", slack_weight=1.0, callback=lambda row: seen.append(row.stage)
    )
    learner.fit(*wine)
    history = learner.result_.history
    stages = [row.stage for row in history]
    assert stages == sorted(stages) == seen and set(stages) == {1, 2, 3}
    for stage in set(stages):
        assert [row for row in history if row.stage == stage][-1].gap <= 1e-4
    steps = [row.iteration for row in history]
    assert steps == sorted(steps) and learner.n_iter_ == steps[-1]
    bm.save(tmp_path / "model.bm", learner)
    assert [row.stage for row in bm.load(tmp_path / "model.bm").result_.history] == stages


def test_a_pass_draws_where_the_last_one_put_the_points(wine, set_passes):
    X, y = wine
    settings = {"strategy": "neighbors", "prior": "identity", "slack_weight": 1.0}
    first = bm.MetricLearner(**settings).fit(X, y)
    set_passes(2)
    second = bm.MetricLearner(**settings).fit(X, y)
    drawn = draw(first.transform(X), y)
    assert np.array_equal(second.constraints_.index, drawn.index)
    scale = np.median(first.constraints_.bound) / np.median(drawn.bound)
    assert scale != 1.0 and np.allclose(second.constraints_.bound, scale * drawn.bound)
    cold = bm.nearest_metric(X, second.constraints_, loss="squared_hinge", slack_weight=1.0)
    assert np.isclose(second.result_.objective, cold.objective, rtol=1e-3)


def test_passes_end_when_nothing_changes(set_passes):
    set_passes(50)
    # no two distances are the same: ties would be decided by rounding, anew in each pass
    X = np.array([[0.0, 0], [0, 3], [2, 0], [2, 3.3], [5, 0], [5, 2.6]])
    learner = bm.MetricLearner(strategy="neighbors", n_neighbors=1, n_impostors=1)
    learner.fit(X, [0, 0, 1, 1, 2, 2])
    assert 1 < learner.result_.history[-1].stage <= 3


def test_passes_end_when_they_come_round_to_the_same_problem(monkeypatch, tmp_path, set_passes):
    X, y = np.array([[0.0, 0], [0, 1], [3, 0], [3, 1.1], [10, 0], [10, 0.9]]), [0, 0, 1, 1, 2, 2]

    def learned(passes):
        set_passes(passes)
        settings = {"prior": "variance", "slack_weight": 1.0, "n_neighbors": 1, "n_impostors": 1}
        return bm.MetricLearner(strategy="neighbors", tol=1e-8, **settings).fit(X, y)

    ended = learned(50)
    assert (ended.result_.status, ended.result_.exit_reason) == ("OPTIMAL", "CYCLE")
    assert ended.result_.history[-1].stage == 3
    bm.save(tmp_path / "model.bm", ended)
    assert bm.load(tmp_path / "model.bm").result_.exit_reason == "CYCLE"
    monkeypatch.setattr(fitting, "SAME", -1.0)  # to the end, whatever comes again
    second, third, fourth, seventh = (learned(passes).result_ for passes in (2, 3, 4, 7))
    assert {one.exit_reason for one in (second, third, fourth, seventh)} == {"TOLERANCE"}
    assert np.array_equal(third.metric(), ended.result_.metric())
    assert np.allclose(second.metric(), fourth.metric(), atol=1e-3) and np.allclose(
        third.metric(), seventh.metric(), atol=1e-3
    )
    assert not np.allclose(second.metric(), third.metric(), atol=1e-2)


def test_the_same_active_rows_under_other_bounds_are_another_problem():
    rows = bm.Constraints.sq_distance([0, 0, 1], [1, 2, 2], [1.0, 2.0, 3.0], ">=")

    def one(dual, bound, order=(0, 1, 2)):
        keys, on = np.array(order), np.flatnonzero(dual)
        first = on[np.argsort(keys[on])]
        active = keys[first], np.array(bound)[first]
        return fitting._Pass(SimpleNamespace(dual=np.array(dual)), replace(rows, bound=np.array(bound)), keys, active)

    now = one([-1.0, -2.0, 0.0], [1.0, 2.0, 3.0])
    for before, is_the_same in (
        (one([-2.0, -3.0, 0.0], [1.001, 2.001, 9.0]), True),  # an inactive bound says nothing
        (one([-2.0, 0.0, -1.0], [2.0, 3.0, 1.0], order=(1, 2, 0)), True),
        (one([-2.0, -3.0, 0.0], [1.0, 2.1, 3.0]), False),
        (one([-2.0, -3.0, -1.0], [1.0, 2.0, 3.0]), False),
    ):
        assert now.repeats(before) is is_the_same


def test_given_rows_stay_beside_those_drawn(wine):
    given = bm.Constraints.sq_distance([0, 1], [2, 3], 1.0, "<=", weight=5.0)
    learner = bm.MetricLearner(strategy="neighbors").fit(*wine, constraints=given)
    rows = learner.constraints_
    assert np.array_equal(rows.index[-2:, :2], given.index[:, :2]) and np.array_equal(rows.weight[-2:], given.weight)
    assert len(learner.result_.dual) == rows.n_constraints


def test_sparse_points_and_a_linear_kernel(wine):
    X, y = wine
    dense, sparse = (bm.KernelLearner("linear", strategy="neighbors").fit(Z, y) for Z in (X, sp.csr_array(X)))
    assert np.allclose(sparse.result_.dual, dense.result_.dual)


def test_a_linear_kernel_and_a_metric_learn_the_same(wine):
    X, y = wine
    settings = {"strategy": "neighbors", "slack_weight": 1.0, "tol": 1e-7}
    metric = bm.MetricLearner(prior="identity", **settings).fit(X, y)
    for options in ({"kernel": "linear"}, {"kernel": "poly", "degree": 1, "gamma": 1.0, "coef0": 0.0}):
        kernel = KernelLearner(**settings, **options).fit(X, y)
        assert np.array_equal(kernel.constraints_.index, metric.constraints_.index)
        assert np.allclose(kernel.kernel(X), metric.transform(X) @ metric.transform(X).T, rtol=1e-2, atol=1e-2)


# ---------------------------------------------------------------------- few components
def mapped(X, y, n_neighbors=2, n_impostors=3):
    return Neighborhood(X, LabelGroups(y), n_neighbors, n_impostors)


def test_components_are_ordered_by_what_impostors_are_farther_than_targets(wine):
    X, y = wine
    same = y[:, None] == y[None]
    spreads = []
    for candidates, k in ((same, 2), (~same, 3)):
        D = np.array([X[i] - X[j] for i, near in enumerate(brute(X, candidates, k)) for j in near])
        spreads.append(D.T @ D / len(D))
    Q = mapped(X, y).ordered()
    S = Q.T @ (spreads[1] - spreads[0]) @ Q
    assert np.allclose(Q.T @ Q, np.eye(13)) and np.allclose(S, np.diag(np.diag(S)))
    assert np.all(np.diff(np.diag(S)) <= 1e-12)
    learner = bm.MetricLearner(strategy="neighbors", n_components=12, random_state=0).fit(X, y)
    whole = bm.MetricLearner(strategy="neighbors", random_state=0).fit(X, y)
    # the leading components do: nothing else is learned
    assert np.array_equal(learner.result_.dual, whole.result_.dual)
    order = mapped(X @ whole.result_.B, y, 3, 10).ordered()[:, :12]
    assert np.allclose(learner.get_mahalanobis_matrix(), whole.result_.B @ order @ order.T @ whole.result_.B.T)


def test_after_an_interrupt_no_map_of_few_dimensions_is_sought(monkeypatch):
    X, y = load_digits(return_X_y=True)

    def interrupt(record):
        raise KeyboardInterrupt

    monkeypatch.setattr("bregmat.estimators.metric.few_components", None)  # would raise
    learner = bm.MetricLearner(n_components=2, random_state=0, callback=interrupt)
    with pytest.warns(RuntimeWarning, match="MetricLearner was interrupted after"), pytest.raises(KeyboardInterrupt):
        learner.fit(X[:200], y[:200])
    assert learner.result_.exit_reason == "INTERRUPTED" and learner.components_.shape == (2, 64)


def test_few_components_are_sought_where_the_leading_ones_do_worse():
    """The ten digits in two dimensions, the other half of the rows asked: .50 of the leading ones, .66 of those sought."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    learner = bm.MetricLearner(strategy="neighbors", n_components=2, random_state=0).fit(X[::2], y[::2])
    whole = bm.MetricLearner(strategy="neighbors", random_state=0).fit(X[::2], y[::2])
    leading = mapped(X[::2] @ whole.result_.B, y[::2], 3, 10).ordered()[:, :2]
    scores = []
    for C in (learner.components_, leading.T @ whole.result_.B.T):
        near = KNeighborsClassifier(4).fit(X[::2] @ C.T, y[::2])
        scores.append(near.score(X[1::2] @ C.T, y[1::2]))
    assert scores[0] > scores[1] + 0.08
    result = learner.result_
    assert result.status is bm.Status.OPTIMAL and result.gap <= learner.tol
    assert np.allclose(result.metric(), learner.get_mahalanobis_matrix())  # what is certified is what is used
    assert np.linalg.matrix_rank(result.metric()) == 2
    stages = [row.stage for row in result.history]
    assert stages == sorted(stages) and stages[-1] > max(row.stage for row in whole.result_.history)
    assert [row.iteration for row in result.history] == sorted(row.iteration for row in result.history)


def test_the_slope_of_the_search_is_that_of_its_cost(rng, monkeypatch):
    Z, V = rng.normal(size=(30, 5)), rng.normal(size=(5, 2))
    rows = np.array([rng.choice(30, 3, replace=False) for _ in range(50)])
    Z[rows[0]] = Z[0]  # all three at one place
    asked = []

    def minimize(cost, start, **_):
        asked.append(check_grad(lambda v: cost(v)[0], lambda v: cost(v)[1], start))
        near, far = (np.sum(((Z[rows[:, 0]] - Z[rows[:, k]]) @ V) ** 2, axis=1) for k in (1, 2))
        share = np.divide(near - far, near + far, out=np.zeros(50), where=near + far > 0)
        assert cost(start)[0] == pytest.approx(np.mean(1 / (1 + np.exp(-dimension.STEEPNESS * share))))
        return OptimizeResult(x=start)

    monkeypatch.setattr(dimension, "minimize", minimize)
    assert np.linalg.norm(dimension._descended(Z, V, rows), 2) == pytest.approx(1.0)
    assert asked[0] < 1e-6


def test_points_that_coincide_and_more_components_than_there_are_leave_the_leading_ones(rng):
    y = np.arange(40) % 2
    for X in (np.repeat(rng.normal(size=(2, 3)), 20, axis=0)[rng.permutation(40)], rng.normal(size=(40, 3))):
        assert few_components(mapped(X, np.zeros(40, int)), 2) is None  # nobody is apart
        assert few_components(mapped(X, y), 3) is None
        found = few_components(mapped(X, y), 1)
        assert found is None or (found.shape == (3, 1) and np.isfinite(found).all())


# ---------------------------------------------------------------------- many points
@pytest.mark.parametrize("decimals", [12, 2])
def test_the_smallest_entries_of_long_rows_are_those_of_short_ones(rng, decimals):
    """Ties are resolved as by a partition of the whole row; infinite entries come last."""
    values = rng.random((30, 2000)).round(decimals)
    values[:10, rng.permutation(2000)[:1000]] = np.inf
    values[10:12, 3:] = np.inf  # fewer finite entries than are wanted
    found, columns = smallest(values, 5)
    chosen = np.sort(np.argpartition(values, 4, axis=1)[:, :5], axis=1)
    order = np.argsort(np.take_along_axis(values, chosen, axis=1), axis=1, kind="stable")
    assert np.array_equal(columns, np.take_along_axis(chosen, order, axis=1))
    assert np.array_equal(found, np.sort(values, axis=1)[:, :5])


def test_all_passes_but_the_last_are_over_a_sample(rng, monkeypatch, set_passes):
    set_passes(3)
    monkeypatch.setattr(fitting, "MANY_POINTS", 300)
    monkeypatch.setattr(fitting, "SAMPLED_POINTS", 100)
    y = np.arange(400) % 2
    X = np.column_stack([2.0 * y, np.zeros(400)]) + rng.normal(size=(400, 2)) * [1, 3]
    seen = []
    settings = {"strategy": "neighbors", "prior": "variance", "slack_weight": 1.0, "random_state": 0}
    learner = bm.MetricLearner(callback=lambda row: seen.append(row.stage), **settings).fit(X, y)
    assert len(np.unique(learner.constraints_.index[:, 0])) == 400 and learner.result_.status == "OPTIMAL"
    assert [row.stage for row in learner.result_.history] == seen and max(seen) == 3
    again = bm.nearest_metric(
        X, learner.constraints_, prior=np.diag(1 / X.var(axis=0)), loss="squared_hinge", slack_weight=1.0
    )
    assert again.objective == pytest.approx(learner.result_.objective, rel=1e-3)
    some = np.unique(learner.constraints_.index)
    monkeypatch.setattr(fitting, "SAMPLED_PER_CLASS", 60)  # too many for the sample: all passes are over all points
    whole = bm.MetricLearner(**settings).fit(X, y)
    assert len(some) == 400 and not np.array_equal(whole.constraints_.bound, learner.constraints_.bound)


@pytest.mark.parametrize("y", [np.arange(400) % 2, np.arange(400) // 4])  # the second in whole classes
def test_neighbours_of_very_many_rows_are_searched_among_some(rng, monkeypatch, capsys, y):
    monkeypatch.setattr(fitting, "MOST_SEARCHED", 100)
    X = np.column_stack([2.0 * y, np.zeros(400)]) + rng.normal(size=(400, 2)) * [1, 3]
    settings = {"strategy": "neighbors", "prior": "variance", "slack_weight": 1.0, "random_state": 0, "verbose": 1}
    learner = bm.MetricLearner(**settings).fit(X, y)
    used = np.unique(learner.constraints_.index)
    assert 90 <= len(used) <= 100 and used[-1] > 100  # row numbers of X
    assert "neighbours are searched among 100 of 400 labelled rows" in capsys.readouterr().out
    i, j, _, l = learner.constraints_.index.T
    assert (y[i] == y[j]).all() and (y[i] != y[l]).all()
    Z = X[used] / X.std(axis=0)
    sq = ((Z[:, None] - Z) ** 2).sum(axis=2)
    nearest = np.where((y[used][:, None] == y[used]) & ~np.eye(len(used), dtype=bool), sq, np.inf).argmin(axis=1)
    first = np.unique(i, return_index=True)[1]
    np.testing.assert_array_equal(used[nearest[np.searchsorted(used, i[first])]], j[first])


def test_a_sample_that_was_interrupted_names_its_rows(rng, monkeypatch, set_passes):
    set_passes(3)
    monkeypatch.setattr(fitting, "MANY_POINTS", 300)
    monkeypatch.setattr(fitting, "SAMPLED_POINTS", 100)
    X, y = rng.normal(size=(400, 3)), np.arange(400) % 2

    def interrupt(record):
        raise KeyboardInterrupt

    settings = {"strategy": "neighbors", "prior": "variance", "slack_weight": 1.0, "random_state": 0}
    learner = bm.MetricLearner(callback=interrupt, **settings)
    with pytest.warns(RuntimeWarning, match="interrupted after"), pytest.raises(KeyboardInterrupt):
        learner.fit(X, y)
    i, j, _, l = learner.constraints_.index.T
    assert len(np.unique(i)) == 100 and i.max() > 300
    assert np.all(y[i] == y[j]) and np.all(y[i] != y[l])


# ---------------------------------------------------------------- categorical data and other repeated points
def one_hot(seed, n=60):
    rng = np.random.default_rng(seed)
    return np.eye(5)[rng.integers(5, size=n)], rng.integers(2, size=n)


@pytest.mark.filterwarnings("ignore:.* coincide with points of another class")
@pytest.mark.parametrize("seed", range(3))
def test_one_hot_points_with_labels_that_differ(seed):
    X, y = one_hot(seed)
    for options in ({}, {"divergence": "vonneumann"}, {"strategy": "random"}):
        learner = MetricLearner(random_state=0, **options).fit(X, y)
        assert learner.result_.status == "OPTIMAL" and np.isfinite(learner.transform(X)).all()
    assert np.isfinite(KernelLearner(strategy="neighbors", random_state=0).fit(X, y).transform(X)).all()


def test_no_margin_is_nothing_where_the_nearest_impostors_are_copies():
    X, y = one_hot(0)
    with pytest.warns(UserWarning, match="60 points coincide with points of another class.*left out"):
        rows = constraints_from_labels(X, y, strategy="neighbors", random_state=0)
    i, j, _, l = rows.index.T
    assert (rows.bound < 0).all() and (X[i] != X[l]).any(axis=1).all() and (X[j] != X[l]).any(axis=1).all()


@pytest.mark.filterwarnings("ignore:.* coincide with points of another class")
@pytest.mark.parametrize("is_sparse", [False, True])
def test_many_copies_do_not_hide_the_points_that_can_be_compared(is_sparse):
    """Each point has about 60 copies of the other class, and the 10 nearest impostors are looked for."""
    X, y = one_hot(0, n=600)
    learner = MetricLearner(strategy="neighbors", random_state=0).fit(sp.csr_array(X) if is_sparse else X, y)
    assert learner.result_.status == "OPTIMAL" and learner.result_.objective > 0
    i, _, _, l = learner.constraints_.index.T
    assert len(np.unique(i)) == 600 and (X[i] != X[l]).any(axis=1).all()


def test_missing_labels_of_lists_masked_arrays_and_frames():
    assert label_codes(["a", None, float("nan"), "b", "a"]).tolist() == [0, -1, -1, 1, 0]
    assert label_codes([1, -1, 2, 1]).tolist() == [0, -1, 1, 0]
    assert label_codes(np.ma.masked_equal([5, 7, 5], 7)).tolist() == [0, -1, 0]
    assert label_codes(pd.Series([1, pd.NA, 2], dtype="Int64")).tolist() == [0, -1, 1]
    assert label_codes(pl.Series(["u", None, "v"])).tolist() == [0, -1, 1]
    assert label_codes(["-1", "1"]).tolist() == [0, 1]  # text is not a number
    assert label_codes([True, False], unlabeled=1).tolist() == [0, 1]
    assert label_codes(np.array([True, False]), unlabeled=False).tolist() == [0, -1]


@pytest.mark.parametrize("strategy", ["neighbors", "random"])
@pytest.mark.parametrize("options", [{}, {"prior": "covariance"}, {"n_components": 2}, {"slack_weight": np.inf}])
def test_identical_points_leave_the_prior_and_a_warning(strategy, options):
    X, y = np.ones((20, 3)), np.arange(20) % 2
    with pytest.warns(UserWarning, match="rows 0, 1, 2.* The prior is kept"):
        learner = MetricLearner(strategy=strategy, random_state=0, **options).fit(X, y)
    assert learner.result_.status == "OPTIMAL" and learner.result_.objective == 0.0
    if not options and strategy == "random":
        assert learner.get_mahalanobis_matrix() == pytest.approx(np.eye(3))
    with pytest.warns(UserWarning, match="The prior is kept"):
        KernelLearner(strategy=strategy, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="Only the constraints given are learned from"):
        given = Constraints.sq_distance(0, 20, 0.5, "==")
        learner = MetricLearner(strategy=strategy, prior="identity", slack_weight=np.inf)
        learner.fit(np.vstack([X, np.zeros((1, 3))]), np.append(1 + y, -1), constraints=given)
    assert learner.constraints_.n_constraints == 1
