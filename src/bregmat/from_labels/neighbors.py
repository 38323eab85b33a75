"""Comparisons of neighbours: each point's nearest of the same kind against its nearest of another (after LMNN).

Kinds come from class labels, from sets of labels, or from a number per point. Distances come from a :class:`Space`: points in their
units, points as a learned metric maps them, or a kernel. Memory grows with the number of points, not with its square.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, get_args

import numpy as np
import scipy.sparse as sp

from bregmat.base.checks import rows_text
from bregmat.base.linalg import blocks, dense, sq_norms
from bregmat.base.sampling import NothingToCompare, differ, sq_distances
from bregmat.base.threads import cached_property, in_parts
from bregmat.constraints.constraints import Constraints
from bregmat.from_labels.kinds import ALIKE, APART, Kinds
from bregmat.typing import Form

TOTAL_WEIGHT = 1000.0  # sum of the weights of all rows drawn: so many relative squares of the margin against one unit of the divergence
MARGIN = 2.0  # of a comparison, in squared distances of the point to its farthest target
LEAST_MARGIN = 1e-2  # of a point, relative to the median one: copies of it would leave it none
FORMS = get_args(Form)
MOST_DEFAULT_ROWS = (
    300_000  # comparisons of 10,000 points: on MNIST more of them change the error by less than its noise
)
BLOCK = 4_000_000  # squared distances at a time
NEAR = 1e-6  # distance relative to the one compared with, below which two points are looked at more closely
CLOSE = 1e-6  # squared distance, relative to the squared lengths of both points, below which a product leaves fewer than 10 digits
COINCIDENT = 1e-12  # squared distance, relative to the squared lengths of both points, below which it may be rounding


# ---------------------------------------------------------------------- where distances are measured
Distances = Callable[[np.ndarray], np.ndarray]  # row numbers (m,) -> squared distances (m, n) to n points


class Space(Protocol):
    """Points whose squared distances can be asked for by row numbers."""

    @property
    def sizes(self) -> np.ndarray:
        """Squared lengths of the points, beside which distances are small or large; shape (n,)."""

    @property
    def work(self) -> float:
        """Nanoseconds that a distance takes; 0 where the search must stay on one thread."""

    def sq_distances_to(self, among: np.ndarray) -> Distances:
        """The function that gives squared distances to some points, up to rounding."""

    def close_sq_distances(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Squared distances of pairs that are near each other, shape (m,); exactly 0 for copies."""

    def coincide(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of points are identical up to rounding, shape (m,)."""


@dataclass(frozen=True, eq=False)
class PointSpace:
    """Rows of Z (n, r), dense or sparse, with Euclidean distances."""

    Z: Any

    @property
    def work(self) -> float:
        """Of the product, and of the selection."""
        return 5.0 + 0.05 * self.Z.shape[1]

    @cached_property
    def _centred(self) -> Any:
        # |x|^2 - 2 x'y + |y|^2 loses the fewest digits around the origin
        return sp.csr_array(self.Z) if sp.issparse(self.Z) else self.Z - self.Z.mean(axis=0)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Squared lengths of the centred points."""
        return sq_norms(self._centred)

    def sq_distances_to(self, among: np.ndarray) -> Distances:
        """Squared distances by one product for each block of rows."""
        Z, sizes = self._centred, self.sizes
        others = Z[among].T

        def distances(rows: np.ndarray) -> np.ndarray:
            sq = dense(Z[rows] @ others)
            sq *= -2.0
            sq += sizes[among]
            sq += sizes[rows, None]
            return sq

        return distances

    def close_sq_distances(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Squared lengths of differences, which cancel nothing."""
        return sq_distances(self.Z, i, j)

    def coincide(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of rows are identical to 12 digits, shape (m,)."""
        return ~differ(self.Z)(i, j)


@dataclass(frozen=True, eq=False)
class KernelSpace:
    """Distances of a kernel, from a function of two arrays of row numbers that gives the block of its values."""

    block: Callable[[np.ndarray, np.ndarray], np.ndarray]
    sizes: np.ndarray  # k(x, x), shape (n,)
    work: float = 0.0  # a user's kernel may not be called by several threads at once

    def sq_distances_to(self, among: np.ndarray) -> Distances:
        """``k(x, x) + k(y, y) - 2 k(x, y)``."""
        return lambda rows: self.sizes[rows, None] + self.sizes[among] - 2.0 * np.asarray(self.block(rows, among))

    def close_sq_distances(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """``k(x, x) + k(y, y) - 2 k(x, y)``; 0 where that is rounding."""
        values, order = np.empty(len(i)), np.argsort(i, kind="stable")
        for run in np.split(order, np.flatnonzero(np.diff(i[order])) + 1) if len(i) else []:
            values[run] = np.asarray(self.block(i[run[:1]], j[run]))[0]
        size = self.sizes[i] + self.sizes[j]
        sq = size - 2.0 * values
        return np.where(sq <= COINCIDENT * size, 0.0, sq)

    def coincide(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of rows the kernel maps to one point but for rounding, shape (m,)."""
        return self.close_sq_distances(i, j) == 0.0


# ---------------------------------------------------------------------- the search
@dataclass(frozen=True, eq=False)
class Nearest:
    """Up to k nearest points of each of m points; row number -1 and distance inf where there are fewer."""

    rows: np.ndarray  # (m, k)
    distances: np.ndarray  # (m, k)

    @classmethod
    def none(cls, m: int, k: int) -> Nearest:
        """None found yet."""
        return cls(np.full((m, k), -1, np.int64), np.full((m, k), np.inf))

    @property
    def has_some(self) -> np.ndarray:
        """Which of the points have one, shape (m,)."""
        return np.any(self.rows >= 0, axis=1)

    def of(self, points: np.ndarray) -> Nearest:
        """Of some of the points."""
        return Nearest(self.rows[points], self.distances[points])

    def without(self, gone: np.ndarray) -> Nearest:
        """Without those marked (m, k)."""
        return Nearest(np.where(gone, -1, self.rows), np.where(gone, np.inf, self.distances))

    def set_inplace(self, points: np.ndarray, sq: np.ndarray, rows: np.ndarray) -> None:
        """Set the neighbours of some of the points from squared distances and row numbers, each (len(points), at most k)."""
        is_found, k = np.isfinite(sq), sq.shape[1]
        self.rows[points, :k] = np.where(is_found, rows, -1)
        self.distances[points, :k] = np.where(is_found, np.sqrt(np.maximum(sq, 0.0)), np.inf)


def smallest(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest entries of each row in ascending order, and their columns; all where there are fewer; shapes (m, min(k, n))."""
    if k < values.shape[1]:
        columns = np.sort(np.argpartition(values, k - 1, axis=1)[:, :k], axis=1)
    else:
        columns = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    found = np.take_along_axis(values, columns, axis=1)
    order = np.argsort(found, axis=1, kind="stable")  # of equal ones that of the lower column first
    return np.take_along_axis(found, order, axis=1), np.take_along_axis(columns, order, axis=1)


def nearest_of_kinds(
    space: Space, kinds: Kinds, points: np.ndarray, n_alike: int, n_apart: int
) -> tuple[Nearest, Nearest, np.ndarray]:
    """The nearest points alike and the nearest apart of some points, by one pass over all distances.

    Points apart that coincide with the point itself are passed over: no metric parts them.

    Parameters
    ----------
    space : Space
    kinds : Kinds
        Of all n points.
    points : ndarray of int, shape (m,)
        Points whose neighbours are wanted; their kinds are known.
    n_alike, n_apart : int
        How many of either.

    Returns
    -------
    targets, impostors : Nearest
        Of the m points.
    coincides : ndarray of bool, shape (m,)
        Points that coincide with one apart from them, as far as such were met.
    """
    among = np.concatenate(kinds.members)
    place = np.empty(len(kinds.codes), np.int64)
    place[among] = np.arange(len(among))
    group_of = kinds.codes[among]
    targets, impostors = Nearest.none(len(points), n_alike), Nearest.none(len(points), n_apart)
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
                some, relation = sq[a:b], kinds.relation[group[a]][group_of]
                alike = np.flatnonzero(relation == ALIKE)
                rows = points[part[a:b]]
                found, columns = smallest(some[:, alike], n_alike)
                targets.set_inplace(part[a:b], *_refined(found, rows, among[alike[columns]], space))
                some[:, relation != APART] = np.inf
                coincides[part[a:b]] = _leave_out_copies_inplace(some, rows, among, space)
                found, columns = smallest(some, n_apart)
                impostors.set_inplace(part[a:b], *_refined(found, rows, among[columns], space))

    in_parts(search, len(parts), space.work * len(points) * len(among))
    return targets, impostors, coincides


def _refined(sq: np.ndarray, i: np.ndarray, j: np.ndarray, space: Space) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances (m, k) of points i (m,) and j (m, k), anew where cancellation has left few digits; and j."""
    p, column = np.nonzero(sq <= CLOSE * (space.sizes[i, None] + space.sizes[j]))
    sq[p, column] = space.close_sq_distances(i[p], j[p, column])
    return sq, j


def _leave_out_copies_inplace(sq: np.ndarray, rows: np.ndarray, among: np.ndarray, space: Space) -> np.ndarray:
    """Make squared distances (m, n) to copies of a point infinite; returns which points had copies, shape (m,)."""
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
    *,
    n_neighbors: int = 3,
    n_impostors: int = 10,
    form: str = "comparison",
    n_constraints: int | None = None,
    rng: np.random.Generator,
    is_first: bool = True,
    typical: float | None = None,
) -> Constraints:
    """Rows that put each point's nearest targets (alike) nearer than its nearest impostors (apart).

    Parameters
    ----------
    space : Space
        Where neighbours are looked for.
    kinds : Kinds
        Which of n points belong together.
    n_neighbors, n_impostors : int
        Targets and impostors of each point, at least 1.
    form : {"comparison", "sq_distance"}
        ``d(i, target) + margin <= d(i, impostor)``, the margin being twice the squared distance of the point and its farthest target,
        so that dense and thin regions are asked for the same in their own units; or ``d(i, target) <= margin`` and
        ``d(i, impostor) >= 2 margin``, with one margin, the median squared distance of point and target.
    n_constraints : int, optional
        Most rows, by default 300,000. Points whose neighbours are compared are drawn at random to keep to it; all are looked at as
        neighbours.
    rng : Generator
    is_first : bool
        Whether to warn of points that take no part.
    typical : float, optional
        The median margin of the rows, which sets the scale of what is learned; by default as the distances in ``space`` have it.

    Returns
    -------
    Constraints
        Each with the weight 1000 / (number of rows).
    """
    able = comparable(kinds)
    most = MOST_DEFAULT_ROWS if n_constraints is None else n_constraints
    points = drawn_points(able, n_neighbors, n_impostors, form, most, rng)
    targets, impostors, coincides = nearest_of_kinds(space, kinds, points, n_neighbors, n_impostors)
    kept = np.flatnonzero(targets.has_some & impostors.has_some)
    if not len(kept):
        text = f"y gives different classes to identical points, and no others can be compared: see {rows_text(points)} of X."
        i = int(points[0])
        others = kinds.related(int(kinds.codes[i]), APART)
        raise NothingToCompare(text, (i, int(others[0])))
    if is_first:
        copies = np.zeros(len(kinds.codes), dtype=bool)
        copies[points] = coincides
        warn_of_left_out(kinds.alone, copies)
    return rows_between(points[kept], targets.of(kept), impostors.of(kept), space.coincide, form, most, typical)


def drawn_points(
    able: Any, n_neighbors: int, n_impostors: int, form: str, most: int, rng: np.random.Generator
) -> np.ndarray:
    """Those of some points, ascending, whose neighbours are compared: all, or as many as make the most rows that are wanted.

    Parameters
    ----------
    able : ndarray of int
        Row numbers; or what gives some of them by their places.
    n_neighbors, n_impostors, form, most, rng
        As in :func:`neighbor_constraints`.
    """
    each = n_neighbors * n_impostors if form == "comparison" else n_neighbors + n_impostors
    if len(able) * each <= most:
        return able[:]
    return able[np.sort(rng.choice(len(able), size=-(-most // each), replace=False))]


def rows_between(
    points: np.ndarray,
    targets: Nearest,
    impostors: Nearest,
    coincide: Callable[[np.ndarray, np.ndarray], np.ndarray],
    form: str,
    most: int,
    typical: float | None = None,
) -> Constraints:
    """Rows of some points, their targets and their impostors.

    Parameters
    ----------
    points : ndarray of int, shape (m,)
    targets, impostors : Nearest
        Of these points; each has at least one impostor.
    coincide : callable
        Row numbers of m pairs -> which of them are identical, shape (m,).
    form, most, typical
        As ``form``, ``n_constraints`` and ``typical`` of :func:`neighbor_constraints`.
    """
    near, far, sq = targets.rows, impostors.rows, targets.distances**2
    beyond = float(np.median(impostors.distances.min(axis=1) ** 2))  # where all targets are copies of their points
    if form == "comparison":
        p, a, b = ((near[:, :, None] >= 0) & (far[:, None, :] >= 0)).nonzero()
        # a target that is a copy of the impostor is as far in every metric
        reach, beside = targets.distances[p, a], impostors.distances[p, b]
        ties = np.flatnonzero(np.abs(reach - beside) <= NEAR * beside)
        void = ties[coincide(near[p[ties], a[ties]], far[p[ties], b[ties]])]
        if len(void) == len(p):
            pair = int(near[p[0], a[0]]), int(far[p[0], b[0]])
            raise NothingToCompare(
                "y gives different classes to copies of every point that others could be nearer to.", pair
            )
        p, a, b = (np.delete(column, void)[:most] for column in (p, a, b))
        i, j, l = points[p], near[p, a], far[p, b]
        farthest = np.where(near >= 0, sq, 0.0).max(axis=1)
        margin = MARGIN * np.maximum(farthest, LEAST_MARGIN * float(np.median(farthest)) or beyond)[p]
        if typical is not None:
            margin *= typical / np.median(margin)
        return Constraints.comparison(i, j, i, l, margin=margin, weight=TOTAL_WEIGHT / len(i))
    apart = sq[np.isfinite(sq) & (sq > 0)]
    margin = typical or (float(np.median(apart)) if len(apart) else beyond)
    (p, a), (q, b) = (near >= 0).nonzero(), (far >= 0).nonzero()
    weight = TOTAL_WEIGHT / (len(p) + len(q))
    alike = Constraints.sq_distance(points[p], near[p, a], margin, "<=", weight=weight)
    return alike + Constraints.sq_distance(points[q], far[q, b], 2.0 * margin, ">=", weight=weight)


def median_margin(rows: Constraints) -> float:
    """The median margin of rows that were drawn, in their squared units."""
    return float(np.median(np.abs(rows.bound[rows.sense > 0])))


def comparable(kinds: Kinds) -> np.ndarray:
    """Points that have others alike and others apart, ascending; raises where there are none."""
    counts = np.array([len(rows) for rows in kinds.members])
    has_target, has_other = (kinds.relation == ALIKE) @ counts > 1, (kinds.relation == APART) @ counts > 0
    known = np.flatnonzero(kinds.codes >= 0)
    group = kinds.codes[known]
    where = rows_text(known)
    check_kinds(bool(has_other[group].any()), bool(has_target[group].any()), f"labelled point ({where})")
    able = known[(has_target & has_other)[group]]
    if not len(able):
        raise ValueError(
            f"no labelled point of y ({where}) has both a point of its class and one of another to compare."
        )
    return able


def check_kinds(has_other: bool, has_target: bool, which: str) -> None:
    """Raise where no point has one of another class, or none has one of its own.

    Parameters
    ----------
    has_other, has_target : bool
        Whether any has.
    which : str
        The points, in the singular, for messages.
    """
    if not has_other:
        raise ValueError(
            f"y must tell at least two classes apart to draw neighbours: every {which} belongs to the same. "
            "Use strategy='random', or give constraints."
        )
    if not has_target:
        raise ValueError(f"y puts no two points together: every {which} is alone in its class.")


def warn_of_left_out(alone: np.ndarray, coincides: np.ndarray) -> None:
    """Say which points have no target, and which coincide with a point of another class."""
    for left_out, why in (
        (alone, "are alone in their class: they serve as neighbours of others only"),
        (coincides, "coincide with points of another class, which no metric separates: those comparisons are left out"),
    ):
        if left_out.any():
            rows = np.flatnonzero(left_out)
            warnings.warn(f"{len(rows)} points {why} ({rows_text(rows)}).", UserWarning, stacklevel=4)
