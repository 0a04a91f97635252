import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app


@pytest.fixture
def run():
    runner = CliRunner()

    def call(*arguments):
        return runner.invoke(app, list(arguments), catch_exceptions=False)

    return call


def test_help_has_an_example_and_wrong_input_an_error(run):
    assert "Example: perceptrank simulate" in run("simulate", "--help").output
    assert run("simulate", "made.txt", "--queries", "0").exit_code == 2


STREAM = pr.separable(30, n_features=4, seed=1).stream


@pytest.fixture
def letor(tmp_path):
    pr.write_letor(STREAM, tmp_path / "a.txt.gz")
    return str(tmp_path / "a.txt.gz")


def test_convert_there_and_back(run, letor, tmp_path):
    names = ["b.store", "c.parquet", "d.txt.xz", "e", "f.letor"]
    for source, target in pairwise([letor, *(str(tmp_path / name) for name in names)]):
        result = run("convert", source, target, *(["--float64"] if ".txt" in source else []))
        assert result.exit_code == 0, result.output
        assert "30 queries, 600 documents, 4 features" in result.output
    back = pr.read_letor(tmp_path / "f.letor", dtype=np.float64)
    assert np.array_equal(back.X, STREAM.X)
    assert np.array_equal(back.relevance, STREAM.relevance)
    assert pr.open_store(tmp_path / "b.store").qids.tolist() == STREAM.qids.tolist()


def test_convert_appends_and_overwrites(run, letor, tmp_path):
    store = str(tmp_path / "s")
    assert run("convert", letor, store).exit_code == 0
    result = run("convert", letor, store)
    assert result.exit_code == 1
    assert "error: there is a store" in result.stderr
    assert "Traceback" not in result.stderr
    assert run("convert", letor, store, "--append").exit_code == 0
    assert len(pr.open_store(store)) == 60
    assert run("convert", letor, store, "--overwrite").exit_code == 0
    assert len(pr.open_store(store)) == 30
    assert run("convert", letor, letor).exit_code == 1
    assert run("convert", letor, str(tmp_path / "x.parquet"), "--append").exit_code == 1


