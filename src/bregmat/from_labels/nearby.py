"""More pairs from few: those that the given pairs imply, repeated for the neighbours of both points."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from bregmat.base.checks import check_integer, check_positive
from bregmat.base.points import as_points
from bregmat.base.sampling import sq_distances
from bregmat.base.threads import on_one_blas_thread
from bregmat.constraints.constraints import Constraints
from bregmat.typing import Points


@on_one_blas_thread
def spread_pairs(
    X: Points, constraints: Constraints, *, n_neighbors: int = 8, reach: float = 0.75, weight: float = 0.1
) -> Constraints:
    """The rows, and additional soft pairs of points near theirs; for clustering with up to some hundreds of pairs.

    Points that are connected by ``<=`` pairs form a group, and a ``>=`` pair separates two groups. All pairs within a group and between
    separated groups are implied. An implied pair (i, j) is repeated for points p near i and q near j where

        |x_p - x_i| + |x_q - x_j| <= reach |x_i - x_j|

    unless (p, q) is implied, too. Its bound is its squared distance times the median ratio of bound to squared distance of the given
    pairs of that sense. If the senses of (p, q) conflict, the majority decides. Use it for few pairs and compact classes. Where
    classes overlap, near points may belong to others, and the added rows do harm.

    Parameters
    ----------
    X : array-like or scipy.sparse, shape (n, d)
        Points; finite.
    constraints : Constraints
        Naming rows of X by number; pairs are the rows ``sq_distance`` with ``<=`` or ``>=``, others stay as they are.
    n_neighbors : int
        Number of neighbours of each point of a pair that are used.
    reach : float
        Largest sum of both offsets, relative to the distance of i and j; positive.
    weight : float
        Weight of the added rows, positive; they cost ``slack_weight * weight`` and have to be soft.

    Returns
    -------
    Constraints
        The given rows first.

    Notes
    -----
    Not in the papers. Measured in docs/performance.md, "Clustering with pairs". A group of m points implies about m^2 / 2 pairs. Each
    of them is repeated for at most ``(n_neighbors + 1)^2`` pairs nearby.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bregmat import Constraints, spread_pairs
    >>> X, y = load_iris(return_X_y=True)
    >>> pairs = Constraints.sq_distance([0, 0], [1, 75], bound=[1.0, 9.0], sense=["<=", ">="])
    >>> spread_pairs(X, pairs).n_constraints > pairs.n_constraints
    True
    """
    points = as_points("X", X)
    check_integer("n_neighbors", n_neighbors, 1, optional=False)
    check_positive("reach", reach, finite=True)
    check_positive("weight", weight, finite=True)
    if not isinstance(constraints, Constraints):
        raise TypeError(f"constraints must be a bregmat.Constraints object; got {type(constraints).__name__}.")
    if constraints.ids is not None:
        raise ValueError("constraints must name the rows of X by number here; these have names: use locate(sample_id).")
    n = points.shape[0]
    constraints.check_range(n, "X")
    is_pair = constraints.where("is_sq_distance") & (constraints.sense != 0)
    if not is_pair.any():
        raise ValueError("constraints must hold sq_distance rows with <= or >= to spread; there are none.")
    pairs = constraints.select(is_pair)
    i, j = pairs.index[:, :2].T.astype(np.int64)
    alike = pairs.sense > 0
    sq = sq_distances(points, i, j)
    if not (apart := sq > 0).any():
        raise ValueError("constraints must have a pair of points that differ; all theirs coincide in X.")
    shares = [_median((pairs.bound / np.where(apart, sq, 1.0))[apart & rows]) for rows in (alike, ~alike)]
    p, q, told = _told(points, *_entailed(n, i, j, alike), min(n_neighbors, n - 1), reach)
    if not len(p):
        return constraints
    bound = np.where(told, *shares) * sq_distances(points, p, q)
    return constraints + Constraints.sq_distance(p, q, bound, np.where(told, "<=", ">="), weight=weight)


def _median(shares: np.ndarray) -> float:
    """The median; 1 if there are none."""
    return float(np.median(shares)) if len(shares) else 1.0


def _entailed(n: int, i: np.ndarray, j: np.ndarray, alike: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs (p, q) within groups and between groups apart, and which are the former; shapes (m,)."""
    graph = coo_array((np.ones(alike.sum()), (i[alike], j[alike])), shape=(n, n))
    n_groups, group = connected_components(graph, directed=False)
    order = np.argsort(group, kind="stable")
    members = np.split(order, np.searchsorted(group[order], np.arange(1, n_groups)))
    within = [m[np.stack(np.triu_indices(len(m), 1))] for m in members if len(m) > 1]
    groups_apart = np.unique(np.sort(np.stack([group[i[~alike]], group[j[~alike]]], axis=1), axis=1), axis=0)
    across = [np.stack(np.meshgrid(members[a], members[b])).reshape(2, -1) for a, b in groups_apart if a != b]
    p, q = np.hstack([np.zeros((2, 0), np.int64), *within, *across])
    return p, q, np.arange(len(p)) < sum(part.shape[1] for part in within)


def _told(
    points: Any, i: np.ndarray, j: np.ndarray, alike: np.ndarray, k: int, reach: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs (p, q) near given pairs (i, j), and whether most of these are alike.

    Parameters
    ----------
    points : ndarray or scipy.sparse, shape (n, d)
    i, j : ndarray, shape (m,)
        Given and implied pairs.
    alike : ndarray of bool, shape (m,)
        Which of them are alike.
    k : int
        Neighbours of each end, beside itself.
    reach : float
        Largest sum of both offsets, relative to the distance of i and j.
    """
    from sklearn.neighbors import NearestNeighbors

    ends = np.unique(np.concatenate([i, j]))
    distances, near = NearestNeighbors(n_neighbors=k + 1).fit(points).kneighbors(points[ends])
    a, b = np.searchsorted(ends, i), np.searchsorted(ends, j)
    p, q = np.repeat(near[a], k + 1, axis=1), np.tile(near[b], k + 1)
    offset = np.repeat(distances[a], k + 1, axis=1) + np.tile(distances[b], k + 1)
    in_reach = (p != q) & (offset > 0) & (offset <= reach * np.sqrt(sq_distances(points, i, j))[:, None])
    votes = np.where(np.broadcast_to(alike[:, None], p.shape)[in_reach], 1, -1)
    told, place = np.unique(np.sort(np.stack([p[in_reach], q[in_reach]], axis=1), axis=1), axis=0, return_inverse=True)
    sums = np.bincount(place.ravel(), votes, len(told))
    n = points.shape[0]
    known = np.isin(told @ (n, 1), np.minimum(i, j) * n + np.maximum(i, j))
    decided = (sums != 0) & ~known & (sq_distances(points, *told.T) > 0)
    return told[decided, 0], told[decided, 1], sums[decided] > 0
