"""The interior-point method's linear system ``d . y + A(S o S o A*(y)) = rhs`` with one matrix and several right-hand sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bregmat.linalg import add_diagonal, cholesky, cholesky_solve
from bregmat.operators import Operator, smat, svec
from bregmat.solvers.cg import FourthMoment, conjugate_gradients

DIRECT_FLOPS = 2e10  # below this the matrix is factorised
MOST_FLOPS = 2e11  # below this it is, where conjugate gradients took longer the last time


@dataclass(frozen=True, eq=False)
class RowSystem:
    """``diag(d) + A_u (S o S o A_u*)`` with ``A_u = A / u``.

    Solved as ``E + S o A*(h . A(S o E)) = S o A*(h . rhs)``, ``y = h (rhs - A(S o E))``, ``h = 1 / d``.
    """

    op: Operator
    h: np.ndarray
    unit: np.ndarray
    S: np.ndarray | None
    inverse: Callable[[np.ndarray], tuple[np.ndarray, int]]

    @classmethod
    def build(
        cls, op: Operator, d: np.ndarray, unit: np.ndarray, S: np.ndarray | None, tol: float, effort: int = 0
    ) -> RowSystem:
        """Factorise, or prepare conjugate gradients to the relative residual ``tol``; ``effort`` is how many steps of them
        the last system took."""
        h = 1.0 / d
        weight = h / (unit * unit)
        m = op.r * (op.r + 1) // 2
        inverse = None
        flops = float(min(op.c, m)) ** 2 * max(op.c, m)
        if flops <= DIRECT_FLOPS or flops <= min(MOST_FLOPS, effort * 4.0 * op.c * op.r**2):
            inverse = _by_matrix(op, weight, S) if m <= op.c else _by_gram(op, weight, S)
        return cls(op, h, unit, S, inverse or _by_conjugate_gradients(op, weight, S, tol))

    def solve(self, rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """y, ``-A_u*(y)`` and the number of conjugate gradient steps."""
        B = self.op.adjoint(self.h * rhs / self.unit)
        E, steps = self.inverse(B if self.S is None else self.S * B)
        y = self.h * (rhs - self.op.values(E if self.S is None else self.S * E) / self.unit)
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


def _by_gram(op: Operator, h: np.ndarray, S: np.ndarray | None):
    root = np.sqrt(h)
    C, ok = cholesky(add_diagonal(root[:, None] * op.gram(S) * root, 1.0))
    if not ok:
        return None

    def inverse(B: np.ndarray) -> tuple[np.ndarray, int]:
        z = root * cholesky_solve(C, root * op.values(B if S is None else S * B))
        A = op.adjoint(z)
        return B - (A if S is None else S * A), 0

    return inverse


def _by_conjugate_gradients(op: Operator, h: np.ndarray, S: np.ndarray | None, tol: float, max_steps: int = 2000):
    precondition = FourthMoment.of(op, h, S)

    def product(Q: np.ndarray) -> np.ndarray:
        W = op.adjoint(h * op.values(Q if S is None else S * Q))
        return Q + (W if S is None else S * W)

    def inverse(B: np.ndarray) -> tuple[np.ndarray, int]:
        solution = conjugate_gradients(product, precondition, B, tol * float(np.linalg.norm(B)), max_steps)
        return solution.E, solution.steps

    return inverse
