"""Gathers over pairs of rows. A pair stands for the vector ``z_a + s z_b``; nothing of size c x r is formed.

Most of ``fastmath`` is on: sums of r products in any order, see benchmarks/bench_million.py for the gain. The interpreter is let go,
so that threads may share a loop (:mod:`bregmat.threads`); an entry does not depend on the others.
"""

import numpy as np

from bregmat._kernels.old.compiling import njit

FAST = {"reassoc", "contract", "nsz", "arcp"}  # all of fastmath but its licence to drop NaN and infinity


@njit(fastmath=FAST, cache=True, nogil=True)
def sq_norms_inplace(out, Z, a, b, sign):
    """``out_i = |z_a + s z_b|^2``; out, a, b, sign (c,), Z (n, r)."""
    for i in range(len(a)):
        za, zb, s = Z[a[i]], Z[b[i]], Z.dtype.type(sign[i])
        total = 0.0
        for k in range(Z.shape[1]):
            d = za[k] + s * zb[k]
            total += d * d
        out[i] = total


@njit(fastmath=FAST, cache=True, nogil=True)
def bilinear_inplace(out, Z, Y, a, b, sign):
    """``out_i = (z_a + s z_b) . (y_a + s y_b)``."""
    for i in range(len(a)):
        za, zb, ya, yb, s = Z[a[i]], Z[b[i]], Y[a[i]], Y[b[i]], Z.dtype.type(sign[i])
        total = Z.dtype.type(0.0)
        for k in range(Z.shape[1]):
            total += (za[k] + s * zb[k]) * (ya[k] + s * yb[k])
        out[i] = total


@njit(fastmath=FAST, cache=True, nogil=True)
def laplacian_product_inplace(out, ptr, other, sign, w, Z, start, stop):
    """``out_u = sum over terms at u of w (z_u + s z_other)``: rows start..stop of the weighted graph matrix times Z (n, r).

    Signs and weights come in the order of the terms, which leaves the processor one gather to wait for. Four terms at a time, the
    last ones filled up with weight 0: a row of the sum is loaded and stored once for all of them.
    """
    zero = Z.dtype.type(0.0)
    for u in range(start, stop):
        row, zu, q, last = out[u], Z[u], ptr[u], ptr[u + 1]
        row[:] = zero
        while q < last:
            q1, q2, q3 = min(q + 1, last - 1), min(q + 2, last - 1), min(q + 3, last - 1)
            f0 = Z.dtype.type(w[q])
            f1 = Z.dtype.type(w[q1]) if q + 1 < last else zero
            f2 = Z.dtype.type(w[q2]) if q + 2 < last else zero
            f3 = Z.dtype.type(w[q3]) if q + 3 < last else zero
            g0, g1 = f0 * Z.dtype.type(sign[q]), f1 * Z.dtype.type(sign[q1])
            g2, g3 = f2 * Z.dtype.type(sign[q2]), f3 * Z.dtype.type(sign[q3])
            z0, z1, z2, z3 = Z[other[q]], Z[other[q1]], Z[other[q2]], Z[other[q3]]
            for k in range(Z.shape[1]):
                x = zu[k]
                row[k] += ((f0 * x + g0 * z0[k]) + (f1 * x + g1 * z1[k])) + (
                    (f2 * x + g2 * z2[k]) + (f3 * x + g3 * z3[k])
                )
            q += 4


@njit(cache=True)
def adjacency(a, b, sign, n):
    """Compressed rows of the pair graph: for each point (n,) its edges and the point at the other end.

    A term with sign 0 is the point alone and is listed once.
    """
    ptr = np.zeros(n + 1, np.int64)
    for i in range(len(a)):
        ptr[a[i] + 1] += 1
        if sign[i] != 0:
            ptr[b[i] + 1] += 1
    for u in range(n):
        ptr[u + 1] += ptr[u]
    fill = ptr[:-1].copy()
    edge = np.empty(ptr[n], np.int32)
    other = np.empty(ptr[n], np.int32)
    for i in range(len(a)):
        q = fill[a[i]]
        edge[q], other[q] = i, b[i]
        fill[a[i]] = q + 1
        if sign[i] != 0:
            q = fill[b[i]]
            edge[q], other[q] = i, a[i]
            fill[b[i]] = q + 1
    return ptr, edge, other
