"""Tables: CSV, TSV, JSON lines, logs of engines, TREC files; guessed columns, joins, blocks."""

import bz2
import csv
import gzip
import json
import lzma
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from support.comparing import assert_same

import perceptrank as pr
from perceptrank.io import text as text_files
from perceptrank.io.tables import chunks, delimited, document_table

JUDGED = "query,docid,rating,title_bm25,price\nred shoes,a,2,1.5,10\nred shoes,b,0,0.25,20\nhats,c,1,3,30\n"
X = np.array([[1.5, 10], [0.25, 20], [3, 30]], dtype=np.float32)

COMPRESSED = {
    ".csv": lambda data: data,
    ".csv.gz": gzip.compress,
    ".csv.bz2": bz2.compress,
    ".csv.xz": lzma.compress,
    ".csv.zst": zstandard.ZstdCompressor().compress,
}


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def write_lines(folder, name, objects):
    return write(folder, name, "".join(json.dumps(one) + "\n" for one in objects))


def check(stream):
    """Fail unless a stream is the one of `JUDGED`."""
    np.testing.assert_array_equal(stream.X, X)
    assert stream.X.dtype == np.float32
    assert stream.relevance.tolist() == [2, 0, 1]
    assert stream.offsets.tolist() == [0, 2, 3]
    assert stream.qids.tolist() == ["red shoes", "hats"]
    assert stream.docids.tolist() == ["a", "b", "c"]
    assert stream.feature_names == ("title_bm25", "price")


def whole(scan):
    return pr.QueryStream.concatenate(scan)


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_one_file_plain_or_compressed(suffix, tmp_path):
    path = write(tmp_path, f"j{suffix}", COMPRESSED[suffix](JUDGED.encode()))
    found = []
    check(pr.read_table(path, report=found.append))
    check(whole(pr.scan_table(path)))
    (columns,) = found
    assert columns.roles == {"qid": "query", "docid": "docid", "relevance": "rating"}
    assert columns.features == ("title_bm25", "price")
    assert columns.guessed == ("qid", "docid", "relevance")
    assert str(columns).endswith(
        "(csv): query from 'query' (guessed), document from 'docid' (guessed), grade from 'rating' (guessed); "
        "2 features: 'title_bm25', 'price'"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", JUDGED.replace(",", "\t")),
        ("a.csv", JUDGED.replace(",", ";")),
        ("a.csv", JUDGED.replace("\n", "\r\n")),
        ("a.csv", "\ufeff" + JUDGED),
        ("a.csv", JUDGED.rstrip("\n")),
        ("a.csv", JUDGED.replace("\n", "\n\n") + "\n\n"),
        ("a.csv", JUDGED.replace("1.5", " 1.5 ").replace("red shoes", '"red shoes"')),
        ("a.csv", JUDGED.replace("docid", '"docid"')),
        ("unnamed", JUDGED),
        ("unnamed", JUDGED.replace(",", "\t")),
    ],
)
def test_dialects(name, text, tmp_path):
    path = write(tmp_path, name, text)
    check(pr.read_table(path))
    check(whole(pr.scan_table(path)))


def test_lines_of_json_are_the_same_table(tmp_path):
    rows = list(csv.DictReader(JUDGED.splitlines()))
    numbers = [row | {name: float(row[name]) for name in ("rating", "title_bm25", "price")} for row in rows]
    check(pr.read_table(write_lines(tmp_path, "text.jsonl", rows)))
    for name in ("a.jsonl", "a.ndjson", "unnamed"):
        check(pr.read_table(write_lines(tmp_path, name, numbers)))
        check(whole(pr.scan_table(tmp_path / name)))
    nested = [
        {"query": row["query"], "docid": row["docid"], "rating": row["rating"], "features": features}
        for row, features in zip(rows, ({"title_bm25": a, "price": b} for a, b in X.tolist()), strict=True)
    ]
    check(pr.read_table(write_lines(tmp_path, "nested.jsonl", nested)))
    lists = [row | {"features": list(row["features"].values())} for row in nested]
    stream = pr.read_table(write_lines(tmp_path, "lists.jsonl", lists))
    assert stream.feature_names == ("f1", "f2")
    np.testing.assert_array_equal(stream.X, X)


@pytest.mark.parametrize(
    ("header", "roles"),
    [
        ("qid,docid,relevance,x", ("qid", "docid", "relevance")),
        ("Query Text,Doc ID,Rating,x", ("Query Text", "Doc ID", "Rating")),
        ("search_term,document_id,judgement,x", ("search_term", "document_id", "judgement")),
        ("Search Term,id,Grade,x", ("Search Term", "id", "Grade")),
        ("query_id,url,label,x", ("query_id", "url", "label")),
        ("topic,docno,rel,x", ("topic", "docno", "rel")),
    ],
)
def test_usual_names_are_guessed(header, roles, tmp_path):
    found = []
    stream = pr.read_table(write(tmp_path, "a.csv", f"{header}\nq,d,1,0.5\n"), report=found.append)
    assert tuple(found[0].roles.values()) == roles
    assert stream.feature_names == ("x",)


