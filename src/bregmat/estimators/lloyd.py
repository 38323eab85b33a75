"""Lloyd's iteration in the space of a kernel for several starts at once, and k-means++ seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bregmat.base.threads import cached_property, is_interrupted, take_interrupt


@dataclass(frozen=True, eq=False)
class Clustering:
    """The result of Lloyd's iteration.

    Attributes
    ----------
    labels : ndarray of int, shape (n,)
    weights : ndarray, shape (n, k)
        Each centre as a weighted mean of the points.
    sq_norms : ndarray, shape (k,)
        Squared norms of the centres.
    inertia : list of float
        Weighted sum of squared distances to the centres after each assignment.
    n_iter : int
    """

    labels: np.ndarray
    weights: np.ndarray
    sq_norms: np.ndarray
    inertia: list[float]
    n_iter: int


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points in the space of a kernel, from which k-means++ draws seeds.

    Attributes
    ----------
    weights, sq_norms, with_mean : ndarray, shape (n,)
        Weights, squared norms, and inner products with the weighted mean of all points.
    products : callable
        ``products(rows)`` gives the inner products of all points with those of some rows, shape (n, len(rows)).
    """

    weights: np.ndarray
    sq_norms: np.ndarray
    with_mean: np.ndarray
    products: Callable[[np.ndarray], np.ndarray]

    def seeds(self, k: int, rng: np.random.RandomState) -> np.ndarray:
        """Row numbers of k seeds; the probability of each is its weight times the squared distance to the nearest earlier seed.

        Each seed is the best of 2 + log k draws, as in scikit-learn (Arthur and Vassilvitskii 2007). For the draws, points are sorted by
        their distance from the mean. Results then do not depend on the order of the rows, and a point of weight 2 is drawn as two
        points of weight 1.
        """
        trials = 2 + int(np.log(k))
        seeds = np.empty(k, dtype=np.int64)
        seeds[0] = _drawn(self.weights, self._order, rng.uniform(size=1))[0]
        nearest = self._sq_distances(seeds[:1])[:, 0]
        for c in range(1, k):
            share = self.weights * nearest
            rows = _drawn(share if share.sum() > 0 else self.weights, self._order, rng.uniform(size=trials))
            candidates = np.minimum(self._sq_distances(rows), nearest[:, None])
            best = int(np.argmin(self.weights @ candidates))
            seeds[c], nearest = rows[best], candidates[:, best]
        return seeds

    @cached_property
    def _order(self) -> np.ndarray:
        return np.argsort(self.sq_norms - 2.0 * self.with_mean, kind="stable")

    def _sq_distances(self, rows: np.ndarray) -> np.ndarray:
        return np.maximum(self.sq_norms[:, None] - 2.0 * self.products(rows) + self.sq_norms[rows], 0.0)


def _drawn(share: np.ndarray, order: np.ndarray, u: np.ndarray) -> np.ndarray:
    cumulative = np.cumsum(share[order])
    place = np.searchsorted(cumulative, u * cumulative[-1], side="right")
    last = int(np.searchsorted(cumulative, cumulative[-1]))  # rounding must not draw a point of share 0
    return order[np.minimum(place, last)]


