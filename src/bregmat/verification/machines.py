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
from bregmat.verification.extended import arithmetic, numbers, unit_of
from bregmat.verification.report import EXACT
from bregmat.verification.verifier import Verifier

MAX_SAMPLES = 4000  # number of samples up to which the kernel matrix is formed


class MachineVerifier(Verifier):
    """The machine of labels ``signs`` (n,), bounds ``upper`` of the weights (0 excludes a sample), and ``ridge`` of the squared hinge."""

    kind = MarginResult
    wanted = "the kernel matrix as kernel and labels of +1 and -1 as signs, and perhaps C, sample_weight, squared_hinge and intercept"
    required, multipliers = "kernel signs | problem", "alpha"

    def __init__(self, arguments: Mapping[str, Any], result: MarginResult) -> None:
        super().__init__(arguments, result)
        if isinstance(made := arguments.get("problem"), MarginProblem):
            self.signs, self.upper, self.ridge, self.source = made.signs, made.upper, made.ridge, made.kernel
            self.has_intercept = made.intercept
        else:
            self.source = Precomputed(np.asarray(arguments["kernel"], dtype=float))
            self.signs = np.asarray(arguments["signs"], dtype=float)
            C, weight = float(arguments.get("C", 1.0)), arguments.get("sample_weight")
            weight = np.broadcast_to(np.asarray(1.0 if weight is None else weight, dtype=float), self.signs.shape)
            self.upper, self.ridge = np.where(weight > 0, weight * C, 0.0), np.zeros(len(weight))
            self.has_intercept = bool(arguments.get("intercept", True))
            if arguments.get("squared_hinge", False) and np.isfinite(C):
                self.ridge = np.where(self.upper > 0, 1.0 / self.upper, 0.0)
                self.upper = np.where(self.upper > 0, np.inf, 0.0)
        if len(result.alpha) != len(self.signs):
            raise ValueError(f"the result has {len(result.alpha)} weights; the problem has {len(self.signs)} samples.")
        self.on = np.flatnonzero(result.alpha)
        self.real = arithmetic(4.0 * len(self.signs) * len(self.on))
        self.alpha = result.alpha.astype(self.real)

    def check_claims(self) -> bool:
        """Check the box of the weights, and compute the products of the kernel matrix with them."""
        if (n := len(self.signs)) > MAX_SAMPLES:
            self.report.unchecked.append(f"{n} samples are more than {MAX_SAMPLES}")
            return False
        if (self.alpha < 0).any() or (self.alpha > self.upper * (1 + 4 * EPS)).any():
            return self.refuse("a weight is outside of its box")
        self.kernel, x = self._kernel(), self.alpha * self.signs
        self.sums = self.times_kernel(x)  # decision values without the intercept
        self.q, sizes = float(x @ self.sums), np.abs(self.kernel[:, self.on])
        self.size = float(np.abs(x) @ (sizes.astype(self.real) @ np.abs(x[self.on])))
        self.largest = float(sizes.max(initial=0.0)) * float(self.alpha.sum())
        return True

    def _kernel(self) -> np.ndarray:
        """The kernel matrix. A linear kernel may have been centred; then it is the one that the intercept of the result belongs to."""
        result, rows = self.result, np.arange(len(self.signs))
        K = self.source.block(rows, rows)
        points, is_linear = self.source.exact(rows)
        if not is_linear or isinstance(self.source, Precomputed):
            return np.asarray(K)
        plain, x = numbers(points @ points.T), result.alpha * self.signs
        centred_error, error = (float(np.abs(A @ x + result.intercept - result.decision).max()) for A in (K, plain))
        return plain if error < centred_error else np.asarray(K)

    def times_kernel(self, x: np.ndarray) -> np.ndarray:
        """``K x`` for weights that are 0 where those of the result are."""
        return np.asarray(self.kernel[:, self.on].astype(self.real) @ x[self.on])

    def check_contradiction(self) -> None:
        """Check a proof that no margin exists: two points of the hulls, given by the weights, whose distance is ``sqrt(q)``, coincide."""
        result, total, wanted = self.result, float(self.alpha.sum()), 2.0 if self.has_intercept else 1.0
        if self.has_intercept and not abs(float(self.alpha @ self.signs)) <= 1e3 * EPS * total:
            self.refuse("the weights of the two classes do not have the same sum")
        if not abs(total - wanted) <= 1e-9:
            self.refuse(f"the weights sum to {total:.9g} instead of {wanted:g}")
        distance = float(np.sqrt(max(self.q, 0.0)))
        self.report.figures["distance of the hulls"] = (np.nan, distance)
        if coinciding(self.source, self.signs, result.alpha > 0, result.alpha, intercept=self.has_intercept) is None:
            self.refuse(f"the points of the two hulls are {distance:.3g} apart, not proven to coincide")
        self.check_conflict(result.conflict, self.on, len(self.signs))
        margin, noise = distance / wanted, (64 * EPS + unit_of(self.real) * len(self.signs)) * self.size
        if not margin <= result.margin_bound * (1 + HALF_DIGITS) + np.sqrt(noise):
            self.report.problem(
                f"no margin above {margin:.3g} is proven to be impossible, not {result.margin_bound:.3g}"
            )

    def check_point(self) -> bool:
        """Compare the decision values, and what only some machines have."""
        result, report = self.result, self.report
        margins = self.signs * (self.sums + result.intercept)
        # samples far from the margin may be computed in float32: its rounding of all terms, and a fraction of the distance
        single = 4e-7 * self.largest + 1e-3 * np.abs(margins - 1)
        if report.claimed is not Status.UNKNOWN:  # which may have no machine
            report.compare("decision", (self.signs * margins).astype(float), single.astype(float) + HALF_DIGITS)
        if not np.isnan(result.margin_bound):
            report.problem(f"a largest margin of {result.margin_bound:.3g} is claimed of classes that can be separated")
        self.may_err = bool(np.isfinite(self.upper).all() or self.ridge.any())
        if not (self.may_err or np.isfinite(result.gap) or report.claimed is Status.UNKNOWN):
            self.refuse("errors are not allowed, and no machine without any was found")
        self.slack = np.where(self.upper > 0, np.maximum(1 - margins, 0), 0)
        return True

    def check_rows(self) -> bool:
        """Whether every sample of a hard-margin machine is outside of the margin, up to rounding of the weights."""
        if self.may_err:
            return True
        missed = float(self.slack.max())
        lengths = np.sqrt(np.maximum(np.diag(self.kernel), 0))
        blur = 16 * EPS * float(lengths[self.upper > 0].max()) * float(lengths @ self.alpha)
        vague = "rounding of weights as large hides whether samples are outside the margin"
        text = vague if blur >= 1 else f"a sample is within the margin by {missed:.2g}"
        return self.report.check_feasible(missed <= 1e-8 + blur < 1, text)

    def compare_figures(self, is_feasible: bool) -> None:
        """Primal ``q / 2`` plus the cost of the slack, and dual ``sum a - q / 2 - sum ridge a^2 / 2``, with their rounding."""
        result, report, slack, upper, ridge = self.result, self.report, self.slack, self.upper, self.ridge
        finite = np.where(np.isfinite(upper), upper, 0)
        cost = slack**2 / (2 * np.where(ridge > 0, ridge, 1)) if ridge.any() else finite * slack * self.may_err
        primal = float(self.q / 2 + cost.sum())
        # With an intercept, the signed weights must sum to 0: the weights of the class with the larger sum are reduced.
        balanced = self.alpha * (_kept(self.alpha * self.signs) if self.has_intercept else 1.0)
        own = self.signs * balanced
        dual = float(balanced.sum() - own @ self.times_kernel(own) / 2 - (ridge * balanced**2).sum() / 2)
        errors = float((finite * (slack > 0)).sum())
        rounding = 16 * EPS * self.size + 64 * EPS * errors * (self.largest + abs(result.intercept))
        unit = abs(primal) or 1.0
        allowed = HALF_DIGITS * unit + 16 * rounding
        if not result.objective == result.gap == np.inf:  # else the objective was not computed, which is no claim
            report.compare("objective", primal, allowed)
            report.compare("unit", unit, EXACT * unit + 16 * rounding)
        report.bound_from_below("dual_bound", dual, allowed + 64 * EPS * abs(dual))
        report.check_gap(16 * rounding + 64 * EPS * (abs(result.objective) + abs(result.dual_bound)))
        gap = (primal - dual) / unit
        if rounding > result.tol * unit:
            report.notes.append(f"rounding of the kernel's values is worth {rounding / unit:.2g} of the objective")
            gap = max(gap - rounding / unit, 0.0)
        report.judge(gap, is_feasible)


def _kept(x: np.ndarray) -> np.ndarray:
    """Factors (n,) of signed weights that reduce the class with the larger sum to the sum of the other class."""
    plus, minus = x[x > 0].sum(), -x[x < 0].sum()
    least = min(plus, minus)
    return np.where(x > 0, least / plus if plus > 0 else 1, least / minus if minus > 0 else 1)
