"""Trials of the matrix exponentiated gradient learner without eigenvectors.

The state is a Hermitian ``H = log W + const``. One Lanczos run (krylov.py) of about ten products with H gives the prediction and,
from the same space, the new normaliser. Everything that decides how a trial is computed lies in ``state``: a learner that is
saved and loaded continues to the same bits.
"""

import math

import numpy as np

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.eigen_update import rank_one_update_inplace
from bregmat._kernels.old.krylov import FAST, SHORTEST, first_entry, hermitian_product_inplace, inner, trace_change
from bregmat._kernels.old.vectors import fill_inplace

# positions in ``state`` (float64): numbers that change with every trial
Z, PEAK, SHIFT, LOSS, CARRY, SLOPES, SEEN, SINCE, GUESS, SPARE = range(10)
# positions in ``settings`` (float64): numbers that do not
ETA, TRACE, LOSS_CODE, LOSS_PARAMETER, TOL, REFRESH, NORMALIZED = range(7)
# codes of the built-in losses
SQUARED, ABSOLUTE, LOGISTIC, ENTROPIC = range(4)
# why a run over a block came back
DONE, NEEDS_REFRESH, NEEDS_ROOM, FAILED = range(4)


@njit(cache=True, fastmath=False)
def loss_value(code, parameter, p, y):
    """Value and derivative of a built-in loss at prediction p and label y (scalars)."""
    if code == SQUARED:
        return (p - y) * (p - y), 2.0 * (p - y)
    if code == ABSOLUTE:
        gap = p - y
        return abs(gap), 1.0 if gap > 0.0 else (-1.0 if gap < 0.0 else gap)
    if code == LOGISTIC:
        margin = y * (p - parameter)
        if margin > 0.0:
            e = math.exp(-margin)
            return math.log1p(e), -y * e / (1.0 + e)
        e = math.exp(margin)
        return math.log1p(e) - margin, -y / (1.0 + e)
    # binary relative entropy for labels in [parameter, 1 - parameter], continued by its tangents outside
    y = min(max(y, parameter), 1.0 - parameter)
    x = min(max(p, parameter), 1.0 - parameter)
    slope = (x - y) / (x * (1.0 - x))
    value = y * math.log(y / x) + (1.0 - y) * math.log((1.0 - y) / (1.0 - x)) + slope * (p - x)
    return max(value, 0.0), slope


@njit(cache=True, fastmath=False)
def losses_inplace(values, slopes, p, y, code, parameter):
    """Values and derivatives of a built-in loss for predictions p and labels y, all (n,)."""
    for t in range(len(p)):
        values[t], slopes[t] = loss_value(code, parameter, p[t], y[t])


@njit(cache=True, fastmath=False)
def account_inplace(state, value, slope):
    """Add one trial to the totals in state (10,); the loss with Kahan's carry, so that a billion small ones do not get lost."""
    part = value - state[CARRY]
    total = state[LOSS] + part
    state[CARRY] = (total - state[LOSS]) - part
    state[LOSS] = total
    state[SLOPES] += slope * slope
    state[SEEN] += 1.0


@njit(cache=True, fastmath=False)
def is_due(state, settings):
    """Whether H must be shifted and Z computed anew: after many trials, or where rounding or range suffered; (10,), (7,)."""
    size = state[Z]
    return not (state[SINCE] < settings[REFRESH] and size > 1e-2 * state[PEAK] and size < 1e10)


@njit(cache=True, fastmath=False)
def _scale(state, settings):
    """What turns ``z* exp(H) z`` into ``z* W z``; state (10,), settings (7,)."""
    return settings[TRACE] / state[Z] if settings[NORMALIZED] > 0.0 else math.exp(state[SHIFT])


