"""The web server of the page (Starlette): static files, pictures, downloads, and one web socket per tab.

Every address of the page begins with a secret, and only the link in the terminal leads there (:class:`Guard`, ``safety.py``).
"""

import asyncio
import gc
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketClose
from uvicorn.protocols.http.h11_impl import H11Protocol

from bregmat_app.label.hub import Hub
from bregmat_app.label.points import LARGE, SMALL
from bregmat_app.label.safety import HEADERS, AccessControl, redirect_page
from bregmat_app.label.session import DOWNLOADS, Session, exported

STATIC = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".csv": "text/csv",
    ".json": "application/json", ".bm": "application/octet-stream", ".py": "text/x-python"}  # fmt: skip
FILES = {path.name for path in STATIC.iterdir() if path.suffix in TYPES}
LONGEST_MESSAGE = 65_536  # bytes of one message of a tab
MOST_WAITING = 64  # open connections that have not sent a request


class Guard:
    """Middleware that checks every request before the application sees it."""

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        headers, is_socket = Headers(scope=scope), scope["type"] == "websocket"
        reason = self.access.refusal(headers, needs_origin=is_socket)
        is_known = not reason and self.access.is_known(headers, scope["path"])

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                sent.update(HEADERS)
                if not is_known:  # connections without the cookie are closed
                    sent["connection"] = "close"
            await send(message)

        if is_known:
            await self.app(scope, receive, send_safely)
        elif is_socket:
            await WebSocketClose(1008)(scope, receive, send)
        else:
            answer = PlainTextResponse(reason, 403) if reason else self._entrance(scope)
            await answer(scope, receive, send_safely)

    def _entrance(self, scope: Scope) -> Response:
        """Answer a request without the cookie: give the cookie in exchange for the token, or refuse.

        A page redirects the browser instead of an HTTP redirect, because browsers send strict cookies only if a page of the same
        site, or the user, opens an address.
        """
        query = QueryParams(scope.get("query_string", b""))
        if scope["path"] != "/" or "token" not in query:
            return PlainTextResponse("Open the link that the terminal shows; it works once.", 403)
        cookie = self.access.admit(query["token"])
        if cookie is None:
            words = "This link was used before, or is none; the terminal shows a new one if it was."
            return PlainTextResponse(words, 403)
        home = f"/{self.access.key}/"
        return HTMLResponse(redirect_page(home, icon=f"{home}static/icon.svg"), headers={"set-cookie": cookie})


def make_app(session: Session, access: AccessControl) -> Starlette:
    """Return the application; `access` decides which requests are allowed."""
    hub = Hub(session)

    async def static(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in FILES:
            raise HTTPException(404)
        return Response((STATIC / name).read_bytes(), media_type=TYPES[Path(name).suffix])

    async def about(request: Request) -> Response:
        return JSONResponse(session.about())

    async def point(request: Request) -> Response:
        if (i := request.path_params["i"]) >= session.points.n:
            raise HTTPException(404)
        return JSONResponse({"text": session.points.text(i)})

    async def picture(request: Request) -> Response:
        i = request.path_params["i"]
        size = LARGE if "large" in request.query_params else SMALL
        try:
            data = await asyncio.to_thread(session.points.picture, i, size) if i < session.points.n else None
        except ValueError as error:
            return PlainTextResponse(str(error), 422)
        if data is None:
            raise HTTPException(404)
        return Response(data, media_type="image/png")

    async def take(request: Request) -> Response:
        if (name := request.path_params["name"]) not in DOWNLOADS:
            raise HTTPException(404)
        try:
            data = await asyncio.to_thread(exported, session, session.state, name)
        except (ValueError, ImportError) as error:
            return PlainTextResponse(str(error), 409)
        kind = TYPES[Path(name).suffix]
        return Response(data, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})

    async def tab(socket: WebSocket) -> None:
        await socket.accept()
        await hub.serve(socket)

    routes = [
        Route("/", static),
        Route("/about.json", about),
        Route("/points/{i:int}", point),
        Route("/pictures/{i:int}", picture),
        Route("/take/{name}", take),
        Route("/static/{name}", static),
        WebSocketRoute("/tab", tab),
    ]
    app = Starlette(routes=[Mount(f"/{access.key}", routes=routes)], middleware=[Middleware(Guard, access=access)])
    app.state.hub = hub
    return app


class Connection(H11Protocol):
    """A connection of a browser, or of any other process of this machine.

    If too many connections have not sent a request, the oldest of them is closed. A limit on all connections would let idle
    connections lock the owner out.
    """

    since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, and close the oldest waiting one if there are too many."""
        super().connection_made(transport)
        self.since = self.loop.time()
        open_ones: Iterable[Any] = self.connections
        waiting = [other for other in open_ones if isinstance(other, Connection) and other.cycle is None]
        if len(waiting) > MOST_WAITING:
            min(waiting, key=lambda other: other.since).transport.abort()


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the loopback address; port 0 means any that is free. OSError names the address."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"cannot listen there: {error.strerror}", f"127.0.0.1:{port}") from error
    listening.listen(64)
    return listening


def serve(session: Session, access: AccessControl, listening: socket.socket) -> None:
    """Serve until interrupted. Call this where Ctrl-C ends the whole block rather than a run of a solver."""
    session.learning.warm_up()
    gc.collect()
    gc.freeze()  # a full garbage collection over the loaded modules would delay an answer
    app = make_app(session, access)
    config = uvicorn.Config(
        app,
        http=Connection,
        log_level="error",
        access_log=False,
        ws="websockets-sansio",
        ws_max_size=LONGEST_MESSAGE,
        ws_per_message_deflate=False,  # compression takes longer than sending over the loopback address
        timeout_graceful_shutdown=1,
        lifespan="off",
        server_header=False,
        h11_max_incomplete_event_size=16_384,
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        app.state.hub.close()
