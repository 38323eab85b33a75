"""Single exchanges of a primal active set: one variable enters at a time and moves with all free ones.

Between calls the point is stationary on the free set; each step moves the entering variable j by t and the free ones by
t z with ``A_FF z + E_F' mu = -A_Fj``, ``E_F z = -E_j``, which keeps it so.
"""

import math
from typing import NamedTuple

import numpy as np

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.free_factor import (
    constrain_inplace,
    constrained_solve_inplace,
    entry_column_inplace,
    is_needed,
    join_inplace,
    leave_inplace,
)
from bregmat._kernels.old.vectors import add_multiple_inplace, add_rows_inplace, copy_inplace, dot, fill_inplace

OPTIMAL, FULL, PAUSED, UNBOUNDED, DEFICIENT, INDEFINITE = 0, 1, 2, 3, 4, 5
LEAST = 1e-13  # pivot, relative to the diagonal, below which a variable stays outside the factor
FAR = 1e13  # times the largest variable: only rounding ends a step that is longer


class RunPoint(NamedTuple):
    """Where a run is, changed in place, and where its rows should be."""

    x: np.ndarray  # (n,)
    g: np.ndarray  # (n,): A x + b
    multiplier: np.ndarray  # (m,)
    target: np.ndarray  # (m,): E x


class Work(NamedTuple):
    """Memory of the solves: a kernel that makes arrays, or lets others do so, counts references at every use of one."""

    W: np.ndarray  # (m, room)
    S: np.ndarray  # (m, m)
    rest: np.ndarray  # (m, m)
    d: np.ndarray  # (room,)
    residual: np.ndarray  # (m,)
    mu: np.ndarray  # (m,)
    step: np.ndarray  # (n,)


def exchange_work(m: int, n: int, room: int) -> Work:
    """For m rows, n variables and a free set of at most ``room``."""
    shapes = (m, room), (m, m), (m, m), (room,), (m,), (m,), (n,)
    return Work(*map(np.empty, shapes))


@njit(cache=True)
def reduced_gradient(g, E, multiplier, i):
    """``g_i + E_i' multiplier``; g (n,), E (m, n), multiplier (m,)."""
    h = g[i]
    for r in range(len(E)):
        h += E[r, i] * multiplier[r]
    return h


@njit(cache=True)
def worst_outside(x, g, multiplier, free, problem):
    """The variable outside the free set whose condition is violated most for its weight, and its reduced gradient.

    x, g (n,), multiplier (m,); -1 where there is none.
    """
    worst, j, at = 0.0, -1, 0.0
    for i in range(len(x)):
        if free.position[i] >= 0:
            continue
        h = reduced_gradient(g, problem.E, multiplier, i)
        size = abs(h) * problem.weight[i]
        if size > worst and ((h < 0.0 and x[i] < problem.upper[i]) or (h > 0.0 and x[i] > 0.0)):
            worst, j, at = size, i, h
    return j, at


@njit(cache=True)
def first_blocked(x, d, free, upper, most):
    """The longest step along d that stays in the box, at most ``most``, and the place that blocks it (-1: none).

    x, upper (n,); d (k,) in the order of the free set.
    """
    t, p = most, -1
    for i in range(free.size[0]):
        v = free.order[i]
        if d[i] < 0.0:
            room = -x[v] / d[i]
        elif d[i] > 0.0:
            room = (upper[v] - x[v]) / d[i]
        else:
            continue
        if room < t or (room == t and p >= 0 and abs(d[i]) > abs(d[p])):
            t, p = max(room, 0.0), i
    return t, p


@njit(cache=True)
def move_inplace(x, d, t, free, upper):
    """``x_F += t d`` inside the box; x, upper (n,), d (k,)."""
    for i in range(free.size[0]):
        v = free.order[i]
        x[v] = min(max(x[v] + t * d[i], 0.0), upper[v])


@njit(cache=True)
def centre_inplace(place, work, free, problem):
    """To the minimum on the free set, as far as the box allows; what blocks leaves. False where E_F lost its rank.

    Arrays of the shapes in :class:`RunPoint`, :class:`Work`, ``FreeSet`` and ``Quadratic``; place and free are changed.
    """
    x, g, multiplier, target = place
    W, S, rest, d, residual, _, _ = work
    m = len(problem.E)
    for _ in range(len(free.order) + 1):
        if not constrain_inplace(W, S, free, problem):
            return False
        k = free.size[0]
        for r in range(m):
            residual[r] = target[r] - dot(problem.E[r], x)
        for i in range(k):
            d[i] = -g[free.order[i]]
        constrained_solve_inplace(d, multiplier, W, S, free, problem, residual)
        for r in range(m):
            multiplier[r] += problem.rho * residual[r]
        while True:
            t, p = first_blocked(x, d, free, problem.upper, 1.0)
            # E_F d = 0 says that d is 0, but for rounding, on a variable without which E_F would lose its rank
            if p < 0 or m == 0 or not is_needed(rest, W, S, free, p):
                break
            d[p] = 0.0
        if t > 0.0:
            move_inplace(x, d, t, free, problem.upper)
            for i in range(k):
                d[i] *= t
            add_rows_inplace(g, problem.A, free.order[:k], d[:k])
        if p < 0:
            return True
        v = free.order[p]
        x[v] = 0.0 if d[p] < 0.0 else problem.upper[v]
        leave_inplace(free, p)
    return True


