"""Kernels made of kernels: some samples of one, a multiple of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.margin.kernels import Blocks, KernelSource
from bregmat.margin.problem import MarginProblem
from bregmat.margin.result import MarginResult
from bregmat.result import Record

RANGE = 1e25  # norms between 1 / RANGE and RANGE leave room for sums in float32
LARGEST = 1e300  # stands for a price that float64 cannot hold


class Chosen:
    """A kernel restricted to some samples."""

    given: np.ndarray | None = None

    def __init__(self, kernel: Any, rows: np.ndarray) -> None:
        self.kernel, self.chosen, self.n, self.nonnegative = kernel, rows, len(rows), kernel.nonnegative
        self.rounding = kernel.rounding

    def diagonal(self) -> np.ndarray:
        return np.asarray(self.kernel.diagonal()[self.chosen])

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        return np.asarray(self.kernel.block(self.chosen[rows], self.chosen[columns], dtype))

    def fill(self, out: np.ndarray, first: int, rows: np.ndarray, columns: np.ndarray | None = None) -> None:
        self.kernel.fill(out, first, self.chosen[rows], self.chosen if columns is None else self.chosen[columns])

    def sums(self, rows: np.ndarray, columns: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.asarray(self.kernel.sums(self.chosen[rows], self.chosen[columns], weight))

    def signed_block(self, rows: np.ndarray, signs: np.ndarray) -> np.ndarray:
        return np.asarray(self.kernel.signed_block(self.chosen[rows], signs))

    def fill_error(self) -> np.ndarray:
        return np.asarray(self.kernel.fill_error()[self.chosen])


class Multiple(Blocks):
    """A kernel times a positive number, multiplied in float64."""

    def __init__(self, kernel: KernelSource, factor: float) -> None:
        self.kernel, self.factor, self.n, self.nonnegative = kernel, factor, kernel.n, kernel.nonnegative
        self.rounding = kernel.rounding

    def diagonal(self) -> np.ndarray:
        return self.factor * self.kernel.diagonal()

    def block(self, rows: np.ndarray, columns: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
        return np.ascontiguousarray(self.factor * self.kernel.block(rows, columns), dtype=dtype)


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
    kernel = Multiple(problem.kernel, factor)
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
        bound=result.bound * factor,
        decision=result.decision / factor if proof else result.decision,
        margin_bound=result.margin_bound / root,
        price=result.price * factor,
        history=[divided_record(record, factor) for record in result.history],
    )
