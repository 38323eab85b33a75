"""The duality gap of a margin machine, rigorous: float64 wherever a value matters, a proven float32 bound where it does not.

Written without differences of large numbers. With margins ``m = signs (f + b)`` and ``sum(x) = 0``, primal minus dual is

    hinge           sum (C_i - alpha_i) (1 - m_i)+  +  alpha_i (m_i - 1)+
    squared hinge   sum over m < 1 of (1 - m_i - r_i alpha_i)^2 / 2 r_i,  else r_i alpha_i^2 / 2 + alpha_i (m_i - 1)
    hard margin     d for the machine divided by its smallest margin, d = sum alpha_i (m_i - 1) once that is 1

so a sample contributes nothing if it has alpha 0 and m >= 1, or, under the hinge, alpha = C_i and m <= 1. Under the hinge, too,
the machine may be divided by its smallest margin if its weights stay within their bounds; it is then returned that way. In the gap,
rounding of float64 (about 1e-15 of the sums) is not bounded; where C makes it dear, an estimate is added. What is said of single
samples is proven with that rounding (:meth:`Machine._certified`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bregmat.certificates.problem import Certificate
from bregmat.certificates.status import Status
from bregmat.kernels.sources import DOUBLE, UNIT
from bregmat.margin.kernel_cache import RowCache
from bregmat.margin.problem import MarginProblem

NOTICED = 1e-7  # share of the objective that the price of rounding must have to count against a machine
SUMMED = 8.0 * UNIT  # rounding of a weight, of four products and of their sum in float32, relative to the absolute sum


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginCertificate(Certificate):
    """Objective of a machine and its dual bound, and what is proven of each sample.

    Attributes
    ----------
    distance : float
        ``objective - dual_bound`` as a sum of what each sample leaves, without cancellation; inf where there is no machine to speak of.
    intercept : float
        The one that the objective holds for.
    certified, support : ndarray of shape (n,), bool
        Where a sample's part is proven, and where it is that of a support vector.
    decision : ndarray of shape (n,)
        Values ``K x``, without the intercept.
    margin_bound : float
        Where the classes cannot be separated: no margin is larger than this.
    is_finite : bool
        Whether there is a machine; where errors have no price, one that makes none.
    """

    distance: float
    intercept: float
    certified: np.ndarray
    support: np.ndarray
    decision: np.ndarray
    margin_bound: float = np.nan
    is_finite: bool = True

    @property
    def unit(self) -> float:
        """The objective itself."""
        return abs(self.objective)

    @property
    def gap(self) -> float:
        """``distance / unit``."""
        return self.distance / self.unit if np.isfinite(self.distance) else np.inf

    def status(self, tol: float) -> Status:
        """Where errors have a price, every finite machine is allowed."""
        if self.proves(tol):
            return Status.OPTIMAL
        return Status.FEASIBLE if self.is_finite else Status.UNKNOWN

    def joined(self, new: Self) -> Self:
        """The later one, which is the exact one or the nearer."""
        return new


@dataclass(eq=False)
class Machine:
    """Signed weights with their values at all samples, and what they prove.

    Attributes
    ----------
    problem : MarginProblem
    x : ndarray of shape (n,)
        Signed weights.
    f : ndarray of shape (n,)
        ``K x``.
    error : ndarray of shape (n,)
        What f may be off by: 0 where it was computed in float64.
    intercept : float
        A first guess, and the best one once the machine has been certified.
    known : ndarray of int
        Counted samples whose values are of float64, as far as a certificate has seen to that.
    """

    problem: MarginProblem
    x: np.ndarray
    f: np.ndarray
    error: np.ndarray
    intercept: float = 0.0
    known: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @classmethod
    def rough(cls, problem: MarginProblem, x: np.ndarray, cache: RowCache) -> Self:
        """``K x`` from float32 rows, and the proven bound of its error."""
        plus, minus = np.zeros(problem.n), np.zeros(problem.n)
        for part, rows in ((plus, np.flatnonzero(x > 0)), (minus, np.flatnonzero(x < 0))):
            cache.add(part, rows, x[rows])
        # |f - K x| <= sum_j |x_j| |K_ij| (relative error of the entry + rounding of the sum); for a nonnegative kernel the
        # absolute sum is at hand, else |K_ij| <= sqrt(K_ii K_jj).
        if problem.kernel.nonnegative:
            absolute = plus - minus
        else:
            absolute = problem.lengths * float(np.abs(x) @ problem.lengths)
        return cls(problem, x, plus + minus, 1.01 * (problem.kernel.fill_error() + SUMMED) * absolute + 1e-300)

    def sharpen(self, rows: np.ndarray) -> None:
        """Values at ``rows`` in float64."""
        x, kernel, support = self.x, self.problem.kernel, np.flatnonzero(self.x)
        rows = rows[self.error[rows] > 0]
        if len(rows) == 0:
            return
        # Rows that are support vectors themselves share their block with its transpose.
        if 2 * len(np.intersect1d(rows, support, assume_unique=True)) > len(support):
            self.f[support] = kernel.sums(support, support, x[support])
            self.error[support] = 0.0
            rows = rows[self.error[rows] > 0]
        if len(rows):
            self.f[rows] = kernel.sums(rows, support, x[support])
            self.error[rows] = 0.0

    def unproven(self, dual_bound: float, **known: Any) -> MarginCertificate:
        """A dual value alone, and what else is known."""
        nothing, counts = np.zeros(self.problem.n, dtype=bool), self.problem.counts
        known = {"objective": np.inf, "upper": np.inf, "distance": np.inf, "intercept": self.intercept} | known
        known = {"dual": np.abs(self.x), "decision": self.f, "certified": ~counts, "support": nothing} | known
        if self.problem.loss == "hard" and not np.isfinite(known["objective"]):
            known["is_finite"] = False  # errors are not allowed, and this machine makes some
        return MarginCertificate(dual_bound=dual_bound, **known)

    def certify(self) -> MarginCertificate:
        """The gap; values are sharpened where that decides, and the intercept becomes the best one."""
        problem, counts = self.problem, self.problem.counts
        self.sharpen(np.flatnonzero(self.x))
        # A counted sample without weight that could lie within the margin is looked at in float64; the best intercept for
        # those may move others there.
        for _ in range(20):
            self.sharpen(self._unsure())
            self.known = np.flatnonzero((self.error == 0) & counts)
            self.intercept = self._best_intercept() if problem.intercept else 0.0
            if not len(self._unsure()):
                break
        else:
            self.known = np.flatnonzero(counts)
            self.sharpen(self.known)
            self.intercept = self._best_intercept() if problem.intercept else 0.0
        return self._gap()

    def _unsure(self) -> np.ndarray:
        """Other counted samples that may lie within the margin: 1, or for the hard margin the smallest one found."""
        counts, margins, reach = self.problem.counts, self.problem.signs * (self.f + self.intercept), 1.0
        if self.problem.loss == "hard":
            reach = float(np.min(margins, initial=np.inf, where=(self.error == 0) & counts))
        return np.flatnonzero((self.error > 0) & counts & (margins - self.error < reach))

    def _best_intercept(self) -> float:
        """The minimiser of the primal objective over b, given ``f``, for the losses of the known samples."""
        problem, rows = self.problem, self.known
        if problem.loss == "hard":
            return self._middle()
        y = problem.signs[rows]
        bend = y - self.f[rows]  # where the sample's margin is 1
        order = np.argsort(bend, kind="stable")
        bend = bend[order]
        if problem.loss == "hinge":
            # The slope is -(C of the positive samples) + (C of all samples with bend < b): a weighted order statistic.
            price = problem.upper[rows][order]
            k = int(np.searchsorted(np.cumsum(price), float(problem.upper[rows][y > 0].sum()) * (1 - 1e-15)))
            return float(bend[min(k, len(bend) - 1)])
        # Squared hinge: the slope at b is sum of (b - bend) / r over positives with bend > b and negatives with bend < b.
        price = 1.0 / problem.ridge[rows][order]
        plus = y[order] > 0
        above, below = np.where(plus, price, 0.0), np.where(plus, 0.0, price)
        weight = np.cumsum(below) + above.sum() - np.cumsum(above)
        moment = np.cumsum(below * bend) + (above * bend).sum() - np.cumsum(above * bend)
        slope = weight * bend - moment  # at each bend, itself counted: it contributes nothing there
        # the root lies between bend k - 1 and bend k, where the sums are those of k - 1
        k = int(np.searchsorted(slope > 0, True))
        return float(moment[k - 1] / weight[k - 1]) if k > 0 else float(bend[0])

    def _middle(self) -> float:
        """The intercept of the largest smallest margin."""
        y, f = self.problem.signs[self.known], self.f[self.known]
        plus, minus = f[y > 0], f[y < 0]
        return -0.5 * float(plus.min() + minus.max()) if len(plus) and len(minus) else 0.0

    def _gap(self) -> MarginCertificate:
        problem, x, b, known = self.problem, self.x, self.intercept, self.known
        y, f = problem.signs[known], self.f[known]
        alpha, m = np.abs(x[known]), y * (f + b)
        total, q, lost = float(alpha.sum()), float(x[known] @ f), self._lost()
        drift = b * float(x.sum())  # 0 but for rounding
        nothing = self.unproven(total - 0.5 * q - lost)
        size = float(alpha @ problem.lengths[known])
        if not q >= -1e-12 * size**2:  # beyond rounding: not a positive semidefinite kernel, or NaN
            return nothing
        q = max(q, 0.0)
        if problem.loss == "hard":
            return self._without_slack(q) or nothing
        slack = np.maximum(1.0 - m, 0.0)
        if problem.loss == "hinge":
            upper = problem.upper[known]
            distance = float((upper - alpha) @ slack + alpha @ np.maximum(m - 1.0, 0.0)) - drift
            primal, dual = 0.5 * q + float(upper @ slack), total - 0.5 * q
        else:
            r = problem.ridge[known]
            inside = (slack - r * alpha) ** 2 / (2 * r)
            distance = float(np.where(m < 1, inside, 0.5 * r * alpha**2 + alpha * np.maximum(m - 1, 0)).sum()) - drift
            primal = 0.5 * q + float((slack**2 / (2 * r)).sum())
            dual = total - 0.5 * q - 0.5 * float(r @ alpha**2)
        distance, dual = max(distance, 0.0) + lost, dual - lost
        if not primal > 0:
            return nothing
        # A large C makes a price of what rounding leaves of the slack of samples on the margin.
        typical, most = self._rounding()
        if problem.loss == "hinge":
            noise = typical * float(upper[(alpha > 0) & (np.abs(m - 1.0) <= most)].sum())
        else:
            noise = typical * float(((np.abs(slack - r * alpha) + 0.5 * typical) / r)[alpha > 0].sum())
        distance += noise if noise > NOTICED * primal else 0.0
        if problem.loss == "hinge":
            divided = replace(self, intercept=self._middle() if problem.intercept else 0.0)._without_slack(q, most)
            if divided is not None and divided.gap * primal < distance:
                return divided
        return self._proven(primal, dual, distance)

    def _without_slack(self, q: float, rounding: float = 0.0) -> MarginCertificate | None:
        """The machine divided by its smallest margin, a little less for rounding; None where there is none within the bounds."""
        problem, x, b, known = self.problem, self.x, self.intercept, self.known
        margins = problem.signs * (self.f + b)
        alpha, m = np.abs(x[known]), margins[known]
        least = float(np.min(margins - self.error, initial=np.inf, where=problem.counts))
        if not (
            least > 4.0 * self._rounding()[1] and q > 0
        ):  # a margin of rounding alone, in its terms and their sum, is none
            return None
        delta = rounding / least
        scale = (1.0 + delta) / least
        if problem.loss == "hinge" and not (scale * alpha <= problem.upper[known]).all():
            return None
        d = max(float(alpha @ (m - least)) - b * float(x.sum()), 0.0)
        lost = self._lost(scale)
        primal, distance = 0.5 * scale**2 * q, scale * (delta * q + d) / least + lost
        if not np.isfinite(primal):
            return None
        return self._proven(primal, scale * float(problem.signs[known] @ x[known]) - primal - lost, distance, scale)

    def _proven(self, primal: float, dual: float, distance: float, scale: float = 1.0) -> MarginCertificate:
        """The certificate of the machine times ``scale``."""
        certified, support = self._certified()
        return MarginCertificate(
            dual=np.abs(self.x) * scale,
            objective=primal,
            upper=primal,
            dual_bound=dual,
            distance=distance,
            intercept=self.intercept * scale,
            certified=certified,
            support=support,
            decision=self.f * scale,
        )

    def _rounding(self) -> tuple[float, float]:
        """What float64 changes in a decision value, whoever evaluates it: as a rule (errors add up at random), and at most."""
        root, b = self.problem.lengths, abs(self.intercept)
        terms, top = np.abs(self.x) * root, float(root.max())
        return 3e-16 * (float(np.sqrt(terms @ terms)) * top + b), 1e-15 * (float(terms.sum()) * top + b)

    def _excess(self) -> tuple[float, np.ndarray, float]:
        """By how much the weights of one class sum to more than the other's, which samples these are, and the share that this is of them.

        Weights prove a bound only once that share is gone: with an intercept their signed sum has to be 0, and is so but for rounding.
        """
        total = math.fsum(self.x[self.x != 0]) if self.problem.intercept else 0.0
        heavier = np.flatnonzero(self.x * total > 0)
        return abs(total), heavier, abs(total) / float(np.abs(self.x[heavier]).sum()) if total else 0.0

    def _lost(self, scale: float = 1.0) -> float:
        """What the dual value of the weights times ``scale`` is less by without that excess; values at them are of float64."""
        excess, rows, share = self._excess()
        size = share * scale * float(np.abs(self.x[rows]) @ self.problem.lengths[rows])
        return max(scale * (excess - scale * share * float(self.x[rows] @ self.f[rows])) + 0.5 * size**2, 0.0)

    def _off(self) -> tuple[np.ndarray, float]:
        """What margins may be off by, and the share of a class's weights that has to go for these to sum to 0.

        Rounding of float64 beside ``error``: ``|f - K x|_i <= sum_j |x_j| |K_ij|`` times the errors of an entry and of a sum, with
        ``|K_ij| <= sqrt(K_ii K_jj)``. Without that share the machine moves by at most the largest norm times what goes.
        """
        problem, size = self.problem, np.abs(self.x)
        lengths, own = problem.lengths * (1.0 + problem.kernel.block_error()), problem.ridge * size
        unit = problem.kernel.block_error() + (np.count_nonzero(size) + 8) * 2.0 * DOUBLE
        excess, _, share = self._excess()
        off = unit * (lengths * float(size @ lengths) + 2.0 * own) + lengths * (excess * float(lengths.max()))
        off += 8.0 * DOUBLE * (np.abs(self.f) + abs(self.intercept)) + (8.0 * DOUBLE + share) * own
        return self.error + 1.01 * off + 1e-300, share

    def _certified(self) -> tuple[np.ndarray, np.ndarray]:
        """Samples whose part in every optimum is proven, and those that support.

        Any machine w with intercept b costs ``|w - w'|^2 / 2`` plus what the sums above give at its margins more than the dual value of
        the weights of w'. An optimal machine costs at most ``distance`` more: so ``|f - f*| <= sqrt(2 distance K_ii)`` (Ndiaye, Fercoq,
        Gramfort, Salmon 2017), and its intercept lies where the sums within those balls do not exceed the distance. A margin above 1
        for all of them proves alpha = 0, one below 1 proves alpha > 0.
        """
        problem, counts = self.problem, self.problem.counts
        off, share = self._off()
        m, e, size = (problem.signs * (self.f + self.intercept))[counts], off[counts], np.abs(self.x)[counts]
        # the machine itself, or divided by its smallest margin where no weight leaves its bound: the one that is nearer to its bound
        least = float((m - e).min()) * (1 - 4 * DOUBLE)
        found = [] if problem.loss == "hard" else [(_Excess(problem, size, share).most(m, e), 1.0)]
        if 0 < least < np.inf and (size <= (1 - 4 * DOUBLE) * least * problem.upper[counts]).all():
            found.append((_Excess(problem, size / least, share).most(m / least, e / least), least))
        if not found:
            return ~counts, np.zeros(problem.n, dtype=bool)
        distance, least = min(found)
        excess = _Excess(problem, size / least, share)
        radius = float(np.sqrt(2.0 * distance)) * (1 + 1e-12)
        lengths = problem.lengths * (1.0 + problem.kernel.block_error())
        f, ball = self.f / least, (radius * lengths + off / least) * (1 + 1e-12)
        low = high = self.intercept / least
        if problem.intercept:
            low, high = excess.intercepts(f[counts], ball[counts], low, distance)
        ball += 4.0 * DOUBLE * (1.0 + np.abs(f) + max(abs(low), abs(high)) + ball)
        plus = problem.signs > 0
        smallest, largest = np.where(plus, f + low, -f - high) - ball, np.where(plus, f + high, -f - low) + ball
        support = (largest < 1.0) & counts
        return support | (smallest > 1.0) | ~counts, support


class _Excess:
    """What each sample that counts leaves between primal and dual, a convex function of its margin; with the rounding of the sums.

    Parameters
    ----------
    problem : MarginProblem
    alpha : ndarray of shape (m,)
        Weights.
    share : float
        What the weights of a class may lose, relatively.
    """

    def __init__(self, problem: MarginProblem, alpha: np.ndarray, share: float) -> None:
        counts = problem.counts
        self.loss, self.y, self.alpha, self.share = problem.loss, problem.signs[counts], alpha, share
        self.upper, self.ridge = problem.upper[counts], problem.ridge[counts]
        self.price = self.upper - alpha if problem.loss == "hinge" else np.zeros(len(alpha))
        self.best = 1.0 - self.ridge * alpha
        self.rounds = 1.0 + 2.0 * DOUBLE * (len(alpha) + 16)  # sums of numbers that are not negative

    def most(self, m: np.ndarray, e: np.ndarray) -> float:
        """The largest sum for margins within ``e`` of ``m``, of which none is below 1 if ``m - e`` is not."""
        ends = (m - e, m + e)  # of a convex function: one of them has the largest value
        parts = np.maximum(*(self._parts(v, self.alpha)[0] for v in ends))
        lost = self.share * self.alpha * (np.abs(m - 1.0) + e)
        return float((parts + lost).sum()) * self.rounds

    def _parts(self, m: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What each sample leaves, and the derivatives; ``alpha`` is the price of a margin above 1."""
        if self.loss == "squared_hinge":
            short = 1.0 - m - self.ridge * self.alpha
            inside = short**2 / (2 * self.ridge), -short / self.ridge
            outside = 0.5 * self.ridge * alpha**2 + alpha * np.maximum(m - 1.0, 0.0), alpha
            return np.where(m < 1.0, inside[0], outside[0]), np.where(m < 1.0, inside[1], outside[1])
        slope = np.where(m > 1.0, alpha, -self.price)
        return slope * (m - 1.0), slope

    def _least(self, f: np.ndarray, ball: np.ndarray, t: float) -> tuple[float, float]:
        """The least sum at intercept t, each value at the best place in its ball, and its derivative."""
        m, reach = self.y * (f + t), ball + 4.0 * DOUBLE * (1.0 + np.abs(f) + abs(t) + ball)
        nearest = np.minimum(np.maximum(self.best, m - reach), m + reach)
        value, slope = self._parts(nearest, self.alpha * (1.0 - self.share))
        return float(value.sum()), float((self.y * slope) @ (nearest != self.best))

    def intercepts(self, f: np.ndarray, ball: np.ndarray, b: float, distance: float) -> tuple[float, float]:
        """An interval that holds every optimal intercept.

        Parameters
        ----------
        f, ball : ndarray of shape (m,)
            Values, and how far from them the optimal ones may be.
        b : float
            An intercept near the optimal ones.
        distance : float
            The largest sum that an optimal machine may have.
        """
        if self.loss == "hard":
            plus, ball = self.y > 0, ball + 4.0 * DOUBLE * (1.0 + np.abs(f) + ball)
            low = float(np.max((1.0 - f - ball)[plus], initial=-np.inf))
            return low, float(np.min((ball - 1.0 - f)[~plus], initial=np.inf))
        above, ends = distance * self.rounds * (1 + 1e-12 + 4.0 * self.share) + 1e-300, []
        for way in (-1.0, 1.0):
            step = 4.0 * float(ball.max(initial=0.0)) + 1e-12 * (1.0 + abs(b))
            for _ in range(200):
                t = b + way * step
                value, slope = self._least(f, ball, t)
                if value > above:
                    break
                step *= 4.0
            else:
                return -np.inf, np.inf
            # The sum is convex: every place where it is too large is an end. Newton's method from there, or halves.
            inside = b
            for _ in range(8):
                if value <= 1.5 * above:  # 1.2 times is aimed at
                    break
                nearer = t - (value - 1.2 * above) / slope if slope * way > 0 else inside
                if not 0 < (nearer - inside) * way < (t - inside) * way:
                    nearer = 0.5 * (t + inside)
                there = self._least(f, ball, nearer)
                if there[0] > above:
                    t, (value, slope) = nearer, there
                else:
                    inside = nearer
            ends.append(t)
        return ends[0], ends[1]
