"""Constraints from tuples: bounds on the squared distances of pairs; comparisons of two distances from triplets and quadruplets.

``pair_rows`` and ``comparison_rows`` return the constraints and the number of the tuple that each of them comes from.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bregmat.base.checks import as_numbers, generator, rows_text
from bregmat.base.sampling import PERCENTILES, differ, sq_distance_percentiles, sq_distances
from bregmat.constraints.constraints import Constraints
from bregmat.from_labels.neighbors import TOTAL_WEIGHT
from bregmat.pairs.tuples import PointTuples


def chosen_bounds(bounds: Any, points: Any) -> np.ndarray:
    """The bounds of the caller, or the 5th and the 95th percentile of the squared distances between the points; shape (2,)."""
    if bounds is not None:
        return as_bounds(bounds)
    return np.array(sq_distance_percentiles(points, np.arange(points.shape[0]), PERCENTILES, generator(0)))


def as_bounds(bounds: Any) -> np.ndarray:
    """Two squared distances, shape (2,): the upper bound of similar pairs and the lower bound of dissimilar ones."""
    values = as_numbers("bounds", bounds).ravel().copy()
    if values.size != 2:
        raise ValueError("`bounds` should be an array-like of two elements.")
    if not (np.isfinite(values).all() and (values > 0).all() and values[0] <= values[1]):
        raise ValueError(
            "bounds must be two positive squared distances, (largest of similar pairs, smallest of dissimilar ones), the first not "
            f"above the second; got {values.tolist()}."
        )
    return values


def pair_rows(tuples: PointTuples, y: np.ndarray, bounds: Any, weight: Any = 1.0) -> tuple[Constraints, np.ndarray]:
    """``sq_distance <= bounds[0]`` for similar pairs, ``>= bounds[1]`` for dissimilar ones.

    Parameters
    ----------
    tuples : PointTuples
        Pairs.
    y : ndarray, shape (m,)
        1 or -1.
    bounds : ndarray, shape (2,)
    weight : float or ndarray, shape (m,)
        Multiplies the slack weight.

    Warns
    -----
    UserWarning
        Dissimilar pairs of identical points are left out, since no metric separates them. Similar ones are left out without a warning,
        since every metric meets their bound.
    """
    i, j = tuples.index.T
    apart = differ(tuples.points)(i, j)
    used = _used(apart, ~apart & (y < 0), "dissimilar pairs are of identical points: no metric separates them")
    weight = np.broadcast_to(weight, y.shape)[used]
    return Constraints.from_pairs(tuples.index[used], y[used], bounds, weight=weight), used


def comparison_rows(
    tuples: PointTuples, y: np.ndarray, margin: float | None, weight: Any, mapped: Any
) -> tuple[Constraints, np.ndarray]:
    """``sq_distance(near pair) + margin <= sq_distance(far pair)``, each row with the weight 1000 / (number of rows).

    Parameters
    ----------
    tuples : PointTuples
        Triplets, a nearer to b than to c, or quadruplets, a nearer to b than c to d.
    y : ndarray, shape (m,)
        1, or -1 if the far pair is first.
    margin : float, optional
        Squared distance; by default the median of those of the near pairs.
    weight : float or ndarray, shape (m,)
        Multiplies the slack weight.
    mapped : ndarray or scipy.sparse, shape (n, r)
        The points in coordinates in which the prior metric is the identity; used for the default margin.

    Warns
    -----
    UserWarning
        Tuples with a pair of identical points are left out.
    """
    index = tuples.index
    first, second = index[:, :2], index[:, [0, 2]] if tuples.size == 3 else index[:, 2:]
    near, far = np.where(y[:, None] > 0, first, second), np.where(y[:, None] > 0, second, first)
    apart_at = differ(tuples.points)
    apart = apart_at(*near.T) & apart_at(*far.T)
    used = _used(apart, ~apart, "tuples have a pair of identical points, whose distance no metric changes")
    (i, j), (k, l) = near[used].T, far[used].T
    if margin is None:
        margin = float(np.median(sq_distances(mapped, i, j)))
    weight = np.broadcast_to(weight, y.shape)[used] * (TOTAL_WEIGHT / len(used))
    return Constraints.comparison(i, j, k, l, margin, weight=weight), used


def _used(apart: np.ndarray, is_lost: np.ndarray, what: str) -> np.ndarray:
    """Numbers of the tuples without identical points; warns of tuples that are lost, and raises if none is left."""
    lost = np.flatnonzero(is_lost)
    if len(lost):
        warnings.warn(f"{len(lost)} {what}; left out: {rows_text(lost)}.", UserWarning, stacklevel=2)
    if not apart.any():
        raise ValueError("nothing to learn from: all tuples have a pair of identical points.")
    return np.flatnonzero(apart)
