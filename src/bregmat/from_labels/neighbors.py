"""Rows where neighbours are decided: the nearest points of the same kind against the nearest of another (after LMNN).

Kinds come from class labels, from sets of labels, or from a number per point; what is near, from a :class:`Space`: points in their
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
from bregmat.base.linalg import blocks
from bregmat.base.sampling import NothingToCompare, differ
from bregmat.base.threads import cached_property
from bregmat.constraints.constraints import Constraints
from bregmat.typing import Form

TOTAL_WEIGHT = 1000.0  # of all rows drawn: that many relative squares of the margin against one unit of the divergence
MARGIN = 2.0  # of a comparison, in squared distances of the point to its farthest target
LEAST_MARGIN = 1e-2  # of a point, relative to the median one: copies of it would leave it none
FORMS = get_args(Form)
MOST_DEFAULT_ROWS = 1_000_000
MOST_BINS = 10  # of a continuous target
BLOCK = 10_000_000  # numbers at a time
NEAR = 1e-6  # distance relative to the median one below which two points are looked at more closely
PROJECTIONS = 3  # random directions along which copies of points are looked for
DIGITS = 1e-10  # share of the largest coordinate along them that tells points apart
COINCIDENT = 1e-12  # squared distance relative to k(x, x) + k(y, y) below which it is rounding
ALIKE, NEITHER, APART = 1, 0, -1


# ---------------------------------------------------------------------- who belongs together
@dataclass(frozen=True, eq=False)
class Kinds:
    """A group for each point, and which groups belong together.

    Attributes
    ----------
    codes : ndarray of int64, shape (n,)
        Group of each point, -1 where it is not known.
    relation : ndarray of int8, shape (g, g)
        1: alike, -1: apart, 0: neither is asked.
    """

    codes: np.ndarray
    relation: np.ndarray

    @classmethod
    def of_classes(cls, codes: np.ndarray) -> Kinds:
        """Classes by number, -1 unlabelled: alike if equal."""
        n_groups = int(codes.max(initial=-1)) + 1
        return cls(codes, np.where(np.eye(n_groups, dtype=bool), ALIKE, APART).astype(np.int8))

    @classmethod
    def of_values(cls, y: np.ndarray) -> Kinds:
        """A continuous target in bins of equal counts: alike in one bin, apart unless the bins touch. NaN is unlabelled."""
        known = np.isfinite(y)
        n_bins = int(np.clip(known.sum() // 5, 3, MOST_BINS))
        edges = np.unique(np.quantile(y[known], np.linspace(0, 1, n_bins + 1)[1:-1]))
        codes = np.where(known, np.searchsorted(edges, np.where(known, y, 0.0), side="right"), -1)
        steps = np.abs(np.subtract.outer(np.arange(len(edges) + 1), np.arange(len(edges) + 1)))
        return cls(codes, np.select([steps == 0, steps == 1], [ALIKE, NEITHER], APART).astype(np.int8))

    @classmethod
    def of_sets(cls, Y: np.ndarray) -> Kinds:
        """Sets of labels as rows of 0 and 1: alike if they share a label, apart if not. A row of zeros is unlabelled."""
        sets, codes = np.unique(Y, axis=0, return_inverse=True)
        codes, empty = codes.reshape(-1), ~np.asarray(sets.any(axis=1))
        shared = sets.astype(np.int64) @ sets.T.astype(np.int64)
        return cls(np.where(empty[codes], -1, codes), np.where(shared > 0, ALIKE, APART).astype(np.int8))

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Row numbers of each group."""
        order = np.argsort(self.codes, kind="stable")
        starts = np.searchsorted(self.codes[order], np.arange(len(self.relation) + 1))
        return [order[a:b] for a, b in zip(starts, starts[1:])]

    @property
    def are_classes(self) -> bool:
        """Whether groups belong together with themselves alone, and apart from all others."""
        return bool(np.array_equal(self.relation, Kinds.of_classes(np.arange(len(self.relation))).relation))

    @property
    def alone(self) -> np.ndarray:
        """Which points are known, and alike to no other; shape (n,)."""
        sizes = np.array([len(rows) for rows in self.members])
        return (self.codes >= 0) & (((self.relation == ALIKE) @ sizes)[self.codes] == 1)

    def related(self, group: int, how: int) -> np.ndarray:
        """Rows whose group stands in the relation ``how`` to this one."""
        parts = [self.members[other] for other in np.flatnonzero(self.relation[group] == how)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)


