"""Shards of Dask collections: DataFrames with their queries brought together, bags, delayed streams."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from perceptrank.distributed.frames import ORDER, DelayedShard, Frames, check_columns
from perceptrank.stream.blocks import Blocks
from perceptrank.stream.query_stream import QueryStream

_MOST_ROWS = 2**40  # of a partition


def streams_of(part: Any) -> Blocks:
    """Return the queries of a partition of a bag, or of a delayed stream."""
    if isinstance(part, QueryStream):
        return part
    if not isinstance(part, Iterable):
        raise TypeError(f"a part must be a QueryStream or an iterable of them, got {type(part).__name__}")
    return list(part)


def dask_shards(parts: Any, shards: int | None, *, assume_grouped: bool, options: dict[str, Any]) -> list[DelayedShard]:
    """Return the shards of a Dask DataFrame, of a bag, or of delayed streams."""
    if hasattr(parts, "npartitions") and hasattr(parts, "columns"):
        return _frame_shards(parts, shards, assume_grouped, options)
    if any(hasattr(type(part), "chunks") for part in (parts if isinstance(parts, tuple | list) else [parts])):
        raise TypeError("Dask arrays must be made a DataFrame with the columns qid and relevance: to_dask_dataframe()")
    if options or shards is not None:
        names = ", ".join([*options, *(["shards"] if shards is not None else [])])
        raise TypeError(f"{names} cannot be given with a bag or with delayed streams: repartition it first")
    if hasattr(parts, "npartitions"):
        return [DelayedShard(part, streams_of, f"partition {n}") for n, part in enumerate(parts.to_delayed())]
    several = parts if isinstance(parts, (list, tuple)) else [parts]
    return [DelayedShard(part, streams_of, f"part {n}") for n, part in enumerate(several)]


def _frame_shards(frame: Any, shards: int | None, assume_grouped: bool, options: dict[str, Any]) -> list[DelayedShard]:
    columns, qid = check_columns(frame, options), options.get("qid", "qid")
    if not assume_grouped:
        frame = shuffled(frame, qid, shards or frame.npartitions)
    elif shards is not None:
        raise TypeError("shards cannot be given with assume_grouped=True: repartition the frame by whole queries first")
    parts = frame.to_delayed()
    if assume_grouped:
        _check_grouped(parts, qid)
    converter = Frames(columns, shuffled=not assume_grouped)
    return [DelayedShard(part, converter, f"partition {n}") for n, part in enumerate(parts)]


def shuffled(frame: Any, qid: str, n: int) -> Any:
    """Return a frame whose queries are in one partition each, with the place of each row as a column."""
    import dask.dataframe as dd
    from dask import delayed

    kind = frame._meta[qid].dtype
    placed = [delayed(_with_places)(part, number, qid, kind) for number, part in enumerate(frame.to_delayed())]
    meta = _with_places(frame._meta, 0, qid, kind)
    whole = dd.from_delayed(placed, meta=meta, verify_meta=False)
    # By plain tasks, which Dask runs again like any other if a worker is lost, and any scheduler runs.
    return whole.shuffle(on=qid, npartitions=n, shuffle_method="tasks")


def _with_places(frame: Any, partition: int, qid: str, kind: Any) -> Any:
    places = np.arange(len(frame), dtype=np.int64) + partition * _MOST_ROWS
    return frame.assign(**{qid: _of_kind(frame[qid], kind, partition), ORDER: places})


def _of_kind(queries: Any, kind: Any, partition: int) -> Any:
    """Return ids in the type that the frame promises: a shuffle would send 7 and "7" to different partitions."""
    own = queries.dtype
    if own == kind or len(queries) == 0:
        return queries
    is_text = [not isinstance(dtype, np.dtype) or dtype.kind == "O" for dtype in (own, kind)]
    if all(is_text):
        return queries.astype(kind)
    if not any(is_text):
        if queries.isna().any():
            return queries  # which is refused where the queries are read
        if (queries.astype(kind) == queries).all():
            return queries.astype(kind)
    raise TypeError(
        f"{queries.name} is {own} in partition {partition}, but {kind} in the frame: make all partitions of one type"
    )


def _check_grouped(parts: list[Any], qid: str) -> None:
    """Raise if a query is in two partitions."""
    import dask
    from dask import delayed

    seen: dict[str, int] = {}  # as text: 7, 7.0 and '7' are one query in different types
    for number, queries in enumerate(dask.compute(*[delayed(_queries_of)(part, qid) for part in parts])):
        for query in queries:
            plain = int(query) if isinstance(query, float) and query.is_integer() else query
            if str(plain) in seen:
                raise ValueError(
                    f"query {plain!r} is in the partitions {seen[str(plain)]} and {number}: leave out "
                    "assume_grouped=True, for a shuffle that brings queries together"
                )
            seen[str(plain)] = number


def _queries_of(frame: Any, qid: str) -> list[Any]:
    queries: list[Any] = frame[qid].unique().tolist()
    return queries
