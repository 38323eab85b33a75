"""A balanced cut with its proof."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, fields
from typing import Any

import numpy as np

from bregmat._html import STATUS_TEXT, certificate_rows, escape, number, proof, table
from bregmat.result import ExitReason, Record, Status


@dataclass(eq=False)
class CutResult:
    """A balanced cut and a proven lower bound on all of them; ``ConvergenceDisplay.from_result`` draws its history.

    Attributes
    ----------
    labels : ndarray of int, shape (n,)
        Side of every vertex, 0 or 1; the first vertex is on side 0. In node order for networkx graphs.
    cut : float
        Weight of the edges between the sides.
    imbalance : int
        Difference of the sizes of the sides: 0, or 1 for an odd number of vertices.
    lower_bound : float
        Proven: no balanced cut weighs less. Whole weights: the relaxation's bound rounded up to a weight that a
        balanced cut can have.
    relaxation_bound : float
        The same before rounding up.
    gap : float
        ``(cut - lower_bound) / cut``, dimensionless; 0 for a cut of 0. Other results divide by ``max(1, |objective|)``: weights
        have no natural size, and small ones would prove anything.
    dual : ndarray, shape (n,), or (n + 1,) for odd n
        The proof: y with ``L + diag(y)`` positive semidefinite orthogonal to e, and ``relaxation_bound = -sum(y) / 4``. L is the
        Laplacian, for odd n with an isolated dummy vertex at the end.
    status : Status
        OPTIMAL: the gap is within ``tol``; FEASIBLE otherwise.
    exit_reason : ExitReason
        TOLERANCE where the cut is proven optimal, or where the relaxation is solved and what remains is its own gap.
    tol : float
    n_iter : int
        Newton steps; 0 where the cut proved itself (``certifying`` multipliers).
    seconds : float
    history : list of Record
        ``objective`` is the best cut so far.
    solver : str
        "certificate of the cut", "central path" or "low rank".
    """

    labels: np.ndarray
    cut: float
    imbalance: int
    lower_bound: float
    relaxation_bound: float
    gap: float
    dual: np.ndarray
    status: Status
    exit_reason: ExitReason
    tol: float
    n_iter: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)
    solver: str = ""

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no balanced cut is lighter (real weights: by more than ``tol``, relative)."""
        return self.status is Status.OPTIMAL

    @property
    def objective(self) -> float:
        """``cut``: the name that results share."""
        return self.cut

    @property
    def dual_bound(self) -> float:
        """``lower_bound``: the name that results share."""
        return self.lower_bound

    max_violation = 0.0  # a cut is balanced or it is not returned
    conflict = None

    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays for :func:`bregmat.save`."""
        meta: dict[str, Any] = {"status": self.status.value, "exit_reason": self.exit_reason.value}
        meta |= {name: getattr(self, name) for name in _PLAIN}
        arrays = {"labels": self.labels, "dual": self.dual}
        arrays["history"] = np.array([astuple(r) for r in self.history], dtype=float).reshape(-1, len(fields(Record)))
        return meta, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> CutResult:
        """Inverse of :meth:`to_state`."""
        return cls(
            labels=arrays["labels"],
            dual=arrays["dual"],
            status=Status(meta["status"]),
            exit_reason=ExitReason(meta["exit_reason"]),
            history=[Record(int(row[0]), *map(float, row[1:])) for row in arrays["history"]],
            **{name: meta[name] for name in _PLAIN},
        )

    def __repr__(self) -> str:
        return (
            f"CutResult(status={self.status}, exit_reason={self.exit_reason}, cut={self.cut:.8g}, "
            f"lower_bound={self.lower_bound:.8g}, gap={self.gap:.1e}, imbalance={self.imbalance}, n={len(self.labels)}, "
            f"n_iter={self.n_iter}, seconds={self.seconds:.3g}, solver={self.solver!r})"
        )

    def _repr_html_(self) -> str:
        advice = None
        if self.exit_reason is ExitReason.TOLERANCE and not self.is_optimal:
            advice = "The relaxation is solved; what is left is its own gap, or a better cut that was not found."
        rows = [pair for pair in certificate_rows(self, advice=advice) if "violation" not in pair[0]]
        rows.insert(3, ("bound before rounding up", number(self.relaxation_bound, 7)))
        rows.insert(
            5, ("sizes of the sides", " and ".join(number(int(k)) for k in np.bincount(self.labels, minlength=2)))
        )
        return (
            f'<div class="bregmat-result" style="max-width:46em"><strong>CutResult: {STATUS_TEXT[self.status.name]}</strong>'
            + table(("", ""), [(escape(name), escape(value)) for name, value in rows])
            + f'<div style="opacity:.85">{escape(proof(self, "balanced cut"))}</div></div>'
        )


_PLAIN = (
    "cut",
    "imbalance",
    "lower_bound",
    "relaxation_bound",
    "gap",
    "tol",
    "n_iter",
    "seconds",
    "solver",
)
