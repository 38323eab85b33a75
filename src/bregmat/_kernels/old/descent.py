"""Coordinate descent on ``1/2 x'Ax + b'x`` in a box, and what is asked of A before anything else."""

import math

import numpy as np

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.vectors import add_multiple_inplace, dot

TILE = 64
FINE, NOT_FINITE, NOT_SYMMETRIC, NOT_DEFINITE = 0, 1, 2, 3


@njit(cache=True)
def sweep_inplace(x, g, A, upper, relaxation):
    """One coordinate after another, ``relaxation`` times the way to its minimum; returns the decrease of the objective
    and how many went to a bound or left one. x, g = A x + b, upper (n,), A (n, n); x and g are changed."""
    gain, changed = 0.0, 0
    for i in range(len(x)):
        d = A[i, i]
        if not d > 0.0:
            continue
        new = min(max(x[i] - relaxation * g[i] / d, 0.0), upper[i])
        move = new - x[i]
        if move != 0.0:
            gain -= move * (g[i] + 0.5 * move * d)
            if (x[i] == 0.0) != (new == 0.0) or (x[i] == upper[i]) != (new == upper[i]):
                changed += 1
            x[i] = new
            add_multiple_inplace(g, A[i], move)
    return gain, changed


@njit(cache=True)
def greedy_inplace(x, g, A, upper, tol, most):
    """Minimise over the coordinate that gains most, until no condition is violated by more than ``tol``; returns the steps.

    x, g = A x + b, upper (n,), A (n, n); x and g are changed.
    """
    for step in range(most):
        best, j, goal, worst = 0.0, -1, 0.0, 0.0
        for i in range(len(x)):
            if (g[i] < 0.0 and x[i] < upper[i]) or (g[i] > 0.0 and x[i] > 0.0):
                if A[i, i] <= 0.0:
                    continue
                worst = max(worst, abs(g[i]))
                new = min(max(x[i] - g[i] / A[i, i], 0.0), upper[i])
                move = new - x[i]
                gain = -move * (g[i] + 0.5 * move * A[i, i])
                if gain > best:
                    best, j, goal = gain, i, new
        if j < 0 or worst <= tol:
            return step
        move = goal - x[j]
        x[j] = goal
        add_multiple_inplace(g, A[j], move)
    return most


@njit(cache=True)
def row_products_inplace(out, A, rows, v):
    """``out[rows] = A[rows] v``; out, v (n,), A (n, n), rows (k,)."""
    for i in rows:
        out[i] = dot(A[i], v)


@njit(cache=True)
def gather_triangle_inplace(M, A, rows):
    """Upper triangle of ``A[rows][:, rows]`` in the precision of M; M (k, k), A (n, n), rows (k,)."""
    for i in range(len(rows)):
        source, out = A[rows[i]], M[i]
        for j in range(i, len(rows)):
            out[j] = source[rows[j]]


@njit(cache=True)
def inspect(A, tol, slack):
    """First reason why A (n, n) is not finite, symmetric and positive semidefinite that its 2 x 2 minors show, with the entry."""
    n = len(A)
    largest = 0.0
    root = np.empty(n)
    for i in range(n):
        if not math.isfinite(A[i, i]):
            return NOT_FINITE, i, i
        largest = max(largest, abs(A[i, i]))
    floor = 1e-14 * largest
    for i in range(n):
        if A[i, i] < -floor:
            return NOT_DEFINITE, i, i
        root[i] = math.sqrt(max(A[i, i], 0.0))
    for top in range(0, n, TILE):
        for left in range(0, top + TILE, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i)):
                    size = root[i] * root[j] + floor
                    # written so that NaN and infinity fail
                    if not (abs(A[i, j] - A[j, i]) <= tol * size and abs(A[i, j]) <= (1.0 + slack) * size):
                        if not (math.isfinite(A[i, j]) and math.isfinite(A[j, i])):
                            return NOT_FINITE, i, j
                        if not abs(A[i, j] - A[j, i]) <= tol * max(size, abs(A[i, j])):
                            return NOT_SYMMETRIC, i, j
                        if not abs(A[i, j]) <= (1.0 + slack) * size:
                            return NOT_DEFINITE, i, j
    return FINE, 0, 0
