"""The losses of all rows: values, derivatives, conjugates and relaxed bounds, each by the scalar loss of its row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.base.tolerances import TINY
from bregmat.objective.spectral import SpectralDivergence


@dataclass(frozen=True, eq=False)
class WeightedBounds:
    """The c rows before their losses are chosen: the argument of :meth:`bregmat.objective.losses.Loss.bind`."""

    divergence: SpectralDivergence  # of the problem
    bound: np.ndarray
    sense: np.ndarray  # int8: +1, -1, or 0 for equalities
    gamma: np.ndarray  # slack weights, dimensionless; rows of infinite weight are hard: their bound must hold
    unit: np.ndarray  # in which a violation is measured: |b| if b is not 0
    scale: float = 1.0  # values and bounds are divided by it before they reach the losses
    objective_scale: float = 1.0  # the losses are divided by it


class RowLosses:
    """The losses of all rows, grouped by scalar loss: ``gamma d(p / scale, b / scale)`` where the row is violated.

    Parameters
    ----------
    bound, gamma, scale : ndarray, shape (c,)
        Bounds (units of p), slack weights (dimensionless; 1 for hard rows), scales of the losses (units of p; 1 for hard rows).
    sense : ndarray of int8, shape (c,)
        +1, -1; 0: both sides count.
    kinds : tuple of ScalarLoss
        The different losses.
    kind : ndarray of int8, shape (c,)
        Place in ``kinds`` of each row's loss.

    Attributes
    ----------
    groups : list of (ScalarLoss, slice or ndarray of int)
        The losses that occur, and the numbers of their rows.
    dual_box : (ndarray, ndarray), shapes (c,)
        Lower and upper bounds of the dual weights; an end at the steepest slope of a loss is open.
    curvature_at_bound : ndarray, shape (c,)
        Second derivative of each loss at its bound; infinite for hard rows.
    hard : ndarray of bool, shape (c,)
    is_positive : ndarray of bool, shape (c,)
        Rows whose loss is defined for positive values only.
    """

    def __init__(
        self,
        bound: np.ndarray,
        sense: np.ndarray,
        gamma: np.ndarray,
        scale: np.ndarray,
        kinds: tuple[Any, ...],
        kind: np.ndarray,
    ) -> None:
        self.bound, self.sense, self.gamma, self.scale = bound, sense, gamma, scale
        self.kinds, self.kind = kinds, kind
        self.groups: list[tuple[Any, slice | np.ndarray]] = []
        self.dual_box = lower, upper = np.empty_like(bound), np.empty_like(bound)
        self.curvature_at_bound = np.empty_like(bound)
        self._c = bound / scale
        for k, loss in enumerate(kinds):
            mask = kind == k
            if mask.any():
                rows = slice(None) if mask.all() else np.flatnonzero(mask)
                self.groups.append((loss, rows))
                c, g, u = self._c[rows], gamma[rows], scale[rows]
                with np.errstate(all="ignore"):  # a bound of the dual weights may be infinite
                    low, high = loss.slopes(c)
                    lower[rows], upper[rows] = low * g / u, high * g / u
                    self.curvature_at_bound[rows] = g / (u * u) * loss.curvature(c, c)
        lower[sense > 0] = 0.0
        upper[sense < 0] = 0.0
        for end in (lower, upper):
            end.setflags(write=False)
        self.hard = np.array([loss.is_hard for loss in kinds])[kind]
        self.is_positive = np.array([loss.is_positive for loss in kinds])[kind]
        self.has_hard = bool(self.hard.any())
        self._s = sense.astype(float)
        self._equality = sense == 0
        self._has_equality = bool(self._equality.any())

    def restrict(self, rows: Any) -> RowLosses:
        """The losses of some rows, given by numbers or as a mask."""
        bound, sense, gamma, scale = self.bound[rows], self.sense[rows], self.gamma[rows], self.scale[rows]
        return RowLosses(bound, sense, gamma, scale, self.kinds, self.kind[rows])

    def weighted(self, gamma: np.ndarray) -> RowLosses:
        """The same losses with other slack weights."""
        return RowLosses(self.bound, self.sense, gamma, self.scale, self.kinds, self.kind)

    def violated(self, p: np.ndarray) -> np.ndarray:
        """Rows on the wrong side of their bound; equalities always count."""
        hit = self._s * (p - self.bound) > 0
        return hit | self._equality if self._has_equality else hit

    def _violated_rows(self, p: np.ndarray) -> Iterator[tuple[Any, np.ndarray, np.ndarray, np.ndarray]]:
        """Each loss with the numbers of its violated rows, and their values, in the domain of the loss, and bounds over their scales."""
        hit = self.violated(p)
        for loss, rows in self.groups:
            on = np.flatnonzero(hit) if isinstance(rows, slice) else rows[hit[rows]]
            q = p[on] / self.scale[on]
            yield loss, on, np.maximum(q, TINY) if loss.is_positive else q, self._c[on]

    def value(self, p: np.ndarray) -> float:
        """Total loss; infinite if a hard row is violated or a value is outside the domain of its loss."""
        total = 0.0
        for loss, on, q, c in self._violated_rows(p):
            if loss.is_positive and (p[on] <= (-1e-12 * self.bound[on] if loss.is_finite_at_zero else 0.0)).any():
                return np.inf
            total += float((self.gamma[on] * loss.cost(q, c)).sum())
        return total

    def value_rounding(self, p: np.ndarray, error: np.ndarray, eps: float) -> float:
        """Bound of the rounding error of :meth:`value`, for values that are wrong by ``error`` beside ``eps`` times their own size."""
        total = 0.0
        for loss, rows in self.groups:
            if loss.is_hard:
                continue
            scale, s = self.scale[rows], self._s[rows]
            q, c, e = p[rows] / scale, self._c[rows], error[rows] / scale
            # with degree 0 only the quotient of value and bound matters, and the smaller of the two sizes counts
            near = np.minimum(np.abs(q), np.abs(c)) if loss.degree == 0 else np.abs(c)
            e = eps * (np.abs(q) + near) + e
            # a row may be violated by its rounding alone, and where the slope is 0 the curvature counts
            on = np.flatnonzero((s * (q - c) > -e) | (s == 0))
            q, c, e = q[on], c[on], e[on]
            at = q
            if loss.is_positive:  # the curvature of such losses is not bounded at 0
                q, at = np.maximum(q, TINY), np.maximum(q, e)
            change = np.abs(loss.slope(q, c)) * e + 0.5 * np.abs(loss.curvature(at, c)) * e**2
            total += float(self.gamma[rows][on] @ change)
        return total

    def derivatives(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivative of each row's loss; 0 for rows that hold."""
        g, h = np.zeros_like(p), np.zeros_like(p)
        for loss, on, q, c in self._violated_rows(p):
            weight, scale = self.gamma[on], self.scale[on]
            g[on], h[on] = weight / scale * loss.slope(q, c), weight / (scale * scale) * loss.curvature(q, c)
        return g, h

    def outside(self, p: np.ndarray) -> np.ndarray:
        """Ascending numbers of violated rows with a value <= 0 whose loss is defined for positive values only."""
        return np.flatnonzero(self.violated(p) & self.is_positive & (p <= 0))

    def conjugate(self, mu: np.ndarray) -> np.ndarray:
        """Conjugate of each row's loss at a sign-feasible ``mu``."""
        out = np.empty_like(mu)
        for loss, rows in self.groups:
            g, scale = self.gamma[rows], self.scale[rows]
            out[rows] = g * loss.conjugate(mu[rows] * scale / g, self._c[rows])
        return out

    def conjugate_sum(self, mu: np.ndarray) -> np.ndarray:
        """Sums of :meth:`conjugate` and of its absolute terms, shape (2,); rounding is at most a multiple of EPS times the latter."""
        conjugate, size = np.empty_like(mu), np.empty_like(mu)
        for loss, rows in self.groups:
            b, g, scale = self.bound[rows], self.gamma[rows], self.scale[rows]
            m, c = mu[rows] * scale / g, self._c[rows]
            conjugate[rows] = g * loss.conjugate(m, c)
            b, xi = np.abs(b), np.abs(scale * loss.at_slope(m, c))
            # the smaller size for degree 0, as in value_rounding
            size[rows] = np.abs(mu[rows]) * (xi + (np.minimum(xi, b) if loss.degree == 0 else b))
        return np.array([conjugate.sum(), (np.abs(conjugate) + size).sum()])

    def relaxed(self, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``xi(mu)``, the relaxed bound with ``d'(xi) = mu``, and its derivative, which is 0 for hard rows."""
        xi, slope = np.empty_like(mu), np.empty_like(mu)
        for loss, rows in self.groups:
            if loss.is_hard:
                xi[rows], slope[rows] = self.bound[rows], 0.0
                continue
            c, g, scale = self._c[rows], self.gamma[rows], self.scale[rows]
            q = loss.at_slope(mu[rows] * scale / g, c)
            curvature = loss.curvature(np.maximum(q, TINY) if loss.is_positive else q, c)
            xi[rows], slope[rows] = scale * q, scale * scale / (g * curvature)
        return xi, slope
