"""Constraints bound to the rows Z of their points: which form of operator each relation becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy  # scipy.sparse loads on first use, which keeps `import bregmat` quick

from bregmat.base.linalg import blocks, dense, product, sq_norms
from bregmat.base.tolerances import EPS, VANISHING
from bregmat.constraints.columns import LowRankMatrix
from bregmat.constraints.constraints import Constraints
from bregmat.constraints.terms import Terms
from bregmat.operators.compound import MatrixRows, SignedSums, Stacked
from bregmat.operators.linear_maps import Operator, PairGraph, RankOneRows

TURNED = 1e-14  # angle by which rounding turns an eigenvector, relative to its eigenvalue over the largest
MATRIX_ROUNDINGS = 8.0  # roundings of the products with a matrix, in units of EPS
MIN_PAIR_ENTRIES = 30_000  # entries of the vectors of all terms from which pairs of points are cheaper, as measured
SHORT_DIFFERENCE = 1e-5  # length over those of its points, below which a difference is formed before points are mapped


class PlacedPoints:
    """Coordinates Z of points with their largest errors: all code that decides whether a row is 0 asks here.

    Each entry of a vector or matrix is compared with the sizes of the terms that it is the sum of, in its own column, so
    that the unit of a column does not matter. A row whose entries may all be rounding errors is set to exactly 0.

    Parameters
    ----------
    Z : ndarray or sparse array, shape (n, r)
    made : ndarray, shape (n, r), optional
        The sums of the absolute terms of the entries of Z; by default the absolute entries.
    floor : ndarray, shape (r,), optional
        ``reach_j floor_k`` is the error of entry (j, k) if coordinates were computed from a prior; None: they are data as given.
    reach : ndarray, shape (n,), optional
        1 by default.
    source : (X, R), optional
        ``Z = X R``, up to a shift, for data X (n, d), dense or sparse. Short differences are formed from X, where they have not lost
        digits. By default they are formed from Z.

    Attributes
    ----------
    column : ndarray, shape (r,)
        Largest absolute entry of each column.
    length : ndarray, shape (n,)
        Length of each point.
    lengths : ndarray, shape (n,)
        Upper bounds of the lengths of the errors of the points.
    is_exact : bool
        Whether the points are data as given.
    """

    def __init__(
        self,
        Z: Any,
        *,
        made: np.ndarray | None = None,
        floor: np.ndarray | None = None,
        reach: np.ndarray | None = None,
        source: tuple[Any, Any] | None = None,
    ) -> None:
        n, r = Z.shape
        made = abs(Z) if made is None else made
        is_sparse = scipy.sparse.issparse(made)
        self.Z, self.source = Z, source
        self.column = made.max(axis=0).toarray().ravel() if is_sparse else made.max(axis=0, initial=0.0)
        self.length = np.sqrt(sq_norms(made))
        self.reach = np.ones(n) if reach is None else reach
        self.floor = np.zeros(r) if floor is None else floor
        self.is_exact = floor is None
        largest = np.minimum(self.column.max(initial=0.0), self.length)
        self.lengths = np.sqrt(r) * (VANISHING * largest + self.reach * self.floor.max(initial=0.0))

    def source_sums(self, a: np.ndarray, b: np.ndarray, sign: np.ndarray) -> Any:
        """``x_a + sign x_b`` of the source for positions a, b (k,) and signs (k, 1), shape (k, d)."""
        assert self.source is not None
        X, _ = self.source
        second = X[b]
        return X[a] + (second.multiply(sign).tocsr() if scipy.sparse.issparse(second) else second * sign)

    def sizes_of_sums(
        self, a: np.ndarray, b: np.ndarray, sign: np.ndarray, F: np.ndarray | None = None, *, are_mapped: bool = False
    ) -> np.ndarray:
        """Lengths of ``F' l``, shape (k,), where l (r,) holds the sums of the absolute terms of the entries of ``z_a + sign z_b``.

        Parameters
        ----------
        a, b, sign
            As in :meth:`source_sums`.
        F : ndarray, shape (r, m), optional
            By default the identity.
        are_mapped : bool
            Whether the sums are formed from Z, whose terms are those of both points; otherwise they are formed from the source.
        """
        assert self.source is not None
        X, R = self.source
        terms = abs(X[a]) + abs(X[b]) if are_mapped else abs(self.source_sums(a, b, sign))
        made = dense(product(terms, abs(R)))
        return np.sqrt(sq_norms(made if F is None else made @ F))

    def sizes(self, points: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Sizes of the terms that the entries of some points are sums of, shape (..., r)."""
        return np.minimum(self.column, self.length[points][..., None])

    def of_sums(self, weights: np.ndarray) -> np.ndarray:
        """Largest error of every entry of ``weights' Z``, for weights (n, k)."""
        spread = np.sqrt((weights * weights).T @ self.reach**2)
        return VANISHING * (np.abs(weights).T @ self.sizes()) + spread[:, None] * self.floor

    def of_congruence(self, C: Any) -> np.ndarray:
        """Largest error of every entry of ``Z' C Z``."""
        S = np.abs(self.Z) if self.is_exact else self.sizes()
        C = abs(C)
        out = VANISHING * (S.T @ (C @ S))
        if self.floor.any():
            moved = C @ self.reach
            cross = np.multiply.outer(self.floor, S.T @ moved)
            out += cross + cross.T + np.multiply.outer(self.floor, self.floor) * float(self.reach @ moved)
        return out

    def of_pairs(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Largest error of every entry of sums or differences of two points."""
        first, second = [
            np.maximum(VANISHING * self.sizes(ends), self.reach[ends][..., None] * self.floor) for ends in (a, b)
        ]
        return first + second

    def vanishing(
        self, vectors: Callable[[np.ndarray], np.ndarray], squares: np.ndarray, a: np.ndarray, b: np.ndarray
    ) -> np.ndarray:
        """Numbers of the sums or differences of the points a and b (c,) whose entries may all be rounding.

        Parameters
        ----------
        vectors : callable
            Numbers of k of the sums -> their entries (k, r).
        squares : ndarray, shape (c,)
            Squared lengths of the sums.
        a, b : ndarray of int, shape (c,)
        """
        norms = self.lengths
        small = np.flatnonzero(squares <= np.minimum((norms[a] + norms[b]) ** 2, 1e300))
        if not len(small):
            return small
        parts = np.array_split(small, 1 + len(small) * len(self.column) // 2**22)
        return np.concatenate([k[_is_rounding(vectors(k), self.of_pairs(a[k], b[k]))] for k in parts])


def _is_rounding(A: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Whether all entries along the last axis may be rounding; an infinite one is not."""
    return (np.abs(A) <= np.minimum(error, 1e300)).all(axis=-1)


class RowErrors(NamedTuple):
    """Rounding of the matrices ``A_i = sum_t coef_t v_t v_t'`` of constraints, from the points whose sums and differences v_t are.

    If points are nearly equal, their difference is wrong by a rounding of the points, which may be much of it.

    Attributes
    ----------
    lengths : ndarray, shape (c,)
        ``sqrt(sum_t |coef_t| l_t^2)``, with the sum l_t of the lengths of the points of v_t: v_t is wrong by roundings of l_t.
    constant : ndarray, shape (c,)
        Frobenius norms of errors that do not depend on the v_t: of what counts as 0 and of given matrices.
    mapped : callable or None
        A function of the numbers of k rows and of the absolute values F (r, m) of a factor of a matrix. It returns
        ``sqrt(sum_t |coef_t| |F' l_t|^2)``, shape (k,), where l_t (r,) holds the sums of the absolute terms of the entries of v_t; inf for
        rows that are matrices. It is sharper than ``lengths`` if the coordinates of mapped data have very different scales.
    """

    lengths: np.ndarray
    constant: np.ndarray
    mapped: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    def of_matrices(self, norms: np.ndarray, rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Largest errors of the A_i of some rows with these norms (k,), in the Frobenius norm: one rounding of every vector."""
        return 2.0 * EPS * np.sqrt(norms) * self.lengths[rows] + self.constant[rows]


@dataclass(frozen=True, eq=False)
class _Errors:
    """Errors of the vectors of terms."""

    of: Callable[[np.ndarray], np.ndarray]  # terms -> largest error of every entry, shape (..., r)
    lengths: np.ndarray  # at least the length of every term's error, (n_terms,); entries cost r times as much


def bind(
    constraints: Constraints, points: np.ndarray | PlacedPoints, *, terms: Terms | None = None, are_terms: bool = False
) -> Operator:
    """Bind constraints to the coordinates of their points.

    Parameters
    ----------
    constraints : Constraints
        In row numbers of the data.
    points : PlacedPoints or ndarray, shape (n, r)
        An array counts as data.
    terms : Terms, optional
        The terms of the constraints with positions among the points; by default, points are all data.
    are_terms : bool
        Whether an array holds the vectors of the terms themselves, shape (n_terms, r), which are exact.
    """
    t, whole = constraints.terms() if terms is None else terms, np.flatnonzero(constraints.is_whole)
    if not isinstance(points, PlacedPoints) and not are_terms:
        points = PlacedPoints(points)
    parts: list[tuple[np.ndarray, Operator]] = []
    if len(t.row) and (t.coef == 1.0).all() and not (t.row[1:] == t.row[:-1]).any():
        parts.append((t.row, _rank_one_terms(t, points)[0]))
    elif len(t.row):
        # p_i = sum_t coef_t |z_a + sign z_b|^2 over the terms of row i, which other rows may share
        first, term = (np.arange(len(t.row)),) * 2 if are_terms else distinct_terms(t)
        rank_one, errors = _rank_one_terms(replace(t, a=t.a[first], b=t.b[first], sign=t.sign[first]), points)
        is_first = np.diff(t.row, prepend=-1) > 0  # rows are ascending
        numbers, slot = t.row[is_first], np.cumsum(is_first) - 1
        P = scipy.sparse.csr_array((t.coef, (slot, term)), shape=(len(numbers), len(first)))
        parts.append((numbers, _signed_sums(rank_one, P, errors)))
    if len(whole):
        assert isinstance(points, PlacedPoints)
        parts += _bound_matrices(constraints, whole, points)
    return parts[0][1] if len(parts) == 1 else Stacked(parts)


def distinct_terms(t: Terms) -> tuple[np.ndarray, np.ndarray]:
    """Positions of one term for each distinct squared norm, and for every term the place of its norm among them.

    Comparisons of a point with its neighbours share their pairs of points, so that there are far fewer norms than terms.
    """
    a, b = t.a.astype(np.int64), np.where(t.sign == 0, t.a, t.b)
    low, high = np.minimum(a, b), np.maximum(a, b)  # |z_a + s z_b| = |z_b + s z_a|
    keys = (low * (high.max(initial=0) + 1) + high) * 4 + t.sign
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return first, place


def _rank_one_terms(t: Terms, points: PlacedPoints | np.ndarray) -> tuple[RankOneRows | PairGraph, _Errors | None]:
    """The terms as pairs of points if they outnumber the points, otherwise as vectors; and the errors of the vectors.

    Vectors that may be rounding are 0. An array holds the vectors of the terms. The errors are None if they are in proportion to the
    entries.
    """
    if not isinstance(points, PlacedPoints):
        return RankOneRows(points), None
    Z, sign, a, b = points.Z, t.sign, np.asarray(t.a, np.int32), np.asarray(t.b, np.int32)
    second = np.where(sign == 0, a, b)
    op: RankOneRows | PairGraph
    if len(a) > len(Z) and len(a) * Z.shape[1] > MIN_PAIR_ENTRIES:
        op = PairGraph(Z, a, b, sign)
    else:
        op = RankOneRows(np.ascontiguousarray(Z[a] + Z[b] * sign[:, None]))
    squares = op.values_diagonal(None)
    if points.source is not None:
        short = np.flatnonzero(squares <= (SHORT_DIFFERENCE * (points.length[a] + points.length[b])) ** 2)
        short = short[a[short] != b[short]]
        if len(short):
            pairs, which = np.unique([a[short], b[short], sign[short]], axis=1, return_inverse=True)
            vectors = dense(product(points.source_sums(pairs[0], pairs[1], pairs[2][:, None]), points.source[1]))
            op = op.replaced(short, vectors, which.ravel())
    zero = points.vanishing(op.vectors, squares, a, second)
    if len(zero):
        op = op.replaced(zero, np.zeros((1, op.r)), np.zeros(len(zero), dtype=int))
    if points.is_exact:
        return op, None
    lengths = points.lengths
    return op, _Errors(lambda terms: points.of_pairs(a[terms], second[terms]), lengths[a] + lengths[second])


def _signed_sums(base: RankOneRows | PairGraph, P: scipy.sparse.csr_array, errors: _Errors | None) -> SignedSums:
    """Signed sums of terms with coefficients P (c, n_terms); errors are None where they are a share of the entry itself.

    Sums that cancel up to rounding, such as a similarity with the origin, are exactly 0.
    """
    P.sum_duplicates()
    sums = SignedSums(base, P)
    gone = np.zeros(sums.c, dtype=bool)
    squares = base.values_diagonal(None)
    for part, place in sums.blocks():
        size, v = np.abs(P.data[place]), np.sqrt(squares[P.indices[place]])
        d = np.zeros_like(v) if errors is None else errors.lengths[P.indices[place]]
        natural = np.einsum("is,is->i", size, v * v)
        off = np.einsum("is,is->i", size, d * (2.0 * v + d))
        bound = 1e-12 * natural**2 + 4.0 * off**2
        # |A| >= 2 max_t |coef_t| |v_t|^2 - natural by the triangle inequality, so that most rows are settled without their vectors
        least = 2.0 * (size * v * v).max(axis=1) - natural
        doubtful = np.flatnonzero((least <= 0) | (least * least <= 2.0 * bound))
        part, place, size, bound = part[doubtful], place[doubtful], size[doubtful], bound[doubtful]
        terms, coef = P.indices[place], P.data[place]
        # |A|^2 = sum_st coef_s coef_t (v_s . v_t)^2 costs less than A; its own rounding is about 1e-16 natural^2
        V = base.vectors(terms)
        G = V @ V.transpose(0, 2, 1)
        square = np.einsum("is,ist,it->i", coef, G * G, coef)
        small = np.flatnonzero(square <= bound)
        for some in np.array_split(small, 1 + len(small) * base.r**2 // 2**22):
            if not len(some):
                continue
            # (v + e)(v + e)' - v v' = v e' + e v' + e e', entry by entry, beside the rounding of the sum itself
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


def _bound_matrices(
    constraints: Constraints, whole: np.ndarray, points: PlacedPoints
) -> list[tuple[np.ndarray, Operator]]:
    """Numbers and operators of the rows ``<C, Z M Z'>`` with a matrix C each: dense ``Z' C Z``, or the few vectors of a sum."""
    Z, numbers, matrices, owners, sums = points.Z, [], [], [], []
    for row in whole:
        C = constraints.matrix(row)
        if isinstance(C, LowRankMatrix):  # C = V diag(w) V': the vectors V' Z
            vectors, error = C.vectors.T @ Z, points.of_sums(C.vectors)
            vectors[_is_rounding(vectors, error)] = 0.0
            owners.append(row)
            sums.append((vectors, error, C.weights))
            continue
        if C is None and len(Z) < Z.shape[1]:  # the trace of few points: the points are its vectors
            owners.append(row)
            sums.append((Z, points.of_sums(np.eye(len(Z))), np.ones(len(Z))))
            continue
        if C is None:
            A = Z.T @ Z
        else:
            A = Z.T @ (C @ Z)
            if _is_rounding(A, points.of_congruence(C)).all():
                A = np.zeros_like(A)
        numbers.append(row)
        matrices.append((A + A.T) / 2)
    parts: list[tuple[np.ndarray, Operator]] = []
    if matrices:
        parts.append((np.array(numbers), MatrixRows(np.stack(matrices))))
    if sums:
        vectors, error, weights = (np.concatenate(column) for column in zip(*sums))
        slot = np.repeat(np.arange(len(owners)), [len(w) for _, _, w in sums])
        P = scipy.sparse.csr_array((weights, (slot, np.arange(len(slot)))), shape=(len(owners), len(slot)))
        errors = _Errors(error.__getitem__, np.linalg.norm(error, axis=1))
        parts.append((np.array(owners), _signed_sums(RankOneRows(vectors), P, errors)))
    return parts


def row_errors(operator: Operator, constraints: Constraints, terms: Terms, points: PlacedPoints) -> RowErrors | None:
    """Rounding of constraints that are bound to points; None if it is that of the vectors themselves.

    Parameters
    ----------
    operator, constraints, terms, points
        What :func:`bind` returned, and its arguments.
    """
    t, c, Z, whole = terms, operator.c, points.Z, np.flatnonzero(constraints.is_whole)
    if points.is_exact and not len(whole):
        return None
    squares, constant = np.zeros(c), np.zeros(c)
    is_zero = (operator.norms() == 0) & (constraints.bound != 0)  # 0 <= 0 holds
    length, a, b = points.length, t.a, t.b
    is_formed = np.ones(len(t.row), bool)  # from the data before they are mapped; a point alone counts as formed, too
    if len(t.row) and not points.is_exact:
        size = length[a] + np.abs(t.sign) * length[b]  # from before the points were centred
        if points.source is not None:
            first, place = distinct_terms(t)
            made, formed = size[first], is_formed[first]
            for part in blocks(len(first), Z.shape[1], 2**20):
                some = first[part]
                short = sq_norms(Z[a[some]] + Z[b[some]] * t.sign[some, None]) <= (SHORT_DIFFERENCE * made[part]) ** 2
                on = np.flatnonzero(short)
                formed[part] = short | (t.sign[some] == 0)
                made[part.start + on] = points.sizes_of_sums(a[some[on]], b[some[on]], t.sign[some[on], None])
            size, is_formed = made[place], formed[place]
        squares += np.bincount(t.row, np.abs(t.coef) * size**2, c)
        for row in np.unique(t.row[is_zero[t.row]]):
            on = np.flatnonzero(t.row == row)
            constant[row] = _size_of_sum(Z[a[on]] + t.sign[on, None] * Z[b[on]], t.coef[on], size[on])
    for row in whole:
        C = constraints.matrix(row)
        if isinstance(C, LowRankMatrix):
            size = np.abs(C.vectors).T @ length
            squares[row] = np.abs(C.weights) @ size**2
            constant[row] = _size_of_sum(C.vectors.T @ Z, C.weights, size) if is_zero[row] else 0.0
        elif C is not None:
            constant[row] = MATRIX_ROUNDINGS * EPS * float(length @ (abs(C) @ length))
            constant[row] += np.linalg.norm(Z.T @ (C @ Z)) if is_zero[row] else 0.0
    constant = np.where(is_zero, constant, constant + VANISHING**2 * squares)
    if points.source is None:
        return RowErrors(np.sqrt(squares), constant)

    def mapped(which: np.ndarray, F: np.ndarray) -> np.ndarray:
        on, pulled = np.flatnonzero(np.isin(t.row, which)), np.zeros(c)
        pulled[whole] = np.inf
        for are_mapped in (False, True):
            k = on[is_formed[on] != are_mapped]
            sizes = points.sizes_of_sums(a[k], b[k], t.sign[k, None], F, are_mapped=are_mapped)
            np.add.at(pulled, t.row[k], np.abs(t.coef[k]) * sizes**2)
        return np.sqrt(pulled[which])

    return RowErrors(np.sqrt(squares), constant, mapped)


def _size_of_sum(V: np.ndarray, coef: np.ndarray, size: np.ndarray) -> float:
    """Norm of ``sum_t coef_t v_t v_t'``, which counts as 0, and its rounding; ``size`` (k,) are the lengths of the points of each v_t."""
    error = 2.0 * EPS * size
    rounding = np.abs(coef) @ ((2.0 * np.linalg.norm(V, axis=1) + error) * error)
    return float(np.linalg.norm((V.T * coef) @ V) + rounding)
