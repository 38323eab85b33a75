"""The course of a verification, which is the same for every kind of result: the proof, or the point, its rows, and the bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from bregmat.base.threads import cached_property
from bregmat.base.tolerances import CANCELLED, FEASIBLE, HALF_DIGITS
from bregmat.engine.result import Result
from bregmat.engine.status import Status
from bregmat.verification.extended import LONG, precision_text
from bregmat.verification.report import Verification

ROUNDINGS = 16.0  # rounding errors that the value of a row may contain


class MissingArguments(ValueError):
    """The arguments are not those of the call that made a result."""


class Verifier:
    """The problem of a result, built again from the arguments of its call. Each kind of certificate has a subclass with its formulas.

    A result without an optimum is verified by its proof: :meth:`check_contradiction` or :meth:`check_ray`. Any other is verified by
    its point, its constraints, and its figures: :meth:`check_point`, :meth:`check_rows` and :meth:`compare_figures`.
    """

    kind: ClassVar[type[Result]]  # the class of the results
    wanted: ClassVar[str]  # the arguments in words
    required: ClassVar[str]  # their names; "|" separates alternatives
    optional: ClassVar[str | None] = None  # names of all other arguments; None: others are ignored
    multipliers: ClassVar[str] = "dual"  # the attribute of the result that proves the bound; empty if there is none
    real: Any = LONG  # the floating-point type of the recomputation
    report: Verification

    def __init__(self, arguments: Mapping[str, Any], result: Any) -> None:
        names, ways = set(arguments), [set(way.split()) for way in self.required.split("|")]
        extra = names - set().union(*ways) - set((self.optional or "").split())
        if not any(names >= way for way in ways) or (extra and self.optional is not None):
            passed = ", ".join(map(repr, arguments)) or "none"
            raise MissingArguments(f"verify needs {self.wanted}, by name; got {passed}.")
        self.arguments, self.result = arguments, result

    def run(self, report: Verification) -> None:
        """Compare all claims of the result."""
        self.report = report
        report.precision = precision_text(self.real)
        if report.claimed not in self.result._kind.statuses:  # which is reported
            return
        if self.multipliers and not np.isfinite(getattr(self.result, self.multipliers)).all():
            self.refuse(f"{self.multipliers} is not finite")
        elif not self.check_claims():
            return
        elif report.claimed is Status.INFEASIBLE:
            self.check_contradiction()
        elif report.claimed is Status.UNBOUNDED:
            self.check_ray()
        elif self.check_point():
            self.compare_figures(self.check_rows())

    def check_claims(self) -> bool:
        """Compare what the result says beside its certificate, and return whether the certificate can be recomputed."""
        return True

    def check_contradiction(self) -> None:
        """Check the proof that no point meets the constraints."""
        self.refuse("results of this kind hold no proof of infeasibility")

    def check_ray(self) -> None:
        """Check the proof that the objective has no lower bound."""
        self.refuse("results of this kind hold no direction in which the objective has no bound")

    def check_point(self) -> bool:
        """Check what every point has to be, and return whether its figures can be computed."""
        return True

    def check_rows(self) -> bool:
        """Compare the violations of constraints, and return whether the constraints are met."""
        return True

    def compare_figures(self, is_feasible: bool) -> None:
        """Compare objective, bound, unit and gap."""
        raise NotImplementedError

    def refuse(self, text: str) -> bool:
        """Record that nothing is proven, and return False."""
        self.report.problem(text, Status.UNKNOWN)
        return False

    def check_conflict(self, conflict: Any, rows: Iterable[int], n: int) -> None:
        """Check that the conflict, a set of the n constraints, contains all constraints of the proof."""
        named = set() if conflict is None else {int(k) for k in np.ravel(conflict)}
        if not set(map(int, rows)) <= named <= set(range(n)):
            self.report.problem("the conflict does not name all constraints that carry the proof, or it names others")


class RowVerifier(Verifier):
    """A problem with rows ``value <sense> bound``; the result has a value, a violation and a dual weight for each of the c rows."""

    bound: np.ndarray
    sense: np.ndarray
    unit: np.ndarray  # the size of a violation of 1
    hard: np.ndarray  # which rows are hard

    @cached_property
    def mu(self) -> np.ndarray:
        """Dual weights (c,), with 0 in place of those that have the wrong sign, which are reported."""
        mu = np.asarray(self.result.dual, dtype=float)
        wrong = self.sense * mu < 0
        if wrong.any():
            row = np.flatnonzero(wrong)[0]
            self.report.problem(f"the dual weight of constraint {row} has the wrong sign: {mu[row]:.3g}")
        return np.where(wrong, 0, mu)

    def excess(self, p: np.ndarray) -> np.ndarray:
        """Violation of each row at values p (c,); 0 for rows that hold."""
        return excess_of(p - self.bound, self.sense)

    def compare_rows(self, p: np.ndarray, noise: np.ndarray, shown_noise: Any = 0.0) -> bool:
        """Compare values p of the rows, their violations and the largest one of a hard row; return whether all hard rows are met.

        Parameters
        ----------
        p, noise : ndarray, shape (c,)
            Recomputed values, and one rounding of each.
        shown_noise : float or ndarray, shape (c,)
            Further rounding of the values that the result shows.
        """
        report, excess, unit = self.report, self.excess(p), self.unit
        shown = HALF_DIGITS * np.maximum(unit, np.abs(p)) + ROUNDINGS * (noise + shown_noise)
        report.compare("values", p, shown)
        report.compare("violation", excess / unit, shown / unit)
        worst, vague = (float((x / unit)[self.hard].max(initial=0.0)) for x in (excess, noise + shown_noise))
        report.compare("max_violation", worst, HALF_DIGITS + ROUNDINGS * vague)
        missed = np.flatnonzero(self.hard & ~(excess <= allowance(noise, unit)))
        text = "".join(f"constraint {row} is missed by {float(excess[row] / unit[row]):.2g}" for row in missed[:1])
        return report.check_feasible(not len(missed), text)


def excess_of(gone: np.ndarray, sense: np.ndarray) -> np.ndarray:
    """Violation of each row, shape (c,), from value minus bound; 0 for rows that hold."""
    return np.where(sense == 0, np.abs(gone), np.maximum(sense * gone, 0))


def allowance(noise: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Violations up to which rows count as met: a fraction of their unit, and some rounding errors unless these are large."""
    return FEASIBLE * unit + np.minimum(ROUNDINGS * noise, CANCELLED * unit)
