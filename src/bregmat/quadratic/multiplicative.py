"""The multiplicative updates of Sha, Saul and Lee 2002 as a solver: any bounds, a sum constraint, and Anderson's acceleration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.base.checks import check_integer, check_share
from bregmat.base.interrupts import take_interrupt
from bregmat.base.linalg import EPS
from bregmat.quadratic.split_program import Point, SplitProgram, UpdatesCertificate, UpdatesState
from bregmat.quadratic.updates import balanced_step, step, waiting_place
from bregmat.run.loop import Outcome, RunLog, solve
from bregmat.run.result import ExitReason

_TINY = float(np.finfo(float).tiny)
_LEAST = 1e-300  # stands for zero under the logarithm
_RIDGE = 1e-10  # of the small system, relative to its trace
_LEAP = 10.0  # logarithm of the largest factor between an entry and its plain update


@dataclass(frozen=True)
class MultiplicativeUpdates:
    """Settings of the multiplicative updates, for ``solver=`` of :func:`bregmat.nnqp` and of the margin machines.

    Each step multiplies every variable by a factor in closed form; the objective falls at every step, with no learning
    rate and no working set. Slow to high accuracy: prefer the exact solvers, and this one to study the method, or for
    quick rough answers on matrices that are too large to factor.

    Parameters
    ----------
    anderson : int
        Depth of Anderson's acceleration in the logarithms of the variables; 0 for the updates as published, 10 is a
        good depth. An extrapolated point is kept only if the objective does not rise.
    clamp : float
        Footnote 2 of the source: a variable below this fraction of the largest (both times ``sqrt(A_ii)``) waits there
        where zero would meet the optimality conditions, and is zero at the end. Dimensionless; 0 for none. A warm
        start's zeros begin there too; with ``clamp=0`` they stay zero.
    max_iter : int
        Steps that a run may take unless told otherwise.

    Notes
    -----
    Source: Sha 2002, eq. 3 and footnote 2. The source clamps a variable for good; here it may grow again, because zero
    may meet the conditions at one step and not at the optimum. The acceleration is not in the source. A step costs one pass
    over the matrix.

    Examples
    --------
    >>> from bregmat import MultiplicativeUpdates, nnqp
    >>> result = nnqp([[2.0, 1.0], [1.0, 2.0]], [-2.0, 1.0], solver=MultiplicativeUpdates(anderson=5), tol=1e-6)
    >>> print(result.status, result.x.round(3))
    OPTIMAL [1. 0.]
    """

    anderson: int = 0
    clamp: float = EPS
    max_iter: int = 10_000
    name: ClassVar[str] = "multiplicative"
    works_on: ClassVar[str] = "objective"

    def __post_init__(self) -> None:
        check_integer("anderson", self.anderson, 0, optional=False)
        check_integer("max_iter", self.max_iter, 1, optional=False)
        check_share("clamp", self.clamp, zero=True)

    def check(self, problem: Any) -> None:
        """Raise unless the matrix of the problem is given as a split."""
        if not isinstance(problem, SplitProgram):
            raise TypeError(f"the multiplicative updates solve a SplitProgram; got {type(problem).__name__}.")

    def init(self, problem: SplitProgram, tol: float, start: np.ndarray | None) -> UpdatesState:
        """The first point: the caller's, lifted off zero, or ones along which the objective is least."""
        multiplier, total = 0.0, 0.0
        if problem.signs is not None:
            able = problem.upper > 0
            found = np.unique(problem.signs[able])
            if len(found) == 1:  # should the total be zero, nothing can move, and this multiplier proves it
                multiplier = float(found[0] * np.max(-problem.b[able]))
        memory = _Extrapolation(self.anderson, problem.length) if self.anderson else None
        x0 = problem.first(start)
        if x0 is None or not (self.clamp == 0 or np.any(x0)):
            return self._state(problem, _ones(problem), multiplier, tol=tol, memory=memory)
        v = np.clip(np.array(x0, dtype=float), 0.0, problem.upper)
        total = 0.0 if problem.signs is None else float(problem.signs @ v)
        lifted = np.where(v == 0, np.minimum(problem.vanishing(v, self.clamp), problem.upper), v)
        point = problem.at(problem.on_constraint(lifted, total))
        return self._state(problem, point, multiplier, total=total, tol=tol, memory=memory)

    def step(self, problem: SplitProgram, state: UpdatesState) -> UpdatesState:
        """The plain update, or Anderson's point if the objective does not rise there."""
        reached, passes = None, state.n_passes + 1
        guess = self._extrapolated(problem, state)
        if guess is not None and state.memory is not None:
            reached = problem.at(guess)
            if not np.isfinite(reached.F) or state.objective < reached.F:
                state.memory.forget()
                reached, passes = None, passes + 1
        if reached is None:
            reached = problem.at(state.following)
        return self._state(
            problem, reached, state.multiplier, total=state.total, tol=state.tol, n_passes=passes, memory=state.memory
        )

    def _state(
        self, problem: SplitProgram, point: Point, multiplier: float, *, total: float = 0.0, tol: float, **more: Any
    ) -> UpdatesState:
        """The state at a point, with the plain update of it and that update's multiplier; ``multiplier`` is that of the last one."""
        v, signs, diagonal, upper = point.v, problem.signs, problem.diagonal, problem.upper
        positive, negative = np.maximum(point.p, np.where(diagonal > 0, _TINY, 0.0)), point.q
        if signs is not None and not diagonal.all():
            # A + D - D is a split too: without it, a row of zeros would jump to zero or infinity and stay there
            extra = np.where(diagonal == 0, (problem.unit + abs(multiplier)) * v / (v.max() or 1.0), 0.0)
            positive, negative = positive + extra, negative + extra
        slope_at_zero = problem.slope(point, multiplier) - diagonal * v
        lower = waiting_place(v, slope_at_zero, problem.vanishing(v, self.clamp))
        parts = {"positive": positive, "negative": negative, "lower": lower, "upper": upper}
        if signs is None:
            following = step(v, problem.b, **parts)
        else:
            following, multiplier = balanced_step(
                v, problem.b, signs=signs, total=total, multiplier=multiplier, **parts
            )
        # what waits at zero counts as zero, and what rounding keeps below its bound as on it
        settled = np.where(v >= upper * (1.0 - 1e-12), upper, v)
        settled = np.where(v <= 2.0 * problem.vanishing(v, self.clamp), 0.0, settled)
        scale = point.p + point.q + np.abs(problem.b) + (0.0 if signs is None else abs(multiplier))
        miss = problem.violation(settled, problem.slope(point, multiplier), scale)
        return UpdatesState(
            point=point,
            following=following,
            multiplier=multiplier,
            miss=miss,
            objective=point.F,
            stalled=np.array_equal(following, v),
            finished=not problem.is_certified and miss <= tol,
            total=total,
            tol=tol,
            **more,
        )

    def _extrapolated(self, problem: SplitProgram, state: UpdatesState) -> np.ndarray | None:
        """Anderson's point inside the bounds and on the constraint."""
        v, new, upper = state.point.v, state.following, problem.upper
        guess = None if state.memory is None else state.memory.propose(v, new)
        if guess is None:
            return None
        # a bound that the plain update meets is kept; what waits at zero is not sent further down
        inside = new < upper
        guess = np.maximum(guess, np.minimum(new, problem.vanishing(new, self.clamp)))
        guess = np.where(inside, np.minimum(guess, upper), upper)
        if problem.signs is None:
            return guess
        guess = problem.on_constraint(guess, state.total, inside)
        return guess if problem.keeps_total(guess, state.total) else None

    def clamped(self, problem: SplitProgram, proof: UpdatesCertificate, tol: float) -> UpdatesCertificate:
        """The certificate with zeros for what has vanished (footnote 2), if objective and gap agree."""
        state, point = proof.state, proof.state.point
        slope_at_zero = problem.slope(point, state.multiplier) - problem.diagonal * point.v
        gone = (point.v > 0) & (point.v <= 2.0 * problem.vanishing(point.v, self.clamp)) & (slope_at_zero >= 0)
        if not gone.any() or not np.isfinite(point.F):
            return proof
        v = problem.on_constraint(np.where(gone, 0.0, point.v), state.total)
        if not problem.keeps_total(v, state.total):
            return proof
        found = problem.at(v)
        rise = found.F - point.F
        if not rise <= 4.0 * EPS * abs(point.F):
            return proof
        new = problem.certify(replace(state, point=found, objective=found.F))
        return new if not problem.is_certified or new.gap <= max(proof.gap, tol) else proof


