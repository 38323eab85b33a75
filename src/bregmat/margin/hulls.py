"""Whether the convex hulls of two classes meet, in rational arithmetic: rounding can neither prove nor refute it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import scipy

from bregmat.kernels import KernelSource

MOST = 100_000  # coordinates times squared weights: rational elimination takes a second or two


def coinciding(
    kernel: KernelSource, signs: np.ndarray, counts: np.ndarray, weight: np.ndarray, *, intercept: bool
) -> np.ndarray | None:
    """Weights of two points of the classes' hulls that coincide, shape (n,), rounded; None where none are found.

    A sample that both classes have is such a point. Else nonnegative least squares choose a few samples with
    ``sum_i weight_i signs_i phi_i = 0``, and rational elimination solves for their weights, which are exactly nonnegative.

    Parameters
    ----------
    kernel : KernelSource
    signs : ndarray, shape (n,)
    counts : ndarray, shape (n,), bool
        The samples that the classes consist of.
    weight : ndarray, shape (n,)
        Positive for the samples that least squares choose from.
    intercept : bool
        Whether the weights of each class sum to 1; else all weights do, and one of the points is the origin.
    """
    exact = np.zeros(len(weight))
    rows = np.flatnonzero(counts if kernel.given is None else weight > 0)  # rows of a matrix are long
    code = np.unique(kernel.exact(rows)[0] + 0.0, axis=0, return_inverse=True)[1].ravel()  # + 0.0: zeros have no sign
    shared, first, second = np.intersect1d(code[signs[rows] > 0], code[signs[rows] < 0], return_indices=True)
    if len(shared):
        pair = [rows[signs[rows] > 0][first[0]], rows[signs[rows] < 0][second[0]]]
        exact[pair] = 1.0 if intercept else 0.5
        return exact
    rows = np.flatnonzero(weight > 0)
    P, is_linear = kernel.exact(rows)
    if not is_linear:
        return None
    P = P[:, P.any(axis=0)].astype(float)
    sums = [np.ones(len(rows)), signs[rows]] if intercept else [np.ones(len(rows))]
    values = np.r_[np.zeros(P.shape[1]), [2.0, 0.0] if intercept else 1.0]
    try:
        near = scipy.optimize.nnls(np.vstack([signs[rows] * (P / np.abs(P).max(axis=0)).T, *sums]), values)[0]
    except RuntimeError:  # too many steps
        return None
    on = np.flatnonzero(near)
    if P.shape[1] * len(on) ** 2 > MOST:
        return None
    found = _solution(np.vstack([signs[rows] * P.T, *sums])[:, on], values, near[on])
    if found is None or min(found) < 0:
        return None
    exact[rows[on]] = [float(value) for value in found]
    return exact


def _solution(M: np.ndarray, values: np.ndarray, near: np.ndarray) -> list[Fraction] | None:
    """A solution of ``M x = values`` in fractions, with the entries ``near`` where x is not determined; None where there is none."""
    rows = [[Fraction(float(v)) for v in (*row, value)] for row, value in zip(M, values, strict=True)]
    x = [Fraction(float(v)) for v in near]
    pivots: list[int] = []
    for column in range(len(x)):
        at = len(pivots)
        chosen = next((k for k in range(at, len(rows)) if rows[k][column]), None)
        if chosen is None:
            continue
        rows[at], rows[chosen] = rows[chosen], rows[at]
        rows[at] = [v / rows[at][column] for v in rows[at]]
        for k, row in enumerate(rows):
            if k != at and row[column]:
                rows[k] = [v - row[column] * p for v, p in zip(row, rows[at], strict=True)]
        pivots.append(column)
    if any(row[-1] for row in rows[len(pivots) :]):
        return None
    free = [k for k in range(len(x)) if k not in pivots]
    for row, column in zip(rows, pivots, strict=False):
        x[column] = row[-1] - sum((row[k] * x[k] for k in free), Fraction(0))
    return x
