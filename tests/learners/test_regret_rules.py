"""The listwise perceptron for ERR, reciprocal rank and precision, against its definition, and its bound."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import twins
from support.strategies import examples, judged_scores, separable_streams, streams

import perceptrank as pr

PLAIN = {"average": False, "transforms": None}
MEASURES = st.sampled_from(["err", "err@2", "rr", "rr@3", "p@1", "p@3", "p"])
SLACK = 1 + 1e-9


def seen(grades, measure):
    """Grades as the measure sees them."""
    return grades if measure.startswith("err") else (grades > 0).astype(float)


def regret(measure, scores, grades):
    """What the ranking loses to the best one, which is found among all orders."""
    chosen = pr.parse(measure)
    return max(chosen(order, grades) for order in ideal_orders(grades)) - chosen(scores, grades)


def ideal_orders(grades):
    if len(grades) <= 5:
        return list(itertools.permutations(range(len(grades))))
    return [grades]


@pytest.mark.kernel
@pytest.mark.filterwarnings("ignore:features differ in spread")  # scores may be tiny
@given(query=judged_scores(min_size=2, max_size=5), measure=MEASURES, margin=st.sampled_from([0.0, 0.5, 2.0]))
@examples(3)
def test_steps_are_those_of_the_definition(query, measure, margin):
    """The rule on documents whose scores are given, as those by one feature."""
    scores, grades = query
    m = len(scores)
    X = np.column_stack([scores, np.eye(m)])
    learner = pr.ListwisePerceptron(measure, margin=margin, initial_weights=[1.0] + [0.0] * m, **PLAIN)
    learned = seen(grades, measure)
    raised = scores - margin * twins.levels(learned)
    expected = np.zeros(m)
    lost = regret(measure, raised, grades)
    if len(set(learned)) > 1 and lost > 1e-12:
        v = np.full(m, 1 / m)
        step, active = twins.places(scores, learned, v, margin, pr.parse(measure).cutoff)
        expected = step * lost / v[active].sum()
    mass = learner.learn(pr.QueryStream.from_arrays(X, grades), []).masses[0]
    assert mass == pytest.approx(lost if expected.any() else 0.0, abs=1e-12)
    assert mass >= regret(measure, scores, grades) - 1e-12  # no less than the ranking by the scores themselves loses
    np.testing.assert_allclose(learner.weights[1:], -expected, atol=1e-12)


def regrets_of(trace, measure, stream):
    best = pr.parse(f"{measure}{',' if ':' in measure else ':'}empty=zero")
    return best.per_query(stream.relevance, stream.relevance, stream.offsets) - np.nan_to_num(trace.values(measure))


@given(data=separable_streams(), measure=MEASURES, rho=st.sampled_from([0.0, 1.0, 3.0]))
def test_the_bound_with_a_margin(data, measure, rho):
    stream = data.stream
    learner = pr.ListwisePerceptron(measure, relative_margin=rho, **PLAIN)
    trace = learner.learn(stream, measure)
    sizes = {"margin": data.margin, "diameter": pr.theory.diameter(stream)}
    lost = regrets_of(trace, measure, stream).sum()
    assert lost <= trace.masses.sum() * SLACK + 1e-9
    assert trace.masses.sum() <= learner.guarantee(**sizes, n_documents=20) * SLACK
    assert learner.certificate(**sizes).holds
    if measure.startswith("rr"):
        assert trace.losses(measure).sum() == pytest.approx(lost)


@given(stream=streams(), measure=MEASURES, rho=st.sampled_from([0.0, 1.0]), seed=st.integers(0, 999))
def test_the_bound_against_every_ranker(stream, measure, rho, seed):
    u = np.random.default_rng(seed).normal(size=stream.n_features)
    learner = pr.ListwisePerceptron(measure, relative_margin=rho, **PLAIN)
    masses = learner.learn(stream, []).masses
    L = sum(
        mass * twins.level_pair(query.X @ u, seen(query.relevance, measure))
        for mass, query in zip(masses, stream, strict=True)
        if mass > 0
    )
    against = float(np.linalg.norm(u)), float(L)
    bound = learner.guarantee(comparator=against, diameter=pr.theory.diameter(stream, "ndcg"))
    assert masses.sum() <= bound * SLACK + 1e-12


@given(stream=streams(), measure=MEASURES)
def test_safe_averaging_counts_the_losses_of_the_measure(stream, measure):
    learner, current = pr.ListwisePerceptron(measure, transforms=None), pr.ListwisePerceptron(measure, **PLAIN)
    trace, other = learner.learn(stream, measure), current.learn(stream, measure)
    assert learner.current_loss == pytest.approx(regrets_of(other, measure, stream).sum())
    assert learner.used_loss == pytest.approx(regrets_of(trace, measure, stream).sum())
    assert learner.used_loss <= min(3 * learner.current_loss + 2, (3 * learner.mean_loss + 1) / 2) + 1e-9
    again = pr.ListwisePerceptron(measure, transforms=None)
    for query in stream:
        again.learn_one(query.X, query.relevance)
    assert np.array_equal(again.coef_, learner.coef_)
    assert (again.mean_loss, again.used_loss) == (learner.mean_loss, learner.used_loss)


def test_an_optimum_that_is_below_1_is_no_loss():
    """ERR of the best ranking is below 1; nothing is learned from it."""
    learner = pr.ListwisePerceptron("err", margin=0, initial_weights=[1.0], **PLAIN)
    trace = learner.learn(pr.QueryStream.from_arrays([[3.0], [2.0], [1.0]], [2, 1, 0]), "err")
    assert trace.losses("err").sum() > 0.7
    assert trace.n_updates == 0


def test_what_cannot_be_learned():
    stream = pr.QueryStream.from_arrays([[1.0], [0.0]], [5, 0])
    learner = pr.ListwisePerceptron("err", transforms=None)
    with pytest.raises(ValueError, match="err is defined for grades up to max_grade=4, got 5"):
        learner.learn(stream)
    assert not learner.model.has_begun
    assert pr.ListwisePerceptron("err:max_grade=5", transforms=None).learn_one(stream.X, stream.relevance)
    for make in (
        lambda: pr.ListwisePerceptron("rr", violators="uniform"),
        lambda: pr.ListwisePerceptron("p@3", violators="top"),
        lambda: pr.SlamPerceptron("err"),
    ):
        with pytest.raises(ValueError, match="measure must be ndcg, ndcg@k or ap to learn from"):
            make()
