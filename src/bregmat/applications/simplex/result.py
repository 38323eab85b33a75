"""A certified vector and how the run went."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field, fields
from typing import Any

import numpy as np

from bregmat._html import result_html
from bregmat.result import ExitReason, Record, Status


@dataclass(eq=False)
class DistributionResult:
    """The certified vector and its proof; ``ConvergenceDisplay.from_result`` draws it.

    Attributes
    ----------
    x : ndarray, shape (n,)
    dual, values, violation : ndarray, shape (c,)
        Signed dual weight (>= 0 for "<=", <= 0 for ">="), value ``A x`` and relative violation (over ``|b|``; over the
        size of the row at the prior where b = 0) of each row. For INFEASIBLE, ``dual`` is the proof.
    objective, dual_bound : float
        KL(x, x0) and its proven lower bound.
    gap : float
        ``(objective - dual_bound) / max(1, |objective|)``; inf where nothing is proven.
    max_violation : float
        Largest relative violation.
    status, exit_reason
        What is proven, and why the run stopped; DefiniteBoost and cyclic projection without corrections end FEASIBLE.
    tol : float
    n_iter : int
    seconds : float
    history : list of Record
    solver : str
    conflict : ndarray of int or None
        Rows that carry the proof of infeasibility.
    trace : dict of ndarray
        DefiniteBoost, per step: ``row``, ``step`` (change of its dual weight) and, where the total is fixed,
        ``log_dual_objective`` (logarithm of ``sum (x0 / |x0|) exp(-sum gamma_j C_j)``; Tsuda 2004, eq. 9) and ``log_bound``
        (that of its bound, Theorem 4.1). Empty for other solvers.
    """

    x: np.ndarray
    dual: np.ndarray
    values: np.ndarray
    violation: np.ndarray
    objective: float
    dual_bound: float
    gap: float
    max_violation: float
    status: Status
    exit_reason: ExitReason
    tol: float
    n_iter: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)
    solver: str = ""
    conflict: np.ndarray | None = None
    trace: dict[str, np.ndarray] = field(default_factory=dict)

    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays for :func:`bregmat.save`."""
        meta: dict[str, Any] = {"status": self.status.value, "exit_reason": self.exit_reason.value}
        meta |= {name: getattr(self, name) for name in _PLAIN}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays["history"] = np.array([astuple(r) for r in self.history], dtype=float).reshape(-1, len(fields(Record)))
        arrays |= {f"trace.{name}": column for name, column in self.trace.items()}
        if self.conflict is not None:
            arrays["conflict"] = self.conflict
        return meta, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> DistributionResult:
        """Inverse of :meth:`to_state`."""
        plain: dict[str, Any] = {name: meta[name] for name in _PLAIN} | {name: arrays[name] for name in _ARRAYS}
        return cls(
            status=Status(meta["status"]),
            exit_reason=ExitReason(meta["exit_reason"]),
            history=[Record(int(row[0]), *map(float, row[1:])) for row in arrays["history"]],
            conflict=arrays.get("conflict"),
            trace={name.removeprefix("trace."): x for name, x in arrays.items() if name.startswith("trace.")},
            **plain,
        )

    def __repr__(self) -> str:
        return (
            f"DistributionResult(status={self.status}, exit_reason={self.exit_reason}, objective={self.objective:.8g}, "
            f"dual_bound={self.dual_bound:.8g}, gap={self.gap:.1e}, max_violation={self.max_violation:.1e}, "
            f"n_iter={self.n_iter}, seconds={self.seconds:.3g}, solver={self.solver!r})"
        )

    def _repr_html_(self) -> str:
        return result_html(self, noun="nonnegative vector")


_PLAIN = ("objective", "dual_bound", "gap", "max_violation", "tol", "n_iter", "seconds", "solver")
_ARRAYS = ("x", "dual", "values", "violation")
