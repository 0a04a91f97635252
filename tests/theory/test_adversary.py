import numpy as np
import pytest
from support import promises

import perceptrank as pr
from perceptrank.theory import bounds, n_rounds, play


@pytest.mark.parametrize("algorithm", sorted(pr.algorithms()))
@pytest.mark.parametrize("version", ["sharp", "paper"])
@pytest.mark.parametrize(
    ("measure", "least"), [("ndcg", 1 - 1 / np.log2(3)), ("ap", 1 / 2), ("ndcg@2", 1 - 1 / np.log2(3))]
)
def test_every_learner_loses_every_round(algorithm, version, measure, least):
    radius, margin = 2.0, 0.5
    game = play(pr.algorithms()[algorithm](), radius=radius, margin=margin, version=version, measure=measure)
    assert len(game.stream) == len(game.trace) == {"sharp": 4 * 16 - 1, "paper": 16 - 1}[version]
    losses = 1 - game.trace.values(measure)
    assert (losses >= least - 1e-12).all()
    assert game.lower_bound == pytest.approx(least * len(game.stream))
    assert losses.sum() >= game.lower_bound - 1e-9
    assert np.linalg.norm(game.separator) == pytest.approx(1)
    assert game.margin >= margin - 1e-12
    for query in game.stream:
        assert np.linalg.norm(query.X, axis=1) == pytest.approx(radius)
        heights = query.X @ game.separator
        assert heights[query.relevance == 1].min() - heights[query.relevance == 0].max() == pytest.approx(game.margin)


def test_the_game_is_what_the_learner_would_see_on_the_stream():
    """Ranking, then learning, round by round, gives the trace of a pass over the stream that came out."""
    game = play(learner := pr.ListwisePerceptron(average=False, transforms=None), margin=0.3, n_documents=5)
    again = pr.ListwisePerceptron(average=False, transforms=None)
    rounds = [(again.rank(query.X), again.learn_one(query.X, query.relevance)) for query in game.stream]
    assert np.array_equal(again.weights, learner.weights)
    assert [updated for _, updated in rounds] == game.trace.masses.astype(bool).tolist()
    assert all(query.relevance[order[0]] == 0 for query, (order, _) in zip(game.stream, rounds, strict=True))


def test_against_anything_that_ranks_and_learns():
    class Fixed:
        def rank(self, X):
            return np.arange(len(X))[::-1]

        def learn_one(self, X, relevance):
            return False

    game = play(Fixed(), margin=0.5, n_documents=4)
    assert game.trace.n_updates == 0
    assert (1 - game.trace.values("ndcg") >= 1 - 1 / np.log2(3)).all()


def test_numbers_of_rounds():
    assert [n_rounds(1, gamma) for gamma in (0.5, 0.1, 0.01)] == [15, 399, 39_999]
    assert [n_rounds(1, gamma, "paper") for gamma in (0.5, 0.1, 0.01)] == [3, 99, 9999]
    assert n_rounds(3, 1.5) == 15
    assert len(play(pr.MinimaxPerceptron(), margin=0.1, rounds=7).stream) == 7


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"margin": 3.0}, "too large for radius"),
        ({"margin": 0}, "margin must be"),
        ({"radius": -1}, "radius must be"),
        ({"version": "other"}, "version must be one of"),
        ({"rounds": 400}, "at most 399"),
        ({"n_documents": 1}, "at least 2"),
        ({"margin": 0.001}, "GB of memory"),
    ],
)
def test_bad_input(wrong, message):
    with pytest.raises(ValueError, match=message):
        play(pr.MinimaxPerceptron(), **wrong)


# The version "exact", and the price of a margin