# ---------------------------------------------------------------------- what is near
class Space(Protocol):
    """Where distances are measured."""

    def coincide(self, i: np.ndarray, j: np.ndarray) -> np.ndarray: ...
    def index(self, among: np.ndarray, k: int) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]: ...
    def places(self) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class PointSpace:
    """Rows of Z (n, r), dense or sparse, with Euclidean distances."""

    Z: Any
    transformer: Any = None  # scikit-learn's way to another index of neighbours, None for exact search

    def coincide(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of rows are identical to 12 digits, shape (m,)."""
        return ~differ(self.Z)(i, j)

    def places(self) -> np.ndarray:
        """A number for each row, the same for copies of one point, shape (n,)."""
        along = self.Z @ np.random.default_rng(0).normal(size=(self.Z.shape[1], PROJECTIONS))
        unit = DIGITS * np.abs(along).max(axis=0, initial=0.0)
        return np.unique(np.rint(along / np.where(unit > 0, unit, 1.0)), axis=0, return_inverse=True)[1].reshape(-1)

    def index(self, among: np.ndarray, k: int) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """A function of row numbers (m,) that gives the k nearest of ``among``: distances and places in ``among``, (m, k)."""
        from sklearn.base import clone
        from sklearn.neighbors import NearestNeighbors

        if self.transformer is None or len(among) <= 10 * k:
            near = NearestNeighbors(n_neighbors=k).fit(self.Z[among])
            return lambda rows: near.kneighbors(self.Z[rows])
        fitted = clone(self.transformer).set_params(n_neighbors=k).fit(self.Z[among])
        return lambda rows: _nearest_of_graph(fitted.transform(self.Z[rows]), k)


def _nearest_of_graph(graph: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances (m, k), inf where there are fewer, and places, from the sparse distances of a neighbours transformer."""
    graph = sp.csr_array(graph)
    row = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    order = np.lexsort((graph.data, row))
    rank = np.arange(len(row)) - graph.indptr[row]
    distances, places = np.full((graph.shape[0], k), np.inf), np.zeros((graph.shape[0], k), np.int64)
    kept, at = order[rank < k], (row[rank < k], rank[rank < k])
    distances[at], places[at] = graph.data[kept], graph.indices[kept]
    return distances, places


@dataclass(frozen=True, eq=False)
class KernelSpace:
    """Distances of a kernel, from a function of two arrays of row numbers that gives the block of its values."""

    block: Callable[[np.ndarray, np.ndarray], np.ndarray]
    diagonal: np.ndarray  # k(x, x), shape (n,)

    def coincide(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of rows are mapped to one point but for rounding, shape (m,)."""
        sq, order = np.empty(len(i)), np.argsort(i, kind="stable")
        for run in np.split(order, np.flatnonzero(np.diff(i[order])) + 1) if len(i) else []:
            sq[run] = np.asarray(self.block(i[run[:1]], j[run]))[0]
        size = self.diagonal[i] + self.diagonal[j]
        return size - 2.0 * sq <= COINCIDENT * size

    def places(self) -> np.ndarray:
        """A number for each row; a kernel does not tell which of them are copies."""
        return np.arange(len(self.diagonal))

    def index(self, among: np.ndarray, k: int) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """As :meth:`PointSpace.index`."""

        def nearest(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            sq, places = np.empty((len(rows), k)), np.empty((len(rows), k), np.int64)
            for part in blocks(len(rows), len(among), BLOCK):
                all_sq = self.diagonal[among] - 2.0 * np.asarray(self.block(rows[part], among))
                places[part] = np.argpartition(all_sq, k - 1, axis=1)[:, :k]
                sq[part] = np.take_along_axis(all_sq, places[part], axis=1)
            return np.sqrt(np.maximum(sq + self.diagonal[rows, None], 0.0)), places

        return nearest


# ---------------------------------------------------------------------- rows
@dataclass(frozen=True, eq=False)
class Nearest:
    """Up to k nearest points of each point; -1 where there are fewer."""

    rows: np.ndarray  # (n, k)
    distances: np.ndarray  # (n, k), inf where there is none

    def of(self, points: np.ndarray) -> Nearest:
        """Of some points."""
        return Nearest(self.rows[points], self.distances[points])

    def without(self, gone: np.ndarray) -> Nearest:
        """Without those marked (n, k)."""
        return Nearest(np.where(gone, -1, self.rows), np.where(gone, np.inf, self.distances))


def nearest_related(space: Space, kinds: Kinds, how: int, k: int, only: np.ndarray | None = None) -> Nearest:
    """The k nearest points of each known point among those alike (never itself) or apart; one index for each group.

    Parameters
    ----------
    space : Space
    kinds : Kinds
        Of n points.
    how : int
        ALIKE or APART.
    k : int
    only : ndarray of bool, shape (n,), optional
        Which points may be found.
    """
    n = len(kinds.codes)
    rows, distances = np.full((n, k), -1, np.int64), np.full((n, k), np.inf)
    for group, among in enumerate(kinds.members):
        queries = kinds.related(group, how)
        among = among if only is None else among[only[among]]
        is_alike = how == ALIKE  # then the point itself may be found
        found = min(k + is_alike, len(among))
        if not found or not len(queries):
            continue
        d, places = space.index(among, found)(queries)
        near = among[places]
        d = np.where(near == queries[:, None], np.inf, d)
        d = np.hstack([distances[queries], d])
        near = np.hstack([rows[queries], near])
        order = np.argsort(d, axis=1, kind="stable")[:, :k]
        distances[queries] = np.take_along_axis(d, order, axis=1)
        rows[queries] = np.take_along_axis(near, order, axis=1)
    return Nearest(np.where(np.isfinite(distances), rows, -1), distances)


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
        Most rows; points are left out at random to keep to it. By default 1,000,000.
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
    targets = nearest_related(space, kinds, ALIKE, n_neighbors)
    near = nearest_related(space, kinds, APART, n_impostors)
    coincides = _coincident(space, near)
    impostors = _apart(space, kinds, near, coincides)
    known, has_target = kinds.codes >= 0, targets.rows[:, 0] >= 0
    has_impostor = np.any(impostors.rows >= 0, axis=1)
    copy = np.argwhere(coincides)[:1]
    pair = (int(copy[0, 0]), int(near.rows[tuple(copy[0])])) if len(copy) else None
    _check_any(known, has_target, near.rows[:, 0] >= 0, has_impostor, pair)
    if is_first:
        warn_of_left_out(kinds.alone, np.any(coincides, axis=1))

    points = np.flatnonzero(has_target & has_impostor)
    most = MOST_DEFAULT_ROWS if n_constraints is None else n_constraints
    each = n_neighbors * n_impostors if form == "comparison" else n_neighbors + n_impostors
    if len(points) * each > most:
        points = np.sort(rng.choice(points, size=-(-most // each), replace=False))
    return rows_between(points, targets.of(points), impostors.of(points), space.coincide, form, most, typical)


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


def _apart(space: Space, kinds: Kinds, near: Nearest, coincides: np.ndarray) -> Nearest:
    """Impostors that are not at the point itself; where copies of it are all that was found, the nearest among different points."""
    impostors = near.without(coincides)
    hidden = (near.rows >= 0).any(axis=1) & ~(impostors.rows >= 0).any(axis=1)
    if not hidden.any():
        return impostors
    n, k = near.rows.shape
    groups = len(kinds.relation)
    is_different = np.zeros(n, dtype=bool)
    is_different[np.unique(space.places() * (groups + 1) + kinds.codes, return_index=True)[1]] = True
    more = nearest_related(space, kinds, APART, k + groups, is_different)  # at most one copy in each group
    more = more.without(_coincident(space, more))
    order = np.argsort(more.distances, axis=1, kind="stable")[:, :k]
    for mine, other in ((impostors.rows, more.rows), (impostors.distances, more.distances)):
        mine[hidden] = np.take_along_axis(other, order, axis=1)[hidden]
    return impostors


def _coincident(space: Space, impostors: Nearest) -> np.ndarray:
    """Which impostors are at the point itself, where nothing can part them; shape (n, k)."""
    found = np.zeros(impostors.rows.shape, dtype=bool)
    finite = np.isfinite(impostors.distances)
    if finite.any():
        at = (finite & (impostors.distances <= NEAR * np.median(impostors.distances[finite]))).nonzero()
        found[at] = space.coincide(at[0], impostors.rows[at])
    return found


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


def _check_any(
    known: np.ndarray,
    has_target: np.ndarray,
    has_other: np.ndarray,
    has_impostor: np.ndarray,
    pair: tuple[int, int] | None,
) -> None:
    """Raise where no point has both a target and an impostor; ``pair``: two identical points that belong apart, if there are some."""
    where = rows_text(np.flatnonzero(known))
    check_kinds(bool(has_other.any()), bool(has_target.any()), f"labelled point ({where})")
    if (has_target & has_impostor).any():
        return
    if pair is not None:
        text = f"y gives different classes to identical points, and no others can be compared: see {where} of X."
        raise NothingToCompare(text, pair)
    raise ValueError(f"no labelled point of y ({where}) has both a point of its class and one of another to compare.")


def warn_of_left_out(alone: np.ndarray, coincides: np.ndarray) -> None:
    """Say which points have no target, and which coincide with a point of another class."""
    for left_out, why in (
        (alone, "are alone in their class: they serve as neighbours of others only"),
        (coincides, "coincide with points of another class, which no metric separates: those comparisons are left out"),
    ):
        if left_out.any():
            rows = np.flatnonzero(left_out)
            warnings.warn(f"{len(rows)} points {why} ({rows_text(rows)}).", UserWarning, stacklevel=4)
