"""What a verification says: every figure of a result beside the recomputed one, and the status that is left of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np

from bregmat.certificates.problem import FEASIBLE
from bregmat.certificates.status import Status
from bregmat.constraints.constraints import Constraints
from bregmat.run.result import Result

ROUNDING = float(np.finfo(float).eps)
CLOSE = 1e-8  # relative difference between a claimed figure and the recomputed one that counts as rounding
EXACT = 1e-6  # relative difference that counts as rounding between figures which the result computes from each other
_RANK = (Status.UNKNOWN, Status.FEASIBLE, Status.OPTIMAL)  # what is proven of a point, from nothing to everything


@dataclass(eq=False)
class Verification:
    """A result beside what its point and its dual weights prove when everything is computed again.

    Attributes
    ----------
    status : Status
        What is proven, as far as it was recomputed: the claimed status, or a lower one.
    claimed : Status
        What the result says.
    figures : dict of str to (float, float)
        Name of a figure, what the result says, and what was recomputed.
    problems : list of str
        What does not agree, in sentences; empty where the result holds.
    unchecked : list of str
        Claims that were not recomputed, in sentences. They are not confirmed.
    notes : list of str
        What was taken for granted.
    precision : str
        The arithmetic of the recomputation.
    result : Result
        What was verified.

    Examples
    --------
    >>> from bregmat import nnqp, verify
    >>> A, b = [[2.0, 1.0], [1.0, 2.0]], [-2.0, 1.0]
    >>> found = verify({"A": A, "b": b}, nnqp(A, b))
    >>> found.holds, "objective" in found.figures
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
        """``"holds"``, ``"does not hold"``, or ``"not recomputed"`` where nothing disagrees but some claim was not recomputed."""
        if self.problems or self.status is not self.claimed:
            return "does not hold"
        return "not recomputed" if self.unchecked else "holds"

    def rows(self) -> list[tuple[str, str]]:
        """(name, text) of everything, for tables."""
        claimed = "" if self.status is self.claimed else f", {self.claimed} claimed"
        rows = [("verified status", f"{self.status} ({self.verdict}{claimed})")]
        rows += [(f"recomputed {name.replace('_', ' ')}", f"{new:.7g}") for name, (_, new) in self.figures.items()]
        texts = {"problem": self.problems, "not recomputed": self.unchecked, "note": self.notes}
        return rows + [(name, text) for name, said in texts.items() for text in said]

    def __repr__(self) -> str:
        verdict = self.verdict if self.holds else self.verdict.upper()
        head = f"Verification(status={self.status}, claimed={self.claimed}, {verdict}"
        lines = [f"{head}{f', {self.precision}' if self.precision else ''})"]
        lines += [f"  {name:<14}{old:>16.9g}  recomputed {new:>16.9g}" for name, (old, new) in self.figures.items()]
        texts = {"problem": self.problems, "not recomputed": self.unchecked, "note": self.notes}
        lines += [f"  {name}: {text}" for name, said in texts.items() for text in said]
        return "\n".join(lines)

    # ------------------------------------------------------------------ while it is made
    def problem(self, text: str, at_most: Status | None = None) -> None:
        """Something does not hold; ``at_most``: the status that is left."""
        self.problems.append(text)
        if at_most is not None:
            self.lower(at_most)

    def lower(self, status: Status) -> None:
        """No more than this is proven."""
        if self.status not in _RANK:  # a proof that there is nothing to find is one, or is none
            self.status = Status.UNKNOWN if status is not self.status else status
        elif status in _RANK and _RANK.index(status) < _RANK.index(self.status):
            self.status = status

    def compare(self, name: str, recomputed: float, allowed: float) -> None:
        """A figure of the result beside the recomputed one, from which it may differ by so much."""
        claimed = getattr(self.result, name)
        self.figures[name] = (float(claimed), float(recomputed))
        if claimed != recomputed and not abs(claimed - recomputed) <= allowed < np.inf:
            self.problem(f"{name} is {recomputed:.9g}; the result says {claimed:.9g}")

    def compare_all(self, name: str, recomputed: np.ndarray, allowed: Any) -> None:
        """An array of the result beside the recomputed one, entry by entry; the first entry that differs is named."""
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

    def bound_from_below(self, name: str, recomputed: float, allowed: float) -> None:
        """A lower bound: the weights may prove more than is claimed, not less, beyond what rounding may hide."""
        claimed = getattr(self.result, name)
        self.figures[name] = (float(claimed), float(recomputed))
        if claimed != -np.inf and not (claimed <= recomputed + allowed and allowed < np.inf):
            self.problem(f"the dual weights prove {recomputed:.9g} and not {claimed:.9g} as {name}")

    def compare_rows(self, p: np.ndarray, excess: np.ndarray, unit: np.ndarray, noise: Any, hard: np.ndarray) -> None:
        """Values p (c,) of rows, by how much each is missed in its unit, and the largest violation of the hard ones.

        Parameters
        ----------
        p, excess, unit, hard
        noise : ndarray, shape (c,)
            Rounding of each value, 16 times which may differ.
        """
        shown = CLOSE * np.maximum(unit, np.abs(p)) + 16.0 * noise
        self.compare_all("values", p, shown)
        self.compare_all("violation", excess / unit, shown / unit)
        worst, vague = (float((x / unit)[hard].max(initial=0.0)) for x in (excess, noise))
        self.compare("max_violation", worst, CLOSE + 16.0 * vague)

    def compare_span(self, gamma: np.ndarray) -> None:
        """The largest over the smallest finite slack weight (c,)."""
        soft = gamma[np.isfinite(gamma)]
        span = float(soft.max() / soft.min()) if len(soft) else 1.0
        self.compare("weight_span", span, CLOSE * span)

    def conclude(self, figures: tuple[float, float, float, float], allowed: float, is_feasible: bool) -> None:
        """Objective, bound and unit, which may differ by so much, and the gap; the objective of no feasible point is no claim."""
        objective, bound, unit, gap = figures
        if is_feasible:
            self.compare("objective", objective, allowed)
        self.bound_from_below("dual_bound", bound, allowed)
        self.compare("unit", unit, EXACT * unit + allowed)
        self.judge(gap if is_feasible and np.isfinite(bound) else np.inf, is_feasible)

    def named(self, conflict: Any, rows: Iterable[int], n: int) -> None:
        """The conflict of n rows must name all that carry the proof."""
        said = set() if conflict is None else {int(k) for k in np.ravel(conflict)}
        if not set(map(int, rows)) <= said <= set(range(n)):
            self.problem("the conflict does not name all rows that carry the proof, or rows that do not exist")

    def judge(self, gap: float, is_feasible: bool) -> None:
        """The status that the recomputed gap and violation leave."""
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
    """What the figures of a result say about each other, without the problem."""
    if not isinstance(result, Result):
        raise TypeError(f"result must be a result of this library; got {type(result).__name__}.")
    found = Verification(result.status, result.status, result=result)
    if result.status not in result.statuses:
        found.problem(f"a result of this kind is never {result.status}", Status.UNKNOWN)
        return found
    _consistent(result, found)
    # programs allow more, relative to their terms
    met = result.has_priced_errors or result.max_violation <= 10 * FEASIBLE
    if result.status in (Status.OPTIMAL, Status.FEASIBLE) and not met:
        found.problem(f"{result.status} with a violation of {result.max_violation:.3g}", Status.UNKNOWN)
    if result.status is Status.OPTIMAL and not abs(result.gap) <= result.tol:
        found.problem(f"OPTIMAL with a gap of {result.gap:.3g} at tol {result.tol:.3g}", Status.FEASIBLE)
    if result.status is Status.INFEASIBLE and (result.conflict is None or not len(result.conflict)):
        found.problem("INFEASIBLE without rows that carry the proof", Status.UNKNOWN)
    return found


