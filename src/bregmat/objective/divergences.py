"""The divergences of the library, with formulas of their own where these are more accurate than those of :class:`SpectralDivergence`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.base.checks import check_positive
from bregmat.base.linalg import add_diagonal
from bregmat.base.registry import Registry
from bregmat.base.tolerances import EPS, TINY
from bregmat.objective.claims import check_divergence
from bregmat.objective.spectral import LARGEST, SpectralDivergence, eigenpairs


@dataclass(frozen=True)
class LogDet(SpectralDivergence):
    """``tr(X Y^-1) - logdet(X Y^-1) - n``; link ``-1/x``. Invariant under congruence (Kulis 2009, Proposition 12).

    The default: scale invariant, keeps the rank and range space of the prior, and fastest to solve.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import LogDet
    >>> round(LogDet()(np.diag([2.0, 1.0]), np.eye(2)), 4)  # 2 - log 2 - 1
    0.3069
    >>> LogDet()(np.diag([1.0, 0.0]), np.eye(2))  # ranges differ
    inf
    """

    name: ClassVar[str] = "logdet"
    degree: ClassVar[int | None] = 0
    row_projections: ClassVar[str | None] = "logdet"
    is_congruence_invariant: ClassVar[bool] = True
    keeps_range: ClassVar[bool] = True  # type: ignore[assignment]
    keeps_rank: ClassVar[bool] = True  # type: ignore[assignment]

    def link(self, x: np.ndarray) -> np.ndarray:
        """``phi'(x) = -1/x``."""
        return -1.0 / x

    def inverse_link(self, t: np.ndarray) -> np.ndarray:
        """``psi(t) = -1/t``."""
        return -1.0 / t

    def in_domain(self, t: np.ndarray) -> bool:
        """Whether every mirror eigenvalue is negative."""
        return bool((t < 0).all())

    def curvature(self, x: np.ndarray) -> np.ndarray:
        """``phi''(x) = 1 / x^2``."""
        return 1.0 / (x * x)

    def divided(self, t: np.ndarray) -> np.ndarray:
        """``(1/t_l - 1/t_k) / (t_k - t_l) = 1 / (t_k t_l)``, exact for close arguments."""
        return 1.0 / np.multiply.outer(t, t)

    def phi(self, x: np.ndarray) -> np.ndarray:
        """``-log x``."""
        return -np.log(x)

    def conjugate(self, t: np.ndarray) -> float:
        """``phi*(t) = -sum (1 + log(-t))``."""
        return float(-(1.0 + np.log(-t)).sum())

    def dual_gain(self, t0: np.ndarray, A: np.ndarray, t: np.ndarray) -> tuple[float, float]:
        """``sum (1 + log(-t)) - sum (1 + log(-t0))``, since ``t psi(t) = -1``; each logarithm is computed once."""
        log0, log = np.log(-t0), np.log(-t)
        size = len(t0) + len(t) + np.abs(log0).sum() + np.abs(log).sum()
        return float((1.0 + log).sum() - (1.0 + log0).sum()), float(size)

    def barrier_inverse(self, t: np.ndarray, tau: np.ndarray | float) -> np.ndarray:
        """``-(1 + tau) / t``: the barrier is the divergence itself, so ``-1/x - tau/x = t``."""
        return -(1.0 + tau) / t


@dataclass(frozen=True)
class VonNeumann(SpectralDivergence):
    """``tr(X log X - X log Y - X + Y)``; link ``log x`` (Tsuda 2004, eq. 1; quantum relative entropy).

    For density matrices, and kernels whose small eigenvalues may become 0; invariant under rotation only.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import VonNeumann
    >>> round(VonNeumann()(np.diag([2.0, 1.0]), np.eye(2)), 4)  # 2 log 2 - 2 + 1
    0.3863
    """

    name: ClassVar[str] = "vonneumann"
    degree: ClassVar[int | None] = 1
    row_projections: ClassVar[str | None] = "vonneumann"
    keeps_trace: ClassVar[bool] = True
    keeps_range: ClassVar[bool] = True  # type: ignore[assignment]
    keeps_rank: ClassVar[bool] = False  # type: ignore[assignment]

    def link(self, x: np.ndarray) -> np.ndarray:
        """``phi'(x) = log x``."""
        return np.log(x)

    def inverse_link(self, t: np.ndarray) -> np.ndarray:
        """``psi(t) = exp t``."""
        return np.exp(t)

    def in_domain(self, t: np.ndarray) -> bool:
        """Every number for which ``exp`` and its squares do not overflow."""
        return bool((t < 300.0).all())

    def curvature(self, x: np.ndarray) -> np.ndarray:
        """``phi''(x) = 1 / x``."""
        return 1.0 / x

    def divided(self, t: np.ndarray) -> np.ndarray:
        """``exp(max) (-expm1(-gap)) / gap`` with ``gap = |t_k - t_l|``, to full precision for close and for far arguments."""
        gap = np.abs(np.subtract.outer(t, t))
        small = gap < 1e-12
        gap[small] = 1.0
        ratio = -np.expm1(-gap) / gap
        ratio[small] = 1.0
        return np.exp(np.maximum.outer(t, t)) * ratio

    def phi(self, x: np.ndarray) -> np.ndarray:
        """``x log x - x``, 0 at 0."""
        return x * np.log(np.where(x > 0, x, 1.0)) - x

    def conjugate(self, t: np.ndarray) -> float:
        """``phi*(t) = sum exp t``; the terms of the general formula cancel."""
        return float(np.exp(t).sum())

    def barrier_inverse(self, t: np.ndarray, tau: np.ndarray | float) -> np.ndarray:
        """``y = tau / x`` solves ``y + log y = log tau - t``: Wright's omega function."""
        from scipy.special import wrightomega  # loads on first use, which keeps ``import bregmat`` quick

        y = wrightomega(np.log(tau) - t)
        # for small y, log x = t + y loses fewer digits than tau / y
        return np.where(y > 1e-3, tau / np.maximum(y, TINY), np.exp(np.minimum(t + y, LARGEST)))


