"""RetrievalLearner: relevance, measures, passes, choice, files, wrong input."""

import json
import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import ndcg_score

import bregmat
from bregmat import ExitReason, RetrievalLearner, Status
from bregmat.base.linalg import unit_rows
from bregmat.retrieval.passes import Comparison, Corpus, Prior, RetrievalPasses, Setting, compare, inverse_moments
from bregmat.retrieval.relevance import MEASURES, as_relevance, ranking_measures

FAST = {"temperature": 0.1, "slack_weight": 10.0, "random_state": 0}


def noisy_pairs(rng, n, d=16, noise=2.5):
    """Queries are documents with noise in the last columns: a map that shrinks these ranks better."""
    D = rng.normal(size=(n, d))
    return D + rng.normal(size=(n, d)) * np.linspace(0, noise, d), D


def given_and_learned(learner, Q, D, pairs):
    """MRR of the vectors as given, by a sort of the cosines, and of the learner."""
    order = np.argsort(-(unit_rows(Q) @ unit_rows(D).T), axis=1)
    ranks = [int(np.flatnonzero(order[q] == d)[0]) for q, d in pairs]
    return float(np.mean(1.0 / (1.0 + np.array(ranks)))), learner.score(Q, D, pairs)


# ---------------------------------------------------------------- relevance and measures
def test_three_forms_of_relevance():
    pairs = np.array([[0, 1], [1, 0], [1, 2], [1, 2]])
    grades = sp.coo_array(([1.0, 1.0, 1.0], ([0, 1, 1], [1, 0, 2])), shape=(3, 3))
    for relevant in (pairs, pairs.tolist(), grades, sp.csc_matrix(grades.toarray())):
        np.testing.assert_array_equal(as_relevance(relevant, 3, 3).toarray(), grades.toarray())
    np.testing.assert_array_equal(as_relevance(None, 3, 3).toarray(), np.eye(3))


@pytest.mark.parametrize(
    ("relevant", "message"),
    [
        (None, "got 3 queries and 4 documents"),
        ([[0, 1, 2]], r"integers of shape \(m, 2\).*got shape \(1, 3\)"),
        ([[0.0, 1.0]], "got shape .* dtype float64"),
        ([[0, 1], [3, 0], [1, 1]], "3 queries and 4 documents, counted from 0; got query 3, document 0 in row 1"),
        ([[0, -1]], "got query 0, document -1 in row 0"),
        (np.empty((0, 2), dtype=int), "at least one right answer"),
        (sp.csr_array((4, 3)), r"relevant must have shape \(3, 4\).*got \(4, 3\)"),
        (sp.csr_array((3, 4)), "at least one right answer"),
        (sp.csr_array(np.diag([1.0, -1.0, 1.0], 1)[:3]), "grades of at least 0; got negative ones in row 1"),
        (sp.csr_array(np.diag([1.0, np.nan, 1.0], 1)[:3]), "relevant must be finite"),
    ],
)
def test_wrong_relevance_is_named(relevant, message, rng):
    with pytest.raises(ValueError, match=message):
        RetrievalLearner().fit(rng.normal(size=(3, 2)), rng.normal(size=(4, 2)), relevant)


def test_measures_are_those_of_a_ranking(rng):
    """Without ties: written out from a sort, and nDCG by scikit-learn."""
    Q, D = unit_rows(rng.normal(size=(20, 5))), unit_rows(rng.normal(size=(30, 5)))
    grades = sp.csr_array(np.where(rng.random((20, 30)) < 0.1, rng.integers(1, 4, (20, 30)), 0).astype(float))
    grades = grades[np.diff(grades.indptr) > 0]
    found = ranking_measures(Q[: grades.shape[0]], D, grades)
    for i, row in enumerate(grades.toarray()):
        order = np.argsort(-(D @ Q[i]))
        hits = row[order] > 0
        assert found[i, 0] == hits[:1].sum() / hits.sum()
        assert found[i, 1] == hits[:10].sum() / hits.sum()
        assert found[i, 2] == 1 / (1 + np.flatnonzero(hits)[0])
        assert found[i, 3] == pytest.approx(ndcg_score(row[None], (D @ Q[i])[None], k=10))


