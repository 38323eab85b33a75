"""Links with a logarithmic barrier: ``phi'(x) - tau / x = t`` for divergences and for the relaxed bounds of the rows.

For large ``tau`` every link behaves like LogDet's, ``-tau / x``; for ``tau = 0`` it is its own. That family of smooth,
increasing functions is the central path of the interior-point method.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bregmat.divergences import Divergence
from bregmat.problems import NearestMatrix

LARGEST = 700.0  # exponents above this overflow


def _log_inverse(t: np.ndarray, tau: np.ndarray | float) -> np.ndarray:
    """x with ``log x - tau / x = t``; Wright's omega of ``log tau - t`` is ``tau / x``."""
    from scipy.special import wrightomega  # loads on first use, which keeps ``import bregmat`` quick

    y = wrightomega(np.log(tau) - t)
    return np.where(y > 1e-3, tau / np.maximum(y, 1e-300), np.exp(np.minimum(t + y, LARGEST)))


def _linear_inverse(t: np.ndarray, tau: np.ndarray | float) -> np.ndarray:
    """x > 0 with ``x - tau / x = t``."""
    root = np.sqrt(t * t + 4.0 * tau)
    return np.where(t > 0, 0.5 * (t + root), 2.0 * tau / (root - t))


def _reciprocal_inverse(t: np.ndarray, tau: np.ndarray | float) -> np.ndarray:
    """x with ``-(1 + tau) / x = t``."""
    return -(1.0 + tau) / t


INVERSES: dict[str, Callable[..., np.ndarray]] = {
    "logdet": _reciprocal_inverse,
    "vonneumann": _log_inverse,
    "frobenius": _linear_inverse,
}


def barrier_link(divergence: Divergence, x: np.ndarray, tau: float) -> np.ndarray:
    """``phi'(x) - tau / x``."""
    return divergence.link(x) - tau / x


def barrier_inverse(divergence: Divergence, t: np.ndarray, tau: float) -> np.ndarray:
    """The inverse of :func:`barrier_link`; positive."""
    return INVERSES[divergence.name](t, tau)


def barrier_divided(divergence: Divergence, x: np.ndarray, tau: float) -> np.ndarray:
    """Divided differences of :func:`barrier_inverse` between the mirror values of ``x``."""
    P = divergence.divided(divergence.link(x))
    return P / (1.0 + tau * P / np.multiply.outer(x, x))


class RelaxedBounds:
    """The relaxed bounds xi of all rows in units of the rows, so that own-slack rows have bound 1.

    ``price(xi) = d'(xi) - tau / xi`` is the dual weight times the unit; quadratic rows have no barrier (xi may be negative)
    and hard rows do not move. ``strength`` is the weight of each row's loss in these units, of the size of a dual weight.
    """

    def __init__(self, problem: NearestMatrix) -> None:
        L = problem.losses
        self.unit = problem.unit
        self.bound = L.bound / self.unit
        self.reciprocal = np.flatnonzero(L.family == "itakura_saito")
        self.logarithmic = np.flatnonzero(L.family == "relative_entropy")
        self.linear = np.flatnonzero(L.family == "quadratic")
        self.hard = np.flatnonzero(L.hard)
        self.positive = (L.family == "itakura_saito") | (L.family == "relative_entropy")
        self.ceiling = L.family == "itakura_saito"  # dual weights below their strength
        strength = np.ones(problem.c)
        strength[self.reciprocal] = L.gamma[self.reciprocal]
        strength[self.logarithmic] = (L.gamma * self.unit)[self.logarithmic]
        strength[self.linear] = (L.gamma * (self.unit / L.scale) ** 2)[self.linear]
        soft = np.flatnonzero(~L.hard)
        strength[self.hard] = np.exp(np.log(strength[soft]).mean()) if len(soft) else 1.0
        self.strength = strength

    def price(self, xi: np.ndarray, tau: float) -> np.ndarray:
        """Dual weight at which each bound stays at xi; NaN-free, 0 for hard rows."""
        out = np.zeros_like(xi)
        for rows, f in (
            (self.reciprocal, lambda x, g, b: g - (g + tau) / x),
            (self.logarithmic, lambda x, g, b: g * np.log(x) - tau / x),
            (self.linear, lambda x, g, b: g * (x - b)),
        ):
            out[rows] = f(xi[rows], self.strength[rows], self.bound[rows])
        return out

    def at(self, m: np.ndarray, tau: float) -> np.ndarray:
        """The bounds at dual weights m, the inverse of :meth:`price`."""
        out = self.bound.copy()
        for rows, f in (
            (self.reciprocal, lambda m, g, b: (g + tau) / (g - m)),
            (self.logarithmic, lambda m, g, b: _log_inverse(m / g, tau / g)),
            (self.linear, lambda m, g, b: b + m / g),
        ):
            out[rows] = f(m[rows], self.strength[rows], self.bound[rows])
        return out

    def secant(self, xi: np.ndarray, m: np.ndarray, tau: float) -> np.ndarray:
        """Slope of the chord of :meth:`at` from m to the price of xi; 0 for hard rows."""
        y = self.at(m, tau)
        out = np.zeros_like(xi)
        k = self.reciprocal
        out[k] = xi[k] / (self.strength[k] - m[k])
        k = self.linear
        out[k] = 1.0 / self.strength[k]
        k = self.logarithmic
        g = self.strength[k]
        middle = np.sqrt(xi[k] * y[k])
        slope = 1.0 / (g / middle + tau / middle**2)
        rise = g * np.log(xi[k]) - tau / xi[k] - m[k]
        near = np.abs(xi[k] - y[k]) <= 1e-4 * middle
        out[k] = np.where(near, slope, (xi[k] - y[k]) / np.where(near, 1.0, rise))
        return out
