"""Rows of data frames as queries, and the options of reading them, whichever engine made the frames."""

from dataclasses import dataclass
from typing import Any

from perceptrank.stream.blocks import Blocks
from perceptrank.stream.columns import CLICKED, PLACE
from perceptrank.stream.query_stream import QueryStream

ORDER = "__perceptrank_order__"  # a column: the places of rows before a shuffle
_COLUMNS = {"qid", "relevance", "features", "missing"}


@dataclass(frozen=True)
class Frames:
    """Conversion of rows of a data frame to queries, in the order of the rows before a shuffle if there was one."""

    options: tuple[tuple[str, Any], ...]
    shuffled: bool = False

    def __call__(self, frame: Any) -> Blocks:
        """Return the queries of a partition."""
        return [] if len(frame) == 0 else QueryStream.from_frame(self.ordered(frame), **dict(self.options))

    def ordered(self, frame: Any) -> Any:
        """Return the rows in the order that they had before a shuffle."""
        return frame.sort_values(ORDER, kind="stable").drop(columns=ORDER) if self.shuffled else frame


@dataclass(frozen=True)
class DelayedShard:
    """A partition that its engine makes where it is learned, in every epoch anew unless it was persisted."""

    part: Any
    converter: Any
    name: str

    def fingerprint(self) -> list[Any]:
        """Return nothing: what a partition holds is not known before it is made."""
        return []

    def blocks(self) -> Blocks:
        """Return the queries; a part that is still delayed is made in this process."""
        part = self.part.compute(scheduler="synchronous") if hasattr(self.part, "__dask_graph__") else self.part
        blocks: Blocks = self.converter(part)
        return blocks


def check_columns(frame: Any, options: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return the options of reading a data frame, in order; raise if one is unknown, or a column is missing."""
    unknown = set(options) - _COLUMNS
    if unknown:
        raise TypeError(f"{', '.join(sorted(unknown))}: of a frame, only {', '.join(sorted(_COLUMNS))} can be given")
    dotted = [name for name in frame.columns if "." in str(name)] if is_of_spark(frame) else []
    if dotted:
        raise ValueError(
            f"columns of a Spark DataFrame must have no dot in their name, got {dotted[0]!r}: rename them by toDF"
        )
    qid, relevance = options.get("qid", "qid"), options.get("relevance", "relevance")
    needed = [qid] if {PLACE, CLICKED} <= set(frame.columns) else [qid, relevance]
    lacking = [name for name in needed if name not in list(frame.columns)]
    if lacking:
        raise ValueError(f"the frame has no column {', '.join(map(repr, lacking))}; it has {list(frame.columns)}")
    return tuple(sorted(options.items(), key=lambda option: option[0]))


def is_of_spark(frame: Any) -> bool:
    """Tell a Spark DataFrame by what it can do."""
    return hasattr(frame, "mapInArrow")
