"""Shards on the workers of a Dask cluster; the only file that imports Dask.

A shard is the result of a task that loads it, so the scheduler makes it again where a worker has died; what it remembered is worked out
again from the expressions. A step does not go through the scheduler: the driver asks the workers that have the shards, each once, and tasks
do it only where one of them does not answer. Nothing depends on who does what: partial results are put together in the order of their
shards.
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any
from uuid import uuid4

import numpy as np

from bregmat.base.threads import single_thread_blas
from bregmat.sharded.expressions import FAN, Column, Expression, folded, reduced, value_of
from bregmat.sharded.local import REMEMBERED
from bregmat.sharded.parts import POINTS, Part, Setting, ShardSource

LIVES = 8  # rounds of an expression, each of which ends with workers that died again and again
MOST_ASKED = 64  # workers that the driver asks itself; with more of them results are put together on the way, by tasks
PATIENCE = 5.0  # seconds until the scheduler is asked whether a worker that has not answered still has its shards
DISCOURAGED = (
    3  # workers that do not answer in a row, from which on tasks do it all: they may be out of the driver's reach
)


def dask_modules() -> Any:
    """The modules dask and distributed."""
    try:
        import dask
        import distributed
    except ImportError as error:
        raise ImportError("this needs Dask: pip install 'bregmat[dask]'.") from error
    return dask, distributed


def is_client(executor: Any) -> bool:
    """Whether it is a client of a Dask cluster; no import of Dask for what is not."""
    return type(executor).__module__.startswith("distributed") and isinstance(executor, dask_modules()[1].Client)


def client_of(collection: Any) -> Any:
    """The client that persisted a collection; None for one that is nowhere yet."""
    futures = dask_modules()[1].futures_of(collection)
    return futures[0].client if futures else None


def computed(lazy: Any) -> Any:
    """The value of something lazy, or a future: by its cluster where that has parts of it already, else here."""
    distributed = dask_modules()[1]
    if not isinstance(lazy, distributed.Future):
        client = client_of(lazy)
        return lazy.compute(scheduler="synchronous") if client is None else client.compute(lazy, sync=True)
    try:
        distributed.get_worker()
    except ValueError:  # not in a task
        return lazy.result()
    with distributed.worker_client() as client:  # the task gives up its place while it waits
        return client.gather(lazy)


def pieces_of(collection: Any) -> list[Any]:
    """The partitions or blocks of a collection: futures of those that workers have, others with the tasks that they need alone."""
    from dask.delayed import Delayed
    from dask.optimization import cull

    held = {future.key: future for future in dask_modules()[1].futures_of(collection)}
    lazy = np.ravel(collection.to_delayed()).tolist()
    if all(piece.key in held for piece in lazy):
        return [held[piece.key] for piece in lazy]
    graphs = {id(piece.dask): dict(piece.dask) for piece in lazy}
    return [Delayed(piece.key, cull(graphs[id(piece.dask)], [piece.key])[0]) for piece in lazy]


# ---------------------------------------------------------------------- on the workers
@dataclass(frozen=True, eq=False)
class HeldPoints:
    """Points (n, d) in blocks of rows that workers have in memory; a worker asks for those rows that it needs.

    Attributes
    ----------
    shape : (int, int)
    starts : ndarray of int
        First row of each block.
    blocks : list of Future
    """

    shape: tuple[int, int]
    starts: np.ndarray
    blocks: list[Any]

    @classmethod
    def of(cls, array: Any, client: Any) -> HeldPoints:
        """The blocks of a Dask array, some of which are persisted."""
        n, d = array.shape
        return cls((int(n), int(d)), np.cumsum([0, *array.chunks[0]])[:-1], client.compute(pieces_of(array)))

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Some rows, by a slice or ascending numbers; in a task."""
        numbers = np.arange(self.shape[0])[rows] if isinstance(rows, slice) else np.asarray(rows)
        cuts = np.searchsorted(numbers, [*self.starts, self.shape[0]])
        with dask_modules()[1].worker_client() as client:  # the task gives up its place while it waits
            found = [
                client.submit(operator.getitem, block, numbers[a:b] - start, pure=False)
                for block, start, a, b in zip(self.blocks, self.starts, cuts, cuts[1:])
                if a < b
            ]
            return np.concatenate(client.gather(found)) if found else np.zeros((0, self.shape[1]))


