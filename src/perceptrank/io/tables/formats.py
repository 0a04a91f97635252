"""Formats of tables: by the suffix of a file, or by its first line."""

from pathlib import Path

from perceptrank.io.compression import SUFFIXES
from perceptrank.io.errors import FileFormatError
from perceptrank.io.tables.chunks import read_head
from perceptrank.io.tables.columns import Format
from perceptrank.io.tables.rows import is_number

_FORMATS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".qrels": "qrels",
    ".qrel": "qrels",
    ".run": "run",
}


def format_of_name(name: str) -> Format | None:
    """Return the format that a file's name tells, compressed or not; None if it tells none.

    Examples
    --------
    >>> format_of_name("Judgements.CSV.gz"), format_of_name("train.txt")
    ('csv', None)
    """
    path = Path(name.lower())
    if path.suffix in SUFFIXES:
        path = path.with_suffix("")
    return _FORMATS.get(path.suffix)


def table_format(path: str) -> Format:
    """Return the format of a table by its name, or by its first line; raise `FormatError` if neither tells it."""
    named = format_of_name(path)
    if named is not None:
        return named
    lines = read_head(path).decode(errors="replace").splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    words = first.split()
    if first.startswith("{"):
        return "jsonl"
    if len(words) == 4 and is_number(words[3]) and "," not in first:
        return "qrels"
    if len(words) == 6 and is_number(words[3]) and is_number(words[4]):
        return "run"
    if "\t" in first:
        return "tsv"
    if "," in first or ";" in first:
        return "csv"
    raise FileFormatError(path, " is no known kind of table: end its name with .csv, .tsv, .jsonl, .qrels or .run")
