"""Finding the support: SMO in float32 on a working set that grows by the worst violators.

Everything is in signed weights ``x_i = signs_i alpha_i``, where both classes look alike: ``max signs'x - 1/2 x'(K + ridge) x``
with ``lower <= x <= upper`` and, with an intercept, ``sum(x) = 0``. ``e = signs - f - ridge x`` is the slope; at the optimum it
equals the intercept wherever x is free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bregmat._kernels.smo import greedy_descent_inplace, smo_inplace
from bregmat._kernels.vectors import add_rows_inplace
from bregmat._kernels.violators import FAR, slopes_inplace, violators_inplace
from bregmat.kernels.sources import UNIT
from bregmat.margin.problem import MarginProblem
from bregmat.margin.rows import Block, RowCache

SINGLE = 4e-7  # typical error of an entry of the float32 kernel
WHOLE = 900  # samples up to which the working set is everything
STEPS = 20_000  # and 100 per member: limit of one round
PIECE = 30_000_000  # entries of rows that are passed between two looks at the clock


@dataclass(eq=False)
class Support:
    """Where the search stands.

    ``x`` signed weights, ``ceiling`` of their size; ``f`` = K x to float32 accuracy; ``shift`` the intercept; ``violation`` the spread
    of the slopes;
    ``noise`` below which float32 rows cannot tell violations; ``steps`` coordinate steps so far; ``stuck`` whether noise or a
    limit ended the search above its tolerance.
    """

    x: np.ndarray
    f: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    cache: RowCache
    ceiling: float = np.inf
    shift: float = 0.0
    violation: float = np.inf
    noise: float = 0.0
    steps: int = 0
    rounds: int = 0
    stuck: bool = False
    finite: bool = True


def new_support(problem: MarginProblem, start: np.ndarray, *, budget: int, ceiling: float = np.inf) -> Support:
    """The search at ``start`` (alpha, feasible); ``budget`` bytes for kernel rows; bounds above ``ceiling`` are cut to it."""
    most = np.minimum(problem.upper, ceiling)
    plus = problem.signs > 0
    lower, upper = np.where(plus, 0.0, -most), np.where(plus, most, 0.0)
    cache = RowCache(problem.kernel, budget)
    x, f = np.clip(problem.signs * start, lower, upper), np.zeros(problem.n)
    held = np.flatnonzero(x)
    cache.add(f, held, x[held])
    return Support(x, f, lower, upper, cache, ceiling)


class SupportSearch:
    """The search, a round at a time, until the optimality conditions hold to ``tol`` as far as float32 can tell.

    Parameters
    ----------
    problem : MarginProblem
    support : Support
        Where it starts; every round moves it on.
    tol : float
        Violation at which it ends, in units of the margin.
    rng : Generator
        Draws the first working set.
    budget : int
        Bytes for the block of the working set.
    max_steps : float
        Limit on coordinate steps.
    late : callable
        Asked every few milliseconds; True ends the round.
    """

    def __init__(
        self,
        problem: MarginProblem,
        support: Support,
        tol: float,
        *,
        rng: np.random.Generator,
        budget: int,
        max_steps: float,
        late: Callable[[], bool] = lambda: False,
    ) -> None:
        self.problem, self.support, self.tol = problem, support, tol
        self.rng, self.budget, self.max_steps, self.late = rng, budget, max_steps, late
        self.done = False
        self.block: Block | None = None  # set up by the first round that needs it

    def round(self) -> None:
        """One round; ``done`` where there is no more to find, ``support.stuck`` if that is above the tolerance."""
        problem, state = self.problem, self.support
        whole = problem.kernel.given
        if state.rounds == 0 and whole is not None and problem.n > WHOLE and not problem.ridge.any():
            self.done = _descend_on_all(problem, whole, state, self.tol, self.max_steps, self.late)
            return
        if self.block is None:
            self._set_up()
        else:
            self._widen()
        self._descend()

    def _set_up(self) -> None:
        """The first working set, and what the rounds carry along."""
        n, state = self.problem.n, self.support
        self.weights = state.x.copy()
        first = _first_members(self.problem, np.flatnonzero(self.weights), self.rng)
        self.block = Block(self.problem.kernel, self.problem.ridge, 4 * len(first), self.budget)
        self.inside = np.zeros(n, dtype=bool)
        first = first[: self.block.most]
        self.block.append(first)
        self.inside[first] = True
        self.slope, self.worse = np.empty(n), np.empty(n)
        self.inner, self.best, self.waited = 0.5 * self.tol if len(first) == n else 1e-1, np.inf, 0

    def _descend(self) -> None:
        """Sequential minimal optimisation on the working set; slopes and violation over all samples."""
        problem, state, block = self.problem, self.support, self.block
        assert block is not None
        W, n = block.members, problem.n
        x, e = state.x[W], (problem.signs[W] - state.f[W] - problem.ridge[W] * state.x[W]).astype(np.float32)
        most = int(min(100 * len(W) + STEPS, max(self.max_steps - state.steps, 0)))
        goal = np.float32(max(self.inner, state.noise))
        low, high = state.lower[W], state.upper[W]
        state.steps += _descend(problem, x, e, block.K, block.diagonal, low, high, goal, most, self.late)
        state.x[W] = x
        state.noise = SINGLE * float(np.sqrt(x @ x))
        if len(W) == n:
            # the block is the kernel: its rows serve, but carry the ridge
            state.f[:] = 0.0
            _add_block(state, block, np.flatnonzero(state.x), problem.ridge)
            changed = np.zeros(0, dtype=np.int64)
        else:
            changed = np.flatnonzero(state.x != self.weights)
            state.cache.add(state.f, changed, state.x[changed] - self.weights[changed])
        self.weights[changed] = state.x[changed]
        state.rounds += 1
        _measure(problem, state, self.slope, self.inside)
        if not np.isfinite(state.violation):
            state.finite = False
        self.done = not state.finite or state.violation <= self.tol
        if self.done:
            return
        gained = state.violation < 0.7 * self.best or (len(W) < n and state.rounds < 8)
        self.waited = 0 if gained else self.waited + 1
        self.best = min(self.best, state.violation)
        out_of_digits = self.waited >= 2 and state.noise > 0.5 * self.tol
        state.stuck = out_of_digits or self.waited >= 12 or state.steps >= self.max_steps
        self.done = state.stuck

    def _widen(self) -> None:
        """Worst violators outside join, at most half as many as there are: the block costs |W|^2."""
        state, block, inside, worse = self.support, self.block, self.inside, self.worse
        assert block is not None
        W, goal = block.members, 0.5 * self.tol
        count = violators_inplace(worse, self.slope, state.x, state.lower, state.upper, inside, state.shift, goal)
        most_new = max(200, len(W) // 2)
        if count == 0:
            self.inner = max(0.2 * self.inner, 0.3 * self.tol)
            return
        inner = min(self.inner, 0.3 * state.violation) if count <= most_new else self.inner
        self.inner = max(0.4 * self.tol, inner)
        new = np.flatnonzero(worse > goal)
        if count > most_new:
            new = new[np.argpartition(worse[new], count - most_new)[count - most_new :]]
        if len(W) + len(new) > block.most:
            new = _fresh_members(state, inside, new, worse, block.most)
            block.clear()
            inside[:] = False
        block.append(new)
        inside[new] = True


def _descend(
    problem: MarginProblem,
    x: np.ndarray,
    e: np.ndarray,
    K: np.ndarray,
    diagonal: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    goal: np.float32,
    most: int,
    late: Callable[[], bool],
) -> int:
    """At most ``most`` steps that overwrite ``x`` and ``e``, in pieces between which the clock and Ctrl-C count; their number."""
    solve = smo_inplace if problem.intercept else greedy_descent_inplace
    piece, done = max(100, PIECE // len(x)), 0
    while done < most:
        now = min(piece, most - done)
        steps = int(solve(x, e, K, diagonal, lower, upper, goal, now)[0])
        done += steps
        if steps < now or late():
            break
    return done


def _descend_on_all(
    problem: MarginProblem, K: np.ndarray, state: Support, tol: float, max_steps: float, late: Callable[[], bool]
) -> bool:
    """Descent over all samples on a matrix that is given, at most n steps: where few are needed, no block pays. Whether that did."""
    y, n = problem.signs, problem.n
    x, e = state.x.copy(), (y - state.f).astype(np.float32)
    diagonal = problem.kernel.diagonal().astype(np.float32)
    most, goal = int(min(n, max_steps)), np.float32(0.8 * tol)
    state.steps += _descend(problem, x, e, K, diagonal, state.lower, state.upper, goal, most, late)
    # e has drifted by a rounding of float32 a step, in random directions: where that is far below tol, it says what f is.
    if 4 * UNIT * np.sqrt(state.steps + 1.0) * max(1.0, float(np.abs(e).max())) <= 0.1 * tol:
        state.f = y - e
    else:
        moved = np.flatnonzero(x != state.x)
        state.cache.add(state.f, moved, x[moved] - state.x[moved])
    state.x, state.rounds = x, state.rounds + 1
    state.noise = SINGLE * float(np.sqrt(x @ x))
    _measure(problem, state, np.empty(n), np.ones(n, dtype=bool))
    if not np.isfinite(state.violation):
        state.finite = False
        return True
    return state.violation <= tol


def _first_members(problem: MarginProblem, held: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random sample of both classes, and the samples that have weight already."""
    n, counts = problem.n, problem.counts
    if n <= WHOLE:
        return np.arange(n)
    size = max(200, n // 16)
    members = [held]
    for sign in (1.0, -1.0):
        rows = np.flatnonzero((problem.signs == sign) & counts)
        share = min(len(rows), max(1, round(size * len(rows) / n)))
        members.append(rng.choice(rows, share, replace=False) if len(rows) else rows)
    return np.unique(np.concatenate(members))


def _fresh_members(state: Support, inside: np.ndarray, new: np.ndarray, worse: np.ndarray, most: int) -> np.ndarray:
    """A working set within its limit: free samples first, then the worst violators, then those with weight."""
    free = np.flatnonzero(inside & (state.x > state.lower) & (state.x < state.upper))
    new = new[np.argsort(-worse[new])][: most // 2]
    rest = np.flatnonzero(inside & (state.x != 0))
    free = free[: most - len(new)]
    rest = np.setdiff1d(rest, free)[: most - len(new) - len(free)]
    return np.concatenate([free, new, rest])


def _add_block(state: Support, block: Block, held: np.ndarray, ridge: np.ndarray) -> None:
    """``f = K x`` from the block over all samples, without the ridge on its diagonal."""
    place = np.empty(len(state.x), dtype=np.int64)
    place[block.members] = np.arange(len(block.members))
    part = np.zeros(len(state.x))
    add_rows_inplace(part, block.K, place[held], state.x[held].astype(np.float32))
    state.f[block.members] = part
    state.f -= ridge.astype(np.float32) * state.x


def _measure(problem: MarginProblem, state: Support, slope: np.ndarray, inside: np.ndarray) -> None:
    """Slopes and violation over all samples, and the intercept from the working set."""
    high, low, above, below = slopes_inplace(
        slope, state.x, state.f, problem.signs, problem.ridge, state.lower, state.upper, inside
    )
    if not problem.intercept:
        state.shift, state.violation = 0.0, max(high, -low, 0.0)
    else:
        state.violation = high - low
        state.shift = 0.5 * (above + below if abs(above) < FAR and abs(below) < FAR else high + low)
    if not np.isfinite(slope.sum()):
        state.violation = np.nan
