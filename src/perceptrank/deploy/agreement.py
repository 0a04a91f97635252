"""Comparing the ranking of a model with that of the engine it was exported to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from perceptrank.deploy.exports import make_target
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import DOUBLE, Target
from perceptrank.kernels.arrays import Floats
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import check_positive_whole

_DENSE_BYTES = 2**29


@dataclass(frozen=True)
class Parity:
    """The agreement of an engine's ranking with the model's.

    Attributes
    ----------
    target : str
        What the model was exported to.
    engine : str
        What has scored the documents, with its version; it starts with "emulated" if no engine has.
    queries, documents : int
        How many were ranked.
    same : int
        Number of queries in exactly the same order; documents of scores that are equal, by the model or by rounding,
        may be in any, and scores of the model that differ by no more than sums in another order do are equal.
    reversed : int
        Number of queries with documents in another order, or of equal scores by the engine, whose scores by the model
        differ by more than rounding, or more than the tolerance that was given; a shift is no part of these.
    difference : float
        Largest difference of scores, relative to the largest absolute score of the query.
    tolerance : float
        What that may be: by rounding and what the engine is known to do otherwise, or what was given.
    first : value or None
        Id of the first query in another order, or if there is none, of the first whose scores differ too much.
    notes : tuple of str
        Those of the export.
    reason : str
        What the engine does otherwise than the model, if documents are in another order and that is known.
    """

    target: str
    engine: str
    queries: int
    documents: int
    same: int
    reversed: int
    difference: float
    tolerance: float
    first: Any
    notes: tuple[str, ...]
    reason: str = ""

    @property
    def agrees(self) -> bool:
        """True if no documents are in another order and no scores differ, but for rounding."""
        return self.reversed == 0 and self.difference <= self.tolerance


def parity(
    model: Any,
    stream: Blocks,
    target: str,
    *,
    queries: int | None = None,
    tolerance: float | None = None,
    **options: Any,
) -> Parity:
    """Export a model, let the engine rank a stream, and compare orders and scores with those of the model.

    The engine is the real one: it must be installed, or be a server that the option `url` names. Without one, search
    engines, Vespa and PMML are emulated, and the result says so. Features are taken in double precision, since
    engines do not round standardised features to float32 as a learner does with float32 features.

    Parameters
    ----------
    model : learner
        One that has learned.
    stream : QueryStream or iterable of blocks
        Queries to rank.
    target : str
        One of `targets()`.
    queries : int, optional
        How many queries to rank, the first ones; by default all, or 200 if a search engine is asked over the network.
    tolerance : float, optional
        By how much scores may differ, relative to the largest absolute score of a query, and documents be in another
        order; by default what rounding does, and scores by what the engine is known to do otherwise, too.
    **options
        Those of the target.

    Raises
    ------
    ValueError
        If the model cannot be expressed, there is no such target or option, or an argument is invalid.
    ImportError
        If a package that runs the engine is not installed.
    OSError
        If the program of an engine is not there or fails, or a server cannot be reached.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.separable(50).stream
    >>> ranker = pr.ListwisePerceptron(transforms="running")
    >>> trace = ranker.learn(stream)
    >>> found = parity(ranker, stream, "python")
    >>> found.agrees, found.same, found.queries
    (True, 50, 50)
    """
    chosen, function = make_target(target, options), RankingFunction.of(model)
    if queries is not None:
        check_positive_whole("queries", queries)
    if tolerance is not None and not (isinstance(tolerance, (int, float)) and 0 <= tolerance < np.inf):
        raise ValueError(f"tolerance must be a number >= 0, got {tolerance!r}")
    chosen = chosen.settled(model, function)
    exported, engine = chosen.export(function), chosen.engine()
    allowed = chosen.tolerance(function) if tolerance is None else float(tolerance)
    in_order = chosen.order_tolerance(function) if tolerance is None else float(tolerance)
    found = Parity(target, engine, 0, 0, 0, 0, 0.0, allowed, None, exported.notes)
    differs: list[Any] = []
    for block in _first(stream, chosen.sample() if queries is None else queries):
        for part in _parts(block, int(np.count_nonzero(function.weights))):
            aligned = function.aligned(part)
            own = model.scores(aligned)
            scores = chosen.scores(function, exported, aligned.X, aligned.offsets)
            _check(scores, own, chosen)
            both = own, own + chosen.adds(function), scores + chosen.drops(function)
            found = _compared(found, part, both, differs, in_order)
    reason = chosen.why_another_order() if found.reversed else ""
    return replace(found, first=min(differs)[2] if differs else None, reason=reason)


def _first(stream: Blocks, queries: int | None) -> Iterator[QueryStream]:
    """Yield the blocks of a stream as far as there are so many queries."""
    left = queries
    for block in as_blocks(stream, required=True):
        yield block if left is None else block[:left]
        if left is not None:
            left -= min(left, len(block))
            if not left:
                return


def _parts(block: QueryStream, n_weights: int) -> Iterator[QueryStream]:
    """Yield parts of a block; of a sparse one, so small that the features that have a weight fit in memory dense."""
    if not block.is_sparse:
        yield from block.blocks()
        return
    most, start = _DENSE_BYTES // (8 * n_weights), 0
    while start < len(block):
        stop = int(np.searchsorted(block.offsets, block.offsets[start] + most, side="right")) - 1
        yield block[start : max(stop, start + 1)]
        start = max(stop, start + 1)


def _check(scores: Floats, expected: Floats, target: Target) -> None:
    if scores.shape != expected.shape:
        raise ValueError(f"the engine of {target.name} returned {len(scores)} scores for {len(expected)} documents")
    if not np.isfinite(scores).all():
        raise ValueError(f"the engine of {target.name} returned scores that are not finite")


def _compared(
    found: Parity, block: QueryStream, scores: tuple[Floats, Floats, Floats], differs: list[Any], in_order: float
) -> Parity:
    """Add the queries of a block, with scores of the model, those with a shift, and those of the engine."""
    same = turned = 0
    worst = found.difference
    for q, (start, stop) in enumerate(pairwise(block.offsets)):
        own, one, other = (each[start:stop] for each in scores)
        largest = float(np.abs(one).max())
        difference = float(np.abs(one - other).max()) / (largest or 1.0)
        worst = max(worst, difference)
        size = float(np.abs(own).max())
        reverses = is_reversed(own, other, in_order * size, ties=True)
        same += not reverses and not is_reversed(own, other, DOUBLE * size)
        turned += reverses
        if reverses or difference > found.tolerance:
            differs.append((not reverses, found.queries + q, block.qids[q]))
            differs[:] = [min(differs)]
    return replace(
        found,
        queries=found.queries + len(block),
        documents=found.documents + block.n_documents,
        same=found.same + same,
        reversed=found.reversed + turned,
        difference=worst,
    )


def is_reversed(scores: Floats, others: Floats, tolerance: float, *, ties: bool = False) -> bool:
    """Tell whether a document whose score is larger than another's, by more than the tolerance, is behind it by others.

    With `ties`, also if it is not ahead.

    Examples
    --------
    >>> is_reversed(np.array([3.0, 2.0, 2.0]), np.array([9.0, 1.0, 2.0]), 0.0)
    False
    >>> is_reversed(np.array([3.0, 2.0, 2.0]), np.array([1.5, 1.0, 2.0]), 0.0)
    True
    """
    order = np.argsort(-scores, kind="stable")
    falling, others = scores[order], others[order]
    ahead = np.searchsorted(-falling, -(falling + tolerance), side="left")  # of each document, how many are
    least = np.concatenate([[np.inf], np.minimum.accumulate(others)])
    return bool(((least[ahead] <= others) if ties else (least[ahead] < others)).any())