class WorkerPlace:
    """A shard on a worker (:class:`bregmat.sharded.expressions.Place`).

    Where it is moved, or has been on disk, it is read again: arrays that have travelled need not be aligned, and then other compiled
    loops work on them, which round differently.
    """

    def __init__(self, setting: Setting, *given: Any) -> None:
        self._given = setting, *given
        self._part: Part | None = None
        self._kept: dict[str, Any] = {}

    @property
    def is_loaded(self) -> bool:
        """Whether the rows are there."""
        return self._part is not None

    @property
    def part(self) -> Part:
        """The rows, read and bound the first time."""
        if self._part is None:
            self.load(self._given[1])
        assert self._part is not None
        return self._part

    def load(self, source: ShardSource) -> None:
        """Read the rows, from the source it was given or one that has read them already."""
        setting, _, *others = self._given
        with single_thread_blas():
            self._part = setting.load(source, *others)
        POINTS.hold(self, setting.key)

    def remembered(self, key: str) -> Any:
        """What was worked out before; what is asked for is the last to be forgotten."""
        found = self._kept.get(key)
        if found is not None:
            self._kept[key] = self._kept.pop(key)
        return found

    def remember(self, key: str, value: Any) -> None:
        """In place of the oldest."""
        while len(self._kept) >= REMEMBERED:
            self._kept.pop(next(iter(self._kept)), None)
        self._kept[key] = value

    def __reduce__(self) -> Any:
        return WorkerPlace, self._given


def _load(
    setting: Setting, source: Any, points: Any, number: int, first: int, names: Sequence[str], *found: Any
) -> WorkerPlace:
    place = WorkerPlace(setting, source, points, number, first)
    place.load(replace(source, **dict(zip(names, found))) if names else source)
    return place


def _one(place: WorkerPlace, what: Expression) -> Any:
    with single_thread_blas(), np.errstate(all="ignore"):
        return value_of(what, place, {})


def _column(place: WorkerPlace, what: Expression) -> Any:
    return np.array(_one(place, what))


def _itself(x: Any) -> Any:
    return x


async def _answer(question: bytes, names: Sequence[tuple[int, str]], count: int, dask_worker: Any) -> bytes | None:
    """What a worker answers for its shards; None where it does not have one of them (any more)."""
    from distributed.protocol.pickle import dumps, loads

    places = {k: dask_worker.data.get(name) for k, name in names}
    if not all(isinstance(place, WorkerPlace) and place.is_loaded for place in places.values()):
        return None
    what, combine = loads(question)
    loop, team = asyncio.get_running_loop(), dask_worker.executors["default"]
    try:
        jobs = [loop.run_in_executor(team, _one, place, what) for place in places.values()]
        values = dict(zip(places, await asyncio.gather(*jobs)))
        groups = _groups(values, combine, count)
    except Exception as error:  # noqa: BLE001 - raised again by the driver
        return bytes(dumps(error))
    return bytes(dumps(groups))


