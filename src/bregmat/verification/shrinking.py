"""Matrices shrunk towards a target: the mixture, its smallest eigenvalue, and the share that the vector proves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bregmat.applications.correlation.shrink import ShrinkResult
from bregmat.certificates.status import Status
from bregmat.verification.correlations import check_origin
from bregmat.verification.extended import arithmetic, eigenvalues, numbers, precision_text
from bregmat.verification.figures import CLOSE, ROUNDING, Verification, check_arguments, recompute


@recompute.register
def _(result: ShrinkResult, problem: Any, found: Verification) -> None:
    check_arguments(problem, "arguments of shrink_correlation", "C", known=("C", "target", "fixed", "min_eig", "scale"))
    C = problem["C"]
    labels = (list(getattr(C, "index", C.columns)), list(C.columns)) if hasattr(C, "columns") else None
    n = len(numbers(C))
    real, low = arithmetic(80.0 * n**3), float(problem.get("min_eig", 0.0))
    found.precision = precision_text(real)
    given, A, T = _read(problem, real)
    if result.X.shape != (n, n) or result.vector.shape != (n,):
        raise ValueError(f"the result has shapes {result.X.shape} and {result.vector.shape}; C has {n} rows.")
    if result.labels != labels:
        found.problem(f"labels is {labels!r}; the result says {result.labels!r}")
    found.compare("min_eig", result.min_eig, low, 0.0)
    check_origin(problem, result, found)
    X, alpha = result.X.astype(real), result.objective
    size = max(1.0, float(np.abs(A).max()))
    mixed = alpha * T + (1 - alpha) * A
    found.compare_all("X", X, mixed, 16 * ROUNDING * size)
    is_mixed = (
        0 <= alpha <= 1 and bool((np.abs(X - mixed) <= 16 * ROUNDING * size).all()) and bool((np.diag(X) == 1).all())
    )
    least = float(eigenvalues((X + X.T) / 2)[0]) if np.isfinite(result.X).all() else np.nan
    found.figures["smallest eigenvalue"] = (result.smallest_eigenvalue, least)
    is_feasible = is_mixed and bool(least >= low - 64 * ROUNDING * n * size)
    if not is_feasible:
        found.problem(f"X is no mixture of C and the target with eigenvalues of at least {low:g}", Status.UNKNOWN)
    residual = float(np.sqrt(((X - given) ** 2).sum()))
    found.compare("residual", result.residual, residual, CLOSE * max(1.0, float(np.abs(X).sum())))
    v = result.vector.astype(real)
    square = v @ v
    c, t = low * square - v @ A @ v, v @ T @ v - low * square
    bound = float(c / (c + t)) if c > 0 and t > 0 else 0.0
    found.compare("length of the vector", 1.0, float(np.sqrt(square)), CLOSE)
    rounding = 16 * n * ROUNDING * size / float(c + t) if c > 0 and t > 0 else 0.0
    found.bound_from_below("dual_bound", result.dual_bound, bound, rounding)
    found.compare("unit", result.unit, 1.0, 0.0)
    found.compare("max_violation", result.max_violation, 0.0, 0.0)
    found.judge(result, alpha - bound if is_feasible else np.inf, is_feasible)


def _read(arguments: Mapping[str, Any], real: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """C as it was handed in, scaled if that was asked for; the same with a unit diagonal; and the target."""
    given = numbers(arguments["C"]).astype(real)
    given = (given + given.T) / 2
    eye = np.eye(len(given), dtype=bool)
    if arguments.get("scale"):
        d = np.sqrt(np.diag(given))
        given = np.where(eye, 1, given / np.multiply.outer(d, d))
    A = np.where(eye, 1, given)
    if arguments.get("target") is not None:
        T = numbers(arguments["target"]).astype(real)
        return given, A, np.where(eye, 1, (T + T.T) / 2)
    fixed = arguments.get("fixed")
    kept = eye if fixed is None else np.asarray(fixed, dtype=bool) | eye
    return given, A, np.where(kept, A, 0)
