"""What a violated bound costs: scalar losses, their conjugates, and the vector of them over all rows.

Every loss is the partial minimum over a relaxed bound xi of ``d(xi, b)`` subject to ``s (p - xi) <= 0``: it vanishes
where the row holds and equals ``d(p, b)`` where it is violated. The dual weight of a row is ``mu = d'(xi)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.divergences import Frobenius, LogDet, VonNeumann


@dataclass(frozen=True)
class Squared:
    """``gamma / 2 ((p - b) / scale)^2`` on every soft row *whatever its sense*: regression on given distances.

    A row that is met is pulled back to its bound as well. The scale is ``|b|``, or ``tr(|A| W0)`` where b is 0, so that the
    weight is dimensionless; ``weight = b^2`` per row gives plain least squares.
    """

    name: ClassVar[str] = "squared"


@dataclass(frozen=True)
class SquaredHinge:
    """``gamma / 2 (max(0, s (p - b)) / scale)^2`` with scale ``|b|``, or ``tr(|A| W0)`` where b is 0; dimensionless."""

    name: ClassVar[str] = "squared_hinge"


@dataclass(frozen=True)
class RelativeSlack:
    """The divergence's own slack of ``p / b`` against 1, ``gamma d(p / b, 1)`` (Kulis 2009, end of section 6.2.1).

    A bound of 1000 broken by half costs as much as a bound of 1 broken by half, whatever the divergence, so that the learned
    matrix does not change when a row and its bound are multiplied by a number. Prefer it to the default for von Neumann and
    Frobenius when bounds differ in size.

    Notes
    -----
    The divergences are homogeneous, ``d(c p, c b) = c^k d(p, b)``, so this is the own slack with weight ``gamma / b^k``: LogDet
    k = 0 (nothing changes), von Neumann k = 1, Frobenius k = 2. Prior and bounds times c together give the learned matrix times c
    if gamma is multiplied by ``c^k`` (with the default, loss=None, if gamma stays). Rows without an own slack (``b <= 0``,
    indefinite ``A_i``) keep the relative square of loss=None.
    """

    name: ClassVar[str] = "relative_slack"


LOSSES: dict[str, type] = {cls.name: cls for cls in (RelativeSlack, Squared, SquaredHinge)}


def as_loss(loss: Any) -> Any:
    """A loss object from an object, a string that names one, or None (the divergence's own slack)."""
    if loss is None or isinstance(loss, tuple(LOSSES.values())):
        return loss
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(f"loss must be None, {', '.join(map(repr, LOSSES))} or an object; got {loss!r}.")
        return LOSSES[loss]()
    raise TypeError(
        "loss must be None (the divergence's own slack), RelativeSlack(), Squared() or SquaredHinge(), or the name of one; "
        f"got {loss!r}."
    )


class ItakuraSaito:
    """LogDet's own slack, ``gamma (p/b - log(p/b) - 1)`` (Kulis 2009, eq. 22)."""

    degree: ClassVar[int] = 0  # d(c p, c b) = c^degree d(p, b)

    @staticmethod
    def value(p, b, g, scale):
        """Sum of the losses of violated rows."""
        q = p / b
        return float((g * (q - 1.0 - np.log(q))).sum())

    @staticmethod
    def derivatives(p, b, g, scale):
        """First and second derivative."""
        return g * (1.0 / b - 1.0 / p), g / (p * p)

    @staticmethod
    def conjugate(mu, b, g, scale):
        """Conjugate per row, ``inf`` outside its domain ``mu < g / b``."""
        x = mu * b / g
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(x < 1.0, -g * np.log1p(-np.minimum(x, 1.0)), np.inf)

    @staticmethod
    def relaxed(mu, b, g, scale):
        """Relaxed bound xi(mu) and its derivative."""
        xi = b / (1.0 - mu * b / g)
        return xi, xi * xi / g

    @staticmethod
    def ceiling(b, g, scale):
        """Supremum of the dual weight."""
        return g / b


class RelativeEntropy:
    """von Neumann's own slack, ``gamma (p log(p/b) - p + b)`` (Kulis 2009, eq. 22)."""

    degree: ClassVar[int] = 1

    @staticmethod
    def value(p, b, g, scale):
        """Sum of the losses of violated rows."""
        return float((g * (p * np.log(np.where(p > 0, p / b, 1.0)) - p + b)).sum())

    @staticmethod
    def derivatives(p, b, g, scale):
        """First and second derivative."""
        q = np.maximum(p, 1e-300)
        return g * np.log(q / b), g / q

    @staticmethod
    def conjugate(mu, b, g, scale):
        """Conjugate per row."""
        return g * b * np.expm1(np.minimum(mu / g, 700.0))

    @staticmethod
    def relaxed(mu, b, g, scale):
        """Relaxed bound xi(mu) and its derivative."""
        xi = b * np.exp(np.minimum(mu / g, 700.0))
        return xi, xi / g

    @staticmethod
    def ceiling(b, g, scale):
        """Supremum of the dual weight."""
        return np.full(len(b), np.inf)


class Quadratic:
    """``gamma / 2 ((p - b) / scale)^2``; Frobenius' own slack where the scale is 1."""

    degree: ClassVar[int] = 2

    @staticmethod
    def value(p, b, g, scale):
        """Sum of the losses of violated rows."""
        x = (p - b) / scale
        return 0.5 * float((g * x * x).sum())

    @staticmethod
    def derivatives(p, b, g, scale):
        """First and second derivative."""
        h = g / (scale * scale)
        return h * (p - b), h

    @staticmethod
    def conjugate(mu, b, g, scale):
        """Conjugate per row."""
        return mu * b + 0.5 * (mu * scale) ** 2 / g

    @staticmethod
    def relaxed(mu, b, g, scale):
        """Relaxed bound xi(mu) and its derivative."""
        d = scale * scale / g
        return b + mu * d, d

    @staticmethod
    def ceiling(b, g, scale):
        """Supremum of the dual weight."""
        return np.full(len(b), np.inf)


class Hard:
    """0 where the row holds, infinite where it does not."""

    @staticmethod
    def value(p, b, g, scale):
        """Infinite: called on violated rows only."""
        return np.inf if (p != b).any() else 0.0

    @staticmethod
    def derivatives(p, b, g, scale):
        """No derivative: a solver that needs one does not take hard rows."""
        raise TypeError(
            "a hard row has no loss derivative; use a solver that handles hard rows (dual_newton, interior_point)."
        )

    @staticmethod
    def conjugate(mu, b, g, scale):
        """``mu b``."""
        return mu * b

    @staticmethod
    def relaxed(mu, b, g, scale):
        """The bound itself, fixed."""
        return b.copy(), np.zeros(len(b))

    @staticmethod
    def ceiling(b, g, scale):
        """Supremum of the dual weight."""
        return np.full(len(b), np.inf)


FAMILIES: dict[str, Any] = {
    "itakura_saito": ItakuraSaito,
    "relative_entropy": RelativeEntropy,
    "quadratic": Quadratic,
    "hard": Hard,
}


OWN_SLACK = {LogDet: "itakura_saito", VonNeumann: "relative_entropy", Frobenius: "quadratic"}


class RowLosses:
    """The losses of all rows, grouped by scalar family.

    Parameters
    ----------
    bound, gamma, scale : ndarray, shape (c,)
        Bounds (units of p), slack weights (dimensionless, inf = hard), scales of quadratic rows (units of p).
    sense : ndarray of int8, shape (c,)
        +1, -1; 0 makes both sides count.
    family : ndarray of str, shape (c,)
        Key of ``FAMILIES`` for each row.
    """

    def __init__(
        self, bound: np.ndarray, sense: np.ndarray, gamma: np.ndarray, scale: np.ndarray, family: np.ndarray
    ) -> None:
        self.bound, self.sense, self.gamma, self.scale, self.family = bound, sense, gamma, scale, family
        self.hard = family == "hard"
        self.has_hard = bool(self.hard.any())
        self._s = sense.astype(float)
        self._equality = sense == 0
        self._has_equality = bool(self._equality.any())
        names = (
            family[:1] if (family == family[0]).all() else np.unique(family)
        )  # sorting a million names takes a while
        self._groups = [
            (FAMILIES[str(name)], slice(None) if len(names) == 1 else np.flatnonzero(family == name)) for name in names
        ]

    def violated(self, p: np.ndarray) -> np.ndarray:
        """Rows on the wrong side of their bound; equalities always count."""
        hit = self._s * (p - self.bound) > 0
        return hit | self._equality if self._has_equality else hit

    def value(self, p: np.ndarray) -> float:
        """Total loss; infinite if a hard row is violated."""
        hit, total = self.violated(p), 0.0
        for family, rows in self._groups:
            on = np.flatnonzero(hit) if isinstance(rows, slice) else rows[hit[rows]]
            total += family.value(p[on], self.bound[on], self.gamma[on], self.scale[on])
        return total

    def derivatives(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivative of each row's loss."""
        hit = self.violated(p)
        g, h = np.zeros_like(p), np.zeros_like(p)
        for family, rows in self._groups:
            on = np.flatnonzero(hit) if isinstance(rows, slice) else rows[hit[rows]]
            g[on], h[on] = family.derivatives(p[on], self.bound[on], self.gamma[on], self.scale[on])
        return g, h

    def conjugate(self, mu: np.ndarray) -> np.ndarray:
        """Conjugate of each row's loss at a sign-feasible ``mu``."""
        return self._per_row("conjugate", mu)

    def relaxed(self, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``xi(mu)``, the relaxed bound whose price is mu, and its derivative; 0 derivative for hard rows."""
        xi, slope = np.empty_like(mu), np.empty_like(mu)
        for family, rows in self._groups:
            xi[rows], slope[rows] = family.relaxed(mu[rows], self.bound[rows], self.gamma[rows], self.scale[rows])
        return xi, slope

    def dual_box(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of the dual weights; an own-slack ceiling is open."""
        ceiling = np.empty_like(self.bound)
        for family, rows in self._groups:
            ceiling[rows] = family.ceiling(self.bound[rows], self.gamma[rows], self.scale[rows])
        lower = np.where(self.sense > 0, 0.0, -np.inf)
        upper = np.where(self.sense < 0, 0.0, ceiling)
        return lower, upper

    def _per_row(self, method: str, mu: np.ndarray) -> np.ndarray:
        out = np.empty_like(mu)
        for family, rows in self._groups:
            out[rows] = getattr(family, method)(mu[rows], self.bound[rows], self.gamma[rows], self.scale[rows])
        return out