def _ones(problem: SplitProgram) -> Point:
    """The source's start, shrunk into the box and to a zero sum, then scaled to the least objective."""
    upper, b = problem.upper, problem.b
    v = np.minimum(1.0, 0.5 * upper)
    if problem.signs is not None:
        sides = [problem.signs > 0, problem.signs < 0]
        sums = [float(v[side].sum()) for side in sides]
        for side, own in zip(sides, sums, strict=True):
            v[side] *= min(sums) / own if own > 0 else 0.0
    point = problem.at(v)
    slope, curve = float(b @ v), float(v @ (point.p - point.q))
    room = float(np.where(v > 0, upper / v, np.inf).min(initial=np.inf))
    # where the ray rises, at least the size is made right
    t = min((abs(slope) if slope < 0 else float(np.abs(b) @ v)) / curve, room) if curve > 0 else 1.0
    if not (np.isfinite(t) and t > 0):
        return point
    return Point(t * v, t * point.p, t * point.q, t * slope + 0.5 * t * (t * curve))


class _Extrapolation:
    """Anderson's acceleration in logarithms: remembers the last steps and proposes where their errors cancel.

    The logarithms keep every proposal positive. Errors are weighed by ``sqrt(v_i length_i / max)``: an entry that
    vanishes has large relative errors that matter to nobody.

    Parameters
    ----------
    depth : int
        Differences that are remembered.
    length : ndarray, shape (n,)
        ``sqrt(A_ii)``, which makes entries of different units comparable.
    """

    def __init__(self, depth: int, length: np.ndarray) -> None:
        self._depth, self._length = depth, length
        self._from: list[np.ndarray] = []
        self._to: list[np.ndarray] = []

    def forget(self) -> None:
        """Keep the last step only."""
        del self._from[:-1], self._to[:-1]

    def propose(self, v: np.ndarray, new: np.ndarray) -> np.ndarray | None:
        """Learn the step from ``v`` to ``new``; the extrapolated point, or None where nothing is to be had.

        ``x = log v`` and ``g = log new``. The combination of the last differences of ``g - x`` nearest to the last
        ``g - x`` is taken off ``g``.
        """
        self._from = [*self._from, np.log(np.maximum(v, _LEAST))][-self._depth - 1 :]
        self._to = [*self._to, np.log(np.maximum(new, _LEAST))][-self._depth - 1 :]
        size = new * self._length
        largest = float(size.max(initial=0.0))
        if len(self._to) < 2 or not (largest > 0 and np.isfinite(largest)):
            return None
        ends = np.array(self._to)
        errors = (ends - np.array(self._from)) * np.sqrt(size / largest)
        changes = np.diff(errors, axis=0)
        system = changes @ changes.T
        system.reshape(-1)[:: len(system) + 1] += _RIDGE * np.trace(system)
        if not (np.isfinite(system).all() and system.trace() > 0):
            return None
        try:
            weights = np.linalg.solve(system, changes @ errors[-1])
        except np.linalg.LinAlgError:
            return None
        logs = ends[-1] - weights @ np.diff(ends, axis=0)
        guess = np.exp(np.clip(logs, ends[-1] - _LEAP, ends[-1] + _LEAP))
        return np.where((new > 0) & (v > 0), guess, 0.0)


