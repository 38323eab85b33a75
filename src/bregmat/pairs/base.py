"""Common parts of the learners from tuples: points by value or by index, distances, predictions, and a threshold."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self, get_args

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import check_is_fitted, validate_data

from bregmat.base.linalg import blocks
from bregmat.base.threads import on_one_blas_thread
from bregmat.constraints.constraints import Constraints
from bregmat.estimators import MetricLearner
from bregmat.estimators.base import ResultLearner, callback_of, check_run
from bregmat.estimators.mahalanobis import CHUNK, MahalanobisMetric
from bregmat.pairs.tuples import PointTuples, as_plain_points, as_preprocessor, as_signs, as_tuples
from bregmat.typing import Calibration, Labels, Points, Tuples

PAIRS, TRIPLETS, QUADRUPLETS = 2, 3, 4  # points of a tuple


@on_one_blas_thread
class IndexedMetric(MahalanobisMetric, ResultLearner):
    """A metric on points that are given by value, or by indices that a preprocessor maps to points."""

    preprocessor: Any = None
    callback: Any = None
    random_state: Any = None
    _left_out: tuple[str, ...] = ()  # parameters that are missing in the file that the learner was loaded from
    _settings: ClassVar[tuple[str, ...]] = (
        "slack_weight",
        "solver",
        "tol",
        "max_iter",
    )  # those of the MetricLearner inside
    _tuple_size: ClassVar[int | None] = PAIRS  # size of the tuples to predict on; None: any

    @property
    def components_(self) -> np.ndarray:
        """The learned map, shape (r, d); it may be set."""
        return super().components_

    @components_.setter
    def components_(self, components: Any) -> None:
        self._fit_components = np.atleast_2d(np.asarray(components, dtype=float))

    @property
    def preprocessor_(self) -> Any:
        """The preprocessor in use: a callable from indices to points, or None."""
        check_is_fitted(self)
        return as_preprocessor(self.preprocessor)

    def transform(self, X: Points | Labels) -> np.ndarray:
        """Map points so that Euclidean distances are the learned distances.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d), or array-like of indices, shape (n,)
            Indices need a preprocessor.

        Returns
        -------
        ndarray, shape (n, r)
            ``X @ components_.T``; float32 if X is, else float64.
        """
        check_is_fitted(self)
        return super().transform(as_plain_points(self, X))

    def pair_distance(self, pairs: Tuples) -> np.ndarray:
        """Learned distances, *not* squared.

        Parameters
        ----------
        pairs : array-like, shape (m, 2, d), or (m, 2) of indices
            Indices need a preprocessor.

        Returns
        -------
        ndarray, shape (m,)
        """
        return self._distances(self._tuples(pairs, (PAIRS,)), 0, 1)

    def score_pairs(self, pairs: Tuples) -> np.ndarray:
        """The name of :meth:`pair_distance` in metric-learn 0.6."""
        check_is_fitted(self)
        warnings.warn(
            "score_pairs will be deprecated in release 0.7.0. Use pair_score to compute similarity scores, or "
            "pair_distances to compute distances.",
            FutureWarning,
            stacklevel=2,
        )
        return self.pair_distance(pairs)

    def _check_preprocessor(self) -> None:
        """Raise for an object that is no preprocessor; metric-learn's own tests call this by name."""
        as_preprocessor(self.preprocessor)

    def _check_parameters(self) -> None:
        """Raise for a parameter that is invalid for any data."""
        check_run(self)
        self._check_preprocessor()

    def _tuples(self, tuples: Any, sizes: tuple[int, ...], *, reset: bool = False) -> PointTuples:
        """Checked tuples; a fit (``reset``) takes the number and the names of the columns from them."""
        point_tuples = as_tuples(self, tuples, sizes)
        if not reset:
            check_is_fitted(self)
        points = validate_data(self, point_tuples.points, accept_sparse="csr", dtype=np.float64, reset=reset)
        return PointTuples(points, point_tuples.index)

    def _distances(self, tuples: PointTuples, first: int, second: int) -> np.ndarray:
        """Learned distances between the points at two positions of each tuple."""
        points, i, j = tuples.points, tuples.index[:, first], tuples.index[:, second]
        mapped, out = self.get_metric().mapped, np.empty(len(i))
        for part in blocks(len(i), points.shape[1], CHUNK):
            out[part] = np.linalg.norm(np.asarray(mapped(points[i[part]] - points[j[part]])), axis=1)
        return out

    def _learner(self, prior: Any = "identity") -> MetricLearner:
        """The MetricLearner that solves the problem."""
        return MetricLearner(strategy="random", prior=prior, **{name: getattr(self, name) for name in self._settings})

    def _learn(self, learner: MetricLearner, points: Any, constraints: Constraints) -> None:
        """Fit a MetricLearner to constraints and take over its attributes, also those that it keeps after an interrupt."""
        # the callback prints progress with the name of this class
        learner.set_params(verbose=0, callback=callback_of(self))
        try:
            learner.fit(points, constraints=constraints)
        finally:
            learned = vars(learner)
            # result_ is last, because it marks this learner as fitted
            for name in ("prior_", "_fit_components", "constraints_", "n_iter_", "result_"):
                if name in learned:
                    setattr(self, name, learned[name])