def test_columns_by_name_and_those_that_are_no_features(tmp_path):
    """A second column of ids is never a feature, however numeric; nor is text."""
    text = (
        "qid,query,label,score,id,docid,words,x,flag\n1,one,2,0,17,d1,some,0.5,true\n1,one,0,1,18,d2,text,1.5,FALSE\n"
    )
    path = write(tmp_path, "a.csv", text)
    found = []
    stream = pr.read_table(path, report=found.append)
    assert stream.feature_names == ("score", "x", "flag")
    np.testing.assert_array_equal(stream.X, [[0, 0.5, 1], [1, 1.5, 0]])
    assert stream.qids.tolist() == ["1"]
    assert stream.relevance.tolist() == [2, 0]
    assert stream.docids.tolist() == ["d1", "d2"]
    assert found[0].ignored == ("query", "id", "words")
    assert "ignored: 'query', 'id', 'words'" in str(found[0])
    stream = pr.read_table(path, qid="query", relevance="label", docid="id", features=["x", "score"])
    assert stream.feature_names == ("x", "score")
    assert stream.qids.tolist() == ["one"]
    assert stream.relevance.tolist() == [2, 0]
    assert stream.docids.tolist() == ["17", "18"]
    assert pr.read_table(path, features="x").n_features == 1


def test_exports_of_quepid(tmp_path):
    """Basic, with queries that have no ratings; detailed; and a snapshot as features."""
    basic = write(tmp_path, "basic.csv", 'query,docid,rating\nshoes,a,3\nshoes,b,0\nnothing\n"hats, red",c,1\n')
    detailed = write(
        tmp_path,
        "detailed.csv",
        "Team Name,Case Name,Case ID,Query Text,Doc ID,Doc Position,Title,Rating,views\r\n"
        'We,Shop,7,shoes,a,1,Shoe,3,10\r\nWe,Shop,7,shoes,b,2,Boot,0,20\r\nWe,Shop,7,"hats, red",c,1,Hat,1,30\r\n',
    )
    snapshot = write(
        tmp_path,
        "snapshot.csv",
        "Snapshot Name,Snapshot Time,Case ID,Query Text,Doc ID,Doc Position,bm25\n"
        'S,2024-01-01 10:00:00,7,shoes,a,1,2.5\nS,2024-01-01 10:00:00,7,shoes,b,2,1.5\nS,2024,7,"hats, red",c,1,9\n',
    )
    with pytest.warns(UserWarning, match="not used: 'Team Name', 'Case Name', 'Case ID', 'Doc Position', 'Title'; "):
        stream = pr.read_table(detailed)
    assert stream.feature_names == ("views",)
    assert stream.qids.tolist() == ["shoes", "hats, red"]
    with pytest.warns(UserWarning, match="1 rows without a grade are left out"):
        joined = pr.read_table(basic, snapshot, report=lambda columns: None)
    assert joined.feature_names == ("bm25",)
    np.testing.assert_array_equal(joined.X[:, 0], [2.5, 1.5, 9])
    assert joined.relevance.tolist() == [3, 0, 1]
    places = pr.read_table(detailed, snapshot, features=["bm25", "Doc Position"])
    np.testing.assert_array_equal(places.X, [[2.5, 1], [1.5, 2], [9, 1]])


JUDGEMENTS = "query,doc_id,grade\nshoes,1,2\nshoes,2,0\nhats,3,1\nhats,9,1\n"


def hit(document, features, **others):
    """A hit as the plugin writes it: what did not match has no value."""
    logged = [{"name": name} | ({} if value is None else {"value": value}) for name, value in features.items()]
    return {
        "_index": "shop",
        "_id": document,
        "_score": 12.5,
        "_source": {"grade": 99, "query": "of the document"},
        "fields": {"_ltrlog": [{"log_entry1": logged}]},
        "matched_queries": ["logged"],
    } | others


def response(*hits):
    return {"took": 3, "timed_out": False, "_shards": {"total": 1}, "hits": {"total": {"value": 9}, "hits": list(hits)}}


HITS = {
    "shoes": [hit("1", {"title": 1.5, "body": 2.0}), hit("2", {"title": 0.5, "body": None})],
    "hats": [hit("3", {"body": 4.0, "title": None}), hit("8", {"title": 1.0})],
}
LOGS = {
    "responses": [{"query": query} | response(*hits) for query, hits in HITS.items()],
    "responses inside": [{"query": query, "response": response(*hits)} for query, hits in HITS.items()],
    "msearch": [{"responses": [{"query": query} | response(*hits) for query, hits in HITS.items()]}],
    "hits": [one | {"query": query} for query, hits in HITS.items() for one in hits],
}


