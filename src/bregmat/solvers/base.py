"""What solvers of problem (P) share: the state of a matrix, needs that are checked before the first step, the registry, and the plan.

The plan says which solvers try a problem, in which order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bregmat.base.checks import rows_text
from bregmat.base.registry import Registry
from bregmat.certificates.problem import NearestMatrix
from bregmat.coordinates.priors import Iterate
from bregmat.engine.loop import Solver, State
from bregmat.objective.divergences import DIVERGENCES
from bregmat.objective.spectral import SpectralDivergence

SAMPLE_FROM = 200_000  # rows from which on mirror Newton solves a sample of them first
MAX_FACTOR_FLOPS = 2e11  # operations of a factorisation above which mirror Newton with conjugate gradients costs less
MAX_ITER = 300  # steps of the plan of "auto"; a solver that is asked for by name has its own limit
# words for the needs that not every divergence or loss meets, in messages
WORDS = {
    "row_projections": "compiled projections onto one constraint",
    "keeps_trace": "projections that keep the trace",
    "projection_code": "a compiled projection",
    "is_smooth": "a finite slack_weight on every constraint",
    "is_hard": "hard constraints",
}


class MatrixState(State):
    """A state of a solver for (P): a matrix, the values of its rows, and their dual weights."""

    dual: np.ndarray
    if TYPE_CHECKING:  # attributes, or properties that are computed when a certificate needs them

        @property
        def iterate(self) -> Iterate: ...
        @property
        def values(self) -> np.ndarray: ...

    def violation(self, problem: NearestMatrix) -> float:
        """Largest relative violation of a hard row; asked for only if there is one."""
        return float(problem.violation(self.values)[problem.losses.hard].max(initial=0.0))

    def is_finite(self) -> bool:
        """Whether no number has overflowed."""
        return bool(np.isfinite(self.values).all() and np.isfinite(self.dual).all())


SOLVERS = Registry(
    "solver",
    example="CyclicProjection()",
    needs=("works_on", "max_iter", "check", "init", "step"),
    before="'auto' or ",
)
AUTO: dict[str, Solver] = {}  # the solvers of "auto" with their settings, by short names


class SolverWithNeeds:
    """A solver that lists what it needs: names of attributes that must be neither None nor False."""

    name: ClassVar[str]
    works_on: ClassVar[str]
    max_iter: ClassVar[int]
    needs_divergence: ClassVar[tuple[str, ...]]
    needs_loss: ClassVar[tuple[str, ...]]
    starts_at_prior: ClassVar[bool] = False  # whether the loss of every row must be finite at the prior

    def check(self, problem: NearestMatrix, *, further: Iterable[str] = (), instead: str = "dual_newton") -> None:
        """Raise ``TypeError`` naming the needs that a problem does not meet, with ``further`` ones at the end."""
        D, L, missing = problem.divergence, problem.losses, []
        # divergences and losses of users may lack an attribute
        for need in self.needs_divergence:
            if getattr(D, need, None) is None or getattr(D, need) is False:
                have = [repr(name) for name, cls in DIVERGENCES.items() if getattr(cls, need, None)]
                known = f", as of {' and '.join(have)}" if have else ""
                missing.append(f"{WORDS.get(need, need)} of the divergence{known} (got {D.name!r})")
        for loss, rows in L.groups:
            for need in self.needs_loss:
                if getattr(loss, need, None) is None or getattr(loss, need) is False:
                    slack = "a finite slack_weight" if need == "is_hard" else f"the loss {loss.name!r}"
                    what = "are hard" if loss.is_hard else f"have {slack}"
                    missing.append(f"{WORDS.get(need, need)} ({len(L.bound[rows])} constraints {what})")
        if self.starts_at_prior and not L.has_hard and [loss for loss, _ in L.groups if loss.is_positive]:
            low = L.outside(problem.operator.values_diagonal(problem.prior))
            if len(low):
                missing.append(
                    f"positive values at the prior of constraints whose loss is for positive ones ({rows_text(low, 'constraint')})"
                )
        missing += further
        if missing:
            raise TypeError(f'{self.name} needs {", and ".join(missing)}. Use solver="{instead}" or "auto".')


# ---------------------------------------------------------------------- the plan
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
    executor: Any = None
    block_size: int | None = None


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
        named = SOLVERS.resolve(solver)
        named.check(problem)
        return [(named, named.max_iter if max_iter is None else max_iter)]
    limit = MAX_ITER if max_iter is None else max_iter
    hard = problem.losses.hard
    dual, interior = AUTO["dual"], AUTO["interior"]
    order: list[tuple[Solver, int]] = [(dual, 50), (interior, 150)]
    if hard.all():
        # The solution may be far from the prior, for example with nearly parallel rows. Then a second path starts further away.
        order = [(dual, 50), (interior, 80), (AUTO["afar"], 50)]
    elif problem.is_always_feasible and problem.divergence.keeps_range:
        # Mirror Newton suits mild losses, dual Newton rows that can nearly all be met, the interior point everything else.
        order[0] = (dual, 25 if problem.c <= 3000 else 8)
        is_large = problem.operator.factor_flops() > MAX_FACTOR_FLOPS
        if problem.divergence.is_congruence_invariant or is_large:
            place = 0 if problem.divergence.is_congruence_invariant else 1
            mirror = AUTO["sampled" if problem.c >= SAMPLE_FROM else "mirror"]
            order.insert(place, (mirror, 250 if is_large else 45))
    if not is_warm and not problem.is_always_feasible:
        # If values must grow by a large factor (LogDet) or shrink by one (Frobenius), the solution is so far from the prior that the
        # divergence is nearly a linear function <C, M> there. It is nearly singular, and the interior point finds it in fewer steps.
        far, D = 100.0, problem.divergence  # far: multiple of the prior
        growth = 1.0 if D.keeps_range and not D.keeps_rank else stretch(problem)
        if (D.keeps_rank and growth > far) or (not D.keeps_range and growth < 1.0 / far):
            order = [order[1], order[0], *order[2:]]
    plan = []
    for named, share in order:
        try:
            named.check(problem)
        except TypeError:
            continue
        plan.append((named, min(share, limit)))
    if dual in [named for named, _ in plan]:
        return [*plan, (dual, limit)]  # which starts from the best dual weights so far
    return [*plan[:-1], (plan[-1][0], limit)]


def stretch(problem: NearestMatrix) -> float:
    """Geometric mean of bound over value at the prior, over the hard rows that the prior violates; 1 if there are none."""
    L = problem.losses
    if problem.is_always_feasible:
        return 1.0
    p = problem.operator.values_diagonal(problem.prior)
    rows = L.hard & L.violated(p) & (p > 0) & (L.bound > 0)
    with np.errstate(over="ignore"):
        return float(np.exp(np.log(L.bound[rows] / p[rows]).mean())) if rows.any() else 1.0
