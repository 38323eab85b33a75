"""Spectral Bregman divergences, each given by its link ``phi'`` (design: everything else follows from it).

``D(W, W0) = phi(W) - phi(W0) - <phi'(W0), W - W0>`` with ``phi`` applied to the eigenvalues.
Kulis 2009, eq. 1-3; Tsuda 2004, eq. 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from bregmat.linalg import add_diagonal, eigh


class Divergence(Protocol):
    """What a solver needs of a divergence; see :class:`VonNeumann` for a complete one."""

    name: ClassVar[str]
    own_slack: ClassVar[str]  # name of the scalar loss in losses.py
    is_congruence_invariant: ClassVar[bool]  # D(A W A', A W0 A') = D(W, W0) for invertible A
    keeps_range: ClassVar[bool]  # finite only for matrices with the range space of the prior

    def link(self, x: np.ndarray) -> np.ndarray: ...
    def inverse_link(self, t: np.ndarray) -> np.ndarray: ...
    def in_domain(self, t: np.ndarray) -> bool: ...
    def divided(self, t: np.ndarray) -> np.ndarray: ...
    def phi(self, x: np.ndarray) -> float: ...
    def conjugate(self, t: np.ndarray) -> float: ...
    def constant(self, t0: np.ndarray) -> float: ...
    def from_diagonal(self, x: np.ndarray, U: np.ndarray, t0: np.ndarray) -> float: ...
    def gain(self, t0: np.ndarray, A: np.ndarray, t: np.ndarray) -> float: ...
    def __call__(self, X: Any, Y: Any, *, rtol: float = 1e-10) -> float: ...


def _spectra(name: str, X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Checked eigenpairs of the two arguments of a divergence."""
    out = []
    for label, A in (("X", X), ("Y", Y)):
        A = np.asarray(A, dtype=float)
        if A.ndim != 2 or A.shape[0] != A.shape[1]:
            raise ValueError(f"{name}: {label} must be a square matrix; got shape {A.shape}.")
        if not np.isfinite(A).all():
            raise ValueError(f"{name}: {label} has NaN or infinite entries.")
        scale = np.abs(A).max(initial=0.0)
        if np.abs(A - A.T).max(initial=0.0) > 1e-8 * max(scale, 1e-300):
            raise ValueError(f"{name}: {label} must be symmetric.")
        out.append(eigh(A))
    (x, V), (y, U) = out
    if V.shape != U.shape:
        raise ValueError(f"{name}: X and Y must have the same shape; got {V.shape} and {U.shape}.")
    return x, V, y, U


def _positive(name: str, label: str, x: np.ndarray, rtol: float) -> np.ndarray:
    """Mask of eigenvalues that count as positive; negative ones beyond rounding raise."""
    top = np.abs(x).max(initial=0.0)
    if x.min(initial=0.0) < -rtol * max(top, 1e-300):
        raise ValueError(f"{name}: {label} must be positive semidefinite; its smallest eigenvalue is {x.min():.3g}.")
    return x > rtol * top


@dataclass(frozen=True)
class LogDet:
    """``tr(X Y^-1) - logdet(X Y^-1) - n``; link ``-1/x``. Invariant under congruence (Kulis 2009, Proposition 12).

    The default: scale invariant, keeps the rank and range space of the prior, and fastest to solve.
    """

    name: ClassVar[str] = "logdet"
    own_slack: ClassVar[str] = "itakura_saito"
    is_congruence_invariant: ClassVar[bool] = True
    keeps_range: ClassVar[bool] = True

    def link(self, x: np.ndarray) -> np.ndarray:
        """``phi'(x) = -1/x``."""
        return -1.0 / x

    def inverse_link(self, t: np.ndarray) -> np.ndarray:
        """``psi(t) = -1/t``."""
        return -1.0 / t

    def in_domain(self, t: np.ndarray) -> bool:
        """Whether every mirror eigenvalue is negative."""
        return bool((t < 0).all())

    def divided(self, t: np.ndarray) -> np.ndarray:
        """Divided differences of psi: ``1 / (t_k t_l)``."""
        return 1.0 / np.multiply.outer(t, t)

    def phi(self, x: np.ndarray) -> float:
        """``-sum log x``."""
        return float(-np.log(x).sum())

    def conjugate(self, t: np.ndarray) -> float:
        """``phi*(t) = -sum (1 + log(-t))``."""
        return float(-(1.0 + np.log(-t)).sum())

    def constant(self, t0: np.ndarray) -> float:
        """``phi*(T0)``, the constant that makes the divergence 0 at the prior."""
        return self.conjugate(t0)

    def from_diagonal(self, x: np.ndarray, U: np.ndarray, t0: np.ndarray) -> float:
        """``D(U diag(x) U', M0)`` with ``M0 = psi(diag(t0))``."""
        return self.phi(x) - float(((U * U) @ x) @ t0) + self.constant(t0)

    def gain(self, t0: np.ndarray, A: np.ndarray, t: np.ndarray) -> float:
        """``phi*(T0) - phi*(T)`` for ``T = T0 - A`` with eigenvalues t."""
        return self.constant(t0) - self.conjugate(t)

    def __call__(self, X: Any, Y: Any, *, rtol: float = 1e-10) -> float:
        """Divergence of two PSD matrices of any rank; ``inf`` unless they have the same range space (Kulis 2009, Theorem 7).

        Parameters
        ----------
        X, Y : array-like, shape (n, n)
        rtol : float
            Eigenvalues below ``rtol`` times the largest count as zero; dimensionless.
        """
        x, V, y, U = _spectra(self.name, X, Y)
        px, py = _positive(self.name, "X", x, rtol), _positive(self.name, "Y", y, rtol)
        overlap = (V[:, px].T @ U[:, py]) ** 2
        if px.sum() != py.sum() or not _same_range(overlap, rtol, both=True):
            return np.inf
        return float(
            (overlap * np.divide.outer(x[px], y[py])).sum() - np.log(x[px]).sum() + np.log(y[py]).sum() - px.sum()
        )


