"""The matrix exponentiated gradient learner (Tsuda 2004, section 3)."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from bregmat._kernels import lanczos
from bregmat.checks import as_column, check_integer, check_positive
from bregmat.linalg import eigh
from bregmat.online.assumptions import check_labels, check_steps, unavoidable, why_no_fit, why_spread
from bregmat.online.comparison import LossAndBound
from bregmat.online.instances import point_numbers, vectors
from bregmat.online.learner import Undo
from bregmat.online.records import KeptExamples, PairTally
from bregmat.online.settings import Settings
from bregmat.online.states import EigenState, LogState
from bregmat.threads import on_one_blas_thread, single_thread_blas
from bregmat.typing import Instance, Instances, OnlineLoss, OnlineLossName, OnlineMode, Stream, Table, Values


@on_one_blas_thread
class MatrixExponentiatedGradient(LossAndBound):
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
    loss : {"squared", "absolute", "logistic", "entropic"} or object
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
    mode : {"auto", "lanczos", "rank_one", "eigh", "minibatch"}
        How a trial is computed. "lanczos": no eigenvectors at all, the fastest; "eigh": an eigendecomposition per trial, the
        reference; "rank_one": updates of the eigenvectors, which are then always at hand. "auto" is Lanczos, except for
        matrices with more than d / 16 nonzero rows. "minibatch" is **another algorithm**: predictions of a batch come from
        one W, and its updates are summed; the bound does not hold.
    batch_size : int
        Examples per batch of "minibatch", counted along the stream whatever the calls.
    keep_examples : bool
        Keep the stream for :meth:`best_in_hindsight` and :meth:`regret`; memory then grows with it. Not needed for pairs with
        the squared loss, where a d x d table says all.

    Attributes
    ----------
    dim : int or None
    settings : Settings
        The arguments, checked.
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
    scikit-learn's ``clone`` works; a step of a pipeline it is not.

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
        batch_size: int = 64,
        keep_examples: bool = False,
    ) -> None:
        self._params = {name: value for name, value in locals().items() if name != "self"}
        self.settings = Settings(**{name: self._params[name] for name in self._params.keys() - {"dim", "prior"}})
        check_integer("dim", dim, 1)
        self.dim: Any = None if dim is None else int(dim)
        self._void = self.settings.why_void()
        self._misfit = 0.0  # what any matrix loses
        self._no_fit: str | None = None  # why none is within the budget
        self._farthest = math.nan
        self._kind = self.settings.kind
        self._log_prior: np.ndarray | None = None
        self._state: Any = None
        self._record: PairTally | KeptExamples | None = None
        if prior is not None:
            self._log_prior = self.settings.read_prior(prior, self.dim)
            self.dim = len(self._log_prior)
        if self.dim is not None:
            self._begin(self.dim)
        elif instances == "pairs":
            raise ValueError("dim must be given for instances='pairs': it is the number of points.")

    # ------------------------------------------------------------------ a stream
    def predict_one(self, x: Instance) -> float:
        """``tr(W X)`` of one instance: a pair, a vector or a matrix."""
        block = self._read(self._kind.one(x))
        with single_thread_blas(self.dim or 0):
            return float(self._state.predict(block)[0])

    def learn_one(self, x: Instance, y: float) -> MatrixExponentiatedGradient:
        """One trial: predict, then move towards the label; returns self."""
        self._learn(self._kind.one(x), y)
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
        self._learn(X, y)
        return self

    def predict_then_learn(self, X: Stream, y: Values) -> np.ndarray:
        """As :meth:`partial_fit`; returns the predictions, each made before its own label was used; shape (n,)."""
        return self._learn(X, y)

    def predict(self, X: Stream) -> np.ndarray:
        """``tr(W X)`` of every instance with the present W; shape (n,)."""
        block = self._read(X)
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
            return G[point_numbers("points", points, self.dim)]
        return vectors("points", points, self.dim).conj() @ G

    def mix_with_prior(self, share: float) -> MatrixExponentiatedGradient:
        """``W <- (1 - share) W + share W_1``: keeps every direction alive when the target moves. Voids the bound; returns self."""
        check_positive("share", share, finite=True)
        if share > 1.0:
            raise ValueError(f"share must be in (0, 1]; got {share}.")
        prior, P = eigh(self.log_prior)
        mixed = (1.0 - share) * self.matrix() + share * ((P * np.exp(prior)) @ P.conj().T)
        values, U = eigh(mixed)
        fresh = self._new_state((U * np.log(np.maximum(values, 1e-300))) @ U.conj().T, self.eta_)
        keep = [lanczos.LOSS, lanczos.CARRY, lanczos.SLOPES, lanczos.SEEN, lanczos.GUESS]
        fresh.totals[keep] = self._state.totals[keep]
        void = self._void or "a share of the first matrix was mixed in, for a target that moves; no bound is known then"
        vars(self).update(_state=fresh, _void=void)  # both or none, should Ctrl-C come
        return self

    # ------------------------------------------------------------------ parameters, as scikit-learn wants them
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments as they were given."""
        return dict(self._params)

    def set_params(self, **params: Any) -> MatrixExponentiatedGradient:
        """Other arguments; forgets what was learned, for the steps so far were made with the old ones. Returns self."""
        unknown = sorted(set(params) - set(self._params))
        if unknown:
            raise ValueError(f"no argument {unknown[0]!r}; there are {', '.join(self._params)}.")
        if params:
            fresh = type(self)(**(self._params | params))
            self.__dict__ = vars(fresh)
        return self

    # ------------------------------------------------------------------ files
    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays for :func:`bregmat.save`; what is read back continues to the same bits."""
        arrays = {} if self._log_prior is None else {"log_prior": self._log_prior}
        if self._state is not None:
            arrays |= {f"state.{name}": array for name, array in self._state.arrays().items()}
        if self._record is not None:
            arrays |= self._record.arrays()
        arrays = {name: array.copy() for name, array in arrays.items()}  # learning goes on in place
        void = {"void": self._void, "misfit": self._misfit, "no_fit": self._no_fit}
        return {"dim": self.dim, "settings": self.settings.to_meta(), **void}, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> MatrixExponentiatedGradient:
        """Inverse of :meth:`to_state`."""
        self = cls(meta["dim"], **Settings.from_meta(meta["settings"]))
        self._void, self._misfit, self._no_fit = meta["void"], meta["misfit"], meta["no_fit"]
        self._log_prior = arrays.get("log_prior")
        if self._log_prior is not None:
            values, P = eigh(self._log_prior)
            self._params["prior"] = (P * np.exp(values)) @ P.conj().T
        if self.dim is not None:
            self._begin(self.dim)
            mine = {n[6:]: np.array(a, order="C") for n, a in arrays.items() if n.startswith("state.")}
            self._state.restore(mine)
            if self._record is not None:
                self._record.restore(arrays, self.dim)
        return self

    def __repr__(self) -> str:
        s = self.settings
        return (
            f"MatrixExponentiatedGradient(dim={self.dim}, eta={s.eta!r}, loss={s.loss!r}, instances={s.instances!r}, "
            f"mode={s.mode!r}): {self.n_seen_} examples, total loss {self.cumulative_loss_:.6g}"
        )

    # ------------------------------------------------------------------ inside
    def _begin(self, dim: int) -> None:
        """Everything that needs the dimension; all of it or nothing."""
        log_prior = self.settings.log_prior(dim) if self._log_prior is None else self._log_prior
        eta = self.settings.rate(log_prior)
        record: PairTally | KeptExamples | None = None
        if self.settings.needs_no_stream:
            record = PairTally(dim)
        elif self.settings.keep_examples:
            record = KeptExamples("X", "y")
        state = self._new_state(log_prior.copy(), eta)
        vars(self).update(dim=dim, eta_=eta, _state=state, _record=record)

    def _new_state(self, log_W: np.ndarray, eta: float) -> LogState | EigenState:
        cls = EigenState if self.settings.mode == "rank_one" else LogState
        return cls(log_W, self.settings, eta)

    def _learn(self, X: Stream, y: Values) -> np.ndarray:
        block = self._kind.read(X, self.dim)
        y = as_column("y", y, len(block), per="example", scalar=len(block) == 1, copy=True)
        check_labels(self.settings, y)
        if not len(y):
            return np.zeros(0)
        with (
            single_thread_blas(self.dim or self._kind.size(block)),
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
        block = self._kind.read(X, self.dim)
        if self._state is None and len(block):
            self._begin(self._kind.size(block))
        return block

    def _check_assumptions(self, block: Any, y: np.ndarray) -> None:
        """Errors for steps that would overflow; what voids the bound is noted, with one warning."""
        check_steps(self.settings, block, y, self.eta_)
        if self._void is None:
            self._void = why_spread(self.settings, block, self.dim, self.n_seen_)
        if self._void is not None or self._no_fit is not None:
            return
        losses = unavoidable(self.settings, block, y, self.dim)
        if losses is not None:
            self._no_fit = why_no_fit(self.settings, losses, y, before=self._misfit, seen=self.n_seen_)
            self._misfit += float(losses.sum())
