"""Ids of documents in the comments of LETOR text: ``# docid = GX000-00-0000000 inc = 1``."""

from itertools import pairwise

import numpy as np

from perceptrank.io.letor.pairs import is_blank
from perceptrank.io.letor.problems import decode
from perceptrank.kernels.arrays import Bytes, IntRows, Ints
from perceptrank.kernels.compiled import compiled
from perceptrank.stream.texts import Texts

_EQUALS = ord("=")
_WORD = np.frombuffer(b"docid", np.uint8)


def copy_docids(text: Bytes, comments: IntRows) -> Texts | None:
    """Copy the ids from comments, given as spans of a text, empty where a comment has none; None if none has one."""
    content = np.empty(int((comments[:, 1] - comments[:, 0]).sum()), np.uint8)
    starts = np.zeros(len(comments) + 1, np.int64)
    _copy(text, comments, _WORD, content, starts)
    if not starts[-1]:
        return None
    found = content[: starts[-1]].copy()
    try:
        found.tobytes().decode()
    except UnicodeDecodeError:  # each is decoded alone, as comments are
        return Texts(decode(found[start:stop].tobytes()) for start, stop in pairwise(starts.tolist()))
    return Texts._trusted(found, starts)


@compiled
def _is_of_word(byte: int) -> bool:
    is_letter = 0 <= (byte | 32) - ord("a") < 26
    return is_letter or 0 <= byte - ord("0") < 10 or byte == ord("_")


@compiled
def _copy(text: Bytes, comments: IntRows, word: Bytes, content: Bytes, starts: Ints) -> None:
    pos = 0
    for row in range(len(comments)):
        begin, end = comments[row]
        for at in range(begin, end - len(word)):
            matched = 0
            while matched < len(word) and text[at + matched] == word[matched]:
                matched += 1
            if matched < len(word) or (at > begin and _is_of_word(text[at - 1])):
                continue
            first = at + matched
            while first < end and is_blank(text[first]):
                first += 1
            if first == end or text[first] != _EQUALS:
                continue
            first += 1
            while first < end and is_blank(text[first]):
                first += 1
            if first == end:
                continue
            while first < end and not is_blank(text[first]):
                content[pos] = text[first]
                pos += 1
                first += 1
            break
        starts[row + 1] = pos
