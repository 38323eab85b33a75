"""The linear map of bound constraints, ``p_i = <A_i, X>``, and its adjoint ``sum w_i A_i``; rows that are outer products.

====================  =============================================================  ===========================
:class:`RankOneRows`  one vector per row, ``p_i = v_i' X v_i``                        c r^2 a product, c r memory
:class:`PairGraph`    vectors ``z_a + s z_b`` named by pairs, never built            c r + n r^2, n r memory
====================  =============================================================  ===========================

Other operators are in :mod:`bregmat.operators.compound`: rows with a matrix each, signed sums of rows, operators side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import lru_cache, partial
from typing import ClassVar, Protocol

import numpy as np

from bregmat._kernels import pairs as kernels
from bregmat._kernels.arrays import OuterRows
from bregmat.base.linalg import blocks, factor_product, half_product, symmetric_product
from bregmat.base.threads import in_parts
from bregmat.base.tolerances import VANISHING

NEAR_BYTES = 2**20  # bytes of points that stay in the cache of one core
SORTED_WORK = 5e6  # gathered entries of a pass from which sorting the pairs pays, as measured
GATHERED = 8.0  # operations of a matrix product in the time of one operation on gathered points, as measured


class Operator(Protocol):
    """A linear map of symmetric r x r matrices to c values, with its adjoint."""

    c: int
    r: int
    is_rank_one: ClassVar[bool] = False  # whether every A_i is an outer product v_i v_i'
    # whether rows, values and weights are distributed, so that single rows cannot be read
    is_sharded: ClassVar[bool] = False

    @property
    def n_vectors(self) -> int:
        """Number of vectors that a product of all rows with a matrix multiplies."""
        return self.c

    def values(self, X: np.ndarray) -> np.ndarray:
        """``<A_i, X>`` for every row."""

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """``sum_i w_i A_i``."""

    def weighted(self, h: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """``X -> A*(h . A(X))``, for many X."""
        return lambda X: self.adjoint(h * self.values(X))

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        """``values(diag(x))``; None stands for the identity."""

    def congruence(self, F: np.ndarray) -> Operator:
        """The operator of ``X -> F X F'``."""

    def restrict(self, rows: np.ndarray) -> Operator:
        """Some of the rows."""

    def drawn(self, share: float) -> np.ndarray:
        """Numbers of a pseudo-random sample of about this share of the rows, the same in every call."""
        return drawn_numbers(0, self.c, share)

    def astype(self, dtype: type) -> Operator:
        """The same in another precision."""

    def features(self, S: np.ndarray | None) -> np.ndarray:
        """Rows ``svec(S o A_i)``, shape (c, r (r + 1) / 2); None stands for 1."""

    def vectors(self, rows: np.ndarray | slice) -> np.ndarray:
        """The vectors ``v_i`` of some rows (numbers of any shape, or a slice), shape (..., r); only if ``is_rank_one``."""
        raise TypeError(f"{type(self).__name__} has constraints that are not outer products.")

    def absolute(self) -> Operator:
        """The operator whose values at M >= 0 are at least the sums of the absolute terms of ``<A_i, M>``."""
        return self

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        """``tr(|A_i| diag(prior))``: the unit of a row with bound 0."""

    def norms(self) -> np.ndarray:
        """Frobenius norms of the A_i, or upper bounds of them."""

    def exact_norms(self) -> np.ndarray:
        """Frobenius norms of the A_i; forms a few megabytes of matrices at a time."""
        out = np.empty(self.c)
        for part in blocks(self.c, self.r * (self.r + 1) // 2, 2**22):
            out[part] = np.linalg.norm(self.restrict(np.arange(self.c)[part]).features(None), axis=1)
        return out

    def vanishing(self, N: np.ndarray) -> np.ndarray:
        """Whether each row is 0 up to rounding on the directions N (r, k) without being 0 itself; boolean, shape (c,)."""
        before = self.norms()
        if not N.shape[1]:
            return before > 0
        inside = self.congruence(N)
        norms = inside.norms()
        gone = norms <= VANISHING**2 * before
        rest = np.flatnonzero(~gone)
        if len(rest) and not self.is_rank_one:  # the terms of a sum may cancel
            gone[rest] = inside.restrict(rest).exact_norms() <= VANISHING * norms[rest]
        return gone & (before > 0)

    def squared_norms(self, Psi: np.ndarray | None) -> np.ndarray:
        """``<A_i, Psi o A_i>`` of every row, or bounds of them; None stands for 1."""

    def extents(self, w: np.ndarray) -> np.ndarray:
        """s (r,) with ``sum_i w_i |A_i|_kl <= sqrt(s_k s_l)``, also for the terms that the A_i are sums of; w >= 0."""

    def normal_matrix(self, h: np.ndarray, S: np.ndarray | None) -> np.ndarray:
        """``sum_i h_i f_i f_i'`` for the rows f_i of :meth:`features`, of order r (r + 1) / 2."""
        m = self.r * (self.r + 1) // 2
        H = np.zeros((m, m))
        block = max(m, 2**23 // m)  # rows at a time, at most as many numbers as H has
        for first in range(0, self.c, block):
            rows = slice(first, first + block)
            Phi = (self if self.c <= block else self.restrict(np.arange(self.c)[rows])).features(S)
            Phi *= np.sqrt(h[rows])[:, None]
            H += Phi.T @ Phi
        return H

    def product_flops(self) -> float:
        """Floating point operations of :meth:`values` and :meth:`adjoint` together."""
        return 4.0 * self.c * self.r**2

    def factor_flops(self) -> float:
        """Operations of a factorisation, over rows or over entries of a matrix."""
        m = self.r * (self.r + 1) // 2
        return float(min(self.c, m)) ** 2 * max(self.c, m)

    def outer(self) -> OuterRows:
        """The rows as sums of outer products and multiples of the identity."""

    def gram(self, S: np.ndarray | None = None) -> np.ndarray:
        """``<S o A_i, S o A_j>`` of all pairs of rows, shape (c, c); None stands for 1."""
        Phi = self.features(S)
        return Phi @ Phi.T


def weighted_by(S: np.ndarray | None, X: np.ndarray) -> np.ndarray:
    """``S o X`` for matrices (..., r, r), a new array unless S is None, which stands for 1."""
    return X if S is None else S * X


def drawn_numbers(first: int, count: int, share: float) -> np.ndarray:
    """The numbers in ``first + range(count)`` that are in the sample, less ``first``, by their hashes (SplitMix64, Steele et al. 2014)."""
    x = np.arange(first + 1, first + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.flatnonzero((x ^ (x >> np.uint64(31))) < np.uint64(min(share, 0.5) * 2.0**64))


@lru_cache(maxsize=16)
def svec_index(r: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Upper triangle and the weights (1 or sqrt 2) that make svec an isometry."""
    k, l = np.triu_indices(r)
    return k, l, np.where(k == l, 1.0, np.sqrt(2.0))


def svec(X: np.ndarray) -> np.ndarray:
    """Upper triangle of symmetric matrices (..., r, r) as vectors; an isometry."""
    k, l, weight = svec_index(X.shape[-1])
    return X[..., k, l] * weight


def smat(x: np.ndarray, r: int) -> np.ndarray:
    """Inverse of :func:`svec` for one vector."""
    k, l, weight = svec_index(r)
    X = np.empty((r, r))
    X[k, l] = X[l, k] = x / weight
    return X


class OuterProducts(Operator):
    """``A_i = v_i v_i'``: trace and Frobenius norm are both ``|v_i|^2``."""

    is_rank_one = True

    def sizes(self, prior: np.ndarray) -> np.ndarray:
        return self.values_diagonal(prior)

    def norms(self) -> np.ndarray:
        return self.values_diagonal(None)

    def exact_norms(self) -> np.ndarray:
        return self.norms()

    def extents(self, w: np.ndarray) -> np.ndarray:
        return np.diag(self.adjoint(w))

    def features(self, S: np.ndarray | None) -> np.ndarray:
        k, l, weight = svec_index(self.r)
        weight = weight if S is None else weight * S[k, l]
        columns = np.ascontiguousarray(self.vectors(slice(None)).T)  # reading whole rows is faster than reading columns
        products = columns[k]
        products *= columns[l]
        products *= weight[:, None]
        return products.T

    def gram(self, S: np.ndarray | None = None) -> np.ndarray:
        if S is not None:
            return super().gram(S)
        V = self.vectors(slice(None))
        G = V @ V.T
        G *= G
        return G


class RankOneRows(OuterProducts):
    """One vector per row: ``p_i = v_i' X v_i``."""

    def __init__(self, V: np.ndarray) -> None:
        self.V = V
        self.c, self.r = V.shape

    def values(self, X: np.ndarray) -> np.ndarray:
        """``v_i' X v_i`` for every row."""
        return np.einsum("ij,ij->i", half_product(self.V, X), self.V)

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """``sum_i w_i v_i v_i'``."""
        return symmetric_product(self.V, self.V * w[:, None])

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        return np.einsum("ij,ij->i", self.V, self.V) if x is None else (self.V * self.V) @ x

    def congruence(self, F: np.ndarray) -> RankOneRows:
        return RankOneRows(factor_product(self.V, F))

    def restrict(self, rows: np.ndarray) -> RankOneRows:
        return RankOneRows(self.V[rows])

    def astype(self, dtype: type) -> RankOneRows:
        return RankOneRows(self.V.astype(dtype))

    def vectors(self, rows: np.ndarray | slice) -> np.ndarray:
        return self.V[rows]

    def replaced(self, rows: np.ndarray, V: np.ndarray, which: np.ndarray) -> RankOneRows:
        """With the vectors ``V[which]`` of some rows."""
        vectors = self.V.copy()
        vectors[rows] = V[which]
        return RankOneRows(vectors)

    def squared_norms(self, Psi: np.ndarray | None) -> np.ndarray:
        squares = self.V * self.V
        if Psi is None:
            return squares.sum(axis=1) ** 2
        return np.einsum("ij,ij->i", squares @ Psi, squares)

    def outer(self) -> OuterRows:
        """One term a row."""
        return one_term_a_row(self.V, np.arange(self.c), np.arange(self.c), np.zeros(self.c, np.int8))


class PairGraph(OuterProducts):
    """Vectors ``z_a + sign z_b`` of the points Z, which are never formed all at once."""

    points_a_vector: ClassVar[float] = 1  # with fewer rows than points over this, vectors take less memory

    def __init__(
        self, Z: np.ndarray, a: np.ndarray, b: np.ndarray, sign: np.ndarray, squares: np.ndarray | None = None
    ) -> None:
        self.Z, self.a, self.b, self.sign = np.ascontiguousarray(Z), a, b, sign
        self.c, self.r = len(a), Z.shape[1]
        self._graph: tuple | None = None  # adjacency lists and order of the pairs, once they are computed
        self._order: tuple | None = None
        self._squares = squares  # squared lengths of the vectors, once they are computed

    @property
    def n_vectors(self) -> int:
        return len(self.Z)

    @property
    def graph(self) -> tuple:
        """Adjacency lists of the n points: ``ptr`` (n + 1,), ``edge``, ``other`` and ``sign``; shared by congruent operators.

        Entries ``ptr[u] ... ptr[u + 1] - 1`` of the others are the edges of point u, the points at their other ends, and their signs.
        A term with sign 0 is the point alone and is listed once.
        """
        if self._graph is None:
            m = self.c + np.count_nonzero(self.sign)
            ptr, edge, other = np.empty(len(self.Z) + 1, np.int64), np.empty(m, np.int32), np.empty(m, np.int32)
            kernels.adjacency_inplace(ptr, edge, other, self.a, self.b, self.sign)
            self._graph = ptr, edge, other, self.sign[edge]
        return self._graph

    def values(self, X: np.ndarray) -> np.ndarray:
        """``(z_a + s z_b)' X (z_a + s z_b)``, from one product of the points with X."""
        out = np.empty(self.c, self.Z.dtype)
        self._gather(kernels.bilinear_inplace, out, self.Z, self._image(X))
        return out

    def _image(self, X: np.ndarray) -> np.ndarray:
        return half_product(self.Z, X)

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """``Z' L(w) Z`` with L the weighted Laplacian of the pair graph."""
        Y = np.empty_like(self.Z)
        ptr, edge, other, sign = self.graph
        product = partial(kernels.laplacian_product_inplace, Y, ptr, other, sign, w[edge], self.Z)
        in_parts(product, len(Y), float(len(edge) * self.r))
        return symmetric_product(self.Z, Y)

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        is_plain = x is None or bool((x == 1.0).all())
        if is_plain and self._squares is not None:
            return self._squares
        out = np.empty(self.c)
        self._gather(kernels.sq_norms_inplace, out, self.Z if x is None or is_plain else self.Z * np.sqrt(x))
        if is_plain:
            out.setflags(write=False)
            self._squares = out
        return out

    def _gather(self, kernel: Callable[..., None], out: np.ndarray, *points: np.ndarray) -> None:
        """Run a compiled loop over all pairs, on several threads, in the order that finds most points in the cache."""
        order, a, b, sign = self._ordered()
        ordered = out if order is None else np.empty_like(out)

        def run(start: int, stop: int) -> None:
            some = slice(start, stop)
            kernel(ordered[some], *points, a[some], b[some], sign[some])

        in_parts(run, self.c, float(self.c * self.r))
        if order is not None:
            out[order] = ordered

    def _ordered(self) -> tuple:
        """The pairs sorted by blocks of second points, then of first points: (order or None, a, b, sign).

        A block has so many points that each first point has two or three pairs with it, for which it is read once. Congruent
        operators share the order.
        """
        if self._order is None:
            n, pieces = len(self.Z), -(-self.Z.nbytes // NEAR_BYTES)
            if pieces == 1 or self.c * self.r < SORTED_WORK:
                self._order = None, self.a, self.b, self.sign
            else:
                blocks = max(1, min(pieces, int(0.4 * self.c / n), 256))
                groups = 2**16 // blocks
                first, second = self.a // -(-n // groups), self.b // -(-n // blocks)
                order = np.argsort((second * groups + first).astype(np.uint16), kind="stable").astype(np.int32)
                self._order = order, self.a[order], self.b[order], self.sign[order]
        return self._order

    def product_flops(self) -> float:
        return 4.0 * self.r * (len(self.Z) * self.r + GATHERED * self.c)

    def congruence(
        self, F: np.ndarray, product: Callable[[np.ndarray, np.ndarray], np.ndarray] = factor_product
    ) -> PairGraph:
        """The operator of ``X -> F X F'``: the same pairs of the points ``product(Z, F)``."""
        if F.shape[0] == F.shape[1] and np.array_equal(F, np.eye(len(F))):  # the frame of the prior
            return self
        made = copy(self)  # with the same graph and order
        made.Z, made.r, made._squares = product(self.Z, F), F.shape[1], None
        return made

    def restrict(self, rows: np.ndarray) -> PairGraph | RankOneRows:
        """Some of the rows; as vectors if there are fewer rows than points."""
        a, b, sign = self.a[rows], self.b[rows], self.sign[rows]
        if self.points_a_vector * len(a) <= len(self.Z):
            return RankOneRows(self.vectors(rows))
        squares = None if self._squares is None else self._squares[rows]
        return type(self)(self.Z, a, b, sign, squares=squares)

    def astype(self, dtype: type) -> PairGraph:
        made = copy(self)
        made.Z = self.Z.astype(dtype)
        return made

    def vectors(self, rows: np.ndarray | slice) -> np.ndarray:
        vectors = self.Z.take(self.b[rows], axis=0)
        vectors *= self.sign[rows][..., None]
        vectors += self.Z.take(self.a[rows], axis=0)
        return vectors

    def replaced(self, rows: np.ndarray, V: np.ndarray, which: np.ndarray) -> PairGraph:
        """With the vectors ``V[which]`` of some rows: those that are not 0 become further points, and the rows these points alone."""
        some = (V != 0.0).any(axis=1)
        is_point, point = some[which], len(self.Z) + np.cumsum(some) - 1
        a, b, sign = self.a.copy(), self.b.copy(), self.sign.copy()
        a[rows[is_point]] = point[which[is_point]]
        b[rows], sign[rows] = a[rows], np.where(is_point, 0, -1)  # z_a - z_a is exactly 0
        Z = np.concatenate([self.Z, V[some]]) if some.any() else self.Z  # which may be shared
        return PairGraph(Z, a, b, sign)

    def squared_norms(self, Psi: np.ndarray | None) -> np.ndarray:
        """``<A_i, Psi o A_i>`` of every row, from as many vectors at a time as stay in the cache of one core."""
        if Psi is None:
            return self.values_diagonal(None) ** 2
        out = np.empty(self.c)
        for rows in blocks(self.c, self.r, max(2**14, 256 * self.r)):
            out[rows] = RankOneRows(self.vectors(rows)).squared_norms(Psi)
        return out

    def outer(self) -> OuterRows:
        """One term for each row, its vector given by the pair."""
        return one_term_a_row(self.Z, self.a, self.b, self.sign)


def one_term_a_row(Z: np.ndarray, a: np.ndarray, b: np.ndarray, sign: np.ndarray) -> OuterRows:
    """One term with coefficient 1 for each row.

    Parameters
    ----------
    Z : ndarray, shape (n, r)
        Points.
    a, b : ndarray of int, shape (c,)
        Rows of Z that make the vectors ``z_a + sign z_b``.
    sign : ndarray of int8, shape (c,)
        +1, -1, or 0 for ``z_a`` alone.
    """
    c = len(a)
    index = np.arange(c + 1, dtype=np.int64)
    Z = np.ascontiguousarray(Z, dtype=float)
    return OuterRows(index, np.ones(c), Z, a.astype(np.int32), b.astype(np.int32), sign.astype(np.int8), np.zeros(c))
