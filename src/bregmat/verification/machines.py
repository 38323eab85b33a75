"""Margin machines: weights, primal and dual value from the kernel matrix itself, and points of two hulls that coincide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.certificates.status import Status
from bregmat.kernels.sources import Precomputed
from bregmat.margin.hulls import coinciding
from bregmat.margin.result import MarginResult
from bregmat.verification.extended import arithmetic, precision_text, unit_of
from bregmat.verification.figures import CLOSE, EXACT, ROUNDING, Verification, check_arguments, recompute

LARGEST = 4000  # samples up to which the kernel matrix is formed


@recompute.register
def _(result: MarginResult, problem: Any, found: Verification) -> None:
    signs, upper, ridge, has_intercept, kernel = _machine(problem)
    n = len(signs)
    if len(result.alpha) != n:
        raise ValueError(f"the result has {len(result.alpha)} weights; the problem has {n} samples.")
    if n > LARGEST:
        found.unchecked.append(f"{n} samples are more than {LARGEST}")
        return
    K = kernel() if callable(kernel) else np.asarray(kernel, dtype=float)
    on = np.flatnonzero(result.alpha)
    real = arithmetic(4.0 * n * len(on))
    found.precision = precision_text(real)
    alpha = result.alpha.astype(real)
    if (alpha < 0).any() or (alpha > upper * (1 + 4 * ROUNDING)).any():
        found.problem("a weight is outside of its box", Status.UNKNOWN)
        return
    x, counts = alpha * signs, upper > 0
    sums = K[:, on].astype(real) @ x[on]  # decision values without the intercept
    q = x @ sums
    size = float(np.abs(x) @ (np.abs(K[:, on]).astype(real) @ np.abs(x[on])))
    noise = 64 * ROUNDING * size + unit_of(real) * n * size
    if found.claimed is Status.INFEASIBLE:
        _report_hulls(result, problem, K, x, float(q), noise, found)
        return
    margins = signs * (sums + result.intercept)
    # in float32 where the sample is far from the margin: its roundings of all terms, and a share of the distance
    single = 4e-7 * float(np.abs(K[:, on]).max(initial=0.0)) * float(alpha.sum()) + 1e-3 * np.abs(margins - 1)
    if found.claimed is not Status.UNKNOWN:  # else there is no machine
        found.compare_all("decision", result.decision, (signs * margins).astype(float), single.astype(float) + CLOSE)
    bounds = np.unique(upper[counts])
    found.compare_all("price", np.array(result.price), np.array(bounds[0] if len(bounds) == 1 else np.nan), 0.0)
    if not np.isnan(result.margin_bound):
        found.problem(f"a largest margin of {result.margin_bound:.3g} is claimed of classes that can be separated")
    may_err = bool(np.isfinite(upper).all() or ridge.any())
    if not (may_err or np.isfinite(result.gap) or found.claimed is Status.UNKNOWN):
        found.problem("errors are not allowed, and no machine without any was found", Status.UNKNOWN)
    slack = np.where(counts, np.maximum(1 - margins, 0), 0)
    # of weights whose signed sum is 0, as it has to be where there is an intercept: without what one class has too much
    balanced = alpha * _kept(x) if has_intercept else alpha
    own = signs * balanced
    dual = balanced.sum() - own @ (K[:, on].astype(real) @ own[on]) / 2 - (ridge * balanced**2).sum() / 2
    is_feasible, price = True, np.zeros(n, dtype=real)
    if ridge.any():
        price = slack**2 / (2 * np.where(ridge > 0, ridge, 1))
    elif np.isfinite(upper).all():
        price = upper * slack
    else:
        is_feasible = _meets_margins(slack, K, counts, alpha, found)
    primal = q / 2 + price.sum()
    largest = float(np.abs(K[:, on]).max(initial=0.0)) * float(alpha.sum()) + abs(result.intercept)
    errors = float((np.where(np.isfinite(upper), upper, 0) * (slack > 0)).sum())
    rounding = 16 * ROUNDING * size + 64 * ROUNDING * errors * largest
    gap = _report_values(result, float(primal), float(dual), rounding, found)
    found.judge(result, gap, is_feasible)
    _parts(
        result, Costs(alpha, _kept(x) if has_intercept else np.ones(n), signs, upper, ridge), sums, np.diag(K), found
    )


def _report_values(result: MarginResult, primal: float, dual: float, rounding: float, found: Verification) -> float:
    """Compare objective, unit, bound and gap with the primal and dual values; return the gap that was recomputed.

    Parameters
    ----------
    result : MarginResult
    primal, dual : float
        Values of the two problems.
    rounding : float
        Rounding of these values.
    found : Verification
    """
    unit = abs(primal) or 1.0
    if not result.objective == result.gap == np.inf:  # else the objective was not computed, which is no claim
        found.compare("objective", result.objective, primal, CLOSE * unit + 16 * rounding)
        found.compare("unit", result.unit, unit, EXACT * unit + 16 * rounding)
    found.bound_from_below("dual_bound", result.dual_bound, dual, CLOSE * unit + 16 * rounding)
    apart = result.objective - result.dual_bound
    lost = 16 * rounding + 64 * ROUNDING * (abs(result.objective) + abs(result.dual_bound))
    if np.isfinite(result.gap) and not result.gap * result.unit >= apart * (1 - EXACT) - lost:
        found.problem(f"objective and bound are {apart:.9g} apart, more than a gap of {result.gap:.9g}")
    gap = (primal - dual) / unit
    if rounding > result.tol * unit:
        found.notes.append(f"rounding of the kernel's values is worth {rounding / unit:.2g} of the objective")
        gap = max(gap - rounding / unit, 0.0)
    return gap


def _report_hulls(
    result: MarginResult, problem: Any, K: np.ndarray, x: np.ndarray, q: float, noise: float, found: Verification
) -> None:
    """Check a claim that no margin is possible: the weights x = alpha * signs name coinciding points of the two hulls.

    Parameters
    ----------
    result : MarginResult
    problem : MarginProblem or mapping
    K : ndarray, shape (n, n)
        Kernel matrix.
    x : ndarray, shape (n,)
    q, noise : float
        ``x' K x``, the squared distance of the two points, and its rounding.
    found : Verification
    """
    signs, _, _, has_intercept, _ = _machine(problem)
    alpha, on, n = x * signs, np.flatnonzero(result.alpha), len(signs)
    if has_intercept and not abs(float(x.sum())) <= 1e3 * ROUNDING * float(alpha.sum()):
        found.problem("the weights of the two classes do not have the same sum", Status.UNKNOWN)
    wanted = 2.0 if has_intercept else 1.0
    if not abs(float(alpha.sum()) - wanted) <= 1e-9:
        found.problem(f"the weights sum to {float(alpha.sum()):.9g} instead of {wanted:g}", Status.UNKNOWN)
    distance = float(np.sqrt(max(float(q), 0.0)))
    found.figures["distance of the hulls"] = (np.nan, distance)
    source = Precomputed(K) if isinstance(problem, Mapping) else problem.kernel
    if coinciding(source, signs, result.alpha > 0, result.alpha, intercept=has_intercept) is None:
        found.problem(f"the points of the two hulls are {distance:.3g} apart, not proven to coincide", Status.UNKNOWN)
    found.named(result.conflict, on, n)
    if not distance / wanted <= result.margin_bound * (1 + CLOSE) + np.sqrt(noise):
        found.problem(
            f"no margin above {distance / wanted:.3g} is proven to be impossible, not {result.margin_bound:.3g}"
        )


def _meets_margins(
    slack: np.ndarray, K: np.ndarray, counts: np.ndarray, alpha: np.ndarray, found: Verification
) -> bool:
    """Whether every sample of a hard-margin machine is outside of the margin, up to the rounding of the weights.

    Parameters
    ----------
    slack : ndarray, shape (n,)
        By how much each sample is within the margin.
    K : ndarray, shape (n, n)
        Kernel matrix.
    counts : ndarray of bool, shape (n,)
        Samples that count.
    alpha : ndarray, shape (n,)
        Weights.
    found : Verification
    """
    missed = float(slack.max())
    lengths = np.sqrt(np.maximum(np.diag(K), 0))
    blur = 16 * ROUNDING * float(lengths[counts].max()) * float(lengths @ alpha)
    is_feasible = missed <= 1e-8 + blur < 1
    if not is_feasible and found.claimed is not Status.UNKNOWN:
        vague = "rounding of weights as large hides whether samples are outside the margin"
        found.problem(vague if blur >= 1 else f"a sample is within the margin by {missed:.2g}")
    return is_feasible


@dataclass(frozen=True, eq=False)
class Costs:
    """What each sample that counts leaves between primal and dual, a convex function of its margin.

    Attributes
    ----------
    alpha, kept, signs, upper, ridge : ndarray, shape (n,)
        Weights, the share of each that is left where those of both classes sum to the same, labels, bounds of the weights (0: the
        sample does not count), and ridge of the squared hinge.
    """

    alpha: np.ndarray
    kept: np.ndarray
    signs: np.ndarray
    upper: np.ndarray
    ridge: np.ndarray

    def at(self, margins: np.ndarray, scale: Any) -> np.ndarray:
        """For weights over ``scale``, at margins (n,); 0 for samples that do not count."""
        alpha, ridge = self.alpha / scale, np.where(self.ridge > 0, self.ridge, 1)
        beyond = self.ridge * alpha**2 / 2 + alpha * self.kept * np.maximum(margins - 1, 0)
        short = np.where(np.isfinite(self.upper), np.maximum(self.upper - alpha, 0), 0) * np.maximum(1 - margins, 0)
        within = np.where(self.ridge > 0, (1 - margins - self.ridge * alpha) ** 2 / (2 * ridge), short)
        return np.where(self.upper > 0, np.where(margins < 1, within, beyond), 0)

    def least(self, margins: np.ndarray, ball: np.ndarray, scale: Any) -> np.ndarray:
        """The least of it where margins may be off by ``ball`` (n,)."""
        best = 1 - self.ridge * self.alpha / scale
        return self.at(np.clip(best, margins - ball, margins + ball), scale)


def _parts(result: MarginResult, costs: Costs, sums: np.ndarray, diagonal: np.ndarray, found: Verification) -> None:
    """Whether the samples that are called certified support every optimum, or none.

    A machine costs ``|w - w'|^2 / 2`` plus the sum of what its samples leave more than the dual value of the weights of w'; with
    that of w' itself as the most that an optimum may have, every optimal value is within ``sqrt(2 most K_ii)`` of the own one.
    """
    certified, support = np.asarray(result.certified, dtype=bool), np.asarray(result.certified_support, dtype=bool)
    counts, n = costs.upper > 0, len(costs.upper)
    if certified.shape != (n,) or support.shape != (n,) or (support & ~certified).any():
        found.problem("certified support vectors are not among the certified samples")
        return
    if not (certified & counts).any():
        return
    never, always = ~counts, np.zeros(n, dtype=bool)
    margins = costs.signs * (sums + result.intercept)
    smallest = float(margins[counts].min())
    has_errors = bool(np.isfinite(costs.upper).all() or costs.ridge.any())
    # the machine, and divided by its smallest margin, which leaves no slack
    for scale in [1.0] * has_errors + [smallest] * (smallest > 0):
        if (costs.alpha > scale * costs.upper * (1 + CLOSE)).any():
            continue
        most = costs.at(np.maximum(margins / scale, 1) if scale != 1.0 else margins, scale).sum()
        ball = np.sqrt(2 * most * np.maximum(diagonal, 0))
        low = high = result.intercept / scale
        if result.intercept:
            low, high = _intercepts(costs, sums / scale, ball, low, most, scale, has_errors)
        near, far = (np.where(costs.signs > 0, *ends) for ends in ((low, -high), (high, -low)))
        near, far = (costs.signs * sums / scale + way for way in (near, far))
        room = CLOSE * (ball + np.abs(near) + np.abs(far) + 1)
        never, always = never | (near - ball > 1 - room), always | (far + ball < 1 + room)
    for said, proven, words in ((support, always, "a"), (certified & ~support, never, "no")):
        if (wrong := np.flatnonzero(said & ~proven)).size:
            found.problem(f"sample {wrong[0]} is not proven to be {words} support vector of every optimum")


def _intercepts(
    costs: Costs, f: np.ndarray, ball: np.ndarray, b: Any, most: Any, scale: Any, has_errors: bool
) -> tuple[Any, Any]:
    """An interval that holds every optimal intercept: values f (n,) may be off by ``ball``, and samples leave ``most`` in all."""
    plus, minus = ((costs.upper > 0) & (way * costs.signs > 0) for way in (1, -1))
    if not has_errors:
        return (1 - f - ball)[plus].max(initial=-np.inf), (ball - 1 - f)[minus].min(initial=np.inf)
    ends = []
    for way in (-1, 1):
        inside, step = b, 4 * ball.max() + CLOSE * (1 + abs(b))
        while costs.least(costs.signs * (f + b + way * step), ball, scale).sum() <= most:
            inside, step = b + way * step, 4 * step
            if not step < 1e300:
                return -np.inf, np.inf
        outside = b + way * step
        for _ in range(50):
            middle = (inside + outside) / 2
            within = costs.least(costs.signs * (f + middle), ball, scale).sum() <= most
            inside, outside = (middle, outside) if within else (inside, middle)
        ends.append(outside)
    return ends[0], ends[1]


def _kept(x: np.ndarray) -> np.ndarray:
    """The share of each signed weight (n,) that is left where the class with the larger sum gives up what it has too much."""
    plus, minus = x[x > 0].sum(), -x[x < 0].sum()
    least = min(plus, minus)
    return np.where(x > 0, least / plus if plus > 0 else 1, least / minus if minus > 0 else 1)


def _machine(problem: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool, Any]:
    """Signs, largest weights, ridge, whether there is an intercept, and the kernel matrix or what gives it."""
    if isinstance(problem, Mapping):
        wanted = "the kernel matrix as kernel and labels of +1 and -1 as signs, and perhaps C, sample_weight, squared_hinge and intercept"
        check_arguments(problem, wanted, "kernel signs")
        kernel, signs = problem["kernel"], np.asarray(problem["signs"], dtype=float)
        C, squared = (
            float(problem.get("C", 1.0)),
            bool(problem.get("squared_hinge", False)) and np.isfinite(problem.get("C", 1.0)),
        )
        weight = np.asarray(1.0 if problem.get("sample_weight") is None else problem["sample_weight"], dtype=float)
        weight = np.broadcast_to(weight, signs.shape)
        price = np.where(weight > 0, np.where(weight > 0, weight, 1.0) * C, 0.0)
        if not squared:
            return signs, price, np.zeros(len(signs)), bool(problem.get("intercept", True)), kernel
        ridge = np.divide(1.0, price, out=np.zeros(len(signs)), where=price > 0)
        return signs, np.where(price > 0, np.inf, 0.0), ridge, bool(problem.get("intercept", True)), kernel
    everything = np.arange(problem.n)
    return (
        problem.signs,
        problem.upper,
        problem.ridge,
        problem.intercept,
        lambda: problem.kernel.block(everything, everything),
    )
