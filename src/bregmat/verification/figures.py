"""What a verification says: every figure of a result beside the recomputed one, and the status that is left of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np

from bregmat.proofs import FEASIBLE
from bregmat.result import Result
from bregmat.status import Status

ROUNDING = float(np.finfo(float).eps)
CLOSE = 1e-8  # relative difference between a claimed figure and the recomputed one that counts as rounding
_RANK = (Status.UNKNOWN, Status.FEASIBLE, Status.OPTIMAL)  # what is proven of a point, from nothing to everything


@dataclass(eq=False)
class Verification:
    """A result beside what its point and its dual weights prove when everything is computed again.

    Attributes
    ----------
    status : Status
        What is proven: the claimed status, or a lower one.
    claimed : Status
        What the result says.
    figures : dict of str to (float, float)
        Name of a figure, what the result says, and what was recomputed.
    problems : list of str
        What does not agree, in sentences; empty where the result holds.
    notes : list of str
        What could not be verified, and what was taken for granted.
    precision : str
        The arithmetic of the recomputation.

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
    notes: list[str] = field(default_factory=list)
    precision: str = ""

    @property
    def holds(self) -> bool:
        """Whether everything that was recomputed agrees with the result."""
        return not self.problems and self.status is self.claimed

    def rows(self) -> list[tuple[str, str]]:
        """(name, text) of everything, for tables."""
        rows = [
            (
                "verified status",
                f"{self.status}" + ("" if self.status is self.claimed else f" ({self.claimed} claimed)"),
            )
        ]
        rows += [(f"recomputed {name.replace('_', ' ')}", f"{new:.7g}") for name, (_, new) in self.figures.items()]
        return rows + [("problem", text) for text in self.problems] + [("note", text) for text in self.notes]

    def __repr__(self) -> str:
        head = (
            f"Verification(status={self.status}, claimed={self.claimed}, {'holds' if self.holds else 'DOES NOT HOLD'}"
        )
        lines = [f"{head}{f', {self.precision}' if self.precision else ''})"]
        lines += [f"  {name:<14}{old:>16.9g}  recomputed {new:>16.9g}" for name, (old, new) in self.figures.items()]
        lines += [f"  problem: {text}" for text in self.problems] + [f"  note: {text}" for text in self.notes]
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

    def compare(self, name: str, claimed: float, recomputed: float, allowed: float) -> None:
        """A figure beside the recomputed one.

        Parameters
        ----------
        name : str
        claimed, recomputed : float
        allowed : float
            By how much they may differ.
        """
        self.figures[name] = (float(claimed), float(recomputed))
        both = np.isfinite(claimed) and np.isfinite(recomputed)
        if (both and not abs(claimed - recomputed) <= allowed) or (
            np.isfinite(claimed) and not np.isfinite(recomputed)
        ):
            self.problem(f"{name} is {recomputed:.9g}; the result says {claimed:.9g}")

    def bound_from_below(self, name: str, claimed: float, recomputed: float, allowed: float) -> None:
        """A lower bound: the weights may prove more than is claimed, not less.

        Parameters
        ----------
        name : str
        claimed, recomputed : float
        allowed : float
            What rounding may hide of the recomputed bound.
        """
        self.figures[name] = (float(claimed), float(recomputed))
        if np.isfinite(claimed) and not claimed <= recomputed + allowed:
            self.problem(f"the dual weights prove {recomputed:.9g} and not {claimed:.9g} as {name}")

    def judge(self, result: Result, gap: float, is_feasible: bool) -> None:
        """The status that the recomputed gap and violation leave."""
        self.figures["gap"] = (float(result.gap), float(gap))
        if self.claimed not in _RANK:
            return
        if not is_feasible:
            self.lower(Status.UNKNOWN)
        elif not abs(gap) <= result.tol * 1.001 + 1e-14:
            self.lower(Status.FEASIBLE)
        if self.status is not self.claimed:
            self.problem(
                f"{self.claimed} is claimed, {self.status} is proven: the gap is {gap:.3g} at tol {result.tol:.3g}"
            )


def own_figures(result: Result) -> Verification:
    """What the figures of a result say about each other, without the problem."""
    if not isinstance(result, Result):
        raise TypeError(f"result must be a result of this library; got {type(result).__name__}.")
    found = Verification(result.status, result.status)
    # programs allow more, relative to their terms
    met = result.has_priced_errors or result.max_violation <= 10 * FEASIBLE
    if result.status in (Status.OPTIMAL, Status.FEASIBLE) and not met:
        found.problem(f"{result.status} with a violation of {result.max_violation:.3g}", Status.UNKNOWN)
    if result.status is Status.OPTIMAL and not abs(result.gap) <= result.tol:
        found.problem(f"OPTIMAL with a gap of {result.gap:.3g} at tol {result.tol:.3g}", Status.FEASIBLE)
    if result.status is Status.INFEASIBLE and (result.conflict is None or not len(result.conflict)):
        found.problem("INFEASIBLE without rows that carry the proof", Status.UNKNOWN)
    return found


# -------------------------------------------------------------------- what several kinds of problems have
def check_arguments(given: Iterable[str], wanted: str, *ways: str, known: Iterable[str] | None = None) -> None:
    """Raise unless a problem holds all arguments of one of the ways to give it.

    Parameters
    ----------
    given : iterable of str
        Names of the arguments.
    wanted : str
        What it must hold, in words.
    *ways : str
        Names, apart by spaces.
    known : iterable of str, optional
        All names that it may hold; by default any.
    """
    names = set(given)
    if not any(names >= set(way.split()) for way in ways) or (known is not None and names - set(known)):
        raise ValueError(f"problem must hold {wanted}; got {', '.join(map(repr, given))}.")


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
