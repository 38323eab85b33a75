"""The equations of the central path, linearised at a point: one linear system, several right-hand sides.

Rows have relaxed bounds xi, slacks ``w = s (xi - p) > 0`` and multipliers ``lam = s m > 0``, all in units of the rows. On the path

    phi'(M) - Z = T0 - A*(m),   M Z = tau,   d'(xi) - tau / xi = m,   w lam = tau,   s (xi - p) = w,   p = A(M).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bregmat.base.tolerances import EPS, TINY
from bregmat.certificates.problem import NearestMatrix
from bregmat.objective.row_losses import RowLosses
from bregmat.solvers.cone_scalings import LogDetScaling, SlackScaling, corrections, largest_step
from bregmat.solvers.newton_system import row_system

PROXIMAL = 1e-10  # added on hard equalities, relative to the diagonal of their Gram matrix: keeps dependent rows apart
FRACTION = 0.98  # fraction of the way to the boundary that a step may go


class RelaxedBounds:
    """Relaxed bounds xi and dual weights m of all rows, both in units of the rows; on the path ``d'(xi) - tau / xi = m``.

    Rows whose values may be negative have no barrier term ``tau / xi``. The bound of a hard row does not move.

    Parameters
    ----------
    losses : RowLosses
    unit : ndarray, shape (c,)
        Unit in which the violation of each row is measured. Rows with a loss of their divergence have bound 1 in it.

    Attributes
    ----------
    strength : ndarray, shape (c,)
        Second derivative of each loss at its bound: the typical size of its dual weight. Hard rows get the geometric mean of the others.
    floor, ceiling : ndarray, shape (c,)
        Infimum and supremum of the dual weights.
    """

    def __init__(self, losses: RowLosses, unit: np.ndarray) -> None:
        L = self.losses = losses
        self.unit = unit
        self.bound = L.bound / unit
        self.positive = L.is_positive
        self.strength = L.curvature_at_bound * unit * unit
        soft = self.strength[~L.hard]
        self.strength[L.hard] = np.exp(np.log(soft).mean()) if len(soft) else 1.0
        low, high = np.empty(len(unit)), np.empty(len(unit))
        for loss, rows in L.groups:
            low[rows], high[rows] = loss.slopes(L.bound[rows] / L.scale[rows])
        self.floor, self.ceiling = low * L.gamma / L.scale * unit, high * L.gamma / L.scale * unit
        self.has_floor, self.has_ceiling = np.isfinite(low), np.isfinite(high)

    def weights(self, xi: np.ndarray, tau: float) -> np.ndarray:
        """``m = d'(xi) - tau / xi``, the dual weights at which the bounds stay at xi; 0 for hard rows."""
        out = np.zeros_like(xi)
        for loss, rows, c, g, scale in self._soft():
            x = xi[rows]
            out[rows] = g / scale * loss.slope(x / scale, c) - (tau / x if loss.is_positive else 0.0)
        return out

    def at(self, m: np.ndarray, tau: float) -> np.ndarray:
        """The bounds at dual weights m, the inverse of :meth:`weights`."""
        out = self.bound.copy()
        for loss, rows, c, g, scale in self._soft():
            out[rows] = scale * loss.on_path(m[rows] * scale / g, c, tau / g)
        return out

    def chord(self, xi: np.ndarray, m: np.ndarray, tau: float) -> np.ndarray:
        """Slope of the chord of :meth:`at` between m and ``weights(xi)``; 0 for hard rows."""
        out = np.zeros_like(xi)
        for loss, rows, c, g, scale in self._soft():
            out[rows] = scale * scale / g * loss.chord(xi[rows] / scale, m[rows] * scale / g, c, tau / g)
        return out

    def _soft(self):
        """Each loss of soft rows with its rows, their bounds over their scales, slack weights, and scales in units of the rows."""
        L = self.losses
        for loss, rows in L.groups:
            if not loss.is_hard:
                yield loss, rows, L.bound[rows] / L.scale[rows], L.gamma[rows], L.scale[rows] / self.unit[rows]


