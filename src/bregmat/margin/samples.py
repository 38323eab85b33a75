"""Proofs that single samples are, or are not, support vectors of every optimal machine, with bounds for all rounding.

An optimal machine w* satisfies ``|w - w*|^2 / 2 <= distance`` for the duality gap ``distance`` of w, so its values satisfy
``|f - f*|_i <= sqrt(2 distance K_ii)`` (Ndiaye, Fercoq, Gramfort and Salmon 2017). Its intercept lies where the contributions of the
samples to the gap, each as small as these balls allow, do not exceed the distance. A margin above 1 for all such values and
intercepts proves alpha = 0; a margin below 1 proves alpha > 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat.base.tolerances import TINY
from bregmat.kernels.sources import DOUBLE
from bregmat.margin.problem import MarginProblem

CLOSED = 1e-10  # relative gap up to which no other machine is tried


def certified_samples(machine: Any, entry: float) -> tuple[np.ndarray, np.ndarray]:
    """Samples whose role in every optimal machine is proven, and those proven to be support vectors; bool of shape (n,).

    The values of the machine that matter are known in float64. ``entry`` is the ``block_error`` of its kernel.
    """
    problem, counts = machine.problem, machine.problem.counts
    off, share = _value_errors(machine, entry)
    on: Any = slice(None) if counts.all() else counts
    m, e, size = (problem.signs * (machine.f + machine.intercept))[on], off[on], np.abs(machine.x)[on]
    # Candidates: the machine itself, and the machine divided by its smallest margin if no weight leaves its bound.
    least = float((m - e).min()) * (1 - 4 * DOUBLE)
    distance, scale = np.inf, least
    if problem.loss != "hard":
        contributions, scale = _Contributions(problem, on, size, share), 1.0
        distance = contributions.largest_sum(m, e)
    is_open = distance > CLOSED * float(size.sum())
    if is_open and 0 < least < np.inf and (size <= (1 - 4 * DOUBLE) * least * problem.upper[on]).all():
        divided = _Contributions(problem, on, size / least, share)
        larger, distance = distance, min(distance, divided.largest_sum(m / least, e / least))
        if distance < larger:
            contributions, scale = divided, least
    if not distance < np.inf:
        return ~counts, np.zeros(problem.n, dtype=bool)
    radius = float(np.sqrt(2.0 * distance)) * (1 + 1e-12)
    lengths = problem.lengths * (1.0 + entry)
    f, ball = machine.f / scale, (radius * lengths + off / scale) * (1 + 1e-12)
    low = high = machine.intercept / scale
    if problem.intercept:
        low, high = contributions.intercepts(f[on], ball[on], low, distance)
    ball += 4.0 * DOUBLE * (1.0 + np.abs(f) + max(abs(low), abs(high)) + ball)
    plus = problem.signs > 0
    smallest, largest = np.where(plus, f + low, -f - high) - ball, np.where(plus, f + high, -f - low) + ball
    support = (largest < 1.0) & counts
    return support | (smallest > 1.0) | ~counts, support


def _value_errors(machine: Any, entry: float) -> tuple[np.ndarray, float]:
    """Bounds of the errors of the margins, shape (n,), and the share by which the weights of a class are reduced to balance both.

    Beside ``error``, float64 rounds: ``|f - K x|_i <= sum_j |x_j| |K_ij|`` times the errors of an entry and of a sum, with
    ``|K_ij| <= sqrt(K_ii K_jj)``. Reducing the weights moves the machine by at most the largest norm times the reduction.
    """
    problem, size = machine.problem, np.abs(machine.x)
    lengths, own = problem.lengths * (1.0 + entry), problem.ridge * size
    unit = entry + (np.count_nonzero(size) + 8) * 2.0 * DOUBLE
    excess, _, share = machine.imbalance
    off = unit * (lengths * float(size @ lengths) + 2.0 * own) + lengths * (excess * float(lengths.max()))
    off += 8.0 * DOUBLE * (np.abs(machine.f) + abs(machine.intercept)) + (8.0 * DOUBLE + share) * own
    return machine.error + 1.01 * off + TINY, share


class _Contributions:
    """Contributions of the samples that count to the duality gap, as convex functions of their margins; sums include rounding.

    ``alpha`` are the weights of these samples, ``on`` is their index; ``share`` is the share by which the weights of one class are reduced.
    """

    def __init__(self, problem: MarginProblem, on: Any, alpha: np.ndarray, share: float) -> None:
        self.loss, self.y, self.alpha, self.share = problem.loss, problem.signs[on], alpha, share
        self.ridge = problem.ridge[on]
        # slope for margins below the best one; of the squared hinge only its sign matters
        self.below = problem.upper[on] - alpha if problem.loss == "hinge" else self.ridge
        self.best = 1.0 - self.ridge * alpha  # margin at which a contribution is 0
        self.rounds = 1.0 + 2.0 * DOUBLE * (len(alpha) + 16)  # relative rounding of sums of nonnegative numbers

    def largest_sum(self, m: np.ndarray, e: np.ndarray) -> float:
        """The largest sum for margins within ``e`` of ``m``."""
        # a convex function is largest at an end of an interval
        parts = np.maximum(*(self._parts(v, self.alpha)[0] for v in (m - e, m + e)))
        lost = self.share * self.alpha * (np.abs(m - 1.0) + e)
        return float((parts + lost).sum()) * self.rounds

    def _parts(self, m: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Contributions at margins m and their derivatives; ``alpha`` is the slope for margins above 1."""
        if self.loss == "squared_hinge":
            # from the margin 1 - r_i alpha_i, at which the contribution is 0
            deviation = 1.0 - m - self.ridge * self.alpha
            inside = deviation**2 / (2 * self.ridge), -deviation / self.ridge
            outside = 0.5 * self.ridge * alpha**2 + alpha * np.maximum(m - 1.0, 0.0), alpha
            return np.where(m < 1.0, inside[0], outside[0]), np.where(m < 1.0, inside[1], outside[1])
        slope = np.where(m > 1.0, alpha, -self.below)
        return slope * (m - 1.0), slope

    def _smallest_sum(self, f: np.ndarray, ball: np.ndarray, t: float) -> tuple[float, float]:
        """The smallest sum at intercept t for values within ``ball`` of ``f``, and its derivative in t."""
        m, reach = self.y * (f + t), ball + 4.0 * DOUBLE * (1.0 + np.abs(f) + abs(t) + ball)
        nearest = np.minimum(np.maximum(self.best, m - reach), m + reach)
        value, slope = self._parts(nearest, self.alpha * (1.0 - self.share))
        return float(value.sum()), float((self.y * slope) @ (nearest != self.best))

    def intercepts(self, f: np.ndarray, ball: np.ndarray, b: float, distance: float) -> tuple[float, float]:
        """An interval that contains every optimal intercept.

        f are the values, ``ball`` bounds of their distance from the optimal ones, b an intercept near the optimal ones, and
        ``distance`` the largest sum that an optimal machine may have.
        """
        if self.loss == "hard":
            plus, ball = self.y > 0, ball + 4.0 * DOUBLE * (1.0 + np.abs(f) + ball)
            low = float(np.max((1.0 - f - ball)[plus], initial=-np.inf))
            return low, float(np.min((ball - 1.0 - f)[~plus], initial=np.inf))
        limit = distance * self.rounds * (1 + 1e-12 + 4.0 * self.share) + TINY
        ends = [self._end(f, ball, b, limit, way) for way in (-1.0, 1.0)]
        return (ends[0], ends[1]) if np.isfinite(ends).all() else (-np.inf, np.inf)

    def _end(self, f: np.ndarray, ball: np.ndarray, b: float, limit: float, way: float) -> float:
        """An intercept on one side of b at which the smallest sum exceeds the limit, by little; infinite if none was found."""
        # distance from b at which the first contribution becomes positive: before it, the sum is 0
        own = way * self.y
        first = np.min(
            own * self.best - way * (f + b) + ball, initial=np.inf, where=np.where(own > 0, self.alpha, self.below) > 0
        )
        near = 1.02 * max(float(first), 0.0) + 1e-12 * (1.0 + abs(b))
        step = near
        for _ in range(200):
            t = b + way * step
            value, slope = self._smallest_sum(f, ball, t)
            if value > limit:
                break
            step *= 4.0
        else:
            return way * np.inf
        # The sum is convex in t, so every t with a larger sum is a valid end. Newton's method or bisection moves it nearer to b.
        inside = b
        for _ in range(8):
            if value <= 1.5 * limit or (t - b) * way <= near:
                break
            nearer = t - (value - 1.2 * limit) / slope if slope * way > 0 else inside
            if not 0 < (nearer - inside) * way < (t - inside) * way:
                nearer = 0.5 * (t + inside)
            there = self._smallest_sum(f, ball, nearer)
            if there[0] > limit:
                t, (value, slope) = nearer, there
            else:
                inside = nearer
        return t
