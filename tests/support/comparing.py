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
    assert stream.relevance.tobytes() == other.relevance.tobytes()
    for name in ("offsets", "qids", "comments"):
        ours, theirs = getattr(stream, name), getattr(other, name)
        assert (ours is None) == (theirs is None), name
        assert ours is None or ours.tolist() == theirs.tolist(), name
    assert stream.feature_names == other.feature_names
