"""The log of a ranker in PostgreSQL: the same entries as in SQLite, one writer, every commit flushed to disk."""

import os
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Literal, LiteralString

from perceptrank.serve.errors import DamagedLogError, InvalidRequestError
from perceptrank.serve.log.log import Addition, Event, Log, Row, damage, link_rows, newer
from perceptrank.serve.log.records import FIRST_LINK

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError:
    raise ImportError("--database needs psycopg: pip install 'perceptrank[serve-postgres]'") from None

FORMAT = 1
_SCHEMA: LiteralString = """
CREATE SCHEMA IF NOT EXISTS perceptrank;
CREATE TABLE perceptrank.about (ranker text, name text, value bytea NOT NULL, PRIMARY KEY (ranker, name));
CREATE TABLE perceptrank.entries
    (ranker text, sequence bigint, record bytea NOT NULL, link bytea NOT NULL, PRIMARY KEY (ranker, sequence));
ALTER TABLE perceptrank.entries ALTER record SET STORAGE EXTERNAL; -- features hardly shrink
CREATE TABLE perceptrank.events
    (ranker text, event_id bytea, sequence bigint NOT NULL, digest bytea NOT NULL, PRIMARY KEY (ranker, event_id));
CREATE TABLE perceptrank.cut (ranker text, time timestamptz, sequence bigint, record bytea, link bytea);
"""
_MAKING = 0x7072  # key of the lock under which the tables are made
_ROWS = 256  # entries that are read at once
_BYTES = 2**26  # of records that are sent at once: a message of PostgreSQL's protocol has at most 2**30
_LOCK_SECONDS = 5.0  # for the server to notice that an earlier service was killed

_ADD_EVENTS: LiteralString = (
    "INSERT INTO perceptrank.events SELECT %s, * FROM unnest(%b::bytea[], %b::bigint[], %b::bytea[])"
)
# So that a server or a network that is gone is noticed, here and there, before an answer has waited for too long.
_CONNECTING = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
_SESSION: LiteralString = """
SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
"""


class DatabaseGoneError(OSError):
    """The database cannot be reached, or does not do what it should."""

    advice = "see that PostgreSQL runs and has room, and send the answer again with the same event_id"


