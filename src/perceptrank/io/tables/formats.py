"""Formats of tables: by the suffix of a file, or by its first line."""

from pathlib import Path
from typing import Any

from perceptrank.io.compression import SUFFIXES
from perceptrank.io.errors import FileFormatError
from perceptrank.io.tables.chunks import read_head
from perceptrank.io.tables.columns import Format

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
    first = next((line for line in read_head(path).splitlines() if line.strip()), b"").strip()
    words: list[Any] = first.split()
    if first[:1] == b"{":
        return "jsonl"
    if b"\t" in first and len(words) not in (4, 6):
        return "tsv"
    if len(words) == 4 and _is_number(words[3]) and b"," not in first:
        return "qrels"
    if len(words) == 6 and _is_number(words[3]) and _is_number(words[4]):
        return "run"
    if b"\t" in first:
        return "tsv"
    if b"," in first or b";" in first:
        return "csv"
    raise FileFormatError(path, " is no table that is known: end its name with .csv, .tsv, .jsonl, .qrels or .run")


def _is_number(word: bytes) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
