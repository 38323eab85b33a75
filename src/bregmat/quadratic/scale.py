"""Units: what a gradient is called small beside, and powers of two that bring a problem to the middle of the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from bregmat.quadratic.problem import NonnegativeQP
from bregmat.quadratic.result import QPResult
from bregmat.result import ExitReason, Record

FAR = 1e60  # sizes above it, or below its inverse, are brought to 1: squares and products of a few of them overflow


def gradient_unit(
    b: np.ndarray, h: np.ndarray, *, diagonal: np.ndarray, upper: np.ndarray, weight: np.ndarray | float = 1.0
) -> float:
    """Size of the parts of the linear term that matter, times ``weight``; positive.

    A negative ``b_i`` matters as far as the box lets ``A_ii x_i`` answer it, any other as far as the rest of the reduced
    gradient, ``h - b``, answers it: a variable that a large positive ``b_i`` keeps at zero sets no unit for the others.
    """
    size, other = np.abs(b), np.abs(h - b)
    with np.errstate(invalid="ignore"):
        reach = np.where(np.isinf(upper), np.inf, diagonal * upper)
    matters = np.minimum(size, np.where(b < 0.0, np.maximum(reach, other), other)) * weight
    return float(matters.max()) or float((other * weight).max()) or float((size * weight).max()) or 1.0


def exponent(size: float) -> int:
    """The power of two nearest below, 0 for sizes in the middle of the numbers and for zero."""
    return 0 if size == 0.0 or 1.0 / FAR <= size <= FAR else int(np.frexp(size)[1])


def data_exponents(X: Any, y: np.ndarray) -> tuple[np.ndarray, int]:
    """Powers of two of columns and of y whose squares would leave the range of the numbers; 0 elsewhere."""
    if sparse.issparse(X):
        largest = abs(X).max(axis=0).toarray().ravel()
    else:
        squares = np.einsum("ij,ij->j", X, X)
        if ((squares > 1.0 / FAR) & (squares < FAR)).all():
            largest = np.ones(len(squares))  # one pass without a copy settles almost every X
        else:
            largest = np.abs(X).max(axis=0)
    return np.array([exponent(float(size)) for size in largest]), exponent(float(np.abs(y).max()))


class Units:
    """``A = 2^a A'``, ``b = 2^c b'``, so ``x = 2^(c-a) x'`` and ``F = 2^(2c-a) F'``; all zero for almost every problem."""

    def __init__(self, problem: NonnegativeQP) -> None:
        falling = float(-problem.b.min())
        self.a = exponent(float(problem.A.diagonal().max()))
        self.c = exponent(falling if falling > 0.0 else float(np.abs(problem.b).max()))
        self.needed = self.a != 0 or self.c != 0
        self.x, self.F = self.c - self.a, 2 * self.c - self.a

    def inner(self, problem: NonnegativeQP) -> NonnegativeQP:
        """The problem in these units."""
        E, e = problem.rows
        return NonnegativeQP(
            np.ldexp(problem.A, -self.a),
            np.ldexp(problem.b, -self.c),
            None if problem.upper is None else np.ldexp(problem.upper, -self.x),
            (E, np.ldexp(e, -self.x)) if len(E) else None,
        )

    def start(self, x: np.ndarray | None) -> np.ndarray | None:
        return None if x is None else np.ldexp(x, -self.x)

    def callback(self, callback: Callable[[Record], Any] | None) -> Callable[[Record], Any] | None:
        return None if callback is None else lambda record: callback(self.record(record))

    def record(self, record: Record) -> Record:
        return scaled_record(record, self.F)

    def outer(self, result: QPResult, upper: np.ndarray) -> QPResult:
        """The result in the caller's units."""
        x = np.minimum(np.ldexp(result.x, self.x), upper)
        return finite_or_said(
            replace(
                result,
                x=x,
                dual=np.ldexp(result.dual, self.c),
                equality_dual=np.ldexp(result.equality_dual, self.c),
                objective=float(np.ldexp(result.objective, self.F)),
                dual_bound=float(np.ldexp(result.dual_bound, self.F)),
                history=[self.record(record) for record in result.history],
            )
        )


def scaled_record(record: Record, power: int, plus: float = 0.0) -> Record:
    """Objective and bound times a power of two, after adding a constant."""
    return replace(
        record,
        objective=float(np.ldexp(record.objective + plus, power)),
        dual_bound=float(np.ldexp(record.dual_bound + plus, power)),
    )


def finite_or_said(result: QPResult) -> QPResult:
    """NONFINITE where the point or its objective is beyond the largest number."""
    if not (np.isfinite(result.objective) and np.isfinite(result.x).all()):
        result.exit_reason = ExitReason.NONFINITE
    return result
