"""Bounds of learners that start from given weights, and of learners whose weights keep signs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import examples, separable_streams, streams

import perceptrank as pr
from perceptrank.theory import Comparator
from perceptrank.theory.theorem import largest_lost

SLACK = 1 + 1e-9
LEARNERS = st.sampled_from(
    [
        lambda **start: pr.ListwisePerceptron(average=False, transforms=None, **start),
        lambda **start: pr.ListwisePerceptron(
            "ap", violators="uniform", average=False, transforms=None, relative_margin=0, learning_rate=0.3, **start
        ),
        lambda **start: pr.ListwisePerceptron(
            "ndcg@3", violators="top", margin=0.5, average=False, transforms=None, **start
        ),
        lambda **start: pr.SlamPerceptron("ndcg", learning_rate=0.2, margin=0.7, **start),
        lambda **start: pr.MinimaxPerceptron("ndcg", learning_rate=2.0, **start),
        lambda **start: pr.CategoryRanking(learning_rate=0.5, **start),
    ]
)
LENGTHS = st.sampled_from([0.01, 1.0, 10.0, 1000.0])
DIRECTIONS = st.integers(0, 999)


def random_vector(n, seed, length):
    vector = np.random.default_rng(seed).normal(size=n)
    return vector * (length / np.linalg.norm(vector))


def inside(vector, signs):
    """The nearest vector with these signs; 2 means 0."""
    return np.where((signs == 2) | (np.sign(vector) == -signs), 0.0, vector)


def constraints(signs):
    return {
        name: np.flatnonzero(signs == code).tolist()
        for name, code in (("positive", 1), ("negative", -1), ("zero", 2))
        if (signs == code).any()
    }


@given(stream=streams(), make=LEARNERS, start=LENGTHS, length=LENGTHS, seed=DIRECTIONS, bound_signs=st.booleans())
@examples(8)
def test_the_bound_against_every_ranker(stream, make, start, length, seed, bound_signs):
    """S - L + <w1, u> / rate <= |u| sqrt(|w1|² / rate² + C S), for every u in the cone, and what follows from it."""
    d = stream.n_features
    signs = np.random.default_rng(seed).integers(-1, 3, size=d) if bound_signs else np.zeros(d)
    first = inside(random_vector(d, seed, start), signs)
    learner = make(initial_weights=first, **constraints(signs))
    measure = getattr(learner, "measure", "ndcg")
    lost = learner.learn(stream, measure).losses(measure).sum()
    u = inside(random_vector(d, seed + 1, length), signs)
    for ranker in (u, inside(u + first, signs), first * length, np.zeros(d)):
        loss = pr.theory.cumulative_surrogate(ranker, stream, measure, surrogate=learner.theorem.surrogate)
        against = Comparator(float(np.linalg.norm(ranker)), loss, ranker, surrogate=learner.theorem.surrogate)
        diameter = pr.theory.diameter(stream, measure)
        certificate = learner.certificate(comparator=against, diameter=diameter)
        assert certificate.holds, str(certificate)
        assert lost <= certificate.mass * SLACK + 1e-9
        S, rate = certificate.mass, learner.learning_rate
        C = learner.theorem.constant(diameter=diameter)
        right = against.norm * np.sqrt(first @ first / rate**2 + C * S)
        assert S - loss + first @ ranker / rate <= right * SLACK + 1e-9 * (1 + abs(first @ ranker) / rate)
        for q in (0.6 * C, C, 3 * C) if C > 0 else ():  # the same with the distance from the start
            distance = q * ranker - first / rate
            promised = loss + (C * loss + distance @ distance) / (2 * q - C)
            assert promised * SLACK + 1e-9 >= S
        # Without its direction, the bound is that of the worst, and no smaller.
        unknown = learner.guarantee(comparator=(against.norm, loss), diameter=diameter)
        assert unknown * SLACK >= learner.guarantee(comparator=against, diameter=diameter)


@given(data=separable_streams(), make=LEARNERS, start=LENGTHS, seed=DIRECTIONS, bound_signs=st.booleans())
@examples(5)
def test_the_bound_on_separable_streams(data, make, start, seed, bound_signs):
    """S <= C / margin² + 2 |w1| / (rate margin), wherever it starts; the separator satisfies the constraints."""
    signs = np.sign(data.ranker) if bound_signs else np.zeros(len(data.ranker))
    first = inside(random_vector(len(signs), seed, start), signs)
    learner = make(initial_weights=first, **constraints(signs))
    measure = getattr(learner, "measure", "ndcg")
    learner.learn(data.stream, measure)
    diameter = pr.theory.diameter(data.stream, measure)
    certificate = learner.certificate(margin=data.margin, diameter=diameter)
    assert certificate.holds, str(certificate)
    C = learner.theorem.constant(diameter=diameter)
    promised = learner.guarantee(margin=data.margin, diameter=diameter)
    moved = learner.theorem.of_moved.bound(
        margin=data.margin, diameter=diameter, start=float(np.linalg.norm(first)) / learner.learning_rate
    )
    way = 2 * np.linalg.norm(first) / (learner.learning_rate * data.margin)
    assert moved == pytest.approx(C / data.margin**2 + way, rel=1e-6)
    assert promised <= moved * SLACK
    assert make(initial_weights=first).guarantee(margin=data.margin, diameter=diameter) == pytest.approx(promised)


@given(data=separable_streams(), seed=DIRECTIONS, start=LENGTHS)
def test_safe_averaging_from_a_start(data, seed, start):
    first = random_vector(len(data.ranker), seed, start)
    learner = pr.ListwisePerceptron(initial_weights=first, transforms=None)
    losses = learner.learn(data.stream, "ndcg").losses("ndcg").sum()
    diameter = pr.theory.diameter(data.stream)
    assert learner.certificate(margin=data.margin, diameter=diameter).holds
    assert losses <= learner.guarantee(margin=data.margin, diameter=diameter) * SLACK


@given(
    constant=st.floats(0.01, 100), norm=st.floats(0, 100), loss=st.floats(0, 100), start=st.floats(0.01, 100),
    cosine=st.floats(-1, 1),
)  # fmt: skip
def test_the_bound_solves_the_inequality(constant, norm, loss, start, cosine):
    """It is the largest S with S - L + p <= U sqrt(start² + C S): the difference of both sides is convex in S."""
    p = norm * start * cosine
    found = largest_lost(norm**2 * constant, 0.0, loss, norm * start, p)

    def excess(S):
        return S - loss + p - norm * np.sqrt(start**2 + constant * S)

    rounding = 1e-6 * (1 + found + norm * start)
    assert found == 0 or excess(found) <= rounding
    assert excess(found + rounding) > excess(found) - 1e-9 * rounding
    assert excess(2 * found + 1 + rounding) > 0


def test_a_start_in_the_right_direction_costs_nothing():
    """With w1 a large multiple of u, the bound tends to L: what is known is not learned again."""
    bounds = [largest_lost(16.0, 0.0, 3.0, 2.0 * start, 2.0 * start) for start in (1.0, 10.0, 1e3, 1e6)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] == pytest.approx(3.0, rel=1e-3)


def test_a_step_may_turn_away_from_the_best_start():
    """Where one might expect S <= L + |u - v1| sqrt(C L) + |u - v1|² C, which is L for v1 = u: S is 2, L is 1."""
    X = [[0.0, 5.0], [0.0, 0.0], [1.0, -1.0], [0.0, 0.0]]
    stream = pr.QueryStream.from_arrays(X, [1, 0, 1, 0], group=[2, 2])
    learner = pr.MinimaxPerceptron("ndcg", initial_weights=[1.0, 0.0])
    learner.learn(stream)
    loss = pr.theory.cumulative_surrogate(np.array([1.0, 0.0]), stream, "ndcg", surrogate="max-pair")
    against = Comparator(1.0, loss, np.array([1.0, 0.0]))
    certificate = learner.certificate(comparator=against, diameter=pr.theory.diameter(stream))
    assert (loss, certificate.mass, certificate.holds) == (1, 2, True)


def test_a_certificate_by_hand():
    """One step of length 5 from (0, -10): S = 1, |w - w1| = 5 rate, along the margin."""
    learner = pr.MinimaxPerceptron(learning_rate=2.0, initial_weights=[0.0, -10.0])
    learner.learn_one([[3.0, 4.0], [0.0, 0.0]], [1, 0])
    np.testing.assert_array_equal(learner.weights, [6.0, -2.0])
    certificate = learner.certificate(margin=5.0, radius=5.0)
    assert (certificate.mass, certificate.reach) == (1, 5)
    assert [one.bound for one in certificate.promises] == pytest.approx([1, 1 + 2, 4 + 2])
    assert "|w - w₁| / (rate margin)" in str(certificate)
    assert learner.theorem.statement == "mistakes ≤ D²/γ² + 2|w₁|/(ηγ)"
    assert learner.theorem.separable_formula() == "(D² / γ² + 2 |w₁| / (rate γ))"


def test_comparators_must_satisfy_the_constraints():
    learner = pr.MinimaxPerceptron(positive=[0])
    learner.learn_one([[3.0, 4.0], [0.0, 0.0]], [1, 0])
    assert "a linear ranker that satisfies the constraints" in learner.theorem.assumption
    assert learner.certificate(comparator=Comparator(1.0, 0.0, np.array([1.0, 0.0]))).holds
    for use in (learner.certificate, lambda **given: learner.guarantee(diameter=1.0, **given)):
        with pytest.raises(ValueError, match=r"comparator must satisfy the constraints: .* must be >= 0, got -1.0"):
            use(comparator=Comparator(1.0, 0.0, np.array([-1.0, 0.0])))


def test_the_norm_of_a_start_may_depend_on_the_features():
    frozen = pr.RunningStandardizer().learn(pr.separable(5).stream).freeze()
    learner = pr.SlamPerceptron(initial_weights={0: 1.0}, transforms=frozen)
    with pytest.raises(ValueError, match="depends on the features and transforms: learn first"):
        learner.guarantee(diameter=1.0, margin=1.0)
    learner.learn(pr.separable(5).stream)
    assert learner.guarantee(diameter=1.0, margin=1.0) > learner.theorem.constant(diameter=1.0)
