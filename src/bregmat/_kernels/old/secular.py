"""The secular equation: eigenvalues of ``diag(lam) + rho w w'`` between the poles lam.

The roots (Golub 1973; Bunch, Nielsen and Sorensen 1978; i runs over the poles that are not deflated) are those of::

    f(x) = 1 / rho + sum_i w_i^2 / (lam_i - x) = 0.

They are kept as a pole and an offset, so that every difference ``lam_i - x`` has full relative accuracy, and all of them move together:
the loops run over roots, one pole after the other, so no sum is reassociated. ``fastmath=False`` is said explicitly because a
callee compiled from a fastmath caller inherits it, and ``(lam_i - pole) - offset`` must not be reordered.

Products of four differences are formed: meant for spectra between about 1e-60 and 1e60 in magnitude.
"""

import math

import numpy as np

from bregmat._kernels.arrays import EigenWork
from bregmat._kernels.old.compiling import njit

EPS = 2.220446049250313e-16
DEFLATION = 8.0 * EPS  # times max |lam|, as in LAPACK's dlaed2
STEP = 1e-7  # relative; the iteration is of third order, so the step after one this small is below rounding
MAX_SWEEPS = 100  # five suffice; a bisection of the whole range of exponents fits in, and NaN ends here
PAD = 16  # arrays that loops run over are this much longer, so that loops have no remainder

# Rows of work.scratch while roots are sought; a column is one root that has not converged.
POLE, MU, Y, GAP, SIGN, NEAR, OTHER, LOW, HIGH, INDEX, S1, S2, S3, SIZE, NEW, SLOPE = range(16)


def eigen_work(n: int) -> EigenWork:
    """Work arrays for matrices (n, n)."""
    return EigenWork(
        np.zeros(n, np.int64),
        np.zeros(n + PAD),
        np.zeros(n + PAD),
        np.zeros(n + PAD),
        np.zeros(n, np.int64),
        np.zeros(n + PAD),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n * n + PAD),
        np.zeros((2, n * n)),
        np.zeros((16, 2 * n + PAD)),
        np.zeros(2, np.int64),
        np.zeros((3, n)),
    )


@njit(cache=True, fastmath={"contract"})
def _sums_inplace(s1, s2, s3, size, d, z2, pole, mu, K, m):
    """Sums over i of ``t_i = z2_i / D_i``, ``t_i / D_i``, ``t_i / D_i^2`` with ``D_i = (d_i - pole) - mu``, the pole itself left out.

    ``size`` is about sum |t_i|: the signs of four neighbours differ only where the root is among them. K is rounded up to a multiple of 4.

    d, z2 (K,), padded; all others (m,).
    """
    for a in range(m):
        s1[a] = 0.0
        s2[a] = 0.0
        s3[a] = 0.0
        size[a] = 0.0
    for i in range(0, K, 4):
        d0, d1, d2, d3 = d[i], d[i + 1], d[i + 2], d[i + 3]
        w0, w1, w2, w3 = z2[i], z2[i + 1], z2[i + 2], z2[i + 3]
        for a in range(m):
            o, x = pole[a], mu[a]
            g0, g1, g2, g3 = d0 - o, d1 - o, d2 - o, d3 - o
            r0, r1, r2, r3 = 1.0 / (g0 - x), 1.0 / (g1 - x), 1.0 / (g2 - x), 1.0 / (g3 - x)
            t0 = w0 * r0 if g0 != 0.0 else 0.0
            t1 = w1 * r1 if g1 != 0.0 else 0.0
            t2 = w2 * r2 if g2 != 0.0 else 0.0
            t3 = w3 * r3 if g3 != 0.0 else 0.0
            u0, u1, u2, u3 = t0 * r0, t1 * r1, t2 * r2, t3 * r3
            t = (t0 + t1) + (t2 + t3)
            s1[a] += t
            s2[a] += (u0 + u1) + (u2 + u3)
            s3[a] += (u0 * r0 + u1 * r1) + (u2 * r2 + u3 * r3)
            size[a] += abs(t)


@njit(cache=True, fastmath=False)
def _two_poles(c, s, S, gap):
    """Root in (0, gap) of ``c - s / y + S / (gap - y)``, s > 0, S >= 0: no difference of like quantities under the root.

    Scalars only.
    """
    b = c * gap + s + S
    e = c * gap - s + S
    r = math.sqrt(e * e + 4.0 * s * S)
    num = 2.0 * s * gap if b >= 0.0 else r - b
    return num / (b + r if b >= 0.0 else -2.0 * c)


