"""Matrices that projections onto single rows change in place: the LogDet matrix by its factor, the von Neumann matrix by its spectrum.

Both satisfy ``M = psi(T0 - A*(dual))``, so they can be rebuilt from the multipliers at any time. That bounds rounding errors and
measures their drift.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat._kernels import logdet as logdet_kernels
from bregmat._kernels import von_neumann as von_neumann_kernels
from bregmat._kernels.arrays import EigenWork, OuterRows, RowBounds
from bregmat.base.linalg import add_diagonal, cholesky, eigh, logdet_of_factor, triangular_inverse
from bregmat.base.threads import cached_property
from bregmat.certificates.problem import NearestMatrix, dual_bound
from bregmat.coordinates.priors import Factored, Iterate, Spectral
from bregmat.objective.spectral import SpectralDivergence
from bregmat.operators.compound import SignedSums, Stacked
from bregmat.operators.linear_maps import Operator, RankOneRows
from bregmat.solvers.base import MatrixState

COUNTS = ("skipped", "held", "projections", "evaluations")


def row_bounds(problem: NearestMatrix) -> RowBounds:
    """Bounds, losses and units of the rows as flat arrays for the kernels."""
    L = problem.losses
    codes = np.array([loss.projection_code or 0 for loss in L.kinds], np.int8)  # 0 for losses that no row has
    columns = (np.ascontiguousarray(x, dtype=float) for x in (L.bound, L.gamma, L.scale, problem.unit))
    bound, gamma, scale, unit = columns
    return RowBounds(bound, np.ascontiguousarray(L.sense, dtype=np.int8), gamma, scale, codes[L.kind], unit)


def first_dual(problem: NearestMatrix, start: np.ndarray | None) -> np.ndarray:
    """The given dual weights, shrunk into the domain; zeros without them."""
    if start is not None:
        value, mu = dual_bound(problem, problem.clip_dual(start))
        if np.isfinite(value):
            return mu.copy()
    return np.zeros(problem.c)


@dataclass(eq=False)
class ProjectionState(MatrixState):
    """A matrix with its multipliers after a number of projections onto single rows."""

    matrix: Any
    dual: np.ndarray
    rows: OuterRows
    bounds: RowBounds
    operator: Operator
    objective: float  # the dual bound, which every corrected projection raises
    signal: float = np.inf
    stalled: bool = False
    finished: bool = False
    idle: int = 0  # successive steps that raised the bound by no more than rounding

    @cached_property
    def iterate(self) -> Iterate:
        """The matrix."""
        return self.matrix.iterate()

    def is_finite(self) -> bool:
        """Whether all numbers are finite; the values are computed for certificates only."""
        return bool(np.isfinite(self.objective) and np.isfinite(self.dual).all())

    @cached_property
    def values(self) -> np.ndarray:
        """Values of all rows at the matrix."""
        return self.iterate.values(self.operator)

    def progress(self, objective: float, corrected: bool) -> dict[str, Any]:
        """Objective, signal and idle of the next state; without corrections the bound need not rise."""
        gained = objective - self.objective > 1e-15 * max(1.0, abs(objective))
        idle = 0 if gained or not corrected else self.idle + 1
        signal = abs(objective - self.objective) if corrected else np.inf
        return {"objective": objective, "signal": signal, "idle": idle}


class Projected:
    """A matrix that projections onto single rows change in place; subclasses hold its arrays and call the compiled sweep."""

    name: ClassVar[str]  # of the divergence
    changing: ClassVar[tuple[str, ...]]  # names of the arrays that projections write
    pace: ClassVar[int]  # rows times entries of the matrix that take a fraction of a second
    _project: Any  # the compiled sweep over some rows
    matrix: Any  # method: the matrix itself, perhaps padded
    dual_part: Any  # method: the dual function without the conjugates of the losses
    _single: tuple[OuterRows | None, bool] = (None, False)  # the rows that is_single was last asked for, and its answer

    def copy(self) -> Self:
        """An independent copy; work arrays are shared, since they hold nothing between projections."""
        new = copy(self)
        for name in self.changing:
            setattr(new, name, getattr(self, name).copy())
        return new

    def is_single(self, rows: OuterRows) -> bool:
        """Whether every row is a single outer product."""
        if self._single[0] is not rows:
            self._single = rows, rows.are_single()
        return self._single[1]

    def sweep(self, dual: np.ndarray, state: ProjectionState, settings: Any) -> dict[str, float]:
        """Project onto every row of the state once, and change the multipliers in place; the numbers for the trace."""
        totals, counts = np.zeros(5), np.zeros(4, np.int64)
        how = bool(settings.corrected), settings.root_tol
        chunk = max(1, self.pace // state.operator.r**2)  # the interpreter sees Ctrl-C between two chunks
        for start in range(0, len(dual), chunk):
            stop = min(len(dual), start + chunk)
            self._project(dual, totals, counts, state.rows, state.bounds, start, stop, *how)
        met = {"violation": float(totals[3]), "movement": float(np.sqrt(totals[4]))}
        return dict(zip(COUNTS, counts.tolist(), strict=True)) | met

    def distance(self, other: Self) -> float:
        """Relative Frobenius distance of the two matrices."""
        M, N = self.matrix(), other.matrix()
        return float(np.linalg.norm(M - N) / np.linalg.norm(N))


class LogDetProjected(Projected):
    """``M = B B'`` with B lower triangular; the prior is the identity (Kulis 2009, Algorithm 2)."""

    name, changing, pace = "logdet", ("Bt", "grown", "limit"), 10**8

    def __init__(self, B: np.ndarray, sense: np.ndarray) -> None:
        self.r = len(B)
        padded = -(-self.r // 8) * 8  # whole vectors of 8 numbers for the kernels
        self.Bt = np.zeros((padded, padded))
        self.Bt[: self.r, : self.r] = np.tril(B).T
        self.logdet = logdet_of_factor(B)
        # each projection multiplies M by factors: sums of their positive and of their negative logarithms
        self.grown = np.zeros(2)
        # growth up to which a row that held with multiplier 0 still holds, so that it is skipped
        self.limit = np.where(sense > 0, -np.inf, np.inf)

    @staticmethod
    def rows(problem: NearestMatrix) -> OuterRows:
        """Rows as outer products; a multiple of the identity becomes the sum over the unit vectors."""
        rows, r = problem.operator.outer(), problem.r
        whole, others = np.flatnonzero(rows.shift), np.flatnonzero(rows.shift == 0.0)
        if not len(whole):
            return rows
        P = scipy.sparse.csr_array(np.repeat(rows.shift[whole, None], r, axis=1))
        parts: list[tuple[np.ndarray, Operator]] = [(whole, SignedSums(RankOneRows(np.eye(r)), P))]
        return Stacked(parts + ([(others, problem.operator.restrict(others))] if len(others) else [])).outer()

    @classmethod
    def at(cls, problem: NearestMatrix, mu: np.ndarray) -> LogDetProjected:
        """``(I + A*(mu))^-1``, factored from the last column to the first."""
        # M^-1 = P = I + A*(mu); with rows and columns reversed, P = C C' gives a lower triangular factor of M
        P = add_diagonal(problem.operator.adjoint(mu), 1.0)
        C, ok = cholesky(np.ascontiguousarray(P[::-1, ::-1]))
        if not ok:
            raise np.linalg.LinAlgError("the multipliers are outside the domain of the divergence.")
        return cls(triangular_inverse(C)[::-1, ::-1].T, problem.losses.sense)

    def _project(self, dual: np.ndarray, totals: np.ndarray, counts: np.ndarray, rows: OuterRows, *rest: Any) -> None:
        totals[:3] = 0.0, *self.grown
        work = None if self.is_single(rows) else np.empty((int(np.diff(rows.ptr).max()), len(self.Bt)))
        logdet_kernels.sweep_inplace(self.Bt, dual, self.limit, totals, counts, work, rows, *rest)
        self.logdet += totals[0]
        self.grown = totals[1:3].copy()

    def matrix(self) -> np.ndarray:
        """M, padded."""
        return self.Bt.T @ self.Bt

    def iterate(self) -> Iterate:
        """The matrix as an iterate."""
        return Factored(np.ascontiguousarray(self.Bt[: self.r, : self.r].T), self.logdet)

    def dual_part(self) -> float:
        """``phi*(T0) - phi*(T) = -logdet M``: the dual function without the conjugates of the losses."""
        return -self.logdet


class VonNeumannProjected(Projected):
    """``M = Vt' diag(exp lam) Vt``; the eigenvectors are a running product of rank-one updates (Kulis 2009, Algorithm 3)."""

    name, changing, pace = "vonneumann", ("lam", "Vt"), 10**7

    def __init__(self, divergence: SpectralDivergence, t0: np.ndarray, lam: np.ndarray, Vt: np.ndarray) -> None:
        self.divergence, self.t0, self.lam, self.Vt = divergence, t0, lam, Vt
        self.work = EigenWork.of_order(len(lam))

    @staticmethod
    def rows(problem: NearestMatrix) -> OuterRows:
        """Rows as outer products and multiples of the identity."""
        return problem.operator.outer()

    @classmethod
    def at(cls, problem: NearestMatrix, mu: np.ndarray) -> VonNeumannProjected:
        """``exp(T0 - A*(mu))``."""
        t0 = problem.t0
        if mu.any():
            lam, U = eigh(add_diagonal(-problem.operator.adjoint(mu), t0))
            return cls(problem.divergence, t0, lam, np.ascontiguousarray(U.T))
        order = np.argsort(t0, kind="stable")
        return cls(problem.divergence, t0, t0[order].copy(), np.ascontiguousarray(np.eye(len(t0))[order]))

    def _project(self, dual: np.ndarray, totals: np.ndarray, counts: np.ndarray, rows: OuterRows, *rest: Any) -> None:
        square = self.square(rows)
        von_neumann_kernels.sweep_inplace(self.lam, self.Vt, dual, totals, counts, self.work, square, rows, *rest)

    def square(self, rows: OuterRows) -> np.ndarray:
        """Memory of the shape of M for the kernels; empty if every row is a single outer product."""
        return np.empty((0, 0) if self.is_single(rows) else self.Vt.shape)

    def matrix(self) -> np.ndarray:
        """M."""
        return (self.Vt.T * np.exp(self.lam)) @ self.Vt

    def iterate(self) -> Iterate:
        """The matrix as an iterate."""
        return Spectral(self.divergence, self.t0, self.lam.copy(), np.ascontiguousarray(self.Vt.T))

    def dual_part(self) -> float:
        """``tr M0 - tr M``: the dual function without the conjugates of the losses."""
        return self.divergence.constant(self.t0) - self.divergence.conjugate(self.lam)


PROJECTED: dict[str, Any] = {cls.name: cls for cls in (LogDetProjected, VonNeumannProjected)}
