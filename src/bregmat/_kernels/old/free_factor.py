"""The upper Cholesky factor of ``A_FF + rho E_F' E_F`` while variables join and leave the free set F, one at a time.

The factor is kept by rows, ``U' U``, in the leading k x k block of an array with room to grow: joining, leaving and both
triangular solves then run along rows.
"""

import math
from typing import NamedTuple

import numpy as np

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.vectors import add_multiple_inplace, copy_inplace, dot, fill_inplace


class FreeSet(NamedTuple):
    """The free variables in the order of their factor."""

    U: np.ndarray  # (room, room): upper factor in the leading block
    order: np.ndarray  # (room,) int64: variables
    position: np.ndarray  # (n,) int64: place in order, -1 outside
    size: np.ndarray  # (1,) int64
    spare: np.ndarray  # (room,): memory for joining and leaving


class Quadratic(NamedTuple):
    """What does not change."""

    A: np.ndarray  # (n, n)
    upper: np.ndarray  # (n,)
    E: np.ndarray  # (m, n)
    weight: np.ndarray  # (n,): 1 / sqrt(A_ii), the unit in which gradients are compared
    rho: float  # weight of E'E in the factor; E d = 0 for every step d, so that steps do not depend on it


@njit(cache=True)
def gather_upper_inplace(M, A, E, rho, rows):
    """Upper triangle of ``A_FF + rho E_F' E_F``; M (k, k), A (n, n), E (m, n), rows (k,)."""
    for i in range(len(rows)):
        source, out = A[rows[i]], M[i]
        for j in range(i, len(rows)):
            out[j] = source[rows[j]]
        for r in range(len(E)):
            c = rho * E[r, rows[i]]
            if c != 0.0:
                for j in range(i, len(rows)):
                    out[j] += c * E[r, rows[j]]


@njit(cache=True)
def entry_column_inplace(column, problem, order, k, j):
    """``(A + rho E'E)_{F j}`` into column; shapes column, order (>= k,); returns the diagonal entry of j."""
    source = problem.A[j]
    diagonal = source[j]
    for i in range(k):
        column[i] = source[order[i]]
    for r in range(len(problem.E)):
        c = problem.rho * problem.E[r, j]
        diagonal += c * problem.E[r, j]
        for i in range(k):
            column[i] += c * problem.E[r, order[i]]
    return diagonal


@njit(cache=True)
def forward_inplace(b, U, k):
    """``U'^-1 b``; shapes b (>= k,), U (>= k, >= k)."""
    for i in range(k):
        b[i] /= U[i, i]
        add_multiple_inplace(b[i + 1 : k], U[i, i + 1 : k], -b[i])


@njit(cache=True)
def backward_inplace(b, U, k):
    """``U^-1 b``; shapes b (>= k,), U (>= k, >= k)."""
    for i in range(k - 1, -1, -1):
        b[i] = (b[i] - dot(U[i, i + 1 : k], b[i + 1 : k])) / U[i, i]


@njit(cache=True)
def solve_inplace(b, U, k):
    """``(U'U)^-1 b``; shapes b (>= k,), U (>= k, >= k)."""
    forward_inplace(b, U, k)
    backward_inplace(b, U, k)


@njit(cache=True)
def squared_length(U, k, d):
    """``|U d|^2``, the curvature along d; shapes d (>= k,), U (>= k, >= k)."""
    total = 0.0
    for i in range(k):
        part = dot(U[i, i:k], d[i:k])
        total += part * part
    return total


@njit(cache=True)
def join_inplace(free, problem, j, least):
    """Variable j joins the free set; False, with nothing changed, where its pivot is below ``least`` of its diagonal.

    Arrays of the shapes in :class:`FreeSet` and :class:`Quadratic`.
    """
    U, k = free.U, free.size[0]
    column = free.spare
    diagonal = entry_column_inplace(column, problem, free.order, k, j)
    forward_inplace(column, U, k)
    pivot = diagonal - dot(column[:k], column[:k])
    if not pivot > least * diagonal:
        return False
    for i in range(k):
        U[i, k] = column[i]
    U[k, k] = math.sqrt(pivot)
    free.order[k] = j
    free.position[j] = k
    free.size[0] = k + 1
    return True


@njit(cache=True)
def leave_inplace(free, p):
    """The variable at place p leaves: its row of the factor is rotated into the rows below it; shapes as in :class:`FreeSet`."""
    U, k = free.U, free.size[0]
    w = free.spare[: k - p - 1]
    copy_inplace(w, U[p, p + 1 : k])
    for i in range(p):
        row = U[i]
        for t in range(p, k - 1):
            row[t] = row[t + 1]
    for i in range(p + 1, k):
        q = i - p - 1
        # math.hypot is a function that numba compiles by itself
        larger = max(abs(U[i, i]), abs(w[q]))
        c, s = U[i, i] / larger, w[q] / larger
        r = math.sqrt(c * c + s * s)
        c, s = c / r, s / r
        source, out, rest = U[i, i:k], U[i - 1, i - 1 : k - 1], w[q:]
        for t in range(k - i):
            a, b = source[t], rest[t]
            out[t] = c * a + s * b
            rest[t] = c * b - s * a
    free.position[free.order[p]] = -1
    for t in range(p, k - 1):
        free.order[t] = free.order[t + 1]
        free.position[free.order[t]] = t
    free.size[0] = k - 1