@njit(cache=True, fastmath=False)
def _third_order_step(f, s, S, y, rest):
    """Root h of ``f + s h / (y + h) + S h / (rest - h)`` in (-y, rest), s > 0, S >= 0: as accurate, relatively, as f is.

    Scalars only.
    """
    b = f * (rest - y) + s * rest + S * y
    e = f * (rest + y) + s * rest - S * y
    r = math.sqrt(e * e + 4.0 * s * S * y * rest)
    num = -2.0 * f * y * rest if b >= 0.0 else r - b
    return num / (b + r if b >= 0.0 else 2.0 * (S - s - f))


@njit(cache=True, fastmath=False)
def _guess_inplace(y, sign, s1, s2, s3, gap, near, other, rinv, m):
    """First distance from the nearer pole, and the side (sign) it is on, from the sums in the middle of the interval.

    All arrays (m,).
    """
    for a in range(m):
        g, sg, s, S = gap[a], sign[a], near[a], other[a]
        inv = 2.0 / g
        # the rest of f, without the two poles of the interval: value, slope and half the curvature
        t = S * inv * sg
        u = S * inv * inv
        c0, c1, c2 = rinv + s1[a] - t, s2[a] - u, s3[a] - t * inv * inv
        # f < 0 in the middle: the root is in the right half, unless the right end is made up
        swap = c0 + (S - s) * inv < 0.0 and S > 0.0 and sg > 0.0
        sg = -1.0 if swap else sg
        s, S = (S if swap else s), (s if swap else S)
        q = _two_poles(sg * c0, s, S, g)
        c1 = max(c1, 0.0)
        ratio = c2 / (c1 + 1e-300)
        for _ in range(2):
            # the rest as one pole with these three numbers, at the last guess
            h = sg * (min(max(q, 0.0), 0.5 * g) - 0.5 * g)
            q = _two_poles(sg * (c0 + c1 * h / (1.0 - min(max(ratio * h, -2.0), 0.5))), s, S, g)
        sign[a] = sg
        y[a] = q if (q > 0.0 and q < 0.5 * g) else 0.25 * g


@njit(cache=True, fastmath=False)
def _step_inplace(new, slope, s1, s2, s3, size, y, gap, sign, near, rinv, m):
    """New distances and slopes of f there; ``size`` becomes 1 where that is the root, else 0; ``s1`` becomes f.

    All poles but the nearest, which stays exact, are interpolated to second order by the two that enclose the root.

    All arrays (m,).
    """
    for a in range(m):
        q, g, sg, weight = y[a], gap[a], sign[a], near[a]
        rest = g - q
        c, d = sg * (rinv + s1[a]), s2[a]
        A = q * (d - sg * s3[a] * rest) / g
        B = d - A
        pull = weight / q
        f = c - pull
        s, S = pull + A * q, B * rest
        h = _third_order_step(f, s, S, q, rest)
        bound = 4.0 * EPS * (abs(rinv) + size[a] + 2.0 * pull)
        t, u = q + h, rest - h
        new[a] = t
        slope[a] = s * q / (t * t) + S * rest / (u * u)
        size[a] = 1.0 if (abs(h) <= STEP * q or abs(f) <= bound) else 0.0
        s1[a] = f


