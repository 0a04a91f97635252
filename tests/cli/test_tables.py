"""Tables on the command line: every command that reads streams takes them, and says what columns it took for what."""

import json

import numpy as np
import polars as pl
import pytest

import perceptrank as pr

STREAM = pr.separable(60, n_features=4, label_noise=0.2, seed=5).stream
NAMES = ["title", "body", "age", "price"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Judgements with a query that has none, and features with one document more, in two files and in one."""
    monkeypatch.chdir(tmp_path)
    frame = STREAM.to_frame("polars").rename(
        {"relevance": "Rating", "f1": "title", "f2": "body", "f3": "age", "f4": "price"}
    )
    frame = frame.with_columns(
        pl.format("query-{}", "qid").alias("Query Text"), pl.format("d{}", pl.int_range(pl.len())).alias("Doc ID")
    ).drop("qid")
    frame.write_csv("one.csv")
    frame.select("Query Text", "Doc ID", "Rating").write_csv("judgements.csv")
    rows = frame.select("Query Text", "Doc ID", *NAMES).to_dicts()
    with open("features.jsonl", "w") as file:
        for row in rows:
            logged = [{"name": name, "value": row[name]} for name in NAMES]
            hit = {"_id": row["Doc ID"], "query": row["Query Text"], "fields": {"_ltrlog": [{"log": logged}]}}
            print(json.dumps(hit), file=file)
    with open("judgements.csv", "a") as file:
        file.write("query without features,d,1\n")
    return tmp_path


JOINED = ["judgements.csv", "--features", "features.jsonl", "--float64"]


def test_convert_joins_and_says_what_it_took(run, folder):
    result = run("convert", *JOINED, "out.store")
    store = pr.open_store("out.store")
    assert np.array_equal(store.X, STREAM.X)
    assert np.array_equal(store.relevance, STREAM.relevance)
    assert store.feature_names == tuple(NAMES)
    assert store.qids.tolist()[:2] == [f"query-{qid}" for qid in STREAM.qids[:2]]
    assert store.docids.tolist()[:3] == ["d0", "d1", "d2"]
    assert result.stderr.splitlines() == [
        "judgements.csv (csv): query from 'Query Text' (guessed), document from 'Doc ID' (guessed), "
        "grade from 'Rating' (guessed)",
        "features.jsonl (jsonl): query from 'query' (guessed), document from '_id' (guessed); "
        "4 features: 'title', 'body', 'age', 'price'",
        "warning: 1 judgements without features are left out",
    ]
    run("convert", *JOINED, "again.parquet", "--group")
    assert pr.read_parquet("again.parquet").n_documents == STREAM.n_documents


def test_every_command_that_reads_takes_tables(run, folder):
    expected = pr.ListwisePerceptron()
    expected.learn(STREAM)
    run("learn", *JOINED, "--save", "model.json")
    assert np.array_equal(pr.load("model.json").weights, expected.weights)
    run("learn", "one.csv", "--float64", "--save", "other.json")
    assert np.array_equal(pr.load("other.json").weights, expected.weights)
    for command in (
        ["evaluate", "model.json"],
        ["rank", "model.json"],
        ["compare", "--algorithm", "listwise"],
        ["bound"],
    ):
        for table in (JOINED, ["one.csv", "--float64"]):
            assert "Query Text" in run(*command, *table).stderr


def test_columns_by_name(run, folder):
    pl.read_csv("one.csv").rename({"Query Text": "who", "Doc ID": "what", "Rating": "how"}).write_csv("odd.csv.gz.csv")
    named = ["--column", "qid=who", "--column", "docid=what", "--column", "relevance=how"]
    result = run("convert", "odd.csv.gz.csv", "out.store", *named, "--column", "feature=age")
    assert (
        "query from 'who', document from 'what', grade from 'how'; 1 features: 'age'; ignored: 'title'" in result.stderr
    )
    assert pr.open_store("out.store").feature_names == ("age",)
    run("convert", "odd.csv.gz.csv", "out.parquet", *named)
    twice = run("convert", "odd.csv.gz.csv", "x.store", "--column", "qid=who", "--column", "qid=what", code=1)
    assert "the column of qid is given twice, 'who' and 'what'" in twice.stderr
    assert "--column qid=… names it" in run("convert", "odd.csv.gz.csv", "x.store", code=1).stderr


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "qid,grade,x\n1,1,\n",
            [],
            "a.csv:2:3: feature 'x' is missing; --zero-missing takes it for 0, --keep-missing for",
        ),
        ("qid,grade,x\n1,1,a\n1,1,2\n1,1,2\n", [], "a.csv:2:3: a feature must be a number (column 'x'), got 'a'"),
        (
            "qid,grade,x\n1,1,1\n2,1,1\n1,1,1\n",
            [],
            "a.csv:4:1: the documents of query '1' are not adjacent; convert --group",
        ),
        ("qid,grade,x\n1,1,1e60\n", [], "(--float64 has more range)"),
        ("qid,grade\n1,1\n", [], "no column of numbers is left for them; --features names a table that has them"),
        ("qid,grade,x\n1,1,1\n", ["--zero-based"], "--zero-based: applies to LETOR text only, not to a table"),
        (
            "qid,grade,x\n1,1,1\n",
            ["--keep-missing", "--zero-missing"],
            "give --keep-missing or --zero-missing, not both",
        ),
        ("qid,grade,x\n1,1,1\n", ["--features", "none.jsonl"], "there is no file none.jsonl"),
    ],
)
def test_errors_in_terms_of_options_leave_nothing(run, tmp_path, monkeypatch, text, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(text)
    assert message in run("convert", "a.csv", "out.store", *options, code=1).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_missing_values_are_kept_or_zero(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("qid,grade,x,y\n1,1,,2\n")
    run("convert", "a.csv", "zero.store", "--zero-missing")
    assert pr.open_store("zero.store").X.tolist() == [[0, 2]]
    run("convert", "a.csv", "kept.store", "--keep-missing")
    assert np.isnan(pr.open_store("kept.store").X[0, 0])
    pr.write_store(STREAM, "s.store")
    assert (
        "--zero-missing: a store has what was written to it"
        in run("convert", "s.store", "x.store", "--zero-missing", code=1).stderr
    )


def test_tables_are_not_written_and_not_replaced(run, folder):
    assert "files like out.tsv.gz are read, not written" in run("convert", "one.csv", "out.tsv.gz", code=1).stderr
    before = (folder / "features.jsonl").read_bytes()
    assert "would replace" in run("learn", *JOINED, "--save", "features.jsonl", code=1).stderr
    assert (folder / "features.jsonl").read_bytes() == before


def test_columns_are_found_by_name_in_any_order(run, folder):
    run("convert", "one.csv", "--float64", "s.store")
    run("learn", "s.store", "--save", "m.json")
    stream = pr.open_store("s.store")
    other = stream.to_frame("polars").with_columns(new=1.0)
    names = ["new", *reversed(NAMES)]
    other.select("qid", "relevance", "docid", *names).write_csv("other.csv")
    expected = run("rank", "m.json", "s.store", "--json").stdout
    found = run("rank", "m.json", "other.csv", "--float64", "--json")
    assert found.stdout == expected
    assert "features unknown to the model are ignored: new" in found.stderr
    run("learn", "s.store", "--from", "m.json", "--save", "a.json")
    run("learn", "other.csv", "--float64", "--from", "m.json", "--save", "b.json")
    first, second = pr.load("a.json"), pr.load("b.json")
    assert first.weights.tolist() == second.weights.tolist()
    other.select("qid", "relevance", *NAMES[1:]).write_csv("fewer.csv")
    assert f"it lacks {NAMES[0]!r}" in run("rank", "m.json", "fewer.csv", code=1).stderr


def test_weights_of_queries(run, folder):
    frame = pl.read_csv("one.csv").with_columns(searches=pl.col("Query Text").str.len_chars() * 0.5)
    frame.write_csv("weighted.csv")
    expected = [len(f"query-{qid}") * 0.5 for qid in STREAM.qids]
    result = run("convert", "weighted.csv", "out.store", "--float64", "--column", "weight=searches")
    assert "query weight from 'searches'; 4 features" in result.stderr
    assert pr.open_store("out.store").query_weights.tolist() == expected
    run("convert", "out.store", "own.parquet")
    pl.read_parquet("own.parquet").rename({"query_weight": "searches"}).write_parquet("theirs.parquet")
    for options in (["own.parquet"], ["theirs.parquet", "--column", "weight=searches"]):
        run("convert", *options, "again.store", "--overwrite")
        assert pr.open_store("again.store").query_weights.tolist() == expected
    frame.select("Query Text", "Doc ID", "Rating", "searches").write_csv("judged.csv")
    run("convert", "judged.csv", *JOINED[1:], "joined.store", "--column", "weight=searches")
    assert pr.open_store("joined.store").query_weights.tolist() == expected
    twice = run("convert", "weighted.csv", "x.store", "--column", "weight=a", "--column", "weight=b", code=1)
    assert "the column of weight is given twice, 'a' and 'b'" in twice.stderr
    wrong = run("convert", "weighted.csv", "x.store", "--column", "mass=a", code=1)
    assert "relevance=NAME, weight=NAME, feature=NAME, got 'mass=a'" in wrong.stderr
    text = run("convert", "out.store", "plain.txt", code=1)
    assert "LETOR text has no place for query weights" in text.stderr


def test_columns_of_parquet_that_a_model_does_not_know_may_be_text(run, folder):
    run("convert", "one.csv", "--float64", "s.store")
    run("learn", "s.store", "--save", "m.json")
    frame = pr.open_store("s.store").to_frame("polars")
    frame.insert_column(3, frame["docid"].alias("category")).write_parquet("other.parquet")
    assert run("rank", "m.json", "other.parquet", "--json").stdout == run("rank", "m.json", "s.store", "--json").stdout
    assert "ndcg@10" in run("evaluate", "m.json", "other.parquet").stdout
    assert "rank" in run("parity", "m.json", "other.parquet", "--to", "onnx").stdout
    run("learn", "other.parquet", "--from", "m.json", "--save", "n.json")
    assert "columns of text are no features: category" in run("learn", "other.parquet").stderr


def test_documents_without_grades_are_ranked_and_explained_but_not_learned(run, folder):
    run("learn", "one.csv", "--float64", "--save", "model.json")
    expected = run("rank", "model.json", "one.csv", "--float64", "--json").stdout
    graded = pl.read_csv("one.csv")
    frame = graded.drop("Rating")
    frame.write_csv("new.csv")
    frame.write_csv("new.tsv", separator="\t")
    frame.write_ndjson("new.jsonl")
    frame.rename({"Query Text": "qid", "Doc ID": "docid"}).write_parquet("new.parquet")
    frame.select("Query Text", "Doc ID").write_csv("list.csv")
    half = graded.with_columns(pl.when(pl.int_range(pl.len()) % 3 == 0).then("Rating").alias("Rating"))
    half.write_csv("half.csv")
    half.rename({"Query Text": "qid", "Doc ID": "docid", "Rating": "relevance"}).write_parquet("half.parquet")
    new = [["new.csv"], ["new.tsv"], ["new.jsonl"], ["list.csv", "--features", "features.jsonl"]]
    for files in [*([*each, "--float64"] for each in [*new, ["half.csv"]]), ["new.parquet"], ["half.parquet"]]:
        result = run("rank", "model.json", *files, "--json")
        assert result.stdout == expected
        assert "warning" not in result.stderr
        shown = json.loads(run("show", "model.json", *files, "--query", "query-3", "--json").stdout)
        assert {document["relevance"] for document in shown["query"]["documents"]} == {None}
        head = run("show", "model.json", *files).stdout.split("query query-0")[1]
        assert head.splitlines()[1].split() == ["rank", "document", "score", "contributions"]
    for command in (["learn"], ["evaluate", "model.json"], ["rank", "model.json", "--qrels", "qrels.txt"]):
        refused = run(*command, "new.csv", code=1).stderr
        assert "new.csv has no column that is known to hold the grade of a row" in refused
        assert "no column 'relevance'" in run(*command, "new.parquet", code=1).stderr
    shown = json.loads(run("show", "model.json", "one.csv", "--float64", "--query", "query-3", "--json").stdout)
    assert None not in {document["relevance"] for document in shown["query"]["documents"]}
