"""Scores, places and measures of Dask and Spark DataFrames, partition by partition and lazily."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from perceptrank.distributed.dask_parts import shuffled
from perceptrank.distributed.frames import Frames, check_columns, is_of_spark
from perceptrank.learners.learner import Learner
from perceptrank.learners.learning import ready_model
from perceptrank.measures import Measure, MeasureLike, parse_all
from perceptrank.stream.columns import RELEVANCE, recognized_columns
from perceptrank.stream.query_stream import QueryStream
from perceptrank.stream.validation import as_identifiers

SCORE, PLACE = "score", "place"
_DTYPES: dict[str, type] = {SCORE: np.float64, PLACE: np.int64}


def predict(
    ranker: Learner,
    frame: Any,
    *,
    qid: str = "qid",
    features: Sequence[str] | None = None,
    assume_grouped: bool = False,
) -> Any:
    """Return the scores of documents: a Dask Series with the index and partitions of the frame, or Spark's frame.

    A Spark DataFrame gets another column, "score"; it is shuffled by `qid` if the ranker transforms features, unless
    `assume_grouped` is True.

    Parameters
    ----------
    ranker : learner
    frame : DataFrame of Dask or Spark
        One row per document.
    qid : str
        Column of the queries.
    features : sequence of str, optional
        Columns of the features; default those that the ranker has learned, or if it knows no names, all but `qid`,
        "relevance" and other declared columns, such as "docid".
    assume_grouped : bool
        No query is in two partitions. With Dask it must be so if the ranker transforms features.

    Examples
    --------
    >>> import dask.dataframe as dd, perceptrank as pr
    >>> stream, ranker = pr.mslr_shaped(20, n_documents=5, n_features=4), pr.ListwisePerceptron(transforms=None)
    >>> trace = ranker.learn(stream)
    >>> frame = dd.from_pandas(stream.to_frame(), npartitions=2)
    >>> scores = predict(ranker, frame).compute(scheduler="synchronous")
    >>> bool((scores.to_numpy() == ranker.predict(stream)).all())
    True
    """
    return _mapped(ranker, frame, qid, features, assume_grouped, SCORE)


def rank(
    ranker: Learner,
    frame: Any,
    *,
    qid: str = "qid",
    features: Sequence[str] | None = None,
    assume_grouped: bool = False,
) -> Any:
    """Return each document's rank in its query (1 is best): as `predict` returns scores, in the column "place".

    Documents of equal scores keep their order. Other parameters are those of `predict`.

    Parameters
    ----------
    assume_grouped : bool
        No query is in two partitions. With Dask it must be True; Spark's frame is shuffled by `qid` if not.

    Examples
    --------
    >>> import dask.dataframe as dd, perceptrank as pr
    >>> stream, ranker = pr.mslr_shaped(20, n_documents=5, n_features=4), pr.ListwisePerceptron()
    >>> trace = ranker.learn(stream)
    >>> frame = dd.from_pandas(stream.to_frame(), npartitions=1)
    >>> places = rank(ranker, frame, assume_grouped=True).compute(scheduler="synchronous")
    >>> sorted(places[:5].tolist())
    [1, 2, 3, 4, 5]
    """
    if not assume_grouped and not is_of_spark(frame):
        raise ValueError("places need whole queries: bring them together, frame.shuffle(qid), with assume_grouped=True")
    return _mapped(ranker, frame, qid, features, assume_grouped, PLACE)


def evaluate(
    ranker: Learner,
    frame: Any,
    measures: Iterable[MeasureLike] | MeasureLike = "ndcg@10",
    *,
    assume_grouped: bool = False,
    **columns: Any,
) -> Any:
    """Return the measures of each query as a DataFrame of the same engine: per query its id, then each measure.

    NaN, in Spark null, is where a measure leaves a query out, as the means of the frame do.

    Parameters
    ----------
    ranker : learner
    frame : DataFrame of Dask or Spark
        One row per document, partitioned in any way: queries are brought together by a shuffle.
    measures : str, Measure or list of them
    assume_grouped : bool
        No query is in two partitions: there is no shuffle.
    **columns
        `qid`, `relevance`, `features` and `missing`, as `QueryStream.from_frame` takes them.

    Examples
    --------
    >>> import dask.dataframe as dd, perceptrank as pr
    >>> stream, ranker = pr.mslr_shaped(20, n_documents=5, n_features=4), pr.ListwisePerceptron()
    >>> trace = ranker.learn(stream)
    >>> frame = dd.from_pandas(stream.to_frame(), npartitions=1)
    >>> table = evaluate(ranker, frame, "ap", assume_grouped=True).compute(scheduler="synchronous")
    >>> list(table.columns), len(table)
    (['qid', 'ap'], 20)
    """
    options = check_columns(frame, columns)
    recorded = tuple(parse_all(measures))
    qid = columns.get("qid", "qid")
    if is_of_spark(frame):
        from perceptrank.distributed.spark_parts import measures_of

        return measures_of(ranker, frame, recorded, qid, options, assume_grouped=assume_grouped)
    if not assume_grouped:
        frame = shuffled(frame, qid, frame.npartitions)
    converter = Frames(options, shuffled=not assume_grouped)
    meta = measured(frame._meta, ranker, converter, recorded, qid)
    return frame.map_partitions(measured, ranker, converter, recorded, qid, meta=meta)


def _mapped(
    ranker: Learner,
    frame: Any,
    qid: str,
    features: Sequence[str] | None,
    assume_grouped: bool,
    name: str,
) -> Any:
    columns = list(frame.columns)
    lacking = [name for name in (qid, *(features or ())) if name not in columns]
    if lacking:
        raise ValueError(f"the frame has no column {', '.join(map(repr, lacking))}; it has {columns}")
    learned = ranker.model.needed_names if features is None else features
    others = [name for name in columns if name not in (qid, RELEVANCE, *recognized_columns(columns))]
    chosen = list(learned) if learned is not None and set(learned) <= set(columns) else others
    has_transforms = ready_model(ranker).has_transforms
    if is_of_spark(frame):
        from perceptrank.distributed.spark_parts import with_values

        whole = name == PLACE or has_transforms
        return with_values(ranker, frame, qid, chosen, name, whole=whole, assume_grouped=assume_grouped)
    if not assume_grouped and has_transforms:
        raise ValueError(
            "the ranker transforms features, perhaps within queries: bring queries together, frame.shuffle(qid), and "
            "say assume_grouped=True"
        )
    meta = frame._meta[qid].iloc[:0].astype(_DTYPES[name]).rename(name)
    return frame.map_partitions(scored, ranker, qid, chosen, name, meta=meta)


def scored(frame: Any, ranker: Learner, qid: str, features: Sequence[str], name: str) -> Any:
    """Return the scores or places of the documents of a partition as a pandas Series."""
    scores = ranker.predict(frame[[*features]], qid=frame[qid].to_numpy()) if len(frame) else np.zeros(0)
    values = scores if name == SCORE else _places(scores, as_identifiers(frame[qid].to_numpy()))
    return frame[[qid]].assign(**{name: np.asarray(values, _DTYPES[name])})[name]


def _places(scores: Any, queries: Any) -> Any:
    """Return the place of each document among those of its query."""
    _, numbers = np.unique(queries, return_inverse=True)
    order = np.lexsort((-scores, numbers))  # stable: equal scores keep their order
    starts = np.searchsorted(numbers[order], numbers[order])
    places = np.empty(len(scores), np.int64)
    places[order] = np.arange(len(scores)) - starts + 1
    return places


def measured(frame: Any, ranker: Learner, converter: Frames, recorded: tuple[Measure, ...], qid: str) -> Any:
    """Return the measures of the queries of a partition as a pandas data frame."""
    values = {str(measure): np.zeros(0) for measure in recorded}
    if len(frame):
        stream = cast(QueryStream, converter(frame))
        scores = ranker.scores(stream)
        values = {str(measure): measure.per_query(scores, stream.relevance, stream.offsets) for measure in recorded}
    queries = converter.ordered(frame)[qid].drop_duplicates()
    return queries.reset_index(drop=True).to_frame(qid).assign(**values)
