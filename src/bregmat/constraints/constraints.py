"""Constraints as data: facts, joining and selecting them, names of samples, and values at points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bregmat.base.checks import check_finite, check_positive, rows_text
from bregmat.base.points import as_points
from bregmat.constraints import constructors
from bregmat.constraints.columns import SYMBOLS, as_row, as_rows, positions, stacked_indices
from bregmat.constraints.relations import BUILT_IN, SAMPLES, Relation, table_of
from bregmat.constraints.summary import summary_html, summary_text
from bregmat.constraints.tables import Row, columns_of, data_frame
from bregmat.constraints.terms import Terms, whole_value
from bregmat.typing import Labels


def excess_of(p: np.ndarray, bound: np.ndarray, sense: np.ndarray) -> np.ndarray:
    """Signed violation: how far values exceed their bounds; negative if a row holds with slack, ``|p - b|`` for "==" rows; shape (c,)."""
    return np.where(sense == 0, np.abs(p - bound), sense * (p - bound))


@dataclass(frozen=True, eq=False)
class Constraints:
    """Constraints ``<A_i, K> <sense> bound`` on a kernel ``K``; immutable.

    Use the constructors (:meth:`sq_distance`, :meth:`similarity`, ..., :meth:`of` for a relation of your own), join with ``+``,
    pick with :meth:`select`.

    Attributes
    ----------
    relation : ndarray of int8, shape (c,)
        Position of each constraint's relation in ``relations``.
    index : ndarray of int32 or int64, shape (c, k)
        Samples i, j, k, l of each constraint, in as many columns as needed, -1 where unused: row numbers, or positions in
        ``ids``.
    bound : ndarray, shape (c,)
        Right-hand sides; squared distance units for distances and comparisons.
    sense : ndarray of int8, shape (c,)
        +1 for "<=", -1 for ">=", 0 for "==".
    weight : ndarray, shape (c,)
        Multiplies the slack weight of the problem; dimensionless; ``inf`` makes the constraint hard.
    ids : ndarray or None
        Table of sample names; None if samples are row numbers.
    matrices : tuple
        Matrices of the "linear" constraints; ``index[:, 0]`` is the position in it.
    relations : tuple of Relation
        The relations of the library, and others that occur.

    Examples
    --------
    >>> from bregmat import Constraints
    >>> together = Constraints.sq_distance([0, 5], [3, 6], bound=4.0, sense="<=")
    >>> apart = Constraints.sq_distance([0], [80], bound=100.0, sense=">=", weight=2.0)
    >>> nearer = Constraints.comparison(i=[2], j=[4], k=[2], l=[70], margin=1.0)
    >>> constraints = together + apart + nearer
    >>> constraints.n_constraints
    4
    >>> constraints.select(constraints.bound >= 4).n_constraints
    3
    """

    relation: np.ndarray
    index: np.ndarray
    bound: np.ndarray
    sense: np.ndarray
    weight: np.ndarray
    ids: np.ndarray | None = None
    matrices: tuple[Any, ...] = ()
    relations: tuple[Relation, ...] = BUILT_IN
    is_whole: np.ndarray = field(init=False)  # rows that involve all points

    # the constructors, each from arguments that it checks
    of = classmethod(constructors.of)
    sq_distance = classmethod(constructors.sq_distance)
    similarity = classmethod(constructors.similarity)
    comparison = classmethod(constructors.comparison)
    similarity_comparison = classmethod(constructors.similarity_comparison)
    diagonal = classmethod(constructors.diagonal)
    entries = classmethod(constructors.entries)
    trace = classmethod(constructors.trace)
    linear = classmethod(constructors.linear)
    from_pairs = classmethod(constructors.from_pairs)
    from_triplets = classmethod(constructors.from_triplets)
    from_frame = classmethod(constructors.from_frame)
    with_bounds_from = constructors.with_bounds_from

    def __post_init__(self) -> None:
        if not np.isfinite(self.bound).all():
            check_finite("bound", self.bound)  # which names the rows
        bad = np.flatnonzero(self.where("is_psd") & (self.bound < 0))
        if len(bad):
            raise ValueError(
                f"bound of a {self._relation(bad[0]).name} must be at least 0, since no positive semidefinite matrix has a "
                f"negative one; got {self.bound[bad[0]]} in {rows_text(bad, 'constraint')}."
            )
        # the index without last columns that no row uses, in 32 bits if they fit
        used = self.index.shape[1]
        while used > 1 and (self.index[:, used - 1] == -1).all():
            used -= 1
        small = self.index[:, :used].max(initial=0) <= np.iinfo(np.int32).max
        index = np.ascontiguousarray(self.index[:, :used], dtype=np.int32 if small else np.int64)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "is_whole", self.where("is_whole"))
        for array in (self.relation, self.index, self.bound, self.sense, self.weight):
            array.setflags(write=False)

    @classmethod
    def of_columns(
        cls,
        relation: Relation,
        index: np.ndarray,
        bound: np.ndarray | float,
        sense: np.ndarray | int,
        weight: np.ndarray | float,
        ids: np.ndarray | None = None,
        matrices: tuple[Any, ...] = (),
    ) -> Self:
        """Constraints of one relation from columns that are known to be valid.

        Parameters
        ----------
        relation : Relation
        index : ndarray of int, shape (c, k)
            Row numbers of the samples, or positions in ``ids``.
        bound, sense, weight : ndarray, shape (c,), or a number for all rows
            Copied; a sense is +1 for "<=", -1 for ">=" and 0 for "==".
        ids, matrices
            As the attributes.
        """
        c = len(index)
        relations = BUILT_IN if relation in BUILT_IN else (*BUILT_IN, relation)
        code = np.full(c, relations.index(relation), dtype=np.int8)
        senses, weights = np.full(c, sense, dtype=np.int8), np.full(c, weight, dtype=float)
        return cls(code, index, np.full(c, bound, dtype=float), senses, weights, ids, matrices, relations)

    # ------------------------------------------------------------------ facts
    def where(self, fact: str) -> np.ndarray:
        """Mask of the constraints whose relation has a true attribute of this name, such as ``"is_whole"``."""
        return np.array([bool(getattr(relation, fact)) for relation in self.relations])[self.relation]

    def psd_rows(self) -> np.ndarray:
        """Whether the matrix of each constraint is positive semidefinite by its relation and samples; boolean, shape (c,)."""
        out = self.where("is_psd")
        for code, relation in enumerate(self.relations):
            if not relation.is_psd and len(rows := np.flatnonzero(self.relation == code)):
                out[rows] = relation.is_psd_for(self.index[rows])
        return out

    def matrix(self, row: int | np.integer) -> Any:
        """The matrix of a constraint that involves all points, as it was given; None stands for the identity."""
        row = as_row("row", row, self.n_constraints)
        return self.matrices[self.index[row, 0]] if self._relation(row).takes_matrix else None

    def touched(self, n: int) -> np.ndarray | None:
        """Ascending numbers of the samples that constraints name, all below ``n``; None if a constraint involves all points."""
        self.check_range(n)
        if self.is_whole.any():
            return None
        mark = np.zeros(n + 1, dtype=bool)
        mark[self.index] = True  # -1 marks the last entry, which belongs to no sample
        return np.flatnonzero(mark[:n])

    def factors(self, point_weight: np.ndarray) -> np.ndarray:
        """Product of the weights of the distinct samples of each constraint; 1 for constraints that name no samples; shape (c,)."""
        index = np.where(self.is_whole[:, None], -1, self.index)
        index = np.sort(index, axis=1)
        again = np.zeros(index.shape, dtype=bool)
        again[:, 1:] = index[:, 1:] == index[:, :-1]
        return np.where(again | (index < 0), 1.0, point_weight[index]).prod(axis=1)

    def _relation(self, row: int | np.integer) -> Relation:
        """The relation of a row."""
        return self.relations[self.relation[row]]

    # ------------------------------------------------------------------ algebra
    @property
    def n_constraints(self) -> int:
        """Number of constraints c."""
        return self.relation.shape[0]

    def __add__(self, other: Constraints) -> Self:
        if not isinstance(other, Constraints):
            return NotImplemented
        named = [x for x in (self, other) if not x.is_whole.all()]
        if len({x.ids is None for x in named}) > 1:
            raise TypeError(
                "cannot join constraints that name samples by numbers with constraints that name them otherwise."
            )
        tables, ids = [x.ids for x in named if x.ids is not None], None
        indices = [self.index, other.index]
        if tables:
            ids, place = np.unique(np.concatenate(tables), return_inverse=True)
            places = iter(np.split(place, np.cumsum([len(table) for table in tables])))
            indices = [x.index if x.is_whole.all() else x.renumbered(next(places).__getitem__) for x in (self, other)]
        index = stacked_indices(indices)
        has_matrix = np.concatenate([np.zeros(self.n_constraints, bool), other.where("takes_matrix")])
        index[has_matrix, 0] += len(self.matrices)
        join = {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("bound", "sense", "weight")
        }
        relations = table_of(*self.relations, *other.relations)
        code = np.array([relations.index(relation) for relation in other.relations], dtype=np.int8)
        relation = np.concatenate([self.relation, code[other.relation]])
        matrices = self.matrices + other.matrices
        return replace(self, relation=relation, index=index, ids=ids, matrices=matrices, relations=relations, **join)

    def select(self, mask: Labels) -> Self:
        """The constraints picked by a boolean mask, slice or integer index, in that order."""
        rows = as_rows("mask", mask, self.n_constraints)
        if len(rows) == 0:
            raise ValueError("select: no constraint is left.")
        index = self.index[rows].copy()
        has_matrix = self.where("takes_matrix")[rows]
        matrices = tuple(self.matrices[k] for k in index[has_matrix, 0])
        index[has_matrix, 0] = np.arange(len(matrices))
        columns = {name: getattr(self, name)[rows] for name in ("relation", "bound", "sense", "weight")}
        return replace(self, index=index, matrices=matrices, **columns)

    def locate(self, sample_id: Labels | None = None, n: int | None = None) -> tuple[Self | None, np.ndarray]:
        """Translate sample names to row numbers of given data.

        Parameters
        ----------
        sample_id : array-like, shape (n,), optional
            Name of each row of the data; by default the row numbers.
        n : int, optional
            Number of rows of the data, if ``sample_id`` is None.

        Returns
        -------
        located : Constraints or None
            The constraints whose samples are all present (None if there are none), with row numbers as samples.
        kept : ndarray of bool, shape (c,)
        """
        if sample_id is None:
            self.check_range(n)
            return self, np.ones(self.n_constraints, bool)
        names, ids = np.asarray(sample_id), self.ids
        index = self.renumbered(lambda samples: positions(names, samples if ids is None else ids[samples]))
        kept = ~(index == -2).any(axis=1)
        fits = np.array([m.shape[0] == len(names) for m in self.matrices], dtype=bool)
        has_matrix = self.where("takes_matrix")
        kept[has_matrix] = fits[self.index[has_matrix, 0]]
        moved = replace(self, index=index, ids=None)
        return (moved.select(kept) if kept.any() else None), kept

    def renumbered(self, place: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """``index`` with ``place(samples)`` for the samples that constraints name."""
        index = self.index.astype(np.int64)
        used = (index >= 0) & ~self.is_whole[:, None]
        index[used] = place(index[used])
        return index

    def check_range(self, n: int | None, data: str = "the data", hint: str = "") -> None:
        """Raise ``ValueError`` unless constraints name samples by numbers below ``n`` and have such matrices; ``hint`` ends messages."""
        if self.ids is not None:
            raise ValueError(
                f"constraints name samples such as {self.ids[0]!s}; translate them to row numbers first: "
                "constraints.locate(sample_id)[0], or give MetricLearner.fit a sample_id."
            )
        if n is None:
            return
        outside = (self.index >= n).any(axis=1) & ~self.is_whole
        bad = np.flatnonzero(outside)
        if len(bad):
            raise ValueError(
                f"constraints name samples up to {self.index[outside].max()} but {data} has {n} rows (0 to {n - 1}): "
                f"{rows_text(bad, 'constraint')}. {hint}".rstrip()
            )
        for m in self.matrices:
            if m.shape[0] != n:
                raise ValueError(f"a constraint has a {m.shape[0]} x {m.shape[0]} matrix but the data has {n} rows.")

    # ------------------------------------------------------------------ values
    def terms(self, points: np.ndarray | None = None) -> Terms:
        """Rank-one terms of all constraints that name samples, in the order of the constraints.

        ``points`` (n,) are ascending row numbers of all samples that are named, in which the terms have positions; None: of all data.
        """
        index = self.index
        if points is not None:
            place = np.empty(int(points[-1]) + 1, dtype=np.int32)
            place[points] = np.arange(len(points), dtype=np.int32)
            index = place[index]  # -1 is not used by any term
        none = np.zeros(0, np.int64)
        pieces = [(none, none.astype(np.int32), none.astype(np.int32), none.astype(np.int8), none.astype(float))]
        for code, relation in enumerate(self.relations):
            rows = np.flatnonzero(self.relation == code)
            # for example, a squared distance is the one term |z_i - z_j|^2
            for term in relation.terms if len(rows) else ():
                sign, coef = np.full(len(rows), term.sign, np.int8), np.full(len(rows), term.coef)
                pieces.append((rows, index[rows, term.first], index[rows, term.second], sign, coef))
        columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
        if (np.diff(columns[0]) < 0).any():
            order = np.argsort(columns[0], kind="stable")
            columns = [column[order] for column in columns]
        return Terms(*columns)

    def values(self, G: Any) -> np.ndarray:
        """``<A_i, K>`` for ``K = G G'``.

        Parameters
        ----------
        G : array-like, shape (n, r)
            Points, one per row.

        Returns
        -------
        ndarray, shape (c,)
        """
        return self._evaluate(G)[0]

    def _evaluate(self, G: Any) -> tuple[np.ndarray, np.ndarray]:
        """Values, and their natural sizes: the sum of the squared norms of the points, or of ``|C_kl| |g_k| |g_l|`` for a matrix C."""
        G = as_points("G", G)
        self.check_range(G.shape[0])
        p, size = self.terms().values(G, self.n_constraints)
        for row in np.flatnonzero(self.is_whole):
            p[row], size[row] = whole_value(self.matrix(row), G)
        return p, size

    def violation(self, G: Any) -> np.ndarray:
        """Relative violation of each constraint, 0 where it holds.

        The unit is ``|bound|`` or, if the bound is 0, the sum of the squared norms of the points of the constraint. For a matrix C it is
        the sum of ``|C_kl| |g_k| |g_l|`` over pairs of points.
        """
        p, size = self._evaluate(G)
        excess = np.maximum(excess_of(p, self.bound, self.sense), 0.0)
        unit = np.where(self.bound != 0, np.abs(self.bound), np.where(size > 0, size, 1.0))
        return excess / unit

    def satisfied(self, G: Any, tol: float = 1e-3) -> np.ndarray:
        """Whether each constraint holds to the relative tolerance ``tol``; boolean, shape (c,)."""
        check_positive("tol", tol, finite=True, zero=True)
        return self.violation(G) <= tol

    # ------------------------------------------------------------------ as text and as a table
    def to_frame(self) -> Any:
        """The constraints as a data frame of pandas, which :meth:`from_frame` reads back exactly.

        Returns
        -------
        DataFrame, shape (c, 8)
            Columns relation, i, j, k, l, bound, sense, weight, one row a constraint; the bound of a comparison is minus its
            margin. Constraints of :meth:`linear` raise ``ValueError``: matrices have no column form.
        """
        return data_frame(columns_of(self), numbered=() if self.ids is not None else SAMPLES)

    def describe(self, row: int | np.integer, sample_id: Labels | None = None) -> str:
        """One constraint as text, for reports and messages; `sample_id` gives names to row numbers."""
        row = as_row("row", row, self.n_constraints)
        relation = self._relation(row)
        ids = self.ids if sample_id is None else np.asarray(sample_id)
        named = ids is not None and not relation.is_whole
        names = [ids[k] if named and ids is not None and k >= 0 else k for k in self.index[row]]
        return relation.sentence(names, SYMBOLS[int(self.sense[row])], self.bound[row])

    def __iter__(self) -> Iterator[Row]:
        """The rows as objects with the columns of :meth:`to_frame` as attributes; ``str(row)`` is its text."""
        for k in range(self.n_constraints):
            relation = self._relation(k)
            ids = None if relation.is_whole else self.ids
            names = [None if s < 0 else s if ids is None else ids[s] for s in self.index[k].tolist()]
            samples = dict(zip(SAMPLES, (names + 4 * [None])[:4]))
            sense, bound, weight = SYMBOLS[int(self.sense[k])], float(self.bound[k]), float(self.weight[k])
            yield Row(relation.name, **samples, bound=bound, sense=sense, weight=weight, kind=relation)

    def __repr__(self) -> str:
        return summary_text(self)

    def _repr_html_(self) -> str:
        return summary_html(self)
