"""Verdicts from logged clicks: unbiased over a policy's draws, equal to slow twins, refused where nothing tells."""

import itertools
import math

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.evaluation.bootstrap import simultaneous_intervals
from perceptrank.evaluation.off_policy import ClickValues, agreed_preferences
from perceptrank.measures.of_clicks import ExpectedClicks, FairPreferences

GRADES = np.array([0.0, 2.0, 1.0, 3.0])
ATTRACTION = [0.1, 0.4, 0.6, 0.9]
USERS = {
    "by place": pr.clicks.position_based([0.9, 0.5, 0.4, 0.2], attraction=ATTRACTION),
    "trust": pr.clicks.trust_bias(
        [0.9, 0.6, 0.5, 0.2], [0.9, 0.8, 0.8, 0.7], [0.3, 0.2, 0.1, 0.1], attraction=ATTRACTION
    ),
    "cascade": pr.clicks.cascade(ATTRACTION, [0.2, 0.3, 0.5, 0.9]),
}


def impression(order, clicked, propensity, policy, m=4):
    """One impression of documents 0 to m - 1, of which `order` are shown."""
    place, clicks, chances = np.zeros(m, int), np.zeros(m), np.full(m, np.nan)
    place[list(order)] = np.arange(1, len(order) + 1)
    clicks[list(order)], chances[list(order)] = clicked, propensity
    X = np.arange(m, dtype=float)[:, None]
    return pr.QueryStream.from_arrays(X, place=place, clicked=clicks, propensity=chances, columns={"policy": [policy]})


def drawn_pairs(swap):
    """All lists that fair pairs show of documents ranked 0, 1, 2, 3, with their probabilities."""
    for start in (0, 1):
        pairs = [(k, k + 1) for k in range(start, 3, 2)]
        for coins in itertools.product([0, 1], repeat=len(pairs)):
            order, chances, total = [0, 1, 2, 3], [1.0] * 4, 0.5
            for (i, j), coin in zip(pairs, coins, strict=True):
                chance = swap if coin else 1 - swap
                total *= chance
                chances[i] = chances[j] = chance
                if coin:
                    order[i], order[j] = order[j], order[i]
            yield total, order, chances, f"fair-pairs:{start + 1}"


def drawn_shuffles(k):
    for front in itertools.permutations(range(k)):
        yield 1 / math.factorial(k), [*front, *range(k, 4)], [1 / k] * k + [1.0] * (4 - k), f"shuffle:{k}"


def drawn_lists(scores, n):
    """All lists of Plackett-Luce, with their probabilities."""
    strengths = np.exp(scores)
    for order in itertools.permutations(range(4), n):
        left, chances = strengths.sum(), []
        for i in order:
            chances.append(strengths[i] / left)
            left -= strengths[i]
        yield math.prod(chances), list(order), chances, "plackett-luce:1.0"


def chances_of_clicks(user, order):
    """Return the probability that each document is clicked when a list is shown."""
    clicked = np.zeros(4)
    clicked[order] = user.probabilities(GRADES[order])
    return clicked


def values_of(log, scores, measure, *, is_challenger=False):
    return ClickValues(is_challenger=is_challenger).values(pr.parse(measure), log, np.asarray(scores, dtype=float))


