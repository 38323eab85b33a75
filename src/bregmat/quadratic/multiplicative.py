"""The multiplicative updates of Sha, Saul and Lee 2002 as a solver, with bounds and one equality row.

The row is called the sum constraint ``signs'v = total``: for a margin machine its coefficients are +-1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.base.checks import check_integer, check_share
from bregmat.base.threads import on_one_blas_thread
from bregmat.base.tolerances import EPS
from bregmat.engine.loop import RunLog, repeat
from bregmat.engine.status import ExitReason
from bregmat.quadratic.program import QuadraticProgram
from bregmat.quadratic.updates import balanced_step, clamped_lower, positive_negative, spread, step

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class Point:
    """A point v with its products p = ``A+ v`` and q = ``A- v``, shapes (n,), and its objective F."""

    v: np.ndarray
    p: np.ndarray
    q: np.ndarray
    F: float

    @classmethod
    def of(cls, problem: QuadraticProgram, v: np.ndarray) -> Point:
        """The point v with its products, by one pass over the matrix."""
        p, q = positive_negative(problem.A, v)
        # F(v) = 1/2 v'(A+ v - A- v) + b'v (eq. 1)
        return cls(v, p, q, float(v @ (0.5 * (p - q) + problem.b)))

    def slope(self, problem: QuadraticProgram, multiplier: np.ndarray) -> np.ndarray:
        """The reduced gradient ``A+ v - A- v + b + E' multiplier`` (eq. 4)."""
        return problem.reduced(self.p - self.q + problem.b, multiplier)


@dataclass(frozen=True, eq=False, kw_only=True)
class UpdatesState:
    """A point, its update, the multiplier of the sum constraint, and the relative optimality residual."""

    point: Point
    following: np.ndarray
    multiplier: np.ndarray  # (m,) of the sum constraint, as in `Point.slope`: the intercept of a margin machine
    residual: float  # the largest of `violations`, relative to the terms of the gradient
    total: float = 0.0  # of the sum constraint

    @property
    def is_stalled(self) -> bool:
        """Whether the update is the point itself."""
        return np.array_equal(self.following, self.point.v)