@njit(cache=True, fastmath=False)
def _settle_inplace(state, Q, T, H, run, rho, tol):
    """The normaliser in state (10,) after ``H += rho q q*``, from what the run of :func:`first_entry` gave; False without room.

    Next time it starts with as many steps, or one fewer where these were plenty. Q, T, H as in :mod:`bregmat._kernels.old.krylov`.
    """
    m, exact, _, trace, last = run
    guess = m - 1 if last <= 1e-4 * tol and m > SHORTEST else m
    m, change = trace_change(Q, T, H, m, exact, rho, trace, tol)
    if m == 0:
        return False
    state[GUESS] = float(guess)
    state[Z] += change
    state[PEAK] = max(state[PEAK], state[Z])
    return True


@njit(cache=True, fastmath=False)
def _trial_inplace(state, Q, T, H, size, y, settings):
    """All of a trial but the change of H, for ``X = size q q*``, q = ``Q[0]`` (n,); why it came back, prediction, weight of X in H."""
    tol = settings[TOL]
    run = (1, True, 0.0, 0.0, 0.0)
    if size > 0.0:
        run = first_entry(Q, T, H, int(state[GUESS]), tol)
        if run[0] == 0:
            return NEEDS_ROOM, 0.0, 0.0
    p = run[2] * size * _scale(state, settings)
    value, slope = loss_value(int(settings[LOSS_CODE]), settings[LOSS_PARAMETER], p, y)
    rho = -settings[ETA] * slope
    if not (abs(rho * size) < np.inf and p < np.inf):
        return FAILED, p, rho
    if size > 0.0 and not _settle_inplace(state, Q, T, H, run, rho * size, tol):
        return NEEDS_ROOM, p, rho
    state[SINCE] += 1.0
    account_inplace(state, value, slope)
    return DONE, p, rho


@njit(cache=True, fastmath=False)
def learn_pairs_inplace(H, state, Q, T, predictions, a, b, y, settings):
    """Trials on ``X_t = (e_a - e_b)(e_a - e_b)' / 2`` with a built-in loss; returns how many were done, and why it came back.

    Parameters
    ----------
    H : (n, n) float64 or complex128; state : (10,); Q : (room + 1, n) of the type of H and T : (6, room + 1), work
    predictions : (t,), each written before its own update
    a, b : (t,) int64, different; y : (t,); settings : (7,)
    """
    half = math.sqrt(0.5)
    for t in range(len(y)):
        if is_due(state, settings):
            return t, NEEDS_REFRESH
        i, j = a[t], b[t]
        q, u, hi, hj = Q[0], Q[1], H[i], H[j]
        fill_inplace(q, 0.0)
        q[i], q[j] = half, -half
        for k in range(len(u)):
            u[k] = half * (hi[k] - hj[k]).conjugate()
        why, predictions[t], rho = _trial_inplace(state, Q, T, H, 1.0, y[t], settings)
        if why != DONE:
            return t, why
        r = 0.5 * rho
        H[i, i] += r
        H[j, j] += r
        H[i, j] -= r
        H[j, i] -= r
    return len(y), DONE


@njit(cache=True, fastmath=FAST)
def _add_outer_inplace(H, v, c):
    """``H += c v v*``; H (n, n), v (n,)."""
    for i in range(len(v)):
        h, f = H[i], c * v[i]
        for k in range(len(v)):
            h[k] += f * v[k].conjugate()


@njit(cache=True, fastmath=False)
def _begin(Q, H, v):
    """Start a run from v (n,): the first two rows of Q (room + 1, n); returns the squared length of v (0: nothing to do)."""
    size = inner(v, v).real
    if size > 0.0:
        q, inverse = Q[0], 1.0 / math.sqrt(size)
        for i in range(len(v)):
            q[i] = v[i] * inverse
        hermitian_product_inplace(Q[1], H, q)
    return size


@njit(cache=True, fastmath=False)
def learn_vectors_inplace(H, state, Q, T, predictions, V, y, settings):
    """Trials on ``X_t = v_t v_t*``, rows of V (t, n) of the type of H; otherwise as ``learn_pairs_inplace``.

    V (t, n); predictions, y (t,).
    """
    for t in range(len(y)):
        if is_due(state, settings):
            return t, NEEDS_REFRESH
        size = _begin(Q, H, V[t])
        why, predictions[t], rho = _trial_inplace(state, Q, T, H, size, y[t], settings)
        if why != DONE:
            return t, why
        _add_outer_inplace(H, V[t], rho)
    return len(y), DONE


