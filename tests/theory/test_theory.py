"""Margins, comparators and certificates, against brute force and against general solvers."""

import copy
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from support import promises, twins
from support.strategies import EITHER_PRECISION, examples, separable_streams, streams

import perceptrank as pr
from perceptrank.theory import bounds, theorems
from perceptrank.theory.comparators import _value_and_gradient
from perceptrank.theory.margins import shortest_combination, worst_pairs_pass
from perceptrank.theory.theorem import SURROGATES

SLACK = 1 + 1e-9


def all_pairs(stream, measure="ndcg", cutoff=0):
    """(row of the better, row of the worse) for all pairs of a query with different grades, or those of the top."""
    grades = stream.relevance if measure != "ap" else (stream.relevance > 0).astype(float)
    return [
        (i, j)
        for start, stop in zip(stream.offsets[:-1], stream.offsets[1:], strict=True)
        for i, j in product(range(start, stop), repeat=2)
        if grades[i] > grades[j] and (not cutoff or (grades[start:stop] > grades[i]).sum() < cutoff)
    ]


def differences(stream, measure="ndcg"):
    X = stream.X.astype(float)
    return np.array([X[i] - X[j] for i, j in all_pairs(stream, measure)])


# Margins


def check(found, stream, measure="ndcg"):
    """What a Margin says about itself is so."""
    D = differences(stream, measure)
    assert np.linalg.norm(found.ranker) == pytest.approx(1) or found.lower == -np.inf
    if found.lower > -np.inf:
        np.testing.assert_allclose(found.lower, (D @ found.ranker).min(), rtol=1e-6, atol=1e-9)
    assert (found.shares > 0).all()
    assert found.shares.sum() == pytest.approx(1)
    assert set(zip(found.higher.tolist(), found.lower_graded.tolist(), strict=True)) <= set(all_pairs(stream, measure))
    X = stream.X.astype(float)
    combined = found.shares @ (X[found.higher] - X[found.lower_graded])
    np.testing.assert_allclose(np.linalg.norm(combined), found.upper, rtol=1e-6, atol=1e-9)
    assert found.lower <= found.upper * SLACK + 1e-12
    assert found.gap == found.upper - found.lower


def test_margins_by_hand():
    one = pr.QueryStream.from_arrays([[3.0, 4.0], [0.0, 0.0]], [1, 0])
    assert pr.theory.margin(one).lower == pytest.approx(5)
    three = pr.QueryStream.from_arrays([[1.0, 0.0], [-0.9, 0.2], [0.0, 0.0]], [1, 1, 0])
    found = pr.theory.margin(three)
    assert found.lower == pytest.approx(0.2 / np.sqrt(1.9**2 + 0.2**2))
    assert found.separable
    levels = pr.QueryStream.from_arrays([[5.0], [3.0], [2.0], [9.0]], [2, 1, 0, 3])
    assert pr.theory.margin(levels).upper == pytest.approx(1)
    opposed = pr.QueryStream.from_arrays([[1.0, 2.0], [0.0, 0.0], [0.0, 0.0], [1.0, 2.0]], [1, 0, 1, 0], group=[2, 2])
    found = pr.theory.margin(opposed)
    assert found.separable is False
    assert found.upper == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(found.shares, [0.5, 0.5])
    binary = pr.QueryStream.from_arrays([[1.0], [2.0], [0.0]], [2, 1, 0])
    assert pr.theory.margin(binary).separable is False
    assert pr.theory.margin(binary, "ap").lower == pytest.approx(1)