def kernel_lloyd(
    K: np.ndarray, weights: np.ndarray, seeds: np.ndarray, *, max_iter: int, tol: float
) -> tuple[Clustering, int]:
    """The best of several starts, and the number of its empty clusters, which occur if there are too few different points.

    Parameters
    ----------
    K : ndarray, shape (n, n)
        Symmetric kernel.
    weights : ndarray, shape (n,)
        Nonnegative weights of the points.
    seeds : ndarray of int, shape (s, k)
        Rows of the first centres of each start.
    max_iter : int
    tol : float
        A start ends when the relative decrease of the inertia is at most this; with 0, when no label changes.

    Notes
    -----
    For a positive semidefinite K the inertia never increases; if it does, the start ends. All starts of a batch share the products
    with K. The first product takes 2 n^2 k s operations, the later ones 2 n k s for each point that changed its cluster.
    """
    most_numbers = 20_000_000  # kernel products that a batch of starts keeps
    n, (s, k) = len(K), seeds.shape
    batch = max(1, most_numbers // (n * k))
    runs: list[tuple[np.ndarray, list[float], int]] = []
    for start in range(0, s, batch):
        try:
            runs += _runs(K, weights, seeds[start : start + batch], max_iter, tol)
        except KeyboardInterrupt:
            if not runs:
                raise
            take_interrupt()
        if is_interrupted():
            break
    labels, history, n_iter = runs[best_start([run[1][-1] for run in runs])]
    # without update formulas, so that the labels are those of the nearest centres exactly
    W = np.zeros((n, k))
    W[np.arange(n), labels] = weights
    size = W.sum(axis=0)
    empty = size <= 0
    W /= np.where(empty, 1.0, size)
    q = np.einsum("ij,ij->j", W, K @ W)
    D = _sq_distances(K.diagonal(), K @ W, q, empty)
    final = D.argmin(axis=1)
    inertia = float(weights @ np.maximum(D[np.arange(n), final], 0.0))
    return Clustering(final, W, q, [*history, inertia], n_iter), int(empty.sum())


def _runs(
    K: np.ndarray, weights: np.ndarray, seeds: np.ndarray, max_iter: int, tol: float
) -> list[tuple[np.ndarray, list[float], int]]:
    """For each start: the labels that define its last centres, the inertia after each iteration, and the number of iterations."""
    n, (s, k) = len(K), seeds.shape
    diagonal = K.diagonal()
    labels = np.stack([(diagonal[row] - 2.0 * K[row].T).argmin(axis=1) for row in seeds])
    Z = np.zeros((n, s, k))
    for r, label in enumerate(labels):
        Z[np.arange(n), r, label] = weights
    KZ = (K @ Z.reshape(n, s * k)).reshape(n, s, k)
    history: list[list[float]] = [[] for _ in range(s)]
    n_iter = np.full(s, max_iter)
    active = list(range(s))
    every = np.arange(n)
    try:
        for iteration in range(1, max_iter + 1):
            changed = np.zeros(n, dtype=bool)
            moving = []
            for r in active:
                size = Z[:, r].sum(axis=0)
                empty = size <= 0
                scale = np.where(empty, 1.0, size)
                q = np.einsum("ij,ij->j", Z[:, r], KZ[:, r]) / scale**2
                D = _sq_distances(diagonal, KZ[:, r] / scale, q, empty)
                new = D.argmin(axis=1)
                nearest = np.maximum(D[every, new], 0.0)
                inertia = float(weights @ nearest)
                past = history[r][-1] if history[r] else np.inf
                if inertia > past:  # rounding, or an indefinite K: the previous centres were better
                    n_iter[r] = iteration
                    continue
                history[r].append(inertia)
                _fill_empty_inplace(new, nearest, weights, k)
                differs = new != labels[r]
                if not differs.any() or (np.isfinite(past) and past - inertia <= tol * past):
                    n_iter[r] = iteration
                    continue
                labels[r] = new
                changed |= differs
                moving.append(r)
            active = moving
            if not active or iteration == max_iter:
                break
            some = np.flatnonzero(changed)
            before = Z[some][:, active].copy()
            Z[:, active] = 0.0
            for r in active:
                Z[every, r, labels[r]] = weights
            if 2 * len(some) < n:
                step = (Z[some][:, active] - before).reshape(len(some), -1)
                KZ[:, active] += (K[some].T @ step).reshape(n, len(active), k)
            else:
                KZ[:, active] = (K @ Z[:, active].reshape(n, -1)).reshape(n, len(active), k)
    except KeyboardInterrupt:
        if not all(history):
            raise
        take_interrupt()
        n_iter[active] = iteration
    return [(labels[r], history[r], int(n_iter[r])) for r in range(s)]


def best_start(inertia: list[float]) -> int:
    """The first start with the smallest inertia; differences within rounding do not count."""
    values = np.array(inertia)
    return int(np.flatnonzero(values <= values.min() + 1e-10 * abs(values.min()))[0])


def _fill_empty_inplace(labels: np.ndarray, nearest: np.ndarray, weights: np.ndarray, k: int) -> None:
    """Move the point farthest from its centre to each empty cluster; points at distance 0 are not moved."""
    size = np.bincount(labels, weights=weights, minlength=k)
    empty = np.flatnonzero(size <= 0)
    if not len(empty):
        return
    members = np.bincount(labels[weights > 0], minlength=k)
    cost = nearest * weights
    far = iter(np.argsort(-cost, kind="stable"))
    for c in empty:
        row = next((i for i in far if not cost[i] > 0 or members[labels[i]] > 1), None)
        if row is None or not cost[row] > 0:
            return
        members[labels[row]] -= 1
        labels[row] = c


def _sq_distances(diagonal: np.ndarray, KW: np.ndarray, q: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """``K_ii - 2 (K W)_ic + q_c``, infinite for empty clusters."""
    D = diagonal[:, None] - 2.0 * KW + q
    D[:, empty] = np.inf
    return D
