"""The checked parameters of a matrix exponentiated gradient learner, and its loss (Tsuda 2004, footnotes 1 and 3).

The losses of :mod:`bregmat.objective.losses` are others: they measure the violation of a bound in a nearness problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bregmat.base.checks import as_choice, as_matrix, check_positive, check_psd, rows_text
from bregmat.base.linalg import eigh
from bregmat.online import bounds
from bregmat.online.instances import INSTANCES, hermitian
from bregmat.typing import OnlineLoss


@dataclass(frozen=True)
class SquaredLoss:
    """``(p - y)^2``, without a half, as in Tsuda 2004; the loss of Lemmas 3.1 and 3.2, which is compiled."""

    name: ClassVar[str] = "squared"

    def value(self, prediction: Any, label: Any) -> Any:
        """Value of the loss; arrays are broadcast."""
        return np.subtract(prediction, label, dtype=float) ** 2

    def derivative(self, prediction: Any, label: Any) -> Any:
        """Derivative in the prediction; arrays are broadcast."""
        return 2.0 * np.subtract(prediction, label, dtype=float)


def as_online_loss(loss: Any) -> Any:
    """A loss object, from itself or from the name "squared"."""
    if isinstance(loss, str):
        as_choice("loss", loss, (SquaredLoss.name,), hint=" or an object")
        return SquaredLoss()
    if isinstance(loss, type) or not isinstance(loss, OnlineLoss):
        raise TypeError(
            f"loss must be 'squared' or an object with value(prediction, label) and derivative(prediction, label); got {loss!r}."
        )
    return loss


@dataclass(frozen=True, eq=False)
class GradientSettings:
    """Parameters of :class:`bregmat.online.MatrixExponentiatedGradient` except ``dim`` and ``prior``; never changed."""

    eta: Any
    loss: Any
    trace: float
    spectral_spread: float
    loss_budget: float
    instances: str
    kind: Any = field(init=False)  # of the class of bregmat.online.instances that `instances` names

    def __post_init__(self) -> None:
        if not (isinstance(self.eta, str) and self.eta == "bound"):
            check_positive("eta", self.eta, finite=True, hint="'bound' or ")
            self._set("eta", float(self.eta))
        for name in ("trace", "spectral_spread", "loss_budget"):
            check_positive(name, getattr(self, name), finite=True, zero=name == "loss_budget")
            self._set(name, float(getattr(self, name)))
        self._set("loss", as_online_loss(self.loss))
        self._set("kind", INSTANCES[as_choice("instances", self.instances, INSTANCES)]())
        if self.eta == "bound" and not self.is_squared:
            raise ValueError("eta='bound' is the rate of Lemma 3.2, which is for loss='squared'; give a number.")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def is_squared(self) -> bool:
        """Whether the loss is the one of Lemmas 3.1 and 3.2, whose labels are the values that predictions should have."""
        return isinstance(self.loss, SquaredLoss)

    @property
    def is_tallied(self) -> bool:
        """Whether a d x d table is enough to compute the loss of any fixed matrix on the stream."""
        return self.instances == "pairs" and self.is_squared

    def no_matrix(self) -> str:
        """The sentence that no matrix meets the assumption of the bound on this stream."""
        if self.loss_budget == 0.0:
            return f"no matrix of trace {self.trace:g} fits this stream exactly"
        return f"no matrix of trace {self.trace:g} has a total loss of at most {self.loss_budget:g} on this stream"

    def log_prior(self, dim: int) -> np.ndarray:
        """The logarithm of the default prior ``(trace / d) I``."""
        return np.eye(dim) * math.log(self.trace / dim)

    def learning_rate(self, log_prior: np.ndarray) -> float:
        """The learning rate as a number."""
        if self.eta != "bound":
            return self.eta
        # Delta is at most its largest value over all U; it is 0 for d = 1, where W never changes and any rate will do
        divergence, spread = bounds.largest_divergence(log_prior, trace=self.trace), self.spectral_spread
        return bounds.tightest_rate(divergence, loss_budget=self.loss_budget, spread=spread, trace=self.trace)

    # ------------------------------------------------------------------ matrices and labels given by the user
    def read_prior(self, prior: Any, dim: int | None) -> np.ndarray:
        """The logarithm of a prior; raises unless it is positive definite and of the trace of the learner."""
        values, U = eigh(hermitian("prior", prior, dim))
        check_psd("prior", values, tol=1e-14, definite=True)
        if abs(values.sum() - self.trace) > 1e-8 * self.trace:
            raise ValueError(f"prior must have the trace {self.trace:g}, the argument trace; got {values.sum():.8g}.")
        log_W = (U * np.log(values)) @ U.conj().T
        return 0.5 * (log_W + log_W.conj().T)

    def check_labels(self, y: np.ndarray) -> None:
        """Raise for negative distances."""
        if self.is_tallied:
            # a distance of 0 between duplicates may be negative by rounding
            bad = np.flatnonzero(y < -1e-12 * self.trace)
            if len(bad):
                raise ValueError(
                    f"y must be at least 0: half squared distances are not negative; got {y[bad[0]]} in {rows_text(bad)}. "
                    "Clip at 0 what is below it by noise."
                )

    def read_comparison(self, U: Any, dim: int | None) -> np.ndarray:
        """A comparison matrix; raises unless it is PSD and of the trace of the learner."""
        A = as_matrix("U", U, psd=True, order=dim, sparse="dense", complex_too=True)
        total = float(np.trace(A).real)
        if abs(total - self.trace) > 1e-6 * self.trace:
            raise ValueError(f"U must have the trace {self.trace:g}; got {total:.8g}.")
        return A
