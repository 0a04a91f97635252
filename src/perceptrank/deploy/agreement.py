"""Comparing the ranking of a model with that of the engine it was exported to."""

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


@dataclass(frozen=True)
class Parity:
    """The agreement of an engine's ranking with the model's.

    Attributes
    ----------
    target : str
        What the model was exported to.
    engine : str
        What has scored the documents, with its version; an emulation says that it is one.
    queries, documents : int
        How many were ranked.
    same : int
        Number of queries in exactly the same order; documents of equal scores, by either, may be in any, and scores of
        the model that differ by no more than sums in another order do are equal.
    reversed : int
        Number of queries with documents in another order whose scores differ by more than the tolerance.
    difference : float
        Largest difference of scores, relative to the largest absolute score of the query.
    tolerance : float
        What that may be by rounding.
    first : value or None
        Id of the first query in another order, or if there is none, of the first whose scores differ too much.
    notes : tuple of str
        Those of the export.
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

    @property
    def agrees(self) -> bool:
        """True if no documents are in another order and no scores differ, but for rounding."""
        return self.reversed == 0 and self.difference <= self.tolerance


def parity(model: Any, stream: Blocks, target: str, *, queries: int | None = None, **options: Any) -> Parity:
    """Export a model, let the engine rank a stream, and compare orders and scores with those of the model.

    The engine is the real one: it must be installed, or be a server that the option `url` names. Elasticsearch,
    OpenSearch and Solr are emulated without one, and the result says so. Features are taken in double precision, since
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
    **options
        Those of the target.

    Returns
    -------
    Parity

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
    chosen = chosen.settled(model, function)
    exported, engine = chosen.export(function), chosen.engine()
    found = Parity(target, engine, 0, 0, 0, 0, 0.0, chosen.tolerance(function), None, exported.notes)
    differs: list[Any] = []
    for block in _first(stream, chosen.sample() if queries is None else queries):
        for part in block.blocks():
            in_double = part.with_features(part.X.astype(np.float64))
            expected = model.scores(in_double) + chosen.adds(function)
            scores = chosen.scores(function, exported, in_double.X, in_double.offsets)
            _check(scores, expected, chosen)
            found = _compared(found, part, expected, scores + chosen.drops(function), differs)
    return replace(found, first=min(differs)[2] if differs else None)


def _first(stream: Blocks, queries: int | None) -> Iterator[QueryStream]:
    """Yield the blocks of a stream as far as there are so many queries."""
    left = queries
    for block in as_blocks(stream, required=True):
        yield block if left is None else block[:left]
        if left is not None:
            left -= min(left, len(block))
            if not left:
                return


def _check(scores: Floats, expected: Floats, target: Target) -> None:
    if scores.shape != expected.shape:
        raise ValueError(f"the engine of {target.name} returned {len(scores)} scores for {len(expected)} documents")
    if not np.isfinite(scores).all():
        raise ValueError(f"the engine of {target.name} returned scores that are not finite")


def _compared(found: Parity, block: QueryStream, expected: Floats, scores: Floats, differs: list[Any]) -> Parity:
    same = turned = 0
    worst = found.difference
    for q, (start, stop) in enumerate(pairwise(block.offsets)):
        one, other = expected[start:stop], scores[start:stop]
        largest = float(np.abs(one).max())
        difference = float(np.abs(one - other).max()) / (largest or 1.0)
        worst = max(worst, difference)
        reverses = is_reversed(one, other, found.tolerance * largest)
        same += not is_reversed(one, other, DOUBLE * largest)
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


def is_reversed(scores: Floats, others: Floats, tolerance: float) -> bool:
    """Tell whether a document whose score is larger than another's, by more than the tolerance, is behind it by others.

    >>> is_reversed(np.array([3.0, 2.0, 2.0]), np.array([9.0, 1.0, 2.0]), 0.0)
    False
    >>> is_reversed(np.array([3.0, 2.0, 2.0]), np.array([1.5, 1.0, 2.0]), 0.0)
    True
    """
    order = np.argsort(-scores, kind="stable")
    falling, others = scores[order], others[order]
    ahead = np.searchsorted(-falling, -(falling + tolerance), side="left")  # of each document, how many are
    least = np.concatenate([[np.inf], np.minimum.accumulate(others)])
    return bool((least[ahead] < others).any())
