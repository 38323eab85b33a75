"""Base class of the searches over settings of a learner: parameters and fit. ``candidates`` scores and chooses."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_consistent_length, column_or_1d

from bregmat.base.checks import as_choice, as_column, check_integer, check_positive, check_random_state, generator
from bregmat.base.threads import held_interrupts, is_interrupted, take_interrupt
from bregmat.coordinates.priors import Factor
from bregmat.estimators.base import AllOrNothing, check_labelled, is_watched, say
from bregmat.estimators.candidates import Params, Search, TrainingRows, in_words
from bregmat.estimators.given import point_weights, present
from bregmat.estimators.learner import ConstraintLearner
from bregmat.from_labels.neighbors import STRATEGIES, as_kinds
from bregmat.typing import Labels, Points, RandomState, Strategy, Values


@dataclass(eq=False, repr=False, kw_only=True)
class LearnerSearch(AllOrNothing, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Search over the settings of a learner by cross-validation. Subclasses list the candidates and keep the map of the chosen one."""

    strategies: Sequence[Strategy] = ("neighbors",)
    slack_weights: Sequence[float] = (1.0, 0.1, 10.0)
    learner: Any = None
    cv: Any = None
    estimator: Any = None
    scoring: Any = None
    n_jobs: int | None = None
    max_seconds: float | None = 60.0
    random_state: RandomState = None
    verbose: int | None = None

    _learner: ClassVar[type[ConstraintLearner]]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------------------------------ what subclasses define
    @abstractmethod
    def _baselines(self) -> list[Params]:
        """Candidates that are always scored. The learner with its own settings is the first, if it is one of them."""

    @abstractmethod
    def _starts(self) -> list[Params]:
        """All combinations of the searched settings except strategies and slack weights. Raises for invalid ones."""

    @abstractmethod
    def _checked_points(self, X: Any) -> Any:
        """The training points. Raises if a candidate cannot be fitted to them."""

    @abstractmethod
    def _keep(self, learner: Any) -> None:
        """Set the attributes that map points from the learner that was fitted to all rows."""

    def _set(self, learner: ConstraintLearner, params: Params, X: Any, n: int) -> ConstraintLearner:
        """The learner with the settings of a candidate, for n training points that are rows of X."""
        learner.set_params(**{name: value for name, value in params.items() if name != "slack_weight"})
        factor = params.get("slack_weight", 1.0)
        return learner if factor == 1.0 else learner.set_params(slack_weight=factor * learner.usual_slack_weight(n))

    # ------------------------------------------------------------------ fit
    def fit(
        self, X: Points | Factor, y: Labels, *, groups: Labels | None = None, sample_weight: Values | None = None
    ) -> Self:
        """Compare the candidates on folds, then fit the chosen one to all rows.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d)
            Points; finite. Kernel values (n, n) with the kernel "precomputed".
        y : array-like, shape (n,) or (n, n_labels)
            Classes, real numbers, or sets of labels as 0 and 1. Rows without a label are not used in the scores.
        groups : array-like, shape (n,), optional
            Groups for a splitter that keeps groups together.
        sample_weight : array-like, shape (n,), optional
            Weight of each point in learning, as in :meth:`MetricLearner.fit`. Points of weight 0 are left out. In the scores all other
            points have the same weight.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C. If it came during the comparison, ``cv_results_`` and ``best_params_`` contain the candidates that were scored on
            all folds. If it came later, the chosen candidate is kept as far as it was fitted. A RuntimeWarning says which of the two.
        """
        check_labelled(self, y)
        with self._fitting():
            self._check_parameters()
            template = self._template()
            X = self._checked_points(X)
            check_consistent_length(X, y)
            if groups is not None and np.shape(groups) != (X.shape[0],):
                raise ValueError(f"groups must have one entry a row of X ({X.shape[0]}); got shape {np.shape(groups)}.")
            y = np.asarray(y)
            y = column_or_1d(y, warn=True) if y.ndim == 2 and y.shape[1] == 1 else y
            weight = None if sample_weight is None else point_weights(sample_weight, X.shape[0])
            here = np.arange(X.shape[0]) if weight is None else present(self, X, weight)
            data = TrainingRows(X, y, None if groups is None else np.asarray(groups), weight)
            kinds = as_kinds(y, X.shape[0], "neighbors", unlabeled=template.unlabeled)
            kinds.compared()  # raises if there is nothing to learn; on folds this would be a warning
            self._search(data.of(kinds.labelled, template), template)
            self.best_learner_: Any = None
            self.best_learner_ = self._fitted(clone(template), data.of(here, template))
            with held_interrupts():
                self._keep(self.best_learner_)
        return self

    def _search(self, data: TrainingRows, template: ConstraintLearner) -> None:
        """Score the candidates on folds; set ``cv_results_`` and the ``best_`` attributes."""
        search = Search(self, data, template)
        self.n_splits_ = len(search.folds)
        try:
            search.run(self._baselines(), self._starts())
        except KeyboardInterrupt:
            if not search.is_whole.any():
                raise
            take_interrupt()
        self.cv_results_: dict[str, Any] = search.table()
        self.best_index_: int = search.chosen()
        self.best_params_: Params = search.candidates[self.best_index_]
        self.best_score_: float = float(self.cv_results_["mean_test_score"][self.best_index_])
        if is_interrupted():
            raise KeyboardInterrupt

    def _fitted(self, learner: ConstraintLearner, data: TrainingRows) -> ConstraintLearner:
        """The learner with the chosen settings, fitted to all rows; after Ctrl-C with its best iterate."""
        if self._is_verbose:
            say(f"fit to all rows: {in_words(self.best_params_)}")
        learner = self._set(learner, self.best_params_, data.X, data.X.shape[0])
        learner.set_params(verbose=max(learner.verbose, self.verbose or 0))
        try:
            return learner.fit(data.X, data.y, sample_weight=data.weight)
        except KeyboardInterrupt:
            if not learner.__sklearn_is_fitted__():
                raise
            take_interrupt()
            return learner

    @property
    def _is_verbose(self) -> bool:
        return is_watched() if self.verbose is None else self.verbose > 0

    def _keeps_something(self) -> bool:
        return "best_score_" in vars(self)

    def _progress(self) -> str:
        if self.__sklearn_is_fitted__():
            return "in the fit to all rows: best_learner_ is fitted as far as it came."
        n = len(self.cv_results_["params"])
        n_done = int((self.cv_results_["n_folds"] == self.n_splits_).sum())
        return (
            f"with {n_done} of {n} candidates compared: cv_results_, best_params_ and best_score_ describe these, and nothing is fitted "
            f"to all rows. The best of them is: {in_words(self.best_params_)}."
        )

    def _ending(self) -> str:
        return f"{in_words(self.best_params_)}, score {self.best_score_:.4f}; {self.best_learner_._ending()}"

    def _template(self) -> ConstraintLearner:
        """A learner with the settings that are not searched."""
        kind = self._learner
        if self.learner is not None and not isinstance(self.learner, kind):
            raise TypeError(f"learner must be a {kind.__name__} or None; got {type(self.learner).__name__}.")
        template = kind() if self.learner is None else clone(self.learner)
        if self.random_state is not None:
            template.set_params(random_state=int(generator(self.random_state).integers(2**31)))
        return template

    def _check_parameters(self) -> None:
        """Raise for a parameter that is invalid for any data."""
        self._starts()
        for strategy in listed("strategies", self.strategies):
            as_choice("strategies", strategy, STRATEGIES)
        for weight in as_column("slack_weights", listed("slack_weights", self.slack_weights)):
            check_positive("slack_weights", float(weight), finite=True)
        if self.max_seconds is not None:
            check_positive("max_seconds", self.max_seconds)
        check_random_state(self.random_state)
        check_integer("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0)
        check_integer("n_jobs", self.n_jobs, -sys.maxsize)
        if self.n_jobs == 0:
            raise ValueError("n_jobs must be a number of processes, -1 for all, or None; got 0.")


def listed(name: str, values: Any) -> list[Any]:
    """The values to try as a list. Raises for a single value, which is not a sequence."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a sequence of values to try, such as ({values!r},); got {values!r}.")
    found = list(values)
    if not found:
        raise ValueError(f"{name} must hold at least one value to try; got {values!r}.")
    return found


def sizes(name: str, values: Any) -> list[int | None]:
    """Numbers of dimensions to try, from one number, None, or a sequence of them."""
    found = listed(name, values) if isinstance(values, Iterable) else [values]
    for number in found:
        check_integer(name, number, 1)
    return found
