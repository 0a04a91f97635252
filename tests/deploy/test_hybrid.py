"""Weights of hybrid search, and the emulation of what OpenSearch and Elasticsearch do with them."""

import json

import numpy as np
import pytest
from support import real_streams
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.deploy.exports import make_target
from perceptrank.deploy.ranking_function import RankingFunction

SERVERS = ["opensearch", "elasticsearch"]
NAMES = ["bm25", "vector", "popularity"]
FLOAT = np.finfo(np.float32).eps


def made(seed=0, n=120, names=NAMES, **settings):
    """A model of clauses whose scores float32 holds, and the queries it learned from."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, len(names))) * 10.0 ** rng.uniform(-2, 2, len(names)) + rng.integers(0, 3, len(names))
    X = X.astype(np.float32).astype(np.float64)
    total = (X / X.std(axis=0)).sum(axis=1)
    grades = (total > np.median(total)).astype(int)
    stream = pr.QueryStream.from_arrays(X, grades, group=[6] * (n // 6), feature_names=list(names))
    model = pr.ListwisePerceptron(transforms="query-minmax", positive=list(names), **settings)
    model.learn(stream)
    return model, stream


def by_hand(values, weights, server):
    """The scores of one query's documents, from the definition, score by score; constant clauses count 1."""
    scores = []
    for row in values:
        total = 0.0
        for j, weight in enumerate(weights):
            low, high = min(values[:, j]), max(values[:, j])
            if high == low:
                part = 1.0
            else:
                part = (row[j] - low) / (high - low)
                if part == 0.0 and server == "opensearch":
                    part = 0.001
            total += weight * part
        scores.append(total)
    return np.array(scores)


@pytest.mark.parametrize("server", SERVERS)
def test_weights_add_up_to_1_and_rank_as_the_model_does(server):
    for seed in range(20):
        model, stream = made(seed)
        body = json.loads(pr.deploy.export(model, "hybrid", server=server).text)
        if server == "opensearch":
            (processor,) = body["phase_results_processors"]
            assert processor["normalization-processor"]["normalization"] == {"technique": "min_max"}
            combination = processor["normalization-processor"]["combination"]
            assert combination["technique"] == "arithmetic_mean"
            weights = combination["parameters"]["weights"]
        else:
            retrievers = body["retriever"]["linear"]["retrievers"]
            assert {one["normalizer"] for one in retrievers} == {"minmax"}
            weights = [one["weight"] for one in retrievers]
        kept = model.coef_ > 0.0
        assert sum(weights) == pytest.approx(1.0, abs=1e-15)
        np.testing.assert_allclose(np.array(weights) * model.coef_.sum(), model.coef_[kept], rtol=1e-14)
        found = pr.deploy.parity(model, stream, "hybrid", server=server)
        assert found.agrees == (found.reversed == 0), (seed, found)
        assert found.engine.startswith(f"emulated as hybrid search by {server}")
        assert "no engine was asked" in found.engine
        if server == "elasticsearch":
            assert found.agrees
            assert found.same == found.queries
            assert found.difference <= 4 * FLOAT * kept.sum()
        else:
            assert found.difference <= 0.001 * kept.sum() + 4 * FLOAT * kept.sum()


@pytest.mark.parametrize("server", SERVERS)
def test_the_emulation_is_what_the_engines_do(server):
    model, stream = made()
    X = stream.X.copy()
    X[:6, 1] = 2.0  # a clause that is constant in the first query
    target, function = make_target("hybrid", {"server": server}), RankingFunction.of(model)
    scores = target.scores(function, target.export(function), X, np.array([0, 6, 12]))
    weights = model.coef_ / model.coef_.sum()
    for start, constant in ((0, weights[1]), (6, 0.0)):
        expected = (by_hand(X[start : start + 6], weights, server) - constant) * model.coef_.sum()
        np.testing.assert_allclose(scores[start : start + 6], expected, rtol=0, atol=20 * FLOAT * model.coef_.sum())


