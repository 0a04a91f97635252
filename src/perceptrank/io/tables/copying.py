"""Write tables: a stream as CSV, or the rows of a table to several, with whatever their columns hold."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from perceptrank.io.atomic import replaced_file
from perceptrank.io.compression import compressed_file
from perceptrank.io.tables.delimited import DelimitedTable
from perceptrank.stream.query_stream import QueryStream


def copy_rows(table: DelimitedTable, parts: Mapping[str, int], paths: Sequence[str]) -> list[int]:
    """Copy each row to the file of its query's part, and the header to all; return how many rows each file has."""
    counts = [0] * len(paths)
    is_csv = table.columns.format == "csv"  # TSV has no quotes
    quoting: Any = {"quotechar": '"'} if is_csv else {"quotechar": None, "quoting": csv.QUOTE_NONE}
    with ExitStack() as stack:
        replaced = [stack.enter_context(replaced_file(path)) for path in paths]
        files = [stack.enter_context(compressed_file(*pair)) for pair in zip(replaced, paths, strict=True)]
        for qid, cells in table.records():
            text = io.StringIO()
            writer = csv.writer(text, delimiter=table.delimiter, lineterminator="\n", **quoting)
            writer.writerow(cells)
            for number in range(len(paths)) if qid is None else [parts[qid]]:
                files[number].write(text.getvalue().encode())
                counts[number] += qid is not None
    return counts


def write_csv(blocks: Iterator[QueryStream], path: str) -> None:
    """Write a stream as CSV, a row for each document, with the columns of `QueryStream.to_frame`."""
    names: list[str] = []
    with replaced_file(path) as raw, compressed_file(raw, path) as file:
        for block in blocks:
            frame: Any = block.to_frame("polars")
            if names and frame.columns != names:
                raise ValueError(f"all queries must have the same columns, got {names} and {frame.columns}")
            file.write(frame.write_csv(include_header=not names).encode())
            names = frame.columns
