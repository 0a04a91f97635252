"""Alarms when losses rise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr
from perceptrank.evaluation import changes

CELLS = changes.N_CELLS


def weight_of(s):
    """The weight of a change after s values: all of them add up to 1."""
    j = int(np.floor(np.log2(s)))
    power = s & -s
    powers = sum(t & -t for t in range(2**j, 2 ** (j + 1)))
    return power / powers / ((j + 1) * (j + 2))


def evidence_by_definition(losses, tolerance):
    """The mean over s of the smallest wealth over cells, after each loss, for those s whose time is not over."""
    losses, found = np.asarray(losses, dtype=float), []
    low, high = np.arange(CELLS) / CELLS, (np.arange(CELLS) + 1) / CELLS + tolerance
    before = []  # factors of those who bet on less, value by value
    means, variances = [], []
    for n, x in enumerate(losses):
        mean = (losses[:n].sum() + 0.5) / (n + 1)
        variance = max(((losses[:n] ** 2).sum() + 0.5) / (n + 1) - mean**2, 1e-4)
        ahead = np.maximum(low - mean, 0)
        before.append(1 - np.minimum(ahead / (variance + ahead**2), 0.9 / (1 - low)) * (x - low))
        means.append(mean)
        variances.append(variance)
        evidence = 0.0
        for s in range(1, n + 1):
            if n - s >= 8 * (s & -s):
                continue
            wealth = weight_of(s) * np.prod(before[:s], axis=0)
            for t in range(s, n + 1):
                expected = (losses[s:t].sum() + means[t]) / (t - s + 1)
                ahead = np.maximum(expected - high, 0)
                wealth = wealth * (1 + np.minimum(ahead / (variances[t] + ahead**2), 0.9 / high) * (losses[t] - high))
            evidence += wealth.min()
        found.append(evidence)
    return found


@pytest.mark.kernel
@given(seed=st.integers(0, 10**6), tolerance=st.sampled_from([0.0, 0.1]), rise=st.sampled_from([0.0, 0.3, 0.6]))
def test_the_test_is_what_its_definition_says(seed, tolerance, rise):
    rng = np.random.default_rng(seed)
    losses = np.clip(rng.beta(2, 4, size=25) * 0.5 + rise * (np.arange(25) >= rng.integers(1, 20)), 0, 1)
    expected = evidence_by_definition(losses, tolerance)
    threshold = expected[rng.integers(2, 25)] * (1 - 1e-9)
    first = next(n for n, one in enumerate(expected) if one >= threshold)
    assert changes.watch(threshold, tolerance, losses, 0, changes._start()) == first
    assert changes.watch(max(expected) * (1 + 1e-9), tolerance, losses, 0, changes._start()) == 25


def test_the_weights_of_all_changes_add_up_to_one():
    assert sum(weight_of(s) for s in range(1, 2**10)) == pytest.approx(sum(1 / ((j + 1) * (j + 2)) for j in range(10)))
    assert sum(1 / ((j + 1) * (j + 2)) for j in range(100_000)) < 1


def losses_of(kind, rng, n):
    """Losses that do not rise by more than 0.1, the tolerance of the test of false alarms."""
    if kind == "coin":
        return (rng.random(n) < 0.4).astype(float)
    if kind == "beta":
        return rng.beta(2, 4, size=n)
    if kind == "falling":
        return rng.beta(2, 4, size=n) * (0.5 + 0.5 / np.sqrt(1 + np.arange(n) / 20))
    if kind == "waves":  # within the tolerance
        return rng.beta(2, 4, size=n) + 0.05 * np.sin(np.arange(n) / 30) + 0.05
    return 0.3 + 0.1 * (rng.random(n) < 0.5)  # a narrow range


KINDS = ["coin", "beta", "falling", "waves", "narrow"]


def share_of_alarms(kind, n_streams, n, probability, tolerance, seed=0):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    found = [
        bool(pr.ChangeDetector(probability, tolerance=tolerance).add_all(np.clip(losses_of(kind, rng, n), 0, 1)))
        for _ in range(n_streams)
    ]
    return float(np.mean(found))


@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_are_as_rare_as_promised(kind):
    """With a probability of 1/2, so that a test that promised too much would be seen to; fewer is as it should be."""
    assert share_of_alarms(kind, 60, 300, 0.5, 0.1 if kind == "waves" else 0.0) <= 0.5 + 2.5 * 0.5 / np.sqrt(60)


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("probability", [0.05, 0.5])
def test_false_alarms_are_as_rare_as_promised_in_long_streams(kind, probability):
    share = share_of_alarms(kind, 300, 3000, probability, 0.1 if kind == "waves" else 0.0, seed=1)
    print(f"{kind}, promised {probability}: {share:.3f}")
    assert share <= probability + 3 * np.sqrt(probability * (1 - probability) / 300)


def test_the_mean_of_the_wealth_is_at_most_one():
    """What the promise rests on, at the worst: losses of one mean, all of it on 0 and 1, and no tolerance."""
    rng = np.random.default_rng(3)
    ends = []
    for _ in range(400):
        detector = pr.ChangeDetector(1e-9, tolerance=0.0)
        detector.add_all((rng.random(60) < 0.5).astype(float))
        counts, _, _, wealth = detector._state
        ends.append(wealth[: int(counts[changes.ALIVE])].min(axis=1).sum())
    assert np.mean(ends) <= 1


@pytest.mark.parametrize(("rise", "longest"), [(0.1, 700), (0.2, 150), (0.4, 60)])
def test_changes_are_found_soon(rise, longest):
    """Beta losses of standard deviation 0.18 that rise after 1,000 values; delays are medians of ten streams."""
    rng = np.random.default_rng(5)
    delays, starts = [], []
    for _ in range(10):
        losses = np.clip(rng.beta(2, 4, size=2500) + rise * (np.arange(2500) >= 1000), 0, 1)
        found = pr.ChangeDetector().add_all(losses)
        assert len(found) == 1  # it begins anew, and nothing rises again
        delays.append(found[0].alarm - 1000)
        starts.append(abs(found[0].since - 1000))
        assert found[0].before == pytest.approx(1 / 3, abs=0.03)
        assert found[0].after - found[0].before == pytest.approx(rise, abs=0.12)
    assert 0 < np.median(delays) < longest
    assert np.median(starts) < longest / 2


def test_falling_losses_raise_no_alarm():
    rng = np.random.default_rng(0)
    losses = np.concatenate([rng.beta(4, 2, size=2000), rng.beta(2, 4, size=2000)])
    assert pr.ChangeDetector().add_all(losses) == []
    assert [one.alarm > 2000 for one in pr.ChangeDetector().add_all(losses[::-1])] == [True]


@given(cuts=st.lists(st.integers(0, 400), max_size=4), seed=st.integers(0, 99))
def test_how_losses_are_cut_makes_no_difference(cuts, seed):
    rng = np.random.default_rng(seed)
    losses = rng.beta(np.repeat([2, 6, 2, 6], 100), 4)
    losses[rng.random(400) < 0.1] = np.nan
    whole, single, parts = pr.ChangeDetector(0.1), pr.ChangeDetector(0.1), pr.ChangeDetector(0.1)
    expected = whole.add_all(losses)
    assert [found for loss in losses if (found := single.add(loss))] == expected
    found = []
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), 400], strict=True):
        found += parts.add_all(losses[first:last])
    assert found == expected
    assert whole.n_values == single.n_values == parts.n_values == 400


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: pr.ChangeDetector(0), "false_alarms must be between 0 and 1, got 0"),
        (lambda: pr.ChangeDetector(tolerance=1), "tolerance must be at least 0 and less than 1, got 1"),
        (lambda: pr.ChangeDetector().add(1.5), "losses must be .* got 1.5"),
        (lambda: pr.ChangeDetector().add_all([[0.1]]), r"losses must be .* got shape \(1, 1\)"),
    ],
)
def test_wrong_arguments(call, problem):
    with pytest.raises(ValueError, match=problem):
        call()


def drifted():
    return pr.ListwisePerceptron().learn(
        pr.drifting(1500, period=1000, n_documents=10, n_features=5, seed=2), ["ndcg", "ap"]
    )


def test_changes_of_a_trace():
    trace = drifted()
    found = trace.changes()
    assert [1000 <= one.alarm < 1150 for one in found] == [True]
    assert abs(found[0].since - 1000) < 60
    assert trace.changes("ndcg") == found
    assert trace[:1000].changes("ap") == []
    assert "alarm at query 1," in str(found[0])
    left_out = pr.Trace({pr.parse("ndcg"): trace.values("ndcg")}, trace.masses, (np.arange(1500) < 1000).astype(float))
    assert left_out.changes() == []
    with pytest.raises(KeyError, match="was not recorded"):
        trace.changes("err")


def test_a_plot_marks_alarms(tmp_path):
    pytest.importorskip("matplotlib")
    trace = drifted()
    trace.plot(tmp_path / "plain.svg", window=50)
    trace.plot(tmp_path / "marked.svg", window=50, changes=trace.changes())
    plain, marked = ((tmp_path / f"{name}.svg").read_text() for name in ("plain", "marked"))
    assert "alarm" in marked
    assert "alarm" not in plain
    assert "mean of 50 queries" in plain
