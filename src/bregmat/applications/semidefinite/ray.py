"""Directions that prove a semidefinite program unbounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bregmat.applications.semidefinite.path import LogDetPath
from bregmat.applications.semidefinite.problem import SemidefiniteProgram
from bregmat.base.linalg import EPS, eigh, symmetrize
from bregmat.constraints.constraints import Constraints
from bregmat.operators.binding import bind
from bregmat.operators.linear_maps import Operator, smat, svec
from bregmat.run.loop import solve

RANGE = 1e-6  # eigenvalues of a direction, and values of rows, that count as 0, relative to the largest one
CLEAR = 1e-6  # least decrease of the objective, relative to the sum of the sizes of its terms
ROUNDINGS = 16.0  # largest value of a row that has to be 0, in roundings of its points


def find_ray(problem: SemidefiniteProgram, constraints: Constraints) -> np.ndarray | None:
    """A factor G (n, k) with ``tr(C G G') < 0`` that violates no row of bound 0, up to rounding; None if none is found.

    It is the solution of the program with all bounds 0 and a trace of 1, restricted to its range and corrected so that rows that are
    nearly 0 are 0 up to rounding.
    """
    n = problem.rows.r
    level = replace(constraints, bound=np.zeros(constraints.n_constraints), weight=np.ones(constraints.n_constraints))
    rows = level + Constraints.trace(1.0)
    program = SemidefiniteProgram.build(problem.C, bind(rows, np.eye(n)), rows, np.inf)
    iterate = solve(program, LogDetPath(), tol=1e-6).certificate.iterate
    G = _settled(iterate.F @ iterate.F.T, problem.rows.operator, constraints.sense)
    if G is None or not _falls(problem.C, G):
        return None
    # violations of rows with bound 0 are relative to the sum of the squared norms of their points
    return G if (level.violation(G) <= ROUNDINGS * EPS).all() else None


def _settled(X: np.ndarray, operator: Operator, sense: np.ndarray) -> np.ndarray | None:
    """A factor of a matrix near X at which equalities, and inequalities that are nearly 0, are 0 up to rounding."""
    values, U = eigh(X)
    N = U[:, values > RANGE * values[-1]]
    p, unit = operator.values(X), operator.norms() * float(np.trace(X))
    active = np.flatnonzero((sense == 0) | (np.abs(p) <= RANGE * unit))
    if not len(active):
        return N * np.sqrt(values[-N.shape[1] :])
    # if a semidefinite row is 0 at a matrix, its range is orthogonal to that of the matrix
    some = operator.restrict(active)
    each = [some.restrict(np.array([k])).adjoint(np.ones(1)) for k in range(some.c)]
    lows = [(A, eigh(A)[0]) for A in each]
    definite = [
        A / np.abs(t).max() for A, t in lows if np.abs(t).max() > 0 and t[0] * t[-1] >= -RANGE * np.abs(t).max() ** 2
    ]
    if definite:
        t, V = eigh(sum(A if np.trace(A) > 0 else -A for A in definite))
        keep = V[:, t <= 1e-12 * t[-1]]
        t, V = eigh(symmetrize(keep.T @ X @ keep))
        N = keep @ V[:, t > RANGE * values[-1]]
    if not N.shape[1]:
        return None
    M = symmetrize(N.T @ X @ N)
    Phi = some.congruence(N).features(None) / np.maximum(some.norms(), 1e-300)[:, None]
    M -= smat(np.linalg.lstsq(Phi, Phi @ svec(M), rcond=1e-10)[0], len(M))
    t, V = eigh(M)
    return N @ (V * np.sqrt(t)) if t[0] > 0 else None


def _falls(C: np.ndarray, G: np.ndarray) -> bool:
    """Whether the objective decreases along a direction, clearly beyond rounding."""
    X = G @ G.T
    return float(np.vdot(C, X)) < -CLEAR * float(np.vdot(np.abs(C), np.abs(X)))
