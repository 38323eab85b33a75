"""Convex quadratics in a box: projected conjugate gradients on the free rows, and block principal pivoting.

``minimize q . d + d' H d / 2`` over ``lower <= d <= upper`` with ``H = A (Psi o A* .) + diag(slope)``, the second-order
model of a dual bound; H is known by its products only.

Block principal pivoting finds the exact active set with a few factorisations. It is for quadratics on which conjugate gradients are
slow: nearly dependent rows, heavy slack. All variables that violate their optimality condition change sides at once; if their number
does not fall, one changes at a time, which terminates (Judice and Pires 1994; Kim and Park 2011 for least squares).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bregmat.base.linalg import cholesky, cholesky_solve, conjugate_gradients
from bregmat.base.pivoting import Exchanges, pivot_in_box
from bregmat.operators.linear_maps import Operator


@dataclass(frozen=True, eq=False)
class Model:
    """Hessian of ``-g`` in the frame of an iterate.

    Attributes
    ----------
    operator : Operator
        Rows in the frame, in the precision of the products.
    weight : ndarray, shape (r, r), or None
        Divided differences Psi of the inverse link; None for 1.
    slope : ndarray, shape (c,)
        Second derivative of the conjugate losses and the proximal term.
    diagonal : ndarray, shape (c,)
        Diagonal of H, or an upper bound of it: the preconditioner, and the weight of every norm here.
    flat : float
        Curvature, relative to the diagonal, below which a direction is flat: the rounding of the products.
    """

    operator: Operator
    weight: np.ndarray | None
    slope: np.ndarray
    diagonal: np.ndarray
    dtype: type
    flat: float

    def product(self, v: np.ndarray) -> np.ndarray:
        """``H v``."""
        X = self.operator.adjoint(v.astype(self.dtype, copy=False))
        if self.weight is not None:
            X *= self.weight
        return self.operator.values(X).astype(float, copy=False) + self.slope * v

    def restrict(self, free: np.ndarray) -> Model:
        """The model on some of the rows."""
        rows = np.flatnonzero(free)
        return replace(
            self, operator=self.operator.restrict(rows), slope=self.slope[rows], diagonal=self.diagonal[rows]
        )

    def projected_norm(self, q: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
        """Length of the projected scaled gradient step from 0, in the norm of the diagonal."""
        move = np.minimum(np.maximum(-q / self.diagonal, lower), upper)
        return float(np.sqrt(move @ (self.diagonal * move)))


def minimize_in_box(
    model: Model,
    gradient: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    partner: np.ndarray,
    *,
    reduction: float,
    rounds: int,
    cg_steps: int,
) -> tuple[np.ndarray, np.ndarray, bool]:
    """An approximate minimiser d, ``H d``, and whether the reduction was reached.

    A model of LogDet without bounds and with few rows is factorised. Otherwise each round solves on the free rows by conjugate gradients,
    projects, and searches along the projected direction. If the generalised Cauchy point is better, it is taken instead: duplicate and
    dependent rows make H singular.

    Parameters
    ----------
    lower, upper : ndarray, shape (c,)
        Box of d; contains 0.
    partner : ndarray of int, shape (m, 2)
        Opposite rows with the same matrix (an interval): a "<=" row, whose weight is 0 at ``lower``, then a ">=" row, whose weight
        is 0 at ``upper``. Only one weight of each pair is nonzero at a time; the two together are a flat direction.
    reduction : float
        Stops when the projected gradient has fallen by this factor; dimensionless.
    """
    op = model.operator
    # whether the Gram matrix of all rows and its factor cost less than four products with H
    is_quick = float(op.c) ** 2 * (op.r + op.c / 3) <= 4.0 * op.product_flops()
    is_plain = op.is_rank_one and model.weight is None
    if is_plain and is_quick and np.isinf(lower).all() and np.isinf(upper).all():
        exact = _solve(model, np.arange(len(gradient)), -gradient)
        if exact is not None:
            return exact, model.product(exact), True
    d, q = np.zeros_like(gradient), gradient.copy()
    first = model.projected_norm(q, lower, upper)
    reached = False
    for _ in range(rounds):
        lo, hi = lower - d, upper - d
        if len(partner):  # the row of each interval is fixed whose partner has a nonzero weight
            above, below = partner.T
            up, down = lo[above] < 0, hi[below] > 0
            lo[below[up]] = np.minimum(hi[below[up]], 0.0)
            hi[above[down]] = np.maximum(lo[above[down]], 0.0)
        # rows at a bound whose gradient points out of the box stay there
        free = ~(((lo >= 0) & (q > 0)) | ((hi <= 0) & (q < 0)))
        if not free.any():
            break
        is_whole = free.mean() > 0.8  # then products with all rows cost less than copies of the free ones
        inner, part = (model, slice(None)) if is_whole else (model.restrict(free), free)
        s = np.zeros_like(d)
        target = 0.5 * reduction * first
        s[part] = _solve_on_free(inner, np.where(free, -q, 0.0)[part], free[part], lo[part], hi[part], target, cg_steps)
        e, He = _projected_search(model, q, s, lo, hi)
        # decrease of the model q . e + e' H e / 2
        gain = -(q @ e + 0.5 * (e @ He))
        if gain < 1e-3 * model.projected_norm(q, lo, hi) ** 2:
            e, He, gain = _cauchy(model, q, lo, hi, (e, He, gain))
        if not gain > 0:
            break
        d, q = d + e, q + He
        reached = model.projected_norm(q, lower - d, upper - d) <= reduction * first
        if reached:
            break
    return d, q - gradient, reached


def _solve_on_free(
    model: Model, b: np.ndarray, free: np.ndarray, lo: np.ndarray, hi: np.ndarray, target: float, max_products: int
) -> np.ndarray:
    """``H s = b`` on the free rows, preconditioned by the diagonal; stops early where many rows leave the box."""
    D = model.diagonal
    whole = bool(free.all())

    def product(v: np.ndarray) -> np.ndarray:
        return model.product(v) if whole else np.where(free, model.product(v), 0.0)

    def is_flat(v: np.ndarray, curvature: float) -> bool:
        return curvature <= model.flat * float(v @ (D * v))

    def blocked(steps: int, s: np.ndarray, v: np.ndarray, curvature: float, rz: float) -> bool:
        if is_flat(v, curvature):
            return True
        if steps % 3 < 2:  # the box is looked at every third step
            return False
        moved = s + rz / curvature * v
        return bool(((moved < lo) | (moved > hi)).sum() > 0.1 * free.sum())

    end = conjugate_gradients(
        product, b, goal=max(target, 0.0), max_iter=max_products, precondition=lambda r: r / D, blocked=blocked
    )
    if end.direction is None or is_flat(end.direction, end.curvature):
        return end.x
    return end.x + end.rho / end.curvature * end.direction


def _projected_search(
    model: Model, q: np.ndarray, s: np.ndarray, lo: np.ndarray, hi: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Search along the projected path of s for a sufficient decrease; else the best point of a chord from 0 to the path."""
    best, best_gain = (np.zeros_like(q), np.zeros_like(q)), 0.0
    for alpha in (1.0, 0.3, 0.1, 0.01):
        e = np.minimum(np.maximum(alpha * s, lo), hi)
        H, slope, curvature, t, gain = _along(model, q, e)
        if not slope < 0:
            continue
        if slope + 0.5 * curvature <= 0.1 * slope:
            return e, H
        if gain > best_gain:
            best, best_gain = (t * e, t * H), gain
    return best


