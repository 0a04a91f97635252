"""The theorems as tests: cumulative loss never exceeds its bound, on separable and on noisy streams."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import promises, twins
from support.bounding import comparators, diameter, named
from support.learners import at_weights
from support.strategies import EITHER_PRECISION, separable_streams, streams

import perceptrank as pr
from perceptrank.theory import bounds, theorems

MEASURES = st.sampled_from([("ndcg", None), ("ndcg", 2), ("ndcg", 10), ("ap", None)])
SLACK = 1 + 1e-9


def radius(stream):
    return np.linalg.norm(stream.X.astype(float), axis=1).max()


@given(stream=streams(dtypes=EITHER_PRECISION), measure=MEASURES)
def test_radius_diameter_and_weight_ratio(stream, measure):
    name, k = measure
    np.testing.assert_allclose(pr.theory.radius(stream), radius(stream), rtol=1e-12)
    np.testing.assert_allclose(pr.theory.diameter(stream, named(name, k)), diameter(stream, name), rtol=1e-6)
    ratio = 1.0
    for query in stream:
        v = twins.slam_weights(np.zeros(len(query.X)), query.relevance, name, k)
        if v.any():
            ratio = max(ratio, v.max() / v[v > 0].min())
    np.testing.assert_allclose(bounds.weight_ratio(named(name, k), stream), ratio, rtol=1e-9)
    np.testing.assert_allclose(bounds.weight_ratio(named(name, k), stream.blocks(64)), ratio, rtol=1e-9)


def test_distances_far_from_the_origin_and_of_any_size():
    X = np.array([[1e8, 1.0], [1e8 + 3.0, 5.0], [1e8, 2.0]])
    assert pr.theory.diameter(pr.QueryStream.from_arrays(X, [1, 0, 1])) == 5.0
    for size in (1e-200, 1e200):
        stream = pr.QueryStream.from_arrays(np.array([[3.0, 4.0], [0.0, 0.0]]) * size, [1, 0])
        np.testing.assert_allclose(pr.theory.radius(stream), 5 * size)
        np.testing.assert_allclose(pr.theory.diameter(stream), 5 * size)
    same = pr.QueryStream.from_arrays(np.ones((2, 2)), [1, 0])
    assert pr.theory.diameter(same) == 0.0


def test_weight_ratios_of_large_and_linear_grades():
    stream = pr.QueryStream.from_arrays(np.zeros((2, 1)), [3000, 2999])
    np.testing.assert_allclose(bounds.weight_ratio("ndcg", stream), 2 * np.log2(3))
    np.testing.assert_allclose(bounds.weight_ratio(pr.NDCG(gain="linear"), stream), 3000 / 2999 * np.log2(3))


@pytest.mark.parametrize("bound", [theorems.perceptron().bound, theorems.pair_perceptron().bound])
def test_bounds_want_a_margin_or_a_comparator(bound):
    for wrong in ({}, {"margin": 1, "comparator": (1, 1)}):
        with pytest.raises(ValueError, match="margin or comparator"):
            bound(radius=1, **wrong)
    for wrong in (
        {"margin": 0},
        {"margin": -1},
        {"comparator": (-1, 0)},
        {"comparator": (1, np.nan)},
        {"comparator": (1,)},
        {"comparator": 5},
    ):
        with pytest.raises(ValueError, match=r"margin|comparator"):
            bound(radius=1, **wrong)
    with pytest.raises(ValueError, match="radius"):
        bound(radius=-1, margin=1)


def test_bounds_where_numbers_end():
    assert theorems.pair_perceptron().bound(radius=1, margin=1e-170) == np.inf
    assert theorems.pair_perceptron().bound(radius=1, margin=1e200) == 0
    assert theorems.pair_perceptron().bound(radius=1e200, margin=1) == np.inf
    assert theorems.pair_perceptron().bound(radius=1, comparator=(1e200, 1)) == np.inf
    assert pr.SlamPerceptron().guarantee(diameter=1e200, margin=1) == np.inf
    ranker = pr.ListwisePerceptron(average=False)
    for scale in (2.0**-550, 2.0**550):  # D² is no number then, but D²/γ² is
        assert ranker.guarantee(diameter=12 * scale, margin=0.5 * scale) == ranker.guarantee(diameter=12, margin=0.5)


def test_worked_examples():
    """R = 1 and margin 0.1: 100 mistakes for classification, 400 for pairs, 399 rounds that cost any learner."""
    assert theorems.perceptron().bound(radius=1, margin=0.1) == pytest.approx(100)
    assert theorems.pair_perceptron().bound(radius=1, margin=0.1) == pytest.approx(400)
    assert promises.listwise(diameter=2, relative_margin=0, margin=0.1) == pytest.approx(400)
    assert promises.listwise(diameter=2, margin=0.1) == pytest.approx(1200)
    assert promises.listwise(diameter=2, violators="top", margin=0.1) == pytest.approx(450)
    assert promises.slam(diameter=2, learning_rate=0.1, margin=0.1) == pytest.approx(24**2 / 80 / 0.01)
    assert promises.slam(diameter=2, learning_rate=0.5, margin=0.1) == pytest.approx(400)
    assert bounds.lower(radius=1, margin=0.1, measure="ap") == pytest.approx(399 / 2)
    assert bounds.lower(radius=1, margin=0.1) == pytest.approx(399 * (1 - 1 / np.log2(3)))
    assert bounds.lower(radius=1, margin=0.1, measure="ap", version="paper") == pytest.approx(99 / 2)
    assert theorems.pair_perceptron().bound(radius=1, comparator=(2, 9)) == pytest.approx(9 + 8 + np.sqrt(16 * 9 + 64))
    wide = promises.listwise(diameter=2, learning_rate=1, surrogate_margin=3, comparator=(6, 12))
    assert wide == pytest.approx(12 + 180 + np.sqrt(360 * 12 + 180**2))
    for rate, expected in ((2, 12 + 72 + np.sqrt(144 * 12 + 72**2)), (1, (4 + 6) / 6 * (12 + 36 * 10 / 4))):
        found = promises.slam(diameter=2, learning_rate=rate, surrogate_margin=3, comparator=(6, 12))
        assert found == pytest.approx(expected)


def play(learner, stream, name, k):
    """Learn query by query; what the theorems speak of, for each round: (X, grades, weights v, loss, mass, updated)."""
    measure = pr.parse(named(name, k))
    for query in stream:
        scores = learner.predict(query.X)
        loss = 1 - measure(scores, query.relevance) if query.relevance.any() else 0.0
        grades = twins.judged(query.relevance, name)
        v = twins.slam_weights(scores, query.relevance, name, k)
        mass = learner.learn(pr.QueryStream.from_arrays(query.X, query.relevance)).masses[0]
        yield query.X.astype(float), grades, v, loss, mass


@given(data=separable_streams(), measure=MEASURES, rate=st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
def test_slam_separable(data, measure, rate):
    """Ours: S <= (D^2 + 2 / rate) / gamma^2 for every rate, and what is lost is within the bound that splits."""
    name, k = measure
    rounds = list(play(pr.SlamPerceptron(named(name, k), learning_rate=rate), data.stream, name, k))
    losses, masses = sum(one[3] for one in rounds), sum(one[4] for one in rounds)
    given = {"diameter": diameter(data.stream, name), "learning_rate": rate, "margin": data.margin}
    assert losses <= promises.slam(**given) * SLACK
    bound = promises.listwise(surrogate_margin=1.0, **given)
    assert promises.slam(**given) <= bound * SLACK
    assert all(one[3] <= one[4] * SLACK + 1e-12 for one in rounds)
    assert losses <= masses * SLACK + 1e-9
    assert masses <= bound * SLACK


@given(data=separable_streams(), measure=MEASURES)
def test_slam_separable_as_in_the_paper(data, measure):
    """With C = 4 m R^2 v_max and the rate 1 / C, the sum of surrogates is at most C / gamma^2."""
    name, k = measure
    longest = int(np.diff(data.stream.offsets).max())
    needed = {
        "radius": radius(data.stream),
        "n_documents": min(k, longest) if k else longest,
        "weight_ratio": bounds.weight_ratio(named(name, k), data.stream),
    }
    constant = promises.slam_as_in_the_paper(**needed, margin=1)
    learner = pr.SlamPerceptron(named(name, k), learning_rate=1 / constant)
    losses = sum(one[3] for one in play(learner, data.stream, name, k))
    assert losses <= promises.slam_as_in_the_paper(**needed, margin=data.margin) * SLACK


@given(stream=streams(), measure=MEASURES, seed=st.integers(0, 99))
def test_slam_noisy_as_in_the_paper(stream, measure, seed):
    """The bound at the best rate in hindsight, b / C with L b^2 + U^2 C (b - 1) = 0.

    Weights by index do not depend on the learner, so that L is known before its rate is.
    """
    name, k = measure
    longest = int(np.diff(stream.offsets).max())
    needed = {
        "radius": radius(stream),
        "n_documents": min(k, longest) if k else longest,
        "weight_ratio": bounds.weight_ratio(named(name, k), stream),
    }
    if needed["radius"] == 0:
        return
    constant = promises.slam_as_in_the_paper(**needed, margin=1)
    for u in comparators(stream, seed):
        surrogate = 0.0
        for query in stream:
            scores, grades = query.X.astype(float) @ u, twins.judged(query.relevance, name)
            v = twins.slam_weights(scores, query.relevance, name, k, class_order="index")
            surrogate += twins.slam(scores, grades, v, 1.0)[0]
        size = u @ u * constant
        root = np.sqrt(size**2 + 4 * size * surrogate)
        share = 2 * size / (size + root) if size > 0 else 1e-6
        learner = pr.SlamPerceptron(named(name, k), learning_rate=share / constant, class_order="index")
        losses = sum(one[3] for one in play(learner, stream, name, k))
        against = float(np.linalg.norm(u)), surrogate
        assert losses <= promises.slam_as_in_the_paper(**needed, comparator=against) * SLACK + 1e-9


@given(stream=streams(), measure=MEASURES, rate=st.sampled_from([0.01, 0.1, 1.0]), seed=st.integers(0, 99))
def test_slam_noisy(stream, measure, rate, seed):
    """S <= L + K / 2 + sqrt(K L + K^2 / 4) with K = U^2 (D^2 + 2 / rate), for every comparator u."""
    name, k = measure
    rounds = list(play(pr.SlamPerceptron(named(name, k), learning_rate=rate), stream, name, k))
    masses = sum(one[4] for one in rounds)
    assert sum(one[3] for one in rounds) <= masses * SLACK + 1e-9
    for u in comparators(stream, seed):
        surrogate = sum(twins.slam(X @ u, grades, v, 1.0)[0] for X, grades, v, _, mass in rounds if mass > 0)
        against = float(np.linalg.norm(u)), surrogate
        given = {"diameter": diameter(stream, name), "learning_rate": rate, "comparator": against}
        assert masses <= promises.listwise(surrogate_margin=1.0, **given) * SLACK
        assert sum(one[3] for one in rounds) <= promises.slam(**given) * SLACK + 1e-9


@given(data=separable_streams(), measure=MEASURES)
def test_minimax_separable(data, measure):
    """At most 4 R^2 / gamma^2 mistakes."""
    name, k = measure
    learner = pr.MinimaxPerceptron(named(name, k))
    trace = learner.learn(data.stream)
    bound = theorems.pair_perceptron().bound(radius=radius(data.stream), margin=data.margin)
    assert learner.n_updates == trace.n_updates <= bound * SLACK


@given(stream=streams(), measure=MEASURES, seed=st.integers(0, 99))
def test_minimax_noisy(stream, measure, seed):
    name, k = measure
    rounds = list(play(pr.MinimaxPerceptron(named(name, k)), stream, name, k))
    mistakes = sum(one[4] > 0 for one in rounds)
    assert sum(one[3] for one in rounds) <= mistakes + 1e-9
    largest = radius(stream)
    assume(largest > 0)
    for u in comparators(stream, seed):
        surrogate = sum(
            max(0.0, 1 + twins.widest_pair(X @ u, grades)[0]) for X, grades, _, _, mass in rounds if mass > 0
        )
        against = float(np.linalg.norm(u)), surrogate
        assert mistakes <= theorems.pair_perceptron().bound(radius=largest, comparator=against) * SLACK


LISTWISE = st.sampled_from(
    [(kind, rho) for kind in ("places", "uniform", "top") for rho in (0.0, 0.5, 1.0, 3.0)],
)


@given(data=separable_streams(), measure=MEASURES, setting=LISTWISE)
def test_listwise_separable(data, measure, setting):
    """Sum of RML <= S <= (1 + 2 rho) D^2 / gamma^2, and S <= ||w|| / gamma."""
    name, k = measure
    violators, rho = setting
    learner = pr.ListwisePerceptron(
        named(name, k), violators=violators, relative_margin=rho, average=False, transforms=None
    )
    rounds = list(play(learner, data.stream, name, k))
    masses = sum(one[4] for one in rounds)
    assert all(one[3] <= one[4] * SLACK + 1e-12 for one in rounds)
    largest = diameter(data.stream, name)
    assert masses <= promises.listwise(diameter=largest, relative_margin=rho, margin=data.margin) * SLACK
    assert masses <= np.linalg.norm(learner.weights) / data.margin * SLACK


@given(data=separable_streams(), measure=MEASURES, rate=st.sampled_from([0.01, 0.1, 1.0]), setting=LISTWISE)
def test_listwise_separable_with_an_absolute_margin(data, measure, rate, setting):
    name, k = measure
    learner = pr.ListwisePerceptron(
        named(name, k), violators=setting[0], margin=1.0, learning_rate=rate, average=False, transforms=None
    )
    masses = sum(one[4] for one in play(learner, data.stream, name, k))
    given = {"diameter": diameter(data.stream, name), "learning_rate": rate, "margin": data.margin}
    assert masses <= promises.listwise(surrogate_margin=1.0, **given) * SLACK
    expected = promises.listwise(surrogate_margin=1.0, violators=setting[0], **given)
    assert learner.guarantee(diameter=given["diameter"], margin=data.margin) == expected


@given(stream=streams(), measure=MEASURES, setting=LISTWISE, seed=st.integers(0, 99))
def test_listwise_noisy(stream, measure, setting, seed):
    """S <= L + K / 2 + sqrt(K L + K^2 / 4) with K = (1 + 2 rho) D^2 U^2, for every comparator u."""
    name, k = measure
    violators, rho = setting
    learner = pr.ListwisePerceptron(
        named(name, k), violators=violators, relative_margin=rho, average=False, transforms=None
    )
    rounds = list(play(learner, stream, name, k))
    masses = sum(one[4] for one in rounds)
    largest = diameter(stream, name)
    for u in comparators(stream, seed):
        if violators == "places":
            surrogate = sum(mass * twins.level_pair(X @ u, grades) for X, grades, _, _, mass in rounds if mass > 0)
        else:
            surrogate = sum(twins.slam(X @ u, grades, v, 1.0)[0] for X, grades, v, _, mass in rounds if mass > 0)
        against = float(np.linalg.norm(u)), surrogate
        assert masses <= promises.listwise(diameter=largest, relative_margin=rho, comparator=against) * SLACK


@pytest.mark.parametrize("violators", ["places", "uniform", "top"])
@pytest.mark.parametrize(("k", "n"), [(1, 10), (3, 20), (10, 100)])
def test_what_is_beyond_the_cut_off_does_not_matter(k, n, violators):
    """The k best documents, all of their grade, can be ranked first, the others not rightly: one query teaches that."""
    X, grades = np.array([[1.0]] * k + [[-5.0]] * n + [[0.0]] * n), [2] * k + [1] * n + [0] * n
    stream = pr.QueryStream.from_arrays(np.tile(X, (300, 1)), grades * 300, group=[len(X)] * 300)
    for average in (True, False):
        learner = pr.ListwisePerceptron(f"ndcg@{k}", violators=violators, average=average, transforms=None)
        assert learner.learn(stream, f"ndcg@{k}").losses(f"ndcg@{k}").sum() == pytest.approx(1)


@given(data=separable_streams())
def test_perceptron_separable(data):
    """At most R^2 / gamma^2 mistakes, for examples classified with margin gamma."""
    heights = data.stream.X @ data.ranker
    labels = data.stream.relevance > 0
    threshold = (heights[labels].min(initial=1e9) + heights[~labels].max(initial=-1e9)) / 2
    assume(labels.any() and not labels.all())
    X = np.column_stack([data.stream.X, np.ones(len(heights))])
    separator = np.append(data.ranker, -threshold)
    gamma = (np.where(labels, 1, -1) * (X @ separator)).min() / np.linalg.norm(separator)
    classifier = pr.Perceptron().fit(X, labels.astype(int))
    bound = theorems.perceptron().bound(radius=np.linalg.norm(X, axis=1).max(), margin=gamma)
    assert classifier.n_updates <= bound * SLACK


@given(stream=streams(), seed=st.integers(0, 99))
def test_perceptron_noisy(stream, seed):
    """M <= L + K / 2 + sqrt(K L + K^2 / 4), K = R^2 U^2, L the hinge losses of u on mistake rounds."""
    classifier = pr.Perceptron()
    labels = np.where(stream.relevance > 0, 1, -1)
    X = stream.X.astype(float)
    largest = radius(stream)
    assume(largest > 0)
    mistaken = np.array([classifier.learn_one(x, label) for x, label in zip(stream.X, labels, strict=True)])
    for u in comparators(stream, seed):
        hinges = np.maximum(0, 1 - labels * (X @ u))[mistaken].sum()
        against = float(np.linalg.norm(u)), float(hinges)
        assert mistaken.sum() <= theorems.perceptron().bound(radius=largest, comparator=against) * SLACK


@given(
    data=separable_streams(),
    measure=MEASURES,
    make=st.sampled_from(
        [
            lambda measure: (pr.SlamPerceptron(measure, learning_rate=0.3), 1.0),
            lambda measure: (
                pr.ListwisePerceptron(measure, relative_margin=0, average=False, learning_rate=0.3, transforms=None),
                0.0,
            ),
            lambda measure: (
                pr.ListwisePerceptron(measure, margin=2.0, average=False, learning_rate=0.3, transforms=None),
                2.0,
            ),
        ]
    ),
    seed=st.integers(0, 99),
)
def test_parameter_mixing(data, measure, make, seed):
    """Shards run from the common weights and are averaged: losses by weight add up to no more than one run's bound."""
    name, k = measure
    mu = np.random.default_rng(seed).dirichlet(np.ones(3))
    shards = [data.stream[place::3] for place in range(3)]
    common, losses, masses = None, 0.0, 0.0
    for _ in range(6):
        weights = []
        for share, shard in zip(mu, shards, strict=True):
            learner, margin = make(named(name, k))
            if common is not None:
                learner.learn(shard[:1])
                learner = at_weights(learner, common)
            trace = learner.learn(shard, named(name, k))
            losses += share * trace.losses(named(name, k)).sum()
            masses += share * trace.masses.sum()
            weights.append(share * learner.weights)
        common = sum(weights)
    bound = promises.parameter_mixing(
        diameter=diameter(data.stream, name), learning_rate=0.3, surrogate_margin=margin, margin=data.margin
    )
    assert losses <= masses * SLACK + 1e-9
    assert masses <= bound * SLACK


