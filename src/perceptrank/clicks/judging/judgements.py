"""Judgements as a value: estimates, intervals and grades of each document of each query; and their files."""

from __future__ import annotations

import codecs
import csv
import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from perceptrank.clicks.bias.result import PositionBias
from perceptrank.clicks.judging.sums import query_texts
from perceptrank.io.atomic import replaced_file
from perceptrank.kernels.arrays import Bools, Floats, Ints
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.columns import DOCID
from perceptrank.stream.frames import make_frame
from perceptrank.stream.query_stream import QueryStream, missing_columns
from perceptrank.stream.sparse import AnyFeatures, concatenate_features
from perceptrank.stream.texts import Texts
from perceptrank.stream.validation import check_choice

Format: TypeAlias = Literal["full", "quepid", "workbench"]
Ratings: TypeAlias = Literal["grade", "estimate"]
_SUFFIXES: dict[str, Format] = {".csv": "full", ".jsonl": "full", ".ndjson": "full", ".json": "workbench"}
_COLUMNS = (
    *("query", "docid", "grade", "estimate", "low", "high", "clicks", "shown", "exposure", "smallest_place"),
    *("largest_place", "prior_share", "identified", "reason"),
)


@dataclass(frozen=True, eq=False, repr=False)
class Judgements:
    """Judgements of documents of queries, as clicks tell them; returned by `judgements`.

    Arrays have one value for each document of each query: queries in the order of the log, documents by their
    estimates. Methods take:

    - `ratings`: "grade" or "estimate", what documents are rated by: those without one are left out;
    - `library`: library of a data frame, "pandas" or "polars".

    Attributes
    ----------
    query, docid : Texts
        The query, and the document.
    grade : array
        Grade, if the whole interval lies in one band; else NaN.
    estimate : array
        Probability of a click if the document is seen, as the model estimates it; NaN if it is not identified.
    low, high : array
        Interval of the estimate: 0 and 1 if it is not identified, NaN for models that have none.
    clicks, shown : array
        Clicks and impressions in the log.
    exposure : array
        How often the document was seen, by the model.
    smallest_place, largest_place : array of int
        Places at which it was shown.
    prior_share : array
        Share of the estimate that comes from the prior.
    identified : array of bool
        Whether the log tells anything about the document.
    reason : Texts
        Why it is not identified; or which of its impressions are left out.
    model : str
        Model of clicks.
    thresholds : tuple of float
        Bounds of the bands of grades.
    confidence : float
        Confidence level of each interval.
    n_impressions : int
        Impressions in the log.
    notes : tuple of str
        What of the log is not used.
    bias : PositionBias or None
        Position bias that was used, if the model has one.

    Examples
    --------
    >>> import perceptrank as pr
    >>> log = pr.QueryStream.from_arrays(
    ...     np.empty((600, 0)), group=[2] * 300, docids=["a", "b"] * 300, place=[1, 2] * 300, clicked=[1, 0] * 300,
    ...     columns={"user_query": ["red shoes"] * 300})
    >>> judged = pr.clicks.judgements(log, bias=[1.0, 0.5])
    >>> judged
    Judgements(2 documents of 1 queries, 2 graded, model position)
    >>> judged.docid.tolist(), judged.grade.tolist(), judged.high.round(3).tolist()
    (['a', 'b'], [4.0, 0.0], [1.0, 0.024])
    """

    query: Texts
    docid: Texts
    grade: Floats
    estimate: Floats
    low: Floats
    high: Floats
    clicks: Floats
    shown: Floats
    exposure: Floats
    smallest_place: Ints
    largest_place: Ints
    prior_share: Floats
    identified: Bools
    reason: Texts
    model: str
    thresholds: tuple[float, ...]
    confidence: float
    n_impressions: int
    notes: tuple[str, ...] = ()
    bias: PositionBias | None = None

    def __len__(self) -> int:
        return len(self.docid)

    def __repr__(self) -> str:
        graded = int((~np.isnan(self.grade)).sum())
        n_queries = len(set(self.query.tolist()))
        return f"Judgements({len(self)} documents of {n_queries} queries, {graded} graded, model {self.model})"

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a dict for each document of a query, with the columns of a file."""
        for values in zip(*(getattr(self, name).tolist() for name in _COLUMNS), strict=True):
            yield dict(zip(_COLUMNS, values, strict=True))

    def rated(self, ratings: Ratings = "grade") -> list[tuple[str, str, float]]:
        """Return (query, document, rating) of all that have one; raise `ValueError` if there are none."""
        check_choice("ratings", ratings, get_args(Ratings))
        values = getattr(self, ratings)
        has_one = ~np.isnan(values)
        if not has_one.any():
            other = "; `ratings='estimate'` takes the estimates" if ratings == "grade" and self.identified.any() else ""
            why = next(iter(self.ungraded() if ratings == "grade" else Counter(self.reason.tolist())), "")
            raise ValueError(f"none of {len(self):,} documents has a rating: {why}{other}")
        rows = zip(self.query[has_one].tolist(), self.docid[has_one].tolist(), values[has_one].tolist(), strict=True)
        return list(rows)

    def ungraded(self) -> dict[str, int]:
        """Return how many documents have no grade, by reason, the most frequent first."""
        counts: Counter[str] = Counter()
        for has_grade, known, low, why in zip(
            ~np.isnan(self.grade), self.identified, self.low.tolist(), self.reason.tolist(), strict=True
        ):
            if not has_grade:
                wide = f"model {self.model} has no intervals" if low != low else "interval spans several bands"  # noqa: PLR0124
                counts[wide if known else why] += 1
        return dict(counts.most_common())

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a data frame with one row for each document of each query."""
        return make_frame({name: getattr(self, name) for name in _COLUMNS}, library)

    def to_stream(self, features: Blocks, ratings: Ratings = "estimate") -> QueryStream:
        """Join the judgements with features, so that they can be learned from and evaluated on.

        Parameters
        ----------
        features : QueryStream or iterable of QueryStream
            Streams with features and ``docid``. Their queries are told by ``user_query``, or by ``qid``; the log itself
            will do, if it has features: those of a document are taken from its first impression. A warning says how
            many judgements have no features.
        ratings : "grade" or "estimate"
            What becomes the relevance. Documents without a rating are left out: few have a grade, and most of those
            stood on top, so that learning from grades alone says little about the others.
        """
        rating = {(query, docid): value for query, docid, value in self.rated(ratings)}
        rows: list[AnyFeatures] = []
        judged: list[tuple[str, str, float]] = []
        names: tuple[str, ...] | None = None
        n_rated = len(rating)
        for block in as_blocks(features, required=True):
            if block.docids is None:
                raise missing_columns(block, "joining judgements", (DOCID,))
            if rows and names != block.feature_names:
                raise ValueError(f"blocks must have the same features, got {names} and {block.feature_names}")
            names = block.feature_names
            queries = np.repeat(np.array(query_texts(block), object), np.diff(block.offsets)).tolist()
            found: list[int] = []
            for row, key in enumerate(zip(queries, block.docids.tolist(), strict=True)):
                if (value := rating.pop(key, None)) is not None:
                    found.append(row)
                    judged.append((*key, value))
            rows.append(block.X[np.array(found, np.int64)])
        if not judged:
            raise ValueError(f"none of {n_rated:,} judgements has features: queries or document ids differ")
        if rating:
            warnings.warn(f"{len(rating):,} judgements without features are left out", stacklevel=2)
        qids, docids, grades = zip(*judged, strict=True)
        return QueryStream.from_arrays(concatenate_features(rows), grades, qid=qids, docids=docids, feature_names=names)

    def write(self, path: str | os.PathLike[str], to: Format | None = None, *, ratings: Ratings = "grade") -> int:
        """Write the judgements to a file, atomically; return the number of documents that were written.

        Parameters
        ----------
        path : path
            ``.csv`` or ``.jsonl`` for all columns, which `read_table` takes with a table of features; ``.json`` for the
            workbench.
        to : "full", "quepid" or "workbench", optional
            All columns; what Quepid imports (CSV with query, docid and rating); or the body of a request that imports
            judgements into OpenSearch's search relevance workbench. By default the suffix tells.
        ratings : "grade" or "estimate"
            Rating in files for Quepid and the workbench. Documents without one are not written.
        """
        to = format_for(path, to)
        rated = [] if to == "full" else self.rated(ratings)
        with replaced_file(path) as file:
            text = codecs.getwriter("utf-8")(file, "surrogateescape")
            if to == "workbench":
                text.write(_workbench(rated, Path(path).stem, self.model))
            elif to == "quepid":
                _write_csv(text, ("query", "docid", "rating"), rated)
            elif Path(path).suffix.lower() in (".jsonl", ".ndjson"):
                for row in self.rows():
                    numbers = {name: _number(value) for name, value in row.items()}
                    text.write(json.dumps(numbers, ensure_ascii=False) + "\n")
            else:
                _write_csv(text, _COLUMNS, (row.values() for row in self.rows()))
        return len(self) if to == "full" else len(rated)

    def as_plain(self) -> dict[str, Any]:
        """Return a summary as dicts, lists, text and numbers, for JSON."""
        has_grade = ~np.isnan(self.grade)
        grades, counts = np.unique(self.grade[has_grade], return_counts=True)
        return {
            "model": self.model,
            "confidence": self.confidence,
            "thresholds": list(self.thresholds),
            "impressions": self.n_impressions,
            "queries": len(set(self.query.tolist())),
            "documents": len(self),
            "graded": int(has_grade.sum()),
            "grades": {f"{grade:g}": int(n) for grade, n in zip(grades, counts, strict=True)},
            "not graded": self.ungraded(),
            "notes": list(self.notes),
            "position bias": None if self.bias is None else self.bias.as_plain(),
        }


def format_for(path: str | os.PathLike[str], to: Format | None = None) -> Format:
    """Return the format to write, by default that which the suffix stands for; raise `ValueError` if there is none."""
    suffix = Path(path).suffix.lower()
    if to is not None:
        check_choice("to", to, get_args(Format))
        if to == "full" and suffix == ".json":
            known = ", ".join(suffix for suffix, format in _SUFFIXES.items() if format == "full")
            raise ValueError(f"{path}: the suffix of a file with all columns must be one of {known}")
        return to
    if suffix not in _SUFFIXES:
        known = ", ".join(_SUFFIXES)
        raise ValueError(f"{path}: the suffix of a file of judgements must be one of {known}, or give its format")
    return _SUFFIXES[suffix]


def _write_csv(file: Any, names: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write CSV whose lines end as Quepid expects, whatever the system."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(map(_text, row) for row in rows)


def _workbench(rated: list[tuple[str, str, float]], name: str, model: str) -> str:
    """Return the body of a request to import judgements: ratings are text there."""
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
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def _number(value: Any) -> Any:
    """Return a number as it is written: whole ones without a point, None for NaN; other values as they are."""
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else int(value) if value.is_integer() else value


def _text(value: Any) -> Any:
    value = _number(value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value
