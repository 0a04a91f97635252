"""Logs of primaries as replicas read them: in a folder or database, or at an address."""

import os
from pathlib import Path

import msgspec

from perceptrank.serve.errors import DamagedLogError, ServiceError
from perceptrank.serve.log.log import Log, Row
from perceptrank.serve.log.opening import open_log
from perceptrank.serve.replay import Current, replay
from perceptrank.serve.replicas.links import Link
from perceptrank.serve.snapshots import Snapshots, parse_snapshot

_BYTES = 2**22  # of records that are read at once, one at least


class Batch(msgspec.Struct):
    """Entries after a number, not all if they are many."""

    link: bytes | None  # of the entry before them, None if there is no such entry
    end: int  # number of the log's last entry
    rows: list[Row]


class Start(msgspec.Struct):
    """Text of a snapshot to start from, and the key of the ids of rankings."""

    snapshot: str
    secret: bytes


def read_batch(log: Log, after: int) -> Batch:
    """Read the next entries of a log."""
    link, rows, size = log.link_of(after), list[Row](), 0
    for row in log.rows(after):
        rows.append(row)
        size += len(row.record)
        if size >= _BYTES:
            break
    return Batch(link, log.end()[0], rows)


class FolderSource:
    """The log in the folder of a ranker, or in a database, and the snapshots of the folder; nothing is written."""

    def __init__(self, folder: Path, database: str | None) -> None:
        self._folder, self._database = folder, database
        self._open()
        self.warnings, self.secret = self._log.warnings, self._log.secret

    def _open(self) -> None:
        self._log = open_log(self._folder, self._database, read_only=True)
        self._file = self._look()

    def _look(self) -> int | None:
        """Return what tells the file of the log from one that takes its place."""
        return os.stat(self._log.path).st_ino if self._database is None else None

    @property
    def size(self) -> int:
        """Bytes that are stored."""
        return self._log.size

    def start(self) -> Current:
        """Return the newest snapshot that the log has, with all entries after it."""
        log, snapshots = self._log, Snapshots(self._folder / "versions").valid()
        newest = next((saved for saved in snapshots if log.link_of(saved.version) == saved.link), None)
        after = 0 if newest is None else newest.version
        if (bad := log.first_bad(after)) is not None:
            raise DamagedLogError(f"{log.path}: the end is damaged, from entry {bad} on", "start its primary first")
        if (current := replay(log.rows(after), newest)) is None:
            raise FileNotFoundError(f"{log.path} has no entries yet: start its primary first")
        return current

    def read(self, after: int) -> Batch:
        """Return the entries after a number, of which there may be none."""
        if (file := self._look()) != self._file:  # it was restored from a backup, or could not be read
            self._log.close()
            self._open()
        self._file = -1
        batch = read_batch(self._log, after)
        self._file = file
        return batch

    def close(self) -> None:
        """Close the log."""
        self._log.close()


class AddressSource:
    """The log of a ranker at the address of its primary."""

    size = 0

    def __init__(self, link: Link) -> None:
        self._link, self.secret = link, b""
        self.warnings: list[str] = []

    def start(self) -> Current:
        """Return the model of the primary as it is now."""
        sent = self._link.call("GET", "/snapshot", Start)
        self.secret = sent.secret
        if (snapshot := parse_snapshot(self._link.url, sent.snapshot.encode())) is None:
            raise ServiceError(f"the snapshot of {self._link.url} cannot be read", "use one version of perceptrank")
        return snapshot

    def read(self, after: int) -> Batch:
        """Return the entries after a number; the primary waits a little for some."""
        return self._link.call("GET", f"/entries/{after}", Batch)

    def close(self) -> None:
        """Close the connections."""
        self._link.disconnect()


Source = FolderSource | AddressSource
