"""A primal active set, which leads from a point near the solution to the exact solution by exchanges of single variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bregmat._kernels import exchange, vectors
from bregmat._kernels.arrays import RunPoint
from bregmat.base.linalg import column_basis
from bregmat.base.threads import single_thread_blas
from bregmat.quadratic.certificate import QPState
from bregmat.quadratic.free_set import FreeFactor

if TYPE_CHECKING:  # programs use this module
    from bregmat.quadratic.program import QuadraticProgram

EXCHANGES = 50  # exchanges in one step of the iteration loop
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
        Limit on steps of up to 50 exchanges.

    Notes
    -----
    The objective never rises. An exchange lets the variable with the largest violation enter the free set F. It moves along the edge on
    which F stays stationary, until its own condition holds or a variable of F reaches a bound, which then leaves. This is finite and
    monotone. A variable whose column depends on those of F also enters, but then moves until another one leaves. Cost: |F|^3 / 3 for
    the first factorisation, |F|^2 for each exchange.
    """

    tol: float = 1e-10
    max_iter: int = 200
    name: ClassVar[str] = "active_set"
    works_on: ClassVar[str] = "objective"

    def check(self, problem: Any) -> None:
        """Accept every quadratic program."""

    def init(self, problem: QuadraticProgram, tol: float, start: np.ndarray) -> ActiveSetState:
        """The state at a start inside the box, for a certificate to the gap ``tol``."""
        return ActiveSetState(problem, start.copy(), self.tol, tol)

    def step(self, problem: QuadraticProgram, state: ActiveSetState) -> ActiveSetState:
        """Do up to 50 exchanges."""
        state.advance()
        return state

    def minimize(self, program: QuadraticProgram, start: np.ndarray, watch: Watch | None = None) -> ActiveSetState:
        """Run from a point near the solution to the solution, without certificates; the last state.

        Blocks of A may be singular; E must have full row rank. The start is clipped to the box. If ``E x = e`` does not hold, it is
        restored on the free variables. ``watch`` gets (point, reduced gradient, steps so far) before every step; True stops. Negative
        curvature along a step raises ValueError.
        """
        with single_thread_blas():
            state = self.init(program, 0.0, np.minimum(np.maximum(start, 0.0), program.upper))
            while not state.stalled and state.n_iter < self.max_iter:
                if watch is not None and watch(state.x, state.reduced(), state.n_iter):
                    break
                state.advance()
            return state


class ActiveSetState(QPState):
    """Point x, gradient ``g = A x + b``, multipliers and free set; ``falling`` is a direction without a minimum, if one was met."""

    def __init__(self, program: QuadraticProgram, x: np.ndarray, relative_tol: float, tol: float) -> None:
        super().__init__(x, np.zeros(program.m), tol)
        self.program, self.relative_tol = program, relative_tol
        self._recompute_gradient()
        self.falling: np.ndarray | None = None
        self.n_iter = 0
        self.factor = FreeFactor(program)
        self.factor.rebuild(np.flatnonzero((x > 0.0) & (x < program.upper)))
        # violation when the gradient was last recomputed, and whether variables were just added to give E full row rank.
        self.before, self.is_supplemented = np.inf, False

    # ---------------------------------------------------------------- gradient and conditions
    def _recompute_gradient(self) -> None:
        """Compute the gradient from x."""
        support = np.flatnonzero(self.x)
        self.g = self.program.b.copy()
        vectors.add_rows_inplace(self.g, self.program.A, support, self.x[support])

    @property
    def allowed(self) -> float:
        """Violation at which the run ends, in units of sqrt(A_ii): the tolerance, or the rounding of a gradient if that is larger."""
        noise = 2e-16 * float(self.program.root @ np.abs(self.x))
        return max(self.relative_tol * self.program.unit(self.reduced(), weighted=True), noise)

    def reduced(self) -> np.ndarray:
        """``A x + b + E' multiplier``."""
        return self.program.reduced(self.g, self.multiplier)

    @property
    def work(self) -> int:
        """Number of steps and of factorisations from scratch."""
        return self.n_iter + self.factor.n_factor

    @property
    def violation(self) -> float:
        """Largest violation of the optimality conditions by the reduced gradient, in its units."""
        return float(self.program.violations(self.x, self.reduced()).max())

    def possible_rays(self) -> Iterable[np.ndarray]:
        """The direction without a minimum; and the point, which goes far along such a direction if rounding blocks its steps."""
        return (self.x,) if self.falling is None else (self.falling, self.x)

    # ---------------------------------------------------------------- exchanges
    def advance(self) -> None:
        """Do up to 50 exchanges, and end the run if no condition is violated."""
        self.n_iter += 1
        self.factor.grow()
        direction, counts = np.zeros(self.program.n), np.zeros(1, np.int64)
        place = RunPoint(self.x, self.g, self.multiplier, self.program.e)
        code = exchange.run_inplace(
            place, direction, counts, self.factor.state, self.factor.problem, self.allowed, EXCHANGES
        )
        if direction.any():  # a certificate decides whether the objective falls without bound along it
            self.falling = direction
        if code == exchange.INDEFINITE:
            raise ValueError("A is not positive semidefinite: a step meets negative curvature.")
        if code == exchange.DEFICIENT and not self.is_supplemented:
            self.factor.join(self._supplement())
            self.is_supplemented = True
            return
        self.is_supplemented = False
        if code in (exchange.UNBOUNDED, exchange.DEFICIENT):
            self.stalled = True
            return
        if code == exchange.FULL:  # the factor needs more memory
            return
        self._recompute_gradient()
        worst = float((self.program.violations(self.x, self.reduced()) * self.program.weights).max())
        if code == exchange.OPTIMAL and (worst <= self.allowed or worst > 0.5 * self.before):
            self.stalled = True
        elif code != exchange.PAUSED:
            self.before = worst

    def _supplement(self) -> np.ndarray:
        """Variables that give E full row rank on the free set; those with slack to both bounds are preferred."""
        E, free = self.program.E, self.factor.free
        outside = np.setdiff1d(np.arange(self.program.n), free)
        weight = np.where(np.minimum(self.x, self.program.upper - self.x)[outside] > 0, 1.0, 1e-3)
        Q = column_basis(E[:, free], 1e-9) if len(free) else np.zeros((len(E), 0))
        chosen: list[int] = []
        while Q.shape[1] < len(E):
            rest = E[:, outside] - Q @ (Q.T @ E[:, outside])
            length = np.linalg.norm(rest, axis=0) * weight
            k = int(np.argmax(length))
            if not length[k] > 1e-9 * np.abs(E).max():
                break
            chosen.append(int(outside[k]))
            Q = np.column_stack([Q, rest[:, k] / np.linalg.norm(rest[:, k])])
        return np.array(chosen, dtype=np.int64)
