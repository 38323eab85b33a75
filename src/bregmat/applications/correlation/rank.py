"""Correlation matrices of a given rank, ``X = V V'`` with unit rows, or with k factors: a local search beside a proven bound.

If ``X = L L' + D`` with k factors and diagonal D has a unit diagonal, the rows of L have length at most 1. L is then the first k
columns of a matrix V with k + 1 columns and unit rows, so that one method solves both problems.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bregmat.applications.correlation.problem import CorrelationCertificate
from bregmat.base.linalg import armijo, eigh, eigvalsh
from bregmat.engine.loop import Outcome, RunLog, repeat
from bregmat.engine.status import ExitReason

STEPS = 4000  # default limit on the steps of both searches together
MEMORY = 20  # steps that approximate the inverse Hessian
GRADIENT_TOL = 1e-9  # largest entry of the gradient at the end of a search, over the largest row sum of |C|
NO_GAIN = 1e-15  # relative decrease of the objective that is rounding
Memory = tuple[tuple[np.ndarray, np.ndarray, float], ...]  # steps, changes of the gradient, 1 / their inner product


class SearchPoint(NamedTuple):
    """Rows W of any length, the factor L of the matrix, and the objective with its gradient with respect to W over ``size``."""

    W: np.ndarray
    L: np.ndarray
    gradient: np.ndarray
    objective: float


def factor_bound(C: np.ndarray, k: int) -> float:
    """A lower bound of ``|L L' + D - C|^2 / 2`` over all correlation matrices with k factors; C has shape (n, n).

    Let ``E = C - D``. The distance of E from all L L' is at least that of their eigenvalues (Mirsky), and each eigenvalue of E is that of
    C minus a number in [0, 1] (Weyl). A block off the diagonal of X is L_1 L_2', of rank at most k: its squared distance is at least
    the sum of the squares of the further singular values (Eckart and Young). The blocks on the diagonal have bounds of their own.
    """
    t, half = eigvalsh(C)[::-1], len(C) // 2
    outside = np.minimum(t, 0.0)
    outside[k:] += np.maximum(t[k:] - 1.0, 0.0)
    bound = 0.5 * float(outside @ outside)
    if half <= k:
        return bound
    rest = np.linalg.svd(C[:half, half:], compute_uv=False)[k:]
    parts = float(rest @ rest) + factor_bound(C[:half, :half], k) + factor_bound(C[half:, half:], k)
    return max(bound, parts)


def of_rank(
    convex: Outcome, C: np.ndarray, rank: int, *, max_iter: int | None, log: RunLog, has_variances: bool = False
) -> Outcome:
    """Search from two starts for a matrix of a given rank; the better one is returned with the bound of the convex problem.

    Parameters
    ----------
    convex : Outcome
        Of the problem without a rank, with a :class:`CorrelationCertificate`.
    C : ndarray, shape (n, n)
    rank : int
        From 1 to n.
    max_iter : int or None
        Limit on the steps of both searches together.
    log : RunLog
        Of the convex problem; its history is continued.
    has_variances : bool
        Whether to find ``L L' + D`` with so many factors, which has a bound of its own.
    """
    proof = convex.certificate
    if has_variances:
        bound = factor_bound(C, rank)
        if bound > proof.dual_bound:  # no multipliers prove this bound
            proof = replace(proof, dual_bound=bound, dual=np.zeros_like(proof.dual))
    reason = convex.exit_reason
    is_over = reason in (ExitReason.INTERRUPTED, ExitReason.TIME, ExitReason.NONFINITE)
    n_iter, search = 0, FactorSearch(C, rank, proof, convex.tol, has_variances=has_variances)
    if not is_over:  # otherwise the start of the search, which has this rank
        log.before = convex.n_iter
        reason, n_iter = repeat(search, STEPS if max_iter is None else max_iter, log)
    name = f"{convex.solver} + factor_descent"
    return log.outcome(search.certificate(), convex.tol, reason, name, convex.n_iter + n_iter, by_own_rule=True)


class FactorSearch:
    """``minimize |L L' - C|^2 / 2`` over the first `rank` columns L of V, which has unit rows, from two starts.

    V has `rank` columns. With ``has_variances`` it has one more column, the root of D, and X has a diagonal of ones. The method is
    limited-memory BFGS for rows W of any length, ``V = W / |W|`` (Grubisic and Pietersz 2007 state the problem).

    Parameters
    ----------
    C : ndarray, shape (n, n)
    rank : int
    convex : CorrelationCertificate
        Of the problem without a rank, whose bound is used.
    tol : float
        Relative gap at which the search ends.
    has_variances : bool
    """

    def __init__(
        self, C: np.ndarray, rank: int, convex: CorrelationCertificate, tol: float, *, has_variances: bool
    ) -> None:
        self.C, self.rank, self.convex, self.tol, self.has_variances = C, rank, convex, tol, has_variances
        self.size = max(1.0, float(np.abs(C).sum(axis=1).max()))  # unit of gradients
        self.first: SearchPoint | None = None  # the end of the first search, if the second one runs
        self._begin()

    def _begin(self) -> None:
        """Start a search."""
        self.memory: Memory = ()
        self.point = self._at(self._start())
        self.is_done = self._is_stationary()

    def _start(self) -> np.ndarray:
        """The start of the first search, from the nearest matrix without a rank, or of the second one, from C."""
        # largest length of a row of L at the start: at length 1 the gradient with respect to its D vanishes
        longest, is_second = 0.99, self.first is not None
        A = (self.C if is_second else self.convex.X).copy()
        if is_second and self.has_variances:
            # principal factors: the largest correlation of a variable estimates the variance that it shares with others
            np.fill_diagonal(A, 0.0)
            A[np.diag_indices(len(A))] = np.minimum(np.abs(A).max(axis=1), 1.0)
        t, U = eigh(A)
        L = U[:, -self.rank :] * np.sqrt(np.maximum(t[-self.rank :], 0.0))
        if not self.has_variances:
            length = np.linalg.norm(L, axis=1)
            L = np.where(length[:, None] > 0, L, np.eye(1, L.shape[1]))
            return L / np.where(length > 0, length, 1.0)[:, None]
        length = np.sqrt(np.einsum("ij,ij->i", L, L))
        L *= (longest / np.maximum(length, longest))[:, None]
        return np.column_stack([L, np.sqrt(1.0 - np.minimum(length, longest) ** 2)])

    def _at(self, W: np.ndarray) -> SearchPoint:
        """The point with the rows W."""
        length = np.linalg.norm(W, axis=1)[:, None]
        V = W / length
        L = V[:, : self.rank]
        # E = L L' - C; the diagonal of X is 1
        E = L @ L.T - self.C
        diagonal = 1.0 - np.diag(self.C)
        np.fill_diagonal(E, 0.0)
        # gradient 2 E L with respect to V, orthogonal to the rows of V, over their lengths
        G = np.zeros_like(V)
        G[:, : self.rank] = 2.0 * (E @ L)
        G -= np.einsum("ij,ij->i", G, V)[:, None] * V
        G /= length * self.size
        return SearchPoint(W, L, G, 0.5 * (float(np.vdot(E, E)) + float(diagonal @ diagonal)))

    def _is_stationary(self) -> bool:
        """Whether the gradient vanishes."""
        return bool(np.abs(self.point.gradient).max() <= GRADIENT_TOL)

    @property
    def best(self) -> SearchPoint:
        """The better one of the point and the end of the first search."""
        return self.point if self.first is None or self.point.objective <= self.first.objective else self.first

    def certificate(self) -> CorrelationCertificate:
        """The matrix of the best factor, which is always feasible."""
        value, L = self.best.objective, self.best.L
        X = L @ L.T
        np.fill_diagonal(X, 1.0)
        dual, bound = self.convex.dual, self.convex.dual_bound
        return CorrelationCertificate(dual=dual, objective=value, dual_bound=bound, upper=value, X=X, factor=L)

    def measure(self, is_last: bool) -> dict[str, float]:
        """The numbers of a certificate of the point."""
        value, bound = self.point.objective, self.convex.dual_bound
        gap = max(value - bound, 0.0) / max(1.0, value)
        return {"objective": value, "dual_bound": bound, "gap": gap, "violation": 0.0}

    def ended(self) -> ExitReason | None:
        """TOLERANCE if both searches have ended, or the bound is reached."""
        value = self.best.objective
        is_reached = value - self.convex.dual_bound <= self.tol * max(1.0, value)
        return ExitReason.TOLERANCE if is_reached or (self.is_done and self.first is not None) else None

    def step(self) -> None:
        """One step with Armijo's rule, or the start of the second search if the first one has ended."""
        if self.is_done:
            self.first = self.point
            self._begin()
            return
        at, value = self.point, self.point.objective / self.size
        q = at.gradient
        d = -_inverse_times(self.memory, q)
        slope = float(np.vdot(q, d))
        if not slope < 0:
            d, slope, self.memory = -q, -float(np.vdot(q, q)), ()
        rounding = NO_GAIN * max(1.0, value)

        def trial(alpha: float) -> tuple[SearchPoint, float]:
            new = self._at(at.W + alpha * d)
            return new, new.objective / self.size

        first_length = 1.0 if self.memory else min(1.0, 1.0 / float(np.sqrt(-slope)))
        accepted = armijo(trial, value, slope, rounding=rounding, first=first_length, is_parabolic=True)
        self.is_done = accepted is None
        if accepted is None:
            return
        new = self.point = accepted[0]
        s, y = new.W - at.W, new.gradient - q
        product = float(np.vdot(s, y))
        if product > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            self.memory = (*self.memory[-MEMORY + 1 :], (s, y, 1.0 / product))
        self.is_done = self._is_stationary() or value - new.objective / self.size <= rounding


def _inverse_times(memory: Memory, q: np.ndarray) -> np.ndarray:
    """The product of the limited-memory BFGS approximation of the inverse Hessian with q."""
    if not memory:
        return q
    d, parts = q.copy(), []
    for s, y, inverse in reversed(memory):
        part = inverse * float(np.vdot(s, d))
        d -= part * y
        parts.append(part)
    _, y, inverse = memory[-1]
    d /= inverse * float(np.vdot(y, y))
    for (s, y, inverse), part in zip(memory, reversed(parts), strict=True):
        d += (part - inverse * float(np.vdot(y, d))) * s
    return d
