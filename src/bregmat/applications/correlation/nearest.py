"""The nearest correlation matrix, with fixed entries, weights, bounds, a smallest eigenvalue, a rank, or factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bregmat.applications.correlation.entries import Entries
from bregmat.applications.correlation.input import MatrixInput, read_fixed, read_input, weights_of_known
from bregmat.applications.correlation.newton import EntryNewton
from bregmat.applications.correlation.path import MAX_FREE, FreeEntryPath
from bregmat.applications.correlation.problem import CorrelationProblem
from bregmat.applications.correlation.rank import FactorSearch
from bregmat.applications.correlation.result import CorrelationResult
from bregmat.applications.correlation.weighted import SplitBox, pose_weighted
from bregmat.base.checks import check_integer, check_limits
from bregmat.base.linalg import add_diagonal, cholesky, eigh, eigvalsh
from bregmat.base.threads import returns_result
from bregmat.coordinates.priors import RANK_TOL
from bregmat.engine.loop import Run, RunLog, Solver, compose, solve, solve_sequence
from bregmat.engine.status import Record
from bregmat.objective.divergences import DIVERGENCES
from bregmat.objective.spectral import SpectralDivergence
from bregmat.solvers.base import AUTO
from bregmat.solvers.dual_newton import DualNewton
from bregmat.typing import DivergenceName, Labels, Table

QUICK = 25  # steps of Newton's method with fixed entries before another method is tried; most problems take 5 to 20
QUICK_LOGDET = 8  # the same for LogDet; most problems take 3 to 10 steps
LEAST_PIVOT = 1e-10  # of the Cholesky factorisation of a LogDet prior with a unit diagonal


@returns_result
def nearest_correlation(
    C: Table,
    *,
    divergence: DivergenceName | SpectralDivergence = "frobenius",
    fixed: Labels | None = None,
    weights: Table | None = None,
    bounds: tuple[Table | float | None, Table | float | None] | None = None,
    min_eig: float = 0.0,
    rank: int | None = None,
    scale: bool | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> CorrelationResult:
    """Find the correlation matrix nearest to a symmetric matrix, with a proof of the distance.

    ``minimize D(X, C)`` over positive semidefinite X with ``X_ii = 1``. Use Frobenius (``|X - C|^2 / 2``) for indefinite matrices:
    from pairwise missing data, expert judgement or stress tests. Use LogDet or von Neumann for positive definite matrices whose
    diagonal is not 1: the result is positive definite, too.

    Parameters
    ----------
    C : array-like or DataFrame (pandas, polars), shape (n, n)
        Symmetric with a positive diagonal. For Frobenius it may be indefinite, and entries may exceed 1. For LogDet and von Neumann
        it must be positive definite.
    divergence : {"frobenius", "logdet", "vonneumann"} or object
    fixed : array-like of bool, shape (n, n), optional
        Symmetric mask of entries that stay exactly as in C; a fixed diagonal entry must be 1, up to rounding. Other entries of C may
        be NaN, which counts as a weight of 0. Frobenius only, as are `weights`, `bounds`, `min_eig` and `rank`.
    weights : array-like or DataFrame, shape (n, n), optional
        Symmetric and not negative: ``1/2 sum (weights_ij (X_ij - C_ij))^2`` is minimised. 0, False or NaN means that the entry is
        unknown, and C may be NaN there. The diagonal is ignored, and may be NaN in C without `scale`.
    bounds : pair (lower, upper), optional
        Numbers, symmetric matrices (n, n) or None: ``lower_ij <= X_ij <= upper_ij`` off the diagonal.
    min_eig : float
        Lower bound of the eigenvalues of X, in [0, 1).
    rank : int, optional
        Largest rank of X. **This search is a heuristic**: it finds a local minimiser from two spectral starts (rank 1: the better
        start). The status is FEASIBLE, with the lower bound of the problem without a rank. It cannot be combined
        with `fixed`, `weights`, `bounds` or `min_eig`.
    scale : bool, optional
        For covariances. True first divides rows and columns by the square roots of the diagonal; ``result.covariance`` is the
        repaired matrix with its variances. A variance of 0 stays 0, and its correlations count as unknown. False takes C as it is. None
        does so, too, but with Frobenius a diagonal entry that differs from 1 by more than 0.1 raises an error, because C may be a
        covariance.
    tol : float
        Relative duality gap at which the result is called optimal. An X with gap g is within ``sqrt(2 g max(1, objective))`` of the
        optimum in Frobenius norm (Frobenius).
    max_iter : int, optional
        Limit on Newton steps (200), on splitting steps with `weights` or `bounds` (1000), and on steps of the searches with `rank` (4000).
    max_seconds : float, optional
        Limit on wall time.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops.

    Returns
    -------
    CorrelationResult
        ``matrix`` is a DataFrame of the same library if C is one. If fixed entries or bounds contradict each other, the status is
        INFEASIBLE, and ``conflict`` has the entries that prove it.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, with the first offending entry; numerical outcomes never raise.

    Notes
    -----
    Frobenius: Newton's method of Qi and Sun (2006), with fixed entries as further constraints, and the shift ``X = min_eig I + Y`` for a
    smallest eigenvalue. With fixed entries and at most 4000 free ones, 25 such steps are followed by an interior-point method in
    the free entries, if the problem is not solved by then. Von Neumann: Newton's method with another link. LogDet: Newton's method
    with the Hessian ``X o X``, and after 8 steps the interior-point method of :func:`bregmat.nearest_kernel`, unless Newton's method
    converges fast; Kulis 2009, section 3.2, projects onto one diagonal entry at a time. The certificate is that of the
    returned matrix, ``D^-1/2 X D^-1/2`` for the last iterate X with the diagonal D. Fixed entries are written into it. If that makes
    an eigenvalue too small, the matrix is moved towards the fixed entries with 0 elsewhere, where these are definite.

    The multipliers prove the bound: let Y be their symmetric matrix (Attributes of :class:`CorrelationResult`), ``d = min_eig`` and b
    the prescribed entries (diagonal: ``1 - d``). Every feasible X has
    ``|X - C|^2 / 2 >= |C - d I|^2 / 2 - |(C - d I - Y)_+|^2 / 2 - dual . b``.
    If a block of fixed entries is singular up to rounding, its null vectors ``V = result.null_space`` are null vectors of X, and the
    second term has ``N' (C - d I - Y) N`` with N orthonormal, ``N' V = 0``. If fixed entries or bounds allow only matrices that are
    nearly singular, the status is FEASIBLE or UNKNOWN.

    With weights or bounds the proof is the multiplier S >= 0 of ``X >= d I``: ``result.rows`` are all entries i <= j, and
    ``result.dual`` is S_ii and 2 S_ij. The Lagrangian is a sum over entries, so its minimum within the bounds is a lower bound for every
    S >= 0 (compare Qi and Sun, An augmented Lagrangian dual approach for the H-weighted nearest correlation matrix problem, 2011).
    The method is Douglas-Rachford splitting with Anderson acceleration. With unknown entries the optimum is not unique.

    A step costs one eigendecomposition (LogDet: a few Cholesky factorisations), n^3 operations.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import nearest_correlation
    >>> broken = np.array([[1.0, 0.9, 0.7], [0.9, 1.0, -0.2], [0.7, -0.2, 1.0]])  # an eigenvalue is -0.24
    >>> result = nearest_correlation(broken)
    >>> print(result.status, round(result.residual, 4))
    OPTIMAL 0.3038
    >>> result.matrix.round(2)
    array([[ 1.  ,  0.75,  0.58],
           [ 0.75,  1.  , -0.1 ],
           [ 0.58, -0.1 ,  1.  ]])
    """
    check_limits(tol=tol, max_iter=max_iter, max_seconds=max_seconds, callback=callback)
    limits: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "log": RunLog(callback, max_seconds)}
    D = DIVERGENCES.resolve(divergence)
    if fixed is not None and weights is None:
        weights = weights_of_known(C)
    is_weighted = weights is not None or bounds is not None
    _check_options(D, is_weighted, fixed is not None, rank)
    if is_weighted:
        matrix, weighted = pose_weighted(C, weights, bounds, fixed, min_eig, scale)
        run = solve(weighted, SplitBox(), **limits)
        i, j = np.triu_indices(len(weighted.C))
        known = np.where((weighted.h2 > 0) | (np.eye(len(weighted.C)) > 0), weighted.C, run.certificate.X)
        dual = run.certificate.dual[i, j] * np.where(i == j, 1.0, 2.0)
        return _result_of(run, matrix, np.column_stack([i, j]), float(min_eig), near=known, dual=dual)
    matrix = read_input(C, scale, min_eig, insist=not D.keeps_range)
    low = float(min_eig)
    if D.keeps_range:
        if low > 0.0:
            raise ValueError(f'min_eig needs divergence="frobenius"; got {D.name}.')
        problem = _near_definite(D, matrix)
    else:
        if rank is not None and (fixed is not None or low > 0.0):
            raise ValueError("rank does not go with fixed entries or min_eig.")
        if rank is not None and rank > len(matrix.C):
            raise ValueError(f"rank must be between 1 and n = {len(matrix.C)}; got {rank}.")
        # X - low I is semidefinite
        problem = CorrelationProblem.frobenius(
            add_diagonal(matrix.C.copy(), -low), read_fixed(fixed, matrix, 1.0 - low)
        )
    run = _solved(problem, **limits)
    if rank is not None:
        rank = int(rank)
        run = FactorSearch(run, matrix.C, rank, max_iter).continued()
    return _result_of(run, matrix, problem.entries.rows, low, divergence=D.name, rank=rank)


@returns_result
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
    """Find a correlation matrix with k factors near a symmetric matrix, with a proven lower bound of the distance.

    ``minimize |X - C|^2 / 2`` over ``X = L L' + D`` with L of k columns, D diagonal and nonnegative, and ``X_ii = 1``. Use it if a few
    factors explain the correlations, and each variable has a variance of its own. ``nearest_correlation(C, rank=k)`` has no D.

    Parameters
    ----------
    C : array-like or DataFrame (pandas, polars), shape (n, n)
        Symmetric with a positive diagonal. It may be indefinite, and entries may exceed 1.
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
        not convex**: the status is FEASIBLE, and OPTIMAL only if the bound is reached.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, with the first offending entry; numerical outcomes never raise.

    Notes
    -----
    The problem is that of Borsdorf, Higham and Raydan (Computing a nearest correlation matrix with factor structure, 2010). Limited-
    memory BFGS runs from two starts: the spectrum of the nearest correlation matrix, and principal factors of C.

    The bound is the largest of three: the bound of the nearest correlation matrix without factors; a bound from the eigenvalues of C
    beyond the k-th that exceed 1, and those below 0 (by the inequalities of Mirsky and Weyl, because ``0 <= D <= I``); and a bound from
    the singular values beyond the k-th of blocks off the diagonal, which do not depend on D. :func:`verify` recomputes it.

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
    log = RunLog(callback, max_seconds)
    matrix = read_input(C, scale)
    n = len(matrix.C)
    check_integer("n_factors", n_factors, 1, optional=False)
    if n_factors > n:
        raise ValueError(f"n_factors must be between 1 and n = {n}; got {n_factors}.")
    n_factors = int(n_factors)
    problem = CorrelationProblem.frobenius(matrix.C, Entries.of_diagonal(n))
    convex = _solved(problem, tol=tol, max_iter=max_iter, log=log)
    run = FactorSearch(convex, matrix.C, n_factors, max_iter, has_variances=True).continued()
    return _result_of(run, matrix, problem.entries.rows, n_factors=n_factors)


