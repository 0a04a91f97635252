"""Write tables: a stream as CSV, or the rows of a table to several, with whatever their columns hold."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from io import StringIO
from typing import Any

from perceptrank.io.atomic import replaced_file
from perceptrank.io.compression import compressed_file
from perceptrank.io.tables.delimited import DelimitedTable
from perceptrank.stream.query_stream import QueryStream


def copy_rows(table: DelimitedTable, parts: Mapping[str, int], paths: Sequence[str]) -> list[int]:
    """Copy each row to the file of its query's part, and the header to all; return how many rows each file has."""
    place = table.header.index(table.columns.roles["qid"])
    style: Any = {} if table.columns.format == "csv" else {"quoting": csv.QUOTE_NONE, "quotechar": None}
    rows, counts = [[table.header] for _ in paths], [-1] * len(paths)
    with ExitStack() as stack:
        replaced = [stack.enter_context(replaced_file(path)) for path in paths]
        files = [stack.enter_context(compressed_file(*pair)) for pair in zip(replaced, paths, strict=True)]
        for records in table.records():
            for cells in records:
                if (number := parts.get(cells[place])) is not None:  # else the row is blank
                    rows[number].append(cells)
            for number, file in enumerate(files):
                text = StringIO()
                csv.writer(text, delimiter=table.delimiter, lineterminator="\n", **style).writerows(rows[number])
                file.write(text.getvalue().encode())
                counts[number] += len(rows[number])
                rows[number] = []
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
