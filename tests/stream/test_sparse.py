"""Sparse features and streams of them."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import perceptrank as pr

MATRICES = hnp.arrays(
    st.sampled_from([np.float32, np.float64]),
    st.tuples(st.integers(1, 9), st.integers(1, 6)),
    elements=st.sampled_from([0.0, 0.0, 1.0, -2.5]),
)
FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")


def make_stream(rng, n_queries=7, n_features=11, dtype=np.float32, density=0.3):
    sizes = rng.integers(1, 6, n_queries)
    X = rng.normal(size=(sizes.sum(), n_features)) * (rng.random((sizes.sum(), n_features)) < density)
    grades = rng.integers(0, 3, sizes.sum())
    return pr.QueryStream.from_arrays(X.astype(dtype), grades, group=sizes, comments=[f"d{i}" for i in range(len(X))])


def assert_same(sparse, dense):
    assert sparse.is_sparse
    assert not dense.is_sparse
    np.testing.assert_array_equal(sparse.X.toarray(), dense.X)
    assert sparse.X.dtype == dense.X.dtype
    for name in ("relevance", "offsets", "qids", "comments"):
        np.testing.assert_array_equal(getattr(sparse, name), getattr(dense, name))


@given(MATRICES, st.sampled_from(FORMATS), st.booleans())
def test_every_format_of_scipy(X, kind, as_array):
    given_matrix = (sp.coo_array(X) if as_array else sp.coo_matrix(X)).asformat(kind)
    features = pr.QueryStream.from_arrays(given_matrix, np.zeros(len(X))).X
    assert isinstance(features, pr.SparseFeatures)
    assert features.shape == X.shape
    assert features.dtype == X.dtype
    np.testing.assert_array_equal(features.toarray(), X)
    np.testing.assert_array_equal(features.to_scipy().toarray(), X)
    if kind not in ("bsr", "dia"):  # whose blocks and diagonals hold zeros, which stay
        assert features == pr.SparseFeatures.from_dense(X)


@given(MATRICES, st.data())
def test_rows_are_those_of_the_dense_matrix(X, data):
    features = pr.SparseFeatures.from_dense(X)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, len(X)), st.integers(0, len(X)))))
    chosen = data.draw(st.lists(st.integers(0, stop - start - 1), max_size=5)) if stop > start else []
    part = features[start:stop]
    assert np.shares_memory(part.values, features.values) or features.n_nonzeros == 0
    np.testing.assert_array_equal(part.toarray(), X[start:stop])
    np.testing.assert_array_equal(part[np.array(chosen, int)].toarray(), X[start:stop][chosen])
    np.testing.assert_array_equal(part[::-1].toarray(), X[start:stop][::-1])
    assert part.n_nonzeros == np.count_nonzero(X[start:stop])
    both = pr.SparseFeatures.concatenate([part, features])
    np.testing.assert_array_equal(both.toarray(), np.concatenate([X[start:stop], X]))
    assert pickle.loads(pickle.dumps(part)) == part
    np.testing.assert_array_equal(part.astype(np.float64).toarray(), X[start:stop])
    np.testing.assert_array_equal(part.with_values(2 * part.astype(X.dtype).values).toarray(), 2 * X[start:stop])


def test_streams_slice_shuffle_split_and_join_as_dense_ones():
    dense = make_stream(np.random.default_rng(0))
    sparse = dense.to_sparse()
    assert repr(sparse) == repr(dense)[:-1] + f", {np.count_nonzero(dense.X)} non-zeros)"
    assert_same(sparse, dense)
    assert_same(sparse[2:5], dense[2:5])
    assert_same(sparse[[4, 0]], dense[[4, 0]])
    assert_same(sparse.shuffled(3, documents=True), dense.shuffled(3, documents=True))
    assert_same(sparse + sparse[1:3], dense + dense[1:3])
    assert_same(sparse + dense, dense + dense)
    assert not (dense + sparse).is_sparse
    for one, other in zip(sparse.split(0.5, seed=1), dense.split(0.5, seed=1), strict=True):
        assert_same(one, other)
    for one, other in zip(sparse, dense, strict=True):
        assert pr.SparseFeatures.from_dense(other.X) == one.X
        assert one.qid == other.qid
    assert not sparse.to_dense().is_sparse
    assert sparse.to_sparse() is sparse
    assert sparse.to_frame().equals(dense.to_frame())


def test_rows_of_a_query_need_not_be_adjacent():
    X = np.eye(4, 6, dtype=np.float32)
    qid = ["b", "a", "b", "a"]
    sparse = pr.QueryStream.from_arrays(sp.csr_array(X), [0, 1, 2, 3], qid=qid)
    assert_same(sparse, pr.QueryStream.from_arrays(X, [0, 1, 2, 3], qid=qid))


def test_blocks_are_cut_by_what_is_held():
    stream = make_stream(np.random.default_rng(1), n_queries=50).to_sparse()
    blocks = list(stream.blocks(200))
    assert_same(pr.QueryStream.concatenate(blocks), stream.to_dense())
    assert len(blocks) > 5
    for block in blocks:
        assert len(block) == 1 or block.X.n_nonzeros * 8 <= 200


def test_wide_features_take_no_room():
    X = sp.csr_array((np.ones(3), ([0, 1, 2], [0, 10**9, 5])), shape=(3, 2 * 10**9))
    stream = pr.QueryStream.from_arrays(X, [0, 1, 2])
    assert stream.n_features == 2 * 10**9
    assert stream.X.nbytes < 100
    with pytest.raises(MemoryError, match="3 rows of 2000000000 columns take 48"):
        stream.to_dense()


BAD = {
    "indices must be from 0 to 2, got 3 in row 1": ([1.0, 1.0], [0, 3], [0, 1, 2], 3),
    "indices must be from 0 to 2, got -1 in row 0": ([1.0], [-1], [0, 1], 3),
    "got 1 duplicated in row 1": ([1.0, 1.0, 1.0], [2, 1, 1], [0, 1, 3], 3),
    "got 0 after 2 in row 0": ([1.0, 1.0], [2, 0], [0, 2], 3),
    "indices must be as many as values .2., got 1": ([1.0, 1.0], [2], [0, 2], 3),
    "starts must increase from 0 to the number of values .2.": ([1.0, 1.0], [0, 1], [0, 3, 2], 3),
    "starts must increase from 0 to the number of values .3.": ([1.0] * 3, [0, 1, 2], [0, 2**63 - 1, -2, 3], 3),
    "values must be a vector of numbers": (["a"], [0], [0, 1], 3),
    "indices must be a vector of whole numbers": ([1.0], [0.5], [0, 1], 3),
    "n_features must be a whole number > 0, got 0": ([], [], [0], 0),
    "n_features must be at most 2147483647": ([], [], [0], 2**31),
}


@pytest.mark.parametrize("message", BAD)
def test_arrays_that_do_not_fit_together(message):
    with pytest.raises(ValueError, match=message):
        pr.SparseFeatures(*BAD[message])


def test_bad_matrices_of_scipy():
    duplicated = sp.csr_array((np.ones(2), [1, 1], [0, 2]), shape=(1, 3))
    with pytest.raises(ValueError, match="1 duplicated in row 0"):
        pr.QueryStream.from_arrays(duplicated, [1])
    unsorted = sp.csr_array((np.array([1.0, 2.0]), [2, 0], [0, 2]), shape=(1, 3))
    np.testing.assert_array_equal(pr.QueryStream.from_arrays(unsorted, [1]).X.toarray(), [[2.0, 0.0, 1.0]])
    with pytest.raises(ValueError, match="got NaN at document 1, feature 2"):
        pr.QueryStream.from_arrays(sp.csr_array(np.array([[1.0, 0, 0], [0, 0, np.nan]])), [1, 0])
    with pytest.raises(ValueError, match=r"got infinity at document 1, feature 0 \('a'\)"):
        pr.QueryStream.from_arrays(sp.csr_array([[1.0, 0], [np.inf, 0]]), [1, 0], feature_names=["a", "b"])
    with pytest.raises(ValueError, match="Complex data not supported"):
        pr.QueryStream.from_arrays(sp.csr_array([[1j]]), [1])
    with pytest.raises(ValueError, match="0 feature"):
        pr.QueryStream.from_arrays(sp.csr_array((1, 0)), [1])
    with pytest.raises(ValueError, match="at least one document"):
        pr.QueryStream.from_arrays(sp.csr_array((0, 3)), [])


def test_sparse_features_cannot_be_changed():
    features = pr.SparseFeatures.from_dense(np.eye(3))
    with pytest.raises(AttributeError, match="cannot be replaced"):
        features.values = np.zeros(3)
    with pytest.raises(ValueError, match="read-only"):
        features.indices[0] = 99


def test_a_matrix_that_is_changed_afterwards_leads_no_kernel_astray():
    matrix = sp.csr_matrix(np.eye(3, 4))
    stream = pr.QueryStream.from_arrays(matrix, [0, 1, 2])
    assert np.shares_memory(stream.X.values, matrix.data)
    matrix.indices[:], matrix.indptr[1:] = 10**9, 3
    np.testing.assert_array_equal(stream.X.toarray(), np.eye(3, 4))
    indices = np.array([0, 1], np.int32)
    features = pr.SparseFeatures([1.0, 2.0], indices, [0, 2], 2)
    indices[:] = -1
    np.testing.assert_array_equal(features.toarray(), [[1.0, 2.0]])


@pytest.mark.parametrize("name", ["indptr", "indices"])
def test_a_matrix_of_scipy_whose_arrays_do_not_fit_together(name):
    for numbers in ([0, 5], [], [0, -1], [0] * 4, [5, 3]):
        matrix = sp.csr_matrix((np.ones(3), [2, 1, 0], [0, 3]), shape=(1, 3))
        setattr(matrix, name, np.array(numbers, np.int32))
        with pytest.raises(ValueError, match=r"indices must|starts must"):
            pr.SparseFeatures.from_scipy(matrix)


def test_values_that_do_not_fit_the_places():
    features = pr.SparseFeatures.from_dense(np.eye(3, 5))
    with pytest.raises(ValueError, match="one for each of 3 non-zeros, got 2"):
        features.with_values([1.0, 2.0])
    with pytest.raises(ValueError, match="one for each of 1 non-zeros, got 3"):
        features[1:2].with_values(np.ones(3))
    with pytest.raises(ValueError, match="float32 or float64, got int64"):
        features.astype(np.int64)
    with pytest.raises(ValueError, match=r"same number of columns, got .3, 5."):
        pr.SparseFeatures.concatenate([features, pr.SparseFeatures.from_dense(np.eye(3))])
    with pytest.raises(ValueError, match="must be a matrix"):
        pr.SparseFeatures.from_dense(np.ones(3))
    with pytest.raises(TypeError, match=r"toarray\(\)"):
        np.asarray(features)


@pytest.mark.parametrize("dtype", ["?", "i1", "i8", "f2", ">f4", ">f8", "f4"])
def test_values_are_laid_out_as_kernels_take_them(dtype):
    raw = np.zeros(3 * 8 + 1, np.uint8)[1 : 1 + 3 * np.dtype(dtype).itemsize].view(dtype)  # at an odd address
    raw[:] = 1
    places = np.zeros(3 * 4 + 1, np.uint8)[1:].view(np.int32)
    places[:] = [0, 1, 2]
    for features in (
        pr.SparseFeatures(raw, places, np.array([0, 3], "u1"), 3),
        pr.SparseFeatures.from_dense(raw[None]),
        pr.SparseFeatures.from_dense(np.ones((1, 3))).with_values(raw),
    ):
        assert features.dtype in (np.float32, np.float64)
        for array in features.arrays:
            assert array.dtype.isnative
            assert array.flags.aligned
            assert array.flags.c_contiguous
        np.testing.assert_array_equal(features.toarray(), np.ones((1, 3)))


def test_scipy_gets_no_copy():
    features = pr.SparseFeatures.from_dense(np.eye(3))
    matrix = features.to_scipy()
    assert np.shares_memory(matrix.data, features.values)
    assert np.shares_memory(matrix.indices, features.indices)
