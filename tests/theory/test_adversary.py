import numpy as np
import pytest

import perceptrank as pr
from perceptrank.theory import n_rounds, play


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
