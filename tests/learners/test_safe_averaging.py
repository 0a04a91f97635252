"""Safe averaging: the mean of the iterates ranks while it has not lost much more than the current weights."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.learners import bits
from support.strategies import EITHER_PRECISION, examples, streams

import perceptrank as pr
from perceptrank.learners.model import is_mean_safe
from perceptrank.learners.tally import CURRENT_LOSS, LARGEST_WEIGHT, MEAN_LOSS, TALLY_LENGTH
from perceptrank.theory import bounds

VIOLATORS = ("places", "uniform", "top")
MEASURES = ("ndcg", "ndcg@3", "ndcg@1", "ap", "ndcg:gain=linear")


def pairs(*phases):
    """A stream of queries of two documents, the first relevant: (difference of the two, number of queries) each."""
    differences = np.concatenate([np.tile(np.array(one, dtype=float), (n, 1)) for one, n in phases])
    X = np.stack([differences, np.zeros_like(differences)], axis=1).reshape(-1, differences.shape[1])
    return pr.QueryStream.from_arrays(X, [1, 0] * len(differences), group=[2] * len(differences))


TWO_PHASES = ((1.0, 0.0), 300), ((-0.9, 0.2), 300)


def losses_of(learner):
    return learner.mean_loss, learner.current_loss, learner.used_loss


@pytest.mark.parametrize("violators", VIOLATORS)
def test_a_stream_on_which_the_mean_alone_loses_without_end(violators):
    """10,000 differences (1, 0), then 10,000 of (-.9, .2): the mean points the old way for thousands of rounds."""
    stream = pairs(((1.0, 0.0), 10_000), ((-0.9, 0.2), 10_000))
    learner = pr.ListwisePerceptron(violators=violators, transforms=None)
    lost = learner.learn(stream).losses("ndcg")
    current = (
        pr.ListwisePerceptron(violators=violators, average=False, transforms=None).learn(stream).losses("ndcg").sum()
    )
    assert learner.mean_loss > 2000  # what the mean of all iterates would have lost
    assert learner.current_loss == pytest.approx(current)
    assert lost.sum() == pytest.approx(learner.used_loss)
    assert lost.sum() <= 3 * current + 2
    assert lost.sum() < 4.1
    gamma = 0.2 / np.sqrt(1.9**2 + 0.2**2)
    certificate = learner.certificate(margin=gamma)
    assert certificate.holds
    assert learner.ranks_with == certificate.ranks_with == "current"
    assert "It ranks with its current weights. Lost by the mean: " in str(certificate)
    constant = 9 / 8 if violators == "top" else 3
    assert lost.sum() <= learner.guarantee(diameter=1, margin=gamma) == pytest.approx(3 * constant / gamma**2 + 2)


def check_losses(learner, stream, measure):
    """Play a stream query by query, and judge both rankings by the measure itself, apart from the pass."""
    judge = pr.parse(measure)
    mean_loss = current_loss = used_loss = 0.0
    total, predicted = np.zeros(stream.n_features), []
    for t, query in enumerate(stream):
        before = learner.weights if t else np.zeros(stream.n_features)
        mean = total / t if t else before
        X, offsets = query.X.astype(float), np.array([0, len(query.X)])
        by_mean, by_current = (
            np.nan_to_num(1 - judge.per_query(X @ weights, query.relevance, offsets)[0]) for weights in (mean, before)
        )
        safe = mean_loss <= 2 * current_loss + 1
        predicted.append(by_mean if safe else by_current)
        mean_loss, current_loss, used_loss = mean_loss + by_mean, current_loss + by_current, used_loss + predicted[-1]
        learner.learn_one(query.X, query.relevance)
        total += learner.weights
        np.testing.assert_allclose(losses_of(learner), (mean_loss, current_loss, used_loss), rtol=1e-9, atol=1e-12)
        assert learner.ranks_with == ("mean" if mean_loss <= 2 * current_loss + 1 else "current")
        np.testing.assert_array_equal(
            learner.coef_, learner.weights if learner.ranks_with == "current" else learner.model.total * (1 / (t + 1))
        )
    assert used_loss <= bounds.safe_averaging(mean_loss, current_loss) + 1e-9
    return predicted


@st.composite
def turning_streams(draw, dtypes=(np.float64,)):
    """A noisy stream whose grades later follow another ranker; the values are exact, so that ties are too."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    longest = draw(st.sampled_from([2, 9, 70]))
    sizes = rng.integers(1, longest + 1, size=draw(st.integers(4, 24)))
    X = rng.integers(-8, 9, size=(sizes.sum(), 2)).astype(draw(st.sampled_from(dtypes)))
    heights = np.where(np.arange(len(X)) < len(X) / 2, X[:, 0], -X[:, 0] + 0.1 * X[:, 1]) + rng.normal(size=len(X))
    grades = np.searchsorted(np.quantile(heights, [0.5, 0.8, 0.9]), heights)
    return pr.QueryStream.from_arrays(X, grades, group=sizes)


