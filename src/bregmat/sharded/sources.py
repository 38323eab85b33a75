"""Where shards are read from: constraints and points that are not in memory as a whole, in files, in memory, or in collections of Dask.

Dask is imported only when a caller passes one of its objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from bregmat.base.points import as_points
from bregmat.constraints.constraints import Constraints
from bregmat.sharded.tables import constraints_of_frame


class ShardSource(Protocol):
    """Source of the rows of one shard; picklable. It is read again whenever the shard has to be loaded again.

    Attributes
    ----------
    place : str
        Name of the rows in error messages: a file with its row group, or those of an argument.
    count : int
        Number of rows.
    """

    @property
    def place(self) -> str: ...
    @property
    def count(self) -> int: ...
    def read(self) -> Any: ...


class LazyConstraints(ABC):
    """Constraints that are read one shard at a time (:func:`bregmat.io.open_constraints`)."""

    @abstractmethod
    def shards(self, block_size: int) -> list[Any]:
        """Sources of at most ``block_size`` rows each (:class:`ShardSource`)."""


class LazyPoints(ABC):
    """Points (n, d) whose rows are read when they are needed (:func:`bregmat.io.open_points`)."""

    ndim: ClassVar[int] = 2

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """(n, d)."""

    @abstractmethod
    def read_rows(self, rows: Any) -> np.ndarray:
        """Some rows, selected by a slice or by ascending row numbers."""

    def __getitem__(self, rows: Any) -> np.ndarray:
        return self.read_rows(rows)


@dataclass(frozen=True)
class ConstraintBlocks(LazyConstraints):
    """Constraints in memory, cut into blocks."""

    constraints: Constraints

    def shards(self, block_size: int) -> list[ConstraintBlock]:
        c = self.constraints.n_constraints
        return [
            ConstraintBlock(self.constraints, first, min(block_size, c - first), f"constraints {first} to {last - 1}")
            for first in range(0, c, block_size)
            for last in [min(first + block_size, c)]
        ]


@dataclass(frozen=True)
class ConstraintBlock:
    """Rows ``first`` to ``first + count - 1`` of constraints in memory (:class:`ShardSource`)."""

    constraints: Constraints
    first: int
    count: int
    place: str

    def read(self) -> Constraints:
        """The rows."""
        return self.constraints.select(np.arange(self.first, self.first + self.count))

    def __reduce__(self) -> Any:
        # Only the rows of this block are sent to another process.
        return ConstraintBlock, (self.read(), 0, self.count, self.place)


# ---------------------------------------------------------------------- collections of Dask
def is_collection(x: Any) -> bool:
    """Whether x is an array or a data frame of Dask."""
    if not type(x).__module__.startswith("dask"):
        return False
    import dask

    return bool(dask.is_dask_collection(x))


def lazy_constraints(constraints: Any) -> LazyConstraints:
    """Constraints that cut themselves into shards: from memory, from files, or from a data frame of Dask."""
    if isinstance(constraints, LazyConstraints):
        return constraints
    if isinstance(constraints, Constraints):
        return ConstraintBlocks(constraints)
    if is_collection(constraints):
        return DaskConstraints(constraints)
    raise TypeError(
        "constraints must be Constraints, such as Constraints.sq_distance(i, j, bound, sense), or those of "
        f"bregmat.io.open_constraints; got {type(constraints).__name__}."
    )


def dense_points(X: Any) -> Any:
    """Points that are read in blocks: a dense array, or :class:`bregmat.sharded.sources.LazyPoints`."""
    if is_collection(X):
        return DaskPoints.of(X)
    if isinstance(X, LazyPoints):
        return X
    X = as_points("X", X, look=False)
    if not isinstance(X, np.ndarray):
        raise TypeError("X must be dense where constraints are processed in blocks; got a sparse matrix.")
    return X


def pieces_of(collection: Any) -> list[Any]:
    """The blocks or partitions of a collection as Delayed objects, each with the tasks that it needs and no others."""
    import dask

    return [dask.optimize(piece)[0] for piece in np.ravel(collection.to_delayed()).tolist()]


def with_lengths(x: Any) -> Any:
    """An array or a series as a Dask array whose blocks have known lengths."""
    if hasattr(x, "to_dask_array"):  # a data frame or a series of Dask
        return x.to_dask_array(lengths=True)
    return x.copy().compute_chunk_sizes() if np.isnan(x.shape[0]) else x


@dataclass(frozen=True, eq=False)
class DaskPoints(LazyPoints):
    """Points of a Dask array (n, d), which is cut along its rows only; rows are computed when they are needed."""

    array: Any

    @classmethod
    def of(cls, x: Any, name: str = "X") -> DaskPoints:
        """From an array or a data frame of numbers; unknown lengths are computed."""
        x = with_lengths(x)
        if x.ndim != 2 or x.dtype.kind not in "biuf":
            raise ValueError(
                f"{name} must be a 2-dimensional collection of numbers; got {x.ndim} dimensions of {x.dtype}."
            )
        return cls(x.rechunk({1: -1}) if x.numblocks[1] > 1 else x)

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.array.shape
        return int(n), int(d)

    def read_rows(self, rows: Any) -> np.ndarray:
        return np.asarray(self.array[rows].compute())


@dataclass(frozen=True, eq=False)
class DaskConstraints(LazyConstraints):
    """Constraints of a Dask data frame with the columns of a constraints file."""

    frame: Any

    def shards(self, block_size: int) -> list[FrameShard]:
        """Partitions; those with more rows are cut."""
        counts = self.frame.map_partitions(len).compute()
        return [
            FrameShard(partition, start, min(block_size, c - start), f"partition {k} of the constraints")
            for k, (partition, c) in enumerate(zip(pieces_of(self.frame), map(int, counts)))
            for start in range(0, c, block_size)
        ]


@dataclass(frozen=True, eq=False)
class FrameShard:
    """Some rows of a partition (:class:`bregmat.sharded.sources.ShardSource`)."""

    partition: Any
    start: int
    count: int
    place: str

    def read(self) -> Constraints:
        """The rows."""
        return constraints_of_frame(self.partition.compute().iloc[self.start : self.start + self.count])
