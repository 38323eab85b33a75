"""The session and its open tabs: which answers arrive, and what the tabs receive.

A tab sends answers over its web socket, as JSON. All tabs receive the next question, which does not wait for the metric. Then they
receive the new map (a binary frame) and what is known with it, and then what takes longer (clusters, contradictions), unless another
answer arrives in between.
"""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from bregmat_app.label.session import Session, SessionState

MOST_TABS = 16
POSITIONS, CLUSTERS = 1, 2  # kind of a binary frame, which continues with the version and with float32 pairs or uint32


class Hub:
    """The session and all its tabs. One thread takes answers and asks, one learns, one does the longer computations."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.tabs: set[WebSocket] = set()
        self._hearer, self._learner, self._searcher = (
            ThreadPoolExecutor(1, name) for name in ("hear", "learn", "search")
        )
        self._question: dict[str, Any] | None = None
        self._details: dict[str, Any] | None = None
        self._clusters: bytes = b""
        self._learning: asyncio.Task | None = None
        self._search: asyncio.Task | None = None
        self._turn = asyncio.Lock()  # so that tabs receive versions in order

    async def serve(self, tab: WebSocket) -> None:
        """Serve one tab until it is closed."""
        if len(self.tabs) >= MOST_TABS:
            await tab.close(1013, "too many tabs")
            return
        async with self._turn:
            self.tabs.add(tab)
            await self._show(self.session.state, [tab])
            if self._question is None:
                self._question = await _run(self._hearer, self._next_question)
            await self._send([tab], self._question)
            if self._details is not None and self._details["version"] == self.session.version:
                await self._send([tab], self._clusters, self._details)
            elif self._search is None or self._search.done():
                self._search = asyncio.create_task(self._look_further(self.session.state))
        try:
            while True:
                message = await tab.receive_text()
                answer = await self._taken(message)
                if answer is not None:
                    await tab.send_text(json.dumps(answer))
        except (WebSocketDisconnect, RuntimeError, KeyError):  # KeyError: a binary message
            pass
        finally:
            self.tabs.discard(tab)

    async def _taken(self, message: str) -> dict[str, Any] | None:
        """Process a message of a tab; return the reply for this tab alone: an error, or what it asked for."""
        try:
            said = json.loads(message)
            if not isinstance(said, dict):
                raise ValueError("a message must be an object")
            match said.get("type"):
                case "say":
                    async with self._turn:
                        await _run(self._hearer, self.session.say, said.get("event"))
                        await self._ask()
                    if self._search is not None:
                        self._search.cancel()
                    if self._learning is None or self._learning.done():
                        self._learning = asyncio.create_task(self._learn())
                case "skip":
                    async with self._turn:
                        await _run(self._hearer, self.session.skip, said.get("point"))
                        await self._ask()
                case "neighbours":
                    found = await asyncio.to_thread(self.session.neighbours, self.session.state, said.get("point"))
                    return {"type": "neighbours", **found}
                case other:
                    raise ValueError(f"unknown message {str(other)[:40]!r}")
        except (ValueError, RecursionError) as error:
            return {"type": "error", "text": str(error)[:300]}
        except OSError as error:  # the journal could not be written, and nothing was changed
            return {"type": "error", "text": f"the answer was not kept: {error.strerror}"}
        return None

    def _next_question(self) -> dict[str, Any]:
        return {"type": "question", "version": self.session.version, "question": self.session.question()}

    async def _ask(self) -> None:
        """Send the next question to all tabs."""
        self._question = await _run(self._hearer, self._next_question)
        await self._send(list(self.tabs), self._question)

    async def _show(self, state: SessionState, tabs: list[WebSocket]) -> None:
        """Send the map, and what is known with it."""
        positions = _frame(POSITIONS, state.version, self.session.positions(state))
        await self._send(tabs, positions, {"type": "shown", **self.session.shown(state)})

    async def _learn(self) -> None:
        """Learn until no new answer is left, and show each map; then do the longer computations."""
        session = self.session
        while session.state.version != session.version:
            state = await _run(self._learner, session.learn)
            async with self._turn:
                await self._show(state, list(self.tabs))
        self._search = asyncio.create_task(self._look_further(session.state))

    async def _look_further(self, state: SessionState) -> None:
        """Compute clusters and contradictions; stop if a new answer arrives."""
        session = self.session
        clusters = await _run(self._searcher, session.clusters, state)
        details = {
            "type": "details",
            "version": state.version,
            **await _run(self._searcher, session.details, state, clusters),
            "unmeetable": await _run(self._searcher, session.unmeetable, state),
        }
        async with self._turn:
            if state.version == session.version:  # no answer has come since
                self._clusters, self._details = _frame(CLUSTERS, state.version, clusters.key.astype(np.uint32)), details
                await self._send(list(self.tabs), self._clusters, details)

    async def _send(self, tabs: list[WebSocket], *messages: Any) -> None:
        """Send messages to tabs; forget a tab that is closed or does not receive them in time."""
        packed = [m if isinstance(m, bytes) else json.dumps(m) for m in messages]

        async def to(tab: WebSocket) -> None:
            try:
                async with asyncio.timeout(5):
                    for m in packed:
                        await (tab.send_bytes(m) if isinstance(m, bytes) else tab.send_text(m))
            except (RuntimeError, WebSocketDisconnect, TimeoutError, OSError):
                self.tabs.discard(tab)

        await asyncio.gather(*(to(tab) for tab in tabs))

    def close(self) -> None:
        """End the threads."""
        for pool in (self._hearer, self._learner, self._searcher):
            pool.shutdown(wait=False, cancel_futures=True)


async def _run(pool: ThreadPoolExecutor, what: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function in a thread of the pool."""
    return await asyncio.get_running_loop().run_in_executor(pool, what, *arguments)


def _frame(kind: int, version: int, values: np.ndarray) -> bytes:
    """A binary message."""
    return np.array([kind, version], dtype="<u4").tobytes() + np.ascontiguousarray(values).tobytes()
