"""Verification of nearest distributions (relative entropy, rows, dual bound) and of boosting (exponential loss)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.applications.simplex.boosting import BoostResult
from bregmat.applications.simplex.nearest import DistributionResult
from bregmat.base.tolerances import EPS, HALF_DIGITS, TINY
from bregmat.constraints.columns import sense_codes
from bregmat.engine.status import Status
from bregmat.verification.extended import LONG, numbers, precision_text, unit_of
from bregmat.verification.figures import (
    EXACT,
    ROUNDINGS,
    Verification,
    allowance,
    check_arguments,
    excess_of,
    recompute,
    with_right_signs,
)

LONG_EPS = unit_of(LONG)


@recompute.register
def _(result: DistributionResult, problem: Any, report: Verification) -> None:
    Distribution(problem).report(result, report)


class Distribution:
    """``KL(x, prior)`` over ``x >= 0``, ``A x <sense> b``, ``sum x = total``, from arguments of :func:`bregmat.nearest_distribution`."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        check_arguments(arguments, "the arguments prior, A, b and sense of nearest_distribution", "prior A b sense")
        self.A = np.atleast_2d(numbers(arguments["A"])).astype(LONG)
        self.prior = numbers(arguments["prior"]).astype(LONG)
        c = len(self.A)
        self.b = np.broadcast_to(np.asarray(arguments["b"], dtype=float), (c,)).astype(LONG)
        self.sense = sense_codes(arguments["sense"], c).astype(int)
        total = arguments.get("total", 1.0)
        self.total = None if total is None else LONG(total)
        mass = LONG(1) if self.total is None else self.total / self.prior.sum()
        unit, size = np.abs(self.b), mass * (np.abs(self.A) @ self.prior)
        self.unit = np.where(unit > 0, unit, np.where(size > 0, size, 1))

    def report(self, result: DistributionResult, report: Verification) -> None:
        """Compare all figures of the result."""
        report.precision = precision_text(LONG)
        mu, x, on = result.dual.astype(LONG), result.x.astype(LONG), self.prior > 0
        if len(mu) != len(self.b) or len(x) != len(self.prior):
            sizes = f"{len(self.prior)} and {len(self.b)}"
            raise ValueError(f"the result has {len(x)} entries and {len(mu)} constraints; the problem has {sizes}.")
        mu = with_right_signs(mu, self.sense, report)
        if report.claimed is Status.INFEASIBLE:
            report.named(result.conflict, np.flatnonzero(mu), len(self.b))
            self._contradiction(mu, report)
            return
        if not np.isfinite(x).all() or (x < 0).any() or (x[~on] > 0).any():
            report.problem("x is not a nonnegative vector on the support of prior", Status.UNKNOWN)
            return
        excess = excess_of(self.A @ x - self.b, self.sense)
        noise = 8 * EPS / ROUNDINGS * (np.abs(self.A) @ x + np.abs(self.b))
        worst = float((excess / self.unit).max(initial=0.0))
        report.compare_rows(self.A @ x, excess, self.unit, noise, np.ones(len(mu), dtype=bool))
        is_feasible = bool((excess <= allowance(noise, self.unit)).all())
        if self.total is not None and not abs(x.sum() - self.total) <= 1e-12 * self.total:
            is_feasible = False
            report.problem(f"x sums to {float(x.sum()):.17g}")
        report.check_feasible(is_feasible, f"a constraint is missed by {worst:.2g}")
        # KL(x, prior) = sum x log(x / prior) - x + prior
        entropy = np.where(x > 0, x * np.log(np.where(x > 0, x, 1) / np.where(on, self.prior, 1)), 0)
        objective = (entropy - x + self.prior).sum()
        bound, lost = self._bound(mu)
        mass = float(self.prior.sum() if self.total is None else self.total)
        size = max(mass, abs(float(objective)), min(result.unit, 1.0))
        report.compare("unit", size, EXACT * size)
        upper = objective + np.abs(mu) @ excess
        terms = float((np.abs(entropy) + x + self.prior).sum())
        if is_feasible:
            report.compare("objective", float(objective), HALF_DIGITS * size + 8 * EPS * terms)
        report.bound_from_below("dual_bound", float(bound), HALF_DIGITS * 1e-2 * size, lost, size)
        report.judge(float(upper - bound + lost) / size if is_feasible else np.inf, is_feasible)

    def _bound(self, mu: np.ndarray) -> tuple[Any, float]:
        """Minimum of the Lagrangian, and its rounding."""
        on = self.prior > 0
        prior, v = self.prior[on], (mu @ self.A)[on]
        shift = LONG_EPS * (len(mu) + 4) * (np.abs(mu) @ np.abs(self.A))[on]
        linear, terms = mu @ self.b, prior.sum() + np.abs(mu) @ np.abs(self.b)
        if self.total is None:
            y = prior * np.exp(-v)
            return prior.sum() - y.sum() - linear, float(LONG_EPS * len(prior) * (terms + y.sum()) + shift @ y)
        # total log (sum prior exp(-v) / total), computed relative to the largest term
        top = (np.log(prior) - v).max()
        log_mass = top + np.log(np.exp(np.log(prior) - v - top).sum()) - np.log(self.total)
        terms = terms + self.total * (1 + abs(log_mass) + abs(top))
        lost = float(LONG_EPS * len(prior) * terms + self.total * shift.max())
        return prior.sum() - self.total - self.total * log_mass - linear, lost

    def _contradiction(self, y: np.ndarray, report: Verification) -> None:
        """Check that ``total min(A'y) > y . b``, which contradicts ``A x <= b``; or for a free sum, ``A'y >= 0`` and ``y . b < 0``."""
        on = self.prior > 0
        v, noise = (y @ self.A)[on], 16 * EPS * np.count_nonzero(y) * (np.abs(y) @ np.abs(self.A))[on]
        least = 16 * EPS * np.count_nonzero(y) * (np.abs(y) @ np.abs(self.b))
        value = y @ self.b
        report.figures["y . b"] = (np.nan, float(value))
        if self.total is None:
            holds = (v >= -noise).all() and value < -least
        else:
            holds = self.total * (v - noise).min() > value + least
        if not holds:
            report.problem("the dual weights do not separate the constraints from all vectors", Status.UNKNOWN)


