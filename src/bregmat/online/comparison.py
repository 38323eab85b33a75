"""The total loss of the matrix exponentiated gradient learner beside its bound and beside fixed matrices."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from bregmat._kernels import lanczos
from bregmat.base.checks import check_positive
from bregmat.base.threads import on_one_blas_thread
from bregmat.online import bounds
from bregmat.online.hindsight import BestInHindsight, best_in_hindsight, total_loss
from bregmat.online.learner import OnlineLearner
from bregmat.online.records import KeptExamples, PairTally
from bregmat.online.settings import GradientSettings
from bregmat.typing import Table


@on_one_blas_thread
class LossAndBound(OnlineLearner):
    """What :class:`bregmat.online.MatrixExponentiatedGradient` has lost, what it can have lost, and what others would have."""

    _hint = " (pairs with the squared loss need neither)"

    # before the first use; parameters count from then on
    _settings: Any = None
    _kind: Any = None
    _dim: Any = None
    _eta: float = math.nan
    _state: Any = None
    _record: PairTally | KeptExamples | None = None
    _log_prior: np.ndarray | None = None
    _void: str | None = None
    _no_fit: str | None = None  # why no matrix is within the loss budget
    _misfit: float = 0.0  # what any matrix loses
    _farthest: float = math.nan

    @property
    @abstractmethod
    def settings(self) -> GradientSettings:
        """The parameters, checked."""

    @abstractmethod
    def _started(self) -> Any:
        """The state; ``NotFittedError`` where the order of the matrix is not known."""

    @property
    def n_seen_(self) -> int:
        """Trials so far."""
        return 0 if self._state is None else int(self._state.totals[lanczos.SEEN])

    @property
    def cumulative_loss_(self) -> float:
        """Total loss of the predictions made before their labels were used; units of the loss."""
        return 0.0 if self._state is None else float(self._state.totals[lanczos.LOSS])

    @property
    def log_prior(self) -> np.ndarray:
        """``log W_1``, shape (d, d)."""
        self._started()
        return self.settings.log_prior(self._dim) if self._log_prior is None else self._log_prior

    @property
    def void_(self) -> str | None:
        """Why :meth:`loss_bound` without arguments is infinite, if it is."""
        settings = self.settings
        if self._void is not None or self._no_fit is not None or not self.n_seen_:
            return self._void or self._no_fit
        bound = self._bound(None, settings.loss_budget)
        if self.cumulative_loss_ <= bound * (1.0 + 1e-9):
            return None
        return (
            f"{settings.no_matrix()}, or the total loss would be below {bound:.4g}; raise trace, which has to match the "
            "scale of the labels, or loss_budget"
        )

    def loss_bound(self, U: Table | None = None, loss_of_U: float | None = None) -> float:
        """What :attr:`cumulative_loss_` cannot exceed if a matrix U has the total loss ``loss_of_U``.

        Squared loss: ``(1 + c/2) L_U + (1/2 + 1/c) r^2 Delta(U, W_1)`` (Tsuda 2004, Lemma 3.2). Other losses:
        :func:`bregmat.online.bounds.convex_loss_bound`, which refers to the derivatives met so far.

        Parameters
        ----------
        U : array-like, shape (d, d), optional
            Hermitian, PSD, of the learner's trace. None: any U, whose divergence from the prior is at most
            ``tau log(tau / lambda_min(W_1))``, which is log d for the default.
        loss_of_U : float, optional
            Total loss of U on the same stream; units of the loss. By default that of U where the stream is recorded (as in
            :meth:`loss_of`, less rounding), else the loss budget.

        Returns
        -------
        float
            inf where nothing is proven: see ``void_``, and learning rates above ``2 / (r^2 tau)`` with the squared loss. A
            loss above the bound for the loss budget proves that no U of the trace is within it; that gives inf as well.
        """
        claimed = loss_of_U is None and (U is None or self._record is None)
        if claimed:
            loss_of_U = self.settings.loss_budget
        elif loss_of_U is None:
            assert U is not None
            loss_of_U = self.loss_of(U)
            # below that it is rounding: with the learning rate for a loss budget of 0 anything above 0 makes the bound infinite
            loss_of_U = loss_of_U if loss_of_U > 1e-20 * self.cumulative_loss_ else 0.0
        else:
            check_positive("loss_of_U", loss_of_U, finite=True, zero=True)
        U = None if U is None else self._read_comparison(U)
        self._started()
        if claimed and self.void_ is not None:
            return math.inf
        return self._bound(U, loss_of_U)

    def best_in_hindsight(self, *, weight: float | None = None, tol: float = 1e-6) -> BestInHindsight:
        """The fixed matrix with the least total squared loss on the stream so far, a nearness problem for the core.

        ``minimize sum_t (tr(U X_t) - y_t)^2 + weight Delta(U, W_1)`` over PSD matrices of the learner's trace.

        Parameters
        ----------
        weight : float, optional
            Of the divergence; positive, in units of the trace, for the loss is trace squared where the divergence is trace. The
            smaller, the nearer to the least loss and the harder to solve. Default: 1e-3 of the learner's own total loss over
            the trace, at least 1e-12 of the trace; ``lower_bound`` of the result says what that can cost.
        tol : float
            Relative gap of the nearness problem.

        Raises
        ------
        ValueError
            If the stream was not recorded (pairs with the squared loss always are; otherwise ``keep_examples=True``), or the
            loss is not the squared one.
        """
        self._check_recorded()
        if not self.settings.is_squared:
            raise ValueError(f"best_in_hindsight needs loss='squared'; got {self.settings.loss!r}.")
        if self._record is None or not self.n_seen_:
            raise ValueError("best_in_hindsight needs at least one example.")
        trace = self.settings.trace
        if weight is None:
            weight = max(1e-3 * self.cumulative_loss_ / trace, 1e-12 * trace)
        check_positive("weight", weight, finite=True)
        check_positive("tol", tol, finite=True)
        return best_in_hindsight(self.settings, self._record, self.log_prior, weight=float(weight), tol=tol)

    # ------------------------------------------------------------------ inside
    def _is_recorded(self) -> bool:
        return self.settings.needs_no_stream or self.settings.keep_examples

    def _read_comparison(self, U: Table) -> np.ndarray:
        return self.settings.read_comparison(U, self._dim)

    def _total_loss(self, U: np.ndarray, record: PairTally | KeptExamples) -> float:
        return total_loss(U, self.settings, record)

    def _best_loss(self) -> float:
        return self.best_in_hindsight().loss

    def _bound(self, U: np.ndarray | None, loss_of_U: float) -> float:
        """The formula."""
        if self._void is not None:
            return math.inf
        if U is not None:
            divergence = bounds.relative_entropy(U, self.log_prior)
        else:
            if math.isnan(self._farthest):
                self._farthest = bounds.largest_divergence(self.log_prior, trace=self.settings.trace)
            divergence = self._farthest
        slopes = float(self._state.totals[lanczos.SLOPES])
        return self.settings.bound(self._eta, divergence, loss_of_U, slopes)
