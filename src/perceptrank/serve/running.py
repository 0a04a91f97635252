"""Running the service: the socket, the server, and stopping in order."""

import gc
import signal
import socket
import sys
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from perceptrank.serve.access import Access
from perceptrank.serve.addresses import is_loopback
from perceptrank.serve.errors import InvalidRequestError
from perceptrank.serve.limits import Limits
from perceptrank.serve.slow_clients import SlowClients

SWITCH_SECONDS = 0.0001  # between threads, so that learning never keeps ranking waiting for long


def listen(host: str, port: int, access: Access) -> socket.socket:
    """Return a socket that listens; raise if others could reach it and no token keeps them out."""
    if not is_loopback(host) and not access.tokens:
        raise InvalidRequestError(
            f"others could reach {host}, and there are no tokens",
            "make one with perceptrank serve --add-token NAME=rank,feedback,admin, or leave --host out",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio does not see that it is TCP
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(1024)
    except OSError as error:
        made.close()
        raise OSError(error.errno, f"cannot listen at {host}:{port}: {error.strerror}") from None
    return made


class _Server(uvicorn.Server):
    """A server that does not wait for its clients forever."""

    def __init__(self, config: uvicorn.Config, limits: Limits) -> None:
        super().__init__(config)
        self._slow = SlowClients(limits)

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections every second; the server calls it ten times as often."""
        if counter % 10 == 0:
            self._slow.look(self.server_state.connections)
        return await super().on_tick(counter)


def run(app: FastAPI, listening: socket.socket, started: Callable[[], None], limits: Limits | None = None) -> None:
    """Serve until SIGTERM or SIGINT; requests that have begun are finished."""
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        log_level="warning",
        limit_concurrency=1000,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=30,
        server_header=False,
    )
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: None)  # the server hands them on once it has stopped
    # What is there stays: looking through all of it for cycles would keep a request waiting for a tenth of a second.
    gc.collect()
    gc.freeze()
    server = _Server(config, limits or Limits())
    if (live := getattr(app.state, "live", None)) is not None:  # whose responses have no end
        live.is_stopping = lambda: server.should_exit
    started()
    server.run(sockets=[listening])
