"""The exact finish: a primal active set from a good start, variables in bulk first, then one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bregmat._kernels import exchange, free_factor, vectors
from bregmat._kernels.arrays import Quadratic, RunPoint
from bregmat.base.linalg import column_basis
from bregmat.base.threads import single_thread_blas
from bregmat.quadratic.free_set import FEW, FreeFactor
from bregmat.quadratic.program import Minimum, QuadraticProgram, onto_row

CHUNK = 200  # single exchanges between two looks at the clock
EXCHANGES = 50  # single exchanges that count as one bulk step
SMALL = 256  # free variables up to which single exchanges are quicker than bulk steps from the beginning
Watch = Callable[[np.ndarray, np.ndarray, int], bool]  # (point, reduced gradient, steps so far) -> whether to stop


@dataclass(frozen=True)
class ExactActiveSet:
    """An exact method for a start whose support is nearly right, such as the end of coordinate descent or of a working-set method.

    From far away it needs many factorisations: prefer :class:`bregmat.quadratic.pivoting.BlockPivoting` there, unless A is
    singular on a free set.

    Parameters
    ----------
    tol : float
        Largest violation of the optimality conditions, with every gradient in units of sqrt(A_ii), relative to the largest b
        that matters in these units: a large positive entry that keeps its variable at zero does not. Rounding of the gradient
        is allowed for on top.
    max_iter : int
        Limit on bulk steps; single exchanges have 50 times as many.
    is_single : bool
        One variable at a time from the beginning.

    Notes
    -----
    The objective never rises. A bulk step solves on the free set F and takes the better of the ratio-test step and the
    projected step (with the sum constraint restored), drops what is blocked, and lets at most a tenth of F join, worst
    first. Bulk steps alone can go round in circles between blocked steps; so where two of them do not lower the largest
    violation by 30 %, where few variables are left to join, and where F is small, variables enter one at a time, each
    moving with all of F along the edge on which F stays stationary. That is finite and monotone. A variable whose column
    depends on those of F enters too, but then moves until another leaves. Cost: |F|^3 / 3 for each factorisation from scratch,
    |F|^2 for each exchange.
    """

    tol: float = 1e-10
    max_iter: int = 200
    is_single: bool = False

    def minimize(self, program: QuadraticProgram, start: np.ndarray, watch: Watch | None = None) -> Minimum:
        """From a point near the solution to the solution.

        Parameters
        ----------
        program : QuadraticProgram
            Singular blocks of A are allowed; E must be of full row rank.
        start : ndarray, shape (n,)
            Clipped to the box; not changed. Where ``E x = e`` does not hold it is repaired on the free variables.
        watch : callable, optional
            Gets (point, reduced gradient, steps so far) after every bulk step and every 200 single exchanges; True stops.

        Raises
        ------
        ValueError
            A step along which the curvature is clearly negative: A is not positive semidefinite.
        """
        with single_thread_blas():
            inside = np.minimum(np.maximum(start, 0.0), program.upper)
            return _Search(program, inside, self.tol, watch).minimize(self.max_iter, self.is_single)


class _Search:
    """Point, gradient, multipliers and free set of one search."""

    def __init__(self, program: QuadraticProgram, x: np.ndarray, tol: float, watch: Watch | None) -> None:
        self.program, self.x, self.relative, self.watch = program, x, tol, watch
        self.A, self.b, self.E, self.e, self.upper = program.A, program.b, program.E, program.e, program.upper
        rho = 0.0
        if len(self.E):
            size = float(program.root @ program.root) or float(program.n)
            rho = size / max(float((self.E * self.E).sum()), 1e-300)
        self.fixed = Quadratic(self.A, self.E, self.upper, program.weights, rho)
        self.refresh()
        self.multiplier = np.zeros(program.m)
        self.n_iter = 0
        self.falling: np.ndarray | None = None
        self.factor = FreeFactor(self.fixed, program.n)

    def refresh(self) -> None:
        """The gradient anew."""
        support = np.flatnonzero(self.x)
        self.g = self.b.copy()
        self.shift(support, self.x[support])

    def shift(self, rows: np.ndarray, weights: np.ndarray) -> None:
        """``g += A[:, rows] weights``."""
        if len(rows) > len(self.b) // 4:
            full = np.zeros(len(self.b))
            full[rows] = weights
            self.g += self.A @ full
        else:
            vectors.add_rows_inplace(self.g, self.A, rows, weights)

    @property
    def tol(self) -> float:
        """The goal, or where it is smaller, the rounding of a gradient."""
        noise = 2e-16 * float(self.program.root @ np.abs(self.x))
        return max(self.relative * self.program.unit(self.reduced(), weighted=True), noise)

    def violations(self) -> np.ndarray:
        """By how much the reduced gradient, in units of sqrt(A_ii), violates each variable's condition."""
        return self.program.violations(self.x, self.reduced()) * self.program.weights

    def stopped(self, steps: int) -> bool:
        """Whether the caller wants no more."""
        return self.watch is not None and bool(self.watch(self.x, self.reduced(), steps))

    def reduced(self) -> np.ndarray:
        """``A x + b + E' multiplier``."""
        return self.program.reduced(self.g, self.multiplier)

    def end(self) -> Minimum:
        """What was found."""
        violation = float(self.program.violations(self.x, self.reduced()).max())
        n_iter, n_factor, falling = self.n_iter, self.factor.n_factor, self.falling
        return Minimum(self.x, self.multiplier, n_iter=n_iter, n_factor=n_factor, violation=violation, falling=falling)

    def minimize(self, max_iter: int, single: bool) -> Minimum:
        """Bulk steps, then single exchanges."""
        self.factor.rebuild(np.flatnonzero((self.x > 0.0) & (self.x < self.upper)))
        best, waited, smallest = np.inf, 0, np.inf
        fresh = True
        single = single or self.factor.size <= SMALL
        for _ in range(max_iter):
            if single or not self.factor.constrain():
                break
            if self.stopped(self.n_iter):
                return self.end()
            self.n_iter += 1
            if not self.step():
                fresh = False
                continue
            v = self.violations()
            worst = float(v.max())
            tol = self.tol
            if worst <= tol:
                if not fresh:
                    self.refresh()
                    worst = float(self.violations().max())
                if worst <= tol or worst > 0.5 * smallest:
                    return self.end()
                smallest, fresh = worst, True
                continue
            fresh = False
            v[self.factor.free] = 0.0
            bad = np.flatnonzero(v > tol)
            if len(bad) == 0:
                self.refresh()
                break
            if worst < 0.7 * best:
                best, waited = worst, 0
            else:
                waited += 1
            if waited >= 2 or len(bad) * FEW <= self.factor.size:
                break
            most = max(5, len(self.factor.free) // 10)
            if len(bad) > most:
                bad = bad[np.argpartition(-v[bad], most)[:most]]
            self.factor.change(join=bad)
        self.exchange(EXCHANGES * max_iter)
        return self.end()

    def step(self) -> bool:
        """To the minimum on the free set; True where the whole step was possible."""
        F = self.factor.free
        if len(F) == 0:
            return True
        residual = self.e - self.E @ self.x
        d, self.multiplier = self.factor.solve(-self.g[F], residual)
        x, u = self.x[F], self.upper[F]
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(d < 0, -x / d, np.where(d > 0, (u - x) / d, np.inf))
        k = int(np.argmin(room))
        t = min(1.0, max(float(room[k]), 0.0))
        new = np.minimum(np.maximum(x + t * d, 0.0), u)
        if t < 1.0:
            new[k] = 0.0 if d[k] < 0 else u[k]
            if (room < 1.0).sum() > 1:
                new = self.projected(x, u, d, new, residual)
        moved = new - x
        self.x[F] = new
        self.shift(F, moved)
        if t >= 1.0:
            return True
        out = np.flatnonzero(((new <= 0.0) & (d < 0)) | ((new >= u) & (d > 0)))
        self.factor.change(leave=out)
        return False

    def projected(
        self, x: np.ndarray, u: np.ndarray, d: np.ndarray, ratio: np.ndarray, residual: np.ndarray
    ) -> np.ndarray:
        """The better of the ratio-test step and projections of shorter and shorter steps with the sum restored."""
        if len(self.E) > 1:
            return ratio
        F = self.factor.free
        least = self.change_along(ratio - x)
        for t in (1.0, 0.5, 0.25, 0.1):
            target = x + t * d
            if len(self.E):
                row = self.E[0, F]
                target = onto_row(target, row, float(row @ x + t * residual[0]), u)
            else:
                target = np.minimum(np.maximum(target, 0.0), u)
            if self.change_along(target - x) < least:
                return target
        return ratio

    def change_along(self, d: np.ndarray) -> float:
        """Change of the objective along a step of the free variables."""
        F = self.factor.free
        curved = free_factor.squared_length(self.factor.state.U, d)
        if len(self.E):
            curved -= self.fixed.rho * float(np.square(self.E[:, F] @ d).sum())
        return float(self.g[F] @ d) + 0.5 * curved

    def exchange(self, most: int) -> None:
        """Single exchanges until no condition is violated."""
        counts, direction = np.zeros(1, np.int64), np.zeros(len(self.b))
        before, is_supplemented = np.inf, False
        while counts[0] < most and not self.stopped(self.n_iter + int(counts[0])):
            self.factor.grow()
            place = RunPoint(self.x, self.g, self.multiplier, self.e)
            code = exchange.run_inplace(place, direction, counts, self.factor.state, self.fixed, self.tol, CHUNK)
            if direction.any():  # for the caller to prove; where rounding ended the step, the run goes on
                self.falling = direction
            if code == exchange.UNBOUNDED:
                break
            if code == exchange.INDEFINITE:
                raise ValueError(_indefinite(self.A, direction))
            if code == exchange.DEFICIENT:
                if is_supplemented:
                    break
                self.factor.change(join=self.supplement())
                is_supplemented = True
                continue
            is_supplemented = False
            if code == exchange.FULL:
                continue
            self.refresh()
            worst = float(self.violations().max())
            if code == exchange.OPTIMAL and (worst <= self.tol or worst > 0.5 * before):
                break
            if code != exchange.PAUSED:
                before = worst
        self.n_iter += int(counts[0])

    def supplement(self) -> np.ndarray:
        """Variables that give E full row rank on the free set."""
        outside = np.setdiff1d(np.arange(len(self.b)), self.factor.free)
        if len(self.E) == 1:
            row = self.E[0, outside]
            up = np.where(row > 0, self.x[outside] < self.upper[outside], self.x[outside] > 0.0) & (row != 0)
            able = up if up.any() else row != 0
            ratio = np.where(able, -self.g[outside] / np.where(row == 0, 1.0, row), -np.inf)
            return outside[[int(np.argmax(ratio))]]
        return _independent_columns(self.E, self.factor.free, outside, np.minimum(self.x, self.upper - self.x))


def _indefinite(A: np.ndarray, direction: np.ndarray) -> str:
    """Message that names a direction of negative curvature."""
    where = np.flatnonzero(direction)
    shown = where[np.argsort(-np.abs(direction[where]), kind="stable")[:4]]
    value = float(direction @ (A @ direction)) / float(direction @ direction)
    return (
        f"A is not positive semidefinite: d'Ad / d'd = {value:.6g} along a direction d of {len(where)} variables, "
        f"largest entries at {', '.join(map(str, shown))}."
    )


def _independent_columns(E: np.ndarray, have: np.ndarray, outside: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Columns of E that complete those in ``have`` to full row rank; those with room in the box first."""
    Q = column_basis(E[:, have], 1e-9) if len(have) else np.zeros((len(E), 0))
    chosen: list[int] = []
    weight = np.where(room[outside] > 0, 1.0, 1e-3)
    while Q.shape[1] < len(E):
        rest = E[:, outside] - Q @ (Q.T @ E[:, outside])
        length = np.linalg.norm(rest, axis=0) * weight
        k = int(np.argmax(length))
        if not length[k] > 1e-9 * np.abs(E).max():
            break
        chosen.append(int(outside[k]))
        Q = np.column_stack([Q, rest[:, k] / np.linalg.norm(rest[:, k])])
    return np.array(chosen, dtype=np.int64)
