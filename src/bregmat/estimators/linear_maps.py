"""Linear maps from data: prior metrics (scaled columns, inverse covariances), and the components of a learned metric."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import scipy.sparse as sp

from bregmat.base.checks import as_matrix
from bregmat.base.linalg import blocks, dense, eigh, sq_norms, symmetrize
from bregmat.base.tolerances import SUM_ROUNDING
from bregmat.certificates.result import MatrixResult
from bregmat.coordinates.priors import Factor
from bregmat.typing import MetricPrior, PointsPrior

POINTS_PRIORS: tuple[PointsPrior, ...] = get_args(PointsPrior)
PRIORS: tuple[MetricPrior, ...] = (*POINTS_PRIORS, "within")
GRAM_RANK_TOL = 1e-10  # eigenvalue of a correlation or Gram matrix, relative to the largest, up to which it counts as 0
LEAST_WITHIN = 1e-6  # smallest variance within classes that is used, relative to the largest: weights stay bounded
MOST_FEATURES = 2000  # above, no matrix of size d x d is formed
MOST_ROWS = 20_000  # rows that determine the order of the components
MOST_NUMBERS = 40_000_000  # in the mapped rows, with many features
BLOCK = 32_000_000  # numbers of X that are copied at a time
# Fraction of the variance in the components that are kept. The error on MNIST is no higher than with all (docs/performance.md).
KEPT_VARIANCE = 0.95


def scatter(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """``(X - mean)' (X - mean)``, shape (d, d), and the sums of squares of the columns, shape (d,); a dense X is read in blocks."""
    if sp.issparse(X):
        mean = np.asarray(X.mean(axis=0)).ravel()
        S = np.asarray((X.T @ X).todense()) - X.shape[0] * np.outer(mean, mean)
        return S, np.asarray(X.multiply(X).sum(axis=0)).ravel()
    mean, S = X.mean(axis=0), np.zeros((X.shape[1], X.shape[1]))
    for part in blocks(len(X), X.shape[1], BLOCK):
        centred = X[part] - mean
        S += centred.T @ centred
    return S, np.einsum("ij,ij->j", X, X)


