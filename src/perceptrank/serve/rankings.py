"""Rankings that wait for their answers, in memory, within limits; their ids tell whether they were ever made."""

import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from hmac import compare_digest
from typing import Any

from perceptrank.serve.documents import Arranged
from perceptrank.serve.errors import ExpiredRankingError, UnknownRankingError
from perceptrank.serve.exploring import Listed
from perceptrank.serve.settings import Settings

_PER_RANKING = 1000  # bytes beside ids, features and their names, about
_PER_PLACE = 100
_PER_TEXT = sys.getsizeof("")
_ID = re.compile(r"([0-9]{1,19})-([0-9]{1,19})-([0-9a-f]{16})")
Places = dict[int, float]  # values by place, from 0


@dataclass(slots=True)
class Waiting:
    """A ranking that waits for its answer, and what was said of the clicks on its places so far."""

    arranged: Arranged
    listed: Listed
    since: float = 0.0
    size: int = 0
    said: dict[str, tuple[bytes, Places, Places]] = field(default_factory=dict)  # checksum, clicks, examined, by event
    is_answered: bool = False

    @property
    def is_open(self) -> bool:
        """True if it was shown, and more clicks may come."""
        return self.listed.is_shown and not self.is_answered

    def values(self, part: int, otherwise: float) -> list[float]:
        """Return the clicks, part 1, or examinations, part 2, of all places: the largest that was said of each."""
        most: Places = {}
        for said in self.said.values():
            places: Any = said[part]
            most |= {place: max(value, most.get(place, 0.0)) for place, value in places.items()}
        return [most.get(place, otherwise) for place in range(len(self.listed.order))]


class Rankings:
    """The rankings of one start of a ranker, and those that an earlier start has noted.

    An id is START-NUMBER-CODE, the code being a keyed checksum of the rest, which tells expired ids from invented ones.
    """

    def __init__(
        self, secret: bytes, start: int, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._secret, self.start, self._settings, self._clock = secret, start, settings, clock
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()
        self._by_coins: dict[int, str] = {}  # those of a session's query are the same at each reload
        self._expired: list[tuple[str, Waiting]] = []
        self._lock = threading.Lock()
        self._number = self._size = 0
        self.n_dropped = 0  # lists that were shown, and could not be logged

    def __len__(self) -> int:
        return len(self._waiting)

    def next_number(self) -> int:
        """Return a number that no other ranking of this start has."""
        with self._lock:
            self._number += 1
            return self._number

    def add(self, number: int, waiting: Waiting, known: tuple[str, ...] | None) -> str:
        """Remember a ranking; return its id. Names that the model has, `known`, are there anyway."""
        ranking_id = f"{self.start}-{number}-{self._code(self.start, number)}"
        self.restore(ranking_id, waiting, known)
        return ranking_id

    def restore(self, ranking_id: str, waiting: Waiting, known: tuple[str, ...] | None) -> None:
        """Remember a ranking that has an id, from now on."""
        arranged = waiting.arranged
        waiting.size = (
            _PER_RANKING + _PER_PLACE * len(waiting.listed.order) + arranged.X.nbytes + _size_of(arranged.ids)
        )
        if arranged.names is not None and arranged.names is not known:
            waiting.size += _size_of(arranged.names)
        waiting.since = self._clock()
        with self._lock:
            if (old := self._waiting.pop(ranking_id, None)) is not None:  # a replica has sent it again
                self._size -= old.size
            self._waiting[ranking_id] = waiting
            self._by_coins[waiting.listed.coins] = ranking_id
            self._size += waiting.size
            self._expire(waiting.since)

    def find(self, ranking_id: str) -> Waiting:
        """Return a ranking; raise if it is unknown or has expired."""
        with self._lock:
            self._expire(self._clock())
            waiting = self._waiting.get(ranking_id)
        if waiting is not None:
            return waiting
        match = _ID.fullmatch(ranking_id)
        if match is None or not compare_digest(match[3], self._code(int(match[1]), int(match[2]))):
            raise UnknownRankingError(
                f"there is no ranking {ranking_id[:100]!r}", "send the ranking_id that POST /v1/rank has returned"
            )
        raise ExpiredRankingError(
            f"the ranking {ranking_id} has expired: rankings wait {self._settings.ranking_seconds:g} seconds for "
            "an answer, less if many wait, and survive a restart only if they were shown to users",
            "send documents and grades together to POST /v1/learn; clicks come too late",
        )

    def find_drawn(self, coins: int) -> tuple[str, Waiting] | None:
        """Return the ranking that was drawn with these coins, None if there is none."""
        with self._lock:
            self._expire(self._clock())
            ranking_id = self._by_coins.get(coins)
            return None if ranking_id is None else (ranking_id, self._waiting[ranking_id])

    def all_open(self) -> list[tuple[str, Waiting]]:
        """Return those that were shown and may still be clicked."""
        with self._lock:
            return [(ranking_id, waiting) for ranking_id, waiting in self._waiting.items() if waiting.is_open]

    def take_expired(self) -> list[tuple[str, Waiting]]:
        """Return, once, those that were shown, and have expired without an answer."""
        with self._lock:
            self._expire(self._clock())
            expired, self._expired = self._expired, []
        return expired

    def take_back(self, ranking_id: str, waiting: Waiting) -> None:
        """Keep an expired ranking that could not be logged, to try again; count it if there are too many."""
        with self._lock:
            self._keep(ranking_id, waiting)

    def _keep(self, ranking_id: str, waiting: Waiting) -> None:
        most = self._settings.waiting_answers
        self._expired.append((ranking_id, waiting))
        self.n_dropped += max(0, len(self._expired) - most)
        del self._expired[:-most]

    def __contains__(self, ranking_id: str) -> bool:
        return ranking_id in self._waiting

    def _expire(self, now: float) -> None:
        limits = self._settings
        while self._waiting:
            ranking_id, oldest = next(iter(self._waiting.items()))
            too_many = len(self._waiting) > limits.rankings
            too_large = self._size > limits.ranking_bytes and len(self._waiting) > 1
            if not too_many and not too_large and now - oldest.since <= limits.ranking_seconds:
                return
            del self._waiting[ranking_id]
            if self._by_coins.get(oldest.listed.coins) == ranking_id:
                del self._by_coins[oldest.listed.coins]
            self._size -= oldest.size
            if oldest.is_open:
                self._keep(ranking_id, oldest)

    def _code(self, start: int, number: int) -> str:
        return blake2b(f"{start}-{number}".encode(), digest_size=8, key=self._secret).hexdigest()


def _size_of(texts: Sequence[str]) -> int:
    """Return the bytes that a list or tuple of texts takes, about."""
    return sys.getsizeof(texts) + _PER_TEXT * len(texts) + sys.getsizeof("".join(texts))