@pytest.mark.parametrize("shape", LOGS)
def test_logs_of_elasticsearch_and_opensearch(shape, tmp_path):
    judgements = write(tmp_path, "j.csv", JUDGEMENTS)
    logs = write_lines(tmp_path, "log.jsonl", LOGS[shape])
    with pytest.warns(UserWarning, match="left out") as warned:
        stream = pr.read_table(judgements, logs, missing="keep")
    said = "1 judgements without features and 1 rows of features without a judgement are left out"
    assert [str(one.message) for one in warned] == [said]
    np.testing.assert_array_equal(stream.X, [[1.5, 2], [0.5, np.nan], [np.nan, 4]])
    assert stream.feature_names == ("title", "body")
    assert stream.relevance.tolist() == [2, 0, 1]
    assert stream.docids.tolist() == ["1", "2", "3"]
    with pytest.warns(UserWarning, match="left out"):
        zero = pr.read_table(judgements, logs, missing="zero")
    np.testing.assert_array_equal(zero.X, [[1.5, 2], [0.5, 0], [0, 4]])
    with pytest.raises(
        pr.FormatError, match=r"feature 'body' is missing; `missing='zero'` takes it for 0, `missing='keep'"
    ):
        pr.read_table(judgements, logs)
    with pytest.warns(UserWarning, match="left out"):
        assert_same(whole(pr.scan_table(judgements, logs, missing="zero")), zero)


def test_several_logs_in_a_hit_and_fields_of_the_document(tmp_path):
    logs = {"_ltrlog": [{"main": [{"name": "a", "value": 1}]}, {"other": [{"name": "a", "value": 2}]}], "sku": ["s1"]}
    path = write_lines(tmp_path, "l.jsonl", [{"qid": 7, "_id": "x", "_source": {"stars": 3}, "fields": logs}])
    stream = pr.read_table(path, docid="sku", relevance="stars")
    assert stream.feature_names == ("main.a", "other.a")
    assert stream.relevance.tolist() == [3]
    assert stream.docids.tolist() == ["s1"]
    assert stream.qids.tolist() == ["7"]


SOLR = {
    "dense": ["title=1.5,body=2.0", "title=0.5,body=0.0", "title=0.0,body=4.0"],
    "sparse": ["title=1.5,body=2.0", "title=0.5", "body=4.0"],
    "former": ["title:1.5;body:2.0", "title:0.5;body:0.0", "title:0.0;body:4.0"],
}


@pytest.mark.parametrize("shape", SOLR)
def test_features_of_solr(shape, tmp_path):
    judgements = write(tmp_path, "j.csv", JUDGEMENTS.replace("hats,9,1\n", ""))
    documents = [{"id": str(i + 1), "score": 3.0, "[features]": text} for i, text in enumerate(SOLR[shape])]
    answers = [
        {
            "responseHeader": {"status": 0, "params": {"q": query, "fl": "id,score,[features]"}},
            "response": {"numFound": 2, "start": 0, "docs": documents[rows]},
        }
        for query, rows in (("shoes", slice(2)), ("hats", slice(2, 3)))
    ]
    files = [
        write_lines(tmp_path, "answers.jsonl", answers),
        write_lines(
            tmp_path,
            "docs.jsonl",
            [one | {"query": q} for one, q in zip(documents, ["shoes", "shoes", "hats"], strict=True)],
        ),
        write(
            tmp_path,
            "docs.csv",
            "query,id,score,[features]\n"
            + "".join(
                f'{q},{i},3.0,"{text}"\n'
                for q, i, text in zip(["shoes", "shoes", "hats"], "123", SOLR[shape], strict=True)
            ),
        ),
    ]
    for file in files:
        stream = pr.read_table(judgements, file, missing="zero")
        np.testing.assert_array_equal(stream.X, [[1.5, 2], [0.5, 0], [0, 4]])
        assert stream.feature_names == ("title", "body")
        assert_same(whole(pr.scan_table(judgements, file, missing="zero")), stream)


def test_files_of_trec(tmp_path):
    qrels = write(tmp_path, "test.qrels", "301 0 FR1 1\n301 0 FR2 0\n302 0 FR1 2\n302\t0\tFR3\t-2\n")
    run = write(
        tmp_path,
        "bm25.run",
        "301 Q0 FR2 1 12.5 bm25\n301 Q0 FR1 2 11.0 bm25\n302 Q0 FR3 1 7 bm25\n"
        "302 Q0 FR1 2 6e0 bm25\n302 Q0 FR9 3 5 bm25\n",
    )
    with pytest.warns(UserWarning, match="^1 rows of features without a judgement are left out$"):
        stream = pr.read_table(qrels, run)
    assert stream.feature_names == ("score", "rank")
    np.testing.assert_array_equal(stream.X, [[12.5, 1], [11, 2], [7, 1], [6, 2]])
    assert stream.relevance.tolist() == [0, 1, 0, 2]
    assert stream.docids.tolist() == ["FR2", "FR1", "FR3", "FR1"]
    unnamed = [write(tmp_path, path.stem, path.read_bytes()) for path in (qrels, run)]
    with pytest.warns(UserWarning, match="left out"):
        assert_same(pr.read_table(*unnamed), stream)
    assert (
        pr.read_table(
            qrels, write(tmp_path, "a.run", run.read_text()[: -len("302 Q0 FR9 3 5 bm25\n")]), features="score"
        ).n_features
        == 1
    )


