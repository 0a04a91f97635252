"""Interfaces that evaluation asks for, so that it can judge rankers it knows nothing about."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats
from perceptrank.measures.measure import MeasureLike
from perceptrank.stream.blocks import Blocks
from perceptrank.stream.query_stream import QueryStream


class Ranker(Protocol):
    """Anything that scores the documents of a stream."""

    def scores(self, stream: QueryStream) -> Floats:
        """Return one score per document; the larger, the better."""
        ...


@runtime_checkable
class OnlineRanker(Protocol):
    """Anything that learns from a stream and records how it ranked each query before."""

    def learn(self, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike | None = None) -> Trace:
        """Rank each query, record the measures, then learn from its grades."""
        ...
