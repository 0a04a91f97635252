"""Logs of clicks become impressions: against a slow twin, and trap by trap."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from support.click_logs import make_log, read_slowly, write_lines

import perceptrank as pr
from perceptrank.io.logs import spilling

QUERY = {
    "query_id": "q1",
    "user_query": "shoes",
    "query_response_hit_ids": ["a", "b", "c"],
    "timestamp": "2026-01-01T12:00:00Z",
}


def event(action: str, docid: Any, ordinal: Any = None, **fields: Any) -> dict[str, Any]:
    position = {} if ordinal is None else {"ordinal": ordinal}
    attributes = {"object": {"object_id": docid}, "position": position}
    common = {"action_name": action, "query_id": "q1", "session_id": "s", "timestamp": "2026-01-01T12:00:05Z"}
    return common | {"event_attributes": attributes} | fields


SEEN = [event("impression", "a", 1), event("impression", "b", 2), event("click", "b", 2)]


def read(
    events: Any, queries: Any = None, features: Any = None, **settings: Any
) -> tuple[pr.QueryStream, pr.ClickReport]:
    said: list[pr.ClickReport] = []
    stream = pr.read_clicks(events, queries, features, report=said.append, **settings)
    assert len(said) == 1
    return stream, said[0]


def rows_of(stream: pr.QueryStream) -> list[tuple[Any, ...]]:
    columns = stream.columns
    return list(zip(*(columns[name].tolist() for name in ("docid", "place", "clicked")), strict=True))


def as_impressions(streams: Any) -> list[dict[str, Any]]:
    """Return streams in the form of the twin."""
    impressions = []
    for stream in [streams] if isinstance(streams, pr.QueryStream) else streams:
        for query in stream:
            columns = query.columns
            values = (columns[name].tolist() for name in ("place", "clicked", "examined"))
            time = columns["time"]
            impressions.append(
                {
                    "qid": query.qid,
                    "user_query": columns["user_query"],
                    "session": columns["session"],
                    "time": None if np.isnat(time) else int(time.astype("int64")),
                    "documents": list(zip(query.docids.tolist(), *values, strict=True)),
                }
            )
    return impressions


def check_against_twin(seed: int, folder: Any, monkeypatch: Any) -> bool:
    """Compare one random log, read from memory, from files and in groups; return whether there was any impression."""
    queries, events, settings = make_log(seed)
    settings["kind"] = "ubi"
    twin_settings = {name: value for name, value in settings.items() if name != "kind"}
    try:
        expected = read_slowly(queries, events, **twin_settings)
    except ValueError:
        with pytest.raises(ValueError, match="first_place must be 0 or 1 for this log"):
            pr.read_clicks(lambda: events, lambda: queries, **settings)
        return False
    if not expected["impressions"]:
        with pytest.raises(ValueError, match="there are no impressions"):
            pr.read_clicks(lambda: events, lambda: queries, **settings)
        return False
    results = [read(lambda: events, lambda: queries, **settings)]
    if events and queries:
        files = (folder / "events.ndjson", folder / "queries.ndjson")
        write_lines(files[0], events)
        write_lines(files[1], queries)
        results.append(read(*files, **settings))
        if seed % 3 == 0:
            said: list[pr.ClickReport] = []
            monkeypatch.setattr(spilling, "_GROUP_ROWS", seed % 7 + 2)
            results.append((list(pr.scan_clicks(*files, report=said.append, **settings)), said[-1]))  # type: ignore[arg-type]
    n_clicks = sum(row[2] for each in expected["impressions"] for row in each["documents"])
    for result, report in results:
        assert repr(as_impressions(result)) == repr(expected["impressions"]), seed
        assert report.dropped == expected["dropped"], seed
        assert (report.repeated, report.clicks) == (expected["repeated"], n_clicks), seed
        assert report.first_place == expected["first_place"], seed
    return True


def test_reader_is_its_slow_twin(tmp_path, monkeypatch):
    assert sum(check_against_twin(seed, tmp_path, monkeypatch) for seed in range(60)) > 30


@pytest.mark.deep
def test_reader_is_its_slow_twin_on_many_logs(tmp_path, monkeypatch):
    assert sum(check_against_twin(seed, tmp_path, monkeypatch) for seed in range(60, 10_060)) > 5000


def _write_forms(folder: Any) -> dict[str, tuple[Any, Any]]:
    """Write one log in all the forms in which it may come."""
    answer = {"hits": {"hits": [{"_id": str(k), "_source": record} for k, record in enumerate(SEEN)]}}
    lines = "".join(json.dumps(record) + "\n" for record in SEEN)
    (folder / "lines.ndjson").write_text(lines.replace("\n", "\r\n\n"))
    (folder / "query.ndjson.gz").write_bytes(gzip.compress(json.dumps(QUERY).encode()))
    actions = [{"index": {"_index": "ubi", "_id": str(k)}} for k in (0, 1, 2, 3, 3)]
    bulk = zip(actions, [QUERY, *SEEN, SEEN[-1]], strict=True)
    (folder / "bulk.ndjson").write_text("".join(json.dumps(part) + "\n" for pair in bulk for part in pair))
    (folder / "answer.json").write_text(json.dumps(answer, indent=2))
    hits = [{"_index": "ubi", "_id": str(k), "_source": record} for k, record in enumerate([QUERY, *SEEN])]
    (folder / "hits.json").write_text("".join(json.dumps(hit) + "\n" for hit in hits))
    pl.DataFrame(SEEN).write_parquet(folder / "events.parquet")
    query = pl.DataFrame([QUERY]).with_columns(pl.col("timestamp").str.to_datetime("%+"))
    query.write_parquet(folder / "queries.parquet")
    flat = [
        {name: each[name] for name in ("action_name", "query_id", "timestamp")}
        | {"object_id": each["event_attributes"]["object"]["object_id"]}
        | {"position": each["event_attributes"]["position"]["ordinal"]}
        for each in SEEN
    ]
    pl.DataFrame(flat).write_csv(folder / "flat.csv")
    pl.DataFrame(flat).write_parquet(folder / "flat.parquet")
    return {
        "csv": (folder / "flat.csv", [QUERY]),
        "flat parquet": (folder / "flat.parquet", [QUERY]),
        "lines": (folder / "lines.ndjson", folder / "query.ndjson.gz"),
        "bulk": (folder / "bulk.ndjson", None),
        "answer": (folder / "answer.json", [QUERY]),
        "hits": (folder / "hits.json", None),
        "parquet": (folder / "events.parquet", folder / "queries.parquet"),
        "records": ([QUERY, *SEEN], None),
        "callable": (lambda: iter(SEEN), lambda: iter([QUERY])),
    }


def test_all_forms_of_a_log_are_read_alike(tmp_path):
    for form, (events, queries) in _write_forms(tmp_path).items():
        stream, report = read(events, queries)
        assert rows_of(stream) == [("a", 1, 0), ("b", 2, 1), ("c", 0, 0)], form
        assert stream.columns["examined"].tolist() == [1, 1, 0], form
        assert stream.columns["time"].tolist() == [np.datetime64("2026-01-01T12:00:00", "ms").item()], form
        assert (stream.columns["user_query"].tolist(), stream.qids.tolist()) == (["shoes"], ["q1"]), form
        assert report.left_out == ({"events that are there twice": 1} if form == "bulk" else {}), form
        assert "relevance" not in stream.columns
        assert stream.X.shape == (3, 0)


def test_streams_of_clicks_survive_parquet_and_stores(tmp_path):
    stream = pr.read_clicks(SEEN, [QUERY])
    pr.write_parquet(stream, tmp_path / "clicks.parquet")
    pr.write_store(stream, tmp_path / "clicks.store")
    for again in (pr.read_parquet(tmp_path / "clicks.parquet"), pr.open_store(tmp_path / "clicks.store")):
        assert as_impressions(again) == as_impressions(stream)


def test_places_counted_from_zero_are_detected_and_said():
    zero = [event("impression", "a", 0), event("impression", "b", 1), event("click", "b", 1)]
    with pytest.warns(UserWarning, match=r"positions count from 0 \(detected\)"):
        stream = pr.read_clicks(zero, [QUERY])
    assert rows_of(stream) == [("a", 1, 0), ("b", 2, 1), ("c", 0, 0)]
    stream, report = read(zero, [QUERY], first_place=1)  # an ordinal of 0 is then no place
    assert rows_of(stream) == [("a", 1, 0), ("c", 0, 0)]
    assert report.dropped == {"on documents at the place of another one": 1}
    assert (report.first_place, report.detected) == (1, False)


def test_a_first_place_that_is_ambiguous_is_an_error():
    with pytest.raises(ValueError, match="none tells"):
        pr.read_clicks([event("impression", "a", 4), event("impression", "b", 5)])
    other = event("impression", "a", 0, query_id="q2")
    with pytest.raises(ValueError, match="1 say 0, 1 say 1"):
        pr.read_clicks([event("impression", "a", 1), other])
    stream, report = read([event("impression", "a", 4), event("impression", "b", 5)], first_place=1)
    assert rows_of(stream) == [("a", 4, 0), ("b", 5, 0)]
    assert report.noted == {"impressions with gaps between the places": 1}


def test_without_impression_events_results_count_as_shown_and_unknown():
    stream, report = read([event("click", "c", 7)], [QUERY])
    assert rows_of(stream) == [("a", 1, 0), ("b", 2, 0), ("c", 3, 1)]
    assert np.isnan(stream.columns["examined"]).all()
    assert report.first_place is None


def test_of_two_documents_at_one_place_the_one_that_was_seen_stays():
    stream, report = read([event("impression", "b", 1), event("click", "a")], [QUERY], first_place=1)
    assert rows_of(stream) == [("b", 1, 0), ("c", 0, 0)]
    assert report.dropped == {"on documents at the place of another one": 1}


def test_fields_of_drafts_and_internal_ids_are_read():
    query = {"query_id": "q1", "user_query": "shoes", "query_response_objects_ids": ["a", "b"]}
    click = event("click", None) | {"event_attributes": {"object": {"internal_id": "b"}, "position": {}}}
    assert rows_of(read([click], [query])[0]) == [("a", 1, 0), ("b", 2, 1)]


def test_impression_events_of_whole_pages_say_nothing_about_examination():
    stream, _ = read(SEEN, [QUERY], impressions="shown")
    assert np.isnan(stream.columns["examined"]).all()
    assert rows_of(stream)[2] == ("c", 0, 0)


def test_robots_are_left_out():
    robot = [event("click", "a", query_id=f"r{k}", session_id="bot") for k in range(5)]
    queries = [QUERY, *(QUERY | {"query_id": f"r{k}"} for k in range(5))]
    stream, report = read([*SEEN, *robot], queries, max_session_clicks=4)
    assert stream.qids.tolist() == ["q1"]
    assert report.dropped == {"of sessions with more than 4 clicks": 5}
    assert report.left_out == {"impressions of sessions with more than 4 clicks": 5}
    assert len(read([*SEEN, *robot], queries, max_session_clicks=5)[0]) == 6


def test_every_click_is_accounted_for():
    lost = [
        event("click", "b", 2, query_id=None),
        event("click", None),
        event("click", "z", 2),
        event("click", "a", query_id="q9"),
        event("add_to_cart", "b"),
        event("impression", "d", 2),
        event("click", "d", 2),
        event("impression", "e", -1),
        event("click", "e", 10**9),
        event("click", "b", 2),
    ]
    stream, report = read([*SEEN, *lost], [QUERY])
    assert rows_of(stream) == [("a", 1, 0), ("b", 2, 1), ("c", 0, 0)]
    assert report.dropped == {
        "without a query id": 1,
        "without a document": 1,
        "of queries whose results are unknown": 1,
        "on documents that were not in the list": 1,
        "on documents whose place is unknown": 1,
        "on documents at the place of another one": 1,
    }
    assert report.repeated == 1
    assert report.left_out == {
        "events of the action 'add_to_cart'": 1,
        "documents whose place is unknown": 1,
        "documents at the place of another one": 1,
        "queries whose results are unknown": 1,
    }
    assert report.noted == {"positions that are not whole numbers from 0 to 10,000, ignored": 2}
    with pytest.warns(UserWarning, match=r"6 clicks are left out: 1 without a query id, 1 without a document, .*"):
        pr.read_clicks([*SEEN, *lost], [QUERY])


def test_times_that_are_out_of_order_or_unknown_are_noted():
    queries = [
        QUERY,
        QUERY | {"query_id": "q2", "timestamp": "2025-01-01T00:00:00+01:00"},
        QUERY | {"query_id": "q3", "timestamp": "noon"},
    ]
    early = event("click", "a", timestamp="2024-01-01T00:00:00")
    stream, report = read([early], queries)
    times = stream.columns["time"].astype("datetime64[s]").astype(str).tolist()
    assert times == ["2026-01-01T12:00:00", "2024-12-31T23:00:00", "NaT"]
    assert report.noted == {
        "times that are not ISO 8601 or milliseconds, taken as unknown": 1,
        "clicks before the time of their query": 1,
        "impressions that are earlier than the one before": 1,
    }


def test_an_unknown_schema_version_is_noted():
    _, report = read(SEEN, [QUERY | {"ubi_version": "2.0"}])
    assert report.noted == {"log of the unknown schema version 2.0, read as 1.3": 1}
    assert not read(SEEN, [QUERY | {"ubi_version": "1.3.0"}])[1].noted


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"action_name": "click", "query_id": "a"\n', r":1:\d+: a line must be an object of JSON.*cut off"),
        (json.dumps(SEEN[0]) + '\n{"action_name": "cl', r":2:\d+: a line must be an object of JSON.*cut off"),
        (json.dumps(SEEN[0]) + "\n[1]\n", r":2:1: a line must be an object of JSON"),
        (
            json.dumps(SEEN[0]) + '\n{"action_name": "click", "event_attributes": "x"}\n',
            r":2:1: 'event_attributes' must",
        ),
        ('{"hits": {"hits": [\n', r"JSON"),
        ("", r":1:1: the file is empty"),
        ('{"price": 3}\n', r"is no known kind of log: its first record has 'price'; `kind=…` says what it is"),
    ],
)
def test_bad_files_are_refused_with_the_line(tmp_path, text, problem):
    path = tmp_path / "events.ndjson"
    path.write_text(text)
    with pytest.raises(pr.FormatError, match=problem) as caught:
        pr.read_clicks(path)
    assert str(caught.value).startswith(str(path))
    with pytest.raises(pr.FormatError):
        list(pr.scan_clicks(path, kind="auto"))


def test_half_of_a_pair_of_surrogates_is_refused():
    with pytest.raises(pr.FormatError, match="<records>:1:1: text must be Unicode"):
        pr.read_clicks([QUERY | {"user_query": "\ud800"}])


def test_half_a_parquet_file_is_refused(tmp_path):
    pl.DataFrame(SEEN).write_parquet(tmp_path / "whole.parquet")
    (tmp_path / "half.parquet").write_bytes((tmp_path / "whole.parquet").read_bytes()[:-100])
    with pytest.raises(pr.FormatError, match="is no Parquet file, or half of one"):
        pr.read_clicks(tmp_path / "half.parquet")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"first_place": 2}, "first_place must be 0 or 1, got 2"),
        ({"kind": "solr"}, "kind must be"),
        ({"impressions": "all"}, "impressions must be"),
        ({"max_session_clicks": 0}, "max_session_clicks must be"),
        ({"missing": "drop"}, "missing must be"),
        ({"kind": "table", "clicks": "click"}, "queries and clicks must not be given for a table"),
    ],
)
def test_bad_arguments_are_named(settings, problem):
    with pytest.raises(ValueError, match=problem):
        pr.read_clicks(SEEN, **settings)


def test_progress_reaches_the_size_of_the_files(tmp_path):
    write_lines(tmp_path / "events.ndjson", SEEN)
    write_lines(tmp_path / "queries.ndjson", [QUERY])
    seen: list[tuple[int, int]] = []
    pr.read_clicks(tmp_path / "events.ndjson", tmp_path / "queries.ndjson", progress=lambda *at: seen.append(at))
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert seen[-1] == (total, total)
