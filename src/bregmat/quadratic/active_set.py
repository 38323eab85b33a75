"""The exact finish: a primal active set from a good start, variables in bulk first, then one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bregmat._kernels.exchange import DEFICIENT, FULL, INDEFINITE, OPTIMAL, PAUSED, UNBOUNDED, Place, exchange_inplace
from bregmat._kernels.free_factor import Quadratic, onto_row, squared_length
from bregmat._kernels.vectors import add_rows_inplace
from bregmat.linalg import single_thread_blas
from bregmat.quadratic.free_set import FEW, Factor
from bregmat.quadratic.problem import conditions, weights_of
from bregmat.quadratic.scale import gradient_unit

CHUNK = 200  # single exchanges between two looks at the clock
EXCHANGES = 50  # single exchanges that count as one bulk step
SMALL = 256  # free variables up to which single exchanges are quicker than bulk steps from the beginning


@dataclass(frozen=True, eq=False)
class ActiveSetEnd:
    """Where an active set ended.

    Attributes
    ----------
    x : ndarray, shape (n,)
        Inside the box; ``E x = e`` to rounding where the start allowed it.
    dual_equality : ndarray, shape (m,)
        Multipliers of E x = e: the reduced gradient is ``A x + b + E' dual_equality``.
    violation : float
        Largest violation of the optimality conditions by the reduced gradient, in its units.
    n_factor, n_iter : int
        Factorisations from scratch; bulk steps and single exchanges.
    direction : ndarray, shape (n,), or None
        Along which the objective falls without end, where one was met.
    """

    x: np.ndarray
    dual_equality: np.ndarray
    violation: float
    n_factor: int
    n_iter: int
    direction: np.ndarray | None = None


def active_set(
    A: np.ndarray,
    b: np.ndarray,
    x: np.ndarray,
    *,
    upper: np.ndarray,
    equality: tuple[np.ndarray, np.ndarray] | None = None,
    tol: float = 1e-10,
    max_iter: int = 200,
    single: bool = False,
    watch: Callable[[np.ndarray, np.ndarray, int], bool] | None = None,
) -> ActiveSetEnd:
    """Minimise ``1/2 x'Ax + b'x`` over ``0 <= x <= upper``, ``E x = e`` exactly, from a point near the solution.

    For a start whose support is nearly right, such as the end of coordinate descent or of a working-set method; from far
    away it needs many factorisations.

    Parameters
    ----------
    A : ndarray, shape (n, n)
        Symmetric positive semidefinite, float64; singular blocks are allowed.
    b : ndarray, shape (n,)
    x : ndarray, shape (n,)
        Start; clipped to the box. Not changed. Where ``E x = e`` does not hold it is repaired on the free variables.
    upper : ndarray, shape (n,)
        Upper bounds, inf where there is none.
    equality : tuple (E, e), optional
        Shapes (m, n) and (m,); E of full row rank.
    tol : float
        Largest violation of the optimality conditions, with every gradient in units of sqrt(A_ii), relative to the largest b
        that matters in these units: a large positive entry that keeps its variable at zero does not. Rounding of the gradient
        is allowed for on top.
    max_iter : int
        Limit on bulk steps; single exchanges have 50 times as many.
    single : bool
        One variable at a time from the beginning.

    watch : callable, optional
        Gets (point, reduced gradient, steps so far) after every bulk step and every 200 single exchanges; True stops.

    Returns
    -------
    ActiveSetEnd

    Raises
    ------
    ValueError
        A step along which the curvature is clearly negative: A is not positive semidefinite.

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
    n = len(b)
    E, e = (np.zeros((0, n)), np.zeros(0)) if equality is None else equality
    start = np.minimum(np.maximum(x, 0.0), upper)
    with single_thread_blas(0):
        run = _Run(np.ascontiguousarray(A), b, upper, np.ascontiguousarray(E), e, start, tol)
        run.watch = watch
        return run.minimize(max_iter, single)