def _check_options(D: SpectralDivergence, is_weighted: bool, has_fixed: bool, rank: Any) -> None:
    """Raise for options that are not valid, or not valid together."""
    if not (D.keeps_range or D.takes_indefinite):
        raise TypeError(
            "nearest_correlation needs a divergence that keeps the range, or takes indefinite matrices as 'frobenius' does; "
            f"got {D.name!r}."
        )
    check_integer("rank", rank, 1)
    if is_weighted and D.keeps_range:
        raise ValueError(f'weights and bounds need divergence="frobenius"; got {D.name!r}.')
    if is_weighted and rank is not None:
        raise ValueError("weights and bounds do not go with rank.")
    if D.keeps_range and (has_fixed or rank is not None):
        further = ", or nearest_kernel with Constraints.similarity" if has_fixed else ""
        raise ValueError(f'{"fixed" if has_fixed else "rank"} needs divergence="frobenius"{further}; got {D.name}.')


def _near_definite(D: SpectralDivergence, matrix: MatrixInput) -> CorrelationProblem:
    """The problem near a positive definite prior."""
    prior = matrix.C
    if D.is_congruence_invariant:
        basis, ok = cholesky(prior)
        spectrum = np.ones(len(prior))  # of the identity, because C = basis I basis'
        # with a unit diagonal, a pivot is the share of a variable's variance that the variables before it do not explain
        is_definite = ok and bool((np.diag(basis) ** 2 > LEAST_PIVOT * np.diag(prior)).all())
    else:
        spectrum, basis = eigh(prior)
        is_definite = spectrum[0] > RANK_TOL * spectrum[-1]
    if not is_definite:
        x = eigvalsh(prior)
        raise ValueError(
            f"C must be positive definite beyond rounding for {D.name}; its smallest eigenvalue is {x[0]:.3g}, and its largest one "
            f'{x[-1]:.3g}. divergence="frobenius" takes C as it is. Otherwise raise small eigenvalues first: with values, Q = '
            "numpy.linalg.eigh(C), pass (Q * values.clip(1e-6)) @ Q.T. If variables differ in scale, scale=True divides by the standard "
            "deviations."
        )
    entries = Entries.of_diagonal(len(prior))
    return CorrelationProblem(D, D.link(spectrum), C=matrix.C, entries=entries, basis=basis)


