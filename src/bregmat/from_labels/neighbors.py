"""Comparisons of neighbours: the nearest points of the same group against the nearest points of other groups (after LMNN).

Labels say which points belong together: :class:`bregmat.from_labels.groups.LabelGroups`. Distances come from a :class:`Space`:
points in their units, points in a learned map, or a kernel. Memory grows with the number of points, not with its square.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import scipy.sparse as sp

from bregmat.base.checks import rows_text
from bregmat.base.linalg import dense, smallest, sq_norms
from bregmat.base.sampling import NothingToCompare, differ, sq_distances
from bregmat.base.threads import in_parts
from bregmat.base.tolerances import RANK_TOL
from bregmat.constraints.constraints import Constraints
from bregmat.constraints.relations import COMPARISON, SQ_DISTANCE
from bregmat.from_labels.groups import ALIKE, APART, LabelGroups, warn_of_points
from bregmat.typing import Form, Strategy

# Sum of the weights of all rows: a relative violation of 1 of all rows costs as much as 1000 units of the divergence.
TOTAL_WEIGHT = 1000.0
LEAST_MARGIN = 1e-2  # smallest margin of a point, relative to the median margin; it is needed if all targets are copies of the point
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
FORMS = get_args(Form)
# Comparisons, which are those of 10,000 points: on MNIST, more of them change the error by less than its noise.
MOST_DEFAULT_ROWS = 300_000
BLOCK = 4_000_000  # squared distances that are computed at a time
COPIES = "coincide with points of another class, which no metric separates: those comparisons are left out"


# ---------------------------------------------------------------------- the search
@dataclass(frozen=True, eq=False)
class Neighbors:
    """Some points, each with its nearest points of the same group (targets) and points apart (impostors).

    Attributes
    ----------
    points : ndarray of int, shape (m,)
        Row numbers of points that have at least one target and one impostor.
    targets, impostors : ndarray of int, shapes (m, k), (m, l)
        Row numbers, nearest first; -1 if there are fewer.
    near, far : ndarray, shapes (m, k), (m, l)
        Distances to targets and to impostors; inf if there are fewer.
    copies : ndarray of int
        Row numbers of all points asked for that coincide with a point apart. No metric separates them, and they are not neighbours.
    """

    points: np.ndarray
    targets: np.ndarray
    near: np.ndarray
    impostors: np.ndarray
    far: np.ndarray
    copies: np.ndarray


class Space(ABC):
    """Points among which neighbours are searched, by blocks of squared distances.

    Attributes
    ----------
    among : ndarray of int
        Row numbers of the possible neighbours, and of the points whose neighbours are wanted.
    sizes : ndarray, shape (n,)
        Squared norms of all points, the scale for rounding errors of squared distances.
    work : float
        Nanoseconds that a distance takes; 0 if the search must stay on one thread.
    """

    among: np.ndarray
    sizes: np.ndarray
    work: float

    @abstractmethod
    def sq_distances(self, rows: np.ndarray) -> np.ndarray:
        """Squared distances of points (row numbers, shape (m,)) to the possible neighbours, up to rounding."""

    @abstractmethod
    def coincide(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of points are identical up to rounding, shape (m,)."""

    @abstractmethod
    def close_sq_distances(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Accurate squared distances of pairs of close points, shape (m,); exactly 0 for copies."""

    def nearest(self, groups: LabelGroups, points: np.ndarray, n_alike: int, n_apart: int) -> Neighbors:
        """The nearest points that belong together with some points, and the nearest apart from them, by one pass over all distances.

        Parameters
        ----------
        groups : LabelGroups
            Of all n points.
        points : ndarray of int, shape (m,)
            Points whose neighbours are wanted; their groups are known.
        n_alike, n_apart : int
            Number of neighbours of each sort.
        """
        among, m = self.among, len(points)
        place = np.empty(len(groups.codes), np.int64)
        place[among] = np.arange(len(among))
        group_of = groups.codes[among]
        targets, impostors = np.full((m, n_alike), -1, np.int64), np.full((m, n_apart), -1, np.int64)
        near, far = np.full((m, n_alike), np.inf), np.full((m, n_apart), np.inf)
        is_copy = np.zeros(m, dtype=bool)
        order = np.argsort(groups.codes[points], kind="stable")
        step = max(1, BLOCK // len(among))  # points whose distances are computed at a time
        parts = np.split(order, np.arange(step, m, step))

        def search(start: int, stop: int) -> None:
            for part in parts[start:stop]:
                sq, group = self.sq_distances(points[part]), groups.codes[points[part]]
                sq[np.arange(len(part)), place[points[part]]] = np.inf  # no point is its own neighbour
                # points of a group have the same candidates
                cuts = np.flatnonzero(np.diff(group, prepend=-1, append=-1))
                for a, b in zip(cuts, cuts[1:]):
                    some, one, i = sq[a:b], part[a:b], points[part[a:b]]
                    relation = groups.relation[group[a]][group_of]
                    alike = np.flatnonzero(relation == ALIKE)
                    k = min(n_alike, len(alike))
                    targets[one, :k], near[one, :k] = self._closest(some[:, alike], i, among[alike], k)
                    some[:, relation != APART] = np.inf
                    # copies among the points apart are no neighbours
                    first = some.argmin(axis=1)
                    rounding = RANK_TOL * (self.sizes[i] + self.sizes[among[first]])
                    may = np.flatnonzero(some[np.arange(len(i)), first] <= rounding)
                    if len(may):
                        is_copy[one[may]] = self._leave_out_copies_inplace(some, i, may)
                    k = min(n_apart, len(among))
                    impostors[one, :k], far[one, :k] = self._closest(some, i, among, k)

        in_parts(search, len(parts), self.work * m * len(among))
        kept = np.flatnonzero((targets[:, 0] >= 0) & (impostors[:, 0] >= 0))
        return Neighbors(points[kept], targets[kept], near[kept], impostors[kept], far[kept], points[is_copy])

    def _closest(self, sq: np.ndarray, i: np.ndarray, others: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k points nearest to each of the points i among others, and their distances, from squared distances; shapes (m, k)."""
        close = 1e-6  # squared distance, relative to the squared norms of both points, below which a product has fewer than 10 digits
        sq_nearest, columns = smallest(sq, k)
        j = others[columns]
        p, column = np.nonzero(sq_nearest <= close * (self.sizes[i, None] + self.sizes[j]))
        if len(p):  # cancellation has left few digits
            sq_nearest[p, column] = self.close_sq_distances(i[p], j[p, column])
        is_found = np.isfinite(sq_nearest)
        return np.where(is_found, j, -1), np.where(is_found, np.sqrt(np.maximum(sq_nearest, 0.0)), np.inf)

    def _leave_out_copies_inplace(self, sq: np.ndarray, i: np.ndarray, may: np.ndarray) -> np.ndarray:
        """Make squared distances (m, n) of the points i[may] to their copies infinite. Returns which of them had copies."""
        p, column = np.nonzero(sq[may] <= RANK_TOL * (self.sizes[i[may], None] + self.sizes[self.among]))
        is_copy = self.coincide(i[may[p]], self.among[column])
        sq[may[p[is_copy]], column[is_copy]] = np.inf
        return np.bincount(p[is_copy], minlength=len(may)) > 0


class PointSpace(Space):
    """Rows of Z (n, r), dense or sparse, with Euclidean distances; Z may hold some ``rows`` only, given by their numbers, ascending."""

    def __init__(self, Z: Any, among: np.ndarray, rows: np.ndarray | None = None) -> None:
        self.Z, self.among = Z, among
        self.place = np.arange(Z.shape[0]) if rows is None else np.zeros(rows[-1] + 1, np.int64)
        if rows is not None:
            self.place[rows] = np.arange(len(rows))
        # |x|^2 - 2 x'y + |y|^2 loses the fewest digits if the origin is the mean
        self.centred = sp.csr_array(Z) if sp.issparse(Z) else Z - Z.mean(axis=0)
        self.sizes = sq_norms(self.centred)[self.place]
        self.others, self.sizes_of_others = self.centred[self.place[among]].T, self.sizes[among]
        self.work = 5.0 + 0.05 * Z.shape[1]  # of selecting the smallest, and of the product

    def sq_distances(self, rows: np.ndarray) -> np.ndarray:
        """By one product."""
        sq = dense(self.centred[self.place[rows]] @ self.others)
        sq *= -2.0
        sq += self.sizes_of_others
        sq += self.sizes[rows, None]
        return sq

    def close_sq_distances(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Squared norms of differences, without cancellation."""
        return sq_distances(self.Z, self.place[i], self.place[j])

    def coincide(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of rows are identical to 12 digits, shape (m,)."""
        return ~differ(self.Z)(self.place[i], self.place[j])


# ---------------------------------------------------------------------- rows
def neighbor_constraints(
    space: Any,
    groups: LabelGroups,
    points: np.ndarray,
    n_neighbors: int = 3,
    n_impostors: int = 10,
    max_rows: int = MOST_DEFAULT_ROWS,
    *,
    form: Form = "comparison",
    typical: float | None = None,
    warn: bool = True,
) -> Constraints:
    """Rows that make the nearest targets of some points (points of their group) nearer than their nearest impostors (points apart).

    Parameters
    ----------
    space : Space or BlockSpace
        Where distances are measured.
    groups : LabelGroups
        Which of n points belong together.
    points : ndarray of int, shape (m,)
        Points that are compared with their neighbours.
    n_neighbors, n_impostors : int
        Number of targets and of impostors of each point, at least 1.
    max_rows : int
        Maximum number of comparisons. Bounds are not limited.
    form : {"comparison", "sq_distance"}
        "comparison": ``d(i, target) + margin <= d(i, impostor)``. The margin is twice the largest squared distance between the point and a
        target, so that dense and sparse regions get margins in their own units. "sq_distance": ``d(i, target) <= margin`` and
        ``d(i, impostor) >= 2 margin``, where the margin of all points is the median positive squared distance to targets.
    typical : float, optional
        Median margin of the rows, which sets the scale of the learned metric. By default margins are measured in ``space``.
    warn : bool
        Whether to warn of points that coincide with points apart.

    Returns
    -------
    Constraints
        Each row has the weight 1000 / (number of rows).
    """
    tie_tol = 1e-6  # relative difference of two distances below which a target and an impostor may be the same point
    relative_margin = 2.0  # of a comparison, in units of the point's largest squared distance to a target
    neighbors = space.nearest(groups, points, n_neighbors, n_impostors)
    if not len(neighbors.points):
        is_apart = groups.relation[groups.codes[points[0]]] == APART
        raise NothingToCompare(
            f"the labels y give different classes to identical points, and no others can be compared: see {rows_text(points)} of X.",
            (int(points[0]), int(groups.ordered[is_apart[groups.codes[groups.ordered]]][0])),
        )
    if warn and len(neighbors.copies):
        warn_of_points(neighbors.copies, COPIES)
    targets, impostors, near, far = neighbors.targets, neighbors.impostors, neighbors.near, neighbors.far
    beyond = float(np.median(far.min(axis=1) ** 2))  # margin if all targets are copies of their points
    if form == "sq_distance":
        return _bounds(neighbors, typical, beyond)
    p, a, b = ((targets[:, :, None] >= 0) & (impostors[:, None, :] >= 0)).nonzero()
    # no metric makes a target nearer than an impostor that is a copy of it
    void = np.flatnonzero(np.abs(near[p, a] - far[p, b]) <= tie_tol * far[p, b])
    if len(void):
        void = void[space.coincide(targets[p[void], a[void]], impostors[p[void], b[void]])]
    if len(void) == len(p):
        pair = int(targets[p[0], a[0]]), int(impostors[p[0], b[0]])
        raise NothingToCompare(
            "the labels y give different classes to copies of every point that others could be nearer to.", pair
        )
    p, a, b = [np.delete(column, void)[:max_rows] for column in (p, a, b)]
    i, j, l = neighbors.points[p], targets[p, a], impostors[p, b]
    farthest = np.where(targets >= 0, near**2, 0.0).max(axis=1)
    margin = relative_margin * np.maximum(farthest, LEAST_MARGIN * float(np.median(farthest)) or beyond)[p]
    if typical is not None:
        margin *= typical / np.median(margin)
    return Constraints.of_columns(COMPARISON, np.stack([i, j, i, l], axis=1), -margin, 1, TOTAL_WEIGHT / len(i))


def _bounds(neighbors: Neighbors, typical: float | None, beyond: float) -> Constraints:
    """Bounds on the distances to targets and to impostors; ``beyond`` is the margin if all targets are copies of their points."""
    sq = neighbors.near**2
    apart = sq[np.isfinite(sq) & (sq > 0)]
    margin = typical or (float(np.median(apart)) if len(apart) else beyond)
    (p, a), (q, b) = (neighbors.targets >= 0).nonzero(), (neighbors.impostors >= 0).nonzero()
    weight = TOTAL_WEIGHT / (len(p) + len(q))
    others = np.concatenate([neighbors.targets[p, a], neighbors.impostors[q, b]])
    index, is_alike = (
        np.stack([neighbors.points[np.concatenate([p, q])], others], axis=1),
        np.arange(len(others)) < len(p),
    )
    return Constraints.of_columns(
        SQ_DISTANCE, index, np.where(is_alike, margin, 2.0 * margin), np.where(is_alike, 1, -1), weight
    )
