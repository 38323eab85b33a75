"""LogDet projections onto one row, in factored form ``M = B B'`` with B lower triangular (Kulis 2009, Algorithms 1 and 2).

B is stored by columns, ``Bt[j, i] = B[i, j]``, so that loops over a column run over neighbours in memory, and its order is
padded with zeros to a multiple of 8, so that they run without a remainder (a column starts at the multiple of 8 at or
before its diagonal; the entries before it are 0 and stay 0). Multipliers are those of ``M^-1 = I + A*(mu)``; the papers' alpha
is ``-delta``.
"""

import math

import numpy as np

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.outer_rows import HARD, ITAKURA_SAITO, corrected_step, load_inplace, null_step, relaxed
from bregmat._kernels.old.vectors import copy_inplace, dot

FAST = {"reassoc", "contract", "nsz", "arcp"}  # all of fastmath but its licence to drop NaN and infinity


@njit(cache=True, fastmath=FAST)
def transposed_product_inplace(w, Bt, v):
    """``w = B' v``, w, v (r,), Bt (r, r): r^2 operations. The length of v is a multiple of 4."""
    for q in range(len(v) // 4):  # four columns at a time share the loads of v
        j = 4 * q
        k = (j // 8) * 8
        column0, column1, column2, column3, tail = Bt[j, k:], Bt[j + 1, k:], Bt[j + 2, k:], Bt[j + 3, k:], v[k:]
        total0, total1, total2, total3 = 0.0, 0.0, 0.0, 0.0
        for i in range(len(tail)):
            x = tail[i]
            total0 += column0[i] * x
            total1 += column1[i] * x
            total2 += column2[i] * x
            total3 += column3[i] * x
        w[j], w[j + 1], w[j + 2], w[j + 3] = total0, total1, total2, total3


@njit(cache=True, fastmath=FAST)
def chol_update_mult_inplace(Bt, w, alpha, x, v, h, g, s):
    """``B <- B L`` with ``L L' = I + alpha x x'`` (Kulis 2009, Algorithm 1: CHOLUPDATEMULT); needs ``1 + alpha |x|^2 > 0``.

    3 r^2 + O(r) operations and no r x r temporary. The page takes the rows of B one by one and runs down the columns of each
    with one sum; here the sums of all rows run side by side (s): the same operations in another order, which the machine
    can do several of at a time. On the way, while each column is at hand, ``w = B' v`` for the new B and the next row's v:
    for a B that is larger than the nearest cache that saves a pass over it. h, g, s are work arrays of length r.
    """
    r = len(x)
    a = alpha
    for j in range(r):
        t = 1.0 + a * x[j] * x[j]
        a /= t
        h[j] = math.sqrt(t)
        g[j] = a * x[j]
        s[j] = 0.0
    for q in range(r // 2):
        j = r - 2 - 2 * q
        k = (j // 8) * 8
        left, right, sums, tail = Bt[j, k:], Bt[j + 1, k:], s[k:], v[k:]
        total0, total1 = 0.0, 0.0
        g0, g1, h0, h1, x0, x1 = g[j], g[j + 1], h[j], h[j + 1], x[j], x[j + 1]
        for i in range(len(left)):
            old0, old1, before = left[i], right[i], sums[i]
            after = before + old1 * x1
            new1 = (old1 + g1 * before) * h1
            new0 = (old0 + g0 * after) * h0
            right[i], left[i] = new1, new0
            sums[i] = after + old0 * x0
            total0 += new0 * tail[i]
            total1 += new1 * tail[i]
        w[j], w[j + 1] = total0, total1


@njit(cache=True)
def rank_one_step(loss, b, gamma, scale, mu, p):
    """The delta with ``p / (1 + delta p) = xi(mu + delta)``, in closed form (Kulis 2009, eq. 19 and section 6.2.1)."""
    if loss == HARD:
        if not b > 0.0:  # no matrix meets it: shrink, until the multipliers prove that
            return 1e3 / p
        return 1.0 / b - 1.0 / p
    if loss == ITAKURA_SAITO:
        return gamma / (gamma + 1.0) * (1.0 / b - mu / gamma - 1.0 / p)
    d = scale * scale / gamma  # the quadratic loss: a quadratic equation
    q = b + mu * d
    t = q * p + d
    return 2.0 * (p - q) / (t + math.sqrt(t * t + 4.0 * d * p * (p - q)))


@njit(cache=True)
def rank_two_step(d0, d1, b):
    """The delta with ``d0 / (1 + delta d0) + d1 / (1 + delta d1) = b`` inside the cone: one root of a quadratic."""
    T, D = d0 + d1, d0 * d1
    qa, qb, qc = b * D, b * T - 2.0 * D, b - T
    root = math.sqrt((b * (d0 - d1)) ** 2 + 4.0 * D * D)
    q = -0.5 * (qb + math.copysign(root, qb))
    first = qc / q if q != 0.0 else np.inf
    if abs(first) < np.inf and 1.0 + first * d0 > 0.0 and 1.0 + first * d1 > 0.0:
        return first
    return q / qa


@njit(cache=True)
def spectral_step(d, k, loss, b, gamma, scale, mu, tol):
    """The delta with ``sum d / (1 + delta d) = xi(mu + delta)`` by safeguarded Newton; (delta, evaluations)."""
    lo, hi = -np.inf, np.inf
    size = 0.0
    for i in range(k):
        size += abs(d[i])
        if d[i] > 0.0:
            lo = max(lo, -1.0 / d[i])
        elif d[i] < 0.0:
            hi = min(hi, -1.0 / d[i])
    if loss == ITAKURA_SAITO:
        hi = min(hi, gamma / b - mu)
    if size == 0.0:
        return 0.0, 0
    delta, evaluations = 0.0, 0
    while evaluations < 100:
        xi, slope = relaxed(loss, b, gamma, scale, mu + delta)
        f, df = -xi, -slope
        for i in range(k):
            x = d[i] / (1.0 + delta * d[i])
            f += x
            df -= x * x
        evaluations += 1
        if abs(f) <= tol * (abs(xi) + size):
            break
        if f > 0.0:
            lo = delta
        else:
            hi = delta
        new = delta - f / df
        if not lo < new < hi:
            if lo == -np.inf:
                new = 2.0 * hi - 1.0 / size
            elif hi == np.inf:
                new = 2.0 * lo + 1.0 / size
            else:
                new = 0.5 * (lo + hi)
        if new == delta or abs(new) * size > 1e6:  # a bound that no matrix meets
            break
        delta = new
    return delta, evaluations


@njit(cache=True)
def spectrum_of_row(W, coef, first, k):
    """Eigenvalues of ``sum_t coef_t w_t w_t'`` other than 0, from the k rows of W (>= k, r), coef (m,)."""
    H = W[:k] @ W[:k].T
    if k == 2:  # those of diag(coef) H
        c0, c1 = coef[first], coef[first + 1]
        T = c0 * H[0, 0] + c1 * H[1, 1]
        D = c0 * c1 * (H[0, 0] * H[1, 1] - H[0, 1] * H[0, 1])
        root = math.sqrt(max(0.0, (c0 * H[0, 0] - c1 * H[1, 1]) ** 2 + 4.0 * c0 * c1 * H[0, 1] ** 2))
        large = 0.5 * (T + math.copysign(root, T))
        d = np.empty(2)
        d[0] = large
        d[1] = D / large if large != 0.0 else 0.0
        return d
    h, Q = np.linalg.eigh(H)
    S = Q * np.sqrt(np.maximum(h, 0.0))
    C = np.empty((k, k))
    for i in range(k):
        C[i] = S[i] * coef[first + i]
    return np.linalg.eigvalsh(S.T @ C)


@njit(cache=True)
def sweep_inplace(Bt, dual, limit, totals, counts, W, rows, bounds, start, stop, corrected, tol):
    """Project onto the rows start ... stop - 1 in turn.

    ``limit``: how far ``totals`` may grow (or shrink) before a row that held with multiplier 0 can be violated; a rank-one
    update multiplies every ``v' M v`` by at least ``min(1, 1 + beta p)`` and at most ``max(1, 1 + beta p)``.
    ``totals``: [logdet M, sum of positive, sum of negative logarithms of these factors, worst relative violation met,
    squared movement of the duals]. ``counts``: [rows skipped, rows that held, projections, evaluations]. ``W`` (most terms of
    a row, r) is a work array; None where all rows are single ones.
    """
    r = Bt.shape[0]
    v, ahead, w, x, h, g, s = np.zeros(r), np.zeros(r), np.empty(r), np.empty(r), np.empty(r), np.empty(r), np.empty(r)
    single = np.empty(1)
    ready = -1  # the row whose w is at hand
    for i in range(start, stop):
        sense, mu = bounds.sense[i], dual[i]
        idle = mu == 0.0 or not corrected
        if idle and sense != 0 and sense * totals[1 if sense > 0 else 2] <= sense * limit[i]:
            counts[0] += 1
            continue
        first, last = rows.ptr[i], rows.ptr[i + 1]
        k = last - first
        p, size, definite = 0.0, 0.0, True
        for t in range(first, last):
            if ready != i:
                load_inplace(v, rows, t)
                transposed_product_inplace(w, Bt, v)
            q = dot(w, w)
            p += rows.coef[t] * q
            size += abs(rows.coef[t]) * q
            definite = definite and rows.coef[t] > 0.0
            if W is not None:
                copy_inplace(W[t - first], w)
        b, gamma, scale, loss = bounds.bound[i], bounds.gamma[i], bounds.scale[i], bounds.loss[i]
        excess = abs(p - b) if sense == 0 else sense * (p - b)
        totals[3] = max(totals[3], excess / bounds.unit[i])
        if idle and sense != 0 and excess <= 0.0:
            counts[1] += 1
            if definite and b > 0.0:
                limit[i] = totals[1 if sense > 0 else 2] + math.log(b / p)
            continue
        if size == 0.0:
            delta = null_step(loss, sense, b, gamma, scale, mu, bounds.unit[i])
        elif k == 1 and definite:
            delta = rank_one_step(loss, b, gamma, scale, mu, p)
        else:
            single[0] = p
            d = single
            if W is not None:
                d = spectrum_of_row(W, rows.coef, first, k) if k > 1 else single
            if k == 2 and loss == HARD and (d[0] * d[1] < 0.0 or b * (d[0] + d[1]) > 0.0):  # there is a root
                delta = rank_two_step(d[0], d[1], b)
            else:
                delta, used = spectral_step(d, k, loss, b, gamma, scale, mu, tol)
                counts[3] += used
        if corrected:
            delta = corrected_step(delta, mu, sense)
        if delta == 0.0 or not abs(delta) < np.inf:
            counts[1] += 1
            continue
        counts[2] += 1
        totals[4] += delta * delta
        # the zero is exact where a correction removes the multiplier altogether
        dual[i] = 0.0 if delta == -mu else mu + delta
        limit[i] = -np.inf if sense > 0 else np.inf
        if size == 0.0:
            continue
        if i + 1 < stop and rows.ptr[i + 2] - last == 1:
            load_inplace(ahead, rows, last)
            ready = i + 1
        for turn in range(2):  # what shrinks M comes first, so that no update leaves the cone
            for t in range(first, last):
                e = delta * rows.coef[t]
                if (e > 0.0) != (turn == 0):
                    continue
                if k > 1:
                    load_inplace(v, rows, t)
                    transposed_product_inplace(w, Bt, v)
                factor = 1.0 + e * dot(w, w)
                # M <- M + beta M v v' M with beta = -e / factor  (Kulis 2009, eq. 20-21)
                w, x = x, w
                chol_update_mult_inplace(Bt, w, -e / factor, x, ahead, h, g, s)
                change = -math.log(factor)
                totals[0] += change
                totals[1 if change > 0.0 else 2] += change
