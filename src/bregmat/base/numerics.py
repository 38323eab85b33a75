"""Iterative methods with callables for the problem: conjugate gradients, line search, block principal pivoting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

Point = TypeVar("Point")
# (steps done, x, direction, curvature along it, squared norm of the residual) -> whether to stop before the step
Blocked = Callable[[int, np.ndarray, np.ndarray, float, float], bool]


# ---------------------------------------------------------------------- conjugate gradients
@dataclass(frozen=True, eq=False)
class KrylovEnd:
    """The result of conjugate gradients."""

    x: np.ndarray
    residual: np.ndarray  # b - H x, by recurrence
    steps: int
    norm: float  # of the residual
    rho: float  # r' M^-1 r for the preconditioner M
    # the last direction, if no step was taken along it because its curvature is not positive or ``blocked`` returned True
    direction: np.ndarray | None = None
    curvature: float = np.nan  # d' H d of that direction


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray],
    b: np.ndarray,
    *,
    goal: float,
    most: int,
    precondition: Callable[[np.ndarray], np.ndarray] | None = None,
    is_euclidean: bool = False,
    blocked: Blocked | None = None,
) -> KrylovEnd:
    """Solve ``H x = b`` for a positive semidefinite H, known by its products, from ``x = 0``.

    Parameters
    ----------
    product : callable
        ``H v`` for an array of the shape of b; a new array.
    b : ndarray
        Of any shape; matrices count as the vectors of their entries.
    goal : float
        Stops when the norm of the residual is at most this (absolute).
    most : int
        Limit on steps.
    precondition : callable, optional
        ``M^-1 v`` for a positive definite M that approximates H; a new array.
    is_euclidean : bool
        Whether the norm is Euclidean; else it is ``sqrt(r' M^-1 r)``.
    blocked : callable, optional
        Called before each step of positive curvature; True stops there, and the result holds the direction.

    Notes
    -----
    Cost per step: one product, one preconditioning, five passes over arrays of the size of b.
    """
    x, r = np.zeros_like(b), b.copy()
    z = r if precondition is None else precondition(r)
    d, rho = z.copy(), float(np.vdot(r, z))
    norm = _norm(r, rho, is_euclidean)
    steps = 0
    while norm > goal and steps < most and rho > 0:
        H = product(d)
        curvature = float(np.vdot(d, H))
        if not curvature > 0 or (blocked is not None and blocked(steps, x, d, curvature, rho)):
            return KrylovEnd(x, r, steps, norm, rho, d, curvature)
        steps += 1
        alpha = rho / curvature
        x += alpha * d
        r -= alpha * H
        z = r if precondition is None else precondition(r)
        rho, last = float(np.vdot(r, z)), rho
        norm = _norm(r, rho, is_euclidean)
        d *= rho / last
        d += z
    return KrylovEnd(x, r, steps, norm, rho)


def _norm(r: np.ndarray, rho: float, is_euclidean: bool) -> float:
    """``sqrt(r' r)`` or ``sqrt(r' M^-1 r)``."""
    return float(np.linalg.norm(r)) if is_euclidean else float(np.sqrt(max(rho, 0.0)))


# ---------------------------------------------------------------------- line search
def armijo(
    trial: Callable[[float], tuple[Point, float] | None],
    cost: float,
    slope: float,
    *,
    rounding: float,
    first: float = 1.0,
    most: int = 40,
    outside: float = 0.5,
    is_parabolic: bool = False,
) -> tuple[Point, float] | None:
    """The first point along a descent direction that meets Armijo's condition, with its step length; None if there is none.

    ``cost(alpha) <= cost + 1e-4 * alpha * slope + rounding`` (Armijo 1966).

    Parameters
    ----------
    trial : callable
        Step length -> (point, cost), or None outside the domain.
    cost, slope : float
        At step length 0; the slope is negative.
    rounding : float
        Rounding error of the cost.
    first : float
        First step length.
    most : int
        Limit on trials.
    outside : float
        Factor on the step length after a trial that is outside the domain or has no finite cost.
    is_parabolic : bool
        Whether the next length is the minimiser of the interpolating parabola, within [0.1, 0.5] of the last length; else
        half of the last length.
    """
    alpha = first
    for _ in range(most):
        found = trial(alpha)
        if found is not None and found[1] <= cost + 1e-4 * alpha * slope + rounding:
            return found[0], alpha
        if found is None or not np.isfinite(found[1]):
            alpha *= outside
        elif is_parabolic:
            curved = -slope * alpha * alpha / (2.0 * (found[1] - cost - slope * alpha))
            alpha = min(max(curved, 0.1 * alpha), 0.5 * alpha)
        else:
            alpha *= 0.5
    return None


# ---------------------------------------------------------------------- block principal pivoting
class Exchanges:
    """The rule of block principal pivoting: which variables that violate their condition change sides.

    All of them (Portugal, Judice and Vicente 1994), until their number has not fallen for ``patience`` rounds. Then only the last one,
    ``singles`` times (Murty 1974). Without that limit the method terminates for positive definite matrices, but slowly.
    """

    def __init__(self, patience: int, singles: float = np.inf) -> None:
        self.patience, self.singles = patience, singles
        self.restart()

    def restart(self) -> None:
        """Forget the counts, since the conditions are tested in another precision from now on."""
        self.fewest, self.left = np.inf, self.patience

    def choose(self, wrong: np.ndarray) -> np.ndarray | None:
        """The variables to exchange, among the numbers of those that violate their condition; None: give up."""
        if len(wrong) < self.fewest:
            self.fewest, self.left = len(wrong), self.patience
        elif self.left > 0:
            self.left -= 1
        elif self.singles > 0:
            self.singles -= 1
            return wrong[-1:]
        else:
            return None
        return wrong


def pivot_in_box(
    solve: Callable[[np.ndarray, np.ndarray], np.ndarray | None],
    product: Callable[[np.ndarray], np.ndarray],
    q: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    side: np.ndarray,
    exchanges: Exchanges,
    *,
    unit: np.ndarray | float = 1.0,
    noise: tuple[float, float] = (1e-12, 0.0),
    most: int = 60,
    watch: Callable[[np.ndarray, np.ndarray], None] | None = None,
) -> np.ndarray | None:
    """``minimize q . d + d' H d / 2`` over ``lower <= d <= upper`` for positive definite H; None if it gives up.

    Each round solves on the free variables and exchanges some of those that violate their condition (:class:`Exchanges`).

    Parameters
    ----------
    solve : callable
        (free, b) -> x with ``H_FF x = b``, or None if that costs too much or H_FF is singular.
    product : callable
        ``H v``.
    q, lower, upper : ndarray, shape (c,)
        Bounds may be infinite; variables with ``lower == upper`` are fixed.
    side : ndarray of int, shape (c,)
        First guess: -1 at the lower bound, 0 free, 1 at the upper one.
    exchanges : Exchanges
    unit : ndarray, shape (c,), or float
        Factor on gradients before they are compared.
    noise : pair of float
        Gradients, times unit, count as zero up to these multiples of the largest entries of q and of ``H d``.
    most : int
        Limit on solves.
    watch : callable, optional
        Called with every point (c,), which may be outside the box, and its product with H.
    """
    fixed, size = lower >= upper, float(np.abs(q * unit).max(initial=0.0))
    for _ in range(most):
        d = np.where(side < 0, lower, np.where(side > 0, upper, 0.0))
        free = np.flatnonzero(side == 0)
        if len(free):
            x = solve(free, -(q + product(d) if d.any() else q)[free])
            if x is None:
                return None
            d[free] = x
        H = product(d)
        if watch is not None:
            watch(d, H)
        slack = noise[0] * size + noise[1] * float(np.abs(H * unit).max(initial=0.0))
        want = np.where(fixed, side, _wanted_sides(d, (q + H) * unit, lower, upper, side, slack))
        wrong = np.flatnonzero(want != side)
        if not len(wrong):
            return d
        moved = exchanges.choose(wrong)
        if moved is None:
            return None
        side[moved] = want[moved]
    return None


def _wanted_sides(
    d: np.ndarray, g: np.ndarray, lower: np.ndarray, upper: np.ndarray, side: np.ndarray, slack: float
) -> np.ndarray:
    """The side of each variable by its condition: inside the box if free, gradient g >= 0 at the lower and <= 0 at the upper bound."""
    want = side.copy()
    want[(side == 0) & (d < lower)] = -1
    want[(side == 0) & (d > upper)] = 1
    want[((side < 0) & (g < -slack)) | ((side > 0) & (g > slack))] = 0
    return want
