"""Constraints bound to the rows Z of their points: which form of operator each relation becomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.columns import LowRankMatrix
from bregmat.compound_operators import SignedSums, Stacked
from bregmat.constraints import Constraints
from bregmat.operators import MatrixRows, Operator, PairGraph, RankOneRows
from bregmat.terms import Terms

VANISHING = 1e-13  # size of a row, relative to those of its terms, below which it is 0: rounding of what cancels
SAME = 1e-26  # squared distance, relative to the squared norms, below which two points are one


def _terms_operator(
    t: Terms, Z: np.ndarray, rows: np.ndarray | None, sizes: np.ndarray | None
) -> RankOneRows | PairGraph:
    """Terms on rows Z: as pairs where they outnumber the points, otherwise as their vectors."""
    place = None
    if rows is not None:
        place = np.empty(int(rows[-1]) + 1, dtype=np.int32)
        place[rows] = np.arange(len(rows), dtype=np.int32)
    a = t.a.astype(np.int32) if place is None else place[t.a]
    b = t.b.astype(np.int32) if place is None else place[t.b]
    size = np.einsum("ij,ij->i", Z, Z) if sizes is None else sizes
    # squared distance of two points that are equal up to rounding; an infinite one is not
    negligible = np.where(t.sign == -1, np.minimum(SAME * (size[a] + size[b]), 1e300), -1.0)
    if len(a) > len(Z) and len(a) * Z.shape[1] > 30_000:
        pairs = PairGraph(Z, a, b, t.sign)
        same = pairs.values_diagonal(None) <= negligible
        return PairGraph(Z, a, np.where(same, a, b), t.sign) if same.any() else pairs
    V = np.ascontiguousarray(Z[a] + Z[b] * t.sign[:, None])
    V[np.einsum("ij,ij->i", V, V) <= negligible] = 0.0
    return RankOneRows(V)


def _squeezed(C: Any, Z: np.ndarray) -> np.ndarray:
    """``Z' C Z``, exactly 0 where it is rounding."""
    A = Z.T @ (C @ Z)
    size = np.abs(Z).T @ (abs(C) @ np.abs(Z))
    return A if np.abs(A).max(initial=0.0) > VANISHING * size.max(initial=0.0) else np.zeros_like(A)


def _signed_sums(base: RankOneRows | PairGraph, P: scipy.sparse.csr_array) -> SignedSums:
    """Signed sums of terms; those that cancel up to rounding, such as a similarity with the origin, are exactly 0."""
    P.sum_duplicates()
    sums = SignedSums(base, P)
    natural, square = sums.norms(), np.zeros(sums.c)
    for part, place in sums.blocks():
        V, coef = base.vectors(P.indices[place]), P.data[place]
        G = V @ V.transpose(0, 2, 1)
        square[part] = np.einsum("is,ist,it->i", coef, G * G, coef)  # squared Frobenius norms, but for rounding
    small = np.flatnonzero(square <= 1e-12 * natural * natural)
    if len(small):
        exact = SignedSums(base, P[small]).sizes(np.ones(base.r))
        gone = np.zeros(sums.c, dtype=bool)
        gone[small[exact <= VANISHING * natural[small]]] = True
        P.data[np.repeat(gone, np.diff(P.indptr))] = 0.0
        P.eliminate_zeros()
    return sums


def bind(
    constraints: Constraints,
    Z: np.ndarray | None,
    rows: np.ndarray | None = None,
    sizes: np.ndarray | None = None,
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
    sizes : ndarray, shape (n_touched,), optional
        Squared norms against which two points count as equal, where Z was centred; by default those of Z.
    vectors : ndarray, shape (n_terms, r), optional
        The vectors of ``constraints.terms()`` themselves, in place of Z.
    """
    parts: list[tuple[np.ndarray, Operator]] = []
    t = constraints.terms()
    if len(t.row):
        if vectors is not None:
            plain: RankOneRows | PairGraph = RankOneRows(vectors)
        else:
            assert Z is not None
            plain = _terms_operator(t, Z, rows, sizes)
        base: Operator = plain
        which = t.row
        if (t.coef != 1.0).any() or (which[1:] == which[:-1]).any():  # more than one plain term a row
            which = np.unique(t.row)
            slot = np.searchsorted(which, t.row)
            P = scipy.sparse.csr_array((t.coef, (slot, np.arange(len(t.row)))), shape=(len(which), len(t.row)))
            base = _signed_sums(plain, P)
        parts.append((which, base))
    dense, names, factors, weights, owners = [], [], [], [], []
    for row in np.flatnonzero(constraints.where("is_whole")):
        C = constraints.matrix(row)
        assert Z is not None
        if isinstance(C, LowRankMatrix):
            V = C.vectors if rows is None else C.vectors[rows]
            factors.append(V.T @ Z)
            weights.append(C.weights)
            owners.append(row)
            continue
        names.append(row)
        dense.append(Z.T @ Z if C is None else _squeezed(C if rows is None else C[rows][:, rows], Z))
    if dense:
        A = np.stack(dense)
        parts.append((np.array(names), MatrixRows((A + A.transpose(0, 2, 1)) / 2)))
    if factors:
        counts = [len(w) for w in weights]
        slot = np.repeat(np.arange(len(owners)), counts)
        P = scipy.sparse.csr_array(
            (np.concatenate(weights), (slot, np.arange(len(slot)))), shape=(len(owners), len(slot))
        )
        parts.append((np.array(owners), _signed_sums(RankOneRows(np.concatenate(factors)), P)))
    return parts[0][1] if len(parts) == 1 else Stacked(parts)
