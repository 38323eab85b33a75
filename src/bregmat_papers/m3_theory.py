"""Theorem 2 of Sha, Saul and Lee 2002: how fast coefficients of non-support vectors vanish."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bregmat.quadratic.updates import factors, positive_negative


@dataclass(frozen=True, eq=False)
class DecayBounds:
    """Rates of decay and their bounds, one for every training point; those of support vectors mean nothing.

    Attributes
    ----------
    rate : ndarray, shape (n,)
        ``gamma_i`` (eq. 8): the factor that a small coefficient is multiplied by at each step; dimensionless.
    bound : ndarray, shape (n,)
        The right side of eq. 9.
    non_support : ndarray of bool, shape (n,)
        Where the coefficient is zero and the theorem speaks.
    distance, length : ndarray, shape (n,)
        ``d_i`` from the hyperplane and ``l_i`` from the origin, in feature space.
    margin : float
        ``d``, the one-sided margin of the classifier.
    """

    rate: np.ndarray
    bound: np.ndarray
    non_support: np.ndarray
    distance: np.ndarray
    length: np.ndarray
    margin: float


def decay_bounds(K: np.ndarray, y: np.ndarray, alpha: np.ndarray, *, threshold: float = 0.0) -> DecayBounds:
    """Theorem 2 for a hard-margin machine through the origin: ``gamma_i <= 1 / (1 + (d_i - d) d / (2 l_i l))`` (eq. 8 and 9).

    True for every kernel and loose for most: a way to see which points the updates forget quickly, not one to remove them.

    Parameters
    ----------
    K : ndarray, shape (n, n)
        Kernel of the training points, positive semidefinite, in any units: the bounds do not change with its scale.
    y : ndarray of +-1, shape (n,)
    alpha : ndarray, shape (n,)
        The solution. The theorem holds at the optimum, and its margin is that of the solution's normal vector.
    threshold : float
        Coefficients at most this are taken for zero.

    Raises
    ------
    ValueError
        If ``alpha`` is zero, which is the solution of no such machine.

    Notes
    -----
    Source: Sha 2002, section 3.3 and Appendix B. A point at the origin of the feature space has ``l_i = 0`` and never
    occurs among separable points. Cost: one pass over the kernel.
    """
    positive, negative = positive_negative(K * np.outer(y, y), np.asarray(alpha, dtype=float))
    values = positive - negative  # y_i K(x_i, w)
    sq_norm = float(alpha @ values)  # K(w, w)
    if not sq_norm > 0:
        raise ValueError(f"alpha must describe a hyperplane; its normal vector has squared length {sq_norm}.")
    distance, margin = np.abs(values) / np.sqrt(sq_norm), 1.0 / np.sqrt(sq_norm)
    length = np.sqrt(K.diagonal())
    rate = factors(np.full(len(values), -1.0), positive=positive, negative=negative)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = 1.0 / (1.0 + 0.5 * (distance - margin) * margin / (length * length.max()))
    return DecayBounds(rate, bound, np.asarray(alpha) <= threshold, distance, length, float(margin))
