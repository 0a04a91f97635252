"""Parity with engines that are asked over HTTP: Solr itself, and OpenSearch with a stand-in for the plugin it lacks."""

import base64
import json
import socket
import threading
import urllib.request
import warnings

import numpy as np
import pytest
from support import real_streams
from support.boundaries import around_edges, learned_bins
from support.engines import SOLR_CONFIG, opensearch_server, solr_server, write_solr_core
from support.ltr_stand_in import IndexesInMemory, LtrStandIn, RealIndexes, RefusalError, served
from support.ltr_stand_in import trees as tree_scores
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.deploy import fold, parity
from perceptrank.deploy.engines.elasticsearch import field_query
from perceptrank.deploy.exports import make_target
from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.io.engine_server import EngineError

FLOAT = np.finfo(np.float32).eps
NAMES = ["title bm25", 'quo"te', "naïve 検索", "perceptrank_p0", "recency"]


def make_case(seed=0, n_queries=12):
    """Documents with features of both signs, large, small and often 0, and a model that has learned them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=n_queries)
    n = sizes.sum()
    X = np.column_stack(
        [
            rng.exponential(10.0, n),
            rng.normal(-3.0, 2.0, n),
            rng.integers(0, 2, n) * rng.normal(size=n) * 1e-3,
            rng.integers(0, 3, n) * 1e4,
            rng.uniform(size=n),
        ]
    )
    grades = np.clip(np.round(X[:, 0] / 10 + 0.5 * X[:, 1] + X[:, 4]), 0, 3)
    stream = pr.QueryStream.from_arrays(X, grades, group=sizes, feature_names=NAMES)
    model = pr.ListwisePerceptron(transforms="running")
    model.learn(stream)
    return model, stream


@pytest.fixture(scope="module")
def case():
    return make_case()


@pytest.fixture
def stand_in():
    return LtrStandIn(IndexesInMemory())


@pytest.fixture
def url(stand_in):
    with served(stand_in) as address:
        yield address


@pytest.fixture(scope="module")
def opensearch():
    with opensearch_server() as address:
        yield address


@pytest.fixture(scope="module")
def solr(tmp_path_factory):
    home = tmp_path_factory.mktemp("solr")
    write_solr_core(home / "empty")
    write_solr_core(home / "full")
    write_solr_core(home / "plain", config="".join(line for line in SOLR_CONFIG.splitlines(True) if "ltr" not in line))
    with solr_server(home) as address:
        yield address


def fetched(url, body=None):
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read())


VERSIONS = ["2.19", "3.7", "3.8"]  # of the plugin
OPTIONS = [{}, {"normalizers": False}, {"shift": 7.5}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("target", ["opensearch", "elasticsearch"])
def test_the_stand_in_scores_as_the_emulation_does(case, stand_in, url, target, options):
    model, stream = case
    found = parity(model, stream, target, url=url, **options)
    assert found.agrees, found
    assert (found.queries, found.documents) == (12, stream.n_documents)
    assert found.engine == f"OpenSearch of a stand-in at {url}"
    assert found.difference == parity(model, stream, target, **options).difference
    assert not stand_in.stores
    assert not stand_in.indexes.kept


@pytest.mark.parametrize("options", OPTIONS)
def test_opensearch_computes_the_features(case, opensearch, options):
    """The real engine keeps the documents and scores the features' queries; the rest is that of a stand-in."""
    model, stream = case
    before = fetched(opensearch + "/_cat/indices?format=json&expand_wildcards=all")
    stand_in = LtrStandIn(RealIndexes(opensearch))
    with served(stand_in) as url:
        found = parity(model, stream, "opensearch", url=url, queries=6, **options)
    assert found.agrees, found
    assert found.engine == f"OpenSearch 2.19.2 (a stand-in for its plugin) at {url}"
    assert found.queries == 6
    assert found.difference == parity(model, stream[:6], "opensearch", **options).difference
    assert fetched(opensearch + "/_cat/indices?format=json&expand_wildcards=all") == before


@pytest.fixture(scope="module")
def trees():
    """A model of bins, and documents of float32 at the edges of these, right beside them, and beyond."""
    model, stream = learned_bins(["running", "bins:kind=one-hot,n_bins=6"], [*NAMES, "constant"])
    return model, around_edges(model, stream, np.float32)


