"""Symmetric elimination of the vertices of least degree from a sparse matrix, until what is left is nearly dense."""

from heapq import heappop, heappush

import numpy as np

from bregmat._kernels.compiling import njit

SMALL = 1e-3  # rows whose pivot is below this share of the sum of their entries are left


@njit(cache=True, error_model="numpy")
def eliminate_inplace(diagonal, border, terms, indptr, indices, data, share, rounding):
    """``LDL'`` of ``[[N, border], [border', -corner]]`` for the rows of least degree, and then for the border.

    The corner is chosen when its turn has come: small, but a few times what ``rounding`` may make of the pivots' sizes.

    Stops where the least degree passes ``share`` of the rows that are left. Rows whose pivot is small or negative are left,
    too. Minimum degree with explicit fill: lists of neighbours move to the end of a pool where they outgrow their room.

    Parameters
    ----------
    diagonal, border : (n,)
        Overwritten.
    terms : (n,) int64
        Becomes how many pivots changed each row, without the border's.
    indptr : (n + 1,); indices, data : (m,)
        Entries of N off the diagonal, of both triangles.
    share, rounding : float

    Returns
    -------
    left : (k,) int64
        Rows that are left, ascending.
    block : (k, k)
        Schur complement on them, after the border: its upper triangle.
    corner, pivot, trace : float
        The corner, minus the pivot of the border, and ``sum |d_k| |l_k|^2`` over all pivots so far.
    """
    n = len(indptr) - 1
    start, length, room = (
        indptr[:-1].astype(np.int64),
        np.diff(indptr).astype(np.int64),
        np.diff(indptr).astype(np.int64),
    )
    place, value = indices.astype(np.int64), data.copy()
    end, remaining, fallen, trace = len(place), n, 0.0, 0.0
    gone, seen, column = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.int64), np.zeros(n)
    least = np.abs(diagonal)
    for i in range(n):
        least[i] = SMALL * (least[i] + np.abs(data[indptr[i] : indptr[i + 1]]).sum())
    heap = [(length[i], np.int64(i)) for i in range(n)]
    heap.sort()
    stamp = 0
    while len(heap) > 0:
        d, v = heappop(heap)
        if gone[v] or d != length[v]:
            continue  # its degree has changed since
        if d > share * remaining:
            break
        pivot = diagonal[v]
        if not pivot > least[v]:
            continue
        near, low = place[start[v] : start[v] + d].copy(), value[start[v] : start[v] + d] / pivot
        last = border[v] / pivot
        fallen += pivot * (last * last)
        trace += pivot * (1.0 + last * last)
        gone[v] = True
        remaining -= 1
        for a in range(d):
            column[near[a]] = low[a]
        for a in range(d):
            u, l = near[a], low[a]
            diagonal[u] -= pivot * (l * l)
            border[u] -= pivot * (l * last)
            trace += pivot * (l * l)
            terms[u] += 1
            stamp += 1
            for b in range(d):
                seen[near[b]] = -stamp
            seen[u] = stamp
            kept = start[u]
            for b in range(start[u], start[u] + length[u]):
                w, x = place[b], value[b]
                if w == v:
                    continue
                if seen[w] == -stamp:  # a neighbour of both
                    x -= pivot * (l * column[w])
                    seen[w] = stamp
                place[kept], value[kept] = w, x
                kept += 1
            kept -= start[u]
            fill = 0
            for b in range(d):
                fill += seen[near[b]] == -stamp
            if kept + fill > room[u]:
                room[u] = 3 * (kept + fill) // 2
                if end + room[u] > len(place):
                    place = np.concatenate((place, np.empty(len(place) + room[u], dtype=np.int64)))
                    value = np.concatenate((value, np.empty(len(value) + room[u])))
                place[end : end + kept] = place[start[u] : start[u] + kept]
                value[end : end + kept] = value[start[u] : start[u] + kept]
                start[u] = end
                end += room[u]
            to = start[u] + kept
            for b in range(d):
                if seen[near[b]] == -stamp:
                    place[to], value[to] = near[b], -pivot * (l * low[b])
                    to += 1
            length[u] = kept + fill
            heappush(heap, (length[u], u))
    left = np.flatnonzero(~gone)
    size, norm = trace + fallen, np.sqrt((border[left] ** 2).sum())
    for u in left:
        size += abs(diagonal[u])
    corner = rounding * (size + 2.0 * norm * norm / max(fallen, np.sqrt(rounding) * norm, 1e-300))
    pivot = corner + fallen
    trace += pivot
    block = np.zeros((len(left), len(left)))
    seen[left] = np.arange(len(left))
    for i in range(len(left)):
        u, last = left[i], border[left[i]] / pivot
        trace += border[u] * last
        for j in range(i, len(left)):
            block[i, j] = border[left[j]] * last
        block[i, i] += diagonal[u]
        for b in range(start[u], start[u] + length[u]):
            if seen[place[b]] > i:
                block[i, seen[place[b]]] += value[b]
    return left, block, corner, pivot, trace