@dataclass(frozen=True)
class Frobenius(SpectralDivergence):
    """``|X - Y|^2 / 2``; link ``x``, inverse link ``max(t, 0)``, so the cone is kept as well.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Frobenius
    >>> Frobenius()(np.diag([3.0, 1.0]), np.eye(2))  # half the squared norm of the difference
    2.0
    """

    name: ClassVar[str] = "frobenius"
    degree: ClassVar[int | None] = 2
    takes_indefinite: ClassVar[bool] = True
    keeps_range: ClassVar[bool] = False  # type: ignore[assignment]
    keeps_rank: ClassVar[bool] = False  # type: ignore[assignment]

    def link(self, x: np.ndarray) -> np.ndarray:
        """``phi'(x) = x``."""
        return np.array(x, dtype=float)

    def inverse_link(self, t: np.ndarray) -> np.ndarray:
        """``psi(t) = max(t, 0)``: the projection onto the cone."""
        return np.maximum(t, 0.0)

    def in_domain(self, t: np.ndarray) -> bool:
        """Every finite number."""
        return bool(np.isfinite(t).all())

    def curvature(self, x: np.ndarray) -> np.ndarray:
        """``phi''(x) = 1``."""
        return np.ones_like(x)

    def divided(self, t: np.ndarray) -> np.ndarray:
        """Divided differences of ``max(t, 0)``: 0 where both arguments are negative, 1 where both are positive."""
        plus = np.maximum(t, 0.0)
        gap = np.subtract.outer(t, t)
        mixed = np.multiply.outer(t > 0, t <= 0)
        mixed |= mixed.T
        ratio = np.multiply.outer(t > 0, t > 0).astype(float)
        ratio[mixed] = np.subtract.outer(plus, plus)[mixed] / gap[mixed]
        return ratio

    def phi(self, x: np.ndarray) -> np.ndarray:
        """``x^2 / 2``."""
        return 0.5 * x * x

    def conjugate(self, t: np.ndarray) -> float:
        """``phi*(t) = sum max(t, 0)^2 / 2``, the conjugate over the cone."""
        return 0.5 * float((np.maximum(t, 0.0) ** 2).sum())

    def constant(self, t0: np.ndarray) -> float:
        """``|T0|^2 / 2``: the prior may be indefinite here."""
        return 0.5 * float((t0 * t0).sum())

    def from_diagonal(self, x: np.ndarray, U: np.ndarray, t0: np.ndarray) -> float:
        """``|U diag(x) U' - T0|^2 / 2``; the terms of the general formula cancel."""
        return 0.5 * float((add_diagonal((U * x) @ U.T, -t0) ** 2).sum())

    def dual_gain(self, t0: np.ndarray, A: np.ndarray, t: np.ndarray) -> tuple[float, float]:
        """``<A, T0> - |A|^2 / 2 + |min(T, 0)|^2 / 2``, equal to ``(|T0|^2 - |max(T, 0)|^2) / 2`` but without cancellation."""
        if float((A * A).sum()) > float((t0 * t0).sum()):  # then the general form has the smaller rounding error
            constant, conjugate = self.constant(t0), self.conjugate(t)
            return constant - conjugate, constant + conjugate
        below, size = np.minimum(t, 0.0), float(np.linalg.norm(A))
        gain = float(np.diag(A) @ t0) - 0.5 * float((A * A).sum()) + 0.5 * float((below * below).sum())
        # the sum of the sizes of the three products
        return gain, size * (size + float(np.linalg.norm(t0))) + float((below**2).sum())

    def value_size(self, x: np.ndarray, U: np.ndarray, t0: np.ndarray) -> float:
        """Size of the difference ``M - M0`` times that of M and M0."""
        size = float(np.linalg.norm(x) + np.linalg.norm(t0))
        return size * (float(np.sqrt(2.0 * self.from_diagonal(x, U, t0))) + EPS * size)

    def __call__(self, X: Any, Y: Any, *, rtol: float = 1e-10) -> float:
        """Half the squared Frobenius distance of two symmetric or Hermitian matrices, which need not be semidefinite here."""
        check_positive("rtol", rtol, finite=True, zero=True)
        x, V, y, U = eigenpairs(self.name, X, Y)
        return 0.5 * float((np.abs((V * x) @ V.conj().T - (U * y) @ U.conj().T) ** 2).sum())

    def barrier_inverse(self, t: np.ndarray, tau: np.ndarray | float) -> np.ndarray:
        """The positive root of ``x^2 - t x - tau = 0``, without cancellation."""
        root = np.sqrt(t * t + 4.0 * tau)
        return np.where(t > 0, 0.5 * (t + root), 2.0 * tau / (root - t))


DIVERGENCES = Registry("divergence", base=SpectralDivergence, example="LogDet()", check=check_divergence)
for _cls in (LogDet, VonNeumann, Frobenius):
    DIVERGENCES.add(_cls)