def test_a_map_to_zero_gains_nothing():
    """Equal scores have the middle rank: 5 of 9."""
    found = ranking_measures(np.zeros((2, 3)), np.ones((9, 3)), sp.csr_array(np.eye(2, 9)))
    np.testing.assert_allclose(found[:, MEASURES.index("MRR")], 1 / 5)


# ---------------------------------------------------------------- learning
def test_learning_ranks_new_queries_higher(rng):
    Q, D = noisy_pairs(rng, 300)
    learner = RetrievalLearner(random_state=0).fit(Q[:120], D[:120])
    assert learner.result_.status is Status.OPTIMAL and learner.result_.gap <= learner.tol
    pairs = np.column_stack([np.arange(180), np.arange(120, 300)])
    given, learned = given_and_learned(learner, Q[120:], D, pairs)
    assert learned > given + 0.05
    assert learner.report_["MRR"]["learned"] > learner.report_["MRR"]["as given"]
    assert list(learner.report_) == list(MEASURES)
    table = learner.selection_
    assert set(table) == {"candidate", "mean_score", "standard_error", "seconds", "chosen"}
    assert table["candidate"][0] == "not learned" and sum(table["chosen"]) == 1 and not table["chosen"][0]
    assert len({len(column) for column in table.values()}) == 1


def test_every_pass_is_a_certified_problem(rng):
    Q, D = noisy_pairs(rng, 80)
    learner = RetrievalLearner(n_passes=3, tol=1e-6, **FAST).fit(Q, D)
    history = learner.result_.history
    ends = [[r for r in history if r.stage == k][-1] for k in (1, 2, 3)]
    assert all(0 <= end.gap <= 1e-6 and end.dual_bound <= end.objective for end in ends)
    assert [r.iteration for r in history] == sorted(r.iteration for r in history)
    assert learner.n_iter_ == learner.result_.n_iter
    # the metric is the square of the map, and the map is symmetric
    W = learner.result_.coordinates.metric(learner.result_.iterate)
    np.testing.assert_allclose(learner.components_ @ learner.components_, W, atol=1e-10)
    np.testing.assert_allclose(learner.transform(Q), Q @ learner.components_.T)


def test_passes_lower_the_objective_with_the_true_cosines(rng):
    Q, D = noisy_pairs(rng, 60)
    setting = Setting(0.1, 30.0)
    passes = RetrievalPasses(Corpus.of(Q, D, as_relevance(None, 60, 60)), 1e-6)
    values = [passes.objective(setting, passes.W)]
    for _ in range(4):
        passes.learn(setting, 1)
        values.append(passes.objective(setting, passes.W))
    assert all(b <= a for a, b in zip(values, values[1:])) and values[-1] < 0.9 * values[0]


