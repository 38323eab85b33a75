"""The slack of a divergence, which is its own scalar loss, and the registry of losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat._kernels import outer_rows
from bregmat.base.registry import Registry
from bregmat.objective.divergences import Frobenius, LogDet, VonNeumann
from bregmat.objective.row_losses import RowLosses, WeightedBounds
from bregmat.objective.scalar_losses import TINY, Loss, ScalarLoss, Squared, SquaredHinge, bound_rows
from bregmat.objective.spectral import (
    FAR,
    LARGEST,
    STEP,
    SpectralDivergence,
    check_agreement,
    check_elementwise,
    is_unbounded,
)


@dataclass(frozen=True)
class OwnSlack(ScalarLoss):
    """The divergence of two numbers, ``gamma d(p, b)`` (Kulis 2009, eq. 22); the meaning of ``loss=None``.

    It applies to rows with a positive bound; others get the squared hinge. This class derives it from link, inverse link and phi of
    any divergence; those of the library have explicit formulas (:func:`own_slack`).
    """

    name: ClassVar[str] = "own_slack"
    is_positive: ClassVar[bool] = True

    divergence: SpectralDivergence

    def cost(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``phi(q) - phi(c) - phi'(c) (q - c)``."""
        D = self.divergence
        return D.phi(q) - D.phi(c) - D.link(c) * (q - c)

    def slope(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``phi'(q) - phi'(c)``."""
        return self.divergence.link(q) - self.divergence.link(c)

    def at_slope(self, m: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``psi(phi'(c) + m)``."""
        return self.divergence.inverse_link(self.divergence.link(c) + m)

    def slopes(self, c: np.ndarray) -> tuple[Any, Any]:
        """Between -inf and ``phi'(inf) - phi'(c)``."""
        link = self.divergence.link
        top = np.inf if is_unbounded(link) else float(link(np.array([FAR]))[0])
        return -np.inf, top - link(c)

    def curvature(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``phi''(q)``."""
        return self.divergence.curvature(q)

    def is_outside(self, p: Any, b: Any) -> Any:
        """A value of 0, or one that is negative by rounding, is inside the domain if ``phi(0)`` is finite."""
        return p <= 0 if self.divergence.keeps_rank else p < -1e-12 * b

    def on_path(self, mu: Any, b: Any, g: Any, scale: Any, tau: Any) -> Any:
        """``phi'(q) - (tau / g) / q = phi'(c) + mu scale / g``, by the inverse of the divergence."""
        return scale * self.divergence.barrier_inverse(mu * scale / g + self.divergence.link(b / scale), tau / g)

    def bind(self, rows: WeightedBounds) -> RowLosses:
        """The slack of values and bounds as they are, in the units of the rows."""
        able = rows.bound > 0
        scale = np.where(able, 1.0, rows.unit)
        return bound_rows(rows, rows.sense, own_slack(self.divergence), able, scale, rows.gamma)


@dataclass(frozen=True)
class RelativeSlack(Loss):
    """The divergence's own slack of ``p / b`` against 1, ``gamma d(p / b, 1)`` (Kulis 2009, end of section 6.2.1).

    The same relative violation costs the same for bounds of any size, so the learned matrix does not change if a row and its bound
    are multiplied by a number. Prefer it to the default for von Neumann and
    Frobenius when bounds differ in size.

    Notes
    -----
    The library's divergences are homogeneous, ``d(c p, c b) = c^k d(p, b)``, so this is the own slack with weight ``gamma / b^k``:
    LogDet k = 0 (nothing changes), von Neumann k = 1, Frobenius k = 2. Prior and bounds times c together give the learned matrix
    times c if gamma is multiplied by ``c^k`` (with the default, loss=None, if gamma stays). Rows without an own slack (``b <= 0``)
    keep the relative square of loss=None.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, RelativeSlack, nearest_kernel
    >>> rows = Constraints.sq_distance(0, 1, 1.0, "<=")
    >>> print(nearest_kernel(np.eye(2), rows, divergence="vonneumann", loss=RelativeSlack(), slack_weight=1.0).status)
    OPTIMAL
    """

    name: ClassVar[str] = "relative_slack"

    def bind(self, rows: WeightedBounds) -> RowLosses:
        """The slack relative to the bounds: by the weight if the divergence is homogeneous, else by the scale."""
        slack, on = own_slack(rows.divergence), rows.bound > 0
        scale, gamma = np.where(on, 1.0, rows.unit), rows.gamma.copy()
        degree = rows.divergence.degree
        if degree is None:
            scale[on] = rows.bound[on]
        else:
            with np.errstate(over="ignore", divide="ignore"):
                gamma[on] /= rows.bound[on] ** degree
        return bound_rows(rows, rows.sense, slack, on, scale, gamma)


def _log_quotient(p: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``log(p / b)``: as ``log1p((p - b) / b)`` near the bound, where the quotient would lose digits."""
    u = (p - b) / b
    return np.where(np.abs(u) < 0.5, np.log1p(np.maximum(u, -0.5)), np.log(p / b))


@dataclass(frozen=True)
class ItakuraSaito(OwnSlack):
    """The slack of LogDet, ``gamma (p/b - log(p/b) - 1)`` (Kulis 2009, eq. 22)."""

    name: ClassVar[str] = "itakura_saito"
    projection_code: ClassVar[int | None] = outer_rows.ITAKURA_SAITO
    degree: ClassVar[int | None] = 0

    divergence: SpectralDivergence = LogDet()

    def value(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """Sum of the losses of violated rows, by the relative excess; the general formula cancels near the bound."""
        if (p <= 0).any():
            return np.inf
        return float((g * ((p - b) / b - _log_quotient(p, b))).sum())

    def bound_size(self, q: Any, b: Any) -> Any:
        """The smaller of value and bound: far below the bound only their quotient matters."""
        return np.minimum(np.abs(q), np.abs(b))

    def derivatives(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """First and second derivative: ``g (1/b - 1/p)`` and ``g / p^2``."""
        return g * (1.0 / b - 1.0 / p), g / (p * p)

    def conjugate(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """``-g log(1 - mu b / g)`` per row, ``inf`` for ``mu >= g / b``; accurate for small mu."""
        x = mu * b / g
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(x < 1.0, -g * np.log1p(-np.minimum(x, 1.0)), np.inf)

    def relaxed(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """Relaxed bound ``xi = b / (1 - mu b / g)`` and its derivative ``xi^2 / g``."""
        xi = b / (1.0 - mu * b / g)
        return xi, xi * xi / g

    def slope_range(self, b: Any, g: Any, scale: Any) -> Any:
        """Infimum and supremum of the dual weight."""
        return np.full(len(b), -np.inf), g / b

    def chord(self, xi: Any, mu: Any, b: Any, g: Any, scale: Any, tau: Any) -> Any:
        """``xi / (g / b - mu)``, since ``xi (g / b - mu) = g + tau`` on the path."""
        return xi / (g / b - mu)


@dataclass(frozen=True)
class RelativeEntropy(OwnSlack):
    """The slack of von Neumann, ``gamma (p log(p/b) - p + b)`` (Kulis 2009, eq. 22)."""

    name: ClassVar[str] = "relative_entropy"
    projection_code: ClassVar[int | None] = outer_rows.RELATIVE_ENTROPY
    degree: ClassVar[int | None] = 1

    divergence: SpectralDivergence = VonNeumann()

    def value(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """Sum of the losses of violated rows, by the relative excess; the general formula cancels near the bound."""
        if self.is_outside(p, b).any():
            return np.inf
        return float((g * (p * np.where(p > 0, _log_quotient(p, b), 0.0) - (p - b))).sum())

    def derivatives(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """First and second derivative: ``g log(p / b)`` and ``g / p``."""
        q = np.maximum(p, TINY)
        return g * np.log(q / b), g / q

    def conjugate(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """``g b (exp(mu / g) - 1)`` per row; accurate for small mu."""
        return g * b * np.expm1(np.minimum(mu / g, LARGEST))

    def relaxed(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """Relaxed bound ``xi = b exp(mu / g)`` and its derivative ``xi / g``."""
        xi = b * np.exp(np.minimum(mu / g, LARGEST))
        return xi, xi / g


_EXPLICIT: dict[type, type[ScalarLoss]] = {
    LogDet: ItakuraSaito,
    VonNeumann: RelativeEntropy,
    Frobenius: SquaredHinge,  # with scale 1
}


def own_slack(divergence: SpectralDivergence) -> ScalarLoss:
    """The slack of a divergence, by its explicit formulas if there are any."""
    special = _EXPLICIT.get(type(divergence))
    return OwnSlack(divergence) if special is None else special()


LOSSES = Registry("loss", base=Loss, example="SquaredHinge()", before="None (the divergence's own slack), ")
for _cls in (RelativeSlack, Squared, SquaredHinge):
    LOSSES.add(_cls)


def as_loss(loss: Any) -> Loss | None:
    """A loss object from an object, a string that names one, or None (the divergence's own slack)."""
    if loss is None:
        return None
    found: Loss = LOSSES.resolve(loss)
    if isinstance(found, ScalarLoss) and not type(found).__module__.startswith("bregmat."):
        _check_claims(found)
    return found


def _check_claims(loss: ScalarLoss) -> None:
    """Raise unless slope and its inverse belong to the cost, which all proofs use."""
    q, c = np.array([0.2, 0.9, 1.0, 1.1, 3.0]), np.ones(5)
    h = STEP * q
    cost, m = loss.cost(q, c), loss.slope(q, c)
    check_elementwise("loss", loss.name, {"cost": cost, "slope": m, "at_slope": loss.at_slope(m, c)}, q)
    if not (np.diff(m) > 0).all() or not np.abs([cost[2], m[2]]).max() <= 1e-12:
        raise ValueError(
            f"loss {loss.name!r}: slope must increase, and cost and slope must be 0 at the bound; got {cost}, {m}."
        )
    check_agreement("loss", loss.name, "at_slope must be the inverse of slope", q, loss.at_slope(m, c), q)
    slope = (loss.cost(q + h, c) - loss.cost(q - h, c)) / (2.0 * h)
    check_agreement("loss", loss.name, "slope must be the derivative of cost", q, slope, m)