def test_convert_as_json_and_with_options(run, tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("1 0:1 2:-3 # q\n0 0:2 # r\n1 nonsense # r\n0 0:0 # q\n")
    arguments = ["--zero-based", "--n-features", "5", "--qid", "comment", "--skip-errors", "--group", "--clip", "2"]
    result = run("convert", str(path), str(tmp_path / "s"), *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert "skipped 1 invalid lines" in result.stderr
    report = json.loads(result.stdout)
    assert (report["queries"], report["documents"], report["features"], report["format"]) == (2, 3, 5, "store")
    assert pr.open_store(tmp_path / "s").X.tolist() == [[1, 0, -2, 0, 0], [0, 0, 0, 0, 0], [2, 0, 0, 0, 0]]
    result = run("convert", str(path), str(tmp_path / "u"))
    assert result.exit_code == 1
    assert f"error: {path}:1:3: feature ids count from 1" in result.stderr


def test_convert_through_pipes(tmp_path):
    command = [sys.executable, "-m", "perceptrank", "convert"]
    text = b"1 qid:1 1:0.5\n0 qid:1 1:2\n"
    result = subprocess.run([*command, "-", "-"], input=text, capture_output=True, check=True)
    assert result.stdout == text
    assert result.stderr == b""


def test_convert_wrong_use(run, letor, tmp_path):
    assert run("convert", letor).exit_code == 2
    assert "there is no file" in run("convert", str(tmp_path / "nothing"), str(tmp_path / "s")).stderr
    assert "one format" in run("convert", letor, str(make_store(tmp_path)), str(tmp_path / "s")).stderr
    assert "LETOR text only" in run("convert", str(make_store(tmp_path)), str(tmp_path / "s"), "--zero-based").stderr


def make_store(folder):
    if not (folder / "made").exists():
        pr.write_store(STREAM, folder / "made")
    return folder / "made"


def test_datasets(run, tmp_path):
    (tmp_path / "MQ2008" / "Fold1").mkdir(parents=True)
    (tmp_path / "MQ2008" / "Fold1" / "test.txt").write_text("1 qid:1 1:1\n")
    output = run("datasets", "--data", str(tmp_path)).output
    assert "mslr-web10k" in output
    assert "test of" in output
    assert "https://www.microsoft.com/en-us/research/project/mslr/" in output
    listed = json.loads(run("datasets", "--data", str(tmp_path), "--json").output)
    assert {one["name"]: one["here"] for one in listed}["mq2008"] == {"test": [1]}
    assert len(listed) == 10


def test_sparse_features_stay_sparse_from_format_to_format(run, tmp_path):
    text = "1 qid:1 1:1 90000:0.25\n0 qid:1 7:3\n2 qid:2 90000:-1\n"
    (tmp_path / "a.txt").write_text(text)
    for source, destination in [("a.txt", "b.store"), ("b.store", "c.parquet"), ("c.parquet", "d.txt")]:
        assert run("convert", str(tmp_path / source), str(tmp_path / destination)).exit_code == 0
    assert (tmp_path / "d.txt").read_text() == text
    assert pr.open_store(tmp_path / "b.store").is_sparse
    assert pr.read_parquet(tmp_path / "c.parquet").is_sparse
    run("convert", str(tmp_path / "b.store"), str(tmp_path / "e.store"), "--dense")
    dense = pr.open_store(tmp_path / "e.store")
    assert not dense.is_sparse
    assert dense.X[0, [0, 1, 89_999]].tolist() == [1, 0, 0.25]
    problem = "the store has dense features and cannot take sparse ones; --dense reads dense features"
    assert problem in run("convert", str(tmp_path / "a.txt"), str(tmp_path / "e.store"), "--append").stderr
    run("convert", str(tmp_path / "a.txt"), str(tmp_path / "e.store"), "--append", "--dense")
    assert pr.open_store(tmp_path / "e.store").n_documents == 6
    run("convert", str(tmp_path / "e.store"), str(tmp_path / "f.store"), "--sparse")
    assert pr.open_store(tmp_path / "f.store").X.n_nonzeros == 8
    problem = "sparse features have no layout 'list'"
    assert problem in run("convert", str(tmp_path / "a.txt"), str(tmp_path / "g.parquet"), "--layout", "list").stderr


def test_convert_flags_have_an_effect(run, tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("1 qid:1 1:1 2:0 # note\n0 qid:1 1:0 2:3 # other\n")
    out = tmp_path / "b.txt"
    run("convert", str(source), str(out), "--comments", "--sparse", "--write-zero-based", "--threads", "2")
    assert out.read_text() == "1 qid:1 0:1 # note\n0 qid:1 1:3 # other\n"
    run("convert", str(out), str(tmp_path / "c.txt"), "--zero-based")
    assert (tmp_path / "c.txt").read_text() == "1 qid:1 1:1 2:0\n0 qid:1 1:0 2:3\n"
    assert "--clip must be" in run("convert", str(source), str(tmp_path / "d.txt"), "--clip", "0").stderr


def test_convert_messages_speak_of_flags(run, tmp_path):
    wrong = tmp_path / "a.txt"
    wrong.write_text("1 qid:1 0:1\n")
    assert "--zero-based" in run("convert", str(wrong), str(tmp_path / "s")).stderr
    wrong.write_text("1 qid:1 1:1\n1 qid:2 1:1\n1 qid:1 1:1\n")
    assert "--group" in run("convert", str(wrong), str(tmp_path / "s")).stderr
    assert "use --to" in run("convert", str(wrong), str(tmp_path / "s.tsv")).stderr
    assert not (tmp_path / "s.tsv").exists()
    both = run("convert", str(wrong), str(make_store(tmp_path)), "--append", "--overwrite")
    assert "not both" in both.stderr


def test_datasets_in_odd_places(run, tmp_path):
    odd = tmp_path / "a[bold]b[" / "c]"
    odd.mkdir(parents=True)
    assert "a[bold]b[/c]" in run("datasets", "--data", str(odd)).output.replace("\n", "")
    assert "there is no folder" in run("datasets", "--data", str(tmp_path / "nothing")).stderr


def test_version(run):
    assert run("--version").output.strip() == f"perceptrank {pr.__version__}"


def test_output_that_no_one_reads_is_no_error(tmp_path):
    pr.write_letor(pr.separable(2000).stream, tmp_path / "a.txt")
    command = f"{sys.executable} -m perceptrank convert {tmp_path}/a.txt - | head -c 10"
    result = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert len(result.stdout) == 10
    assert b"Error" not in result.stderr


def test_parquet_of_others(run, tmp_path):
    frame = pd.DataFrame({"query": [1, 1], "label": [1, 0], "note": ["x", "y"], "a": [1.5, 2.0], "b": [0.0, 3.0]})
    frame.to_parquet(tmp_path / "a.parquet")
    message = run("convert", str(tmp_path / "a.parquet"), "-").stderr
    assert "--column qid=…, --column relevance=… and --column feature=… name the columns" in message
    named = ["--column=qid=query", "--column=relevance=label"]
    left_out = run("convert", str(tmp_path / "a.parquet"), "-", *named)
    assert "a.parquet: columns of text are no features: note" in left_out.stderr
    assert left_out.stdout == "#1:a\n#2:b\n1 qid:1 1:1.5 2:0\n0 qid:1 1:2 2:3\n"
    message = run("convert", str(tmp_path / "a.parquet"), "-", *named, "--column=feature=note").stderr
    assert "feature column 'note' must hold numbers, got " in message
    assert "; choose columns with --column feature=…" in message
    names = [f"--column={one}" for one in ("qid=query", "relevance=label", "feature=a", "feature=b")]
    run("convert", str(tmp_path / "a.parquet"), str(tmp_path / "b.txt"), *names)
    assert (tmp_path / "b.txt").read_text() == "#1:a\n#2:b\n1 qid:1 1:1.5 2:0\n0 qid:1 1:2 2:3\n"
    run("convert", str(tmp_path / "b.txt"), str(tmp_path / "c.parquet"), "--layout", "list")
    assert list(pd.read_parquet(tmp_path / "c.parquet").columns) == ["qid", "relevance", "features"]
    assert pr.read_parquet(tmp_path / "c.parquet").feature_names == ("a", "b")
    assert "qid=NAME" in run("convert", str(tmp_path / "a.parquet"), "-", "--column", "x=y").stderr
    assert "Parquet files only" in run("convert", str(tmp_path / "b.txt"), "-", "--column", "qid=q").stderr
