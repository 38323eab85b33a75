"""MetricLearner for points in blocks: labels, neighbours and the problem. The same constraints are drawn as in memory.

The process that calls ``fit`` receives counts of classes, the points that are drawn, and the constraints between them. It does
not hold the points or the constraints of all blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

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
    inverse_covariance,
    inverse_deviations,
)
from bregmat.estimators.task import Task, TrainingProblem
from bregmat.from_labels.groups import (
    ALONE,
    LabelGroups,
    check_groups,
    label_codes,
    too_few_labelled,
    warn_of_points,
)
from bregmat.from_labels.neighbors import BLOCK, Neighbors
from bregmat.nearest import nearest_metric
from bregmat.sharded.points import PointBlock, PointsInBlocks

if TYPE_CHECKING:  # which imports this module where points are in blocks
    from bregmat.estimators.metric import MetricLearner

MOST_CLASSES = 10_000
QUERIES = 1_000_000  # numbers in the points whose neighbours are searched at a time: every block receives 8 MB


# ---------------------------------------------------------------------- labels
@dataclass(frozen=True, eq=False)
class BlockLabels:
    """Classes of points in blocks.

    Attributes
    ----------
    points : PointsInBlocks
        With their labels.
    codes : Expression
        Class of each point of a block, -1 unlabelled.
    counts : ndarray of int, shape (blocks, k)
    """

    points: PointsInBlocks
    codes: Any
    counts: np.ndarray
    target_type: ClassVar[str] = "class"

    @classmethod
    def of(cls, points: PointsInBlocks, unlabeled: Any) -> BlockLabels:
        """Labels as class numbers, in the order of their first appearance as in memory."""
        distinct = points.reduce(_distinct, combine=_merged)
        if len(distinct) > MOST_CLASSES:
            raise ValueError(
                f"y must hold class labels where points are in blocks; got more than {MOST_CLASSES} different values. Numbers and sets "
                "of labels need X and y in memory."
            )
        values = np.empty(len(distinct), dtype=object)
        values[:] = distinct
        code = label_codes(values, unlabeled=unlabeled) if len(values) else np.zeros(0, np.int64)
        codes = points.cached(_codes, dict(zip(distinct, code.tolist())))
        counts = np.array(points.reduce(_counts, codes, int(code.max(initial=-1)) + 1))
        if counts.sum() < 2:
            raise too_few_labelled(int(counts.sum()), points.shape[0], unlabeled)
        return cls(points, codes, counts)

    def code_of(self, numbers: np.ndarray) -> np.ndarray:
        """Classes of some rows."""
        wanted, place = np.unique(numbers, return_inverse=True)
        return np.concatenate(self.points.reduce(_codes_at, self.codes, wanted))[place]

    @property
    def sizes(self) -> np.ndarray:
        """Number of points of each class, shape (k,)."""
        return self.counts.sum(axis=0)

    @property
    def labelled(self) -> Ranked:
        """Row numbers of the labelled points, ascending."""
        return Ranked(self, np.arange(self.counts.shape[1]), is_by_class=False)

    @property
    def ordered(self) -> Ranked:
        """Row numbers of the labelled points, class by class."""
        return Ranked(self, np.arange(self.counts.shape[1]))

    def of_rows(self, numbers: np.ndarray) -> LabelGroups:
        """Classes of some rows, in memory."""
        return LabelGroups(self.code_of(numbers), LabelGroups(np.arange(self.counts.shape[1])).relation)

    def compared(self, max_points: float, rng: Any, *, warn: bool) -> np.ndarray:
        """Points that are not alone in their class, as :meth:`LabelGroups.compared` draws them."""
        able = np.flatnonzero(self.sizes > 1)
        check_groups(len(self.sizes) > 1, len(able) > 0, "labelled point")
        ranked, alone = Ranked(self, able, is_by_class=False), Ranked(self, np.flatnonzero(self.sizes == 1))
        if warn and len(alone):
            warn_of_points(np.sort(alone[:]), ALONE)
        return (
            ranked[:]
            if len(ranked) <= max_points
            else ranked[np.sort(rng.choice(len(ranked), size=max_points, replace=False))]
        )


class Ranked:
    """Row numbers of the points of some classes, ascending or class by class; indexing reads the blocks for the wanted ones.

    Parameters
    ----------
    labels : BlockLabels
    classes : ndarray of int
        The points of other classes are left out.
    is_by_class : bool
        Whether to order points by class.
    """

    def __init__(self, labels: BlockLabels, classes: np.ndarray, is_by_class: bool = True) -> None:
        self.labels, self.classes, self.is_by_class = labels, classes, is_by_class
        counts = labels.counts[:, classes]
        if not is_by_class:
            counts = counts.sum(axis=1, keepdims=True)
        ends = np.cumsum(counts.T.ravel()).reshape(counts.T.shape).T
        self.starts, self.length = ends - counts, int(counts.sum())  # of each class in each block

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, places: Any) -> np.ndarray:
        places = np.arange(self.length)[places] if isinstance(places, slice) else np.asarray(places)
        wanted, back = np.unique(places, return_inverse=True)
        labels = self.labels
        ranked = labels.points.reduce(_ranked, labels.codes, self.classes, self.starts, self.is_by_class, wanted)
        rows = np.empty(len(wanted), np.int64)
        for at, numbers in ranked:
            rows[at] = numbers
        return rows[back]


def _distinct(block: PointBlock) -> list[Any]:
    """Different known labels of a block in the order of their first appearance, at most one more than is allowed."""
    assert block.y is not None
    label_codes(block.y, unlabeled=None)  # raises if they are no classes
    known = [value for value in dict.fromkeys(block.y.tolist()) if value is not None and value == value]
    return known[: MOST_CLASSES + 1]


def _merged(a: list[Any], b: list[Any]) -> list[Any]:
    """Different labels of two blocks."""
    return list(dict.fromkeys(a + b))[: MOST_CLASSES + 1]


def _codes(block: PointBlock, table: dict[Any, int]) -> np.ndarray:
    """Class numbers of the points of a block, -1 for unknown ones."""
    assert block.y is not None
    return np.array([table.get(value, -1) for value in block.y.tolist()], dtype=np.int64)


def _counts(block: PointBlock, codes: np.ndarray, k: int) -> list[np.ndarray]:
    """Number of points of each class in a block."""
    return [np.bincount(codes[codes >= 0], minlength=k)]


def _codes_at(block: PointBlock, codes: np.ndarray, numbers: np.ndarray) -> list[np.ndarray]:
    """Class numbers of those of some rows (ascending) that are in the block."""
    a, b = np.searchsorted(numbers, [block.first, block.first + len(codes)])
    return [codes[numbers[a:b] - block.first]]


def _ranked(
    block: PointBlock, codes: np.ndarray, classes: np.ndarray, starts: np.ndarray, is_by_class: bool, wanted: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Positions in ``wanted`` whose points are in this block, and the row numbers of these points."""
    rows = np.flatnonzero(np.isin(codes, classes))
    group = np.searchsorted(classes, codes[rows]) if is_by_class else np.zeros(len(rows), np.int64)
    order = np.argsort(group, kind="stable")
    rows, group = rows[order], group[order]
    within = np.arange(len(rows)) - np.searchsorted(group, group)
    places = starts[block.number][group] + within
    at = np.searchsorted(places, wanted)
    here = (at < len(places)) & (places[np.minimum(at, len(places) - 1)] == wanted) if len(places) else at < 0
    return [(np.flatnonzero(here), block.first + rows[at[here]])]


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
    block: PointBlock, codes: np.ndarray, Z: np.ndarray, Q: np.ndarray, numbers: np.ndarray, kind: np.ndarray, k: Any
) -> list[np.ndarray]:
    """Up to ``k[0]`` points of the same class and ``k[1]`` of others in this block for each of some points Q (m, r)."""
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
    among : ndarray of int or Ranked
        Row numbers of the labelled points.
    """

    points: PointsInBlocks
    P: np.ndarray | None
    among: Any

    def nearest(self, groups: BlockLabels, points: np.ndarray, n_alike: int, n_apart: int) -> Neighbors:
        """Exact neighbours: every block is searched, for some of the points at a time.

        Parameters
        ----------
        groups, points, n_alike, n_apart
            As in :meth:`bregmat.from_labels.neighbors.Space.nearest`, with BlockLabels.
        """
        Z, kind, parts = self.points.cached(_mapped, self.P), groups.code_of(points), []
        for part in blocks(len(points), self.points.shape[1], QUERIES):
            query = self._read(points[part]), points[part], kind[part]
            parts.append(self.points.reduce(_nearest, groups.codes, Z, *query, (n_alike, n_apart), combine=_joined))
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
    points = PointsInBlocks(X, None if learner.n_constraints == 0 else y, executor, block_size)
    learner._checked_points(points.example)
    located: Any = constraints
    learner.n_dropped_constraints_ = 0
    if constraints is None or isinstance(constraints, Constraints):
        located, learner.n_dropped_constraints_ = given_constraints(constraints, None, points.shape[0])
    elif y is not None:
        raise TypeError("constraints must be in memory to be joined with those drawn from y: leave out one of them.")
    labels = None if y is None or learner.n_constraints == 0 else BlockLabels.of(points, learner.unlabeled)

    def problem_of(task: Task) -> BlockProblem:
        name = task.candidate.prior
        prior = learner._given_prior(points.shape[1]) if name == "given" else block_prior(points, name)
        return BlockProblem(points, prior, block_size)

    learner._fit_task(Task(learner, points, located, labels, settings), None, problem_of)
