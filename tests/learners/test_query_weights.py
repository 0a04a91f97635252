"""Query weights: what they multiply in each learner, and what they leave alone."""

import json

import numpy as np
import pytest
from support.learners import LEARNERS, SETTINGS, all_wrapped, bits

import perceptrank as pr
from perceptrank.learners.learning import check_weights
from perceptrank.learners.wrappers.bagging import draw_repeats

NAMES = pr.algorithms()
STEPPING = sorted(name for name, kind in NAMES.items() if kind.accepts_sparse)  # by `close_query`
REFUSING = sorted(
    name for name, kind in NAMES.items() if not kind.accepts_query_weights and name not in ("sum", "tournament")
)
# Rankings depend neither on the rate nor on the scale of features.
SCALE_FREE = {
    "listwise": lambda: pr.ListwisePerceptron(transforms=None),
    "listwise uniform": lambda: pr.ListwisePerceptron("ap", violators="uniform", transforms=None, average=False),
    "listwise top": lambda: pr.ListwisePerceptron("ndcg@3", violators="top", transforms=None),
    "minimax": lambda: pr.MinimaxPerceptron(average=True),
    "category-ranking": pr.CategoryRanking,
    "perceptron": lambda: pr.Perceptron(average=True),
    "committee": pr.CommitteePerceptron,
}


def accepts(make):
    learner = make()
    try:
        check_weights(learner, learner.model, np.array([0.5]))
    except ValueError:
        return False
    return True


ACCEPTING = {name: make for name, make in SETTINGS.items() if accepts(make)}
ACCEPTING["fixed"] = lambda: pr.FixedRanker([1.0, -2.0, 0.5, 0.1])  # which needs settings
FEW = {name: make for name, make in ACCEPTING.items() if "scaled" not in name}


def by_name(names):
    """Parametrize by name; settings beyond the defaults of each learner are left to deep runs."""
    marked = [pytest.param(name, marks=() if name in (*LEARNERS, "fixed") else pytest.mark.deep) for name in names]
    return pytest.mark.parametrize("name", marked)


