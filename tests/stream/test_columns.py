"""Columns that a plugin declares go wherever a stream goes."""

import pickle
import sys

import numpy as np
import pytest
from support.comparing import assert_same

import perceptrank as pr
from perceptrank.distributed.packing import pack, unpack
from perceptrank.learners import registry
from perceptrank.stream import columns

PLUGIN = """
import numpy as np
from perceptrank.stream import columns

def are_probabilities(values):
    return np.isnan(values) | ((values > 0) & (values <= 1))

columns.declare("in_stock", per="document", dtype=bool, fill=False)
columns.declare("margin_share", per="document", fill=np.nan, check=are_probabilities, rule="must be a probability > 0")
columns.declare("title", per="document", dtype="text", fill="")
columns.declare("campaign", per="query", dtype="id", fill="")
columns.declare("day", per="query", dtype="datetime64[D]", fill=np.datetime64("NaT", "D"))
"""


@pytest.fixture(autouse=True)
def plugin(tmp_path, monkeypatch):
    """Load a plugin that defines nothing but columns."""
    before = set(sys.modules)
    monkeypatch.setattr(columns, "_declared", dict(columns._declared))
    monkeypatch.setattr(registry, "_plugins", {})
    path = tmp_path / "clicks.py"
    path.write_text(PLUGIN)
    registry.load_file(path)
    yield path
    for name in set(sys.modules) - before:
        if name.startswith("perceptrank_plugin_"):
            del sys.modules[name]


@pytest.fixture
def stream():
    rng = np.random.default_rng(0)
    sizes = [3, 1, 4, 2, 5]
    n = sum(sizes)
    return pr.QueryStream.from_arrays(
        rng.normal(size=(n, 2)).astype(np.float32),
        rng.integers(3, size=n),
        qid=np.repeat(list("abcde"), sizes),
        docids=[f"d{i}" for i in range(n)],
        columns={
            "in_stock": rng.random(n) < 0.5,
            "margin_share": np.where(rng.random(n) < 0.3, np.nan, rng.uniform(0.1, 1, n)),
            "title": [f"title {i}" if i % 3 else "" for i in range(n)],
            "campaign": [f"s{q}" for q in range(5)],
            "day": np.arange("2026-11-01", "2026-11-06", dtype="datetime64[D]"),
        },
        feature_names=["x", "y"],
    )


def same(one, other):
    """Compare streams; NaN equals NaN."""
    assert_same(*(part.with_columns({"margin_share": None, "day": None}) for part in (one, other)))
    for name in ("margin_share", "day"):
        assert one.columns[name].dtype == other.columns[name].dtype
        np.testing.assert_array_equal(one.columns[name], other.columns[name])


def plain(stream):
    """Return the stream without the plugin's columns."""
    return stream.with_columns(dict.fromkeys(("in_stock", "margin_share", "title", "campaign", "day")))


def test_queries(stream):
    query = stream[2]
    assert query.columns["in_stock"].tolist() == stream.columns["in_stock"][4:8].tolist()
    assert query.columns["title"].tolist() == stream.columns["title"][4:8].tolist()
    assert query.columns["campaign"] == "s2"
    assert query.columns["day"] == np.datetime64("2026-11-03")
    assert not plain(stream)[2].columns
    assert pickle.loads(pickle.dumps(query)).columns["campaign"] == "s2"


def test_slices_shuffles_splits_blocks_and_joins(stream):
    assert stream[1:3].columns["campaign"].tolist() == ["s1", "s2"]
    assert stream[1:3].columns["in_stock"].tolist() == stream.columns["in_stock"][3:8].tolist()
    assert stream[[3, 0]].columns["title"].tolist() == ["title 8", "", "", "title 1", "title 2"]
    shuffled = stream.shuffled(3, documents=True)
    of_document = {docid: i for i, docid in enumerate(stream.docids)}
    rows = [of_document[docid] for docid in shuffled.docids]
    assert rows != sorted(rows)
    for name in ("in_stock", "margin_share"):
        np.testing.assert_array_equal(shuffled.columns[name], stream.columns[name][rows])
    assert shuffled.columns["campaign"].tolist() == [f"s{'abcde'.index(qid)}" for qid in shuffled.qids]
    same(pr.QueryStream.concatenate(stream.split(0.4, 0.2)), stream)
    same(pr.QueryStream.concatenate(stream.blocks(1)), stream)
    same(pickle.loads(pickle.dumps(stream)), stream)


