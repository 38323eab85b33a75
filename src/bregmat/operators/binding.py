"""Constraints bound to the rows Z of their points: which form of operator each relation becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.linalg import sq_norms
from bregmat.constraints.columns import LowRankMatrix, distinct
from bregmat.constraints.constraints import Constraints
from bregmat.constraints.terms import Terms
from bregmat.operators.compound import SignedSums, Stacked
from bregmat.operators.linear_maps import VANISHING, MatrixRows, Operator, RankOneRows
from bregmat.operators.pair_graph import PairGraph

TURNED = 1e-14  # what rounding turns eigenvectors by, relative to their eigenvalue over the largest


@dataclass(frozen=True, eq=False)
class Rounding:
    """By how much the entries of points (n, r) may be off; **the one judge** of rows that vanish, whatever their form.

    Each entry of a vector or matrix made of points is judged against the sizes of what it is the sum of, in its own column: a
    column's unit changes nothing. A row all of whose entries may be rounding is exactly 0; its bound decides what that means.

    Attributes
    ----------
    column : ndarray, shape (r,)
        Largest entry of every column.
    length : ndarray, shape (n,)
        Length of every point.
    reach : ndarray, shape (n,)
    floor : ndarray, shape (r,)
        ``reach_j floor_k`` is the error of entry (j, k) where coordinates were computed from a prior; 0 where they are data.
    is_exact : bool
        Whether the points are data as they were given.
    """

    column: np.ndarray
    length: np.ndarray
    reach: np.ndarray
    floor: np.ndarray
    is_exact: bool

    @classmethod
    def of(cls, made: np.ndarray, floor: np.ndarray | None = None, reach: np.ndarray | None = None) -> Rounding:
        """From what the entries are the sums of (n, r), absolute; ``floor`` is None for data as it was given."""
        n, r = made.shape
        return cls(
            made.max(axis=0, initial=0.0),
            np.sqrt(sq_norms(made)),
            np.ones(n) if reach is None else reach,
            np.zeros(r) if floor is None else floor,
            floor is None,
        )

    @property
    def lengths(self) -> np.ndarray:
        """At least the length of every point's error, shape (n,)."""
        largest = np.minimum(self.column.max(initial=0.0), self.length)
        return np.sqrt(len(self.column)) * (VANISHING * largest + self.reach * self.floor.max(initial=0.0))

    def sizes(self, points: np.ndarray | slice = slice(None)) -> np.ndarray:
        """What the entries of some points may be the rounding of."""
        return np.minimum(self.column, self.length[points][..., None])

    def of_points(self, points: np.ndarray) -> np.ndarray:
        """Largest error of every entry of some points."""
        return np.maximum(VANISHING * self.sizes(points), self.reach[points][..., None] * self.floor)

    def of_sums(self, weights: np.ndarray) -> np.ndarray:
        """Largest error of every entry of ``weights' Z``, for weights (n, k)."""
        spread = np.sqrt((weights * weights).T @ self.reach**2)
        return VANISHING * (np.abs(weights).T @ self.sizes()) + spread[:, None] * self.floor

    def of_congruence(self, C: Any, Z: np.ndarray) -> np.ndarray:
        """Largest error of every entry of ``Z' C Z``."""
        S = np.abs(Z) if self.is_exact else self.sizes()
        C = abs(C)
        out = VANISHING * (S.T @ (C @ S))
        if self.floor.any():
            moved = C @ self.reach
            cross = np.multiply.outer(self.floor, S.T @ moved)
            out += cross + cross.T + np.multiply.outer(self.floor, self.floor) * float(self.reach @ moved)
        return out

    def of_pairs(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Largest error of every entry of sums or differences of two points."""
        return self.of_points(a) + self.of_points(b)

    def vanishing(
        self, vectors: Callable[[np.ndarray], np.ndarray], squares: np.ndarray, a: np.ndarray, b: np.ndarray
    ) -> np.ndarray:
        """Which sums or differences of the points a and b may be rounding.

        Parameters
        ----------
        vectors : callable
            Numbers of some of them -> their entries (k, r).
        squares : ndarray, shape (c,)
            Their squared lengths.
        a, b : ndarray of int, shape (c,)
        """
        norms = self.lengths
        small = np.flatnonzero(squares <= np.minimum((norms[a] + norms[b]) ** 2, 1e300))
        parts = np.array_split(small, 1 + len(small) * len(self.column) // 2**22)
        return np.concatenate([k[_is_rounding(vectors(k), self.of_pairs(a[k], b[k]))] for k in parts])


def _is_rounding(A: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Whether all entries along the last axis may be rounding; an infinite one is not."""
    return (np.abs(A) <= np.minimum(error, 1e300)).all(axis=-1)


def _terms_operator(
    t: Terms, Z: np.ndarray, a: np.ndarray, b: np.ndarray, rounding: Rounding
) -> RankOneRows | PairGraph:
    """Terms on the points a and b of Z: as pairs where they outnumber the points, otherwise as their vectors; 0 where it is rounding."""
    op: RankOneRows | PairGraph
    if len(a) > len(Z) and len(a) * Z.shape[1] > 30_000:
        op = PairGraph(Z, a, b, t.sign)
    else:
        op = RankOneRows(np.ascontiguousarray(Z[a] + Z[b] * t.sign[:, None]))
    zero = rounding.vanishing(op.vectors, op.values_diagonal(None), a, np.where(t.sign == 0, a, b))
    if isinstance(op, RankOneRows):
        op.V[zero] = 0.0
    elif len(zero):
        b, sign = b.copy(), t.sign.copy()
        b[zero], sign[zero] = a[zero], -1
        op = PairGraph(Z, a, b, sign)
    return op


@dataclass(frozen=True, eq=False)
class _Errors:
    """Errors of the vectors of terms."""

    of: Callable[[np.ndarray], np.ndarray]  # terms -> largest error of every entry, shape (..., r)
    lengths: np.ndarray  # at least the length of every term's error, (n_terms,); entries cost r times as much


def _signed_sums(base: RankOneRows | PairGraph, P: scipy.sparse.csr_array, errors: _Errors | None) -> SignedSums:
    """Signed sums of terms; those that cancel up to rounding, such as a similarity with the origin, are exactly 0.

    Parameters
    ----------
    base : RankOneRows or PairGraph
        Of the terms.
    P : scipy.sparse.csr_array, shape (c, n_terms)
        Coefficients.
    errors : _Errors or None
        None where they are a share of the entry itself.
    """
    P.sum_duplicates()
    sums = SignedSums(base, P)
    gone = np.zeros(sums.c, dtype=bool)
    for part, place in sums.blocks():
        terms, coef = P.indices[place], P.data[place]
        V, size = base.vectors(terms), np.abs(coef)
        G = V @ V.transpose(0, 2, 1)
        square = np.einsum("is,ist,it->i", coef, G * G, coef)  # squared Frobenius norms, but for rounding
        v = np.sqrt(np.einsum("isk,isk->is", V, V))
        d = np.zeros_like(v) if errors is None else errors.lengths[terms]
        natural = np.einsum("is,is->i", size, v * v)
        off = np.einsum("is,is->i", size, d * (2.0 * v + d))
        small = np.flatnonzero(square <= 1e-12 * natural**2 + 4.0 * off**2)
        for some in np.array_split(small, 1 + len(small) * sums.r**2 // 2**22):
            if not len(some):
                continue
            W, scale = np.abs(V[some]), size[some][:, None, :]
            E = np.zeros_like(W) if errors is None else errors.of(terms[some])
            left, right = W.transpose(0, 2, 1) * scale, E.transpose(0, 2, 1) * scale
            cross = right @ W
            noise = VANISHING * (left @ W) + cross + cross.transpose(0, 2, 1) + right @ E
            A = (V[some].transpose(0, 2, 1) * coef[some][:, None, :]) @ V[some]
            gone[part[some]] = _is_rounding(A, noise).all(axis=-1)
    if gone.any():
        P.data[np.repeat(gone, np.diff(P.indptr))] = 0.0
        P.eliminate_zeros()
    return sums


def bind(
    constraints: Constraints,
    Z: np.ndarray | None,
    rows: np.ndarray | None = None,
    rounding: Rounding | None = None,
    vectors: np.ndarray | None = None,
) -> Operator:
    """Bind constraints to the rows Z of their points.

    Parameters
    ----------
    constraints : Constraints
        In row numbers of the data.
    Z : ndarray, shape (n_touched, r), or None
        Coordinates of the touched points.
    rows : ndarray of int, shape (n_touched,), optional
        Ascending row numbers that Z holds; by default all of them.
    rounding : Rounding, optional
        By how much Z may be off; by default it counts as data.
    vectors : ndarray, shape (n_terms, r), optional
        The vectors of ``constraints.terms()`` themselves, in place of Z.
    """
    parts: list[tuple[np.ndarray, Operator]] = []
    t = constraints.terms()
    if rounding is None and Z is not None:
        rounding = Rounding.of(np.abs(Z))
    if len(t.row):
        errors = None
        if vectors is not None:
            plain: RankOneRows | PairGraph = RankOneRows(vectors)
        else:
            assert Z is not None and rounding is not None
            a, b = _places(t, rows)
            plain = _terms_operator(t, Z, a, b, rounding)
            if not rounding.is_exact:
                ends = a, np.where(t.sign == 0, a, b)

                def of(terms: np.ndarray) -> np.ndarray:
                    return rounding.of_pairs(ends[0][terms], ends[1][terms])

                errors = _Errors(of, rounding.lengths[ends[0]] + rounding.lengths[ends[1]])

        base: Operator = plain
        which = t.row
        if (t.coef != 1.0).any() or (which[1:] == which[:-1]).any():  # more than one plain term a row
            which = distinct(t.row, constraints.n_constraints)
            slot = np.searchsorted(which, t.row)
            P = scipy.sparse.csr_array((t.coef, (slot, np.arange(len(t.row)))), shape=(len(which), len(t.row)))
            base = _signed_sums(plain, P, errors)
        parts.append((which, base))
    names, dense, owners, factors, weights, offs = [], [], [], [], [], []
    for row in np.flatnonzero(constraints.where("is_whole")):
        C = constraints.matrix(row)
        assert Z is not None and rounding is not None
        if isinstance(C, LowRankMatrix):
            V = C.vectors if rows is None else C.vectors[rows]
            vector, off = V.T @ Z, rounding.of_sums(V)
            vector[_is_rounding(vector, off)] = 0.0
            factors.append(vector)
            offs.append(off)
            weights.append(C.weights)
            owners.append(row)
            continue
        names.append(row)
        if C is None:
            dense.append(Z.T @ Z)
            continue
        C = C if rows is None else C[rows][:, rows]
        A = Z.T @ (C @ Z)
        dense.append(np.zeros_like(A) if _is_rounding(A, rounding.of_congruence(C, Z)).all() else A)
    if dense:
        stack = np.stack(dense)
        parts.append((np.array(names), MatrixRows((stack + stack.transpose(0, 2, 1)) / 2)))
    if factors:
        counts = [len(w) for w in weights]
        slot = np.repeat(np.arange(len(owners)), counts)
        P = scipy.sparse.csr_array(
            (np.concatenate(weights), (slot, np.arange(len(slot)))), shape=(len(owners), len(slot))
        )
        off = np.concatenate(offs)
        sums = _signed_sums(
            RankOneRows(np.concatenate(factors)), P, _Errors(off.__getitem__, np.linalg.norm(off, axis=1))
        )
        parts.append((np.array(owners), sums))
    return parts[0][1] if len(parts) == 1 else Stacked(parts)


def _places(t: Terms, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the two points of every term among the rows that are held."""
    if rows is None:
        return t.a.astype(np.int32), t.b.astype(np.int32)
    place = np.empty(int(rows[-1]) + 1, dtype=np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    return place[t.a], place[t.b]
