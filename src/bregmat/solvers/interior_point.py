"""Interior point: a primal-dual path-following method that is robust for heavy slack weights and badly scaled data.

Rows ``p_i <= xi_i`` with relaxed bounds xi, slacks ``w = s (xi - p) > 0`` and multipliers ``lam = s mu > 0`` follow

    phi'(M) - tau M^-1 = T0 - A*(mu) = T,    d'(xi) - tau / xi = mu,    w lam = tau,    s (xi - p) = w

to ``tau = 0``. The dual equation ``T = T0 - A*(mu)`` holds always; the primal one is approached. For LogDet, ``-T`` is the dual
of M and the link is exact. For the other divergences, ``Z = tau M^-1`` is a variable of its own: ``phi'(M) - Z = T`` and ``M Z = tau``.
Both use the scaling of Nesterov and Todd (``cone_scalings``), and the relaxed bounds the chord of their link (``path_equations``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bregmat.base.checks import check_positive
from bregmat.base.linalg import add_diagonal, eigh, eigvalsh, symmetrize
from bregmat.base.threads import seconds_left
from bregmat.base.tolerances import EPS, TINY
from bregmat.certificates.problem import NearestMatrix
from bregmat.coordinates.priors import Factored, Iterate, Spectral, iterate_at_prior
from bregmat.solvers.base import MatrixState, SolverWithNeeds, stretch
from bregmat.solvers.path_equations import PathEquations, PathPoint, RelaxedBounds, RightSide, Step


@dataclass(frozen=True, eq=False)
class InteriorPointState(MatrixState):
    """One iterate with its point near the path."""

    iterate: Iterate
    dual: np.ndarray
    values: np.ndarray
    objective: float
    signal: float
    at: PathPoint
    stalled: bool = False
    idle: int = 0  # successive steps without progress at the end of the path


@dataclass(frozen=True)
class InteriorPoint(SolverWithNeeds):
    """Primal-dual interior point for heavy slack weights, any loss, any divergence; also hard rows.

    Prefer it where mirror Newton stalls: slack weights that make the loss nearly piecewise linear. For light weights mirror
    Newton takes cheaper steps; for hard rows alone the dual Newton does.

    Parameters
    ----------
    ahead : float
        Factor on the dual weights of hard rows where the path begins. Give a large one if the solution is far from the prior, as
        for nearly parallel hard rows; dimensionless.

    Notes
    -----
    A step solves one linear system for two right-hand sides (predictor and corrector, Mehrotra 1992) and up to three more
    (centrality correctors, Gondzio 1996), and takes a few r x r factorisations. The system is factorised if c or r (r + 1) / 2 is
    small enough; otherwise preconditioned conjugate gradients solve it.
    """

    name = "interior_point"
    works_on = "objective"
    max_iter = 200
    needs_divergence = ("barrier_inverse", "divided")
    needs_loss = ()
    ahead: float = 1.0

    def __post_init__(self) -> None:
        check_positive("InteriorPoint: ahead", self.ahead, finite=True)

    def init(self, problem: NearestMatrix, tol: float, start: np.ndarray | None) -> InteriorPointState:
        """Start with dual weights of half the strength of the rows, on the path but for the primal equation and the link."""
        L, D, u = problem.losses, problem.divergence, problem.unit
        s = L.sense.astype(float)
        bounds = RelaxedBounds(L, u)
        bounds.strength[L.hard] *= self.ahead * max(1.0, stretch(problem))
        tau = float(np.exp(np.log(bounds.strength).mean()))
        # half of the strength of every inequality, at most half of the way to an open end; 0 for equalities
        half = 0.5 * s * np.minimum(bounds.strength, np.where(s > 0, bounds.ceiling, -bounds.floor))
        half = np.where(s == 0, 0.0, half)
        m = _cold_weights(problem, half, s)
        # M is the matrix of the path at weights that keep it near the prior
        t, V = eigh(_mirror_point(problem, m / u))
        x = D.barrier_inverse(t, tau)
        factor, cone = V * np.sqrt(x), None
        if not D.is_congruence_invariant:
            # T may be any matrix, so every row starts at half its strength
            m = half
            # M Z = tau, where Z is as large as |A*(|m|)|, the change of T by the multipliers. With a smaller Z, M first grows and
            # then falls by several powers of ten. A share of tau / x is added, because A* is 0 in directions without rows.
            a, U = eigh(symmetrize(problem.operator.adjoint(np.abs(m) / u)))
            z, Q = eigh((U * np.abs(a)) @ U.T + (V * (0.05 * tau / x)) @ V.T)
            factor, cone = Q * np.sqrt(tau / z), Q * np.sqrt(z)
            t, V = eigh(_mirror_point(problem, m / u))
        slack = np.where(s == 0, 1.0, tau / np.where(s == 0, 1.0, s * m))
        return _state(problem, PathPoint(bounds, factor, bounds.at(m, tau), slack, m, t, V, tau, cone))

    def step(self, problem: NearestMatrix, state: InteriorPointState) -> InteriorPointState:
        """Predictor, corrector, and separate primal and dual steps."""
        if not state.at.tau > 0.0:  # it has underflowed: the path is at its end
            return replace(state, stalled=True)
        try:
            equations = PathEquations(problem, state.at, state.values)
            step = _centred(equations, _corrected(equations))
            moved = _moved(problem, equations, step)
        except np.linalg.LinAlgError:
            moved = None
        if moved is None:
            return replace(state, stalled=True)
        new = _state(problem, moved)
        # if the rest of the path is below the rounding of the objective, a few steps without progress are the last ones
        is_at_end = moved.tau * (problem.c + problem.r) <= EPS * max(1.0, abs(new.objective))
        idle = state.idle + 1 if is_at_end and new.signal >= state.signal else 0
        return replace(new, idle=idle, stalled=idle > 3)


# ---------------------------------------------------------------------- a step
def _corrected(equations: PathEquations) -> Step:
    """Mehrotra's predictor and corrector; the predictor alone after the time limit."""
    far = 0.1  # largest fraction of tau to aim at; the centrality correctors make up for a short predictor
    tau = equations.at.tau
    predictor = equations.step(0.0)
    if seconds_left() < 0:
        return predictor
    # Mehrotra's rule: (tau after the predictor / tau)^3
    ahead = equations.complementarity(predictor) / tau
    goal = max(min(far, max(ahead**3, 1e-4)) * tau, equations.least_goal(predictor))
    # a step towards tau = goal makes the fraction 1 - goal / tau of the predictor's moves, so products have its square
    share = (1.0 - min(1.0, goal / tau)) ** 2
    d = predictor.direction
    # the products of moves that the linearised equations neglect (Mehrotra 1992)
    return equations.step(
        goal, RightSide(share * equations.scaling.curvature(d.M, d.T), -share * d.slack * d.multipliers)
    )


