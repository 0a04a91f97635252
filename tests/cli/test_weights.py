"""Learning from weights that are there already, and constraints, on the command line."""

import json

import numpy as np
import pytest

import perceptrank as pr

NAMES = ["title", "price", "stock"]
WEIGHTS = {"title": 1.0, "stock": 50.0}


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 3)), rng.integers(3, size=120)
    stream = pr.QueryStream.from_arrays(X, y, group=[6] * 20, feature_names=NAMES)
    pr.write_parquet(stream, tmp_path / "day.parquet")
    return stream


@pytest.fixture
def weights(tmp_path):
    (tmp_path / "weights.json").write_text(json.dumps(WEIGHTS))
    return tmp_path / "weights.json"


def test_learning_starts_from_weights(run, data, weights, tmp_path):
    """Their score is one more feature behind the usual transforms; they and the learner are ranked with in turn."""
    given = ("learn", tmp_path / "day.parquet", "--from", weights, "--save", tmp_path / "new.json")
    result = run(*given)
    assert "has no weight for 1 of 3 features, which its score leaves out: price" in result.output
    now = pr.FixedRanker(WEIGHTS)
    started = pr.ListwisePerceptron(production="score", transforms=[pr.ScoreOf(now), "auto"])
    expected = pr.Tournament([now, started])
    trace = expected.learn(data, "ndcg@10")
    learned = pr.load(tmp_path / "new.json")
    np.testing.assert_array_equal(learned.scores(data), expected.scores(data))
    rows = json.loads(run(*given, "--json").stdout)["rows"]
    assert [row["algorithm"] for row in rows] == ["tournament", "its start"]
    assert rows[0]["ndcg@10"] == pytest.approx(trace.mean("ndcg@10"), abs=1e-6)
    assert rows[1]["ndcg@10"] == pytest.approx(pr.evaluate(now, data, "ndcg@10").mean("ndcg@10"), abs=1e-6)
    # A model of ours is gone on with, as before.
    run("learn", tmp_path / "day.parquet", "--from", tmp_path / "new.json", "--save", tmp_path / "newer.json")
    assert pr.load(tmp_path / "newer.json").n_queries == 40


def test_algorithm_settings_and_transforms_may_be_given_with_weights(run, data, weights, tmp_path):
    given = ("learn", tmp_path / "day.parquet", "--from", weights, "--save", tmp_path / "new.json")
    run(*given, "--algorithm", "adagrad:slam", "--learning-rate", 0.5, "--set", 'positive=["stock", "price"]')
    learned = pr.load(tmp_path / "new.json")
    assert (learned.name, learned.learner.positive, learned.learner.production) == (
        "adagrad:slam",
        ["stock", "price"],
        "score",
    )
    assert (learned.coef_.reshape(2, 4)[:, 1:3] >= 0).all()
    run(*given, "--transform", "running", "--set", "zero=price", "--measure", "ap")
    learned = pr.load(tmp_path / "new.json")
    assert (learned.measure, learned.learners[1].measure, learned.learners[1].zero) == ("ap", "ap", ["price"])
    assert [each.name for each in learned.members[1].transforms_] == ["score-of", "running"]
    run(*given, "--transform", "none")
    assert [each.name for each in pr.load(tmp_path / "new.json").members[1].transforms_] == ["score-of"]
    given = ("learn", tmp_path / "day.parquet", "--from", tmp_path / "new.json")
    result = run(*given, "--set", "positive=stock", code=1)
    assert "--from continues with the settings of the model: give no settings, or --algorithm" in " ".join(
        result.output.split()
    )


