"""Greedy descent on box-constrained quadratics: one coordinate, or a pair where the sum is fixed (SMO).

Both solve ``min 1/2 x'K x - c'x, lower <= x <= upper`` and keep the negative gradient ``e = c - K x``; selection is by
second-order gain. A step is two streaming passes over a row, so it must run at memory speed: Numba's own ``max`` does not
vectorise as a reduction, ``lane_max`` below does, and the position of a maximum is looked up afterwards.
"""

import numpy as np

from bregmat._kernels.old.compiling import intrinsic, njit

# Without 'nnan' and 'nsz' LLVM must keep the order of a maximum, without 'reassoc' that of a sum.
FAST = {"nnan", "ninf", "nsz", "reassoc", "contract", "arcp"}


def _select(relation):
    """Typing and code of ``a if a <relation> b else b`` with the flags that let a reduction vectorise."""

    def lane(typing, a, b):
        from numba import types

        if not (isinstance(a, types.Float) and a == b):
            return None

        def code(context, builder, signature, arguments):
            left, right = arguments
            chosen = builder.fcmp_ordered(relation, left, right, flags=("fast",))
            return builder.select(chosen, left, right, flags=("fast",))

        return a(a, a), code

    return lane


@intrinsic(max)
def lane_max(typing, a, b):
    """The larger of two floats of one type; vectorises as a reduction."""
    return _select(">")(typing, a, b)


@intrinsic(min)
def lane_min(typing, a, b):
    """The smaller of two floats of one type; vectorises as a reduction."""
    return _select("<")(typing, a, b)


@njit(cache=True, fastmath=FAST)
def _position(v, value):
    """First index with ``v == value``, v (n,); the last one where there is none, as with NaN."""
    n = len(v)
    for start in range(0, n, 64):
        part, hits = v[start : min(start + 64, n)], 0
        for t in range(len(part)):
            hits += part[t] == value
        if hits > 0:
            for t in range(len(part)):
                if part[t] == value:
                    return start + t
    return n - 1


@njit(cache=True)
def _open_inplace(may_rise, may_fall, x, lower, upper, t, closed):
    """What is added to the slope of entry t for the two extremes: 0 where x may rise, or fall, else -1e30, or ``closed``; all (n,)."""
    kind = may_rise.dtype.type
    may_rise[t] = kind(0.0) if x[t] < upper[t] else kind(-1e30)
    may_fall[t] = kind(0.0) if x[t] > lower[t] else kind(closed)


@njit(cache=True, fastmath=FAST)
def _move_pair_inplace(rising, e, Ki, Kj, step, may_rise, may_fall):
    """``e -= step (Ki - Kj)`` and ``rising = e + may_rise``, all (n,); returns max of that and min over those that may fall."""
    kind = e.dtype.type
    high, low = kind(-1e30), kind(1e30)
    for t in range(len(e)):
        v = e[t] - step * kind(Ki[t] - Kj[t])
        e[t] = v
        up = v + may_rise[t]
        rising[t] = up
        high = lane_max(high, up)
        low = lane_min(low, v + may_fall[t])
    return high, low


@njit(cache=True, fastmath=FAST)
def _pair_gain_inplace(gain, e, Ki, diagonal, may_fall, high, own, floor):
    """Second-order gain (n,) of pairing i with every t that may fall: ``(e_i - e_t)^2 / (K_ii + K_tt - 2 K_it)``."""
    kind = e.dtype.type
    best, zero, two = kind(-1.0), kind(0.0), kind(2.0)
    for t in range(len(e)):
        d = lane_max(high - e[t] - may_fall[t], zero)
        g = d * d / lane_max(own + diagonal[t] - two * kind(Ki[t]), floor)
        gain[t] = g
        best = lane_max(best, g)
    return best


@njit(cache=True)
def _least_curvature(diagonal):
    """What stands for a curvature that is zero, or negative, but for rounding: a few units of that of the largest entry of (n,)."""
    kind, largest = diagonal.dtype.type, diagonal.dtype.type(1e-20)
    for t in range(len(diagonal)):
        largest = max(largest, abs(diagonal[t]))
    one, unit = kind(1.0), kind(1.0)
    while one + kind(0.5) * unit > one:
        unit *= kind(0.5)
    return largest * unit * kind(4.0)


def descent_work(e):
    """Memory of the two methods below for ``e`` of shape (n,): a kernel that makes arrays counts references at every use of one."""
    return tuple(np.empty(len(e), e.dtype) for _ in range(4))