def test_a_stream_without_the_columns_gets_what_stands_for_missing_values(stream):
    joined = stream[:2] + plain(stream)[2:3]
    assert joined.columns["in_stock"].tolist() == [*stream.columns["in_stock"][:4].tolist(), False, False, False, False]
    assert np.isnan(joined.columns["margin_share"][4:]).all()
    assert joined.columns["campaign"].tolist() == ["s0", "s1", ""]
    assert np.isnat(joined.columns["day"][2])
    columns.declare("shelf", per="document", dtype=np.int32)
    placed = stream.with_columns({"shelf": np.arange(15)})
    assert placed.columns["shelf"].dtype == np.int32
    with pytest.raises(ValueError, match="all sources must have the column 'shelf', or none of them"):
        placed + stream


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(stream, library):
    pytest.importorskip(library)
    frame = stream.to_frame(library)
    assert list(frame.columns)[-6:] == ["docid", "in_stock", "margin_share", "title", "campaign", "day"]
    same(pr.QueryStream.from_frame(frame), stream)
    assert pr.QueryStream.from_frame(frame, features=["margin_share", "x"], missing="keep").feature_names == (
        "margin_share",
        "x",
    )


def test_rows_in_any_order(stream):
    frame = stream.to_frame("pandas")
    again = pr.QueryStream.from_frame(frame.sample(frac=1, random_state=0))
    assert sorted(zip(again.docids, again.columns["in_stock"], strict=True)) == sorted(
        zip(stream.docids, stream.columns["in_stock"], strict=True)
    )
    assert dict(zip(again.qids, again.columns["campaign"], strict=True)) == dict(
        zip("abcde", stream.columns["campaign"], strict=True)
    )


def test_stores(stream, tmp_path):
    store = pr.write_store(iter([plain(stream)[:1], stream[1:3]]), tmp_path / "s")
    assert store.columns["campaign"].tolist() == ["", "s1", "s2"]
    assert store.columns["in_stock"].tolist() == [False, False, False, *stream.columns["in_stock"][3:8].tolist()]
    store = pr.write_store(stream[:2], tmp_path / "t")
    store.append(stream[2:4])
    store.append(plain(stream)[4:])
    opened = pr.open_store(tmp_path / "t")
    same(opened[:4], stream[:4])
    assert opened.columns["title"].tolist() == [*stream.columns["title"].tolist()[:10], *[""] * 5]
    assert opened[3].columns["campaign"] == "s3"
    opened.compact()
    same(pr.open_store(tmp_path / "t")[:4], stream[:4])
    columns.withdraw("campaign")
    with pytest.raises(pr.FormatError, match="has a column 'campaign' that is not declared here"):
        pr.open_store(tmp_path / "t")


@pytest.mark.parametrize("layout", ["columns", "list", "sparse"])
def test_parquet(stream, tmp_path, layout):
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    expected = stream.to_sparse() if layout == "sparse" else stream
    pr.write_parquet(stream, path, layout=layout)
    same(pr.read_parquet(path), expected)
    same(pr.QueryStream.concatenate(pr.scan_parquet(path, max_bytes=1)), expected)
    pr.write_parquet(iter([stream[:2], plain(stream)[2:]]), path)
    assert pr.read_parquet(path).columns["campaign"].tolist() == ["s0", "s1", "", "", ""]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_tables(stream, tmp_path, suffix):
    pl = pytest.importorskip("polars")
    path = tmp_path / f"a.{suffix}"
    frame = stream.to_frame("polars").with_columns(pl.col("margin_share").fill_nan(None), pl.col("day").cast(pl.String))
    write = frame.write_csv if suffix == "csv" else frame.write_ndjson
    write(path)
    read = pr.read_table(path)
    assert read.feature_names == ("x", "y")
    same(read, stream)
    same(pr.QueryStream.concatenate(pr.scan_table(path, max_bytes=1)), stream)
    judged = ["qid", "docid", "relevance", "in_stock", "campaign"]
    frame.select(judged).write_csv(tmp_path / "judged.csv")
    frame.select("qid", "docid", "x", "y", "margin_share", "title", "day").write_csv(tmp_path / "features.csv")
    same(pr.read_table(tmp_path / "judged.csv", tmp_path / "features.csv"), stream)
    (tmp_path / "more.csv").write_text("qid,docid,relevance,x,y\nf,d15,1,0.5,0.5\n")
    both = pr.read_table([path, tmp_path / "more.csv"])
    assert both.columns["campaign"].tolist() == ["s0", "s1", "s2", "s3", "s4", ""]


