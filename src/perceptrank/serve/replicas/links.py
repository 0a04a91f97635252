"""Requests between processes of one service, and where its primary is."""

import secrets
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TypeVar

import msgspec

from perceptrank.io.atomic import write_atomically
from perceptrank.serve.client import Client
from perceptrank.serve.errors import LearningOffError, ServiceError
from perceptrank.serve.submissions import Acknowledgement

Result = TypeVar("Result")
AGAIN = "send it again with the same event_id"
_FILE = "primary"
_RELAYED = ("content-t", "x-")  # beginnings of headers
_sending = ThreadPoolExecutor(8, "answers to others")


class Peer(msgspec.Struct, frozen=True):
    """A process of the service: its address, and the token to send it."""

    url: str
    token: str | None = None


class Link(Client):
    """A client of another process of the service, or of one of its rankers."""

    def __init__(self, peer: Peer, ranker: str | None = None) -> None:
        super().__init__(peer.url, token=peer.token, ranker=ranker, retries=1)
        self._open: set[HTTPConnection] = set()  # of all threads

    def _connection(self) -> HTTPConnection:
        connection = super()._connection()
        self._open.add(connection)
        return connection

    def close(self) -> None:
        """Close the connection of this thread."""
        self._open.discard(getattr(self._own, "connection", None))
        super().close()

    def disconnect(self) -> None:
        """Close the connections of all threads, which no longer use them."""
        for connection in tuple(self._open):
            connection.close()

    def call(self, method: str, path: str, kind: type[Result], content: bytes | None = None) -> Result:
        """Send a request; return its response as a message."""
        try:
            return msgspec.json.decode(self._send(method, path, content), type=kind)
        except msgspec.DecodeError as error:
            raise ServiceError(
                f"{self.url} does not answer as expected: {error}", "is it a perceptrank service?"
            ) from None

    def answer(self, path: str, message: msgspec.Struct) -> "Future[Acknowledgement]":
        """Send an answer in another thread."""
        return _sending.submit(self._answer, path, msgspec.json.encode(message))

    def _answer(self, path: str, content: bytes) -> Acknowledgement:
        try:
            return self.call("POST", path, Acknowledgement, content)
        except ServiceError:
            raise
        except OSError as error:
            raise LearningOffError(f"the process that takes this answer is out of reach: {error}", AGAIN) from None

    def relay(self, method: str, path: str, kind: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send a request once, as it came; return status, headers and content of the response, errors included."""
        self.close()  # a connection that was idle may be closed, and not every request can be sent twice
        headers = {"Content-Type": kind, "Authorization": f"Bearer {self._token}"}
        connection = self._connection()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            headers = {name: value for name, value in response.getheaders() if name.lower().startswith(_RELAYED)}
            return response.status, headers, response.read()
        except OSError as error:
            raise LearningOffError(f"the primary is out of reach: {error}", "ask again once it is back") from None
        finally:
            self.close()


@contextmanager
def announced(folder: Path, url: str) -> Iterator[str]:
    """Let replicas of a folder find its primary while it runs; yields a token that all its processes may use."""
    path, token = folder / _FILE, secrets.token_urlsafe(32)
    path.touch(mode=0o600)  # for its user alone
    path.chmod(0o600)
    write_atomically(path, msgspec.json.encode(Peer(url, token)).decode())
    try:
        yield token
    finally:
        path.unlink(missing_ok=True)


def find_primary(folder: Path) -> Peer:
    """Return the primary of a folder; raise if none runs."""
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=Peer)
    except (OSError, msgspec.DecodeError):
        advice = f"start the primary of {folder} on this machine, or name it with --primary URL; {AGAIN}"
        raise LearningOffError("this replica has no primary that takes answers", advice) from None
