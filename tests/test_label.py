"""`bregmat label` without its page: answers, journal, metric, map, questions, files to take away."""

import csv
import io
import json
import runpy
import struct
import sys
import types
import zlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

import bregmat
from bregmat.io import read_constraints, write_points
from bregmat_app.cli.labelling import _open, read_label_points
from bregmat_app.cli.options import ColumnOptions, PageOptions
from bregmat_app.label import clusters
from bregmat_app.label.answers import ENTAILED_WEIGHT, MOST_ENTAILED, MOST_POINTS, Answers, rows_of
from bregmat_app.label.clusters import agreement, find_clusters
from bregmat_app.label.groups import MOST_CLASSES, Links
from bregmat_app.label.journal import Journal
from bregmat_app.label.learning import LabelSettings, Learning, plane
from bregmat_app.label.points import LARGE, SMALL, LabelPoints, pictures_in, text_features
from bregmat_app.label.questions import next_question
from bregmat_app.label.safety import AccessControl
from bregmat_app.label.session import DOWNLOADS, Session, exported

X, Y = load_wine(return_X_y=True)


def wine_points(**more):
    names = [f"wine {i}" for i in range(len(X))]
    return LabelPoints("wine", X, [f"f{k}" for k in range(X.shape[1])], names, **more)


def said(*events, n=178):
    answers = Answers(n)
    for event in events:
        answers.apply(answers.check(event))
    return answers


def same(i, j):
    return {"kind": "same", "points": [i, j]}


def different(i, *others):
    return {"kind": "different", "points": [i, *others]}


def tell(session, *events):
    """Give answers and learn once."""
    for event in events:
        session.say(event)
    return session.learn()


def answered(question, y):
    """The true answer to a question."""
    members = [group[0] for group in question.groups]
    right = [i for i in members if y[i] == y[question.point]]
    return same(question.point, right[0]) if right else different(question.point, *members)


@pytest.mark.parametrize(("is_embedding", "prior"), [(True, "identity"), (False, "variance")])
def test_columns_of_points_of_one_length_are_not_scaled(is_embedding, prior, tmp_path, rng):
    Z = rng.normal(size=(20, 3)) * [1.0, 2.0, 3.0]
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    np.save(tmp_path / "points.npy", (Z / lengths if is_embedding else Z).astype(np.float32))
    session, listening = _open(tmp_path / "points.npy", ColumnOptions(), PageOptions())
    listening.close()
    session.close()
    assert session.state.learned.space.name == prior


# ---------------------------------------------------------------- answers
def test_undo_and_redo_without_end(rng):
    """Against the definition: what counts are the events that were not undone."""
    answers, kept, undone = Answers(50), [], []
    for _ in range(300):
        choice = rng.random()
        if choice < 0.4 and kept:
            answers.apply(answers.check({"kind": "undo"}))
            undone.append(kept.pop())
        elif choice < 0.6 and undone:
            answers.apply(answers.check({"kind": "redo"}))
            kept.append(undone.pop())
        else:
            points = rng.choice(50, 2, replace=False).tolist()
            answers.apply(answers.check(same(*points)))
            kept.append(tuple(points))
            undone.clear()
        assert [a.points for a in answers.active()] == kept
    while answers.done:
        answers.apply(answers.check({"kind": "undo"}))
    assert answers.active() == []
    with pytest.raises(ValueError, match="nothing to undo"):
        answers.check({"kind": "undo"})


def test_an_answer_can_be_dropped():
    answers = said(same(0, 1), different(2, 3), {"kind": "drop", "answer": 2})
    assert [left.number for left in answers.active()] == [1]
    with pytest.raises(ValueError, match="no answer 2"):
        answers.check({"kind": "drop", "answer": 2})


@pytest.mark.parametrize(
    "event",
    [
        *(None, [], "same", {}, {"kind": 3}, {"kind": "same"}, {"kind": "same", "points": [1]}, {"kind": "eval", "points": [1, 2]}),
        *(same(1, 1), same(-1, 2), same(0, len(X)), same(0, True), same(0, 1.0), same(0, "1"), {"kind": "closer", "points": [1, 2]}),
        {"kind": "group", "points": list(range(MOST_POINTS + 1))},
        {"kind": "different", "points": list(range(MOST_CLASSES + 2))},
        *({"kind": "name", "points": [1], "name": name} for name in ("", "  ", "a" * 61, "a\nb", "\x00", 5, None)),
        *({"kind": "drop", "answer": number} for number in (None, "1", 1.0, True, 10**30)),
    ],
)  # fmt: skip
def test_what_is_no_answer(event):
    with pytest.raises(ValueError):
        said().check(event)


def test_rows_and_the_answers_they_rest_on():
    answers = said(same(0, 1), same(1, 2), different(2, 3), {"kind": "closer", "points": [5, 6, 7]})
    rows = rows_of(answers.active(), 1.0, 9.0)
    found = {key: set(numbers) for key, numbers in zip(rows.keys, rows.answers)}
    assert found == {
        (0, 0, 1): {1},
        (0, 1, 2): {2},
        (0, 0, 2): {1, 2},  # 0 and 2 follow
        (1, 2, 3): {3},
        (1, 1, 3): {2, 3},
        (1, 0, 3): {1, 2, 3},
        (2, 5, 6, 7): {4},
    }
    sense = dict(zip(rows.keys, rows.constraints.sense.tolist()))
    assert [sense[0, 0, 2], sense[1, 0, 3], sense[2, 5, 6, 7]] == [1, -1, 1]
    assert rows.constraints.weight.tolist() == [
        1.0 if len(numbers) == 1 else ENTAILED_WEIGHT for numbers in rows.answers
    ]
    assert rows.constraints.bound.tolist() == [{0: 1.0, 1: 9.0, 2: -1.0}[key[0]] for key in rows.keys]


def test_a_point_of_one_of_several_groups_differs_from_the_others():
    """The answer to a question: the same as a member of its group; from the others it differs without a further answer."""
    answers = said(different(0, 10), different(20, 0, 10), same(30, 10))
    assert [a.sentence(range(40)) for a in answers.active()][1:] == ["20 differs from 0, 10", "30 and 10 are the same"]
    rows = rows_of(answers.active(), 1.0, 9.0)
    assert {key: set(numbers) for key, numbers in zip(rows.keys, rows.answers)} == {
        (1, 0, 10): {1},
        (1, 0, 20): {2},
        (1, 10, 20): {2},
        (0, 10, 30): {3},
        (1, 0, 30): {1, 3},
        (1, 20, 30): {2, 3},
    }
    groups = Links(answers.active()).groups()
    assert [(one.key, sorted(groups.members[one.group])) for one in groups.all_apart()] == [
        (1, [0]),
        (2, [10, 30]),
        (3, [20]),
    ]


