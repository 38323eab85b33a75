"""MetricLearnerCV: scaling, strategy, slack weight, components - or no learning at all - chosen by neighbours on inner folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.base.checks import as_choice
from bregmat.estimators.base import check_at_most, validated
from bregmat.estimators.candidates import Params
from bregmat.estimators.mahalanobis import MahalanobisMetric
from bregmat.estimators.metric import MetricLearner
from bregmat.estimators.priors import PRIORS
from bregmat.estimators.search import LearnerSearch, listed, sizes
from bregmat.typing import MetricPrior


@dataclass(eq=False, repr=False, kw_only=True)
class MetricLearnerCV(MahalanobisMetric, LearnerSearch):
    """Mahalanobis metric whose settings, and whether to learn at all, are chosen by neighbours on inner folds.

    Candidates are the learner as it is (by default ``MetricLearner()``, which decides by itself), the points as given and with scaled
    columns, then every prior with every strategy and number of components, and the other slack weights for the best of these. Each is
    scored by what its neighbours predict on folds that it has not seen; one that is behind the best on the first third of the folds is
    not scored on the others. The first candidate that is as good as the best, up to the standard error of their difference, is fitted
    to all rows. On these folds it is never worse than the learner as it is, nor than not learning.

    Parameters
    ----------
    priors : sequence of {"variance", "identity", "covariance", "within"}
        As in :class:`MetricLearner`.
    strategies : sequence of {"neighbors", "random", "uniform"}
        What is asked of labelled points, as in :class:`MetricLearner`.
    slack_weights : sequence of float
        Positive; relative to the learner's own, which "auto" makes depend on the number of rows. The first is tried with every prior,
        the others with the best.
    n_components : int, None, or sequence of them
        Components to keep, as in :class:`MetricLearner`; None is all.
    learner : MetricLearner, optional
        The first candidate, which has all other settings; by default ``MetricLearner()``.
    cv : int, splitter or iterable, optional
        Inner folds as in scikit-learn, where a number means folds of neighbouring rows. By default 5 folds drawn at random (of whole
        groups where ``groups`` are given), stratified for classes; below 300 rows they are drawn up to 3 times. Above 3,000 rows they
        are 3 samples of 2,000 rows to learn from and as many to predict.
    estimator : estimator, optional
        What is scored on the mapped points; by default 4 nearest neighbours, a classifier or a regressor by y.
    scoring : str or callable, optional
        As in scikit-learn; by default the estimator's own score.
    n_jobs : int, optional
        Processes, as in scikit-learn.
    max_seconds : float or None
        Time after which no candidate is begun, by default 60 s; None is no limit. The learner as it is and what is not learned are
        always scored, and the fit to all rows comes on top.
    random_state : int, Generator, RandomState or None
        Seed of folds and of drawn rows.
    verbose : int, optional
        1 prints each candidate with its score, and the fit to all rows; 0 nothing. By default 1 on a terminal and in a notebook, else 0.

    Attributes
    ----------
    best_params_ : dict
        prior, strategy, and, where something is learned, n_components and slack_weight (relative, as in ``slack_weights``); a strategy
        None says that not learning was chosen.
    best_score_ : float
        Mean score of the choice on the inner folds.
    best_index_ : int
        Its place in ``cv_results_``.
    best_learner_ : MetricLearner or None
        The learner fitted to all rows, with its ``result_``; None from a file.
    cv_results_ : dict of arrays
        One entry a candidate: ``params``, ``param_*``, ``split*_test_score``, ``mean_test_score``, ``std_test_score``,
        ``rank_test_score``, ``mean_fit_time`` in seconds, ``n_folds`` (that it was scored on, and that its mean is of;
        ``split*_test_score`` is nan on others).
    components_ : ndarray, shape (r, d)
        The map: ``transform(X)`` is ``X @ components_.T``.
    n_splits_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from bregmat import MetricLearnerCV
    >>> X, y = load_wine(return_X_y=True)
    >>> MetricLearnerCV(priors=("variance",), slack_weights=(1.0,), cv=3, random_state=0).fit(X, y).best_params_["strategy"]
    'auto'
    """

    priors: Sequence[MetricPrior] = ("variance", "identity", "within")
    n_components: int | None | Sequence[int | None] = None

    _last = "_fit_components"
    _learner = MetricLearner
    transform = MahalanobisMetric.transform  # a class's own, or set_output passes it by

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _baselines(self) -> list[Params]:
        own = self._template()
        prior = own.prior if isinstance(own.prior, str) else "given"
        default = {"prior": prior, "strategy": own.strategy, "n_components": own.n_components, "slack_weight": 1.0}
        return [default, {"prior": "identity", "strategy": None}, {"prior": "variance", "strategy": None}]

    def _starts(self) -> list[Params]:
        priors = [as_choice("priors", prior, PRIORS) for prior in listed("priors", self.priors)]
        numbers = sizes("n_components", self.n_components)
        return [{"prior": prior, "n_components": number} for prior in priors for number in numbers]

    def _set(self, learner: Any, params: Params, X: Any, n: int) -> Any:
        asked = {name: value for name, value in params.items() if (name, value) != ("prior", "given")}
        return super()._set(learner, asked, X, n)

    def _checked_points(self, X: Any) -> Any:
        X = validated(self, X, accept_sparse="csr", ensure_min_samples=2)
        check_at_most("n_components", max(c["n_components"] or 0 for c in self._starts()), X.shape[1], "features")
        return X

    def _keep(self, learner: Any) -> None:
        self._fit_components: np.ndarray = learner.components_
