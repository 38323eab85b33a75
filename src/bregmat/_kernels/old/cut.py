"""Kernighan-Lin passes on a balanced cut, with heaps of gains.

Of our own because networkx, which is no dependency, took 5 to 34 times longer for cuts that were 5 to 31 % heavier
(`benchmarks/bench_cut.py`), and 64 starts want refinement.
"""

from heapq import heapify, heappop, heappush

import numpy as np

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.vectors import fill_inplace


@njit(cache=True)
def swap_gains(x, indptr, indices, data):
    """By how much the cut falls when vertex i alone changes sides: ``sum_j w_ij`` over the other side minus over its own; (n,)."""
    gain = np.zeros(len(x))
    for i in range(len(x)):
        for k in range(indptr[i], indptr[i + 1]):
            gain[i] += data[k] if x[indices[k]] != x[i] else -data[k]
    return gain


@njit(cache=True)
def _best(heap, gain, free):
    """The free vertex of largest gain (n,); entries whose gain has changed since are thrown away. -1 if there is none."""
    while len(heap) > 0:
        key, i = heap[0]
        if free[i] and -gain[i] == key:
            return i
        heappop(heap)
    return -1


@njit(cache=True)
def refine_inplace(x, indptr, indices, data, least, patience, max_passes):
    """Kernighan-Lin: in every pass all vertices change sides once, best pair next; the best prefix of the pass is kept.

    ``x`` (n,) is +-1 with equal numbers of each. A pair is the best vertex of either side and then the best of the other,
    whose gain knows of the first. A pass ends ``patience`` pairs after its best prefix, the search when a pass gains no
    more than ``least``. Returns by how much the cut fell. O(m log n) a pass.
    """
    n = len(x)
    gain = swap_gains(x, indptr, indices, data)
    free = np.ones(n, dtype=np.bool_)
    order = np.empty(n, dtype=np.int64)
    total = 0.0
    for _ in range(max_passes):
        fill_inplace(free, True)
        left = [(-gain[i], np.int64(i)) for i in range(n) if x[i] > 0]
        right = [(-gain[i], np.int64(i)) for i in range(n) if x[i] < 0]
        heapify(left)
        heapify(right)
        moved, kept, gained, most = 0, 0, 0.0, least
        for _pair in range(n // 2):
            a, b = _best(left, gain, free), _best(right, gain, free)
            first = a >= 0 and (b < 0 or gain[a] >= gain[b])
            for turn in range(2):
                v = _best(left, gain, free) if first == (turn == 0) else _best(right, gain, free)
                free[v] = False
                gained += gain[v]
                _move_inplace(x, gain, v, indptr, indices, data)
                for k in range(indptr[v], indptr[v + 1]):
                    j = indices[k]
                    if free[j]:
                        heappush(left if x[j] > 0 else right, (-gain[j], np.int64(j)))
                order[moved] = v
                moved += 1
            if gained > most:
                most, kept = gained, moved
            elif moved - kept > 2 * patience:
                break
        for k in range(moved - 1, kept - 1, -1):
            _move_inplace(x, gain, order[k], indptr, indices, data)
        if kept == 0:
            break
        total += most
    return total


@njit(cache=True)
def _move_inplace(x, gain, v, indptr, indices, data):
    """Vertex v changes sides; gains of v and its neighbours follow; x, gain (n,)."""
    x[v] = -x[v]
    gain[v] = -gain[v]
    for k in range(indptr[v], indptr[v + 1]):
        j = indices[k]
        gain[j] += -2.0 * data[k] if x[j] == x[v] else 2.0 * data[k]


@njit(cache=True)
def curved_inplace(out, along, D, R, diagonal, indptr, indices, data):
    """``out = (diag(diagonal) - A) D`` for sparse A, and the inner products of its rows with those of R, ``along``.

    out, D, R : (n, k); along, diagonal : (n,); indptr : (n + 1,); indices, data : (m,) of A.
    """
    n, k = D.shape
    for i in range(n):
        row, own = out[i], D[i]
        for q in range(k):
            row[q] = diagonal[i] * own[q]
        for p in range(indptr[i], indptr[i + 1]):
            other, weight = D[indices[p]], data[p]
            for q in range(k):
                row[q] -= weight * other[q]
        total = 0.0
        for q in range(k):
            total += row[q] * R[i, q]
        along[i] = total


@njit(cache=True)
def project_inplace(U, along, R, b):
    """``U - a R - e b'`` with ``a = along - R b``; U, R : (n, k), along : (n,), which becomes a, b : (k,)."""
    n, k = U.shape
    for i in range(n):
        row, own = U[i], R[i]
        a = along[i]
        for q in range(k):
            a -= own[q] * b[q]
        for q in range(k):
            row[q] -= a * own[q] + b[q]
        along[i] = a
