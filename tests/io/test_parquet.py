import json
import subprocess
import sys
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.comparing import assert_same
from support.strategies import EITHER_PRECISION, streams

import perceptrank as pr
from perceptrank.io import block_assembly, parquet, parquet_columns
from perceptrank.stream.blocks import as_blocks


@given(data=streams(dtypes=EITHER_PRECISION), layout=st.sampled_from(["columns", "list"]), size=st.integers(1, 2000))
def test_what_is_written_is_read(data, layout, size, tmp_path_factory):
    path = tmp_path_factory.mktemp("parquet") / "s.parquet"
    pr.write_parquet(data, path, layout=layout, row_group_bytes=size)
    assert_same(pr.read_parquet(path), data)
    scan = pr.scan_parquet(path, max_bytes=size)
    assert_same(pr.QueryStream.concatenate(scan), data)
    assert_same(pr.QueryStream.concatenate(scan), data)  # a second time
    file = pq.ParquetFile(path)
    ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
    assert set(ends.tolist()) <= set(data.offsets.tolist())  # no query is split


@pytest.mark.parametrize("layout", ["columns", "list"])
def test_others_read_it(stream, layout, tmp_path):
    path = tmp_path / "s.parquet"
    pr.write_parquet(stream, path, layout=layout)
    assert_same(pr.read_parquet(path, comments=True), stream)
    assert pr.read_parquet(path).comments is None
    for frame in (pd.read_parquet(path), pl.read_parquet(path), duckdb.sql(f"select * from '{path}'").pl()):
        back = pr.QueryStream.from_frame(frame)
        assert np.array_equal(back.X, stream.X)
        assert back.qids.tolist() == stream.qids.tolist()
        assert back.comments.tolist() == stream.comments.tolist()
        assert back.feature_names == (stream.feature_names if layout == "columns" else None)


def test_files_of_others(tmp_path, monkeypatch):
    """Row groups that split queries, other names and types, several files in a folder with what Spark leaves there."""
    monkeypatch.setattr(parquet_columns, "_READ_ROWS", 4)
    folder = tmp_path / "parts"
    folder.mkdir()
    frame = pd.DataFrame(
        {
            "query": pd.Categorical(np.repeat(["a", "b", "c"], [5, 1, 7])),
            "grade": np.arange(13) % 3,
            "one": np.arange(13, dtype=np.int64),
            "two": np.linspace(0, 1, 13),
            "words": "text",
        }
    )
    frame[:7].to_parquet(folder / "part-0.parquet", row_group_size=3)
    frame[7:].to_parquet(folder / "part-1.parquet", row_group_size=2)
    (folder / "_SUCCESS").write_text("")
    columns = {"qid": "query", "relevance": "grade", "features": ["two", "one"]}
    scanned = pr.QueryStream.concatenate(pr.scan_parquet(folder, max_bytes=1, **columns))
    expected = pr.QueryStream.from_arrays(
        frame[["two", "one"]].to_numpy(), frame["grade"], qid=frame["query"], feature_names=["two", "one"]
    )
    assert_same(scanned, expected)
    assert_same(pr.read_parquet(folder, **columns), expected)
    for read in (pr.read_parquet, pr.scan_parquet):  # text is no feature, unless it is said to be one
        with pytest.warns(UserWarning, match=r"part-0.parquet: columns of text are no features: words$"):
            (plain,) = as_blocks(read(folder, qid="query", relevance="grade"))
        assert plain.feature_names == ("one", "two")
    with pytest.raises(ValueError, match="'words' must hold numbers"):
        pr.read_parquet(folder, qid="query", relevance="grade", features=np.array(["one", "words"]))
    with pytest.raises(ValueError, match="no column 'qid', 'relevance'"):
        pr.scan_parquet(folder)


