"""PairsLearner, which learns a metric from pairs, triplets or quadruplets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator

from bregmat.base.checks import as_column, check_positive
from bregmat.base.threads import on_one_blas_thread
from bregmat.constraints.constraints import Constraints
from bregmat.engine.loop import Solver
from bregmat.estimators.base import check_labelled
from bregmat.estimators.linear_maps import POINTS_PRIORS, points_in_prior
from bregmat.objective.losses import Loss
from bregmat.objective.spectral import SpectralDivergence
from bregmat.pairs.base import PAIRS, QUADRUPLETS, TRIPLETS, TupleClassifier
from bregmat.pairs.tuple_rows import chosen_bounds, comparison_rows, pair_rows
from bregmat.pairs.tuples import PointTuples, as_signs
from bregmat.typing import (
    DivergenceName,
    Labels,
    LossName,
    PointsPrior,
    Preprocessor,
    SolverName,
    Table,
    Tuples,
    Values,
)


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class PairsLearner(TupleClassifier, BaseEstimator):
    """Mahalanobis metric nearest to a prior metric, from pairs, triplets or quadruplets of points.

        pairs (a, b), y = 1       sq_distance(a, b) <= bounds[0]
        pairs (a, b), y = -1      sq_distance(a, b) >= bounds[1]
        triplets (a, b, c)        sq_distance(a, b) + margin <= sq_distance(a, c)
        quadruplets (a, b, c, d)  sq_distance(a, b) + margin <= sq_distance(c, d)

    Use it if people, clicks or experiments provide similarities, and there are no classes. With classes use
    :class:`bregmat.MetricLearner`, which chooses the tuples that matter. By default the result does not depend on the units of the
    columns: they are scaled, and bounds and margins are measured in scaled columns.

    Parameters
    ----------
    divergence, n_components, slack_weight, loss, solver, tol, max_iter, verbose, callback
        As in :class:`bregmat.MetricLearner`. The components are the directions in which the points vary most.
    prior : {"auto", "identity", "variance", "covariance"} or array-like, shape (d, d)
        The prior metric, as in :class:`bregmat.MetricLearner`. "auto" is "variance" (scaled columns) if bounds and margin are
        measured, and "identity" if they are given in the units of the data.
    warm_start : bool
        Start from the dual of the previous fit when it had as many constraints.
    preprocessor : array-like, shape (n, d), or callable, optional
        Maps indices to points, so that tuples may be given by indices: an array of rows (of a pandas data frame also by the names in its
        index), or a function of a 1-dimensional array of indices.

    Attributes
    ----------
    components_ : ndarray, shape (r, d)
        The learned map: ``transform(X)`` is ``X @ components_.T``.
    bounds_ : ndarray, shape (2,)
        Squared distances in use, after a fit to pairs.
    margin_ : float
        Squared distance in use, after a fit to triplets or quadruplets.
    threshold_ : float
        Pairs whose distance (not squared) is at most this are predicted to be similar; only after a fit to pairs.
    prior_ : str
        The prior in use by its name; "given" for an array.
    result_, constraints_, tuples_used_, preprocessor_, n_iter_, n_features_in_, feature_names_in_, classes_
        As in :class:`bregmat.pairs.ITML`.

    Notes
    -----
    Constraints of triplets and quadruplets have the weight ``1000 / (number of constraints)``, as in :class:`bregmat.MetricLearner`, so
    that the meaning of the slack weight does not depend on their number. Pairs have the weight 1, as in the papers.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bregmat.pairs import PairsLearner
    >>> X, y = load_iris(return_X_y=True)
    >>> triplets = [[0, 1, 60], [51, 60, 0], [52, 60, 110], [101, 110, 60]]  # row numbers: the first nearer to the second
    >>> learner = PairsLearner(preprocessor=X).fit(triplets)
    >>> learner.predict([[10, 20, 120], [120, 20, 130]])
    array([ 1, -1])
    """

    divergence: DivergenceName | SpectralDivergence = "logdet"
    n_components: int | None = None
    slack_weight: float = 1.0
    loss: LossName | Loss | None = None
    prior: Literal["auto"] | PointsPrior | Table = "auto"
    solver: SolverName | Solver = "auto"
    tol: float = 1e-4
    max_iter: int | None = None
    warm_start: bool = False
    verbose: int = 0
    callback: Callable[[Any], Any] | None = None
    preprocessor: Preprocessor | None = None

    _tuple_size = None
    _settings = (*TupleClassifier._settings, "divergence", "n_components", "loss", "warm_start")

    def fit(
        self,
        tuples: Tuples,
        y: Labels | None = None,
        *,
        bounds: Values | None = None,
        margin: float | None = None,
        sample_weight: Values | None = None,
        calibration_params: dict[str, Any] | None = None,
    ) -> Self:
        """Learn from tuples; with pairs, also calibrate ``threshold_`` on them.

        Parameters
        ----------
        tuples : array-like, shape (m, size, d), or (m, size) of indices
            Pairs, triplets or quadruplets; indices need a preprocessor.
        y : array-like, shape (m,)
            Pairs: 1 for similar, -1 for dissimilar. Triplets and quadruplets: 1, or -1 if the first pair is the farther one; by
            default 1 for all.
        bounds : array-like of two floats, optional
            For pairs: squared distances in units of the data. By default the 5th and the 95th percentile of the squared distances
            between the points in the prior metric.
        margin : float, optional
            For triplets and quadruplets: squared distance in units of the data, at least 0. By default the median squared distance of
            the near pairs in the prior metric.
        sample_weight : array-like, shape (m,), optional
            Multiplies the slack weight; positive, dimensionless; ``inf`` makes a constraint hard.
        calibration_params : dict, optional
            For pairs: arguments of :meth:`calibrate_threshold`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            A parameter or an input is invalid; the message names it.
        SolverError
            The hard constraints contradict each other, or the computation is not finite. No fitted attribute is left.

        Warns
        -----
        ConvergenceWarning
            The tolerance was not reached.
        UserWarning
            Tuples with a pair of identical points were left out, since no metric changes its distance.
        """
        calibration = {} if calibration_params is None else calibration_params
        self._validate_calibration_params(**calibration)
        previous = vars(self).get("result_") if self.warm_start else None
        with self._fitting():
            self._check_parameters()
            point_tuples = self._tuples(tuples, (PAIRS, TRIPLETS, QUADRUPLETS), reset=True).distinct()
            is_pairs = point_tuples.size == PAIRS
            _check_use(self, is_pairs, y, bounds, margin)
            signs = np.ones(len(point_tuples.index)) if y is None else as_signs(y, len(point_tuples.index))
            weight: Any = 1.0
            if sample_weight is not None:
                weight = as_column(
                    "sample_weight", sample_weight, len(signs), per="tuple", positive=True, infinite=True
                )
            prior = self.prior
            if isinstance(prior, str) and prior == "auto":
                prior = "variance" if bounds is None and margin is None else "identity"
            learner = self._learner(prior)
            rows, self.tuples_used_ = self._rows(point_tuples, signs, weight, bounds, margin, learner.prior)
            if previous is not None:
                learner.result_ = previous
            self._learn(learner, point_tuples.points, rows)
            if is_pairs:
                self.calibrate_threshold(tuples, signs, **calibration)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.prior, str) and self.prior not in ("auto", *POINTS_PRIORS):
            raise ValueError(
                'prior must be "auto", "identity", "variance", "covariance" or a (d, d) array, for tuples have no classes; '
                f"got {self.prior!r}."
            )
        self._learner()._check_parameters()

    def _rows(
        self, tuples: PointTuples, signs: np.ndarray, weight: Any, bounds: Any, margin: Any, prior: Any
    ) -> tuple[Constraints, np.ndarray]:
        """The constraints of the problem; sets ``bounds_`` or ``margin_``."""
        mapped = points_in_prior(tuples.points, prior) if bounds is None and margin is None else None
        if tuples.size == PAIRS:
            self.bounds_ = chosen_bounds(bounds, mapped)
            return pair_rows(tuples, signs, self.bounds_, weight)
        rows, used = comparison_rows(tuples, signs, margin, weight, mapped)
        self.margin_ = float(-rows.bound[0])
        return rows, used


def _check_use(learner: PairsLearner, is_pairs: bool, y: Any, bounds: Any, margin: Any) -> None:
    """Raise for missing labels, and for arguments that are not for these tuples."""
    if is_pairs:
        check_labelled(learner, y, but="pairs need labels: ")
    if is_pairs and margin is not None:
        raise ValueError(f"margin is for triplets and quadruplets, pairs have bounds; got margin={margin!r}.")
    if not is_pairs and bounds is not None:
        raise ValueError(f"bounds are for pairs, triplets and quadruplets have a margin; got bounds={bounds!r}.")
    if margin is not None:
        check_positive("margin", margin, finite=True, zero=True)
