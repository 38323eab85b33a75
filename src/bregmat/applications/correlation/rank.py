"""Correlation matrices of a given rank: ``X = V V'`` with rows of length one. A heuristic, beside a proven bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.correlation.problem import CorrelationCertificate, spectral_factor
from bregmat.numerics import armijo
from bregmat.proofs import Certificate, Problem
from bregmat.result import ExitReason, Status
from bregmat.solve import Outcome, RunLog, State, solve

STEPS = 2000  # of one search, unless told otherwise
MEMORY = 20  # steps that the curvature is learned from
STOPPED = (ExitReason.INTERRUPTED, ExitReason.TIME, ExitReason.NONFINITE)
NO_GAIN = 1e-15  # share of the value below which a step has gained nothing


@dataclass(frozen=True, eq=False, kw_only=True)
class FactorCertificate(Certificate):
    """A factor V, shape (n, k), with rows of length one, beside the bound for every rank."""

    V: np.ndarray


@dataclass(frozen=True, eq=False)
class RankProblem(Problem):
    """``minimize |V V' - C|^2 / 2`` over V, shape (n, rank), with rows of length one; the bound is that of ``convex``, of any rank."""

    C: np.ndarray
    rank: int
    convex: CorrelationCertificate

    @property
    def order(self) -> int:
        """Order of C."""
        return len(self.C)

    def certify(self, state: _SearchState) -> FactorCertificate:
        """Every factor is allowed."""
        value = state.objective
        return FactorCertificate(
            dual=self.convex.dual, objective=value, dual_bound=self.convex.dual_bound, upper=value, V=state.V
        )

    def is_due(self, state: Any, tol: float) -> bool:
        """Always: a certificate costs nothing."""
        return True

    def distance(self, V: np.ndarray) -> float:
        """``|V V' - C|^2 / 2``, with the diagonal of V V' taken as exactly 1."""
        E = V @ V.T - self.C
        np.fill_diagonal(E, 1.0 - np.diag(self.C))
        return 0.5 * float(np.vdot(E, E))


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
        Limit on the steps of each search.
    log : RunLog
        Its history goes on.
    """
    problem = RankProblem(C, rank, convex.certificate)
    search = SignFlips if rank == 1 else FactorDescent
    history, starts = log.history, [convex.certificate.X, C]
    best, reason, n_iter = None, convex.exit_reason, convex.n_iter
    if reason in STOPPED:  # the start of a search is a matrix of this rank, too
        starts, max_iter, log = starts[:1], 0, log.beside(is_quiet=True)
    for start in starts:
        try:
            found = solve(problem, search(start), tol=convex.tol, max_iter=max_iter, log=log)
        except KeyboardInterrupt:  # while the second search was setting up
            if best is None:
                raise
            reason = ExitReason.INTERRUPTED
            break
        n_iter += found.n_iter
        log.before = n_iter
        if best is None or found.certificate.objective < best.certificate.objective:
            best = found
        if reason not in STOPPED:
            reason = found.exit_reason if found.exit_reason in STOPPED else best.exit_reason
        if found.status is Status.OPTIMAL or reason in STOPPED:
            break
    assert best is not None
    proof = best.certificate
    X = proof.V @ proof.V.T
    np.fill_diagonal(X, 1.0)
    numbers = {name: getattr(proof, name) for name in ("dual", "objective", "dual_bound", "upper")}
    return replace(
        best,
        certificate=CorrelationCertificate(**numbers, X=X, factor=proof.V),
        exit_reason=reason,
        n_iter=n_iter,
        history=history,
        solver=f"{convex.solver} + {search.name}",
    )


@dataclass(frozen=True, eq=False)
class _SearchState(State):
    """A factor with rows of length one; for the descent also free rows, whose directions they are."""

    V: np.ndarray
    objective: float
    finished: bool = False
    stalled: bool = False
    signal: float = np.inf
    W: np.ndarray | None = None
    gradient: np.ndarray | None = None  # with respect to W, in units of ``size``
    size: float = 1.0
    memory: tuple[tuple[np.ndarray, np.ndarray, float], ...] = ()  # steps, changes of the gradient, 1 / their product


@dataclass(frozen=True, eq=False)
class FactorDescent:
    """Limited-memory BFGS on free rows, ``V = W / |W|`` (the problem: Grubisic and Pietersz 2007).

    Parameters
    ----------
    near : ndarray, shape (n, n)
        Symmetric matrix whose leading eigenvectors are the start.
    gradient_tol : float
        It ends when the largest entry of the gradient is below this times the largest row sum of ``|C|``; dimensionless.
    """

    near: np.ndarray
    gradient_tol: float = 1e-9
    name: ClassVar[str] = "factor_descent"
    works_on: ClassVar[str] = "objective"
    max_iter: ClassVar[int] = STEPS

    def check(self, problem: RankProblem) -> None:
        """Nothing to refuse."""

    def init(self, problem: RankProblem, tol: float, start: Any) -> _SearchState:
        """The spectrum of ``near``."""
        size = max(1.0, float(np.abs(problem.C).sum(axis=1).max()))
        return self._at(problem, spectral_factor(self.near, problem.rank), size)

    def step(self, problem: RankProblem, state: _SearchState) -> _SearchState:
        """One step with Armijo's rule; where rounding stops it, the search has ended."""
        W, q, memory = state.W, state.gradient, state.memory
        assert W is not None and q is not None
        d = -_inverse_times(memory, q)
        slope = float(np.vdot(q, d))
        if not slope < 0:
            d, slope, memory = -q, -float(np.vdot(q, q)), ()
        value = state.objective / state.size

        def trial(alpha: float) -> tuple[_SearchState, float]:
            new = self._at(problem, W + alpha * d, state.size)
            return new, new.objective / state.size

        first = 1.0 if memory else min(1.0, 1.0 / float(np.sqrt(-slope)))
        found = armijo(trial, value, slope, rounding=NO_GAIN * max(1.0, value), first=first, is_parabolic=True)
        if found is None:
            return replace(state, finished=True)
        new = found[0]
        assert new.W is not None and new.gradient is not None
        s, y = new.W - W, new.gradient - q
        product = float(np.vdot(s, y))
        if product > 1e-10 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            memory = (*memory[-MEMORY + 1 :], (s, y, 1.0 / product))
        gained = value - new.objective / state.size > NO_GAIN * max(1.0, value)
        return replace(new, memory=memory, finished=new.finished or not gained)

    def _at(self, problem: RankProblem, W: np.ndarray, size: float) -> _SearchState:
        """The state at free rows W."""
        length = np.linalg.norm(W, axis=1)[:, None]
        V = W / length
        E = V @ V.T - problem.C
        diagonal = 1.0 - np.diag(problem.C)
        np.fill_diagonal(E, 0.0)
        G = 2.0 * (E @ V)
        G -= np.einsum("ij,ij->i", G, V)[:, None] * V
        G /= length * size
        value = 0.5 * (float(np.vdot(E, E)) + float(diagonal @ diagonal))
        return _SearchState(V, value, bool(np.abs(G).max() <= self.gradient_tol), W=W, gradient=G, size=size)


