"""Points in blocks of rows, each where an executor processes it: sums over all blocks, and selected rows.

Blocks are shards, evaluated and combined like those of constraints, so the results have the same bits with every executor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np

from bregmat.base.checks import check_finite, check_integer
from bregmat.base.linalg import blocks, sq_norms
from bregmat.base.tolerances import IDENTICAL
from bregmat.sharded.expressions import SHARD, Expression
from bregmat.sharded.nearest import BLOCK, check_executor, shards_on
from bregmat.sharded.sources import dense_points

Combine = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class PointBlock:
    """Points with their labels, and the number of its first row among all rows."""

    X: np.ndarray
    y: np.ndarray | None
    first: int
    is_worth_storing: ClassVar[bool] = False  # reading it again takes no longer


@dataclass(frozen=True, eq=False)
class PointSource:
    """Rows ``start`` to ``start + count - 1`` of points, and the labels of these rows (:class:`bregmat.sharded.sources.ShardSource`)."""

    X: Any
    y: Any
    start: int
    count: int
    place: str

    def read(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The points and the labels."""
        return np.array(self.X[self.start : self.start + self.count], dtype=float), self.y


@dataclass(frozen=True)
class BlockSettings:
    """How blocks are loaded."""

    key: str = field(default_factory=lambda: uuid4().hex)

    def load(self, source: PointSource, points: None, first: int) -> PointBlock:
        """Read a block, which has no points besides those of its source, and check that they are finite."""
        try:
            X, y = source.read()
            check_finite("X", X)
        except (ValueError, TypeError, OSError) as error:
            raise type(error)(f"{source.place}: {error}") from error
        return PointBlock(X, y, first)


class PointsInBlocks:
    """Points (n, d) that are never in one place: sums over all blocks, and selected rows as arrays.

    Parameters
    ----------
    X : array-like or LazyPoints, shape (n, d)
    y : array-like, shape (n,), optional
        Labels; they stay with their points.
    executor : None, int or dask.distributed.Client
        As in :func:`bregmat.nearest_metric`.
    block_size : int, optional
        Maximum number of rows of a block.
    """

    def __init__(self, X: Any, y: Any = None, executor: Any = None, block_size: int | None = None) -> None:
        check_integer("block_size", block_size, 1)
        check_executor(executor)
        self.executor = executor
        self.source = dense_points(X)
        self.shape: tuple[int, int] = tuple(self.source.shape)
        d = self.shape[1]
        sources = _sources(self.source, y, block_size or max(1, BLOCK // max(1, d)))
        self.shards = shards_on(executor, BlockSettings(), sources, None)
        self.example = np.arange(2.0 * d).reshape(2, d)  # what checks of scikit-learn look at

    def reduce(self, function: Callable[..., Any], *args: Any, combine: Combine = operator.add) -> Any:
        """``function(block, *args)`` of every block, combined in their order."""
        return self.shards.reduce(Expression(function, SHARD, *args), combine)

    def cached(self, function: Callable[..., Any], *args: Any) -> Expression:
        """``function(block, *args)`` as an argument of others; every block caches its value."""
        return Expression(function, SHARD, *args, keep=True)

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Rows by a slice or by row numbers, in any order, repeated or not."""
        numbers = np.arange(self.shape[0])[rows] if isinstance(rows, slice) else np.asarray(rows, dtype=np.int64)
        wanted, place = np.unique(numbers, return_inverse=True)
        return np.concatenate(self.reduce(_select, wanted))[place]

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean squares and means of the columns."""
        sums, squares = self.reduce(_sums)
        return squares / self.shape[0], sums / self.shape[0]

    def scatter(self) -> tuple[np.ndarray, np.ndarray]:
        """``(X - mean)' (X - mean)``, and the sums of squares of the columns."""
        squares, mean = self.moments()
        return self.reduce(_scatter, mean), squares * self.shape[0]

    def differ(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Which pairs of rows are not identical; as :func:`bregmat.base.sampling.differ` without a norm for every row."""
        out = np.empty(len(i), dtype=bool)
        for part in blocks(len(i), self.shape[1], 5_000_000):  # 40 MB for each array of the comparison
            A, B = self[i[part]], self[j[part]]
            out[part] = sq_norms(A - B) > IDENTICAL * (sq_norms(A) + sq_norms(B))
        return out


def _sources(X: Any, y: Any, block_size: int) -> list[PointSource]:
    """Sources of at most ``block_size`` rows."""
    n = X.shape[0]
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (n,):
        raise ValueError(f"y must have one label per row of X ({n}); got shape {labels.shape}.")
    sources = []
    for start in range(0, n, block_size):
        stop = min(start + block_size, n)
        own = None if labels is None else labels[start:stop]
        is_array = isinstance(X, np.ndarray)  # then only these rows are sent
        rows, first = (X[start:stop], 0) if is_array else (X, start)
        sources.append(PointSource(rows, own, first, stop - start, f"rows {start} to {stop - 1} of X"))
    return sources


def _select(block: PointBlock, numbers: np.ndarray) -> list[np.ndarray]:
    """The rows of a block among ascending row numbers of all points."""
    a, b = np.searchsorted(numbers, [block.first, block.first + len(block.X)])
    return [block.X[numbers[a:b] - block.first]]


def _sums(block: PointBlock) -> np.ndarray:
    return np.stack([block.X.sum(axis=0), (block.X * block.X).sum(axis=0)])


def _scatter(block: PointBlock, mean: np.ndarray) -> np.ndarray:
    centred = block.X - mean
    return centred.T @ centred
