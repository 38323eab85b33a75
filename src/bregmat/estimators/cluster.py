"""KernelKMeans: k-means in the space of a kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import check_random_state as random_state_of
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from bregmat.base.checks import check_integer, check_positive, check_random_state, to_numpy
from bregmat.base.linalg import dense, sq_norms
from bregmat.base.points import copied_to_host
from bregmat.base.threads import on_one_blas_thread, take_interrupt
from bregmat.base.tolerances import RANK_TOL
from bregmat.estimators.base import AllOrNothing, KernelEstimator, sample_weights, validated
from bregmat.estimators.lloyd import WeightedPoints, best_start, kernel_lloyd
from bregmat.kernels import KernelFunction
from bregmat.kernels.definite import check_entries, check_given
from bregmat.kernels.functions import SINGLE
from bregmat.kernels.lowrank import incomplete_cholesky
from bregmat.typing import KernelName, Points, RandomState, Values

_DTYPES = [np.float64, np.float32]


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class KernelKMeans(KernelEstimator, AllOrNothing, ClusterMixin, BaseEstimator):
    """K-means clustering in the space of a kernel.

        minimize over labels:   sum_i w_i |phi(x_i) - m_label(i)|^2
        with m_c the weighted mean of cluster c

    For a learned kernel use ``kernel="linear"`` on ``learner.transform(X)`` or ``result.factor``, which takes O(n r k) operations per
    iteration, or ``kernel="precomputed"`` on ``learner.kernel_``, which takes O(n^2 k). Both minimise the same objective.

    Parameters
    ----------
    n_clusters : int
        At least 1, at most the number of points.
    kernel : str or callable
        With "linear", X contains features, and :class:`sklearn.cluster.KMeans` does the iterations. With "precomputed", X is the
        kernel (n, n), positive semidefinite. Otherwise the name of one of scikit-learn's pairwise kernels, or a function of (X, Y)
        that returns the (n, m) array of values.
    gamma, degree, coef0, kernel_params
        As in :class:`bregmat.KernelLearner`.
    rank : int, optional
        For large n: number of columns of the kernel from which features are computed (pivoted incomplete Cholesky); at most n.
    n_init : int
        Number of starts from different k-means++ seeds; the best one is kept.
    max_iter : int
        Maximum number of iterations of a start.
    tol : float
        Tolerance at which a start ends, at least 0. With features it is that of ``KMeans``; with a kernel it is the relative
        decrease of the inertia in an iteration.
    random_state : int, RandomState or None
        Seed for drawing the k-means++ seeds.

    Attributes
    ----------
    labels_ : ndarray of int, shape (n,)
    inertia_ : float
        The objective: weighted sum of squared distances to the means, in units of the kernel.
    n_iter_ : int
        Iterations of the best start.
    cluster_centers_ : ndarray, shape (n_clusters, r)
        Means; with features only.
    dual_coef_ : ndarray, shape (n, n_clusters)
        Means as weights of the training points; with a kernel only.
    captured_trace_ : float
        Fraction of the trace of the kernel that its approximation of rank ``rank`` contains; 1 without ``rank``.
    n_features_in_ : int

    Notes
    -----
    Dhillon, Guan and Kulis 2004; the clustering of Kulis 2009, section 7. A point of weight 2 counts as two points of weight 1, also when
    seeds are drawn. An empty cluster gets the point farthest from its centre. If there are fewer different points than
    clusters, there is one ``ConvergenceWarning``. ``predict`` on the training data returns ``labels_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bregmat.estimators import KernelKMeans
    >>> X, _ = load_iris(return_X_y=True)
    >>> KernelKMeans(3, kernel="rbf", gamma=0.1, random_state=0).fit_predict(X).shape
    (150,)
    """

    n_clusters: int = field(default=8, kw_only=False)
    kernel: KernelName | Callable[..., Any] = "linear"
    rank: int | None = None
    n_init: int = 10
    max_iter: int = 300
    tol: float = 1e-4
    random_state: RandomState = None

    _last = "_fit_base"

    def fit(self, X: Points, y: object = None, sample_weight: Values | None = None) -> KernelKMeans:
        """Find the clusters.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d)
            Points; kernel values (n, n) with "precomputed". A tensor on a GPU is copied to the host.
        y : ignored
        sample_weight : array-like, shape (n,), optional
            Nonnegative, dimensionless; not all 0.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            A parameter or an input is invalid, and the message names it; or the kernel is not positive semidefinite: an entry ``K_ii``
            or ``K_ii + K_jj - 2 K_ij`` is negative (with ``rank``, among the columns used). No fitted attributes are set.
        KeyboardInterrupt
            After Ctrl-C. If a start has ended, the best clusters so far are kept, and a RuntimeWarning says so.
        """
        with self._fitting():
            self._check_parameters()
            X, _ = copied_to_host("X", X)
            n_found = self._fit(X, sample_weight, self._kernel_function().given(X))
        if n_found < self.n_clusters:
            warnings.warn(
                f"Number of distinct clusters ({n_found}) found smaller than n_clusters ({self.n_clusters}). Possibly due "
                "to duplicate points in X.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _fit(self, X: Any, sample_weight: Any, base: KernelFunction) -> int:
        """Set the fitted attributes. Returns the number of different clusters."""
        X = validated(self, X, accept_sparse=base.accept_sparse, dtype=_DTYPES, order="C")
        n = X.shape[0]
        for name in ("n_clusters", "rank"):
            value = getattr(self, name)
            if value is not None and value > n:  # scikit-learn's checks look for "n_samples="
                raise ValueError(f"{name} must be at most n_samples={n}, the number of points; got {value}.")
        if base.is_precomputed:
            check_given(X)
        weights = sample_weights(sample_weight, n)
        if not weights.sum() > 0:
            raise ValueError("sample_weight must not be zero for every point.")
        rng = random_state_of(self.random_state)
        self._fit_points, self._fit_pivots, self.captured_trace_ = None, None, 1.0
        if self.rank is not None:
            X = X.astype(np.float64, copy=False)
            G, pivots = incomplete_cholesky(
                partial(base.block, X), base.diagonal(X), int(self.rank), tol=max(RANK_TOL, base.rounding)
            )
            self._fit_points, self._fit_pivots = base.points(X, pivots.rows), pivots
            self.captured_trace_ = pivots.captured
            n_found = self._fit_features(G, weights, rng)
        elif base.kernel == "linear":
            n_found = self._fit_features(X, weights, rng)
        else:
            K = np.asarray(X if base.is_precomputed else base(X), dtype=np.float64)
            check_entries(K, replace(base, rounding=SINGLE) if X.dtype == np.float32 else base)
            n_found = self._fit_kernel(K, weights, rng)
            if not base.is_precomputed:
                self._fit_points = X
        self._fit_base = base  # predict uses the kernel of the fit, even if parameters are changed later
        return n_found

    def _fit_features(self, X: Any, weights: np.ndarray, rng: np.random.RandomState) -> int:
        """Cluster features by scikit-learn's KMeans, from seeds drawn here. Returns the number of different clusters."""
        with_mean = X @ np.asarray(X.T @ (weights / weights.sum())).ravel()
        points = WeightedPoints(weights, sq_norms(X), with_mean, lambda rows: np.asarray(X @ dense(X[rows]).T))
        runs = []
        for _ in range(self.n_init):
            init = dense(X[points.seeds(self.n_clusters, rng)])
            one = KMeans(self.n_clusters, init=init, n_init=1, max_iter=self.max_iter, tol=self.tol, random_state=0)
            # sums of several OpenMP threads depend on their order; fit warns once of too few different points
            with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                try:
                    runs.append(one.fit(X, sample_weight=weights))
                except KeyboardInterrupt:
                    if not runs:
                        raise
                    take_interrupt()
                    break
        best = runs[best_start([run.inertia_ for run in runs])]
        self.labels_: np.ndarray = best.labels_
        self.inertia_ = float(best.inertia_)
        self.n_iter_: int = best.n_iter_
        self.cluster_centers_: np.ndarray = best.cluster_centers_
        return len(np.unique(best.labels_))

    def _fit_kernel(self, K: np.ndarray, weights: np.ndarray, rng: np.random.RandomState) -> int:
        """Cluster the points of a kernel matrix. Returns the number of different clusters."""
        points = WeightedPoints(weights, K.diagonal(), K @ (weights / weights.sum()), lambda rows: K[rows].T)
        seeds = np.stack([points.seeds(self.n_clusters, rng) for _ in range(self.n_init)])
        clustering, n_empty = kernel_lloyd(K, weights, seeds, max_iter=self.max_iter, tol=float(self.tol))
        self.labels_ = clustering.labels.astype(np.int32)
        self.inertia_, self.n_iter_ = clustering.inertia[-1], clustering.n_iter
        self.dual_coef_, self.sq_norms_ = clustering.weights, clustering.sq_norms
        return self.n_clusters - n_empty

    def predict(self, X: Points) -> np.ndarray:
        """Nearest mean of each point.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (m, d)
            Points; with "precomputed" kernel values between them and all training points, shape (m, n).

        Returns
        -------
        ndarray of int, shape (m,)
        """
        check_is_fitted(self)
        base = self._fit_base
        X = to_numpy("X", X)
        X = validated(self, X, accept_sparse=base.accept_sparse, dtype=_DTYPES, order="C", reset=False)
        if self._fit_pivots is not None:
            X = self._fit_pivots.coordinates(base.columns(X.astype(np.float64, copy=False), self._fit_points))
        if hasattr(self, "cluster_centers_"):
            centres = self.cluster_centers_.astype(X.dtype, copy=False)
            return pairwise_distances_argmin(X, centres).astype(np.int32)
        K = X if base.is_precomputed else base(X, self._fit_points)
        D = self.sq_norms_ - 2.0 * (np.asarray(K, dtype=np.float64) @ self.dual_coef_)
        D[:, ~self.dual_coef_.any(axis=0)] = np.inf
        return D.argmin(axis=1).astype(np.int32)

    def _check_parameters(self) -> None:
        """Raise for a parameter that is invalid for any data."""
        for name in ("n_clusters", "n_init", "max_iter"):
            check_integer(name, getattr(self, name), 1, optional=False)
        check_integer("rank", self.rank, 1)
        check_positive("tol", self.tol, finite=True, zero=True)
        check_random_state(self.random_state)
        self._kernel_function()

    def _progress(self) -> str:
        return f"before all starts had ended; the best by then is kept: inertia {self.inertia_:.6g}."
