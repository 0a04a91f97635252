"""A service that follows another one and ranks with its models."""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from perceptrank.serve.errors import ReadOnlyError
from perceptrank.serve.log.opening import ranker_names
from perceptrank.serve.log.records import Entry
from perceptrank.serve.ranker import TICK, Forward, ServedRanker
from perceptrank.serve.replicas.follower import Follower
from perceptrank.serve.replicas.links import Link, Peer, find_primary
from perceptrank.serve.replicas.sources import AddressSource, FolderSource, Source
from perceptrank.serve.service import Service
from perceptrank.serve.settings import Settings


class ReplicaRanker(ServedRanker):
    """A ranker whose model follows that of a primary, which takes the answers; it writes nothing."""

    thread: Follower

    def __init__(
        self, folder: Path, source: Source, connect: Callable[[str], Link], of: str, settings: Settings
    ) -> None:
        self.folder, self.settings, self._connect = folder, settings, connect
        self.thread = Follower(folder, source, connect, of, settings)
        # In nanoseconds: replicas that start together have different ones, and none has that of a primary.
        self.start = time.time_ns()
        self._init_answering(source.secret, self.start)
        self.thread.follow()
        self._saver = threading.Thread(target=self._log_expired_now_and_then, daemon=True)
        self._saver.start()

    def _log_expired_now_and_then(self) -> None:
        while not self._closing.wait(TICK):
            self._log_expired()

    def owner_of(self, ranking_id: str) -> Forward | None:
        """Return what sends an answer to the primary; None for one to a ranking that was made here."""
        if ranking_id.startswith(f"{self.start}-"):
            return None
        return self._connect(self.folder.name).answer

    def _find_answer(self, event_id: str) -> Entry | None:
        """Return none: the primary has the log."""
        return None

    def versions(self) -> list[int]:
        """Return none: the primary has the snapshots."""
        return []

    def save(self) -> None:
        """Raise: the primary writes the snapshots."""
        raise ReadOnlyError("a replica writes no snapshots", "the primary does")

    def close(self) -> None:
        """Send answers that wait to the primary, and stop."""
        if not self.thread.is_closed:
            self._closing.set()
            self._saver.join()
            self._note_open()
            self.thread.close()
            self.thread.log.close()

    def status(self) -> dict[str, Any]:
        """Return what a ranker does, and how far it is behind its primary."""
        return super().status() | self.thread.lag


class Replica(Service):
    """All rankers of a service that runs elsewhere: they learn what it learns, and send it the answers.

    `target` is its folder on this machine, with the `database` that has its logs if there is one, or its address,
    http://…, with a `token` of the scope admin. `primary` is the address that takes the answers; by default the target,
    or what the primary has written into its folder. Raises a `ServiceError` or `OSError` if there is nothing to follow.
    """

    def __init__(
        self,
        target: str | Path,
        settings: Settings | None = None,
        *,
        database: str | None = None,
        token: str | None = None,
        primary: str | None = None,
    ) -> None:
        self.folder, self.rankers, self._lock = Path(target), {}, None
        self._links: dict[tuple[Peer, str], Link] = {}
        url = str(target) if "://" in str(target) else None
        self.find: Callable[[], Peer] = partial(find_primary, self.folder)
        if url is not None or primary is not None:
            self.find = partial(Peer, primary or url or "", token)
        if url is not None:
            with Link(Peer(url, token)) as link:
                names = list(link.call("GET", "/rankers", dict[str, Any]))
        else:
            names = ranker_names(self.folder, database)
        if not names:
            raise FileNotFoundError(f"there is no log in {target}: --follow the folder that is --data of a service")
        try:
            for name in names:
                folder = self.folder / name
                source = FolderSource(folder, database) if url is None else AddressSource(Link(Peer(url, token), name))
                self.rankers[name] = ReplicaRanker(folder, source, self._connect, str(target), settings or Settings())
        except BaseException:
            self.close()
            raise

    def _connect(self, ranker: str) -> Link:
        """Return the link to a ranker of the primary, whose address may have changed."""
        key = self.find(), ranker
        return self._links.setdefault(key, self._links.get(key) or Link(*key))

    def close(self) -> None:
        """Stop all rankers."""
        super().close()
        for link in self._links.values():
            link.disconnect()
