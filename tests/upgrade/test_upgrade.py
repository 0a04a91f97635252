"""Files that this version and earlier releases wrote are read, and learning continues from them."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from upgrade.write import answer, click, click_models, first_model, policy_of, sparse, stream, write, write_service

import perceptrank as pr
from perceptrank.serve import ServedRanker, verify
from perceptrank.serve.errors import DamagedLogError
from perceptrank.serve.log.log import Addition
from perceptrank.serve.log.records import ModelEntry, encode
from perceptrank.serve.log.sqlite import SqliteLog

KEPT = sorted(path for path in Path(__file__).parent.iterdir() if (path / "expected.json").is_file())


@pytest.fixture(scope="module", params=[None, *KEPT], ids=lambda kept: "this version" if kept is None else kept.name)
def folder(request, tmp_path_factory):
    """A folder of files that this version writes now, or that an earlier version left here when it was released."""
    if request.param is not None:
        return request.param
    fresh = tmp_path_factory.mktemp("upgrade") / pr.__version__
    write(fresh)
    return fresh


def expected(folder):
    return json.loads((folder / "expected.json").read_text())


def test_models(folder):
    whole = stream()
    others = {"trace", "service", "clicks service"}
    kept = {name: numbers for name, numbers in expected(folder).items() if name not in others}
    policies = {name: policy_of(learner) for name, learner in click_models().items()}
    assert {path.stem for path in folder.glob("*.json")} == {*kept, "expected"}
    for name, numbers in kept.items():
        model = pr.load(folder / f"{name}.json")
        np.testing.assert_allclose(model.predict(whole.X[:8]), numbers["scores"], 1e-9, 1e-12, err_msg=name)
        if name in policies:
            model.learn(pr.open_store(folder / f"{policies[name].replace(':', '-')}.store")[20:])
        else:
            model.learn(whole[10:])
        np.testing.assert_allclose(model.predict(whole.X[:8]), numbers["scores after all"], 1e-9, 1e-12, err_msg=name)


def test_stores_and_traces(folder, tmp_path):
    whole = stream()
    shutil.copytree(folder / "dense.store", tmp_path / "s.store")
    store = pr.open_store(tmp_path / "s.store")
    store.verify()
    assert np.array_equal(store.X, whole.X)
    assert np.array_equal(store.relevance, whole.relevance)
    assert store.qids.tolist() == whole.qids.tolist()
    store.append(whole[:2])
    assert (
        json.loads((tmp_path / "s.store" / "manifest.json").read_text())["written_by"]
        == f"perceptrank {pr.__version__}"
    )
    assert pr.open_store(tmp_path / "s.store").n_queries == 18
    trace = pr.Trace.load(folder / "trace.npz")
    assert trace.values("ndcg@10").tolist() == expected(folder)["trace"]


def test_sparse_stores_with_ids_and_weights(folder):
    whole, store = sparse(), pr.open_store(folder / "sparse.store")
    store.verify()
    read = store[:]
    for name in ("values", "indices", "starts"):
        assert np.array_equal(getattr(read.X, name), getattr(whole.X, name))
    assert read.qids.tolist() == whole.qids.tolist()
    assert read.query_weights.tolist() == whole.query_weights.tolist()
    assert [*read.docids] == [*whole.docids]
    assert read.feature_names == whole.feature_names


def test_parquet_files(folder):
    whole, read = sparse(), pr.read_parquet(folder / "sparse.parquet")
    assert np.array_equal(read.X.toarray(), whole.X.toarray())
    assert [*read.docids] == [*whole.docids]
    assert read.query_weights.tolist() == whole.query_weights.tolist()
    log = pr.read_parquet(folder / "clicks.parquet")
    store = pr.open_store(folder / "fair-pairs.store")[:]
    for name in ("place", "clicked", "propensity", "policy"):
        assert np.array_equal(log.columns[name], store.columns[name], equal_nan=name == "propensity")


def test_the_service_learns_on_from_clicks(folder, tmp_path):
    shutil.copytree(folder / "clicks-service", tmp_path / "service")
    (checked,) = verify(tmp_path / "service")
    assert (checked.problems, checked.answers) == ((), 8)
    ranker = ServedRanker(tmp_path / "service" / "default", pr.ClickPerceptron())
    scores = ranker.current.learner.predict(stream().X[:8])
    np.testing.assert_allclose(scores, expected(folder)["clicks service"], rtol=1e-9)
    click(ranker, range(10, 16))
    ranker.close()
    (checked,) = verify(tmp_path / "service")
    assert (checked.problems, checked.answers) == ((), 14)


def test_the_service_goes_on(folder, tmp_path):
    shutil.copytree(folder / "service", tmp_path / "service")
    (checked,) = verify(tmp_path / "service")
    assert checked.problems == ()
    assert checked.answers == 8
    ranker = ServedRanker(
        tmp_path / "service" / "default", first_model()
    )  # as a unit that names its model starts it again
    assert ranker.messages == []
    np.testing.assert_allclose(ranker.current.learner.predict(stream().X[:8]), expected(folder)["service"], rtol=1e-9)
    assert ranker.current.shadow.challengers["new"].learner.n_queries == 8
    answer(ranker, range(10, 16))
    ranker.close()
    (checked,) = verify(tmp_path / "service")
    assert checked.problems == ()
    assert checked.answers == 14


# Files of a version that is yet to come

NEWER = "perceptrank 99.0.0"


def test_newer_models_are_refused(tmp_path):
    pr.ListwisePerceptron().save(tmp_path / "m.json")
    document = json.loads((tmp_path / "m.json").read_text()) | {"written_by": NEWER}

    def problem(**changed):
        (tmp_path / "m.json").write_text(json.dumps(document | changed))
        with pytest.raises(pr.FormatError) as error:
            pr.load(tmp_path / "m.json")
        return error.value.problem

    version = document["version"] + 1
    reads = f"perceptrank {pr.__version__} reads versions up to {version - 1}"
    assert problem(version=version) == f"has version {version}, {reads}: {NEWER} wrote it; upgrade to read it"
    newer = f"; {NEWER} wrote it, which is newer than perceptrank {pr.__version__}: upgrade to read it"
    assert problem(algorithm="novel").endswith(newer)
    assert problem(parameters=document["parameters"] | {"novel": 1}).endswith(newer)
    document["written_by"] = f"perceptrank {pr.__version__}"
    assert "upgrade" not in problem(algorithm="novel")


def test_newer_stores_are_refused(tmp_path):
    pr.write_store(stream(), tmp_path / "s.store")
    path = tmp_path / "s.store" / "manifest.json"
    manifest = json.loads(path.read_text()) | {"written_by": NEWER}
    path.write_text(json.dumps(manifest | {"version": 4}))
    with pytest.raises(pr.FormatError, match=rf"manifest.json has version 4, .* {NEWER} wrote it; upgrade to read it$"):
        pr.open_store(tmp_path / "s.store")
    path.write_text(json.dumps(manifest | {"dtype": "float16"}))
    with pytest.raises(
        pr.FormatError, match=rf"'float16'; {NEWER} wrote it, which is newer than .*: upgrade to read it$"
    ):
        pr.open_store(tmp_path / "s.store")


def test_newer_traces_are_refused(tmp_path):
    pr.Perceptron().learn(stream()).save(tmp_path / "t.npz")
    with zipfile.ZipFile(tmp_path / "t.npz", "a") as archive:
        assert archive.comment == f"perceptrank trace, version 1, written by perceptrank {pr.__version__}".encode()
        archive.comment = f"perceptrank trace, version 2, written by {NEWER}".encode()
    with pytest.raises(pr.FormatError, match=rf"has version 2, .* reads versions up to 1: {NEWER} wrote it; upgrade"):
        pr.Trace.load(tmp_path / "t.npz")
    with np.load(tmp_path / "t.npz") as arrays:  # others go on reading them
        assert len(arrays["masses"]) == 16


@pytest.mark.parametrize("what", ["the log", "an entry", "a model in it"])
def test_newer_logs_are_refused_and_stay_as_they_are(what, tmp_path):
    folder = tmp_path / "service" / "default"
    write_service(tmp_path / "service")
    log = SqliteLog(folder / "log.sqlite")
    if what == "the log":
        log._connection.execute("PRAGMA user_version=2")
    elif what == "an entry":
        log.append([Addition(b"\x03" + encode(ModelEntry(0, "", b""))[1:])])
    else:
        first_model().save(tmp_path / "slam.json")
        document = json.loads((tmp_path / "slam.json").read_text()) | {"version": 99, "written_by": NEWER}
        log.append([Addition(encode(ModelEntry(0, "promoted", json.dumps(document).encode())))])
    log.close()
    (checked,) = verify(tmp_path / "service")
    assert "version" in checked.problems[0]
    before = (folder / "log.sqlite").read_bytes()
    with pytest.raises(DamagedLogError, match=r"version (2|3|99)[^:]* reads"):
        ServedRanker(folder)
    assert (folder / "log.sqlite").read_bytes() == before