def _inverse_times(memory: tuple[tuple[np.ndarray, np.ndarray, float], ...], q: np.ndarray) -> np.ndarray:
    """The inverse Hessian that the memory implies, times q."""
    if not memory:
        return q
    d, parts = q.copy(), []
    for s, y, inverse in reversed(memory):
        part = inverse * float(np.vdot(s, d))
        d -= part * y
        parts.append(part)
    s, y, inverse = memory[-1]
    d /= inverse * float(np.vdot(y, y))
    for (s, y, inverse), part in zip(memory, reversed(parts), strict=True):
        d += (part - inverse * float(np.vdot(y, d))) * s
    return d


@dataclass(frozen=True, eq=False)
class SignFlips:
    """Rank one, where rows are signs v: change the one that gains most until none gains; ``|v v' - C|^2`` falls with ``v' C v``.

    Parameters
    ----------
    near : ndarray, shape (n, n)
        Symmetric matrix; the signs of its leading eigenvector are the start.
    """

    near: np.ndarray
    name: ClassVar[str] = "sign_flips"
    works_on: ClassVar[str] = "objective"
    max_iter: ClassVar[int] = STEPS

    def check(self, problem: RankProblem) -> None:
        """Rank one."""
        if problem.rank != 1:
            raise TypeError(f"sign_flips finds matrices of rank 1; got {problem.rank}.")

    def init(self, problem: RankProblem, tol: float, start: Any) -> _SearchState:
        """The leading eigenvector of ``near``."""
        return self._at(problem, np.where(spectral_factor(self.near, problem.rank)[:, 0] < 0, -1.0, 1.0))

    def step(self, problem: RankProblem, state: _SearchState) -> _SearchState:
        """One flip, or the end."""
        v = state.V[:, 0]
        gain = -v * (problem.C @ v) + np.diag(problem.C)
        row = int(np.argmax(gain))
        if not gain[row] > 1e-12 * max(1.0, float(np.abs(problem.C).sum(axis=1).max())):
            return replace(state, finished=True)
        v = v.copy()
        v[row] = -v[row]
        return self._at(problem, v)

    def _at(self, problem: RankProblem, v: np.ndarray) -> _SearchState:
        return _SearchState(v[:, None], problem.distance(v[:, None]))
