"""Lower bounds of balanced cuts that are proven in floating-point arithmetic.

Let ``lam`` be at most the smallest eigenvalue of ``M = L + diag(y)`` on the space orthogonal to a. For any y and any balanced
vector z of +1 and -1 (``a'z = 0``)::

    4 (cut(z) - base) = z'L z = z'M z - sum y  >=  n lam - sum y

The same holds for all matrices of the relaxation. Eigenvalue routines do not prove that there is no smaller eigenvalue. A Cholesky
factorisation that succeeds proves it, up to a bound of its rounding: of the dense matrix, or of the matrix that is left after the
elimination of vertices with few neighbours (sparse).
"""

from __future__ import annotations

import math

import numpy as np

from bregmat._kernels import elimination
from bregmat.applications.cut.graph import Graph
from bregmat.base.linalg import cholesky, is_definite_inplace

UNIT = 2.0**-53  # unit roundoff
DENSE = 1000  # vertices up to which the factorisation is always dense
# entries that a pivot changes, over the square of the number of remaining vertices, above which a dense factorisation is faster
DENSE_WORK = 0.004
DENSE_SHARE = 0.02  # share of all pairs that are edges above which a sparse factorisation fills nearly all entries
DENSE_LIMIT = 8000  # vertices up to which a dense factorisation is then used: arrays of 0.5 GB


def projected(graph: Graph, y: np.ndarray) -> tuple[np.ndarray, float]:
    """``P M P + c uu'`` with ``P = I - uu'``, ``u = a / |a|``, as a new array, and c, the mean of its other eigenvalues.

    Its eigenvalues are c and those of M on the space orthogonal to a.
    """
    u = graph.a / np.sqrt(graph.size)
    v = graph.La / np.sqrt(graph.size) + y * u
    inner = float(u @ v)
    c = (float((graph.degree + y).sum()) - inner) / (graph.size - 1)
    v -= 0.5 * (inner + c) * u
    # P M P + c uu' = M - uv' - vu'
    B = graph.dense - np.outer(u, v)
    B -= np.outer(v, u)
    B[np.diag_indices_from(B)] += y
    return B, c


def forming_error(graph: Graph, y: np.ndarray) -> float:
    """A bound of the 2-norm of the rounding of L, whose degrees are sums, of a, and of :func:`projected`."""
    longest = int(np.diff(graph.A.indptr).max(initial=0))
    size = 8.0 * graph.size_of_row.max(initial=0.0) + 12.0 * np.abs(y).max(initial=0.0)
    return float(2.0 * (longest + 10) * UNIT * size)


def cholesky_error(n: int, trace: float) -> float:
    """If the Cholesky factorisation of a matrix of order n succeeds, all of its eigenvalues are at least minus this number.

    Rump 2006, "Verification of positive definiteness", BIT 46: ``LL' = B + E`` with ``|E| <= g |L||L'|``, ``g = (n + 1) u /
    (1 - (n + 1) u)``, so the norm of E is at most ``g tr(LL') <= g / (1 - g) tr(B)``. It is doubled for the rounding of this formula.
    """
    g = (n + 1) * UNIT / (1.0 - (n + 1) * UNIT)
    return 2.0 * g / (1.0 - g) * abs(trace)


def is_above(graph: Graph, y: np.ndarray, level: float, *, sparse: bool | None = None) -> float:
    """A proven lower bound, close to ``level``, of the smallest eigenvalue of M orthogonal to a; -inf if there is no proof.

    Parameters
    ----------
    graph : Graph
    y : ndarray, shape (size,)
        Multipliers, in scaled units.
    level : float
    sparse : bool, optional
        Kind of factorisation; None: sparse for large graphs of few edges.
    """
    n = graph.size
    if sparse is None:
        sparse = n > DENSE and (graph.A.nnz <= DENSE_SHARE * n**2 or n > DENSE_LIMIT)
    if sparse:
        return _by_elimination(graph, y, level)
    B, _ = projected(graph, y - level)
    if not (np.isfinite(B).all() and cholesky(B)[1]):
        return -np.inf
    return level - cholesky_error(n, float(np.trace(B))) - forming_error(graph, y - level)


def _by_elimination(graph: Graph, y: np.ndarray, level: float) -> float:
    """The same from ``LDL'`` of ``K = [[N, s a], [s a', -c]]``, ``N = M - level I``, for any s, c > 0.

    Vertices with few neighbours are eliminated first, then the border, whose pivot is negative. The rest is dense and is factorised
    by Cholesky's method. If this succeeds, ``K + E = LDL'`` has one negative eigenvalue. ``|E| <= g |L||D||L'|`` entry by
    entry (Higham 2002, "Accuracy and stability of numerical algorithms", theorems 9.3 and 10.3), with g from the largest number
    of terms of an entry; so the norm of E is at most ``e = g sum |d_k| |l_k|^2``. By Weyl ``K + e I`` has at most
    one negative eigenvalue. For ``e < c`` this belongs to the last entry, so that ``N + e I + s^2 aa' / (c - e)`` has none, and on
    the space orthogonal to a, M is at least ``level - e``.
    """
    n = graph.size
    diagonal = graph.degree + (y - level)
    # s: the corner, which is a rounding of the pivots, is small beside what the pivot of the terminal adds to it
    border = graph.a * np.sqrt(np.abs(diagonal).max() / n)
    terms = np.zeros(n, dtype=np.int64)
    A = graph.A
    try:
        left, block, corner, pivot, trace, total = elimination.eliminate_inplace(
            diagonal, border, terms, A.indptr, A.indices, -A.data, DENSE_WORK, 16.0 * n * UNIT
        )
        if len(left) and not is_definite_inplace(len(left), block):
            return -np.inf
    except MemoryError:  # too much fill
        return -np.inf
    count = int(terms.max(initial=0)) + len(left) + 10
    error = 2.0 * UNIT * (count * (trace + 1.01 * total) + (n + 10) * pivot)  # doubled for its own rounding
    return level - error - forming_error(graph, y - level) if error < 0.5 * corner else -np.inf


def bound_of(graph: Graph, y: np.ndarray, lam: float) -> tuple[float, np.ndarray]:
    """The bound of every balanced cut, and multipliers ``y - lam`` with ``M >= 0``, both in the units of the given graph."""
    y = (y - lam) + 4.0 * UNIT * (np.abs(y) + abs(lam))
    lost = 8.0 * UNIT * graph.base
    return float(np.nextafter(graph.total(-math.fsum(y)) - lost, -np.inf)), y * graph.scale
