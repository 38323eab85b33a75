"""The small routines on vectors and rows that the other kernels are made of.

They are compiled on their own and into their callers: a callee without ``fastmath`` of its own would inherit that of its
caller, so each says which it wants, and none drops NaN or infinities. Copies are loops: ``out[:] = row`` makes numba compile
an error message about shapes, for seconds.
"""

import math

from bregmat._kernels.old.compiling import njit

REORDER = {"reassoc", "contract", "nsz"}  # sums in any order; NaN and infinities as they are


@njit(cache=True, fastmath=REORDER)
def dot(a, b):
    """``a . b``; shapes (n,), real."""
    total = 0.0
    for t in range(len(a)):
        total += a[t] * b[t]
    return total


@njit(cache=True, fastmath=False)
def copy_inplace(out, row):
    """``out = row``; shapes (n,), row (n,) or longer."""
    for t in range(len(out)):
        out[t] = row[t]


@njit(cache=True, fastmath=False)
def fill_inplace(out, value):
    """``out = value``; shape (n,)."""
    for t in range(len(out)):
        out[t] = value


@njit(cache=True, fastmath=False)
def copy_rows_inplace(out, A):
    """``out = A``; shapes (m, n)."""
    for i in range(len(out)):
        copy_inplace(out[i], A[i])


@njit(cache=True, fastmath=False)
def copy_transposed_inplace(out, A):
    """``out = A'``; shapes (m, n), (n, m)."""
    for i in range(len(out)):
        target = out[i]
        for j in range(len(target)):
            target[j] = A[j, i]


@njit(cache=True, fastmath=False)
def sum_of_exp(lam):
    """``sum_i exp(lam_i)``, from the first to the last; lam (n,)."""
    total = 0.0
    for i in range(len(lam)):
        total += math.exp(lam[i])
    return total


@njit(cache=True, fastmath=False)
def add_multiple_inplace(out, row, c):
    """``out += c row``; shapes (n,), real or complex."""
    for t in range(len(out)):
        out[t] += c * row[t]


@njit(cache=True, fastmath=REORDER)
def add_rows_inplace(out, A, rows, weights):
    """``out += weights @ A[rows]`` without the copy ``A[rows]``, out (n,) in float64, A (m, n), rows and weights (k,).

    Four rows at a time are added in the dtype of A, their sum in float64: a quarter of the traffic of one by one.
    """
    n, m = out.shape[0], len(rows)
    for start in range(0, n, 2048):
        stop = min(start + 2048, n)
        target, k = out[start:stop], 0
        while k + 4 <= m:
            a, b = A[rows[k], start:stop], A[rows[k + 1], start:stop]
            c, d = A[rows[k + 2], start:stop], A[rows[k + 3], start:stop]
            wa, wb, wc, wd = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
            for j in range(stop - start):
                target[j] += wa * a[j] + wb * b[j] + wc * c[j] + wd * d[j]
            k += 4
        while k < m:
            a, wa = A[rows[k], start:stop], weights[k]
            for j in range(stop - start):
                target[j] += wa * a[j]
            k += 1


@njit(cache=True)
def gather_inplace(out, A, rows, columns):
    """``out = A[rows][:, columns]`` in the dtype of out; shapes (k, l), (m, n), (k,), (l,)."""
    for i in range(len(rows)):
        target, source = out[i], A[rows[i]]
        for j in range(len(columns)):
            target[j] = source[columns[j]]


@njit(cache=True)
def mirror_inplace(K, old, new, tile):
    """``K[:old, old:new] = K[old:new, :old]'``, K (n, n), tile by tile through ``tile`` (64, 64): columns of K share cache sets."""
    for i0 in range(old, new, 64):
        i1 = min(i0 + 64, new)
        for j0 in range(0, old, 64):
            j1 = min(j0 + 64, old)
            for i in range(i0, i1):
                source = K[i, j0:j1]
                for j in range(j1 - j0):
                    tile[j, i - i0] = source[j]
            for j in range(j0, j1):
                target, values = K[j, i0:i1], tile[j - j0]
                for i in range(i1 - i0):
                    target[i] = values[i]