def expected_value(measure, draws, user, scores):
    """Return the mean over all draws, after impressions that make guesses; clicks are their probabilities.

    That is the mean over clicks, too: values are linear in clicks, and the guesses are of earlier impressions.
    """
    past = [impression([i, *(j for j in range(4) if j != i)], [1, 0, 1, 0], [0.25] * 4, "ours") for i in range(4)]
    total = 0.0
    for chance, order, chances, policy in draws:
        log = impression(order, user.probabilities(GRADES[order]), chances, policy)
        total += chance * values_of(pr.QueryStream.concatenate([*past, log]), [*scores] * 5, measure)[-1]
    return total


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("draws", [lambda: drawn_pairs(0.5), lambda: drawn_pairs(0.3), lambda: drawn_shuffles(3)])
def test_differences_of_preferences_have_no_bias(user, draws):
    """Over all draws, a pair speaks for the document that gets more clicks when each is above equally often."""
    old, new = np.array([4.0, 3.0, 2.0, 1.0]), np.array([1.0, 3.0, 3.0, 4.0])
    found = expected = 0.0
    for chance, order, chances, policy in draws():
        log = impression(order, USERS[user].probabilities(GRADES[order]), chances, policy)
        found += chance * np.subtract(*(agreed_preferences(log, log.clicked, own) for own in (new, old)))[0]
        kind, number = policy.split(":")
        pairs = range(int(number) - 1, 3, 2) if kind == "fair-pairs" else range(int(number) - 1)
        for k in pairs:
            i, j = order[k], order[k + 1]
            other = [*order[:k], j, i, *order[k + 2 :]]
            clicks = (chances_of_clicks(USERS[user], order) + chances_of_clicks(USERS[user], other)) / 2
            signs = np.sign(new[i] - new[j]) - np.sign(old[i] - old[j])
            expected += chance * signs / 2 * (clicks[i] - clicks[j]) / len(pairs)
    assert found == pytest.approx(expected, abs=1e-12)
    assert expected > 0  # the new ranker has the better order


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("strengths", [[0.5, 0.0, 1.0, -0.5], [4.0, 0.0, 1.0, -3.5]])
def test_preferences_from_plackett_luce_have_no_bias(user, strengths):
    """Each pair counts half in either order, unless one of them is too rare."""
    old, new = -GRADES, GRADES
    lists = {tuple(draw[1]): draw for draw in drawn_lists(np.array(strengths), 3)}
    found = expected = n_rare = 0.0
    for chance, order, chances, policy in lists.values():
        log = impression(order, USERS[user].probabilities(GRADES[order]), chances, policy)
        found += (
            chance * np.nan_to_num(np.subtract(*(agreed_preferences(log, log.clicked, own) for own in (new, old))))[0]
        )
        for k in range(2):
            i, j = order[k], order[k + 1]
            other = [*order[:k], j, i, *order[k + 2 :]]
            both = chance + lists[tuple(other)][0]
            if not 0.05 <= chance / both <= 0.95:
                n_rare += 1
                continue
            clicks = (chances_of_clicks(USERS[user], order) + chances_of_clicks(USERS[user], other)) / 2
            expected += both / 2 * np.sign(new[i] - new[j]) * (clicks[i] - clicks[j]) / 2
    assert found == pytest.approx(expected, abs=1e-12)
    assert (n_rare > 0) == (strengths[0] == 4.0)


@pytest.mark.parametrize("scores", [[1.0, 3.0, 2.0, 4.0], [1.0, 2.0, 2.0, 2.0]])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_clicks_of_users_who_go_down_have_no_bias(scores, k):
    """Plackett-Luce, by cascade: the clicks on the ranker's own list, in the mean over its ties."""
    found = expected_value(f"clicks@{k}", drawn_lists(np.array([0.5, 0.0, 1.0, -0.5]), 3), USERS["cascade"], scores)
    assert found == pytest.approx(clicks_of_own_list(scores, USERS["cascade"], k), abs=1e-12)


def clicks_of_own_list(scores, user, k):
    lists = [own for own in itertools.permutations(range(4)) if all(np.diff(np.take(scores, own)) <= 0)]
    return np.mean([user.probabilities(GRADES[list(own)])[:k].sum() for own in lists])


@pytest.mark.parametrize("user", ["by place", "trust"])
@pytest.mark.parametrize("scores", [[1.0, 3.0, 2.0, 4.0], [2.0, 2.0, 2.0, 1.0]])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_clicks_by_place_have_no_bias(user, scores, k):
    """Of a shuffle, the ranker reorders what was shuffled."""
    found = expected_value(f"clicks@{k}", drawn_shuffles(4), USERS[user], scores)
    assert found == pytest.approx(clicks_of_own_list(scores, USERS[user], k), abs=1e-12)


def test_swaps_do_not_tell_how_often_another_list_is_clicked():
    """Users who stop click more where the better one of two is lower: a list in reverse order would seem better."""
    good, bad = ranker_pair()
    with pytest.raises(ValueError, match="Swaps of neighbours are for the measure preferences"):
        pr.evaluate([good, bad], small_log("fair-pairs", 100), "clicks@3")
    with pytest.raises(ValueError, match=r"clicks@3 cannot be estimated from this log\."):
        pr.evaluate(good, small_log("fair-pairs", 100), "clicks@3")


def test_other_policies_are_weighted_by_their_propensities():
    draws = [(chance, order, chances, "ours") for chance, order, chances, _ in drawn_shuffles(4)]
    found = expected_value("clicks@2", draws, USERS["by place"], [1.0, 3.0, 2.0, 4.0])
    assert found == pytest.approx(clicks_of_own_list([1.0, 3.0, 2.0, 4.0], USERS["by place"], 2), abs=1e-12)


