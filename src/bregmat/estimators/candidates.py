"""Scores of the candidates of a search on folds, within a time limit, and the choice among them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import (
    GroupKFold,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedShuffleSplit,
    check_cv,
    cross_validate,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.multiclass import type_of_target

from bregmat.base.checks import generator
from bregmat.estimators.base import say
from bregmat.estimators.learner import ConstraintLearner

FIRST = 3  # a third of the folds is scored first: a candidate that is behind there is not scored on the others
SEARCH_TOL = 1e-3  # relative gap of fits that are compared; the chosen one is fitted to the caller's tol
SEARCH_STEPS = (
    60  # iterations of each pass of such fits: large weights and badly scaled columns would take many times as long
)
N_FOLDS = 5
FEW_ROWS = (
    300  # below, folds are drawn up to MOST_REPEATS times, since one draw changes scores more than candidates differ
)
MOST_REPEATS = 3
MANY_ROWS = 3000  # above, there are N_SAMPLES folds with SAMPLED_ROWS training rows and at most as many test rows
SAMPLED_ROWS, N_SAMPLES = 2000, 3

Params = dict[str, Any]


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Points, labels, groups and weights of some rows."""

    X: Any
    y: np.ndarray
    groups: np.ndarray | None
    weight: np.ndarray | None

    def of(self, rows: np.ndarray, learner: Any) -> TrainingRows:
        """Some of the rows; of a precomputed kernel also the same columns."""
        if len(rows) == self.X.shape[0]:
            return self
        X = self.X[np.ix_(rows, rows)] if get_tags(learner).input_tags.pairwise else self.X[rows]
        groups, weight = (None if column is None else column[rows] for column in (self.groups, self.weight))
        return TrainingRows(X, self.y[rows], groups, weight)


