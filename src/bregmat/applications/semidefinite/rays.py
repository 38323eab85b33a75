"""Directions in which a semidefinite program is unbounded.

A ray ``R = G G'`` with ``tr(C R) < 0`` violates no row of bound 0, so ``X + t R`` meets the rows for every feasible X and every t >= 0. The
best ray is usually singular and is known up to the accuracy of a solver only. Hence a ray in the interior of the cone is sought first, at
half the decrease of the best one. Newton's method then brings the active rows ``<A_i, G G'> = 0`` to rounding. Their derivatives
``2 A_i G`` must be linearly independent by far, unless the rows themselves are linearly dependent: then by the theorem of Kantorovich an
exact ray is near.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bregmat.applications.semidefinite.path import LogDetPath
from bregmat.applications.semidefinite.problem import SemidefiniteProgram
from bregmat.base.linalg import eigh
from bregmat.base.tolerances import EPS, RANK_TOL, TINY
from bregmat.constraints.constraints import Constraints
from bregmat.engine.loop import RunLog, solve
from bregmat.operators.binding import bind
from bregmat.operators.linear_maps import Operator

ZERO = 1e-6  # eigenvalues of a ray, and values of rows, that count as 0, relative to the largest one
MAX_ENTRIES = 5e7  # of the matrices of active rows, 400 MB


def find_ray(problem: SemidefiniteProgram, constraints: Constraints, log: RunLog) -> np.ndarray | None:
    """A factor G (n, k) with ``tr(C G G') < 0`` that violates no row of bound 0, up to rounding; None if none is found."""
    c = constraints.n_constraints
    level = replace(constraints, bound=np.zeros(c), weight=np.ones(c))
    P, left = _face(level, problem.rows.r)
    if not P.shape[1]:
        return None
    rows = Constraints.linear([P @ P.T], 1.0, "==")
    if left.any():
        rows = level.select(left) + rows
    C, operator = P.T @ problem.C @ P, bind(level, P)
    best = _solution(C, rows, P, log)
    value = float(np.vdot(C, best @ best.T))
    if not value < 0.0:
        return None
    falling = rows + Constraints.linear([problem.C], 0.5 * value, "<=")
    for F in (_solution(np.zeros_like(C), falling, P, log), best):
        G = _settled(F, operator, level.sense)
        if G is not None and _is_ray(P @ G, problem.C, level):
            return P @ G
    return None


def _solution(C: np.ndarray, rows: Constraints, P: np.ndarray, log: RunLog) -> np.ndarray:
    """A factor of the solution of a program in the basis P."""
    tol = 1e-6  # of the programs that are solved for a ray
    program = SemidefiniteProgram.build(C, bind(rows, P), rows, np.inf)
    return solve(program, LogDetPath(), tol=tol, log=log.beside()).certificate.iterate.F


def _is_ray(G: np.ndarray, C: np.ndarray, level: Constraints) -> bool:
    """Whether the objective decreases clearly along ``G G'``, and no row of bound 0 is violated by more than rounding of its terms."""
    roundings = 16.0  # largest value of a row that has to be 0, in roundings of its terms
    clear = 1e-6  # least decrease of the objective, relative to the sum of the sizes of its terms
    X = G @ G.T
    decreases = float(np.vdot(C, X)) < -clear * float(np.vdot(np.abs(C), np.abs(X)))
    return decreases and bool((level.violation(G) <= roundings * EPS).all())


def _face(level: Constraints, n: int) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis (n, k) of the range that semidefinite rows leave to rays, and a mask of the other rows."""
    P, left = np.eye(n), np.ones(level.n_constraints, dtype=bool)
    while P.shape[1]:
        operator, forced = bind(level, P), []
        norms = operator.norms()
        for row in np.flatnonzero(left):
            A = _matrix(operator, row)
            t = np.linalg.eigvalsh(A)
            size = float(np.abs(t).max())
            if size <= RANK_TOL * norms[row]:
                left[row] = False
                continue
            # <A, R> <= 0 with A >= 0 means A R = 0
            side = 1.0 if t[0] >= -RANK_TOL * size else -1.0 if t[-1] <= RANK_TOL * size else 0.0
            if side and side * level.sense[row] >= 0:
                forced.append(side * A / size)
                left[row] = False
        if not forced:
            break
        t, V = eigh(np.sum(forced, axis=0))
        P = P @ V[:, t <= RANK_TOL * t[-1]]
    return P, left


def _matrix(operator: Operator, row: int | np.integer) -> np.ndarray:
    """The matrix of a row."""
    return operator.restrict(np.array([row])).adjoint(np.ones(1))


def _settled(F: np.ndarray, operator: Operator, sense: np.ndarray) -> np.ndarray | None:
    """A factor near F at which active rows are 0 up to rounding; None if such a ray need not exist."""
    steps = 6  # of Newton's method
    independent = 1e-7  # least singular value of the derivatives of independent rows: its square is far above rounding
    values, U = eigh(F @ F.T)
    on = values > ZERO * values[-1]
    G = U[:, on] * np.sqrt(values[on])
    norms = np.maximum(operator.norms(), TINY)
    near = np.abs(operator.congruence(G).values_diagonal(None)) <= ZERO * norms * float(values.sum())
    active = np.flatnonzero((sense == 0) | near)
    if not len(active) or len(active) * operator.r**2 > MAX_ENTRIES:
        return None if len(active) else G
    A = np.array([_matrix(operator, row) / norms[row] for row in active])
    for _ in range(steps):
        # <A_i, (G + D)(G + D)'> = 0 to first order, with D of least norm
        J = 2.0 * (A @ G).reshape(len(A), -1)
        W, sigma, Vt = np.linalg.svd(J, full_matrices=False)
        strong = sigma > independent * sigma[0]
        residual = np.einsum("ijk,jk->i", A @ G[None], G)
        G = G - ((W[:, strong].T @ residual / sigma[strong]) @ Vt[strong]).reshape(G.shape)
    weak = np.linalg.svd(J)[0][:, int(strong.sum()) :]
    # A sum of rows that is not 0 but is 0 at the ray: it may be semidefinite, and the ray may not exist.
    sums = np.tensordot(weak.T, A, axes=1)
    return G if (np.linalg.norm(sums, axis=(1, 2)) <= RANK_TOL).all() else None
