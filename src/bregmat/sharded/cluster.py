"""Shards on the workers of a Dask cluster, and rows and points in Dask's collections; the only file that imports Dask.

A shard is the result of a task that loads it, so the scheduler makes it again where a worker has died; what it remembered is worked out
again from the expressions. Nothing depends on who does what: partial results are put together in the order of their shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bregmat.constraints import Constraints
from bregmat.sharded.expressions import FAN, Expression, folded, value_of
from bregmat.sharded.local import REMEMBERED
from bregmat.sharded.parts import POINTS, Part, Setting, ShardSource
from bregmat.threads import single_thread_blas

LIVES = 20  # rounds of an expression, each of which ends with workers that died again and again


def _dask() -> Any:
    try:
        import dask
        import distributed
    except ImportError as error:
        raise ImportError("this needs Dask: pip install 'bregmat[dask]'.") from error
    return dask, distributed


def is_client(executor: Any) -> bool:
    """Whether it is a client of a Dask cluster; no import of Dask for what is not."""
    return type(executor).__module__.startswith("distributed") and isinstance(executor, _dask()[1].Client)


class WorkerPlace:
    """A shard on a worker (:class:`bregmat.sharded.expressions.Place`).

    Where it is moved, it is read again: arrays that have travelled need not be aligned, and then other compiled loops work on them,
    which round differently.
    """

    def __init__(self, setting: Setting, *given: Any) -> None:
        self._given = setting, *given
        self.part: Part = setting.load(*given)
        self._kept: dict[str, Any] = {}
        POINTS.hold(self, setting.key)

    def remembered(self, key: str) -> Any:
        """What was worked out before."""
        return self._kept.get(key)

    def remember(self, key: str, value: Any) -> None:
        """In place of the oldest."""
        while len(self._kept) >= REMEMBERED:
            self._kept.pop(next(iter(self._kept)), None)
        self._kept[key] = value

    def __reduce__(self) -> Any:
        return _load, self._given


def _load(setting: Setting, source: ShardSource, points: Any, number: int, first: int) -> WorkerPlace:
    with single_thread_blas():
        return WorkerPlace(setting, source, points, number, first)


def _one(place: WorkerPlace, what: Expression) -> Any:
    with single_thread_blas(), np.errstate(all="ignore"):
        return value_of(what, place, {})


def _itself(x: Any) -> Any:
    return x


class ClusterRows:
    """Shards on the workers of a cluster (:class:`bregmat.sharded.expressions.Rows`).

    Parameters
    ----------
    setting : Setting
    sources : sequence of ShardSource
    points : ndarray or what has its shape and its slices
        An array travels to every worker once; files are read there.
    client : dask.distributed.Client
    """

    def __init__(self, setting: Setting, sources: Sequence[ShardSource], points: Any, client: Any) -> None:
        self.client = client
        self._given = setting, list(sources), points
        self._load()

    def _load(self) -> None:
        setting, sources, points = self._given
        self._common = [self._task(_itself, setting), self._task(_itself, points)]
        firsts = np.concatenate([[0], np.cumsum([source.count for source in sources])])
        self._shards = [
            self._task(_load, self._common[0], source, self._common[1], k, int(firsts[k]))
            for k, source in enumerate(sources)
        ]

    def _task(self, function: Callable[..., Any], *args: Any) -> Any:
        return self.client.submit(function, *args, pure=False)

    def reduce(self, what: Expression, combine: Callable[[Any, Any], Any]) -> Any:
        """The expression on every shard, put together by the tree; lost shards are loaded again."""
        lost: tuple[type[BaseException], ...] = (_dask()[1].KilledWorker,)
        for _ in range(LIVES):
            try:
                return self._reduced(what, combine)
            except lost as error:
                died = error
                self._load()
        raise MemoryError(
            "workers died again and again while they worked on a shard, as they do where memory is short: give a smaller block_size "
            f"({died})."
        ) from died

    def _reduced(self, what: Expression, combine: Callable[[Any, Any], Any]) -> Any:
        # few shards: a hop less to the workers and one less back
        question = what if len(self._shards) <= FAN else self._task(_itself, what)
        parts = self.client.map(_one, self._shards, [question] * len(self._shards), pure=False)
        while len(parts) > FAN:
            groups = [parts[k : k + FAN] for k in range(0, len(parts), FAN)]
            parts = [self._task(folded, combine, *group) for group in groups]
        return folded(combine, *self.client.gather(parts))


# ---------------------------------------------------------------------- Dask's collections
def is_collection(x: Any) -> bool:
    """Whether it is an array or a data frame of Dask; no import of Dask for what is not."""
    return type(x).__module__.startswith("dask") and bool(_dask()[0].is_dask_collection(x))


@dataclass(frozen=True, eq=False)
class DaskPoints:
    """Points of a Dask array or frame (n, d), computed where they are needed."""

    array: Any

    @classmethod
    def of(cls, x: Any) -> DaskPoints:
        """From an array, or a frame of numbers whose lengths are counted."""
        return cls(x.to_dask_array(lengths=True) if hasattr(x, "to_dask_array") else x)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n, d = self.array.shape
        return int(n), int(d)

    def read_rows(self, rows: Any) -> np.ndarray:
        """Some rows, by a slice or ascending numbers."""
        return np.asarray(self.array[rows].compute(scheduler="synchronous"))

    __getitem__ = read_rows


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Constraints of a Dask data frame with the columns of a constraints file."""

    frame: Any
    convert: Callable[[Any], Constraints]  # of a table in memory

    def shards(self, block_size: int) -> list[FrameShard]:
        """Partitions, those with more rows in several pieces."""
        counts = self.frame.map_partitions(len).compute()
        partitions = self.frame.to_delayed()
        return [
            FrameShard(partition, start, min(block_size, c - start), f"partition {k} of the constraints", self.convert)
            for k, (partition, c) in enumerate(zip(partitions, map(int, counts)))
            for start in range(0, c, block_size)
        ]


@dataclass(frozen=True, eq=False)
class FrameShard:
    """Some rows of a partition (:class:`bregmat.sharded.parts.ShardSource`)."""

    partition: Any
    start: int
    count: int
    place: str
    convert: Callable[[Any], Constraints]

    def read(self) -> Constraints:
        """The rows."""
        table = self.partition.compute(scheduler="synchronous")
        return self.convert(table.iloc[self.start : self.start + self.count])
