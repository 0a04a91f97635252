"""Position bias: every method against a slow twin from its definition, and against the truth where data is endless."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit
from support.impressions import fair_pairs, make_log, shuffles

import perceptrank as pr
from perceptrank.clicks.bias.documents import DocumentCounts, row_keys
from perceptrank.clicks.bias.methods import estimate_em

EXAMINATION = np.array([1.0, 0.7, 0.35, 0.5])
ATTRACTION = np.array([[0.9, 0.2, 0.5, 0.1], [0.3, 0.8, 0.05, 0.6]])


def endless(lists):
    """The average log: each list once, with the probability of each click in place of the click."""
    chances = [EXAMINATION[: len(each["documents"])] * ATTRACTION[each["query"], each["documents"]] for each in lists]
    return make_log(lists, chances)


@pytest.mark.parametrize("method", ["swaps", "pairs", "pivot", "auto"])
def test_endless_shuffles_tell_examination_exactly(method):
    bias = pr.clicks.position_bias(endless(shuffles(2, 4)), method=method)
    np.testing.assert_allclose(bias.examination, EXAMINATION, rtol=1e-9)
    assert bias.identified.all()
    assert bias.reason == ("",) * 4
    assert (bias.low <= bias.examination).all()
    assert (bias.examination <= bias.high).all()


@pytest.mark.parametrize("method", ["swaps", "pairs"])
def test_endless_swaps_tell_examination_exactly(method):
    bias = pr.clicks.position_bias(endless(fair_pairs(2, 4)), method=method)
    np.testing.assert_allclose(bias.examination, EXAMINATION, rtol=1e-9)


def test_unfair_swaps_are_weighted_by_their_propensity():
    swap = 0.2
    lists = fair_pairs(2, 4)
    chances = [np.where(np.array(each["swapped"]), swap, 1 - swap) for each in lists]
    chances = [np.where(each["paired"], chance, 1.0) for each, chance in zip(lists, chances, strict=True)]
    copies = [
        round(10**4 * np.prod(chance[np.array(each["paired"])][::2]))
        for each, chance in zip(lists, chances, strict=True)
    ]
    lists = [each for each, n in zip(lists, copies, strict=True) for _ in range(round(n / 400))]
    chances = [chance for chance, n in zip(chances, copies, strict=True) for _ in range(round(n / 400))]
    clicks = [EXAMINATION * ATTRACTION[each["query"], each["documents"]] for each in lists]
    bias = pr.clicks.position_bias(make_log(lists, clicks, propensity=chances), method="swaps")
    np.testing.assert_allclose(bias.examination, EXAMINATION, rtol=1e-9)
    unweighted = pr.clicks.position_bias(make_log(lists, clicks), method="swaps")
    assert not np.allclose(unweighted.examination, EXAMINATION, rtol=0.05)


def counts_of(log, times=1.0):
    """The counts of a log's documents, as if it was seen many times."""
    sums = pr.clicks.PositionBiasSums("em")
    sums.add(log)
    counts = DocumentCounts.joined(sums._documents)
    return replace(counts, shown=counts.shown * times, clicks=counts.clicks * times), np.bincount(
        counts.places, counts.shown
    )


def test_endless_clicks_tell_em_examination():
    counts, totals = counts_of(endless(fair_pairs(2, 4)), times=1e9)
    np.testing.assert_allclose(np.exp(estimate_em(counts, totals).log_examination), EXAMINATION, rtol=1e-6)


def test_em_is_the_maximum_that_the_published_rounds_reach():
    rng = np.random.default_rng(5)
    log = make_log(shuffles(2, 3), [rng.integers(0, 2, 3) * 0.9 for _ in range(12)])
    counts, totals = counts_of(log, times=1e7)
    cells = counts.cells(3)
    seen = list(zip(cells.group.tolist(), cells.place.tolist(), cells.shown, cells.clicks, strict=True))
    examination, attraction = np.full(3, 0.5), np.full(cells.n_groups, 0.5)
    for _ in range(4000):
        looked, liked = np.zeros(3), np.zeros(cells.n_groups)
        for d, k, n, c in seen:
            rest = 1 - examination[k] * attraction[d]
            looked[k] += c + (n - c) * examination[k] * (1 - attraction[d]) / rest
            liked[d] += c + (n - c) * (1 - examination[k]) * attraction[d] / rest
        examination = looked / np.bincount(cells.place, cells.shown)
        attraction = liked / np.bincount(cells.group, cells.shown)
    estimate = np.exp(estimate_em(counts, totals).log_examination)
    np.testing.assert_allclose(estimate, examination / examination[0], rtol=1e-4)