def test_a_join_of_tables_with_their_own_names_and_other_order(tmp_path):
    """Numbers in JSON and text in CSV are one id; the order is that of the features."""
    judgements = write(tmp_path, "j.tsv", "query\tdocid\tgrade\n7\t1\t2\n7\t2\t0\n8\t1\t1\n")
    rows = [{"qid": 8, "document": 1, "x": 1}, {"qid": 7, "document": 2.0, "x": 2}, {"qid": 7, "document": "1", "x": 3}]
    stream = pr.read_table(judgements, write_lines(tmp_path, "f.jsonl", rows))
    assert stream.qids.tolist() == ["8", "7"]
    assert stream.docids.tolist() == ["1", "2", "1"]
    assert stream.relevance.tolist() == [1, 0, 2]
    assert stream.X.ravel().tolist() == [1, 2, 3]
    assert_same(pr.read_table(judgements, tmp_path / "f.jsonl", qid="qid", docid="docid"), stream)
    with pytest.raises(ValueError, match=r"none of .*j.tsv, .*f.jsonl has a column 'other'"):
        pr.read_table(judgements, tmp_path / "f.jsonl", qid="other")


def test_names_of_features_are_the_union(tmp_path):
    """Over lines and over files."""
    one = write_lines(tmp_path, "1.jsonl", [{"qid": 1, "grade": 1, "a": 1}, {"qid": 1, "grade": 0, "b": 2}])
    other = write(tmp_path, "2.csv", "qid,grade,c,a\n2,1,3,4\n")
    stream = pr.read_table([one, other], missing="keep")
    assert stream.feature_names == ("a", "b", "c")
    nan = np.nan
    np.testing.assert_array_equal(stream.X, [[1, nan, nan], [nan, 2, nan], [4, nan, 3]])
    assert stream.docids is None
    assert_same(whole(pr.scan_table([one, other], missing="keep")), stream)
    with pytest.raises(pr.FormatError, match=r"2.csv:2:1: feature 'b' is missing"):
        pr.read_table([write_lines(tmp_path, "3.jsonl", [{"qid": 1, "grade": 1, "a": 1, "b": 2, "c": 3}]), other])


def test_words_for_what_is_missing(tmp_path):
    words = ["", "NA", "n/a", "NaN", "null", "None"]
    text = "qid,grade,x,y\n" + "".join(f"q,1,{word},{i}\n" for i, word in enumerate(words))
    path = write(tmp_path, "a.csv", text)
    stream = pr.read_table(path, missing="keep")
    assert np.isnan(stream.X[:, 0]).all()
    assert stream.X[:, 1].tolist() == list(range(len(words)))
    with pytest.raises(pr.FormatError, match=r"a.csv:2:3: feature 'x' is missing; `missing='zero'` takes it for 0"):
        pr.read_table(path)
    path = write(tmp_path, "ids.csv", "qid,docid,grade,x\nnull,NA,1,0.5\n")  # of ids they are words like others
    assert pr.read_table(path).qids.tolist() == ["null"]


