"""Learning from answers: a certified metric, its map, its violations, and a proof that no metric meets all answers exactly."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from bregmat.base.linalg import eigh
from bregmat.base.points import CheckedPoints
from bregmat.base.sampling import sq_distances
from bregmat.base.threads import cached_property
from bregmat.certificates.result import MatrixResult
from bregmat.coordinates.priors import Factor
from bregmat.estimators.linear_maps import inverse_deviations
from bregmat.estimators.selection import FEWEST_COMPARED
from bregmat.nearest import nearest_metric
from bregmat.typing import LossName
from bregmat_app.label.answers import Answer, AnsweredRows, rows_of
from bregmat_app.label.groups import Groups

PERCENTILES = (25.0, 75.0)  # of squared distances: upper bound for the same, lower bound for different points
PAIRS = 20_000  # random pairs that the percentiles are estimated from
MET = 1e-3  # relative violation up to which an answer counts as met
NEARLY_MET = 0.1  # relative violation up to which an answer counts as nearly met
N_NEAREST = 3  # others of which priors are judged by
MOST_COMPARED = 500  # answered points that priors are compared on
# Standard errors by which the other prior must be better. With 0.5, the choice is worse on spambase (docs/label_internals.md).
LEAD = 2.0
PROOF_SECONDS = 2.0  # time limit of a proof


@dataclass(frozen=True)
class LabelSettings:
    """Parameters of :class:`bregmat.MetricLearner` that learn the same metric; the prior "auto" is chosen by the answers."""

    prior: str = "auto"
    slack_weight: float = 10.0
    loss: LossName = "squared_hinge"
    tol: float = 1e-4


@dataclass(frozen=True, eq=False)
class PriorSpace:
    """The points in a prior metric, with the bounds of answers there."""

    name: str  # "identity" or "variance"
    scale: np.ndarray  # (d,): factors of the columns
    first: np.ndarray  # (n, d): Euclidean distances of these points are those of the prior
    near: float  # upper bound of the squared distance of points that are the same
    far: float  # lower bound of that of different points

    @classmethod
    def of(cls, X: np.ndarray, name: str) -> PriorSpace:
        """Return the points X in a prior; ValueError if all points coincide."""
        scale = inverse_deviations(X) if name == "variance" else np.ones(X.shape[1])
        first = X * scale
        sq = sq_distances(first, *np.random.default_rng(0).integers(0, len(X), (2, PAIRS)))
        if not (sq := sq[sq > 0]).size:
            raise ValueError("all points coincide, so no distances can be learned")
        near, far = (float(f"{x:.6g}") for x in np.percentile(sq, PERCENTILES))
        return cls(name, scale, first, near, far)

    @cached_property
    def factor(self) -> Factor | None:
        """The prior as the solver takes it."""
        return Factor(sp.diags_array(self.scale, format="csr")) if self.name == "variance" else None


@dataclass(frozen=True, eq=False)
class Learned:
    """A metric and the rows that it was learned from; without answers, neither result nor rows."""

    space: PriorSpace
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
    """Learns from rows on the finite points X (n, d). `start` is the prior before answers can choose one."""

    def __init__(self, X: np.ndarray, settings: LabelSettings, start: str = "variance") -> None:
        self.X, self.settings = np.ascontiguousarray(X, dtype=np.float64), settings
        self.points = CheckedPoints(self.X)
        self.start = PriorSpace.of(self.X, start if settings.prior == "auto" else settings.prior)
        self.mean = self.X.mean(axis=0)
        # the principal components of mapped points follow from the covariance of X
        self.covariance = np.atleast_2d(np.cov(self.X, rowvar=False, bias=True))

    @cached_property
    def other(self) -> PriorSpace:
        """The points in the prior that they do not start with."""
        return PriorSpace.of(self.X, "identity" if self.start.name == "variance" else "variance")

    def chosen(self, groups: Groups) -> PriorSpace:
        """Return the prior in which points of the classes have more of their class among their nearest others.

        That is the first one unless the other is better by `LEAD` standard errors of the difference.
        """
        members = [groups.points(one) for one in groups.all_apart() if len(groups.points(one)) > 1]
        codes = np.repeat(np.arange(len(members)), list(map(len, members)))
        if self.settings.prior != "auto" or len(members) < 2 or len(codes) < FEWEST_COMPARED:
            return self.start
        some = np.random.default_rng(0).permutation(len(codes))[:MOST_COMPARED]
        rows, codes = np.concatenate(members)[some], codes[some]
        scores = []  # of the leave-one-out neighbours of each point
        for space in (self.start, self.other):
            sq = cdist(space.first[rows], space.first[rows], "sqeuclidean")
            np.fill_diagonal(sq, np.inf)
            near = np.argpartition(sq, N_NEAREST, axis=1)[:, :N_NEAREST]
            scores.append((codes[near] == codes[:, None]).mean(axis=1))
        gain = scores[1] - scores[0]
        return self.other if gain.mean() > LEAD * gain.std() / np.sqrt(len(gain)) else self.start

    def learn(self, rows: AnsweredRows | None, last: Learned | None = None, space: PriorSpace | None = None) -> Learned:
        """Learn the metric nearest to the prior with soft rows, warm-started from an earlier one."""
        space = space or self.start
        if rows is None:
            return Learned(space, np.diag(space.scale))
        result = nearest_metric(
            self.points,
            rows.constraints,
            prior=space.factor,
            loss=self.settings.loss,
            slack_weight=self.settings.slack_weight,
            tol=self.settings.tol,
            warm_start=_carried(last, rows) if last is not None and last.space is space else None,
        )
        return Learned(space, result.B, result, rows)

    def warm_up(self) -> None:
        """Learn from two answers once, because some modules are loaded at their first use and would delay the first answer."""
        answers = [Answer(1, "different", (0, 1)), Answer(2, "closer", (0, 1, 2))]
        self.learn(rows_of(answers, self.start.near, self.start.far))

    def unmeetable(self, learned: Learned, contradicting: set[int]) -> list[int]:
        """Return answers, by number, of which it is proven that no metric of these features meets all exactly; none without a proof.

        Rows of the answers `contradicting`, which contradict each other whatever the features, are left out.
        """
        rows, result, first = learned.rows, learned.result, learned.space.first
        if rows is None or result is None or result.violation.max() <= MET:
            return []  # the learned metric meets all of them
        kept = np.flatnonzero([numbers.isdisjoint(contradicting) for numbers in rows.answers])
        # two points with equal features are not different, nor is one of them closer to a third point
        kind, i, j = np.array([(key[0], *key[-2:]) for key in rows.keys])[kept].T
        found = kept[(kind > 0) & (first[i] == first[j]).all(axis=1)]
        if not len(found) and len(kept):
            with suppress(ValueError):  # a value is lost in the rounding of the points
                hard = rows.constraints.select(kept)
                proof = nearest_metric(
                    self.points, hard, prior=learned.space.factor, tol=1e-3, max_seconds=PROOF_SECONDS
                )
                found = found if proof.conflict is None else kept[proof.conflict]
        return sorted(frozenset().union(*(rows.answers[row] for row in found)))

    def gains(self, learned: Learned) -> np.ndarray:
        """Return log2 of the learned over the prior weight of each feature, shape (d,); 0 if a weight is zero."""
        weight, first = (learned.map**2).sum(axis=1), learned.space.scale**2
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
