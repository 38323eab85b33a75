"""The interior-point method's linear system ``d . y + A(S o S o A*(y)) = rhs`` with one matrix and several right-hand sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bregmat.linalg import add_diagonal, cholesky, cholesky_solve, symmetrize
from bregmat.numerics import conjugate_gradients
from bregmat.operators import Operator, smat, svec
from bregmat.solvers.newton_system import FourthMoment

DIRECT_FLOPS = 2e10  # below this the matrix is factorised
MOST_FLOPS = 2e11  # below this it is, where conjugate gradients took longer the last time


@dataclass(frozen=True, eq=False)
class RowSystem:
    """``diag(d) + A_u (S o S o A_u*)`` with ``A_u = A / u``.

    Fewer rows than entries of a matrix: factorised as it is. More: ``E + S o A*(h . A(S o E)) = S o A*(h . rhs)``,
    ``y = h (rhs - A(S o E))``, ``h = 1 / d``. With fewer rows that would cost y as many digits as h has, and h of an active hard
    row passes 1e9.
    """

    op: Operator
    unit: np.ndarray
    weights: Callable[[np.ndarray], tuple[np.ndarray, int]]  # y and conjugate gradient steps of a right-hand side

    @classmethod
    def build(
        cls, op: Operator, d: np.ndarray, unit: np.ndarray, S: np.ndarray | None, tol: float, effort: int = 0
    ) -> RowSystem:
        """Factorise, or prepare conjugate gradients to the relative residual ``tol``; ``effort`` is how many steps of them
        the last system took."""
        h = 1.0 / d
        weight = h / (unit * unit)
        m = op.r * (op.r + 1) // 2
        flops = float(min(op.c, m)) ** 2 * max(op.c, m)
        is_small = flops <= DIRECT_FLOPS or flops <= min(MOST_FLOPS, effort * 4.0 * op.c * op.r**2)
        direct = _by_gram(op, h, unit, S) if is_small and op.c < m else None
        if direct is not None:
            return cls(op, unit, direct)
        inverse = _by_matrix(op, weight, S) if is_small and op.c >= m else None
        solve = inverse or _by_conjugate_gradients(op, weight, S, tol)

        def weights(rhs: np.ndarray) -> tuple[np.ndarray, int]:
            B = op.adjoint(h * rhs / unit)
            E, steps = solve(B if S is None else S * B)
            return h * (rhs - op.values(E if S is None else S * E) / unit), steps

        return cls(op, unit, weights)

    def solve(self, rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """y, ``-A_u*(y)`` and the number of conjugate gradient steps."""
        y, steps = self.weights(rhs)
        return y, -self.op.adjoint(y / self.unit), steps


def _by_matrix(op: Operator, h: np.ndarray, S: np.ndarray | None):
    m = op.r * (op.r + 1) // 2
    H = np.zeros((m, m))
    block = max(m, 2**23 // m)  # rows at a time: never more than the matrix itself
    for first in range(0, op.c, block):
        rows = np.arange(first, min(first + block, op.c))
        Phi = op.restrict(rows).features(S)
        Phi *= np.sqrt(h[rows])[:, None]
        H += Phi.T @ Phi
    C, ok = cholesky(add_diagonal(H, 1.0))
    return (lambda B: (smat(cholesky_solve(C, svec(B)), op.r), 0)) if ok else None


def _by_gram(op: Operator, h: np.ndarray, unit: np.ndarray, S: np.ndarray | None):
    root = np.sqrt(h)
    scale = root / unit
    C, ok = cholesky(add_diagonal(scale[:, None] * op.gram(S) * scale, 1.0))
    return (lambda rhs: (root * cholesky_solve(C, root * rhs), 0)) if ok else None


def _by_conjugate_gradients(op: Operator, h: np.ndarray, S: np.ndarray | None, tol: float, max_steps: int = 2000):
    precondition = FourthMoment.of(op, h, S)

    def product(Q: np.ndarray) -> np.ndarray:
        W = op.adjoint(h * op.values(Q if S is None else S * Q))
        return Q + (W if S is None else S * W)

    def inverse(B: np.ndarray) -> tuple[np.ndarray, int]:
        goal = tol * float(np.linalg.norm(B))
        end = conjugate_gradients(product, B, goal=goal, most=max_steps, precondition=precondition, is_euclidean=True)
        return symmetrize(end.x), end.steps

    return inverse
