"""What a matrix exponentiated gradient learner is told when it is made: checked once, never changed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from bregmat.linalg import eigh
from bregmat.online import bounds
from bregmat.online.instances import INSTANCES, hermitian
from bregmat.online.losses import as_online_loss, loss_from_state, loss_state

MODES = ("auto", "lanczos", "rank_one", "eigh", "minibatch")


@dataclass(frozen=True, eq=False)
class Settings:
    """Arguments of :class:`bregmat.online.MatrixExponentiatedGradient`, checked."""

    eta: Any
    loss: Any
    trace: float
    normalized: bool
    spectral_spread: float
    loss_budget: float
    instances: str
    mode: str
    batch_size: int
    keep_examples: bool
    kind: Any = field(init=False)
    is_squared: bool = field(init=False)

    def __post_init__(self) -> None:
        checked = {
            "eta": self.eta
            if isinstance(self.eta, str) and self.eta == "bound"
            else number("eta", self.eta, hint="'bound' or "),
            "loss": as_online_loss(self.loss),
            "trace": number("trace", self.trace),
            "normalized": flag("normalized", self.normalized),
            "spectral_spread": number("spectral_spread", self.spectral_spread),
            "loss_budget": number("loss_budget", self.loss_budget, allow_zero=True),
            "instances": _one_of("instances", self.instances, INSTANCES),
            "mode": _one_of("mode", self.mode, MODES),
            "batch_size": integer("batch_size", self.batch_size),
            "keep_examples": flag("keep_examples", self.keep_examples),
        }
        checked["kind"] = INSTANCES[self.instances]()
        checked["is_squared"] = getattr(checked["loss"], "name", None) == "squared"
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.eta == "bound" and not (self.is_squared and self.normalized):
            raise ValueError(
                "eta='bound' is the rate of Lemma 3.2, for loss='squared' and normalized=True; give a number."
            )

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
        if not self.normalized:
            return "normalized=False"
        if self.mode == "minibatch" and self.batch_size > 1:
            return "mode='minibatch' is another algorithm"
        return None

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
        c = bounds.balance(
            self.spectral_spread,
            bounds.largest_divergence(log_prior, trace=self.trace),
            loss_budget=self.loss_budget,
            trace=self.trace,
        )  # 0 for one point: nothing to learn, and any rate will do
        return bounds.learning_rate(c or math.inf, self.spectral_spread, trace=self.trace)

    def bound(self, eta: float, divergence: float, loss_of_U: float, slopes: float) -> float:
        """The bound on the total loss, for the squared loss that of Lemma 3.2."""
        shared: dict[str, float] = {"loss_of_U": loss_of_U, "spread": self.spectral_spread, "trace": self.trace}
        if self.is_squared:
            c = bounds.balance_of_rate(eta, self.spectral_spread, trace=self.trace)
            return bounds.total_loss_bound(c, divergence, **shared)
        return bounds.convex_loss_bound(divergence, slopes, eta=eta, **shared)

    # ------------------------------------------------------------------ matrices that go with them
    def read_prior(self, prior: Any, dim: int | None) -> np.ndarray:
        """The logarithm of a prior, which is positive definite and of the promised trace."""
        values, U = eigh(hermitian("prior", prior, dim))
        if not values[0] > 1e-14 * abs(values[-1]):
            raise ValueError(f"prior must be positive definite; its smallest eigenvalue is {values[0]:.3g}.")
        if abs(values.sum() - self.trace) > 1e-8 * self.trace:
            raise ValueError(f"prior must have the trace {self.trace:g}, the argument trace; got {values.sum():.8g}.")
        log_W = (U * np.log(values)) @ U.conj().T
        return 0.5 * (log_W + log_W.conj().T)

    def read_comparison(self, U: Any, dim: int | None) -> np.ndarray:
        """A matrix to compare with: PSD and of the learner's trace."""
        A = hermitian("U", U, dim)
        low, total = float(eigh(A)[0][0]), float(np.trace(A).real)
        if low < -1e-8 * max(total, 1e-300):
            raise ValueError(f"U must be positive semidefinite; its smallest eigenvalue is {low:.3g}.")
        if abs(total - self.trace) > 1e-6 * self.trace:
            raise ValueError(f"U must have the trace {self.trace:g}; got {total:.8g}.")
        return A

    # ------------------------------------------------------------------ files
    def to_meta(self) -> dict[str, Any]:
        """Plain values; ``TypeError`` for a loss of the user's own."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init} | {"loss": loss_state(self.loss)}

    @staticmethod
    def from_meta(meta: dict[str, Any]) -> dict[str, Any]:
        """Arguments from :meth:`to_meta`."""
        return {**meta, "loss": loss_from_state(meta["loss"])}


def number(name: str, value: Any, *, allow_zero: bool = False, hint: str = "") -> float:
    """A positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be {hint}a number; got {value!r}.")
    if not (value > 0 or (allow_zero and value == 0)) or not math.isfinite(value):
        words = "finite and at least 0" if allow_zero else "positive and finite"
        raise ValueError(f"{name} must be {hint}{words}; got {value!r}.")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that merely counts as one."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def integer(name: str, value: Any) -> int:
    """An integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer; got {value!r}.")
    if value < 1:
        raise ValueError(f"{name} must be at least 1; got {value!r}.")
    return int(value)


def _one_of(name: str, value: Any, choices: Any) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}.")
    return value
