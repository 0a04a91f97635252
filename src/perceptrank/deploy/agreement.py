"""Comparing the ranking of a model with that of the engine it was exported to."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import Any

import numpy as np

from perceptrank.deploy.exports import make_target
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import DOUBLE
from perceptrank.kernels.arrays import Floats
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import check_not_negative, check_positive_whole

_DENSE_BYTES = 2**29


@dataclass(frozen=True)
class Parity:
    """The agreement of an engine's ranking with the model's.

    Attributes
    ----------
    target : str
        The target of the export.
    engine : str
        The engine that has scored the documents, with its version; it starts with "emulated" if none has.
    queries, documents : int
        How many were ranked.
    same : int
        Number of queries in exactly the same order, but for scores that are equal up to rounding.
    reversed : int
        Number of queries with documents that the engine orders otherwise, or scores equally, though the model's scores
        differ by more than rounding, or more than the given tolerance.
    difference, tolerance : float
        Largest difference of scores, relative to the largest absolute score of the query, and what it may be.
    first : value or None
        Id of the first query in another order; without any, of the first whose scores differ too much.
    notes : tuple of str
        Those of the export.
    reason : str
        The known reason why the engine ranks otherwise, if it does.
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

    The engine is the real one, installed or at the option `url`. Without one, search engines, Vespa and PMML are
    emulated, and the result says so. Features are taken in double precision, as engines do not round standardised ones
    to float32 like learners.

    Parameters
    ----------
    model : learner
        It must have learned.
    stream : QueryStream or iterable of blocks
        Queries to rank.
    target : str
        One of `targets()`.
    queries : int, optional
        How many queries to rank, the first ones; by default all, or 200 if a search engine is asked over the network.
    tolerance : float, optional
        Largest accepted difference of scores, relative to the largest absolute score of the query; documents that close
        may be in another order. By default only rounding, and what the engine is known to do differently, is accepted.
    **options
        Those of the target.

    Raises
    ------
    ValueError
        If the model cannot be expressed, there is no such target or option, or an argument is invalid.
    ImportError, OSError
        If what runs the engine is not installed, or fails, or a server cannot be reached.

    Examples
    --------
    >>> import perceptrank as pr
    >>> stream = pr.separable(50).stream
    >>> ranker = pr.ListwisePerceptron(transforms="running")
    >>> trace = ranker.learn(stream)
    >>> result = parity(ranker, stream, "python")
    >>> result.agrees, result.same, result.queries
    (True, 50, 50)
    """
    chosen, function = make_target(target, options), RankingFunction.of(model)
    if queries is not None:
        check_positive_whole("queries", queries)
    limit = None if tolerance is None else check_not_negative("tolerance", tolerance)
    chosen = chosen.settled(model, function)
    exported, engine, known = chosen.export(function), chosen.engine(), chosen.differences(function)
    allowed = known.tolerance if limit is None else limit
    n_queries = n_documents = same = turned = 0
    worst, differs = 0.0, list[Any]()
    left = chosen.sample() if queries is None else queries
    for whole in as_blocks(stream, required=True):
        block = whole if left is None else whole[:left]
        for part in _parts(block, int(np.count_nonzero(function.weights))):
            aligned = function.aligned(part)
            own = model.scores(aligned)
            scores = chosen.scores(function, exported, aligned.X, aligned.offsets)
            if scores.shape != own.shape:
                raise ValueError(f"the engine of {target} returned {len(scores)} scores for {len(own)} documents")
            if not np.isfinite(scores).all():
                raise ValueError(f"the engine of {target} returned scores that are not finite")
            expected, scores = own + known.added, scores + known.dropped
            for q, rows in enumerate(starmap(slice, pairwise(part.offsets))):
                largest = float(np.abs(expected[rows]).max())
                difference = float(np.abs(expected[rows] - scores[rows]).max()) / (largest or 1.0)
                worst, size = max(worst, difference), float(np.abs(own[rows]).max())
                reverses = is_reversed(own[rows], scores[rows], allowed * size, ties=True)
                same += not reverses and not is_reversed(own[rows], scores[rows], DOUBLE * size)
                turned += reverses
                if reverses or difference > allowed:
                    differs = [min([*differs, (not reverses, n_queries + q, part.qids[q])])]
            n_queries, n_documents = n_queries + len(part), n_documents + part.n_documents
        left = None if left is None else left - len(block)
        if left == 0:
            break
    first, reason = differs[0][2] if differs else None, known.reason if turned else ""
    counts = n_queries, n_documents, same, turned
    return Parity(target, engine, *counts, worst, allowed, first, exported.notes, reason)


def _parts(block: QueryStream, n_weights: int) -> Iterator[QueryStream]:
    """Yield parts of a block; of a sparse one, so small that the features that have a weight fit in memory dense."""
    if not block.is_sparse:
        yield from block.blocks()
        return
    most, start = _DENSE_BYTES // (8 * n_weights), 0
    while start < len(block):
        stop = int(np.searchsorted(block.offsets, block.offsets[start] + most, side="right")) - 1
        stop = max(stop, start + 1)
        yield block[start:stop]
        start = stop


def is_reversed(scores: Floats, others: Floats, tolerance: float, *, ties: bool = False) -> bool:
    """Tell if a document with a larger score than another's, beyond the tolerance, is behind it (or tied) by others.

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
