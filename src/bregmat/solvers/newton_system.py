"""The linear systems of the Newton and interior-point solvers, over symmetric matrices and over rows.

Both are an identity or a diagonal plus a positive semidefinite map: ``E + S o A*(h . A(S o E)) = B`` and
``d . y + A(S o S o A*(y)) = rhs``. Large systems are solved by preconditioned conjugate gradients (``preconditioners``), with products
in float32 where these are accurate enough. Small ones are factorised; ``mirror_newton`` does so for those over matrices itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from bregmat.base.linalg import add_diagonal, cholesky, cholesky_solve, conjugate_gradients, symmetrize
from bregmat.operators.linear_maps import Operator, smat, svec, weighted_by
from bregmat.solvers.preconditioners import fourth_moment, heavy_block, heavy_rows

SHARED_FLOPS = 2e10  # a factorisation below this costs less than conjugate gradients for several right-hand sides
BLOCK_FLOPS = 3e9  # the same limit if a heavy block can precondition the system instead
MOST_FLOPS = 2e11  # the same limit if conjugate gradients cost more than the factorisation the last time
FEW = 60  # conjugate gradient steps of a Newton system before the heavy block is formed, which costs about as much


@dataclass(frozen=True)
class LinearSolution:
    """Solution, number of conjugate gradient steps (0 for a factorisation) and norm of the residual."""

    E: np.ndarray
    steps: int
    residual: float


# right-hand side, tolerance on the norm of the residual -> solution of E + S o A*(h . A(S o E)) = B
Inverse = Callable[[np.ndarray, float], LinearSolution]
# right-hand side -> y, -A_u*(y), conjugate gradient steps
RowInverse = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, int]]


def row_system(
    op: Operator, d: np.ndarray, unit: np.ndarray, S: np.ndarray | None, tol: float, cg_steps: int = 0
) -> RowInverse:
    """The function that solves ``d . y + A_u(S o S o A_u*(y)) = rhs``, ``A_u = A / u``.

    With fewer rows than entries of a matrix, the system over rows is factorised. Else it is eliminated to the entries:
    ``E + S o A_u*(h . A_u(S o E)) = S o A_u*(h . rhs)``, ``y = h (rhs - A_u(S o E))``, ``h = 1 / d``. With few rows that would cost y
    as many digits as h has, and h of an active hard row exceeds 1e9.

    Parameters
    ----------
    op : Operator
        Rows in the frame of the iterate.
    d, unit : ndarray, shape (c,)
        Positive.
    S : ndarray, shape (r, r), or None
        Local metric; None is 1 everywhere.
    tol : float
        Relative residual of conjugate gradients.
    cg_steps : int
        How many steps of them the last system took.
    """
    h, m = 1.0 / d, op.r * (op.r + 1) // 2
    has_block = op.c >= m and S is not None and op.is_rank_one and not op.is_sharded
    limit = max(BLOCK_FLOPS if has_block else SHARED_FLOPS, min(MOST_FLOPS, cg_steps * op.product_flops()))
    is_small = op.factor_flops() <= limit
    solve = _over_rows(op, h, unit, S) if is_small and op.c < m else None
    if solve is not None:
        return solve
    weight = h / (unit * unit)
    if is_small and op.c >= m:
        C, ok = cholesky(add_diagonal(op.normal_matrix(weight, S), 1.0))
        if ok:

            def inverse(B: np.ndarray, tol: float) -> LinearSolution:
                return LinearSolution(smat(cholesky_solve(C, svec(B)), op.r), 0, 0.0)

            return _over_entries(op, d, unit, S, inverse, tol)
    return _over_entries(op, d, unit, S, _by_relative_gradients(op, weight, S, 2000), tol)


def _over_rows(op: Operator, h: np.ndarray, unit: np.ndarray, S: np.ndarray | None) -> RowInverse | None:
    """``y = h^1/2 (I + h^1/2 A_u (S o S o A_u*) h^1/2)^-1 h^1/2 rhs`` by a Cholesky factorisation of order c; None if that fails."""
    root = np.sqrt(h)
    scale = root / unit
    C, ok = cholesky(add_diagonal(scale[:, None] * op.gram(S) * scale, 1.0))
    if not ok:
        return None

    def solve(rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        y = root * cholesky_solve(C, root * rhs)
        return y, -op.adjoint(y / unit), 0

    return solve


def _over_entries(
    op: Operator, d: np.ndarray, unit: np.ndarray, S: np.ndarray | None, inverse: Inverse, tol: float
) -> RowInverse:
    """Eliminate the rows, solve over entries, and refine iteratively, because the residual over rows is large if h is large."""
    refinements, finer = 4, 1e-3  # finer: one long run of conjugate gradients costs less than two
    h = 1.0 / d

    metric = partial(weighted_by, S)

    def solve(rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        y, left, steps, worst = np.zeros(op.c), rhs, 0, np.inf
        for k in range(refinements):
            solution = inverse(metric(op.adjoint(h * left / unit)), finer * tol)
            steps += solution.steps
            # y + h (left - A_u(S o E)), and its residual rhs - d y - A_u(S o S o A_u*(y))
            new = y + h * (left - op.values(metric(solution.E)) / unit)
            left = rhs - d * new - op.values(metric(metric(op.adjoint(new / unit)))) / unit
            residual = float(np.abs(left).max(initial=0.0))
            if k > 0 and not residual < worst:
                break
            y, worst = new, residual
            if not worst > tol * float(np.abs(rhs).max(initial=0.0)):
                break
        return y, -op.adjoint(y / unit), steps

    return solve


# ---------------------------------------------------------------------- conjugate gradients
def _product(op: Operator, h: np.ndarray, S: np.ndarray | None, single: bool) -> Callable[[np.ndarray], np.ndarray]:
    """``E -> E + S o A*(h . A(S o E))``; with ``single``, A and its adjoint are taken of float32 matrices of size 1."""
    weighted = op.weighted(h)

    def product(E: np.ndarray) -> np.ndarray:
        X = weighted_by(S, E)
        if single:
            size = float(np.abs(X).max())
            W = size * weighted((X / size).astype(np.float32)).astype(np.float64)
        else:
            W = weighted(X)
        return E + weighted_by(S, W)

    return product


def _by_relative_gradients(op: Operator, h: np.ndarray, S: np.ndarray | None, max_products: int) -> Inverse:
    """Conjugate gradients with a relative tolerance in the norm of the preconditioner.

    That norm is near the one of the inverse of the system: an entry of the residual counts for its effect on the solution, however
    heavy other entries are.
    """
    precondition = heavy_rows(op, h, S) or heavy_block(op, h, S) or fourth_moment(op, h, S)
    product = _product(op, h, S, False)

    def solve(B: np.ndarray, tol: float) -> LinearSolution:
        near = B if precondition is None else precondition(B)
        goal = tol * float(np.sqrt(max(np.vdot(B, near), 0.0)))
        end = conjugate_gradients(product, B, goal=goal, max_iter=max_products, precondition=precondition)
        return LinearSolution(symmetrize(end.x), end.steps, end.norm)

    return solve


def by_euclidean_gradients(
    op: Operator,
    h: np.ndarray,
    S: np.ndarray | None,
    B: np.ndarray,
    tol: float,
    max_products: int,
    single: bool,
    rough: tuple[Operator, np.ndarray] | None,
) -> LinearSolution:
    """Conjugate gradients, absolute tolerance on the Frobenius norm; with a metric, a heavy block preconditions after ``FEW`` steps.

    Parameters
    ----------
    op, h, S, B, tol, single, rough
        As in :func:`bregmat.solvers.mirror_newton.solve_newton_system`.
    max_products : int
        Limit on steps.
    """
    whole = (op, h, S)
    if single:
        op, h = op.astype(np.float32), h.astype(np.float32)
    light = fourth_moment(*(rough or (op, h)), S)
    product = _product(op, h, S, single)
    first = max_products if S is None else min(FEW, max_products)
    end = conjugate_gradients(product, B, goal=tol, max_iter=first, precondition=light, is_euclidean=True)
    if end.norm <= tol or max_products <= first:
        return LinearSolution(symmetrize(end.x), end.steps, end.norm)
    precondition = heavy_block(*whole) or light
    more = conjugate_gradients(
        product, end.residual, goal=tol, max_iter=max_products - end.steps, precondition=precondition, is_euclidean=True
    )
    return LinearSolution(symmetrize(end.x + more.x), end.steps + more.steps, more.norm)
