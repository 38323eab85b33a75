"""The search among settings of a learner, not learning among them: candidates on inner folds, halving, the simplest good one."""

from __future__ import annotations

import os
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils import get_tags
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from bregmat._interrupt import held_interrupts, is_interrupted, take_interrupt
from bregmat.checks import as_choice, as_column, check_integer, check_positive
from bregmat.coordinates import Factor
from bregmat.estimators.base import AllOrNothing, Lines, check_verbose, say
from bregmat.estimators.learner import ConstraintLearner, point_weights, present
from bregmat.estimators.state import estimator_restored, estimator_state
from bregmat.labels import STRATEGIES, as_kinds
from bregmat.result import SolverError
from bregmat.sampling import check_random_state, generator
from bregmat.typing import Labels, Points, RandomState, Strategy, Values

HALVING_FROM = 3000  # rows of the training set from which on few rows decide who meets the others
SHARE_KEPT = 3  # of the candidates, and of the rows left out, a round of halving keeps one in this many
SEARCH_TOL = 1e-3  # relative gap of what is compared; what is kept has the caller's
SEARCH_STEPS = (
    60  # of each pass of what is compared: in columns of very different size heavy weights take many times as long
)


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


C = TypeVar("C", bound=Candidate)


@dataclass(eq=False, repr=False, kw_only=True)
class LearnerSearch(AllOrNothing, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Settings of a learner, and whether to learn at all, chosen on inner folds; subclasses say which, and keep the choice."""

    strategies: Sequence[Strategy] = ("neighbors",)
    slack_weights: Sequence[float] = (0.1, 1.0, 10.0)
    learner: Any = None
    cv: Any = None
    estimator: Any = None
    scoring: Any = None
    n_jobs: int | None = None
    max_seconds: float | None = None
    random_state: RandomState = None
    verbose: int = 0

    _kept: ClassVar[tuple[str, ...]] = ("best_score_", "best_index_", "best_params_", "n_splits_")
    _learner: ClassVar[type[ConstraintLearner]]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------------------------------ what subclasses give
    @abstractmethod
    def _candidates(self) -> list[Any]:
        """Every candidate, those that are not learned first (see :meth:`_with_learned`); parameters are checked."""

    @abstractmethod
    def _checked_points(self, X: Any, candidates: list[Any]) -> Any:
        """The training points, checked against the candidates."""

    @abstractmethod
    def _map(self, candidate: Any, learner: Any, X: Any) -> Callable[[Any], np.ndarray]:
        """What maps points to features, from training points X; the learner is fitted to them, None where nothing is learned."""

    @abstractmethod
    def _keep(self, X: Any, candidate: Any) -> None:
        """Set what is chosen, from all points and ``best_learner_``."""

    def _settings(self, candidate: Any, X: Any) -> dict[str, Any]:
        """Parameters of the learner for training points X."""
        return candidate.params()

    # ------------------------------------------------------------------ fit
    def fit(
        self, X: Points | Factor, y: Labels, *, groups: Labels | None = None, sample_weight: Values | None = None
    ) -> Self:
        """Search on inner folds, then fit the choice to all rows.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d)
            Points; finite. Kernel values (n, n) with the kernel "precomputed".
        y : array-like, shape (n,) or (n, n_labels)
            Classes, numbers that are not whole, or sets of labels as 0 and 1. Rows without a label take no part in the scores.
        groups : array-like, shape (n,), optional
            For a splitter that keeps groups together.
        sample_weight : array-like, shape (n,), optional
            How much each point counts in what is learned, as in :meth:`MetricLearner.fit`; points of weight 0 are absent. Scores
            count all others alike.

        Raises
        ------
        KeyboardInterrupt
            Ctrl-C. During the search ``cv_results_`` and ``best_params_`` are kept as far as candidates have all their folds; later
            the choice, fitted as far as it came. A RuntimeWarning says which.
        """
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        with self._fitting():
            candidates = self._candidates()
            template = self._template()
            X = self._checked_points(X, candidates)
            check_consistent_length(X, y)
            if groups is not None and np.shape(groups) != (X.shape[0],):
                raise ValueError(f"groups must have one entry a row of X ({X.shape[0]}); got shape {np.shape(groups)}.")
            y = np.asarray(y)
            y = column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y
            weight = point_weights(sample_weight, X.shape[0])
            here = np.arange(X.shape[0]) if weight is None else present(self, X, weight)
            known = as_kinds(y, X.shape[0], "neighbors", unlabeled=template.unlabeled).codes >= 0
            search = _Search(self, template, X, y, groups, np.flatnonzero(known), weight)
            self.n_splits_ = len(search.folds)
            self.cv_results_: dict[str, Any]
            self.best_index_: int
            self.cv_results_, self.best_index_ = search.run(candidates)
            chosen = candidates[self.best_index_]
            self.best_params_: dict[str, Any] = chosen.params()
            self.best_score_: float = float(self.cv_results_["mean_test_score"][self.best_index_])
            if is_interrupted():
                raise KeyboardInterrupt
            self.best_learner_: Any = None
            if len(here) < X.shape[0]:
                X, y, weight = X[here], y[here], None if weight is None else weight[here]
            if chosen.strategy is not None:
                self.best_learner_ = self._fitted(clone(template).set_params(**self._settings(chosen, X)), X, y, weight)
            with held_interrupts():
                self._keep(X, chosen)
        return self

    def _fitted(self, learner: ConstraintLearner, X: Any, y: Any, weight: np.ndarray | None) -> ConstraintLearner:
        """The learner fitted to all rows, as far as that came."""
        if self.verbose:
            say(f"fit to all rows: {_words(self.best_params_)}")
            learner.set_params(verbose=max(learner.verbose, self.verbose))
        try:
            return learner.fit(X, y, sample_weight=weight)
        except KeyboardInterrupt:
            if not learner.__sklearn_is_fitted__():
                raise
            take_interrupt()
            return learner

    def _keeps_something(self) -> bool:
        return "best_score_" in vars(self)

    def _progress(self) -> str:
        if self.__sklearn_is_fitted__():
            return "in the fit to all rows: best_learner_ and what is chosen are as far as that came."
        n = len(self.cv_results_["params"])
        n_done = int(np.isfinite(self.cv_results_["mean_test_score"]).sum())
        return (
            f"with {n_done} of {n} candidates compared: cv_results_, best_params_ and best_score_ are of these, nothing is fitted "
            f"to all rows. The best of them: {_words(self.best_params_)}."
        )

    def _ending(self) -> str:
        learned = "" if self.best_learner_ is None else f"; {self.best_learner_._ending()}"
        return f"{_words(self.best_params_)}, score {self.best_score_:.4f}{learned}"

    def _template(self) -> ConstraintLearner:
        """The learner with all settings that are not searched."""
        kind = self._learner
        if self.learner is not None and not isinstance(self.learner, kind):
            raise TypeError(f"learner must be a {kind.__name__} or None; got {type(self.learner).__name__}.")
        template = kind() if self.learner is None else clone(self.learner)
        return template.set_params(random_state=_seed(self.random_state)) if self.random_state is not None else template

    def _check_parameters(self) -> None:
        """Raise for a parameter that no data could make valid."""
        self._candidates()

    def _with_learned(self, starts: list[C], cuts: Sequence[dict[str, Any]] = ({},)) -> list[C]:
        """The starts, and what is learned from each: every strategy, slack weight and cut; what all searches have is checked."""
        strategies = [as_choice("strategies", s, STRATEGIES) for s in listed("strategies", self.strategies)]
        weights = np.sort(as_column("slack_weights", listed("slack_weights", self.slack_weights)))
        for weight in weights:
            check_positive("slack_weights", float(weight), finite=True)
        if self.max_seconds is not None:
            check_positive("max_seconds", self.max_seconds)
        check_random_state(self.random_state)
        check_verbose(self.verbose)
        check_integer("n_jobs", self.n_jobs, -sys.maxsize)
        if self.n_jobs == 0:
            raise ValueError("n_jobs must be a number of processes, -1 for all, or None; got 0.")
        learned = [
            replace(start, strategy=strategy, slack_weight=weight, **cut)
            for start, strategy, weight, cut in product(starts, strategies, map(float, weights), cuts)
        ]
        return [*starts, *learned]

    # ------------------------------------------------------------------ files
    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays; the folds' splitter, the scored estimator and the learner's own record are not kept."""
        check_is_fitted(self)
        params = self.get_params(deep=False) | dict.fromkeys(("learner", "cv", "estimator", "scoring"))
        params = {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in params.items()}
        meta, arrays = estimator_state(self, params)
        table = self.cv_results_
        meta["cv_results"] = [dict(row) for row in table["params"]]
        arrays |= {f"cv_results.{name}": a for name, a in table.items() if np.asarray(a).dtype.kind in "fi"}
        return meta, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """What was chosen, with the table of its search."""
        chooser = estimator_restored(cls, meta, arrays)
        start = "cv_results."
        numbers = {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}
        chooser.cv_results_ = _described(meta["cv_results"]) | numbers
        chooser.best_learner_ = None
        return chooser


