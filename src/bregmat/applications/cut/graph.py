"""A graph as users give it, checked and brought to one form: an even number of vertices, weights scaled by a power of two."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy

from bregmat.base.checks import as_matrix, asymmetry, check_finite, rows_text
from bregmat.base.linalg import EPS
from bregmat.base.threads import cached_property

# Of the largest weight: what rounding leaves in a similarity matrix that is symmetric on paper. Less than the tolerance of
# checks.py, because a light edge beside heavy ones is an edge all the same.
ASYMMETRY = 1e-12
# In the largest weight, where weights are multiples up to rounding: a unit is then known to 1e-10 of itself.
MOST_UNITS = 1e6


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
    step, offset, spread : float
        Every balanced cut differs by at most ``spread``, which is rounding of the weights, from ``offset`` plus a multiple of
        ``step``. In the caller's units; step is 0 where nothing is known.
    """

    n: int
    A: Any
    degree: np.ndarray
    scale: float
    step: float
    offset: float
    spread: float

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
        """A proven lower bound of the balanced cuts that weigh at least ``bound``: the least value that they may have."""
        if self.step == 0:
            return bound
        n_steps = (bound - self.spread - self.offset) / self.step
        n_steps = np.ceil(n_steps * (1.0 - 4.0 * EPS) - 1e-9)  # the quotient may be above its value by rounding
        return max(bound, self.offset + self.step * n_steps - self.spread)


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
    if asymmetry("graph", A, tol=ASYMMETRY, hint=hint) > 0.0:
        A = scipy.sparse.csr_array(A + A.T)
        A.data *= 0.5
    if largest > 1e300 / max(1, A.nnz):
        raise ValueError(f"graph: the sum of the weights must be below 1e300; the largest is {largest}.")
    scale = float(2.0 ** np.floor(np.log2(largest))) if largest > 0 else 1.0
    A.data /= scale
    lattice = [scale * value for value in _steps(A, n)]
    if n % 2:
        A.resize((n + 1, n + 1))
    A.sort_indices()
    if A.nnz >= 2**31:
        raise ValueError(f"graph must have fewer than 2**30 edges; got {A.nnz // 2}.")
    A.indptr, A.indices = (
        A.indptr.astype(np.int32, copy=False),
        A.indices.astype(np.int32, copy=False),
    )  # as the kernels take them
    return Graph(n, A, np.asarray(A.sum(axis=1)).ravel(), scale, *lattice)


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


def _steps(A: Any, n: int) -> tuple[float, float, float]:
    """``step``, ``offset`` and ``spread`` of a graph: the common unit of its weights, or twice that where parities settle more.

    A cut (S, T) has the parity of the degrees in S, since edges inside S count twice there. All degrees even: an even cut.
    All odd (then n is even and S has n / 2 vertices): a cut of the parity of n / 2.
    """
    unit, is_exact = _common_unit(np.unique(A.data)) if len(A.data) else (0.0, True)
    if unit == 0.0:
        return 0.0, 0.0, 0.0
    counts = scipy.sparse.csr_array((np.rint(A.data / unit), A.indices, A.indptr), shape=A.shape)
    # every edge stands in A twice; the second term bounds the rounding of the first
    spread = 0.5 * float(np.abs(A.data - unit * counts.data).sum() + EPS * A.data.sum())
    if counts.data.sum() >= 2.0**52 or (not is_exact and spread > 0.01 * unit):
        return 0.0, 0.0, 0.0
    odd = np.asarray(counts.sum(axis=1)).ravel() % 2
    step = unit if odd.any() and not odd.all() else 2.0 * unit
    return step, unit * ((n // 2) % 2) if odd.all() else 0.0, 0.0 if is_exact else spread


def _common_unit(weights: np.ndarray) -> tuple[float, bool]:
    """The largest number that all weights are multiples of, by Euclid's algorithm; 0 if there is none.

    Parameters
    ----------
    weights : ndarray
        Positive, ascending.

    Returns
    -------
    (float, bool)
        The unit, and whether the weights are multiples of it exactly, as whole numbers and halves are, or up to rounding, as
        tenths are.
    """
    largest = float(weights[-1])
    # sums and differences of multiples of the grid are exact
    grid = 2.0 ** (np.floor(np.log2(weights.sum())) - 51)
    is_exact = bool((weights == grid * np.rint(weights / grid)).all())
    unit = float(weights[0])
    while is_exact or unit >= largest / MOST_UNITS:
        left = np.abs(weights - unit * np.rint(weights / unit))
        # a unit that is a difference of rounded weights is off by the rounding of the largest of them
        rounding = 0.0 if is_exact else 4.0 * EPS * weights * (largest / unit)
        left = left[left > rounding]
        if not len(left):
            return largest / float(np.rint(largest / unit)), is_exact
        unit = float(left.min())
    return 0.0, False
