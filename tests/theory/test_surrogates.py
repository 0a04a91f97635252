import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import twins
from support.strategies import judged_scores

import perceptrank as pr

MEASURES = st.sampled_from([("ndcg", None), ("ndcg", 1), ("ndcg", 3), ("ndcg", 10), ("ap", None)])
ORDERS = st.sampled_from(["score", "mean", "index"])


def named(name, k):
    return f"{name}@{k}" if k else name


def slam_twin(scores, grades, name, k, order, margin):
    v = twins.slam_weights(scores, grades, name, k, class_order=order)
    return twins.slam(scores, twins.judged(grades, name), v, margin)


@pytest.mark.kernel
@given(query=judged_scores(max_size=40), measure=MEASURES, order=ORDERS, margin=st.sampled_from([0.25, 1.0, 4.0]))
def test_slam_equals_its_definition(query, measure, order, margin):
    scores, grades = query
    surrogate = pr.Slam(named(*measure), margin=margin, class_order=order)
    value, gradient = slam_twin(scores, grades, *measure, order, margin)
    assert surrogate.value(scores, grades) == pytest.approx(value, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(surrogate.gradient(scores, grades), gradient, atol=1e-12)


@pytest.mark.kernel
def test_slam_with_many_grades_takes_the_general_paths():
    rng = np.random.default_rng(3)
    grades = rng.permutation(300) / 90
    for scores in (rng.normal(size=300), rng.integers(9, size=300).astype(float)):
        for name in (("ndcg", None), ("ndcg", 20), ("ndcg", 60)):
            for order in ("score", "mean", "index"):
                value, gradient = slam_twin(scores, grades, *name, order, 1.0)
                surrogate = pr.Slam(named(*name), class_order=order)
                assert surrogate.value(scores, grades) == pytest.approx(value)
                np.testing.assert_allclose(surrogate.gradient(scores, grades), gradient, atol=1e-12)


@pytest.mark.kernel
@given(query=judged_scores(max_size=15, grades=st.integers(0, 4).map(float)), margin=st.sampled_from([0.5, 1.0]))
def test_max_pair_equals_its_definition(query, margin):
    scores, grades = query
    widest = twins.widest_pair(scores, grades)
    surrogate = pr.MaxPair(margin=margin)
    expected, gradient = 0.0, np.zeros(len(scores))
    if widest is not None and scores[widest[2]] > scores[widest[1]] - margin:
        expected = margin + widest[0]
        gradient[widest[1]], gradient[widest[2]] = -1, 1
    assert surrogate.value(scores, grades) == pytest.approx(expected, abs=1e-9)
    np.testing.assert_array_equal(surrogate.gradient(scores, grades), gradient)


@pytest.mark.parametrize("offset", [1e6, 1e12, 1e15])
def test_a_common_offset_of_all_scores_changes_nothing(offset):
    scores, grades = np.array([0.0, 2.0, 4.0, 2.0, 0.0]), [4, 3, 2, 0, 0]
    for surrogate in (pr.Slam(), pr.Slam("ap"), pr.Slam("ndcg@2"), pr.MaxPair()):
        assert surrogate.value(scores + offset, grades) == surrogate.value(scores, grades) > 0


@pytest.mark.kernel
@given(query=judged_scores(max_size=15, relevant=False))
def test_listnet_equals_its_definition(query):
    scores, grades = query
    target, predicted = twins.softmax(grades), twins.softmax(scores)
    assert pr.ListNet().value(scores, grades) == pytest.approx(-target @ np.log(predicted), rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(pr.ListNet().gradient(scores, grades), predicted - target, atol=1e-14)


def test_listnet_is_stable():
    value = pr.ListNet().value([1e6, 0.0], [0.0, 800.0])
    assert value == pytest.approx(1e6)
    assert np.isfinite(pr.ListNet().gradient([1e6, -1e6], [0.0, 800.0])).all()


@given(
    query=judged_scores(min_size=2, max_size=8),
    surrogate=st.sampled_from([pr.Slam(), pr.Slam("ndcg@3"), pr.Slam("ap", margin=2.0), pr.MaxPair(), pr.ListNet()]),
    seed=st.integers(0, 1000),
)
def test_gradients_agree_with_finite_differences(query, surrogate, seed):
    """Where the surrogate is smooth, which it is around almost every point."""
    rng = np.random.default_rng(seed)
    scores, grades = query
    scores = scores + rng.normal(size=len(scores))
    step = 1e-6
    gaps = np.abs(np.subtract.outer(scores, scores)[~np.eye(len(scores), dtype=bool)])
    hinges = np.abs(gaps - getattr(surrogate, "margin", 1.0))
    assume(min(gaps.min(), hinges.min()) > 1e-4)
    if isinstance(surrogate, pr.MaxPair):
        widest = twins.widest_pair(scores, grades)
        assume(widest is not None)
        rivals = sorted(
            (scores[j] - scores[i] for i in range(len(scores)) for j in range(len(scores)) if grades[i] > grades[j]),
        )
        assume(len(rivals) < 2 or rivals[-1] - rivals[-2] > 1e-4)
    numeric = [
        (surrogate.value(scores + step * e, grades) - surrogate.value(scores - step * e, grades)) / (2 * step)
        for e in np.eye(len(scores))
    ]
    np.testing.assert_allclose(surrogate.gradient(scores, grades), numeric, atol=1e-5)


@given(query=judged_scores(max_size=12), measure=MEASURES, order=ORDERS, margin=st.sampled_from([0.25, 1.0, 3.0]))
@pytest.mark.parametrize("ties", ["worst", "stable", "reverse", "random", "expected"])
def test_slam_over_margin_bounds_the_loss(ties, query, measure, order, margin):
    scores, grades = query
    name, k = measure
    loss = 1 - pr.parse(f"{named(name, k)}:ties={ties}")(scores, grades)
    slam = pr.Slam(named(name, k), margin=margin, class_order=order)
    assert slam.value(scores, grades) / margin >= loss - 1e-9


@given(query=judged_scores(max_size=12), measure=MEASURES, order=ORDERS)
def test_the_weight_of_outranked_documents_bounds_the_loss(query, measure, order):
    scores, grades = query
    name, k = measure
    v = twins.slam_weights(scores, grades, name, k, class_order=order)
    _, outranked = twins.listwise(scores, twins.judged(grades, name), v, 0.0, "top")
    assert v.sum() == pytest.approx(1)
    assert v[outranked].sum() >= 1 - pr.parse(named(name, k))(scores, grades) - 1e-9


@given(
    query=judged_scores(min_size=2, max_size=10),
    surrogate=st.sampled_from(
        [
            pr.Slam(class_order="index"),
            pr.Slam("ndcg@2", class_order="mean"),
            pr.Slam("ap"),
            pr.MaxPair(),
            pr.LevelPair(),
            pr.ListNet(),
        ]
    ),
    seed=st.integers(0, 1000),
)
def test_gradients_are_subgradients(query, surrogate, seed):
    """phi(t) >= phi(s) + g(s) . (t - s), for surrogates whose weights do not move with the scores."""
    scores, grades = query
    rng = np.random.default_rng(seed)
    other = scores + rng.normal(size=len(scores)) * rng.choice([0.01, 1.0, 10.0])
    slope = surrogate.gradient(scores, grades) @ (other - scores)
    assert surrogate.value(other, grades) >= surrogate.value(scores, grades) + slope - 1e-9


@given(query=judged_scores(min_size=2, max_size=10), measure=MEASURES, seed=st.integers(0, 1000))
def test_slam_is_lipschitz_with_constant_root_two(query, measure, seed):
    scores, grades = query
    rng = np.random.default_rng(seed)
    slam = pr.Slam(named(*measure), class_order="index")  # weights do not move with the scores
    other = scores + rng.normal(size=len(scores)) * rng.choice([0.01, 1.0, 10.0])
    difference = abs(slam.value(scores, grades) - slam.value(other, grades))
    assert difference <= np.sqrt(2) * np.linalg.norm(scores - other) + 1e-9


@given(query=judged_scores(min_size=2, max_size=10), measure=MEASURES, seed=st.integers(0, 1000))
def test_gradient_norm_lemma(query, measure, seed):
    """||X^T g||^2 <= 4 m R^2 v_max phi on mistakes (the paper), and ||X^T g|| <= D V (ours)."""
    scores, grades = query
    name, k = measure
    assume(twins.is_mistake(scores, grades, name, k))
    X = np.random.default_rng(seed).normal(size=(len(scores), 3))
    slam = pr.Slam(named(name, k))
    g = slam.gradient(scores, grades)
    step = X.T @ g
    v = twins.slam_weights(scores, grades, name, k)
    v_max = v.max() / v[v > 0].min()
    counted = min(k, len(v)) if k else len(v)
    radius = np.linalg.norm(X, axis=1).max()
    assert step @ step <= 4 * counted * radius**2 * v_max * slam.value(scores, grades) + 1e-9
    judged = twins.judged(grades, name)
    apart = np.greater.outer(judged, judged)
    diameter = np.linalg.norm(X[:, None] - X[None, :], axis=2)[apart].max()
    _, active = twins.listwise(scores, judged, v, 1.0, "top")
    assert np.linalg.norm(step) <= diameter * v[active].sum() + 1e-9


@given(query=judged_scores(min_size=2, max_size=10), measure=MEASURES, seed=st.integers(0, 1000))
def test_places_lemma(query, measure, seed):
    """What the theorem on places needs of the coefficients c = -g: see docs/theory/."""
    scores, grades = query
    name, k = measure
    rng = np.random.default_rng(seed)
    margin = rng.choice([0.0, 0.3, 2.0])
    judged, v = twins.judged(grades, name), twins.slam_weights(scores, grades, name, k)
    g, active = twins.places(scores, judged, v, margin, k)
    up, level, mass = -g, twins.levels(judged), v[active].sum()
    assert mass >= 1 - pr.parse(named(name, k))(scores, grades) - 1e-9
    assume(mass > 0)
    gap = up @ level  # V times the mean level gap of its pairs
    assert gap >= mass - 1e-9
    assert up @ scores <= margin * gap + 1e-9 * (1 + np.abs(scores).max())
    X = rng.normal(size=(len(scores), 3))
    apart = np.greater.outer(judged, judged)
    assert np.linalg.norm(X.T @ up) <= np.linalg.norm(X[:, None] - X[None, :], axis=2)[apart].max() * mass + 1e-9
    comparator = rng.normal(size=len(scores)) * rng.choice([0.1, 1.0, 10.0])
    assert up @ comparator >= gap - mass * twins.level_pair(comparator, judged) - 1e-9


@pytest.mark.kernel
@given(query=judged_scores(max_size=10), measure=MEASURES, margin=st.sampled_from([0.5, 1.0]))
def test_level_pair(query, measure, margin):
    scores, grades = query
    found = pr.LevelPair(named(*measure), margin=margin)
    judged = twins.judged(grades, measure[0])
    expected = margin * twins.level_pair(scores / margin, judged)
    assert found.value(scores, grades) == pytest.approx(expected, abs=1e-9)
    assert found.value(scores, grades) >= pr.MaxPair(named(*measure), margin=margin).value(scores, grades) - 1e-9


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), "1", None, True])
def test_wrong_margins(wrong):
    for kind in (pr.Slam, pr.MaxPair, pr.LevelPair):
        with pytest.raises(ValueError, match="margin must be a number > 0"):
            kind(margin=wrong)


def test_other_bad_input():
    with pytest.raises(ValueError, match="class_order must be one of 'score', 'mean', 'index'"):
        pr.Slam(class_order="random")
    with pytest.raises(ValueError, match="ndcg, ndcg@k or ap to learn from"):
        pr.Slam("err@10")
    with pytest.raises(ValueError, match="at least one document"):
        pr.Slam().value([], [])
    with pytest.raises(ValueError, match="scores must be finite"):
        pr.ListNet().gradient([float("nan")], [1])
