"""``A+ v`` and ``A- v`` in one pass over a matrix: packed lower tiles of a nonnegative kernel, or full rows of any matrix.

Most of ``fastmath`` is on: sums in any order. The interpreter is let go, so that threads may share a pass (:mod:`bregmat.threads`).
Both read memory in few long streams: that, and not the arithmetic, sets their pace.
"""

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.vectors import fill_inplace

FAST = {"reassoc", "contract", "nsz", "arcp"}  # all of fastmath but its licence to drop NaN and infinity


@njit(fastmath=FAST, inline="always")
def _rows_and_columns_inplace(out_rows, out_columns, K, rows, columns):
    """``out_rows += K columns`` and ``out_columns += K' rows`` for one tile (s, s), its numbers loaded once.

    One row at a time: memory is read in a single stream, which is worth more than the registers that four rows would save.
    """
    for i in range(K.shape[0]):
        k, a = K[i], rows[i]
        s = a * 0
        for j in range(len(columns)):
            s += k[j] * columns[j]
            out_columns[j] += k[j] * a
        out_rows[i] += s


@njit(fastmath=FAST, inline="always")
def _rows_inplace(out, K, x):
    """``out += K x`` for one tile (s, s) on the diagonal, stored whole."""
    for i in range(K.shape[0]):
        k = K[i]
        s = x[0] * 0
        for j in range(len(x)):
            s += k[j] * x[j]
        out[i] += s


@njit(fastmath=FAST, inline="always")
def _tiles_inplace(P, Q, tiles, row, column, same, v, first, last):
    """Tiles ``first`` to ``last`` of (t, s, s), added to the accumulators (n,) of one part."""
    size = tiles.shape[1]
    fill_inplace(P, 0.0)
    fill_inplace(Q, 0.0)
    for t in range(first, last):
        i, j = row[t] * size, column[t] * size
        if i == j:
            _rows_inplace(P[i : i + size], tiles[t], v[j : j + size])
        else:
            out = P if same[t] else Q
            _rows_and_columns_inplace(out[i : i + size], out[j : j + size], tiles[t], v[i : i + size], v[j : j + size])


@njit(fastmath=FAST, cache=True, nogil=True)
def tile_pass_inplace(P, Q, tiles, row, column, same, v, start, stop):
    """Sums within the classes ``P`` and across them ``Q``, shape (parts, n), from lower tiles (t, s, s): parts start..stop."""
    count = tiles.shape[0]
    for part in range(start, stop):
        first, last = count * part // P.shape[0], count * (part + 1) // P.shape[0]
        _tiles_inplace(P[part], Q[part], tiles, row, column, same, v, first, last)


@njit(fastmath=FAST, inline="always")
def _signed_rows_inplace(p, q, A, v, i):
    """Entries i to i + 3 of (n,) in ``A+ v`` and ``A- v`` as halves of ``|A| v +- A v``: long rows bear four streams at a time."""
    r0, r1, r2, r3 = A[i], A[i + 1], A[i + 2], A[i + 3]
    s0 = s1 = s2 = s3 = v[0] * 0
    t0 = t1 = t2 = t3 = v[0] * 0
    for j in range(len(v)):
        x = v[j]
        x0, x1, x2, x3 = r0[j] * x, r1[j] * x, r2[j] * x, r3[j] * x
        s0 += x0
        s1 += x1
        s2 += x2
        s3 += x3
        t0 += abs(x0)
        t1 += abs(x1)
        t2 += abs(x2)
        t3 += abs(x3)
    p[i], q[i] = (t0 + s0) / 2, (t0 - s0) / 2
    p[i + 1], q[i + 1] = (t1 + s1) / 2, (t1 - s1) / 2
    p[i + 2], q[i + 2] = (t2 + s2) / 2, (t2 - s2) / 2
    p[i + 3], q[i + 3] = (t3 + s3) / 2, (t3 - s3) / 2


@njit(fastmath=FAST, inline="always")
def _last_rows_inplace(p, q, A, v, first, last):
    """The rows that are left over after groups of four; A (n, n)."""
    for i in range(first, last):
        row = A[i]
        s = t = v[0] * 0
        for j in range(len(v)):
            x = row[j] * v[j]
            s += x
            t += abs(x)
        p[i], q[i] = (t + s) / 2, (t - s) / 2


@njit(fastmath=FAST, cache=True, nogil=True)
def signed_pass_inplace(p, q, A, v, start, stop):
    """``p = A+ v``, ``q = A- v`` for any square ``A`` and ``v >= 0``, both (n,), A read once: rows start..stop, unit 4."""
    whole = stop - (stop - start) % 4
    for i in range(start, whole, 4):
        _signed_rows_inplace(p, q, A, v, i)
    _last_rows_inplace(p, q, A, v, whole, stop)
