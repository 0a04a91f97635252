"""Spark DataFrames: shards of them, and their scores, places and measures, made from Arrow batches on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from perceptrank.distributed.frames import Frames, check_columns
from perceptrank.distributed.packing import pack, unpack
from perceptrank.distributed.partitions import SCORE, measured, scored
from perceptrank.learners.learner import Learner
from perceptrank.measures import Measure
from perceptrank.stream.blocks import Blocks


def dumps(thing: Any) -> bytes:
    """Pickle as Spark does: every executor can read that."""
    from pyspark import cloudpickle

    packed: bytes = cloudpickle.dumps(thing)
    return packed


def task_context() -> Any:
    """Return what Spark tells a task about itself."""
    from pyspark import TaskContext

    return TaskContext.get()


@dataclass(frozen=True)
class FrameShard:
    """A partition of a DataFrame, which Spark makes anew in every epoch unless it was persisted."""

    frame: Any
    number: int
    converter: Frames

    @property
    def name(self) -> str:
        """The number of the partition."""
        return f"partition {self.number}"

    def fingerprint(self) -> list[Any]:
        """Return the columns: what a partition holds is not known before it is made."""
        return list(self.frame.columns)

    def blocks(self) -> Blocks:
        """Return the queries, which are sent to this process."""
        from pyspark.sql.functions import spark_partition_id

        return self.converter(self.frame.where(spark_partition_id() == self.number).toPandas())

    def __reduce__(self) -> NoReturn:
        raise TypeError("only Spark learns from Spark DataFrames: give their session as client, or none")


def spark_shards(frame: Any, shards: int | None, *, assume_grouped: bool, options: dict[str, Any]) -> list[FrameShard]:
    """Return the shards of a Spark DataFrame."""
    columns, qid = check_columns(frame, options), options.get("qid", "qid")
    if assume_grouped and shards is not None:
        raise TypeError("shards cannot be given with assume_grouped=True: repartition the frame by whole queries first")
    n = shards or max(1, frame.rdd.getNumPartitions())
    if assume_grouped:
        _check_grouped(frame, qid)
    else:
        frame = _shuffled(frame, qid, n)
    return [FrameShard(frame, number, Frames(columns)) for number in range(n)]


def _shuffled(frame: Any, qid: str, *n: int) -> Any:
    """Return a frame with each query in one partition: queries sorted by id, documents by a hash of their row.

    Spark itself gives rows no order.
    """
    from pyspark.sql.functions import xxhash64

    columns = [frame[name] for name in frame.columns]
    order = xxhash64(*columns, *(column.isNull() for column in columns))  # a hash alone passes over what is missing
    return frame.repartition(*n, qid).sortWithinPartitions(qid, order)


def _check_grouped(frame: Any, qid: str) -> None:
    """Raise if a query is in two partitions."""
    from pyspark.sql import functions

    places = frame.mapInArrow(partial(_queries_of, qid), "query string, partition int").groupBy("query")
    bounds = places.agg(functions.min("partition").alias("first"), functions.max("partition").alias("last"))
    for query, first, last in bounds.where("first < last").take(1):
        raise ValueError(
            f"query {query} is in the partitions {first} and {last}: leave out assume_grouped=True, for a shuffle that "
            "brings queries together"
        )


def _queries_of(qid: str, batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    number: int = task_context().partitionId()
    for batch in batches:
        queries = batch.column(qid).unique().cast(pa.string())
        numbers = pa.array([number] * len(queries), pa.int32())
        yield pa.RecordBatch.from_arrays([queries, numbers], ["query", "partition"])


def frame_of(batches: Iterable[Any]) -> Any:
    """Return the rows of a partition as a pandas data frame, or an empty list if there are none."""
    table = _table_of(batches)
    return [] if table is None else table.to_pandas()


def _table_of(batches: Iterable[Any]) -> Any:
    import pyarrow as pa

    several = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(several) if several else None


def with_values(
    ranker: Learner, frame: Any, qid: str, features: Sequence[str], name: str, *, whole: bool, assume_grouped: bool
) -> Any:
    """Return a Spark DataFrame with the scores or places of its documents as another column.

    They are made of `whole` partitions, after a shuffle that brings queries together, or else batch by batch.
    """
    from pyspark.sql.types import DoubleType, LongType, StructField, StructType

    if name in frame.columns:
        raise ValueError(f"the frame has a column {name!r} already: drop or rename it")
    schema = StructType([*frame.schema.fields, StructField(name, DoubleType() if name == SCORE else LongType())])
    parts = _shuffled(frame, qid) if whole and not assume_grouped else frame
    return parts.mapInArrow(partial(_with_values, pack(ranker, dumps), qid, features, name, whole), schema)


def _with_values(
    ranker: bytes, qid: str, features: Sequence[str], name: str, whole: bool, batches: Iterable[Any]
) -> Iterator[Any]:
    import pyarrow as pa

    learner = unpack(ranker)
    for part in [batches] if whole else ([batch] for batch in batches):
        table = _table_of(part)
        if table is None:
            continue
        values = scored(table.select([qid, *features]).to_pandas(), learner, qid, features, name)
        yield from table.append_column(name, pa.array(values.to_numpy())).to_batches()


def measures_of(
    ranker: Learner,
    frame: Any,
    measures: tuple[Measure, ...],
    qid: str,
    options: tuple[tuple[str, Any], ...],
    *,
    assume_grouped: bool,
) -> Any:
    """Return a Spark DataFrame with the measures of each query; null is where a measure leaves a query out."""
    from pyspark.sql.types import DoubleType, StructField, StructType

    schema = StructType([frame.schema[qid], *(StructField(str(measure), DoubleType()) for measure in measures)])
    work = pack((ranker, Frames(options), measures), dumps)
    parts = frame if assume_grouped else _shuffled(frame, qid)
    return parts.mapInArrow(partial(_measures_of, work, qid), schema)


def _measures_of(work: bytes, qid: str, batches: Iterable[Any]) -> Iterator[Any]:
    import pyarrow as pa

    ranker, converter, measures = unpack(work)
    table = _table_of(batches)
    if table is not None:
        rows = measured(table.to_pandas(), ranker, converter, measures, qid)
        schema = pa.schema([table.schema.field(qid), *(pa.field(str(measure), pa.float64()) for measure in measures)])
        yield from pa.Table.from_pandas(rows, schema, preserve_index=False).to_batches()
