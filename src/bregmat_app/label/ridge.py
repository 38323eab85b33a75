"""Scores of the points for each group, by kernel ridge regression from the points of many answers."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

LEAST_ANSWERED = 10  # points a group, on average, from which there are scores
MOST_ANSWERED = 500  # points that are regressed on; others are left out, so that a question does not take longer
RIDGE = 0.1  # added to the diagonal of the kernel matrix, which is 1
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the kernel, relative to the median squared distance of the answered points
TINY = 1e-300  # avoids a division by zero if all answered points coincide


def has_many(chosen: list[list[int]]) -> bool:
    """Tell whether there are two groups or more, and enough points of them for :func:`scores`."""
    return len(chosen) > 1 and sum(map(len, chosen)) >= LEAST_ANSWERED * len(chosen)


def scores(first: np.ndarray, chosen: list[list[int]], some: np.ndarray) -> np.ndarray:
    """Return a score of each point for each group, shape (len(some), len(chosen)).

    The scores are ``k(z, G) (K + r I)^-1 (Y - m) + m`` with the points G of the groups, their one-hot labels Y, the mean m of Y and
    the kernel ``exp(-||z - g||^2 / w)``. The width w has the smallest sum of squared leave-one-out residuals.

    Notes
    -----
    The distances are those of the prior. The learned metric has been fitted to the same answers, so the residuals of its answered
    points say little about the others. With it, ionosphere needed 71 answers for an NMI of 0.8 instead of 64 (four draws).

    Parameters
    ----------
    first : ndarray, shape (n, d)
        Points of which the Euclidean distances are those of the prior.
    chosen : list of list of int
        Points of each group.
    some : ndarray of int
        Points to score.
    """
    given = np.concatenate(chosen)
    code = np.repeat(np.arange(len(chosen)), [len(members) for members in chosen])
    kept = np.random.default_rng(0).permutation(len(given))[:MOST_ANSWERED]
    given, code = given[kept], code[kept]
    Y = np.eye(len(chosen))[code]
    mean = Y.mean(axis=0)
    sq = cdist(first[given], first[given], "sqeuclidean")
    median = max(float(np.median(sq)), TINY)
    found = []
    for width in WIDTHS:
        inverse = _inverse(np.exp(-sq / (width * median)))
        A = inverse @ (Y - mean)
        # The residual of a point that is left out is A_i / inverse_ii.
        found.append((float(((A / np.diag(inverse)[:, None]) ** 2).sum()), width, A))
    _, width, A = min(found, key=lambda item: item[0])
    return np.exp(-cdist(first[some], first[given], "sqeuclidean") / (width * median)) @ A + mean


def _inverse(K: np.ndarray) -> np.ndarray:
    """Return ``(K + RIDGE I)^-1``."""
    n = len(K)
    return cho_solve(cho_factor(K + RIDGE * np.eye(n)), np.eye(n))