def _principal_axes(X: Any, scattered: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """1 / standard deviation of each column (d,), nonzero eigenvalues of the correlation matrix (r,), their eigenvectors (d, r).

    ``scattered`` is :func:`scatter` of X where that is known, for n >= d.
    """
    n, d = X.shape
    if d <= n:
        S, size = scatter(X) if scattered is None else scattered
        C = S / max(1, n - 1)
        scale = 1.0 / np.sqrt(np.where(np.diag(S) > SUM_ROUNDING * size, np.diag(C), np.inf))  # 0 for constant columns
        values, vectors = eigh(C * np.outer(scale, scale))
        kept = values > GRAM_RANK_TOL * values[-1]
        return scale, values[kept], vectors[:, kept]
    # with fewer rows than columns the eigenvectors are computed from the n x n inner products of the standardised rows
    Z = np.asarray(dense(X[:]), dtype=float)
    size = np.einsum("ij,ij->j", Z, Z)
    Z = Z - Z.mean(axis=0)
    variance = np.einsum("ij,ij->j", Z, Z)
    scale = 1.0 / np.sqrt(np.where(variance > SUM_ROUNDING * size, variance / max(1, n - 1), np.inf))
    Z *= scale
    values, vectors = eigh(Z @ Z.T / max(1, n - 1))
    kept = values > GRAM_RANK_TOL * values[-1]
    return scale, values[kept], Z.T @ vectors[:, kept] / np.sqrt(values[kept] * max(1, n - 1))


def inverse_covariance(X: Any, scattered: Any = None) -> np.ndarray:
    """Factor P of the inverse covariance of the rows, ``W0 = P P'``, or of its pseudo-inverse if it is singular.

        S = D C D,   D: standard deviations,   C: correlations,   W0 = D^+ C^+ D^+

    Constant columns get weight 0. Eigenvalues of C below 1e-10 of the largest count as 0, and so does W0 along their eigenvectors; they
    occur if columns are linear combinations of others, or if there are fewer rows than columns. The result does not depend
    on the units of the columns.

    Parameters
    ----------
    X : ndarray or scipy.sparse, shape (n, d)
    scattered : (ndarray, ndarray), optional
        :func:`scatter` of X where that is known, for n >= d; only the shape of X is then used.

    Returns
    -------
    ndarray, shape (d, r)
        Of rank r; units 1 / (X units). The identity if every column is constant.

    Notes
    -----
    The cost is n d min(n, d) + min(n, d)^3 operations. With more columns than rows, the centred data is formed densely. A "logdet"
    metric keeps the rank and the range of its prior (Kulis 2009, Theorem 6): directions in which the data does not vary keep
    weight 0.
    """
    scale, values, vectors = _principal_axes(X, scattered)
    return scale[:, None] * vectors / np.sqrt(values) if len(values) else np.eye(len(scale))


def inverse_within(X: Any, codes: np.ndarray, n_columns: int | None = None) -> np.ndarray:
    """Factor P of the inverse covariance within classes, ``W0 = P P'``: directions that vary within classes get small weights.

        W0 = c S^-1,   S = (1 - a) C + a tr(C)/d I,   tr W0 = d

    C is the covariance within classes, shrunk toward a multiple of the identity; Ledoit and Wolf (2004, section 3.2) estimate the amount a
    from the data. With few rows or many columns the result is near the identity. With a = 0 it is relevant component analysis
    (Bar-Hillel 2005), and the whitening of linear discriminant analysis. It does not depend on a rotation of the columns, but it does
    depend on their units: scale columns of different units first.

    Parameters
    ----------
    X : ndarray or scipy.sparse, shape (n, r)
    codes : ndarray of int, shape (n,)
        Class of each point; -1 where it is not known.
    n_columns : int, optional
        Number of columns d of the points, if X holds their coordinates in a subspace that contains them; by default r.

    Returns
    -------
    ndarray, shape (r, r)
        The identity if nothing varies within classes. Constant columns get weight 0.
    """
    known = np.flatnonzero(codes >= 0)
    T = np.asarray(dense(X[known]), dtype=float)
    _, group, counts = np.unique(codes[known], return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), T.shape[1]))
    np.add.at(sums, group, T)
    R = T - (sums / counts[:, None])[group]
    (n, r), d = R.shape, n_columns or R.shape[1]
    C = R.T @ R / max(1, n)
    size, mean = float(np.einsum("ij,ij->", C, C)), float(np.trace(C)) / d
    if not mean > GRAM_RANK_TOL * float(np.einsum("ij,ij->", T, T)) / (max(1, n) * d):
        return np.eye(r)
    spread = size - d * mean * mean  # |C - mean I|^2
    noise = (float((np.einsum("ij,ij->i", R, R) ** 2).mean()) - size) / n  # expected squared error of C
    a = min(1.0, noise / spread) if spread > 0 else 1.0
    values, vectors = eigh(C)
    inverse = 1.0 / np.maximum((1.0 - a) * values + a * mean, LEAST_WITHIN * values[-1])
    trace = inverse.sum() + (d - r) * inverse.max()
    return (inverse_deviations(T) > 0)[:, None] * vectors * np.sqrt(inverse * d / trace)


def in_span(X: Any) -> np.ndarray:
    """Coordinates (n, n) of n points in their span: all inner products are those of X (n, d)."""
    gram = dense(X @ X.T)
    values, vectors = eigh(np.asarray(gram, dtype=float))
    return vectors * np.sqrt(np.maximum(values, 0.0))


def prior_factor(X: Any, prior: str, codes: np.ndarray | None = None) -> Any:
    """Factor P (d, r), dense or sparse, of a named prior metric ``W0 = P P'`` for the rows of X; None for "identity".

    ``codes`` are the classes of the rows, which only "within" needs.
    """
    if prior == "variance":
        return sp.diags_array(inverse_deviations(X), format="csr")
    if prior == "covariance":
        return inverse_covariance(X)
    if prior == "within":
        if codes is None:
            raise ValueError('prior="within" is a covariance within classes, and there are none: it needs labels y.')
        return inverse_within(X, codes)
    return None


