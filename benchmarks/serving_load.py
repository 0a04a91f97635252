"""Clients to measure servers with: plain sockets, and requests that are ready, so that the server takes the time."""

import http.client
import re
import selectors
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, cast

import numpy as np

FLYING = 4  # requests that a server has waiting, each over a connection of its own


def http_request(path: str, body: bytes) -> bytes:
    kind = "Host: localhost\r\nContent-Type: application/json"
    return f"POST {path} HTTP/1.1\r\n{kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def read_http(connection: socket.socket) -> bytes:
    """Return the body of a response; raise unless its status is 200."""
    data = connection.recv(2**18)
    while b"\r\n\r\n" not in data:
        data += connection.recv(2**18)
    head, _, body = data.partition(b"\r\n\r\n")
    if b" 200 " not in head[:20]:
        raise RuntimeError((head + body)[:500].decode())
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(2**18)
    return body


def read_lines(n: int) -> Callable[[socket.socket], bytes]:
    """Return a reader of so many lines of one connection; what comes after them is kept for the next time."""
    kept = bytearray()

    def read(connection: socket.socket) -> bytes:
        n_lines = kept.count(b"\n")
        while n_lines < n:
            part = connection.recv(2**18)
            n_lines += part.count(b"\n")
            kept.extend(part)
        lines = bytes(kept).split(b"\n", n)
        kept[:] = lines.pop()
        return b"\n".join(lines)

    return read


class Saturation:
    """Requests per second of a server that always has some waiting.

    Parameters
    ----------
    port : int
        Where it listens.
    requests : list of bytes
        What is sent, in turn.
    read : callable
        Reads a response.
    connections : int
        Connections over which requests are sent; those of one follow each other without a wait for the response.
    """

    def __init__(
        self,
        port: int,
        requests: Sequence[bytes],
        read: Callable[[socket.socket], bytes] = read_http,
        connections: int = FLYING,
    ) -> None:
        self._requests, self._read = requests, read
        self._connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
        for one in self._connections:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def rate(self, n: int) -> float:
        """Send n requests; return how many were answered per second."""
        requests, connections = self._requests, self._connections
        start = time.perf_counter()
        for i in range(min(FLYING, n)):
            connections[i % len(connections)].sendall(requests[i % len(requests)])
        for i in range(n):
            self._read(connections[i % len(connections)])
            if i + FLYING < n:
                connections[i % len(connections)].sendall(requests[i % len(requests)])
        return n / (time.perf_counter() - start)

    def close(self) -> None:
        """Close the connections."""
        for one in self._connections:
            one.close()


def flood(port: int, path: str, bodies: Sequence[bytes], connections: int, seconds: float) -> float:
    """Return the requests per second of a server at which every connection always has one waiting.

    By wrk if it is installed, which takes less of a processor than a client in Python.
    """
    if (wrk := shutil.which("wrk")) is None:
        return _flood(port, [http_request(path, body) for body in bodies], connections, seconds)
    bodies_in_lua = ", ".join(f"[==[{body.decode()}]==]" for body in bodies)
    script = f"""
        local bodies, next_one = {{{bodies_in_lua}}}, 0
        request = function()
            next_one = next_one % #bodies + 1
            return wrk.format("POST", "{path}", {{["Content-Type"] = "application/json"}}, bodies[next_one])
        end
        done = function(summary)
            local wrong = summary.errors.connect + summary.errors.read + summary.errors.status + summary.errors.timeout
            io.write(string.format("answered %d in %d, wrong %d\\n", summary.requests, summary.duration, wrong))
        end"""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        words = ["-t", "1", "-c", str(connections), "-d", f"{max(1, round(seconds))}s", "-s", file.name]
        run = subprocess.run([wrk, *words, f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=True)
    found = re.search(r"answered (\d+) in (\d+), wrong (\d+)", run.stdout)
    if found is None or int(found[3]):
        raise RuntimeError(run.stdout + run.stderr)
    return int(found[1]) / (int(found[2]) / 1e6)


def _flood(port: int, requests: Sequence[bytes], connections: int, seconds: float) -> float:
    """Do what wrk does: whichever connection has its response sends the next request."""
    count = 0
    with selectors.DefaultSelector() as selector, ExitStack() as stack:
        for i in range(connections):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall(requests[i % len(requests)])
            selector.register(connection, selectors.EVENT_READ)
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            for key, _ in selector.select():
                connection = cast(socket.socket, key.fileobj)
                read_http(connection)
                connection.sendall(requests[count % len(requests)])
                count += 1
    return count / elapsed


def times(port: int, path: str, bodies: Sequence[bytes], n: int) -> np.ndarray:
    """Seconds of requests over one connection, one after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    found = np.empty(n)
    for i in range(n):
        start = time.perf_counter()
        connection.request("POST", path, bodies[i % len(bodies)])
        connection.getresponse().read()
        found[i] = time.perf_counter() - start
    connection.close()
    return found


def learn_until(port: int, body: bytes, stop: Any, count: Any) -> None:
    """Send answers as fast as the service takes them, until told to stop; for a process of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    n = 0
    while not stop.is_set():
        connection.request("POST", "/v1/learn", body, {"Content-Type": "application/x-ndjson"})
        response = connection.getresponse()
        response.read()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}")
        n += body.count(b"\n") + 1
    connection.close()
    count.put(n)
