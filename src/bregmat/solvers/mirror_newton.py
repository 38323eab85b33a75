"""Mirror Newton: inexact Newton in mirror coordinates ``T = phi'(M)`` for losses and slack.

Stationarity ``R = T - T0 + A*(loss'(p)) = 0`` with ``M = psi(T)``; the iterate is inside the cone whatever the step.
Each step solves one linear system (:func:`solve_newton_system`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bregmat.base.linalg import add_diagonal, armijo, cholesky, cholesky_solve, eigh
from bregmat.base.threads import cached_property
from bregmat.certificates.nearest_matrix import NearestMatrix
from bregmat.coordinates.priors import Iterate, iterate_at_prior
from bregmat.operators.linear_maps import Operator, smat, svec
from bregmat.solvers.base import MatrixState, SolverWithNeeds
from bregmat.solvers.newton_system import LinearSolution, by_euclidean_gradients

SAMPLE_FROM = 200_000  # rows from which on a sample of them is solved first
SAMPLE_SHARE = 0.125  # fraction of the rows in the sample
ROWS_PER_ENTRY = 400  # rows per entry of the matrix, at least: with fewer, the sample costs more than it saves
SAMPLE_STEPS = 12  # steps on a sample, at most
STAGE_TOL = 1e-2  # gap at which a stage is left, relative to its objective
DIRECT_FLOPS = 3e7  # a factorisation below this costs less than the overhead of conjugate gradients


@dataclass(frozen=True, eq=False)
class Stage:
    """The problem with the slack weights times ``share``; the last stage is the problem itself.

    The solution of each stage is the start of the next (the path of a penalty method; Nocedal and Wright 2006, chapter 17).
    """

    problem: NearestMatrix
    decades: float  # powers of ten by which the share grows next
    share: float = 1.0
    is_last: bool = True
    steps: int = 0  # taken in this stage

    @classmethod
    def of(cls, problem: NearestMatrix, share: float, decades: float) -> Stage:
        """The stage of this share."""
        if share >= 1.0:
            return cls(problem, decades)
        L = problem.losses
        losses = L.weighted(np.where(L.hard, L.gamma, share * L.gamma))
        return cls(replace(problem, losses=losses), decades, share, is_last=False)

    def next(self, problem: NearestMatrix) -> Stage:
        """The following stage: the share grows faster if this stage took at most 3 steps, more slowly if more than 6."""
        factor = 1.5 if self.steps <= 3 else 0.6 if self.steps > 6 else 1.0
        decades = min(1.0, max(0.1, self.decades * factor))
        return Stage.of(problem, self.share * 10.0**decades, decades)


class _Point(NamedTuple):
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


@dataclass(frozen=True, eq=False)
class SampledState(MatrixState):
    """An iterate for a sample of the rows, from which the solver starts on all rows.

    Values and dual weights are those of all rows, computed when a certificate needs them.
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
        """The iterate of the sample."""
        return self.inner.iterate

    @property
    def objective(self) -> float:  # type: ignore[override]
        """The objective of the sample, whose rows have weights that stand for the others."""
        return self.inner.objective

    @cached_property
    def values(self) -> np.ndarray:
        """Values of all rows at the iterate."""
        return self.stage.problem.operator.congruence(self.iterate.F).values_diagonal(self.iterate.x)

    @cached_property
    def dual(self) -> np.ndarray:
        """Derivatives of the losses of all rows."""
        return self.stage.problem.losses.derivatives(self.values)[0]

    def is_finite(self) -> bool:
        """Whether all numbers of the sample are finite."""
        return self.inner.is_finite()


