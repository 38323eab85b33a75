"""Nonnegative quadratic programs, validated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat._kernels.descent import NOT_DEFINITE, NOT_FINITE, NOT_SYMMETRIC, inspect
from bregmat.checks import as_column, as_matrix, check_finite

# Largest difference of two mirrored entries, relative to the diagonal entries of their rows: not the tolerance of checks.py,
# because A is used as it is given, never copied or averaged, and its scale may differ from row to row.
SYMMETRY = 1e-10


@dataclass(frozen=True, eq=False)
class NonnegativeQP:
    """``minimize 1/2 x'Ax + b'x`` over ``0 <= x <= upper``, ``E x = e`` (Sha, Saul and Lee 2002, eq. 1).

    Attributes
    ----------
    A : ndarray, shape (n, n)
        Symmetric, C-contiguous float64. Positive semidefinite: a solver that meets negative curvature says so.
    b : ndarray, shape (n,)
    upper : ndarray, shape (n,), or None
        Upper bounds, inf where there is none; None for no upper bounds at all.
    equality : tuple of ndarray (m, n) and ndarray (m,), or None
        ``(E, e)``.
    """

    A: np.ndarray
    b: np.ndarray
    upper: np.ndarray | None = None
    equality: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def build(cls, A: Any, b: Any, *, upper: Any = None, equality: Any = None) -> NonnegativeQP:
        """Check the data and bring it to float64.

        Parameters
        ----------
        A : array-like, shape (n, n)
            Symmetric positive semidefinite; not copied where it is float64 and C-contiguous already.
        b : array-like, shape (n,)
        upper : float or array-like, shape (n,), optional
            At least 0; inf for no bound.
        equality : tuple (E, e), optional
            Shapes (m, n) and (m,); a single row may be given as a vector and a number.

        Raises
        ------
        ValueError
            Wrong shapes, numbers that are not finite (rows named), A not symmetric (the entry is named), a negative diagonal
            entry or a negative 2 x 2 minor that shows that A is not positive semidefinite, negative upper bounds.
        TypeError
            What cannot be read as numbers, or ``equality`` that is no pair.
        """
        A = np.ascontiguousarray(as_matrix("A", A, square=True, finite=False))
        b = np.ascontiguousarray(as_column("b", b, len(A), per="row of A"))
        _check_entries(A)
        bounds = None if upper is None else as_upper(upper, len(A))
        rows = None if equality is None else as_equality(equality, len(A))
        return cls(A, b, bounds, rows)

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.b)

    @property
    def bounds(self) -> np.ndarray:
        """Upper bounds, shape (n,), inf where there is none."""
        return np.full(self.n, np.inf) if self.upper is None else self.upper

    @property
    def weights(self) -> np.ndarray:
        """``1 / sqrt(A_ii)``, shape (n,), the unit in which gradients are compared; that of the largest A_ii where A_ii = 0."""
        return weights_of(self.A)

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """``(E, e)``, with no rows where there is no equality."""
        return (np.zeros((0, self.n)), np.zeros(0)) if self.equality is None else self.equality

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """``A x + b``."""
        return self.A @ x + self.b

    def objective(self, x: np.ndarray) -> float:
        """``1/2 x'Ax + b'x``."""
        return float(x @ (0.5 * (self.A @ x) + self.b))


def weights_of(A: np.ndarray) -> np.ndarray:
    """``1 / sqrt(A_ii)``; that of the largest A_ii where A_ii = 0, and 1 where A = 0."""
    d = A.diagonal()
    largest = float(d.max()) if d.max() > 0 else 1.0
    return 1.0 / np.sqrt(np.where(d > 1e-300, d, largest))


def conditions(x: np.ndarray, h: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """By how much the reduced gradient h violates the optimality condition of every variable, shape (n,)."""
    low, high = x <= 0.0, x >= upper
    return np.maximum(np.where(low & high, 0.0, np.where(low, -h, np.where(high, h, np.abs(h)))), 0.0)


def _check_entries(A: np.ndarray) -> None:
    """Finite, symmetric, and no 2 x 2 minor below zero, in one pass."""
    code, i, j = inspect(A, SYMMETRY, 1e-9)
    if code == NOT_FINITE:
        check_finite("A", A)
    if code == NOT_SYMMETRIC:
        raise ValueError(f"A must be symmetric; got {A[i, j]:.17g} at [{i}, {j}] but {A[j, i]:.17g} at [{j}, {i}].")
    if code == NOT_DEFINITE and i == j:
        raise ValueError(f"A is not positive semidefinite: A[{i}, {i}] = {A[i, i]:.6g} is negative.")
    if code == NOT_DEFINITE:
        low = float(np.linalg.eigvalsh([[A[i, i], A[i, j]], [A[i, j], A[j, j]]])[0])
        raise ValueError(
            f"A is not positive semidefinite: rows and columns {i} and {j} alone have the eigenvalue {low:.6g}, "
            f"because A[{i}, {j}]^2 = {A[i, j] ** 2:.6g} is more than A[{i}, {i}] A[{j}, {j}] = {A[i, i] * A[j, j]:.6g}."
        )


def as_upper(value: Any, n: int) -> np.ndarray:
    """Upper bounds, shape (n,)."""
    return as_column(
        "upper", value, n, per="variable", scalar=True, infinite=True, lowest=0, hint=" (inf for no bound)", copy=True
    )


def as_equality(value: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (m, n) and values (m,)."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"equality must be a pair (E, e); got {type(value).__name__}.")
    E, e = value
    E = as_matrix("equality[0] (E)", np.atleast_2d(E) if _is_flat(E) else E)
    if E.shape[1] != n:
        raise ValueError(f"equality[0] (E) must have {n} columns; got shape {E.shape}.")
    e = as_column("equality[1] (e)", e, len(E), per="row of E", scalar=len(E) == 1)
    return np.ascontiguousarray(E), np.ascontiguousarray(e)


def _is_flat(value: Any) -> bool:
    """Whether this is a single row."""
    try:
        return np.ndim(value) == 1
    except ValueError:  # rows that differ in length
        return False
