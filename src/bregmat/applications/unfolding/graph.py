"""The neighbourhood graph of an unfolding: pairs of neighbours, checked for separate parts and for short cuts."""

from __future__ import annotations

import warnings

import numpy as np
import scipy

# A way around an edge makes the edge a short cut if it is this many times as long as the edge, and as a typical edge.
DETOUR, FAR = 5.0, 10.0


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
    ways = scipy.sparse.csr_array((np.ones(len(pairs)), pairs.T.astype(np.int32)), shape=(len(X), len(X)))
    parts, part = scipy.sparse.csgraph.connected_components(ways, directed=False)
    if parts > 1:
        sizes = np.sort(np.bincount(part))[::-1]
        raise ValueError(
            f"the graph of {n_neighbors} neighbours has {parts} separate parts, of {', '.join(map(str, sizes[:5]))} points"
            f"{', ...' if parts > 5 else ''}: the distance between them is open. Raise n_neighbors, or unfold the parts one by one."
        )
    return pairs, sq


def warn_of_short_cuts(X: np.ndarray, n_neighbors: int, pairs: np.ndarray, sq: np.ndarray) -> None:
    """Warn of edges whose ends are far apart along the edges of half as many neighbours: they may join layers of a folded surface.

    Parameters
    ----------
    X : ndarray, shape (n, d)
    n_neighbors : int
    pairs : ndarray of int, shape (c, 2)
    sq : ndarray, shape (c,)
        Squared distances of the pairs.
    """
    from sklearn.neighbors import kneighbors_graph

    lengths, n = np.sqrt(sq), len(X)
    every = scipy.sparse.csr_array((np.maximum(lengths, 1e-300), tuple(pairs.T.astype(np.int32))), shape=(n, n))
    nearest = kneighbors_graph(X, min(n_neighbors, max(3, n_neighbors // 2)), mode="distance")
    tree = scipy.sparse.csgraph.minimum_spanning_tree(every)  # keeps the graph connected
    around = scipy.sparse.csgraph.dijkstra(nearest.maximum(nearest.T).maximum(tree), directed=False)[tuple(pairs.T)]
    ratio = np.where(around > FAR * float(np.median(lengths)), around / np.maximum(lengths, 1e-300), 0.0)
    if (ratio > DETOUR).any():
        i, j = pairs[np.argmax(ratio)]
        warnings.warn(
            f"{int((ratio > DETOUR).sum())} edges of the neighbourhood graph look like short cuts between layers: points {i} and {j} are "
            f"{ratio.max():.0f} times as far apart along edges of fewer neighbours. Lower n_neighbors, or take more points.",
            UserWarning,
            stacklevel=5,
        )
