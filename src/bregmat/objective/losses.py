"""Losses: the cost of a violated bound, its derivatives and its conjugate.

Every scalar loss is the minimum over a relaxed bound xi of ``d(xi, b)`` subject to ``s (p - xi) <= 0``: it is 0 if the row holds and
``d(p, b)`` if the row is violated. The dual weight of a row is ``mu = d'(xi)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat._kernels import outer_rows
from bregmat.base.checks import as_choice
from bregmat.base.registry import Registry
from bregmat.base.tolerances import TINY
from bregmat.objective.claims import check_loss
from bregmat.objective.divergences import DIVERGENCES, Frobenius, LogDet, VonNeumann
from bregmat.objective.row_losses import RowLosses, WeightedBounds
from bregmat.objective.spectral import FAR, LARGEST, STEP, SpectralDivergence, barrier_root, is_unbounded


class Loss(ABC):
    """A value of the argument ``loss``: it gives every soft row a scalar loss."""

    name: ClassVar[str]

    @abstractmethod
    def bind(self, rows: WeightedBounds) -> RowLosses:
        """The losses of constraints with these bounds, for values divided by ``rows.scale`` and losses by ``objective_scale``."""


class ScalarLoss(Loss):
    """A loss of your own: ``name``, :meth:`cost`, :meth:`slope`, :meth:`at_slope`, and :meth:`slopes` if the slope is bounded.

    All four take value and bound in units of the constraint's scale (``|b|``, or ``tr(|A| W0)`` if b is 0), for weight 1, elementwise on
    arrays. This class adds weights, scales, conjugates, senses and hard constraints. In a frozen dataclass, fields are settings;
    :func:`bregmat.register` makes the name usable as a string and in files.

    Attributes
    ----------
    name : str
        In snake case.
    is_two_sided : bool
        Whether a constraint that holds is pulled to its bound as well, whatever its sense.
    is_positive : bool
        Whether the loss is defined for positive values and bounds only. Constraints with other bounds get :class:`SquaredHinge`. A value
        that is not positive and violates its bound costs infinitely much, so ">=" and "==" constraints keep their values positive.

    Notes
    -----
    The loss must be strictly convex in the value and smooth, 0 with slope 0 at the bound.

    Examples
    --------
    >>> from bregmat import ScalarLoss, Squared
    >>> isinstance(Squared(), ScalarLoss)
    True
    >>> Squared().cost(3.0, 1.0), Squared().slope(3.0, 1.0)  # of a value of 3 beside a bound of 1
    (2.0, 2.0)
    """

    is_two_sided: ClassVar[bool] = False
    is_positive: ClassVar[bool] = False
    is_hard: ClassVar[bool] = False
    is_smooth: ClassVar[bool] = True
    projection_code: ClassVar[int | None] = None  # code of the compiled projection onto one row; None: there is none
    # value(c p, c b, g) = c^degree value(p, b, g), for a loss that uses no scale; 0 if only the quotient of p and b matters
    degree: ClassVar[int | None] = None

    @abstractmethod
    def cost(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Loss of the value q at the bound c."""

    @abstractmethod
    def slope(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Its derivative with respect to q."""

    @abstractmethod
    def at_slope(self, m: np.ndarray, c: np.ndarray) -> np.ndarray:
        """The value q at which the slope is m."""

    def slopes(self, c: np.ndarray) -> tuple[Any, Any]:
        """Infimum and supremum of the slopes; infinite unless the loss becomes linear far away."""
        return -np.inf, np.inf

    def curvature(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Second derivative, by central differences of the slope: about ten digits, enough for Newton's method."""
        h = STEP * (q if self.is_positive else np.maximum(np.abs(q), 1.0))
        return (self.slope(q + h, c) - self.slope(q - h, c)) / (2.0 * h)

    def bind(self, rows: WeightedBounds, scale: np.ndarray | None = None, gamma: np.ndarray | None = None) -> RowLosses:
        """This loss on the soft constraints in its domain, the squared hinge on the other soft constraints.

        Parameters
        ----------
        rows : WeightedBounds
            c constraints.
        scale, gamma : ndarray, shape (c,), optional
            Scales, and slack weights, if they are not the units and weights of the constraints.
        """
        hard = np.isinf(rows.gamma)
        able = rows.bound > 0 if self.is_positive else np.ones(len(hard), dtype=bool)
        other = 1 if isinstance(self, SquaredHinge) else 2
        kind = np.where(hard, 0, np.where(able, 1, other)).astype(np.int8)
        sense = np.where(hard, rows.sense, 0).astype(np.int8) if self.is_two_sided else rows.sense
        scale = rows.unit if scale is None else scale
        gamma = np.where(hard, 1.0, rows.gamma if gamma is None else gamma)
        # a loss that uses no scale gets another weight instead: d(c p, c b) = c^degree d(p, b)
        bound, own, weight = rows.bound / rows.scale, scale / rows.scale, gamma / rows.objective_scale
        if self.degree is not None:
            soft = kind == 1
            own[soft], weight[soft] = scale[soft], gamma[soft] * (rows.scale**self.degree / rows.objective_scale)
        return RowLosses(bound, sense, weight, own, (Hard(), self, SquaredHinge()), kind)

    # ------------------------------------------------------------------ of rows: value p, bound b, weight g, scale
    def value(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """Sum of the losses of violated constraints with values in the domain of the loss.

        Parameters
        ----------
        p, b, g, scale : ndarray, shape (k,)
            Values, bounds, slack weights, scales of some constraints.
        """
        return float((g * self.cost(self._inside(p / scale), b / scale)).sum())

    def derivatives(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """First and second derivative.

        Parameters
        ----------
        p, b, g, scale : ndarray, shape (k,)
            Values, bounds, slack weights, scales of some constraints.
        """
        q, c = self._inside(p / scale), b / scale
        return g / scale * self.slope(q, c), g / (scale * scale) * self.curvature(q, c)

    def conjugate(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """Conjugate per constraint, ``inf`` outside its domain.

        Parameters
        ----------
        mu, b, g, scale : ndarray, shape (k,)
            Dual weights, bounds, slack weights, scales of some constraints.
        """
        m, c = mu * scale / g, b / scale
        low, high = self.slopes(c)
        with np.errstate(all="ignore"):
            q = self.at_slope(m, c)
            out = g * (m * q - self.cost(self._inside(q), c))
        return np.where((m > low) & (m < high) & np.isfinite(out), out, np.inf)

    def relaxed(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """Relaxed bound xi(mu) and its derivative.

        Parameters
        ----------
        mu, b, g, scale : ndarray, shape (k,)
            Dual weights, bounds, slack weights, scales of some constraints.
        """
        c = b / scale
        q = self.at_slope(mu * scale / g, c)
        return scale * q, scale * scale / (g * self.curvature(self._inside(q), c))

    def slope_range(self, b: Any, g: Any, scale: Any) -> Any:
        """Infimum and supremum of the dual weight."""
        low, high = self.slopes(b / scale)
        return np.broadcast_to(low, b.shape) * g / scale, np.broadcast_to(high, b.shape) * g / scale

    def is_outside(self, p: Any, b: Any) -> Any:
        """Whether values p (k,) of a positive loss at the bounds b (k,) cost infinitely much."""
        return p <= 0

    def _inside(self, q: Any) -> Any:
        """Values for a positive loss, raised to a positive number where rounding made them 0 or negative."""
        return np.maximum(q, TINY) if self.is_positive else q

    # ------------------------------------------------------------------ along the central path, for the interior point
    def on_path(self, mu: Any, b: Any, g: Any, scale: Any, tau: Any) -> Any:
        """The xi with ``d'(xi) - tau / xi = mu``; without the barrier unless the loss is for positive values.

        Parameters
        ----------
        mu, b, g, scale : ndarray, shape (k,)
            Dual weights, bounds, slack weights, scales of some constraints.
        tau : float
            Weight of the barrier.
        """
        if not self.is_positive:
            return self.relaxed(mu, b, g, scale)[0]
        c, m = b / scale, mu * scale / g
        with np.errstate(all="ignore"):
            start = self.at_slope(np.where(m < self.slopes(c)[1], m, 0.0), c)
        return scale * barrier_root(lambda q: self.slope(q, c), lambda q: self.curvature(q, c), start, m, tau / g)

    def chord(self, xi: Any, mu: Any, b: Any, g: Any, scale: Any, tau: Any) -> Any:
        """Slope of the chord of :meth:`on_path` between mu and the weight of the bound xi; the derivative for close bounds.

        Parameters
        ----------
        xi, mu, b, g, scale : ndarray, shape (k,)
            Relaxed bounds, dual weights, bounds, slack weights, scales of some constraints.
        tau : float
            Weight of the barrier.
        """
        # with m(xi) = d'(xi) - tau / xi: (xi - y) / (m(xi) - mu) at y = xi(mu), or 1 / m'(middle) for close bounds
        y = self.on_path(mu, b, g, scale, tau)
        first, _ = self.derivatives(xi, b, g, scale)
        if self.is_positive:
            first, middle, size = first - tau / xi, np.sqrt(xi * y), np.minimum(xi, y)
        else:
            middle = 0.5 * (xi + y)
            size = np.abs(xi) + np.abs(y) + scale
        near = np.abs(xi - y) <= 1e-4 * size
        slope = self.derivatives(middle, b, g, scale)[1] + (tau / middle**2 if self.is_positive else 0.0)
        return np.where(near, 1.0 / slope, (xi - y) / np.where(near, 1.0, first - mu))


# ---------------------------------------------------------------- squares
@dataclass(frozen=True)
class SquaredHinge(ScalarLoss):
    """``gamma / 2 (max(0, s (p - b)) / scale)^2`` with scale ``|b|``, or ``tr(|A| W0)`` where b is 0; dimensionless.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, SquaredHinge, nearest_kernel
    >>> constraints = Constraints.comparison([0], [1], [0], [2], margin=1.0)  # point 0 is nearer to 1 than to 2, by 1
    >>> K = nearest_kernel(np.eye(3), constraints, loss=SquaredHinge(), slack_weight=1e3).kernel()
    >>> near, far = K[0, 0] + K[1, 1] - 2 * K[0, 1], K[0, 0] + K[2, 2] - 2 * K[0, 2]
    >>> bool(far - near > 0.99)
    True
    """

    name: ClassVar[str] = "squared_hinge"
    projection_code: ClassVar[int | None] = outer_rows.QUADRATIC

    def cost(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``(q - c)^2 / 2``."""
        return 0.5 * (q - c) ** 2

    def slope(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``q - c``."""
        return q - c

    def at_slope(self, m: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``c + m``."""
        return c + m

    def curvature(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """1."""
        return np.ones_like(q)

    def value(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """Sum of the losses of violated constraints."""
        x = (p - b) / scale
        return 0.5 * float((g * x * x).sum())

    def derivatives(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """First and second derivative: ``g (p - b) / scale^2`` and ``g / scale^2``."""
        h = g / (scale * scale)
        return h * (p - b), h

    def conjugate(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """``mu b + (mu scale)^2 / (2 g)`` per constraint."""
        return mu * b + 0.5 * (mu * scale) ** 2 / g

    def relaxed(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """Relaxed bound ``b + mu scale^2 / g`` and its derivative."""
        d = scale * scale / g
        return b + mu * d, d

    def slope_range(self, b: Any, g: Any, scale: Any) -> Any:
        """Every dual weight is possible."""
        return np.full(len(b), -np.inf), np.full(len(b), np.inf)

    def chord(self, xi: Any, mu: Any, b: Any, g: Any, scale: Any, tau: Any) -> Any:
        """``scale^2 / g``: the slope of the loss is linear."""
        return scale * scale / g


@dataclass(frozen=True)
class Squared(SquaredHinge):
    """``gamma / 2 ((p - b) / scale)^2`` on every soft constraint *whatever its sense*: regression on given distances.

    A constraint that holds is pulled to its bound as well. The scale is ``|b|``, or ``tr(|A| W0)`` if b is 0, so the weight is
    dimensionless; ``weight = b^2`` per constraint gives plain least squares.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, Squared, nearest_kernel
    >>> constraints = Constraints.sq_distance([0, 1], [1, 2], [1.0, 3.0], "==")  # regression on distances
    >>> result = nearest_kernel(np.eye(3), constraints, loss=Squared(), slack_weight=100.0)
    >>> print(result.status)
    OPTIMAL
    """

    name: ClassVar[str] = "squared"
    is_two_sided: ClassVar[bool] = True


# ---------------------------------------------------------------- no slack
class Hard(ScalarLoss):
    """0 if the row holds, infinite if it does not."""

    name: ClassVar[str] = "hard"
    is_hard: ClassVar[bool] = True
    is_smooth: ClassVar[bool] = False
    projection_code: ClassVar[int | None] = outer_rows.HARD

    def cost(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Infinite off the bound."""
        return np.where(q == c, 0.0, np.inf)

    def slope(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """A hard row has no derivative: always raises."""
        raise TypeError(
            "a hard constraint has no loss derivative; use a solver that handles hard constraints (dual_newton, interior_point)."
        )

    def at_slope(self, m: np.ndarray, c: np.ndarray) -> np.ndarray:
        """The bound, whatever the slope."""
        return c + 0.0 * m

    # weights and scales of hard rows are not used
    def value(self, p: Any, b: Any, g: Any, scale: Any) -> Any:
        """Infinite if any row is off its bound; only violated rows are passed."""
        return np.inf if (p != b).any() else 0.0

    def conjugate(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """``mu b``."""
        return mu * b

    def relaxed(self, mu: Any, b: Any, g: Any, scale: Any) -> Any:
        """The bound itself, fixed."""
        return b.copy(), np.zeros(len(b))

    def chord(self, xi: Any, mu: Any, b: Any, g: Any, scale: Any, tau: Any) -> Any:
        """0: the bound does not move."""
        return np.zeros(len(b))


# ---------------------------------------------------------------- the slack of a divergence
@dataclass(frozen=True)
class OwnSlack(ScalarLoss):
    """The divergence of two numbers, ``gamma d(p, b)`` (Kulis 2009, eq. 22), from link, inverse link and phi of any divergence.

    For the divergences of the library, explicit formulas replace it (``EXPLICIT_SLACKS``).
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
        return float((g * ((p - b) / b - _log_quotient(p, b))).sum())

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


EXPLICIT_SLACKS: dict[type, ScalarLoss] = {
    LogDet: ItakuraSaito(),
    VonNeumann: RelativeEntropy(),
    Frobenius: SquaredHinge(),  # with scale 1
}


@dataclass(frozen=True)
class DivergenceSlack(Loss):
    """The slack ``gamma d(p, b)`` of a divergence d of numbers, of values and bounds as they are (Kulis 2009, eq. 22).

    By default d is the divergence of the matrix, which is the meaning of ``loss=None``. It applies to rows with a positive bound; others
    get the squared hinge.

    Parameters
    ----------
    divergence : {"logdet", "vonneumann", "frobenius"} or the name of a registered divergence, optional
        Another divergence than that of the matrix (Kulis 2009, 6.2.1: "other choices of constraint penalty are possible").

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, DivergenceSlack, nearest_kernel
    >>> rows = Constraints.sq_distance(0, 1, 1.0, "<=")
    >>> print(nearest_kernel(np.eye(2), rows, loss=DivergenceSlack("frobenius"), slack_weight=1.0).status)
    OPTIMAL
    """

    name: ClassVar[str] = "divergence_slack"

    divergence: str | None = None

    def __post_init__(self) -> None:
        if self.divergence is not None:
            as_choice("divergence", self.divergence, DIVERGENCES)

    def bind(self, rows: WeightedBounds) -> RowLosses:
        """The slack with scale 1, which leaves values and bounds as they are."""
        D = rows.divergence if self.divergence is None else DIVERGENCES.resolve(self.divergence)
        slack = EXPLICIT_SLACKS.get(type(D)) or OwnSlack(D)
        return slack.bind(rows, np.where(rows.bound > 0, 1.0, rows.unit))


@dataclass(frozen=True)
class RelativeSlack(Loss):
    """The divergence's own slack of ``p / b`` against 1, ``gamma d(p / b, 1)`` (Kulis 2009, end of section 6.2.1).

    The same relative violation costs the same for bounds of any size, so the learned matrix does not change if a constraint and its bound
    are multiplied by a number. Prefer it to the default for von Neumann and Frobenius when bounds differ in size.

    Notes
    -----
    The library's divergences are homogeneous, ``d(c p, c b) = c^k d(p, b)``, so this is the own slack with weight ``gamma / b^k``:
    LogDet k = 0 (nothing changes), von Neumann k = 1, Frobenius k = 2. Prior and bounds times c together give the learned matrix
    times c if gamma is multiplied by ``c^k`` (with the default, loss=None, if gamma stays). Constraints without an own slack (``b <= 0``)
    keep the relative square of loss=None.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, RelativeSlack, nearest_kernel
    >>> constraints = Constraints.sq_distance(0, 1, 1.0, "<=")
    >>> print(nearest_kernel(np.eye(2), constraints, divergence="vonneumann", loss=RelativeSlack(), slack_weight=1.0).status)
    OPTIMAL
    """

    name: ClassVar[str] = "relative_slack"

    def bind(self, rows: WeightedBounds) -> RowLosses:
        """The slack relative to the bounds: by the weight if the divergence is homogeneous, else by the scale."""
        slack = EXPLICIT_SLACKS.get(type(rows.divergence)) or OwnSlack(rows.divergence)
        on = rows.bound > 0
        scale, gamma = np.where(on, 1.0, rows.unit), rows.gamma.copy()
        degree = rows.divergence.degree
        if degree is None:
            scale[on] = rows.bound[on]
        else:
            with np.errstate(over="ignore", divide="ignore"):
                gamma[on] /= rows.bound[on] ** degree
        return slack.bind(rows, scale, gamma)


LOSSES = Registry(
    "loss", base=Loss, example="SquaredHinge()", before="None (the divergence's own slack), ", check=check_loss
)
for _cls in (RelativeSlack, Squared, SquaredHinge, DivergenceSlack):
    LOSSES.add(_cls)
OWN_SLACK = DivergenceSlack()  # the loss of ``loss=None``
