"""Matrices under one-row projections: the factored LogDet matrix and the spectral von Neumann matrix, with flat rows.

Both keep the exact relation ``M = psi(T0 - A*(dual))``, so that they can be rebuilt from the multipliers at any time, which
is how rounding is bounded and its drift is measured.
"""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, Protocol

import numpy as np

from bregmat._kernels import logdet as logdet_kernels
from bregmat._kernels import von_neumann as von_neumann_kernels
from bregmat._kernels.eigen_update import eigen_work
from bregmat._kernels.rows import OuterRows, RowBounds
from bregmat.iterates import Factored, Iterate, Spectral
from bregmat.linalg import add_diagonal, cholesky, eigh, triangular_inverse
from bregmat.problems import NearestMatrix
from bregmat.spectral import SpectralDivergence

COUNTS = ("skipped", "held", "projections", "evaluations")


def row_bounds(problem: NearestMatrix) -> RowBounds:
    """The losses as flat arrays."""
    L = problem.losses
    codes = np.array([loss.projection_code or 0 for loss in L.kinds], np.int8)  # of losses that no row has, too
    columns = (np.ascontiguousarray(x, dtype=float) for x in (L.bound, L.gamma, L.scale, problem.unit))
    bound, gamma, scale, unit = columns
    return RowBounds(bound, np.ascontiguousarray(L.sense, dtype=np.int8), gamma, scale, codes[L.kind], unit)


class Projected(Protocol):
    """A matrix that projections onto single rows change in place."""

    name: ClassVar[str]  # of the divergence

    @staticmethod
    def rows(problem: NearestMatrix) -> OuterRows: ...
    @classmethod
    def at(cls, problem: NearestMatrix, mu: np.ndarray) -> Any: ...
    def copy(self) -> Any: ...
    def sweep(
        self, dual: np.ndarray, rows: OuterRows, bounds: RowBounds, corrected: bool, tol: float
    ) -> dict[str, float]: ...
    def iterate(self) -> Iterate: ...
    def dual_part(self) -> float: ...
    def distance(self, other: Any) -> float: ...


