"""Correlation matrices of a given rank, ``X = V V'`` with rows of length one, or with k factors. A heuristic, beside a proven bound.

``X = L L' + D`` with k factors, D diagonal and ``X_ii = 1``, has rows of L of length at most one. They are the first k columns of a
matrix V of k + 1 columns with rows of length one, so that one method finds both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.correlation.problem import CorrelationCertificate, spectral_factor
from bregmat.base.linalg import eigh, eigvalsh
from bregmat.base.numerics import armijo
from bregmat.certificates.problem import Problem
from bregmat.run.loop import Outcome, RunLog, State, solve
from bregmat.run.result import ExitReason

STEPS = 4000  # of both searches together, unless told otherwise
MEMORY = 20  # steps that the curvature is learned from
NO_GAIN = 1e-15  # share of the value below which a step has gained nothing
LONGEST = 0.99  # length of a row of L at the start: at length 1 the gradient with respect to its D vanishes
Memory = tuple[tuple[np.ndarray, np.ndarray, float], ...]  # steps, changes of the gradient, 1 / their product


@dataclass(frozen=True, eq=False)
class RankProblem(Problem):
    """``minimize |V V' - C|^2 / 2`` over V, shape (n, rank), with rows of length one; the bound is that of ``convex``, of any rank.

    With ``has_variances`` V has a further column, which stands for the root of D: it counts on the diagonal only.
    """

    C: np.ndarray
    rank: int
    convex: CorrelationCertificate
    has_variances: bool = False

    @property
    def certifies_cheaply(self) -> bool:
        """A step costs little more than X does."""
        return False

    def certify(self, state: _SearchState) -> CorrelationCertificate:
        """Every factor is allowed."""
        dual, bound, value = self.convex.dual, self.convex.dual_bound, state.objective
        L = self.loadings(state.V)
        X = L @ L.T
        np.fill_diagonal(X, 1.0)
        return CorrelationCertificate(dual=dual, objective=value, dual_bound=bound, upper=value, X=X, factor=L)

    def loadings(self, V: np.ndarray) -> np.ndarray:
        """The columns of V that count off the diagonal, shape (n, rank)."""
        return V[:, : self.rank]

    def is_due(self, state: _SearchState, tol: float) -> bool:
        """At the end of each search, and where the bound is reached."""
        return state.is_done or self.estimate(state)["gap"] <= tol

    def estimate(self, state: _SearchState, works_on: str = "objective") -> dict[str, float]:
        """All that a certificate says."""
        value, bound = state.objective, self.convex.dual_bound
        return {"objective": value, "dual_bound": bound, "violation": 0.0, "gap": (value - bound) / max(1.0, value)}

    def start(self, turn: int) -> np.ndarray:
        """Of the first search: the spectrum of the nearest matrix of any rank; of the second: that of C."""
        if not self.has_variances:
            return spectral_factor(self.C if turn else self.convex.X, self.rank)
        A = self.convex.X.copy()
        if turn:
            # principal factors: the largest correlation of a variable stands for what it shares with others
            A = self.C - np.diag(np.diag(self.C))
            A[np.diag_indices(len(A))] = np.minimum(np.abs(A).max(axis=1), 1.0)
        t, U = eigh(A)
        L = U[:, -self.rank :] * np.sqrt(np.maximum(t[-self.rank :], 0.0))
        length = np.sqrt(np.einsum("ij,ij->i", L, L))
        L *= (LONGEST / np.maximum(length, LONGEST))[:, None]
        return np.column_stack([L, np.sqrt(1.0 - np.minimum(length, LONGEST) ** 2)])


def factor_bound(C: np.ndarray, k: int) -> float:
    """A lower bound of ``|L L' + D - C|^2 / 2`` over all correlation matrices with k factors.

    By Mirsky, eigenvalues of ``C - D`` that no L L' has cost their squares, and by Weyl each is that of C less at most 1. A block off
    the diagonal is L_1 L_2', of rank k: it costs the squares of its further singular values (Eckart and Young), as its mirror image
    does, and blocks on the diagonal have bounds of their own.

    Parameters
    ----------
    C : ndarray, shape (n, n)
    k : int
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
    """The better of two searches, from the spectra of the nearest matrix of any rank and of C, beside the former's bound.

    Parameters
    ----------
    convex : Outcome
        Of the problem without the rank, with a :class:`CorrelationCertificate`.
    C : ndarray, shape (n, n)
    rank : int
        From 1 to n.
    max_iter : int or None
        Limit on the steps of both searches.
    log : RunLog
        Of that problem; its history goes on.
    has_variances : bool
        Whether to find ``L L' + D`` with so many factors, which has a bound of its own.
    """
    proof = convex.certificate
    if has_variances:
        bound = factor_bound(C, rank)
        if bound > proof.dual_bound:  # which multipliers have no part in
            proof = replace(proof, dual_bound=bound, dual=np.zeros_like(proof.dual))
    problem = RankProblem(C, rank, proof, has_variances)
    search = SignFlips() if rank == 1 and not has_variances else FactorDescent()
    reason = convex.exit_reason
    is_over = reason in (ExitReason.INTERRUPTED, ExitReason.TIME, ExitReason.NONFINITE)
    if is_over:  # the start of a search is a matrix of this rank, too
        max_iter, log = 0, log.beside(is_quiet=True)
    found = solve(problem, search, tol=convex.tol, max_iter=max_iter, log=log)
    return replace(
        found,
        exit_reason=reason if is_over else found.exit_reason,
        n_iter=convex.n_iter + found.n_iter,
        history=convex.history if is_over else found.history,
        solver=f"{convex.solver} + {found.solver}",
    )


