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

    All functions take value and bound in units of the constraint's scale (``|b|``, or ``tr(|A| W0)`` if b is 0), for weight 1,
    elementwise on arrays. :class:`bregmat.objective.row_losses.RowLosses` adds weights, scales, senses and hard constraints. In a frozen
    dataclass, fields are settings; :func:`bregmat.register` makes the name usable as a string and in files.

    Attributes
    ----------
    name : str
        In snake case.
    is_two_sided : bool
        Whether a constraint that holds is pulled to its bound as well, whatever its sense.
    is_positive : bool
        Whether the loss is defined for positive values and bounds only. Constraints with other bounds get :class:`SquaredHinge`. A value
        that is not positive and violates its bound costs infinitely much, so ">=" and "==" constraints keep their values positive.
    is_finite_at_zero : bool
        Whether such a loss is finite at the value 0, which rounding may then have made slightly negative.

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
    is_finite_at_zero: ClassVar[bool] = False
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

    def conjugate(self, m: np.ndarray, c: np.ndarray) -> np.ndarray:
        """The conjugate at the slope m, ``inf`` outside its domain."""
        low, high = self.slopes(c)
        with np.errstate(all="ignore"):
            q = self.at_slope(m, c)
            out = m * q - self.cost(np.maximum(q, TINY) if self.is_positive else q, c)
        return np.where((m > low) & (m < high) & np.isfinite(out), out, np.inf)

    # ------------------------------------------------------------------ along the central path, for the interior point
    def on_path(self, m: np.ndarray, c: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """The q with ``d'(q) - tau / q = m``; without the barrier ``tau / q`` unless the loss is for positive values."""
        if not self.is_positive:
            return self.at_slope(m, c)
        with np.errstate(all="ignore"):
            start = self.at_slope(np.where(m < self.slopes(c)[1], m, 0.0), c)
        return barrier_root(lambda q: self.slope(q, c), lambda q: self.curvature(q, c), start, m, tau)

    def chord(self, q: np.ndarray, m: np.ndarray, c: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """Slope of the chord of :meth:`on_path` between m and the slope at q; the derivative for close values.

        Parameters
        ----------
        q, m, c, tau : ndarray, shape (k,)
            Values, slopes, bounds, weights of the barrier.
        """
        # with m(q) = d'(q) - tau / q: (q - y) / (m(q) - m) at y = q(m), or 1 / m'(middle) for close values
        y, first = self.on_path(m, c, tau), self.slope(q, c)
        if self.is_positive:
            first, middle, size = first - tau / q, np.sqrt(q * y), np.minimum(q, y)
        else:
            middle, size = 0.5 * (q + y), np.abs(q) + np.abs(y) + 1.0
        near = np.abs(q - y) <= 1e-4 * size
        slope = self.curvature(middle, c) + (tau / middle**2 if self.is_positive else 0.0)
        return np.where(near, 1.0 / slope, (q - y) / np.where(near, 1.0, first - m))

    # ------------------------------------------------------------------ the losses of all rows
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
        own[hard] = weight[hard] = 1.0
        return RowLosses(bound, sense, weight, own, (Hard(), self, SquaredHinge()), kind)


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

    def conjugate(self, m: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``m c + m^2 / 2``."""
        return m * c + 0.5 * m * m


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
    """0 if the row holds, infinite if it does not; rows have scale and weight 1."""

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

    def curvature(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Infinite: the bound does not move."""
        return np.full_like(q, np.inf)

    def conjugate(self, m: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``m c``."""
        return m * c


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

    @property
    def is_finite_at_zero(self) -> bool:  # type: ignore[override]
        """Whether ``phi(0)`` is finite."""
        return not self.divergence.keeps_rank

    def on_path(self, m: np.ndarray, c: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """``phi'(q) - tau / q = phi'(c) + m``, by the inverse of the divergence."""
        return self.divergence.barrier_inverse(m + self.divergence.link(c), tau)


def _log_quotient(q: np.ndarray, c: np.ndarray) -> np.ndarray:
    """``log(q / c)``: as ``log1p((q - c) / c)`` near the bound, where the quotient would lose digits."""
    u = (q - c) / c
    return np.where(np.abs(u) < 0.5, np.log1p(np.maximum(u, -0.5)), np.log(q / c))


@dataclass(frozen=True)
class ItakuraSaito(OwnSlack):
    """The slack of LogDet, ``gamma (p/b - log(p/b) - 1)`` (Kulis 2009, eq. 22)."""

    name: ClassVar[str] = "itakura_saito"
    projection_code: ClassVar[int | None] = outer_rows.ITAKURA_SAITO
    degree: ClassVar[int | None] = 0
    is_finite_at_zero: ClassVar[bool] = False  # type: ignore[assignment]

    divergence: SpectralDivergence = LogDet()

    def cost(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``q/c - 1 - log(q/c)`` by the relative excess; the general formula cancels near the bound."""
        return (q - c) / c - _log_quotient(q, c)

    def at_slope(self, m: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``c / (1 - m c)``."""
        return c / (1.0 - m * c)

    def slopes(self, c: np.ndarray) -> tuple[Any, Any]:
        """Between -inf and ``1/c``."""
        return -np.inf, 1.0 / c

    def curvature(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``1 / q^2``."""
        return 1.0 / (q * q)

    def conjugate(self, m: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``-log(1 - m c)``, ``inf`` for ``m >= 1/c``; accurate for small m."""
        x = m * c
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(x < 1.0, -np.log1p(-np.minimum(x, 1.0)), np.inf)

    def chord(self, q: np.ndarray, m: np.ndarray, c: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """``q / (1/c - m)``, since ``q (1/c - m) = 1 + tau`` on the path."""
        return q / (1.0 / c - m)


@dataclass(frozen=True)
class RelativeEntropy(OwnSlack):
    """The slack of von Neumann, ``gamma (p log(p/b) - p + b)`` (Kulis 2009, eq. 22)."""

    name: ClassVar[str] = "relative_entropy"
    projection_code: ClassVar[int | None] = outer_rows.RELATIVE_ENTROPY
    degree: ClassVar[int | None] = 1

    divergence: SpectralDivergence = VonNeumann()

    def cost(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``q log(q/c) - q + c`` by the relative excess; the general formula cancels near the bound. It is c at 0."""
        return q * _log_quotient(np.maximum(q, TINY), c) - (q - c)

    def slope(self, q: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``log(q/c)``."""
        return np.log(q / c)

    def at_slope(self, m: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``c exp(m)``."""
        return c * np.exp(np.minimum(m, LARGEST))

    def conjugate(self, m: np.ndarray, c: np.ndarray) -> np.ndarray:
        """``c (exp(m) - 1)``; accurate for small m."""
        return c * np.expm1(np.minimum(m, LARGEST))


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