@njit(cache=True)
def constrain_inplace(W, S, free, problem):
    """Rows ``W = (M^-1 E_F')'`` and the Cholesky factor of ``E_F M^-1 E_F'``; False where E_F lacks full row rank.

    W (m, >= k), S (m, m).
    """
    k = free.size[0]
    for r in range(len(problem.E)):
        for i in range(k):
            W[r, i] = problem.E[r, free.order[i]]
        solve_inplace(W[r], free.U, k)
    for r in range(len(problem.E)):
        for q in range(r + 1):
            total = 0.0
            for i in range(k):
                total += W[q, i] * problem.E[r, free.order[i]]
            S[r, q] = total
    return small_cholesky_inplace(S)


@njit(cache=True)
def small_cholesky_inplace(S):
    """Lower factor in the lower triangle of S (m, m); False where a pivot is tiny beside its diagonal entry."""
    for r in range(len(S)):
        whole = S[r, r]
        for q in range(r + 1):
            for t in range(q):
                S[r, q] -= S[r, t] * S[q, t]
            if q < r:
                S[r, q] /= S[q, q]
        if not S[r, r] > 1e-10 * whole:
            return False
        S[r, r] = math.sqrt(S[r, r])
    return True


@njit(cache=True)
def is_needed(rest, W, S, free, p):
    """Whether E_F would lack full row rank without the variable at place p; W (m, >= k), S (m, m), rest (m, m) overwritten."""
    k, m = free.size[0], len(S)
    unit = free.spare[:k]
    fill_inplace(unit, 0.0)
    unit[p] = 1.0
    solve_inplace(unit, free.U, k)
    for r in range(m):
        whole = 0.0
        for q in range(r + 1):
            total = 0.0
            for t in range(q + 1):
                total += S[r, t] * S[q, t]
            rest[r, q] = total - W[r, p] * W[q, p] / unit[p]
            if q == r:
                whole = total
        if not rest[r, r] > 1e-10 * whole:
            return True
    return not small_cholesky_inplace(rest)


@njit(cache=True)
def small_solve_inplace(b, S):
    """``(S S')^-1 b`` from a lower factor; b (m,), S (m, m)."""
    for r in range(len(S)):
        for t in range(r):
            b[r] -= S[r, t] * b[t]
        b[r] /= S[r, r]
    for r in range(len(S) - 1, -1, -1):
        for t in range(r + 1, len(S)):
            b[r] -= S[t, r] * b[t]
        b[r] /= S[r, r]


@njit(cache=True)
def constrained_solve_inplace(d, multiplier, W, S, free, problem, residual):
    """``M d + E_F' multiplier = rhs`` and ``E_F d = residual``; d holds the right-hand side.

    d (>= k,), multiplier, residual (m,), W (m, >= k), S (m, m) from :func:`constrain_inplace`.
    """
    k = free.size[0]
    solve_inplace(d, free.U, k)
    for r in range(len(problem.E)):
        total = 0.0
        for i in range(k):
            total += problem.E[r, free.order[i]] * d[i]
        multiplier[r] = total - residual[r]
    small_solve_inplace(multiplier, S)
    for r in range(len(problem.E)):
        add_multiple_inplace(d[:k], W[r, :k], -multiplier[r])


@njit(cache=True)
def clipped_sum(z, row, mu, upper):
    """``row . clip(z - mu row, 0, upper)``; z, row, upper (n,)."""
    total = 0.0
    for i in range(len(z)):
        if row[i] != 0.0:
            total += row[i] * min(max(z[i] - mu * row[i], 0.0), upper[i])
    return total


@njit(cache=True)
def onto_row(z, row, total, upper):
    """``clip(z - mu row, 0, upper)`` with ``row . x = total``, mu by bisection to the last digit; row is not 0.

    Where the box does not allow that total, the point of the box nearest to it along the way. z, row, upper and the point: (n,).
    """
    largest, smallest, strongest = abs(total), np.inf, 0.0
    for i in range(len(z)):
        largest = max(largest, abs(z[i]))
        if row[i] != 0.0:
            smallest = min(smallest, abs(row[i]))
            strongest = max(strongest, abs(row[i]))
    step = (1.0 + largest) / strongest
    hi, lo = 0.0, 0.0
    # beyond it every variable with a bound sits at one
    far = 4.0 * step * (strongest / smallest) ** 2
    while hi < far and clipped_sum(z, row, hi, upper) > total:
        hi, step = hi + step, 2.0 * step
    step = (1.0 + largest) / strongest
    for i in range(len(z)):
        if row[i] != 0.0 and upper[i] < np.inf:
            far = max(far, 2.0 * (abs(z[i]) + upper[i]) / smallest)
    while lo > -far and clipped_sum(z, row, lo, upper) < total:
        lo, step = lo - step, 2.0 * step
    for _ in range(200):
        mu = 0.5 * (lo + hi)
        if mu in (lo, hi):
            break
        if clipped_sum(z, row, mu, upper) > total:
            lo = mu
        else:
            hi = mu
    x = np.empty(len(z))
    for i in range(len(z)):
        x[i] = min(max(z[i] - hi * row[i], 0.0), upper[i])
    return x
