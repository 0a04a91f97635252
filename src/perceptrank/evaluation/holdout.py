"""Hold-out evaluation."""

from collections.abc import Iterable

import numpy as np

from perceptrank.evaluation.protocols import Ranker
from perceptrank.evaluation.trace import Trace
from perceptrank.measures.measure import MeasureLike, parse_all
from perceptrank.stream.blocks import Blocks, as_blocks


def evaluate(ranker: Ranker, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike) -> Trace:
    """Measure a ranker on held-out queries, a `QueryStream` or an iterable of them, without learning from them."""
    chosen = parse_all(measures)
    traces: list[Trace] = []
    n_queries = 0
    for block in as_blocks(stream):
        for measure in chosen:
            measure.check_grades(block.relevance)
        scores = ranker.scores(block)
        values = {one: one.per_query(scores, block.relevance, block.offsets, n_queries) for one in chosen}
        traces.append(Trace(values, np.zeros(len(block))))
        n_queries += len(block)
    if not traces:
        raise ValueError("the stream has no queries")
    return Trace.concatenate(traces)
