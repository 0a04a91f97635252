"""Many short texts as one array of bytes: the ids of documents, at a few bytes each, sliced without copies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Bytes, Ints, Words

_WORD = 8  # bytes
_ODD = np.uint64(0x9E3779B97F4A7C15)
_ODDS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(_WORD + 1)], np.uint64)  # of words with n bytes


def mix(hashes: Words, words: Words) -> Words:
    """Return hashes that depend on each bit of earlier ones and of the words (the finalizer of SplitMix64).

    The two do not commute: document "7" of the query "5" is not document "5" of the query "7".

    Examples
    --------
    >>> queries, documents = Texts(["5", "7", "5", "7"]).hashes(), Texts(["7", "5", "5", "7"]).hashes()
    >>> len(set(mix(queries, documents).tolist()))
    4
    """
    mixed = (hashes * _ODDS[0] ^ words) + _ODD
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _ODDS[0]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _ODDS[1]
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


class Texts(Sequence[str]):
    """A read-only sequence of texts.

    It behaves as an array of one dimension: numbers select a text, slices, arrays of numbers and arrays of booleans
    select several, ``==`` compares one by one, and NumPy converts it to an array of objects.

    Parameters
    ----------
    texts : iterable of str

    Examples
    --------
    >>> names = Texts(["a", "bc", "d"])
    >>> names[1], names[1:].tolist(), names == ["a", "b", "d"]
    ('bc', ['bc', 'd'], array([ True, False,  True]))
    """

    content: Bytes
    starts: Ints

    def __init__(self, texts: Iterable[str]) -> None:
        encoded = [text.encode("utf-8", "surrogateescape") for text in texts]
        starts = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=starts[1:])
        self._set(np.frombuffer(b"".join(encoded), np.uint8), starts)

    def _set(self, content: Bytes, starts: Ints) -> None:
        self.content, self.starts = content.view(), starts.view()
        self.content.flags.writeable = self.starts.flags.writeable = False

    @classmethod
    def _trusted(cls, content: Bytes, starts: Ints) -> Texts:
        """Take UTF-8 bytes as they are: text i is ``content[starts[i] : starts[i + 1]]``."""
        texts = cls.__new__(cls)
        texts._set(content, starts)
        return texts

    @classmethod
    def empty(cls, n: int) -> Texts:
        """Return texts that are all empty.

        Parameters
        ----------
        n : int
            Number of texts.
        """
        return cls._trusted(np.zeros(0, np.uint8), np.zeros(n + 1, np.int64))

    @classmethod
    def concatenate(cls, parts: Sequence[Texts]) -> Texts:
        """Concatenate sequences of texts.

        Parameters
        ----------
        parts : sequence of Texts
        """
        starts, contents = [np.zeros(1, np.int64)], [np.zeros(0, np.uint8)]
        size = 0
        for part in parts:
            starts.append(part.starts[1:] + (size - part.starts[0]))
            contents.append(part.encoded)
            size += len(part.encoded)
        return cls._trusted(np.concatenate(contents), np.concatenate(starts))

    @property
    def lengths(self) -> Ints:
        """Number of bytes of each text."""
        return np.diff(self.starts)

    @property
    def encoded(self) -> Bytes:
        """The bytes of all texts, one after the other."""
        return self.content[int(self.starts[0]) : int(self.starts[-1])]

    @property
    def nbytes(self) -> int:
        """Number of bytes of the texts and of their bounds."""
        return self.encoded.nbytes + self.starts.nbytes

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Return a number of 64 bits for each text: equal for equal texts, in every process, and rarely for others.

        Examples
        --------
        >>> hashes = Texts(["a", "b", "a", ""]).hashes()
        >>> bool(hashes[0] == hashes[2]), len(set(hashes.tolist()))
        (True, 3)
        """
        lengths = self.lengths
        hashes = lengths.astype(np.uint64)
        content = np.concatenate([self.encoded, np.zeros(_WORD, np.uint8)])
        # The words that begin at each byte: those at the starts of texts are picked from them.
        words = np.ndarray((len(content) - _WORD + 1,), "<u8", content, strides=(1,))
        starts, rows = self.starts[:-1] - self.starts[0], np.flatnonzero(lengths)
        for begin in range(0, int(lengths.max(initial=0)), _WORD):
            rows = rows if begin == 0 else rows[lengths[rows] > begin]
            sizes = np.minimum(lengths[rows] - begin, _WORD)
            hashes[rows] = mix(hashes[rows], words[starts[rows] + begin] & _MASKS[sizes])
        return hashes

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice | npt.ArrayLike) -> Texts: ...
    def __getitem__(self, index: Any) -> str | Texts:
        """Select a text by its number, or several by a slice or an array of numbers or booleans."""
        if isinstance(index, (int, np.integer)):
            i = range(len(self))[index]
            return self.content[self.starts[i] : self.starts[i + 1]].tobytes().decode("utf-8", "surrogateescape")
        if isinstance(index, slice) and index.step in (None, 1):
            start, stop, _ = index.indices(len(self))
            return self._trusted(self.content, self.starts[start : max(start, stop) + 1])
        chosen = np.arange(len(self))[index]
        lengths = self.lengths[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[:-1][chosen] - starts[:-1], lengths)
        return self._trusted(self.content[places], starts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def tolist(self) -> list[str]:
        """Return the texts as a list."""
        content, spans = self.encoded.tobytes(), pairwise((self.starts - self.starts[0]).tolist())
        if content.isascii():  # characters are bytes: decode all at once
            text = content.decode("ascii")
            return [text[start:stop] for start, stop in spans]
        return [content[start:stop].decode("utf-8", "surrogateescape") for start, stop in spans]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Convert to an array of objects, or of another dtype."""
        if copy is False:
            raise ValueError("texts cannot become an array without a copy")
        texts = np.empty(len(self), object)
        texts[:] = self.tolist()
        return texts if dtype is None else texts.astype(dtype)

    def __eq__(self, other: object) -> Any:
        """Compare text by text, as arrays do."""
        if isinstance(other, str):
            return np.array([text == other for text in self.tolist()], bool)
        if not isinstance(other, Iterable):
            return NotImplemented
        if isinstance(other, Texts) and len(other) == len(self):
            equal = self.lengths == other.lengths
            ours, theirs = (texts if equal.all() else texts[equal] for texts in (self, other))
            unequal = np.zeros(len(ours.encoded) + 1, np.int64)
            np.cumsum(ours.encoded != theirs.encoded, out=unequal[1:])
            equal[equal] = np.diff(unequal[ours.starts - ours.starts[0]]) == 0
            return equal
        return np.asarray(self) == np.asarray(other if isinstance(other, Texts) else list(other), object)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3].tolist())) + (", …" if len(self) > 3 else "")
        return f"Texts([{shown}], {len(self)} texts)"