def test_parameter_mixing_with_a_relative_margin():
    """Three shards of the default rule, mixed: S by their weights is within (1 + 2 rho) D² / gamma², and beyond D²."""
    data = pr.separable(150, n_features=5, margin=0.05, seed=3)
    parts = [data.stream[place::3] for place in range(3)]
    ranker = pr.ListwisePerceptron(transforms=None, average=False)
    pr.distributed.learn(ranker, parts, epochs=8)
    size = diameter(data.stream, "ndcg")
    bound = promises.parameter_mixing(diameter=size, relative_margin=1.0, margin=data.margin)
    assert bound == pytest.approx(3 * (size / data.margin) ** 2)
    assert 0 < ranker.certificate(margin=data.margin).mass <= bound * SLACK
    assert promises.parameter_mixing(diameter=2, relative_margin=0.5, comparator=(3.0, 0.0)) == pytest.approx(72.0)


def test_the_stream_on_which_small_rates_are_costly():
    """Algorithm 2 errs tens of thousands of times with a small rate; the listwise learner some twenty times."""
    X, grades = np.array([[1.0, 0.0], [-0.9, 0.2], [0.0, 0.0]]), [1, 1, 0]
    n = 30_000
    stream = pr.QueryStream.from_arrays(np.tile(X, (n, 1)), grades * n, group=[3] * n)
    errors = {}
    for learner in (
        pr.SlamPerceptron("ap", learning_rate=1e-4),
        pr.SlamPerceptron("ap", learning_rate=1.0),
        pr.ListwisePerceptron("ap", average=False, transforms=None),
        pr.ListwisePerceptron("ap", average=False, relative_margin=0, transforms=None),
        pr.ListwisePerceptron("ap", average=False, violators="uniform", transforms=None),
        pr.ListwisePerceptron("ap", average=False, violators="uniform", relative_margin=0, transforms=None),
    ):
        values = learner.learn(stream, "ap").values("ap")
        errors[repr(learner)] = int((values < 1).sum())
        gamma = 0.2 / np.sqrt(1.9**2 + 0.2**2)
        assert (1 - values).sum() <= learner.guarantee(diameter=1, margin=gamma)
    assert list(errors.values()) == [n, 31, 24, 10, 20, 20]


