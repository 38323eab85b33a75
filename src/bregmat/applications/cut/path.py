"""The LogDet problem of a balanced cut along its central path, for graphs whose Laplacian fits as an array."""

from __future__ import annotations

import numpy as np
import scipy

from bregmat.applications.cut.graph import Graph
from bregmat.applications.cut.proof import cholesky_error, forming_error, projected
from bregmat.base.linalg import add_diagonal, cholesky, cholesky_solve

SHRINK = 0.1


class CentralPath:
    """``minimize tr(LX) - eps logdet(V'XV)`` over ``X = V(V'XV)V'``, ``X_ii = 1``, for falling eps; V spans e's complement.

    That is LogDet nearness to ``eps V (V'(L + t I)V)^-1 V'`` for any t > 0 (tr X = n is fixed): Kulis 2009, 6.4, with the
    space orthogonal to e in place of the range of L, which is smaller where the graph is not connected. With multipliers y,
    ``X = eps S``, ``S = V (V'(L + diag y)V)^-1 V'``, and y maximises the concave ``-sum y + eps logdet V'(L + diag y)V``.

    The best feasible X gives ``value``, and the gap to the dual tends to ``eps (n - 1)``. A Newton step costs about 2 n^3
    operations and three arrays of n x n; a tenth of eps takes two or three.

    Attributes
    ----------
    y : ndarray, shape (n,)
    value : float
        An upper bound of the relaxation's value ``tr(LX)``, in scaled units; inf until one is known.
    stalled : bool
    is_new : bool
        Whether the last step left a point of the path behind: time for rounding.
    """

    coarse, proves_every_step = 1.0, True

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.eps = max(float(graph.degree.mean()), 1e-3)
        self.y = np.full(graph.size, self.eps)
        self.factor, self.c, self.trace = self._factor(self.y)
        self.value = np.inf
        self.stalled = False
        self.is_new = False

    def _factor(self, y: np.ndarray) -> tuple[np.ndarray | None, float, float]:
        B, c = projected(self.graph, y)
        trace = float(np.trace(B))
        if not (np.isfinite(trace) and c > 0):
            return None, c, trace
        C, done = cholesky(B)
        return (C if done else None), c, trace

    def step(self) -> None:
        """One Newton step; eps falls whenever the point is close to its place on the path."""
        n = self.graph.size
        S = scipy.linalg.lapack.dpotri(self.factor, lower=1)[0]
        S = np.tril(S) + np.tril(S, -1).T
        S -= 1.0 / (n * self.c)
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
        """A proven lower bound of the smallest eigenvalue: that the factorisation ran to its end is the proof."""
        return -cholesky_error(self.graph.size, self.trace) - forming_error(self.graph, self.y)

    def widen(self) -> bool:
        """Nothing to widen."""
        return False

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """A normal vector with covariance X / eps: its signs are a random hyperplane's."""
        v = scipy.linalg.solve_triangular(self.factor, rng.normal(size=self.graph.size), lower=True, trans="T")
        return v - v.mean()
