"""Points and rows in Dask's collections: what shards are read from, and functions of rows that stay lazy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bregmat.constraints.constraints import Constraints
from bregmat.sharded.cluster import client_of, computed, dask_modules, pieces_of


def is_collection(x: Any) -> bool:
    """Whether it is an array or a data frame of Dask; no import of Dask for what is not."""
    return type(x).__module__.startswith("dask") and bool(dask_modules()[0].is_dask_collection(x))


def is_lazy(x: Any) -> bool:
    """Whether it is something that Dask has still to work out, or has on a worker."""
    return type(x).__module__.startswith(("dask", "distributed"))


def is_for_blocks(executor: Any, block_size: int | None, *data: Any) -> bool:
    """Whether work is to be done in blocks: as an argument says so, or as data are stored or Dask's."""
    return (
        executor is not None
        or block_size is not None
        or any(hasattr(x, "read_rows") or hasattr(x, "shards") or is_collection(x) for x in data)
    )


def array_of(name: str, x: Any, width: int | None = None) -> Any:
    """A Dask array (n, d) of points in blocks of whole rows, from an array or a frame of numbers; lengths may be unknown.

    Parameters
    ----------
    name : str
        The argument, as the caller knows it.
    x : dask array or data frame
    width : int, optional
        The columns that it must have.
    """
    if hasattr(x, "to_dask_array"):
        x = x.to_dask_array()
    if x.ndim != 2 or x.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be a 2-dimensional collection of numbers; got {x.ndim} dimensions of {x.dtype}.")
    if width is not None and x.shape[1] != width:
        raise ValueError(f"{name} must have {width} columns, as what was learned from; got {x.shape[1]}.")
    return x.rechunk({1: -1}) if x.numblocks[1] > 1 else x


def pairs_of(name: str, x: Any, width: int) -> Any:
    """A Dask array of points two by two in blocks of whole pairs: (m, 2, width), or of a frame (m, 2 width)."""
    if hasattr(x, "to_dask_array"):
        return array_of(name, x, 2 * width)
    if x.ndim != 3 or x.shape[1:] != (2, width):
        raise ValueError(f"{name} must have shape (m, 2, {width}); got {x.shape}.")
    return x.rechunk({1: -1, 2: -1}) if max(x.numblocks[1:]) > 1 else x


def rows_mapped(function: Callable[[np.ndarray], np.ndarray], x: Any, width: int | None, dtype: Any = float) -> Any:
    """``function(block)`` of every block of rows of a Dask array, as a lazy Dask array.

    Parameters
    ----------
    function : callable
        Picklable; from rows (m, ...) to an array (m, width), or (m,) where the width is None.
    x : dask array
        In blocks of whole rows; with a width of two dimensions.
    width : int, optional
    dtype : dtype
        Of the result.
    """
    if width is None:
        drop = list(range(1, x.ndim))
        return x.map_blocks(function, dtype=dtype, meta=np.zeros(0, dtype), drop_axis=drop)
    return x.map_blocks(function, dtype=dtype, meta=np.zeros((0, 0), dtype), chunks=(x.chunks[0], width))


@dataclass(frozen=True, eq=False)
class DaskPoints:
    """Points of a Dask array (n, d), computed where they are needed; blocks that are persisted are used where they are."""

    array: Any

    @classmethod
    def of(cls, x: Any, name: str = "X") -> DaskPoints:
        """From an array, or a frame of numbers; lengths that are not known are counted."""
        x = known_lengths(name, array_of(name, x))
        return cls(x)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n, d = self.array.shape
        return int(n), int(d)

    @property
    def client(self) -> Any:
        """Of the cluster that has its blocks; None for those that are nowhere yet."""
        return client_of(self.array)

    def read_rows(self, rows: Any) -> np.ndarray:
        """Some rows, by a slice or ascending numbers."""
        return np.asarray(computed(self.array[rows]))

    __getitem__ = read_rows


def known_lengths(name: str, x: Any) -> Any:
    """An array, or a series, as an array with lengths; those that are not known are counted."""
    if hasattr(x, "to_dask_array"):
        x = x.to_dask_array()
    if np.isnan(x.shape[0]):
        counts = computed(x.map_blocks(_length, dtype=int, meta=np.zeros(0, int), drop_axis=list(range(1, x.ndim))))
        x = x.copy()
        x._chunks = (tuple(int(k) for k in counts), *x.chunks[1:])
    return x


def _length(block: np.ndarray) -> np.ndarray:
    return np.array([len(block)])


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Constraints of a Dask data frame with the columns of a constraints file."""

    frame: Any
    convert: Callable[[Any], Constraints]  # of a table in memory

    @property
    def client(self) -> Any:
        """Of the cluster that has its partitions; None for those that are nowhere yet."""
        return client_of(self.frame)

    def shards(self, block_size: int) -> list[FrameShard]:
        """Partitions, those with more rows in several pieces."""
        counts = computed(self.frame.map_partitions(len))
        return [
            FrameShard(partition, start, min(block_size, c - start), f"partition {k} of the constraints", self.convert)
            for k, (partition, c) in enumerate(zip(pieces_of(self.frame), map(int, counts)))
            for start in range(0, c, block_size)
        ]


@dataclass(frozen=True, eq=False)
class FrameShard:
    """Some rows of a partition (:class:`bregmat.sharded.parts.ShardSource`)."""

    partition: Any  # delayed, or the table itself where a worker has it
    start: int
    count: int
    place: str
    convert: Callable[[Any], Constraints]
    lazy: ClassVar[tuple[str, ...]] = ("partition",)

    def read(self) -> Constraints:
        """The rows."""
        table = computed(self.partition) if is_lazy(self.partition) else self.partition
        return self.convert(table.iloc[self.start : self.start + self.count])
