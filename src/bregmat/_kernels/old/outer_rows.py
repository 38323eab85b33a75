"""Rows ``A_i = shift_i I + sum_t coef_t v_t v_t'`` as flat arrays, and their scalar losses: what projections onto one row read.

The scalar functions are the compiled twins of those of :mod:`bregmat.losses`.
"""

import math

import numpy as np

from bregmat._kernels.arrays import OuterRows
from bregmat._kernels.old.compiling import njit

HARD, ITAKURA_SAITO, RELATIVE_ENTROPY, QUADRATIC = 0, 1, 2, 3  # ScalarLoss.projection_code


def are_single(rows: OuterRows) -> bool:
    """Whether no row has more than one term, of positive weight: such rows need no eigenvalues of their own."""
    return bool((np.diff(rows.ptr) <= 1).all() and (rows.coef > 0.0).all())


@njit(cache=True)
def load_inplace(v, rows, t):
    """The vector of term t into v, of shape (>= r,)."""
    za, zb, s = rows.Z[rows.a[t]], rows.Z[rows.b[t]], float(rows.sign[t])
    for k in range(len(za)):
        v[k] = za[k] + s * zb[k]


@njit(cache=True)
def relaxed(loss, b, gamma, scale, mu):
    """Relaxed bound ``xi(mu)`` and its derivative (Kulis 2009, section 6.2.1: the bound that moves with its multiplier)."""
    if loss == HARD:
        return b, 0.0
    if loss == ITAKURA_SAITO:
        xi = b / (1.0 - mu * b / gamma)
        return xi, xi * xi / gamma
    if loss == RELATIVE_ENTROPY:
        xi = b * math.exp(min(mu / gamma, 700.0))
        return xi, xi / gamma
    d = scale * scale / gamma
    return b + mu * d, d


@njit(cache=True)
def null_step(loss, sense, b, gamma, scale, mu, unit):
    """The step (scalars) for a row with ``A_i = 0``, whose value is 0 whatever the matrix: only its multiplier can move.

    A hard row that 0 does not meet grows without limit, which is the proof that nothing meets it.
    """
    if loss == QUADRATIC:
        return -b * gamma / (scale * scale) - mu
    if loss == HARD and (sense * b < 0.0 or (sense == 0 and b != 0.0)):
        return math.copysign(max(1.0 / unit, abs(mu)), -b)
    return 0.0


@njit(cache=True)
def corrected_step(delta, mu, sense):
    """The step cut (scalars) so that the multiplier keeps its sign (Kulis 2009, eq. 8)."""
    if sense > 0:
        return max(delta, -mu)
    if sense < 0:
        return min(delta, -mu)
    return delta
