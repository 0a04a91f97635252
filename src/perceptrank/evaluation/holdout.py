"""Hold-out evaluation."""

from collections.abc import Iterable

import numpy as np

from perceptrank.evaluation.protocols import Ranker
from perceptrank.evaluation.trace import Trace
from perceptrank.measures import MeasureLike, parse_all
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.validation import as_scores


def evaluate(ranker: Ranker, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike) -> Trace:
    """Evaluate a ranker on held-out queries, without learning from them.

    Parameters
    ----------
    ranker : object with a method ``scores(stream)``
        A learner, for example.
    stream : QueryStream or iterable of QueryStream
    measures : str, Measure, or several

    Returns
    -------
    Trace
        One value per query and measure; its masses are 0. Weights of queries are those of its means.

    Raises
    ------
    ValueError
        If there are no queries, or a measure does not apply to the grades.
    """
    chosen = parse_all(measures)
    traces: list[Trace] = []
    n_queries = 0
    for block in as_blocks(stream, required=True):
        for measure in chosen:
            measure.check_grades(block.relevance)
        scores = as_scores(ranker.scores(block))
        if len(scores) != block.n_documents:
            raise ValueError(f"the ranker must score each of {block.n_documents} documents, got {len(scores)} scores")
        values = {one: one.per_query(scores, block.relevance, block.offsets, n_queries) for one in chosen}
        traces.append(Trace(values, np.zeros(len(block)), block.weights))
        n_queries += len(block)
    return Trace.concatenate(traces)
