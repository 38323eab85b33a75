"""Linear algebra and iterative methods shared by all solvers; products with arrays of other libraries.

Iterative methods take the problem as callables: conjugate gradients, line search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy  # its modules load on first use, which keeps `import bregmat` quick

from bregmat.base.arrays import array_space, is_foreign
from bregmat.base.threads import seconds_left

Point = TypeVar("Point")
# (steps done, x, direction, curvature along it, squared norm of the residual) -> whether to stop before the step
Blocked = Callable[[int, np.ndarray, np.ndarray, float, float], bool]

GRADED = 1e-6  # eigenvalues below this share of the largest are refined, since their rounding error is a share of the largest


def dense(A: Any) -> np.ndarray:
    """A dense array, also of a sparse matrix; arrays of other libraries unchanged."""
    if type(A) is np.ndarray or is_foreign(A):
        return A
    return A.toarray() if hasattr(A, "toarray") else np.asarray(A)


def product(X: Any, B: Any) -> Any:
    """``X B`` for a NumPy matrix B, in the library, device and precision of X."""
    if isinstance(X, np.ndarray) or not is_foreign(X):
        return X @ B
    space = array_space(X)
    assert space is not None
    return X @ space.put_like(X, dense(B))


# number of columns below which the next three functions multiply whole matrices, because that is faster for small ones
FEW_COLUMNS = 64


def factor_product(V: np.ndarray, F: np.ndarray) -> np.ndarray:
    """``V F``, in half of the operations if F is lower triangular, as Cholesky factors are."""
    r = len(F)
    if r < FEW_COLUMNS or F.shape[1] != r or F.dtype != V.dtype or np.triu(F, 1).any():
        return V @ F
    return np.asarray(scipy.linalg.get_blas_funcs("trmm", dtype=V.dtype)(1.0, F.T, V.T).T)


def half_product(Z: np.ndarray, X: np.ndarray) -> np.ndarray:
    """``Z T`` for a matrix T with ``v' T v = v' X v`` for all v; T is upper triangular, which takes half of the operations of ``Z X``."""
    if len(X) < FEW_COLUMNS:
        return Z @ X
    T = np.triu(X + X.T)
    add_diagonal(T, -X.diagonal())
    return np.asarray(scipy.linalg.get_blas_funcs("trmm", dtype=Z.dtype)(1.0, T.T, Z.T, lower=1).T)


def symmetric_product(Z: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """``Z' Y``, which has to be symmetric: only the blocks of its upper triangle are computed."""
    width, r = 128, Z.shape[1]
    if r < FEW_COLUMNS:
        return Z.T @ Y
    out = np.empty((r, r), Z.dtype)
    for start in range(0, r, width):
        some, rest = slice(start, start + width), slice(start + width, None)
        out[some, start:] = Z[:, some].T @ Y[:, start:]
        out[rest, some] = out[some, rest].T
    return out


def row_dot(A: Any, B: Any) -> np.ndarray:
    """Inner products of the rows of two matrices, dense or both sparse."""
    return np.asarray(A.multiply(B).sum(axis=1)).ravel() if hasattr(A, "multiply") else np.einsum("ij,ij->i", A, B)


def sq_norms(rows: Any) -> np.ndarray:
    """Squared length of every row."""
    return np.einsum("ij,ij->i", rows, rows) if isinstance(rows, np.ndarray) else row_dot(rows, rows)


def unit_rows(X: Any) -> Any:
    """Rows divided by their lengths, in the library of X, also if X is sparse; rows of zeros stay zeros."""
    largest = float(abs(X).max()) if min(X.shape) else 0.0
    if largest > 0 and np.isfinite(largest):
        X = X / 2.0 ** float(np.frexp(largest)[1] - 1)  # exact, and squares stay finite
    if scipy.sparse.issparse(X):
        sq_length = sq_norms(X)
        return scipy.sparse.diags_array(1.0 / np.sqrt(sq_length + (sq_length == 0)), format="csr") @ X
    sq_length = (X * X).sum(axis=1)[:, None]
    return X / (sq_length + (sq_length == 0)) ** 0.5