def test_em_with_few_clicks_solves_the_corrected_equations():
    rng = np.random.default_rng(6)
    log = make_log(shuffles(2, 3) * 4, [rng.random(3) < [0.8, 0.5, 0.4] for _ in range(48)])
    counts, totals = counts_of(log)
    examination = np.exp(estimate_em(counts, totals).log_examination)
    cells = counts.cells(3)
    excess = np.zeros(3)
    for d in range(cells.n_groups):
        rows = [
            (k, n, c) for g, k, n, c in zip(cells.group, cells.place, cells.shown, cells.clicks, strict=True) if g == d
        ]

        def residuals(attraction, rows=rows):
            chances = [examination[k] * attraction for k, _, _ in rows]
            weights = [n * p / max(1 - p, 0.02) for (_, n, _), p in zip(rows, chances, strict=True)]
            return [
                (c - n * p) / max(1 - p, 0.02) + weight / sum(weights) / 2
                for (_, n, c), p, weight in zip(rows, chances, weights, strict=True)
            ]

        attraction = brentq(lambda a: sum(residuals(a)), 1e-6, 10)
        for (k, _, _), residual in zip(rows, residuals(attraction), strict=True):
            excess[k] += residual
    np.testing.assert_allclose(excess, 0, atol=1e-5)


def test_endless_clicks_tell_regression_examination():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4, 2))
    chances = EXAMINATION * expit(X @ [0.8, -0.5] - 1)
    log = pr.QueryStream.from_arrays(
        X.reshape(-1, 2), group=[4] * 60, place=np.tile([1, 2, 3, 4], 60), clicked=chances.ravel()
    )
    bias = pr.clicks.position_bias(log, method="regression-em")
    np.testing.assert_allclose(bias.examination, EXAMINATION, rtol=1e-3)


# Slow twins: dictionaries, and the formula.

logs = st.lists(
    st.tuples(st.integers(0, 1), st.permutations(range(3)), st.tuples(*[st.integers(0, 1)] * 3)),
    min_size=1,
    max_size=30,
)


def as_log(impressions, **columns):
    lists = [{"query": query, "documents": list(order), "policy": "shuffle:3"} for query, order, _ in impressions]
    return make_log(lists, [clicks for *_, clicks in impressions], **columns)


def count(impressions):
    """(query, document) → place → [shown, clicks]."""
    seen = {}
    for query, order, clicks in impressions:
        for k, document in enumerate(order):
            cell = seen.setdefault((query, document), {}).setdefault(k, [0, 0])
            cell[0] += 1
            cell[1] += clicks[k]
    return seen


def is_linked(seen, k):
    """Whether clicks lead out of every set of places that has one of place 0 and k: the definition."""
    for inside in product([False, True], repeat=3):
        if inside[0] != inside[k] and not any(
            cell[1] > 0 and inside[j] and any(not inside[i] for i in cells)
            for cells in seen.values()
            for j, cell in cells.items()
        ):
            return False
    return True


@given(logs)
def test_pairs_equal_their_slow_twin(impressions):
    seen = count(impressions)
    bias = pr.clicks.position_bias(as_log(impressions), method="pairs", places=3)
    linked = [k == 0 or is_linked(seen, k) for k in range(3)]
    assert bias.identified.tolist() == linked
    assert np.isnan(bias.examination).tolist() == [not each for each in linked]
    assert [text == "" for text in bias.reason] == linked
    examination = dict.fromkeys(np.flatnonzero(linked).tolist(), 1.0)
    for _ in range(3000):  # Hunter's algorithm, which climbs in each round
        clicks, exposure = dict.fromkeys(examination, 0.0), dict.fromkeys(examination, 0.0)
        for cells in seen.values():
            used = {k: cell for k, cell in cells.items() if k in examination}
            total = sum(n * examination[k] for k, (n, _) in used.items())
            for k, (n, c) in used.items():
                if len(used) > 1:
                    clicks[k] += c
                    exposure[k] += n * sum(c for _, c in used.values()) / total
        if len(examination) > 1:
            examination = {k: clicks[k] / exposure[k] for k in examination}
    for k, value in examination.items():
        assert bias.examination[k] == pytest.approx(value / examination[0], rel=1e-4)


