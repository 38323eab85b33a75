"""Verification of quadratic programs: feasibility, objective, dual bound, rays and contradictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.base.tolerances import CANCELLED, EPS, HALF_DIGITS, INDEFINITE, PERTURBATION, TINY
from bregmat.engine.status import Status
from bregmat.quadratic.result import QPResult
from bregmat.verification.extended import LONG, LONG_EPS, numbers
from bregmat.verification.report import EXACT
from bregmat.verification.verifier import Verifier

ALONE = 1e-4  # at x = 0, the unit of the gap is this fraction of the gain that a single variable could achieve
SHARES = (-1e-12, 0.0, 1e-9, 1e-6, 1e-3)  # variables above this fraction of the largest count as free


class ProgramVerifier(Verifier):
    """``1/2 x'Ax + b'x`` over ``0 <= x <= upper``, ``E x = e``."""

    kind = QPResult
    wanted, required, multipliers = "the arguments A and b of nnqp", "A b", "equality_dual"

    def __init__(self, arguments: Mapping[str, Any], result: QPResult) -> None:
        super().__init__(arguments, result)
        self.A, self.b = _long(arguments["A"]), _long(arguments["b"])
        n = len(self.b)
        upper = arguments.get("upper")
        self.upper = np.broadcast_to(np.asarray(np.inf if upper is None else upper, dtype=float), (n,))
        E, e = arguments.get("equality") or (np.zeros((0, n)), np.zeros(0))
        self.E, self.e = np.atleast_2d(_long(E)), np.atleast_1d(_long(e))
        if len(result.x) != n or len(result.equality_dual) != len(self.e):
            sizes = f"{len(result.x)} variables and {len(result.equality_dual)} equations"
            raise ValueError(f"the result has {sizes}; the problem others.")
        self.x, self.y = result.x.astype(LONG), result.equality_dual.astype(LONG)
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
        self.unlimited = np.isinf(self.reach)

    def sizes(self, x: np.ndarray) -> np.ndarray:
        """Sums of the absolute terms of every entry of ``A x + b``."""
        return np.abs(self.A) @ np.abs(x) + np.abs(self.b)

    def objective(self, x: np.ndarray) -> Any:
        """Objective at x."""
        return (x @ (self.A @ x)) / 2 + self.b @ x

    def best_bound(self) -> Any:
        """The best lower bound ``F(w) >= F(z) + F'(z)(w - z)`` over several z near x.

        With ``h = F'(z) + E'y``, all feasible w have ``F'(z) w >= sum_i upper_i min(0, h_i) - y'e`` for any z and y. If ``h_i < 0``
        for a variable without an upper bound, y and z are moved in directions that increase h_i. Only if no bound is found, or the
        result says so, is a perturbation of b assumed.
        """
        x, y = self.x, self.y
        near = [(x, y), (x, self._lifted()), *((z, y) for z in self._raised())]
        bounds = [self._bound(z, v) for z, v in near]
        exact = [value for value, raised in bounds if raised == 0 and value > -np.inf]
        if exact and not self.result.bound_perturbation > 0:
            bound, raised = max(exact), 0.0
        else:  # prefer bounds whose perturbation is allowed, then large bounds
            bound, raised = min(bounds, key=lambda one: (0.0 if one[1] <= PERTURBATION else one[1], -one[0]))
        if raised > PERTURBATION:
            bound = LONG(-np.inf)
        elif raised:
            self.report.notes.append(
                f"the bound takes a linear term for granted that is raised by {raised:.1g} of itself"
            )
        return max(bound, LONG(0)) if (self.b >= 0).all() else bound  # F >= 0 everywhere

    def _bound(self, z: np.ndarray, y: np.ndarray) -> tuple[Any, float]:
        """``F(z) - F'(z) z + sum_i upper_i min(0, h_i) - y'e``, if b is raised so that no unlimited variable has ``h_i < 0``.

        The second number is the relative change of b.
        """
        h, low = self._reduced(z, y)
        short = np.where(self.unlimited, -low, 0)
        ends = (np.where(self.unlimited, 0, self.reach) * low).sum() - short @ self.x
        size = float(np.abs(self.b).max()) or float(np.abs(h - self.b).max()) or 1.0
        return self.objective(z) - (self.A @ z + self.b) @ z - y @ self.e + ends, float(short.max()) / size

    def _reduced(self, z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``h`` at z, and the negative part of h minus its rounding error."""
        h = self.A @ z + self.b + y @ self.E
        noise = LONG_EPS * (len(z) + 8) * (self.sizes(z) + np.abs(y) @ np.abs(self.E))
        return h, np.where(h < noise, h - noise, 0)

    def _lifted(self) -> np.ndarray:
        """Multipliers near y that increase the negative reduced gradients of variables without an upper bound."""
        _, low = self._reduced(self.x, self.y)
        short = np.flatnonzero(self.unlimited & (low < 0))
        if not len(self.y) or not len(short):
            return self.y
        return self.y + _least_squares(self.E[:, short].T.astype(float), -2 * low[short])

    def _raised(self) -> Any:
        """Points near x with larger reduced gradients of variables without an upper bound."""
        x, y, unlimited = self.x, self.y, self.unlimited
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
    def check_claims(self) -> bool:
        """Only UNBOUNDED has a direction."""
        status = self.report.claimed
        if self.result.direction is not None and status is not Status.UNBOUNDED:
            self.report.problem(f"{status} beside a direction along which the objective falls without end")
        return True

    def check_point(self) -> bool:
        """Compare the gradient and the convexity; whether x is in its box."""
        x, y, result = self.x, self.y, self.result
        if not np.isfinite(x).all() or (x < 0).any() or (x > self.upper).any():
            return self.refuse("x is outside of its box")
        if not 0 <= result.bound_perturbation <= PERTURBATION:
            raised = f"{result.bound_perturbation:.1g}"
            self.report.problem(f"the bound takes a linear term for granted that is raised by {raised}")
        self.h = self.A @ x + self.b + y @ self.E
        self.gradient_noise = 64 * EPS * (self.sizes(x) + np.abs(y) @ np.abs(self.E))
        self.report.compare("dual", self.h, HALF_DIGITS * np.abs(self.b).max(initial=0) + self.gradient_noise)
        self._check_convexity()
        return True

    def check_rows(self) -> bool:
        """Compare the violations of optimality conditions and equations; return whether the equations are met."""
        x, claimed = self.x, self.result.kkt_residual
        conditions, vague = self._missed_conditions(), self._in_units(self.gradient_noise)
        self.report.figures["kkt_residual"] = (claimed, conditions)
        if not claimed >= conditions * (1 - EXACT) - HALF_DIGITS - vague or claimed < 0:
            self.report.problem(f"the optimality conditions are missed by {conditions:.3g}, not {claimed:.3g}")
        terms = np.abs(self.E) @ np.abs(x) + np.abs(self.e)
        missed = np.abs(self.E @ x - self.e)
        missed = np.maximum(missed - 16 * EPS * np.abs(self.E).sum(axis=1) * x.max(initial=0), 0)
        worst = float((missed / np.where(terms > 0, terms, 1)).max(initial=0.0))
        self.report.compare("max_violation", worst, HALF_DIGITS)
        return self.report.check_feasible(worst <= HALF_DIGITS, f"the equations are missed by {worst:.2g}")

    def compare_figures(self, is_feasible: bool) -> None:
        """Compare the figures at x, and the bound of a point near x."""
        x, result, report, value = self.x, self.result, self.report, self.objective(self.x)
        objective, bound = float(value), self.best_bound()
        # without the multipliers of the rows, which are part of the claim
        terms, products = float(self.sizes(x) @ x + np.abs(self.b) @ x), float(self.sizes(x) @ x)
        linear = CANCELLED * float(np.abs(self.b) @ x + np.abs(self.y) @ (np.abs(self.E) @ x))
        size = max(abs(objective), abs(float(x @ self.A @ x)) / 2, linear)
        is_alone = size == 0.0
        size = size or ALONE * float((self.b**2).max(initial=0.0) / self.largest) or 1.0
        allowed = HALF_DIGITS * max(size, abs(objective)) + LONG_EPS * len(x) ** 2 * products
        report.compare("objective", objective, min(allowed, HALF_DIGITS * max(abs(objective), terms)))
        if not is_alone:
            report.compare("unit", size, EXACT * size + allowed + TINY)
        elif self.b.any():  # the unit is the gain of one of the variables
            gain = (np.maximum(np.abs(self.b), np.abs(self.h - self.b)) * self.weights).max()
            largest = ALONE * float(gain) ** 2
            report.figures["unit"] = (result.unit, largest)
            if not result.unit <= largest * (1 + EXACT) + TINY:
                report.problem(f"unit is {largest:.9g} at most; the result says {result.unit:.9g}")
        report.figures["dual_bound"] = (result.dual_bound, float(bound))
        if result.dual_bound > objective + allowed:
            report.problem(f"dual_bound is {result.dual_bound:.9g}, above the objective {objective:.9g}")
        elif not result.dual_bound <= float(bound) + allowed + result.tol * size:  # judge() lowers OPTIMAL in this case
            text = "the bound was not reached: it comes from a point near x that the result does not hold"
            report.unchecked.append(text)
        gap = value - bound
        is_rounding = gap <= 16 * EPS**2 * products or abs(gap) <= 64 * EPS * size
        report.check_gap(64 * EPS * products)
        report.judge(0.0 if is_rounding else float(gap) / size, is_feasible)

    def _missed_conditions(self) -> float:
        """Largest violation of the optimality conditions."""
        low, high, h = self.x <= 0, self.x >= self.upper, self.h
        missed = np.where(low & high, 0, np.where(low, -h, np.where(high, h, np.abs(h))))
        return self._in_units(np.maximum(missed, 0))

    def _in_units(self, part: np.ndarray) -> float:
        """The largest of parts (n,) of the gradient, in units of sqrt(A_ii) and relative to the part of b that the gradient balances."""
        size, other = np.abs(self.b), np.abs(self.h - self.b)
        reach = np.where(np.isinf(self.upper), np.inf, self.diagonal * self.upper)
        balanced = np.minimum(size, np.where(self.b < 0, np.maximum(reach, other), other))
        tops = (float((terms * self.weights).max(initial=0)) for terms in (balanced, other, size))
        unit = next((top for top in tops if top > 0), 1.0)
        return float((part * self.weights / np.maximum(size * self.weights, unit)).max(initial=0))

    def _check_convexity(self) -> None:
        """Check that A is positive semidefinite up to the tolerance of the result, and that this tolerance is small."""
        delta, n, report = self.result.curvature_tolerance, len(self.b), self.report
        tol = INDEFINITE * np.sqrt(n) + n * (n + 2) * EPS
        if not 0 <= delta <= (tol if report.claimed is Status.OPTIMAL else np.inf):
            report.problem(f"A may have eigenvalues of -{delta:.2g} of its largest diagonal entry", Status.FEASIBLE)
        elif np.isfinite(delta) and self.A.any():
            try:
                np.linalg.cholesky((self.A / self.largest).astype(float) + delta * np.eye(n))
            except np.linalg.LinAlgError:
                report.problem(f"A is not positive semidefinite up to {delta:.2g} of its largest diagonal entry")

    def check_contradiction(self) -> None:
        """Check that ``y'E x < y'e`` for every x in the box."""
        y, unlimited = self.y, np.isinf(self.upper)
        self.check_conflict(self.result.conflict, np.flatnonzero(y), len(self.e))
        h, noise = y @ self.E, 64 * EPS * (np.abs(y) @ np.abs(self.E))
        if (unlimited & (h > noise)).any():
            self.refuse("the weighted sum of the equations is positive on a variable without an upper bound")
        upper = np.where(unlimited, 0, self.upper)
        above, least = y @ self.e - upper @ np.maximum(h, 0), 64 * EPS * (np.abs(y) @ np.abs(self.e) + upper @ noise)
        self.report.figures["y . e - most of y'Ex"] = (np.nan, float(above))
        if not above > least:
            self.refuse("the weighted equations do not contradict the box")

    def check_ray(self) -> None:
        """Check a direction of the box along which the objective decreases without limit."""
        if self.result.direction is None or not np.isfinite(self.result.direction).all():
            self.refuse("UNBOUNDED without a direction")
            return
        d = self.result.direction.astype(LONG)
        noise = 256 * EPS * len(d)
        flat = np.abs(self.A @ d) <= noise * (np.abs(self.A) @ np.abs(d))
        level = np.abs(self.E @ d) <= noise * (np.abs(self.E) @ d)
        if (d < 0).any() or (d[np.isfinite(self.upper)] > 0).any():
            self.refuse("the direction leaves the box")
        if not flat.all() or not level.all():
            self.refuse("the objective is curved along the direction, or the equations change")
        self.report.figures["slope"] = (np.nan, float(self.b @ d))
        if not self.b @ d < 0:
            self.refuse("the objective does not fall along the direction")


def _least_squares(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``A^+ b`` in float64; b is scaled, since extended precision has a larger range."""
    top = np.abs(b).max(initial=0) or 1
    return np.linalg.lstsq(A, (b / top).astype(float), rcond=1e-13)[0] * top


def _long(x: Any) -> np.ndarray:
    return numbers(x).astype(LONG)
