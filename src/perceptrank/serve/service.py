"""Several named rankers in one process, each with a folder of its own."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Self

from perceptrank.learners.learner import Learner
from perceptrank.serve.errors import InvalidRequestError, UnknownError
from perceptrank.serve.log.opening import NAME, ranker_names
from perceptrank.serve.ranker import ServedRanker
from perceptrank.serve.settings import Settings

try:
    import fcntl
except ImportError:  # Windows: nothing keeps a second process out
    fcntl = None  # type: ignore[assignment]

DEFAULT = "default"


class Service:
    """All rankers of a folder: existing ones continue, new names start new rankers.

    Other parameters are those of `ServedRanker`. Methods take:

    - `name`: the name of a ranker.

    Parameters
    ----------
    folder : str or Path
        Folder of the service; each ranker has a folder of its name in it.
    models : mapping from names of rankers to models, optional
        Models that new rankers start with, None for an empty learner. Without any ranker there is one, "default".
    database : str, optional
        Address of a PostgreSQL database, postgresql://…, for the logs; logs in the folder are moved there.
    fixed : collection of str
        Names of new rankers whose models do not learn.
    challengers : mapping from names of rankers to mappings from names of challengers to models, optional
        Models that learn silently; names that a log already has are ignored.

    Attributes
    ----------
    rankers : dict of str to ServedRanker
        The rankers by name.

    Raises
    ------
    ServiceError or BlockingIOError
        If a name is invalid, a log cannot be trusted or began with another model, or another process uses the folder.

    Examples
    --------
    >>> import tempfile
    >>> from perceptrank.serve.documents import Document
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Service(folder.name) as service:
    ...     ranker = service.ranker("default")
    ...     ranked = ranker.rank([Document("shoe", {"bm25": 4.1}), Document("boot", {"bm25": 3.9})])
    ...     answer = ranker.feedback(ranked.ranking_id, {"boot": 1.0}).result()
    ...     ranker.flush()
    ...     answer.duplicate, ranker.current.answers
    (False, 1)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        folder: str | Path,
        models: Mapping[str, Learner | None] | None = None,
        settings: Settings | None = None,
        *,
        check_all: bool = True,
        database: str | None = None,
        fixed: Collection[str] = (),
        challengers: Mapping[str, Mapping[str, Learner]] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.rankers: dict[str, ServedRanker] = {}
        wanted = dict(models or {})
        for name in wanted:
            if not NAME.fullmatch(name):
                raise InvalidRequestError(
                    f"the name of a ranker must be up to 64 letters, digits, _ and -, got {name!r}", "choose another"
                )
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.folder)
        try:
            names = list(dict.fromkeys([*ranker_names(self.folder, database), *wanted])) or [DEFAULT]
            if unknown := [name for name in challengers or {} if name not in names]:
                raise InvalidRequestError(
                    f"there is no ranker {unknown[0]!r} to challenge", f"there are {', '.join(names)}"
                )
            for name in names:
                self.rankers[name] = ServedRanker(
                    self.folder / name,
                    wanted.get(name),
                    settings,
                    check_all=check_all,
                    database=database,
                    fixed=name in fixed,
                    challengers=(challengers or {}).get(name),
                )
        except BaseException:
            self.close()
            raise

    def ranker(self, name: str) -> ServedRanker:
        """Return a ranker; raise `UnknownError` if there is none of that name."""
        if name not in self.rankers:
            raise UnknownError(f"there is no ranker {name[:100]!r}", f"there are {', '.join(map(repr, self.rankers))}")
        return self.rankers[name]

    @property
    def first(self) -> str:
        """Name of the ranker used for paths without a name: "default", or the only one, or the first."""
        return DEFAULT if DEFAULT in self.rankers else next(iter(self.rankers))

    def close(self) -> None:
        """Stop all rankers: finish, flush, write snapshots."""
        for ranker in self.rankers.values():
            ranker.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _locked(folder: Path) -> int | None:
    """Keep other processes from writing to a folder, as long as the returned handle is open."""
    if fcntl is None:
        return None
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise BlockingIOError(f"{folder} is used by another process: stop that first, or name another folder") from None
    return handle
