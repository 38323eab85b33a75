"""Directions that are added to the range of a prior factor.

LogDet and von Neumann never leave the range of their prior (Kulis 2009, sections 4 and 6.5).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.checks import as_matrix, check_positive
from bregmat.base.linalg import factor_svd
from bregmat.base.points import as_points
from bregmat.base.tolerances import HALF_DIGITS, RANK_TOL, TINY
from bregmat.constraints.constraints import Constraints


def with_new_directions(G0: Any, eps: float, directions: Any) -> np.ndarray | None:
    """The columns of :meth:`bregmat.Factor.widened`; None if no direction is added."""
    check_positive("eps", eps, finite=True)
    if scipy.sparse.issparse(G0):
        raise TypeError("Factor.widened needs a dense factor, because the new columns are dense; got a sparse G0.")
    G0 = np.asarray(as_points("prior factor G0", G0), dtype=float)
    W, top = _range_of(G0)
    if eps <= RANK_TOL * top:
        raise ValueError(
            f"eps must be above {RANK_TOL:g} times the largest eigenvalue of the prior ({top:.3g}), below which eigenvalues "
            f"count as zero; got {eps:.3g}."
        )
    N = _new_directions(W, directions)
    return np.hstack([G0, np.sqrt(eps) * N]) if N.shape[1] else None


def _range_of(G0: np.ndarray) -> tuple[np.ndarray, float]:
    """Orthonormal basis (n, r') of the range of ``G0 G0'``, and its largest eigenvalue."""
    sigma, V = factor_svd(G0)
    keep = sigma**2 > RANK_TOL * sigma[-1] ** 2
    return np.linalg.qr(G0 @ (V[:, keep] / sigma[keep]))[0], float(sigma[-1] ** 2)


def _new_directions(W: np.ndarray, directions: Any) -> np.ndarray:
    """Orthonormal basis (n, m) of what columns, or the points of constraints, add to the range of W; None: all that is outside."""
    n, r = W.shape
    V: np.ndarray | None = None
    if isinstance(directions, Constraints):
        touched = directions.touched(n)
        V = None if touched is None else np.eye(n)[:, touched]
    elif directions is not None:
        V = as_matrix("directions (a matrix or Constraints)", directions)
        if len(V) != n:
            raise ValueError(
                f"directions must have shape (n, k) with n = {n} rows, as the prior has; got shape {V.shape}."
            )
    if r == n:
        return np.zeros((n, 0))
    if V is None:
        return np.linalg.qr(W, mode="complete")[0][:, r:]
    # the largest entry first: the lengths of tiny and huge columns would under- or overflow
    V = V / np.maximum(np.abs(V).max(axis=0, initial=0.0), TINY)
    length = np.linalg.norm(V, axis=0)
    V = V / np.where(length > 0, length, 1.0)
    U, sigma, _ = np.linalg.svd(V - W @ (W.T @ V), full_matrices=False)
    N = U[:, sigma > HALF_DIGITS]
    # the division by a small sigma enlarges the rounding in the range of W, which is removed once more
    return np.linalg.qr(N - W @ (W.T @ N))[0]