def listed(name: str, values: Any) -> list[Any]:
    """A list of candidates' values; a single one is no list."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence of values to try, such as ({values!r},); got {values!r}.")
    found = list(values)
    if not found:
        raise ValueError(f"{name} must hold at least one value to try; got {values!r}.")
    return found


def sizes(name: str, values: Any) -> list[int | None]:
    """Numbers of dimensions to try: one, None, or a sequence of them."""
    found = listed(name, values) if isinstance(values, Iterable) else [values]
    for number in found:
        check_integer(name, number, 1)
    return found


def _words(params: dict[str, Any]) -> str:
    """Settings of a candidate in a line."""
    return ", ".join(f"{name}={value!r}" for name, value in params.items() if value is not None or name == "strategy")


def _seed(random_state: Any) -> int:
    return int(generator(random_state).integers(2**31))


# ---------------------------------------------------------------------- the search
@dataclass(frozen=True, eq=False)
class _Run:
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
            known = ~np.isnan(scores).all(axis=1)
            means = np.full(len(scores), -np.inf)
            means[known] = np.nanmean(scores[known], axis=1)
            best = int(means.argmax())
            found = f"; best so far {means[best]:.4f} with {_words(candidates[best].params())}" if known.any() else ""
            say(f"{self._where()}{found}")

    def tell_step(self, record: Any) -> None:
        """A step of a fit; those in other processes are told of by their paths only."""
        if self.lines.is_due(self.n_done, by_time_only=True) and os.getpid() == self.process:
            say(f"{self._where()}, now iteration {record.iteration}, gap {record.gap:.1e}")

    def _where(self) -> str:
        seconds = time.perf_counter() - self.clock
        return f"search on {self.size} rows: {self.n_done} of {self.n_paths} paths of slack weights, {seconds:.1f} s"


class _Search:
    """Candidates on folds: paths of slack weights, halving where rows are many, one table."""

    def __init__(
        self,
        settings: LearnerSearch,
        template: ConstraintLearner,
        X: Any,
        y: np.ndarray,
        groups: Any,
        known: np.ndarray,
        weight: np.ndarray | None,
    ) -> None:
        self.settings, self.X, self.y, self.weight = settings, X, y, weight
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
            folds = check_cv(settings.cv, y[known], classifier=is_class).split(X[known], y[known], groups)
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
        n = min(len(train) for train, _ in self.folds)
        n_rows = [n]
        while n_rows[0] > HALVING_FROM:
            n_rows.insert(0, n_rows[0] // SHARE_KEPT)
        scores = np.full((len(candidates), len(self.folds)), np.nan)
        seconds, n_samples = np.zeros(len(candidates)), np.zeros(len(candidates), np.int64)
        left = list(range(len(candidates)))
        for size in n_rows:
            if is_interrupted():
                break
            new, spent = self._round([candidates[c] for c in left], size)
            whole = ~np.isnan(new).any(axis=1)
            if not whole.any():
                break  # the time is up: what the last round said stands
            scores[left], seconds[left], n_samples[left] = new, spent, size
            left = [c for c, done in zip(left, whole) if done]
            if size != n_rows[-1]:
                learned = [c for c in left if candidates[c].strategy]
                learned.sort(key=lambda c: -scores[c].mean())
                best = learned[: -(-len(learned) // SHARE_KEPT)]
                left = [c for c in left if not candidates[c].strategy or c in best]
        if not left or np.isnan(scores[left]).all():
            if is_interrupted():
                raise KeyboardInterrupt
            raise ValueError("max_seconds is too short for a single candidate on all folds.")
        table = _described([c.params() for c in candidates]) | {
            **{f"split{k}_test_score": scores[:, k] for k in range(len(self.folds))},
            "mean_test_score": scores.mean(axis=1),
            "std_test_score": scores.std(axis=1),
            "mean_fit_time": seconds,
            "n_samples": n_samples,
        }
        means = np.nan_to_num(table["mean_test_score"], nan=-np.inf)
        table["rank_test_score"] = 1 + np.array([(means > mean).sum() for mean in means])
        return table, left[_choose([candidates[c] for c in left], scores[left], float(self.template.slack_weight))]

    def _round(self, candidates: list[Any], size: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores (candidates, folds), nan where a fit failed or the time was up, and mean seconds of a fit."""
        families = {c.family: [d for d in candidates if d.family == c.family] for c in candidates}
        jobs = [(fold, family) for family in families.values() for fold in range(len(self.folds))]
        parallel = Parallel(n_jobs=self.settings.n_jobs, return_as="generator")
        runs = parallel(delayed(self._path)(fold, family, size) for fold, family in jobs)
        scores, seconds = np.full((len(candidates), len(self.folds)), np.nan), np.zeros(len(candidates))
        self.progress.begin(len(jobs), size)
        try:
            for (fold, _), run in zip(jobs, runs):
                for place, candidate in enumerate(candidates):
                    if candidate in run.scores:
                        scores[place, fold] = run.scores[candidate]
                        seconds[place] += run.seconds[candidate] / len(self.folds)
                self.progress.tell_path(candidates, scores)
        except KeyboardInterrupt:
            take_interrupt()
        return scores, seconds

    def _path(self, fold: int, family: list[Any], size: int) -> _Run:
        """One fold: slack weights from light to heavy, each fit from the last."""
        train, test = self.folds[fold]
        if size < len(train):
            train = np.random.default_rng(fold).permutation(train)[:size]
        A, B = (self.X[np.ix_(rows, train)] if self.is_pairwise else self.X[rows] for rows in (train, test))
        y, z = self.y[train], self.y[test]
        weight = None if self.weight is None else self.weight[train]
        run = _Run({}, {})
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
            mapping = self.settings._map(candidate, learned, A)
            near, unseen = np.asarray(mapping(A)), np.asarray(mapping(B))  # whatever container is configured
            model = clone(self.estimator).fit(near, y)
            run.scores[candidate], run.seconds[candidate] = float(self.scorer(model, unseen, z)), seconds
        return run

    def _weighty(self, rows: np.ndarray) -> np.ndarray:
        return rows if self.weight is None else rows[self.weight[rows] > 0]

    def _is_late(self, record: Any) -> bool:
        self.progress.tell_step(record)
        return time.monotonic() > self.deadline


def _choose(candidates: Sequence[Candidate], scores: np.ndarray, usual: float) -> int:
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


def _described(params: Iterable[dict[str, Any]]) -> dict[str, Any]:
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
