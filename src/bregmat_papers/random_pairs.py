"""The pairs of Kulis 2009, section 7.2, which are those of Davis 2007: drawn at random, whatever their classes."""

from __future__ import annotations

import numpy as np

from bregmat import Constraints
from bregmat.base.sampling import differ, sq_distances

PERCENTILES = (5, 95)
ENOUGH = 40_000  # draws for the percentiles, where fewer pairs are wanted


def random_pairs(X: np.ndarray, y: np.ndarray, n_pairs: int, seed: int) -> Constraints:
    """Different pairs drawn alike from all pairs of points that differ; fewer where there are no more.

        same class:  sq_distance <= the 5th percentile        different class:  sq_distance >= the 95th

    Parameters
    ----------
    X : ndarray, shape (n, d)
    y : ndarray, shape (n,)
        Classes.
    n_pairs : int
    seed : int

    Returns
    -------
    Constraints
        The percentiles are those of the squared distances of all pairs drawn, at least 40,000 where there are as many.
    """
    X = X.astype(float)
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.integers(0, len(y), (max(2 * n_pairs, ENOUGH), 2)), axis=1)
    drawn = np.unique(drawn[drawn[:, 0] != drawn[:, 1]], axis=0)
    drawn = drawn[differ(X)(*drawn.T)]
    near, far = np.percentile(sq_distances(X, *drawn.T), PERCENTILES)
    a, b = drawn[rng.permutation(len(drawn))[:n_pairs]].T
    same = y[a] == y[b]
    same_rows = Constraints.sq_distance(a[same], b[same], near, "<=")
    return same_rows + Constraints.sq_distance(a[~same], b[~same], far, ">=")
