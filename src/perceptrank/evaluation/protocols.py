"""Protocols of the rankers that can be evaluated."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.arrays import Floats
from perceptrank.measures import MeasureLike
from perceptrank.stream.blocks import Blocks
from perceptrank.stream.query_stream import QueryStream


class Scorer(Protocol):
    """Scores the documents of a stream."""

    def scores(self, stream: QueryStream) -> Floats:
        """Return one score per document; larger is better."""
        ...


@runtime_checkable
class OnlineRanker(Protocol):
    """Learns from a stream, and records measures of each ranking before learning from it."""

    def learn(self, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike | None = None) -> Trace:
        """Rank each query, record the measures, then learn from its grades."""
        ...
