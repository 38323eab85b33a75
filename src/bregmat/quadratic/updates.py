"""The multiplicative updates, one step at a time: Sha, Saul and Lee 2002, eq. 3 to 12, with bounds and with a sum constraint.

Minimised is ``F(v) = 1/2 v'Av + b'v`` over ``v >= 0``. A step needs ``A`` only through ``positive = A+ v`` and
``negative = A- v`` for some ``A = A+ - A-`` with nonnegative entries (eq. 2): the classes of :mod:`bregmat.quadratic.splits`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bregmat.base.linalg import EPS


def factors(b: np.ndarray, *, positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """What every variable is multiplied by: ``(-b + sqrt(b^2 + 4 (A+ v)(A- v))) / (2 A+ v)`` (eq. 5).

    Where ``b > 0`` the equal form ``2 (A- v) / (b + sqrt(...))`` avoids the cancellation. Where ``A+ v = 0`` the factor
    is the limit: inf for ``b < 0`` (the objective falls without end), else 0 where ``A- v = 0`` too.

    Parameters
    ----------
    b, positive, negative : ndarray, shape (n,)
        Linear term, ``A+ v`` and ``A- v``; the last two nonnegative.

    Returns
    -------
    ndarray, shape (n,)
        Nonnegative and dimensionless; NaN where an argument is.
    """
    # whose squares may lie outside the range of the numbers
    r = np.hypot(b, 2.0 * np.sqrt(positive) * np.sqrt(negative))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _quotients(b, r, positive=positive, negative=negative)


def _quotients(b: np.ndarray, r: np.ndarray, *, positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """The factors from the square root ``r``: above the line where it adds up, below it where it would cancel."""
    up = b > 0
    top, bottom = np.where(up, 2.0 * negative, r - b), np.where(up, b + r, 2.0 * positive)
    return np.where(top == 0, 0.0, top / bottom)


def step(
    v: np.ndarray,
    b: np.ndarray,
    *,
    positive: np.ndarray,
    negative: np.ndarray,
    lower: np.ndarray | float = 0.0,
    upper: np.ndarray | float = np.inf,
) -> np.ndarray:
    """One update ``v_i <- clip(v_i eta_i, lower_i, upper_i)`` (eq. 3; Sha 2007 for bounds).

    It minimises the auxiliary function (eq. 12) over the box exactly, so that ``F`` does not rise when ``lower <= v <= upper``:
    it is a sum of convex functions of one variable each, so that any subset of the variables may be updated, too.

    Parameters
    ----------
    v, b, positive, negative : ndarray, shape (n,)
        Point, linear term, ``A+ v`` and ``A- v`` at the whole of ``v``.
    lower, upper : float or ndarray, shape (n,)
        Bounds in the units of ``v``; ``upper`` may be inf.

    Returns
    -------
    ndarray, shape (n,)
        The new point; an entry is inf where the objective falls without end along that variable.
    """
    eta = factors(b, positive=positive, negative=negative)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        return np.clip(_times(v, eta), lower, upper)


def _times(v: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """``v eta`` with ``0 inf = 0``: a variable at zero stays there (NaN passes through)."""
    return np.where(v == 0, 0.0, v * eta)


def balanced_step(
    v: np.ndarray,
    b: np.ndarray,
    *,
    positive: np.ndarray,
    negative: np.ndarray,
    signs: np.ndarray,
    total: float = 0.0,
    lower: np.ndarray | float = 0.0,
    upper: np.ndarray | float = np.inf,
    multiplier: float = 0.0,
) -> tuple[np.ndarray, float]:
    """One update under ``signs'v = total``: the multiplier is the intercept of a margin machine.

    With ``b_i + multiplier signs_i`` for ``b_i`` in eq. 3, the sum of the new point falls as the multiplier grows, so a
    safeguarded Newton iteration finds the one that meets the total. The new point minimises the auxiliary function over box
    and constraint, so ``F`` does not rise when ``v`` meets both.

    Parameters
    ----------
    v, b, positive, negative, lower, upper
        As for :func:`step`.
    signs : ndarray of +-1, shape (n,)
        The labels ``y`` of a margin machine.
    total : float
        Value of ``signs'v`` to hold, in the units of ``v``.
    multiplier : float
        Where the search starts, in the units of ``b``: the last one.

    Returns
    -------
    new : ndarray, shape (n,)
    multiplier : float
    """
    side = 2.0 * np.sqrt(positive) * np.sqrt(negative)
    signs = np.asarray(signs, dtype=float)

    def moved(shift: float) -> tuple[np.ndarray, np.ndarray]:
        """The point of a multiplier, and v eta / sqrt(...), minus its derivative times the sign, between the bounds."""
        c = b + shift * signs
        r = np.hypot(c, side)
        free = _times(v, _quotients(c, r, positive=positive, negative=negative))
        new = np.clip(free, lower, upper)
        return new, np.where((new == free) & (free > 0), free / r, 0.0)

    unit = float(np.abs(b).max(initial=0.0)) or 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _falling_root(moved, signs, total, start=multiplier, unit=unit)


def spread(v: np.ndarray, *, signs: np.ndarray, total: float = 0.0, upper: np.ndarray | float = np.inf) -> np.ndarray:
    """The point ``min(v_i exp(-t signs_i), upper_i)`` with ``signs'v = total``: the nearest one in relative entropy.

    Parameters
    ----------
    v : ndarray, shape (n,)
        Nonnegative.
    signs : ndarray of +-1, shape (n,)
    total : float
        In the units of ``v``.
    upper : float or ndarray, shape (n,)
    """

    signs = np.asarray(signs, dtype=float)

    def moved(shift: float) -> tuple[np.ndarray, np.ndarray]:
        free = _times(v, np.exp(-shift * signs))
        new = np.minimum(free, upper)
        return new, np.where(new == free, free, 0.0)

    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        return _falling_root(moved, signs, total, start=0.0, unit=1.0)[0]


def _falling_root(
    moved: Callable[[float], tuple[np.ndarray, np.ndarray]],
    signs: np.ndarray,
    total: float,
    *,
    start: float,
    unit: float,
) -> tuple[np.ndarray, float]:
    """The zero of ``t -> signs'x(t) - total``, which never rises; ``moved(t)`` gives ``x`` and ``-signs dx/dt``.

    Newton's step where it stays inside the bracket, else its middle, else a leap of growing length. Where the bracket is
    one number wide and the sum not met to rounding, the point is the mean of its ends that meets it.
    """
    ends: list[tuple[float, float, np.ndarray] | None] = [None, None]  # t, miss, x: below the zero, and above it
    leap, t, x = unit, start, np.zeros(0)
    for _ in range(200):
        x, rate = moved(t)
        miss, slope, scale = float(signs @ x) - total, float(rate.sum()), float(np.abs(x).sum()) + abs(total)
        if np.isinf(scale):
            # the sign of the infinite entries decides; 0 where both have some
            miss = float(np.isinf(x[signs > 0]).any()) - float(np.isinf(x[signs < 0]).any())
            slope = np.nan
        if np.isnan(scale) or abs(miss) <= 2.0 * EPS * scale:
            return x, t
        ends[0 if miss > 0 else 1] = (t, miss, x)
        low, high = ends
        following = t + miss / slope if slope > 0 else np.nan
        if low is None or high is None:
            if not (following > t if miss > 0 else following < t) or np.isinf(following):
                following = t + leap if miss > 0 else t - leap
                leap *= 4.0
        elif not low[0] < following < high[0]:
            following = 0.5 * low[0] + 0.5 * high[0]
            if following in (low[0], high[0]):
                part = low[1] / (low[1] - high[1])
                return low[2] + part * (high[2] - low[2]), t
        if not np.isfinite(following):
            break
        t = float(following)
    return x, t


def waiting_place(v: np.ndarray, slope_at_zero: np.ndarray, threshold: np.ndarray) -> np.ndarray:
    """Lower bounds of a step under footnote 2: a vanishing variable waits where zero meets the optimality conditions.

    The updates cannot reach zero and would shrink on for ever. A variable below its threshold whose derivative at zero
    is nonnegative is held where it is; it may grow again. Such a bound lies between the point and the minimum of the
    auxiliary function, so ``F`` still does not rise.

    Parameters
    ----------
    v, slope_at_zero, threshold : ndarray, shape (n,)
        Point; derivative of ``F`` where this variable alone is set to zero; size that counts as zero.

    Returns
    -------
    ndarray, shape (n,)
        At most ``v``; 0 where a variable may shrink freely.
    """
    return np.where(slope_at_zero >= 0, np.minimum(v, threshold), 0.0)
