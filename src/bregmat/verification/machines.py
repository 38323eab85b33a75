"""Verification of margin machines: primal and dual values from the kernel matrix, coinciding hulls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.base.tolerances import EPS, HALF_DIGITS
from bregmat.engine.status import Status
from bregmat.kernels.sources import Precomputed
from bregmat.margin.hulls import coinciding
from bregmat.margin.problem import MarginProblem
from bregmat.margin.result import MarginResult
from bregmat.verification.extended import arithmetic, numbers, precision_text, unit_of
from bregmat.verification.figures import EXACT, Verification, check_arguments, recompute


@recompute.register
def _(result: MarginResult, problem: Any, report: Verification) -> None:
    max_samples = 4000  # number of samples up to which the kernel matrix is formed
    machine = WrittenMachine(problem)
    n = len(machine.signs)
    if len(result.alpha) != n:
        raise ValueError(f"the result has {len(result.alpha)} weights; the problem has {n} samples.")
    if n > max_samples:
        report.unchecked.append(f"{n} samples are more than {max_samples}")
        return
    machine.report(result, report)


class WrittenMachine:
    """The problem: labels ``signs`` (n,), bounds ``upper`` of the weights (0 excludes a sample), ``ridge`` of the squared hinge."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.source: Any = None  # the kernel of a MarginProblem
        if isinstance(made := problem.get("problem"), MarginProblem):
            self.signs, self.upper, self.ridge, self.source = made.signs, made.upper, made.ridge, made.kernel
            self.has_intercept = made.intercept
            return
        wanted = "the kernel matrix as kernel and labels of +1 and -1 as signs, and perhaps C, sample_weight, squared_hinge and intercept"
        check_arguments(problem, wanted, "kernel signs")
        self.kernel, self.signs = np.asarray(problem["kernel"], dtype=float), np.asarray(problem["signs"], dtype=float)
        C, weight = float(problem.get("C", 1.0)), problem.get("sample_weight")
        weight = np.broadcast_to(np.asarray(1.0 if weight is None else weight, dtype=float), self.signs.shape)
        upper = np.where(weight > 0, weight * C, 0.0)
        self.has_intercept, self.upper, self.ridge = bool(problem.get("intercept", True)), upper, np.zeros(len(upper))
        if problem.get("squared_hinge", False) and np.isfinite(C):
            self.ridge = np.where(upper > 0, 1.0 / upper, 0.0)
            self.upper = np.where(upper > 0, np.inf, 0.0)

    def _kernel_of(self, result: MarginResult, rows: np.ndarray) -> np.ndarray:
        """The kernel matrix. A linear kernel may have been centred; then it is the one that the intercept of the result belongs to."""
        K = self.source.block(rows, rows)
        points, is_linear = self.source.exact(rows)
        if not is_linear or isinstance(self.source, Precomputed):
            return K
        plain, x = numbers(points @ points.T), result.alpha * self.signs
        centred_error, error = (float(np.abs(A @ x + result.intercept - result.decision).max()) for A in (K, plain))
        return plain if error < centred_error else K

    def report(self, result: MarginResult, report: Verification) -> None:
        """Compare all figures of the result."""
        signs, upper, ridge, n = self.signs, self.upper, self.ridge, len(self.signs)
        if self.source is not None:
            self.kernel = self._kernel_of(result, np.arange(n))
        on = np.flatnonzero(result.alpha)
        K, real = self.kernel[:, on], arithmetic(4.0 * n * len(on))
        report.precision = precision_text(real)
        self.alpha = alpha = result.alpha.astype(real)
        if (alpha < 0).any() or (alpha > upper * (1 + 4 * EPS)).any():
            report.problem("a weight is outside of its box", Status.UNKNOWN)
            return
        x, self.counts = alpha * signs, upper > 0
        sums = K.astype(real) @ x[on]  # decision values without the intercept
        q, size = x @ sums, float(np.abs(x) @ (np.abs(K).astype(real) @ np.abs(x[on])))
        if report.claimed is Status.INFEASIBLE:
            self._report_hulls(result, float(q), 64 * EPS * size + unit_of(real) * n * size, report)
            return
        margins, largest = signs * (sums + result.intercept), float(np.abs(K).max(initial=0.0)) * float(alpha.sum())
        # samples far from the margin may be computed in float32: its rounding of all terms, and a fraction of the distance
        single = 4e-7 * largest + 1e-3 * np.abs(margins - 1)
        if report.claimed is not Status.UNKNOWN:  # which may have no machine
            decision = (signs * margins).astype(float)
            report.compare_all("decision", decision, single.astype(float) + HALF_DIGITS)
        if not np.isnan(result.margin_bound):
            report.problem(f"a largest margin of {result.margin_bound:.3g} is claimed of classes that can be separated")
        self.may_err = bool(np.isfinite(upper).all() or ridge.any())
        if not (self.may_err or np.isfinite(result.gap) or report.claimed is Status.UNKNOWN):
            report.problem("errors are not allowed, and no machine without any was found", Status.UNKNOWN)
        slack = np.where(self.counts, np.maximum(1 - margins, 0), 0)
        # With an intercept, the signed weights must sum to 0: the weights of the class with the larger sum are reduced.
        self.kept = _kept(x) if self.has_intercept else np.ones(n)
        balanced = alpha * self.kept
        own = signs * balanced
        dual = balanced.sum() - own @ (K.astype(real) @ own[on]) / 2 - (ridge * balanced**2).sum() / 2
        if ridge.any():
            cost = slack**2 / (2 * np.where(ridge > 0, ridge, 1))
        else:
            cost = np.where(np.isfinite(upper), upper, 0) * slack if self.may_err else np.zeros(n, dtype=real)
        is_feasible = self.may_err or self._meets_margins(slack, report)
        errors = float((np.where(np.isfinite(upper), upper, 0) * (slack > 0)).sum())
        rounding = 16 * EPS * size + 64 * EPS * errors * (largest + abs(result.intercept))
        gap = _report_values(result, float(q / 2 + cost.sum()), float(dual), rounding, report)
        report.judge(gap, is_feasible)

    def _report_hulls(self, result: MarginResult, q: float, noise: float, report: Verification) -> None:
        """Check a proof that no margin exists: two points of the hulls, given by the weights, with the squared distance q coincide."""
        total, wanted = float(self.alpha.sum()), 2.0 if self.has_intercept else 1.0
        if self.has_intercept and not abs(float(self.alpha @ self.signs)) <= 1e3 * EPS * total:
            report.problem("the weights of the two classes do not have the same sum", Status.UNKNOWN)
        if not abs(total - wanted) <= 1e-9:
            report.problem(f"the weights sum to {total:.9g} instead of {wanted:g}", Status.UNKNOWN)
        distance = float(np.sqrt(max(q, 0.0)))
        report.figures["distance of the hulls"] = (np.nan, distance)
        source = Precomputed(self.kernel) if self.source is None else self.source
        if coinciding(source, self.signs, result.alpha > 0, result.alpha, intercept=self.has_intercept) is None:
            what = f"the points of the two hulls are {distance:.3g} apart, not proven to coincide"
            report.problem(what, Status.UNKNOWN)
        report.named(result.conflict, np.flatnonzero(result.alpha), len(self.signs))
        margin = distance / wanted
        if not margin <= result.margin_bound * (1 + HALF_DIGITS) + np.sqrt(noise):
            report.problem(f"no margin above {margin:.3g} is proven to be impossible, not {result.margin_bound:.3g}")

    def _meets_margins(self, slack: np.ndarray, report: Verification) -> bool:
        """Whether every sample of a hard-margin machine is outside of the margin, up to rounding of the weights."""
        missed = float(slack.max())
        lengths = np.sqrt(np.maximum(np.diag(self.kernel), 0))
        blur = 16 * EPS * float(lengths[self.counts].max()) * float(lengths @ self.alpha)
        vague = "rounding of weights as large hides whether samples are outside the margin"
        text = vague if blur >= 1 else f"a sample is within the margin by {missed:.2g}"
        return report.check_feasible(missed <= 1e-8 + blur < 1, text)


