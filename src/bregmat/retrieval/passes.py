"""Learning a metric of cosines by convex passes, and the choice of its settings on held-out queries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.applications.softmax import PairScores, SoftmaxResult, cosine_metric, cosine_scores, softmax_metric
from bregmat.base.linalg import blocks, unit_rows
from bregmat.base.threads import is_interrupted
from bregmat.engine.status import ExitReason, Record
from bregmat.retrieval.relevance import CHUNK, MEASURES, ranking_measures

MAX_SCORES = 4_000_000  # scores of queries and documents in one problem; more queries are sampled
MAX_COMPARED = 600  # queries on which settings are compared
MIN_COMPARED = 10  # queries from which on settings are compared
FOLDS = 3
ROUGH = 1e-2  # relative gap of the problems of the comparison: their scores differ by less than their standard errors
FEW_STEPS = 4  # Newton steps of a pass of the comparison: later ones hardly change the ranks
MAX_POOL = 5000  # documents beside the right answers among which compared queries look for them
# Added to the eigenvalues of the second moments, in units of their mean. Without it, the inverse would enlarge directions with small
# eigenvalues, which are mostly noise.
RIDGE = 3.0
# Temperatures for each prior, in standard deviations of the cosines, and the slack weights that are tried with each. With the prior
# "identity", ranks depend little on the weight at the temperature 0.5. If the map has to differ much from the identity, the temperature 1
# and a large weight are better.
GRID: dict[str, dict[float, tuple[float, ...]]] = {
    "identity": {0.5: (30.0, 300.0), 1.0: (300.0,)},
    "covariance": {1.0: (30.0, 100.0, 300.0)},
}
WEIGHTS = (10.0, 30.0, 100.0, 300.0)  # for a temperature that is given
HEATS = np.geomspace(0.2, 2.0, 8)  # temperatures at which the likelihood is measured, in the same units
NOT_LEARNED = "not learned"
# Gain of a less cautious candidate, in standard errors of paired differences, from which on it is chosen; and the gain where right answers
# are rare among the first documents as given: where the mean reciprocal rank is that low, the first ones may be right answers, too
CLEAR, CLEAR_IF_RARE, RARE = 1.0, 2.0, 0.2


@dataclass(frozen=True)
class Setting:
    """A temperature, in units of the cosine, and a slack weight; with the weight 0 the metric is the prior."""

    temperature: float
    slack_weight: float
    prior: str = "identity"

    def __str__(self) -> str:
        text = f"temperature {self.temperature:.3g}, slack_weight {self.slack_weight:g}" if self.slack_weight else ""
        return text if self.prior == "identity" else f"prior {self.prior}" + (f", {text}" if text else "")


@dataclass(frozen=True, eq=False)
class Corpus:
    """Queries (n, d) and documents (m, d), rows of length 1 or 0, and the grades (n, m) of the right answers."""

    queries: np.ndarray
    documents: np.ndarray
    grades: sp.csr_array

    @classmethod
    def of(cls, queries: np.ndarray, documents: np.ndarray, grades: sp.csr_array) -> Corpus:
        """Queries that have an answer, and different documents: copies of a right answer are not wrong."""
        queries, documents = unit_rows(queries), unit_rows(documents)
        answered = np.flatnonzero(np.diff(grades.indptr))
        documents, copy = np.unique(documents, axis=0, return_inverse=True)
        merge = sp.csr_array((np.ones(len(copy)), (np.arange(len(copy)), copy.ravel())))
        return cls(queries[answered], documents, sp.csr_array(grades[answered] @ merge))

    def mapped(self, root: np.ndarray | None) -> Corpus:
        """Queries and documents after a linear map (d, d), again of length 1 or 0; None is the identity."""
        if root is None:
            return self
        return replace(self, queries=unit_rows(self.queries @ root), documents=unit_rows(self.documents @ root))

    def part(self, rows: np.ndarray) -> Corpus:
        """Some of the queries, with all documents."""
        return replace(self, queries=self.queries[rows], grades=self.grades[rows])

    def group(self, n_negatives: int, rng: np.random.Generator) -> Corpus:
        """The queries and documents of one problem: all documents that are relevant to a query, and some of the rest.

        Half of the ``n_negatives`` are those with the largest cosine to a query; the other half is drawn.
        """
        n = len(self.queries)
        used = np.flatnonzero(self.grades.sum(axis=0))
        if n * (len(used) + n_negatives) > MAX_SCORES:
            share = np.sqrt(MAX_SCORES / (n * (len(used) + n_negatives)))
            some = self.part(np.sort(rng.choice(n, max(2, int(share * n)), replace=False)))
            used = np.flatnonzero(some.grades.sum(axis=0))
        else:
            some = self
        rest = np.setdiff1d(np.arange(len(self.documents)), used)
        n_negatives = min(n_negatives, len(rest))
        if n_negatives:
            largest = np.full(len(rest), -np.inf)
            for part in blocks(len(rest), len(some.queries), CHUNK):
                largest[part] = (self.documents[rest[part]] @ some.queries.T).max(axis=1)
            mined = np.argsort(-largest, kind="stable")
            near, far = mined[: n_negatives // 2], mined[n_negatives // 2 :]
            chosen = np.concatenate([near, rng.choice(far, n_negatives - len(near), replace=False)])
            used = np.sort(np.concatenate([used, rest[chosen]]))
        return replace(some, documents=self.documents[used], grades=sp.csr_array(some.grades[:, used]))

    def measures(self, W: np.ndarray) -> np.ndarray:
        """The measures of each query by the cosine in the metric W; shape (n, 4)."""
        root = root_of(W)
        return ranking_measures(unit_rows(self.queries @ root), unit_rows(self.documents @ root), self.grades)

    @property
    def targets(self) -> np.ndarray:
        """The grades of each query as a distribution, shape (n, m)."""
        shares: np.ndarray = (self.grades / np.asarray(self.grades.sum(axis=1)).reshape(-1, 1)).toarray()
        return shares

    def losses(self, W: np.ndarray, temperatures: Sequence[float] | np.ndarray) -> np.ndarray:
        """The mean of -log softmax over the right answers of each query, with the cosines in the metric W; shape (n, k)."""
        S = cosine_scores(self.queries, self.documents, W)
        own, top = (self.targets * S).sum(axis=1), S.max(axis=1)
        S -= top[:, None]
        columns = [np.log(np.exp(S / heat).sum(axis=1)) + (top - own) / heat for heat in temperatures]
        return np.column_stack(columns)


@dataclass(eq=False)
class RetrievalPasses:
    """Convex problems one after the other, each with the cosines linearised at the solution of the one before.

    Attributes
    ----------
    corpus : Corpus
    tol, max_iter : float, int or None
        Of each pass.
    callback : callable or None
        Called with each record.
    W : ndarray, shape (d, d)
        The metric so far, at first the identity.
    result : SoftmaxResult or None
        Of the last passes that lowered the objective with the true cosines.
    """

    corpus: Corpus
    tol: float
    max_iter: int | None = None
    callback: Callable[[Record], Any] | None = None
    W: np.ndarray = field(init=False)
    result: SoftmaxResult | None = None

    def __post_init__(self) -> None:
        self.W, self.targets = np.eye(self.corpus.queries.shape[1]), self.corpus.targets

    def learn(self, setting: Setting, n_passes: int) -> None:
        """Up to ``n_passes`` further passes."""
        result = cosine_metric(
            self.corpus.queries,
            self.corpus.documents,
            self.targets,
            n_passes=n_passes,
            start=self.W,
            temperature=setting.temperature,
            weights=setting.slack_weight / (setting.temperature * len(self.targets)),
            tol=self.tol,
            max_iter=self.max_iter,
            callback=self.callback,
        )
        W = result.coordinates.metric(result.iterate)
        is_better = self.objective(setting, W) < self.objective(setting, self.W)
        if self.result is None or is_better or result.exit_reason is ExitReason.INTERRUPTED:
            self.result = result
        if is_better:
            self.W = W

    def objective(self, setting: Setting, W: np.ndarray) -> float:
        """``1/2 |W - I|^2 + slack_weight * mean_i -log softmax`` with the true cosines."""
        loss = float(self.corpus.losses(W, [setting.temperature]).mean())
        return 0.5 * float(((W - np.eye(len(W))) ** 2).sum()) + setting.slack_weight * loss


# ---------------------------------------------------------------------- the choice
@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out queries by their rows and with all documents, and the passes that learn from the other queries."""

    held: np.ndarray
    test: Corpus
    passes: RetrievalPasses


