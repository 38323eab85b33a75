"""MetricLearnerCV: a metric whose scaling, strategy, slack weight and number of components are chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.base.checks import as_choice
from bregmat.estimators.base import validated
from bregmat.estimators.candidates import Params
from bregmat.estimators.linear_maps import PRIORS
from bregmat.estimators.mahalanobis import MahalanobisMetric
from bregmat.estimators.metric import MetricLearner
from bregmat.estimators.search import LearnerSearch, listed, sizes
from bregmat.typing import MetricPrior


@dataclass(eq=False, repr=False, kw_only=True)
class MetricLearnerCV(MahalanobisMetric, LearnerSearch):
    """Mahalanobis metric whose settings are chosen by cross-validation; not learning is a candidate, too.

    The first candidate is the learner with its own settings, by default ``MetricLearner()``. The next two do not learn: the points as they
    are, and with scaled columns. Then each prior is combined with each strategy and number of components, and the best combination is
    tried with the other slack weights. The score of a candidate is the accuracy of nearest neighbours on held-out folds. A candidate that
    is behind the best one on the first third of the folds is not scored on the other folds. Of all candidates within one standard error of
    the best one, the first is fitted to all rows. On these folds it is never worse than the learner with its own settings or not learning.
    If the first candidate has the score 1 on every fold with the default ``estimator`` and ``scoring``, nothing else is learned: no
    score is higher.

    Parameters
    ----------
    priors : sequence of {"variance", "identity", "covariance", "within"}
        As in :class:`MetricLearner`.
    strategies : sequence of {"neighbors", "random", "uniform"}
        How labels become constraints, as in :class:`MetricLearner`.
    slack_weights : sequence of float
        Positive factors of the learner's slack weight, which depends on the number of rows if it is "auto". The first factor is tried with
        every prior, the others with the best combination.
    n_components : int, None, or sequence of them
        Components to keep, as in :class:`MetricLearner`. None keeps all of them.
    learner : MetricLearner, optional
        The first candidate. The other candidates take all settings from it that are not searched. By default ``MetricLearner()``.
    cv : int, splitter or iterable, optional
        Folds as in scikit-learn, where a number means folds of consecutive rows. By default there are 5 random folds, stratified for
        classes, or of whole groups if ``groups`` are given. For fewer than 300 rows the folds are drawn up to 3 times. For more than
        3,000 rows there are 3 samples of 2,000 training rows and at most as many test rows.
    estimator : estimator, optional
        Estimator that is scored on the mapped points. By default 4 nearest neighbours, a classifier or a regressor according to y.
    scoring : str or callable, optional
        As in scikit-learn. By default the ``score`` of the estimator.
    n_jobs : int, optional
        Number of processes, as in scikit-learn.
    max_seconds : float or None
        Time limit in seconds after which no candidate is started, by default 60; None is no limit. The first three candidates are always
        scored. The fit to all rows is not counted.
    random_state : int, Generator, RandomState or None
        Seed for folds and for drawing constraints.
    verbose : int, optional
        1 prints each candidate with its score, and the fit to all rows; 0 prints nothing. By default 1 on a terminal and in a notebook,
        otherwise 0.

    Attributes
    ----------
    best_params_ : dict
        prior, strategy, n_components and slack_weight (a factor, as in ``slack_weights``) of the chosen candidate. If strategy is None,
        not learning was chosen, and the last two are missing.
    best_score_ : float
        Mean score of the chosen candidate on the folds.
    best_index_ : int
        Index of the chosen candidate in ``cv_results_``.
    best_learner_ : MetricLearner or None
        The learner fitted to all rows, with its ``result_``. It is None if the search was loaded from a file.
    cv_results_ : dict of arrays
        One entry per candidate: ``params``, ``param_*``, ``split*_test_score``, ``mean_test_score``, ``std_test_score``,
        ``rank_test_score``, ``mean_fit_time`` in seconds, and ``n_folds``. A candidate was scored on ``n_folds`` folds, over which its mean
        is taken; its ``split*_test_score`` is nan on the others.
    components_ : ndarray, shape (r, d)
        The learned map: ``transform(X)`` is ``X @ components_.T``.
    n_splits_, n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from bregmat import MetricLearnerCV
    >>> X, y = load_wine(return_X_y=True)
    >>> MetricLearnerCV(priors=("variance",), slack_weights=(1.0,), cv=3, random_state=0).fit(X, y).best_params_["strategy"]
    'neighbors'
    """

    priors: Sequence[MetricPrior] = ("variance", "identity", "within")
    n_components: int | None | Sequence[int | None] = None

    _last = "_fit_components"
    _learner = MetricLearner
    transform = MahalanobisMetric.transform  # set_output wraps only methods that the class itself defines

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
        k, d = max(start["n_components"] or 0 for start in self._starts()), X.shape[1]
        if k > d:
            raise ValueError(f"n_components must be at most {d}, the number of features; got {k}.")
        return X

    def _keep(self, learner: Any) -> None:
        self._fit_components: np.ndarray = learner.components_
