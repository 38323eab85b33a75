"""Semidefinite programs under the constraints of this library (Kulis 2009, section 6.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.semidefinite.path import LogDetPath
from bregmat.applications.semidefinite.problem import SemidefiniteProgram
from bregmat.base.checks import as_matrix, check_limits
from bregmat.base.linalg import EPS, eigh, eigvalsh, symmetrize
from bregmat.base.threads import tells_interrupts
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Coordinates
from bregmat.operators.binding import bind
from bregmat.operators.linear_maps import Operator, smat, svec
from bregmat.run.loop import Outcome, RunLog, solve
from bregmat.run.result import ExitReason, MatrixResult, Record, Status
from bregmat.typing import Table, Values

RANGE = 1e-6  # eigenvalues of a direction, and values of rows, that count as 0, relative to the largest one
CLEAR = 1e-6  # least decrease of the objective, relative to the sum of the sizes of its terms
ROUNDINGS = 16.0  # largest value of a row that has to be 0, in roundings of its points


@dataclass(eq=False, repr=False, kw_only=True)
class SemidefiniteResult(MatrixResult):
    """The certified solution of a semidefinite program (:func:`semidefinite_program`).

    In addition to the attributes of :class:`bregmat.MatrixResult`:

    Attributes
    ----------
    objective, dual_bound : float
        ``tr(C X)`` plus the losses of soft rows, and the proven lower bound: ``-b . dual`` where all rows are hard, since
        ``C + sum_i dual_i A_i`` is positive semidefinite.
    unit : float
        Unit of the gap: the objective, or a thousandth of the norm of C times the largest ``|b_i| / |A_i|`` if that is larger.
        ``|A_i|`` is the sum of the norms of the terms of a row.
    ray : ndarray, shape (n, k), or None
        The proof of UNBOUNDED: ``X + t ray ray'`` meets the rows for every t >= 0, and ``tr(C ray ray') < 0``.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, semidefinite_program
    >>> result = semidefinite_program(np.diag([1.0, -1.0]), Constraints.diagonal([1.0], index=[0]))
    >>> print(result.status, abs(result.ray[:, 0]).round(3))
    UNBOUNDED [0. 1.]
    """

    ray: np.ndarray | None = None

    statuses: ClassVar[frozenset[Status]] = frozenset(Status)


@tells_interrupts
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

    ``minimize tr(C X)`` over ``X >= 0`` that meet the rows. The solution is the limit of LogDet-regularised programs (Kulis 2009,
    section 6.4). Use it for relaxations such as max-cut and Lovasz theta, with matrices of a few hundred rows and up to a few thousand
    constraints, if the proof of the bound matters. :func:`nearest_kernel` finds the matrix nearest to a prior instead.

    Parameters
    ----------
    C : array-like or scipy.sparse, shape (n, n)
        Symmetric. To maximise ``tr(C X)``, pass ``-C``.
    constraints : Constraints
        Rows on samples 0 ... n-1.
    slack_weight : float or array-like, shape (c,)
        Weight gamma of a violated row, times the weight of the row; positive; inf makes the row hard. A soft row costs the squared hinge
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
        INFEASIBLE and UNBOUNDED are proven: by the rows in ``conflict`` with the weights in ``dual``, and by ``ray``.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments; numerical outcomes never raise.

    Notes
    -----
    Primal-dual Newton steps in the scaling of Nesterov and Todd. A step costs about ``40 n^3 + c^2 (c + 6 n) / 3`` operations and
    ``c^2`` numbers of memory, for c rows of a few terms each. The lower bound is computed from the dual weights alone. If the slack
    ``C + sum_i dual_i A_i`` has a negative eigenvalue and semidefinite rows bound the trace, such as a given diagonal, the weights of
    these rows are raised until it has none. Otherwise a negative eigenvalue means that nothing is proven.

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
    objective: np.ndarray = as_matrix("C", C, symmetric=True, sparse="dense")
    n = len(objective)
    if not isinstance(constraints, Constraints):
        raise TypeError(f"constraints must be Constraints; got {type(constraints).__name__}.")
    constraints.check_range(n)
    problem = SemidefiniteProgram.build(objective, bind(constraints, np.eye(n)), constraints, slack_weight)
    log = RunLog(callback, max_seconds)
    outcome = solve(problem, LogDetPath(), tol=tol, max_iter=max_iter, log=log)
    ray = None
    is_open = outcome.status in (Status.FEASIBLE, Status.UNKNOWN)
    if is_open and outcome.exit_reason not in (ExitReason.INTERRUPTED, ExitReason.TIME):
        ray = _find_ray(problem, constraints)
    if ray is not None:
        point = outcome.certificate
        if not point.is_feasible:  # the iterates diverge along the direction
            any_feasible = replace(problem, C=np.zeros_like(objective))
            point = problem.certify(solve(any_feasible, LogDetPath(), tol=tol).certificate)
        if point.is_feasible:
            unbounded = replace(point, dual_bound=-np.inf, upper=np.inf)
            outcome = replace(
                outcome, certificate=unbounded, status=Status.UNBOUNDED, exit_reason=ExitReason.CERTIFICATE
            )
        else:
            ray = None
    coordinates = Coordinates(np.eye(n), np.ones(n), owns_base=True)
    return result_of(problem, replace(outcome, seconds=log.seconds()), coordinates, ray)


def result_of(
    problem: SemidefiniteProgram, outcome: Outcome, coordinates: Coordinates, ray: np.ndarray | None = None
) -> SemidefiniteResult:
    """The result of a run.

    Parameters
    ----------
    problem : SemidefiniteProgram
    outcome : Outcome
    coordinates : Coordinates
        From the samples to those of the program.
    ray : ndarray, shape (n, k), or None
        The proof of UNBOUNDED.
    """
    proof = outcome.certificate
    return SemidefiniteResult(
        **outcome.shared(),
        iterate=proof.iterate,
        last=outcome.state.iterate,
        coordinates=coordinates,
        dual=proof.dual,
        values=proof.values,
        violation=problem.rows.violation(proof.values),
        weight_span=problem.rows.weight_span,
        ray=ray,
    )


def _find_ray(problem: SemidefiniteProgram, constraints: Constraints) -> np.ndarray | None:
    """A factor G (n, k) with ``tr(C G G') < 0`` that violates no row of bound 0, up to rounding; None if none is found.

    It is the solution of the program with all bounds 0 and a trace of 1, restricted to its range and corrected so that rows that are
    nearly 0 are 0 up to rounding.
    """
    n = problem.rows.r
    level = replace(constraints, bound=np.zeros(constraints.n_constraints), weight=np.ones(constraints.n_constraints))
    rows = level + Constraints.trace(1.0)
    program = SemidefiniteProgram.build(problem.C, bind(rows, np.eye(n)), rows, np.inf)
    iterate = solve(program, LogDetPath(), tol=1e-6).certificate.iterate
    G = _settled(iterate.F @ iterate.F.T, problem.rows.operator, constraints.sense)
    if G is None:
        return None
    X = G @ G.T
    if not float(np.vdot(problem.C, X)) < -CLEAR * float(np.vdot(np.abs(problem.C), np.abs(X))):
        return None
    # violations of rows with bound 0 are relative to the sum of the squared norms of their points
    return G if (level.violation(G) <= ROUNDINGS * EPS).all() else None


def _settled(X: np.ndarray, operator: Operator, sense: np.ndarray) -> np.ndarray | None:
    """A factor of a matrix near X at which equalities, and inequalities that are nearly 0, are 0 up to rounding."""
    values, U = eigh(X)
    N = U[:, values > RANGE * values[-1]]
    p, unit = operator.values(X), operator.norms() * float(np.trace(X))
    active = np.flatnonzero((sense == 0) | (np.abs(p) <= RANGE * unit))
    if not len(active):
        return N * np.sqrt(values[-N.shape[1] :])
    # if a semidefinite row is 0 at a matrix, its range is orthogonal to that of the matrix
    some, definite = operator.restrict(active), []
    for k in range(some.c):
        A = some.restrict(np.array([k])).adjoint(np.ones(1))
        t = eigvalsh(A)
        size = np.abs(t).max()
        if size > 0 and t[0] * t[-1] >= -RANGE * size**2:
            definite.append(A / size if np.trace(A) > 0 else -A / size)
    if definite:
        t, V = eigh(sum(definite))
        keep = V[:, t <= 1e-12 * t[-1]]
        t, V = eigh(symmetrize(keep.T @ X @ keep))
        N = keep @ V[:, t > RANGE * values[-1]]
    if not N.shape[1]:
        return None
    M = symmetrize(N.T @ X @ N)
    Phi = some.congruence(N).features(None) / np.maximum(some.norms(), 1e-300)[:, None]
    M -= smat(np.linalg.lstsq(Phi, Phi @ svec(M), rcond=1e-10)[0], len(M))
    t, V = eigh(M)
    return N @ (V * np.sqrt(t)) if t[0] > 0 else None