@dataclass(eq=False)
class Comparison:
    """Candidates with the measures (n, 4) of the held-out queries, their losses and CPU seconds; the first one is not learning.

    Attributes
    ----------
    settings : list of Setting or None
        None for not learning.
    measures : list of ndarray, shape (n, 4)
    losses : list of ndarray, shape (n,)
        At the best of several temperatures: only the order of the cosines matters.
    seconds : list of float
    best : int
        The candidate that is chosen so far.
    """

    settings: list[Setting | None] = field(default_factory=list)
    measures: list[np.ndarray] = field(default_factory=list)
    losses: list[np.ndarray] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    best: int = 0

    def add(self, setting: Setting | None, folds: list[HeldOut]) -> None:
        """Measure a setting on the held-out queries of each fold."""
        n_passes = 1 if any(self.is_learned(k) for k in range(len(self.settings))) else 2
        start, parts = time.process_time(), []
        for fold in folds:
            if setting is not None and setting.slack_weight:
                fold.passes.learn(setting, n_passes)
            if is_interrupted():
                raise KeyboardInterrupt
            heats = cosine_unit(fold.test) * HEATS
            parts.append((fold.test.measures(fold.passes.W), fold.test.losses(fold.passes.W, heats)))
        order = np.argsort(np.concatenate([fold.held for fold in folds]))
        measures, losses = (np.concatenate(part)[order] for part in zip(*parts))
        self.settings.append(setting)
        self.measures.append(measures)
        self.losses.append(losses[:, losses.mean(axis=0).argmin()])
        self.seconds.append(time.process_time() - start)

    @property
    def names(self) -> list[str]:
        """Names of the candidates."""
        return [NOT_LEARNED if setting is None else str(setting) for setting in self.settings]

    def ranks(self, k: int) -> np.ndarray:
        """Reciprocal ranks (n,) of candidate k."""
        return self.measures[k][:, MEASURES.index("MRR")]

    def prefers_last(self) -> bool:
        """Whether the last candidate is better than the one chosen so far.

        Reciprocal ranks and losses count, each in standard errors of the paired differences: the losses vary less from query to query, and
        where documents are few, most right answers are first in any case. The most cautious setting only has to be better at all, a less
        cautious one by a standard error. Where right answers are rare among the first documents, only ranks count, and every candidate has
        to be better by two standard errors. Many right answers are then unknown, and a metric may move them away while the known ones come
        closer.
        """
        last = len(self.settings) - 1
        gain = _standard_errors(self.ranks(last) - self.ranks(self.best))
        if self.ranks(0).mean() < RARE:
            return gain > CLEAR_IF_RARE
        gain += _standard_errors(self.losses[self.best] - self.losses[last])
        is_first = [k for k in range(last + 1) if self.is_learned(k)] == [last]
        return gain > (0.0 if is_first else CLEAR)

    def is_learned(self, k: int) -> bool:
        """Whether candidate k is learned from answers, rather than a prior."""
        setting = self.settings[k]
        return setting is not None and setting.slack_weight > 0

    def table(self) -> dict[str, list[Any]]:
        """Columns of ``selection_``."""
        ranks = np.array([self.ranks(k) for k in range(len(self.names))])
        return {
            "candidate": self.names,
            "mean_score": ranks.mean(axis=1).tolist(),
            "standard_error": (ranks.std(axis=1, ddof=1) / np.sqrt(ranks.shape[1])).tolist(),
            "seconds": list(self.seconds),
            "chosen": [k == self.best for k in range(len(self.names))],
        }

    def report(self) -> dict[str, dict[str, float]]:
        """``report_``: the mean of each measure as given and learned."""
        means = np.mean(self.measures, axis=1)
        return {
            name: {"as given": float(means[0, k]), "learned": float(means[self.best, k])}
            for k, name in enumerate(MEASURES)
        }