def test_wrong_clicks(rng):
    """A fifth of the answers is wrong, with 50 queries: never below the vectors as given."""
    for _ in range(3):
        Q, D = noisy_pairs(rng, 250)
        answers = np.arange(50)
        answers[:10] = np.roll(answers[:10], 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            learner = RetrievalLearner(random_state=0).fit(Q[:50], D, np.column_stack([np.arange(50), answers]))
        pairs = np.column_stack([np.arange(200), np.arange(50, 250)])
        given, learned = given_and_learned(learner, Q[50:], D, pairs)
        assert learned >= given


def test_nothing_is_learned_where_nothing_is_to_be_learned(rng):
    Q, D = rng.normal(size=(60, 8)), rng.normal(size=(60, 8))
    with pytest.warns(UserWarning, match="nothing is learned, and the map is the identity"):
        learner = RetrievalLearner(random_state=1).fit(Q, D)
    assert learner.temperature_ is learner.slack_weight_ is None
    assert learner.selection_["chosen"][0] and learner.result_.status is Status.OPTIMAL
    np.testing.assert_array_equal(learner.components_, np.eye(8))
    assert learner.report_["MRR"]["learned"] == learner.report_["MRR"]["as given"]


def compared(ranks, losses, first=10.0):
    """A comparison of not learning and of settings with these means, over 40 queries that differ in steps of 0.01.

    ``first`` is the weight of the first setting: a prior has the weight 0.
    """
    found, spread = Comparison(), np.linspace(-0.2, 0.2, 40)
    for k, (rank, loss) in enumerate(zip(ranks, losses)):
        found.settings.append(None if k == 0 else Setting(0.1, first if k == 1 else 10.0**k))
        found.measures.append(np.column_stack([rank + spread * (-1) ** k] * 4))
        found.losses.append(loss + spread * (-1) ** k)
        if k and found.prefers_last():
            found.best = k
    return found.best


def test_what_is_chosen():
    """Ranks and losses count, each in standard errors; where right answers are rare, only ranks do."""
    assert compared([0.5, 0.6], [2.0, 1.9]) == 1
    assert compared([0.5, 0.6, 0.6], [2.0, 1.9, 0.5]) == compared([0.5, 0.6, 0.6], [2.0, 1.9, 1.8]) == 2
    assert compared([0.5, 0.6, 0.58], [2.0, 1.9, 1.88]) == 1
    assert compared([0.5, 0.6, 0.61], [2.0, 1.9, 1.9]) == 1  # by less than a standard error
    assert compared([0.5, 0.6, 0.65], [2.0, 1.9, 1.9]) == 2
    assert compared([0.1, 0.2, 0.25], [2.0, 1.9, 0.5]) == 1  # where right answers are rare, by two standard errors
    assert compared([0.1, 0.2, 0.35], [2.0, 1.9, 1.9]) == 2
    assert compared([0.1, 0.12], [2.0, 0.5]) == 0  # known answers of many have a lower loss in any case
    assert compared([1.0, 1.0], [2.0, 1.0]) == 1  # all right answers are first: losses tell whether to learn
    assert compared([0.5, 0.4], [2.0, 2.0]) == compared([0.5, 0.5], [2.0, 2.1]) == 0
    assert compared([0.5, 0.45, 0.5], [2.0, 2.1, 2.1]) == 0


def test_priors_have_to_be_clearly_better():
    assert compared([0.5, 0.51], [2.0, 2.0]) == 1  # the most cautious setting only has to be better at all
    assert compared([0.5, 0.51], [2.0, 2.0], first=0.0) == 0
    assert compared([0.5, 0.6], [2.0, 2.0], first=0.0) == compared([0.5, 0.5], [2.0, 1.9], first=0.0) == 1
    assert compared([0.5, 0.6, 0.61, 0.62], [2.0, 2.0, 2.0, 2.0], first=0.0) == 2  # its most cautious setting, too
    assert compared([0.5, 0.6, 0.59], [2.0, 2.0, 2.0], first=0.0) == 1


def test_weights_rise_as_long_as_they_are_chosen(rng, monkeypatch):
    """The metrics of this test are numbers: the mean reciprocal rank that they lead to."""
    ranks = {(2.0, 1.0): 0.6, (2.0, 3.0): 0.7, (2.0, 10.0): 0.65, (1.0, 1.0): 0.8, (1.0, 3.0): 0.9, (0.5, 1.0): 0.85}

    def learn(self, setting, n_passes):
        self.W = np.full((1, 1), ranks[setting.temperature, setting.slack_weight])

    def measures(self, W):
        mean = W[0, 0] if W.shape == (1, 1) else 0.5
        return mean + np.random.default_rng(int(100 * mean)).normal(scale=0.1, size=(len(self.queries), 4))

    monkeypatch.setattr(RetrievalPasses, "learn", learn)
    monkeypatch.setattr(Corpus, "measures", measures)
    monkeypatch.setattr(Corpus, "losses", lambda self, W, heats: np.zeros((len(self.queries), len(heats))))
    Q, D = noisy_pairs(rng, 300)
    corpus = Corpus.of(Q, D, as_relevance(None, 300, 300))
    paths = [[Setting(2.0, weight) for weight in (1.0, 3.0, 10.0, 30.0)], [Setting(1.0, 1.0), Setting(1.0, 3.0)]]
    paths.append([Setting(0.5, 1.0), Setting(0.5, 3.0)])
    found = compare(corpus, [Prior("identity", None, paths)], 0, np.random.default_rng(0))
    assert [(s.temperature, s.slack_weight) for s in found.settings[1:]] == list(ranks)
    assert found.best == 5


def shared_directions(rng, n, noise=0.5):
    """Queries and documents that share a few directions of large variance, which say nothing about what answers what."""
    D = rng.normal(size=(n, 24))
    Q = D + noise * rng.normal(size=(n, 24))
    Q[:, :4], D[:, :4] = 2.0 * rng.normal(size=(n, 4)) + 8.0, 2.0 * rng.normal(size=(n, 4))
    return Q, D


def test_the_prior_is_chosen_before_anything_is_learned(rng):
    """It needs no answers, so that it also helps where they are few and a fifth of them is wrong."""
    Q, D = shared_directions(rng, 330)
    answers = np.arange(30)
    answers[:6] = np.roll(answers[:6], 1)
    learner = RetrievalLearner(random_state=0).fit(Q[:30], D, np.column_stack([np.arange(30), answers]))
    assert learner.prior_ == "covariance"
    assert learner.selection_["candidate"][:2] == ["not learned", "prior covariance"]
    pairs = np.column_stack([np.arange(300), np.arange(30, 330)])
    given, learned = given_and_learned(learner, Q[30:], D, pairs)
    assert learned > given + 0.2
    np.testing.assert_allclose(learner.components_, learner.components_.T, atol=1e-12)


def test_the_identity_is_the_prior_where_large_directions_tell(rng):
    """The answers differ in the large directions; the small ones, which the covariance enlarges, are noise."""
    Q = rng.normal(size=(120, 30)) * np.r_[np.full(4, 2.0), np.full(26, 0.3)]
    D = Q.copy()
    D[:, 4:] = 0.3 * rng.normal(size=(120, 26))
    learner = RetrievalLearner(random_state=0).fit(Q[:60], D, np.column_stack([np.arange(60), np.arange(60)]))
    assert learner.prior_ == "identity" and "prior covariance" in learner.selection_["candidate"]


def test_given_prior(rng):
    """The map is the root of P W P, with the learned W and the root P of the inverse moments, which is computed here once more."""
    Q, D = shared_directions(rng, 60)
    learner = RetrievalLearner(prior="covariance", **FAST).fit(Q, D)
    q, d = unit_rows(Q), unit_rows(D)
    M = (q.T @ q + d.T @ d) / 60
    M = M / M.trace() * 24 + 3.0 * (1 + 24 / 120) * np.eye(24)
    P = inverse_moments(Corpus.of(Q, D, as_relevance(None, 60, 60)))
    np.testing.assert_allclose(P @ M @ P, np.eye(24), atol=1e-10)
    W = learner.result_.coordinates.metric(learner.result_.iterate)
    np.testing.assert_allclose(learner.components_ @ learner.components_, P @ W @ P, atol=1e-10)
    assert learner.prior_ == "covariance" and learner.slack_weight_ == 10.0
    assert RetrievalLearner(**FAST).fit(Q, D).prior_ == "identity"  # a temperature is in units of the cosines as given
    assert RetrievalLearner(prior="identity", random_state=0).fit(Q, D).prior_ == "identity"


def test_given_settings_are_used(rng):
    Q, D = noisy_pairs(rng, 40)
    learner = RetrievalLearner(**FAST).fit(Q, D)
    assert (learner.temperature_, learner.slack_weight_) == (0.1, 10.0)
    assert len(learner.selection_["candidate"]) == 2 and learner.selection_["chosen"] == [False, True]
    only = RetrievalLearner(temperature=0.2, random_state=0).fit(Q, D)
    assert only.temperature_ in (None, 0.2)
    with pytest.warns(UserWarning, match="fewer than 10 queries have a right answer"):
        few = RetrievalLearner(random_state=0).fit(Q[:5], D[:5])
    assert few.selection_ == few.report_ == {} and few.result_.status is Status.OPTIMAL


def test_negatives_are_no_known_answers(rng):
    Q, D = noisy_pairs(rng, 50)
    corpus = Corpus.of(Q[:20], D, sp.csr_array(np.eye(20, 50) + np.eye(20, 50, 1)))
    group = corpus.group(10, np.random.default_rng(0))
    assert group.documents.shape == (31, 16) and (group.grades.sum(axis=0) > 0).sum() == 21
    assert corpus.group(0, np.random.default_rng(0)).documents.shape == (21, 16)
    assert corpus.group(99, np.random.default_rng(0)).documents.shape == (50, 16)
    learner = RetrievalLearner(n_negatives=10, **FAST).fit(Q[:20], D, np.column_stack([np.arange(20), np.arange(20)]))
    assert learner.result_.dual.shape == (20, 30)


def test_many_queries_are_sampled(rng, monkeypatch):
    monkeypatch.setattr("bregmat.retrieval.passes.MAX_SCORES", 900)
    Q, D = noisy_pairs(rng, 100)
    learner = RetrievalLearner(**FAST).fit(Q, D)
    assert learner.result_.dual.shape == (30, 30)


# ---------------------------------------------------------------- hard inputs
def test_copies_of_a_right_answer_are_not_wrong(rng):
    """Documents that occur three times count as one: the map is that of different documents."""
    Q, D = noisy_pairs(rng, 40)
    once = RetrievalLearner(**FAST).fit(Q, D)
    pairs = np.column_stack([np.arange(40), np.arange(40)])
    again = RetrievalLearner(**FAST).fit(Q, np.tile(D, (3, 1)), pairs)
    np.testing.assert_allclose(again.components_, once.components_, atol=1e-6)


def test_scale_of_the_rows_does_not_matter(rng):
    Q, D = noisy_pairs(rng, 40)
    once = RetrievalLearner(**FAST).fit(Q, D)
    again = RetrievalLearner(**FAST).fit(Q * rng.uniform(1e-6, 1e6, (40, 1)), D * 1e8)
    np.testing.assert_allclose(again.components_, once.components_, atol=1e-6)


def test_huge_and_tiny_rows(rng):
    """Squares of 1e200 overflow, and those of 1e-200 are 0; the map is that of the rows in other units."""
    Q, D = noisy_pairs(rng, 40)
    once = RetrievalLearner(**FAST).fit(Q, D)
    for size in (1e200, 1e-200):
        again = RetrievalLearner(**FAST).fit(size * Q, size * D)
        np.testing.assert_allclose(again.components_, once.components_, atol=1e-6)
        assert again.score(size * Q, D) == pytest.approx(once.score(Q, D), abs=1e-9)


def test_a_setting_that_is_worse_than_not_learning_is_reported(rng, monkeypatch):
    """The metrics of this test are mean reciprocal ranks: .5 as given, and less as learned."""
    monkeypatch.setattr(RetrievalPasses, "learn", lambda self, setting, n_passes: setattr(self, "W", np.zeros((1, 1))))
    Q, D = noisy_pairs(rng, 30)
    corpus, setting = Corpus.of(Q, D, as_relevance(None, 30, 30)), Setting(0.1, 10.0)
    monkeypatch.setattr(
        Corpus, "measures", lambda self, W: np.full((len(self.queries), 4), 0.4 if len(W) == 1 else 0.5)
    )
    monkeypatch.setattr(Corpus, "losses", lambda self, W, heats: np.zeros((len(self.queries), len(heats))))
    found = compare(corpus, [Prior("identity", None, [[setting]])], 0, np.random.default_rng(0))
    found.best = 1
    text = RetrievalLearner(**FAST)._warning_text(setting, found)
    assert "held-out queries rank right answers lower" in text and "MRR 0.400, as given 0.500" in text
    assert RetrievalLearner()._warning_text(setting, found) is None  # a choice may be due to losses: nothing was given


def test_a_later_list_starts_from_a_weight_that_is_not_larger(rng, monkeypatch):
    """The first setting of the second list continues from the metric of the first list with its weight, not from the chosen one."""
    starts = []

    def learn(self, setting, n_passes):
        starts.append(float(self.W[0, 0]))
        self.W = np.full((1, 1), setting.slack_weight)

    def measures(self, W):
        mean = {1.0: 0.6, 3.0: 0.7, 10.0: 0.8}.get(float(W[0, 0]), 0.5) if W.shape == (1, 1) else 0.5
        return np.full((len(self.queries), 4), mean)

    monkeypatch.setattr(RetrievalPasses, "learn", learn)
    monkeypatch.setattr(Corpus, "measures", measures)
    monkeypatch.setattr(Corpus, "losses", lambda self, W, heats: np.zeros((len(self.queries), len(heats))))
    Q, D = noisy_pairs(rng, 30)
    paths = [[Setting(2.0, weight) for weight in (1.0, 3.0, 10.0)], [Setting(1.0, 3.0)]]
    corpus = Corpus.of(Q, D, as_relevance(None, 30, 30))
    compare(corpus, [Prior("identity", None, paths)], 0, np.random.default_rng(0))
    assert starts[::3] == [1.0, 1.0, 3.0, 3.0]  # of the first fold: the identity, then each list


def hard_inputs(rng):
    Q, D = noisy_pairs(rng, 24, d=6)
    few = np.column_stack([np.arange(24), np.arange(24)])
    yield "zero vectors", Q * (np.arange(24) % 4 > 0)[:, None], D * (np.arange(24) % 5 > 0)[:, None], None
    yield "one query", Q[:1], D, few[:1]
    yield "one pair", Q[:1], D[:1], None
    yield "two queries, one document", Q[:2], D[:1], [[0, 0], [1, 0]]
    yield "equal vectors", np.ones((24, 6)), np.ones((24, 6)), None
    yield "one column", Q[:, :1], D[:, :1], None
    yield "wrong answers only", Q, np.roll(D, 1, axis=0), None
    yield "several answers", Q, D, np.concatenate([few, np.column_stack([np.arange(24), (np.arange(24) + 1) % 24])])
    yield "all answers", Q, D, sp.csr_array(np.ones((24, 24)))
    yield "grades", Q, D, sp.csr_array(3.0 * np.eye(24) + np.eye(24, k=1))
    yield "some without an answer", Q, D, few[::2]
    yield "single precision", Q.astype(np.float32), D.astype(np.float16), None


HARD = [case[0] for case in hard_inputs(np.random.default_rng(0))]


@pytest.mark.parametrize("name", HARD)
@pytest.mark.filterwarnings("ignore:(no setting ranks|fewer than 10|held-out queries rank):UserWarning")
def test_hard_inputs(name, rng):
    Q, D, relevant = next(case[1:] for case in hard_inputs(rng) if case[0] == name)
    for settings in ({}, {"temperature": 0.01, "slack_weight": 1000.0}):
        learner = RetrievalLearner(random_state=0, **settings).fit(Q, D, relevant)
        assert learner.result_.status is Status.OPTIMAL
        assert np.isfinite(learner.components_).all()
        assert 0 < learner.score(Q, D, relevant) <= 1


def test_higher_grades_count_more(rng):
    Q, D = noisy_pairs(rng, 60)
    grades = sp.csr_array(9.0 * np.eye(60) + np.eye(60, k=1))
    dual = RetrievalLearner(**FAST).fit(Q, D, grades).result_.dual
    # mu = gamma (y - P) with y = .9 for the better and .1 for the other answer
    assert np.diag(dual)[:-1].mean() > 3 * np.diag(dual, 1).mean()


# ---------------------------------------------------------------- as an estimator
def test_parameters_clone_and_display(rng):
    learner = RetrievalLearner(n_passes=2, tol=1e-3)
    assert clone(learner).get_params() == learner.get_params()
    assert "n_passes=2" in repr(learner) and "RetrievalLearner" in learner._repr_html_()
    with pytest.raises(NotFittedError):
        learner.transform(rng.normal(size=(2, 3)))
    with pytest.raises(NotFittedError):
        learner.score(rng.normal(size=(2, 3)), rng.normal(size=(2, 3)))


def test_same_seed_same_map(rng):
    Q, D = noisy_pairs(rng, 60)
    first, second = (RetrievalLearner(random_state=3).fit(Q, D) for _ in range(2))
    np.testing.assert_array_equal(first.components_, second.components_)


def test_files(rng, tmp_path):
    Q, D = noisy_pairs(rng, 40)
    learner = RetrievalLearner(random_state=0).fit(Q, D)
    bregmat.save(tmp_path / "model.bm", learner)
    loaded = bregmat.load(tmp_path / "model.bm")
    np.testing.assert_array_equal(loaded.transform(Q), learner.transform(Q))
    assert loaded.score(Q, D) == learner.score(Q, D)
    assert loaded.report_ == learner.report_ and loaded.selection_ == learner.selection_
    assert loaded.result_.gap == learner.result_.gap and len(loaded.result_.history) == len(learner.result_.history)
    assert loaded.result_.dual.size == 0  # as large as all pairs of a query and a document


def test_to_torch(rng):
    torch = pytest.importorskip("torch")
    Q, D = noisy_pairs(rng, 40)
    learner = RetrievalLearner(**FAST).fit(Q, D)
    np.testing.assert_allclose(learner.to_torch()(torch.from_numpy(Q)).detach().numpy(), learner.transform(Q))


def test_exports_of_the_guide(rng, tmp_path, monkeypatch):
    """The code of the guide, read by stand-ins for the classes of sentence-transformers and LlamaIndex."""
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    Q, D = noisy_pairs(rng, 40)
    learner = RetrievalLearner(**FAST).fit(Q, D)
    page = (Path(__file__).parents[1] / "docs" / "guide" / "embeddings.md").read_text("utf-8")
    behind, adapter = re.findall(r"^```py\n(import (?:torch|json)\n.*?)^```", page, re.M | re.S)

    class Model(list):
        def __init__(self, name="", modules=()):
            super().__init__(modules)

        def save(self, folder):
            pass

    class Dense(torch.nn.Module):
        def __init__(self, in_features, out_features, bias, activation_function):
            super().__init__()
            self.linear, self.activation = torch.nn.Linear(in_features, out_features, bias=bias), activation_function

        def forward(self, x):
            return self.activation(self.linear(x))

    modules = SimpleNamespace(Dense=Dense, Normalize=lambda: torch.nn.functional.normalize)
    monkeypatch.setitem(
        sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Model, models=modules)
    )
    monkeypatch.setitem(sys.modules, "sentence_transformers.models", modules)
    names = {"search": learner}
    exec(behind, names)
    dense, unit = names["tuned"]
    mapped = unit(dense(torch.from_numpy(Q).float())).detach().numpy()
    np.testing.assert_allclose(mapped, unit_rows(learner.transform(Q)), atol=1e-6)

    exec(adapter, names)
    config = json.loads((tmp_path / "adapter" / "config.json").read_text("utf-8"))
    assert config == {"in_features": 16, "out_features": 16, "bias": False}
    layer = torch.nn.ModuleDict({"linear": torch.nn.Linear(**config)})  # the names of LlamaIndex's LinearLayer
    layer.load_state_dict(torch.load(tmp_path / "adapter" / "pytorch_model.bin"))
    products = layer["linear"](torch.from_numpy(Q).float()).detach().numpy() @ D.T
    np.testing.assert_allclose(products, learner.transform(Q) @ learner.transform(D).T, rtol=1e-4, atol=1e-4)


