"""What the loop asks of every problem, and the certificate of a point: objective, lower bound and gap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from bregmat.base.tolerances import EPS
from bregmat.engine.status import Status

CLEAR = 1e-9  # y . b must be below -CLEAR |y| . |b|: rows that contradict each other by less count as met
SUM_ROUNDINGS = 8.0  # roundings of a sum and a difference, in units of EPS
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
    max_violation : float
        Largest relative violation of a hard row.
    size : float
        Natural size of the objective, in units of the problem: the unit of the gap is at least this.
    missed : ndarray or None
        Violation of each hard row by rounding, in its own units; None if it is not part of ``upper``.
    unit : float
        The unit of the gap: ``max(size, |objective|)``.
    gap : float
        ``(upper - dual_bound) / unit``, never negative; inf if nothing is proven.
    """

    dual: np.ndarray
    objective: float
    dual_bound: float
    upper: float
    max_violation: float = 0.0
    size: float = 1.0
    missed: np.ndarray | None = None
    unit: float = field(init=False)
    gap: float = field(init=False)

    def __post_init__(self) -> None:
        unit = max(self.size, abs(self.objective))
        excess = self.upper - self.dual_bound
        # If rounding lifts the bound above ``upper``, the gap is 0. A bound further above contradicts the point.
        is_proven = np.isfinite(self.upper) and not excess < -CROSSED * unit
        vars(self).update(unit=unit, gap=max(excess, 0.0) / unit if is_proven else np.inf)

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
            "violation": self.max_violation,
        }

    def status(self, tol: float) -> Status:
        """What the certificate proves: OPTIMAL if the gap is at most ``tol``, else FEASIBLE or UNKNOWN.

        NaN, and a bound that exceeds ``upper`` by more than ``tol``, prove nothing.
        """
        crossed = float(self.dual_bound - self.upper) / self.unit
        if np.isfinite(self.gap) and self.gap <= tol and not crossed > tol:
            return Status.OPTIMAL
        return Status.FEASIBLE if np.isfinite(self.upper) else Status.UNKNOWN

    def joined(self, new: Self) -> Self:
        """The point and the dual weights with the smallest gap, taken from two certificates of one problem.

        Dual weights may grow without end, and ``upper`` with them, so the last certificate need not be the best one. Without a bound,
        the least ``upper`` counts.
        """
        pairs = [new, self, new.with_dual(self.dual, self.dual_bound), self.with_dual(new.dual, new.dual_bound)]
        gaps = [pair.gap for pair in pairs]
        if np.isfinite(min(gaps)):
            return pairs[gaps.index(min(gaps))]
        return min(pairs, key=lambda pair: (-pair.dual_bound, pair.upper, pair.max_violation))

    def with_dual(self, dual: np.ndarray, dual_bound: float) -> Self:
        """This point with other dual weights and the bound that they prove; ``upper`` changes with the weights of violated rows."""
        if self.missed is None:
            return replace(self, dual=dual, dual_bound=dual_bound)
        penalty = float(np.abs(dual) @ self.missed)
        upper = self.upper + (penalty - float(np.abs(self.dual) @ self.missed))
        # if the former weights were huge, the difference has lost the digits of the objective
        upper += SUM_ROUNDINGS * EPS * (abs(self.upper) + penalty)
        return replace(self, dual=dual, dual_bound=dual_bound, upper=upper)


@dataclass(frozen=True, eq=False)
class Proof:
    """A proof that a problem is infeasible or unbounded: its weights, and the rows with a weight, if these are weights of rows."""

    dual: np.ndarray
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=int))
    status: Status = Status.INFEASIBLE


class Problem(ABC):
    """The methods that the loop calls. A problem that is always feasible only needs :meth:`certify`; the others have defaults."""

    size: ClassVar[float] = 1.0  # natural size of the objective, in units of the problem
    is_always_feasible: bool = False  # whether no proof of infeasibility needs to be sought; may be a property
    retry_divisor: ClassVar[float] = 4.0  # factor by which the signal falls from one certificate to the next
    retries_feasible: ClassVar[bool] = True  # whether the next certificate is computed at once if the point is feasible

    @property
    def certifies_cheaply(self) -> bool:
        """Whether every step is certified if there is a callback; if a row is hard, a certificate restores it, which costs more."""
        return self.is_always_feasible

    @abstractmethod
    def certify(self, state: Any) -> Certificate:
        """The certificate of the point of a solver's state."""

    def conclude(self, state: Any) -> None:
        """Improve the point before the last certificate of a run that ends by a limit or a stall."""
        return

    def is_due(self, state: Any, tol: float) -> bool:
        """Whether the state's estimate of its gap is small enough to compute a certificate."""
        return state.signal <= 10.0 * tol * max(self.size, abs(state.objective))

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
