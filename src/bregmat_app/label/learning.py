"""Learning from answers: a certified metric, its map, its violations, and proofs that answers contradict each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.linalg import eigh
from bregmat.base.points import CheckedPoints
from bregmat.base.sampling import sq_distances
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Factor
from bregmat.engine.status import Status
from bregmat.estimators.linear_maps import inverse_deviations
from bregmat.nearest import nearest_metric
from bregmat.typing import LossName
from bregmat_app.label.answers import AnsweredRows

PERCENTILES = (25.0, 75.0)  # of squared distances: upper bound for the same, lower bound for different points
PAIRS = 20_000  # random pairs that the percentiles are estimated from
MET = 1e-3  # relative violation up to which an answer counts as met
NEARLY_MET = 0.1  # relative violation up to which an answer counts as nearly met
PROOF_SECONDS = 2.0  # time limit of one search for a contradiction
MOST_FOUND = 5  # largest number of contradictions to find
MOST_TRIALS = 40  # rows that are left out in turn to shorten a contradiction


@dataclass(frozen=True)
class LabelSettings:
    """Parameters of :class:`bregmat.MetricLearner` that learn the same metric."""

    prior: str = "variance"
    slack_weight: float = 10.0
    loss: LossName = "squared_hinge"
    tol: float = 1e-4


@dataclass(frozen=True, eq=False)
class Learned:
    """A metric and the rows that it was learned from; without answers, neither result nor rows."""

    map: np.ndarray  # (d, r); Euclidean distances of X @ map are those of the metric
    result: MatrixResult | None = None
    rows: AnsweredRows | None = None

    def violations(self) -> dict[int, float]:
        """Return the largest relative violation of each answer, over the rows that it alone implies."""
        if self.result is None or self.rows is None:
            return {}
        worst: dict[int, float] = {}
        for numbers, amount in zip(self.rows.answers, self.result.violation.tolist()):
            if len(numbers) == 1:
                (number,) = numbers
                worst[number] = max(worst.get(number, 0.0), amount)
        return worst


class Learning:
    """Learns from rows on the finite points X (n, d), and proves that rows contradict each other."""

    def __init__(self, X: np.ndarray, settings: LabelSettings) -> None:
        self.X, self.settings = np.ascontiguousarray(X, dtype=np.float64), settings
        self.points = CheckedPoints(self.X)
        self.scale, self.prior = np.ones(X.shape[1]), None
        if settings.prior == "variance":
            self.scale = inverse_deviations(self.X)
            self.prior = Factor(sp.diags_array(self.scale, format="csr"))
        i, j = np.random.default_rng(0).integers(0, len(X), (2, PAIRS))
        self.first = self.X * self.scale  # Euclidean distances of these points are those of the prior
        sq = sq_distances(self.first, i, j)
        if not (sq := sq[sq > 0]).size:
            raise ValueError("all points coincide, so no distances can be learned")
        # bounds for the same and for different points: squared distances in the metric of the prior
        self.near, self.far = (float(f"{x:.6g}") for x in np.percentile(sq, PERCENTILES))
        self.mean = self.X.mean(axis=0)
        # the principal components of mapped points follow from the covariance of X
        self.covariance = np.atleast_2d(np.cov(self.X, rowvar=False, bias=True))

    def learn(self, rows: AnsweredRows | None, last: Learned | None = None) -> Learned:
        """Learn the metric nearest to the prior with soft rows, warm-started from an earlier one."""
        if rows is None:
            return Learned(np.diag(self.scale))
        result = nearest_metric(
            self.points,
            rows.constraints,
            prior=self.prior,
            loss=self.settings.loss,
            slack_weight=self.settings.slack_weight,
            tol=self.settings.tol,
            warm_start=_carried(last, rows),
        )
        return Learned(result.B, result, rows)

    def warm_up(self) -> None:
        """Learn from two rows once, because some modules are loaded at their first use and would delay the first answer."""
        pairs = Constraints.sq_distance([0, 1], [1, 2], [self.near, self.far], ["<=", ">="])
        triple = Constraints.comparison([0], [1], [0], [2], self.near)
        self.learn(AnsweredRows(pairs + triple, [frozenset({k}) for k in range(3)], [(k,) for k in range(3)]))

    def contradictions(
        self, learned: Learned, softened: set[int], is_wanted: Callable[[], bool] = lambda: True
    ) -> list[list[int]]:
        """Find disjoint sets of answers, by their numbers, of which it is proven that no metric of these features meets them.

        Each contradiction is shortened by leaving out rows while the proof holds. Then its answers are removed and the search
        continues. Softened answers may be violated and are left out. The search ends if `is_wanted`, called before each proof,
        returns False.
        """
        rows, result = learned.rows, learned.result
        if rows is None or result is None or result.violation.max(initial=0.0) <= MET:
            return []  # the learned metric meets all of them
        kept = np.array([not (numbers & softened) for numbers in rows.answers])
        found: list[list[int]] = []
        for row in self._impossible(rows):  # each of these rows is impossible by itself
            if kept[row] and len(found) < MOST_FOUND:
                found.append(sorted(rows.answers[row]))
            kept &= np.array([not (rows.answers[row] & theirs) for theirs in rows.answers])
        while kept.any() and len(found) < MOST_FOUND and is_wanted():
            conflict = self._conflict(rows, np.flatnonzero(kept), is_wanted)
            if conflict is None:
                break
            numbers = frozenset().union(*(rows.answers[row] for row in conflict))
            found.append(sorted(numbers))
            kept &= np.array([not (numbers & theirs) for theirs in rows.answers])
        return found

    def _impossible(self, rows: AnsweredRows) -> list[int]:
        """Return the rows that ask for different points although their features are equal."""
        apart = [row for row, key in enumerate(rows.keys) if key[0] == 1]
        i, j = np.array([rows.keys[row][1:] for row in apart], dtype=np.int64).reshape(-1, 2).T
        return [apart[k] for k in np.flatnonzero(sq_distances(self.first, i, j) == 0)]

    def _conflict(self, rows: AnsweredRows, chosen: np.ndarray, is_wanted: Callable[[], bool]) -> np.ndarray | None:
        """Return rows among the chosen ones that contradict each other; None without a proof."""
        conflict = self._proof(rows, chosen)
        if conflict is None:
            return None
        conflict = chosen[conflict]
        for row in conflict[:MOST_TRIALS] if len(conflict) > 2 else ():
            rest = conflict[conflict != row]
            if not is_wanted():
                break
            if len(rest) < len(conflict) and (smaller := self._proof(rows, rest)) is not None:
                conflict = rest[smaller]
        return conflict

    def _proof(self, rows: AnsweredRows, chosen: np.ndarray) -> np.ndarray | None:
        """Return the places of some chosen rows that are infeasible together; None without a proof in time."""
        hard = replace(rows.constraints.select(chosen), weight=np.ones(len(chosen)))
        result = nearest_metric(self.points, hard, prior=self.prior, tol=1e-3, max_seconds=PROOF_SECONDS)
        return result.conflict if result.status is Status.INFEASIBLE else None

    def gains(self, learned: Learned) -> np.ndarray:
        """Return log2 of the learned over the prior weight of each feature, shape (d,); 0 if a weight is zero."""
        weight, first = (learned.map**2).sum(axis=1), self.scale**2
        return np.log2(np.divide(weight, first, out=np.ones(len(first)), where=(first > 0) & (weight > 0)))


def _carried(last: Learned | None, rows: AnsweredRows) -> Any:
    """Return the earlier result with its dual weights in the order of the new rows; 0 for rows that it lacks."""
    if last is None or last.result is None or last.rows is None:
        return None
    weights = dict(zip(last.rows.keys, last.result.dual.tolist()))
    return replace(last.result, dual=np.array([weights.get(key, 0.0) for key in rows.keys]))


def plane(covariance: np.ndarray, learned: np.ndarray, before: np.ndarray | None) -> np.ndarray:
    """Return the map of points to the plane, (d, 2): their first two principal components after the map `learned` (d, r).

    The principal components of ``X @ learned`` depend on X through its covariance only. So does the rotation or reflection R that
    brings the mapped points nearest to their previous positions (orthogonal Procrustes problem): ``min_R |X A R - X A_before|``.
    """
    vectors = eigh(learned.T @ covariance @ learned)[1][:, ::-1][:, :2]
    A = learned @ vectors
    if A.shape[1] < 2:
        A = np.hstack([A, np.zeros((len(A), 2 - A.shape[1]))])
    if before is None:
        return A * np.where(A[np.abs(A).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    U, _, Vt = np.linalg.svd(A.T @ covariance @ before)
    return A @ (U @ Vt)
