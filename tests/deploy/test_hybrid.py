"""Weights of hybrid search, and the emulation of what OpenSearch and Elasticsearch do with them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import real_streams

import perceptrank as pr
from perceptrank.deploy.engines.hybrid import combine
from perceptrank.deploy.engines.hybrid_request import read_request
from perceptrank.deploy.exports import make_target
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.io.errors import FormatError

F = np.float32
NAN = np.nan
NAMES = ["bm25", "vector", "popularity"]
KINDS = [(engine, which) for engine in ("opensearch", "elasticsearch") for which in ("min_max", "l2", "rrf")]
KINDS.append(("opensearch", "z_score"))
ULP = np.finfo(np.float32).eps


def clauses(seed=0, n_queries=20, names=NAMES):
    """Queries of 12 documents, of which each clause returns the best 7 by a noisy view of what they are worth."""
    rng = np.random.default_rng(seed)
    X, grades = [], []
    for _ in range(n_queries):
        worth = rng.normal(size=12)
        scores = np.exp(worth[:, None] + rng.normal(size=(12, len(names))) * np.arange(1, len(names) + 1) / 2)
        X.append(np.where(np.argsort(np.argsort(-scores, axis=0), axis=0) < 7, scores.round(4), NAN))
        grades.append(np.digitize(worth, [0.5, 1.2]))
    group = [12] * n_queries
    return pr.QueryStream.from_arrays(
        np.concatenate(X).astype(F), np.concatenate(grades), group=group, feature_names=list(names), missing="keep"
    )


def learned(stream, engine="opensearch", which="min_max", zero=()):
    """A model of the clauses of a stream."""
    positive = [name for name in stream.feature_names if name not in zero]
    model = pr.ListwisePerceptron(transforms=pr.HybridScores(engine, which), positive=positive, zero=list(zero))
    model.learn(stream)
    return model


def weights_in(body):
    """Engine, normalization and weights of a pipeline or a request."""
    if "phase_results_processors" in body:
        ((kind, processor),) = body["phase_results_processors"][0].items()
        technique = processor["normalization"]["technique"] if kind == "normalization-processor" else "rrf"
        mean = {"normalization-processor": "arithmetic_mean", "score-ranker-processor": "rrf"}[kind]
        assert processor["combination"]["technique"] == mean
        return "opensearch", technique, processor["combination"]["parameters"]["weights"]
    ((kind, retriever),) = body["retriever"].items()
    parts = retriever["retrievers"]
    theirs = {part["normalizer"] for part in parts} if kind == "linear" else {"rrf"}
    which = {"minmax": "min_max", "l2_norm": "l2", "rrf": "rrf"}[theirs.pop()]
    return "elasticsearch", which, [part["weight"] for part in parts]


@pytest.mark.parametrize(("engine", "which"), KINDS)
def test_weights_add_up_to_1_and_all_queries_are_in_the_order_of_the_engine(engine, which):
    for seed in range(5):
        stream = clauses(seed)
        model = learned(stream, engine, which)
        found_engine, found_which, weights = weights_in(json.loads(pr.deploy.export(model, "hybrid").text))
        assert (found_engine, found_which) == (engine, which)
        assert sum(weights) == pytest.approx(1.0, abs=1e-15)
        np.testing.assert_allclose(np.array(weights) * model.coef_.sum(), model.coef_, rtol=1e-14)
        found = pr.deploy.parity(model, stream, "hybrid")
        assert found.agrees
        assert found.same == found.queries == 20
        assert found.difference <= 4 * ULP * 3
        assert found.engine.startswith("emulated as hybrid search")
        assert "no engine was asked" in found.engine


@given(
    scores=st.lists(st.tuples(*[st.one_of(st.just(0.0), st.floats(-1.0, 2.0, width=32))] * 3), min_size=1, max_size=8),
    shares=st.tuples(*[st.sampled_from([0.0, 0.25, 0.3, 0.5])] * 3),
)
@pytest.mark.parametrize(("engine", "which"), KINDS)
def test_the_combination_is_the_engines(engine, which, scores, shares):
    """OpenSearch leaves out clauses whose score is negative, and divides unless it goes by ranks."""
    shares = [F(share) for share in shares]
    expected = []
    for row in scores:
        total = weights = F(0)
        for score, share in zip(row, shares, strict=True):
            if score >= 0 or engine == "elasticsearch":
                total = total + share * F(score)
                weights = weights + share
        if engine == "opensearch" and weights == 0:
            total = F(0)
        elif engine == "opensearch" and which != "rrf":
            total = total / weights
        expected.append(total)
    found = combine(pr.HybridScores(engine, which), np.array(scores, F), np.array(shares))
    if engine == "opensearch" and which == "rrf":  # which has no negative scores
        found, expected = [
            [score for score, row in zip(each, scores, strict=True) if min(row) >= 0] for each in (found, expected)
        ]
    assert np.array_equal(found, np.array(expected, F))


@pytest.mark.parametrize(("engine", "which"), KINDS)
@pytest.mark.parametrize("name", ["MSLR sample", "MQ2008 Fold1 train"])
def test_all_queries_of_real_streams_are_in_the_order_of_the_engine(name, engine, which):
    real = pr.read_letor(real_streams.find(name))
    columns = np.argsort(-real.X.std(axis=0) * (real.X.min(axis=0) >= 0))[:4]
    X = np.where(real.X[:, columns] > 0, real.X[:, columns], NAN).astype(F)
    stream = real.with_features(X, feature_names=["a", "b", "c", "d"])
    found = pr.deploy.parity(learned(stream, engine, which), stream, "hybrid")
    assert found.agrees
    assert found.same == found.queries == len(real)


def test_negative_scores_are_told():
    """Lucene returns none; OpenSearch would leave the clause out of the mean of that document."""
    X = np.array([[3.0, -1.0], [2.9, 0.1], [1.0, 1.0]])
    stream = pr.QueryStream.from_arrays(X, [1, 0, 0], group=[3])
    model = pr.FixedRanker([0.5, 0.5], transforms=pr.HybridScores("opensearch", "l2"))
    model.learn(stream)
    found = pr.deploy.parity(model, stream, "hybrid")
    assert not found.agrees
    assert "where their normalized score is negative" in found.reason
    model = pr.FixedRanker([0.5, 0.5], transforms=pr.HybridScores("elasticsearch", "l2"))
    model.learn(stream)
    assert pr.deploy.parity(model, stream, "hybrid").agrees


def test_drafts_have_a_clause_per_feature_those_without_weight_too():
    model = learned(clauses(), zero=["popularity"])
    assert weights_in(json.loads(pr.deploy.export(model, "hybrid").text))[2][2] == 0.0
    model = learned(clauses(), "elasticsearch")
    request = json.loads(pr.deploy.export(model, "hybrid").text)
    queries = [part["retriever"]["standard"]["query"] for part in request["retriever"]["linear"]["retrievers"]]
    assert [query["function_score"]["field_value_factor"]["field"] for query in queries] == NAMES
    assert (request["size"], request["retriever"]["linear"]["rank_window_size"]) == (10, 100)
    notes = pr.deploy.export(model, "hybrid").notes
    assert "the clauses of the query must be, in this order: bm25, vector, popularity" in notes


def test_what_hybrid_search_cannot_do_is_refused():
    stream = pr.Missing("zero").transform(clauses())
    for transforms, why in [
        (None, "ranks by raw features, and hybrid search by normalized scores: learn again with transforms=Hybrid"),
        ("running", "ranks by features after RunningStandardizer"),
        (["hybrid", "running"], r"features after HybridScores\(.*\) and then RunningStandardizer"),
    ]:
        model = pr.ListwisePerceptron(transforms=transforms)
        model.learn(stream)
        with pytest.raises(ValueError, match=why):
            pr.deploy.export(model, "hybrid")
    model = pr.FixedRanker([1.0, -1.0, 0.0], transforms="hybrid")
    model.learn(stream)
    with pytest.raises(ValueError, match=r"no negative weights, as 'vector' has: learn with positive=\[\.\.\.\]"):
        pr.deploy.export(model, "hybrid")
    six = clauses(names=list("abcdef"))
    with pytest.raises(ValueError, match="at most 5 clauses, and there are 6 features"):
        pr.deploy.export(learned(six), "hybrid")
    assert pr.deploy.export(learned(six, "elasticsearch"), "hybrid")
    with pytest.raises(ValueError, match="the target hybrid has the options current, got 'part'"):
        make_target("hybrid", {"part": "query"})


def test_huge_and_tiny_weights():
    model = pr.FixedRanker([1e300, 1e300, 1e-300], transforms="hybrid")
    model.learn(clauses())
    target = make_target("hybrid", {})
    assert list(target._shares(RankingFunction.of(model)).values()) == [0.5, 0.5, 0.0]


TODAY = {
    "min_max": {
        "phase_results_processors": [
            {
                "normalization-processor": {
                    "tag": "t",
                    "normalization": {"technique": "min_max"},
                    "combination": {"technique": "arithmetic_mean", "parameters": {"weights": [0.5, 0.25, 0.25]}},
                }
            }
        ]
    },
    "rrf": {
        "shop": {  # as the server returns it
            "description": "ours",
            "phase_results_processors": [
                {"score-ranker-processor": {"combination": {"technique": "rrf", "rank_constant": 20}}}
            ],
        }
    },
    "linear": {
        "retriever": {
            "linear": {
                "retrievers": [
                    {"retriever": {"standard": {"query": {"match": {"t": "x"}}}}, "weight": 2, "normalizer": "l2_norm"},
                    {"retriever": {"knn": {"field": "v"}}, "normalizer": "l2_norm"},
                    {"retriever": {"standard": {"query": {"match_all": {}}}}, "weight": 0, "normalizer": "l2_norm"},
                ],
                "rank_window_size": 70,
            }
        },
        "size": 5,
    },
    "retriever rrf": {
        "retriever": {"rrf": {"retrievers": [{"standard": {"a": 1}}, {"knn": {"b": 2}}, {"retriever": {"c": {}}}]}}
    },
}


@pytest.mark.parametrize("name", TODAY)
def test_everything_but_the_weights_stays(name, tmp_path):
    path = tmp_path / "today.json"
    path.write_text(json.dumps(TODAY[name]))
    request = read_request(path)
    expected = {
        "min_max": (pr.HybridScores(), [0.5, 0.25, 0.25]),
        "rrf": (pr.HybridScores("opensearch", "rrf", rank_constant=20), None),
        "linear": (pr.HybridScores("elasticsearch", "l2"), [2.0, 1.0, 0.0]),
        "retriever rrf": (pr.HybridScores("elasticsearch", "rrf"), [1.0, 1.0, 1.0]),
    }[name]
    assert (request.scores, request.weights) == expected
    for which in ("min_max", "rrf"):
        model = pr.FixedRanker([0.25, 0.5, 0.25], transforms=pr.HybridScores(request.scores.engine, which))
        model.learn(clauses())
        exported = pr.deploy.export(model, "hybrid", current=str(path))
        written = tmp_path / "new.json"
        exported.save(written)
        again = read_request(written)
        assert again.scores.engine == request.scores.engine
        assert again.scores.normalization == which
        assert again.weights == [0.25, 0.5, 0.25]
        body = json.loads(exported.text)
        if name == "min_max" and which == "min_max":
            assert body["phase_results_processors"][0]["normalization-processor"]["tag"] == "t"
        elif name == "rrf":
            assert body["description"] == "ours"
        elif name == "linear":
            assert body["size"] == 5
            ((_, retriever),) = body["retriever"].items()
            assert retriever["rank_window_size"] == 70
            assert retriever["retrievers"][1]["retriever"] == {"knn": {"field": "v"}}
        elif name == "retriever rrf":
            ((_, retriever),) = body["retriever"].items()
            assert [part["retriever"] for part in retriever["retrievers"]] == [
                {"standard": {"a": 1}},
                {"knn": {"b": 2}},
                {"c": {}},
            ]


def written(document, weights, scores, path):
    """What is written with other weights, and the notes."""
    path.write_text(json.dumps(document))
    model = pr.FixedRanker(weights, transforms=scores)
    model.learn(clauses(names=NAMES[: len(weights)]))
    exported = pr.deploy.export(model, "hybrid", current=str(path))
    return json.loads(exported.text), exported.notes


def test_a_pipeline_in_a_request_leaves_the_request(tmp_path):
    request = {"query": {"hybrid": {"queries": [{"a": 1}]}}, "search_pipeline": processor(tag="t", new_option=True)}
    body, _ = written(request, [0.25, 0.75], pr.HybridScores(), tmp_path / "today.json")
    assert body["query"] == request["query"]
    assert body.keys() == request.keys()
    found = body["search_pipeline"]["phase_results_processors"][0]["normalization-processor"]
    assert (found["tag"], found["new_option"]) == ("t", True)
    assert found["combination"]["parameters"]["weights"] == [0.25, 0.75]


def test_min_score_is_noted_and_a_normalizer_for_all_does_not_go_to_rrf(tmp_path):
    parts = [{"retriever": {"a": 1}}, {"retriever": {"b": 2}}]
    request = {"retriever": {"linear": {"retrievers": parts, "normalizer": "minmax", "min_score": 0.5}}}
    path = tmp_path / "today.json"
    body, notes = written(request, [0.25, 0.75], pr.HybridScores("elasticsearch", "rrf"), path)
    assert body["retriever"]["rrf"].keys() == {"retrievers", "min_score", "rank_constant"}
    assert "min_score is kept, as 0.5: choose it anew, since the scores of documents have changed" in notes


def processor(**parts):
    return {"phase_results_processors": [{"normalization-processor": parts}]}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "must be JSON: a search pipeline of OpenSearch with a normalization-processor or"),
        ({"weights": [1, 2]}, "it has 0 of these"),
        ({"a": processor(), "b": processor()}, "it has 2 of these"),
        (processor(combination={"technique": "harmonic_mean"}), "must be arithmetic_mean, .* got 'harmonic_mean'"),
        (processor(normalization={"parameters": {"lower_bounds": []}, "technique": "min_max"}), None),
        (processor(normalization={"parameters": {"lower_bounds": [1]}}), "without parameters: others cannot be"),
        (processor(normalization={"technique": "max"}), "normalization must be one of"),
        (
            processor(combination={"parameters": {"weights": [1, "a"]}}),
            "a weight must be a finite number >= 0, got 'a'",
        ),
        (processor(combination={"parameters": {"weights": [1, -1]}}), "a weight must be a finite number >= 0, got -1"),
        (processor(combination=[1]), "today.json must be JSON: a search pipeline of OpenSearch"),
        ({"linear": {"retrievers": ["a", "b"]}}, "today.json must be JSON: .* as the engine's reference has it"),
        (processor(combination={"parameters": {"weights": [0, 0.0]}}), "weights must not all be 0"),
        ({"rrf": {"retrievers": [{"retriever": {}, "weight": 0}]}}, "weights must not all be 0"),
        ({"linear": {"retrievers": [{"normalizer": "minmax"}, {}]}}, "normalizer must be minmax of all retrievers, or"),
    ],
)
def test_files_that_cannot_be_emulated_are_refused(document, said, tmp_path):
    path = tmp_path / "today.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    with pytest.raises(FormatError, match="today.json" if said is None else said):
        read_request(path)


@pytest.mark.parametrize(
    ("document", "scores", "weights"),
    [
        (processor(normalization=None, combination=None), pr.HybridScores(), None),
        (processor(combination={"parameters": None}), pr.HybridScores(), None),
        (processor(combination={"parameters": {"weights": []}}), pr.HybridScores(), None),
        (
            {"linear": {"normalizer": "l2_norm", "retrievers": [{"weight": 2}, {"normalizer": "l2_norm"}]}},
            pr.HybridScores("elasticsearch", "l2"),
            [2.0, 1.0],
        ),
    ],
)
def test_what_is_left_out_is_the_engines_default(document, scores, weights, tmp_path):
    path = tmp_path / "today.json"
    path.write_text(json.dumps(document))
    request = read_request(path)
    assert (request.scores, request.weights) == (scores, weights)


def test_current_weights_of_another_engine_or_number_are_refused(tmp_path):
    path = tmp_path / "today.json"
    path.write_text(json.dumps(TODAY["min_max"]))
    with pytest.raises(ValueError, match="has 3 weights of opensearch; the model has 3 clauses of elasticsearch"):
        pr.deploy.export(learned(clauses(), "elasticsearch"), "hybrid", current=str(path))
    two = clauses(names=["bm25", "vector"])
    with pytest.raises(ValueError, match="the model has 2 clauses of opensearch"):
        pr.deploy.export(learned(two), "hybrid", current=str(path))