def test_named_classes_are_apart():
    name = lambda points, word: {"kind": "name", "points": points, "name": word}  # noqa: E731
    answers = said(name([0, 1], "red"), name([2], "white"), name([1], "white"))
    rows = rows_of(answers.active(), 1.0, 9.0)
    assert {key: set(numbers) for key, numbers in zip(rows.keys, rows.answers)} == {
        (0, 1, 2): {2, 3},
        (1, 0, 2): {1, 2},
        (1, 0, 1): {1, 3},  # the last name of 1 holds
    }


def test_a_class_may_begin_with_its_name():
    answers = said(
        different(0, 60), {**different(100, 0, 60), "name": "white"}, {"kind": "name", "points": [101], "name": "white"}
    )
    groups = Links(answers.active()).groups()
    assert [(one.key, one.name, groups.members[one.group]) for one in groups.all_apart()] == [
        (1, "", [0]),
        (2, "", [60]),
        (3, "white", [100, 101]),
    ]
    assert answers.active()[1].sentence(range(200)) == "100 differs from 0, 60, named 'white'"
    with pytest.raises(ValueError, match="the name of a class"):
        answers.check({**different(1, 2), "name": ""})


def test_entailed_rows_are_bounded_and_stay():
    first = rows_of(said({"kind": "group", "points": list(range(60))}).active(), 1.0, 9.0)
    more = rows_of(said({"kind": "group", "points": list(range(61))}).active(), 1.0, 9.0)
    assert len(first.keys) == 59 + MOST_ENTAILED
    assert len(set(first.keys) & set(more.keys)) > 0.9 * len(first.keys)


# ---------------------------------------------------------------- metric and map
def test_the_metric_is_that_of_the_learner():
    learning = Learning(X, LabelSettings())
    rows = rows_of(
        said(same(0, 1), different(0, 100), same(100, 101)).active(), learning.start.near, learning.start.far
    )
    learned = learning.learn(rows)
    learner = bregmat.MetricLearner(prior="variance", loss="squared_hinge", slack_weight=10.0).fit(
        X, constraints=rows.constraints
    )
    assert learned.result.status == "OPTIMAL"
    assert np.array_equal(learned.result.metric(), learner.result_.metric())
    warm = learning.learn(rows, learned)
    assert warm.result.n_iter <= 1 and warm.result.status == "OPTIMAL"
    assert np.abs(warm.result.metric() - learned.result.metric()).max() < 1e-3 * np.abs(learned.result.metric()).max()


def test_contradictions_are_those_of_the_answers():
    """Whatever the features: the same and different at once, and comparisons in a circle."""

    def found(*events):
        return Links(said(*events).active()).contradictions()

    def closer(*points):
        return {"kind": "closer", "points": list(points)}

    chain = [same(0, 1), same(70, 71), same(1, 2), different(0, 2), different(70, 140)]
    assert found(*chain) == [[1, 3, 4]]
    assert found(*chain, {"kind": "drop", "answer": 3}) == []
    assert found(*chain, {"kind": "drop", "answer": 4}) == []
    assert found(*chain, different(70, 71)) == [[2, 6], [1, 3, 4]]
    assert found(closer(0, 1, 2), closer(0, 2, 3), closer(0, 1, 3)) == []
    assert found(closer(0, 1, 2), closer(0, 2, 3), closer(5, 6, 7), closer(3, 0, 1)) == []
    assert found(closer(0, 1, 2), closer(2, 0, 1), closer(1, 2, 0), closer(5, 6, 7)) == [[1, 2, 3]]
    assert found(closer(0, 1, 2), closer(5, 6, 7), closer(0, 2, 1)) == [[1, 3]]
    assert found(closer(0, 1, 2), closer(0, 2, 3), closer(5, 6, 7), closer(0, 3, 1)) == [[1, 2, 4]]


def test_true_answers_that_no_metric_meets_do_not_contradict_each_other():
    """Classes in turns along a line: no multiple of the one feature meets the hard bounds, and no answer is wrong."""
    line = np.linspace(0, 1, 40)[:, None]
    y = np.arange(40) // 5 % 2
    events = [same(0, 10), same(5, 15), different(0, 5), same(20, 30), different(12, 7), same(11, 31)]
    assert all((e["kind"] == "same") == (y[e["points"][0]] == y[e["points"][1]]) for e in events)
    answers = said(*events, n=40).active()
    learning = Learning(line, LabelSettings())
    learned = learning.learn(rows_of(answers, learning.start.near, learning.start.far))
    assert Links(answers).contradictions() == []
    proof = learning.unmeetable(learned, set())
    assert len(proof) > 1
    # by hand: the metric is a number w > 0, and the bounds of these answers are an empty interval
    near, far, sq = learning.start.near, learning.start.far, lambda i, j: (line[i, 0] - line[j, 0]) ** 2
    pairs = [e["points"] for e in events]
    upper = min(near / sq(*pairs[k - 1]) for k in proof if events[k - 1]["kind"] == "same")
    lower = max(far / sq(*pairs[k - 1]) for k in proof if events[k - 1]["kind"] == "different")
    assert lower > upper


@pytest.mark.parametrize("event", [different(0, 1), {"kind": "closer", "points": [6, 0, 1]}])
def test_points_with_equal_features_cannot_be_told_apart(event, rng):
    X = rng.normal(size=(30, 3))
    X[1] = X[0]
    learning = Learning(X, LabelSettings())
    answers = said(same(2, 3), event, different(4, 5), n=30).active()
    learned = learning.learn(rows_of(answers, learning.start.near, learning.start.far))
    assert learning.unmeetable(learned, set()) == [2]
    assert learning.unmeetable(learned, {2}) == learning.unmeetable(learned, {1, 2, 3}) == []
    assert Links(answers).contradictions() == []


def test_a_value_in_the_rounding_of_the_points_proves_nothing(rng):
    X = rng.normal(size=(30, 3))
    X[1] = X[0] * (1 + 1e-15)
    learning = Learning(X, LabelSettings())
    answers = said(same(2, 3), different(0, 1), n=30).active()
    learned = learning.learn(rows_of(answers, learning.start.near, learning.start.far))
    assert not (X[1] == X[0]).all() and learning.unmeetable(learned, set()) == []


