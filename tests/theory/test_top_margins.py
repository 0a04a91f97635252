"""Margins of what belongs in the first places: who needs no more, and who does."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import twins
from support.bounding import rounds_of
from support.strategies import examples

import perceptrank as pr

PLAIN = {"average": False, "transforms": None}


def belongs_in_the_first(grades, k):
    """Of each document, whether fewer than k have better grades."""
    return (np.less.outer(grades, grades).sum(axis=1)) < k


def top_pairs(grades, k):
    first = belongs_in_the_first(np.asarray(grades), k)
    return [(i, j) for i, j in twins.pairs_of(grades) if first[i]]


@st.composite
def top_streams(draw):
    """(stream, k) in which the first feature ranks the first k places of each query, and nothing the others."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k, n, m, d = rng.integers(1, 4), rng.integers(1, 9), rng.integers(2, 7), rng.integers(2, 4)
    grades = rng.integers(0, rng.integers(2, 6), size=(n, m))
    X = np.round(rng.normal(size=(n, m, d)), rng.integers(0, 3))
    for query, own in zip(X, grades, strict=True):
        first = belongs_in_the_first(own, k)
        query[:, 0] = np.where(first, own + rng.uniform(0.2, 1), min(own[first]) - rng.uniform(0, 1, size=m))
    X[:, :, 0] *= rng.uniform(0.1, 1)
    return pr.QueryStream.from_arrays(X.reshape(n * m, d), grades.ravel(), group=[m] * n), int(k)


def sizes_of(stream, k):
    """The margin and the diameter, found by the library and checked against their definitions."""
    differences = [query.X[i] - query.X[j] for query in stream for i, j in top_pairs(query.relevance, k)]
    best, diameter = pr.theory.margin(stream, cutoff=k), pr.theory.diameter(stream, cutoff=k)
    assert best.separable
    np.testing.assert_allclose((np.array(differences) @ best.ranker).min(), best.lower, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(differences, axis=1).max(), diameter)
    return best.lower, diameter


LEARNERS = {
    "slam": lambda measure, rho: pr.SlamPerceptron(measure, learning_rate=0.3, margin=0.3 * (1 + rho)),
    "places": lambda measure, _: pr.ListwisePerceptron(measure, relative_margin=0, **PLAIN),
    "uniform": lambda measure, rho: pr.ListwisePerceptron(measure, violators="uniform", relative_margin=rho, **PLAIN),
    "top": lambda measure, rho: pr.ListwisePerceptron(measure, violators="top", relative_margin=rho, **PLAIN),
    "absolute": lambda measure, rho: pr.ListwisePerceptron(measure, violators="uniform", margin=1 + rho, **PLAIN),
}


@pytest.mark.parametrize("name", LEARNERS)
@given(data=top_streams(), rho=st.sampled_from([0.0, 0.5, 2.0]))
def test_the_first_places_are_learned_whatever_is_below_them(name, data, rho):
    stream, k = data
    assume(any(top_pairs(query.relevance, k) for query in stream))
    margin, diameter = sizes_of(stream, k)
    learner = LEARNERS[name](f"ndcg@{k}", rho)
    assert learner.theorem.cutoff == k
    moved = outranked = lost = 0.0
    for _ in range(5):
        for _, _, _, mass, part, loss in rounds_of(learner, stream, "ndcg", k):
            moved, outranked, lost = moved + mass, outranked + part, lost + loss
    sizes = {"margin": margin, "diameter": diameter}
    assert moved <= learner.theorem.of_moved.bound(**sizes) * (1 + 1e-9)
    assert lost <= outranked + 1e-9
    assert outranked <= learner.guarantee(**sizes) * (1 + 1e-9)
    assert learner.certificate(**sizes).holds


@given(data=top_streams(), rho=st.sampled_from([0.5, 1.0, 3.0]))
def test_places_with_a_margin_pay_for_the_grades_below(data, rho):
    """(1 + 2 ρ b) D²/γ², b the largest number of grades in a query below that at place k."""
    stream, k = data
    assume(any(top_pairs(query.relevance, k) for query in stream))
    margin, diameter = sizes_of(stream, k)
    below = [{grade for grade in query.relevance if grade < sorted(query.relevance)[::-1][:k][-1]} for query in stream]
    learner = pr.ListwisePerceptron(f"ndcg@{k}", relative_margin=rho, **PLAIN)
    moved = sum(learner.learn(stream, []).masses.sum() for _ in range(5))
    assert moved <= (1 + 2 * rho * max(map(len, below))) * (diameter / margin) ** 2 * (1 + 1e-9)


def test_who_moves_what_is_below_the_first_places():
    """Of these queries the first feature knows the best document, and nothing the others."""
    X = [[0, -1], [0, -1], [2, 0], [0, 1], [0, 0], [0, 1], [0, 1], [2.6, 0], [0, 1], [0, 0], [2, 0], [2, 1]]
    stream = pr.QueryStream.from_arrays(np.array(X, dtype=float), [0, 1, 2, 0, 0, 2, 1, 3, 0, 1, 2, 2], group=[4] * 3)
    assert pr.theory.margin(stream).separable is False
    margin, diameter = sizes_of(stream, 1)
    minimax, uniform = pr.MinimaxPerceptron("ndcg@1"), pr.ListwisePerceptron("ndcg@1", violators="uniform", **PLAIN)
    assert minimax.theorem.cutoff is None
    assert pr.ListwisePerceptron("ndcg@1").theorem.cutoff is None
    moved = {learner: sum(learner.learn(stream, []).masses.sum() for _ in range(40)) for learner in (minimax, uniform)}
    assert moved[minimax] == 120 > 60 * (diameter / margin) ** 2
    assert moved[uniform] <= uniform.guarantee(margin=margin, diameter=diameter)

    X = [[0, -1], [3.1, -1], [0, 0], [0, 0], [0, 0], [0, 1], [3.1, 0], [0, 1], [3.1, 0], [0, -1], [0, 0], [0, 1]]
    stream = pr.QueryStream.from_arrays(np.array(X, dtype=float), [0, 3, 1, 2, 2, 1, 3, 0, 3, 1, 0, 2], group=[4] * 3)
    margin, diameter = sizes_of(stream, 1)
    places = pr.ListwisePerceptron("ndcg@1", **PLAIN)  # with the constant of all pairs it would be broken
    moved = sum(places.learn(stream, []).masses.sum() for _ in range(12))
    assert moved > places.guarantee(margin=margin, diameter=diameter)


@given(data=top_streams())
@examples(0.5)
def test_without_grades_below_the_cut_off_all_pairs_count(data):
    stream, _ = data
    assume(any(len(set(query.relevance)) > 1 for query in stream))
    plain, cut = pr.theory.margin(stream), pr.theory.margin(stream, cutoff=99)
    assert (plain.lower, plain.upper) == (cut.lower, cut.upper)
    assert pr.theory.diameter(stream) == pr.theory.diameter(stream, cutoff=99)


@pytest.mark.parametrize("cutoff", [0, -1, 1.5])
def test_cut_offs_that_are_wrong(cutoff):
    stream = pr.separable(5).stream
    for function in (pr.theory.margin, pr.theory.diameter):
        with pytest.raises(ValueError, match="cutoff must be"):
            function(stream, cutoff=cutoff)
