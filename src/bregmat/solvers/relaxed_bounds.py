"""The relaxed bounds xi of the rows along the central path of the interior-point method."""

from __future__ import annotations

import numpy as np

from bregmat.objective.row_losses import RowLosses


class RelaxedBounds:
    """Relaxed bounds xi and dual weights m of all rows, both in units of the rows; on the path ``d'(xi) - tau / xi = m``.

    Rows whose values may be negative have no barrier term ``tau / xi``. The bound of a hard row does not move.

    Parameters
    ----------
    losses : RowLosses
    unit : ndarray, shape (c,)
        Unit in which the violation of each row is measured. Rows with a loss of their divergence have bound 1 in it.

    Attributes
    ----------
    strength : ndarray, shape (c,)
        Second derivative of each loss at its bound: the typical size of its dual weight. Hard rows get the geometric mean of the others.
    floor, ceiling : ndarray, shape (c,)
        Infimum and supremum of the dual weights.
    """

    def __init__(self, losses: RowLosses, unit: np.ndarray) -> None:
        L = self.losses = losses
        self.unit = unit
        self.bound = L.bound / unit
        self.positive = L.is_positive
        self.strength = L.strengths(unit)
        soft = self.strength[~L.hard]
        self.strength[L.hard] = np.exp(np.log(soft).mean()) if len(soft) else 1.0
        low, high = np.empty(len(unit)), np.empty(len(unit))
        for loss, rows in L.groups:
            low[rows], high[rows] = loss.slope_range(L.bound[rows], L.gamma[rows], L.scale[rows])
        self.floor, self.ceiling = low * unit, high * unit
        self.has_floor, self.has_ceiling = np.isfinite(low), np.isfinite(high)

    def weights(self, xi: np.ndarray, tau: float) -> np.ndarray:
        """``m = d'(xi) - tau / xi``, the dual weights at which the bounds stay at xi; 0 for hard rows."""
        out = np.zeros_like(xi)
        for loss, rows, b, g, scale, u in self._soft():
            x = xi[rows]
            out[rows] = loss.derivatives(x * u, b, g, scale)[0] * u - (tau / x if loss.is_positive else 0.0)
        return out

    def at(self, m: np.ndarray, tau: float) -> np.ndarray:
        """The bounds at dual weights m, the inverse of :meth:`weights`."""
        out = self.bound.copy()
        for loss, rows, b, g, scale, u in self._soft():
            out[rows] = loss.on_path(m[rows] / u, b, g, scale, tau) / u
        return out

    def chord(self, xi: np.ndarray, m: np.ndarray, tau: float) -> np.ndarray:
        """Slope of the chord of :meth:`at` between m and ``weights(xi)``; 0 for hard rows."""
        out = np.zeros_like(xi)
        for loss, rows, b, g, scale, u in self._soft():
            out[rows] = loss.chord(xi[rows] * u, m[rows] / u, b, g, scale, tau) / (u * u)
        return out

    def _soft(self):
        """Each loss of soft rows with its rows, and their bounds, slack weights, scales and units."""
        L = self.losses
        for loss, rows in L.groups:
            if not loss.is_hard:
                yield loss, rows, L.bound[rows], L.gamma[rows], L.scale[rows], self.unit[rows]
