"""What a solver returns: the certified matrix, its proof, and how the run went."""

from __future__ import annotations

import warnings
from dataclasses import astuple, dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from bregmat.certificates import Certificate
    from bregmat.coordinates import Coordinates


class Status(StrEnum):
    """What is proven about the returned matrix."""

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
    """Why the run stopped."""

    TOLERANCE = "TOLERANCE"
    CERTIFICATE = "CERTIFICATE"
    MAX_ITER = "MAX_ITER"
    TIME = "TIME"
    STALLED = "STALLED"
    INTERRUPTED = "INTERRUPTED"
    NONFINITE = "NONFINITE"

    @property
    def advice(self) -> str:
        """What to change."""
        return _ADVICE[self.value]


_MEANING = {
    "OPTIMAL": "The result is optimal: its objective is within the tolerance of a proven lower bound.",
    "FEASIBLE": "The result meets every hard constraint; how far it is from the optimum is the gap.",
    "INFEASIBLE": "Nothing meets all hard constraints; result.conflict names rows that prove it.",
    "UNBOUNDED": "The objective has no lower bound.",
    "UNKNOWN": "Nothing is proven yet: hard constraints are still violated.",
}
_ADVICE = {
    "TOLERANCE": "The tolerance was met.",
    "CERTIFICATE": "A proof of infeasibility was found: (a) drop or relax a row of result.conflict, (b) use a finite slack_weight.",
    "MAX_ITER": "Raise max_iter, or (a) standardise the features, (b) lower slack_weight, (c) loosen tol.",
    "TIME": "Raise max_seconds, or continue with warm_start=result.",
    "STALLED": "No step improves the point: (a) standardise the features, (b) lower slack_weight, (c) loosen tol, (d) try another solver.",
    "INTERRUPTED": "Stopped on request; the best point so far is kept. Continue with warm_start=result.",
    "NONFINITE": "A number overflowed: scale the data and the bounds towards 1.",
}


@dataclass(frozen=True)
class Record:
    """One iteration: seconds since the start, objective and bound in the problem's units; nan where not computed."""

    iteration: int
    seconds: float
    objective: float
    dual_bound: float
    gap: float
    violation: float


_SCALARS = ("upper", "objective", "dual_bound", "gap", "violation")


def _plain(x: float) -> float | str:
    """A number that JSON can hold: infinities and NaN as text."""
    return float(x) if np.isfinite(x) else str(float(x))


class AnyResult(Protocol):
    """What :func:`check` reads: the results of all solvers have it."""

    @property
    def status(self) -> Status: ...
    @property
    def exit_reason(self) -> ExitReason: ...
    @property
    def advice(self) -> str: ...
    @property
    def gap(self) -> float: ...
    @property
    def max_violation(self) -> float: ...
    @property
    def tol(self) -> float: ...
    @property
    def n_iter(self) -> int: ...
    @property
    def conflict(self) -> np.ndarray | None: ...


_R = TypeVar("_R", bound=AnyResult)


class SolverError(RuntimeError):
    """A problem has no usable solution; ``.result`` holds what is known."""

    def __init__(self, result: AnyResult) -> None:
        self.result: Any = result
        text = f"{result.status}: {result.status.meaning} {result.advice}"
        if result.conflict is not None:
            text += f" Conflicting rows: {', '.join(str(int(k)) for k in result.conflict[:8])}."
        super().__init__(text)