@given(logs)
def test_pivot_equals_its_slow_twin(impressions):
    bias = pr.clicks.position_bias(as_log(impressions), method="pivot", places=3)
    for k in (1, 2):
        upper = lower = 0.0
        for cells in count(impressions).values():
            if 0 in cells and k in cells:
                (n, c), (m, d) = cells[0], cells[k]
                upper += d * n / (n + m)
                lower += c * m / (n + m)
        assert bias.identified[k] == (upper > 0 and lower > 0)
        if bias.identified[k]:
            assert bias.examination[k] == pytest.approx(upper / lower)


@given(st.lists(st.tuples(st.integers(1, 2), st.tuples(*[st.integers(0, 1)] * 4)), min_size=1, max_size=60))
def test_swaps_are_the_chain_of_ratios(impressions):
    lists = [{"query": 0, "documents": list(range(4)), "policy": f"fair-pairs:{start}"} for start, _ in impressions]
    bias = pr.clicks.position_bias(make_log(lists, [clicks for _, clicks in impressions]), method="swaps", places=4)
    log_ratio = variance = 0.0
    for k in range(3):
        paired = [clicks for start, clicks in impressions if (k + 1 - start) % 2 == 0 and k + 1 >= start]
        upper, lower = (sum(clicks[j] for clicks in paired) for j in (k, k + 1))
        if upper == 0 or lower == 0:
            assert not bias.identified[k + 1 :].any()
            return
        log_ratio += np.log(lower / upper)
        variance += 1 / upper + 1 / lower
        assert bias.examination[k + 1] == pytest.approx(np.exp(log_ratio))
        assert bias.log_covariance[k + 1, k + 1] >= variance * (1 - 1e-9)
        assert bias.low[k + 1] == pytest.approx(np.exp(log_ratio - 1.959964 * bias.log_covariance[k + 1, k + 1] ** 0.5))


@given(logs, st.integers(0, 30), st.sampled_from(["auto", "swaps", "pairs", "pivot", "em"]), st.randoms())
def test_how_a_log_is_split_makes_no_difference(impressions, cut, method, random):
    whole = pr.clicks.position_bias(as_log(impressions), method=method, places=3)
    mixed = random.sample(impressions, len(impressions))
    sums = [pr.clicks.PositionBiasSums(method, places=3) for _ in range(2)]
    for part, total in zip((mixed[:cut], mixed[cut:]), sums, strict=True):
        for impression in part:
            total.add(as_log([impression]))
    merged = (sums[1] + sums[0]).estimate()
    np.testing.assert_allclose(merged.examination, whole.examination, rtol=1e-6)
    np.testing.assert_allclose(merged.log_covariance, whole.log_covariance, rtol=1e-4, atol=1e-9)
    assert (merged.method, merged.reason, merged.notes) == (whole.method, whole.reason, whole.notes)
    assert merged.clicks.tolist() == whole.clicks.tolist()


def test_rows_have_keys_of_their_own():
    X = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert row_keys(X).tolist() == row_keys(X[[2, 1, 0]]).tolist()
    assert len(set(row_keys(X).tolist())) == 2


def test_a_result_survives_json():
    bias = pr.clicks.position_bias(endless(fair_pairs(2, 4)), places=6)
    again = pr.clicks.PositionBias.from_plain(json.loads(json.dumps(bias.as_plain(), allow_nan=False)))
    assert str(again) == str(bias)
    np.testing.assert_array_equal(again.log_covariance, bias.log_covariance)


def test_ids_of_queries_and_documents_may_be_the_same_texts():
    """Document "1" of the query "0" is not document "0" of the query "1"."""
    log = pr.QueryStream.from_arrays(
        np.empty((10, 0)),
        group=[2] * 5,
        docids=["1", "2", "2", "1", *["0", "2"] * 3],
        place=[1, 2] * 5,
        clicked=[1, 0, 0, 1, *[0, 0] * 3],
        columns={"user_query": ["0", "0", "1", "1", "1"]},
    )
    for method in ("pairs", "pivot"):
        assert pr.clicks.position_bias(log, method).examination.tolist() == [1.0, 1.0]
