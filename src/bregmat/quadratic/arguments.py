"""Checks of the arguments of quadratic programs: matrix, bounds, equality rows, start."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat._kernels import descent
from bregmat.base.checks import as_column, as_matrix, check_finite
from bregmat.kernels.definite import way_out

# Largest difference of two mirrored entries, relative to the diagonal entries of their rows. It is not the tolerance of base.checks,
# because A is never copied or averaged, and the scale of its rows may differ.
SYMMETRY = 1e-10
RANGE = 1e60  # sizes must lie between 1 / RANGE and RANGE, so that products of a few of them do not overflow


def check_entries(A: np.ndarray) -> None:
    """Raise unless A is finite and symmetric and has no negative 2 x 2 minor; one pass over A."""
    code, i, j = descent.inspect(A, SYMMETRY, 1e-9)
    if code == descent.NOT_FINITE:
        check_finite("A", A)
    if code == descent.NOT_SYMMETRIC:
        raise ValueError(f"A must be symmetric; got {A[i, j]:.17g} at [{i}, {j}] but {A[j, i]:.17g} at [{j}, {i}].")
    if code == descent.NOT_DEFINITE and i == j:
        raise ValueError(f"A is not positive semidefinite: A[{i}, {i}] = {A[i, i]:.6g} is negative.")
    if code == descent.NOT_DEFINITE:
        low = float(np.linalg.eigvalsh([[A[i, i], A[i, j]], [A[i, j], A[j, j]]])[0])
        raise ValueError(
            f"A is not positive semidefinite: rows and columns {i} and {j} alone have the eigenvalue {low:.6g}, "
            f"because A[{i}, {j}]^2 = {A[i, j] ** 2:.6g} is more than A[{i}, {i}] A[{j}, {j}] = {A[i, i] * A[j, j]:.6g}.{way_out(A)}"
        )


def check_range(name: str, size: float) -> None:
    """Raise for a size of the data that is not 0 and above ``RANGE`` or below its inverse, so that products may overflow."""
    if size != 0.0 and not 1.0 / RANGE <= size <= RANGE:
        raise ValueError(
            f"{name} must be between {1.0 / RANGE:g} and {RANGE:g} (or 0); got {size:.3g}. Scale the data towards 1."
        )


def as_upper(value: Any, n: int) -> np.ndarray:
    """Upper bounds, shape (n,); None stands for inf."""
    if value is None:
        return np.full(n, np.inf)
    return as_column(
        "upper", value, n, per="variable", scalar=True, infinite=True, lowest=0, hint=" (inf for no bound)", copy=True
    )


def no_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """``(E, e)`` without rows."""
    return np.zeros((0, n)), np.zeros(0)


def as_equality(value: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Equality rows E, shape (m, n), and their values e, shape (m,)."""
    if value is None:
        return no_rows(n)
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"equality must be a pair (E, e); got {type(value).__name__}.")
    E, e = value
    E = as_matrix("equality[0] (E)", np.atleast_2d(E) if _is_single_row(E) else E)
    if E.shape[1] != n:
        raise ValueError(f"equality[0] (E) must have {n} columns; got shape {E.shape}.")
    e = as_column("equality[1] (e)", e, len(E), per="row of E", scalar=len(E) == 1)
    return np.ascontiguousarray(E), np.ascontiguousarray(e)


def _is_single_row(value: Any) -> bool:
    """Whether the value is one-dimensional."""
    try:
        return np.ndim(value) == 1
    except ValueError:  # rows of different lengths
        return False


def as_start(x0: Any, upper: np.ndarray) -> np.ndarray | None:
    """A copy of the start, shape (n,), which must lie inside the box; None if none is given."""
    if x0 is None:
        return None
    x = as_column("x0", x0, len(upper), per="variable", copy=True)
    bad = np.flatnonzero((x < 0) | (x > upper))
    if len(bad):
        k = int(bad[0])
        raise ValueError(f"x0 must lie in [0, upper]; x0[{k}] = {x[k]:.6g} with upper bound {upper[k]:.6g}.")
    return x