@njit(cache=True, fastmath=False)
def predict_vectors_inplace(H, state, Q, T, predictions, V, settings):
    """``v_t* W v_t`` for rows of V (t, n); shapes and what is returned as ``learn_pairs_inplace``. H and the state are only read.

    V (t, n), predictions (t,).
    """
    tol = settings[TOL]
    for t in range(len(predictions)):
        size = _begin(Q, H, V[t])
        predictions[t] = 0.0
        if size > 0.0:
            m, _, first, _, _ = first_entry(Q, T, H, int(state[GUESS]), tol)
            if m == 0:
                return t, NEEDS_ROOM
            predictions[t] = first * size * _scale(state, settings)
    return len(predictions), DONE


@njit(cache=True, fastmath=False)
def add_vectors_inplace(H, state, Q, T, V, rho, settings):
    """``H += sum_k rho_k v_k v_k*``, V (k, n) and rho (k,), one after the other, with the normaliser; as ``learn_pairs_inplace``.

    For losses and instances of other kinds.
    """
    tol = settings[TOL]
    for t in range(len(rho)):
        if not (state[Z] > 1e-2 * state[PEAK] and state[Z] < 1e10):
            return t, NEEDS_REFRESH
        size = _begin(Q, H, V[t])
        if size > 0.0 and rho[t] != 0.0:
            run = first_entry(Q, T, H, int(state[GUESS]), tol)
            if run[0] == 0 or not _settle_inplace(state, Q, T, H, run, rho[t] * size, tol):
                return t, NEEDS_ROOM
            _add_outer_inplace(H, V[t], rho[t])
    return len(rho), DONE


@njit(cache=True, fastmath=False)
def rotate_pairs_inplace(lam, Vt, state, work, predictions, a, b, y, settings):
    """Trials on pairs by rank-one updates of the eigenpairs of log W: lam (n,), rows of Vt (n, n); as ``learn_pairs_inplace``.

    lam (n,), Vt (n, n); a, b (t,) int64; predictions, y (t,).
    """
    n, half = len(lam), math.sqrt(0.5)
    w = work.rows_of_projections[1]
    for t in range(len(y)):
        if not state[SINCE] < settings[REFRESH]:
            return t, NEEDS_REFRESH
        i, j = a[t], b[t]
        top = lam[n - 1] if settings[NORMALIZED] > 0.0 else 0.0
        p, total = 0.0, 0.0
        for k in range(n):
            w[k] = half * (Vt[k, i] - Vt[k, j])
            x = math.exp(lam[k] - top)
            p += x * w[k] * w[k]
            total += x
        if settings[NORMALIZED] > 0.0:
            p *= settings[TRACE] / total
        value, slope = loss_value(int(settings[LOSS_CODE]), settings[LOSS_PARAMETER], p, y[t])
        rho = -settings[ETA] * slope
        if not (abs(rho) < np.inf and p < np.inf):
            return t, FAILED
        if rho != 0.0:
            rank_one_update_inplace(lam, Vt, w, rho, work)
        state[SINCE] += 1.0
        predictions[t] = p
        account_inplace(state, value, slope)
    return len(y), DONE


@njit(cache=True, fastmath=False)
def tally_pairs_inplace(tally, a, b, y):
    """Per pair the number of labels (upper triangle) and their mean (lower); returns what the squares about it gained.

    tally (n, n); a, b (t,) int64; y (t,).
    """
    gained = 0.0
    for t in range(len(y)):
        i, j = min(a[t], b[t]), max(a[t], b[t])
        tally[i, j] += 1.0
        off = y[t] - tally[j, i]
        tally[j, i] += off / tally[i, j]
        gained += off * (y[t] - tally[j, i])
    return gained
