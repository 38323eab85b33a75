"""Priors computed from data."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.linalg import eigh

ROUNDING = 1e-14  # variance of a constant column, relative to its mean square
RANK_TOL = 1e-10  # smallest eigenvalue of the correlation matrix that counts, relative to the largest


def covariance(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of the rows, shape (d, d), and which columns vary (beyond rounding)."""
    n = X.shape[0]
    if sp.issparse(X):
        mean = np.asarray(X.mean(axis=0)).ravel()
        S = np.asarray((X.T @ X).todense()) - n * np.outer(mean, mean)
        size = np.asarray(X.multiply(X).sum(axis=0)).ravel()
    else:
        centred = X - X.mean(axis=0)
        S = centred.T @ centred
        size = np.einsum("ij,ij->j", X, X)
    varies = np.diag(S) > ROUNDING * size
    return S / max(1, n - 1), varies


def inverse_covariance(X: Any) -> np.ndarray:
    """Factor P of the inverse covariance of the rows, ``W0 = P P'``; a pseudo-inverse where that is singular.

        S = D C D,   D: standard deviations,   C: correlations,   W0 = D^+ C^+ D^+

    Never fails. Constant columns get weight 0. Eigenvalues of C below 1e-10 of the largest (columns that are linear
    combinations of others, fewer rows than columns) count as 0, and W0 is 0 along them. Working on correlations makes
    this independent of the units of the columns. For a nonsingular S, W0 is its inverse.

    Parameters
    ----------
    X : ndarray or scipy.sparse, shape (n, d)

    Returns
    -------
    ndarray, shape (d, r)
        Of rank r; units 1 / (X units). The identity if every column is constant.

    Notes
    -----
    Cost n d min(n, d) and a cube of min(n, d); with more columns than rows the centred data is formed densely. With a
    prior of rank r the "logdet" metric keeps that rank and range (Kulis 2009, Theorem 6): directions in which the data
    does not vary stay at weight 0.
    """
    n, d = X.shape
    if d <= n:
        S, varies = covariance(X)
        scale = _inverse_root(np.diag(S), varies)
        values, vectors = eigh(S * np.outer(scale, scale))
        kept = values > RANK_TOL * values[-1]
        P = scale[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    else:  # the same from the n x n products of the standardised rows
        Z = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=float)
        size = np.einsum("ij,ij->j", Z, Z)
        Z = Z - Z.mean(axis=0)
        variance = np.einsum("ij,ij->j", Z, Z)
        scale = _inverse_root(variance / max(1, n - 1), variance > ROUNDING * size)
        Z *= scale
        values, vectors = eigh(Z @ Z.T / max(1, n - 1))
        kept = values > RANK_TOL * values[-1]
        P = scale[:, None] * (Z.T @ vectors[:, kept]) / (values[kept] * np.sqrt(max(1, n - 1)))
    return P if kept.any() else np.eye(d)


def _inverse_root(variance: np.ndarray, varies: np.ndarray) -> np.ndarray:
    """1 / standard deviation, 0 for constant columns."""
    scale = np.zeros(len(variance))
    scale[varies] = 1.0 / np.sqrt(variance[varies])
    return scale
