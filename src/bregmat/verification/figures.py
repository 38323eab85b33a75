"""The outcome of a verification: each figure of a result with the recomputed value, and the status that is confirmed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np

from bregmat.base.tolerances import CANCELLED, EPS, FEASIBLE, HALF_DIGITS
from bregmat.constraints.constraints import Constraints
from bregmat.engine.result import Result
from bregmat.engine.status import Status

EXACT = 1e-6  # relative difference that counts as rounding between figures which the result computes from each other
ROUNDINGS = 16.0  # rounding errors that the value of a row may contain
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

    def compare(self, name: str, recomputed: float, allowed: float) -> None:
        """Compare a figure of the result with the recomputed value; they may differ by ``allowed``."""
        claimed = getattr(self.result, name)
        self.figures[name] = (float(claimed), float(recomputed))
        if claimed != recomputed and not abs(claimed - recomputed) <= allowed < np.inf:
            self.problem(f"{name} is {recomputed:.9g}; the result says {claimed:.9g}")

    def compare_all(self, name: str, recomputed: np.ndarray, allowed: Any) -> None:
        """Compare an array of the result with the recomputed one, and name the first entry that differs by more than ``allowed``."""
        claimed = np.asarray(getattr(self.result, name))
        if claimed.shape != recomputed.shape:
            self.problem(f"{name} has shape {claimed.shape} and not {recomputed.shape}")
            return
        equal = (claimed == recomputed) | (np.isnan(claimed) & np.isnan(recomputed))
        wrong = np.argwhere(~equal & ~((np.abs(claimed - recomputed) <= allowed) & (np.abs(recomputed) < np.inf)))
        if len(wrong):
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

    def compare_rows(self, p: np.ndarray, excess: np.ndarray, unit: np.ndarray, noise: Any, hard: np.ndarray) -> None:
        """Compare values of constraints, their violations ``excess / unit`` and the largest violation of hard constraints.

        Parameters
        ----------
        p, excess, unit : ndarray, shape (c,)
        noise : ndarray, shape (c,)
            Rounding of the values, ``ROUNDINGS`` times which they may differ.
        hard : ndarray of bool, shape (c,)
        """
        shown = HALF_DIGITS * np.maximum(unit, np.abs(p)) + ROUNDINGS * noise
        self.compare_all("values", p, shown)
        self.compare_all("violation", excess / unit, shown / unit)
        worst, vague = (float((x / unit)[hard].max(initial=0.0)) for x in (excess, noise))
        self.compare("max_violation", worst, HALF_DIGITS + ROUNDINGS * vague)

    def compare_span(self, gamma: np.ndarray) -> None:
        """Compare the ratio of the largest and the smallest finite slack weight, shape (c,)."""
        soft = gamma[np.isfinite(gamma)]
        span = float(soft.max() / soft.min()) if len(soft) else 1.0
        self.compare("weight_span", span, HALF_DIGITS * span)

    def conclude(
        self, figures: tuple[float, float, float, float], allowed: float, is_feasible: bool, lost: float = 0.0
    ) -> None:
        """Compare objective, bound, unit and gap; the objective of a point that is not feasible is not a claim.

        Parameters
        ----------
        figures : tuple of float
            Objective, bound, unit and gap.
        allowed : float
            Difference that rounding of the problem and of the point explains. It must not grow with the dual weights, which are part
            of the claim.
        is_feasible : bool
        lost : float
            Rounding of the bound, which grows with the dual weights.
        """
        objective, bound, unit, gap = figures
        if is_feasible:
            self.compare("objective", objective, allowed)
        self.bound_from_below("dual_bound", bound, allowed, lost, unit)
        self.compare("unit", unit, EXACT * unit + allowed)
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

    def named(self, conflict: Any, rows: Iterable[int], n: int) -> None:
        """Check that the conflict, a set of the n constraints, contains all constraints of the proof."""
        said = set() if conflict is None else {int(k) for k in np.ravel(conflict)}
        if not set(map(int, rows)) <= said <= set(range(n)):
            self.problem("the conflict does not name all constraints that carry the proof, or it names others")

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
    report = Verification(result.status, result.status, result=result)
    if result.status not in result._kind.statuses:
        report.problem(f"a result of this kind is never {result.status}", Status.UNKNOWN)
        return report
    _consistent(result, report)
    # quadratic programs allow larger violations than other problems
    met = result._kind.has_priced_errors or result.max_violation <= 10 * FEASIBLE
    if result.status in (Status.OPTIMAL, Status.FEASIBLE) and not met:
        report.problem(f"{result.status} with a violation of {result.max_violation:.3g}", Status.UNKNOWN)
    if result.status is Status.OPTIMAL and not abs(result.gap) <= result.tol:
        report.problem(f"OPTIMAL with a gap of {result.gap:.3g} at tol {result.tol:.3g}", Status.FEASIBLE)
    if result.status is Status.INFEASIBLE and (result.conflict is None or not len(result.conflict)):
        report.problem("INFEASIBLE without constraints that carry the proof", Status.UNKNOWN)
    return report


def _consistent(result: Result, report: Verification) -> None:
    """Check the relations between objective, bound, gap and violation that hold for every result."""
    objective, bound, gap, unit = map(float, (result.objective, result.dual_bound, result.gap, result.unit))
    for name in ("objective", "dual_bound", "gap", "max_violation"):
        if np.isnan(getattr(result, name)):
            report.problem(f"{name} is not a number")
    if not 0 <= result.tol < np.inf or not (0 <= unit < np.inf or (unit == np.inf and not np.isfinite(objective))):
        report.problem(f"a tolerance of {result.tol:g} or a unit of {unit:g} is no finite size")
    if not gap >= -EXACT or not result.max_violation >= 0:
        report.problem(f"a gap of {gap:.3g} or a violation of {result.max_violation:.3g} is below 0")
    if result.status not in _RANK and np.isfinite(gap):
        report.problem(f"{result.status} with a gap of {gap:.3g}: there is no optimal value to be near to")
    if result.status is not Status.INFEASIBLE and result.conflict is not None and len(result.conflict):
        report.problem(f"{result.status} beside constraints that prove that nothing is feasible")
    if result.status not in _RANK:
        return
    if not bound < np.inf:
        report.problem(f"{result.status} with the lower bound {bound:g}")
    if np.isfinite(gap) and result._kind.gap_is_ratio:
        apart = objective - bound
        rounding = EXACT * abs(apart) + 64 * EPS * (abs(objective) + abs(bound))
        if not gap * unit >= apart - rounding:
            report.problem(
                f"the gap is {apart / (unit or 1.0):.9g} by the objective and the bound; the result says {gap:.9g}"
            )


# -------------------------------------------------------------------- shared by several kinds of problems
class MissingArguments(ValueError):
    """The arguments are not those of the call that made a result."""


def check_arguments(passed: Iterable[str], wanted: str, *ways: str, known: Iterable[str] | None = None) -> None:
    """Raise unless ``passed`` contains all names of one of the ``ways`` (separated by spaces), and no name besides the ``known`` ones.

    The message says what is ``wanted``.
    """
    names = set(passed)
    if not any(names >= set(way.split()) for way in ways) or (known is not None and names - set(known)):
        raise MissingArguments(f"verify needs {wanted}, by name; got {', '.join(map(repr, passed)) or 'none'}.")


def check_dual(result: Any, constraints: Constraints) -> None:
    """Raise unless there is one dual weight for each constraint."""
    n = constraints.n_constraints
    if len(result.dual) != n:
        raise ValueError(f"the result has {len(result.dual)} dual weights but there are {n} constraints.")


def excess_of(gone: np.ndarray, sense: np.ndarray) -> np.ndarray:
    """Violation of each row, shape (c,), from value minus bound; 0 for rows that hold."""
    return np.where(sense == 0, np.abs(gone), np.maximum(sense * gone, 0))


def allowance(noise: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Violations up to which rows count as met: a fraction of their unit, and some rounding errors unless these are large."""
    return FEASIBLE * unit + np.minimum(ROUNDINGS * noise, CANCELLED * unit)


def with_right_signs(mu: np.ndarray, sense: np.ndarray, report: Verification) -> np.ndarray:
    """Dual weights (c,), with 0 in place of those that have the wrong sign, which are reported."""
    wrong = sense * mu < 0
    if wrong.any():
        row = np.flatnonzero(wrong)[0]
        report.problem(f"the dual weight of constraint {row} has the wrong sign: {mu[row]:.3g}")
    return np.where(wrong, 0, mu)


@singledispatch
def recompute(result: Any, problem: Any, report: Verification) -> None:
    """Recompute the figures of a result from the arguments of its call; the modules of this package register each kind of result."""
    raise TypeError(f"result must be a result of this library; got {type(result).__name__}.")
