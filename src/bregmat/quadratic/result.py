"""What a nonnegative quadratic program returns, in the caller's units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bregmat.result import ExitReason, Record, Result, Status
from bregmat.solve import Outcome

FAR = 1e60  # sizes above it, or below its inverse, are brought to 1: squares and products of a few of them overflow

_ADVICE = {
    ExitReason.CERTIFICATE: "See equality_dual or direction for the proof, and change the equality or the linear term.",
    ExitReason.MAX_ITER: "Raise max_iter, or (a) scale the variables so that diag(A) is even, (b) loosen tol, (c) use another solver.",
    ExitReason.TIME: "Raise max_seconds, or continue from this result's x with x0=.",
    ExitReason.STALLED: "Rounding allows no better: (a) scale the variables so that the diagonal of A is even, (b) loosen tol.",
    ExitReason.INTERRUPTED: "Stopped on request; continue from this result's x with x0=.",
    ExitReason.NONFINITE: "A number overflowed: scale A and b towards 1.",
}


@dataclass(eq=False, repr=False, kw_only=True)
class QPResult(Result):
    """The minimiser of ``1/2 x'Ax + b'x`` over ``0 <= x <= upper``, ``E x = e``, and its proof.

    Beside what all results have (:class:`bregmat.Result`):

    Attributes
    ----------
    x : ndarray, shape (n,)
        Inside the box.
    dual : ndarray, shape (n,)
        Reduced gradient ``A x + b + E' equality_dual``: its positive part is the multiplier of ``x >= 0``, its negative part that of
        ``x <= upper``, in units of the objective per unit of x.
    equality_dual : ndarray, shape (m,)
        Multipliers of ``E x = e``. For INFEASIBLE the proof: ``y'E x < y'e`` for every x in the box, with y = equality_dual.
    gap : float
        ``(objective - dual_bound) / max(|objective|, 1/2 x'Ax, 1e-6 (|b|'x + |equality_dual|'|E|x))``, and where
        all these vanish 1e-4 of what single variables could gain; dimensionless; inf where nothing is proven.
    kkt_residual : float
        Largest violation of the optimality conditions by ``dual``, every gradient in units of sqrt(A_ii) and relative to the
        larger of its own ``|b_i|`` and the largest b that matters; an entry whose variable it keeps at zero does not.
    max_violation : float
        ``max|E x - e|`` relative to the size of its terms; a few roundings of the largest variable are allowed for.
    bound_perturbation : float
        0 where ``dual_bound`` is proven for b itself. Where optima lie on a ray, nothing can be in rounded arithmetic; then the
        bound is proven for b raised somewhere by at most this, relative to the largest b that matters, and for b itself at
        points that are no farther out than x. Never more than 1e-12.
    direction : ndarray, shape (n,), or None
        For UNBOUNDED: ``direction >= 0``, ``b'direction < 0``; ``A direction = 0`` and ``E direction = 0`` to the rounding of their
        terms, and no curvature along it beyond a quarter of a unit in the last place.
    n_iter : int
        Free sets tried, exchanges, or updates, as the solver counts. In the history, ``violation`` is the KKT residual.
    """

    x: np.ndarray
    dual: np.ndarray
    equality_dual: np.ndarray
    kkt_residual: float
    bound_perturbation: float = 0.0
    direction: np.ndarray | None = None

    shown: ClassVar[tuple[str, ...]] = ("objective", "dual_bound", "gap", "kkt_residual")
    advice_for: ClassVar[dict[ExitReason, str]] = _ADVICE

    def __post_init__(self) -> None:
        if self.status is Status.INFEASIBLE and self.conflict is None:
            self.conflict = np.flatnonzero(self.equality_dual)


def exponent(size: float) -> int:
    """The power of two nearest below, 0 for sizes in the middle of the numbers and for zero."""
    return 0 if size == 0.0 or 1.0 / FAR <= size <= FAR else int(np.frexp(size)[1])


@dataclass(frozen=True, eq=False)
class Units:
    """Powers of two between a program in the middle of the numbers and the caller's; all zero for almost every problem.

    Attributes
    ----------
    x, dual : int or ndarray of int, shape (n,)
        Of the point and of the reduced gradient.
    multiplier, objective : int
        Of the multipliers of the rows, and of objective and bound.
    constant : float
        Part of the objective that the inner program lacks, in its units.
    """

    x: int | np.ndarray = 0
    dual: int | np.ndarray = 0
    multiplier: int = 0
    objective: int = 0
    constant: float = 0.0

    @property
    def is_needed(self) -> bool:
        """Whether objectives differ."""
        return self.objective != 0 or self.constant != 0.0

    def record(self, record: Record) -> Record:
        """A line of the history."""
        values = (self.outside(record.objective + self.constant), self.outside(record.dual_bound + self.constant))
        return replace(record, objective=values[0], dual_bound=values[1])

    def outside(self, value: float) -> float:
        """An objective of the inner program, its constant included."""
        return float(np.ldexp(value, self.objective))

    def result(self, outcome: Outcome, upper: np.ndarray) -> QPResult:
        """The result of a run; NONFINITE where the point or its objective is beyond the largest number.

        Parameters
        ----------
        outcome : Outcome
            Its certificate is that of the inner program with ``constant`` in the objective.
        upper : ndarray, shape (n,)
            The caller's bounds.
        """
        proof = outcome.certificate
        result = QPResult(
            **outcome.shared(),
            x=np.minimum(np.ldexp(proof.x, self.x), upper),
            dual=np.ldexp(proof.dual, self.dual),
            equality_dual=np.ldexp(proof.equality_dual, self.multiplier),
            kkt_residual=proof.kkt_residual,
            bound_perturbation=proof.bound_perturbation,
            direction=proof.falling,
        )
        result.objective, result.dual_bound = self.outside(result.objective), self.outside(result.dual_bound)
        if not (np.isfinite(result.objective) and np.isfinite(result.x).all()):
            result.exit_reason = ExitReason.NONFINITE
        return result
