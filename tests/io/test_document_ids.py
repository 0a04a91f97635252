"""Ids of documents and query weights through every format."""

import io
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr

_DOCID = re.compile(rb"(?<![0-9A-Za-z_])docid\s*=\s*(\S+)")


@pytest.fixture
def stream():
    return pr.QueryStream.from_arrays(
        np.arange(10.0).reshape(5, 2) + 1,
        [1, 0, 2, 1, 0],
        qid=["a", "a", "b", "b", "b"],
        docids=["x", "ü", "", "https://shop/7#top", "w"],
        query_weights=[2, 0.5],
    )


def check_same(read, stream, *, weights=True):
    read = list(read) if not isinstance(read, pr.QueryStream) else [read]
    assert [one for block in read for one in (block.docids or [""] * block.n_documents)] == stream.docids.tolist()
    if weights:
        assert np.concatenate([block.query_weights for block in read]).tolist() == stream.query_weights.tolist()


@pytest.mark.parametrize("sparse", [False, True])
def test_store(stream, tmp_path, sparse):
    stream = stream.to_sparse() if sparse else stream
    plain = pr.QueryStream(stream.X, stream.relevance, stream.offsets)
    store = pr.write_store([plain, stream], tmp_path / "s")
    check_same(store, plain + stream)
    store.append(plain)
    store.append(stream)
    check_same(store, plain + stream + plain + stream)
    assert store[1:4].docids.tolist() == [""] * 3 + stream.docids.tolist()
    assert store[1:4].query_weights.tolist() == [1, 2, 0.5]
    assert store[2].weight == 2
    assert store[2].docids.tolist() == ["x", "ü"]
    store.verify()
    store.compact()
    check_same(pr.open_store(tmp_path / "s"), plain + stream + plain + stream)


def test_damaged_files_of_a_store(stream, tmp_path):
    pr.write_store(stream, tmp_path / "s")
    for kind, wrong, problem in (
        ("docid.starts", 99, "rise from 0"),
        ("query_weight", -1.0, "finite and not negative"),
    ):
        path = next((tmp_path / "s").glob(f"*.{kind}.npy"))
        before = path.read_bytes()
        array = np.load(path)
        array[1] = wrong
        path.write_bytes(before[: -array.nbytes] + array.tobytes())
        with pytest.raises(pr.FormatError, match=problem):
            pr.open_store(tmp_path / "s")
        path.write_bytes(before)


@pytest.mark.parametrize("layout", ["columns", "list", "sparse"])
def test_parquet(stream, tmp_path, layout):
    pytest.importorskip("pyarrow")
    path = tmp_path / "s.parquet"
    pr.write_parquet(stream, path, layout=layout)
    check_same(pr.read_parquet(path), stream)
    check_same(pr.scan_parquet(path, max_bytes=1), stream)
    assert pr.read_parquet(path).n_features == 2