@given(stream=streams(max_queries=6, max_documents=5, max_features=4), measure=st.sampled_from(["ndcg", "ap"]))
def test_margins_against_general_solvers(stream, measure):
    """The linear program says whether it is separable, the quadratic one, min |w| with w.d >= 1, by how much."""
    D = differences(stream, measure)
    assume(len(D) > 0)
    found = pr.theory.margin(stream, measure, tolerance=1e-6)
    check(found, stream, measure)
    d = D.shape[1]
    lp = linprog(np.r_[np.zeros(d), -1], np.c_[-D, np.ones(len(D))], np.zeros(len(D)), bounds=[(-1, 1)] * (d + 1))
    assume(not 1e-12 < -lp.fun < 1e-7)
    assert found.separable == (-lp.fun > 1e-7)
    if found.separable:
        scale = found.upper
        qp = minimize(
            lambda w: w @ w,
            found.ranker + 0.1,
            jac=lambda w: 2 * w,
            constraints={"type": "ineq", "fun": lambda w: D @ w / scale - 1, "jac": lambda w: D / scale},
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        if qp.success:
            assert found.lower == pytest.approx(scale / np.linalg.norm(qp.x), rel=1e-3)


@given(data=separable_streams())
def test_margins_of_separable_streams(data):
    pairs = all_pairs(data.stream)
    assume(pairs)
    found = pr.theory.margin(data.stream)
    check(found, data.stream)
    assert found.separable
    assert found.upper >= data.margin * (1 - 1e-6)
    assert found.gap <= 1e-3 * found.upper * SLACK


def test_margins_from_blocks():
    data = pr.separable_blocks(300, queries_per_block=70, seed=4)
    whole = pr.separable(300, seed=4).stream
    found, expected = pr.theory.margin(data.blocks), pr.theory.margin(whole)
    check(found, whole)
    assert found.lower == pytest.approx(expected.lower, rel=1e-3)
    with pytest.raises(TypeError, match="must be re-iterable"):
        pr.theory.margin(iter(whole.blocks(1000)))


def test_a_margin_that_is_tiny_is_still_one():
    data = pr.separable(200, margin=1e-4, noise=1.0, n_features=6, seed=1)
    found = pr.theory.margin(data.stream)
    assert found.separable
    assert found.lower >= 1e-4 * (1 - 1e-3)


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        ([[1e9, 0.05], [0, 0], [0, 0.05], [1e9, 0]], 0.05),
        ([[1e6, 1e-5], [0, 0], [-1e6, 1e-5], [0, 0]], 1e-5),
        ([[1, 1e-9], [0, 0], [-1, 1e-9], [0, 0]], 1e-9),
        ([[1e-170, 0], [0, 0], [1e-170, 1e-170], [0, 0]], 1e-170),
        ([[1e150 / 2, 0], [0, 0], [1e150 / 2, 1], [0, 0]], 1e150 / 2),
    ],
)
def test_margins_of_unusual_scales(X, expected):
    found = pr.theory.margin(pr.QueryStream.from_arrays(np.array(X, dtype=float), [1, 0, 1, 0], group=[2, 2]))
    assert found.separable
    assert found.lower == pytest.approx(expected, rel=1e-3)


@given(seed=st.integers(0, 10**6))
@examples(3)
def test_separability_does_not_depend_on_scales(seed):
    rng = np.random.default_rng(seed)
    sizes, d = rng.integers(2, 5, size=rng.integers(1, 6)), rng.integers(1, 5)
    X, grades = rng.normal(size=(sizes.sum(), d)), rng.integers(0, 3, size=sizes.sum())
    plain = pr.QueryStream.from_arrays(X, grades, group=sizes)
    assume(all_pairs(plain))
    scaled = plain.with_features(X * 10.0 ** rng.uniform(-5, 5, size=d) + 100.0)
    assert pr.theory.margin(plain).separable == pr.theory.margin(scaled).separable


@pytest.mark.parametrize("offset", [1e9, 1e12])
def test_margins_far_from_the_origin(offset):
    stream = pr.separable(100, n_features=4, seed=2).stream
    expected = pr.theory.margin(stream)
    found = pr.theory.margin(stream.with_features(np.asarray(stream.X) + offset))
    assert found.lower <= found.upper
    assert found.lower == pytest.approx(expected.lower, rel=1e-2)


