"""The nearest correlation matrix: a unit diagonal, and perhaps fixed entries, a smallest eigenvalue, a rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat.applications.correlation.entries import NEAR, Entries, FixedBlocks, fixed_blocks
from bregmat.applications.correlation.input import pose
from bregmat.applications.correlation.logdet import LogDetNewton
from bregmat.applications.correlation.newton import EntryNewton
from bregmat.applications.correlation.problem import CorrelationCertificate, CorrelationProblem, spectral_factor
from bregmat.applications.correlation.rank import of_rank
from bregmat.applications.correlation.result import CorrelationResult
from bregmat.applications.correlation.weighted import SplitBox, WeightedProblem, pose_weighted
from bregmat.base.checks import check_limits
from bregmat.base.interrupts import tells_interrupts
from bregmat.base.threads import on_one_blas_thread
from bregmat.certificates.problem import dual_bound
from bregmat.coordinates.priors import Factor
from bregmat.objective.divergences import as_divergence
from bregmat.objective.spectral import SpectralDivergence
from bregmat.run.loop import Outcome, RunLog, Solver, solve, solve_in_turn
from bregmat.run.result import ExitReason, Record, Status
from bregmat.solvers.dual_newton import DualNewton
from bregmat.solvers.interior_point import InteriorPoint, is_nearly_linear
from bregmat.typing import DivergenceName, Labels, RepairName, Table

MAX_ITER = 200  # Newton steps
FIRST_SHARE = 60  # steps of the interior point before another method is tried; it takes 30 to 50 where it suits


@tells_interrupts
@on_one_blas_thread
def nearest_correlation(
    C: Table,
    *,
    divergence: DivergenceName | SpectralDivergence = "frobenius",
    fixed: Labels | None = None,
    weights: Table | None = None,
    bounds: tuple[Table | float | None, Table | float | None] | None = None,
    min_eig: float = 0.0,
    rank: int | None = None,
    repair: RepairName | None = None,
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
    C : array-like or DataFrame (pandas, polars), shape (n, n), or Factor
        Symmetric with a positive diagonal. May be indefinite, and entries may exceed 1, for Frobenius. ``Factor(G0)``: the low-rank
        matrix ``G0 G0'``, whose range is kept.
    divergence : {"frobenius", "logdet", "vonneumann"} or object
    fixed : array-like of bool, shape (n, n), optional
        Symmetric mask of entries that stay exactly as in C; a diagonal entry among them must be 1.
    weights : array-like or DataFrame, shape (n, n), optional
        Symmetric, not negative: ``1/2 sum (weights_ij (X_ij - C_ij))^2`` is minimised. 0 (also False or NaN) says that the entry is
        unknown, and C may be NaN there. The diagonal is ignored. Frobenius only, as are bounds.
    bounds : pair (lower, upper), optional
        Numbers, symmetric matrices (n, n) or None: ``lower_ij <= X_ij <= upper_ij`` off the diagonal.
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
        True divides rows and columns by the square roots of the diagonal first: for covariances; ``result.covariance`` is the repaired
        matrix with its variances. False takes C as it is. None does
        so too, but with Frobenius a diagonal entry that is off by more than 0.1 raises, because C may be a covariance.
    tol : float
        Relative duality gap at which the result is called optimal. An X of gap g is within ``sqrt(2 g max(1, objective))`` of the
        optimum in Frobenius norm (Frobenius).
    max_iter : int, optional
        Limit on Newton steps (200), and on steps of the two searches with ``rank`` (4000).
    max_seconds : float, optional
        Limit on wall time.
    callback : callable, optional
        Called once per iteration with a Record; returning True stops.

    Returns
    -------
    CorrelationResult
        ``matrix`` is a DataFrame (of the same library) where C was one; it raises where there is none. Fixed entries or bounds that
        contradict each other end INFEASIBLE, with the entries that prove it in ``conflict``; so does a Factor whose range carries no
        unit diagonal, and so do, for LogDet with a definite C, fixed entries that only a singular matrix has.

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

    With weights or bounds the proof is a matrix S >= 0, the multiplier of ``X >= d I``: ``result.rows`` are all entries i <= j, and
    ``result.dual`` is S_ii and 2 S_ij. The Lagrangian falls into single entries within their bounds, so its minimum is a lower bound for
    any S >= 0 (compare Qi and Sun, An augmented Lagrangian dual approach for the H-weighted nearest correlation matrix problem, 2011).
    The method is Douglas-Rachford splitting with Anderson's acceleration. Unknown entries make X one of many optima.
    Where fixed entries or bounds leave only singular matrices, the search ends UNKNOWN or FEASIBLE.

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
    limits = Limits(tol, max_iter, RunLog(callback, max_seconds))
    if weights is not None or bounds is not None:
        _check_weighted(C, divergence, rank, repair)
        weighted, entries = pose_weighted(C, weights, bounds, fixed, min_eig, scale)
        return _weighted_result(weighted, entries, limits, origin_of(C, scale))
    problem = pose(C, divergence, fixed, min_eig, rank, repair, floor, scale)
    outcome = solve_correlation(problem, limits)
    if rank is not None:
        limits.log.history, limits.log.before = outcome.history, outcome.n_iter
        outcome = of_rank(outcome, problem.C, rank, max_iter=max_iter, log=limits.log)
    proof, rows = outcome.certificate, problem.entries.rows
    factor = proof.factor if rank is not None or isinstance(C, Factor) else None
    if isinstance(C, Factor) and factor is None:
        factor = spectral_factor(proof.X, problem.entries.n)
    story = outcome.shared() | {"seconds": limits.log.seconds()}
    if outcome.conflict is not None:
        story["conflict"] = rows[outcome.conflict]
    return CorrelationResult(
        **story,
        X=proof.X,
        residual=float(np.linalg.norm(proof.X - problem.C)),
        divergence=problem.divergence.name,
        rows=rows,
        dual=proof.dual,
        min_eig=problem.min_eig,
        rank=None if rank is None else int(rank),
        repaired=problem.repaired,
        factor=factor,
        null_space=proof.null_space,
        labels=problem.entries.labels,
        **origin_of(C, scale),
    )


def _check_weighted(C: Any, divergence: Any, rank: Any, repair: Any) -> None:
    """Refuse what weights and bounds do not go with."""
    D = as_divergence(divergence)
    if D.keeps_range or not D.takes_indefinite:
        raise ValueError(f'weights and bounds need divergence="frobenius"; got {D.name!r}.')
    if rank is not None or repair is not None or isinstance(C, Factor):
        raise ValueError("weights and bounds go neither with rank, nor with repair, nor with a Factor.")


def _weighted_result(
    problem: WeightedProblem, entries: Entries, limits: Limits, origin: dict[str, Any]
) -> CorrelationResult:
    """Solve the weighted problem; the multipliers of the result are those of all entries i <= j."""
    outcome = solve(problem, SplitBox(), tol=limits.tol, max_iter=limits.max_iter, log=limits.log)
    proof = outcome.certificate
    i, j = np.triu_indices(entries.n)
    rows = np.column_stack([i, j])
    story = outcome.shared() | {"seconds": limits.log.seconds()}
    if outcome.conflict is not None:
        story["conflict"] = rows[outcome.conflict]
    known = (problem.h2 > 0) | np.eye(entries.n, dtype=bool)
    return CorrelationResult(
        **story,
        X=proof.X,
        residual=float(np.linalg.norm(np.where(known, proof.X - problem.C, 0.0))),
        divergence="frobenius",
        rows=rows,
        dual=proof.dual[i, j] * np.where(i == j, 1.0, 2.0),
        min_eig=problem.min_eig,
        labels=entries.labels,
        **origin,
    )


def origin_of(C: Any, scale: bool | None) -> dict[str, Any]:
    """What the result needs to come back as C came: the library of its data frame, the deviations of a covariance."""
    is_polars = hasattr(C, "columns") and hasattr(C, "to_numpy") and not hasattr(C, "index")
    values = C.to_numpy() if hasattr(C, "columns") and hasattr(C, "to_numpy") else C
    if scale and hasattr(values, "diagonal"):
        values = np.asarray(values.diagonal(), dtype=float)
    elif scale:
        values = np.diag(np.asarray(values, dtype=float))
    return {"frame": "polars" if is_polars else None, "deviations": np.sqrt(values) if scale else None}


# ---------------------------------------------------------------------- solvers and spaces
@dataclass(frozen=True, eq=False)
class Limits:
    """When a run ends, and the clock and the callback that all runs share."""

    tol: float
    max_iter: int | None
    log: RunLog


def solve_correlation(problem: CorrelationProblem, limits: Limits) -> Outcome:
    """Solve on the space that fixed entries leave: without null vectors that they force, which multipliers could only approach.

    Where the search is stuck on the complement of null vectors, the whole space is searched for contradictions that have no block;
    where it falls short on the whole space, there may be vectors that are nearly null.
    """
    blocks = problem.blocks
    if problem.divergence.keeps_range or not problem.entries.has_pairs or blocks.proof is not None:
        return mended(problem, run(problem, limits), limits)
    if blocks.null is not None:
        inside = problem.inside(blocks)
        outcome = mended(inside, run(inside, limits), limits)
        if limits.max_iter is None and _is_stuck(outcome):
            other = run(problem, limits)
            return other if other.status is Status.INFEASIBLE else outcome
        return outcome
    outcome = run(problem, limits)
    proof = outcome.certificate
    if _falls_short(outcome) or (proof.is_feasible and problem.shortfall(proof.X) > 0.0):
        near = fixed_blocks(problem.entries, problem.entries.prescribed(problem.C, problem.min_eig), near=NEAR)
        if near.null is not None:
            return _beside_near_null_vectors(problem, outcome, near, limits)
    return mended(problem, outcome, limits)


def run(problem: CorrelationProblem, limits: Limits, *, is_quiet: bool = False) -> Outcome:
    """The loop, with the room's own solver where that takes the problem."""
    plan: list[Solver] = [LogDetNewton(), DualNewton()] if problem.is_triangular else [DualNewton()]
    if problem.is_whole and not problem.divergence.is_congruence_invariant:
        plan = [EntryNewton()]
    elif is_nearly_linear(problem):
        plan = [InteriorPoint(), *plan]
    most = MAX_ITER if limits.max_iter is None else limits.max_iter
    log = limits.log.beside(is_quiet=is_quiet)
    # At conditions of 1e12 the path may crawl far from its end: Newton's methods for correlations get the rest.
    shares = [min(most, FIRST_SHARE) if isinstance(solver, InteriorPoint) else most for solver in plan]
    return solve_in_turn(problem, list(zip(plan, shares, strict=True)), tol=limits.tol, log=log)


