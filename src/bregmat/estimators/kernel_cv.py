"""KernelLearnerCV: a kernel whose function, coefficient, rank, strategy and slack weight are chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Literal

from bregmat.base.checks import check_positive
from bregmat.estimators.base import validated
from bregmat.estimators.candidates import Params
from bregmat.estimators.kernel import KernelLearner, KernelOfMap
from bregmat.estimators.search import LearnerSearch, listed, sizes
from bregmat.kernels import KernelFunction
from bregmat.kernels.definite import check_given
from bregmat.kernels.functions import gamma_of
from bregmat.typing import KernelName


@dataclass(eq=False, repr=False, kw_only=True)
class KernelLearnerCV(KernelOfMap, LearnerSearch):
    """Kernel whose settings are chosen by cross-validation; not learning is a candidate, too.

    The search is that of :class:`MetricLearnerCV`. The first candidates do not learn: each kernel with each coefficient and rank. Then each
    of these is combined with each strategy, and the best combination is tried with the other slack weights. The score of a candidate is the
    accuracy of nearest neighbours on held-out folds. On these folds the chosen candidate is never worse than the best prior kernel.

    Parameters
    ----------
    kernels : sequence of str or callable
        As in :class:`KernelLearner`. "precomputed" must be the only one.
    gammas : sequence of {"scale", "auto"}, float or None
        Coefficients for the kernels that have one. "scale" is 1 / (d var), where var is the variance of all entries of the labelled
        points. "auto" and None are 1 / d, except that None is 1 for "chi2".
    rank : int, None, or sequence of them
        As in :class:`KernelLearner`, at most the number of points. "linear" uses X itself if X has at most that many columns. None is full
        rank; with "neighbors", 800 points then take ten times as long as with rank 100, because every point is in a constraint.
    learner : KernelLearner, optional
        All settings that are not searched, ``degree``, ``coef0`` and ``kernel_params`` included.
    strategies, slack_weights, cv, estimator, scoring, n_jobs, max_seconds, random_state, verbose
        As in :class:`MetricLearnerCV`. The estimator is scored on features whose inner products are the kernel.

    Attributes
    ----------
    best_params_ : dict
        kernel, gamma, rank, strategy and slack_weight of the chosen candidate. If strategy is None, not learning was chosen.
    best_learner_ : KernelLearner or None
        The learner fitted to all rows, with its ``result_``. It is None if the search was loaded from a file.
    kernel_ : ndarray, shape (n, n)
        The chosen kernel on the training points; see :class:`KernelLearner`.
    captured_trace_ : float
        Fraction of the trace of the prior kernel that its approximation contains, 0 to 1.
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
    transform = KernelOfMap.transform  # set_output wraps only methods that the class itself defines

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
    def _baselines(self) -> list[Params]:
        return [start | {"strategy": None} for start in self._starts()]

    def _starts(self) -> list[Params]:
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
            starts += [{"kernel": kernel, "gamma": gamma, "rank": rank} for gamma, rank in ways]
        if "precomputed" in kernels and len(kernels) > 1:
            raise ValueError(f"kernels must hold nothing beside 'precomputed', whose points are rows; got {kernels!r}.")
        return starts

    def _template(self) -> Any:
        # With a precomputed kernel, folds are cut from rows and columns.
        return super()._template().set_params(kernel=self._starts()[0]["kernel"])

    def _checked_points(self, X: Any) -> Any:
        X = validated(self, X, accept_sparse=self._accept_sparse, ensure_min_samples=2)
        if self._starts()[0]["kernel"] == "precomputed":
            check_given(X)
        return X

    def _set(self, learner: Any, params: Params, X: Any, n: int) -> Any:
        """Replace rules by numbers: gamma is computed from X, and the rank is at most the number of points n."""
        gamma, rank = params["gamma"], params["rank"]
        if rank is not None:
            rank = None if params["kernel"] == "linear" and X.shape[1] <= rank else min(rank, n)
        numbers = {"gamma": gamma_of(X, gamma) if isinstance(gamma, str) else gamma, "rank": rank}
        return super()._set(learner, params | numbers, X, n)

    def _keep(self, learner: Any) -> None:
        self._fit_map = learner._fit_map
        self.captured_trace_: float = self._fit_map.captured
