"""Strictly convex quadratics in a box by block principal pivoting: exact active sets from a handful of factorisations.

For quadratics on which conjugate gradients are slow: nearly dependent rows, heavy slack. All rows on the wrong side of
their conditions change sides at once; where that does not help, one at a time, which ends (Judice and Pires 1994;
Kim and Park 2011 for least squares).
"""

from __future__ import annotations

import numpy as np

from bregmat.linalg import cholesky, cholesky_solve
from bregmat.numerics import Exchanges, pivot_in_box
from bregmat.solvers.box_qp import Model

NOISE = (
    1e-9,
    1e-13,
)  # gradients below these multiples of the largest entries of the linear term and of H d are rounding
FLOPS = 3e9  # limit of one factorisation: about a tenth of a second


def flops(model: Model, free: int) -> float:
    """Operations of one factorisation over this many free rows."""
    n = model.operator.r * (model.operator.r + 1) / 2
    if free > n:
        return n * n * free
    return free**3 / 3 + (free * free * n if model.weight is not None else 0.0)


def minimize_exactly(
    model: Model, gradient: np.ndarray, lower: np.ndarray, upper: np.ndarray, start: np.ndarray, *, most: int = 60
) -> np.ndarray:
    """The minimiser of ``gradient . d + d' H d / 2`` over the box, or the best point met.

    Parameters
    ----------
    start : ndarray, shape (c,)
        A point of the box; the rows at their bounds are the first guess of the active set.
    most : int
        Limit on factorisations.
    """
    side = np.where(start <= lower, -1, np.where(start >= upper, 1, 0))
    best, value = start, float(gradient @ start + 0.5 * (start @ model.product(start)))

    def solve(free: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        return None if flops(model, len(free)) > FLOPS else _solve(model, free, b)

    def watch(d: np.ndarray, H: np.ndarray) -> None:
        nonlocal best, value
        inside = np.minimum(np.maximum(d, lower), upper)
        H_inside = H if (inside == d).all() else model.product(inside)
        new = float(gradient @ inside + 0.5 * (inside @ H_inside))
        if new < value:
            best, value = inside, new

    exchanges, unit = Exchanges(patience=4), 1.0 / np.sqrt(model.diagonal)
    pivot_in_box(
        solve, model.product, gradient, lower, upper, side, exchanges, unit=unit, noise=NOISE, most=most, watch=watch
    )
    return best


def _solve(model: Model, free: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """``H x = b`` on the free rows, by the matrix of order |free| or, where it is smaller, of order r (r + 1) / 2."""
    X = model.operator.restrict(free).astype(np.float64)
    unit, slope = 1.0 / np.sqrt(model.diagonal[free]), model.slope[free] / model.diagonal[free]
    S = None if model.weight is None else np.sqrt(model.weight.astype(float))
    n = X.r * (X.r + 1) // 2
    b = b * unit
    if len(free) <= n:
        K = X.gram(S) * unit * unit[:, None]
        K[np.diag_indices_from(K)] += slope
        C, ok = cholesky(K)
        return cholesky_solve(C, b) * unit if ok else None
    Phi = X.features(S) * unit[:, None]
    weight = 1.0 / slope
    P = Phi * np.sqrt(weight)[:, None]
    K = P.T @ P
    K[np.diag_indices_from(K)] += 1.0
    C, ok = cholesky(K)
    if not ok:
        return None
    x, rest = np.zeros_like(b), b
    for _ in range(3):  # refinement: the weights of hard rows are large
        x = x + weight * (rest - Phi @ cholesky_solve(C, Phi.T @ (weight * rest)))
        rest = b - Phi @ (Phi.T @ x) - slope * x
    return x * unit
