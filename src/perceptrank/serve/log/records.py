"""Entries of the log: versioned, canonical bytes, each linked to the one before it."""

from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from perceptrank.kernels.arrays import Floats

VERSION = 1
FIRST_LINK = bytes(16)


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


class AnswerEntry(msgspec.Struct, frozen=True, array_like=True, tag="answer"):
    """The documents of a query in the order of their ranking request, and their grades."""

    time: int
    event_id: str
    ranking_id: str | None
    documents: list[str]
    features: bytes  # float64, little-endian, row by row
    grades: bytes
    weight: float

    @property
    def X(self) -> Floats:  # noqa: N802
        """The features, a row per document."""
        return np.frombuffer(self.features, "<f8").reshape(len(self.documents), -1)

    @property
    def relevance(self) -> Floats:
        """The grades."""
        return np.frombuffer(self.grades, "<f8")


Entry = ModelEntry | NamesEntry | AnswerEntry | FixedEntry | ChallengerEntry | RemovalEntry | PromotionEntry

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)


def as_bytes(numbers: Any) -> bytes:
    """Return numbers as an entry holds them."""
    return np.ascontiguousarray(numbers, dtype="<f8").tobytes()


def encode(entry: Entry) -> bytes:
    """Return the bytes of an entry, the same for equal entries."""
    return bytes([VERSION]) + _encoder.encode(entry)


def decode(record: bytes) -> Entry:
    """Return the entry of a record; raise `ValueError` if it is none, or of a newer version."""
    if record[:1] != bytes([VERSION]):
        raise ValueError(f"an entry of version {record[0] if record else None}, this perceptrank reads {VERSION}")
    try:
        entry = _decoder.decode(memoryview(record)[1:])
        if isinstance(entry, AnswerEntry) and len(entry.relevance) != len(entry.X):
            raise ValueError(f"{len(entry.X)} documents, {len(entry.relevance)} grades")
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(f"an entry that cannot be read: {error}") from None
    return entry


def link_after(previous: bytes, record: bytes) -> bytes:
    """Return the link of a record: a checksum of it and of the link before it."""
    return blake2b(record, digest_size=16, key=previous).digest()


def digest_of(entry: AnswerEntry) -> bytes:
    """Return a checksum of what an answer says, whenever it came; a ranking's id stands for its features."""
    features = entry.features if entry.ranking_id is None else b""
    content = [entry.ranking_id, entry.documents, features, entry.grades, entry.weight]
    return blake2b(_encoder.encode(content), digest_size=16).digest()
