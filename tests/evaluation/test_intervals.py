"""Simultaneous intervals of paired differences, against their definition, and how often they hold."""

import math

import numpy as np
import pytest

from perceptrank.evaluation.bootstrap import draw_sums, simultaneous_intervals
from perceptrank.evaluation.decision import decide
from perceptrank.evaluation.differences import differences
from perceptrank.evaluation.trace import Trace
from perceptrank.kernels.chance import noise
from perceptrank.measures import parse


def intervals(samples, weights=None, confidence=0.95, n_resamples=2000, seed=0):
    weights = [None] * len(samples) if weights is None else weights
    return simultaneous_intervals(samples, weights, confidence=confidence, n_resamples=n_resamples, seed=seed)


def drawn_rows(n, size, seed, number):
    """The rows of a resample, by splitmix64 in Python's integers."""
    mask, state, rows = 2**64 - 1, int(noise(seed, number, 0) * 2**53), []
    for _ in range(size):
        state = (state + 0x9E3779B97F4A7C15) & mask
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        rows.append(((mixed >> 32) * n) >> 32)
    return np.array(rows)


@pytest.mark.kernel
@pytest.mark.parametrize("weighted", [False, True])
def test_the_kernel_sums_the_rows_that_are_drawn(weighted):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(23, 2))
    values[rng.random((23, 2)) < 0.2] = np.nan
    weights = rng.random(23) if weighted else np.empty(0)
    sums = np.zeros((4, 5, 2))
    draw_sums(values, weights, 40, 7, 10, sums)
    for b in range(4):
        rows = drawn_rows(23, 40, 7, 10 + b)
        w = (weights if weighted else np.ones(23))[rows, None] * ~np.isnan(values[rows])
        x = np.nan_to_num(values[rows])
        expected = [w, w * x, w * w, w * w * x, (w * x) ** 2]
        np.testing.assert_allclose(sums[b], [one.sum(axis=0) for one in expected], rtol=1e-12, atol=1e-15)


def weighted_mean_and_error(x, w):
    """Mean and standard error by their definitions, document by document."""
    rows = [(a, b) for a, b in zip(x, w, strict=True) if a == a and b > 0]  # noqa: PLR0124
    total = sum(b for _, b in rows)
    mean = sum(a * b for a, b in rows) / total
    spread = sum(b**2 * (a - mean) ** 2 for a, b in rows)
    return mean, math.sqrt(spread * len(rows) / (len(rows) - 1)) / total


@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_are_those_of_the_definition(weighted):
    """Two samples of two columns: quantile of the largest studentised deviation over both, times standard errors."""
    rng = np.random.default_rng(5)
    samples = [rng.normal(0.1, 0.2, size=(n, 2)) for n in (40, 60)]
    samples[0][3:8, 1] = np.nan
    weights = [(2 + rng.random(40)) * (rng.random(40) < 0.9), rng.random(60)] if weighted else None
    used = weights or [np.ones(40), np.ones(60)]
    found = intervals(samples, weights, confidence=0.9, n_resamples=150, seed=4)
    largest = np.zeros(150)
    for s, (sample, w) in enumerate(zip(samples, used, strict=True)):
        for b in range(150):
            rows = drawn_rows(len(sample), len(sample), 4 + s, b)
            for k in range(2):
                mean, _ = weighted_mean_and_error(sample[:, k], w)
                own, error = weighted_mean_and_error(sample[rows, k], w[rows])
                counts = (~np.isnan(sample[rows, k]) & (w[rows] > 0)).sum()
                error *= math.sqrt(len(rows) / (len(rows) - 1) * (counts - 1) / counts)  # that of all rows drawn
                largest[b] = max(largest[b], abs(own - mean) / error)
    critical = np.sort(largest)[math.ceil(0.9 * 149)]
    np.testing.assert_allclose(found.critical, critical, rtol=1e-9)
    for s, (sample, w) in enumerate(zip(samples, used, strict=True)):
        for k in range(2):
            mean, error = weighted_mean_and_error(sample[:, k], w)
            assert found.mean[s, k] == pytest.approx(mean, rel=1e-12)
            assert found.error[s, k] == pytest.approx(error, rel=1e-9)
            assert found.low[s, k] == pytest.approx(mean - critical * error, rel=1e-9)
            assert found.high[s, k] == pytest.approx(mean + critical * error, rel=1e-9)


def test_equal_weights_are_no_weights():
    values = np.random.default_rng(0).normal(size=(50, 2))
    one, other = intervals([values]), intervals([values], [np.full(50, 3.0)])
    np.testing.assert_allclose(one.low, other.low, rtol=1e-9)
    np.testing.assert_allclose(one.high, other.high, rtol=1e-9)


