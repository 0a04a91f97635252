"""Theorem G: the averaged ranker on independent queries."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import twins
from support.bounding import comparators, diameter, named
from support.strategies import examples, streams

import perceptrank as pr
from perceptrank.theory import bounds

SETTINGS = st.sampled_from(
    [("ndcg", None, "index"), ("ndcg", None, "mean"), ("ndcg", 3, "index"), ("ap", None, "score")]
)
SLACK = 1 + 1e-9


@given(stream=streams(), setting=SETTINGS, rho=st.sampled_from([0.1, 1.0, 3.0]), seed=st.integers(0, 99))
@examples(3)
def test_surrogates_of_the_iterates_are_within_the_regret(stream, setting, rho, seed):
    """The path-wise inequality: sum of f_t(w_t) / Δ <= L + ρ/2 D²U² + S / 2ρ, f_t >= Δ RML_t, Δ = ρ η D²."""
    name, k, order = setting
    size, rate = diameter(stream, name), 0.7
    assume(size > 0)
    delta = rho * rate * size**2
    learner = pr.ListwisePerceptron(
        named(name, k),
        violators="top",
        margin=delta,
        learning_rate=rate,
        class_order=order,
        average=False,
        transforms=None,
    )
    lost, moved, rounds = 0.0, 0.0, []
    for query in stream:
        X, grades = query.X.astype(float), twins.judged(query.relevance, name)
        scores = learner.predict(query.X) if learner.n_rounds else np.zeros(len(X))
        v = twins.slam_weights(scores, query.relevance, name, k, class_order=order)
        value = twins.slam(scores, grades, v, delta)[0] / delta
        loss = 1 - twins.measure(name, scores, query.relevance, k=k) if query.relevance.any() else 0.0
        assert loss <= value + 1e-9
        lost += value
        moved += learner.learn(pr.QueryStream.from_arrays(query.X, query.relevance)).masses[0]
        rounds.append((X, grades, v))
    for u in comparators(stream, seed):
        L = sum(twins.slam(X @ u, grades, v, 1.0)[0] for X, grades, v in rounds)
        assert lost <= (L + rho / 2 * size**2 * (u @ u) + moved / (2 * rho)) * SLACK + 1e-9


def test_averaged_risks_by_hand():
    assert bounds.averaged_risk(diameter=2, n_queries=100, surrogate_margin=4.0, margin=0.5) == pytest.approx(
        2 * 16 / 100
    )
    found = bounds.averaged_risk(diameter=2, n_queries=10, surrogate_margin=6.0, learning_rate=0.5, margin=0.5)
    assert found == pytest.approx((1.5 + 1 + 1 / 6) * 16 / 10)
    L, K = 5.0, 4 * 9 * 3  # three times D² U²
    S = L + K / 2 + np.sqrt(K * L + K**2 / 4)
    found = bounds.averaged_risk(diameter=2, n_queries=10, surrogate_margin=4.0, comparator=(3.0, L))
    assert found == pytest.approx((L + 4 * 9 / 2 + S / 2) / 10)


def mean_risk(n_queries, n_runs, seed):
    """Expected loss of the averaged ranker after so many independent queries, over runs, and its bound."""
    data = pr.separable(40, n_documents=5, n_features=3, n_grades=3, margin=0.5, seed=seed)
    size, rng, risks = pr.theory.diameter(data.stream), np.random.default_rng(seed), []
    for _ in range(n_runs):
        learner = pr.ListwisePerceptron(
            violators="top", margin=size**2, class_order="mean", average=False, transforms=None
        )
        total = np.zeros(3)
        for number in rng.integers(40, size=n_queries):
            learner.learn(data.stream[number : number + 1])
            total += learner.weights
        values = pr.parse("ndcg").per_query(data.stream.X @ total, data.stream.relevance, data.stream.offsets, 0)
        risks.append(1 - values.mean())
    bound = bounds.averaged_risk(diameter=size, n_queries=n_queries, surrogate_margin=size**2, margin=data.margin)
    return np.mean(risks), bound


@pytest.mark.parametrize("n_queries", [1, 20])
def test_the_expected_loss_of_the_mean_is_within_its_bound(n_queries):
    risk, bound = mean_risk(n_queries, 10, 3)
    assert 0 < risk <= bound


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(5))
def test_the_expected_loss_of_the_mean_is_within_its_bound_in_many_runs(seed):
    for n_queries in (5, 100, 1000):
        risk, bound = mean_risk(n_queries, 30, seed)
        assert risk <= bound