def test_map_is_that_of_the_points_turned_to_the_one_before(rng):
    from scipy.linalg import orthogonal_procrustes

    points = rng.normal(size=(200, 6)) * [3, 2, 1, 1, 1, 1]
    covariance = np.cov(points, rowvar=False, bias=True)
    learned, before = rng.normal(size=(6, 6)), rng.normal(size=(6, 2))
    A = plane(covariance, learned, before)
    centred = points - points.mean(axis=0)
    U, s, _ = np.linalg.svd(centred @ learned, full_matrices=False)
    scores = U[:, :2] * s[:2]
    R = orthogonal_procrustes(scores, centred @ before)[0]
    np.testing.assert_allclose(centred @ A, scores @ R, atol=1e-9)
    np.testing.assert_allclose(plane(covariance, learned, A), A, atol=1e-9)  # nothing changed: nothing moves


def test_features_that_gain():
    learning = Learning(X, LabelSettings())
    rows = rows_of(said(*(different(i, i + 65) for i in range(40))).active(), learning.start.near, learning.start.far)
    learned = learning.learn(rows)
    gains = learning.gains(learned)
    W, first = learned.result.metric(), learning.start.scale**2
    np.testing.assert_allclose(gains, np.log2(np.diag(W) / first), rtol=1e-6, atol=1e-9)
    assert gains.max() > 0.1


def test_as_many_clusters_as_groups_that_are_apart(rng):
    centres = np.array([[0, 0], [10, 0], [0, 10]])
    truth = np.repeat([0, 1, 2], 30)
    points = centres[truth] + rng.normal(size=(90, 2))
    groups = Links(said(different(0, 30), different(60, 0, 30), same(1, 60)).active()).groups()
    found = find_clusters(points, points, groups).key
    assert len(set(zip(truth, found))) == 4 and found[1] == found[60] != found[0]  # as answered, even where it is odd
    assert np.bincount(found).tolist() == [0, 29, 30, 31]  # keys count from 1
    for answers in ([], said(same(0, 1)).active()):  # nothing tells points apart
        none = find_clusters(points, points, Links(answers).groups())
        assert not none.key.any() and not none.is_clear.any()


def test_clusters_follow_neighbours(rng):
    """Two rings: no centre belongs to one of them, so k-means would cut both."""
    angle = rng.uniform(0, 2 * np.pi, 400)
    truth = np.arange(400) % 2
    points = (1 + 2 * truth)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    rings = [{"kind": "group", "points": list(range(ring, 40, 2))} for ring in (0, 1)]
    groups = Links(said(different(0, 1), *rings, n=400).active()).groups()
    assert len(set(zip(truth, find_clusters(points, points, groups).key))) == 2


def test_a_point_far_from_all_others_gets_the_label_of_its_neighbours(rng):
    Z = np.concatenate([1e-3 * rng.normal(size=(40, 2)), [1.0, 0.0] + 1e-3 * rng.normal(size=(40, 2)), [[1e6, 0.0]]])
    groups = Links(said(same(0, 1), same(40, 41), different(0, 40), n=81).active()).groups()
    found = find_clusters(Z, Z, groups).key
    assert len({*found[:40]}) == len({*found[40:]}) == 1 and found[0] != found[80]


def test_clusters_of_points_that_coincide():
    """All nearest neighbours of a point are its copies, at distance 0."""
    truth = np.repeat([0, 1], 50)
    points = np.column_stack([truth, truth]) * 3.0
    groups = Links(said(different(0, 99)).active()).groups()
    with np.errstate(all="raise"):
        assert len(set(zip(truth, find_clusters(points, points, groups).key))) == 2


def test_clusters_of_more_points_than_are_linked(rng, monkeypatch):
    monkeypatch.setattr("bregmat_app.label.clusters.MOST_LINKED", 50)
    truth = rng.integers(0, 2, 1000)
    points = rng.normal(size=(1000, 2)) + 10 * truth[:, None]
    i, j = np.flatnonzero(truth == 0)[-1], np.flatnonzero(truth == 1)[-1]
    groups = Links(said(different(int(i), int(j)), n=1000).active()).groups()
    assert len(set(zip(truth, find_clusters(points, points, groups).key))) == 2


def test_agreement_with_known_labels():
    labels = ["" if k % 10 == 0 else f"kind {k}" for k in Y]  # a third of the points has no label
    assert agreement(Y, labels) == {"accuracy": 1.0, "nmi": pytest.approx(1.0)}
    shuffled = np.where(np.arange(len(Y)) % 2, Y, 0)
    known = np.flatnonzero(Y)
    right = sum(np.bincount(Y[known][shuffled[known] == c]).max(initial=0) for c in set(shuffled[known]))
    assert agreement(shuffled, labels)["accuracy"] == right / len(known)
    assert agreement(Y, ["one"] * len(X)) is None


# ---------------------------------------------------------------- questions
def question_after(*events, skipped=(), n=178, seed=0):
    answers = said(*events, n=n).active()
    learning = Learning(X[:n], LabelSettings())
    learned = learning.learn(rows_of(answers, learning.start.near, learning.start.far))
    groups = Links(answers).groups()
    return next_question(
        learning.X @ learned.map, learning.start.first, groups, np.random.default_rng(seed), set(skipped)
    ), groups


def test_the_first_question_is_about_two_points():
    question, _ = question_after(skipped=range(176))
    assert {question.point, *question.groups[0]} == {176, 177} and len(question.groups) == 1
    assert question_after(skipped=range(177))[0] is None


def test_a_question_offers_all_groups_that_are_apart_and_the_nearest_is_the_guess():
    question, groups = question_after(different(0, 100), same(0, 1), different(150, 0, 100), same(2, 0), same(3, 1))
    assert question.point not in groups.of
    assert [groups.of[group[0]] for group in question.groups] == [one.group for one in groups.all_apart()]
    assert [one.key for one in question.classes] == [1, 2, 3]
    assert sorted(len(group) for group in question.groups) == [1, 1, 3]  # at most three members are shown
    learning = Learning(X, LabelSettings())
    answers = said(different(0, 100), same(0, 1), different(150, 0, 100), same(2, 0), same(3, 1)).active()
    Z = learning.X @ learning.learn(rows_of(answers, learning.start.near, learning.start.far)).map
    nearest = min(groups.of, key=lambda i: ((Z[i] - Z[question.point]) ** 2).sum())
    assert question.groups[question.guess][0] == nearest


def test_a_point_that_was_begun_is_asked_about_until_it_has_its_group():
    """150 differs from the group of 0; that of 100 is left. Nothing else is asked before, unless it is skipped."""
    events = [different(0, 100), same(0, 1), different(0, 150)]
    question, _ = question_after(*events)
    assert (question.point, question.groups) == (150, [[100]]) or (question.point, question.groups) == (100, [[150]])
    begun = question.point
    for answer in (same(100, 150), different(100, 150)):  # of that group, or the first of a third
        assert question_after(*events, answer)[0].point not in {0, 1, 100, 150}
    assert question_after(*events, skipped=[begun])[0].point not in {0, 1, 100, 150}


