"""A graph as users give it, checked and brought to one form: an even number of vertices, weights scaled by a power of two."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy

from bregmat.checks import as_matrix, check_finite, is_exactly_symmetric, rows_text
from bregmat.threads import cached_property

# Of the largest weight: what rounding leaves in a similarity matrix that is symmetric on paper. Less than the tolerance of
# checks.py, because a light edge beside heavy ones is an edge all the same.
ASYMMETRY = 1e-12


@dataclass(frozen=True)
class Graph:
    """Weights ``A`` of ``size`` vertices, an even number: an isolated dummy vertex is last where the graph has an odd number.

    With it every balanced cut of the graph, sizes apart by one, is a cut into equal halves: ``e'x = 0`` holds exactly,
    which the printed relaxation (Kulis 2009, 6.4) needs and an odd graph does not give.

    Attributes
    ----------
    n : int
        Vertices of the caller.
    A : csr_array, shape (size, size)
        Weights over ``scale``, symmetric, >= 0, zero diagonal; the largest is in [1, 2).
    degree : ndarray, shape (size,)
        Row sums of A.
    scale : float
        A power of two, so that scaling is exact.
    step, offset : float
        Every balanced cut is ``offset`` plus a multiple of ``step``, in the caller's units; 0 where nothing is known.
    """

    n: int
    A: Any
    degree: np.ndarray
    scale: float
    step: float
    offset: float

    @property
    def size(self) -> int:
        """Vertices with the dummy: even."""
        return self.A.shape[0]

    def cut(self, x: np.ndarray) -> float:
        """Weight between the two sides of ``x`` (size,), entries +-1, in the caller's units."""
        apart = np.repeat(x, np.diff(self.A.indptr)) != x[self.A.indices]
        return 0.5 * float(self.A.data[apart].sum()) * self.scale  # half the smallest scale is 0

    def laplacian_times(self, X: np.ndarray) -> np.ndarray:
        """``L X``."""
        return (self.degree * X.T).T - self.A @ X

    @cached_property
    def dense(self) -> np.ndarray:
        """Laplacian as an array, shape (size, size)."""
        L = -self.A.toarray()
        L[np.diag_indices_from(L)] = self.degree
        return L

    def round_up(self, bound: float) -> float:
        """The smallest weight that a balanced cut can have if it is at least ``bound``."""
        if self.step == 0:
            return bound
        return self.offset + self.step * np.ceil((bound - self.offset) / self.step - 1e-9)


def read_graph(graph: Any) -> Graph:
    """Check a graph and bring it to one form; rows and columns are in node order for networkx graphs.

    Raises
    ------
    ValueError, TypeError
        Naming what is wrong with it and the first rows where it is.
    """
    A = _matrix(graph)
    n = A.shape[0]
    if n < 2:
        raise ValueError(f"graph must have at least 2 vertices; got {n}.")
    A.sum_duplicates()
    check_finite("graph", A)
    wrong = np.flatnonzero(A.data < 0)
    if len(wrong):
        rows = np.unique(np.searchsorted(A.indptr, wrong, side="right") - 1)
        raise ValueError(f"graph must have weights of at least 0; got {A.data[wrong[0]]} in {rows_text(rows)}.")
    loops = np.flatnonzero(A.diagonal())
    if len(loops):
        raise ValueError(
            f"graph must have no self loops, which no cut can touch; got some in {rows_text(loops)}: set the diagonal to 0."
        )
    A.eliminate_zeros()
    largest = float(A.data.max(initial=0.0))
    hint = " A graph is undirected; for a directed one hand over A + A.T."
    if not is_exactly_symmetric("graph", A, tol=ASYMMETRY, hint=hint):
        A = scipy.sparse.csr_array(A + A.T)
        A.data *= 0.5
    if largest > 1e300 / max(1, A.nnz):
        raise ValueError(f"graph: the sum of the weights must be below 1e300; the largest is {largest}.")
    step, offset = _steps(A, n)
    scale = float(2.0 ** np.floor(np.log2(largest))) if largest > 0 else 1.0
    A.data /= scale
    if n % 2:
        A.resize((n + 1, n + 1))
    A.sort_indices()
    if A.nnz >= 2**31:
        raise ValueError(f"graph must have fewer than 2**30 edges; got {A.nnz // 2}.")
    A.indptr, A.indices = (
        A.indptr.astype(np.int32, copy=False),
        A.indices.astype(np.int32, copy=False),
    )  # as the kernels take them
    return Graph(n, A, np.asarray(A.sum(axis=1)).ravel(), scale, step, offset)


def _matrix(graph: Any) -> Any:
    """A csr_array of floats that is our own."""
    if hasattr(graph, "is_directed") and hasattr(graph, "adjacency"):
        if graph.is_directed():
            raise ValueError("graph must be undirected; for a directed networkx graph hand over graph.to_undirected().")
        if graph.number_of_nodes() < 2:
            raise ValueError(f"graph must have at least 2 vertices; got {graph.number_of_nodes()}.")
        place = {vertex: i for i, vertex in enumerate(graph)}
        ends, weights = [], []
        for u, v, weight in graph.edges(data="weight", default=1):
            if not isinstance(weight, Real | np.bool_):
                raise TypeError(f"graph must hold real weights; got {weight!r} on the edge between {u!r} and {v!r}.")
            ends.append((place[u], place[v]))
            weights.append(weight)
        rows, columns = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        shape, data = (len(place), len(place)), np.array(weights, dtype=float)
        A = scipy.sparse.csr_array((data, (rows, columns)), shape=shape)
        return scipy.sparse.csr_array(A + A.T)
    if isinstance(graph, str | bytes) or graph is None:
        raise TypeError(
            f"graph must be a square array, scipy.sparse matrix or networkx graph; got {type(graph).__name__}."
        )
    if scipy.sparse.issparse(graph):
        return as_matrix("graph", graph, square=True, finite=False, sparse="csr", copy=True)
    return scipy.sparse.csr_array(as_matrix("graph", graph, square=True, finite=False, booleans=True), dtype=float)


def _steps(A: Any, n: int) -> tuple[float, float]:
    """``step`` and ``offset`` for whole weights: their greatest common divisor, and twice that where parities settle more.

    A cut (S, T) has the parity of the degrees in S, since edges inside S count twice there. All degrees even: an even cut.
    All odd (then n is even and S has n / 2 vertices): a cut of the parity of n / 2.
    """
    total = A.data.sum()
    if not len(A.data) or total >= 2.0**52 or (A.data != np.rint(A.data)).any():
        return 0.0, 0.0
    divisor = int(np.gcd.reduce(A.data.astype(np.int64)))
    odd = (np.asarray(A.sum(axis=1)).ravel() / divisor) % 2
    if not odd.any():
        return 2.0 * divisor, 0.0
    if odd.all():
        return 2.0 * divisor, float(divisor * ((n // 2) % 2))
    return float(divisor), 0.0
