"""Parts of the queries: chosen by chance, evenly over labels, or by time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from perceptrank.kernels.arrays import Bools, Floats, Ints
from perceptrank.stream.columns import USER_QUERY
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.texts import Texts, mix


def draw_places(names: Iterable[str], seed: int = 0) -> Floats:
    """Return a number from [0, 1) for each name, which depends on the name and the seed alone.

    Examples
    --------
    >>> first, again = draw_places(["shoes", "hats"]), draw_places(["hats", "coats", "shoes"])
    >>> first.tolist() == again[[2, 0]].tolist(), first[0] == draw_places(["shoes"], seed=1)[0]
    (True, np.False_)
    """
    hashes = Texts(names).hashes()
    mixed = mix(np.full(len(hashes), seed, np.uint64), hashes)
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53)


def group_names(stream: QueryStream) -> list[str]:
    """Return what is never split apart: the text that a user asked, for impressions; else the query's id."""
    qids = map(str, stream.qids.tolist())
    return [text or qid for text, qid in zip(stream.columns.get(USER_QUERY, [""] * len(stream)), qids, strict=True)]


def held_out(stream: QueryStream, share: float) -> Bools:
    """Tell which queries are held out if that share of all queries is: the same ones in every file and order."""
    return draw_places(group_names(stream)) < share


def assign_parts(
    groups: Sequence[str], shares: Sequence[float], *, seed: int = 0, times: Any = None, labels: Any = None
) -> Ints:
    """Return the number of the part that each query goes to; queries of one group go to one part.

    By chance, each group goes to the part that lacks most queries, in a random order in which groups whose first query
    has the same label are neighbours, so that parts share labels evenly. With `times`, groups are in the order of their
    first query instead, and parts are consecutive.

    Examples
    --------
    >>> assign_parts(["a", "b", "a", "c"], [0.5, 0.5], times=[1, 2, 3, 4]).tolist()
    [0, 1, 0, 1]
    """
    names, first, group_of, sizes = np.unique(
        np.array(groups, object), return_index=True, return_inverse=True, return_counts=True
    )
    parts = np.zeros(len(names), np.int64)
    if times is not None:
        known = np.asarray(times)
        earliest = known[first]
        np.minimum.at(earliest, group_of, known)
        order = np.lexsort((first, earliest))
        middles = np.cumsum(sizes[order]) - sizes[order] / 2
        parts[order] = np.searchsorted(np.cumsum(shares)[:-1] * len(groups), middles)
    else:
        texts = [""] * len(names) if labels is None else [repr(labels[i]) for i in first]
        order = np.lexsort((draw_places(names.tolist(), seed), np.array(texts)))
        lacking, wanted = np.zeros(len(shares)), np.asarray(shares)
        for group in order.tolist():
            lacking += wanted * sizes[group]
            parts[group] = np.argmax(lacking)
            lacking[parts[group]] -= sizes[group]
    counts = np.bincount(parts[group_of], minlength=len(shares))
    if not counts.all():
        raise ValueError(f"{len(groups)} queries are too few for parts of {', '.join(f'{s:g}' for s in shares)}")
    return np.asarray(parts[group_of])
