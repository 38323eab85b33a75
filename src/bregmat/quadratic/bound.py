"""Lower bounds of a nonnegative quadratic program that are proofs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bregmat.quadratic.problem import NonnegativeQP


def lower_bound(
    problem: NonnegativeQP,
    x: np.ndarray,
    multiplier: np.ndarray,
    directions: Iterable[tuple[np.ndarray, np.ndarray | None]] = (),
    *,
    product: np.ndarray | None = None,
    precise: bool = False,
) -> float:
    """A number that the objective is nowhere below, from any point and any multipliers of the equality.

    With ``h = A z + b + E' multiplier``, convexity gives for every point of the problem, and for every z,
    ``F >= -1/2 z'Az - multiplier'e + sum_i u_i min(0, h_i)``, where ``h_i >= 0`` is needed on variables without an
    upper bound. ``z = x`` has ``h_i < 0`` by rounding, if not by more; so z = x + delta w, with the smallest delta that
    makes ``h_i`` at least the rounding error of its computation on every variable that is not at its upper bound.

    Parameters
    ----------
    problem : NonnegativeQP
        A is taken to be positive semidefinite.
    x : ndarray, shape (n,)
        Any point, usually near the solution.
    multiplier : ndarray, shape (m,)
    directions : iterable of pairs of ndarray, shape (n,)
        Candidates for w, and their products A w where they are known (else None), tried in turn until one works; the best have
        ``A w > 0`` where h is too small, such as ``A_FF^-1 1`` on the free variables.
    product : ndarray, shape (n,), optional
        ``A x``, where it is known.
    precise : bool
        Compute h in extended precision wherever it is or may be negative: for problems whose terms cancel, or with far bounds.

    Returns
    -------
    float
        -inf where no candidate gives a bound.

    Notes
    -----
    Rounding: ``|A| |x|`` is bounded through ``|A_ij|^2 <= A_ii A_jj``. Cost: n^2 for each candidate.
    """
    A, upper = problem.A, problem.bounds
    E, e = problem.rows
    root = np.sqrt(np.maximum(A.diagonal(), 0.0))
    eps = 1.2e-16 * (np.count_nonzero(x) + 4)  # products with zeros are exact
    Ax = A @ x if product is None else product
    h = Ax + problem.b + (multiplier @ E if len(E) else 0.0)
    size = eps * (root * float(root @ np.abs(x)) + np.abs(problem.b))
    if len(E):
        size = size + eps * (np.abs(multiplier) @ np.abs(E))
    if precise:
        doubtful = np.flatnonzero(h < size)
        h[doubtful], size[doubtful] = _extended(problem, x, multiplier, doubtful, size[doubtful] / eps)
    constant = float(multiplier @ e)
    unlimited = np.isinf(upper)
    cap = np.where(unlimited, 0.0, upper)
    direct = -0.5 * float(x @ Ax) - constant + float(cap @ np.minimum(h - size, 0.0))
    need = size - h
    best = -np.inf if (unlimited & (need > 0.0)).any() else direct
    # a bound far above x costs as much as its product with rounding: then it is better not to use it
    loss = -float((cap * np.minimum(h - size, 0.0))[x < upper].sum())
    if best > -np.inf and loss <= 1e-12 * max(abs(direct), float(x @ Ax)):
        return best
    short = (x < upper) & (need > 0.0)
    for w, known in directions:
        if not np.isfinite(w).all():
            continue
        q = A @ w if known is None else known
        low = q - 1.2e-16 * (np.count_nonzero(w) + 4) * root * float(root @ np.abs(w))
        if not (low[short] > 0.0).all():
            continue
        delta = float((need[short] / low[short]).max(initial=0.0)) * (1.0 + 1e-12)
        if (unlimited & (delta * low < need)).any():
            continue
        quadratic = float(x @ Ax) + delta * (2.0 * float(w @ Ax) + delta * float(w @ q))
        raised = np.minimum(h - size + delta * np.minimum(q, low), 0.0)
        return max(best, -0.5 * quadratic - constant + float(cap @ raised))
    return best


def _extended(
    problem: NonnegativeQP, x: np.ndarray, multiplier: np.ndarray, rows: np.ndarray, terms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Some entries of the reduced gradient in extended precision, rounded, and their error; ``terms``: sums of absolute values."""
    long = np.longdouble
    support = np.flatnonzero(x)
    h = problem.A[np.ix_(rows, support)].astype(long) @ x[support].astype(long) + problem.b[rows]
    E = problem.rows[0]
    if len(E):
        h += multiplier.astype(long) @ E[:, rows].astype(long)
    unit = float(np.finfo(long).eps) * (len(support) + len(E) + 4)
    rounded = h.astype(np.float64)
    return rounded, unit * terms + 1.2e-16 * np.abs(rounded)


def perturbed_bound(
    problem: NonnegativeQP, x: np.ndarray, multiplier: np.ndarray, product: np.ndarray, most: float = 1e-12
) -> tuple[float, float]:
    """The bound for b raised where the reduced gradient is too low by rounding, and by how much, relative to max|b|.

    For problems that no shift helps, because a direction ``d >= 0`` with ``A d = 0`` and ``b'd = 0`` leads from optimum to
    optimum: the least change of b downwards makes them unbounded, so that in rounded arithmetic nothing is proven of
    b itself. ``-inf`` where more than ``most`` is missing.
    """
    E, e = problem.rows
    h = product + problem.b + (multiplier @ E if len(E) else 0.0)
    unlimited = np.isinf(problem.bounds)
    # the size of the terms that cancel in h
    root = np.sqrt(np.maximum(problem.A.diagonal(), 0.0))
    terms = root * float(root @ np.abs(x)) + np.abs(problem.b)
    if len(E):
        terms = terms + np.abs(multiplier) @ np.abs(E)
    short = np.where(unlimited, np.maximum(-h, 0.0), 0.0)
    if (short > most * np.maximum(terms, 1e-300)).any():
        return -np.inf, np.inf
    cap = np.where(unlimited, 0.0, problem.bounds)
    value = -0.5 * float(x @ product) - float(multiplier @ e) + float(cap @ np.minimum(h, 0.0))
    scale = float(np.abs(problem.b).max()) or 1.0
    return value, float(short.max()) / scale
