"""Von Neumann projections onto one row, in spectral form ``M = Vt' diag(exp lam) Vt`` (Kulis 2009, Algorithm 3).

``lam`` is ascending and the rows of ``Vt`` are its eigenvectors. Multipliers are those of ``log M = log M0 - A*(mu)``; the
papers' alpha is ``-delta``. With ``total > 0`` the trace is eliminated: everything refers to ``total M / tr M`` (Tsuda 2004).

No closed form exists: delta is the zero of ``log p(delta) - log xi(mu + delta)``, which is nearly linear, by Newton's method
between bounds. Each evaluation takes the spectrum along the step: the secular equation for a row of rank one, a dense
eigenproblem for others.
"""

import math

import numpy as np

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.eigen_update import apply_secular_inplace, exp_along_inplace, rotate_ties_inplace
from bregmat._kernels.old.outer_rows import corrected_step, load_inplace, null_step, relaxed
from bregmat._kernels.old.products import product_inplace
from bregmat._kernels.old.secular import solve_secular_inplace
from bregmat._kernels.old.vectors import copy_inplace, copy_rows_inplace, copy_transposed_inplace, dot, sum_of_exp

# forms of a row: w w', a symmetric matrix, a multiple of I; none of them
OUTER, DENSE, IDENTITY, NEITHER = 0, 1, 2, 3
LONGEST = 30.0  # largest change of the exponent in one Newton step


@njit(cache=True)
def row_residual(p, S, dp, total, loss, b, gamma, scale, mu):
    """f, its derivative in delta and its relative size (scalars), from the value p of the row, the trace S and ``-dp/ddelta``."""
    xi, slope = relaxed(loss, b, gamma, scale, mu)
    change = -dp
    if total > 0.0:
        change = total * (p * p / S - dp) / S
        p = total * p / S
    if p > 0.0 and xi > 0.0:
        f = math.log(p) - math.log(xi)
        return f, change / p - slope / xi, abs(f)
    f = p - xi
    return f, change - slope, abs(f) / (abs(p) + abs(xi) + 1e-300)


@njit(cache=True, fastmath=False)
def dense_along(lam, X, delta):
    """Spectrum of ``diag(lam) - delta X``, and of its exponential: value of X, trace, ``-d value / d delta``."""
    n = len(lam)
    T, Y, e = np.empty((n, n)), np.empty((n, n)), np.empty(n)
    for k in range(n):
        for l in range(n):
            T[k, l] = -delta * X[k, l]
        T[k, k] += lam[k]
    theta, Q = np.linalg.eigh(T)
    np.dot(X, Q, T)
    np.dot(Q.T, T, Y)
    p, S, dp = 0.0, 0.0, 0.0
    for k in range(n):
        e[k] = math.exp(theta[k])
        p += e[k] * Y[k, k]
        S += e[k]
        dp += e[k] * Y[k, k] * Y[k, k]
        for l in range(k):
            gap = theta[k] - theta[l]  # >= 0
            F = e[k] * (-math.expm1(-gap) / gap) if gap > 1e-12 else e[k]
            dp += 2.0 * F * Y[k, l] * Y[k, l]
    return theta, Q, p, S, dp


@njit(cache=True, fastmath=False)
def rotate_rows_inplace(Vt, Q):
    """``Vt <- Q' Vt``; Vt, Q (n, n)."""
    Qt, turned = np.empty(Vt.shape), np.empty(Vt.shape)
    copy_transposed_inplace(Qt, Q)  # Q is of any layout, for all that numba knows
    np.dot(Qt, Vt, turned)
    copy_rows_inplace(Vt, turned)


