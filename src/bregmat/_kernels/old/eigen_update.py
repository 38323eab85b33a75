"""Eigenpairs of ``H + rho z z'`` from those of ``H``, and of the exponential along that line.

``H = Vt' diag(lam) Vt`` with eigenvectors in the rows of ``Vt`` and ``lam`` ascending; ``w = Vt z``. The new eigenvalues are roots of the
secular equation (:mod:`bregmat._kernels.old.secular`); the new eigenvectors follow Gu and Eisenstat (1994): weights for which the computed
roots are exact, hence orthogonal to working accuracy.
"""

import math

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.products import as_matrix, product_inplace
from bregmat._kernels.old.secular import DEFLATION, solve_secular_inplace
from bregmat._kernels.old.vectors import copy_inplace, copy_rows_inplace

FAST = {"reassoc", "contract", "nsz", "arcp"}  # one sum of squares only


@njit(cache=True, fastmath=False)
def rotate_ties_inplace(lam, Vt, w):
    """Rotate rows of equal eigenvalue so that w (n,) vanishes on all but one of them; returns the number of rotations.

    Two eigenvalues are equal if the off-diagonal entry the rotation leaves behind is below ``DEFLATION * max |lam|`` (LAPACK, dlaed2), so
    neighbours of which one has a tiny w count as well. That entry and the change of the diagonal, no larger, are dropped: lam stays.

    lam, w (n,), Vt (n, n).
    """
    n = lam.size
    if n == 0:
        return 0
    tol = DEFLATION * max(abs(lam[0]), abs(lam[n - 1]))
    count = 0
    last = -1
    for i in range(n):
        if w[i] == 0.0:
            continue
        if last >= 0:
            wl, wi = w[last], w[i]
            # (lam_i - lam_last) c s with c = w_last / |.|, s = w_i / |.|
            tau = math.hypot(wl, wi)
            c, s = wl / tau, wi / tau
            if (lam[i] - lam[last]) * abs(c * s) <= tol:
                if abs(wl) >= abs(wi):  # the larger one stays, so that rows hardly move when the other is tiny
                    keep, drop = last, i
                else:
                    keep, drop = i, last
                    c, s = s, c
                a, b = Vt[keep], Vt[drop]
                for k in range(n):
                    va, vb = a[k], b[k]
                    a[k] = c * va + s * vb
                    b[k] = c * vb - s * va
                w[keep] = tau
                w[drop] = 0.0
                last = keep
                count += 1
                continue
        last = i
    return count


@njit(cache=True, fastmath=FAST)
def _normalise_inplace(row):
    """Scale a row (n,) to unit length."""
    total = 0.0
    for i in range(row.size):
        total += row[i] * row[i]
    scale = 1.0 / math.sqrt(total)
    for i in range(row.size):
        row[i] *= scale


