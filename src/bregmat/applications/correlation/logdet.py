"""Newton's method for the LogDet-nearest matrix with a unit diagonal, whose Hessian is an explicit matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bregmat.applications.correlation.problem import CorrelationProblem, DenseState
from bregmat.base.linalg import add_diagonal, armijo, cholesky, cholesky_inverse, cholesky_solve, logdet_of_factor
from bregmat.base.tolerances import EPS


@dataclass(frozen=True, eq=False)
class _LogDetState(DenseState):
    """A point of the dual with ``X = (C^-1 + diag(mu))^-1``."""

    dual: np.ndarray
    values: np.ndarray  # type: ignore[assignment] # the diagonal of X
    objective: float  # g(mu) = logdet(I + A*(mu)) - sum mu
    signal: float
    logdet: float  # of C^-1 + diag(mu)
    X: np.ndarray
    stalled: bool = False
    idle: int = 0

    def matrix(self) -> np.ndarray:
        """X."""
        return self.X.copy()


@dataclass(frozen=True)
class LogDetNewton:
    """Newton's method for the LogDet-nearest matrix with a unit diagonal: ``X = (C^-1 + diag(mu))^-1``, and ``X o X`` is the Hessian of -g.

    Notes
    -----
    Kulis 2009, Algorithm 1, projects onto one diagonal entry at a time. For entries with ``X_ii > 1`` a step solves ``1 / X_ii = 1``,
    which is linear in mu if C is diagonal; the Hessian is the same. A step costs 4/3 n^3 operations. If C has small eigenvalues, or its
    variables differ in scale, this can take thousands of steps.

    :class:`bregmat.solvers.dual_newton.DualNewton` takes four times as long (n = 20 to 500): it works in coordinates in which C is the
    identity, computes a spectrum for each line search, and its overhead at n = 100 exceeds the time of this solver.
    """

    name: ClassVar[str] = "logdet_newton"
    works_on: ClassVar[str] = "dual_bound"
    max_iter: ClassVar[int] = 200

    def check(self, problem: CorrelationProblem) -> None:
        """Accept every problem that is passed."""

    def init(self, problem: CorrelationProblem, tol: float, start: np.ndarray | None) -> _LogDetState:
        """Start at the prior."""
        X = problem.basis @ problem.basis.T
        return _measured(problem, np.zeros(problem.c), X, -problem.logdet)

    def step(self, problem: CorrelationProblem, state: _LogDetState) -> _LogDetState:
        """One Newton step with Armijo's rule."""
        x = state.values
        H, ok = cholesky(state.X * state.X)
        if not ok:
            return replace(state, stalled=True)
        d = cholesky_solve(H, (x - 1.0) * np.maximum(x, 1.0))
        slope = float((x - 1.0) @ d)
        if not slope > 0:
            return replace(state, stalled=True)
        rounding = EPS * (
            8.0 * abs(problem.logdet) + 8.0 * float(np.abs(state.dual).sum()) + float(np.trace(problem.inverse))
        )

        def trial(alpha: float) -> tuple[tuple[np.ndarray, np.ndarray, float, float], float] | None:
            mu = state.dual + alpha * d
            L, ok = cholesky(add_diagonal(problem.inverse.copy(), mu))
            if not ok:
                return None
            logdet = logdet_of_factor(L)
            gain = logdet - state.logdet - float((mu - state.dual).sum())
            return (mu, L, logdet, gain), -gain

        accepted = armijo(trial, 0.0, -slope, rounding=rounding)
        if accepted is None:
            return replace(state, signal=slope, stalled=True)
        mu, L, logdet, gain = accepted[0]
        new = _measured(problem, mu, cholesky_inverse(L), logdet)
        idle = 0 if gain > rounding else state.idle + 1
        return replace(new, idle=idle, stalled=idle >= 3)


def _measured(problem: CorrelationProblem, mu: np.ndarray, X: np.ndarray, logdet: float) -> _LogDetState:
    """The state at mu."""
    x = np.diag(X)
    objective = logdet + problem.logdet - float(problem.losses.bound @ mu)
    # an upper estimate of the gap, because a certificate costs as much as a step
    signal = 2.0 * float(((x - 1.0) ** 2 / (x * x)).sum())
    return _LogDetState(mu, x, objective, signal, logdet, X)