@given(
    rows=st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6),
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
            st.floats(0, 5, width=32),
            st.floats(width=32, allow_nan=False, allow_infinity=False),
        ),
        min_size=1,
        max_size=30,
        unique_by=lambda row: row[:2] if row[1] else object(),  # documents may have no id
    )
)
def test_what_other_programs_write_is_read(rows, tmp_path_factory):
    """Whatever the texts are: quotes, delimiters, newlines."""
    folder = tmp_path_factory.mktemp("tables")
    qids, docids, grades, values = zip(*rows, strict=True)
    frame = {"qid": list(qids), "docid": list(docids), "grade": list(grades), "x": list(values)}
    order = sorted(range(len(rows)), key=lambda i: qids.index(qids[i]))
    pl.DataFrame(frame).write_csv(folder / "polars.csv")
    pd.DataFrame(frame).to_csv(folder / "pandas.csv", index=False)
    pl.DataFrame(frame).write_ndjson(folder / "polars.jsonl")
    pd.DataFrame(frame).to_json(folder / "pandas.jsonl", orient="records", lines=True, double_precision=15)
    for path in folder.iterdir():
        if path.name == "pandas.csv" and "\r" in "".join(qids + docids):
            continue  # pandas leaves a carriage return without quotes
        stream = pr.read_table(path)
        assert stream.docids.tolist() == [docids[i] for i in order], path.name
        assert np.repeat(stream.qids, np.diff(stream.offsets)).tolist() == [qids[i] for i in order], path.name
        if path.name != "pandas.jsonl":  # which rounds to 15 decimals
            assert stream.X[:, 0].tolist() == [np.float32(values[i]) for i in order]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_blocks_are_whole_queries_whatever_the_size(kind, tmp_path, monkeypatch):
    """Chunks of text, batches of lines and blocks of features may all split a query."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 12, 60)
    frame = pl.DataFrame(
        {
            "query": [f'query "{q}"\n, of lines' for q, size in enumerate(sizes) for _ in range(size)],
            "docid": [f"d{i}" for i in range(sizes.sum())],
            "grade": rng.integers(0, 3, sizes.sum()),
            "x": rng.normal(size=sizes.sum()),
            "y": rng.normal(size=sizes.sum()),
        }
    )
    path = tmp_path / f"a.{kind}"
    frame.write_csv(path) if kind == "csv" else frame.write_ndjson(path)
    stream = pr.read_table(path, dtype="float64")
    assert stream.X.tobytes() == frame.select("x", "y").to_numpy(order="c").tobytes()
    assert np.diff(stream.offsets).tolist() == sizes.tolist()
    for size in (64, 300, 5000):
        monkeypatch.setattr(chunks, "CHUNK_BYTES", size)
        monkeypatch.setattr(delimited, "CHUNK_BYTES", size)
        monkeypatch.setattr(text_files, "_CHUNK_BYTES", size)
        monkeypatch.setattr(document_table, "_BATCH_NUMBERS", size)
        assert_same(pr.read_table(path, dtype="float64"), stream)
        scan = pr.scan_table(path, dtype="float64", max_bytes=size)
        blocks = list(scan)
        assert len(blocks) > 1
        assert_same(whole(blocks), stream)
        assert_same(whole(scan), stream)  # a second time


def test_queries_that_come_back(tmp_path):
    path = write(tmp_path, "a.csv", "qid,docid,grade,x\na,1,1,1\nb,2,1,2\n\na,3,0,3\n")
    stream = pr.read_table(path)
    assert stream.qids.tolist() == ["a", "b"]
    assert stream.docids.tolist() == ["1", "3", "2"]
    assert stream.X.ravel().tolist() == [1, 3, 2]
    with pytest.raises(
        pr.FormatError, match=r"a.csv:5:1: the documents of query 'a' are not adjacent; `read_table` groups"
    ):
        list(pr.scan_table(path))


def test_learning_from_a_table_is_learning_from_its_stream(tmp_path):
    stream = pr.mslr_shaped(20, n_documents=6, n_features=4)
    frame = stream.to_frame("polars")
    frame.write_csv(tmp_path / "a.csv")
    learners = [pr.ListwisePerceptron(transforms="running") for _ in range(3)]
    for learner, data in zip(
        learners,
        (stream, pr.read_table(tmp_path / "a.csv"), pr.scan_table(tmp_path / "a.csv", max_bytes=100)),
        strict=True,
    ):
        learner.learn(data)
    assert learners[0].weights.tobytes() == learners[1].weights.tobytes() == learners[2].weights.tobytes()


def test_progress_reaches_the_size_of_the_files(tmp_path):
    judgements = write(tmp_path, "j.csv", JUDGEMENTS)
    logs = write_lines(tmp_path, "log.jsonl.", LOGS["hits"])
    seen = []
    with pytest.warns(UserWarning, match="left out"):
        pr.read_table(judgements, logs, missing="zero", progress=lambda *counts: seen.append(counts))
    size = judgements.stat().st_size + logs.stat().st_size
    assert seen[-1] == (size, size)
    assert sorted(seen) == seen


def test_values_keep_their_bits(tmp_path):
    path = write(tmp_path, "a.csv", "qid,grade,x\nq,1,0.1\nq,0,1e300\nq,0,16777217\n")
    assert pr.read_table(path, dtype="float64").X.ravel().tolist() == [0.1, 1e300, 16777217]
    with pytest.raises(
        pr.FormatError, match=r"a.csv:3:3: a feature must be finite and fit into float32 \(column 'x'\).*1e300"
    ):
        pr.read_table(path)
    assert math.isclose(pr.read_table(write(tmp_path, "b.csv", "qid,grade,x\nq,1,0.1\n")).X[0, 0], 0.1, rel_tol=1e-7)


WEIGHTED = "query,docid,rating,bm25,searches\nshoes,a,2,1.5,10\nshoes,b,0,0.25,10\nhats,c,1,3,0.5\n"


def read_both(*paths, **settings):
    """Read tables into memory, and check that scans of any block size yield the same."""
    stream = pr.read_table(*paths, **settings)
    for max_bytes in (1, 2**20):
        scanned = whole(pr.scan_table(*paths, **settings, max_bytes=max_bytes))
        assert_same(scanned, stream)
        assert (scanned.docids is None) == (stream.docids is None)
        assert scanned.docids is None or scanned.docids.tolist() == stream.docids.tolist()
        assert (scanned.query_weights is None) == (stream.query_weights is None)
        assert scanned.query_weights is None or scanned.query_weights.tolist() == stream.query_weights.tolist()
    return stream


def test_weights_of_queries_in_one_table(tmp_path):
    path = write(tmp_path, "a.csv", WEIGHTED)
    assert read_both(path).feature_names == ("bm25", "searches")  # a weight is not guessed
    found = []
    stream = read_both(path, weight="searches", report=found.append)
    assert stream.query_weights.tolist() == [10, 0.5]
    assert stream.feature_names == ("bm25",)
    assert found[0].roles["weight"] == "searches"
    assert "grade from 'rating' (guessed), query weight from 'searches'; 1 features" in str(found[0])
    tabs = write(tmp_path, "a.tsv", WEIGHTED.replace(",", "\t"))
    assert read_both(tabs, weight="searches").query_weights.tolist() == [10, 0.5]
    rows = list(csv.DictReader(WEIGHTED.splitlines()))
    lines = write_lines(tmp_path, "a.jsonl", [row | {"searches": float(row["searches"])} for row in rows])
    assert read_both(lines, weight="searches").query_weights.tolist() == [10, 0.5]
    assert pr.read_table(lines, weight="searches").feature_names == ("bm25",)


def test_a_column_called_query_weight_is_that(tmp_path):
    """By this name alone, the one that frames and Parquet files have, unless it is listed as a feature."""
    path = write(tmp_path, "a.csv", WEIGHTED.replace("searches", "query_weight"))
    found = []
    stream = read_both(path, report=found.append)
    assert (stream.query_weights.tolist(), stream.feature_names) == ([10, 0.5], ("bm25",))
    assert "weight" in found[0].guessed
    listed = read_both(path, features=["query_weight", "bm25"])
    assert (listed.query_weights, listed.feature_names) == (None, ("query_weight", "bm25"))
    for name in ("weight", "Query Weight", "query weight", "QUERY_WEIGHT"):
        other = write(tmp_path, "b.csv", WEIGHTED.replace("searches", name))
        assert read_both(other).query_weights is None
    both = write(tmp_path, "c.csv", "qid,grade,query_weight,w,x\nq,1,3,2,5\n")
    stream = read_both(both, weight="w", report=lambda columns: None)
    assert (stream.query_weights.tolist(), stream.feature_names) == ([2], ("x",))


def test_weights_beside_the_judgements_or_the_features(tmp_path):
    plain = write(tmp_path, "j.csv", "query,docid,rating\nshoes,a,2\nshoes,b,0\nhats,c,1\n")
    weighted = write(tmp_path, "jw.csv", "query,docid,rating,n\nshoes,a,2,3\nshoes,b,0,3\nhats,c,1,0\n")
    values = [("hats", "c", 3, 0), ("shoes", "b", 2, 3), ("shoes", "a", 1, 3)]
    rows = [{"query": q, "id": d, "x": x} for q, d, x, _ in values]
    features = write_lines(tmp_path, "f.jsonl", rows)
    answers = [
        {"query": "hats", "n": 0, "response": response(hit("c", {"x": 3}))},
        {"query": "shoes", "n": 3, "response": response(hit("b", {"x": 2}), hit("a", {"x": 1}))},
    ]
    logged = write_lines(tmp_path, "fw.jsonl", answers)
    for tables in ((weighted, features), (plain, logged), (weighted, logged)):
        stream = read_both(*tables, weight="n")
        assert stream.qids.tolist() == ["hats", "shoes"]
        assert stream.query_weights.tolist() == [0, 3]
        assert stream.X.ravel().tolist() == [3, 2, 1]
        assert stream.feature_names == ("x",)
    other = write_lines(tmp_path, "o.jsonl", [row | {"n": 2.5} for row in rows])
    with pytest.raises(pr.FormatError, match=r"o.jsonl:1:1: query 'hats' has two weights, 0.0 and 2.5"):
        pr.read_table(weighted, other, weight="n")


def test_queries_of_tables_without_weights_have_1(tmp_path):
    one = write(tmp_path, "1.csv", "qid,docid,grade,x,query_weight\na,d1,1,1,2\n")
    two = write(tmp_path, "2.csv", "qid,grade,x\nb,1,1\n")
    stream = read_both([one, two])
    assert stream.query_weights.tolist() == [2, 1]
    assert stream.docids.tolist() == ["d1", ""]
    again = write(tmp_path, "3.csv", "qid,grade,x\na,1,1\n")
    with pytest.raises(pr.FormatError, match=r"3.csv:2:1: query 'a' has two weights, 2.0 and 1.0"):
        pr.read_table([one, again])


def test_weights_of_queries_that_come_back_and_rows_that_are_left_out(tmp_path):
    text = "qid,docid,grade,x,w\na,1,1,1,2\nb,2,1,2,5\na,3,0,3,2\nb,4,,4,\n"
    path = write(tmp_path, "a.csv", text)
    with pytest.warns(UserWarning, match="1 rows without a grade"):
        stream = pr.read_table(path, weight="w")
    assert stream.query_weights.tolist() == [2, 5]
    assert stream.X.ravel().tolist() == [1, 3, 2]
    write(tmp_path, "a.csv", text.replace("0,3,2", "0,3,2.5"))
    with pytest.raises(pr.FormatError, match=r"a.csv:4:1: query 'a' has two weights, 2.0 and 2.5"):
        pr.read_table(path, weight="w")


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("-1", "must be a finite number >= 0 (column 'w'), got '-1'"),
        ("inf", "must be a finite number >= 0 (column 'w'), got 'inf'"),
        ("1e400", "must be a finite number >= 0 (column 'w'), got '1e400'"),
        ("", "must be a finite number >= 0 (column 'w'), got ''"),
        ("nan", "must be a finite number >= 0 (column 'w'), got 'nan'"),
        ("many", "must be a number (column 'w'), got 'many'"),
        ("3", "query 'q' has two weights, 2.0 and 3.0"),
    ],
)
def test_wrong_weights(cell, said, tmp_path):
    text = f"qid,docid,grade,w,x\nq,a,1,2,1\nq,b,0,{cell},1\n"
    path = write(tmp_path, "a.csv", text)
    features = write(tmp_path, "f.csv", "qid,docid,x\nq,a,1\nq,b,2\n")
    column = 1 if "two weights" in said else 4
    for tables in ((path,), (path, features)):
        with pytest.raises(pr.FormatError) as caught:
            pr.read_table(*tables, weight="w")
        assert str(caught.value).startswith(f"{path}:3:{column}: ")
        assert str(caught.value).endswith(said)
        with pytest.raises(pr.FormatError, match=r"a.csv:3:"):
            list(pr.scan_table(*tables, weight="w"))
    if cell not in ("inf", "1e400", "nan"):
        rows = [{"qid": "q", "grade": 1, "w": 2, "x": 1}, {"qid": "q", "grade": 1, "w": cell, "x": 1}]
        with pytest.raises(pr.FormatError, match=r"a.jsonl:2:1: "):
            pr.read_table(write_lines(tmp_path, "a.jsonl", rows), weight="w")


def test_files_of_trec_have_no_weights(tmp_path):
    qrels = write(tmp_path, "a.qrels", "1 0 d 1\n")
    run = write(tmp_path, "b.run", "1 Q0 d 1 2 t\n")
    with pytest.raises(ValueError, match=r"none of .*a.qrels, .*b.run has a column 'w' of .*; files of TREC have no"):
        pr.read_table(qrels, run, weight="w")
    features = write(tmp_path, "f.csv", "qid,docid,x,w\n1,d,5,2\n")
    assert pr.read_table(qrels, features, weight="w").query_weights.tolist() == [2]
    with pytest.raises(ValueError, match=r"none of .*f.csv has a column 'v'"):
        pr.read_table(qrels, features, weight="v")
    with pytest.raises(pr.FormatError, match=r"f.csv has no column 'v'; it has 'qid'"):
        pr.read_table(features, weight="v", relevance="x", features="w")
    with pytest.raises(TypeError, match="weight must be the name of a column, got 1"):
        pr.read_table(features, weight=1)


def test_hits_without_a_judgement_have_grade_0(tmp_path):
    """Of queries that are judged; whoever normalizes scores within a query needs all of its documents."""
    judgements, features, table = tmp_path / "judgements.csv", tmp_path / "clauses.jsonl", tmp_path / "table.csv"
    judgements.write_text("query,docid,rating\nshoes,a,2\nhats,c,1\n")
    rows = [("shoes", "a", 1.5), ("shoes", "b", 3.0), ("hats", "c", 0.5), ("hats", "d", None), ("coats", "e", 1.0)]
    features.write_text(
        "".join(json.dumps({"query": q, "docid": d, "features": {"bm25": s, "vector": 1.0}}) + "\n" for q, d, s in rows)
    )
    with pytest.warns(UserWarning, match="^[12] rows ") as warned:
        stream = pr.read_table(judgements, features, missing="keep", unjudged="zero")
    said = [str(warning.message) for warning in warned]
    assert "2 rows without a grade have grade 0" in said
    assert "1 rows of features without a judgement are left out" in said
    assert list(zip(stream.docids.tolist(), stream.relevance.tolist(), strict=True)) == [
        ("a", 2.0),
        ("b", 0.0),
        ("c", 1.0),
        ("d", 0.0),
    ]
    np.testing.assert_array_equal(stream.X[:, 0], np.array([1.5, 3.0, 0.5, np.nan], np.float32))
    table.write_text("query,docid,rating,bm25\nshoes,a,2,1.5\nshoes,b,,3\nhats,c,1,0.5\nhats,d,,\n")
    with pytest.warns(UserWarning, match="^2 rows without a grade have grade 0$"):
        alone = pr.read_table(table, missing="keep", unjudged="zero")
    assert alone.relevance.tolist() == stream.relevance.tolist()
    np.testing.assert_array_equal(alone.X[:, 0], stream.X[:, 0])
    with pytest.warns(UserWarning, match="^2 rows without a grade are left out$"):
        assert pr.read_table(table, missing="keep").docids.tolist() == ["a", "c"]
    features.write_text(features.read_text() + json.dumps({"query": "hats", "docid": "d", "features": {"bm25": 1}}))
    with pytest.raises(pr.FormatError, match=r"clauses.jsonl:6:1: document 'd' of query 'hats' has features a second"):
        pr.read_table(judgements, features, missing="keep", unjudged="zero")
    with pytest.raises(ValueError, match="unjudged must be one of 'skip', 'zero', got 'one'"):
        pr.read_table(table, unjudged="one")


def search(keywords, name="logged", **parameters):
    """A search as the plugin's documentation has it."""
    sltr = {"_name": name, "featureset": "movies", "params": {"keywords": keywords} | parameters}
    query = {"bool": {"filter": [{"terms": {"_id": ["1", "2"]}}, {"sltr": sltr}]}}
    return {"query": query, "ext": {"ltr_log": {"log_specs": {"name": "log_entry1", "named_query": name}}}}