def test_wrong_cells_of_tables_are_named(tmp_path):
    pytest.importorskip("polars")
    for rows, problem in [
        ("a,1,0.5,2,s\na,0,0.1,1,s", r"a.csv:2:4: in_stock must be bool \(column 'in_stock'\), got '2'"),
        ("a,1,0.5,1,s\na,0,0.1,x,s", r"a.csv:3:4: in_stock must be a number \(column 'in_stock'\), got 'x'"),
        ("a,1,0.5,1,s\na,0,0.1,,s", r"a.csv:3:4: in_stock must be bool \(column 'in_stock'\), got ''"),
        ("a,1,0.5,1,s\na,0,0.1,1,t", r"a.csv:3:1: query 'a' has two values of campaign, s and t"),
    ]:
        (tmp_path / "a.csv").write_text(f"qid,relevance,x,in_stock,campaign\n{rows}\n")
        with pytest.raises(pr.FormatError, match=problem):
            pr.read_table(tmp_path / "a.csv")


def test_letor_text_has_no_place_for_them(stream, tmp_path):
    with pytest.raises(ValueError, match="LETOR text has no place for the column 'campaign'"):
        pr.write_letor(stream, tmp_path / "a.txt")
    pr.write_letor(plain(stream), tmp_path / "a.txt")
    assert len(pr.read_letor(tmp_path / "a.txt")) == 5


def test_values_are_checked(stream):
    with pytest.raises(ValueError, match=r"margin_share must be a probability > 0, got 1.5 at document 1"):
        stream.with_columns({"margin_share": [1, 1.5] + [1] * 13})
    with pytest.raises(ValueError, match=r"in_stock must be bool, got 2.0 at document 0"):
        stream.with_columns({"in_stock": [2.0] * 15})
    with pytest.raises(ValueError, match=r"campaign must be the same for all documents of a query, got 'a' and 'b' in"):
        stream.with_columns({"campaign": ["a", "b"] + ["c"] * 13})
    with pytest.raises(ValueError, match="the column 'nothing' is not declared"):
        stream.with_columns({"nothing": [1.0] * 15})
    with pytest.raises(ValueError, match="day must be datetime64"):
        stream.with_columns({"day": ["yesterday"] * 5})


def test_declarations(plugin):
    registry.load_file(plugin)  # once more is no contradiction
    for options, problem in [
        ({"name": "in_stock", "per": "query"}, "the column 'in_stock' is declared already, as bool per document"),
        ({"name": "docid", "per": "document"}, "the column 'docid' is declared already"),
        ({"name": "Some name", "per": "document"}, "name must be lower-case letters"),
        ({"name": "values", "per": "document"}, "name must be lower-case letters"),
        ({"name": "other", "per": "row"}, "per must be one of 'document', 'query', got 'row'"),
        ({"name": "other", "per": "query", "dtype": object}, "dtype must be numbers, booleans, dates"),
        ({"name": "other", "per": "query", "dtype": int, "fill": 0.5}, "other must be int64, got 0.5"),
    ]:
        with pytest.raises(ValueError, match=problem):
            columns.declare(**options)


def test_a_plugin_that_fails_declares_nothing(tmp_path):
    path = tmp_path / "fails.py"
    path.write_text("from perceptrank.stream import columns\ncolumns.declare('late', per='query')\nraise OSError('no')")
    with pytest.raises(ValueError, match="cannot be run: OSError: no"):
        registry.load_file(path)
    assert "late" not in columns.declared()


def test_workers_know_the_columns(stream):
    dumps = pytest.importorskip("distributed.protocol.pickle").dumps
    columns.declare("shelf", per="document", dtype=np.int32)  # in no plugin
    packed = pack(stream.with_columns({"shelf": np.arange(15)}), dumps)
    registry._plugins.clear()
    for column in columns.added_columns():
        columns.withdraw(column.name)
    unpacked = unpack(packed)
    same(unpacked.with_columns({"shelf": None}), stream)
    assert [column.name for column in columns.added_columns()] == [
        "in_stock",
        "margin_share",
        "title",
        "campaign",
        "day",
        "shelf",
    ]


def test_parts_of_dask(stream):
    dd = pytest.importorskip("dask.dataframe")
    from perceptrank.distributed.dask_parts import dask_shards

    frame = dd.from_pandas(stream.to_frame("pandas"), npartitions=3)
    shards = dask_shards(frame, 2, assume_grouped=False, options={})
    read = pr.QueryStream.concatenate(block for shard in shards for block in [shard.blocks()] if block)
    order = np.argsort(read.qids)
    same(read[order], stream)


def test_a_column_is_no_feature_of_a_dask_frame(stream):
    dd = pytest.importorskip("dask.dataframe")
    ranker = pr.Perceptron(transforms=None)
    ranker.learn(pr.QueryStream.from_arrays(stream.X, stream.relevance, group=np.diff(stream.offsets)))
    frame = dd.from_pandas(stream.to_frame("pandas"), npartitions=1)
    scores = pr.distributed.predict(ranker, frame).compute(scheduler="synchronous")
    assert scores.tolist() == ranker.predict(stream).tolist()
