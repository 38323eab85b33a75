"""Correlation matrices with k factors, ``L L' + D``: a local optimum beside a proven bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bregmat.applications.correlation.entries import Entries, FixedBlocks
from bregmat.applications.correlation.input import read_input
from bregmat.applications.correlation.nearest import result_of, solve_correlation
from bregmat.applications.correlation.problem import CorrelationProblem
from bregmat.applications.correlation.rank import of_rank
from bregmat.applications.correlation.result import CorrelationResult
from bregmat.base.checks import check_integer, check_limits
from bregmat.base.interrupts import tells_interrupts
from bregmat.base.threads import on_one_blas_thread
from bregmat.run.loop import RunLog
from bregmat.run.result import Record
from bregmat.typing import Table


@tells_interrupts
@on_one_blas_thread
def factor_correlation(
    C: Table,
    n_factors: int,
    *,
    scale: bool | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> CorrelationResult:
    """A correlation matrix with k-factor structure near a symmetric matrix, with a proven lower bound of its distance.

    ``minimize |X - C|^2 / 2`` over ``X = L L' + D`` with L of k columns, D diagonal and not negative, and ``X_ii = 1``. Use it where a
    few factors drive all variables, and each has a variance of its own. ``nearest_correlation(C, rank=k)`` is without D.

    Parameters
    ----------
    C : array-like or DataFrame (pandas, polars), shape (n, n)
        Symmetric with a positive diagonal. May be indefinite, and entries may exceed 1.
    n_factors : int
        Number k of factors, from 1 to n.
    scale : bool, optional
        As in :func:`nearest_correlation`: True for a covariance.
    tol : float
        Relative gap at which the result is called optimal.
    max_iter : int, optional
        Limit on the steps of the two searches (4000).
    max_seconds : float, optional
        Limit on wall time.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops.

    Returns
    -------
    CorrelationResult
        ``matrix`` is X in the form of C, ``factor`` is L, and ``1 - (factor**2).sum(axis=1)`` is the diagonal of D. **The problem is
        not convex**: the status is FEASIBLE with the gap that is left, and OPTIMAL only where the bound is reached.

    Raises
    ------
    ValueError, TypeError
        For arguments that make no problem, naming the entry; numerical outcomes never raise.

    Notes
    -----
    The problem is that of Borsdorf, Higham and Raydan (Computing a nearest correlation matrix with factor structure, 2010). Limited-
    memory BFGS runs from two starts: the spectrum of the nearest correlation matrix, and principal factors of C.

    The bound is the largest of three: that of the nearest correlation matrix of any form; the eigenvalues of C beyond the k-th that
    exceed 1, and those below 0 (Mirsky's and Weyl's inequalities, because ``0 <= D <= I``); and the singular values beyond the k-th
    of blocks off the diagonal, which D does not reach. :func:`verify` recomputes it.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import factor_correlation
    >>> loadings = np.array([[0.9], [0.8], [-0.5], [0.6]])
    >>> C = loadings @ loadings.T
    >>> np.fill_diagonal(C, 1.0)
    >>> result = factor_correlation(C, 1)
    >>> print(result.status, np.abs(result.factor).round(3).ravel())
    OPTIMAL [0.9 0.8 0.5 0.6]
    """
    check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback)
    given = read_input(C, scale)
    n = len(given.C)
    check_integer("n_factors", n_factors, 1, optional=False)
    if n_factors > n:
        raise ValueError(f"n_factors must be between 1 and n = {n}; got {n_factors}.")
    log, entries = RunLog(callback, max_seconds), Entries.of_diagonal(n)
    problem = CorrelationProblem.frobenius(given.C, entries, 0.0, FixedBlocks())
    convex = solve_correlation(problem, tol=tol, max_iter=max_iter, log=log)
    outcome = of_rank(convex, given.C, int(n_factors), max_iter=max_iter, log=log, has_variances=True)
    return result_of(outcome, given, entries.rows, n_factors=int(n_factors))
