"""Click rules against their slow twins, the shares of swapped lists by enumeration, and the theorems."""

import copy
import json
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import click_twins
from support.click_twins import TwinClicks, exchanged, outcomes
from support.strategies import examples

import perceptrank as pr
from perceptrank.clicks.policies import policy_kind
from perceptrank.learners.clicks.impression import policy_code
from perceptrank.learners.clicks.lists import swap_share

THETA = [1.0, 0.6, 0.3]
SETTINGS = {
    "3pr": (lambda: pr.PerturbedPerceptron(transforms=None), "perturbed", {}),
    "fair-pairs": (lambda: pr.FairPairsPerceptron(transforms=None), "fair_pairs", {}),
    "fair-pairs without margin": (
        lambda: pr.FairPairsPerceptron(relative_margin=0, average=False, transforms=None),
        "fair_pairs",
        {"relative_margin": 0.0},
    ),
    "fair-pairs logistic": (
        lambda: pr.FairPairsPerceptron("logistic", relative_margin=0.5, transforms=None),
        "fair_pairs",
        {"logistic": True, "relative_margin": 0.5},
    ),
    "rtop-1": (
        lambda: pr.TopFeedback(1, learning_rate=0.3, radius=0.5, transforms=None),
        "top_feedback",
        {"k": 1, "learning_rate": 0.3, "radius": 0.5},
    ),
    "rtop-2": (
        lambda: pr.TopFeedback(learning_rate=2.0, radius=1.5, average=True, transforms=None),
        "top_feedback",
        {"k": 2, "learning_rate": 2.0, "radius": 1.5},
    ),
    "ips-listwise": (
        lambda: pr.IpsListwise(transforms=None),
        "ips",
        {"examination": 1 / np.arange(1.0, 20), "clip": 10.0},
    ),
    "ips-listwise trust": (
        lambda: pr.IpsListwise(THETA, clip=2.0, trust=[0.3, 0.2, 0.1, 0.05], transforms=None),
        "ips",
        {"examination": THETA, "clip": 2.0, "trust": [0.3, 0.2, 0.1, 0.05]},
    ),
    "examined": (lambda: pr.ExaminedPerceptron(transforms=None), "examined", {}),
    "examined without margin": (
        lambda: pr.ExaminedPerceptron(relative_margin=0, transforms=None),
        "examined",
        {"relative_margin": 0.0},
    ),
}
POLICIES = ["fair-pairs", "plackett-luce", "shuffle:3", "none", "uniform:0.4", pr.clicks.FairPairs(0.2)]


def random_clicks(rng, n):
    kind = rng.integers(8)
    if kind < 2:
        return np.full(n, float(kind))
    return np.round(rng.random(n), 1) if kind < 4 else (rng.random(n) < 0.4).astype(float)


def random_list(rng, policy, longest=7):
    """A list that a policy showed by random scores, as twins take it; a document of it may be lost from the log."""
    m, n = (int(rng.integers(1, longest + 1, size=2).max()) for _ in range(2))
    shown = pr.clicks.policy(policy).show(rng.normal(size=m), n, rng)
    kept = rng.random(len(shown.order)) < (0.8 if rng.random() < 0.3 else 1)
    n = int(kept.sum())
    return {
        "X": rng.normal(size=(m, 3)),
        "order": shown.order[kept],
        "places": 1 + np.flatnonzero(kept),
        "clicks": random_clicks(rng, n),
        "examined": rng.choice([0.0, 1.0, np.nan], size=n) if rng.random() < 0.6 else np.full(n, np.nan),
        "chances": shown.propensity[kept],
        "policy": shown.policy,
        "weight": float(rng.choice([1.0, 1.0, 1.0, 0.5, 2.0, 0.0])),
    }