@dataclass(frozen=True)
class VonNeumann:
    """``tr(X log X - X log Y - X + Y)``; link ``log x`` (Tsuda 2004, eq. 1; quantum relative entropy).

    For density matrices and kernels whose small eigenvalues may stay free; invariant under rotation only.
    """

    name: ClassVar[str] = "vonneumann"
    own_slack: ClassVar[str] = "relative_entropy"
    is_congruence_invariant: ClassVar[bool] = False
    keeps_range: ClassVar[bool] = True

    def link(self, x: np.ndarray) -> np.ndarray:
        """``phi'(x) = log x``."""
        return np.log(x)

    def inverse_link(self, t: np.ndarray) -> np.ndarray:
        """``psi(t) = exp t``."""
        return np.exp(t)

    def in_domain(self, t: np.ndarray) -> bool:
        """Everything, as far as ``exp`` does not overflow."""
        return bool((t < 300.0).all())

    def divided(self, t: np.ndarray) -> np.ndarray:
        """Divided differences of exp, stable for close and for far arguments."""
        gap = np.abs(np.subtract.outer(t, t))
        small = gap < 1e-12
        gap[small] = 1.0
        ratio = -np.expm1(-gap) / gap
        ratio[small] = 1.0
        return np.exp(np.maximum.outer(t, t)) * ratio

    def phi(self, x: np.ndarray) -> float:
        """``sum (x log x - x)``."""
        return float((x * np.log(np.where(x > 0, x, 1.0)) - x).sum())

    def conjugate(self, t: np.ndarray) -> float:
        """``phi*(t) = sum exp t``."""
        return float(np.exp(t).sum())

    def constant(self, t0: np.ndarray) -> float:
        """``phi*(T0)``."""
        return self.conjugate(t0)

    def from_diagonal(self, x: np.ndarray, U: np.ndarray, t0: np.ndarray) -> float:
        """``D(U diag(x) U', M0)`` with ``M0 = psi(diag(t0))``."""
        return self.phi(x) - float(((U * U) @ x) @ t0) + self.constant(t0)

    def gain(self, t0: np.ndarray, A: np.ndarray, t: np.ndarray) -> float:
        """``phi*(T0) - phi*(T)`` for ``T = T0 - A`` with eigenvalues t."""
        return self.constant(t0) - self.conjugate(t)

    def __call__(self, X: Any, Y: Any, *, rtol: float = 1e-10) -> float:
        """Divergence of two PSD matrices; ``inf`` unless the range of X lies in that of Y (Kulis 2009, Theorem 6).

        Parameters
        ----------
        X, Y : array-like, shape (n, n)
        rtol : float
            Eigenvalues below ``rtol`` times the largest count as zero; dimensionless.
        """
        x, V, y, U = _spectra(self.name, X, Y)
        px, py = _positive(self.name, "X", x, rtol), _positive(self.name, "Y", y, rtol)
        overlap = (V[:, px].T @ U[:, py]) ** 2
        if not _same_range(overlap, rtol, both=False):
            return np.inf
        cross = float((overlap * np.multiply.outer(x[px], np.log(y[py]))).sum())
        return self.phi(x[px]) - cross + float(y[py].sum())