def noisy(n=25, seed=0, *, sparse=False, weights=True):
    """Queries of different lengths; weights from 0 to 1, so that every learner takes them, those of 0 among them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 8, size=n)
    X = rng.normal(size=(sizes.sum(), 4))
    if sparse:
        import scipy.sparse

        X = scipy.sparse.csr_matrix(np.where(rng.random(X.shape) < 0.6, X, 0.0))
    grades = rng.integers(0, 4, size=sizes.sum())
    drawn = rng.choice([0.0, 0.125, 0.7, 1.0], size=n)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return pr.QueryStream(X, grades, offsets, query_weights=drawn if weights else None)


def layouts(name):
    return (False, True) if name in STEPPING else (False,)


@by_name(ACCEPTING)
def test_queries_one_by_one_give_the_same_bits(name, tmp_path):
    """By learn, by learn_one, and with a model file in between."""
    for sparse in layouts(name):
        stream = noisy(sparse=sparse)
        whole, one_by_one, halves = (ACCEPTING[name]() for _ in range(3))
        trace = whole.learn(stream, "ndcg")
        updated = [one_by_one.learn_one(query.X, query.relevance, query.weight) for query in stream]
        assert bits(one_by_one) == bits(whole)
        np.testing.assert_array_equal(trace.masses > 0, updated)
        first = halves.learn(stream[:11], "ndcg")
        halves.save(tmp_path / "model.json")
        loaded = pr.load(tmp_path / "model.json")
        rest = loaded.learn(stream[11:], "ndcg")
        assert bits(loaded) == bits(whole)
        np.testing.assert_array_equal(pr.Trace.concatenate([first, rest]).values("ndcg"), trace.values("ndcg"))


@by_name(SETTINGS)
def test_weights_of_1_change_nothing(name):
    stream = noisy(weights=False)
    without, ones = SETTINGS[name](), SETTINGS[name]()
    traces = [without.learn(stream, "ndcg"), ones.learn(stream.with_query_weights(np.ones(len(stream))), "ndcg")]
    assert bits(ones) == bits(without)
    for document in [bits(without), *bits(without).get("members", [])]:
        kept = document["state"] or {}
        if "faded" not in kept:  # where the sum of weights of rounds fades, it is no number of rounds
            assert not any("weight_" in key or "_weight" in key for key in kept)
    np.testing.assert_array_equal(traces[0].masses, traces[1].masses)
    assert traces[0].mean("ndcg") == pytest.approx(traces[1].mean("ndcg"), rel=1e-12)


@by_name(name for name in FEW if not {"bagging", "hedge", "wrappers"} & set(name.replace(":", " ").split()))
def test_a_query_of_weight_0_is_ranked_and_changes_nothing(name):
    """Bagging and Hedge draw by the number of the query, and transforms that learn see every document."""
    for sparse in layouts(name):
        stream = noisy(sparse=sparse, seed=3)
        if name == "listwise":  # by default it divides sparse features by their running spread
            stream = noisy(seed=3)
        kept = np.flatnonzero(stream.query_weights)
        assert 0 < len(kept) < len(stream)
        all_queries, without = FEW[name](), FEW[name]()
        trace, other = all_queries.learn(stream, "ndcg"), without.learn(stream[kept], "ndcg")
        np.testing.assert_array_equal(trace.values("ndcg")[kept], other.values("ndcg"))
        assert trace.masses[stream.query_weights == 0].sum() == 0
        assert trace.mean("ndcg") == pytest.approx(other.mean("ndcg"), rel=1e-12)
        for document in (found := [bits(all_queries), bits(without)]):
            document.pop("queries")
            for member in document.get("members", []):
                member.pop("queries")
                member.pop("members", None)
        assert found[0] == found[1]


@pytest.mark.parametrize("name", [*STEPPING, "numpy"])
@pytest.mark.parametrize("weight", [0.3, 7.0])
def test_a_weight_multiplies_the_step(name, weight):
    kind = TowardsTheBest if name == "numpy" else NAMES[name]
    for sparse in layouts(name):
        stream = noisy(sparse=sparse, seed=1)
        n_moved = 0
        for query in noisy(8, seed=2, sparse=sparse):
            before, plain, weighted = (kind(transforms=None) for _ in range(3))
            for one in (before, plain, weighted):
                one.learn(stream)
            plain.learn_one(query.X, query.relevance)
            n_moved += weighted.learn_one(query.X, query.relevance, weight)
            step = plain.weights - before.weights
            np.testing.assert_allclose(weighted.weights - before.weights, weight * step, rtol=1e-9, atol=1e-12)
        assert n_moved > 0


@pytest.mark.parametrize("name", STEPPING)
def test_sums_are_weighted(name):
    """The mean of the iterates, and what margins and certificates are made of."""
    for sparse in (False, True):
        stream = noisy(40, seed=4, sparse=sparse)
        learner = NAMES[name](average=True, transforms=None)
        total, before = np.zeros(4), np.zeros(4)
        mass, reaches, steps, moved, weights = 0.0, [], [], [], []
        for query in stream:
            rate = getattr(learner, "learning_rate", 1.0)
            size = learner.learn(
                pr.QueryStream.from_arrays(query.X, query.relevance, query_weights=[query.weight])
            ).masses[0]
            total += query.weight * learner.weights
            mass += size
            if size > 0:
                step = (learner.weights - before) / (rate * query.weight)
                reaches.append(query.weight * (step @ step) / (size / query.weight) ** 2)
                steps.append(query.weight**2 * (step @ step))
                moved.append(query.weight)
            weights.append(query.weight)
            before = learner.weights
        state = learner.as_document()["state"]
        found = [state[key] for key in ("mass", "squared_reach", "squared_steps", "largest_squared_reach")]
        expected = [mass, np.dot(moved, reaches), sum(steps), max(reaches)]
        np.testing.assert_allclose(found, expected, rtol=1e-7)
        np.testing.assert_allclose(state["weight_of_rounds"], sum(weights))
        np.testing.assert_allclose(state["weight_of_updates"], sum(moved))
        assert state["largest_weight"] == max(weights)
        assert (state["rounds"], state["updates"]) == (np.count_nonzero(weights), len(moved))
        if name != "listwise" or learner.ranks_with == "mean":
            np.testing.assert_allclose(learner.coef_, total / sum(weights), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SCALE_FREE)
@pytest.mark.parametrize("factor", [2.0**-7, 2.0**20])
def test_weights_in_other_units_change_no_ranking(name, factor):
    """All weights times a power of two: the weights of features too, to the bit, and every ranking as it was."""
    for sparse in (False, True) if SCALE_FREE[name]().accepts_sparse else (False,):
        stream = noisy(60, seed=5, sparse=sparse)
        one, other = SCALE_FREE[name](), SCALE_FREE[name]()
        trace = one.learn(stream, "ndcg")
        scaled = other.learn(stream.with_query_weights(factor * stream.query_weights), "ndcg")
        np.testing.assert_array_equal(other.weights, factor * one.weights)
        np.testing.assert_array_equal(other.coef_, factor * one.coef_)
        np.testing.assert_array_equal(scaled.values("ndcg"), trace.values("ndcg"))
        np.testing.assert_array_equal(scaled.masses, factor * trace.masses)
        assert one.n_updates == other.n_updates > 10


def test_a_relative_margin_is_in_units_of_weighted_steps():
    """After a pair of difference 1 and weight 2, w = 2 and the margin is 2: a lead of 1.8 is too small, 2.2 is not."""
    for lead, is_moved in ((0.9, True), (1.1, False)):
        ranker = pr.ListwisePerceptron(transforms=None)
        ranker.learn_one([[1.0], [0.0]], [1, 0], 2.0)
        assert ranker.weights.tolist() == [2.0]
        assert ranker.learn_one([[lead], [0.0]], [1, 0], 1e-3) == is_moved


def test_a_weight_of_2_is_not_the_query_twice():
    """A perceptron learns from mistakes: once the query is right, there is nothing to learn from it again."""
    once, twice = pr.MinimaxPerceptron(), pr.MinimaxPerceptron()
    once.learn_one([[1.0], [0.0]], [1, 0], 2.0)
    twice.learn_one([[1.0], [0.0]], [1, 0])
    twice.learn_one([[1.0], [0.0]], [1, 0])
    assert (once.weights[0], twice.weights[0]) == (2.0, 1.0)


def test_ridge_is_weighted_least_squares_and_a_weight_of_2_is_the_query_twice():
    stream = noisy(30, seed=6)
    learner = pr.OnlineRidge(penalty=3.0)
    learner.learn(stream)
    gram, products = np.diag(3.0 * learner.units_**2), np.zeros(4)
    for query in stream:
        if len(set(query.relevance)) > 1:
            Z, y = query.X - query.X.mean(axis=0), query.relevance - query.relevance.mean()
            gram += query.weight * Z.T @ Z
            products += query.weight * Z.T @ y
    np.testing.assert_allclose(learner.weights, np.linalg.solve(gram, products), rtol=1e-9)
    counts = np.random.default_rng(0).integers(0, 4, size=30)
    weighted, repeated = pr.OnlineRidge(penalty=3.0), pr.OnlineRidge(penalty=3.0)
    weighted.learn(stream.with_query_weights(counts))
    repeated.learn(stream.with_query_weights(None)[np.repeat(np.arange(30), counts)])
    np.testing.assert_allclose(weighted.weights, repeated.weights, rtol=1e-9)
    np.testing.assert_allclose(weighted.units_, repeated.units_, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: pr.SolarI(0.05), lambda one, weight: {"limit": 0.05 * weight}),
        (lambda: pr.SolarII(10.0), lambda one, weight: {"regularization": 10.0 / weight}),
        (
            lambda: pr.SolarII(10.0, covariance="full"),
            lambda one, weight: {"regularization": 10.0 / weight},
        ),
    ],
)
def test_weights_of_passive_aggressive_steps(make, change):
    """They multiply what losses weigh against staying where one is: the limit, or the inverse of regularization."""
    weighted, other = make(), make()
    for query in noisy(seed=7):
        weighted.learn_one(query.X, query.relevance, query.weight)
        if query.weight > 0:
            other.set_params(**change(other, query.weight)).learn_one(query.X, query.relevance)
    np.testing.assert_allclose(weighted.weights, other.weights, rtol=1e-12)
    assert weighted.weights.any()


def test_opauc_weighs_documents():
    stream = noisy(30, seed=8)
    learner = pr.Opauc(0.1)
    learner.learn(stream)
    weights = np.repeat(stream.query_weights, np.diff(stream.offsets))
    more = learner.model.more
    for own, of_class in enumerate((stream.relevance == 0, stream.relevance > 0)):
        X, w = stream.X[of_class], weights[of_class]
        center = np.average(X, axis=0, weights=w)
        np.testing.assert_allclose(more["counts"][own], w.sum())
        np.testing.assert_allclose(more["centers"][own], center, rtol=1e-9)
        np.testing.assert_allclose(more["moments"][own], ((X - center).T * w) @ (X - center), rtol=1e-9, atol=1e-12)
    before, plain, weighted = (pr.Opauc.from_document(learner.as_document()) for _ in range(3))
    plain.learn_one([[1.0, 2.0, 0.0, -1.0]], [1])
    weighted.learn_one([[1.0, 2.0, 0.0, -1.0]], [1], 0.4)
    np.testing.assert_allclose(weighted.weights - before.weights, 0.4 * (plain.weights - before.weights), rtol=1e-9)


@pytest.mark.parametrize("steps", ["diagonal", "norm"])
@pytest.mark.parametrize("sparse", [False, True])
def test_adagrad_adapts_weighted_steps(steps, sparse):
    stream = noisy(seed=9, sparse=sparse)
    learner = pr.AdaGrad(pr.RankNet(0.5), steps=steps)
    learner.learn(stream)
    weights, squares = np.zeros(4), np.zeros(4)
    for query in stream:
        at = pr.RankNet(1.0, initial_weights=weights)
        if at.learn_one(query.X, query.relevance) and query.weight > 0:
            step = query.weight * (at.weights - weights)
            squares += step**2 if steps == "diagonal" else step @ step
            weights = weights + 0.5 * step / (np.sqrt(squares) + 1e-10)
    np.testing.assert_allclose(learner.weights, weights, rtol=1e-9, atol=1e-12)


def test_members_of_bagging_learn_with_the_weight_each_time():
    stream = noisy(seed=10)
    bagging = pr.Bagging(pr.RankNet(), n_members=3, seed=5)
    bagging.learn(stream)
    for number, times in enumerate(draw_repeats(5, 0, len(stream), 3).T):
        alone = pr.RankNet()
        for query, n in zip(stream, times, strict=True):
            for _ in range(n):
                alone.learn_one(query.X, query.relevance, query.weight)
        np.testing.assert_array_equal(bagging.members[number].weights, alone.weights)


def test_spreads_of_a_sum_are_weighted():
    stream = noisy(seed=11)
    members, ranker = [pr.RankNet(), pr.MinimaxPerceptron()], pr.Sum([pr.RankNet(), pr.MinimaxPerceptron()])
    spreads, weights = np.zeros(2), np.zeros(2)
    for query in stream:
        for place, one in enumerate(members):
            spread = one.predict(query.X).std()
            spreads[place] += query.weight * spread
            weights[place] += query.weight if spread > 1e-12 else 0
            one.learn_one(query.X, query.relevance, query.weight)
    ranker.learn(stream)
    np.testing.assert_allclose(ranker.spreads_, spreads / weights, rtol=1e-9)
    small = stream.with_query_weights(stream.query_weights / 64)  # sums of weights below 1
    other = pr.Sum([pr.MinimaxPerceptron(), pr.MinimaxPerceptron(average=True)])
    other.learn(small)
    first = other.members[0].predict(stream[0].X) / other.spreads_[0]
    np.testing.assert_allclose(
        other.predict(stream[0].X), first + other.members[1].predict(stream[0].X) / other.spreads_[1], rtol=1e-9
    )


def test_a_tournament_adds_up_weighted_measures():
    stream = noisy(40, seed=12)
    learners = [pr.RankNet(), pr.MinimaxPerceptron(), pr.OnlineListNet()]
    ranker = pr.Tournament(learners, measure="ndcg")
    trace = ranker.learn(stream, "ndcg")
    values = np.array([one.learn(stream, "ndcg").values("ndcg") for one in learners])
    sums = np.zeros(3)
    for t, weight in enumerate(stream.query_weights):
        if not np.isnan(values[0, t]):
            assert trace.values("ndcg")[t] == values[np.argmax(sums), t]
            sums += weight * values[:, t]
    np.testing.assert_allclose(ranker.model.more["sums"], sums)
    counted = ~np.isnan(values[0]) & (stream.query_weights > 0)
    assert ranker.model.more["judged"][0] == counted.sum()


def test_hedge_takes_weights_up_to_1():
    stream = noisy(weights=False)
    hedge = pr.Tournament([pr.RankNet(), pr.MinimaxPerceptron()], strategy="hedge")
    for ranker in (hedge, pr.Sum([hedge]), pr.Bagging(hedge, n_members=2)):
        with pytest.raises(ValueError, match=r"at most 1 for strategy='hedge'.* got 2.0; divide all by the largest"):
            ranker.learn(stream.with_query_weights(np.full(len(stream), 2.0)))
        assert ranker.n_queries == 0
        ranker.learn(stream.with_query_weights(np.full(len(stream), 0.5)))


@pytest.mark.parametrize("name", REFUSING)
def test_learners_without_weights_refuse_them(name):
    assert REFUSING == ["buffered-pairwise", "kernel", "margin-prank", "oap-bpm", "prank"]
    stream = noisy()
    learner = NAMES[name]()
    around = [make() for one in pr.wrappers().values() if (make := all_wrapped(one).get(f"{one.algorithm}:{name}"))]
    for ranker in (learner, *around, pr.Sum([pr.RankNet(), learner]), pr.Tournament([pr.RankNet(), learner])):
        with pytest.raises(ValueError, match=rf"{name} takes no query weights, as its .*: all must be 1, got 0"):
            ranker.learn(stream)
        assert ranker.n_queries == 0
        with pytest.raises(ValueError, match="takes no query weights"):
            ranker.learn_one([[1.0], [0.0]], [1, 0], 2.0)
        ranker.learn(stream.with_query_weights(np.ones(len(stream))))
        assert ranker.learn_one(np.eye(4), [0, 1, 2, 3], 1.0) in (True, False)


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, "heavy", None, 1e101, 1e-101])
def test_wrong_weights(weight):
    ranker = pr.ListwisePerceptron(transforms=None)
    with pytest.raises((ValueError, TypeError), match="weight"):
        ranker.learn_one([[1.0], [0.0]], [1, 0], weight)
    assert ranker.n_queries == 0


@pytest.mark.parametrize("weight", [1e100, 1e-100])
@pytest.mark.parametrize("name", STEPPING)
def test_extreme_weights_stay_numbers(name, weight):
    for sparse in (False, True):
        stream = noisy(sparse=sparse, weights=False)
        learner = NAMES[name](average=True, transforms=None)
        if name == "toppush":  # whose squares grow with the scores
            learner.set_params(loss="hinge")
        learner.learn(stream.with_query_weights(np.full(len(stream), weight)))
        assert np.isfinite(learner.coef_).all()
        assert type(learner).from_document(json.loads(json.dumps(learner.as_document()))).n_rounds == len(stream)


@pytest.mark.parametrize("key", ["weight_of_rounds", "weight_of_updates", "largest_weight"])
def test_damaged_sums_of_weights_are_refused(key):
    learner = pr.MinimaxPerceptron()
    learner.learn(noisy())
    document = learner.as_document()
    for wrong, message in ((-1.0, "must not be negative"), (0.0, "must be positive if there are rounds")):
        damaged = document | {"state": document["state"] | {key: wrong}}
        with pytest.raises(ValueError, match=message):
            pr.MinimaxPerceptron.from_document(damaged)


class TowardsTheBest(pr.NumpyLearner):
    """Towards the first of the highest grade."""

    algorithm = "towards-the-best"

    def update(self, scores, X, relevance):
        return (np.arange(len(X)) == np.argmax(relevance)) - 1 / len(X)
