"""What the paper itself states: its lemmas, its proposition on gradient descent, and ListNet's regret."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog
from support import promises, twins
from support.bounding import comparators, named
from support.strategies import judged_scores, streams

import perceptrank as pr
from perceptrank.theory import bounds

MEASURES = st.sampled_from([("ndcg", None), ("ndcg", 2), ("ndcg", 10), ("ap", None)])
SLACK = 1 + 1e-9


@given(query=judged_scores(min_size=2, max_size=6), measure=MEASURES)
def test_slam_is_the_value_of_its_linear_program(query, measure):
    """Eq. lossdef and eq. theoreticalloss are one function, margin 1."""
    scores, grades = query
    name, k = measure
    grades, m = twins.judged(grades, name), len(scores)
    v = twins.slam_weights(scores, grades, name, k, class_order="index")
    pairs = twins.pairs_of(grades)
    assume(pairs)
    rows = -np.eye(m)[[i for i, _ in pairs]]
    found = linprog(v, rows, [scores[i] - scores[j] - 1 for i, j in pairs])
    assert twins.slam(scores, grades, v, 1.0)[0] == pytest.approx(found.fun, abs=1e-7)


@given(
    query=judged_scores(min_size=2, max_size=8),
    measure=MEASURES,
    order=st.sampled_from(["index", "mean", "score"]),
    seed=st.integers(0, 10**6),
    part=st.floats(0, 1),
)
def test_lemma_convexity(query, measure, order, seed, part):
    """For weights that stay as they are; `score` holds those of the first scores, as the learners do in a round."""
    scores, grades = query
    name, k = measure
    grades = twins.judged(grades, name)
    v = twins.slam_weights(scores, grades, name, k, class_order=order)
    other = scores + np.random.default_rng(seed).normal(size=len(scores)) * 3
    between = part * scores + (1 - part) * other
    values = [twins.slam(one, grades, v, 1.0)[0] for one in (scores, other, between)]
    assert values[2] <= part * values[0] + (1 - part) * values[1] + 1e-9


def test_slam_is_not_convex_if_its_weights_follow_the_scores():
    """The paper assumes documents of one grade in the order of their scores, which changes with them."""
    loss, grades = pr.Slam(), [1, 1, 0]
    ends = loss.value([2.0, 0.0, 0.0], grades), loss.value([0.0, 2.0, 0.0], grades)
    assert loss.value([1.0, 1.0, 0.0], grades) < min(ends)  # by itself no contradiction
    ends = loss.value([0.0, -2.0, 0.0], grades), loss.value([-2.0, 0.0, 0.0], grades)
    assert loss.value([-1.0, -1.0, 0.0], grades) > sum(ends) / 2 + 0.1
    fixed = pr.Slam(class_order="index")
    ends = fixed.value([0.0, -2.0, 0.0], grades), fixed.value([-2.0, 0.0, 0.0], grades)
    assert fixed.value([-1.0, -1.0, 0.0], grades) <= sum(ends) / 2 + 1e-12


@given(stream=streams(), measure=MEASURES, order=st.sampled_from(["index", "score"]), seed=st.integers(0, 10**6))
def test_lemma_gradientboundinperceptron(stream, measure, order, seed):
    """|z|² <= 4 m R² v_max f, in rounds with a mistake; k for m with a cut-off. Ties are mistakes, as at w = 0."""
    name, k = measure
    rng = np.random.default_rng(seed)
    for w in (np.zeros(stream.n_features), np.round(rng.normal(size=stream.n_features), 1)):
        for query in stream:
            X, scores = query.X.astype(float), query.X.astype(float) @ w
            if not query.relevance.any() or not twins.is_mistake(scores, query.relevance, name, k):
                continue
            v = twins.slam_weights(scores, query.relevance, name, k, class_order=order)
            value, gradient = twins.slam(scores, twins.judged(query.relevance, name), v, 1.0)
            m = min(k or len(X), len(X))
            size = np.linalg.norm(X, axis=1).max()
            ratio = v.max() / v[v > 0].min()
            assert np.square(X.T @ gradient).sum() <= 4 * m * size**2 * ratio * value * SLACK + 1e-12


@given(
    seed=st.integers(0, 10**6), d=st.integers(1, 5), rounds=st.integers(1, 40), rate=st.sampled_from([0.01, 0.3, 5.0])
)
def test_proposition_ogd_regret(seed, d, rounds, rate):
    """Convex functions (maxima of affine ones) that depend on the iterate: regret <= |u|²/2η + η/2 sum of |z|²."""
    rng = np.random.default_rng(seed)
    w, paid, played = np.zeros(d), 0.0, []
    squares = 0.0
    for _ in range(rounds):
        slopes, heights = rng.normal(size=(3, d)), rng.normal(size=3)
        slopes[0] += np.sign(w) * rng.exponential()  # chosen against the learner
        values = slopes @ w + heights
        z = slopes[values.argmax()]
        paid, squares = paid + values.max(), squares + z @ z
        played.append((slopes, heights))
        w = w - rate * z
    for u in (np.zeros(d), w, *rng.normal(size=(3, d)) * 3):
        others = sum((slopes @ u + heights).max() for slopes, heights in played)
        assert paid - others <= (u @ u) / (2 * rate) + rate / 2 * squares + 1e-9


@given(stream=streams(), rate=st.sampled_from([0.01, 0.3, 3.0]), seed=st.integers(0, 99))
def test_regret_of_listnet(stream, rate, seed):
    """Cross entropies: sum of f_t(w_t) - f_t(u) <= |u|²/2η + η/2 T D², D the largest distance within a query."""
    learner, loss, paid = pr.OnlineListNet(rate), pr.ListNet(), 0.0
    size = max(np.linalg.norm(query.X[:, None].astype(float) - query.X, axis=2).max() for query in stream)
    for query in stream:
        scores = learner.predict(query.X) if learner.n_rounds else np.zeros(len(query.X))
        paid += loss.value(scores, query.relevance)
        learner.learn_one(query.X, query.relevance)
    for u in comparators(stream, seed):
        others = sum(loss.value(query.X.astype(float) @ u, query.relevance) for query in stream)
        assert paid - others <= (u @ u) / (2 * rate) + rate / 2 * len(stream) * size**2 + 1e-9


@given(stream=streams(), measure=MEASURES, seed=st.integers(0, 99), rate=st.sampled_from([0.05, 0.5, 1.5]))
def test_algorithm_2_as_in_the_paper_at_any_rate(stream, measure, seed, rate):
    """Sum of f_t(w_t) <= (L + U²/2η) / (1 - ηC/2) for every η < 2/C, C = 4 m R² v_max: what the paper's proof gives."""
    name, k = measure
    longest, size = int(np.diff(stream.offsets).max()), np.linalg.norm(stream.X.astype(float), axis=1).max()
    assume(size > 0)
    constant = promises.slam_as_in_the_paper(
        radius=size,
        n_documents=min(k, longest) if k else longest,
        weight_ratio=bounds.weight_ratio(named(name, k), stream),
        margin=1,
    )
    learner = pr.SlamPerceptron(named(name, k), learning_rate=rate / constant)
    paid, rounds = 0.0, []
    for query in stream:
        X, grades = query.X.astype(float), twins.judged(query.relevance, name)
        scores = learner.predict(query.X) if learner.n_rounds else np.zeros(len(X))
        v = twins.slam_weights(scores, query.relevance, name, k)
        if learner.learn_one(query.X, query.relevance):
            paid += twins.slam(scores, grades, v, 1.0)[0]
            rounds.append((X, grades, v))
    for u in comparators(stream, seed):
        L = sum(twins.slam(X @ u, grades, v, 1.0)[0] for X, grades, v in rounds)
        assert paid <= (L + (u @ u) * constant / (2 * rate)) / (1 - rate / 2) * SLACK + 1e-9
