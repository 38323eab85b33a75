"""Dual truncated Newton: maximise the dual bound over the signs of the multipliers.

``maximize g(mu) = phi*(T0) - phi*(T0 - A*(mu)) - sum loss*_i(mu_i)`` over the sign box. With ``M = psi(T0 - A*(mu))``
the gradient of -g is ``xi(mu) - A(M)`` (xi the relaxed bounds; b for hard rows) and its Hessian
``A (Psi o A* .) + diag(xi')``. For Frobenius, with ``psi = max(t, 0)``, this is the method of Qi and Sun (2006).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, ClassVar

import numpy as np

from bregmat.certificates import Certificate, clip_dual, dual_bound
from bregmat.charts import Chart, chart_at_prior
from bregmat.linalg import eigvalsh
from bregmat.operators import Matrices, Mixed, Operator, Pairs, Rows, Stack
from bregmat.problems import NearestMatrix
from bregmat.solvers.box_qp import Model, minimize_in_box, projected_norm
from bregmat.solvers.exact_qp import minimize_exactly


@dataclass(frozen=True, eq=False)
class Twins:
    """Hard rows with proportional matrices: flat directions of the dual that are better known beforehand.

    ``idle`` rows are implied by a tighter twin; ``intervals`` are the tightest "<=" and ">=" row of one matrix.
    """

    idle: np.ndarray
    intervals: np.ndarray


@dataclass(frozen=True, eq=False)
class _State:
    """A point of the dual and what the next step needs of the last."""

    chart: Chart
    dual: np.ndarray
    values: np.ndarray
    objective: float
    signal: float
    stalled: bool
    cost: float  # -g(mu)
    gradient: np.ndarray  # of -g
    tol: float
    norm: float  # projected gradient, in the norm of the diagonal of the Hessian
    first_norm: float
    length: float  # of the last step; 1 is a full Newton step
    precise: bool  # double precision products
    idle: int  # steps that gained nothing beyond rounding
    twins: Twins


@dataclass(frozen=True)
class DualNewton:
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

    Notes
    -----
    Design, section 2. A step costs one eigendecomposition (Cholesky factorisation for LogDet) a trial and up to
    ``rounds * cg_steps`` products with the Hessian, 2 c r^2 operations each.
    """

    name: ClassVar[str] = "dual_newton"
    rounds: int = 6
    cg_steps: int = 60
    proximal: float = 1e-3

    def __post_init__(self) -> None:
        for field in ("rounds", "cg_steps"):
            if getattr(self, field) < 1:
                raise ValueError(f"DualNewton: {field} must be at least 1; got {getattr(self, field)}.")
        if not self.proximal >= 0:
            raise ValueError(f"DualNewton: proximal must not be negative; got {self.proximal}.")

    def check(self, problem: NearestMatrix) -> None:
        """Every divergence and loss has a dual: nothing to refuse."""

    def init(self, problem: NearestMatrix, tol: float, start: Certificate | None) -> _State:
        """The prior, or a warm start shrunk into the domain."""
        mu = np.zeros(problem.c)
        twins = find_twins(problem)
        if start is not None:
            value, warm = dual_bound(problem, _netted(twins, clip_dual(problem, start.dual)))
            if np.isfinite(value):
                mu = warm
        chart = _chart_at(problem, mu)
        if chart is None:
            raise ValueError("the prior is outside the domain of the divergence.")
        cost = _cost(problem, chart, mu)
        return _measured(problem, chart, mu, cost, tol, twins)

    def step(self, problem: NearestMatrix, state: _State) -> _State:
        """One Newton step: the quadratic model in the box, then a search along its minimiser."""
        mu, chart, q, twins = state.dual, state.chart, state.gradient, state.twins
        model = self._model(problem, state)
        lower, upper = _room(problem, mu, twins)
        norm = projected_norm(q, model.diagonal, lower, upper)
        if norm == 0.0:
            return replace(state, signal=min(state.signal, 0.0), stalled=True)
        first = state.first_norm if np.isfinite(state.first_norm) else norm
        d, Hd, reached = minimize_in_box(
            model,
            q,
            lower,
            upper,
            twins.intervals,
            reduction=self._reduction(state, norm),
            rounds=self.rounds,
            cg_steps=self.cg_steps,
        )
        if not reached:
            exact = minimize_exactly(model, q, lower, upper, d)
            if exact is not d:
                d, Hd = exact, model.product(exact)
        slope = float(q @ d)
        predicted = -(slope + 0.5 * float(d @ Hd))
        found = _search(problem, state, d, slope) if slope < 0 else None
        if found is None:
            return replace(state, precise=True, stalled=state.precise, norm=norm, first_norm=first)
        chart, mu, cost, length = found
        new = _measured(problem, chart, mu, cost, state.tol, state.twins)
        after = projected_norm(new.gradient, model.diagonal, *_room(problem, mu, twins))
        shrink = min(1.0, (after / norm) ** 2)
        gained = state.cost - cost > 1e-14 * max(1.0, abs(cost))
        idle = 0 if gained else state.idle + 1
        return replace(
            new,
            signal=new.signal if problem.is_soft else predicted * shrink if length >= 0.5 else np.inf,
            norm=norm,
            first_norm=first,
            length=length,
            precise=state.precise or idle > 0,
            idle=idle,
            stalled=idle >= 3,
        )

    def _reduction(self, state: _State, norm: float) -> float:
        """How exactly to solve the model: the better, the faster the last step converged."""
        if not np.isfinite(state.norm) or state.length < 0.3:
            return 0.3
        return min(0.3, max(1e-3, (norm / state.norm) ** 1.5))

    def _model(self, problem: NearestMatrix, state: _State) -> Model:
        """Hessian of -g at the state, with a small multiple of its diagonal added on hard rows."""
        S = state.chart.metric()
        X = problem.operator.congruence(state.chart.F)
        _, slope = problem.losses.relaxed(state.dual)
        Psi = None if S is None else S * S
        diagonal = _squared_norms(X, Psi)
        if S is not None and not S.all():  # a semismooth link: curvature may vanish
            diagonal = diagonal + 1e-6 * _squared_norms(problem.operator, None)
        share = state.norm / state.first_norm if np.isfinite(state.norm) else 1.0
        proximal = min(self.proximal, 10.0 * self.proximal * share) + 1e-9
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


