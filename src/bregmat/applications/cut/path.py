"""The central path of the relaxation of a balanced cut, a LogDet problem, for graphs whose Laplacian fits into memory."""

from __future__ import annotations

import numpy as np
import scipy

from bregmat.applications.cut.graph import Graph
from bregmat.applications.cut.proof import cholesky_error, forming_error, projected
from bregmat.base.linalg import add_diagonal, cholesky, cholesky_solve

SHRINK = 0.1  # factor of eps from one point of the path to the next


class CentralPath:
    """``minimize tr(LX) - eps logdet(V'XV)`` over ``X = V(V'XV)V'``, ``X_ii = 1``, for decreasing eps.

    V is an orthonormal basis of the complement of a. The solution is the LogDet-nearest matrix to ``eps V (V'(L + t I)V)^-1 V'`` for
    any t > 0, because tr X = n is fixed (Kulis 2009, section 6.4, with the complement of a in place of the range of L). With
    multipliers y, ``X = eps S`` with ``S = V (V'(L + diag y)V)^-1 V'``, and y maximises ``-sum y + eps logdet V'(L + diag y)V``.

    The best feasible X gives ``value``, and its gap to the dual tends to ``eps (n - 1)``. A Newton step costs about 2 n^3
    operations and three n x n arrays; a reduction of eps to a tenth takes two or three steps.

    Attributes
    ----------
    y : ndarray, shape (n,)
    value : float
        An upper bound of the optimum ``tr(LX)`` of the relaxation, in scaled units; inf until one is known.
    stalled : bool
    is_new : bool
        Whether the last step reached a point of the path, so that its matrix should be rounded to cuts.
    """

    name, coarse, proves_every_step = "central path", 1.0, True

    def __init__(self, graph: Graph, rng: np.random.Generator) -> None:
        self.graph, self.rng = graph, rng
        self.eps = max(float(graph.size_of_row.mean()), 1e-3)
        self.y = graph.size_of_row - graph.degree + self.eps  # L + diag(y - eps) is diagonally dominant
        self.factor, self.c, self.trace = self._factor(self.y)
        self.value, self.stalled, self.is_new = np.inf, False, False

    def _factor(self, y: np.ndarray) -> tuple[np.ndarray | None, float, float]:
        """The Cholesky factor of the projected matrix, or None, its eigenvalue c of a, and its trace."""
        B, c = projected(self.graph, y)
        trace = float(np.trace(B))
        if not (np.isfinite(trace) and c > 0):
            return None, c, trace
        C, done = cholesky(B)
        return (C if done else None), c, trace

    def step(self) -> None:
        """One Newton step; eps is reduced when the point is close to the path."""
        n = self.graph.size
        S = scipy.linalg.lapack.dpotri(self.factor, lower=1)[0]
        S = np.tril(S) + np.tril(S, -1).T
        S -= np.outer(self.graph.a / (n * self.c), self.graph.a)
        s = S.diagonal().copy()
        S *= S
        add_diagonal(S, 1e-14 * float(np.square(s).max()))
        C, done = cholesky(S)
        if not done:
            self.stalled = True
            return
        along, across = cholesky_solve(C, s), cholesky_solve(C, np.ones(n))

        def decrement(eps: float) -> float:  # of f / eps
            return float(np.sqrt(max((s - 1.0 / eps) @ (along - across / eps), 0.0)))

        # X = eps (S - S diag(dy) S) has unit diagonal and, for a decrement below 1, is positive definite
        self.is_new = decrement(self.eps) < 0.9
        if self.is_new:
            dy = along - across / self.eps
            self.value = min(self.value, self.eps * (n - 1 - float(s @ dy)) - float(self.y.sum()))
            self.eps *= SHRINK
        dy = along - across / self.eps
        alpha = 1.0
        while alpha > 1e-6:
            y = self.y + alpha * dy
            factor, c, trace = self._factor(y)
            if factor is not None:
                self.y, self.factor, self.c, self.trace = y, factor, c, trace
                return
            alpha *= 0.7
        self.stalled = True

    def level(self, loss: float, is_last: bool) -> float:
        """A lower bound of the smallest eigenvalue, which the successful Cholesky factorisation proves."""
        return -cholesky_error(self.graph.size, self.trace) - forming_error(self.graph, self.y)

    def sample(self) -> np.ndarray:
        """A normal vector with covariance X / eps, whose signs are those of a random hyperplane."""
        v = scipy.linalg.solve_triangular(self.factor, self.rng.normal(size=self.graph.size), lower=True, trans="T")
        return v - self.graph.a * float(self.graph.a @ v / self.graph.size)