@pytest.mark.parametrize("measure", ["ndcg", "ap"])
@pytest.mark.parametrize("m", [2, 3, 7, 20])
@pytest.mark.parametrize(
    "make",
    [
        lambda: pr.MinimaxPerceptron("ndcg"),
        lambda: pr.SlamPerceptron("ndcg", learning_rate=10.0),
        lambda: pr.ListwisePerceptron(relative_margin=0, average=False, transforms=None),
        lambda: pr.ListwisePerceptron(violators="top", relative_margin=0.5, average=False, transforms=None),
    ],
)
def test_the_bound_is_exact_for_learners_in_the_span_of_what_they_saw(measure, m, make):
    learner = make()
    game = play(learner, radius=2.0, margin=0.5, n_documents=m, version="exact", measure=measure)
    share = bounds.largest_share(measure, m)
    assert game.trace.losses(measure).sum() == pytest.approx(game.lower_bound) == pytest.approx(64 * share)
    assert share * learner.guarantee(radius=2.0, margin=game.margin) == pytest.approx(game.lower_bound)
    assert game.margin == pytest.approx(0.5)
    assert pr.theory.margin(game.stream, tolerance=1e-9).upper == pytest.approx(0.5)


@pytest.mark.parametrize("algorithm", sorted(pr.algorithms()))
def test_every_learner_of_the_package_is_in_the_span(algorithm):
    learner = pr.algorithms()[algorithm]()
    if "transforms" in learner.parameter_names:
        learner.set_params(transforms=None)
    if algorithm == "tournament":
        learner = pr.Tournament([pr.ListwisePerceptron(transforms=None), pr.OnlineRidge()])
    game = play(learner, margin=0.5, n_documents=4, version="exact")
    assert game.trace.losses("ndcg").sum() >= game.lower_bound - 1e-9


@pytest.mark.parametrize(
    ("violators", "rho", "m", "least"),
    [
        ("top", 0.0, 2, 0.98),
        ("top", 0.5, 2, 0.98),
        ("top", 1.0, 2, 0.98),
        ("top", 3.0, 2, 0.98),
        ("uniform", 1.0, 100, 0.96),
        pytest.param("uniform", 3.0, 300, 0.96, marks=pytest.mark.deep),
        ("places", 1.0, 300, 0.9),
        pytest.param("places", 1.0, 1000, 0.9, marks=pytest.mark.deep),
    ],
)
def test_the_price_of_a_margin_is_paid(violators, rho, m, least):
    """What outranked documents weigh, in sum over rounds, reaches the bound; in NDCG@1 that is what is lost."""
    measure = "ap" if violators == "places" else "ndcg@1"
    costly = pr.theory.costly_stream(violators, relative_margin=rho, margin=0.08, n_documents=m, measure="ndcg@1")
    learner = pr.ListwisePerceptron(measure, violators=violators, relative_margin=rho, average=False, transforms=None)
    trace = learner.learn(costly.stream, ["ndcg@1", measure])
    assert trace.losses("ndcg@1").sum() == (trace.losses(measure) > 0).sum() == costly.n_lost
    bound = learner.guarantee(diameter=pr.theory.diameter(costly.stream), margin=costly.margin)
    assert least * bound <= costly.n_lost <= bound * (1 + 1e-9)
    gaps = [float(query.X[-1] @ costly.separator - (query.X[:-1] @ costly.separator).max()) for query in costly.stream]
    assert gaps == pytest.approx([0.08] * len(gaps))
    assert pr.theory.diameter(costly.stream) == pytest.approx(1)


def test_without_the_split_the_price_is_more():
    """The smaller constant of "top" does not hold for the other two."""
    top = promises.listwise(diameter=1.0, violators="top", margin=0.1)
    for violators in ("uniform", "places"):
        assert pr.theory.costly_stream(violators, margin=0.1).n_lost > 2 * top


def test_a_costly_stream_in_ap():
    """Several documents outrank the relevant one, for a loss of more than 1/2 a round."""
    costly = pr.theory.costly_stream("places", margin=0.1, n_documents=1000, measure="ap")
    learner = pr.ListwisePerceptron("ap", average=False, transforms=None)
    losses = learner.learn(costly.stream, "ap").losses("ap")
    assert losses.sum() > 1.9 * 100
    assert losses.min() > 0.8


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"margin": 1.0}, "smaller than 1"),
        ({"n_documents": 1}, "at least 2"),
        ({"violators": "all"}, "violators must be one of"),
        ({"relative_margin": -1}, "relative_margin"),
        ({"margin": 1e-5}, "GB of memory"),
    ],
)
def test_bad_input_of_costly_streams(wrong, message):
    with pytest.raises(ValueError, match=message):
        pr.theory.costly_stream(**wrong)
