"""The live page: its files, and the stream of events behind it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from perceptrank.serve.page.live import Live, Watcher
from perceptrank.serve.service import Service

# Nothing but our own files: no script or style in the page itself, no other site, no frame around it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_SEND_SECONDS = 10.0  # for a watcher to take a frame
_LOOK_SECONDS = 0.5  # between looks at whether the service stops
_KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css"}


class Page:
    """The files of the page, which hold no data and are for everyone, and the events, which are for those who may."""

    def __init__(self, live: Live, service: Service, allows: Callable[[str | None, str], bool]) -> None:
        self._live, self._service, self._allows = live, service, allows
        own = files("perceptrank.serve.page")
        look = files("perceptrank.evaluation").joinpath("page.css").read_text(encoding="utf-8")
        self._files = {
            "html": own.joinpath("page.html").read_text(encoding="utf-8"),
            "js": own.joinpath("page.js").read_text(encoding="utf-8"),
            "css": look + own.joinpath("page.css").read_text(encoding="utf-8"),
        }
        self._tags = {name: f'"{sha256(text.encode()).hexdigest()[:32]}"' for name, text in self._files.items()}

    def paths(self) -> list[tuple[str, str, Callable[[Request], Awaitable[Response]]]]:
        """Return path, scope and handler of everything that belongs to the page."""
        return [
            ("/", "", partial(self.file, "html")),
            ("/page.js", "", partial(self.file, "js")),
            ("/page.css", "", partial(self.file, "css")),
            ("/live", "watch", self.events),
            ("/live/{name}", "watch", self.events),
        ]

    async def events(self, request: Request) -> Response:
        """Return server-sent events, a frame each second."""
        watcher = self._live.add(request.path_params.get("name", self._service.first))
        may_watch = partial(self._allows, request.headers.get("authorization"), "watch")
        return EventStream(self._live, watcher, may_watch)

    async def file(self, name: str, request: Request) -> Response:
        """Return a file of the page."""
        headers = HEADERS | {"ETag": self._tags[name]}
        if request.headers.get("if-none-match") == self._tags[name]:
            return Response(None, 304, headers)
        return Response(self._files[name], 200, headers, f"{_KINDS[name]}; charset=utf-8")


class EventStream(Response):
    """Frames as they come, until the watcher leaves, takes none, or may no longer watch, or the service stops."""

    def __init__(self, live: Live, watcher: Watcher, may_watch: Callable[[], bool]) -> None:
        headers = HEADERS | {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(None, 200, headers, "text/event-stream")
        del self.headers["content-length"]
        self._live, self._watcher, self._may_watch = live, watcher, may_watch

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the frames."""
        left = asyncio.ensure_future(_disconnected(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while not left.done() and not self._live.is_stopping() and self._may_watch():
                frame = await self._watcher.next(_LOOK_SECONDS)
                if frame is not None:
                    async with asyncio.timeout(_SEND_SECONDS):
                        await send({"type": "http.response.body", "body": frame, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:  # the server closes a connection whose response is not whole
            pass
        finally:
            self._live.remove(self._watcher)
            left.cancel()
            with suppress(asyncio.CancelledError):
                await left


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
