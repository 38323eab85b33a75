"""One run of the multiplicative updates: start, steps, acceleration, what ends it, and what is clamped at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bregmat.quadratic.extrapolation import Extrapolation
from bregmat.quadratic.splits import Split
from bregmat.quadratic.updates import (
    balanced_step,
    gradient,
    objective,
    spread,
    step,
    violation,
    waiting_place,
)
from bregmat.result import ExitReason, Record

_TINY = float(np.finfo(float).tiny)
_EPS = float(np.finfo(float).eps)


@dataclass(eq=False)
class Point:
    """A point with its pass over the matrix and its objective."""

    v: np.ndarray
    p: np.ndarray
    q: np.ndarray
    F: float


@dataclass(eq=False)
class UpdatesRun:
    """One problem, what is known of it, and the bookkeeping of a run; names as in :func:`run_updates`."""

    split: Split
    b: np.ndarray
    upper: np.ndarray
    signs: np.ndarray | None
    anderson: int
    clamp: float
    tol: float
    max_seconds: float | None
    callback: Callable[[Record], Any] | None
    certify: Callable[[np.ndarray, np.ndarray, np.ndarray], float] | None
    history: list[Record] = field(default_factory=list)
    n_passes: int = 0
    multiplier: float = 0.0
    total: float = 0.0
    gap: float = np.nan
    miss: float = np.inf
    unbounded_row: int | None = None

    def __post_init__(self) -> None:
        self.clock = time.perf_counter()
        self.diagonal = np.maximum(self.split.diagonal(), 0.0)
        self.unit = float(np.abs(self.b).max(initial=0.0)) or 1.0
        self.length = np.sqrt(self.diagonal)
        # what counts as zero where everything vanishes: next to the minima along single variables, b_i / A_ii
        with np.errstate(all="ignore"):
            alone = np.where(self.diagonal > 0, np.abs(self.b) / self.diagonal, 0.0)
        self.least = _EPS * float((alone * self.length).max(initial=0.0))
        self.least_alone = _EPS * float(alone.max(initial=0.0))

    def go(self, x0: np.ndarray | None, max_iter: int) -> tuple[Point, ExitReason]:
        """Steps until something ends the run."""
        point: Point | None = None
        iteration = 0
        try:
            point = self.start(x0)
            self.unbounded_row = self.falls_forever()
            memory = Extrapolation(self.anderson, self.length) if self.anderson else None
            while True:
                new = self.following(point)
                reason = self.ended(point, new, iteration, max_iter)
                if reason is not None:
                    return point, reason
                reached = self.extrapolated(memory, point, new) or self.at(new)
                iteration += 1
                if not np.isfinite(reached.F):
                    return point, ExitReason.NONFINITE
                point = reached
        except KeyboardInterrupt:
            if point is None:  # interrupted in the very first pass
                given = np.zeros(self.split.n) if x0 is None else np.array(x0, dtype=float)
                point = self.at(np.clip(given, 0.0, self.upper))
            return point, ExitReason.INTERRUPTED

    def at(self, v: np.ndarray) -> Point:
        """One pass over the matrix."""
        p, q = self.split.positive_negative(v)
        self.n_passes += 1
        return Point(v, p, q, objective(v, self.b, positive=p, negative=q))

    def slope(self, point: Point) -> np.ndarray:
        """Gradient, with the multiplier's part."""
        g = gradient(self.b, positive=point.p, negative=point.q)
        return g if self.signs is None else g + self.multiplier * self.signs

    def start(self, x0: np.ndarray | None) -> Point:
        """The first point: the caller's, lifted off zero, or ones along which the objective is least."""
        if self.signs is not None:
            able = self.upper > 0
            found = np.unique(self.signs[able])
            if len(found) == 1:  # should the total be zero, nothing can move, and this multiplier proves it
                self.multiplier = float(found[0] * np.max(-self.b[able]))
        if x0 is not None and (self.clamp == 0 or np.any(x0)):
            v = np.clip(np.array(x0, dtype=float), 0.0, self.upper)
            self.total = 0.0 if self.signs is None else float(self.signs @ v)
            lifted = np.where(v == 0, np.minimum(self.vanishing(v), self.upper), v)
            return self.at(self.on_constraint(lifted))
        v = np.minimum(1.0, 0.5 * self.upper)
        if self.signs is not None:
            sides = [self.signs > 0, self.signs < 0]
            sums = [float(v[side].sum()) for side in sides]
            for side, own in zip(sides, sums):
                v[side] *= min(sums) / own if own > 0 else 0.0
        point = self.at(v)
        slope, curve = float(self.b @ v), float(v @ (point.p - point.q))
        room = float(np.where(v > 0, self.upper / v, np.inf).min(initial=np.inf))
        # where the ray rises, at least the size is made right
        t = min((abs(slope) if slope < 0 else float(np.abs(self.b) @ v)) / curve, room) if curve > 0 else 1.0
        if not (np.isfinite(t) and t > 0):
            return point
        return Point(t * v, t * point.p, t * point.q, t * slope + 0.5 * t * (t * curve))

    def vanishing(self, v: np.ndarray) -> np.ndarray:
        """How large a variable is that waits instead of vanishing, shape (n,)."""
        floor = max(float((v * self.length).max(initial=0.0)), self.least) / self.length
        return self.clamp * np.where(self.length > 0, floor, max(float(v.max(initial=0.0)), self.least_alone))

    def settled(self, v: np.ndarray) -> np.ndarray:
        """``v`` with what waits at zero put there, and what rounding keeps below its bound put on it."""
        return np.where(v <= 2.0 * self.vanishing(v), 0.0, np.where(v >= self.upper * (1.0 - 1e-12), self.upper, v))

    def on_constraint(self, v: np.ndarray, movable: np.ndarray | None = None) -> np.ndarray:
        """``v`` with the sum that the run keeps, by factors for the ``movable`` entries (all)."""
        if self.signs is None:
            return v
        chosen = np.ones(len(v), dtype=bool) if movable is None else movable
        rest = self.total - float(self.signs[~chosen] @ v[~chosen])
        out = v.copy()
        out[chosen] = spread(v[chosen], signs=self.signs[chosen], total=rest, upper=self.upper[chosen])
        return out

    def keeps_total(self, v: np.ndarray) -> bool:
        """Whether the sum constraint is met to rounding."""
        return self.signs is None or bool(abs(self.signs @ v - self.total) <= 64.0 * _EPS * float(v.sum()))

    def falls_forever(self) -> int | None:
        """A variable that only the linear term holds, and that it does not hold."""
        free = (self.diagonal == 0) & np.isinf(self.upper)
        if self.signs is None:
            rows = np.flatnonzero(free & (self.b < 0))
            return int(rows[0]) if len(rows) else None
        sides = [np.flatnonzero(free & (self.signs == s)) for s in (1, -1)]
        if not all(len(rows) for rows in sides):
            return None
        i, j = (int(rows[np.argmin(self.b[rows])]) for rows in sides)
        return min((i, j), key=lambda k: self.b[k]) if self.b[i] + self.b[j] < 0 else None

    def following(self, point: Point) -> np.ndarray:
        """The plain update, with the multiplier found on the way."""
        v, signs = point.v, self.signs
        positive, negative = np.maximum(point.p, np.where(self.diagonal > 0, _TINY, 0.0)), point.q
        if signs is not None and not self.diagonal.all():
            # A + D - D is a split too: without it, a row of zeros would jump to zero or infinity and stay there
            extra = np.where(self.diagonal == 0, (self.unit + abs(self.multiplier)) * v / (v.max() or 1.0), 0.0)
            positive, negative = positive + extra, negative + extra
        lower = waiting_place(v, self.slope(point) - self.diagonal * v, self.vanishing(v))
        parts = {"positive": positive, "negative": negative, "lower": lower, "upper": self.upper}
        if signs is None:
            return step(v, self.b, **parts)
        new, self.multiplier = balanced_step(
            v, self.b, signs=signs, total=self.total, multiplier=self.multiplier, **parts
        )
        return new

    def extrapolated(self, memory: Extrapolation | None, point: Point, new: np.ndarray) -> Point | None:
        """Anderson's point if the objective does not rise there."""
        guess = None if memory is None else memory.propose(point.v, new)
        if guess is None or memory is None:
            return None
        # a bound that the plain update meets is kept; what waits at zero is not sent further down
        inside = new < self.upper
        guess = np.maximum(guess, np.minimum(new, self.vanishing(new)))
        guess = np.where(inside, np.minimum(guess, self.upper), self.upper)
        if self.signs is not None:
            guess = self.on_constraint(guess, inside)
            if not self.keeps_total(guess):
                return None
        found = self.at(guess)
        if found.F <= point.F and np.isfinite(found.F):
            return found
        memory.forget()
        return None

    def ended(self, point: Point, new: np.ndarray, iteration: int, max_iter: int) -> ExitReason | None:
        """Record the point; why the run ends there, if it does."""
        scale = point.p + point.q + np.abs(self.b) + (0.0 if self.signs is None else abs(self.multiplier))
        self.miss = violation(
            self.settled(point.v), self.slope(point), diagonal=self.diagonal, upper=self.upper, scale=scale
        )
        if self.certify is not None:
            self.gap = float(self.certify(point.v, point.p, point.q))
        seconds = time.perf_counter() - self.clock
        row = Record(iteration, seconds, point.F, np.nan, self.gap, self.miss)
        self.history.append(row)
        if self.callback is not None and self.callback(row):
            return ExitReason.INTERRUPTED
        if self.unbounded_row is not None:
            return ExitReason.CERTIFICATE
        if not (np.isfinite(point.F) and np.isfinite(new).all()):
            return ExitReason.NONFINITE
        if (self.miss if self.certify is None else self.gap) <= self.tol:
            return ExitReason.TOLERANCE
        if iteration >= max_iter:
            return ExitReason.MAX_ITER
        if np.array_equal(new, point.v):
            return ExitReason.STALLED
        return ExitReason.TIME if self.max_seconds is not None and seconds > self.max_seconds else None

    def clamped(self, point: Point) -> Point:
        """``point`` with zeros for what has vanished (footnote 2), if objective and gap agree."""
        slope = self.slope(point)
        gone = (point.v > 0) & (point.v <= 2.0 * self.vanishing(point.v)) & (slope - self.diagonal * point.v >= 0)
        if not gone.any() or not np.isfinite(point.F):
            return point
        v = self.on_constraint(np.where(gone, 0.0, point.v))
        if not self.keeps_total(v):
            return point
        found = self.at(v)
        rise = found.F - point.F
        if not rise <= 4.0 * _EPS * abs(point.F):
            return point
        if self.certify is not None:
            gap = float(self.certify(found.v, found.p, found.q))
            if not gap <= max(self.gap, self.tol):
                return point
            self.gap = gap
        return found
