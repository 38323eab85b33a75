"""Frobenius and von Neumann with fixed entries, by Newton's method; singular blocks are taken out; what is written in is checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat.applications.correlation.blocks import NEAR, FixedBlocks, fixed_blocks
from bregmat.applications.correlation.input import Limits
from bregmat.applications.correlation.newton import EPS, DenseIterate, Entries, EntryNewton
from bregmat.applications.correlation.result import Repair
from bregmat.certificates import dual_bound
from bregmat.constraints import Constraints
from bregmat.coordinates import Coordinates
from bregmat.linalg import eigh, eigvalsh
from bregmat.operators import Operator, RankOneRows
from bregmat.problems import NearestMatrix
from bregmat.result import ExitReason, Status
from bregmat.row_losses import RowLosses
from bregmat.scalar_losses import Hard
from bregmat.solve import Outcome, Solver, solve
from bregmat.solvers.dual_newton import DualNewton
from bregmat.spectral import SpectralDivergence


@dataclass(frozen=True, eq=False)
class Found:
    """A matrix, its proof and the story of the run, whichever solver found it."""

    X: np.ndarray
    outcome: Any  # Outcome or Result
    factor: np.ndarray | None = None
    repaired: Repair | None = None
    null_space: np.ndarray | None = None


def shifted(A: np.ndarray, min_eig: float) -> np.ndarray:
    """``C - min_eig I``."""
    return A - min_eig * np.eye(len(A)) if min_eig else A


def entry_problem(D: SpectralDivergence, t0: np.ndarray, operator: Operator, bound: np.ndarray) -> NearestMatrix:
    """Hard equalities in the unit of a correlation."""
    one = np.ones(len(bound))
    zero = np.zeros(len(bound), np.int8)
    losses = RowLosses(bound, zero, one, one, (Hard(),), zero)
    return NearestMatrix(D, t0, operator, losses, one)


def entry_constraints(A: np.ndarray, entries: Entries, diagonal: float = 1.0) -> Constraints:
    """The rows: the diagonal, and entries as they are in C."""
    rows = Constraints.diagonal(np.full(entries.n, diagonal))
    if entries.has_pairs:
        i, j = entries.i, entries.j
        rows = rows + Constraints.similarity(i, j, A[i, j], "==")
    return rows


def run_within(problem: NearestMatrix, solver: Solver, limits: Limits) -> Outcome:
    return solve(
        problem,
        solver,
        tol=limits.tol,
        max_iter=limits.max_iter,
        max_seconds=limits.left(),
        callback=limits.callback,
    )


def nearest_entries(
    D: SpectralDivergence,
    A: np.ndarray,
    spectrum: tuple[np.ndarray, np.ndarray],
    entries: Entries,
    min_eig: float,
    limits: Limits,
    repaired: Repair | None = None,
    blocks: FixedBlocks = FixedBlocks(),  # noqa: B008 (frozen)
) -> Found:
    """Frobenius and von Neumann, in the coordinates of the eigenvectors of the prior."""
    values, Q = spectrum
    t0, operator = D.link(values), RankOneRows(Q)
    bound = np.concatenate([np.full(entries.n, 1.0 - min_eig), A[entries.i, entries.j]])
    mirror = (Q * t0) @ Q.T if D.keeps_range else shifted(A, min_eig)
    problem = entry_problem(D, t0, operator, bound)
    if entries.has_pairs:
        _, bound_rows = Coordinates(Q, t0).bind(entry_constraints(A, entries), in_span=False)
        problem = replace(problem, operator=bound_rows)
        B = prescribed(A, entries, 1.0 - min_eig)
        blocks = blocks if blocks.proof is not None else fixed_blocks(entries, B)
    reduced = None
    if blocks.basis is not None and not D.keeps_range:
        reduced = _without_null_space(problem, mirror, blocks, A, entries, min_eig, limits)
        # on the whole space there is a search for contradictions that have no block
        if limits.max_iter is not None or not _is_stuck(reduced.outcome):
            return reduced
    solver = EntryNewton(entries, mirror, Q, blocks.proof)
    outcome = run_within(problem, solver, limits)
    if "proof" in outcome.trace:
        y = outcome.trace["proof"]
        proven = replace(outcome.certificate, dual=y, upper=np.inf)
        outcome = replace(
            outcome,
            certificate=proven,
            status=Status.INFEASIBLE,
            exit_reason=ExitReason.CERTIFICATE,
            conflict=np.flatnonzero(y),
        )
    if reduced is not None and outcome.status is not Status.INFEASIBLE:
        return reduced
    iterate = outcome.certificate.iterate
    if isinstance(iterate, DenseIterate):
        X = iterate.X
    else:
        X = written(Q @ iterate.matrix() @ Q.T, A, entries, outcome, 1.0 - min_eig)
    if entries.has_pairs and not D.keeps_range and (_is_stuck(outcome) or (_is_one(outcome) and _lacks(X, 0.0))):
        near = fixed_blocks(entries, B, near=NEAR)
        if near.basis is not None:
            if outcome.exit_reason is ExitReason.MAX_ITER and limits.max_iter is None:
                outcome = replace(outcome, exit_reason=ExitReason.STALLED)  # more steps would not help
            other = _without_null_space(problem, mirror, near, A, entries, min_eig, limits)
            return _near_null_space(problem, outcome, other, near.fold, A, limits.tol)
    return Found(_lifted(X, min_eig), outcome, repaired=repaired)


def _without_null_space(
    problem: NearestMatrix,
    mirror: np.ndarray,
    blocks: FixedBlocks,
    A: np.ndarray,
    entries: Entries,
    min_eig: float,
    limits: Limits,
) -> Found:
    """Frobenius with fixed blocks that are singular: ``X = N M N'`` (plus a fixed part), where the rows leave room again."""
    assert blocks.basis is not None
    t0, V = eigh(blocks.basis.T @ mirror @ blocks.basis)
    base = blocks.basis @ V
    inside = base @ base.T
    _, operator = Coordinates(base, t0).bind(entry_constraints(A, entries), in_span=False)

    def run(room: float) -> tuple[Outcome, np.ndarray]:
        """With no eigenvalue of M below ``room``, by the same shift as for a smallest eigenvalue."""
        part = blocks.part + room * inside
        bound = problem.losses.bound - np.r_[np.diag(part), part[entries.i, entries.j]]
        reduced = entry_problem(problem.divergence, t0 - room, operator, bound)
        offset = 0.5 * (float((problem.t0**2).sum()) - float((t0**2).sum()))
        outcome = run_within(replace(reduced, offset=offset if room == 0.0 else 0.0), DualNewton(), limits)
        X = base @ outcome.certificate.iterate.matrix() @ base.T + part
        return outcome, written(X, A, entries, outcome, 1.0 - min_eig)

    outcome, X = run(0.0)
    miss = _lacks(X, 0.0)
    if miss > 0.0 and _is_one(outcome):
        room = min(max(1e-6, 100.0 * miss), 0.1)
        other, Z = run(room)
        if _is_one(other):
            outcome, X = _mixed(outcome, X, Z, 1.1 * miss / room, mirror, limits.tol)
    if outcome.conflict is not None:  # the null vectors are part of the proof
        outcome = replace(outcome, conflict=np.union1d(outcome.conflict, blocks.rows))
    return Found(_lifted(X, min_eig), outcome, null_space=blocks.null)


