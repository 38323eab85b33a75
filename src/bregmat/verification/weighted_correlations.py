"""Verification of correlation matrices with weights or bounds: the box, eigenvalues, and the dual bound of a multiplier ``S >= 0``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.applications.correlation.result import CorrelationResult
from bregmat.base.tolerances import EPS, HALF_DIGITS
from bregmat.engine.status import Status
from bregmat.objective.divergences import DIVERGENCES
from bregmat.verification.correlation_input import EntryProof
from bregmat.verification.extended import eigenvalues, numbers, unit_of
from bregmat.verification.figures import Verification


class WeightedCorrelation(EntryProof):
    """The problem of :func:`bregmat.nearest_correlation` with weights or bounds, from its arguments."""

    def __init__(self, arguments: Mapping[str, Any], result: CorrelationResult) -> None:
        if DIVERGENCES.resolve(arguments.get("divergence", "frobenius")).name != "frobenius":
            raise ValueError("weights and bounds are for the Frobenius divergence.")
        n, weights = len(result.X), arguments.get("weights")
        h = (
            np.where(np.isnan(numbers(arguments["C"])), 0.0, 1.0)
            if weights is None
            else np.nan_to_num(numbers(weights))
        )
        eye = np.eye(n, dtype=bool)
        self.known = (h != 0) | eye
        super().__init__(arguments, result, self.known)
        if not np.array_equal(result.rows, np.column_stack(np.triu_indices(n))):
            raise ValueError(f"the result does not have the entries of a matrix of {n} rows.")
        self.h2 = np.where(eye, 0, (h + h.T).astype(self.real) / 2) ** 2
        sides = zip(arguments.get("bounds") or (None, None), (-1.0, 1.0))
        self.lower, self.upper = (self._side(least if side is None else numbers(side)) for side, least in sides)
        if arguments.get("fixed") is not None:
            mask = np.asarray(arguments["fixed"], dtype=bool) & ~eye
            self.lower[mask] = self.upper[mask] = self.C[mask]

    def _side(self, side: Any) -> np.ndarray:
        """Lower or upper bounds of the entries, symmetric, within [-1, 1], and 1 on the diagonal."""
        table = np.where(self.eye, 1.0, np.clip(side, -1.0, 1.0))
        return ((table + table.T) / 2).astype(self.real)

    def report(self, report: Verification) -> None:
        """Compare all figures of the result."""
        result = self.result
        self.check_asked(report, divergence="frobenius", rank=None, n_factors=None)
        for name in ("factor", "null_space"):
            if getattr(result, name) is not None:
                report.problem(f"{name} is given, which a result with weights or bounds does not have")
        if not np.isfinite(result.dual).all():
            report.problem("a multiplier is not finite", Status.UNKNOWN)
            return
        S = self._multiplier()
        if report.claimed is Status.INFEASIBLE:
            self._contradiction(S, report)
            return
        is_feasible, X = self.check_matrix(report, self.known), result.X.astype(self.real)
        missed = float(np.maximum(X - self.upper, self.lower - X).max(initial=0.0))
        is_met = missed <= 64 * EPS * max(1.0, float(np.abs(self.C).max()))
        is_feasible &= report.check_feasible(is_met, f"a bound is missed by {missed:.2g}, which is not allowed")
        objective = float((self.h2 * (X - self.C) ** 2).sum() / 2)
        bound, terms = self._bound(S)
        unit = max(float(self.h2.max(initial=0)) or 1.0, abs(objective))
        lost = unit_of(self.real) * self.n * terms
        report.conclude((objective, bound, unit, (objective - bound) / unit), HALF_DIGITS * unit, is_feasible, lost)

    def _multiplier(self) -> np.ndarray:
        """The multiplier S, made semidefinite by raising its smallest eigenvalue to 0 on the rows that are not 0."""
        S = self.sum(self.result.dual)
        used = np.flatnonzero(S.any(axis=1))
        low = min(float(eigenvalues(S[np.ix_(used, used)])[0]), 0.0) if len(used) else 0.0
        S[used, used] -= self.real(low)
        return S

    def _bound(self, S: np.ndarray) -> tuple[float, float]:
        """The dual function at S, and the sum of its absolute terms."""
        with np.errstate(divide="ignore", invalid="ignore"):
            X = np.where(self.h2 > 0, self.C + S / self.h2, np.where(S > 0, self.upper, self.lower))
        X = np.clip(X, self.lower, self.upper)
        square = self.h2 * (X - self.C) ** 2 / 2
        value = square.sum() - (S * X).sum() + self.low * np.trace(S)
        return float(value), float((square + np.abs(S * X)).sum())

    def _contradiction(self, S: np.ndarray, report: Verification) -> None:
        """Check that ``<S, X - min_eig I>`` is negative for every X in the box."""
        self.check_conflict(report)
        largest = np.maximum(S * self.lower, S * self.upper).sum() - self.low * np.trace(S)
        report.figures["largest <S, X>"] = (np.nan, float(largest))
        if not float(largest) < -64 * EPS * self.n * float(np.abs(S).sum()):
            report.problem(f"the largest <S, X> is {float(largest):.3g}, which is not below 0", Status.UNKNOWN)
