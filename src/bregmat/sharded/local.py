"""Shards in this process. One or a few are in memory at a time; the others wait in temporary files."""

from __future__ import annotations

import io
import pickle
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bregmat.base.threads import single_thread_blas
from bregmat.sharded.expressions import Expression, tree_reduce, value_of
from bregmat.sharded.shared_points import SHARED_POINTS
from bregmat.sharded.sources import ShardSource

# A solver needs values, violated rows and their weights at one or two iterates, and those of a sample of the rows.
MAX_CACHED = 12  # values that a shard caches
ALIGNMENT = 64  # bytes; the size of a cache line and of the widest vector register


class _Missing(LookupError):
    """A file refers to shared points that are no longer in memory."""


class _Pickler(pickle.Pickler):
    """Writes a name in place of an array that several shards share."""

    def persistent_id(self, obj: Any) -> Any:
        return SHARED_POINTS.name_of(obj) if type(obj) is np.ndarray and obj.ndim == 2 else None


def size_in_file(value: Any) -> int:
    """Bytes of the arrays of an object, without those that several shards share."""
    buffers: list[pickle.PickleBuffer] = []
    _Pickler(io.BytesIO(), protocol=5, buffer_callback=buffers.append).dump(value)
    return sum(buffer.raw().nbytes for buffer in buffers)


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> np.ndarray:
        points = SHARED_POINTS.named(pid)
        if points is None:
            raise _Missing
        return points


class ObjectFiles:
    """Objects of one shard by name, each in a file of its own, from which its arrays are memory-mapped.

    The objects are pickled. Nobody else writes into the folder, and no file outlives the process.

    Parameters
    ----------
    folder : Path
        A new folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # For each name the pickled object without its arrays, and start and size of each array in the file.
        self.entries: dict[str, tuple[bytes, list[tuple[int, int]]]] = {}
        folder.mkdir()

    def put(self, name: str, value: Any) -> None:
        """Write an object; its arrays go to the file byte by byte."""
        buffers: list[pickle.PickleBuffer] = []
        head = io.BytesIO()
        _Pickler(head, protocol=5, buffer_callback=buffers.append).dump(value)
        places = []
        with open(self.folder / name, "wb") as file:
            for buffer in buffers:
                start = -(-file.tell() // ALIGNMENT) * ALIGNMENT
                file.seek(start)
                raw = buffer.raw()
                file.write(raw)
                places.append((start, raw.nbytes))
        self.entries[name] = head.getvalue(), places

    def get(self, name: str) -> Any:
        """The object, with read-only arrays; None if it is not there or refers to shared points that are gone."""
        if name not in self.entries:
            return None
        head, places = self.entries[name]
        # An empty file cannot be mapped.
        whole = np.memmap(self.folder / name, mode="r") if any(size for _, size in places) else np.zeros(0, np.uint8)
        content: Any = whole
        buffers = [memoryview(content)[start : start + size] for start, size in places]
        try:
            return _Unpickler(io.BytesIO(head), buffers=buffers).load()
        except _Missing:
            return None

    def drop(self, name: str) -> None:
        """Delete an object."""
        del self.entries[name]
        (self.folder / name).unlink()


class LocalShard:
    """A shard of this process: its rows, and a cache of values by the keys of their expressions."""

    def __init__(self, load: Callable[[], Any], folder: Path) -> None:
        self._load, self._files = load, ObjectFiles(folder)

    @property
    def rows(self) -> Any:
        """The rows. They are read and bound at the first use, and again if shared points are gone."""
        rows = self._files.get("rows")
        if rows is None:
            rows = self._load()
            if rows.is_worth_storing:
                self._files.put("rows", rows)
        return rows

    def cached(self, key: str) -> Any:
        """The cached value of an expression, or None; the value becomes the most recently used one."""
        entries = self._files.entries
        if key in entries:
            entries[key] = entries.pop(key)
        return self._files.get(key)

    def cache(self, key: str, value: Any) -> None:
        """Cache a value in place of the least recently used one."""
        names = [name for name in self._files.entries if name != "rows"]
        for name in [key] if key in names else names[: len(names) + 1 - MAX_CACHED]:
            self._files.drop(name)
        self._files.put(key, value)


class LocalShards:
    """Shards of this process (:func:`bregmat.sharded.nearest.shards_on`); as many are processed at the same time as there are threads."""

    def __init__(self, settings: Any, sources: Sequence[ShardSource], points: Any, threads: int = 1) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bregmat-", ignore_cleanup_errors=True)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="bregmat-shard") if threads > 1 else None
        firsts = np.cumsum([0, *(source.count for source in sources)])
        self._shards = [
            LocalShard(partial(settings.load, source, points, int(firsts[k])), Path(self._folder.name) / str(k))
            for k, source in enumerate(sources)
        ]
        self._lock = threading.Lock()
        SHARED_POINTS.hold(self, settings.key)
        weakref.finalize(self, _clean_up, self._folder, self._pool)

    def reduce(self, what: Expression, combine: Callable[[Any, Any], Any]) -> Any:
        """The values of an expression on all shards, combined by :func:`bregmat.sharded.expressions.tree_reduce`."""

        def evaluate(shard: LocalShard) -> Any:
            with np.errstate(all="ignore"):
                return value_of(what, shard, {})

        with single_thread_blas(), self._lock:
            run = map if self._pool is None else self._pool.map
            return tree_reduce(list(run(evaluate, self._shards)), combine)


def _clean_up(folder: tempfile.TemporaryDirectory, pool: ThreadPoolExecutor | None) -> None:
    if pool is not None:
        pool.shutdown(wait=False)
    folder.cleanup()