def cosine_unit(corpus: Corpus) -> float:
    """The standard deviation of the cosines of queries and documents; 1 if they are all equal."""
    return float((corpus.queries[:1000] @ corpus.documents[:1000].T).std()) or 1.0


@dataclass(frozen=True, eq=False)
class Prior:
    """A prior metric ``root root'``, whose root is None for the identity, and the lists of settings that start from it."""

    name: str
    root: np.ndarray | None
    settings: list[list[Setting]]


def priors(corpus: Corpus, prior: str, temperature: Any, slack_weight: Any) -> list[Prior]:
    """The priors to compare, each with one list of settings for each temperature, in the order of their weights.

    A parameter that is given, not "auto", has that one value in all settings.

    Parameters
    ----------
    corpus : Corpus
    prior, temperature, slack_weight
        As in :class:`RetrievalLearner`.
    """
    if prior == "auto":
        names = ["identity", "covariance"] if temperature == "auto" else ["identity"]
    else:
        names = [prior]
    compared = []
    for name in names:
        root = None if name == "identity" else inverse_moments(corpus)
        unit = cosine_unit(corpus.mapped(root))
        grid = {factor * unit: weights for factor, weights in GRID[name].items()}
        if temperature != "auto":
            grid = {float(temperature): WEIGHTS}
        if slack_weight != "auto":
            grid = {heat: (float(slack_weight),) for heat in grid}
        settings = [[Setting(heat, weight, name) for weight in weights] for heat, weights in grid.items()]
        compared.append(Prior(name, root, settings))
    return compared