def test_current_weights_as_a_model(run, data, weights, tmp_path):
    """The engine's ranking as a model file: evaluated like any other, and it stays as it is."""
    run("learn", tmp_path / "day.parquet", "--from", weights, "--algorithm", "fixed", "--save", tmp_path / "now.json")
    now = pr.load(tmp_path / "now.json")
    assert (type(now), now.weights.tolist()) == (pr.FixedRanker, [1.0, 0.0, 50.0])
    result = json.loads(run("evaluate", tmp_path / "now.json", tmp_path / "day.parquet", "--json").output)
    row = next(one for one in result["rows"] if one["measure"] == "ndcg@10")
    assert row["mean"] == pytest.approx(pr.evaluate(now, data, "ndcg@10").mean("ndcg@10"), abs=1e-4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"colour": 1.0}, "names unknown features"),
        ({"title": "1"}, "must be JSON: names and weights"),
        ({"title": float("inf")}, "must be a finite number"),
        ({"class": "org.apache.solr.ltr.model.NeuralNetworkModel"}, "has a NeuralNetworkModel"),
    ],
)
def test_wrong_weights_write_nothing(run, data, content, message, tmp_path):
    (tmp_path / "wrong.json").write_text(json.dumps(content))
    given = ("--from", tmp_path / "wrong.json", "--save", tmp_path / "new.json", "--trace", tmp_path / "new.npz")
    result = run("learn", tmp_path / "day.parquet", *given, code=1)
    assert message in " ".join(result.output.split())
    assert sorted(one.name for one in tmp_path.iterdir()) == ["day.parquet", "wrong.json"]


def test_other_learners_do_not_start_from_weights(run, data, weights, tmp_path):
    result = run("learn", tmp_path / "day.parquet", "--from", weights, "--algorithm", "ridge", code=1)
    assert "ridge cannot start from another ranker; these learners of grades can:" in " ".join(result.output.split())
    for setting in ('initial_weights={"title": 2}', "production=title"):
        result = run("learn", tmp_path / "day.parquet", "--from", weights, "--set", setting, code=1)
        assert "given twice" in result.output


def test_a_run_from_weights_is_resumed(run, data, weights, tmp_path):
    saved = tmp_path / "new.json"
    given = ("--from", weights, "--save", saved, "--set", "positive=stock")
    run("learn", tmp_path / "day.parquet", *given)
    again = run("learn", tmp_path / "day.parquet", *given, "--resume")
    assert "nothing is left to do" in " ".join(again.output.split())
    other = run("learn", tmp_path / "day.parquet", *given[:-1], "positive=title", "--resume", code=1)
    assert "was learned with" in " ".join(other.output.split())
    plain = tmp_path / "plain.json"
    run("learn", tmp_path / "day.parquet", "--save", plain)
    other = run("learn", tmp_path / "day.parquet", "--save", plain, "--set", "zero=title", "--resume", code=1)
    assert "was learned with zero None, not ['title']" in " ".join(other.output.split())


def solr_model(weights):
    features = [{"name": name} for name in weights]
    return {"class": "org.apache.solr.ltr.model.LinearModel", "features": features, "params": {"weights": weights}}


@pytest.mark.parametrize("made", [dict, solr_model])
def test_weights_go_wherever_a_model_goes(run, data, tmp_path, made):
    """A shop's own weights can be shown, exported, checked and ranked with before anything is learned."""
    path = tmp_path / "now.json"
    path.write_text(json.dumps(made(WEIGHTS)))
    fixed = pr.FixedRanker(WEIGHTS)
    exported = run("export", path, "--to", "sql").stdout
    assert exported == pr.deploy.export(fixed, "sql").text
    assert json.loads(run("parity", path, tmp_path / "day.parquet", "--to", "python", "--json").stdout)["agrees"]
    ranked = json.loads(run("rank", path, tmp_path / "day.parquet", "--json").stdout.splitlines()[0])
    expected = np.sort(fixed.scores(data)[:6])[::-1]
    np.testing.assert_allclose([one["score"] for one in ranked["documents"]], expected)
    shown = json.loads(run("show", path, tmp_path / "day.parquet", "--json").stdout)
    assert {one["feature"] for one in shown["features"]} == set(WEIGHTS)
    run("learn", tmp_path / "day.parquet", "--save", tmp_path / "new.json")
    assert "title" in run("show", tmp_path / "new.json", tmp_path / "day.parquet", "--since", path).stdout
