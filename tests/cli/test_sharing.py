"""`learn --dask`: the options, and a run on processes of this machine."""

import json

import pytest

import perceptrank as pr
from perceptrank.cli.sharing import with_address


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a.txt", "--dask"], ["a.txt", "--dask", "local"]),
        (["--dask", "a.txt"], ["--dask", "local", "a.txt"]),
        (["--dask", "--workers", "2"], ["--dask", "local", "--workers", "2"]),
        (["--dask", "tcp://host:8786", "a.txt"], ["--dask", "tcp://host:8786", "a.txt"]),
        (["--dask", "host:8786", "a.txt"], ["--dask", "host:8786", "a.txt"]),
        (["a.txt"], ["a.txt"]),
    ],
)
def test_the_address_may_be_left_out(given, expected):
    assert with_address(given) == expected


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
        (["--epochs", "2"], "--epochs can only be given with --dask"),
        (["--dask", "tcp://127.0.0.1:1", "--workers", "2"], "--workers is about a local cluster"),
        (["--dask", "--algorithm", "ridge"], "ridge cannot be mixed: beside weights its state has"),
        (["--dask", "--save", "m.json", "--resume"], "--keep-epochs"),
        (["--dask", "-"], "standard input cannot be one"),
    ],
)
def test_what_is_refused(run, files, options, message):
    result = run("learn", *files, *options, code=1)
    assert message in " ".join(result.output.split())


@pytest.mark.filterwarnings("default")
def test_files_are_learned_on_local_processes(run, files, tmp_path):
    pytest.importorskip("distributed")
    model, trace, folder = tmp_path / "model.json", tmp_path / "trace.npz", tmp_path / "epochs"
    options = ["--workers", 1, "--epochs", 2, "--save", model, "--trace", trace, "--keep-epochs", folder]
    result = run("learn", *files, "--dask", *options, "--record", "ap", "--json")
    expected, _ = pr.distributed.learn(pr.ListwisePerceptron(), files, epochs=2, measures="ap")
    assert pr.load(model).as_document() == expected.as_document()
    assert pr.load(folder / "model.json").as_document() == expected.as_document()
    assert len(pr.Trace.load(trace)) == 120
    rows = json.loads(result.stdout)["rows"]
    assert [(row["epoch"], row["shards"], row["queries"]) for row in rows] == [(1, 3, 60), (2, 3, 60)]
    assert "dashboard of the cluster: http" in result.stderr