@recompute.register
def _(result: BoostResult, problem: Any, report: Verification) -> None:
    check_arguments(problem, "the arguments H and y of boost_hypotheses", "H y")
    H, y = (numbers(problem[name]).astype(LONG) for name in "Hy")
    weight = problem.get("sample_weight")
    w = np.ones(len(y)) if weight is None else numbers(weight)
    w = w.astype(LONG) / w.sum()
    report.precision = precision_text(LONG)
    if (result.weights < 0).any():
        report.problem("a hypothesis has a negative weight", Status.UNKNOWN)
    if not np.isin(result.rows, np.arange(H.shape[1])).all() or len(result.rows) != len(result.steps):
        raise ValueError(f"the result has steps of other hypotheses than the {H.shape[1]} of H.")
    weights = np.zeros(H.shape[1], dtype=LONG)
    losses = np.empty(len(result.rows), dtype=LONG)
    for k, (row, step) in enumerate(zip(result.rows, result.steps.astype(LONG))):
        weights[row] += step
        losses[k] = (w * np.exp(-y * (H @ weights))).sum()
    report.compare_all("weights", weights, HALF_DIGITS * float(np.abs(result.weights).max(initial=0)))
    report.compare_all("loss", losses, HALF_DIGITS)
    report.compare("unit", 1.0, HALF_DIGITS)  # the initial loss
    report.compare("gap", result.objective, HALF_DIGITS)
    margins = y * (H @ result.weights.astype(LONG))
    terms = w * np.exp(-margins)
    loss = terms.sum()  # may be outside of the range of float64 if a hypothesis is perfect
    slack = 64 * EPS * (1 + float(np.abs(margins).max()))
    report.compare("objective", float(loss), (HALF_DIGITS + slack) * float(loss) + TINY)
    report.bound_from_below("dual_bound", 0.0, 0.0)
    report.compare_all("sample_weight", terms / (loss if loss > 0 else 1), HALF_DIGITS + slack)
    if len(result.bound) != len(losses) or not (losses <= result.bound * (1 + HALF_DIGITS + slack) + TINY).all():
        report.problem(f"the loss is {float(loss):.9g} at the end, and above the bound of Theorem 4.1 after some step")
