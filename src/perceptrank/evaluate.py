"""Hold-out evaluation, and reading a model back."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from perceptrank import persist
from perceptrank.learners import Learner, algorithms
from perceptrank.measures import MeasureLike, parse_all
from perceptrank.stream import Blocks, QueryStream
from perceptrank.trace import Trace


def evaluate(ranker: Learner, stream: Blocks, measures: Iterable[MeasureLike] | MeasureLike) -> Trace:
    """Measure a ranker on held-out queries, a `QueryStream` or an iterable of them, without learning from them."""
    chosen = parse_all([measures] if isinstance(measures, str) else measures)  # type: ignore[arg-type]
    traces: list[Trace] = []
    n_queries = 0
    for block in [stream] if isinstance(stream, QueryStream) else stream:
        if len(block) == 0:
            continue
        for measure in chosen:
            measure.check_grades(block.relevance)
        scores = ranker.scores(block)
        values = {one: one.per_query(scores, block.relevance, block.offsets, n_queries) for one in chosen}
        traces.append(Trace(values, np.zeros(len(block))))
        n_queries += len(block)
    if not traces:
        raise ValueError("the stream has no queries")
    return Trace.concatenate(traces)


def load(path: str | Path) -> Learner:
    """Read a model that `save` wrote; it goes on learning as if it had never stopped."""
    document = persist.read_model(path)
    kind = algorithms().get(document.get("algorithm", ""))
    if kind is None:
        raise ValueError(f"{path} holds a model of the unknown algorithm {document.get('algorithm')!r}")
    try:
        return kind.from_document(document)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is damaged: {reason}") from None