def test_data_frames(rng):
    pd = pytest.importorskip("pandas")
    Q, D = noisy_pairs(rng, 40)
    columns = [f"x{k}" for k in range(16)]
    frames = pd.DataFrame(Q, columns=columns), pd.DataFrame(D, columns=columns)
    learner = RetrievalLearner(**FAST).fit(*frames)
    assert list(learner.feature_names_in_) == columns
    np.testing.assert_array_equal(learner.transform(frames[0]), Q @ learner.components_.T)
    assert learner.score(*frames) == RetrievalLearner(**FAST).fit(Q, D).score(Q, D)
    assert len(pd.DataFrame(learner.selection_)) == 2 and pd.DataFrame(learner.report_).shape == (2, 4)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"prior": "variance"}, ValueError, "prior must be one of 'auto', 'identity', 'covariance'; got 'variance'"),
        ({"prior": np.array(["auto", "identity"])}, ValueError, "prior must be one of 'auto'"),
        ({"temperature": "low"}, ValueError, "temperature must be \"auto\" or a number; got 'low'"),
        ({"temperature": 0.0}, ValueError, 'temperature must be "auto" or positive and finite'),
        ({"slack_weight": np.inf}, ValueError, 'slack_weight must be "auto" or positive and finite'),
        ({"slack_weight": None}, TypeError, 'slack_weight must be "auto" or a number; got None'),
        ({"n_negatives": -1}, ValueError, "n_negatives must be at least 0"),
        ({"n_passes": 0}, ValueError, "n_passes must be at least 1"),
        ({"tol": 0.0}, ValueError, "tol must be positive"),
        ({"random_state": "a"}, TypeError, "random_state must be"),
    ],
)
def test_wrong_parameters_are_named(parameters, error, message, rng):
    Q, D = noisy_pairs(rng, 12)
    with pytest.raises(error, match=message):
        RetrievalLearner(**parameters).fit(Q, D)