def slow_clicks(log, scores, k):
    """The formula of `ExpectedClicks`, impression after impression."""
    totals, values = np.zeros((2, k)), []
    for q, query in enumerate(log):
        columns = query.columns
        own = scores[log.offsets[q] : log.offsets[q + 1]].copy()
        shown = np.argsort(np.where(columns["place"] > 0, columns["place"], 1000))[: (columns["place"] > 0).sum()]
        product, value = 1.0, 0.0
        for j in range(min(k, len(shown))):
            before = product
            best = np.flatnonzero(own == own.max())  # of what is left
            product *= (shown[j] in best) / len(best) / columns["propensity"][shown[j]]
            own[shown[j]] = -np.inf
            click = columns["clicked"][shown[j]]
            guess = totals[1, j] / totals[0, j] if totals[0, j] > 0 else 0.0
            value += product * (click - guess) + before * guess
            totals[:, j] += product, product * click
        values.append(value)
    return np.array(values)


def small_log(policy="plackett-luce:2", impressions=400, n=4, seed=3, **options):
    graded = pr.mslr_shaped(60, n_documents=6, n_features=4, seed=1)
    user = pr.clicks.user("informational")
    return pr.simulate_clicks(graded, user, policy=policy, impressions=impressions, n=n, seed=seed, **options)


def test_the_guess_is_of_earlier_impressions_alone():
    log, ranker = small_log(), pr.FixedRanker([1.0, 0.3, 0, 0])
    values = values_of(log, ranker.scores(log), "clicks@2")
    np.testing.assert_allclose(values, slow_clicks(log, ranker.scores(log), 2), rtol=0, atol=1e-10)
    counter = ClickValues(is_challenger=False)
    parts = [log[:7], log[7:150], log[150:]]
    again = [counter.values(ExpectedClicks(2), part, ranker.scores(part)) for part in parts]
    np.testing.assert_allclose(np.concatenate(again), values, rtol=0, atol=1e-10)


def ranker_pair():
    """One that users would like, and the opposite."""
    graded = pr.mslr_shaped(60, n_documents=6, n_features=4, seed=1)
    good = pr.ListwisePerceptron()
    good.learn(graded)

    class Opposite:
        def scores(self, stream):
            return -good.scores(stream)

    return good, Opposite()


@pytest.mark.parametrize("policy", ["fair-pairs", "shuffle:4", "plackett-luce:2"])
def test_the_better_one_wins(policy):
    good, bad = ranker_pair()
    log = small_log(policy, 2000)
    assert pr.evaluate({"now": bad, "new": good}, log, "preferences").answer == "yes"
    assert pr.evaluate({"now": good, "new": bad}, log, "preferences").answer == "no"
    same = pr.evaluate(
        {"now": good, "new": good}, log, ["preferences", "clicks@1"][: 1 if policy == "fair-pairs" else 2]
    )
    assert same.answer == "undecided"
    assert all(row.difference == 0 for row in same.differences)


def test_clipping_never_speaks_for_a_challenger_or_against_it():
    good, bad = ranker_pair()
    log = small_log("plackett-luce:2", 2000)
    measures = ["clicks@1", "clicks@1:clip=3", "clicks@1:clip=1000"]
    full, clipped, loose = pr.evaluate({"now": good, "new": bad}, log, measures).differences
    assert full.high < 0
    assert clipped.high == loose.high == 1.0  # there is one place
    assert clipped.old == loose.old
    assert clipped.new < loose.new
    assert pr.evaluate({"now": good, "new": bad}, log, "clicks@1:clip=3").answer == "undecided"


def without_grades(log, **columns):
    names = ("place", "clicked", "propensity", "policy", "user_query")
    kept = {name: log.columns[name] for name in names} | columns
    kept = {name: values for name, values in kept.items() if values is not None}
    return pr.QueryStream(log.X, None, log.offsets, qids=log.qids, columns=kept)


def test_clicks_decide_if_there_are_no_grades():
    good, bad = ranker_pair()
    log = small_log("fair-pairs", 500)
    assert [str(own) for own in pr.evaluate([bad, good], log).measures] == ["ndcg@10", "ap"]
    result = pr.evaluate({"now": bad, "new": good}, without_grades(log), by="length", worst=3)
    assert result.measures == [FairPreferences()]
    assert result.unit == "impressions"
    n_used = int((np.diff(log.offsets) + (log.columns["policy"] == "fair-pairs:1") > 2).sum())  # have a pair
    assert result.policies == {"fair-pairs": (n_used, 500 - n_used)}
    assert result.as_plain()["policies"] == {"fair-pairs": {"used": n_used, "unused": 500 - n_used}}
    assert sum(part.n_queries for part in result.slices) == 500
    losses = result.worst()
    assert len(losses) == 3
    assert all(change.difference < 0 for change in losses)
    assert {document.grade for change in losses for document in change.documents} == {0.0, 1.0}
    with pytest.raises(ValueError, match="needs the column 'relevance'"):
        pr.evaluate([bad, good], without_grades(log), "ndcg@10")
    with pytest.raises(
        ValueError, match="preferences is a measure of clicks, not of grades: `evaluate` and the service know it"
    ):
        pr.ListwisePerceptron().learn(log, "preferences")


