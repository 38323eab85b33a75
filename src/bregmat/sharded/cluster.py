"""Shards on the workers of a Dask cluster.

A shard is the result of a task that loads it. The scheduler repeats this task when the worker that has the shard dies. Values that the
shard had cached are computed again from their expressions. The result does not depend on which worker does what, because partial results
are combined in the order of their shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bregmat.base.threads import single_thread_blas
from bregmat.sharded.expressions import FAN_IN, Expression, fold, value_of
from bregmat.sharded.local import MAX_CACHED, size_in_file
from bregmat.sharded.shared_points import SHARED_POINTS
from bregmat.sharded.sources import ShardSource

MAX_RELOADS = 8  # how often all shards are loaded again after workers died repeatedly on the same task


def is_client(executor: Any) -> bool:
    """Whether it is a client of a Dask cluster."""
    if not type(executor).__module__.startswith("distributed"):
        return False
    import distributed

    return isinstance(executor, distributed.Client)


# ---------------------------------------------------------------------- on the workers
class WorkerShard:
    """A shard on a worker.

    When Dask moves it to another worker or to disk, only its source travels, and the rows are read again. Arrays that have travelled
    need not be aligned in memory, and compiled loops may add unaligned numbers in another order.
    """

    def __init__(self, settings: Any, source: ShardSource, points: Any, first: int) -> None:
        self._given = settings, source, points, first
        self._rows: Any = None
        self._size = 0
        self._cache: dict[str, Any] = {}

    @property
    def rows(self) -> Any:
        """The rows, which are read and bound at the first use."""
        if self._rows is None:
            settings, *parts = self._given
            with single_thread_blas():
                self._rows = settings.load(*parts)
            SHARED_POINTS.hold(self, settings.key)
            self._size = size_in_file(self._rows)
        return self._rows

    def cached(self, key: str) -> Any:
        """The cached value of an expression, or None; the value becomes the most recently used one."""
        if key in self._cache:
            self._cache[key] = self._cache.pop(key)
        return self._cache.get(key)

    def cache(self, key: str, value: Any) -> None:
        """Cache a value in place of the least recently used one."""
        while len(self._cache) >= MAX_CACHED:
            self._cache.pop(next(iter(self._cache)), None)
        self._cache[key] = value

    def __sizeof__(self) -> int:
        # Dask asks for the size of a result when it weighs moving it to another worker.
        return object.__sizeof__(self) + self._size

    def __reduce__(self) -> Any:
        return WorkerShard, self._given


def _load(settings: Any, source: ShardSource, points: Any, first: int) -> WorkerShard:
    shard = WorkerShard(settings, source, points, first)
    shard.rows  # noqa: B018 - read now, so that errors belong to this task
    return shard


def _evaluate(shard: WorkerShard, what: Expression) -> Any:
    with single_thread_blas(), np.errstate(all="ignore"):
        return value_of(what, shard, {})


def _identity(x: Any) -> Any:
    return x


# ---------------------------------------------------------------------- at the driver
class ClusterShards:
    """Shards on the workers of a cluster (:func:`bregmat.sharded.nearest.shards_on`).

    Points that are an array are sent to every worker once; those in files are read by the workers.
    """

    def __init__(self, settings: Any, sources: Sequence[ShardSource], points: Any, client: Any) -> None:
        self.client = client
        self._given = settings, list(sources), points
        self._load()

    def _load(self) -> None:
        settings, sources, points = self._given
        # Data are sent as results of tasks. If they were scattered, the scheduler could not recover them from a dead worker.
        common = self._submit(_identity, settings), self._submit(_identity, points)
        firsts = np.cumsum([0, *(source.count for source in sources)])
        self._shards = [
            self._submit(_load, common[0], source, common[1], int(firsts[k])) for k, source in enumerate(sources)
        ]

    def _submit(self, function: Callable[..., Any], *args: Any) -> Any:
        return self.client.submit(function, *args, pure=False)

    def reduce(self, what: Expression, combine: Callable[[Any, Any], Any]) -> Any:
        """The values of an expression on all shards, combined by the tree of :func:`bregmat.sharded.expressions.tree_reduce`."""
        from distributed import KilledWorker

        for _ in range(MAX_RELOADS):
            try:
                return self._reduce(what, combine)
            except KilledWorker as error:
                died = error
                self._load()
        raise MemoryError(
            "workers died repeatedly while they worked on a shard, which happens when memory is short: give a smaller block_size "
            f"({died})."
        ) from died

    def _reduce(self, what: Expression, combine: Callable[[Any, Any], Any]) -> Any:
        n = len(self._shards)
        # With many shards the expression is sent to every worker once. With few, sending it along with each task is quicker.
        sent = what if n <= FAN_IN else self._submit(_identity, what)
        parts = self.client.map(_evaluate, self._shards, [sent] * n, pure=False)
        # The nodes of the tree are tasks, too, but for the last one: the driver fetches at most FAN_IN values.
        while len(parts) > FAN_IN:
            parts = [self._submit(fold, combine, *parts[k : k + FAN_IN]) for k in range(0, len(parts), FAN_IN)]
        return fold(combine, *self.client.gather(parts))
