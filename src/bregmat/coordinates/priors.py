"""From a prior to coordinates in which it is diagonal; priors with a larger range space.

LogDet and von Neumann never leave the range of their prior (Kulis 2009, sections 4 and 6.5).
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.checks import as_matrix, check_finite, check_positive, check_psd
from bregmat.base.linalg import GRADED, dense, eigh, factor_svd, graded_eigh, graded_factor
from bregmat.base.points import as_points
from bregmat.base.threads import on_one_blas_thread
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.coordinates import RANK_TOL, Coordinates, Factor
from bregmat.objective.divergences import VonNeumann
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.binding import TURNED
from bregmat.typing import Array, Table

INSIDE_TOL = 1e-8  # share of a direction outside the range below which it counts as inside: rounding of the range


# ---------------------------------------------------------------------- coordinates
def kernel_coordinates(prior: Any, divergence: SpectralDivergence) -> Coordinates:
    """Coordinates of a kernel prior: a PSD array (n, n) or a :class:`Factor`."""
    if isinstance(prior, Factor):
        # touched rows are looked at when constraints are bound
        G0 = as_points("prior factor G0", prior.G0, look=False)
        if divergence.is_congruence_invariant:
            return Coordinates(G0, divergence.link(np.ones(G0.shape[1])), identity=True)
        gram = dense(G0.T @ G0)
        if not np.isfinite(gram).all():
            check_finite("prior factor G0", G0)  # names the rows
        values, Q = eigh(gram)
        keep = values > RANK_TOL * values[-1]
        if (keep & (values < GRADED * values[-1])).any():  # squares have lost digits of the small ones
            values, Q = factor_svd(G0)
            values = values**2
            keep = values > RANK_TOL * values[-1]
        values, Q = _in_range("prior G0'G0", values[keep], Q[:, keep], divergence)
        return _in_units(divergence, values, G0.shape[0], G0, R=Q / np.sqrt(values))
    prior = as_matrix("prior", prior, symmetric=True)
    values, Q = _eigen(prior, divergence)
    floor = _floor(values, divergence)
    if divergence.is_congruence_invariant:
        base, t0 = graded_factor(prior, values, Q), divergence.link(np.ones(len(values)))
        return Coordinates(base, t0, identity=True, owns_base=True, floor=floor)
    return _in_units(divergence, values, len(Q), Q, owns_base=True, floor=floor)


def metric_coordinates(X: Any, prior: Any, divergence: SpectralDivergence) -> Coordinates:
    """Coordinates of a Mahalanobis metric on data X (n, d); prior None is the identity, else PSD (d, d) or its Factor (d, r)."""
    X = as_points("X", X)
    d = X.shape[1]
    is_finite = not isinstance(X, np.memmap)
    if prior is None:
        return Coordinates(X, divergence.link(np.ones(d)), identity=True, is_finite=is_finite)
    if isinstance(prior, Factor):
        P = as_points("prior factor G0", prior.G0)
        if P.shape[0] != d:
            raise ValueError(f"prior factor must have one row per column of X ({d}); got shape {P.shape}.")
        if divergence.is_congruence_invariant:
            return Coordinates(X, divergence.link(np.ones(P.shape[1])), R=P, identity=True, is_finite=is_finite)
        Q, sigma, _ = np.linalg.svd(dense(P), full_matrices=not divergence.keeps_range)
        values = np.zeros(Q.shape[1])
        values[: len(sigma)] = sigma**2
        values, Q = _in_range("prior", values[::-1], Q[:, ::-1], divergence)
    else:
        prior = as_matrix("prior", prior, symmetric=True)
        values, Q = _eigen(prior, divergence)
    if len(Q) != d:
        raise ValueError(f"prior must have shape ({d}, {d}), one row per column of X; got ({len(Q)}, {len(Q)}).")
    floor = _floor(values, divergence)
    if divergence.is_congruence_invariant:
        t0, R = divergence.link(np.ones(len(values))), Q * np.sqrt(values)
        if not isinstance(prior, Factor):
            R = graded_factor(prior, values, Q)
        return Coordinates(X, t0, R=R, identity=True, is_finite=is_finite, floor=floor)
    return _in_units(divergence, values, d, X, R=Q, is_finite=is_finite, floor=floor)


def _eigen(A: np.ndarray, divergence: SpectralDivergence) -> tuple[np.ndarray, np.ndarray]:
    """Checked eigenpairs of a prior; the null space is left out where the divergence keeps the range space."""
    values, Q = graded_eigh(A, RANK_TOL)
    check_psd("prior", values)
    return _in_range("prior", values, Q, divergence)


def _in_range(
    name: str, values: np.ndarray, Q: np.ndarray, divergence: SpectralDivergence
) -> tuple[np.ndarray, np.ndarray]:
    """Eigenpairs of a prior without its null space, where the divergence keeps the range space."""
    if divergence.keeps_range:
        keep = values > RANK_TOL * values.max(initial=1e-300)
        values, Q = values[keep], Q[:, keep]
        if len(values) == 0:
            raise ValueError(f"{name} is zero; a prior must have positive eigenvalues.")
    return np.maximum(values, 0.0), Q


def _in_units(divergence: SpectralDivergence, values: np.ndarray, order: int, base: Any, **facts: Any) -> Coordinates:
    """Coordinates with the eigenvalues of the prior over their mean, where the divergence is homogeneous.

    Parameters
    ----------
    divergence : SpectralDivergence
    values : ndarray, shape (r,)
        Those that are not left out.
    order : int
        Number of all.
    base : array-like or scipy.sparse
    **facts
        Further fields.
    """
    scale = 1.0 if divergence.degree is None else float(values.sum()) / order
    return Coordinates(base, divergence.link(values / (scale or 1.0)), scale=scale, **facts)


def _floor(values: np.ndarray, divergence: SpectralDivergence) -> np.ndarray:
    """Error of the coordinates of a unit vector: rounding turns eigenvectors out of the null space that is left out."""
    turned = TURNED * values[-1] / values if divergence.keeps_range else np.full(len(values), TURNED)
    return turned * np.sqrt(values) if divergence.is_congruence_invariant else turned


# ---------------------------------------------------------------------- wider ranges
@overload
def widen_range(prior: Factor, eps: float, *, directions: Table | Constraints | None = None) -> Factor: ...
@overload
def widen_range(prior: Table, eps: float, *, directions: Table | Constraints | None = None) -> Array: ...
@on_one_blas_thread
def widen_range(prior: Any, eps: float, *, directions: Table | Constraints | None = None) -> Any:
    """A prior plus ``eps`` times the projector onto (a part of) its null space.

    ``K0 + eps N N'`` with N an orthonormal basis of what ``directions`` add to range(K0) (Kulis 2009, section 6.5). Use it when a
    low-rank prior cannot meet hard constraints (status INFEASIBLE), or when new directions shall be open at a price.

    Parameters
    ----------
    prior : array-like, shape (n, n), or Factor
        PSD prior of a kernel (or of a metric, then n is the number of features). Eigenvalues below 1e-12 of the largest count
        as zero.
    eps : float
        Positive, in units of the prior's eigenvalues: the eigenvalue of the new directions. Small values make them dear:
        see Notes.
    directions : array-like, shape (n, k), or Constraints, optional
        Columns that the range shall contain. Constraints in row numbers stand for the unit vectors of the points they touch
        (for all of them, if there are linear or trace rows). None: the whole null space.

    Returns
    -------
    ndarray, shape (n, n), or Factor
        The same kind as ``prior``. A Factor (n, r) gains m columns ``sqrt(eps) N``, its own columns come first: m is the rank
        of what ``directions`` add, n - r for None, which makes every later step as dear as a full-rank kernel of order n.
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
    With directions from Constraints nothing is lost against the whole null space: A*(mu) acts on the touched points only, so
    the other new directions would keep the eigenvalue eps, at no cost (LogDet and von Neumann).

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
    >>> rows = Constraints.diagonal([1.0, 1.0])
    >>> print(nearest_kernel(line, rows).status)
    INFEASIBLE
    >>> print(nearest_kernel(widen_range(line, 0.01), rows).status)
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
    """Orthonormal basis (n, r) of the range of a prior, by the rank that von Neumann gives it, and its largest eigenvalue."""
    if isinstance(prior, Factor) and scipy.sparse.issparse(prior.G0):
        raise TypeError("widen_range needs a dense factor, because the new columns are dense; got a sparse G0.")
    divergence = VonNeumann()
    coordinates = kernel_coordinates(prior, divergence)
    W = coordinates.base if coordinates.R is None else np.linalg.qr(coordinates.base @ coordinates.R)[0]
    return W, coordinates.scale * float(divergence.inverse_link(coordinates.t0).max())


def _vectors(directions: Any, n: int) -> np.ndarray | None:
    """Columns (n, k) that the range shall contain; None for everything."""
    if directions is None:
        return None
    if isinstance(directions, Constraints):
        directions.locate(None, n=n)  # raises for names and for numbers out of range
        touched = directions.touched(n)
        return None if touched is None else np.eye(n)[:, touched]
    V = as_matrix("directions (a matrix or Constraints)", directions)
    if len(V) != n:
        raise ValueError(f"directions must have shape (n, k) with n = {n} rows, as the prior has; got shape {V.shape}.")
    return V


def _added(W: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Orthonormal basis of what the columns of V, made unit vectors, add to the columns of W."""
    # lengths of tiny and huge columns would under- or overflow
    V = V / np.maximum(np.abs(V).max(axis=0, initial=0.0), 1e-300)
    length = np.linalg.norm(V, axis=0)
    V = V / np.where(length > 0, length, 1.0)
    U, sigma, _ = np.linalg.svd(V - W @ (W.T @ V), full_matrices=False)
    N = U[:, sigma > INSIDE_TOL]
    # the part in the range is rounding, which the division by a small sigma has enlarged: take it off once more
    return np.linalg.qr(N - W @ (W.T @ N))[0]
