"""Text of tables, plain or compressed: its format, and chunks of whole records."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn

from perceptrank.io import text as text_files
from perceptrank.io.errors import FileFormatError, FormatError
from perceptrank.io.sources import table_format_of_name
from perceptrank.io.tables.columns import Format
from perceptrank.io.tables.rows import is_number

CHUNK_BYTES = 4 * 2**20
_HEAD_BYTES = 2 * 2**20
QUOTES = "quotes must be closed; a field that has quotes must be quoted, and its own quotes doubled"
_QUOTE, _NEWLINE = b'"', b"\n"

Progress = Callable[[int], object]


class Chunk(NamedTuple):
    """Whole records, the first of them on line number `line`, from 1."""

    text: bytes
    line: int


def read_chunks(
    path: str, *, quoted: bool = False, prefix: bytes = b"", size: int | None = None, progress: Progress | None = None
) -> Iterator[Chunk]:
    """Read a file in chunks of whole lines; with `quoted`, a record continues after a newline within quotes.

    Every chunk begins with `prefix` and has about `size` bytes, or one record, of at most 64 MiB, like a line of LETOR
    text. `progress` is called with the number of bytes read so far, before decompression. Raises `FormatError` for an
    empty file.
    """
    reader = text_files.TextReader([path], _refuse, "a table", size or CHUNK_BYTES)
    rest, line, begin = b"", 1, len(prefix)
    for chunk in reader.chunks():
        text = b"".join([prefix, rest, chunk.text.data[chunk.start : chunk.stop]])
        reader.release(chunk)
        if progress is not None:
            progress(reader.n_read)
        end = len(text)
        if quoted and text.find(_QUOTE, begin) >= 0:  # which is many times as fast as counting
            n_quotes = text.count(_QUOTE, begin)
            while n_quotes % 2 and end > begin:  # the last newline is within quotes
                start = text.rfind(_NEWLINE, begin, end - 1) + 1 or begin
                n_quotes -= text.count(_QUOTE, start, end)
                end = start
        if end > begin:
            yield Chunk(text[:end], line)
            line = chunk.first_line + chunk.n_lines - text.count(_NEWLINE, end)
        elif len(text) >= text_files.LONGEST_LINE:
            raise _open_quote(path, text[begin:], line)
        rest = text[end:]
    if rest:
        raise _open_quote(path, rest, line)


def read_head(path: str, *, quoted: bool = False) -> bytes:
    """Read the first records of a file."""
    chunks = read_chunks(path, quoted=quoted, size=_HEAD_BYTES)
    try:
        return next(chunks).text
    finally:
        chunks.close()  # type: ignore[attr-defined]


def _refuse(error: FormatError) -> NoReturn:
    raise error


def _open_quote(path: str, text: bytes, line: int) -> FormatError:
    """Return the error for a quote that is not closed, at the first line with an odd number of them."""
    odd = next(i for i, row in enumerate(text.split(_NEWLINE)) if row.count(_QUOTE) % 2)
    return FormatError(path, line + odd, 1, QUOTES)


def table_format(path: str) -> Format:
    """Return the format of a table by its name, or by its first line; raise `FormatError` if neither tells it."""
    named = table_format_of_name(path)
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
