"""Entries of the log: versioned, canonical bytes, each linked to the one before it."""

from hashlib import blake2b
from typing import Any, Self

import msgspec
import numpy as np

from perceptrank.kernels.arrays import Floats

VERSION = 2  # 1 has no lists that were shown; entries of other kinds are still written as such
FIRST_LINK = bytes(16)
_PART = 1920  # bytes; for more, Python gives way to other threads, and getting back takes longer than the checksum


class ModelEntry(msgspec.Struct, frozen=True, array_like=True, tag="model"):
    """From here on, the ranker is this model: the one it began with, an earlier version, or another one."""

    time: int  # nanoseconds since 1970
    reason: str
    document: bytes  # the text of a model file


class FixedEntry(ModelEntry, frozen=True, array_like=True, tag="fixed"):
    """From here on, the ranker is this model, which ranks and does not learn."""


class ChallengerEntry(msgspec.Struct, frozen=True, array_like=True, tag="challenger"):
    """From here on, this model learns silently under a name, and is compared with the one that ranks."""

    time: int
    name: str
    measure: str
    document: bytes


class RemovalEntry(msgspec.Struct, frozen=True, array_like=True, tag="removal"):
    """There is no longer a challenger of this name."""

    time: int
    name: str


class PromotionEntry(msgspec.Struct, frozen=True, array_like=True, tag="promotion"):
    """From here on, the ranker is the challenger of this name; `error` is the rate stated, None if done by hand."""

    time: int
    name: str
    error: float | None


class NamesEntry(msgspec.Struct, frozen=True, array_like=True, tag="names"):
    """The features of a ranker that has not learned anything: their number, and their names if they have some."""

    time: int
    n_features: int
    names: list[str] | None


class QueryEntry(msgspec.Struct, frozen=True, array_like=True):
    """The documents of a query in the order of their ranking request; an event id comes with what was said of them."""

    time: int
    event_id: str
    ranking_id: str | None
    documents: list[str]
    features: bytes  # float64, little-endian, row by row

    @property
    def X(self) -> Floats:  # noqa: N802
        """The features, a row per document."""
        return as_numbers(self.features).reshape(len(self.documents), -1)

    @property
    def n_features(self) -> int:
        """Number of its features."""
        return len(self.features) // (8 * len(self.documents))

    @property
    def n_bytes(self) -> int:
        """Bytes of its features, and a little more."""
        return len(self.features) + 8 * len(self.documents)


class AnswerEntry(QueryEntry, frozen=True, array_like=True, tag="answer"):
    """An answer that has grades, one for each document."""

    grades: bytes
    weight: float

    @property
    def relevance(self) -> Floats:
        """The grades."""
        return as_numbers(self.grades)


class ShownEntry(QueryEntry, frozen=True, array_like=True, tag="shown"):
    """A list that was shown, with its clicks so far, of which more may follow: nothing is learned from it yet."""

    said: bytes  # a checksum of what was said with the event id
    order: list[int]  # documents shown, by number, best first
    base: list[int]  # those that the ranking without exploration has at these places
    policy: str
    propensities: bytes  # of the places
    coins: int  # seed of all random choices
    clicks: bytes
    examined: bytes  # NaN where it is not known
    user_query: str | None
    by: str  # the challenger whose ranking was explored, empty for the model that ranks
    chances: dict[str, float]  # of each of them to be that one
    version: int  # the model that ranked
    names: list[str] | None  # of the features, as long as nothing is learned from it

    @property
    def end_id(self) -> str:
        """Stands among the event ids for the impression that ends it, of which there is one."""
        return f"{self.ranking_id}::end"

    @property
    def coins_id(self) -> str:
        """Stands among the event ids for its random choices, from which is learned once; empty if there were none."""
        return f"{self.coins:x}::coins" if self.policy != "none" else ""

    def as_repeated(self) -> Self:
        """Return the same list as one that is not random: what its coins say was counted before."""
        certain = as_bytes(np.ones(len(self.order)))
        return msgspec.structs.replace(self, base=self.order, policy="none", propensities=certain, by="", chances={})

    def columns(self) -> dict[str, Floats]:
        """Return place, clicked, examined and propensity, a value per document, as a log of clicks has them."""
        m = len(self.documents)
        columns = {"place": np.zeros(m), "clicked": np.zeros(m)}
        columns |= {"examined": np.full(m, np.nan), "propensity": np.full(m, np.nan)}
        columns["place"][self.order] = np.arange(1, len(self.order) + 1)
        own = {"clicked": self.clicks, "examined": self.examined, "propensity": self.propensities}
        for name, values in own.items():
            columns[name][self.order] = as_numbers(values)
        return columns


