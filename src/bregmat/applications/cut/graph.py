"""A checked graph with scaled weights, in which one vertex stands for all fixed ones, and the weights that its cuts can have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy

from bregmat.applications.cut.balance import Balance, common_unit, read_balance
from bregmat.base.checks import as_matrix, asymmetry, check_finite, rows_text
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import EPS

# of the largest weight: rounding of a symmetric matrix; less than in base.checks, because light edges count
ASYMMETRY = 1e-12


@dataclass(frozen=True)
class Graph:
    """The free vertices of a graph, a terminal for the fixed ones and the target, and slack vertices without edges.

    The terminal z_0 = 1 stands for a vertex on side 1, and its negative for a vertex on side 0. An edge of weight A between i and a
    vertex on side 0 adds ``A (1 + z_i z_0) / 2`` to the cut, which is A plus the share of an edge of weight -A between i and the
    terminal. So a balanced cut weighs ``z'Lz / 4 + base``, with ``a'z = 0``: for halves of an even number of vertices this is the
    relaxation of Kulis 2009, section 6.4, with a = e.

    Attributes
    ----------
    balance : Balance
        The equation ``a'z = 0``.
    raw : csr_array, shape (n, n)
        Weights of the given graph divided by ``scale``.
    A : csr_array, shape (size, size)
        Weights in z'Lz: symmetric, with a zero diagonal; negative at most between the terminal and free vertices.
    degree, size_of_row : ndarray, shape (size,)
        Sums of the rows of A, and of their absolute values.
    scale : float
        A power of two, so that the division is exact; the largest given weight becomes a number in [1, 2).
    base : float
        In the units of the given graph.
    step, offset, spread : float
        Every balanced cut differs from ``offset`` plus a multiple of ``step`` by at most ``spread``, the rounding of the weights. In
        the units of the given graph; step is 0 if the weights have no common unit.
    """

    balance: Balance
    raw: Any
    A: Any
    degree: np.ndarray
    size_of_row: np.ndarray
    scale: float
    base: float
    step: float
    offset: float
    spread: float

    @property
    def size(self) -> int:
        """Number of vertices with the terminal and the slack."""
        return self.A.shape[0]

    @cached_property
    def a(self) -> np.ndarray:
        """The coefficients of the balance, with a mean square of 1."""
        return self.balance.a

    @cached_property
    def La(self) -> np.ndarray:
        """``L a``."""
        return self.laplacian_times(self.a)

    def cut(self, x: np.ndarray) -> float:
        """The weight between the two sides, in the units of the given graph; x (m,) is +1 and -1 for the free vertices."""
        labels, A = self.balance.labels(x), self.raw
        apart = np.repeat(labels, np.diff(A.indptr)) != labels[A.indices]
        return 0.5 * float(A.data[apart].sum()) * self.scale

    def total(self, value: float) -> float:
        """``value / 4 + base`` in the units of the given graph, for a value of ``z'Lz``."""
        return 0.25 * value * self.scale + self.base

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


def read_graph(graph: Any, vertex_weights: Any = None, target: Any = 0.5, fixed: Any = None) -> Graph:
    """Check the arguments of :func:`balanced_cut` and scale the weights; vertices of networkx graphs are in the order of the nodes.

    Parameters
    ----------
    graph, vertex_weights, target, fixed
        The arguments.

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
    if A.nnz >= 2**31:
        raise ValueError(f"graph must have fewer than 2**30 edges; got {A.nnz // 2}.")
    balance = read_balance(n, vertex_weights, target, fixed)
    lattice = [scale * value for value in _steps_of(A, balance.n_side)]
    adjacency = A
    A, base = _merged(adjacency, balance)
    A.sort_indices()
    # the kernels need 32-bit indices
    A.indptr, A.indices = A.indptr.astype(np.int32, copy=False), A.indices.astype(np.int32, copy=False)
    degree, size_of_row = (np.asarray(B.sum(axis=1)).ravel() for B in (A, abs(A)))
    return Graph(balance, adjacency, A, degree, size_of_row, scale, base * scale, *lattice)


def _steps_of(A: Any, n_side: int | None) -> tuple[float, float, float]:
    """``step``, ``offset`` and ``spread`` of a graph: the common unit of its weights, or twice the unit if parities are known.

    In units, the weight of a cut (S, T) has the parity of the sum of the degrees in S, where edges inside S count twice. If all degrees
    are even, the cut is even. If all are odd and S always has ``n_side`` vertices, the cut has the parity of ``n_side``.
    """
    unit, is_exact = common_unit(np.unique(A.data)) if len(A.data) else (0.0, True)
    if unit == 0.0:
        return 0.0, 0.0, 0.0
    counts = scipy.sparse.csr_array((np.rint(A.data / unit), A.indices, A.indptr), shape=A.shape)
    # every edge is in A twice; the second term bounds the rounding of the first one
    spread = 0.5 * float(np.abs(A.data - unit * counts.data).sum() + EPS * A.data.sum())
    if counts.data.sum() >= 2.0**52 or (not is_exact and spread > 0.01 * unit):
        return 0.0, 0.0, 0.0
    odd = np.asarray(counts.sum(axis=1)).ravel() % 2
    has_parity = not odd.any() or (odd.all() and n_side is not None)
    offset = unit * (n_side % 2) if odd.all() and n_side is not None else 0.0
    return 2.0 * unit if has_parity else unit, offset, 0.0 if is_exact else spread


def _merged(A: Any, balance: Balance) -> tuple[Any, float]:
    """The graph with the terminal in place of the fixed vertices, and the weight between the sides when all free ones are on side 1."""
    sides, size = balance.sides, balance.size
    free, fixed = np.flatnonzero(sides < 0), np.flatnonzero(sides >= 0)
    inner = A[free][:, free] if len(fixed) else A.copy()
    inner.resize((size, size))
    if not len(fixed):
        return inner, 0.0
    sign = np.where(sides[fixed] == 1, 1.0, -1.0)
    pull = np.zeros(size)
    pull[: len(free)] = A[free][:, fixed] @ sign
    near = np.flatnonzero(pull)
    edges = scipy.sparse.csr_array((pull[near], (near, np.full(len(near), len(free)))), shape=(size, size))
    base = math.fsum(A[fixed[sign < 0]][:, np.flatnonzero(sides != 0)].data)
    return scipy.sparse.csr_array(inner + edges + edges.T), base


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
