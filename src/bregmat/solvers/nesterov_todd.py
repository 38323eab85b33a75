"""Nesterov-Todd scalings of the interior-point method: where the chord between ``(psi(T), T)`` and ``(M, psi^-1(M))`` is diagonal."""

from __future__ import annotations

import numpy as np

from bregmat.base.linalg import cholesky, eigh, eigvalsh, symmetrize, triangular_inverse
from bregmat.objective.spectral import SpectralDivergence
from bregmat.solvers.barriers import barrier_divided, barrier_link

LOWEST, HIGHEST = 0.1, 3.0  # products of primal and dual, in units of the goal, that need no corrector


def largest_step(x: np.ndarray, dx: np.ndarray, rows: np.ndarray | None = None) -> float:
    """Largest alpha with ``x + alpha dx >= 0`` on the given rows."""
    falling = dx < 0 if rows is None else (dx < 0) & rows
    return float(np.min(-x[falling] / dx[falling])) if falling.any() else np.inf


def pulled(products: np.ndarray, goal: float) -> np.ndarray:
    """What brings products of slacks and weights into ``[LOWEST, HIGHEST]`` times their goal; of large ones no more than the latter."""
    return np.maximum(np.clip(products, LOWEST * goal, HIGHEST * goal) - products, -HIGHEST * goal)


def _centred(ahead: np.ndarray, slack: np.ndarray, sigma: np.ndarray, goal: float) -> np.ndarray:
    """The same for the eigenvalues of the product of a matrix and its slack, as moves of the matrix in the frame where both are sigma."""
    x, Q = eigh(symmetrize(ahead @ slack))
    return 2.0 * ((Q * pulled(x, goal)) @ Q.T) / np.add.outer(sigma, sigma)