def _centred(equations: PathEquations, step: Step) -> Step:
    """Up to three centrality correctors (Gondzio 1996); another one follows if the last one lengthened the steps clearly."""
    max_steps, reach = 3, 0.3
    for _ in range(max_steps):
        if step.shorter > 1.0 - reach / 3.0 or seconds_left() < 0:
            break
        other = equations.step(step.goal, equations.centred(step, reach))
        gain = other.primal + other.dual - step.primal - step.dual
        if gain > 0.0:
            step = other
        if gain < reach:
            break
    return step


def _moved(problem: NearestMatrix, equations: PathEquations, step: Step) -> PathPoint | None:
    """The point after a step, or None if no step is left or rounding leaves the cone."""
    at, d, scaling = equations.at, step.direction, equations.scaling
    if not max(step.primal, step.dual) > 1e-7:
        return None
    factor = scaling.moved(d.M, step.primal)
    cone = scaling.moved_slack(d.M, d.T, step.dual)
    if factor is None or (cone is None and at.cone is not None):
        return None
    m = at.weights + step.dual * d.weights
    t, V = eigh(_mirror_point(problem, m / problem.unit))
    tau = equations.complementarity(step)
    if scaling.order == 0 and equations.free.all():
        # LogDet without inequalities: M (-T) = 1 + tau
        tau = max(step.goal, 1e-3 * at.tau, -float(((V.T @ factor) ** 2).sum(axis=1) @ t) / problem.r - 1.0)
    return PathPoint(
        at.bounds,
        factor,
        at.relaxed + step.primal * d.relaxed,
        at.slack + step.primal * d.slack,
        m,
        t,
        V,
        tau,
        cone,
        equations.primal_scale,
        equations.link_scale,
        equations.cg_steps or at.cg_steps,
    )


