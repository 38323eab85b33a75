"""MetricLearner for points in blocks: neighbours and the problem. The same constraints are drawn as in memory.

The process that calls ``fit`` has the labels, the points that are drawn, and the constraints between them. It does not hold the points
of all blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from bregmat.base.linalg import blocks, dense, smallest, sq_norms
from bregmat.base.sampling import NothingToCompare
from bregmat.base.tolerances import IDENTICAL
from bregmat.certificates.result import MatrixResult
from bregmat.constraints.constraints import Constraints
from bregmat.coordinates.priors import Factor
from bregmat.estimators.given import given_constraints, nothing_given
from bregmat.estimators.linear_maps import (
    factor_of,
    given_prior,
    inverse_covariance,
    inverse_deviations,
)
from bregmat.estimators.task import Task, TrainingProblem
from bregmat.from_labels.groups import LabelGroups, label_codes, too_few_labelled
from bregmat.from_labels.neighbors import BLOCK, Neighbors
from bregmat.nearest import nearest_metric
from bregmat.sharded.points import PointBlock, PointsInBlocks

if TYPE_CHECKING:  # which imports this module where points are in blocks
    from bregmat.estimators.metric import MetricLearner

MOST_CLASSES = 10_000
QUERIES = 1_000_000  # numbers in the points whose neighbours are searched at a time: every block receives 8 MB


# ---------------------------------------------------------------------- neighbours
# The k nearest points of m points are an array (3, m, k): squared distances (inf if there are fewer), row numbers, squared norms.
def _joined(a: list[np.ndarray], b: list[np.ndarray]) -> list[np.ndarray]:
    """The k nearest of two blocks, for targets and for impostors; of equal distances the one with the lower row number."""
    joined = []
    for one, other in zip(a, b):
        both = np.concatenate([one, other], axis=2)
        order = np.lexsort((both[1], both[0]))[:, : one.shape[2]]
        joined.append(np.take_along_axis(both, order[None], axis=2))
    return joined


def _mapped(block: PointBlock, P: Any) -> np.ndarray:
    """The points of a block, mapped."""
    return block.X if P is None else np.asarray(block.X @ P)


def _nearest(
    block: PointBlock, Z: np.ndarray, Q: np.ndarray, numbers: np.ndarray, kind: np.ndarray, k: Any
) -> list[np.ndarray]:
    """Up to ``k[0]`` points of the same class and ``k[1]`` of others in this block for each of some points Q (m, r)."""
    assert block.y is not None  # class numbers
    codes = block.y
    known = np.flatnonzero(codes >= 0)
    closest = [np.broadcast_to(np.array([np.inf, -1.0, 0.0])[:, None, None], (3, len(Q), n)).copy() for n in k]
    sizes = sq_norms(Z[known])
    for part in blocks(len(Q), len(known), BLOCK):
        sq = sizes - 2.0 * (Q[part] @ Z[known].T)  # without |q|^2, which is the same for all
        sq[numbers[part, None] == block.first + known] = np.inf
        is_alike = kind[part, None] == codes[known]
        for one, wanted in zip(closest, (is_alike, ~is_alike)):
            near, columns = smallest(np.where(wanted, sq, np.inf), one.shape[2])
            rows, is_found = known[columns], np.isfinite(near)
            exact = sq_norms((Z[rows] - Q[part, None]).reshape(-1, Q.shape[1])).reshape(rows.shape)
            one[:, part, : rows.shape[1]] = (
                np.where(is_found, exact, np.inf),
                np.where(is_found, block.first + rows, -1),
                sizes[columns],
            )
    return closest


@dataclass(frozen=True, eq=False)
class BlockSpace:
    """Points in blocks, mapped by P (d, r), or as they are; all blocks are searched for neighbours.

    It has the methods of a :class:`bregmat.from_labels.neighbors.Space` that comparisons need.

    Attributes
    ----------
    points : PointsInBlocks
    P : ndarray, shape (d, r), or None
    among : ndarray of int
        Row numbers of the labelled points.
    """

    points: PointsInBlocks
    P: np.ndarray | None
    among: np.ndarray

    def nearest(self, groups: LabelGroups, points: np.ndarray, n_alike: int, n_apart: int) -> Neighbors:
        """Exact neighbours: every block is searched, for some of the points at a time.

        Parameters
        ----------
        groups, points, n_alike, n_apart
            As in :meth:`bregmat.from_labels.neighbors.Space.nearest`.
        """
        Z, kind, parts = self.points.cached(_mapped, self.P), groups.codes[points], []
        for part in blocks(len(points), self.points.shape[1], QUERIES):
            query = self._read(points[part]), points[part], kind[part]
            parts.append(self.points.reduce(_nearest, Z, *query, (n_alike, n_apart), combine=_joined))
        near, far = [np.concatenate([one[which] for one in parts], axis=1) for which in (0, 1)]
        sq, rows, size = far[0], far[1].astype(np.int64), sq_norms(self._read(points))
        coincides = (rows >= 0) & (sq <= IDENTICAL * (size[:, None] + far[2]))
        is_left_out = (rows < 0) | coincides
        kept = np.flatnonzero(~is_left_out.all(axis=1))
        if not len(kept):
            pair = int(points[0]), int(rows[0, 0])
            raise NothingToCompare("y gives different classes to identical points, and no others are near.", pair)
        return Neighbors(
            points[kept],
            near[1][kept].astype(np.int64),
            np.sqrt(near[0][kept]),
            np.where(is_left_out, -1, rows)[kept],
            np.where(is_left_out, np.inf, np.sqrt(sq))[kept],
            copies=points[coincides.any(axis=1)],
        )

    def sq_distances(self, rows: np.ndarray) -> np.ndarray:
        """Squared distances of some points to those of ``among``."""
        return np.array([sq_norms(point - self._read(self.among)) for point in self._read(rows)])

    def coincide(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of points are identical to 12 digits, shape (m,)."""
        return ~self.points.differ(i, j)

    def _read(self, numbers: np.ndarray) -> np.ndarray:
        """Some points, mapped."""
        Q = self.points[numbers]
        return Q if self.P is None else Q @ self.P


