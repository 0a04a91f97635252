"""Intervals that may be looked at after every round: their error rate, and the twin that is written from the proof."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perceptrank.evaluation.running_difference import BETS, RunningDifference

unit = st.floats(0.0, 1.0)


def run(first, second):
    found = RunningDifference()
    for one, other in zip(first, second, strict=True):
        found = found.after(one, other)
    return found


def capitals(D, means=0.0):
    """Capital after each round of every run (a row each), times exp(-bet * sum of expected differences)."""
    totals = np.cumsum(np.broadcast_to(means, D.shape), axis=1)
    return np.mean([np.cumprod(1 + b * D, axis=1) * np.exp(-b * totals) for b in BETS], axis=0)


@given(st.lists(st.tuples(unit, unit), min_size=1, max_size=40), st.sampled_from([0.01, 0.05, 0.5]))
def test_capital_and_interval_are_those_of_the_definition(rounds, error):
    first, second = np.array(rounds).T
    found = run(first, second)
    D, n = second - first, len(rounds)
    assert found.n_rounds == n
    assert found.difference == pytest.approx(D.mean(), abs=1e-12)
    assert found.second_mean - found.first_mean == pytest.approx(D.mean(), abs=1e-12)
    assert math.exp(found.log_evidence) == pytest.approx(capitals(D[None])[0, -1])
    below, above = found.interval(error)
    assert -1 <= below <= D.mean() <= above <= 1
    if below > -1:
        assert capitals(D[None], below)[0, -1] == pytest.approx(2 / error)
    if above < 1:
        assert capitals(-D[None], -above)[0, -1] == pytest.approx(2 / error)
    other = run(second, first)
    assert other.interval(error) == (-above, -below)


@given(st.floats(-1, 1), st.floats(-1, 1), unit, st.sampled_from(BETS))
def test_no_bet_gains_in_expectation(low, high, p, bet):
    """Among differences of one mean, those of two values are extreme: for them the proof's inequality is checked."""
    mean = p * high + (1 - p) * low
    expected = p * (1 + bet * high) + (1 - p) * (1 + bet * low)
    assert expected * math.exp(-bet * mean) <= 1 + 1e-12


def wrong_at_any_time(rng, n_runs, n_rounds, error, kind):
    """Shares of runs in which, after some round, the interval was wrong, and the evidence above 1 / error."""
    bets = np.array(BETS)[:, None]
    for_second, for_first = np.zeros((2, len(BETS), n_runs))  # logarithms of capital
    total, expected = np.zeros((2, n_runs))  # sums of the differences, and of their expectations
    is_wrong, is_convinced = np.zeros((2, n_runs), dtype=bool)
    for t in range(n_rounds):
        if kind == "coin":  # the largest variance there is
            mean, d = 0.0, rng.choice([-1.0, 1.0], n_runs)
        elif kind == "rare":  # seldom a large gain, often a small loss
            mean, d = 0.0, np.where(rng.random(n_runs) < 0.05, 0.95, -0.05)
        elif kind == "opponent":  # one who sees all, and moves expectations, whose sum is never above 0
            mean = np.where(total < 0, np.minimum(0.3, -expected), -0.3)
            d = mean + 0.6 * rng.choice([-1.0, 1.0], n_runs)
        else:  # expectations that drift, for the interval alone
            mean = 0.4 * math.sin(t / 50)
            d = mean + 0.5 * rng.choice([-1.0, 1.0], n_runs)
        total += d
        expected += mean
        for_second += np.log1p(bets * d)
        for_first += np.log1p(-bets * d)
        is_wrong |= np.exp(for_second - bets * expected).mean(axis=0) > 2 / error
        is_wrong |= np.exp(for_first + bets * expected).mean(axis=0) > 2 / error
        is_convinced |= np.exp(for_second).mean(axis=0) > 1 / error
    return is_wrong.mean(), is_convinced.mean()


def check_error_rate(kind, n_runs, n_rounds, error=0.1):
    slack = 4 * math.sqrt(error * (1 - error) / n_runs)
    interval, evidence = wrong_at_any_time(np.random.default_rng(5), n_runs, n_rounds, error, kind)
    assert interval <= error + slack
    if kind != "drift":  # there, the second ranker is ahead
        assert evidence <= error + slack


@pytest.mark.parametrize("kind", ["coin", "rare", "opponent", "drift"])
def test_looking_after_every_round_keeps_the_error_rate(kind):
    check_error_rate(kind, 1000, 500)


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["coin", "rare", "opponent", "drift"])
def test_looking_after_many_rounds_keeps_the_error_rate(kind):
    check_error_rate(kind, 10_000, 3000)


def test_it_is_found_out_which_ranker_is_better():
    rng = np.random.default_rng(1)
    first, second = rng.beta(2, 2, 3000), rng.beta(2.3, 2, 3000)
    found = run(first, second)
    below, above = found.interval(0.05)
    assert 0 < below < 2.3 / 4.3 - 0.5 < above < 0.1
    assert found.log_evidence > math.log(1 / 0.001)
    assert run(second, first).log_evidence < 0
    # After many rounds the interval is at most twice as wide as the one that may be looked at once.
    assert above - below < 2 * 2 * 1.96 * (second - first).std() / math.sqrt(3000)


@settings(max_examples=20)
@given(st.lists(st.tuples(unit, unit), max_size=20))
def test_it_is_kept_to_the_bit(rounds):
    found = run(*np.array(rounds).T.tolist()) if rounds else RunningDifference()
    assert RunningDifference.from_plain(json.loads(json.dumps(found.as_plain()))) == found


def test_before_the_first_round_nothing_is_known():
    found = RunningDifference()
    assert found.interval(0.05) == (-1.0, 1.0)
    assert found.log_evidence == 0.0
    assert math.isnan(found.difference)
    for wrong in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="error must be between 0 and 1"):
            found.interval(wrong)
    with pytest.raises(ValueError, match="12 bets on either ranker, got 1 and 1"):
        RunningDifference.from_plain([1, 0.0, 0.0, [1.0], [1.0]])
