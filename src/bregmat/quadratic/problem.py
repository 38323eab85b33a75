"""Nonnegative quadratic programs, validated once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from bregmat._kernels.descent import NOT_DEFINITE, NOT_FINITE, NOT_SYMMETRIC, inspect

SYMMETRY = 1e-10  # largest difference of two mirrored entries, relative to the diagonal entries of their rows


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
        A = as_numbers("A", A, 2, finite=False)
        if A.shape[0] != A.shape[1] or len(A) == 0:
            raise ValueError(f"A must be square, (n, n) with n >= 1; got shape {A.shape}.")
        b = as_numbers("b", b, 1)
        if len(b) != len(A):
            raise ValueError(f"b must have one entry per row of A, {len(A)}; got shape {b.shape}.")
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


class MaskedError(ValueError):
    """Masked entries have no value."""


def check_unmasked(name: str, value: Any) -> None:
    """Raise where entries of a masked array are masked."""
    if np.ma.is_masked(value):
        rows = np.unique(np.nonzero(np.ma.getmaskarray(value))[0])
        raise MaskedError(f"{name} must have no masked entries; rows {_some(rows)} have.")


def as_numbers(name: str, value: Any, dimensions: int, *, finite: bool = True) -> np.ndarray:
    """A float64 array of so many dimensions, C-contiguous."""
    if sparse.issparse(value):
        raise TypeError(f"{name} must be a dense array; got a sparse one: pass {name}.toarray().")
    try:
        if np.iscomplexobj(value):
            raise TypeError("got complex ones")
        check_unmasked(name, value)
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, MaskedError):
            raise
        raise TypeError(f"{name} must be an array of real numbers; {error}.") from error
    if array.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimension{'s' * (dimensions > 1)}; got shape {array.shape}.")
    array = np.ascontiguousarray(array)
    if finite and not np.isfinite(array).all():
        rows = np.unique(np.nonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite; rows {_some(rows)} hold NaN or infinity.")
    return array


def _check_entries(A: np.ndarray) -> None:
    """Finite, symmetric, and no 2 x 2 minor below zero, in one pass."""
    code, i, j = inspect(A, SYMMETRY, 1e-9)
    if code == NOT_FINITE:
        rows = np.flatnonzero(~np.isfinite(A).all(axis=1))
        raise ValueError(f"A must be finite; rows {_some(rows)} hold NaN or infinity.")
    if code == NOT_SYMMETRIC:
        raise ValueError(f"A must be symmetric; A[{i}, {j}] = {A[i, j]:.17g} but A[{j}, {i}] = {A[j, i]:.17g}.")
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
    check_unmasked("upper", value)
    try:
        bounds = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"upper must be a number or an array of numbers; {error}.") from error
    if bounds.ndim == 0:
        bounds = np.full(n, float(bounds))
    if bounds.shape != (n,):
        raise ValueError(f"upper must be a number or have shape ({n},); got shape {bounds.shape}.")
    if np.isnan(bounds).any() or (bounds < 0).any():
        rows = np.flatnonzero(~(bounds >= 0))
        raise ValueError(
            f"upper must be at least 0 (inf for no bound); entries {_some(rows)} are {bounds[rows[0]]:.6g}."
        )
    return bounds


def as_equality(value: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (m, n) and values (m,)."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"equality must be a pair (E, e); got {type(value).__name__}.")
    E, e = value
    E = as_numbers("equality[0] (E)", np.atleast_2d(E) if _dimensions(E) == 1 else E, 2)
    e = as_numbers("equality[1] (e)", np.atleast_1d(e) if _dimensions(e) == 0 else e, 1)
    if E.shape[1] != n:
        raise ValueError(f"equality[0] (E) must have {n} columns; got shape {E.shape}.")
    if len(e) != len(E):
        raise ValueError(f"equality[1] (e) must have {len(E)} entries, one per row of E; got shape {e.shape}.")
    return E, e


def _dimensions(value: Any) -> int:
    """Number of dimensions; -1 where the rows differ in length."""
    try:
        return int(np.ndim(value))
    except ValueError:
        return -1


def _some(rows: np.ndarray, most: int = 8) -> str:
    shown = ", ".join(str(int(row)) for row in rows[:most])
    return shown + (f" and {len(rows) - most} more" if len(rows) > most else "")
