from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from support.strategies import separable_streams

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
    "wrong",
    [
        {"n_queries": 0},
        {"n_documents": 0},
        {"n_features": 1},
        {"n_grades": 0},
        {"margin": 0},
        {"noise": -1},
        {"label_noise": 1.5},
        {"seed": -1},
    ],
)
def test_bad_input(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        pr.separable(**{"n_queries": 3} | wrong)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        pr.separable_blocks(**wrong)


@pytest.mark.parametrize("size", [1, 7, 256, 1000])
def test_blocks_are_the_stream(size):
    whole = pr.separable(600, n_documents=3, seed=4)
    parts = pr.separable_blocks(600, queries_per_block=size, n_documents=3, seed=4)
    assert np.array_equal(whole.ranker, parts.ranker)
    found = pr.QueryStream.concatenate(parts.blocks)
    assert np.array_equal(found.X, whole.stream.X)
    assert np.array_equal(found.relevance, whole.stream.relevance)
    assert found.qids.tolist() == list(range(600))


def test_a_longer_stream_begins_like_a_shorter_one():
    assert np.array_equal(pr.separable(300).stream[:40].X, pr.separable(40).stream.X)


def test_an_endless_stream_can_be_begun_again():
    blocks = pr.separable_blocks(queries_per_block=10).blocks
    first = [block.X for block in islice(blocks, 60)]
    assert np.array_equal(first[59], next(islice(blocks, 59, None)).X)
    assert not np.array_equal(first[0], first[1])


def test_label_noise():
    clean, noisy = (pr.separable(500, label_noise=share, seed=2) for share in (0.0, 0.3))
    assert np.array_equal(clean.stream.X, noisy.stream.X)
    wrong = clean.stream.relevance != noisy.stream.relevance
    assert wrong.mean() == pytest.approx(0.3, abs=0.02)
    assert set(noisy.stream.relevance) == {0, 1, 2, 3, 4}


def test_a_stream_shaped_like_mslr():
    data = pr.mslr_shaped(200, seed=3)
    assert np.array_equal(data.X, pr.mslr_shaped(200, seed=3).X)
    assert not np.array_equal(data.X[:100], pr.mslr_shaped(200, seed=4).X[:100])
    assert data.X.dtype == np.float32
    assert data.n_features == 136
    assert len(data) == 200
    assert np.diff(data.offsets).mean() == pytest.approx(120, rel=0.15)
    assert np.diff(data.offsets).std() == pytest.approx(64, rel=0.25)  # that of a log-normal of spread 0.5
    shares = [np.mean(data.relevance == grade) for grade in range(5)]
    assert shares == pytest.approx([0.52, 0.32, 0.13, 0.02, 0.01], abs=0.01)
    whole = (np.rint(data.X) == data.X).mean()
    assert 0.5 < whole < 0.65
    learned = pr.ListwisePerceptron(transforms="query-zscore").learn(data, "ndcg@10").values("ndcg@10")
    assert learned[100:].mean() > learned[:20].mean() + 0.1  # there is something to learn
    for wrong in ({"noise": -1}, {"noise": np.inf}, {"noise": "x"}, {"seed": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            pr.mslr_shaped(2, **wrong)
    with pytest.raises(ValueError, match="n_queries"):
        pr.mslr_shaped(0)