@njit(cache=True, fastmath=False)
def project_inplace(lam, Vt, work, w, X, form, kappa, total, row, corrected, tol):
    """Project onto one row: ``w w'``, X (both in the eigenbasis), or kappa I; (delta, evaluations).

    ``row`` = (loss, sense, bound, gamma, scale, mu, unit). Moves lam and Vt.
    """
    loss, sense, b, gamma, scale, mu, unit = row
    size = abs(kappa)
    if form == OUTER:
        rotate_ties_inplace(lam, Vt, w)
        size = dot(w, w)
    elif X is not None and form == DENSE:
        size = 0.0
        for k in range(len(X)):
            for l in range(len(X)):
                size += X[k, l] * X[k, l]
        size = math.sqrt(size)
    if size == 0.0:
        delta = null_step(loss, sense, b, gamma, scale, mu, unit)
        return corrected_step(delta, mu, sense) if corrected else delta, 0
    start = sum_of_exp(lam)
    theta, Q = lam, Vt
    lo, hi, delta, K, evaluations = -np.inf, np.inf, 0.0, 0, 0
    while True:
        if form == OUTER:
            K = solve_secular_inplace(work, lam, w, -delta)
            p, S, dp = exp_along_inplace(work, lam, w, K)
        elif X is not None and form == DENSE:
            theta, Q, p, S, dp = dense_along(lam, X, delta)
        else:
            S = start * math.exp(-delta * kappa)
            p, dp = kappa * S, kappa * kappa * S
        f, slope, error = row_residual(p, S, dp, total, loss, b, gamma, scale, mu + delta)
        evaluations += 1
        if error <= tol or evaluations >= 60 or not slope < 0.0:
            break
        if corrected and sense != 0 and delta == -mu and mu != 0.0 and sense * f <= 0.0:
            break  # the row holds with multiplier 0 (Kulis 2009, eq. 8)
        if f > 0.0:
            lo = delta
        else:
            hi = delta
        new = delta + max(-LONGEST / size, min(LONGEST / size, -f / slope))
        if not lo < new < hi:
            new = 0.5 * (lo + hi)
        if corrected:
            new = corrected_step(new, mu, sense)
        if new == delta or abs(new) * size > 20.0 * LONGEST:
            break
        delta = new
    if delta == 0.0:
        return 0.0, evaluations
    if form == OUTER:
        apply_secular_inplace(lam, Vt, work, K)
    elif X is not None and form == DENSE:
        copy_inplace(lam, theta)
        rotate_rows_inplace(Vt, Q)
    else:
        for k in range(len(lam)):
            lam[k] -= delta * kappa
    return delta, evaluations


@njit(cache=True, fastmath=False)
def row_in_basis_inplace(w, X, v, Vt, lam, rows, i):
    """The row in the eigenbasis: (form, value at ``exp(lam)``); fills w for OUTER and X, None where all rows are single, for DENSE."""
    first, last = rows.ptr[i], rows.ptr[i + 1]
    if first == last:
        return IDENTITY, rows.shift[i] * sum_of_exp(lam)
    if last - first == 1 and rows.coef[first] > 0.0:
        load_inplace(v, rows, first)
        product_inplace(w, Vt, v)
        root = math.sqrt(rows.coef[first])
        p = 0.0
        for k in range(len(w)):
            w[k] *= root
            p += math.exp(lam[k]) * w[k] * w[k]
        return OUTER, p
    if X is None:
        return NEITHER, 0.0
    return DENSE, dense_row_inplace(X, v, Vt, lam, rows, first, last)


@njit(cache=True, fastmath=False)
def dense_row_inplace(X, v, Vt, lam, rows, first, last):
    """The terms first ... last - 1 in the eigenbasis into X (n, n), through v (n,); the value at ``exp(lam)``."""
    n = len(lam)
    W = np.empty((last - first, n))
    C = np.empty((last - first, n))
    for t in range(first, last):
        load_inplace(v, rows, t)
        product_inplace(W[t - first], Vt, v)
        for k in range(n):
            C[t - first, k] = rows.coef[t] * W[t - first, k]
    np.dot(C.T, W, X)
    p = 0.0
    for k in range(n):
        p += math.exp(lam[k]) * X[k, k]
    return p


@njit(cache=True, fastmath=False)
def sweep_inplace(lam, Vt, dual, totals, counts, work, X, rows, bounds, start, stop, corrected, tol):
    """Project onto the rows start ... stop - 1 in turn; totals and counts as for LogDet (the running bound is not used).

    X (n, n) is a work array; None where all rows are single ones.
    """
    v, w = work.rows_of_projections[0], work.rows_of_projections[1]
    for i in range(start, stop):
        sense, mu, b = bounds.sense[i], dual[i], bounds.bound[i]
        form, p = row_in_basis_inplace(w, X, v, Vt, lam, rows, i)
        excess = abs(p - b) if sense == 0 else sense * (p - b)
        totals[3] = max(totals[3], excess / bounds.unit[i])
        if (mu == 0.0 or not corrected) and sense != 0 and excess <= 0.0:
            counts[1] += 1
            continue
        row = (bounds.loss[i], sense, b, bounds.gamma[i], bounds.scale[i], mu, bounds.unit[i])
        delta, used = project_inplace(lam, Vt, work, w, X, form, rows.shift[i], 0.0, row, corrected, tol)
        counts[3] += used
        if delta == 0.0:
            counts[1] += 1
            continue
        counts[2] += 1
        totals[4] += delta * delta
        dual[i] = 0.0 if delta == -mu else mu + delta
