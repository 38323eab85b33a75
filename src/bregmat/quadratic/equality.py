"""Equality rows: a point that meets them, or a proof that there is none; rows that say the same twice are left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr

from bregmat.quadratic.active_set import active_set
from bregmat.quadratic.problem import NonnegativeQP

EPS = float(np.finfo(float).eps)
CLOSE = 1e-10  # residual of a row, relative to its terms, up to which it counts as met


@dataclass(frozen=True, eq=False)
class Rows:
    """The equality rows in use, scaled to length 1.

    Attributes
    ----------
    equality : tuple of ndarray (k, n) and ndarray (k,), or None
        Independent rows; None where there are none.
    kept : ndarray of int, shape (k,)
        Their places among the rows given.
    length : ndarray, shape (k,)
        Their lengths before scaling.
    total : int
        Number of rows given.
    point : ndarray, shape (n,)
        In the box; meets the rows unless there is a conflict.
    conflict : ndarray, shape (total,), or None
        y with ``y'E x < y'e`` for all x in the box.
    """

    equality: tuple[np.ndarray, np.ndarray] | None
    kept: np.ndarray
    length: np.ndarray
    total: int
    point: np.ndarray
    conflict: np.ndarray | None = None

    def expand(self, multiplier: np.ndarray) -> np.ndarray:
        """Multipliers of the rows given, from those in use."""
        out = np.zeros(self.total)
        out[self.kept] = multiplier / self.length
        return out

    def onto(self, x: np.ndarray, problem: NonnegativeQP) -> np.ndarray:
        """A point near x that meets the rows and the box."""
        return x if self.equality is None else nearest_feasible(*self.equality, problem.bounds, x)

    def violation(self, problem: NonnegativeQP, x: np.ndarray) -> float:
        """Largest residual of a row given, relative to the size of its terms."""
        E, e = problem.rows
        if not len(E):
            return 0.0
        largest = float(problem.A.diagonal().max())
        usual = max(-float(problem.b.min()), 0.0) / largest if largest > 0 else 0.0
        # what a few roundings of the largest variable come to is none of a row's whose own variables are tiny
        rounding = 64 * EPS * np.abs(E).max(axis=1) * max(float(np.abs(x).max()), usual)
        missing = np.maximum(np.abs(E @ x - e) - rounding, 0.0)
        size = np.abs(E) @ np.abs(x) + np.abs(e)
        return float((missing / np.where(size > 0, size, 1.0)).max())


def unreduced(problem: NonnegativeQP, x: np.ndarray) -> Rows:
    """All rows as they were given."""
    E = problem.rows[0]
    return Rows(problem.equality, np.arange(len(E)), np.ones(len(E)), len(E), x)


def reduce_rows(problem: NonnegativeQP, start: np.ndarray | None) -> Rows:
    """Scale the rows, find a feasible point or a proof that there is none, and keep independent rows."""
    E, e = problem.rows
    total = len(E)
    none = np.zeros(0, np.int64)
    x = np.zeros(problem.n) if start is None else start
    if total == 0:
        return Rows(None, none, np.zeros(0), 0, x)
    length = np.linalg.norm(E, axis=1)
    empty = length == 0.0
    if (empty & (e != 0.0)).any():
        conflict = np.where(empty, e, 0.0)
        return Rows(None, none, np.zeros(0), total, x, conflict)
    rows = np.flatnonzero(~empty)
    length = length[rows]
    unit, goal = E[rows] / length[:, None], e[rows] / length
    point = nearest_feasible(unit, goal, problem.bounds, x)
    missing = goal - unit @ point
    size = np.abs(unit) @ point + np.abs(goal)
    if (np.abs(missing) > CLOSE * size).any() and (
        proof := _conflict(unit, goal, problem.bounds, _levelled(unit, point, problem.bounds, missing))
    ) is not None:
        y = np.zeros(total)
        y[rows] = proof / length
        return Rows(None, none, np.zeros(0), total, point, y)
    if len(rows) == 0:
        return Rows(None, none, np.zeros(0), total, point)
    _, R, order = qr(unit.T, mode="economic", pivoting=True)
    strength = np.abs(np.diag(R))
    keep = np.sort(order[: len(strength)][strength > 1e-10 * strength[0]])
    return Rows((np.ascontiguousarray(unit[keep]), goal[keep]), rows[keep], length[keep], total, point)


def nearest_feasible(E: np.ndarray, e: np.ndarray, upper: np.ndarray, x: np.ndarray) -> np.ndarray:
    """From x to a point of the box with the least ``|E x - e|``, by changing few variables."""
    if len(E) == 0:
        return x
    end = active_set(E.T @ E, -(E.T @ e), x, upper=upper, tol=1e-14, single=True)
    return end.x


def _levelled(E: np.ndarray, x: np.ndarray, upper: np.ndarray, y: np.ndarray) -> np.ndarray:
    """y without the part that variables between their bounds see: it is rounding of y, and large beside a small y."""
    free = np.flatnonzero((x > 0.0) & (x < upper))
    if not len(free):
        return y
    left, s, _ = np.linalg.svd(E[:, free], full_matrices=False)
    Q = left[:, s > CLOSE * s[0]]
    level = y - Q @ (Q.T @ y)
    level = level - Q @ (Q.T @ level)
    return level if float(np.abs(level).max()) > 0.5 * float(np.abs(y).max()) else y


def _conflict(E: np.ndarray, e: np.ndarray, upper: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """y, if ``max_x y'E x < y'e`` over the box with rounding to spare."""
    gain = y @ E
    noise = 1e-12 * float(np.abs(y).max())
    gain = np.where(gain <= noise, 0.0, gain)
    if (gain[np.isinf(upper)] > 0.0).any():
        return None
    most = float(gain @ np.where(np.isinf(upper), 0.0, upper))
    terms = float(np.abs(y) @ np.abs(e)) + most
    return y if float(y @ e) - most > 1e-12 * terms else None


def toward_rows(problem: NonnegativeQP) -> NonnegativeQP:
    """The problem without its rows, which a quadratic penalty stands in for: for first guesses."""
    E, e = problem.rows
    if not len(E):
        return problem
    curved = float(np.trace(problem.A)) or float(np.abs(problem.b).max()) or 1.0
    weight = curved / (float((E * E).sum()) or 1.0)
    return NonnegativeQP(problem.A + weight * (E.T @ E), problem.b - weight * (e @ E), problem.upper)
