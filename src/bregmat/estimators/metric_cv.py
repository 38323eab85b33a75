"""MetricLearnerCV: scaling, strategy, slack weight, components - or no learning at all - chosen by neighbours on inner folds."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from bregmat.checks import as_choice, as_column, check_integer, check_numeric, check_positive
from bregmat.estimators.base import AllOrNothing
from bregmat.estimators.mahalanobis import PRIORS, MahalanobisMetric, prior_components
from bregmat.estimators.metric import MetricLearner
from bregmat.estimators.state import estimator_restored, estimator_state
from bregmat.labels import STRATEGIES, as_kinds
from bregmat.result import SolverError
from bregmat.sampling import check_random_state, generator

HALVING_FROM = 3000  # rows of the training set from which on few rows decide who meets the others
SHARE_KEPT = 3  # of the candidates, and of the rows left out, a round of halving keeps one in this many
SEARCH_TOL = 1e-3  # relative gap of what is compared; the metric that is kept has the caller's


@dataclass(frozen=True)
class Candidate:
    """One way to a metric; without a strategy nothing is learned."""

    prior: str
    strategy: str | None = None
    slack_weight: float = 0.0
    n_components: int | None = None

    @property
    def family(self) -> tuple[str, str | None]:
        """What one warm-started path of slack weights has in common."""
        return self.prior, self.strategy

    @property
    def complexity(self) -> tuple[bool, float, float]:
        """Order from simple to complex: not learned, few components, light weights."""
        return self.strategy is not None, self.n_components or np.inf, self.slack_weight

    def params(self) -> dict[str, Any]:
        """As parameters of :class:`MetricLearner`; a strategy None says that nothing is learned."""
        return vars(self) if self.strategy else {"prior": self.prior, "strategy": None}


@dataclass(eq=False, repr=False, kw_only=True)
class MetricLearnerCV(
    MahalanobisMetric, AllOrNothing, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Mahalanobis metric whose settings, and whether to learn at all, are chosen by neighbours on inner folds.

    Candidates are every prior (which scales the columns) with every strategy, slack weight and number of components, and every prior
    as it is. Each is scored by what its neighbours predict on folds that it has not seen; the simplest that is no worse than the
    best by more than the standard error of their difference is fitted to all rows. "Simplest" is: not learned, then few
    components, then light slack weights. What is chosen is never worse, on these folds, than the best prior unlearned.

    Parameters
    ----------
    priors : sequence of {"identity", "variance", "covariance"}
        As in :class:`MetricLearner`.
    strategies : sequence of {"neighbors", "random"}
        What is asked of labelled points, as in :class:`MetricLearner`.
    slack_weights : sequence of float
        Positive; tried from light to heavy, each fit starting from the last.
    n_components : int, None, or sequence of them
        Leading components to keep; None is all.
    learner : MetricLearner, optional
        Has all other settings.
    cv : int, splitter or iterable, optional
        Inner folds as in scikit-learn; 5 by default, stratified for classes.
    estimator : estimator, optional
        What is scored on the mapped points; by default 4 nearest neighbours, a classifier or a regressor by y.
    scoring : str or callable, optional
        As in scikit-learn; by default the estimator's own score.
    n_jobs : int, optional
        Processes, as in scikit-learn.
    max_seconds : float, optional
        Time for the search; candidates without all their folds by then are out. The last fit comes on top.
    random_state : int, Generator, RandomState or None
        Seed of drawn rows and of the samples of successive halving (where there are more than 3,000 rows).

    Attributes
    ----------
    best_params_ : dict
        prior, strategy, slack_weight, n_components; a strategy None says that not learning was chosen.
    best_score_ : float
        Mean score of the choice on the inner folds.
    best_index_ : int
        Its place in ``cv_results_``.
    best_learner_ : MetricLearner or None
        The learner fitted to all rows, with its ``result_``; None where nothing is learned, or from a file.
    cv_results_ : dict of arrays
        One entry a candidate: ``params``, ``param_*``, ``split*_test_score``, ``mean_test_score``, ``std_test_score``,
        ``rank_test_score``, ``mean_fit_time`` in seconds, ``n_samples`` (rows of the last round of halving that it reached).
    components_ : ndarray, shape (r, d)
        The map: ``transform(X)`` is ``X @ components_.T``.
    n_splits_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from bregmat import MetricLearnerCV
    >>> X, y = load_wine(return_X_y=True)
    >>> MetricLearnerCV(slack_weights=(1.0,), cv=3, random_state=0).fit(X, y).best_params_["prior"]
    'variance'
    """

    priors: Sequence[str] = ("variance", "identity")
    strategies: Sequence[str] = ("neighbors",)
    slack_weights: Sequence[float] = (0.1, 1.0, 10.0)
    n_components: int | None | Sequence[int | None] = None
    learner: MetricLearner | None = None
    cv: Any = None
    estimator: Any = None
    scoring: Any = None
    n_jobs: int | None = None
    max_seconds: float | None = None
    random_state: Any = None

    _kept = ("_fit_components", "best_score_", "best_index_", "best_params_", "n_splits_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------------------------------ fit
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Search on inner folds, then fit the choice to all rows.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d)
            Points; finite.
        y : array-like, shape (n,) or (n, n_labels)
            Classes, numbers that are not whole, or sets of labels as 0 and 1. Rows without a label take no part in the scores.
        groups : array-like, shape (n,), optional
            For a splitter that keeps groups together.
        """
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        with self._fitting():
            candidates = self._candidates()
            check_numeric("X", X)
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2)
            many = max((c.n_components or 0 for c in candidates), default=0)
            if many > X.shape[1]:
                raise ValueError(f"n_components must be at most {X.shape[1]}, the number of features; got {many}.")
            check_consistent_length(X, y)
            if groups is not None and np.shape(groups) != (X.shape[0],):
                raise ValueError(f"groups must have one entry a row of X ({X.shape[0]}); got shape {np.shape(groups)}.")
            y = column_or_1d(y, warn=True) if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1 else np.asarray(y)
            template = self._template()
            known = as_kinds(y, X.shape[0], "neighbors", unlabeled=template.unlabeled).codes >= 0
            search = _Search(self, template, X[known], y[known], None if groups is None else np.asarray(groups)[known])
            self.n_splits_ = len(search.folds)
            self.cv_results_, self.best_index_ = search.run(candidates)
            chosen = self.cv_results_["params"][self.best_index_]
            self.best_params_ = dict(chosen)
            self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
            self.best_learner_ = None
            if chosen["strategy"] is None:
                self._fit_components = prior_components(X, chosen["prior"])
            else:
                self.best_learner_ = clone(template).set_params(**chosen).fit(X, y)
                self._fit_components = np.asarray(self.best_learner_.components_)
        return self

    def _template(self) -> MetricLearner:
        if self.learner is not None and not isinstance(self.learner, MetricLearner):
            raise TypeError(f"learner must be a MetricLearner or None; got {type(self.learner).__name__}.")
        template = MetricLearner() if self.learner is None else clone(self.learner)
        return template.set_params(random_state=_seed(self.random_state)) if self.random_state is not None else template

    def _check_parameters(self) -> None:
        """Raise for a parameter that no data could make valid."""
        self._candidates()

    def _candidates(self) -> list[Candidate]:
        """Every candidate, the priors as they are first; parameters are checked."""
        priors = [as_choice("priors", prior, PRIORS) for prior in _listed("priors", self.priors)]
        strategies = [as_choice("strategies", s, STRATEGIES) for s in _listed("strategies", self.strategies)]
        numbers = (
            _listed("n_components", self.n_components)
            if isinstance(self.n_components, Iterable)
            else [self.n_components]
        )
        for number in numbers:
            check_integer("n_components", number, 1)
        weights = np.sort(as_column("slack_weights", _listed("slack_weights", self.slack_weights)))
        for weight in weights:
            check_positive("slack_weights", float(weight), finite=True)
        if self.max_seconds is not None:
            check_positive("max_seconds", self.max_seconds)
        check_random_state(self.random_state)
        check_integer("n_jobs", self.n_jobs, -sys.maxsize)
        if self.n_jobs == 0:
            raise ValueError("n_jobs must be a number of processes, -1 for all, or None; got 0.")
        learned = (Candidate(*c) for c in product(priors, strategies, map(float, weights), numbers))
        return [*(Candidate(prior) for prior in priors), *learned]

    # ------------------------------------------------------------------ files
    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays; the folds' splitter, the scored estimator and the learner's own record are not kept."""
        check_is_fitted(self)
        params = self.get_params(deep=False) | dict.fromkeys(("learner", "cv", "estimator", "scoring"))
        meta, arrays = estimator_state(self, params)
        table = self.cv_results_
        meta["cv_results"] = [dict(row) for row in table["params"]]
        arrays |= {f"cv_results.{name}": a for name, a in table.items() if np.asarray(a).dtype.kind in "fi"}
        return meta, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """The fitted metric with the table of its search."""
        chooser = estimator_restored(cls, meta, arrays)
        start = "cv_results."
        numbers = {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}
        chooser.cv_results_ = _described(meta["cv_results"]) | numbers
        chooser.best_learner_ = None
        return chooser


