"""The state of a matrix exponentiated gradient learner, and the trials that change it (Tsuda 2004, eq. 4 and 7).

For pairs and vectors the compiled kernels compute a trial by a Lanczos run, for matrices by an eigendecomposition, as in the paper.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from bregmat._kernels import lanczos
from bregmat._kernels.arrays import Learner
from bregmat.base.linalg import add_diagonal, eigh, eigvalsh
from bregmat.base.threads import cached_property
from bregmat.online import bounds
from bregmat.online.learner import SpectralSpreadWarning, UnreachableLabelWarning
from bregmat.online.settings import GradientSettings

REFRESH = 2000  # trials between two exact normalisers; the drift in between is about 1e-14
FIRST_STEPS = 6.0  # Lanczos steps of the first run; a later run begins with as many as the previous one needed
ROUNDING = 1e-9  # relative excess of a spread, a label or a total loss over its bound that may come from rounding
LARGEST_STEP = 1e100  # larger steps in log W would overflow


class PairTally:
    """Counts and means of the labels of all pairs of a stream, which give the squared loss of any fixed matrix on it.

    ``sum_t (p - y_t)^2 = n (p - mean)^2 + sum_t (y_t - mean)^2`` for the n examples of one pair with prediction p.
    """

    def __init__(self, dim: int) -> None:
        self.table = np.zeros((dim, dim))  # for a < b the count at [a, b] and the mean label at [b, a]
        self.within = 0.0  # sum_t (y_t - mean)^2 over all pairs: the loss that no prediction avoids

    def mark(self, block: np.ndarray) -> Any:
        """What :meth:`go_back` needs to remove a block that is about to be added."""
        a, b = block[0].tolist() if len(block) == 1 else block.T
        return a, b, self.table[a, b], self.table[b, a], self.within

    def go_back(self, mark: Any) -> None:
        """Restore what was marked."""
        a, b, upper, lower, self.within = mark
        self.table[a, b], self.table[b, a] = upper, lower

    def add(self, block: np.ndarray, y: np.ndarray) -> None:
        """Add a block of examples."""
        a, b = np.ascontiguousarray(block[:, 0]), np.ascontiguousarray(block[:, 1])
        self.within += lanczos.tally_pairs_inplace(self.table, a, b, y)

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs that occurred (k, 2), their counts, and their mean labels."""
        a, b = np.nonzero(np.triu(self.table, 1))
        return np.column_stack([a, b]), self.table[a, b], self.table[b, a]


