"""An interior-point method in the entries that are not fixed, for many fixed entries.

Newton's method on the dual is slow if the multipliers of fixed entries are nearly degenerate: eigenvalues cross 0 in every step. The
multiplier S of ``X >= d I`` solves a semidefinite program with one soft row for each free entry (Lagrange duality):

    minimize <B, S> + sum over free i < j of (S_ij + C_ij)^2   over S >= 0,

where B has the prescribed entries, less ``d I``, and 0 elsewhere. Its rows have the multipliers 2 X_ij, and its dual slack is ``X - d I``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.applications.correlation.problem import CorrelationProblem, DenseState
from bregmat.applications.semidefinite.path import LogDetPath, PathState
from bregmat.applications.semidefinite.problem import SemidefiniteProgram
from bregmat.certificates.problem import NearestMatrix
from bregmat.constraints.constraints import Constraints
from bregmat.objective.divergences import Frobenius
from bregmat.objective.losses import SquaredHinge
from bregmat.objective.row_losses import RowLosses
from bregmat.operators.binding import bind

MAX_FREE = 4000  # free entries: a step factorises a matrix of that order


@dataclass(frozen=True, eq=False)
class _FreeState(DenseState):
    """A point of the program, and the correlation matrix of its multipliers."""

    program: SemidefiniteProgram
    point: PathState
    X: np.ndarray
    dual: np.ndarray
    values: np.ndarray  # type: ignore[assignment]
    objective: float
    signal: float
    stalled: bool

    def matrix(self) -> np.ndarray:
        """X."""
        return self.X.copy()


@dataclass(frozen=True)
class FreeEntryPath:
    """Primal-dual steps in the free entries (Frobenius). About 20 steps, each of f^3 / 3 operations for f free entries."""

    name: ClassVar[str] = "free_entry_path"
    works_on: ClassVar[str] = "objective"
    max_iter: ClassVar[int] = 60

    def check(self, problem: CorrelationProblem) -> None:
        """Accept every problem that is passed."""

    def init(self, problem: CorrelationProblem, tol: float, start: Any) -> _FreeState:
        """Start at a multiple of the identity."""
        program = _program(problem)
        return _state(problem, program, LogDetPath().init(program, tol, None))

    def step(self, problem: CorrelationProblem, state: _FreeState) -> _FreeState:
        """One step of the program's own method."""
        return _state(problem, state.program, LogDetPath().step(state.program, state.point))


def _program(problem: CorrelationProblem) -> SemidefiniteProgram:
    """The program for S."""
    n, C = problem.entries.n, problem.C
    is_free = np.triu(np.ones((n, n), dtype=bool), 1)
    is_free[problem.entries.i, problem.entries.j] = False
    i, j = np.nonzero(is_free)
    one, zero = np.ones(len(i)), np.zeros(len(i), np.int8)
    losses = RowLosses(-C[i, j], zero, 2.0 * one, one, (SquaredHinge(),), zero)
    operator = bind(Constraints.similarity(i, j, -C[i, j], "=="), np.eye(n))
    rows = NearestMatrix(Frobenius(), np.ones(n), operator, losses, one)
    return SemidefiniteProgram(problem.entries.prescribed(problem.C), rows, zero.astype(bool))


def _state(problem: CorrelationProblem, program: SemidefiniteProgram, point: PathState) -> _FreeState:
    """The state of a point: X has its prescribed entries exactly, and ``Y = C + S - X`` is 0 at the others."""
    X = program.C + program.rows.operator.adjoint(point.dual)
    dual = problem.entries.of(problem.C + point.iterate.matrix() - X)
    dual[problem.entries.n :] *= 2.0
    objective = problem.distance(X)
    return _FreeState(program, point, X, dual, problem.losses.bound, objective, point.signal, point.stalled)
