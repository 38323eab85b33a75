"""Convex quadratics in a box by a primal-dual interior point method, with dense factorisations.

For quadratics on which conjugate gradients are slow: nearly dependent rows, heavy slack. Mehrotra's predictor and
corrector (Nocedal and Wright, Numerical Optimization, section 16.6); the matrix of order c is factorised, or that of
order r (r + 1) / 2 where it is smaller.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bregmat.certificates import gram
from bregmat.linalg import cholesky, cholesky_solve
from bregmat.solvers.box_qp import Model

IPMDEBUG = False
FLOPS = 1.5e9  # of one factorisation: about a tenth of a second


def is_affordable(model: Model, c: int) -> bool:
    """Whether an exact solution with c rows that can move takes moderate time and memory."""
    n = model.operator.r * (model.operator.r + 1) / 2
    small, large = min(c, n), max(c, n)
    return small * small * large < FLOPS if c > n else c**3 / 3 < FLOPS and c * c * n < 8 * FLOPS


def minimize_exactly(
    model: Model, gradient: np.ndarray, lower: np.ndarray, upper: np.ndarray, *, most: int = 60
) -> np.ndarray | None:
    """The minimiser of ``gradient . d + d' H d / 2`` over the box, or None where a factorisation fails.

    Rows end exactly at a bound where their multiplier exceeds their distance to it, both in units of the diagonal.
    """
    moving = lower < upper
    part = model if moving.all() else model.restrict(moving)
    unit = 1.0 / np.sqrt(part.diagonal)
    q, lo, hi, slope = gradient[moving] * unit, lower[moving] / unit, upper[moving] / unit, part.slope * unit * unit
    product, solver = _factoriser(part, unit, slope)

    size = max(float(np.abs(q).max(initial=0.0)), 1e-300)
    gap = np.minimum(size, 0.5 * (hi - lo))
    y = np.minimum(np.maximum(0.0, lo + gap), hi - gap)
    curvature = float(y @ product(y))
    s = min(1.0, size * float(np.abs(y).sum()) / curvature) if curvature > 0 else 1.0
    gap = s * gap
    y = np.minimum(np.maximum(0.0, lo + gap), hi - gap)
    has_lo, has_hi = np.isfinite(lo), np.isfinite(hi)
    n_bounds = max(int(has_lo.sum() + has_hi.sum()), 1)
    tau = size * max(float(np.median(gap)), 1e-300)
    alpha, beta = np.where(has_lo, tau / (y - lo), 0.0), np.where(has_hi, tau / (hi - y), 0.0)
    for _ in range(most):
        a, b = np.where(has_lo, y - lo, 1.0), np.where(has_hi, hi - y, 1.0)
        Hq = product(y) + q
        total = float(alpha @ a + beta @ b)
        if IPMDEBUG: print('   ', _, 'rd %.1e total %.1e obj %.12g'%(np.abs(Hq-alpha+beta).max()/size,total,y@(Hq+q)/2), 'W %.1e %.1e'%((alpha/a).max(),(beta/b).max()), size)
        if np.abs(Hq - alpha + beta).max() <= 1e-10 * size and total <= 1e-10 * abs(float(y @ (Hq + q))):
            break
        solve = solver(alpha / a + beta / b)
        if solve is None:
            return None
        dy = solve(-Hq)
        da, db = -alpha - alpha / a * dy, -beta + beta / b * dy
        t = min(1.0, _reach(a, dy), _reach(b, -dy), _reach(alpha, da), _reach(beta, db))
        ahead = float((alpha + t * da) @ (a + t * dy) + (beta + t * db) @ (b - t * dy))
        tau = total / n_bounds * (max(ahead, 0.0) / total) ** 3
        up, down = np.where(has_lo, tau - dy * da, 0.0), np.where(has_hi, tau + dy * db, 0.0)
        dy = solve(-Hq + up / a - down / b)
        da, db = up / a - alpha - alpha / a * dy, down / b - beta + beta / b * dy
        if not np.isfinite(dy).all():
            return None
        t = min(1.0, 0.995 * min(_reach(a, dy), _reach(b, -dy), _reach(alpha, da), _reach(beta, db)))
        y, alpha, beta = y + t * dy, alpha + t * da, beta + t * db
    y = np.where(has_lo & (y - lo < alpha), lo, np.where(has_hi & (hi - y < beta), hi, y))
    d = np.zeros_like(gradient)
    d[moving] = np.minimum(np.maximum(y * unit, lower[moving]), upper[moving])
    return d


def _reach(x: np.ndarray, dx: np.ndarray) -> float:
    """Largest step that keeps x nonnegative."""
    shrinking = dx < 0
    return float((-x[shrinking] / dx[shrinking]).min(initial=np.inf))


def _factoriser(
    model: Model, unit: np.ndarray, slope: np.ndarray
) -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray] | None]]:
    """Products with the scaled H, and for a diagonal W the solver of ``(H + W) x = b``."""
    X = model.operator.astype(np.float64)
    n = X.r * (X.r + 1) // 2
    S = None if model.weight is None else np.sqrt(model.weight.astype(float))
    if X.c <= n:
        G = gram(X) if model.weight is None else _outer(X.features(S))
        H = G * unit * unit[:, None]
        H[np.diag_indices_from(H)] += slope

        def of_order_c(W: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
            K = H.copy()
            K[np.diag_indices_from(K)] += W
            C, ok = cholesky(K)
            return (lambda b: cholesky_solve(C, b)) if ok else None

        return lambda v: H @ v, of_order_c
    Phi = np.ascontiguousarray(X.features(S) * unit[:, None])

    def of_order_n(W: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
        w = 1.0 / (W + slope)
        P = Phi * np.sqrt(w)[:, None]
        K = P.T @ P
        K[np.diag_indices_from(K)] += 1.0
        C, ok = cholesky(K)
        if not ok:
            return None

        def solve(b: np.ndarray) -> np.ndarray:
            x = w * (b - Phi @ cholesky_solve(C, Phi.T @ (w * b)))
            rest = b - Phi @ (Phi.T @ x) - x / w
            return x + w * (rest - Phi @ cholesky_solve(C, Phi.T @ (w * rest)))

        return solve

    return lambda v: Phi @ (Phi.T @ v) + slope * v, of_order_n


def _outer(Phi: np.ndarray) -> np.ndarray:
    return Phi @ Phi.T
