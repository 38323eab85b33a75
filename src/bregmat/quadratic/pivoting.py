"""Block principal pivoting: exact solutions of positive definite problems from a few factorisations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from bregmat._kernels import descent, vectors
from bregmat.base.pivoting import Exchanges
from bregmat.base.tolerances import TINY
from bregmat.quadratic.certificate import QPState

if TYPE_CHECKING:  # programs use this module
    from bregmat.quadratic.program import QuadraticProgram

SINGLE_PRECISION = 256  # number of free variables from which the first factors are float32
COARSE = 1e-5  # relative tolerance of the conditions while factors are float32
FINE = (
    1e-12  # the same in float64: of gradients relative to the largest relevant entry of b, both divided by sqrt(A_ii)
)
SINGLES = 10  # exchanges of single variables before pivoting gives up


def first_sides(program: QuadraticProgram, start: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Guess the active set by coordinate descent with over-relaxation: point, and side (-1 at zero, 0 free, 1 at the upper bound)."""
    relaxation, max_sweeps = 1.4, 20
    A, b, upper = program.A, program.b, program.upper
    if start is None:
        along = A.sum(axis=0)
        total = float(along.sum())
        # The minimum along (1, ..., 1), unless the curvature along it is so small that this minimum is far away.
        curved = total > 1e-8 * float(program.root.sum()) ** 2
        length = max(0.0, -float(b.sum()) / total) if curved else 0.0
        x = np.minimum(length, upper)
        g = b + length * along if not (upper < length).any() else A @ x + b
    else:
        x = np.minimum(np.maximum(start, 0.0), upper)
        g = A @ x + b
    last = np.inf
    for k in range(max_sweeps):
        gain, changed = descent.sweep_inplace(x, g, A, upper, relaxation)
        # once a sweep gains more than 0.8 of the sweep before, factorisations are faster
        if not gain > 0.0 or changed == 0 or (k >= 3 and gain > 0.8 * last):
            break
        last = gain
    d = np.maximum(A.diagonal(), TINY)
    guess = x - g / d
    side = np.where(guess <= 0.0, -1, np.where(guess >= upper, 1, 0))
    side[upper <= 0.0] = -1
    return x, side


@dataclass(frozen=True)
class BlockPivoting:
    """The fastest exact method for positive definite A; otherwise it gives up early.

    Each step solves on the free variables, then every variable that violates its condition changes sides (Portugal, Judice and
    Vicente 1994). If the number of violations does not fall, single variables change sides (Murty 1974). Equality rows are solved
    along with the free variables. Single exchanges are finite for positive definite A without upper bounds and rows, but slow:
    their number is limited.

    Notes
    -----
    From 256 free variables on, factors are float32. A free set without violations is then refined with float64 residuals and tested
    again; float64 factors are used only if refinement fails. Cost: |F|^3 / 3 per factor, n^2 per step.
    """

    max_iter: ClassVar[int] = 60  # free sets
    name: ClassVar[str] = "pivoting"
    works_on: ClassVar[str] = "objective"

    def check(self, problem: Any) -> None:
        """Accept every quadratic program."""

    def init(self, problem: QuadraticProgram, tol: float, start: np.ndarray | None) -> PivotingState:
        """The state at the first guess of the free set, for a certificate to the gap ``tol``."""
        guess, side = first_sides(problem.without_rows(), start)
        if problem.m and not (side == 0).any():
            side[:] = np.where(problem.upper > 0, 0, -1)
        return PivotingState(problem, guess, side, tol)

    def step(self, problem: QuadraticProgram, state: PivotingState) -> PivotingState:
        """Solve on the free set and exchange the variables that violate their conditions."""
        state.advance()
        return state


