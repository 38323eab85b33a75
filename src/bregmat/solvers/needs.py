"""What the solvers of (P) share: their state, and what they need of the divergence and the losses, checked before the first step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bregmat.certificates.nearest_matrix import NearestMatrix
from bregmat.certificates.problem import Nearness
from bregmat.coordinates.priors import Iterate
from bregmat.objective.divergences import DIVERGENCES
from bregmat.run.loop import State

# words for the needs that not every divergence or loss meets, in messages
WORDS = {
    "row_projections": "compiled projections onto one row",
    "keeps_trace": "projections that keep the trace",
    "projection_code": "a compiled projection",
    "is_smooth": "a finite slack_weight on every row",
    "is_hard": "hard rows",
}


class MatrixState(State):
    """A state of a solver for (P): a matrix, the values of its rows, and their dual weights."""

    dual: np.ndarray
    if TYPE_CHECKING:  # attributes, or properties that are computed when a certificate needs them

        @property
        def iterate(self) -> Iterate: ...
        @property
        def values(self) -> np.ndarray: ...

    @property
    def last(self) -> Iterate | None:  # type: ignore[override]
        """The matrix of this state."""
        return self.iterate

    def violation(self, problem: Nearness) -> float:
        """Largest relative violation of a hard row; asked for only if there is one."""
        return float(problem.violation(self.values)[problem.losses.hard].max(initial=0.0))

    def is_finite(self) -> bool:
        """Whether no number has overflowed."""
        return bool(np.isfinite(self.values).all() and np.isfinite(self.dual).all())


class SolverWithNeeds:
    """A solver that lists what it needs: names of attributes that must be neither None nor False."""

    name: ClassVar[str]
    works_on: ClassVar[str]
    max_iter: ClassVar[int]
    needs_divergence: ClassVar[tuple[str, ...]]
    needs_loss: ClassVar[tuple[str, ...]]

    def check(self, problem: NearestMatrix, *, further: Iterable[str] = (), instead: str = "dual_newton") -> None:
        """Raise ``TypeError`` naming the needs that a problem does not meet, with ``further`` ones at the end."""
        D, missing = problem.divergence, []
        # divergences and losses of users may lack an attribute
        for need in self.needs_divergence:
            if getattr(D, need, None) is None or getattr(D, need) is False:
                have = [repr(name) for name, cls in DIVERGENCES.items() if getattr(cls, need, None)]
                known = f", as of {' and '.join(have)}" if have else ""
                missing.append(f"{WORDS.get(need, need)} of the divergence{known} (got {D.name!r})")
        for loss, rows in problem.losses.groups:
            for need in self.needs_loss:
                if getattr(loss, need, None) is None or getattr(loss, need) is False:
                    slack = "a finite slack_weight" if need == "is_hard" else f"the loss {loss.name!r}"
                    what = "are hard" if loss.is_hard else f"have {slack}"
                    missing.append(f"{WORDS.get(need, need)} ({len(problem.losses.bound[rows])} rows {what})")
        missing += further
        if missing:
            raise TypeError(f'{self.name} needs {", and ".join(missing)}. Use solver="{instead}" or "auto".')