@dataclass(frozen=True)
class MultiplicativeUpdates:
    """Settings of the multiplicative updates, for ``solver=`` of :func:`bregmat.nnqp` and of the margin machines.

    Each step multiplies every variable by a factor in closed form. The objective falls at every step, without a learning
    rate or a working set. Convergence to high accuracy is slow. Prefer the exact solvers; use this one to study the method, or for
    rough answers if the matrix is too large to factor.

    Parameters
    ----------
    clamp : float
        Footnote 2 of Sha 2002: a variable below this fraction of the largest (both times ``sqrt(A_ii)``) is not reduced further if
        zero would satisfy its optimality condition, and is set to zero at the end. Dimensionless; 0 for none. Zeros of a warm start
        begin at this size; with ``clamp=0`` they stay zero.
    block : int, optional
        Variables that are updated at once (Sha 2002, section 3.1): a step updates this many after the other, with the rest fixed, and costs
        two passes over the matrix. Small blocks need fewer steps. For programs without an equality. By default all variables.
    max_iter : int
        Default limit on steps.

    Notes
    -----
    Source: Sha 2002, eq. 3, section 3.1 and footnote 2. The paper clamps a variable permanently; here it may grow again, because zero
    may satisfy the condition at one step and not at the optimum. A step costs one pass over the matrix.

    Examples
    --------
    >>> from bregmat import MultiplicativeUpdates, nnqp
    >>> result = nnqp([[2.0, 1.0], [1.0, 2.0]], [-2.0, 1.0], solver=MultiplicativeUpdates(clamp=1e-12), tol=1e-6)
    >>> print(result.status, result.x.round(3))
    OPTIMAL [1. 0.]
    """

    clamp: float = EPS
    block: int | None = None
    max_iter: int = 10_000
    name: ClassVar[str] = "multiplicative"

    def __post_init__(self) -> None:
        check_integer("block", self.block, 1)
        check_integer("max_iter", self.max_iter, 1, optional=False)
        check_share("clamp", self.clamp, zero=True)

    def init(self, problem: QuadraticProgram, start: np.ndarray | None) -> UpdatesState:
        """The state at the caller's start with its zeros raised, or at the default start."""
        if self.block is not None and problem.m:
            raise TypeError("MultiplicativeUpdates(block=...) needs a program without equality and intercept.")
        if problem.m > 1:
            raise ValueError(f"the multiplicative updates take at most one equality row; got {problem.m}: use nnqp.")
        multiplier, total = np.zeros(problem.m), float(problem.e.sum())
        if start is None or not (self.clamp == 0 or np.any(start)):
            return self._state(problem, _ones(problem, total), multiplier, total)
        v = np.clip(np.array(start, dtype=float), 0.0, problem.upper)
        lifted = np.where(v == 0, np.minimum(_vanishing(problem, v, self.clamp), problem.upper), v)
        return self._state(problem, Point.of(problem, on_constraint(problem, lifted, total)), multiplier, total)

    def step(self, problem: QuadraticProgram, state: UpdatesState) -> UpdatesState:
        """Go to the update of the state's point."""
        return self._state(problem, Point.of(problem, state.following), state.multiplier, state.total)

    def _state(self, problem: QuadraticProgram, point: Point, multiplier: np.ndarray, total: float) -> UpdatesState:
        """The state at a point, with its update and the multiplier of this; ``multiplier`` is that of the previous update."""
        v, diagonal, upper = point.v, problem.diagonal, problem.upper
        positive, negative = np.maximum(point.p, np.where(diagonal > 0, _TINY, 0.0)), point.q
        if problem.m and not diagonal.all():
            # (A+ + D) - (A- + D) is also a split. Without D, a variable with a row of zeros would jump to 0 or infinity at once.
            unit = (float(np.abs(problem.b).max()) or 1.0) + abs(multiplier[0])
            extra = np.where(diagonal == 0, unit * v / (v.max() or 1.0), 0.0)
            positive, negative = positive + extra, negative + extra
        slope_at_zero = point.slope(problem, multiplier) - diagonal * v
        vanishing = _vanishing(problem, v, self.clamp)
        lower = clamped_lower(v, slope_at_zero, vanishing)
        parts = {"positive": positive, "negative": negative, "lower": lower, "upper": upper}
        scale = point.p + point.q + np.abs(problem.b)
        if self.block is not None:
            following = self._swept(problem, v, vanishing)
        elif not problem.m:
            following = step(v, problem.b, **parts)
        else:
            signs = problem.E[0]
            following, new = balanced_step(v, problem.b, signs=signs, total=total, multiplier=multiplier[0], **parts)
            multiplier = np.array([new])
            scale = scale + np.abs(new * signs)
        # The residual treats clamped variables as zero, and variables that rounding keeps below their bound as at the bound.
        settled = np.where(v >= upper * (1.0 - 1e-12), upper, v)
        settled = np.where(v <= 2.0 * vanishing, 0.0, settled)
        size = violations(problem, settled, point.slope(problem, multiplier))
        with np.errstate(divide="ignore", invalid="ignore"):
            residual = float(np.where(size == 0, 0.0, size / scale).max())
        return UpdatesState(point=point, following=following, multiplier=multiplier, residual=residual, total=total)

    def _swept(self, problem: QuadraticProgram, v: np.ndarray, vanishing: np.ndarray) -> np.ndarray:
        """The point after an update of every block of variables in turn, each of the program in the block with the others fixed."""
        v = v.copy()
        for first in range(0, len(v), self.block or len(v)):
            S = slice(first, first + (self.block or len(v)))
            rows, diagonal = problem.A[S], problem.diagonal[S]
            # F as a function of v_S has the matrix A_SS and the linear term b_S + A_ST v_T
            b = problem.b[S] + rows[:, : S.start] @ v[: S.start] + rows[:, S.stop :] @ v[S.stop :]
            positive, negative = positive_negative(np.ascontiguousarray(rows[:, S]), v[S])
            positive = np.maximum(positive, np.where(diagonal > 0, _TINY, 0.0))
            lower = clamped_lower(v[S], b + positive - negative - diagonal * v[S], vanishing[S])
            v[S] = step(v[S], b, positive=positive, negative=negative, lower=lower, upper=problem.upper[S])
        return v

    def clamped(self, problem: QuadraticProgram, state: UpdatesState) -> UpdatesState:
        """The state with clamped variables set to zero (footnote 2), unless the objective grows."""
        point = state.point
        slope_at_zero = point.slope(problem, state.multiplier) - problem.diagonal * point.v
        gone = (point.v > 0) & (point.v <= 2.0 * _vanishing(problem, point.v, self.clamp)) & (slope_at_zero >= 0)
        if not gone.any() or not np.isfinite(point.F):
            return state
        v = on_constraint(problem, np.where(gone, 0.0, point.v), state.total)
        if not keeps_total(problem, v, state.total):
            return state
        at = Point.of(problem, v)
        rise = at.F - point.F
        return replace(state, point=at) if rise <= 4.0 * EPS * abs(point.F) else state


