"""The multiplicative updates of Sha, Saul and Lee 2002 as a solver, with bounds and a sum constraint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.base.checks import check_integer, check_share
from bregmat.base.tolerances import EPS
from bregmat.engine.loop import Outcome, RunLog, solve
from bregmat.quadratic.split_program import Point, SplitProgram, UpdatesCertificate, UpdatesState
from bregmat.quadratic.splits import DenseSplit
from bregmat.quadratic.updates import balanced_step, clamped_lower, step

_TINY = float(np.finfo(float).tiny)


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
        two passes over the matrix. Small blocks need fewer steps. For :func:`bregmat.nnqp` without an equality. By default all variables.
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
    works_on: ClassVar[str] = "objective"

    def __post_init__(self) -> None:
        check_integer("block", self.block, 1)
        check_integer("max_iter", self.max_iter, 1, optional=False)
        check_share("clamp", self.clamp, zero=True)

    def check(self, problem: Any) -> None:
        """Raise unless the problem is a :class:`SplitProgram`."""
        if not isinstance(problem, SplitProgram):
            raise TypeError(f"the multiplicative updates solve a SplitProgram; got {type(problem).__name__}.")
        if self.block is not None and (problem.signs is not None or not isinstance(problem.split, DenseSplit)):
            raise TypeError(
                "MultiplicativeUpdates(block=...) needs a program of nnqp without an equality; leave out block."
            )

    def init(self, problem: SplitProgram, tol: float, start: np.ndarray | None) -> UpdatesState:
        """The state at the caller's start with its zeros raised, or at the default start."""
        if start is None or not (self.clamp == 0 or np.any(start)):
            return self._state(problem, _ones(problem), 0.0, tol=tol)
        v = np.clip(np.array(start, dtype=float), 0.0, problem.upper)
        total = 0.0 if problem.signs is None else float(problem.signs @ v)
        lifted = np.where(v == 0, np.minimum(problem.vanishing(v, self.clamp), problem.upper), v)
        point = problem.at(problem.on_constraint(lifted, total))
        return self._state(problem, point, 0.0, total=total, tol=tol)

    def step(self, problem: SplitProgram, state: UpdatesState) -> UpdatesState:
        """Go to the update of the state's point."""
        reached, total = problem.at(state.following), state.total
        return self._state(problem, reached, state.multiplier, total=total, tol=state.tol, steps=state.steps + 1)

    def _state(
        self,
        problem: SplitProgram,
        point: Point,
        multiplier: float,
        *,
        total: float = 0.0,
        tol: float = 0.0,
        steps: int = 0,
    ) -> UpdatesState:
        """The state at a point, with its update and the multiplier of this; ``multiplier`` is that of the previous update."""
        v, signs, diagonal, upper = point.v, problem.signs, problem.diagonal, problem.upper
        positive, negative = np.maximum(point.p, np.where(diagonal > 0, _TINY, 0.0)), point.q
        if signs is not None and not diagonal.all():
            # (A+ + D) - (A- + D) is also a split. Without D, a variable with a row of zeros would jump to 0 or infinity at once.
            extra = np.where(diagonal == 0, (problem.unit + abs(multiplier)) * v / (v.max() or 1.0), 0.0)
            positive, negative = positive + extra, negative + extra
        slope_at_zero = problem.slope(point, multiplier) - diagonal * v
        vanishing = problem.vanishing(v, self.clamp)
        lower = clamped_lower(v, slope_at_zero, vanishing)
        parts = {"positive": positive, "negative": negative, "lower": lower, "upper": upper}
        if self.block is not None:
            following = self._swept(problem, v, vanishing)
        elif signs is None:
            following = step(v, problem.b, **parts)
        else:
            following, multiplier = balanced_step(
                v, problem.b, signs=signs, total=total, multiplier=multiplier, **parts
            )
        # The residual treats clamped variables as zero, and variables that rounding keeps below their bound as at the bound.
        settled = np.where(v >= upper * (1.0 - 1e-12), upper, v)
        settled = np.where(v <= 2.0 * vanishing, 0.0, settled)
        scale = point.p + point.q + np.abs(problem.b) + (0.0 if signs is None else np.abs(multiplier * signs))
        residual = problem.violation(settled, problem.slope(point, multiplier), scale)
        return UpdatesState(
            point=point,
            following=following,
            multiplier=multiplier,
            residual=residual,
            objective=point.F,
            stalled=np.array_equal(following, v),
            finished=not problem.is_certified and residual <= tol,
            total=total,
            tol=tol,
            steps=steps,
        )

    def _swept(self, problem: SplitProgram, v: np.ndarray, vanishing: np.ndarray) -> np.ndarray:
        """The point after an update of every block of variables in turn, each of the program in the block with the others fixed."""
        assert isinstance(problem.split, DenseSplit)  # `check` refuses others
        v = v.copy()
        for first in range(0, len(v), self.block or len(v)):
            S = slice(first, first + (self.block or len(v)))
            part, others = problem.split.block(S, v)
            positive, negative = part.positive_negative(v[S])
            b = problem.b[S] + others  # F as a function of v_S has the matrix A_SS and the linear term b_S + A_ST v_T
            positive = np.maximum(positive, np.where(part.diagonal > 0, _TINY, 0.0))
            lower = clamped_lower(v[S], b + positive - negative - part.diagonal * v[S], vanishing[S])
            v[S] = step(v[S], b, positive=positive, negative=negative, lower=lower, upper=problem.upper[S])
        return v

    def clamped(self, problem: SplitProgram, proof: UpdatesCertificate, tol: float) -> UpdatesCertificate:
        """The certificate with clamped variables set to zero (footnote 2), unless the objective or the gap grows."""
        state, point = proof.state, proof.state.point
        slope_at_zero = problem.slope(point, state.multiplier) - problem.diagonal * point.v
        gone = (point.v > 0) & (point.v <= 2.0 * problem.vanishing(point.v, self.clamp)) & (slope_at_zero >= 0)
        if not gone.any() or not np.isfinite(point.F):
            return proof
        v = problem.on_constraint(np.where(gone, 0.0, point.v), state.total)
        if not problem.keeps_total(v, state.total):
            return proof
        at = problem.at(v)
        rise = at.F - point.F
        if not rise <= 4.0 * EPS * abs(point.F):
            return proof
        new = problem.certify(replace(state, point=at, objective=at.F))
        return new if not problem.is_certified or new.gap <= max(proof.gap, tol) else proof