def inverse_moments(corpus: Corpus) -> np.ndarray:
    """The root (d, d) of the inverse second moments of queries and documents, in equal shares, with a ridge.

    Vectors of a model share a few directions of large moments, among them their mean, which say little about what answers what. Moments of
    few rows are inexact. The ridge therefore grows with the number of columns divided by the number of rows.
    """
    Q, D = corpus.queries, corpus.documents
    t, U = np.linalg.eigh(Q.T @ Q / len(Q) + D.T @ D / len(D))
    t = np.maximum(t, 0.0) / (t.mean() or 1.0) + RIDGE * (1.0 + len(t) / (len(Q) + len(D)))
    return (U / np.sqrt(t)) @ U.T


def compare(
    corpus: Corpus,
    priors: list[Prior],
    n_negatives: int,
    rng: np.random.Generator,
    progress: Callable[[str], Any] | None = None,
) -> Comparison:
    """Measure not learning and settings on queries that are held out in turn, and choose one of them.

    First, the prior "covariance" without learning is compared with the vectors as given. Then the settings of the better one are tried, or
    those of the only prior. A list is left at the first setting that is not chosen. In a fold, a setting continues from the metric of the
    last one before it whose weight is not larger, which is about what its passes lead to. A metric of a larger weight would be a bad
    start: it maps some rows to short ones, whose cosines have large derivatives.

    Parameters
    ----------
    corpus : Corpus
        At most ``MAX_COMPARED`` queries and about ``MAX_POOL`` documents of it take part.
    priors : list of Prior
        With the settings of each, from the most to the least cautious one.
    n_negatives : int
        As in :class:`RetrievalLearner`.
    rng : Generator
    progress : callable, optional
        Called with a line of text for each candidate.
    """
    corpus = corpus.part(rng.permutation(len(corpus.queries))[:MAX_COMPARED]).group(MAX_POOL, rng)
    comparison = Comparison()
    folds = _folds(corpus, n_negatives, rng)

    def measure(setting: Setting | None) -> bool:
        """Add a candidate; returns whether it is the best one so far."""
        comparison.add(setting, folds)
        if progress is not None:
            progress(f"MRR {comparison.ranks(-1).mean():.3f} {comparison.names[-1]}")
        if len(comparison.settings) > 1 and comparison.prefers_last():
            comparison.best = len(comparison.settings) - 1
            return True
        return False

    measure(None)
    settings, given = priors[0].settings, folds
    for prior in priors:
        if prior.root is None:
            continue
        folds = _folds(corpus.mapped(prior.root), n_negatives, rng)
        if measure(Setting(0.0, 0.0, prior.name)) or len(priors) == 1:
            settings = prior.settings
        else:
            folds = given
    metrics = [[fold.passes.W for fold in folds]] * len(comparison.settings)  # of each candidate
    for path in settings:
        for setting in path:
            is_start = [one is None or one.slack_weight <= setting.slack_weight for one in comparison.settings]
            for fold, W in zip(folds, metrics[np.flatnonzero(is_start)[-1]]):
                fold.passes.W = W
            is_better = measure(setting)
            metrics.append([fold.passes.W for fold in folds])
            if not is_better:
                break
    return comparison


def _standard_errors(gains: np.ndarray) -> float:
    """The mean of paired differences (n,) in standard errors; 0 if all are 0."""
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    return float(gains.mean() / error) if error > 0 else 0.0


def _folds(corpus: Corpus, n_negatives: int, rng: np.random.Generator) -> list[HeldOut]:
    """Each part of the queries held out, with the passes that learn from the others."""
    folds, n = [], len(corpus.queries)
    for k in range(FOLDS):
        is_held = np.arange(n) % FOLDS == k
        rest = corpus.part(np.flatnonzero(~is_held)).group(n_negatives, rng)
        held = np.flatnonzero(is_held)
        folds.append(HeldOut(held, corpus.part(held), RetrievalPasses(rest, ROUGH, FEW_STEPS)))
    return folds


def unlearned(d: int, tol: float) -> SoftmaxResult:
    """The certified result of the problem without queries: the identity."""
    return softmax_metric(PairScores(np.zeros((0, d)), np.zeros((1, d))), np.zeros((0, 1)), temperature=1.0, tol=tol)


def root_of(W: np.ndarray) -> np.ndarray:
    """The symmetric square root of a positive semidefinite matrix (d, d)."""
    t, U = np.linalg.eigh(W)
    return (U * np.sqrt(np.maximum(t, 0.0))) @ U.T
