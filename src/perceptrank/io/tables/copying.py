"""Write tables: a stream as CSV, or the rows of a table to several, with whatever their columns hold."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from perceptrank.io.atomic import replaced_file
from perceptrank.io.compression import compressed_file
from perceptrank.io.tables.delimited import DelimitedTable
from perceptrank.stream.query_stream import QueryStream


def copy_rows(table: DelimitedTable, parts: Mapping[str, int], paths: Sequence[str]) -> list[int]:
    """Copy each row to the file of its query's part, and the header to all; return how many rows each file has."""
    counts: dict[int, int] = {}
    style: Any = "necessary" if table.columns.format == "csv" else "never"
    with ExitStack() as stack:
        replaced = [stack.enter_context(replaced_file(path)) for path in paths]
        files = [stack.enter_context(compressed_file(*pair)) for pair in zip(replaced, paths, strict=True)]
        for frame in table.texts(table.header):
            numbers = [parts[qid] for qid in frame[table.columns.roles["qid"]]]
            for number, file in enumerate(files):
                rows = frame.filter([here == number for here in numbers])
                text = rows.write_csv(separator=table.delimiter, quote_style=style, include_header=number not in counts)
                file.write(text.encode())
                counts[number] = counts.get(number, 0) + len(rows)
    return list(counts.values())


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
