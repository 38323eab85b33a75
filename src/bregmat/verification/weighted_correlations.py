"""Correlation matrices with weights or bounds: the box, the eigenvalues, and the bound that ``S >= 0`` proves entry by entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.applications.correlation.result import CorrelationResult
from bregmat.certificates.status import Status
from bregmat.objective.divergences import as_divergence
from bregmat.verification.extended import arithmetic, eigenvalues, numbers, precision_text, unit_of
from bregmat.verification.figures import CLOSE, EXACT, ROUNDING, Verification, check_arguments


class WeightedCorrelation:
    """The problem from the arguments of :func:`bregmat.nearest_correlation` with weights or bounds."""

    def __init__(self, arguments: Mapping[str, Any], result: CorrelationResult) -> None:
        check_arguments(arguments, "the argument C of nearest_correlation", "C")
        if as_divergence(arguments.get("divergence", "frobenius")).name != "frobenius":
            raise ValueError("weights and bounds are for the Frobenius divergence.")
        self.result, C = result, arguments["C"]
        self.labels = (list(getattr(C, "index", C.columns)), list(C.columns)) if hasattr(C, "columns") else None
        C = numbers(C)
        self.n = n = len(C)
        self.real = arithmetic(80.0 * n**3)
        weights = arguments.get("weights")
        h = np.ones((n, n)) if weights is None else np.nan_to_num(numbers(weights))
        known = (h != 0) | np.eye(n, dtype=bool)
        C = np.where(known, C, 0).astype(self.real)
        C, h = (C + C.T) / 2, (h + h.T).astype(self.real) / 2
        h[np.diag_indices(n)] = 0
        if arguments.get("scale"):
            d = np.sqrt(np.diag(C))
            C = C / np.multiply.outer(d, d)
            C[np.diag_indices(n)] = 1
        self.C, self.h2, self.known, self.low = C, h * h, known, self.real(arguments.get("min_eig", 0.0))
        self.lower, self.upper = (
            self._side(side, least) for side, least in zip(arguments.get("bounds") or (None, None), (-1.0, 1.0))
        )
        if arguments.get("fixed") is not None:
            mask = np.asarray(arguments["fixed"], dtype=bool) & ~np.eye(n, dtype=bool)
            self.lower[mask] = self.upper[mask] = C[mask]

    def _side(self, side: Any, least: float) -> np.ndarray:
        """One side of the box."""
        table = np.full((self.n, self.n), least) if side is None else np.zeros((self.n, self.n)) + numbers(side)
        table = np.where(np.eye(self.n, dtype=bool), 1.0, np.clip(table, -1.0, 1.0))
        return ((table + table.T) / 2).astype(self.real)

    def report(self, found: Verification) -> None:
        """Everything that can be said of the result."""
        result, real, n = self.result, self.real, self.n
        found.precision = precision_text(real)
        if result.X.shape != (n, n) or not np.array_equal(result.rows, np.column_stack(np.triu_indices(n))):
            raise ValueError(f"the result does not have the entries of a matrix of {n} rows.")
        for name, asked in (
            ("divergence", "frobenius"),
            ("rank", None),
            ("n_factors", None),
            ("labels", self.labels),
            ("repaired", None),
        ):
            if getattr(result, name) != asked:
                found.problem(f"{name} is {asked!r}; the result says {getattr(result, name)!r}")
        for name in ("factor", "null_space"):
            if getattr(result, name) is not None:
                found.problem(f"{name} is given, which a result with weights or bounds does not have")
        found.compare("min_eig", result.min_eig, float(self.low), 0.0)
        if not np.isfinite(result.X).all() or (result.X != result.X.T).any() or not np.isfinite(result.dual).all():
            found.problem("X is not a finite symmetric matrix, or a multiplier is not finite", Status.UNKNOWN)
            return
        S = self._multiplier()
        if found.claimed is Status.INFEASIBLE:
            self._contradiction(S, found)
            return
        X = result.X.astype(real)
        size = float(np.abs(self.C).max())
        missed = float(np.maximum(X - self.upper, self.lower - X).max(initial=0.0))
        values = eigenvalues(X)
        is_low = not values[0] >= self.low - 64 * ROUNDING * n * max(1.0, float(values[-1]))
        is_feasible = missed <= 64 * ROUNDING * max(1.0, size) and not is_low
        if found.claimed is not Status.UNKNOWN and not is_feasible:
            what = f"an eigenvalue is {float(values[0]):.3g}" if is_low else f"a bound is missed by {missed:.2g}"
            found.problem(f"{what}, which is not allowed")
        residual = float(np.sqrt(((X - self.C)[self.known] ** 2).sum()))
        found.compare("residual", result.residual, residual, CLOSE * max(1.0, float(np.abs(X).sum())))
        objective = float((self.h2 * (X - self.C) ** 2).sum() / 2)
        bound, terms = self._bound(S)
        unit = max(float(self.h2.max(initial=0)) or 1.0, abs(objective))
        room = CLOSE * unit + unit_of(real) * n * terms
        if is_feasible:
            found.compare("objective", result.objective, objective, room)
        found.compare("unit", result.unit, unit, EXACT * unit + room)
        found.bound_from_below("dual_bound", result.dual_bound, bound, room)
        found.judge(result, (objective - bound) / unit if is_feasible else np.inf, is_feasible)

    def _multiplier(self) -> np.ndarray:
        """S with its smallest eigenvalue raised to 0, so that any multipliers prove something."""
        i, j = self.result.rows.T
        S = np.zeros((self.n, self.n), dtype=self.real)
        np.add.at(S, (i, j), self.result.dual.astype(self.real) / 2)
        S = S + S.T
        used = np.flatnonzero(np.abs(S).any(axis=1))  # the others have no part in it
        low = min(float(eigenvalues(S[np.ix_(used, used)])[0]), 0.0) if len(used) else 0.0
        S[used, used] -= self.real(low)
        return S

    def _bound(self, S: np.ndarray) -> tuple[float, float]:
        """The dual function, and the size of what is summed."""
        with np.errstate(divide="ignore", invalid="ignore"):
            X = np.where(self.h2 > 0, self.C + S / self.h2, np.where(S > 0, self.upper, self.lower))
        X = np.clip(X, self.lower, self.upper)
        square = self.h2 * (X - self.C) ** 2 / 2
        value = square.sum() - (S * X).sum() + self.low * np.trace(S)
        return float(value), float((square + np.abs(S * X)).sum())

    def _contradiction(self, S: np.ndarray, found: Verification) -> None:
        """The largest ``<S, X - min_eig I>`` of the box is negative."""
        rows = self.result.rows
        conflict = np.empty((0, 2), dtype=int) if self.result.conflict is None else self.result.conflict
        named = {(int(a), int(b)) for a, b in np.reshape(conflict, (-1, 2))}
        carried = {(int(a), int(b)) for a, b in rows[np.flatnonzero(self.result.dual)]}
        if not carried <= named <= {(int(a), int(b)) for a, b in rows}:
            found.problem("the conflict does not name all entries that carry the proof, or entries that do not exist")
        most = np.maximum(S * self.lower, S * self.upper).sum() - self.low * np.trace(S)
        found.figures["largest <S, X>"] = (np.nan, float(most))
        if not float(most) < -64 * ROUNDING * self.n * float(np.abs(S).sum()):
            found.problem(f"the largest <S, X> is {float(most):.3g}, which is not below 0", Status.UNKNOWN)
