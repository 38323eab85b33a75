"""Comparisons of neighbours: the nearest points of the same kind against the nearest points of other kinds (after LMNN).

Kinds of points are described in ``kinds``. Distances come from a :class:`Space`: points in their units, points in a learned map, or
a kernel. Memory grows with the number of points, not with its square.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import numpy as np
import scipy.sparse as sp

from bregmat.base.checks import as_choice, check_integer, rows_text
from bregmat.base.linalg import blocks, dense, sq_norms
from bregmat.base.sampling import NothingToCompare, differ, sq_distances
from bregmat.base.threads import in_parts
from bregmat.constraints.constraints import Constraints, rows_of
from bregmat.constraints.relations import COMPARISON, SQ_DISTANCE
from bregmat.from_labels.kinds import ALIKE, APART, Kinds
from bregmat.typing import Form, Strategy

# Sum of the weights of all rows: a relative violation of 1 of all rows costs as much as 1000 units of the divergence.
TOTAL_WEIGHT = 1000.0
MARGIN = 2.0  # of a comparison, in units of the point's largest squared distance to a target
LEAST_MARGIN = 1e-2  # smallest margin of a point, relative to the median margin; it is needed if all targets are copies of the point
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
FORMS = get_args(Form)
MOST_DEFAULT_ROWS = (
    300_000  # comparisons of 10,000 points: on MNIST more of them change the error by less than its noise
)
BLOCK = 4_000_000  # squared distances that are computed at a time
NEAR = 1e-6  # relative difference of two distances below which a target and an impostor may be the same point
CLOSE = 1e-6  # squared distance, relative to the squared norms of both points, below which a product has fewer than 10 digits
COINCIDENT = 1e-12  # squared distance, relative to the squared norms of both points, below which it may be rounding


@dataclass(frozen=True)
class Drawing:
    """How comparisons are drawn: parameters of :func:`bregmat.constraints_from_labels`, checked.

    Attributes
    ----------
    n_neighbors, n_impostors : int
        Number of targets and of impostors of each point, at least 1.
    form : {"comparison", "sq_distance"}
        "comparison": ``d(i, target) + margin <= d(i, impostor)``. The margin is twice the largest squared distance between the point and a
        target, so that dense and sparse regions get margins in their own units. "sq_distance": ``d(i, target) <= margin`` and
        ``d(i, impostor) >= 2 margin``, where the margin of all points is the median positive squared distance to targets.
    n_constraints : int, optional
        Maximum number of comparisons, by default 300,000. If there would be more, the points that are compared are drawn at random.
        All points remain possible neighbours. With "sq_distance" the number is rounded up to whole points.
    """

    n_neighbors: int = 3
    n_impostors: int = 10
    form: Form = "comparison"
    n_constraints: int | None = None

    def __post_init__(self) -> None:
        check_integer("n_neighbors", self.n_neighbors, 1, optional=False)
        check_integer("n_impostors", self.n_impostors, 1, optional=False)
        as_choice("form", self.form, FORMS)

    def points(self, able: Any, rng: np.random.Generator) -> np.ndarray:
        """The points to compare, ascending: all of ``able`` (row numbers), or a random part of them that gives the most rows allowed."""
        k, l, most = self.n_neighbors, self.n_impostors, self.n_constraints or MOST_DEFAULT_ROWS
        each = k * l if self.form == "comparison" else k + l
        if len(able) * each <= most:
            return able[:]
        return able[np.sort(rng.choice(len(able), size=-(-most // each), replace=False))]


# ---------------------------------------------------------------------- where distances are measured
Distances = Callable[[np.ndarray], np.ndarray]  # row numbers (m,) -> squared distances (m, n) to n points


class Space(Protocol):
    """Points whose squared distances are computed for row numbers.

    Attributes
    ----------
    sizes : ndarray, shape (n,)
        Squared norms of the points, the scale for rounding errors of squared distances.
    work : float
        Nanoseconds that a distance takes; 0 if the search must stay on one thread.
    """

    sizes: np.ndarray
    work: float

    def sq_distances_to(self, among: np.ndarray) -> Distances:
        """The function that computes squared distances to some points, up to rounding."""

    def close_sq_distances(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Accurate squared distances of pairs of close points, shape (m,); exactly 0 for copies."""

    def coincide(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of points are identical up to rounding, shape (m,)."""


class PointSpace:
    """Rows of Z (n, r), dense or sparse, with Euclidean distances."""

    def __init__(self, Z: Any) -> None:
        self.Z = Z
        # |x|^2 - 2 x'y + |y|^2 loses the fewest digits if the origin is the mean
        self.centred = sp.csr_array(Z) if sp.issparse(Z) else Z - Z.mean(axis=0)
        self.sizes = sq_norms(self.centred)
        self.work = 5.0 + 0.05 * Z.shape[1]  # of selecting the smallest, and of the product

    def sq_distances_to(self, among: np.ndarray) -> Distances:
        """Squared distances by one product for each block of rows."""
        others, sizes = self.centred[among].T, self.sizes[among]

        def distances(rows: np.ndarray) -> np.ndarray:
            sq = dense(self.centred[rows] @ others)
            sq *= -2.0
            sq += sizes
            sq += self.sizes[rows, None]
            return sq

        return distances

    def close_sq_distances(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Squared norms of differences, without cancellation."""
        return sq_distances(self.Z, i, j)

    def coincide(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of rows are identical to 12 digits, shape (m,)."""
        return ~differ(self.Z)(i, j)


# ---------------------------------------------------------------------- the search
@dataclass(frozen=True, eq=False)
class Nearest:
    """Up to k nearest points of each of m points, nearest first; row number -1 and distance inf if there are fewer."""

    rows: np.ndarray  # (m, k)
    distances: np.ndarray  # (m, k)

    def of(self, points: np.ndarray) -> Nearest:
        """Nearest points of some of the m points."""
        return Nearest(self.rows[points], self.distances[points])


def smallest(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest entries of each row in ascending order, and their columns; all if there are fewer; shapes (m, min(k, n)).

    Long rows are not partitioned as a whole. The k-th smallest of the minima of disjoint sets of columns is an upper bound of the k-th
    smallest entry, and only the few entries up to the bound are sorted.
    """
    (m, n), n_sets = values.shape, max(8 * k, 64)
    size = n // n_sets
    if size < 8:
        columns = np.broadcast_to(np.arange(n), values.shape)
        if k < n:
            columns = np.sort(np.argpartition(values, k - 1, axis=1)[:, :k], axis=1)
        found = np.take_along_axis(values, columns, axis=1)
        order = np.argsort(found, axis=1, kind="stable")  # of equal entries the one in the lower column is first
        return np.take_along_axis(found, order, axis=1), np.take_along_axis(columns, order, axis=1)
    minima = values[:, : n_sets * size].reshape(m, size, n_sets).min(axis=1)
    bound = np.partition(minima, k - 1, axis=1)[:, k - 1]
    rows, columns = np.nonzero(values <= bound[:, None])
    entries = values[rows, columns]
    order = np.lexsort((entries, rows))
    first = np.searchsorted(rows, np.arange(m + 1))
    kept = order[first[:-1, None] + np.arange(k)]
    found, columns = entries[kept], columns[kept]
    # rows in which the k-th entry is infinite or occurs again are partitioned, so that the choice does not depend on their length
    following = np.append(entries[order], np.inf)[first[:-1] + k]
    is_tied = (first[1:] - first[:-1] > k) & (following == found[:, -1])
    for row in np.flatnonzero(is_tied | np.isinf(bound)):
        some = np.sort(np.argpartition(values[row], k - 1)[:k])
        columns[row] = some[np.argsort(values[row, some], kind="stable")]
        found[row] = values[row, columns[row]]
    return found, columns


def nearest_of_kinds(
    space: Space, kinds: Kinds, points: np.ndarray, n_alike: int, n_apart: int
) -> tuple[Nearest, Nearest, np.ndarray]:
    """The nearest points that belong together with some points, and the nearest apart from them, by one pass over all distances.

    Points apart that coincide with the point itself are left out, since no metric separates them.

    Parameters
    ----------
    space : Space
    kinds : Kinds
        Of all n points.
    points : ndarray of int, shape (m,)
        Points whose neighbours are wanted; their groups are known.
    n_alike, n_apart : int
        Number of neighbours of each sort.

    Returns
    -------
    targets, impostors : Nearest
        Neighbours that belong together with the m points, and neighbours apart from them.
    coincides : ndarray of bool, shape (m,)
        Points that coincide with their nearest point apart.
    """
    among = kinds.ordered
    place = np.empty(len(kinds.codes), np.int64)
    place[among] = np.arange(len(among))
    group_of = kinds.codes[among]
    targets, impostors = [
        Nearest(np.full((len(points), k), -1, np.int64), np.full((len(points), k), np.inf)) for k in (n_alike, n_apart)
    ]
    coincides = np.zeros(len(points), dtype=bool)
    distances = space.sq_distances_to(among)
    order = np.argsort(kinds.codes[points], kind="stable")
    parts = [order[part] for part in blocks(len(points), len(among), BLOCK)]

    def search(start: int, stop: int) -> None:
        for part in parts[start:stop]:
            sq = distances(points[part])
            sq[np.arange(len(part)), place[points[part]]] = np.inf  # no point is its own neighbour
            group = kinds.codes[points[part]]
            cuts = np.flatnonzero(np.diff(group, prepend=-1, append=-1))
            for a, b in zip(cuts, cuts[1:]):
                some, relation, one = sq[a:b], kinds.relation[group[a]][group_of], part[a:b]
                alike = np.flatnonzero(relation == ALIKE)
                found, columns = smallest(some[:, alike], n_alike)
                _set_inplace(targets, one, found, points[one], among[alike[columns]], space)
                some[:, relation != APART] = np.inf
                coincides[one] = _leave_out_copies_inplace(some, points[one], among, space)
                found, columns = smallest(some, n_apart)
                _set_inplace(impostors, one, found, points[one], among[columns], space)

    in_parts(search, len(parts), space.work * len(points) * len(among))
    return targets, impostors, coincides


def _set_inplace(
    nearest: Nearest, places: np.ndarray, sq: np.ndarray, i: np.ndarray, j: np.ndarray, space: Space
) -> None:
    """Set the neighbours j (m, at most k) of the points i (m,), at some places of ``nearest``, from their squared distances."""
    p, column = np.nonzero(sq <= CLOSE * (space.sizes[i, None] + space.sizes[j]))
    if len(p):  # cancellation has left few digits
        sq[p, column] = space.close_sq_distances(i[p], j[p, column])
    is_found, k = np.isfinite(sq), sq.shape[1]
    nearest.rows[places, :k] = np.where(is_found, j, -1)
    nearest.distances[places, :k] = np.where(is_found, np.sqrt(np.maximum(sq, 0.0)), np.inf)


def _leave_out_copies_inplace(sq: np.ndarray, rows: np.ndarray, among: np.ndarray, space: Space) -> np.ndarray:
    """Make squared distances (m, n) to copies of a point infinite. Returns which points had copies, shape (m,)."""
    size, column = space.sizes, sq.argmin(axis=1)
    nearest = sq[np.arange(len(rows)), column]
    may = np.flatnonzero(nearest <= COINCIDENT * (size[rows] + size[among[column]]))
    found = np.zeros(len(rows), dtype=bool)
    if len(may):
        p, column = np.nonzero(sq[may] <= COINCIDENT * (size[rows[may], None] + size[among]))
        p = may[p]
        is_copy = space.coincide(rows[p], among[column])
        sq[p[is_copy], column[is_copy]] = np.inf
        found[p[is_copy]] = True
    return found


# ---------------------------------------------------------------------- rows
def neighbor_constraints(
    space: Space,
    kinds: Kinds,
    drawing: Drawing,
    rng: np.random.Generator,
    *,
    is_first: bool = True,
    typical: float | None = None,
) -> Constraints:
    """Rows that make each point's nearest targets (points of its kind) nearer than its nearest impostors (points apart).

    Parameters
    ----------
    space : Space
        Where distances are measured.
    kinds : Kinds
        Which of n points belong together.
    drawing : Drawing
    rng : Generator
    is_first : bool
        Whether to warn of points that are left out.
    typical : float, optional
        Median margin of the rows, which sets the scale of the learned metric. By default margins are measured in ``space``.

    Returns
    -------
    Constraints
        Each row has the weight 1000 / (number of rows).
    """
    points = drawing.points(comparable(kinds), rng)
    targets, impostors, coincides = nearest_of_kinds(space, kinds, points, drawing.n_neighbors, drawing.n_impostors)
    kept = np.flatnonzero((targets.rows[:, 0] >= 0) & (impostors.rows[:, 0] >= 0))
    if not len(kept):
        i = int(points[0])
        is_apart = kinds.relation[kinds.codes[i]] == APART
        raise NothingToCompare(
            f"y gives different classes to identical points, and no others can be compared: see {rows_text(points)} of X.",
            (i, int(kinds.ordered[is_apart[kinds.codes[kinds.ordered]]][0])),
        )
    if is_first:
        is_alone = (kinds.codes >= 0) & (((kinds.relation == ALIKE) @ kinds.sizes)[kinds.codes] == 1)
        if is_alone.any() or coincides.any():
            warn_of_left_out(np.flatnonzero(is_alone), points[coincides])
    found = Neighbors(points[kept], targets.of(kept), impostors.of(kept))
    return rows_between(found, space.coincide, drawing, typical)


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Some points (m,), with their nearest targets and impostors; each point has at least one impostor."""

    points: np.ndarray
    targets: Nearest
    impostors: Nearest


def rows_between(
    found: Neighbors,
    coincide: Callable[[np.ndarray, np.ndarray], np.ndarray],
    drawing: Drawing,
    typical: float | None,
) -> Constraints:
    """Rows of some points, their targets and their impostors.

    Parameters
    ----------
    found : Neighbors
    coincide : callable
        Row numbers of m pairs -> which of them are identical, shape (m,).
    drawing, typical
        As in :func:`neighbor_constraints`.
    """
    points, targets, impostors = found.points, found.targets, found.impostors
    near, far, sq = targets.rows, impostors.rows, targets.distances**2
    # margin if all targets are copies of their points
    beyond = float(np.median(impostors.distances.min(axis=1) ** 2))
    if drawing.form == "comparison":
        p, a, b = ((near[:, :, None] >= 0) & (far[:, None, :] >= 0)).nonzero()
        # no metric makes a target nearer than an impostor that is a copy of it
        reach, beside = targets.distances[p, a], impostors.distances[p, b]
        void = np.flatnonzero(np.abs(reach - beside) <= NEAR * beside)
        if len(void):
            void = void[coincide(near[p[void], a[void]], far[p[void], b[void]])]
        if len(void) == len(p):
            pair = int(near[p[0], a[0]]), int(far[p[0], b[0]])
            raise NothingToCompare(
                "y gives different classes to copies of every point that others could be nearer to.", pair
            )
        most = drawing.n_constraints or MOST_DEFAULT_ROWS
        p, a, b = [np.delete(column, void)[:most] for column in (p, a, b)]
        i, j, l = points[p], near[p, a], far[p, b]
        farthest = np.where(near >= 0, sq, 0.0).max(axis=1)
        margin = MARGIN * np.maximum(farthest, LEAST_MARGIN * float(np.median(farthest)) or beyond)[p]
        if typical is not None:
            margin *= typical / np.median(margin)
        return rows_of(COMPARISON, np.stack([i, j, i, l], axis=1), -margin, 1, TOTAL_WEIGHT / len(i))
    apart = sq[np.isfinite(sq) & (sq > 0)]
    margin = typical or (float(np.median(apart)) if len(apart) else beyond)
    (p, a), (q, b) = (near >= 0).nonzero(), (far >= 0).nonzero()
    weight = TOTAL_WEIGHT / (len(p) + len(q))
    index = np.stack([points[np.concatenate([p, q])], np.concatenate([near[p, a], far[q, b]])], axis=1)
    is_alike = np.arange(len(index)) < len(p)
    return rows_of(SQ_DISTANCE, index, np.where(is_alike, margin, 2.0 * margin), np.where(is_alike, 1, -1), weight)


def comparable(kinds: Kinds) -> np.ndarray:
    """Points that have both points of their kind and points apart, ascending; raises if there are none."""
    has_target = (kinds.relation == ALIKE) @ kinds.sizes > 1
    has_other = (kinds.relation == APART) @ kinds.sizes > 0
    known = kinds.labelled
    group = kinds.codes[known]
    able = known[(has_target & has_other)[group]]
    if not len(able):
        where = rows_text(known)
        check_kinds(bool(has_other[group].any()), bool(has_target[group].any()), f"labelled point ({where})")
        raise ValueError(
            f"no labelled point of y ({where}) has both a point of its class and one of another to compare."
        )
    return able


def check_kinds(has_other: bool, has_target: bool, which: str) -> None:
    """Raise if no point (in words: ``which``) has a point of another class, or none has one of its own class."""
    if not has_other:
        raise ValueError(
            f"y must tell at least two classes apart to draw neighbours: every {which} belongs to the same. "
            "Use strategy='random', or give constraints."
        )
    if not has_target:
        raise ValueError(f"y puts no two points together: every {which} is alone in its class.")


def warn_of_left_out(alone: np.ndarray, coincides: np.ndarray) -> None:
    """Warn of points that are alone in their class, and of those that coincide with a point of another class; ascending row numbers."""
    for rows, why in (
        (alone, "are alone in their class: they serve as neighbours of others only"),
        (coincides, "coincide with points of another class, which no metric separates: those comparisons are left out"),
    ):
        if len(rows):
            warnings.warn(f"{len(rows)} points {why} ({rows_text(rows)}).", UserWarning, stacklevel=4)