def _state(problem: NearestMatrix, at: PathPoint) -> InteriorPointState:
    """The state at a point: values, objective, and a gap that counts unmet hard rows at their dual weights."""
    D, L, t0, m, strength = problem.divergence, problem.losses, problem.t0, at.weights, at.bounds.strength
    iterate: Iterate
    if isinstance(iterate_at_prior(D, t0), Factored):
        iterate = Factored(at.factor, 2.0 * float(np.linalg.slogdet(at.factor)[1]))
    else:
        U, sigma, _ = np.linalg.svd(at.factor)
        iterate = Spectral(D, t0, D.link(sigma**2), U)
    p = iterate.values(problem.operator)
    # a hard row with slack is reported without its multiplier, which is of size tau: restoration moves rows that have one
    idle = L.hard & (L.sense != 0) & (at.slack * strength > np.abs(m))
    mu = np.where(idle, 0.0, m) / problem.unit
    F = problem.offset + iterate.value() + L.value(np.where(L.hard, L.bound, p) if L.has_hard else p)
    F = float(np.maximum(F, 0.0))
    # g(mu) = phi*(T0) - phi*(T) - sum loss*(mu)
    bound = D.constant(t0) - D.conjugate(at.t) - float(L.conjugate(mu).sum()) if D.in_domain(at.t) else -np.inf
    unmet = np.where(L.hard, (np.abs(m) + strength) * problem.violation(p), 0.0).sum()
    if not np.isfinite(F):  # values that are not yet in the domain of their losses
        return InteriorPointState(iterate, mu, p, np.nan, np.inf, at)
    return InteriorPointState(iterate, mu, p, F, abs(F - bound) + float(unmet), at)


# ---------------------------------------------------------------------- the first point
def _mirror_point(problem: NearestMatrix, mu: np.ndarray) -> np.ndarray:
    """``T0 - A*(mu)``."""
    return add_diagonal(-symmetrize(problem.operator.adjoint(mu)), problem.t0)


def _cold_weights(problem: NearestMatrix, half: np.ndarray, s: np.ndarray) -> np.ndarray:
    """These weights, those of the ">=" rows scaled down so that none moves the prior far.

    ``B + A*(mu)`` keeps half of its size, ``B = M0 phi''(M0)``: to first order, a move of T by B doubles M. For LogDet B is
    ``M0^-1``, the boundary of the domain; for von Neumann, where T may be any matrix, the exponential would overflow.
    """
    prior = np.maximum(np.abs(problem.prior), 1e-3 * max(float(np.abs(problem.prior).max()), TINY))
    B = np.diag(prior * problem.divergence.curvature(prior))
    m = np.zeros(problem.c)
    for sense in (1.0, -1.0):  # "<=" rows first: they enlarge B
        part = np.where(s == sense, half, 0.0)
        if not part.any():
            continue
        C = np.linalg.inv(np.linalg.cholesky(B))
        A = symmetrize(problem.operator.adjoint(part / problem.unit))
        low = float(eigvalsh(symmetrize(C @ A @ C.T))[0])
        theta = min(1.0, 0.5 / -low) if low < 0 else 1.0
        m += theta * part
        B = B + theta * A
    return m
