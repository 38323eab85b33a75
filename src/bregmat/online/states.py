"""The state of a matrix exponentiated gradient learner, ``H = log W + const``, and how a trial changes it.

A trial takes a Lanczos run, or an eigendecomposition (the reference). What a learner reports is counted in ``totals``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bregmat._kernels import lanczos
from bregmat._kernels.arrays import Learner
from bregmat.base.linalg import add_diagonal, eigh, eigvalsh
from bregmat.online.instances import MatrixInstances, PairInstances, is_complex
from bregmat.online.settings import GradientSettings

REFRESH = 2000  # trials between two exact normalisers; the drift in between is about 1e-14
TOL = 1e-12  # what the last Lanczos step may add to a prediction, relatively; the error is far below it
FIRST_GUESS = 6.0
NOT_FINITE = "a prediction or a step of the learner is not finite; lower eta or scale X and y."


class LogState:
    """``H = log W - (shift - log Z)``, largest eigenvalue 0 at every refresh (the c_t of Tsuda 2004, eq. 7)."""

    def __init__(self, log_W: np.ndarray, settings: GradientSettings, eta: float) -> None:
        self.H, self.mode = log_W, settings.mode
        self.kind, self.loss, self.compiled = settings.kind, settings.loss, settings.is_compiled
        self.eta, self.trace, self.normalized = eta, settings.trace, settings.normalized
        code, parameter = (self.loss.code, self.loss.parameter) if self.compiled else (-1, 0.0)
        self.settings = np.array([eta, self.trace, code, parameter, TOL, REFRESH, float(self.normalized)])
        self.totals = np.zeros(10)
        self.totals[lanczos.GUESS] = FIRST_GUESS
        self._spectrum: tuple[np.ndarray, np.ndarray] | None = None
        self._diagonal: np.ndarray | None = None  # of H, before the first refresh since the latest mark
        self._room(min(len(log_W), 48))
        self._refresh()

    def weights(self, lam: np.ndarray, shift: float) -> np.ndarray:
        """Eigenvalues of W from those of H."""
        if not self.normalized:
            return np.exp(lam + shift)
        x = np.exp(lam - lam.max())
        return x * (self.trace / x.sum())

    def _in_full(self, kernel: Any, *columns: np.ndarray) -> None:
        """Run a kernel over all rows of the columns: it comes back before the row for which something has to be done."""
        rest: Any = columns
        while True:
            n, why = kernel(Learner(self.H, self._Q, self._T, self.totals, self.settings), *rest)
            if why == lanczos.DONE:
                return
            rest = [column[n:] for column in rest]
            if why == lanczos.NEEDS_REFRESH:
                self._refresh()
            elif why == lanczos.NEEDS_ROOM:
                self._room(2 * self._steps)
            elif why == lanczos.FAILED:
                raise FloatingPointError(NOT_FINITE)

    def _pay(self, p: float, y: float) -> float:
        """Count a trial; the weight that its instance gets in H."""
        value, slope = float(self.loss.value(p, y)), float(self.loss.derivative(p, y))
        if not math.isfinite(value + self.eta * slope):
            raise FloatingPointError(
                f"the loss at prediction {p:.6g} and label {y:.6g} is not finite: {value}, {slope}."
            )
        lanczos.account_inplace(self.totals, value, slope)
        return -self.eta * slope

    # ------------------------------------------------------------------ what W is
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Ascending eigenvalues of the W that predicts next, and its eigenvectors."""
        if self._spectrum is None:
            lam, U = eigh(self.H)
            self._spectrum = self.weights(lam, self.totals[lanczos.SHIFT]), U
        return self._spectrum

    def predict(self, block: Any) -> np.ndarray:
        """``tr(W X)`` of every instance, as a trial would compute it."""
        unknown = not self.totals[lanczos.Z] < math.inf  # the normaliser, after an eigendecomposition
        if unknown or self.mode == "eigh" or any(self._is_wide(block, t) for t in range(len(block))):
            x, U = self.spectrum()
            return self.kind.values(block, U * np.sqrt(x))
        self._promote(block)
        return np.array([self._value(*self._terms(block, t)) for t in range(len(block))])

    # ------------------------------------------------------------------ trials
    def learn(self, block: Any, y: np.ndarray) -> np.ndarray:
        """A trial for every instance; the predictions made before each update."""
        self._promote(block)
        self._spectrum = None
        if self.mode == "eigh":
            return self._learn_dense(block, y)
        if self.compiled and not isinstance(self.kind, MatrixInstances):
            return self._learn_compiled(block, y)
        predictions = np.empty(len(y))
        for t in range(len(y)):
            if self._is_wide(block, t):
                predictions[t : t + 1] = self._learn_dense(block[t : t + 1], y[t : t + 1])
                self.totals[lanczos.Z] = np.nan  # unknown until a refresh
                continue
            if lanczos.is_due(self.totals, self.settings):
                self._refresh()
            V, mu = self._terms(block, t)
            predictions[t] = self._value(V, mu)
            self._in_full(lanczos.add_vectors_inplace, V, self._pay(predictions[t], y[t]) * mu)
            self.totals[lanczos.SINCE] += 1.0
        return predictions

    def _learn_compiled(self, block: np.ndarray, y: np.ndarray) -> np.ndarray:
        predictions = np.empty(len(y))
        if isinstance(self.kind, PairInstances):
            self._in_full(lanczos.learn_pairs_inplace, predictions, *np.ascontiguousarray(block.T), y)
        else:
            V = np.ascontiguousarray(block, dtype=self.H.dtype)
            self._in_full(lanczos.learn_vectors_inplace, predictions, V, y)
        return predictions

    def _learn_dense(self, block: Any, y: np.ndarray) -> np.ndarray:
        """Trials by eigendecompositions, as in the paper."""
        predictions = np.empty(len(y))
        for t in range(len(y)):
            lam, U = eigh(self.H)
            add_diagonal(self.H, -lam[-1])
            self.totals[lanczos.SHIFT] += lam[-1]
            factor = U * np.sqrt(self.weights(lam - lam[-1], self.totals[lanczos.SHIFT]))
            predictions[t] = self.kind.values(block[t : t + 1], factor)[0]
            self.kind.add_inplace(self.H, block[t : t + 1], np.array([self._pay(predictions[t], y[t])]))
        return predictions

    # ------------------------------------------------------------------ Lanczos, one example at a time
    def _is_wide(self, block: Any, t: int) -> bool:
        """Whether an eigendecomposition is cheaper than a Lanczos run for every eigenvector of the instance."""
        return (
            self.mode == "auto" and isinstance(self.kind, MatrixInstances) and len(block[t].index) > len(self.H) // 16
        )

    def _terms(self, block: Any, t: int) -> tuple[np.ndarray, np.ndarray]:
        V, mu = self.kind.terms(block, t, len(self.H))
        return np.ascontiguousarray(V, dtype=self.H.dtype), mu

    def _value(self, V: np.ndarray, mu: np.ndarray) -> float:
        values = np.empty(len(mu))
        self._in_full(lanczos.predict_vectors_inplace, values, V)
        return float(values @ mu)

    def _refresh(self) -> None:
        """Largest eigenvalue of H to 0, normaliser anew."""
        lam = eigvalsh(self.H)
        if self._diagonal is None:
            self._diagonal = self.H.diagonal().copy()
        add_diagonal(self.H, -lam[-1])
        size = float(np.exp(lam - lam[-1]).sum())
        self.totals[[lanczos.Z, lanczos.PEAK, lanczos.SINCE]] = size, size, 0.0
        self.totals[lanczos.SHIFT] += lam[-1]

    def _room(self, steps: int) -> None:
        self._steps = steps = min(max(steps, 2), max(len(self.H), 2))
        self._Q, self._T = np.empty((steps + 5, len(self.H)), self.H.dtype), np.empty((6, steps + 1))

    def _promote(self, block: Any) -> None:
        """Complex from the first complex instance on."""
        if is_complex(block) and self.H.dtype.kind != "c":
            self.H = self.H.astype(complex)
            self._room(self._steps)

    # ------------------------------------------------------------------ copies
    def mark(self, block: Any) -> Any:
        """What :meth:`go_back` needs to take the trials of a block back, that are about to begin.

        Of a single pair no copy of H: a Lanczos trial changes four entries, and a refresh the diagonal, which it keeps.
        """
        if len(block) > 1 or not (
            self.compiled and isinstance(self.kind, PairInstances) and self.mode in ("auto", "lanczos")
        ):
            return {name: array.copy() for name, array in self.arrays().items()}
        self._diagonal = None
        a, b = block[0].tolist()
        H = self.H
        return a, b, (H[a, a], H[a, b], H[b, a], H[b, b]), self.totals.copy()

    def go_back(self, mark: Any) -> None:
        """As it was when marked, to the same bits."""
        if isinstance(mark, dict):
            self.restore(mark)
            return
        a, b, entries, self.totals = mark
        if self._diagonal is not None:
            np.fill_diagonal(self.H, self._diagonal)
        self.H[[a, a, b, b], [a, b, a, b]] = entries
        self._spectrum = None
        self._room(self._steps)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that the next trial depends on."""
        return {"H": self.H, "totals": self.totals}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Inverse of :meth:`arrays`, of copies."""
        self.H, self.totals = arrays["H"], arrays["totals"]
        self._spectrum = None
        self._room(self._steps)
