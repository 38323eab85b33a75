"""Shards in this process, one or a few at a time; what they are made of and what they remember waits in temporary files in between."""

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
from bregmat.sharded.expressions import Expression, reduced, value_of
from bregmat.sharded.parts import POINTS, Part, Setting, ShardSource

REMEMBERED = 12  # expressions of a shard: values, violated rows and their weights at an iterate or two, and a sample
ALIGNED = 64


class _Forgotten(LookupError):
    """A file names shared points that are gone: what it holds is worked out again."""


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Any:
        return POINTS.name_of(obj) if type(obj) is np.ndarray and obj.ndim == 2 else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> np.ndarray:
        found = POINTS.named(pid)
        if found is None:
            raise _Forgotten
        return found


class Drawer:
    """What one shard has put away: objects by name, their arrays mapped from files of our own, which nobody else writes.

    Parameters
    ----------
    folder : Path
        Ours alone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.names = folder, dict[str, tuple[bytes, list[tuple[int, int]]]]()
        folder.mkdir()

    def put(self, name: str, value: Any) -> None:
        """Write an object; its arrays go to a file as they are."""
        buffers: list[pickle.PickleBuffer] = []
        head = io.BytesIO()
        _Pickler(head, protocol=5, buffer_callback=buffers.append).dump(value)
        places = []
        with open(self.folder / name, "wb") as file:
            for buffer in buffers:
                start = -(-file.tell() // ALIGNED) * ALIGNED
                file.seek(start)
                raw = buffer.raw()
                file.write(raw)
                places.append((start, raw.nbytes))
        self.names[name] = head.getvalue(), places

    def get(self, name: str) -> Any:
        """The object, its arrays read-only; None where it is not there, or part of it has been let go."""
        if name not in self.names:
            return None
        head, places = self.names[name]
        whole = np.memmap(self.folder / name, mode="r") if any(size for _, size in places) else np.zeros(0, np.uint8)
        try:
            content: Any = whole
            buffers = [memoryview(content)[start : start + size] for start, size in places]
            return _Unpickler(io.BytesIO(head), buffers=buffers).load()
        except _Forgotten:
            return None

    def drop(self, name: str) -> None:
        """Forget an object."""
        del self.names[name]
        (self.folder / name).unlink()


class LocalPlace:
    """A shard of this process (:class:`bregmat.sharded.expressions.Place`)."""

    def __init__(self, load: Callable[[], Part], folder: Path) -> None:
        self._load, self._drawer = load, Drawer(folder)

    @property
    def part(self) -> Part:
        """The rows: read and bound the first time, and again only where shared points have gone."""
        found = self._drawer.get("rows")
        if found is None:
            found = self._load()
            if not found.is_light:
                self._drawer.put("rows", found)
        return found

    def remembered(self, key: str) -> Any:
        """What was worked out before; what is asked for is the last to be forgotten."""
        found = self._drawer.get(key)
        if found is not None:
            self._drawer.names[key] = self._drawer.names.pop(key)
        return found

    def remember(self, key: str, value: Any) -> None:
        """Put away, in place of the oldest."""
        kept = [name for name in self._drawer.names if name != "rows"]
        for name in [key] * (key in kept) or kept[: len(kept) + 1 - REMEMBERED]:
            self._drawer.drop(name)
        self._drawer.put(key, value)


class LocalRows:
    """Shards of this process (:class:`bregmat.sharded.expressions.Rows`).

    Parameters
    ----------
    setting : Setting
    sources : sequence of ShardSource
    points : ndarray or what has its shape and its slices
    threads : int
        Shards that are worked on at once; as many are in memory.
    """

    def __init__(self, setting: Setting, sources: Sequence[ShardSource], points: Any, threads: int = 1) -> None:
        self.threads = threads
        self._folder = tempfile.TemporaryDirectory(prefix="bregmat-", ignore_cleanup_errors=True)
        self._team = ThreadPoolExecutor(threads, thread_name_prefix="bregmat-shard") if threads > 1 else None
        firsts = np.concatenate([[0], np.cumsum([source.count for source in sources])])
        self._places = [
            LocalPlace(partial(setting.load, source, points, k, int(firsts[k])), Path(self._folder.name) / str(k))
            for k, source in enumerate(sources)
        ]
        self._lock = threading.Lock()
        POINTS.hold(self, setting.key)
        weakref.finalize(self, _let_go, self._folder, self._team)

    def reduce(self, what: Expression, combine: Callable[[Any, Any], Any]) -> Any:
        """The expression on every shard, put together by the tree."""

        def one(place: LocalPlace) -> Any:
            with np.errstate(all="ignore"):
                return value_of(what, place, {})

        with single_thread_blas(), self._lock:
            parts = list(map(one, self._places) if self._team is None else self._team.map(one, self._places))
        return reduced(parts, combine)

    def handed_out(self, column: Any) -> Any:
        """A column of a result as the user has it."""
        return column


def _let_go(folder: tempfile.TemporaryDirectory, team: ThreadPoolExecutor | None) -> None:
    if team is not None:
        team.shutdown(wait=False)
    folder.cleanup()
