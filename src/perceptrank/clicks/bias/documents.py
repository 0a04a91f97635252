"""Counts of documents at places: how often each document of a query was shown and clicked where.

Queries and documents are numbers of 64 bits in place of texts, the same in every process. Two of ten million documents
share a number with a probability of 1 %; then they are counted as one document, which is harmless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.clicks.bias.conditional import Cells
from perceptrank.kernels.arrays import Bools, Floats, Ints, Words
from perceptrank.stream.texts import Texts, mix

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
    X: Floats  # features of the rows; none where they are not needed

    @classmethod
    def of(cls, documents: Words, queries: Words, place: Ints, clicked: Floats, X: Floats) -> DocumentCounts:
        """Count documents that were shown, at places from 0 on."""
        keys = (documents << _PLACE_BITS) | place.astype(np.uint64)
        return cls(keys, queries, np.ones(len(keys)), clicked, X).summed()

    @classmethod
    def joined(cls, parts: list[DocumentCounts]) -> DocumentCounts:
        """Add up counts of several logs."""
        if len(parts) == 1:
            return parts[0]
        columns: Any = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*map(np.concatenate, columns)).summed()

    def summed(self) -> DocumentCounts:
        """Return one row per key, in the order of the keys."""
        order = np.argsort(self.keys)
        keys = self.keys[order]
        starts = np.flatnonzero(_changes(keys))
        shown, clicks = (np.add.reduceat(values[order], starts) for values in (self.shown, self.clicks))
        return DocumentCounts(keys[starts], self.queries[order[starts]], shown, clicks, self.X[order[starts]])

    @property
    def places(self) -> Ints:
        """Place of each row, from 0 on."""
        return (self.keys & _PLACE).astype(np.int64)

    def up_to(self, n_places: int) -> DocumentCounts:
        """Return the rows of the first places."""
        kept = self.places < n_places
        return DocumentCounts(*(values[kept] for values in vars(self).values()))

    def cells(self, n_places: int) -> Cells:
        """Return the documents as groups of cells; places must be below `n_places`."""
        group = np.cumsum(_changes(self.keys >> _PLACE_BITS)) - 1
        return Cells(group, self.places, self.shown, self.clicks, n_places)

    def clusters(self) -> Ints:
        """Return the number of each row's query, from 0 on."""
        return np.asarray(np.unique(self.queries, return_inverse=True)[1])


def _changes(keys: Words) -> Bools:
    """Tell which of sorted keys differ from the one before."""
    return np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)]


def id_keys(values: npt.NDArray[Any]) -> Words:
    """Return a key for each identifier, that of its text: 7 and "7" are the same."""
    return Texts(map(str, values.tolist())).hashes()


def row_keys(X: Floats) -> Words:
    """Return a key for each row of features."""
    keys = np.zeros(len(X), np.uint64)
    for column in np.ascontiguousarray(X.T, np.float64).view(np.uint64):
        keys = mix(keys, column)
    return keys
