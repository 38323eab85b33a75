"""Equality rows: a point that meets them or a proof that there is none, and a subset of independent rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import qr

from bregmat.base.linalg import column_basis
from bregmat.quadratic.active_set import ExactActiveSet
from bregmat.quadratic.pivoting import first_sides

if TYPE_CHECKING:  # programs use this module
    from bregmat.quadratic.program import QuadraticProgram

CLOSE = 1e-10  # residual of a row, relative to its terms, up to which it counts as met
NEAREST = ExactActiveSet(tol=1e-14)


@dataclass(frozen=True, eq=False)
class EqualityRows:
    """The equality rows of a program as given, and a subset of independent rows, which solvers use, scaled to length 1."""

    whole: QuadraticProgram  # with all rows
    kept: np.ndarray  # (k,) positions of the independent rows among the given ones
    length: np.ndarray  # (k,) their lengths before scaling
    point: np.ndarray  # (n,) in the box; meets the rows unless there is a conflict
    conflict: np.ndarray | None = None  # (m,) multipliers y of the given rows with y'E x < y'e for all x in the box

    @classmethod
    def reduce(cls, program: QuadraticProgram, start: np.ndarray | None) -> EqualityRows:
        """Scale the rows, find a feasible point or a proof that there is none, and select independent rows."""
        E, e, m = program.E, program.e, program.m
        x = np.zeros(program.n) if start is None else start
        none = (program, np.zeros(0, np.int64), np.zeros(0))
        length = np.linalg.norm(E, axis=1)
        empty = length == 0.0
        if (empty & (e != 0.0)).any():  # 0 = e_i
            return cls(*none, x, np.where(empty, e, 0.0))
        rows = np.flatnonzero(~empty)
        length = length[rows]
        unit, goal = E[rows] / length[:, None], e[rows] / length
        scaled = replace(program, E=unit, e=goal)
        point = nearest_feasible(scaled, x)
        size = np.abs(unit) @ point + np.abs(goal)
        is_missed = (np.abs(goal - unit @ point) > CLOSE * size).any()
        if is_missed and (proof := _conflict(scaled, point)) is not None:
            y = np.zeros(m)
            y[rows] = proof / length
            return cls(*none, point, y)
        if len(rows) == 0:
            return cls(*none, point)
        # QR with pivoting orders the rows; those with a tiny diagonal entry depend on the others
        _, R, order = qr(unit.T, mode="economic", pivoting=True)
        strength = np.abs(np.diag(R))
        keep = np.sort(order[: len(strength)][strength > 1e-10 * strength[0]])
        return cls(program, rows[keep], length[keep], point)

    def expand(self, multiplier: np.ndarray) -> np.ndarray:
        """Multipliers of the given rows, shape (m,), from those of the independent rows."""
        out = np.zeros(self.whole.m)
        out[self.kept] = multiplier / self.length
        return out


def nearest_feasible(program: QuadraticProgram, x: np.ndarray) -> np.ndarray:
    """A point of the box with the least ``|E x - e|``, shape (n,), found from x by changing few variables."""
    E, e = program.E, program.e
    return NEAREST.minimize(program.of(E.T @ E, -(E.T @ e), program.upper), x).x if len(e) else x


def rough_point(program: QuadraticProgram, start: np.ndarray | None) -> np.ndarray:
    """A feasible point not far from the solution, shape (n,), by coordinate descent with a penalty for the rows."""
    x = first_sides(program.without_rows(), start)[0]
    # with a singular A, x may go far along flat directions, where rounding dominates
    if not np.isfinite(x).all():
        x[:] = 0.0
    return nearest_feasible(program, x)


def _conflict(program: QuadraticProgram, x: np.ndarray) -> np.ndarray | None:
    """Multipliers y from the residual of the rows at the nearest point x, if ``max_x y'E x < y'e`` over the box beyond rounding."""
    E, e, upper = program.E, program.e, program.upper
    y = e - E @ x
    free = np.flatnonzero((x > 0.0) & (x < upper))
    if len(free):
        # At the nearest point E_F'y = 0 for variables between their bounds; remove what rounding left of it, if y is not all rounding.
        Q = column_basis(E[:, free], CLOSE)
        level = y - Q @ (Q.T @ y)
        level = level - Q @ (Q.T @ level)
        y = level if float(np.abs(level).max()) > 0.5 * float(np.abs(y).max()) else y
    gain = y @ E
    noise = 1e-12 * float(np.abs(y).max())
    gain = np.where(gain <= noise, 0.0, gain)
    if (gain[np.isinf(upper)] > 0.0).any():
        return None
    largest = float(gain @ np.where(np.isinf(upper), 0.0, upper))
    terms = float(np.abs(y) @ np.abs(e)) + largest
    return y if float(y @ e) - largest > 1e-12 * terms else None