def write_msearch(tmp_path, searches, responses, number=""):
    lines = [line for one in searches for line in ({"index": "movies"}, one)]
    answers = {"took": 7, "responses": responses}
    requests = write_lines(tmp_path, f"requests{number}.ndjson", lines)
    return [requests, write(tmp_path, f"responses{number}.json", json.dumps(answers, indent=2))]


SEARCHES = {
    "keywords": [search("shoes"), search("hats")],
    "the only parameter": [
        {"query": {"sltr": {"_name": "logged", "params": {"words": text}}}, "ext": {}} for text in ("shoes", "hats")
    ],
    "a name for each": [{"query": {"sltr": {"_name": text, "featureset": "movies"}}} for text in ("shoes", "hats")],
    "more parameters": [search("shoes", user="7", boost=2), search("hats", user="8", boost=1)],
    "a rescore": [
        {
            "query": {"match_all": {}},
            "rescore": {"query": {"rescore_query": {"sltr": {"params": {"query_text": text}}}}},
        }
        for text in ("shoes", "hats")
    ],
}


@pytest.mark.parametrize("shape", SEARCHES)
def test_msearch_as_it_was_sent_and_answered(shape, tmp_path):
    judgements = write(tmp_path, "j.csv", JUDGEMENTS)
    files = write_msearch(tmp_path, SEARCHES[shape], [response(*hits) | {"status": 200} for hits in HITS.values()])
    with pytest.warns(UserWarning, match="1 judgements without features and 1 rows of features without a judgement"):
        stream = pr.read_table(judgements, files, missing="zero")
    np.testing.assert_array_equal(stream.X, [[1.5, 2], [0.5, 0], [0, 4]])
    assert stream.qids.tolist() == ["shoes", "hats"]
    assert stream.docids.tolist() == ["1", "2", "3"]


