"""Nonnegative least squares: a quadratic program with a Gram matrix, whose solution is certified from the data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from bregmat.base.checks import as_column, as_matrix
from bregmat.base.threads import single_thread_blas
from bregmat.base.tolerances import TINY
from bregmat.engine.loop import Outcome, RunLog, returns_result
from bregmat.engine.status import ExitReason, Record, Status
from bregmat.quadratic.arguments import RANGE, as_equality, as_start, as_upper, check_range
from bregmat.quadratic.certificate import QPCertificate
from bregmat.quadratic.multiplicative import MultiplicativeUpdates
from bregmat.quadratic.program import QuadraticProgram
from bregmat.quadratic.result import QPResult
from bregmat.quadratic.solve import Request, minimize, result_of
from bregmat.typing import Points, QPSolverName, Values


@returns_result
def nonnegative_least_squares(
    X: Points,
    y: Values,
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
    """``minimize 1/2 |X v - y|^2`` over ``0 <= v <= upper``, ``E v = e``.

    Parameters
    ----------
    X : array-like or sparse matrix, shape (m, n)
        Of any shape and rank.
    y : array-like, shape (m,)
    x0, upper, equality, solver, tol, max_iter, max_seconds, callback
        As for :func:`bregmat.nnqp`, with n variables.

    Returns
    -------
    QPResult
        ``x`` is v; ``dual`` is ``X'(X v - y)`` (plus ``E' equality_dual``), computed from the residual; ``objective`` and
        ``dual_bound`` are in units of ``1/2 |y|^2``; ``gap`` is relative to the larger of the objective without its constant
        and ``1/2 |X v|^2``.

    Raises
    ------
    ValueError, TypeError
        As :func:`bregmat.nnqp`, for X and y in place of A and b. The largest entry of y and of every column of X must be 0 or
        between 1e-30 and 1e30 in absolute value.

    Notes
    -----
    The Gram matrix squares the condition number of X. Cost: m n^2 for the Gram matrix, and a solution by :func:`bregmat.nnqp`.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import nonnegative_least_squares
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> nonnegative_least_squares(X, [2.0, 1.0, -1.0]).x.round(6)
    array([1.5, 0. ])
    """
    X = as_matrix("X", X, sparse="csc", booleans=True)
    X = X if sparse.issparse(X) else np.ascontiguousarray(X)
    y = np.ascontiguousarray(as_column("y", y, X.shape[0], per="row of X"))
    bounds = as_upper(upper, X.shape[1])
    E, e = as_equality(equality, X.shape[1])
    start = as_start(x0, bounds)
    request = Request.of(solver, E, tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback)
    _check_sizes(X, y)
    if request.name == "auto" and X.shape[0] < X.shape[1]:
        request = replace(request, name="active_set")  # pivoting would give up, because the Gram matrix is singular
    clock = time.perf_counter()
    with single_thread_blas(), np.errstate(all="ignore"):
        G = X.T @ X
        G = np.ascontiguousarray(G.toarray() if sparse.issparse(G) else G)
        problem = QuadraticProgram(G, -(X.T @ y), bounds, E, e)
        constant = 0.5 * float(y @ y)  # the program lacks it
        log = RunLog(
            callback,
            max_seconds,
            lambda row: replace(row, objective=row.objective + constant, dual_bound=row.dual_bound + constant),
            clock=clock,
        )
        outcome = minimize(problem, start, request, log, trusted=True)
        proof = _in_terms_of_data(outcome, problem, X, y)
        status = outcome.status
        if status is Status.UNBOUNDED:  # by rounding: a sum of squares is bounded
            status, outcome = Status.FEASIBLE, replace(outcome, exit_reason=ExitReason.STALLED)
        if status is Status.FEASIBLE and proof.gap <= tol:
            status = Status.OPTIMAL
        log.units = None  # the certificate has the constant
        log.history.pop()  # the certificate of the program
        log.note(outcome.n_iter, **proof.figures)
        return result_of(replace(outcome, certificate=proof, status=status), problem)


def _check_sizes(X: Any, y: np.ndarray) -> None:
    """Raise for columns whose squares would leave the range in which products do not overflow."""
    if sparse.issparse(X):
        largest = abs(X).max(axis=0).toarray().ravel()
    else:
        largest = np.maximum(X.max(axis=0), -X.min(axis=0))
    limit = RANGE**0.5
    for j in (int(largest.argmax()), int(np.where(largest > 0.0, largest, np.inf).argmin())):
        check_range(f"the largest entry of column {j} of X", float(largest[j]), limit)
    check_range("the largest |y|", float(np.abs(y).max()), limit)


def _in_terms_of_data(outcome: Outcome, problem: QuadraticProgram, X: Any, y: np.ndarray) -> QPCertificate:
    """The certificate with ``1/2 |X v - y|^2`` and its gradient from the residual; the distance of the bound stays the same."""
    proof = outcome.certificate
    image = X @ proof.x
    residual = image - y
    gradient = X.T @ residual
    objective, excess = 0.5 * float(residual @ residual), proof.objective - proof.dual_bound
    proof = replace(proof, objective=objective, dual_bound=objective - excess, excess=excess)
    if outcome.status is Status.INFEASIBLE:
        return replace(proof, dual=gradient)
    h = problem.reduced(gradient, proof.equality_dual)
    upper = objective if proof.is_feasible or outcome.status is Status.UNBOUNDED else np.inf
    proof = replace(proof, upper=upper, dual=h, kkt_residual=problem.residual(proof.x, h))
    if not proof.is_feasible or not proof.dual_bound < 0.0:
        return proof
    # A sum of squares is at least 0, which is better than the dual bound if y is nearly reached.
    size = max(objective, 0.5 * float(image @ image), TINY)
    gap = min(proof.gap, objective / size)
    return replace(proof, dual_bound=0.0, bound_perturbation=0.0, excess=gap * size, size=size)
