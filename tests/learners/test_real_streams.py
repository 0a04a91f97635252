"""The learners on real data; skipped where the data is not there."""

import numpy as np
import pytest

import perceptrank as pr

pytestmark = pytest.mark.filterwarnings("ignore:features differ in spread")


def progressive(make, stream):
    runs = [make().learn(stream.shuffled(seed, documents=True), "ndcg@10").mean("ndcg@10") for seed in range(3)]
    return np.mean(runs)


def test_the_listwise_perceptron_is_ahead_of_the_papers_algorithms(real_stream):
    scaling = "query-zscore" if real_stream.n_features == 136 else None
    ours = progressive(lambda: pr.ListwisePerceptron(transforms=scaling), real_stream)
    slam = progressive(lambda: pr.SlamPerceptron(transforms=scaling), real_stream)
    minimax = progressive(lambda: pr.MinimaxPerceptron(transforms=scaling), real_stream)
    assert ours > minimax
    assert ours > slam


def test_the_running_standardiser_makes_raw_features_usable(real_stream):
    if real_stream.n_features != 136:
        pytest.skip("this stream's features are scaled already")
    raw = progressive(lambda: pr.ListwisePerceptron(transforms=None), real_stream)
    assert progressive(lambda: pr.ListwisePerceptron(transforms="running"), real_stream) > raw + 0.05


def test_features_are_taken_as_they_come(real_stream):
    given = progressive(lambda: pr.ListwisePerceptron(transforms=None), real_stream)
    assert progressive(lambda: pr.ListwisePerceptron(transforms="auto"), real_stream) > given


def test_ridge_takes_features_as_they_come_and_the_sum_is_not_behind_its_parts(real_stream):
    raw = [progressive(make, real_stream) for make in (lambda: pr.ListwisePerceptron(transforms=None), pr.OnlineRidge)]
    assert raw[1] > raw[0] + (0.15 if real_stream.n_features == 136 else -0.02)
    scaled = real_stream.with_features(pr.QueryZScore().transform(real_stream).X)
    alone = [progressive(make, scaled) for make in (lambda: pr.ListwisePerceptron(transforms=None), pr.OnlineRidge)]
    assert progressive(pr.Sum, scaled) > max(alone) - 0.005
    assert progressive(pr.Sum, scaled) > np.mean(alone)