@dataclass(frozen=True, eq=False)
class PathPoint:
    """A point near the central path.

    Attributes
    ----------
    bounds : RelaxedBounds
    factor : ndarray, shape (r, r)
        L with ``M = L L'``.
    relaxed, slack, weights : ndarray, shape (c,)
        xi, w (1 for equalities) and m, in units of the rows.
    t, V : ndarray, shape (r,), (r, r)
        ``T0 - A*(m) = V diag(t) V'``.
    tau : float
        Barrier parameter.
    cone : ndarray, shape (r, r), or None
        Factor of the dual slack Z of the cone; None for LogDet, where ``-T`` stands for it.
    primal_scale, link_scale : float
        tau over the residual of the primal equation and of the link at the first point; 0 before that is known.
    cg_steps : int
        Conjugate gradient steps that the last system took.
    """

    bounds: RelaxedBounds
    factor: np.ndarray
    relaxed: np.ndarray
    slack: np.ndarray
    weights: np.ndarray
    t: np.ndarray
    V: np.ndarray
    tau: float
    cone: np.ndarray | None
    primal_scale: float = 0.0
    link_scale: float = 0.0
    cg_steps: int = 0


class RightSide(NamedTuple):
    """What is added to the right-hand sides of the linearised equations, for M and for the products w lam."""

    M: np.ndarray | float = 0.0
    products: np.ndarray | float = 0.0


NOTHING = RightSide()


class Direction(NamedTuple):
    """A solution of the linearised equations: the moves of all variables."""

    M: np.ndarray
    T: np.ndarray
    relaxed: np.ndarray
    slack: np.ndarray
    weights: np.ndarray
    multipliers: np.ndarray


class Step(NamedTuple):
    """A direction that aims at ``tau = goal``, and the step lengths of the primal and the dual variables along it."""

    goal: float
    terms: RightSide
    direction: Direction
    primal: float
    dual: float

    @property
    def shorter(self) -> float:
        """The shorter of the two lengths."""
        return min(self.primal, self.dual)