def _consistent(result: Result, found: Verification) -> None:
    """Whether the numbers of a result can be true together."""
    objective, bound, gap, unit = map(float, (result.objective, result.dual_bound, result.gap, result.unit))
    for name in ("objective", "dual_bound", "gap", "max_violation"):
        if np.isnan(getattr(result, name)):
            found.problem(f"{name} is not a number")
    if not 0 <= result.tol < np.inf or not (0 <= unit < np.inf or (unit == np.inf and not np.isfinite(objective))):
        found.problem(f"a tolerance of {result.tol:g} or a unit of {unit:g} is no finite size")
    if not gap >= -EXACT or not result.max_violation >= 0:
        found.problem(f"a gap of {gap:.3g} or a violation of {result.max_violation:.3g} is below 0")
    if result.status not in _RANK and np.isfinite(gap):
        found.problem(f"{result.status} with a gap of {gap:.3g}: there is no optimal value to be near to")
    if result.status is not Status.INFEASIBLE and result.conflict is not None and len(result.conflict):
        found.problem(f"{result.status} beside rows that prove that nothing is feasible")
    if result.status not in _RANK:
        return
    if not bound < np.inf:
        found.problem(f"{result.status} with the lower bound {bound:g}")
    if np.isfinite(gap) and result.gap_is_ratio:
        apart = objective - bound
        rounding = EXACT * abs(apart) + 64 * ROUNDING * (abs(objective) + abs(bound))
        if not gap * unit >= apart - rounding:
            found.problem(
                f"the gap is {apart / (unit or 1.0):.9g} by the objective and the bound; the result says {gap:.9g}"
            )


# -------------------------------------------------------------------- what several kinds of problems have
def check_arguments(given: Iterable[str], wanted: str, *ways: str, known: Iterable[str] | None = None) -> None:
    """Raise unless a problem holds all arguments of one of the ways to give it, and none but the ``known`` ones.

    Parameters
    ----------
    given, known : iterable of str
    wanted : str
        What it must hold, in words.
    *ways : str
        Names, apart by spaces.
    """
    names = set(given)
    if not any(names >= set(way.split()) for way in ways) or (known is not None and names - set(known)):
        raise ValueError(f"problem must hold {wanted}; got {', '.join(map(repr, given))}.")


def check_dual(result: Any, constraints: Constraints) -> None:
    """Raise unless there is one dual weight for each constraint."""
    n = constraints.n_constraints
    if len(result.dual) != n:
        raise ValueError(f"the result has {len(result.dual)} dual weights but there are {n} constraints.")


def excess_of(gone: np.ndarray, sense: np.ndarray) -> np.ndarray:
    """By how much each row is on the wrong side of its bound, from value minus bound, shape (c,)."""
    return np.where(sense == 0, np.abs(gone), np.maximum(sense * gone, 0))


def with_right_signs(mu: np.ndarray, sense: np.ndarray, found: Verification) -> np.ndarray:
    """Dual weights (c,), 0 where their sign is wrong, which is a problem."""
    wrong = sense * mu < 0
    if wrong.any():
        row = np.flatnonzero(wrong)[0]
        found.problem(f"the dual weight of row {row} has the wrong sign: {mu[row]:.3g}")
    return np.where(wrong, 0, mu)


@singledispatch
def recompute(result: Any, problem: Any, found: Verification) -> None:
    """Recompute the figures of one kind of result from the arguments that made it; kinds are registered in this package."""
    raise TypeError(f"result must be a result of this library; got {type(result).__name__}.")
