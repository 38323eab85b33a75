"""A checked graph with an even number of vertices and scaled weights, and the weights that its cuts can have."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy

from bregmat.base.checks import as_matrix, asymmetry, check_finite, rows_text
from bregmat.base.linalg import EPS
from bregmat.base.threads import cached_property

# of the largest weight: rounding of a symmetric matrix; less than in base.checks, because light edges count
ASYMMETRY = 1e-12
MOST_UNITS = 1e6  # of the largest weight over a unit that is only known up to rounding: the unit is known to 1e-10


@dataclass(frozen=True)
class Graph:
    """A graph with an even number of vertices; if the given number is odd, an isolated dummy vertex is the last one.

    With the dummy vertex every balanced cut divides the vertices into equal halves, so that ``e'x = 0``, which the relaxation of
    Kulis 2009, section 6.4, requires.

    Attributes
    ----------
    n : int
        Number of vertices of the given graph.
    A : csr_array, shape (size, size)
        Weights divided by ``scale``: symmetric, nonnegative, with a zero diagonal; the largest is in [1, 2).
    degree : ndarray, shape (size,)
        Row sums of A.
    scale : float
        A power of two, so that the division is exact.
    step, offset, spread : float
        Every balanced cut differs from ``offset`` plus a multiple of ``step`` by at most ``spread``, the rounding of the weights. In
        the units of the given graph; step is 0 if the weights have no common unit.
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
        """Number of vertices with the dummy vertex, which is even."""
        return self.A.shape[0]

    def cut(self, x: np.ndarray) -> float:
        """The weight between the two sides of ``x`` (size,), with entries +1 and -1, in the units of the given graph."""
        apart = np.repeat(x, np.diff(self.A.indptr)) != x[self.A.indices]
        return 0.5 * float(self.A.data[apart].sum()) * self.scale

    def laplacian_times(self, X: np.ndarray) -> np.ndarray:
        """``L X``."""
        return (self.degree * X.T).T - self.A @ X

    @cached_property
    def dense(self) -> np.ndarray:
        """The Laplacian as an array, shape (size, size)."""
        L = -self.A.toarray()
        L[np.diag_indices_from(L)] = self.degree
        return L

    def round_up(self, bound: float) -> float:
        """The least weight that a balanced cut can have if it is at least ``bound``; a proven lower bound."""
        if self.step == 0:
            return bound
        n_steps = (bound - self.spread - self.offset) / self.step
        n_steps = np.ceil(n_steps * (1.0 - 4.0 * EPS) - 1e-9)  # rounding may make the quotient too large
        return max(bound, self.offset + self.step * n_steps - self.spread)


def read_graph(graph: Any) -> Graph:
    """Check a graph and scale its weights; vertices of networkx graphs are in the order of the nodes.

    Raises
    ------
    ValueError, TypeError
        For an invalid graph, with the first offending rows.
    """
    A = _matrix(graph)
    n = A.shape[0]
    if n < 2:
        raise ValueError(f"graph must have at least 2 vertices; got {n}.")
    A.sum_duplicates()
    check_finite("graph", A)
    rows, columns = (A < 0).nonzero()
    if len(rows):
        got = f"{A[rows[0], columns[0]]} in {rows_text(np.unique(rows))}"
        raise ValueError(f"graph must have weights of at least 0; got {got}.")
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
    # the kernels need 32-bit indices
    A.indptr, A.indices = A.indptr.astype(np.int32, copy=False), A.indices.astype(np.int32, copy=False)
    return Graph(n, A, np.asarray(A.sum(axis=1)).ravel(), scale, *lattice)


def _matrix(graph: Any) -> Any:
    """The weights as a new csr_array of floats."""
    if hasattr(graph, "is_directed") and hasattr(graph, "adjacency"):
        if graph.is_directed():
            raise ValueError("graph must be undirected; for a directed networkx graph hand over graph.to_undirected().")
        place = {vertex: i for i, vertex in enumerate(graph)}
        ends, weights = [], []
        for u, v, weight in graph.edges(data="weight", default=1):
            if not isinstance(weight, Real | np.bool_):
                raise TypeError(f"graph must hold real weights; got {weight!r} on the edge between {u!r} and {v!r}.")
            ends.append((place[u], place[v]))
            weights.append(weight)
        rows, columns = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        A = scipy.sparse.csr_array((np.array(weights, dtype=float), (rows, columns)), shape=(len(place), len(place)))
        return scipy.sparse.csr_array(A + A.T)
    if isinstance(graph, str | bytes) or graph is None:
        raise TypeError(
            f"graph must be a square array, scipy.sparse matrix or networkx graph; got {type(graph).__name__}."
        )
    if scipy.sparse.issparse(graph):
        return as_matrix("graph", graph, square=True, finite=False, sparse="csr", copy=True)
    return scipy.sparse.csr_array(as_matrix("graph", graph, square=True, finite=False, booleans=True), dtype=float)


def _steps(A: Any, n: int) -> tuple[float, float, float]:
    """``step``, ``offset`` and ``spread`` of a graph: the common unit of its weights, or twice the unit if parities are known.

    In units, the weight of a cut (S, T) has the parity of the sum of the degrees in S, where edges inside S count twice. If all degrees
    are even, the cut is even. If all are odd, n is even and S has n / 2 vertices, so the cut has the parity of n / 2.
    """
    unit, is_exact = _common_unit(np.unique(A.data)) if len(A.data) else (0.0, True)
    if unit == 0.0:
        return 0.0, 0.0, 0.0
    counts = scipy.sparse.csr_array((np.rint(A.data / unit), A.indices, A.indptr), shape=A.shape)
    # every edge is in A twice; the second term bounds the rounding of the first one
    spread = 0.5 * float(np.abs(A.data - unit * counts.data).sum() + EPS * A.data.sum())
    if counts.data.sum() >= 2.0**52 or (not is_exact and spread > 0.01 * unit):
        return 0.0, 0.0, 0.0
    odd = np.asarray(counts.sum(axis=1)).ravel() % 2
    step = unit if odd.any() and not odd.all() else 2.0 * unit
    return step, unit * ((n // 2) % 2) if odd.all() else 0.0, 0.0 if is_exact else spread


def _common_unit(weights: np.ndarray) -> tuple[float, bool]:
    """The greatest common divisor of ascending positive weights, by Euclid's algorithm, and whether it divides them exactly.

    It is exact for whole numbers and halves, and up to rounding for tenths. It is 0 if there is none.
    """
    largest = float(weights[-1])
    # sums and differences of multiples of the grid are exact
    grid = 2.0 ** (np.floor(np.log2(weights.sum())) - 51)
    is_exact = bool((weights == grid * np.rint(weights / grid)).all())
    unit = float(weights[0])
    while is_exact or unit >= largest / MOST_UNITS:
        left = np.abs(weights - unit * np.rint(weights / unit))
        # a unit that is a difference of rounded weights is wrong by the rounding of the largest one
        rounding = 0.0 if is_exact else 4.0 * EPS * weights * (largest / unit)
        left = left[left > rounding]
        if not len(left):
            return largest / float(np.rint(largest / unit)), is_exact
        unit = float(left.min())
    return 0.0, False
