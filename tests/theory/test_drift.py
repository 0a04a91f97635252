"""Bounds against a ranker that moves: Theorems M and T."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.drifting import LEARNERS, path_of, play
from support.strategies import examples, streams

import perceptrank as pr
from perceptrank.learners.wrappers.forgetting import choose_leaders
from perceptrank.theory import drift
from perceptrank.theory.theorem import largest_lost

SLACK = 1 + 1e-9


def moving(rng, n, d, kind, length):
    """Rankers that stay, jump now and then, or walk at random."""
    steps = rng.normal(size=(n, d))
    if kind == "walks":
        rankers = rng.normal(size=d) + np.cumsum(0.3 * steps, axis=0)
    else:
        jumps = np.zeros(n, bool) if kind == "stays" else rng.random(n) < 0.3
        rankers = steps[np.maximum.accumulate(np.where(jumps, np.arange(n), 0))]
    return length * rankers


@examples(5)
@given(
    stream=streams(),
    name=st.sampled_from(list(LEARNERS)),
    half_life=st.sampled_from([0.5, 3.0, 30.0, 1000.0]),
    kind=st.sampled_from(["stays", "jumps", "walks"]),
    length=st.sampled_from([1e-3, 0.03, 0.3, 1.0]),
    heavy=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_the_bound_against_every_moving_ranker(stream, name, half_life, kind, length, heavy, seed):
    """Sum of c RML <= S <= the bound, and |w| <= rate W in every round: Theorem M."""
    rng = np.random.default_rng(seed)
    if heavy:
        stream = stream.with_query_weights(rng.choice([0.2, 1.0, 5.0], size=len(stream)))
    rankers = moving(rng, len(stream), stream.n_features, kind, length)
    S, lost, largest, C, growth, c, L = play(name, half_life, stream, rankers)
    rate = np.log(2) / half_life
    against = float(np.linalg.norm(rankers, axis=1).max()), L
    assert lost <= S * SLACK + 1e-9
    assert largest <= drift.largest_weights(growth, rate, largest_weight=c) * SLACK
    bound = drift.fading(C, against, path_of(rankers), rate, growth=growth, largest_weight=c)
    assert bound * SLACK + 1e-9 >= S


@examples(5)
@given(
    stream=streams(),
    name=st.sampled_from(list(LEARNERS)),
    half_life=st.sampled_from([0.5, 3.0, 30.0, 1000.0]),
    kind=st.sampled_from(["stays", "jumps", "walks"]),
    length=st.sampled_from([1e-3, 0.03, 0.3, 1.0]),
    start=st.sampled_from([0.01, 1.0, 100.0]),
    is_bound=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_the_bound_from_a_start_and_in_a_cone(stream, name, half_life, kind, length, start, is_bound, seed):
    """Theorem M with |w1| beside C S, -<w1, u1> beside L, and W at least |w1|, for rankers in the cone."""
    rng = np.random.default_rng(seed)
    rankers, first = (
        moving(rng, len(stream), stream.n_features, kind, length),
        start * rng.normal(size=stream.n_features),
    )
    settings = {"initial_weights": first}
    if is_bound:
        rankers[:, 0], first[0] = np.minimum(rankers[:, 0], 0.0), min(first[0], 0.0)
        settings["negative"] = [0]
    S, lost, largest, C, growth, c, L = play(name, half_life, stream, rankers, **settings)
    rate, first = np.log(2) / half_life, first / LEARNERS[name][0]().learning_rate
    against = float(np.linalg.norm(rankers, axis=1).max()), L
    size, about = float(np.linalg.norm(first)), {"growth": growth, "largest_weight": c}
    assert lost <= S * SLACK + 1e-9
    assert largest <= drift.largest_weights(growth, rate, largest_weight=c, start=size) * SLACK
    bound = drift.fading(C, against, path_of(rankers), rate, start=size, product=float(first @ rankers[0]), **about)
    assert bound * SLACK + 1e-9 >= S
    assert drift.fading(C, against, path_of(rankers), rate, start=size, **about) >= bound / SLACK  # the worst product


@pytest.mark.parametrize("settings", [{"initial_weights": [-100.0]}, {"negative": [0]}], ids=["start", "cone"])
def test_a_start_or_a_cone_is_part_of_the_statement(settings):
    """From -100, and with weights that stay <= 0, far more is lost than Theorem M promises from 0 to any ranker."""
    learner = pr.Fading(pr.ListwisePerceptron("ndcg@1", average=False, transforms=None, **settings), half_life=10)
    pair = pr.QueryStream.from_arrays([[1.0], [0.0]] * 200, [1, 0] * 200, group=[2] * 200)
    lost, rate = learner.learn(pair, "ndcg@1").losses("ndcg@1").sum(), np.log(2) / 10
    assert lost >= 30 > drift.fading(3.0, (1.0, 0.0), 0.0, rate)
    free = pr.Fading(pr.ListwisePerceptron()).theorem
    assert (learner.theorem.statement, learner.theorem.assumption) != (free.statement, free.assumption)
    if "negative" in settings:
        assert "a linear ranker that satisfies the constraints" in learner.theorem.assumption
    else:
        assert "|v₁|²" in learner.theorem.statement
        assert drift.fading(3.0, (1.0, 0.0), 0.0, rate, start=100.0) >= lost


def test_around_a_learner_without_a_theorem_there_is_none():
    assert pr.Fading(pr.RankNet()).theorem.statement == "-"


@pytest.mark.parametrize("settings", [{}, {"initial_weights": [1.0]}], ids=["from 0", "from weights"])
def test_from_clicks_only_the_weight_moved_is_bounded(settings):
    """What users do not examine is not seen, so that nothing bounds its loss."""
    learner = pr.Fading(pr.ExaminedPerceptron(transforms=None, average=False, **settings))
    assert learner.theorem.statement.startswith("weight moved ≤ G")
    assert pr.Fading(pr.ListwisePerceptron(**settings)).theorem.statement.startswith("loss ≤ G")


@examples(3)
@given(
    stream=streams(),
    name=st.sampled_from(list(LEARNERS)),
    length=st.sampled_from([0.03, 0.3, 1.0]),
    seed=st.integers(0, 10**6),
)
def test_the_bound_without_forgetting(stream, name, length, seed):
    """S <= L + (U + P) sqrt(C L) + …: U + P takes the place of U."""
    rankers = moving(np.random.default_rng(seed), len(stream), stream.n_features, "jumps", length)
    S, _, _, C, _, _, L = play(name, 1e15, stream, rankers)
    norm = float(np.linalg.norm(rankers, axis=1).max()) + path_of(rankers)
    assert largest_lost(C * norm * norm, 0.0, L) * SLACK + 1e-9 >= S


def test_the_bound_solves_the_inequality():
    """It is the largest S with S <= G + U sqrt(C S (1 + rate S / 2)); without a way and a rate, the usual one."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        C, U, L, P, rate = rng.lognormal(size=5)
        bound = drift.fading(C, (U, L), P, rate)
        if U * U * C * rate / 2 >= 1:
            assert bound == np.inf
            continue
        G = L + P * drift.largest_weights(C, rate)
        assert bound == pytest.approx(G + U * np.sqrt(C * bound * (1 + rate * bound / 2)), rel=1e-9)
        start, cosine = rng.lognormal(), rng.uniform(-1, 1)
        far = drift.fading(C, (U, L), P, rate, start=start, product=cosine * U * start)
        G = L - cosine * U * start + P * drift.largest_weights(C, rate, start=start)
        assert far == pytest.approx(G + U * np.sqrt((C * far + start**2) * (1 + rate * far / 2)), rel=1e-9)
        usual = L + U * U * C / 2 + np.sqrt(U * U * C * L + (U * U * C) ** 2 / 4)
        assert drift.fading(C, (U, L), 0.0, 1e-14) == pytest.approx(usual, rel=1e-6)
        assert largest_lost(C * U * U, 0.0, L) == pytest.approx(usual, rel=1e-12)
        simple = 2 * L + 2 * C * U * (U + P * np.sqrt(1 + 1 / (C * U * U)))  # of the text, at rate 1 / (2 C U²)
        assert drift.fading(C, (U, L), P, 1 / (2 * C * U * U)) <= simple * SLACK


