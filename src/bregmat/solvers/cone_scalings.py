"""Nesterov-Todd scalings of the interior-point method: frames in which the matrix M and its dual are the same diagonal matrix.

Nesterov and Todd (1997), "Self-scaled barriers and interior-point methods for convex programming".
"""

from __future__ import annotations

import numpy as np

from bregmat.base.linalg import cholesky, eigh, eigvalsh, symmetrize
from bregmat.objective.spectral import SpectralDivergence

# products of primal and dual, in units of the goal, that need no corrector (Gondzio 1996 has 0.1 and 10)
LOWEST, HIGHEST = 0.1, 3.0


def largest_step(x: np.ndarray, dx: np.ndarray, rows: np.ndarray | None = None) -> float:
    """Largest alpha with ``x + alpha dx >= 0`` on the given rows."""
    falling = dx < 0 if rows is None else (dx < 0) & rows
    return float(np.min(-x[falling] / dx[falling])) if falling.any() else np.inf


def corrections(products: np.ndarray, goal: float) -> np.ndarray:
    """Changes that bring products into ``[LOWEST, HIGHEST] * goal``; none is below ``-HIGHEST * goal`` (Gondzio 1996)."""
    return np.maximum(np.clip(products, LOWEST * goal, HIGHEST * goal) - products, -HIGHEST * goal)


def _centring(M: np.ndarray, Z: np.ndarray, sigma: np.ndarray, goal: float) -> np.ndarray:
    """The move of M that adds :func:`corrections` to the eigenvalues of ``M Z``, in the frame where both are ``diag(sigma)``."""
    products, Q = eigh(symmetrize(M @ Z))
    return _divided(2.0 * ((Q * corrections(products, goal)) @ Q.T), sigma)


