"""The map: two leading principal components of the points in the learned metric, turned to lie on the map before."""

from __future__ import annotations

import numpy as np

from bregmat.base.linalg import eigh


def plane(covariance: np.ndarray, learned: np.ndarray, before: np.ndarray | None) -> np.ndarray:
    """The linear map of points to the plane, shape (d, 2).

    The principal components of ``X @ learned`` follow from the covariance of X alone, and so does the rotation (or reflection) by
    which the mapped points come nearest to where they were: Procrustes, ``min_R |X A R - X A_before|`` over orthogonal R.

    Parameters
    ----------
    covariance : ndarray, shape (d, d)
    learned : ndarray, shape (d, r)
    before : ndarray, shape (d, 2), optional
        The map before.
    """
    vectors = eigh(learned.T @ covariance @ learned)[1][:, ::-1][:, :2]
    A = learned @ vectors
    if A.shape[1] < 2:
        A = np.hstack([A, np.zeros((len(A), 2 - A.shape[1]))])
    if before is None:
        return A * np.where(A[np.abs(A).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    U, _, Vt = np.linalg.svd(A.T @ covariance @ before)
    return A @ (U @ Vt)
