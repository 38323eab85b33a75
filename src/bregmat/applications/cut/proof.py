"""Lower bounds on balanced cuts that hold in floating point.

For any y and any balanced x of +-1 (``e'x = 0``), with ``lam`` at most the smallest eigenvalue of ``M = L + diag(y)`` on the
space orthogonal to e::

    4 cut(x) = x'L x = x'M x - sum y  >=  n lam - sum y

which holds for all matrices of the relaxation, too. What has to be certain is ``lam``, and no eigenvalue routine proves that
there is no smaller eigenvalue. Factorisations do: a Cholesky factorisation that runs to its end (dense), or the signs of the
pivots of ``LDL'`` (sparse), each with the error of its own arithmetic taken off.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from bregmat.applications.cut.graph import Graph
from bregmat.linalg import cholesky

UNIT = 2.0**-53
DENSE = 1000  # vertices up to which a dense factorisation costs next to nothing
DENSE_SHARE = 0.02  # of all pairs that are edges: above, the fill of a sparse factorisation is nearly everything
DENSE_LIMIT = 8000  # vertices up to which that is done: arrays of 0.5 GB


def projected(graph: Graph, y: np.ndarray) -> tuple[np.ndarray, float]:
    """``P (L + diag y) P + c ee'/n`` with ``P = I - ee'/n``, and c, the mean of its other eigenvalues: eigenvalues of M
    on the space orthogonal to e, and c. Fresh array."""
    n = graph.size
    B = graph.dense - (y[:, None] + y) / n
    c = float((graph.degree + y).sum() - y.sum() / n) / (n - 1)
    B += y.sum() / n**2 + c / n
    B[np.diag_indices_from(B)] += y
    return B, c


def forming_error(graph: Graph, y: np.ndarray) -> float:
    """A bound on the 2-norm of what rounding does to L (its degrees are sums) and to :func:`projected`."""
    longest = int(np.diff(graph.A.indptr).max(initial=0))
    size = 2.0 * graph.degree.max(initial=0.0) + 6.0 * np.abs(y).max(initial=0.0)
    return float(2.0 * (longest + 10) * UNIT * size)


def cholesky_error(n: int, trace: float) -> float:
    """If the Cholesky factorisation of a matrix runs to its end, none of its eigenvalues is below minus this.

    Rump 2006, "Verification of positive definiteness", BIT 46: ``LL' = B + E`` with ``|E| <= g |L||L'|``, ``g = (n + 1) u /
    (1 - (n + 1) u)``, so the norm of E is at most ``g tr(LL') <= g / (1 - g) tr(B)``; doubled for the arithmetic here.
    """
    g = (n + 1) * UNIT / (1.0 - (n + 1) * UNIT)
    return 2.0 * g / (1.0 - g) * abs(trace)


def is_above(graph: Graph, y: np.ndarray, level: float, *, sparse: bool | None = None) -> float:
    """A proven lower bound, close to ``level``, of the smallest eigenvalue of M orthogonal to e; -inf if there is no proof.

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
        return _by_inertia(graph, y, level)
    B, _ = projected(graph, y - level)
    if not (np.isfinite(B).all() and cholesky(B)[1]):
        return -np.inf
    return level - cholesky_error(n, float(np.trace(B))) - forming_error(graph, y - level)


def _by_inertia(graph: Graph, y: np.ndarray, level: float) -> float:
    """The same by a sparse ``LDL'``.

    1. ``N = M - level I = LDL' - E`` with at most one negative pivot: by Sylvester and Weyl, ``N + |E| I`` has at most one
       negative eigenvalue. With ``LU`` as computed, ``E = (LU - N) + L (DL' - U)``, and ``|LU - N| <= g |L||U|`` (Higham
       2002, "Accuracy and stability of numerical algorithms", theorem 9.3).
    2. If ``(N + s I) z = e + r``, there is a symmetric F with ``Fz = -r``, ``|F| <= 3 |r| / |z|``. Let ``|E| + |F| <= s``:
       ``N + s I + F`` has at most one negative eigenvalue and maps z to e. If ``z'e < 0``, z takes that eigenvalue, and any
       v orthogonal to e is conjugate to z; so ``v'(N + s I + F) v >= 0``.
    Hence M is at least ``level - s - |F|`` there.
    """
    n = graph.size
    N = scipy.sparse.csc_array(scipy.sparse.diags_array(graph.degree + (y - level)) - graph.A)
    try:
        lu = scipy.sparse.linalg.splu(
            N, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True, "Equil": False}
        )
    except (RuntimeError, MemoryError):  # a pivot is exactly zero; too much fill
        return -np.inf
    low, up, e = lu.L, lu.U, np.ones(n)
    pivots = up.diagonal()
    if (lu.perm_r != lu.perm_c).any() or not np.isfinite(pivots).all() or np.count_nonzero(pivots < 0) > 1:
        return -np.inf
    skew = abs(up - scipy.sparse.diags_array(pivots) @ low.T) + 2.0 * UNIT * abs(up)
    terms = int(np.diff(low.tocsr().indptr).max()) + 8
    error = 2.0 * terms * UNIT * (abs(low) @ (abs(up) @ e)) + 1.01 * (abs(low) @ (skew @ e))
    norm = float(error.max()) + forming_error(graph, y - level)
    shift = 4.0 * norm
    z = lu.solve(e)
    for _ in range(3):
        z = z - lu.solve(N @ z + shift * z - e)
    longest = int(np.diff(N.indptr).max()) + 8
    rounding = longest * UNIT * float(np.linalg.norm(abs(N) @ np.abs(z) + 1.0 + shift * np.abs(z)))
    share = 3.01 * (float(np.linalg.norm(N @ z + shift * z - e)) + rounding) / float(np.linalg.norm(z))
    if not (norm + share <= shift and z.sum() < -n * UNIT * np.abs(z).sum()):
        return -np.inf
    return level - shift - share


def bound_of(graph: Graph, y: np.ndarray, lam: float) -> tuple[float, np.ndarray]:
    """The bound on every balanced cut, in the caller's units, and multipliers with ``M >= 0``: y with ``lam`` taken in."""
    y = (y - lam) + 4.0 * UNIT * (np.abs(y) + abs(lam))
    return float(np.nextafter(-0.25 * math.fsum(y) * graph.scale, -np.inf)), y * graph.scale
