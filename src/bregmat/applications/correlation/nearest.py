"""The nearest correlation matrix: a unit diagonal, and perhaps fixed entries, a smallest eigenvalue, a rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat.applications.correlation.blocks import FixedBlocks, fixed_blocks
from bregmat.applications.correlation.input import (
    Limits,
    check_options,
    clipped,
    read_fixed,
    read_matrix,
    scaled,
)
from bregmat.applications.correlation.logdet import LogDetNewton
from bregmat.applications.correlation.newton import DenseChart, Entries, EntryNewton
from bregmat.applications.correlation.rank import of_rank, unit_rows
from bregmat.applications.correlation.result import CorrelationResult, Repair
from bregmat.constraints import Constraints
from bregmat.coordinates import RANK_TOL, Coordinates, Factor
from bregmat.divergences import Divergence, as_divergence
from bregmat.linalg import calm_blas, cholesky, eigh
from bregmat.losses import RowLosses
from bregmat.nearest import nearest_kernel
from bregmat.operators import Operator, Rows
from bregmat.problems import NearestMatrix
from bregmat.result import ExitReason, Record, Status
from bregmat.solve import Outcome, Solver, solve
from bregmat.solvers.dual_newton import DualNewton

INDEFINITE = 1e-9  # share of the largest eigenvalue below which a negative one counts as rounding


@dataclass(frozen=True, eq=False)
class _Found:
    """A matrix, its proof and the story of the run, whichever solver found it."""

    X: np.ndarray
    outcome: Any  # Outcome or Result
    factor: np.ndarray | None = None
    repaired: Repair | None = None


def nearest_correlation(
    C: Any,
    *,
    divergence: Any = "frobenius",
    fixed: Any = None,
    min_eig: float = 0.0,
    rank: int | None = None,
    repair: str | None = None,
    floor: float = 1e-6,
    scale: bool | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Record], Any] | None = None,
) -> CorrelationResult:
    """The correlation matrix nearest to a symmetric matrix, with a proof of how near.

    ``minimize D(X, C)`` over positive semidefinite X with ``X_ii = 1``. Frobenius (``|X - C|^2 / 2``) for matrices that are broken:
    from pairwise missing data, expert judgement, stress tests. LogDet and von Neumann for positive definite ones whose diagonal
    is off: they keep the matrix positive definite, and what has a unit diagonal already comes back as it is.

    Parameters
    ----------
    C : array-like or DataFrame, shape (n, n), or Factor
        Symmetric with a positive diagonal. May be indefinite, and entries may exceed 1, for Frobenius. ``Factor(G0)``: the low-rank
        matrix ``G0 G0'``, whose range is kept.
    divergence : {"frobenius", "logdet", "vonneumann"} or object
    fixed : array-like of bool, shape (n, n), optional
        Symmetric mask of off-diagonal entries that stay exactly as in C.
    min_eig : float
        No eigenvalue of X is below it; in [0, 1), Frobenius only.
    rank : int, optional
        X has at most this rank and comes with its factor. **A heuristic**: a local minimiser from the two spectral starts, status
        FEASIBLE beside the lower bound that the problem without the rank proves. Frobenius, nothing fixed.
    repair : {None, "clip"}
        LogDet and von Neumann only: what to do with a matrix that is not positive definite. "clip" raises eigenvalues below
        ``floor`` to it; ``result.repaired`` tells what that changed. None raises for negative ones; zero ones are kept.
    floor : float
        For ``repair="clip"``; positive, in units of the eigenvalues, whose mean is 1 for a unit diagonal.
    scale : bool, optional
        True divides rows and columns by the square roots of the diagonal first: for covariances. False takes C as it is. None does
        so too, but with Frobenius a diagonal entry that is off by more than 0.1 raises, because C may be a covariance.
    tol : float
        Relative duality gap at which the result is called optimal. An X of gap g is within ``sqrt(2 g max(1, objective))`` of the
        optimum in Frobenius norm (Frobenius).
    max_iter : int, optional
        Limit on Newton steps (200), and on steps of the search with ``rank`` (2000).
    max_seconds : float, optional
        Limit on wall time.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops.

    Returns
    -------
    CorrelationResult
        ``matrix`` is a DataFrame where C was one. Fixed entries that contradict each other end INFEASIBLE, with the entries that
        prove it in ``conflict``; so does a Factor whose range carries no unit diagonal.

    Raises
    ------
    ValueError, TypeError
        For arguments that make no problem, naming the entry; numerical outcomes never raise.

    Notes
    -----
    Frobenius is Qi and Sun's method (2006) with fixed entries, by the shift ``X = min_eig I + Y`` for a smallest eigenvalue; von
    Neumann is the same with another link; LogDet is Newton's method with the Hessian ``X o X`` (Kulis 2009, 3.2, does one row at a
    time). What is returned is certified, not the iterate: ``D^-1/2 X D^-1/2``, moved towards I by the rounding of its largest
    eigenvalue so that no computed eigenvalue is negative; fixed entries are written in, once they are met up to rounding.

    The proof is ``result.dual``: with Y its symmetric matrix and ``d = min_eig``, every correlation matrix X that is allowed has
    ``|X - C|^2 / 2 >= |C - d I|^2 / 2 - |(C - d I - Y)_+|^2 / 2 - dual . b`` with b the prescribed entries (diagonal: ``1 - d``).
    Where a block of fixed entries is singular, X lives on the complement of its null vectors, and ``C - d I - Y`` is restricted to it.

    A step costs one eigendecomposition (LogDet: a few Cholesky factorisations), n^3 operations.
    """
    limits = Limits.of(tol, max_iter, max_seconds, callback)
    D = as_divergence(divergence)
    check_options(D, fixed, min_eig, rank, repair, floor, scale)
    if isinstance(C, Factor):
        if min_eig > 0 or any(option is not None for option in (fixed, rank, repair, scale)):
            raise ValueError("fixed, min_eig, rank, repair and scale need a matrix; a Factor goes without them.")
        G0 = np.asarray(C.G0, dtype=float)
        entries = read_fixed(None, len(G0), None)
        return _result(_in_range(C, G0, entries, D, limits), G0 @ G0.T, entries, D, 0.0, limits)
    A, labels = read_matrix(C)
    A = scaled(A, scale, not D.keeps_range)
    entries = read_fixed(fixed, len(A), labels)
    if rank is not None and rank > len(A):
        raise ValueError(f"rank must be between 1 and n = {len(A)}; got {rank}.")
    with calm_blas(len(A)), np.errstate(all="ignore"):
        if D.keeps_range:
            found = _definite(D, A, entries, floor if repair == "clip" else None, limits)
        else:
            found = _nearest_entries(D, A, eigh(_shifted(A, min_eig)), entries, min_eig, limits)
        result = _result(found, A, entries, D, float(min_eig), limits)
        if rank is not None:
            result = of_rank(result, A, int(rank), limits)
    result.labels = labels
    result.seconds = limits.passed()
    return result


# ---------------------------------------------------------------- the problems
def _shifted(A: np.ndarray, min_eig: float) -> np.ndarray:
    """``C - min_eig I``."""
    return A - min_eig * np.eye(len(A)) if min_eig else A


def _problem(D: Divergence, t0: np.ndarray, operator: Operator, bound: np.ndarray) -> NearestMatrix:
    """Hard equalities in the unit of a correlation."""
    one = np.ones(len(bound))
    losses = RowLosses(bound, np.zeros(len(bound), np.int8), one, one, np.full(len(bound), "hard"))
    return NearestMatrix(D, t0, operator, losses, one)


def _constraints(A: np.ndarray, entries: Entries, diagonal: float = 1.0) -> Constraints:
    """The rows: the diagonal, and entries as they are in C."""
    rows = Constraints.diagonal(np.full(entries.n, diagonal))
    if entries.has_pairs:
        i, j = entries.i, entries.j
        rows = rows + Constraints.similarity(i, j, A[i, j], "==")
    return rows


def _run(problem: NearestMatrix, solver: Solver, limits: Limits) -> Outcome:
    return solve(
        problem,
        solver,
        tol=limits.tol,
        max_iter=limits.max_iter,
        max_seconds=limits.left(),
        callback=limits.callback,
    )


def _nearest_entries(
    D: Divergence,
    A: np.ndarray,
    spectrum: tuple[np.ndarray, np.ndarray],
    entries: Entries,
    min_eig: float,
    limits: Limits,
    repaired: Repair | None = None,
) -> _Found:
    """Frobenius and von Neumann, in the coordinates of the eigenvectors of the prior."""
    values, Q = spectrum
    t0, operator = D.link(values), Rows(Q)
    bound = np.concatenate([np.full(entries.n, 1.0 - min_eig), A[entries.i, entries.j]])
    mirror = (Q * t0) @ Q.T if D.keeps_range else _shifted(A, min_eig)
    problem = _problem(D, t0, operator, bound)
    blocks = FixedBlocks()
    if entries.has_pairs:
        _, bound_rows = Coordinates(Q, t0).bind(_constraints(A, entries), in_span=False)
        problem = replace(problem, operator=bound_rows)
        blocks = fixed_blocks(entries, entries.adjoint(np.r_[bound[: entries.n], 2.0 * bound[entries.n :]]))
    if blocks.basis is not None and not D.keeps_range:
        return _without_null_space(problem, mirror, blocks.basis, A, entries, min_eig, limits)
    solver = EntryNewton(entries, mirror, Q, blocks.proof)
    outcome = _run(problem, solver, limits)
    if "proof" in outcome.trace:
        y = outcome.trace["proof"]
        proven = replace(outcome.certificate, dual=y, gap=np.inf)
        outcome = replace(
            outcome,
            certificate=proven,
            status=Status.INFEASIBLE,
            exit_reason=ExitReason.CERTIFICATE,
            conflict=np.flatnonzero(y),
        )
    chart = outcome.certificate.chart
    if isinstance(chart, DenseChart):
        X = chart.X
    else:
        X = _written(Q @ chart.matrix() @ Q.T, A, entries, outcome, 1.0 - min_eig)
    return _Found(_lifted(X, min_eig), outcome, repaired=repaired)


def _without_null_space(
    problem: NearestMatrix,
    mirror: np.ndarray,
    N: np.ndarray,
    A: np.ndarray,
    entries: Entries,
    min_eig: float,
    limits: Limits,
) -> _Found:
    """Frobenius with fixed blocks that are singular: ``X = N M N'``, where the rows leave room again."""
    t0, V = eigh(N.T @ mirror @ N)
    base = N @ V
    _, operator = Coordinates(base, t0).bind(_constraints(A, entries), in_span=False)
    offset = 0.5 * (float((problem.t0**2).sum()) - float((t0**2).sum()))
    outcome = _run(replace(problem, t0=t0, operator=operator, offset=offset), DualNewton(), limits)
    X = base @ outcome.certificate.chart.matrix() @ base.T
    return _Found(_lifted(_written(X, A, entries, outcome, 1.0 - min_eig), min_eig), outcome)


