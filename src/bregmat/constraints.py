"""What is wanted of the learned kernel: indices, bound, sense and weight of each row.

Every relation is a signed sum of entries of the kernel ``K``. The sparse ones are written as signed sums of
squared norms of ``z_a + s z_b`` with ``s`` in {-1, 0, +1} (:meth:`Constraints.terms`), so that every operator
built from them has one form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.columns import (
    SENSES,
    LowRankMatrix,
    finite_column,
    float_column,
    index_table,
    must_differ,
    positive_weights,
    rows_text,
    sense_codes,
    symmetric_matrix,
)

RELATIONS = (
    "sq_distance",
    "similarity",
    "comparison",
    "similarity_comparison",
    "diagonal",
    "trace",
    "linear",
)
SQ_DISTANCE, SIMILARITY, COMPARISON, SIMILARITY_COMPARISON, DIAGONAL, TRACE, LINEAR = range(len(RELATIONS))
_SYMBOL = {code: symbol for symbol, code in SENSES.items()}
_NONNEGATIVE = (SQ_DISTANCE, DIAGONAL, TRACE)


@dataclass(frozen=True)
class Terms:
    """Rank-one terms of the sparse rows: row ``row`` gains ``coef * |z_a + sign z_b|^2``."""

    row: np.ndarray
    a: np.ndarray
    b: np.ndarray
    sign: np.ndarray
    coef: np.ndarray


def among(relation: np.ndarray, codes: Sequence[int]) -> np.ndarray:
    """Mask of the rows whose relation is one of the codes."""
    table = np.zeros(len(RELATIONS), dtype=bool)
    table[list(codes)] = True
    return table[relation]


@dataclass(frozen=True, eq=False)
class Constraints:
    """Rows ``<A_i, K> <sense> bound`` on a kernel ``K``; immutable.

    Use the constructors (:meth:`sq_distance`, :meth:`similarity`, ...), join with ``+``, pick with :meth:`select`.

    Attributes
    ----------
    relation : ndarray of int8, shape (c,)
        Position of each row's relation in ``RELATIONS``.
    index : ndarray of int64, shape (c, 4)
        Samples i, j, k, l of each row, -1 where unused: numbers as given, or positions in ``ids``.
    bound : ndarray, shape (c,)
        Right-hand sides; squared distance units for distances and comparisons.
    sense : ndarray of int8, shape (c,)
        +1 for "<=", -1 for ">=", 0 for "==".
    weight : ndarray, shape (c,)
        Multiplies the slack weight of the problem; dimensionless; ``inf`` makes the row hard.
    ids : ndarray or None
        Table of sample names when samples were not named by numbers.
    matrices : tuple
        Matrices of the "linear" rows; ``index[:, 0]`` is the position in it.
    """

    relation: np.ndarray
    index: np.ndarray
    bound: np.ndarray
    sense: np.ndarray
    weight: np.ndarray
    ids: np.ndarray | None = None
    matrices: tuple = field(default=())

    def __post_init__(self) -> None:
        bad = np.flatnonzero(~np.isfinite(self.bound))
        if len(bad):
            raise ValueError(f"bound must be finite; got {self.bound[bad[0]]} in {rows_text(bad)}.")
        negative = among(self.relation, _NONNEGATIVE) & (self.bound < 0)
        bad = np.flatnonzero(negative)
        if len(bad):
            relation = RELATIONS[self.relation[bad[0]]]
            raise ValueError(
                f"bound of a {relation} must be at least 0, since no positive semidefinite matrix has a negative one; "
                f"got {self.bound[bad[0]]} in {rows_text(bad)}."
            )
        for array in (self.relation, self.index, self.bound, self.sense, self.weight):
            array.setflags(write=False)

    # ------------------------------------------------------------------ constructors
    @classmethod
    def _build(
        cls, relation: int, index: np.ndarray, ids: Any, bound: Any, sense: Any, weight: Any, matrices: tuple = ()
    ) -> Constraints:
        c = len(index)
        if c == 0:
            raise ValueError("constraints are empty; give at least one row.")
        return cls(
            np.full(c, relation, dtype=np.int8),
            index,
            float_column("bound", bound, c),
            sense_codes(sense, c),
            positive_weights(weight, c),
            ids,
            matrices,
        )

    @classmethod
    def sq_distance(cls, i: Any, j: Any, bound: Any, sense: Any, *, weight: Any = 1.0) -> Constraints:
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
        index, ids = index_table({"i": i, "j": j})
        must_differ(index, 0, 1, "i and j")
        return cls._build(SQ_DISTANCE, index, ids, bound, sense, weight)

    @classmethod
    def similarity(cls, i: Any, j: Any, bound: Any, sense: Any, *, weight: Any = 1.0) -> Constraints:
        """``K_ij <sense> bound`` (Kulis 2009, section 6.2.2). Parameters as in :meth:`sq_distance`; bounds may be negative."""
        index, ids = index_table({"i": i, "j": j})
        return cls._build(SIMILARITY, index, ids, bound, sense, weight)

    @classmethod
    def comparison(cls, i: Any, j: Any, k: Any, l: Any, margin: Any = 0.0, *, weight: Any = 1.0) -> Constraints:
        """``sq_dist(i, j) + margin <= sq_dist(k, l)``; margin in squared distance units (Kulis 2009, section 6.2.2)."""
        index, ids = index_table({"i": i, "j": j, "k": k, "l": l})
        must_differ(index, 0, 1, "i and j")
        must_differ(index, 2, 3, "k and l")
        bad = np.flatnonzero((np.sort(index[:, :2], axis=1) == np.sort(index[:, 2:], axis=1)).all(axis=1))
        if len(bad):
            raise ValueError(f"(i, j) and (k, l) must be different pairs; they are equal in {rows_text(bad)}.")
        return cls._build(COMPARISON, index, ids, -finite_column("margin", margin, len(index)), "<=", weight)

    @classmethod
    def similarity_comparison(
        cls, j: Any, k: Any, l: Any, m: Any, margin: Any = 0.0, *, weight: Any = 1.0
    ) -> Constraints:
        """``K_jk + margin <= K_lm``; margin in kernel units (Kulis 2009, section 6.2.2)."""
        index, ids = index_table({"j": j, "k": k, "l": l, "m": m})
        bad = np.flatnonzero((np.sort(index[:, :2], axis=1) == np.sort(index[:, 2:], axis=1)).all(axis=1))
        if len(bad):
            raise ValueError(f"(j, k) and (l, m) must be different pairs; they are equal in {rows_text(bad)}.")
        return cls._build(SIMILARITY_COMPARISON, index, ids, -finite_column("margin", margin, len(index)), "<=", weight)

    @classmethod
    def diagonal(cls, values: Any, index: Any = None, *, weight: Any = 1.0) -> Constraints:
        """``K_ii == values``; ``index`` names the samples, by default 0, 1, 2, ..."""
        values = np.atleast_1d(np.asarray(values, dtype=float))
        positions, ids = index_table({"index": np.arange(len(values)) if index is None else index})
        return cls._build(DIAGONAL, positions, ids, values, "==", weight)

    @classmethod
    def trace(cls, value: float, *, weight: float = 1.0) -> Constraints:
        """``tr K == value``, the sum over all rows of the data."""
        return cls._build(TRACE, np.full((1, 4), -1, dtype=np.int64), None, value, "==", weight)

    @classmethod
    def linear(cls, matrices: Any, bound: Any, sense: Any, *, weight: Any = 1.0) -> Constraints:
        """``tr(K C) <sense> bound`` for symmetric ``C``; samples are row numbers here.

        Parameters
        ----------
        matrices : array-like, shape (c, n, n), or sequence
            Dense matrices, or a list of scipy.sparse matrices or pairs ``(vectors, weights)`` that stand for
            ``vectors @ diag(weights) @ vectors.T`` with vectors (n, k).
        bound, sense, weight
            As in :meth:`sq_distance`; bounds may be negative.
        """
        parsed = tuple(symmetric_matrix(m, row) for row, m in enumerate(matrices))
        sizes = {m.shape[0] for m in parsed}
        if len(sizes) > 1:
            raise ValueError(f"matrices must all have the same size; got {sorted(sizes)}.")
        index = np.full((len(parsed), 4), -1, dtype=np.int64)
        index[:, 0] = np.arange(len(parsed))
        return cls._build(LINEAR, index, None, bound, sense, weight, parsed)

    # ------------------------------------------------------------------ algebra
    @property
    def n_constraints(self) -> int:
        """Number of rows c."""
        return self.relation.shape[0]

    def __add__(self, other: Constraints) -> Constraints:
        if not isinstance(other, Constraints):
            return NotImplemented
        named = [x for x in (self, other) if x._uses_samples()]
        if len({x.ids is None for x in named}) > 1:
            raise TypeError(
                "cannot join constraints that name samples by numbers with constraints that name them otherwise."
            )
        ids, index = None, np.concatenate([self.index, other.index])
        if any(x.ids is not None for x in named):
            ids, inverse = np.unique(np.concatenate([x.ids for x in named]), return_inverse=True)
            parts, start = [], 0
            for x in (self, other):
                part = x.index.copy()
                if x.ids is not None:
                    table = inverse[start : start + len(x.ids)]
                    start += len(x.ids)
                    used = (part >= 0) & ~among(x.relation, (TRACE, LINEAR))[:, None]
                    part[used] = table[part[used]]
                parts.append(part)
            index = np.concatenate(parts)
        linear = np.concatenate([np.zeros(self.n_constraints, bool), other.relation == LINEAR])
        index[linear, 0] += len(self.matrices)
        join = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("relation", "bound", "sense", "weight")
        }
        return Constraints(index=index, ids=ids, matrices=self.matrices + other.matrices, **join)

    def select(self, mask: Any) -> Constraints:
        """The rows picked by a boolean mask, slice or integer index, in that order."""
        rows = np.atleast_1d(np.arange(self.n_constraints)[mask])
        if len(rows) == 0:
            raise ValueError("select: no constraint is left.")
        index = self.index[rows].copy()
        linear = self.relation[rows] == LINEAR
        matrices = tuple(self.matrices[k] for k in index[linear, 0])
        index[linear, 0] = np.arange(len(matrices))
        return Constraints(
            self.relation[rows], index, self.bound[rows], self.sense[rows], self.weight[rows], self.ids, matrices
        )

    def locate(self, sample_id: Any = None, n: int | None = None) -> tuple[Constraints | None, np.ndarray]:
        """Translate sample names to row numbers of the data at hand.

        Parameters
        ----------
        sample_id : array-like, shape (n,), optional
            Name of each data row; by default the row numbers.
        n : int, optional
            Number of data rows, when ``sample_id`` is None.

        Returns
        -------
        located : Constraints or None
            The rows whose samples are all present (None if there are none), named by row numbers.
        kept : ndarray of bool, shape (c,)
        """
        sparse = ~among(self.relation, (TRACE, LINEAR))
        if sample_id is None:
            if self.ids is not None:
                raise ValueError(
                    f"constraints name samples such as {self.ids[0]!s}; translate them to row numbers first: "
                    "constraints.locate(sample_id)[0], or give MetricLearner.fit a sample_id."
                )
            self.check_range(n)
            return self, np.ones(self.n_constraints, bool)
        names = np.asarray(sample_id)
        if names.ndim != 1:
            raise ValueError(f"sample_id must be 1-dimensional; got shape {names.shape}.")
        order = np.argsort(names, kind="stable")
        ordered = names[order]
        repeated = np.flatnonzero(ordered[1:] == ordered[:-1])
        if len(repeated):
            raise ValueError(f"sample_id must be unique; {ordered[repeated[0]]!r} occurs more than once.")
        index = self.index.copy()
        wanted = self.index[sparse]
        used = wanted >= 0
        keys = wanted[used] if self.ids is None else self.ids[wanted[used]]
        kinds = {"i": "numbers", "u": "numbers", "f": "numbers"}
        ours, theirs = (kinds.get(a.dtype.kind, "names") for a in (np.asarray(keys), names))
        if len(keys) and len(names) and ours != theirs:
            raise TypeError(
                f"sample_id holds {theirs} such as {names[0]!s} but the constraints name samples by {ours} "
                f"such as {keys[0]!s}; use one kind."
            )
        place = np.searchsorted(ordered, keys)
        place = np.minimum(place, max(len(ordered) - 1, 0))
        found = ordered[place] == keys if len(ordered) else np.zeros(len(keys), bool)
        wanted[used] = np.where(found, order[place] if len(ordered) else 0, -2)
        index[sparse] = wanted
        kept = ~(index == -2).any(axis=1)
        sizes = np.array([m.shape[0] == len(names) for m in self.matrices], dtype=bool)
        linear = self.relation == LINEAR
        kept[linear] = sizes[self.index[linear, 0]]
        moved = replace(self, index=index, ids=None)
        return (moved.select(kept) if kept.any() else None), kept

    def check_range(self, n: int | None) -> None:
        """Raise ``ValueError`` if a row number is not below ``n`` or a matrix has another size."""
        if n is None:
            return
        sparse = ~among(self.relation, (TRACE, LINEAR))
        bad = np.flatnonzero((self.index >= n).any(axis=1) & sparse)
        if len(bad):
            raise ValueError(
                f"constraints name samples up to {self.index[sparse].max()} but the data has {n} rows (0 to {n - 1}): {rows_text(bad)}."
            )
        for m in self.matrices:
            if m.shape[0] != n:
                raise ValueError(
                    f"a linear constraint has a {m.shape[0]} x {m.shape[0]} matrix but the data has {n} rows."
                )

    # ------------------------------------------------------------------ what the rows mean
    def terms(self) -> Terms:
        """Rank-one terms of all rows but trace and linear (those have none here)."""
        one, quarter = 1.0, 0.25
        pieces = []

        def add(code: int, first: int, second: int, sign: int, coef: float) -> None:
            rows = np.flatnonzero(self.relation == code)
            if len(rows):
                a = self.index[rows, first]
                b = self.index[rows, second]
                pieces.append((rows, a, b, np.full(len(rows), sign, np.int8), np.full(len(rows), coef)))

        add(SQ_DISTANCE, 0, 1, -1, one)
        add(DIAGONAL, 0, 0, 0, one)
        add(COMPARISON, 0, 1, -1, one)
        add(COMPARISON, 2, 3, -1, -one)
        for code, first, second, sign in (
            (SIMILARITY, 0, 1, 1),
            (SIMILARITY_COMPARISON, 0, 1, 1),
            (SIMILARITY_COMPARISON, 2, 3, -1),
        ):  # K_ab = (|z_a + z_b|^2 - |z_a - z_b|^2) / 4
            add(code, first, second, 1, sign * quarter)
            add(code, first, second, -1, -sign * quarter)
        if not pieces:
            empty = np.zeros(0, np.int64)
            return Terms(empty, empty, empty, empty.astype(np.int8), np.zeros(0))
        columns = [np.concatenate(x) for x in zip(*pieces, strict=True)]
        if (np.diff(columns[0]) < 0).any():
            order = np.argsort(columns[0], kind="stable")
            columns = [x[order] for x in columns]
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
        """Values, and as their natural sizes the squared norms of the points (or the absolute value, where a matrix is given)."""
        G = G if scipy.sparse.issparse(G) else np.asarray(G, dtype=float)
        if G.ndim != 2:
            raise ValueError(f"G must be 2-dimensional, one point per row; got shape {G.shape}.")
        if self.ids is not None:
            raise ValueError("constraints name samples by ids; translate them first: constraints.locate(sample_id)[0].")
        self.check_range(G.shape[0])
        p, size = np.zeros(self.n_constraints), np.zeros(self.n_constraints)
        t = self.terms()
        lengths = _row_dot(G, G)
        block = max(64, 2**22 // max(1, G.shape[1]))  # 32 MB of differences at a time
        for start in range(0, len(t.row), block):
            part = slice(start, start + block)
            v = G[t.a[part]] + _scaled_rows(G[t.b[part]], t.sign[part])
            np.add.at(p, t.row[part], t.coef[part] * _row_dot(v, v))
        np.add.at(size, t.row, np.abs(t.coef) * (lengths[t.a] + np.where(t.sign == 0, 0.0, lengths[t.b])))
        for row in np.flatnonzero(self.relation == TRACE):
            p[row] = size[row] = float(lengths.sum())
        for row in np.flatnonzero(self.relation == LINEAR):
            C = self.matrices[self.index[row, 0]]
            if isinstance(C, LowRankMatrix):
                q = np.asarray(G.T @ C.vectors)
                p[row] = float((q * q).sum(axis=0) @ C.weights)
            else:
                p[row] = float(_row_dot(G, scipy.sparse.csr_array(C) @ G if scipy.sparse.issparse(G) else C @ G).sum())
            size[row] = abs(p[row])
        return p, size

    def violation(self, G: Any) -> np.ndarray:
        """Relative violation of each row, 0 where it holds.

        The unit is ``|bound|``; where the bound is 0, the sum of the squared norms of the points of the row.
        """
        p, size = self._evaluate(G)
        excess = np.where(self.sense == 0, np.abs(p - self.bound), np.maximum(self.sense * (p - self.bound), 0.0))
        unit = np.where(self.bound != 0, np.abs(self.bound), np.where(size > 0, size, 1.0))
        return excess / unit

    def satisfied(self, G: Any, tol: float = 1e-3) -> np.ndarray:
        """Whether each row holds to the relative tolerance ``tol``; boolean, shape (c,)."""
        return self.violation(G) <= tol

    def _uses_samples(self) -> bool:
        return bool((~among(self.relation, (TRACE, LINEAR))).any())

    def describe(self, row: int) -> str:
        """One row in words, for reports and messages."""
        relation, bound = int(self.relation[row]), self.bound[row]
        named = self.ids is not None and relation not in (TRACE, LINEAR)
        name = [self.ids[k] if named and self.ids is not None and k >= 0 else k for k in self.index[row]]
        symbol = _SYMBOL[int(self.sense[row])]
        if relation == COMPARISON:
            return _comparison("sq_dist({}, {})", name, -bound)
        if relation == SIMILARITY_COMPARISON:
            return _comparison("K({}, {})", name, -bound)
        left = {
            SQ_DISTANCE: f"sq_dist({name[0]}, {name[1]})",
            SIMILARITY: f"K({name[0]}, {name[1]})",
            DIAGONAL: f"K({name[0]}, {name[0]})",
            TRACE: "tr K",
            LINEAR: f"tr(K C_{name[0]})",
        }[relation]
        return f"{left} {symbol} {bound:.6g}"

    def __repr__(self) -> str:
        counts = np.bincount(self.relation, minlength=len(RELATIONS))
        parts = ", ".join(f"{n} {RELATIONS[k]}" for k, n in enumerate(counts) if n)
        hard = int(np.isinf(self.weight).sum())
        return f"Constraints({parts}{f'; {hard} hard' if hard else ''})"


def _comparison(form: str, name: list, margin: float) -> str:
    """A comparison in words, with the margin on the side where it is positive."""
    left, right = form.format(*name[:2]), form.format(*name[2:])
    if margin > 0:
        return f"{left} + {margin:.6g} <= {right}"
    return f"{left} <= {right}" + (f" + {-margin:.6g}" if margin else "")


def _row_dot(A: Any, B: Any) -> np.ndarray:
    """Inner products of the rows of two matrices, dense or both sparse."""
    if scipy.sparse.issparse(A):
        return np.asarray(A.multiply(B).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, B)


def _scaled_rows(rows: Any, sign: np.ndarray) -> Any:
    return rows.multiply(sign[:, None].astype(float)).tocsr() if scipy.sparse.issparse(rows) else rows * sign[:, None]
