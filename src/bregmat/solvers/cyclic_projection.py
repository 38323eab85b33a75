"""Cyclic Bregman projection: one row at a time, in turn (Kulis 2009, Algorithms 2 and 3).

A projection onto row i moves its multiplier alone: it maximises the dual bound in that coordinate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from bregmat.base.checks import check_flag, check_integer, check_positive
from bregmat.base.tolerances import TINY
from bregmat.certificates.problem import NearestMatrix
from bregmat.objective.losses import RelativeEntropy
from bregmat.solvers.base import SolverWithNeeds
from bregmat.solvers.row_projections import PROJECTED, Projected, ProjectionState, first_dual, row_bounds


@dataclass(eq=False)
class CyclicState(ProjectionState):
    """The state after a number of sweeps."""

    sweeps: list[dict[str, float]] = field(default_factory=list)

    def violation(self, problem: NearestMatrix) -> float:
        """The largest relative violation that the last sweep met, each row before its projection."""
        return self.sweeps[-1]["violation"] if self.sweeps else np.nan

    @property
    def trace(self) -> dict[str, np.ndarray]:
        """One entry per sweep."""
        return {name: np.array([s[name] for s in self.sweeps]) for name in (self.sweeps[0] if self.sweeps else ())}


@dataclass(frozen=True, kw_only=True)
class CyclicProjection(SolverWithNeeds):
    """The papers' algorithm: exact Bregman projections onto one constraint after the other.

    It is the reference for the other solvers. Prefer it to them for a few constraints at a moderate accuracy, or to reproduce the
    paper. Its convergence is linear and slows down with the number of active constraints.

    Parameters
    ----------
    corrected : bool
        Whether multipliers keep their sign (eq. 8). If False, only violated constraints are projected onto, and the run ends as soon as
        all constraints hold, in general not at the nearest matrix (Appendix B).
    movement_atol, movement_tol : float, optional
        The stopping rule of the paper (section 5.1.4): stop when a sweep changes the multipliers by at most this, as a norm in
        their own units, or relative to their norm. By default only the certificate stops the run.
    violation_tol : float
        Relative violation at which a run without corrections ends; dimensionless.
    root_tol : float
        Relative accuracy of a projection that has no closed form; dimensionless.
    refresh : int
        Sweeps after which the matrix is rebuilt from the multipliers, so that rounding does not add up.

    Attributes
    ----------
    Result.trace
        Per sweep: ``skipped`` (constraints that were known to hold), ``held`` (those that were evaluated and held), ``projections``,
        ``evaluations`` (of the zero finder), ``violation`` (largest relative one met), ``movement`` (length of the change of the
        multipliers), ``drift`` (relative distance of the updated from the rebuilt matrix, nan where not rebuilt).

    Notes
    -----
    Kulis 2009, sections 5 and 6.2. LogDet: rank one and the hard rank two in closed form, O(r^2). Von Neumann: the zero of a
    monotone function by Newton's method on its logarithm, each evaluation one spectrum of a rank-one update, O(r^2). The
    product of the eigenvectors is dense, O(r^3). The paper counts O(r^2),
    by the fast multipole method, but did not use it either.

    Differences from the paper: constraints that held with multiplier 0 are skipped as long as a running bound proves that they hold
    (LogDet); any symmetric ``A_i`` is taken, as a sum of outer products.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, CyclicProjection, nearest_kernel
    >>> constraints = Constraints.sq_distance([0, 1], [1, 2], [1.0, 3.0], ["<=", ">="])
    >>> print(nearest_kernel(np.eye(3), constraints, solver=CyclicProjection()).status)
    OPTIMAL
    """

    name = "cyclic_projection"
    works_on = "dual_bound"
    max_iter = 10_000
    needs_divergence = ("row_projections",)
    needs_loss = ("projection_code",)
    corrected: bool = True
    movement_atol: float | None = None
    movement_tol: float | None = None
    violation_tol: float = 1e-6
    root_tol: float = 1e-10
    refresh: int = 20

    def __post_init__(self) -> None:
        check_flag("CyclicProjection: corrected", self.corrected)
        for name in ("violation_tol", "root_tol", "movement_atol", "movement_tol"):
            if name in ("violation_tol", "root_tol") or getattr(self, name) is not None:
                check_positive(f"CyclicProjection: {name}", getattr(self, name), finite=True)
        check_integer("CyclicProjection: refresh", self.refresh, 1, optional=False)

    def check(self, problem: NearestMatrix, *, further: Iterable[str] = (), instead: str = "dual_newton") -> None:
        """Raise as other solvers, and for the one pair of a divergence and a slack that has no compiled projection."""
        slacks = [loss.name for loss, _ in problem.losses.groups if isinstance(loss, RelativeEntropy)]
        if slacks and problem.divergence.row_projections == "logdet":
            further = (*further, "another loss than the slack of von Neumann under LogDet")
        super().check(problem, further=further, instead=instead)

    def has_settled(self, movement: float, length: float) -> bool:
        """Whether the stopping rule of the paper ends the run: ``movement`` is the change of the multipliers, ``length`` their norm."""
        absolute = self.movement_atol is not None and movement <= self.movement_atol
        return absolute or (self.movement_tol is not None and movement <= self.movement_tol * max(length, TINY))

    def init(self, problem: NearestMatrix, tol: float, start: np.ndarray | None) -> CyclicState:
        """The prior, or the matrix of the given dual weights."""
        mu = first_dual(problem, start)
        kind = PROJECTED[str(problem.divergence.row_projections)]
        matrix, bounds = kind.at(problem, mu), row_bounds(problem)
        return CyclicState(matrix, mu, kind.rows(problem), bounds, problem.operator, self._value(problem, matrix, mu))

    def _value(self, problem: NearestMatrix, matrix: Projected, mu: np.ndarray) -> float:
        """The dual bound ``phi*(T0) - phi*(T) - sum loss*(mu)``."""
        return problem.offset + matrix.dual_part() - float(problem.losses.conjugate(mu).sum())

    def step(self, problem: NearestMatrix, state: CyclicState) -> CyclicState:
        """One sweep over all constraints."""
        matrix, mu = state.matrix.copy(), state.dual.copy()
        sweep = matrix.sweep(mu, state, self)
        sweep["drift"] = np.nan
        if (len(state.sweeps) + 1) % self.refresh == 0:  # M = psi(T0 - A*(mu)), without accumulated rounding
            rebuilt = type(matrix).at(problem, mu)
            sweep["drift"] = matrix.distance(rebuilt)
            matrix = rebuilt
        objective = self._value(problem, matrix, mu)
        moved, length = sweep["movement"], float(np.linalg.norm(mu))
        done = (not self.corrected and sweep["violation"] <= self.violation_tol) or self.has_settled(moved, length)
        state.sweeps.append(sweep)
        new = replace(state, matrix=matrix, dual=mu, finished=done, **state.progress(objective, self.corrected))
        return replace(new, stalled=new.idle >= 20 or moved <= 1e-16 * length)
