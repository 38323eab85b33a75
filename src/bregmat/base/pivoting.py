"""Block principal pivoting: convex quadratic programs in a box, and the rule that exchanges their variables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Exchanges:
    """The rule of block principal pivoting: which variables that violate their condition change sides.

    All of them (Portugal, Judice and Vicente 1994), until their number has not fallen for ``patience`` rounds. Then only the last one,
    ``singles`` times (Murty 1974). Without that limit the method terminates for positive definite matrices, but slowly.
    """

    def __init__(self, patience: int, singles: float = np.inf) -> None:
        self.patience, self.singles = patience, singles
        self.restart()

    def restart(self) -> None:
        """Forget the counts, since the conditions are tested in another precision from now on."""
        self.fewest, self.left = np.inf, self.patience

    def choose(self, wrong: np.ndarray) -> np.ndarray | None:
        """The variables to exchange, among the numbers of those that violate their condition; None: give up."""
        if len(wrong) < self.fewest:
            self.fewest, self.left = len(wrong), self.patience
        elif self.left > 0:
            self.left -= 1
        elif self.singles > 0:
            self.singles -= 1
            return wrong[-1:]
        else:
            return None
        return wrong


def pivot_in_box(
    solve: Callable[[np.ndarray, np.ndarray], np.ndarray | None],
    product: Callable[[np.ndarray], np.ndarray],
    q: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    side: np.ndarray,
    exchanges: Exchanges,
    *,
    unit: np.ndarray | float = 1.0,
    noise: tuple[float, float] = (1e-12, 0.0),
    max_iter: int = 60,
    watch: Callable[[np.ndarray, np.ndarray], None] | None = None,
) -> np.ndarray | None:
    """``minimize q . d + d' H d / 2`` over ``lower <= d <= upper`` for positive definite H; None if it gives up.

    Each round solves on the free variables and exchanges some of those that violate their condition (:class:`Exchanges`).

    Parameters
    ----------
    solve : callable
        (free, b) -> x with ``H_FF x = b``, or None if that costs too much or H_FF is singular.
    product : callable
        ``H v``.
    q, lower, upper : ndarray, shape (c,)
        Bounds may be infinite; variables with ``lower == upper`` are fixed.
    side : ndarray of int, shape (c,)
        First guess: -1 at the lower bound, 0 free, 1 at the upper one.
    exchanges : Exchanges
    unit : ndarray, shape (c,), or float
        Factor on gradients before they are compared.
    noise : pair of float
        Gradients, times unit, count as zero up to these multiples of the largest entries of q and of ``H d``.
    max_iter : int
        Limit on solves.
    watch : callable, optional
        Called with every point (c,), which may be outside the box, and its product with H.
    """
    fixed, size = lower >= upper, float(np.abs(q * unit).max(initial=0.0))
    for _ in range(max_iter):
        d = np.where(side < 0, lower, np.where(side > 0, upper, 0.0))
        free = np.flatnonzero(side == 0)
        if len(free):
            x = solve(free, -(q + product(d) if d.any() else q)[free])
            if x is None:
                return None
            d[free] = x
        H = product(d)
        if watch is not None:
            watch(d, H)
        slack = noise[0] * size + noise[1] * float(np.abs(H * unit).max(initial=0.0))
        want = np.where(fixed, side, _wanted_sides(d, (q + H) * unit, lower, upper, side, slack))
        wrong = np.flatnonzero(want != side)
        if not len(wrong):
            return d
        moved = exchanges.choose(wrong)
        if moved is None:
            return None
        side[moved] = want[moved]
    return None


def _wanted_sides(
    d: np.ndarray, g: np.ndarray, lower: np.ndarray, upper: np.ndarray, side: np.ndarray, slack: float
) -> np.ndarray:
    """The side of each variable by its condition: inside the box if free, gradient g >= 0 at the lower and <= 0 at the upper bound."""
    want = side.copy()
    want[(side == 0) & (d < lower)] = -1
    want[(side == 0) & (d > upper)] = 1
    want[((side < 0) & (g < -slack)) | ((side > 0) & (g > slack))] = 0
    return want
