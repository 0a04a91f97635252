"""Rankings that wait for their answers, in memory, within limits; their ids tell whether they were ever made."""

import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple

from perceptrank.serve.documents import Arranged
from perceptrank.serve.errors import ExpiredRankingError, UnknownRankingError
from perceptrank.serve.settings import Settings

_PER_RANKING = 500  # bytes beside ids, features and their names, about


class _Waiting(NamedTuple):
    arranged: Arranged
    since: float
    size: int


class Rankings:
    """The rankings of one start of a ranker.

    An id is START-NUMBER-CODE, the code being a keyed checksum of the rest: so an id that was never given is told from
    one that has expired, be it in an earlier start, without remembering any.
    """

    def __init__(
        self, secret: bytes, start: int, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._secret, self._start, self._settings, self._clock = secret, start, settings, clock
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        self._lock = threading.Lock()
        self._number = self._size = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, arranged: Arranged, known: tuple[str, ...] | None) -> str:
        """Remember a ranking's documents; return its id. Names that the model has, `known`, are there anyway."""
        size = _PER_RANKING + arranged.X.nbytes + _size_of(arranged.ids)
        if arranged.names is not None and arranged.names is not known:
            size += _size_of(arranged.names)
        now = self._clock()
        with self._lock:
            self._number += 1
            number = self._number
            self._waiting[number] = _Waiting(arranged, now, size)
            self._size += size
            self._expire(now)
        return f"{self._start}-{number}-{self._code(self._start, number)}"

    def find(self, ranking_id: str) -> Arranged:
        """Return the documents of a ranking; raise if it is unknown or has expired."""
        parts = ranking_id.split("-")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts[:2]):
            raise self._unknown(ranking_id)
        start, number = int(parts[0]), int(parts[1])
        if not compare_digest(parts[2].encode(), self._code(start, number).encode()):
            raise self._unknown(ranking_id)
        with self._lock:
            self._expire(self._clock())
            waiting = self._waiting.get(number) if start == self._start else None
        if waiting is None:
            raise ExpiredRankingError(
                f"the ranking {ranking_id} has expired: rankings wait {self._settings.ranking_seconds:g} seconds for "
                "an answer, less if many wait, and not beyond a restart",
                "send documents and grades together to POST /v1/learn",
            )
        return waiting.arranged

    def _expire(self, now: float) -> None:
        limits = self._settings
        while self._waiting:
            number, oldest = next(iter(self._waiting.items()))
            too_many = len(self._waiting) > limits.rankings
            too_large = self._size > limits.ranking_bytes and len(self._waiting) > 1
            if not too_many and not too_large and now - oldest.since <= limits.ranking_seconds:
                return
            del self._waiting[number]
            self._size -= oldest.size

    def _code(self, start: int, number: int) -> str:
        return blake2b(f"{start}-{number}".encode(), digest_size=8, key=self._secret).hexdigest()

    @staticmethod
    def _unknown(ranking_id: str) -> UnknownRankingError:
        return UnknownRankingError(
            f"there is no ranking {ranking_id[:100]!r}", "send the ranking_id that POST /v1/rank has returned"
        )


def _size_of(texts: Sequence[str]) -> int:
    """Return the bytes that a list or tuple of texts takes."""
    return sys.getsizeof(texts) + sum(map(sys.getsizeof, texts))
