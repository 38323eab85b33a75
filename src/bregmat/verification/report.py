"""The outcome of a verification: each figure of a result with the recomputed value, and the status that is confirmed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bregmat.base.tolerances import CANCELLED, EPS, FEASIBLE
from bregmat.engine.result import Result
from bregmat.engine.status import Status

EXACT = 1e-6  # relative difference that counts as rounding between figures which the result computes from each other
_RANK = (Status.UNKNOWN, Status.FEASIBLE, Status.OPTIMAL)  # statuses of a point, the weakest first


@dataclass(eq=False)
class Verification:
    """A result compared with what its point and its dual weights prove when everything is recomputed.

    Attributes
    ----------
    status : Status
        The claimed status, or a lower one if the recomputation does not confirm it.
    claimed : Status
        The status of the result.
    figures : dict of str to (float, float)
        For each figure, the value in the result and the recomputed value.
    problems : list of str
        Sentences about claims that do not agree; empty if the result holds.
    unchecked : list of str
        Sentences about claims that were not recomputed, and so are not confirmed.
    notes : list of str
        Assumptions of the result that were not checked.
    precision : str
        The arithmetic of the recomputation.
    result : Result
        The verified result.

    Examples
    --------
    >>> from bregmat import nnqp, verify
    >>> A, b = [[2.0, 1.0], [1.0, 2.0]], [-2.0, 1.0]
    >>> report = verify(nnqp(A, b))
    >>> report.holds, "objective" in report.figures
    (True, True)
    """

    status: Status
    claimed: Status
    figures: dict[str, tuple[float, float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    precision: str = ""
    result: Any = field(default=None, repr=False)

    @property
    def holds(self) -> bool:
        """Whether every claim was recomputed and agrees. A claim may be weaker than what is proven."""
        return self.verdict == "holds"

    @property
    def verdict(self) -> str:
        """``"holds"``, ``"does not hold"``, or ``"not recomputed"`` if nothing disagrees but some claims were not recomputed."""
        if self.problems or self.status is not self.claimed:
            return "does not hold"
        return "not recomputed" if self.unchecked else "holds"

    def rows(self) -> list[tuple[str, str]]:
        """(name, text) pairs of all findings, for tables."""
        claimed = "" if self.status is self.claimed else f", {self.claimed} claimed"
        rows = [("verified status", f"{self.status} ({self.verdict}{claimed})")]
        rows += [(f"recomputed {name.replace('_', ' ')}", f"{new:.7g}") for name, (_, new) in self.figures.items()]
        return rows + self._remarks()

    def _remarks(self) -> list[tuple[str, str]]:
        """(kind, sentence) of everything that is not a figure."""
        texts = {"problem": self.problems, "not recomputed": self.unchecked, "note": self.notes}
        return [(kind, text) for kind, said in texts.items() for text in said]

    def __repr__(self) -> str:
        verdict = self.verdict if self.holds else self.verdict.upper()
        head = f"Verification(status={self.status}, claimed={self.claimed}, {verdict}"
        lines = [f"{head}{f', {self.precision}' if self.precision else ''})"]
        lines += [f"  {name:<14}{old:>16.9g}  recomputed {new:>16.9g}" for name, (old, new) in self.figures.items()]
        return "\n".join(lines + [f"  {kind}: {text}" for kind, text in self._remarks()])

    # ------------------------------------------------------------------ methods for the recomputation
    def problem(self, text: str, at_most: Status | None = None) -> None:
        """Record that a claim does not hold, and lower the status to ``at_most``."""
        self.problems.append(text)
        if at_most is not None:
            self.lower(at_most)

    def lower(self, status: Status) -> None:
        """Lower the status; the status of a failed proof of infeasibility or unboundedness becomes UNKNOWN."""
        if self.status not in _RANK:
            self.status = Status.UNKNOWN
        elif _RANK.index(status) < _RANK.index(self.status):
            self.status = status

    def compare(self, name: str, recomputed: Any, allowed: Any) -> None:
        """Compare a number or an array of the result with the recomputed one; name the first entry that is off by more than ``allowed``."""
        claimed, recomputed = np.asarray(getattr(self.result, name)), np.asarray(recomputed)
        if claimed.shape != recomputed.shape:
            self.problem(f"{name} has shape {claimed.shape} and not {recomputed.shape}")
            return
        if claimed.ndim == 0:
            self.figures[name] = (float(claimed), float(recomputed))
        is_near = (np.abs(claimed - recomputed) <= allowed) & (np.asarray(allowed) < np.inf)
        if len(wrong := np.argwhere((claimed != recomputed) & ~is_near)):
            at = tuple(wrong[0])
            where = f"{name}[{', '.join(map(str, at))}]" if at else name
            self.problem(f"{where} is {recomputed[at]:.9g}; the result says {claimed[at]:.9g}")

    def bound_from_below(
        self, name: str, recomputed: float, allowed: float, lost: float = 0.0, unit: float = 0.0
    ) -> None:
        """Compare a lower bound with the recomputed one.

        Parameters
        ----------
        name : str
        recomputed, allowed : float
            The recomputed bound, and by how much it may be lower than the claimed one.
        lost, unit : float
            Rounding of the recomputed bound, and the unit of the gap. Rounding grows with the dual weights, which are part of the
            claim: if it is more than a small share of the unit, the bound that is proven is lower by as much.
        """
        claimed, sure = getattr(self.result, name), recomputed + (lost if lost <= CANCELLED * unit else -lost)
        self.figures[name] = (float(claimed), float(recomputed))
        if claimed != -np.inf and not (claimed <= sure + allowed and allowed < np.inf):
            error = f" with an error of up to {lost:.1e}" if lost > CANCELLED * unit else ""
            self.problem(f"the dual weights prove {recomputed:.9g}{error}, and not {claimed:.9g} as {name}")

    def conclude(
        self,
        figures: tuple[float, float, float],
        allowed: float,
        is_feasible: bool,
        *,
        is_claimed: bool = True,
        of_bound: float | None = None,
        lost: float = 0.0,
        above: float = 0.0,
    ) -> None:
        """Compare objective, bound and unit, and judge the status by the gap.

        Parameters
        ----------
        figures : tuple of float
            Objective, bound and unit of the gap.
        allowed : float
            Difference that rounding of the problem and of the point explains. It must not grow with the dual weights, which are part
            of the claim. ``of_bound`` is that of the bound, if it is another.
        is_feasible, is_claimed : bool
            Whether the point is feasible, and whether the result claims the objective: that of a point which is not feasible is no claim.
        lost : float
            Rounding of the bound, which grows with the dual weights.
        above : float
            By how much the value in the gap is above the objective: the dual weights times the violations.
        """
        objective, bound, unit = figures
        if is_feasible and is_claimed:
            self.compare("objective", objective, allowed)
        self.bound_from_below("dual_bound", bound, allowed if of_bound is None else of_bound, lost, unit)
        if is_claimed:
            self.compare("unit", unit, max(EXACT * unit, allowed))
        gap = (objective + above - bound + lost) / unit
        self.judge(gap if is_feasible and np.isfinite(bound) else np.inf, is_feasible)

    def check_feasible(self, is_met: bool, text: str) -> bool:
        """Record a violation of the constraints, unless the result is UNKNOWN and does not claim a feasible point; return ``is_met``."""
        if not is_met and self.claimed is not Status.UNKNOWN:
            self.problem(text)
        return is_met

    def check_gap(self, rounding: float) -> None:
        """Check that the gap of the result is not less than the difference of its objective and its bound."""
        result = self.result
        apart = result.objective - result.dual_bound
        is_known = np.isfinite(result.gap) and not np.isnan(apart)  # both may be -inf if numbers overflow
        if is_known and not result.gap * result.unit >= apart * (1 - EXACT) - rounding:
            self.problem(f"objective and bound are {apart:.9g} apart, more than a gap of {result.gap:.9g}")

    def judge(self, gap: float, is_feasible: bool) -> None:
        """Lower the status to the one that the recomputed gap and violation prove."""
        tol = self.result.tol
        self.figures["gap"] = (float(self.result.gap), float(gap))
        if self.claimed not in _RANK:
            return
        if not is_feasible:
            self.lower(Status.UNKNOWN)
        elif not abs(gap) <= tol * 1.001 + 1e-14:
            self.lower(Status.FEASIBLE)
        if self.status is not self.claimed:
            said = f"{self.claimed} is claimed, {self.status} is proven"
            self.problem(f"{said}: the gap is {gap:.3g} at tol {tol:.3g}")


def own_figures(result: Result) -> Verification:
    """Check whether the figures of a result agree with each other, without the problem."""
    if not isinstance(result, Result):
        raise TypeError(f"result must be a result of this library; got {type(result).__name__}.")
    status, kind = result.status, result._kind
    report = Verification(status, status, result=result)
    if status not in kind.statuses:
        report.problem(f"a result of this kind is never {status}", Status.UNKNOWN)
        return report
    names = ("objective", "dual_bound", "gap", "unit", "max_violation", "tol")
    objective, bound, gap, unit, violation, tol = (float(getattr(result, name)) for name in names)
    for name, value in zip(names, (objective, bound, gap, unit, violation, tol)):
        if np.isnan(value):
            report.problem(f"{name} is not a number")
    has_point, has_conflict = status in _RANK, result.conflict is not None and len(result.conflict) > 0
    if not 0 <= tol < np.inf or not (0 <= unit < np.inf or (unit == np.inf and not np.isfinite(objective))):
        report.problem(f"a tolerance of {tol:g} or a unit of {unit:g} is no finite size")
    if not gap >= -EXACT or not violation >= 0:
        report.problem(f"a gap of {gap:.3g} or a violation of {violation:.3g} is below 0")
    if has_point and not bound < np.inf:
        report.problem(f"{status} with the lower bound {bound:g}")
    if not has_point and np.isfinite(gap):
        report.problem(f"{status} with a gap of {gap:.3g}: there is no optimal value to be near to")
    if status is not Status.INFEASIBLE and has_conflict:
        report.problem(f"{status} beside constraints that prove that nothing is feasible")
    if status is Status.INFEASIBLE and not has_conflict:
        report.problem("INFEASIBLE without constraints that carry the proof", Status.UNKNOWN)
    apart, rounding = objective - bound, EXACT * abs(objective - bound) + 64 * EPS * (abs(objective) + abs(bound))
    if has_point and kind.gap_is_ratio and np.isfinite(gap) and not gap * unit >= apart - rounding:
        explained = f"the gap is {apart / (unit or 1.0):.9g} by the objective and the bound"
        report.problem(f"{explained}; the result says {gap:.9g}")
    # quadratic programs allow larger violations than other problems
    is_met = kind.has_priced_errors or violation <= 10 * FEASIBLE
    if status in (Status.OPTIMAL, Status.FEASIBLE) and not is_met:
        report.problem(f"{status} with a violation of {violation:.3g}", Status.UNKNOWN)
    if status is Status.OPTIMAL and not abs(gap) <= tol:
        report.problem(f"OPTIMAL with a gap of {gap:.3g} at tol {tol:.3g}", Status.FEASIBLE)
    return report
