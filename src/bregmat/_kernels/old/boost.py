"""DefiniteBoost's steps: the most violated row, an exact or an approximate projection (Tsuda 2004, section 4).

``W = exp(H) / tr exp(H)`` with ``H = Vt' diag(lam) Vt``; ``C_j = s_j (A_j - b_j / total I)``, so that ``tr(W C_j) <= 0`` is the
row. lam is shifted so that its largest entry is 0 (section 3.2); what was taken off is kept in ``level[0]``.
"""

import math
from typing import NamedTuple

import numpy as np

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.eigen_update import rank_one_update_inplace
from bregmat._kernels.old.outer_rows import OuterRows, corrected_step
from bregmat._kernels.old.products import product_inplace
from bregmat._kernels.old.vectors import copy_inplace, sum_of_exp
from bregmat._kernels.old.von_neumann import (
    DENSE,
    OUTER,
    dense_along,
    project_inplace,
    rotate_rows_inplace,
    row_in_basis_inplace,
)


class Boosted(NamedTuple):
    """What does not change: the vectors of all terms, and the interval that holds the eigenvalues of each A_j."""

    V: np.ndarray  # (m, r)
    usable: np.ndarray  # (c,) bool: not a multiple of the identity
    low: np.ndarray  # (c,)
    high: np.ndarray  # (c,)
    total: float  # the trace
    Y: np.ndarray  # (m, r) memory: V in the eigenbasis
    p: np.ndarray  # (c,) memory: values


ROUNDING = 1e-15  # violation, relative to value and bound, that is none: a copy of a row that was just projected onto


def all_terms(rows: OuterRows) -> np.ndarray:
    """The vectors of all terms, (m, r)."""
    return rows.Z[rows.a] + rows.sign[:, None] * rows.Z[rows.b]


@njit(cache=True)
def approximate_step(r, low, high):
    """The minimiser (scalars) of the bound of Theorem 4.1, whose eq. 13 is misprinted unless ``high = -low``; ``low <= r <= high``."""
    if r == 0.0:
        return 0.0
    if not low < 0.0:  # no matrix but a singular one meets the row
        return 10.0 / max(high - low, 1e-300)
    if not high > 0.0 or r <= low:
        return -np.inf
    r = min(r, high * (1.0 - 1e-15))  # as long as a step needs to be to leave nothing on the other eigenvalues
    return (math.log1p(-r / low) - math.log1p(-r / high)) / (high - low)


@njit(cache=True)
def log_step_bound(r, low, high, alpha):
    """Logarithm of ``((high - r) e^(-alpha low) + (r - low) e^(-alpha high)) / (high - low)``, which bounds tr(W e^(-alpha C));
    at the approximate step it is log rho(r) of Theorem 4.1."""
    if not high > low:
        return -alpha * r
    a, b = -alpha * low, -alpha * high
    top = max(a, b)
    return top + math.log(((high - r) * math.exp(a - top) + (r - low) * math.exp(b - top)) / (high - low))


@njit(cache=True, fastmath=False)
def values_inplace(p, Y, e, V, Vt, lam, rows):
    """``tr(W A_j)`` of all rows into p (c,), multiples of the identity by their constant; V (m, r), Vt (r, r), lam (r,).

    Y (m, r) and e (r,) are overwritten.
    """
    size = sum_of_exp(lam)
    for k in range(len(lam)):
        e[k] = math.exp(lam[k]) / size
    product_inplace(Y, V, Vt.T)
    for i in range(len(p)):
        total = rows.shift[i]
        for t in range(rows.ptr[i], rows.ptr[i + 1]):
            q = 0.0
            for k in range(len(e)):
                q += e[k] * Y[t, k] * Y[t, k]
            total += rows.coef[t] * q
        p[i] = total


@njit(cache=True)
def _signed(sense, gap, low, high):
    """Violation and the interval of the eigenvalues of C for a row ``A - b I`` (scalars); an equality takes the side that it violates."""
    if sense < 0 or (sense == 0 and gap < 0.0):
        return -1.0, -gap, -high, -low
    return 1.0, gap, low, high


