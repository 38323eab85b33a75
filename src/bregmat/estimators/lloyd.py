"""Lloyd's iteration in the space of a kernel, many starts at once, and k-means++ seeds for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bregmat.base.arrays import MatrixThere
from bregmat.base.threads import cached_property, is_interrupted, take_interrupt

MOST_NUMBERS = 20_000_000  # in the products of one batch of starts


@dataclass(frozen=True, eq=False)
class Clustering:
    """Labels (n,), the centres they belong to as weights of points (n, k) with their squared norms (k,), and the run.

    ``inertia`` holds the weighted sum of squared distances to the centres after each assignment.
    """

    labels: np.ndarray
    weights: np.ndarray
    sq_norms: np.ndarray
    inertia: list[float]
    n_iter: int


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points in the space of a kernel, as k-means++ sees them.

    Attributes
    ----------
    weights, sq_norms, with_mean : ndarray, shape (n,)
        Weights, squared norms, and inner products with the weighted mean of all.
    products : callable
        ``products(rows)`` are the inner products of all points with those, shape (n, len(rows)).
    """

    weights: np.ndarray
    sq_norms: np.ndarray
    with_mean: np.ndarray
    products: Callable[[np.ndarray], np.ndarray]

    def seeds(self, k: int, rng: np.random.RandomState) -> np.ndarray:
        """Rows of k seeds, each drawn by weight times squared distance to those before it, the best of a few draws.

        Arthur and Vassilvitskii 2007, with scikit-learn's 2 + log k draws. Draws go by cumulative weight along the distance to
        the mean, which depends on the points only: a point of weight 2 is drawn as two points of weight 1 are, whatever the
        order of the rows.
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
    K: np.ndarray | MatrixThere, weights: np.ndarray, seeds: np.ndarray, *, max_iter: int, tol: float
) -> tuple[Clustering, int]:
    """The best of several starts, and how many of its clusters are empty because there are too few different points.

    Parameters
    ----------
    K : ndarray or MatrixThere, shape (n, n)
        Symmetric kernel; products with it are made where it is.
    weights : ndarray, shape (n,)
        Nonnegative weights of the points.
    seeds : ndarray of int, shape (s, k)
        Rows of the first centres of each start.
    max_iter : int
    tol : float
        Relative fall of the inertia at which a start ends; at 0 it ends when no label changes.

    Notes
    -----
    The inertia never rises for a positive semidefinite K; a start also ends where it would. All starts share the
    products with K: 2 n^2 k s operations for the first of a batch, then 2 n k s for each point that changed its cluster.
    """
    n, (s, k) = len(K), seeds.shape
    batch = max(1, MOST_NUMBERS // (n * k))
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
    # once more without update formulas, so that labels are those that the centres give
    W, q, empty = _centres(K, weights, labels, k)
    D = _sq_distances(K.diagonal(), K @ W, q, empty)
    final = D.argmin(axis=1)
    inertia = float(weights @ np.maximum(D[np.arange(n), final], 0.0))
    return Clustering(final, W, q, [*history, inertia], n_iter), int(empty.sum())


def _runs(
    K: np.ndarray | MatrixThere, weights: np.ndarray, seeds: np.ndarray, max_iter: int, tol: float
) -> list[tuple[np.ndarray, list[float], int]]:
    """For each start the labels that its last centres are made of, the inertia by iteration, and their number."""
    n, (s, k) = len(K), seeds.shape
    diagonal = K.diagonal()
    labels = np.stack([(diagonal[row] - 2.0 * np.asarray(K[row].T)).argmin(axis=1) for row in seeds])
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
                if inertia > past:  # rounding, or K is not positive semidefinite: the centres before were better
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
    """The first of the lowest: starts that differ by rounding only are the same."""
    values = np.array(inertia)
    return int(np.flatnonzero(values <= values.min() + 1e-10 * abs(values.min()))[0])


def _fill_empty_inplace(labels: np.ndarray, nearest: np.ndarray, weights: np.ndarray, k: int) -> None:
    """Give every empty cluster the point farthest from its centre; points at distance 0 stay."""
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


def _centres(
    K: np.ndarray | MatrixThere, weights: np.ndarray, labels: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    W = np.zeros((len(K), k))
    W[np.arange(len(K)), labels] = weights
    size = W.sum(axis=0)
    empty = size <= 0
    W /= np.where(empty, 1.0, size)
    return W, np.einsum("ij,ij->j", W, K @ W), empty


def _sq_distances(diagonal: np.ndarray, KW: np.ndarray, q: np.ndarray, empty: np.ndarray) -> np.ndarray:
    """``K_ii - 2 (K W)_ic + q_c``, infinite for empty clusters."""
    D = diagonal[:, None] - 2.0 * KW + q
    D[:, empty] = np.inf
    return D
