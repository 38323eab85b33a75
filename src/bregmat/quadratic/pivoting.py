"""Block principal pivoting: exact solutions of positive definite problems from a few factorisations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat._kernels import descent, vectors
from bregmat.base.numerics import Exchanges
from bregmat.quadratic.free_set import FreeFactor
from bregmat.quadratic.program import QPState, QuadraticProgram
from bregmat.run.result import ExitReason

SINGLES = 10  # exchanges of single variables before pivoting gives up


def first_sides(program: QuadraticProgram, start: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Guess the active set by coordinate descent with over-relaxation: point, and side (-1 at zero, 0 free, 1 at the upper bound)."""
    relaxation, max_sweeps = 1.4, 12
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
        # once a sweep gains more than 0.6 of the sweep before, factorisations are faster
        if not gain > 0.0 or changed == 0 or (k >= 3 and gain > 0.6 * last):
            break
        last = gain
    d = np.maximum(A.diagonal(), 1e-300)
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

    Parameters
    ----------
    tol : float
        Tolerance of the conditions on the gradient, relative to the largest relevant entry of b, both divided by sqrt(A_ii).
    max_iter : int
        Limit on free sets.

    Notes
    -----
    Cost: |F|^3 / 3 + n^2 for each step with the free set F.
    """

    tol: float = 1e-12
    max_iter: int = 60
    name: ClassVar[str] = "pivoting"
    works_on: ClassVar[str] = "objective"

    def check(self, problem: Any) -> None:
        """Accept every quadratic program."""

    def init(self, problem: QuadraticProgram, tol: float, start: np.ndarray | None) -> PivotingState:
        """The state at the first guess of the free set, for a certificate to the gap ``tol``."""
        guess, side = first_sides(problem.without_rows(), start)
        if problem.m and not (side == 0).any():
            side[:] = np.where(problem.upper > 0, 0, -1)
        state = PivotingState(problem, self.tol, guess, side)
        state.tol = tol
        return state

    def step(self, problem: QuadraticProgram, state: PivotingState) -> PivotingState:
        """Solve on the free set and exchange the variables that violate their conditions."""
        state.advance()
        return state


class PivotingState(QPState):
    """The side of every variable, the free variables F, their stationary point v with its gradient g, and multipliers.

    ``x`` is v, moved into the box. The run ends with ``is_rough = True`` if A is singular on a free set or exchanges do not help.
    """

    is_rough = True  # until every condition holds

    def __init__(self, program: QuadraticProgram, tol: float, guess: np.ndarray, side: np.ndarray) -> None:
        self.program, self.condition_tol, self.side = program, tol, side
        self.A, self.b, self.upper = program.A, program.b, program.upper
        self.E, self.e = program.E, program.e
        self.weight = program.weights
        self.scale = program.unit(self.b, weighted=True)  # unit of gradients
        self.multiplier = np.zeros(program.m)
        self.x = self.v = guess
        self.g = self._gradient(guess)
        self.F = np.flatnonzero(side == 0)
        self.factor = FreeFactor(program, is_definite=True)
        self.exchanges = Exchanges(patience=3, singles=SINGLES)

    def reduced(self) -> np.ndarray:
        """``A v + b + E' multiplier``."""
        return self.g

    def rising(self) -> Iterator[np.ndarray]:
        """The w with ``A w = sqrt(A_ii)`` on the free variables; the factor has it only if there are no rows."""
        if len(self.F) and not self.is_rough and not len(self.E):
            w = np.zeros(len(self.b))
            w[self.F] = self.factor.solve(self.program.root[self.F], np.zeros(0))[0]
            yield w

    # ---------------------------------------------------------------- one free set
    def advance(self) -> None:
        """Solve on the free set, test the conditions, exchange variables."""
        self.F = np.flatnonzero(self.side == 0)
        if not self._solve():
            self.ended = ExitReason.STALLED
            return
        self.scale = self.program.unit(self.g, weighted=True)
        wrong = self._wrong()
        if not len(wrong):
            self._refine()
            self.is_rough, self.ended = False, ExitReason.STALLED
        self.x = np.minimum(np.maximum(self.v, 0.0), self.upper)
        moved = self.exchanges.choose(wrong) if len(wrong) else wrong
        if moved is None:
            self.ended = ExitReason.STALLED
            return
        self.side[moved] = np.where(self.side[moved] != 0, 0, np.where(self.v[moved] <= 0.0, -1, 1))

    def _solve(self) -> bool:
        """Compute the stationary point of the free set and its gradient; False if there is none."""
        F = self.F
        v = np.where(self.side > 0, self.upper, 0.0)
        fixed = self.b + self.A @ v if (self.side > 0).any() else self.b
        self.factor.rebuild(F)
        if self.factor.size < len(F) or not self.factor.constrain():
            return False
        # A_FF v_F + E_F' multiplier = -fixed_F,  E v = e
        v[F], self.multiplier = self.factor.solve(-fixed[F], self.e - self.E @ v)
        if not np.isfinite(v).all():
            return False
        self.v = v
        self.g = self._gradient(v)
        return True

    def _gradient(self, v: np.ndarray) -> np.ndarray:
        """``A v + b + E' multiplier``, from the rows of A where v is not 0."""
        g, rows = self.b.copy(), np.flatnonzero(v)
        vectors.add_rows_inplace(g, self.A, rows, v[rows])
        return self.program.reduced(g, self.multiplier)

    def _refine(self) -> None:
        """Refine the solution iteratively, as long as the residuals on the free variables halve, at most twice."""
        v, F, last = self.v, self.F, np.inf
        for _ in range(3):
            self.g = self.program.reduced(self.A @ v + self.b, self.multiplier)
            size = float(np.abs(self.g[F] * self.weight[F]).max(initial=0.0)) / self.scale
            if size > 0.5 * last or size <= 1e-16:
                return
            last = size
            step, more = self.factor.solve(-self.g[F], self.e - self.E @ v)
            v[F] += step
            self.multiplier = self.multiplier + more

    def _wrong(self) -> np.ndarray:
        """Variables that violate the condition of their side."""
        v, g, side = self.v, self.g, self.side
        slack_v = 1e-15 * float(np.abs(v / self.weight).max()) * self.weight
        slack_g = self.condition_tol * self.scale / self.weight
        bad = (side == 0) & ((v < -slack_v) | (v > self.upper + slack_v))
        bad |= (side < 0) & (g < -slack_g) & (self.upper > 0.0)
        bad |= (side > 0) & (g > slack_g)
        return np.flatnonzero(bad)
