"""The constructors of :class:`bregmat.Constraints`: from samples, matrices, pairs, triplets and data frames.

The class has each of them as a class method, and :func:`with_bounds_from` as a method.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bregmat.base.checks import as_column, as_matrix, as_numbers, as_percentiles, generator, rows_text
from bregmat.base.points import as_points, row_names
from bregmat.base.sampling import sq_distance_percentiles, sq_distances
from bregmat.constraints.columns import as_tuples, index_table, sense_codes, similar, symmetric_matrix
from bregmat.constraints.relations import (
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
)
from bregmat.constraints.tables import frame_columns, table_rows
from bregmat.typing import Labels, Matrices, Points, RandomState, Senses, Table, Values

if TYPE_CHECKING:  # which imports this module
    from bregmat.constraints.constraints import Constraints

_HARD = " (inf makes a constraint hard; leave out constraints that should not count)"


def _build(
    cls: type[Constraints],
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
        raise ValueError("constraints are empty; give at least one.")
    bound = relation.bound if bound is None else bound
    sense = relation.sense if sense is None else sense
    bound = as_column("bound", bound, c, per="constraint", scalar=True)
    senses = sense_codes(sense, c)
    weight = as_column("weight", weight, c, per="constraint", scalar=True, infinite=True, positive=True, hint=_HARD)
    return cls.of_columns(relation, index, bound, senses, weight, ids, matrices)


def _named(
    cls: type[Constraints],
    relation: Relation,
    samples: dict[str, Any],
    bound: Any,
    sense: Any,
    weight: Any,
    is_margin: bool = False,
) -> Constraints:
    """Rows of a relation between samples, given under the names of their arguments; a margin is minus the bound."""
    index, ids = index_table(samples)
    for same, demand, _ in relation.clashes(index, list(samples)):
        if same.any():
            raise ValueError(f"{demand}; they are equal in {rows_text(np.flatnonzero(same), 'constraint')}.")
    bound = -as_column("margin", bound, len(index), per="constraint", scalar=True) if is_margin else bound
    return _build(cls, relation, index, ids, bound, sense, weight)


def of(
    cls: type[Constraints],
    relation: str | Relation,
    *samples: Labels,
    bound: Values | None = None,
    sense: Senses | None = None,
    weight: Values = 1.0,
) -> Constraints:
    """Constraints of any relation, by its name or as a :class:`bregmat.Relation` of your own.

    Parameters
    ----------
    relation : str or Relation
        One that is registered, or an object.
    *samples : array-like of int or sample ids, shape (c,)
        The samples i, j, k, l of each constraint, as many as the relation names.
    bound : float or array-like, shape (c,)
        In the unit of the relation. None: the relation's own, if it has one.
    sense : {"<=", ">=", "=="} or one per constraint
        None: the relation's own, if it has one.
    weight
        As in :meth:`sq_distance`.
    """
    kind: Relation = RELATIONS.resolve(relation)
    if kind.takes_matrix:
        raise TypeError(f"constraints of the relation {kind.name!r} are given by matrices: use Constraints.linear.")
    if len(samples) != kind.arity:
        raise TypeError(f"{kind.name} names {kind.arity} samples; got {len(samples)}.")
    if kind.is_whole:
        return _build(cls, kind, np.full((1 if bound is None else np.size(bound), 1), -1), None, bound, sense, weight)
    return _named(cls, kind, dict(zip(SAMPLES, samples)), bound, sense, weight)


def sq_distance(
    cls: type[Constraints], i: Labels, j: Labels, bound: Values, sense: Senses, *, weight: Values = 1.0
) -> Constraints:
    """``K_ii + K_jj - 2 K_ij <sense> bound``: a *squared* distance (Kulis 2009, section 3.2).

    Parameters
    ----------
    i, j : array-like of int or sample ids, shape (c,)
        The two samples of each constraint; they must differ.
    bound : float or array-like, shape (c,)
        Squared distance, at least 0.
    sense : {"<=", ">=", "=="} or one per constraint
    weight : float or array-like, shape (c,)
        Multiplies the slack weight; dimensionless, positive; ``inf`` is hard.
    """
    return _named(cls, SQ_DISTANCE, {"i": i, "j": j}, bound, sense, weight)


def similarity(
    cls: type[Constraints], i: Labels, j: Labels, bound: Values, sense: Senses, *, weight: Values = 1.0
) -> Constraints:
    """``K_ij <sense> bound`` (Kulis 2009, section 6.2.2).

    Parameters
    ----------
    i, j, bound, sense, weight
        As in :meth:`sq_distance`; the samples may be the same, bounds may be negative.
    """
    return _named(cls, SIMILARITY, {"i": i, "j": j}, bound, sense, weight)


def comparison(
    cls: type[Constraints], i: Labels, j: Labels, k: Labels, l: Labels, margin: Values = 0.0, *, weight: Values = 1.0
) -> Constraints:
    """``sq_dist(i, j) + margin <= sq_dist(k, l)`` (Kulis 2009, section 6.2.2).

    Parameters
    ----------
    i, j, k, l, weight
        As in :meth:`sq_distance`.
    margin : float or array-like, shape (c,)
        Squared distance.
    """
    return _named(cls, COMPARISON, {"i": i, "j": j, "k": k, "l": l}, margin, None, weight, is_margin=True)


def similarity_comparison(
    cls: type[Constraints], j: Labels, k: Labels, l: Labels, m: Labels, margin: Values = 0.0, *, weight: Values = 1.0
) -> Constraints:
    """``K_jk + margin <= K_lm`` (Kulis 2009, section 6.2.2).

    Parameters
    ----------
    j, k, l, m, weight
        As in :meth:`sq_distance`.
    margin : float or array-like, shape (c,)
        In units of the kernel.
    """
    return _named(cls, SIMILARITY_COMPARISON, {"j": j, "k": k, "l": l, "m": m}, margin, None, weight, is_margin=True)


def diagonal(
    cls: type[Constraints], values: Values, index: Labels | None = None, *, weight: Values = 1.0
) -> Constraints:
    """``K_ii == values``; ``index`` names the samples, by default 0, 1, 2, ..."""
    values = np.atleast_1d(as_numbers("values", values))
    index = np.arange(len(values)) if index is None else index
    return _named(cls, DIAGONAL, {"index": index}, values, None, weight)


def entries(cls: type[Constraints], C: Table, *, weight: float = 1.0) -> Constraints:
    """``K_ij == C_ij`` for every known entry of a symmetric table; NaN stands for an unknown entry.

    ``nearest_kernel(np.eye(n), Constraints.entries(C))`` is the completion of a correlation matrix with the largest determinant.

    Examples
    --------
    >>> import numpy as np
    >>> from bregmat import Constraints, nearest_kernel
    >>> C = np.array([[1.0, 0.5, np.nan], [0.5, 1.0, 0.5], [np.nan, 0.5, 1.0]])
    >>> nearest_kernel(np.eye(3), Constraints.entries(C)).kernel().round(4)
    array([[1.  , 0.5 , 0.25],
           [0.5 , 1.  , 0.5 ],
           [0.25, 0.5 , 1.  ]])
    """
    known = ~np.isnan(as_numbers("C", C))
    A: np.ndarray = as_matrix("C", np.where(known, C, 0.0), square=True)
    if (known != known.T).any():
        i, j = np.argwhere(known != known.T)[0]
        raise ValueError(f"C must be symmetric; only one of [{i}, {j}] and [{j}, {i}] is NaN.")
    A = as_matrix("C", A, symmetric=True)
    diagonal = np.flatnonzero(np.diag(known))
    i, j = np.nonzero(np.triu(known, 1))
    rows = cls.diagonal(A[diagonal, diagonal], diagonal, weight=weight)
    return rows + cls.similarity(i, j, A[i, j], "==", weight=weight) if len(i) else rows


def trace(cls: type[Constraints], value: float, *, weight: float = 1.0) -> Constraints:
    """``tr K == value``, the sum over all rows of the data."""
    return cls.of(TRACE, bound=as_column("value", [value], 1), weight=weight)


def linear(
    cls: type[Constraints], matrices: Matrices, bound: Values, sense: Senses, *, weight: Values = 1.0
) -> Constraints:
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
    return _build(cls, LINEAR, np.arange(len(parsed))[:, None], None, bound, sense, weight, parsed)


# ---------------------------------------------------------------------- from pairs, triplets and tables
def from_pairs(
    cls: type[Constraints],
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
    weight
        As in :meth:`sq_distance`.
    random_state : int, Generator, RandomState or None
        Seed of the pairs whose distances are looked at.

    Returns
    -------
    Constraints
        Constraints in the order of the pairs.
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
    sense = np.where(is_similar, "<=", ">=")
    rows = cls.sq_distance(i, j, np.where(is_similar, near, far), sense, weight=weight)
    return rows if bounds is not None else rows.with_bounds_from(X, percentiles=percentiles, random_state=random_state)


def from_triplets(
    cls: type[Constraints],
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
        As in :meth:`sq_distance`.

    Returns
    -------
    Constraints
        Constraints in the order of the triplets.
    """
    a, p, n = as_tuples("triplets", triplets, "a p n")
    members = {"anchor": a, "near": p, "same anchor": a, "far": n}
    rows = _named(cls, COMPARISON, members, 0.0 if margin is None else margin, None, weight, is_margin=True)
    return rows if X is None or margin is not None else rows.with_bounds_from(X, sample_id=sample_id)


