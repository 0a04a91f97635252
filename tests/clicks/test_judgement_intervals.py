"""Intervals of the click probability: against enumeration, and their coverage, exactly, for every probability."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from perceptrank.clicks.judging import intervals
from perceptrank.clicks.judging.intervals import binomial_interval, position_based_interval, rates_at

GROUPS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([1.0, 0.7, 0.31, 0.05])), min_size=1, max_size=3)


def distribution(groups, a):
    """Probability of each number of clicks, one impression after the other."""
    chances = np.ones(1)
    for n, examination in groups:
        for _ in range(n):
            p = min(1.0, examination * a)
            chances = np.append(chances * (1 - p), 0) + np.append(0, chances * p)
    return chances


def arrays(groups, rows):
    """Impressions and examination of a document, for each of its numbers of clicks."""
    shown, examination = np.array(groups, float).T
    return np.tile(shown, (rows, 1)), np.tile(examination, (rows, 1))


def all_intervals(groups, confidence=0.95, log_margin=0.0):
    """Intervals for each number of clicks that is possible."""
    n = int(sum(n for n, _ in groups))
    shown, examination = arrays(groups, n + 1)
    return position_based_interval(np.arange(n + 1.0), shown, examination, np.full(n + 1, log_margin), confidence)


@given(GROUPS, st.floats(0, 1))
def test_the_sum_of_binomials_is_that_of_all_outcomes(groups, a):
    trials = [examination * a for n, examination in groups for _ in range(n)]
    chances = np.zeros(len(trials) + 1)
    for outcome in product((0, 1), repeat=len(trials)):
        chances[sum(outcome)] += np.prod([p if clicked else 1 - p for p, clicked in zip(trials, outcome, strict=True)])
    np.testing.assert_allclose(distribution(groups, a), chances, atol=1e-14)
    shown, examination = arrays(groups, 1)
    for c in range(len(trials) + 1):
        choices = intervals.log_choices(c, shown)
        at_most = intervals.sum_at_most(shown, examination * a, 1 - examination * a, choices)
        assert at_most[0] == pytest.approx(chances[: c + 1].sum(), abs=1e-12)


@given(GROUPS, st.sampled_from([0.5, 0.8, 0.95]))
def test_bounds_are_where_a_tail_has_half_the_error(groups, confidence):
    low, high = all_intervals(groups, confidence)
    tail, n = (1 - confidence) / 2, len(low) - 1
    assert low[0] == 0
    assert high[n] == 1
    for c in range(n + 1):
        above, below = distribution(groups, low[c])[c:].sum(), distribution(groups, high[c])[: c + 1].sum()
        assert c == 0 or above == pytest.approx(tail, abs=1e-9) or (low[c] == 1 and above < tail)
        assert c == n or below == pytest.approx(tail, abs=1e-9) or (high[c] == 1 and below > tail)


@given(GROUPS, st.sampled_from([0.5, 0.8, 0.95]))
def test_coverage_is_at_least_the_confidence_whatever_the_probability(groups, confidence):
    low, high = all_intervals(groups, confidence)
    ends = np.concatenate([low, high])
    for a in [*np.linspace(0, 1, 41), *np.clip(ends - 1e-7, 0, 1), *np.clip(ends + 1e-7, 0, 1)]:
        assert distribution(groups, a)[(low <= a) & (a <= high)].sum() >= confidence - 1e-9


def test_many_clicks_have_an_interval_that_contains_the_exact_one(monkeypatch):
    groups = [(30, 1.0), (40, 0.6), (50, 0.2)]
    exact = all_intervals(groups)
    monkeypatch.setattr(intervals, "EXACT_UP_TO", -1)
    bound = all_intervals(groups)
    inner = slice(10, 110)
    assert (bound[0][inner] <= exact[0][inner] + 1e-12).all()
    assert (bound[1][inner] >= exact[1][inner] - 1e-12).all()
    assert (bound[0] < exact[0])[inner].any()


@pytest.mark.parametrize("few", [3, 64])
def test_coverage_holds_with_hundreds_of_impressions(monkeypatch, few):
    """With few clicks counted exactly, some intervals are exact by clicks, some by misses, and the others bounds."""
    monkeypatch.setattr(intervals, "EXACT_UP_TO", few)
    groups = [(100, 1.0), (60, 0.5), (40, 0.1)]
    low, high = all_intervals(groups)
    for a in np.linspace(0.005, 0.995, 34):
        assert distribution(groups, a)[(low <= a) & (a <= high)].sum() >= 0.95


@pytest.mark.parametrize("error", [0.05, 0.3, 0.7])
def test_an_error_of_the_examination_is_covered_too(error):
    """The logarithm of the examination is wrong by a normal error: coverage over both, by quadrature."""
    n, examination = 80, 0.4
    low, high = all_intervals([(n, examination)], log_margin=-ndtri(0.025) * error)
    # Intervals for the probability of a click, which do not depend on the examination unless they end at 1.
    low, high = low * examination, np.where(high < 1, high * examination, np.inf)
    z = np.linspace(-5, 5, 801)
    weights = np.diff(ndtr(np.append(z, 5.0125) - 0.00625))
    for a in (0.01, 0.05, 0.2, 0.5, 0.9):
        chances = distribution([(n, examination)], a)
        assumed = a * examination * np.exp(error * z)
        covered = (low[:, None] <= assumed) & (assumed <= high[:, None])
        assert chances @ covered @ weights / weights.sum() >= 0.95


def test_an_error_makes_every_interval_wider():
    groups = [(9, 0.8), (6, 0.3)]
    low, high = all_intervals(groups)
    wider_low, wider_high = all_intervals(groups, log_margin=0.2)
    assert wider_low[0] == 0
    assert (wider_low[1:] < low[1:]).all()
    assert (wider_high[high < 1] > high[high < 1]).all()


def test_a_single_place_that_is_always_examined_is_clopper_and_pearsons():
    low, high = all_intervals([(7, 1.0)])
    expected = binomial_interval(np.arange(8.0), np.full(8, 7.0), 0.95)
    np.testing.assert_allclose([low, high], expected, rtol=1e-8)
    assert expected[1][0] == pytest.approx(1 - 0.025 ** (1 / 7))
    assert expected[0][7] == pytest.approx(0.025 ** (1 / 7))


def test_clicks_that_are_not_whole_have_room_for_the_whole_numbers_beside_them():
    shown, examination = arrays([(5, 1.0), (4, 0.5)], 3)
    low, high = position_based_interval(np.array([2.0, 2.4, 3.0]), shown, examination, np.zeros(3), 0.95)
    assert low[1] == low[0]
    assert high[1] == high[2]
    low, high = binomial_interval(np.array([2.0, 2.4, 3.0]), np.full(3, 9.0), 0.95)
    assert low[1] == low[0]
    assert high[1] == high[2]


def test_a_place_that_is_examined_more_than_the_first_is_clicked_at_most_always():
    rates = rates_at(0.025, np.array([0]), np.array([[3.0]]), np.array([[2.0]]))
    assert (1 - 2 * rates[0]) ** 3 == pytest.approx(0.025)


def test_an_examination_of_which_nothing_is_known_leaves_the_whole_interval():
    shown, examination = arrays([(5, 1e-3)], 3)
    low, high = position_based_interval(np.array([0.0, 1.0, 5.0]), shown, examination, np.full(3, 1e5), 0.95)
    assert (low < 1e-300).all()
    assert high.tolist() == [1.0, 1.0, 1.0]
    assert rates_at(0.025, np.array([0]), np.array([[3.0]]), np.array([[1e-310]])).tolist() == [1.0]
