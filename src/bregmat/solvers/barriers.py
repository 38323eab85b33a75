"""Links with a logarithmic barrier: ``phi'(x) - tau / x = t`` for divergences and for the relaxed bounds of the rows.

For large ``tau`` every link behaves like LogDet's, ``-tau / x``; for ``tau = 0`` it is its own. That family of smooth,
increasing functions is the central path of the interior-point method. Each divergence and each loss knows its own inverse.
"""

from __future__ import annotations

import numpy as np

from bregmat.base.threads import cached_property
from bregmat.objective.row_losses import RowLosses
from bregmat.objective.spectral import SpectralDivergence


def barrier_link(divergence: SpectralDivergence, x: np.ndarray, tau: float) -> np.ndarray:
    """``phi'(x) - tau / x``."""
    return divergence.link(x) - tau / x


def barrier_divided(divergence: SpectralDivergence, x: np.ndarray, tau: float) -> np.ndarray:
    """Divided differences of the inverse of :func:`barrier_link` between the mirror values of ``x``."""
    P = divergence.divided(divergence.link(x))
    return P / (1.0 + tau * P / np.multiply.outer(x, x))


class RelaxedBounds:
    """The relaxed bounds xi of all rows in units of the rows, so that own-slack rows have bound 1.

    ``price(xi) = d'(xi) - tau / xi`` is the dual weight times the unit; rows whose values may be negative have no barrier and hard
    rows do not move. ``strength`` is the weight of each row's loss in these units, of the size of a dual weight; no price is below
    ``floor`` or above ``ceiling``.

    Parameters
    ----------
    losses : RowLosses
    unit : ndarray, shape (c,)
        Unit in which the violation of each row is measured.
    """

    def __init__(self, losses: RowLosses, unit: np.ndarray) -> None:
        L = self.losses = losses
        self.unit = unit
        self.bound = L.bound / unit
        self.positive, self.bilinear = np.zeros(len(unit), dtype=bool), np.zeros(len(unit), dtype=bool)
        strength = L.strengths(unit)
        for loss, rows in L.groups:
            self.positive[rows], self.bilinear[rows] = loss.is_positive, loss.is_bilinear
        soft = strength[~L.hard]
        strength[L.hard] = np.exp(np.log(soft).mean()) if len(soft) else 1.0
        self.strength = strength
        low, high = L.slope_range()
        self.floor, self.ceiling = low * unit, high * unit
        self.has_floor, self.has_ceiling = np.isfinite(low), np.isfinite(high)

    @cached_property
    def guarded(self) -> tuple[slice | np.ndarray, RelaxedBounds] | None:
        """Rows whose bounds, like M, must not run far ahead of what their weights say, and these bounds; None if there are none."""
        if self.positive.all():
            return slice(None), self
        rows = np.flatnonzero(self.positive)
        return (rows, RelaxedBounds(self.losses.restrict(rows), self.unit[rows])) if len(rows) else None

    def price(self, xi: np.ndarray, tau: float) -> np.ndarray:
        """Dual weight at which each bound stays at xi; 0 for hard rows."""
        out = np.zeros_like(xi)
        for loss, rows, b, g, scale, u in self._soft():
            x = xi[rows]
            out[rows] = loss.derivatives(x * u, b, g, scale)[0] * u - (tau / x if loss.is_positive else 0.0)
        return out

    def at(self, m: np.ndarray, tau: float) -> np.ndarray:
        """The bounds at dual weights m, the inverse of :meth:`price`."""
        out = self.bound.copy()
        for loss, rows, b, g, scale, u in self._soft():
            out[rows] = loss.on_path(m[rows] / u, b, g, scale, tau) / u
        return out

    def secant(self, xi: np.ndarray, m: np.ndarray, tau: float) -> np.ndarray:
        """Slope of the chord of :meth:`at` from m to the price of xi; 0 for hard rows."""
        out = np.zeros_like(xi)
        for loss, rows, b, g, scale, u in self._soft():
            out[rows] = loss.chord(xi[rows] * u, m[rows] / u, b, g, scale, tau) / (u * u)
        return out

    def _soft(self):
        """Each loss with its rows, and their bounds, weights, scales and units."""
        L = self.losses
        for loss, rows in L.groups:
            if not loss.is_hard:
                yield loss, rows, L.bound[rows], L.gamma[rows], L.scale[rows], self.unit[rows]
