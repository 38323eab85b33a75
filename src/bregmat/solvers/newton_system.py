"""The linear system shared by the Newton solvers: ``E + S o A*(h . A(S o E)) = B`` over symmetric matrices.

Identity plus a positive semidefinite map. Small systems are factorised; large ones go to conjugate gradients, with
products in float32 and a preconditioner from the Gaussian fourth moment when there are many rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bregmat.linalg import add_diagonal, cholesky, cholesky_solve, eigh, symmetrize
from bregmat.numerics import conjugate_gradients
from bregmat.operators import Operator, smat, svec

DIRECT_FLOPS = 3e7  # below this a factorisation is cheaper than the overhead of conjugate gradients


@dataclass(frozen=True)
class LinearSolution:
    """Solution, number of conjugate gradient steps (0 for a factorisation) and norm of the residual."""

    E: np.ndarray
    steps: int
    residual: float


def solve_newton_system(
    op: Operator,
    h: np.ndarray,
    S: np.ndarray | None,
    B: np.ndarray,
    *,
    tol: float,
    max_steps: int = 500,
    direct_flops: float = DIRECT_FLOPS,
    single: bool = True,
) -> LinearSolution:
    """Solve ``E + S o A*(h . A(S o E)) = B``.

    Parameters
    ----------
    op : Operator
        Rows that take part, in the frame of the iterate.
    h : ndarray, shape (c,)
        Their curvatures, positive.
    S : ndarray, shape (r, r), or None
        Local metric; None is 1 everywhere.
    B : ndarray, shape (r, r)
    tol : float
        Absolute tolerance on the Frobenius norm of the residual.
    single : bool
        Products in float32 where the system is large; the residual is recursive, so keep ``tol`` above 1e-6 |B|.
    """
    m = op.r * (op.r + 1) // 2
    if op.c == 0:
        return LinearSolution(B, 0, 0.0)
    if min(op.c, m) ** 2 * max(op.c, m) <= direct_flops:
        E = _factorised(op, h, S, B, m)
        if E is not None:
            return LinearSolution(E, 0, 0.0)
    return _conjugate_gradients(op, h, S, B, tol, max_steps, single and op.c * op.r > 20_000)


def _factorised(op: Operator, h: np.ndarray, S: np.ndarray | None, B: np.ndarray, m: int) -> np.ndarray | None:
    Phi = op.features(S)
    b = svec(B)
    if op.c >= m:
        Phi *= np.sqrt(h)[:, None]
        C, ok = cholesky(add_diagonal(Phi.T @ Phi, 1.0))
        return smat(cholesky_solve(C, b), op.r) if ok else None
    C, ok = cholesky(add_diagonal(Phi @ Phi.T, 1.0 / h))  # Woodbury: a c x c system
    return smat(b - Phi.T @ cholesky_solve(C, Phi @ b), op.r) if ok else None


def _conjugate_gradients(
    op: Operator, h: np.ndarray, S: np.ndarray | None, B: np.ndarray, tol: float, max_steps: int, single: bool
) -> LinearSolution:
    precondition = FourthMoment.of(op, h, S)
    if single:
        op, h = op.astype(np.float32), h.astype(np.float32)

    def product(Q: np.ndarray) -> np.ndarray:
        X = Q if S is None else S * Q
        if single:
            size = float(np.abs(X).max())
            W = size * op.adjoint(h * op.values((X / size).astype(np.float32))).astype(np.float64)
        else:
            W = op.adjoint(h * op.values(X))
        return Q + (W if S is None else S * W)

    end = conjugate_gradients(product, B, goal=tol, most=max_steps, precondition=precondition, is_euclidean=True)
    return LinearSolution(symmetrize(end.x), end.steps, end.norm)


class FourthMoment:
    """Preconditioner: rows as if drawn from a Gaussian with their own second moment (Isserlis).

    With ``C = sum h v v' / N``, ``N = sum h``, the map ``A* h A`` becomes ``s N (2 C E C + tr(C E) C)``, s fitted to the
    trace: diagonal plus rank one in the eigenbasis of C, so its inverse costs four products of order r. A metric S other
    than 1 enters through its diagonal.
    """

    def __init__(self, V: np.ndarray | None, D: np.ndarray | None, u: np.ndarray | None, bend: float) -> None:
        self.V, self.D, self.u, self.bend = V, D, u, bend

    @classmethod
    def of(cls, op: Operator, h: np.ndarray, S: np.ndarray | None) -> FourthMoment:
        """Fit to the rows; the identity where rows are few or not of rank one."""
        if not op.is_rank_one or op.c < 10 * op.r:
            return cls(None, None, None, 0.0)
        N = float(h.sum())
        C = op.adjoint(h) / N
        p = op.values_diagonal(None if S is None else np.diag(S))
        if S is not None:
            root = np.sqrt(np.diag(S))
            root[root < 1e-5 * root.max()] = 0.0  # left alone: mixing them would spoil the relative accuracy of E / S
            C = C * np.multiply.outer(root, root)
        c, V = eigh(symmetrize(C))
        c = np.maximum(c, 0.0)
        s = float((h * p * p).sum()) / max(N * (c.sum() ** 2 + 2.0 * float(c @ c)), 1e-300)
        D = 1.0 + 2.0 * s * N * np.multiply.outer(c, c)
        d = np.diag(D)
        bend = s * N / (1.0 + s * N * float((c * c / d).sum()))
        return cls(V, D, c / d, bend)

    def __call__(self, R: np.ndarray) -> np.ndarray:
        """Apply the inverse."""
        if self.V is None or self.D is None or self.u is None:
            return R
        X = self.V.T @ R @ self.V
        Y = X / self.D
        add_diagonal(Y, -self.bend * float(self.u @ np.diag(X)) * self.u)
        return self.V @ Y @ self.V.T
