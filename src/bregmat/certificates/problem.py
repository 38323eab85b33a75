"""The interface between a problem and the loop: certificates of points, and proofs of infeasibility."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from bregmat.certificates.status import Status

FEASIBLE = 1e-9  # largest relative violation of a hard row that counts as met: rounding of its value over its bound
CROSSED = 1e-9  # by how much, relative to the unit of the gap, rounding may lift a lower bound above the objective


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """A point's objective, a lower bound of the objective of every feasible point, and the dual weights that prove it.

    The subclass of a problem adds the point itself.

    Attributes
    ----------
    dual : ndarray
        Dual weights (Lagrange multipliers) that prove the bound.
    objective, dual_bound : float
        Primal value of the point and the proven lower bound, in units of the problem.
    upper : float
        The objective plus ``|dual| . missed``, so that no gap is negative; inf if a hard row is violated by more than rounding.
    violation : float
        Largest relative violation of a hard row.
    size : float
        Natural size of the objective, in units of the problem: the unit of the gap is at least this.
    missed : ndarray or None
        Violation of each hard row by rounding, in its own units; None if it is not part of ``upper``.
    """

    dual: np.ndarray
    objective: float
    dual_bound: float
    upper: float
    violation: float = 0.0
    size: float = 1.0
    missed: np.ndarray | None = None

    @property
    def unit(self) -> float:
        """The unit of the gap: ``max(size, |objective|)``."""
        return max(self.size, abs(self.objective))

    @property
    def gap(self) -> float:
        """``(upper - dual_bound) / max(size, |objective|)``, never negative; inf if nothing is proven.

        If rounding lifts the bound above ``upper``, the gap is 0. A bound further above contradicts the point, and nothing is proven.
        """
        excess = self.upper - self.dual_bound
        return max(excess, 0.0) / self.unit if self.is_feasible and not excess < -CROSSED * self.unit else np.inf

    @property
    def is_feasible(self) -> bool:
        """Whether every hard row is met up to rounding."""
        return bool(np.isfinite(self.upper))

    @property
    def figures(self) -> dict[str, float]:
        """The numbers that the history records."""
        return {
            "objective": self.objective,
            "dual_bound": self.dual_bound,
            "gap": self.gap,
            "violation": self.violation,
        }

    def proves(self, tol: float) -> bool:
        """Whether the gap is at most ``tol``; NaN, and a bound that exceeds ``upper`` by more than ``tol``, prove nothing."""
        crossed = float(self.dual_bound - self.upper) / self.unit
        return bool(np.isfinite(self.gap) and self.gap <= tol and not crossed > tol)

    def status(self, tol: float) -> Status:
        """OPTIMAL, FEASIBLE or UNKNOWN: what the certificate proves."""
        if self.proves(tol):
            return Status.OPTIMAL
        return Status.FEASIBLE if self.is_feasible else Status.UNKNOWN

    def joined(self, new: Self) -> Self:
        """The point and the dual weights with the smallest gap, taken from two certificates of one problem.

        Dual weights may grow without end, and ``upper`` with them, so the last certificate need not be the best one.
        """
        pairs = [new, self, new.with_dual(self.dual, self.dual_bound), self.with_dual(new.dual, new.dual_bound)]
        best = min(pairs, key=lambda pair: pair.gap)
        return best if np.isfinite(best.gap) else min(pairs, key=lambda pair: (-pair.dual_bound, pair.violation))

    def with_dual(self, dual: np.ndarray, dual_bound: float) -> Self:
        """This point with other dual weights and the bound that they prove; ``upper`` changes with the weights of violated rows."""
        change = 0.0 if self.missed is None else float((np.abs(dual) - np.abs(self.dual)) @ self.missed)
        return replace(self, dual=dual, dual_bound=dual_bound, upper=self.upper + change)


@dataclass(frozen=True, eq=False)
class Proof:
    """A proof that a problem is infeasible or unbounded: its weights, and the rows with a weight."""

    dual: np.ndarray
    rows: np.ndarray
    status: Status = Status.INFEASIBLE


class Problem(ABC):
    """The methods that the loop calls. A problem that is always feasible only needs :meth:`certify`; the others have defaults."""

    size: ClassVar[float] = 1.0  # natural size of the objective, in units of the problem
    is_always_feasible: bool = False  # whether no proof of infeasibility needs to be sought; may be a property

    @property
    def certifies_cheaply(self) -> bool:
        """Whether every step is certified if there is a callback."""
        return True

    @abstractmethod
    def certify(self, state: Any) -> Certificate:
        """The certificate of the point of a solver's state."""

    def conclude(self, state: Any) -> None:
        """Improve the point before the last certificate of a run that ends by a limit or a stall."""
        return

    def is_due(self, state: Any, tol: float) -> bool:
        """Whether the state's estimate of its gap is small enough to compute a certificate."""
        return state.signal <= 10.0 * tol * max(self.size, abs(state.objective))

    def retry_below(self, certificate: Certificate, state: Any) -> float:
        """Estimate of the gap below which the next certificate is computed, after one that did not end the run."""
        return np.inf if certificate.is_feasible else state.signal / 4.0

    def estimate(self, state: Any, works_on: str) -> dict[str, float]:
        """Objective, dual bound and violation of a step without a certificate; nan for numbers that are not known."""
        return {"objective": np.nan, "dual_bound": np.nan, "violation": np.nan, works_on: state.objective}

    def proof_beforehand(self) -> Proof | None:
        """A proof of infeasibility from the rows alone, before the first step."""
        return None

    def dual_size(self, state: Any) -> float:
        """Size of the dual weights, which grow without end if rows contradict; the loop asks for a proof when it has doubled."""
        return 0.0

    def contradiction(self, state: Any) -> Proof | None:
        """A proof of infeasibility from the dual weights of a state; None if they are not one."""
        return None

    def last_contradiction(self, state: Any) -> Proof | None:
        """A proof of infeasibility by a search of its own, for a run that ends without a feasible point."""
        return None
