"""Mixing what shards have learned: by the definition, and with what the theorems promise."""

import itertools

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.distributed import mix
from perceptrank.learners.tally import LARGEST_REACH, MASS, MIXINGS, ROUND_WEIGHT, ROUNDS, USED_LOSS

REFUSED = {
    "committee",
    "prank",
    "margin-prank",
    "oap-bpm",
    "solar-2",
    "opauc",
    "ridge",
    "kernel",
    "buffered-pairwise",
    "sum",
    "tournament",
}


def data(n=60, seed=0, **options):
    return pr.separable(n, n_features=6, seed=seed, **options).stream


def learned_apart(make, stream, n, start=None):
    rankers = []
    for place in range(n):
        one = make() if start is None else pr.learners.registry.from_document(start.as_document())
        one.learn(stream[place::n])
        rankers.append(one)
    return rankers


@pytest.mark.parametrize("transforms", [None, "auto", "running"])
def test_one_alone_is_what_it_is(transforms):
    ranker = pr.ListwisePerceptron(transforms=transforms)
    start = pr.ListwisePerceptron(transforms=transforms)
    ranker.learn(data())
    assert mix(start, [ranker]).as_document() == ranker.as_document()


@pytest.mark.parametrize("by", ["queries", "updates", "uniform"])
def test_weights_are_the_mean_and_counts_the_sum(by):
    stream = data()
    start = pr.ListwisePerceptron(transforms=None)
    start.learn(stream[:10])
    parts = stream[10:20], stream[20:60]
    learned = []
    for part in parts:
        one = pr.learners.registry.from_document(start.as_document())
        one.learn(part)
        learned.append(one)
    made = mix(start, learned, by)
    new = [one.n_updates - start.n_updates for one in learned]
    shares = {"queries": [0.2, 0.8], "updates": [new[0] / sum(new), new[1] / sum(new)], "uniform": [0.5, 0.5]}[by]
    np.testing.assert_allclose(
        made.weights, shares[0] * learned[0].weights + shares[1] * learned[1].weights, rtol=1e-14
    )
    assert made.n_queries == made.n_rounds == 60
    assert made.n_updates == start.n_updates + sum(new)
    one, other, base, mixture = (ranker.model for ranker in (*learned, start, made))
    np.testing.assert_allclose(mixture.total, one.total + other.total - base.total, rtol=1e-12)
    for place in (MASS, USED_LOSS):
        expected = shares[0] * one.tally[place] + shares[1] * other.tally[place]
        assert mixture.tally[place] == pytest.approx(expected, rel=1e-14)
    assert mixture.tally[ROUND_WEIGHT] == mixture.tally[ROUNDS] == 60
    assert mixture.tally[LARGEST_REACH] == max(one.tally[LARGEST_REACH], other.tally[LARGEST_REACH])
    assert mixture.tally[MIXINGS] == 1


def test_sparse_features_are_mixed_as_dense_ones():
    stream = data(seed=3)
    dense, sparse = (
        mix(pr.SlamPerceptron(average=True, transforms=None), learned_apart(make, given, 3))
        for given in (stream, stream.to_sparse())
        for make in [lambda: pr.SlamPerceptron(average=True, transforms=None)]
    )
    np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-12)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-12)


def test_queries_count_by_their_weights():
    stream = data().with_query_weights(np.repeat([1.0, 3.0], 30))
    start = pr.SlamPerceptron(transforms=None)
    learned = [pr.SlamPerceptron(transforms=None) for _ in range(2)]
    learned[0].learn(stream[:30])
    learned[1].learn(stream[30:])
    made = mix(start, learned)
    np.testing.assert_allclose(made.weights, 0.25 * learned[0].weights + 0.75 * learned[1].weights, rtol=1e-14)


@pytest.mark.parametrize("transforms", ["running", ["signed-log", "running"], "running+query-rank"])
def test_statistics_are_those_of_all_queries(transforms):
    stream = data(90, seed=1)
    kind = pr.SlamPerceptron
    made = mix(kind(transforms=transforms), learned_apart(lambda: kind(transforms=transforms), stream, 3))
    whole = kind(transforms=transforms)
    whole.learn(stream)
    one, other = (_running(ranker.transforms_) for ranker in (made, whole))
    assert one.count == other.count == stream.n_documents
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
    np.testing.assert_allclose(one.deviation, other.deviation, rtol=1e-12)


