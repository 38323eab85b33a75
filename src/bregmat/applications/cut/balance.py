"""Which weights the sides of a cut may have: vertex weights, a target and fixed vertices as one linear equation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.base.checks import as_column, check_share, rows_text
from bregmat.base.tolerances import EPS

ROUNDING = 1e-9  # of the heaviest free vertex: by how much rounding of weights and target may move a limit


@dataclass(frozen=True)
class Balance:
    """The equation ``a'z = 0`` that z of +1 and -1 obeys for a balanced cut, and the cuts that are balanced.

    z holds the free vertices; the terminal, which stands for all fixed vertices and for the target, and is on side 1; and slack:
    isolated vertices, on any side. There is one slack vertex if the weight of a side can have two values. There are two if it can
    have more: two unit vectors of half the length of an interval have any vector of that length or less as a sum, so that the
    relaxation of the equation is that of the interval.

    Attributes
    ----------
    raw : ndarray, shape (n,)
        Weights of all vertices.
    target : float
        Share of side 1.
    sides : ndarray of int, shape (n,)
        0 and 1 for fixed vertices, -1 for the free ones.
    weights : ndarray, shape (m,)
        Weights of the free vertices, in the common unit of all weights if there is one.
    goal : float
        ``weights @ x`` at the target, where x of the free vertices is +1 on side 1 and -1 on side 0.
    limits : ndarray, shape (2,)
        The least and the largest ``weights @ x`` of a balanced cut.
    n_terminal, n_slack : int
        Numbers of vertices in z after the free ones.
    n_side : int or None
        Number of vertices on side 1, if it is the same in every balanced cut.
    """

    raw: np.ndarray
    target: float
    sides: np.ndarray
    weights: np.ndarray
    goal: float
    limits: np.ndarray
    n_terminal: int
    n_slack: int
    n_side: int | None

    @property
    def size(self) -> int:
        """Number of entries of z."""
        return len(self.weights) + self.n_terminal + self.n_slack

    @property
    def a(self) -> np.ndarray:
        """The coefficients of z, scaled to a mean square of 1; (size,)."""
        low, high = self.limits
        terminal, slack = [-0.5 * (low + high)] * self.n_terminal, [0.5 * (high - low)] * self.n_slack
        a = np.concatenate([self.weights, terminal, np.divide(slack, max(self.n_slack, 1))])
        largest = np.abs(a).max()
        if largest == 0.0:  # no vertex is free
            return np.ones(len(a))
        a /= largest
        return a / np.sqrt(np.mean(a * a))

    def split(self, scores: np.ndarray) -> np.ndarray:
        """+1 for the free vertices with the largest scores, -1 for the others, as near to the target as they allow; ties by position."""
        order = np.argsort(scores[: len(self.weights)], kind="stable")
        sums = self.weights.sum() - 2.0 * np.concatenate([[0.0], np.cumsum(self.weights[order])])
        x = np.ones(len(self.weights))
        x[order[: int(np.argmin(np.abs(sums - self.goal)))]] = -1.0
        return x

    def completed(self, x: np.ndarray) -> np.ndarray:
        """z from the sides of the free vertices; two slack vertices share what is left, between -1 and +1."""
        z = np.ones(self.size)
        z[: len(x)] = x
        if self.n_slack:
            low, high = self.limits
            z[-self.n_slack :] = np.clip((low + high - 2.0 * (self.weights @ x)) / (high - low), -1.0, 1.0)
        return z

    def labels(self, x: np.ndarray) -> np.ndarray:
        """Side of every vertex, 0 or 1; without a terminal the sides have no names, and the first vertex is on side 0."""
        labels = self.sides.copy()
        labels[labels < 0] = x > 0 if self.n_terminal else x != x[0]
        return labels

    def imbalance(self, labels: np.ndarray) -> float:
        """By how much the weights of both sides differ from their targets, added up."""
        return 2.0 * abs(math.fsum(self.raw[labels == 1]) - self.target * math.fsum(self.raw))


def read_balance(n: int, vertex_weights: Any, target: Any, fixed: Any) -> Balance:
    """Check the arguments of :func:`balanced_cut` about the sides, for n vertices.

    Parameters
    ----------
    n : int
    vertex_weights, target, fixed
        The arguments.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, and if no cut can be balanced.
    """
    check_share("target", target)
    weights = np.ones(n)
    if vertex_weights is not None:
        weights = as_column("vertex_weights", vertex_weights, n, per="vertex", positive=True)
        if not weights.sum() < 1e300:
            raise ValueError(f"vertex_weights must have a sum below 1e300; got {weights.sum()}.")
    sides = np.full(n, -1)
    if fixed is not None:
        fixed_sides = as_column("fixed", fixed, n, per="vertex")
        wrong = np.flatnonzero(~np.isin(fixed_sides, (-1, 0, 1)))
        if len(wrong):
            text = f"{fixed_sides[wrong[0]]:g} in {rows_text(wrong)}"
            raise ValueError(f"fixed must hold -1 (free), 0 or 1 (the side of the vertex); got {text}.")
        sides = fixed_sides.astype(int)
    if not (sides < 0).any():
        raise ValueError("fixed must leave at least one vertex free; got a side for every vertex.")
    return _balance(weights, float(target), sides)


def _balance(raw: np.ndarray, target: float, sides: np.ndarray) -> Balance:
    """The balance of checked arguments; weights are counted in their common unit if they have one."""
    unit, _ = common_unit(np.unique(raw))
    weights = np.rint(raw / unit) if unit > 0.0 else raw
    w = weights[sides < 0]
    reach, heaviest = float(w.sum()), float(w.max())
    fixed = float(weights[sides == 1].sum() - weights[sides == 0].sum())
    goal, room = float(weights.sum()) * (2.0 * target - 1.0) - fixed, heaviest * (1.0 + ROUNDING)
    low, high = max(goal - room, -reach), min(goal + room, reach)
    step = 2.0 * float(np.gcd.reduce(w.astype(np.int64))) if unit > 0.0 else 0.0
    if step > 0.0:  # w'x is -reach plus a multiple of the step
        low, high = (step * k - reach for k in (np.ceil((low + reach) / step), np.floor((high + reach) / step)))
    if low > high:
        one, free = (float(raw[sides == side].sum()) for side in (1, -1))
        raise ValueError(
            f"target must leave the fixed vertices a balanced cut; got {target!r}: side 1 would have the weight "
            f"{target * raw.sum():g}, and the fixed vertices allow {one:g} to {one + free:g}."
        )
    # all free vertices on one side is the only balanced cut: they are fixed
    least = 2.0 * float(w.min()) * (1.0 - ROUNDING)
    for side, is_only in ((1, low > reach - least), (0, high < least - reach)):
        if is_only:
            sides[sides < 0] = side
            return Balance(raw, target, sides, np.empty(0), 0.0, np.zeros(2), 1, 0, int((sides == 1).sum()))
    n_slack = 0 if low == high else 1 if high - low <= step else 2
    n_terminal = int((sides >= 0).any() or low + high != 0.0)
    n_side = None
    if low == high and w.min() == w.max():
        n_side = int((sides == 1).sum() + round((low + reach) / step))
    return Balance(raw, target, sides, w, goal, np.array([low, high]), n_terminal, n_slack, n_side)


def common_unit(weights: np.ndarray) -> tuple[float, bool]:
    """The greatest common divisor of ascending positive weights, by Euclid's algorithm, and whether it divides them exactly.

    It is exact for whole numbers and halves, and up to rounding for tenths. It is 0 if there is none.
    """
    most_units = 1e6  # of the largest weight over a unit that is only known up to rounding: the unit is known to 1e-10
    largest = float(weights[-1])
    # sums and differences of multiples of the grid are exact
    grid = 2.0 ** (np.floor(np.log2(weights.sum())) - 51)
    is_exact = bool((weights == grid * np.rint(weights / grid)).all())
    unit = float(weights[0])
    while is_exact or unit >= largest / most_units:
        left = np.abs(weights - unit * np.rint(weights / unit))
        # a unit that is a difference of rounded weights is wrong by the rounding of the largest one
        rounding = 0.0 if is_exact else 4.0 * EPS * weights * (largest / unit)
        left = left[left > rounding]
        if not len(left):
            return largest / float(np.rint(largest / unit)), is_exact
        unit = float(left.min())
    return 0.0, False
