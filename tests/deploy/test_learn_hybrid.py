"""Learning the weights of a hybrid query: in Python, and as the command does it."""

import json

import numpy as np
import pytest
from deploy.test_hybrid import KINDS, TODAY, clauses
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.cli.hybrid import hybrid
from perceptrank.deploy.hybrid import learn_weights


def judged(stream, folder):
    """Write a stream as judgements with feature logs beside them, and as one table."""
    lines, logs, table = ["query,docid,rating"], [], ["query,docid,rating," + ",".join(stream.feature_names)]
    for query in stream:
        for row in range(len(query.X)):
            grade = int(query.relevance[row])
            values = dict(zip(stream.feature_names, map(float, query.X[row]), strict=True))
            values = {name: value for name, value in values.items() if not np.isnan(value)}
            cells = [str(values.get(name, "")) for name in stream.feature_names]
            if not values:
                continue
            key = f"q{query.qid},d{row}"
            if grade or row % 2:  # others are not judged
                lines.append(f"{key},{grade}")
                table.append(f"{key},{grade}," + ",".join(cells))
            else:
                table.append(f"{key},," + ",".join(cells))
            logs.append(json.dumps({"query": f"q{query.qid}", "docid": f"d{row}", "features": values}))
    for name, rows in {"judgements.csv": lines, "clauses.jsonl": logs, "table.csv": table}.items():
        (folder / name).write_text("\n".join(rows) + "\n")


def run(*words):
    return CliRunner().invoke(app, ["hybrid", *map(str, words)])


@pytest.mark.parametrize(("engine", "which"), KINDS)
def test_learned_weights_are_better_and_rank_as_the_engine(engine, which):
    stream = clauses(seed=1, n_queries=150)
    result = pr.deploy.learn_hybrid(stream, pr.HybridScores(engine, which))
    assert sum(result.weights.values()) == pytest.approx(1.0, abs=1e-12)
    assert all(weight >= 0 and round(weight, 3) == weight for weight in result.weights.values())
    assert set(result.current.values()) == {1 / 3}
    assert (result.learned, len(result.evaluation)) == (105, 45)
    assert result.evaluation.mean("learned") > result.evaluation.mean("current")
    assert result.weights["bm25"] > result.weights["popularity"]
    assert result.parity.agrees
    assert result.parity.same == result.parity.queries == 150
    again = pr.deploy.learn_hybrid(stream, pr.HybridScores(engine, which))
    assert again.weights == result.weights


def test_what_is_held_out_is_not_learned_from():
    stream = clauses(n_queries=40)
    result = pr.deploy.learn_hybrid(stream, seed=3)
    order = np.random.default_rng(3).permutation(40)
    held = np.sort(order[:12])
    assert result.evaluation.qids.tolist() == stream.qids[held].tolist()
    changed = stream.relevance.copy()
    for q in held:
        rows = slice(stream.offsets[q], stream.offsets[q + 1])
        changed[rows] = 2 - changed[rows]
    other = stream.with_columns({"relevance": changed})
    assert pr.deploy.learn_hybrid(other, seed=3).weights == result.weights


def test_the_current_weights_are_the_start_and_the_incumbent(tmp_path):
    stream = clauses(n_queries=60)
    path = tmp_path / "today.json"
    path.write_text(json.dumps(TODAY["linear"]))
    result = pr.deploy.learn_hybrid(stream, pr.HybridScores("elasticsearch", "rrf"), current=path)
    assert list(result.current.values()) == [2 / 3, 1 / 3, 0.0]
    now = pr.FixedRanker([2.0, 1.0, 0.0], transforms=pr.HybridScores("elasticsearch", "l2"))
    expected = pr.evaluate(now, stream[np.isin(stream.qids, result.evaluation.qids)], ["ndcg@10"])
    assert result.evaluation.mean("current") == pytest.approx(expected.mean("ndcg@10"))
    assert json.loads(result.export.text)["size"] == 5
    assert pr.deploy.learn_hybrid(stream, current=path).model.model.all_transforms == [
        pr.HybridScores("elasticsearch", "l2")
    ]


def test_queries_that_say_nothing_leave_the_start():
    stream = clauses(n_queries=10)
    flat = pr.QueryStream.from_arrays(
        np.ones_like(stream.X), stream.relevance, group=[12] * 10, feature_names=stream.feature_names
    )
    start = np.array([0.2, 0.3, 0.5])
    assert learn_weights(pr.HybridScores().transform(flat), start).tolist() == start.tolist()
    result = pr.deploy.learn_hybrid(flat)
    assert result.evaluation.answer != "yes"


def test_weights_that_stay_are_the_current_ones_to_the_last_digit(tmp_path):
    stream = clauses(n_queries=10)
    flat = stream.with_features(np.ones_like(stream.X), feature_names=stream.feature_names)
    path = tmp_path / "today.json"
    for weights in ([0.12345, 0.37655, 0.5], [1e308, 1e308, 0.0]):
        document = json.loads(json.dumps(TODAY["linear"]))
        for part, weight in zip(document["retriever"]["linear"]["retrievers"], weights, strict=True):
            part["weight"] = weight
        path.write_text(json.dumps(document))
        result = pr.deploy.learn_hybrid(flat, current=path)
        assert result.weights == result.current
        assert result.evaluation.mean("learned") == result.evaluation.mean("current")
    assert list(result.current.values()) == [0.5, 0.5, 0.0]


