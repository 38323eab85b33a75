"""A Lanczos run on a Hermitian H from a unit vector q, and what its tridiagonal matrix T tells about ``exp(H)``:

    q* exp(H) q = [exp T]_11,        tr exp(H + rho q q*) - tr exp(H) = tr exp(T + rho e1 e1') - tr exp(T).

The number of steps is settled by what the last one gave. ``Q`` (room + 1, n) and ``T`` (6, room + 1) are work arrays; functions
return 0 steps where there is no room for more.
"""

import math

import numpy as np

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.vectors import add_multiple_inplace, fill_inplace

FAST = {"reassoc", "contract", "nsz", "arcp"}  # sums of products in any order; never inherited by the QL iteration

SHORTEST = 3  # Lanczos steps before the last one says anything
BREAKDOWN = 1e-14  # off-diagonal of T, in units of log W, that ends the Krylov space
COUPLING = 1e-9  # off-diagonal of T that a trace feels by its square only
SAFE = 300.0  # exponents above it are left to the next refresh


@njit(cache=True, fastmath=FAST)
def inner(u, v):
    """``u* v``; u, v (n,)."""
    s = u[0].conjugate() * v[0]
    for i in range(1, len(u)):
        s += u[i].conjugate() * v[i]
    return s


@njit(cache=True, fastmath=FAST)
def hermitian_product_inplace(out, H, q):
    """``H q`` from the lower triangle, four rows at a time: half the memory traffic of a general product; H (n, n), q, out (n,)."""
    n, zero = len(q), 0.0 * H[0, 0]
    fill_inplace(out, 0.0)
    i = 0
    while i + 4 <= n:
        h0, h1, h2, h3 = H[i], H[i + 1], H[i + 2], H[i + 3]
        c0, c1, c2, c3 = q[i], q[i + 1], q[i + 2], q[i + 3]
        s0, s1, s2, s3 = zero, zero, zero, zero
        for k in range(i):
            x, a0, a1, a2, a3 = q[k], h0[k], h1[k], h2[k], h3[k]
            s0 += a0 * x
            s1 += a1 * x
            s2 += a2 * x
            s3 += a3 * x
            above = (c0 * a0.conjugate() + c1 * a1.conjugate()) + (c2 * a2.conjugate() + c3 * a3.conjugate())
            out[k] += above
        for k in range(i, i + 4):
            s0 += h0[k] * q[k]
            s1 += h1[k] * q[k]
            s2 += h2[k] * q[k]
            s3 += h3[k] * q[k]
        out[i] += s0
        out[i + 1] += s1
        out[i + 2] += s2
        out[i + 3] += s3
        i += 4
    while i < n:
        h, c, s = H[i], q[i], zero
        for k in range(i):
            s += h[k] * q[k]
            out[k] += c * h[k].conjugate()
        out[i] += s + h[i] * c
        i += 1


@njit(cache=True, fastmath=False)
def tridiagonal_inplace(d, e, z, w, m, small):
    """Eigenvalues of the symmetric tridiagonal (d, e) into d; first and last components of its eigenvectors into z and w.

    Implicit QL; e is overwritten, off-diagonals up to ``small`` count as 0. False if it does not converge, which has not been
    seen; NaN gives NaN.

    d, e, z, w (m,), or longer.
    """
    for i in range(m):
        z[i], w[i] = 0.0, 0.0
    z[0], w[m - 1], e[m - 1] = 1.0, 1.0, 0.0
    for l in range(m):
        for sweep in range(60):
            k = l
            while k < m - 1 and abs(e[k]) > 1.1e-16 * (abs(d[k]) + abs(d[k + 1])) + small:
                k += 1
            if k == l:
                break
            if sweep == 59:
                return False
            g = (d[l + 1] - d[l]) / (2.0 * e[l])
            r = math.sqrt(g * g + 1.0)
            g = d[k] - d[l] + e[l] / (g + (r if g >= 0.0 else -r))
            s, c, p = 1.0, 1.0, 0.0
            i = k - 1
            while i >= l:
                f, b = s * e[i], c * e[i]
                r = math.sqrt(f * f + g * g)
                e[i + 1] = r
                if r == 0.0:
                    d[i + 1] -= p
                    e[k] = 0.0
                    break
                t = 1.0 / r
                s, c = f * t, g * t
                g = d[i + 1] - p
                r = (d[i] - g) * s + 2.0 * c * b
                p = s * r
                d[i + 1] = g + p
                g = c * r - b
                z[i], z[i + 1] = c * z[i] - s * z[i + 1], s * z[i] + c * z[i + 1]
                w[i], w[i + 1] = c * w[i] - s * w[i + 1], s * w[i] + c * w[i + 1]
                i -= 1
            if i >= l:
                continue
            d[l] -= p
            e[l] = g
            e[k] = 0.0
    return True


