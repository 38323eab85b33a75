"""One look over all samples of a margin machine: slopes, their extremes, who violates, and the two objectives."""

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.smo import FAST, lane_max, lane_min

FAR = 1e300  # stands for infinity, which the flags of a reduction do not allow


@njit(cache=True, fastmath=FAST)
def slopes_inplace(slope, x, f, signs, ridge, lower, upper, inside):
    """``slope = signs - f - ridge x``; the largest where x may rise and the smallest where it may fall, over all and inside; all (n,)."""
    high, low, high_inside, low_inside = -FAR, FAR, -FAR, FAR
    for t in range(len(x)):
        e = signs[t] - f[t] - ridge[t] * x[t]
        slope[t] = e
        up = e if x[t] < upper[t] else -FAR
        down = e if x[t] > lower[t] else FAR
        high = lane_max(high, up)
        low = lane_min(low, down)
        high_inside = lane_max(high_inside, up if inside[t] else -FAR)
        low_inside = lane_min(low_inside, down if inside[t] else FAR)
    return high, low, high_inside, low_inside


@njit(cache=True, fastmath=FAST)
def violators_inplace(worse, slope, x, lower, upper, inside, shift, least):
    """By how much each sample outside violates its condition, 0 inside; the number of those above ``least``; all (n,)."""
    count = 0
    for t in range(len(x)):
        e = slope[t] - shift
        up = e if x[t] < upper[t] else 0.0
        down = -e if x[t] > lower[t] else 0.0
        v = lane_max(lane_max(up, down), 0.0)
        v = 0.0 if inside[t] else v
        worse[t] = v
        count += v > least
    return count


@njit(cache=True, fastmath=FAST)
def objectives(x, f, signs, upper, ridge, shift):
    """``x'f``, ``sum |x|``, ``x' ridge x``, sum of C_i slack_i and of C_i slack_i^2 / 2 (``C_i = 1 / ridge_i``), smallest margin; all (n,).

    Infinite ``upper`` must come as zeros; samples with ``ridge`` 0 add nothing to the last sum.
    """
    q, total, squares, linear, quadratic, margin = 0.0, 0.0, 0.0, 0.0, 0.0, FAR
    for t in range(len(x)):
        m = signs[t] * (f[t] + shift)
        slack = lane_max(1.0 - m, 0.0)
        q += x[t] * f[t]
        total += signs[t] * x[t]
        squares += ridge[t] * x[t] * x[t]
        linear += upper[t] * slack
        r = ridge[t] if ridge[t] > 0.0 else FAR
        quadratic += 0.5 * slack * slack / r
        margin = lane_min(margin, m)
    return q, total, squares, linear, quadratic, margin