# -------------------------------------------------------------------- runs
def run_updates(
    problem: SplitProgram,
    settings: MultiplicativeUpdates | None = None,
    start: np.ndarray | None = None,
    *,
    tol: float = 1e-6,
    max_iter: int | None = None,
    log: RunLog | None = None,
) -> Outcome:
    """A run of the updates (Sha 2002, eq. 3; bounds and sum constraint as Sha 2007), and zeros for what has vanished at its end.

    Parameters
    ----------
    problem : SplitProgram
    settings : MultiplicativeUpdates, optional
    start : ndarray, shape (n,), optional
        Copied; used as it is apart from zeros (see ``clamp``). By default ones as in the source, shrunk into the box and to a
        zero sum, then scaled to the least objective.
    tol : float
        Gap, or without one optimality residual, at which the run stops; dimensionless.
    max_iter : int, optional
        Limit on steps; by default that of the settings.
    log : RunLog, optional
        With callback and limit on wall time.

    Returns
    -------
    Outcome
        With an :class:`UpdatesCertificate`; also after a KeyboardInterrupt. In the history, ``violation`` is the largest relative
        optimality residual. Where F has no lower bound the status is UNBOUNDED, ``certificate.dual`` is the direction and
        ``conflict`` its variables.
    """
    settings, log = settings or MultiplicativeUpdates(), log or RunLog()
    try:
        outcome = solve(problem, settings, tol=tol, max_iter=max_iter, start=start, log=log)
    except KeyboardInterrupt:  # in the very first pass
        take_interrupt()
        given = np.zeros(problem.split.n) if start is None else np.array(start, dtype=float)
        point = problem.at(np.clip(given, 0.0, problem.upper))
        state = UpdatesState(
            point=point, following=point.v, multiplier=0.0, miss=np.inf, objective=point.F, stalled=False
        )
        proof, reason = problem.certify(state), ExitReason.INTERRUPTED
        return Outcome(proof, proof.status(tol), reason, tol, 0, log.seconds(), log.history, settings.name)
    # what overflows is refused or reported, not warned about
    with np.errstate(all="ignore"):
        return replace(outcome, certificate=settings.clamped(problem, outcome.certificate, tol))