def _running(transforms):
    for one in transforms:
        if isinstance(one, pr.Join):
            return _running(one.parts)
        if isinstance(one, pr.RunningStandardizer):
            return one
    raise AssertionError(transforms)


def test_statistics_of_a_frozen_transform_stay():
    stream = data()
    frozen = pr.RunningStandardizer().learn(stream[:20]).freeze()
    made = mix(
        pr.SlamPerceptron(transforms=frozen), learned_apart(lambda: pr.SlamPerceptron(transforms=frozen), stream, 2)
    )
    assert made.transforms_ == [frozen]


@pytest.mark.parametrize("name", sorted(pr.algorithms()))
def test_every_learner_is_mixed_or_says_why_not(name):
    kind, stream = pr.algorithms()[name], data(20)
    if name not in REFUSED:
        made = mix(kind(), learned_apart(kind, stream, 2))
        assert np.isfinite(made.predict(stream)).all()
        assert made.n_queries == 20
    else:
        with pytest.raises(TypeError, match=r"cannot be mixed: (its members|the mean of its |it ranks by)"):
            mix(kind(), [])


def test_adagrad_is_mixed_with_its_squares():
    stream, start = data(), pr.AdaGrad(pr.RankNet())
    learned = learned_apart(lambda: pr.AdaGrad(pr.RankNet()), stream, 2)
    made = mix(start, learned, "uniform")
    squares = [one.model.more["squares"] for one in learned]
    np.testing.assert_allclose(made.model.more["squares"], (squares[0] + squares[1]) / 2)
    made.learn(stream)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (pr.Bins(4), r"shards would settle differently: learn it from a sample, freeze\(\)"),
        (pr.RunningStandardizer().learn(data(5)), r"freeze\(\) it"),
    ],
)
def test_statistics_that_cannot_be_merged_are_refused(transform, message):
    with pytest.raises((TypeError, ValueError), match=message):
        mix(pr.SlamPerceptron(transforms=transform), [])


def test_shards_of_other_features_are_refused():
    start = pr.SlamPerceptron(transforms=None)
    learned = [pr.SlamPerceptron(transforms=None) for _ in range(2)]
    learned[0].learn(data())
    learned[1].learn(pr.separable(10, n_features=7, seed=0).stream)
    with pytest.raises(ValueError, match="shard 1 has 7 features, shard 0 has 6: all must have the same; n_features="):
        mix(start, learned)
    with pytest.raises(ValueError, match="nothing was learned"):
        mix(start, [start, start])


MAKERS = [
    lambda: pr.SlamPerceptron(transforms=None),
    lambda: pr.ListwisePerceptron(transforms=None),
    lambda: pr.ListwisePerceptron(transforms=None, average=False, violators="uniform", relative_margin=2.0),
    lambda: pr.ListwisePerceptron(transforms=None, margin=0.5, learning_rate=0.3),
    pr.MinimaxPerceptron,
    pr.CategoryRanking,
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("by", ["queries", "updates", "uniform"])
def test_the_certificate_holds_for_a_mixture(make, by):
    """Theorem D and safe averaging: with S and losses by the weights in the mixture, all inequalities hold."""
    made = pr.separable(120, n_features=5, margin=0.1, seed=7)
    stream, ranker, uneven = made.stream, make(), (0, 10, 50, 120)
    for epoch in range(4):
        learned = []
        for first, last in itertools.pairwise(uneven):
            one = pr.learners.registry.from_document(ranker.as_document())
            one.learn(stream[first:last])
            learned.append(one)
        ranker = mix(ranker, learned, by)
        certificate = ranker.certificate(margin=made.margin)
        assert certificate.holds, str(certificate)
        assert certificate.mixings == epoch + 1
        assert "Theorem D" in str(certificate)
        raw = sum(one.model.tally[MASS] for one in learned)
        assert certificate.mass < raw


def test_model_files_know_of_mixing(tmp_path):
    stream = data()
    made = mix(pr.SlamPerceptron(), learned_apart(pr.SlamPerceptron, stream, 2))
    made.save(tmp_path / "model.json")
    again = pr.load(tmp_path / "model.json")
    assert again.as_document() == made.as_document()
    assert again.certificate(margin=0.1).mixings == 1
    plain = pr.SlamPerceptron()
    plain.learn(stream)
    assert "mixings" not in plain.as_document()["state"]
    assert "mixed" not in str(plain.certificate(margin=0.1))
