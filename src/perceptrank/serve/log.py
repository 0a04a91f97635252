"""The log of a ranker: an SQLite file that is only appended to, flushed to disk with every commit."""

import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from perceptrank.serve.errors import DamagedLogError
from perceptrank.serve.records import FIRST_LINK, link_after

APPLICATION = 0x70724C67  # of SQLite's header: ours
FORMAT = 1
_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (sequence INTEGER PRIMARY KEY, record BLOB NOT NULL, link BLOB NOT NULL);
CREATE TABLE events (event_id TEXT PRIMARY KEY, sequence INTEGER NOT NULL, digest BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE cut (time TEXT NOT NULL, sequence INTEGER NOT NULL, record BLOB, link BLOB);
"""
_AT_ONCE = 64  # event ids that are looked up with one statement
_FIND = f"SELECT event_id, sequence, digest FROM events WHERE event_id IN ({', '.join('?' * _AT_ONCE)})"
ADVICE = (
    "keep a copy of the folder, then restore the log from a backup, or move the folder away and start anew with "
    "--model and the newest file of its versions; perceptrank serve --verify says what is damaged"
)


class Row(NamedTuple):
    """An entry as it is stored."""

    sequence: int
    record: bytes
    link: bytes


class Event(NamedTuple):
    """An event id that was used: where, and for what."""

    sequence: int
    digest: bytes


class Addition(NamedTuple):
    """A record to append; an answer comes with its event id and what it says."""

    record: bytes
    event_id: str | None = None
    digest: bytes = b""


class Log:
    """Entries 1, 2, … of a ranker, linked by checksums.

    Only one thread uses it at a time. It is made if it is not there; with `read_only` nothing changes.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self._read_only = path, read_only
        try:
            self._open()
            (application,) = self._connection.execute("PRAGMA application_id").fetchone()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            is_new = self._connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
            if is_new and not read_only:
                self._create()
                application, version = APPLICATION, FORMAT
        except sqlite3.DatabaseError as error:
            self.close()
            raise damaged(path, error) from None
        if application != APPLICATION or version > FORMAT:
            self.close()
        if application != APPLICATION:
            raise DamagedLogError(f"{path} is not a log of perceptrank", "name the folder of one, or an empty one")
        if version > FORMAT:
            raise DamagedLogError(f"{path} has version {version}, this perceptrank reads {FORMAT}", "upgrade to use it")

    def _open(self) -> None:
        mode = "ro" if self._read_only else "rwc"
        uri = f"{self.path.resolve().as_uri()}?mode={mode}"
        self._connection: sqlite3.Connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False
        )
        if not self._read_only:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")

    def _create(self) -> None:
        self._connection.executescript(
            f"BEGIN; {_SCHEMA} PRAGMA application_id={APPLICATION}; PRAGMA user_version={FORMAT}; COMMIT;"
        )
        self._connection.execute("INSERT INTO about VALUES ('secret', ?)", (secrets.token_bytes(32),))

    def reopen(self) -> None:
        """Drop the connection after an error of writing, and open it again to see what is on disk."""
        self.close()
        self._open()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @property
    def size(self) -> int:
        """Bytes on disk, with what is not yet merged into the file."""
        size = 0
        for part in (self.path, self.path.with_name(self.path.name + "-wal")):
            with suppress(FileNotFoundError):  # the second one comes and goes with the connection
                size += part.stat().st_size
        return size

    @property
    def secret(self) -> bytes:
        """Key of the ids of rankings."""
        (value,) = self._connection.execute("SELECT value FROM about WHERE name = 'secret'").fetchone()
        return bytes(value)

    def check_writable(self) -> None:
        """Raise if nothing can be written."""
        self._connection.execute("UPDATE about SET value = value WHERE name = 'secret'")

    def end(self) -> tuple[int, bytes]:
        """Return number and link of the last entry; 0 and the first link if there is none."""
        found = self._connection.execute("SELECT sequence, link FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
        return (0, FIRST_LINK) if found is None else (found[0], bytes(found[1]))

    def link_of(self, sequence: int) -> bytes | None:
        """Return the link of an entry, None if there is no such entry."""
        if sequence == 0:
            return FIRST_LINK
        found = self._connection.execute("SELECT link FROM entries WHERE sequence = ?", (sequence,)).fetchone()
        return None if found is None else bytes(found[0])

    def find_events(self, event_ids: Sequence[str]) -> dict[str, Event]:
        """Return what event ids were used for, of those that were."""
        found = {}
        for first in range(0, len(event_ids), _AT_ONCE):
            some = [*event_ids[first : first + _AT_ONCE]]
            some += some[:1] * (_AT_ONCE - len(some))  # one statement for all numbers of ids, which is compiled once
            for event_id, sequence, digest in self._connection.execute(_FIND, some):
                found[event_id] = Event(sequence, bytes(digest))
        return found

    def ping(self) -> None:
        """Do nothing: a file is there, or writing will tell."""

    def append(self, additions: Sequence[Addition]) -> list[Row]:
        """Append records, all or none of them; when it returns, they are on disk."""
        rows, events = linked(*self.end(), additions)
        run = self._connection
        run.execute("BEGIN IMMEDIATE")
        try:
            run.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
            run.executemany("INSERT INTO events VALUES (?, ?, ?)", events)
            run.execute("COMMIT")
        except BaseException:
            if run.in_transaction:
                run.execute("ROLLBACK")
            raise
        return rows

    def rows(self, after: int = 0) -> Iterator[Row]:
        """Iterate over the entries after a number, unchecked."""
        try:
            for row in self._connection.execute("SELECT * FROM entries WHERE sequence > ? ORDER BY sequence", (after,)):
                yield Row(*row)
                after = row[0]
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise DamagedLogError(f"{self.path} cannot be read after entry {after}: {error}", ADVICE) from None

    def n_events(self) -> int:
        """Return the number of event ids."""
        return int(self._connection.execute("SELECT count(*) FROM events").fetchone()[0])

    def n_cut(self) -> int:
        """Return the number of damaged entries that were cut off."""
        return int(self._connection.execute("SELECT count(*) FROM cut").fetchone()[0])

    def first_bad(self, after: int = 0) -> int | None:
        """Return the number of the entry from which on nothing can be trusted, None if all can.

        Raises if entries after it are in order: then it is not the end of the log that is damaged.
        """
        return first_bad(self, after)

    def cut_from(self, sequence: int) -> int:
        """Set the entries from a number on aside; return how many there were."""
        run = self._connection
        run.execute("BEGIN IMMEDIATE")
        run.execute(
            "INSERT INTO cut SELECT datetime('now'), sequence, record, link FROM entries WHERE sequence >= ?",
            (sequence,),
        )
        n_cut = run.execute("DELETE FROM entries WHERE sequence >= ?", (sequence,)).rowcount
        run.execute("DELETE FROM events WHERE sequence >= ?", (sequence,))
        run.execute("COMMIT")
        return n_cut


class _Linked(Protocol):
    @property
    def path(self) -> object: ...
    def link_of(self, sequence: int) -> bytes | None: ...
    def rows(self, after: int = 0) -> Iterator[Row]: ...


def linked(last: int, link: bytes, additions: Sequence[Addition]) -> tuple[list[Row], list[tuple[str, int, bytes]]]:
    """Return the rows of records that are appended after an entry, and the rows of their event ids."""
    rows, events = [], []
    for sequence, one in enumerate(additions, start=last + 1):
        link = link_after(link, one.record)
        rows.append(Row(sequence, one.record, link))
        if one.event_id is not None:
            events.append((one.event_id, sequence, one.digest))
    return rows, events


def first_bad(log: _Linked, after: int) -> int | None:
    """Return the number of the entry after which nothing fits; raise if something after it does."""
    number, link, bad = after, log.link_of(after), None
    for row in log.rows(after):
        follows = row.sequence == number + 1 and link is not None
        fine = follows and _is_sound(row) and link_after(link or b"", row.record) == row.link
        if fine and bad is not None:
            raise DamagedLogError(
                f"{log.path}: entry {bad} is damaged, and entry {row.sequence} after it is not", ADVICE
            )
        if not fine and bad is None:
            bad = number + 1
        number, link = row.sequence, bytes(row.link) if _is_sound(row) else None
    return bad


def damaged(path: object, error: Exception) -> DamagedLogError:
    """Return the error for a file that SQLite cannot read."""
    return DamagedLogError(f"{path} cannot be read: {error}", ADVICE)


def _is_sound(row: Row) -> bool:
    return isinstance(row.record, bytes) and isinstance(row.link, bytes) and len(row.link) == len(FIRST_LINK)
