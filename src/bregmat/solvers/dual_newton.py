"""Dual truncated Newton: maximise the dual bound over the signs of the multipliers.

``maximize g(mu) = phi*(T0) - phi*(T0 - A*(mu)) - sum loss*_i(mu_i)`` over the sign box. With ``M = psi(T0 - A*(mu))``
the gradient of -g is ``xi(mu) - A(M)`` (xi the relaxed bounds; b for hard rows) and its Hessian
``A (Psi o A* .) + diag(xi')``. For Frobenius, with ``psi = max(t, 0)``, this is the method of Qi and Sun (2006).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bregmat.base.checks import check_flag
from bregmat.base.linalg import eigvalsh
from bregmat.base.numerics import armijo
from bregmat.certificates.certify import clip_dual, dual_bound
from bregmat.certificates.nearest_matrix import NearestMatrix
from bregmat.coordinates.iterates import Iterate, iterate_at_prior
from bregmat.operators.parallel_rows import ParallelRows, without_opposing_pairs
from bregmat.run.loop import MatrixState
from bregmat.solvers.box_qp import Model, flops, minimize_exactly, minimize_in_box
from bregmat.solvers.needs import Settings, SolverWithNeeds, count, not_negative
from bregmat.solvers.stages import Stage

MODERATE = 30.0  # largest relative pull of the losses on the prior in the first stage; dimensionless
LONGEST, LONGER = 1e10, 64.0  # steps, in Newton steps, beyond which g has no maximum: the rows contradict each other
# What restoring hard rows costs beside what the dual has still to gain, both of second order: 2 to 200 times on random rows.
RESTORING = 50.0
FULL, NEAR = 0.9, 0.1  # length of a full step; share of the first gradient from which on a solution is near
LARGER = 3.0  # multiple of the gradient that stands for it at most
BENT = 0.6  # share of the fall along a tangent; that of a parabola at its minimum is 1/2


@dataclass(frozen=True, eq=False)
class _DualState(MatrixState):
    """A point of the dual and what the next step needs of the last."""

    iterate: Iterate
    dual: np.ndarray
    values: np.ndarray
    objective: float
    signal: float
    stalled: bool
    stage: Stage
    cost: float  # -g(mu) of the stage
    gradient: np.ndarray  # of the cost
    parallel: ParallelRows
    norm: float = np.inf  # projected gradient before the last step, in the norm of the diagonal of the Hessian
    first_norm: float = np.inf
    length: float = 1.0  # of the last step; 1 is a full Newton step
    precise: bool = False  # double precision products
    idle: int = 0  # steps that gained nothing beyond rounding
    missed: bool = False  # conjugate gradients did not reach their target


@dataclass(frozen=True)
class DualNewton(SolverWithNeeds):
    """Bound-constrained truncated Newton on the dual; for hard rows, equalities, and any mixture with soft rows.

    Prefer it wherever rows are hard; for soft rows only, mirror Newton needs no quadratic program in c variables.

    Parameters
    ----------
    rounds : int
        Rounds of conjugate gradients, each on the rows then free, in one step.
    cg_steps : int
        Conjugate gradient steps in one round.
    proximal : float
        Largest proximal term, relative to the diagonal of the Hessian; dimensionless.
    continuation : bool
        Whether heavy slack weights are approached in stages. The mirror coordinates are then a small difference of large
        multipliers, and steps from the prior end at once at the border of the domain.

    Notes
    -----
    Design, section 2. A step costs one eigendecomposition (Cholesky factorisation for LogDet) a trial and up to
    ``rounds * cg_steps`` products with the Hessian, 2 c r^2 operations each.
    """

    name = "dual_newton"
    works_on = "dual_bound"
    max_iter = 200
    needs_divergence = ("conjugate", "divided")
    needs_loss = ("conjugate", "relaxed")
    rounds: int = 6
    cg_steps: int = 60
    proximal: float = 1e-3
    continuation: bool = True

    def _settings(self) -> Settings:
        return {count: ("rounds", "cg_steps"), not_negative: ("proximal",), check_flag: ("continuation",)}

    def init(self, problem: NearestMatrix, tol: float, start: np.ndarray | None) -> _DualState:
        """The prior, or a warm start shrunk into the domain."""
        mu = np.zeros(problem.c)
        parallel = problem.parallel_rows
        share = _first_share(problem) if self.continuation else 1.0
        if start is not None:
            value, warm = dual_bound(problem, without_opposing_pairs(parallel, clip_dual(problem, start)))
            if np.isfinite(value):
                mu, share = warm, 1.0
        iterate = _iterate_at(problem, mu)
        if iterate is None:
            raise ValueError("the prior is outside the domain of the divergence.")
        return _measured(problem, Stage.of(problem, share, 0.5), iterate, mu, parallel)

    def step(self, problem: NearestMatrix, state: _DualState) -> _DualState:
        """One Newton step: the quadratic model in the box, then a search along its minimiser."""
        stage, mu, q, parallel = state.stage, state.dual, state.gradient, state.parallel
        model = self._model(state)
        lower, upper = _room(stage.problem, mu, parallel)
        norm = model.projected_norm(q, lower, upper)
        if norm == 0.0:
            return self._forward(problem, replace(state, signal=min(state.signal, 0.0), stalled=True))
        goal = self._reduction(state, norm)
        for force in (_in_terms_of_the_link(stage.problem, state), q):
            if force is None:
                continue
            d, Hd, reached = self._minimiser(model, force, lower, upper, state, goal)
            slope = float(q @ d)
            predicted = -(float(force @ d) + 0.5 * float(d @ Hd))
            found = _search(stage.problem, state, d, slope) if slope < 0 else None
            if found is not None:
                break
        first = state.first_norm if np.isfinite(state.first_norm) else norm
        if found is None:
            new = replace(state, precise=True, missed=True, stalled=state.precise, norm=norm, first_norm=first)
            return self._forward(problem, new) if state.precise else new
        iterate, mu, length = found
        new = _measured(problem, stage.stepped(), iterate, mu, parallel)
        after = model.projected_norm(new.gradient, *_room(stage.problem, mu, parallel))
        left = predicted * min(1.0, (after / norm) ** 2) if length >= 0.5 else np.inf
        gained = state.cost - new.cost > 1e-14 * max(1.0, abs(new.cost))
        idle = 0 if gained else state.idle + 1
        new = replace(
            new,
            signal=new.signal if problem.is_soft else RESTORING * left if stage.is_last else np.inf,
            norm=norm,
            first_norm=first,
            length=length,
            precise=state.precise or idle > 0,
            idle=idle,
            missed=state.missed or not reached,
            stalled=idle >= 3,
        )
        return self._forward(problem, new) if new.stalled or left <= 1e-2 * abs(new.cost) else new

    def _minimiser(
        self, model: Model, force: np.ndarray, lower: np.ndarray, upper: np.ndarray, state: _DualState, goal: float
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """The minimiser of the model in the box, its product with the Hessian, and whether conjugate gradients reached their target."""
        rounds, steps, pairs = self.rounds, self.cg_steps, state.parallel.intervals
        d, Hd, reached = minimize_in_box(
            model, force, lower, upper, pairs, reduction=goal, rounds=rounds, cg_steps=steps
        )
        if not reached and (state.missed or self._is_cheap(model, d, lower, upper)):
            exact = minimize_exactly(model, force, lower, upper, d)
            if exact is not d:
                d, Hd = exact, model.product(exact)
        return d, Hd, reached

    def _forward(self, problem: NearestMatrix, state: _DualState) -> _DualState:
        """The state in the next stage, or as it is in the last one."""
        if state.stage.is_last:
            return state
        return _measured(problem, state.stage.next(problem), state.iterate, state.dual, state.parallel)

    def _is_cheap(self, model: Model, d: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> bool:
        """Whether a few factorisations cost less than one round of conjugate gradients."""
        free = int(((d > lower) & (d < upper)).sum())
        return 5.0 * flops(model, free) <= 4.0 * self.cg_steps * model.operator.c * model.operator.r**2

    def _reduction(self, state: _DualState, norm: float) -> float:
        """How exactly to solve the model: the better, the faster the last step converged."""
        if not np.isfinite(state.norm) or state.length < 0.3:
            return 0.3
        return min(0.3, max(1e-3, (norm / state.norm) ** 1.5))

    def _model(self, state: _DualState) -> Model:
        """Hessian of -g at the state, with a small multiple of its diagonal added on hard rows."""
        problem = state.stage.problem
        S = state.iterate.metric()
        X = problem.operator.congruence(state.iterate.F)
        _, slope = problem.losses.relaxed(state.dual)
        Psi = None if S is None else S * S
        diagonal = X.squared_norms(Psi)
        if S is not None and not S.all():  # a semismooth link: curvature may vanish
            diagonal = diagonal + 1e-6 * problem.operator.squared_norms(None)
        share = state.norm / state.first_norm if np.isfinite(state.norm) else 1.0
        proximal = min(self.proximal, 10.0 * self.proximal * share) + 1e-9
        if state.missed:
            # degenerate rows: weak terms let far moves through, strong ones keep the active set from cycling
            proximal = 0.01 * proximal + self.proximal * 10.0 ** (-1 - 2 * (state.stage.steps % 3))
        diagonal = diagonal + slope
        slope = slope + np.where(problem.losses.hard, proximal, 1e-12) * diagonal
        single = not state.precise and X.c * X.r > 20_000
        dtype = np.float32 if single else np.float64
        return Model(
            operator=X.astype(np.float32) if single else X,
            weight=None if Psi is None else Psi.astype(dtype),
            slope=slope,
            diagonal=np.maximum(diagonal, 1e-300),
            dtype=dtype,
            flat=1e-6 if single else 1e-10,
        )


def _in_terms_of_the_link(problem: NearestMatrix, state: _DualState) -> np.ndarray | None:
    """What stands for the gradient where hard rows are to meet ``phi'(p) = phi'(b)``, which bends less than ``p = b``; None: nothing.

    The value of a single outer product next to a multiple of I is linear in those terms, ``phi'(p) = phi'(p0) - mu``; to first order
    in p - b both are the same. Only after a full step: from afar, where all rows ask for much at once, they overshoot together.
    """
    L, D, p = problem.losses, problem.divergence, state.values
    if state.missed or state.length < FULL or not NEAR * state.first_norm < state.norm < np.inf:
        return None
    rows = np.flatnonzero(L.hard & (L.bound > 0) & (p > 0))
    if not len(rows):
        return None
    size = problem.operator.norms()[rows]
    x, force = p[rows] / size, state.gradient.copy()
    most = LARGER * np.abs(force[rows])
    force[rows] = np.clip(size * (D.link(L.bound[rows] / size) - D.link(x)) / D.curvature(x), -most, most)
    is_other = np.isfinite(force).all() and not np.allclose(force, state.gradient, rtol=1e-6, atol=0.0)
    return force if is_other else None


def _room(problem: NearestMatrix, mu: np.ndarray, parallel: ParallelRows) -> tuple[np.ndarray, np.ndarray]:
    """Box of a step from mu; nine tenths of the way to an open end."""
    lower, upper = problem.losses.dual_box
    below, above = lower - mu, upper - mu
    lower = np.where(np.isfinite(lower) & (lower < 0), 0.9 * below, below)
    upper = np.where(np.isfinite(upper) & (upper > 0), 0.9 * above, above)
    lower[parallel.idle] = upper[parallel.idle] = 0.0
    return lower, upper


def _iterate_at(problem: NearestMatrix, mu: np.ndarray) -> Iterate | None:
    """The iterate of ``T0 - A*(mu)``, or None outside the domain."""
    T = -problem.operator.adjoint(mu)
    T[np.diag_indices_from(T)] += problem.t0
    return iterate_at_prior(problem.divergence, problem.t0).at(T) if np.isfinite(T).all() else None


def _cost(problem: NearestMatrix, iterate: Iterate, mu: np.ndarray) -> float:
    """``-g(mu) = phi*(T) - phi*(T0) + sum loss*``."""
    D = problem.divergence
    smooth = iterate.logdet if iterate.x is None else D.conjugate(iterate.t) - D.constant(problem.t0)
    return smooth + float(problem.losses.conjugate(mu).sum())


def _measured(
    problem: NearestMatrix, stage: Stage, iterate: Iterate, mu: np.ndarray, parallel: ParallelRows
) -> _DualState:
    """A state at mu: values and gradient in the stage; objective and, where every row is soft, exact gap of the problem."""
    p = problem.operator.congruence(iterate.F).values_diagonal(iterate.x)
    xi, _ = stage.problem.losses.relaxed(mu)
    cost = _cost(stage.problem, iterate, mu)
    signal, objective = np.inf, -cost
    if problem.is_soft:  # M = psi(T(mu)) exactly, so D + mu . p is its conjugate and only the losses are left
        L = problem.losses
        signal = L.value(p) + float((L.conjugate(mu) - mu * p).sum())
        objective = signal - (cost if stage.is_last else _cost(problem, iterate, mu)) if signal < np.inf else np.nan
    return _DualState(iterate, mu, p, objective, signal, False, stage, cost, xi - p, parallel)


def _first_share(problem: NearestMatrix) -> float:
    """Share of the slack weights at which the losses move the prior by a moderate factor; 1 if they do so in full."""
    L, x = problem.losses, problem.prior
    p = problem.operator.values_diagonal(x)
    rows = L.violated(p) & ~L.hard & (p > 0)
    if not rows.any():
        return 1.0
    pull = np.zeros(problem.c)
    pull[rows] = L.restrict(rows).derivatives(p[rows])[0]
    x = np.maximum(x, 1e-12 * max(float(x.max(initial=0.0)), 1e-300))
    S = problem.divergence.divided(problem.t0)
    force = float(np.abs(eigvalsh(S * problem.operator.adjoint(pull) / np.sqrt(np.multiply.outer(x, x)))).max())
    share = MODERATE / max(force, 1e-300)
    return share if share < 0.1 else 1.0


def _search(
    problem: NearestMatrix, state: _DualState, d: np.ndarray, slope: float
) -> tuple[Iterate, np.ndarray, float] | None:
    """Armijo along ``mu + alpha d`` inside the domain of psi; d keeps the box up to 1, and may be short where the solution is far."""
    first = _exact_step(problem, state, d) if problem.divergence.is_congruence_invariant else 1.0
    lower, upper = problem.losses.dual_box

    def trial(alpha: float) -> tuple[tuple[Iterate, np.ndarray], float] | None:
        mu = np.minimum(np.maximum(state.dual + alpha * d, lower), upper)
        mu[np.abs(mu) <= 1e-14 * np.abs(state.dual)] = 0.0  # rounding alone kept them off the end
        iterate = _iterate_at(problem, mu)
        return None if iterate is None else ((iterate, mu), _cost(problem, iterate, mu))

    rounding = 2e-15 * max(1.0, abs(state.cost))
    found = armijo(trial, state.cost, slope, rounding=rounding, first=first, outside=0.25, is_parabolic=True)
    if found is None:
        return None
    point, alpha = found
    if alpha < 1.0 or problem.divergence.is_congruence_invariant:
        return *point, alpha
    newton, farthest = point, _room_along(problem, state.dual, d)
    fallen = state.cost - _cost(problem, *point)
    while fallen > -BENT * alpha * slope and alpha < farthest:  # where g hardly bends, a Newton step is short
        if alpha > LONGER:
            return *newton, 1.0
        longer = min(2.0 * alpha, farthest)
        further = trial(longer)
        if further is None or not state.cost - further[1] > fallen:
            break
        point, fallen, alpha = further[0], state.cost - further[1], longer
    return *point, alpha


def _room_along(problem: NearestMatrix, mu: np.ndarray, d: np.ndarray) -> float:
    """The longest step along d inside the box, nine tenths of the way to an open end; at least 1, which d keeps."""
    lower, upper = problem.losses.dual_box
    lower, upper = np.where(lower < 0, 0.9, 1.0) * lower, np.where(upper > 0, 0.9, 1.0) * upper
    with np.errstate(all="ignore"):
        end = (np.where(d > 0, upper, lower) - mu) / d
    return max(1.0, float(end[d != 0].min(initial=np.inf)))


def _exact_step(problem: NearestMatrix, state: _DualState, d: np.ndarray) -> float:
    """Minimiser of -g along d in the box for LogDet, where ``-g = -logdet(I + A*(mu)) + sum loss*`` needs one spectrum."""
    b = eigvalsh(problem.operator.congruence(state.iterate.factor()).adjoint(d))
    mu, losses = state.dual, problem.losses

    def slope(alpha: float) -> float:
        return float(losses.relaxed(mu + alpha * d)[0] @ d) - float((b / (1.0 + alpha * b)).sum())

    limit = -1.0 / b[0] if b[0] < 0 else np.inf
    nearest = high = min(1.0, 0.5 * limit)  # nearer to the border M explodes
    low, farthest = 0.0, min(0.5 * limit, _room_along(problem, mu, d))
    while slope(high) <= 0:  # where M is far too large, a Newton step no more than halves it
        if high == farthest or high > LONGEST:
            return high if high == farthest else nearest
        low, high = high, min(4.0 * high, farthest)
    for _ in range(60):
        middle = 0.5 * (low + high)
        if slope(middle) > 0:
            high = middle
        else:
            low = middle
        if high - low <= 0.01 * high:
            break
    return low if low > 0 else high
