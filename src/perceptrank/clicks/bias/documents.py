"""Counts of documents at places: how often each document of a query was shown and clicked where."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perceptrank.clicks.bias.conditional import Cells
from perceptrank.kernels.arrays import Floats, Ints, Words

_PLACE_BITS = np.uint64(10)
MOST_PLACES = 2 ** int(_PLACE_BITS) - 1
_PLACE = np.uint64(MOST_PLACES)


@dataclass(frozen=True)
class DocumentCounts:
    """One row per document of a query and place, sorted: its key, whose lowest bits are the place, and the query's."""

    keys: Words
    queries: Words
    shown: Floats
    clicks: Floats
    X: Floats | None = None  # features of the rows, where they are needed

    @classmethod
    def of(cls, documents: Words, queries: Words, place: Ints, clicked: Floats, X: Floats | None) -> DocumentCounts:
        """Count documents that were shown, at places from 0 on."""
        keys = (documents << _PLACE_BITS) | place.astype(np.uint64)
        return cls(keys, queries, np.ones(len(keys)), clicked, X).summed()

    @classmethod
    def joined(cls, parts: list[DocumentCounts]) -> DocumentCounts:
        """Add up counts of several logs."""
        if len(parts) == 1:
            return parts[0]
        X = None if parts[0].X is None else np.concatenate([part.X for part in parts if part.X is not None])
        return cls(
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.queries for part in parts]),
            np.concatenate([part.shown for part in parts]),
            np.concatenate([part.clicks for part in parts]),
            X,
        ).summed()

    def summed(self) -> DocumentCounts:
        """Return one row per key, in the order of the keys."""
        order = np.argsort(self.keys)
        keys = self.keys[order]
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else np.zeros(0, int)
        firsts = order[starts]
        return replace(
            self,
            keys=keys[starts],
            queries=self.queries[firsts],
            shown=np.add.reduceat(self.shown[order], starts) if len(keys) else self.shown,
            clicks=np.add.reduceat(self.clicks[order], starts) if len(keys) else self.clicks,
            X=None if self.X is None else self.X[firsts],
        )

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def places(self) -> Ints:
        """Place of each row, from 0 on."""
        return (self.keys & _PLACE).astype(np.int64)

    def up_to(self, n_places: int) -> DocumentCounts:
        """Return the rows of the first places."""
        kept = self.places < n_places
        X = None if self.X is None else self.X[kept]
        return DocumentCounts(self.keys[kept], self.queries[kept], self.shown[kept], self.clicks[kept], X)

    def cells(self, n_places: int) -> Cells:
        """Return the documents as groups of cells; places must be below `n_places`."""
        documents = self.keys >> _PLACE_BITS
        new = np.concatenate([[False], documents[1:] != documents[:-1]]) if len(self) else np.zeros(0, bool)
        return Cells(np.cumsum(new), self.places, self.shown, self.clicks, n_places)

    def clusters(self) -> Ints:
        """Return the number of each row's query, from 0 on."""
        return np.asarray(np.unique(self.queries, return_inverse=True)[1])