@pytest.mark.kernel
@pytest.mark.filterwarnings("ignore:features differ in spread")
@pytest.mark.parametrize("violators", VIOLATORS)
@examples(0.5)
@given(
    stream=st.one_of(turning_streams(dtypes=EITHER_PRECISION), streams()),
    measure=st.sampled_from(MEASURES),
    class_order=st.sampled_from(["score", "mean", "index"]),
)
def test_losses_are_those_of_the_measure(violators, stream, measure, class_order):
    """Those that the measure itself computes of the two rankings; the trace has the one that the rule chose."""
    # dyadic steps are exact in neither ranking: compare away from ties that rounding makes or breaks
    jitter = np.random.default_rng(len(stream)).normal(size=stream.X.shape)
    stream = stream.with_features((stream.X + 1e-3 * jitter).astype(stream.X.dtype))
    setting = {"measure": measure, "violators": violators, "class_order": class_order}
    predicted = check_losses(pr.ListwisePerceptron(**setting, transforms=None), stream, measure)
    learner = pr.ListwisePerceptron(**setting, transforms=None)
    np.testing.assert_allclose(learner.learn(stream).losses(measure), predicted, rtol=1e-9, atol=1e-12)


@pytest.mark.kernel
@pytest.mark.parametrize("m", [3, 20, 70, 130, 260])
@examples(0.5)
@given(seed=st.integers(0, 10**6), measure=st.sampled_from(MEASURES), share=st.sampled_from([0.1, 0.5, 1.0]))
def test_ties_are_judged_in_the_worst_order(m, seed, measure, share):
    """By whole-number features and weights, so that scores are exact and many are equal; few or many relevant."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(m, 2)).astype(float)
    grades = rng.integers(1, 4, size=m) * (rng.random(m) < share)
    learner = pr.ListwisePerceptron(measure, transforms=None)
    learner.learn_one(X, np.zeros(m))
    document = learner.as_document()
    weights, mean = rng.integers(-2, 3, size=(2, 2)).astype(float)
    document["state"] |= {"weights": weights.tolist(), "total": mean.tolist()}
    learner = pr.ListwisePerceptron.from_document(document)
    learner.learn_one(X, grades)
    judge = pr.parse(measure)
    expected = [np.nan_to_num(1 - judge(X @ one, grades)) for one in (mean, weights, mean)]
    np.testing.assert_allclose(losses_of(learner), expected, rtol=1e-12, atol=1e-15)


def test_gains_that_vanish_and_grades_beyond_numbers():
    X = np.zeros((3, 1))
    for grades in ([3000, 1, 0], [2000, 1999, 0], [1e-300, 0, 0]):
        learner = pr.ListwisePerceptron(transforms=None)
        learner.learn_one(X, grades)
        assert learner.current_loss == pytest.approx(1 - pr.NDCG()(np.zeros(3), grades))


def test_the_bounds_are_attained():
    """Whichever ranks loses 1, and the other nothing: 3 current + 2, and (3 mean + 1) / 2 from below."""
    tally, used = np.zeros(TALLY_LENGTH), 0.0
    tally[LARGEST_WEIGHT] = 1.0
    for _ in range(1000):
        tally[MEAN_LOSS if is_mean_safe(tally) else CURRENT_LOSS] += 1
        used += 1
        assert used <= 3 * tally[CURRENT_LOSS] + 2
        if not is_mean_safe(tally):
            assert used == 3 * tally[CURRENT_LOSS] + 2
    tally[CURRENT_LOSS] = 0.0
    tally[MEAN_LOSS] = 1 + 1e-12  # the mean lost this; then the current weights lose 1
    assert not is_mean_safe(tally)
    assert 1 + tally[MEAN_LOSS] == pytest.approx(bounds.safe_averaging(tally[MEAN_LOSS], 1.0))


@pytest.mark.parametrize(
    "make", [lambda: pr.ListwisePerceptron(transforms=None), lambda: pr.AdaGrad(pr.ListwisePerceptron(transforms=None))]
)
def test_a_learner_that_left_the_mean_goes_on_as_if_it_had_never_stopped(make, tmp_path):
    stream = pairs(*TWO_PHASES)
    whole, halves = make(), make()
    lost = whole.learn(stream, "ndcg").losses("ndcg")
    first = halves.learn(stream[:310], "ndcg").losses("ndcg")
    np.testing.assert_array_equal(halves.coef_, halves.weights)  # the current weights
    halves.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    assert document["state"]["mean_loss"] > 2 * document["state"]["current_loss"] + 1
    for other in (pr.load(tmp_path / "model.json"), pickle.loads(pickle.dumps(halves)), copy.copy(halves)):
        np.testing.assert_array_equal(other.coef_, halves.coef_)
        np.testing.assert_array_equal(np.concatenate([first, other.learn(stream[310:], "ndcg").losses("ndcg")]), lost)
        assert bits(other) == bits(whole)


def test_models_of_earlier_versions_begin_without_losses():
    learner = pr.ListwisePerceptron(transforms=None)
    learner.learn(pairs(*TWO_PHASES)[:310])
    document = learner.as_document()
    for name in ("mean_loss", "current_loss", "used_loss"):
        del document["state"][name]
    earlier = pr.ListwisePerceptron.from_document(document)
    assert losses_of(earlier) == (0, 0, 0)
    assert earlier.ranks_with == "mean"
    document["state"]["mean_loss"] = -1.0
    with pytest.raises(ValueError, match="mean_loss must not be negative"):
        pr.ListwisePerceptron.from_document(document)


def test_only_averaging_learners_of_lists_keep_losses():
    stream = pr.separable(30, seed=2).stream
    for learner in (pr.ListwisePerceptron(average=False, transforms=None), pr.SlamPerceptron(average=True)):
        learner.learn(stream)
        assert "mean_loss" not in learner.as_document()["state"]
    current = pr.ListwisePerceptron(average=False, transforms=None)
    current.learn(stream)
    assert current.ranks_with == "current"
    assert current.set_params(average=True).ranks_with == "mean"


def test_ensembles_rank_by_what_their_members_rank_with():
    stream = pairs(*TWO_PHASES)[:340]
    bagging = pr.Bagging(pr.ListwisePerceptron(transforms=None), n_members=3)
    bagging.learn(stream)
    assert {one.ranks_with for one in bagging.members} == {"current"}
    np.testing.assert_allclose(bagging.coef_, np.mean([one.weights for one in bagging.members], axis=0))
    tournament = pr.Tournament([pr.ListwisePerceptron(transforms=None)], measure="ndcg")
    alone = pr.ListwisePerceptron(transforms=None)
    np.testing.assert_array_equal(
        tournament.learn(stream, "ndcg").losses("ndcg"), alone.learn(stream, "ndcg").losses("ndcg")
    )
    np.testing.assert_array_equal(tournament.coef_, alone.weights)
