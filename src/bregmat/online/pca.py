"""Online principal component analysis with a regret bound (Warmuth 2006)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bregmat._kernels import online as kernels
from bregmat._kernels.arrays import EigenWork
from bregmat.base.checks import check_integer, check_positive, check_random_state, generator, rows_text
from bregmat.base.linalg import eigvalsh, sq_norms
from bregmat.base.threads import on_one_blas_thread, single_thread_for
from bregmat.estimators.base import validated
from bregmat.online.learner import undone_on_error
from bregmat.typing import Points, RandomState, Values

# d^3 times the rows of one call of the kernel, about half its operations; a call cannot be interrupted
BLOCK = 50_000_000
MAX_SQ_NORM = 1e100  # steps along rows with larger squared norms would overflow


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class OnlinePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal components from a stream, with an expected loss close to that of the best subspace in hindsight.

    Before every row x the learner has a density matrix W with no eigenvalue above 1/m, where ``m = d - k`` directions are discarded. W
    stands for a random subspace of k dimensions. The expected squared error of projecting x onto it is the loss ``m x' W x``. Then the
    learner updates

        ``W <- cap( exp(log W - eta x x') )``,

    where cap is the projection in relative entropy onto such matrices. Use it for streams that are arbitrary or change. For a fixed
    set of rows use batch PCA, which is exact. No mean is subtracted: components are those of the second moment about 0.

    Parameters
    ----------
    n_components : int, optional
        k, from 1 to d - 1; by default d - 1, which discards one direction.
    eta : float, optional
        Fixed learning rate, positive. Rows must have length at most 1, as in the paper, which may need a multiple of X.
    n_rounds : int, optional
        Length of the stream, for the fixed rate of the paper and rows of length at most 1: ``log(1 + sqrt(2 R / L))`` with
        ``R = m log(d/m)`` and the largest possible loss L of the best subspace, ``n_rounds m / d``. Give eta, or n_rounds, or neither. With
        neither, ``eta_t = sqrt(R / (B (B + L_t)))`` decreases with the loss L_t so far, where B is the largest squared norm so far.
    random_state : int, Generator, RandomState or None
        Seed of :meth:`sample_components`; nothing else is random.

    Attributes
    ----------
    n_samples_seen_ : int
        Number of rows so far.

    Notes
    -----
    Warmuth 2006 has the algorithm, the capping and the bound; JMLR 9:2287-2320 is a longer version. A trial is one rank-one update of the
    eigenvectors of W, with at most ``2 d^3`` operations. The memory is about eight d x d arrays.

    Differs from the paper in how a subspace is drawn: by systematic sampling instead of a mixture of corners, with the same expected
    projection. Differs also if neither eta nor n_rounds is given: log W is multiplied by ``eta_{t+1} / eta_t`` before capping. The sum of
    ``D(U, W_t) / eta_t`` still telescopes, because the step towards ``W_1`` costs at most ``(1/eta_{t+1} - 1/eta_t) D(U, W_1)``
    (the trace of exp is convex). Hence :meth:`loss_bound` holds for streams of any length.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat.online.pca import OnlinePCA
    >>> X = np.random.default_rng(0).normal(size=(500, 4)) * [3.0, 2.0, 0.1, 0.1]
    >>> OnlinePCA(n_components=2).fit(X).transform(X).shape
    (500, 2)
    """

    n_components: int | None = field(default=None, kw_only=False)
    eta: float | None = None
    n_rounds: int | None = None
    random_state: RandomState = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------------------------------ a stream
    def fit(self, X: Points, y: object = None) -> OnlinePCA:
        """Forget everything, then :meth:`partial_fit`; returns self."""
        return self._learn(X, fresh=True)

    def partial_fit(self, X: Points, y: object = None) -> OnlinePCA:
        """Make a trial for every row, in order; returns self.

        Parameters
        ----------
        X : array-like, shape (n, d)
            Finite.
        y : ignored

        Raises
        ------
        ValueError, TypeError
            A row is invalid; the message names it. In this case, and after Ctrl-C, no row of the block is learned.
        """
        return self._learn(X, fresh=False)

    def learn_one(self, x: Values) -> OnlinePCA:
        """Make one trial, for a row (d,); returns self."""
        return self._learn([x], fresh=False)

    # ------------------------------------------------------------------ the map
    def transform(self, X: Points) -> np.ndarray:
        """``X @ components_.T``; shape (n, k), float32 if X is."""
        X = self._read(X)
        return X @ self.components_.T.astype(X.dtype)

    @property
    def components_(self) -> np.ndarray:
        """The k directions with the smallest probability to be discarded, shape (k, d): orthonormal, the largest entries positive."""
        check_is_fitted(self)
        C = self._Vt[: self.n_components_]
        peak = C[np.arange(len(C)), np.abs(C).argmax(axis=1)]
        return C * np.where(peak < 0.0, -1.0, 1.0)[:, None]

    @property
    def n_components_(self) -> int:
        """k."""
        check_is_fitted(self)
        return self.n_features_in_ - self._m

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    # ------------------------------------------------------------------ the randomised projection
    def matrix(self) -> np.ndarray:
        """W, shape (d, d): trace one, no eigenvalue above ``1 / (d - k)``."""
        check_is_fitted(self)
        return (self._Vt.T * np.exp(self._lam)) @ self._Vt

    def sample_components(self, *, random_state: RandomState = None) -> np.ndarray:
        """Draw a subspace, whose expected projection is ``I - m W`` and onto which the paper projects the next row; (k, d), orthonormal.

        ``random_state`` is by default that of the estimator. If that is an integer, every call between two trials returns the same
        subspace.
        """
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        if random_state is None and isinstance(seed, int | np.integer) and not isinstance(seed, bool):
            rng = np.random.default_rng([int(seed), self.n_samples_seen_])
        else:
            rng = generator(seed)
        m, d = self._m, self.n_features_in_
        # systematic sampling: intervals of the lengths m w_i, which are at most 1, fill [0, m]; those that hold u, u + 1, ... are discarded
        ends = np.cumsum(np.exp(self._lam))
        steps = np.arange(m)
        discarded = np.searchsorted(ends * (m / ends[-1]), rng.uniform() + steps)
        # a length above 1 by rounding may hold two of them: the indices are made to increase
        discarded = np.minimum(np.maximum.accumulate(discarded - steps) + steps, d - m + steps)
        return self._Vt[np.setdiff1d(np.arange(d), discarded)]

    # ------------------------------------------------------------------ losses and bounds
    @property
    def cumulative_loss_(self) -> float:
        """Total expected squared error so far; data units squared."""
        check_is_fitted(self)
        return float(self._totals[kernels.PAID])

    @property
    def eta_(self) -> float:
        """The learning rate of the next trial, in units of one over data squared; 0 while all rows were zeros."""
        check_is_fitted(self)
        return float(self._totals[kernels.ETA])

    def loss_of_best(self) -> float:
        """Total squared error of the best k-dimensional subspace for all rows so far; data units squared."""
        check_is_fitted(self)
        return float(np.maximum(eigvalsh(self._moment)[: self._m], 0.0).sum())

    def regret(self) -> float:
        """Total expected loss so far minus that of the best subspace in hindsight; data units squared."""
        return self.cumulative_loss_ - self.loss_of_best()

    def loss_bound(self, loss_of_best: float | None = None) -> float:
        """What :attr:`cumulative_loss_` cannot exceed if some k-dimensional subspace has the total loss L.

        Parameters
        ----------
        loss_of_best : float, optional
            L in data units squared; by default :meth:`loss_of_best`.

        Notes
        -----
        Let ``R = m log(d/m)``. With a fixed eta the bound is ``(eta L + R) / (1 - exp(-eta))`` (Warmuth 2006). For the rate of n_rounds
        this is at most ``L + sqrt(2 L' R) + R``, where L' is the L that the rate was computed for.

        With neither it is known only after the run: ``L + R / eta_t + sum_s (1 - rho_s) l_s`` with the losses l and
        ``rho = (1 - exp(-eta b)) / (eta b)`` for the squared norms b. Proof: ``sum_s rho_s l_s <= L + R / eta_t`` by Golden-Thompson and
        the theorem of Pythagoras, as in the paper.
        """
        check_is_fitted(self)
        L = self.loss_of_best() if loss_of_best is None else loss_of_best
        check_positive("loss_of_best", L, finite=True, zero=True)
        L, R, totals = float(L), self._largest_divergence(), self._totals
        if totals[kernels.LAST_ETA] == 0.0:  # nothing but zeros so far
            return L
        if self._fixed > 0.0:  # (eta L + R) / (1 - exp(-eta))
            return (self._fixed * L + R) / -math.expm1(-self._fixed)
        # PRICE is sum_s (1 - rho_s) l_s
        return L + R / float(totals[kernels.LAST_ETA]) + float(totals[kernels.PRICE])

    # ------------------------------------------------------------------ inside
    def __sklearn_is_fitted__(self) -> bool:
        return "_Vt" in vars(self)

    def _read(self, X: Points) -> np.ndarray:
        check_is_fitted(self)
        return validated(self, X, dtype=[np.float64, np.float32], reset=False)

    def _largest_divergence(self) -> float:
        """``R = m log(d / m)``: the largest value of m times the relative entropy to the first W."""
        return self._m * math.log(self.n_features_in_ / self._m)

    def _begin(self, d: int) -> None:
        """Check the parameters, and start with ``W = I / d``."""
        k = self._check_parameters(d)
        self._m = m = d - k
        self._fixed = 0.0
        if self.eta is not None:
            self._fixed = float(self.eta)
        elif self.n_rounds is not None:
            # log(1 + sqrt(2 R / L)), L = n_rounds m / d
            self._fixed = math.log1p(math.sqrt(2.0 * self._largest_divergence() / (self.n_rounds * m / d)))
        self.n_samples_seen_ = 0
        self._lam, self._Vt = np.full(d, -math.log(d)), np.eye(d)
        self._moment, self._totals = np.zeros((d, d)), np.zeros(5)
        self._totals[kernels.PEAK] = 1.0 if self._fixed > 0.0 else 0.0

    def _check_parameters(self, d: int) -> int:
        """Raise for a bad parameter; k."""
        check_integer("n_components", self.n_components, 1)
        check_integer("n_rounds", self.n_rounds, 1)
        if self.eta is not None:
            check_positive("eta", self.eta, finite=True)
        if self.eta is not None and self.n_rounds is not None:
            raise ValueError(f"give eta or n_rounds, not both; got eta={self.eta!r} and n_rounds={self.n_rounds!r}.")
        check_random_state(self.random_state)
        if d < 2:
            raise ValueError(
                f"OnlinePCA needs at least 2 features, one to keep and one to discard; got n_features = {d}."
            )
        if self.n_components is not None and self.n_components >= d:
            raise ValueError(f"n_components must be below {d}, the number of features; got {self.n_components}.")
        return d - 1 if self.n_components is None else int(self.n_components)

    def _learn(self, X: Any, *, fresh: bool) -> OnlinePCA:
        """Learn all rows or none; ``fresh``: begin anew."""
        fresh = fresh or not self.__sklearn_is_fitted__()
        with undone_on_error(self):
            X = validated(self, X, order="C", reset=fresh)
            d = X.shape[1]
            if fresh:
                self._begin(d)
            self._check_norms(X)
            # on copies, for an interrupt between two calls of the kernel
            lam, Vt, totals = self._lam.copy(), self._Vt.copy(), self._totals.copy()
            work = EigenWork.of_order(d)
            R, block = self._largest_divergence(), max(1, BLOCK // d**3)
            with single_thread_for(d):
                for k in range(0, len(X), block):
                    kernels.pca_trials_inplace(lam, Vt, totals, X[k : k + block], self._m, self._fixed, R, work)
            self._lam, self._Vt, self._totals = lam, Vt, totals
            self._moment = self._moment + X.T @ X
            self.n_samples_seen_ += len(X)
        return self

    def _check_norms(self, X: np.ndarray) -> None:
        """Raise for rows that are longer than 1 with a fixed rate, or whose steps would overflow."""
        norms = sq_norms(X)
        bad = np.flatnonzero(~(norms <= MAX_SQ_NORM))
        if len(bad):
            raise ValueError(
                f"X must have rows shorter than {MAX_SQ_NORM**0.5:g}, or steps overflow; got longer {rows_text(bad)}."
            )
        bad = np.flatnonzero(norms > (1.0 + 1e-9 if self._fixed > 0.0 else math.inf))
        if len(bad):
            raise ValueError(
                f"X must have rows of norm at most 1 with eta or n_rounds; got {norms[bad[0]] ** 0.5:.6g} in {rows_text(bad)}. "
                "Scale X, or leave out eta and n_rounds."
            )