# ---------------------------------------------------------------------- the search
@dataclass(frozen=True, eq=False)
class _Run:
    """Scores and seconds of a path of candidates on one fold."""

    scores: dict[Candidate, float]
    seconds: dict[Candidate, float]


class _Search:
    """Candidates on folds: paths of slack weights, halving where rows are many, one table."""

    def __init__(self, settings: MetricLearnerCV, template: MetricLearner, X: Any, y: np.ndarray, groups: Any) -> None:
        self.settings, self.X, self.y = settings, X, y
        self.template = clone(template).set_params(tol=max(template.tol, SEARCH_TOL), warm_start=True, verbose=0)
        is_class = "continuous" not in type_of_target(y)
        estimator = settings.estimator
        if estimator is None:
            estimator = KNeighborsClassifier(4) if is_class else KNeighborsRegressor(4)
        self.estimator, self.scorer = estimator, check_scoring(estimator, scoring=settings.scoring)
        try:
            self.folds = list(check_cv(settings.cv, y, classifier=is_class).split(X, y, groups))
        except (ValueError, TypeError) as error:
            raise type(error)(f"cv={settings.cv!r} does not fit {X.shape[0]} labelled rows: {error}") from error
        budget = settings.max_seconds
        self.deadline = np.inf if budget is None else time.monotonic() + budget

    def run(self, candidates: list[Candidate]) -> tuple[dict[str, Any], int]:
        """The table, and the row that is chosen."""
        n = min(len(train) for train, _ in self.folds)
        sizes = [n]
        while sizes[0] > HALVING_FROM:
            sizes.insert(0, sizes[0] // SHARE_KEPT)
        scores = np.full((len(candidates), len(self.folds)), np.nan)
        seconds, n_samples = np.zeros(len(candidates)), np.zeros(len(candidates), np.int64)
        left = list(range(len(candidates)))
        for size in sizes:
            new, spent = self._round([candidates[c] for c in left], size)
            whole = ~np.isnan(new).any(axis=1)
            if not whole.any():
                break  # the time is up: what the last round said stands
            scores[left], seconds[left], n_samples[left] = new, spent, size
            left = [c for c, done in zip(left, whole) if done]
            if size != sizes[-1]:
                learned = [c for c in left if candidates[c].strategy]
                learned.sort(key=lambda c: -scores[c].mean())
                best = learned[: -(-len(learned) // SHARE_KEPT)]
                left = [c for c in left if not candidates[c].strategy or c in best]
        if not left or np.isnan(scores[left]).all():
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
        return table, _choose([candidates[c] for c in left], scores[left], left)

    def _round(self, candidates: list[Candidate], size: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores (candidates, folds), nan where a fit failed or the time was up, and mean seconds of a fit."""
        families = {c.family: [d for d in candidates if d.family == c.family] for c in candidates}
        jobs = [(fold, family) for family in families.values() for fold in range(len(self.folds))]
        runs = Parallel(n_jobs=self.settings.n_jobs)(delayed(self._path)(fold, family, size) for fold, family in jobs)
        scores, seconds = np.full((len(candidates), len(self.folds)), np.nan), np.zeros(len(candidates))
        for (fold, _), run in zip(jobs, runs):
            for place, candidate in enumerate(candidates):
                if candidate in run.scores:
                    scores[place, fold] = run.scores[candidate]
                    seconds[place] += run.seconds[candidate] / len(self.folds)
        return scores, seconds

    def _path(self, fold: int, family: list[Candidate], size: int) -> _Run:
        """One fold: slack weights from light to heavy, each fit from the last; components are cut from one fit."""
        train, test = self.folds[fold]
        if size < len(train):
            train = np.random.default_rng(fold).permutation(train)[:size]
        (A, y), (B, z) = ((self.X[rows], self.y[rows]) for rows in (train, test))
        learner = clone(self.template)
        run = _Run({}, {})
        for weight in sorted({c.slack_weight for c in family}):
            if time.monotonic() > self.deadline:
                break
            start = time.perf_counter()
            prior, strategy = family[0].family
            if strategy is None:
                components = prior_components(A, prior)
            else:
                learner.set_params(prior=prior, strategy=strategy, slack_weight=weight, callback=self._is_late)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # of a fold: not converged, or a class with one point
                    try:
                        components = learner.fit(A, y).components_
                    except SolverError:
                        continue
                if time.monotonic() > self.deadline:
                    break
            seconds = time.perf_counter() - start
            for candidate in (c for c in family if c.slack_weight == weight):
                kept = components[: candidate.n_components]
                model = clone(self.estimator).fit(A @ kept.T, y)
                run.scores[candidate], run.seconds[candidate] = float(self.scorer(model, B @ kept.T, z)), seconds
        return run

    def _is_late(self, record: Any) -> bool:
        return time.monotonic() > self.deadline


def _choose(candidates: list[Candidate], scores: np.ndarray, places: list[int]) -> int:
    """The simplest that is within a standard error of the best, fold by fold, and no worse than the best unlearned."""
    means = scores.mean(axis=1)
    best = int(np.argmax(means))
    floor = max((mean for c, mean in zip(candidates, means) if not c.strategy), default=-np.inf)
    eligible = []
    for k, candidate in enumerate(candidates):
        behind = scores[best] - scores[k]
        error = behind.std(ddof=1) / np.sqrt(len(behind)) if len(behind) > 1 else 0.0
        if behind.mean() <= error and means[k] >= floor:
            eligible.append((candidate.complexity, -means[k], places[k]))
    return min(eligible)[2]


def _described(params: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """``params`` and a masked column for each of them."""
    rows = list(params)
    table: dict[str, Any] = {"params": rows}
    for name in ("prior", "strategy", "slack_weight", "n_components"):
        column = np.ma.MaskedArray(
            [row.get(name) for row in rows], mask=[name not in row for row in rows], dtype=object
        )
        table[f"param_{name}"] = column
    return table


def _listed(name: str, values: Any) -> list[Any]:
    """A list of candidates' values; a single one is no list."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence of values to try, such as ({values!r},); got {values!r}.")
    listed = list(values)
    if not listed:
        raise ValueError(f"{name} must hold at least one value to try; got {values!r}.")
    return listed


def _seed(random_state: Any) -> int:
    return int(generator(random_state).integers(2**31))
