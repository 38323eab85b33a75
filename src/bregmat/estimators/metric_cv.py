"""MetricLearnerCV: scaling, strategy, slack weight, components - or no learning at all - chosen by neighbours on inner folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.base.checks import as_choice
from bregmat.estimators.base import check_at_most, validated
from bregmat.estimators.mahalanobis import PRIORS, MahalanobisMetric, prior_components
from bregmat.estimators.metric import MetricLearner
from bregmat.estimators.search import Candidate, LearnerSearch, listed, sizes
from bregmat.typing import MetricPrior


@dataclass(frozen=True)
class MetricCandidate(Candidate):
    """A prior metric, or what is learned from it."""

    prior: str
    n_components: int | None = None

    of_learning: ClassVar[tuple[str, ...]] = ("slack_weight", "n_components")

    @property
    def size(self) -> int | None:
        return self.n_components


@dataclass(eq=False, repr=False, kw_only=True)
class MetricLearnerCV(MahalanobisMetric, LearnerSearch):
    """Mahalanobis metric whose settings, and whether to learn at all, are chosen by neighbours on inner folds.

    Candidates are every prior (which scales the columns, or turns them) with every strategy, slack weight and number of components, and
    every prior as it is. Each is scored by what its neighbours predict on folds that it has not seen; where the first third of the folds
    predicts 300 rows or more, the best third of those learned, by these folds, and all priors are scored on the others, too. Of those
    learned that beat the best prior unlearned, the simplest that is behind the best by no more than the standard error of their
    difference is fitted to all rows: few components, then the slack weight nearest to the learner's own (n / 500 times it from more than
    500 rows). Where none beats it, that prior is taken as it is.

    Parameters
    ----------
    priors : sequence of {"identity", "variance", "covariance", "within"}
        As in :class:`MetricLearner`.
    strategies : sequence of {"neighbors", "random", "uniform"}
        What is asked of labelled points, as in :class:`MetricLearner`.
    slack_weights : sequence of float
        Positive; tried from light to heavy, each fit starting from the last.
    n_components : int, None, or sequence of them
        Components to keep, as in :class:`MetricLearner`; None is all.
    learner : MetricLearner, optional
        Has all other settings; by default ``MetricLearner(passes=6)``: who pays for a search has rows drawn until they settle.
    cv : int, splitter or iterable, optional
        Inner folds as in scikit-learn, where a number means folds of neighbouring rows. By default 5 folds drawn at random (of whole
        groups where ``groups`` are given), stratified for classes; below 300 rows they are drawn up to 3 times.
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
    verbose : int
        1 prints how far the search is, at doubling numbers of fits and at least every second, and the fit to all rows; 2 every fit.

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
        ``rank_test_score``, ``mean_fit_time`` in seconds, ``n_samples`` (rows of the last round of halving that it reached),
        ``n_folds`` (that it was scored on, and that its mean is of; ``split*_test_score`` is nan on others).
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

    priors: Sequence[MetricPrior] = ("variance", "identity", "within")
    n_components: int | None | Sequence[int | None] = None

    _last = "_fit_components"
    _learner = MetricLearner
    _learner_settings: ClassVar[dict[str, Any]] = {"passes": 6, "strategy": "neighbors", "slack_weight": 1.0}
    transform = MahalanobisMetric.transform  # a class's own, or set_output passes it by

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _candidates(self) -> list[MetricCandidate]:
        priors = [as_choice("priors", prior, PRIORS) for prior in listed("priors", self.priors)]
        numbers = sizes("n_components", self.n_components)
        return self._with_learned([MetricCandidate(p) for p in priors], [{"n_components": n} for n in numbers])

    def _checked_points(self, X: Any, candidates: list[MetricCandidate]) -> Any:
        X = validated(self, X, accept_sparse="csr", ensure_min_samples=2)
        check_at_most("n_components", max(c.n_components or 0 for c in candidates), X.shape[1], "features")
        return X

    def _map(self, candidate: MetricCandidate, learner: Any, X: Any, codes: np.ndarray) -> Callable[[Any], np.ndarray]:
        if learner is not None:
            return learner.transform
        components = prior_components(X, candidate.prior, codes)
        return lambda Z: np.asarray(Z @ components.T)

    def _keep(self, X: Any, candidate: MetricCandidate, codes: np.ndarray) -> None:
        learner = self.best_learner_
        self._fit_components = prior_components(X, candidate.prior, codes) if learner is None else learner.components_