@pytest.mark.parametrize("options", [{}, {"shift": "auto"}])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_stand_in_scores_trees_as_the_emulation_does(trees, version, options):
    """Features without negative values do not match documents at 0, for which versions of the plugin differ."""
    model, edges = trees
    stand_in = LtrStandIn(IndexesInMemory(), version=version)
    for target, documents in [("opensearch", edges.with_features(np.maximum(edges.X, 0.0))), ("elasticsearch", edges)]:
        with served(stand_in) as url:
            found = parity(model, documents, target, url=url, **options)
        assert found.agrees, found
        assert found.same == found.queries == len(edges)
        assert found.difference == parity(model, documents, target, **options).difference
        assert not stand_in.stores


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transforms", ["bins:kind=one-hot", "bins:kind=thermometer,n_bins=40"])
def test_features_that_do_not_match_are_0_in_trees(transforms, version):
    model, stream = learned_bins([transforms])
    X = np.where(np.random.default_rng(0).random(stream.X.shape) < 0.4, 0.0, stream.X)
    body = json.loads(pr.deploy.export(model, "opensearch").text)["model"]["model"]
    roots = json.loads(body["definition"])
    names = [f"f{j}" for j in range(1, X.shape[1] + 1)]
    values = {
        name: {i: np.float32(value) for i, value in enumerate(column) if value}
        for name, column in zip(names, X.T.tolist(), strict=True)
    }
    scores = [float(tree_scores(i, roots, values, version)) for i in range(len(X))]
    expected = model.predict(X)
    np.testing.assert_allclose(scores - expected, np.mean(scores - expected), atol=1e-5 * np.abs(expected).max())


def test_opensearch_computes_the_features_of_trees(trees, opensearch):
    with served(LtrStandIn(RealIndexes(opensearch))) as url:
        found = parity(*trees, "opensearch", url=url, queries=4)
    assert found.agrees, found
    assert found.same == found.queries == 4


@pytest.mark.parametrize("options", [{}, {"shift": "auto"}])
def test_solr_scores_trees_as_the_model_does(trees, solr, options):
    model, edges = trees
    found = parity(model, edges, "solr", url=f"{solr}/empty", **options)
    assert found.agrees, found
    assert found.same == found.queries == len(edges)
    assert found.difference == parity(model, edges, "solr", **options).difference  # the emulation is Solr's to the bit
    assert fetched(f"{solr}/empty/select?q=*:*")["response"]["numFound"] == 0


def test_opensearch_without_the_plugin(case, opensearch):
    for target in ("opensearch", "elasticsearch"):
        with pytest.raises(EngineError, match=rf"^{target} at {opensearch} has no learning-to-rank plugin: install it"):
            parity(*case, target, url=opensearch)
    assert fetched(opensearch + "/_cat/indices?format=json&expand_wildcards=all") == []


def test_opensearch_refuses_a_query_with_negative_scores(opensearch):
    """Hence features with negative values are differences."""
    indexes = RealIndexes(opensearch)
    mappings = {"mappings": {"properties": {"price": {"type": "float"}}}}
    indexes.answer("PUT", "/negative", json.dumps(mappings).encode())
    indexes.answer("PUT", "/negative/_doc/1?refresh=true", b'{"price": -0.5}')
    template = field_query("price")
    with pytest.raises(RefusalError, match="must not produce negative scores"):
        indexes.answer("POST", "/negative/_search", json.dumps({"query": template}).encode())
    indexes.answer("PUT", "/negative/_doc/1?refresh=true", b'{"price": 0.1}')
    found = indexes.answer("POST", "/negative/_search", json.dumps({"query": template}).encode())
    assert np.float32(found["hits"]["hits"][0]["_score"]) == np.float32(0.1)
    indexes.answer("DELETE", "/negative", None)


@pytest.mark.parametrize("options", OPTIONS)
def test_solr_over_http(case, solr, options):
    model, stream = case
    found = parity(model, stream, "solr", url=f"{solr}/empty", **options)
    assert found.agrees, found
    assert found.engine == f"Solr 8.11.4 at {solr}/empty"
    assert found.queries == 12
    assert found.difference == parity(model, stream, "solr", **options).difference  # the emulation is Solr's to the bit
    assert fetched(f"{solr}/empty/select?q=*:*")["response"]["numFound"] == 0
    assert fetched(f"{solr}/empty/schema/feature-store")["featureStores"] == []
    assert fetched(f"{solr}/empty/schema/model-store")["models"] == []


@pytest.mark.parametrize("how", ["standardised", "raw"])
def test_solr_scores_as_the_model_does(solr, learned_floats, how):
    model, stream = learned_floats()
    function, options = RankingFunction.of(model), {"normalizers": how == "standardised"}
    emulated, target = (make_target("solr", {**options, **where}) for where in ({}, {"url": f"{solr}/empty"}))
    scores = target.scores(function, target.export(function), stream.X, stream.offsets)
    expected, folded = model.predict(stream), fold(model)
    left_out = folded.constant if how == "raw" else 0.0
    size = np.abs(expected).max() if how == "standardised" else (np.abs(stream.X) @ np.abs(folded.weights)).max()
    assert np.abs(scores + left_out - expected).max() <= 4 * FLOAT * 30 * size
    # the emulation is Solr's to the bit
    np.testing.assert_array_equal(
        scores, emulated.scores(function, emulated.export(function), stream.X, stream.offsets)
    )


