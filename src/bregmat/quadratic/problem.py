"""A nonnegative quadratic program with its certificates and its proofs of unboundedness."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat.base.tolerances import EPS, HALF_DIGITS
from bregmat.certificates.problem import Problem, Proof
from bregmat.certificates.status import Status
from bregmat.quadratic.certificate import Direction, Evidence, QPCertificate
from bregmat.quadratic.equality import EqualityRows, nearest_feasible
from bregmat.quadratic.free_set import FreeFactor
from bregmat.quadratic.program import QPState, QuadraticProgram

PRECISE = 1e-10  # KKT residual below which a gap that is too large probably comes from rounding


@dataclass(frozen=True, eq=False)
class NonnegativeQP(QuadraticProgram, Problem):
    """A quadratic program with its certificates; see :class:`QuadraticProgram` for the data.

    Attributes
    ----------
    rows : EqualityRows or None
        The given rows, from which E and e were selected by :meth:`with_independent_rows`.
    """

    rows: EqualityRows | None = None

    def with_independent_rows(self, start: np.ndarray | None) -> NonnegativeQP:
        """The same problem with independent rows; its ``rows`` hold a feasible point, or a proof that there is none."""
        if not self.m:
            return self
        rows = EqualityRows.reduce(self, start)
        return replace(self, E=rows.E, e=rows.e, rows=rows)

    @property
    def given(self) -> QuadraticProgram:
        """The problem with the rows as given by the user."""
        return self if self.rows is None else self.rows.given

    # ---------------------------------------------------------------- for the iteration loop
    certifies_cheaply = False  # a certificate costs several products with A

    def is_due(self, state: QPState, tol: float) -> bool:
        """False: exact methods are certified at their end only."""
        return False

    def estimate(self, state: QPState, works_on: str) -> dict[str, float]:
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
        return None if state.ray is None else Proof(state.ray, np.flatnonzero(state.ray), Status.UNBOUNDED)

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
        x, violation = state.x, self.given.row_violation(state.x)
        if violation > HALF_DIGITS:  # rounding of a linear term that is large beside the rows
            nearest = nearest_feasible(self, x)
            new = self.given.row_violation(nearest)
            x, violation = (nearest, new) if new < violation else (x, violation)
        has_multiplier = len(state.multiplier) == self.m and not state.is_rough
        y = state.multiplier if has_multiplier else self.free_multiplier(x, self.gradient(x))
        directions: Any = () if state.is_rough else self.rising_directions(x, state)
        best = Evidence(self, x, y).certificate(directions, is_tolerant=True)
        if not state.is_rough:
            best = self._snapped(self._improved(best, state.tol), violation, state.tol)
            violation = violation if best.x is x else self.given.row_violation(best.x)
        if not self.given.m:
            return best
        return replace(
            best,
            equality_dual=best.equality_dual if self.rows is None else self.rows.expand(best.equality_dual),
            violation=violation,
            upper=best.upper if violation <= HALF_DIGITS else np.inf,
        )

    def _improved(self, best: QPCertificate, tol: float) -> QPCertificate:
        """Improve a certificate whose gap is above ``tol`` by multipliers with smaller violations and by extended precision."""
        x = best.x
        if self.m and not (best.gap <= tol and best.kkt_residual <= PRECISE):
            y = self._repaired(x, best.equality_dual)
            new = Evidence(self, x, y).certificate(self.rising_directions(x), is_tolerant=True)
            if new.gap < best.gap > tol or (new.gap <= max(best.gap, tol) and new.kkt_residual < best.kkt_residual):
                best = new
        if not best.gap <= tol and best.kkt_residual <= PRECISE:
            evidence = Evidence(self, x, best.equality_dual, precise=True)
            new = evidence.certificate(self.rising_directions(x), is_tolerant=True)
            best = new if new.gap < best.gap else best
        return best

    def _snapped(self, best: QPCertificate, violation: float, tol: float) -> QPCertificate:
        """Set variables that are positive by rounding to zero, if that lowers the objective and violates the rows no more."""
        x, largest = best.x, float(self.diagonal.max())
        # sizes of x: its own, and the minima along single variables
        alone = float(np.abs(self.b).max()) / largest if largest > 0.0 else 1.0
        near = np.where(x <= 1e-14 * max(float(x.max()), alone), 0.0, x)
        if np.array_equal(near, x) or self.given.row_violation(near) > violation:
            return best
        new = Evidence(self, near, best.equality_dual).certificate(self.rising_directions(near), is_tolerant=True)
        return new if new.objective < best.objective and new.gap <= max(best.gap, tol) else best

    def unproven(self, x: np.ndarray, *, lower: float, equality_dual: np.ndarray | None = None) -> QPCertificate:
        """A certificate of a problem that is proven to have no solution; ``lower`` is -inf if unbounded, inf if infeasible."""
        return QPCertificate(
            x=x,
            dual=self.gradient(x),
            equality_dual=np.zeros(self.given.m) if equality_dual is None else equality_dual,
            objective=self.objective(x),
            dual_bound=lower,
            upper=np.inf,
            violation=self.given.row_violation(x),
            kkt_residual=np.inf,
        )

    def rising_directions(self, x: np.ndarray, state: QPState | None = None) -> Iterator[Direction]:
        """Directions w that raise reduced gradients which are too low by rounding: ``A_FF^-1`` of ``sqrt(A_ii)``, then others."""
        root = self.root
        for w in () if state is None else state.rising():
            yield w, None
        yield x, None
        yield 1.0 / np.where(root > 0.0, root, np.inf), None
        # the free variables, and those with (almost) no reduced gradient
        reduced = self.gradient(x)
        near = (x > 0.0) | (np.abs(reduced) <= 1e-8 * self.unit(reduced))
        wide = np.flatnonzero((root > 0.0) & (x < self.upper) & near)
        if not len(wide):
            return
        factor = FreeFactor(QuadraticProgram.of(self.A, self.b, self.upper))
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
