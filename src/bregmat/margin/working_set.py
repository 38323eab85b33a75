"""Search for the support vectors: sequential minimal optimisation (SMO) in float32 on a growing working set.

The problem is written in signed weights ``x_i = signs_i alpha_i``, which treats both classes alike: ``max signs'x - 1/2 x'(K + ridge) x``
with ``lower <= x <= upper`` and, with an intercept, ``sum(x) = 0``. Its slope is ``e = signs - f - ridge x`` with ``f = K x``. At the
optimum the slope equals the intercept wherever x is strictly between its bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from bregmat._kernels import smo, vectors
from bregmat.base.tolerances import TINY
from bregmat.kernels.sources import FLOAT32_ROUNDOFF
from bregmat.margin.certificate import Machine
from bregmat.margin.kernel_cache import RowCache, WorkingKernel
from bregmat.margin.low_rank import MOST_STEPS, has_small_factor, interior_point, newton
from bregmat.margin.problem import MarginProblem

FORMED = 900  # number of samples up to which the whole kernel is computed, in float64
FINE = 1e-11  # violation up to which weights need no exact last stage, in units of the margin
PIECE = 30_000_000  # entries of kernel rows that are read between two checks of the clock
INFINITE = 1e300  # used in place of infinity, because inf - inf is NaN
BAND = 0.02  # distance from the margin within which a sample takes part in the exact last stage, in units of the margin
HARD = 1e6  # limit on the weights of a hard margin, in units of 1 / K_ii; larger ones are found by the hulls


class SupportSearch:
    """State of the search, which proceeds in rounds until the optimality conditions hold as far as float32 can tell.

    It ends at the violation ``tol``, in units of the margin, or after ``max_steps`` coordinate steps. If the whole kernel is known in
    float64, one round descends to the violation ``goal`` or for a limited number of steps. ``rng`` draws the first working set.
    ``budget`` is the number of bytes for kernel rows, and as many for the block of the working set. ``late`` is called every few
    milliseconds; True ends the round.
    """

    def __init__(
        self,
        problem: MarginProblem,
        tol: float,
        *,
        goal: float = FINE,
        rng: np.random.Generator,
        budget: int,
        max_steps: float = np.inf,
        late: Callable[[], bool] = lambda: False,
    ) -> None:
        self.problem, self.tol, self.goal, self.rng, self.budget = problem, tol, goal, rng, budget
        self.max_steps, self.late = max_steps, late
        self.ceiling = HARD / max(problem.largest, TINY) if problem.loss == "hard" else np.inf
        ceiling, plus = np.minimum(problem.upper, self.ceiling), problem.signs > 0
        self.lower, self.upper = np.where(plus, 0.0, -ceiling), np.where(plus, ceiling, 0.0)
        self.cache = RowCache(problem.kernel, budget)
        self.x, self.f = np.zeros(problem.n), np.zeros(problem.n)  # signed weights, and K x to float32 accuracy
        self.shift = 0.0  # the intercept
        # largest slope of an x that may rise minus the smallest of one that may fall; and what rounding in float32 may add to it
        self.violation, self.noise = np.inf, 0.0
        self.steps, self.rounds = 0, 0  # the last stage adds its steps and factorisations
        # whether the search has ended; whether noise or a limit ended it above its tolerance
        self.done = self.stuck = False
        self.band = BAND
        self.block: WorkingKernel | None = None  # set up by the first round that needs it
        self.exact: Machine | None = None  # the exact weights with their values, after the last stage
        # A bound of the margin if the classes cannot be separated; x are then weights of two coinciding points of the hulls.
        self.margin_bound = np.nan

    def round(self) -> None:
        """Do one round: choose the working set and optimise on it."""
        matrix, formed = self.problem.kernel.matrix, self.problem.kernel.formed
        if formed is not None:
            # usually one or two steps for each sample suffice; unless another rule ends the run, the last stage is faster than many more
            self._descend_in_double(formed, 10 if self.goal <= FINE else 200)
            return
        if self.rounds == 0 and matrix is not None and not self.problem.ridge.any():
            self._descend_on_all(matrix)
            return
        if self.rounds == 0 and self.max_steps >= MOST_STEPS and has_small_factor(self.problem):
            self._solve_by_factor()
            return
        if self.block is None:
            self._set_up()
        else:
            self._widen()
        self._descend_on_block()

    def _set_up(self) -> None:
        """Choose the first working set and allocate the arrays of all rounds."""
        n = self.problem.n
        self.weights = self.x.copy()
        first = self._first_members()
        self.block = WorkingKernel(self.problem.kernel, self.problem.ridge, 4 * len(first), self.budget)
        self.inside = np.zeros(n, dtype=bool)
        first = first[: self.block.max_rows]
        self.block.append(first)
        self.inside[first] = True
        self.slope, self.worse = np.empty(n), np.empty(n)
        # inner: violation at which a round stops; best: the least so far; waited: rounds without progress
        self.inner, self.best, self.waited = 0.5 * self.tol if len(first) == n else 1e-1, np.inf, 0

    def _descend_on_block(self) -> None:
        """Optimise on the working set, then update the slopes and the violation of all samples."""
        round_steps = 20_000  # limit on steps of one round, plus 100 per member of the working set
        problem, block = self.problem, self.block
        assert block is not None
        W, n = block.members, problem.n
        x, e = self.x[W], (problem.signs[W] - self.f[W] - problem.ridge[W] * self.x[W]).astype(np.float32)
        max_steps = int(min(100 * len(W) + round_steps, max(self.max_steps - self.steps, 0)))
        goal = np.float32(max(self.inner, self.noise))
        self._descend(max_steps, x, e, block.K, block.diagonal, self.lower[W], self.upper[W], goal)
        self.x[W] = x
        if len(W) == n:
            # the block is the whole kernel, with the ridge on its diagonal
            place, held, part = np.empty(n, dtype=np.int64), np.flatnonzero(self.x), np.zeros(n)
            place[W] = np.arange(n)
            vectors.add_rows_inplace(part, block.K, place[held], self.x[held].astype(np.float32))
            self.f[:] = 0.0
            self.f[W] = part
            self.f -= problem.ridge.astype(np.float32) * self.x
        else:
            changed = np.flatnonzero(self.x != self.weights)
            self.cache.add(self.f, changed, self.x[changed] - self.weights[changed])
            self.weights[changed] = self.x[changed]
        self._measure(self.slope, self.inside)
        if self.done:
            return
        gained = self.violation < 0.7 * self.best or (len(W) < n and self.rounds < 8)
        self.waited = 0 if gained else self.waited + 1
        self.best = min(self.best, self.violation)
        is_noise = self.waited >= 2 and self.noise > 0.5 * self.tol
        self.stuck = is_noise or self.waited >= 12 or self.steps >= self.max_steps
        self.done = self.stuck

    def _widen(self) -> None:
        """Add the worst violators outside of the working set, at most half as many as it has, because the block costs |W|^2."""
        block, inside, worse = self.block, self.inside, self.worse
        assert block is not None
        W, goal = block.members, 0.5 * self.tol
        above = self.slope - self.shift
        np.maximum(np.where(self.x < self.upper, above, 0.0), np.where(self.x > self.lower, -above, 0.0), out=worse)
        worse[inside] = 0.0
        count = int(np.count_nonzero(worse > goal))
        most_new = max(200, len(W) // 2)
        if count == 0:
            self.inner = max(0.2 * self.inner, 0.3 * self.tol)
            return
        inner = min(self.inner, 0.3 * self.violation) if count <= most_new else self.inner
        self.inner = max(0.4 * self.tol, inner)
        new = np.flatnonzero(worse > goal)
        if count > most_new:
            new = new[np.argpartition(worse[new], count - most_new)[count - most_new :]]
        if len(W) + len(new) > block.max_rows:
            new = self._fresh_members(new, block.max_rows)
            block.clear()
            inside[:] = False
        block.append(new)
        inside[new] = True

    def _descend(self, max_steps: int, x: np.ndarray, e: np.ndarray, *data: Any) -> None:
        """Do at most ``max_steps`` steps, which overwrite ``x`` and ``e``, and check the clock and Ctrl-C after each piece of them.

        ``data`` are the other arguments of the compiled loops: kernel, its diagonal, bounds, and the violation at which to stop.
        """
        descend: Any = smo.pair_descent_inplace if self.problem.intercept else smo.greedy_descent_inplace
        piece, done = max(100, PIECE // len(x)), 0
        while done < max_steps:
            now = min(piece, max_steps - done)
            steps = int(descend(x, e, *data, now)[0])
            done += steps
            if steps < now or self.late():
                break
        self.steps += done

    def continue_alone(self) -> None:
        """Do many more steps if the whole kernel is known, because its rounding keeps the last stage from a result."""
        if self.problem.kernel.formed is not None:
            self._descend_in_double(self.problem.kernel.formed, 2000)

    def _descend_in_double(self, K: np.ndarray, steps_per_sample: int) -> None:
        """Optimise over all samples in float64, on the whole kernel; if this converges, the weights are exact.

        The descent soon finds which weights are at a bound. Newton's method then gives the others, so few steps are needed.
        """
        problem, x, every = self.problem, self.x, np.ones(self.problem.n, dtype=bool)
        in_place = np.einsum("ii->i", K)  # a view of the diagonal
        own = in_place.copy()
        max_steps = min(self.steps + steps_per_sample * problem.n, self.max_steps)
        inner = self.goal if self.goal > FINE else 1e-3  # violation at which Newton's method is tried
        e, diagonal = problem.signs - self.f - problem.ridge * x, own + problem.ridge
        while True:
            try:
                in_place[:] = diagonal
                self._descend(int(max_steps - self.steps), x, e, K, diagonal, self.lower, self.upper, inner)
                if inner > self.goal and self.steps < max_steps:
                    self._step_of_newton(x, e, K)
            finally:
                in_place[:] = own
            self.f, rows = np.zeros(problem.n), np.flatnonzero(x)
            vectors.add_rows_inplace(self.f, K, rows, x[rows])
            self._measure(e, every)
            if self.violation <= 10.0 * FINE or inner <= self.goal or self.steps >= max_steps or self.late():
                break
            inner = max(0.1 * inner, self.goal)
        self.stuck, self.done = not self.done, True
        if self.violation <= 10.0 * FINE and np.abs(x).max() < 0.999 * self.ceiling:
            self.exact = Machine(problem, x, self.f, np.zeros(problem.n), self.shift)

    def _step_of_newton(self, x: np.ndarray, e: np.ndarray, K: np.ndarray) -> None:
        """Move the weights between their bounds to the optimum with all others fixed, or towards it until one reaches its bound."""
        free = np.flatnonzero((x > self.lower) & (x < self.upper))
        order, size = len(free), len(free) + int(self.problem.intercept)
        # [K 1; 1' 0] [step; change of the intercept] = [e; -sum(x)]
        M, right = np.ones((order + 1, order + 1)), np.append(e[free], -x.sum())
        M[:order, :order], M[order, order] = K[free[:, None], free], 0.0
        with suppress(np.linalg.LinAlgError):
            step = np.linalg.solve(M[:size, :size], right[:size])[:order]
            bound = np.where(step > 0, self.upper[free], self.lower[free])
            share = np.where(step != 0, (bound - x[free]) / step, np.inf)  # of the step, up to the bound
            length = min(1.0, float(share.min(initial=np.inf)))
            # as step'K step = e'step, the objective rises along the step also if K is indefinite by its rounding
            if 0 < float(e[free] @ step) < np.inf:
                x[free] = np.clip(
                    np.where(share <= length, bound, x[free] + length * step), self.lower[free], self.upper[free]
                )

    def _descend_on_all(self, K: np.ndarray) -> None:
        """Do at most n steps over all samples on a given kernel matrix; often they suffice, and no block has to be copied."""
        y, n, tol = self.problem.signs, self.problem.n, self.tol
        x, e = self.x.copy(), (y - self.f).astype(np.float32)
        diagonal = self.problem.kernel.diagonal().astype(np.float32)
        goal = np.float32(0.8 * tol)
        self._descend(int(min(n, self.max_steps)), x, e, K, diagonal, self.lower, self.upper, goal)
        # Each step rounds e in float32, in random directions. If the sum of these errors is far below tol, f follows from e.
        if 4 * FLOAT32_ROUNDOFF * np.sqrt(self.steps + 1.0) * max(1.0, float(np.abs(e).max())) <= 0.1 * tol:
            self.f = y - e
        else:
            moved = np.flatnonzero(x != self.x)
            self.cache.add(self.f, moved, x[moved] - self.x[moved])
        self.x = x
        self._measure(np.empty(n), np.ones(n, dtype=bool))

    def _solve_by_factor(self) -> None:
        """Set the weights by the interior-point method, or those of a squared hinge by Newton's method."""
        exact = 1e-7  # violation up to which the weights of Newton's method need no exact last stage
        clear = 1e-5  # the same after an interior-point method
        V = self.problem.kernel.factor
        assert V is not None
        method = interior_point if self.problem.loss == "hinge" else newton
        with suppress(np.linalg.LinAlgError):  # numbers overflow: the search begins at 0
            self.x, n_iter = method(self.problem, V, self.late)
            self.steps += n_iter
        self.f = V @ (self.x @ V)
        self._measure(np.empty(self.problem.n), np.ones(self.problem.n, dtype=bool))
        if self.done:
            self.band = clear
        if self.problem.loss != "hinge" and self.violation <= exact:
            self.exact = Machine(self.problem, self.x, self.f, np.zeros(self.problem.n), self.shift)

    def _first_members(self) -> np.ndarray:
        """Row numbers of a random sample of both classes, and of the samples that already have weight."""
        problem, n = self.problem, self.problem.n
        size = max(200, n // 16)
        members = [np.flatnonzero(self.x)]
        for sign in (1.0, -1.0):
            rows = np.flatnonzero((problem.signs == sign) & problem.counts)
            share = min(len(rows), max(1, round(size * len(rows) / n)))
            members.append(self.rng.choice(rows, share, replace=False) if len(rows) else rows)
        return np.unique(np.concatenate(members))

    def _fresh_members(self, new: np.ndarray, max_members: int) -> np.ndarray:
        """A new working set within the limit ``max_members``: free samples first, then the worst violators, then samples with weight."""
        free = np.flatnonzero(self.inside & (self.x > self.lower) & (self.x < self.upper))
        new = new[np.argsort(-self.worse[new])][: max_members // 2]
        rest = np.flatnonzero(self.inside & (self.x != 0))
        free = free[: max_members - len(new)]
        rest = np.setdiff1d(rest, free)[: max_members - len(new) - len(free)]
        return np.concatenate([free, new, rest])

    def _measure(self, slope: np.ndarray, inside: np.ndarray) -> None:
        """Update the slopes and the violation of all samples, and the intercept from the working set."""
        single = 4e-7  # typical error of an entry of the float32 kernel
        problem = self.problem
        self.rounds += 1
        self.noise = single * float(np.sqrt(self.x @ self.x))
        np.subtract(problem.signs, self.f, out=slope)
        if problem.ridge.any():
            slope -= problem.ridge * self.x
        rising = np.where(self.x < self.upper, slope, -INFINITE)
        falling = np.where(self.x > self.lower, slope, INFINITE)
        high, low = float(rising.max()), float(falling.min())
        above, below = float(rising[inside].max(initial=-INFINITE)), float(falling[inside].min(initial=INFINITE))
        # optimal with an intercept: max over x < upper of e <= min over x > lower of e; without: both compare with 0
        if not problem.intercept:
            self.shift, self.violation = 0.0, max(high, -low, 0.0)
        else:
            self.violation = high - low
            self.shift = 0.5 * (above + below if max(abs(above), abs(below)) < INFINITE else high + low)
        if not np.isfinite(slope.sum() + self.violation):
            self.violation = np.nan
        self.done = not self.violation > self.tol