def _ones(problem: QuadraticProgram, total: float) -> Point:
    """The default start: ones as in the paper, reduced to satisfy the bounds and the sum, if this is 0 scaled to the least objective."""
    upper, b = problem.upper, problem.b
    v = np.minimum(1.0, 0.5 * upper)
    if total:
        return Point.of(problem, on_constraint(problem, v, total))
    for signs in problem.E:
        sides = [signs > 0, signs < 0]
        sums = [float(np.abs(signs[side]) @ v[side]) for side in sides]
        for side, own in zip(sides, sums, strict=True):
            v[side] *= min(sums) / own if own > 0 else 0.0
    point = Point.of(problem, v)
    slope, curve = float(b @ v), float(v @ (point.p - point.q))
    max_scale = float(np.where(v > 0, upper / v, np.inf).min(initial=np.inf))
    # F(t v) = t slope + t^2 curve / 2 is least at t = -slope / curve; if slope >= 0, use the size of its terms
    t = min((abs(slope) if slope < 0 else float(np.abs(b) @ v)) / curve, max_scale) if curve > 0 else 1.0
    if not (np.isfinite(t) and t > 0):
        return point
    return Point(t * v, t * point.p, t * point.q, t * slope + 0.5 * t * (t * curve))


def violations(problem: QuadraticProgram, v: np.ndarray, g: np.ndarray) -> np.ndarray:
    """``|v - clip(v - g / A_ii, 0, upper)| A_ii``, shape (n,): 0 where the condition holds; from g alone if ``A_ii = 0``."""
    diagonal, upper = problem.diagonal, problem.upper
    is_flat = diagonal == 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        size = np.abs(diagonal * (v - np.minimum(np.maximum(v - g / diagonal, 0.0), upper)))
    if is_flat.any():
        edge = np.where(v > 0, np.maximum(g, 0.0), 0.0) + np.where(v < upper, np.maximum(-g, 0.0), 0.0)
        size = np.where(is_flat, edge, size)
    return size


def _vanishing(problem: QuadraticProgram, v: np.ndarray, clamp: float) -> np.ndarray:
    """Size below which variables are not reduced further, shape (n,): ``clamp`` times the largest variable, times sqrt(A_ii)."""
    root, (least, least_alone) = problem.root, problem.least_sizes
    floor = max(float((v * root).max(initial=0.0)), least) / root
    return clamp * np.where(root > 0, floor, max(float(v.max(initial=0.0)), least_alone))


# -------------------------------------------------------------------- the sum constraint
def on_constraint(problem: QuadraticProgram, v: np.ndarray, total: float) -> np.ndarray:
    """``v``, whose entries are multiplied by factors such that ``signs'v = total``."""
    return spread(v, signs=problem.E[0], total=total, upper=problem.upper) if problem.m else v


def keeps_total(problem: QuadraticProgram, v: np.ndarray, total: float) -> bool:
    """Whether the sum constraint holds up to rounding."""
    return all(abs(signs @ v - total) <= 64.0 * EPS * float(np.abs(signs) @ v) for signs in problem.E)


def _ray(problem: QuadraticProgram) -> np.ndarray | None:
    """A direction, shape (n,), of one or two variables without curvature and upper bound, along which F falls; None if none exists."""
    b, free, ray = problem.b, (problem.diagonal == 0) & np.isinf(problem.upper), np.zeros(problem.n)
    signs = problem.E[0] if problem.m else np.zeros(problem.n)
    size = np.where(signs == 0, 1.0, np.abs(signs))
    sides = [np.flatnonzero(free & (np.sign(signs) == s)) for s in (1, -1)]
    rows = np.array([side[np.argmin((b / size)[side])] for side in sides if len(side)], dtype=np.int64)
    if len(rows) < 2 or (b / size)[rows].sum() >= 0:
        rows = np.flatnonzero(free & (signs == 0) & (b < 0))[:1]
    ray[rows] = 1.0 / size[rows]
    return ray if len(rows) else None


