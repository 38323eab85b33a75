"""Correlation matrices of a given rank, ``X = V V'`` with unit rows, or with k factors: a local search beside a proven bound.

If ``X = L L' + D`` with k factors and diagonal D has a unit diagonal, the rows of L have length at most 1. L is then the first k
columns of a matrix V with k + 1 columns and unit rows, so that one method solves both problems.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.correlation.problem import CorrelationCertificate
from bregmat.base.linalg import armijo, eigh, eigvalsh
from bregmat.engine.loop import Outcome, RunLog, State, solve
from bregmat.engine.problem import Problem
from bregmat.engine.status import ExitReason

STEPS = 4000  # default limit on the steps of both searches together
MEMORY = 20  # steps that approximate the inverse Hessian
GRADIENT_TOL = 1e-9  # largest entry of the gradient at the end of a search, over the largest row sum of |C|
NO_GAIN = 1e-15  # relative decrease of the objective that is rounding
Memory = tuple[tuple[np.ndarray, np.ndarray, float], ...]  # steps, changes of the gradient, 1 / their inner product


@dataclass(frozen=True, eq=False)
class RankProblem(Problem):
    """``minimize |L L' - C|^2 / 2`` over the first `rank` columns L of V, which has unit rows.

    V has `rank` columns. With ``has_variances`` it has one more column, the root of D, and X has a diagonal of ones. The bound is
    that of ``convex``, the problem without a rank.
    """

    C: np.ndarray
    rank: int
    convex: CorrelationCertificate
    has_variances: bool = False

    @property
    def certifies_cheaply(self) -> bool:
        """Certificates are only computed at the end of a search, because a step costs little more than X."""
        return False

    def certify(self, state: _SearchState) -> CorrelationCertificate:
        """The matrix of a factor, which is always feasible."""
        dual, bound, value = self.convex.dual, self.convex.dual_bound, state.objective
        L = state.V[:, : self.rank]
        X = L @ L.T
        np.fill_diagonal(X, 1.0)
        return CorrelationCertificate(dual=dual, objective=value, dual_bound=bound, upper=value, X=X, factor=L)

    def is_due(self, state: _SearchState, tol: float) -> bool:
        """At the end of each search, and when the bound is reached."""
        return state.is_done or self.estimate(state)["gap"] <= tol

    def estimate(self, state: _SearchState, works_on: str = "objective") -> dict[str, float]:
        """The numbers of a certificate, which are known at every step."""
        value, bound = state.objective, self.convex.dual_bound
        return {"objective": value, "dual_bound": bound, "violation": 0.0, "gap": (value - bound) / max(1.0, value)}

    def start(self, turn: int) -> np.ndarray:
        """The start of the first search, from the nearest matrix without a rank, or of the second one, from C."""
        # largest length of a row of L at the start: at length 1 the gradient with respect to its D vanishes
        longest = 0.99
        A = (self.C if turn else self.convex.X).copy()
        if turn and self.has_variances:
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
    problem = RankProblem(C, rank, proof, has_variances)
    reason = convex.exit_reason
    is_over = reason in (ExitReason.INTERRUPTED, ExitReason.TIME, ExitReason.NONFINITE)
    log.before = convex.n_iter
    if is_over:  # only the start of the search, which has this rank
        max_iter, log = 0, log.beside(is_quiet=True)
    outcome = solve(problem, FactorDescent(), tol=convex.tol, max_iter=max_iter, log=log)
    return replace(
        outcome,
        exit_reason=reason if is_over else outcome.exit_reason,
        n_iter=convex.n_iter + outcome.n_iter,
        history=convex.history if is_over else outcome.history,
        solver=f"{convex.solver} + {outcome.solver}",
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _SearchState(State):
    """Rows W of any length, the unit rows V, and the gradient with respect to W in units of ``size``; turn 0 or 1."""

    W: np.ndarray
    V: np.ndarray
    gradient: np.ndarray
    objective: float
    size: float
    turn: int
    is_done: bool  # whether this search has ended
    stalled: bool = False
    signal: float = np.inf
    memory: Memory = ()

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """Whether both searches have ended."""
        return self.is_done and self.turn > 0


@dataclass(frozen=True)
class FactorDescent:
    """Limited-memory BFGS for rows W of any length, ``V = W / |W|`` (Grubisic and Pietersz 2007 state the problem)."""

    name: ClassVar[str] = "factor_descent"
    works_on: ClassVar[str] = "objective"
    max_iter: ClassVar[int] = STEPS

    def check(self, problem: RankProblem) -> None:
        """Accept every problem."""

    def init(self, problem: RankProblem, tol: float, start: Any) -> _SearchState:
        """The start of the first search."""
        size = max(1.0, float(np.abs(problem.C).sum(axis=1).max()))
        return self._at(problem, problem.start(0), size, 0)

    def step(self, problem: RankProblem, state: _SearchState) -> _SearchState:
        """One step with Armijo's rule, or the start of the second search if the first one has ended."""
        if state.is_done:
            return self._at(problem, problem.start(1), state.size, 1)
        q, memory, value = state.gradient, state.memory, state.objective / state.size
        d = -_inverse_times(memory, q)
        slope = float(np.vdot(q, d))
        if not slope < 0:
            d, slope, memory = -q, -float(np.vdot(q, q)), ()
        rounding = NO_GAIN * max(1.0, value)

        def trial(alpha: float) -> tuple[_SearchState, float]:
            new = self._at(problem, state.W + alpha * d, state.size, state.turn)
            return new, new.objective / state.size

        first_length = 1.0 if memory else min(1.0, 1.0 / float(np.sqrt(-slope)))
        accepted = armijo(trial, value, slope, rounding=rounding, first=first_length, is_parabolic=True)
        if accepted is None:
            return replace(state, is_done=True)
        new = accepted[0]
        s, y = new.W - state.W, new.gradient - q
        product = float(np.vdot(s, y))
        if product > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            memory = (*memory[-MEMORY + 1 :], (s, y, 1.0 / product))
        return replace(new, memory=memory, is_done=new.is_done or value - new.objective / state.size <= rounding)

    def _at(self, problem: RankProblem, W: np.ndarray, size: float, turn: int) -> _SearchState:
        """The state at the rows W."""
        length = np.linalg.norm(W, axis=1)[:, None]
        V = W / length
        L = V[:, : problem.rank]
        # E = L L' - C; the diagonal of X is 1
        E = L @ L.T - problem.C
        diagonal = 1.0 - np.diag(problem.C)
        np.fill_diagonal(E, 0.0)
        # gradient 2 E L with respect to V, orthogonal to the rows of V, over their lengths
        G = np.zeros_like(V)
        G[:, : problem.rank] = 2.0 * (E @ L)
        G -= np.einsum("ij,ij->i", G, V)[:, None] * V
        G /= length * size
        value = 0.5 * (float(np.vdot(E, E)) + float(diagonal @ diagonal))
        is_done = bool(np.abs(G).max() <= GRADIENT_TOL)
        return _SearchState(W=W, V=V, gradient=G, objective=value, size=size, turn=turn, is_done=is_done)


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
