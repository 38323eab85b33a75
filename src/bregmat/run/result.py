"""The result of a run: the point, its certificate, and how the run went."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from bregmat.base.arrays import is_foreign
from bregmat.base.html import certificate_rows, proof_text, result_html
from bregmat.base.points import as_array_points, as_points
from bregmat.base.threads import on_one_blas_thread
from bregmat.certificates.status import ExitReason, Record, Status
from bregmat.typing import Points

if TYPE_CHECKING:
    from pathlib import Path

    from bregmat.coordinates.priors import Coordinates, Iterate

__all__ = ["ExitReason", "MatrixResult", "Record", "Result", "SolverError", "Status", "check"]

WIDE = 1e8  # ratio of slack weights whose square is below rounding relative to 1
ROUNDINGS = 1e3  # a gap of fewer roundings of the terms of the bound is attributed to rounding
OWN_RULE = "The stopping rule of the method was met, which does not test the gap."


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
        Constraints that carry the proof of infeasibility.
    trace : dict of str to ndarray
        Arrays that only this solver records, by name: see its class.

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
    objective: float
    dual_bound: float
    gap: float
    max_violation: float
    tol: float = np.nan
    n_iter: int = 0
    seconds: float = 0.0
    history: list[Record] = field(default_factory=list)
    solver: str = ""
    conflict: np.ndarray | None = None
    trace: dict[str, np.ndarray] = field(default_factory=dict)
    unit: float = 1.0

    noun: ClassVar[str] = "point"  # the point in sentences
    statuses: ClassVar[frozenset[Status]] = frozenset(Status) - {Status.UNBOUNDED}  # that results of this kind can have
    has_priced_errors: ClassVar[bool] = False  # whether violations cost instead of being forbidden
    # False: the gap is 0 if only rounding of larger terms separates objective and bound
    gap_is_ratio: ClassVar[bool] = True
    shown: ClassVar[Sequence[str]] = ("objective", "dual_bound", "gap", "max_violation")  # in the repr
    advice_for: ClassVar[dict[ExitReason, str]] = {}  # advice of this kind of problem in place of the general one

    @property
    def advice(self) -> str:
        """What to change so that a further run succeeds."""
        if self.exit_reason is ExitReason.TOLERANCE and self.status is not Status.OPTIMAL:
            return self.advice_for.get(self.exit_reason, OWN_RULE)
        return self.advice_for.get(self.exit_reason, self.exit_reason.advice)

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
        if self.has_priced_errors:
            return self._why_not_optimal()
        if self.max_violation > 0:
            return f"Hard constraints are missed by up to {self.max_violation:.2g} of their bounds."
        return f"The objective of the {self.noun.split()[-1]} is {self.objective:.6g}: no finite upper bound is known."

    def _why_not_optimal(self) -> str:
        if not np.isfinite(self.dual_bound):
            return "No lower bound of the objective is known."
        if not np.isfinite(self.gap):
            return f"Nothing is proven beyond the lower bound {self.dual_bound:.6g}."
        asked = f", which is {self.gap / self.tol:.2g} times the tolerance" if self.tol > 0 else ""
        return f"The gap is {self.gap:.2g}{asked}."

    # ------------------------------------------------------------------ for people
    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={_short(name, getattr(self, name))}" for name in self.shown)
        return (
            f"{type(self).__name__}(status={self.status}, exit_reason={self.exit_reason}, {numbers}, "
            f"n_iter={self.n_iter}, seconds={self.seconds:.3g}, solver={self.solver!r})"
        )

    def certificate_rows(self, has_hard: bool | None = None) -> list[tuple[str, str]]:
        """(name, value) of every number of the certificate, as text; ``has_hard`` says whether a constraint is hard, if that is known."""
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

    If a fit raised it, ``.constraints`` are the constraints whose numbers are in ``result.conflict``; otherwise it is None.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, SolverError, check, nearest_kernel
    >>> constraints = Constraints.sq_distance([0, 0, 1], [1, 2, 2], [1.0, 9.0, 1.0], ["<=", ">=", "<="])  # 3 > 1 + 1
    >>> try:
    ...     check(nearest_kernel(np.eye(3), constraints))
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


@on_one_blas_thread
@dataclass(eq=False, repr=False, kw_only=True)
class MatrixResult(Result):
    """The certified matrix of :func:`nearest_kernel` and :func:`nearest_metric`.

    In addition to the attributes of :class:`Result`:

    Attributes
    ----------
    iterate, coordinates
        The matrix in the coordinates of the solver; :attr:`factor`, :meth:`kernel`, :meth:`metric` and :meth:`transform` convert it.
    last
        The last iterate of the solver: ``result.kernel(result.last)``. It differs from ``iterate`` if the certificate restored hard
        constraints to feasibility, or if an earlier matrix was better. The certificate is not about it.
    dual, values, violation : ndarray, shape (c,)
        Signed dual weight (>= 0 for "<=", <= 0 for ">=", free for "=="), value and relative violation of each constraint; for
        INFEASIBLE, ``dual`` is the proof. ``max_violation`` is over the hard constraints, ``violation.max()`` over all. For sharded
        constraints these are columns that stay with the constraints; ``numpy.asarray`` fetches them, and model files leave them out.
    singular : ndarray of int or None
        Hard constraints that, up to rounding, only singular matrices meet, at which the divergence is infinite (LogDet). Only computed if
        the status is FEASIBLE or UNKNOWN.
    weight_span : float
        Largest over smallest finite slack weight, each times the weight of its constraint; dimensionless, 1 if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_kernel
    >>> result = nearest_kernel(np.eye(2), Constraints.sq_distance(0, 1, 1.0, "<="))
    >>> result.kernel().round(3)
    array([[0.75, 0.25],
           [0.25, 0.75]])
    >>> bool(np.allclose(result.factor @ result.factor.T, result.kernel()))
    True
    """

    iterate: Iterate
    coordinates: Coordinates
    dual: np.ndarray
    values: np.ndarray
    violation: np.ndarray
    last: Iterate | None = None
    singular: np.ndarray | None = None
    weight_span: float = 1.0

    noun: ClassVar[str] = "positive semidefinite matrix"

    @property
    def advice(self) -> str:
        """What to change so that a further run succeeds."""
        if self.singular is None:
            return super().advice
        rows = ", ".join(str(int(k)) for k in self.singular[:8]) + (", ..." if len(self.singular) > 8 else "")
        return (
            f"Up to rounding, constraints {rows} are met by singular matrices only (their distances fit into fewer dimensions than "
            "there are points), where this divergence is infinite: (a) use vonneumann or frobenius, (b) give these constraints slack."
        )

    def _why_unknown(self) -> str:
        if not isinstance(self.violation, np.ndarray):  # a column of sharded rows
            return super()._why_unknown()
        missed = np.flatnonzero(self.violation == self.max_violation)
        if not self.max_violation > 0 or not len(missed):
            return super()._why_unknown()
        k = int(missed[0])
        return f"Hard constraint {k} is missed most: its value {self.values[k]:.6g} is off its bound by {self.max_violation:.2g} of it."

    def _why_not_optimal(self) -> str:
        text = super()._why_not_optimal()
        terms = abs(self.objective) + float(np.abs(self.dual * self.values).sum())
        roundings = self.gap * self.unit / (np.finfo(float).eps * terms) if terms > 0 else np.inf
        if roundings <= ROUNDINGS:
            text += f" Rounding limits it: these are {roundings:.2g} roundings of the terms of the bound, {terms:.2g} in sum."
        if self.weight_span > WIDE:
            text += (
                f" Slack weights span a factor of {self.weight_span:.2g}: squares of their ratios are below rounding."
            )
        return text

    @property
    def B(self) -> np.ndarray:
        """Factor of the learned matrix in the coordinates of the data: ``factor = G0 @ B``, shape (r, k)."""
        return self.coordinates.factor_map(self.iterate)

    @property
    def factor(self) -> np.ndarray:
        """``G`` with ``W = G G'``, shape (n, k); computed on demand."""
        return self.coordinates.factor(self.iterate)

    def transform(self, X: Points) -> np.ndarray:
        """``X @ B``, shape (n, k), without forming B if the data has many columns; for a tensor X, a tensor on its device."""
        points = as_array_points("X", X) if is_foreign(X) else as_points("X", X)
        return self.coordinates.transform(points, self.iterate)

    def kernel(self, iterate: Iterate | None = None) -> np.ndarray:
        """``W``, shape (n, n), of the certified matrix or of another iterate such as :attr:`last`."""
        G = self.coordinates.factor(self.iterate if iterate is None else iterate)
        return G @ G.T

    def metric(self, iterate: Iterate | None = None) -> np.ndarray:
        """``B B'``, shape (r, r), the Mahalanobis matrix of a metric; of the certified matrix or of another iterate."""
        return self.coordinates.metric(self.iterate if iterate is None else iterate)

    def spectrum(self) -> np.ndarray:
        """Ascending eigenvalues of the learned matrix in the coordinates of the solver; shape (k,)."""
        return self.coordinates.spectrum(self.iterate)

    def write_factor(self, path: str | Path, *, rows: int = 65536) -> None:
        """Write ``factor`` to a .npy file, ``rows`` rows at a time."""
        self.coordinates.write_factor(path, self.iterate, rows)


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
