"""A problem in other units, where float32 could not hold its kernel, and its result in the given ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bregmat.kernels.sources import Scaled
from bregmat.margin.problem import MarginProblem
from bregmat.margin.result import MarginResult
from bregmat.result import Record

RANGE = 1e25  # norms between 1 / RANGE and RANGE leave room for sums in float32
LARGEST = 1e300  # stands for a price that float64 cannot hold


def factor_of(problem: MarginProblem) -> float:
    """1.0, or the power of two that brings the largest norm near 1 where float32 would overflow or vanish."""
    largest = problem.largest
    if not 0 < largest < np.inf or 1.0 / RANGE <= largest <= RANGE:
        return 1.0
    return float(2.0 ** -np.round(np.log2(largest)))


def multiplied(problem: MarginProblem, factor: float) -> MarginProblem:
    """The problem with ``factor`` times the kernel: its weights are those of ``problem`` divided by ``factor``."""
    finite = np.isfinite(problem.upper)
    with np.errstate(over="ignore"):
        upper = np.where(finite, np.minimum(problem.upper / factor, LARGEST), np.inf)
    kernel = Scaled(problem.kernel, factor)
    return replace(problem, kernel=kernel, upper=upper, ridge=problem.ridge * factor)


def divided_record(record: Record, factor: float) -> Record:
    """A record of the :func:`multiplied` problem in units of the given one."""
    return replace(record, objective=record.objective * factor, dual_bound=record.dual_bound * factor)


def divided_result(result: MarginResult, factor: float) -> MarginResult:
    """The result of the :func:`multiplied` problem as one of the given problem."""
    root = np.sqrt(factor)
    proof = result.conflict is not None  # the weights of hull points have no units
    return replace(
        result,
        alpha=result.alpha if proof else result.alpha * factor,
        objective=result.objective * factor,
        dual_bound=result.dual_bound * factor,
        decision=result.decision / factor if proof else result.decision,
        margin_bound=result.margin_bound / root,
        price=result.price * factor,
        history=[divided_record(record, factor) for record in result.history],
    )