class Search:
    """Candidates, scored one after the other by ``cross_validate``. Baselines are first and do not depend on the time limit."""

    def __init__(self, settings: Any, data: TrainingRows, template: ConstraintLearner) -> None:
        self.settings, self.data, self.template = settings, data, template
        y, cv, weight = data.y, settings.cv, data.weight
        is_class = "continuous" not in type_of_target(y)
        estimator = settings.estimator
        if estimator is None:
            estimator = KNeighborsClassifier(4) if is_class else KNeighborsRegressor(4)
        self.estimator, self.scorer = estimator, check_scoring(estimator, scoring=settings.scoring)
        try:
            splitter = usual_folds(y, data.groups, template.random_state) if cv is None else cv
            self.folds = list(check_cv(splitter, y, classifier=is_class).split(data.X, y, data.groups))
        except (ValueError, TypeError) as error:
            raise type(error)(f"cv={cv!r} does not fit {len(y)} labelled rows: {error}") from error
        if weight is not None:
            self.folds = [tuple(rows[weight[rows] > 0] for rows in fold) for fold in self.folds]
        if not all(len(rows) for fold in self.folds for rows in fold):
            raise ValueError(f"sample_weight leaves a fold of cv={cv!r} without points of positive weight.")
        self.candidates: list[Params] = []
        self.scores, self.seconds = np.zeros((0, len(self.folds))), np.zeros(0)
        limit = settings.max_seconds
        self.clock = time.monotonic()
        self.deadline = np.inf if limit is None else self.clock + limit

    @property
    def is_whole(self) -> np.ndarray:
        """Which candidates have scores on all folds."""
        return np.asarray(np.isfinite(self.scores).all(axis=1))

    def run(self, baselines: list[Params], starts: list[Params]) -> None:
        """Score the baselines, every start with every strategy, and then the best of these with the other slack weights."""
        first, *weights = map(float, self.settings.slack_weights)
        for params in baselines:
            self._score(params, is_baseline=True)
        # Accuracy and R^2 are at most 1: no candidate can be better than a default that reaches it, and ties go to the default.
        is_usual = self.settings.scoring is None and self.settings.estimator is None
        if is_usual and (self.scores[0] == 1.0).all():
            return
        for start in starts:
            for strategy in self.settings.strategies:
                self._score(start | {"strategy": strategy, "slack_weight": first})
        means = np.where(self.is_whole, self.scores.mean(axis=1), -np.inf)[len(baselines) :]
        if np.isfinite(means).any():
            best = self.candidates[len(baselines) + int(means.argmax())]
            for weight in weights:
                self._score(best | {"slack_weight": weight})
        if not self.is_whole.any():
            raise ValueError("no candidate could be fitted and scored on every fold.")

    def _score(self, params: Params, *, is_baseline: bool = False) -> None:
        """Score a candidate on the first folds, and on the others unless it is behind the best one there or the time is over."""
        row, seconds, end = np.full(len(self.folds), np.nan), 0.0, -(-len(self.folds) // FIRST)
        best = max((scores[:end].mean() for scores in self.scores[self.is_whole]), default=-np.inf)
        for part in (slice(0, end), slice(end, None)):
            is_over = time.monotonic() > self.deadline or (part.start > 0 and not row[:end].mean() >= best)
            if not self.folds[part] or (is_over and not is_baseline):
                break
            row[part], spent = self._on_folds(params, self.folds[part])
            seconds += spent
        n_done = np.isfinite(row).sum()
        if n_done or is_baseline:
            self.candidates.append(params)
            self.scores = np.vstack([self.scores, row])
            self.seconds = np.append(self.seconds, seconds / max(1, n_done))
            self._tell()

    def _on_folds(self, params: Params, folds: Any) -> tuple[np.ndarray, float]:
        """Scores on some folds, nan if a fit failed, and the seconds of all fits."""
        data, template = self.data, clone(self.template)
        learner = self.settings._set(template, params, data.X, len(folds[0][0]))
        steps = min(template.max_iter or SEARCH_STEPS, SEARCH_STEPS)
        learner.set_params(tol=max(template.tol, SEARCH_TOL), max_iter=steps, warm_start=False, verbose=0)
        with warnings.catch_warnings(), config_context(enable_metadata_routing=False):
            # of one fold: no convergence, a class of one point, nothing to compare, a failed fit
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                found = cross_validate(
                    Pipeline([("learner", learner), ("estimator", clone(self.estimator))]),
                    data.X,
                    data.y,
                    cv=folds,
                    scoring=self.scorer,
                    n_jobs=self.settings.n_jobs,
                    params=None if data.weight is None else {"learner__sample_weight": data.weight},
                    error_score=np.nan if self.candidates else "raise",
                )
            except ValueError as error:
                if not self.candidates or "fits failed" not in str(error):
                    raise
                return np.full(len(folds), np.nan), 0.0
        return found["test_score"], float(found["fit_time"].sum())

    def _tell(self) -> None:
        if not self.settings._is_verbose:
            return
        row, n = self.scores[-1], len(self.candidates)
        of = "" if self.is_whole[-1] else f" on {np.isfinite(row).sum()} of {len(row)} folds"
        mean = np.nanmean(row) if np.isfinite(row).any() else np.nan
        seconds = time.monotonic() - self.clock
        say(f"candidate {n}: {in_words(self.candidates[-1])}: score {mean:.4f}{of}; {seconds:.1f} s")

    def table(self) -> dict[str, Any]:
        """The scores as ``cv_results_`` of scikit-learn; means are over the folds on which a candidate was scored."""
        scores = self.scores
        n_folds = np.isfinite(scores).sum(axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of candidates without a score
            means, deviations = np.nanmean(scores, axis=1), np.nanstd(scores, axis=1)
        ranked = np.where(self.is_whole, means, -np.inf)
        return described(self.candidates) | {
            **{f"split{k}_test_score": scores[:, k] for k in range(len(self.folds))},
            "mean_test_score": means,
            "std_test_score": deviations,
            "rank_test_score": 1 + (ranked > ranked[:, None]).sum(axis=1),
            "mean_fit_time": self.seconds,
            "n_folds": n_folds,
        }

    def chosen(self) -> int:
        """Index of the chosen candidate."""
        rows = np.flatnonzero(self.is_whole)
        is_learned = np.array([self.candidates[row]["strategy"] is not None for row in rows])
        return int(rows[choose(is_learned, self.scores[rows])])


def usual_folds(y: np.ndarray, groups: np.ndarray | None, random_state: Any) -> Any:
    """Default folds: whole groups if there are groups, otherwise random; repeated for few rows, and samples of many rows."""
    is_class = type_of_target(y) in ("binary", "multiclass")
    if groups is not None:
        return (StratifiedGroupKFold if is_class else GroupKFold)(N_FOLDS)
    seed = 0 if random_state is None else int(generator(random_state).integers(2**31))
    if len(y) > MANY_ROWS:
        is_class = is_class and np.unique(y, return_counts=True)[1].min() > 1
        size = {"train_size": SAMPLED_ROWS, "test_size": min(SAMPLED_ROWS, len(y) - SAMPLED_ROWS)}
        return (StratifiedShuffleSplit if is_class else ShuffleSplit)(N_SAMPLES, random_state=seed, **size)
    n_repeats = min(MOST_REPEATS, -(-FEW_ROWS // max(1, len(y))))
    kind = RepeatedStratifiedKFold if is_class else RepeatedKFold
    return kind(n_splits=N_FOLDS, n_repeats=n_repeats, random_state=seed)


def choose(is_learned: np.ndarray, scores: np.ndarray) -> int:
    """Index of the first good candidate, which is never worse on the folds than the first candidate and the best one that does not learn.

    A candidate that learns is able if its mean is above that of every candidate that does not learn, and not below that of the first
    candidate. The first able candidate is chosen whose mean is within one standard error (of the differences between folds) of the best
    able one. If none is able, the best candidate is chosen. Not learning is not preferred within a standard error: with few rows
    that would hide what learning gains.

    Parameters
    ----------
    is_learned : ndarray of bool, shape (m,)
    scores : ndarray, shape (m, folds)
    """
    means = scores.mean(axis=1)
    floor = means[~is_learned].max(initial=-np.inf)
    able = np.flatnonzero(is_learned & (means > floor) & (means >= means[0]))
    if not len(able):
        return int(means.argmax())
    behind = scores[able[means[able].argmax()]] - scores[able]
    n_folds = scores.shape[1]
    error = behind.std(axis=1, ddof=1) / np.sqrt(n_folds) if n_folds > 1 else np.zeros(len(able))
    return int(able[behind.mean(axis=1) <= error][0])


# ---------------------------------------------------------------------- tables of candidates
def in_words(params: Params) -> str:
    """Settings of a candidate in one line."""
    return ", ".join(f"{name}={value!r}" for name, value in params.items() if value is not None or name == "strategy")


def described(params: Iterable[Params]) -> dict[str, Any]:
    """The column ``params`` and a masked column for each parameter."""
    rows = list(params)
    table: dict[str, Any] = {"params": rows}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = np.ma.MaskedArray(np.empty(len(rows), dtype=object), mask=[name not in row for row in rows])
        for k, row in enumerate(rows):
            if name in row:
                values[k] = row[name]
        table[f"param_{name}"] = values
    return table