def _falls_short(outcome: Outcome) -> bool:
    """Whether the search ended by itself, without a proof."""
    is_open = outcome.status in (Status.UNKNOWN, Status.FEASIBLE)
    return is_open and outcome.exit_reason in (ExitReason.STALLED, ExitReason.MAX_ITER)


def _is_stuck(outcome: Outcome) -> bool:
    """Whether the search ended with nothing, by itself."""
    return outcome.status is Status.UNKNOWN and _falls_short(outcome)


def mended(problem: CorrelationProblem, outcome: Outcome, limits: Limits) -> Outcome:
    """Writing fixed entries in can cost an eigenvalue: X moves towards a matrix with the same entries and room, or is not called one."""
    proof: CorrelationCertificate = outcome.certificate
    if not (problem.entries.has_pairs and proof.is_feasible):
        return outcome
    miss = problem.shortfall(proof.X)
    if miss == 0.0:
        return outcome
    if not problem.divergence.keeps_range:
        room = min(max(1e-6, 100.0 * miss), 0.1 * (1.0 - problem.min_eig))
        other = run(problem.raised(room), limits, is_quiet=True).certificate
        if other.is_feasible:
            share = min(1.0, 1.1 * miss / room)
            X = np.where(proof.X == other.X, proof.X, proof.X + share * (other.X - proof.X))
            if problem.shortfall(X) == 0.0:
                value = problem.distance(X)
                return _ending(outcome, replace(proof, X=X, factor=None, objective=value, upper=value))
    return _ending(outcome, replace(proof, upper=np.inf))


