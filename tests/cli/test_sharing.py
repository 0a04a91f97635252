"""`learn --dask`, `learn --spark` and `compare --dask`: the options, and runs on processes of this machine."""

import contextlib
import json
import os
import shutil

import pytest

import perceptrank as pr
from perceptrank.learners.registry import unregister


@pytest.fixture
def files(tmp_path):
    stream = pr.separable(60, n_features=4, seed=0).stream
    paths = [tmp_path / f"{n}.txt" for n in range(3)]
    for n, path in enumerate(paths):
        pr.write_letor(stream[n::3], path)
    return paths


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epochs", "2"], "--epochs can only be given with --dask, --spark or --scheduler"),
        (["--scheduler", "tcp://127.0.0.1:1", "--workers", "2"], "--workers applies to processes of this machine"),
        (["--dask", "--spark"], "two engines"),
        (["--dask", "--algorithm", "ridge"], "ridge cannot be mixed: the mean of its"),
        (["--dask", "--save", "m.json", "--resume"], "--keep-epochs"),
        (["--dask", "-"], "standard input cannot be one"),
    ],
)
def test_what_is_refused(run, files, options, message):
    result = run("learn", *files, *options, code=1)
    assert message in " ".join(result.output.split())


@pytest.mark.engine
@pytest.mark.filterwarnings("default")
def test_files_are_learned_on_local_processes(run, files, tmp_path):
    pytest.importorskip("distributed")
    model, trace, folder = tmp_path / "model.json", tmp_path / "trace.npz", tmp_path / "epochs"
    options = ["--workers", 1, "--epochs", 2, "--shards", 5, "--save", model, "--trace", trace, "--keep-epochs", folder]
    result = run("learn", *files, "--dask", *options, "--record", "ap", "--json")
    expected, _ = pr.distributed.learn(pr.ListwisePerceptron(), files, epochs=2, measures="ap", shards=5)
    assert pr.load(model).as_document() == expected.as_document()
    assert pr.load(folder / "model.json").as_document() == expected.as_document()
    assert len(pr.Trace.load(trace)) == 120
    rows = json.loads(result.stdout)["rows"]
    assert [(row["epoch"], row["shards"], row["queries"]) for row in rows] == [(1, 5, 60), (2, 5, 60)]
    assert "dashboard of the cluster: http" in result.stderr


@pytest.mark.engine
@pytest.mark.filterwarnings("default")
def test_files_are_learned_by_spark(run, files, tmp_path):
    pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    model, folder = tmp_path / "model.json", tmp_path / "epochs"
    options = ["--workers", 2, "--epochs", 2, "--shards", 5, "--save", model, "--keep-epochs", folder]
    result = run("learn", *files, "--spark", *options, "--record", "ap", "--json")
    expected, _ = pr.distributed.learn(pr.ListwisePerceptron(), files, epochs=2, measures="ap", shards=5)
    assert pr.load(model).as_document() == expected.as_document()
    assert pr.load(folder / "model.json").as_document() == expected.as_document()
    rows = json.loads(result.stdout)["rows"]
    assert [(row["epoch"], row["shards"], row["queries"]) for row in rows] == [(1, 5, 60), (2, 5, 60)]
    output = run("learn", *files, "--spark", "--scheduler", "nonsense://127.0.0.1:1", code=1).output
    assert "there is no Spark at nonsense://127.0.0.1:1" in " ".join(output.split())


@pytest.mark.engine
@pytest.mark.filterwarnings("default")
def test_shards_learn_with_trees(run, files, tmp_path):
    pytest.importorskip("distributed")
    pytest.importorskip("lightgbm")
    options = ["--algorithm", "trees", "--set", "first_fit=20", "--set", "n_trees=3", "--epochs", 2]
    result = run("learn", *files, "--dask", "--workers", 1, *options, "--save", tmp_path / "m.json", "--json")
    expected, _ = pr.distributed.learn(pr.WithTrees(n_trees=3, first_fit=20), files, epochs=2)
    assert pr.load(tmp_path / "m.json").as_document() == expected.as_document()
    assert [row["queries"] for row in json.loads(result.stdout)["rows"]] == [42, 42]
    said = " ".join(result.stderr.split())
    assert "all files are read once for a sample of queries that trees are fitted to" in said
    assert "trees were fitted to 18 queries, which the epochs left out" in said


PLUGIN = """
import perceptrank as pr

class Means(pr.NumpyLearner):
    algorithm = "means"
    def update(self, scores, X, relevance):
        return relevance / max(relevance.sum(), 1) - 1 / len(relevance)
"""


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "means.py"
    path.write_text(PLUGIN)
    yield path
    with contextlib.suppress(ValueError):
        unregister("means")


@pytest.mark.engine
@pytest.mark.filterwarnings("default")
def test_learners_are_compared_on_local_processes(run, files, plugin):
    """Also those of plugins, whose content workers are given: they have not loaded the file."""
    pytest.importorskip("distributed")
    options = ["--algorithm", "slam", "--algorithm", "means", "--learning-rate", "0.1,1", "--record", "ap", "--json"]
    here = json.loads(run("--plugin", plugin, "compare", *files, *options).stdout)
    there = json.loads(run("--plugin", plugin, "compare", *files, *options, "--dask", "--workers", 1).stdout)
    assert there["rows"] == here["rows"]
    assert {row["name"] for row in there["rows"]} == {"slam 0.1", "slam 1", "means 0.1", "means 1"}


@pytest.mark.filterwarnings("default")
def test_an_address_without_a_scheduler(run, files, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("perceptrank.cli.options.cluster.CONNECTS", 1)
    output = run("learn", *files, "--scheduler", "tcp://127.0.0.1:1", code=1).output
    assert "there is no Dask scheduler at tcp://127.0.0.1:1" in " ".join(output.split())
    output = run("compare", *files, "--scheduler", "nonsense://127.0.0.1:1", code=1).output
    assert "there is no Dask scheduler at nonsense://127.0.0.1:1" in " ".join(output.split())


def test_what_compare_refuses(run, files):
    assert "--workers can only be given with --dask" in run("compare", *files, "--workers", 2, code=1).output
    assert "standard input cannot be one" in run("compare", "-", "--dask", code=1).output
