"""Nonnegative quadratic programs, solved to a certified duality gap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bregmat.engine.loop import RunLog, returns_result
from bregmat.engine.status import Record
from bregmat.quadratic.arguments import as_start, check_range
from bregmat.quadratic.multiplicative import MultiplicativeUpdates
from bregmat.quadratic.program import QuadraticProgram
from bregmat.quadratic.result import QPResult
from bregmat.quadratic.solve import Request, minimize, result_of
from bregmat.typing import Points, QPSolverName, Values


@returns_result
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
        Symmetric positive semidefinite: no eigenvalue is below ``-1e-10 sqrt(n) max(A_ii)``. It is not copied if it is float64
        and C-contiguous, and never changed.
    b : array-like, shape (n,)
    x0 : array-like, shape (n,), optional
        Start: nonnegative, at most ``upper``. It need not satisfy ``E x = e``. Copied.
    upper : float or array-like, shape (n,), optional
        Upper bounds, at least 0, in units of x; inf for none.
    equality : tuple (E, e), optional
        Shapes (m, n) and (m,) with small m; or a vector and a number for one equation.
    solver : {"auto", "pivoting", "active_set", "multiplicative"} or MultiplicativeUpdates
        "auto" and "pivoting": block principal pivoting and, if A is singular on a free set, coordinate descent followed by an active
        set. "active_set": these two from the start, for solutions with few nonzero variables. "multiplicative": the updates of
        Sha 2002, which are slow, with at most one equality constraint (Sha 2007).
    tol : float
        Relative duality gap for OPTIMAL; dimensionless. The exact solvers continue to rounding in any case; the updates
        stop there.
    max_iter : int, optional
        Limit on steps of the exact solvers (200), or on updates. A step is a free set or up to 50 exchanges.
    max_seconds : float, optional
        Limit on wall time, checked between steps.
    callback : callable, optional
        Called with a :class:`bregmat.Record` after each step; True ends the run.

    Returns
    -------
    QPResult
        Also for infeasible and unbounded problems, with their proofs: numerical outcomes never raise. A KeyboardInterrupt after the
        first point ends the run with the last point and a RuntimeWarning.

    Raises
    ------
    ValueError
        Wrong shapes, values that are not finite, A not symmetric or not positive semidefinite, negative upper bounds, ``x0`` outside
        of the box, an unknown solver, or sizes at which products would overflow: ``max(A_ii)`` and ``max |b|`` must be 0 or between
        1e-60 and 1e60.
    TypeError
        Arguments of the wrong type, or "multiplicative" with more than one equality constraint.

    Notes
    -----
    A factorisation of all of A tests whether it is positive semidefinite. Eigenvalues that are negative by less than the limit above
    are treated as rounding; ``curvature_tolerance`` of the result bounds them and says what they change in the bound.
    The bound includes the rounding of the gradient and of ``x'Ax``, so that OPTIMAL is proven for the given numbers. If the terms of
    the objective cancel too far for that, the status is FEASIBLE, and the gap says what is known. The conditions are met to the
    rounding of the gradient's terms, which exceeds 1e-12 of b if these cancel. Cost: n^3 / 3 for the test, and a few ``|F|^3 / 3``
    with F the nonzero variables; BLAS uses one thread.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import nnqp
    >>> result = nnqp([[2.0, 1.0], [1.0, 2.0]], [-2.0, 1.0])
    >>> print(result.status, result.x.round(6))
    OPTIMAL [1. 0.]
    >>> result.dual.round(6)  # the derivative of the objective in the second variable, which is at its bound
    array([0., 2.])
    """
    log = RunLog(callback, max_seconds)
    problem = QuadraticProgram.build(A, b, upper=upper, equality=equality)
    start = as_start(x0, problem.upper)
    request = Request.of(solver, problem.E, tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback)
    check_range("the largest diagonal entry of A", float(problem.diagonal.max()))
    check_range("the largest |b|", float(np.abs(problem.b).max()))
    outcome = minimize(problem, start, request, log)
    return result_of(outcome, problem)
