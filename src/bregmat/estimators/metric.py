"""MetricLearner: a Mahalanobis metric from labels, constraints or both, as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from bregmat.checks import check_integer, check_positive
from bregmat.constraints import Constraints
from bregmat.coordinates import Factor
from bregmat.divergences import Divergence
from bregmat.estimators.components import principal_components
from bregmat.estimators.distance import MahalanobisDistance, pair_distances
from bregmat.estimators.priors import inverse_covariance
from bregmat.estimators.progress import Progress
from bregmat.estimators.rows import joined, renamed, rows_given, sample_names
from bregmat.estimators.state import (
    constraints_restored,
    constraints_state,
    parameters_restored,
    parameters_state,
    prefixed,
    unprefixed,
)
from bregmat.labels import check_percentiles, constraints_from_labels
from bregmat.nearest import nearest_metric
from bregmat.result import MatrixResult, check
from bregmat.sampling import generator


class MetricLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Mahalanobis metric nearest to a prior metric that puts similar points near and dissimilar points far.

        minimize over W >= 0:   D(W, W0) + slack_weight * sum_i d(p_i, bound_i),    p_i = (x - y)' W (x - y)

    Use it before anything that works with Euclidean distances: nearest neighbours, k-means, kernel machines. If
    classes are already well separated in the units given, or are not compact in any linear map of the data, it
    gains nothing.

    Parameters
    ----------
    divergence : {"logdet", "vonneumann", "frobenius"} or object
        Closeness D to the prior. "logdet" does not depend on the units of the data, keeps W positive definite, and is
        fastest.
    n_components : int, optional
        Number of leading components of the learned map to keep, 1 to d. By default all.
    slack_weight : float
        What a violated bound costs, relative to the divergence; positive, dimensionless; ``inf``: bounds must hold. Worth
        a search over 0.1, 1, 10, 100: the best value differs between data sets more than any other setting does.
    loss : None, "relative_slack", "squared", "squared_hinge" or object
        None is the divergence's own slack (Kulis 2009, eq. 22), ``RelativeSlack()`` the same of distance over bound; else
        ``SquaredHinge()``, or ``Squared()``, which is regression: it pulls every distance to its bound, met or not.
    n_constraints : int, optional
        Number of pairs drawn from the labels y. By default 40 k^2 for k classes; 0 ignores y.
    percentiles : (float, float)
        Percentiles, 0 to 100, of the squared distances in the data: same-class pairs shall be nearer than the lower,
        different-class pairs farther than the upper one.
    unlabeled : object
        Label in y that means "not known", beside None and NaN.
    prior : {"identity", "covariance"} or array-like, shape (d, d)
        W0. "covariance" is the inverse covariance of the rows of X; where that is singular, its pseudo-inverse (see
        :func:`bregmat.estimators.priors.inverse_covariance`).
    solver : str or object
        As in :func:`bregmat.nearest_kernel`.
    tol : float
        Relative duality gap to reach; positive, dimensionless.
    max_iter : int, optional
        Most iterations of the solver. None is the solver's own limit.
    warm_start : bool
        Start from the dual of the previous fit when it had as many constraints.
    verbose : int
        1 prints progress at most once a second, 2 every iteration.
    callback : callable, optional
        Called with a :class:`bregmat.Record` at every iteration; return True to stop.
    random_state : int, Generator, RandomState or None
        Seed of the pairs drawn from labels.

    Attributes
    ----------
    components_ : ndarray, shape (r, d)
        The learned map: ``transform(X)`` is ``X @ components_.T``, formed when first asked for if d is large. Ordered
        so that the mapped training data varies most along the first (above 2,000 features only with
        ``n_components``; else in the order of the solver).
    constraints_ : Constraints
        The rows used, drawn and given; named by ``sample_id`` if given, else by row numbers of X.
    n_dropped_constraints_ : int
        Given constraints left out because a sample they name is not in ``sample_id``.
    result_ : MatrixResult
        Status, duality gap, violation, dual weights (one per row of ``constraints_``), history.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, if X had them.

    Notes
    -----
    Kulis 2009, section 3.2 and eq. 22; with divergence="logdet" this is the optimum that the ITML of Davis 2007
    approaches. Bounds are on *squared* distances. Distances that this class returns are not squared.

    Labels and constraints can be given together and are joined. In cross-validation scikit-learn hands ``constraints``
    over whole and X and ``sample_id`` as a fold: rows whose samples are not in the fold are dropped and counted.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from bregmat import MetricLearner
    >>> X, y = load_wine(return_X_y=True)
    >>> MetricLearner(random_state=0).fit_transform(X, y).shape
    (178, 13)
    """

    # Whole by default when metadata routing is enabled: no set_fit_request is needed.
    __metadata_request__fit = {"constraints": True, "sample_id": True}

    def __init__(
        self,
        divergence: str | Divergence = "logdet",
        *,
        n_components: int | None = None,
        slack_weight: float = 1.0,
        loss: Any = None,
        n_constraints: int | None = None,
        percentiles: tuple[float, float] = (5, 95),
        unlabeled: Any = -1,
        prior: Any = "identity",
        solver: Any = "auto",
        tol: float = 1e-4,
        max_iter: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        callback: Callable[[Any], Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.divergence = divergence
        self.n_components = n_components
        self.slack_weight = slack_weight
        self.loss = loss
        self.n_constraints = n_constraints
        self.percentiles = percentiles
        self.unlabeled = unlabeled
        self.prior = prior
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.verbose = verbose
        self.callback = callback
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True  # unless constraints are given
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------------------------------ fit
    def fit(
        self, X: Any, y: Any = None, *, constraints: Constraints | None = None, sample_id: Any = None
    ) -> MetricLearner:
        """Learn the metric.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d)
            Points; finite.
        y : array-like, shape (n,), optional
            Class labels of any type; rows labelled ``unlabeled``, None or NaN take no part in the pairs.
        constraints : Constraints, optional
            Name values of ``sample_id``, or row numbers of X.
        sample_id : array-like, shape (n,), optional
            Name of each row of X; unique. By default the row numbers; the index of a pandas DataFrame if the
            constraints name samples by anything but numbers.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Bad parameter or input, named in the message; neither labels nor constraints.
        SolverError
            The constraints are contradictory, or the computation is not finite. No fitted attribute is left.
        """
        previous = self._previous(X)
        self._forget()
        self._check_parameters()
        try:
            result, X, rows, names = self._solve(X, y, constraints, sample_id, previous)
            check(result)
            self._components = principal_components(result, X, self.n_components)
            self.constraints_ = renamed(rows, names)
            self.n_iter_ = result.n_iter
            self.result_ = result
        finally:
            if "result_" not in vars(self):  # whatever went wrong: nothing half fitted stays
                self._forget()
        return self

    def _solve(
        self, X: Any, y: Any, constraints: Any, sample_id: Any, previous: MatrixResult | None
    ) -> tuple[MatrixResult, Any, Constraints, np.ndarray | None]:
        """The result, with the checked data, its constraints in row numbers, and the names of the rows."""
        names = sample_names(X, constraints, sample_id)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2)
        if self.n_components is not None and self.n_components > X.shape[1]:
            raise ValueError(
                f"n_components must be at most {X.shape[1]}, the number of features; got {self.n_components}."
            )
        prior = self._prior(X)
        given, self.n_dropped_constraints_ = rows_given(constraints, names, X.shape[0])
        rows = joined(self._drawn(X, y, constraints), given, self.n_dropped_constraints_)
        if previous is not None and len(previous.dual) != rows.n_constraints:
            previous = None
        result = nearest_metric(
            X,
            rows,
            prior=prior,
            divergence=self.divergence,
            loss=self.loss,
            slack_weight=float(self.slack_weight),
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            warm_start=previous,
            callback=Progress(int(self.verbose), self.callback) if self.verbose else self.callback,
        )
        return result, X, rows, names

    def _previous(self, X: Any) -> MatrixResult | None:
        """The last result, for a warm start on data with as many columns."""
        fitted = vars(self)
        same = self.warm_start and "result_" in fitted and np.shape(X)[1:] == (self.n_features_in_,)
        return fitted["result_"] if same else None

    def _forget(self) -> None:
        """Drop every fitted attribute."""
        for name in [name for name in vars(self) if name.endswith("_") or name == "_components"]:
            delattr(self, name)

    def _check_parameters(self) -> None:
        """Raise for a hyper-parameter that no data could make valid."""
        check_integer("n_components", self.n_components, 1)
        check_integer("n_constraints", self.n_constraints, 0)
        check_integer("max_iter", self.max_iter, 1)
        check_positive("slack_weight", self.slack_weight)
        check_positive("tol", self.tol, finite=True)
        check_percentiles(self.percentiles)
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be callable or None; got {self.callback!r}.")
        if isinstance(self.prior, str) and self.prior not in ("identity", "covariance"):
            raise ValueError(f'prior must be "identity", "covariance" or a (d, d) array; got {self.prior!r}.')
        if not isinstance(self.random_state, np.random.RandomState):  # that would advance it
            generator(self.random_state)

    def _drawn(self, X: Any, y: Any, constraints: Any) -> Constraints | None:
        """Pairs drawn from the labels, or None without labels."""
        if y is None and constraints is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None "
                "and so is constraints."
            )
        if y is None or self.n_constraints == 0:
            return None
        if len(getattr(y, "shape", ())) == 2:
            y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return constraints_from_labels(
            X,
            y,
            self.n_constraints,
            percentiles=self.percentiles,
            unlabeled=self.unlabeled,
            random_state=self.random_state,
        )

    def _prior(self, X: Any) -> np.ndarray | Factor | None:
        if isinstance(self.prior, str):
            return None if self.prior == "identity" else Factor(inverse_covariance(X))
        prior = np.asarray(self.prior, dtype=float)
        d = X.shape[1]
        if prior.shape != (d, d):
            raise ValueError(f"prior must have shape ({d}, {d}) for X with {d} features; got {prior.shape}.")
        return prior

    # ------------------------------------------------------------------ use
    def transform(self, X: Any) -> np.ndarray:
        """Map points so that Euclidean distances are the learned distances.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d)

        Returns
        -------
        ndarray, shape (n, r)
            ``X @ components_.T``; float32 if X is, else float64.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        if self._components is None:
            return np.asarray(self.result_.transform(X)).astype(X.dtype, copy=False)
        return np.asarray(X @ self._components.T.astype(X.dtype, copy=False))

    @property
    def components_(self) -> np.ndarray:
        """The learned map, shape (r, d); formed when asked for if d is large."""
        check_is_fitted(self)
        return self.result_.B.T if self._components is None else self._components

    @property
    def _n_features_out(self) -> int:
        if self._components is None:
            return self.result_.transform(np.zeros((1, self.n_features_in_))).shape[1]
        return self._components.shape[0]

    def __sklearn_is_fitted__(self) -> bool:
        return "result_" in vars(self)

    def get_mahalanobis_matrix(self) -> np.ndarray:
        """The learned matrix ``W = components_.T @ components_``, shape (d, d)."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def get_metric(self) -> MahalanobisDistance:
        """The learned distance as a picklable function of two points, for scikit-learn's ``metric=``.

        Slow there (one Python call per pair): prefer ``transform``.
        """
        check_is_fitted(self)
        return MahalanobisDistance(self.components_)

    def pair_distance(self, pairs: Any) -> np.ndarray:
        """Learned distances, *not* squared.

        Parameters
        ----------
        pairs : array-like, shape (m, 2, d)

        Returns
        -------
        ndarray, shape (m,)
        """
        check_is_fitted(self)
        return pair_distances(pairs, self.components_)

    def pair_score(self, pairs: Any) -> np.ndarray:
        """Minus :meth:`pair_distance`: larger for more similar pairs."""
        return -self.pair_distance(pairs)

    # ------------------------------------------------------------------ files
    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays that :meth:`from_state` makes the fitted learner from; for :func:`bregmat.save`."""
        check_is_fitted(self)
        params, arrays = parameters_state(self.get_params(deep=False))
        result, result_arrays = self.result_.to_state()
        arrays |= prefixed("result", result_arrays)
        arrays |= constraints_state(self.constraints_) or {}
        if self._components is not None:
            arrays["components"] = self._components
        names = getattr(self, "feature_names_in_", None)
        meta = {
            "params": params,
            "result": result,
            "n_features_in": self.n_features_in_,
            "feature_names_in": None if names is None else [str(name) for name in names],
            "n_dropped_constraints": self.n_dropped_constraints_,
        }
        return meta, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> MetricLearner:
        """The fitted learner; without ``constraints_`` if these had matrices or names that files cannot hold."""
        learner = cls(**parameters_restored(meta["params"], arrays))
        learner.result_ = MatrixResult.from_state(meta["result"], unprefixed("result", arrays))
        learner.n_iter_ = learner.result_.n_iter
        learner.n_features_in_ = int(meta["n_features_in"])
        learner.n_dropped_constraints_ = int(meta["n_dropped_constraints"])
        if meta["feature_names_in"] is not None:
            learner.feature_names_in_ = np.array(meta["feature_names_in"], dtype=object)
        constraints = constraints_restored(arrays)
        if constraints is not None:
            learner.constraints_ = constraints
        learner._components = arrays.get("components")
        return learner