@njit(cache=True)
def exchange_inplace(place, direction, counts, work, free, problem, tol, most):
    """Enter the most violated variable until none is violated by more than ``tol`` times ``sqrt(A_jj)``.

    Returns OPTIMAL, FULL (no room to join), PAUSED (``most`` steps), UNBOUNDED (along ``direction``), DEFICIENT (E_F
    lacks full row rank) or INDEFINITE (negative curvature along ``direction``). direction (n,), counts (1,): steps taken;
    work as :func:`exchange_work` makes it.
    Where ``direction`` comes in as 0, it keeps that of the first step so long that only rounding can have ended it.
    """
    x, g, multiplier, target = place
    m, n = problem.E.shape
    room = len(free.order)
    W, S, rest, z, residual, mu, step = work
    is_central = False
    for _ in range(most):
        is_looked_at = False
        while True:
            if not is_central:
                if not centre_inplace(place, work, free, problem):
                    return DEFICIENT
                is_central = True
                if is_looked_at:
                    break
            drift, is_looked_at = 0.0, True
            for i in range(free.size[0]):
                v = free.order[i]
                drift = max(drift, abs(reduced_gradient(g, problem.E, multiplier, v)) * problem.weight[v])
            if not drift > tol:
                break
            is_central = False
        counts[0] += 1
        j, h = worst_outside(x, g, multiplier, free, problem)
        if j < 0 or abs(h) * problem.weight[j] <= tol:
            return OPTIMAL
        if free.size[0] == room:
            return FULL
        sign = -1.0 if h > 0.0 else 1.0
        has_left, joins = False, False
        while True:
            if not constrain_inplace(W, S, free, problem):
                if not has_left:
                    return DEFICIENT
                # E_F needs a variable in place of the one that left: j moves along with it, so j is one
                joins, is_central = True, False
                break
            if has_left:
                h = reduced_gradient(g, problem.E, multiplier, j)
                if not -sign * h * problem.weight[j] > tol:
                    joins = 0.0 < x[j] < problem.upper[j]
                    break
            k = free.size[0]
            entry_column_inplace(z, problem, free.order, k, j)
            for i in range(k):
                z[i] = -z[i]
            for r in range(m):
                residual[r] = -problem.E[r, j]
            constrained_solve_inplace(z, mu, W, S, free, problem, residual)
            # curvature along (z, 1) from A itself: the factor's own figure loses digits where it matters
            copy_inplace(step, problem.A[j])
            add_rows_inplace(step, problem.A, free.order[:k], z[:k])
            curvature, size = step[j], math.sqrt(problem.A[j, j])
            for i in range(k):
                v = free.order[i]
                curvature += z[i] * step[v]
                size += abs(z[i]) * math.sqrt(problem.A[v, v])
                z[i] *= sign
            flat = 1e-15 * size * size
            is_falling = curvature < -1e-9 * size * size
            own = problem.upper[j] - x[j] if sign > 0.0 else x[j]
            newton = abs(h) / curvature if curvature > flat else np.inf
            longest = 0.0
            for i in range(k):
                longest = max(longest, abs(z[i]))
            while True:
                t, p = first_blocked(x, z, free, problem.upper, min(own, newton))
                if p < 0 or m == 0 or abs(z[p]) > 1e-11 * max(1.0, longest) or not is_needed(rest, W, S, free, p):
                    break
                z[p] = 0.0
            reach, is_kept = 0.0, False
            for i in range(n):
                reach = max(reach, x[i])
                is_kept = is_kept or direction[i] != 0.0
            if is_falling or t == np.inf or (t * max(1.0, longest) > FAR * reach > 0.0 and not is_kept):
                fill_inplace(direction, 0.0)
                direction[j] = sign
                for i in range(k):
                    direction[free.order[i]] = z[i]
                if is_falling or t == np.inf:
                    return INDEFINITE if is_falling else UNBOUNDED
            if t > 0.0:
                move_inplace(x, z, t, free, problem.upper)
                x[j] += sign * t
                add_multiple_inplace(g, step, sign * t)
                for r in range(m):
                    multiplier[r] += sign * t * mu[r]
            if p < 0:
                joins = own > newton
                if not joins:
                    x[j] = problem.upper[j] if sign > 0.0 else 0.0
                break
            v = free.order[p]
            x[v] = 0.0 if z[p] < 0.0 else problem.upper[v]
            counts[0] += 1
            leave_inplace(free, p)
            has_left = True
        if joins and not join_inplace(free, problem, j, LEAST) and not is_central:
            return DEFICIENT
    return PAUSED