def _along(model: Model, q: np.ndarray, e: np.ndarray) -> tuple[np.ndarray, float, float, float, float]:
    """``H e``, slope and curvature along e, and the best t in [0, 1] with its gain, meaningful for a negative slope."""
    H = model.product(e)
    slope, curvature = float(q @ e), float(e @ H)
    # minimiser of t slope + t^2 curvature / 2 on [0, 1]
    t = -slope / curvature if slope < 0 < slope + curvature else 1.0
    return H, slope, curvature, t, -(t * slope + 0.5 * t * t * curvature)


def _cauchy(
    model: Model, q: np.ndarray, lo: np.ndarray, hi: np.ndarray, best: tuple[np.ndarray, np.ndarray, float]
) -> tuple[np.ndarray, np.ndarray, float]:
    """The generalised Cauchy point: projected gradient steps that grow while they gain; or the given step if that is better."""
    length = 1.0
    for _ in range(8):
        e = np.minimum(np.maximum(-length * q / model.diagonal, lo), hi)
        H, slope, _, t, gain = _along(model, q, e)
        if not slope < 0:
            break
        if gain > best[2]:
            best = (t * e, t * H, gain)
        if t < 1.0 or gain < best[2]:
            break
        length *= 8.0
    return best


# ---------------------------------------------------------------------- block principal pivoting
def flops(model: Model, free: int) -> float:
    """Operations of one factorisation over this many free rows."""
    n = model.operator.r * (model.operator.r + 1) / 2  # entries of a symmetric matrix
    if free > n:
        return n * n * free
    return free**3 / 3 + (free * free * n if model.weight is not None else 0.0)


