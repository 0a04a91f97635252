"""Streams of impressions from a log of events, in memory or by way of temporary files."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from perceptrank.io.block_assembly import as_id_array
from perceptrank.io.errors import FileFormatError
from perceptrank.io.logs import click_table
from perceptrank.io.logs.events import Log, join_logs, pl
from perceptrank.io.logs.features import FeatureTable
from perceptrank.io.logs.kinds import KINDS, METARANK_EVENTS, SITE_SEARCH_NAMES, note_version
from perceptrank.io.logs.pairing import (
    Settings,
    count_session_clicks,
    count_votes,
    decide_first_place,
    drop_nameless,
    drop_repeated,
    pair_documents,
    place_documents,
)
from perceptrank.io.logs.records import Layout, Record, Source, first_record, name_of, read_records
from perceptrank.io.logs.report import Counts, NoImpressionsError
from perceptrank.io.logs.spilling import SpilledLog
from perceptrank.io.tables.columns import listed
from perceptrank.io.tables.delimited import as_texts
from perceptrank.stream.columns import count_gaps
from perceptrank.stream.query_stream import QueryStream


def find_kind(source: Source) -> str:
    """Tell the kind of a log by its first record; raise `FileFormatError` if it is none that is known."""
    record = first_record(source)
    if (kind := _kind_of(record)) is not None:
        return kind
    shown = listed(list(record)) or "nothing"
    raise FileFormatError(
        name_of(source),
        f" is no known kind of log: its first record has {shown}; `kind=…` says what it is. A table of clicks needs a "
        f"column called {click_table.CLICKED}",
    )


def _kind_of(record: Record) -> str | None:
    names = record.keys()
    is_event = record.get("event", "") in METARANK_EVENTS and not names.isdisjoint(("id", "item", "user", "items"))
    if is_event or {"event", "items", "ranking"} <= names:
        return "metarank"
    if click_table.has_clicks(names):
        return "table"
    if not names.isdisjoint(("action_name", "query_response_hit_ids")) or {"query_id", "user_query"} <= names:
        return "ubi"
    return None if names.isdisjoint(SITE_SEARCH_NAMES) else "site_search"


def check_alike(sources: list[Source]) -> None:
    """Raise `FileFormatError` if files are of different kinds: one layout would find nothing in some of them."""
    files = [source for source in sources if isinstance(source, str)]
    if len(files) < 2:
        return
    known = [(file, kind) for file in files if (kind := _kind_of(first_record(file))) is not None]
    for file, kind in known[1:]:
        if kind != known[0][1]:
            first = f"{known[0][0]} is of the kind {known[0][1]!r}"
            raise FileFormatError(
                file,
                f" is a log of the kind {kind!r}, and {first}: files that are read together must be of one kind; read "
                "each apart, or only one of them if they have the same clicks",
            )


class ClickLog:
    """A log of clicks: events, and the queries that they belong to, or a table; `roles` are the columns of a table."""

    def __init__(self, sources: list[Source], settings: Settings, roles: Mapping[str, str]) -> None:
        self._sources, self._roles, self._settings = sources, roles, settings
        self.features: FeatureTable | None = None
        self.files = [name_of(source) for source in sources]
        if settings.kind == "table":
            is_ours = all(click_table.counts_from_one(self.layout(source)) for source in sources)
            first_place = 1 if is_ours and settings.first_place is None else settings.first_place
            self._settings = settings._replace(impressions="shown", first_place=first_place)
        else:
            clicks = KINDS[settings.kind].clicks if settings.clicks is None else settings.clicks
            self._clicks = [clicks] if isinstance(clicks, str) else list(clicks)
            self._settings = settings._replace(window_ms=KINDS[settings.kind].window_ms)

    def layout(self, source: Source) -> Layout:
        """Return where the fields stand in the records of a source."""
        if self._settings.kind == "table":
            return click_table.find_layout(name_of(source), first_record(source), self._roles)
        return KINDS[self._settings.kind].layout

    def streams(self, *, in_memory: bool) -> Iterator[QueryStream]:
        """Read the impressions, all at once or in groups; end with the report, or a warning."""
        counts = Counts()
        if in_memory:
            logs = list(self._read(counts))
            yield from self._join([join_logs(logs)] if logs else [], counts)
            return
        folder = tempfile.mkdtemp(prefix="perceptrank-clicks-")
        try:
            yield from self._join(SpilledLog(folder, self._read(counts)), counts)
        finally:  # also if the blocks are not read to the end
            shutil.rmtree(folder, ignore_errors=True)

    def _read(self, counts: Counts) -> Iterator[Log]:
        kind, tell_progress = self._settings.kind, self._settings.progress
        sizes = [os.path.getsize(source) if isinstance(source, str) else 0 for source in self._sources]
        for number, source in enumerate(self._sources):

            def progress(n_read: int, before: int = sum(sizes[:number])) -> None:
                if tell_progress is not None:
                    tell_progress(before + n_read, sum(sizes))

            if kind == "ubi":
                note_version(first_record(source), counts)
            layout = self.layout(source)
            for frame in read_records(source, layout, progress):
                if kind == "table":
                    log = click_table.split_records(frame, name_of(source), layout, self._settings.first_place, counts)
                else:
                    log = KINDS[kind].split(frame, self._clicks, counts)
                yield drop_nameless(log, counts)

    def _join(self, groups: Iterable[Log], counts: Counts) -> Iterator[QueryStream]:
        settings = self._settings
        first_place, robots = settings.first_place, pl.Series("session", [], pl.String)
        sessions, votes = [], np.zeros(3, np.int64)
        in_memory = []
        for log in groups:
            tallied = counts if isinstance(groups, list) else Counts()  # other groups are joined once more below
            distinct = drop_repeated(log, tallied)
            sessions.append(count_session_clicks(distinct.events))
            if first_place is None or isinstance(groups, list):
                paired = pair_documents(distinct, settings, tallied)
                votes += count_votes(paired[0])
                in_memory += [paired] if isinstance(groups, list) else []
        if first_place is None:
            first_place = decide_first_place(*votes.tolist())
        if settings.max_session_clicks is not None and sessions:
            totals = pl.concat(sessions).group_by("session").agg(pl.col("n").sum())
            robots = totals.filter(pl.col("n") > settings.max_session_clicks)["session"]
        roles = {role for source in self._sources for role in self.layout(source)}
        known = {"examined", "session", "user_query"} | (roles & {"propensity", "policy"})
        builder = StreamBuilder(self.features, counts, known)
        again = (pair_documents(drop_repeated(log, counts), settings, counts) for log in groups)
        for pairs, queries in in_memory or again:
            if settings.kind == "table":
                source = self._sources[0]
                click_table.check_ids(name_of(source), self.layout(source), self._roles, counts)
            stream = builder.build(*place_documents(pairs, queries, robots, first_place, settings, counts))
            if stream is not None:
                yield stream
        builder.finish(self.files, settings.kind)
        report = counts.report(settings.kind, first_place, settings.first_place is None)
        if settings.report is not None:
            settings.report(report)
        elif report.needs_a_look:
            warnings.warn(str(report), stacklevel=4)


class StreamBuilder:
    """Makes streams of documents with places, and joins their features."""

    def __init__(self, features: FeatureTable | None, counts: Counts, known: Collection[str]) -> None:
        self._features, self._counts, self._known = features, counts, known
        if features is not None:
            features.start()
        self._last_time = np.datetime64("NaT", "ms")
        self._sample = ""

    def build(self, documents: Any, queries: Any) -> QueryStream | None:
        """Return a stream of documents, sorted by query and place, and of queries; None if no document is left."""
        X = np.empty((len(documents), 0), np.float32)
        if self._features is not None:
            X, documents, queries = self._join_features(documents, queries)
        if not len(documents):
            return None
        numbers = documents["q"].to_numpy()
        offsets = np.concatenate([[0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1, [len(numbers)]])
        times = queries["time"].to_numpy().astype("datetime64[ms]")
        place = documents["place"].to_numpy().astype(np.int32)
        clicked = documents["clicked"].to_numpy().astype(np.float64)
        known = times[~np.isnat(times)]
        is_early = np.diff(np.append(self._last_time, known)) < np.timedelta64(0, "ms")
        self._last_time = known[-1] if len(known) else self._last_time
        counts = self._counts
        counts.noted["impressions that are earlier than the one before"] += int(is_early.sum())
        counts.noted["impressions with gaps between the places"] += count_gaps(place, offsets)
        counts.impressions += len(offsets) - 1
        counts.documents += len(place)
        counts.clicks += int((clicked > 0).sum())
        of_documents = {"docid": as_texts(documents["docid"]), "place": place, "clicked": clicked}
        for name in ("examined", "propensity"):
            if name in self._known:
                of_documents[name] = documents[name].to_numpy().astype(np.float64)
        of_queries = {"qid": as_id_array(queries["qid"].to_list()), "time": times}
        for name in ("session", "user_query", "policy"):
            if name in self._known:
                of_queries[name] = as_texts(queries[name])
        names = None if self._features is None else self._features.names or None
        return QueryStream._trusted(X, offsets, of_documents, of_queries, names)

    def _join_features(self, documents: Any, queries: Any) -> tuple[Any, Any, Any]:
        features, counts = self._features, self._counts
        assert features is not None
        keyed = documents.join(queries.select("q", "qid", "user_query"), on="q", how="left", maintain_order="left")
        rows = features.find(keyed)
        if len(keyed):
            row = keyed.row(0, named=True)
            self._sample = f"{row['qid']!r} or {row['user_query']!r}/{row['docid']!r}"
        lacking = documents.filter(rows.is_null())
        counts.dropped["on documents without features"] += int((lacking["clicked"] > 0).sum())
        counts.left_out["documents without features"] += len(lacking)
        documents = documents.filter(rows.is_not_null())
        with_features = queries.join(documents.select("q"), on="q", how="semi").sort("q")
        counts.left_out["impressions without features"] += len(queries) - len(with_features)
        return features.X[rows.drop_nulls().to_numpy()], documents, with_features

    def finish(self, files: list[str], kind: str) -> None:
        """Count features that were not used; raise if no impression was left."""
        counts = self._counts
        if self._features is not None:
            if self._sample and not self._features.used.any():
                raise ValueError(
                    f"no impression has features: of query/document, the log in {', '.join(files)} has {self._sample}, "
                    f"the features in {', '.join(self._features.files)} {self._features.describe()}"
                )
            self._features.count(counts)
        if counts.impressions:
            return
        report = counts.report(kind, None, False)
        reasons = "; ".join(report.problems()) or "no query is named"
        raise NoImpressionsError(f"there are no impressions in {', '.join(files)}: {reasons}", report)
