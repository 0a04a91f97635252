"""Files of judgements: all columns for people and for `read_table`, and what other tools import."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from perceptrank.io.atomic import replaced_file
from perceptrank.stream.validation import check_choice

if TYPE_CHECKING:
    from perceptrank.clicks.judging.judgements import Judgements

Format: TypeAlias = Literal["full", "quepid", "workbench"]
Ratings: TypeAlias = Literal["grade", "estimate"]
_SUFFIXES: dict[str, Format] = {".csv": "full", ".jsonl": "full", ".ndjson": "full", ".json": "workbench"}


def format_for(path: str | os.PathLike[str]) -> Format:
    """Return the format that a suffix stands for; raise `ValueError` if it stands for none."""
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        known = ", ".join(_SUFFIXES)
        raise ValueError(f"{path}: the suffix of a file of judgements must be one of {known}, or give its format")
    return _SUFFIXES[suffix]


def write_judgements(
    judged: Judgements, path: str | os.PathLike[str], to: Format | None = None, ratings: Ratings = "grade"
) -> int:
    """Write judgements atomically, and return the number of documents in the file; see `Judgements.write`."""
    to = format_for(path) if to is None else to
    check_choice("to", to, get_args(Format))
    if to == "full":
        rows = [_plain_row(row) for row in judged.rows()]
        is_json = Path(path).suffix.lower() in (".jsonl", ".ndjson", ".json")
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows) if is_json else _csv_lines(rows)
        count = len(rows)
    else:
        rated = judged.rated(ratings)
        lines = _quepid(rated) if to == "quepid" else _workbench(rated, Path(path).stem, judged.model)
        count = len(rated)
    with replaced_file(path) as file:
        for line in lines:
            file.write(line.encode("utf-8", "surrogateescape"))
    return count


class _Returned:
    write = str  # what is written to this file is returned


def _csv_lines(rows: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Yield lines of CSV that end as Quepid expects, whatever the system."""
    writer: Any = csv.writer(_Returned(), lineterminator="\n")
    for number, row in enumerate(rows):
        if number == 0:
            yield writer.writerow(row)
        yield writer.writerow(map(_text, row.values()))


def _quepid(rated: list[tuple[str, str, float]]) -> Iterable[str]:
    return _csv_lines({"query": query, "docid": docid, "rating": _number(rating)} for query, docid, rating in rated)


def _workbench(rated: list[tuple[str, str, float]], name: str, model: str) -> Iterable[str]:
    """Yield the body of a request to import judgements: ratings are text there."""
    queries = [
        {"query": query, "ratings": [{"docId": docid, "rating": str(_number(rating))} for _, docid, rating in rows]}
        for query, rows in groupby(rated, key=lambda row: row[0])
    ]
    body = {
        "name": name[:50],
        "description": f"Judgements from clicks, model {model}, by perceptrank",
        "type": "IMPORT_JUDGMENT",
        "judgmentRatings": queries,
    }
    yield json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def _plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(value) if isinstance(value, float) else value for name, value in row.items()}


def _number(value: float) -> float | int | None:
    """Return a number as it is written: whole ones without a point, None for NaN."""
    if math.isnan(value):
        return None
    return int(value) if value.is_integer() else value


def _text(value: Any) -> Any:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value
