"""Restoration: a nearby matrix at which all hard rows hold, up to rounding.

Solvers end at matrices that violate hard rows slightly. A few steps of Newton's method bring the values of active and violated
rows to their bounds, so that the certificate is about a feasible matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bregmat.base.linalg import add_diagonal, cholesky, cholesky_solve, conjugate_gradients, symmetrize
from bregmat.base.threads import seconds_left
from bregmat.base.tolerances import FEASIBLE
from bregmat.constraints.constraints import excess_of
from bregmat.coordinates.priors import Iterate
from bregmat.operators.linear_maps import Operator, weighted_by

if TYPE_CHECKING:  # problems use this module
    from bregmat.certificates.problem import NearestMatrix

RESTORED_TOL = 1e-4  # margin of restored rows over the largest violation, and relative accuracy of the linear systems
TYPICAL_CG_STEPS, MAX_CG_STEPS = 55.0, 1000.0  # conjugate gradient steps of a restoration: measured, and the limit
STEP_OVERHEAD = 3e5  # operations in the time of the function calls of one conjugate gradient step
MAX_GRAM_ROWS = 6000  # rows whose Gram matrix is formed, 288 MB
SLOWEST = 2e9  # operations per second that a Gram matrix and its factor reach at least, to keep time limits
MAX_ROUNDS, GOAL = 8, 0.1 * FEASIBLE  # steps, and the relative violation at which they end
Move = Callable[["NearestMatrix", Iterate, np.ndarray, np.ndarray], Iterate | None]


class MetRows(NamedTuple):
    """A matrix after restoration, with the fields that its certificate takes over."""

    iterate: Iterate
    values: np.ndarray
    max_violation: float = 0.0
    missed: np.ndarray | None = None


def with_met_rows(
    problem: NearestMatrix, iterate: Iterate, p: np.ndarray, mu: np.ndarray, allowed: float = FEASIBLE
) -> MetRows:
    """The matrix with its values and violations, after restoration of hard rows to feasibility if that is needed and succeeds.

    Parameters
    ----------
    problem : NearestMatrix
    iterate : Iterate
        The matrix.
    p, mu : ndarray, shape (c,)
        Values of the rows at the matrix, and signed dual weights.
    allowed : float
        Relative violation above which rows are restored.
    """
    hard = problem.losses.hard
    if not problem.losses.has_hard:
        return MetRows(iterate, p)
    violation = problem.violation(p)
    worst = float(violation[hard].max(initial=0.0))
    if allowed < worst < 0.5:
        restored = restore(problem, iterate, p, mu, goal=0.1 * allowed)
        if restored is not None:
            iterate, p = restored
            violation = problem.violation(p)
            worst = float(violation[hard].max(initial=0.0))
    return MetRows(iterate, p, worst, np.where(hard, violation * problem.unit, 0.0))


def restore(
    problem: NearestMatrix, iterate: Iterate, p: np.ndarray, mu: np.ndarray, goal: float = GOAL
) -> tuple[Iterate, np.ndarray] | None:
    """The matrix at which active and violated hard rows have the values that they must have, and its values; None if that fails.

    Every step stays in the cone. Two kinds of steps are tried, the cheaper one first. They bring equalities and rows with a dual
    weight onto their bounds, and violated rows inside of them. If both fail, rows with a dual weight may stay inside of their bounds.

    Parameters
    ----------
    problem : NearestMatrix
    iterate : Iterate
        The matrix.
    p, mu : ndarray, shape (c,)
        Values of the rows at the matrix, and dual weights, which tell the active rows.
    goal : float
        Relative violation at which the steps end; if they end earlier, ``FEASIBLE`` suffices.
    """
    L = problem.losses
    weight = np.abs(mu) * problem.unit  # does not depend on the units of rows and bounds
    active = L.hard & ((L.sense == 0) | (weight > 1e-13 * max(1e-300, weight.max(initial=0.0))))
    moves = _by_congruence, _by_newton
    if _equivalent_cg_steps(problem.operator, int(active.sum())) > TYPICAL_CG_STEPS:
        moves = _by_newton, _by_congruence
    for move in moves:
        restored = _restored(problem, iterate, p, active, goal, move)
        if restored is not None:
            return restored
    if float((problem.violation(p)[active]).max(initial=0.0)) > 1e-3:
        return None  # too far from feasible for the attempt below
    # Without dual corrections, rows with a dual weight may hold strictly: only violated rows are moved.
    return _restored(problem, iterate, p, L.hard & (L.sense == 0), goal, _by_congruence)


def _restored(
    problem: NearestMatrix, iterate: Iterate, p: np.ndarray, active: np.ndarray, goal: float, move: Move
) -> tuple[Iterate, np.ndarray] | None:
    """The result of steps of one kind; None if they do not end at a feasible matrix."""
    L = problem.losses
    hard, s = L.hard, L.sense.astype(float)
    for k in range(MAX_ROUNDS):
        excess = excess_of(p, L.bound, s)
        worst = float(np.max(excess[hard] / problem.unit[hard], initial=0.0))
        if worst <= goal:
            break
        margin = (RESTORED_TOL * max(worst, 0.0) + 1e-13) * problem.unit
        on = active | (hard & (excess > -margin))
        if k == 0:  # a redundant row holds if the tighter row with the same matrix holds
            on[problem.parallel_rows.idle] = False
        rows = np.flatnonzero(on)
        if not len(rows):  # only redundant rows are violated, by rounding: the next round restores them
            continue
        # change of the values: onto the bound for "==", inside it by the margin for inequalities
        want = np.where(s == 0, L.bound - p, -s * (np.maximum(excess, 0.0) + margin))
        want = np.where((s != 0) & (excess <= 0), np.where(active, -s * (excess + margin), 0.0), want)[rows]
        moved = move(problem, iterate, rows, want)
        if moved is None:
            return None
        iterate, p = moved, moved.values(problem.operator)
        if not np.isfinite(p).all():
            return None
    if float(np.max(problem.violation(p)[hard], initial=0.0)) > FEASIBLE:
        return None
    return iterate, p


def _by_congruence(problem: NearestMatrix, iterate: Iterate, rows: np.ndarray, want: np.ndarray) -> Iterate | None:
    """``M <- B (I + A_B*(c)) B'`` with ``M = B B'``, where A_B are the rows in the frame B and ``A_B A_B* c = want``."""
    B = iterate.factor()
    n = len(rows)
    if B.shape[1] == 0 or n > MAX_GRAM_ROWS or n * n * (n / 3 + problem.operator.r) > SLOWEST * seconds_left():
        return None
    X = problem.operator.congruence(B).restrict(rows)
    G = X.gram()
    C, ok = cholesky(add_diagonal(G, 1e-12 * np.maximum(np.diag(G), 1e-280)), is_used_up=True)
    if not ok:
        return None
    E = symmetrize(X.adjoint(cholesky_solve(C, want)))
    C, ok = cholesky(add_diagonal(E, 1.0))
    return iterate.with_factor(B @ C) if ok else None


def _by_newton(problem: NearestMatrix, iterate: Iterate, rows: np.ndarray, want: np.ndarray) -> Iterate | None:
    """``T <- T + A*(c)`` with ``A (S^2 o A*(c)) = want``: the nearest matrix with these values, to first order.

    Conjugate gradients solve for c without a matrix over the rows, so there may be more rows than entries of M.
    """
    X, Psi = problem.operator.congruence(iterate.F).restrict(rows), iterate.Psi
    D = np.maximum(X.squared_norms(Psi), 1e-300)

    def product(v: np.ndarray) -> np.ndarray:
        return X.values(weighted_by(Psi, X.adjoint(v)))

    goal = RESTORED_TOL * float(np.sqrt(want @ (want / D)))
    max_products = int(
        min(max(2.0 * TYPICAL_CG_STEPS, _equivalent_cg_steps(problem.operator, len(rows))), MAX_CG_STEPS)
    )
    end = conjugate_gradients(product, want, goal=goal, max_iter=max_products, precondition=lambda r: r / D)
    if not end.norm <= goal:
        return None
    A = X.adjoint(end.x)
    return iterate.moved(A, A, 1.0)


def _equivalent_cg_steps(op: Operator, n: int) -> float:
    """Conjugate gradient steps on n rows that cost as much as their Gram matrix and its Cholesky factor."""
    return n * n * (n / 3 + op.r) / (4.0 * min(n, op.n_vectors) * op.r**2 + STEP_OVERHEAD)
