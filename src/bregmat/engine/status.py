"""The status of a result, the reason why a run stopped, and one line of its history."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """What is proven about the returned point.

    Examples
    --------
    >>> from bregmat import Status
    >>> print(Status.FEASIBLE.meaning)
    The result meets every hard constraint; how far it is from the optimum is the gap.
    """

    OPTIMAL = "OPTIMAL"
    FEASIBLE = "FEASIBLE"
    INFEASIBLE = "INFEASIBLE"
    UNBOUNDED = "UNBOUNDED"
    UNKNOWN = "UNKNOWN"

    @property
    def meaning(self) -> str:
        """One sentence for people."""
        return _MEANING[self.value]


class ExitReason(StrEnum):
    """Why the run stopped.

    Examples
    --------
    >>> from bregmat import ExitReason
    >>> print(ExitReason.TIME.advice)
    Raise max_seconds, or continue with warm_start=result.
    """

    TOLERANCE = "TOLERANCE"
    CERTIFICATE = "CERTIFICATE"
    MAX_ITER = "MAX_ITER"
    TIME = "TIME"
    STALLED = "STALLED"
    INTERRUPTED = "INTERRUPTED"
    NONFINITE = "NONFINITE"
    CYCLE = "CYCLE"

    @property
    def advice(self) -> str:
        """What to change."""
        return _ADVICE[self.value]


_MEANING = {
    "OPTIMAL": "The result is optimal: its objective is within the tolerance of a proven lower bound.",
    "FEASIBLE": "The result meets every hard constraint; how far it is from the optimum is the gap.",
    "INFEASIBLE": "Nothing meets all hard constraints; result.conflict names constraints that prove it.",
    "UNBOUNDED": "The objective has no lower bound.",
    "UNKNOWN": "Nothing is proven yet: hard constraints are violated, or soft constraints have values at which their loss is infinite.",
}
_ADVICE = {
    "TOLERANCE": "The tolerance was met.",
    "CERTIFICATE": "A proof of infeasibility was found: (a) drop or relax a constraint in conflict, (b) use a finite slack weight.",
    "MAX_ITER": "Allow more iterations, or (a) standardise the features, (b) lower the slack weight, (c) loosen the tolerance.",
    "TIME": "Raise max_seconds, or continue with warm_start=result.",
    "STALLED": (
        "No step improves the point: (a) standardise the features, (b) lower the slack weight, (c) loosen the tolerance, (d) try another "
        "solver."
    ),
    "INTERRUPTED": "Stopped on request; the best point so far is kept.",
    "NONFINITE": "A number overflowed: scale the data and the bounds towards 1.",
    "CYCLE": "The tolerance was met; passes come round to the same problems, so more of them change nothing.",
}


@dataclass(frozen=True)
class Record:
    """One iteration: seconds since the start, objective and bound in the problem's units; nan where not computed.

    ``stage`` counts the problems of a learner that solves several in a row, from 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_kernel
    >>> result = nearest_kernel(np.eye(2), Constraints.sq_distance(0, 1, 1.0, "<="))
    >>> last = result.history[-1]
    >>> bool(last.iteration == result.n_iter and last.dual_bound <= last.objective)
    True
    """

    iteration: int
    seconds: float
    objective: float
    dual_bound: float
    gap: float
    violation: float
    stage: int = 1