def test_msearch_in_batches_and_ids_that_are_names(tmp_path):
    judgements = write(tmp_path, "j.csv", "_name,docid,grade\nq1,1,2\nq1,2,0\nq2,3,1\n")
    batches = [
        write_msearch(tmp_path, [search("any", name)], [response(*hits)], number)
        for number, (name, hits) in enumerate(zip(["q1", "q2"], HITS.values(), strict=True), 1)
    ]
    files = [*(requests for requests, _ in batches), *(responses for _, responses in batches)]
    with pytest.warns(UserWarning, match="without a judgement"):
        stream = pr.read_table(judgements, files, missing="zero", qid="_name")
    assert stream.qids.tolist() == ["q1", "q2"]
    assert stream.n_documents == 3


FAILED = {"error": {"type": "index_not_found_exception", "reason": "no such index [movies]"}, "status": 404}


@pytest.mark.parametrize(
    ("searches", "responses", "problem"),
    [
        (
            [search("a"), search("b")],
            [FAILED, FAILED],
            r"requests.ndjson:2:1: the engine refused .*no such index",
        ),
        (
            [search("a"), search("b")],
            [FAILED],
            r"responses.json must have a response to each of the 2 requests in .*, got 1",
        ),
        (
            [{"query": {"match_all": {}}}],
            [response()],
            r"requests.ndjson:2:1: a search must have a query `sltr` with params",
        ),
        ([search("a")], [response({"_id": "1"})], r"responses.json:1:1: response 1: a hit has no fields._ltrlog"),
    ],
)
def test_msearch_that_went_wrong(searches, responses, problem, tmp_path):
    judgements = write(tmp_path, "j.csv", JUDGEMENTS)
    files = write_msearch(tmp_path, searches, responses)
    with pytest.raises(pr.FormatError, match=problem):
        pr.read_table(judgements, files)
    with pytest.raises(pr.FormatError, match="requests of _msearch: name the file with their responses after it"):
        pr.read_table(judgements, files[0])