@dataclass(frozen=True)
class MirrorNewton(SolverWithNeeds):
    """Newton's method in mirror coordinates; the default for losses and slack.

    Notes
    -----
    Heavy slack weights are approached in stages: the problem with light ones first, roughly solved, then with up to ten times heavier
    ones, up to the given ones (the path of a penalty method; Nocedal and Wright 2006, chapter 17).

    From 200,000 rows on, and 400 per entry of the matrix, the solver first solves a sample of an eighth of the rows roughly. Three or
    four steps remain for all rows. Certificates always refer to all rows.

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

    def init(
        self, problem: NearestMatrix, tol: float, start: np.ndarray | Iterate | None
    ) -> MirrorNewtonState | SampledState:
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
        stage, light = Stage(problem, 1.0), 30.0
        if start is None:  # the first stage is light: 30 is the geometric mean of the strengths of its rows
            strength = np.exp(np.log(problem.losses.strengths(problem.unit)).sum() / problem.c)
            if strength > light:
                stage = Stage.of(problem, light / strength, 1.0)
        if start is None and problem.c >= max(SAMPLE_FROM, ROWS_PER_ENTRY * problem.r * (problem.r + 1) / 2):
            rows = problem.operator.drawn(SAMPLE_SHARE)
            losses = stage.problem.losses.restrict(rows)
            sample = replace(
                problem,
                operator=problem.operator.restrict(rows),
                losses=losses.weighted(losses.gamma / SAMPLE_SHARE),
                unit=problem.unit[rows],
            )
            inner = _measured(sample, Stage(sample, 1.0), _shrunk_prior(sample), tol)
            return SampledState(stage, sample, inner, inner.objective)
        point = None if iterate is None else _point(problem, iterate)
        if point is None or len(problem.losses.outside(point.values)):
            point = _shrunk_prior(stage.problem)
        return _measured(problem, stage, point, tol)

    def step(self, problem: NearestMatrix, state: MirrorNewtonState | SampledState) -> MirrorNewtonState | SampledState:
        """One inexact Newton step: on a sample as long as that helps, then on all rows, stage after stage."""
        if isinstance(state, SampledState):
            return self._sample_step(problem, state)
        S, R, F, stage = state.metric, state.residual, state.cost, state.stage
        # E + S o A*(h . A(S o E)) = -S o R, solved until the residual falls by min(0.1, |S o R|)
        B = -R if S is None else -(S * R)
        norm = float(np.linalg.norm(B))
        active, h = state.active, state.curvature
        # |S o R|^2 / 2 is the gap to second order: a tenth of its goal is enough
        enough = np.sqrt(0.2 * (state.tol if stage.is_last else STAGE_TOL) * max(1.0, abs(F)))
        rough = None
        if active.c >= max(SAMPLE_FROM, ROWS_PER_ENTRY * problem.r * (problem.r + 1) / 2):
            rows = active.drawn(SAMPLE_SHARE)
            rough = active.restrict(rows), h[rows] / SAMPLE_SHARE
        E = solve_newton_system(active, h, S, B, tol=max(min(0.1, norm) * norm, enough), rough=rough).E
        dT = E if S is None else _mirror_step(E, S, R, active, h)
        # slope of the objective: <R, dM> with dM = S o E
        slope = float(np.vdot(R, E if S is None else S * E))

        def trial(alpha: float) -> tuple[_Point, float] | None:
            iterate = state.iterate.moved(E, dT, alpha)
            if iterate is None:
                return None
            point = _point(stage.problem, iterate)
            return point, point.cost

        found = armijo(trial, F, slope, rounding=1e-15 * abs(F) * problem.r)
        new = state
        if found is not None:
            new = _measured(problem, replace(stage, steps=stage.steps + 1), found[0], state.tol)
        if found is None or (new.cost >= F and new.excess >= state.excess):
            new = replace(new, stalled=True)
        is_far = new.excess > STAGE_TOL * abs(new.cost) and not new.stalled
        if stage.is_last or is_far:
            return new
        following = new.stage.next(problem)
        return _measured(problem, following, _point(following.problem, new.iterate), new.tol)

    def _sample_step(self, problem: NearestMatrix, state: SampledState) -> MirrorNewtonState | SampledState:
        """A step on the sample; the first state of all rows if the sample is solved roughly."""
        least_decrease = 1e-3  # relative decrease of a step below which the sample is solved
        inner = self.step(state.sample, state.inner)
        assert isinstance(inner, MirrorNewtonState)
        if inner.is_finite():
            last, state = state.objective, replace(state, inner=inner, steps=state.steps + 1)
            is_falling = inner.objective < (1.0 - least_decrease) * last
            if is_falling and not inner.stalled and state.steps < SAMPLE_STEPS:
                return state
        return _measured(problem, state.stage, _transferred(state) or _shrunk_prior(state.stage.problem), inner.tol)


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
        b = svec(B)
        if op.c < m:
            # Woodbury: (I + Phi' h Phi)^-1 = I - Phi' (1/h + Phi Phi')^-1 Phi
            few = op.features(S)
            C, ok = cholesky(add_diagonal(few @ few.T, 1.0 / h))
            if ok:
                return LinearSolution(smat(b - few.T @ cholesky_solve(C, few @ b), op.r), 0, 0.0)
        else:
            C, ok = cholesky(add_diagonal(op.normal_matrix(h, S), 1.0))
            if ok:
                return LinearSolution(smat(cholesky_solve(C, b), op.r), 0, 0.0)
    return by_euclidean_gradients(op, h, S, B, tol, max_steps, single and op.c * op.r > 20_000, rough)


def _transferred(state: SampledState) -> _Point | None:
    """The point of a sample on all rows; None if it fits the sample much better than all rows, which is a bad start."""
    most_lost = 0.25  # fraction of the sample's progress that may be lost on all rows
    problem = state.stage.problem
    point = _point(problem, state.iterate)
    is_good = point.cost - state.objective <= most_lost * (state.first - state.objective)
    return point if is_good and not len(problem.losses.outside(point.values)) else None


def _point(problem: NearestMatrix, iterate: Iterate) -> _Point:
    """An iterate with its values and the objective ``D(M, M0) + sum loss(p)``."""
    framed = problem.operator.congruence(iterate.F)
    p = framed.values_diagonal(iterate.x)
    return _Point(iterate, framed, p, iterate.value() + problem.losses.value(p))


def _measured(problem: NearestMatrix, stage: Stage, point: _Point, tol: float) -> MirrorNewtonState:
    """The state at a point: derivatives of the losses, the residual ``R = T - T0 + A*(loss'(p))`` and the metric S."""
    iterate, framed, p, cost = point
    g, h = stage.problem.losses.derivatives(p)
    on = np.flatnonzero(h > 0)
    active = framed.restrict(on)
    R = iterate.residual(active.adjoint(g[on]))
    S = iterate.S
    excess = 0.5 * float(np.linalg.norm(R if S is None else S * R)) ** 2
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


def _shrunk_prior(problem: NearestMatrix) -> _Point:
    """The prior, or ``(M0^-1 + theta A*(1/|b|))^-1`` for the best theta of a grid.

    It is better if the prior violates the bounds by orders of magnitude, as on unscaled data.
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