# ---------------------------------------------------------------------- the problem of a fit
def block_prior(points: PointsInBlocks, name: str) -> Factor | None:
    """The prior metric of that name for points in blocks, None for the identity."""
    if name == "identity":
        return None
    if name == "within":
        raise ValueError('prior="within" needs points in memory; in blocks take "variance" or "covariance".')
    n, d = points.shape
    if name == "variance":
        return Factor(sp.diags_array(inverse_deviations(points, points.moments()), format="csr"))
    return Factor(inverse_covariance(points, points.scatter()) if d <= n else inverse_covariance(points[:]))


@dataclass(frozen=True, eq=False)
class BlockProblem(TrainingProblem):
    """Points in blocks, and a prior metric; the problem is solved with sharded rows.

    Attributes
    ----------
    points : PointsInBlocks
    prior
        As :func:`bregmat.nearest_metric` takes it.
    block_size : int, optional
    """

    points: PointsInBlocks
    prior: Any
    block_size: int | None

    def space(self, result: MatrixResult | None, among: Any) -> BlockSpace:
        P: Any = factor_of(self.prior) if result is None else result.B
        return BlockSpace(self.points, None if P is None else dense(P), among)

    def pairs(self, task: Task) -> Constraints:
        return task.random_pairs(self.points, apart=self.points.differ, P=factor_of(self.prior))

    def solve(self, rows: Any, **settings: Any) -> MatrixResult:
        points = self.points
        result = nearest_metric(
            points.source, rows, prior=self.prior, executor=points.executor, block_size=self.block_size, **settings
        )
        if not isinstance(rows, Constraints):
            return result
        # the driver has these rows: it fetches their columns, too
        dual, values, violation = (np.asarray(x) for x in (result.dual, result.values, result.violation))
        return replace(result, dual=dual, values=values, violation=violation)


# ---------------------------------------------------------------------- the fit
def _labels(codes: np.ndarray, unlabeled: Any) -> LabelGroups:
    """Which points belong together, from their class numbers."""
    if codes.max(initial=-1) >= MOST_CLASSES:
        raise ValueError(
            f"y must hold class labels where points are in blocks; got more than {MOST_CLASSES} different values. Numbers and sets "
            "of labels need X and y in memory."
        )
    labels = LabelGroups(codes)
    if len(labels.labelled) < 2:
        raise too_few_labelled(len(labels.labelled), len(codes), unlabeled)
    return labels


def fit_in_blocks(
    learner: MetricLearner,
    X: Any,
    y: Any,
    constraints: Any,
    refused: dict[str, Any],
    *,
    executor: Any,
    block_size: int | None,
) -> None:
    """The same steps as in :meth:`bregmat.KernelLearner.fit` for points in blocks.

    Parameters
    ----------
    learner : MetricLearner
    X, y, constraints, executor, block_size
        As in :meth:`bregmat.MetricLearner.fit`.
    refused : dict
        Arguments of ``fit`` by name that must be None.
    """
    settings = learner._check_parameters()
    for name, value in refused.items():
        if value is not None:
            raise TypeError(f"{name} is not taken where points are processed in blocks.")
    if learner.warm_start:
        raise ValueError("warm_start=True is not taken where points are processed in blocks: leave it False.")
    if y is None and constraints is None:
        raise nothing_given(learner)
    # classes are numbered here, where y is; each block receives the numbers of its points
    codes = None if y is None or learner.n_constraints == 0 else label_codes(y, unlabeled=learner.unlabeled)
    points = PointsInBlocks(X, codes, executor, block_size)
    learner._checked_points(points.example)
    located: Any = constraints
    learner.n_dropped_constraints_ = 0
    if constraints is None or isinstance(constraints, Constraints):
        located, learner.n_dropped_constraints_ = given_constraints(constraints, None, points.shape[0])
    elif y is not None:
        raise TypeError("constraints must be in memory to be joined with those drawn from y: leave out one of them.")
    labels = None if codes is None else _labels(codes, learner.unlabeled)

    def problem_of(task: Task) -> BlockProblem:
        name = task.candidate.prior or "identity"
        prior = given_prior(learner.prior, points.shape[1]) if name == "given" else block_prior(points, name)
        return BlockProblem(points, prior, block_size)

    learner._fit_task(Task(learner, points, located, labels, settings, is_in_blocks=True), None, problem_of)
