"""The duality gap of a margin machine, computed in float64 wherever a value matters and bounded from float32 values elsewhere.

The gap is a sum of nonnegative contributions of the samples, not a difference of large numbers. With margins ``m = signs (f + b)``
and ``sum(x) = 0``, the primal minus the dual objective is

    hinge           sum (C_i - alpha_i) (1 - m_i)+  +  alpha_i (m_i - 1)+
    squared hinge   sum over m < 1 of (1 - m_i - r_i alpha_i)^2 / 2 r_i,  else r_i alpha_i^2 / 2 + alpha_i (m_i - 1)
    hard margin     sum alpha_i (m_i - 1) after dividing the machine by its smallest margin

A sample contributes nothing if alpha = 0 and m >= 1, or, for the hinge, if alpha = C_i and m <= 1. Values of such samples need not be
exact. For the hinge, too, the machine may be divided by its smallest margin if its weights stay within their bounds. Of the two
machines, the one with the smaller gap is returned.

The gap does not include a bound for the rounding of float64 (about 1e-15 of the sums). If C is so large that this rounding matters, an
estimate of it is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from bregmat.base.threads import cached_property
from bregmat.base.tolerances import TINY
from bregmat.engine.problem import Certificate
from bregmat.engine.status import Status
from bregmat.kernels.sources import FLOAT32_ROUNDOFF
from bregmat.margin.kernel_cache import RowCache
from bregmat.margin.problem import MarginProblem

ROUNDING_SHARE = 1e-7  # the estimate of rounding is added to the gap if it exceeds this share of the objective
CLOSED = 1e-10  # relative gap up to which no other machine is tried
SUM_ERROR = 8.0 * FLOAT32_ROUNDOFF  # relative rounding of a float32 weight, of four products and of their sum


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginCertificate(Certificate):
    """Objective of a machine and its dual bound."""

    distance: float  # objective - dual_bound as the sum of the contributions of the samples; inf if there is no machine
    intercept: float  # to which the objective belongs
    decision: np.ndarray  # (n,) K x, without the intercept
    margin_bound: float = np.nan  # if the classes cannot be separated: no margin is larger than this
    is_finite: bool = True  # whether there is a machine; for a hard margin, one without errors

    def __post_init__(self) -> None:
        unit = abs(self.objective)
        vars(self).update(unit=unit, gap=self.distance / unit if np.isfinite(self.distance) else np.inf)

    def status(self, tol: float) -> Status:
        """OPTIMAL if the gap is at most ``tol``, else FEASIBLE for every machine and UNKNOWN without a machine."""
        if super().status(tol) is Status.OPTIMAL:
            return Status.OPTIMAL
        return Status.FEASIBLE if self.is_finite else Status.UNKNOWN


@dataclass(eq=False)
class Machine:
    """Signed weights x (n,) with values ``f = K x`` at all samples, from which a certificate is computed."""

    problem: MarginProblem
    x: np.ndarray
    f: np.ndarray
    error: np.ndarray  # bound of the error of f: 0 for values that were computed in float64
    intercept: float = 0.0  # a first guess; `certify` replaces it by the best one
    violation: float = 0.0  # of the optimality conditions, in units of the margin
    # samples that count and whose values are known in float64, after `certify`
    known: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def from_float32(cls, problem: MarginProblem, x: np.ndarray, cache: RowCache) -> Self:
        """Values ``K x`` from float32 rows, with a proven bound of their error; exact ones if the kernel has been formed."""
        if problem.kernel.formed is not None:
            return cls(problem, x, problem.kernel.formed @ x, np.zeros(problem.n))
        plus, minus = np.zeros(problem.n), np.zeros(problem.n)
        for part, rows in ((plus, np.flatnonzero(x > 0)), (minus, np.flatnonzero(x < 0))):
            cache.add(part, rows, x[rows])
        # |f - K x|_i <= sum_j |x_j| |K_ij| (relative error of the entry + rounding of the sum). For a nonnegative kernel the
        # sum of absolute values is plus - minus; otherwise |K_ij| <= sqrt(K_ii K_jj).
        if problem.kernel.nonnegative:
            absolute = plus - minus
        else:
            absolute = problem.lengths * float(np.abs(x) @ problem.lengths)
        return cls(problem, x, plus + minus, 1.01 * (problem.kernel.fill_error() + SUM_ERROR) * absolute + TINY)

    def compute_exactly(self, rows: np.ndarray) -> None:
        """Compute the values at ``rows`` in float64."""
        rows = rows[self.error[rows] > 0]
        if len(rows) == 0:
            return
        x, kernel, support = self.x, self.problem.kernel, np.flatnonzero(self.x)
        # Sums between support vectors use every kernel value twice, so they are computed together.
        if 2 * len(np.intersect1d(rows, support, assume_unique=True)) > len(support):
            self.f[support] = kernel.sums(support, support, x[support])
            self.error[support] = 0.0
            rows = rows[self.error[rows] > 0]
        if len(rows):
            self.f[rows] = kernel.sums(rows, support, x[support])
            self.error[rows] = 0.0

    def unproven(self, dual_bound: float, *, margin_bound: float = np.nan, is_finite: bool = True) -> MarginCertificate:
        """A certificate of the dual value alone."""
        is_finite = is_finite and self.problem.loss != "hard"  # a hard margin does not allow errors
        return self._proven(np.inf, dual_bound, np.inf, margin_bound=margin_bound, is_finite=is_finite)

    # ---------------------------------------------------------------- values and intercept
    def certify(self) -> MarginCertificate:
        """Compute the gap: values that matter in float64, the best intercept, then the sum of the contributions."""
        self.compute_exactly(np.flatnonzero(self.x))
        # Other samples matter only within the margin. The best intercept for the known samples may move others into it.
        while True:  # at the latest until all values are known
            self.compute_exactly(self._possibly_within_margin())
            self.known = np.flatnonzero((self.error == 0) & self.problem.counts)
            self.intercept = self._best_intercept() if self.problem.intercept else 0.0
            if not len(self._possibly_within_margin()):
                return self._gap()

    def _possibly_within_margin(self) -> np.ndarray:
        """Samples with inexact values that may lie within the margin: 1, or for the hard margin the smallest known one."""
        if not self.error.any():
            return np.empty(0, dtype=np.int64)
        counts, margins, limit = self.problem.counts, self.problem.signs * (self.f + self.intercept), 1.0
        if self.problem.loss == "hard":
            limit = float(np.min(margins, initial=np.inf, where=(self.error == 0) & counts))
        return np.flatnonzero((self.error > 0) & counts & (margins - self.error < limit))

    def _best_intercept(self) -> float:
        """Minimise the primal objective over b for the known samples, given ``f``."""
        problem, rows = self.problem, self.known
        if problem.loss == "hard":
            return self._middle()
        y = problem.signs[rows]
        bend = y - self.f[rows]  # intercept at which the margin of the sample is 1
        order = np.argsort(bend, kind="stable")
        bend = bend[order]
        if problem.loss == "hinge":
            # Slope at b: -(sum of C of positive samples) + (sum of C of all samples with bend < b). Its root is a weighted quantile.
            C = problem.upper[rows][order]
            k = int(np.searchsorted(np.cumsum(C), float(problem.upper[rows][y > 0].sum()) * (1 - 1e-15)))
            return float(bend[min(k, len(bend) - 1)])
        # Squared hinge: slope at b = sum of (b - bend) / r over positives with bend > b and negatives with bend < b.
        C = 1.0 / problem.ridge[rows][order]
        plus = y[order] > 0
        above, below = np.where(plus, C, 0.0), np.where(plus, 0.0, C)
        weight = np.cumsum(below) + above.sum() - np.cumsum(above)
        moment = np.cumsum(below * bend) + (above * bend).sum() - np.cumsum(above * bend)
        slope = weight * bend - moment
        # The root lies between bend k - 1 and bend k, where the sums are those of k - 1.
        k = int(np.searchsorted(slope > 0, True))
        return float(moment[k - 1] / weight[k - 1]) if k > 0 else float(bend[0])

    def _middle(self) -> float:
        """The intercept that maximises the smallest margin."""
        y, f = self.problem.signs[self.known], self.f[self.known]
        plus, minus = f[y > 0], f[y < 0]
        return -0.5 * float(plus.min() + minus.max()) if len(plus) and len(minus) else 0.0

    # ---------------------------------------------------------------- the gap
    def _gap(self) -> MarginCertificate:
        """The certificate of the machine, or of the machine divided by its smallest margin if that has the smaller gap."""
        problem, x, known = self.problem, self.x, self.known
        alpha, q = np.abs(x[known]), float(x[known] @ self.f[known])
        lost = self.imbalance_loss()
        largest = float(alpha @ problem.lengths[known]) ** 2
        # x'Kx below 0 by more than rounding: the kernel is not positive semidefinite, or has NaN, and weights prove no bound
        if not q >= -1e-12 * largest:
            return self.unproven(-np.inf)
        q = max(q, 0.0)
        quadratic = 0.5 * (q + float(problem.ridge[known] @ alpha**2))
        nothing = self.unproven(float(alpha.sum()) - quadratic - lost - 1e-15 * largest)  # the last: rounding of x'Kx
        if problem.loss == "hard":
            divided_sums = self._without_slack(q, self.intercept)
            return nothing if divided_sums is None else self._proven(*divided_sums)
        primal, dual, distance, noise = self._sums_with_slack(q)
        distance -= self.intercept * float(x.sum())  # 0 up to rounding
        distance, dual = max(distance, 0.0) + lost, dual - lost
        if not primal > 0:
            return nothing
        distance += noise if noise > ROUNDING_SHARE * primal else 0.0
        # the distance does not contain the rounding of the slack, which is multiplied by C; the divided machine has no slack
        if problem.loss == "hinge" and distance + 1e3 * noise > CLOSED * primal:
            middle = self._middle() if problem.intercept else 0.0
            better = self._without_slack(q, middle, self.rounding(self.intercept)[1])
            if better is not None and better[2] * primal < distance * abs(better[0]):
                self.intercept = middle
                return self._proven(*better)
        return self._proven(primal, dual, distance)

    def _sums_with_slack(self, q: float) -> tuple[float, float, float, float]:
        """Primal and dual objective with ``q = x'Kx``, their distance, and an estimate of the rounding of the primal objective.

        The rounding is that of the slack of samples on the margin, which is multiplied by C.
        """
        problem, known = self.problem, self.known
        alpha, m = np.abs(self.x[known]), problem.signs[known] * (self.f[known] + self.intercept)
        slack, beyond = np.maximum(1.0 - m, 0.0), np.maximum(m - 1.0, 0.0)
        dual, (typical, largest) = float(alpha.sum()) - 0.5 * q, self.rounding(self.intercept)
        if problem.loss == "hinge":
            C = problem.upper[known]
            noise = typical * float(C[(alpha > 0) & (np.abs(m - 1.0) <= largest)].sum())
            return 0.5 * q + float(C @ slack), dual, float((C - alpha) @ slack + alpha @ beyond), noise
        r = problem.ridge[known]
        deviation = slack - r * alpha  # 0 at the optimum
        distance = float(np.where(m < 1, deviation**2 / (2 * r), 0.5 * r * alpha**2 + alpha * beyond).sum())
        noise = typical * float(((np.abs(deviation) + 0.5 * typical) / r)[alpha > 0].sum())
        return 0.5 * q + float((slack**2 / (2 * r)).sum()), dual - 0.5 * float(r @ alpha**2), distance, noise

    def _without_slack(self, q: float, b: float, rounding: float = 0.0) -> tuple[float, float, float, float] | None:
        """Primal and dual objective, their distance and the factor of the machine divided by its smallest margin, up to rounding.

        b is the intercept before the division. None if there is no such machine within the bounds.
        """
        problem, x, known = self.problem, self.x, self.known
        margins = problem.signs * (self.f + b)
        alpha, m = np.abs(x[known]), margins[known]
        least = float(np.min(margins - self.error, initial=np.inf, where=problem.counts))
        # A margin that is no larger than the rounding of its terms is no margin.
        if not (least > 4.0 * self.rounding(b)[1] and q > 0):
            return None
        delta = rounding / least
        scale = (1.0 + delta) / least
        if problem.loss == "hinge" and not (scale * alpha <= problem.upper[known]).all():
            return None
        d = max(float(alpha @ (m - least)) - b * float(x.sum()), 0.0)
        lost = self.imbalance_loss(scale)
        primal, distance = 0.5 * scale**2 * q, scale * (delta * q + d) / least + lost
        if not np.isfinite(primal):
            return None
        return primal, scale * float(problem.signs[known] @ x[known]) - primal - lost, distance, scale

    def _proven(
        self, primal: float, dual: float, distance: float, scale: float = 1.0, **more: Any
    ) -> MarginCertificate:
        """The certificate of the machine times ``scale``."""
        return MarginCertificate(
            dual=np.abs(self.x) * scale,
            objective=primal,
            upper=primal,
            dual_bound=dual,
            distance=distance,
            intercept=self.intercept * scale,
            max_violation=self.violation,
            decision=self.f * scale,
            **more,
        )

    # ---------------------------------------------------------------- rounding
    def rounding(self, b: float) -> tuple[float, float]:
        """Typical and largest rounding of a decision value in float64 with intercept b; typically errors add up like random numbers."""
        typical, largest = self._sizes
        return 3e-16 * (typical + abs(b)), 1e-15 * (largest + abs(b))

    @cached_property
    def _sizes(self) -> tuple[float, float]:
        """Upper bounds of the Euclidean norm and of the sum of the terms ``|x_j K_ij|`` of every decision value."""
        terms, top = np.abs(self.x) * self.problem.lengths, float(self.problem.lengths.max())
        return float(np.sqrt(terms @ terms)) * top, float(terms.sum()) * top

    def imbalance_loss(self, scale: float = 1.0) -> float:
        """By how much the dual value of the weights times ``scale`` falls if their sum is made 0.

        With an intercept, weights prove a bound only if ``sum(x) = 0``. Rounding leaves a small sum, by which the weights of the heavier
        class have to be reduced.
        """
        total = math.fsum(self.x[self.x != 0]) if self.problem.intercept else 0.0
        rows, excess = np.flatnonzero(self.x * total > 0), abs(total)
        share = excess / float(np.abs(self.x[rows]).sum()) if total else 0.0
        size = share * scale * float(np.abs(self.x[rows]) @ self.problem.lengths[rows])
        return max(scale * (excess - scale * share * float(self.x[rows] @ self.f[rows])) + 0.5 * size**2, 0.0)
