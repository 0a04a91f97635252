import contextlib
import json
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.learners import at_weights

import perceptrank as pr
from perceptrank.io import atomic


@pytest.fixture
def model(tmp_path):
    ranker = pr.ListwisePerceptron(transforms="running")
    ranker.learn(pr.separable(20, seed=1).stream)
    path = tmp_path / "model.json"
    ranker.save(path)
    return path


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_every_float_comes_back_exactly(values, tmp_path):
    ranker = pr.MinimaxPerceptron()
    ranker.learn_one(np.zeros((1, len(values))), [0])
    at_weights(ranker, values).save(tmp_path / "m.json")
    found = pr.load(tmp_path / "m.json").weights
    assert np.array_equal(found, values)
    assert np.array_equal(np.signbit(found), np.signbit(values))


def test_a_person_can_read_it(model):
    document = json.loads(model.read_text())
    assert list(document)[:4] == ["format", "version", "written_by", "algorithm"]
    assert document["format"] == "perceptrank model"
    assert document["parameters"]["measure"] == "ndcg"
    assert len(document["state"]["weights"]) == 20
    assert document["transforms"][0]["name"] == "running"


def test_an_untrained_model_and_a_measure_object_come_back(tmp_path):
    ranker = pr.SlamPerceptron(pr.NDCG(5, gain="linear"), learning_rate=np.float64(0.25))
    ranker.save(tmp_path / "m.json")
    found = pr.load(tmp_path / "m.json")
    assert pr.parse(found.measure) == pr.NDCG(5, gain="linear")
    assert found.learning_rate == 0.25
    assert found.predict(np.eye(2)).tolist() == [0, 0]


def test_a_frozen_scaling_stays_frozen(tmp_path):
    ranker = pr.SlamPerceptron(transforms=["query-minmax", pr.RunningStandardizer()])
    stream = pr.separable(10).stream
    ranker.learn(stream)
    ranker.transforms_[1].freeze()
    ranker.save(tmp_path / "m.json")
    found = pr.load(tmp_path / "m.json")
    assert found.transforms_[1] == ranker.transforms_[1]
    count = found.transforms_[1].count
    found.learn(stream)
    assert found.transforms_[1].count == count
    np.testing.assert_array_equal(found.fit(stream).transforms_[1].count, count)


def test_a_scaling_learned_beforehand_is_used_and_not_changed():
    stream = pr.separable(10).stream
    scaler = pr.RunningStandardizer().learn(stream).freeze()
    before = scaler.state()
    ranker = pr.SlamPerceptron(transforms=scaler)
    ranker.learn(stream)
    assert scaler.state() == before == ranker.transforms_[0].state()


def test_a_scaling_learned_beforehand_survives_in_a_model_that_has_learned_nothing(tmp_path):
    stream = pr.separable(10).stream
    scaler = pr.RunningStandardizer().learn(stream).freeze()
    ranker = pr.SlamPerceptron(transforms=["query-minmax", scaler])
    ranker.save(tmp_path / "m.json")
    found = pr.load(tmp_path / "m.json")
    assert found.transforms_ == ranker.transforms_
    assert found.transforms[1] == scaler
    np.testing.assert_array_equal(found.fit(stream).weights, ranker.fit(stream).weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d.update(version=99),
            "has version 99, perceptrank .* reads versions up to 2: perceptrank .* wrote it",
        ),
        (lambda d: d.update(version="1"), "must have version 2, got"),
        (lambda d: d.update(version=1), "must have version 2, got 1"),
        (lambda d: d.update(format="other"), "is not a perceptrank model"),
        (lambda d: d.update(algorithm="oracle"), "unknown algorithm 'oracle'"),
        (lambda d: d["state"].update(weights=[1.0, 2.0]), "is damaged"),
        (lambda d: d["state"]["weights"].__setitem__(3, float("nan")), "weights must be finite, got nan at 3"),
        (lambda d: d["state"]["total"].__setitem__(0, float("inf")), "total must be finite, got inf at 0"),
        (lambda d: d["state"].update(mass=float("nan")), "mass must be finite"),
        (lambda d: d["state"].pop("total"), "'total' is missing"),
        (lambda d: d.pop("parameters"), "'parameters' is missing"),
        (lambda d: d["parameters"].update(learning_rate=-1), "learning_rate must be a number > 0"),
        (lambda d: d["parameters"].update(colour="red"), "colour"),
        (lambda d: d["transforms"][0]["mean"].pop(), "squares must be 19 numbers"),
        (lambda d: d["transforms"][0].update(count=-1), "must not be negative"),
        (lambda d: d.update(algorithm=[]), r"unknown algorithm \[\]"),
        (lambda d: d.update(version=True), "must have version 2, got"),
        (lambda d: d.update(queries=-5), "queries must be a whole number"),
        (lambda d: d.update(queries=10**30), "queries must be a whole number"),
        (lambda d: d["state"].update(rounds=0.5), "rounds must be a whole number"),
        (lambda d: d["state"].update(updates=-1), "updates must be a whole number"),
        (lambda d: d["state"].update(squared_reach=-1e9), "squared_reach must not be negative"),
        (lambda d: d["state"]["weights"].__setitem__(0, "1"), "weights must be 20 numbers"),
        (lambda d: d["state"]["weights"].__setitem__(0, True), "weights must be 20 numbers"),
        (lambda d: d["state"]["weights"].__setitem__(0, 10**400), "is damaged"),
        (lambda d: d.update(feature_names="abc"), "feature_names must be a list"),
        (lambda d: d["transforms"][0].update(frozen="false"), "frozen must be true or false"),
        (lambda d: d["transforms"][0].update(count=0), "count must be 0 if and only if"),
        (lambda d: d["transforms"][0].update(name="unknown"), "must be a known transform"),
        (lambda d: d.update(feature_names=["a"]), "1 feature names for 20 features"),
        (lambda d: d.update(state=[]), "is damaged"),
        (lambda d: d.update(state=7), "is damaged"),
        (lambda d: d["state"].update(weights=7), "is damaged"),
        (lambda d: d.update(parameters=[]), "is damaged"),
        (lambda d: d.update(parameters=[["measure"]]), "is damaged"),
        (lambda d: d.update(transforms=7), "is damaged"),
        (lambda d: d.update(transforms=[[{}]]), "is damaged"),
        (lambda d: d.update(transforms=json.loads("[" * 900 + "]" * 900)), "is damaged"),
        (lambda d: d["transforms"][0].update(mean=7), "is damaged"),
        (lambda d: d["transforms"][0].update(count=10**400), "is damaged"),
        (lambda d: d["parameters"].update(learning_rate=[]), "is damaged: learning_rate"),
        (lambda d: d["parameters"].update(measure=[]), "is damaged"),
        (lambda d: d["parameters"].update(measure={}), "is damaged"),
        (lambda d: d["parameters"].update(learning_rate=10**400), "is damaged: learning_rate"),
    ],
)
def test_damaged_files(model, change, message):
    document = json.loads(model.read_text())
    change(document)
    model.write_text(json.dumps(document))
    with pytest.raises(pr.FormatError, match=message) as error:
        pr.load(model)
    assert str(error.value).startswith(str(model))
    assert error.value.path == str(model)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
    assert error.value.__context__ is None  # which is sent as well, by those who send errors between processes


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", "3", "not json", '{"format": 1}', "\x00\xff", "[" * 100_000, '{"a":' * 100_000, "9" * 5000],
)
def test_files_that_are_not_models(tmp_path, content):
    path = tmp_path / "m.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(pr.FormatError, match="is not a perceptrank model"):
        pr.load(path)


