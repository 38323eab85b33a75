"""k-means on features in blocks of rows: seeds from a sample, Lloyd's iteration as sums over blocks, all starts at once."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np

from bregmat.base.linalg import sq_norms
from bregmat.estimators.lloyd import WeightedPoints, best_start
from bregmat.sharded.points import PointBlock, PointsInBlocks

SEEDED = 10_000  # points that seeds are drawn among, or 20 for each cluster where that is more
CHUNK = 2**23  # numbers in the distances at a time


@dataclass(frozen=True, eq=False)
class Means:
    """Centres (k, d), the sum of squared distances to them, iterations, and how many clusters have points."""

    centers: np.ndarray
    inertia: float
    n_iter: int
    n_found: int


def block_means(
    points: PointsInBlocks, k: int, n_init: int, max_iter: int, tol: float, rng: np.random.RandomState
) -> Means:
    """The best of several starts of Lloyd's iteration.

    Parameters
    ----------
    points : PointsInBlocks
    k, n_init, max_iter, tol, rng
        As in :class:`bregmat.KernelKMeans`; a start ends where the centres move by less than ``tol`` times the mean variance.

    Notes
    -----
    Seeds are k-means++ among a random sample of 10,000 points (20 k where that is more); all points up to that. An iteration is one
    map and one reduction for all starts: (k, d) sums and counts.
    """
    n, d = points.shape
    size = min(n, max(SEEDED, 20 * k))
    sample = points[np.arange(n) if size == n else np.sort(rng.choice(n, size, replace=False))]
    among = WeightedPoints(
        np.ones(size), sq_norms(sample), sample @ sample.mean(axis=0), lambda rows: sample @ sample[rows].T
    )
    centers = np.stack([sample[among.seeds(k, rng)] for _ in range(n_init)])
    squares, mean = points.moments()
    enough = tol * float(np.maximum(squares - mean * mean, 0.0).mean())
    n_iter, active = np.full(n_init, max_iter), np.arange(n_init)
    for iteration in range(1, max_iter + 1):
        sums, counts, _ = points.reduce(_assigned, centers[active], combine=_added)
        moved = np.where(counts[:, :, None] > 0, sums / np.maximum(counts, 1)[:, :, None], centers[active])
        for which in np.flatnonzero((counts == 0).any(axis=1)):
            _fill_empty_inplace(points, centers[active[which]], moved[which], counts[which], sums[which])
        shift = ((moved - centers[active]) ** 2).sum(axis=(1, 2))
        centers[active] = moved
        n_iter[active[shift <= enough]] = iteration
        active = active[shift > enough]
        if not len(active):
            break
    _, counts, inertia = points.reduce(_assigned, centers, combine=_added)
    best = best_start(inertia.tolist())
    return Means(centers[best], float(inertia[best]), int(n_iter[best]), int((counts[best] > 0).sum()))


def nearest_centers(X: np.ndarray, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of the nearest centre of each point, and the squared distance to it, shapes (n,)."""
    labels, sq = np.empty(len(X), np.int32), np.empty(len(X))
    lengths = sq_norms(centers)
    step = max(1, CHUNK // max(1, len(centers)))
    for start in range(0, len(X), step):
        part = slice(start, start + step)
        labels[part] = (lengths - 2.0 * (X[part] @ centers.T)).argmin(axis=1)
        sq[part] = sq_norms(X[part] - centers[labels[part]])
    return labels, sq


def _assigned(block: PointBlock, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every start the sums and counts of its clusters, and the squared distances to their centres in all."""
    s, k, d = centers.shape
    sums, counts, inertia = np.zeros((s, k, d)), np.zeros((s, k)), np.zeros(s)
    for which in range(s):
        labels, sq = nearest_centers(block.X, centers[which])
        order = np.argsort(labels, kind="stable")
        counts[which] = np.bincount(labels, minlength=k)
        starts = np.concatenate([[0], np.cumsum(counts[which])[:-1]]).astype(int)
        some = counts[which] > 0
        sums[which][some] = np.add.reduceat(block.X[order], starts[some], axis=0)
        inertia[which] = sq.sum()
    return sums, counts, inertia


def _added(a: tuple[np.ndarray, ...], b: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return tuple(map(operator.add, a, b))


def _fill_empty_inplace(
    points: PointsInBlocks, centers: np.ndarray, moved: np.ndarray, counts: np.ndarray, sums: np.ndarray
) -> None:
    """Give every empty cluster the point that is farthest from its centre; points at distance 0 stay."""
    empty = np.flatnonzero(counts == 0)
    sq, rows, labels = points.reduce(_farthest, centers, len(empty), combine=_farther)
    far = points[rows]
    for cluster, x, size, label in zip(empty, far, sq, labels):
        if size > 0 and counts[label] > 1:
            moved[cluster], counts[cluster] = x, 1
            sums[label] -= x
            counts[label] -= 1
            moved[label] = sums[label] / counts[label]


def _farthest(block: PointBlock, centers: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    labels, sq = nearest_centers(block.X, centers)
    rows = np.argsort(-sq, kind="stable")[:most]
    return sq[rows], block.first + rows, labels[rows]


def _farther(a: tuple[np.ndarray, ...], b: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    sq, rows, labels = (np.concatenate(pair) for pair in zip(a, b))
    order = np.lexsort((rows, -sq))[: max(len(a[0]), len(b[0]))]
    return sq[order], rows[order], labels[order]