def test_losses_stop_on_a_long_separable_stream():
    data = pr.separable(20_000, n_features=5, margin=3.0, seed=3)
    for learner in (
        pr.SlamPerceptron("ndcg"),
        pr.MinimaxPerceptron("ndcg"),
        pr.ListwisePerceptron(relative_margin=0, average=False, transforms=None),
        pr.ListwisePerceptron(average=False, transforms=None),
    ):
        values = learner.learn(data.stream, "ndcg").values("ndcg")
        assert (values[10_000:] == 1).all(), learner


@given(
    stream=streams(max_documents=20, max_features=8),
    penalty=st.sampled_from([0.1, 3.0, 1000.0]),
    target=st.sampled_from(["grades", "gains"]),
    growth=st.sampled_from([0.0, 0.5, 5.0]),
)
def test_ridge(stream, penalty, target, growth):
    """Both inequalities of Theorem R, after every query: in the quadratic forms of the proof, and in plain losses."""
    d = stream.n_features
    learner, twin = pr.OnlineRidge(penalty, target=target), twins.TwinRidge(d, penalty, target)
    losses, forms = [], 0.0
    for number, query in enumerate(stream):
        X = query.X * (1 + growth * number * (np.arange(d) % 2))
        weights = learner.weights if learner.n_rounds else np.zeros(d)
        learner.learn_one(X, query.relevance)
        new, before = twin.units == 0, twin.units.copy()
        twin.learn_one(X, query.relevance)
        if len(twin.queries) == len(losses):
            continue
        if twin.is_close_call:
            return
        Z, y = twin.queries[-1]
        missed = y - Z @ weights
        known = np.where(new, twin.units, before)  # the units before the query, and those of features new in it
        used = known > 0
        covered = penalty * np.diag(known**2) + sum(one.T @ one for one, _ in twin.queries[:-1])
        shape = Z[:, used] @ np.linalg.solve(covered[np.ix_(used, used)], Z[:, used].T)
        forms += missed @ np.linalg.solve(np.eye(len(y)) + shape, missed)
        losses.append(missed @ missed)
        best = twin.objective(twin.weights)
        assert forms <= best * SLACK + 1e-9
        used = twin.units > 0
        doublings = np.log2(twin.units[used] / twin.first_units[used]).sum()
        regret = bounds.ridge(
            n_features=d,
            n_documents=sum(len(one) for _, one in twin.queries),
            penalty=penalty,
            largest_loss=max(losses),
            n_doublings=round(doublings),
        )
        assert sum(losses) <= (best + regret) * SLACK