def test_responses_that_are_cut_off(tmp_path):
    requests, responses = write_msearch(tmp_path, [search("a")], [response()])
    (tmp_path / "responses.json").write_text("{")
    with pytest.raises(
        pr.FormatError, match=r"responses.json must be the answer to .*requests.ndjson, an object of JSON"
    ):
        pr.read_table(write(tmp_path, "j.csv", JUDGEMENTS), [requests, responses])


def test_documents_to_be_ranked_need_no_grades(tmp_path):
    some, none = tmp_path / "some.csv", tmp_path / "none.csv"
    some.write_text("qid,docid,x,grade\n1,a,1,2\n1,b,2,\n")
    none.write_text("qid,docid,x\n2,c,3\n")
    frame = pl.DataFrame({"qid": [1, 2, 1], "x": [1.0, 3.0, 2.0]})
    frame.write_parquet(tmp_path / "none.parquet")
    frame.with_columns(relevance=pl.Series([0, None, 1])).write_parquet(tmp_path / "some.parquet")
    whole = [pr.read_table([some, none], judged=False)]
    whole += [pr.read_parquet(tmp_path / f"{name}.parquet", judged=False) for name in ("none", "some")]
    for stream in [*whole, *pr.scan_table([some, none], judged=False)]:
        assert stream.X.ravel().tolist() == [1, 2, 3]
        assert "relevance" not in stream.columns
        with pytest.raises(ValueError, match="listwise needs the column 'relevance'"):
            pr.ListwisePerceptron().learn(stream)
    none.write_text("qid,docid,x,grade\n2,c,3,1\n")
    assert pr.read_table(none, judged=False).relevance.tolist() == [1]