@dataclass(eq=False)
class Result:
    """The certified matrix and its proof (api: ``nearest_kernel``).

    Attributes
    ----------
    status : Status
        What is proven.
    exit_reason : ExitReason
        Why the run stopped.
    objective, dual_bound : float
        Objective of the returned matrix and the proven lower bound, in units of the divergence.
    gap : float
        ``(objective - dual_bound) / max(1, |objective|)``; dimensionless; inf where nothing is proven.
    max_violation : float
        Largest relative violation over the hard rows; over all rows it is ``violation.max()``.
    violation, values, dual : ndarray, shape (c,)
        Relative violation, value and signed dual weight of each constraint; for INFEASIBLE, ``dual`` is the proof.
    conflict : ndarray of int or None
        Rows that carry the proof of infeasibility.
    n_iter : int
    seconds : float
    history : list of Record
    solver : str
        Name of the solver, or several joined by " + ".
    trace : dict of str to ndarray
        What only this solver records, one array per name: see its class (empty for the Newton methods).
    """

    status: Status
    exit_reason: ExitReason
    certificate: Certificate
    coordinates: Coordinates
    tol: float
    n_iter: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)
    solver: str = ""
    conflict: np.ndarray | None = None
    violation: np.ndarray = field(default_factory=lambda: np.zeros(0))
    trace: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def advice(self) -> str:
        """What to change."""
        return self.exit_reason.advice

    @property
    def objective(self) -> float:
        """Objective of the certified matrix."""
        return self.certificate.objective

    @property
    def dual_bound(self) -> float:
        """Proven lower bound."""
        return self.certificate.dual_bound

    @property
    def gap(self) -> float:
        """Relative gap."""
        return self.certificate.gap

    @property
    def max_violation(self) -> float:
        """Largest relative violation over the hard rows."""
        return self.certificate.violation

    @property
    def dual(self) -> np.ndarray:
        """Signed dual weights, shape (c,): >= 0 for "<=", <= 0 for ">=", free for "=="."""
        return self.certificate.dual

    @property
    def values(self) -> np.ndarray:
        """Value of each constraint at the certified matrix, shape (c,)."""
        return self.certificate.values

    @property
    def B(self) -> np.ndarray:
        """Factor of the learned matrix in the coordinates of the data: ``factor = G0 @ B``, shape (r, k)."""
        return self.coordinates.factor_map(self.certificate.iterate)

    @property
    def factor(self) -> np.ndarray:
        """``G`` with ``W = G G'``, shape (n, k); computed on demand."""
        return self.coordinates.factor(self.certificate.iterate)

    def transform(self, X: Any) -> np.ndarray:
        """``X @ B``, shape (n, k), without forming B where the data has many columns."""
        return self.coordinates.transform(X, self.certificate.iterate)

    def kernel(self) -> np.ndarray:
        """``W``, shape (n, n)."""
        G = self.factor
        return G @ G.T

    def metric(self) -> np.ndarray:
        """``B B'``, shape (r, r): the Mahalanobis matrix where the prior is one."""
        return self.coordinates.metric(self.certificate.iterate)

    def spectrum(self) -> np.ndarray:
        """Ascending eigenvalues of the learned matrix in the coordinates it was solved in; shape (k,)."""
        return self.coordinates.spectrum(self.certificate.iterate)

    def write_factor(self, path: str | Path, *, rows: int = 65536) -> None:
        """Write ``factor`` to a .npy file, ``rows`` rows at a time."""
        self.coordinates.write_factor(path, self.certificate.iterate, rows)

    def to_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays for :func:`bregmat.save`. The data is not kept: ``factor`` of a metric needs it again."""
        c = self.certificate
        place, arrays = self.coordinates.to_state()
        iterate, frame = c.iterate.to_state()
        meta = {
            "status": self.status.value,
            "exit_reason": self.exit_reason.value,
            "tol": self.tol,
            "n_iter": self.n_iter,
            "seconds": self.seconds,
            "solver": self.solver,
            "coordinates": place,
            "chart": iterate,
            "proof": {name: _plain(getattr(c, name)) for name in _SCALARS},
        }
        arrays |= frame
        arrays |= {"dual": c.dual, "values": c.values, "violation": self.violation}
        arrays["history"] = np.array([astuple(r) for r in self.history], dtype=float).reshape(-1, len(fields(Record)))
        if self.conflict is not None:
            arrays["conflict"] = self.conflict
        arrays |= {f"trace.{name}": series for name, series in self.trace.items()}
        return meta, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Result:
        """Inverse of :meth:`to_state`."""
        from bregmat.certificates import Certificate
        from bregmat.coordinates import Coordinates
        from bregmat.iterates import iterate_from_state

        coordinates = Coordinates.from_state(meta["coordinates"], arrays)
        scalars = {name: float(value) for name, value in meta["proof"].items()}
        certificate = Certificate(
            iterate=iterate_from_state(meta["chart"], coordinates.t0, arrays),
            dual=arrays["dual"],
            values=arrays["values"],
            **scalars,
        )
        return cls(
            Status(meta["status"]),
            ExitReason(meta["exit_reason"]),
            certificate,
            coordinates,
            meta["tol"],
            meta["n_iter"],
            meta["seconds"],
            [Record(int(row[0]), *map(float, row[1:])) for row in arrays["history"]],
            meta["solver"],
            arrays.get("conflict"),
            arrays["violation"],
            {name.removeprefix("trace."): x for name, x in arrays.items() if name.startswith("trace.")},
        )

    def __repr__(self) -> str:
        return (
            f"Result(status={self.status}, exit_reason={self.exit_reason}, objective={self.objective:.8g}, "
            f"dual_bound={self.dual_bound:.8g}, gap={self.gap:.1e}, max_violation={self.max_violation:.1e}, "
            f"n_iter={self.n_iter}, seconds={self.seconds:.3g}, solver={self.solver!r})"
        )

    def _repr_html_(self) -> str:
        from bregmat._html import result_html

        return result_html(self)


def check(result: _R) -> _R:
    """Turn an outcome into a warning or an error, in one place.

    Raises
    ------
    SolverError
        If the problem is infeasible, unbounded, or a number overflowed.
    """
    if result.status in (Status.INFEASIBLE, Status.UNBOUNDED) or result.exit_reason is ExitReason.NONFINITE:
        raise SolverError(result)
    if result.exit_reason in (ExitReason.MAX_ITER, ExitReason.TIME, ExitReason.STALLED):
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"stopped by {result.exit_reason} after {result.n_iter} iterations with status {result.status}: "
            f"gap {result.gap:.2g}, violation {result.max_violation:.2g}, tol {result.tol:g}. {result.advice}",
            ConvergenceWarning,
            stacklevel=3,
        )
    return result