class LogDetProjected:
    """``M = B B'`` with B lower triangular; the prior is the identity (Kulis 2009, Algorithm 2)."""

    name: ClassVar[str] = "logdet"

    def __init__(self, B: np.ndarray, sense: np.ndarray) -> None:
        self.r = len(B)
        padded = -(-self.r // 8) * 8
        self.Bt = np.zeros((padded, padded))
        self.Bt[: self.r, : self.r] = np.tril(B).T
        self.logdet = 2.0 * float(np.log(np.diag(B)).sum())
        self.grown = np.zeros(2)  # sums of positive and of negative logarithms of the factors of M
        self.limit = np.where(sense > 0, -np.inf, np.inf)

    @staticmethod
    def rows(problem: NearestMatrix) -> OuterRows:
        """Outer products only: a multiple of the identity becomes the sum over the unit vectors."""
        rows, r = problem.operator.outer(), problem.r
        whole = np.flatnonzero(rows.shift)
        if not len(whole):
            return rows
        counts = np.diff(rows.ptr)
        counts[whole] = r
        ptr = np.concatenate([[0], np.cumsum(counts)])
        old = np.concatenate(
            [np.arange(*rows.ptr[k : k + 2]) if k not in whole else np.full(r, -1) for k in range(len(counts))]
        )
        unit = len(rows.Z) + np.arange(r, dtype=np.int32)
        place = np.where(old < 0, 0, old).astype(int)
        fill = np.zeros(len(old), np.int32)
        for k in whole:
            fill[ptr[k] : ptr[k + 1]] = unit

        def column(x: np.ndarray, new: np.ndarray) -> np.ndarray:
            return np.where(old < 0, new, x[place] if len(x) else 0).astype(new.dtype)

        scale = np.repeat(rows.shift, counts)
        return OuterRows(
            ptr,
            column(rows.coef, scale),
            np.concatenate([rows.Z, np.eye(r)]),
            column(rows.a, fill),
            column(rows.b, fill),
            column(rows.sign, np.zeros(len(old), np.int8)),
            np.zeros(len(counts)),
        )

    @classmethod
    def at(cls, problem: NearestMatrix, mu: np.ndarray) -> LogDetProjected:
        """``(I + A*(mu))^-1``, factored from the last column to the first."""
        P = add_diagonal(problem.operator.adjoint(mu), 1.0)
        C, ok = cholesky(np.ascontiguousarray(P[::-1, ::-1]))
        if not ok:
            raise np.linalg.LinAlgError("the multipliers are outside the domain of the divergence.")
        return cls(triangular_inverse(C)[::-1, ::-1].T, problem.losses.sense)

    def copy(self) -> LogDetProjected:
        """An independent copy."""
        new = copy(self)
        new.Bt, new.grown, new.limit = self.Bt.copy(), self.grown.copy(), self.limit.copy()
        return new

    def sweep(
        self, dual: np.ndarray, rows: OuterRows, bounds: RowBounds, corrected: bool, tol: float
    ) -> dict[str, float]:
        """Project onto every row once."""
        totals, counts = np.array([0.0, *self.grown, 0.0, 0.0]), np.zeros(4, np.int64)
        chunk = max(1, 10**8 // len(self.Bt) ** 2)  # a fraction of a second, after which Ctrl-C is heard
        for start in range(0, len(dual), chunk):
            stop = min(len(dual), start + chunk)
            logdet_kernels.sweep_inplace(
                self.Bt, dual, self.limit, totals, counts, rows, bounds, start, stop, corrected, tol
            )
        self.logdet += totals[0]
        self.grown = totals[1:3]
        return _sweep_record(counts, totals)

    def iterate(self) -> Iterate:
        """The matrix as an iterate."""
        return Factored(np.ascontiguousarray(self.Bt[: self.r, : self.r].T), self.logdet)

    def dual_part(self) -> float:
        """``phi*(T0) - phi*(T)``: the dual function but for the losses' conjugates."""
        return -self.logdet

    def distance(self, other: LogDetProjected) -> float:
        """Relative Frobenius distance of the two matrices."""
        M, N = self.Bt.T @ self.Bt, other.Bt.T @ other.Bt
        return float(np.linalg.norm(M - N) / np.linalg.norm(N))


class VonNeumannProjected:
    """``M = Vt' diag(exp lam) Vt``; the eigenvectors are a running product of rank-one updates (Kulis 2009, Algorithm 3)."""

    name: ClassVar[str] = "vonneumann"

    def __init__(self, divergence: SpectralDivergence, t0: np.ndarray, lam: np.ndarray, Vt: np.ndarray) -> None:
        self.divergence, self.t0, self.lam, self.Vt = divergence, t0, lam, Vt
        self.work = eigen_work(len(lam))

    @staticmethod
    def rows(problem: NearestMatrix) -> OuterRows:
        """Outer products, and multiples of the identity as they are."""
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

    def copy(self) -> VonNeumannProjected:
        """An independent copy; the work arrays hold nothing between projections."""
        new = copy(self)
        new.lam, new.Vt = self.lam.copy(), self.Vt.copy()
        return new

    def sweep(
        self, dual: np.ndarray, rows: OuterRows, bounds: RowBounds, corrected: bool, tol: float
    ) -> dict[str, float]:
        """Project onto every row once."""
        totals, counts = np.zeros(5), np.zeros(4, np.int64)
        chunk = max(1, 10**7 // len(self.lam) ** 2)  # a fraction of a second, after which Ctrl-C is heard
        for start in range(0, len(dual), chunk):
            stop = min(len(dual), start + chunk)
            von_neumann_kernels.sweep_inplace(
                self.lam, self.Vt, dual, totals, counts, self.work, rows, bounds, start, stop, corrected, tol
            )
        return _sweep_record(counts, totals)

    def iterate(self) -> Iterate:
        """The matrix as an iterate."""
        return Spectral(self.divergence, self.t0, self.lam.copy(), np.ascontiguousarray(self.Vt.T))

    def dual_part(self) -> float:
        """``tr M0 - tr M``: the dual function but for the losses' conjugates."""
        return self.divergence.constant(self.t0) - self.divergence.conjugate(self.lam)

    def distance(self, other: VonNeumannProjected) -> float:
        """Relative Frobenius distance of the two matrices."""
        M, N = ((x.Vt.T * np.exp(x.lam)) @ x.Vt for x in (self, other))
        return float(np.linalg.norm(M - N) / np.linalg.norm(N))


def _sweep_record(counts: np.ndarray, totals: np.ndarray) -> dict[str, float]:
    return dict(zip(COUNTS, counts.tolist(), strict=True)) | {
        "violation": float(totals[3]),
        "movement": float(np.sqrt(totals[4])),
    }


PROJECTED: dict[str, type[Projected]] = {cls.name: cls for cls in (LogDetProjected, VonNeumannProjected)}
