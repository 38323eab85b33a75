"""A nonnegative quadratic program: its data, the units of its optimality conditions, certificates, and proofs of unboundedness."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bregmat.base.checks import as_column, as_matrix
from bregmat.base.threads import cached_property
from bregmat.base.tolerances import EPS, HALF_DIGITS, TINY, UNIT_ROUNDOFF
from bregmat.engine.problem import Problem, Proof
from bregmat.engine.status import Status
from bregmat.quadratic.arguments import as_equality, as_upper, check_entries, no_rows
from bregmat.quadratic.certificate import Direction, Evidence, QPCertificate, QPState
from bregmat.quadratic.equality import EqualityRows, nearest_feasible
from bregmat.quadratic.free_set import FreeFactor

PRECISE = 1e-10  # KKT residual below which a gap that is too large probably comes from rounding


@dataclass(frozen=True, eq=False)
class QuadraticProgram(Problem):
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
    rows : EqualityRows or None
        The given rows, from which E and e were selected by :meth:`with_independent_rows`.
    """

    A: np.ndarray
    b: np.ndarray
    upper: np.ndarray
    E: np.ndarray
    e: np.ndarray
    rows: EqualityRows | None = None

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

    @cached_property
    def least_sizes(self) -> tuple[float, float]:
        """Sizes that are rounding beside the minima along single variables, ``|b_i| / A_ii``: times ``sqrt(A_ii)``, and alone."""
        with np.errstate(all="ignore"):
            alone = np.where(self.diagonal > 0, np.abs(self.b) / self.diagonal, 0.0)
        return EPS * float((alone * self.root).max()), EPS * float(alone.max())

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
                largest = t - least + noise * (abs(t) - least)
                upper[raised] = np.minimum(upper[raised], max(largest, 0.0) * (1.0 + 4 * UNIT_ROUNDOFF) / a[raised])
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
        return self.of(self.A + weight * (E.T @ E), self.b - weight * (e @ E), self.upper)

    # ---------------------------------------------------------------- independent rows
    def with_independent_rows(self, start: np.ndarray | None) -> QuadraticProgram:
        """The same problem with independent rows; its ``rows`` hold a feasible point, or a proof that there is none."""
        if not self.m:
            return self
        rows = EqualityRows.reduce(self, start)
        return replace(self, E=self.E[rows.kept] / rows.length[:, None], e=self.e[rows.kept] / rows.length, rows=rows)

    @property
    def whole(self) -> QuadraticProgram:
        """The problem with the rows as given by the user."""
        return self if self.rows is None else self.rows.whole

    # ---------------------------------------------------------------- for the iteration loop
    def is_due(self, state: QPState, tol: float) -> bool:
        """False: exact methods are certified at their end only."""
        return False

    def estimate(self, state: Any, works_on: str) -> dict[str, float]:
        """Objective and KKT residual of a state."""
        x, h = state.x, state.reduced()
        # h = A x + b without rows, so that x'(h + b) / 2 is the objective
        objective = self.objective(x) if self.m else 0.5 * float(x @ (h + self.b))
        return {"objective": objective, "dual_bound": -np.inf, "gap": np.inf, "violation": self.residual(x, h)}

    def conclude(self, state: QPState) -> None:
        """At the end of a run, look for a proof that the objective has no lower bound."""
        state.ray = next((ray for d in state.possible_rays() if (ray := self._ray(d)) is not None), None)

    def contradiction(self, state: QPState) -> Proof | None:
        """The proof that :meth:`conclude` has found."""
        return None if state.ray is None else Proof(state.ray, status=Status.UNBOUNDED)

    def _ray(self, direction: np.ndarray) -> np.ndarray | None:
        """The direction d without its rounding if ``d >= 0``, ``A d = 0``, ``E d = 0``, ``b'd < 0`` up to rounding; else None."""
        largest = float(np.abs(direction).max())
        if not 0.0 < largest < np.inf:
            return None
        d = np.where(np.abs(direction) <= 1e-13 * largest, 0.0, direction)
        d = d / largest
        if (d < 0).any() or (d[np.isfinite(self.upper)] > 0).any():
            return None
        support = np.flatnonzero(d)
        length, unit = float(self.root @ d), 32 * EPS * (len(support) + 4)
        if (np.abs(self.A @ d) > 4 * unit * self.root * length).any():
            return None
        exact = self.A[:, support].astype(np.longdouble) @ d[support].astype(np.longdouble)
        curvature = float(exact[support] @ d[support])
        flat = np.abs(exact) <= unit * self.root * length
        level = np.abs(self.E @ d) <= unit * (np.abs(self.E) @ d)
        if not flat.all() or not level.all() or curvature > 0.25 * EPS * length * length:
            return None
        return d if float(self.b @ d) < -1e-10 * float(np.abs(self.b) @ d) else None

    # ---------------------------------------------------------------- certificates
    def certify(self, state: QPState) -> QPCertificate:
        """The certificate of a state, in terms of the given rows."""
        if state.ray is not None:
            return self.unproven(state.x, lower=-np.inf)
        x, violation = state.x, self.whole.row_violation(state.x)
        if violation > HALF_DIGITS:  # rounding of a linear term that is large beside the rows
            nearest = nearest_feasible(self, x)
            new = self.whole.row_violation(nearest)
            x, violation = (nearest, new) if new < violation else (x, violation)
        has_multiplier = len(state.multiplier) == self.m and not state.is_rough
        y = state.multiplier if has_multiplier else self.free_multiplier(x, self.gradient(x))
        best = self._proven(x, y, state)
        if not state.is_rough:
            best = self._snapped(self._improved(best, state.tol), violation, state.tol)
            violation = violation if best.x is x else self.whole.row_violation(best.x)
        if not self.whole.m:
            return best
        return replace(
            best,
            equality_dual=best.equality_dual if self.rows is None else self.rows.expand(best.equality_dual),
            max_violation=violation,
            upper=best.upper if violation <= HALF_DIGITS else np.inf,
        )

    def _proven(
        self, x: np.ndarray, multiplier: np.ndarray, state: QPState | None = None, *, precise: bool = False
    ) -> QPCertificate:
        """The certificate of a point and multipliers."""
        directions = self.rising_directions(x, state)
        return Evidence(self, x, multiplier, precise=precise).certificate(directions, is_tolerant=True)

    def _improved(self, best: QPCertificate, tol: float) -> QPCertificate:
        """Improve a certificate whose gap is above ``tol`` by multipliers with smaller violations and by extended precision."""
        x = best.x
        if self.m and not (best.gap <= tol and best.kkt_residual <= PRECISE):
            new = self._proven(x, self._repaired(x, best.equality_dual))
            if new.gap < best.gap > tol or (new.gap <= max(best.gap, tol) and new.kkt_residual < best.kkt_residual):
                best = new
        if not best.gap <= tol and best.kkt_residual <= PRECISE:
            new = self._proven(x, best.equality_dual, precise=True)
            best = new if new.gap < best.gap else best
        return best

    def _snapped(self, best: QPCertificate, violation: float, tol: float) -> QPCertificate:
        """Set variables that are positive by rounding to zero, if that lowers the objective and violates the rows no more."""
        x, largest = best.x, float(self.diagonal.max())
        # sizes of x: its own, and the minima along single variables
        alone = float(np.abs(self.b).max()) / largest if largest > 0.0 else 1.0
        near = np.where(x <= 1e-14 * max(float(x.max()), alone), 0.0, x)
        if np.array_equal(near, x) or self.whole.row_violation(near) > violation:
            return best
        new = self._proven(near, best.equality_dual)
        return new if new.objective < best.objective and new.gap <= max(best.gap, tol) else best

    def unproven(self, x: np.ndarray, *, lower: float, equality_dual: np.ndarray | None = None) -> QPCertificate:
        """A certificate of a problem that is proven to have no solution; ``lower`` is -inf if unbounded, inf if infeasible."""
        return QPCertificate(
            x=x,
            dual=self.gradient(x),
            equality_dual=np.zeros(self.whole.m) if equality_dual is None else equality_dual,
            objective=self.objective(x),
            dual_bound=lower,
            upper=np.inf,
            max_violation=self.whole.row_violation(x),
            kkt_residual=np.inf,
        )

    def rising_directions(self, x: np.ndarray, state: QPState | None = None) -> Iterator[Direction]:
        """Directions w that raise reduced gradients which are too low by rounding: ``A_FF^-1`` of ``sqrt(A_ii)``, then others."""
        root = self.root
        if state is not None:
            if state.is_rough:  # no solution: a certificate is not worth a factorisation
                return
            yield from ((w, None) for w in state.rising())
        yield x, None
        yield 1.0 / np.where(root > 0.0, root, np.inf), None
        # the free variables, and those with (almost) no reduced gradient
        reduced = self.gradient(x)
        near = (x > 0.0) | (np.abs(reduced) <= 1e-8 * self.unit(reduced))
        wide = np.flatnonzero((root > 0.0) & (x < self.upper) & near)
        if not len(wide):
            return
        factor = FreeFactor(self.of(self.A, self.b, self.upper))
        factor.rebuild(wide)
        w = np.zeros(self.n)
        w[factor.free] = factor.solve(root[factor.free])
        yield w, None

    def _repaired(self, x: np.ndarray, multiplier: np.ndarray) -> np.ndarray:
        """Multipliers with smaller violations of the conditions: Newton's method on the sum of their squares.

        This is needed if so many variables are at bounds that the free ones do not determine the multipliers.
        """
        g, weight = self.gradient(x), self.weights
        y = best = multiplier
        least = np.inf
        for _ in range(20):
            h = g + y @ self.E
            violated = self.violations(x, h) * weight
            if violated.max() < least:
                # denormal multipliers, whose digits are lost, count as 0
                best, least = np.where(np.abs(y) < np.finfo(float).tiny, 0.0, y), float(violated.max())
            part = (violated > 0.0) | ((x > 0.0) & (x < self.upper))
            if not violated.any():
                break
            rows = self.E[:, part] * weight[part]
            y = y - np.linalg.lstsq(rows.T, h[part] * weight[part], rcond=None)[0]
        return best
