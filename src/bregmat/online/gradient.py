"""The matrix exponentiated gradient learner (Tsuda 2004, section 3)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import RegressorMixin, TransformerMixin
from sklearn.exceptions import NotFittedError

from bregmat._kernels import lanczos
from bregmat.base.checks import as_column, check_integer, check_share
from bregmat.base.linalg import eigh
from bregmat.base.threads import on_one_blas_thread, single_thread_blas
from bregmat.estimators.base import validated
from bregmat.online.assumptions import check_labels, check_steps, unavoidable, why_no_fit, why_spread
from bregmat.online.comparison import LossAndBound
from bregmat.online.instances import NO_DIM, point_numbers, vectors
from bregmat.online.learner import Undo, whole_labels
from bregmat.online.records import KeptExamples, PairTally
from bregmat.online.settings import GradientSettings
from bregmat.online.states import LogState
from bregmat.typing import Instance, Instances, OnlineLoss, OnlineLossName, OnlineMode, Stream, Table, Values


@on_one_blas_thread
class MatrixExponentiatedGradient(RegressorMixin, TransformerMixin, LossAndBound, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Learn a positive definite matrix of fixed trace from a stream of linear measurements, with a loss bound.

    At every trial the learner sees an instance ``X_t``, predicts ``tr(W_t X_t)``, is told the label ``y_t`` and moves
    (Tsuda 2004, eq. 4, kept in the stable form of eq. 7):

        ``log W_{t+1} = log W_t - eta l'(tr(W_t X_t), y_t) X_t - log Z_t``.

    For kernels and metrics from distances one at a time, and for quantum states from measurements. Where all data is at hand,
    :func:`bregmat.nearest_kernel` finds the optimum.

    Parameters
    ----------
    dim : int, optional
        Order d of the matrix: the number of points for pairs, where it must be given; otherwise by default that of the prior or
        of the first instance.
    eta : "bound" or float
        Learning rate, positive, in units of one over (loss derivative times instance). "bound" is that of Lemma 3.2, for the
        squared loss only: ``2 c / (r^2 (2 + c))`` with the c that makes the bound tightest for the given loss budget.
    loss : {"squared", "absolute", "logistic", "entropic", "forward_entropic"} or object
        See :mod:`bregmat.online.losses`; any object with ``value(prediction, label)`` and ``derivative(prediction, label)``,
        convex in the prediction.
    prior : array-like, shape (d, d), optional
        ``W_1``, Hermitian, positive definite, of the given trace; by default a multiple of the identity.
    trace : float
        Trace of all ``W_t``; positive. **It has to match the scale of the labels**: no prediction exceeds trace times the
        largest eigenvalue of the instance. For pairs a matrix of trace T fits as soon as T is ``dim - 1`` times the mean half
        squared distance of all pairs, the trace of the centred kernel; a larger T fits as well, under a larger bound.
    normalized : bool
        False leaves out the normalisation by ``Z_t``; the trace then moves, and no bound holds.
    spectral_spread : float
        r, at least the largest minus the smallest eigenvalue of every instance; 1 for pairs. Checked.
    loss_budget : float
        Total loss that a good matrix is expected to have, in units of the loss: for n labels with noise of standard
        deviation s about ``n s^2``; 0 if some matrix fits exactly. The larger, the smaller "bound" makes the steps.
    instances : {"pairs", "vectors", "matrices"}
        Pairs (a, b) stand for ``(e_a - e_b)(e_a - e_b)' / 2``, so that **y is half the squared distance**; vectors v for
        ``v v*``; matrices are Hermitian, dense or scipy.sparse. Complex vectors and matrices make W complex.
    mode : {"auto", "lanczos", "eigh"}
        How a trial is computed. "lanczos": no eigenvectors at all, the fastest; "eigh": an eigendecomposition per trial, the
        reference. "auto" is Lanczos, except for matrices with more than d / 16 nonzero rows.
    keep_examples : bool
        Keep the stream for :meth:`best_in_hindsight` and :meth:`regret`; memory then grows with it. Not needed for pairs with
        the squared loss, where a d x d table says all.

    Attributes
    ----------
    dim_ : int
        Order of the matrix.
    settings : GradientSettings
        The parameters, checked.
    n_features_in_ : int
        With vectors, the order of the matrix.
    eta_ : float
        The learning rate in use.
    n_seen_ : int
        Trials so far.
    cumulative_loss_ : float
        Their total loss; every prediction was made before its label was used.
    void_ : str or None
        Why :meth:`loss_bound` without arguments is infinite, if it is: an assumption that does not hold, or a proof that no
        matrix of the trace has a loss within the budget.

    Raises
    ------
    ValueError, TypeError
        For arguments out of range. An error while learning leaves the learner as it was.

    Notes
    -----
    An estimator of scikit-learn (for vectors also a step of a pipeline: ``transform`` maps them to where their squared lengths are the
    learned ones) and, by ``river.compat.convert_sklearn_to_river``, a regressor of river. Parameters count from the first use on;
    ``set_params`` and ``fit`` begin anew.

    Differs from the paper: Lanczos runs in place of eigendecompositions; trace tau; other losses by their derivative
    (footnotes 1 and 3). Memory: d x d numbers and about 50 d, whatever the length of the stream. Cost of a trial by Lanczos:
    about ten products of the matrix with a vector.

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

    def __init__(
        self,
        dim: int | None = None,
        *,
        eta: Literal["bound"] | float = "bound",
        loss: OnlineLossName | OnlineLoss = "squared",
        prior: Table | None = None,
        trace: float = 1.0,
        normalized: bool = True,
        spectral_spread: float = 1.0,
        loss_budget: float = 0.0,
        instances: Instances = "pairs",
        mode: OnlineMode = "auto",
        keep_examples: bool = False,
    ) -> None:
        self.dim = dim
        self.eta = eta
        self.loss = loss
        self.prior = prior
        self.trace = trace
        self.normalized = normalized
        self.spectral_spread = spectral_spread
        self.loss_budget = loss_budget
        self.instances = instances
        self.mode = mode
        self.keep_examples = keep_examples

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # others are no table of features
        tags.input_tags.two_d_array = tags.input_tags.sparse = self.instances == "vectors"
        tags.input_tags.three_d_array = self.instances == "matrices"
        tags.target_tags.required = True
        tags.regressor_tags.poor_score = True  # of any labels: they are quadratic forms of the instances at best
        return tags

    # ------------------------------------------------------------------ a stream
    def predict_one(self, x: Instance) -> float:
        """``tr(W X)`` of one instance: a pair, a vector or a matrix."""
        self._prepare()
        block = self._read(self._kind.one(x))
        with single_thread_blas(self._dim or 0):
            return float(self._state.predict(block)[0])

    def learn_one(self, x: Instance, y: float) -> MatrixExponentiatedGradient:
        """One trial: predict, then move towards the label; returns self."""
        self._prepare()
        self._learn(self._kind.one(x), y)
        return self

    def fit(self, X: Stream, y: Values) -> MatrixExponentiatedGradient:
        """Forget everything, then :meth:`partial_fit`, with the parameters as they are now; returns self.

        Parameters
        ----------
        X, y
            As in :meth:`partial_fit`; at least one example.
        """
        with Undo(self, []):
            self._forget()
            self._prepare()
            self._learn(self._at_the_door(X, fewest=1), whole_labels(self, y))
        return self

    def partial_fit(self, X: Stream, y: Values) -> MatrixExponentiatedGradient:
        """A trial for every row of X, in order; returns self.

        Parameters
        ----------
        X : array-like, shape (n, 2) pairs, (n, d) vectors or (n, d, d) matrices; or a list of scipy.sparse matrices
        y : array-like, shape (n,)
            Labels in units of the prediction; for pairs *half* the squared distances, which are not negative.

        Raises
        ------
        ValueError, TypeError
            Naming what is wrong and where; nothing of the block is learned then.
        """
        self.predict_then_learn(X, y)
        return self

    def predict_then_learn(self, X: Stream, y: Values) -> np.ndarray:
        """As :meth:`partial_fit`; returns the predictions, each made before its own label was used; shape (n,)."""
        with Undo(self, []):
            self._prepare()
            return self._learn(self._at_the_door(X), whole_labels(self, y))

    def predict(self, X: Stream) -> np.ndarray:
        """``tr(W X)`` of every instance with the present W; shape (n,)."""
        self._started()
        block = self._read(self._at_the_door(X, is_known=True))
        values, U = self._state.spectrum()
        return self._kind.values(block, U * np.sqrt(values))

    # ------------------------------------------------------------------ the matrix
    def matrix(self) -> np.ndarray:
        """The W that predicts next, shape (d, d); complex after complex instances."""
        G = self.factor()
        W = G @ G.conj().T
        return 0.5 * (W + W.conj().T)

    def factor(self) -> np.ndarray:
        """G with ``W = G G*``, shape (d, d); columns orthogonal, longest first."""
        values, U = self._started().spectrum()
        return (U * np.sqrt(values))[:, ::-1]

    def transform(self, points: Table | None = None, *, n_components: int | None = None) -> np.ndarray:
        """Points whose squared distances (pairs) or squared lengths (vectors, matrices: ``v* W v``) are the learned ones.

        Parameters
        ----------
        points : optional
            Pairs: point numbers, by default all. Otherwise vectors, shape (n, d), by default the unit vectors.
        n_components : int, optional
            Keep the directions of the largest eigenvalues of W only.

        Returns
        -------
        ndarray, shape (n, d) or (n, n_components)
        """
        check_integer("n_components", n_components, 1)
        G = self.factor()[:, :n_components]
        if points is None:
            return G
        if self.settings.instances == "pairs":
            return G[point_numbers("points", points, self._dim)]
        if self.settings.instances == "vectors":
            points = self._at_the_door(points, is_known=True)
        return vectors("points", points, self._dim).conj() @ G

    def mix_with_prior(self, share: float) -> MatrixExponentiatedGradient:
        """``W <- (1 - share) W + share W_1``: keeps every direction alive when the target moves. Voids the bound; returns self."""
        check_share("share", share, one=True)
        prior, P = eigh(self.log_prior)
        mixed = (1.0 - share) * self.matrix() + share * ((P * np.exp(prior)) @ P.conj().T)
        values, U = eigh(mixed)
        fresh = LogState((U * np.log(np.maximum(values, 1e-300))) @ U.conj().T, self.settings, self._eta)
        keep = [lanczos.LOSS, lanczos.CARRY, lanczos.SLOPES, lanczos.SEEN, lanczos.GUESS]
        fresh.totals[keep] = self._state.totals[keep]
        void = self._void or "a share of the first matrix was mixed in, for a target that moves; no bound is known then"
        self.__dict__.update(_state=fresh, _void=void)  # both or none, should Ctrl-C come
        return self

    # ------------------------------------------------------------------ parameters
    @property
    def settings(self) -> GradientSettings:
        """The parameters, checked: those in use once an example or ``dim`` has told the order of the matrix."""
        return self._prepare()

    @property
    def dim_(self) -> int:
        """Order d of the matrix."""
        self._started()
        return int(self._dim or 0)

    @property
    def eta_(self) -> float:
        """The learning rate in use, in units of one over (loss derivative times instance)."""
        self._started()
        return self._eta

    def set_params(self, **params: Any) -> MatrixExponentiatedGradient:
        """Other parameters; forgets what was learned, for the steps so far were made with the old ones. Returns self."""
        super().set_params(**params)
        if params:
            self._forget()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return self.n_seen_ > 0

    def __dir__(self) -> list[str]:
        return list(object.__dir__(self))  # scikit-learn's asks every property, and parameters may not be valid yet

    def __repr__(self) -> str:
        dim = self.dim if self._dim is None else self._dim
        return (
            f"MatrixExponentiatedGradient(dim={dim}, eta={self.eta!r}, loss={self.loss!r}, instances={self.instances!r}, "
            f"mode={self.mode!r}): {self.n_seen_} examples, total loss {self.cumulative_loss_:.6g}"
        )

    # ------------------------------------------------------------------ inside
    def _prepare(self, log_prior: np.ndarray | None = None) -> GradientSettings:
        """Check the parameters, once, and begin where they tell the order of the matrix; a logarithm of the prior spares taking it."""
        if self._settings is not None:
            return self._settings
        params = self.get_params(deep=False)
        dim, prior = params.pop("dim"), params.pop("prior")
        settings = GradientSettings(**params)
        check_integer("dim", dim, 1)
        if prior is not None:
            log_prior = settings.read_prior(prior, dim) if log_prior is None else log_prior
            dim = len(log_prior)
        if dim is None and settings.instances == "pairs":
            raise ValueError(NO_DIM)
        void = settings.why_void()
        with Undo(self, []):
            self.__dict__.update(_settings=settings, _kind=settings.kind, _log_prior=log_prior, _void=void)
            if dim is not None:
                self._begin(int(dim))
        return settings

    def _forget(self) -> None:
        for name in [
            *(name for name in vars(LossAndBound) if name in vars(self)),
            "n_features_in_",
            "feature_names_in_",
        ]:
            self.__dict__.pop(name, None)

    def _started(self) -> Any:
        self._prepare()
        if self._state is None:
            raise NotFittedError("dim is not known yet: give dim, or learn from an example first.")
        return self._state

    def _begin(self, dim: int) -> None:
        """Everything that needs the dimension; all of it or nothing."""
        settings = self.settings
        log_prior = settings.log_prior(dim) if self._log_prior is None else self._log_prior
        eta = settings.rate(log_prior)
        record: PairTally | KeptExamples | None = None
        if settings.needs_no_stream:
            record = PairTally(dim)
        elif settings.keep_examples:
            record = KeptExamples("X", "y")
        state = LogState(log_prior.copy(), self.settings, eta)
        self.__dict__.update(_dim=dim, _eta=eta, _state=state, _record=record)
        if settings.instances == "vectors":
            self.n_features_in_ = dim

    def _at_the_door(self, X: Any, *, fewest: int = 0, is_known: bool = False) -> Any:
        """Vectors as scikit-learn checks points, names of columns included; complex ones, and what is no table, as they are."""
        if self._kind.name != "vectors" or getattr(X, "dtype", None) in ("complex128", "complex64"):
            return X
        if isinstance(X, list | tuple) and np.asarray(X, dtype=object).dtype == object and np.iscomplexobj(X):
            return X
        settings: Any = {"reset": not is_known and not self.n_seen_, "ensure_min_samples": fewest}
        # what is not finite is asked for later, with the rows
        return validated(self, X, accept_sparse="csr", order="C", ensure_all_finite=False, **settings)

    def _learn(self, X: Stream, y: Values) -> np.ndarray:
        block = self._kind.read(X, self._dim)
        y = as_column("y", y, len(block), per="example", scalar=len(block) == 1, copy=True)
        check_labels(self._settings, y)
        if not len(y):
            return np.zeros(0)
        with (
            single_thread_blas(self._dim or self._kind.size(block)),
            Undo(self, [(part, part.mark(block)) for part in (self._state, self._record) if part is not None]),
        ):
            if self._state is None:
                self._begin(self._kind.size(block))
            self._check_assumptions(block, y)
            predictions = self._state.learn(block, y)
            if self._record is not None:
                self._record.add(block, y)
        return predictions

    def _read(self, X: Stream) -> Any:
        block = self._kind.read(X, self._dim)
        if self._state is None and len(block):
            self._begin(self._kind.size(block))
        return block

    def _check_assumptions(self, block: Any, y: np.ndarray) -> None:
        """Errors for steps that would overflow; what voids the bound is noted, with one warning."""
        check_steps(self._settings, block, y, self._eta)
        if self._void is None:
            self._void = why_spread(self._settings, block, self._dim, self.n_seen_)
        if self._void is not None or self._no_fit is not None:
            return
        losses = unavoidable(self._settings, block, y, self._dim)
        if losses is not None:
            self._no_fit = why_no_fit(self._settings, losses, y, before=self._misfit, seen=self.n_seen_)
            self._misfit += float(losses.sum())