def _solved(problem: CorrelationProblem, *, tol: float, max_iter: int | None, log: RunLog) -> Run:
    """A run of Newton's method for the divergence, of the general one on the complement of null vectors, or of a plan.

    With fixed entries Newton's method has ``QUICK`` steps, more if it converges fast. Then the interior-point method follows. So does that
    of problem (P) for LogDet, with a start far from the prior.
    """
    newton: Solver = EntryNewton() if problem.is_whole else DualNewton()
    limit = newton.max_iter if max_iter is None else max_iter
    plan = [(newton, limit)]
    if problem.divergence.is_congruence_invariant:
        plan = [(newton, min(QUICK_LOGDET, limit)), (AUTO["afar"], limit)]
    elif problem.entries.has_pairs and problem.is_whole and 0 < problem.entries.n_free <= MAX_FREE:
        path = FreeEntryPath()
        plan = [(newton, min(QUICK, limit)), (path, min(path.max_iter, limit)), *plan]
    return solve_sequence(problem, plan, tol=tol, log=log)


def _result_of(
    run: Run, matrix: MatrixInput, rows: np.ndarray, low: float = 0.0, *, near: Any = None, **more: Any
) -> CorrelationResult:
    """The result of a run, with multipliers of the entries ``rows``; the residual is the distance from ``near``, by default the input.

    The certificate has the matrix less ``low I``.
    """
    X = run.certificate.X
    if low > 0.0:
        np.fill_diagonal(X, np.where(np.diag(X) == 1.0 - low, 1.0, np.diag(X) + low))
    residual = float(np.linalg.norm(X - (matrix.C if near is None else near)))
    conflict = None if run.proof is None else rows[run.proof.rows]
    own = matrix.form | {"divergence": "frobenius", "min_eig": low} | more
    return compose(CorrelationResult, run, **own, conflict=conflict, residual=residual, rows=rows)
