"""The options of a run on problem (P), and the plan: which solvers try it, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bregmat.certificates.problem import NearestMatrix
from bregmat.engine.loop import Solver
from bregmat.objective.spectral import SpectralDivergence
from bregmat.solvers.base import SOLVERS
from bregmat.solvers.cyclic_projection import CyclicProjection
from bregmat.solvers.definite_boost import DefiniteBoost
from bregmat.solvers.dual_newton import DualNewton
from bregmat.solvers.interior_point import InteriorPoint, is_nearly_linear
from bregmat.solvers.sampled_newton import SampledNewton

for solver_class in (SampledNewton, DualNewton, InteriorPoint, CyclicProjection, DefiniteBoost):
    SOLVERS.add(solver_class)
# the solvers of "auto" with their settings
MIRROR, DUAL, INTERIOR, FROM_AFAR = SampledNewton(), DualNewton(), InteriorPoint(), InteriorPoint(ahead=1e6)
MAX_FACTOR_FLOPS = 2e11  # operations of a factorisation above which mirror Newton with conjugate gradients costs less
MAX_ITER = 300  # steps of the plan of "auto"; a solver that is asked for by name has its own limit


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of :func:`bregmat.nearest_metric` other than points, prior and constraints."""

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


def plan_of(
    problem: NearestMatrix, solver: Any, max_iter: int | None, is_warm: bool = False
) -> list[tuple[Solver, int]]:
    """The solvers to try in order, each with a limit on its steps. The limit of the last one is that of all steps of the run.

    Parameters
    ----------
    problem : NearestMatrix
    solver : str or object
        "auto", the name of a solver, or a solver.
    max_iter : int, optional
        By default the limit of the solver itself, or 300 for "auto".
    is_warm : bool
        Whether there is a warm start.
    """
    if not (isinstance(solver, str) and solver == "auto"):
        found = SOLVERS.resolve(solver)
        found.check(problem)
        return [(found, found.max_iter if max_iter is None else max_iter)]
    limit = MAX_ITER if max_iter is None else max_iter
    hard = problem.losses.hard
    order: list[tuple[Solver, int]] = [(DUAL, 50), (INTERIOR, 150)]
    if hard.all():
        # The solution may be far from the prior, for example with nearly parallel rows. Then a second path starts further away.
        order = [(DUAL, 50), (INTERIOR, 80), (FROM_AFAR, 50)]
    elif problem.is_always_feasible and problem.divergence.keeps_range:
        # Mirror Newton suits mild losses, dual Newton rows that can nearly all be met, the interior point everything else.
        order[0] = (DUAL, 25 if problem.c <= 3000 else 8)
        is_large = problem.operator.factor_flops() > MAX_FACTOR_FLOPS
        if problem.divergence.is_congruence_invariant or is_large:
            place = 0 if problem.divergence.is_congruence_invariant else 1
            order.insert(place, (MIRROR, 250 if is_large else 45))
    if not is_warm and not problem.is_always_feasible and is_nearly_linear(problem):
        order = [order[1], order[0], *order[2:]]
    plan = []
    for found, share in [*order, (DUAL, limit)]:  # the last one starts from the best dual weights so far
        try:
            found.check(problem)
        except TypeError:
            continue
        plan.append((found, min(share, limit)))
    return [*plan[:-1], (plan[-1][0], limit)]
