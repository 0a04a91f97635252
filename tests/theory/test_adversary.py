import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import promises, twins

import perceptrank as pr
from perceptrank.theory import bounds, n_rounds, play
from perceptrank.theory.margin_adversary import _difference


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
def test_every_learner_of_the_package_loses_as_much(algorithm):
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


def test_algorithm_2_pays_the_price_of_a_margin():
    """In rounds of small losses most relevant documents are just below the margin; b = 2 margin/rate = 2 D²."""
    margin, r, n_apart, lost = 0.1, 50, int((2**2 - 1) / (4 * 2) / 0.1**2 + 1e-9), 0.0
    learner, queries, weights = pr.SlamPerceptron("ap", learning_rate=1.0, margin=1.0), [], np.zeros(3)
    while (tied := _difference(weights, margin, 0.0)) is not None:
        apart = _difference(weights, margin, 1 - 1e-9)
        if apart is not None and n_apart > 0:
            X, grades = np.vstack([np.tile(apart, (r - 1, 1)), tied, np.zeros(3)]), [1] * r + [0]
            n_apart, lost = n_apart - 1, lost + 1 / r
        else:
            X, grades, lost = np.vstack([np.zeros(3), tied]), [0, 1], lost + 1
        assert learner.learn_one(X, grades)
        queries.append((X, grades))
        weights = learner.weights
    stream = pr.QueryStream.from_arrays(
        np.concatenate([X for X, _ in queries]),
        np.concatenate([grades for _, grades in queries]),
        group=[len(X) for X, _ in queries],
    )
    bound = learner.guarantee(diameter=1.0, margin=margin)
    assert pr.theory.diameter(stream) == pytest.approx(1)
    assert pr.theory.margin(stream).lower >= margin * (1 - 1e-3)
    assert bound == pytest.approx(9 / 8 / margin**2)
    assert 0.98 * bound <= lost <= bound


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


# The simplex


def any_learner(kind, rate):
    return [
        lambda: pr.MinimaxPerceptron("ndcg"),
        lambda: pr.SlamPerceptron("ndcg", learning_rate=rate),
        lambda: pr.ListwisePerceptron(average=False, transforms=None),
        lambda: pr.ListwisePerceptron(relative_margin=0, average=False, transforms=None),
        lambda: pr.OnlineListNet(learning_rate=rate),
    ][kind]()


@given(
    kind=st.integers(0, 4),
    m=st.integers(2, 5),
    norm=st.floats(0.0, 3.0),
    loss=st.floats(0.0, 9.0),
    measure=st.sampled_from(["ndcg", "ap", "ndcg@1", "ndcg@3"]),
)
def test_every_learner_loses_in_full_on_simplices(kind, m, norm, loss, measure):
    """c_m floor(B(m K / 2 (m - 1), L)) rounds, and a ranker of norm U and surrogate L at most."""
    diameter = np.sqrt(2 * m / (m - 1))  # of corners at the distance 1 from the centre
    K = m * (norm * diameter) ** 2 / (2 * (m - 1))
    allowed = loss + K / 2 + np.sqrt(K * loss + K * K / 4)
    if allowed < 1:
        with pytest.raises(ValueError, match="no round to play"):
            pr.theory.simplex_rounds(1.0, m, comparator=(norm, loss))
        return
    learner = any_learner(kind, 0.3)
    game = pr.theory.play_simplex(learner, comparator=(norm, loss), n_documents=m, measure=measure)
    assert len(game.stream) == np.floor(allowed * (1 + 1e-12))
    lost = game.trace.losses(measure)
    np.testing.assert_allclose(lost, bounds.largest_share(measure, m))
    assert lost.sum() == pytest.approx(game.lower_bound)
    u = game.comparator.ranker
    paid = sum(twins.level_pair(query.X @ u, query.relevance) for query in game.stream)
    assert np.linalg.norm(u) <= norm * (1 + 1e-9) + 1e-12
    assert paid <= loss * (1 + 1e-9) + 1e-9
    assert pr.theory.diameter(game.stream) == pytest.approx(diameter)
    gaps = [query.X[query.relevance > 0] @ game.separator - query.X @ game.separator for query in game.stream]
    assert min(np.sort(one)[1] for one in gaps) == pytest.approx(game.margin)