def _room(problem: NearestMatrix, mu: np.ndarray, twins: Twins) -> tuple[np.ndarray, np.ndarray]:
    """Box of a step from mu; nine tenths of the way to an open ceiling."""
    lower, upper = problem.losses.dual_box()
    open_end = np.isfinite(upper) & (problem.losses.sense >= 0)
    reach = upper - mu
    lower, upper = lower - mu, np.where(open_end, 0.9 * reach, reach)
    lower[twins.idle] = upper[twins.idle] = 0.0
    return lower, upper


def find_twins(problem: NearestMatrix) -> Twins:
    """Hard rows whose matrices are proportional, from their inner products with a few fixed random matrices."""
    L, op = problem.losses, problem.operator
    rows = np.flatnonzero(L.hard)
    nothing = Twins(np.zeros(0, dtype=int), np.zeros((0, 2), dtype=int))
    if len(rows) < 2:
        return nothing
    rng = np.random.default_rng(0)
    prints = np.empty((len(rows), 3))
    for k in range(3):
        X = rng.standard_normal((op.r, op.r))
        prints[:, k] = op.values(X + X.T)[rows]
    size = np.linalg.norm(prints, axis=1)
    keep = size > 0
    rows, prints, size = rows[keep], prints[keep], size[keep]
    turn = np.where(prints[:, 0] < 0, -1.0, 1.0)
    prints = np.round(prints / (turn * size)[:, None], 9)
    _, group = np.unique(prints, axis=0, return_inverse=True)
    group = group.ravel()
    if group.max(initial=-1) + 1 == len(rows):
        return nothing
    # in terms of the group's matrix, where a negative factor turns the sense; equalities and mixed signs are left alone
    bound, sense = L.bound[rows] / (turn * size), L.sense[rows] * turn
    plain = np.ones(group.max() + 1, dtype=bool)
    plain[group[(sense == 0) | (turn < 0)]] = False
    tight = {}
    for side in (1.0, -1.0):
        members = np.flatnonzero(sense == side)
        members = members[np.lexsort((side * bound[members], group[members]))]
        groups, first = np.unique(group[members], return_index=True)
        tight[side] = np.full(len(plain), -1)
        tight[side][groups] = members[first]
    above, below = tight[1.0], tight[-1.0]
    idle = plain[group] & (np.arange(len(rows)) != above[group]) & (np.arange(len(rows)) != below[group])
    both = np.flatnonzero(plain & (above >= 0) & (below >= 0))
    both = both[bound[above[both]] >= bound[below[both]]]
    return Twins(rows[idle], np.stack([rows[above[both]], rows[below[both]]], axis=1))


def _netted(twins: Twins, mu: np.ndarray) -> np.ndarray:
    """Dual weights without the part in which the two ends of an interval pull against each other."""
    mu = mu.copy()
    mu[twins.idle] = 0.0
    above, below = twins.intervals.T
    mu[below[mu[above] > 0]] = 0.0
    return mu


def _chart_at(problem: NearestMatrix, mu: np.ndarray) -> Chart | None:
    """The chart of ``T0 - A*(mu)``, or None outside the domain."""
    T = -problem.operator.adjoint(mu)
    T[np.diag_indices_from(T)] += problem.t0
    return chart_at_prior(problem.divergence, problem.t0).at(T) if np.isfinite(T).all() else None


