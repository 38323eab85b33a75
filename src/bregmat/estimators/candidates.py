"""Candidates of a search: scored on folds, fewer of them in each round where rows are many, and the simplest good one chosen."""

from __future__ import annotations

import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupKFold, RepeatedKFold, RepeatedStratifiedKFold, StratifiedGroupKFold, check_cv
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils import get_tags
from sklearn.utils.multiclass import type_of_target

from bregmat.base.interrupts import is_interrupted, take_interrupt
from bregmat.base.sampling import generator
from bregmat.estimators.base import Lines, say
from bregmat.estimators.choice import usual_weight
from bregmat.estimators.learner import ConstraintLearner
from bregmat.run.result import SolverError

HALVING_FROM = 3000  # rows of the training set from which on few rows decide who meets the others
SHARE_KEPT = 3  # of the candidates a round keeps one in this many; before the last it has one in this many of the rows, or of the folds
N_FOLDS = 5
# rows: where a third of the folds predicts as many, it decides who meets the others; where all folds predict fewer, they are drawn again
ENOUGH_PREDICTED = 300
MOST_REPEATS = 3  # times at the most: with few rows it is the draw of the folds that decides
SEARCH_TOL = 1e-3  # relative gap of what is compared; what is kept has the caller's
# of each pass of what is compared: in columns of very different size heavy weights take many times as long
SEARCH_STEPS = 60


@dataclass(frozen=True, kw_only=True)
class Candidate(ABC):
    """One way to map the points; without a strategy nothing is learned. Subclasses add what there is before learning."""

    strategy: str | None = None
    slack_weight: float = 0.0

    of_learning: ClassVar[tuple[str, ...]] = ("slack_weight",)  # settings that say nothing where nothing is learned

    @property
    @abstractmethod
    def size(self) -> int | None:
        """Dimensions of the map; None is all of them."""

    @property
    def family(self) -> Self:
        """What one warm-started path of slack weights has in common."""
        return replace(self, slack_weight=0.0)

    def complexity(self, usual: float) -> tuple[float, float]:
        """Order of what is learned from simple to complex: few dimensions, slack weights near the usual one."""
        return self.size or np.inf, abs(np.log(self.slack_weight) - np.log(usual))

    def params(self) -> dict[str, Any]:
        """As parameters of the learner; a strategy None says that nothing is learned."""
        return {name: value for name, value in vars(self).items() if self.strategy or name not in self.of_learning}


def in_words(params: dict[str, Any]) -> str:
    """Settings of a candidate in a line."""
    return ", ".join(f"{name}={value!r}" for name, value in params.items() if value is not None or name == "strategy")


@dataclass(frozen=True, eq=False)
class _PathScores:
    """Scores and seconds of a path of candidates on one fold."""

    scores: dict[Candidate, float]
    seconds: dict[Candidate, float]


class _SearchProgress:
    """Lines about a search: paths done, the best so far, and within long fits the step."""

    def __init__(self, verbose: int) -> None:
        self.lines, self.process, self.clock = Lines(verbose), os.getpid(), time.perf_counter()
        self.n_done = self.n_paths = self.size = 0

    def begin(self, n_paths: int, size: int) -> None:
        """A round of so many paths on so many rows."""
        self.n_done, self.n_paths, self.size, self.lines = 0, n_paths, size, Lines(self.lines.verbose)

    def tell_path(self, candidates: list[Any], scores: np.ndarray) -> None:
        """One path of slack weights on one fold is done."""
        self.n_done += 1
        if self.lines.verbose and self.lines.is_due(self.n_done):
            means = np.nan_to_num(scores.mean(axis=1), nan=-np.inf)  # those that all folds have scored: folds differ
            best = int(means.argmax())
            found = f"; best so far {means[best]:.4f} with {in_words(candidates[best].params())}"
            found = found if np.isfinite(means[best]) else ""
            say(f"{self._where()}{found}")

    def tell_step(self, record: Any) -> None:
        """A step of a fit; those in other processes are told of by their paths only."""
        if self.lines.is_due(self.n_done, by_time_only=True) and os.getpid() == self.process:
            say(f"{self._where()}, now iteration {record.iteration}, gap {record.gap:.1e}")

    def _where(self) -> str:
        seconds = time.perf_counter() - self.clock
        return f"search on {self.size} rows: {self.n_done} of {self.n_paths} paths of slack weights, {seconds:.1f} s"


