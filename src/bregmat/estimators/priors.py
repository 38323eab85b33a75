"""Priors and directions computed from data."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.linalg import eigh

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
    varies = np.diag(S) > 1e-14 * size
    return S / max(1, n - 1), varies


def inverse_covariance(X: Any) -> np.ndarray:
    """Inverse of the covariance of the rows; a pseudo-inverse where that is singular. Never fails.

        S = D C D,   D: standard deviations,   C: correlations,   W0 = D^+ C^+ D^+

    Constant columns get weight 0. Eigenvalues of C below 1e-10 of the largest (columns that are linear combinations of
    others, fewer rows than columns) count as 0, and W0 is 0 along them. Working on correlations makes this
    independent of the units of the columns. For a nonsingular S this is its inverse.

    Parameters
    ----------
    X : ndarray or scipy.sparse, shape (n, d)

    Returns
    -------
    ndarray, shape (d, d)
        Symmetric positive semidefinite, units 1 / (X units)^2; the identity if every column is constant.

    Notes
    -----
    Cost n d^2 + d^3, memory d^2. With a prior of rank r the "logdet" metric keeps that rank and range
    (Kulis 2009, Theorem 6): directions in which the data does not vary stay at weight 0.
    """
    S, varies = covariance(X)
    if not varies.any():
        return np.eye(len(S))
    scale = np.zeros(len(S))
    scale[varies] = 1.0 / np.sqrt(np.diag(S)[varies])
    values, vectors = eigh(S * np.outer(scale, scale))
    kept = values > RANK_TOL * values[-1]
    P = scale[:, None] * vectors[:, kept] / np.sqrt(values[kept])
    return P @ P.T


def principal_rotation(S: np.ndarray, B: np.ndarray) -> np.ndarray:
    """``B Q``: the columns of B turned so that data with covariance S vary most along the first, and are uncorrelated.

    Distances after the map are unchanged. Signs: the largest entry of a column is positive.
    """
    _, Q = eigh(B.T @ S @ B)
    turned = B @ Q[:, ::-1]
    largest = np.abs(turned).argmax(axis=0)
    signs = np.where(turned[largest, np.arange(turned.shape[1])] < 0, -1.0, 1.0)
    return turned * signs
