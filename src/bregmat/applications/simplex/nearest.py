"""The distribution nearest to a given one in relative entropy under linear constraints: the vector case of (P).

``minimize KL(x, prior) = sum x log(x / prior) - x + prior`` over ``x >= 0``, ``A x <sense> b`` and, by default, ``sum x = total``
(Kulis 2009, Appendix B, eq. 24). For dual weights mu of feasible signs the minimiser of the Lagrangian is
``x(mu) ~ prior exp(-A'mu)``. The solvers change mu; all sums are computed from logarithms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.simplex.problem import NearestDistribution
from bregmat.applications.simplex.solvers import SOLVERS, VectorCyclic
from bregmat.base.checks import as_choice, check_limits, check_positive
from bregmat.base.threads import returns_result
from bregmat.engine.loop import RunLog, compose, solve
from bregmat.engine.result import Kind, Result
from bregmat.engine.status import Record
from bregmat.solvers.cyclic_projection import CyclicProjection
from bregmat.typing import Points, Senses, Values, VectorSolverName


@dataclass(eq=False, repr=False, kw_only=True)
class DistributionResult(Result):
    """The certified vector and its proof.

    In addition to the attributes of :class:`bregmat.Result`:

    Attributes
    ----------
    x : ndarray, shape (n,)
    dual, values, violation : ndarray, shape (c,)
        Signed dual weight (>= 0 for "<=", <= 0 for ">="), value ``A x`` and relative violation of each constraint: over ``|b|``,
        or if b = 0 over the size of the constraint at the prior. For INFEASIBLE, ``dual`` is the proof.
    objective, dual_bound : float
        KL(x, prior) and its proven lower bound.
    max_violation : float
        Largest relative violation.
    status, exit_reason
        What is proven, and why the run stopped; cyclic projections without corrections end FEASIBLE.

    Examples
    --------
    >>> from bregmat import nearest_distribution
    >>> result = nearest_distribution([0.25, 0.25, 0.5], [[1, 0, 0]], 0.4, ">=")
    >>> print(result.status, result.x.round(3))
    OPTIMAL [0.4 0.2 0.4]
    """

    x: np.ndarray
    dual: np.ndarray
    values: np.ndarray
    violation: np.ndarray

    _kind: ClassVar[Kind] = Kind("nonnegative vector")


@returns_result
def nearest_distribution(
    prior: Values,
    A: Points,
    b: Values,
    sense: Senses,
    *,
    total: float | None = 1.0,
    solver: VectorSolverName | CyclicProjection = "auto",
    tol: float = 1e-9,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> DistributionResult:
    """Find the vector nearest to ``prior`` in relative entropy that meets linear constraints.

    ``minimize sum x log(x / prior) - x + prior`` subject to ``A x <sense> b`` and ``sum x = total`` (Kulis 2009, eq. 24).

    Parameters
    ----------
    prior : array-like, shape (n,)
        At least 0; it need not sum to ``total``. Zeros stay zero.
    A : array-like, shape (c, n)
    b : float or array-like, shape (c,)
        Right-hand sides, in the units of the constraints.
    sense : str or sequence of str
        "<=", ">=" or "==", one for all constraints or one per constraint.
    total : float or None
        The sum of x; None leaves it free.
    solver : {"auto", "dual_newton", "cyclic_projection"} or CyclicProjection
        "auto" is the dual Newton method. "cyclic_projection" is the paper's method, which projects onto one constraint at a time;
        ``CyclicProjection(...)`` holds its settings.
    tol : float
        Relative duality gap at which the result is called optimal.
    max_iter : int, optional
        Limit on Newton steps (200) or cycles of projections (10,000).
    max_seconds : float, optional
        Limit on wall time.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops.

    Returns
    -------
    DistributionResult
        With status, gap and violation that hold for ``result.x``.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments; numerical outcomes never raise.

    Notes
    -----
    A Newton step costs one Gram matrix of the active constraints, n c_active^2 operations. Projections with dual corrections converge to
    the optimum. Without them they end at a feasible point, and the gap says how far it is from the optimum.

    Examples
    --------
    >>> from bregmat import nearest_distribution
    >>> die = nearest_distribution([1 / 6] * 6, [[1, 2, 3, 4, 5, 6]], 4.5, "==")  # a die whose mean is 4.5 (Jaynes)
    >>> die.x.round(3)
    array([0.054, 0.079, 0.114, 0.165, 0.24 , 0.347])
    """
    log = RunLog(callback, max_seconds)
    if not isinstance(solver, str | CyclicProjection):
        raise TypeError(f"solver must be a string or a CyclicProjection; got {solver!r}.")
    method = SOLVERS[as_choice("solver", solver, SOLVERS)] if isinstance(solver, str) else VectorCyclic(solver)
    check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback)
    if total is not None:
        check_positive("total", total, finite=True)
    problem, support = NearestDistribution.build(prior, A, b, sense, total)
    run = solve(problem, method, tol=tol, max_iter=max_iter, log=log)
    proof = run.certificate
    x = np.zeros(len(support))
    x[support] = np.exp(proof.logx)
    return compose(
        DistributionResult,
        run,
        x=x,
        dual=proof.dual / problem.factor,
        values=proof.values * problem.factor,
        violation=problem.violation(proof.values),
    )
