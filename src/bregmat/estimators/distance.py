"""The learned distance between two points, and of many pairs. Distances here are not squared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.columns import rows_text

CHUNK = 1_000_000  # numbers per block when many pairs are transformed


@dataclass(frozen=True, eq=False)
class MahalanobisDistance:
    """``|(u - v) components'|``, a distance (not squared) between two points; picklable.

    Attributes
    ----------
    components : ndarray, shape (r, d)
    """

    components: np.ndarray

    def __call__(self, u: Any, v: Any, squared: bool = False) -> float:
        """Distance of two 1-D points; its square if asked for."""
        u, v = np.asarray(u, dtype=float), np.asarray(v, dtype=float)
        d = self.components.shape[1]
        if u.shape != (d,) or v.shape != (d,):
            raise ValueError(f"u and v must have shape ({d},); got {u.shape} and {v.shape}.")
        t = self.components @ (u - v)
        sq_distance = float(t @ t)
        return sq_distance if squared else float(np.sqrt(sq_distance))


def pair_distances(pairs: Any, components: np.ndarray) -> np.ndarray:
    """Distances of pairs (m, 2, d), block by block; not squared."""
    pairs, d = np.asarray(pairs), components.shape[1]
    if pairs.ndim != 3 or pairs.shape[1:] != (2, d):
        raise ValueError(f"pairs must have shape (m, 2, {d}); got {pairs.shape}.")
    out = np.empty(len(pairs))
    step = max(1, CHUNK // d)
    for start in range(0, len(pairs), step):
        part = np.asarray(pairs[start : start + step], dtype=float)
        bad = np.flatnonzero(~np.isfinite(part).all(axis=(1, 2)))
        if len(bad):
            raise ValueError(f"pairs contains NaN or infinity in {rows_text(start + bad)}.")
        out[start : start + step] = np.linalg.norm((part[:, 0] - part[:, 1]) @ components.T, axis=1)
    return out
