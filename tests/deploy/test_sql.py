"""Queries in SQL, run by DuckDB in this process and by a PostgreSQL server that the tests start."""

import shutil

import numpy as np
import pytest
from support import real_streams

import perceptrank as pr
from perceptrank.deploy.engines.sql import MOST_COLUMNS, SqlQuery

TRANSFORMS = [None, "running", "running-spread", ["running", "running"]]


def model_of(n_features, names=None, seed=0, sparse=False):
    """A model with a weight for every feature, and documents."""
    X = np.random.default_rng(seed).normal(5, 2, size=(8, n_features))
    stream = pr.QueryStream.from_arrays(X, np.arange(8) % 3, feature_names=names)
    stream = stream.to_sparse() if sparse else stream
    model = pr.ListwisePerceptron(transforms="running")
    model.learn(stream)
    return model, stream


@pytest.fixture(params=["duckdb", pytest.param("postgresql", marks=pytest.mark.engine)])
def database(request):
    """Options for a database that is there."""
    if request.param == "duckdb":
        pytest.importorskip("duckdb")
        return {"dialect": "duckdb"}
    return {"dialect": "postgresql", "url": request.getfixturevalue("postgresql")}


@pytest.mark.parametrize("transforms", TRANSFORMS, ids=str)
def test_databases_score_as_the_model_does(learned, stream, database, transforms):
    found = pr.deploy.parity(learned(transforms), stream, "sql", **database)
    assert found.agrees
    assert (found.same, found.queries, found.documents) == (40, 40, stream.n_documents)
    assert found.engine.startswith({"duckdb": "DuckDB ", "postgresql": "PostgreSQL "}[database["dialect"]])


def test_columns_of_any_name_and_of_all_limits(database):
    names = ["place", "Place ", 'a"b', "ä\n;--", "x'y", ":x", "\\q", "n" * 63, "select", "%s", "$1"]
    model, stream = model_of(len(names), names)
    assert pr.deploy.parity(model, stream, "sql", **database, table="shop.docs", score="points").same == 1
    assert pr.deploy.parity(*model_of(MOST_COLUMNS), "sql", **database).agrees


def test_sparse_models(database):
    found = pr.deploy.parity(*model_of(30, sparse=True), "sql", **database)
    assert found.agrees
    assert "a feature that is NULL counts as 0, as those that are absent did in learning" in found.notes


def test_thousands_of_terms_are_not_too_deep_for_duckdb():
    pytest.importorskip("duckdb")
    assert pr.deploy.parity(*model_of(1500), "sql").agrees


def test_sums_are_short_however_many_features_there_are():
    """DuckDB's time to plan grows with depth x terms, so that sums are of few terms, groups or groups of groups."""
    n = 3000
    model = pr.FixedRanker({f"f{j}": 1.0 + j for j in range(n)})
    text = pr.deploy.export(model, "sql").text
    assert text.count(" * ") == n
    lengths, longest = [1], 1
    for character in text:
        if character == "(":
            lengths.append(1)
        elif character == ")":
            longest = max(longest, lengths.pop())
        elif character == "+":
            lengths[-1] += 1
    assert max(longest, *lengths) <= 50
    X = np.random.default_rng(0).normal(size=(3, n))
    folded = pr.deploy.fold(model)
    duckdb = pytest.importorskip("duckdb")
    assert duckdb is not None
    scores = SqlQuery().run(folded, text, X)
    np.testing.assert_allclose(scores, X @ folded.weights, rtol=1e-12)


def test_the_exported_text_itself_is_asked(learned, stream, database, monkeypatch):
    """A query that was changed after it was written is found, whatever its table is called."""
    table = {"table": 'shop."x"\nFROM y'}
    assert pr.deploy.parity(learned(), stream, "sql", **database, **table).agrees
    write = SqlQuery.write

    def tampered(self, folded):
        text, notes = write(self, folded)
        return text.replace(" * (", " * (1 + ", 1), notes

    monkeypatch.setattr(SqlQuery, "write", tampered)
    assert not pr.deploy.parity(learned(), stream, "sql", **database, **table).agrees


def test_the_text_runs_as_a_view_over_columns_of_other_types():
    """As docs/deploy.md says, with REAL and integer columns, NULL, and a schema."""
    duckdb = pytest.importorskip("duckdb")
    model, _ = model_of(2, ["price", "stock"])
    text = pr.deploy.export(model, "sql", table="shop.documents").text
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA shop; CREATE TABLE shop.documents (id INTEGER, price REAL, stock INTEGER)")
        connection.execute("INSERT INTO shop.documents VALUES (1, 0.1, 3), (2, 7.5, 4), (3, NULL, 1)")
        connection.execute(f"CREATE VIEW scored AS {text}")
        found = dict(connection.execute("SELECT id, score FROM scored").fetchall())
    expected = model.predict(np.array([[np.float32(0.1), 3.0], [7.5, 4.0]], dtype=np.float64))
    np.testing.assert_allclose([found[1], found[2]], expected, rtol=1e-14)
    assert found[3] is None


def test_what_sql_cannot_take_is_refused():
    def refused(names, said, **options):
        with pytest.raises(ValueError, match=said):
            pr.deploy.export(model_of(len(names), names)[0], "sql", **options)

    refused(["Price", "price"], "DuckDB does not distinguish the columns 'Price' and 'price'")
    assert pr.deploy.export(model_of(2, ["Price", "price"])[0], "sql", dialect="postgresql").notes
    refused(["a", "n" * 64], "PostgreSQL cuts names off after 63 bytes", dialect="postgresql")
    refused(["a", "score"], "a feature is called 'score', as the column of scores: set the option score")
    refused(["a", "b\0"], "zero byte")
    refused(["a", "b\ud800"], r"SQL cannot hold a column called 'b\\ud800'.*UTF-8")
    refused(
        ["a", "b"], "dialect of the target sql must be one of 'duckdb', 'postgresql', got 'oracle'", dialect="oracle"
    )
    refused(["a", "b"], "table of the target sql must be a name, got 'a..b'", table="a..b")
    with pytest.raises(ValueError, match="at most 1000 columns of double precision, and 1001"):
        pr.deploy.export(model_of(MOST_COLUMNS + 1)[0], "sql", dialect="postgresql")


@pytest.mark.skipif(shutil.which("psql") is None, reason="there is no program psql")
def test_a_server_that_is_not_there_is_said(tmp_path):
    model, stream = model_of(2)
    with pytest.raises(OSError, match=r"psql failed with status 2: .*connection"):
        pr.deploy.parity(model, stream, "sql", dialect="postgresql", url=f"host={tmp_path}")


@pytest.mark.parametrize("name", ["MSLR sample", "MQ2008 Fold1 train"])
def test_real_streams_are_in_the_same_order(name, database):
    real = pr.read_letor(real_streams.find(name))
    model = pr.ListwisePerceptron(transforms="running")
    model.learn(real)
    found = pr.deploy.parity(model, real[:100], "sql", **database)
    assert found.agrees
    assert found.same == found.queries
