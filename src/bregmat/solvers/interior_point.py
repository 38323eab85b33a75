"""Interior point: a primal-dual path-following method that is robust for heavy slack weights and badly scaled data.

Rows ``p_i <= xi_i`` with relaxed bounds xi, slacks ``w = s (xi - p) > 0`` and multipliers ``lam = s mu > 0`` follow

    phi'(M) - tau M^-1 = T0 - A*(mu) = T,    d'(xi) - tau / xi = mu,    w lam = tau,    s (xi - p) = w

to ``tau = 0``. The dual equation ``T = T0 - A*(mu)`` holds always, the primal one is approached. Each nonlinear equation
``x = psi(t)`` is replaced by its chord between ``(psi(t), t)`` and ``(x, psi^-1(x))``, which is exact for a move of x alone and
for a move of t alone: for LogDet that is Nesterov and Todd's scaling, at the geometric mean of M and ``psi(T)``. For the other
divergences the derivative of psi at that geometric mean stands for the chord where rows are hard. Where all are soft, ``tau M^-1``
is a variable Z of its own, ``phi'(M) - Z = T`` and ``M Z = tau``: their scaling is Nesterov and Todd's again, with second-order
terms, and the link adds its derivative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat.base.checks import check_share
from bregmat.base.linalg import add_diagonal, eigh, eigvalsh, symmetrize
from bregmat.certificates.certify import objective_value
from bregmat.certificates.nearest_matrix import NearestMatrix
from bregmat.coordinates.iterates import Factored, Iterate, Spectral, iterate_at_prior
from bregmat.objective.spectral import SpectralDivergence
from bregmat.run.loop import MatrixState
from bregmat.solvers.barriers import RelaxedBounds
from bregmat.solvers.needs import Settings, SolverWithNeeds, positive
from bregmat.solvers.nesterov_todd import (
    CongruenceScaling,
    Scaling,
    SpectralScaling,
    SplitScaling,
    largest_step,
    pulled,
)
from bregmat.solvers.newton_system import row_system

FARTHEST = 0.2  # share of tau that a step aims at where the predictor is short: second-order terms carry it further
FARTHER = 0.1  # the same where correctors for centrality carry it further still
CORRECTORS = 3  # of these, at most
REACH = 0.3  # how far beyond the steps they look, share of whole ones; where the steps grow by that together, another one follows
WORTH = 0.03  # what a corrector must add to the steps to be kept
COLD = 0.05  # share in the first dual slack of the cone of the barrier of a start near the prior: M has an end where rows say nothing
SHORT = 0.1  # steps below which, and below half of those of the predictor, it aims no further than that says
PROXIMAL = 1e-10  # term on hard equalities, relative to the diagonal of the rows' Gram matrix; more slows nearly singular solutions


@dataclass(frozen=True, eq=False)
class _PathPoint:
    """Where the path-following is: primal (factor, relaxed, slack), dual (weights, their mirror point) and the barrier parameter."""

    bounds: RelaxedBounds
    factor: np.ndarray  # L with M = L L'
    relaxed: np.ndarray  # xi, units of the rows
    slack: np.ndarray  # w; 1 for equalities
    weights: np.ndarray  # mu times unit
    t: np.ndarray  # eigenvalues of T0 - A*(mu)
    V: np.ndarray
    tau: float
    residual_price: float = 0.0  # how much barrier a unit of primal residual is worth; 0: not known yet
    effort: int = 0  # conjugate gradient steps of the last system that was solved by them
    cone: np.ndarray | None = (
        None  # factor of the dual slack Z of the cone, link(M) - Z = T on the path; None where T stands for it
    )


@dataclass(frozen=True, eq=False)
class InteriorPointState(MatrixState):
    """One iterate with its point near the path."""

    iterate: Iterate
    dual: np.ndarray
    values: np.ndarray
    objective: float
    signal: float
    at: _PathPoint
    stalled: bool = False
    idle: int = 0  # steps in turn that brought nothing at the end of the path


@dataclass(frozen=True)
class InteriorPoint(SolverWithNeeds):
    """Primal-dual interior point for heavy slack weights, any loss, any divergence; also hard rows.

    Prefer it where mirror Newton stalls: slack weights that make the loss nearly piecewise linear. For light weights mirror
    Newton takes cheaper steps; for hard rows alone the dual Newton does.

    Parameters
    ----------
    fraction : float
        Share of the way to the boundary that a step may go; dimensionless, in (0, 1).
    neighbourhood : float
        How far ``psi(T)`` may run ahead of M: ``psi(T) <= M / neighbourhood``; dimensionless, in (0, 1). Not used for LogDet.
    linear_tol : float
        Relative residual of the linear systems.
    ahead : float
        How far from the border the path begins, in units of the strength of the rows: larger where the solution is far from
        the prior, as for nearly parallel hard rows; dimensionless.

    Notes
    -----
    Two solves with one matrix (predictor and corrector, Mehrotra 1992), up to three more where M and its dual are near a boundary
    (centrality correctors, Gondzio 1996), and a few r x r factorisations a step. The matrix is factorised where c or
    r (r + 1) / 2 is small enough, otherwise conjugate gradients, preconditioned.
    """

    name = "interior_point"
    works_on = "objective"
    max_iter = 200
    needs_divergence = ("barrier_inverse", "divided")
    needs_loss = ("on_path", "chord")
    fraction: float = 0.98
    neighbourhood: float = 0.03
    linear_tol: float = 1e-8
    ahead: float = 1.0

    def _settings(self) -> Settings:
        return {check_share: ("fraction", "neighbourhood"), positive: ("linear_tol", "ahead")}

    def init(self, problem: NearestMatrix, tol: float, start: np.ndarray | None) -> InteriorPointState:
        """At half the strength of the rows; on the central path but for the primal equation and, where the cone has a slack, the link."""
        return self._start(problem, _has_cone(problem))

    def _start(self, problem: NearestMatrix, has_cone: bool) -> InteriorPointState:
        L, D, u = problem.losses, problem.divergence, problem.unit
        s = L.sense.astype(float)
        bounds = RelaxedBounds(problem.losses, problem.unit)
        bounds.strength[L.hard] *= self.ahead * max(1.0, problem.stretch)
        half = _half_strength(bounds, s)
        m = _cold_weights(problem, half, s)
        tau = float(np.exp(np.log(bounds.strength).mean()))
        t, V = eigh(_mirror_point(problem, m / u))
        x = D.barrier_inverse(t, tau)
        factor, cone = V * np.sqrt(x), None
        if has_cone:  # T may be anything: all rows at half of their strength, which those that are kept small here take long to reach
            m = half
            # the first Z is as large as what T misses of the link, |A*(|mu|)|: where it is not, M grows first and falls by decades later
            a, U = eigh(symmetrize(problem.operator.adjoint(np.abs(m) / u)))
            z, Q = eigh((U * np.abs(a)) @ U.T + (V * (COLD * tau / x)) @ V.T)
            factor, cone = Q * np.sqrt(tau / z), Q * np.sqrt(z)
            t, V = eigh(_mirror_point(problem, m / u))
        slack = np.where(s == 0, 1.0, tau / np.where(s == 0, 1.0, s * m))
        return _state(problem, _PathPoint(bounds, factor, bounds.at(m, tau), slack, m, t, V, tau, cone=cone))

    def step(self, problem: NearestMatrix, state: InteriorPointState) -> InteriorPointState:
        """Predictor, corrector, and separate primal and dual steps inside the neighbourhood.

        Where a step with a dual slack of the cone stalls, which has no neighbourhood to keep to, the path is begun anew without it.
        """
        try:
            new = self._step(problem, state)
        except np.linalg.LinAlgError:
            new = replace(state, stalled=True)
        return self._start(problem, has_cone=False) if new.stalled and state.at.cone is not None else new

    def _step(self, problem: NearestMatrix, state: InteriorPointState) -> InteriorPointState:
        if not state.at.tau > 0:  # below the smallest number: nothing left to follow
            return replace(state, stalled=True)
        L, u = problem.losses, problem.unit
        s = L.sense.astype(float)
        free = s == 0
        at = state.at
        bounds, xi, w, m, tau = at.bounds, at.relaxed, at.slack, at.weights, at.tau
        lam = np.where(free, 1.0, s * m)
        p = state.values / u
        sign = np.where(free, 1.0, s)
        rho = sign * (xi - p) - np.where(free, 0.0, w)
        D = problem.divergence
        scaling: Scaling
        if at.cone is not None:
            scaling = SplitScaling(D, at.factor, at.cone, at.t, at.V)
        else:
            kind = CongruenceScaling if D.is_congruence_invariant else SpectralScaling
            scaling = kind(D, at.factor, at.t, at.V, tau)
        X = problem.operator.congruence(scaling.F)
        chord = bounds.secant(xi, m, tau)
        ratio = np.where(free, 0.0, w / lam)
        rigid = L.hard & free  # no chord, no slack: a proximal term keeps dependent rows apart
        weight = None if scaling.S is None else scaling.S * scaling.S
        proximal = np.where(rigid, PROXIMAL * X.squared_norms(weight) / (u * u), 0.0)
        solve = row_system(X, chord + ratio + proximal, u, scaling.S, self.linear_tol, at.effort)
        steps = 0

        def direction(goal: float, cM: np.ndarray | float, cxi: np.ndarray | float, cw: np.ndarray | float) -> tuple:
            nonlocal steps
            dM0 = scaling.defect(goal) + cM
            dxi0 = chord * (m - bounds.price(xi, goal)) + cxi
            dw0 = np.where(free, 0.0, (goal - lam * w + cw) / lam)
            # (chord + w / lam) dm + A L A* dm = A(dM0) - dxi0 + s (dw0 - rho)
            dm, dT, used = solve(X.values(dM0) / u - dxi0 + sign * (dw0 - rho))
            steps += used
            dM = dM0 + scaling.tangent(dT)
            dlam = np.where(free, 0.0, s * dm)
            return dM, dT, dxi0 + chord * dm, dw0 - ratio * dlam, dm, dlam

        def lengths(d: tuple, goal: float) -> tuple[float, float]:
            dM, dT, dxi, dw, dm, dlam = d
            ap = min(scaling.primal_limit(dM), largest_step(xi, dxi, bounds.positive), largest_step(w, dw, ~free))
            ad = min(
                scaling.dual_limit(dM, dT),
                largest_step(bounds.ceiling - m, -dm, bounds.has_ceiling),
                largest_step(m - bounds.floor, dm, bounds.has_floor),
                largest_step(lam, dlam, ~free),
            )
            most = self.fraction - 0.09 + 0.09 * min(ap, ad, 1.0)
            ap, ad = min(1.0, most * ap), min(1.0, most * ad)
            return self._inside(scaling, at, d, goal, ap, ad)

        n = max(1, int((~free).sum()))
        d = direction(1e-3 * tau if isinstance(scaling, SpectralScaling) else 0.0, 0.0, 0.0, 0.0)
        ap, ad = lengths(d, tau)
        ahead = float(((w + ap * d[3]) * (lam + ad * d[5]))[~free].sum())
        if isinstance(scaling, SplitScaling):
            ahead = (ahead + scaling.product(d[0], d[1], ap, ad)) / (n + problem.r)
        else:
            ahead /= n
        if free.all():  # nothing to read it off
            ahead = (1.0 - self.fraction * min(ap, ad)) * tau
        worst = float(np.abs(rho).max(initial=0.0))
        price = at.residual_price or tau / max(worst, 1e-300)
        least = min(price * worst * (1.0 - ap), 10.0 * tau)
        plain = min(1.0, max((ahead / tau) ** 3, 1e-4)) * tau
        bent = bounds.bilinear

        def aimed(goal: float, terms: tuple) -> tuple[tuple, float, float]:
            new = direction(goal, *terms)
            return new, *lengths(new, tau)

        def second_order(share: float) -> tuple:
            cxi = np.where(bent, share * d[2] * d[4] / np.where(bent, bounds.ceiling - m, 1.0), 0.0)
            return share * scaling.curvature(d[0], d[1]), cxi, -share * d[3] * d[5]

        # far, with the part of the predictor's products that a step to the goal has; where that is not far, near with few of them
        goal = max(min((FARTHER if scaling.is_primal_dual else FARTHEST) * tau, plain), least)
        terms = second_order((1.0 - min(1.0, goal / tau)) ** 2)
        found = aimed(goal, terms)
        if min(found[1:]) < min(SHORT, 0.5 * min(ap, ad)):
            nearer = max(plain, least)
            fewer = second_order(ap * ad if min(ap, ad) > 0.1 else 0.0)
            other = aimed(nearer, fewer)
            if min(other[1:]) > min(found[1:]):
                goal, terms, found = nearer, fewer, other
        for _ in range(CORRECTORS if scaling.is_primal_dual else 0):
            d, ap, ad = found
            if min(ap, ad) > 1.0 - REACH / 3.0:
                break
            further = min(1.0, ap + REACH), min(1.0, ad + REACH)
            products = (w + further[0] * d[3]) * (lam + further[1] * d[5])
            terms = terms[0] + scaling.centring(d[0], d[1], further, goal), terms[1], terms[2] + pulled(products, goal)
            other = aimed(goal, terms)
            gain = sum(other[1:]) - ap - ad
            if gain > WORTH:
                found = other
            if gain < REACH:
                break
        d, ap, ad = found
        if not max(ap, ad) > 1e-7:
            return replace(state, stalled=True)
        factor = scaling.moved(d[0], ap)
        cone = scaling.moved_slack(d[0], d[1], ad) if isinstance(scaling, SplitScaling) else None
        if factor is None or (cone is None and at.cone is not None):
            return replace(state, stalled=True)
        m = m + ad * d[4]
        xi, w = xi + ap * d[2], w + ap * d[3]
        t, V = eigh(_mirror_point(problem, m / u))
        lam = s * m
        if cone is not None:
            tau = (float((w * lam)[~free].sum()) + float(((cone.T @ factor) ** 2).sum())) / (
                int((~free).sum()) + problem.r
            )
        elif free.all():
            tau = max(goal, 1e-3 * tau, _complementarity(D, factor, t, V))
        else:
            tau = float((w * lam)[~free].sum()) / n
        new = _state(problem, _PathPoint(bounds, factor, xi, w, m, t, V, tau, price, steps or at.effort, cone))
        # what is left of the path is less than rounding of the objective: then steps that bring nothing are the last ones
        ended = tau * (problem.c + problem.r) <= np.finfo(float).eps * max(1.0, abs(new.objective))
        idle = state.idle + 1 if ended and new.signal >= state.signal else 0
        return replace(new, idle=idle, stalled=idle > 3)

    def _inside(
        self, scaling: Scaling, at: _PathPoint, d: tuple, goal: float, ap: float, ad: float
    ) -> tuple[float, float]:
        """Shorten the steps until ``psi(T) <= M / neighbourhood`` and the same for the relaxed bounds."""
        if not isinstance(scaling, SpectralScaling):
            return ap, ad
        kappa = 1.0 / self.neighbourhood
        room: Any = None
        if at.bounds.guarded is not None:
            k, guarded = at.bounds.guarded
            xi, m, dm = at.relaxed[k], at.weights[k], d[4][k]
            room = np.maximum(kappa, 1.05 * guarded.at(m, at.tau) / xi)

        def limit(ap: float) -> float:
            low = scaling.order_limit(scaling.moved(d[0], ap), d[1], (goal, kappa))
            if room is not None:
                x = room * (xi + ap * d[2][k])
                low = min(low, largest_step(guarded.price(x, goal) - m, -dm))
            return 0.95 * low

        now = limit(ap)
        # a shorter primal step leaves more room to the dual one, if it shrinks M there
        while now < 0.2 * ad and ap > 1e-3:
            shorter = limit(0.6 * ap)
            if shorter < 1.2 * now:
                break
            ap, now = 0.6 * ap, shorter
        return ap, min(now, ad)


def _has_cone(problem: NearestMatrix) -> bool:
    """Whether the dual slack of the cone is a variable of its own: soft rows under a divergence that is not its own barrier."""
    return not problem.divergence.is_congruence_invariant and problem.is_soft


def _complementarity(divergence: SpectralDivergence, factor: np.ndarray, t: np.ndarray, V: np.ndarray) -> float:
    """``<M, phi'(M) - T> / r`` with ``M = factor factor'`` and ``T = V diag(t) V'``: tau on the path.

    Parameters
    ----------
    divergence : SpectralDivergence
    factor, V : ndarray, shape (r, r)
    t : ndarray, shape (r,)
    """
    x = np.linalg.svd(factor, compute_uv=False) ** 2
    return float((x * divergence.link(x)).sum() - ((V.T @ factor) ** 2).sum(axis=1) @ t) / len(t)


def _mirror_point(problem: NearestMatrix, mu: np.ndarray) -> np.ndarray:
    """``T0 - A*(mu)``."""
    return add_diagonal(-symmetrize(problem.operator.adjoint(mu)), problem.t0)


def _half_strength(bounds: RelaxedBounds, s: np.ndarray) -> np.ndarray:
    """Weights of half the strength of every inequality, and half of the way to an open end."""
    most = np.minimum(bounds.strength, np.where(s > 0, bounds.ceiling, -bounds.floor))
    return np.where(s == 0, 0.0, 0.5 * s * most)


def _cold_weights(problem: NearestMatrix, half: np.ndarray, s: np.ndarray) -> np.ndarray:
    """These weights, the ">=" rows' scaled so that none moves the prior far.

    ``B + A*(mu)`` keeps half of its size, ``B = M0 phi''(M0)``: a move of T by B doubles M, to first order. For LogDet that is
    ``M0^-1``, the border of the domain; for von Neumann, where T may be anything, the exponential would overflow.
    """
    prior = np.maximum(np.abs(problem.prior), 1e-3 * max(float(np.abs(problem.prior).max()), 1e-300))
    B = np.diag(prior * problem.divergence.curvature(prior))
    m = np.zeros(problem.c)
    for sense in (1.0, -1.0):
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


def _state(problem: NearestMatrix, at: _PathPoint) -> InteriorPointState:
    D, L, t0, m, strength = problem.divergence, problem.losses, problem.t0, at.weights, at.bounds.strength
    iterate: Iterate
    if isinstance(iterate_at_prior(D, t0), Factored):
        iterate = Factored(at.factor, 2.0 * float(np.linalg.slogdet(at.factor)[1]))
        p = problem.operator.congruence(at.factor).values_diagonal(None)
    else:
        U, sigma, _ = np.linalg.svd(at.factor)
        iterate = Spectral(D, t0, D.link(sigma**2), U)
        p = problem.operator.congruence(U).values_diagonal(sigma**2)
    # a hard row with slack is reported without its multiplier (of the size of tau): restoration moves rows that have one
    idle = L.hard & (L.sense != 0) & (at.slack * strength > np.abs(m))
    mu = np.where(idle, 0.0, m) / problem.unit
    F = objective_value(problem, iterate, p, soft_only=True)
    bound = D.constant(t0) - D.conjugate(at.t) - float(L.conjugate(mu).sum()) if D.in_domain(at.t) else -np.inf
    unmet = np.where(L.hard, (np.abs(m) + strength) * problem.violation(p), 0.0).sum()
    if not np.isfinite(F):  # values on their way into the domain of their losses
        return InteriorPointState(iterate, mu, p, np.nan, np.inf, at)
    return InteriorPointState(iterate, mu, p, F, abs(F - bound) + float(unmet), at)
