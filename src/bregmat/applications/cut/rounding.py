"""Balanced cuts from vectors: the Fiedler vector, Kernighan-Lin refinement, and multipliers that certify a cut."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from bregmat._kernels import cut
from bregmat.applications.cut.graph import Graph
from bregmat.applications.cut.proof import projected

MORE_PAIRS = 64  # further pairs that a pass of Kernighan-Lin tries without a gain, in addition to 5 % of the vertices
MOST_PATIENCE = 200  # limit on these 5 %
PASSES = 50  # limit on passes
DENSE_FIEDLER = 400  # vertices up to which the Fiedler vector is from a dense eigendecomposition
RITZ_TOL = 1e-7  # accuracy of Ritz values, relative to the largest eigenvalue
LANCZOS_STEPS = 1200  # limit on steps
LANCZOS_LOOK = 20  # steps between two Ritz values, or a twentieth of all steps


class BestCut:
    """The best balanced cut so far: ``x`` (m,) of +1 and -1 for the free vertices, and its weight ``value`` in the given units."""

    def __init__(self, graph: Graph, refine: bool) -> None:
        self.graph, self.refine = graph, refine
        self.x = np.ones(len(graph.balance.weights))
        self.value = np.inf

    def offer(self, scores: np.ndarray) -> None:
        """Split the vertices by their scores, refine the cut, and keep it if it is the best one."""
        balance, A = self.graph.balance, self.graph.A
        x = balance.split(scores)
        if self.refine:
            z = balance.completed(x)
            least = 1e-12 * max(1.0, float(self.graph.size_of_row.sum()))
            patience = MORE_PAIRS + min(len(z) // 20, MOST_PATIENCE)
            cut.refine_inplace(z, balance.weights, balance.limits, A.indptr, A.indices, A.data, least, patience, PASSES)
            x = z[: len(x)]
        value = self.graph.cut(x)
        if value < self.value:
            self.x, self.value = x, value


def fiedler(graph: Graph, rng: np.random.Generator) -> np.ndarray:
    """An eigenvector of the smallest eigenvalue of L on the complement of a, to low accuracy for large graphs."""
    n = graph.size
    if n <= DENSE_FIEDLER:
        return np.linalg.eigh(projected(graph, np.zeros(n))[0])[1][:, 0] if n > 1 else np.ones(n)
    apply, start = _flipped(graph, np.zeros(n))[0], rng.normal(size=n)
    flipped = scipy.sparse.linalg.LinearOperator((n, n), matvec=apply, dtype=float)
    try:
        return scipy.sparse.linalg.eigsh(flipped, k=1, which="LA", v0=start, tol=1e-2, maxiter=500)[1][:, 0]
    except scipy.sparse.linalg.ArpackNoConvergence:
        return flipped @ start


def smallest(
    graph: Graph, y: np.ndarray, rng: np.random.Generator, is_enough: Callable[[float], bool] = lambda ritz: False
) -> float:
    """The smallest Ritz value of ``L + diag y`` on the complement of a, by Lanczos's method.

    It is an upper bound of the smallest eigenvalue, and nearly equal to it unless the method stops early.

    Parameters
    ----------
    graph : Graph
    y : ndarray, shape (size,)
    rng : Generator
    is_enough : callable
        Whether the method may stop with this Ritz value.
    """
    flipped, top = _flipped(graph, y)
    v, last, beta = rng.normal(size=graph.size), np.zeros(graph.size), 0.0
    v /= np.linalg.norm(v)
    look = LANCZOS_LOOK
    diagonal: list[float] = []
    beside: list[float] = []
    ritz = np.inf
    # without reorthogonalisation, converged values may appear several times, which does not change the smallest one
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
    """The product with ``top I - L - diag y`` on the complement of a, and ``top``, which exceeds all eigenvalues of ``L + diag y``."""
    top = 2.0 * float(graph.size_of_row.max(initial=0.0)) + float(np.abs(y).max(initial=0.0)) + 1.0
    diagonal, a, n = top - graph.degree - y, graph.a, graph.size

    def apply(v: np.ndarray) -> np.ndarray:
        v = np.ravel(v)
        v = v - a * (float(a @ v) / n)
        u = graph.A @ v
        v *= diagonal
        u += v
        u -= a * (float(a @ u) / n)
        return u

    return apply, top


def certifying(graph: Graph, x: np.ndarray) -> np.ndarray:
    """Multipliers ``y = z (w a - L z)``, for which z is a null vector of M up to a multiple of a, so that ``base - sum y / 4 = cut``.

    If M is positive semidefinite on the complement of a, the cut is optimal, and one factorisation proves it. w, the multiplier of
    ``a'z = 0``, is free; it is chosen so that the mean diagonal of M is equal on the two sides. It is 0 if the cut is no limit of the
    balance: two slack vertices are between -1 and +1, or would be at less cost.
    """
    balance, a = graph.balance, graph.a
    z = balance.completed(x)
    out = z * graph.laplacian_times(z)
    surplus, turned = graph.degree - out, a * z
    w = 0.0
    minus, plus = turned < 0, turned > 0
    if minus.any() and plus.any():
        w = (surplus[minus].mean() - surplus[plus].mean()) / (turned[plus].mean() - turned[minus].mean())
    if balance.n_slack == 2 and (abs(z[-1]) < 1.0 or w * z[-1] < 0.0):
        w = 0.0
    return w * turned - out
