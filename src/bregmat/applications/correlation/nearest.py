"""The nearest correlation matrix: a unit diagonal, and perhaps fixed entries, a smallest eigenvalue, a rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bregmat.applications.correlation.blocks import fixed_blocks
from bregmat.applications.correlation.entries import (
    Found,
    checked,
    entry_constraints,
    entry_problem,
    nearest_entries,
    prescribed,
    run_within,
    shifted,
    written,
)
from bregmat.applications.correlation.input import (
    Limits,
    check_options,
    clipped,
    read_fixed,
    read_matrix,
    scaled,
)
from bregmat.applications.correlation.logdet import LogDetNewton
from bregmat.applications.correlation.newton import Entries
from bregmat.applications.correlation.rank import of_rank, unit_rows
from bregmat.applications.correlation.result import CorrelationResult, Repair
from bregmat.coordinates import RANK_TOL, Factor
from bregmat.divergences import Frobenius, as_divergence
from bregmat.linalg import cholesky, eigh, single_thread_blas
from bregmat.nearest import nearest_kernel
from bregmat.operators import RankOneRows
from bregmat.result import ExitReason, Record, Status
from bregmat.spectral import SpectralDivergence

INDEFINITE = 1e-9  # share of the largest eigenvalue below which a negative one counts as rounding


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
        ``matrix`` is a DataFrame where C was one; it raises where there is none. Fixed entries that contradict each other end
        INFEASIBLE, with the entries that prove it in ``conflict``; so does a Factor whose range carries no unit diagonal, and so do,
        for LogDet with a definite C, fixed entries that only a singular matrix has.

    Raises
    ------
    ValueError, TypeError
        For arguments that make no problem, naming the entry; numerical outcomes never raise.

    Notes
    -----
    Frobenius is Qi and Sun's method (2006) with fixed entries, by the shift ``X = min_eig I + Y`` for a smallest eigenvalue; von
    Neumann is the same with another link; LogDet is Newton's method with the Hessian ``X o X`` (Kulis 2009, 3.2, does one row at a
    time). What is returned is certified, not the iterate: ``D^-1/2 X D^-1/2``, moved towards I by the rounding of its largest
    eigenvalue so that no computed eigenvalue is negative; fixed entries are written in, once they are met up to rounding. Where that
    costs an eigenvalue, X moves towards a matrix with the same entries and room, or is not called a correlation matrix: UNKNOWN.

    The proof is ``result.dual``: with Y its symmetric matrix and ``d = min_eig``, every correlation matrix X that is allowed has
    ``|X - C|^2 / 2 >= |C - d I|^2 / 2 - |(C - d I - Y)_+|^2 / 2 - dual . b`` with b the prescribed entries (diagonal: ``1 - d``).
    Where a block of fixed entries is singular up to rounding, it is taken for singular: X lives on the complement of its null vectors
    ``V = result.null_space``, and the last term has ``N' (C - d I - Y) N`` with N orthonormal, ``N' V = 0``. A block that is nearly
    singular, where Newton's method may stall, gives a matrix of that complement with the bound that Newton's method has proven:
    FEASIBLE, with an honest gap.

    A step costs one eigendecomposition (LogDet: a few Cholesky factorisations), n^3 operations.
    """
    limits = Limits.of(tol, max_iter, max_seconds, callback)
    D = as_divergence(divergence)
    if not (D.keeps_range or D.takes_indefinite):
        raise TypeError(
            "nearest_correlation needs a divergence that keeps the range, or takes indefinite matrices as 'frobenius' does; "
            f"got {D.name!r}."
        )
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
    with single_thread_blas(len(A)), np.errstate(all="ignore"):
        if D.keeps_range:
            found = _definite(D, A, entries, floor if repair == "clip" else None, limits)
        else:
            found = nearest_entries(D, A, eigh(shifted(A, min_eig)), entries, min_eig, limits)
        result = _result(found, A, entries, D, float(min_eig), limits)
        if rank is not None:
            result = of_rank(result, A, int(rank), limits)
    result.labels = labels
    result.seconds = limits.passed()
    return result


def _definite(D: SpectralDivergence, A: np.ndarray, entries: Entries, floor: float | None, limits: Limits) -> Found:
    """LogDet and von Neumann: a positive definite prior, a singular one whose range is kept, or one that is repaired."""
    repaired, prior = None, A
    plain = D.is_congruence_invariant and not entries.has_pairs  # then Newton's method needs no eigenvectors
    if plain and floor is None:
        L, ok = cholesky(A)
        if ok and _is_well_conditioned(A, L):
            return _logdet(D, A, L, entries, limits, None)
    values, Q = eigh(A)
    if entries.has_pairs:
        # a definite prior keeps LogDet's matrix definite, which entries of a singular block would not allow
        strict = D.is_congruence_invariant and (floor is not None or values[0] > RANK_TOL * values[-1])
        blocks = fixed_blocks(entries, prescribed(A, entries), strict=strict)
        if blocks.proof is not None:
            return nearest_entries(Frobenius(), A, (values, Q), entries, 0.0, limits, blocks=blocks)
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
    if values[0] <= RANK_TOL * top and not plain:
        L, ok = cholesky(prior)
        if ok and _is_well_conditioned(prior, L):
            raise ValueError(
                f"C has eigenvalues from {values[0]:.3g} to {top:.3g}, which is singular for {D.name}, only because its variables differ "
                "in scale; scale=True divides by the standard deviations."
            )
    if values[0] > RANK_TOL * top:
        if not D.is_congruence_invariant:
            return nearest_entries(D, A, (values, Q), entries, 0.0, limits, repaired)
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
    D: SpectralDivergence, A: np.ndarray, L: np.ndarray, entries: Entries, limits: Limits, repaired: Repair | None
) -> Found:
    """LogDet with nothing fixed; the general method where rounding stops the quick one."""
    problem = entry_problem(D, np.full(len(A), -1.0), RankOneRows(L), np.ones(len(A)))
    outcome = run_within(problem, LogDetNewton(L), limits)
    t = np.abs(np.diag(L))  # the general method would drop the range of small variables
    if outcome.exit_reason in (ExitReason.STALLED, ExitReason.NONFINITE) and t.min() ** 2 > RANK_TOL * t.max() ** 2:
        return replace(_in_range(A, A, entries, D, limits), repaired=repaired)
    return Found(outcome.certificate.iterate.matrix(), outcome, repaired=repaired)


def _in_range(prior: Any, A: np.ndarray, entries: Entries, D: SpectralDivergence, limits: Limits) -> Found:
    """A prior whose range is kept, or LogDet with fixed entries: the general method."""
    result = nearest_kernel(
        prior,
        entry_constraints(A, entries),
        divergence=D,
        tol=limits.tol,
        max_iter=limits.max_iter,
        max_seconds=limits.left(),
        callback=limits.callback,
    )
    G = result.factor
    if result.status in (Status.OPTIMAL, Status.FEASIBLE) and not entries.has_pairs:
        G = unit_rows(G)
    return Found(written(G @ G.T, A, entries, result), result, factor=G if isinstance(prior, Factor) else None)


# ---------------------------------------------------------------- results
def _result(
    found: Found, A: np.ndarray, entries: Entries, D: SpectralDivergence, min_eig: float, limits: Limits
) -> CorrelationResult:
    """What was found, with everything a user asks of it."""
    if entries.has_pairs:
        found = checked(found, A, entries, D, min_eig, limits)
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
        null_space=found.null_space,
        conflict=None if outcome.conflict is None else rows[outcome.conflict],
        history=outcome.history,
    )
