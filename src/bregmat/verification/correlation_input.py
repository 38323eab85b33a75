"""Verification of correlation matrices: the checks that all kinds share, and matrices shrunk towards a target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse

from bregmat.applications.correlation.result import CorrelationResult
from bregmat.applications.correlation.shrink import ShrinkResult
from bregmat.base.checks import as_numbers
from bregmat.base.tolerances import EPS, HALF_DIGITS
from bregmat.engine.status import Status
from bregmat.verification.extended import arithmetic, eigenvalues, numbers, precision_text
from bregmat.verification.figures import EXACT, Verification, check_arguments, recompute


class CorrelationInput:
    """The input C, symmetric and scaled if requested, and checks of a result against it.

    Entries outside of the mask ``known``, shape (n, n), are 0.
    """

    def __init__(self, arguments: Mapping[str, Any], result: Any, known: np.ndarray | None = None) -> None:
        C, self.result = arguments["C"], result
        has_names = hasattr(C, "columns")
        labels = (list(getattr(C, "index", C.columns)), list(C.columns)) if has_names else None
        self.asked = {"labels": labels, "frame": "polars" if has_names and not hasattr(C, "index") else None}
        matrix = as_numbers("C", C.toarray() if scipy.sparse.issparse(C) else C, booleans=True)
        self.n = n = len(matrix)
        if result.X.shape != (n, n):
            raise ValueError(f"the result has shape {result.X.shape}; C has {n} rows.")
        self.real, self.eye = arithmetic(80.0 * n**3), np.eye(n, dtype=bool)
        matrix = matrix.astype(self.real) if known is None else np.where(known, matrix, 0).astype(self.real)
        matrix[self.eye & np.isnan(matrix)] = 1  # unknown diagonal entries
        self.C, self.deviations = (matrix + matrix.T) / 2, None
        if arguments.get("scale"):
            d = np.sqrt(np.diag(self.C))
            by = np.where(d > 0, d, np.inf)  # correlations of constant variables are unknown, and 0 here
            self.C, self.deviations = np.where(self.eye, 1, self.C / np.multiply.outer(by, by)), d.astype(float)
        self.low = self.real(arguments.get("min_eig", 0.0))

    def check_asked(self, report: Verification, **asked: Any) -> None:
        """Compare attributes of the result that repeat arguments: ``asked``, by name, and those that all results have."""
        report.precision = precision_text(self.real)
        for name, value in (self.asked | asked).items():
            if getattr(self.result, name) != value:
                report.problem(f"{name} is {value!r}; the result says {getattr(self.result, name)!r}")
        report.compare("min_eig", float(self.low), 0.0)
        if self.deviations is not None:
            report.compare_all("deviations", self.deviations, EXACT * self.deviations)
        elif self.result.deviations is not None:
            report.problem("the result has standard deviations of an input that was not scaled")

    def check_matrix(self, report: Verification, known: Any = True) -> bool:
        """Compare the distance from the input; return whether X is symmetric and has no eigenvalue below ``min_eig``."""
        X = self.result.X.astype(self.real)
        if not np.isfinite(self.result.X).all() or (X != X.T).any():
            report.problem("X is not a finite symmetric matrix", Status.UNKNOWN)
            return False
        residual = float(np.sqrt((np.where(known, X - self.C, 0) ** 2).sum()))
        report.compare("residual", residual, HALF_DIGITS * max(1.0, float(np.abs(X).sum()), residual))
        values = eigenvalues(X)
        report.figures["smallest eigenvalue"] = (self.result.smallest_eigenvalue, float(values[0]))
        is_met = bool(values[0] >= self.low - 64 * EPS * self.n * max(1.0, float(values[-1])))
        return report.check_feasible(is_met, f"an eigenvalue is {float(values[0]):.3g}, below {float(self.low):g}")


class EntryProof(CorrelationInput):
    """Input of a result that has multipliers of the entries ``rows``, shape (c, 2)."""

    result: CorrelationResult

    def sum(self, mu: np.ndarray) -> np.ndarray:
        """The symmetric matrix Y for which ``<Y, X>`` is the sum of the entries weighted by mu."""
        Y = np.zeros((self.n, self.n), dtype=self.real)
        np.add.at(Y, tuple(self.result.rows.T), mu.astype(self.real) / 2)
        return Y + Y.T

    def check_conflict(self, report: Verification) -> None:
        """Check that the conflict contains all entries of the proof."""
        pairs = [(int(a), int(b)) for a, b in self.result.rows]
        conflict = np.empty((0, 2)) if self.result.conflict is None else self.result.conflict
        named = {(int(a), int(b)) for a, b in np.reshape(conflict, (-1, 2))}
        if not {pairs[k] for k in np.flatnonzero(self.result.dual)} <= named <= set(pairs):
            report.problem("the conflict does not name all entries that carry the proof, or entries that are free")


@recompute.register
def _(result: ShrinkResult, problem: Any, report: Verification) -> None:
    check_arguments(problem, "arguments of shrink_correlation", "C", known=("C", "target", "fixed", "min_eig", "scale"))
    matrix = CorrelationInput(problem, result)
    n, real, low = matrix.n, matrix.real, matrix.low
    if result.vector.shape != (n,):
        raise ValueError(f"the result has a vector of shape {result.vector.shape}; C has {n} rows.")
    matrix.check_asked(report)
    A = np.where(matrix.eye, 1, matrix.C)
    fixed = matrix.eye if problem.get("fixed") is None else np.asarray(problem["fixed"], dtype=bool) | matrix.eye
    T = np.where(fixed, A, 0)
    if problem.get("target") is not None:
        T = numbers(problem["target"]).astype(real)
        T = np.where(matrix.eye, 1, (T + T.T) / 2)
    # X = alpha T + (1 - alpha) A
    X, alpha, size = result.X.astype(real), result.objective, max(1.0, float(np.abs(A).max()))
    mixed = alpha * T + (1 - alpha) * A
    report.compare_all("X", mixed, 16 * EPS * size)
    is_mixed = 0 <= alpha <= 1 and bool((np.abs(X - mixed) <= 16 * EPS * size).all() and (np.diag(X) == 1).all())
    if not (is_feasible := matrix.check_matrix(report) and is_mixed):
        report.problem(f"X is no mixture of C and the target with eigenvalues of at least {low:g}", Status.UNKNOWN)
    # v'(alpha T + (1 - alpha) A) v >= low v'v requires alpha >= c / (c + t)
    v = result.vector.astype(real)
    square = v @ v
    c, t = low * square - v @ A @ v, v @ T @ v - low * square
    bound, rounding = (float(c / (c + t)), 16 * n * EPS * size / float(c + t)) if c > 0 and t > 0 else (0.0, 0.0)
    if not abs(float(np.sqrt(square)) - 1) <= HALF_DIGITS:
        report.problem(f"the vector has the length {float(np.sqrt(square)):.9g} instead of 1")
    report.bound_from_below("dual_bound", bound, 0.0, rounding, 1.0)
    report.compare("unit", 1.0, 0.0)
    report.compare("max_violation", 0.0, 0.0)
    report.judge(alpha - bound, is_feasible)
