"""KernelLearnerCV: kernel, its coefficient, rank, strategy, slack weight - or no learning at all - chosen on inner folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import clone

from bregmat.base.checks import check_positive
from bregmat.estimators.base import validated
from bregmat.estimators.kernel import KernelLearner, KernelOfMap
from bregmat.estimators.learned_kernel import FactorMap, unlearned
from bregmat.estimators.search import Candidate, LearnerSearch, listed, sizes
from bregmat.kernels import KernelFunction
from bregmat.kernels.definite import check_given
from bregmat.kernels.functions import gamma_of
from bregmat.typing import KernelName


@dataclass(frozen=True)
class KernelCandidate(Candidate):
    """A kernel of a rank, or what is learned from it."""

    kernel: Any
    gamma: Any = None
    rank: int | None = None

    @property
    def size(self) -> int | None:
        return self.rank


@dataclass(eq=False, repr=False, kw_only=True)
class KernelLearnerCV(KernelOfMap, LearnerSearch):
    """Kernel whose settings, and whether to learn at all, are chosen by neighbours on inner folds.

    As :class:`MetricLearnerCV`: candidates are every kernel, coefficient and rank with every strategy and slack weight, and every
    kernel as it is, scored by what its neighbours predict on folds that it has not seen. The simplest is of low rank, then of the
    slack weight nearest to the learner's own (n / 500 times it from more than 500 rows). What is chosen is never worse, on these
    folds, than the best kernel unlearned.

    Parameters
    ----------
    kernels : sequence of str or callable
        As in :class:`KernelLearner`; "precomputed" stands alone.
    gammas : sequence of {"scale", "auto"}, float or None
        Coefficients of the kernels that have one. "scale" is 1 / (d var), with the variance of all entries of the training points;
        "auto" and None are 1 / d (1 for "chi2" with None).
    rank : int, None, or sequence of them
        As in :class:`KernelLearner`, at most the number of points; "linear" is X itself where that has no more columns. None is
        full rank, where every point is in a row of "neighbors": 800 points take ten times as long as with rank 100.
    learner : KernelLearner, optional
        Has all other settings; degree, coef0 and kernel_params of the kernels, too.
    strategies, slack_weights, cv, estimator, scoring, n_jobs, max_seconds, random_state, verbose
        As in :class:`MetricLearnerCV`; the estimator is scored on features whose inner products are the kernel.

    Attributes
    ----------
    best_params_ : dict
        kernel, gamma, rank, strategy, slack_weight; a strategy None says that not learning was chosen.
    best_learner_ : KernelLearner or None
        The learner fitted to all rows, with its ``result_``; None where nothing is learned, or from a file.
    kernel_ : ndarray, shape (n, n)
        The chosen kernel on the training points; see :class:`KernelLearner`.
    captured_trace_ : float
        Share of the trace of the kernel before learning that the rank holds, 0 to 1.
    best_score_, best_index_, cv_results_, n_splits_, X_fit_, n_features_in_, feature_names_in_
        As in :class:`MetricLearnerCV` and :class:`KernelLearner`.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from bregmat import KernelLearnerCV
    >>> X, y = load_wine(return_X_y=True)
    >>> chooser = KernelLearnerCV(kernels=("linear",), rank=None, slack_weights=(1.0,), cv=3, random_state=0).fit(X, y)
    >>> chooser.best_params_["strategy"]
    'neighbors'
    """

    kernels: Sequence[KernelName | Callable[..., Any]] = ("rbf", "linear")
    gammas: Sequence[Literal["scale"] | float | None] = ("scale",)
    rank: int | None | Sequence[int | None] = 100

    _last = "_fit_map"
    _learner: ClassVar[type] = KernelLearner
    transform = KernelOfMap.transform  # a class's own, or set_output passes it by

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kernels = [KernelFunction(kernel) for kernel in self.kernels]
        tags.input_tags.pairwise = any(kernel.is_precomputed for kernel in kernels)
        tags.input_tags.positive_only = any(kernel.facts.is_positive_only for kernel in kernels)
        tags.input_tags.sparse = bool(self._accept_sparse)
        return tags

    @property
    def _accept_sparse(self) -> str | bool:
        return all(KernelFunction(kernel).accept_sparse for kernel in self.kernels) and "csr"

    # ------------------------------------------------------------------ the search
    def _candidates(self) -> list[KernelCandidate]:
        kernels = listed("kernels", self.kernels)
        ranks = sizes("rank", self.rank)
        gammas = listed("gammas", self.gammas)
        for gamma in gammas:
            if gamma is not None and gamma not in ("scale", "auto"):
                check_positive("gammas", gamma, finite=True)
        starts = []
        for kernel in kernels:
            try:
                function = KernelFunction.of(kernel)
            except (TypeError, ValueError) as error:
                raise type(error)(f"kernels: {error}") from error
            ways = product(gammas if function.takes_gamma else [None], ranks)
            starts += [KernelCandidate(kernel, gamma, rank) for gamma, rank in ways]
        if "precomputed" in kernels and len(kernels) > 1:
            raise ValueError(f"kernels must hold nothing beside 'precomputed', whose points are rows; got {kernels!r}.")
        return self._with_learned(starts)

    def _checked_points(self, X: Any, candidates: list[KernelCandidate]) -> Any:
        X = validated(self, X, accept_sparse=self._accept_sparse, ensure_min_samples=2)
        if candidates[0].kernel == "precomputed":
            check_given(X)
        return X

    def _settings(self, candidate: KernelCandidate, X: Any) -> dict[str, Any]:
        """Parameters of the learner, with numbers for rules."""
        kernel, gamma, rank = candidate.kernel, candidate.gamma, candidate.rank
        n, d = X.shape
        if rank is not None:
            rank = None if kernel == "linear" and d <= rank else min(rank, n)
        settings = {"kernel": kernel, "gamma": gamma_of(X, gamma) if isinstance(gamma, str) else gamma, "rank": rank}
        return candidate.params() | settings

    def _map(self, candidate: KernelCandidate, learner: Any, X: Any, codes: np.ndarray) -> Callable[[Any], np.ndarray]:
        return self._unlearned(candidate, X).transform if learner is None else learner.transform

    def _unlearned(self, candidate: KernelCandidate, X: Any) -> FactorMap:
        """The kernel of a candidate as it is."""
        settings = self._settings(candidate, X)
        learner = KernelLearner() if self.learner is None else clone(self.learner)
        base = learner.set_params(kernel=settings["kernel"], gamma=settings["gamma"])._kernel_function()
        return unlearned(X, base.given(X), settings["rank"])

    def _keep(self, X: Any, candidate: KernelCandidate, codes: np.ndarray) -> None:
        learner = self.best_learner_
        self._fit_map = self._unlearned(candidate, X) if learner is None else learner._fit_map
        self.captured_trace_: float = self._fit_map.captured
