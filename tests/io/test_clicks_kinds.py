"""Logs of Metarank, Algolia and Meilisearch, plain tables of clicks, and features joined to impressions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from support.click_logs import write_lines

import perceptrank as pr

RANKING = {
    "event": "ranking",
    "id": "r1",
    "timestamp": "1599391467000",
    "session": "s",
    "fields": [{"name": "source", "value": ["x", 1]}, {"name": "query", "value": "cat"}],
    "items": [{"id": "a", "relevancy": 2.0}, {"id": 7}, {"id": "c"}],
}
MINUTE = 60_000


def read(*arguments: Any, **settings: Any) -> tuple[pr.QueryStream, pr.ClickReport]:
    said: list[pr.ClickReport] = []
    stream = pr.read_clicks(*arguments, report=said.append, **settings)
    return stream, said[0]


def rows_of(stream: pr.QueryStream) -> list[tuple[Any, ...]]:
    columns = stream.columns
    return list(zip(*(columns[name].tolist() for name in ("docid", "place", "clicked")), strict=True))


def interaction(minutes: float, item: Any, **fields: Any) -> dict[str, Any]:
    time = 1599391467000 + round(minutes * MINUTE)
    return {"event": "interaction", "ranking": "r1", "timestamp": time, "type": "click", "item": item, **fields}


def join_slowly(interactions: list[dict[str, Any]]) -> set[str]:
    """Return the items whose clicks come within 30 minutes of the ranking, or of the click before."""
    last, clicked = 1599391467000, set()
    for each in sorted(interactions, key=lambda each: each["timestamp"]):
        if each["timestamp"] - last > 30 * MINUTE:
            break
        last = each["timestamp"]
        clicked.add(str(each["item"]))
    return clicked


def test_metarank_closes_a_ranking_after_thirty_minutes(tmp_path):
    rng = np.random.default_rng(0)
    for trial in range(12):
        minutes = np.cumsum(rng.integers(0, 36, size=int(rng.integers(1, 6))))
        clicks = [interaction(float(minute), rng.choice(["a", "7", "c"]).item()) for minute in minutes]
        path = tmp_path / f"{trial}.jsonl"
        write_lines(path, [RANKING, *clicks])
        stream, report = read(path)
        assert {docid for docid, _, clicked in rows_of(stream) if clicked} == join_slowly(clicks)
        assert report.clicks + report.repeated + sum(report.dropped.values()) == len(clicks)
    assert [docid for docid, _, _ in rows_of(stream)] == ["a", "7", "c"]
    assert (stream.columns["user_query"].tolist(), stream.columns["session"].tolist()) == (["cat"], ["s"])


def test_metarank_says_what_it_leaves_out():
    others = [
        {"event": "item", "id": "i", "item": "a"},
        interaction(1, "a", type="purchase"),
        interaction(1, "c", id="x"),
    ]
    alone = interaction(1, "a") | {"ranking": None}
    stream, report = read([RANKING, *others, others[-1], alone])
    assert rows_of(stream) == [("a", 1, 0), ("7", 2, 0), ("c", 3, 1)]
    assert report.dropped == {"without a query id": 1}
    assert report.left_out == {
        "events of the type 'item'": 1,
        "interactions of the type 'purchase'": 1,
        "events that are there twice": 1,
    }
    assert read([RANKING, interaction(1, "a", type=None)])[1].left_out == {"interactions of the type None": 1}
    assert rows_of(read([RANKING, *others], clicks="purchase")[0])[0] == ("a", 1, 1)


def test_metarank_in_parquet(tmp_path):
    items = RANKING | {"items": [{"id": "a"}, {"id": "7"}], "fields": [{"name": "query", "value": "cat"}]}
    pl.DataFrame([items, interaction(1, "7") | {"timestamp": "1599391468000"}]).write_parquet(tmp_path / "log.parquet")
    stream, _ = read(tmp_path / "log.parquet")
    assert rows_of(stream) == [("a", 1, 0), ("7", 2, 1)]
    assert stream.columns["user_query"].tolist() == ["cat"]


def test_clicks_of_algolia_and_meilisearch_join_the_answers(tmp_path):
    click = {"eventType": "click", "queryID": "q", "objectIDs": ["b", "c"], "positions": [22, 23], "userToken": "u"}
    answer = {"queryID": "q", "query": "cat", "page": 1, "hitsPerPage": 20, "hits": [{"objectID": d} for d in "abc"]}
    write_lines(tmp_path / "clicks.ndjson", [click, click | {"eventType": "conversion"}])
    (tmp_path / "answers.json").write_text(json.dumps({"results": [answer]}, indent=1))
    stream, report = read(tmp_path / "clicks.ndjson", tmp_path / "answers.json")
    assert rows_of(stream) == [("a", 21, 0), ("b", 22, 1), ("c", 23, 1)]
    assert report.left_out == {"events of the type 'conversion'": 1}
    click = {"eventType": "click", "queryUid": "q", "objectId": 0, "position": 0, "userId": "u"}
    stream, _ = read([click], [{"queryUid": "q", "query": "cat", "hits": [{"id": 0}, {"id": "1"}]}])
    assert rows_of(stream) == [("0", 1, 1), ("1", 2, 0)]
    with pytest.raises(ValueError, match="1 of queries whose results are unknown"):
        pr.read_clicks([click])


@pytest.mark.parametrize("offset", [-5, 10**12])
def test_answers_that_begin_nowhere_begin_at_the_first_place(offset):
    click = {"eventType": "click", "queryID": "q", "objectIDs": [], "positions": []}
    stream, report = read([click], [{"queryID": "q", "offset": offset, "hits": [{"objectID": "a"}, {"objectID": "b"}]}])
    assert rows_of(stream) == [("a", 1, 0), ("b", 2, 0)]
    assert sum(report.noted.values()) == 1
    assert report.dropped == {"without a document": 1}


def test_a_table_of_clicks_is_read_with_its_features(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text(
        "search_id,query,doc,position,click,bm25,timestamp\n"
        "1,shoes,a,0,0,1.5,2026-01-01T00:00:00Z\n1,shoes,b,1,TRUE,.5,2026-01-01T00:00:00Z\n2,hats,a,0,,3,\n"
    )
    stream, report = read(path)
    assert rows_of(stream) == [("a", 1, 0), ("b", 2, 1), ("a", 1, 0)]
    assert (stream.columns["user_query"].tolist(), stream.qids.tolist()) == (["shoes", "hats"], ["1", "2"])
    assert (stream.feature_names, stream.X.ravel().tolist()) == (("bm25",), [1.5, 0.5, 3])
    assert report.first_place == 0
    assert np.isnan(stream.columns["examined"]).all()
    blocks = list(pr.scan_clicks(path, report=print, max_bytes=1))
    assert [rows_of(block) for block in blocks] == [rows_of(stream)[:2], rows_of(stream)[2:]]


def test_a_table_with_the_names_of_user_behavior_insights_is_a_table():
    row = {"query_id": "q", "user_query": "shoes", "docid": "a", "place": 1, "clicked": 1}
    with pytest.raises(pr.FormatError, match="a table must be a file"):
        pr.read_clicks([row])


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_tables_written_from_a_stream_are_read_back(tmp_path, suffix):
    stream = pr.QueryStream.from_arrays(
        np.array([[1.0], [2.0], [3.0], [4.0]]),
        qid=["x", "x", "x", "y"],
        feature_names=["bm25"],
        docids=["a", "b", "c", "a"],
        place=[1, 3, 0, 1],
        clicked=[0, 0.25, 0, 1],
        examined=[1, np.nan, 0, np.nan],
        propensity=[0.5, 1, np.nan, np.nan],
        columns={
            "policy": ["fair-pairs:1", ""],
            "time": np.array(["2026-01-01T00:00", "NaT"], "datetime64[ms]"),
            "session": ["s", ""],
            "user_query": ["é", "u"],
        },
    )
    path = tmp_path / f"clicks.{suffix}"
    frame = stream.to_frame("polars")
    {"csv": frame.write_csv, "parquet": frame.write_parquet, "jsonl": frame.write_ndjson}[suffix](path)
    again, _ = read(path)
    assert repr(again.to_frame("polars").select(frame.columns).rows()) == repr(frame.rows())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("qid,docid,clicked\n1,a,0\n", "has no column known as 'place'"),
        ("qid,place,clicked\n1,1,0\n", "has no column known as 'docid'.*`docid=…` names it"),
        ("qid,docid,place,clicked\n1,a,1,yes\n", "clicks.csv:2:4: clicked must be a number .*, got 'yes'"),
        ("qid,docid,place,clicked\n1,a,1,-1\n", "column 'clicked' must hold numbers >= 0, got '-1'"),
        ("qid,docid,place,clicked,examined\n1,a,1,0,7\n", "column 'examined' must hold 0, 1, or nothing, got 7"),
        ("qid,docid,place,clicked,propensity\n1,a,1,0,0\n", "'propensity' must hold probabilities above 0.*, got 0"),
        ("qid,docid,place,clicked\n1,a,1,0,5\n", "clicks.csv:2:5: a row must have 4 cells"),
    ],
)
def test_bad_tables_are_refused(tmp_path, text, problem):
    path = tmp_path / "clicks.csv"
    path.write_text(text)
    with pytest.raises(pr.FormatError, match=problem):
        pr.read_clicks(path)


@pytest.mark.parametrize("kind", ["auto", "ubi"])
@pytest.mark.parametrize("is_table_first", [False, True])
def test_a_log_and_a_table_of_clicks_are_not_read_together(tmp_path, kind, is_table_first):
    log, table = tmp_path / "events.ndjson", tmp_path / "clicks.csv"
    query = {"query_id": "q1", "user_query": "shoes", "query_response_hit_ids": ["a", "b"]}
    click = {"action_name": "click", "query_id": "q1", "event_attributes": {"object": {"object_id": "b"}}}
    write_lines(log, [query, click])
    table.write_text("query_id,docid,position,clicked\nq1,a,1,0\nq1,b,2,1\n")
    files, kinds = ([table, log], "'ubi', .*'table'") if is_table_first else ([log, table], "'table', .*'ubi'")
    for read_or_scan in (pr.read_clicks, pr.scan_clicks):
        with pytest.raises(pr.FormatError, match=f"is a log of the kind {kinds}.* must be of one kind; read each"):
            read_or_scan(files, kind=kind)
        with pytest.raises(pr.FormatError, match=f"^{files[1]} .*{files[0]}"):
            read_or_scan(files, kind=kind)


def test_a_table_without_rows_is_an_error(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("qid,docid,place,clicked\n")
    with pytest.raises(ValueError, match=r"there are no rows in .*clicks\.csv"):
        pr.read_clicks(path)


def test_a_click_on_what_was_not_shown_is_left_out_and_counted(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("qid,docid,place,clicked\n1,a,1,0\n1,b,0,1\n1,c,2,1\n2,a,0,0.5\n")
    stream, report = read(path)
    assert rows_of(stream) == [("a", 1, 0), ("c", 2, 1), ("b", 0, 0), ("a", 0, 0)]
    assert (report.clicks, report.repeated, report.dropped) == (1, 0, {"on documents that were not shown": 2})
    assert rows_of(pr.QueryStream.from_frame(stream.to_frame())) == rows_of(stream)
    assert rows_of(pr.QueryStream.concatenate(pr.scan_clicks(path, report=print))) == rows_of(stream)


def test_places_of_a_table_count_from_0_if_the_caller_says_so(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("qid,docid,place,clicked\n1,a,0,1\n1,b,1,0\n")
    assert rows_of(read(path, first_place=0)[0]) == [("a", 1, 1), ("b", 2, 0)]


def test_rows_of_several_impressions_under_one_id_are_counted(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("query_id,session_id,docid,place,clicked\nx,1,a,1,1\nx,1,b,2,0\nx,2,a,1,0\nx,2,b,2,1\n")
    for stream, report in (read(path), read(path, qid="session_id")):
        n_lost = 4 - stream.n_documents
        assert sum(report.left_out.values()) == n_lost
        assert n_lost == 0 or "rows that name a document of their impression again" in str(report)
    assert stream.n_queries == 2


def test_ids_that_do_not_identify_impressions_are_an_error(tmp_path):
    path = tmp_path / "clicks.csv"
    lines = [f"{i},shoes,{docid},{place},0\n" for i in range(20) for place, docid in enumerate("abc", 1)]
    path.write_text("request,query,docid,place,clicked\n" + "".join(lines))
    problem = r"clicks\.csv: column 'query' does not identify impressions: 57 of 60 rows .*\('docid'\) again; .*`qid=…`"
    for read_or_scan in (pr.read_clicks, lambda *files, **settings: list(pr.scan_clicks(*files, **settings))):
        with pytest.raises(pr.FormatError, match=problem):
            read_or_scan(path, report=print)
    assert read(path, qid="request")[0].n_queries == 20
    stream, report = read(path, qid="query")
    assert stream.n_documents == 3
    assert "57 rows that name a document of their impression again" in str(report)
    path.write_text(path.read_text().replace("request,query", "request,impression"))
    assert read(path)[0].n_documents == 3


def test_a_position_that_is_ignored_is_counted_once(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("qid,docid,position,clicked\n1,a,-1,1\n1,b,2,0\n2,a,0,1\n2,b,1,0\n")
    stream, report = read(path, first_place=1)
    assert rows_of(stream) == [("b", 2, 0), ("b", 1, 0)]
    assert report.dropped == {"on documents whose place is unknown": 2}
    assert report.noted["positions that are not whole numbers from 0 to 10,000, ignored"] == 1
    assert report.noted["positions below 1, the first place, ignored"] == 1


CLICKS = [
    {"query_id": "q1", "user_query": "shoes", "query_response_hit_ids": ["a", 12]},
    {"query_id": "q2", "user_query": "shoes", "query_response_hit_ids": ["b", "z"]},
    {"action_name": "click", "query_id": "q1", "event_attributes": {"object": {"object_id": "12"}, "position": {}}},
    {"action_name": "click", "query_id": "q2", "event_attributes": {"object": {"object_id": "z"}, "position": {}}},
]


def test_features_join_by_what_the_user_asked_by_impression_or_by_document(tmp_path):
    hits = [
        {"_id": d, "fields": {"_ltrlog": [{"log": [{"name": "x", "value": v}]}]}}
        for d, v in zip(("a", "12", "b"), (1, 2, 3), strict=True)
    ]
    files = {
        "asked.csv": "query,docid,x\nshoes,a,1\nshoes,12,2\nshoes,b,3\nhats,b,9\nshoes,b,7\n",
        "impression.tsv": "qid\tdocid\tx\nq1\ta\t1\nq1\t12\t2\nq2\tb\t3\n",
        "document.csv": "docid,x,name\na,1,n\n12,2,m\nb,3,o\n",
        "log.jsonl": "".join(json.dumps({"query": "shoes", "hits": {"hits": [hit]}}) + "\n" for hit in hits),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    pl.DataFrame({"doc_id": ["a", "12", "b"], "x": [1, 2, 3], "name": ["n", "m", "o"]}).write_parquet(
        tmp_path / "d.parquet"
    )
    for name in [*files, "d.parquet"]:
        stream, report = read(CLICKS, None, tmp_path / name)
        assert rows_of(stream) == [("a", 1, 0), ("12", 2, 1), ("b", 1, 0)], name
        assert (stream.X.ravel().tolist(), stream.feature_names) == ([1, 2, 3], ("x",)), name
        assert report.dropped == {"on documents without features": 1}, name
        unused = {"rows of features without an impression": 1, "rows of features that are there twice": 1}
        assert report.left_out == {"documents without features": 1} | (unused if name == "asked.csv" else {}), name


def test_features_that_no_impression_has_are_an_error(tmp_path):
    (tmp_path / "f.csv").write_text("query,docid,x\nboots,a,1\n")
    with pytest.raises(ValueError, match=r"no impression has features: .*'q1' or 'shoes'/'a'.*'boots'/'a'"):
        pr.read_clicks(CLICKS, None, tmp_path / "f.csv")


def test_missing_features_are_refused_kept_or_zero(tmp_path):
    (tmp_path / "f.jsonl").write_text(
        '{"id":"a","x":1,"y":2}\n{"id":"12","x":3}\n{"id":"b","x":5,"y":6}\n{"id":"z","x":7}\n'
    )
    with pytest.raises(pr.FormatError, match="feature 'y' is missing"):
        pr.read_clicks(CLICKS, None, tmp_path / "f.jsonl")
    kept = pr.read_clicks(CLICKS, None, tmp_path / "f.jsonl", missing="keep", dtype=np.float64).X
    assert kept.dtype == np.float64
    assert np.isnan(kept).ravel().tolist() == [False, False, False, True, False, False, False, True]
    assert pr.read_clicks(CLICKS, None, tmp_path / "f.jsonl", missing="zero").X[:, 1].tolist() == [2, 0, 6, 0]


def test_a_scan_counts_unused_features_in_each_pass(tmp_path):
    (tmp_path / "f.csv").write_text("docid,x\na,1\n12,2\nb,3\nz,4\nother,5\n")
    said: list[pr.ClickReport] = []
    scan = pr.scan_clicks(CLICKS, None, tmp_path / "f.csv", report=said.append)
    first, second = ([rows_of(block) for block in scan] for _ in range(2))
    assert (first, said[0]) == (second, said[1])
    assert said[0].left_out == {"rows of features without an impression": 1}


def test_a_scan_leaves_no_files_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    blocks = iter(pr.scan_clicks(CLICKS, max_bytes=1))
    next(blocks)
    assert len(list(tmp_path.iterdir())) == 1
    blocks.close()  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())
    assert len(list(pr.scan_clicks(CLICKS, max_bytes=1))) == 2
    with pytest.raises(ValueError, match="no impressions"):
        list(pr.scan_clicks(CLICKS[2:]))
    assert not list(tmp_path.iterdir())
