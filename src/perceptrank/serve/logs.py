"""The interface of a log, and the one that a service has: SQLite in its folder, or PostgreSQL."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from perceptrank.serve.errors import DamagedLogError, InvalidRequestError
from perceptrank.serve.log import Addition, Event, Log, Row
from perceptrank.serve.records import AnswerEntry, decode, digest_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # of a ranker
_FILE = "log.sqlite"
_COPIED = 256  # entries at once


class AnyLog(Protocol):
    """Entries 1, 2, … of a ranker, linked by checksums; used by one thread at a time, but for `size`."""

    @property
    def path(self) -> object:
        """Its place, in words for messages."""

    @property
    def size(self) -> int:
        """Bytes that are stored; never waits, whichever thread asks."""

    @property
    def secret(self) -> bytes:
        """Key of the ids of rankings."""

    def reopen(self) -> None:
        """Connect anew after an error of writing, to see what was stored."""

    def close(self) -> None:
        """Let others use the log."""

    def ping(self) -> None:
        """Raise if it is known to be out of reach."""

    def check_writable(self) -> None:
        """Raise if nothing can be written."""

    def end(self) -> tuple[int, bytes]:
        """Return number and link of the last entry; 0 and the first link if there is none."""

    def link_of(self, sequence: int) -> bytes | None:
        """Return the link of an entry, None if there is no such entry."""

    def find_events(self, event_ids: Sequence[str]) -> dict[str, Event]:
        """Return what event ids were used for, of those that were."""

    def append(self, additions: Sequence[Addition]) -> list[Row]:
        """Append records, all or none of them; when it returns, they are on disk."""

    def rows(self, after: int = 0) -> Iterator[Row]:
        """Iterate over the entries after a number, unchecked."""

    def n_events(self) -> int:
        """Return the number of event ids."""

    def n_cut(self) -> int:
        """Return the number of damaged entries that were cut off."""

    def first_bad(self, after: int = 0) -> int | None:
        """Return the number of the entry from which on nothing can be trusted, None if all can."""

    def cut_from(self, sequence: int) -> int:
        """Set the entries from a number on aside; return how many there were."""


def open_log(folder: Path, database: str | None = None, *, read_only: bool = False) -> AnyLog:
    """Open the log of a ranker, whose name is that of its folder; a log in the folder moves to a database once."""
    if database is None:
        if (folder / f"{_FILE}.moved").exists() and not (folder / _FILE).exists():
            raise InvalidRequestError(f"the log of {folder} was moved to a database", "name it with --database")
        return Log(folder / _FILE, read_only=read_only)
    from perceptrank.serve.postgres_log import PostgresLog

    made = PostgresLog(database, folder.name, read_only=read_only)
    try:
        if (folder / _FILE).exists() and not read_only:
            _move(folder / _FILE, made)
    except BaseException:
        made.close()
        raise
    return made


def ranker_names(folder: Path, database: str | None = None) -> list[str]:
    """Return the names of the rankers that a folder has, or a database and the folder."""
    found = {path.parent.name for path in folder.glob(f"*/{_FILE}") if NAME.fullmatch(path.parent.name)}
    if database is None:
        found |= {path.parent.name for path in folder.glob(f"*/{_FILE}.moved") if NAME.fullmatch(path.parent.name)}
    else:
        from perceptrank.serve.postgres_log import rankers_in

        found |= set(rankers_in(database))
    return sorted(found)


def _move(path: Path, made: AnyLog) -> None:
    """Copy the log of a file to a database, all of it or nothing, and set the file aside."""
    from perceptrank.serve.postgres_log import PostgresLog

    assert isinstance(made, PostgresLog)
    old = Log(path)
    try:
        last, link = old.end()
        if made.end()[0] == 0:
            if old.first_bad() is not None:
                raise DamagedLogError(
                    f"the end of {path} is damaged", "start once without --database, which cuts it off"
                )
            with made.transaction():
                made.secret = old.secret
                part: list[Addition] = []
                for row in old.rows():
                    part.append(_as_addition(row))
                    if len(part) == _COPIED:
                        made.append(part)
                        part = []
                made.append(part)
        if made.link_of(last) != link:
            raise InvalidRequestError(
                f"{path} and {made.path} have different logs", "leave --database out, or move the file away"
            )
    finally:
        old.close()
    path.rename(path.with_name(f"{_FILE}.moved"))


def _as_addition(row: Row) -> Addition:
    entry = decode(row.record)
    if isinstance(entry, AnswerEntry):
        return Addition(row.record, entry.event_id, digest_of(entry))
    return Addition(row.record)
