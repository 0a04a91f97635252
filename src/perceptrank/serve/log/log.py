"""The interface of a log of a ranker, and what all logs share.

The last entry that was acknowledged is in a file beside the log: a log that lacks it has lost answers. SQLite reads its
write-ahead log up to the first damaged frame, and takes that for the end.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple

from perceptrank.serve.errors import DamagedLogError
from perceptrank.serve.log.records import FIRST_LINK, Entry, decode, link_after

ADVICE = (
    "keep a copy of the folder, then restore the log from a backup, or move the folder away and start anew with "
    "--model and the newest file of its versions; perceptrank serve --verify says what is damaged"
)
_ACKNOWLEDGED = "acknowledged"


class Row(NamedTuple):
    """An entry as it is stored."""

    sequence: int
    record: bytes
    link: bytes


class Event(NamedTuple):
    """An event id that was used: the number of its entry, and a checksum of what the answer says."""

    sequence: int
    digest: bytes


class Addition(NamedTuple):
    """A record to append; an answer comes with its event ids and what it says."""

    record: bytes
    event_ids: tuple[str, ...] = ()
    digest: bytes = b""


class Log(ABC):
    """Entries 1, 2, … of a ranker, linked by checksums; used by one thread at a time, but for `size`."""

    path: Any  # where it is, in words for messages
    warnings: list[str]  # what is unsafe about where it is stored

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes that are stored; never waits, whichever thread asks."""

    @property
    @abstractmethod
    def secret(self) -> bytes:
        """Key of the ids of rankings."""

    @abstractmethod
    def reopen(self) -> None:
        """Connect again after an error of writing, to see what was stored."""

    @abstractmethod
    def reader(self) -> "Log":
        """Open the same log to read it, for another thread."""

    @abstractmethod
    def close(self) -> None:
        """Let others use the log."""

    def ping(self) -> None:
        """Raise if it is known to be out of reach; a file is there, or writing will tell."""

    @abstractmethod
    def make_room(self, n_bytes: int) -> None:
        """Raise if `n_bytes` cannot be appended."""

    @abstractmethod
    def end(self) -> tuple[int, bytes]:
        """Return number and link of the last entry; 0 and the first link if there is none."""

    @abstractmethod
    def link_of(self, sequence: int) -> bytes | None:
        """Return the link of an entry, None if there is no such entry."""

    @abstractmethod
    def find_events(self, event_ids: Sequence[str]) -> dict[str, Event]:
        """Return, for those event ids that were used, what they were used for."""

    @abstractmethod
    def append(self, additions: Sequence[Addition]) -> list[Row]:
        """Append records, all or none of them; when it returns, they are on disk."""

    @abstractmethod
    def add_events(self, events: Sequence[tuple[str, int, bytes]]) -> None:
        """Add event ids that are missing, with the numbers of their entries and the checksums of the answers."""

    def keep_unread(self) -> Path | None:
        """Keep a copy of what was written but cannot be read; return its path, None if there is nothing of the kind."""
        return None

    @abstractmethod
    def rows(self, after: int = 0) -> Iterator[Row]:
        """Iterate over the entries after a number, unchecked."""

    def entry(self, sequence: int) -> Entry:
        """Return an entry that there is."""
        return decode(next(self.rows(sequence - 1)).record)

    @abstractmethod
    def count(self, table: Literal["events", "cut"]) -> int:
        """Return the number of event ids, or of damaged entries that were cut off."""

    @abstractmethod
    def cut_from(self, sequence: int) -> int:
        """Set the entries from a number on aside; return how many there were."""

    def first_bad(self, after: int = 0) -> int | None:
        """Return the number of the entry from which on nothing can be trusted, None if all can.

        Raises if entries after it are in order: then it is not the end of the log that is damaged.
        """
        number, link, bad = after, self.link_of(after), None
        for row in self.rows(after):
            follows = row.sequence == number + 1 and link is not None
            fine = follows and _is_sound(row) and link_after(link or b"", row.record) == row.link
            if fine and bad is not None:
                raise DamagedLogError(
                    f"{self.path}: entry {bad} is damaged, and entry {row.sequence} after it is not", ADVICE
                )
            if not fine and bad is None:
                bad = number + 1
            number, link = row.sequence, bytes(row.link) if _is_sound(row) else None
        return bad


def link_rows(last: int, link: bytes, additions: Sequence[Addition]) -> tuple[list[Row], list[tuple[str, int, bytes]]]:
    """Return the rows of records that are appended after an entry, and the rows of their event ids."""
    rows, events = [], []
    for sequence, addition in enumerate(additions, start=last + 1):
        link = link_after(link, addition.record)
        rows.append(Row(sequence, addition.record, link))
        events += [(event_id, sequence, addition.digest) for event_id in addition.event_ids]
    return rows, events


def all_lost(path: object, n_entries: int) -> DamagedLogError:
    """Return the error for a log that has nothing of what was acknowledged."""
    return DamagedLogError(f"{path} is empty, but {n_entries} entries were acknowledged", ADVICE)


def newer(path: object, version: object, known: int) -> DamagedLogError:
    """Return the error for a log that a newer version has written."""
    return DamagedLogError(f"{path} has version {version}, this perceptrank reads {known}", "upgrade to use it")


def damage(path: object, error: Exception) -> DamagedLogError:
    """Return the error for a log that its database cannot read."""
    return DamagedLogError(f"{path} cannot be read: {error}", ADVICE)


def _is_sound(row: Row) -> bool:
    return isinstance(row.record, bytes) and isinstance(row.link, bytes) and len(row.link) == len(FIRST_LINK)


def note_acknowledged(folder: Path, sequence: int, link: bytes) -> None:
    """Write number and link of the last entry in place; not flushed, since an older one is right as well."""
    text = f"{sequence:020d} {link.hex()}"
    handle = os.open(folder / _ACKNOWLEDGED, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.write(handle, f"{text} {_checksum(text)}\n".encode())
    finally:
        os.close(handle)


def last_acknowledged(folder: Path) -> tuple[int, bytes]:
    """Return number and link of the last entry that was acknowledged; 0 and the first link if that is not known."""
    try:
        text, _, checksum = (folder / _ACKNOWLEDGED).read_text("ascii").strip().rpartition(" ")
        sequence, _, link = text.partition(" ")
        return (int(sequence), bytes.fromhex(link)) if checksum == _checksum(text) else (0, FIRST_LINK)
    except (OSError, ValueError):
        return 0, FIRST_LINK


def _checksum(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()