class PathEquations:
    """The equations linearised at a point, in the frame of its scaling.

    Parameters
    ----------
    problem : NearestMatrix
    at : PathPoint
    values : ndarray, shape (c,)
        ``p = A(M)``, in units of p.
    """

    linear_tol = 1e-8  # relative residual of conjugate gradients

    def __init__(self, problem: NearestMatrix, at: PathPoint, values: np.ndarray) -> None:
        self.at, self.unit, self.r = at, problem.unit, problem.r
        s = problem.losses.sense.astype(float)
        self.free = s == 0  # equalities have no slack, and their multipliers any sign
        self.sign = np.where(self.free, 1.0, s)
        self.lam = np.where(self.free, 1.0, s * at.weights)
        # primal residual rho = s (xi - p) - w
        self.rho = self.sign * (at.relaxed - values / self.unit) - np.where(self.free, 0.0, at.slack)
        if at.cone is None:
            self.scaling: LogDetScaling = LogDetScaling(at.factor, at.t, at.V)
        else:
            self.scaling = SlackScaling(problem.divergence, at.factor, at.cone, at.t, at.V)
        self.rows = problem.operator.congruence(self.scaling.F)
        self.chord = at.bounds.chord(at.relaxed, at.weights, at.tau)
        self.ratio = np.where(self.free, 0.0, at.slack / self.lam)
        S = self.scaling.S
        size = self.rows.squared_norms(self.scaling.chord) / (self.unit * self.unit)
        proximal = np.where(problem.losses.hard & self.free, PROXIMAL * size, 0.0)
        diagonal = self.chord + self.ratio + proximal
        self._solve = row_system(self.rows, diagonal, self.unit, S, self.linear_tol, at.cg_steps)
        self.cg_steps = 0
        self.worst = float(np.abs(self.rho).max(initial=0.0))
        self.primal_scale = at.primal_scale or at.tau / max(self.worst, TINY)
        self.link_scale = at.link_scale or at.tau / max(self.scaling.link_defect, TINY)

    def step(self, goal: float, terms: RightSide = NOTHING) -> Step:
        """The direction that aims at ``tau = goal``, with the longest steps that stay inside."""
        d = self._direction(goal, terms)
        return Step(goal, terms, d, *self._lengths(d))

    def _direction(self, goal: float, terms: RightSide) -> Direction:
        at, scaling, free, sign = self.at, self.scaling, self.free, self.sign
        # each block at fixed dual weights ...
        dM0 = scaling.defect(goal) + terms.M
        dxi0 = self.chord * (at.weights - at.bounds.weights(at.relaxed, goal))
        dw0 = np.where(free, 0.0, (goal - self.lam * at.slack + terms.products) / self.lam)
        # ... and the dual weights from the primal equation s (dxi - A(dM)) - dw = -rho:
        # (chord + w / lam) dm + A L A* dm = A(dM0) - dxi0 + s (dw0 - rho)
        dm, dT, steps = self._solve(self.rows.values(np.asarray(dM0)) / self.unit - dxi0 + sign * (dw0 - self.rho))
        self.cg_steps += steps
        dlam = np.where(free, 0.0, sign * dm)
        dM, dw = dM0 + scaling.tangent(dT), dw0 - self.ratio * dlam
        return Direction(dM, dT, dxi0 + self.chord * dm, dw, dm, dlam)

    def _lengths(self, d: Direction) -> tuple[float, float]:
        """Longest primal and dual steps, at most 1, that keep a distance to every boundary."""
        at, bounds, free = self.at, self.at.bounds, self.free
        primal = min(
            self.scaling.primal_limit(d.M),
            largest_step(at.relaxed, d.relaxed, bounds.positive),
            largest_step(at.slack, d.slack, ~free),
        )
        dual = min(
            self.scaling.dual_limit(d.M, d.T),
            largest_step(bounds.ceiling - at.weights, -d.weights, bounds.has_ceiling),
            largest_step(at.weights - bounds.floor, d.weights, bounds.has_floor),
            largest_step(self.lam, d.multipliers, ~free),
        )
        # nearer to the boundary where the step is nearly a whole one (Mehrotra 1992)
        share = FRACTION - 0.09 + 0.09 * min(primal, dual, 1.0)
        return min(1.0, share * primal), min(1.0, share * dual)

    def complementarity(self, step: Step) -> float:
        """Mean of the products ``w lam`` and of the eigenvalues of ``M Z`` after a step: its tau."""
        d, on = step.direction, ~self.free
        n = int(on.sum()) + self.scaling.order
        if n == 0:  # LogDet with equalities only: the predictor leaves what it does not reach
            return (1.0 - FRACTION * step.shorter) * self.at.tau
        products = (self.at.slack + step.primal * d.slack) * (self.lam + step.dual * d.multipliers)
        return (float(products[on].sum()) + self.scaling.product(d.M, d.T, (step.primal, step.dual))) / n

    def least_goal(self, predictor: Step) -> float:
        """Least tau to aim at: tau may fall no faster than the residuals of the other equations.

        The primal residual is left over by short primal steps. That of the link is left over by its linearisation. When Z is far smaller
        than that residual, the frame of the scaling is no longer that of M, and the residual falls by a few percent a step only.
        """
        link_share, tau = 1e-3, self.at.tau  # larger shares take more steps; without it some problems do not converge
        rounding = 1e3 * EPS * float(np.abs(self.at.relaxed).max(initial=0.0))
        unmet = max(0.0, self.worst - rounding) * (1.0 - predictor.primal)
        primal = min(self.primal_scale * unmet, 10.0 * tau)
        link = min(link_share * min(1.0, self.link_scale) * self.scaling.link_defect, tau)
        return max(primal, link)

    def centred(self, step: Step, reach: float) -> RightSide:
        """The terms of a step with those that centre the point which is ``reach`` further along its direction (Gondzio 1996)."""
        d, goal = step.direction, step.goal
        primal, dual = min(1.0, step.primal + reach), min(1.0, step.dual + reach)
        products = (self.at.slack + primal * d.slack) * (self.lam + dual * d.multipliers)
        M = step.terms.M + self.scaling.centring(d.M, d.T, (primal, dual), goal)
        return RightSide(M, step.terms.products + corrections(products, goal))