@pytest.mark.parametrize(("name", "queries"), [("MQ2008 Fold1 train", 40), ("MSLR sample", 5)])
def test_solr_ranks_a_real_stream_in_the_same_order(solr, name, queries):
    real = pr.read_letor(real_streams.find(name))
    model = pr.ListwisePerceptron(transforms="running")
    model.learn(real)
    found = parity(model, real, "solr", url=f"{solr}/empty", queries=queries)
    assert found.agrees, found
    assert found.reversed == 0
    assert found.queries == queries


def test_solr_refuses_and_is_left_as_it_was(case, solr):
    fetched(f"{solr}/full/update?commit=true", b'[{"key": "a"}]')
    with pytest.raises(ValueError, match=rf"needs an empty core .*{solr}/full has 1 documents"):
        parity(*case, "solr", url=f"{solr}/full")
    assert fetched(f"{solr}/full/select?q=*:*")["response"]["numFound"] == 1
    with pytest.raises(EngineError, match=r"is the learning-to-rank module in Solr, and the query parser ltr"):
        parity(*case, "solr", url=f"{solr}/plain")
    with pytest.raises(EngineError, match=r"nothing answered GET /admin/system\?wt=json with status 404"):
        parity(*case, "solr", url=f"{solr}/nothing")


def test_solr_answers_the_command(case, solr, tmp_path):
    model, stream = case
    model.save(tmp_path / "model.json")
    pr.write_letor(stream, tmp_path / "test.txt")
    words = ["parity", tmp_path / "model.json", tmp_path / "test.txt", "--to", "solr", "--float64", "--queries", 5]
    done = CliRunner().invoke(app, [*map(str, words), "--url", f"{solr}/empty"])
    assert done.exit_code == 0, done.output
    assert f"solr, Solr 8.11.4 at {solr}/empty: 5 queries" in done.stdout
    assert "they rank alike" in done.stdout


def test_another_order_is_found(case):
    model, stream = case

    def spoils(scores):
        return {one: -score for one, score in scores.items()}

    with served(LtrStandIn(IndexesInMemory(), spoils=spoils)) as url:
        found = parity(model, stream, "opensearch", url=url)
    assert not found.agrees
    assert found.reversed > 5


def test_what_an_engine_must_answer(case):
    model, stream = case
    for spoils, said in [
        (lambda scores: dict(list(scores.items())[1:]), "ranked .* documents of a query with"),
        (lambda scores: {one: np.float32("nan") for one in scores}, "returned scores that are not finite"),
    ]:
        stand_in = LtrStandIn(IndexesInMemory(), spoils=spoils)
        with served(stand_in) as url, pytest.raises((ValueError, OSError), match=said):
            parity(model, stream, "opensearch", url=url)
        assert not stand_in.stores
        assert not stand_in.indexes.kept


def test_a_live_engine_ranks_a_sample(stand_in, url):
    model, stream = make_case(1, n_queries=230)
    assert parity(model, stream, "opensearch", url=url).queries == 200
    assert parity(model, [stream[:150], stream[150:]], "opensearch", url=url, queries=151).queries == 151
    assert parity(model, stream, "opensearch").queries == 230
    assert parity(model, stream, "python", queries=3).queries == 3
    for queries in (0, 1.5, "all"):
        with pytest.raises(ValueError, match="queries must be"):
            parity(model, stream, "python", queries=queries)


def test_a_large_query_and_many_documents(stand_in, url):
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(1203, 2))
    stream = pr.QueryStream.from_arrays(X, rng.integers(0, 3, 1203), group=[1200, 3])
    model = pr.ListwisePerceptron(transforms="running")
    model.learn(stream)
    found = parity(model, stream, "opensearch", url=url)
    assert found.agrees
    assert sum(path.endswith("_bulk") for _, path in stand_in.asked) == 3


