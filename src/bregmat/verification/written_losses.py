"""Divergence, losses and conjugates of losses of nearest-matrix problems, evaluated in extended precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bregmat.base.tolerances import TINY
from bregmat.objective.losses import LOSSES, DivergenceSlack, OwnSlack
from bregmat.objective.row_losses import RowLosses, WeightedBounds
from bregmat.objective.spectral import SpectralDivergence
from bregmat.verification.extended import eigenpairs, eigenvalues, evaluate, log_determinant, unit_of
from bregmat.verification.verifier import excess_of

NEAR = 1e-3  # relative distance d up to which Simpson's rule replaces a difference; its error is about d^4


class WrittenLosses:
    """The losses of rows, derived from the loss of the problem as in the solvers; None is the divergence's own slack."""

    def __init__(self, rows: WeightedBounds, loss: Any) -> None:
        self.of_rows: RowLosses = (DivergenceSlack() if loss is None else LOSSES.resolve(loss)).bind(rows)
        self.bound, self.sense = self.of_rows.bound, self.of_rows.sense

    def _losses(self, mask: np.ndarray) -> Iterator[tuple[Any, np.ndarray]]:
        """The losses of the rows of a mask, each with the numbers of its rows."""
        for kind, loss in enumerate(self.of_rows.kinds):
            if len(rows := np.flatnonzero(mask & (self.of_rows.kind == kind))):
                yield loss, rows

    def cost(self, p: np.ndarray) -> float:
        """Sum of the losses of soft rows at values p (c,), in their precision."""
        L, total = self.of_rows, p.dtype.type(0)
        for loss, rows in self._losses(~L.hard & ((excess_of(p - self.bound, self.sense) > 0) | (L.sense == 0))):
            least = -1e-12 * L.bound[rows] if loss.is_finite_at_zero else 0.0
            if loss.is_positive and (p[rows].astype(float) <= least).any():
                return np.inf
            scale = L.scale[rows].astype(p.dtype)
            q, c = p[rows] / scale, L.bound[rows] / scale
            q = np.maximum(q, TINY) if loss.is_positive else q
            cost = evaluate(loss.cost, q, c)
            # Near the bound, the difference of phi cancels; Simpson's rule integrates its slope, which is 0 at the bound.
            if isinstance(loss, OwnSlack):
                integral = (q - c) * (4 * evaluate(loss.slope, (q + c) / 2, c) + evaluate(loss.slope, q, c)) / 6
                cost = np.where(np.abs(q - c) <= NEAR * np.abs(c), integral, cost)
            total += (L.gamma[rows] * cost).sum()
        return float(total)

    def rounding_of_cost(self, p: np.ndarray, noise: np.ndarray) -> float:
        """Increase of the losses if every value moves away from its bound by 16 times its rounding error."""
        moved = p + np.where(p >= self.bound, 16.0, -16.0) * noise
        rise = self.cost(moved) - self.cost(p)
        return float(rise) if np.isfinite(rise) else 0.0

    def ended(self, p: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """Negative parts, up to ``allowed``, of values whose loss is finite at 0 and infinite below 0.

        Such rows are also hard constraints ``p >= 0``, and optimal values of 0 may be slightly negative due to rounding.
        """
        out = np.zeros_like(p)
        for loss, on in self._losses(p < 0):
            if loss.is_positive and loss.is_finite_at_zero:
                out[on] = np.where(-p[on] <= allowed[on], -p[on], 0)
        return out

    def conjugates(self, mu: np.ndarray, real: Any) -> tuple[float, float]:
        """``sum loss_i^*(mu_i)`` in the precision ``real``, and the sum of the absolute terms ``mu_i b_i``."""
        total, terms, L = real(0), 0.0, self.of_rows
        for loss, rows in self._losses(mu != 0):
            w, b = mu[rows].astype(real), L.bound[rows].astype(real)
            terms += float(np.abs(w * b).sum())
            if loss.is_hard:
                total += (w * b).sum()
                continue
            scale, gamma = L.scale[rows].astype(real), L.gamma[rows].astype(real)
            m, c = w * scale / gamma, b / scale
            low, high = loss.slopes(c.astype(float))
            if not ((m > low) & (m < high)).all():
                return np.inf, terms
            q = evaluate(loss.at_slope, m, c)
            conjugate = m * q - evaluate(loss.cost, q, c)
            if isinstance(loss, OwnSlack):  # the same rule on its own slope
                integral = m * (c + 4 * evaluate(loss.at_slope, m / 2, c) + q) / 6
                conjugate = np.where(np.abs(q - c) <= NEAR * np.abs(c), integral, conjugate)
            total += (gamma * conjugate).sum()
        return float(total), terms


def distance(D: SpectralDivergence, M: np.ndarray, l: np.ndarray) -> float:
    """``D(M, diag(l))`` for M (r, r) and l (r,), in their precision."""
    if D.takes_indefinite:
        return float(((M - np.diag(l)) ** 2).sum()) / 2
    if D.is_congruence_invariant:
        M = M / np.sqrt(np.multiply.outer(l, l))
        return float(np.trace(M) - log_determinant(M) - len(M))
    x = eigenvalues(M)
    # Rounding may have made an eigenvalue negative, where the divergence is infinite; it is raised to the rounding error.
    x = np.maximum(x, len(x) * unit_of(x.dtype) * x[-1])
    t0 = evaluate(D.link, l)
    return float(_phi(D, x, np.inf).sum() - evaluate(D.phi, l).sum() - (t0 * (np.diag(M) - l)).sum())


def least_of_lagrangian(D: SpectralDivergence, l: np.ndarray, A: np.ndarray) -> tuple[float, float, np.ndarray | None]:
    """Minimum of ``D(M, diag(l)) + <A, M>`` over M, the sum of its absolute terms, and the minimizer; -inf, 0, None if there is none."""
    if D.is_congruence_invariant:
        T = np.eye(len(l), dtype=A.dtype) + A
        gain, size = log_determinant(T), float(np.abs(np.diag(A)).sum()) + len(l)
        try:
            return (float(gain), size, np.linalg.inv(T.astype(float))) if np.isfinite(gain) else (-np.inf, 0.0, None)
        except np.linalg.LinAlgError:  # T is definite by its last digits in extended precision at most
            return -np.inf, 0.0, None
    t0 = evaluate(D.link, l)
    t, U = eigenpairs(np.diag(t0) - A)
    # Whether the exponential overflows must not depend on the units, so the domain is tested in units of the largest eigenvalue.
    unit = (l.max(initial=0) or l.dtype.type(1)) if D.degree else l.dtype.type(1)
    T = np.diag(D.link((l / unit).astype(float))) - (A * unit ** (1 - (D.degree or 1))).astype(float)
    if not D.in_domain(np.linalg.eigvalsh(T)):
        return -np.inf, 0.0, None
    x = evaluate(D.inverse_link, t)
    if not D.takes_indefinite:
        gain = (t0 * l - evaluate(D.phi, l)).sum() - (np.where(x > 0, t * x, 0) - _phi(D, x, 0.0)).sum()
        size = (np.abs(t0 * l) + l).sum() + (np.abs(t * x) + x).sum() + x.sum() * np.abs(t).max(initial=0.0)
    elif (A * A).sum() < (l * l).sum():  # the formula that cancels less
        below = np.minimum(t, 0)
        gain = (np.diag(A) * l).sum() - (A * A).sum() / 2 + (below * below).sum() / 2
        size = np.abs(np.diag(A) * l).sum() + (A * A).sum() + np.abs(below).sum() * np.abs(t).max()
    else:
        gain = ((l * l).sum() - (x * x).sum()) / 2
        size = (l * l).sum() + (x * x).sum() + x.sum() * np.abs(t).max(initial=0.0)
    return float(gain), float(size), ((U * x) @ U.T).astype(float)


def _phi(D: SpectralDivergence, x: np.ndarray, at_zero: float) -> np.ndarray:
    """``phi`` of nonnegative eigenvalues (r,); ``at_zero`` is used if its limit at 0 is infinite."""
    limit = at_zero if D.keeps_rank else D.phi_at_zero()
    return np.where(x > 0, evaluate(D.phi, np.where(x > 0, x, 1)), x.dtype.type(limit))