def test_the_identity_of_ridge_regression():
    """While units stay as they are, the sum of the quadratic forms is the least objective itself: nothing is lost."""
    rng = np.random.default_rng(0)
    X, grades = np.tile([[1.0, 1], [1, -1], [-1, 1], [-1, -1]], (30, 1)), rng.integers(0, 4, size=120)
    stream = pr.QueryStream.from_arrays(X, grades, group=[4] * 30)
    learner, twin, forms = pr.OnlineRidge(5.0), twins.TwinRidge(2, 5.0), 0.0
    inverse = np.eye(2) / 5.0
    for query in stream:
        weights = learner.weights if learner.n_rounds else np.zeros(2)
        learner.learn_one(query.X, query.relevance)
        n_before = len(twin.queries)
        twin.learn_one(query.X, query.relevance)
        if len(twin.queries) > n_before:
            Z, y = twin.queries[-1]
            missed = y - Z @ weights
            forms += missed @ np.linalg.solve(np.eye(4) + Z @ inverse @ Z.T, missed)
            inverse = np.linalg.inv(np.linalg.inv(inverse) + Z.T @ Z)
    assert learner.units_.tolist() == [1.0, 1.0]
    np.testing.assert_allclose(forms, twin.objective(learner.weights), rtol=1e-12)
