"""What a point and multipliers prove of a nonnegative quadratic program: lower bounds with all rounding allowed for, and certificates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.certificates.problem import Certificate
from bregmat.quadratic.program import UNIT, QuadraticProgram

PERTURBATION = 1e-12  # of the linear term, relative to its unit, that counts as rounding
BLOCK = 256  # rows of A in extended precision at a time
CANCELLED = 1e-6  # of the terms of the objective: where it is smaller than this, the gap is relative to this
ALONE = 1e-4  # of what single variables could gain: where x = 0, the gap is relative to this
PROVEN = 1e-9  # residual of the conditions up to which a bound for a perturbed b counts
Direction = tuple[np.ndarray, "np.ndarray | None"]  # w, and A w where it is known


@dataclass(frozen=True, eq=False, kw_only=True)
class QPCertificate(Certificate):
    """A point in the box, multipliers of the rows, and what they prove together; attributes as of :class:`QPResult`.

    ``dual`` is the reduced gradient; ``size`` what the gap is relative to; ``falling`` the direction of an unbounded problem;
    ``excess`` is ``objective - dual_bound`` where these two have lost its digits.
    """

    x: np.ndarray
    equality_dual: np.ndarray
    kkt_residual: float
    size: float = 1.0
    bound_perturbation: float = 0.0
    curvature_tolerance: float = 0.0
    falling: np.ndarray | None = None
    excess: float | None = None

    @property
    def unit(self) -> float:
        """What the gap is measured in: the largest of the objective, its curved part, and a share of its terms."""
        return self.size

    @property
    def gap(self) -> float:
        """``(upper - dual_bound) / size``, or ``excess / size``; inf where nothing is proven."""
        if self.excess is None:
            return super().gap
        return self.excess / self.size if self.is_feasible else np.inf

    @property
    def figures(self) -> dict[str, float]:
        """What a history says of it: its violation is the residual of the optimality conditions."""
        return super().figures | {"violation": self.kkt_residual}


class Evidence:
    """A point and multipliers of the rows, with what all bounds from them share.

    Parameters
    ----------
    program : QuadraticProgram
        A is taken to be positive semidefinite.
    x : ndarray, shape (n,)
        Any point, usually near the solution; in the box for a certificate.
    multiplier : ndarray, shape (m,)
    product : ndarray, shape (n,), optional
        ``A x``, where it is known.
    precise : bool
        Extended precision for ``x'Ax``, and for the reduced gradient wherever it is or may be negative: for problems whose terms
        cancel, or with far bounds.

    Attributes
    ----------
    curved, lost : float
        ``x'Ax``, and what its rounding may be: ``|A| |x|`` is bounded through ``|A_ij|^2 <= A_ii A_jj``.
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
        self.count = np.count_nonzero(x) + 4  # products with zeros are exact
        self.curved, self.lost = self._curvature()

    def certificate(self, directions: Iterable[Direction] = (), *, is_tolerant: bool = False) -> QPCertificate:
        """What they prove as they are; where there is no other bound and it ``is_tolerant``, one for b raised by rounding will do."""
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
        bound = min(bound, objective)
        terms = float(np.abs(program.b) @ x)
        terms += float(np.abs(multiplier) @ (np.abs(program.E) @ x)) if len(multiplier) else 0.0
        size = max(abs(objective), curved, CANCELLED * terms)
        if size == 0.0:  # x = 0: beside what single variables could gain
            size = ALONE * program.unit(h, weighted=True) ** 2
        return QPCertificate(
            x=x,
            dual=h,
            equality_dual=multiplier,
            objective=objective,
            dual_bound=bound,
            upper=objective,
            kkt_residual=residual,
            size=max(size, 1e-300),
            bound_perturbation=perturbation,
        )

    def bound(self, directions: Iterable[Direction] = ()) -> float:
        """A number that the objective is nowhere below, -inf where no candidate gives one.

        With ``h = A z + b + E' multiplier``, convexity gives for every point of the problem, and for every z,
        ``F >= -1/2 z'Az - multiplier'e + sum_i u_i min(0, h_i)``, where ``h_i >= 0`` is needed on variables without an
        upper bound. ``z = x`` has ``h_i < 0`` by rounding, if not by more; so z = x + delta w, with the smallest delta that
        makes ``h_i`` at least the rounding error of its computation on every variable that is not at its upper bound. Upper bounds
        that the rows imply count; where ``A_ii = 0``, the multipliers are moved in place of z.

        Parameters
        ----------
        directions : iterable of pairs of ndarray, shape (n,)
            Candidates for w, and their products A w where they are known (else None), tried in turn until one works; the best have
            ``A w > 0`` where h is too small, such as ``A_FF^-1 1`` on the free variables.

        Notes
        -----
        What ``x'Ax`` may lose by rounding is taken off. Cost: n^2 for each candidate.
        """
        program, x, root, upper = self.program, self.x, self.program.root, self.program.implied_upper
        unlimited = np.isinf(upper)
        h, size, constant = self._reduced(unlimited)
        cap = np.where(unlimited, 0.0, upper)
        low_terms = cap * np.minimum(h - size, 0.0)
        direct = -0.5 * (self.curved + self.lost) - constant + float(low_terms.sum())
        need = size - h
        best = -np.inf if (unlimited & (need > 0.0)).any() else direct
        # a bound far above x costs as much as its product with rounding: then it is better not to use it
        loss = -float(low_terms[x < upper].sum())
        if best > -np.inf and loss <= 1e-12 * max(abs(direct), self.curved):
            return best
        short = (x < upper) & (need > 0.0)
        for w, known in directions:
            if not np.isfinite(w).all():
                continue
            q = program.A @ w if known is None else known
            long = float(root @ np.abs(w))
            count = np.count_nonzero(w) + 4
            low = q - UNIT * count * root * long
            able = low > 0.0
            if (short & unlimited & ~able).any() or not (short & able).any():
                continue
            delta = float((need[short & able] / low[short & able]).max(initial=0.0)) * (1.0 + 1e-12)
            if (unlimited & (delta * low < need)).any():
                continue
            quadratic = self.curved + self.lost + delta * (2.0 * float(w @ self.product) + delta * float(w @ q))
            quadratic += UNIT * (count + len(x)) * delta * long * (2.0 * self.length + delta * long)
            raised = np.minimum(h - size + delta * np.minimum(q, low), 0.0)
            best = max(best, -0.5 * quadratic - constant + float(cap @ raised))
            if not (short & ~able).any():
                return best
        return best

    def perturbed_bound(self, unit: float) -> tuple[float, float]:
        """A bound for b raised where the reduced gradient is too low by rounding, and by how much, relative to ``unit``.

        For problems that no direction helps, because a direction ``d >= 0`` with ``A d = 0`` and ``b'd = 0`` leads from optimum to
        optimum: the least change of b downwards makes them unbounded, so that in rounded arithmetic nothing is proven of
        b itself. What the change adds to the objective of x is taken off, so that the bound holds for b itself at every point that
        is no farther out than x. ``-inf`` where more than ``PERTURBATION`` is missing. ``unit``: size of the linear term that
        matters, in units of b.
        """
        program = self.program
        if not self.precise:
            return Evidence(program, self.x, self.multiplier, product=self.product, precise=True).perturbed_bound(unit)
        h, size, constant = self._reduced(np.isinf(program.upper))
        upper = program.implied_upper
        unlimited = np.isinf(upper)
        short = np.where(unlimited, np.maximum(size - h, 0.0), 0.0)
        if not float(short.max()) <= PERTURBATION * unit:
            return -np.inf, np.inf
        cap = np.where(unlimited, 0.0, upper)
        value = -0.5 * (self.curved + self.lost) - constant + float(cap @ np.minimum(h - size, 0.0))
        return value - float(short @ self.x), float(short.max()) / unit

    # ---------------------------------------------------------------- sums with their rounding
    def _curvature(self) -> tuple[float, float]:
        """``x'Ax`` and what its rounding may be, in units of the objective."""
        x, terms = self.x, self.length * self.length
        value, lost = float(x @ self.product), UNIT * self.count * terms
        if not self.precise and value > lost:
            return value, lost
        # nothing but rounding may be left in double precision
        support = np.flatnonzero(x)
        u = x[support].astype(np.longdouble)
        total: Any = np.longdouble(0.0)
        for k in range(0, len(support), BLOCK):
            rows = support[k : k + BLOCK]
            total += u[k : k + BLOCK] @ (self.program.A[np.ix_(rows, support)].astype(np.longdouble) @ u)
        value = float(total)
        return value, float(np.finfo(np.longdouble).eps) * self.count * terms + UNIT * abs(value)

    def _reduced(self, unlimited: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """``A x + b + E'y``, the rounding error of every entry, and ``y'e`` with what its rounding may be; y: the lifted multipliers."""
        program, b, E, e = self.program, self.program.b, self.program.E, self.program.e
        root, y = program.root, self._lifted(unlimited)
        terms = root * self.length + np.abs(b)
        h = self.product + b
        exact = np.zeros(len(h), dtype=bool)
        if len(E):
            h = h + y @ E
            terms = terms + np.abs(y) @ np.abs(E)
            # a slack: nothing but one product of a row
            exact = (root == 0.0) & (self.product == 0.0) & (b == 0.0) & (np.count_nonzero(E, axis=0) == 1)
        size = np.where(exact, 0.0, UNIT * (self.count + len(E)) * terms)
        if self.precise:
            doubtful = np.flatnonzero((h < size) & ~exact)
            h[doubtful], size[doubtful] = self._extended(y, doubtful, terms[doubtful])
        return h, size, float(y @ e) + UNIT * (len(e) + 4) * float(np.abs(y) @ np.abs(e))

    def _lifted(self, unlimited: np.ndarray) -> np.ndarray:
        """Multipliers near those given for which no reduced gradient of a variable with ``A_ii = 0`` is negative, if that is easy."""
        program, E, y = self.program, self.program.E, self.multiplier
        flat = np.flatnonzero(unlimited & (program.diagonal <= 0.0))
        if not len(E) or not len(flat):
            return y
        part, b = E[:, flat], program.b[flat]
        alone = (b == 0.0) & (np.count_nonzero(part, axis=0) == 1)
        noise = UNIT * (len(E) + 4)
        for _ in range(4):
            h = b + y @ part
            terms = np.abs(b) + np.abs(y) @ np.abs(part)
            short = h < np.where(alone, 0.0, noise * terms)
            if not short.any():
                return y
            goal = 2.0 * noise * terms[short] - h[short]
            y = y + np.linalg.lstsq(part[:, short].T, goal, rcond=None)[0]
        return self.multiplier

    def _extended(self, y: np.ndarray, rows: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Some entries of the reduced gradient in extended precision, rounded, and their error; ``terms``: sums of absolute values."""
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
        return rounded, unit * terms + UNIT * np.abs(rounded)