def test_all_classes_are_offered_in_the_order_of_their_keys():
    first = [different(k, *range(k)) for k in range(1, 15)]
    question, groups = question_after(*first)
    assert [one.key for one in question.classes] == list(range(1, 16)) == [one.key for one in groups.all_apart()]
    assert [group[0] for group in question.groups] == [groups.members[one.group][0] for one in question.classes]


def test_questions_place_points_in_their_classes_until_none_is_left(rng):
    learning, answers = Learning(X, LabelSettings()), Answers(len(X))
    mapped, count = learning.X @ learning.learn(None).map, 0
    while (question := next_question(mapped, mapped, Links(answers.active()).groups(), rng)) is not None:
        answers.apply(answers.check(answered(question, Y)))
        count += 1
    groups = Links(answers.active()).groups()
    assert sorted(sorted(groups.members[one.group]) for one in groups.all_apart()) == [
        np.flatnonzero(k == Y).tolist() for k in range(3)
    ]
    assert count == len(X) - 1  # one answer a point


def test_thirty_answers_find_the_classes(rng):
    learning, answers = Learning(X, LabelSettings()), Answers(len(X))
    learned = learning.learn(None)
    for _ in range(30):
        question = next_question(learning.X @ learned.map, learning.start.first, Links(answers.active()).groups(), rng)
        answers.apply(answers.check(answered(question, Y)))
        learned = learning.learn(rows_of(answers.active(), learning.start.near, learning.start.far), learned)
    found = find_clusters(learning.X @ learned.map, learning.start.first, Links(answers.active()).groups()).key
    assert agreement(found, [str(k) for k in Y])["nmi"] > 0.8


def two_groups(size):
    """The first points of each of two groups, which are known to be different."""
    kinds = [{"kind": "group", "points": list(range(k, 2 * size, 2))} for k in (0, 1)]
    return Links(said(*kinds, different(0, 1), n=400).active()).groups()


def test_with_many_answers_clusters_follow_the_prior(rng):
    truth = np.arange(400) % 2
    first = rng.normal(size=(400, 2)) + 8 * truth[:, None]
    mapped = rng.normal(size=(400, 2))  # a metric that does not tell the groups apart
    few, many = (find_clusters(mapped, first, two_groups(size)).key for size in (9, 10))
    assert len(set(zip(truth, few))) > 2 and len(set(zip(truth, many))) == 2


def test_with_many_answers_the_least_certain_of_all_points_is_asked_about(rng):
    first = rng.normal(size=(400, 2)) + 20 * (np.arange(400) % 2)[:, None]
    first[333] = 10.0  # halfway between the groups
    asked = lambda size, seed: next_question(first, first, two_groups(size), np.random.default_rng(seed)).point  # noqa: E731
    assert {asked(10, seed) for seed in range(5)} == {333}
    assert {asked(9, seed) for seed in range(5)} != {333}
    assert next_question(first, first, two_groups(10), rng, {333}).point != 333


def test_scores_are_of_the_width_with_the_smallest_leave_one_out_residuals(rng):
    first = rng.normal(size=(60, 3))
    chosen = [list(range(12)), list(range(12, 30)), list(range(30, 45))]
    Y = np.repeat(np.eye(3), [12, 18, 15], axis=0)
    sq = ((first[:, None] - first) ** 2).sum(axis=-1)
    median = np.median(sq[:45, :45])

    def regressed(width, rows, at):
        K = np.exp(-sq / (width * median))
        A = np.linalg.solve(K[np.ix_(rows, rows)] + clusters.RIDGE * np.eye(len(rows)), Y[rows] - Y.mean(axis=0))
        return K[np.ix_(at, rows)] @ A + Y.mean(axis=0)

    def left_out(width):
        each = [regressed(width, np.delete(np.arange(45), i), [i])[0] - Y[i] for i in range(45)]
        return (np.array(each) ** 2).sum()

    expected = regressed(min(clusters.WIDTHS, key=left_out), np.arange(45), np.arange(45, 60))
    np.testing.assert_allclose(clusters.scores(first, chosen, np.arange(45, 60)), expected, atol=1e-10)


def test_scores_of_more_points_than_are_regressed_on(rng, monkeypatch):
    monkeypatch.setattr(clusters, "MOST_ANSWERED", 30)
    first = rng.normal(size=(400, 2)) + 8 * (np.arange(400) % 2)[:, None]
    found = clusters.scores(first, [list(range(0, 100, 2)), list(range(1, 100, 2))], np.arange(400)).argmax(axis=1)
    assert (found == np.arange(400) % 2).all()


# ---------------------------------------------------------------- journal and session
def test_journal_survives_and_is_only_of_its_points(tmp_path):
    path = tmp_path / "j.jsonl"
    session = Session(wine_points(), LabelSettings(), path)
    tell(session, same(0, 1), different(0, 100), same(2, 3), {"kind": "undo"})
    with pytest.raises(ValueError, match="has this journal open"):
        Session(wine_points(), LabelSettings(), path, resume=True)
    before = session.state.learned.result.metric()
    session.close()
    with path.open("ab") as handle:
        handle.write(b'{"kind":"same","poi')  # what a killed process may leave
    again = Session(wine_points(), LabelSettings(), path, resume=True)
    assert [a.points for a in again.state.answers] == [(0, 1), (0, 100)]
    # within the gap
    np.testing.assert_allclose(again.state.learned.result.metric(), before, rtol=0, atol=1e-2 * np.abs(before).max())
    again.say({"kind": "redo"})
    again.close()
    assert [json.loads(line).get("kind") for line in path.read_text().splitlines()][1:] == [
        *("same", "different", "same", "undo", "redo")
    ]
    with pytest.raises(ValueError, match="exists"):
        Session(wine_points(), LabelSettings(), path)
    with pytest.raises(ValueError, match="no journal"):
        Session(wine_points(), LabelSettings(), tmp_path / "none", resume=True)
    with pytest.raises(ValueError, match="slack_weight"):
        Session(wine_points(), LabelSettings(slack_weight=3.0), path, resume=True)
    moved = LabelPoints("wine", X + 1, ["f"] * X.shape[1], ["n"] * len(X))
    with pytest.raises(ValueError, match="other points"):
        Session(moved, LabelSettings(), path, resume=True)