@dataclass(frozen=True, eq=False)
class _SearchState(State):
    """A factor with rows of length one, in the first (0) or the second search."""

    V: np.ndarray
    objective: float
    turn: int
    is_done: bool = False  # whether that search has ended
    stalled: bool = False
    signal: float = np.inf

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """Whether both searches have ended."""
        return self.is_done and self.turn > 0


@dataclass(frozen=True, eq=False, kw_only=True)
class _DescentState(_SearchState):
    """Free rows W, whose directions are V; the gradient with respect to them, in units of ``size``."""

    W: np.ndarray
    gradient: np.ndarray
    size: float
    memory: Memory = ()


@dataclass(frozen=True)
class FactorDescent:
    """Limited-memory BFGS on free rows, ``V = W / |W|`` (the problem: Grubisic and Pietersz 2007).

    Parameters
    ----------
    gradient_tol : float
        A search ends when the largest entry of the gradient is below this times the largest row sum of ``|C|``; dimensionless.
    """

    gradient_tol: float = 1e-9
    name: ClassVar[str] = "factor_descent"
    works_on: ClassVar[str] = "objective"
    max_iter: ClassVar[int] = STEPS

    def check(self, problem: RankProblem) -> None:
        """Nothing to refuse."""

    def init(self, problem: RankProblem, tol: float, start: Any) -> _DescentState:
        """The first start."""
        size = max(1.0, float(np.abs(problem.C).sum(axis=1).max()))
        return self._at(problem, problem.start(0), size, 0)

    def step(self, problem: RankProblem, state: _DescentState) -> _DescentState:
        """One step with Armijo's rule, or the next start; where rounding stops it, a search has ended."""
        if state.is_done:
            return self._at(problem, problem.start(1), state.size, 1)
        q, memory, value = state.gradient, state.memory, state.objective / state.size
        d = -_inverse_times(memory, q)
        slope = float(np.vdot(q, d))
        if not slope < 0:
            d, slope, memory = -q, -float(np.vdot(q, q)), ()
        rounding = NO_GAIN * max(1.0, value)

        def trial(alpha: float) -> tuple[_DescentState, float]:
            new = self._at(problem, state.W + alpha * d, state.size, state.turn)
            return new, new.objective / state.size

        first_length = 1.0 if memory else min(1.0, 1.0 / float(np.sqrt(-slope)))
        found = armijo(trial, value, slope, rounding=rounding, first=first_length, is_parabolic=True)
        if found is None:
            return replace(state, is_done=True)
        new = found[0]
        s, y = new.W - state.W, new.gradient - q
        product = float(np.vdot(s, y))
        if product > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            memory = (*memory[-MEMORY + 1 :], (s, y, 1.0 / product))
        return replace(new, memory=memory, is_done=new.is_done or value - new.objective / state.size <= rounding)

    def _at(self, problem: RankProblem, W: np.ndarray, size: float, turn: int) -> _DescentState:
        """The state at free rows W."""
        length = np.linalg.norm(W, axis=1)[:, None]
        V = W / length
        L = problem.loadings(V)
        E = L @ L.T - problem.C
        diagonal = 1.0 - np.diag(problem.C)  # that of V V' is 1, but for rounding
        np.fill_diagonal(E, 0.0)
        G = np.zeros_like(V)
        G[:, : problem.rank] = 2.0 * (E @ L)
        G -= np.einsum("ij,ij->i", G, V)[:, None] * V
        G /= length * size
        value = 0.5 * (float(np.vdot(E, E)) + float(diagonal @ diagonal))
        is_done = bool(np.abs(G).max() <= self.gradient_tol)
        return _DescentState(V, value, turn, is_done, W=W, gradient=G, size=size)


def _inverse_times(memory: Memory, q: np.ndarray) -> np.ndarray:
    """The inverse Hessian that the memory implies, times q."""
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


@dataclass(frozen=True)
class SignFlips:
    """Rank one, where rows are signs v: change the one that gains most until none gains; ``|v v' - C|^2`` falls with ``v' C v``."""

    name: ClassVar[str] = "sign_flips"
    works_on: ClassVar[str] = "objective"
    max_iter: ClassVar[int] = STEPS

    def check(self, problem: RankProblem) -> None:
        """Rank one."""
        if problem.rank != 1:
            raise TypeError(f"sign_flips finds matrices of rank 1; got {problem.rank}.")

    def init(self, problem: RankProblem, tol: float, start: Any) -> _SearchState:
        """The first start."""
        return self._at(problem, problem.start(0), 0)

    def step(self, problem: RankProblem, state: _SearchState) -> _SearchState:
        """One flip, or the next start."""
        if state.is_done:
            return self._at(problem, problem.start(1), 1)
        V = state.V.copy()
        gain = np.diag(problem.C) - V[:, 0] * (problem.C @ V[:, 0])
        row = int(np.argmax(gain))
        if not gain[row] > 1e-12 * max(1.0, float(np.abs(problem.C).sum(axis=1).max())):
            return replace(state, is_done=True)
        V[row] = -V[row]
        return self._at(problem, V, state.turn)

    def _at(self, problem: RankProblem, V: np.ndarray, turn: int) -> _SearchState:
        """The state at the signs of V, shape (n, 1)."""
        V = np.where(V < 0, -1.0, 1.0)
        E = V @ V.T - problem.C
        return _SearchState(V, 0.5 * float(np.vdot(E, E)), turn)
