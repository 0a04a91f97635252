"""Backups of a folder while the service runs: the log of each ranker, and its newest snapshots."""

import os
import shutil
import tempfile
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from perceptrank.io.atomic import flush_folder
from perceptrank.serve.errors import DamagedLogError, InvalidRequestError
from perceptrank.serve.log.log import ADVICE, last_acknowledged, note_acknowledged
from perceptrank.serve.log.opening import open_log, ranker_names
from perceptrank.serve.log.sqlite import SqliteLog
from perceptrank.serve.snapshots import Snapshots

_SNAPSHOTS = 2  # newest ones: with one alone, damage to it would cost a replay of the whole log


def back_up(folder: str | Path, destination: str | Path) -> dict[str, int]:
    """Copy a folder, but its tokens, to one that does not exist yet; return the last entry's number of each ranker.

    The copy is there as a whole or not at all, and has every answer that was acknowledged before it began.
    """
    folder, destination = Path(folder), Path(destination)
    if not (names := ranker_names(folder, None)):
        raise FileNotFoundError(f"there is no log in {folder}: name the folder of the service as --data")
    if destination.exists():
        raise FileExistsError(f"{destination} exists already: name a folder that does not")
    destination.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".perceptrank-backup-", dir=destination.parent))
    try:
        ends = {name: _back_up(folder / name, made / name) for name in names}
        flush_folder(made)
        made.rename(destination)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    flush_folder(destination.parent)
    return ends


def _back_up(folder: Path, made: Path) -> int:
    """Copy the folder of a ranker; return the number of the last entry of the copy."""
    acknowledged, link = last_acknowledged(folder)
    (made / "versions").mkdir(parents=True)
    with closing(open_log(folder, read_only=True)) as log:
        if not isinstance(log, SqliteLog):
            raise InvalidRequestError(f"{log.path} is no file", "back up PostgreSQL with pg_dump")
        log.copy_to(made / log.path.name)
    with closing(open_log(made, read_only=True)) as copy:
        end = copy.end()
        if (bad := copy.first_bad()) is not None:
            raise DamagedLogError(f"{log.path} is damaged, from entry {bad} on", ADVICE)
        if copy.link_of(acknowledged) != link:
            raise DamagedLogError(f"{log.path} lacks entry {acknowledged}, which was acknowledged", ADVICE)
        snapshots, kept = Snapshots(folder / "versions"), Snapshots(made / "versions")
        saved = (one.version for one in snapshots.valid(end[0]) if copy.link_of(one.version) == one.link)
        for version in islice(saved, _SNAPSHOTS):
            with suppress(FileNotFoundError):  # the service has just removed it
                shutil.copyfile(snapshots.path(version), kept.path(version))
    note_acknowledged(made, *end)
    for path in (*made.rglob("*"), made):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        else:
            flush_folder(path)
    return end[0]
