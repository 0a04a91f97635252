"""Shards that are parts of files and streams: whole queries, all of them, in their order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples

import perceptrank as pr
from perceptrank.distributed import learn
from perceptrank.distributed.shards import as_shards
from perceptrank.distributed.splitting import cuts_of, pieces_of
from perceptrank.stream.blocks import as_blocks


@pytest.fixture(scope="module")
def stream():
    return pr.mslr_shaped(60, n_documents=8, n_features=5, seed=0)


def joined(shards):
    """Return the queries of shards, of which each has some."""
    parts = [pr.QueryStream.concatenate(as_blocks(one.blocks())) for one in shards]
    assert all(len(part) for part in parts)
    return parts, pr.QueryStream.concatenate(parts)


def assert_same(one, other):
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.relevance, other.relevance)
    np.testing.assert_array_equal(one.offsets, other.offsets)
    assert list(map(str, one.qids)) == list(map(str, other.qids))


@pytest.fixture(scope="module")
def kinds(stream, tmp_path_factory):
    """The same queries as files of all kinds that can be split, and in memory."""
    folder = tmp_path_factory.mktemp("kinds")
    pr.write_letor(stream, folder / "all.txt")
    names = "".join(f"#{j}:feature{j}\n" for j in range(1, 6))
    text = (folder / "all.txt").read_text().splitlines(keepends=True)
    (folder / "named.txt").write_text(
        names + "".join(one + ("\n# between\n" if n % 7 == 0 else "") for n, one in enumerate(text))
    )
    store = pr.write_store(stream[:13], folder / "all.store")
    store.append(stream[13:14])
    store.append(stream[14:])
    return {
        "text": folder / "all.txt",
        "text with names": folder / "named.txt",
        "store": folder / "all.store",
        "open store": pr.open_store(folder / "all.store"),
        "memory": stream,
    }


@pytest.mark.parametrize("kind", ["text", "text with names", "store", "open store", "memory"])
@pytest.mark.parametrize("n", [2, 3, 8, 59, 60, 1000])
def test_no_query_is_split_or_lost(kinds, stream, kind, n):
    shards = as_shards([kinds[kind]], n)
    parts, whole = joined(shards)
    assert_same(whole, stream)
    assert 1 < len(parts) <= min(n, 60)
    if n <= 8:
        assert len(parts) == n
        assert max(part.n_documents for part in parts) < 1.7 * stream.n_documents / n
    if kind == "text with names":
        assert {part.feature_names for part in parts} == {tuple(f"feature{j}" for j in range(1, 6))}
    assert len({str(one.fingerprint()) for one in shards}) == len(shards) or n >= 59 or kind in ("memory", "open store")


def test_parts_of_a_store_are_learned_as_slices_of_it(kinds, stream):
    cuts = cuts_of(stream.offsets, 4)
    expected = learn(pr.ListwisePerceptron(), [stream[first:last] for first, last in cuts], epochs=2)
    for kind in ("store", "open store", "memory"):
        made = learn(pr.ListwisePerceptron(), kinds[kind], epochs=2, shards=4)
        assert made.ranker.as_document() == expected.ranker.as_document(), kind


@pytest.mark.parametrize("shards", [1, 3])
def test_features_are_those_that_were_asked_for(stream, tmp_path, shards):
    """Those of a ranker that goes on, whatever columns the file has beside them; sparse or dense."""
    named = stream.with_features(stream.X, feature_names=("a", "b", "c", "d", "e"))
    pr.write_store(named, tmp_path / "all.store")
    parts, whole = joined(as_shards([tmp_path / "all.store"], shards, {"names": ("d", "a"), "sparse": True}))
    assert len(parts) == shards
    assert whole.is_sparse
    assert whole.feature_names == ("d", "a")
    np.testing.assert_array_equal(whole.to_dense().X, stream.X[:, [3, 0]])


def test_text_that_leaves_out_zeros_has_one_width(tmp_path):
    """The largest number of a feature is in one part alone."""
    lines = [f"{d % 2} qid:{q} 1:{q + d}{' 7:1' if q == 11 else ''}\n" for q in range(30) for d in range(4)]
    (tmp_path / "all.txt").write_text("".join(lines))
    parts, whole = joined(as_shards([tmp_path / "all.txt"], 5))
    assert [part.n_features for part in parts] == [7] * 5
    assert_same(whole, pr.read_letor(tmp_path / "all.txt"))


def test_a_wrong_line_of_a_part_names_the_file(tmp_path, stream):
    pr.write_letor(stream, tmp_path / "all.txt")
    shards = as_shards([tmp_path / "all.txt"], 4)
    text = (tmp_path / "all.txt").read_text()
    (tmp_path / "all.txt").write_text(text[:-3] + "x:\n")
    assert sum(len(block) for one in shards[:3] for block in one.blocks()) > 30
    with pytest.raises(pr.FormatError, match=r"all.txt, bytes \d+ to \d+:\d+:\d+: .*x:"):
        list(shards[3].blocks())


def test_large_files_are_split_before_small_ones(kinds, stream, tmp_path):
    pr.write_letor(stream[:6], tmp_path / "small.txt")
    shards = as_shards([tmp_path / "small.txt", kinds["text"]], 5)
    parts, _ = joined(shards)
    assert len(parts) == 5
    assert_same(parts[0], stream[:6])


@pytest.mark.parametrize("suffix", ["txt.gz", "parquet", "comment"])
def test_what_cannot_be_split_says_what_to_do(stream, tmp_path, suffix):
    path = tmp_path / f"all.{suffix}"
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
        pr.write_parquet(stream, path)
    elif suffix == "comment":
        path.write_text("1 1:2 # q1\n0 1:1 # q1\n")
    else:
        pr.write_letor(stream, path)
    with pytest.raises(ValueError, match=r"cannot be split to shards: stores and plain LETOR text .*convert"):
        learn(pr.SlamPerceptron(), path, shards=2)
    with pytest.raises(TypeError, match="only streams in memory can be joined or split"):
        learn(
            pr.SlamPerceptron(), [pr.scan_letor([path])] if suffix != "parquet" else [pr.scan_parquet(path)], shards=2
        )


@examples(100, suite=15)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(1, 40))
def test_cuts(sizes, n):
    offsets = np.cumsum([0, *sizes])
    cuts = cuts_of(offsets, n)
    assert [place for cut in cuts for place in range(*cut)] == list(range(len(sizes)))
    assert len(cuts) == min(n, len(sizes))
    pieces = pieces_of(sizes, max(n, len(sizes)))
    assert sum(pieces) == max(n, len(sizes))
    assert min(pieces) >= 1