def test_impressions_of_a_query_are_a_cluster():
    """Each impression ten times is no more than once; without texts, all are taken for independent."""
    good, bad = ranker_pair()
    log = small_log("fair-pairs", 200)
    texts = [f"query {i}" for i in range(200)]
    once = without_grades(log, user_query=texts)
    often = pr.QueryStream.concatenate([once] * 10)
    (row,), (same,) = (pr.evaluate([bad, good], stream).differences for stream in (once, often))
    assert (row.n_queries, row.n_better, row.n_worse) == (same.n_queries, same.n_better, same.n_worse)
    assert same.difference == pytest.approx(row.difference)
    assert same.deviation == pytest.approx(row.deviation)
    assert same.high - same.low == pytest.approx(row.high - row.low, rel=0.1)
    (alone,) = pr.evaluate(
        [bad, good], pr.QueryStream.concatenate([without_grades(log, user_query=None)] * 10)
    ).differences
    assert alone.n_queries == 10 * row.n_queries
    assert alone.high - alone.low < 0.5 * (row.high - row.low)


def test_each_impression_is_read_by_its_own_policy():
    good, bad = ranker_pair()
    parts = [
        small_log(policy, 100, seed=seed)
        for seed, policy in enumerate(["fair-pairs", "shuffle:3", "none", "plackett-luce:1"])
    ]
    log = pr.QueryStream.concatenate(parts)
    result = pr.evaluate([bad, good], log, "preferences")
    assert result.policies["none"] == (0, 100)
    assert all(used + unused == 100 for used, unused in result.policies.values())
    assert all(result.policies[name][0] > 85 for name in ("fair-pairs", "shuffle", "plackett-luce"))
    values = result.traces[result.incumbent].values("preferences")
    own = [pr.evaluate(bad, part, "preferences").values("preferences") for part in (*parts[:2], parts[3])]
    np.testing.assert_array_equal(values, np.concatenate([*own[:2], np.full(100, np.nan), own[2]]))


def test_a_log_that_tells_nothing_is_refused():
    good, bad = ranker_pair()
    with pytest.raises(ValueError, match=r"impressions not used: 50 of none\. Clicks on lists that are not randomised"):
        pr.evaluate([bad, good], small_log("none", 50), "preferences")
    log = small_log("shuffle:4", 50)
    with pytest.raises(ValueError, match=r"50 of other.*use the measure clicks@3"):
        pr.evaluate([bad, good], without_grades(log, policy=None))
    bare = without_grades(log, policy=None, propensity=None)
    for measure in ("preferences", "clicks@2"):
        with pytest.raises(ValueError, match="cannot be estimated from this log"):
            pr.evaluate([bad, good], bare, measure)
    with pytest.raises(ValueError, match=r"preferences needs clicks, and none counts; impressions used: "):
        pr.evaluate([bad, good], without_grades(log, clicked=np.zeros(log.n_documents)))
    with pytest.raises(ValueError, match="clicks@1 needs the columns 'place' and 'clicked'"):
        pr.evaluate([bad, good], pr.mslr_shaped(5, n_features=4), "clicks@1")


def test_a_log_that_shows_too_little_of_a_ranker_is_refused():
    good, bad = ranker_pair()
    log = small_log("plackett-luce:2", 600)
    with pytest.raises(
        ValueError, match=r"clicks@4: .* at place \d its impressions are worth .*; clicks@[123] would do"
    ):
        pr.evaluate([bad, good], log, "clicks@4")
    shown = small_log("plackett-luce:2", 600, shown_only=True)  # candidates are missing
    is_complete = np.diff(log.offsets) == np.diff(shown.offsets)
    with pytest.raises(ValueError, match="clicks@1 cannot be estimated from this log; impressions not used"):
        pr.evaluate([bad, good], shown[np.flatnonzero(~is_complete)], "clicks@1")
    assert pr.evaluate([bad, good], shown, "preferences").policies["plackett-luce"][0] > 500
    wrong = without_grades(small_log("shuffle:4", 600), policy=["ours"] * 600)
    wrong = wrong.with_columns({"propensity": np.where(wrong.place > 0, 0.5, np.nan)})
    with pytest.raises(ValueError, match=r"with a mean weight of 0\.[345]"):
        pr.evaluate([bad, good], wrong, "clicks@1")