def test_few_values_have_no_interval_and_do_not_widen_others():
    rng = np.random.default_rng(1)
    large, small = rng.normal(size=(100, 1)), rng.normal(size=(29, 1))
    found = intervals([large, small])
    assert np.isnan([found.low[1, 0], found.high[1, 0]]).all()
    assert found.low[0, 0] == intervals([large]).low[0, 0]
    skewed = np.concatenate([[1000.0], np.ones(99)])  # of which one counts for all
    assert np.isnan(intervals([large], [skewed]).low[0, 0])


def test_a_few_rows_that_are_not_zero_are_counted():
    """No difference in n queries: at most 3 in n could come, 1 - 0.05**(1/n) being a little less."""
    values = np.zeros((400, 1))
    found = intervals([values])
    assert found.high[0, 0] == -found.low[0, 0] == pytest.approx(-math.log(0.05) / 400, rel=1e-6)
    assert found.high[0, 0] > 1 - 0.05 ** (1 / 400)
    values[:2] = 1.0
    limit = 400 * intervals([values]).high[0, 0]
    assert math.exp(-limit) * (1 + limit + limit**2 / 2) == pytest.approx(0.05, rel=1e-6)


def test_large_samples_are_resampled_in_part_and_alike():
    rng = np.random.default_rng(2)
    values = rng.exponential(size=(40000, 1)) * (rng.random((40000, 1)) < 0.3)
    normal = 1.959964
    found = intervals([values])
    assert found.critical[0, 0] == pytest.approx(normal, abs=0.15)
    assert found.high[0, 0] - found.mean[0, 0] == pytest.approx(found.critical[0, 0] * found.error[0, 0])


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["normal", "skewed", "sparse", "weighted"])
def test_intervals_hold_as_often_as_they_say(kind):
    """Of three correlated columns in two samples, all at once; the draws are those of NDCG's differences and worse."""
    rng = np.random.default_rng()
    n_trials, missed = 400, 0
    for seed in range(n_trials):
        samples, weights, truths = [], [], []
        for n in (60, 250):
            common = rng.normal(size=(n, 1))
            x = 0.1 * (common + rng.normal(size=(n, 3))) + 0.02
            truth, own = 0.02, None
            if kind == "skewed":
                x = np.minimum(rng.exponential(0.1, size=(n, 3)), 1.0)
                truth = 0.1 * (1 - math.exp(-10))
            elif kind == "sparse":
                x = (rng.random((n, 3)) < 0.05) * np.where(rng.random((n, 3)) < 0.7, 0.5, -0.2)
                truth = 0.05 * (0.7 * 0.5 - 0.3 * 0.2)
            elif kind == "weighted":
                own = rng.random(n)
            samples.append(x)
            weights.append(own)
            truths.append(truth)
        found = intervals(samples, weights, n_resamples=500, seed=seed)
        missed += any(((found.low[s] > truth) | (found.high[s] < truth)).any() for s, truth in enumerate(truths))
    assert missed / n_trials < 0.05 + 0.015 + 3 * math.sqrt(0.05 * 0.95 / n_trials)


def share_of_verdicts(answer, gains, n_runs):
    """How often the verdict on a challenger whose gains over 0.7 are drawn is this one."""
    rng, measure, count = np.random.default_rng(1), parse("ndcg@10"), 0
    for run in range(n_runs):
        values = 0.7 + gains(rng)
        traces = {name: Trace({measure: row}, 0 * row) for name, row in (("now", 0 * values + 0.7), ("new", values))}
        rows = differences(traces, None, [measure], [np.ones(len(values), bool)], 0.95, run)[0]
        count += decide("now", rows, 0.0, 0.95).answer in answer
    return count / n_runs


@pytest.mark.deep
@pytest.mark.parametrize(("n", "least", "most"), [(200, 0.08, 0.17), (1000, 0.0, 0.03)])
def test_rare_disasters_may_be_missed(n, least, most):
    """Worse by .0005: a gain of .0045, but a loss of .5 in 1 % of queries; .99^200 = 13 % of samples have none."""

    def gains(rng):
        return np.where(rng.random(n) < 0.01, -0.5, 0.0045 / 0.99 + rng.normal(0, 0.01, n))

    assert least <= share_of_verdicts(("yes",), gains, 300) <= most


@pytest.mark.deep
@pytest.mark.parametrize(("times", "least", "most"), [(1, 0.02, 0.09), (2, 0.1, 0.25), (5, 0.28, 0.48)])
def test_repeated_queries_make_intervals_too_narrow(times, least, most):
    """200 queries of two equal models, each so many times: a verdict either way is wrong."""
    wrong = share_of_verdicts(("yes", "no"), lambda rng: np.repeat(rng.normal(0, 0.05, 200), times), 300)
    assert least <= wrong <= most
