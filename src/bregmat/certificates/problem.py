"""What every problem owes the loop: a certificate of each point that is asked for, and proofs that there is none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from bregmat.certificates.status import Status

FEASIBLE = 1e-9  # relative violation below which a hard row counts as met: rounding of its value over its bound
CROSSED = 1e-9  # by how much, relative to the unit of the gap, rounding may put a bound above the objective


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """What is proven about a point: its objective beside a lower bound that every point has.

    A problem adds the point itself in a subclass.

    Attributes
    ----------
    dual : ndarray
        Weights that prove the bound.
    objective, dual_bound : float
        Primal value of the point and the proven lower bound, in units of the problem.
    upper : float
        The objective plus what hard rows missed by rounding are worth, so that no gap is negative; inf if they are missed by more.
    violation : float
        Largest relative violation of a hard row.
    size : float
        Natural size of objectives of the problem, in its units: what small ones are compared with.
    missed : ndarray or None
        By how much each hard row is missed by rounding, in its own units; None where that has no price.
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
        """What the gap is measured in: the objective, or the problem's own size where that is larger."""
        return max(self.size, abs(self.objective))

    @property
    def gap(self) -> float:
        """``(upper - dual_bound) / max(size, |objective|)``, never negative; inf where nothing is proven.

        A bound that rounding puts above ``upper`` leaves the gap 0. A bound farther above it contradicts the point: nothing is proven.
        """
        excess = self.upper - self.dual_bound
        return max(excess, 0.0) / self.unit if self.is_feasible and not excess < -CROSSED * self.unit else np.inf

    @property
    def is_feasible(self) -> bool:
        """Whether every hard row is met up to rounding."""
        return bool(np.isfinite(self.upper))

    @property
    def figures(self) -> dict[str, float]:
        """What a history says of it."""
        return {
            "objective": self.objective,
            "dual_bound": self.dual_bound,
            "gap": self.gap,
            "violation": self.violation,
        }

    def proves(self, tol: float) -> bool:
        """Whether the point is optimal to the relative gap ``tol``; NaN, and a bound above ``upper`` by more than that, prove nothing."""
        crossed = float(self.dual_bound - self.upper) / self.unit
        return bool(np.isfinite(self.gap) and self.gap <= tol and not crossed > tol)

    def status(self, tol: float) -> Status:
        """What is proven, in a word."""
        if self.proves(tol):
            return Status.OPTIMAL
        return Status.FEASIBLE if self.is_feasible else Status.UNKNOWN

    def joined(self, new: Self) -> Self:
        """Of two certificates of one problem the point and the weights that prove most together.

        Weights may grow without end, and with them what rows missed by rounding are worth: the last pair need not be the best one.
        """
        pairs = [new, self, new.with_dual(self.dual, self.dual_bound), self.with_dual(new.dual, new.dual_bound)]
        best = min(pairs, key=lambda pair: pair.gap)
        return best if np.isfinite(best.gap) else min(pairs, key=lambda pair: (-pair.dual_bound, pair.violation))

    def with_dual(self, dual: np.ndarray, dual_bound: float) -> Self:
        """This point with other weights and what they prove, at whose prices missed rows count."""
        change = 0.0 if self.missed is None else float((np.abs(dual) - np.abs(self.dual)) @ self.missed)
        return replace(self, dual=dual, dual_bound=dual_bound, upper=self.upper + change)


@dataclass(frozen=True, eq=False)
class Proof:
    """Weights that prove that there is nothing to find, and the rows that carry them."""

    dual: np.ndarray
    rows: np.ndarray
    status: Status = Status.INFEASIBLE


class Problem(ABC):
    """What the loop asks of a problem. One that is always feasible has to certify; the rest has defaults."""

    size: ClassVar[float] = 1.0  # natural size of its objectives, in its own units

    @property
    def certifies_cheaply(self) -> bool:
        """Whether every step may be certified when a callback looks on."""
        return True

    @abstractmethod
    def certify(self, state: Any) -> Certificate:
        """What is proven about the point of a solver's state."""

    def conclude(self, state: Any) -> None:
        """A last effort for the point, before the last certificate of a run that ends by a limit or a stall."""
        return

    def is_due(self, state: Any, tol: float) -> bool:
        """Whether the state's own signal makes a certificate worth its price."""
        return state.signal <= 10.0 * tol * max(self.size, abs(state.objective))

    def retry_below(self, certificate: Certificate, state: Any) -> float:
        """Signal below which the next certificate is worth its price, after one that did not end the run."""
        return np.inf if certificate.is_feasible else state.signal / 4.0

    def estimate(self, state: Any, works_on: str) -> dict[str, float]:
        """Objective, dual bound and violation of a step that is not certified, nan where not known; an estimate of the gap, if any."""
        return {"objective": np.nan, "dual_bound": np.nan, "violation": np.nan, works_on: state.objective}

    def proof_beforehand(self) -> Proof | None:
        """A proof that needs no search."""
        return None

    def dual_size(self, state: Any) -> float:
        """Size of the weights, which grow without end where rows contradict; a proof is looked for whenever it has doubled."""
        return 0.0

    def contradiction(self, state: Any) -> Proof | None:
        """A proof from the weights of a state, if they carry one."""
        return None

    def last_contradiction(self, state: Any) -> Proof | None:
        """A proof sought for itself, where a run ends without a feasible point."""
        return None
