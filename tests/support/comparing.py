"""Comparisons of streams to the bit."""


def assert_same(stream, other):
    """Fail unless two streams have the same arrays, bit by bit, and the same names, ids and comments."""
    assert stream.X.dtype == other.X.dtype
    assert stream.X.shape == other.X.shape
    assert stream.is_sparse == other.is_sparse
    if stream.is_sparse:
        assert stream.X == other.X
    else:
        assert stream.X.tobytes() == other.X.tobytes()
    if "relevance" in stream.columns:
        assert stream.relevance.tobytes() == other.relevance.tobytes()
    assert stream.offsets.tolist() == other.offsets.tolist()
    assert stream.columns.keys() == other.columns.keys()
    for name, values in stream.columns.items():
        assert values.tolist() == other.columns[name].tolist(), name
    assert stream.feature_names == other.feature_names