def from_frame(
    cls: type[Constraints],
    frame: Any,
    *,
    scores: str | None = None,
    X: Points | None = None,
    sample_id: Labels | None = None,
    random_state: RandomState = None,
) -> Constraints:
    """Constraints in a data frame, with the columns of :func:`bregmat.io.read_constraints`, or of pairs or triplets.

    Parameters
    ----------
    frame : DataFrame of pandas or polars, or mapping of str to array-like, shape (c,)
        Columns ``relation``, ``i``, ``j``, ``k``, ``l`` as far as the relations have them, ``bound``, ``sense`` and
        optionally ``weight`` (default 1). Without ``relation``: two columns of points, which belong together unless a column
        ``link`` says otherwise (must or cannot, same or different, 1 or -1), or with a score, ``similarity`` or
        ``dissimilarity``; or three, ``anchor``, ``near`` and ``far``. Three columns of words are triplets
        whatever their names are. Samples are row numbers where they are numbers, else names.
    scores : {None, "similarity", "distance"}
        The last column holds scores of pairs, such as ratings from 1 to 7: "similarity" if a higher score means nearer, "distance" if
        it means farther. The 5th percentile of the points' distances bounds the pairs with the nearest score from above, the 95th
        those with the farthest from below, and the others have targets that are linear in the score.
    X, sample_id, random_state
        The points, their names and a seed, for pairs and triplets without bounds: see :meth:`with_bounds_from`.

    Raises
    ------
    ValueError, TypeError
        No such table, an unknown column or relation, a missing or superfluous cell; the message names the row. Three columns with
        numbers whose names do not say what they hold. Pairs without bounds, and no X.

    Warns
    -----
    UserWarning
        Triplets that name a point twice, such as attention checks, are left out.
    """
    table = table_rows(cls, frame_columns(frame), "row {}".format, header="frame", id_type=object, scores=scores)
    return table.bounded(X, sample_id, random_state)


def with_bounds_from(
    self: Constraints,
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
        Constraints of another kind, of both kinds, or pairs with "==".
    """
    wanted, rng, points = as_percentiles(percentiles), generator(random_state), as_points("X", X)
    if self.where("is_comparison").all():
        located, kept = self.locate(row_names(X, self, sample_id), points.shape[0])
        if located is None or not kept.all():
            raise ValueError(f"triplets name samples that X does not have: {rows_text(np.flatnonzero(~kept))}.")
        apart = sq_distances(points, located.index[:, 0], located.index[:, 1])
        if not apart.any():
            raise ValueError("triplets: anchor and near one are identical in X everywhere; give a margin.")
        return replace(self, bound=np.full(self.n_constraints, -float(np.median(apart[apart > 0]))))
    if not self.where("is_sq_distance").all() or (self.sense == 0).any():
        raise ValueError("bounds from points are for pairs with <= and >=, or for comparisons; give others their own.")
    near, far = sq_distance_percentiles(points, np.arange(points.shape[0]), wanted, rng)
    return replace(self, bound=np.where(self.sense > 0, near, far))
