"""Priors with a larger range space.

LogDet and von Neumann never leave the range of their prior (Kulis 2009, sections 4 and 6.5).
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.checks import as_matrix, check_positive
from bregmat.base.threads import on_one_blas_thread
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import RANK_TOL, Factor, kernel_coordinates
from bregmat.objective.divergences import VonNeumann
from bregmat.typing import Array, Table

INSIDE_TOL = 1e-8  # length of the part of a unit vector outside the range that counts as rounding


@overload
def widen_range(prior: Factor, eps: float, *, directions: Table | Constraints | None = None) -> Factor: ...
@overload
def widen_range(prior: Table, eps: float, *, directions: Table | Constraints | None = None) -> Array: ...
@on_one_blas_thread
def widen_range(prior: Any, eps: float, *, directions: Table | Constraints | None = None) -> Any:
    """A prior plus ``eps`` times the projector onto (a part of) its null space.

    ``K0 + eps N N'`` with N an orthonormal basis of what ``directions`` add to range(K0) (Kulis 2009, section 6.5). Use it when a
    low-rank prior cannot meet hard constraints (status INFEASIBLE), or to allow new directions at a cost.

    Parameters
    ----------
    prior : array-like, shape (n, n), or Factor
        PSD prior of a kernel (or of a metric, then n is the number of features). Eigenvalues below 1e-12 of the largest count
        as zero.
    eps : float
        Positive, in units of the prior's eigenvalues: the eigenvalue of the new directions. The smaller it is, the more they cost:
        see Notes.
    directions : array-like, shape (n, k), or Constraints, optional
        Columns that the range shall contain. Constraints in row numbers stand for the unit vectors of the points that they name
        (of all points, if there are linear or trace constraints). None: the whole null space.

    Returns
    -------
    ndarray, shape (n, n), or Factor
        The same kind as ``prior``. A Factor (n, r) gains m columns ``sqrt(eps) N`` after its own: m is the dimension that
        ``directions`` add, n - r for None. Every later step then costs as much as with a kernel of rank r + m.
        ``prior`` itself, if nothing is added.

    Raises
    ------
    ValueError
        For ``eps`` that is not positive, not finite, or so small that the new directions would count as zero; for shapes that
        do not fit, NaN, and constraints that name samples the prior does not have.
    TypeError
        For ``eps`` that is no number, and a sparse factor.

    Notes
    -----
    Directions from Constraints give the same result as the whole null space: A*(mu) acts on the touched points only, so the other new
    directions would keep the eigenvalue eps, at no cost (LogDet and von Neumann).

    As eps falls the objective of an infeasible low-rank problem grows: its derivative with respect to log(eps) is
    ``m eps - tr(N N' K)`` for von Neumann and ``m - tr(N N' K) / eps`` for LogDet, K the learned kernel. With t the least
    ``tr(N N' K)`` of a feasible K, it behaves like ``t log(1 / eps)`` and ``t / eps``. Where the low-rank problem can be
    solved with room around its solution it tends to that optimum: LogDet with a difference of order eps, von Neumann slowly,
    with ``tr(K A*(mu) N N' A*(mu)) / log(1 / eps)``.

    Time O(n^2 (n - r)) for None, O(n k (r + min(n, k))) for directions; a memory-mapped factor is read into memory.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_kernel, widen_range
    >>> line = np.outer([1.0, 2.0], [1.0, 2.0])  # rank one: two points on a line, whose range LogDet keeps
    >>> constraints = Constraints.diagonal([1.0, 1.0])
    >>> print(nearest_kernel(line, constraints).status)
    INFEASIBLE
    >>> print(nearest_kernel(widen_range(line, 0.01), constraints).status)
    OPTIMAL
    """
    check_positive("eps", eps, finite=True)
    eps = float(eps)
    W, top = _range_of(prior)
    n, r = W.shape
    if eps <= RANK_TOL * top:
        raise ValueError(
            f"eps must be above {RANK_TOL:g} times the largest eigenvalue of the prior ({top:.3g}), below which eigenvalues "
            f"count as zero; got {eps:.3g}."
        )
    V = _vectors(directions, n)
    if r == n:
        return prior
    N = np.linalg.qr(W, mode="complete")[0][:, r:] if V is None else _added(W, V)
    if N.shape[1] == 0:
        return prior
    if isinstance(prior, Factor):
        return Factor(np.hstack([np.asarray(prior.G0, dtype=float), np.sqrt(eps) * N]))
    return np.asarray(prior, dtype=float) + eps * (N @ N.T)


def _range_of(prior: Any) -> tuple[np.ndarray, float]:
    """Orthonormal basis (n, r) of the range of a prior, with the rank that von Neumann uses, and the largest eigenvalue."""
    if isinstance(prior, Factor) and scipy.sparse.issparse(prior.G0):
        raise TypeError("widen_range needs a dense factor, because the new columns are dense; got a sparse G0.")
    divergence = VonNeumann()
    coordinates = kernel_coordinates(prior, divergence)
    W = coordinates.base if coordinates.R is None else np.linalg.qr(coordinates.base @ coordinates.R)[0]
    return W, coordinates.scale * float(divergence.inverse_link(coordinates.t0).max())


def _vectors(directions: Any, n: int) -> np.ndarray | None:
    """Columns (n, k) that the range shall contain; None for all directions."""
    if directions is None:
        return None
    if isinstance(directions, Constraints):
        directions.check_range(n)
        touched = directions.touched(n)
        return None if touched is None else np.eye(n)[:, touched]
    V = as_matrix("directions (a matrix or Constraints)", directions)
    if len(V) != n:
        raise ValueError(f"directions must have shape (n, k) with n = {n} rows, as the prior has; got shape {V.shape}.")
    return V


def _added(W: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Orthonormal basis of the directions that the columns of V, as unit vectors, add to the range of W."""
    # the largest entry first: the lengths of tiny and huge columns would under- or overflow
    V = V / np.maximum(np.abs(V).max(axis=0, initial=0.0), 1e-300)
    length = np.linalg.norm(V, axis=0)
    V = V / np.where(length > 0, length, 1.0)
    U, sigma, _ = np.linalg.svd(V - W @ (W.T @ V), full_matrices=False)
    N = U[:, sigma > INSIDE_TOL]
    # the division by a small sigma enlarges the rounding in the range of W, which is removed once more
    return np.linalg.qr(N - W @ (W.T @ N))[0]
