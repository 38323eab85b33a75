"""The neighbourhood graph of an unfolding: pairs of neighbours, checked for separate parts and for short cuts."""

from __future__ import annotations

import warnings

import numpy as np
import scipy

DETOUR = 5.0  # times its length, from which a way around an edge makes the edge a short cut


def neighbour_pairs(X: np.ndarray, n_neighbors: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs i < j, shape (c, 2), where one point is among the nearest of the other, and their squared distances, shape (c,).

    Raises
    ------
    ValueError
        If the graph is not connected: distances between its parts could be anything.
    """
    from sklearn.neighbors import kneighbors_graph  # loads on first use, which keeps `import bregmat` quick

    graph = kneighbors_graph(X, n_neighbors)
    pairs = np.argwhere(scipy.sparse.triu(graph + graph.T, 1).toarray() > 0)
    difference = X[pairs[:, 0]] - X[pairs[:, 1]]
    sq = np.einsum("ij,ij->i", difference, difference)
    ways = scipy.sparse.csr_array((np.ones(len(pairs)), pairs.T), shape=(len(X), len(X)))
    parts, part = scipy.sparse.csgraph.connected_components(ways, directed=False)
    if parts > 1:
        sizes = np.sort(np.bincount(part))[::-1]
        raise ValueError(
            f"the graph of {n_neighbors} neighbours has {parts} separate parts, of {', '.join(map(str, sizes[:5]))} points"
            f"{', ...' if parts > 5 else ''}: the distance between them is open. Raise n_neighbors, or unfold the parts one by one."
        )
    return pairs, sq


def warn_of_short_cuts(pairs: np.ndarray, sq: np.ndarray, n: int) -> None:
    """Warn of edges in no triangle whose ends are far apart along all other edges: they may join two layers of a folded surface."""
    ends = tuple(pairs.T)
    graph = scipy.sparse.csr_array((np.ones(len(pairs)), ends), shape=(n, n))
    graph = graph + graph.T
    alone = np.asarray((graph @ graph)[ends]).ravel() == 0
    if not alone.any() or alone.all():
        return
    lengths = np.sqrt(sq)
    rest = scipy.sparse.csr_array((lengths[~alone], tuple(pairs[~alone].T)), shape=(n, n))
    start, place = np.unique(pairs[alone, 0], return_inverse=True)
    around = scipy.sparse.csgraph.dijkstra(rest, directed=False, indices=start)[place, pairs[alone, 1]]
    is_short = np.isfinite(around) & (around > DETOUR * lengths[alone])
    if is_short.any():
        worst = np.flatnonzero(is_short)[np.argmax((around / lengths[alone])[is_short])]
        i, j = pairs[alone][worst]
        warnings.warn(
            f"{int(is_short.sum())} edges of the neighbourhood graph look like short cuts between layers: points {i} and {j} are "
            f"{around[worst] / lengths[alone][worst]:.0f} times as far apart along the others. Lower n_neighbors, or take more points.",
            UserWarning,
            stacklevel=5,
        )