def _lifted(X: np.ndarray, min_eig: float) -> np.ndarray:
    """``X + min_eig I`` with a unit diagonal."""
    if min_eig:
        X = X + min_eig * np.eye(len(X))
        np.fill_diagonal(X, 1.0)
    return X


def _written(X: np.ndarray, A: np.ndarray, entries: Entries, outcome: Any, diagonal: float = 1.0) -> np.ndarray:
    """X with the prescribed entries written in, where they are met up to rounding."""
    X = 0.5 * (X + X.T)
    if outcome.status in (Status.OPTIMAL, Status.FEASIBLE):
        X[entries.i, entries.j] = X[entries.j, entries.i] = A[entries.i, entries.j]
        np.fill_diagonal(X, diagonal)
    return X


def _definite(D: Divergence, A: np.ndarray, entries: Entries, floor: float | None, limits: Limits) -> _Found:
    """LogDet and von Neumann: a positive definite prior, a singular one whose range is kept, or one that is repaired."""
    repaired, prior = None, A
    plain = D.is_congruence_invariant and not entries.has_pairs  # then Newton's method needs no eigenvectors
    if plain and floor is None:
        L, ok = cholesky(A)
        if ok and _is_well_conditioned(A, L):
            return _logdet(D, A, L, entries, limits, None)
    values, Q = eigh(A)
    top = float(np.abs(values).max())
    if floor is not None:
        values, repaired = clipped(values, floor)
    elif values[0] < -INDEFINITE * top:
        raise ValueError(
            f"C must be positive semidefinite for {D.name}; its smallest eigenvalue is {values[0]:.3g}, and "
            f'{int((values < -INDEFINITE * top).sum())} are negative. repair="clip" raises them to floor; '
            'divergence="frobenius" takes C as it is.'
        )
    if repaired is not None:
        prior = (Q * values) @ Q.T
        prior = 0.5 * (prior + prior.T)
    if values[0] <= RANK_TOL * top and not D.is_congruence_invariant:
        L, ok = cholesky(prior)
        if ok and _is_well_conditioned(prior, L):
            raise ValueError(
                f"C has eigenvalues from {values[0]:.3g} to {top:.3g}, which is singular for {D.name}, only because its variables differ "
                "in scale; scale=True divides by the standard deviations."
            )
    if values[0] > RANK_TOL * top:
        if not D.is_congruence_invariant:
            return _nearest_entries(D, A, (values, Q), entries, 0.0, limits, repaired)
        L, ok = cholesky(prior)
        if plain and ok:
            return _logdet(D, prior, L, entries, limits, repaired)
    return replace(_in_range(prior, A, entries, D, limits), repaired=repaired)


