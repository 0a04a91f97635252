"""`split`, and the hold-out of `learn`: queries are called held-out only if the model is known not to know them."""

import gzip
import json
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr
from perceptrank.stream.splitting import assign_parts, group_names, held_out

STREAM = pr.separable(100, n_features=3, n_documents=5, seed=3).stream


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Judgements with a column of text and one of whole numbers with leading zeros; the same as LETOR text."""
    monkeypatch.chdir(tmp_path)
    frame = STREAM.to_frame("polars").rename({"f1": "title", "f2": "body", "f3": "age"})
    frame = frame.with_columns(
        pl.format('shoes, "{}"', "qid").alias("qid"),
        pl.format("d{}", pl.int_range(pl.len())).alias("docid"),
        pl.when(pl.col("qid") % 4 == 0).then(pl.lit("hats")).otherwise(pl.lit("shoes")).alias("category"),
        pl.lit("007").alias("code"),
    )
    frame.write_csv("judgements.csv")
    pr.write_letor(STREAM, "day.txt")
    return tmp_path


def test_a_shop_splits_its_judgements_learns_and_evaluates(run, folder):
    said = run("split", "judgements.csv", "--out", "train.csv", "--out", "test.csv", "--fraction", "0.7", "--seed", "1")
    assert ["train.csv", "70", "350"] in [line.split() for line in said.stdout.splitlines()]
    whole, *parts = (pl.read_csv(name, infer_schema=False) for name in ("judgements.csv", "train.csv", "test.csv"))
    assert whole.sort("docid").equals(pl.concat(parts).sort("docid"))  # all columns, to the letter
    assert set(parts[0]["qid"]).isdisjoint(parts[1]["qid"])
    run("learn", "train.csv", "--save", "new.json", "--column", "feature=title", "--column", "feature=body")
    title = run("evaluate", "new.json", "test.csv").stdout.split("\n")[0]
    assert title.strip() == "new.json on 30 judged queries"


@pytest.mark.parametrize("source", ["day.txt", "day.parquet", "day.store", "day.csv"])
def test_any_format_splits_into_any_other(run, folder, source):
    if source != "day.txt":
        run("convert", "day.txt", source)
    outs = ["--out", "a.parquet", "--out", "b.store", "--out", "c.csv.gz"]
    found = json.loads(run("split", source, *outs, "--fraction", "0.5", "--fraction", "0.3", "--json").stdout)
    assert [(row["queries"], row["documents"]) for row in found["rows"]] == [(50, 250), (30, 150), (20, 100)]
    parts = [pr.read_parquet("a.parquet"), pr.open_store("b.store"), pr.read_table("c.csv.gz")]
    rows = [(str(query.qid), *x) for part in parts for query in part for x in query.X.tolist()]
    assert sorted(rows) == sorted((str(q.qid), *x) for q in pr.read_letor("day.txt") for x in q.X.tolist())


@pytest.mark.parametrize("has_polars", [True, False])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_rows_are_copied_whatever_is_in_them(run, folder, suffix, has_polars, monkeypatch):
    if not has_polars:
        monkeypatch.setitem(sys.modules, "polars", None)
    cell, comma = ('"5"" tv, new"', ",") if suffix == "csv" else ('5" tv, new', "\t")
    lines = [["query", "docid", "rating", "note", "last"]]
    lines += [[f"q{i // 2}", f"d{i}", "1", cell, ["007", ""][i % 2]] for i in range(20)]
    text = [comma.join(line) + "\n" for line in lines]
    (folder / f"in.{suffix}").write_text("".join(text[:7]) + "\r\n" + "".join(text[7:]) + "\n")  # with blank lines
    outs = [f"a.{suffix}", f"b.{suffix}.gz"]
    said = run("split", f"in.{suffix}", "--out", outs[0], "--out", outs[1], "--fraction", "0.6", "--json")
    assert [row["documents"] for row in json.loads(said.stdout)["rows"]] == [12, 8]
    first, last = (folder / outs[0]).read_text(), gzip.decompress((folder / outs[1]).read_bytes()).decode()
    assert first.startswith(text[0])
    assert last.startswith(text[0])
    assert sorted(first.splitlines(True) + last.splitlines(True)) == sorted([text[0], *text])


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_judgements_with_a_time_are_split_by_it(run, folder, suffix):
    comma = "," if suffix == "csv" else "\t"
    lines = [("query", "docid", "rating", "time"), *((f"q{i}", "d", "1", f"2026-01-{20 - i}") for i in range(10))]
    (folder / f"in.{suffix}").write_text("".join(comma.join(line) + "\n" for line in lines))
    outs = ["--out", f"a.{suffix}", "--out", f"b.{suffix}"]
    run("split", f"in.{suffix}", "--by", "time", *outs, "--fraction", "0.3")
    kept = [line.split(comma)[0] for line in (folder / f"a.{suffix}").read_text().splitlines()[1:]]
    assert kept == ["q7", "q8", "q9"]


def test_judged_queries_of_one_user_query_stay_together(run, folder):
    """As impressions do: `user_query` is the name that intervals and hold-outs go by."""
    rows = [f"i{i},d{d},{d},{d}.5,shoes {i % 10}\n" for i in range(40) for d in range(2)]
    (folder / "in.csv").write_text("query,docid,rating,price,user_query\n" + "".join(rows))
    run("split", "in.csv", "--out", "a.csv", "--out", "b.parquet", "--fraction", "0.5")
    run("split", "in.csv", "--out", "c.csv", "--out", "d.csv", "--fraction", "0.5")
    for first, last in (
        (pl.read_csv("a.csv"), pl.read_parquet("b.parquet")),
        (pl.read_csv("c.csv"), pl.read_csv("d.csv")),
    ):
        assert set(first["user_query"]).isdisjoint(last["user_query"])
    for stream in (pr.read_table("in.csv"), pr.read_parquet("b.parquet"), pr.QueryStream.from_frame(first_of(folder))):
        assert group_names(stream)[0].startswith("shoes")
        assert stream.n_features == 1


def first_of(folder):
    return pl.read_csv(folder / "in.csv").rename({"query": "qid", "rating": "relevance"}).cast({"docid": pl.String})


def test_a_split_depends_on_the_seed_and_not_on_the_order(run, folder):
    pr.write_letor(STREAM.shuffled(5), "mixed.txt")
    queries = {}
    for name, source, seed in (("a", "day.txt", 1), ("b", "mixed.txt", 1), ("c", "day.txt", 2)):
        run(
            "split",
            source,
            "--out",
            f"{name}.txt",
            "--out",
            "rest.txt",
            "--fraction",
            "0.4",
            "--seed",
            seed,
            "--overwrite",
        )
        queries[name] = set(pr.read_letor(f"{name}.txt").qids.tolist())
    assert queries["a"] == queries["b"] != queries["c"]


def impressions(n_asked):
    columns = {"user_query": [f"asked {i % n_asked}" for i in range(100)], "time": np.arange(100) * 1000}
    return STREAM.with_columns(columns | {"place": np.tile(np.arange(1, 6), 100), "clicked": np.zeros(500)})


@pytest.mark.parametrize("by", ["query", "time"])
@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
def test_impressions_of_one_text_stay_together(run, folder, by, name):
    pr.write_parquet(impressions(20), "log.parquet")
    run("convert", "log.parquet", "log.csv")
    ends = [name.replace("log", part) for part in ("first", "last")]
    run("split", name, "--by", by, "--out", ends[0], "--out", ends[1], "--fraction", "0.5")
    read = pl.read_parquet if name.endswith("parquet") else pl.read_csv
    first, last = (read(end) for end in ends)
    assert set(first["user_query"]).isdisjoint(last["user_query"])
    assert first["qid"].n_unique() == last["qid"].n_unique() == 50
    if by == "time":
        assert set(first["user_query"]) == {f"asked {i}" for i in range(10)}  # those asked first


@given(
    st.lists(st.integers(0, 9), min_size=12, max_size=80),
    st.sampled_from([[0.5, 0.5], [0.7, 0.3], [0.5, 0.25, 0.25]]),
    st.integers(0, 3),
)
def test_every_grade_is_spread_as_all_queries_are(grades, shares, seed):
    parts = assign_parts([f"q{i}" for i in range(len(grades))], shares, seed=seed, labels=grades)
    for chosen in [np.array(grades) == grade for grade in set(grades)] + [np.ones(len(grades), bool)]:
        counts = np.bincount(parts[chosen], minlength=len(shares))
        slack = 1 if chosen.all() else 2  # a label begins where the one before it ends
        assert (np.abs(counts - np.array(shares) * chosen.sum()) <= slack).all()


def test_stratify_gives_each_part_its_queries_without_a_relevant_document(run, folder):
    grades = np.where(np.repeat(np.arange(100) % 5 == 0, 5), 0, STREAM.relevance + 1)
    stream = pr.QueryStream.from_arrays(
        STREAM.X, grades, qid=np.repeat(np.arange(100), 5), feature_names=["x", "y", "z"]
    )
    pr.write_parquet(stream, "day.parquet")
    run("convert", "day.parquet", "day.csv")
    for kind, read in (("parquet", pr.read_parquet), ("csv", pr.read_table)):
        outs = [f"a.{kind}", f"b.{kind}"]
        run("split", f"day.{kind}", "--out", outs[0], "--out", outs[1], "--fraction", "0.7", "--stratify")
        without = [int((np.maximum.reduceat(s.relevance, s.offsets[:-1]) == 0).sum()) for s in map(read, outs)]
        assert sum(without) == 20
        assert abs(without[0] - 14) <= 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("day.txt --out a.txt --fraction .5", "--out must name two files or more, and different ones, got a.txt"),
        ("day.txt --out a.txt --out ./a.txt --fraction .5", "--out must name two files or more"),
        ("day.txt --out a.txt --out b.txt --fraction 1.5", "for each of 2 parts but the last, got 1.5"),
        (
            "day.txt --out a.txt --out b.txt --fraction .5 --fraction .6",
            "for each of 2 parts but the last, got 0.5 0.6",
        ),
        ("day.txt --out a.txt --out b.txt --fraction nan", "got nan"),
        ("day.txt --out a.txt --out b.txt --fraction .001", "100 queries are too few for parts of 0.001, 0.999"),
        ("day.txt --out a.txt --out day.txt --fraction .5 --overwrite", "would replace day.txt, which is read"),
        ("day.txt --out a.txt --out new.json --fraction .5", "new.json exists already; --overwrite replaces it"),
        ("day.txt --out a.txt --out b.txt --fraction .5 --by time", "--by time needs the column 'time': 100 of 100"),
        ("day.txt --out a.txt --out b.txt --fraction .5 --by time --stratify", "--stratify applies to --by query"),
        ("- --out a.txt --out b.txt --fraction .5", "split reads the queries twice, which standard input does not"),
        ("gaps.csv --out a.csv --out b.csv --fraction .5", "gaps.csv:3:1: a row must name its query (column 'query')"),
        ("lost.csv --out a.csv --out b.csv --fraction .5", "lost.csv:3:1: a row must name its query"),
        ("bare.csv --out a.csv --out b.csv --fraction .5", "there are no queries to split"),
        ("gaps.csv --out a.csv --out b.csv --fraction .5 --by time", "gaps.csv has no column 'time'"),
        ("gaps.csv --out a.csv --out b.csv --fraction .5 --stratify", "--stratify needs grades: gaps.csv has none"),
    ],
)
def test_what_cannot_be_split_is_said_and_nothing_is_written(run, folder, arguments, problem):
    (folder / "new.json").write_text("{}")
    (folder / "gaps.csv").write_text("query,docid\na,1\n,2\n")
    (folder / "lost.csv").write_text("query,rating\na,1\n,2\n")
    (folder / "bare.csv").write_text("query,docid\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert problem in run("split", *arguments.split(), code=1).stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_model_knows_which_queries_it_held_out(run, folder):
    found = json.loads(run("learn", "day.txt", "--hold-out", "0.3", "--save", "new.json", "--json").stdout)
    chosen = held_out(STREAM, 0.3)
    learner = pr.ListwisePerceptron()
    stream = pr.read_letor("day.txt")
    learner.learn(stream[~chosen])
    assert pr.load("new.json").weights.tolist() == learner.weights.tolist()
    assert found["queries"] + found["held_out"]["queries"] == 100
    assert found["held_out"]["ndcg@10"] == pr.evaluate(learner, stream[chosen], ["ndcg@10"]).mean("ndcg@10")
    pr.write_letor(stream[chosen], "apart.txt")
    assert f"new.json on {chosen.sum()} held-out queries" in run("evaluate", "new.json", "apart.txt").stdout
    assert f"new.json on {chosen.sum()} held-out queries" in run("evaluate", "new.json", "day.txt", "--held-out").stdout
    assert "new.json on 100 judged queries" in run("evaluate", "new.json", "day.txt").stdout
    # A model that went on learning, here from all of them, does not know it any more.
    run("learn", "day.txt", "--from", "new.json", "--save", "newer.json")
    assert "judged queries" in run("evaluate", "newer.json", "apart.txt").stdout
    both = " ".join(run("evaluate", "newer.json", "new.json", "apart.txt", code=4).stdout.split())
    assert "held out by new.json; it is not checked whether newer.json has learned from them" in both
    assert "newer.json did not hold out" in run("evaluate", "newer.json", "day.txt", "--held-out", code=1).stderr


def test_a_run_with_a_hold_out_is_resumed_with_the_same(run, folder):
    run("learn", "day.txt", "--hold-out", "0.3", "--save", "whole.json")
    some = pr.read_letor("day.txt")
    pr.write_letor(some[:40], "begun.txt")
    run("learn", "begun.txt", "--hold-out", "0.3", "--save", "new.json", "--checkpoint", "10")
    message = run("learn", "day.txt", "--save", "new.json", "--resume", code=1).stderr
    assert message == "error: new.json was learned with --hold-out 0.3: resume with the same\n"
    run("learn", "day.txt", "--hold-out", "0.3", "--save", "new.json", "--resume", "--checkpoint", "10")
    assert (folder / "new.json").read_bytes() == (folder / "whole.json").read_bytes()


def test_a_hold_out_keeps_texts_together():
    log = impressions(20)
    apart = held_out(log, 0.4)
    texts = np.array(group_names(log))
    assert 0 < apart.sum() < 100
    assert set(texts[apart]).isdisjoint(texts[~apart])
