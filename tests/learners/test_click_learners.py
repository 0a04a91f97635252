"""What every learner does that learns from clicks; the checks find the learners by themselves."""

import copy
import itertools
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.learners import bits
from support.strategies import examples

import perceptrank as pr

CLICKS = pr.algorithms(clicks=True)
MAKERS = CLICKS | {
    "clicks from production": lambda: pr.ClickPerceptron(production=1, evidence=50.0),
    "clicks averaged": lambda: pr.ClickPerceptron(average=True),
    "clicks positive": lambda: pr.ClickPerceptron(positive=[0], negative=[1]),
    "pdgd running": lambda: pr.PDGD(transforms="running"),
    "fading": lambda: pr.Fading(pr.ClickPerceptron()),
    "adagrad": lambda: pr.AdaGrad(pr.PDGD()),
    "bagging": lambda: pr.Bagging(pr.PDGD(), n_members=2),
    "forgetting": lambda: pr.Forgetting(pr.ClickPerceptron()),
    "sum": lambda: pr.Sum([pr.ClickPerceptron(), pr.PDGD()]),
    "tournament": lambda: pr.Tournament([pr.PDGD(), pr.ClickPerceptron(), pr.FixedRanker([1.0, 0.0, 0.0, 0.0])]),
}
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
every_kind = pytest.mark.parametrize("kind", CLICKS.values(), ids=CLICKS)
POLICIES = {"rtop-k": "uniform:0.5"}


def policy_for(make):
    """A policy whose lists it can learn from."""
    learner = make()
    while hasattr(learner, "learner"):
        learner = learner.learner
    kinds = getattr(learner, "policies", ("plackett-luce",)) or ("none", "plackett-luce")
    return POLICIES.get(learner.algorithm, kinds[-1].replace("shuffle", "shuffle:4"))


def shop(seed=0, n_queries=30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(7 * n_queries, 4))
    grades = np.clip(np.round(X @ [1.0, -1.0, 0.5, 0.0] + 1), 0, 4)
    sizes = rng.integers(1, 13, size=n_queries)  # short lists among them
    sizes = sizes[np.cumsum(sizes) <= len(X)]
    return pr.QueryStream.from_arrays(X[: sizes.sum()], grades[: sizes.sum()], group=sizes)


def logged(make, seed=0, impressions=60):
    policy = policy_for(make)
    return pr.simulate_clicks(
        shop(seed), pr.clicks.user("informational"), policy=policy, n=5, impressions=impressions, seed=seed
    )


def impressions_of(log):
    """Each impression as `show` would have returned it, with its clicks and what was examined."""
    for q in range(len(log)):
        rows = slice(log.offsets[q], log.offsets[q + 1])
        columns = {name: log.columns[name][rows] for name in ("place", "clicked", "examined", "propensity")}
        order = np.argsort(np.where(columns["place"] > 0, columns["place"], 99), kind="stable")
        order = order[: np.count_nonzero(columns["place"])]
        shown = pr.Impression(log.X[rows], None, order, columns["propensity"][order], log.columns["policy"][q])
        yield shown, columns["clicked"][order], columns["examined"][order]


@pytest.mark.kernel
@every_maker
@examples(0.3, suite=0.1)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(1, 59), max_size=3))
def test_a_log_teaches_the_same_in_one_go_in_blocks_and_list_by_list(make, seed, cuts):
    log = logged(make, seed)
    whole, pieces, single = make(), make(), make()
    trace = whole.learn(log, ["ndcg@3"])
    bounds = [0, *sorted(set(cuts)), len(log)]
    parts = [pieces.learn(log[a:b], ["ndcg@3"]) for a, b in itertools.pairwise(bounds)]
    moved = [single.learn_clicks(shown, clicks, examined=seen) for shown, clicks, seen in impressions_of(log)]
    assert bits(whole) == bits(pieces) == bits(single)
    joined = np.concatenate([part.values("ndcg@3") for part in parts])
    assert np.array_equal(trace.values("ndcg@3"), joined, equal_nan=True)
    assert np.array_equal(moved, trace.masses > 0)
    assert any(learner.n_updates for learner in getattr(whole, "members", [whole]))  # one that leads may be fixed