def test_documents_that_are_not_adjacent(tmp_path):
    path = tmp_path / "s.parquet"
    pd.DataFrame({"qid": [1, 2, 1], "relevance": [0, 1, 2], "x": [1.0, 2.0, 3.0]}).to_parquet(path)
    assert pr.read_parquet(path).X.ravel().tolist() == [1, 3, 2]
    with pytest.raises(ValueError, match="row 2: the documents of query 1 are not adjacent"):
        list(pr.scan_parquet(path))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1.0, np.nan]}, "X must be finite, got NaN at document 1, feature 0"),
        ({"x": pa.array([1.0, None])}, "row 1: column 'x' must not be missing"),
        ({"relevance": [0, -1]}, "not negative"),
        ({"qid": pa.array([None, 1])}, "row 0: column 'qid' must not be missing"),
        ({"x": ["a", "b"]}, "must hold numbers, got string"),
        ({"x": [[1.0], [1.0, 2.0]]}, "one length"),
        ({"qid": [[1], [2]]}, "'qid' must hold numbers or text, got list"),
        ({"relevance": [[1], [2]]}, "relevance must hold numbers"),
        ({"comment": [1, 2]}, "'comment' must hold text, got int64"),
        (
            {"x": pa.array([], pa.float64()), "qid": pa.array([], pa.int64()), "relevance": pa.array([], pa.int64())},
            "no documents",
        ),
    ],
)
def test_bad_content(columns, message, tmp_path):
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"qid": [1, 1], "relevance": [0, 1], "x": [1.0, 2.0]} | columns), path)
    kind = ValueError if message == "no documents" else pr.FormatError
    with pytest.raises(kind, match=message):
        pr.read_parquet(path, comments=True)
    with pytest.raises(kind, match=message):
        list(pr.scan_parquet(path, comments=True))


@pytest.mark.parametrize("key", ["perceptrank", "pandas"])
@pytest.mark.parametrize(
    "content", ["[]", "3", "{", "[" * 100_000, '{"feature_names": [[]], "index_columns": 7}', "\\ud800"]
)
def test_metadata_that_are_something_else(key, content, tmp_path):
    table = pa.table({"qid": [1, 1], "relevance": [0, 1], "x": [1.0, 2.0]})
    pq.write_table(table.replace_schema_metadata({key: content}), tmp_path / "s.parquet")
    with pytest.raises(pr.FormatError, match=r"s\.parquet is damaged: "):
        pr.read_parquet(tmp_path / "s.parquet")


