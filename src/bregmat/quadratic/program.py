"""The data of a nonnegative quadratic program, checked once, with the units in which its conditions are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from bregmat._kernels import descent
from bregmat.base.checks import as_column, as_matrix, check_finite
from bregmat.base.linalg import EPS
from bregmat.base.threads import cached_property

# Largest difference of two mirrored entries, relative to the diagonal entries of their rows: not the tolerance of checks.py,
# because A is used as it is given, never copied or averaged, and its scale may differ from row to row.
SYMMETRY = 1e-10
UNIT = 1.2e-16  # half a unit in the last place, and a little
Equality = tuple[np.ndarray, np.ndarray] | None


@dataclass(frozen=True, eq=False)
class QuadraticProgram:
    """``minimize 1/2 x'Ax + b'x`` over ``0 <= x <= upper``, ``E x = e`` (Sha, Saul and Lee 2002, eq. 1).

    Attributes
    ----------
    A : ndarray, shape (n, n)
        Symmetric, C-contiguous float64. Positive semidefinite: a solver that meets negative curvature says so.
    b : ndarray, shape (n,)
    upper : ndarray, shape (n,)
        Upper bounds, inf where there is none.
    E : ndarray, shape (m, n)
        Equality rows, often none.
    e : ndarray, shape (m,)
    """

    A: np.ndarray
    b: np.ndarray
    upper: np.ndarray
    E: np.ndarray
    e: np.ndarray

    @classmethod
    def build(cls, A: Any, b: Any, *, upper: Any = None, equality: Any = None) -> Self:
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
        return cls(A, b, as_upper(upper, len(A)), *as_equality(equality, len(A)))

    @classmethod
    def of(cls, A: np.ndarray, b: np.ndarray, upper: np.ndarray | None = None, equality: Equality = None) -> Self:
        """From data that are known to be right.

        Parameters
        ----------
        A, b, upper
            As the attributes of this name; None for no upper bounds.
        equality : tuple (E, e), optional
        """
        n = len(b)
        E, e = no_rows(n) if equality is None else equality
        return cls(A, b, np.full(n, np.inf) if upper is None else upper, E, e)

    @cached_property
    def n(self) -> int:
        """Number of variables."""
        return len(self.b)

    @cached_property
    def m(self) -> int:
        """Number of equality rows."""
        return len(self.e)

    # ---------------------------------------------------------------- units
    @cached_property
    def diagonal(self) -> np.ndarray:
        """``A_ii``, shape (n,), rounding below 0 taken off."""
        return np.maximum(self.A.diagonal(), 0.0)

    @cached_property
    def root(self) -> np.ndarray:
        """``sqrt(A_ii)``, shape (n,)."""
        return np.sqrt(self.diagonal)

    @cached_property
    def weights(self) -> np.ndarray:
        """``1 / sqrt(A_ii)``, shape (n,), the unit in which gradients are compared; that of the largest A_ii where A_ii = 0."""
        largest = float(self.diagonal.max()) or 1.0
        return 1.0 / np.sqrt(np.where(self.diagonal > 1e-300, self.diagonal, largest))

    def unit(self, h: np.ndarray, *, weighted: bool = False) -> float:
        """Size of the parts of the linear term that matter at the reduced gradient h, in units of b or ``weighted`` ones; positive.

        A negative ``b_i`` matters as far as the box lets ``A_ii x_i`` answer it, any other as far as the rest of the reduced
        gradient, ``h - b``, answers it: a variable that a large positive ``b_i`` keeps at zero sets no unit for the others.
        """
        b, weight = self.b, self.weights if weighted else 1.0
        size, other = np.abs(b), np.abs(h - b)
        with np.errstate(invalid="ignore"):
            reach = np.where(np.isinf(self.upper), np.inf, self.diagonal * self.upper)
        matters = np.minimum(size, np.where(b < 0.0, np.maximum(reach, other), other)) * weight
        return float(matters.max()) or float((other * weight).max()) or float((size * weight).max()) or 1.0

    # ---------------------------------------------------------------- what the box implies
    @cached_property
    def implied_upper(self) -> np.ndarray:
        """Upper bounds, shape (n,), with those that single equality rows and the box imply."""
        upper = self.upper.copy()
        noise = UNIT * (self.n + 4)
        for row, total in zip(self.E, self.e, strict=True):
            for a, t in ((row, total), (-row, -total)):
                raised, lowered = a > 0.0, a < 0.0
                least = float((a[lowered] * upper[lowered]).sum())
                if least == -np.inf or not raised.any():
                    continue
                room = t - least + noise * (abs(t) - least)
                upper[raised] = np.minimum(upper[raised], max(room, 0.0) * (1.0 + 4 * UNIT) / a[raised])
        return upper

    @cached_property
    def bound_at_zero(self) -> float:
        """The bound of ``z = 0`` without multipliers, ``sum_i u_i min(0, b_i)``: 0 where no b is negative; else perhaps -inf."""
        falling = self.b < 0.0
        return float((self.implied_upper[falling] * self.b[falling]).sum()) * (1.0 + UNIT * (self.n + 4))

    # ---------------------------------------------------------------- a point
    def gradient(self, x: np.ndarray) -> np.ndarray:
        """``A x + b``, shape (n,)."""
        return self.A @ x + self.b

    def objective(self, x: np.ndarray) -> float:
        """``1/2 x'Ax + b'x``."""
        return float(x @ (0.5 * (self.A @ x) + self.b))

    def reduced(self, gradient: np.ndarray, multiplier: np.ndarray) -> np.ndarray:
        """The reduced gradient ``gradient + E' multiplier``, shape (n,)."""
        return gradient + multiplier @ self.E if self.m else gradient

    def violations(self, x: np.ndarray, h: np.ndarray) -> np.ndarray:
        """By how much the reduced gradient h violates the optimality condition of every variable, shape (n,)."""
        low, high = x <= 0.0, x >= self.upper
        return np.maximum(np.where(low & high, 0.0, np.where(low, -h, np.where(high, h, np.abs(h)))), 0.0)

    def residual(self, x: np.ndarray, h: np.ndarray) -> float:
        """Largest violation of the optimality conditions by the reduced gradient h, as ``QPResult.kkt_residual``."""
        floor = np.maximum(np.abs(self.b) * self.weights, self.unit(h, weighted=True))
        return float((self.violations(x, h) * self.weights / floor).max())

    def free_multiplier(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Least-squares multipliers of the rows, shape (m,), on the variables away from their bounds."""
        if not self.m:
            return np.zeros(0)
        weight = np.sqrt(np.maximum(np.minimum(x, self.upper - x), 0.0))
        if not weight.any():
            weight[:] = 1.0
        return np.linalg.lstsq((self.E * weight).T, -g * weight, rcond=None)[0]

    def row_violation(self, x: np.ndarray) -> float:
        """Largest residual of an equality row, relative to the size of its terms."""
        if not self.m:
            return 0.0
        E, e = self.E, self.e
        # what a few roundings of the largest variable come to is none of a row's whose own variables are tiny
        rounding = 64 * EPS * np.abs(E).max(axis=1) * float(np.abs(x).max())
        missing = np.maximum(np.abs(E @ x - e) - rounding, 0.0)
        size = np.abs(E) @ np.abs(x) + np.abs(e)
        return float((missing / np.where(size > 0, size, 1.0)).max())

    # ---------------------------------------------------------------- related programs
    def without_rows(self) -> QuadraticProgram:
        """The program with a quadratic penalty in place of its rows: for first guesses."""
        if not self.m:
            return self
        E, e = self.E, self.e
        curved = float(np.trace(self.A)) or float(np.abs(self.b).max()) or 1.0
        weight = curved / (float((E * E).sum()) or 1.0)
        return QuadraticProgram.of(self.A + weight * (E.T @ E), self.b - weight * (e @ E), self.upper)


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where an exact method ended.

    Attributes
    ----------
    x : ndarray, shape (n,)
        Inside the box; the best point known. ``E x = e`` to rounding where the start allowed it.
    multiplier : ndarray, shape (m,)
        Of ``E x = e``: the reduced gradient is ``A x + b + E' multiplier``; of length 0 where it is not known.
    is_rough : bool
        Whether it was cut off, so that much work on its proof is not worth while.
    is_done : bool
        Whether every condition holds to the method's tolerance.
    n_iter : int
        Free sets, bulk steps and single exchanges, as the method counts.
    n_factor : int
        Factorisations from scratch.
    violation : float
        Largest violation of the optimality conditions by the reduced gradient, in its units.
    rising : callable, or None
        Gives directions w, shape (n,), that raise the reduced gradient, such as ``A w = sqrt(A_ii)`` on the free variables.
    guess : ndarray, shape (n,), or None
        Where it began, for a method that goes on where this one ends without a solution.
    falling : ndarray, shape (n,), or None
        A direction along which the objective seems to fall without end.
    """

    x: np.ndarray
    multiplier: np.ndarray = field(default_factory=lambda: np.zeros(0))
    is_rough: bool = False
    is_done: bool = False
    n_iter: int = 0
    n_factor: int = 0
    violation: float = np.nan
    rising: Callable[[], Iterable[np.ndarray]] | None = None
    guess: np.ndarray | None = None
    falling: np.ndarray | None = None


# -------------------------------------------------------------------- checks
def no_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """``(E, e)`` of no equality."""
    return np.zeros((0, n)), np.zeros(0)


def _check_entries(A: np.ndarray) -> None:
    """Finite, symmetric, and no 2 x 2 minor below zero, in one pass."""
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
            f"because A[{i}, {j}]^2 = {A[i, j] ** 2:.6g} is more than A[{i}, {i}] A[{j}, {j}] = {A[i, i] * A[j, j]:.6g}."
        )


