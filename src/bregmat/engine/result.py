"""The result of a run: the point, its certificate, and how the run went."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from bregmat.base.html import escape, listed, number, seconds
from bregmat.engine.status import ExitReason, Record, Status

OWN_RULE = "The stopping rule of the method was met, which does not test the gap."
STATUS_TEXT = {
    "OPTIMAL": "proven optimal",
    "FEASIBLE": "meets the hard constraints, not proven optimal",
    "INFEASIBLE": "proven impossible",
    "UNBOUNDED": "no minimum exists",
    "UNKNOWN": "nothing proven",
}


@dataclass(frozen=True)
class Kind:
    """What distinguishes the results of one kind of problem from others, in words and checks.

    Attributes
    ----------
    noun : str
        The point in sentences; its last word is the short form.
    statuses : frozenset of Status
        Those that results of this kind can have.
    has_priced_errors : bool
        Whether violations cost instead of being forbidden.
    gap_is_ratio : bool
        False: the gap is 0 if only rounding of larger terms separates objective and bound.
    shown : tuple of str
        The attributes in the repr, apart from those that are None.
    advice : mapping from ExitReason to str
        Advice of this kind of problem in place of the general one.
    """

    noun: str = "point"
    statuses: frozenset[Status] = frozenset(Status) - {Status.UNBOUNDED}
    has_priced_errors: bool = False
    gap_is_ratio: bool = True
    shown: tuple[str, ...] = ("objective", "dual_bound", "gap", "max_violation")
    advice: Mapping[ExitReason, str] = field(default_factory=dict)


@dataclass(eq=False, repr=False, kw_only=True)
class Result:
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

    status: Status
    exit_reason: ExitReason
    tol: float = np.nan
    n_iter: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)
    solver: str = ""
    conflict: np.ndarray | None = None
    trace: dict[str, np.ndarray] = field(default_factory=dict)
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
        """(name, value) of every number of the certificate, as text (not escaped); `has_hard`: whether there are hard constraints."""
        soft = self._kind.has_priced_errors
        violation = "violation of optimality" if soft else "violation of hard constraints"
        amount = "none"
        if has_hard is False:
            amount = "no hard constraints"
        elif self.max_violation != 0:
            amount = number(self.max_violation, 3) + ("" if soft else " (largest, relative)")
        return [
            ("status", f"{self.status}: {verdict(self)}"),
            *([("left open", self.reason)] if self.reason else []),
            ("exit reason", f"{self.exit_reason}: {self.advice}"),
            ("objective", number(self.objective, 7)),
            ("dual bound", number(self.dual_bound, 7)),
            ("relative gap", number(self.gap, 3)),
            (violation, amount),
            ("solver", self.solver or "–"),
            ("iterations", number(int(self.n_iter))),
            ("time", seconds(float(self.seconds))),
        ]

    def proof_text(self) -> str:
        """What the certificate proves about the point, as one or two plain sentences (not escaped).

        The noun of its kind names the unknown; its last word is the short form. If errors have a price, ``max_violation`` is that of
        the optimality conditions.
        """
        kind = self._kind
        noun, soft = kind.noun, kind.has_priced_errors
        short = noun.split()[-1]
        status = self.status
        if status == "INFEASIBLE":
            rows = self.conflict
            which = f" Constraints {listed(rows)} contradict each other." if rows is not None and len(rows) else ""
            if soft:
                return f"No {noun} without errors exists: this is proven, not a failure of the search."
            return f"No {noun} meets all hard constraints: this is proven, not a failure of the search.{which}"
        if status == "UNBOUNDED":
            return f"The objective can be made as small as one likes, so no best {short} exists."
        objective, bound = number(self.objective, 7), number(self.dual_bound, 7)
        bounded = math.isfinite(self.dual_bound)
        if status == "OPTIMAL":
            return (
                f"The {short} found has objective {objective}. Every {short} allowed in this problem has at least {bound}: "
                "that lower bound is computed from the multipliers alone, whatever the search did. So no other "
                f"{short} is better by more than {number(max(float(self.gap), 1e-15), 2)} of the objective."
            )
        known = (
            f" No {short} can be below {bound}; this one is at {objective}." if bounded else " No lower bound is known."
        )
        if soft:
            return f"That the {short} is the best one is not proven to the tolerance asked for.{known}"
        if status == "FEASIBLE":
            return (
                f"The {short} meets the hard constraints; that it is the best one is not proven to the tolerance asked for."
                f"{known}"
            )
        if self.max_violation == 0 and self.objective == math.inf:
            return (
                "The search stopped before anything was proven: soft constraints have values at which their loss is infinite. A positive "
                'bound with ">=" or "==" asks for a positive value; where constraints contradict each other in this, use '
                f"loss=SquaredHinge().{known}"
            )
        return (
            "The search stopped before anything was proven: hard constraints are still violated, by up to "
            f"{number(self.max_violation, 2)} of their bounds.{known}"
        )

    def _repr_html_(self) -> str:
        """The result as an HTML fragment for notebooks: its certificate and what it proves. Colours are inherited from the notebook."""
        left = "text-align:left;padding:1px 14px 1px 0"
        rows = "".join(
            f'<tr><th scope="row" style="{left};font-weight:normal;opacity:.75">{escape(name)}</th>'
            f'<td style="{left}">{escape(value)}</td></tr>'
            for name, value in self.certificate_rows()
        )
        return (
            f'<div class="bregmat-result" style="max-width:46em"><strong>{escape(type(self).__name__)}: '
            f"{escape(verdict(self))}</strong>"
            f'<table style="border-collapse:collapse;margin:.4em 0;color:inherit;background:none">{rows}</table>'
            f'<div style="opacity:.85">{escape(self.proof_text())}</div></div>'
        )


def verdict(result: Any) -> str:
    """The status in a few words."""
    if result._kind.has_priced_errors and result.status == "FEASIBLE":
        return "not proven optimal"
    return STATUS_TEXT[result.status]


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
