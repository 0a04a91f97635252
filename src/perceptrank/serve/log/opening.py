"""Opening the log of a ranker: SQLite in its folder, or PostgreSQL."""

import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from perceptrank.serve.errors import DamagedLogError, InvalidRequestError
from perceptrank.serve.log.log import Addition, Log, Row
from perceptrank.serve.log.records import QueryEntry, decode, digest_of, ids_of
from perceptrank.serve.log.sqlite import SqliteLog

if TYPE_CHECKING:
    from perceptrank.serve.log.postgres import PostgresLog

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # of a ranker
_FILE = "log.sqlite"
_COPIED = 256  # entries at once


def open_log(folder: Path, database: str | None = None, *, read_only: bool = False) -> Log:
    """Open the log of a ranker, whose name is that of its folder; a log in the folder moves to a database once."""
    if database is None:
        if (folder / f"{_FILE}.moved").exists() and not (folder / _FILE).exists():
            raise InvalidRequestError(f"the log of {folder} was moved to a database", "name it with --database")
        return SqliteLog(folder / _FILE, read_only=read_only)
    from perceptrank.serve.log.postgres import PostgresLog

    log = PostgresLog(database, folder.name, read_only=read_only)
    try:
        if (folder / _FILE).exists() and not read_only:
            _move(folder / _FILE, log)
    except BaseException:
        log.close()
        raise
    return log


def ranker_names(folder: Path, database: str | None) -> list[str]:
    """Return the names of the rankers that a folder has, or a database and the folder."""
    patterns = [f"*/{_FILE}"] + ([f"*/{_FILE}.moved"] if database is None else [])
    folders = {path.parent.name for pattern in patterns for path in folder.glob(pattern)}
    names = {name for name in folders if NAME.fullmatch(name)}
    if database is not None:
        from perceptrank.serve.log.postgres import rankers_in

        names |= set(rankers_in(database))
    return sorted(names)


def _move(path: Path, log: "PostgresLog") -> None:
    """Copy the log of a file to a database, all of it or nothing, and set the file aside."""
    old = SqliteLog(path)
    try:
        last, link = old.end()
        if log.end()[0] == 0:
            if old.first_bad() is not None:
                raise DamagedLogError(f"the end of {path} is damaged", "start once without --database to cut it off")
            with log.transaction():
                log.secret = old.secret
                rows = old.rows()
                while part := [_as_addition(row) for row in islice(rows, _COPIED)]:
                    log.append(part)
        if log.link_of(last) != link:
            raise InvalidRequestError(
                f"{path} and {log.path} have different logs", "leave --database out, or move the file away"
            )
    finally:
        old.close()
    path.rename(path.with_name(f"{_FILE}.moved"))


def _as_addition(row: Row) -> Addition:
    entry = decode(row.record)
    if isinstance(entry, QueryEntry):
        return Addition(row.record, ids_of(entry), digest_of(entry))
    return Addition(row.record)