def test_every_truncation_is_noticed(model):
    whole = model.read_bytes()
    for length in range(0, len(whole) - 2, 97):
        model.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="not a perceptrank model"):
            pr.load(model)


def test_a_missing_file_is_an_ordinary_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        pr.load(tmp_path / "none.json")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(model, monkeypatch):
    before = model.read_bytes()
    ranker = pr.load(model)
    ranker.learn(pr.separable(5).stream)

    def no_room(*_):
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", no_room)
    with pytest.raises(OSError, match="no room"):
        ranker.save(model)
    assert model.read_bytes() == before
    assert os.listdir(model.parent) == [model.name]


def test_permissions_are_those_of_an_ordinary_file(model):
    model.chmod(0o640)
    pr.load(model).save(model)
    assert model.stat().st_mode & 0o777 == 0o640
    plain = model.parent / "plain"
    plain.touch()
    atomic.write_atomically(model.parent / "new", "text")
    assert (model.parent / "new").stat().st_mode == plain.stat().st_mode


def test_saving_through_a_link_keeps_the_link(model):
    link = model.parent / "link.json"
    link.symlink_to(model)
    before = model.read_bytes()
    ranker = pr.load(link)
    ranker.learn(pr.separable(5).stream)
    ranker.save(link)
    assert link.is_symlink()
    assert model.read_bytes() != before


def test_places_that_cannot_be_written(tmp_path):
    ranker = pr.SlamPerceptron()
    with pytest.raises(FileNotFoundError, match=r"cannot write .*none/m.json: there is no folder"):
        ranker.save(tmp_path / "none" / "m.json")
    with pytest.raises(OSError, match="not a file"):
        ranker.save(tmp_path)
    ranker.save(tmp_path / ("n" * 250))


@pytest.mark.parametrize("kind", [pr.UnevenMargins, pr.SlamPerceptron, pr.ListwisePerceptron])
def test_steps_of_many_large_documents_can_be_saved_or_are_refused(kind, tmp_path):
    ranker = kind(learning_rate=1e-200)
    X = np.full((400, 2), 1e150)
    X[0] = 0.0
    with contextlib.suppress(ValueError):
        ranker.learn_one(X, [1] + 399 * [0])
    ranker.save(tmp_path / "m.json")
    assert pr.load(tmp_path / "m.json").as_document() == ranker.as_document()


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    class Mine(pr.QueryZScore):
        name = "mine"

    with pytest.raises(ValueError, match="cannot be saved"):
        pr.SlamPerceptron(transforms=Mine()).save(tmp_path / "m.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [1e100, 1e160, 1e300])
def test_whatever_could_be_learned_can_be_saved(size, tmp_path):
    """Squared lengths of steps beyond the largest float are refused on learning, however small the learning rate."""
    ranker = pr.Perceptron(learning_rate=1e-200)
    X = np.array([[size, 0.0], [0.0, size], [size, size]])
    if size <= 1e100:
        ranker.learn_one(X, [1, 0, 1])
    else:
        with pytest.raises(ValueError, match="overflow"):
            ranker.learn_one(X, [1, 0, 1])
    ranker.save(tmp_path / "m.json")
    again = pr.load(tmp_path / "m.json")
    assert again.as_document() == ranker.as_document()
    assert again.learn_one(X / size, [1, 0, 1]) == ranker.learn_one(X / size, [1, 0, 1])
    assert np.array_equal(again.weights, ranker.weights)
