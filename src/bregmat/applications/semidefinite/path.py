"""An interior-point method along the path of LogDet-regularised programs, for decreasing weights of the LogDet term.

``minimize tr(C X) - tau logdet X`` under the constraints (Kulis 2009, section 6.4) has the solution

    Z = C + A*(mu),    X Z = tau I,    s (b - A(X)) = w,    w lam = tau,    lam = s mu

with the dual slack Z of the cone and slacks w > 0 of inequalities. Each step is a Newton step for these equations with a smaller
tau, in the scaling of Nesterov and Todd, with Mehrotra's predictor and corrector (1992). A soft row of weight gamma and unit u has
the relaxed bound ``b + mu u^2 / gamma``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bregmat.applications.semidefinite.problem import SemidefiniteProgram
from bregmat.base.linalg import add_diagonal, cholesky, cholesky_solve, conjugate_gradients, eigvalsh, symmetrize
from bregmat.base.tolerances import EPS, TINY
from bregmat.constraints.constraints import excess_of
from bregmat.coordinates.priors import Factored
from bregmat.operators.linear_maps import Operator
from bregmat.solvers.base import MatrixState
from bregmat.solvers.cone_scalings import largest_step

BOUNDARY_SHARE = 0.98  # largest step, relative to the distance to the boundary
SLOW = 0.9  # factor of the gap above which a step counts as slow
MAX_ENTRY = 1e8  # entries of the factor at which the program counts as unbounded


@dataclass(frozen=True, eq=False)
class ScaledProgram:
    """The program with rows of norm 1 and with C and the bounds scaled to 1: ``X = reach M``, ``mu = objective_scale m / unit``."""

    C: np.ndarray
    operator: Operator
    unit: np.ndarray  # norms of the rows
    bound: np.ndarray
    relaxation: np.ndarray  # change of the bound of a row by a dual weight of 1; 0 for hard rows
    reach: float
    objective_scale: float

    @classmethod
    def of(cls, problem: SemidefiniteProgram) -> ScaledProgram:
        """From a program in its original units."""
        L, operator = problem.rows.losses, problem.rows.operator
        norms = operator.norms()
        unit = np.where(norms > 0, norms, 1.0)
        reach = float((np.abs(L.bound) / unit).max(initial=0.0)) or 1.0
        objective_scale = float(np.linalg.norm(problem.C)) / np.sqrt(operator.r) or 1.0
        relaxation = np.where(L.hard, 0.0, L.scale**2 / L.gamma * objective_scale / (unit**2 * reach))
        return cls(
            problem.C / objective_scale, operator, unit, L.bound / (unit * reach), relaxation, reach, objective_scale
        )


@dataclass(frozen=True, eq=False)
class PathState(MatrixState):
    """A point near the path: ``X = L L'``, ``Z = R R'``, slacks and weights of the scaled program."""

    iterate: Factored
    dual: np.ndarray
    values: np.ndarray
    objective: float
    signal: float
    scaled: ScaledProgram
    L: np.ndarray
    R: np.ndarray
    slack: np.ndarray  # w; 1 for equalities
    m: np.ndarray
    stalled: bool = False
    idle: int = 0  # successive slow steps


class ProgramStep(NamedTuple):
    """Changes of X and Z, in the coordinates of the scaling, and of w, lam and m."""

    X: np.ndarray
    Z: np.ndarray
    w: np.ndarray
    lam: np.ndarray
    m: np.ndarray


@dataclass(frozen=True)
class LogDetPath:
    """Primal-dual steps along the path of LogDet-regularised programs."""

    name = "logdet path"
    works_on = "objective"
    max_iter = 100

    def check(self, problem: Any) -> None:
        """Accept every program."""

    def init(self, problem: SemidefiniteProgram, tol: float, start: Any) -> PathState:
        """Large multiples of the identity, with the slacks ``start`` (c,) of inequalities if that is given.

        Small slacks are needed if rows bound a value from both sides.
        """
        scaled, s = ScaledProgram.of(problem), problem.rows.losses.sense.astype(float)
        far = max(10.0, np.sqrt(problem.rows.r))
        root = np.sqrt(far) * np.eye(problem.rows.r)
        slack = np.full(problem.rows.c, far) if start is None else start / (scaled.unit * scaled.reach)
        slack = np.where(s == 0, 1.0, slack)
        return _state(problem, scaled, root, root, slack, s * far**2 / slack)

    def step(self, problem: SemidefiniteProgram, state: PathState) -> PathState:
        """A predictor and a corrector, with separate step lengths of the matrix and of the dual weights."""
        patience = 20  # successive slow steps after which the run ends
        shortest = 1e-6  # length of a step below which the run ends
        system = _NewtonSystem(problem, state)
        if not system.is_definite:
            return replace(state, stalled=True)
        predictor = system.direction(0.0)
        ap, ad = system.steps(predictor)
        ahead = system.complementarity(predictor, ap, ad) / system.tau
        target = system.tau * min(1.0, max(ahead, 0.0) ** (3.0 if min(ap, ad) > 0.5 else 1.5))
        d = system.direction(target, predictor)
        ap, ad = system.steps(d)
        new = system.moved(d, ap, ad) if max(ap, ad) > shortest else None
        if new is None:
            return replace(state, stalled=True)
        idle = state.idle + 1 if new.signal > SLOW * state.signal else 0
        is_far = not np.abs(new.L).max() < MAX_ENTRY
        # along a direction in which the objective is constant, the matrix would grow by rounding alone
        is_rounded = new.signal <= EPS * float(np.vdot(np.abs(problem.C), np.abs(new.iterate.matrix())))
        return replace(new, idle=idle, stalled=idle >= patience or is_far or is_rounded)


class _NewtonSystem:
    """The Newton system at a point, in the coordinates B of Nesterov and Todd: ``X = B diag(sigma) B'``, ``Z = B'^-1 diag(sigma) B^-1``."""

    def __init__(self, problem: SemidefiniteProgram, state: PathState) -> None:
        # relative term on the diagonal of the system, which is singular if rows are linearly dependent
        proximal = 1e-13
        self.problem, self.state = problem, state
        P = self.scaled = state.scaled
        s = self.s = problem.rows.losses.sense.astype(float)
        self.free = s == 0
        U, self.sigma, Qt = np.linalg.svd(state.R.T @ state.L)
        root = np.sqrt(self.sigma)
        self.B, self.inverse = state.L @ (Qt.T / root), state.R @ (U / root)  # the inverse is transposed
        self.root = np.multiply.outer(root, root)
        self.lam = np.where(self.free, 1.0, s * state.m)
        self.operator = P.operator.congruence(self.B)
        self.tau = self.complementarity()
        # residuals of the dual equation and of the rows
        missing = P.C + P.operator.adjoint(state.m / P.unit) - state.R @ state.R.T
        self.dual_residual = symmetrize(self.B.T @ missing @ self.B)
        p = state.values / (P.unit * P.reach)
        self.row_residual = P.bound + P.relaxation * state.m - p
        self.ratio = np.where(self.free, 0.0, state.slack / self.lam)
        G = self.operator.gram() / np.multiply.outer(P.unit, P.unit)
        G = add_diagonal(G, self.ratio + P.relaxation)
        self.scale = 1.0 / np.sqrt(np.maximum(G.diagonal(), TINY))
        self.matrix = self.scale[:, None] * G * self.scale
        self.factor, self.is_definite = cholesky(add_diagonal(self.matrix.copy(), proximal))

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """The solution of the system, refined twice against the proximal term, and then with products of the rows themselves.

        Where rows nearly cancel in a sum, the matrix of the system has lost their difference, and the products of the rows have not: a
        few steps of conjugate gradients with them correct the solution.
        """
        most_steps, small = 5, 1e-10  # the residual at which they end, relative to the right-hand side
        P, shift, rhs = self.scaled, self.ratio + self.scaled.relaxation, self.scale * rhs
        precondition = partial(cholesky_solve, self.factor)

        def product(y: np.ndarray) -> np.ndarray:
            y = self.scale * y
            image = self.operator.values(symmetrize(self.operator.adjoint(y / P.unit)))
            return self.scale * (image / P.unit + shift * y)

        y = precondition(rhs)
        for _ in range(2):
            y = y + precondition(rhs - self.matrix @ y)
        left, goal = rhs - product(y), small * float(np.linalg.norm(rhs))
        y += conjugate_gradients(
            product, left, goal=goal, max_iter=most_steps, precondition=precondition, is_euclidean=True
        ).x
        return self.scale * y

    def direction(self, target: float, predictor: ProgramStep | None = None) -> ProgramStep:
        """The direction towards ``X Z = target I`` and ``w lam = target``, with the second-order terms of the predictor."""
        P, s, free, w = self.scaled, self.s, self.free, self.state.slack
        H, row_products = np.diag(target - self.sigma**2), np.zeros_like(w)
        if predictor is not None:
            H, row_products = H - symmetrize(predictor.X @ predictor.Z), predictor.w * predictor.lam
        # dX + dZ = H solves the linearised equation, which is diagonal in these coordinates
        H = 2.0 * H / np.add.outer(self.sigma, self.sigma)
        dw = np.where(free, 0.0, (target - row_products - w * self.lam) / self.lam)
        # (A A* + w / lam + u^2 / gamma) dm = A(H - R) - (b - p) + s (w + dw)
        rhs = self.operator.values(H - self.dual_residual) / P.unit - self.row_residual
        dm = self.solve(rhs + np.where(free, 0.0, s * (w + dw)))
        dZ = self.dual_residual + symmetrize(self.operator.adjoint(dm / P.unit))
        dlam = np.where(free, 0.0, s * dm)
        return ProgramStep(H - dZ, dZ, dw - self.ratio * dlam, dlam, dm)

    def steps(self, d: ProgramStep) -> tuple[float, float]:
        """The step lengths of X and of Z: at most 1, and at most BOUNDARY_SHARE times the distance to the boundary."""
        lengths = []
        for matrix, x, dx in ((d.X, self.state.slack, d.w), (d.Z, self.lam, d.lam)):
            low = float(eigvalsh(matrix / self.root)[0])
            lengths.append(min(-1.0 / low if low < 0 else np.inf, largest_step(x, dx, ~self.free)))
        return min(1.0, BOUNDARY_SHARE * lengths[0]), min(1.0, BOUNDARY_SHARE * lengths[1])

    def complementarity(self, d: ProgramStep | None = None, ap: float = 0.0, ad: float = 0.0) -> float:
        """``<X, Z> + w . lam`` after steps of these lengths, over the number of the terms."""
        rows = ~self.free
        X, Z, w, lam = np.diag(self.sigma), np.diag(self.sigma), self.state.slack, self.lam
        if d is not None:
            X, Z, w, lam = X + ap * d.X, Z + ad * d.Z, w + ap * d.w, lam + ad * d.lam
        return (float(np.vdot(X, Z)) + float(w[rows] @ lam[rows])) / (len(self.sigma) + int(rows.sum()))

    def moved(self, d: ProgramStep, ap: float, ad: float) -> PathState | None:
        """The state after steps of these lengths; None if by rounding it is not in the cone."""
        state, sigma = self.state, np.diag(self.sigma)
        K, ok = cholesky(sigma + ap * d.X)
        N, done = cholesky(sigma + ad * d.Z)
        if not (ok and done):
            return None
        slack, m = state.slack + ap * d.w, state.m + ad * d.m
        return _state(self.problem, self.scaled, self.B @ K, self.inverse @ N, slack, m)


def _state(
    problem: SemidefiniteProgram, P: ScaledProgram, L: np.ndarray, R: np.ndarray, slack: np.ndarray, m: np.ndarray
) -> PathState:
    """The state of a point of the scaled program, with objective and dual weights in the original units."""
    rows = problem.rows
    F, mu = np.sqrt(P.reach) * L, P.objective_scale * m / P.unit
    p = rows.operator.congruence(F).values_diagonal(None)
    losses = rows.losses
    objective = float(np.vdot(problem.C, F @ F.T)) + float(losses.value(np.where(losses.hard, losses.bound, p)))
    # complementarity of the point and its dual weights, and the residuals of their equations
    products = float(np.linalg.norm(R.T @ L) ** 2) + float((slack * np.abs(m))[losses.sense != 0].sum())
    missing = P.C + P.operator.adjoint(m / P.unit) - R @ R.T
    # a soft row may exceed its bound up to the relaxed one
    excess = np.maximum(excess_of(p / (P.unit * P.reach), P.bound + P.relaxation * m, losses.sense), 0.0)
    unmet = float(np.abs(m) @ excess) + abs(float(np.vdot(L, missing @ L)))
    signal = (products + unmet) * P.reach * P.objective_scale
    return PathState(Factored(F, 0.0), mu, p, objective, signal, P, L, R, slack, m)
