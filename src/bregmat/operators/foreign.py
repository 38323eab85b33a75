"""Operators whose points are in the memory of another array library, such as on a GPU: sums over rows are computed there.

Only r x r matrices and columns of c values or weights are copied between the host and the device. All functions are in the array API
standard, and none scatters: ``V' diag(w) V`` of the vectors of some rows costs c r^2 operations, where the pair graph of the
host costs c r, but it is a matrix product, which is fast on a GPU and whose order of additions is the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bregmat._kernels.arrays import OuterRows
from bregmat.base.arrays import ArraySpace
from bregmat.base.linalg import blocks
from bregmat.operators.compound import with_leaves
from bregmat.operators.linear_maps import OuterProducts, PairGraph, RankOneRows, svec_index

# numbers in the vectors of a block of rows: 128 MB, of which up to six exist at once
BLOCK_NUMBERS = 2**24


class ArrayRows(OuterProducts):
    """Vectors ``z_a + s z_b`` of points in another library's memory, formed in blocks; without pairs, the points are the vectors.

    Parameters
    ----------
    space : ArraySpace
    Z : array, shape (n, r)
    ends : (array, array, array or None), optional
        a, b and s of every row, shape (c,) each; s has the precision of Z, and is None if all are -1.
    """

    def __init__(self, space: ArraySpace, Z: Any, ends: tuple[Any, ...] | None = None) -> None:
        self.space, self.Z, self.ends = space, Z, ends
        self.c, self.r = (Z if ends is None else ends[0]).shape[0], Z.shape[1]

    @classmethod
    def of(cls, op: PairGraph | RankOneRows, space: ArraySpace) -> ArrayRows:
        """The rows of an operator of the host, copied to the space."""
        if isinstance(op, RankOneRows):
            return cls(space, space.put(op.V, float))
        sign = None if (op.sign == -1).all() else space.put(op.sign, float)
        return cls(space, space.put(op.Z, float), (space.put(op.a, np.int64), space.put(op.b, np.int64), sign))

    def _blocks(self, *points: Any) -> Iterator[tuple[slice, list[Any]]]:
        """Blocks of rows: a slice, and for each array of the shape of the points the vectors of these rows."""
        xp = self.space.xp
        for place in blocks(self.c, self.r, BLOCK_NUMBERS):
            part = slice(place.start, min(place.stop, self.c))
            if self.ends is None:
                yield part, [Z[part, :] for Z in points]
                continue
            a, b, sign = (None if end is None else end[part] for end in self.ends)
            vectors = []
            for Z in points:
                first, second = xp.take(Z, a, axis=0), xp.take(Z, b, axis=0)
                vectors.append(first - second if sign is None else first + second * sign[:, None])
            yield part, vectors

    def _column(self, *points: Any, of: Callable[..., Any]) -> np.ndarray:
        """A column with one number for every row, computed block by block."""
        parts = [self.space.fetch(of(*V)) for _, V in self._blocks(*points)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _like(self, x: np.ndarray) -> Any:
        return self.space.put_like(self.Z, x)

    def _row_sums(self, X: Any) -> Any:
        return self.space.xp.sum(X, axis=1)

    def values(self, X: np.ndarray) -> np.ndarray:
        """``v_i' X v_i``, from one product of the points with X."""
        return self._column(self.Z, self.Z @ self._like(X), of=lambda V, VX: self._row_sums(V * VX))

    def adjoint(self, w: np.ndarray) -> np.ndarray:
        weights = self._like(w)
        return self._sum(V.T @ (V * weights[part][:, None]) for part, (V,) in self._blocks(self.Z))

    def weighted(self, h: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """``X -> A*(h . A(X))``; the weights are copied to the device once, and the values stay there."""
        weights = self._like(h)

        def product(X: np.ndarray) -> np.ndarray:
            image = self.Z @ self._like(X)
            return self._sum(
                V.T @ (V * (weights[part] * self._row_sums(V * VX))[:, None])
                for part, (V, VX) in self._blocks(self.Z, image)
            )

        return product

    def _sum(self, pieces: Iterator[Any], order: int | None = None) -> np.ndarray:
        """The sum of square matrices of this order (r by default); 0 if there are none."""
        total = None
        for piece in pieces:
            total = piece if total is None else total + piece
        order = self.r if order is None else order
        return np.zeros((order, order)) if total is None else self.space.fetch(total)

    def values_diagonal(self, x: np.ndarray | None) -> np.ndarray:
        if x is None:
            return self._column(self.Z, of=lambda V: self._row_sums(V * V))
        diagonal = self._like(x)
        return self._column(self.Z, of=lambda V: (V * V) @ diagonal)

    def squared_norms(self, Psi: np.ndarray | None) -> np.ndarray:
        if Psi is None:
            return self.values_diagonal(None) ** 2
        between = self._like(Psi)
        return self._column(self.Z, of=lambda V: self._row_sums(((V * V) @ between) * (V * V)))

    def congruence(self, F: np.ndarray) -> ArrayRows:
        return ArrayRows(self.space, self.Z @ self._like(F), self.ends)

    def restrict(self, rows: np.ndarray) -> ArrayRows:
        """Some of the rows; as vectors if there are fewer rows than points."""
        xp, some = self.space.xp, self.space.put(np.arange(self.c)[rows])
        if self.ends is None:
            return ArrayRows(self.space, xp.take(self.Z, some, axis=0))
        ends = tuple(None if end is None else xp.take(end, some, axis=0) for end in self.ends)
        few = ArrayRows(self.space, self.Z, ends)
        if few.c > self.Z.shape[0]:
            return few
        vectors = [V for _, (V,) in few._blocks(self.Z)]
        return ArrayRows(self.space, xp.concat(vectors) if vectors else self.Z[:0, :])

    def astype(self, dtype: type) -> ArrayRows:
        xp = self.space.xp
        kind, ends = getattr(xp, np.dtype(dtype).name), self.ends
        if ends is not None and ends[2] is not None:
            ends = (*ends[:2], xp.astype(ends[2], kind))
        return ArrayRows(self.space, xp.astype(self.Z, kind), ends)

    def vectors(self, rows: np.ndarray | slice) -> np.ndarray:
        """The vectors of some rows, copied to the host."""
        rows = np.arange(self.c)[rows]
        some = self.restrict(rows.ravel())
        parts = [some.space.fetch(V) for _, (V,) in some._blocks(some.Z)]
        return np.concatenate([np.zeros((0, self.r)), *parts]).reshape(*rows.shape, self.r)

    def outer(self) -> OuterRows:
        """One term a row, on the host."""
        return RankOneRows(self.vectors(slice(None))).outer()

    def normal_matrix(self, h: np.ndarray, S: np.ndarray | None) -> np.ndarray:
        """``sum_i h_i f_i f_i'`` of the features, formed and multiplied on the device in blocks of rows."""
        xp, space = self.space.xp, self.space
        k, l, weight = svec_index(self.r)
        first, second = space.put(k, np.int64), space.put(l, np.int64)
        scale, root = self._like(weight if S is None else weight * S[k, l]), self._like(np.sqrt(h))

        def pieces() -> Iterator[Any]:
            for part in blocks(self.c, len(k), BLOCK_NUMBERS):
                some = self.restrict(np.arange(self.c)[part])
                mine = root[part.start : part.start + some.c]
                for place, (V,) in some._blocks(some.Z):
                    Phi = xp.take(V, first, axis=1) * xp.take(V, second, axis=1) * scale
                    Phi = Phi * mine[place][:, None]
                    yield Phi.T @ Phi

        return self._sum(pieces(), len(k))

    def gram(self, S: np.ndarray | None = None) -> np.ndarray:
        """``(V V')^2``, elementwise, on the device if S is None."""
        if S is not None:
            return super().gram(S)
        some = self.restrict(np.arange(self.c))
        V = some.space.xp.concat([V for _, (V,) in some._blocks(some.Z)])
        products = V @ V.T
        return self.space.fetch(products * products)


def on_space(op: Any, space: ArraySpace) -> Any:
    """The operator with its outer products as :class:`ArrayRows`; rows with a matrix each stay on the host."""
    return with_leaves(op, lambda one: ArrayRows.of(one, space) if isinstance(one, PairGraph | RankOneRows) else one)
