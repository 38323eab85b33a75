"""Margin machines: weights, primal and dual value from the kernel matrix itself, and points of two hulls that coincide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.kernels.sources import Precomputed
from bregmat.margin.hulls import coinciding
from bregmat.margin.result import MarginResult
from bregmat.status import Status
from bregmat.verification.extended import arithmetic, precision_text, unit_of
from bregmat.verification.figures import CLOSE, ROUNDING, Verification, check_arguments, recompute

LARGEST = 4000  # samples up to which the kernel matrix is formed


@recompute.register
def _(result: MarginResult, problem: Any, found: Verification) -> None:
    signs, upper, ridge, has_intercept, kernel = _machine(problem)
    n = len(signs)
    if len(result.alpha) != n:
        raise ValueError(f"the result has {len(result.alpha)} weights; the problem has {n} samples.")
    if n > LARGEST:
        found.notes.append(f"not recomputed: {n} samples are more than {LARGEST}")
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
    sums = K[:, on].astype(real) @ x[on]
    q = x @ sums
    size = float(np.abs(x) @ (np.abs(K[:, on]).astype(real) @ np.abs(x[on])))
    noise = 64 * ROUNDING * size + unit_of(real) * n * size
    if found.claimed is Status.INFEASIBLE:
        if has_intercept and not abs(float(x.sum())) <= 1e3 * ROUNDING * float(alpha.sum()):
            found.problem("the weights of the two classes do not have the same sum", Status.UNKNOWN)
        wanted = 2.0 if has_intercept else 1.0
        if not abs(float(alpha.sum()) - wanted) <= 1e-9:
            found.problem(f"the weights sum to {float(alpha.sum()):.9g} instead of {wanted:g}", Status.UNKNOWN)
        distance = float(np.sqrt(max(float(q), 0.0)))
        found.figures["distance of the hulls"] = (np.nan, distance)
        source = Precomputed(K) if isinstance(problem, Mapping) else problem.kernel
        if coinciding(source, signs, result.alpha > 0, result.alpha, intercept=has_intercept) is None:
            found.problem(
                f"the points of the two hulls are {distance:.3g} apart, not proven to coincide", Status.UNKNOWN
            )
        if np.isfinite(result.margin_bound) and not distance / wanted <= result.margin_bound * (1 + CLOSE) + np.sqrt(
            noise
        ):
            found.problem(
                f"no margin above {distance / wanted:.3g} is proven to be impossible, not {result.margin_bound:.3g}"
            )
        return
    if not np.isfinite(result.gap):
        if not np.isfinite(upper).all() and not ridge.any() and found.claimed is not Status.UNKNOWN:
            found.problem("errors are not allowed, and no machine without any was found", Status.UNKNOWN)
        return
    margins = signs * (sums + result.intercept)
    slack = np.where(counts, np.maximum(1 - margins, 0), 0)
    # of weights whose signed sum is 0, as it has to be where there is an intercept: without what one class has too much
    balanced = alpha * _kept(x) if has_intercept else alpha
    own = balanced * signs
    dual = balanced.sum() - own @ (K[:, on].astype(real) @ own[on]) / 2 - (ridge * balanced**2).sum() / 2
    is_feasible, price = True, np.zeros(n, dtype=real)
    if ridge.any():
        price = slack**2 / (2 * np.where(ridge > 0, ridge, 1))
    elif np.isfinite(upper).all():
        price = upper * slack
    else:
        missed = float(slack.max())
        lengths = np.sqrt(np.maximum(np.diag(K), 0))
        blur = 16 * ROUNDING * float(lengths[counts].max()) * float(lengths @ alpha)
        is_feasible = missed <= 1e-8 + blur < 1
        if blur >= 1:
            found.problem("rounding of weights as large hides whether samples are outside the margin")
        elif not is_feasible:
            found.problem(f"a sample is within the margin by {missed:.2g}")
    primal = q / 2 + price.sum()
    rounding = 16 * ROUNDING * size + float(
        (np.where(np.isfinite(upper), upper, 0) * (slack > 0)).sum()
    ) * 64 * ROUNDING * (float(np.abs(K[:, on]).max(initial=0.0)) * float(alpha.sum()) + abs(result.intercept))
    unit = abs(float(primal)) or 1.0
    found.compare("objective", result.objective, float(primal), CLOSE * unit + 16 * rounding)
    found.bound_from_below("dual_bound", result.dual_bound, float(dual), CLOSE * unit + 16 * rounding)
    gap = float(primal - dual) / unit
    if rounding > result.tol * unit:
        found.notes.append(f"rounding of the kernel's values is worth {rounding / unit:.2g} of the objective")
        gap = max(gap - rounding / unit, 0.0)
    found.judge(result, gap, is_feasible)
    wrong = result.certified & ~result.certified_support & (result.alpha > 0) & counts
    least = float(margins[counts].min())
    # the machine, and divided by its least margin, which leaves no slack
    for scale in (1.0, least) if least > 0 else (1.0,):
        paid = price.sum() if scale == 1.0 else 0.0
        distance = q / scale**2 + paid - balanced.sum() / scale + (ridge * balanced**2).sum() / (2 * scale**2)
        # of decisions, around those of any optimum
        ball = np.sqrt(2 * np.maximum(distance, 0) * np.maximum(np.diag(K), 0))
        wrong &= ~(margins / scale - ball > 1)
    if wrong.any():
        found.problem(f"sample {np.flatnonzero(wrong)[0]} is proven to be no support vector, but has a weight")


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
