"""The online LogDet metric learner (Jain 2008)."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bregmat._kernels import online as kernels
from bregmat.base.checks import (
    as_column,
    as_matrix,
    as_numbers,
    check_finite,
    check_flag,
    check_integer,
    check_positive,
    check_psd,
    rows_text,
)
from bregmat.base.linalg import cholesky, eigvalsh
from bregmat.base.points import check_numeric
from bregmat.base.threads import on_one_blas_thread
from bregmat.constraints.columns import sense_codes
from bregmat.estimators.base import validated
from bregmat.estimators.mahalanobis import MahalanobisDistance, MahalanobisMetric
from bregmat.objective.divergences import LogDet
from bregmat.online.learner import UnreachableLabelWarning, as_labels, undone_on_error
from bregmat.typing import Points, Sense, Senses, Table, Values


@on_one_blas_thread
class OnlineLogDet(RegressorMixin, TransformerMixin, MahalanobisMetric, BaseEstimator):
    """Learn a Mahalanobis metric from a stream of pairs of points with squared distances or bounds on them.

    In every trial the learner sees a difference ``z = x - x'``, predicts ``z' A_t z``, receives y and updates to

        ``A_{t+1} = argmin_A D_ld(A, A_t) + eta l(A)``,  ``l(A) = (z'Az - y)^2 / 2``

    in closed form, with about d^2 operations. For "at most" and "at least" the loss counts only the violation of the bound. Use it for
    metrics that must follow a stream. If all pairs are available at once, or must hold exactly, use :class:`bregmat.MetricLearner`, which
    finds the optimum. It cannot be a step of a pipeline, since it learns from *pairs* of points and their squared distances.

    Parameters
    ----------
    dim : int, optional
        Number d of features; by default that of the prior or of the first example.
    eta : "auto" or float
        Learning rate. "auto" is ``eta_t = 0.1 / max(p_t, y_t, ymean_t)^2`` with the prediction, the label, and the mean of all labels of
        the same sense up to this one. A number is positive and fixed, in units of one over y squared; choose it smaller for noisier
        labels. It is read at the first example; a later change takes effect at :meth:`fit`.
    prior : array-like, shape (d, d), optional
        ``A_1``, symmetric positive definite; by default the identity.
    differences : bool
        False: an example is a pair of points (2, d). True: it is their difference (d,).

    Notes
    -----
    Jain 2008, section 2. With ``p = z' A_t z`` the new prediction ybar is the positive root of
    ``eta p ybar^2 + (1 - eta p y) ybar - p = 0`` and ``A_{t+1}^-1 = A_t^-1 + eta (ybar - y) z z'``, that is
    ``A_{t+1} = A_t - eta (ybar - y) A_t z z' A_t / (1 + eta (ybar - y) p)``. This quadratic equation belongs to the loss with the factor
    1/2. The learner keeps a triangular factor, ``A = B B'``, and updates it by Algorithm 1 of Kulis 2009, so that A stays positive
    definite.

    Differs from the paper: there are "at most" and "at least" beside labels. The loss bound of the paper is not claimed;
    :meth:`loss_bound` is another one. It is known only after the run, because no constant holds for predictions of any size.

    The rate "auto" is not from the paper. It depends on predictions and labels only, so that units do not matter: points times s
    with labels times s^2 give the same metric. The factor 0.1 was chosen by nearest neighbours on six data sets. The mean prevents that
    small labels, which are only noise, count as much as large ones. There is one mean per sense, since "at most" and "at least" usually
    differ by orders of magnitude. If the prior predicts far too little, the correction is slow: scale the prior then.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat.online.logdet import OnlineLogDet
    >>> learner = OnlineLogDet(eta=0.1)
    >>> _ = learner.learn_one(([0.0, 0.0], [1.0, 0.0]), 4.0).learn_one(([0.0, 0.0], [0.0, 3.0]), 5.0, sense="<=")
    >>> learner.transform([[0.0, 0.0], [1.0, 1.0]]).shape
    (2, 2)
    """

    n_features_in_: int
    _fixed: float  # the learning rate; 0 for "auto"
    # B' with A = B B', of an order padded to a multiple of 8; None before the first example
    _Bt: np.ndarray | None = None
    _totals: np.ndarray  # running numbers of the kernels, at the positions that `kernels` names
    _first: np.ndarray | None  # A_1; None for the identity

    def __init__(
        self,
        dim: int | None = None,
        *,
        eta: Literal["auto"] | float = "auto",
        prior: Table | None = None,
        differences: bool = False,
    ) -> None:
        self.dim = dim
        self.eta = eta
        self.prior = prior
        self.differences = differences

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = bool(self.differences), not self.differences
        tags.target_tags.required = tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True  # most labels are not squared lengths
        return tags

    # ------------------------------------------------------------------ a stream
    def fit(self, X: Points, y: Values, *, sense: Senses = "==") -> OnlineLogDet:
        """Forget everything, then :meth:`partial_fit`; returns self."""
        with undone_on_error(self):
            self._learn(self._checked_differences(X, reset=True, fewest=1), as_labels(self, y), sense, fresh=True)
        return self

    def partial_fit(self, X: Points, y: Values, *, sense: Senses = "==") -> OnlineLogDet:
        """Make a trial for every example, in order; returns self.

        Parameters
        ----------
        X : array-like, shape (n, 2, d) pairs of points; with ``differences=True`` (n, d)
        y : array-like, shape (n,)
            Squared distances in units of the data squared, or bounds on them; not negative.
        sense : {"==", "<=", ">="} or one per example
            Whether y is the squared distance itself, an upper bound, or a lower bound.

        Raises
        ------
        ValueError, TypeError
            An example is invalid; the message names it. Nothing of the block is learned then.
        FloatingPointError
            A step cannot be computed: scale X and y, or lower a fixed eta. Nothing of the block is learned then.

        Warns
        -----
        UnreachableLabelWarning
            Identical points have a positive label, which no metric predicts. Such rows are learned as if the label were 0.
        """
        self.predict_then_learn(X, y, sense=sense)
        return self

    def learn_one(self, x: Values, y: float, *, sense: Sense = "==") -> OnlineLogDet:
        """Make one trial, for a pair of points (2, d), or with ``differences=True`` a difference (d,); returns self."""
        check_numeric("x", x)
        self._learn([x], [y], sense)
        return self

    def predict_then_learn(self, X: Points, y: Values, *, sense: Senses = "==") -> np.ndarray:
        """As :meth:`partial_fit`; returns the squared distances predicted, each before its own label was used; shape (n,)."""
        with undone_on_error(self):
            return self._learn(self._checked_differences(X, reset=self._Bt is None), as_labels(self, y), sense)

    def predict_one(self, x: Values) -> float:
        """Squared distance ``z' A z`` of a pair or a difference; before the first example with the prior."""
        check_numeric("x", x)
        return float(self._predict([x])[0])

    def predict(self, X: Points) -> np.ndarray:
        """*Squared* distances of pairs (n, 2, d), or of differences (n, d); before the first example with the prior."""
        self._known_dim()
        return self._predict(self._checked_differences(X))

    def _predict(self, X: Points) -> np.ndarray:
        Z = self._differences(X, self._dim())
        H = Z @ self._factor(Z.shape[1]).T  # z' A z = |B'z|^2
        return np.einsum("ij,ij->i", H, H)

    # ------------------------------------------------------------------ the metric
    def transform(self, X: Points) -> np.ndarray:
        """Map points (n, d) so that Euclidean distances are the learned distances; shape (n, d)."""
        components = self.components_
        return _rows(self._as_table(X), len(components), "(n, d) points", ndim=2) @ components.T

    @property
    def components_(self) -> np.ndarray:
        """The learned map, shape (d, d), upper triangular with a positive diagonal; before the first example that of the prior."""
        return self._factor(self._known_dim()).copy()

    def get_metric(self) -> MahalanobisDistance:
        """The learned distance (not squared) as a picklable function of two points; before the first example that of the prior."""
        return MahalanobisDistance.of_map(self.components_)

    # ------------------------------------------------------------------ losses and bounds
    @property
    def cumulative_loss_(self) -> float:
        """Total loss l of the predictions, each made before its label was used; units of y squared."""
        return self._total(kernels.LOSS)

    @property
    def n_seen_(self) -> int:
        """Number of trials so far."""
        return int(self._total(kernels.SEEN))

    @property
    def n_updates_(self) -> int:
        """Number of trials that changed the metric."""
        return int(self._total(kernels.UPDATES))

    @property
    def eta_(self) -> float:
        """The fixed learning rate; with "auto" that of the latest trial that changed the metric, 0 before; units of one over y squared."""
        check_is_fitted(self)
        return self._fixed or self._total(kernels.RATE)

    def loss_bound(self, U: Table, loss_of_U: float) -> float:
        """What :attr:`cumulative_loss_` cannot exceed if U has the total loss L_U: ``K (L_U + D_ld(U, A_1) / eta)``.

        With "auto" it is ``max_t(k_t / eta_t) (max_t(eta_t) L_U + D_ld(U, A_1))``, over the trials that changed the metric.

        Parameters
        ----------
        U : array-like, shape (d, d)
            Symmetric, PSD; the bound is inf for a singular U (with "auto" only after the metric changed).
        loss_of_U : float
            Total loss of U on the same stream; units of y squared.

        Notes
        -----
        K is the largest ``k_t`` of the run. It is ``1 + eta p ybar`` for a prediction that was too small, and
        ``(1 + eta p ybar)^2 / (1 + eta ybar^2)`` for one that was too large; both are ``1 + eta p^2`` near the label.

        Proof, with ``s = p / ybar`` and ``q = z'Uz``. One trial changes the divergence by ``D_ld(U, A_t) - D_ld(U, A_{t+1}) = log s
        - eta (ybar - y) q``. Add ``eta (q - y)^2 / 2`` and minimise over q. The minimum is at ``q = ybar``, also if only the
        violation counts, and leaves ``log s - (1 - 1/s) + eta (ybar - y)^2 / 2``. Since ``log s - (1 - 1/s)`` is at least ``(s -
        1)^2 / 2`` times ``1 / s`` for s < 1 and ``1 / s^2`` for s > 1, this is at least ``eta (p - y)^2 / (2 k_t)``. Sum over t.
        Not in Jain 2008.

        Each step of the proof holds for any ``eta_t``, also one that depends on y_t, so that ``sum_t eta_t l_t / k_t`` is at most
        ``D_ld(U, A_1) + sum_t eta_t l_t(U)``.
        """
        check_is_fitted(self)
        check_positive("loss_of_U", loss_of_U, finite=True, zero=True)
        U = as_matrix("U", U, order=self._dim(), psd=True, sparse="dense")
        first = np.eye(self.n_features_in_) if self._first is None else self._first
        divergence = float(LogDet()(U, first, rtol=1e-14))
        if self._fixed:  # RATIO is max_t k_t
            return max(1.0, self._total(kernels.RATIO)) * (loss_of_U + divergence / self._fixed)
        if not self.n_updates_:
            return 0.0  # nothing was lost
        # RATIO is max_t k_t / eta_t, HIGHEST is max_t eta_t
        return self._total(kernels.RATIO) * (self._total(kernels.HIGHEST) * loss_of_U + divergence)

    # ------------------------------------------------------------------ inside
    def __sklearn_is_fitted__(self) -> bool:
        return self._Bt is not None

    def _total(self, which: int) -> float:
        return 0.0 if self._Bt is None else float(self._totals[which])

    def _dim(self, *, fresh: bool = False) -> int | None:
        """Number of features if it is known; ``fresh``: from the parameters only."""
        if not fresh and self._Bt is not None:
            return self.n_features_in_
        check_integer("dim", self.dim, 1)
        return self.dim if self.dim is not None or self.prior is None else len(self._prior(None))

    def _known_dim(self) -> int:
        d = self._dim()
        if d is None:
            raise NotFittedError("the number of features is not known yet: give dim, or learn from an example first.")
        return d

    def _checked_differences(self, X: Any, *, reset: bool = False, fewest: int = 0) -> Any:
        """Differences, with their column names, as scikit-learn checks points; pairs as they are, since they are no table."""
        check_flag("differences", self.differences)
        return self._as_table(X, reset=reset, ensure_min_samples=fewest) if self.differences else X

    def _as_table(self, X: Any, **settings: Any) -> np.ndarray:
        settings = {"reset": False, "ensure_min_samples": 0} | settings
        # what is not finite is refused later by a message that names the rows
        return validated(self, X, order="C", ensure_all_finite=False, allow_nd=True, **settings)

    def _prior(self, d: int | None) -> np.ndarray:
        return as_matrix("prior", self.prior, order=d, symmetric=True, sparse="dense", copy=True)

    def _factor(self, d: int) -> np.ndarray:
        """B' of the metric that predicts next, shape (d, d)."""
        return (self._start(d)[1] if self._Bt is None else self._Bt)[:d, :d]

    def _start(self, d: int) -> tuple[np.ndarray | None, np.ndarray]:
        """``A_1`` (None for the identity) and its B', of an order padded to a multiple of 8, as the kernels need it."""
        Bt = np.zeros((-(-d // 8) * 8,) * 2)
        if self.prior is None:
            Bt[:d, :d] = np.eye(d)
            return None, Bt
        first = self._prior(d)
        C, is_definite = cholesky(first)
        if not is_definite:
            check_psd("prior", eigvalsh(first), definite=True)
        Bt[:d, :d] = C.T
        return first, Bt

    def _learn(self, X: Any, y: Any, sense: Any, *, fresh: bool = False) -> np.ndarray:
        """Learn a block as a whole or not at all; the predictions. ``fresh``: begin with the prior."""
        fresh = fresh or self._Bt is None
        Z = self._differences(X, self._dim(fresh=fresh))
        y = as_column("y", y, len(Z), per="example", scalar=len(Z) == 1, copy=True)
        sense = sense_codes(sense, len(Z))
        y = _checked_labels(Z, y, sense)
        with undone_on_error(self):
            if fresh:
                self._begin(Z)
            assert self._Bt is not None
            # the kernel changes them in place
            self._Bt, self._totals, predictions = self._Bt.copy(), self._totals.copy(), np.empty(len(Z))
            done = kernels.metric_trials_inplace(self._Bt, predictions, self._totals, Z, y, sense, self._fixed)
            if done < len(Z) or not np.isfinite(self._Bt).all():
                where = f"at {rows_text(np.array([done]))} of X" if done < len(Z) else "in this block"
                advice = f"scale X and y, or lower eta={self._fixed:g}" if self._fixed else "scale X and y"
                raise FloatingPointError(f"a step {where} is not finite; {advice}.")
        return predictions

    def _begin(self, Z: np.ndarray) -> None:
        """Check the parameters, and start with the prior."""
        if isinstance(self.eta, str) and self.eta != "auto":
            raise ValueError(f'eta must be "auto" or a positive number; got {self.eta!r}.')
        self._fixed = 0.0
        if not isinstance(self.eta, str):
            check_positive("eta", self.eta, finite=True)
            self._fixed = float(self.eta)
        if not len(Z):
            raise ValueError("X must hold at least one example to begin with.")
        self.n_features_in_ = Z.shape[1]
        self._first, self._Bt = self._start(Z.shape[1])
        self._totals = np.zeros(kernels.N_TOTALS)

    def _differences(self, X: Any, d: int | None) -> np.ndarray:
        """The differences (n, d), finite: X itself, or from pairs (n, 2, d)."""
        check_flag("differences", self.differences)
        if self.differences:
            return _rows(X, d, "(n, d) differences", ndim=2)
        A = _rows(X, d, "(n, 2, d) pairs of points (differences of points need differences=True)", ndim=3)
        return np.ascontiguousarray(A[:, 0] - A[:, 1])


def _rows(X: Any, d: int | None, shapes: str, *, ndim: int) -> np.ndarray:
    """Finite real numbers of shape (n, d) or (n, 2, d)."""
    A = as_numbers("X", X)
    if A.ndim != ndim or (A.ndim == 3 and A.shape[1] != 2) or A.shape[-1] == 0:
        raise ValueError(f"X must have shape {shapes}; got {A.shape}.")
    if d is not None and A.shape[-1] != d:
        raise ValueError(f"X must have {d} features; got {A.shape[-1]}.")
    check_finite("X", A)
    return np.ascontiguousarray(A)


def _checked_labels(Z: np.ndarray, y: np.ndarray, sense: np.ndarray) -> np.ndarray:
    """The labels; raises for negative ones. Positive labels of identical points become 0, which every metric predicts, with a warning."""
    bad = np.flatnonzero(y < 0.0)
    if len(bad):
        raise ValueError(f"y holds squared distances, which are not negative; got {y[bad[0]]} in {rows_text(bad)}.")
    bad = np.flatnonzero((y > 0.0) & (sense <= 0) & ~Z.any(axis=1))
    if len(bad):
        text = f"X has identical points in {rows_text(bad)}, which no metric puts at the squared distance {y[bad[0]]}: 0 is used."
        warnings.warn(text, UnreachableLabelWarning, stacklevel=4)
        y[bad] = 0.0
    return y
