"""Files that earlier versions wrote are read, and learning goes on from them."""

import json
from pathlib import Path

import numpy as np
import pytest
from upgrade.write import stream

import perceptrank as pr

FOLDERS = sorted(path for path in Path(__file__).parent.iterdir() if (path / "expected.json").is_file())
MODELS = [path for folder in FOLDERS for path in sorted(folder.glob("*.json")) if path.name != "expected.json"]


def expected(folder):
    return json.loads((folder / "expected.json").read_text())


def test_there_are_files_of_earlier_versions():
    assert FOLDERS
    for folder in FOLDERS:
        assert {path.stem for path in MODELS if path.parent == folder} == set(expected(folder)) - {"trace"}


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_models(path):
    whole, numbers = stream(), expected(path.parent)[path.stem]
    model = pr.load(path)
    np.testing.assert_allclose(model.predict(whole.X[:8]), numbers["scores"], rtol=1e-9, atol=1e-12)
    model.learn(whole[10:])
    np.testing.assert_allclose(model.predict(whole.X[:8]), numbers["scores after all"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_stores_and_traces(folder, tmp_path):
    whole = stream()
    store = pr.open_store(folder / "dense.store")
    store.verify()
    assert np.array_equal(store.X, whole.X)
    assert np.array_equal(store.relevance, whole.relevance)
    assert store.qids.tolist() == whole.qids.tolist()
    trace = pr.Trace.load(folder / "trace.npz")
    assert trace.values("ndcg@10").tolist() == expected(folder)["trace"]