@dataclass(frozen=True)
class Frobenius:
    """``|X - Y|^2 / 2``; link ``x``, inverse link ``max(t, 0)``, so the cone is kept as well."""

    name: ClassVar[str] = "frobenius"
    own_slack: ClassVar[str] = "quadratic"
    is_congruence_invariant: ClassVar[bool] = False
    keeps_range: ClassVar[bool] = False

    def link(self, x: np.ndarray) -> np.ndarray:
        """``phi'(x) = x``."""
        return np.array(x, dtype=float)

    def inverse_link(self, t: np.ndarray) -> np.ndarray:
        """``psi(t) = max(t, 0)``: the projection onto the cone."""
        return np.maximum(t, 0.0)

    def in_domain(self, t: np.ndarray) -> bool:
        """Everything finite."""
        return bool(np.isfinite(t).all())

    def divided(self, t: np.ndarray) -> np.ndarray:
        """Divided differences of ``max(t, 0)``; 0 where both arguments are negative, 1 where both are positive."""
        plus = np.maximum(t, 0.0)
        gap = np.subtract.outer(t, t)
        mixed = np.multiply.outer(t > 0, t <= 0)
        mixed |= mixed.T
        ratio = np.multiply.outer(t > 0, t > 0).astype(float)
        ratio[mixed] = np.subtract.outer(plus, plus)[mixed] / gap[mixed]
        return ratio

    def phi(self, x: np.ndarray) -> float:
        """``sum x^2 / 2``."""
        return 0.5 * float((x * x).sum())

    def conjugate(self, t: np.ndarray) -> float:
        """``phi*(t) = sum max(t, 0)^2 / 2``: the conjugate over the cone."""
        return 0.5 * float((np.maximum(t, 0.0) ** 2).sum())

    def constant(self, t0: np.ndarray) -> float:
        """``|T0|^2 / 2``: the prior may be indefinite here."""
        return 0.5 * float((t0 * t0).sum())

    def from_diagonal(self, x: np.ndarray, U: np.ndarray, t0: np.ndarray) -> float:
        """``|U diag(x) U' - T0|^2 / 2``, summed directly: the terms of the general formula cancel."""
        return 0.5 * float((add_diagonal((U * x) @ U.T, -t0) ** 2).sum())

    def gain(self, t0: np.ndarray, A: np.ndarray, t: np.ndarray) -> float:
        """``<A, T0> - |A|^2 / 2 + |min(T, 0)|^2 / 2``, equal to ``(|T0|^2 - |max(T, 0)|^2) / 2`` but without cancellation."""
        if float((A * A).sum()) > float((t0 * t0).sum()):  # then the plain form loses less
            return self.constant(t0) - self.conjugate(t)
        below = np.minimum(t, 0.0)
        return float(np.diag(A) @ t0) - 0.5 * float((A * A).sum()) + 0.5 * float((below * below).sum())

    def __call__(self, X: Any, Y: Any, *, rtol: float = 1e-10) -> float:
        """Half the squared Frobenius distance of two symmetric matrices."""
        x, V, y, U = _spectra(self.name, X, Y)
        return 0.5 * float((((V * x) @ V.T - (U * y) @ U.T) ** 2).sum())


def _same_range(overlap: np.ndarray, rtol: float, both: bool) -> bool:
    """Whether the row space lies in the column space (and, with ``both``, the reverse), from squared cosines."""
    tol = max(np.sqrt(rtol), 1e-8)
    inside = bool((np.abs(overlap.sum(axis=1) - 1.0) < tol).all())
    return inside and (not both or bool((np.abs(overlap.sum(axis=0) - 1.0) < tol).all()))


DIVERGENCES: dict[str, type] = {cls.name: cls for cls in (LogDet, VonNeumann, Frobenius)}


def as_divergence(divergence: Any) -> Divergence:
    """A divergence object from an object or a string that names one."""
    if isinstance(divergence, str):
        if divergence not in DIVERGENCES:
            raise ValueError(f"divergence must be one of {', '.join(DIVERGENCES)} or an object; got {divergence!r}.")
        return DIVERGENCES[divergence]()
    if isinstance(divergence, type) or not all(
        hasattr(divergence, name) for name in ("link", "inverse_link", "divided")
    ):
        raise TypeError(
            f"divergence must be one of {', '.join(DIVERGENCES)} or an object such as LogDet(); got {divergence!r}."
        )
    return divergence
