"""Lower bounds of a nonnegative quadratic program from a point and multipliers, with all rounding included, and certificates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bregmat.base.tolerances import CANCELLED, PERTURBATION, TINY, UNIT_ROUNDOFF
from bregmat.engine.loop import State
from bregmat.engine.problem import Certificate

if TYPE_CHECKING:  # programs use this module
    from bregmat.quadratic.program import QuadraticProgram

BLOCK = 256  # rows of A that are converted to extended precision at a time
ALONE = 1e-4  # at x = 0 the gap is relative to this share of what single variables could gain
PROVEN = 1e-9  # residual of the conditions up to which a perturbed bound is computed
Direction = tuple[np.ndarray, "np.ndarray | None"]  # w, and A w if it is known


@dataclass(eq=False)
class QPState(State):
    """A point with multipliers, as certificates need it; the states of the solvers also have ``reduced()``, the reduced gradient."""

    x: np.ndarray  # (n,) point inside the box
    # (m,) of E x = e, with the reduced gradient A x + b + E' multiplier; of length 0 if it is not known
    multiplier: np.ndarray = field(default_factory=lambda: np.zeros(0))
    tol: float = 0.0  # relative gap that was asked for; more work is done for a certificate while its gap is larger
    # directions w, shape (n,), that raise the reduced gradient, such as A w = sqrt(A_ii) on the free variables
    directions: Iterable[np.ndarray] = ()
    ray: np.ndarray | None = None  # (n,) proven direction along which the objective falls without bound
    is_rough = False  # whether the point is no solution, so that a certificate is not worth a factorisation
    signal = np.inf
    stalled: bool = False

    def rising(self) -> Iterable[np.ndarray]:
        """The directions that raise the reduced gradient."""
        return self.directions

    def possible_rays(self) -> Iterable[np.ndarray]:
        """Directions along which the objective may fall without bound."""
        return ()

    def is_finite(self) -> bool:
        """Whether no variable has overflowed."""
        return bool(np.isfinite(self.x).all())


@dataclass(frozen=True, eq=False, kw_only=True)
class QPCertificate(Certificate):
    """A point in the box, multipliers of the rows, and what they prove together; attributes as in :class:`QPResult`.

    ``size``, the unit of the gap, is the largest of the objective, its curved part, and a share of its terms.
    """

    x: np.ndarray
    equality_dual: np.ndarray
    kkt_residual: float
    bound_perturbation: float = 0.0
    curvature_tolerance: float = 0.0

    def joined(self, new: Self) -> Self:
        """The later certificate: the objective never rises."""
        return new

    @property
    def figures(self) -> dict[str, float]:
        """The figures of a record; its violation is the residual of the optimality conditions."""
        return super().figures | {"violation": self.kkt_residual}


class Evidence:
    """A point x and multipliers of the rows, from which bounds are computed for a positive semidefinite A.

    With ``precise``, ``x'Ax`` is computed in extended precision, and so is the reduced gradient wherever it is or may be negative.
    This is needed if terms cancel or bounds are far away. Bounds of rounding use ``|A_ij|^2 <= A_ii A_jj``.
    """

    def __init__(
        self,
        program: QuadraticProgram,
        x: np.ndarray,
        multiplier: np.ndarray,
        *,
        product: np.ndarray | None = None,
        precise: bool = False,
    ) -> None:
        self.program, self.x, self.multiplier, self.precise = program, x, multiplier, precise
        self.product = program.A @ x if product is None else product
        self.length = float(program.root @ np.abs(x))
        self.count = np.count_nonzero(x) + 4  # products with zeros have no rounding
        self.curved, self.lost = self._curvature()

    def certificate(self, directions: Iterable[Direction] = (), *, is_tolerant: bool = False) -> QPCertificate:
        """The certificate of the point; ``is_tolerant``: if there is no other bound, allow one for a b raised by rounding."""
        program, x, multiplier = self.program, self.x, self.multiplier
        h = program.reduced(self.product + program.b, multiplier)
        curved = 0.5 * self.curved
        long = np.longdouble if self.precise else np.float64
        objective = curved + float(program.b.astype(long) @ x.astype(long))
        residual = program.residual(x, h)
        bound, perturbation = self.bound(directions), 0.0
        if bound == -np.inf and is_tolerant and residual <= PROVEN:
            bound, perturbation = self.perturbed_bound(program.unit(h))
            perturbation = perturbation if bound > -np.inf else 0.0
        if (simple := program.bound_at_zero) > bound:
            bound, perturbation = simple, 0.0
        terms = float(np.abs(program.b) @ x)
        terms += float(np.abs(multiplier) @ (np.abs(program.E) @ x)) if len(multiplier) else 0.0
        size = max(abs(objective), curved, CANCELLED * terms)
        if size == 0.0:  # x = 0: compare with (b_i / sqrt(A_ii))^2, which single variables could gain
            size = ALONE * program.unit(h, weighted=True) ** 2
        return QPCertificate(
            x=x,
            dual=h,
            equality_dual=multiplier,
            objective=objective,
            dual_bound=min(bound, objective),
            upper=objective,
            kkt_residual=residual,
            size=max(size, TINY),
            bound_perturbation=perturbation,
        )

    # ---------------------------------------------------------------- bounds
    def bound(self, directions: Iterable[Direction] = ()) -> float:
        """A number that the objective never falls below; -inf if no candidate proves one.

        With ``h = A z + b + E' multiplier``, convexity gives for every feasible point, and for every z,
        ``F >= -1/2 z'Az - multiplier'e + sum_i u_i min(0, h_i)``, where ``h_i >= 0`` is needed for variables without an upper bound.
        For z = x some ``h_i`` is negative at least by rounding. Therefore z = x + delta w, with the smallest delta that makes ``h_i`` at
        least its rounding error for every variable that is not at its upper bound. Upper bounds that the rows imply are used,
        too. If ``A_ii = 0``, the multipliers are changed instead of z.

        ``directions`` are candidates for w, tried in turn until one works. Good ones have ``A w > 0`` where h is too small, such as
        ``A_FF^-1 1`` on the free variables. Each costs n^2 operations.
        """
        upper = self.program.implied_upper
        unlimited = np.isinf(upper)
        h, size, constant = self._reduced(unlimited)
        cap = np.where(unlimited, 0.0, upper)
        low_terms = cap * np.minimum(h - size, 0.0)
        direct = -0.5 * (self.curved + self.lost) - constant + float(low_terms.sum())
        needed = size - h
        best = -np.inf if (unlimited & (needed > 0.0)).any() else direct
        # An upper bound far above x multiplies the rounding of h; a direction then gives a better bound.
        below = self.x < upper
        if best > -np.inf and -float(low_terms[below].sum()) <= 1e-12 * max(abs(direct), self.curved):
            return best
        too_low = below & (needed > 0.0)
        for w, known in directions:
            if not np.isfinite(w).all():
                continue
            q = self.program.A @ w if known is None else known
            value, is_complete = self._bound_along(w, q, too_low, h - size, cap, constant)
            best = max(best, value)
            if is_complete:
                return best
        return best

    def _bound_along(
        self, w: np.ndarray, q: np.ndarray, too_low: np.ndarray, h: np.ndarray, cap: np.ndarray, constant: float
    ) -> tuple[float, bool]:
        """The bound from z = x + delta w with ``q = A w`` (-inf if there is none), and whether it raises every h that is too small.

        ``too_low`` marks the variables below their upper bound whose h is too small; h is at most the reduced gradient at x; ``cap``
        are the upper bounds, 0 for none; ``constant`` is ``multiplier'e``.
        """
        root, unlimited = self.program.root, np.isinf(self.program.implied_upper)
        length, count = float(root @ np.abs(w)), np.count_nonzero(w) + 4
        low = q - UNIT_ROUNDOFF * count * root * length
        rises = low > 0.0
        if (too_low & unlimited & ~rises).any() or not (too_low & rises).any():
            return -np.inf, False
        delta = float((-h[too_low & rises] / low[too_low & rises]).max(initial=0.0)) * (1.0 + 1e-12)
        if (unlimited & (delta * low < -h)).any():
            return -np.inf, False
        # z'Az = x'Ax + 2 delta w'Ax + delta^2 w'Aw
        quadratic = self.curved + self.lost + delta * (2.0 * float(w @ self.product) + delta * float(w @ q))
        quadratic += UNIT_ROUNDOFF * (count + len(w)) * delta * length * (2.0 * self.length + delta * length)
        raised = np.minimum(h + delta * np.minimum(q, low), 0.0)
        return -0.5 * quadratic - constant + float(cap @ raised), not (too_low & ~rises).any()

    def perturbed_bound(self, unit: float) -> tuple[float, float]:
        """A bound for a b that is raised where the reduced gradient is too low by rounding, and the largest change relative to ``unit``.

        This is needed if the optima form a ray: ``A d = 0`` and ``b'd = 0`` for some ``d >= 0``. The smallest decrease of b makes such
        a problem unbounded, so rounded arithmetic proves nothing about b itself. The effect of the change on the objective at x is
        subtracted, so that the bound holds for b itself at every point that is no farther out than x. The bound is -inf if a change
        above ``PERTURBATION`` is needed.
        """
        program = self.program
        if not self.precise:
            return Evidence(program, self.x, self.multiplier, product=self.product, precise=True).perturbed_bound(unit)
        h, size, constant = self._reduced(np.isinf(program.upper))
        upper = program.implied_upper
        unlimited = np.isinf(upper)
        increase = np.where(unlimited, np.maximum(size - h, 0.0), 0.0)  # of b
        if not float(increase.max()) <= PERTURBATION * unit:
            return -np.inf, np.inf
        cap = np.where(unlimited, 0.0, upper)
        value = -0.5 * (self.curved + self.lost) - constant + float(cap @ np.minimum(h - size, 0.0))
        return value - float(increase @ self.x), float(increase.max()) / unit

    # ---------------------------------------------------------------- sums and bounds of their rounding
    def _curvature(self) -> tuple[float, float]:
        """``x'Ax`` and a bound of its rounding."""
        x, terms = self.x, self.length * self.length
        value, lost = float(x @ self.product), UNIT_ROUNDOFF * self.count * terms
        if not self.precise and value > lost:
            return value, lost
        # in float64 the value may be all rounding
        support = np.flatnonzero(x)
        u = x[support].astype(np.longdouble)
        total: Any = np.longdouble(0.0)
        for k in range(0, len(support), BLOCK):
            rows = support[k : k + BLOCK]
            total += u[k : k + BLOCK] @ (self.program.A[np.ix_(rows, support)].astype(np.longdouble) @ u)
        value = float(total)
        return value, float(np.finfo(np.longdouble).eps) * self.count * terms + UNIT_ROUNDOFF * abs(value)

    def _reduced(self, unlimited: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """``A x + b + E'y``, bounds of the rounding of its entries, and ``y'e`` plus its rounding; y are the lifted multipliers."""
        program, b, E, e = self.program, self.program.b, self.program.E, self.program.e
        root, y = program.root, self._lifted(unlimited)
        terms = root * self.length + np.abs(b)
        h = self.product + b
        exact = np.zeros(len(h), dtype=bool)
        if len(E):
            h = h + y @ E
            terms = terms + np.abs(y) @ np.abs(E)
            # the reduced gradient of a slack variable is a single product
            exact = (root == 0.0) & (self.product == 0.0) & (b == 0.0) & (np.count_nonzero(E, axis=0) == 1)
        size = np.where(exact, 0.0, UNIT_ROUNDOFF * (self.count + len(E)) * terms)
        if self.precise:
            doubtful = np.flatnonzero((h < size) & ~exact)
            h[doubtful], size[doubtful] = self._extended(y, doubtful, terms[doubtful])
        return h, size, float(y @ e) + UNIT_ROUNDOFF * (len(e) + 4) * float(np.abs(y) @ np.abs(e))

    def _lifted(self, unlimited: np.ndarray) -> np.ndarray:
        """Multipliers near the given ones that make the reduced gradients of variables with ``A_ii = 0`` nonnegative, if possible."""
        program, E, y = self.program, self.program.E, self.multiplier
        flat = np.flatnonzero(unlimited & (program.diagonal <= 0.0))
        if not len(E) or not len(flat):
            return y
        part, b = E[:, flat], program.b[flat]
        alone = (b == 0.0) & (np.count_nonzero(part, axis=0) == 1)
        noise = UNIT_ROUNDOFF * (len(E) + 4)
        for _ in range(4):
            h = b + y @ part
            terms = np.abs(b) + np.abs(y) @ np.abs(part)
            too_low = h < np.where(alone, 0.0, noise * terms)
            if not too_low.any():
                return y
            goal = 2.0 * noise * terms[too_low] - h[too_low]
            y = y + np.linalg.lstsq(part[:, too_low].T, goal, rcond=None)[0]
        return self.multiplier

    def _extended(self, y: np.ndarray, rows: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Entries ``rows`` of the reduced gradient from extended precision, and bounds of their rounding; ``terms``: sums of |terms|."""
        program, long = self.program, np.longdouble
        support = np.flatnonzero(self.x)
        h = program.b[rows].astype(long)
        u = self.x[support].astype(long)
        for k in range(0, len(rows), BLOCK):
            h[k : k + BLOCK] += program.A[np.ix_(rows[k : k + BLOCK], support)].astype(long) @ u
        if len(y):
            h += y.astype(long) @ program.E[:, rows].astype(long)
        rounded = h.astype(np.float64)
        unit = float(np.finfo(long).eps) * (self.count + len(y))
        return rounded, unit * terms + UNIT_ROUNDOFF * np.abs(rounded)
