"""The exported functions, run by Python and by Node, and what both exports say of their limits."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import perceptrank as pr

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no program node")
ENGINES = ["python", pytest.param("javascript", marks=needs_node)]


@pytest.fixture(scope="module")
def sparse():
    rng = np.random.default_rng(1)
    X = np.where(rng.random((60, 40)) < 0.1, rng.normal(size=(60, 40)), 0.0)
    X[:, 30:] = 0.0
    stream = pr.QueryStream.from_arrays(X, rng.integers(0, 3, 60), group=[6] * 10).to_sparse()
    model = pr.ListwisePerceptron()
    model.learn(stream)
    return model, stream


def run_node(folder, text, expression):
    (folder / "model.mjs").write_text(text, encoding="utf-8")
    (folder / "run.mjs").write_text(f'import {{ score, rank }} from "./model.mjs";\nconsole.log({expression});')
    return subprocess.run(["node", "run.mjs"], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("target", ENGINES)
@pytest.mark.parametrize("transforms", [None, "running", "running-spread", ["running", "running"]], ids=str)
def test_functions_score_as_the_model_does(learned, stream, target, transforms):
    found = pr.deploy.parity(learned(transforms), stream, target)
    assert found.agrees
    assert (found.same, found.queries, found.documents) == (40, 40, stream.n_documents)
    assert found.difference <= 1e-12
    assert found.first is None


@pytest.mark.parametrize("target", ENGINES)
def test_sparse_models_have_their_non_zero_weights_only(sparse, target):
    model, stream = sparse
    exported = pr.deploy.export(model, target)
    n = int((model.coef_ != 0).sum())
    assert 0 < n < 40
    assert len(re.findall(r"[\[(]['\"]f\d+['\"], ", exported.text)) == n
    assert f"{40 - n} of 40 features have no weight and are left out" in exported.notes
    assert pr.deploy.parity(model, stream, target).agrees


def test_the_python_function_needs_nothing_but_python(learned, stream, tmp_path):
    model = learned()
    pr.deploy.export(model, "python").save(tmp_path / "scoring.py")
    documents = [dict(zip(stream.feature_names, row, strict=True)) for row in stream.X[:9].tolist()]
    code = f"import scoring; print(scoring.rank({documents!r}))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, '.'); {code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == model.rank(stream.X[:9]).tolist()


def test_the_python_function_refuses_what_it_cannot_score(learned, sparse):
    made = {}
    exec(pr.deploy.export(learned(), "python").text, made)
    with pytest.raises(KeyError, match="title bm25"):
        made["score"]({})
    names = [name for name, *_ in made["TERMS"]]
    assert "constant" not in names
    with pytest.raises(ValueError, match="must be finite numbers"):
        made["score"](dict.fromkeys(names, float("nan")))
    exec(pr.deploy.export(sparse[0], "python").text, made)
    assert made["score"]({}) == sparse[0].predict(np.zeros((1, 40)))[0] == 0.0


@needs_node
def test_the_javascript_function_ranks_and_refuses(learned, sparse, stream, tmp_path):
    model = learned()
    text = pr.deploy.export(model, "javascript").text
    rows = [dict(zip(stream.feature_names, row, strict=True)) for row in stream.X[:9].tolist()]
    expression = f"JSON.stringify(rank(JSON.parse({json.dumps(json.dumps(rows))})))"
    assert json.loads(run_node(tmp_path, text, expression).stdout) == model.rank(stream.X[:9]).tolist()
    assert "feature title bm25 must be a finite number, got undefined" in run_node(tmp_path, text, "score({})").stderr
    sparse_text = pr.deploy.export(sparse[0], "javascript").text
    assert float(run_node(tmp_path, sparse_text, "score({})").stdout) == 0.0


def test_unknown_targets_and_options_are_refused(learned):
    model = learned()
    with pytest.raises(ValueError, match=r"target must be one of 'python', 'javascript'.*got 'pythn'"):
        pr.deploy.export(model, "pythn")
    with pytest.raises(ValueError, match="the target python has no options, got 'table'"):
        pr.deploy.export(model, "python", table="documents")


def test_a_missing_program_is_named(learned, stream, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="run by the program node, which is not on the PATH"):
        pr.deploy.parity(learned(), stream, "javascript")