@njit(cache=True, fastmath=False)
def choose(p, bounds, dual, usable, low, high, total, corrected):
    """The row to project onto, by the violation (as published) or, with corrections, by what a step would gain.

    The gain is that of the quadratic model ``r delta - q delta^2 / 2``, ``q`` the largest curvature ((high - low) / 2)^2, with
    delta cut where the multiplier reaches 0. Returns (row or -1, largest relative violation).
    """
    best, chosen, worst = 0.0, -1, 0.0
    for i in range(len(p)):
        if not usable[i]:
            continue
        s, r, _, _ = _signed(bounds.sense[i], p[i] - bounds.bound[i] / total, low[i], high[i])
        worst = max(worst, r * total / bounds.unit[i])
        if corrected:
            width = high[i] - low[i]
            q = max(0.25 * (width * width), 1e-300)
            delta = corrected_step(s * r / q, dual[i], bounds.sense[i])
            score = s * r * delta - 0.5 * q * delta * delta
        else:
            score = r
        if score > best:
            best, chosen = score, i
    return chosen, worst


@njit(cache=True, fastmath=False)
def boost_inplace(lam, Vt, dual, level, series, work, X, rows, bounds, cone, exact, greedy, corrected, stop_at, tol):
    """Up to ``len(series)`` steps; returns how many, and the largest relative violation met last.

    X (n, n) is a work array; None where all rows are single ones. ``level``: [taken off lam, log dual objective, log bound].
    ``series``: per step row, step length, log dual objective, log bound, evaluations. A cyclic order passes every row once.
    ``stop_at``: violation at which a run without corrections ends.
    """
    n, c = len(lam), len(dual)
    V, usable, low, high, total, Y, p = cone
    v, w, e = work.rows_of_projections[0], work.rows_of_projections[1], work.rows_of_projections[2]
    steps, worst = 0, 0.0
    # log dual = log tr exp H + rest, rest = sum mu b / total + constant
    rest = level[1] - math.log(sum_of_exp(lam)) - level[0]
    tried = 0
    while steps < len(series):
        if greedy:
            values_inplace(p, Y, e, V, Vt, lam, rows)
            i, worst = choose(p, bounds, dual, usable, low, high, total, corrected)
            if i < 0 or (not corrected and worst <= stop_at):
                break
            form, _ = row_in_basis_inplace(w, X, v, Vt, lam, rows, i)
            value = p[i]
        else:
            if tried >= c:
                break
            i = tried
            tried += 1
            if not usable[i]:
                continue
            form, value = row_in_basis_inplace(w, X, v, Vt, lam, rows, i)
            value /= sum_of_exp(lam)
        sense, mu = bounds.sense[i], dual[i]
        b = bounds.bound[i] / total
        s, r, bottom, top = _signed(sense, value - b, low[i] - b, high[i] - b)
        if not greedy:
            worst = max(worst, r * total / bounds.unit[i])
            if r <= ROUNDING * (abs(value) + abs(b)) and sense != 0 and (mu == 0.0 or not corrected):
                continue
        model = s * approximate_step(r, bottom, top)
        if corrected:
            model = corrected_step(model, mu, sense)
        evaluations = 0
        if exact:
            row = (0, sense, bounds.bound[i], 1.0, 1.0, mu, bounds.unit[i])
            delta, evaluations = project_inplace(lam, Vt, work, w, X, form, 0.0, total, row, corrected, tol)
        else:
            delta = model
            if form == OUTER:
                rank_one_update_inplace(lam, Vt, w, -delta, work)
            elif X is not None and form == DENSE:
                theta, Q, _, _, _ = dense_along(lam, X, delta)
                copy_inplace(lam, theta)
                rotate_rows_inplace(Vt, Q)
        if delta == 0.0:
            if greedy:  # nothing left to gain beyond the accuracy of a projection
                break
            continue
        dual[i] = 0.0 if delta == -mu else mu + delta
        rest += delta * b
        shift = lam[n - 1]
        for k in range(n):
            lam[k] -= shift
        level[0] += shift
        level[1] = math.log(sum_of_exp(lam)) + level[0] + rest
        level[2] += log_step_bound(r, bottom, top, s * model)
        record = series[steps]
        record[0], record[1], record[2], record[3], record[4] = i, delta, level[1], level[2], evaluations
        steps += 1
    return steps, worst
