"""Trials of the online LogDet metric (Jain 2008) and of online PCA (Warmuth 2006), a block of examples to a call."""

import math

import numpy as np

from bregmat._kernels.old.compiling import njit
from bregmat._kernels.old.eigen_update import rank_one_update_inplace
from bregmat._kernels.old.logdet import chol_update_mult_inplace, transposed_product_inplace
from bregmat._kernels.old.products import product_inplace
from bregmat._kernels.old.vectors import copy_inplace, dot

# positions in the totals of the metric learner; RATIO holds k_t, or k_t / eta_t with the automatic rate; from LABELS on, sums
# of the labels of either sense, from COUNTS on how many they were, both by sense + 1; RATE and HIGHEST: of trials that moved
SEEN, UPDATES, LOSS, RATIO, RATE, HIGHEST, LABELS = range(7)
COUNTS = LABELS + 3
N_TOTALS = COUNTS + 3
AUTO_SCALE = 0.1  # eta times the square of the largest of label, prediction and mean label; chosen by trial
LARGEST_SHRINK = 1e4  # of z'Az in one factor update: it loses about as many digits as this has
# positions in the totals of online PCA; ETA made the present W, LAST_ETA the W of the last prediction
PAID, PRICE, ETA, LAST_ETA, PEAK = range(5)
TINY = 1e-200  # squared norms below it move nothing


@njit(cache=True, fastmath=False)
def implicit_step(p, y, eta):
    """``ybar - y`` and ``p / ybar`` (scalars) for the positive root of ``eta p ybar^2 + (1 - eta p y) ybar - p = 0``.

    Both without cancellation: the root itself, minus y, would lose all digits where eta is large.
    """
    c = 1.0 - eta * p * y
    root = math.hypot(c, 2.0 * math.sqrt(eta) * p)
    error = 2.0 * (p - y) / (1.0 + eta * p * y + root)
    shrink = 0.5 * (c + root) if c >= 0.0 else 2.0 * eta * p * p / (root - c)
    return error, shrink


@njit(cache=True, fastmath=False)
def metric_trials_inplace(Bt, predictions, totals, Z, y, sense, fixed):
    """Predict ``z' A z``, then ``A <- argmin D_ld(A', A) + eta / 2 excess(A')^2``, for every row z of Z; rows done.

    ``A = B B'``, ``Bt`` as in :mod:`bregmat._kernels.old.logdet`. ``fixed``: eta; 0 for the automatic rate
    ``AUTO_SCALE / max(z' A z, y, mean label of this sense so far)^2``. Stops before a trial that is not finite.

    Bt (r, r) with r >= d, totals (N_TOTALS,), Z (t, d); predictions, y (t,), sense (t,) int8.
    """
    r, d = Bt.shape[0], Z.shape[1]
    v, w, x = np.zeros(r), np.empty(r), np.empty(r)
    h, g, sums = np.empty(r), np.empty(r), np.empty(r)
    for t in range(len(y)):
        copy_inplace(v[:d], Z[t])
        # not taken over from the last update, which could do it on the way: calls of any length give the same bits
        transposed_product_inplace(w, Bt, v)
        p = dot(w, w)
        eta, k = fixed, sense[t] + 1
        labels, count = totals[LABELS + k] + y[t], totals[COUNTS + k] + 1.0
        if fixed == 0.0 and p > 0.0:
            largest = max(p, y[t], labels / count)
            eta = AUTO_SCALE / (largest * largest)
            if not eta > 0.0:  # the square overflows: no step would ever be made again
                return t
        error, shrink = implicit_step(p, y[t], eta)
        alpha = -eta * error / shrink
        excess = p - y[t]
        if not (abs(alpha) < np.inf and shrink > 0.0 and excess * excess < np.inf):
            return t
        predictions[t] = p
        totals[SEEN] += 1.0
        if p > 0.0:  # the label of identical points, which move nothing, is no measure of the others
            totals[LABELS + k] = labels
            totals[COUNTS + k] = count
        if excess == 0.0 or sense[t] * excess < 0.0:
            continue
        if not eta > 0.0:  # p underflows with a label that is not met
            return t
        target = p / shrink
        ratio = 1.0 + eta * p * target
        if excess > 0.0:
            ratio *= ratio / (1.0 + eta * target * target)
        totals[RATIO] = max(totals[RATIO], ratio if fixed > 0.0 else ratio / eta)
        totals[RATE] = eta
        totals[HIGHEST] = max(totals[HIGHEST], eta)
        totals[LOSS] += 0.5 * excess * excess
        totals[UPDATES] += 1.0
        turns = 0
        while shrink > LARGEST_SHRINK and turns < 100:
            w, x = x, w
            chol_update_mult_inplace(Bt, w, (1.0 / LARGEST_SHRINK - 1.0) / p, x, v, h, g, sums)
            p = dot(w, w)
            shrink = p / target
            alpha = (target - p) / (p * p)
            turns += 1
        w, x = x, w
        chol_update_mult_inplace(Bt, w, alpha, x, v, h, g, sums)
    return len(y)


