"""Dual truncated Newton: maximise the dual bound over the signs of the multipliers.

``maximize g(mu) = phi*(T0) - phi*(T0 - A*(mu)) - sum loss*_i(mu_i)`` over the sign box. With ``M = psi(T0 - A*(mu))``
the gradient of -g is ``xi(mu) - A(M)`` (xi the relaxed bounds; b for hard rows) and its Hessian
``A (Psi o A* .) + diag(xi')``. For Frobenius, with ``psi = max(t, 0)``, this is the method of Qi and Sun (2006).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bregmat.base.checks import check_positive
from bregmat.base.linalg import armijo, eigvalsh
from bregmat.base.threads import seconds_left
from bregmat.base.tolerances import TINY
from bregmat.certificates.problem import NearestMatrix, dual_bound
from bregmat.coordinates.priors import Iterate, iterate_at_prior
from bregmat.operators.linear_maps import Operator
from bregmat.operators.parallel_rows import ParallelRows, without_opposing_pairs
from bregmat.solvers.base import MatrixState, SolverWithNeeds
from bregmat.solvers.box_qp import Model, flops, minimize_exactly, minimize_in_box
from bregmat.solvers.continuation import Stage

# ratio of the cost of restoring hard rows to the remaining gain of the dual; 2 to 200 on random rows, both of second order
RESTORING = 50.0
ROUNDS, CG_STEPS = 6, 60  # rounds of conjugate gradients in one Newton step, and steps in one round


@dataclass(frozen=True, eq=False)
class _DualState(MatrixState):
    """A point of the dual, with what the next step needs of the last one."""

    iterate: Iterate
    rows: Operator  # in the frame of the iterate
    dual: np.ndarray
    values: np.ndarray
    objective: float
    signal: float
    stalled: bool
    stage: Stage
    cost: float  # -g(mu) of the stage
    gradient: np.ndarray  # of the cost
    norm: float = np.inf  # projected gradient before the last step, in the norm of the diagonal of the Hessian
    first_norm: float = np.inf
    length: float = 1.0  # of the last step; 1 is a full Newton step
    precise: bool = False  # whether products are in double precision
    idle: int = 0  # successive steps that gained nothing beyond rounding
    missed: bool = False  # whether conjugate gradients once failed to reach their target


@dataclass(frozen=True)
class DualNewton(SolverWithNeeds):
    """Bound-constrained truncated Newton on the dual; for hard rows, equalities, and any mixture with soft rows.

    Prefer it wherever rows are hard; for soft rows only, mirror Newton needs no quadratic program in c variables.

    Parameters
    ----------
    proximal : float
        Largest proximal term, relative to the diagonal of the Hessian; dimensionless.

    Notes
    -----
    A step costs one eigendecomposition (Cholesky factorisation for LogDet) per trial and up to 360 products with the Hessian,
    2 c r^2 operations each. Heavy slack weights are approached in stages: from the prior, the first step would end at the boundary
    of the domain, since the mirror coordinates are then a small difference of large multipliers.
    """

    name = "dual_newton"
    works_on = "dual_bound"
    max_iter = 200
    needs_divergence = ("conjugate", "divided")
    needs_loss = ()
    proximal: float = 1e-3

    def __post_init__(self) -> None:
        check_positive("DualNewton: proximal", self.proximal, finite=True, zero=True)

    def init(self, problem: NearestMatrix, tol: float, start: np.ndarray | None) -> _DualState:
        """The prior, or a warm start shrunk into the domain."""
        mu, stage = np.zeros(problem.c), None
        if start is not None:
            value, warm = dual_bound(problem, without_opposing_pairs(problem.parallel_rows, problem.clip_dual(start)))
            if np.isfinite(value):
                mu, stage = warm, Stage(problem, 0.5)
        iterate = _iterate_at(problem, mu)
        if iterate is None:
            raise ValueError("the prior is outside the domain of the divergence.")
        return _measured(problem, stage or Stage.of(problem, _first_share(problem), 0.5), iterate, mu)

    def step(self, problem: NearestMatrix, state: _DualState) -> _DualState:
        """One Newton step: minimise the quadratic model in the box, then search along its minimiser."""
        q, model = state.gradient, self._model(state)
        parallel = problem.parallel_rows
        box = _step_box(state.stage.problem, state.dual, parallel)
        norm = model.projected_norm(q, *box)
        if norm == 0.0:
            return _in_next_stage(problem, replace(state, signal=min(state.signal, 0.0), stalled=True))
        first = state.first_norm if np.isfinite(state.first_norm) else norm
        # relative residual to which the model is solved: smaller if the last step converged fast (Eisenstat and Walker 1996)
        is_fast = np.isfinite(state.norm) and state.length >= 0.3
        goal = min(0.3, max(1e-3, (norm / state.norm) ** 1.5)) if is_fast else 0.3
        accepted, predicted, reached = self._descent(model, box, parallel.intervals, state, goal)
        if accepted is None:  # once more with products in double precision, then the solver gives up
            new = replace(state, precise=True, missed=True, stalled=state.precise, norm=norm, first_norm=first)
            return _in_next_stage(problem, new) if state.precise else new
        iterate, mu, length = accepted
        new = _measured(problem, replace(state.stage, steps=state.stage.steps + 1), iterate, mu)
        after = model.projected_norm(new.gradient, *_step_box(state.stage.problem, mu, parallel))
        # remaining decrease of -g: predicted decrease of this step times the ratio of the squared gradients after and before it
        left = predicted * min(1.0, (after / norm) ** 2) if length >= 0.5 else np.inf
        gained = state.cost - new.cost > 1e-14 * max(1.0, abs(new.cost))
        idle = 0 if gained else state.idle + 1
        signal = new.signal  # the exact gap if no row is hard
        if problem.losses.has_hard:  # with the cost of restoring hard rows
            signal = RESTORING * left if new.stage.is_last else np.inf
        new = replace(
            new,
            signal=signal,
            norm=norm,
            first_norm=first,
            length=length,
            precise=state.precise or idle > 0,
            idle=idle,
            missed=state.missed or not reached,
            stalled=idle >= 3,
        )
        return _in_next_stage(problem, new) if new.stalled or left <= 1e-2 * abs(new.cost) else new

    def _descent(
        self, model: Model, box: tuple[np.ndarray, np.ndarray], intervals: np.ndarray, state: _DualState, goal: float
    ) -> tuple[tuple[Iterate, np.ndarray, float] | None, float, bool]:
        """What the line search found along the minimiser of the model, the predicted decrease, and whether its goal was reached."""
        predicted, reached = 0.0, True
        for force in (_link_gradient(state.stage.problem, state), state.gradient):
            if force is None:
                continue
            d, Hd, reached = self._minimiser(model, force, box, intervals, state, goal)
            slope = float(state.gradient @ d)
            predicted = -(float(force @ d) + 0.5 * float(d @ Hd))
            accepted = _search(state.stage.problem, state, d, slope) if slope < 0 else None
            if accepted is not None:
                return accepted, predicted, reached
        return None, predicted, reached

    def _minimiser(
        self,
        model: Model,
        force: np.ndarray,
        box: tuple[np.ndarray, np.ndarray],
        intervals: np.ndarray,
        state: _DualState,
        goal: float,
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """The minimiser d of the model in the box, ``H d``, and whether conjugate gradients reached their target."""
        d, Hd, reached = minimize_in_box(
            model, force, *box, intervals, reduction=goal, rounds=ROUNDS, cg_steps=CG_STEPS
        )
        # a few factorisations may cost less than one round of conjugate gradients
        free = int(((d > box[0]) & (d < box[1])).sum())
        is_cheap = 5.0 * flops(model, free) <= 4.0 * CG_STEPS * model.operator.c * model.operator.r**2
        if not reached and seconds_left() > 0 and (state.missed or is_cheap):
            exact = minimize_exactly(model, force, *box, d)
            if exact is not d:
                d, Hd = exact, model.product(exact)
        return d, Hd, reached

    def _model(self, state: _DualState) -> Model:
        """``H = A (Psi o A* .) + diag(xi')``, the Hessian of -g, with a small multiple of its diagonal added on hard rows."""
        problem, X, Psi = state.stage.problem, state.rows, state.iterate.Psi
        _, slope = problem.losses.relaxed(state.dual)
        diagonal = X.squared_norms(Psi)
        if Psi is not None and not Psi.all():  # the link has a kink (Frobenius): curvature may vanish
            diagonal = diagonal + 1e-6 * problem.operator.squared_norms(None)
        diagonal = diagonal + slope
        # the proximal term, relative to the diagonal, falls with the projected gradient, so convergence stays superlinear
        share = state.norm / state.first_norm if np.isfinite(state.norm) else 1.0
        proximal = self.proximal * min(1.0, 10.0 * share) + 1e-9
        if state.missed:
            # rows are dependent: small terms allow long steps, large ones prevent cycling of the active set; the two alternate
            proximal = 0.01 * proximal + self.proximal * 10.0 ** (-1 - 2 * (state.stage.steps % 3))
        slope = slope + np.where(problem.losses.hard, proximal, 1e-12) * diagonal
        single = not state.precise and X.c * X.r > 20_000  # below, float32 products save nothing
        dtype = np.float32 if single else np.float64
        return Model(
            operator=X.astype(np.float32) if single else X,
            weight=None if Psi is None else Psi.astype(dtype),
            slope=slope,
            diagonal=np.maximum(diagonal, TINY),
            dtype=dtype,
            flat=1e-6 if single else 1e-10,
        )


# ---------------------------------------------------------------------- points of the dual
def _iterate_at(problem: NearestMatrix, mu: np.ndarray) -> Iterate | None:
    """The iterate of ``T0 - A*(mu)``, or None outside the domain."""
    T = -problem.operator.adjoint(mu)
    T[np.diag_indices_from(T)] += problem.t0
    return iterate_at_prior(problem.divergence, problem.t0).at(T) if np.isfinite(T).all() else None


def _cost(problem: NearestMatrix, iterate: Iterate, mu: np.ndarray) -> float:
    """``-g(mu) = phi*(T) - phi*(T0) + sum loss*``."""
    return iterate.conjugate() + float(problem.losses.conjugate(mu).sum())


def _measured(problem: NearestMatrix, stage: Stage, iterate: Iterate, mu: np.ndarray) -> _DualState:
    """A state at mu: values and gradient in the stage; objective and, if every row is soft, exact gap of the problem."""
    rows = problem.operator.congruence(iterate.F)
    p = rows.values_diagonal(iterate.x)
    xi, _ = stage.problem.losses.relaxed(mu)
    cost = _cost(stage.problem, iterate, mu)
    signal, objective = np.inf, -cost
    if not problem.losses.has_hard:
        # M = psi(T(mu)), so D(M) + mu . p equals its conjugate and the gap is that of the losses: loss(p) + loss*(mu) - mu p
        L = problem.losses
        signal = L.value(p) + float((L.conjugate(mu) - mu * p).sum())
        objective = signal - (cost if stage.is_last else _cost(problem, iterate, mu)) if signal < np.inf else np.nan
    return _DualState(iterate, rows, mu, p, objective, signal, False, stage, cost, xi - p)


def _in_next_stage(problem: NearestMatrix, state: _DualState) -> _DualState:
    """The state in the next stage, or as it is in the last one."""
    if state.stage.is_last:
        return state
    return _measured(problem, state.stage.next(problem), state.iterate, state.dual)


def _first_share(problem: NearestMatrix) -> float:
    """Share of the slack weights at which the losses move the prior by a moderate factor; 1 if the whole weights do so."""
    moderate = 30.0  # largest pull of the losses relative to the prior
    L, x = problem.losses, problem.prior
    p = problem.operator.values_diagonal(x)
    rows = L.violated(p) & ~L.hard & (p > 0)
    if not rows.any():
        return 1.0
    pull = np.zeros(problem.c)
    pull[rows] = L.restrict(rows).derivatives(p[rows])[0]
    x = np.maximum(x, 1e-12 * max(float(x.max(initial=0.0)), TINY))
    # to first order, T moves by -A*(pull) and M by Psi o A*(pull); relative to the prior, by M0^-1/2 . M0^-1/2
    Psi = problem.divergence.divided(problem.t0)
    force = float(np.abs(eigvalsh(Psi * problem.operator.adjoint(pull) / np.sqrt(np.multiply.outer(x, x)))).max())
    share = moderate / max(force, TINY)
    return share if share < 0.1 else 1.0


# ---------------------------------------------------------------------- the quadratic model
def _step_box(problem: NearestMatrix, mu: np.ndarray, parallel: ParallelRows) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of a step from mu; nine tenths of the way to an open end."""
    lower, upper = problem.losses.dual_box
    below, above = lower - mu, upper - mu
    lower = np.where(np.isfinite(lower) & (lower < 0), 0.9 * below, below)
    upper = np.where(np.isfinite(upper) & (upper > 0), 0.9 * above, above)
    lower[parallel.idle] = upper[parallel.idle] = 0.0
    return lower, upper


def _link_gradient(problem: NearestMatrix, state: _DualState) -> np.ndarray | None:
    """The gradient with ``(phi'(b) - phi'(p)) / phi''(p)`` in place of ``b - p`` on hard rows; None where that is not useful.

    Both agree to first order, but the value p of a rank-one row beside a multiple of I satisfies ``phi'(p) = phi'(p0) - mu``, which
    is linear in the multiplier. Far from the solution, where all rows move at once, it overshoots: it is used after full steps only.
    """
    # step length; share of the first gradient that is near; limit, times the gradient
    full_step, near, max_ratio = 0.9, 0.1, 3.0
    L, D, p = problem.losses, problem.divergence, state.values
    if state.missed or state.length < full_step or not near * state.first_norm < state.norm < np.inf:
        return None
    rows = np.flatnonzero(L.hard & (L.bound > 0) & (p > 0))
    if not len(rows):
        return None
    size = problem.operator.norms()[rows]
    x, force = p[rows] / size, state.gradient.copy()
    limit = max_ratio * np.abs(force[rows])
    force[rows] = np.clip(size * (D.link(L.bound[rows] / size) - D.link(x)) / D.curvature(x), -limit, limit)
    is_other = np.isfinite(force).all() and not np.allclose(force, state.gradient, rtol=1e-6, atol=0.0)
    return force if is_other else None


# ---------------------------------------------------------------------- the line search
_Trial = tuple[Iterate, np.ndarray, float]  # iterate, dual weights, cost


def _search(
    problem: NearestMatrix, state: _DualState, d: np.ndarray, slope: float
) -> tuple[Iterate, np.ndarray, float] | None:
    """Armijo along ``mu + alpha d`` inside the domain of psi and the box; None if no step lowers the cost."""
    first = _logdet_step(problem, state, d) if problem.divergence.is_congruence_invariant else 1.0
    lower, upper = problem.losses.dual_box

    def trial(alpha: float) -> tuple[_Trial, float] | None:
        mu = np.minimum(np.maximum(state.dual + alpha * d, lower), upper)
        mu[np.abs(mu) <= 1e-14 * np.abs(state.dual)] = 0.0  # nonzero by rounding only
        iterate = _iterate_at(problem, mu)
        if iterate is None:
            return None
        cost = _cost(problem, iterate, mu)
        return (iterate, mu, cost), cost

    rounding = 2e-15 * max(1.0, abs(state.cost))
    accepted = armijo(trial, state.cost, slope, rounding=rounding, first=first, outside=0.25, is_parabolic=True)
    if accepted is None:
        return None
    point, alpha = accepted
    if alpha == 1.0 and not problem.divergence.is_congruence_invariant:
        point, alpha = _lengthened(trial, point, state.cost, slope, _longest_step(problem, state.dual, d))
    return *point[:2], alpha


def _lengthened(
    trial: Callable[[float], tuple[_Trial, float] | None], point: _Trial, cost: float, slope: float, farthest: float
) -> tuple[_Trial, float]:
    """Double a full step while the cost falls by more than 0.6 of the tangent's fall; a parabola falls by 1/2 at its minimum."""
    newton, alpha = point, 1.0
    while cost - point[2] > -0.6 * alpha * slope and alpha < farthest:
        if alpha > 64.0:  # g has no maximum along d: the rows contradict each other, and Newton steps find the proof
            return newton, 1.0
        longer = min(2.0 * alpha, farthest)
        further = trial(longer)
        if further is None or not further[1] < point[2]:
            break
        point, alpha = further[0], longer
    return point, alpha


def _logdet_step(problem: NearestMatrix, state: _DualState, d: np.ndarray) -> float:
    """Minimiser of -g along d in the box for LogDet, where ``-g = -logdet(I + A*(mu)) + sum loss*`` needs one spectrum."""
    b = eigvalsh(problem.operator.congruence(state.iterate.factor()).adjoint(d))
    mu, losses = state.dual, problem.losses

    def slope(alpha: float) -> float:
        return float(losses.relaxed(mu + alpha * d)[0] @ d) - float((b / (1.0 + alpha * b)).sum())

    # half of the way to the boundary of the domain: nearer to it, M explodes
    limit = 0.5 * (-1.0 / b[0] if b[0] < 0 else np.inf)
    newton = high = min(1.0, limit)
    low, farthest = 0.0, min(limit, _longest_step(problem, mu, d))
    while slope(high) <= 0:  # if M is far too large, a Newton step no more than halves it
        if high == farthest:
            return high
        if high > 1e10:  # g has no maximum along d: the rows contradict each other
            return newton
        low, high = high, min(4.0 * high, farthest)
    while high - low > 0.01 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return low if low > 0 else high


def _longest_step(problem: NearestMatrix, mu: np.ndarray, d: np.ndarray) -> float:
    """The longest step along d inside the box, nine tenths of the way to an open end; at least 1, which d keeps."""
    lower, upper = problem.losses.dual_box
    lower, upper = np.where(lower < 0, 0.9, 1.0) * lower, np.where(upper > 0, 0.9, 1.0) * upper
    with np.errstate(all="ignore"):
        end = (np.where(d > 0, upper, lower) - mu) / d
    return max(1.0, float(end[d != 0].min(initial=np.inf)))