def _beside_near_null_vectors(
    problem: CorrelationProblem, outcome: Outcome, near: FixedBlocks, limits: Limits
) -> Outcome:
    """A matrix that has nearly singular blocks to the letter, or a better one, beside a bound that holds without that restriction."""
    if outcome.exit_reason is ExitReason.MAX_ITER and limits.max_iter is None:
        outcome = replace(outcome, exit_reason=ExitReason.STALLED)  # more steps would not help
    own = outcome.certificate
    is_own = own.is_feasible and problem.shortfall(own.X) == 0.0
    inside = problem.inside(near)
    other = mended(inside, run(inside, limits), limits).certificate
    if not other.is_feasible:
        return outcome if is_own else replace(outcome, certificate=replace(own, upper=np.inf))
    bound, dual = own.dual_bound, own.dual
    # multipliers of the restricted problem, with a weight on the null vectors that holds X near their complement
    for weight in 10.0 ** np.arange(1, 9):
        new, y = dual_bound(problem, other.dual + weight * near.fold)
        if new > bound:
            bound, dual = new, y
    value = problem.distance(other.X)
    proof = replace(other, dual=dual, dual_bound=bound, objective=value, upper=value, null_space=None)
    better = own.with_dual(dual, bound) if is_own else proof
    return _ending(outcome, better if better.gap < proof.gap else proof)


def _ending(outcome: Outcome, proof: CorrelationCertificate) -> Outcome:
    """The story of a run with another certificate."""
    return replace(outcome, certificate=proof, status=proof.status(outcome.tol), conflict=None)
