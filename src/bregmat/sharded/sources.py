"""Where shards are read from: constraints and points that are in memory, or in files and not in memory as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from bregmat.base.points import as_points
from bregmat.constraints.constraints import Constraints


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


@runtime_checkable
class LazyPoints(Protocol):
    """Points (n, d) whose rows are read when they are needed (:func:`bregmat.io.open_points`), with ``shape``, ``ndim`` and ``X[rows]``."""

    def read_rows(self, rows: Any) -> np.ndarray:
        """Some rows, selected by a slice or by ascending row numbers."""
        ...


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


def constraint_sources(constraints: Any, block_size: int) -> list[Any]:
    """Sources of at most ``block_size`` constraints each, which are in memory or in files."""
    if isinstance(constraints, LazyConstraints):
        return constraints.shards(block_size)
    if not isinstance(constraints, Constraints):
        raise TypeError(
            "constraints must be Constraints, such as Constraints.sq_distance(i, j, bound, sense), or those of "
            f"bregmat.io.open_constraints; got {type(constraints).__name__}."
        )
    c = constraints.n_constraints
    spans = [(first, min(first + block_size, c)) for first in range(0, c, block_size)]
    return [ConstraintBlock(constraints, a, b - a, f"constraints {a} to {b - 1}") for a, b in spans]


def dense_points(X: Any) -> Any:
    """Points that are read in blocks: a dense array, or :class:`bregmat.sharded.sources.LazyPoints`."""
    if isinstance(X, LazyPoints):
        return X
    X = as_points("X", X, look=False)
    if not isinstance(X, np.ndarray):
        raise TypeError("X must be dense where constraints are processed in blocks; got a sparse matrix.")
    return X
