"""Clusters of the points as the metric sees them, started from the groups that the answers make."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans

from bregmat_app.label.answers import Groups


def find_clusters(mapped: np.ndarray, groups: Groups, n_clusters: int | None = None) -> np.ndarray:
    """Number of the cluster of each point, shape (n,), the largest cluster first.

    k-means from the means of the groups; where more clusters are wanted than there are groups of two or more, the others start as
    k-means++ starts. Points of a group that gave a start stay together.

    Parameters
    ----------
    mapped : ndarray, shape (n, r)
    groups : Groups
    n_clusters : int, optional
        None: as many as there are groups of two or more that are apart from each other, two at least.
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
    """k centres: the seeds, then points drawn by their squared distance to the nearest centre so far."""
    centres = list(seeds)
    nearest = np.full(len(mapped), np.inf)
    for centre in centres:
        nearest = np.minimum(nearest, ((mapped - centre) ** 2).sum(axis=1))
    while len(centres) < k:
        share = None if not centres or not nearest.sum() > 0 else nearest / nearest.sum()
        centres.append(mapped[rng.choice(len(mapped), p=share)])
        nearest = np.minimum(nearest, ((mapped - centres[-1]) ** 2).sum(axis=1))
    return np.array(centres)
