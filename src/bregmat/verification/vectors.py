"""Verification of nearest distributions (relative entropy, rows, dual bound) and of boosting (exponential loss)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.applications.simplex.boosting import BoostResult
from bregmat.applications.simplex.nearest import DistributionResult
from bregmat.base.tolerances import EPS, HALF_DIGITS, TINY
from bregmat.constraints.columns import sense_codes
from bregmat.verification.extended import LONG, LONG_EPS, numbers
from bregmat.verification.verifier import ROUNDINGS, RowVerifier, Verifier


class DistributionVerifier(RowVerifier):
    """``KL(x, prior)`` over ``x >= 0``, ``A x <sense> b``, ``sum x = total``, on the support of the prior."""

    kind = DistributionResult
    wanted = "the arguments prior, A, b and sense of nearest_distribution"
    required = "prior A b sense"

    def __init__(self, arguments: Mapping[str, Any], result: DistributionResult) -> None:
        super().__init__(arguments, result)
        A, prior = (np.atleast_1d(numbers(arguments[name])).astype(LONG) for name in ("A", "prior"))
        A, self.on, total, c = np.atleast_2d(A), prior > 0, arguments.get("total", 1.0), len(np.atleast_2d(A))
        if len(result.dual) != c or len(result.x) != len(prior):
            sizes = f"{len(result.x)} entries and {len(result.dual)} constraints; the problem has {len(prior)} and {c}"
            raise ValueError(f"the result has {sizes}.")
        self.A, self.prior, self.x = A[:, self.on], prior[self.on], result.x.astype(LONG)[self.on]
        self.bound = np.broadcast_to(np.asarray(arguments["b"], dtype=float), (c,)).astype(LONG)
        self.sense, self.hard = sense_codes(arguments["sense"], c).astype(int), np.ones(c, dtype=bool)
        self.total = None if total is None else LONG(total)
        mass = LONG(1) if self.total is None else self.total / self.prior.sum()
        unit, size = np.abs(self.bound), mass * (np.abs(self.A) @ self.prior)
        self.unit = np.where(unit > 0, unit, np.where(size > 0, size, 1))

    def check_contradiction(self) -> None:
        """Check that ``total min(A'y) > y . b``, which contradicts ``A x <= b``; or for a free sum, ``A'y >= 0`` and ``y . b < 0``."""
        y = self.mu.astype(LONG)
        self.check_conflict(self.result.conflict, np.flatnonzero(y), len(y))
        roundings = 16 * EPS * np.count_nonzero(y)
        v, noise = y @ self.A, roundings * (np.abs(y) @ np.abs(self.A))
        value, least = y @ self.bound, roundings * (np.abs(y) @ np.abs(self.bound))
        self.report.figures["y . b"] = (np.nan, float(value))
        if self.total is None:
            holds = (v >= -noise).all() and value < -least
        else:
            holds = self.total * (v - noise).min() > value + least
        if not holds:
            self.refuse("the dual weights do not separate the constraints from all vectors")

    def check_point(self) -> bool:
        """Whether x is a nonnegative vector on the support of the prior."""
        x = self.result.x
        if not np.isfinite(x).all() or (x < 0).any() or (x[~self.on] > 0).any():
            return self.refuse("x is not a nonnegative vector on the support of prior")
        return True

    def check_rows(self) -> bool:
        """Compare the rows, and the sum of x."""
        x, total = self.x, self.total
        noise = 8 * EPS / ROUNDINGS * (np.abs(self.A) @ x + np.abs(self.bound))
        has_total = total is None or abs(x.sum() - total) <= 1e-12 * total
        if not has_total:
            self.report.problem(f"x sums to {float(x.sum()):.17g}")
        return self.compare_rows(self.A @ x, noise) and bool(has_total)

    def compare_figures(self, is_feasible: bool) -> None:
        """``KL(x, prior) = sum x log(x / prior) - x + prior``, and the minimum of the Lagrangian."""
        x, mu = self.x, self.mu.astype(LONG)
        entropy = np.where(x > 0, x * np.log(np.where(x > 0, x, 1) / self.prior), 0)
        objective = float((entropy - x + self.prior).sum())
        bound, lost = self._bound(mu)
        mass = float(self.prior.sum() if self.total is None else self.total)
        unit = max(mass, abs(objective), min(self.result.unit, 1.0))
        terms = float((np.abs(entropy) + x + self.prior).sum())
        allowed, above = HALF_DIGITS * unit + 8 * EPS * terms, float(np.abs(mu) @ self.excess(self.A @ x))
        how: dict[str, Any] = {"of_bound": 1e-2 * HALF_DIGITS * unit, "lost": lost, "above": above}
        self.report.conclude((objective, float(bound), unit), allowed, is_feasible, **how)

    def _bound(self, mu: np.ndarray) -> tuple[Any, float]:
        """Minimum of the Lagrangian, and its rounding."""
        prior, v = self.prior, mu @ self.A
        shift = LONG_EPS * (len(mu) + 4) * (np.abs(mu) @ np.abs(self.A))
        linear, terms = mu @ self.bound, prior.sum() + np.abs(mu) @ np.abs(self.bound)
        if self.total is None:
            y = prior * np.exp(-v)
            return prior.sum() - y.sum() - linear, float(LONG_EPS * len(prior) * (terms + y.sum()) + shift @ y)
        # total log (sum prior exp(-v) / total), computed relative to the largest term
        top = (np.log(prior) - v).max()
        log_mass = top + np.log(np.exp(np.log(prior) - v - top).sum()) - np.log(self.total)
        terms = terms + self.total * (1 + abs(log_mass) + abs(top))
        lost = float(LONG_EPS * len(prior) * terms + self.total * shift.max())
        return prior.sum() - self.total - self.total * log_mass - linear, lost


class BoostVerifier(Verifier):
    """``sum_i w_i exp(-y_i (H alpha)_i)``, from the steps of the run."""

    kind = BoostResult
    wanted, required, multipliers = "the arguments H and y of boost_hypotheses", "H y", ""

    def __init__(self, arguments: Mapping[str, Any], result: BoostResult) -> None:
        super().__init__(arguments, result)
        self.H, self.y = (numbers(arguments[name]).astype(LONG) for name in "Hy")
        weight = arguments.get("sample_weight")
        w = np.ones(len(self.y)) if weight is None else numbers(weight)
        self.w = w.astype(LONG) / w.sum()
        if not np.isin(result.rows, np.arange(self.H.shape[1])).all() or len(result.rows) != len(result.steps):
            raise ValueError(f"the result has steps of other hypotheses than the {self.H.shape[1]} of H.")

    def compare_figures(self, is_feasible: bool) -> None:
        """Compare the loss after every step with its bound, and the figures at the end; 0 is a lower bound of every loss."""
        result, report, y, w = self.result, self.report, self.y, self.w
        if (result.weights < 0).any():
            self.refuse("a hypothesis has a negative weight")
        weights = np.zeros(self.H.shape[1], dtype=LONG)
        losses = np.empty(len(result.rows), dtype=LONG)
        for k, (row, step) in enumerate(zip(result.rows, result.steps.astype(LONG))):
            weights[row] += step
            losses[k] = (w * np.exp(-y * (self.H @ weights))).sum()
        report.compare("weights", weights, HALF_DIGITS * float(np.abs(result.weights).max(initial=0)))
        report.compare("loss", losses, HALF_DIGITS)
        report.compare("unit", 1.0, HALF_DIGITS)  # the initial loss
        report.compare("gap", result.objective, HALF_DIGITS)
        margins = y * (self.H @ result.weights.astype(LONG))
        terms = w * np.exp(-margins)
        loss = terms.sum()  # may be outside of the range of float64 if a hypothesis is perfect
        slack = HALF_DIGITS + 64 * EPS * (1 + float(np.abs(margins).max()))
        report.compare("objective", float(loss), slack * float(loss) + TINY)
        report.bound_from_below("dual_bound", 0.0, 0.0)
        report.compare("sample_weight", terms / (loss if loss > 0 else 1), slack)
        if len(result.bound) != len(losses) or not (losses <= result.bound * (1 + slack) + TINY).all():
            what = f"the loss is {float(loss):.9g} at the end"
            report.problem(f"{what}, and above the bound of Theorem 4.1 after some step")