@on_one_blas_thread
class TupleClassifier(ClassifierMixin, IndexedMetric):
    """A classifier of tuples: is a pair similar; are the first two points of a triplet or quadruplet nearer than the other two."""

    classes_ = np.array([-1, 1])
    threshold_: float

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.two_d_array = self.preprocessor is not None
        tags.classifier_tags.multi_class = False
        return tags

    def decision_function(self, tuples: Tuples) -> np.ndarray:
        """Scores of the label 1; for triplets and quadruplets, a positive score predicts it.

        Parameters
        ----------
        tuples : array-like, shape (m, size, d), or (m, size) of indices
            Indices need a preprocessor.

        Returns
        -------
        ndarray, shape (m,)
            Pairs: minus their distance. Triplets (a, b, c): the distance of a and c minus that of a and b. Quadruplets (a, b, c, d): the
            distance of c and d minus that of a and b.
        """
        return self._decisions(tuples)[0]

    def predict(self, tuples: Tuples) -> np.ndarray:
        """Labels 1 and -1.

        Parameters
        ----------
        tuples : array-like
            As in :meth:`decision_function`.

        Returns
        -------
        ndarray of int, shape (m,)
            1 for pairs whose distance is at most ``threshold_``, and for triplets and quadruplets with a positive score.
        """
        decision, size = self._decisions(tuples)
        if size != PAIRS:
            return 2 * (decision > 0) - 1
        if "threshold_" not in vars(self):
            raise AttributeError(
                "A threshold for this estimator has not been set, call its set_threshold or calibrate_threshold method."
            )
        return 2 * (-decision <= self.threshold_) - 1

    def score(self, tuples: Tuples, y: Labels | None = None) -> float:
        """Area under the ROC curve for pairs, which needs no threshold; accuracy for triplets and quadruplets.

        Parameters
        ----------
        tuples : array-like
            As in :meth:`decision_function`.
        y : array-like, shape (m,), optional
            Labels 1 and -1; by default 1 for all triplets or quadruplets.
        """
        decision, size = self._decisions(tuples)
        if size != PAIRS:
            signs = 1.0 if y is None else as_signs(y, len(decision))
            return float(np.mean((2 * (decision > 0) - 1) == signs))
        if y is None:
            raise ValueError("pairs need labels: y is None.")
        return float(roc_auc_score(as_signs(y, len(decision)), decision))

    def set_threshold(self, threshold: float) -> Self:
        """Set the largest distance of pairs that are predicted to be similar.

        Parameters
        ----------
        threshold : float
            Not squared.
        """
        check_is_fitted(self)
        try:
            self.threshold_ = float(threshold)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Parameter threshold must be a real number. Got {type(threshold)} instead.") from error
        return self

    def calibrate_threshold(
        self,
        pairs_valid: Tuples,
        y_valid: Labels,
        strategy: Calibration = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
    ) -> Self:
        """Choose ``threshold_`` by labelled pairs, preferably not those of the fit.

        Parameters
        ----------
        pairs_valid : array-like, shape (m, 2, d), or (m, 2) of indices
        y_valid : array-like, shape (m,)
            1 for similar pairs, -1 for dissimilar ones.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}
            Maximise the accuracy; the F-score; the true positive rate, or the true negative rate, with the other one at least
            ``min_rate``.
        min_rate : float, optional
            0 to 1; needed for the last two.
        beta : float
            Weight of recall relative to precision in the F-score.
        """
        check_is_fitted(self)
        self._validate_calibration_params(strategy, min_rate, beta)
        distances = self.pair_distance(pairs_valid)
        self.threshold_ = calibrated(distances, as_signs(y_valid, len(distances)), strategy, min_rate, beta)
        return self

    def _decisions(self, tuples: Tuples) -> tuple[np.ndarray, int]:
        """The scores of :meth:`decision_function`, and the number of points of a tuple."""
        sizes = (PAIRS, TRIPLETS, QUADRUPLETS) if self._tuple_size is None else (self._tuple_size,)
        point_tuples = self._tuples(tuples, sizes)
        near = self._distances(point_tuples, 0, 1)
        if point_tuples.size == PAIRS:
            return -near, PAIRS
        return self._distances(
            point_tuples, 0 if point_tuples.size == TRIPLETS else 2, point_tuples.size - 1
        ) - near, point_tuples.size

    @staticmethod
    def _validate_calibration_params(strategy: Any = "accuracy", min_rate: Any = None, beta: Any = 1.0) -> None:
        """Raise for arguments of :meth:`calibrate_threshold` that are invalid for any pairs, in the words of metric-learn."""
        if strategy not in get_args(Calibration):
            raise ValueError(
                f'Strategy can either be "accuracy", "f_beta" or "max_tpr" or "max_tnr". Got "{strategy}" instead.'
            )
        if strategy in ("max_tpr", "max_tnr") and not (isinstance(min_rate, int | float) and 0 <= min_rate <= 1):
            raise ValueError(f"Parameter min_rate must be a number in[0, 1]. Got {min_rate} instead.")
        if strategy == "f_beta" and not isinstance(beta, int | float):
            raise ValueError(f"Parameter beta must be a real number. Got {type(beta)} instead.")