@njit(cache=True)
def smo_inplace(work, x, e, K, diagonal, lower, upper, tol, max_iter):
    """Sequential minimal optimisation: pairs move so that ``sum(x)`` stays what it is.

    ``work`` is that of :func:`descent_work`.
    ``x`` (n,) float64 and ``e = c - K x`` (n,) are overwritten; ``diagonal`` is that of ``K`` (n, n), in the dtype of ``e``,
    which may be a shorter one than that of ``K``; bounds float64, inf allowed. Stops when ``max e over x < upper`` minus
    ``min e over x > lower`` is at most ``tol``.
    Returns the number of steps and those two values. Selection: Fan, Chen, Lin 2005, "WSS 2". A NaN runs to ``max_iter``.
    """
    n = len(x)
    kind = e.dtype.type
    may_rise, may_fall, gain = work[0], work[1], work[2]
    for t in range(n):
        _open_inplace(may_rise, may_fall, x, lower, upper, t, 1e30)
    floor = _least_curvature(diagonal)
    steps, i, j, step = 0, 0, 0, 0.0
    while True:
        high, low = _move_pair_inplace(gain, e, K[i], K[j], kind(step), may_rise, may_fall)
        if steps >= max_iter or high - low <= tol or high < kind(-1e29) or low > kind(1e29):
            return steps, high, low
        i = _position(gain, high)
        best = _pair_gain_inplace(gain, e, K[i], diagonal, may_fall, high, diagonal[i], floor)
        j = _position(gain, best)
        curvature = max(diagonal[i] + diagonal[j] - kind(2.0) * kind(K[i, j]), floor)
        step = np.float64(high - e[j]) / np.float64(curvature)
        room_i, room_j = upper[i] - x[i], x[j] - lower[j]
        step = min(step, room_i, room_j)
        x[i] = upper[i] if step == room_i else x[i] + step
        x[j] = lower[j] if step == room_j else x[j] - step
        _open_inplace(may_rise, may_fall, x, lower, upper, i, 1e30)
        _open_inplace(may_rise, may_fall, x, lower, upper, j, 1e30)
        steps += 1


@njit(cache=True, fastmath=FAST)
def _move_one_inplace(gain, e, Ki, step, may_rise, may_fall, inverse):
    """``e -= step Ki``, all (n,), then the gain of every coordinate; returns the largest gain and the largest violation."""
    kind = e.dtype.type
    best, worst, zero = kind(-1.0), kind(0.0), kind(0.0)
    for t in range(len(e)):
        v = e[t] - step * kind(Ki[t])
        e[t] = v
        d = lane_max(lane_max(v + may_rise[t], zero), may_fall[t] - v)
        g = d * d * inverse[t]
        gain[t] = g
        best = lane_max(best, g)
        worst = lane_max(worst, d)
    return best, worst


@njit(cache=True)
def greedy_descent_inplace(work, x, e, K, diagonal, lower, upper, tol, max_iter):
    """Coordinate descent by the largest second-order gain, for ``min 1/2 x'K x - c'x, lower <= x <= upper``.

    ``work`` is that of :func:`descent_work`.
    For a quadratic program ``min 1/2 x'A x + b'x`` call it with ``K = A`` and ``e = -(A x + b)``; ``A`` may be singular.
    ``x`` (n,) float64 and ``e`` (n,) are overwritten; ``diagonal`` is that of ``K`` (n, n), in the dtype of ``e``, which may be a
    shorter one than that of ``K`` (a zero there sends its coordinate to its bound, which must be finite then); bounds
    float64, inf allowed.
    Stops when no feasible coordinate has a slope above ``tol``. Returns the number of steps and the largest slope left.
    ``e`` drifts by rounding: recompute it every few thousand steps where that matters. A NaN runs to ``max_iter``.
    """
    n = len(x)
    kind = e.dtype.type
    may_rise, may_fall, gain, inverse = work[0], work[1], work[2], work[3]
    floor = _least_curvature(diagonal)
    for t in range(n):
        _open_inplace(may_rise, may_fall, x, lower, upper, t, -1e30)
        inverse[t] = kind(1.0) / max(diagonal[t], floor)
    steps, i, step = 0, 0, 0.0
    while True:
        best, worst = _move_one_inplace(gain, e, K[i], kind(step), may_rise, may_fall, inverse)
        if steps >= max_iter or worst <= tol:
            return steps, worst
        i = _position(gain, best)
        target = x[i] + np.float64(e[i]) * np.float64(inverse[i])
        target = min(max(target, lower[i]), upper[i])
        step = target - x[i]
        x[i] = target
        _open_inplace(may_rise, may_fall, x, lower, upper, i, -1e30)
        steps += 1