@every_maker
def test_save_load_and_continue_equals_never_stopping(make, tmp_path):
    log = logged(make)
    whole, first = make(), make()
    whole.learn(log)
    first.learn(log[:40])
    first.save(tmp_path / "model.json")
    second = pr.load(tmp_path / "model.json")
    assert bits(first) == bits(second)
    assert np.array_equal(
        first.show(log[0].X, rng=3).propensity, second.show(log[0].X, rng=3).propensity
    )  # the temperature is part of the state
    second.learn(log[40:])
    assert bits(whole) == bits(second)
    for other in (pickle.loads(pickle.dumps(whole)), copy.deepcopy(whole)):
        assert bits(other) == bits(whole)


@every_maker
def test_showing_is_seeded_and_the_policy_none_shows_the_ranking(make):
    learner, X = make(), shop()[3].X
    for _ in range(2):
        one, other = learner.show(X, 3, rng=5), learner.show(X, 3, rng=5)
        assert np.array_equal(one.order, other.order)
        assert np.array_equal(one.propensity, other.propensity)
        assert len(one.order) == min(3, len(X)) == len(set(one.order.tolist()))
        assert ((one.propensity > 0) & (one.propensity <= 1)).all()
        assert np.array_equal(learner.show(X, 3, policy="none", rng=5).order, learner.rank(X)[:3])
        learner.learn(logged(make))


@every_kind
def test_learning_from_a_user_improves_the_ranking(kind):
    stream = shop(1, n_queries=100)
    ranker = kind()
    before = pr.evaluate(ranker, stream, "ndcg@10").mean("ndcg@10")
    user = pr.clicks.user("perfect")
    trace = pr.learn_from_user(ranker, stream, user, 1500, seed=2)
    again = kind()
    assert np.array_equal(
        pr.learn_from_user(again, stream, user, 1500, seed=2).values("ndcg@10"), trace.values("ndcg@10"), equal_nan=True
    )
    assert bits(again) == bits(ranker)
    assert pr.evaluate(ranker, stream, "ndcg@10").mean("ndcg@10") > before + 0.05


@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, id=name, marks=() if name == "clicks" else pytest.mark.deep) for name, kind in CLICKS.items()],
)
def test_sparse_features_teach_the_same(kind, dtype):
    if not kind.accepts_sparse:
        return
    log = logged(kind)
    log = log.with_features(log.X.astype(dtype))
    one, other = kind(transforms=None), kind(transforms=None)
    one.learn(log)
    other.learn(log.with_features(pr.SparseFeatures.from_dense(log.X)))
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-6, atol=1e-9)
    shown = [ranker.show(X, rng=1) for ranker, X in ((one, log[0].X), (other, pr.SparseFeatures.from_dense(log[0].X)))]
    assert np.array_equal(shown[0].order, shown[1].order)


@every_kind
def test_weights_of_impressions(kind):
    """With weight 0 nothing is learned."""
    log = logged(kind)
    learner, other = kind(), kind()
    learner.learn(log[:30])
    other.learn(log[:30])
    learner.learn(log[30:].with_query_weights(np.zeros(30)))
    assert np.array_equal(learner.weights, other.weights)
    assert bits(learner)["state"] == bits(other)["state"]
    learner.learn(log[30:].with_query_weights(np.full(30, 0.5)))
    assert not np.array_equal(learner.weights, other.weights)


@every_kind
def test_what_teaches_nothing(kind):
    """A list of one document, and a list that shows nothing."""
    learner = kind()
    learner.learn(logged(kind))
    before = learner.weights
    shown = learner.show([[1.0, 2.0, 3.0, 4.0]], rng=1)
    assert shown.order.tolist() == [0]
    assert shown.propensity == pytest.approx([1.0])
    assert not learner.learn_clicks(shown, [1.0])
    assert np.array_equal(learner.weights, before)
    for clicks in (np.zeros(4), np.ones(4), np.full(4, 0.25)):
        learner.learn_clicks(learner.show(np.eye(4), rng=1), clicks)
        learner.learn_clicks(learner.show(np.ones((4, 4)), rng=1), clicks)  # ties everywhere
    assert np.isfinite(learner.weights).all()