class PivotingState(QPState):
    """The side of every variable, the free variables F, their stationary point v with its gradient g, and multipliers.

    ``x`` is v, moved into the box. The run ends with ``is_rough = True`` if A is singular on a free set or exchanges do not help.
    """

    is_rough = True  # until every condition holds

    def __init__(self, program: QuadraticProgram, guess: np.ndarray, side: np.ndarray, tol: float) -> None:
        super().__init__(guess, np.zeros(program.m), tol)
        self.program, self.side = program, side
        self.A, self.b, self.upper = program.A, program.b, program.upper
        self.E, self.e = program.E, program.e
        self.weight = program.weights
        self.scale = program.unit(self.b, weighted=True)  # unit of gradients
        self.v = guess
        self.g = self._gradient(guess)
        self.F = np.flatnonzero(side == 0)
        self.is_single = len(self.F) >= SINGLE_PRECISION  # whether factors are float32
        self.exchanges = Exchanges(patience=3, singles=SINGLES)
        self.is_refined = False  # whether float32 solutions are refined before their conditions are tested

    def reduced(self) -> np.ndarray:
        """``A v + b + E' multiplier``."""
        return self.g

    def rising(self) -> Iterator[np.ndarray]:
        """The w with ``A w = sqrt(A_ii)`` on the free variables."""
        if len(self.F) and not self.is_rough:
            w = np.zeros(len(self.b))
            w[self.F] = self._solve_factor(self.program.root[self.F])
            yield w

    # ---------------------------------------------------------------- one free set
    def advance(self) -> None:
        """Solve on the free set, test the conditions, exchange variables."""
        self.F = np.flatnonzero(self.side == 0)
        is_solved, is_single = self._solve(), self.is_single
        if is_solved:
            self.scale = self.program.unit(self.g, weighted=True)
            wrong = self._wrong(COARSE if is_single else None)
            if is_single:
                is_solved, wrong = self._refined(wrong)
        if not is_solved:
            if not is_single:
                self.stalled = True
                return
            self.is_single = False
            self.exchanges.restart()
            return
        if not len(wrong):
            if not is_single:
                self._refine(max_steps=2)
            self.is_rough, self.stalled = False, True
        self.x = np.minimum(np.maximum(self.v, 0.0), self.upper)
        moved = self.exchanges.choose(wrong) if len(wrong) else wrong
        if moved is None:
            self.stalled = True
            return
        self.side[moved] = np.where(self.side[moved] != 0, 0, np.where(self.v[moved] <= 0.0, -1, 1))

    def _refined(self, wrong: np.ndarray) -> tuple[bool, np.ndarray]:
        """Refine a float32 solution if needed: whether this succeeded, and the variables that violate their conditions then."""
        # If few variables are wrong, or their number does not fall, their signs may be rounding: from then on, refine first.
        refinements = 12
        if not self.is_refined and (len(wrong) <= max(8, len(self.b) // 20) or len(wrong) >= self.exchanges.fewest):
            self.is_refined = True
            self.exchanges.restart()
        if not self.is_refined:
            return True, wrong
        is_solved = self._refine(refinements)
        return is_solved, self._wrong(None) if is_solved else wrong

    def _solve(self) -> bool:
        """Compute the stationary point of the free set and its gradient; False if there is none."""
        F = self.F
        v = np.where(self.side > 0, self.upper, 0.0)
        fixed = self.b + self.A @ v if (self.side > 0).any() else self.b
        if len(F) == 0:
            self.v, self.g = v, fixed.copy()
            return len(self.E) == 0
        if not self._factor():
            return False
        step = self._solve_with_rows(-fixed[F], self.e - self.E @ v)
        if step is None:
            return False
        v[F], multiplier = step
        if not np.isfinite(v).all():
            return False
        self.v, self.multiplier = v, multiplier
        self.g = self._gradient(v)
        return True

    def _factor(self) -> bool:
        """Factor A_FF; False if it is not positive definite in this precision."""
        M = np.empty((len(self.F), len(self.F)), np.float32 if self.is_single else np.float64)
        vectors.gather_inplace(M, self.A, self.F, self.F)
        diagonal = M.diagonal().copy()
        self.L, failed = get_lapack_funcs("potrf", dtype=M.dtype)(M.T, lower=1, overwrite_a=1, clean=0)
        # With a pivot that is all rounding, the factor exists but its solutions are useless.
        return not failed and bool((np.square(self.L.diagonal()) > 8 * np.finfo(M.dtype).eps * diagonal).all())

    def _solve_factor(self, r: np.ndarray) -> np.ndarray:
        """``A_FF^-1 r`` to the precision of the factor, shape (|F|,)."""
        solve = get_blas_funcs("trsv", dtype=self.L.dtype)
        x: np.ndarray = solve(self.L, solve(self.L, r.astype(self.L.dtype), lower=1), lower=1, trans=1)
        return x.astype(np.float64)

    def _gradient(self, v: np.ndarray) -> np.ndarray:
        """``A v + b + E' multiplier``, from the rows of A where v is not 0."""
        g, rows = self.b.copy(), np.flatnonzero(v)
        vectors.add_rows_inplace(g, self.A, rows, v[rows])
        return self.program.reduced(g, self.multiplier)

    def _solve_with_rows(self, r: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """d and mu with ``A_FF d + E_F' mu = r``, ``E_F d = residual``; None if the system is singular."""
        d = self._solve_factor(r)
        if len(self.E) == 0:
            return d, self.multiplier
        # S mu = E A_FF^-1 r - residual with the Schur complement S = E A_FF^-1 E'
        E = self.E[:, self.F]
        columns = np.array([self._solve_factor(row) for row in E])
        S = columns @ E.T
        if not np.isfinite(S).all() or np.linalg.cond(S) > 1e10:
            return None
        mu = np.linalg.solve(S, E @ d - residual)
        return d - mu @ columns, mu

    def _refine(self, max_steps: int) -> bool:
        """Iterative refinement with residuals in float64; False if these do not become small."""
        v, F, last = self.v, self.F, np.inf
        for k in range(max_steps + 1):
            self.g = self._gradient(v)
            if len(F) == 0:
                return True
            size = float(np.abs(self.g[F] * self.weight[F]).max()) / self.scale
            if not np.isfinite(size):
                return False
            if size > 0.5 * last or size <= 1e-16 or k == max_steps:
                return size <= 1e-13
            last = size
            step = self._solve_with_rows(-self.g[F], self.e - self.E @ v)
            if step is None:
                return False
            v[F] += step[0]
            if len(self.E):
                self.multiplier = self.multiplier + step[1]
        return False

    def _wrong(self, coarse: float | None) -> np.ndarray:
        """Variables that violate the condition of their side, to the tolerance of the method or a coarser one."""
        v, g, side = self.v, self.g, self.side
        largest = float(np.abs(v / self.weight).max())
        slack_v = (1e-15 if coarse is None else coarse) * largest * self.weight
        slack_g = (FINE if coarse is None else coarse) * self.scale / self.weight
        bad = (side == 0) & ((v < -slack_v) | (v > self.upper + slack_v))
        bad |= (side < 0) & (g < -slack_g) & (self.upper > 0.0)
        bad |= (side > 0) & (g > slack_g)
        return np.flatnonzero(bad)
