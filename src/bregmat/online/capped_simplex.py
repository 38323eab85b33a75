"""Weights with a cap: the nearest ones, and what sets of directions they are a mixture of (Warmuth 2006)."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat._kernels import online as kernels
from bregmat.base.checks import as_column


def cap(weights: Any, m: int) -> np.ndarray:
    """Nearest weights in relative entropy with sum one and none above ``1 / m`` (Warmuth 2006: capping).

    Parameters
    ----------
    weights : array-like, shape (n,)
        Positive, of any sum.
    m : int
        1 to n.

    Returns
    -------
    ndarray, shape (n,)
    """
    weights = as_column("weights", weights, positive=True)
    if not 1 <= m <= len(weights):
        raise ValueError(f"m must be from 1 to {len(weights)}, the number of weights; got {m}.")
    order = np.argsort(weights, kind="stable")
    lam = np.log(weights[order])
    kernels.cap_spectrum_inplace(lam, np.empty(len(lam)), m)
    out = np.empty(len(lam))
    out[order] = np.exp(lam)
    return out


def mixture_of_corners(weights: Any, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Write capped weights as a mixture of at most n sets of m, each set having weight ``1 / m`` on its members.

    Parameters
    ----------
    weights : array-like, shape (n,)
        Sum one, from 0 to ``1 / m``; rounding aside.
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
    Warmuth 2006, mixture decomposition: take the m largest, which holds all that are at the cap, with the most
    probability that leaves the rest below its own cap and above 0. Each turn brings a weight to 0 or to the cap, for good.
    """
    w = np.array(weights, dtype=float)
    mass, probabilities, members = float(w.sum()), [], []
    for _ in range(len(w)):
        order = np.argsort(-w, kind="stable")
        smallest, largest_left = w[order[m - 1]], w[order[m]]
        p = min(m * smallest, mass - m * largest_left)
        if not p > 4.0 * len(w) * np.finfo(float).eps:  # what is left is rounding
            break
        w[order[:m]] -= p / m
        if p == m * smallest:
            w[order[m - 1]] = 0.0
        mass -= p
        probabilities.append(p)
        members.append(np.sort(order[:m]))
    return np.array(probabilities) / sum(probabilities), np.array(members)
