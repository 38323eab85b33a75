"""Clusters of the points, spread from the groups of the answers."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors

from bregmat_app.label import ridge
from bregmat_app.label.groups import Groups

NEAREST = 10  # neighbours that a point is linked to
MOST_LINKED = 3000  # points of the graph; others take the cluster of the nearest of these
STEPS = 60  # of label propagation; a label passes on to the neighbours in each
TINY = 1e-150  # avoids a division by zero if many points coincide: its square is above 0, too


def find_clusters(mapped: np.ndarray, first: np.ndarray, groups: Groups, n_clusters: int | None = None) -> np.ndarray:
    """Return the cluster of each point, shape (n,); cluster 0 is the largest.

    Groups that are known to be all different stand for the clusters, and their labels propagate to the other points along a graph of
    nearest neighbours. Once the groups have many points, kernel ridge regression replaces the propagation. If there are fewer such
    groups than clusters, k-means is used instead. It starts at the means of the groups, and further clusters start as in k-means++.

    Parameters
    ----------
    mapped : ndarray, shape (n, r)
        Points of which the Euclidean distances are those of the learned metric.
    first : ndarray, shape (n, d)
        The same for the prior; see :func:`bregmat_app.label.ridge.scores`.
    groups : Groups
    n_clusters : int, optional
        By default the number of different groups, but at least two.
    """
    chosen = [groups.members[g] for g in groups.all_apart()[:n_clusters]]
    k = min(max(2, len(chosen)) if n_clusters is None else n_clusters, len(mapped))
    if len(chosen) < k:
        label = _k_means(mapped, chosen, k)
    elif ridge.has_many(chosen):
        label = ridge.scores(first, chosen, np.arange(len(first))).argmax(axis=1)
    else:
        label = _propagated(mapped, chosen)
    for place, members in enumerate(chosen):
        label[members] = place
    order = np.argsort(-np.bincount(label, minlength=k), kind="stable")
    return np.argsort(order)[label]


def _propagated(mapped: np.ndarray, chosen: list[list[int]]) -> np.ndarray:
    """Propagate the labels of groups: ``F <- P F`` with the rows of the groups held fixed (Zhu and Ghahramani 2002).

    P has the weights ``exp(-d_ij^2 / (s_i s_j))`` of nearest neighbours, normalised by rows, where s_i is the distance of point i
    to the last of its neighbours (Zelnik-Manor and Perona 2004). F starts with the label of the nearest point of a group.
    """
    given, n = np.concatenate(chosen), len(mapped)
    code = np.repeat(np.arange(len(chosen)), [len(members) for members in chosen])
    others = np.setdiff1d(np.arange(n), given)
    drawn = np.random.default_rng(0).permutation(others)[: max(MOST_LINKED - len(given), 0)]
    Z = mapped[linked := np.concatenate([given, drawn])]
    sq, near = NearestNeighbors(n_neighbors=min(NEAREST, len(Z) - 1)).fit(Z).kneighbors()
    sq **= 2
    s = np.maximum(np.sqrt(sq[:, -1]), TINY)
    weight = np.exp(-sq / (s[:, None] * s[near]))
    rows = np.repeat(np.arange(len(Z)), near.shape[1])
    W = sp.csr_array((weight.ravel(), (rows, near.ravel())), shape=(len(Z), len(Z)))
    W = W + W.T
    P = sp.diags_array(1 / W.sum(axis=1)) @ W
    one_hot = np.eye(len(chosen))
    F = one_hot[code[_nearest(Z[: len(given)], Z)]]
    for _ in range(STEPS):
        F = P @ F
        F[: len(given)] = one_hot[code]
    label = F.argmax(axis=1)
    if len(drawn) == len(others):
        found = np.empty(n, dtype=np.int64)
        found[linked] = label
        return found
    return label[_nearest(Z, mapped)]


def _nearest(Z: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return for each other point the place of its nearest point in Z."""
    return NearestNeighbors(n_neighbors=1).fit(Z).kneighbors(others, return_distance=False)[:, 0]


def _k_means(mapped: np.ndarray, chosen: list[list[int]], k: int) -> np.ndarray:
    seeds = np.array([mapped[members].mean(axis=0) for members in chosen]).reshape(-1, mapped.shape[1])
    starts = [_filled(mapped, seeds, k, np.random.default_rng(seed)) for seed in range(5)]
    runs = [KMeans(k, init=centres, n_init=1, max_iter=50).fit(mapped) for centres in starts]
    return min(runs, key=lambda run: run.inertia_).labels_.astype(np.int64)


def _filled(mapped: np.ndarray, seeds: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Return k centres: the seeds, then points drawn in proportion to their squared distance to the nearest centre (k-means++)."""
    centres = list(seeds)
    nearest = np.full(len(mapped), np.inf)
    for centre in centres:
        nearest = np.minimum(nearest, ((mapped - centre) ** 2).sum(axis=1))
    while len(centres) < k:
        share = None if not centres or not nearest.sum() > 0 else nearest / nearest.sum()
        centres.append(mapped[rng.choice(len(mapped), p=share)])
        nearest = np.minimum(nearest, ((mapped - centres[-1]) ** 2).sum(axis=1))
    return np.array(centres)