@njit(cache=True, fastmath=False)
def cap_spectrum_inplace(lam, sums, m):
    """Logarithms of the weights nearest in relative entropy with sum 1 and none above 1 / m; how many are at 1 / m.

    ``lam``: logarithms, ascending, of any sum. ``sums``: work array. The largest are set to 1 / m, as few as
    possible, and the others keep their proportions (Warmuth 2006: capping).

    lam, sums (n,).
    """
    n = lam.size
    total = lam[0]
    sums[0] = total
    for i in range(1, n):
        total = lam[i] + math.log1p(math.exp(total - lam[i]))
        sums[i] = total
    c = 0
    while c < m - 1 and lam[n - 1 - c] - sums[n - 1 - c] + math.log(m - c) > 0.0:
        c += 1
    top = n - c
    shift = math.log((m - c) / m) - sums[top - 1]
    for i in range(top):
        lam[i] += shift
    for i in range(top, n):
        lam[i] = -math.log(m)
    return c


@njit(cache=True, fastmath=False)
def pca_trials_inplace(lam, Vt, totals, X, m, fixed, reach, work):
    """Pay ``m x'Wx``, then ``W <- cap(exp(log W - eta x x'))``, for every row x of X.

    ``W = Vt' diag(exp lam) Vt``. ``fixed``: eta; 0 for ``sqrt(reach / (B (B + L)))``, B the largest squared norm and L the
    loss so far, in which case log W first shrinks to the new rate (see :class:`bregmat.online.pca.OnlinePCA`).

    lam (d,), Vt (d, d), totals (5,), X (t, d).
    """
    d = lam.size
    w, sums = work.rows_of_projections[1], work.rows_of_projections[2]
    for t in range(len(X)):
        b, loss = 0.0, 0.0
        for i in range(d):
            b += X[t, i] * X[t, i]
        product_inplace(w, Vt, X[t])
        for i in range(d):
            loss += math.exp(lam[i]) * w[i] * w[i]
        loss *= m
        totals[PAID] += loss
        if not b > TINY:
            continue
        totals[PEAK] = max(totals[PEAK], b)
        if totals[ETA] == 0.0:
            totals[ETA] = fixed if fixed > 0.0 else math.sqrt(reach) / totals[PEAK]
        eta = totals[ETA]
        totals[LAST_ETA] = eta
        totals[PRICE] += loss * (1.0 + math.expm1(-eta * b) / (eta * b))
        if fixed == 0.0:
            new = math.sqrt(reach / totals[PEAK] / (totals[PEAK] + totals[PAID]))
            for i in range(d):
                lam[i] *= new / eta
            totals[ETA] = eta = new
        rank_one_update_inplace(lam, Vt, w, -eta, work)
        cap_spectrum_inplace(lam, sums, m)
