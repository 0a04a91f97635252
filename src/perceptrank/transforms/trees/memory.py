"""A uniform sample of the queries so far, within a number of bytes."""

from __future__ import annotations

import base64
import zlib
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from perceptrank.io.model_file import finite_numbers, whole_number
from perceptrank.kernels.arrays import Features, Floats, Ints
from perceptrank.kernels.chance import noise

_LARGEST = float(np.finfo(np.float32).max)
_LEFT = 7 / 8  # of the room, after queries were dropped: so that this is rare
_OVERHEAD = 1_000  # bytes of a query beside its numbers


class Remembered(NamedTuple):
    """A query: its number among all, its features in single precision, grades, and weight."""

    number: int
    X: npt.NDArray[np.float32]
    relevance: Floats
    weight: float

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return self.X.nbytes + self.relevance.nbytes + _OVERHEAD


class Memory:
    """All queries so far, while they fit into a number of bytes; from then on a uniform sample of them.

    Each query has a random number, which depends on the seed and on how many came before it. Those of the smallest
    numbers are kept, as many as there is room for, in their order; a query that is larger than the room is not.

    `room` and `size` are the bytes that there are and that the queries take, `seen` is the number of queries so far,
    and `part` that of a part of the data, with random numbers of its own.
    """

    def __init__(self, room: int, seed: int, part: int = 0) -> None:
        self.room, self.seed, self.part, self.seen, self.size = room, seed, part, 0, 0
        self._limit = 1.0  # of the random numbers
        self._kept: list[Remembered] = []  # shared with copies, which know how many of them are theirs
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def queries(self) -> list[Remembered]:
        """Return the queries that are kept, in the order in which they came."""
        return self._kept[: self._n]

    def copy(self) -> Memory:
        """Return a copy that can be added to; it takes next to no time, as queries are shared."""
        twin = Memory.__new__(Memory)
        twin.__dict__.update(self.__dict__)
        return twin

    def add(self, X: Features, relevance: Floats, offsets: Ints, weights: Floats) -> None:
        """Add queries, those of weight 0 left out."""
        for q in np.flatnonzero(weights > 0.0).tolist():
            rows = slice(offsets[q], offsets[q + 1])
            number, self.seen = self.seen, self.seen + 1
            if not noise(self.seed, number, self.part) < self._limit:
                continue
            features = np.clip(X[rows], -_LARGEST, _LARGEST).astype(np.float32)
            query = Remembered(number, features, np.array(relevance[rows]), float(weights[q]))
            if query.size > self.room:
                continue
            if len(self._kept) != self._n:  # a copy has added others
                self._kept = self.queries()
            self._kept.append(query)
            self._n, self.size = self._n + 1, self.size + query.size
            if self.size > self.room:
                self._drop()

    def _drop(self) -> None:
        """Drop the queries of the largest random numbers, and all later ones with numbers as large."""
        chances, order = self._by_chance()
        sizes = np.cumsum([self._kept[place].size for place in order.tolist()])
        n = int(np.searchsorted(sizes, _LEFT * self.room, side="right"))
        self._limit = float(chances[order[n]])
        self._keep(self.sample(n))

    def _by_chance(self) -> tuple[Floats, Ints]:
        """Return the random numbers of the queries that are kept, and their order by these."""
        chances = np.array([noise(self.seed, query.number, self.part) for query in self.queries()])
        return chances, np.argsort(chances, kind="stable")

    def sample(self, n: int) -> list[Remembered]:
        """Return the n queries of the smallest random numbers, or all of fewer, in the order in which they came."""
        return [self._kept[place] for place in np.sort(self._by_chance()[1][:n]).tolist()]

    def _keep(self, queries: list[Remembered]) -> None:
        self._kept, self._n = queries, len(queries)
        self.size = sum(query.size for query in queries)

    def as_plain(self) -> dict[str, Any]:
        """Return the queries as plain values, their features and grades compressed."""
        queries = self.queries()
        return {
            "seen": self.seen,
            "limit": self._limit,
            "numbers": [query.number for query in queries],
            "lengths": [len(query.relevance) for query in queries],
            "weights": [query.weight for query in queries],
            "features": _packed([query.X for query in queries], "<f4"),
            "grades": _packed([query.relevance for query in queries], "<f8"),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any], room: int, seed: int, n_features: int) -> Self:
        """Return the memory that `as_plain` converted; raise if it is inconsistent."""
        memory = cls(room, seed)
        memory.seen = whole_number("seen", plain["seen"])
        memory._limit = float(finite_numbers("limit", [plain["limit"]], 1)[0])
        n = len(plain["numbers"])
        numbers = [whole_number("numbers", number) for number in plain["numbers"]]
        lengths = [whole_number("lengths", length) for length in plain["lengths"]]
        weights = finite_numbers("weights", plain["weights"], n)
        rising = all(first < second for first, second in zip(numbers, [*numbers[1:], memory.seen], strict=False))
        if len(lengths) != n or not rising or 0 in lengths or (weights <= 0).any() or not 0 <= memory._limit <= 1:
            raise ValueError("the queries that trees remember must have numbers that rise, documents, and weights")
        if sum(lengths) * (4 * n_features + 8) > 2 * room:
            raise ValueError(f"the queries that trees remember must fit into {room} bytes")
        X = _unpacked("features", plain["features"], "<f4", sum(lengths) * n_features).reshape(sum(lengths), n_features)
        grades = _unpacked("grades", plain["grades"], "<f8", sum(lengths)).astype(np.float64)
        if not np.isfinite(X).all() or not (np.isfinite(grades) & (grades >= 0)).all():
            raise ValueError("features and grades that trees remember must be finite, and grades not negative")
        ends = np.cumsum([0, *lengths]).tolist()
        memory._keep(
            [
                Remembered(numbers[q], X[ends[q] : ends[q + 1]], grades[ends[q] : ends[q + 1]], float(weights[q]))
                for q in range(n)
            ]
        )
        return memory


def _packed(arrays: list[Any], kind: str) -> str:
    content = b"".join(np.ascontiguousarray(array, kind).tobytes() for array in arrays)
    return base64.b64encode(zlib.compress(content, 1)).decode()


def _unpacked(name: str, text: Any, kind: str, n: int) -> npt.NDArray[Any]:
    """Return n numbers, whatever the text would become; raise unless it is as many."""
    size = n * np.dtype(kind).itemsize
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), size + 1)
    except (TypeError, ValueError, zlib.error) as error:
        raise ValueError(f"{name} that trees remember are damaged: {error}") from None
    if len(content) != size:
        raise ValueError(f"{name} that trees remember must be {n} numbers")
    return np.frombuffer(content, kind).astype(np.dtype(kind).newbyteorder("="))