@every_maker
def test_invalid_input_is_refused_and_changes_nothing(make):
    learner = make()
    learner.learn(logged(make))
    before = bits(learner)
    shown = learner.show(np.eye(4), n=3, rng=1)
    for clicks, message in (
        ([1, 0], r"clicks must have one value per place \(3\), got shape \(2,\)"),
        ([1, 0, 0, 1], r"clicks must have one value per place \(3\), got shape \(4,\)"),
        ([1, 2, 0], r"clicks must be from 0 to 1, got 2.0 at place 1"),
        ([1, np.nan, 0], r"clicks must be from 0 to 1, got nan at place 1"),
        (["a", "b", "c"], "clicks must hold numbers"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            learner.learn_clicks(shown, clicks)
    with pytest.raises(ValueError, match=r"examined must be 0, 1 or NaN, got 0\.5 at place 2"):
        learner.learn_clicks(shown, [0, 1, 0], examined=[1, 1, 0.5])
    with pytest.raises(ValueError, match="impression must be what `show` returned"):
        learner.learn_clicks(np.eye(4), [0, 1, 0])
    with pytest.raises(ValueError, match="weight must be"):
        learner.learn_clicks(shown, [0, 1, 0], weight=-1.0)
    with pytest.raises(TypeError, match="learns from clicks: show a list with `show`"):
        learner.learn_one(np.eye(4), [0, 1, 0, 0])
    with pytest.raises(ValueError, match="at least one document"):
        learner.show(np.empty((0, 4)), rng=1)
    with pytest.raises(ValueError, match="4 features"):
        learner.show(np.eye(5), rng=1)
    with pytest.raises(ValueError, match="n must be"):
        learner.show(np.eye(4), n=0, rng=1)
    with pytest.raises(ValueError, match="policy must be"):
        learner.show(np.eye(4), policy="sometimes", rng=1)
    with pytest.raises(ValueError, match=r"finite|NaN|nan"):
        learner.show(np.full((2, 4), np.nan), rng=1)
    assert bits(learner) == before


@every_kind
def test_logs_that_it_cannot_learn_from(kind):
    log = logged(kind)
    learner = kind()
    for name in ("place", "clicked"):
        with pytest.raises(ValueError, match=f"needs the column.*{name}"):
            learner.learn(log.with_columns({name: None}))
    with pytest.raises(ValueError, match="'relevance'"):
        learner.learn(log.with_columns({"relevance": None}), "ndcg@10")
    trace = learner.learn(log.with_columns({"relevance": None}))
    assert trace.measures == []
    assert len(trace) == len(log)
    if not kind.policies:
        return
    unknown = log.with_columns({"propensity": np.full(log.n_documents, np.nan)})
    if kind.policies != ("fair-pairs",):  # whose coins are taken to be fair
        with pytest.raises(ValueError, match="needs the propensity of every document that"):
            kind().learn(unknown)
    plain = pr.simulate_clicks(shop(), pr.clicks.user("perfect"), n=5)
    with pytest.raises(ValueError, match="learns from lists that were randomised by"):
        kind().learn(plain)
    mixed = kind()
    mixed.learn(pr.QueryStream.concatenate([plain, log]))  # a service may explore now and then
    after = mixed.weights
    mixed.learn(plain)
    assert np.array_equal(mixed.weights, after)


def test_nothing_is_learned_across_a_gap():
    """What stood between two documents is unknown."""
    X = np.random.default_rng(1).normal(size=(4, 2))
    columns = {"policy": ["plackett-luce:1.0"]}
    chances = {"propensity": [0.5, 0.5, 0.4, 0.3], "clicked": [0, 0, 1, 0]}
    ranker = pr.PDGD(transforms=None)
    ranker.learn(pr.QueryStream.from_arrays(X, group=[4], place=[1, 2, 4, 5], columns=columns, **chances))
    step = ranker.weights / 0.1
    np.testing.assert_allclose(step / np.linalg.norm(step), (X[2] - X[3]) / np.linalg.norm(X[2] - X[3]))


def test_grades_and_clicks_do_not_mix():
    with pytest.raises(ValueError, match="all learn from grades, or all from clicks"):
        pr.Tournament([pr.ListwisePerceptron(), pr.ClickPerceptron()])
    with pytest.raises(ValueError, match="strategy must be 'leader'"):
        pr.Tournament([pr.PDGD(), pr.ClickPerceptron()], strategy="hedge")
    with pytest.raises(ValueError, match="bagging:slam learns from grades"):
        pr.Bagging(pr.SlamPerceptron()).show(np.eye(3), rng=1)
    assert str(pr.Tournament([pr.PDGD(), pr.ClickPerceptron()]).theorem) == "-"


def test_a_tournament_of_click_learners_follows_the_better_one():
    stream = shop(1, n_queries=100)
    log = pr.simulate_clicks(stream, pr.clicks.user("perfect"), policy="shuffle:12", n=12, impressions=400)
    good, bad = pr.FixedRanker([1.0, -1.0, 0.5, 0.0]), pr.FixedRanker([-1.0, 1.0, 0.0, 0.0])
    ranker = pr.Tournament([bad, pr.ClickPerceptron(), good])
    ranker.learn(log[:20])
    assert ranker.leader.name == "fixed"
    only = pr.Tournament([bad, pr.ClickPerceptron()])
    only.learn(log)
    assert only.leader.name == "clicks"


def test_a_document_cannot_be_shown_twice():
    X, chances = np.eye(3), np.ones(2)
    for order in ([1, 1], [0, 3], [-1, 0]):
        with pytest.raises(ValueError, match="order must be different rows of the 3 documents"):
            pr.Impression(X, None, np.array(order), chances, "none")


def test_logs_without_grades_on_shards_and_in_traces(tmp_path):
    log = logged(pr.ClickPerceptron, impressions=100).with_columns({"relevance": None})
    ranker = pr.ClickPerceptron()
    learned = pr.distributed.learn(ranker, [log[:50], log[50:]], epochs=2)
    assert learned.trace(1).measures == []
    trace = pr.ClickPerceptron().learn(log)
    assert repr(trace) == f"Trace(100 rounds, {trace.n_updates} updates)"
    trace.save(tmp_path / "trace.npz")
    assert len(pr.Trace.load(tmp_path / "trace.npz")) == 100
    with pytest.raises(ValueError, match="there is nothing to plot"):
        trace.plot(tmp_path / "trace.svg")
    with pytest.raises(ValueError, match="clicks needs the columns 'place' and 'clicked'"):
        pr.ClickPerceptron().fit(np.eye(3), [0, 1, 0])


def test_temperatures_that_overflow_or_underflow():
    ranker = pr.PDGD(learning_rate=1e3, transforms=None)
    ranker.learn(logged(pr.PDGD))
    X = np.eye(4) * 1e5
    shown = ranker.show(X, rng=1)
    assert np.isfinite(shown.propensity).all()
    ranker.learn_clicks(shown, [0, 0, 0, 1])
    assert np.isfinite(ranker.weights).all()
    with pytest.raises(ValueError, match="overflow"):
        ranker.show(X * 1e303, rng=1)
    with pytest.raises(ValueError, match="temperature must be greater"):
        ranker.show(X, policy=pr.clicks.PlackettLuce(1e-308), rng=1)


def test_shards_of_a_log_are_mixed():
    log = logged(pr.ClickPerceptron, impressions=200)
    ranker = pr.ClickPerceptron()
    learned = pr.distributed.learn(ranker, [log[:100], log[100:]], epochs=2)
    assert ranker.n_queries == 400
    assert len(learned.traces) == 2
    assert np.isfinite(ranker.weights).all()
    assert ranker.model.more["place_shown"][0] == pytest.approx(400)  # two shards, each twice


def test_a_model_is_exported_like_any_other():
    log = logged(pr.ClickPerceptron)
    ranker = pr.ClickPerceptron(transforms="running")
    ranker.learn(log)
    weights = pr.deploy.fold(ranker).weights
    X = log[1].X
    assert np.array_equal(np.argsort(-X @ weights), ranker.rank(X))


def test_importing_the_package_imports_no_click_learner():
    code = "import perceptrank, sys; assert not any('learners.clicks' in name for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def slow_clicks(log, evidence=None):
    """The click perceptron by its definition: from scores that lists were drawn by, recovered from propensities."""
    w, n, C, N, M, V, c = np.zeros(log.n_features), 0, np.zeros(100), np.zeros(100), 0.0, 0.0, 1.0
    start = np.zeros(log.n_features)
    if evidence is not None:
        start[1] = 1.0
    kinds = []
    for shown, clicks, _ in impressions_of(log):
        s = shown.X @ w
        k, step = len(clicks), np.zeros(log.n_features)
        e = np.where(N[:k] > 0, clicks - C[:k] / np.maximum(N[:k], 1), 0.0)
        agreement = 0.0
        for p in range(k):
            for r in range(p + 1, k):
                rho = share_of(shown, p, r)
                d = shown.X[shown.order[p]] - shown.X[shown.order[r]]
                step += rho * (e[p] - e[r]) * d
                agreement += rho * (e[p] - e[r]) * (s[shown.order[p]] - s[shown.order[r]])
        moved = any(share_of(shown, p, r) * (e[p] - e[r]) for p in range(k) for r in range(p + 1, k))
        if k > 1 and s.std() > 0:
            M, V = M + agreement / s.std(), V + (agreement / s.std()) ** 2
        if moved:
            w, n = w + step, n + 1
            z = M / np.sqrt(V) if V else 0.0
            m = n * (1 - 9 / z**2) if z > 3 else 0.0
            c = c if evidence is None else np.linalg.norm(w) / max(m / evidence, 1e-6)
        C[:k] += clicks
        N[:k] += 1
        kinds.append(moved)
    return w + (c * start if evidence is not None else 0.0), M, V, n


def share_of(shown, p, r):
    """P(R*) / (P(R) + P(R*)), R* being the list with documents p and r exchanged, by the definition of the policy."""
    kind, _, number = shown.policy.partition(":")
    if kind == "fair-pairs":
        return 0.5 if r == p + 1 and (p + 1 - int(number)) % 2 == 0 and p + 1 >= int(number) else 0.0
    if kind == "shuffle":
        return 0.5 if r < min(int(number), len(shown.X)) and min(int(number), len(shown.X)) > 1 else 0.0
    e, left = [], 1.0  # exponentials of scores, their sum over all documents being 1
    for chance in shown.propensity:
        e.append(chance * left)
        left -= e[-1]
    chance = lambda order: np.prod([e[i] / (1 - sum(e[j] for j in order[:p])) for p, i in enumerate(order)])  # noqa: E731
    own = list(range(len(e)))
    other = [r if i == p else p if i == r else i for i in own]
    return chance(other) / (chance(own) + chance(other))


@pytest.mark.parametrize("policy", ["plackett-luce", "fair-pairs", "shuffle:4", "shuffle:1"])
@pytest.mark.parametrize("evidence", [None, 20.0])
def test_the_click_perceptron_follows_its_definition(policy, evidence):
    scores = pr.FixedRanker([0.5, -0.2, 0.1, 0.3])
    log = pr.simulate_clicks(
        shop(3), pr.clicks.user("informational"), ranker=scores, policy=policy, n=5, impressions=150, seed=4
    )
    production = {} if evidence is None else {"production": 1, "evidence": evidence}
    ranker = pr.ClickPerceptron(transforms=None, **production)
    ranker.learn(log)
    w, M, V, n = slow_clicks(log, evidence)
    np.testing.assert_allclose(ranker.weights, w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ranker.model.more["evidence"], [M, V], rtol=1e-9, atol=1e-12)
    assert ranker.n_updates == n
    if n:
        z = max(0.0, M / np.sqrt(V)) if V else 0.0
        m = n * (1 - 9 / z**2) if z > 3 else 0.0
        expected = (evidence + m) ** (1 / 3) if evidence else min(n ** (1 / 3) / 2, 2 + z)
        assert ranker.sharpness(ranker.model) == pytest.approx(expected)


def test_a_start_from_production_ranks_as_production_until_there_is_evidence():
    stream = shop(5)
    ranker = pr.ClickPerceptron(production="score")
    X = np.column_stack([stream.X, -stream.X[:, 0]])
    named = pr.QueryStream.from_arrays(
        X, stream.relevance, group=np.diff(stream.offsets), feature_names=["a", "b", "c", "d", "score"]
    )
    assert (
        pr.evaluate(ranker, named, "ndcg@10").means()
        == pr.evaluate(pr.FixedRanker({"score": 1.0}), named, "ndcg@10").means()
    )
    pr.learn_from_user(ranker, named, pr.clicks.user("perfect"), 300)
    assert ranker.rank(named[0].X).tolist() == np.argsort(-named[0].X[:, 4], kind="stable").tolist()
    sure = pr.ClickPerceptron(production="score", evidence=10)  # which counts for little, and is wrong
    pr.learn_from_user(sure, named, pr.clicks.user("perfect"), 3000)
    assert pr.evaluate(sure, named, "ndcg@10").mean("ndcg@10") > 0.9
    with pytest.raises(ValueError, match="`production` names unknown features 'cost'"):
        pr.ClickPerceptron(production="cost").learn(
            pr.simulate_clicks(named, pr.clicks.user("perfect"), policy="fair-pairs")
        )
    with pytest.raises(ValueError, match="production must name a feature"):
        pr.ClickPerceptron(production=-1)
    with pytest.raises(ValueError, match="initial_weights must be None: give a feature that has the score"):
        pr.ClickPerceptron(initial_weights=[1.0, 2.0])
    with pytest.raises(ValueError, match="evidence must be"):
        pr.ClickPerceptron(evidence=0)
    with pytest.raises(TypeError, match="dense features"):
        pr.ClickPerceptron(production=0, transforms=None).learn(
            logged(pr.ClickPerceptron).with_features(pr.SparseFeatures.from_dense(logged(pr.ClickPerceptron).X))
        )


def test_policies_of_other_kinds_are_refused():
    with pytest.raises(
        ValueError, match=r"3pr learns from lists that were randomised by fair-pairs.*got plackett-luce"
    ):
        pr.algorithms(clicks=True)["3pr"]().show(np.eye(3), policy="plackett-luce", rng=1)
    learned = CLICKS["3pr"]()
    learned.learn(logged(CLICKS["3pr"]))
    with pytest.raises(ValueError, match="randomised by fair-pairs"):  # also after it has learned something
        learned.show(np.eye(4), policy="plackett-luce", rng=1)


def test_shards_that_start_from_production_keep_its_column():
    """The mean of a column number over seven shards is off by rounding."""
    log = logged(pr.ClickPerceptron, impressions=140)
    for column in range(4):
        ranker = pr.ClickPerceptron(production=column, transforms=None, evidence=20.0)
        pr.distributed.learn(ranker, [log[20 * k : 20 * k + 20] for k in range(7)], epochs=2)
        place, weight = ranker.model.more["production"]
        assert round(place) == column
        before = ranker.weights
        ranker.learn(log[:5])
        others = np.arange(4) != column
        assert np.abs(ranker.weights - before)[others].max() < 20 < weight


def test_production_stays_what_it_was_after_lists_that_teach_nothing():
    ranker, rng = pr.ClickPerceptron(production=0), np.random.default_rng(1)
    X = rng.normal(size=(6, 3))
    for _ in range(5):
        shown = ranker.show(np.ones((6, 3)), n=6, rng=rng)
        ranker.learn_clicks(shown, rng.random(6) < 0.5)
    assert ranker.rank(X).tolist() == np.argsort(-X[:, 0]).tolist()


def test_settings_that_production_does_not_go_with():
    with pytest.raises(ValueError, match="average must be False with `production`"):
        pr.ClickPerceptron(production=0, average=True)
    for sign in ("positive", "negative", "zero"):
        ranker = pr.ClickPerceptron(production=0, **{sign: ["f1"]})
        with pytest.raises(ValueError, match="`production` must not be among"):
            ranker.learn(logged(pr.ClickPerceptron))


def test_ensembles_show_lists_that_all_members_learn_from():
    X = np.random.default_rng(1).normal(size=(6, 4))
    examined, clicks, pairs = CLICKS["examined"], pr.ClickPerceptron, CLICKS["fair-pairs"]
    for learners in ([examined(), clicks()], [clicks(), examined()]):
        assert pr.Tournament(learners).show(X, rng=1).policy == "plackett-luce:1.0"
    ranker = pr.Sum([clicks(), pairs()])
    assert ranker.show(X, rng=1).policy.startswith("fair-pairs")
    with pytest.raises(ValueError, match="one policy"):
        pr.Sum([CLICKS["rtop-k"](), CLICKS["3pr"]()])
    bagged = pr.Bagging(clicks(), n_members=2)
    bagged.learn_clicks(bagged.show(X, n=4, rng=1), np.eye(4)[1])
    assert bagged.show(X, n=4, rng=2).policy == "plackett-luce:1.0"


@pytest.mark.parametrize("make", [pr.ClickPerceptron, MAKERS["tournament"], MAKERS["forgetting"]])
def test_whether_a_log_is_refused_does_not_depend_on_how_it_is_cut(make):
    plain = pr.simulate_clicks(shop(), pr.clicks.user("perfect"), n=5)
    log = logged(make)
    ranker, whole = make(), make()
    ranker.learn([plain[:5], plain[5:], log])
    whole.learn(pr.QueryStream.concatenate([plain, log]))
    assert bits(ranker) == bits(whole)
    ranker.learn(plain)  # a service may stop exploring
    with pytest.raises(ValueError, match="randomised"):
        make().learn([plain[:5], plain[5:]])


def test_logs_without_propensities():
    """Learners that do not use them do not ask for them; coins are taken to be fair."""
    log = logged(CLICKS["fair-pairs"])
    bare = log.with_columns({"propensity": None})
    for name in ("examined", "ips-listwise", "fair-pairs", "3pr"):
        one, other = CLICKS[name](), CLICKS[name]()
        one.learn(log)
        other.learn(bare)
        assert np.array_equal(one.weights, other.weights)
    odd = bare.with_columns({"policy": ["fair-pairs:4"] * len(log)})
    ranker = CLICKS["fair-pairs"]()
    ranker.learn(odd)
    assert ranker.n_updates == 0


def test_an_impression_does_not_change_with_the_array_it_was_made_of():
    X = np.eye(4)
    shown = pr.PDGD(transforms=None).show(X, rng=1)
    X[:] = 7.0
    assert shown.X.sum() == 4.0
    with pytest.raises(ValueError, match="clicks must"):
        pr.PDGD().learn_clicks(shown, None)


def test_one_document_can_teach():
    ranker = CLICKS["rtop-k"](1, transforms=None)
    assert ranker.learn_clicks(ranker.show(np.eye(4), n=1, rng=0), [1])
    ranker = CLICKS["ips-listwise"](transforms=None)
    assert ranker.learn_clicks(ranker.show(np.eye(4), n=1, rng=0), [1])
    for kind in CLICKS.values():
        learner = kind(transforms=None)
        learner.learn_clicks(learner.show(np.eye(4), n=1, rng=0), [1])
        assert np.isfinite(learner.weights).all()


def test_weights_stay_in_their_ball_whatever_the_step():
    ranker = CLICKS["rtop-k"](1, transforms=None, radius=10.0)
    for weight in (1e14, 1e17, 1e20):
        ranker.learn_clicks(ranker.show(np.eye(4), rng=0), [1, 0, 0, 0], weight=weight)
        assert np.linalg.norm(ranker.weights) == pytest.approx(10.0)


def test_long_lists_are_drawn_as_short_ones_are():
    scores = np.random.default_rng(3).normal(size=200)
    policy = pr.clicks.PlackettLuce(0.7)
    long, short = policy.show(scores, 200, np.random.default_rng(1)), policy.show(scores, 50, np.random.default_rng(1))
    assert np.array_equal(long.order[:50], short.order)
    np.testing.assert_allclose(long.propensity[:50], short.propensity, rtol=1e-12)
    assert sorted(long.order.tolist()) == list(range(200))
