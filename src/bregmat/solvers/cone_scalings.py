"""Nesterov-Todd scalings of the interior-point method: frames in which the matrix M and its dual are the same diagonal matrix.

Nesterov and Todd (1997), "Self-scaled barriers and interior-point methods for convex programming".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat.base.linalg import cholesky, eigh, eigvalsh, symmetrize
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.linear_maps import weighted_by

# products of primal and dual, in units of the goal, that need no corrector (Gondzio 1996 has 0.1 and 10)
LOWEST, HIGHEST = 0.1, 3.0


def largest_step(x: np.ndarray, dx: np.ndarray, rows: np.ndarray | None = None) -> float:
    """Largest alpha with ``x + alpha dx >= 0`` on the given rows."""
    falling = dx < 0 if rows is None else (dx < 0) & rows
    return float(np.min(-x[falling] / dx[falling])) if falling.any() else np.inf


def corrections(products: np.ndarray, goal: float) -> np.ndarray:
    """Changes that bring products into ``[LOWEST, HIGHEST] * goal``; none is below ``-HIGHEST * goal`` (Gondzio 1996)."""
    return np.maximum(np.clip(products, LOWEST * goal, HIGHEST * goal) - products, -HIGHEST * goal)


def _divided(R: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """The X with ``diag(sigma) X + X diag(sigma) = R`` (Lyapunov equation)."""
    return R / np.add.outer(sigma, sigma)


class LogDetScaling:
    """For LogDet, whose dual matrix is ``-T``: ``M = B diag(sigma) B'`` and ``-T = B'^-1 diag(sigma) B^-1``.

    The path is ``-M T = 1 + tau``. Moves of M and T are written in the frame ``F = B``, where the chord between ``(psi(T), T)`` and
    ``(M, psi^-1(M))`` is the identity.

    Parameters
    ----------
    L : ndarray, shape (r, r)
        Factor of ``M = L L'``.
    t, V : ndarray, shape (r,), (r, r)
        ``T = V diag(t) V'``, with negative t.
    """

    S: np.ndarray | None = None  # root of the chord; None is 1 everywhere
    chord: np.ndarray | None = None
    order = 0  # eigenvalues of products that count in the mean complementarity
    link_defect: Any = 0.0  # the link holds exactly
    shift = 1.0  # products of M and its dual matrix are ``shift + tau`` on the path

    def __init__(self, L: np.ndarray, t: np.ndarray, V: np.ndarray) -> None:
        self._scale(L, (V * np.sqrt(-t)).T)
        self.F = self.B

    def _scale(self, L: np.ndarray, Y: np.ndarray) -> None:
        """Find B and sigma with ``M = L L' = B diag(sigma) B'`` and the dual matrix ``Y'Y = B'^-1 diag(sigma) B^-1``."""
        # with Y L = U diag(sigma) Q':  B = L Q / sqrt(sigma)
        _, self.sigma, Qt = np.linalg.svd(Y @ L)
        self.B = L @ (Qt.T / np.sqrt(self.sigma))

    def _matrix(self, dM: np.ndarray) -> np.ndarray:
        """The move of M in the frame of B."""
        return dM

    def _slack(self, dM: np.ndarray, dT: np.ndarray) -> np.ndarray:
        """The move of the dual matrix in the frame of B."""
        return -dT

    def _answer(self, C: np.ndarray) -> np.ndarray:
        """The move of M for a right-hand side C of the complementarity equation, in the frame of B, while T stays."""
        return C

    def defect(self, tau: float) -> np.ndarray:
        """The move of M that reaches the path at tau while T stays."""
        return self._answer(np.diag((self.shift + tau) / self.sigma - self.sigma))

    def tangent(self, dT: np.ndarray) -> np.ndarray:
        """The move of M for a move of T."""
        return weighted_by(self.chord, dT)

    def curvature(self, dM: np.ndarray, dT: np.ndarray) -> np.ndarray:
        """The move of M for the product of the two moves in the complementarity, which the tangent neglects."""
        product = symmetrize(self._matrix(dM) @ self._slack(dM, dT))
        return self._answer(_divided(-2.0 * product, self.sigma))

    def centring(self, dM: np.ndarray, dT: np.ndarray, steps: tuple[float, float], goal: float) -> np.ndarray:
        """The move of M that brings the products after steps of these lengths near those of the path (Gondzio 1996).

        Parameters
        ----------
        dM, dT : ndarray, shape (r, r)
            Moves in the frame.
        steps : tuple of float
            Step lengths of M and of its dual matrix.
        goal : float
            tau that the step aims at.
        """
        M, Z = self._after(dM, dT, steps)
        products, Q = eigh(symmetrize(M @ Z))
        return self._answer(_divided(2.0 * ((Q * corrections(products, self.shift + goal)) @ Q.T), self.sigma))

    def _after(self, dM: np.ndarray, dT: np.ndarray, steps: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
        """M and its dual matrix after steps of these lengths, in the frame of B."""
        sigma = np.diag(self.sigma)
        return sigma + steps[0] * self._matrix(dM), sigma + steps[1] * self._slack(dM, dT)

    def product(self, dM: np.ndarray, dT: np.ndarray, steps: tuple[float, float]) -> float:
        """Inner product of M and its dual matrix after steps of these lengths; 0 if it does not count."""
        M, Z = self._after(dM, dT, steps)
        return float((M * Z).sum()) if self.order else 0.0

    def primal_limit(self, dM: np.ndarray) -> float:
        """Largest step that keeps M in the cone."""
        return self._cone_limit(self._matrix(dM))

    def dual_limit(self, dM: np.ndarray, dT: np.ndarray) -> float:
        """Largest step that keeps the dual matrix in the cone."""
        return self._cone_limit(self._slack(dM, dT))

    def _cone_limit(self, E: np.ndarray) -> float:
        """Largest alpha with ``diag(sigma) + alpha E`` positive semidefinite."""
        low = float(eigvalsh(symmetrize(E) / np.sqrt(np.multiply.outer(self.sigma, self.sigma)))[0])
        return -1.0 / low if low < 0 else np.inf

    def moved(self, dM: np.ndarray, alpha: float) -> np.ndarray | None:
        """A factor of ``M + alpha dM``, or None outside the cone."""
        return self._factor(self.B, self._matrix(dM), alpha)

    def _factor(self, B: np.ndarray, E: np.ndarray, alpha: float) -> np.ndarray | None:
        """A factor of ``B (diag(sigma) + alpha E) B'``, or None outside the cone."""
        C, ok = cholesky(np.diag(self.sigma) + alpha * symmetrize(E))
        return B @ C if ok else None

    def moved_slack(self, dM: np.ndarray, dT: np.ndarray, alpha: float) -> np.ndarray | None:
        """There is no slack beside T."""
        return None


