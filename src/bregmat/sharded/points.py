"""Points in blocks of rows, each where an executor works on it: sums over all of them, and some of their rows.

The same shards, expressions and reductions as those of constraints, so the answers have the same bits on any executor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np

from bregmat.base.checks import check_finite, check_integer
from bregmat.base.points import as_points
from bregmat.sharded.cluster import computed, pieces_of
from bregmat.sharded.collections import DaskPoints, is_collection, is_lazy, known_lengths
from bregmat.sharded.expressions import PART, Expression
from bregmat.sharded.nearest import rows_on

BLOCK = 2**25  # numbers in a block by default
Combine = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class PointBlock:
    """Points with their labels, and the place of the block among all (:class:`bregmat.sharded.parts.Part`)."""

    X: np.ndarray
    y: np.ndarray | None
    number: int
    first: int
    is_light: ClassVar[bool] = True  # read from where it is each time, not put away beside it


@dataclass(frozen=True, eq=False)
class PointSource:
    """Where a block comes from (:class:`bregmat.sharded.parts.ShardSource`)."""

    X: Any
    y: Any
    start: int
    count: int
    place: str
    lazy: tuple[str, ...] = ()  # which of X and y are Dask's

    def read(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The points and the labels."""
        part = slice(self.start, self.start + self.count)
        X, y = (computed(x) if is_lazy(x) else x for x in (self.X, self.y))
        labels = None if y is None else np.asarray(y[part] if "y" in self.lazy else y)
        return np.array(X[part], dtype=float), labels


@dataclass(frozen=True)
class BlockSetting:
    """How blocks are loaded: points are looked at once, whoever reads them."""

    key: str = field(default_factory=lambda: uuid4().hex)
    is_shared: ClassVar[bool] = False

    def load(self, source: Any, points: Any, number: int, first: int) -> PointBlock:
        """Read a block; points must be finite.

        Parameters
        ----------
        source : PointSource
        points : None
        number, first : int
            Place of the block among all, and of its first row.
        """
        try:
            X, y = source.read()
            check_finite("X", X)
        except (ValueError, TypeError, OSError) as error:
            raise type(error)(f"{source.place}: {error}") from error
        return PointBlock(X, y, number, first)


class PointsInBlocks:
    """Points (n, d) that are never in one place: sums over them by a map and a reduction, and picked rows as arrays.

    Parameters
    ----------
    X : array-like, stored points, or array or data frame of Dask, shape (n, d)
    y : array-like or Dask's, shape (n,), optional
        Labels, which stay with their points.
    executor : None, int or dask.distributed.Client
        As in :func:`bregmat.nearest_metric`.
    block_size : int, optional
        Most rows of a block; blocks of Dask are cut where they are larger.
    """

    def __init__(self, X: Any, y: Any = None, executor: Any = None, block_size: int | None = None) -> None:
        check_integer("block_size", block_size, 1)
        self.source = stored_points(X)
        self.executor = executor if executor is not None else getattr(self.source, "client", None)
        self.shape: tuple[int, int] = tuple(self.source.shape)
        n, d = self.shape
        sources = _sources(self.source, y, block_size or max(1, BLOCK // max(1, d)))
        self.n_blocks = len(sources)
        self.rows = rows_on(self.executor, BlockSetting(), sources, None)
        self._n = n

    def reduce(self, function: Callable[..., Any], *args: Any, combine: Combine = operator.add) -> Any:
        """``function(block, *args)`` of every block, put together in their order."""
        return self.rows.reduce(Expression(function, PART, *args), combine)

    def kept(self, function: Callable[..., Any], *args: Any) -> Expression:
        """``function(block, *args)`` as an argument of others, worked out once for each block."""
        return Expression(function, PART, *args, keep=True)

    def read_rows(self, rows: Any) -> np.ndarray:
        """Rows by a slice or by numbers, in any order, repeated or not."""
        numbers = np.arange(self._n)[rows] if isinstance(rows, slice) else np.asarray(rows, dtype=np.int64)
        wanted, place = np.unique(numbers, return_inverse=True)
        return np.concatenate(self.reduce(_picked, wanted))[place]

    __getitem__ = read_rows

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean squares and means of the columns."""
        sums = self.reduce(_sums)
        return sums[1] / self._n, sums[0] / self._n

    def scatter(self) -> tuple[np.ndarray, np.ndarray]:
        """``(X - mean)' (X - mean)``, and the sums of squares of the columns."""
        squares, mean = self.moments()
        return self.reduce(_scatter, mean), squares * self._n


def stored_points(X: Any) -> Any:
    """Points as blocks are cut from them: a Dask array, stored points as they are, or an array."""
    if is_collection(X):
        return DaskPoints.of(X)
    if hasattr(X, "read_rows"):
        return X
    X = as_points("X", X, look=False)
    if not isinstance(X, np.ndarray):
        raise TypeError("X must be dense where rows are worked on in blocks; got a sparse matrix.")
    return X


def _sources(X: Any, y: Any, block_size: int) -> list[PointSource]:
    n = X.shape[0]
    if isinstance(X, DaskPoints):
        ends = np.cumsum([0, *X.array.chunks[0]])
        pieces: list[Any] = pieces_of(X.array)
    else:
        ends, pieces = np.array([0, n]), [X]
    labels: list[Any] = [None] * len(pieces)
    if y is not None:
        y = known_lengths("y", y) if is_collection(y) else np.asarray(y)
        if y.ndim != 1 or len(y) != n:
            raise ValueError(f"y must have one label per row of X ({n}); got shape {y.shape}.")
        if is_collection(y) and isinstance(X, DaskPoints):
            labels = pieces_of(y.rechunk((X.array.chunks[0],)))
        elif is_collection(y):
            y = np.asarray(computed(y))
    found = []
    for piece, label, a, b in zip(pieces, labels, ends, ends[1:]):
        lazy = ("X",) * isinstance(X, DaskPoints) + ("y",) * (label is not None)
        for start in range(0, int(b - a), block_size):
            count = min(block_size, int(b - a) - start)
            first = int(a) + start
            own = label if label is not None or y is None else y[first : first + count]
            place = f"rows {first} to {first + count - 1} of X"
            if isinstance(piece, np.ndarray):  # only these travel
                found.append(PointSource(piece[first : first + count], own, 0, count, place, lazy))
            else:
                found.append(PointSource(piece, own, start, count, place, lazy))
    return found


def _picked(block: PointBlock, numbers: np.ndarray) -> list[np.ndarray]:
    """Rows of a block; ascending numbers of all rows."""
    a, b = np.searchsorted(numbers, [block.first, block.first + len(block.X)])
    return [block.X[numbers[a:b] - block.first]]


def _sums(block: PointBlock) -> np.ndarray:
    return np.stack([block.X.sum(axis=0), (block.X * block.X).sum(axis=0)])


def _scatter(block: PointBlock, mean: np.ndarray) -> np.ndarray:
    centred = block.X - mean
    return centred.T @ centred
