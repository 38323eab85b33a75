"""The online LogDet metric learner (Jain 2008)."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from sklearn.base import RegressorMixin, TransformerMixin
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
from bregmat.estimators.mahalanobis import MahalanobisMetric
from bregmat.objective.divergences import LogDet
from bregmat.online.assumptions import UnreachableLabelWarning
from bregmat.online.learner import OnlineLearner, Undo, whole_labels
from bregmat.online.records import KeptExamples
from bregmat.typing import Points, Sense, Senses, Table, Values


@on_one_blas_thread
class OnlineLogDet(RegressorMixin, TransformerMixin, MahalanobisMetric, OnlineLearner):
    """Learn a Mahalanobis metric from a stream of pairs of points with squared distances or bounds on them.

    At every trial the learner sees a difference ``z = x - x'``, predicts ``z' A_t z``, is told y and moves to

        ``A_{t+1} = argmin_A  D_ld(A, A_t) + eta l(A)``,    ``l(A) = (z'Az - y)^2 / 2``

    in closed form; for "at most" and "at least" only what exceeds the bound counts, so that nothing moves where it holds.
    For metrics that must follow a stream, at d^2 operations a pair. Where all pairs are at hand, or must really be met,
    :class:`bregmat.MetricLearner` finds the optimum. Not a step of a pipeline: it learns from *pairs* of points and their
    squared distances, not from rows and classes.

    Parameters
    ----------
    dim : int, optional
        Number d of features; by default that of the prior or of the first example.
    eta : "auto" or float
        Learning rate. "auto" is ``eta_t = 0.1 / max(p_t, y_t, ymean_t)^2``: prediction, label, and mean of all labels of the
        same sense up to this one. A number is positive and fixed, in units of one over y squared; the noisier the labels,
        the less. Where ``eta * y^2`` is far above 1, a trial nearly meets its label whatever came before.
    prior : array-like, shape (d, d), optional
        ``A_1``, symmetric positive definite; by default the identity.
    keep_examples : bool
        Keep the stream for :meth:`loss_of` and :meth:`regret`; memory then grows with it. As `eta`, it holds from the first
        example on: setting it later waits for :meth:`fit`.
    differences : bool
        What an example is: False for a pair of points (2, d); True for their difference (d,).

    Attributes
    ----------
    components_ : ndarray, shape (d, d)
        The learned map: ``transform(X)`` is ``X @ components_.T``, upper triangular with a positive diagonal.
    cumulative_loss_ : float
        Total loss l of all predictions, each made before its label was used; units of y squared.
    n_seen_, n_updates_ : int
        Trials so far, and how many of them moved the metric.
    eta_ : float
        The fixed learning rate; with "auto" that of the latest trial that moved the metric, 0 before; units of 1 / y^2.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Jain 2008, section 2. With ``p = z' A_t z`` the new prediction ybar is the positive root of
    ``eta p ybar^2 + (1 - eta p y) ybar - p = 0`` and ``A_{t+1}^-1 = A_t^-1 + eta (ybar - y) z z'``, that is
    ``A_{t+1} = A_t - eta (ybar - y) A_t z z' A_t / (1 + eta (ybar - y) p)``. The factor 1/2 is in the loss, as this form of
    the quadratic equation needs. Kept is a triangular factor, ``A = B B'``, updated by Algorithm 1 of Kulis 2009: A
    stays positive definite by construction.

    Differs from the paper: "at most" and "at least" beside labels; the loss bound, see :meth:`loss_bound`, is our own, and
    that of the paper is not claimed. Ours is known after the run only: no constant holds for predictions of any size,
    since a trial that predicts p loses p^2 but brings the metric no more than log p nearer to any other.

    The rate "auto" is not from the paper. It depends on nothing but predictions and labels: points times s with labels
    times s^2 give the same metric, labels and prior times c the metric times c, points times s with the prior over s^2 the
    metric over s^2; to the same bits where s is a power of 2 and c one of 4, else to rounding. The scale 0.1 was chosen
    for nearest neighbours on six data sets: larger ones gain on raw features and lose where distances were good already. The
    mean keeps small labels that are only noise from counting as much as large ones; there is one for every sense, since
    "at most" and "at least" differ by orders of magnitude as a rule. A prior that predicts too much by a
    factor f is put right within about ``10 d log f`` trials, one that predicts far too little only slowly: scale it then.

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
    _fixed: float  # 0: "auto"
    _Bt: np.ndarray  # what learning changes: B' of the present metric
    _totals: np.ndarray
    _first: np.ndarray | None
    _record: KeptExamples | None = None  # None: learning began without keep_examples

    def __init__(
        self,
        dim: int | None = None,
        *,
        eta: Literal["auto"] | float = "auto",
        prior: Table | None = None,
        keep_examples: bool = False,
        differences: bool = False,
    ) -> None:
        self.dim = dim
        self.eta = eta
        self.prior = prior
        self.keep_examples = keep_examples
        self.differences = differences

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = bool(self.differences), not self.differences
        tags.target_tags.required = tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True  # of any labels: they are squared lengths at best
        return tags

    # ------------------------------------------------------------------ a stream
    def fit(self, X: Points, y: Values, *, sense: Senses = "==") -> OnlineLogDet:
        """Forget everything, then :meth:`partial_fit`; returns self."""
        with Undo(self, []):
            self._learn(self._at_the_door(X, reset=True, fewest=1), whole_labels(self, y), sense, fresh=True)
        return self

    def partial_fit(self, X: Points, y: Values, *, sense: Senses = "==") -> OnlineLogDet:
        """A trial for every example, in order; returns self.

        Parameters
        ----------
        X : array-like, shape (n, 2, d) pairs of points; with ``differences=True`` (n, d)
        y : array-like, shape (n,)
            Squared distances in units of the data squared, or bounds on them; not negative.
        sense : {"==", "<=", ">="} or one per example
            Whether y is the squared distance, the most, or the least that it may be.

        Raises
        ------
        ValueError, TypeError
            Naming what is wrong and where. Nothing of the block is learned then.
        FloatingPointError
            A step that cannot be computed: scale X and y, or lower a fixed eta. Nothing of the block is learned then.

        Warns
        -----
        UnreachableLabelWarning
            Identical points are told to be apart, which no metric puts them: such rows are left out, as if told to be at 0.
        """
        self.predict_then_learn(X, y, sense=sense)
        return self

    def learn_one(self, x: Values, y: float, *, sense: Sense = "==") -> OnlineLogDet:
        """One trial, for a pair of points (2, d), or with ``differences=True`` a difference (d,); returns self."""
        check_numeric("x", x)
        self._learn([x], [y], sense)
        return self

    def predict_then_learn(self, X: Points, y: Values, *, sense: Senses = "==") -> np.ndarray:
        """As :meth:`partial_fit`; returns the squared distances predicted, each before its own label was used; shape (n,)."""
        with Undo(self, []):
            return self._learn(self._at_the_door(X, reset=not hasattr(self, "_Bt")), whole_labels(self, y), sense)

    def predict_one(self, x: Values) -> float:
        """Squared distance ``z' A z`` of a pair or a difference; of the prior where nothing was learned yet."""
        check_numeric("x", x)
        return float(self._predict([x])[0])

    def predict(self, X: Points) -> np.ndarray:
        """*Squared* distances of pairs (n, 2, d), or of differences (n, d); of the prior where only ``dim`` is known yet."""
        self._known_dim()
        return self._predict(self._at_the_door(X))

    def _predict(self, X: Points) -> np.ndarray:
        Z = self._differences(X, self._dim())
        H = Z @ self._factor(Z.shape[1]).T
        return np.einsum("ij,ij->i", H, H)

    # ------------------------------------------------------------------ the metric
    def transform(self, X: Points) -> np.ndarray:
        """Map points (n, d) so that Euclidean distances are the learned distances; shape (n, d)."""
        components = self.components_
        return _rows(self._as_table(X), len(components), "(n, d) points", ndim=2) @ components.T

    @property
    def components_(self) -> np.ndarray:
        """The learned map, shape (d, d); that of the prior where nothing was learned yet."""
        return self._factor(self._known_dim()).copy()

    # ------------------------------------------------------------------ losses and bounds
    @property
    def cumulative_loss_(self) -> float:
        """Total loss of the predictions made before their labels were used; units of y squared."""
        return self._total(kernels.LOSS)

    @property
    def n_seen_(self) -> int:
        """Trials so far."""
        return int(self._total(kernels.SEEN))

    @property
    def n_updates_(self) -> int:
        """Trials that moved the metric."""
        return int(self._total(kernels.UPDATES))

    @property
    def eta_(self) -> float:
        """The fixed learning rate, or with "auto" the latest, 0 before any trial moved; units of one over y squared."""
        check_is_fitted(self)
        return self._fixed or self._total(kernels.RATE)

    def loss_bound(self, U: Table, loss_of_U: float | None = None) -> float:
        """``K (L_U + D_ld(U, A_1) / eta)``, which :attr:`cumulative_loss_` cannot exceed if U has the total loss L_U.

        With "auto" ``max_t(k_t / eta_t) (max_t(eta_t) L_U + D_ld(U, A_1))``, over the trials that moved the metric.

        Parameters
        ----------
        U : array-like, shape (d, d)
            Symmetric, PSD; the bound is inf for a singular U (with "auto" not before the metric moved).
        loss_of_U : float, optional
            Total loss of U on the same stream; units of y squared. By default :meth:`loss_of` it; must be given if the
            stream was not kept.

        Notes
        -----
        K is the largest ``k_t`` of the run: ``1 + eta p ybar`` where a prediction was too small,
        ``(1 + eta p ybar)^2 / (1 + eta ybar^2)`` where it was too large; both are ``1 + eta p^2`` where it was nearly right.
        Proof: with ``s = p / ybar`` and ``q = z'Uz``, ``D_ld(U, A_t) - D_ld(U, A_{t+1}) = log s - eta (ybar - y) q``. Adding
        ``eta (q - y)^2 / 2`` and minimising over q (at ybar; also where only the excess counts) leaves ``log s - (1 - 1/s)
        + eta (ybar - y)^2 / 2``; with ``log s - (1 - 1/s) >= (s - 1)^2 / 2`` times ``1 / s`` for s < 1 and ``1 / s^2`` for s > 1
        that is at least ``eta (p - y)^2 / (2 k_t)``. Sum over t. Not in Jain 2008.

        Every step of that holds for any ``eta_t``, also one that knows y_t, so that ``sum_t eta_t l_t / k_t`` is at most
        ``D_ld(U, A_1) + sum_t eta_t l_t(U)``. With "auto" ``k_t <= 1.1^2``, for predictions of any size: for losses in units
        of ``max(p_t, y_t, ymean_t)^2`` there is a bound known before the run, ``1.21 (L_U + 10 D_ld(U, A_1))``.
        """
        check_is_fitted(self)
        if loss_of_U is None:
            loss_of_U = self.loss_of(U)
        check_positive("loss_of_U", loss_of_U, finite=True, zero=True)
        U = self._read_comparison(U)
        first = np.eye(len(U)) if self._first is None else self._first
        divergence = float(LogDet()(U, first, rtol=1e-14))
        if self._fixed:
            return max(1.0, self._total(kernels.RATIO)) * (loss_of_U + divergence / self._fixed)
        if not self.n_updates_:
            return 0.0  # nothing was lost
        return self._total(kernels.RATIO) * (self._total(kernels.HIGHEST) * loss_of_U + divergence)

    def _is_recorded(self) -> bool:
        return self._record is not None if hasattr(self, "_Bt") else self.keep_examples

    def _total_loss(self, U: np.ndarray, record: KeptExamples) -> float:
        if not record.blocks:
            return 0.0
        Z, y, sense = record.columns()
        excess = np.einsum("ij,ij->i", Z @ U, Z) - y
        return 0.5 * float((np.where(sense * excess < 0.0, 0.0, excess) ** 2).sum())

    def _read_comparison(self, U: Any) -> np.ndarray:
        return as_matrix("U", U, order=self._dim(), psd=True, sparse="dense")

    # ------------------------------------------------------------------ inside
    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_Bt")

    def _total(self, which: int) -> float:
        return float(self._totals[which]) if hasattr(self, "_Bt") else 0.0

    def _dim(self, *, fresh: bool = False) -> int | None:
        """Number of features as far as it is known."""
        if not fresh and hasattr(self, "_Bt"):
            return self.n_features_in_
        check_integer("dim", self.dim, 1)
        return self.dim if self.dim is not None or self.prior is None else len(self._prior(None))

    def _known_dim(self) -> int:
        d = self._dim()
        if d is None:
            raise NotFittedError("the number of features is not known yet: give dim, or learn from an example first.")
        return d

    def _at_the_door(self, X: Any, *, reset: bool = False, fewest: int = 0) -> Any:
        """Differences as scikit-learn checks points, names of columns included; pairs, which are no table, as they are."""
        check_flag("differences", self.differences)
        return self._as_table(X, reset=reset, ensure_min_samples=fewest) if self.differences else X

    def _as_table(self, X: Any, **settings: Any) -> np.ndarray:
        settings = {"reset": False, "ensure_min_samples": 0} | settings
        # what is not finite, and pairs in the place of differences, are asked for later, with the rows
        return validated(self, X, order="C", ensure_all_finite=False, allow_nd=True, **settings)

    def _prior(self, d: int | None) -> np.ndarray:
        return as_matrix("prior", self.prior, order=d, symmetric=True, sparse="dense", copy=True)

    def _factor(self, d: int) -> np.ndarray:
        """B' of the metric that predicts next, shape (d, d)."""
        return self._Bt[:d, :d] if hasattr(self, "_Bt") else self._start(d)[1][:d, :d]

    def _start(self, d: int) -> tuple[np.ndarray | None, np.ndarray]:
        """``A_1`` (None: the identity) and its B', with the order padded to a multiple of 8, as the kernels want it."""
        first, Bt = None, np.zeros((-(-d // 8) * 8,) * 2)
        if self.prior is None:
            Bt[:d, :d] = np.eye(d)
            return first, Bt
        first = self._prior(d)
        C, is_definite = cholesky(first)
        if not is_definite:
            check_psd("prior", eigvalsh(first), definite=True)
        Bt[:d, :d] = C.T
        return first, Bt

    def _learn(self, X: Any, y: Any, sense: Any, *, fresh: bool = False) -> np.ndarray:
        fresh = fresh or not hasattr(self, "_Bt")
        Z = self._differences(X, self._dim(fresh=fresh))
        y = as_column("y", y, len(Z), per="example", scalar=len(Z) == 1, copy=True)
        sense = sense_codes(sense, len(Z))
        _check_labels(y)
        _leave_out_identical(Z, y, sense)
        fixed = self._first_rate() if fresh else self._fixed
        if fresh and not len(Z):
            raise ValueError("X must hold at least one example to begin with.")
        first, Bt = self._start(Z.shape[1]) if fresh else (self._first, self._Bt.copy())
        totals = np.zeros(kernels.N_TOTALS) if fresh else self._totals.copy()
        predictions = np.empty(len(Z))
        done = kernels.metric_trials_inplace(Bt, predictions, totals, Z, y, sense, fixed)
        if done < len(Z) or not np.isfinite(Bt).all():
            where = f"at {rows_text(np.array([done]))} of X" if done < len(Z) else "in this block"
            advice = f"scale X and y, or lower eta={fixed:g}" if fixed else "scale X and y"
            raise FloatingPointError(f"a step {where} is not finite; {advice}.")
        record = self._record
        if fresh:
            check_flag("keep_examples", self.keep_examples)
            record = _new_record() if self.keep_examples else None
        with Undo(self, [] if record is None else [(record, record.mark(Z))]):
            if fresh:
                self.n_features_in_, self._fixed, self._record = Z.shape[1], fixed, record
            self._first, self._Bt, self._totals = first, Bt, totals
            if record is not None:
                record.add(Z, y, sense)
        return predictions

    def _first_rate(self) -> float:
        """The fixed learning rate of the parameters, 0 for "auto"."""
        if isinstance(self.eta, str):
            if self.eta != "auto":
                raise ValueError(f'eta must be "auto" or a positive number; got {self.eta!r}.')
            return 0.0
        check_positive("eta", self.eta, finite=True)
        return float(self.eta)

    def _differences(self, X: Any, d: int | None) -> np.ndarray:
        """Finite rows (n, d): differences as they are, pairs (n, 2, d) subtracted."""
        check_flag("differences", self.differences)
        if self.differences:
            return _rows(X, d, "(n, d) differences", ndim=2)
        A = _rows(X, d, "(n, 2, d) pairs of points (differences of points need differences=True)", ndim=3)
        return np.ascontiguousarray(A[:, 0] - A[:, 1])


def _new_record() -> KeptExamples:
    return KeptExamples("Z", "y", "sense")


def _rows(X: Any, d: int | None, shapes: str, *, ndim: int) -> np.ndarray:
    """Finite real numbers, (n, d) or (n, 2, d)."""
    A = as_numbers("X", X)
    if A.ndim != ndim or (A.ndim == 3 and A.shape[1] != 2) or A.shape[-1] == 0:
        raise ValueError(f"X must have shape {shapes}; got {A.shape}.")
    if d is not None and A.shape[-1] != d:
        raise ValueError(f"X must have {d} features; got {A.shape[-1]}.")
    check_finite("X", A)
    return np.ascontiguousarray(A)


def _check_labels(y: np.ndarray) -> None:
    """Raise for squared distances that no metric has."""
    bad = np.flatnonzero(y < 0.0)
    if len(bad):
        raise ValueError(f"y holds squared distances, which are not negative; got {y[bad[0]]} in {rows_text(bad)}.")


def _leave_out_identical(Z: np.ndarray, y: np.ndarray, sense: np.ndarray) -> None:
    """Identical points that are told to be apart get the label 0 in `y`, which every metric meets, with a warning."""
    bad = np.flatnonzero((y > 0.0) & (sense <= 0) & ~Z.any(axis=1))
    if len(bad):
        text = f"X has identical points in {rows_text(bad)}, which no metric puts at the squared distance {y[bad[0]]}: left out."
        warnings.warn(text, UnreachableLabelWarning, stacklevel=4)
        y[bad] = 0.0
