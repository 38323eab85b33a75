"""The matrix exponentiated gradient learner (Tsuda 2004, section 3)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from bregmat.base.checks import as_column, check_integer, check_positive
from bregmat.base.threads import on_one_blas_thread, single_thread_for
from bregmat.estimators.base import validated
from bregmat.online.gradient_state import GradientState
from bregmat.online.instances import NO_DIM, point_numbers, vectors
from bregmat.online.learner import as_labels, undone_on_error
from bregmat.online.settings import GradientSettings
from bregmat.typing import Instance, Instances, OnlineLoss, OnlineLossName, Stream, Table, Values


@on_one_blas_thread
class MatrixExponentiatedGradient(RegressorMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Learn a positive definite matrix of fixed trace from a stream of linear measurements, with a loss bound.

    In every trial the learner sees an instance ``X_t``, predicts ``tr(W_t X_t)``, receives the label ``y_t`` and updates
    (Tsuda 2004, eq. 4, in the stable form of eq. 7):

        ``log W_{t+1} = log W_t - eta l'(tr(W_t X_t), y_t) X_t - log Z_t``.

    Use it for kernels and metrics from distances that arrive one at a time, and for quantum states from measurements. For data that is
    available at once use :func:`bregmat.nearest_kernel`, which finds the optimum.

    Parameters
    ----------
    dim : int, optional
        Order d of the matrix; by default that of the prior or of the first instance. For pairs it is the number of points.
    eta : "bound" or float
        Learning rate, positive, in units of one over (loss derivative times instance). "bound", for the squared loss only, is the rate of
        Lemma 3.2, ``2 c / (tau r^2 (2 + c))`` for the trace tau, with the c that makes the bound tightest for the loss budget.
    loss : "squared" or object
        ``(p - y)^2``, or any object with ``value(prediction, label)`` and ``derivative(prediction, label)``, convex in the prediction.
    prior : array-like, shape (d, d), optional
        ``W_1``, Hermitian, positive definite, of the given trace; by default a multiple of the identity.
    trace : float
        Trace of all ``W_t``; positive. **It has to match the scale of the labels**: no prediction exceeds the trace times the
        largest eigenvalue of the instance. For pairs, some matrix of the trace fits if the trace is at least ``dim - 1`` times the
        mean half squared distance of all pairs, which is the trace of the centred kernel. A larger trace gives a larger bound.
    spectral_spread : float
        r, an upper bound of the largest minus the smallest eigenvalue of every instance; 1 for pairs. Each instance is checked.
    loss_budget : float
        Total loss that a good matrix is expected to have, in units of the loss: 0 if some matrix fits exactly, about ``n s^2`` for n
        labels with noise of standard deviation s. A larger budget gives smaller steps with "bound".
    instances : {"pairs", "vectors", "matrices"}
        Pairs (a, b) stand for ``(e_a - e_b)(e_a - e_b)' / 2``, so that **y is half the squared distance**. Vectors v stand for
        ``v v*``. Matrices are Hermitian, dense or scipy.sparse. Complex vectors and matrices make W complex.

    Notes
    -----
    The learner is an estimator of scikit-learn, and ``river.compat.convert_sklearn_to_river`` makes it a regressor of river. The parameters
    are read at the first use; ``set_params`` and ``fit`` forget what was learned. An error while learning leaves the learner as it was.

    Differs from the paper: for pairs and vectors, Lanczos runs replace eigendecompositions, and a trial costs about ten products of the
    matrix with a vector; the trace is a parameter; other losses enter by their derivative (footnotes 1 and 3). The memory does not grow
    with the stream.

    Examples
    --------
    >>> from bregmat import MatrixExponentiatedGradient
    >>> learner = MatrixExponentiatedGradient(3, trace=2.0)  # the kernel of three points
    >>> for a, b, half_sq_distance in [(0, 1, 0.5), (1, 2, 0.5), (0, 2, 1.0)] * 20:
    ...     _ = learner.learn_one((a, b), half_sq_distance)
    >>> learner.cumulative_loss_ <= learner.loss_bound()
    True
    >>> abs(learner.predict_one((0, 2)) - 1.0) < 0.1
    True
    """

    _settings: GradientSettings | None = None  # None before the first use
    _state: GradientState | None = None  # None until the order of the matrix is known

    def __init__(
        self,
        dim: int | None = None,
        *,
        eta: Literal["bound"] | float = "bound",
        loss: OnlineLossName | OnlineLoss = "squared",
        prior: Table | None = None,
        trace: float = 1.0,
        spectral_spread: float = 1.0,
        loss_budget: float = 0.0,
        instances: Instances = "pairs",
    ) -> None:
        self.dim = dim
        self.eta = eta
        self.loss = loss
        self.prior = prior
        self.trace = trace
        self.spectral_spread = spectral_spread
        self.loss_budget = loss_budget
        self.instances = instances

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # only vectors are a table of features
        tags.input_tags.two_d_array = tags.input_tags.sparse = self.instances == "vectors"
        tags.input_tags.three_d_array = self.instances == "matrices"
        tags.target_tags.required = True
        tags.regressor_tags.poor_score = True  # most labels are not quadratic forms of the instances
        return tags

    # ------------------------------------------------------------------ a stream
    def predict_one(self, x: Instance) -> float:
        """``tr(W X)`` of one instance: a pair, a vector or a matrix."""
        kind = self.settings.kind
        block = kind.read(kind.one(x), self._dim)
        state = self._state or self._start(block.shape[1])
        with single_thread_for(len(state.H)):
            return state.predict(block)

    def learn_one(self, x: Instance, y: float) -> MatrixExponentiatedGradient:
        """Make one trial: predict, then update by the label; returns self."""
        self._learn(self.settings.kind.one(x), y)
        return self

    def fit(self, X: Stream, y: Values) -> MatrixExponentiatedGradient:
        """Forget everything, then :meth:`partial_fit` with the present parameters; returns self."""
        with undone_on_error(self):
            self._forget()
            self._learn(self._checked_vectors(X, fewest=1), as_labels(self, y))
        return self

    def partial_fit(self, X: Stream, y: Values) -> MatrixExponentiatedGradient:
        """Make a trial for every row of X, in order; returns self.

        Parameters
        ----------
        X : array-like, shape (n, 2) pairs, (n, d) vectors or (n, d, d) matrices; or a list of scipy.sparse matrices
        y : array-like, shape (n,)
            Labels in units of the prediction; for pairs *half* the squared distances, which are not negative.

        Raises
        ------
        ValueError, TypeError
            An example is invalid; the message names it. Nothing of the block is learned then.
        """
        self.predict_then_learn(X, y)
        return self

    def predict_then_learn(self, X: Stream, y: Values) -> np.ndarray:
        """As :meth:`partial_fit`; returns the predictions, each made before its own label was used; shape (n,)."""
        with undone_on_error(self):
            return self._learn(self._checked_vectors(X), as_labels(self, y))

    def predict(self, X: Stream) -> np.ndarray:
        """``tr(W X)`` of every instance with the present W; shape (n,)."""
        values, U = self._started().spectrum()
        kind = self.settings.kind
        block = kind.read(self._checked_vectors(X, is_known=True), self._dim)
        return kind.values(block, U * np.sqrt(values))  # tr(W X) with W = G G*

    # ------------------------------------------------------------------ the matrix
    def matrix(self) -> np.ndarray:
        """The W that predicts next, shape (d, d); complex after complex instances."""
        G = self.factor()
        W = G @ G.conj().T
        return 0.5 * (W + W.conj().T)

    def factor(self) -> np.ndarray:
        """G with ``W = G G*``, shape (d, d); its columns are orthogonal, the longest first."""
        values, U = self._started().spectrum()
        return (U * np.sqrt(values))[:, ::-1]

    def transform(self, points: Table | None = None, *, n_components: int | None = None) -> np.ndarray:
        """Points (n, d) whose squared distances (pairs) or squared lengths ``v* W v`` (vectors, matrices) are the learned ones.

        For pairs ``points`` are point numbers, by default all; otherwise vectors (n, d), by default the unit vectors. ``n_components``
        keeps only the directions of the largest eigenvalues of W.
        """
        check_integer("n_components", n_components, 1)
        G = self.factor()[:, :n_components]
        if points is None:
            return G
        if self.settings.instances == "pairs":
            return G[point_numbers("points", points, len(G))]
        if self.settings.instances == "vectors":
            points = self._checked_vectors(points, is_known=True)
        return vectors("points", points, len(G)).conj() @ G

    # ------------------------------------------------------------------ losses and bounds
    @property
    def n_seen_(self) -> int:
        """Number of trials so far."""
        return 0 if self._state is None else self._state.n_seen

    @property
    def cumulative_loss_(self) -> float:
        """Total loss of the predictions made before their labels were used; units of the loss."""
        return 0.0 if self._state is None else self._state.loss

    @property
    def void_(self) -> str | None:
        """Why :meth:`loss_bound` without arguments is infinite: an assumption fails, or no matrix of the trace is within the budget."""
        return None if self._state is None else self._state.why_no_bound()

    def loss_of(self, U: Table) -> float:
        """Total loss of a fixed matrix U (d, d) on the stream; only for pairs with the squared loss, where a d x d table is enough."""
        matrix = self.settings.read_comparison(U, self._dim)
        if not self.settings.is_tallied:
            raise ValueError(
                "the loss of U is known for pairs with the squared loss only. Compute it from your examples, and call "
                "loss_bound(U, loss_of_U)."
            )
        return 0.0 if self._state is None else self._state.loss_of(matrix)

    def regret(self, U: Table) -> float:
        """:attr:`cumulative_loss_` minus :meth:`loss_of` U."""
        return self.cumulative_loss_ - self.loss_of(U)

    def loss_bound(self, U: Table | None = None, loss_of_U: float | None = None) -> float:
        """Upper bound of :attr:`cumulative_loss_` if a matrix U has the total loss ``loss_of_U``.

        For the squared loss it is ``(1 + c/2) L_U + (1/2 + 1/c) tau r^2 Delta(U, W_1)`` (Tsuda 2004, Lemma 3.2). For other losses it is
        :func:`bregmat.online.bounds.convex_loss_bound`, which depends on the derivatives of the losses so far.

        Parameters
        ----------
        U : array-like, shape (d, d), optional
            Hermitian, PSD, of the learner's trace. None: any U, whose divergence from the prior is at most
            ``tau log(tau / lambda_min(W_1))``, which is log d for the default prior and trace.
        loss_of_U : float, optional
            In units of the loss. By default the one of U for pairs with the squared loss, otherwise the loss budget.

        Returns
        -------
        float
            inf if nothing is proven: ``void_`` gives the reason, or the learning rate is above ``2 / (r^2 tau)`` with the squared loss.
            A loss above the bound for the loss budget proves that no U of the trace is within the budget; that bound is then inf.
        """
        state = self._started()
        is_claimed = loss_of_U is None and (U is None or state.tally is None)
        if is_claimed:
            loss_of_U = self.settings.loss_budget
        elif loss_of_U is None:
            assert U is not None
            loss_of_U = self.loss_of(U)
            # with the rate for a budget of 0, c is inf and any loss above 0, also by rounding, would make the bound infinite
            loss_of_U = loss_of_U if loss_of_U > 1e-20 * state.loss else 0.0
        else:
            check_positive("loss_of_U", loss_of_U, finite=True, zero=True)
        matrix = None if U is None else self.settings.read_comparison(U, self._dim)
        if is_claimed and state.why_no_bound() is not None:
            return math.inf
        return state.loss_bound(matrix, loss_of_U)

    # ------------------------------------------------------------------ parameters
    @property
    def settings(self) -> GradientSettings:
        """The checked parameters, read at the first use; the state begins as soon as they give the order of the matrix."""
        if self._settings is None:
            params = self.get_params(deep=False)
            dim, prior = params.pop("dim"), params.pop("prior")
            settings = GradientSettings(**params)
            check_integer("dim", dim, 1)
            log_prior = None if prior is None else settings.read_prior(prior, dim)
            dim = dim if log_prior is None else len(log_prior)
            if dim is None and settings.instances == "pairs":
                raise ValueError(NO_DIM)
            with undone_on_error(self):
                self._settings = settings
                if dim is not None:
                    self._start(int(dim), log_prior)
        assert self._settings is not None
        return self._settings

    @property
    def dim_(self) -> int:
        """Order d of the matrix; with vectors also ``n_features_in_``."""
        return len(self._started().H)

    @property
    def eta_(self) -> float:
        """The learning rate in use, in units of one over (loss derivative times instance)."""
        return self._started().eta

    @property
    def log_prior(self) -> np.ndarray:
        """``log W_1``, shape (d, d)."""
        return self._started().first_exponent()

    def set_params(self, **params: Any) -> MatrixExponentiatedGradient:
        """Set parameters; forgets what was learned with the old ones. Returns self."""
        super().set_params(**params)
        if params:
            self._forget()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return self.n_seen_ > 0

    # ------------------------------------------------------------------ inside
    @property
    def _dim(self) -> int | None:
        return None if self._state is None else len(self._state.H)

    def _started(self) -> GradientState:
        """The state; ``NotFittedError`` while the order of the matrix is unknown."""
        _ = self.settings  # starts the state if the parameters give the order
        if self._state is None:
            raise NotFittedError("dim is not known yet: give dim, or learn from an example first.")
        return self._state

    def _start(self, dim: int, log_prior: np.ndarray | None = None) -> GradientState:
        """Start a state for matrices of order `dim`."""
        self._state = GradientState(self.settings, dim, log_prior)
        if self.settings.instances == "vectors":
            self.n_features_in_ = dim
        return self._state

    def _forget(self) -> None:
        for name in ("_settings", "_state", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)

    def _checked_vectors(self, X: Any, *, fewest: int = 0, is_known: bool = False) -> Any:
        """Real vectors, with their column names, as scikit-learn checks points; complex vectors and other instances as they are."""
        if self.settings.instances != "vectors" or getattr(X, "dtype", None) in ("complex128", "complex64"):
            return X
        if isinstance(X, list | tuple) and np.asarray(X, dtype=object).dtype == object and np.iscomplexobj(X):
            return X
        options: Any = {"reset": not is_known and not self.n_seen_, "ensure_min_samples": fewest}
        # the kind refuses what is not finite and names the rows
        return validated(self, X, accept_sparse="csr", order="C", ensure_all_finite=False, **options)

    def _learn(self, X: Stream, y: Values) -> np.ndarray:
        """Learn a block as a whole or not at all; the predictions."""
        settings = self.settings
        block = settings.kind.read(X, self._dim)
        y = as_column("y", y, len(block), per="example", scalar=len(block) == 1, copy=True)
        settings.check_labels(y)
        if not len(y):
            return np.zeros(0)
        go_back = None if self._state is None else partial(self._state.go_back, self._state.mark(block))
        with single_thread_for(self._dim or block.shape[1]), undone_on_error(self, go_back):
            state = self._state or self._start(block.shape[1])
            state.check_assumptions(block, y)
            return state.learn(block, y)
