"""Iterates: a matrix ``M = F diag(x) F'`` inside the cone, with a local frame F for Newton's method.

In the frame F a step E in the local metric moves ``M`` by ``F (S o E) F'`` to first order, where S is the square root of
the divided differences of the inverse link. There are two kinds with the same methods:

* ``Spectral``: mirror coordinates ``T = U diag(t) U'``, ``M = psi(T)``, ``F = U``; for any divergence.
* ``Factored``: ``M = L L'``, ``F = L``, ``S = 1``; for LogDet, which is invariant under congruence. Needs no eigenvectors.
"""

from __future__ import annotations

import numpy as np

from bregmat.base.linalg import add_diagonal, cholesky, eigh, logdet_of_factor, symmetrize, triangular_inverse
from bregmat.objective.spectral import SpectralDivergence


class Spectral:
    """Mirror coordinates ``T = U diag(t) U'`` of ``M = psi(T)``."""

    def __init__(self, divergence: SpectralDivergence, t0: np.ndarray, t: np.ndarray, U: np.ndarray) -> None:
        self.divergence, self.t0, self.t, self.F = divergence, t0, t, U
        self.x = divergence.inverse_link(t)

    def at(self, T: np.ndarray) -> Spectral | None:
        """The iterate at mirror coordinates T, or None outside the domain."""
        if not np.isfinite(T).all():
            return None
        t, U = eigh(T)
        return Spectral(self.divergence, self.t0, t, U) if self.divergence.in_domain(t) else None

    def with_factor(self, B: np.ndarray) -> Spectral | None:
        """The iterate with ``M = B B'``, or None outside the domain."""
        D = self.divergence
        x, U = eigh(B @ B.T)
        if D.keeps_range and x[0] <= 0:
            return None
        t = D.link(x if D.keeps_range else np.maximum(x, 0.0))
        return Spectral(D, self.t0, t, U) if np.isfinite(t).all() and D.in_domain(t) else None

    @property
    def S(self) -> np.ndarray:
        """Square roots of the divided differences."""
        return np.sqrt(self.divergence.divided(self.t))

    def residual(self, A: np.ndarray) -> np.ndarray:
        """``T - T0 + A`` in the frame, for an adjoint A given in the frame."""
        return add_diagonal(A - (self.F.T * self.t0) @ self.F, self.t)

    def mirror(self) -> np.ndarray:
        """T in coordinates."""
        return (self.F * self.t) @ self.F.T

    def moved(self, E: np.ndarray, dT: np.ndarray, alpha: float) -> Spectral | None:
        """The iterate after the step ``T + alpha dT`` with dT in the frame, or None outside the domain."""
        B = add_diagonal(alpha * dT, self.t)
        if not np.isfinite(B).all():
            return None
        t, Q = eigh(B)
        return Spectral(self.divergence, self.t0, t, self.F @ Q) if self.divergence.in_domain(t) else None

    def value(self) -> float:
        """``D(M, M0)``."""
        return self.divergence.from_diagonal(self.x, self.F, self.t0)

    def value_size(self) -> float:
        """Sum of the sizes of the terms of :meth:`value`; 0 at the prior, whose value is exact."""
        at_prior = np.array_equal(self.t, self.t0) and np.array_equal(self.F, np.eye(len(self.t)))
        return 0.0 if at_prior else self.divergence.value_size(self.x, self.F, self.t0)

    def diagonal(self) -> np.ndarray:
        """Diagonal of M."""
        return (self.F * self.F) @ self.x

    def factor(self) -> np.ndarray:
        """B with ``M = B B'``."""
        keep = self.x > 0
        return self.F[:, keep] * np.sqrt(self.x[keep])

    def matrix(self) -> np.ndarray:
        """M."""
        return symmetrize((self.F * self.x) @ self.F.T)


class Factored:
    """``M = L L'`` for LogDet with the identity as prior."""

    x = None
    S = None  # 1 everywhere

    def __init__(self, L: np.ndarray, logdet: float) -> None:
        self.F, self.logdet = L, logdet

    def at(self, T: np.ndarray) -> Factored | None:
        """The iterate at mirror coordinates ``T = -M^-1``, or None outside the domain."""
        C, ok = cholesky(-T)
        if not ok:
            return None
        L = triangular_inverse(C).T
        return Factored(L, -logdet_of_factor(C))

    def with_factor(self, B: np.ndarray) -> Factored | None:
        """The iterate with ``M = B B'``, or None outside the cone."""
        logdet = 2.0 * float(np.linalg.slogdet(B).logabsdet)
        return Factored(B, logdet) if np.isfinite(logdet) else None

    def residual(self, A: np.ndarray) -> np.ndarray:
        """``L' (T - T0 + A*) L`` for an adjoint A given in the frame."""
        return add_diagonal(A + self.F.T @ self.F, -1.0)

    def mirror(self) -> np.ndarray:
        """T in coordinates."""
        inverse = np.linalg.inv(self.F)
        return -(inverse.T @ inverse)

    def moved(self, E: np.ndarray, dT: np.ndarray, alpha: float) -> Factored | None:
        """The iterate at ``L (I + alpha E) L'``, or None outside the cone."""
        C, ok = cholesky(add_diagonal(alpha * E, 1.0))
        if not ok:
            return None
        return Factored(self.F @ C, self.logdet + logdet_of_factor(C))

    def value(self) -> float:
        """``tr M - logdet M - r``."""
        return float(np.vdot(self.F, self.F)) - self.logdet - len(self.F)

    def value_size(self) -> float:
        """Sum of the sizes of the terms of :meth:`value`; 0 at the prior, whose value is exact."""
        at_prior = np.array_equal(self.F, np.eye(len(self.F)))
        return 0.0 if at_prior else float(np.vdot(self.F, self.F)) + abs(self.logdet) + len(self.F)

    def factor(self) -> np.ndarray:
        """B with ``M = B B'``."""
        return self.F

    def matrix(self) -> np.ndarray:
        """M."""
        return self.F @ self.F.T


Iterate = Spectral | Factored


def iterate_at_prior(divergence: SpectralDivergence, t0: np.ndarray) -> Iterate:
    """The iterate at the prior: ``Factored`` for LogDet, otherwise ``Spectral``."""
    if divergence.is_congruence_invariant and (t0 == -1.0).all():
        return Factored(np.eye(len(t0)), 0.0)
    return Spectral(divergence, t0, np.array(t0, dtype=float), np.eye(len(t0)))