def test_parquet_of_others(stream, tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "s.parquet"
    frame = stream.to_frame().rename(columns={"docid": "sku", "query_weight": "searches"})
    frame.to_parquet(path)
    with pytest.warns(UserWarning, match="columns of text are no features: sku"):
        assert "sku" not in pr.read_parquet(path).feature_names
    check_same(pr.read_parquet(path, docid="sku", weight="searches"), stream)
    numbered = frame.assign(sku=[7, 8, 9, 10, 11])
    numbered.to_parquet(path)
    assert pr.read_parquet(path, docid="sku").docids.tolist() == ["7", "8", "9", "10", "11"]
    with pytest.raises(pr.FormatError, match="has no column 'absent'"):
        pr.read_parquet(path, docid="absent")
    frame.assign(searches=[1.0, 2, 3, 3, 3]).to_parquet(path)
    with pytest.raises(ValueError, match=r"the same for all documents of a query, got 1.0 and 2.0 in query 'a'"):
        pr.read_parquet(path, docid="sku", weight="searches")
    with pytest.raises(ValueError, match="the same for all documents"):
        list(pr.scan_parquet(path, docid="sku", weight="searches"))
    assert isinstance(frame, pd.DataFrame)


@pytest.mark.parametrize("comments", [None, ["one", "", "two words", "docid = https://shop/7#top z", "docid = other"]])
@pytest.mark.parametrize("sparse", [False, True])
def test_letor(stream, tmp_path, sparse, comments):
    stream = stream.with_query_weights(None)
    named = pr.QueryStream(
        stream.X, stream.relevance, stream.offsets, qids=stream.qids, docids=stream.docids, comments=comments
    )
    path = tmp_path / "s.txt"
    pr.write_letor(named, path, sparse=sparse)
    check_same(pr.read_letor(path, sparse=sparse), stream, weights=False)
    check_same(pr.scan_letor(path, sparse=sparse, max_bytes=1), stream, weights=False)
    if comments is None:
        assert path.read_text().splitlines()[0].endswith(" # docid = x")
    else:
        again = pr.read_letor(path, comments=True)
        assert again.comments.tolist()[3] == comments[3]
        assert again.comments.tolist()[4] == "docid = w docid = other"
        pr.write_letor(again, tmp_path / "again.txt", sparse=sparse)
        assert (tmp_path / "again.txt").read_bytes() == path.read_bytes()


def test_letor_text_has_no_place_for_some(stream, tmp_path):
    with pytest.raises(ValueError, match="no place for query weights"):
        pr.write_letor(stream, tmp_path / "s.txt")
    pr.write_letor(stream.with_query_weights([1, 1]), tmp_path / "s.txt")
    spaced = pr.QueryStream(stream.X, stream.relevance, stream.offsets, docids=["a b", *"cdef"])
    with pytest.raises(ValueError, match="without spaces in LETOR text, got 'a b'"):
        pr.write_letor(spaced, tmp_path / "t.txt")
    assert not (tmp_path / "t.txt").exists()


@given(st.lists(st.text("docid =\tx#_é", max_size=18), min_size=1, max_size=6), st.booleans())
def test_ids_in_comments_are_what_a_pattern_finds(comments, keep):
    lines = [f"1 qid:{i} 1:1 #{comment}" for i, comment in enumerate(["docid = first", *comments])]
    expected = [found[1] if (found := _DOCID.search(line.partition("#")[2].encode())) else b"" for line in lines]
    read = pr.read_letor(io.BytesIO("\n".join(lines).encode()), comments=keep)
    assert read.docids.tolist() == [one.decode() for one in expected]


def test_files_with_and_without_ids(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:1 # free text\n0 qid:2 1:1 # docid = late\n")
    (tmp_path / "b.txt").write_text("1 qid:1 1:1 # docid = x inc = 1\n0 qid:3 1:1\n")
    assert pr.read_letor(tmp_path / "a.txt").docids is None
    assert pr.read_letor(tmp_path / "a.txt", comments=True).docids.tolist() == ["", "late"]
    both = pr.read_letor([tmp_path / "a.txt", tmp_path / "b.txt"])
    assert both.docids.tolist() == ["", "x", "", ""]
    assert pr.read_letor([tmp_path / "a.txt", tmp_path / "b.txt"], group=[2, 2]).docids.tolist() == ["", "", "x", ""]


def test_parquet_files_that_differ_in_ids_or_weights(stream, tmp_path):
    pytest.importorskip("pyarrow")
    pr.write_parquet(stream, tmp_path / "a.parquet")
    pr.write_parquet(stream.with_query_weights(None), tmp_path / "b.parquet")
    with pytest.raises(pr.FormatError, match=r"b\.parquet has no column 'query_weight', the files before it have"):
        pr.read_parquet([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    with pytest.raises(pr.FormatError, match=r"a\.parquet has a column 'query_weight', the files before it have"):
        pr.read_parquet([tmp_path / "b.parquet", tmp_path / "a.parquet"])


def test_weights_in_parquet_that_are_wrong(stream, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "s.parquet"
    stream.to_frame().assign(query_weight=-1.0).to_parquet(path)
    with pytest.raises(pr.FormatError, match=r"s\.parquet.*finite and not negative, got -1"):
        pr.read_parquet(path)


@pytest.mark.parametrize("comments", [None, ["", "a", "b"], ["free text", "a", ""]])
def test_ids_of_text_are_read_back_if_the_first_is_empty(tmp_path, comments):
    stream = pr.QueryStream(np.eye(3), [0, 1, 2], [0, 1, 3], docids=["", "", "c"], comments=comments)
    path = tmp_path / "judged.txt"
    for blocks in (stream, [stream[:1], stream[1:]]):
        pr.write_letor(blocks, path)
        for read in (pr.read_letor(path), pr.read_letor(path, comments=True), next(iter(pr.scan_letor(path)))):
            assert read.docids.tolist() == ["", "", "c"]


def test_ids_that_are_no_utf8_are_decoded_as_comments_are(tmp_path):
    path = tmp_path / "judged.txt"
    path.write_bytes("1 qid:1 1:1 # docid = ü\n".encode() + "0 qid:1 1:2 # docid = café\n".encode("latin-1"))
    stream = pr.read_letor(path, comments=True)
    assert stream.docids.tolist() == ["ü", "café"]
    assert stream.comments.tolist() == ["docid = ü", "docid = café"]
    for write, read, name in (
        (pr.write_letor, pr.read_letor, "again.txt"),
        (pr.write_parquet, pr.read_parquet, "again.parquet"),
        (pr.write_store, pr.open_store, "again.store"),
    ):
        write(stream, tmp_path / name)
        assert read(tmp_path / name).docids.tolist() == ["ü", "café"]


def test_a_block_of_parquet_without_ids_and_weights_after_one_with_them(stream, tmp_path):
    """As of text of which a long part has no ids."""
    bare = pr.QueryStream.from_arrays(stream.X[:2], [1, 0], qid=["c", "c"])
    path = tmp_path / "judged.parquet"
    for size in (1, 2**20):
        pr.write_parquet([stream, bare], path, row_group_bytes=size)
        check_same(pr.read_parquet(path), stream + bare)
    with pytest.raises(ValueError, match="blocks must have the same columns, got docid"):
        pr.write_parquet([bare, stream], path, row_group_bytes=1)


def test_queries_of_the_same_id_would_be_one_in_parquet(stream, tmp_path):
    for blocks in ([stream, stream], stream + stream, pr.QueryStream.concatenate([stream[1:], stream[1:]])):
        with pytest.raises(ValueError, match=r"query ids must be distinct in Parquet, got '[ab]' twice"):
            pr.write_parquet(blocks, tmp_path / "judged.parquet")
        assert not list(tmp_path.iterdir())