def _near_null_space(
    problem: NearestMatrix, outcome: Outcome, other: Found, fold: np.ndarray, A: np.ndarray, tol: float
) -> Found:
    """A matrix that has nearly singular blocks to the letter, beside a bound that holds without that restriction."""
    if not _is_one(other.outcome):
        return Found(other.X, outcome)
    proof = outcome.certificate
    bound, dual = proof.dual_bound, proof.dual
    # multipliers of the restricted problem, with a weight on the null vectors that holds X near their complement
    for weight in 10.0 ** np.arange(1, 9):
        new, y = dual_bound(problem, other.outcome.certificate.dual + weight * fold)
        if new > bound:
            bound, dual = new, y
    objective = 0.5 * float(((other.X - A) ** 2).sum())
    proof = replace(proof, dual=dual, dual_bound=bound, objective=objective, upper=objective, violation=0.0)
    return Found(other.X, _with(outcome, proof, proof.status(tol)))


def _is_one(outcome: Any) -> bool:
    """Whether the matrix counts as allowed."""
    return outcome.status in (Status.OPTIMAL, Status.FEASIBLE)


def _is_stuck(outcome: Outcome) -> bool:
    """Whether the search ended with nothing, by itself."""
    return outcome.status is Status.UNKNOWN and outcome.exit_reason in (ExitReason.STALLED, ExitReason.MAX_ITER)


