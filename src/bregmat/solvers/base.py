"""What solvers of problem (P) share: the state of a matrix, needs that are checked before the first step, and the registry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bregmat.base.checks import rows_text
from bregmat.base.registry import Registry
from bregmat.certificates.problem import NearestMatrix
from bregmat.coordinates.priors import Iterate
from bregmat.engine.loop import State
from bregmat.objective.divergences import DIVERGENCES

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
        if self.starts_at_prior and not L.has_hard:
            low = L.outside(problem.operator.values_diagonal(problem.prior))
            if len(low):
                missing.append(
                    f"positive values at the prior of constraints whose loss is for positive ones ({rows_text(low, 'constraint')})"
                )
        missing += further
        if missing:
            raise TypeError(f'{self.name} needs {", and ".join(missing)}. Use solver="{instead}" or "auto".')
