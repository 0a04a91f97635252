"""The server: its socket, slow clients, and stopping in order."""

import gc
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from perceptrank.serve.errors import InvalidRequestError
from perceptrank.serve.http.access import Access, is_loopback
from perceptrank.serve.settings import Limits

HEADERS, RESPONSE = "headers", "response"


class SlowClients:
    """Looks at all connections of the server now and then, and closes those that have been stuck for too long.

    Looking costs requests nothing. The server itself closes connections that are idle between requests.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = {HEADERS: limits.header_seconds, RESPONSE: limits.send_seconds}
        self._clock = clock
        self._since: dict[Any, tuple[tuple[str, int], float]] = {}

    def look(self, connections: Iterable[Any]) -> int:
        """Close connections that are stuck; return how many."""
        now, n_closed = self._clock(), 0
        before, self._since = self._since, {}
        for connection in tuple(connections):
            if (kind := stuck_in(connection)) is None:
                continue
            what = kind, id(connection.cycle)  # another request is another matter
            known, since = before.get(connection, (what, now))
            if known != what:
                since = now
            if now - since < self._seconds[kind]:
                self._since[connection] = what, since
                continue
            n_closed += 1
            connection.transport.abort()
        return n_closed


def stuck_in(connection: Any) -> str | None:
    """Return what a connection waits for its client for, None if it does not."""
    cycle = connection.cycle
    if cycle is None or cycle.response_complete:
        # Between requests the server has set a timer, which the first byte of a request stops.
        return HEADERS if connection.timeout_keep_alive_task is None else None
    return RESPONSE if connection.flow.write_paused else None


SWITCH_SECONDS = 0.0001  # between threads, so that learning never keeps ranking waiting for long


def listen(host: str, port: int, access: Access, *, shared: bool = False) -> socket.socket:
    """Return a socket that listens; raise if others could reach it and no token keeps them out.

    Processes that have a `shared` one at a port each get some of the connections.
    """
    if not is_loopback(host) and not access.tokens:
        raise InvalidRequestError(
            f"others could reach {host}, and there are no tokens",
            "make one with perceptrank serve --add-token NAME=rank,feedback,admin, or leave --host out",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio does not see that it is TCP
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen at {host}:{port}: {error.strerror}") from None
    return listener


def address_of(listening: socket.socket) -> str:
    """Return the address at which this machine reaches a socket."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Server(uvicorn.Server):
    """A server that does not wait for its clients forever."""

    def __init__(
        self,
        config: uvicorn.Config,
        limits: Limits,
        started: Callable[[], None],
        before_stop: Callable[[], None] | None,
    ) -> None:
        super().__init__(config)
        self._slow, self._started, self._before_stop = SlowClients(limits), started, before_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so once signals are heeded: whoever reads it may stop the server at once."""
        await super().startup(sockets)
        self._started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; before that, go on serving until what comes before is done."""
        before, self._before_stop = self._before_stop, None
        if before is None:
            super().handle_exit(sig, frame)
            return

        def stop() -> None:
            before()
            super(_Server, self).handle_exit(sig, frame)

        threading.Thread(target=stop, name="stopping").start()

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections every second; the server calls it ten times as often."""
        if counter % 10 == 0:
            self._slow.look(self.server_state.connections)
        return await super().on_tick(counter)


def run(
    app: FastAPI,
    listening: socket.socket,
    started: Callable[[], None],
    limits: Limits | None = None,
    *,
    also: Sequence[socket.socket] = (),
    before_stop: Callable[[], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; requests that have begun are finished, after what is to be done before that."""
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        app,
        http="h11",  # the parser that has a limit for headers
        access_log=False,
        log_config=None,
        log_level="warning",
        limit_concurrency=1000,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=30,
        server_header=False,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # the server hands them on once it has stopped
    # What is there stays: looking through all of it for cycles would keep a request waiting for a tenth of a second.
    gc.collect()
    gc.freeze()
    server = _Server(config, limits or Limits(), started, before_stop)
    if (live := getattr(app.state, "live", None)) is not None:  # whose responses have no end
        live.is_stopping = lambda: server.should_exit
    server.run(sockets=[listening, *also])
