"""Features of the documents of impressions: by query and document, or by document."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from perceptrank.io.growing import GrowingArray
from perceptrank.io.logs.events import pl
from perceptrank.io.logs.report import Counts
from perceptrank.io.paths import PathLike, find_paths, is_parquet
from perceptrank.io.tables.columns import Wanted, find_roles, is_kept_apart
from perceptrank.io.tables.delimited import as_texts
from perceptrank.io.tables.reader import forget_text, open_tables
from perceptrank.io.tables.rows import Place, Rows, align, check_features
from perceptrank.kernels.arrays import Bools, Features


class NoRowsError(ValueError):
    """Tables without rows."""


class FeatureTable:
    """Features in memory, by query (the impression's id, or what the user asked) and document, or by document alone."""

    def __init__(
        self, paths: PathLike | Iterable[PathLike], wanted: Wanted, missing: str, without: Collection[str] = ()
    ) -> None:
        wanted = wanted._replace(required={"docid"}, with_grades=False)
        self.files = find_paths(paths, "tables")
        batches: list[Rows] = []
        others = [file for file in self.files if not is_parquet(file)]
        tables = [_parquet_rows(file, wanted) for file in self.files if file not in others]
        for table in [*tables, *(table.rows() for table in open_tables(others, wanted))]:
            for rows in table:
                kept = [j for j, name in enumerate(rows.names) if name not in without]
                own = replace(rows, X=rows.X[:, kept], names=tuple(rows.names[j] for j in kept)) if without else rows
                batches.append(forget_text(check_features(own, missing)))
        if not batches:
            raise NoRowsError(f"there are no rows in {', '.join(self.files)}")
        self.names = tuple(dict.fromkeys(name for rows in batches for name in rows.names))
        values = GrowingArray(wanted.dtype)
        for rows in batches:
            values.extend(align(rows, self.names, missing).X.ravel())
        self.X: Features = values.finish().reshape(sum(map(len, batches)), len(self.names))
        queries = np.concatenate([rows.qids for rows in batches])
        documents = [text for rows in batches for text in rows.columns["docid"].tolist()]
        keys = pl.DataFrame({"query": pl.Series(queries.tolist(), dtype=pl.String), "docid": documents})
        self.has_queries = keys["query"].null_count() < len(keys)
        key = ["query", "docid"] if self.has_queries else ["docid"]
        self._keys = keys.with_row_index("feature").filter(pl.col("docid") != "").unique(key, keep="first")
        self.n_repeated = len(keys) - len(self._keys)
        self._key = key
        self.start()

    def start(self) -> None:
        """Begin a pass: no row is used yet."""
        self._named_by = ""
        self.used: Bools = np.zeros(len(self.X), dtype=bool)

    def find(self, documents: Any) -> Any:
        """Return the row of features of each document, null for those that have none."""

        def find_by(*names: str) -> Any:
            keys = self._keys.select(feature="feature", **dict(zip(names, self._key, strict=True)))
            return documents.select(names).join(keys, on=names, how="left", maintain_order="left")["feature"]

        if not self.has_queries:
            found = find_by("docid")
        else:
            names = [self._named_by] if self._named_by else ["qid", "user_query"]
            by = {name: find_by(name, "docid") for name in names}
            named_by = min(by, key=lambda name: by[name].null_count())
            found = by[named_by]
            if found.null_count() < len(found):  # for all groups alike
                self._named_by = named_by
        self.used[found.drop_nulls().to_numpy()] = True
        return found.cast(pl.Int64)

    def count(self, counts: Counts) -> None:
        """Count the rows that no impression used."""
        counts.left_out["rows of features without an impression"] += len(self._keys) - int(self.used.sum())
        counts.left_out["rows of features that are there twice"] += self.n_repeated

    def describe(self) -> str:
        """Return some keys, for the message that none of them fits."""
        pairs = self._keys.head(2).select(self._key).rows()
        return ", ".join("/".join(map(repr, pair)) for pair in pairs)


def _parquet_rows(path: str, wanted: Wanted) -> Iterator[Rows]:
    """Read the features in a Parquet file: its columns of numbers that are no ids."""
    frame = pl.read_parquet(path)
    roles, _ = find_roles(path, frame.columns, wanted)
    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric() or kind == pl.Boolean]
    others = [name for name in numbers if name not in roles.values() and not is_kept_apart(name, wanted)]
    names = tuple(wanted.features or others)
    qids = frame[roles["qid"]].cast(pl.String).to_numpy() if "qid" in roles else np.full(len(frame), None)
    columns = {"docid": as_texts(frame[roles["docid"]].cast(pl.String))}
    X = np.ascontiguousarray(frame.select(pl.col(names).cast(pl.Float64)).to_numpy(), dtype=wanted.dtype)

    def place(row: int, column: str) -> Place:
        return Place(row + 1, 1, str(frame[column][row]) if column in frame.columns else "")

    yield Rows(path, place, qids, columns, X, names)
