"""Constraint rows on the learned kernel: relation, indices, bound, sense and weight of each row.

The relation of a row (:mod:`bregmat.constraints.relations`) is a signed sum of squared norms of ``z_a + s z_b`` with ``s`` in
{-1, 0, +1} (:meth:`Constraints.terms`), so all operators that are built from rows have one form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bregmat.base.checks import as_column, as_numbers, as_row, as_rows, check_finite, check_positive, rows_text
from bregmat.base.points import as_points, row_names
from bregmat.base.sampling import check_percentiles, generator, sq_distance_percentiles, sq_distances
from bregmat.constraints.columns import (
    SYMBOLS,
    as_tuples,
    compact_index,
    index_table,
    positions,
    sense_codes,
    similar,
    stacked_indices,
    symmetric_matrix,
)
from bregmat.constraints.relations import (
    BUILT_IN,
    COMPARISON,
    DIAGONAL,
    LINEAR,
    RELATIONS,
    SAMPLES,
    SIMILARITY,
    SIMILARITY_COMPARISON,
    SQ_DISTANCE,
    TRACE,
    Relation,
    table_of,
)
from bregmat.constraints.summary import summary_html, summary_text
from bregmat.constraints.tables import Row, columns_of, data_frame, frame_columns, table_rows
from bregmat.constraints.terms import ResolvedRows, Terms, excess_of, whole_value
from bregmat.typing import FrameLibrary, Labels, Matrices, Points, RandomState, Senses, Values

_HARD = " (inf makes a row hard; leave out rows that should not count)"


@dataclass(frozen=True, eq=False)
class Constraints:
    """Rows ``<A_i, K> <sense> bound`` on a kernel ``K``; immutable.

    Use the constructors (:meth:`sq_distance`, :meth:`similarity`, ..., :meth:`of` for a relation of your own), join with ``+``,
    pick with :meth:`select`.

    Attributes
    ----------
    relation : ndarray of int8, shape (c,)
        Position of each row's relation in ``relations``.
    index : ndarray of int32 or int64, shape (c, k)
        Samples i, j, k, l of each row, in as many columns as the rows need, -1 where unused: row numbers, or positions in
        ``ids``.
    bound : ndarray, shape (c,)
        Right-hand sides; squared distance units for distances and comparisons.
    sense : ndarray of int8, shape (c,)
        +1 for "<=", -1 for ">=", 0 for "==".
    weight : ndarray, shape (c,)
        Multiplies the slack weight of the problem; dimensionless; ``inf`` makes the row hard.
    ids : ndarray or None
        Table of sample names; None if samples are row numbers.
    matrices : tuple
        Matrices of the "linear" rows; ``index[:, 0]`` is the position in it.
    relations : tuple of Relation
        The relations of the library, and others that occur.

    Examples
    --------
    >>> from bregmat import Constraints
    >>> together = Constraints.sq_distance([0, 5], [3, 6], bound=4.0, sense="<=")
    >>> apart = Constraints.sq_distance([0], [80], bound=100.0, sense=">=", weight=2.0)
    >>> nearer = Constraints.comparison(i=[2], j=[4], k=[2], l=[70], margin=1.0)
    >>> rows = together + apart + nearer
    >>> rows.n_constraints
    4
    >>> rows.select(rows.bound >= 4).n_constraints
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

    def __post_init__(self) -> None:
        check_finite("bound", self.bound)
        bad = np.flatnonzero(self.where("is_psd") & (self.bound < 0))
        if len(bad):
            raise ValueError(
                f"bound of a {self._relation(bad[0]).name} must be at least 0, since no positive semidefinite matrix has a "
                f"negative one; got {self.bound[bad[0]]} in {rows_text(bad)}."
            )
        object.__setattr__(self, "index", compact_index(self.index))
        for array in (self.relation, self.index, self.bound, self.sense, self.weight):
            array.setflags(write=False)

    # ------------------------------------------------------------------ constructors
    @classmethod
    def _build(
        cls,
        relation: Relation,
        index: np.ndarray,
        ids: Any,
        bound: Any,
        sense: Any,
        weight: Any,
        matrices: tuple[Any, ...] = (),
    ) -> Constraints:
        """Rows of one relation, with checked columns and the defaults of the relation."""
        c = len(index)
        if c == 0:
            raise ValueError("constraints are empty; give at least one row.")
        bound = relation.bound if bound is None else bound
        sense = relation.sense if sense is None else sense
        relations = table_of(relation)
        return cls(
            np.full(c, relations.index(relation), dtype=np.int8),
            index,
            as_column("bound", bound, c, per="constraint", scalar=True, copy=True),  # made read-only
            sense_codes(sense, c),
            as_column(
                "weight", weight, c, per="constraint", scalar=True, infinite=True, positive=True, hint=_HARD, copy=True
            ),
            ids,
            matrices,
            relations,
        )

    @classmethod
    def _named(
        cls, relation: Relation, samples: dict[str, Any], bound: Any, sense: Any, weight: Any, is_margin: bool = False
    ) -> Constraints:
        """Rows of a relation between samples, given under the names of their arguments; a margin is minus the bound."""
        index, ids = index_table(samples)
        for same, demand, _ in relation.clashes(index, list(samples)):
            if same.any():
                raise ValueError(f"{demand}; they are equal in {rows_text(np.flatnonzero(same))}.")
        bound = -as_column("margin", bound, len(index), per="constraint", scalar=True) if is_margin else bound
        return cls._build(relation, index, ids, bound, sense, weight)

    @classmethod
    def of(
        cls,
        relation: str | Relation,
        *samples: Labels,
        bound: Values | None = None,
        sense: Senses | None = None,
        weight: Values = 1.0,
    ) -> Constraints:
        """Rows of any relation, by its name or as a :class:`bregmat.Relation` of your own.

        Parameters
        ----------
        relation : str or Relation
            One that is registered, or an object.
        *samples : array-like of int or sample ids, shape (c,)
            The samples i, j, k, l of each row, as many as the relation names.
        bound : float or array-like, shape (c,)
            In the unit of the relation. None: the relation's own, if it has one.
        sense : {"<=", ">=", "=="} or one per row
            None: the relation's own, if it has one.
        weight : float or array-like, shape (c,)
            Multiplies the slack weight; dimensionless, positive; ``inf`` is hard.
        """
        kind: Relation = RELATIONS.resolve(relation)
        if kind.takes_matrix:
            raise TypeError(f"rows of the relation {kind.name!r} are given by matrices: use Constraints.linear.")
        if len(samples) != kind.arity:
            raise TypeError(f"{kind.name} names {kind.arity} samples a row; got {len(samples)}.")
        if kind.is_whole:
            return cls._build(kind, np.full((1, 1), -1), None, bound, sense, weight)
        return cls._named(kind, dict(zip(SAMPLES, samples)), bound, sense, weight)

    @classmethod
    def sq_distance(cls, i: Labels, j: Labels, bound: Values, sense: Senses, *, weight: Values = 1.0) -> Constraints:
        """``K_ii + K_jj - 2 K_ij <sense> bound``: a *squared* distance (Kulis 2009, section 3.2).

        Parameters
        ----------
        i, j : array-like of int or sample ids, shape (c,)
            The two samples of each row; they must differ.
        bound : float or array-like, shape (c,)
            Squared distance, at least 0.
        sense : {"<=", ">=", "=="} or one per row
        weight : float or array-like, shape (c,)
            Multiplies the slack weight; dimensionless, positive; ``inf`` is hard.
        """
        return cls._named(SQ_DISTANCE, {"i": i, "j": j}, bound, sense, weight)

    @classmethod
    def similarity(cls, i: Labels, j: Labels, bound: Values, sense: Senses, *, weight: Values = 1.0) -> Constraints:
        """``K_ij <sense> bound`` (Kulis 2009, section 6.2.2).

        Parameters
        ----------
        i, j, bound, sense, weight
            As in :meth:`sq_distance`; the samples may be the same, bounds may be negative.
        """
        return cls._named(SIMILARITY, {"i": i, "j": j}, bound, sense, weight)

    @classmethod
    def comparison(
        cls, i: Labels, j: Labels, k: Labels, l: Labels, margin: Values = 0.0, *, weight: Values = 1.0
    ) -> Constraints:
        """``sq_dist(i, j) + margin <= sq_dist(k, l)`` (Kulis 2009, section 6.2.2).

        Parameters
        ----------
        i, j, k, l, weight
            As in :meth:`sq_distance`.
        margin : float or array-like, shape (c,)
            Squared distance.
        """
        return cls._named(COMPARISON, {"i": i, "j": j, "k": k, "l": l}, margin, None, weight, is_margin=True)

    @classmethod
    def similarity_comparison(
        cls, j: Labels, k: Labels, l: Labels, m: Labels, margin: Values = 0.0, *, weight: Values = 1.0
    ) -> Constraints:
        """``K_jk + margin <= K_lm`` (Kulis 2009, section 6.2.2).

        Parameters
        ----------
        j, k, l, m, weight
            As in :meth:`sq_distance`.
        margin : float or array-like, shape (c,)
            In units of the kernel.
        """
        return cls._named(SIMILARITY_COMPARISON, {"j": j, "k": k, "l": l, "m": m}, margin, None, weight, is_margin=True)

    @classmethod
    def diagonal(cls, values: Values, index: Labels | None = None, *, weight: Values = 1.0) -> Constraints:
        """``K_ii == values``; ``index`` names the samples, by default 0, 1, 2, ..."""
        values = np.atleast_1d(as_numbers("values", values))
        index = np.arange(len(values)) if index is None else index
        return cls._named(DIAGONAL, {"index": index}, values, None, weight)

    @classmethod
    def trace(cls, value: float, *, weight: float = 1.0) -> Constraints:
        """``tr K == value``, the sum over all rows of the data."""
        return cls.of(TRACE, bound=value, weight=weight)

    @classmethod
    def linear(cls, matrices: Matrices, bound: Values, sense: Senses, *, weight: Values = 1.0) -> Constraints:
        """``tr(K C) <sense> bound`` for symmetric ``C``; samples are row numbers here.

        Parameters
        ----------
        matrices : array-like, shape (c, n, n), or sequence
            Dense matrices, or a list of scipy.sparse matrices or pairs ``(vectors, weights)`` that stand for
            ``vectors @ diag(weights) @ vectors.T`` with vectors (n, k).
        bound, sense, weight
            As in :meth:`sq_distance`; bounds may be negative.
        """
        if not np.iterable(matrices) or isinstance(matrices, str):
            raise TypeError(f"matrices must be one symmetric matrix a constraint; got {matrices!r}.")
        parsed = tuple(symmetric_matrix(m, row) for row, m in enumerate(matrices))
        sizes = {m.shape[0] for m in parsed}
        if len(sizes) > 1:
            raise ValueError(f"matrices must all have the same size; got {sorted(sizes)}.")
        return cls._build(LINEAR, np.arange(len(parsed))[:, None], None, bound, sense, weight, parsed)

    # ------------------------------------------------------------------ from pairs, triplets and tables
    @classmethod
    def from_pairs(
        cls,
        pairs: Labels,
        y: Labels,
        bounds: tuple[float, float] | None = None,
        *,
        X: Points | None = None,
        percentiles: tuple[float, float] = (5, 95),
        weight: Values = 1.0,
        random_state: RandomState = None,
    ) -> Constraints:
        """Similar and dissimilar pairs: ``sq_distance(i, j) <= u`` and ``sq_distance(i, j) >= l`` (Davis 2007, section 2).

        Parameters
        ----------
        pairs : array-like of int or sample ids, shape (c, 2)
            The two samples of each pair; they must differ.
        y : array-like of {1, -1}, {1, 0} or bool, shape (c,)
            Whether the two are similar: 1 or True; dissimilar: -1, 0 or False. One value stands for all pairs.
        bounds : (float, float), optional
            u and l, *squared* distances with 0 <= u <= l. None: ``percentiles`` of the squared distances in ``X``.
        X : array-like or scipy.sparse, shape (n, d), optional
            The points, for bounds that are not given.
        percentiles : (float, float)
            Lower and upper percentile, 0 to 100, of the positive squared distances between points of X (of 20,000 random pairs
            where there are more), as of :func:`bregmat.constraints_from_labels`.
        weight : float or array-like, shape (c,)
            Multiplies the slack weight; dimensionless, positive; ``inf`` is hard.
        random_state : int, Generator, RandomState or None
            Seed of the pairs whose distances are looked at.

        Returns
        -------
        Constraints
            Rows in the order of the pairs.
        """
        i, j = as_tuples("pairs", pairs, "i j")
        is_similar = similar(y, len(i))
        near, far = 0.0, 0.0
        if bounds is not None:
            near, far = as_column("bounds", bounds, 2, per="kind of pair (u, l)", lowest=0.0)
            if near > far:
                raise ValueError(
                    f"bounds must be (u, l) with u <= l, since similar pairs should be nearer than others; got {bounds!r}."
                )
        elif X is None:
            raise TypeError(
                "give bounds=(u, l), the largest squared distance of similar pairs and the smallest one of dissimilar pairs; "
                "or X, to take percentiles of its squared distances."
            )
        rows = cls.sq_distance(i, j, np.where(is_similar, near, far), np.where(is_similar, "<=", ">="), weight=weight)
        if bounds is not None:
            return rows
        return rows._with_percentiles(as_points("X", X), check_percentiles(percentiles), generator(random_state))

    @classmethod
    def from_triplets(
        cls,
        triplets: Labels,
        margin: Values | None = None,
        *,
        X: Points | None = None,
        sample_id: Labels | None = None,
        weight: Values = 1.0,
    ) -> Constraints:
        """Triplets (a, p, n), "a is nearer to p than to n": ``sq_distance(a, p) + margin <= sq_distance(a, n)``.

        Parameters
        ----------
        triplets : array-like of int or sample ids, shape (c, 3)
            Anchor, near one and far one.
        margin : float or array-like, shape (c,), optional
            Squared distance. None: the median squared distance of anchor and near one in ``X``; 0 without X, which requires the
            order only.
        X : array-like or scipy.sparse, shape (n, d), optional
            The points, for a margin that is not given.
        sample_id : array-like, shape (n,), optional
            Names of the rows of X, by default the row numbers; the index of a pandas DataFrame where the triplets have names.
        weight
            As in :meth:`from_pairs`.

        Returns
        -------
        Constraints
            Rows in the order of the triplets.
        """
        a, p, n = as_tuples("triplets", triplets, "a p n")
        members = {"anchor": a, "near": p, "same anchor": a, "far": n}
        rows = cls._named(COMPARISON, members, 0.0 if margin is None else margin, None, weight, is_margin=True)
        return rows if X is None or margin is not None else rows._with_median_margin(X, sample_id)

    @classmethod
    def from_frame(
        cls, frame: Any, *, X: Points | None = None, sample_id: Labels | None = None, random_state: RandomState = 0
    ) -> Constraints:
        """Rows of a data frame: with the columns of :func:`bregmat.io.read_constraints`, or of pairs or triplets.

        Parameters
        ----------
        frame : DataFrame of pandas or polars, or mapping of str to array-like, shape (c,)
            Columns ``relation``, ``i``, ``j``, ``k``, ``l`` as far as the relations have them, ``bound``, ``sense`` and
            optionally ``weight`` (default 1). Without ``relation``: two columns of points, which belong together unless a column
            ``link`` says otherwise (must or cannot, same or different, 1 or -1), or with their ``distance``; or three, anchor, near and
            far. Samples are row numbers where they are numbers, else names.
        X, sample_id, random_state
            The points, their names and a seed, for pairs and triplets without bounds: see :meth:`with_bounds_from`.

        Raises
        ------
        ValueError, TypeError
            No such table, an unknown column or relation, a missing or superfluous cell; with the row. Pairs without bounds, and
            no X.
        """
        found = table_rows(frame_columns(frame), "row {}".format, header="frame", id_type=object)
        return found.bounded(cls(**found.arguments), "frame", X, sample_id, random_state)

    def with_bounds_from(
        self,
        X: Points,
        *,
        sample_id: Labels | None = None,
        percentiles: tuple[float, float] = (5, 95),
        random_state: RandomState = None,
    ) -> Constraints:
        """The same pairs or comparisons with bounds computed from points, in place of the present ones.

        Parameters
        ----------
        X : array-like or scipy.sparse, shape (n, d)
            The points, scaled if the prior scales them.
        sample_id : array-like, shape (n,), optional
            Names of the rows of X, for comparisons; as in :meth:`from_triplets`.
        percentiles, random_state
            For pairs, "<=" and ">=": as in :meth:`from_pairs`. The margin of comparisons is as in :meth:`from_triplets`.

        Raises
        ------
        ValueError
            Rows of another kind, of both kinds, or pairs with "==".
        """
        wanted, rng = check_percentiles(percentiles), generator(random_state)
        if self.where("is_comparison").all():
            return self._with_median_margin(X, sample_id)
        if not self.where("is_sq_distance").all() or (self.sense == 0).any():
            raise ValueError(
                "bounds from points are for pairs with <= and >=, or for comparisons; give others their own."
            )
        return self._with_percentiles(as_points("X", X), wanted, rng)

    def _with_percentiles(self, points: Any, percentiles: tuple[float, float], rng: np.random.Generator) -> Constraints:
        """Pairs with percentiles of the squared distances of points as bounds."""
        near, far = sq_distance_percentiles(points, np.arange(points.shape[0]), percentiles, rng)
        return replace(self, bound=np.where(self.sense > 0, near, far))

    def _with_median_margin(self, X: Any, sample_id: Any) -> Constraints:
        """Comparisons with the median squared distance of anchor and near one as margin."""
        points = as_points("X", X)
        located, kept = self.locate(row_names(X, self, sample_id), points.shape[0])
        if located is None or not kept.all():
            raise ValueError(f"triplets name samples that X does not have: {rows_text(np.flatnonzero(~kept))}.")
        apart = sq_distances(points, located.index[:, 0], located.index[:, 1])
        if not apart.any():
            raise ValueError("triplets: anchor and near one are identical in X everywhere; give a margin.")
        return replace(self, bound=np.full(self.n_constraints, -float(np.median(apart[apart > 0]))))

    def to_frame(self, library: FrameLibrary = "pandas") -> Any:
        """The rows as a data frame, which :meth:`from_frame` reads back exactly.

        Parameters
        ----------
        library : {"pandas", "polars"}

        Returns
        -------
        DataFrame, shape (c, 8)
            Columns relation, i, j, k, l, bound, sense, weight, one row a constraint; the bound of a comparison is minus its
            margin. Rows of :meth:`linear` raise ``ValueError``: matrices have no column form.
        """
        return data_frame(columns_of(self), library, numbered=() if self.ids is not None else SAMPLES)

    # ------------------------------------------------------------------ facts
    def where(self, fact: str) -> np.ndarray:
        """Mask of the rows whose relation has a true attribute of this name, such as ``"is_whole"``."""
        return np.array([bool(getattr(relation, fact)) for relation in self.relations])[self.relation]

    def psd_rows(self) -> np.ndarray:
        """Whether the matrix of each row is positive semidefinite by its relation and samples; boolean, shape (c,)."""
        out = self.where("is_psd")
        for code, relation in enumerate(self.relations):
            if not relation.is_psd and len(rows := np.flatnonzero(self.relation == code)):
                out[rows] = relation.is_psd_for(self.index[rows])
        return out

    def matrix(self, row: int | np.integer) -> Any:
        """The matrix of a row that involves all points, as it was given; None stands for the identity."""
        row = as_row("row", row, self.n_constraints)
        return self.matrices[self.index[row, 0]] if self._relation(row).takes_matrix else None

    def touched(self, n: int) -> np.ndarray | None:
        """Ascending numbers of the samples that rows name, among ``n``; None if a row involves all points."""
        if self.where("is_whole").any():
            return None
        mark = np.zeros(n + 1, dtype=bool)
        mark[self.index] = True  # -1 marks the last entry, which belongs to no sample
        return np.flatnonzero(mark[:n])

    def factors(self, point_weight: np.ndarray) -> np.ndarray:
        """Product of the weights of the distinct samples of each row; 1 for rows that name no samples; shape (c,)."""
        index = np.where(self.where("is_whole")[:, None], -1, self.index)
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
        """Number of rows c."""
        return self.relation.shape[0]

    def __add__(self, other: Constraints) -> Constraints:
        if not isinstance(other, Constraints):
            return NotImplemented
        named = [x for x in (self, other) if not x.where("is_whole").all()]
        if len({x.ids is None for x in named}) > 1:
            raise TypeError(
                "cannot join constraints that name samples by numbers with constraints that name them otherwise."
            )
        tables, ids = [x.ids for x in named if x.ids is not None], None
        indices = [self.index, other.index]
        if tables:
            ids, place = np.unique(np.concatenate(tables), return_inverse=True)
            places = iter(np.split(place, np.cumsum([len(table) for table in tables])))
            indices = [
                x.index if x.where("is_whole").all() else x.renumbered(next(places).__getitem__) for x in (self, other)
            ]
        index = stacked_indices(indices)
        given = np.concatenate([np.zeros(self.n_constraints, bool), other.where("takes_matrix")])
        index[given, 0] += len(self.matrices)
        join = {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("bound", "sense", "weight")
        }
        relations = table_of(*self.relations, *other.relations)
        code = np.array([relations.index(relation) for relation in other.relations], dtype=np.int8)
        relation = np.concatenate([self.relation, code[other.relation]])
        return Constraints(
            relation, index, ids=ids, matrices=self.matrices + other.matrices, relations=relations, **join
        )

    def select(self, mask: Labels) -> Constraints:
        """The rows picked by a boolean mask, slice or integer index, in that order."""
        rows = as_rows("mask", mask, self.n_constraints)
        if len(rows) == 0:
            raise ValueError("select: no constraint is left.")
        index = self.index[rows].copy()
        given = self.where("takes_matrix")[rows]
        matrices = tuple(self.matrices[k] for k in index[given, 0])
        index[given, 0] = np.arange(len(matrices))
        columns = {name: getattr(self, name)[rows] for name in ("relation", "bound", "sense", "weight")}
        return replace(self, index=index, matrices=matrices, **columns)

    def locate(self, sample_id: Labels | None = None, n: int | None = None) -> tuple[Constraints | None, np.ndarray]:
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
            The rows whose samples are all present (None if there are none), named by row numbers.
        kept : ndarray of bool, shape (c,)
        """
        if sample_id is None:
            self.check_range(n)
            return self, np.ones(self.n_constraints, bool)
        names, ids = np.asarray(sample_id), self.ids
        index = self.renumbered(lambda samples: positions(names, samples if ids is None else ids[samples]))
        kept = ~(index == -2).any(axis=1)
        fits = np.array([m.shape[0] == len(names) for m in self.matrices], dtype=bool)
        given = self.where("takes_matrix")
        kept[given] = fits[self.index[given, 0]]
        moved = replace(self, index=index, ids=None)
        return (moved.select(kept) if kept.any() else None), kept

    def renumbered(self, place: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """``index`` with ``place(samples)`` for the samples that rows name."""
        index = self.index.astype(np.int64)
        used = (index >= 0) & ~self.where("is_whole")[:, None]
        index[used] = place(index[used])
        return index

    def check_range(self, n: int | None, data: str = "the data", hint: str = "") -> None:
        """Raise ``ValueError`` unless rows name samples by numbers below ``n`` and have matrices of that size; ``hint`` ends messages."""
        if self.ids is not None:
            raise ValueError(
                f"constraints name samples such as {self.ids[0]!s}; translate them to row numbers first: "
                "constraints.locate(sample_id)[0], or give MetricLearner.fit a sample_id."
            )
        if n is None:
            return
        outside = (self.index >= n).any(axis=1) & ~self.where("is_whole")
        bad = np.flatnonzero(outside)
        if len(bad):
            raise ValueError(
                f"constraints name samples up to {self.index[outside].max()} but {data} has {n} rows (0 to {n - 1}): "
                f"{rows_text(bad)}. {hint}".rstrip()
            )
        for m in self.matrices:
            if m.shape[0] != n:
                raise ValueError(f"a constraint has a {m.shape[0]} x {m.shape[0]} matrix but the data has {n} rows.")

    # ------------------------------------------------------------------ values
    def terms(self) -> Terms:
        """Rank-one terms of all rows that name samples."""
        return Terms.of(self.relations, self.relation, self.index)

    def resolved(self, n: int | None = None) -> ResolvedRows:
        """Terms and facts of the rows, which must name samples by row numbers below ``n``; None: whatever they name."""
        if n is not None:
            self.check_range(n)
        terms = Terms.of(self.relations, self.relation, self.index)
        touched = None if n is None else self.touched(n)
        return ResolvedRows(
            terms, np.flatnonzero(self.where("is_whole")), touched, bool(self.where("is_difference").all())
        )

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
        """Values, and their natural sizes: the sum of the squared norms of the points, or the absolute value of a matrix row."""
        G = as_points("G", G)
        self.check_range(G.shape[0])
        p, size = self.terms().values(G, self.n_constraints)
        for row in np.flatnonzero(self.where("is_whole")):
            p[row], size[row] = whole_value(self.matrix(row), G)
        return p, size

    def violation(self, G: Any) -> np.ndarray:
        """Relative violation of each row, 0 where it holds.

        The unit is ``|bound|`` or, if the bound is 0, the sum of the squared norms of the points of the row.
        """
        p, size = self._evaluate(G)
        excess = np.maximum(excess_of(p, self.bound, self.sense), 0.0)
        unit = np.where(self.bound != 0, np.abs(self.bound), np.where(size > 0, size, 1.0))
        return excess / unit

    def satisfied(self, G: Any, tol: float = 1e-3) -> np.ndarray:
        """Whether each row holds to the relative tolerance ``tol``; boolean, shape (c,)."""
        check_positive("tol", tol, finite=True, zero=True)
        return self.violation(G) <= tol

    def describe(self, row: int | np.integer, sample_id: Labels | None = None) -> str:
        """One row as text, for reports and messages; `sample_id` gives names to row numbers."""
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
