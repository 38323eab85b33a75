"""What searches among settings of a learner share, not learning among them: parameters, the fit, files; `candidates` has the comparing."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_consistent_length, column_or_1d

from bregmat.base.checks import as_choice, as_column, check_integer, check_positive
from bregmat.base.interrupts import held_interrupts, is_interrupted, take_interrupt
from bregmat.base.sampling import check_random_state, generator
from bregmat.coordinates.priors import Factor
from bregmat.estimators.base import AllOrNothing, check_labelled, check_verbose, say
from bregmat.estimators.candidates import Candidate, Search, in_words
from bregmat.estimators.learner import ConstraintLearner, point_weights, present
from bregmat.from_labels.labels import STRATEGIES, as_kinds
from bregmat.typing import Labels, Points, RandomState, Strategy, Values

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

    _learner: ClassVar[type[ConstraintLearner]]
    _learner_settings: ClassVar[dict[str, Any]] = {}  # of the learner where none is given

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
    def _map(self, candidate: Any, learner: Any, X: Any, codes: np.ndarray) -> Callable[[Any], np.ndarray]:
        """What maps points to features, from training points X and the class of each (-1 where it is not known).

        The learner is fitted to them; None where nothing is learned.
        """

    @abstractmethod
    def _keep(self, X: Any, candidate: Any, codes: np.ndarray) -> None:
        """Set what is chosen, from all points, the class of each and ``best_learner_``."""

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
        check_labelled(self, y)
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
            codes = as_kinds(y, X.shape[0], "neighbors", unlabeled=template.unlabeled).codes
            search = Search(self, template, X, y, groups, codes, weight)
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
                X, y, codes, weight = X[here], y[here], codes[here], None if weight is None else weight[here]
            if chosen.strategy is not None:
                self.best_learner_ = self._fitted(clone(template).set_params(**self._settings(chosen, X)), X, y, weight)
            with held_interrupts():
                self._keep(X, chosen, codes)
        return self

    def _fitted(self, learner: ConstraintLearner, X: Any, y: Any, weight: np.ndarray | None) -> ConstraintLearner:
        """The learner fitted to all rows, as far as that came."""
        if self.verbose:
            say(f"fit to all rows: {in_words(self.best_params_)}")
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
            f"to all rows. The best of them: {in_words(self.best_params_)}."
        )

    def _ending(self) -> str:
        learned = "" if self.best_learner_ is None else f"; {self.best_learner_._ending()}"
        return f"{in_words(self.best_params_)}, score {self.best_score_:.4f}{learned}"

    def _template(self) -> ConstraintLearner:
        """The learner with all settings that are not searched."""
        kind = self._learner
        if self.learner is not None and not isinstance(self.learner, kind):
            raise TypeError(f"learner must be a {kind.__name__} or None; got {type(self.learner).__name__}.")
        template = kind(**self._learner_settings) if self.learner is None else clone(self.learner)
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


def _seed(random_state: Any) -> int:
    return int(generator(random_state).integers(2**31))
