"""Correlation matrices of a given rank: ``X = V V'`` with rows of length one. A heuristic, beside a proven bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.correlation.problem import CorrelationCertificate, spectral_factor
from bregmat.base.numerics import armijo
from bregmat.certificates.problem import Problem
from bregmat.run.loop import Outcome, RunLog, State, solve
from bregmat.run.result import ExitReason

STEPS = 4000  # of both searches together, unless told otherwise
MEMORY = 20  # steps that the curvature is learned from
NO_GAIN = 1e-15  # share of the value below which a step has gained nothing
Memory = tuple[tuple[np.ndarray, np.ndarray, float], ...]  # steps, changes of the gradient, 1 / their product


@dataclass(frozen=True, eq=False)
class RankProblem(Problem):
    """``minimize |V V' - C|^2 / 2`` over V, shape (n, rank), with rows of length one; the bound is that of ``convex``, of any rank."""

    C: np.ndarray
    rank: int
    convex: CorrelationCertificate

    @property
    def certifies_cheaply(self) -> bool:
        """A step costs little more than X does."""
        return False

    def certify(self, state: _SearchState) -> CorrelationCertificate:
        """Every factor is allowed."""
        dual, bound, value = self.convex.dual, self.convex.dual_bound, state.objective
        X = state.V @ state.V.T
        np.fill_diagonal(X, 1.0)
        return CorrelationCertificate(dual=dual, objective=value, dual_bound=bound, upper=value, X=X, factor=state.V)

    def is_due(self, state: _SearchState, tol: float) -> bool:
        """At the end of each search, and where the bound is reached."""
        return state.is_done or self.estimate(state)["gap"] <= tol

    def estimate(self, state: _SearchState, works_on: str = "objective") -> dict[str, float]:
        """All that a certificate says."""
        value, bound = state.objective, self.convex.dual_bound
        return {"objective": value, "dual_bound": bound, "violation": 0.0, "gap": (value - bound) / max(1.0, value)}

    def start(self, turn: int) -> np.ndarray:
        """Of the first search: the spectrum of the nearest matrix of any rank; of the second: that of C."""
        return spectral_factor(self.C if turn else self.convex.X, self.rank)


def of_rank(convex: Outcome, C: np.ndarray, rank: int, *, max_iter: int | None, log: RunLog) -> Outcome:
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
    """
    problem = RankProblem(C, rank, convex.certificate)
    search = SignFlips() if rank == 1 else FactorDescent()
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
        E = V @ V.T - problem.C
        diagonal = 1.0 - np.diag(problem.C)  # that of V V' is 1, but for rounding
        np.fill_diagonal(E, 0.0)
        G = 2.0 * (E @ V)
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
