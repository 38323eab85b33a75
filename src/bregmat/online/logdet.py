"""The online LogDet metric learner (Jain 2008)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bregmat._kernels import online as kernels
from bregmat.checks import as_column, as_matrix, check_flag, check_integer, check_positive, rows_text
from bregmat.columns import sense_codes
from bregmat.divergences import LogDet
from bregmat.estimators.mahalanobis import MahalanobisDistance, pair_distances
from bregmat.estimators.state import parameters_restored, parameters_state
from bregmat.linalg import cholesky, eigvalsh
from bregmat.online.point_pairs import check_labels, differences, real_rows


class OnlineLogDet(BaseEstimator):
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
    _keeps: bool  # keep_examples when learning began
    _Bt: np.ndarray  # what learning changes: B' of the present metric
    _totals: np.ndarray
    _first: np.ndarray | None
    _kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]]

    def __init__(
        self,
        dim: int | None = None,
        *,
        eta: Any = "auto",
        prior: Any = None,
        keep_examples: bool = False,
        differences: bool = False,
    ) -> None:
        self.dim = dim
        self.eta = eta
        self.prior = prior
        self.keep_examples = keep_examples
        self.differences = differences

    # ------------------------------------------------------------------ a stream
    def fit(self, X: Any, y: Any, *, sense: Any = "==") -> OnlineLogDet:
        """Forget everything, then :meth:`partial_fit`; returns self."""
        self._learn(X, y, sense, fresh=True)
        return self

    def partial_fit(self, X: Any, y: Any, *, sense: Any = "==") -> OnlineLogDet:
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
        """
        self._learn(X, y, sense)
        return self

    def learn_one(self, x: Any, y: float, *, sense: str = "==") -> OnlineLogDet:
        """One trial, for a pair of points (2, d), or with ``differences=True`` a difference (d,); returns self."""
        self._learn([x], [y], sense)
        return self

    def predict_then_learn(self, X: Any, y: Any, *, sense: Any = "==") -> np.ndarray:
        """As :meth:`partial_fit`; returns the squared distances predicted, each before its own label was used; shape (n,)."""
        return self._learn(X, y, sense)

    def predict_one(self, x: Any) -> float:
        """Squared distance ``z' A z`` of a pair or a difference; of the prior where nothing was learned yet."""
        return float(self.predict([x])[0])

    def predict(self, X: Any) -> np.ndarray:
        """*Squared* distances of pairs (n, 2, d), or of differences (n, d); of the prior where nothing was learned yet."""
        Z = differences(X, self._dim(), are_given=self.differences)
        H = Z @ self._factor(Z.shape[1]).T
        return np.einsum("ij,ij->i", H, H)

    # ------------------------------------------------------------------ the metric
    def transform(self, X: Any) -> np.ndarray:
        """Map points (n, d) so that Euclidean distances are the learned distances; shape (n, d)."""
        return real_rows(X, self._dim(), "(n, d) points", ndim=2) @ self.components_.T

    @property
    def components_(self) -> np.ndarray:
        """The learned map, shape (d, d); that of the prior where nothing was learned yet."""
        d = self._dim()
        if d is None:
            raise NotFittedError("the number of features is not known yet: give dim, or learn from an example first.")
        return self._factor(d).copy()

    def get_mahalanobis_matrix(self) -> np.ndarray:
        """A, shape (d, d)."""
        C = self.components_
        return C.T @ C

    def get_metric(self) -> MahalanobisDistance:
        """The learned distance, not squared, as a picklable function of two points."""
        return MahalanobisDistance(self.components_)

    def pair_distance(self, pairs: Any) -> np.ndarray:
        """Learned distances of pairs (n, 2, d), *not* squared, as in :class:`bregmat.MetricLearner`; shape (n,)."""
        return pair_distances(pairs, self.components_)

    def pair_score(self, pairs: Any) -> np.ndarray:
        """Minus :meth:`pair_distance`: larger for more similar pairs."""
        return -self.pair_distance(pairs)

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

    def loss_of(self, A: Any) -> float:
        """Total loss of a fixed PSD matrix A (d, d) on the stream so far; needs ``keep_examples=True``."""
        A = self._read_comparison(A)
        if not (self._keeps if hasattr(self, "_Bt") else self.keep_examples):
            raise ValueError("the stream was not kept: make the learner with keep_examples=True, or give loss_of_A.")
        total = 0.0
        for Z, y, sense in self._kept if hasattr(self, "_Bt") else ():
            excess = np.einsum("ij,ij->i", Z @ A, Z) - y
            total += 0.5 * float((np.where(sense * excess < 0.0, 0.0, excess) ** 2).sum())
        return total

    def regret(self, A: Any, *, loss_of_A: float | None = None) -> float:
        """Total loss so far minus that of a fixed PSD matrix A (d, d).

        ``loss_of_A`` spares the learner from keeping the stream.
        """
        return self.cumulative_loss_ - self._loss_or_given(A, loss_of_A)

    def loss_bound(self, A: Any, loss_of_A: float | None = None) -> float:
        """``K (L_A + D_ld(A, A_1) / eta)``, which :attr:`cumulative_loss_` cannot exceed if A has the total loss L_A.

        With "auto" ``max_t(k_t / eta_t) (max_t(eta_t) L_A + D_ld(A, A_1))``, over the trials that moved the metric.

        Parameters
        ----------
        A : array-like, shape (d, d)
            Symmetric, PSD; the bound is inf for a singular A (with "auto" not before the metric moved).
        loss_of_A : float, optional
            Total loss of A on the same stream; units of y squared. By default :meth:`loss_of` it; must be given if the
            stream was not kept.

        Notes
        -----
        K is the largest ``k_t`` of the run: ``1 + eta p ybar`` where a prediction was too small,
        ``(1 + eta p ybar)^2 / (1 + eta ybar^2)`` where it was too large; both are ``1 + eta p^2`` where it was nearly right.
        Proof: with ``s = p / ybar`` and ``q = z'Az``, ``D_ld(A, A_t) - D_ld(A, A_{t+1}) = log s - eta (ybar - y) q``. Adding
        ``eta (q - y)^2 / 2`` and minimising over q (at ybar; also where only the excess counts) leaves ``log s - (1 - 1/s)
        + eta (ybar - y)^2 / 2``; with ``log s - (1 - 1/s) >= (s - 1)^2 / 2`` times ``1 / s`` for s < 1 and ``1 / s^2`` for s > 1
        that is at least ``eta (p - y)^2 / (2 k_t)``. Sum over t. Not in Jain 2008.

        Every step of that holds for any ``eta_t``, also one that knows y_t, so that ``sum_t eta_t l_t / k_t`` is at most
        ``D_ld(A, A_1) + sum_t eta_t l_t(A)``. With "auto" ``k_t <= 1.1^2``, for predictions of any size: for losses in units
        of ``max(p_t, y_t, ymean_t)^2`` there is a bound known before the run, ``1.21 (L_A + 10 D_ld(A, A_1))``.
        """
        check_is_fitted(self)
        loss = self._loss_or_given(A, loss_of_A)
        A = self._read_comparison(A)
        first = np.eye(len(A)) if self._first is None else self._first
        divergence = float(LogDet()(A, first, rtol=1e-14))
        if self._fixed:
            return max(1.0, self._total(kernels.RATIO)) * (loss + divergence / self._fixed)
        if not self.n_updates_:
            return 0.0  # nothing was lost
        return self._total(kernels.RATIO) * (self._total(kernels.HIGHEST) * loss + divergence)

    # ------------------------------------------------------------------ files
    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays for :func:`bregmat.save`; what is read back continues to the same bits."""
        params, arrays = parameters_state({k: v for k, v in self.get_params(deep=False).items() if v is not None})
        meta: dict[str, Any] = {"params": params}
        if hasattr(self, "_Bt"):
            meta |= {"eta": self._fixed, "keeps": self._keeps, "n_features_in": self.n_features_in_}
            arrays |= {"factor": self._Bt.copy(), "totals": self._totals.copy()}
            if self._first is not None:
                arrays["first"] = self._first
            for name, column in zip(("Z", "y", "sense"), zip(*self._kept)):
                arrays[f"kept_{name}"] = np.concatenate(column)
        return meta, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> OnlineLogDet:
        """Inverse of :meth:`to_state`."""
        self = cls(**parameters_restored(meta["params"], arrays))
        if "factor" in arrays:
            self._fixed, self.n_features_in_ = float(meta["eta"]), int(meta["n_features_in"])
            self._keeps = bool(meta["keeps"])
            self._Bt, self._totals = arrays["factor"].copy(), arrays["totals"].copy()
            self._first = arrays.get("first")
            kept = "kept_Z" in arrays
            self._kept = (
                [(arrays["kept_Z"].copy(), arrays["kept_y"].copy(), arrays["kept_sense"].copy())] if kept else []
            )
        return self

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
            raise ValueError(f"prior must be positive definite; its smallest eigenvalue is {eigvalsh(first)[0]:.3g}.")
        Bt[:d, :d] = C.T
        return first, Bt

    def _learn(self, X: Any, y: Any, sense: Any, *, fresh: bool = False) -> np.ndarray:
        fresh = fresh or not hasattr(self, "_Bt")
        Z = differences(X, self._dim(fresh=fresh), are_given=self.differences)
        y = as_column("y", y, len(Z), per="example", scalar=len(Z) == 1, copy=True)
        sense = sense_codes(sense, len(Z))
        check_labels(Z, y, sense)
        if fresh and isinstance(self.eta, str) and self.eta != "auto":
            raise ValueError(f'eta must be "auto" or a positive number; got {self.eta!r}.')
        if fresh and not isinstance(self.eta, str):
            check_positive("eta", self.eta, finite=True)
        if fresh and not len(Z):
            raise ValueError("X must hold at least one example to begin with.")
        fixed = self._fixed if not fresh else 0.0 if isinstance(self.eta, str) else float(self.eta)
        first, Bt = self._start(Z.shape[1]) if fresh else (self._first, self._Bt.copy())
        totals = np.zeros(kernels.N_TOTALS) if fresh else self._totals.copy()
        predictions = np.empty(len(Z))
        done = kernels.metric_trials_inplace(Bt, predictions, totals, Z, y, sense, fixed)
        if done < len(Z) or not np.isfinite(Bt).all():
            where = f"at {rows_text(np.array([done]))} of X" if done < len(Z) else "in this block"
            advice = f"scale X and y, or lower eta={fixed:g}" if fixed else "scale X and y"
            raise FloatingPointError(f"a step {where} is not finite; {advice}.")
        if fresh:
            check_flag("keep_examples", self.keep_examples)
        keeps = bool(self.keep_examples) if fresh else self._keeps
        kept = [] if fresh else self._kept
        before, seen = dict(vars(self)), len(kept)
        try:
            if fresh:
                self.n_features_in_, self._fixed, self._keeps, self._kept = Z.shape[1], fixed, keeps, kept
            self._first, self._Bt, self._totals = first, Bt, totals
            if keeps:
                kept.append((Z.copy(), y, sense))
            return predictions
        except BaseException:  # Ctrl-C
            self.__dict__ = before
            del kept[seen:]
            raise

    def _loss_or_given(self, A: Any, loss_of_A: Any) -> float:
        if loss_of_A is None:
            return self.loss_of(A)
        check_positive("loss_of_A", loss_of_A, finite=True, zero=True)
        return float(loss_of_A)

    def _read_comparison(self, A: Any) -> np.ndarray:
        return as_matrix("A", A, order=self._dim(), psd=True, sparse="dense")
