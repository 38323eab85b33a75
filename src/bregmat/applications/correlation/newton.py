"""Newton's method on the dual if the rows prescribe single entries of a matrix: a unit diagonal and fixed entries.

``A*(mu)`` is then a symmetric sparse matrix Y(mu), so that products with it cost little beside those with eigenvectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.correlation.entries import Entries
from bregmat.applications.correlation.problem import CorrelationProblem, DenseState
from bregmat.base.linalg import (
    add_diagonal,
    armijo,
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    conjugate_gradients,
    eigh,
    logdet_of_factor,
)
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import EPS
from bregmat.coordinates.priors import Spectral


class Curvature:
    """The Hessian of -g: ``v -> values(U (Psi o U' Y(v) U) U')`` with the divided differences Psi of the inverse link.

    For Frobenius Psi is 1 if both eigenvalues are positive and 0 if both are negative. So Psi is ``W + W'`` or ``1 - W - W'`` (`base`
    is 0 or 1), and W has only the rows of the eigenvectors S of the less frequent sign. A product costs ``4 n^2 |S|`` operations.

    Parameters
    ----------
    divergence : SpectralDivergence
    entries : Entries
    t, U : ndarray, shapes (n,) and (n, n)
        Eigenvalues in ascending order, and eigenvectors, of ``T0 - Y(mu)``.
    """

    def __init__(self, divergence: Any, entries: Entries, t: np.ndarray, U: np.ndarray) -> None:
        self.entries, self.U, self.base = entries, U, 0.0
        if divergence.keeps_range:
            self.S, self.W = U, 0.5 * divergence.divided(t)
            return
        first = int(np.searchsorted(t, 0.0, side="right"))  # index of the first positive eigenvalue
        last = len(t) - first
        mixed = t[first:, None] / (t[first:, None] - t[:first])
        if last <= first:
            self.S, self.W = U[:, first:], np.hstack([mixed, np.full((last, last), 0.5)])
        else:
            self.S, self.W = U[:, :first], np.hstack([np.full((first, first), 0.5), 1.0 - mixed.T])
            self.base = 1.0

    def product(self, v: np.ndarray) -> np.ndarray:
        """Hessian times v."""
        V = self.U @ (self.W * (self.entries.times(v, self.S).T @ self.U)).T
        part = self.entries.of_product(self.S, V)
        return part if self.base == 0.0 else np.concatenate([v[: self.entries.n], 0.5 * v[self.entries.n :]]) - part

    @cached_property
    def diagonal(self) -> np.ndarray:
        """The diagonal of the Hessian, exact for diagonal entries and estimated for pairs: the preconditioner."""
        diagonal = self.entries.of_product(self.S * self.S, (self.U * self.U) @ self.W.T)
        diagonal = diagonal if self.base == 0.0 else 1.0 - diagonal
        diagonal[self.entries.n :] *= 0.5
        return np.maximum(diagonal, 1e-8)


@dataclass(frozen=True, eq=False, kw_only=True)
class _NewtonState(DenseState):
    """A point of the dual, with what the next step needs of the last one.

    Subclasses have ``diagonal``, that of the Hessian of -g or an estimate, and ``direction(norm)``, the Newton step for a gradient of
    this norm; None if it cannot be computed.
    """

    problem: CorrelationProblem
    dual: np.ndarray
    values: np.ndarray  # type: ignore[assignment]
    objective: float  # the dual bound g(mu)
    rounding: float  # of the objective
    signal: float = np.inf
    stalled: bool = False
    norm: float = np.inf  # norm of the gradient before the last step
    idle: int = 0  # successive steps whose gain was below rounding

    @property
    def residual(self) -> np.ndarray:
        """``b - p``, the gradient of -g."""
        return self.problem.losses.bound - self.values


@dataclass(frozen=True, eq=False, kw_only=True)
class _SpectralState(_NewtonState):
    """A point of the dual in the eigenbasis of ``T0 - Y(mu)``."""

    t: np.ndarray
    U: np.ndarray

    @classmethod
    def at(cls, problem: CorrelationProblem, mu: np.ndarray) -> _SpectralState | None:
        """The state at mu; None outside the domain."""
        D, T = problem.divergence, problem.mirror - problem.entries.adjoint(mu)
        if not np.isfinite(T).all():
            return None
        t, U = eigh(T) if mu.any() else (problem.t0, problem.basis)
        if not D.in_domain(t):
            return None
        x = D.inverse_link(t)
        on = slice(int(np.searchsorted(x, 0.0, side="right")), None)
        p = problem.entries.of_product(U[:, on], 0.5 * U[:, on] * x[on])
        constant = D.constant(problem.t0)
        objective = constant - D.conjugate(t) - float(problem.losses.bound @ mu)
        rounding = 4.0 * EPS * (abs(objective) + 2.0 * abs(constant))
        return cls(problem=problem, dual=mu, values=p, objective=objective, rounding=rounding, t=t, U=U)

    @property
    def spectrum(self) -> np.ndarray:  # type: ignore[override]
        """The eigenvalues of the matrix."""
        return self.problem.divergence.inverse_link(self.t)

    def matrix(self) -> np.ndarray:
        """``psi(T)``."""
        x = self.spectrum
        B = self.U[:, x > 0] * np.sqrt(x[x > 0])
        return B @ B.T

    @property
    def iterate(self) -> Spectral:  # type: ignore[override]
        """``psi(T)`` in the coordinates of the problem."""
        return Spectral(self.problem.divergence, self.problem.t0, self.t, self.problem.basis.T @ self.U)

    @cached_property
    def curvature(self) -> Curvature:
        """The Hessian of -g."""
        return Curvature(self.problem.divergence, self.problem.entries, self.t, self.U)

    @property
    def diagonal(self) -> np.ndarray:
        """As in the base class."""
        return self.curvature.diagonal

    def direction(self, norm: float) -> np.ndarray:
        """Solved by conjugate gradients, to high accuracy, because a product costs a tenth of an eigendecomposition."""
        q, diagonal = self.residual, self.diagonal
        reduction = 0.03 if not np.isfinite(self.norm) else min(0.03, max(1e-4, (norm / self.norm) ** 1.5))
        proximal = min(1e-3, 0.1 * float(np.abs(q).max())) * diagonal
        end = conjugate_gradients(
            lambda v: self.curvature.product(v) + proximal * v,
            -q,
            goal=reduction * norm,
            max_iter=200,
            precondition=lambda r: r / diagonal,
        )
        return end.x if end.steps else -q / diagonal


@dataclass(frozen=True, eq=False, kw_only=True)
class _LogDetState(_NewtonState):
    """A point of the dual with ``X = (C^-1 + diag(mu))^-1``, whose Hessian ``X o X`` is an explicit matrix."""

    X: np.ndarray

    @classmethod
    def at(cls, problem: CorrelationProblem, mu: np.ndarray) -> _LogDetState | None:
        """The state at mu; None outside the domain."""
        inverse, X, objective = problem.inverse, problem.C, 0.0
        if mu.any():
            L, ok = cholesky(add_diagonal(inverse.copy(), mu))
            if not ok:
                return None
            X, objective = cholesky_inverse(L), logdet_of_factor(L) + problem.logdet - float(mu.sum())
        rounding = EPS * (8.0 * abs(problem.logdet) + 8.0 * float(np.abs(mu).sum()) + float(np.trace(inverse)))
        return cls(problem=problem, dual=mu, values=np.diag(X), objective=objective, rounding=rounding, X=X)

    def matrix(self) -> np.ndarray:
        """X."""
        return self.X.copy()

    @property
    def diagonal(self) -> np.ndarray:
        """As in the base class."""
        return self.values * self.values

    def direction(self, norm: float) -> np.ndarray | None:
        """If ``X_ii > 1``, that of the equation ``1 / X_ii = 1``, which is linear in mu if C is diagonal; the Hessian is the same."""
        x, (H, ok) = self.values, cholesky(self.X * self.X)
        return cholesky_solve(H, (x - 1.0) * np.maximum(x, 1.0)) if ok else None


@dataclass(frozen=True)
class EntryNewton:
    """Newton's method on the dual.

    Notes
    -----
    Qi and Sun, A quadratically convergent Newton method for computing the nearest correlation matrix (2006), with fixed entries as
    further rows, in the eigenvectors of the iterate. Each trial of a step costs one eigendecomposition, and each product with the
    Hessian ``4 n^2 k`` operations: k is the number of eigenvalues of the less frequent sign (von Neumann: n).

    For LogDet a step costs 4/3 n^3 operations. Kulis 2009, Algorithm 1, projects onto one diagonal entry at a time. If C has small
    eigenvalues, or its variables differ in scale, the method can take thousands of steps.

    :class:`bregmat.solvers.dual_newton.DualNewton` solves the same problem as (P) in about twice the time (LogDet: four times; n = 20 to
    500): in the eigenvectors of the prior, the adjoint and the frame of each trial cost two more products of order n, and so do all
    products with the Hessian; the restored matrix needs another eigendecomposition.
    """

    name: ClassVar[str] = "entry_newton"
    works_on: ClassVar[str] = "dual_bound"
    max_iter: ClassVar[int] = 200

    def check(self, problem: CorrelationProblem) -> None:
        """Accept every problem that is passed."""

    def init(self, problem: CorrelationProblem, tol: float, start: Any) -> Any:
        """Start at the prior or, if it is better, at ``mu = link(C_ii) - link(b)``, which solves the problem of a diagonal prior."""
        D, n = problem.divergence, problem.entries.n
        state = _at(problem, np.zeros(problem.c))
        size = state.values[:n] if D.keeps_range else np.diag(problem.C)
        mu = np.zeros(problem.c)
        mu[:n] = D.link(size) - D.link(problem.losses.bound[:n])
        if np.abs(mu).max() > (0.5 if D.keeps_range else 0.0):
            other = _at(problem, mu)
            state = other if other is not None and other.objective > state.objective else state
        rest = state.residual
        return replace(state, signal=_signal(problem, state, 2.0 * float(rest @ rest)))

    def step(self, problem: CorrelationProblem, state: Any) -> Any:
        """One Newton step with Armijo's rule."""
        q, diagonal = state.residual, state.diagonal
        norm = float(np.sqrt(q @ (q / diagonal)))
        if norm == 0.0:
            return replace(state, signal=0.0, stalled=True)
        d = state.direction(norm)
        if d is None:
            return replace(state, stalled=True)

        def trial(alpha: float) -> tuple[Any, float] | None:
            new = _at(problem, state.dual + alpha * d)
            return None if new is None else (new, -new.objective)

        accepted = armijo(trial, -state.objective, float(q @ d), rounding=state.rounding, max_trials=30)
        if accepted is None:
            return replace(state, signal=norm**2, stalled=True)
        new = accepted[0]
        rest = new.residual
        left = float(rest @ (rest / diagonal))
        idle = 0 if new.objective - state.objective > state.rounding or left < 0.25 * norm**2 else state.idle + 1
        return replace(new, signal=_signal(problem, new, 2.0 * left), norm=norm, idle=idle, stalled=idle >= 3)


def _at(problem: CorrelationProblem, mu: np.ndarray) -> Any:
    """The state at mu; None outside the domain."""
    return (_LogDetState if problem.divergence.is_congruence_invariant else _SpectralState).at(problem, mu)


def _signal(problem: CorrelationProblem, state: _NewtonState, gap: float) -> float:
    """An estimate of the gap, which is of second order without fixed entries.

    Writing fixed entries into X changes the objective by ``|X - C|`` times what they are missed by. If no matrix in the interior is
    known, X is feasible only if they are met: inf before that.
    """
    if not problem.entries.has_pairs:
        return gap
    rest = state.residual
    if problem.interior is None:
        return gap if np.abs(rest).max() <= problem.rounding else np.inf
    return gap + float(np.sqrt(2.0 * max(1.0, state.objective)) * np.linalg.norm(rest))
