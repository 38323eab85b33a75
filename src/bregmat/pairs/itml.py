"""ITML with the interface of metric-learn: the same problem, solved to a certified gap."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.datasets import make_spd_matrix
from sklearn.utils.validation import check_consistent_length, column_or_1d

from bregmat.base.checks import as_matrix, check_integer, check_positive, generator
from bregmat.base.linalg import eigh
from bregmat.base.points import CheckedPoints
from bregmat.base.threads import on_one_blas_thread
from bregmat.engine.loop import Solver
from bregmat.estimators.base import check_labelled, validated
from bregmat.estimators.linear_maps import inverse_covariance
from bregmat.from_labels.labels import constraints_from_labels
from bregmat.pairs.base import IndexedMetric, TupleClassifier
from bregmat.pairs.tuple_rows import as_bounds, chosen_bounds, pair_rows
from bregmat.pairs.tuples import as_plain_points, as_signs
from bregmat.typing import ItmlPrior, Labels, Points, Preprocessor, RandomState, SolverName, Table, Tuples, Values


class ItmlProblem(IndexedMetric):
    """What :class:`ITML` and :class:`ITML_Supervised` share: the parameters, and the LogDet problem with its relative slack."""

    gamma: float
    max_iter: int | None
    tol: float
    prior: Any
    solver: Any
    bounds_: np.ndarray

    @property
    def slack_weight(self) -> float:
        """``gamma`` by its name in a MetricLearner."""
        return self.gamma

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("gamma", self.gamma)
        if isinstance(self.prior, str) and self.prior not in get_args(ItmlPrior):
            raise ValueError(
                "`prior` must be 'identity', 'covariance', 'random' or a numpy array of shape (n_features, n_features); "
                f"got {self.prior!r}."
            )
        self._learner()._check_parameters()

    def _prior_of(self, points: Any) -> Any:
        """The prior for a MetricLearner; raises ``LinAlgError`` (a ValueError) if it is not positive definite."""
        if isinstance(self.prior, str) and self.prior == "random":
            state = self.random_state
            if isinstance(state, np.random.Generator):
                state = int(generator(state).integers(2**31))
            return make_spd_matrix(points.shape[1], random_state=state)
        if isinstance(self.prior, str):
            if self.prior == "covariance" and inverse_covariance(points).shape[1] < points.shape[1]:
                raise np.linalg.LinAlgError(
                    "Unable to get a true inverse of the covariance matrix since it is not definite. Try another `prior`, or an "
                    "algorithm that does not require the `prior` to be strictly positive definite."
                )
            return self.prior
        prior = as_matrix("prior", self.prior, square=True)
        values = eigh(prior)[0]
        if np.abs(values).min() < np.abs(values).max() * len(values) * np.finfo(float).eps:
            raise np.linalg.LinAlgError(
                "You should provide a strictly positive definite matrix as `prior`. This one is not definite. Try another prior, or "
                "an algorithm that does not require the prior to be strictly positive definite."
            )
        return prior


@on_one_blas_thread
@dataclass(eq=False, repr=False)
class ITML(ItmlProblem, TupleClassifier, BaseEstimator):
    """Information-theoretic metric learning from similar and dissimilar pairs, as in metric-learn.

        minimize over W > 0:  D_logdet(W, W0) + gamma * sum_i d_logdet(p_i, bound_i)
        with p_i = (x - y)' W (x - y), the squared distance of pair i

    It is for code that was written for metric-learn, which needs no change. For new code prefer :class:`PairsLearner`, which takes
    triplets, weights and other divergences, and measures its bounds in scaled columns. The differences from metric-learn are listed on
    the migration page (docs/migration.md).

    Parameters
    ----------
    gamma : float
        The slack weight, which multiplies the loss of violated bounds; positive, dimensionless. With ``inf`` bounds must hold.
    max_iter : int, optional
        Largest number of iterations of the solver.
    tol : float
        Relative duality gap to reach; positive, dimensionless.
    prior : {"identity", "covariance", "random"} or array-like, shape (d, d)
        W0, positive definite. "covariance" is the inverse covariance of the points.
    verbose : bool or int
        True prints progress at most once a second.
    preprocessor : array-like, shape (n, d), or callable, optional
        Maps indices to points, so that pairs may be given by indices: an array of rows (of a pandas data frame also by the names in its
        index), or a function of a 1-dimensional array of indices.
    random_state : int, Generator, RandomState or None
        Seed of the prior "random".
    solver : str or object
        As in :func:`bregmat.nearest_metric`; "cyclic_projection" is the iteration of metric-learn and of the paper.

    Attributes
    ----------
    components_ : ndarray, shape (d, d)
        The learned map: ``transform(X)`` is ``X @ components_.T``.
    bounds_ : ndarray, shape (2,)
        *Squared* distances: the upper bound of similar pairs and the lower bound of dissimilar pairs.
    threshold_ : float
        Pairs whose distance (not squared) is at most this are predicted to be similar.
    preprocessor_ : callable or None
        From indices to points.
    prior_ : str
        The prior by its name; "given" for an array and for "random".
    result_ : MatrixResult
        Status, duality gap, violation, dual weights (one per constraint), history.
    constraints_ : Constraints
        The constraints used, between the distinct points of the pairs.
    tuples_used_ : ndarray of int
        Number of the pair that each constraint comes from; pairs of identical points have no constraint.
    n_iter_, n_features_in_ : int
        Iterations of the solver; number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, if the preprocessor is a data frame.
    classes_ : ndarray
        -1 and 1.

    Notes
    -----
    Davis 2007; Kulis 2009, eq. 22. The problem is solved by Newton steps to a certified gap. metric-learn and the paper project onto
    one pair after the other until the weights change little, which proves nothing.

    Examples
    --------
    >>> from bregmat.pairs import ITML
    >>> pairs = [[[1.2, 7.5], [1.3, 1.5]], [[6.4, 2.6], [6.2, 9.7]], [[1.3, 4.5], [3.2, 4.6]], [[6.2, 5.5], [5.4, 5.4]]]
    >>> itml = ITML().fit(pairs, [1, 1, -1, -1])  # near in the first column is similar
    >>> itml.pair_distance([[[1.0, 2.0], [1.1, 5.0]], [[1.0, 2.0], [4.0, 2.0]]]).round(1)
    array([1.2, 4.9])
    """

    gamma: float = 1.0
    max_iter: int | None = 1000
    tol: float = 1e-3
    prior: ItmlPrior | Table = "identity"
    verbose: bool | int = False
    preprocessor: Preprocessor | None = None
    random_state: RandomState = None
    solver: SolverName | Solver = field(default="auto", kw_only=True)

    def fit(
        self, pairs: Tuples, y: Labels, bounds: Values | None = None, calibration_params: dict[str, Any] | None = None
    ) -> Self:
        """Learn from pairs, then calibrate ``threshold_`` on them.

        Parameters
        ----------
        pairs : array-like, shape (m, 2, d), or (m, 2) of indices
            Indices need a preprocessor.
        y : array-like, shape (m,)
            1 for similar pairs, -1 for dissimilar ones.
        bounds : array-like of two floats, optional
            *Squared* distances, as in the code of metric-learn (its documentation says otherwise). By default the 5th and 95th
            percentile of the squared distances between the points of the pairs.
        calibration_params : dict, optional
            Arguments of :meth:`calibrate_threshold`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            A parameter or an input is invalid; the message names it.
        SolverError
            With gamma=inf, the bounds are proven to contradict each other. No fitted attribute is left.

        Warns
        -----
        ConvergenceWarning
            The tolerance was not reached.
        UserWarning
            Dissimilar pairs of identical points were left out.
        """
        calibration = {} if calibration_params is None else calibration_params
        self._validate_calibration_params(**calibration)
        with self._fitting():
            self._check_parameters()
            point_tuples = self._tuples(pairs, (2,), reset=True).distinct()
            signs = as_signs(y, len(point_tuples.index))
            self.bounds_ = chosen_bounds(bounds, point_tuples.points)
            rows, self.tuples_used_ = pair_rows(point_tuples, signs, self.bounds_)
            self._learn(self._learner(self._prior_of(point_tuples.points)), point_tuples.points, rows)
            self.calibrate_threshold(pairs, y, **calibration)
        return self


@on_one_blas_thread
@dataclass(eq=False, repr=False)
class ITML_Supervised(ItmlProblem, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """:class:`ITML` on random pairs of labelled points, as in metric-learn; a transformer.

    It is for code that was written for metric-learn. For new code prefer :class:`bregmat.MetricLearner`, which compares the neighbours of
    each point, and chooses the prior and the slack weight on held-out rows.

    Parameters
    ----------
    gamma, max_iter, tol, prior, verbose, preprocessor, solver
        As in :class:`ITML`.
    n_constraints : int, optional
        Number of similar pairs to draw, and of dissimilar ones; by default 20 k^2 of each for k classes.
    random_state : int, Generator, RandomState or None
        Seed of the pairs, and of the prior "random".

    Attributes
    ----------
    components_, bounds_, preprocessor_, result_, constraints_, n_iter_, n_features_in_, feature_names_in_
        As in :class:`ITML`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bregmat.pairs import ITML_Supervised
    >>> X, y = load_iris(return_X_y=True)
    >>> ITML_Supervised(n_constraints=200, random_state=0).fit_transform(X, y).shape
    (150, 4)
    """

    gamma: float = 1.0
    max_iter: int | None = 1000
    tol: float = 1e-3
    n_constraints: int | None = None
    prior: ItmlPrior | Table = "identity"
    verbose: bool | int = False
    preprocessor: Preprocessor | None = None
    random_state: RandomState = None
    solver: SolverName | Solver = field(default="auto", kw_only=True)

    transform = IndexedMetric.transform  # set_output wraps only methods of the class itself

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("n_constraints", self.n_constraints, 1)

    def fit(self, X: Points | Labels, y: Labels, bounds: Values | None = None) -> Self:
        """Draw pairs by the labels and learn from them.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d), or array-like of indices, shape (n,)
            Indices need a preprocessor.
        y : array-like, shape (n,)
            Labels of any type; rows labelled -1, None or NaN are not used.
        bounds : array-like of two floats, optional
            *Squared* distances. By default the 5th and 95th percentile of the squared distances between labelled points.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError, SolverError
            As :meth:`ITML.fit`.
        """
        check_labelled(self, y)
        with self._fitting():
            self._check_parameters()
            points = validated(self, as_plain_points(self, X), accept_sparse="csr", ensure_min_samples=2)
            y = column_or_1d(y, warn=True) if getattr(y, "ndim", 1) == 2 else y
            check_consistent_length(points, y)
            n_pairs = None if self.n_constraints is None else 2 * self.n_constraints
            rows = constraints_from_labels(CheckedPoints(points), y, n_pairs, random_state=self.random_state)
            similar = rows.sense > 0
            if bounds is None:
                ends = (rows.bound[similar], rows.bound[~similar])
                self.bounds_ = np.array([bound[0] if len(bound) else np.nan for bound in ends])
            else:
                self.bounds_ = as_bounds(bounds)
                rows = replace(rows, bound=np.where(similar, *self.bounds_))
            self._learn(self._learner(self._prior_of(points)), points, rows)
        return self
