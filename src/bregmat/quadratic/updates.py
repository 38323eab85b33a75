"""One step of the multiplicative updates: Sha, Saul and Lee 2002, eq. 3 to 12, with bounds and with a sum constraint.

They minimise ``F(v) = 1/2 v'Av + b'v`` over ``v >= 0``. A step needs ``A`` only through ``positive = A+ v`` and
``negative = A- v`` for some ``A = A+ - A-`` with nonnegative entries (eq. 2).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bregmat._kernels import tiles
from bregmat.base.threads import in_parts
from bregmat.base.tolerances import EPS


def positive_negative(A: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``(A+ v, A- v)`` of eq. 2, shapes (n,), for a symmetric A of C-contiguous float64 and v >= 0, in one pass over A.

    The pass computes ``A v`` and ``|A| v``; ``A+ v`` is half their sum and ``A- v`` half the difference. Sha 2002, section 2.1, stores A+
    and A-, which reads twice as much.
    """
    x = np.ascontiguousarray(v, dtype=np.float64)
    p, q = np.empty((2, len(x)))
    in_parts(lambda *part: tiles.signed_pass_inplace(p, q, A, x, *part), len(x), A.size, 4)
    # half the difference of two sums may be negative by rounding
    return p, np.maximum(q, 0.0)


def factors(b: np.ndarray, *, positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """Factors of the variables: ``(-b + sqrt(b^2 + 4 (A+ v)(A- v))) / (2 A+ v)`` (eq. 5), shape (n,).

    If ``A+ v = 0``, the factor is the limit: inf for ``b < 0`` (the objective falls without bound), else 0 if also ``A- v = 0``.
    It is NaN if an argument is NaN.
    """
    # hypot, because squares may overflow
    r, up = np.hypot(b, 2.0 * np.sqrt(positive) * np.sqrt(negative)), b > 0
    # For b > 0 the equal form 2 (A- v) / (b + r) avoids cancellation.
    top, bottom = np.where(up, 2.0 * negative, r - b), np.where(up, b + r, 2.0 * positive)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
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

    It minimises the auxiliary function (eq. 12) over the box exactly, so that ``F`` does not rise if ``lower <= v <= upper``.
    The auxiliary function is a sum of convex functions of one variable each, so any subset of the variables may be updated.
    An entry of the new point is inf if the objective falls without bound along that variable.

    Parameters
    ----------
    v, b, positive, negative, lower, upper : ndarray, shape (n,)
        Point, linear term, ``A+ v`` and ``A- v`` at the whole of v, and bounds.
    """
    eta = factors(b, positive=positive, negative=negative)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        return np.clip(_times(v, eta), lower, upper)


def _times(v: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """``v eta`` with ``0 inf = 0``, so that a variable at zero stays there; NaN stays NaN."""
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
    """One update under ``signs'v = total``; the multiplier is the intercept of a margin machine.

    With ``b_i + multiplier signs_i`` in place of ``b_i`` in eq. 3, the sum of the new point falls as the multiplier grows. A
    safeguarded Newton iteration finds the multiplier for which the sum is the total. The new point minimises the auxiliary
    function over box and constraint, so ``F`` does not rise if ``v`` satisfies both.

    Parameters
    ----------
    v, b, positive, negative, signs, total, lower, upper, multiplier
        As for :func:`step`; ``signs`` are coefficients, +-1 for a machine. The search starts at ``multiplier``, that of the
        previous update.

    Returns
    -------
    (ndarray, float)
        The new point and its multiplier.
    """
    side = 2.0 * np.sqrt(positive) * np.sqrt(negative)
    signs = np.asarray(signs, dtype=float)

    def moved(shift: float) -> tuple[np.ndarray, np.ndarray]:
        """The point of a multiplier, and ``v eta / sqrt(...)``, its negative derivative times the sign, 0 at bounds."""
        c = b + shift * signs
        free = _times(v, factors(c, positive=positive, negative=negative))
        new = np.clip(free, lower, upper)
        return new, np.where((new == free) & (free > 0), signs**2 * free / np.hypot(c, side), 0.0)

    unit = float(np.abs(b).max(initial=0.0)) or 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _falling_root(moved, signs, total, start=multiplier, unit=unit)


def spread(v: np.ndarray, *, signs: np.ndarray, total: float = 0.0, upper: np.ndarray | float = np.inf) -> np.ndarray:
    """The point ``min(v_i exp(-t signs_i), upper_i)`` with ``signs'v = total``, which is the nearest one in relative entropy.

    Parameters
    ----------
    v, signs, total, upper
        v is nonnegative, and ``signs`` are any coefficients.
    """
    signs = np.asarray(signs, dtype=float)

    def moved(shift: float) -> tuple[np.ndarray, np.ndarray]:
        free = _times(v, np.exp(-shift * signs))
        new = np.minimum(free, upper)
        return new, np.where(new == free, signs**2 * free, 0.0)

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
    """The root of ``t -> signs'x(t) - total``, which never rises; ``moved(t)`` returns ``x`` and ``-signs dx/dt``.

    Each step is Newton's step if it stays inside the bracket, else bisection; without a bracket, a step of growing length. If no
    number lies between the ends of the bracket, the result is their weighted mean with the required sum.
    """
    ends: list[tuple[float, float, np.ndarray] | None] = [None, None]  # (t, miss, x) below and above the root
    leap, t, x = unit, start, np.zeros(0)
    for _ in range(200):
        x, rate = moved(t)
        miss, slope, scale = float(signs @ x) - total, float(rate.sum()), float(np.abs(signs) @ np.abs(x)) + abs(total)
        if not np.isfinite(scale) or abs(miss) <= 2.0 * EPS * scale:
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


def clamped_lower(v: np.ndarray, slope_at_zero: np.ndarray, threshold: np.ndarray) -> np.ndarray:
    """Lower bounds of a step under footnote 2, at which vanishing variables stop if zero satisfies their optimality condition.

    The updates cannot reach zero, so a variable whose optimum is zero would shrink forever. A variable below its threshold whose
    derivative at zero is nonnegative keeps its value; it may grow again. Such a bound lies between the point and the minimum of the
    auxiliary function, so ``F`` still does not rise.

    ``slope_at_zero`` is the derivative of ``F`` if this variable alone is set to zero, ``threshold`` the size that counts as zero.
    """
    return np.where(slope_at_zero >= 0, np.minimum(v, threshold), 0.0)