def calibrated(
    distances: np.ndarray,
    y: np.ndarray,
    strategy: Calibration = "accuracy",
    min_rate: float | None = None,
    beta: float = 1.0,
) -> float:
    """The best threshold on the distance of pairs; see :meth:`TupleClassifier.calibrate_threshold`.

    Parameters
    ----------
    distances, y : ndarray, shape (m,)
        Distances (not squared) of pairs, and their labels 1 or -1.
    strategy, min_rate, beta
        As in :meth:`TupleClassifier.calibrate_threshold`.

    Returns
    -------
    float
        One of the distances, or the smallest minus one if it is best to predict no pair to be similar. Of equally good thresholds the
        smallest is returned; for the rates, the one with the best other rate.
    """
    order = np.argsort(distances, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(distances[order]) > 0, True))  # pairs of equal distance cannot be separated
    # number of similar pairs found, and of dissimilar pairs accepted, for each threshold
    right, wrong = (np.append(0, np.cumsum(y[order] == sign)[ends]) for sign in (1, -1))
    thresholds = np.append(distances[order[0]] - 1.0, distances[order[ends]])
    n_similar, n_dissimilar = right[-1], wrong[-1]
    refused = n_dissimilar - wrong
    if strategy == "accuracy":
        best = int(np.argmax(right + refused))
    elif strategy == "f_beta":
        # (1 + beta^2) precision recall / (beta^2 precision + recall)
        below = beta**2 * n_similar + right + wrong
        best = int(np.argmax(np.divide((1 + beta**2) * right, below, out=np.zeros(len(right)), where=below > 0)))
    else:
        shares = right / max(n_similar, 1), refused / max(n_dissimilar, 1)
        sought, other = shares if strategy == "max_tpr" else shares[::-1]
        allowed = np.flatnonzero(other >= min_rate)
        if not len(allowed):
            kind = "dissimilar" if strategy == "max_tpr" else "similar"
            raise ValueError(f"no threshold reaches min_rate={min_rate} with {strategy}: there is no {kind} pair.")
        best = int(max(allowed, key=lambda k: (sought[k], other[k])))
    return float(thresholds[best])
