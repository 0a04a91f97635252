import numpy as np
import pytest
from hypothesis import given
from strategies import separable_streams

import perceptrank as pr


@given(data=separable_streams())
def test_the_margin_is_as_promised(data):
    assert np.linalg.norm(data.ranker) == pytest.approx(1)
    for query in data.stream:
        heights = query.X @ data.ranker
        apart = np.greater.outer(query.relevance, query.relevance)
        gaps = np.subtract.outer(heights, heights)[apart]
        assert gaps.min(initial=np.inf) >= data.margin - 1e-9


def test_seeds():
    assert np.array_equal(pr.separable(5, seed=1).stream.X, pr.separable(5, seed=1).stream.X)
    assert not np.array_equal(pr.separable(5, seed=1).stream.X, pr.separable(5, seed=2).stream.X)


@pytest.mark.parametrize(
    "wrong", [{"n_queries": 0}, {"n_documents": 0}, {"n_features": 1}, {"n_grades": 0}, {"margin": 0}, {"noise": -1}]
)
def test_bad_input(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        pr.separable(**{"n_queries": 3} | wrong)