def test_few_impressions_are_not_decided():
    good, bad = ranker_pair()
    assert pr.evaluate([bad, good], small_log("fair-pairs", 300)[:1], "preferences").answer == "undecided"


def test_missing_propensities_are_those_of_a_fair_coin():
    good, bad = ranker_pair()
    for policy in ("fair-pairs", "shuffle:3"):
        log = small_log(policy, 200)
        for measure in ("preferences", "clicks@2"):
            values = values_of(log, good.scores(log), measure)
            same = values_of(without_grades(log, propensity=None), good.scores(log), measure)
            np.testing.assert_allclose(same, values, rtol=0, atol=1e-12)
    drawn = without_grades(small_log("plackett-luce:1", 50), propensity=None)
    with pytest.raises(ValueError, match="50 of plackett-luce"):
        pr.evaluate([bad, good], drawn)


def test_places_that_are_missing_make_no_pairs():
    log = impression([0, 1, 2, 3], [1, 0, 0, 1], [0.5] * 4, "fair-pairs:1")
    gap = log.with_columns({"place": [1, 2, 4, 5]})
    assert agreed_preferences(gap, gap.clicked, np.array([4.0, 3.0, 2.0, 1.0])).tolist() == [1.0]
    assert np.isnan(values_of(gap, [4, 3, 2, 1], "clicks@2")).all()
    rare = impression([0, 1], [1, 0], [0.01, 0.01], "fair-pairs:1", m=2)
    assert np.isnan(agreed_preferences(rare, rare.clicked, np.array([2.0, 1.0]))).all()


def test_rare_differences_are_as_large_as_weights_make_them():
    """Of three impressions that differ by 5, the interval is five times that of three that differ by 1."""
    ones = np.zeros((100, 1))
    ones[:3] = 1.0
    settings = {"confidence": 0.95, "n_resamples": 10, "seed": 0}
    one, five = (simultaneous_intervals([values], [None], **settings) for values in (ones, 5 * ones))
    assert five.high == 5 * one.high > 0
    assert five.low == -five.high


RUNS = 100
SHOP = pr.mslr_shaped(2000, n_documents=8, n_features=5, seed=1)


def simulated(policy, impressions, seed, queries=SHOP):
    user, now = pr.clicks.user("informational"), pr.FixedRanker([1.0, 0.5, 0, 0, 0])
    return pr.simulate_clicks(queries, user, ranker=now, policy=policy, impressions=impressions, n=6, seed=seed)


def difference(log, measure):
    now, new = pr.FixedRanker([1.0, 0.5, 0, 0, 0]), pr.FixedRanker([0.2, 1.0, 1.0, 0, 0.5])
    (row,) = pr.evaluate({"now": now, "new": new}, log, measure, worst=0).differences
    return row


def share_covered(rows, truth):
    return np.mean([row.low <= truth <= row.high for row in rows])


@pytest.mark.parametrize(
    ("policy", "measure"),
    [
        ("fair-pairs", "preferences"),
        ("plackett-luce:1", "preferences"),
        ("shuffle:4", "preferences"),
        ("shuffle:4", "clicks@2"),
        ("plackett-luce:2", "clicks@1"),
    ],
)
def test_intervals_cover_the_difference(policy, measure):
    truth = difference(simulated(policy, 50_000, seed=RUNS), measure).difference
    rows = [difference(simulated(policy, 1000, seed), measure) for seed in range(RUNS)]
    assert share_covered(rows, truth) >= 0.9


def test_intervals_cover_the_difference_if_queries_are_repeated():
    """80 queries, each 30 times on average: taken for independent, impressions promise too much."""
    truth = difference(simulated("fair-pairs", 50_000, seed=RUNS), "preferences").difference
    clustered, alone = [], []
    for seed in range(RUNS):
        queries = SHOP[np.random.default_rng(seed).permutation(len(SHOP))[:80]]
        log = simulated("fair-pairs", 2400, seed, queries)
        clustered.append(difference(log, "preferences"))
        alone.append(difference(without_grades(log, user_query=None), "preferences"))
    assert share_covered(clustered, truth) >= 0.9
    assert share_covered(alone, truth) <= 0.85
    assert {row.n_queries for row in clustered} <= set(range(70, 81))