def as_log(lists):
    """The stream of impressions."""
    columns = {"place": [], "clicked": [], "examined": [], "propensity": []}
    fills = {"place": 0, "clicked": 0.0, "examined": np.nan, "propensity": np.nan}
    names = {"place": "places", "clicked": "clicks", "examined": "examined", "propensity": "chances"}
    for shown in lists:
        for column, values in columns.items():
            values.append(np.full(len(shown["X"]), fills[column]))
            values[-1][shown["order"]] = shown[names[column]]
    return pr.QueryStream.from_arrays(
        np.concatenate([shown["X"] for shown in lists]),
        group=[len(shown["X"]) for shown in lists],
        query_weights=[shown["weight"] for shown in lists],
        columns={"policy": [shown["policy"] for shown in lists]},
        **{column: np.concatenate(values) for column, values in columns.items()},
    )


@pytest.mark.kernel
@pytest.mark.parametrize("setting", SETTINGS)
@examples(0.5)
@given(seed=st.integers(0, 10**6))
def test_rules_equal_their_definitions(setting, seed):
    make, rule, options = SETTINGS[setting]
    rng, learner, twin = np.random.default_rng(seed), make(), TwinClicks(rule, 3, **options)
    own = learner.policies[0] if learner.policies else "none"
    policies = [POLICIES[i] for i in rng.integers(len(POLICIES), size=20)]
    policies[::2] = ["uniform:0.4" if own == "uniform" else own] * 10
    lists = [random_list(rng, policy) for policy in policies]
    trace = learner.learn(as_log(lists), measures=[])
    masses = [twin.learn(shown)[1] for shown in lists]
    np.testing.assert_allclose(learner.weights, twin.weights, rtol=1e-12, atol=1e-12)
    mean = twin.total / twin.round_weight if learner.average else twin.weights
    np.testing.assert_allclose(learner.coef_, mean, rtol=1e-12, atol=1e-12)
    assert learner.n_updates == twin.updates == np.count_nonzero(trace.masses) == np.count_nonzero(masses)


@pytest.mark.parametrize("setting", SETTINGS)
def test_learning_goes_on_and_takes_sparse_features(setting):
    make, rng = SETTINGS[setting][0], np.random.default_rng(5)
    own = (make().policies or ("none",))[0]
    log = as_log([random_list(rng, "uniform:0.4" if own == "uniform" else own) for _ in range(60)])
    whole, part = make(), make()
    whole.learn(log, measures=[])
    part.learn(log[:17], measures=[])
    part = type(part).from_document(json.loads(json.dumps(part.as_document())))
    part.learn(log[17:], measures=[])
    np.testing.assert_array_equal(part.weights, whole.weights)
    assert whole.n_updates > 5
    sparse = make()
    if not sparse.accepts_sparse:
        return
    sparse.learn(log.to_sparse(), measures=[])
    np.testing.assert_allclose(sparse.weights, whole.weights, rtol=1e-10)


@pytest.mark.kernel
@examples(0.5)
@given(seed=st.integers(0, 10**6))
def test_pdgd_is_as_published(seed):
    rng = np.random.default_rng(seed)
    learner = pr.PDGD(learning_rate=0.7, decay=0.9, transforms=None)
    twin = TwinClicks("pdgd", 3, learning_rate=0.7, decay=0.9)
    for _ in range(10):
        X = rng.normal(size=(rng.integers(1, 8), 3))
        shown = learner.show(X, n=int(rng.integers(1, 8)), rng=rng)
        clicks = random_clicks(rng, len(shown.order))
        mass = twin.learn({"X": X, "order": shown.order, "clicks": clicks, "weight": 1.0})[1]
        assert learner.learn_clicks(shown, clicks) == (mass > 0)
        np.testing.assert_allclose(learner.weights, twin.weights, rtol=1e-12, atol=1e-12)


