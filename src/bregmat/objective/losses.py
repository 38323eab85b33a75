"""The slack of a divergence, its own scalar loss, and the losses by their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat._kernels import outer_rows
from bregmat.base.registry import Registry
from bregmat.objective.divergences import Frobenius, LogDet, VonNeumann
from bregmat.objective.row_losses import RowLosses, WeightedBounds
from bregmat.objective.scalar_losses import TINY, Loss, ScalarLoss, Squared, SquaredHinge, bound_rows
from bregmat.objective.spectral import FAR, STEP, SpectralDivergence, check_agreement, check_elementwise, is_unbounded

AT_ZERO = 1e-12  # relative to its bound, how far below 0 rounding may put a value


class OwnSlack(ScalarLoss):
    """The divergence of two numbers, ``gamma d(p, b)`` (Kulis 2009, eq. 22); what ``loss=None`` stands for.

    For rows with a positive bound, as a divergence of the diagonal matrix of bounds needs; others get the squared hinge. Derived
    from link, inverse link and phi of any divergence; the library's own have formulas written out (:func:`own_slack`).

    Parameters
    ----------
    divergence : SpectralDivergence
    """

    name: ClassVar[str] = "own_slack"
    is_positive: ClassVar[bool] = True

    def __init__(self, divergence: SpectralDivergence) -> None:
        self.divergence = divergence
        end = divergence.link(np.array([FAR]))[0]
        self._top = np.inf if is_unbounded(divergence.link) else float(end)

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
        """Up to ``phi'(inf) - phi'(c)``."""
        return -np.inf, self._top - self.divergence.link(c)

    def curvature(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``phi''(q)``."""
        return self.divergence.curvature(q)

    def is_outside(self, p: Any, b: Any) -> Any:
        """0 is inside where ``phi(0)`` is finite, and so is what rounding makes of it."""
        return p <= 0 if self.divergence.keeps_rank else p < -AT_ZERO * b

    def on_path(self, mu: Any, b: Any, g: Any, scale: Any, tau: Any) -> Any:
        """The divergence's own inverse: ``phi'(q) - (tau / g) / q = phi'(c) + mu scale / g``."""
        return scale * self.divergence.barrier_inverse(mu * scale / g + self.divergence.link(b / scale), tau / g)

    def bind(self, rows: WeightedBounds) -> RowLosses:
        """The slack in units of the rows themselves."""
        scale = np.where(rows.is_positive, 1.0, rows.unit)
        return bound_rows(rows, rows.sense, own_slack(self.divergence), rows.is_positive, scale, rows.gamma)


@dataclass(frozen=True)
class RelativeSlack(Loss):
    """The divergence's own slack of ``p / b`` against 1, ``gamma d(p / b, 1)`` (Kulis 2009, end of section 6.2.1).

    A bound of 1000 broken by half costs as much as a bound of 1 broken by half, whatever the divergence, so that the learned
    matrix does not change when a row and its bound are multiplied by a number. Prefer it to the default for von Neumann and
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
        """The slack in units of the bounds: by the weight where the divergence is homogeneous, else by the scale."""
        slack, on = own_slack(rows.divergence), rows.is_positive
        scale, gamma = np.where(on, 1.0, rows.unit), rows.gamma.copy()
        degree = rows.divergence.degree
        if degree is None:
            scale[on] = rows.bound[on]
        else:
            with np.errstate(over="ignore", divide="ignore"):
                gamma[on] /= rows.bound[on] ** degree
        return bound_rows(rows, rows.sense, slack, on, scale, gamma)


def _log_quotient(p: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``log(p / b)``: by the excess near the bound, where the quotient is rounded to 1, and by the quotient far below it."""
    u = (p - b) / b
    return np.where(np.abs(u) < 0.5, np.log1p(np.maximum(u, -0.5)), np.log(p / b))


class ItakuraSaito(OwnSlack):
    """LogDet's own slack, ``gamma (p/b - log(p/b) - 1)`` (Kulis 2009, eq. 22); the weight is the only scale it has."""

    name: ClassVar[str] = "itakura_saito"
    projection_code: ClassVar[int | None] = outer_rows.ITAKURA_SAITO
    degree: ClassVar[int | None] = 0

    def __init__(self) -> None:
        super().__init__(LogDet())

    def value(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """Sum of the losses of violated rows, by the relative excess: near the bound the general formula cancels."""
        return float((g * ((p - b) / b - _log_quotient(p, b))).sum())

    def bound_size(self, q: Any, b: Any) -> Any:
        """Far below the bound, only the quotient of the two counts."""
        return np.minimum(np.abs(q), np.abs(b))

    def derivatives(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """First and second derivative."""
        return g * (1.0 / b - 1.0 / p), g / (p * p)

    def conjugate(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """Conjugate per row, ``inf`` outside its domain ``mu < g / b``; exact for small mu, where the general formula cancels."""
        x = mu * b / g
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(x < 1.0, -g * np.log1p(-np.minimum(x, 1.0)), np.inf)

    def relaxed(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """Relaxed bound xi(mu) and its derivative."""
        xi = b / (1.0 - mu * b / g)
        return xi, xi * xi / g

    def slope_range(self, b: Any, g: Any, scale: Any) -> Any:
        """Infimum and supremum of the dual weight."""
        return np.full(len(b), -np.inf), g / b

    def chord(self, xi: Any, mu: Any, b: Any, g: Any, scale: Any, tau: Any) -> Any:
        """In closed form: on the path ``xi (g / b - mu) = g + tau``."""
        return xi / (g / b - mu)


class RelativeEntropy(OwnSlack):
    """von Neumann's own slack, ``gamma (p log(p/b) - p + b)`` (Kulis 2009, eq. 22)."""

    name: ClassVar[str] = "relative_entropy"
    projection_code: ClassVar[int | None] = outer_rows.RELATIVE_ENTROPY
    degree: ClassVar[int | None] = 1

    def __init__(self) -> None:
        super().__init__(VonNeumann())

    def value(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """Sum of the losses of violated rows, by the relative excess: near the bound the general formula cancels."""
        return float((g * (p * np.where(p > 0, _log_quotient(p, b), 0.0) - (p - b))).sum())

    def derivatives(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """First and second derivative."""
        q = np.maximum(p, TINY)
        return g * np.log(q / b), g / q

    def conjugate(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """Conjugate per row; exact for small mu, where the general formula cancels."""
        return g * b * np.expm1(np.minimum(mu / g, 700.0))

    def relaxed(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """Relaxed bound xi(mu) and its derivative."""
        xi = b * np.exp(np.minimum(mu / g, 700.0))
        return xi, xi / g


_WRITTEN_OUT: dict[type, type[ScalarLoss]] = {
    LogDet: ItakuraSaito,
    VonNeumann: RelativeEntropy,
    Frobenius: SquaredHinge,  # with scale 1
}


def own_slack(divergence: SpectralDivergence) -> ScalarLoss:
    """The slack of a divergence, by formulas written out where there are any."""
    special = _WRITTEN_OUT.get(type(divergence))
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
    """Raise unless the functions of a loss belong together, since all proofs rest on that."""
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
