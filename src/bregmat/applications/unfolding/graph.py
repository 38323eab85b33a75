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
    """Warn of long edges in no triangle whose ends are far apart along all other edges: they may join two layers of a folded surface."""
    ends, lengths = tuple(pairs.T), np.sqrt(sq)
    graph = scipy.sparse.csr_array((np.ones(len(pairs)), ends), shape=(n, n))
    graph = graph + graph.T
    typical = float(np.median(lengths))
    is_doubtful = (np.asarray((graph @ graph)[ends]).ravel() == 0) & (lengths > typical)
    if not is_doubtful.any():
        return
    doubtful, rest = pairs[is_doubtful], pairs[~is_doubtful]
    others = scipy.sparse.csr_array((lengths[~is_doubtful], tuple(rest.T)), shape=(n, n))
    start, place = np.unique(doubtful[:, 0], return_inverse=True)
    around = scipy.sparse.csgraph.dijkstra(others, directed=False, indices=start)[place, doubtful[:, 1]]
    ratio = np.where(np.isfinite(around) & (around > FAR * typical), around / lengths[is_doubtful], 0.0)
    if (ratio > DETOUR).any():
        i, j = doubtful[np.argmax(ratio)]
        warnings.warn(
            f"{int((ratio > DETOUR).sum())} edges of the neighbourhood graph look like short cuts between layers: points {i} and {j} are "
            f"{ratio.max():.0f} times as far apart along the others. Lower n_neighbors, or take more points.",
            UserWarning,
            stacklevel=5,
        )