def given_prior(prior: Any, d: int) -> np.ndarray:
    """The prior matrix of the caller for points with d columns, checked."""
    W0: np.ndarray = as_matrix("prior", prior)
    if W0.shape != (d, d):
        raise ValueError(f"prior must have shape ({d}, {d}) for X with {d} features; got {W0.shape}.")
    return W0


def points_in_prior(X: Any, prior: Any) -> Any:
    """Points (n, r) whose Euclidean distances are those of a prior metric; sparse if X is and the metric only scales columns.

    ``prior`` is "identity", "variance", "covariance" or an array (d, d).
    """
    if not isinstance(prior, str):
        return np.asarray(X @ factor_of(given_prior(prior, X.shape[1])))
    P = prior_factor(X, prior)
    return X if P is None else X @ P


def pruned(X: Any, P: Any, n_least: int) -> np.ndarray:
    """Factor (d, r) of the prior ``P P'`` on the leading principal components of the points ``X P``.

    There are as many components as hold 95 % of the variance, and at least ``n_least``. P (d, k) is dense or sparse; None is the identity.
    """
    S = scatter(X)[0]
    values, vectors = eigh((S if P is None else symmetrize(P.T @ (S @ P))) / max(1, len(X) - 1))
    share = np.cumsum(values[::-1]) / values.sum()
    axes = vectors[:, ::-1][:, : max(n_least, 1 + int(np.searchsorted(share, KEPT_VARIANCE)))]
    return axes if P is None else np.asarray(P @ axes)


def factor_of(prior: Any) -> Any:
    """Factor P of a prior metric ``P P'`` that is given as a Factor or a matrix (d, d); None is the identity."""
    if prior is None or isinstance(prior, Factor):
        return None if prior is None else prior.G0
    values, vectors = eigh(prior)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def inverse_deviations(X: Any, moments: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray:
    """1 / standard deviation of each column, 0 for constant columns, shape (d,); ones if all are constant.

    ``moments`` are the mean squares and the means of the columns, by default those of X.
    """
    if moments is None:
        squares = X.multiply(X).sum(axis=0) if sp.issparse(X) else np.einsum("ij,ij->j", X, X)
        moments = np.asarray(squares).ravel() / X.shape[0], np.asarray(X.mean(axis=0)).ravel()
    size, mean = moments
    variance = size - mean * mean
    scale = 1.0 / np.sqrt(np.where(variance > SUM_ROUNDING * size, variance, np.inf))
    return scale if scale.any() else np.ones(len(scale))


def has_unit_rows(X: Any) -> bool:
    """Whether all rows of X (n, d) that are not 0 have the same length, up to rounding to half precision.

    Rows that differ by less than a tenth of their length from their mean do not count: a large constant column gives them one length.
    """
    sq_length = sq_norms(X)
    largest = float(sq_length.max(initial=0.0))
    if not 0.0 < largest < np.inf or largest > 1.002 * float(sq_length[sq_length > 0].min()):
        return False
    mean = np.asarray(X.mean(axis=0)).ravel()
    return float(sq_length.mean() - mean @ mean) > 0.01 * largest


# ---------------------------------------------------------------------- components of a learned metric
def components_of_many(result: MatrixResult, X: Any, n_components: int) -> np.ndarray:
    """The components of a learned metric along which X varies most, shape (n_components, d), without a matrix of size d x d."""
    # eigenvectors of the covariance from those of the n x n inner products
    T = result.transform(X[:: -(-X.shape[0] * X.shape[1] // MOST_NUMBERS)])
    T -= T.mean(axis=0)
    values, U = eigh(T @ T.T)
    rank = int((values > GRAM_RANK_TOL * values[-1]).sum())
    if n_components > rank:
        raise ValueError(
            f"n_components must be at most {rank}, the number of directions in which {len(T)} rows of X vary, where "
            f"there are more than {MOST_FEATURES} features; got {n_components}."
        )
    top = slice(None, -n_components - 1, -1)
    V, place = T.T @ (U[:, top] / np.sqrt(values[top])), result.coordinates
    if place.span is None:
        return (result.B @ V).T
    # B V without B, of size d x d: the map within the span that is in use is symmetric
    inner = replace(place, R=None).transform(V.T, result.iterate).T
    return (inner if place.R is None else place.R @ inner).T
