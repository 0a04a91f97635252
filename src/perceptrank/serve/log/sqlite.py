"""The log of a ranker: an SQLite file that is only appended to, flushed to disk with every commit."""

import secrets
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain, count
from pathlib import Path
from typing import Literal

from perceptrank.serve.errors import DamagedLogError
from perceptrank.serve.log.log import (
    ADVICE,
    Addition,
    Event,
    Log,
    Row,
    all_lost,
    damage,
    last_acknowledged,
    link_rows,
    newer,
)
from perceptrank.serve.log.records import FIRST_LINK

APPLICATION = 0x70724C67  # of SQLite's header: ours
FORMAT = 1
_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (sequence INTEGER PRIMARY KEY, record BLOB NOT NULL, link BLOB NOT NULL);
CREATE TABLE events (event_id TEXT PRIMARY KEY, sequence INTEGER NOT NULL, digest BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE cut (time TEXT NOT NULL, sequence INTEGER NOT NULL, record BLOB, link BLOB);
"""
_AT_ONCE = 64  # rows of one statement: after each one, this thread waits for its turn among others
_FIND = f"SELECT event_id, sequence, digest FROM events WHERE event_id IN ({', '.join('?' * _AT_ONCE)})"


class SqliteLog(Log):
    """A log in a file, which is made if it is not there; with `read_only` nothing changes."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self.warnings, self._read_only = path, [], read_only
        try:
            self._open()
            self._check()
        except sqlite3.DatabaseError as error:
            self.close()
            raise damage(path, error) from None
        except BaseException:
            self.close()
            raise

    def _check(self) -> None:
        """Raise if the file is not a log that this version reads; make the tables of a new one."""
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        is_new = self._connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
        if is_new and not self._read_only:
            if n_entries := last_acknowledged(self.path.parent)[0]:
                self.keep_unread()  # which closing removes
                raise all_lost(self.path, n_entries)
            # In one transaction: a log without its secret could never be opened again.
            self._connection.executescript(
                f"BEGIN; {_SCHEMA} INSERT INTO about VALUES ('secret', x'{secrets.token_hex(32)}'); "
                f"PRAGMA application_id={APPLICATION}; PRAGMA user_version={FORMAT}; COMMIT;"
            )
        elif application != APPLICATION:
            raise DamagedLogError(f"{self.path} is not a log of perceptrank", "name the folder of one, or an empty one")
        elif version > FORMAT:
            raise newer(self.path, version, FORMAT)

    def _open(self) -> None:
        uri = f"{self.path.resolve().as_uri()}?mode={'ro' if self._read_only else 'rwc'}"
        self._connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        if not self._read_only:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")

    def reopen(self) -> None:
        self.close()
        self._open()

    def reader(self) -> "SqliteLog":
        return SqliteLog(self.path, read_only=True)

    def copy_to(self, path: Path) -> None:
        """Copy all that is committed to a new file, while others write."""
        with closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # all is in one file until a service writes to it

    def close(self) -> None:
        if hasattr(self, "_connection"):  # which it lacks if the file cannot be opened
            self._connection.close()

    @property
    def size(self) -> int:
        size = 0
        for part in (self.path, self.path.with_name(self.path.name + "-wal")):
            with suppress(FileNotFoundError):  # the second one comes and goes with the connection
                size += part.stat().st_size
        return size

    @property
    def secret(self) -> bytes:
        row = self._connection.execute("SELECT value FROM about WHERE name = 'secret'").fetchone()
        if row is None:
            raise DamagedLogError(f"{self.path} lacks its secret, by which ids of rankings are known", ADVICE)
        return bytes(row[0])

    def make_room(self, n_bytes: int) -> None:
        # What is written and deleted leaves pages that the next entries use; the checkpoint makes room in the WAL too.
        self._connection.execute("INSERT OR REPLACE INTO about VALUES ('room', zeroblob(?))", (n_bytes,))
        self._connection.execute("DELETE FROM about WHERE name = 'room'")
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def end(self) -> tuple[int, bytes]:
        row = self._connection.execute("SELECT sequence, link FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
        return (0, FIRST_LINK) if row is None else (row[0], bytes(row[1]))

    def link_of(self, sequence: int) -> bytes | None:
        if sequence == 0:
            return FIRST_LINK
        row = self._connection.execute("SELECT link FROM entries WHERE sequence = ?", (sequence,)).fetchone()
        return None if row is None else bytes(row[0])

    def find_events(self, event_ids: Sequence[str]) -> dict[str, Event]:
        events = {}
        for first in range(0, len(event_ids), _AT_ONCE):
            some = [*event_ids[first : first + _AT_ONCE]]
            some += some[:1] * (_AT_ONCE - len(some))  # one statement for all numbers of ids, which is compiled once
            for event_id, sequence, digest in self._connection.execute(_FIND, some):
                events[event_id] = Event(sequence, bytes(digest))
        return events

    def append(self, additions: Sequence[Addition]) -> list[Row]:
        rows, events = link_rows(*self.end(), additions)
        run = self._connection
        run.execute("BEGIN IMMEDIATE")
        try:
            for table, values in (("entries", rows), ("events", events)):
                for first in range(0, len(values), _AT_ONCE):
                    some = values[first : first + _AT_ONCE]
                    places = ", ".join(["(?, ?, ?)"] * len(some))
                    run.execute(f"INSERT INTO {table} VALUES {places}", [*chain(*some)])
            run.execute("COMMIT")
        except BaseException:
            if run.in_transaction:
                run.execute("ROLLBACK")
            raise
        return rows

    def add_events(self, events: Sequence[tuple[str, int, bytes]]) -> None:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR IGNORE INTO events VALUES (?, ?, ?)", events)

    def keep_unread(self) -> Path | None:
        written = self.path.with_name(self.path.name + "-wal")
        if not written.exists() or written.stat().st_size == 0:
            return None
        names = (f"{written.name}.damaged{number or ''}" for number in count())
        free = next(path for name in names if not (path := written.with_name(name)).exists())
        return Path(shutil.copyfile(written, free))

    def rows(self, after: int = 0) -> Iterator[Row]:
        try:
            for row in self._connection.execute("SELECT * FROM entries WHERE sequence > ? ORDER BY sequence", (after,)):
                yield Row(*row)
                after = row[0]
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise DamagedLogError(f"{self.path} cannot be read after entry {after}: {error}", ADVICE) from None

    def count(self, table: Literal["events", "cut"]) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def cut_from(self, sequence: int) -> int:
        run, gone = self._connection, "FROM entries WHERE sequence >= ?"
        run.execute("BEGIN IMMEDIATE")
        run.execute(f"INSERT INTO cut SELECT datetime('now'), sequence, record, link {gone}", (sequence,))
        n_cut = run.execute(f"DELETE {gone}", (sequence,)).rowcount
        run.execute("DELETE FROM events WHERE sequence >= ?", (sequence,))
        run.execute("COMMIT")
        return n_cut