@given(seed=st.integers(0, 10**6))
def test_of_two_documents_of_which_one_is_relevant_no_more_can_be_lost(seed):
    """The minimax value: Theorem B's weight moved is a whole number, so that its bound may be rounded down."""
    rng = np.random.default_rng(seed)
    n, d = rng.integers(1, 20), rng.integers(1, 4)
    X, u = np.round(rng.normal(size=(2 * n, d)), 1), rng.normal(size=d) * rng.lognormal()
    grades = np.tile([0.0, rng.integers(1, 4)], n)
    learner = pr.ListwisePerceptron(relative_margin=0, average=False, transforms=None)
    stream = pr.QueryStream.from_arrays(X, grades, group=[2] * n)
    trace = learner.learn(stream, "ndcg")
    L = sum(max(0.0, 1 - (x[1] - x[0]) @ u) for x, moved in zip(X.reshape(n, 2, d), trace.masses, strict=True) if moved)
    K = (np.linalg.norm(u) * pr.theory.diameter(stream)) ** 2
    assert (
        trace.losses("ndcg").sum()
        <= (1 - 1 / np.log2(3)) * np.floor((L + K / 2 + np.sqrt(K * L + K * K / 4)) * (1 + 1e-9)) + 1e-9
    )


def test_of_two_relevant_documents_more_can_be_lost():
    """Grades 2 and 1, no ranker but 0, and a surrogate below 1: rounded down, it would allow nothing."""
    stream = pr.QueryStream.from_arrays([[0.0, 0.0], [1.0, 0.0]], [1, 2])
    assert (L := pr.theory.cumulative_surrogate([0.0, 0.0], stream)) == pytest.approx(3 / (3 + 1 / np.log2(3)))
    assert L < 1
    learner = pr.ListwisePerceptron(relative_margin=0, average=False, transforms=None)
    assert learner.learn(stream, "ndcg").losses("ndcg").sum() > 0.2


@given(m=st.integers(2, 7), cutoff=st.sampled_from([None, 1, 3]), seed=st.integers(0, 99))
def test_chance_helps_by_a_constant_only(m, cutoff, seed):
    """If any document is the relevant one with the same chance, every ranking loses 1 - the mean of D(p) on average."""
    measure, scores = pr.NDCG(cutoff), np.random.default_rng(seed).permutation(m)
    lost = np.mean([1 - measure(scores, np.arange(m) == i) for i in range(m)])
    discounts = [1 / np.log2(1 + p) if p <= (cutoff or m) else 0 for p in range(1, m + 1)]
    assert lost == pytest.approx(1 - np.mean(discounts))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "margin or comparator"),
        ({"margin": 0.5, "comparator": (1, 1)}, "margin or comparator"),
        ({"comparator": (0.1, 0.1)}, "no round to play"),
        ({"comparator": (-1, 1)}, "comparator must be"),
        ({"margin": 0.5, "rounds": 17}, "at most 16"),
        ({"margin": 0.5, "n_documents": 1}, "at least 2"),
        ({"margin": 0.001}, "GB of memory"),
    ],
)
def test_simplices_of_wrong_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        pr.theory.play_simplex(pr.MinimaxPerceptron(), **wrong)


@pytest.mark.parametrize(
    ("measure", "documents", "gap"),
    [
        ("ndcg", 2, 1.0),
        ("ndcg", 3, 1.33),
        ("ndcg", 10, 1.80),
        ("ndcg", 10**6, 2.0),
        ("ap", 3, 1.33),
        ("ap", 10, 1.80),
        ("ndcg@2", 3, 1.33),
        ("ndcg@5", 10, 1.80),
        ("ndcg@1", 3, 1.0),
        ("ndcg@1", 10, 1.0),
    ],
)
def test_the_gap_between_the_bounds(measure, documents, gap):
    """What Theorem B allows over what an adversary is sure of, at a small margin and a diameter of 1."""
    share, margin = bounds.largest_share(measure, documents), 1e-4
    corner = np.sqrt((documents - 1) / (2 * documents))  # the norm that makes the distances 1
    simplices = share * pr.theory.simplex_rounds(corner, documents, margin=margin)
    sure = max(simplices, bounds.lower(radius=0.5, margin=margin, measure=measure))
    assert share / margin**2 / sure == pytest.approx(gap, abs=0.005)