def test_a_journal_without_answers_is_begun_anew(tmp_path):
    """Who looks at the page and leaves it can start again; a file that is no journal is never emptied."""
    path = tmp_path / "j.jsonl"
    Session(wine_points(), LabelSettings(slack_weight=3.0), path).close()
    again = Session(wine_points(), LabelSettings(), path)  # with other settings, too
    with pytest.raises(ValueError, match="another bregmat label has this journal open"):
        Session(wine_points(), LabelSettings(), path)
    again.say(same(0, 1))
    again.close()
    with pytest.raises(ValueError, match="exists; continue it with --resume"):
        Session(wine_points(), LabelSettings(), path)
    resumed = Session(wine_points(), LabelSettings(), path, resume=True)
    assert len(resumed.answers.active()) == 1
    resumed.close()
    for text in ("", "my notes\n", '{"format": "other"}\n'):
        path.write_text(text)
        with pytest.raises(ValueError, match="exists"):
            Session(wine_points(), LabelSettings(), path)
        assert path.read_text() == text


def test_the_next_question_knows_the_answer_before_it_is_learned(tmp_path):
    session = Session(wine_points(classes=[str(k) for k in Y]), LabelSettings(), tmp_path / "j.jsonl")
    first = session.question()
    point, other = first["point"], first["classes"][0]["members"][0]
    session.say({"kind": "name", "points": [other], "name": "red"})
    session.say(different(point, other))
    second = session.question()
    assert session.state.answers == [] and session.state.version != session.version  # not learned yet
    assert second["point"] not in (point, other)
    assert [(one["members"], one["picture"], one["size"], one["name"]) for one in second["classes"]] == [
        ([other], other, 1, "red"),
        ([point], point, 1, ""),
    ]
    session.skip(second["point"])
    assert session.question()["point"] != second["point"]
    for bad in (-1, len(X), True, "1", None, [1]):
        with pytest.raises(ValueError, match="a point is a number"):
            session.skip(bad)
    assert len(session.learn().answers) == 2 and session.state.version == session.version
    session.close()


def test_pictures_and_texts_are_large_enough_to_judge(tmp_path, rng):
    from PIL import Image

    Image.fromarray(rng.integers(0, 255, (900, 1800), dtype=np.uint8)).save(tmp_path / "a.png")
    grey, text = rng.uniform(size=(len(X), 8, 8)), "A sentence. " * 1000
    for given, small, large in ((grey, (128, 128), (640, 640)), ([tmp_path / "a.png"] * len(X), (128, 64), (640, 320))):
        points = wine_points(pictures=given, texts=[text] * len(X))
        for size, shape in ((SMALL, small), (LARGE, large)):
            with Image.open(io.BytesIO(points.picture(0, size))) as image:
                assert image.size == shape
        assert points.text(0) == text


def test_an_answer_within_ten_percent_is_nearly_met(tmp_path):
    session = Session(wine_points(), LabelSettings(), tmp_path / "j.jsonl")
    state = tell(session, *(different(i, i + 65) for i in range(25)), *(same(i, i + 1) for i in range(0, 50, 2)))
    shown = session.shown(state)["answers"]
    assert {answer["met"] for answer in shown} == {"yes", "nearly", "no"}
    assert session.details(state, session.clusters(state))["contradictions"] == []
    assert set(session.unmeetable(state)) <= {answer["number"] for answer in shown}
    for answer in shown:
        violation = answer["violation"]
        assert answer["met"] == ("yes" if violation <= 1e-3 else "nearly" if violation <= 0.1 else "no")
    session.close()


