"""Position bias where the log does not tell it, where it is wrong, and how often intervals cover the truth."""

import numpy as np
import pytest
from scipy.special import expit, logit
from support.impressions import fair_pairs, make_log, shuffles

import perceptrank as pr

BY_DOCUMENTS = ("pairs", "pivot", "em")


def fixed(n=200, seed=0, **each):
    """A log whose documents never change places."""
    rng = np.random.default_rng(seed)
    lists = [{"query": q, "documents": [0, 1, 2], **each} for q in range(5)] * (n // 5)
    return make_log(lists, rng.random((n, 3)) < [0.7, 0.5, 0.3])


@pytest.mark.parametrize("method", ["auto", "swaps", *BY_DOCUMENTS])
def test_a_fixed_ranking_tells_nothing_about_places(method):
    bias = pr.clicks.position_bias(fixed(), method=method)
    assert bias.identified.tolist() == [True, False, False]
    assert np.isnan(bias.examination[1:]).all()
    assert np.isnan(bias.low[1:]).all()
    assert np.isnan(bias.log_covariance[1:]).all()
    assert "place 1" in bias.reason[1]
    assert "Not identified, places 2 to 3: no " in str(bias)
    assert "not identified" in str(bias)


def test_a_policy_that_is_not_random_tells_nothing_about_places():
    for policy in ("none", "plackett-luce:0.5", "ours", "fair-pairs:x", "shuffle:0", "shuffle:1"):
        bias = pr.clicks.position_bias(fixed(policy=policy), method="swaps")
        assert bias.identified.tolist() == [True, False, False], policy
    certain = fixed(policy="fair-pairs:1")
    certain = pr.QueryStream.from_arrays(
        certain.X, group=[3] * 200, place=certain.place, clicked=certain.clicked, propensity=np.ones(600),
        columns={"policy": certain.columns["policy"]},
    )  # fmt: skip
    assert pr.clicks.position_bias(certain, method="swaps").identified.tolist() == [True, False, False]


def test_features_that_tell_the_place_tell_nothing_about_it():
    log = fixed()
    told = pr.QueryStream.from_arrays(
        np.column_stack([log.place == 1, log.place == 2]), group=[3] * 200, place=log.place, clicked=log.clicked
    )
    bias = pr.clicks.position_bias(told, method="regression-em")
    assert bias.reason == ("", "the features tell the place", "the features tell the place")
    same = told.with_features(np.ones((600, 2)))
    assert pr.clicks.position_bias(same, method="regression-em").identified.tolist() == [True, False, False]


def test_places_that_no_swap_links_are_not_identified():
    lists = [each for each in fair_pairs(1, 4) if each["policy"] == "fair-pairs:1"]
    log = make_log(lists * 2, [[1, 1, 1, 1]] * 8)
    for method in ("swaps", "pairs", "em"):
        bias = pr.clicks.position_bias(log, method=method, places=5)
        assert bias.identified.tolist() == [True, True, False, False, False]
        assert "links it to place 1" in bias.reason[2]
        assert bias.reason[4] == "never shown"


def test_a_place_without_clicks_is_not_identified():
    log = make_log(shuffles(1, 3), [[1, 1, 0]] * 6)
    for method in ("swaps", *BY_DOCUMENTS):
        bias = pr.clicks.position_bias(log, method=method)
        assert bias.identified.tolist() == [True, True, False], method
        assert "no clicks" in bias.reason[2], method


def test_without_place_1_nothing_is_identified():
    log = pr.QueryStream.from_arrays(
        np.ones((4, 1)), group=[2, 2], docids=["a", "b", "b", "a"], place=[2, 3, 2, 3], clicked=[1, 0, 1, 1],
        columns={"user_query": ["q", "q"]},
    )  # fmt: skip
    for method in ("auto", "swaps", *BY_DOCUMENTS, "regression-em"):
        bias = pr.clicks.position_bias(log, method=method)
        assert not bias.identified.any(), method
        assert all(bias.reason), method


def test_what_is_not_used_is_said():
    log = fixed()
    nameless = pr.QueryStream.from_arrays(log.X, group=[3] * 200, place=log.place, clicked=log.clicked)
    assert pr.clicks.position_bias(nameless, method="pairs").notes == (
        "600 documents are not used: they have no docid.",
    )
    assert "200 of 200 impressions are not used" in pr.clicks.position_bias(nameless, method="swaps").notes[0]
    far = pr.QueryStream.from_arrays(np.ones((2, 1)), place=[1, 5000], clicked=[1, 0])
    assert "1 documents are not used: they were shown below place 1023." in pr.clicks.position_bias(far).notes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "best"}, "method must be one of"),
        ({"places": 0}, "places must be"),
        ({"places": 5000}, "places must be at most 1023"),
        ({"confidence": 1.0}, "confidence must be between 0 and 1"),
        ({"confidence": "high"}, "confidence must be between 0 and 1, got 'high'"),
        ({"method": "regression-em"}, "has no features"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        pr.clicks.position_bias(fixed(), **change)


def test_wrong_streams_are_named():
    judged = pr.QueryStream.from_arrays([[1.0]], [1])
    with pytest.raises(ValueError, match="needs the columns 'place' and 'clicked'"):
        pr.clicks.position_bias(judged)
    with pytest.raises(ValueError, match="no document of the log was shown"):
        pr.clicks.position_bias(pr.QueryStream.from_arrays([[1.0]], place=[0], clicked=[0]))
    with pytest.raises(ValueError, match="no queries"):
        pr.clicks.position_bias([])
    with pytest.raises(ValueError, match="of the same method and places"):
        pr.clicks.PositionBiasSums("swaps") + pr.clicks.PositionBiasSums("pairs")


def simulate(rng, n, examination, attraction, policy="fair-pairs"):
    """Impressions of random queries, whose documents are ranked by their number, with a policy's swaps."""
    queries = rng.integers(0, len(attraction), n)
    scores = np.tile(-np.arange(attraction.shape[1], dtype=float), (n, 1))
    shown = pr.clicks.policy(policy).show(scores, attraction.shape[1], rng)
    appeal = attraction[queries[:, None], shown.order]
    return pr.QueryStream.from_arrays(
        logit(appeal).reshape(-1, 1),
        group=np.full(n, attraction.shape[1]),
        docids=shown.order.ravel(),
        place=np.tile(np.arange(attraction.shape[1]) + 1, n),
        clicked=(rng.random(appeal.shape) < appeal * examination).ravel(),
        propensity=shown.propensity.ravel(),
        columns={"user_query": [f"q{query}" for query in queries], "policy": shown.policy},
    )


def test_automatic_choice_takes_swaps_if_documents_have_changed():
    rng = np.random.default_rng(0)
    examination, early = np.array([1.0, 0.6, 0.4]), np.tile([0.2, 0.8, 0.2], (20, 1))
    steady = simulate(rng, 4000, examination, early)
    bias = pr.clicks.position_bias(steady)
    assert "narrower" in bias.notes[0]
    assert bias.method == "pairs"
    # Later, documents swap both their ranks and their appeal: the best is second in the log again, under other ids.
    later = simulate(rng, 4000, examination, early)
    renamed = np.array([1, 0, 2])[np.asarray(later.docids, int)]
    later = pr.QueryStream.from_arrays(
        later.X, group=[3] * 4000, docids=renamed, place=later.place, clicked=later.clicked,
        columns={name: later.columns[name] for name in ("user_query", "policy")},
    )  # fmt: skip
    bias = pr.clicks.position_bias([steady, later])
    assert bias.method == "swaps"
    assert "disagree" in bias.notes[0]
    assert (bias.low <= examination).all()
    assert (bias.high >= examination).all()


def coverage(method, n_logs, n, policy, seed):
    """The share of intervals that cover the truth, per place."""
    rng = np.random.default_rng(seed)
    examination = np.array([1.0, 0.7, 0.5, 0.4])
    covered = np.zeros(4)
    for _ in range(n_logs):
        log = simulate(rng, n, examination, expit(rng.normal(-1, 1, (40, 4))), policy)
        bias = pr.clicks.position_bias(log, method=method)
        assert bias.identified.all()
        covered += (bias.low <= examination) & (examination <= bias.high)
    return covered[1:] / n_logs


@pytest.mark.parametrize(
    ("method", "policy"),
    [("swaps", "fair-pairs"), ("pairs", "fair-pairs"), ("pivot", "shuffle:4"), ("em", "shuffle:4")],
)
def test_intervals_cover_the_truth(method, policy):
    assert (coverage(method, 40, 1000, policy, seed=1) >= 0.9).all()


def test_intervals_of_the_regression_cover_the_truth():
    assert (coverage("regression-em", 25, 1000, "fair-pairs", seed=1) >= 0.88).all()


@pytest.mark.deep
@pytest.mark.parametrize("policy", ["fair-pairs", "shuffle:4", "plackett-luce:1"])
@pytest.mark.parametrize("method", ["auto", "swaps", "pairs", "em", "regression-em"])
def test_intervals_cover_the_truth_in_95_of_100_logs(method, policy):
    if method == "swaps" and policy.startswith("plackett"):
        pytest.skip("its places are not drawn by coins that are logged")
    n_logs = 50 if method == "regression-em" else 200
    shares = coverage(method, n_logs, 2000, policy, seed=np.random.SeedSequence().entropy)
    assert (shares >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / n_logs)).all()
