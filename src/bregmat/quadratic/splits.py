"""Products ``A+ v`` and ``A- v`` (Sha 2002, eq. 2) in one pass over a matrix: of any symmetric matrix, or of a nonnegative kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from bregmat._kernels import tiles
from bregmat.base.linalg import add_diagonal
from bregmat.base.threads import in_parts

_SHARED = 2_000_000  # size of a matrix from which its sums are computed in parts
_PARTS = 16  # number of parts; fixed, so that sums do not depend on the number of threads


class DenseSplit:
    """The split of eq. 2 of any symmetric matrix.

    One pass computes ``A v`` and ``|A| v``; ``A+ v`` is half their sum and ``A- v`` half the difference. It reads ``n^2`` numbers once.
    Sha 2002, section 2.1, stores A+ and A-, which reads twice as much. A is not copied if it is float64 and C-contiguous.
    """

    def __init__(self, A: np.ndarray) -> None:
        self._A = np.ascontiguousarray(_square("A", np.asarray(A)), dtype=np.float64)
        self.n = len(self._A)
        self.diagonal = self._A.diagonal().copy()

    def positive_negative(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``(A+ v, A- v)``."""
        x = np.ascontiguousarray(v, dtype=np.float64)
        p, q = np.empty((2, self.n))
        in_parts(lambda *part: tiles.signed_pass_inplace(p, q, self._A, x, *part), self.n, self._A.size, 4)
        # half the difference of two sums may be negative by rounding
        return p, np.maximum(q, 0.0)

    def block(self, rows: slice, v: np.ndarray) -> tuple[DenseSplit, np.ndarray]:
        """The split of A in consecutive rows S and the same columns, and ``A_ST v_T`` for the other variables T."""
        A = self._A[rows]
        return DenseSplit(A[:, rows]), A[:, : rows.start] @ v[: rows.start] + A[:, rows.stop :] @ v[rows.stop :]


class ClassBlocks:
    """The matrix of a margin machine, ``A_ij = y_i y_j K_ij + ridge_i [i = j]``, from a kernel without negative entries.

    ``A+`` consists of the two blocks of the kernel within the classes, ``A-`` of the block between them. Only the lower triangle is
    stored, which takes half of the memory. It consists of square tiles, each within one block. A pass loads each tile once and uses
    it for its rows and its columns.

    K is a symmetric matrix with entries >= 0, or a KernelSource, of which the whole matrix is never formed. The ridge, ``1 / C`` for the
    squared hinge, is added to the diagonal of A. A negative entry or NaN raises ValueError; :class:`DenseSplit` is for those.
    """

    def __init__(self, K: Any, y: np.ndarray, *, ridge: np.ndarray | float = 0.0) -> None:
        y = np.asarray(y)
        self.n = n = len(y)
        if not np.isin(y, (-1, 1)).all():
            raise ValueError(f"y must hold -1 and 1 only; got {np.unique(y)[:5].tolist()}.")
        if isinstance(K, np.ndarray):
            _square("K", K, n)
        self._ridge = np.broadcast_to(np.asarray(ridge, dtype=np.float64), (n,))
        size = tile_size(n)
        # rows in groups of one class each: first the groups of y > 0, then those of y < 0
        members = [np.flatnonzero(y > 0), np.flatnonzero(y < 0)]
        groups = [rows[k : k + size] for rows in members for k in range(0, len(rows), size)]
        first_negative = -(-len(members[0]) // size)
        self._place = np.concatenate([k * size + np.arange(len(rows)) for k, rows in enumerate(groups)])
        self._rows = np.concatenate(groups)
        self._length = size * len(groups)
        pairs = [(i, j) for i in range(len(groups)) for j in range(i + 1)]
        row, column = np.array(pairs, dtype=np.int64).T
        self._places = np.array([row, column, (row < first_negative) == (column < first_negative)])
        self._tiles = np.zeros((len(pairs) * size, size))  # one below the other
        diagonal = np.empty(n)
        for tile, (i, j) in zip(self._tiles.reshape(-1, size, size), pairs):
            rows, columns = groups[i], groups[j]
            values = K[np.ix_(rows, columns)] if isinstance(K, np.ndarray) else K.block(rows, columns)
            if not (values >= 0).all():
                k, l = np.argwhere(~(values >= 0))[0]
                raise ValueError(
                    "ClassBlocks needs a kernel without negative or missing entries; "
                    f"K[{rows[k]}, {columns[l]}] = {values[k, l]}. Use DenseSplit."
                )
            tile[: len(rows), : len(columns)] = values
            if i == j:
                diagonal[rows] = values.diagonal()
        self.diagonal = diagonal + self._ridge
        self._parts = _PARTS if self._tiles.size >= _SHARED else 1

    @property
    def nbytes(self) -> int:
        """Bytes of the tiles."""
        return self._tiles.nbytes

    def positive_negative(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``(A+ v, A- v)``."""
        x = np.zeros(self._length)
        x[self._place] = v[self._rows]
        P, Q = np.empty((2, self._parts, self._length))
        packed = self._tiles, self._places, x
        in_parts(lambda *part: tiles.packed_pass_inplace(P, Q, *packed, *part), self._parts, 2.0 * self._tiles.size)
        p, q = np.empty((2, self.n))
        p[self._rows] = P.sum(axis=0)[self._place]
        q[self._rows] = Q.sum(axis=0)[self._place]
        return p + self._ridge * v, q


def margin_split(K: np.ndarray, y: np.ndarray, *, ridge: np.ndarray | float = 0.0) -> DenseSplit | ClassBlocks:
    """The split of ``y_i y_j K_ij + ridge_i [i = j]``: :class:`ClassBlocks` if no entry of K is negative, else :class:`DenseSplit`."""
    K = np.asarray(K)
    if (K >= 0).all():
        return ClassBlocks(K, y, ridge=ridge)
    A = K * y[:, None]
    A *= y
    return DenseSplit(add_diagonal(A, np.asarray(ridge, dtype=A.dtype)))


def tile_size(n: int) -> int:
    """Side of the tiles: 256 for fast reads of consecutive numbers, less for small matrices, which would be mostly padding."""
    if n >= 2048:
        return 256
    return 64 if n >= 256 else 16


def _square(name: str, A: np.ndarray, n: int | None = None) -> np.ndarray:
    """Return ``A``, or raise if it is not square (of order n)."""
    if A.ndim != 2 or A.shape[0] != A.shape[1] or (n is not None and len(A) != n):
        wanted = "square" if n is None else f"of shape {(n, n)}"
        raise ValueError(f"{name} must be {wanted}; got shape {A.shape}.")
    return A
