"""Mirror Newton: inexact Newton in mirror coordinates ``T = phi'(M)`` for losses and slack.

Stationarity ``R = T - T0 + A*(loss'(p)) = 0`` with ``M = psi(T)``; the iterate is inside the cone whatever the step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bregmat.base.checks import check_share, rows_text
from bregmat.base.linalg import add_diagonal, eigh
from bregmat.base.numerics import armijo
from bregmat.base.threads import cached_property
from bregmat.certificates.nearest_matrix import NearestMatrix
from bregmat.coordinates.iterates import Iterate, iterate_at_prior
from bregmat.operators.linear_maps import Operator
from bregmat.run.loop import MatrixState
from bregmat.solvers.needs import Settings, SolverWithNeeds, check_needs, count
from bregmat.solvers.newton_system import solve_newton_system
from bregmat.solvers.stages import Stage

MANY = 200_000  # rows from which on a sample of them is solved first
SHARE = 0.125  # of the rows in it
RICH = 50  # rows of a sample, over entries of the matrix: a poorer one costs what it saves
PATIENCE = 12  # steps on a sample
SMALL = (
    1e-3  # relative decrease of a step after which a sample is solved; directions that grow slowly are cheaper there
)
TOLD = 0.25  # share of its own progress that may be lost on all rows
LIGHT = 30.0  # strength of the rows in the first stage, geometric mean; dimensionless
ROUGH = 1e-2  # how near to its solution a stage is left, relative to its objective
LIGHT = 30.0  # strength of the rows in the first stage: median, dimensionless
ROUGH = 1e-2  # how near to its solution a stage is left, relative to its objective


class _Point(NamedTuple):
    """An iterate with the rows in its frame, their values, and the objective of a stage."""

    iterate: Iterate
    rows: Operator
    values: np.ndarray
    cost: float


@dataclass(frozen=True, eq=False)
class MirrorNewtonState(MatrixState):
    """One iterate of a stage: violated rows in its frame, values, losses' derivatives, objectives and residual."""

    stage: Stage
    iterate: Iterate
    active: Operator  # violated rows in the frame of the iterate
    curvature: np.ndarray  # of the violated rows
    values: np.ndarray
    dual: np.ndarray
    cost: float  # objective of the stage
    objective: float
    residual: np.ndarray
    metric: np.ndarray | None
    excess: float  # estimate of what the cost has still to fall
    tol: float
    stalled: bool = False
    linear_steps: int = 0

    @property
    def signal(self) -> float:  # type: ignore[override]
        """Estimate of the absolute gap; none before the last stage."""
        return self.excess if self.stage.is_last else np.inf


@dataclass(frozen=True, eq=False)
class SampledState(MatrixState):
    """An iterate for a sample of the rows, from which all of them start.

    Values and dual weights are those of all rows, worked out when a certificate asks.
    """

    stage: Stage  # of all rows
    sample: NearestMatrix
    inner: MirrorNewtonState
    first: float  # objective of the sample at its start
    steps: int = 0
    signal: float = np.inf
    stalled: bool = False

    @property
    def iterate(self) -> Iterate:
        """Of the sample."""
        return self.inner.iterate

    @property
    def objective(self) -> float:  # type: ignore[override]
        """Of the sample, whose weights make up for the rows that are not in it."""
        return self.inner.objective

    @cached_property
    def values(self) -> np.ndarray:
        """Of all rows at the iterate."""
        return _framed(self.stage.problem, self.iterate)[1]

    @cached_property
    def dual(self) -> np.ndarray:
        """Derivatives of the losses of all rows."""
        return self.stage.problem.losses.derivatives(self.values)[0]

    def is_finite(self) -> bool:
        """Whether no number of the sample has overflowed."""
        return self.inner.is_finite()


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
    Heavy slack weights are approached in stages: the problem with light ones first, roughly solved, then with up to ten times heavier
    ones, to those that were given (the path of a penalty method; Nocedal and Wright 2006, chapter 17).

    Many rows (from 200,000 on, and 400 per entry of the matrix) start from the solution for a sample of an eighth of them, roughly
    solved: three or four steps are left for all rows. What is proven is proven of all.

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

    def _settings(self) -> Settings:
        return {count: ("max_linear_steps",), check_share: ("sufficient",)}

    def check(self, problem: NearestMatrix) -> None:
        """A finite loss of every row, at the prior too, where the first step starts."""
        L = problem.losses
        low = np.zeros(0, np.int64) if L.has_hard else L.outside(problem.operator.values_diagonal(problem.prior))
        further = [f"positive values at the prior of rows whose loss is for positive ones ({rows_text(low)})"] * bool(
            len(low)
        )
        check_needs(self, problem, further=further)

    def init(
        self, problem: NearestMatrix, tol: float, start: np.ndarray | Iterate | None
    ) -> MirrorNewtonState | SampledState:
        """Start at the prior, at the best of a few shrunk priors, at the mirror point of dual weights, or at a matrix as it is."""
        iterate = _from_dual(problem, start) if isinstance(start, np.ndarray) else start
        stage = Stage.of(problem, _first_share(problem) if start is None else 1.0, 1.0)
        if start is None and _is_rich(problem, problem.c):
            sample = stage.problem.sampled(SHARE)
            inner = _measured(sample, Stage.of(sample, 1.0, 1.0), _shrunk_prior(sample), tol)
            return SampledState(stage, sample, inner, inner.objective)
        point = None if iterate is None else _point(problem, iterate)
        if point is None or len(problem.losses.outside(point.values)):
            point = _shrunk_prior(stage.problem)
        return _measured(problem, stage, point, tol)

    def step(self, problem: NearestMatrix, state: MirrorNewtonState | SampledState) -> MirrorNewtonState | SampledState:
        """One inexact Newton step with Armijo's rule, for a sample as long as that helps, and for light weights before heavy ones."""
        if not isinstance(state, SampledState):
            return self._forward(problem, self._newton_step(problem, state))
        inner = self._newton_step(state.sample, state.inner)
        if inner.is_finite():
            last, state = state.objective, replace(state, inner=inner, steps=state.steps + 1)
            if inner.objective < (1.0 - SMALL) * last and not inner.stalled and state.steps < PATIENCE:
                return state
        return _measured(problem, state.stage, _told(state) or _shrunk_prior(state.stage.problem), inner.tol)

    def _forward(self, problem: NearestMatrix, state: MirrorNewtonState) -> MirrorNewtonState:
        """The state in the next stage, or as it is in the last one and far from the solution of its own."""
        if state.stage.is_last or (state.excess > ROUGH * abs(state.cost) and not state.stalled):
            return state
        stage = state.stage.next(problem)
        return _measured(problem, stage, _point(stage.problem, state.iterate), state.tol, state.linear_steps)

    def _newton_step(self, problem: NearestMatrix, state: MirrorNewtonState) -> MirrorNewtonState:
        S, R, F, stage = state.metric, state.residual, state.cost, state.stage
        B = -R if S is None else -(S * R)
        norm = float(np.linalg.norm(B))
        active, h = state.active, state.curvature
        enough = np.sqrt(0.2 * (state.tol if stage.is_last else ROUGH) * max(1.0, abs(F)))
        rough = _sampled(active, h) if _is_rich(problem, active.c) else None
        goal = max(min(0.1, norm) * norm, enough)
        solution = solve_newton_system(active, h, S, B, tol=goal, max_steps=self.max_linear_steps, rough=rough)
        E = solution.E
        dT = E if S is None else _mirror_step(E, S, R, active, h)
        slope = float(np.vdot(R, E if S is None else S * E))
        floor = 1e-15 * abs(F) * problem.r

        def trial(alpha: float) -> tuple[_Point, float] | None:
            iterate = state.iterate.moved(E, dT, alpha)
            if iterate is None:
                return None
            point = _point(stage.problem, iterate)
            return point, point.cost

        found = armijo(trial, F, slope, rounding=floor, sufficient=self.sufficient)
        if found is None:
            return replace(state, stalled=True)
        new = _measured(problem, stage.stepped(), found[0], state.tol, state.linear_steps + solution.steps)
        return replace(new, stalled=True) if new.cost >= F and new.excess >= state.excess else new