@given(st.integers(0, 10**6), st.sampled_from(["none", "fair-pairs", "plackett-luce", "shuffle:2", "shuffle:4"]))
def test_shares_of_swapped_lists_are_those_of_their_probabilities(seed, name):
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    scores, policy = rng.normal(size=m), pr.clicks.policy(name)
    if name == "fair-pairs":
        policy = pr.clicks.FairPairs(float(rng.choice([0.0, 0.3, 0.5, 1.0])))
    ranking = np.argsort(-scores).tolist()
    order, propensity, text = policy.show(scores, n, rng)

    def chance(order):
        if name == "none":
            return float(list(order) == ranking[: len(order)])
        if name == "plackett-luce":
            return click_twins.plackett_luce_chance(scores, order)
        if name == "fair-pairs":
            return click_twins.fair_pairs_chance(ranking, order, int(text[-1]), policy.swap)
        return click_twins.shuffle_chance(ranking, order, policy.k)

    assert sum(map(chance, permutations(range(m), len(order)))) == pytest.approx(1)
    for p in range(len(order)):
        for r in range(p + 1, len(order)):
            other = chance(exchanged(order, p, r))
            share = swap_share.py_func(
                policy_code(*policy_kind(text)), p, r, np.arange(1.0, len(order) + 1), propensity
            )
            assert share == pytest.approx(other / (other + chance(order)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("relative_margin", [0.0, 1.0])
@pytest.mark.parametrize("is_known", [True, False])
@given(seed=st.integers(0, 10**6))
def test_examined_weights_are_bounded_surely(relative_margin, is_known, seed):
    rng = np.random.default_rng(seed)
    made = pr.separable(60, n_documents=int(rng.integers(2, 9)), n_features=4, n_grades=2, margin=0.3, seed=seed)
    learner = pr.ExaminedPerceptron(relative_margin=relative_margin, transforms=None)
    for query in made.stream:
        shown = learner.show(query.X, n=6, policy=["none", "fair-pairs", "shuffle:5"][rng.integers(3)], rng=rng)
        n = len(shown.order)
        examined = rng.random(n) < 0.6 if is_known else np.arange(n) < rng.integers(n + 1)
        clicks = (query.relevance[shown.order] > 0) & examined
        learner.learn_clicks(shown, clicks.astype(float), examined=examined.astype(float) if is_known else None)
    diameter = pr.theory.diameter(made.stream)
    bound = learner.theorem.bound(diameter=diameter, margin=made.margin)
    assert bound == pytest.approx((1 + 2 * relative_margin) * diameter**2 / made.margin**2)
    assert learner.model.has_begun
    assert learner.model.counts.mass <= bound
    assert all(promise.holds for promise in learner.certificate(margin=made.margin, diameter=diameter).promises)


@given(seed=st.integers(0, 10**6))
def test_gains_of_the_perturbed_perceptron_are_bounded_for_any_users(seed):
    rng, learner = np.random.default_rng(seed), pr.PerturbedPerceptron(transforms=None)
    weights, affirmed, moved, diameter = np.zeros(3), 0.0, 0.0, 0.0
    attraction = rng.random(6)
    is_fixed = rng.random() < 0.5
    X = rng.normal(size=(6, 3))
    for _ in range(80):
        X = X if is_fixed else rng.normal(size=(6, 3))
        shown = learner.show(X, rng=rng)
        learner.learn_clicks(shown, rng.random(6) < attraction[shown.order])
        step = learner.weights - weights
        affirmed += weights @ step
        weights, diameter = learner.weights, max(diameter, np.linalg.norm(X[:, None] - X, axis=2).max())
    moved = learner.model.counts.mass
    # No vector of that length gains more than the weights' own direction.
    assert np.linalg.norm(weights) <= np.sqrt(diameter**2 * moved + 2 * affirmed) * (1 + 1e-9)


def hinge(z):
    return max(1 - z, 0)


def logistic(z):
    return np.logaddexp(0, -z)


@pytest.mark.parametrize(("loss", "function"), [("hinge", hinge), ("logistic", logistic)])
@given(seed=st.integers(0, 10**6))
def test_regret_on_fair_pairs_is_bounded_for_any_users(loss, function, seed):
    """The pathwise inequality of C1 and C2: losses of w / margin, in which margins never shrink."""
    rng = np.random.default_rng(seed)
    options = {"logistic": loss == "logistic", "relative_margin": float(rng.choice([0.3, 1, 3]))}
    twin = TwinClicks("fair_pairs", 3, **options)
    comparators = rng.normal(size=(20, 3)) * rng.choice([0.1, 1, 3], size=(20, 1))
    own, others, lengths, margins = [], [], [], []
    for _ in range(40):
        shown = random_list(rng, "fair-pairs") | {"weight": 1.0}
        margin, before = twin.growing_margin(), twin.weights
        now = before / margin if margin else before
        shares = np.cumsum(1 / np.log2(1 + np.arange(1, len(shown["order"]))))
        sums = np.zeros(21)
        for p, chance in click_twins.coin_pairs(shown):
            y = shown["clicks"][p] - shown["clicks"][p + 1]
            if loss == "hinge" or y < 0:
                d = np.sign(y) * (shown["X"][shown["order"][p]] - shown["X"][shown["order"][p + 1]])
                weight = shares[p] / shares.sum() * abs(y) / (2 * chance)
                sums += [weight * function(u @ d) for u in (now, *comparators)]
        step, _ = twin.learn(shown)
        if step.any():
            own.append(sums[0])
            others.append(sums[1:])
            lengths.append(step @ step)
            margins.append(margin or twin.growing_margin())
        elif loss == "hinge":
            own.append(sums[0])
            others.append(sums[1:])
    if not margins:
        return
    assert (np.diff(margins) >= 0).all()
    regret = sum(own) - np.sum(others, axis=0)
    norms = np.sum(comparators**2, axis=1)
    assert (regret <= norms * margins[-1] / 2 + sum(np.divide(lengths, margins)) / 2 + 1e-9).all()


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_misordered_pairs_under_noise_are_bounded_in_expectation(loss):
    """C1 and C2 with their exact means, for position-based users and one query, on average over seeds."""
    attraction, theta, n_rounds = np.array([0.2, 0.3, 0.45, 0.6, 0.75]), 1 / np.arange(1, 6), 600
    rng = np.random.default_rng(0)
    X = np.column_stack([np.log(attraction / (1 - attraction)), rng.normal(size=(5, 2))])
    u = np.array([1.0, 0.0, 0.0])
    shares = np.cumsum(1 / np.log2(1 + np.arange(1, 5)))
    beta = shares / shares.sum()
    lost, compared, regret, late = [], [], [], []
    for seed in range(6):
        draws = np.random.default_rng(seed)
        learner = pr.FairPairsPerceptron(loss, average=False, transforms=None)
        twin = TwinClicks("fair_pairs", 3, logistic=loss == "logistic")
        weights, sums = np.zeros(3), np.zeros(3)
        for t in range(n_rounds):
            ranking = np.argsort(-(X @ weights), kind="stable")
            shown = learner.show(X, policy="fair-pairs", rng=draws)
            first = int(shown.policy[-1]) - 1
            for q in range(first, 4, 2):
                i, j = ranking[q], ranking[q + 1]
                a, b = attraction[i], attraction[j]
                up, low = theta[q], theta[q + 1]
                # Chances that i, or j, is preferred; upper clicks count for the hinge alone.
                wins = (low * a * (1 - up * b)) / 2
                losses = (low * b * (1 - up * a)) / 2
                if loss == "hinge":
                    wins, losses = wins + up * a * (1 - low * b) / 2, losses + up * b * (1 - low * a) / 2
                mean, n = wins - losses, wins + losses
                z = np.sign(mean) * (u @ (X[i] - X[j]))
                is_wrong = mean * (weights @ (X[i] - X[j])) <= 0
                if loss == "hinge":
                    sums[:2] += beta[q] * np.array(
                        [
                            abs(mean) * is_wrong,
                            abs(mean) * max(1 - z, 0) + (n - abs(mean)) / 2 * max(abs(z) - 1, 0),
                        ]
                    )
                else:
                    p, s = wins / n, 1 / (1 + np.exp(-(u @ (X[i] - X[j]))))
                    kl = p * np.log(p / s) + (1 - p) * np.log((1 - p) / (1 - s))
                    sums[:2] += beta[q] * np.array([mean**2 / (2 * n) * is_wrong, n * kl])
                if t >= n_rounds // 2:
                    late.append(is_wrong)
            clicks = (draws.random(5) < theta * attraction[shown.order]).astype(float)
            margin = twin.growing_margin()
            learner.learn_clicks(shown, clicks)
            step, _ = twin.learn(
                {
                    "X": X,
                    "order": shown.order,
                    "places": np.arange(1, 6),
                    "clicks": clicks,
                    "chances": shown.propensity,
                    "policy": shown.policy,
                    "weight": 1.0,
                }
            )
            weights = learner.weights if learner.model.has_begun else weights
            sums[2] += (step @ step) / (2 * (margin or twin.growing_margin())) if step.any() else 0.0
        np.testing.assert_allclose(weights, twin.weights, rtol=1e-9)
        lost.append(sums[0])
        compared.append(sums[1])
        regret.append(sums[2] + (u @ u) * twin.growing_margin() / 2)
    assert np.mean(lost) <= np.mean(compared) + np.mean(regret)
    assert np.mean(late) < 0.3  # and it learns: the features say which documents attract


@pytest.mark.parametrize("k", [1, 2])
def test_steps_from_the_top_are_unbiased(k):
    rng = np.random.default_rng(3)
    X, weights, relevance, share = rng.normal(size=(4, 3)), np.array([0.3, -0.2, 0.1]), np.array([1, 0, 0.5, 1.0]), 0.3
    scores = X @ weights
    ranking, mean = np.argsort(-scores).tolist(), np.zeros(3)
    for order in permutations(range(4), 3):
        prefixes = [click_twins.uniform_chance(ranking, order[:p], share) for p in range(4)]
        learner = pr.TopFeedback(k, learning_rate=1.0, radius=1e9, transforms=None, initial_weights=weights)
        shown = pr.Impression(X, None, np.array(order), np.divide(prefixes[1:], prefixes[:-1]), f"uniform:{share}")
        learner.learn_clicks(shown, relevance[list(order)])
        mean += prefixes[-1] * (learner.weights - weights)
    if k == 1:
        gradient = 2 / 4 * (scores - relevance) @ X
    else:
        pairs = [(i, j) for i in range(4) for j in range(4) if relevance[i] > relevance[j]]
        active = [(i, j) for i, j in pairs if scores[i] - scores[j] < 1]
        gradient = sum((relevance[i] - relevance[j]) * (X[j] - X[i]) for i, j in active) / 6
    np.testing.assert_allclose(mean, -gradient, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("trust", [None, [0.2, 0.1, 0.05]])
def test_steps_by_examination_are_unbiased(trust):
    rng = np.random.default_rng(4)
    X, relevance, mean = rng.normal(size=(5, 3)), np.array([1, 0, 1, 0, 1.0]), np.zeros(3)
    order = np.array([3, 0, 2])
    chances = np.asarray(THETA) * relevance[order] + np.asarray(trust or [0, 0, 0])
    for clicks, chance in outcomes(chances):
        learner = pr.IpsListwise(THETA, trust=trust, transforms=None)
        learner.learn_clicks(pr.Impression(X, None, order, np.ones(3), "none"), clicks.astype(float))
        mean += chance * learner.weights
    expected = sum((X[i] - np.delete(X, i, axis=0)).mean(axis=0) for i in order if relevance[i])
    np.testing.assert_allclose(mean, expected, rtol=1e-12)


def test_with_trust_only_the_expected_regret_is_bounded():
    """A click that is less likely than trust says has a negative weight: its hinge is concave."""
    assert pr.IpsListwise(THETA).theorem.assumption == "none"
    assert "expectation over clicks" in pr.IpsListwise(THETA, trust=[0.2, 0.1, 0.05]).theorem.assumption


def test_estimates_of_position_bias_are_examination():
    bias = pr.clicks.PositionBias(
        **{name: np.zeros(3) for name in ("low", "high", "log_covariance", "clicks", "shown")},
        examination=np.array([1.0, 0.4, np.nan]),
        method="swaps",
        identified=np.array([True, True, False]),
        reason=("", "", "never swapped"),
    )
    shown = pr.Impression(np.eye(3), None, np.arange(3), np.ones(3), "none")
    learners = [pr.IpsListwise(bias, transforms=None), pr.IpsListwise([1.0, 0.4], transforms=None)]
    for learner in learners:
        learner.learn_clicks(shown, [0, 0, 1])
    np.testing.assert_array_equal(learners[0].weights, learners[1].weights)
    restored = pr.IpsListwise.from_document(learners[0].as_document())
    assert restored.examination == [1.0, 0.4, 0.4]
    assert restored.trust is None
    for learner in (restored, learners[0]):
        learner.learn_clicks(shown, [1, 0, 1])
    np.testing.assert_array_equal(restored.weights, learners[0].weights)


def test_random_lists_become_rare():
    learner, rng = pr.TopFeedback(transforms=None), np.random.default_rng(0)
    assert learner.show(np.eye(3), rng=rng).policy == "uniform:1.0"
    for _ in range(26):
        learner.learn_clicks(learner.show(np.eye(3), rng=rng), [1, 0, 0])
    share = float(learner.show(np.eye(3), rng=rng).policy.partition(":")[2])
    assert share == pytest.approx(1 / 3)
    wrapped = pr.AdaGrad(pr.TopFeedback(transforms=None))
    for _ in range(7):
        wrapped.learn_clicks(wrapped.show(np.eye(3), rng=rng), [1, 0, 0])
    assert wrapped.show(np.eye(3), rng=rng).policy == "uniform:0.5"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.FairPairsPerceptron("squared"), "loss must be"),
        (lambda: pr.FairPairsPerceptron(relative_margin=-1), "relative_margin must be"),
        (lambda: pr.ExaminedPerceptron(relative_margin=np.nan), "relative_margin must be"),
        (lambda: pr.TopFeedback(3), "k must be 1 or 2, got 3"),
        (lambda: pr.TopFeedback(radius=0), "radius must be"),
        (lambda: pr.IpsListwise([1.0, 0.0]), "examination must be above 0"),
        (
            lambda: pr.IpsListwise([np.nan, 1.0]),
            "examination must be a number >= 0 for each place, known for the first",
        ),
        (lambda: pr.IpsListwise([]), "examination must be a number >= 0 for each place"),
        (lambda: pr.IpsListwise([[1.0]]), "examination must be a number >= 0 for each place"),
        (lambda: pr.IpsListwise(trust=[0.1, -1]), "trust must be a number >= 0 for each place"),
        (lambda: pr.IpsListwise(clip=0), "clip must be"),
    ],
)
def test_settings_that_are_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("kind", [pr.ClickPerceptron, pr.PDGD])
@pytest.mark.parametrize("clicks", [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0.5, 1, 0]])
def test_clicks_that_depend_on_the_place_alone_teach_nothing_on_average(kind, clicks):
    """The mean of the steps over all lists that Plackett-Luce may draw is 0, whatever the scores."""
    X, scores = np.random.default_rng(5).normal(size=(4, 2)), np.array([0.3, -1.0, 0.8, 0.1])
    learner = kind(transforms=None)
    learner.learn_clicks(learner.show(X[:3], rng=0), [0.0, 1.0, 0.0])  # so that places have click rates
    total, mean = 0.0, np.zeros(2)
    for order in permutations(range(4), 3):
        left, chances = np.exp(scores).sum(), []
        for i in order:
            chances.append(np.exp(scores[i]) / left)
            left -= np.exp(scores[i])
        after = copy.deepcopy(learner)
        after.learn_clicks(pr.Impression(X, None, np.array(order), np.array(chances), "plackett-luce:1.0"), clicks)
        assert not np.array_equal(after.weights, learner.weights)
        total += np.prod(chances)
        mean += np.prod(chances) * (after.weights - learner.weights)
    assert total == pytest.approx(1.0)
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