def _geometric_mean(L: np.ndarray, y: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``B, L^-1 B, sigma`` with ``B diag(sigma) B' = L L'`` and ``B diag(1/sigma) B' = V diag(y) V'``: ``B B'`` is their mean."""
    _, sigma, Qt = np.linalg.svd((V / np.sqrt(y)).T @ L)
    inner = Qt.T / np.sqrt(sigma)
    return L @ inner, inner, sigma


class CongruenceScaling:
    """Nesterov and Todd's scaling for LogDet: ``M = B diag(sigma) B'``, ``-T = B'^-1 diag(sigma) B^-1``; the chord is the identity."""

    S = None
    is_primal_dual = True  # whether the dual of M is a matrix with products of its own

    def __init__(self, divergence: SpectralDivergence, L: np.ndarray, t: np.ndarray, V: np.ndarray, tau: float) -> None:
        self.F, _, self.sigma = _geometric_mean(L, -1.0 / t, V)
        self.root = np.sqrt(np.multiply.outer(self.sigma, self.sigma))

    def defect(self, tau: float) -> np.ndarray:
        """The move of M that reaches the chord of the path at tau while T stays."""
        return np.diag((1.0 + tau) / self.sigma - self.sigma)

    def tangent(self, dT: np.ndarray) -> np.ndarray:
        """The chord's move of M for a move of T."""
        return dT

    def curvature(self, dM: np.ndarray, dT: np.ndarray) -> np.ndarray:
        """What the chord misses for a joint move: ``dM dT`` in the equation ``-M T = 1 + tau``."""
        return 2.0 * symmetrize(dM @ dT) / np.add.outer(self.sigma, self.sigma)

    def centring(self, dM: np.ndarray, dT: np.ndarray, steps: tuple[float, float], goal: float) -> np.ndarray:
        """The move of M that brings the products after such steps near those of the path (Gondzio 1996).

        Parameters
        ----------
        dM, dT : ndarray, shape (r, r)
            Moves in the frame.
        steps : tuple of float
            Shares of them that M and T take.
        goal : float
            tau that the path is followed to.
        """
        sigma = np.diag(self.sigma)
        return _centred(sigma + steps[0] * dM, sigma - steps[1] * dT, self.sigma, 1.0 + goal)

    def primal_limit(self, dM: np.ndarray) -> float:
        """Largest step that keeps M in the cone."""
        low = float(eigvalsh(symmetrize(dM) / self.root)[0])
        return -1.0 / low if low < 0 else np.inf

    def dual_limit(self, dM: np.ndarray, dT: np.ndarray) -> float:
        """Largest step that keeps T in the domain."""
        return self.primal_limit(-dT)

    def moved(self, dM: np.ndarray, alpha: float) -> np.ndarray | None:
        """A factor of ``M + alpha dM``, or None outside the cone."""
        C, ok = cholesky(np.diag(self.sigma) + alpha * symmetrize(dM))
        return self.F @ C if ok else None


class SpectralScaling:
    """Eigenbasis of the geometric mean of M and ``psi(T)``; the chord is the derivative of psi there, ``S o S``."""

    is_primal_dual = False

    def __init__(self, divergence: SpectralDivergence, L: np.ndarray, t: np.ndarray, V: np.ndarray, tau: float) -> None:
        self.divergence, self.L, self.t, self.V = divergence, L, t, V
        B, inner, sigma = _geometric_mean(L, divergence.barrier_inverse(t, tau), V)
        self.F, root, Wt = np.linalg.svd(B)
        self.inner = inner @ (Wt.T / root)
        self.S = np.sqrt(barrier_divided(divergence, root**2, tau))
        self.chord = self.S * self.S
        self.U, size, _ = np.linalg.svd(L)
        self.x = size**2
        self.ahead = float(np.divide(1.0, sigma[-1] ** 2))  # psi(T) <= ahead * M; infinite where the quotient overflows

    def defect(self, tau: float) -> np.ndarray:
        """The move of M that reaches the chord of the path at tau while T stays."""
        W, Z = self.F.T @ self.V, self.F.T @ self.U
        return self.chord * ((W * self.t) @ W.T - (Z * barrier_link(self.divergence, self.x, tau)) @ Z.T)

    def tangent(self, dT: np.ndarray) -> np.ndarray:
        """The chord's move of M for a move of T."""
        return self.chord * dT

    def curvature(self, dM: np.ndarray, dT: np.ndarray) -> float:
        """Not used: a corrector for it made things worse on all problems tried."""
        return 0.0

    def centring(self, dM: np.ndarray, dT: np.ndarray, steps: tuple[float, float], goal: float) -> float:
        """Nor this: M and T have no products.

        Parameters
        ----------
        dM, dT : ndarray, shape (r, r)
            Moves in the frame.
        steps : tuple of float
            Shares of them that M and T take.
        goal : float
            tau that the path is followed to.
        """
        return 0.0

    def _relative(self, dM: np.ndarray) -> np.ndarray:
        return symmetrize(self.inner @ dM @ self.inner.T)

    def primal_limit(self, dM: np.ndarray) -> float:
        """Largest step that keeps M in the cone."""
        low = float(eigvalsh(self._relative(dM))[0])
        return -1.0 / low if low < 0 else np.inf

    def dual_limit(self, dM: np.ndarray, dT: np.ndarray) -> float:
        """T may be anything; ``order_limit`` is what matters."""
        return np.inf

    def order_limit(self, moved: np.ndarray | None, dT: np.ndarray, barrier: tuple[float, float]) -> float:
        """Largest step of T with ``psi(T) <= kappa M`` for a factor of M, by the operator monotone link: ``T <= link(kappa M)``.

        ``barrier``: tau of the link and kappa. No step without a factor.
        """
        if moved is None:
            return 0.0
        tau, kappa = barrier
        U, sigma, _ = np.linalg.svd(moved)
        top = barrier_link(self.divergence, max(kappa, 1.05 * self.ahead) * sigma**2, tau)
        C, ok = cholesky(symmetrize((U * top) @ U.T - (self.V * self.t) @ self.V.T))
        if not ok:
            return 0.0
        half = triangular_inverse(C) @ self.F
        high = float(eigvalsh(symmetrize(half @ dT @ half.T))[-1])
        return 1.0 / high if high > 0 else np.inf

    def moved(self, dM: np.ndarray, alpha: float) -> np.ndarray | None:
        """A factor of ``M + alpha dM``, or None outside the cone."""
        C, ok = cholesky(np.eye(len(self.L)) + alpha * self._relative(dM))
        return self.L @ C if ok else None


class SplitScaling:
    """Nesterov and Todd's scaling of M and a dual slack Z of the cone: ``link(M) - Z = T`` and ``M Z = tau``.

    ``M = B diag(sigma) B'`` and ``Z = B'^-1 diag(sigma) B^-1``, ``B = F diag(root) W``. The derivative of the link is taken as
    diagonal in the frame F, at the spectrum that M has there on the path; what that misses is left to the next step's residual.

    Parameters
    ----------
    divergence : SpectralDivergence
    L, Z : ndarray, shape (r, r)
        Factors of M and of its dual slack.
    t, V : ndarray, shape (r,), (r, r)
        T = V diag(t) V'.
    """

    is_primal_dual = True

    def __init__(
        self, divergence: SpectralDivergence, L: np.ndarray, Z: np.ndarray, t: np.ndarray, V: np.ndarray
    ) -> None:
        _, self.sigma, Qt = np.linalg.svd(Z.T @ L)
        self.B = L @ (Qt.T / np.sqrt(self.sigma))
        self.F, root, self.W = np.linalg.svd(self.B)
        self.root = np.multiply.outer(root, root)
        self.size = np.sqrt(np.multiply.outer(self.sigma, self.sigma))
        self.inverse = (self.F / root) @ self.W  # B'^-1
        x = root**2 * np.sqrt(float((self.sigma**2).mean()))
        self.link = 1.0 / divergence.divided(divergence.link(x))
        self.chord = 1.0 / (self.link + 1.0 / (self.root * self.root))
        self.S = np.sqrt(self.chord)
        U, size, _ = np.linalg.svd(L)
        P, Q, R = self.F.T @ U, self.F.T @ V, self.F.T @ Z
        self.residual = symmetrize((P * divergence.link(size**2)) @ P.T - R @ R.T - (Q * t) @ Q.T)

    def _slack(self, dM: np.ndarray, dT: np.ndarray) -> np.ndarray:
        """The move of Z that belongs to those of M and T, in the frame of B."""
        dZ = self.link * dM - dT + self.residual
        return symmetrize(self.W.T @ (dZ * self.root) @ self.W)

    def _matrix(self, dM: np.ndarray) -> np.ndarray:
        """The move of M in the frame of B."""
        return symmetrize(self.W.T @ (dM / self.root) @ self.W)

    def _move(self, C: np.ndarray) -> np.ndarray:
        """The move of M that answers to a matrix of the frame of B while T stays."""
        return self.chord * ((self.W @ C @ self.W.T) / self.root)

    def _limit(self, E: np.ndarray) -> float:
        low = float(eigvalsh(E / self.size)[0])
        return -1.0 / low if low < 0 else np.inf

    def defect(self, tau: float) -> np.ndarray:
        """The move of M that reaches the path at tau while T stays."""
        return self._move(np.diag(tau / self.sigma - self.sigma)) - self.chord * self.residual

    def tangent(self, dT: np.ndarray) -> np.ndarray:
        """The move of M for a move of T."""
        return self.chord * dT

    def curvature(self, dM: np.ndarray, dT: np.ndarray) -> np.ndarray:
        """What is missed for a joint move: ``dM dZ`` in the equation ``M Z = tau``."""
        product = symmetrize(self._matrix(dM) @ self._slack(dM, dT))
        return self._move(-2.0 * product / np.add.outer(self.sigma, self.sigma))

    def centring(self, dM: np.ndarray, dT: np.ndarray, steps: tuple[float, float], goal: float) -> np.ndarray:
        """The move of M that brings the products after such steps near those of the path (Gondzio 1996).

        Parameters
        ----------
        dM, dT : ndarray, shape (r, r)
            Moves in the frame.
        steps : tuple of float
            Shares of them that M and Z take.
        goal : float
            tau that the path is followed to.
        """
        sigma = np.diag(self.sigma)
        ahead, slack = sigma + steps[0] * self._matrix(dM), sigma + steps[1] * self._slack(dM, dT)
        return self._move(_centred(ahead, slack, self.sigma, goal))

    def primal_limit(self, dM: np.ndarray) -> float:
        """Largest step that keeps M in the cone."""
        return self._limit(self._matrix(dM))

    def dual_limit(self, dM: np.ndarray, dT: np.ndarray) -> float:
        """Largest step that keeps Z in the cone."""
        return self._limit(self._slack(dM, dT))

    def product(self, dM: np.ndarray, dT: np.ndarray, ap: float, ad: float) -> float:
        """``<M, Z>`` after steps of these lengths.

        Parameters
        ----------
        dM, dT : ndarray, shape (r, r)
            Moves in the frame F.
        ap, ad : float
            Shares of them that M and Z take.
        """
        sigma = np.diag(self.sigma)
        return float(((sigma + ap * self._matrix(dM)) * (sigma + ad * self._slack(dM, dT))).sum())

    def moved(self, dM: np.ndarray, alpha: float) -> np.ndarray | None:
        """A factor of ``M + alpha dM``, or None outside the cone."""
        C, ok = cholesky(np.diag(self.sigma) + alpha * self._matrix(dM))
        return self.B @ C if ok else None

    def moved_slack(self, dM: np.ndarray, dT: np.ndarray, alpha: float) -> np.ndarray | None:
        """A factor of ``Z + alpha dZ``, or None outside the cone."""
        C, ok = cholesky(np.diag(self.sigma) + alpha * self._slack(dM, dT))
        return self.inverse @ C if ok else None


Scaling = CongruenceScaling | SpectralScaling | SplitScaling
