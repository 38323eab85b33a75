"""Pairs of points with squared distances, or their differences, as the online LogDet learner reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat.checks import as_numbers, check_finite, rows_text


def differences(X: Any, d: int | None, *, are_given: bool) -> np.ndarray:
    """Finite rows (n, d): differences as they are, pairs (n, 2, d) subtracted."""
    if are_given:
        return real_rows(X, d, "(n, d) differences", ndim=2)
    A = real_rows(X, d, "(n, 2, d) pairs of points (differences of points need differences=True)", ndim=3)
    return np.ascontiguousarray(A[:, 0] - A[:, 1])


def real_rows(X: Any, d: int | None, shapes: str, *, ndim: int) -> np.ndarray:
    """Finite real numbers, (n, d) or (n, 2, d)."""
    A = as_numbers("X", X)
    if A.ndim != ndim or (A.ndim == 3 and A.shape[1] != 2) or A.shape[-1] == 0:
        raise ValueError(f"X must have shape {shapes}; got {A.shape}.")
    if d is not None and A.shape[-1] != d:
        raise ValueError(f"X must have {d} features; got {A.shape[-1]}.")
    check_finite("X", A)
    return np.ascontiguousarray(A)


def check_labels(Z: np.ndarray, y: np.ndarray, sense: np.ndarray) -> None:
    """Raise for squared distances that no metric has."""
    bad = np.flatnonzero(y < 0.0)
    if len(bad):
        raise ValueError(f"y holds squared distances, which are not negative; got {y[bad[0]]} in {rows_text(bad)}.")
    bad = np.flatnonzero((y > 0.0) & (sense <= 0) & ~Z.any(axis=1))
    if len(bad):
        raise ValueError(
            f"X has identical points in {rows_text(bad)}, which no metric puts at the squared distance {y[bad[0]]}."
        )