def test_an_answer_that_cannot_be_kept_is_not_taken(tmp_path, monkeypatch):
    """A full disk: the person is told, and journal and session are as before."""
    path = tmp_path / "j.jsonl"
    session = Session(wine_points(), LabelSettings(), path)
    session.say(same(0, 1))
    before = path.read_bytes()
    with monkeypatch.context() as patch:

        def full(_):
            raise OSError(28, "No space left on device")

        patch.setattr("bregmat_app.label.journal.os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            session.say(different(2, 3))
    assert path.read_bytes() == before and len(session.answers.active()) == 1
    session.say(different(4, 5))
    session.close()
    again = Session(wine_points(), LabelSettings(), path, resume=True)
    assert [a.points for a in again.state.answers] == [(0, 1), (4, 5)]
    again.close()


@pytest.mark.parametrize("text", ["", "{}\n", "not json\n", '{"format": "other"}\n', "[" * 100_000 + "\n"])
def test_what_is_no_journal(text, tmp_path):
    path = tmp_path / "j.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match="j.jsonl"):
        Journal(path, {"points": "x"}, resume=True)
    assert path.read_text() == text


def test_a_damaged_answer_is_named_by_its_line(tmp_path):
    path = tmp_path / "j.jsonl"
    session = Session(wine_points(), LabelSettings(), path)
    session.say(same(0, 1))
    session.close()
    with path.open("ab") as handle:
        handle.write(b'{"kind":"same","points":[0,99999]}\n')
    with pytest.raises(ValueError, match="line 3: points must be"):
        Session(wine_points(), LabelSettings(), path, resume=True)


def test_points_are_taken_in_as_learn_takes_them(tmp_path, capsys):
    """Columns, gaps, encodings, decimal commas; the Python code to download reads the same."""
    from bregmat_app.cli.labelling import _read
    from bregmat_app.cli.options import ColumnOptions, PageOptions

    path = tmp_path / "ugly.csv"
    rows = [
        "Straße;höhe;breite;nr;art",
        "a;1,5;2;11;rot",
        "b;NA;3;12;blau",
        "c;2,5;4;13;rot",
        "d;3,5;;14;blau",
        "e;4,5;9;15;rot",
    ]
    path.write_text("\n".join(rows), encoding="latin-1")
    for missing, names, X in (
        ("drop", ["0", "2", "4"], [[1.5, 2.0], [2.5, 4.0], [4.5, 9.0]]),
        ("median", list("01234"), [[1.5, 2.0], [3.0, 3.0], [2.5, 4.0], [3.5, 3.5], [4.5, 9.0]]),
    ):
        columns = ColumnOptions(labels="art", columns=["höhe,breite"], missing=missing, encoding="latin-1")
        points = read_label_points(path, columns, PageOptions(text="Straße", port=8000))
        assert list(points.names) == names and points.X.tolist() == X and points.features == ("höhe", "breite")
        assert "missing cells in höhe (1), breite (1)" in capsys.readouterr().err
        assert points.sample_id is None or points.sample_id.tolist() == [0, 2, 4]  # rows of the file
        assert_read_again(points)
    with pytest.raises(ValueError, match="cannot be a feature"):
        _read(path, ColumnOptions(labels="art", columns=["art"], encoding="latin-1"), PageOptions())
    with pytest.raises(ValueError, match="'höhe' are not classes, and points are coloured by classes"):
        _read(path, ColumnOptions(labels="höhe", missing="drop", encoding="latin-1"), PageOptions())


def test_rows_without_texts_and_pictures_are_shown(tmp_path, capsys):
    """The question shows something to judge by: the cells of the row, without its name and its label."""
    from bregmat_app.cli.labelling import _read
    from bregmat_app.cli.options import ColumnOptions, PageOptions

    path = tmp_path / "homes.csv"
    path.write_text(
        "id,area,price,zip,heating,kind\nh1,127.6,1234567,10115,oil,house\nh2,60,99,10117,gas,flat\nh3,30.5,1e20,10115,gas,studio\n"
    )
    points = _read(path, ColumnOptions(labels="kind"), PageOptions())
    assert points.texts == [
        "heating: oil\nzip: 10115\narea: 127.6\nprice: 1234567",
        "heating: gas\nzip: 10117\narea: 60\nprice: 99",
        "heating: gas\nzip: 10115\narea: 30.5\nprice: 1e+20",
    ]
    said = capsys.readouterr().err
    assert "not used: heating (not numeric)" in said and "--categorical" not in said  # which the page does not have
    assert _read(path, ColumnOptions(), PageOptions(text="kind")).texts == ["house", "flat", "studio"]


def test_a_class_keeps_its_key_and_its_picture(tmp_path):
    """While the others grow, merge, are taken back and get names; after --resume, too."""
    journal = tmp_path / "j.jsonl"
    session = Session(wine_points(), LabelSettings(), journal)

    def classes():
        return {
            one["key"]: (one["first"][0], one["name"])
            for one in session.cluster_list(session.state, session.clusters(session.state))
        }

    tell(session, different(0, 60), different(150, 0, 60), different(100, 0, 60, 150))
    start = {1: (0, ""), 2: (60, ""), 3: (150, ""), 4: (100, "")}
    assert classes() == start
    # the last becomes the largest; the order of the first answers of each point changes
    tell(
        session,
        {"kind": "group", "points": [101, 102, 103, 100, 104]},
        same(61, 60),
        {"kind": "name", "points": [151, 150], "name": "red"},
    )
    assert classes() == start | {3: (150, "red")}
    tell(session, same(60, 0))  # two classes were one
    assert classes() == {1: (0, ""), 3: (150, "red"), 4: (100, "")}
    tell(session, {"kind": "undo"})
    assert classes() == start | {3: (150, "red")}
    tell(session, different(20, 0, 60, 150, 100))
    assert classes() == start | {3: (150, "red"), 5: (20, "")}
    found = session.question()
    assert [one["picture"] for one in found["classes"]] == [0, 60, 150, 100, 20]
    session.close()
    again = Session(wine_points(), LabelSettings(), journal, resume=True)
    assert [one["picture"] for one in again.question()["classes"]] == [0, 60, 150, 100, 20]
    assert again.about()["n_resumed"] == 7
    again.close()


def test_names_of_classes_given_at_the_start_are_choices_without_points(tmp_path):
    session = Session(wine_points(), LabelSettings(), tmp_path / "j.jsonl", classes=["red", "white"])
    first = session.question()
    assert [(one["key"], one["name"], one["size"]) for one in first["classes"]] == [(1, "red", 0), (2, "white", 0)]
    assert first["guess"] is None
    state = tell(
        session, {"kind": "name", "points": [100], "name": "white"}, {"kind": "name", "points": [0], "name": "red"}
    )
    assert [(one.key, one.name) for one in state.groups.all_apart()] == [(1, "red"), (2, "white")]
    state = tell(session, different(170, 0, 100), same(171, 170))
    assert [(one.key, one.name) for one in state.groups.all_apart()] == [(1, "red"), (2, "white"), (3, "")]
    assert {label["label"] for label in session.labels(state)} == {"red", "white", "group 3"}
    session.close()
    for names in (["a", "a"], [str(k) for k in range(MOST_CLASSES + 1)]):
        with pytest.raises(ValueError, match="--classes takes at most 30 different names"):
            Session(wine_points(), LabelSettings(), tmp_path / "other.jsonl", classes=names)


def test_labels_say_what_was_given_and_what_is_inferred(tmp_path):
    session = Session(wine_points(), LabelSettings(), tmp_path / "j.jsonl")
    with pytest.raises(ValueError, match="two classes at least are needed"):
        exported(session, session.state, "labels.csv")
    by_class = [np.flatnonzero(k == Y)[::6].tolist() for k in range(3)]
    state = tell(
        session,
        *({"kind": "group", "points": points} for points in by_class),
        different(*(points[0] for points in by_class)),
        different(by_class[1][0], by_class[2][0]),
        {"kind": "name", "points": by_class[1][:1], "name": '=b, "c"'},
    )
    rows = list(csv.DictReader(io.StringIO(exported(session, state, "labels.csv").decode(), newline="")))
    assert json.loads(exported(session, state, "labels.json")) == [
        row | {"clear": row["clear"] == "True"} for row in rows
    ]
    assert [row["id"] for row in rows] == [f"wine {i}" for i in range(len(X))]
    names = {0: "group 1", 1: '=b, "c"', 2: "group 3"}
    told = sorted(sum(by_class, []))
    assert [i for i, row in enumerate(rows) if row["source"] == "given"] == told
    assert all(rows[i]["label"] == names[Y[i]] and rows[i]["clear"] == "True" for i in told)
    assert {row["source"] for row in rows} == {"given", "inferred"}
    others = np.setdiff1d(np.arange(len(X)), told)
    right = np.array([rows[i]["label"] == names[Y[i]] for i in others])
    clear = np.array([rows[i]["clear"] == "True" for i in others])
    assert right.mean() > 0.9 and right[clear].mean() > right[~clear].mean() and 0 < clear.sum() < len(others)
    session.close()


def test_progress_says_what_the_last_answers_changed(tmp_path):
    """Against the labels as they were: the metric of now, and the answers but the last ten."""
    session = Session(wine_points(), LabelSettings(), tmp_path / "j.jsonl")
    state = tell(session, different(0, 60), different(150, 0, 60))
    progress = session.progress(state, session.clusters(state))
    assert progress["changed"] is None and not progress["is_enough"] and 0 < progress["decided"] <= 1
    for k in range(60):
        question = session.question()
        members = [one["members"][0] for one in question["classes"]]
        session.say(same(question["point"], next(i for i in members if Y[i] == Y[question["point"]])))
        state = session.learn()
        progress = session.progress(state, session.clusters(state))
        if k == 8:
            before = find_clusters(X @ state.learned.map, state.learned.space.first, Links(state.answers[:1]).groups())
            assert progress["changed"] == np.mean(before.key != session.clusters(state).key) > 0.1
            assert not progress["is_enough"]
    assert progress["is_enough"] and progress["changed"] <= 0.01 and progress["decided"] > 0.8
    # a class has just begun: go on
    free = next(i for i in range(len(X)) if i not in state.groups.of)
    state = tell(session, different(free, *(state.groups.members[one.group][0] for one in state.groups.all_apart())))
    assert not session.progress(state, session.clusters(state))["is_enough"]
    session.close()


def test_the_prior_is_chosen_by_held_out_answers(tmp_path, rng):
    """Classes differ in one column of small scale: columns are scaled. With noise in another of small scale: they are not."""
    y = np.arange(200) % 2
    small = np.column_stack([50 * rng.normal(size=200), y + 0.1 * rng.normal(size=200)])
    large = np.column_stack([10 * y + rng.normal(size=200), *0.1 * rng.normal(size=(30, 200))])
    for points, start, expected in ((small, "identity", "variance"), (large, "variance", "identity")):
        learning = Learning(points, LabelSettings(), start)
        few, many = (
            Links(
                said(
                    *({"kind": "group", "points": list(range(k, n, 2))} for k in (0, 1)), different(0, 1), n=200
                ).active()
            ).groups()
            for n in (8, 40)
        )
        assert learning.chosen(few) is learning.start
        assert learning.chosen(many).name == expected
        assert Learning(points, LabelSettings(prior=start)).chosen(many).name == start


def test_cells_that_were_filled_are_marked(tmp_path):
    from bregmat_app.cli.labelling import _read

    path = tmp_path / "homes.csv"
    path.write_text("id,area,rooms\nh1,127.6,4\nh2,,2\nh3,30.5,\nh4,50,2\n")
    points = _read(path, ColumnOptions(missing="median"), PageOptions())
    assert points.texts == [
        "area: 127.6\nrooms: 4",
        "area: missing (the median 50 is used)\nrooms: 2",
        "area: 30.5\nrooms: missing (the median 2 is used)",
        "area: 50\nrooms: 2",
    ]


# ---------------------------------------------------------------- texts and pictures without numbers
TOPICS = {
    "weather": "rain wind storm cloud sun snow fog thunder frost breeze",
    "music": "violin piano concert melody drum guitar choir orchestra rhythm song",
    "kitchen": "soup oven bread butter pepper onion recipe pan flour spoon",
}
COMMON = "the a today we very often there some people about old new little again many"


def sentences(n, rng):
    """Sentences of one topic each, mostly of words that all share, and their topics."""
    y = rng.integers(0, len(TOPICS), n)
    words = [topic.split() for topic in TOPICS.values()]
    chosen = [[*rng.choice(COMMON.split(), 7), *rng.choice(words[k], 4)] for k in y.tolist()]
    return [" ".join(rng.permutation(some)) for some in chosen], y


def nearest_share(points, y):
    """How often the nearest other point has the same class."""
    sq = ((points[:, None] - points) ** 2).sum(axis=-1)
    np.fill_diagonal(sq, np.inf)
    return np.mean(y[sq.argmin(axis=1)] == y)


@pytest.fixture
def no_sentence_model(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)


@pytest.mark.usefixtures("no_sentence_model")
def test_texts_without_numbers_get_features(tmp_path, rng, capsys, monkeypatch):
    texts, y = sentences(150, rng)
    path = tmp_path / "texts.csv"
    path.write_text("id,text,year\n" + "".join(f"t{k},{text},1999\n" for k, text in enumerate(texts)))
    with pytest.raises(ValueError, match=r"no feature is left.*--text COLUMN or --images FOLDER makes features"):
        _open(path, ColumnOptions(), PageOptions())
    session, listening = _open(path, ColumnOptions(), PageOptions(text="text"))
    listening.close()
    points = session.points
    said = " ".join(capsys.readouterr().err.split())
    assert f"features ({points.X.shape[1]}): {points.made}" in said and points.made.startswith("TF-IDF of ")
    assert "truncated SVD" in points.made and session.about()["made"] == points.made
    assert nearest_share(points.X, y) > 0.9
    np.testing.assert_allclose((points.X**2).sum(axis=1), 1)
    assert session.learning.start.name == "identity" and points.texts == texts
    session.say(different(0, int(np.flatnonzero(y != y[0])[0])))
    state = session.learn()
    for name in ("constraints.csv", "model.bm", "learn.py"):
        (tmp_path / name).write_bytes(exported(session, state, name))
    session.close()
    # the script reads the texts again and makes the same features
    monkeypatch.chdir(tmp_path)
    spoken = runpy.run_path("learn.py")
    assert np.array_equal(spoken["points"].X, points.X)
    learner = bregmat.load(tmp_path / "model.bm")
    assert np.array_equal(spoken["learner"].get_mahalanobis_matrix(), learner.get_mahalanobis_matrix())


def test_a_sentence_model_is_used_if_one_is_installed(monkeypatch):
    class Model:
        def __init__(self, name, local_files_only, device):
            assert local_files_only  # nothing is downloaded

        def encode(self, texts, normalize_embeddings):
            assert normalize_embeddings
            return np.eye(len(texts), 3, dtype=np.float32)

    monkeypatch.setitem(sys.modules, "sentence_transformers", types.SimpleNamespace(SentenceTransformer=Model))
    found = text_features(["a", "b", "c"])
    assert found.made == "sentence model all-MiniLM-L6-v2" and np.array_equal(found.X, np.eye(3))
    monkeypatch.setattr(Model, "__init__", lambda self, *given, **more: (_ for _ in ()).throw(OSError("no such files")))
    assert text_features(["one sun", "two suns", "one moon"]).made.startswith("TF-IDF")


@pytest.mark.usefixtures("no_sentence_model")
def test_texts_that_share_no_words_are_refused():
    for texts in (["", "", ""], ["same same", "same same", "same same"]):
        with pytest.raises(ValueError, match="no words in common to tell them apart by"):
            text_features(texts)


@pytest.mark.parametrize("is_grey", [True, False])
def test_a_folder_of_pictures_gets_features(is_grey, tmp_path, rng):
    from PIL import Image

    folder = tmp_path / "pictures"
    folder.mkdir()
    y = np.arange(30) % 2
    for k in range(30):
        pixels = rng.integers(0, 60, (20, 30, 3), dtype=np.uint8)
        pixels[:, :15] += np.uint8(150 * y[k])  # the left half is bright
        Image.fromarray(pixels.mean(axis=2).astype(np.uint8) if is_grey else pixels).save(folder / f"{k:02d}.png")
    session, listening = _open(None, ColumnOptions(), PageOptions(images=folder))
    listening.close()
    points = session.points
    assert points.made == f"{'grey' if is_grey else 'colour'} thumbnails of 16 x 16 pixels, PCA to 29 components"
    assert points.names[:2] == ["00.png", "01.png"] and session.journal.path == tmp_path / "pictures.label.jsonl"
    assert nearest_share(points.X, y) == 1 and points.picture(0) is not None
    assert points.sample_id.tolist() == points.names
    assert_read_again(points)
    session.close()
    # a table that names the pictures; the other order of rows is that of the points
    table = tmp_path / "table.csv"
    table.write_text("file,kind\n" + "".join(f"{k:02d}.png,{'ab'[y[k]]}\n" for k in range(29, -1, -1)))
    session, listening = _open(table, ColumnOptions(labels="kind"), PageOptions(images=folder))
    listening.close()
    session.close()
    assert nearest_share(session.points.X, y[::-1]) == 1 and session.points.classes[:2] == ["b", "a"]
    assert_read_again(session.points)
    (folder / "00.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"00\.png: not a picture that can be read"):
        _open(None, ColumnOptions(), PageOptions(images=folder))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no picture"):
        _open(None, ColumnOptions(), PageOptions(images=tmp_path / "empty"))


# ---------------------------------------------------------------- taking away
def assert_read_again(points):
    """The Python code to download reads the same points."""
    spoken: dict = {}
    exec(points.source, spoken)
    again = spoken["points"]
    assert np.array_equal(again.X, points.X) and list(again.names) == list(points.names)
    assert again.digest == points.digest and again.classes == points.classes


def test_the_code_to_download_reads_the_demo_again():
    assert_read_again(read_label_points(None, ColumnOptions(), PageOptions()))


@pytest.mark.parametrize("ids", ["words", "numbers", None])
@pytest.mark.usefixtures("unrendered")
def test_what_is_taken_away_repeats_the_matrix(ids, tmp_path, monkeypatch):
    sample_id = {"words": np.array([f"w,{i}" for i in range(len(X))]), "numbers": np.arange(len(X)) + 7, None: None}[
        ids
    ]
    columns = None if sample_id is None else {"id": sample_id}
    write_points(tmp_path / "points.csv", X, names=[f"f{k}" for k in range(13)], columns=columns)
    monkeypatch.chdir(tmp_path)
    points = read_label_points(Path("points.csv"), ColumnOptions(), PageOptions())
    session = Session(points, LabelSettings(), tmp_path / "j.jsonl")
    with pytest.raises(ValueError, match="there are no answers yet"):
        exported(session, session.state, "model.bm")
    tell(session, same(0, 1), same(1, 2), different(2, 100), {"kind": "closer", "points": [3, 4, 150]})
    for name in DOWNLOADS:
        (tmp_path / name).write_bytes(exported(session, session.state, name))
    session.close()
    learner = bregmat.load(tmp_path / "model.bm")
    again = bregmat.MetricLearner(**{name: getattr(learner, name) for name in ("prior", "slack_weight", "loss", "tol")})
    kind = str if ids == "words" else int
    again.fit(X, constraints=read_constraints(tmp_path / "constraints.csv", id_type=kind), sample_id=sample_id)
    assert np.array_equal(again.get_mahalanobis_matrix(), learner.get_mahalanobis_matrix())
    by_script = runpy.run_path("learn.py")["learner"]
    assert np.array_equal(by_script.get_mahalanobis_matrix(), learner.get_mahalanobis_matrix())
    assert "4 answers on points.csv" in (tmp_path / "report.html").read_text()
    shown = session.state.learned.result.metric()
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), shown, rtol=0, atol=1e-2 * np.abs(shown).max())


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("side", [8_000, 30_000])
def test_a_picture_that_is_too_large_is_refused_by_name(side, tmp_path):
    """Also beyond the size from which Pillow itself raises an error of its own."""
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(d)) + name + d + struct.pack(">I", zlib.crc32(name + d)) for name, d in parts]
    path = tmp_path / "large.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    with pytest.raises(ValueError, match=r"large\.png: a picture of more than 50,000,000 pixels is not shown"):
        wine_points(pictures=[path] * len(X)).picture(0)


