"""Group rows by query: from identifiers or group sizes to offsets."""

from typing import Any

import numpy as np
import numpy.typing as npt

from perceptrank.kernels.arrays import Ints
from perceptrank.stream.validation import as_identifiers


def as_sizes(group: npt.ArrayLike, n_documents: int) -> Ints:
    """Validate group sizes: positive integers that add up to the number of documents."""
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.size == 0 or sizes.dtype.kind not in "iu":
        raise ValueError(f"group must be a list of whole numbers, one per query, got {group!r}")
    if sizes.min() < 1:
        q = int(np.argmax(sizes < 1))
        raise ValueError(f"group must give every query at least one document, got {sizes[q]} for query number {q}")
    if sizes.max() > n_documents or sizes.sum() != n_documents:
        total = sum(sizes.tolist())
        raise ValueError(f"group must add up to the number of documents ({n_documents}), got {total}")
    return sizes.astype(np.int64)


def group_rows(qid: npt.ArrayLike, n_documents: int) -> tuple[Ints | None, Ints, npt.NDArray[Any]]:
    """Return a permutation that makes rows of a query adjacent, None if they are; offsets; and qids."""
    identifiers = as_identifiers(qid)
    if identifiers.shape != (n_documents,):
        raise ValueError(f"qid must have one entry per document ({n_documents}), got shape {identifiers.shape}")
    if n_documents == 0:
        raise ValueError("X must hold at least one document, got none")
    starts = np.concatenate([[0], np.flatnonzero(identifiers[1:] != identifiers[:-1]) + 1])
    return group_runs(identifiers[starts], np.append(starts, n_documents))


def group_runs(qids: npt.NDArray[Any], bounds: Ints) -> tuple[Ints | None, Ints, npt.NDArray[Any]]:
    """As `group_rows`, for runs of adjacent rows: ``bounds[k] : bounds[k + 1]`` is of query ``qids[k]``."""
    seen: dict[Any, int] = {}
    try:
        codes = np.array([seen.setdefault(name, len(seen)) for name in qids.tolist()])
    except TypeError as error:
        raise TypeError(f"qid must hold values that can be compared and hashed: {error}") from None
    if len(seen) == len(qids):
        return None, bounds, qids
    query_of_row = np.repeat(codes, np.diff(bounds))
    rows = np.argsort(query_of_row, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(query_of_row))])
    _, first_runs = np.unique(codes, return_index=True)
    return rows, offsets, qids[first_runs]