# -------------------------------------------------------------------- runs
Prove = Callable[[UpdatesState], Any]  # returns an object with objective, dual_bound and the relative gap


@dataclass(eq=False)
class UpdatesRun:
    """A run of the updates."""

    problem: QuadraticProgram  # with at most one equality row
    settings: MultiplicativeUpdates
    tol: float
    state: UpdatesState
    log: RunLog
    prove: Prove | None = None
    proof: Any = None  # what ``prove`` has returned for ``state``
    ray: np.ndarray | None = None  # (n,) a direction along which F has no lower bound
    exit_reason: ExitReason = ExitReason.MAX_ITER
    n_iter: int = 0

    @property
    def x(self) -> np.ndarray:
        """The point, shape (n,), ``0 <= x <= upper``."""
        return self.state.point.v

    def measure(self, is_last: bool) -> dict[str, float]:
        """F or the figures of a proof, with the optimality residual as the violation; in small programs most steps have no proof."""
        state, large = self.state, 300  # variables from which on a proof costs less than a pass over the matrix
        stride = 1 if self.problem.n >= large else 1 << max(self.n_iter.bit_length() - 7, 0)
        is_due = self.n_iter % stride == 0 or is_last or state.is_stalled or self.log.callback is not None
        figures = {"objective": state.point.F, "dual_bound": np.nan, "gap": np.nan, "violation": state.residual}
        if self.prove is not None and is_due:
            proof = self.proof = self.prove(state)
            figures |= {"objective": proof.objective, "dual_bound": proof.dual_bound, "gap": proof.gap}
        return figures

    def ended(self) -> ExitReason | None:
        """CERTIFICATE if F has no lower bound; TOLERANCE at the gap ``tol`` or, without proofs, at this residual."""
        if self.ray is not None:
            return ExitReason.CERTIFICATE
        reached = self.state.residual if self.prove is None else np.inf if self.proof is None else self.proof.gap
        if reached <= self.tol:
            return ExitReason.TOLERANCE
        return ExitReason.STALLED if self.state.is_stalled else None

    def step(self) -> None:
        """Go to the update of the point."""
        following = self.settings.step(self.problem, self.state)
        if not np.isfinite(following.point.F):
            raise OverflowError
        # the proof of the old point is dropped first: Ctrl-C must not leave it beside the new point
        self.proof, self.state, self.n_iter = None, following, self.n_iter + 1

    def finish(self) -> None:
        """Prove the last point, with clamped variables at zero unless the gap grows."""
        if self.prove is not None and self.proof is None:
            self.proof = self.prove(self.state)
        clamped = self.settings.clamped(self.problem, self.state)
        proof = None if self.prove is None or clamped is self.state else self.prove(clamped)
        if proof is None or proof.gap <= max(self.proof.gap, self.tol):
            self.state, self.proof = clamped, self.proof if proof is None else proof


@on_one_blas_thread
def run_updates(
    problem: QuadraticProgram,
    settings: MultiplicativeUpdates | None = None,
    x0: np.ndarray | None = None,
    *,
    prove: Prove | None = None,
    tol: float = 1e-6,
    max_iter: int | None = None,
    log: RunLog | None = None,
) -> UpdatesRun:
    """Run the updates (Sha 2002, eq. 3; bounds and sum constraint as in Sha 2007), then set clamped variables to zero.

    Parameters
    ----------
    problem, settings, prove, tol, max_iter, log
        As in :class:`UpdatesRun`. The run stops at the gap ``tol``, or without ``prove`` at this optimality residual, which is the
        ``violation`` of the history.
    x0 : ndarray, shape (n,), optional
        Its zeros are changed (see ``clamp``), and its entries are multiplied by factors where the equality row does not hold. The default
        start is ones as in the paper, changed to satisfy the box and the row, and scaled to the smallest objective if the row has e = 0.
    """
    settings, log = settings or MultiplicativeUpdates(), log or RunLog()
    with np.errstate(all="ignore"):
        run = UpdatesRun(problem, settings, tol, settings.init(problem, x0), log, prove, ray=_ray(problem))
        run.exit_reason, run.n_iter = repeat(run, settings.max_iter if max_iter is None else max_iter, log)
        run.finish()
    return run