def _cost(problem: NearestMatrix, chart: Chart, mu: np.ndarray) -> float:
    """``-g(mu) = phi*(T) - phi*(T0) + sum loss*``."""
    D = problem.divergence
    smooth = chart.logdet if chart.x is None else D.conjugate(chart.t) - D.constant(problem.t0)
    return smooth + float(problem.losses.conjugate(mu).sum())


def _measured(problem: NearestMatrix, chart: Chart, mu: np.ndarray, cost: float, tol: float, twins: Twins) -> _State:
    """A state at mu: values and gradient; the exact gap where every row is soft."""
    p = problem.operator.congruence(chart.F).values_diagonal(chart.x)
    xi, _ = problem.losses.relaxed(mu)
    signal, objective = np.inf, -cost
    if problem.is_soft:  # M = psi(T(mu)) exactly, so D + mu . p is its conjugate and only the losses are left
        L = problem.losses
        signal = L.value(p) + float((L.conjugate(mu) - mu * p).sum())
        objective = signal - cost
    return _State(chart, mu, p, objective, signal, False, cost, xi - p, tol, np.inf, np.inf, 1.0, False, 0, twins)


def _search(
    problem: NearestMatrix, state: _State, d: np.ndarray, slope: float
) -> tuple[Chart, np.ndarray, float, float] | None:
    """Armijo along ``mu + alpha d`` inside the domain of psi; d keeps the box up to 1."""
    alpha = _exact_step(problem, state, d) if problem.divergence.is_congruence_invariant else 1.0
    lower, upper = problem.losses.dual_box()
    for _ in range(40):
        mu = np.minimum(np.maximum(state.dual + alpha * d, lower), upper)
        chart = _chart_at(problem, mu)
        if chart is None:
            alpha *= 0.25
            continue
        cost = _cost(problem, chart, mu)
        if cost <= state.cost + 1e-4 * alpha * slope + 2e-15 * max(1.0, abs(state.cost)):
            return chart, mu, cost, alpha
        if np.isfinite(cost):
            curved = -slope * alpha * alpha / (2.0 * (cost - state.cost - slope * alpha))
            alpha = min(max(curved, 0.1 * alpha), 0.5 * alpha)
        else:
            alpha *= 0.25
    return None


def _exact_step(problem: NearestMatrix, state: _State, d: np.ndarray) -> float:
    """Minimiser in (0, 1] of -g along d for LogDet, where ``-g = -logdet(I + A*(mu)) + sum loss*`` needs one spectrum."""
    b = eigvalsh(problem.operator.congruence(state.chart.factor()).adjoint(d))
    mu, losses = state.dual, problem.losses

    def slope(alpha: float) -> float:
        return float(losses.relaxed(mu + alpha * d)[0] @ d) - float((b / (1.0 + alpha * b)).sum())

    limit = -1.0 / b[0] if b[0] < 0 else np.inf
    low, high = 0.0, min(1.0, limit * (1 - 1e-9))
    if high == 1.0 and slope(1.0) <= 0:
        return 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if slope(middle) > 0:
            high = middle
        else:
            low = middle
        if high - low <= 0.01 * high:
            break
    return low if low > 0 else high


@singledispatch
def _squared_norms(operator: Any, Psi: np.ndarray | None) -> np.ndarray:
    """``<A_i, Psi o A_i>`` of every row: the diagonal of the Hessian; a bound where that is cheaper."""
    raise TypeError(f"no diagonal is known for operator {type(operator).__name__}.")


@_squared_norms.register
def _(operator: Rows, Psi: np.ndarray | None) -> np.ndarray:
    squares = operator.V * operator.V
    if Psi is None:
        return squares.sum(axis=1) ** 2
    return np.einsum("ij,ij->i", squares @ Psi, squares)


@_squared_norms.register
def _(operator: Pairs, Psi: np.ndarray | None, block: int = 4096) -> np.ndarray:
    if Psi is None:
        return operator.values_diagonal(None) ** 2
    out = np.empty(operator.c)
    for first in range(0, operator.c, block):
        at = slice(first, first + block)
        V = operator.Z[operator.a[at]] + operator.Z[operator.b[at]] * operator.sign[at, None]
        out[at] = _squared_norms(Rows(V), Psi)
    return out


@_squared_norms.register
def _(operator: Matrices, Psi: np.ndarray | None) -> np.ndarray:
    squares = operator.A * operator.A if Psi is None else operator.A * operator.A * Psi
    return squares.sum(axis=(1, 2))


@_squared_norms.register
def _(operator: Mixed, Psi: np.ndarray | None) -> np.ndarray:
    # triangle inequality: |sum_t P_it A_t| <= sum_t |P_it| |A_t|
    return (abs(operator.P) @ np.sqrt(_squared_norms(operator.base, Psi))) ** 2


@_squared_norms.register
def _(operator: Stack, Psi: np.ndarray | None) -> np.ndarray:
    out = np.empty(operator.c)
    for rows, part in operator.parts:
        out[rows] = _squared_norms(part, Psi)
    return out
