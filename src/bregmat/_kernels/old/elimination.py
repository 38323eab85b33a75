"""Symmetric elimination of the vertices of least degree from a sparse matrix, until what is left is nearly dense."""

import math
from heapq import heappop, heappush

import numpy as np

from bregmat._kernels.old.compiling import njit

SMALL = 1e-3  # rows whose pivot is below this share of the sum of their entries are left


def eliminate_inplace(diagonal, border, terms, indptr, indices, data, share, rounding):
    """``LDL'`` of ``[[N, border], [border', -corner]]`` for the rows of least degree, and then for the border.

    The corner is chosen when its turn has come: small, but a few times what ``rounding`` may make of the pivots' sizes.

    Stops where the entries of the rows that a pivot changes pass ``share`` of the square of the rows that are left. Rows
    whose pivot is small or negative are left, too. Minimum degree with explicit fill: lists of neighbours move to the end of
    a pool where they outgrow their room, and all to another pool, in turn, where that is full.

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
    block : (ceil(k / 2), k) for odd k, (k / 2, k + 1) for even k
        Schur complement on them, after the border, as LAPACK packs it ("rectangular full packed", transposed): rows of its upper
        triangle, and in the room that these leave, rows of the lower triangle of its last corner.
    corner, pivot, trace, total : float
        The corner, minus the pivot of the border, ``sum |d_k| |l_k|^2`` over all pivots so far, and the trace of the Schur complement.
    """
    n = len(indptr) - 1
    start, length = indptr[:-1].astype(np.int64), np.diff(indptr).astype(np.int64)
    order = np.argsort(length, kind="stable")  # with their lengths a heap
    gone, seen, pool = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.int64), (indices.astype(np.int32), data.copy())
    place, value, fallen, trace = _factor_inplace(
        diagonal, border, terms, start, length, length.copy(), order, gone, seen, *pool, share
    )
    left = np.flatnonzero(~gone)
    seen[left] = np.arange(len(left))
    half, even = (len(left) + 1) // 2, 1 - len(left) % 2
    block = np.empty((half, len(left) + even))
    last = _rest_inplace(block, diagonal, border, start, length, seen, left, place, value, fallen, trace, rounding)
    return left, block, *last


@njit(cache=True)
def _factor_inplace(diagonal, border, terms, start, length, room, order, gone, seen, place, value, share):
    """The pivots; the pool of entries at its end, and sums over all pivots. ``length`` (n,) of the row at ``start`` (n,) of the pool.

    ``order`` (n,): rows by length; ``gone`` (n,) becomes true for pivots; ``seen`` (n,) is for use inside.
    """
    n = len(diagonal)
    end, remaining, fallen, trace = len(place), n, 0.0, 0.0
    least, near, low = np.empty(n), np.empty(n, np.int64), np.empty(n)
    hit, other_place, other_value = np.zeros(n, np.int64), place[:0], value[:0]
    for i in range(n):
        total = 0.0
        for k in range(start[i], start[i] + length[i]):
            total += abs(value[k])
        least[i] = SMALL * (abs(diagonal[i]) + total)
    heap = [(length[i], i) for i in order]
    base, stamp = 1, 0
    while len(heap) > 0:
        d, v = heappop(heap)
        if gone[v] or d != length[v]:
            continue  # its degree has changed since
        work = 0
        for a in range(start[v], start[v] + d):
            work += length[place[a]]
        if work > share * remaining * remaining:
            break
        pivot = diagonal[v]
        if not pivot > least[v]:
            continue
        last = border[v] / pivot
        fallen += pivot * (last * last)
        trace += pivot * (1.0 + last * last)
        gone[v] = True
        remaining -= 1
        for a in range(d):
            near[a], low[a] = place[start[v] + a], value[start[v] + a] / pivot
            seen[near[a]] = base + a  # neighbours have base and above
        for a in range(d):
            u, l = near[a], low[a]
            diagonal[u] -= pivot * (l * l)
            border[u] -= pivot * (l * last)
            trace += pivot * (l * l)
            terms[u] += 1
            stamp += 1
            hit[a] = stamp
            kept, own, fill = start[u] + length[u] - 1, start[u], d - 1
            for b in range(start[u], start[u] + length[u]):
                at = seen[place[b]] - base
                if at >= 0:  # a neighbour of both
                    value[b] -= pivot * (l * low[at])
                    hit[at] = stamp
                    fill -= 1
                elif place[b] == v:
                    own = b
            place[own], value[own] = place[kept], value[kept]
            kept -= start[u]
            if kept + fill > room[u]:
                if end + 3 * (kept + fill) // 2 > len(place):
                    length[u] = kept
                    alive = 0
                    for i in range(n):
                        alive += 0 if gone[i] else length[i]
                    if len(other_place) < 2 * alive + 3 * (kept + fill):
                        size = 4 * alive + 6 * (kept + fill)
                        other_place, other_value = np.empty(size, place.dtype), np.empty(size)
                    end = _gather_inplace(other_place, other_value, place, value, start, length, room, gone)
                    place, value, other_place, other_value = other_place, other_value, place, value
                room[u] = 3 * (kept + fill) // 2
                for b in range(kept):
                    place[end + b], value[end + b] = place[start[u] + b], value[start[u] + b]
                start[u] = end
                end += room[u]
            to = start[u] + kept
            for b in range(d):
                if hit[b] != stamp:
                    place[to], value[to] = near[b], -pivot * (l * low[b])
                    to += 1
            length[u] = kept + fill
            heappush(heap, (length[u], u))
        base += d
    return place, value, fallen, trace


@njit(cache=True)
def _gather_inplace(to_place, to_value, place, value, start, length, room, gone):
    """The rows that are left, one after the other into another pool, without room to grow; its end.

    to_place, to_value, place, value : pools of any length; start, length, room, gone : (n,).
    """
    end = 0
    for i in range(len(start)):
        if gone[i]:
            continue
        for b in range(length[i]):
            to_place[end + b], to_value[end + b] = place[start[i] + b], value[start[i] + b]
        start[i], room[i] = end, length[i]
        end += length[i]
    return end


@njit(cache=True)
def _rest_inplace(block, diagonal, border, start, length, seen, left, place, value, fallen, trace, rounding):
    """The Schur complement on the rows ``left`` (k,), ``seen`` (n,) their places, packed into block; corner, pivot, and two sums."""
    size, norm = trace + fallen, 0.0
    for u in left:
        norm += border[u] * border[u]
    norm = math.sqrt(norm)
    for u in left:
        size += abs(diagonal[u])
    corner = rounding * (size + 2.0 * norm * norm / max(fallen, math.sqrt(rounding) * norm, 1e-300))
    pivot = corner + fallen
    trace += pivot
    n, half, total = len(left), len(block), 0.0
    even = 1 - n % 2
    for i in range(n):
        u, last = left[i], border[left[i]] / pivot
        trace += border[u] * last
        total += diagonal[u] + border[u] * last
        if i < half:  # a row of the upper triangle, from the diagonal on
            row, first, end, shift = block[i], i, n, even
        else:  # one of the lower triangle
            row, first, end, shift = block[i - half + 1 - even], half, i + 1, -half
        for j in range(first, end):
            row[j + shift] = border[left[j]] * last
        row[i + shift] += diagonal[u]
        for b in range(start[u], start[u] + length[u]):
            j = seen[place[b]]
            if first <= j < end:
                row[j + shift] += value[b]
    return corner, pivot, trace, total
