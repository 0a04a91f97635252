"""Checking a folder: every link, every entry, and every snapshot against a replay of the log."""

import sqlite3
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from perceptrank.io.model_file import model_text
from perceptrank.serve.errors import DamagedLogError
from perceptrank.serve.log.log import damage, last_acknowledged
from perceptrank.serve.log.opening import open_log, ranker_names
from perceptrank.serve.log.records import PromotionEntry, QueryEntry, decode, digest_of
from perceptrank.serve.replay import Current, replay
from perceptrank.serve.snapshots import Snapshots


@dataclass(frozen=True)
class Verification:
    """Findings in the folder of a ranker.

    Attributes
    ----------
    ranker : str
    entries, answers, snapshots : int
        Numbers of those that were compared.
    problems : tuple of str
    """

    ranker: str
    entries: int
    answers: int
    snapshots: int
    problems: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems


def verify(folder: str | Path, database: str | None = None) -> list[Verification]:
    """Replay all logs of a folder, answer by answer, and compare every snapshot with the replayed model, bit by bit.

    Nothing is changed. Raises `FileNotFoundError` if there is no log.

    Parameters
    ----------
    folder : str or Path
        Folder of a service, which may be running.
    database : str, optional
        Address of the PostgreSQL database that has the logs, if the folder does not.

    Examples
    --------
    >>> import tempfile
    >>> from perceptrank.serve import Service
    >>> folder = tempfile.TemporaryDirectory()
    >>> Service(folder.name).close()
    >>> [(result.ranker, result.is_sound) for result in verify(folder.name)]
    [('default', True)]
    >>> folder.cleanup()
    """
    names = ranker_names(Path(folder), database)
    if not names:
        where = folder if database is None else "the database"
        raise FileNotFoundError(f"there is no log in {where}: name the folder that was given to serve as --data")
    return [_verify(name, Path(folder) / name, database) for name in names]


def _verify(name: str, folder: Path, database: str | None) -> Verification:
    problems: list[str] = []
    snapshots = Snapshots(folder / "versions")
    expected: dict[int, Current] = {}
    for version in snapshots.versions():
        if (snapshot := snapshots.read(version)) is None:
            if not snapshots.path(version).exists():  # a running service has just removed it
                continue
            problems.append(f"the snapshot of version {version} is damaged: {snapshots.path(version)}")
        else:
            expected[version] = snapshot
    n_compared = 0
    current: Current | None = None
    n_said = n_wrong = 0  # answers, and notes of lists
    sequence, link = last_acknowledged(folder)  # before the log, which a running service goes on writing
    try:
        log = open_log(folder, database, read_only=True)
    except DamagedLogError as error:
        return Verification(name, 0, 0, 0, (*problems, str(error)))
    try:
        if (bad := log.first_bad()) is not None:
            problems.append(f"the end of the log is damaged, from entry {bad} on: a start will cut it off")
        elif log.link_of(sequence) != link:
            problems.append(f"the log has lost entries that were acknowledged: it lacks entry {sequence} as it was")
        if n_cut := log.count("cut"):
            problems.append(f"{n_cut} damaged entries were cut off earlier; they are in the table 'cut'")
        for row in takewhile(lambda row: bad is None or row.sequence < bad, log.rows()):
            entry = decode(row.record)
            if isinstance(entry, QueryEntry):
                n_said += 1
                event = log.find_events([entry.event_id]).get(entry.event_id)
                n_wrong += event != (row.sequence, digest_of(entry))
            if isinstance(entry, PromotionEntry) and entry.error is not None and current is not None:
                challenger = current.shadow.challengers.get(entry.name)
                if challenger is not None and not challenger.is_better(entry.error):
                    problems.append(f"entry {row.sequence} promotes {entry.name!r}, which the log does not show better")
            current = replay([row], current)  # one by one, where the service learns blocks
            if current is not None and (snapshot := expected.pop(row.sequence, None)) is not None:
                n_compared += 1
                if not _agree(snapshot, current):
                    problems.append(f"the snapshot of version {row.sequence} differs from the log's replay")
        if bad is None and (n_events := log.count("events")) < n_said:
            problems.append(f"{n_said} answers, but {n_events} event ids")
        elif n_wrong:
            what = "sent again, they would count twice or be refused"
            problems.append(f"the event ids of {n_wrong} answers are damaged: {what}")
        problems += [f"the log does not have version {version} of a snapshot" for version in expected]
    except sqlite3.DatabaseError as error:
        problems.append(str(damage(log.path, error)))
    except ValueError as error:  # of a damaged log among others
        problems.append(str(error))
    finally:
        log.close()
    entries, answers = (0, 0) if current is None else (current.version, current.answers)
    return Verification(name, entries, answers, n_compared, tuple(problems))


def _agree(snapshot: Current, replayed: Current) -> bool:
    """Compare bits; challengers that stopped may have lacked memory in one of the two, and are left out."""
    both = (snapshot.shadow.challengers, replayed.shadow.challengers)
    stopped = {name for challengers in both for name, challenger in challengers.items() if challenger.is_stopped}
    return _bits(snapshot, stopped) == _bits(replayed, stopped)


def _bits(current: Current, stopped: set[str]) -> tuple[object, ...]:
    plain = current.shadow.as_plain()
    plain["challengers"] = [saved for saved in plain["challengers"] if saved["name"] not in stopped]
    kept = (current.link, current.n_features, current.names, current.answers, current.refused)
    of_lists = (current.open, current.impressions, current.notes)
    return (model_text(current.learner.as_document()), *kept, *of_lists, plain)
