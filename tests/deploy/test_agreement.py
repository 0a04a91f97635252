"""Comparing two rankings, and the commands."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.deploy import agreement
from perceptrank.deploy.agreement import is_reversed
from perceptrank.deploy.engines import python as python_function

SCORES = st.integers(1, 7).flatmap(
    lambda m: st.tuples(*[st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0, 3.0]), min_size=m, max_size=m)] * 2)
)


@given(SCORES, st.sampled_from([0.0, 0.5, 1.0]))
def test_reversed_pairs_are_found(pair, tolerance):
    scores, others = map(np.array, pair)
    found = any(
        scores[i] - scores[j] > tolerance and others[i] < others[j]
        for i, j in itertools.permutations(range(len(scores)), 2)
    )
    assert is_reversed(scores, others, tolerance) == found
    found = any(
        scores[i] - scores[j] > tolerance and others[i] <= others[j]
        for i, j in itertools.permutations(range(len(scores)), 2)
    )
    assert is_reversed(scores, others, tolerance, ties=True) == found


@pytest.fixture
def wrong(monkeypatch):
    """The exported Python function, with a wrong digit in it."""
    original = python_function.PythonFunction.run

    def run(self, folded, text, columns):
        scores = original(self, folded, text, columns)
        scores[7] += self.__class__.error * np.abs(scores[2:20]).max()
        return scores

    monkeypatch.setattr(python_function.PythonFunction, "run", run)
    monkeypatch.setattr(python_function.PythonFunction, "error", 0.0, raising=False)
    return lambda error: monkeypatch.setattr(python_function.PythonFunction, "error", error)


def test_differences_are_found_and_the_first_query_named(learned, stream, wrong):
    model = learned()
    named = pr.QueryStream.from_arrays(
        stream.X,
        stream.relevance,
        qid=np.repeat([f"q{q}" for q in range(40)], np.diff(stream.offsets)),
        feature_names=stream.feature_names,
    )
    assert pr.deploy.parity(model, named, "python").agrees
    wrong(1e-9)
    found = pr.deploy.parity(model, named, "python")
    assert (found.agrees, found.same, found.reversed, found.first) == (False, 40, 0, "q2")
    assert found.difference > 1e-12
    wrong(-100.0)
    found = pr.deploy.parity(model, named, "python")
    assert (found.agrees, found.same, found.reversed, found.first) == (False, 39, 1, "q2")


@pytest.fixture
def files(learned, stream, tmp_path):
    plain = pr.QueryStream.from_arrays(stream.X, stream.relevance, group=np.diff(stream.offsets))
    pr.write_letor(plain, tmp_path / "test.txt")
    for name, transforms in (("model", "running"), ("auto", "auto")):
        ranker = pr.ListwisePerceptron(transforms=transforms)
        ranker.learn(plain)
        ranker.save(tmp_path / f"{name}.json")
    return tmp_path


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command_export(files):
    done = invoke("export", files / "model.json", "--to", "python", "--out", files / "scoring.py")
    assert done.exit_code == 0
    assert "note: the features have no names: they are f1 to f6" in done.stderr
    expected = pr.deploy.export(pr.load(files / "model.json"), "python").text
    assert (files / "scoring.py").read_text() == expected
    assert invoke("export", files / "model.json", "--to", "python").stdout == expected


def test_bad_input_writes_nothing(files):
    out = files / "out.py"
    for words, said in [
        (["auto.json", "--to", "python"], "depends on the other documents of the query"),
        (["model.json", "--to", "nothing"], "target must be one of"),
        (["model.json", "--to", "python", "--set", "a=1"], "has no options"),
        (["test.txt", "--to", "python"], "model"),
        (["missing.json", "--to", "python"], "there is no file"),
        (["model.json", "--to", "solr", "--set", "shift=of"], "'auto', a file or a stream: there is no file of"),
    ]:
        done = invoke("export", files / words[0], *words[1:], "--out", out)
        assert done.exit_code == 1
        assert said in done.stderr
        assert not out.exists()
    done = invoke("export", files / "model.json", "--to", "python", "--out", files / "model.json")
    assert done.exit_code == 1
    assert "would replace" in done.stderr


def test_all_targets_are_in_the_help():
    shown = " ".join(
        invoke(
            "export",
            "--help",
        ).stdout.split()
    )
    for target in pr.deploy.targets():
        assert target in shown


def test_the_command_parity(files, wrong):
    done = invoke("parity", files / "model.json", files / "test.txt", "--to", "python", "--float64")
    assert done.exit_code == 0, done.stderr
    assert "they rank alike" in done.stdout
    assert "same order: 40 queries" in done.stdout
    wrong(-100.0)
    done = invoke("parity", files / "model.json", files / "test.txt", "--to", "python", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert (found["agrees"], found["reversed"], found["queries"]) == (False, 1, 40)
    assert found["engine"].startswith("CPython")


def test_features_are_found_by_name(stream, learned_floats):
    """Columns in another order, or more of them, are no difference, neither in parity nor for a shift."""
    model, floats = learned_floats()
    names = list(floats.feature_names)
    steps = pr.ListwisePerceptron(transforms="bins:kind=one-hot")
    steps.learn(floats)
    for ranker in (model, steps, pr.FixedRanker({"field_7": 2.0, "field_3": -1.0})):
        for chosen in (names[::-1], [*names[5:], *names[:5]]):
            other = floats.select(chosen)
            for target in ("python", "elasticsearch"):
                found = pr.deploy.parity(ranker, other, target)
                assert (found.agrees, found.queries) == (True, 30)
            one, two = (pr.deploy.export(ranker, "solr", shift=given).text for given in (floats, other))
            assert one == two
    wider = pr.QueryStream.from_arrays(
        np.column_stack([floats.relevance, floats.X]), floats.relevance, group=[10] * 30, feature_names=["new", *names]
    )
    assert pr.deploy.parity(model, wider, "python").agrees
    for wrong in (-1.0, float("nan"), float("inf"), "0.1"):
        with pytest.raises(ValueError, match="tolerance must be a number >= 0, got"):
            pr.deploy.parity(model, floats, "python", tolerance=wrong)


def test_sparse_features_are_made_dense_in_parts(stream, monkeypatch):
    sparse = stream.to_sparse()
    model = pr.ListwisePerceptron(transforms="running-spread")
    model.learn(sparse)
    whole = pr.deploy.parity(model, sparse, "python")
    monkeypatch.setattr(agreement, "_DENSE_BYTES", 8 * int(np.count_nonzero(model.coef_)) * 30)
    sizes, run = [], python_function.PythonFunction.run

    def measured(self, folded, text, columns):
        sizes.append(len(columns))
        return run(self, folded, text, columns)

    monkeypatch.setattr(python_function.PythonFunction, "run", measured)
    assert pr.deploy.parity(model, sparse, "python") == whole
    assert max(sizes) <= 30
    assert sum(sizes) == stream.n_documents


def test_scores_that_an_engine_makes_equal_are_no_agreement(learned_floats, monkeypatch):
    """A shift so large that float32 keeps nothing of the scores beside it, and an engine that knows one score only."""
    model, floats = learned_floats()
    steps = pr.ListwisePerceptron(transforms="bins:kind=one-hot")
    steps.learn(floats)
    for target in ("elasticsearch", "solr"):
        for ranker in (model, steps):
            assert pr.deploy.parity(ranker, floats, target, shift=floats).agrees
            found = pr.deploy.parity(ranker, floats, target, shift=1e30)
            assert (found.agrees, found.same, found.reversed, found.first) == (False, 0, 30, 0)
            assert found.difference <= found.tolerance
            assert "to which 1e+30 is added: take a smaller shift" in found.reason
    monkeypatch.setattr(
        python_function.PythonFunction, "run", lambda self, folded, text, columns: np.ones(len(columns))
    )
    found = pr.deploy.parity(model, floats, "python")
    assert (found.agrees, found.same, found.reversed) == (False, 0, 30)
