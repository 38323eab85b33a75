"""Ways to get ``A+ v`` and ``A- v`` (Sha 2002, eq. 2) from one pass over a matrix: any matrix, nonnegative kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from bregmat._kernels import tiles
from bregmat.base.threads import in_parts

_SHARED = 2_000_000  # numbers of a pass from which its sums are taken in parts
_PARTS = 16  # their number, whatever the threads: sums do not depend on those


class Split(Protocol):
    """``A = P - Q`` with nonnegative symmetric ``P`` and ``Q``, known by what they do to a nonnegative vector."""

    n: int
    diagonal: np.ndarray  # A_ii, shape (n,) float64

    def positive_negative(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``(P v, Q v)`` for ``v >= 0``, both (n,) float64 and nonnegative; NaN in ``v`` comes out as NaN."""
        ...


class DenseSplit:
    """Any symmetric matrix, kept as it is: one pass gives ``A v`` and ``|A| v``, whose half sum and difference are wanted.

    Parameters
    ----------
    A : ndarray, shape (n, n), float32 or float64
        Not copied where it is C-contiguous of the wanted type. Entries of A+ and A- are those of eq. 2.
    dtype : dtype, optional
        Type that the pass runs in; by default that of ``A`` (float64 unless it is float32). In float32 the sums carry
        a relative error of about 1e-6, and the monotone decrease ends there.

    Notes
    -----
    Cost of a pass: ``n^2`` numbers are read once. Sha 2002, section 2.1; the source stores A+ and A-, which reads twice as much.
    """

    def __init__(self, A: np.ndarray, *, dtype: Any = None) -> None:
        A = np.asarray(A)
        self._A, self._unit = _stored(_square("A", A), dtype)
        self.n = len(A)
        self.diagonal = A.diagonal().astype(np.float64)

    def positive_negative(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``(A+ v, A- v)``."""
        x, unit = _narrowed(v, self._A.dtype, self._unit)
        p, q = np.empty((2, self.n), self._A.dtype)
        in_parts(lambda *part: tiles.signed_pass_inplace(p, q, self._A, x, *part), self.n, self._A.size, 4)
        # the half difference of two sums can fall below zero by rounding
        return unit * p.astype(np.float64), unit * np.maximum(q.astype(np.float64), 0.0)


class ClassBlocks:
    """The matrix of a margin machine, ``A_ij = y_i y_j K_ij + ridge_i [i = j]``, from a kernel without negative entries.

    ``A+`` is the two blocks of the kernel within the classes, ``A-`` the block between them. Only the lower triangle is
    kept, in square tiles that lie within one block each and serve their rows and their columns when they are loaded: half
    the memory of the matrix.

    Parameters
    ----------
    K : ndarray, shape (n, n), or an object with ``block(I, J, dtype)``
        Symmetric kernel, entries >= 0. ``block`` gives ``K[I][:, J]`` for arrays of row numbers, so that the whole
        matrix is never there. Of a matrix, the rows are read; it is not kept.
    y : ndarray of +-1, shape (n,)
    ridge : float or ndarray, shape (n,)
        Added to the diagonal of A, >= 0, in the units of the kernel: ``1 / C`` for the squared hinge.
    dtype : dtype, optional
        float64 or float32; by default that of ``K`` if it is an array, else float64.

    Raises
    ------
    ValueError
        For a negative or missing entry, by its row and column (use :class:`DenseSplit`), and for wrong shapes.
    """

    def __init__(self, K: Any, y: np.ndarray, *, ridge: np.ndarray | float = 0.0, dtype: Any = None) -> None:
        y = np.asarray(y)
        self.n = n = len(y)
        if not np.isin(y, (-1, 1)).all():
            raise ValueError(f"y must hold -1 and 1 only; got {np.unique(y)[:5].tolist()}.")
        block: Callable[..., np.ndarray] = K.block if hasattr(K, "block") else _block_of(_square("K", np.asarray(K), n))
        kind = np.dtype(dtype if dtype is not None else getattr(K, "dtype", np.float64))
        self._dtype = kind if kind == np.float32 else np.dtype(np.float64)
        self._ridge = np.broadcast_to(np.asarray(ridge, dtype=np.float64), (n,))
        size = tile_size(n)
        members = [np.flatnonzero(y > 0), np.flatnonzero(y < 0)]
        groups = [rows[k : k + size] for rows in members for k in range(0, len(rows), size)]
        first_negative = -(-len(members[0]) // size)
        self._place = np.concatenate([k * size + np.arange(len(rows)) for k, rows in enumerate(groups)])
        self._rows = np.concatenate(groups)
        self._length = size * len(groups)
        pairs = [(i, j) for i in range(len(groups)) for j in range(i + 1)]
        row, column = np.array(pairs, dtype=np.int64).T
        self._places = np.array([row, column, (row < first_negative) == (column < first_negative)])
        self._tiles = np.zeros((len(pairs) * size, size), self._dtype)  # one below the other
        diagonal = np.empty(n)
        for tile, (i, j) in zip(self._tiles.reshape(-1, size, size), pairs):
            values = block(groups[i], groups[j], self._dtype)
            if not (values >= 0).all():
                k, l = np.argwhere(~(values >= 0))[0]
                raise ValueError(
                    f"ClassBlocks needs a kernel without negative or missing entries; K[{groups[i][k]}, {groups[j][l]}] = "
                    f"{values[k, l]}. Use DenseSplit."
                )
            tile[: len(groups[i]), : len(groups[j])] = values
            if i == j:
                diagonal[groups[i]] = values.diagonal()
        self.diagonal = diagonal + self._ridge
        self._parts = _PARTS if self._tiles.size >= _SHARED else 1

    @property
    def nbytes(self) -> int:
        """Bytes that the tiles take."""
        return self._tiles.nbytes

    def positive_negative(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``(A+ v, A- v)``."""
        narrow, unit = _narrowed(v, self._dtype, 1.0)
        x = np.zeros(self._length, self._dtype)
        x[self._place] = narrow[self._rows]
        P, Q = np.empty((2, self._parts, self._length), self._dtype)
        packed = self._tiles, self._places, x
        in_parts(lambda *part: tiles.packed_pass_inplace(P, Q, *packed, *part), self._parts, 2.0 * self._tiles.size)
        p, q = np.empty((2, self.n))
        p[self._rows] = P.sum(axis=0)[self._place]
        q[self._rows] = Q.sum(axis=0)[self._place]
        return unit * p + self._ridge * v, unit * q


def margin_split(K: np.ndarray, y: np.ndarray, *, ridge: np.ndarray | float = 0.0, dtype: Any = None) -> Split:
    """The split of ``y_i y_j K_ij + ridge_i [i = j]``: :class:`ClassBlocks` where no entry is negative, else :class:`DenseSplit`.

    Parameters
    ----------
    K : ndarray, shape (n, n)
    y, ridge, dtype
        As for :class:`ClassBlocks`.
    """
    K = np.asarray(K)
    if (K >= 0).all():
        return ClassBlocks(K, y, ridge=ridge, dtype=dtype)
    A = K * y[:, None]
    A *= y
    A.reshape(-1)[:: len(A) + 1] += np.asarray(ridge, dtype=A.dtype)
    return DenseSplit(A, dtype=dtype)


def tile_size(n: int) -> int:
    """Side of the tiles: 256 numbers of a row are read at a stretch, but small matrices would be mostly padding."""
    if n >= 2048:
        return 256
    return 64 if n >= 256 else 16


def _square(name: str, A: np.ndarray, n: int | None = None) -> np.ndarray:
    """``A`` if it is (n, n)."""
    if A.ndim != 2 or A.shape[0] != A.shape[1] or (n is not None and len(A) != n):
        wanted = "square" if n is None else f"of shape {(n, n)}"
        raise ValueError(f"{name} must be {wanted}; got shape {A.shape}.")
    return A


def _block_of(K: np.ndarray) -> Callable[..., np.ndarray]:
    """``block`` of a matrix: a view where the rows and the columns are neighbours."""

    def block(I: np.ndarray, J: np.ndarray, dtype: Any) -> np.ndarray:
        if I[-1] - I[0] == len(I) - 1 and J[-1] - J[0] == len(J) - 1:
            return K[I[0] : I[-1] + 1, J[0] : J[-1] + 1]
        return K[np.ix_(I, J)]

    return block


def _stored(A: np.ndarray, dtype: Any) -> tuple[np.ndarray, float]:
    """``A`` in the type of the pass, divided by a unit that keeps float32 in range, and that unit."""
    kind = np.dtype(dtype if dtype is not None else A.dtype)
    if kind != np.float32:
        return np.ascontiguousarray(A, dtype=np.float64), 1.0
    if A.dtype == np.float32:
        return np.ascontiguousarray(A), 1.0
    unit = float(np.abs(A).max(initial=0.0))
    unit = unit if unit > 0 and np.isfinite(unit) else 1.0
    return np.ascontiguousarray(A / unit, dtype=np.float32), unit


def _narrowed(v: np.ndarray, dtype: np.dtype, unit: float) -> tuple[np.ndarray, float]:
    """``v`` in the type of the pass; float32 holds it divided by its largest entry. The unit of the sums comes along."""
    if dtype == np.float64:
        return np.ascontiguousarray(v, dtype=np.float64), unit
    largest = float(v.max(initial=0.0))
    if not (largest > 0 and np.isfinite(largest)):
        largest = 1.0
    with np.errstate(under="ignore"):
        return (v / largest).astype(dtype), unit * largest