class GradientState:
    """What a matrix exponentiated gradient learner has learned: the matrix, totals, and failed assumptions.

    ``log_prior`` is ``log W_1``, shape (d, d); None for the default prior.
    """

    def __init__(self, settings: GradientSettings, dim: int, log_prior: np.ndarray | None = None) -> None:
        lanczos_tol = 1e-12  # a Lanczos run ends when its last step adds less to the prediction, relatively; the error is far smaller
        self.settings, self.log_prior = settings, log_prior
        # log W plus a multiple of the identity: the exponent of eq. 7; its largest eigenvalue is 0 at every refresh
        self.H = (settings.log_prior(dim) if log_prior is None else log_prior).copy()
        self.eta = settings.learning_rate(self.H)
        self.tally = PairTally(dim) if settings.is_tallied else None  # of the stream so far
        self.void: str | None = None  # why no bound holds, whatever matrix is compared with
        self.no_fit: str | None = None  # why no matrix has a loss within the loss budget
        self.misfit = 0.0  # sum of the losses that no matrix of the trace can avoid
        # running numbers of the kernels, at the positions that `lanczos` names: total loss, trials, Z = tr exp H, and others
        self.totals = np.zeros(8)
        self.totals[lanczos.GUESS] = FIRST_STEPS
        # SQUARED selects the compiled loss, -1 a loss of the user; the 0.0 after it is a parameter that the squared loss does not use
        code = lanczos.SQUARED if settings.is_squared else -1
        self._constants = np.array([self.eta, settings.trace, code, 0.0, lanczos_tol, REFRESH])
        self._spectrum: tuple[np.ndarray, np.ndarray] | None = None
        self._reserve(min(dim, 48))
        self._refresh()

    def first_exponent(self) -> np.ndarray:
        """``log W_1``, shape (d, d)."""
        return self.settings.log_prior(len(self.H)) if self.log_prior is None else self.log_prior

    @property
    def n_seen(self) -> int:
        """Number of trials."""
        return int(self.totals[lanczos.SEEN])

    @property
    def loss(self) -> float:
        """Total loss of the predictions."""
        return float(self.totals[lanczos.LOSS])

    # ------------------------------------------------------------------ the matrix
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Ascending eigenvalues of the W that predicts next, and its eigenvectors."""
        if self._spectrum is None:
            lam, U = eigh(self.H)
            self._spectrum = self._weights(lam), U
        return self._spectrum

    def _weights(self, lam: np.ndarray) -> np.ndarray:
        """Eigenvalues of W from those of H: ``trace exp(lam) / sum(exp(lam))``, the largest exponent 0 against overflow."""
        x = np.exp(lam - lam.max())
        return x * (self.settings.trace / x.sum())

    def predict(self, block: np.ndarray) -> float:
        """``tr(W X)`` of the instance of a block of one, computed as a trial would compute it."""
        if self.settings.instances == "matrices":
            x, U = self.spectrum()
            return float(self.settings.kind.values(block, U * np.sqrt(x))[0])
        self._promote(block)
        return self._value(self._vector(block, 0))

    # ------------------------------------------------------------------ trials
    def check_assumptions(self, block: np.ndarray, y: np.ndarray) -> None:
        """Raise for steps that would overflow; note, with one warning, an assumption of the bound that fails."""
        low, high = self.settings.kind.extremes(block, len(self.H))
        norm, trace = max(1.0, -float(low.min()), float(high.max())), self.settings.trace
        # |eta l'(p, y) X| with |p| <= trace |X|, for a loss whose derivative grows at most linearly
        if not self.eta * norm * (trace * norm + float(np.abs(y).max())) < LARGEST_STEP:
            raise ValueError("X, y and eta together give steps that are too large to compute with; scale X and y.")
        if self.settings.instances == "pairs" and self.settings.spectral_spread >= 1.0 and y.max() <= trace:
            return  # no assumption can fail, since a pair has the eigenvalues 0 and 1; this saves time for single pairs
        if self.void is None:
            self._note_spread(high - low)
        if self.void is None and self.no_fit is None and self.settings.is_squared:
            # trace lambda_min(X) <= tr(U X) <= trace lambda_max(X) for every U of the trace
            nearest = np.clip(y, trace * low, trace * high)
            is_bad = np.abs(y - nearest) > ROUNDING * trace * norm
            if is_bad.any():
                self._note_misfit(np.where(is_bad, self.settings.loss.value(nearest, y), 0.0), y)

    def _note_spread(self, spreads: np.ndarray) -> None:
        """Warn of an instance whose spectral spread is larger than promised; Lemma 3.1 assumes that there is none."""
        promised = self.settings.spectral_spread
        bad = np.flatnonzero(spreads > promised * (1.0 + ROUNDING))
        if len(bad):
            self.void = (
                f"the spectral spread of example {self.n_seen + bad[0]} is {spreads[bad[0]]:.6g}, above "
                f"spectral_spread={promised:g}: from now on loss_bound() is inf."
            )
            warnings.warn(self.void, SpectralSpreadWarning, stacklevel=6)

    def _note_misfit(self, losses: np.ndarray, y: np.ndarray) -> None:
        """Add the losses that no matrix of the trace avoids; warn if their total exceeds the loss budget."""
        total = self.misfit + np.cumsum(losses)
        over = np.flatnonzero(total > self.settings.loss_budget * (1.0 + ROUNDING))
        if len(over):
            t = int(over[0])
            self.no_fit = (
                f"{self.settings.no_matrix()}: the label {y[t]:.6g} of example {self.n_seen + t} is beyond what one of that "
                "trace can predict; allow a larger trace, which has to match the scale of the labels, or a larger loss budget"
            )
            warnings.warn(f"{self.no_fit}. loss_bound() is inf.", UnreachableLabelWarning, stacklevel=6)
        self.misfit += float(losses.sum())

    def learn(self, block: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Make a trial for every instance; the predictions made before each update."""
        self._promote(block)
        self._spectrum = None
        if self.settings.instances == "matrices":
            predictions = self._learn_matrices(block, y)
        elif self.settings.is_squared:
            predictions = self._learn_compiled(block, y)
        else:
            predictions = self._learn_one_by_one(block, y)
        if self.tally is not None:
            self.tally.add(block, y)
        return predictions

    def _learn_compiled(self, block: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Trials with a compiled loss: one call of a kernel for the whole block."""
        predictions = np.empty(len(y))
        if self.settings.instances == "pairs":
            self._run(lanczos.learn_pairs_inplace, predictions, *np.ascontiguousarray(block.T), y)
        else:
            V = np.ascontiguousarray(block, dtype=self.H.dtype)
            self._run(lanczos.learn_vectors_inplace, predictions, V, y)
        return predictions

    def _learn_one_by_one(self, block: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Trials with a loss of the user's own."""
        predictions = np.empty(len(y))
        for t in range(len(y)):
            if lanczos.is_due(self.totals, self._constants):
                self._refresh()
            v = self._vector(block, t)
            predictions[t] = self._value(v)
            self._run(lanczos.add_vectors_inplace, v, np.array([self._step_length(predictions[t], y[t])]))
            self.totals[lanczos.SINCE] += 1.0
        return predictions

    def _learn_matrices(self, block: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Trials by eigendecompositions, as in Tsuda 2004, section 3.2."""
        predictions = np.empty(len(y))
        for t in range(len(y)):
            # H + c_t I = V Lambda V', c_t chosen so that the largest eigenvalue is 0; W = V exp(Lambda) V' / Z
            lam, U = eigh(self.H)
            add_diagonal(self.H, -lam[-1])
            predictions[t] = self.settings.kind.values(block[t : t + 1], U * np.sqrt(self._weights(lam)))[0]
            # H <- H - eta l'(tr(W X_t), y_t) X_t   (eq. 7)
            self.H += self._step_length(predictions[t], y[t]) * block[t]
        return predictions

    def _step_length(self, p: float, y: float) -> float:
        """Count the loss of a prediction; the factor ``-eta l'(p, y)`` of its instance in the exponent."""
        value, slope = float(self.settings.loss.value(p, y)), float(self.settings.loss.derivative(p, y))
        if not math.isfinite(value + self.eta * slope):
            raise FloatingPointError(
                f"the loss at prediction {p:.6g} and label {y:.6g} is not finite: {value}, {slope}."
            )
        lanczos.account_inplace(self.totals, value, slope)
        return -self.eta * slope

    # ------------------------------------------------------------------ Lanczos runs
    def _run(self, kernel: Any, *columns: np.ndarray) -> None:
        """Run a kernel over all rows of the columns; it stops before a row for which a refresh or more memory is needed."""
        rest: Any = columns
        while True:
            n, why = kernel(Learner(self.H, self._Q, self._T, self.totals, self._constants), *rest)
            if why == lanczos.DONE:
                return
            rest = [column[n:] for column in rest]
            if why == lanczos.NEEDS_REFRESH:
                self._refresh()
            elif why == lanczos.NEEDS_ROOM:
                self._reserve(2 * self._steps)
            elif why == lanczos.FAILED:
                raise FloatingPointError(
                    "a prediction or a step of the learner is not finite; lower eta or scale X and y."
                )

    def _vector(self, block: np.ndarray, t: int) -> np.ndarray:
        """v with ``X_t = v v*``, shape (1, d)."""
        return np.ascontiguousarray(self.settings.kind.vector(block, t, len(self.H)), dtype=self.H.dtype)

    def _value(self, v: np.ndarray) -> float:
        """``v* W v``."""
        value = np.empty(1)
        self._run(lanczos.predict_vectors_inplace, value, v)
        return float(value[0])

    def _refresh(self) -> None:
        """Shift H so that its largest eigenvalue is 0, and compute ``Z = tr exp H`` anew."""
        lam = eigvalsh(self.H)
        add_diagonal(self.H, -lam[-1])
        size = float(np.exp(lam - lam[-1]).sum())
        self.totals[[lanczos.Z, lanczos.PEAK, lanczos.SINCE]] = size, size, 0.0

    def _reserve(self, steps: int) -> None:
        """Allocate memory for Lanczos runs of at most `steps` steps."""
        self._steps = steps = min(max(steps, 2), max(len(self.H), 2))
        self._Q, self._T = np.empty((steps + 5, len(self.H)), self.H.dtype), np.empty((6, steps + 1))

    def _promote(self, block: np.ndarray) -> None:
        """Make H complex at the first complex instance."""
        if block.dtype.kind == "c" and self.H.dtype.kind != "c":
            self.H = self.H.astype(complex)
            self._reserve(self._steps)

    # ------------------------------------------------------------------ the bound on the total loss
    def loss_of(self, U: np.ndarray) -> float:
        """Total squared loss of a fixed matrix on the pairs so far."""
        assert self.tally is not None
        pairs, counts, means = self.tally.rows()
        values, V = eigh(U)
        p = self.settings.kind.values(pairs, V * np.sqrt(np.maximum(values, 0.0)))
        return float(counts @ (p - means) ** 2) + self.tally.within

    @cached_property
    def largest_divergence(self) -> float:
        """The largest ``Delta(U, W_1)`` over all U of the trace."""
        return bounds.largest_divergence(self.first_exponent(), trace=self.settings.trace)

    def loss_bound(self, U: np.ndarray | None, loss_of_U: float) -> float:
        """The bound on the total loss if U has the loss ``loss_of_U``; None: any matrix of the trace. Infinite if ``void``."""
        if self.void is not None:
            return math.inf
        settings = self.settings
        divergence = self.largest_divergence if U is None else bounds.relative_entropy(U, self.first_exponent())
        known = {"eta": self.eta, "spread": settings.spectral_spread, "trace": settings.trace}
        if settings.is_squared:
            return bounds.squared_loss_bound(divergence, loss_of_U=loss_of_U, **known)
        slopes = float(self.totals[lanczos.SLOPES])  # sum_t l'(p_t, y_t)^2
        return bounds.convex_loss_bound(divergence, slopes, loss_of_U=loss_of_U, **known)

    def why_no_bound(self) -> str | None:
        """Why no bound holds for a matrix within the loss budget: an assumption failed, or there is no such matrix."""
        if self.void is not None or self.no_fit is not None or not self.n_seen:
            return self.void or self.no_fit
        bound = self.loss_bound(None, self.settings.loss_budget)
        if self.loss <= bound * (1.0 + ROUNDING):
            return None
        return (
            f"{self.settings.no_matrix()}, or the total loss would be below {bound:.4g}; allow a larger trace, which has to match the "
            "scale of the labels, or a larger loss budget"
        )

    # ------------------------------------------------------------------ undoing
    def mark(self, block: np.ndarray) -> tuple[Any, ...]:
        """What :meth:`go_back` needs to undo the trials of a block that is about to be learned."""
        pair = None
        if len(block) == 1 and self.settings.instances == "pairs":
            # a trial on the pair (a, b) changes four entries of H, and a refresh the diagonal: no copy of H
            pair = tuple(block[0].tolist())
        H = self.H.copy() if pair is None else (self.H.diagonal().copy(), self.H[pair], self.H[pair[::-1]])
        tally = None if self.tally is None else self.tally.mark(block)
        return pair, H, self.totals.copy(), tally, (self.void, self.no_fit, self.misfit)

    def go_back(self, mark: tuple[Any, ...]) -> None:
        """Restore what was marked, to the same bits."""
        pair, H, totals, tally, (self.void, self.no_fit, self.misfit) = mark
        if pair is not None:
            diagonal, self.H[pair], self.H[pair[::-1]] = H
            np.fill_diagonal(self.H, diagonal)
            H = self.H
        self.restore(H, totals)
        if self.tally is not None:
            self.tally.go_back(tally)

    def restore(self, H: np.ndarray, totals: np.ndarray) -> None:
        """Continue from another matrix and other totals; they are changed in place from now on."""
        self.H, self.totals, self._spectrum = H, totals, None
        self._reserve(self._steps)