def blocks(n: int, width: int, numbers: int) -> list[slice]:
    """Slices of n rows of ``width`` numbers each; a slice has about ``numbers`` numbers and at least one row."""
    step = max(1, numbers // max(1, width))
    return [slice(start, start + step) for start in range(0, n, step)]


def symmetrize(A: np.ndarray) -> np.ndarray:
    """``(A + A') / 2``."""
    return 0.5 * (A + A.T)


def add_diagonal(A: np.ndarray, d: np.ndarray | float) -> np.ndarray:
    """``A += diag(d)`` in place, for a square matrix in any memory order; returns it."""
    np.einsum("ii->i", A)[:] += d  # a view of the diagonal
    return A


def cholesky(A: np.ndarray, *, is_used_up: bool = False) -> tuple[np.ndarray, bool]:
    """Lower Cholesky factor and whether ``A`` is numerically positive definite.

    With ``is_used_up``, the factor overwrites A, which must be C-contiguous, and its upper triangle is not set to 0.
    """
    if is_used_up:
        C, info = scipy.linalg.lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
    else:
        C, info = scipy.linalg.lapack.dpotrf(A, lower=1, clean=1)
    # a NaN or infinity in a row makes the last entry of the row NaN or infinite
    return C, info == 0 and bool(np.isfinite(C.diagonal()).all())


def is_definite_inplace(n: int, packed: np.ndarray) -> bool:
    """Whether a symmetric matrix (n, n) is numerically positive definite.

    Its lower triangle is in LAPACK's rectangular full packed format, transposed: (ceil(n / 2), n) for odd n, (n / 2, n + 1) for even n,
    C-contiguous. It is overwritten.
    """
    C, info = scipy.linalg.lapack.dpftrf(n, packed.reshape(-1), uplo="L", overwrite_a=1)
    return info == 0 and bool(np.isfinite(C).all())


def cholesky_solve(C: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``A^-1 b`` from the lower Cholesky factor of ``A``."""
    return scipy.linalg.lapack.dpotrs(C, b, lower=1)[0]


def cholesky_inverse(C: np.ndarray) -> np.ndarray:
    """``A^-1``, exactly symmetric, from the lower Cholesky factor of ``A``, whose upper triangle is 0."""
    lower = scipy.linalg.lapack.dpotri(C, lower=1)[0]
    X = lower + lower.T
    np.fill_diagonal(X, np.diag(lower))
    return X


def triangular_solve(C: np.ndarray, B: np.ndarray) -> np.ndarray:
    """``C^-1 B`` for a lower triangular matrix."""
    return scipy.linalg.lapack.dtrtrs(C, B, lower=1)[0]


def logdet_of_factor(L: np.ndarray) -> float:
    """``logdet L L'`` of a triangular factor with a positive diagonal."""
    return 2.0 * float(np.log(np.diag(L)).sum())


def column_basis(A: np.ndarray, tol: float) -> np.ndarray:
    """Orthonormal basis of the range of A (m, n), shape (m, k); singular values below ``tol`` of the largest count as 0."""
    U, sigma, _ = np.linalg.svd(A, full_matrices=False)
    return U[:, sigma > tol * sigma.max(initial=0.0)]


def triangular_inverse(C: np.ndarray) -> np.ndarray:
    """Inverse of a lower triangular matrix."""
    return scipy.linalg.lapack.dtrtri(C, lower=1)[0]


eigh, eigvalsh = np.linalg.eigh, np.linalg.eigvalsh  # ascending eigenvalues of a symmetric matrix


def graded_eigh(A: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Ascending eigenpairs; those below ``GRADED`` times the largest eigenvalue come from a second decomposition.

    All eigenvalues have errors of EPS times the largest, which may be the whole of a small one. On the span V of the small ones,
    ``V'AV`` is as small as they are, and so is its rounding. Nothing is refined if no small eigenvalue exceeds ``least`` times the largest.
    """
    values, Q = eigh(A)
    small = values < GRADED * values[-1]
    if not (small & (values > least * values[-1])).any():
        return values, Q
    V = Q[:, small]
    values[small], turn = eigh(symmetrize(V.T @ _accurate_product(A, V)))
    Q[:, small] = V @ turn
    return values, Q


def graded_factor(A: np.ndarray, values: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """``Z = Q sqrt(values)`` with ``Z Z' = A`` for ascending eigenpairs of A on the span of Q, corrected for small eigenvalues.

    Rounding turns the vectors of two small eigenvalues: ``A = Z (I + D) Z'`` with D up to 1e-7 at condition 1e12. Half of D is added to
    the longer of two columns, the one that it changes least; then 1e-10 is left.
    """
    root = np.sqrt(values)
    Z = Q * root
    if not values[0] < GRADED * values[-1]:
        return Z
    size = 2.0 ** np.ceil(0.5 * np.log2(values[-1]))
    high, low = _halves(Z / size, Z.shape[1])
    # A - Z Z' with products of leading halves, which are exact
    left = (A / size**2 - high @ high.T) - (high @ low.T + low @ Z.T / size)
    turn = Q * (size / root)
    D = symmetrize(turn.T @ left @ turn)
    # the correction neglects D^2
    return Z + Z @ (np.triu(D, 1) + 0.5 * np.diag(np.diag(D))) if np.abs(D).max() < 1e-3 else Z


def _accurate_product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """``A B`` (n, k) with about one and a half times the digits of a plain product, since products of leading halves are exact.

    Ozaki, Ogita, Oishi and Rump (2012), "Error-free transformations of matrix multiplication".
    """
    scale = 2.0 ** np.ceil(np.log2(np.abs(A).max()))
    A = A / scale
    (high_A, low_A), (high_B, low_B) = _halves(A, len(B)), _halves(B, len(B))
    return scale * (high_A @ high_B + (high_A @ low_B + low_A @ B))


def _halves(X: np.ndarray, terms: int) -> tuple[np.ndarray, np.ndarray]:
    """Entries of at most 1 as high + low, where high has so few digits that sums of ``terms`` products are exact."""
    grid = 2.0 ** (53 - (53 - int(np.ceil(np.log2(terms)))) // 2)
    high = (X + grid) - grid
    return high, X - high


def factor_svd(G: Any) -> tuple[np.ndarray, np.ndarray]:
    """Ascending singular values and right singular vectors of G (n, r), dense or sparse, by QR of blocks of rows."""
    R = np.zeros((0, G.shape[1]))
    for part in blocks(G.shape[0], G.shape[1], 2**21):
        R = np.asarray(np.linalg.qr(np.vstack([R, dense(G[part])]), mode="r"))
    _, sigma, Vt = np.linalg.svd(R)
    return np.concatenate([np.zeros(len(Vt) - len(sigma)), sigma[::-1]]), Vt[::-1].T


def smallest(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest entries of each row in ascending order, and their columns; all if there are fewer; shapes (m, min(k, n)).

    Long rows are not partitioned as a whole. The k-th smallest of the minima of disjoint sets of columns is an upper bound of the k-th
    smallest entry, and only the few entries up to the bound are sorted.
    """
    (m, n), n_sets = values.shape, max(8 * k, 64)
    size = n // n_sets
    if size < 8:
        columns = np.broadcast_to(np.arange(n), values.shape)
        if k < n:
            columns = np.sort(np.argpartition(values, k - 1, axis=1)[:, :k], axis=1)
        nearest = np.take_along_axis(values, columns, axis=1)
        order = np.argsort(nearest, axis=1, kind="stable")  # of equal entries the one in the lower column is first
        return np.take_along_axis(nearest, order, axis=1), np.take_along_axis(columns, order, axis=1)
    minima = values[:, : n_sets * size].reshape(m, size, n_sets).min(axis=1)
    bound = np.partition(minima, k - 1, axis=1)[:, k - 1]
    rows, columns = np.nonzero(values <= bound[:, None])
    entries = values[rows, columns]
    order = np.lexsort((entries, rows))
    first = np.searchsorted(rows, np.arange(m + 1))
    kept = order[first[:-1, None] + np.arange(k)]
    nearest, columns = entries[kept], columns[kept]
    # rows in which the k-th entry is infinite or occurs again are partitioned, so that the choice does not depend on their length
    following = np.append(entries[order], np.inf)[first[:-1] + k]
    is_tied = (first[1:] - first[:-1] > k) & (following == nearest[:, -1])
    for row in np.flatnonzero(is_tied | np.isinf(bound)):
        some = np.sort(np.argpartition(values[row], k - 1)[:k])
        columns[row] = some[np.argsort(values[row, some], kind="stable")]
        nearest[row] = values[row, columns[row]]
    return nearest, columns


# ---------------------------------------------------------------------- conjugate gradients
@dataclass(frozen=True, eq=False)
class KrylovEnd:
    """The result of conjugate gradients."""

    x: np.ndarray
    residual: np.ndarray  # b - H x, by recurrence
    steps: int
    norm: float  # of the residual
    rho: float  # r' M^-1 r for the preconditioner M
    # the last direction, if no step was taken along it because its curvature is not positive or ``blocked`` returned True
    direction: np.ndarray | None = None
    curvature: float = np.nan  # d' H d of that direction


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray],
    b: np.ndarray,
    *,
    goal: float,
    max_iter: int,
    precondition: Callable[[np.ndarray], np.ndarray] | None = None,
    is_euclidean: bool = False,
    blocked: Blocked | None = None,
) -> KrylovEnd:
    """Solve ``H x = b`` for a positive semidefinite H, known by its products, from ``x = 0``.

    Parameters
    ----------
    product : callable
        ``H v`` for an array of the shape of b; a new array.
    b : ndarray
        Of any shape; matrices count as the vectors of their entries.
    goal : float
        Stops when the norm of the residual is at most this (absolute).
    max_iter : int
        Limit on steps; a :func:`bregmat.base.threads.time_limit` ends them, too.
    precondition : callable, optional
        ``M^-1 v`` for a positive definite M that approximates H; a new array.
    is_euclidean : bool
        Whether the norm is Euclidean; else it is ``sqrt(r' M^-1 r)``.
    blocked : callable, optional
        Called before each step of positive curvature; True stops there, and the result holds the direction.

    Notes
    -----
    Cost per step: one product, one preconditioning, five passes over arrays of the size of b.
    """
    x, r = np.zeros_like(b), b.copy()
    z = r if precondition is None else precondition(r)
    d, rho = z.copy(), float(np.vdot(r, z))
    norm = _norm(r, rho, is_euclidean)
    steps = 0
    while norm > goal and steps < max_iter and rho > 0 and seconds_left() > 0:
        H = product(d)
        curvature = float(np.vdot(d, H))
        if not curvature > 0 or (blocked is not None and blocked(steps, x, d, curvature, rho)):
            return KrylovEnd(x, r, steps, norm, rho, d, curvature)
        steps += 1
        alpha = rho / curvature
        x += alpha * d
        r -= alpha * H
        z = r if precondition is None else precondition(r)
        rho, last = float(np.vdot(r, z)), rho
        norm = _norm(r, rho, is_euclidean)
        d *= rho / last
        d += z
    return KrylovEnd(x, r, steps, norm, rho)


def _norm(r: np.ndarray, rho: float, is_euclidean: bool) -> float:
    """``sqrt(r' r)`` or ``sqrt(r' M^-1 r)``."""
    return float(np.linalg.norm(r)) if is_euclidean else float(np.sqrt(max(rho, 0.0)))


# ---------------------------------------------------------------------- line search
def armijo(
    trial: Callable[[float], tuple[Point, float] | None],
    cost: float,
    slope: float,
    *,
    rounding: float,
    first: float = 1.0,
    max_trials: int = 40,
    outside: float = 0.5,
    is_parabolic: bool = False,
) -> tuple[Point, float] | None:
    """The first point along a descent direction that meets Armijo's condition, with its step length; None if there is none.

    ``cost(alpha) <= cost + 1e-4 * alpha * slope + rounding`` (Armijo 1966).

    Parameters
    ----------
    trial : callable
        Step length -> (point, cost), or None outside the domain.
    cost, slope : float
        At step length 0; the slope is negative.
    rounding : float
        Rounding error of the cost.
    first : float
        First step length.
    max_trials : int
        Limit on trials.
    outside : float
        Factor on the step length after a trial that is outside the domain or has no finite cost.
    is_parabolic : bool
        Whether the next length is the minimiser of the interpolating parabola, within [0.1, 0.5] of the last length; else
        half of the last length.
    """
    alpha = first
    for _ in range(max_trials):
        candidate = trial(alpha)
        if candidate is not None and candidate[1] <= cost + 1e-4 * alpha * slope + rounding:
            return candidate[0], alpha
        if candidate is None or not np.isfinite(candidate[1]):
            alpha *= outside
        elif is_parabolic:
            curved = -slope * alpha * alpha / (2.0 * (candidate[1] - cost - slope * alpha))
            alpha = min(max(curved, 0.1 * alpha), 0.5 * alpha)
        else:
            alpha *= 0.5
    return None
