"""Labels of queries: a column of tables or Parquet files that has one value for all documents of a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from perceptrank.io.errors import FileFormatError
from perceptrank.io.parquet_columns import content_of, import_pyarrow, open_parquet
from perceptrank.io.paths import PathLike, find_paths
from perceptrank.io.sources import format_of
from perceptrank.io.tables.columns import missing_column
from perceptrank.io.tables.reader import as_wanted, open_table
from perceptrank.io.tables.rows import parse_number

_BATCH_ROWS = 2**16


def read_labels(
    paths: PathLike | Iterable[PathLike],
    column: str,
    feature_paths: PathLike | Iterable[PathLike] | None = None,
    *,
    qid: str | None = None,
) -> dict[Any, Any]:
    r"""Read a column that has one value per query, such as a category, for the slices of an evaluation.

    Parameters
    ----------
    paths : path or several of them
        Parquet files or tables.
    column : str
        Name of the column.
    feature_paths : path or several of them, optional
        Tables with the features; the column may be there.
    qid : str, optional
        Column of the query ids; default ``qid`` in Parquet files, and found by its usual names in tables.

    Returns
    -------
    dict
        The value of each query, by its id; numbers, or text if not all are numbers.

    Raises
    ------
    FormatError
        If no file has the column, or a query has two values.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "judgements.csv")
    >>> _ = path.write_text("query,docid,rating,category\nshoes,a,2,men\nshoes,b,0,men\nhats,c,1,women\n")
    >>> read_labels(path, "category")
    {'shoes': 'men', 'hats': 'women'}
    """
    groups = [find_paths(given, "tables") for given in (paths, feature_paths) if given is not None]
    error: FileFormatError | None = None
    for group in groups:
        try:
            pairs = [(file, pair) for file in group for pair in dict.fromkeys(_pairs(file, column, qid))]
        except FileFormatError as problem:  # the column may be in the other tables
            error = error or problem
            continue
        labels: dict[Any, Any] = {}
        for path, (query, value) in pairs:
            if labels.setdefault(query, value) != value:
                rule = f": column {column!r} must have one value per query, got {labels[query]!r} and {value!r}"
                raise FileFormatError(path, f"{rule} for query {query!r}")
        return _as_numbers(labels)
    assert error is not None
    raise error


def _pairs(path: str, column: str, qid: str | None) -> Iterator[tuple[Any, Any]]:
    kind = format_of(path)
    if kind == "parquet":
        yield from _parquet_pairs(path, column, qid or "qid")
    elif kind == "table":
        table = open_table(path, as_wanted({"qid": qid})._replace(with_features=False))
        for queries, values in table.labels(column):
            yield from zip(queries, values, strict=True)
    else:
        what = "LETOR text" if kind == "letor" else "a store"
        raise ValueError(f"{path} is {what}, which has no column {column!r}: those are of tables and Parquet files")


def _parquet_pairs(path: str, column: str, qid: str) -> Iterator[tuple[Any, Any]]:
    pa, _ = import_pyarrow()
    with content_of(path):
        file = open_parquet(path)
        names = file.schema_arrow.names
    for name in (column, qid):
        if name not in names:
            raise missing_column(path, name, names)
    if pa.types.is_nested(file.schema_arrow.field(column).type):
        raise FileFormatError(path, f": column {column!r} must hold numbers or text to slice by")
    batches = file.iter_batches(batch_size=_BATCH_ROWS, columns=[qid, column])
    while True:
        with content_of(path):
            batch = next(batches, None)
            if batch is None:
                return
            both = [batch.column(name).to_pylist() for name in (qid, column)]
        values = (None if value != value else value for value in both[1])  # noqa: PLR0124
        yield from zip(both[0], values, strict=True)


def _as_numbers(labels: dict[Any, Any]) -> dict[Any, Any]:
    """Return labels as numbers if all texts are, whole ones if all are; None where a label is missing."""
    try:
        numbers = {text: parse_number(text) for text in labels.values() if isinstance(text, str)}
    except ValueError:
        return labels
    whole = all(number.is_integer() for number in numbers.values() if number == number)  # noqa: PLR0124

    def as_number(value: Any) -> Any:
        number = numbers.get(value, value) if isinstance(value, str) else value
        if number is None or number != number:  # noqa: PLR0124
            return None
        return int(number) if whole and isinstance(value, str) else number

    return {query: as_number(value) for query, value in labels.items()}
