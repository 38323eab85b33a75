"""A nonnegative quadratic program with its proofs: certificates of points, contradictions of rows, directions without end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from bregmat._kernels.free_factor import Quadratic
from bregmat.proofs import Certificate, Problem, Proof
from bregmat.quadratic.active_set import ExactActiveSet
from bregmat.quadratic.bound import bound_at_zero, curvature, lower_bound, perturbed_bound
from bregmat.quadratic.equality import EqualityRows, nearest_feasible
from bregmat.quadratic.free_set import FreeFactor
from bregmat.quadratic.program import Minimum, QuadraticProgram, no_rows
from bregmat.status import Status

Direction = tuple[np.ndarray, "np.ndarray | None"]  # w, and A w where it is known
EPS = float(np.finfo(float).eps)
NEWTON = 20
FEASIBLE = 1e-8  # violation of the rows up to which a point counts as feasible
PRECISE = 1e-10  # residual from which a gap that is too large is likely to be rounding
CANCELLED = 1e-6  # of the terms of the objective: where it is smaller than this, the gap is relative to this
ALONE = 1e-4  # of what single variables could gain: where x = 0, the gap is relative to this
PROVEN = 1e-9  # residual of the conditions up to which a bound for a perturbed b counts
ROUGHLY = ExactActiveSet(tol=0.1)


@dataclass(frozen=True, eq=False, kw_only=True)
class QPCertificate(Certificate):
    """A point in the box, multipliers of the rows, and what they prove together; attributes as of :class:`QPResult`.

    ``dual`` is the reduced gradient; ``size`` what the gap is relative to; ``falling`` the direction of an unbounded problem.
    """

    x: np.ndarray
    equality_dual: np.ndarray
    kkt_residual: float
    size: float = 1.0
    bound_perturbation: float = 0.0
    falling: np.ndarray | None = None

    @property
    def unit(self) -> float:
        """What the gap is measured in: the largest of the objective, its curved part, and a share of its terms."""
        return self.size

    @property
    def figures(self) -> dict[str, float]:
        """What a history says of it: its violation is the residual of the optimality conditions."""
        return super().figures | {"violation": self.kkt_residual}


@dataclass(frozen=True, eq=False)
class NonnegativeQP(QuadraticProgram, Problem):
    """A quadratic program with its proofs; see :class:`QuadraticProgram` for the data.

    Attributes
    ----------
    rows : EqualityRows or None
        Where E and e come from, after :meth:`with_independent_rows`.
    """

    rows: EqualityRows | None = None

    def with_independent_rows(self, start: np.ndarray | None) -> NonnegativeQP:
        """The problem that solvers work on; its ``rows`` hold a feasible point, or a proof that there is none."""
        if not self.m:
            return self
        rows = EqualityRows.reduce(self, start)
        return replace(self, E=rows.E, e=rows.e, rows=rows)

    @property
    def given(self) -> QuadraticProgram:
        """With the rows as they were given."""
        return self if self.rows is None else self.rows.given

    # ---------------------------------------------------------------- that there is nothing to find
    def proof_beforehand(self) -> Proof | None:
        """Multipliers with which the rows contradict the box, in terms of the rows given."""
        y = None if self.rows is None else self.rows.conflict
        return None if y is None else Proof(y, np.flatnonzero(y))

    def contradiction(self, state: Minimum) -> Proof | None:
        """A direction of the box along which the objective falls without end, where a run has met one.

        Where rounding in the direction blocked it, the point has gone far along it and is one itself.
        """
        for direction in (state.falling, state.x):
            if direction is not None and (ray := self._without_end(direction)) is not None:
                return Proof(ray, np.flatnonzero(ray), Status.UNBOUNDED)
        return None

    def _without_end(self, direction: np.ndarray) -> np.ndarray | None:
        """The direction with its rounding removed, if it is a proof."""
        if not float(np.abs(direction).max()) > 0.0:
            return None
        d = np.where(np.abs(direction) <= 1e-13 * float(np.abs(direction).max()), 0.0, direction)
        d = d / float(np.abs(d).max())
        if not np.isfinite(d).all() or (d < 0).any() or (d[np.isfinite(self.upper)] > 0).any():
            return None
        support = np.flatnonzero(d)
        length, unit = float(self.root @ d), 32 * EPS * (len(support) + 4)
        if (np.abs(self.A @ d) > 4 * unit * self.root * length).any():
            return None
        exact = self.A[:, support].astype(np.longdouble) @ d[support].astype(np.longdouble)
        bend = float(exact[support] @ d[support])
        flat = np.abs(exact) <= unit * self.root * length
        level = np.abs(self.E @ d) <= unit * (np.abs(self.E) @ d)
        if not flat.all() or not level.all() or bend > 0.25 * EPS * length * length:
            return None
        return d if float(self.b @ d) < -1e-10 * float(np.abs(self.b) @ d) else None

    # ---------------------------------------------------------------- what is proven about a point
    def certify(self, state: Minimum, tol: float = 0.0) -> QPCertificate:
        """Everything that is known about the end of a run, in terms of the rows given.

        More is tried, each at the price of a few products with A, while the gap is above ``tol``: multipliers with less violated
        conditions, zeros for what rounding left above zero, and sums in extended precision.
        """
        given, x, y = self.given, state.x, state.multiplier
        if len(y) != self.m:
            y = self.free_multiplier(x, self.gradient(x))
        missed = given.row_violation(x)
        if missed > FEASIBLE:  # a linear term that is large beside the rows leaves its rounding in them
            met = nearest_feasible(self.E, self.e, self.upper, x)
            there = given.row_violation(met)
            x, missed = (met, there) if there < missed else (x, missed)
        directions = () if state.is_rough else self.rising_directions(x, state)
        best = self.proven(x, y, directions, tolerant=True)
        if self.m and not (best.gap <= tol and best.kkt_residual <= PRECISE):
            new = self.proven(x, self._repaired(x, y), self.rising_directions(x), tolerant=True)
            if new.gap < best.gap > tol or (new.gap <= max(best.gap, tol) and new.kkt_residual < best.kkt_residual):
                best = new
        if not (best.gap <= tol and missed <= FEASIBLE) and (near := self._snapped(x)) is not None:
            y = self._repaired(near, best.equality_dual) if self.m else best.equality_dual
            new = self.proven(near, y, self.rising_directions(near), tolerant=True, precise=True)
            there = given.row_violation(near)
            if new.gap <= tol and there <= missed:
                best, missed = new, there
        if not best.gap <= tol and best.kkt_residual <= PRECISE:
            new = self.proven(best.x, best.equality_dual, self.rising_directions(best.x), tolerant=True, precise=True)
            best = new if new.gap < best.gap else best
        if not given.m:
            return best
        return replace(
            best,
            equality_dual=best.equality_dual if self.rows is None else self.rows.expand(best.equality_dual),
            violation=missed,
            upper=best.upper if missed <= FEASIBLE else np.inf,
        )

    def unproven(self, x: np.ndarray, proof: Proof) -> QPCertificate:
        """A point of a problem that is proven to have no solution."""
        is_unbounded = proof.status is Status.UNBOUNDED
        return QPCertificate(
            x=x,
            dual=self.gradient(x),
            equality_dual=np.zeros(self.given.m) if is_unbounded else proof.dual,
            objective=self.objective(x),
            dual_bound=-np.inf if is_unbounded else np.inf,
            upper=np.inf,
            violation=self.given.row_violation(x),
            kkt_residual=np.inf,
            falling=proof.dual if is_unbounded else None,
        )

    def proven(
        self,
        x: np.ndarray,
        multiplier: np.ndarray,
        directions: Iterable[Direction] = (),
        *,
        product: np.ndarray | None = None,
        tolerant: bool = False,
        precise: bool = False,
    ) -> QPCertificate:
        """What a point in the box and multipliers of the rows in use prove as they are.

        Parameters
        ----------
        x : ndarray, shape (n,)
        multiplier : ndarray, shape (m,)
        directions : iterable of (w, A w or None), shapes (n,)
            That may raise the reduced gradient where it is too low by rounding.
        product : ndarray, shape (n,), optional
            ``A x``.
        tolerant : bool
            Whether a bound for b raised by rounding will do where there is no other.
        precise : bool
            Sums in extended precision.
        """
        Ax = self.A @ x if product is None else product
        h = self.reduced(Ax + self.b, multiplier)
        xAx, lost = curvature(self, x, Ax, precise=precise)
        curved = 0.5 * xAx
        long = np.longdouble if precise else np.float64
        objective = curved + float(self.b.astype(long) @ x.astype(long))
        residual = self.residual(x, h)
        bound, perturbation = lower_bound(self, x, multiplier, directions, product=Ax, precise=precise), 0.0
        if bound == -np.inf and tolerant and residual <= PROVEN:
            bound, perturbation = perturbed_bound(self, x, multiplier, Ax, self.unit(h))
            perturbation = perturbation if bound > -np.inf else 0.0
        if (simple := bound_at_zero(self)) > bound:
            bound, perturbation = simple, 0.0
        bound = min(bound, objective)
        terms = float(np.abs(self.b) @ x) + (float(np.abs(multiplier) @ (np.abs(self.E) @ x)) if self.m else 0.0)
        size = max(abs(objective), curved, CANCELLED * terms)
        if size == 0.0:  # x = 0: beside what single variables could gain
            size = ALONE * self.unit(h, weighted=True) ** 2
        # F >= 0 everywhere, and nothing but rounding is left of it here
        at_zero = bound == 0.0 and float(self.b.min()) >= 0.0 and objective <= lost
        return QPCertificate(
            x=x,
            dual=h,
            equality_dual=multiplier,
            objective=objective,
            dual_bound=bound,
            upper=bound if at_zero else objective,
            kkt_residual=residual,
            size=max(size, 1e-300),
            bound_perturbation=perturbation,
        )

    def rising_directions(self, x: np.ndarray, state: Minimum | None = None) -> Iterator[Direction]:
        """Directions that raise a reduced gradient which is too low by rounding: ``A_FF^-1`` of ``sqrt(A_ii)``, then others."""
        n, root = self.n, self.root
        for w in () if state is None or state.rising is None else state.rising():
            yield w, None
        yield x, None
        yield 1.0 / np.where(root > 0.0, root, np.inf), None
        # the free set and whatever has (almost) no reduced gradient
        reduced = self.gradient(x)
        near = (x > 0.0) | (np.abs(reduced) <= 1e-8 * self.unit(reduced))
        wide = np.flatnonzero((root > 0.0) & (x < self.upper) & near)
        if not len(wide):
            return
        factor = FreeFactor(Quadratic(self.A, self.upper, no_rows(n)[0], self.weights, 0.0), n)
        factor.rebuild(wide)
        w = np.zeros(n)
        w[factor.free] = factor.solve(root[factor.free], np.zeros(0))[0]
        yield w, None
        # the minimum of 1/2 w'Aw - sum sqrt(A_ii) w_i over w >= 0 has A w >= sqrt(A_ii); there is none where no w at all will do
        part = QuadraticProgram.of(np.ascontiguousarray(self.A[np.ix_(wide, wide)]), -root[wide])
        w = np.zeros(n)
        w[wide] = ROUGHLY.minimize(part, 1.0 / (root[wide] * len(wide))).x
        yield w, None

    def _snapped(self, x: np.ndarray) -> np.ndarray | None:
        """The point with zeros for what rounding left above zero; None where nothing is that small."""
        largest = float(self.diagonal.max())
        alone = float(np.abs(self.b).max()) / largest if largest > 0.0 else 1.0
        reached = float((np.abs(self.e) / np.abs(self.E).max(axis=1)).max(initial=0.0))
        tiny = (x > 0.0) & (x <= 1e-14 * max(float(x.max()), reached, alone))
        return np.where(tiny, 0.0, x) if tiny.any() else None

    def _repaired(self, x: np.ndarray, multiplier: np.ndarray) -> np.ndarray:
        """Multipliers near those given with the least violated conditions: Newton's method on the sum of their squares.

        For points with so many variables at bounds that the free ones leave the multipliers open.
        """
        g, weight = self.gradient(x), self.weights
        y = best = multiplier
        least = np.inf
        for _ in range(NEWTON):
            h = g + y @ self.E
            violated = self.violations(x, h) * weight
            if violated.max() < least:
                best, least = y, float(violated.max())
            part = (violated > 0.0) | ((x > 0.0) & (x < self.upper))
            if not violated.any():
                break
            rows = self.E[:, part] * weight[part]
            y = y - np.linalg.lstsq(rows.T, h[part] * weight[part], rcond=None)[0]
        return best