def _is_well_conditioned(A: np.ndarray, L: np.ndarray) -> bool:
    """Whether the condition number (1-norm, estimated) of ``A = L L'``, scaled to a unit diagonal, is below 1e10."""
    from scipy.linalg import get_lapack_funcs

    d = 1.0 / np.sqrt(np.diag(A))
    norm = d * (np.abs(A) @ d)
    return bool(
        get_lapack_funcs("pocon", dtype=np.float64)(np.asfortranarray(d[:, None] * L), norm.max(), uplo="L")[0] > 1e-10
    )


def _logdet(
    D: Divergence, A: np.ndarray, L: np.ndarray, entries: Entries, limits: Limits, repaired: Repair | None
) -> _Found:
    """LogDet with nothing fixed; the general method where rounding stops the quick one."""
    problem = _problem(D, np.full(len(A), -1.0), Rows(L), np.ones(len(A)))
    outcome = _run(problem, LogDetNewton(L), limits)
    if outcome.exit_reason in (ExitReason.STALLED, ExitReason.NONFINITE):
        return replace(_in_range(A, A, entries, D, limits), repaired=repaired)
    return _Found(outcome.certificate.chart.matrix(), outcome, repaired=repaired)


def _in_range(prior: Any, A: np.ndarray, entries: Entries, D: Divergence, limits: Limits) -> _Found:
    """A prior whose range is kept, or LogDet with fixed entries: the general method."""
    result = nearest_kernel(
        prior,
        _constraints(A, entries),
        divergence=D,
        tol=limits.tol,
        max_iter=limits.max_iter,
        max_seconds=limits.left(),
        callback=limits.callback,
    )
    G = result.factor
    if result.status in (Status.OPTIMAL, Status.FEASIBLE) and not entries.has_pairs:
        G = unit_rows(G)
    return _Found(_written(G @ G.T, A, entries, result), result, factor=G if isinstance(prior, Factor) else None)


# ---------------------------------------------------------------- results
def _result(
    found: _Found, A: np.ndarray, entries: Entries, D: Divergence, min_eig: float, limits: Limits
) -> CorrelationResult:
    """What was found, with everything a user asks of it."""
    outcome, X = found.outcome, found.X
    rows = np.column_stack([np.r_[np.arange(entries.n), entries.i], np.r_[np.arange(entries.n), entries.j]])
    proof = outcome.certificate
    missed = np.abs(np.r_[np.diag(X) - 1.0, (X - A)[entries.i, entries.j]])
    return CorrelationResult(
        X=X,
        status=outcome.status,
        exit_reason=outcome.exit_reason,
        objective=proof.objective,
        dual_bound=proof.dual_bound,
        gap=proof.gap,
        max_violation=float(missed.max()),
        residual=float(np.linalg.norm(X - A)),
        divergence=D.name,
        rows=rows,
        dual=proof.dual,
        tol=limits.tol,
        min_eig=float(min_eig),
        n_iter=outcome.n_iter,
        seconds=limits.passed(),
        solver=outcome.solver,
        repaired=found.repaired,
        factor=found.factor,
        conflict=None if outcome.conflict is None else rows[outcome.conflict],
        history=outcome.history,
    )
