"""Steps onto one linear row for the relative entropy of vectors, in log space. No fastmath: exponentials of both signs meet here."""

import numpy as np

from bregmat._kernels.old.compiling import njit


@njit(cache=True)
def log_side(u, a, w, constant, t):
    """``log(constant + sum_k w_k exp(u_k - t a_k))`` over ``w_k > 0`` and its derivative in t; (-inf, 0) if that is empty; u, a, w (n,)."""
    shift = 0.0 if constant > 0 else -np.inf
    for k in range(len(u)):
        if w[k] > 0:
            shift = max(shift, u[k] - t * a[k])
    if shift == -np.inf:
        return -np.inf, 0.0
    total, moment = constant * np.exp(-shift), 0.0
    for k in range(len(u)):
        if w[k] > 0:
            e = w[k] * np.exp(u[k] - t * a[k] - shift)
            total += e
            moment += e * a[k]
    return shift + np.log(total), -moment / total


@njit(cache=True)
def balance(u, a, up, up_constant, down, down_constant, tol):
    """Zero t of ``log(up side) - log(down side)``, which falls in t; +-inf where a side is empty.

    Newton's method on the difference of logarithms, nearly linear in t unless one entry outweighs all others on both sides;
    there it is flat, and steps of limited length and bisection take over. ``tol`` bounds the last change of an exponent
    ``t a_k``. Returns the zero and the number of evaluations.
    """
    left, right, t, last, size, top, bottom = -np.inf, np.inf, 0.0, np.inf, 1e-300, -np.inf, np.inf
    for k in range(len(a)):
        size, top, bottom = max(size, abs(a[k])), max(top, u[k]), min(bottom, u[k])
    reach = (10.0 + top - bottom) / size
    for evaluations in range(1, 301):
        above, rise = log_side(u, a, up, up_constant, t)
        below, fall = log_side(u, a, down, down_constant, t)
        if above == -np.inf or below == -np.inf:
            return (np.inf if below == -np.inf else -np.inf), evaluations
        value, slope = above - below, rise - fall
        if value == 0:
            return t, evaluations
        if value > 0:
            left = t
        else:
            right = t
        change = -value / slope if slope < 0 else np.copysign(np.inf, value)
        if abs(change) > reach:
            change = np.copysign(reach, value)
            reach *= 4.0
        new = t + change
        slow = abs(value) > 0.5 * last
        last = abs(value)
        if right - left < np.inf and (slow or not left < new < right):
            new = 0.5 * (left + right)
        if abs(new - t) * size <= tol or new == t:
            return new, evaluations
        t = new
    return t, 300
