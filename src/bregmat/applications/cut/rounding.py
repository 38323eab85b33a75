"""Balanced cuts from vectors and matrices: hyperplanes, the Fiedler vector, Kernighan-Lin refinement."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from bregmat._kernels import cut
from bregmat.applications.cut.graph import Graph

PATIENCE = 64  # pairs after the best prefix that a pass of Kernighan-Lin still tries, beside 5 % of the vertices
MOST_PATIENCE = 200  # of these 5 %
PASSES = 50
DENSE_FIEDLER = 400
RITZ_TOL = 1e-7  # of Ritz values, relative to the largest eigenvalue
# at most, and from one look at the Ritz value to the next, or a twentieth of all
LANCZOS_STEPS, LANCZOS_LOOK = 1200, 20


class BestCut:
    """The best balanced cut so far; ``x`` (size,) is +-1, ``value`` its weight in the caller's units."""

    def __init__(self, graph: Graph, refine: bool) -> None:
        self.graph, self.refine = graph, refine
        self.x = np.ones(graph.size)
        self.value = np.inf

    def offer(self, scores: np.ndarray) -> None:
        """Cut at the median of the scores, refine, keep what is better."""
        x = balanced(scores)
        if self.refine:
            A = self.graph.A
            least = 1e-12 * max(1.0, float(self.graph.degree.sum()))
            patience = PATIENCE + min(len(x) // 20, MOST_PATIENCE)
            cut.refine_inplace(x, A.indptr, A.indices, A.data, least, patience, PASSES)
        value = self.graph.cut(x)
        if value < self.value:
            self.x, self.value = x, value


def balanced(scores: np.ndarray) -> np.ndarray:
    """+1 for the half of largest scores, -1 for the others; ties by position."""
    half = len(scores) // 2
    median = np.partition(scores, half)[half]
    x = np.where(scores > median, 1.0, -1.0)
    ties = np.flatnonzero(scores == median)
    x[ties[len(ties) - (len(x) - half - int((x > 0).sum())) :]] = 1.0
    return x


def fiedler(graph: Graph, rng: np.random.Generator) -> np.ndarray:
    """An eigenvector for the second smallest eigenvalue of the Laplacian, or nearly one: it is only a start."""
    n = graph.size
    if n <= DENSE_FIEDLER:
        return np.linalg.eigh(graph.dense)[1][:, 1]
    apply, start = _flipped(graph, np.zeros(n))[0], rng.normal(size=n)
    flipped = scipy.sparse.linalg.LinearOperator((n, n), matvec=apply, dtype=float)
    try:
        return scipy.sparse.linalg.eigsh(flipped, k=1, which="LA", v0=start, tol=1e-2, maxiter=500)[1][:, 0]
    except scipy.sparse.linalg.ArpackNoConvergence:
        return flipped @ start


def smallest(
    graph: Graph, y: np.ndarray, rng: np.random.Generator, is_enough: Callable[[float], bool] = lambda ritz: False
) -> float:
    """A Ritz value of ``L + diag y`` orthogonal to e: above its smallest eigenvalue there or nearly equal, so no proof of
    anything but that the eigenvalue is no larger. By Lanczos's method, which ends with a value that ``is_enough``.

    Parameters
    ----------
    graph : Graph
    y : ndarray, shape (size,)
    rng : Generator
    is_enough : callable
        Asked of a Ritz value on its way; the smallest eigenvalue is no larger.
    """
    flipped, top = _flipped(graph, y)
    v, last, beta = rng.normal(size=graph.size), np.zeros(graph.size), 0.0
    v /= np.linalg.norm(v)
    look = LANCZOS_LOOK
    diagonal: list[float] = []
    beside: list[float] = []
    ritz = np.inf
    # without orthogonalising again: copies of a value that has converged do no harm
    for step in range(1, LANCZOS_STEPS + 1):
        u = flipped(v)
        u -= beta * last
        alpha = float(u @ v)
        u -= alpha * v
        diagonal.append(alpha)
        beta = float(np.linalg.norm(u))
        is_last = step == LANCZOS_STEPS or not beta > 1e-14 * top
        if is_last or step == look:
            look += max(LANCZOS_LOOK, step // LANCZOS_LOOK)
            value, z = scipy.linalg.eigh_tridiagonal(diagonal, beside, select="i", select_range=(step - 1, step - 1))
            ritz = top - float(value[0])
            if is_last or beta * abs(float(z[-1, 0])) <= RITZ_TOL * top or is_enough(ritz):
                break
        beside.append(beta)
        last, v = v, u / beta
    return ritz


def _flipped(graph: Graph, y: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], float]:
    """``top I - L - diag y`` orthogonal to e, whose largest eigenvalues are wanted, and ``top`` above all of ``L + diag y``."""
    top = 2.0 * float(graph.degree.max(initial=0.0)) + float(np.abs(y).max(initial=0.0)) + 1.0
    diagonal = top - graph.degree - y

    def apply(v: np.ndarray) -> np.ndarray:
        v = np.ravel(v)
        v = v - v.mean()
        u = graph.A @ v
        v *= diagonal
        u += v
        u -= u.mean()
        return u

    return apply, top


def certifying(graph: Graph, x: np.ndarray) -> np.ndarray:
    """Multipliers under which x itself is a null vector: ``y = x (w - L x)``, so that ``-sum y = 4 cut``.

    If M is then positive semidefinite orthogonal to e, x is optimal: one factorisation proves it. w, the multiplier of
    ``e'x = 0``, is free; it balances the mean diagonal of M on the two sides.
    """
    out = x * graph.laplacian_times(x)
    surplus = graph.degree - out
    w = 0.5 * (surplus[x < 0].mean() - surplus[x > 0].mean())
    return x * w - out