def test_credentials_are_used_and_never_shown(case, monkeypatch):
    model, stream = case
    wanted = "Basic " + base64.b64encode(b"ada:p@ss/word").decode()
    with served(LtrStandIn(IndexesInMemory(), authorization=wanted)) as url:
        host = url.removeprefix("http://")
        assert parity(model, stream, "opensearch", url=f"http://ada:p%40ss%2Fword@{host}", queries=1).agrees
        with pytest.raises(EngineError, match="wants other credentials: put them into the address") as raised:
            parity(model, stream, "opensearch", url=f"http://ada:secret@{host}")
        assert "secret" not in str(raised.value)
        assert f"opensearch at {url} wants" in str(raised.value)
        monkeypatch.setenv("PERCEPTRANK_AUTHORIZATION", wanted)
        found = parity(model, stream, "opensearch", url=url, queries=1)
        assert found.agrees
        assert "ada" not in str(found)
        monkeypatch.setenv("PERCEPTRANK_AUTHORIZATION", "ApiKey other")
        with pytest.raises(EngineError, match="wants other credentials"):
            parity(model, stream, "opensearch", url=url)
    target = pr.deploy.exports.make_target("opensearch", {"url": "http://ada:secret@host"})
    assert "secret" not in repr(target)


@pytest.mark.parametrize(
    "bad", ["localhost:9200", "ftp://u:secret@host", "http://", "http://host:x", "http://h/?q=secret"]
)
def test_addresses(case, bad):
    with pytest.raises(ValueError, match="url of opensearch must be like http://host:port") as raised:
        parity(*case, "opensearch", url=bad)
    assert "secret" not in str(raised.value)


def test_an_engine_that_is_not_there(case):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(EngineError, match=rf"solr at http://127.0.0.1:{port}/solr/x cannot be reached \(.*refused\)"):
        parity(*case, "solr", url=f"http://127.0.0.1:{port}/solr/x")


def test_an_engine_that_does_not_answer(case):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(EngineError, match=r"has not answered within 0.2 s: set the option timeout"):
            parity(*case, "opensearch", url=url, timeout=0.2)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "with status 302: Found"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "does not answer in JSON: it is not opensearch"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "does not tell its version: it is not opensearch"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>", "with status 502: Bad Gateway"),
        (b"", "cannot be reached"),
    ],
)
def test_something_else_at_the_address(case, reply, said):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(EngineError, match=said):
            parity(*case, "opensearch", url=f"http://127.0.0.1:{server.getsockname()[1]}", timeout=10)
        thread.join()


def test_what_was_made_is_removed_after_a_failure(case, stand_in, url):
    stand_in.failing["_createmodel"] = RefusalError(403, "no permissions")
    with pytest.raises(EngineError, match=r"does not permit POST /_ltr/.*_createmodel with these credentials: no perm"):
        parity(*case, "opensearch", url=url)
    assert not stand_in.stores
    stand_in.failing = {"_bulk": RefusalError(429, "too many requests")}
    with pytest.raises(EngineError, match="with status 429: too many requests"):
        parity(*case, "opensearch", url=url)
    assert not stand_in.stores
    assert not stand_in.indexes.kept


def test_what_cannot_be_removed_is_said(case, stand_in, url):
    real = stand_in.answer

    def answer(method, path, body, authorization):
        if method == "DELETE" and not path.startswith("/_ltr/"):
            raise RefusalError(403, "no deleting")
        return real(method, path, body, authorization)

    stand_in.answer = answer
    with pytest.warns(UserWarning, match=r"DELETE /perceptrank-parity-\w+ failed, remove it by hand"):
        assert parity(*case, "opensearch", url=url).agrees


def test_two_at_once_do_not_meet(case, stand_in, url):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(parity(*case, "opensearch", url=url).agrees)) for _ in range(3)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [True] * 3


def test_what_float32_cannot_hold_is_not_sent(stand_in, url):
    stream = pr.QueryStream.from_arrays([[1e39, 1.0], [2e39, 0.0]], [0, 1], feature_names=["a", "b"])
    model = pr.FixedRanker({"a": 1e-30, "b": 1.0})
    model.learn(stream)
    with pytest.raises(ValueError, match="float32, which cannot hold some values of the features"):
        parity(model, stream, "opensearch", url=url)
    assert not any(path.endswith("_bulk") for _, path in stand_in.asked)


def test_the_address_of_a_live_engine_is_given_once(tmp_path, case):
    model, stream = case
    model.save(tmp_path / "model.json")
    pr.write_letor(stream, tmp_path / "test.txt")
    words = ["parity", str(tmp_path / "model.json"), str(tmp_path / "test.txt"), "--to", "opensearch"]
    done = CliRunner().invoke(app, [*words, "--url", "http://a:1", "--set", "url=http://b:1"])
    assert done.exit_code == 1
    assert "url is given twice" in done.stderr
    done = CliRunner().invoke(app, [*words[:-1], "python", "--url", "http://a:1"])
    assert done.exit_code == 1
    assert "the target python has no options, got 'url'" in done.stderr