def test_queries_to_learn_from_must_have_a_relevant_hit():
    stream = clauses(n_queries=40)
    nothing = stream.with_columns({"relevance": np.zeros_like(stream.relevance)})
    with pytest.raises(ValueError, match=r"no query counts for ndcg@10 among the 28 to learn from: .* grade above 0"):
        pr.deploy.learn_hybrid(nothing)


def test_one_clause_has_all_the_weight():
    result = pr.deploy.learn_hybrid(clauses(names=["bm25"]))
    assert result.weights == {"bm25": 1.0}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hold_out": 0.0}, "hold_out must be between 0 and 1, got 0.0"),
        ({"hold_out": 0.01}, "hold_out must leave queries on both sides, of 20, got 0.01"),
        ({"seed": -1}, "seed"),
        ({"measure": "nothing"}, "nothing"),
    ],
)
def test_bad_arguments_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        pr.deploy.learn_hybrid(clauses(), **options)


def test_the_command_reads_hits_that_are_not_judged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    judged(clauses(seed=1, n_queries=100), tmp_path)
    (tmp_path / "today.json").write_text(json.dumps(TODAY["min_max"]))
    names = "bm25,vector,popularity"
    options = ["--clauses", names, "--current", "today.json", "--json"]
    done = run("judgements.csv", "--features", "clauses.jsonl", *options, "--out", "new.json")
    assert done.exit_code in (0, 3, 4), done.output
    assert "rows without a grade have grade 0" in done.stderr
    facts = json.loads(done.stdout)
    assert done.exit_code == {"yes": 0, "no": 3}.get(facts["evaluation"]["answer"], 4)
    assert list(facts["weights"]) == names.split(",")
    assert list(facts["current"].values()) == [0.5, 0.25, 0.25]
    assert facts["parity"]["same"] == facts["parity"]["queries"] == 100
    assert facts["parity"]["engine"].startswith("emulated")
    written = json.loads((tmp_path / "new.json").read_text())["phase_results_processors"][0]["normalization-processor"]
    assert written["combination"]["parameters"]["weights"] == list(facts["weights"].values())
    assert written["tag"] == "t"
    # one table with empty cells is the same
    done = run("table.csv", *options, "--out", "table.json")
    assert json.loads(done.stdout)["weights"] == facts["weights"]
    # and the pipeline may be replaced in place
    done = run("table.csv", *options, "--out", "today.json")
    assert (tmp_path / "today.json").read_text() == (tmp_path / "new.json").read_text()


def test_the_command_says_what_it_did(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    judged(clauses(seed=1, n_queries=150), tmp_path)
    words = ["--engine", "elasticsearch", "--normalization", "rrf", "--margin", "0.02", "--out", "new.json"]
    done = run("table.csv", *words)
    assert done.exit_code == 0, done.output
    assert "Weights learned from 105" in " ".join(done.stdout.split())
    assert "Yes: learned may replace current" in done.stdout
    assert "elasticsearch, rrf; the same order in 150 of 150 queries, emulated" in done.stdout
    assert "note: weights of rrf need Elasticsearch 9.2" in done.stderr


def test_the_example_of_the_help_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    judged(clauses(names=["text", "vector"]), tmp_path)
    (tmp_path / "pipeline.json").write_text('{"phase_results_processors": [{"normalization-processor": {}}]}')
    example = " ".join(hybrid.__doc__.split()).partition("Example: perceptrank hybrid ")[2]
    assert run(*example.split()).exit_code in (0, 3, 4)
    assert (tmp_path / "new.json").exists()


def test_scores_that_differ_in_the_same_order_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"q{q},d{j},{j % 3},{j},{-j if q % 2 else j * j}" for q in range(20) for j in range(5)]
    (tmp_path / "table.csv").write_text("\n".join(["query,docid,rating,text,vector", *rows]))
    done = run("table.csv", "--normalization", "l2", "--out", "new.json")
    assert "the same order in 20 of 20 queries" in done.stdout
    assert "warning: the engine scores query q1 otherwise, in the same order" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["clauses.jsonl"], "name the columns in that order with --clauses"),
        (
            ["table.csv", "--clauses", "bm25,nothing"],
            "--clauses must name columns of features, which are bm25, vector,",
        ),
        (
            ["table.csv", "--clauses", "bm25,vector"],
            "has 3 weights, and there are 2 clauses: bm25, vector; name the columns of the clauses, in the order of "
            "the query (--clauses NAMES)",
        ),
        (["clauses.txt"], "LETOR text has 0 where a clause did not return a document: give a table with empty cells"),
        (["table.csv", "--zero-missing"], "--zero-missing does not apply: an empty cell is a document that the clause"),
        (["table.csv", "--engine", "elasticsearch"], "today.json is for opensearch, and --engine says elasticsearch"),
        (["table.csv", "--rank-constant", "20"], "--rank-constant is of rrf, and the normalization is min_max"),
        (["table.csv", "--hold-out", "1.5"], "--hold-out must be between 0 and 1, got 1.5"),
    ],
)
def test_errors_of_the_command(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    judged(clauses(n_queries=10), tmp_path)
    (tmp_path / "today.json").write_text(json.dumps(TODAY["min_max"]))
    (tmp_path / "clauses.txt").write_text("1 qid:1 1:3.5 3:1\n0 qid:1 2:0.5\n")
    done = run(*words, "--current", "today.json", "--out", "new.json")
    assert done.exit_code == 1
    assert said in done.stderr
    assert not (tmp_path / "new.json").exists()
