"""What a matrix exponentiated gradient learner is told when it is made: checked once, never changed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np

from bregmat.base.checks import as_choice, as_matrix, check_flag, check_positive, check_psd
from bregmat.base.linalg import eigh
from bregmat.online import bounds
from bregmat.online.instances import INSTANCES, hermitian
from bregmat.online.losses import as_online_loss
from bregmat.typing import OnlineMode

MODES = get_args(OnlineMode)


@dataclass(frozen=True, eq=False)
class GradientSettings:
    """Arguments of :class:`bregmat.online.MatrixExponentiatedGradient`, checked."""

    eta: Any
    loss: Any
    trace: float
    normalized: bool
    spectral_spread: float
    loss_budget: float
    instances: str
    mode: str
    keep_examples: bool
    kind: Any = field(init=False)
    is_squared: bool = field(init=False)

    def __post_init__(self) -> None:
        has_rate = not (isinstance(self.eta, str) and self.eta == "bound")
        for name in (*["eta"] * has_rate, "trace", "spectral_spread", "loss_budget"):
            value, hint = getattr(self, name), "'bound' or " * (name == "eta")
            check_positive(name, value, finite=True, zero=name == "loss_budget", hint=hint)
            self._set(name, float(value))
        for name in ("normalized", "keep_examples"):
            check_flag(name, getattr(self, name))
            self._set(name, bool(getattr(self, name)))
        as_choice("mode", self.mode, MODES)
        self._set("loss", as_online_loss(self.loss))
        self._set("is_squared", getattr(self.loss, "name", None) == "squared")
        self._set("kind", INSTANCES[as_choice("instances", self.instances, INSTANCES)]())
        if self.eta == "bound" and not (self.is_squared and self.normalized):
            raise ValueError(
                "eta='bound' is the rate of Lemma 3.2, for loss='squared' and normalized=True; give a number."
            )

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def is_compiled(self) -> bool:
        """Whether the loss is one of the kernels' own."""
        return hasattr(self.loss, "code")

    @property
    def is_measured(self) -> bool:
        """Whether labels are what the prediction should be, in the same units."""
        return getattr(self.loss, "is_measured", False)

    @property
    def needs_no_stream(self) -> bool:
        """Whether a d x d table tells all about a stream."""
        return self.instances == "pairs" and self.is_squared

    def why_void(self) -> str | None:
        """Why no bound holds for this learner, whatever it is shown."""
        return None if self.normalized else "normalized=False"

    def no_matrix(self) -> str:
        """That the premise of the bound is wrong, in words."""
        fits = (
            f"has a total loss of at most {self.loss_budget:g} on this stream"
            if self.loss_budget
            else "fits this stream exactly"
        )
        return f"no matrix of trace {self.trace:g} {fits}"

    def log_prior(self, dim: int) -> np.ndarray:
        """Logarithm of the default prior, a multiple of the identity."""
        return np.eye(dim) * math.log(self.trace / dim)

    def rate(self, log_prior: np.ndarray) -> float:
        """The learning rate as a number."""
        if self.eta != "bound":
            return self.eta
        # 0 for one point: nothing to learn, and any rate will do
        c = bounds.balance(
            self.spectral_spread,
            bounds.largest_divergence(log_prior, trace=self.trace),
            loss_budget=self.loss_budget,
            trace=self.trace,
        )
        return bounds.learning_rate(c or math.inf, self.spectral_spread, trace=self.trace)

    def bound(self, eta: float, divergence: float, loss_of_U: float, slopes: float) -> float:
        """The bound on the total loss, for the squared loss that of Lemma 3.2.

        Parameters
        ----------
        eta, divergence, loss_of_U : float
            Learning rate, divergence of a comparison matrix U from the prior, and the total loss of U.
        slopes : float
            Sum of the squared slopes of the losses, for other losses than the squared one.
        """
        shared: dict[str, float] = {"loss_of_U": loss_of_U, "spread": self.spectral_spread, "trace": self.trace}
        if self.is_squared:
            c = bounds.balance_of_rate(eta, self.spectral_spread, trace=self.trace)
            return bounds.total_loss_bound(c, divergence, **shared)
        return bounds.convex_loss_bound(divergence, slopes, eta=eta, **shared)

    # ------------------------------------------------------------------ matrices that go with them
    def read_prior(self, prior: Any, dim: int | None) -> np.ndarray:
        """The logarithm of a prior, which is positive definite and of the promised trace."""
        values, U = eigh(hermitian("prior", prior, dim))
        check_psd("prior", values, tol=1e-14, definite=True)
        if abs(values.sum() - self.trace) > 1e-8 * self.trace:
            raise ValueError(f"prior must have the trace {self.trace:g}, the argument trace; got {values.sum():.8g}.")
        log_W = (U * np.log(values)) @ U.conj().T
        return 0.5 * (log_W + log_W.conj().T)

    def read_comparison(self, U: Any, dim: int | None) -> np.ndarray:
        """A matrix to compare with: PSD and of the learner's trace."""
        A = as_matrix("U", U, psd=True, order=dim, sparse="dense", complex_too=True)
        total = float(np.trace(A).real)
        if abs(total - self.trace) > 1e-6 * self.trace:
            raise ValueError(f"U must have the trace {self.trace:g}; got {total:.8g}.")
        return A
