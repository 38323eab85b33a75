"""Gathers over pairs of rows. A pair stands for the vector ``z_a + s z_b``; nothing of size c x r is formed.

Most of ``fastmath`` is on: sums of r products in any order, see benchmarks/bench_million.py for the gain. The interpreter is let go,
so that threads may share a loop (:mod:`bregmat.threads`); an entry does not depend on the others.
"""

import numpy as np

from bregmat._kernels.compiling import njit

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
def laplacian_product_inplace(out, ptr, edge, other, sign, w, Z, start, stop):
    """``out_u = sum over terms at u of w_e (z_u + s z_other)``: rows start..stop of the weighted graph matrix times Z (n, r)."""
    for u in range(start, stop):
        row, zu = out[u], Z[u]
        row[:] = 0.0
        for q in range(ptr[u], ptr[u + 1]):
            e = edge[q]
            f = Z.dtype.type(w[e])
            if f != 0.0:
                zo, g = Z[other[q]], f * Z.dtype.type(sign[e])
                for k in range(Z.shape[1]):
                    row[k] += f * zu[k] + g * zo[k]


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