@njit(cache=True, fastmath=False)
def _vectors_inplace(work, K):
    """Rows of U, of shape (K, K): unit eigenvectors ``zhat_i / (d_i - theta_j)`` (Gu and Eisenstat 1994).

    ``zhat_i^2 = prod_j (d_i - theta_j) / prod_{j != i} (d_i - d_j)`` up to a common factor, four roots to a division.

    Shapes as in EigenWork.
    """
    d, z, origin, offset, U = work.d, work.z, work.origin, work.offset, work.U
    pole, zhat = work.scratch[0], work.scratch[1]
    for j in range(K):
        pole[j] = d[origin[j]]
    for j in range(K, K + 4):
        pole[j], offset[j] = d[j], 0.0  # a factor of 1
    P = 8 * ((K + 7) // 8)
    for i in range(P):
        zhat[i] = 1.0
    for j in range(0, K, 4):
        o0, o1, o2, o3 = pole[j], pole[j + 1], pole[j + 2], pole[j + 3]
        x0, x1, x2, x3 = offset[j], offset[j + 1], offset[j + 2], offset[j + 3]
        d0, d1, d2, d3 = d[j], d[j + 1], d[j + 2], d[j + 3]
        for i in range(P):
            di = d[i]
            g0, g1, g2, g3 = di - d0, di - d1, di - d2, di - d3
            g0 = 1.0 if g0 == 0.0 else g0
            g1 = 1.0 if g1 == 0.0 else g1
            g2 = 1.0 if g2 == 0.0 else g2
            g3 = 1.0 if g3 == 0.0 else g3
            num = (((di - o0) - x0) * ((di - o1) - x1)) * (((di - o2) - x2) * ((di - o3) - x3))
            zhat[i] *= num / ((g0 * g1) * (g2 * g3))
    for i in range(K):
        zhat[i] = math.copysign(math.sqrt(abs(zhat[i])), z[i])
    for i in range(K, P):
        zhat[i] = 0.0
    for j in range(K):
        o, x = pole[j], offset[j]
        row = U[j * K : j * K + P]  # runs into the next row, which is written later
        for i in range(P):
            row[i] = zhat[i] / ((d[i] - o) - x)
        _normalise_inplace(U[j * K : j * K + K])


@njit(cache=True, fastmath=False)
def _sort_inplace(lam, Vt, work):
    """Ascending lam (n,); rows of Vt (n, n) follow. Writes over ``work.origin``."""
    n = lam.size
    ok = True
    for i in range(1, n):
        if lam[i] < lam[i - 1]:
            ok = False
            break
    if ok:
        return
    # what stayed and what moved are ascending already, so that insertion has little to do beside the copies
    order, value, rows = work.origin, work.scratch[0], as_matrix(work.rows[0], n, n)
    for i in range(n):
        j = i
        while j > 0 and lam[order[j - 1]] > lam[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    for i in range(n):
        value[i] = lam[order[i]]
        copy_inplace(rows[i], Vt[order[i]])
    copy_inplace(lam, value)
    copy_rows_inplace(Vt, rows)


@njit(cache=True, fastmath=False)
def apply_secular_inplace(lam, Vt, work, K):
    """``lam`` (n,) and ``Vt`` (n, n) of ``H + rho z z'`` from the last solve: ``Vt <- U Vt`` on the K rows kept, then sorted."""
    if K == 0:
        return
    n = lam.size
    if K == 1:
        lam[work.keep[0]] = work.theta[0]
        _sort_inplace(lam, Vt, work)
        return
    _vectors_inplace(work, K)
    U = as_matrix(work.U, K, K)
    product = as_matrix(work.rows[1], K, n)
    if n == K:
        product_inplace(product, U, Vt)
        copy_rows_inplace(Vt, product)
        copy_inplace(lam, work.theta)
    else:
        rows = as_matrix(work.rows[0], K, n)
        for j in range(K):
            copy_inplace(rows[j], Vt[work.keep[j]])
        product_inplace(product, U, rows)
        for j in range(K):
            copy_inplace(Vt[work.keep[j]], product[j])
            lam[work.keep[j]] = work.theta[j]
    _sort_inplace(lam, Vt, work)


@njit(cache=True, fastmath=False)
def rank_one_update_inplace(lam, Vt, w, rho, work):
    """``H <- H + rho z z'``, ``w = Vt z`` (overwritten); returns the number of poles that moved. About ``2 K^2 n`` operations.

    lam, w (n,), Vt (n, n).
    """
    rotate_ties_inplace(lam, Vt, w)
    K = solve_secular_inplace(work, lam, w, rho)
    apply_secular_inplace(lam, Vt, work, K)
    return K


@njit(cache=True, fastmath={"contract"})
def _differences_inplace(out, v, e, t, half, shift, lanes):
    """``out_a += t_a t_b F(v_a, v_b)``, ``b = a + shift``; F the divided difference of exp, ``half = t exp(v / 2)``.

    out (lanes,); v, e, t, half (lanes + shift,), or longer.
    """
    # slices, since a + shift might be negative for all the compiler knows, and an index that wraps is a gather
    v_b, e_b, t_b, half_b = v[shift:], e[shift:], t[shift:], half[shift:]
    for a in range(lanes):
        x = v_b[a] - v[a]
        x2 = x * x
        # 2 sinh(x / 2) / x, to rounding where the quotient would lose more than two digits
        near = half[a] * half_b[a] * (1.0 + x2 * (1.0 / 24.0 + x2 * (1.0 / 1920.0 + x2 * (1.0 / 322560.0))))
        far = t[a] * t_b[a] * ((e_b[a] - e[a]) / x)
        out[a] += near if x2 < 0.01 else far


@njit(cache=True, fastmath=False)
def exp_along_inplace(work, lam, w, K):
    """``(w'Mw, tr M, d(w'Mw) / d rho)`` of ``M = exp(diag(lam) + rho w w')`` from the last solve (K = 0: rho = 0).

    ``d(w'Mw) / d rho = sum_jk omega_j omega_k F(theta_j, theta_k)`` (Daleckii and Krein), F the divided difference of exp. Poles that
    stayed enter with ``lam_i`` and ``w_i^2``. Values above 700 overflow: shift lam.

    lam, w (n,).
    """
    n = lam.size
    x = work.scratch
    value, weight, power, half, pair = x[0], x[1], x[2], x[3], x[4]
    p, trace, slope = 0.0, 0.0, 0.0
    m, j = 0, 0
    for i in range(n):
        if j < K and work.keep[j] == i:
            v, t = work.theta[j], work.omega[j]
            j += 1
        else:
            v, t = lam[i], w[i] * w[i]
        h = math.exp(0.5 * v)
        e = h * h
        trace += e
        if t != 0.0:
            p += t * e
            slope += t * t * e
            value[m], weight[m], power[m], half[m] = v, t, e, t * h
            m += 1
    # every pair once, as (a, a + r) around a circle: loops of one length, without remainder
    lanes = 8 * ((m + 7) // 8)
    for a in range(lanes + m // 2 - m):
        b = m + a
        value[b], weight[b], power[b], half[b] = value[a], weight[a], power[a], half[a]
    for a in range(lanes):
        pair[a] = 0.0
    for r in range(1, (m + 1) // 2):
        _differences_inplace(pair, value, power, weight, half, r, lanes)
    for a in range(m):
        slope += 2.0 * pair[a]
        pair[a] = 0.0
    if m % 2 == 0 and m > 0:
        _differences_inplace(pair, value, power, weight, half, m // 2, lanes)
        for a in range(m):
            slope += pair[a]
    return p, trace, slope