def _ones(problem: SplitProgram) -> Point:
    """The default start: ones as in the paper, reduced to satisfy the bounds and the zero sum, then scaled to the least objective."""
    upper, b = problem.upper, problem.b
    v = np.minimum(1.0, 0.5 * upper)
    if problem.signs is not None:
        sides = [problem.signs > 0, problem.signs < 0]
        sums = [float(np.abs(problem.signs[side]) @ v[side]) for side in sides]
        for side, own in zip(sides, sums, strict=True):
            v[side] *= min(sums) / own if own > 0 else 0.0
    point = problem.at(v)
    slope, curve = float(b @ v), float(v @ (point.p - point.q))
    max_scale = float(np.where(v > 0, upper / v, np.inf).min(initial=np.inf))
    # F(t v) = t slope + t^2 curve / 2 is least at t = -slope / curve; if slope >= 0, use the size of its terms
    t = min((abs(slope) if slope < 0 else float(np.abs(b) @ v)) / curve, max_scale) if curve > 0 else 1.0
    if not (np.isfinite(t) and t > 0):
        return point
    return Point(t * v, t * point.p, t * point.q, t * slope + 0.5 * t * (t * curve))


# -------------------------------------------------------------------- runs
def run_updates(
    problem: SplitProgram,
    settings: MultiplicativeUpdates | None = None,
    x0: np.ndarray | None = None,
    *,
    tol: float = 1e-6,
    max_iter: int | None = None,
    log: RunLog | None = None,
) -> Outcome:
    """Run the updates (Sha 2002, eq. 3; bounds and sum constraint as in Sha 2007), then set clamped variables to zero.

    If F has no lower bound, the status is UNBOUNDED, ``certificate.dual`` is the direction and ``conflict`` its variables.

    Parameters
    ----------
    problem, settings, x0, tol, max_iter, log
        Only the zeros of ``x0`` are changed (see ``clamp``). The default start is ones as in the paper, shrunk into the box and to a
        zero sum, then scaled to the smallest objective. The run stops at the gap ``tol``, or for programs without one at this
        optimality residual, which is the ``violation`` of the history.
    """
    settings, log = settings or MultiplicativeUpdates(), log or RunLog()
    outcome = solve(problem, settings, tol=tol, max_iter=max_iter, start=x0, log=log)
    with np.errstate(all="ignore"):
        return replace(outcome, certificate=settings.clamped(problem, outcome.certificate, tol))
