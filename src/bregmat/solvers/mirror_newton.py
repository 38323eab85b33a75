"""Mirror Newton: inexact Newton in mirror coordinates ``T = phi'(M)`` for losses and slack.

Stationarity ``R = T - T0 + A*(loss'(p)) = 0`` with ``M = psi(T)``; the iterate is inside the cone whatever the step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bregmat.checks import rows_text
from bregmat.iterates import Iterate, iterate_at_prior
from bregmat.linalg import add_diagonal, eigh
from bregmat.numerics import armijo
from bregmat.operators import Operator
from bregmat.problems import NearestMatrix
from bregmat.solve import MatrixState
from bregmat.solvers.needs import SolverWithNeeds, check_needs
from bregmat.solvers.newton_system import solve_newton_system

_Point = tuple[Iterate, Operator, np.ndarray]  # with the rows in its frame, and their values


@dataclass(frozen=True, eq=False)
class MirrorNewtonState(MatrixState):
    """One iterate: iterate, violated rows in its frame, values, losses' derivatives, objective and residual."""

    iterate: Iterate
    active: Operator  # violated rows in the frame of the iterate
    curvature: np.ndarray  # of the violated rows
    values: np.ndarray
    dual: np.ndarray
    objective: float
    residual: np.ndarray
    metric: np.ndarray | None
    signal: float
    tol: float
    stalled: bool = False
    linear_steps: int = 0


@dataclass(frozen=True)
class MirrorNewton(SolverWithNeeds):
    """Newton's method in mirror coordinates; the default for losses and slack.

    Parameters
    ----------
    max_linear_steps : int
        Limit on conjugate gradient steps per Newton step.
    sufficient : float
        Share of the predicted decrease that a step must bring (Armijo).

    Notes
    -----
    Cost per step: a few dozen products of each row with an r x r matrix, restricted to rows with curvature, and one
    factorisation or eigendecomposition per line-search trial. Heavy slack weights on badly scaled data make the loss
    nearly piecewise linear; then ``interior_point`` is the robust choice.
    """

    name = "mirror_newton"
    works_on = "objective"
    max_iter = 200
    needs_divergence = ("from_diagonal", "divided")
    needs_loss = ("is_smooth",)
    max_linear_steps: int = 500
    sufficient: float = 1e-4

    def check(self, problem: NearestMatrix) -> None:
        """A finite loss of every row, at the prior too, where the first step starts."""
        L = problem.losses
        low = np.zeros(0, np.int64) if L.has_hard else L.outside(problem.operator.values_diagonal(problem.prior))
        further = [f"positive values at the prior of rows whose loss is for positive ones ({rows_text(low)})"] * bool(
            len(low)
        )
        check_needs(self, problem, further=further)

    def init(self, problem: NearestMatrix, tol: float, start: np.ndarray | Iterate | None) -> MirrorNewtonState:
        """Start at the prior, at the best of a few shrunk priors, at the mirror point of dual weights, or at a matrix as it is."""
        iterate = _from_dual(problem, start) if isinstance(start, np.ndarray) else start
        if iterate is None or len(problem.losses.outside(_framed(problem, iterate)[2])):
            iterate = _shrunk_prior(problem)
        return _measured(problem, _framed(problem, iterate), tol)

    def step(self, problem: NearestMatrix, state: MirrorNewtonState) -> MirrorNewtonState:
        """One inexact Newton step with Armijo's rule."""
        S, R, F = state.metric, state.residual, state.objective
        B = -R if S is None else -(S * R)
        norm = float(np.linalg.norm(B))
        active, h = state.active, state.curvature
        enough = np.sqrt(0.2 * state.tol * max(1.0, abs(F)))
        solution = solve_newton_system(
            active, h, S, B, tol=max(min(0.1, norm) * norm, enough), max_steps=self.max_linear_steps
        )
        E = solution.E
        dT = E if S is None else _mirror_step(E, S, R, active, h)
        slope = float(np.vdot(R, E if S is None else S * E))
        floor = 1e-15 * abs(F) * problem.r

        def trial(alpha: float) -> tuple[_Point, float] | None:
            iterate = state.iterate.moved(E, dT, alpha)
            if iterate is None:
                return None
            point = _framed(problem, iterate)
            return point, iterate.value() + problem.losses.value(point[2])

        found = armijo(trial, F, slope, rounding=floor, sufficient=self.sufficient)
        if found is None:
            return replace(state, stalled=True)
        new = _measured(problem, found[0], state.tol, state.linear_steps + solution.steps)
        return replace(new, stalled=new.objective >= F and new.signal >= state.signal)


def _framed(problem: NearestMatrix, iterate: Iterate) -> _Point:
    framed = problem.operator.congruence(iterate.F)
    return iterate, framed, framed.values_diagonal(iterate.x)


def _measured(problem: NearestMatrix, point: _Point, tol: float, linear_steps: int = 0) -> MirrorNewtonState:
    iterate, framed, p = point
    g, h = problem.losses.derivatives(p)
    F = iterate.value() + problem.losses.value(p)
    on = np.flatnonzero(h > 0)
    active = framed.restrict(on)
    R = iterate.residual(active.adjoint(g[on]))
    S = iterate.metric()
    signal = 0.5 * float(np.linalg.norm(R if S is None else S * R)) ** 2
    return MirrorNewtonState(iterate, active, h[on], p, g, F, R, S, signal, tol, linear_steps=linear_steps)


def _mirror_step(E: np.ndarray, S: np.ndarray, R: np.ndarray, active: Operator, h: np.ndarray) -> np.ndarray:
    """``E / S``, and the equal but stable ``-R - A*(h . A(S o E))`` where S vanishes."""
    tiny = S < 1e-100
    if not tiny.any():
        return E / S
    stable = -R - active.adjoint(h * active.values(S * E))
    return np.where(tiny, stable, E / np.where(tiny, 1.0, S))


def _from_dual(problem: NearestMatrix, mu: np.ndarray) -> Iterate | None:
    """The mirror point ``T0 - A*(mu)``, shrunk into the domain."""
    iterate = iterate_at_prior(problem.divergence, problem.t0)
    A = problem.operator.adjoint(mu)
    for _ in range(60):
        moved = iterate.at(add_diagonal(-A, problem.t0))
        if moved is not None:
            return moved
        A = 0.5 * A
    return None


def _shrunk_prior(problem: NearestMatrix) -> Iterate:
    """The prior, or ``(M0^-1 + theta A*(1/|b|))^-1`` for the best theta of a grid when that is clearly better.

    Helps where the prior violates its bounds by orders of magnitude, as on unscaled data.
    """
    D, L = problem.divergence, problem.losses
    iterate = iterate_at_prior(D, problem.t0)
    best = iterate.value() + L.value(_framed(problem, iterate)[2])
    if not D.keeps_range or not best > problem.c:
        return iterate
    A = problem.operator.adjoint(1.0 / problem.unit) / problem.c
    inverse = np.diag(1.0 / problem.prior)
    found: Iterate = iterate
    for theta in 10.0 ** np.arange(-2, 7):
        T = inverse + theta * A
        values, U = eigh(T)
        moved = iterate.at((U * D.link(1.0 / values)) @ U.T) if values[0] > 0 else None
        if moved is None:
            continue
        value = moved.value() + L.value(_framed(problem, moved)[2])
        if value < best:
            best, found = value, moved
        elif found is not iterate:
            break
    return found
