"""The common unit of weights, and the weights that cuts can have."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from bregmat.base.tolerances import EPS


def steps_of(A: Any, n_side: int | None) -> tuple[float, float, float]:
    """``step``, ``offset`` and ``spread`` of a graph: the common unit of its weights, or twice the unit if parities are known.

    In units, the weight of a cut (S, T) has the parity of the sum of the degrees in S, where edges inside S count twice. If all degrees
    are even, the cut is even. If all are odd and S always has ``n_side`` vertices, the cut has the parity of ``n_side``.
    """
    unit, is_exact = common_unit(np.unique(A.data)) if len(A.data) else (0.0, True)
    if unit == 0.0:
        return 0.0, 0.0, 0.0
    counts = scipy.sparse.csr_array((np.rint(A.data / unit), A.indices, A.indptr), shape=A.shape)
    # every edge is in A twice; the second term bounds the rounding of the first one
    spread = 0.5 * float(np.abs(A.data - unit * counts.data).sum() + EPS * A.data.sum())
    if counts.data.sum() >= 2.0**52 or (not is_exact and spread > 0.01 * unit):
        return 0.0, 0.0, 0.0
    odd = np.asarray(counts.sum(axis=1)).ravel() % 2
    has_parity = not odd.any() or (odd.all() and n_side is not None)
    offset = unit * (n_side % 2) if odd.all() and n_side is not None else 0.0
    return 2.0 * unit if has_parity else unit, offset, 0.0 if is_exact else spread


def common_unit(weights: np.ndarray) -> tuple[float, bool]:
    """The greatest common divisor of ascending positive weights, by Euclid's algorithm, and whether it divides them exactly.

    It is exact for whole numbers and halves, and up to rounding for tenths. It is 0 if there is none.
    """
    most_units = 1e6  # of the largest weight over a unit that is only known up to rounding: the unit is known to 1e-10
    largest = float(weights[-1])
    # sums and differences of multiples of the grid are exact
    grid = 2.0 ** (np.floor(np.log2(weights.sum())) - 51)
    is_exact = bool((weights == grid * np.rint(weights / grid)).all())
    unit = float(weights[0])
    while is_exact or unit >= largest / most_units:
        left = np.abs(weights - unit * np.rint(weights / unit))
        # a unit that is a difference of rounded weights is wrong by the rounding of the largest one
        rounding = 0.0 if is_exact else 4.0 * EPS * weights * (largest / unit)
        left = left[left > rounding]
        if not len(left):
            return largest / float(np.rint(largest / unit)), is_exact
        unit = float(left.min())
    return 0.0, False