def test_too_few_passes_leave_it_open():
    data = pr.separable(500, margin=0.01, n_features=20, seed=1)
    found = pr.theory.margin(data.stream, max_passes=2)
    check(found, data.stream)
    assert found.n_passes == 2
    assert found.separable is None
    assert "undecided" in repr(found)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tolerance": 0}, "tolerance"),
        ({"max_passes": 1}, "max_passes"),
        ({"measure": "none"}, "none"),
        ({"measure": "err"}, "ndcg, ndcg@k or ap"),
    ],
)
def test_margins_of_wrong_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        pr.theory.margin(pr.separable(5).stream, **wrong)


def test_margins_of_wrong_streams():
    equal = pr.QueryStream.from_arrays(np.eye(3), [1, 1, 1])
    with pytest.raises(ValueError, match="no two documents"):
        pr.theory.margin(equal)
    other = pr.QueryStream.from_arrays(np.eye(2), [1, 0])
    with pytest.raises(ValueError, match="must have 2 features, as the first has, got 3"):
        pr.theory.margin([other, pr.QueryStream.from_arrays(np.eye(3), [1, 0, 0])])
    huge = pr.QueryStream.from_arrays(np.array([[1e200, 1e200], [-1e200, 1e200]]) * 1e108, [1, 0])
    with pytest.raises(ValueError, match="finite"):
        pr.theory.margin(huge)


@given(st.integers(1, 8), st.integers(1, 4), st.integers(0, 10**6))
def test_shortest_combinations(n, d, seed):
    points = np.random.default_rng(seed).normal(size=(n, d)) + 0.5
    shares = shortest_combination(points)
    assert (shares >= 0).all()
    assert shares.sum() == pytest.approx(1)
    point = shares @ points
    assert (points @ point >= point @ point - 1e-7).all()