class PostgresLog(Log):
    """A log in the schema `perceptrank` of a database.

    The connection that writes holds a lock, so that nobody else writes to it; with `read_only` nothing changes.
    """

    def __init__(self, url: str, ranker: str, *, read_only: bool = False) -> None:
        self._url, self._ranker, self._read_only = url, ranker, read_only
        self._connection: psycopg.Connection[Any] | None = None
        try:
            self._open(_LOCK_SECONDS)
        except BaseException:
            self.close()
            raise

    def _open(self, lock_seconds: float) -> None:
        self._connection, self.path = _connected(self._url)
        self.path = f"the log of {self._ranker!r} in {self.path}"
        self._last: tuple[int, bytes] | None = None
        if not self._read_only:
            self._lock(lock_seconds)
            self._make_tables()
        else:
            self._ask("SET default_transaction_read_only = on")
        version = self._about("", "format")
        if version is None or int(version) > FORMAT:
            raise newer(self.path, version and version.decode(), FORMAT)
        if not self._read_only and self._about(self._ranker, "secret") is None:
            self.secret = secrets.token_bytes(32)
        ((size,),) = self._ask(
            "SELECT pg_total_relation_size('perceptrank.entries') + pg_total_relation_size('perceptrank.events')"
        )
        self._size = int(size)
        ((fsync,),) = self._ask("SELECT current_setting('fsync')")
        self.warnings = [] if fsync == "on" else [f"{self.path}: fsync is {fsync}, so a power failure may lose answers"]

    def _lock(self, seconds: float) -> None:
        key = blake2b(f"perceptrank log {self._ranker}".encode(), digest_size=8).digest()
        number = int.from_bytes(key, "big", signed=True)
        deadline = time.monotonic() + seconds
        while not self._ask("SELECT pg_try_advisory_lock(%s)", number)[0][0]:
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            rows = self._ask(
                "SELECT application_name, client_addr::text FROM pg_locks JOIN pg_stat_activity USING (pid) "
                "WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
                "AND classid::bigint = %s AND objid::bigint = %s",
                int.from_bytes(key[:4], "big"),
                int.from_bytes(key[4:], "big"),
            )
            who = f" ({rows[0][0]}{f', from {rows[0][1]}' if rows[0][1] else ''})" if rows else ""
            raise BlockingIOError(f"{self.path} is used by another service{who}: stop that, or name another database")

    def _make_tables(self) -> None:
        assert self._connection is not None
        if self._ask("SELECT to_regclass('perceptrank.cut') IS NOT NULL")[0][0]:
            return
        with self.transaction():
            self._ask("SELECT pg_advisory_xact_lock(%s)", _MAKING)
            if not self._ask("SELECT to_regclass('perceptrank.cut') IS NOT NULL")[0][0]:
                self._connection.execute(_SCHEMA)
                self._connection.execute(
                    "INSERT INTO perceptrank.about VALUES ('', 'format', %b)", (str(FORMAT).encode(),)
                )

    def _ask(self, query: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows."""
        assert self._connection is not None
        try:
            with self._connection.cursor(binary=True) as cursor:
                cursor.execute(query, values)
                return cursor.fetchall() if cursor.description is not None else []
        except psycopg.Error as error:
            raise _translate(self.path, error) from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is stored, or nothing."""
        assert self._connection is not None
        try:
            with self._connection.transaction():
                yield
        except psycopg.Error as error:
            raise _translate(self.path, error) from None

    def reopen(self) -> None:
        self.close()
        self._open(0.0)

    def reader(self) -> "PostgresLog":
        return PostgresLog(self._url, self._ranker, read_only=True)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def ping(self) -> None:
        self._ask("SELECT 1")

    def _about(self, ranker: str, name: str) -> bytes | None:
        rows = self._ask("SELECT value FROM perceptrank.about WHERE ranker = %s AND name = %s", ranker, name)
        return rows[0][0] if rows else None

    @property
    def size(self) -> int:
        return self._size

    @property
    def secret(self) -> bytes:
        return self._about(self._ranker, "secret") or b""

    @secret.setter
    def secret(self, value: bytes) -> None:
        self._ask(
            "INSERT INTO perceptrank.about VALUES (%s, 'secret', %b) "
            "ON CONFLICT (ranker, name) DO UPDATE SET value = excluded.value",
            self._ranker,
            value,
        )

    def make_room(self, n_bytes: int) -> None:
        content = secrets.token_bytes(n_bytes)  # which cannot be compressed
        with self.transaction():
            self._ask("INSERT INTO perceptrank.about VALUES (%s, 'room', %b)", self._ranker, content)
            self._ask("DELETE FROM perceptrank.about WHERE ranker = %s AND name = 'room'", self._ranker)

    def end(self) -> tuple[int, bytes]:
        if self._last is None or self._read_only:
            rows = self._ask(
                "SELECT sequence, link FROM perceptrank.entries WHERE ranker = %s ORDER BY sequence DESC LIMIT 1",
                self._ranker,
            )
            self._last = rows[0] if rows else (0, FIRST_LINK)
        assert self._last is not None
        return self._last

    def link_of(self, sequence: int) -> bytes | None:
        if sequence == 0:
            return FIRST_LINK
        query: LiteralString = "SELECT link FROM perceptrank.entries WHERE ranker = %s AND sequence = %s"
        links = self._ask(query, self._ranker, sequence)
        return links[0][0] if links else None

    def find_events(self, event_ids: Sequence[str]) -> dict[str, Event]:
        query: LiteralString = (
            "SELECT event_id, sequence, digest FROM perceptrank.events WHERE ranker = %s AND event_id = ANY(%b)"
        )
        rows = self._ask(query, self._ranker, [event_id.encode() for event_id in event_ids])
        return {event_id.decode(): Event(sequence, digest) for event_id, sequence, digest in rows}

    def append(self, additions: Sequence[Addition]) -> list[Row]:
        last, link = self.end()
        rows, events = link_rows(last, link, additions)
        if not rows:
            return rows
        n_bytes = sum(len(row.record) for row in rows)
        parts = min(-(-n_bytes // _BYTES), len(rows))
        self._last = None  # until it is known what was stored
        if parts == 1:
            self._insert(rows, events)
        else:
            with self.transaction():
                for part in range(parts):
                    self._insert(rows[part::parts], events[part::parts])
        self._last = rows[-1].sequence, rows[-1].link
        self._size += n_bytes
        return rows

    def _insert(self, rows: Sequence[Row], events: Sequence[tuple[str, int, bytes]]) -> None:
        """Store entries and events in one statement, which is a transaction of its own if there is no other."""
        entries: LiteralString = (
            "INSERT INTO perceptrank.entries SELECT %s, * FROM unnest(%b::bigint[], %b::bytea[], %b::bytea[])"
        )
        values = (self._ranker, *map(list, zip(*rows, strict=True)))
        if not events:
            self._ask(entries, *values)
            return
        self._ask(f"WITH added AS ({entries}) {_ADD_EVENTS}", *values, self._ranker, *_as_columns(events))

    def add_events(self, events: Sequence[tuple[str, int, bytes]]) -> None:
        self._ask(f"{_ADD_EVENTS} ON CONFLICT DO NOTHING", self._ranker, *_as_columns(events))

    def rows(self, after: int = 0) -> Iterator[Row]:
        query: LiteralString = (
            "SELECT sequence, record, link FROM perceptrank.entries WHERE ranker = %s AND sequence > %s "
            "ORDER BY sequence LIMIT %s"
        )
        while True:
            rows = self._ask(query, self._ranker, after, _ROWS)
            for row in rows:
                yield Row(*row)
            if len(rows) < _ROWS:
                return
            after = rows[-1][0]

    def count(self, table: Literal["events", "cut"]) -> int:
        return int(self._ask(f"SELECT count(*) FROM perceptrank.{table} WHERE ranker = %s", self._ranker)[0][0])

    def cut_from(self, sequence: int) -> int:
        self._last = None
        values = self._ranker, sequence
        with self.transaction():
            cut = self._ask(
                "WITH gone AS (DELETE FROM perceptrank.entries WHERE ranker = %s AND sequence >= %s RETURNING *) "
                "INSERT INTO perceptrank.cut SELECT ranker, now(), sequence, record, link FROM gone RETURNING sequence",
                *values,
            )
            self._ask("DELETE FROM perceptrank.events WHERE ranker = %s AND sequence >= %s", *values)
        return len(cut)


def _as_columns(events: Sequence[tuple[str, int, bytes]]) -> tuple[list[bytes], list[int], list[bytes]]:
    ids, numbers, digests = zip(*events, strict=True)
    return [event_id.encode() for event_id in ids], list(numbers), list(digests)


def rankers_in(url: str) -> list[str]:
    """Return the names of the rankers that a database has logs of."""
    connection, path = _connected(url)
    try:
        with connection:
            if connection.execute("SELECT to_regclass('perceptrank.cut')").fetchone() == (None,):
                return []
            rows = connection.execute("SELECT ranker FROM perceptrank.about WHERE name = 'secret'").fetchall()
        return sorted(name for (name,) in rows)
    except psycopg.Error as error:
        raise _translate(path, error) from None


def _connected(url: str) -> "tuple[psycopg.Connection[Any], str]":
    """Return a connection, and where it leads, without the password."""
    try:
        if not url.startswith(("postgresql://", "postgres://")):
            raise ValueError
        parts = conninfo_to_dict(url)
    except (psycopg.Error, ValueError):  # whose message may have the password
        raise InvalidRequestError(
            "the database must be an address like postgresql://user@host:5432/name", "see PostgreSQL's documentation"
        ) from None
    name = f"perceptrank serve, {socket.gethostname()[:30]}, process {os.getpid()}"
    options: dict[str, Any] = {**_CONNECTING, "application_name": name, **parts, "autocommit": True}
    port = f":{parts['port']}" if "port" in parts else ""
    path = f"postgresql://{parts.get('host', 'localhost')}{port}/{parts.get('dbname', '')}"
    connection: psycopg.Connection[Any] | None = None
    try:
        connection = psycopg.connect(**options)
        connection.execute(_SESSION)
        # An answer is acknowledged once it is flushed; stricter settings of the server, such as for replicas, stay.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        if connection.info.server_version >= 140_000:
            connection.execute("SET idle_session_timeout = 0")
        return connection, path
    except psycopg.Error as error:
        if connection is not None:
            connection.close()
        raise _translate(path, error) from None


def _translate(path: str, error: psycopg.Error) -> OSError | DamagedLogError:
    message = " ".join(str(error).split())
    if error.sqlstate in ("XX001", "XX002"):  # data or an index that is corrupted
        return damage(path, Exception(message))
    return DatabaseGoneError(f"{path}: {message}")