def minimize_exactly(
    model: Model, gradient: np.ndarray, lower: np.ndarray, upper: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """The minimiser of ``gradient . d + d' H d / 2`` over the box, or the best point on the way.

    Parameters
    ----------
    start : ndarray, shape (c,)
        A point of the box; the rows at their bounds are the first guess of the active set.
    """
    flops_limit = 3e9  # of one factorisation: about a tenth of a second
    # gradients below these shares of the largest entries of the linear term and of H d are rounding
    noise = 1e-9, 1e-13
    side = np.where(start <= lower, -1, np.where(start >= upper, 1, 0))
    best, value = start, float(gradient @ start + 0.5 * (start @ model.product(start)))

    def solve(free: np.ndarray, b: np.ndarray) -> np.ndarray | None:
        return None if flops(model, len(free)) > flops_limit else _solve(model, free, b)

    def watch(d: np.ndarray, H: np.ndarray) -> None:
        nonlocal best, value
        inside = np.minimum(np.maximum(d, lower), upper)
        H_inside = H if (inside == d).all() else model.product(inside)
        new = float(gradient @ inside + 0.5 * (inside @ H_inside))
        if new < value:
            best, value = inside, new

    exchanges, unit = Exchanges(patience=4), 1.0 / np.sqrt(model.diagonal)
    pivot_in_box(solve, model.product, gradient, lower, upper, side, exchanges, unit=unit, noise=noise, watch=watch)
    return best


def _solve(model: Model, free: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """``H x = b`` on the free rows, by a matrix of order |free| or, if that is smaller, of order r (r + 1) / 2."""
    # scaled by the root of the diagonal D: (D^-1/2 H D^-1/2) (D^1/2 x) = D^-1/2 b
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
    # H = Phi Phi' + diag(slope), so by Woodbury's formula, with w = 1 / slope:
    # H^-1 = w - w Phi (I + Phi' w Phi)^-1 Phi' w
    Phi = X.features(S) * unit[:, None]
    weight = 1.0 / slope
    P = Phi * np.sqrt(weight)[:, None]
    K = P.T @ P
    K[np.diag_indices_from(K)] += 1.0
    C, ok = cholesky(K)
    if not ok:
        return None
    x, rest = np.zeros_like(b), b
    for _ in range(3):  # iterative refinement, since the weights 1 / slope of hard rows are large
        x = x + weight * (rest - Phi @ cholesky_solve(C, Phi.T @ (weight * rest)))
        rest = b - Phi @ (Phi.T @ x) - slope * x
    return x * unit
