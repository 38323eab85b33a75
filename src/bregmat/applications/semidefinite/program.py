"""Semidefinite programs under the constraints of this library (Kulis 2009, section 6.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.semidefinite.path import LogDetPath
from bregmat.applications.semidefinite.problem import SemidefiniteProgram
from bregmat.applications.semidefinite.rays import find_ray
from bregmat.base.checks import as_matrix, check_limits
from bregmat.base.threads import returns_result
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Coordinates
from bregmat.engine.loop import RunLog, solve
from bregmat.engine.problem import Proof
from bregmat.engine.result import Kind
from bregmat.engine.status import ExitReason, Record, Status
from bregmat.operators.binding import bind
from bregmat.typing import Table, Values


@dataclass(eq=False, repr=False, kw_only=True)
class SemidefiniteResult(MatrixResult):
    """The certified solution of a semidefinite program (:func:`semidefinite_program`).

    In addition to the attributes of :class:`bregmat.MatrixResult`:

    Attributes
    ----------
    objective, dual_bound : float
        ``tr(C X)`` plus the losses of soft constraints, and the proven lower bound: ``-b . dual`` where all constraints are hard, since
        ``C + sum_i dual_i A_i`` is positive semidefinite.
    unit : float
        Unit of the gap: the objective, or a thousandth of the norm of C times the largest ``|b_i| / |A_i|`` if that is larger.
        ``|A_i|`` is the sum of the norms of the terms of a constraint.
    ray : ndarray, shape (n, k), or None
        The proof of UNBOUNDED: ``X + t ray ray'`` meets the constraints for every t >= 0, and ``tr(C ray ray') < 0``.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, semidefinite_program
    >>> result = semidefinite_program(np.diag([1.0, -1.0]), Constraints.diagonal([1.0], index=[0]))
    >>> print(result.status, abs(result.ray[:, 0]).round(3))
    UNBOUNDED [0. 1.]
    """

    ray: np.ndarray | None = None

    _kind: ClassVar[Kind] = replace(MatrixResult._kind, statuses=frozenset(Status))


@returns_result
def semidefinite_program(
    C: Table,
    constraints: Constraints,
    *,
    slack_weight: Values = np.inf,
    tol: float = 1e-6,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> SemidefiniteResult:
    """Minimise a linear objective over positive semidefinite matrices under constraints.

    ``minimize tr(C X)`` over ``X >= 0`` that meet the constraints. The solution is the limit of LogDet-regularised programs (Kulis 2009,
    section 6.4). Use it for relaxations such as max-cut and Lovasz theta, with matrices of a few hundred rows and up to a few thousand
    constraints, if the proof of the bound matters. :func:`nearest_kernel` finds the matrix nearest to a prior instead.

    Parameters
    ----------
    C : array-like or scipy.sparse, shape (n, n)
        Symmetric. To maximise ``tr(C X)``, pass ``-C``.
    constraints : Constraints
        Constraints on samples 0 ... n-1.
    slack_weight : float or array-like, shape (c,)
        Weight gamma of a violated constraint, times its own weight; positive; inf makes it hard. A soft constraint costs the squared hinge
        ``gamma / 2 (excess / |bound|)^2`` in the units of the objective; an excess over the bound 0 is taken over ``tr |A_i|``.
    tol : float
        Relative duality gap at which the result is called optimal.
    max_iter : int, optional
        Limit on steps (100).
    max_seconds : float, optional
        Limit on wall time.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops.

    Returns
    -------
    SemidefiniteResult
        INFEASIBLE and UNBOUNDED are proven: by the constraints in ``conflict`` with the weights in ``dual``, and by ``ray``.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments; numerical outcomes never raise.

    Notes
    -----
    Primal-dual Newton steps in the scaling of Nesterov and Todd. A step costs about ``40 n^3 + c^2 (c + 6 n) / 3`` operations and
    ``c^2`` numbers of memory, for c constraints of a few terms each. The lower bound is computed from the dual weights alone. If the slack
    ``C + sum_i dual_i A_i`` has a negative eigenvalue and semidefinite constraints bound the trace, such as a given diagonal, their weights
    are raised until it has none. Otherwise nothing is proven by a negative eigenvalue that is more than rounding of the
    entries; what rounding costs at matrices of a trace up to 1e4 times the largest ``|b_i| / |A_i|`` is subtracted from the bound. Along
    ``ray``, constraints are 0 up to 16 roundings of their terms.

    Examples
    --------
    The relaxation of max-cut of a cycle of five vertices (Goemans and Williamson 1995):

    >>> import numpy as np
    >>> from bregmat import Constraints, semidefinite_program
    >>> A = np.roll(np.eye(5), 1, axis=0)
    >>> L = 2 * np.eye(5) - A - A.T
    >>> result = semidefinite_program(-L / 4, Constraints.diagonal(np.ones(5)))
    >>> print(result.status, round(-result.objective, 4))
    OPTIMAL 4.5225
    """
    check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback)
    log = RunLog(callback, max_seconds)
    objective: np.ndarray = as_matrix("C", C, symmetric=True, sparse="dense")
    n = len(objective)
    if not isinstance(constraints, Constraints):
        raise TypeError(f"constraints must be Constraints; got {type(constraints).__name__}.")
    constraints.check_range(n)
    problem = SemidefiniteProgram.build(objective, bind(constraints, np.eye(n)), constraints, slack_weight)
    run = solve(problem, LogDetPath(), tol=tol, max_iter=max_iter, log=log)
    ray = None
    is_open = run.status in (Status.FEASIBLE, Status.UNKNOWN)
    if is_open and run.exit_reason not in (ExitReason.INTERRUPTED, ExitReason.TIME):
        ray = find_ray(problem, constraints, log)
    if ray is not None:
        # the iterates diverge along the direction, so a point is sought without the objective
        any_feasible, quiet = replace(problem, C=np.zeros_like(objective)), log.beside()
        point = problem.certify(solve(any_feasible, LogDetPath(), tol=tol, log=quiet).certificate)
        if point.is_feasible:
            unbounded = replace(point, dual_bound=-np.inf, upper=np.inf)
            proof = Proof(point.dual, status=Status.UNBOUNDED)
            run = replace(run, certificate=unbounded, proof=proof, reason=ExitReason.CERTIFICATE)
        else:
            ray = None
    coordinates = Coordinates(np.eye(n), np.ones(n), owns_base=True)
    return problem.rows.result(SemidefiniteResult, run, coordinates, ray=ray)