def _is_rich(problem: NearestMatrix, rows: int) -> bool:
    """Whether a sample of so many rows says much of all of them."""
    return rows >= max(MANY, RICH / SHARE * problem.r * (problem.r + 1) / 2)


def _sampled(op: Operator, h: np.ndarray) -> tuple[Operator, np.ndarray]:
    """A sample of rows, with curvatures that make up for the others."""
    rows = op.drawn(SHARE)
    return op.restrict(rows), h[rows] / SHARE


def _first_share(problem: NearestMatrix) -> float:
    """Share of the slack weights with which rows are light; 1 where they are with all of them."""
    strength = np.exp(np.log(problem.losses.strengths(problem.unit)).sum() / problem.c)
    return min(1.0, LIGHT / max(strength, 1e-300))


def _told(state: SampledState) -> _Point | None:
    """The point of a sample, where it is as good for all rows: what fits a few rows too well is a bad start."""
    problem = state.stage.problem
    point = _point(problem, state.iterate)
    is_good = point.cost - state.objective <= TOLD * (state.first - state.objective)
    return point if is_good and not len(problem.losses.outside(point.values)) else None


def _framed(problem: NearestMatrix, iterate: Iterate) -> tuple[Operator, np.ndarray]:
    framed = problem.operator.congruence(iterate.F)
    return framed, framed.values_diagonal(iterate.x)


def _point(problem: NearestMatrix, iterate: Iterate) -> _Point:
    framed, p = _framed(problem, iterate)
    return _Point(iterate, framed, p, iterate.value() + problem.losses.value(p))


def _measured(
    problem: NearestMatrix, stage: Stage, point: _Point, tol: float, linear_steps: int = 0
) -> MirrorNewtonState:
    iterate, framed, p, cost = point
    g, h = stage.problem.losses.derivatives(p)
    on = np.flatnonzero(h > 0)
    active = framed.restrict(on)
    R = iterate.residual(active.adjoint(g[on]))
    S = iterate.metric()
    excess = 0.5 * float(np.linalg.norm(R if S is None else S * R)) ** 2
    F = cost if stage.is_last else iterate.value() + problem.losses.value(p)
    return MirrorNewtonState(stage, iterate, active, h[on], p, g, cost, F, R, S, excess, tol, linear_steps=linear_steps)


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


def _shrunk_prior(problem: NearestMatrix) -> _Point:
    """The prior, or ``(M0^-1 + theta A*(1/|b|))^-1`` for the best theta of a grid when that is clearly better.

    Helps where the prior violates its bounds by orders of magnitude, as on unscaled data.
    """
    D = problem.divergence
    first = best = _point(problem, iterate_at_prior(D, problem.t0))
    if not D.keeps_range or not best.cost > problem.c:
        return first
    A = problem.operator.adjoint(1.0 / problem.unit) / problem.c
    inverse = np.diag(1.0 / problem.prior)
    for theta in 10.0 ** np.arange(-2, 7):
        T = inverse + theta * A
        values, U = eigh(T)
        moved = first.iterate.at((U * D.link(1.0 / values)) @ U.T) if values[0] > 0 else None
        if moved is None:
            continue
        new = _point(problem, moved)
        if new.cost < best.cost:
            best = new
        elif best is not first:
            break
    return best