@njit(cache=True, fastmath=False)
def _pad_inplace(scratch, m):
    """Fill up to a multiple of 8 columns with copies of the last; returns that multiple. scratch (16, 2 n + PAD)."""
    end = 8 * ((m + 7) // 8)
    for a in range(m, end):
        for q in range(NEAR + 1):
            scratch[q, a] = scratch[q, m - 1]
    return end


@njit(cache=True, fastmath=False)
def _roots_inplace(work, rho, K):
    """Solve the secular equation for all K roots into ``work``, shape (K,); returns the number of evaluations of f.

    Gragg's iteration (Borges and Gragg 1993), with the nearest pole exact: of third order, every iterate inside its interval. Beyond
    the outermost pole the interval ends at a made-up pole of weight 0, twice as far as the root can be.

    Shapes as in EigenWork.
    """
    d, z2, origin, offset, theta, omega = work.d, work.z2, work.origin, work.offset, work.theta, work.omega
    x = work.scratch
    pole, mu, y, gap, sign, near, other = x[POLE], x[MU], x[Y], x[GAP], x[SIGN], x[NEAR], x[OTHER]
    low, high, index, new, slope = x[LOW], x[HIGH], x[INDEX], x[NEW], x[SLOPE]
    s1, s2, s3, size = x[S1], x[S2], x[S3], x[SIZE]
    total = 0.0
    for i in range(K):
        total += z2[i]
    far = 2.0 * abs(rho) * total
    rinv = 1.0 / rho
    shift = 0 if rho > 0.0 else -1  # root j is between poles j + shift and j + shift + 1
    for j in range(K):
        left, right = j + shift, j + shift + 1
        inside = left >= 0 and right < K
        o = max(left, 0)
        pole[j], near[j], other[j] = d[o], z2[o], z2[right] if inside else 0.0
        gap[j] = d[right] - d[left] if inside else far
        sign[j] = 1.0 if left >= 0 else -1.0
        mu[j] = sign[j] * 0.5 * gap[j]
        y[j], index[j] = 0.0, j
    m = _pad_inplace(x, K)
    for a in range(K, m):
        other[a] = other[K - 1]
    _sums_inplace(s1, s2, s3, size, d, z2, pole, mu, K, m)
    _guess_inplace(y, sign, s1, s2, s3, gap, near, other, rinv, m)
    for j in range(K):
        left = j + shift
        o = left if sign[j] > 0.0 else left + 1
        origin[j], pole[j], near[j] = o, d[o], z2[o]
        mu[j] = sign[j] * y[j]
        low[j], high[j] = 0.0, 0.51 * gap[j]
    count = K
    left = K
    for sweep in range(MAX_SWEEPS):
        active = left
        m = _pad_inplace(x, active)
        _sums_inplace(s1, s2, s3, size, d, z2, pole, mu, K, m)
        _step_inplace(new, slope, s1, s2, s3, size, y, gap, sign, near, rinv, m)
        count += active
        left = 0
        for a in range(active):
            q = new[a]
            if size[a] > 0.0 or sweep == MAX_SWEEPS - 1:
                j = int(index[a])
                offset[j] = sign[a] * q
                theta[j] = pole[a] + offset[j]
                # the slope is interpolated: its error is of second order in a step below STEP
                omega[j] = rinv * (rinv / slope[a])
                continue
            lo, hi = low[a], high[a]
            if s1[a] > 0.0:
                hi = y[a]
            else:
                lo = y[a]
            if not (q > lo and q < hi):
                q = math.sqrt(lo * hi) if lo > 0.0 else 0.0625 * hi
            pole[left], mu[left], y[left], gap[left], sign[left] = pole[a], sign[a] * q, q, gap[a], sign[a]
            near[left], low[left], high[left], index[left] = near[a], lo, hi, index[a]
            left += 1
        if left == 0:
            break
    return count


@njit(cache=True, fastmath=False)
def solve_secular_inplace(work, lam, w, rho):
    """Eigenvalues of ``diag(lam) + rho w w'`` into ``work``; returns K, the number of poles that move, 0 if none does.

    Run :func:`rotate_ties_inplace` first: poles with w != 0 must differ. A pole stays where
    ``|rho w_i| |w| <= DEFLATION max(|lam|, |rho| |w|^2)``.

    lam (n,), ascending; w (n,).
    """
    n = lam.size
    total = 0.0
    for i in range(n):
        total += w[i] * w[i]
    work.counters[0] += 1
    if rho == 0.0 or total == 0.0:
        return 0
    tol = DEFLATION * max(abs(lam[0]), abs(lam[n - 1]), abs(rho) * total)
    scale = abs(rho) * math.sqrt(total)
    d, z, z2 = work.d, work.z, work.z2
    K = 0
    for i in range(n):
        if scale * abs(w[i]) > tol:
            work.keep[K], d[K], z[K], z2[K] = i, lam[i], w[i], w[i] * w[i]
            K += 1
    if K == 0:
        return 0
    if K == 1:
        work.origin[0], work.offset[0] = 0, rho * z2[0]
        work.theta[0], work.omega[0] = d[0] + work.offset[0], z2[0]
        work.counters[1] += 1
        return 1
    # a pole of weight 0 that no root is close to
    beyond = d[K - 1] + 2.0 * (d[K - 1] - d[0]) + 4.0 * abs(rho) * total
    for i in range(K, K + PAD):
        d[i], z[i], z2[i] = beyond, 0.0, 0.0
    work.counters[1] += _roots_inplace(work, rho, K)
    return K
