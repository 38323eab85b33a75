"""The map: the first two principal components of the points in the learned metric, rotated to match the previous map."""

from __future__ import annotations

import numpy as np

from bregmat.base.linalg import eigh


def plane(covariance: np.ndarray, learned: np.ndarray, before: np.ndarray | None) -> np.ndarray:
    """Return the linear map of points to the plane, shape (d, 2).

    The principal components of ``X @ learned`` depend on X through its covariance only. So does the rotation or reflection R that
    brings the mapped points nearest to their previous positions (orthogonal Procrustes problem): ``min_R |X A R - X A_before|``.

    Parameters
    ----------
    covariance : ndarray, shape (d, d)
    learned : ndarray, shape (d, r)
    before : ndarray, shape (d, 2), optional
        The previous map.
    """
    vectors = eigh(learned.T @ covariance @ learned)[1][:, ::-1][:, :2]
    A = learned @ vectors
    if A.shape[1] < 2:
        A = np.hstack([A, np.zeros((len(A), 2 - A.shape[1]))])
    if before is None:
        return A * np.where(A[np.abs(A).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    U, _, Vt = np.linalg.svd(A.T @ covariance @ before)
    return A @ (U @ Vt)
