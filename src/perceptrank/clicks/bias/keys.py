"""Numbers of 64 bits in place of texts: counts are kept per query and document without keeping their names.

The numbers are the same in every process, so that counts of several machines can be added up. Two of ten million
documents share a number with a probability of 1 %; then they are counted as one document, which is harmless.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Floats, Words
from perceptrank.stream.texts import Texts

_WORD = 8  # bytes
_ODD = np.uint64(0x9E3779B97F4A7C15)
_ODDS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(_WORD + 1)], np.uint64)  # of words with n bytes


def mix(keys: Words, words: Words) -> Words:
    """Return keys that depend on each bit of earlier keys and of the words (the finalizer of SplitMix64).

    The two do not commute: document "7" of the query "5" is not document "5" of the query "7".

    Examples
    --------
    >>> queries, documents = text_keys(Texts(["5", "7", "5", "7"])), text_keys(Texts(["7", "5", "5", "7"]))
    >>> len(set(mix(queries, documents).tolist()))
    4
    """
    mixed = (keys * _ODDS[0] ^ words) + _ODD
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _ODDS[0]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _ODDS[1]
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def text_keys(texts: Texts) -> Words:
    """Return a key for each text, word by word of its bytes.

    Examples
    --------
    >>> keys = text_keys(Texts(["a", "b", "a", ""]))
    >>> bool(keys[0] == keys[2]), len(set(keys.tolist()))
    (True, 3)
    """
    lengths = texts.lengths
    keys = lengths.astype(np.uint64)
    first = int(texts.starts[0])
    content = np.concatenate([texts.content[first : int(texts.starts[-1])], np.zeros(_WORD, np.uint8)])
    # The words that begin at each byte: those at the starts of texts are picked from them.
    words = np.ndarray((len(content) - _WORD + 1,), "<u8", content, strides=(1,))
    starts, rows = texts.starts[:-1] - first, np.flatnonzero(lengths)
    for begin in range(0, int(lengths.max(initial=0)), _WORD):
        rows = rows if begin == 0 else rows[lengths[rows] > begin]
        sizes = np.minimum(lengths[rows] - begin, _WORD)
        keys[rows] = mix(keys[rows], words[starts[rows] + begin] & _MASKS[sizes])
    return keys


def id_keys(values: npt.NDArray[Any]) -> Words:
    """Return a key for each identifier, that of its text: 7 and "7" are the same."""
    return text_keys(Texts(map(str, values.tolist())))


def row_keys(X: Floats) -> Words:
    """Return a key for each row of features."""
    keys = np.zeros(len(X), np.uint64)
    for column in np.ascontiguousarray(X.T, np.float64).view(np.uint64):
        keys = mix(keys, column)
    return keys
