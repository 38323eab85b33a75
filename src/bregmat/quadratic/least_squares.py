"""Nonnegative least squares: the Gram matrix is formed here, and its rounding is corrected from the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from bregmat.base.checks import as_column, as_matrix
from bregmat.base.threads import single_thread_blas, take_interrupt, tells_interrupts
from bregmat.quadratic.arguments import RANGE, as_equality, as_start, as_upper, check_range
from bregmat.quadratic.certificate import QPCertificate
from bregmat.quadratic.multiplicative import MultiplicativeUpdates
from bregmat.quadratic.problem import NonnegativeQP
from bregmat.quadratic.result import QPResult
from bregmat.quadratic.solve import Request, minimize, result_of
from bregmat.run.loop import Outcome, RunLog
from bregmat.run.result import ExitReason, Record, Status
from bregmat.typing import Points, QPSolverName, Values

CORRECTIONS = 3
EXACT = 1e-14  # KKT residual, with the gradient from the data, below which no correction is needed


@tells_interrupts
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
    The Gram matrix squares the condition number. To compensate, the problem is solved again with the linear term
    ``-X'(y - X v) - A v``, for which the gradient at v is exact, until the gradient from the residual satisfies the conditions (as in
    the corrected seminormal equations of Bjorck 1987). Cost: m n^2 for the Gram matrix, and a solution by :func:`bregmat.nnqp`
    whose later rounds start at the end of the first.

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
    limits: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "max_seconds": max_seconds, "callback": callback}
    request = Request.of(solver, E, **limits)
    _check_sizes(X, y)
    with single_thread_blas(), np.errstate(all="ignore"):
        data = _Data(X, y)
        problem = data.problem(bounds, E, e)
        log = RunLog(callback, max_seconds, data.with_constant)
        return result_of(_Corrections(data, problem, request, log).run(start), problem)


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


@dataclass(frozen=True, eq=False)
class _Data:
    """X (m, n) and y (m,)."""

    X: Any
    y: np.ndarray

    def problem(self, upper: np.ndarray, E: np.ndarray, e: np.ndarray) -> NonnegativeQP:
        """The quadratic program with ``A = X'X``, ``b = -X'y``."""
        G = self.X.T @ self.X
        G = np.ascontiguousarray(G.toarray() if sparse.issparse(G) else G)
        return NonnegativeQP(G, -(self.X.T @ self.y), upper, E, e)

    def gradient(self, v: np.ndarray) -> np.ndarray:
        """``X'(X v - y)``, shape (n,)."""
        return self.X.T @ (self.X @ v - self.y)

    def with_constant(self, record: Record) -> Record:
        """A record with the constant ``1/2 |y|^2``, which the program lacks."""
        constant = 0.5 * float(self.y @ self.y)
        return replace(record, objective=record.objective + constant, dual_bound=record.dual_bound + constant)

    def in_units_of_data(self, proof: QPCertificate) -> QPCertificate:
        """The certificate with ``1/2 |X v - y|^2`` from the residual; the bound is at least 0, and has the same distance from it."""
        image = self.X @ proof.x
        residual = image - self.y
        objective, excess = 0.5 * float(residual @ residual), proof.objective - proof.dual_bound
        proof = replace(
            proof,
            objective=objective,
            dual_bound=objective - excess,
            upper=objective if proof.is_feasible else np.inf,
            excess=excess,
        )
        if not proof.is_feasible or not proof.dual_bound < 0.0:
            return proof
        # A sum of squares is at least 0, which is better than the dual bound if y is nearly reached.
        size = max(objective, 0.5 * float(image @ image), 1e-300)
        gap = min(proof.gap, objective / size)
        return replace(proof, dual_bound=0.0, bound_perturbation=0.0, excess=gap * size, size=size)


class _Corrections:
    """Solutions with the Gram matrix, each with the linear term for which the gradient is exact at the last point."""

    def __init__(self, data: _Data, problem: NonnegativeQP, request: Request, log: RunLog) -> None:
        self.data, self.problem, self.log = data, problem, log
        # For a singular Gram matrix, pivoting would give up after some factorisations.
        is_wide = data.X.shape[0] < data.X.shape[1]
        self.request = replace(request, name="active_set") if request.name == "auto" and is_wide else request
        self.best: Outcome | None = None

    def run(self, start: np.ndarray | None) -> Outcome:
        """The corrected solution; after a KeyboardInterrupt the best point so far, if there is one."""
        try:
            self._solve_repeatedly(start)
        except KeyboardInterrupt:
            if self.best is None:
                raise
            take_interrupt()
            self.best = replace(self.best, exit_reason=ExitReason.INTERRUPTED)
        assert self.best is not None
        found, log = self.best, self.log
        proof, status = self.data.in_units_of_data(found.certificate), found.status
        if status is Status.FEASIBLE and proof.gap <= self.request.tol:
            status = Status.OPTIMAL
        log.units = None  # the certificate has the constant
        last = log.note(0, **proof.figures)
        return replace(
            found, certificate=proof, status=status, n_iter=log.before, seconds=last.seconds, history=log.history
        )

    def _solve_repeatedly(self, start: np.ndarray | None) -> None:
        """Solve, and again with the linear term for which the gradient at the last point is exact, while that reduces the residual."""
        problem, request = self.problem, self.request
        current = problem
        for _ in range(1 + CORRECTIONS):
            outcome = minimize(current, start, request, self.log, trusted=True)
            self.log.before += outcome.n_iter
            del self.log.history[-1]  # a certificate of the program with the current linear term
            proof = outcome.certificate
            v = proof.x
            accurate = self.data.gradient(v)
            if outcome.status is Status.INFEASIBLE:
                self.best = replace(outcome, certificate=replace(proof, dual=accurate))
                return
            if outcome.status is Status.UNBOUNDED:  # by rounding: a sum of squares is bounded
                outcome = replace(outcome, status=Status.FEASIBLE, exit_reason=ExitReason.STALLED)
                proof = replace(proof, upper=proof.objective)
            h = problem.reduced(accurate, proof.equality_dual)
            residual = problem.residual(v, h)
            before = np.inf if self.best is None else self.best.certificate.kkt_residual
            if self.best is None or residual < before:
                self.best = replace(outcome, certificate=replace(proof, dual=h, kkt_residual=residual))
            is_exact = residual <= EXACT or residual > before
            if request.updates is not None or is_exact or outcome.exit_reason is not ExitReason.TOLERANCE:
                return
            # the gradient of 1/2 x'Ax + (g - A v)'x at x = v is g = X'(X v - y), without the rounding of A
            current = replace(problem, b=accurate - problem.A @ v)
            start = v
