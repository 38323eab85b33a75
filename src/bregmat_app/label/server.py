"""The web server of the page (Starlette): static files, pictures, downloads, and one web socket per tab.

The server listens on the loopback address, where every page in the same browser, and other users of the machine, can send requests to
it. They are refused: every address of the page begins with a secret, the key, which only the link in the terminal has. The Host has to
be the address of the server (a name that an attacker points to the loopback address is not), and the Origin the page itself.
"""

from __future__ import annotations

import asyncio
import gc
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketClose

from bregmat_app.label.hub import Hub
from bregmat_app.label.points import LARGE, SMALL
from bregmat_app.label.session import DOWNLOADS, Session, exported

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
STATIC = Path(__file__).parent / "static"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".csv": "text/csv",
    ".json": "application/json", ".bm": "application/octet-stream"}  # fmt: skip
FILES = {path.name for path in STATIC.iterdir() if path.suffix in TYPES}
LONGEST_MESSAGE = 65_536  # bytes of one message of a tab


class Guard:
    """Middleware that checks every request before the application sees it, and adds :data:`HEADERS` to every response."""

    def __init__(self, app: ASGIApp, port: int, key: str) -> None:
        self.app, self.hosts, self.key = app, {f"127.0.0.1:{port}", f"localhost:{port}"}, key

    def refusal(self, headers: Mapping[str, str], path: str, *, needs_origin: bool = False) -> str:
        """Return why a request is refused; empty if it is not."""
        if headers.get("host", "").lower() not in self.hosts:
            return "this page answers to its own address only"
        origin = headers.get("origin")
        is_own = not needs_origin if origin is None else origin.lower() in {f"http://{name}" for name in self.hosts}
        if not is_own:
            return "requests of other pages are refused"
        has_key = secrets.compare_digest(path.removeprefix("/").partition("/")[0].encode(), self.key.encode())
        return "" if has_key else "Open the link that the terminal shows."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        headers, is_socket = Headers(scope=scope), scope["type"] == "websocket"
        reason = self.refusal(headers, scope["path"], needs_origin=is_socket)

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                sent.update(HEADERS)
                if reason:  # who is refused keeps no connection
                    sent["connection"] = "close"
            await send(message)

        if not reason:
            await self.app(scope, receive, send_safely)
        elif is_socket:
            await WebSocketClose(1008)(scope, receive, send)
        else:
            await PlainTextResponse(reason, 403)(scope, receive, send_safely)


def make_app(session: Session, port: int, key: str) -> Starlette:
    """Return the application; every address begins with the key."""
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
    app = Starlette(routes=[Mount(f"/{key}", routes=routes)], middleware=[Middleware(Guard, port=port, key=key)])
    app.state.hub = hub
    return app


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


def serve(session: Session, listening: socket.socket, key: str) -> None:
    """Serve until interrupted. Call this where Ctrl-C ends the whole block rather than a run of a solver."""
    session.learning.warm_up()
    gc.collect()
    gc.freeze()  # a full garbage collection over the loaded modules would delay an answer
    app = make_app(session, listening.getsockname()[1], key)
    config = uvicorn.Config(
        app,
        http="h11",
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
