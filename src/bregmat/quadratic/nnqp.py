"""The door: nonnegative quadratic programs, solved and proven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat.base.interrupts import tells_interrupts
from bregmat.quadratic.multiplicative import MultiplicativeUpdates
from bregmat.quadratic.problem import NonnegativeQP, Request, minimize
from bregmat.quadratic.program import as_start
from bregmat.quadratic.result import QPResult
from bregmat.run.loop import Outcome, RunLog
from bregmat.run.result import ExitReason, Record, Status
from bregmat.typing import Points, QPSolverName, Values

FAR = 1e60  # sizes above it, or below its inverse, are brought to 1: squares and products of a few of them overflow


@tells_interrupts
def nnqp(
    A: Points,
    b: Values,
    *,
    x0: Values | None = None,
    upper: Values | None = None,
    equality: tuple[Points, Values] | None = None,
    solver: QPSolverName | MultiplicativeUpdates = "auto",
    tol: float = 1e-8,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> QPResult:
    """``minimize 1/2 x'Ax + b'x`` over ``0 <= x <= upper``, ``E x = e``, with A positive semidefinite (Sha 2002, eq. 1).

    Parameters
    ----------
    A : array-like, shape (n, n)
        Symmetric positive semidefinite: no eigenvalue is below ``-1e-10 sqrt(n) max(A_ii)``. It is used as it is where it is float64
        and C-contiguous, and never changed.
    b : array-like, shape (n,)
    x0 : array-like, shape (n,), optional
        Start: nonnegative, at most ``upper``. It need not meet ``E x = e``. Copied.
    upper : float or array-like, shape (n,), optional
        Upper bounds, at least 0, in units of x; inf for none.
    equality : tuple (E, e), optional
        Shapes (m, n) and (m,), a few rows; or a vector and a number for one.
    solver : {"auto", "pivoting", "active_set", "multiplicative"} or MultiplicativeUpdates
        "auto" and "pivoting": block principal pivoting, and where A is singular on a free set, coordinate descent and an active
        set. "active_set": these two from the start, for solutions with few nonzeros of many. "multiplicative": the
        updates of Sha 2002, slow but faithful; of equalities they take one row of +-1 (times a constant).
    tol : float
        Relative duality gap for OPTIMAL; dimensionless. The exact solvers go on to rounding in any case; the updates
        stop there.
    max_iter : int, optional
        Limit on free sets of the exact solvers (200), or on updates.
    max_seconds : float, optional
        Limit on wall time, looked at between factorisations.
    callback : callable, optional
        Called with a :class:`bregmat.Record` after each step; True ends the run.

    Returns
    -------
    QPResult
        Also for infeasible and unbounded problems, with their proofs: nothing is raised for a numerical outcome, and a
        KeyboardInterrupt after the checks of the arguments ends the run with the best point, and a RuntimeWarning.

    Raises
    ------
    ValueError
        Wrong shapes, values that are not finite, A not symmetric, A that shows itself not to be positive semidefinite,
        negative upper bounds, ``x0`` outside the box, an unknown solver.
    TypeError
        Arguments of the wrong type; for "multiplicative", equality rows that it does not take.

    Notes
    -----
    That A is positive semidefinite is tested by one factorisation of all of A. Eigenvalues that are negative by less than the limit
    above are taken for rounding; ``curvature_tolerance`` of the result says how negative they can be, and what this
    changes in the bound. Rounding of the gradient and of ``x'Ax`` is allowed for in the bound,
    so that OPTIMAL is proven for the numbers given; where the terms of F cancel too far for that, the status is FEASIBLE and the gap says
    what is known. The conditions are met to the rounding of the gradient's terms, which is above 1e-12 of b where these cancel.
    Sizes beyond 1e60 are brought to 1 by powers of two. Cost: n^3 / 3 for the test, and a few ``|F|^3 / 3`` with F
    the variables that are nonzero; BLAS on one thread.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import nnqp
    >>> result = nnqp([[2.0, 1.0], [1.0, 2.0]], [-2.0, 1.0])
    >>> print(result.status, result.x.round(6))
    OPTIMAL [1. 0.]
    >>> result.dual.round(6)  # what one unit of the second variable would cost
    array([0., 2.])
    """
    problem = NonnegativeQP.build(A, b, upper=upper, equality=equality)
    start = as_start(x0, problem.upper)
    request = Request(solver, tol, max_iter, max_seconds, callback, problem.E)
    units, inner, start = _in_the_middle(problem, start)
    outcome = minimize(inner, start, request, units.log(request))
    with np.errstate(all="ignore"):
        return units.result(outcome, problem.upper)


def _in_the_middle(problem: NonnegativeQP, start: np.ndarray | None) -> tuple[Units, NonnegativeQP, np.ndarray | None]:
    """The problem with sizes that products do not overflow: ``A = 2^a A'``, ``b = 2^c b'``, so ``x = 2^(c-a) x'``."""
    falling = float(-problem.b.min())
    a = exponent(float(problem.diagonal.max()))
    c = exponent(falling if falling > 0.0 else float(np.abs(problem.b).max()))
    if a == 0 and c == 0:
        return Units(), problem, start
    units = Units(x=c - a, dual=c, multiplier=c, objective=2 * c - a)
    with np.errstate(all="ignore"):
        upper, e = np.ldexp(problem.upper, a - c), np.ldexp(problem.e, a - c)
        inner = NonnegativeQP(np.ldexp(problem.A, -a), np.ldexp(problem.b, -c), upper, problem.E, e)
        return units, inner, None if start is None else np.ldexp(start, a - c)


# -------------------------------------------------------------------- units
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

    def log(self, request: Request) -> RunLog:
        """Clock, limits and history in the caller's units."""
        is_needed = self.objective != 0 or self.constant != 0.0
        return RunLog(request.callback, request.max_seconds, self.record if is_needed else None)

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
            curvature_tolerance=proof.curvature_tolerance,
            direction=proof.falling,
        )
        if result.status is Status.INFEASIBLE:
            result.conflict = np.flatnonzero(result.equality_dual)
        for name in ("objective", "dual_bound", "unit"):
            setattr(result, name, self.outside(getattr(result, name)))
        if not (np.isfinite(result.objective) and np.isfinite(result.x).all()):
            result.exit_reason = ExitReason.NONFINITE
        return result
