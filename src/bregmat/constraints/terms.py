"""Constraints as signed sums of squared norms: ``|z_a + s z_b|^2`` with ``s`` in {-1, 0, +1}; values of those that involve all points.

The relation of a constraint (:mod:`bregmat.constraints.relations`) is such a sum, so all operators that are built from constraints have
one form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.linalg import blocks, row_dot, sq_norms
from bregmat.constraints.columns import LowRankMatrix


@dataclass(frozen=True)
class Terms:
    """Rank-one terms of the sparse rows: row ``row`` gains ``coef * |z_a + sign z_b|^2``."""

    row: np.ndarray
    a: np.ndarray
    b: np.ndarray
    sign: np.ndarray
    coef: np.ndarray

    def values(self, G: Any, c: int) -> tuple[np.ndarray, np.ndarray]:
        """Values of the c rows at points G (n, r), and the sums of the squared norms of their points; 0 without terms."""
        p, size = np.zeros(c), np.zeros(c)
        lengths = sq_norms(G)
        for part in blocks(len(self.row), G.shape[1], 2**22):  # 32 MB of differences at a time
            v, sign = G[self.b[part]], self.sign[part][:, None].astype(float)
            v = G[self.a[part]] + (v.multiply(sign).tocsr() if scipy.sparse.issparse(G) else v * sign)
            # p_row += coef |z_a + sign z_b|^2
            np.add.at(p, self.row[part], self.coef[part] * sq_norms(v))
        # size of a term: |coef| (|z_a|^2 + |z_b|^2)
        both = lengths[self.a] + np.where(self.sign == 0, 0.0, lengths[self.b])
        np.add.at(size, self.row, np.abs(self.coef) * both)
        return p, size


def whole_value(C: Any, G: Any) -> tuple[float, float]:
    """``tr(G' C G)``, and the sum of ``|C_kl| |g_k| |g_l|``; C dense, sparse, a LowRankMatrix, or None for the identity."""
    lengths = np.sqrt(sq_norms(G))
    if C is None:
        return (value := float(lengths @ lengths)), value
    if isinstance(C, LowRankMatrix):
        q = np.asarray(G.T @ C.vectors)
        return float((q * q).sum(axis=0) @ C.weights), float((abs(C.vectors).T @ lengths) ** 2 @ abs(C.weights))
    value = float(row_dot(G, scipy.sparse.csr_array(C) @ G if scipy.sparse.issparse(G) else C @ G).sum())
    return value, float(lengths @ (abs(C) @ lengths))