def test_forgetting_follows_where_remembering_does_not():
    """The target turns around once: the longer it was right, the longer what is remembered takes to undo."""
    lost = {}
    for half_life, rounds in product((3.0, 1e15), (100, 400)):
        learner = pr.Fading(
            pr.ListwisePerceptron(violators="uniform", margin=1e9, average=False, transforms=None), half_life=half_life
        )
        pair, wrong = np.array([[1.0], [-1.0]]), 0
        for t in range(2 * rounds):  # with so large a margin, there is an update in every round
            X = pair if t < rounds else -pair
            wrong += learner.predict(X)[0] <= learner.predict(X)[1]
            learner.learn_one(X, [1, 0])
        lost[half_life, rounds] = wrong
    assert lost[1e15, 100] >= 100
    assert lost[1e15, 400] >= 400
    assert lost[3.0, 100] == lost[3.0, 400] <= 1 + 4  # half of what was is gone after three rounds


# Tracking


def tracked(losses, lag, weights=None):
    """Losses of the capped leader by the definition, and the members chosen."""
    n, T = losses.shape
    weights = np.ones(T) if weights is None else weights
    behind, used, chosen, largest = np.zeros(n), 0.0, [], 0.0
    for t in range(T):
        leader = int(np.argmin(behind))
        chosen.append(leader)
        used += weights[t] * losses[leader, t]
        if t == 0:
            behind = lag * weights[0] * (np.arange(n) > 0)
        largest = max(largest, weights[t])
        behind = behind + weights[t] * losses[:, t]
        behind = np.minimum(behind - behind.min(), lag * largest)
    return used, chosen


