"""Mirror Newton: inexact Newton in mirror coordinates ``T = phi'(M)`` for losses and slack.

Stationarity ``R = T - T0 + A*(loss'(p)) = 0`` with ``M = psi(T)``; the iterate is inside the cone whatever the step.
Each step solves one linear system (:func:`solve_newton_system`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bregmat.base.linalg import add_diagonal, armijo, cholesky, cholesky_solve, eigh
from bregmat.certificates.problem import NearestMatrix
from bregmat.coordinates.priors import Iterate, iterate_at_prior
from bregmat.operators.linear_maps import Operator, smat, svec, weighted_by
from bregmat.solvers.base import SAMPLE_FROM, MatrixState, SolverWithNeeds
from bregmat.solvers.continuation import Stage
from bregmat.solvers.newton_system import LinearSolution, by_euclidean_gradients

SAMPLE_SHARE = 0.125  # fraction of the rows in the sample
ROWS_PER_ENTRY = 400  # rows per entry of the matrix, at least: with fewer, the sample costs more than it saves
STAGE_TOL = 1e-2  # gap at which a stage is left, relative to its objective
DIRECT_FLOPS = 3e7  # a factorisation below this costs less than the overhead of conjugate gradients


class MeasuredPoint(NamedTuple):
    """An iterate with the rows in its frame, their values, and the objective of the stage."""

    iterate: Iterate
    rows: Operator
    values: np.ndarray
    cost: float


@dataclass(frozen=True, eq=False)
class MirrorNewtonState(MatrixState):
    """One iterate of a stage, with its violated rows, values, derivatives of the losses, objectives and residual."""

    stage: Stage
    iterate: Iterate
    active: Operator  # violated rows in the frame of the iterate
    curvature: np.ndarray  # of the violated rows
    values: np.ndarray
    dual: np.ndarray
    cost: float  # objective of the stage
    objective: float
    residual: np.ndarray
    metric: np.ndarray | None  # S
    excess: float  # estimate of the gap of the stage: |S o R|^2 / 2
    tol: float
    signal: float  # estimate of the absolute gap: the excess in the last stage, inf before
    stalled: bool = False


@dataclass(frozen=True)
class MirrorNewton(SolverWithNeeds):
    """Newton's method in mirror coordinates, for losses and slack; the default solves a sample first (:mod:`.sampled_newton`).

    Notes
    -----
    Heavy slack weights are approached in stages: the problem with light ones first, roughly solved, then with up to ten times heavier
    ones, up to the given ones (the path of a penalty method; Nocedal and Wright 2006, chapter 17).

    Cost per step: a few dozen products of each row with an r x r matrix, restricted to rows with curvature, and one
    factorisation or eigendecomposition per line-search trial. Heavy slack weights on badly scaled data make the loss
    nearly piecewise linear; then ``interior_point`` is the robust choice.
    """

    name = "mirror_newton"
    works_on = "objective"
    max_iter = 200
    needs_divergence = ("from_diagonal", "divided")
    needs_loss = ("is_smooth",)
    starts_at_prior = True

    def init(self, problem: NearestMatrix, tol: float, start: np.ndarray | Iterate | None) -> MirrorNewtonState:
        """Start at the prior, at the best of a few shrunk priors, at the mirror point of dual weights, or at the given matrix."""
        iterate = None if isinstance(start, np.ndarray) else start
        if isinstance(start, np.ndarray):  # the mirror point T0 - A*(mu), with mu halved until it is in the domain
            prior = iterate_at_prior(problem.divergence, problem.t0)
            A = problem.operator.adjoint(start)
            for _ in range(60):
                iterate = prior.at(add_diagonal(-A, problem.t0))
                if iterate is not None:
                    break
                A = 0.5 * A
        stage = first_stage(problem) if start is None else Stage(problem, 1.0)
        point = None if iterate is None else point_at(problem, iterate)
        if point is None or np.isinf(point.cost):
            point = first_point(stage.problem)
        return state_at(problem, stage, point, tol)

    def step(self, problem: NearestMatrix, state: MirrorNewtonState) -> MirrorNewtonState:
        """One inexact Newton step, stage after stage."""
        S, R, F, stage = state.metric, state.residual, state.cost, state.stage
        # E + S o A*(h . A(S o E)) = -S o R, solved until the residual falls by min(0.1, |S o R|)
        B = -weighted_by(S, R)
        norm = float(np.linalg.norm(B))
        active, h = state.active, state.curvature
        # |S o R|^2 / 2 is the gap to second order: a tenth of its goal is enough
        enough = np.sqrt(0.2 * (state.tol if stage.is_last else STAGE_TOL) * max(1.0, abs(F)))
        sample, rough = drawn_sample(active) if active.c >= SAMPLE_FROM else None, None
        if sample is not None:
            rough = active.restrict(sample[0]), h[sample[0]] * sample[1]
        E = solve_newton_system(active, h, S, B, tol=max(min(0.1, norm) * norm, enough), rough=rough).E
        dT = E if S is None else _mirror_step(E, S, R, active, h)
        # slope of the objective: <R, dM> with dM = S o E
        slope = float(np.vdot(R, weighted_by(S, E)))

        def trial(alpha: float) -> tuple[MeasuredPoint, float] | None:
            iterate = state.iterate.moved(E, dT, alpha)
            if iterate is None:
                return None
            point = point_at(stage.problem, iterate)
            return point, point.cost

        accepted = armijo(trial, F, slope, rounding=1e-15 * abs(F) * problem.r)
        new = state
        if accepted is not None:
            new = state_at(problem, replace(stage, steps=stage.steps + 1), accepted[0], state.tol)
        if accepted is None or (new.cost >= F and new.excess >= state.excess):
            new = replace(new, stalled=True)
        is_far = new.excess > STAGE_TOL * abs(new.cost) and not new.stalled
        if stage.is_last or is_far:
            return new
        following = new.stage.next(problem)
        return state_at(problem, following, point_at(following.problem, new.iterate), new.tol)


def solve_newton_system(
    op: Operator,
    h: np.ndarray,
    S: np.ndarray | None,
    B: np.ndarray,
    *,
    tol: float,
    max_steps: int = 500,
    direct_flops: float = DIRECT_FLOPS,
    single: bool = True,
    rough: tuple[Operator, np.ndarray] | None = None,
) -> LinearSolution:
    """Solve ``E + S o A*(h . A(S o E)) = B``.

    Parameters
    ----------
    op : Operator
        Rows with curvature, in the frame of the iterate.
    h : ndarray, shape (c,)
        Their curvatures, positive.
    S : ndarray, shape (r, r), or None
        Local metric; None is 1 everywhere.
    B : ndarray, shape (r, r)
    tol : float
        Absolute tolerance on the Frobenius norm of the residual.
    single : bool
        Whether large systems take products in float32. The residual is recursive, so keep ``tol`` above 1e-6 |B|.
    rough : (Operator, ndarray), optional
        A sample of the rows, with weights that stand for the others, from which the preconditioner is made.
    """
    if op.c == 0:
        return LinearSolution(B, 0, 0.0)
    m = op.r * (op.r + 1) // 2
    if op.factor_flops() <= direct_flops and not (op.is_sharded and op.c < m):
        if op.c < m:
            # Woodbury: E = B - S o A*(w) with (1/h + G) w = A(S o B) and the Gram matrix G of the S o A_i
            C, ok = cholesky(add_diagonal(op.gram(S), 1.0 / h))
            if ok:
                w = cholesky_solve(C, op.values(weighted_by(S, B)))
                return LinearSolution(B - weighted_by(S, op.adjoint(w)), 0, 0.0)
        else:
            C, ok = cholesky(add_diagonal(op.normal_matrix(h, S), 1.0))
            if ok:
                return LinearSolution(smat(cholesky_solve(C, svec(B)), op.r), 0, 0.0)
    return by_euclidean_gradients(op, h, S, B, tol, max_steps, single and op.c * op.r > 20_000, rough)


def drawn_sample(rows: Operator) -> tuple[np.ndarray, float] | None:
    """Numbers of a sample of the rows, and the weight of each; None if there are so few that a sample saves no time."""
    is_large = rows.c >= max(SAMPLE_FROM, ROWS_PER_ENTRY * rows.r * (rows.r + 1) / 2)
    return (rows.drawn(SAMPLE_SHARE), 1.0 / SAMPLE_SHARE) if is_large else None


def first_stage(problem: NearestMatrix) -> Stage:
    """A stage of light slack weights if those of the problem are heavy, otherwise the problem itself."""
    light = 30.0  # geometric mean of the curvatures, in the units of the rows, in the first stage
    curvature = problem.losses.curvature_at_bound * problem.unit * problem.unit
    strength = np.exp(np.log(curvature).sum() / problem.c)
    return Stage.of(problem, light / strength, 1.0) if strength > light else Stage(problem, 1.0)


def point_at(problem: NearestMatrix, iterate: Iterate) -> MeasuredPoint:
    """An iterate with its values and the objective ``D(M, M0) + sum loss(p)``."""
    framed = problem.operator.congruence(iterate.F)
    p = framed.values_diagonal(iterate.x)
    return MeasuredPoint(iterate, framed, p, iterate.value() + problem.losses.value(p))


def state_at(problem: NearestMatrix, stage: Stage, point: MeasuredPoint, tol: float) -> MirrorNewtonState:
    """The state at a point: derivatives of the losses, the residual ``R = T - T0 + A*(loss'(p))`` and the metric S.

    Parameters
    ----------
    problem : NearestMatrix
        That of the last stage.
    stage : Stage
        Its slack weights are those of the residual.
    point : MeasuredPoint
    tol : float
        Relative gap at which the run stops.
    """
    iterate, framed, p, cost = point
    g, h = stage.problem.losses.derivatives(p)
    on = np.flatnonzero(h > 0)
    active = framed.restrict(on)
    R = iterate.residual(active.adjoint(g[on]))
    S = iterate.S
    excess = 0.5 * float(np.linalg.norm(weighted_by(S, R))) ** 2
    F = cost if stage.is_last else iterate.value() + problem.losses.value(p)
    signal = excess if stage.is_last else np.inf
    return MirrorNewtonState(stage, iterate, active, h[on], p, g, cost, F, R, S, excess, tol, signal)


def _mirror_step(E: np.ndarray, S: np.ndarray, R: np.ndarray, active: Operator, h: np.ndarray) -> np.ndarray:
    """``dT = E / S``; where S vanishes, ``-R - A*(h . A(S o E))``, which is equal by the Newton equation but stable."""
    tiny = S < 1e-100
    if not tiny.any():
        return E / S
    stable = -R - active.adjoint(h * active.values(S * E))
    return np.where(tiny, stable, E / np.where(tiny, 1.0, S))


def first_point(problem: NearestMatrix) -> MeasuredPoint:
    """The prior, or ``(M0^-1 + theta A*(1/|b|))^-1`` for the best theta of a grid.

    It is better if the prior violates the bounds by orders of magnitude, as on unscaled data.
    """
    D = problem.divergence
    first = best = point_at(problem, iterate_at_prior(D, problem.t0))
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
        new = point_at(problem, moved)
        if new.cost < best.cost:
            best = new
        elif best is not first:
            break
    return best