def _report_values(result: MarginResult, primal: float, dual: float, rounding: float, report: Verification) -> float:
    """Compare objective, unit, bound and gap with the primal and dual values and their rounding; return the recomputed gap."""
    unit = abs(primal) or 1.0
    if not result.objective == result.gap == np.inf:  # else the objective was not computed, which is no claim
        report.compare("objective", primal, HALF_DIGITS * unit + 16 * rounding)
        report.compare("unit", unit, EXACT * unit + 16 * rounding)
    report.bound_from_below("dual_bound", dual, HALF_DIGITS * unit + 16 * rounding + 64 * EPS * abs(dual))
    report.check_gap(16 * rounding + 64 * EPS * (abs(result.objective) + abs(result.dual_bound)))
    gap = (primal - dual) / unit
    if rounding > result.tol * unit:
        report.notes.append(f"rounding of the kernel's values is worth {rounding / unit:.2g} of the objective")
        gap = max(gap - rounding / unit, 0.0)
    return gap


def _kept(x: np.ndarray) -> np.ndarray:
    """Factors (n,) of signed weights that reduce the class with the larger sum to the sum of the other class."""
    plus, minus = x[x > 0].sum(), -x[x < 0].sum()
    least = min(plus, minus)
    return np.where(x > 0, least / plus if plus > 0 else 1, least / minus if minus > 0 else 1)
