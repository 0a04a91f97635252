"""Stores of sparse features."""

import json
import pickle

import numpy as np
import pytest
from support.comparing import assert_same

import perceptrank as pr
from perceptrank.io import store_manifest, store_segments
from perceptrank.io.sparse_rows import are_valid

N = 60


@pytest.fixture
def whole():
    """Queries of 3 documents each, with 4 of a million features or none."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 5, N)
    indices = np.concatenate([np.sort(rng.choice(10**6, size, replace=False)) for size in sizes])
    X = pr.SparseFeatures(rng.normal(size=len(indices)), indices, [0, *np.cumsum(sizes)], 10**6)
    comments = [f"document {i}" for i in range(N)]
    return pr.QueryStream.from_arrays(X, rng.integers(3, size=N), group=[3] * (N // 3), comments=comments)


def is_mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


def test_what_is_written_is_read(whole, tmp_path):
    pr.write_store(whole, tmp_path / "s")
    opened = pr.open_store(tmp_path / "s", comments=True)
    assert_same(opened, whole)
    assert is_mapped(opened.X.values)
    assert is_mapped(opened.X.indices)
    assert repr(opened).endswith(f"{N} documents, 1000000 features, {whole.X.n_nonzeros} non-zeros))")
    opened.verify()
    assert_same(pickle.loads(pickle.dumps(opened)), whole)
    assert sum(path.stat().st_size for path in (tmp_path / "s").iterdir()) < 20_000
    for q in (0, 7, -1):
        assert opened[q].X == whole[q].X


def test_several_segments(whole, tmp_path):
    opened = pr.write_store(whole[:7], tmp_path / "s")
    opened.append(whole[7:8])
    opened.append([whole[8:15], whole[15:]])
    assert (opened.n_segments, opened.is_sparse, len(opened)) == (3, True, len(whole))
    assert "non-zeros" in repr(opened)
    assert "X" not in vars(opened)  # no segment was put together with another
    opened = pr.open_store(tmp_path / "s", comments=True)
    for chosen in (slice(2, 12), slice(7, 8), slice(8, 15), slice(3, 3), [1, 9, 3]):
        assert_same(opened[chosen], whole[chosen])
    assert_same(pr.QueryStream.concatenate(opened.blocks(40)), whole)
    assert len(list(opened.blocks(40))) > 10
    assert_same(opened, whole)
    opened.compact()
    assert opened.n_segments == 1
    assert_same(opened, whole)
    assert is_mapped(opened.X.values)
    assert len(list((tmp_path / "s").glob("*.values.npy"))) == 1


def test_more_segments_than_are_mapped_at_once(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(store_segments, "_MAX_MAPPED", 2)
    opened = pr.write_store(whole[:5], tmp_path / "s")
    for q in range(5, 20):
        opened.append(whole[q : q + 1])
    reader = pr.open_store(tmp_path / "s", comments=True)
    opened.compact()
    assert_same(reader, whole)  # the old files stay for it
    assert len(list((tmp_path / "s").glob("*.values.npy"))) == 17
    del reader
    opened.append(whole[:1])
    assert len(list((tmp_path / "s").glob("*.values.npy"))) == 2


def test_dense_queries_are_appended_without_their_zeros(whole, tmp_path):
    X = np.array([[0, 1.5, 0, 2], [0, 0, 0, 0], [3, 0, 0, 0]])
    dense = pr.QueryStream.from_arrays(X, [0, 1, 2])
    opened = pr.write_store(dense.to_sparse(), tmp_path / "s")
    opened.append(dense)
    assert_same(opened, pr.QueryStream.concatenate([dense.to_sparse(), dense.to_sparse()]))
    assert pr.open_store(tmp_path / "s").X.toarray().tolist() == [*X.tolist(), *X.tolist()]


def test_a_dense_store_takes_no_sparse_queries(tmp_path):
    dense = pr.QueryStream.from_arrays(np.eye(3), [0, 1, 2])
    opened = pr.write_store(dense, tmp_path / "s")
    with pytest.raises(ValueError, match=r"cannot take sparse ones; `sparse=False` reads dense features, `stream"):
        opened.append(dense.to_sparse())
    assert_same(pr.open_store(tmp_path / "s"), dense)
    assert json.loads((tmp_path / "s" / "manifest.json").read_text())["sparse"] is False


def test_features_that_are_all_zero(tmp_path):
    nothing = pr.QueryStream.from_arrays(pr.SparseFeatures([], [], [0, 0, 0], 9), [0, 1])
    opened = pr.write_store(nothing, tmp_path / "s")
    assert opened.X.toarray().tolist() == [[0.0] * 9] * 2
    assert opened.X.dtype == np.float64
    opened.append(nothing)
    assert opened.X.shape == (4, 9)


def test_an_older_version_refuses(whole, tmp_path, monkeypatch):
    pr.write_store(whole, tmp_path / "s")
    monkeypatch.setattr(store_manifest, "VERSION", 1)
    with pytest.raises(
        pr.FormatError,
        match=r"manifest.json has version 3, perceptrank .* reads versions up to 1: perceptrank .* wrote it; upgrade",
    ):
        pr.open_store(tmp_path / "s")


def test_an_append_that_is_cut_off_changes_nothing(whole, tmp_path, monkeypatch):
    pr.write_store(whole, tmp_path / "s")
    before = {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()}

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(store_segments, "write_atomically", fail)
    with pytest.raises(KeyboardInterrupt):
        pr.open_store(tmp_path / "s").append(whole)
    assert {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()} == before


# Arrays of two rows of five features, and what is wrong with them.
DAMAGE = {
    "indices must be from 0 to 4, got 5 in row 0": ("indices", [0, 5, 1]),
    "indices must be from 0 to 4, got -1 in row 1": ("indices", [0, 4, -1]),
    "indices must increase within a row, got 3 duplicated in row 0": ("indices", [3, 3, 1]),
    "indices must increase within a row, got 2 after 3 in row 0": ("indices", [3, 2, 1]),
    "starts must rise from 0 to 3": ("starts", [0, 4, 3]),
    "starts must rise from 0 to 3 ": ("starts", [0, 2, 2]),
    "starts must rise from 0 to 3  ": ("starts", [1, 2, 3]),
    "starts must rise from 0 to 3   ": ("starts", [0, -1, 3]),
    "starts must rise from 0 to 3    ": ("starts", [0, 2**62, 3]),
}


@pytest.mark.kernel
@pytest.mark.parametrize("problem", DAMAGE)
def test_arrays_that_do_not_fit_together(tmp_path, problem):
    kind, values = DAMAGE[problem]
    X = pr.SparseFeatures([1.0, 2.0, 3.0], [0, 4, 1], [0, 2, 3], 5)
    pr.write_store(pr.QueryStream.from_arrays(X, [0, 1]), tmp_path / "s")
    path = tmp_path / "s" / f"00000000.{kind}.npy"
    content = path.read_bytes()
    path.write_bytes(content[:256] + np.array(values, np.int32 if kind == "indices" else np.int64).tobytes())
    with pytest.raises(pr.FormatError) as error:
        pr.open_store(tmp_path / "s")
    assert str(error.value) == f"{path} is damaged: {problem.strip()}"
    assert error.value.path == str(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(sparse="yes"), "sparse must be true or false, got 'yes'"),
        (lambda m: m.update(sparse=False), "lacks files"),
        (lambda m: m.update(n_features=2**31), "it has 2147483648 features, more than 2147483647"),
        (lambda m: m["segments"][0].pop("nonzeros"), "'nonzeros' is missing"),
        (lambda m: m["segments"][0].update(nonzeros=-1), "nonzeros"),
        (lambda m: m["segments"][0].update(nonzeros=3), r"with float64 of shape \(3,\) cannot have \d+ bytes"),
        (lambda m: m["segments"][0]["files"].pop("indices"), "lacks files"),
        (lambda m: m["segments"][0]["files"].update(X=m["segments"][0]["files"]["values"]), "unknown file, 'X'"),
        (lambda m: m.update(dtype="float32"), r"with float32 of shape \(\d+,\) cannot have"),
    ],
)
def test_a_manifest_that_is_wrong(whole, tmp_path, change, message):
    pr.write_store(whole, tmp_path / "s")
    path = tmp_path / "s" / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(pr.FormatError, match=message):
        pr.open_store(tmp_path / "s")


@pytest.mark.kernel
def test_the_check_of_rows_refuses_what_the_constructor_refuses():
    rng = np.random.default_rng(0)
    outcomes = []
    for _ in range(400):
        sizes = rng.integers(0, 4, 4)
        rows = [rng.integers(-1 if rng.random() < 0.1 else 0, 7, size) for size in sizes]
        rows = [np.sort(row) if rng.random() < 0.8 else row for row in rows]
        indices, starts = np.concatenate(rows).astype(np.int32), np.array([0, *np.cumsum(sizes)])
        try:
            pr.SparseFeatures(np.ones(len(indices)), indices, starts, 6)
            expected = True
        except ValueError:
            expected = False
        assert are_valid(indices, starts, 6) == expected, (indices, starts)
        outcomes.append(expected)
    assert 50 < sum(outcomes) < 350
