"""The linear map of rows that are pairs of points: vectors ``z_a + sign z_b``, named by the pairs and never built."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np

from bregmat._kernels import pairs as kernels
from bregmat._kernels.arrays import OuterRows
from bregmat.base.linalg import blocks
from bregmat.base.threads import in_parts
from bregmat.operators.linear_maps import OuterProducts, RankOneRows, one_term_a_row

NEAR_BYTES = 2**20  # bytes of points that stay in the cache of one core
SORTED_WORK = 5e6  # gathered entries of a pass from which sorting the pairs pays, as measured
GATHERED = 8.0  # operations of a matrix product in the time of one operation on gathered points, as measured


def is_identity(F: np.ndarray) -> bool:
    """Whether F is the identity."""
    return F.shape[0] == F.shape[1] and np.array_equal(F, np.eye(len(F)))


class PairGraph(OuterProducts):
    """Vectors ``z_a + sign z_b`` of the points Z, which are never formed all at once."""

    points_a_vector: ClassVar[float] = 1  # with fewer rows than points over this, vectors take less memory

    def __init__(
        self,
        Z: np.ndarray,
        a: np.ndarray,
        b: np.ndarray,
        sign: np.ndarray,
        graph: tuple | None = None,
        squares: np.ndarray | None = None,
    ) -> None:
        self.Z, self.a, self.b, self.sign = np.ascontiguousarray(Z), a, b, sign
        self.c, self.r = len(a), Z.shape[1]
        self._graph = graph
        self._order: tuple | None = None  # order of the pairs, once it is computed
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
        return self.Z @ X

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        """``Z' L(w) Z`` with L the weighted Laplacian of the pair graph."""
        Y = np.empty_like(self.Z)
        ptr, edge, other, sign = self.graph
        product = partial(kernels.laplacian_product_inplace, Y, ptr, other, sign, w[edge], self.Z)
        in_parts(product, len(Y), float(len(edge) * self.r))
        return self.Z.T @ Y

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
        found = out if order is None else np.empty_like(out)

        def run(start: int, stop: int) -> None:
            some = slice(start, stop)
            kernel(found[some], *points, a[some], b[some], sign[some])

        in_parts(run, self.c, float(self.c * self.r))
        if order is not None:
            out[order] = found

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

    def congruence(self, F: np.ndarray) -> PairGraph:
        return self if is_identity(F) else self._with(self.Z @ F)

    def _with(self, Z: np.ndarray) -> PairGraph:
        """The same pairs of other points."""
        made = type(self)(Z, self.a, self.b, self.sign, self._graph)
        made._order = self._order
        return made

    def restrict(self, rows: np.ndarray) -> PairGraph | RankOneRows:
        """Some of the rows; as vectors if there are fewer rows than points."""
        a, b, sign = self.a[rows], self.b[rows], self.sign[rows]
        if self.points_a_vector * len(a) <= len(self.Z):
            return RankOneRows(self.Z[a] + self.Z[b] * sign[:, None])
        squares = None if self._squares is None else self._squares[rows]
        return type(self)(self.Z, a, b, sign, squares=squares)

    def astype(self, dtype: type) -> PairGraph:
        made = self._with(self.Z.astype(dtype))
        made._squares = self._squares
        return made

    def features(self, S: np.ndarray | None) -> np.ndarray:
        """Rows ``svec(S o A_i)``, shape (c, r (r + 1) / 2)."""
        return RankOneRows(self.vectors(np.arange(self.c))).features(S)

    def vectors(self, rows: np.ndarray | slice) -> np.ndarray:
        """The vectors of some rows, of any shape: (..., r)."""
        found = self.Z.take(self.b[rows], axis=0)
        found *= self.sign[rows][..., None]
        found += self.Z.take(self.a[rows], axis=0)
        return found

    def squared_norms(self, Psi: np.ndarray | None) -> np.ndarray:
        """``<A_i, Psi o A_i>`` of every row, from as many vectors at a time as stay in the cache of one core."""
        if Psi is None:
            return self.values_diagonal(None) ** 2
        out = np.empty(self.c)
        for rows in blocks(self.c, self.r, max(2**14, 256 * self.r)):
            out[rows] = RankOneRows(self.vectors(rows)).squared_norms(Psi)
        return out

    def gram(self, S: np.ndarray | None = None) -> np.ndarray:
        return RankOneRows(self.vectors(np.arange(self.c))).gram(S)

    def outer(self) -> OuterRows:
        """One term for each row, its vector given by the pair."""
        return one_term_a_row(self.Z, self.a, self.b, self.sign)