def prescribed(A: np.ndarray, entries: Entries, diagonal: float = 1.0) -> np.ndarray:
    """The matrix of the prescribed entries, 0 elsewhere."""
    return entries.adjoint(np.r_[np.full(entries.n, diagonal), 2.0 * A[entries.i, entries.j]])


def _lifted(X: np.ndarray, min_eig: float) -> np.ndarray:
    """``X + min_eig I`` with a unit diagonal."""
    if min_eig:
        X = X + min_eig * np.eye(len(X))
        np.fill_diagonal(X, 1.0)
    return X


def written(X: np.ndarray, A: np.ndarray, entries: Entries, outcome: Any, diagonal: float = 1.0) -> np.ndarray:
    """X with the prescribed entries written in, where they are met up to rounding."""
    X = 0.5 * (X + X.T)
    if _is_one(outcome):
        X[entries.i, entries.j] = X[entries.j, entries.i] = A[entries.i, entries.j]
        np.fill_diagonal(X, diagonal)
    return X


def _lacks(X: np.ndarray, min_eig: float) -> float:
    """By how much the smallest eigenvalue is below what was asked for, beyond rounding; else 0."""
    x = eigvalsh(X)
    miss = min_eig - float(x[0])
    return miss if miss > 8.0 * EPS * len(x) * max(1.0, float(x[-1])) else 0.0


def checked(
    found: Found, A: np.ndarray, entries: Entries, D: SpectralDivergence, min_eig: float, limits: Limits
) -> Found:
    """Writing fixed entries in can cost an eigenvalue: moved towards a matrix with room and the same entries, or not called one."""
    outcome = found.outcome
    if not _is_one(outcome):
        return found
    miss = _lacks(found.X, min_eig)
    if miss == 0.0:
        return found
    room = min(max(1e-6, 100.0 * miss), 0.5 * (1.0 - min_eig))
    if not D.keeps_range and found.null_space is None:
        low = min_eig + room
        other = nearest_entries(D, A, eigh(shifted(A, low)), entries, low, replace(limits, callback=None))
        if _is_one(other.outcome):
            new, X = _mixed(outcome, found.X, other.X, 1.1 * miss / room, A, limits.tol)
            if _lacks(X, min_eig) == 0.0:
                return replace(found, X=X, outcome=new)
    return replace(found, outcome=_with(outcome, replace(outcome.certificate, upper=np.inf), Status.UNKNOWN))


def _mixed(
    outcome: Any, X: np.ndarray, Z: np.ndarray, share: float, A: np.ndarray, tol: float
) -> tuple[Outcome, np.ndarray]:
    """X moved towards Z, which has the same prescribed entries, and what that costs in Frobenius distance to A."""
    X = np.where(X == Z, X, X + min(1.0, share) * (Z - X))
    objective = 0.5 * float(((X - A) ** 2).sum())
    proof = replace(outcome.certificate, objective=objective, upper=objective)
    return _with(outcome, proof, proof.status(tol)), X


def _with(outcome: Any, proof: Any, status: Status) -> Outcome:
    """The story of a run with another ending."""
    reason = outcome.exit_reason
    if status is not Status.OPTIMAL and reason is ExitReason.TOLERANCE:
        reason = ExitReason.STALLED
    elif status is Status.OPTIMAL and reason in (ExitReason.STALLED, ExitReason.MAX_ITER):
        reason = ExitReason.TOLERANCE
    return Outcome(proof, status, reason, outcome.tol, outcome.n_iter, outcome.seconds, outcome.history, outcome.solver)