@njit(cache=True, fastmath=False)
def _quadrature(T, m, rho, small):
    """For the leading (m, m) part of ``T + rho e1 e1'``: first entry of its exponential, trace, what the last step gave.

    The first entry is the squared length of ``exp(T / 2) e1``; what step m added is about the square of its last component,
    here relative to the first entry. NaN, inf if too large.

    T (6, room + 1).
    """
    d, e, z, w = T[2], T[3], T[4], T[5]
    for i in range(m):
        d[i] = T[0, i]
        e[i] = T[1, i]
    d[0] += rho
    if not tridiagonal_inplace(d, e, z, w, m, small):
        return np.nan, np.nan, np.nan
    top = d[0]
    for i in range(1, m):
        top = max(top, d[i])
    if top > SAFE:
        return np.nan, np.inf, np.inf
    first, trace, last = 0.0, 0.0, 0.0
    for i in range(m):  # relative to the largest, so that a start far below the top of H is not taken for nothing
        x = math.exp(0.5 * (d[i] - top))
        y = x * z[i]
        first += y * y
        trace += x * x
        last += y * w[i]
    size = math.exp(top)
    return first * size, trace * size, last * last / first


@njit(cache=True, fastmath=False)
def _lengthen_inplace(Q, T, H, m, target):
    """Lanczos from m to ``target`` steps on H (n, n); returns the steps done and whether the Krylov space ended.

    ``Q[m]`` holds the raw product of H with the last vector. Every new vector is made orthogonal to all others once:
    a tenth of the time at order 52, nothing at 2000, and H with any spectrum is done after n steps.

    Q (room + 1, n), T (6, room + 1), H (n, n).
    """
    for j in range(m, target):
        u = Q[j]
        for k in range(j - 1, -1, -1):
            add_multiple_inplace(u, Q[k], -inner(Q[k], u))
        beta = math.sqrt(inner(u, u).real)
        if not beta > BREAKDOWN:
            return j, True
        T[1, j - 1] = beta
        beta = 1.0 / beta
        for i in range(len(u)):
            u[i] *= beta
        hermitian_product_inplace(Q[j + 1], H, u)
        T[0, j] = inner(u, Q[j + 1]).real
    return target, target >= H.shape[0]


@njit(cache=True, fastmath=False)
def first_entry(Q, T, H, guess, tol):
    """``q* exp(H) q`` to a relative ``tol``, from ``Q[0] = q`` and ``Q[1] = H q``.

    Steps (0 if there is no room), whether exact, value, trace, what the last step gave.
    """
    n, room = H.shape[0], T.shape[1] - 1
    T[0, 0] = inner(Q[0], Q[1]).real
    m, target = 1, min(max(guess, SHORTEST), n)
    while True:
        if target > room:
            return 0, False, np.nan, np.nan, np.nan
        m, exact = _lengthen_inplace(Q, T, H, m, target)
        first, trace, last = _quadrature(T, m, 0.0, 0.0)
        if exact or last <= tol:
            return m, exact, first, trace, last
        target = min(m + 1, n)


@njit(cache=True, fastmath=False)
def trace_change(Q, T, H, m, exact, rho, trace, tol):
    """``tr exp(H + rho q q*) - tr exp(H)``; steps (0 if there is no room) and the change.

    Up to |rho| = 1 the steps of the prediction do. Above, they are checked in the same way.

    Q (room + 1, n), T (6, room + 1), H (n, n).
    """
    n, room = H.shape[0], T.shape[1] - 1
    if exact or abs(rho) <= 1.0:
        return m, _quadrature(T, m, rho, COUPLING)[1] - trace
    while True:
        _, after, last = _quadrature(T, m, rho, 0.0)
        if exact or after == np.inf or last <= tol:
            return m, after - _quadrature(T, m, 0.0, COUPLING)[1]
        target = min(m + 1, n)
        if target > room:
            return 0, np.nan
        m, exact = _lengthen_inplace(Q, T, H, m, target)