def test_wrong_points_are_named(rng):
    Q, D = noisy_pairs(rng, 40)
    bad = D.copy()
    bad[[3, 7]] = np.nan
    with pytest.raises(ValueError, match="documents must be finite; got NaN or infinity in rows 3, 7"):
        RetrievalLearner().fit(Q, bad)
    with pytest.raises(ValueError, match="queries must be finite; got NaN or infinity in rows 3, 7"):
        RetrievalLearner().fit(bad, D)
    with pytest.raises(ValueError, match=r"documents must have 16 columns, as queries in fit; got shape \(40, 15\)"):
        RetrievalLearner().fit(Q, D[:, 1:])
    learner = RetrievalLearner(**FAST).fit(Q, D)
    with pytest.raises(ValueError, match=r"queries must have 16 columns"):
        learner.score(Q[:, 1:], D)
    with pytest.raises(ValueError, match="queries must be finite"):
        learner.fit(bad, D)
    assert not hasattr(learner, "result_")  # a failed fit leaves nothing


# ---------------------------------------------------------------- limits, callbacks, interrupts
def test_limits_and_callback(rng, capsys):
    Q, D = noisy_pairs(rng, 40)
    with pytest.warns(ConvergenceWarning, match="stopped by MAX_ITER"):
        RetrievalLearner(max_iter=1, tol=1e-9, **FAST).fit(Q, D)
    records = []
    learner = RetrievalLearner(callback=records.append, verbose=1, **FAST).fit(Q, D)
    assert records == learner.result_.history
    printed = capsys.readouterr().out
    assert "MRR" in printed and "not learned" in printed and "pass 2, iteration" in printed
    stopped = RetrievalLearner(callback=lambda record: record.stage == 2, **FAST).fit(Q, D)
    assert stopped.result_.exit_reason is ExitReason.INTERRUPTED and stopped.result_.history[-1].stage == 2


def interrupting(at):
    def callback(record):
        if record.stage == at:
            raise KeyboardInterrupt

    return callback


def test_interrupt_keeps_a_certified_map(rng):
    Q, D = noisy_pairs(rng, 40)
    learner = RetrievalLearner(callback=interrupting(2), **FAST)
    with pytest.warns(RuntimeWarning, match="RetrievalLearner was interrupted after"), pytest.raises(KeyboardInterrupt):
        learner.fit(Q, D)
    assert learner.result_.exit_reason is ExitReason.INTERRUPTED and np.isfinite(learner.result_.gap)
    assert learner.transform(Q).shape == Q.shape


def test_interrupt_in_the_choice_leaves_nothing(rng, monkeypatch):
    def interrupt(self, W):
        raise KeyboardInterrupt

    monkeypatch.setattr(Corpus, "measures", interrupt)
    Q, D = noisy_pairs(rng, 40)
    learner = RetrievalLearner(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        learner.fit(Q, D)
    assert not hasattr(learner, "result_")
