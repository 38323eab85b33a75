"""Verification of balanced cuts: weights of the sides, weight of the cut, and the eigenvalue bound of the multipliers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import scipy

from bregmat.applications.cut.result import CutResult
from bregmat.engine.status import Status
from bregmat.verification.extended import arithmetic, eigenvalues, numbers, unit_of
from bregmat.verification.verifier import Verifier

ROOM = 1e-9  # of the heaviest free vertex: rounding of the weights and the target


class CutVerifier(Verifier):
    """The weight of the edges between two balanced sides of a graph."""

    kind = CutResult
    wanted, required = "the argument graph of balanced_cut", "graph"

    def __init__(self, arguments: Mapping[str, Any], result: CutResult) -> None:
        super().__init__(arguments, result)
        graph = arguments["graph"]
        if hasattr(graph, "adjacency"):
            import networkx

            graph = networkx.to_scipy_sparse_array(graph, weight="weight", format="csr", dtype=float)
        A = scipy.sparse.csr_array(graph, dtype=float, copy=True)
        A.sum_duplicates()  # an edge may be given as several entries
        self.A, self.labels = A.tocoo(), np.asarray(result.labels)
        if len(self.labels) != A.shape[0]:
            raise ValueError(f"the result has {len(self.labels)} vertices; the graph has {A.shape[0]}.")
        self.sides, self.real = _Sides(A.shape[0], arguments), arithmetic(60.0 * len(result.dual) ** 3)

    def compare_figures(self, is_feasible: bool) -> None:
        """Compare the weights of the sides and of the cut, and the bound."""
        result, report, A, labels, sides = self.result, self.report, self.A, self.labels, self.sides
        if not np.isin(labels, (0, 1)).all() or (labels != sides.fixed)[sides.fixed >= 0].any():
            self.refuse("a vertex is on no side, or not on the side to which it is fixed")
        if abs(sides.excess(labels)) > sides.heaviest / 2:
            self.refuse("the weights of the sides are not balanced")
        cut, total = math.fsum(A.data[labels[A.row] != labels[A.col]]) / 2, math.fsum(A.data) / 2
        report.compare("cut", cut, 1e-13 * total)
        report.compare("imbalance", float(2 * abs(sides.excess(labels))), 1e-13 * float(sides.total))
        report.compare("unit", cut or 1.0, 1e-13 * total)
        relaxed = cut if sides.only else self._relaxation()
        if relaxed is None:
            return
        allowed = 1e-12 * total
        report.figures["relaxation_bound"] = (result.relaxation_bound, relaxed)
        if not result.relaxation_bound <= relaxed + allowed:
            report.problem(f"the dual weights prove {relaxed:.9g} and not {result.relaxation_bound:.9g} as a bound")
        bound = max(min(_rounded_up(A, relaxed - allowed, sides.n_side), cut), 0.0)
        report.bound_from_below("lower_bound", bound, allowed + 1e-9 * cut)
        if report.claimed is Status.OPTIMAL and not cut - bound <= (result.tol * 1.001 + 1e-12) * cut + 2 * allowed:
            report.problem(f"OPTIMAL is claimed: the cut is {cut:.9g}, and {bound:.9g} is proven", Status.FEASIBLE)
        report.figures["gap"] = (result.gap, (cut - bound) / cut if cut > 0 else 0.0)

    def _relaxation(self) -> float | None:
        """``base + (size min(lam, 0) - sum y) / 4`` with lam the smallest eigenvalue of ``L + diag(y)`` on vectors orthogonal to a.

        L is the Laplacian of the signed graph in which the terminal stands for the fixed vertices: edges of those on side 0 count
        negatively there, and ``base`` is the weight of the edges that are cut if all free vertices are on side 1.
        """
        largest = 3000  # number of vertices up to which the bound is recomputed, with a dense Laplacian
        A, y, sides, report, real = self.A, self.result.dual, self.sides, self.report, self.real
        free = np.flatnonzero(sides.fixed < 0)
        m, middle, width = len(free), (sides.low + sides.high) / 2, (sides.high - sides.low) / 2
        has_terminal = bool(m < len(sides.fixed) or middle != 0)
        size, n_slack = len(y), len(y) - m - has_terminal
        if not (n_slack == 2 or (n_slack == 1 and sides.n_values <= 2) or (n_slack == 0 and sides.n_values == 1)):
            report.problem(f"there are {size} multipliers for {m} free vertices", Status.FEASIBLE)
            return None
        if max(size, A.shape[0]) > largest:
            report.unchecked.append(f"the bound was not recomputed: {A.shape[0]} vertices are more than {largest}")
            return None
        place = np.where(sides.fixed < 0, np.cumsum(sides.fixed < 0) - 1, m)
        sign = np.where(sides.fixed == 0, -1, 1)
        row, column = place[A.row], place[A.col]
        W, y = np.zeros((size, size), dtype=real), y.astype(real)
        np.add.at(W, (row, column), A.data * (sign[A.row] * sign[A.col]))
        W[np.diag_indices(size)] = 0
        M = np.diag(W.sum(axis=1) + y) - (W + W.T) / 2
        is_zero = sides.fixed == 0
        value = 2 * math.fsum(A.data[is_zero[A.row] != is_zero[A.col]]) - float(y.sum())
        top = float(np.sqrt(np.sum(M * M)))  # at least all eigenvalues
        if top > 0.0:
            weights: list[Fraction] = (
                [sides.weights[i] for i in free] + [-middle] * has_terminal + [width / 2 * (3 - n_slack)] * n_slack
            )
            a = np.array([real(w.numerator) / real(w.denominator) for w in weights])
            a /= np.sqrt(np.sum((a / np.abs(a).max()) ** 2)) * np.abs(a).max()
            v = M @ a
            P = M - np.outer(a, v) - np.outer(v, a) + (a @ v + real(top)) * np.outer(a, a)  # a has the eigenvalue `top`
            low = float(eigenvalues((P + P.T) / 2)[0]) - unit_of(real) * size * top
            value += size * min(low, 0.0)
        return value / 4


class _Sides:
    """Which cuts are balanced, in fractions.

    The sum of the weights of the free vertices on side 1, minus that of those on side 0, is between ``low`` and ``high``. If the
    weights have a common unit, they are counted in it, and the sum has ``n_values`` values.
    """

    def __init__(self, n: int, problem: Any) -> None:
        weights, fixed = problem.get("vertex_weights"), problem.get("fixed")
        weights = np.ones(n) if weights is None else numbers(weights)
        self.raw = [Fraction(w) for w in weights.tolist()]
        self.fixed = np.full(n, -1) if fixed is None else numbers(fixed).astype(int)
        self.total, self.target = sum(self.raw), Fraction(float(problem.get("target", 0.5)))
        unit = _common_unit(weights)
        self.weights = [Fraction(round(w / unit)) for w in weights.tolist()] if unit > 0.0 else self.raw
        pairs = list(zip(self.weights, self.fixed, strict=True))
        free = [w for w, own in pairs if own < 0]
        reach, held = (
            sum(free, Fraction(0)),
            sum((w * (1 if own == 1 else -1) for w, own in pairs if own >= 0), Fraction(0)),
        )
        room = max(free) * (1 + Fraction(ROOM))
        goal = sum(self.weights) * (2 * self.target - 1) - held
        self.low, self.high = max(goal - room, -reach), min(goal + room, reach)
        self.n_values: float = math.inf
        if unit > 0.0:
            step = 2 * math.gcd(*map(int, free))
            first, last = math.ceil((self.low + reach) / step), math.floor((self.high + reach) / step)
            self.low, self.high, self.n_values = step * first - reach, step * last - reach, last - first + 1
        self.heaviest = max(w for w, own in zip(self.raw, self.fixed, strict=True) if own < 0) * (1 + Fraction(ROOM))
        # whether all free vertices on one side is the only balanced cut
        least = 2 * min(free) * (1 - Fraction(ROOM))
        self.only = self.low > reach - least or self.high < least - reach
        self.n_side = None
        if self.n_values == 1 and min(free) == max(free):
            self.n_side = int((self.fixed == 1).sum() + (self.low + reach) / free[0] / 2)

    def excess(self, labels: np.ndarray) -> Fraction:
        """The weight of side 1 minus its target."""
        ones = sum(w for w, side in zip(self.raw, labels, strict=True) if side == 1)
        return ones - self.target * self.total


def _rounded_up(A: Any, bound: float, n_side: int | None) -> float:
    """The bound, raised to the next possible weight of a cut if all weights are multiples of a unit; cuts may have a parity."""
    w = A.data[A.data != 0]
    unit = _common_unit(w)
    if unit == 0.0:
        return bound
    counts = np.rint(A.data / unit)
    spread = math.fsum(np.abs(A.data - unit * counts)) / 2  # of weights that are multiples up to rounding
    degrees = np.bincount(A.row, counts, minlength=A.shape[0])
    odd = degrees % 2 == 1
    offset, step = 0.0, unit
    if not odd.any():
        step *= 2
    elif odd.all() and n_side is not None:  # side 1 has that many vertices
        offset, step = step * (n_side % 2), 2 * step
    return max(bound, offset + step * math.ceil((bound - spread - offset) / step - 1e-9) - spread)


def _common_unit(weights: np.ndarray) -> float:
    """The largest number of which all weights are multiples, exactly or up to rounding, from ratios as fractions; 0 if none."""
    most_units = 10**6  # largest weight in units, if weights are multiples of a unit only up to rounding
    if not len(weights):
        return 0.0
    values = [Fraction(value) for value in np.unique(weights).tolist()]
    exact = (value / values[-1] for value in values)
    rounded = ((value / values[-1]).limit_denominator(most_units) for value in values)
    for ratios, limit in ((exact, 2.0**52 * float(weights.max() / weights.sum())), (rounded, most_units)):
        count = 1  # number of units in the largest weight
        for ratio in ratios:
            count = math.lcm(count, ratio.denominator)
            if count > limit:
                break
        else:
            unit = float(values[-1] / count)
            if math.fsum(np.abs(weights - unit * np.rint(weights / unit))) <= 0.01 * unit:
                return unit
    return 0.0