class _Run:
    """One run: point, gradient, free set."""

    def __init__(
        self, A: np.ndarray, b: np.ndarray, upper: np.ndarray, E: np.ndarray, e: np.ndarray, x: np.ndarray, tol: float
    ) -> None:
        self.A, self.b, self.E, self.e, self.x = A, b, E, e, x
        self.upper = np.ascontiguousarray(upper, dtype=np.float64)
        self.root = np.sqrt(np.maximum(A.diagonal(), 0.0))
        rho = 0.0
        if len(E):
            rho = (float(self.root @ self.root) or float(len(b))) / max(float((E * E).sum()), 1e-300)
        self.weight = weights_of(A)
        self.problem = Quadratic(A, self.upper, E, self.weight, rho)
        self.refresh()
        self.relative = tol
        self.multiplier = np.zeros(len(E))
        self.n_iter = 0
        self.direction: np.ndarray | None = None
        self.watch: Callable[[np.ndarray, np.ndarray, int], bool] | None = None
        self.factor = Factor(self.problem, len(b))

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
            add_rows_inplace(self.g, self.A, rows, weights)

    @property
    def tol(self) -> float:
        """The goal, or where it is smaller, the rounding of a gradient."""
        noise = 2e-16 * float(self.root @ np.abs(self.x))
        unit = gradient_unit(
            self.b, self.reduced(), diagonal=np.square(self.root), upper=self.upper, weight=self.weight
        )
        return max(self.relative * unit, noise)

    def violations(self) -> np.ndarray:
        """By how much the reduced gradient, in units of sqrt(A_ii), violates each variable's condition."""
        return conditions(self.x, self.reduced(), self.upper) * self.weight

    def stopped(self, steps: int) -> bool:
        """Whether the caller wants no more."""
        return self.watch is not None and bool(self.watch(self.x, self.reduced(), steps))

    def reduced(self) -> np.ndarray:
        """``A x + b + E' multiplier``."""
        return self.g + self.multiplier @ self.E if len(self.E) else self.g

    def end(self) -> ActiveSetEnd:
        violation = float((self.violations() / self.weight).max())
        return ActiveSetEnd(self.x, self.multiplier, violation, self.factor.n_factor, self.n_iter, self.direction)

    def minimize(self, max_iter: int, single: bool) -> ActiveSetEnd:
        self.factor.rebuild(np.flatnonzero((self.x > 0.0) & (self.x < self.upper)))
        best, waited, smallest = np.inf, 0, np.inf
        fresh = True
        single = single or self.factor.size <= SMALL
        for _ in range(max_iter):
            if single or not self.ranked():
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

    def ranked(self) -> bool:
        """Whether E has full row rank on the free set."""
        return len(self.E) == 0 or self.factor.constrain()

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
                new = onto_row(target, row, float(row @ x + t * residual[0]), u)
            else:
                new = np.minimum(np.maximum(target, 0.0), u)
            if self.change_along(new - x) < least:
                return new
        return ratio

    def change_along(self, d: np.ndarray) -> float:
        """Change of the objective along a step of the free variables."""
        F = self.factor.free
        curved = squared_length(self.factor.U, len(F), d)
        if len(self.E):
            curved -= self.problem.rho * float(np.square(self.E[:, F] @ d).sum())
        return float(self.g[F] @ d) + 0.5 * curved

    def exchange(self, most: int) -> None:
        """Single exchanges until no condition is violated."""
        counts, direction = np.zeros(1, np.int64), np.zeros(len(self.b))
        before = np.inf
        while counts[0] < most and not self.stopped(self.n_iter + int(counts[0])):
            if not self.ranked():
                self.factor.change(join=self.supplement())
                if not self.ranked():
                    break
            self.factor.grow()
            place = Place(self.x, self.g, self.multiplier, self.e)
            code = exchange_inplace(
                place, direction, counts, free=self.factor.state, problem=self.problem, tol=self.tol, most=CHUNK
            )
            if direction.any():  # for the caller to prove; where rounding ended the step, the run goes on
                self.direction = direction
            if code == UNBOUNDED:
                break
            if code == INDEFINITE:
                raise ValueError(_indefinite(self.A, direction))
            if code == DEFICIENT:
                break
            if code == FULL:
                continue
            self.refresh()
            worst = float(self.violations().max())
            if code == OPTIMAL and (worst <= self.tol or worst > 0.5 * before):
                break
            if code != PAUSED:
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
        return independent_columns(self.E, self.factor.free, outside, np.minimum(self.x, self.upper - self.x))


def _indefinite(A: np.ndarray, direction: np.ndarray) -> str:
    """Message that names a direction of negative curvature."""
    where = np.flatnonzero(direction)
    shown = where[np.argsort(-np.abs(direction[where]), kind="stable")[:4]]
    value = float(direction @ (A @ direction)) / float(direction @ direction)
    return (
        f"A is not positive semidefinite: d'Ad / d'd = {value:.6g} along a direction d of {len(where)} variables, "
        f"largest entries at {', '.join(map(str, shown))}."
    )


def independent_columns(E: np.ndarray, have: np.ndarray, outside: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Columns of E that complete those in ``have`` to full row rank; those with room in the box first."""
    Q = np.linalg.qr(E[:, have])[0] if len(have) else np.zeros((len(E), 0))
    if len(have):
        left, s, _ = np.linalg.svd(E[:, have], full_matrices=False)
        Q = left[:, s > 1e-9 * s.max(initial=0.0)]
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
