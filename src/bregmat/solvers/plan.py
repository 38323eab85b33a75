"""Which solvers try a problem (P), in which order, and the options that they are called with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bregmat.base.checks import check_limits
from bregmat.certificates.nearest_matrix import NearestMatrix
from bregmat.objective.spectral import SpectralDivergence
from bregmat.run.loop import SOLVERS, Solver
from bregmat.run.result import MatrixResult
from bregmat.solvers.cyclic_projection import CyclicProjection
from bregmat.solvers.definite_boost import DefiniteBoost
from bregmat.solvers.dual_newton import DualNewton
from bregmat.solvers.interior_point import InteriorPoint
from bregmat.solvers.mirror_newton import MirrorNewton
from bregmat.solvers.newton_system import factor_flops

for solver_class in (MirrorNewton, DualNewton, InteriorPoint, CyclicProjection, DefiniteBoost):
    SOLVERS.add(solver_class)


@dataclass(frozen=True)
class Options:
    """Arguments of :func:`bregmat.nearest_metric` of these names, all but points, prior and constraints."""

    divergence: SpectralDivergence
    loss: Any
    slack_weight: Any
    solver: Any
    tol: float
    max_iter: int | None
    max_seconds: float | None
    warm_start: Any
    callback: Any
    executor: Any
    block_size: int | None
    checkpoint: Any

    def check(self, n_constraints: int | None = None) -> None:
        """Raise for invalid limits, and for a warm start with more rows than the problem (None: its rows are sharded)."""
        check_limits(tol=self.tol, max_iter=self.max_iter, max_seconds=self.max_seconds, callback=self.callback)
        if self.warm_start is None or n_constraints is None:
            return
        if not isinstance(self.warm_start, MatrixResult):
            raise TypeError(f"warm_start must be an earlier MatrixResult; got {type(self.warm_start).__name__}.")
        if len(self.warm_start.dual) > n_constraints:
            raise ValueError(
                f"warm_start has {len(self.warm_start.dual)} rows but there are {n_constraints} constraints; new rows go to the end."
            )

    def check_whole(self) -> None:
        """Raise for options that only sharded rows use."""
        if self.checkpoint is not None:
            raise ValueError("checkpoint is for sharded rows: give block_size or an executor.")


def plan_of(
    problem: NearestMatrix, solver: Any, max_iter: int | None, is_warm: bool = False
) -> list[tuple[Solver, int]]:
    """Solvers to try in order, each with its share of the iterations; the number of the last one limits all of them.

    Parameters
    ----------
    problem : NearestMatrix
    solver : str or object
        "auto", the name of a solver, or a solver object.
    max_iter : int, optional
        By default the limit of the solver; 300 for "auto".
    is_warm : bool
        Whether the run starts from dual weights.
    """
    if not (isinstance(solver, str) and solver == "auto"):
        found = SOLVERS.resolve(solver)
        return [(found, found.max_iter if max_iter is None else max_iter)]
    limit = 300 if max_iter is None else max_iter
    plan = _automatic(problem)
    if problem.is_nearly_linear and not is_warm:
        plan = [plan[1], plan[0], *plan[2:]]
    plan.append((DualNewton(), limit))  # once more, from the best weights of all
    return _able([(solver, min(share, limit)) for solver, share in plan], problem, limit)


def _automatic(problem: NearestMatrix) -> list[tuple[Solver, int]]:
    """The solvers of "auto" with their shares, chosen by divergence, hard rows and size."""
    beyond_flops = 2e11  # of one factorisation: above this, mirror Newton's steps cost less than the interior point's
    hard, D = problem.losses.hard, problem.divergence
    if hard.all():
        # the solution may be far from the prior, as for nearly parallel rows: a second path starts further away
        return [(DualNewton(), 50), (InteriorPoint(), 80), (InteriorPoint(ahead=1e6), 50)]
    plan: list[tuple[Solver, int]] = [(DualNewton(), 50), (InteriorPoint(), 150)]
    if not hard.any() and D.keeps_range:
        # mirror Newton for mild losses, the dual where nearly all rows can be met, the interior point for the rest
        plan[0] = (DualNewton(), 25 if problem.c <= 3000 else 8)
        is_beyond = factor_flops(problem.operator) > beyond_flops
        if D.is_congruence_invariant or is_beyond:
            plan.insert(0 if D.is_congruence_invariant else 1, (MirrorNewton(), 250 if is_beyond else 45))
    return plan


def _able(plan: list[tuple[Solver, int]], problem: NearestMatrix, limit: int) -> list[tuple[Solver, int]]:
    """The solvers of a plan that take the problem; the last of them gets all remaining iterations."""
    able = []
    for solver, share in plan:
        try:
            solver.check(problem)
        except TypeError:
            continue
        able.append((solver, share))
    return [*able[:-1], (able[-1][0], limit)]