def test_pictures_stay_in_their_folder(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"no picture")
    (tmp_path / "secret.png").write_bytes(b"secret")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (found,) = pictures_in(folder, ["a"])
    assert found == (folder / "a.png").resolve()
    for name in ("../secret.png", "link.png", str(tmp_path / "secret.png")):
        with pytest.raises(ValueError, match="outside"):
            pictures_in(folder, [name])
    with pytest.raises(ValueError, match="no picture"):
        pictures_in(folder, ["b"])
    assert wine_points(pictures=[found] * len(X)).picture(0) is None


# ---------------------------------------------------------------- access control
def test_who_is_let_in():
    announced = []
    access = AccessControl(8000, announced.append)
    ours = {"host": "127.0.0.1:8000"}
    assert access.refusal(ours) == access.refusal({"host": "localhost:8000", "origin": "http://localhost:8000"}) == ""
    for host in ("evil.example:8000", "127.0.0.1", "127.0.0.1:8001", "127.0.0.1.nip.io:8000", ""):
        assert access.refusal({"host": host})
    for origin in (
        "null",
        "http://evil.example",
        "http://127.0.0.1:8001",
        "https://127.0.0.1:8000",
        "http://127.0.0.1:8000.evil.example",
    ):
        assert access.refusal({**ours, "origin": origin})
    assert access.refusal(ours, needs_origin=True)
    token = access.token
    way = f"/{access.key}/"
    assert (
        not access.is_known(ours, way)
        and access.admit("") is None
        and access.admit(token[:-1]) is None
        and announced == []
    )
    cookie = access.admit(token)
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and f"Path={way}" in cookie
    assert cookie.startswith("bregmat-label-8000=")
    sent = cookie.split(";")[0]
    for path in (way, f"{way}pictures/3", way[:-1]):
        assert access.is_known({**ours, "cookie": sent}, path)
    for path in ("/", "", f"/{access.key[:-1]}/", f"/x{way}", "/tab"):
        assert not access.is_known({**ours, "cookie": sent}, path)
    for wrong in (sent[:-1], "\x00=;=;", sent.replace("8000", "8001")):
        assert not access.is_known({**ours, "cookie": wrong}, way)
    assert access.admit(token) is None and announced == [access.token] and access.token != token  # once only
