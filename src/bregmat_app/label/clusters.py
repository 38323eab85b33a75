"""Clusters of the points in the learned metric, started from the groups of the answers."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans

from bregmat_app.label.answers import Groups


def find_clusters(mapped: np.ndarray, groups: Groups, n_clusters: int | None = None) -> np.ndarray:
    """Return the cluster of each point, shape (n,); cluster 0 is the largest.

    k-means starts at the means of groups with at least two points. Further clusters start as in k-means++. Points of a group that
    was used as a start stay together.

    Parameters
    ----------
    mapped : ndarray, shape (n, r)
    groups : Groups
    n_clusters : int, optional
        By default the number of different groups with at least two points, but at least two.
    """
    chosen = groups.all_apart(2) if n_clusters is None else groups.by_size(2)[:n_clusters]
    k = min(max(2, len(chosen)) if n_clusters is None else n_clusters, len(mapped))
    seeds = np.array([mapped[groups.members[g]].mean(axis=0) for g in chosen]).reshape(-1, mapped.shape[1])
    starts = [_filled(mapped, seeds, k, np.random.default_rng(seed)) for seed in range(1 if len(seeds) == k else 5)]
    runs = [KMeans(k, init=centres, n_init=1, max_iter=50).fit(mapped) for centres in starts]
    best = min(runs, key=lambda run: run.inertia_)
    label = best.labels_.astype(np.int64)
    for place, g in enumerate(chosen):
        label[groups.members[g]] = place
    order = np.argsort(-np.bincount(label, minlength=k), kind="stable")
    return np.argsort(order)[label]


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
