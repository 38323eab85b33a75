"""The result of a run: the point, its certificate, and how the run went."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from bregmat.engine.status import ExitReason, Record, Status
from bregmat.engine.wording import Kind, certificate_rows, proof_text, result_html

OWN_RULE = "The stopping rule of the method was met, which does not test the gap."


@dataclass(eq=False, repr=False, kw_only=True)
class Run:
    """How a run went and what it proved, without the numbers; see :class:`Result` for the attributes."""

    status: Status
    exit_reason: ExitReason
    tol: float = np.nan
    n_iter: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)
    solver: str = ""
    conflict: np.ndarray | None = None
    trace: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(eq=False, repr=False, kw_only=True)
class Result(Run):
    """The attributes that all results have in common; subclasses add the point.

    Attributes
    ----------
    status : Status
        What is proven.
    exit_reason : ExitReason
        Why the run stopped.
    objective, dual_bound : float
        Primal value of the point and the proven lower bound, in units of the problem.
    gap : float
        ``(objective - dual_bound) / unit``, where the objective includes the cost of violations by rounding; dimensionless; inf if
        nothing is proven.
    unit : float
        Unit of the gap: the objective, or the natural size of the objective of this problem if that is larger.
    max_violation : float
        Largest relative violation of a hard constraint.
    tol : float
        The relative gap that the caller asked for.
    n_iter : int
    seconds : float
    history : list of Record
    solver : str
        Name of the solver, or several joined by " + ".
    conflict : ndarray of int or None
        Rows that carry the proof of infeasibility.
    trace : dict of str to ndarray
        Arrays that only this solver records, by name: see its class.
    call : dict of str to object, or None
        The arguments of the call that define the problem, by name, not copied: :func:`bregmat.verify` uses them. None in results
        from pickles and model files, which contain no data.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_kernel
    >>> result = nearest_kernel(np.eye(2), Constraints.sq_distance(0, 1, 1.0, "<="))
    >>> print(result.status, result.exit_reason)
    OPTIMAL TOLERANCE
    >>> bool(result.dual_bound <= result.objective and result.gap <= result.tol)
    True
    """

    objective: float
    dual_bound: float
    gap: float
    max_violation: float
    unit: float = 1.0
    call: dict[str, Any] | None = None

    _kind: ClassVar[Kind] = Kind()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"call": None}  # a pickle should not contain the data

    @property
    def advice(self) -> str:
        """What to change so that a further run succeeds."""
        if self.exit_reason is ExitReason.TOLERANCE and self.status is not Status.OPTIMAL:
            return self._kind.advice.get(self.exit_reason, OWN_RULE)
        return self._kind.advice.get(self.exit_reason, self.exit_reason.advice)

    @property
    def ending(self) -> str:
        """How the run ended, in one line."""
        return (
            f"{self.status} after {self.n_iter} iterations ({self.exit_reason}): objective {self.objective:.6g}, "
            f"gap {self.gap:.1e}, {self.seconds:.2f} s"
        )

    @property
    def progress(self) -> str:
        """How far the run came; continues a sentence after "stopped" or "interrupted"."""
        return (
            f"after {self.n_iter} iterations with status {self.status}: gap {self.gap:.2g}, "
            f"violation {self.max_violation:.2g}, tol {self.tol:g}"
        )

    @property
    def reason(self) -> str:
        """What is not proven and by how much, in a sentence or two; empty if the status is a proof."""
        if self.status is Status.UNKNOWN:
            return self._why_unknown()
        return self._why_not_optimal() if self.status is Status.FEASIBLE else ""

    def _why_unknown(self) -> str:
        if self._kind.has_priced_errors:
            return self._why_not_optimal()
        if self.max_violation > 0:
            return f"Hard constraints are missed by up to {self.max_violation:.2g} of their bounds."
        return f"The objective of the {self._kind.noun.split()[-1]} is {self.objective:.6g}: no finite upper bound is known."

    def _why_not_optimal(self) -> str:
        if not np.isfinite(self.dual_bound):
            return "No lower bound of the objective is known."
        if not np.isfinite(self.gap):
            return f"Nothing is proven beyond the lower bound {self.dual_bound:.6g}."
        asked = f", which is {self.gap / self.tol:.2g} times the tolerance" if self.tol > 0 else ""
        return f"The gap is {self.gap:.2g}{asked}."

    # ------------------------------------------------------------------ for people
    def __repr__(self) -> str:
        shown = [(name, value) for name in self._kind.shown if (value := getattr(self, name)) is not None]
        numbers = ", ".join(f"{name}={_short(name, value)}" for name, value in shown)
        return (
            f"{type(self).__name__}(status={self.status}, exit_reason={self.exit_reason}, {numbers}, "
            f"n_iter={self.n_iter}, seconds={self.seconds:.3g}, solver={self.solver!r})"
        )

    def certificate_rows(self, has_hard: bool | None = None) -> list[tuple[str, str]]:
        """(name, value) of every number of the certificate, as text; ``has_hard`` says whether a row is hard, if that is known."""
        return certificate_rows(self, has_hard)

    def proof_text(self) -> str:
        """What is proven, in one or two sentences."""
        return proof_text(self)

    def _repr_html_(self) -> str:
        return result_html(self)


def _short(name: str, value: Any) -> str:
    """A number in the form in which the repr shows it."""
    if not isinstance(value, float):
        return repr(value)
    return f"{value:.1e}" if name == "gap" or name.endswith(("violation", "residual")) else f"{value:.8g}"


_R = TypeVar("_R", bound=Result)


class SolverError(RuntimeError):
    """A problem has no usable solution; ``.result`` is the result.

    If a fit raised it, ``.constraints`` are the rows whose numbers are in ``result.conflict``; otherwise it is None.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, SolverError, check, nearest_kernel
    >>> rows = Constraints.sq_distance([0, 0, 1], [1, 2, 2], [1.0, 9.0, 1.0], ["<=", ">=", "<="])  # 3 > 1 + 1
    >>> try:
    ...     check(nearest_kernel(np.eye(3), rows))
    ... except SolverError as error:
    ...     print(error.result.status, error.result.conflict)
    INFEASIBLE [0 1 2]
    """

    def __init__(self, result: Result) -> None:
        self.result: Any = result
        self.constraints: Any = None
        text = f"{result.status}: {result.status.meaning} {result.advice}"
        if result.conflict is not None:
            text += f" Conflicting constraints: {', '.join(str(int(k)) for k in result.conflict[:8])}."
        super().__init__(text)


def check(result: _R) -> _R:
    """Raise an error or give a warning if a result is not usable as it is; otherwise return it.

    Raises
    ------
    SolverError
        If the problem is infeasible, unbounded, or a number overflowed.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, check, nearest_kernel
    >>> result = check(nearest_kernel(np.eye(2), Constraints.sq_distance(0, 1, 1.0, "<=")))  # returned as it is
    >>> print(result.status)
    OPTIMAL
    """
    if not isinstance(result, Result):
        raise TypeError(f"result must be a bregmat.Result; got {type(result).__name__}.")
    if result.status in (Status.INFEASIBLE, Status.UNBOUNDED) or result.exit_reason is ExitReason.NONFINITE:
        raise SolverError(result)
    if result.exit_reason in (ExitReason.MAX_ITER, ExitReason.TIME, ExitReason.STALLED):
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"stopped by {result.exit_reason} {result.progress}. {f'{result.reason} {result.advice}'.strip()}",
            ConvergenceWarning,
            stacklevel=3,
        )
    return result
