"""Rows ``A_i = shift_i I + sum_t coef_t v_t v_t'`` as flat arrays, and their scalar losses: what projections onto one row read.

The scalar functions are the compiled twins of those of :mod:`bregmat.losses`.
"""

import math
from typing import NamedTuple

import numpy as np

from bregmat._kernels.compiling import njit

HARD, ITAKURA_SAITO, RELATIVE_ENTROPY, QUADRATIC = 0, 1, 2, 3  # ScalarLoss.projection_code


class OuterRows(NamedTuple):
    """Row i owns the terms ``ptr[i] ... ptr[i+1] - 1``; the vector of a term is ``Z[a] + sign Z[b]``."""

    ptr: np.ndarray  # (c + 1,) int64
    coef: np.ndarray  # (m,)
    Z: np.ndarray  # (n, r)
    a: np.ndarray  # (m,) int32
    b: np.ndarray  # (m,) int32
    sign: np.ndarray  # (m,) int8
    shift: np.ndarray  # (c,) multiple of the identity; such rows have no terms


def are_single(rows: OuterRows) -> bool:
    """Whether no row has more than one term, of positive weight: such rows need no eigenvalues of their own."""
    return bool((np.diff(rows.ptr) <= 1).all() and (rows.coef > 0.0).all())


class RowBounds(NamedTuple):
    """Bound, sense and loss of each row, as in :class:`bregmat.row_losses.RowLosses`."""

    bound: np.ndarray
    sense: np.ndarray
    gamma: np.ndarray
    scale: np.ndarray
    loss: np.ndarray  # int8 codes
    unit: np.ndarray  # in which a violation is measured


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