class ImpressionEntry(ShownEntry, frozen=True, array_like=True, tag="impression"):
    """A list that was shown, with all its clicks, to learn from."""


Answered = AnswerEntry | ShownEntry | ImpressionEntry
Entry = Answered | ModelEntry | FixedEntry | NamesEntry | ChallengerEntry | RemovalEntry | PromotionEntry

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)


def as_bytes(numbers: Any) -> bytes:
    """Return numbers as an entry holds them."""
    return np.ascontiguousarray(numbers, dtype="<f8").tobytes()


def as_numbers(numbers: bytes) -> Floats:
    """Return the numbers of an entry."""
    return np.frombuffer(numbers, "<f8")


def ids_of(entry: QueryEntry) -> tuple[str, ...]:
    """Return the event ids that an entry uses: its own, and those of the end of a list and of its random choices."""
    own = (entry.end_id, entry.coins_id) if isinstance(entry, ImpressionEntry) else ()
    return tuple(dict.fromkeys(filter(None, (entry.event_id, *own))))


def encode(entry: Entry) -> bytes:
    """Return the bytes of an entry, the same for equal entries; raise if it could not be read again."""
    if isinstance(entry, ShownEntry):
        _check_shown(entry)
    return bytes([VERSION if isinstance(entry, ShownEntry) else 1]) + _encoder.encode(entry)


def decode(record: bytes) -> Entry:
    """Return the entry of a record; raise `ValueError` if it is none, or of a newer version."""
    if not record or not 1 <= record[0] <= VERSION:
        version = record[0] if record else None
        raise ValueError(f"an entry of version {version}, this perceptrank reads up to {VERSION}")
    try:
        entry = _decoder.decode(memoryview(record)[1:])
        if isinstance(entry, AnswerEntry) and len(entry.relevance) != len(entry.X):
            raise ValueError(f"{len(entry.X)} documents, {len(entry.relevance)} grades")
        if isinstance(entry, ShownEntry):
            _check_shown(entry)
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(f"an entry that cannot be read: {error}") from None
    return entry


def link_after(previous: bytes, record: bytes) -> bytes:
    """Return the link of a record: a checksum of it and of the link before it."""
    checksum, content = blake2b(digest_size=16, key=previous), memoryview(record)
    for start in range(0, len(record), _PART):
        checksum.update(content[start : start + _PART])
    return checksum.digest()


def digest_of(entry: QueryEntry) -> bytes:
    """Return a checksum of what an answer says, whenever it came; a ranking's id stands for its features."""
    if isinstance(entry, ShownEntry):
        return entry.said
    assert isinstance(entry, AnswerEntry)
    features = entry.features if entry.ranking_id is None else b""
    return digest([entry.ranking_id, entry.documents, features, entry.grades, entry.weight])


def digest(content: Any) -> bytes:
    """Return a checksum of plain values."""
    return blake2b(_encoder.encode(content), digest_size=16).digest()


def _check_shown(entry: ShownEntry) -> None:
    n, m = len(entry.order), len(entry.X)
    rows = {*entry.order}
    if not n or len(rows) < n or len(entry.base) != n or not all(0 <= row < m for row in (*rows, *entry.base)):
        raise ValueError(f"the list {entry.order} of {m} documents")
    for name in ("propensities", "clicks", "examined"):
        if len(as_numbers(getattr(entry, name))) != n:
            raise ValueError(f"{n} documents shown, {len(as_numbers(getattr(entry, name)))} {name}")