def _groups(values: dict[int, Any], combine: Callable[[Any, Any], Any], count: int) -> tuple[dict, dict]:
    """Nodes of the lowest level of the tree, as far as all their shards are here; and the values of the other shards."""
    nodes, others = {}, dict(values)
    for node in range(-(-count // FAN)):
        members = range(node * FAN, min((node + 1) * FAN, count))
        if all(k in others for k in members):
            nodes[node] = folded(combine, *(others.pop(k) for k in members))
    return nodes, others


class _NoAnswer(Exception):
    """A worker is gone, or does not have its shards any more."""


# ---------------------------------------------------------------------- at the driver
class ClusterRows:
    """Shards on the workers of a cluster (:class:`bregmat.sharded.expressions.Rows`).

    Parameters
    ----------
    setting : Setting
    sources : sequence of ShardSource
        Fields that a source lists in ``lazy`` are Dask's: the cluster works them out, or has them already.
    points : ndarray or what has its shape and its slices
        An array travels to every worker once; files are read there.
    client : dask.distributed.Client
    """

    def __init__(self, setting: Setting, sources: Sequence[ShardSource], points: Any, client: Any) -> None:
        self.client = client
        self._given = setting, list(sources), points
        self._asked: dict[str, list[tuple[int, str]]] | None = None  # workers, and numbers and names of their shards
        self._failures = 0
        self.n_by_tasks = 0  # expressions that went through the scheduler
        self._load()

    def _load(self) -> None:
        setting, sources, points = self._given
        if hasattr(points, "array") and setting.is_shared:  # Dask's: worked out once, for all
            points = self.client.compute(points.array)
        elif hasattr(points, "array") and points.client is not None:
            points = HeldPoints.of(points.array, self.client)
        self._common = [self._task(_itself, setting), self._task(_itself, points)]
        firsts = np.concatenate([[0], np.cumsum([source.count for source in sources])])
        self._shards = []
        for k, source in enumerate(sources):
            names = getattr(source, "lazy", ())
            found = [self.client.compute(getattr(source, name)) for name in names]
            given = self._common[0], source, self._common[1], k, int(firsts[k]), names, *found
            self._shards.append(self._task(_load, *given))
        self._asked = None

    def _task(self, function: Callable[..., Any], *args: Any) -> Any:
        return self.client.submit(function, *args, pure=False)

    def reduce(self, what: Expression, combine: Callable[[Any, Any], Any]) -> Any:
        """The expression on every shard, put together by the tree; lost shards are loaded again."""
        lost: tuple[type[BaseException], ...] = (dask_modules()[1].KilledWorker,)
        for _ in range(LIVES):
            try:
                if self._failures < DISCOURAGED:
                    try:
                        return self._directly(what, combine)
                    except _NoAnswer:
                        self._failures += 1
                        self._asked = None
                return self._by_tasks(what, combine)
            except lost as error:
                died = error
                self._load()
        raise MemoryError(
            "workers died again and again while they worked on a shard, as they do where memory is short: give a smaller block_size "
            f"({died})."
        ) from died

    # ------------------------------------------------------------------ by messages to the workers
    def _directly(self, what: Expression, combine: Callable[[Any, Any], Any]) -> Any:
        from distributed.protocol.pickle import dumps, loads

        if self._asked is None:
            with self.client.as_current():  # it need not be the default one
                dask_modules()[1].wait(self._shards)
            self.client.gather([future for future in self._shards if future.status == "error"])  # raises
            self._asked = self._places()
        if len(self._asked) > MOST_ASKED:
            return self._by_tasks(what, combine)
        question = dumps((what, combine))
        answers = [loads(answer) for answer in self.client.sync(self._ask_all, question, self._asked)]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        self._failures = 0
        nodes: dict[int, Any] = dict(chain.from_iterable(some.items() for some, _ in answers))
        rest = dict(chain.from_iterable(some.items() for _, some in answers))
        nodes |= _groups(rest, combine, len(self._shards))[0]
        return reduced([nodes[k] for k in range(len(nodes))], combine)

    def _places(self) -> dict[str, list[tuple[int, str]]]:
        """Which worker is asked for which shards."""
        having = self.client.who_has(self._shards)
        asked: dict[str, list[tuple[int, str]]] = {}
        for k, future in enumerate(self._shards):
            if not having.get(future.key):
                raise _NoAnswer
            asked.setdefault(min(having[future.key]), []).append((k, future.key))
        return asked

    async def _ask_all(self, question: bytes, asked: dict[str, list[tuple[int, str]]]) -> list[bytes]:
        jobs = {asyncio.ensure_future(self._ask(address, question, names)): address for address, names in asked.items()}
        pending = set(jobs)
        try:
            while pending:
                done, pending = await asyncio.wait(pending, timeout=PATIENCE, return_when=asyncio.FIRST_EXCEPTION)
                for job in done:
                    job.result()  # raises
                if not done:
                    for job in pending:
                        names = asked[jobs[job]]
                        having = await self.client.scheduler.who_has(keys=[name for _, name in names])
                        if not all(jobs[job] in having.get(name, ()) for _, name in names):
                            raise _NoAnswer
            return [job.result() for job in jobs]
        finally:
            for job in pending:
                job.cancel()

    async def _ask(self, address: str, question: bytes, names: list[tuple[int, str]]) -> bytes:
        from distributed.protocol.pickle import dumps

        try:
            given = {"function": dumps(_answer), "args": dumps((question, names, len(self._shards)))}
            reply = await self.client.rpc(address).run(**given, kwargs=dumps({}), wait=True)
        except OSError as error:  # what Dask's errors of connections are
            raise _NoAnswer from error
        answer = reply.get("result")
        if answer is None:
            raise _NoAnswer
        return bytes(answer)

    # ------------------------------------------------------------------ by tasks
    def _by_tasks(self, what: Expression, combine: Callable[[Any, Any], Any]) -> Any:
        self.n_by_tasks += 1
        # few shards: a hop less to the workers and one less back
        question = what if len(self._shards) <= FAN else self._task(_itself, what)
        parts = self.client.map(_one, self._shards, [question] * len(self._shards), pure=False)
        while len(parts) > FAN:
            groups = [parts[k : k + FAN] for k in range(0, len(parts), FAN)]
            parts = [self._task(folded, combine, *group) for group in groups]
        return folded(combine, *self.client.gather(parts))

    def handed_out(self, column: Any) -> Any:
        """A column of a result as a Dask array (c,), in blocks of the shards; lazy."""
        if not isinstance(column, Column):
            return column
        import dask.array

        name = f"bregmat-{uuid4().hex}"
        graph: dict[Any, Any] = {shard.key: shard for shard in self._shards}
        graph |= {(name, k): (_column, shard.key, column.expression) for k, shard in enumerate(self._shards)}
        counts = tuple(source.count for source in self._given[1])
        return dask.array.Array(graph, name, (counts,), dtype=float)