def onto_row(x: np.ndarray, row: np.ndarray, total: float, upper: np.ndarray) -> np.ndarray:
    """``clip(x - mu row, 0, upper)`` with ``row . x = total``, mu by bisection to the last digit; all (n,), row is not 0.

    Where the box does not allow that total, the point of the box nearest to it along the way.

    Parameters
    ----------
    x, row, upper : ndarray, shape (n,)
    total : float
    """

    def clipped(mu: float) -> np.ndarray:
        return np.minimum(np.maximum(x - mu * row, 0.0), upper)

    def excess(mu: float) -> float:
        return float(row @ clipped(mu)) - total

    size = np.abs(row[row != 0.0])
    smallest, strongest = float(size.min()), float(size.max())
    reach = (np.abs(x) + upper)[(row != 0.0) & (upper < np.inf)].max(initial=0.0)
    first, ratio = (1.0 + max(abs(total), float(np.abs(x).max()))) / strongest, strongest / smallest
    far = 4.0 * first * (ratio * ratio)
    back = -max(far, 2.0 * float(reach) / smallest)  # beyond it every variable with a bound is at one
    lo = hi = 0.0
    step = first
    while hi < far and excess(hi) > 0.0:
        hi, step = hi + step, 2.0 * step
    step = first
    while lo > back and excess(lo) < 0.0:
        lo, step = lo - step, 2.0 * step
    for _ in range(200):
        mu = 0.5 * (lo + hi)
        if mu in (lo, hi):
            break
        lo, hi = (mu, hi) if excess(mu) > 0.0 else (lo, mu)
    return clipped(hi)


def as_upper(value: Any, n: int) -> np.ndarray:
    """Upper bounds, shape (n,)."""
    if value is None:
        return np.full(n, np.inf)
    return as_column(
        "upper", value, n, per="variable", scalar=True, infinite=True, lowest=0, hint=" (inf for no bound)", copy=True
    )


def as_equality(value: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (m, n) and values (m,)."""
    if value is None:
        return no_rows(n)
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


def as_start(x0: Any, upper: np.ndarray) -> np.ndarray | None:
    """A start inside the box, shape (n,), copied; None where none is given."""
    if x0 is None:
        return None
    x = as_column("x0", x0, len(upper), per="variable", copy=True)
    bad = np.flatnonzero((x < 0) | (x > upper))
    if len(bad):
        k = int(bad[0])
        raise ValueError(f"x0 must lie in [0, upper]; x0[{k}] = {x[k]:.6g} with upper bound {upper[k]:.6g}.")
    return x