def test_equal_scores_of_a_clause():
    """All are 1, but for OpenSearch if they are 0, since its maximum starts above 0."""
    values = np.array([[0.0, 2.0, 0.0], [0.0, 2.0, 4.0]], np.float32)
    for server, zeros, lowest in (("opensearch", 0.001, 0.001), ("elasticsearch", 1.0, 0.0)):
        normalized, constant = make_target("hybrid", {"server": server})._normalize(values)
        np.testing.assert_array_equal(normalized, np.array([[zeros, 1.0, lowest], [zeros, 1.0, 1.0]], np.float32))
        assert constant.tolist() == [True, True, False]


def test_the_lowest_score_of_opensearch_is_not_0():
    """A document with a score just above the lowest comes behind the lowest, and that is said."""
    model, _ = made()
    X = np.column_stack([[0.0, 0.0001, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    stream = pr.QueryStream.from_arrays(X, [0, 0, 1], group=[3], feature_names=NAMES)
    found = pr.deploy.parity(model, stream, "hybrid")
    assert (found.same, found.reversed, found.agrees, found.first) == (0, 1, False, 0)
    assert found.reason == "OpenSearch makes 0.001, not 0, of the lowest score of a clause"
    allowed = pr.deploy.parity(model, stream, "hybrid", tolerance=0.002)
    assert (allowed.same, allowed.reversed, allowed.agrees, allowed.reason) == (0, 0, True, "")
    assert found.difference == pytest.approx(0.001, rel=1e-3)
    assert any("becomes 0.001, not 0" in note for note in found.notes)
    assert pr.deploy.parity(model, stream, "hybrid", server="elasticsearch").same == 1


def test_scores_that_elasticsearch_takes_for_equal_do_not_agree():
    model, _ = made()
    X = np.column_stack([[0.0, 1e-7, 5e-7], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    stream = pr.QueryStream.from_arrays(X, [0, 0, 1], group=[3], feature_names=NAMES)
    found = pr.deploy.parity(model, stream, "hybrid", server="elasticsearch")
    assert not found.agrees
    assert any("differ by less than 0.000001 are equal" in note for note in found.notes)


@pytest.mark.parametrize("name", ["MSLR sample", "MQ2008 Fold1 train"])
def test_real_streams_are_in_the_same_order(name):
    real = pr.read_letor(real_streams.find(name))
    shifted = real.with_features((real.X - np.minimum(real.X.min(axis=0), 0.0)).astype(np.float32))
    model = pr.ListwisePerceptron(transforms="query-minmax", positive=list(range(real.n_features)))
    model.learn(shifted)
    found = pr.deploy.parity(model, shifted, "hybrid", server="elasticsearch")
    assert found.agrees
    assert found.same == found.queries == len(real)
    with pytest.raises(ValueError, match="a hybrid query of OpenSearch has at most 5 clauses, and"):
        pr.deploy.export(model, "hybrid")
    best = set(np.argsort(-model.coef_)[:5].tolist())
    few = pr.ListwisePerceptron(
        transforms="query-minmax", positive=list(best), zero=[j for j in range(real.n_features) if j not in best]
    )
    few.learn(shifted)
    found = pr.deploy.parity(few, shifted, "hybrid")
    assert not found.agrees
    assert found.same + found.reversed >= 0.98 * len(real)
    assert pr.deploy.parity(few, shifted, "hybrid", tolerance=0.005).agrees


def test_requests_have_a_clause_per_feature():
    model, _ = made()
    query = json.loads(pr.deploy.export(model, "hybrid", part="query", window=5).text)
    clauses = query["query"]["hybrid"]["queries"]
    fields = [one["function_score"]["field_value_factor"]["field"] for one in clauses]
    assert fields == NAMES
    assert (query["size"], query["query"]["hybrid"]["pagination_depth"]) == (5, 5)
    request = json.loads(pr.deploy.export(model, "hybrid", server="elasticsearch", window=50).text)
    assert request["retriever"]["linear"]["rank_window_size"] == 50
    assert request["size"] == 10
    notes = pr.deploy.export(model, "hybrid").notes
    assert "the clauses of the query are, in this order: bm25, vector, popularity" in notes


def test_what_hybrid_search_cannot_do_is_refused(tmp_path):
    _, stream = made()
    way = r"learn again with transforms='query-minmax' \(--transform query-minmax of the command learn\) and positive="
    for transforms, why in [
        (None, "ranks by raw features, which hybrid search cannot do: it scales each clause"),
        ("running", "it scales each clause to the range from 0 to 1 within a query"),
        (["query-minmax", "running"], "features after QueryMinMax.* and then RunningStandardizer"),
        ("query-zscore", "OpenSearch's z_score makes 0.001 of all that is below the mean, and Elasticsearch has none"),
    ]:
        model = pr.ListwisePerceptron(transforms=transforms, positive=NAMES)
        model.learn(stream)
        with pytest.raises(ValueError, match=f"{why}.*{way}"):
            pr.deploy.export(model, "hybrid")
    falling = pr.QueryStream.from_arrays(
        stream.X, (stream.X[:, 0] < np.median(stream.X[:, 0])).astype(int), group=[6] * 20, feature_names=NAMES
    )
    model = pr.ListwisePerceptron(transforms="query-minmax")
    model.learn(falling)
    with pytest.raises(ValueError, match=r"no negative weights, as 'bm25'.* has: learn with positive=\[\.\.\.\]"):
        pr.deploy.export(model, "hybrid")
    model.save(tmp_path / "model.json")
    words = ["export", str(tmp_path / "model.json"), "--to", "hybrid", "--out", str(tmp_path / "out.json")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "no negative weights" in done.stderr
    assert not (tmp_path / "out.json").exists()


def test_scores_of_clauses_are_not_negative():
    model, stream = made()
    below = stream.with_features(stream.X - 5.0)
    with pytest.raises(ValueError, match=r"scores of a clause are not negative, and feature '.*' is -"):
        pr.deploy.parity(model, below, "hybrid")


def test_a_draft_of_a_query_has_no_weights():
    model, stream = made()
    with pytest.raises(ValueError, match="parity with hybrid needs part='pipeline'"):
        pr.deploy.parity(model, stream, "hybrid", part="query")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"server": "solr"}, "server of the target hybrid must be one of 'opensearch', 'elasticsearch', got 'solr'"),
        ({"part": "all"}, "part of the target hybrid must be one of 'pipeline', 'query'"),
        ({"part": "pipeline", "server": "elasticsearch"}, "must be 'query' for elasticsearch"),
        ({"window": 0}, "window of the target hybrid must be a whole number from 1 to 10000, got 0"),
        ({"window": True}, "window of the target hybrid must be a whole number"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        make_target("hybrid", options)


def test_weights_that_float32_cannot_hold_are_refused():
    _, stream = made()
    model = pr.ListwisePerceptron(transforms="query-minmax", initial_weights=[1.0, 1e-60, 0.0])
    model.learn(stream.with_features(np.zeros_like(stream.X)))
    with pytest.raises(ValueError, match=r"float32, which cannot hold 1e-60 of the feature 'vector'"):
        pr.deploy.export(model, "hybrid")


def test_an_order_of_opensearch_that_is_another_is_no_agreement_on_the_command_line(tmp_path):
    model, _ = made()
    X = np.column_stack([[0.0, 0.0001, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    stream = pr.QueryStream.from_arrays(X, [0, 0, 1], group=[3], feature_names=NAMES)
    pr.write_parquet(stream, tmp_path / "day.parquet")
    model.save(tmp_path / "model.json")
    words = ["parity", str(tmp_path / "model.json"), str(tmp_path / "day.parquet"), "--to", "hybrid"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "another order beyond rounding: 1" in done.stdout
    assert "they rank differently, first in query 0, because OpenSearch makes 0.001, not 0" in done.stdout
    done = CliRunner().invoke(app, [*words, "--tolerance", "0.01"])
    assert done.exit_code == 0
    assert "they rank alike" in done.stdout
    assert CliRunner().invoke(app, [*words, "--tolerance", "nan"]).exit_code != 0