@pytest.mark.kernel
@given(
    stream=streams(dtypes=EITHER_PRECISION),
    seed=st.integers(0, 10**6),
    measure=st.sampled_from(["ndcg", "ap"]),
    cutoff=st.sampled_from([0, 1, 3]),
)
def test_worst_pairs(stream, seed, measure, cutoff):
    weights = np.round(np.random.default_rng(seed).normal(size=stream.n_features), 1)
    n = len(stream)
    gaps, higher, lower = np.empty(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    arrays = stream.X, stream.relevance, stream.offsets
    scratch = np.empty((5, stream.n_documents + 2)), np.zeros((4, stream.n_documents + 2), dtype=np.int64)
    assert worst_pairs_pass(measure == "ap", cutoff, *arrays, weights, gaps, higher, lower, *scratch) == n
    scores = stream.X.astype(float) @ weights
    for q in range(n):
        rows = range(stream.offsets[q], stream.offsets[q + 1])
        pairs = [pair for pair in all_pairs(stream, measure, cutoff) if pair[0] in rows]
        if not pairs:
            assert gaps[q] == np.inf
            assert higher[q] == -1
            continue
        assert gaps[q] == pytest.approx(min(scores[i] - scores[j] for i, j in pairs))
        assert (higher[q], lower[q]) in pairs
        assert scores[higher[q]] - scores[lower[q]] == pytest.approx(gaps[q])


# Comparators


def worst_slam(scores, relevance, name, k):
    """The largest SLAM value, margin 1, over all orders inside relevance classes."""
    grades = twins.judged(relevance, name)
    if len(set(grades)) < 2:
        return 0.0
    values = []
    for order in permutations(range(len(scores))):
        ordered = grades[list(order)]
        if (np.diff(ordered) <= 0).all():
            gains = (2.0**ordered - 1) if name == "ndcg" else (ordered > 0).astype(float)
            places = np.arange(len(ordered))
            weights = gains / np.log2(2 + places) if name == "ndcg" else gains
            weights[k if k else len(weights) :] = 0
            weights /= weights.sum()
            hinges = [
                max([0.0, *(1 + scores[j] - scores[i] for j in range(len(scores)) if grades[j] < grades[i])])
                for i in order
            ]
            values.append(float(weights @ hinges))
    return max(values)


MEASURES = st.sampled_from([("ndcg", None), ("ndcg", 2), ("ap", None)])


@pytest.mark.kernel
@given(stream=streams(max_queries=4, max_documents=5), measure=MEASURES, seed=st.integers(0, 10**6))
def test_cumulative_surrogates(stream, measure, seed):
    name, k = measure
    ranker = np.random.default_rng(seed).normal(size=stream.n_features)
    full = f"{name}@{k}" if k else name
    expected = sum(worst_slam(query.X.astype(float) @ ranker, query.relevance, name, k) for query in stream)
    assert pr.theory.cumulative_surrogate(ranker, stream, full) == pytest.approx(expected)
    widest = 0.0
    for query in stream:
        grades = twins.judged(query.relevance, name)
        if len(set(grades)) > 1:
            widest += max(0.0, 1 + twins.widest_pair(query.X.astype(float) @ ranker, grades)[0])
    found = pr.theory.cumulative_surrogate(ranker, stream, full, surrogate="max-pair")
    assert found == pytest.approx(widest)
    assert found >= expected * (1 - 1e-9)


@pytest.mark.kernel
@given(
    stream=streams(max_queries=4), kind=st.sampled_from(["slam", "max-pair", "level-pair"]), seed=st.integers(0, 10**6)
)
def test_subgradients_of_cumulative_surrogates(stream, kind, seed):
    """f(v) >= f(u) + g.(v - u) for all u and v: what makes it convex, and g a subgradient."""
    rng = np.random.default_rng(seed)

    u, v = rng.normal(size=(2, stream.n_features))
    (at_u, slope), (at_v, _) = (_value_and_gradient(one, stream, "ndcg", kind) for one in (u, v))
    assert at_v >= at_u + slope @ (v - u) - 1e-9


@given(stream=streams(max_queries=8), penalty=st.sampled_from([0.01, 0.3, 5.0]), seed=st.integers(0, 99))
def test_comparators_are_near_the_best(stream, penalty, seed):
    """No worse than what thousands of subgradient steps find."""
    found = pr.theory.comparator(stream, "ndcg", penalty=penalty)
    assert found.norm == pytest.approx(np.linalg.norm(found.ranker))
    assert found.loss == pytest.approx(pr.theory.cumulative_surrogate(found.ranker, stream))
    value = found.loss + penalty * found.norm**2
    u = np.random.default_rng(seed).normal(size=stream.n_features) * 0.1
    best = np.inf
    for t in range(1000):
        loss, gradient = _value_and_gradient(u, stream, "ndcg", "slam")
        best = min(best, loss + penalty * u @ u)
        u = u - (gradient + 2 * penalty * u) / (2 * penalty * (t + 2))
    assert value <= best + found.excess + 1e-9
    assert found.excess <= 0.01 * value


def test_a_comparator_by_hand():
    """One pair at distance 2: 1 - 2u + p u^2 for u <= 1/2 falls until the corner unless p is large."""
    stream = pr.QueryStream.from_arrays([[2.0], [0.0]], [1, 0])
    assert pr.theory.comparator(stream, penalty=1.0).norm == pytest.approx(0.5, rel=1e-2)
    found = pr.theory.comparator(stream, penalty=4.0)
    assert found.norm == pytest.approx(0.25, rel=1e-2)
    assert found.loss == pytest.approx(0.5, rel=1e-2)
    assert pr.theory.comparator(stream, "ap", penalty=4.0, surrogate="max-pair").norm == pytest.approx(0.25, rel=1e-2)


def test_comparators_of_wrong_arguments():
    stream = pr.separable(5).stream
    with pytest.raises(ValueError, match="penalty"):
        pr.theory.comparator(stream, penalty=-1)
    with pytest.raises(ValueError, match="ndcg, ndcg@k or ap"):
        pr.theory.comparator(stream, "err", penalty=1)
    with pytest.raises(ValueError, match="surrogate"):
        pr.theory.comparator(stream, penalty=1, surrogate="hinge")
    with pytest.raises(TypeError, match="must be re-iterable"):
        pr.theory.comparator(iter([stream]), penalty=1)
    with pytest.raises(ValueError, match="no queries"):
        pr.theory.comparator([], penalty=1)
    with pytest.raises(ValueError, match="vector"):
        pr.theory.cumulative_surrogate(np.ones((2, 2)), stream)
    with pytest.raises(ValueError, match="no queries"):
        pr.theory.radius([])
    with pytest.raises(ValueError, match="20 weights"):
        pr.theory.cumulative_surrogate([1.0], stream)
    with pytest.raises(ValueError, match="finite"):
        pr.theory.cumulative_surrogate(np.full(20, np.nan), stream)


@pytest.mark.parametrize("penalty", [1e-30, 1e-12, 1e-3])
@pytest.mark.parametrize("options", [{"max_passes": 100}, pytest.param({}, marks=pytest.mark.deep)])
def test_what_a_comparator_may_miss_is_not_understated(penalty, options):
    data = pr.separable(200, margin=1.0, seed=1)
    found = pr.theory.comparator(data.stream, penalty=penalty, **options)
    value = found.loss + penalty * found.norm**2
    known = data.ranker / data.margin * (1 + 1e-9)  # loses nothing
    assert value - found.excess <= pr.theory.cumulative_surrogate(known, data.stream) + penalty * known @ known
    assert found.excess <= value * SLACK


def test_comparators_search_no_longer_than_they_may():
    passes = []

    class Counted(list):
        def __iter__(self):
            passes.append(1)
            return super().__iter__()

    pr.theory.comparator(Counted([pr.separable(50, label_noise=0.2).stream]), penalty=0.1, max_passes=7)
    assert len(passes) <= 7 + 2  # and to see that it can be repeated, and how many features there are


# Certificates

LEARNERS = st.sampled_from(
    [
        lambda measure: pr.SlamPerceptron(measure, learning_rate=0.01),
        lambda measure: pr.SlamPerceptron(measure, learning_rate=1.0, margin=3.0, class_order="mean"),
        lambda measure: pr.MinimaxPerceptron(measure, learning_rate=0.3),
        lambda measure: pr.ListwisePerceptron(measure, transforms=None),
        lambda measure: pr.ListwisePerceptron(
            measure, relative_margin=0, learning_rate=2.0, violators="top", transforms=None
        ),
        lambda measure: pr.ListwisePerceptron(measure, relative_margin=3, class_order="index", transforms=None),
        lambda measure: pr.ListwisePerceptron(measure, margin=0.5, learning_rate=0.1, transforms=None),
        lambda measure: pr.CategoryRanking(measure=measure, learning_rate=0.3),
        lambda measure: pr.CategoryRanking("max", measure=measure),
    ]
)
NAMES = st.sampled_from(["ndcg", "ndcg@2", "ndcg@10", "ap"])


@given(data=separable_streams(), make=LEARNERS, measure=NAMES)
@examples(5)
def test_certificates_on_separable_streams(data, make, measure):
    learner = make(measure).set_params(average=False)
    losses = learner.learn(data.stream, measure).losses(measure).sum()
    diameter = pr.theory.diameter(data.stream, measure)
    certificate = learner.certificate(margin=data.margin, diameter=diameter)
    assert certificate.holds
    assert losses <= certificate.mass * SLACK + 1e-9
    assert certificate.reach <= diameter * SLACK
    assert [one.name for one in certificate.promises] == ["a posteriori", "from the steps", "a priori"]
    after, steps, before = (one.bound for one in certificate.promises)
    assert after <= steps * SLACK + 1e-12
    if learner.theorem.surrogate != "level-pair":  # whose proof counts a pair once for each level between its documents
        assert after**2 <= steps * certificate.mass * SLACK + 1e-12  # |w|^2 <= rate^2 C S, the heart of the proof
    assert steps <= before * SLACK
    promised = learner.guarantee(diameter=diameter, margin=data.margin)
    assert promised <= before * SLACK
    if not learner.theorem.splits:
        assert before == promised
    assert losses <= certificate.loss_bound * SLACK + 1e-9
    assert certificate.loss_bound <= min(certificate.mass, promised) * SLACK
    m = int(np.diff(data.stream.offsets).max())
    shorter = learner.certificate(margin=data.margin, diameter=diameter, n_documents=m).loss_bound
    assert losses <= shorter * SLACK + 1e-9
    assert shorter == pytest.approx(bounds.largest_share(measure, m) * certificate.loss_bound)
    assert learner.guarantee(diameter=diameter, margin=data.margin, n_documents=m) == pytest.approx(
        bounds.largest_share(measure, m) * promised
    )
    assert certificate.norm == np.linalg.norm(learner.weights)


@given(data=separable_streams(), violators=st.sampled_from(["places", "uniform", "top"]), measure=NAMES)
def test_certificates_of_safe_averaging(data, violators, measure):
    learner = pr.ListwisePerceptron(measure, violators=violators, transforms=None)
    losses = learner.learn(data.stream, measure).losses(measure).sum()
    diameter = pr.theory.diameter(data.stream, measure)
    certificate = learner.certificate(margin=data.margin, diameter=diameter)
    assert certificate.holds
    *_, before, averaging = certificate.promises
    assert (averaging.name, averaging.quantity) == ("safe averaging", "loss")
    assert averaging.happened == certificate.used_loss == pytest.approx(losses, abs=1e-9)
    assert averaging.bound == bounds.safe_averaging(certificate.mean_loss, certificate.current_loss)
    assert certificate.current_loss <= certificate.mass * SLACK + 1e-9
    promised = learner.guarantee(diameter=diameter, margin=data.margin)
    assert averaging.bound <= promised * SLACK
    assert promised <= 3 * before.bound + 2 + 1e-9
    if violators != "top":
        assert promised == pytest.approx(3 * before.bound + 2)


def test_mistakes_of_classification_do_not_bound_the_loss():
    """Both relevant documents are on the right side, in the wrong order, for ever."""
    X = np.tile([[2.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], (50, 1))
    stream = pr.QueryStream.from_arrays(X, [1, 2, 0] * 50, group=[3] * 50)
    learner = pr.Perceptron()
    lost = learner.learn(stream, "ndcg").losses("ndcg").sum()
    certificate = learner.certificate(margin=1.0, radius=2.0)
    assert certificate.holds
    assert certificate.mass == 1
    assert 10 < lost < certificate.loss_bound


@given(
    stream=streams(), make=LEARNERS, measure=NAMES, seed=st.integers(0, 99), length=st.sampled_from([0.1, 1.0, 10.0])
)
@examples(5)
def test_certificates_on_noisy_streams(stream, make, measure, seed, length):
    learner = make(measure).set_params(average=False)
    losses = learner.learn(stream, measure).losses(measure).sum()
    ranker = pr.ListwisePerceptron(transforms=None).fit(stream, n_passes=3, seed=seed).coef_
    ranker = ranker * (length / (np.linalg.norm(ranker) or 1.0))
    loss = pr.theory.cumulative_surrogate(ranker, stream, measure, surrogate=learner.theorem.surrogate)
    against = pr.theory.Comparator(float(np.linalg.norm(ranker)), loss, ranker)
    certificate = learner.certificate(comparator=against, radius=pr.theory.radius(stream))
    assert certificate.holds
    assert losses <= certificate.mass * SLACK + 1e-9
    assert losses <= certificate.loss_bound * SLACK + 1e-9


@given(stream=streams(max_queries=5, max_documents=6), make=LEARNERS, measure=NAMES)
def test_certificates_with_the_best_comparator(stream, make, measure):
    learner = make(measure)
    learner.learn(stream)
    constant = learner.guarantee(diameter=pr.theory.diameter(stream, measure), margin=1)
    assume(constant > 0)
    best = pr.theory.comparator(stream, measure, penalty=constant, surrogate=learner.theorem.surrogate)
    assert learner.certificate(comparator=best).holds


@given(data=separable_streams())
def test_certificates_of_classification(data):
    labels = data.stream.relevance > 0
    assume(labels.any() and not labels.all())
    heights = data.stream.X @ data.ranker
    threshold = (heights[labels].min() + heights[~labels].max()) / 2
    X = np.column_stack([data.stream.X, np.ones(len(heights))])
    separator = np.append(data.ranker, -threshold)
    gamma = (np.where(labels, 1, -1) * (X @ separator)).min() / np.linalg.norm(separator)
    classifier = pr.Perceptron(learning_rate=0.5).fit(X, labels.astype(int))
    certificate = classifier.certificate(margin=gamma, radius=np.linalg.norm(X, axis=1).max())
    assert certificate.holds
    assert certificate.mass == certificate.updates == classifier.n_updates


def test_a_certificate_by_hand():
    """One step of length 5, weight 1: S = 1, |w| = 5 rate; on the pair itself, margin 5, all bounds are met or near."""
    learner = pr.MinimaxPerceptron(learning_rate=2.0)
    learner.learn_one([[3.0, 4.0], [0.0, 0.0]], [1, 0])
    certificate = learner.certificate(margin=5.0, radius=5.0)
    assert (certificate.mass, certificate.squared_steps, certificate.reach, certificate.norm) == (1, 25, 5, 10)
    assert [one.bound for one in certificate.promises] == [1, 1, 4]
    assert [one.used for one in certificate.promises] == [1, 1, 0.25]
    text = str(certificate)
    assert "minimax: 1 updates in 1 rounds" in text
    assert "100.0% used" in text
    assert "mean of its weights" not in text
    assert "mean of its weights" in str(learner.set_params(average=True).certificate(margin=5.0))
    broken = learner.certificate(margin=6.0)
    assert not broken.holds
    assert "BROKEN" in str(broken)


@pytest.mark.parametrize(
    ("learner", "change"),
    [
        (pr.MinimaxPerceptron(), {"learning_rate": 100.0}),
        (pr.ListwisePerceptron(transforms=None), {"relative_margin": 0.0}),
        (pr.KernelPerceptron(policy="exact", budget=None, transforms=None), {"measure": "ap"}),
    ],
    ids=lambda value: getattr(value, "algorithm", ""),
)
def test_there_is_no_certificate_after_settings_have_changed(learner, change, tmp_path):
    """Its inequalities are about one rule and one rate; the model remembers, in its file too."""
    stream = pr.separable(40, seed=3).stream
    learner.set_params(**learner.get_params()).learn(stream)
    assert learner.set_params(**learner.get_params()).certificate(margin=0.1).rounds == 40
    assert learner.set_params(average=False).certificate(margin=0.1).rounds == 40
    learner.set_params(**change).learn(stream)
    learner.save(tmp_path / "model.json")
    for ranker in (learner, pr.load(tmp_path / "model.json"), copy.deepcopy(learner)):
        with pytest.raises(ValueError, match=r"settings of .* were changed after learning had begun: learn anew"):
            ranker.certificate(margin=0.1)
    assert learner.fit(stream).certificate(margin=0.1).rounds == 40


def test_a_certificate_goes_on_with_the_model(tmp_path):
    stream = pr.separable(60, seed=3).stream
    whole, halves = pr.ListwisePerceptron(transforms=None), pr.ListwisePerceptron(transforms=None)
    whole.learn(stream)
    halves.learn(stream[:20])
    halves.save(tmp_path / "model.json")
    halves = pr.load(tmp_path / "model.json")
    halves.learn(stream[20:])
    assert halves.certificate(margin=0.5) == whole.certificate(margin=0.5)


def test_who_promises_nothing_and_what_is_missing():
    net = pr.OnlineListNet()
    net.learn(pr.separable(5).stream)
    with pytest.raises(ValueError, match="no theorem"):
        net.certificate(margin=1)
    with pytest.raises(ValueError, match="no theorem"):
        net.guarantee(diameter=1, margin=1)
    with pytest.raises(AttributeError, match="not learned"):
        pr.SlamPerceptron().certificate(margin=1)
    learner = pr.SlamPerceptron()
    learner.learn(pr.separable(5).stream)
    for wrong in ({}, {"margin": 1, "comparator": (1, 1)}):
        with pytest.raises(ValueError, match="margin or comparator"):
            learner.certificate(**wrong)
    with pytest.raises(ValueError, match="diameter or radius"):
        learner.guarantee(margin=1)
    with pytest.raises(ValueError, match="radius"):
        pr.Perceptron().guarantee(diameter=1, margin=1)
    with pytest.raises(ValueError, match="diameter"):
        learner.guarantee(diameter=-1, margin=1)


def test_comparators_must_be_by_the_surrogate_of_the_theorem():
    stream = pr.separable(5).stream
    listwise, uniform = (
        pr.ListwisePerceptron(transforms=None),
        pr.ListwisePerceptron(violators="uniform", transforms=None),
    )
    found = {name: pr.theory.comparator(stream, penalty=1.0, surrogate=name) for name in SURROGATES}
    found = {name: one._replace(measure=None) for name, one in found.items()}
    for learner, wrong in (
        (listwise, ("slam", "max-pair")),
        (pr.MinimaxPerceptron(), ("slam",)),
        (uniform, ()),
        (pr.SlamPerceptron(), ()),
    ):
        learner.learn(stream)
        for name, one in found.items():
            if name in wrong:
                with pytest.raises(ValueError, match=f"comparator must be of surrogate='{learner.theorem.surrogate}'"):
                    learner.guarantee(diameter=1, radius=1, comparator=one)
                with pytest.raises(ValueError, match=f"got '{name}'"):
                    learner.certificate(comparator=one)
            else:
                assert learner.certificate(comparator=one).holds
                learner.guarantee(diameter=1, radius=1, comparator=one)


def test_comparators_must_be_for_the_measure_that_is_learned():
    stream = pr.separable(5).stream
    found = pr.theory.comparator(stream, "ndcg", penalty=1.0)
    for learner in (pr.SlamPerceptron("ndcg@1"), pr.SlamPerceptron("ap"), pr.SlamPerceptron("ndcg:gain=linear")):
        with pytest.raises(ValueError, match=r"comparator must be for .*, which the learner learns, got one for"):
            learner.guarantee(diameter=1, comparator=found)
    pr.SlamPerceptron("ndcg:ties=random").guarantee(diameter=1, comparator=found)
    with pytest.raises(ValueError, match="must be a pair of a norm and a loss here, got one of surrogate='slam'"):
        pr.Perceptron().guarantee(radius=1, comparator=found)
    with pytest.raises(ValueError, match="surrogate of the comparator must be one of"):
        pr.SlamPerceptron().guarantee(diameter=1, comparator=pr.theory.Comparator(1.0, 1.0, surrogate="hinge"))


def test_guarantees_are_the_bounds():
    given = {"diameter": 3.0, "margin": 0.5}
    assert pr.SlamPerceptron(learning_rate=0.1, margin=2.0).guarantee(**given) == promises.slam(
        learning_rate=0.1, surrogate_margin=2.0, **given
    )
    assert pr.MinimaxPerceptron().guarantee(radius=3.0, margin=0.5) == theorems.pair_perceptron().bound(
        radius=3.0, margin=0.5
    )
    for settings, expected in (
        ({"relative_margin": 2}, promises.listwise(relative_margin=2, **given)),
        ({"relative_margin": 2, "violators": "top"}, promises.listwise(relative_margin=2, violators="top", **given)),
        ({"margin": 1.0, "learning_rate": 0.5}, promises.listwise(surrogate_margin=1.0, learning_rate=0.5, **given)),
        ({"margin": 1.0, "learning_rate": 0.5, "violators": "top"}, promises.slam(learning_rate=0.5, **given)),
        ({"margin": 0}, promises.listwise(relative_margin=0, **given)),
    ):
        assert pr.ListwisePerceptron(average=False, **settings, transforms=None).guarantee(**given) == expected
        assert pr.ListwisePerceptron(**settings, transforms=None).guarantee(**given) == 3 * expected + 2
    assert pr.Perceptron().guarantee(radius=2, comparator=(1, 4)) == theorems.perceptron().bound(
        radius=2, comparator=(1, 4)
    )
