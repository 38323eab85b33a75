"""The data of a nonnegative quadratic program, with the units in which its optimality conditions are tested."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from bregmat.base.checks import as_column, as_matrix
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import EPS, TINY, UNIT_ROUNDOFF
from bregmat.quadratic.arguments import as_equality, as_upper, check_entries, no_rows
from bregmat.run.loop import State
from bregmat.run.result import ExitReason


@dataclass(frozen=True, eq=False)
class QuadraticProgram:
    """``minimize 1/2 x'Ax + b'x`` over ``0 <= x <= upper``, ``E x = e`` (Sha, Saul and Lee 2002, eq. 1).

    Attributes
    ----------
    A : ndarray, shape (n, n)
        Symmetric, C-contiguous float64. Positive semidefinite: a solver that finds negative curvature raises.
    b : ndarray, shape (n,)
    upper : ndarray, shape (n,)
        Upper bounds, inf for none.
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
        """Check the data of a program and convert it to float64; A is not copied if it has this form.

        Parameters
        ----------
        A, b, upper, equality
            As for :func:`bregmat.nnqp`.
        """
        A = np.ascontiguousarray(as_matrix("A", A, square=True, finite=False))
        b = np.ascontiguousarray(as_column("b", b, len(A), per="row of A"))
        check_entries(A)
        return cls(A, b, as_upper(upper, len(A)), *as_equality(equality, len(A)))

    @classmethod
    def of(cls, A: np.ndarray, b: np.ndarray, upper: np.ndarray | None = None, equality: Any = None) -> Self:
        """Make a program from data that need no checks.

        Parameters
        ----------
        A, b, upper, equality
            As for :func:`bregmat.nnqp`.
        """
        E, e = no_rows(len(b)) if equality is None else equality
        return cls(A, b, np.full(len(b), np.inf) if upper is None else upper, E, e)

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
        """``A_ii``, shape (n,); rounding below 0 becomes 0."""
        return np.maximum(self.A.diagonal(), 0.0)

    @cached_property
    def root(self) -> np.ndarray:
        """``sqrt(A_ii)``, shape (n,)."""
        return np.sqrt(self.diagonal)

    @cached_property
    def weights(self) -> np.ndarray:
        """``1 / sqrt(A_ii)``, shape (n,), by which gradients are multiplied before they are compared; of the largest A_ii if A_ii = 0."""
        largest = float(self.diagonal.max()) or 1.0
        return 1.0 / np.sqrt(np.where(self.diagonal > TINY, self.diagonal, largest))

    def unit(self, h: np.ndarray, *, weighted: bool = False) -> float:
        """The largest relevant entry of the linear term b at the reduced gradient h, optionally times ``weights``; positive.

        A negative ``b_i`` is relevant as far as ``A_ii x_i`` can compensate it inside the box. Any other is relevant as far as the rest
        of the reduced gradient, ``h - b``, compensates it. A large positive ``b_i`` that only keeps its variable at zero is not.
        """
        b, weight = self.b, self.weights if weighted else 1.0
        size, other = np.abs(b), np.abs(h - b)
        with np.errstate(invalid="ignore"):
            reach = np.where(np.isinf(self.upper), np.inf, self.diagonal * self.upper)
        matters = np.minimum(size, np.where(b < 0.0, np.maximum(reach, other), other)) * weight
        return float(matters.max()) or float((other * weight).max()) or float((size * weight).max()) or 1.0

    # ---------------------------------------------------------------- bounds
    @cached_property
    def implied_upper(self) -> np.ndarray:
        """Upper bounds, shape (n,), with those that single equality rows and the box imply."""
        upper = self.upper.copy()
        noise = UNIT_ROUNDOFF * (self.n + 4)
        for row, total in zip(self.E, self.e, strict=True):
            for a, t in ((row, total), (-row, -total)):
                raised, lowered = a > 0.0, a < 0.0
                # a_i x_i <= t - (least of the terms with negative coefficients), rounded up
                least = float((a[lowered] * upper[lowered]).sum())
                if least == -np.inf or not raised.any():
                    continue
                most = t - least + noise * (abs(t) - least)
                upper[raised] = np.minimum(upper[raised], max(most, 0.0) * (1.0 + 4 * UNIT_ROUNDOFF) / a[raised])
        return upper

    @cached_property
    def bound_at_zero(self) -> float:
        """The lower bound from ``x'Ax >= 0`` alone, ``sum_i u_i min(0, b_i)``: 0 if no b is negative, perhaps -inf otherwise."""
        falling = self.b < 0.0
        return float((self.implied_upper[falling] * self.b[falling]).sum()) * (1.0 + UNIT_ROUNDOFF * (self.n + 4))

    # ---------------------------------------------------------------- at a point
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
        """By how much the reduced gradient h violates the optimality condition of every variable, shape (n,).

        ``h_i >= 0`` at zero, ``h_i <= 0`` at the upper bound, ``h_i = 0`` in between.
        """
        low, high = x <= 0.0, x >= self.upper
        return np.maximum(np.where(low & high, 0.0, np.where(low, -h, np.where(high, h, np.abs(h)))), 0.0)

    def residual(self, x: np.ndarray, h: np.ndarray) -> float:
        """Largest relative violation of the optimality conditions: ``QPResult.kkt_residual``."""
        floor = np.maximum(np.abs(self.b) * self.weights, self.unit(h, weighted=True))
        return float((self.violations(x, h) * self.weights / floor).max())

    def free_multiplier(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Least-squares multipliers of the rows, shape (m,), from the variables away from their bounds."""
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
        # A few roundings of the largest variable are allowed, also in rows whose own variables are tiny.
        rounding = 64 * EPS * np.abs(E).max(axis=1) * float(np.abs(x).max())
        missing = np.maximum(np.abs(E @ x - e) - rounding, 0.0)
        size = np.abs(E) @ np.abs(x) + np.abs(e)
        return float((missing / np.where(size > 0, size, 1.0)).max())

    def without_rows(self) -> QuadraticProgram:
        """The program with a quadratic penalty in place of its rows, for first guesses."""
        if not self.m:
            return self
        E, e = self.E, self.e
        curved = float(np.trace(self.A)) or float(np.abs(self.b).max()) or 1.0
        weight = curved / (float((E * E).sum()) or 1.0)
        return QuadraticProgram.of(self.A + weight * (E.T @ E), self.b - weight * (e @ E), self.upper)


class QPState(State):
    """What the iteration loop and certificates read of a state of an exact method."""

    x: np.ndarray  # (n,) point inside the box
    # (m,) of E x = e, with the reduced gradient A x + b + E' multiplier; of length 0 if it is not known
    multiplier: np.ndarray
    tol: float = 0.0  # relative gap that was asked for; more work is done for a certificate while its gap is larger
    is_rough: bool = False  # whether the point is no solution, so that a certificate is not worth a factorisation
    ray: np.ndarray | None = None  # (n,) proven direction along which the objective falls without bound
    signal = np.inf
    ended: ExitReason | None = None  # type: ignore[assignment]

    def reduced(self) -> np.ndarray:
        """The reduced gradient, shape (n,)."""
        raise NotImplementedError

    def rising(self) -> Iterable[np.ndarray]:
        """Directions w, shape (n,), that raise the reduced gradient, such as ``A w = sqrt(A_ii)`` on the free variables."""
        return ()

    def possible_rays(self) -> Iterable[np.ndarray]:
        """Directions along which the objective may fall without bound."""
        return ()

    def is_finite(self) -> bool:
        """Whether no variable has overflowed."""
        return bool(np.isfinite(self.x).all())


@dataclass(eq=False)
class Minimum(QPState):
    """The end of a method."""

    x: np.ndarray
    multiplier: np.ndarray = field(default_factory=lambda: np.zeros(0))
    tol: float = 0.0
    n_iter: int = 0
    n_factor: int = 0  # factorisations from scratch
    violation: float = np.nan  # largest violation of the optimality conditions by the reduced gradient, in its units
    directions: Iterable[np.ndarray] = ()  # for `rising`
    falling: np.ndarray | None = None  # a direction along which the objective seems to fall without bound

    def rising(self) -> Iterable[np.ndarray]:
        """The directions of the method."""
        return self.directions
