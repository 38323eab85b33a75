"""Verification of quadratic programs: feasibility, objective, dual bound, rays and contradictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.base.tolerances import CANCELLED, EPS, HALF_DIGITS, INDEFINITE, PERTURBATION, TINY
from bregmat.engine.status import Status
from bregmat.quadratic.result import QPResult
from bregmat.verification.extended import LONG, numbers, precision_text, unit_of
from bregmat.verification.figures import EXACT, Verification, check_arguments, recompute

ALONE = 1e-4  # at x = 0, the unit of the gap is this fraction of the gain that a single variable could achieve
LONG_EPS = unit_of(LONG)
SHARES = (-1e-12, 0.0, 1e-9, 1e-6, 1e-3)  # variables above this fraction of the largest count as free


@recompute.register
def _(result: QPResult, problem: Any, report: Verification) -> None:
    Program(problem).report(result, report)


class Program:
    """``1/2 x'Ax + b'x`` over ``0 <= x <= upper``, ``E x = e``."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        check_arguments(arguments, "the arguments A and b of nnqp", "A b")
        self.A, self.b = _long(arguments["A"]), _long(arguments["b"])
        n = len(self.b)
        upper = arguments.get("upper")
        self.upper = np.broadcast_to(np.asarray(np.inf if upper is None else upper, dtype=float), (n,))
        E, e = arguments.get("equality") or (np.zeros((0, n)), np.zeros(0))
        self.E, self.e = np.atleast_2d(_long(E)), np.atleast_1d(_long(e))
        self.diagonal = np.maximum(np.diag(self.A), 0)
        largest = self.diagonal.max(initial=0)
        self.largest = max(largest, LONG(TINY))
        # 1 / sqrt(A_ii), with the largest A_ii in place of 0
        self.weights = 1 / np.sqrt(np.where(self.diagonal > TINY, self.diagonal, largest or 1))
        # upper bounds, also those implied by rows of one sign: each term of such a row is at most its value
        self.reach = self.upper.astype(LONG)
        sign = np.where(self.E.sum(axis=1) < 0, -1, 1)
        for row, value in zip(self.E * sign[:, None], self.e * sign):
            if (row >= 0).all() and value >= 0:
                self.reach[row > 0] = np.minimum(self.reach[row > 0], value / row[row > 0] * (1 + 4 * LONG_EPS))

    def sizes(self, x: np.ndarray) -> np.ndarray:
        """Sums of the absolute terms of every entry of ``A x + b``."""
        return np.abs(self.A) @ np.abs(x) + np.abs(self.b)

    def objective(self, x: np.ndarray) -> Any:
        """Objective at x."""
        return (x @ (self.A @ x)) / 2 + self.b @ x

    def bound(self, x: np.ndarray, y: np.ndarray, is_perturbed: bool) -> tuple[Any, float]:
        """The best lower bound ``F(w) >= F(z) + F'(z)(w - z)`` over several z near x, and the perturbation of b that it assumes.

        Unless the result states a perturbation (``is_perturbed``), one is assumed only if there is no bound without it.

        With ``h = F'(z) + E'y``, all feasible w have ``F'(z) w >= sum_i upper_i min(0, h_i) - y'e`` for any z and y. If ``h_i < 0``
        for a variable without an upper bound, y and z are moved in directions that increase h_i.
        """
        unlimited, best = np.isinf(self.reach), LONG(-np.inf)
        lifted = self._lifted(x, y, unlimited)
        candidates = [(x, y), (x, lifted), *((z, y) for z in self._raised(x, y, unlimited))]
        for z, v in candidates:
            h, low = self._reduced(z, v)
            if not (unlimited & (low < 0)).any():
                best = max(best, self._value(z, v, h, low))
        if best > -np.inf and not is_perturbed:
            return best, 0.0
        # prefer bounds whose perturbation is allowed, then large bounds
        bounds = [(best, 0.0), *(self._granted(x, z, v, unlimited) for z, v in candidates)]
        return min(bounds, key=lambda one: (0.0 if one[1] <= PERTURBATION else one[1], -one[0]))

    def _granted(self, x: np.ndarray, z: np.ndarray, y: np.ndarray, unlimited: np.ndarray) -> tuple[Any, float]:
        """The bound from z if b is perturbed so that no unlimited variable has ``h_i < 0``, and the relative perturbation."""
        h = self.A @ z + self.b + y @ self.E
        low = np.minimum(h, 0)
        short = np.where(unlimited, -low, 0)
        size = float(np.abs(self.b).max()) or float(np.abs(h - self.b).max()) or 1.0
        return self._value(z, y, h, low) - short @ x, float(short.max()) / size

    def _reduced(self, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``h`` at z, and the negative part of h minus its rounding error."""
        h = self.A @ z + self.b + y @ self.E
        noise = LONG_EPS * (len(z) + 8) * (self.sizes(z) + np.abs(y) @ np.abs(self.E))
        return h, np.where(h < noise, h - noise, 0)

    def _value(self, z: np.ndarray, y: np.ndarray, h: np.ndarray, low: np.ndarray) -> Any:
        """``F(z) - F'(z) z + sum_i upper_i min(0, h_i) - y'e``."""
        ends = (np.where(np.isinf(self.reach), 0, self.reach) * low).sum()
        return self.objective(z) - (h - y @ self.E) @ z - y @ self.e + ends

    def _lifted(self, x: np.ndarray, y: np.ndarray, unlimited: np.ndarray) -> np.ndarray:
        """Multipliers near y that increase the negative reduced gradients of variables without an upper bound."""
        _, low = self._reduced(x, y)
        short = np.flatnonzero(unlimited & (low < 0))
        if not len(y) or not len(short):
            return y
        return y + _least_squares(self.E[:, short].T.astype(float), -2 * low[short])

    def _raised(self, x: np.ndarray, y: np.ndarray, unlimited: np.ndarray) -> Any:
        """Points near x with larger reduced gradients of variables without an upper bound."""
        h, low = self._reduced(x, y)
        goal = np.where(unlimited & (low < 0), -2 * low, 0)
        if not goal.any() and not (low < 0).any():
            return
        diagonal = np.maximum(np.diag(self.A), np.diag(self.A).max(initial=0) * EPS**2)
        scale = np.sqrt(np.where(diagonal > 0, diagonal, 1))
        unit = np.nan_to_num((self.A / scale / scale[:, None]).astype(float))
        top = (goal / scale).max() or 1
        part_of = x * scale / ((x * scale).max() if x.any() else 1)
        free = [(part_of > share) & (unlimited | (x < (1 - abs(share)) * self.upper)) for share in SHARES]
        # variables that a small change of the reduced gradient makes free
        free += [(free[1] | (np.abs(h) <= HALF_DIGITS * np.abs(h - self.b).max())) & (x < self.upper)]
        for rows in map(np.flatnonzero, (goal > 0, *free)):
            if not len(rows):
                continue
            part = unit[np.ix_(rows, rows)]
            noise = 4 * LONG_EPS * (len(x) + 8) * (self.sizes(x) + np.abs(y) @ np.abs(self.E))
            step = np.zeros(len(x), dtype=LONG)  # makes the gradient of these variables equal to its rounding error
            for _ in range(3):
                left = (noise - h - self.A @ step)[rows] / scale[rows]
                step[rows] += _least_squares(part, left) / scale[rows]
            yield x + step
            d = np.zeros(len(x), dtype=LONG)
            d[rows] = _least_squares(part, np.ones(len(rows))) / scale[rows] * top
            rise = self.A @ d
            able = (goal > 0) & (rise > 0)
            if able.any():
                yield from (x + times * (goal[able] / rise[able]).max() * d for times in (0.5, 1, 2))

    # ------------------------------------------------------------------ the report
    def report(self, result: QPResult, report: Verification) -> None:
        """Compare all figures of the result."""
        report.precision = precision_text(LONG)
        if len(result.x) != len(self.b) or len(result.equality_dual) != len(self.e):
            sizes = f"{len(result.x)} variables and {len(result.equality_dual)} equations"
            raise ValueError(f"the result has {sizes}; the problem others.")
        if result.direction is not None and report.claimed is not Status.UNBOUNDED:
            report.problem(f"{result.status} beside a direction along which the objective falls without end")
        x, y = result.x.astype(LONG), result.equality_dual.astype(LONG)
        if report.claimed is Status.INFEASIBLE:
            report.named(result.conflict, np.flatnonzero(y), len(self.e))
            self._contradiction(y, report)
        elif report.claimed is Status.UNBOUNDED:
            self._ray(result.direction, report)
        elif not np.isfinite(x).all() or (x < 0).any() or (x > self.upper).any():
            report.problem("x is outside of its box", Status.UNKNOWN)
        elif not np.isfinite(y).all():
            report.problem("the multipliers of the equations are not finite", Status.UNKNOWN)
        else:
            self._report_point(result, x, y, report)

    def _report_point(self, result: QPResult, x: np.ndarray, y: np.ndarray, report: Verification) -> None:
        """Compare the figures at a point x of the box with the multipliers y of the rows."""
        if not 0 <= result.bound_perturbation <= PERTURBATION:
            raised = f"{result.bound_perturbation:.1g}"
            report.problem(f"the bound takes a linear term for granted that is raised by {raised}")
        h, gradient_noise = self.A @ x + self.b + y @ self.E, self.sizes(x) + np.abs(y) @ np.abs(self.E)
        noise = HALF_DIGITS * np.abs(self.b).max(initial=0) + 64 * EPS * gradient_noise
        report.compare_all("dual", h, noise)
        is_feasible = self._report_conditions(result, x, h, gradient_noise, report)
        objective, (bound, granted) = self.objective(x), self.bound(x, y, result.bound_perturbation > 0)
        self._convexity(result, report)
        curved = abs(float(x @ self.A @ x)) / 2
        # without the multipliers of the rows, which are part of the claim
        terms = float(self.sizes(x) @ x + np.abs(self.b) @ x)
        size = max(
            abs(float(objective)), curved, CANCELLED * float(np.abs(self.b) @ x + np.abs(y) @ (np.abs(self.E) @ x))
        )
        is_alone = size == 0.0
        size = size or ALONE * float((self.b**2).max(initial=0.0) / self.largest) or 1.0
        allowed = HALF_DIGITS * max(size, abs(float(objective))) + LONG_EPS * len(x) ** 2 * float(self.sizes(x) @ x)
        report.compare("objective", float(objective), min(allowed, HALF_DIGITS * max(abs(float(objective)), terms)))
        if not is_alone:
            report.compare("unit", size, EXACT * size + allowed + TINY)
        elif self.b.any():  # the unit is the gain of one of the variables
            gain = (np.maximum(np.abs(self.b), np.abs(h - self.b)) * self.weights).max()
            largest = ALONE * float(gain) ** 2
            report.figures["unit"] = (result.unit, largest)
            if not result.unit <= largest * (1 + EXACT) + TINY:
                report.problem(f"unit is {largest:.9g} at most; the result says {result.unit:.9g}")
        if granted > PERTURBATION:
            bound = LONG(-np.inf)
        elif granted:
            report.notes.append(f"the bound takes a linear term for granted that is raised by {granted:.1g} of itself")
        if (self.b >= 0).all():  # F >= 0 everywhere
            bound = max(bound, LONG(0))
        report.figures["dual_bound"] = (result.dual_bound, float(bound))
        if result.dual_bound > float(objective) + allowed:
            report.problem(f"dual_bound is {result.dual_bound:.9g}, above the objective {float(objective):.9g}")
        elif not result.dual_bound <= float(bound) + allowed + result.tol * size:  # judge() lowers OPTIMAL in this case
            said = "the bound was not reached: it comes from a point near x that the result does not hold"
            report.unchecked.append(said)
        gap, terms = objective - bound, self.sizes(x) @ x
        is_rounding = gap <= 16 * EPS**2 * terms or abs(gap) <= 64 * EPS * size
        report.check_gap(64 * EPS * float(terms))
        report.judge(0.0 if is_rounding else float(gap) / size, is_feasible)

    def _report_conditions(
        self, result: QPResult, x: np.ndarray, h: np.ndarray, gradient_noise: np.ndarray, report: Verification
    ) -> bool:
        """Compare the violations of optimality conditions and rows at x with the reduced gradient h; return whether the rows are met."""
        conditions, vague = self._missed_conditions(x, h), self._in_units(64 * EPS * gradient_noise, h)
        report.figures["kkt_residual"] = (result.kkt_residual, conditions)
        if not result.kkt_residual >= conditions * (1 - EXACT) - HALF_DIGITS - vague or result.kkt_residual < 0:
            report.problem(f"the optimality conditions are missed by {conditions:.3g}, not {result.kkt_residual:.3g}")
        terms = np.abs(self.E) @ np.abs(x) + np.abs(self.e)
        missed = np.abs(self.E @ x - self.e)
        missed = np.maximum(missed - 16 * EPS * np.abs(self.E).sum(axis=1) * x.max(initial=0), 0)
        worst = float((missed / np.where(terms > 0, terms, 1)).max(initial=0.0))
        report.compare("max_violation", worst, HALF_DIGITS)
        return report.check_feasible(worst <= HALF_DIGITS, f"the equations are missed by {worst:.2g}")

    def _missed_conditions(self, x: np.ndarray, h: np.ndarray) -> float:
        """Largest violation of the optimality conditions at the reduced gradient h (n,)."""
        low, high = x <= 0, x >= self.upper
        missed = np.maximum(np.where(low & high, 0, np.where(low, -h, np.where(high, h, np.abs(h)))), 0)
        return self._in_units(missed, h)

    def _in_units(self, part: np.ndarray, h: np.ndarray) -> float:
        """The largest of parts (n,) of the gradient h, in units of sqrt(A_ii) and relative to the part of b that h balances."""
        size, other = np.abs(self.b), np.abs(h - self.b)
        reach = np.where(np.isinf(self.upper), np.inf, self.diagonal * self.upper)
        balanced = np.minimum(size, np.where(self.b < 0, np.maximum(reach, other), other))
        tops = (float((terms * self.weights).max(initial=0)) for terms in (balanced, other, size))
        unit = next((top for top in tops if top > 0), 1.0)
        return float((part * self.weights / np.maximum(size * self.weights, unit)).max(initial=0))

    def _convexity(self, result: QPResult, report: Verification) -> None:
        """Check that A is positive semidefinite up to the tolerance of the result, and that this tolerance is small."""
        delta, n = result.curvature_tolerance, len(self.b)
        tol = INDEFINITE * np.sqrt(n) + n * (n + 2) * EPS
        if not 0 <= delta <= (tol if report.claimed is Status.OPTIMAL else np.inf):
            report.problem(f"A may have eigenvalues of -{delta:.2g} of its largest diagonal entry", Status.FEASIBLE)
        elif np.isfinite(delta) and self.A.any():
            try:
                np.linalg.cholesky((self.A / self.largest).astype(float) + delta * np.eye(n))
            except np.linalg.LinAlgError:
                report.problem(f"A is not positive semidefinite up to {delta:.2g} of its largest diagonal entry")

    def _contradiction(self, y: np.ndarray, report: Verification) -> None:
        """Check that ``y'E x < y'e`` for every x in the box."""
        h = y @ self.E
        noise = 64 * EPS * (np.abs(y) @ np.abs(self.E))
        unlimited = np.isinf(self.upper)
        if (unlimited & (h > noise)).any():
            what = "the weighted sum of the equations is positive on a variable without an upper bound"
            report.problem(what, Status.UNKNOWN)
        largest = (np.where(unlimited, 0, self.upper) * np.maximum(h, 0)).sum()
        least = 64 * EPS * float(np.abs(y) @ np.abs(self.e) + (np.where(unlimited, 0, self.upper) * noise).sum())
        report.figures["y . e - most of y'Ex"] = (np.nan, float(y @ self.e - largest))
        if not y @ self.e - largest > least:
            report.problem("the weighted equations do not contradict the box", Status.UNKNOWN)

    def _ray(self, direction: np.ndarray | None, report: Verification) -> None:
        """Check a direction of the box along which the objective decreases without limit."""
        if direction is None or not np.isfinite(direction).all():
            report.problem("UNBOUNDED without a direction", Status.UNKNOWN)
            return
        d = direction.astype(LONG)
        noise = 256 * EPS * len(d)
        flat = np.abs(self.A @ d) <= noise * (np.abs(self.A) @ np.abs(d))
        level = np.abs(self.E @ d) <= noise * (np.abs(self.E) @ d)
        if (d < 0).any() or (d[np.isfinite(self.upper)] > 0).any():
            report.problem("the direction leaves the box", Status.UNKNOWN)
        if not flat.all() or not level.all():
            report.problem("the objective is curved along the direction, or the equations change", Status.UNKNOWN)
        report.figures["slope"] = (np.nan, float(self.b @ d))
        if not self.b @ d < 0:
            report.problem("the objective does not fall along the direction", Status.UNKNOWN)


def _least_squares(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``A^+ b`` in float64; b is scaled, since extended precision has a larger range."""
    top = np.abs(b).max(initial=0) or 1
    return np.linalg.lstsq(A, (b / top).astype(float), rcond=1e-13)[0] * top


def _long(x: Any) -> np.ndarray:
    return numbers(x).astype(LONG)
