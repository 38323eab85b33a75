"""The result of a balanced cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bregmat.base.html import number
from bregmat.engine.result import Kind, Result
from bregmat.engine.status import ExitReason, Status


@dataclass(eq=False, repr=False, kw_only=True)
class CutResult(Result):
    """A balanced cut and a proven lower bound of all balanced cuts.

    In addition to the attributes of :class:`bregmat.Result`:

    Attributes
    ----------
    labels : ndarray of int, shape (n,)
        Side of every vertex, 0 or 1. For halves without fixed vertices, the first vertex is on side 0. In node order for networkx graphs.
    cut : float
        Weight of the edges between the sides.
    imbalance : float
        By how much the weights of both sides differ from their targets, added up. For halves this is the difference of the weights:
        0, or 1 for an odd number of vertices without weights.
    lower_bound : float
        Proven: no balanced cut weighs less. If all weights are multiples of one unit, the bound of the relaxation is rounded up to a
        weight that a balanced cut can have.
    relaxation_bound : float
        The bound before it is rounded up.
    gap : float
        ``(cut - lower_bound) / cut``, dimensionless; 0 for a cut of 0. Its unit is the cut, because weights have no natural size.
    dual : ndarray, shape (m + k,) for m free vertices
        The proof: y with ``L + diag(y)`` positive semidefinite orthogonal to a. Without fixed vertices
        ``relaxation_bound = -sum(y) / 4``, and L is the Laplacian with k <= 3 vertices without edges at the end: a terminal unless
        the target is one half, and up to two slack vertices. For halves of an even number of vertices without weights, k = 0 and
        a = e; for an odd number, k = 1. Edges to fixed vertices belong to the terminal, negatively for side 0, and what they weigh
        if all free vertices are on side 1 is added to the bound.
    status : Status
        OPTIMAL: the gap is within ``tol``; FEASIBLE otherwise.
    exit_reason : ExitReason
        TOLERANCE if the cut is proven optimal, or if the relaxation is solved and only its own gap remains.
    n_iter : int
        Newton steps; 0 if the cut is proven optimal without the relaxation.
    history : list of Record
        ``objective`` is the best cut so far.
    solver : str
        "certificate of the cut", "central path", "low rank" or "low rank + central path".

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import balanced_cut
    >>> square = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    >>> result = balanced_cut(square, random_state=0)
    >>> print(result.status, result.cut, np.bincount(result.labels))
    OPTIMAL 2.0 [2 2]
    """

    labels: np.ndarray
    imbalance: float
    relaxation_bound: float
    dual: np.ndarray

    _kind: ClassVar[Kind] = Kind(
        "balanced cut",
        statuses=frozenset({Status.OPTIMAL, Status.FEASIBLE}),
        shown=("cut", "lower_bound", "gap", "imbalance"),
    )

    @property
    def cut(self) -> float:
        """The weight of the edges between the sides, which is the objective."""
        return self.objective

    @property
    def lower_bound(self) -> float:
        """Proven: no balanced cut weighs less."""
        return self.dual_bound

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no balanced cut is lighter by more than ``tol``, relative to the cut."""
        return self.status is Status.OPTIMAL

    @property
    def advice(self) -> str:
        """What to change so that a further run succeeds."""
        if self.exit_reason is ExitReason.TOLERANCE and not self.is_optimal:
            return "The relaxation is solved; what is left is its own gap, or a better cut that was not found."
        return super().advice

    def certificate_rows(self, has_hard: bool | None = None) -> list[tuple[str, str]]:
        """(name, value) of every number of the certificate, as text."""
        rows = [pair for pair in super().certificate_rows(has_hard) if "violation" not in pair[0]]
        rows.insert(3, ("bound before rounding up", number(self.relaxation_bound, 7)))
        sizes = np.bincount(self.labels, minlength=2)
        rows.insert(5, ("sizes of the sides", " and ".join(number(int(k)) for k in sizes)))
        return rows
