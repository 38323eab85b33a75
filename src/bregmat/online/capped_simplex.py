"""Capped weights as a mixture of sets of directions (Warmuth 2006)."""

from __future__ import annotations

from typing import Any

import numpy as np


def mixture_of_corners(weights: Any, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Write capped weights as a mixture of at most n sets of m members each, with the weight ``1 / m`` on every member.

    Parameters
    ----------
    weights : array-like, shape (n,)
        From 0 to ``1 / m``, with the sum one, up to rounding.
    m : int
        1 to n - 1.

    Returns
    -------
    probabilities : ndarray, shape (q,)
        Positive, sum one.
    members : ndarray of int, shape (q, m)
        ``weights[i] = sum of probabilities[members holds i] / m``.

    Notes
    -----
    Warmuth 2006, mixture decomposition. Each step takes the set of the m largest weights, which contains all weights at the cap, with the
    largest probability p that keeps the remaining weights between 0 and their cap ``mass / m``. Then one more weight is 0 or at the cap,
    and stays there.
    """
    w = np.array(weights, dtype=float)
    mass, probabilities, members = float(w.sum()), [], []
    for _ in range(len(w)):
        order = np.argsort(-w, kind="stable")
        smallest, largest_left = w[order[m - 1]], w[order[m]]
        # w_i - p / m >= 0 within the set, and w_i <= (mass - p) / m outside
        p = min(m * smallest, mass - m * largest_left)
        if not p > 4.0 * len(w) * np.finfo(float).eps:  # the remaining weights are rounding errors
            break
        w[order[:m]] -= p / m
        if p == m * smallest:
            w[order[m - 1]] = 0.0  # exactly
        mass -= p
        probabilities.append(p)
        members.append(np.sort(order[:m]))
    return np.array(probabilities) / sum(probabilities), np.array(members)
