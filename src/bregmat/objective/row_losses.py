"""The losses of all rows: values, derivatives, conjugates and relaxed bounds, each by the scalar loss of its row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
    """The losses of all rows, grouped by scalar loss.

    Parameters
    ----------
    bound, gamma, scale : ndarray, shape (c,)
        Bounds (units of p), slack weights (dimensionless; not used on hard rows), scales of the losses (units of p).
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
        for k, loss in enumerate(kinds):
            mask = kind == k
            if mask.any():
                rows = slice(None) if mask.all() else np.flatnonzero(mask)
                self.groups.append((loss, rows))
                with np.errstate(over="ignore"):  # a bound of the dual weights may be infinite
                    lower[rows], upper[rows] = loss.slope_range(bound[rows], gamma[rows], scale[rows])
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

    def value(self, p: np.ndarray) -> float:
        """Total loss; infinite if a hard row is violated or a value is outside the domain of its loss."""
        hit, total = self.violated(p), 0.0
        for loss, rows in self.groups:
            on = np.flatnonzero(hit) if isinstance(rows, slice) else rows[hit[rows]]
            # the formulas of the losses do not check their domain
            if loss.is_positive and loss.is_outside(p[on], self.bound[on]).any():
                return np.inf
            total += loss.value(p[on], self.bound[on], self.gamma[on], self.scale[on])
        return total

    def value_rounding(self, p: np.ndarray, error: np.ndarray, eps: float) -> float:
        """Bound of the rounding error of :meth:`value`, for values that are wrong by ``error`` beside ``eps`` times their own size."""
        total = 0.0
        for loss, rows in self.groups:
            if loss.is_hard:
                continue
            q, b, g, scale, e, s = [v[rows] for v in (p, self.bound, self.gamma, self.scale, error, self._s)]
            # with degree 0 only the quotient of value and bound matters, and the smaller of the two sizes counts
            near = np.minimum(np.abs(q), np.abs(b)) if loss.degree == 0 else np.abs(b)
            e = eps * (np.abs(q) + near) + e
            # a row may be violated by its rounding alone, and where the slope is 0 the curvature counts
            on = np.flatnonzero((s * (q - b) > -e) | (s == 0))
            first, _ = loss.derivatives(q[on], b[on], g[on], scale[on])
            # the curvature of losses of positive numbers is not bounded at 0
            at = np.maximum(q, e)[on] if loss.is_positive else q[on]
            _, second = loss.derivatives(at, b[on], g[on], scale[on])
            total += float(np.abs(first) @ e[on] + 0.5 * np.abs(second) @ e[on] ** 2)
        return total

    def conjugate_sum(self, mu: np.ndarray) -> np.ndarray:
        """Sums of :meth:`conjugate` and of its absolute terms, shape (2,); rounding is at most a multiple of EPS times the latter."""
        conjugate, size = np.empty_like(mu), np.empty_like(mu)
        for loss, rows in self.groups:
            m, b, g, scale = mu[rows], self.bound[rows], self.gamma[rows], self.scale[rows]
            conjugate[rows] = loss.conjugate(m, b, g, scale)
            xi = np.abs(loss.relaxed(m, b, g, scale)[0])
            # the smaller size for degree 0, as in value_rounding
            size[rows] = np.abs(m) * (xi + (np.minimum(xi, np.abs(b)) if loss.degree == 0 else np.abs(b)))
        return np.array([conjugate.sum(), (np.abs(conjugate) + size).sum()])

    def outside(self, p: np.ndarray) -> np.ndarray:
        """Ascending numbers of violated rows with a value <= 0 whose loss is defined for positive values only."""
        return np.flatnonzero(self.violated(p) & self.is_positive & (p <= 0))

    def derivatives(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivative of each row's loss."""
        hit = self.violated(p)
        g, h = np.zeros_like(p), np.zeros_like(p)
        for loss, rows in self.groups:
            on = np.flatnonzero(hit) if isinstance(rows, slice) else rows[hit[rows]]
            g[on], h[on] = loss.derivatives(p[on], self.bound[on], self.gamma[on], self.scale[on])
        return g, h

    def conjugate(self, mu: np.ndarray) -> np.ndarray:
        """Conjugate of each row's loss at a sign-feasible ``mu``."""
        out = np.empty_like(mu)
        for loss, rows in self.groups:
            out[rows] = loss.conjugate(mu[rows], self.bound[rows], self.gamma[rows], self.scale[rows])
        return out

    def relaxed(self, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``xi(mu)``, the relaxed bound with ``d'(xi) = mu``, and its derivative, which is 0 for hard rows."""
        xi, slope = np.empty_like(mu), np.empty_like(mu)
        for loss, rows in self.groups:
            xi[rows], slope[rows] = loss.relaxed(mu[rows], self.bound[rows], self.gamma[rows], self.scale[rows])
        return xi, slope

    def strengths(self, unit: np.ndarray) -> np.ndarray:
        """Second derivative of each loss at its bound, in these units of the rows; infinite for hard rows.

        It is the slack weight of a row without units: far above 1, the loss is nearly piecewise linear.
        """
        out = np.full_like(self.bound, np.inf)
        for loss, rows in self.groups:
            if not loss.is_hard:
                b, u = self.bound[rows], unit[rows]
                out[rows] = loss.derivatives(b, b, self.gamma[rows], self.scale[rows])[1] * u * u
        return out