class Search:
    """Candidates on folds: paths of slack weights, halving where rows are many, one table."""

    def __init__(
        self,
        settings: Any,  # the LearnerSearch that asks
        template: ConstraintLearner,
        X: Any,
        y: np.ndarray,
        groups: Any,
        codes: np.ndarray,
        weight: np.ndarray | None,
    ) -> None:
        self.settings, self.X, self.y, self.codes, self.weight = settings, X, y, codes, weight
        known = np.flatnonzero(codes >= 0)
        self.is_pairwise = get_tags(settings).input_tags.pairwise
        self.template = clone(template).set_params(
            tol=max(template.tol, SEARCH_TOL),
            max_iter=min(template.max_iter or SEARCH_STEPS, SEARCH_STEPS),
            warm_start=True,
            verbose=0,
        )
        is_class = "continuous" not in type_of_target(y[known])
        estimator = settings.estimator
        if estimator is None:
            estimator = KNeighborsClassifier(4) if is_class else KNeighborsRegressor(4)
        self.estimator, self.scorer = estimator, check_scoring(estimator, scoring=settings.scoring)
        groups = None if groups is None else np.asarray(groups)[known]
        try:
            cv = usual_folds(y[known], groups, template.random_state) if settings.cv is None else settings.cv
            folds = check_cv(cv, y[known], classifier=is_class).split(X[known], y[known], groups)
            self.folds = [(self._weighty(known[train]), self._weighty(known[test])) for train, test in folds]
        except (ValueError, TypeError) as error:
            raise type(error)(f"cv={settings.cv!r} does not fit {len(known)} labelled rows: {error}") from error
        if not all(len(rows) for fold in self.folds for rows in fold):
            raise ValueError(f"sample_weight leaves a fold of cv={settings.cv!r} without points of positive weight.")
        budget = settings.max_seconds
        self.deadline = np.inf if budget is None else time.monotonic() + budget
        self.progress = _SearchProgress(int(settings.verbose))

    def run(self, candidates: list[Any]) -> tuple[dict[str, Any], int]:
        """The table, and the row that is chosen."""
        scores = np.full((len(candidates), len(self.folds)), np.nan)
        seconds, n_samples, n_folds = np.zeros(len(candidates)), *np.zeros((2, len(candidates)), np.int64)
        means, deviations = np.full((2, len(candidates)), np.nan)
        left, scored = list(range(len(candidates))), 0
        rounds = self._rounds()
        for place, (size, count) in enumerate(rounds):
            if is_interrupted():
                break
            has_some = scored if place and rounds[place - 1][0] == size else 0  # folds that need not be done again
            new, spent = self._round([candidates[c] for c in left], size, has_some, count)
            new = np.hstack([scores[left, :has_some], new])
            whole = ~np.isnan(new).any(axis=1)
            if not whole.any():
                break  # the time is up: what the last round said stands
            scores[left, :count], n_samples[left], n_folds[left], scored = new, size, count, count
            seconds[left] = (seconds[left] * has_some + spent * (count - has_some)) / count
            means[left], deviations[left] = new.mean(axis=1), new.std(axis=1)
            left = [c for c, done in zip(left, whole) if done]
            if place + 1 < len(rounds):
                learned = [c for c in left if candidates[c].strategy]
                learned.sort(key=lambda c: -means[c])
                best = learned[: -(-len(learned) // SHARE_KEPT)]
                left = [c for c in left if not candidates[c].strategy or c in best]
        if not scored:
            if is_interrupted():
                raise KeyboardInterrupt
            raise ValueError("max_seconds is too short for a single candidate on all folds.")
        table = described([c.params() for c in candidates]) | {
            **{f"split{k}_test_score": scores[:, k] for k in range(len(self.folds))},
            "mean_test_score": means,
            "std_test_score": deviations,
            "mean_fit_time": seconds,
            "n_samples": n_samples,
            "n_folds": n_folds,
        }
        means = np.nan_to_num(means, nan=-np.inf)
        table["rank_test_score"] = 1 + np.array([(means > mean).sum() for mean in means])
        n = min(len(train) for train, _ in self.folds)
        own = self.template.slack_weight
        usual = usual_weight(1.0 if own == "auto" else float(own), n)
        return table, left[choose([candidates[c] for c in left], scores[left, :scored], usual)]

    def _rounds(self) -> list[tuple[int, int]]:
        """Numbers of rows and of folds of each round: few rows, or the first folds, where these say enough, then all."""
        n, n_folds = min(len(train) for train, _ in self.folds), len(self.folds)
        rounds = [(n, n_folds)]
        while rounds[0][0] > HALVING_FROM:
            rounds.insert(0, (rounds[0][0] // SHARE_KEPT, n_folds))
        first = -(-n_folds // SHARE_KEPT)
        if len(rounds) == 1 and sum(len(test) for _, test in self.folds[:first]) >= ENOUGH_PREDICTED:
            rounds.insert(0, (n, first))
        return rounds

    def _round(self, candidates: list[Any], size: int, first: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores (candidates, folds) on some folds, nan where a fit failed or the time was up, and mean seconds of a fit."""
        families = {c.family: [d for d in candidates if d.family == c.family] for c in candidates}
        jobs = [(fold, family) for family in families.values() for fold in range(first, end)]
        parallel = Parallel(n_jobs=self.settings.n_jobs, return_as="generator")
        runs = parallel(delayed(self._path)(fold, family, size) for fold, family in jobs)
        scores, seconds = np.full((len(candidates), end - first), np.nan), np.zeros(len(candidates))
        self.progress.begin(len(jobs), size)
        try:
            for (fold, _), run in zip(jobs, runs):
                for place, candidate in enumerate(candidates):
                    if candidate in run.scores:
                        scores[place, fold - first] = run.scores[candidate]
                        seconds[place] += run.seconds[candidate] / (end - first)
                self.progress.tell_path(candidates, scores)
        except KeyboardInterrupt:
            take_interrupt()
        return scores, seconds

    def _path(self, fold: int, family: list[Any], size: int) -> _PathScores:
        """One fold: slack weights from light to heavy, each fit from the last."""
        train, test = self.folds[fold]
        if size < len(train):
            train = np.random.default_rng(fold).permutation(train)[:size]
        A, B = (self.X[np.ix_(rows, train)] if self.is_pairwise else self.X[rows] for rows in (train, test))
        y, z = self.y[train], self.y[test]
        weight = None if self.weight is None else self.weight[train]
        run = _PathScores({}, {})
        learner = clone(self.template)
        for candidate in sorted(family, key=lambda c: c.slack_weight):
            if time.monotonic() > self.deadline:
                break
            start = time.perf_counter()
            learned = None
            if candidate.strategy is not None:
                learner.set_params(**self.settings._settings(candidate, A), callback=self._is_late)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # of a fold: not converged, or a class with one point
                    try:
                        learned = learner.fit(A, y, sample_weight=weight)
                    except SolverError:
                        continue
                if time.monotonic() > self.deadline:
                    break
            seconds = time.perf_counter() - start
            mapping = self.settings._map(candidate, learned, A, self.codes[train])
            near, unseen = np.asarray(mapping(A)), np.asarray(mapping(B))  # whatever container is configured
            model = clone(self.estimator).fit(near, y)
            run.scores[candidate], run.seconds[candidate] = float(self.scorer(model, unseen, z)), seconds
        return run

    def _weighty(self, rows: np.ndarray) -> np.ndarray:
        return rows if self.weight is None else rows[self.weight[rows] > 0]

    def _is_late(self, record: Any) -> bool:
        self.progress.tell_step(record)
        return time.monotonic() > self.deadline


def usual_folds(y: np.ndarray, groups: np.ndarray | None, random_state: Any) -> Any:
    """Where no folds are asked for: 5, of groups where there are some, else drawn at random, and more than once where rows are few."""
    is_class = type_of_target(y) in ("binary", "multiclass")
    if groups is not None:
        return (StratifiedGroupKFold if is_class else GroupKFold)(N_FOLDS)
    seed = 0 if random_state is None else int(generator(random_state).integers(2**31))
    n_repeats = min(MOST_REPEATS, -(-ENOUGH_PREDICTED // max(1, len(y))))
    kind = RepeatedStratifiedKFold if is_class else RepeatedKFold
    return kind(n_splits=N_FOLDS, n_repeats=n_repeats, random_state=seed)


def choose(candidates: Sequence[Candidate], scores: np.ndarray, usual: float) -> int:
    """Of those learned and better than the best one unlearned: the simplest within a standard error of the best, fold by fold.

    Where there is none, the best one unlearned. That is not taken for being simpler: with few rows a standard error hides what learning
    gains.
    """
    means = scores.mean(axis=1)
    floor = max((mean for c, mean in zip(candidates, means) if not c.strategy), default=-np.inf)
    learned = [k for k, c in enumerate(candidates) if c.strategy and means[k] > floor]
    if not learned:
        return int(np.argmax(means))
    best = max(learned, key=lambda k: means[k])
    eligible = []
    for k in learned:
        behind = scores[best] - scores[k]
        error = behind.std(ddof=1) / np.sqrt(len(behind)) if len(behind) > 1 else 0.0
        if behind.mean() <= error:
            eligible.append((candidates[k].complexity(usual), -means[k], k))
    return min(eligible)[2]


def described(params: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """``params`` and a masked column for each of them."""
    rows = list(params)
    table: dict[str, Any] = {"params": rows}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = np.ma.MaskedArray(np.empty(len(rows), dtype=object), mask=[name not in row for row in rows])
        for k, row in enumerate(rows):
            if name in row:
                values[k] = row[name]
        table[f"param_{name}"] = values
    return table