def _divided(R: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """The X with ``diag(sigma) X + X diag(sigma) = R`` (Lyapunov equation)."""
    return R / np.add.outer(sigma, sigma)


def _cone_limit(E: np.ndarray, sigma: np.ndarray) -> float:
    """Largest alpha with ``diag(sigma) + alpha E`` positive semidefinite."""
    low = float(eigvalsh(E / np.sqrt(np.multiply.outer(sigma, sigma)))[0])
    return -1.0 / low if low < 0 else np.inf


class LogDetScaling:
    """For LogDet, whose dual matrix is ``-T``: ``M = F diag(sigma) F'`` and ``-T = F'^-1 diag(sigma) F^-1``.

    The path is ``-M T = 1 + tau``. Moves of M and T are written in the frame F, where the chord between ``(psi(T), T)`` and
    ``(M, psi^-1(M))`` is the identity.

    Parameters
    ----------
    L : ndarray, shape (r, r)
        Factor of ``M = L L'``.
    t, V : ndarray, shape (r,), (r, r)
        ``T = V diag(t) V'``, with negative t.
    """

    S = chord = None  # 1 everywhere
    order = 0  # eigenvalues of products that count in the mean complementarity
    link_defect = 0.0  # the link holds exactly

    def __init__(self, L: np.ndarray, t: np.ndarray, V: np.ndarray) -> None:
        # with -T = Y'Y, Y = sqrt(-t) V', and Y L = U sigma Q':  F = L Q / sqrt(sigma)
        _, self.sigma, Qt = np.linalg.svd((V * np.sqrt(-t)).T @ L)
        self.F = L @ (Qt.T / np.sqrt(self.sigma))

    def defect(self, tau: float) -> np.ndarray:
        """``(1 + tau) / sigma - sigma``: the move of M that reaches the path at tau while T stays."""
        return np.diag((1.0 + tau) / self.sigma - self.sigma)

    def tangent(self, dT: np.ndarray) -> np.ndarray:
        """The move of M for a move of T."""
        return dT

    def curvature(self, dM: np.ndarray, dT: np.ndarray) -> np.ndarray:
        """The move of M for the term ``dM dT`` of ``-(M + dM)(T + dT) = 1 + tau`` that the tangent neglects."""
        return _divided(2.0 * symmetrize(dM @ dT), self.sigma)

    def centring(self, dM: np.ndarray, dT: np.ndarray, steps: tuple[float, float], goal: float) -> np.ndarray:
        """The move of M that brings the products after steps of these lengths near those of the path (Gondzio 1996).

        Parameters
        ----------
        dM, dT : ndarray, shape (r, r)
            Moves in the frame.
        steps : tuple of float
            Step lengths of M and T.
        goal : float
            tau that the step aims at.
        """
        sigma = np.diag(self.sigma)
        return _centring(sigma + steps[0] * dM, sigma - steps[1] * dT, self.sigma, 1.0 + goal)

    def primal_limit(self, dM: np.ndarray) -> float:
        """Largest step that keeps M in the cone."""
        return _cone_limit(symmetrize(dM), self.sigma)

    def dual_limit(self, dM: np.ndarray, dT: np.ndarray) -> float:
        """Largest step that keeps ``-T`` in the cone."""
        return _cone_limit(symmetrize(-dT), self.sigma)

    def product(self, dM: np.ndarray, dT: np.ndarray, steps: tuple[float, float]) -> float:
        """Not counted: ``order`` is 0."""
        return 0.0

    def moved(self, dM: np.ndarray, alpha: float) -> np.ndarray | None:
        """A factor of ``M + alpha dM``, or None outside the cone."""
        C, ok = cholesky(np.diag(self.sigma) + alpha * symmetrize(dM))
        return self.F @ C if ok else None

    def moved_slack(self, dM: np.ndarray, dT: np.ndarray, alpha: float) -> None:
        """There is no slack beside T."""


class SlackScaling:
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

    def __init__(
        self, divergence: SpectralDivergence, L: np.ndarray, Y: np.ndarray, t: np.ndarray, V: np.ndarray
    ) -> None:
        # with Y'L = U diag(sigma) Q':  B = L Q / sqrt(sigma)
        _, self.sigma, Qt = np.linalg.svd(Y.T @ L)
        self.B = L @ (Qt.T / np.sqrt(self.sigma))
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
        """dM in the frame of B."""
        return symmetrize(self.W.T @ (dM / self.root) @ self.W)

    def _answer(self, C: np.ndarray) -> np.ndarray:
        """The move of M for a right-hand side C of the complementarity equation, in the frame of B, while T stays."""
        return self.chord * ((self.W @ C @ self.W.T) / self.root)

    def defect(self, tau: float) -> np.ndarray:
        """The move of M that reaches the path at tau while T stays: ``M Z = tau`` and no residual of the link."""
        return self._answer(np.diag(tau / self.sigma - self.sigma)) - self.chord * self.residual

    def tangent(self, dT: np.ndarray) -> np.ndarray:
        """The move of M for a move of T."""
        return self.chord * dT

    def curvature(self, dM: np.ndarray, dT: np.ndarray) -> np.ndarray:
        """The move of M for the term ``dM dZ`` of ``(M + dM)(Z + dZ) = tau`` that the tangent neglects."""
        product = symmetrize(self._matrix(dM) @ self._slack(dM, dT))
        return self._answer(_divided(-2.0 * product, self.sigma))

    def centring(self, dM: np.ndarray, dT: np.ndarray, steps: tuple[float, float], goal: float) -> np.ndarray:
        """The move of M that brings the products after steps of these lengths near those of the path (Gondzio 1996).

        Parameters
        ----------
        dM, dT, steps, goal
            As in :meth:`LogDetScaling.centring`, with step lengths of M and Z.
        """
        return self._answer(_centring(*self._after(dM, dT, steps), self.sigma, goal))

    def _after(self, dM: np.ndarray, dT: np.ndarray, steps: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
        """M and Z after steps of these lengths, in the frame of B."""
        sigma = np.diag(self.sigma)
        return sigma + steps[0] * self._matrix(dM), sigma + steps[1] * self._slack(dM, dT)

    def primal_limit(self, dM: np.ndarray) -> float:
        """Largest step that keeps M in the cone."""
        return _cone_limit(self._matrix(dM), self.sigma)

    def dual_limit(self, dM: np.ndarray, dT: np.ndarray) -> float:
        """Largest step that keeps Z in the cone."""
        return _cone_limit(self._slack(dM, dT), self.sigma)

    def product(self, dM: np.ndarray, dT: np.ndarray, steps: tuple[float, float]) -> float:
        """``<M, Z>`` after steps of these lengths."""
        M, Z = self._after(dM, dT, steps)
        return float((M * Z).sum())

    def moved(self, dM: np.ndarray, alpha: float) -> np.ndarray | None:
        """A factor of ``M + alpha dM``, or None outside the cone."""
        C, ok = cholesky(np.diag(self.sigma) + alpha * self._matrix(dM))
        return self.B @ C if ok else None

    def moved_slack(self, dM: np.ndarray, dT: np.ndarray, alpha: float) -> np.ndarray | None:
        """A factor of ``Z + alpha dZ``, or None outside the cone."""
        C, ok = cholesky(np.diag(self.sigma) + alpha * self._slack(dM, dT))
        return self.inverse @ C if ok else None


Scaling = LogDetScaling | SlackScaling