def test_damaged_bytes(stream, tmp_path):
    path = tmp_path / "s.parquet"
    pr.write_parquet(stream, path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    n_errors = 0
    for _ in range(40):
        wrong = bytearray(whole)
        for i in rng.integers(len(whole), size=4):
            wrong[i] = rng.integers(256)
        path.write_bytes(wrong)
        try:
            pr.read_parquet(path)
        except pr.FormatError as error:
            assert str(path) in str(error)  # noqa: PT017
            n_errors += 1
    assert n_errors > 10


def few_bytes_for_many_rows(path, kind, n_rows=2**12, width=2**13):
    """Write 134 MB of zeros in a file of a few kB: what is repeated takes hardly any space."""
    zeros = pa.array(np.zeros(n_rows * width, np.float32))
    columns = {"qid": pa.array(np.arange(n_rows) // 2), "relevance": pa.array(np.zeros(n_rows))}
    if kind == "fixed":
        columns["x"] = pa.FixedSizeListArray.from_arrays(zeros, width)
    elif kind == "lists":
        columns["x"] = pa.ListArray.from_arrays(pa.array(np.arange(0, len(zeros) + 1, width, dtype=np.int32)), zeros)
    elif kind == "columns":
        columns |= {f"x{j}": zeros[:n_rows] for j in range(width // 32)}
    elif kind == "long ids":
        columns |= {
            "qid": pa.DictionaryArray.from_arrays(pa.array(np.arange(n_rows) % 2), pa.array(["a" * 2**15, "b"]))
        }
        columns |= {"x": zeros[:n_rows]}
    table = pa.table(columns)
    pq.write_table(table, path, store_schema=False, row_group_size=n_rows if kind != "lists" else n_rows // 4)


READ_FIRST_BLOCKS = """
import resource, sys
import pyarrow.parquet
import perceptrank as pr

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        size = next(iter(pr.scan_parquet(path, max_bytes=2**20))).X.nbytes
    except pr.FormatError as error:
        size = str(error)
    print(size)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_memory_is_bounded_whatever_the_width(tmp_path):
    paths = [tmp_path / kind for kind in ("fixed", "lists", "columns", "long ids")]
    for path in paths:
        few_bytes_for_many_rows(path, path.name)
        assert path.stat().st_size < 200_000
    printed = subprocess.check_output([sys.executable, "-c", READ_FIRST_BLOCKS, *map(str, paths)], text=True)
    *sizes, ids, mebibytes = printed.splitlines()
    assert max(map(int, sizes)) <= 4 * 2**20
    assert "not adjacent" in ids
    assert int(mebibytes) < 64


def test_what_cannot_be_read_in_pieces_is_refused(tmp_path, monkeypatch):
    """One list, or one page, may hold all that a row group unpacks to."""
    n = 2**20
    path = tmp_path / "s"
    uneven = pa.LargeListArray.from_arrays(pa.array([0, n, n + 1]), pa.array(np.zeros(n + 1)))
    tables = [
        pa.table({"qid": [1, 1], "relevance": [0, 1], "x": uneven}),
        pa.table({"qid": np.zeros(n), "relevance": np.zeros(n), "x": np.zeros(n)}),
    ]
    monkeypatch.setattr(parquet_columns, "_LEAST_LIMIT", 2**20)
    for table in tables:
        pq.write_table(table, path, use_dictionary=table is tables[0], compression="zstd")
        for read in (pr.read_parquet, lambda path: next(iter(pr.scan_parquet(path)))):
            with pytest.raises(pr.FormatError, match=r"a row group may unpack \d+ at once, .*smaller row groups"):
                read(path)


@pytest.mark.parametrize("n_groups", [1, 20])
def test_lengths_of_lists_are_known_before_they_are_read(n_groups, tmp_path):
    x = [[1.0, 2.0, 3.0]] * 10 + [[4.0]] * 10
    columns = {"qid": [1] * 20, "relevance": [0] * 20, "true": [True] * 20, "x": x, "map": [{"a": 1}] * 20}
    pq.write_table(pa.table(columns), tmp_path / "s", row_group_size=20 // n_groups)
    counts = parquet_columns.count_values(str(tmp_path / "s"), "x")
    assert counts == ([(20, 40)] if n_groups == 1 else [(1, 3)] * 10 + [(1, 1)] * 10)
    whole = (tmp_path / "s").read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    for end in range(0, length, 97):
        (tmp_path / "t").write_bytes(whole[-8 - length : -8][:end] + end.to_bytes(4, "little") + b"PAR1")
        with pytest.raises(ValueError, match="its footer is"):
            parquet_columns.count_values(str(tmp_path / "t"), "x")


def test_more_than_fits_in_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    pd.DataFrame({"qid": [1, 1], "relevance": [0, 1], "x": [1.0, 2.0]}).to_parquet(tmp_path / "s")
    monkeypatch.setattr(parquet, "free_memory", lambda: 15)
    with pytest.raises(MemoryError, match="scan_parquet reads block by block"):
        pr.read_parquet(tmp_path / "s")
    monkeypatch.setattr(parquet, "free_memory", lambda: 16)
    assert len(pr.read_parquet(tmp_path / "s")) == 1
    monkeypatch.setattr(block_assembly, "free_memory", lambda: 15)
    assert len(list(pr.scan_parquet(tmp_path / "s"))) == 1
    with pytest.raises(MemoryError, match=r"query 1 has 2 of them or more, and must fit into memory"):
        list(pr.scan_parquet(tmp_path / "s", max_bytes=8))


def test_bad_arguments(stream, tmp_path):
    path = tmp_path / "s.parquet"
    with pytest.raises(ValueError, match="layout must be one of"):
        pr.write_parquet(stream, path, layout="rows")
    with pytest.raises(ValueError, match="no queries"):
        pr.write_parquet([], path)
    with pytest.raises(ValueError, match="same columns"):
        pr.write_parquet([stream, pr.QueryStream.from_arrays(np.ones((2, 1)), [0, 1])], path)
    named = pr.QueryStream.from_arrays(np.ones((2, 1)), [0, 1], feature_names=["qid"])
    with pytest.raises(ValueError, match="names of columns"):
        pr.write_parquet(named, path)
    assert not list(tmp_path.iterdir())  # nothing half-written is left
    path.write_bytes(b"PAR1 and more")
    with pytest.raises(ValueError, match="not a Parquet file"):
        pr.read_parquet(path)
    pr.write_parquet(stream, path)
    other = tmp_path / "t.parquet"
    pr.write_parquet(pr.QueryStream.from_arrays(np.ones((2, 1)), [0, 1]), other)
    with pytest.raises(ValueError, match="different feature columns"):
        pr.read_parquet([path, other])


def test_without_pyarrow(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"perceptrank\[parquet\]"):
        pr.read_parquet(__file__)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(stream, library):
    frame = stream.to_frame(library)
    assert type(frame).__module__.startswith(library)
    assert list(frame.columns) == ["qid", "relevance", "x", "y", "ž", "comment"]
    assert_same(pr.QueryStream.from_frame(frame), stream)
    unnamed = pr.QueryStream.from_arrays(np.ones((2, 2)), [0, 1])
    assert list(unnamed.to_frame(library).columns) == ["qid", "relevance", "f1", "f2"]


def test_frames_of_others():
    with pytest.raises(ValueError, match="library must be one of"):
        pr.QueryStream.from_arrays([[1.0]], [1]).to_frame("dask")
    frame = pl.DataFrame({"qid": [1, 1], "relevance": [0, 1], "v": [[1.0, 2.0], [3.0, 4.0]]})
    assert pr.QueryStream.from_frame(frame).X.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="no feature columns"):
        pr.QueryStream.from_frame(frame[["qid", "relevance"]])
    numbers = pd.DataFrame({"qid": [1, 1], "relevance": [0, 1], "comment": [1.0, 2.0]})
    assert pr.QueryStream.from_frame(numbers).feature_names == ("comment",)


def test_an_index_of_pandas_is_no_feature(tmp_path):
    frame = pd.DataFrame({"qid": [2, 1], "relevance": [0, 1], "x": np.float32([1, 2])}).sort_values("qid")
    frame.to_parquet(tmp_path / "s.parquet")
    found = pr.read_parquet(tmp_path / "s.parquet")
    assert found.feature_names == ("x",)
    assert found.X.dtype == np.float32


def test_the_type_is_that_of_all_files(tmp_path):
    for name, values in {"a": np.float32([1]), "b": np.int64([16777217])}.items():
        pd.DataFrame({"qid": [name], "relevance": [1], "x": values}).to_parquet(tmp_path / name)
    for files in (["a", "b"], ["b", "a"]):
        found = pr.read_parquet([tmp_path / name for name in files])
        assert found.X.dtype == np.float64
        assert sorted(found.X.ravel()) == [1, 16777217]


def test_lists_of_other_lengths_in_another_file(tmp_path):
    for name, values in {"a": [[1.0]], "b": [[1.0, 2.0]]}.items():
        pq.write_table(pa.table({"qid": [name], "relevance": [1], "x": values}), tmp_path / name)
    with pytest.raises(ValueError, match="one length, got 1 and 2"):
        pr.read_parquet([tmp_path / "a", tmp_path / "b"])


def test_large_and_fractional_ids(tmp_path):
    for number, (ids, kept) in enumerate([(pa.array([2**63 + 5], pa.uint64()), [str(2**63 + 5)]), ([1.5], [1.5])]):
        path = tmp_path / str(number)
        pq.write_table(pa.table({"qid": ids, "relevance": [1], "x": [1.0]}), path)
        assert pr.read_parquet(path).qids.tolist() == kept


def test_progress(tmp_path, monkeypatch):
    monkeypatch.setattr("perceptrank.io.parquet_columns._READ_ROWS", 30)
    stream = pr.mslr_shaped(40, n_documents=5, n_features=4)
    pr.write_parquet(stream[:20], tmp_path / "a.parquet")
    pr.write_parquet(stream[20:], tmp_path / "b.parquet")
    steps = []
    for read in (pr.read_parquet, lambda *args, **named: list(pr.scan_parquet(*args, **named))):
        steps.clear()
        read([tmp_path / "a.parquet", tmp_path / "b.parquet"], progress=lambda *step: steps.append(step))
        assert steps[0] == (30, stream.n_documents)
        assert steps[-1] == (stream.n_documents, stream.n_documents)
        assert steps == sorted(steps)


def test_small_blocks_are_put_together(tmp_path):
    blocks = pr.separable_blocks(300, queries_per_block=1).blocks
    pr.write_parquet(blocks, tmp_path / "s.parquet")
    assert pq.ParquetFile(tmp_path / "s.parquet").num_row_groups == 1
    assert_same(pr.read_parquet(tmp_path / "s.parquet"), pr.separable(300).stream)


def test_blocks_that_differ_say_in_what(tmp_path):
    X = np.ones((2, 1))
    parts = [pr.QueryStream(X, [0, 1], [0, 2], qids=[qid]) for qid in (7, "q")]
    with pytest.raises(ValueError, match=r"got qid \(string\) in one only"):
        pr.write_parquet(parts, tmp_path / "s.parquet")


def test_frames_that_are_wrong():
    frame = pl.DataFrame({"qid": [1, 1], "relevance": [0, 1], "v": [[1.0, 2.0], [3.0]]})
    with pytest.raises(ValueError, match=r"lists of column 'v' must have one length, got \[1, 2\]"):
        pr.QueryStream.from_frame(frame)
    with pytest.raises(ValueError, match="at least one document"):
        pr.QueryStream.from_frame(pd.DataFrame({"qid": [], "relevance": [], "x": []}))


def test_columns_are_called_what_they_are_called(stream, tmp_path):
    """Not what was written beside them before another program changed the table."""
    for layout in ("columns", "list"):
        pr.write_parquet(stream, tmp_path / "a", layout=layout)
        table = pq.read_table(tmp_path / "a")
        if layout == "columns":
            pq.write_table(table.select(["qid", "relevance", "ž", "x"]), tmp_path / "b")
            found = pr.read_parquet(tmp_path / "b")
            assert found.feature_names == ("ž", "x")
            assert np.array_equal(found.X[:, 0], stream.X[:, 2])
            assert next(iter(pr.scan_parquet(tmp_path / "b"))).feature_names == ("ž", "x")
        assert pr.read_parquet(tmp_path / "a").feature_names == stream.feature_names


def test_decimals_and_missing_ids(tmp_path):
    duckdb.sql(f"copy (select 1 as qid, 1 as relevance, 0.5 as x) to '{tmp_path}/a' (format parquet)")
    assert pr.read_parquet(tmp_path / "a").X.tolist() == [[0.5]]
    pq.write_table(pa.table({"qid": [float("nan")], "relevance": [1], "x": [1.0]}), tmp_path / "b")
    for read in (pr.read_parquet, lambda path: list(pr.scan_parquet(path))):
        with pytest.raises(ValueError, match="qid must not be missing"):
            read(tmp_path / "b")


def test_comments_that_are_missing_in_a_frame():
    frame = pd.DataFrame({"qid": [1, 1], "relevance": [0, 1], "x": [1.0, 2.0], "comment": ["a", None]})
    assert pr.QueryStream.from_frame(frame).comments.tolist() == ["a", ""]


@pytest.mark.parametrize(
    "columns",
    [
        {"x": [1.0, np.nan], "y": pa.array([None, 2.0])},
        {"x": pa.array([1, None]), "y": pa.array([None, 2], pa.int16())},
        {"x": pa.array([True, None]), "y": pa.array([None, Decimal(2)])},
        {"features": pa.array([[1.0, None], [None, 2.0]])},
    ],
    ids=["floats", "integers", "others", "lists"],
)
def test_missing_features_are_kept_if_they_are_asked_for(columns, tmp_path):
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"qid": [1, 1], "relevance": [0, 1]} | columns), path)
    found = pr.read_parquet(path, missing="keep").X
    assert np.array_equal(found, [[1, np.nan], [np.nan, 2]], equal_nan=True)
    (block,) = pr.scan_parquet(path, missing="keep")
    assert np.array_equal(block.X, found, equal_nan=True)
    with pytest.raises(pr.FormatError, match="missing='keep'"):
        pr.read_parquet(path)
    with pytest.raises(ValueError, match="missing must be one of 'error', 'keep', 'zero', got 'drop'"):
        pr.scan_parquet(path, missing="drop")


def test_grades_and_queries_must_not_be_missing(tmp_path):
    path = tmp_path / "s.parquet"
    for name in ("qid", "relevance"):
        pq.write_table(pa.table({"qid": [1, 1], "relevance": [0, 1], "x": [1.0, 2.0]} | {name: [1, None]}), path)
        with pytest.raises(pr.FormatError, match=f"row 1: column '{name}' must not be missing$"):
            pr.read_parquet(path, missing="keep")


def sparse_stream(n=30, n_features=10**6, dtype=np.float32, **settings):
    rng = np.random.default_rng(3)
    sizes = rng.integers(0, 5, n)
    indices = np.concatenate([np.sort(rng.choice(n_features, size, replace=False)) for size in sizes])
    X = pr.SparseFeatures(rng.normal(size=len(indices)).astype(dtype), indices, [0, *np.cumsum(sizes)], n_features)
    return pr.QueryStream.from_arrays(X, rng.integers(3, size=n), group=[3] * (n // 3), **settings)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row_group_bytes", [1, 100, 2**20])
def test_sparse_streams_are_read_back_to_the_bit(tmp_path, dtype, row_group_bytes):
    stream = sparse_stream(dtype=dtype, comments=[f"document {i}" for i in range(30)])
    path = tmp_path / "sparse.parquet"
    pr.write_parquet(stream, path, row_group_bytes=row_group_bytes)
    assert_same(pr.read_parquet(path, comments=True), stream)
    blocks = list(pr.scan_parquet(path, comments=True, max_bytes=1))
    assert_same(pr.QueryStream.concatenate(blocks), stream)
    assert all(block.is_sparse for block in blocks)
    table = pq.read_table(path)
    assert table.column_names == ["qid", "relevance", "indices", "values", "comment"]
    assert table["indices"][0].as_py() == stream[0].X[:1].indices[: len(table["indices"][0])].tolist()


def test_sparse_features_keep_their_names_and_dense_ones_can_be_written_sparse(tmp_path):
    X = np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, 0]])
    stream = pr.QueryStream.from_arrays(X, [0, 1, 2], feature_names=["a", "b", "c"])
    path = tmp_path / "sparse.parquet"
    for blocks in (stream.to_sparse(), [stream.to_sparse()]):
        pr.write_parquet(blocks, path)
        assert_same(pr.read_parquet(path), stream.to_sparse())
    pr.write_parquet(stream, path, layout="sparse")
    assert_same(pr.read_parquet(path), stream.to_sparse())
    with pytest.raises(
        ValueError, match=r"sparse features have no layout 'list'; stream\.to_dense\(\) makes them dense"
    ):
        pr.write_parquet(stream.to_sparse(), tmp_path / "other.parquet", layout="list")
    assert not (tmp_path / "other.parquet").exists()


def test_blocks_of_other_numbers_of_sparse_features_are_not_written(tmp_path):
    blocks = [sparse_stream(n_features=100), sparse_stream(n_features=101)]
    with pytest.raises(ValueError, match="blocks must have the same features, got another number or other names"):
        pr.write_parquet(blocks, tmp_path / "sparse.parquet")
    for number, block in enumerate(blocks):
        pr.write_parquet(block, tmp_path / f"{number}.parquet")
    with pytest.raises(pr.FormatError, match=r"1\.parquet has 101 sparse features, the files before it 100"):
        pr.read_parquet([tmp_path / "0.parquet", tmp_path / "1.parquet"])


HOSTILE = {
    "indices must be from 0 to 4, got 5 in row 0": ([[5], [1]], [[1.0], [2.0]]),
    "indices must be from 0 to 4, got -1 in row 1": ([[0], [-1]], [[1.0], [2.0]]),
    "indices must be from 0 to 4, got 4294967296 in row 1": ([[0], [2**32]], [[1.0], [2.0]]),
    "indices must increase within a row, got 3 duplicated in row 1": ([[0], [3, 3]], [[1.0], [2.0, 3.0]]),
    "indices must increase within a row, got 2 after 3 in row 1": ([[0], [3, 2]], [[1.0], [2.0, 3.0]]),
    "the lists of 'indices' and 'values' must be of the same length in every row": ([[0, 1], [1]], [[1.0], [2.0, 3.0]]),
    "column 'values' must not be missing": ([[0], [1]], [[1.0], None]),
    "X must be finite, got NaN at document 1, feature 1": ([[0], [1]], [[1.0], [None]]),
    "indices must be a vector of whole numbers": ([[0], [None]], [[1.0], [2.0]]),
    "sparse features must be lists of whole numbers and of values": ([[0.5], [1]], [[1.0], [2.0]]),
    "sparse features must be lists of whole numbers and of values, got int64": ([0, 1], [[1.0], [2.0]]),
    "must hold numbers, got string": ([[0], [1]], [["x"], ["y"]]),
}


@pytest.mark.parametrize("problem", HOSTILE)
def test_sparse_columns_that_do_not_fit_together(tmp_path, problem):
    indices, values = HOSTILE[problem]
    table = pa.table({"qid": [1, 1], "relevance": [0, 1], "indices": indices, "values": values})
    metadata = {"perceptrank": json.dumps({"layout": "sparse", "n_features": 5, "feature_names": None})}
    path = tmp_path / "hostile.parquet"
    pq.write_table(table.replace_schema_metadata(metadata), path)
    for read in (pr.read_parquet, lambda path: list(pr.scan_parquet(path))):
        with pytest.raises(pr.FormatError) as error:
            read(path)
        assert str(error.value).startswith(str(path))
        assert problem in str(error.value)


@pytest.mark.parametrize("n_features", [0, -1, 2**31, 1.5, "5", None, True])
def test_a_number_of_sparse_features_that_is_none(tmp_path, n_features):
    path = tmp_path / "hostile.parquet"
    table = pa.table({"qid": [1], "relevance": [0], "indices": [[0]], "values": [[1.0]]})
    metadata = {"perceptrank": json.dumps({"layout": "sparse", "n_features": n_features, "feature_names": None})}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    with pytest.raises(pr.FormatError, match=r"hostile.parquet is damaged: n_features in its metadata must be"):
        pr.read_parquet(path)
