"""A primal active set: from a point near the solution to the exact solution, first several variables at a time, then single ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat._kernels import exchange, free_factor, vectors
from bregmat._kernels.arrays import Quadratic, RunPoint
from bregmat.base.linalg import column_basis
from bregmat.base.threads import single_thread_blas
from bregmat.quadratic.free_set import FEW, FreeFactor
from bregmat.quadratic.program import Minimum, QPState, QuadraticProgram, onto_row
from bregmat.run.result import ExitReason

EXCHANGES = 50  # single exchanges in one step
SMALL = 256  # number of free variables up to which single exchanges are faster than bulk steps from the beginning
Watch = Callable[[np.ndarray, np.ndarray, int], bool]  # (point, reduced gradient, steps so far) -> whether to stop


@dataclass(frozen=True)
class ExactActiveSet:
    """An exact method for starts whose support is nearly right, such as the end of coordinate descent or of a working-set method.

    From far away it needs many factorisations. There, prefer :class:`bregmat.quadratic.pivoting.BlockPivoting`, unless A is
    singular on a free set.

    Parameters
    ----------
    tol : float
        Largest violation of the optimality conditions, with every gradient divided by sqrt(A_ii), relative to the largest relevant
        entry of b in these units: a large positive entry that keeps its variable at zero is not relevant. The rounding of the
        gradient is allowed in addition.
    max_iter : int
        Limit on steps. A step is a bulk step or up to 50 single exchanges.
    is_single : bool
        Whether to exchange single variables from the beginning.

    Notes
    -----
    The objective never rises. A bulk step solves on the free set F and takes the better of the ratio-test step and the projected
    step (with the sum constraint restored). Blocked variables leave F, and at most a tenth of F joins, worst violations first. Bulk
    steps alone may cycle between blocked steps. Therefore variables enter one at a time if two bulk steps do not reduce the largest
    violation by 30 %, if few variables violate their conditions, or if F is small; each moves with all of F along the edge on
    which F stays stationary. This is finite and monotone. A variable whose column depends on those of F also enters, but then moves
    until another one leaves. Cost: |F|^3 / 3 for each factorisation from scratch, |F|^2 for each exchange.
    """

    tol: float = 1e-10
    max_iter: int = 200
    is_single: bool = False
    name: ClassVar[str] = "active_set"
    works_on: ClassVar[str] = "objective"

    def check(self, problem: Any) -> None:
        """Accept every quadratic program."""

    def init(self, problem: QuadraticProgram, tol: float, start: np.ndarray) -> ActiveSetState:
        """The state at a start inside the box, for a certificate to the gap ``tol``."""
        state = ActiveSetState(problem, start.copy(), self.tol, is_single=self.is_single)
        state.tol = tol
        return state

    def step(self, problem: QuadraticProgram, state: ActiveSetState) -> ActiveSetState:
        """Do a bulk step or some single exchanges."""
        state.advance()
        return state

    def minimize(self, program: QuadraticProgram, start: np.ndarray, watch: Watch | None = None) -> Minimum:
        """Run from a point near the solution to the solution, without certificates.

        Parameters
        ----------
        program : QuadraticProgram
            Blocks of A may be singular; E must have full row rank.
        start : ndarray, shape (n,)
            Clipped to the box; not changed. If ``E x = e`` does not hold, it is restored on the free variables.
        watch : callable, optional
            Gets (point, reduced gradient, steps so far) before every step; True stops.

        Raises
        ------
        ValueError
            The curvature along a step is clearly negative: A is not positive semidefinite.
        """
        with single_thread_blas():
            state = self.init(program, 0.0, np.minimum(np.maximum(start, 0.0), program.upper))
            n_iter = 0
            while state.ended is None and n_iter < self.max_iter:
                if watch is not None and watch(state.x, state.reduced(), n_iter):
                    break
                state.advance()
                n_iter += 1
            violation = float(program.violations(state.x, state.reduced()).max())
            return Minimum(
                state.x,
                state.multiplier,
                n_iter=n_iter,
                n_factor=state.factor.n_factor,
                violation=violation,
                falling=state.falling,
            )


class ActiveSetState(QPState):
    """Point x, gradient ``g = A x + b``, multipliers and free set; ``falling`` is a direction without a minimum, if one was met."""

    def __init__(self, program: QuadraticProgram, x: np.ndarray, tol: float, *, is_single: bool) -> None:
        self.program, self.x, self.relative_tol = program, x, tol
        self.A, self.b, self.E, self.e, self.upper = program.A, program.b, program.E, program.e, program.upper
        rho = 0.0
        if len(self.E):  # rho E'E is as large as A
            size = float(program.root @ program.root) or float(program.n)
            rho = size / max(float((self.E * self.E).sum()), 1e-300)
        self.fixed = Quadratic(self.A, self.E, self.upper, program.weights, rho)
        self._recompute_gradient()
        self.multiplier = np.zeros(program.m)
        self.falling: np.ndarray | None = None
        self.factor = FreeFactor(self.fixed, program.n)
        self.factor.rebuild(np.flatnonzero((x > 0.0) & (x < self.upper)))
        self.is_single = is_single or self.factor.size <= SMALL
        # Bulk steps: smallest violation so far, steps since it fell, and the violation after the gradient was last recomputed.
        self.best, self.waited, self.smallest, self.is_recomputed = np.inf, 0, np.inf, True
        # Single exchanges: violation at the last stop, and whether variables were just added to give E full row rank.
        self.before, self.is_supplemented = np.inf, False

    # ---------------------------------------------------------------- gradient and conditions
    def _recompute_gradient(self) -> None:
        """Compute the gradient from x."""
        support = np.flatnonzero(self.x)
        self.g = self.b.copy()
        self._add_columns(support, self.x[support])

    def _add_columns(self, rows: np.ndarray, weights: np.ndarray) -> None:
        """``g += A[:, rows] weights``."""
        if len(rows) > len(self.b) // 4:
            full = np.zeros(len(self.b))
            full[rows] = weights
            self.g += self.A @ full
        else:
            vectors.add_rows_inplace(self.g, self.A, rows, weights)

    @property
    def allowed(self) -> float:
        """Violation at which the run ends, in units of sqrt(A_ii): the tolerance, or the rounding of a gradient if that is larger."""
        noise = 2e-16 * float(self.program.root @ np.abs(self.x))
        return max(self.relative_tol * self.program.unit(self.reduced(), weighted=True), noise)

    def reduced(self) -> np.ndarray:
        """``A x + b + E' multiplier``."""
        return self.program.reduced(self.g, self.multiplier)

    def _violations(self) -> np.ndarray:
        """Violations of the optimality conditions, divided by sqrt(A_ii)."""
        return self.program.violations(self.x, self.reduced()) * self.program.weights

    def possible_rays(self) -> Iterable[np.ndarray]:
        """The direction without a minimum; and the point, which goes far along such a direction if rounding blocks its steps."""
        return (self.x,) if self.falling is None else (self.falling, self.x)

    def advance(self) -> None:
        """Do a bulk step, or up to 50 single exchanges."""
        if not self.is_single and self.factor.constrain():
            self._bulk_step()
        else:
            self.is_single = True
            self._exchange()

    # ---------------------------------------------------------------- bulk steps
    def _bulk_step(self) -> None:
        """Move to the minimum on the free set, then let violating variables join it."""
        if not self._move_free():
            self.is_recomputed = False
            return
        v = self._violations()
        worst, allowed = float(v.max()), self.allowed
        if worst <= allowed:
            self._check_end(worst, allowed)
            return
        self.is_recomputed = False
        v[self.factor.free] = 0.0
        bad = np.flatnonzero(v > allowed)
        if len(bad) == 0:
            self._recompute_gradient()
            self.is_single = True
            return
        if worst < 0.7 * self.best:
            self.best, self.waited = worst, 0
        else:
            self.waited += 1
        if self.waited >= 2 or len(bad) * FEW <= self.factor.size:
            self.is_single = True
            return
        most = max(5, len(self.factor.free) // 10)
        if len(bad) > most:
            bad = bad[np.argpartition(-v[bad], most)[:most]]
        self.factor.change(join=bad)

    def _check_end(self, worst: float, allowed: float) -> None:
        """End the run if the conditions hold with a recomputed gradient, or if recomputing it does not help any more."""
        if not self.is_recomputed:
            self._recompute_gradient()
            worst = float(self._violations().max())
        if worst <= allowed or worst > 0.5 * self.smallest:
            self.ended = ExitReason.STALLED
        self.smallest, self.is_recomputed = worst, True

    def _move_free(self) -> bool:
        """Move the free variables to their minimum or to the first bounds on the way; True if the whole step was possible."""
        F = self.factor.free
        if len(F) == 0:
            return True
        residual = self.e - self.E @ self.x
        # A_FF d + E_F' multiplier = -g_F,  E_F d = e - E x
        d, self.multiplier = self.factor.solve(-self.g[F], residual)
        x, u = self.x[F], self.upper[F]
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(d < 0, -x / d, np.where(d > 0, (u - x) / d, np.inf))
        k = int(np.argmin(steps))
        t = min(1.0, max(float(steps[k]), 0.0))
        new = np.minimum(np.maximum(x + t * d, 0.0), u)
        if t < 1.0:
            new[k] = 0.0 if d[k] < 0 else u[k]
            if (steps < 1.0).sum() > 1 and len(self.E) <= 1:
                new = self._projected(x, u, d, new, residual)
        self.x[F] = new
        self._add_columns(F, new - x)
        if t >= 1.0:
            return True
        out = np.flatnonzero(((new <= 0.0) & (d < 0)) | ((new >= u) & (d > 0)))
        self.factor.change(leave=out)
        return False

    def _projected(
        self, x: np.ndarray, u: np.ndarray, d: np.ndarray, ratio: np.ndarray, residual: np.ndarray
    ) -> np.ndarray:
        """The better of the ratio-test step and projected steps of decreasing length, with the sum constraint restored."""
        F = self.factor.free
        least = self._change_along(ratio - x)
        for t in (1.0, 0.5, 0.25, 0.1):
            target = x + t * d
            if len(self.E):
                row = self.E[0, F]
                target = onto_row(target, row, float(row @ x + t * residual[0]), u)
            else:
                target = np.minimum(np.maximum(target, 0.0), u)
            if self._change_along(target - x) < least:
                return target
        return ratio

    def _change_along(self, d: np.ndarray) -> float:
        """Change of the objective, ``g'd + 1/2 d'Ad``, along a step of the free variables."""
        F = self.factor.free
        curved = free_factor.squared_length(self.factor.state.U, d)
        if len(self.E):
            curved -= self.fixed.rho * float(np.square(self.E[:, F] @ d).sum())
        return float(self.g[F] @ d) + 0.5 * curved

    # ---------------------------------------------------------------- single exchanges
    def _exchange(self) -> None:
        """Do up to 50 single exchanges, and end the run if no condition is violated."""
        self.factor.grow()
        direction, counts = np.zeros(len(self.b)), np.zeros(1, np.int64)
        place = RunPoint(self.x, self.g, self.multiplier, self.e)
        code = exchange.run_inplace(place, direction, counts, self.factor.state, self.fixed, self.allowed, EXCHANGES)
        if direction.any():  # a certificate decides whether the objective falls without bound along it
            self.falling = direction
        if code == exchange.INDEFINITE:
            raise ValueError(_indefinite(self.A, direction))
        if code == exchange.DEFICIENT and not self.is_supplemented:
            self.factor.change(join=self._supplement())
            self.is_supplemented = True
            return
        self.is_supplemented = False
        if code in (exchange.UNBOUNDED, exchange.DEFICIENT):
            self.ended = ExitReason.STALLED
            return
        if code == exchange.FULL:  # the factor needs more memory
            return
        self._recompute_gradient()
        worst = float(self._violations().max())
        if code == exchange.OPTIMAL and (worst <= self.allowed or worst > 0.5 * self.before):
            self.ended = ExitReason.STALLED
        elif code != exchange.PAUSED:
            self.before = worst

    def _supplement(self) -> np.ndarray:
        """Variables that give E full row rank on the free set."""
        outside = np.setdiff1d(np.arange(len(self.b)), self.factor.free)
        if len(self.E) > 1:
            return _independent_columns(self.E, self.factor.free, outside, np.minimum(self.x, self.upper - self.x))
        # one row: the variable with the steepest descent per unit of the row, if possible one that may move up along it
        row = self.E[0, outside]
        up = np.where(row > 0, self.x[outside] < self.upper[outside], self.x[outside] > 0.0) & (row != 0)
        able = up if up.any() else row != 0
        ratio = np.where(able, -self.g[outside] / np.where(row == 0, 1.0, row), -np.inf)
        return outside[[int(np.argmax(ratio))]]


def _indefinite(A: np.ndarray, direction: np.ndarray) -> str:
    """Error message that names a direction of negative curvature."""
    where = np.flatnonzero(direction)
    shown = where[np.argsort(-np.abs(direction[where]), kind="stable")[:4]]
    value = float(direction @ (A @ direction)) / float(direction @ direction)
    return (
        f"A is not positive semidefinite: d'Ad / d'd = {value:.6g} along a direction d of {len(where)} variables, "
        f"largest entries at {', '.join(map(str, shown))}."
    )


def _independent_columns(E: np.ndarray, have: np.ndarray, outside: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """Columns of E that complete those in ``have`` to full row rank; variables with slack to both bounds are preferred."""
    Q = column_basis(E[:, have], 1e-9) if len(have) else np.zeros((len(E), 0))
    chosen: list[int] = []
    weight = np.where(slack[outside] > 0, 1.0, 1e-3)
    while Q.shape[1] < len(E):
        rest = E[:, outside] - Q @ (Q.T @ E[:, outside])
        length = np.linalg.norm(rest, axis=0) * weight
        k = int(np.argmax(length))
        if not length[k] > 1e-9 * np.abs(E).max():
            break
        chosen.append(int(outside[k]))
        Q = np.column_stack([Q, rest[:, k] / np.linalg.norm(rest[:, k])])
    return np.array(chosen, dtype=np.int64)