def best_parts(losses, K):
    """The smallest loss of a sequence of learners that changes K - 1 times, by dynamic programming."""
    n, T = losses.shape
    best = np.full((K, n), np.inf)
    best[0] = 0.0
    for t in range(T):
        for k in range(K - 1, 0, -1):
            best[k] = np.minimum(best[k], best[k - 1].min())
        best += losses[:, t]
    return best.min()


@examples(3)
@given(
    n=st.integers(1, 4),
    T=st.integers(1, 60),
    lag=st.sampled_from([1.0, 2.5, 10.0]),
    K=st.integers(1, 4),
    kind=st.sampled_from(["zero or one", "any", "leader loses"]),
    seed=st.integers(0, 10**6),
)
def test_the_leader_follows_the_best_in_parts(n, T, lag, K, kind, seed):
    """Loss <= N (best of K parts + (K - 1) lag) + lag + N - 1: Theorem T, weighted too; and the kernel."""
    rng = np.random.default_rng(seed)
    losses = rng.random((n, T)) if kind == "any" else (rng.random((n, T)) < 0.3).astype(float)
    weights = rng.choice([0.5, 1.0, 4.0], size=T) if kind == "any" else np.ones(T)
    if kind == "leader loses":
        losses[:] = 0
        for t in range(T):
            losses[tracked(losses[:, : t + 1], lag)[1][-1], t] = 1.0
    used, chosen = tracked(losses, lag, weights)
    largest = float(weights.max())
    bound = drift.tracking([best_parts(losses * weights, K)] + [0.0] * (K - 1), n, lag, largest_weight=largest)
    assert used <= bound + 1e-9
    found, sums = np.empty(T, np.int64), np.zeros(n)
    choose_leaders(lag, 1 - losses, weights, sums, np.zeros(1), found)
    assert used == pytest.approx((weights * losses[found, np.arange(T)]).sum(), abs=1e-9)
    if kind != "any":
        assert found.tolist() == chosen


@pytest.mark.parametrize("lag", [1.0, 4.0])
def test_the_bound_of_the_leader_is_attained(lag):
    """Only the leader loses, 1 in each round: the first pays the lag, then all in turn, each once more but one."""
    n, L = 3, 5
    T = n * L + int(lag) + n - 1
    losses = np.zeros((n, T))
    for t in range(T):
        losses[tracked(losses[:, : t + 1], lag)[1][-1], t] = 1.0
    assert losses.sum(axis=1).min() == L
    assert tracked(losses, lag)[0] == T == drift.tracking([L], n, lag)