class SlackScaling(LogDetScaling):
    """For other divergences, with a dual slack Z of the cone: ``phi'(M) - Z = T`` and ``M Z = tau`` on the path.

    ``M = B diag(sigma) B'`` and ``Z = B'^-1 diag(sigma) B^-1`` with ``B = F diag(root) W``. Moves of M and T are written in the
    orthogonal frame F. There the derivative of the link is taken as diagonal, at the spectrum that M has in F on the path; what
    that misses is left to the residual of the next step.

    Parameters
    ----------
    divergence : SpectralDivergence
    L, Y : ndarray, shape (r, r)
        Factors of ``M = L L'`` and ``Z = Y Y'``.
    t, V : ndarray, shape (r,), (r, r)
        ``T = V diag(t) V'``.
    """

    chord: np.ndarray
    shift = 0.0

    def __init__(
        self, divergence: SpectralDivergence, L: np.ndarray, Y: np.ndarray, t: np.ndarray, V: np.ndarray
    ) -> None:
        self._scale(L, Y.T)
        self.F, root, self.W = np.linalg.svd(self.B)
        self.inverse = (self.F / root) @ self.W  # B'^-1
        self.root = np.multiply.outer(root, root)
        self.order = len(root)
        # on the path M Z = tau, so sigma = sqrt(tau) and the spectrum of M in F is root^2 sqrt(tau)
        x = root**2 * np.sqrt(float((self.sigma**2).mean()))
        self.link = 1.0 / divergence.divided(divergence.link(x))  # dphi'(M) = link o dM
        # phi'(M) - Z = T and dZ = -dM / (root o root) at constant M Z:  dM = chord o dT
        self.chord = 1.0 / (self.link + 1.0 / (self.root * self.root))
        self.S = np.sqrt(self.chord)
        # residual = phi'(M) - Z - T in F
        U, size, _ = np.linalg.svd(L)
        P, Q, R = self.F.T @ U, self.F.T @ V, self.F.T @ Y
        self.residual = symmetrize((P * divergence.link(size**2)) @ P.T - R @ R.T - (Q * t) @ Q.T)

    @property
    def link_defect(self) -> float:
        """Root mean square, over the order, of what the residual of the link changes in the products M Z."""
        E = self._in_B(self.residual)
        return float(np.linalg.norm(E * np.sqrt(np.multiply.outer(self.sigma, self.sigma))) / np.sqrt(self.order))

    def _in_B(self, R: np.ndarray) -> np.ndarray:
        """A move of Z from the frame F to that of B."""
        return symmetrize(self.W.T @ (R * self.root) @ self.W)

    def _slack(self, dM: np.ndarray, dT: np.ndarray) -> np.ndarray:
        """``dZ = link o dM - dT + residual`` in the frame of B."""
        return self._in_B(self.link * dM - dT + self.residual)

    def _matrix(self, dM: np.ndarray) -> np.ndarray:
        return symmetrize(self.W.T @ (dM / self.root) @ self.W)

    def _answer(self, C: np.ndarray) -> np.ndarray:
        """The move of M for a right-hand side C of the complementarity equation, in the frame of B, while T stays."""
        return self.chord * ((self.W @ C @ self.W.T) / self.root)

    def defect(self, tau: float) -> np.ndarray:
        """The move of M that reaches the path at tau while T stays, and leaves no residual of the link."""
        return super().defect(tau) - self.chord * self.residual

    def moved_slack(self, dM: np.ndarray, dT: np.ndarray, alpha: float) -> np.ndarray | None:
        """A factor of ``Z + alpha dZ``, or None outside the cone."""
        return self._factor(self.inverse, self._slack(dM, dT), alpha)
