import tracemalloc
import zipfile
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perceptrank as pr
from perceptrank import evaluation
from perceptrank.evaluation.plots import Chart, Series, draw


@pytest.fixture
def trace():
    nan = float("nan")
    return pr.Trace(
        {pr.NDCG(10): np.array([nan, 0.5, 1.0, nan]), pr.AP(): np.array([nan] * 4)}, np.array([0.0, 0.5, 0.0, 1.0])
    )


def test_means_leave_out_what_does_not_count(trace):
    assert trace.mean("ndcg@10") == trace.mean(pr.NDCG(10)) == 0.75
    assert np.isnan(trace.mean("ap"))
    np.testing.assert_array_equal(trace.running_mean("ndcg@10"), [np.nan, 0.5, 0.75, 0.75])
    assert trace.n_updates == 2
    assert len(trace) == 4
    assert "ndcg@10 0.7500" in repr(trace)
    assert trace.means()["ndcg@10"] == 0.75


def test_values_cannot_be_changed_from_outside(trace):
    trace.values("ndcg@10")[:] = 0
    assert trace.mean("ndcg@10") == 0.75


def test_a_measure_that_was_not_recorded(trace):
    with pytest.raises(KeyError, match="'ndcg@5' was not recorded; recorded: 'ndcg@10', 'ap'"):
        trace.mean("ndcg@5")


def test_windows(trace):
    np.testing.assert_array_equal(trace.window_mean("ndcg@10", 2), [np.nan, 0.5, 0.75, 1.0])
    np.testing.assert_array_equal(trace.window_mean("ndcg@10", 1), trace.values("ndcg@10"))
    np.testing.assert_array_equal(trace.window_mean("ndcg@10", 9), trace.running_mean("ndcg@10"))
    with pytest.raises(ValueError, match="size must be a whole number"):
        trace.window_mean("ndcg@10", 0)


def test_losses(trace):
    np.testing.assert_array_equal(trace.losses("ndcg@10"), [0, 0.5, 0, 0])
    np.testing.assert_array_equal(trace.cumulative_loss("ndcg@10"), [0, 0.5, 0.5, 0.5])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frame(trace, library):
    frame = trace.to_frame(library)
    assert type(frame).__module__.startswith(library)
    assert list(frame.columns) == ["round", "ndcg@10", "ap", "mass"]
    assert frame["round"].to_list() == [1, 2, 3, 4]
    assert frame["mass"].to_list() == [0.0, 0.5, 0.0, 1.0]


def test_saved_and_loaded(trace, tmp_path):
    measured = pr.ListwisePerceptron().learn(pr.separable(30).stream, [pr.NDCG(5, empty="one", ties="expected"), "ap"])
    for one in (trace, measured):
        one.save(tmp_path / "trace.npz")
        again = pr.Trace.load(tmp_path / "trace.npz")
        assert again.measures == one.measures
        np.testing.assert_array_equal(again.masses, one.masses)
        for measure in one.measures:
            np.testing.assert_array_equal(again.values(measure), one.values(measure))
    assert [path.name for path in tmp_path.iterdir()] == ["trace.npz"]


def test_files_that_are_no_traces(tmp_path):
    with pytest.raises(FileNotFoundError):
        pr.Trace.load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        pr.Trace.load(tmp_path)
    path = tmp_path / "x.npz"
    for content in (b"", b"text", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(pr.FormatError, match="not a trace"):
            pr.Trace.load(path)
    for arrays in (
        {},
        {"a": np.ones(2)},
        {"masses": np.ones(2), "ap": np.ones(3)},
        {"masses": np.ones(2), "x": np.ones(2)},
        {"masses": np.ones((2, 1))},
        {"masses": np.ones(2, np.float32)},
        {"masses": np.array([object()])},
    ):
        np.savez(path, **arrays)
        with pytest.raises(pr.FormatError, match="not a trace"):
            pr.Trace.load(path)


def test_every_damaged_byte_is_noticed_or_harmless(trace, tmp_path):
    """zlib.error, NotImplementedError, RuntimeError and others came through; a checksum covers the values."""
    path = tmp_path / "x.npz"
    for save in (
        trace.save,
        lambda path: np.savez(path, **{"ndcg@10": trace.values("ndcg@10"), "masses": trace.masses}),
    ):
        save(path)
        whole = path.read_bytes()
        for i in range(0, len(whole), 3):
            path.write_bytes(whole[:i] + bytes([whole[i] ^ (1 << i % 8)]) + whole[i + 1 :])
            try:
                found = pr.Trace.load(path)
            except pr.FormatError as error:
                assert str(path) in str(error)  # noqa: PT017
            else:
                np.testing.assert_array_equal(found.masses, trace.masses)


def test_a_small_file_cannot_take_much_memory(tmp_path, monkeypatch):
    """Nor can a header that declares more than there is."""
    monkeypatch.setattr(evaluation.trace, "_LEAST_LIMIT", 2**20)
    path = tmp_path / "x.npz"
    np.savez_compressed(path, masses=np.zeros(2**20))
    tracemalloc.start()
    try:
        with pytest.raises(pr.FormatError, match=r"8388736 bytes .*the limit of 1048576; .*`max_bytes=8388736` reads"):
            pr.Trace.load(path)
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (400000000,), }".ljust(117) + b"\n"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("masses.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
        with pytest.raises(pr.FormatError, match="an array of 400000000 numbers does not take 128 bytes"):
            pr.Trace.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_limit_can_be_set(trace, tmp_path):
    trace.save(tmp_path / "x.npz")
    with pytest.raises(pr.FormatError, match="limit of 10"):
        pr.Trace.load(tmp_path / "x.npz", max_bytes=10)
    assert len(pr.Trace.load(tmp_path / "x.npz", max_bytes=1000)) == 4
    with pytest.raises(ValueError, match="max_bytes must be a whole number > 0"):
        pr.Trace.load(tmp_path / "x.npz", max_bytes=0)


def test_concatenation(trace):
    both = pr.Trace.concatenate([trace, trace])
    assert len(both) == 8
    assert both.mean("ndcg@10") == 0.75
    with pytest.raises(ValueError, match="same measures"):
        pr.Trace.concatenate([trace, pr.Trace({}, np.zeros(1))])
    with pytest.raises(ValueError, match="at least one"):
        pr.Trace.concatenate([])


def test_names_in_a_plot_may_have_any_characters(tmp_path):
    pytest.importorskip("matplotlib")
    one = np.ones(3)
    for suffix in ("svg", "png", "pdf"):
        chart = Chart("c", "a\x1b$b\udcff", "x\x00", "y\x07", [Series("s\x1b\ufffe", one, one)], about="\x1b\udcff")
        draw(chart, tmp_path / f"a.{suffix}")
    ElementTree.parse(tmp_path / "a.svg")


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot(trace, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curve.{suffix}"
    trace.plot(path, ["ndcg@10"])
    assert path.stat().st_size > 1000


def test_evaluate_does_not_learn():
    data = pr.separable(50, seed=1)
    ranker = pr.ListwisePerceptron()
    ranker.learn(data.stream[:40])
    before = ranker.coef_
    result = pr.evaluate(ranker, data.stream[40:], ["ndcg@10", "ap"])
    assert np.array_equal(ranker.coef_, before)
    assert result.mean("ap") > 0.9
    in_blocks = pr.evaluate(ranker, data.stream[40:].blocks(1), ["ndcg@10:ties=random"])
    assert in_blocks.mean("ndcg@10:ties=random") == pytest.approx(result.mean("ndcg@10"))
    assert pr.evaluate(ranker, data.stream[40:], "ap").mean("ap") == result.mean("ap")
    for empty in (data.stream[:0], []):
        with pytest.raises(ValueError, match="no queries"):
            pr.evaluate(ranker, empty, "ap")


# Risk


def test_a_risk_bound_by_hand(trace):
    """Two rounds count, with losses of 1/2 and 0; weights of 3 and 1 make a mean of 3/8, and of squares 10/16."""
    assert trace.risk_bound(1 - np.exp(-1 / 4)) == pytest.approx(1 / 4 + np.sqrt(1 / 16))
    assert trace.risk_bound(1 - np.exp(-1 / 4), "ndcg@10") == trace.risk_bound(1 - np.exp(-1 / 4))
    assert trace.risk_bound(0.99) == 1.0
    assert np.isnan(trace.risk_bound(0.9, "ap"))
    values = {pr.NDCG(10): np.array([1.0, 0.5, 1.0, np.nan])}
    weighted = pr.Trace(values, np.zeros(4), np.array([0.0, 3.0, 1.0, 5.0]))
    assert weighted.risk_bound(1 - np.exp(-1 / 5)) == pytest.approx(3 / 8 + np.sqrt(1 / 10 * 10 / 16))


@pytest.mark.parametrize("wrong", [0, 1, 1.5, -0.1, "0.9", None, True, float("nan")])
def test_confidences_are_between_0_and_1(trace, wrong):
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        trace.risk_bound(wrong)


def test_a_risk_bound_needs_a_measure(trace):
    with pytest.raises(ValueError, match="no measure was recorded"):
        pr.Trace({}, np.zeros(3)).risk_bound()
    with pytest.raises(KeyError, match="was not recorded"):
        trace.risk_bound(0.9, "err")


def misses(n_runs, n_rounds, confidence, pick, seed=0):
    """How often the mean risk of rankers that `pick` chooses, knowing the past, is above the bound."""
    rng = np.random.default_rng(seed)
    missed = 0
    for _ in range(n_runs):
        losses = (rng.random((6, 9)) < rng.random((6, 1))).astype(float)  # of six rankers on nine queries
        risks, past, values, risk = losses.mean(axis=1), np.zeros(6), [], 0.0
        for _ in range(n_rounds):
            ranker = pick(past, values, risks)
            query = rng.integers(9)
            risk += risks[ranker] / n_rounds
            values.append(1 - losses[ranker, query])
            past += losses[:, query]
        trace = pr.Trace({pr.NDCG(10): np.array(values)}, np.zeros(n_rounds))
        missed += risk > trace.risk_bound(confidence) + 1e-9
    return missed / n_runs


PICKS = {
    "leader": lambda past, values, risks: int(past.argmin()),
    "worst so far": lambda past, values, risks: int(past.argmax()),
    "half": lambda past, values, risks: int(np.abs(risks - 0.5).argmin()),
    # Who has been lucky goes on with sure things, who has not gambles on.
    "stop while lucky": lambda past, values, risks: int(
        risks.argmin() if sum(values) > 0.6 * len(values) + 1 else np.abs(risks - 0.5).argmin()
    ),
}


@pytest.mark.parametrize("pick", PICKS)
def test_risk_bounds_hold_as_often_as_they_say(pick):
    assert misses(150, 40, 0.8, PICKS[pick]) <= 0.2 + 0.05


@given(
    risks=st.lists(st.sampled_from([0.0, 0.02, 0.3, 0.9, 1.0]), min_size=8, max_size=8),
    others=st.lists(st.sampled_from([0.0, 0.05, 0.5, 1.0]), min_size=8, max_size=8),
    weights=st.lists(st.sampled_from([0.1, 1.0, 3.0]), min_size=8, max_size=8),
    confidence=st.sampled_from([0.1, 0.5, 0.9]),
)
def test_risk_bounds_at_all_times_are_broken_as_rarely_as_they_say(risks, others, weights, confidence):
    """The chance that it is ever broken, over all outcomes, for rankers that are chosen after what was lost."""
    ndcg, weights = pr.parse("ndcg"), np.array(weights)

    def broken(losses, total):
        t = len(losses)
        if t:
            values = {ndcg: 1 - np.array(losses)}
            bound = pr.Trace(values, np.zeros(t), weights[:t]).risk_bound(confidence, at_all_times=True)
            if total > bound * weights[:t].sum() * (1 + 1e-12) + 1e-12:
                return 1.0
        if t == 5:
            return 0.0
        risk = others[t] if sum(losses) % 2 else risks[t]
        after = total + weights[t] * risk
        return sum(chance * broken([*losses, one], after) for one, chance in ((1.0, risk), (0.0, 1 - risk)) if chance)

    assert broken([], 0.0) <= 1 - confidence + 1e-12


def test_a_risk_bound_at_all_times_by_hand():
    """It is the smallest over the rates, and of the order of 1 / T where nothing is lost."""
    values = np.array([1.0, 0.5, np.nan, 1.0])
    bound = pr.Trace({pr.parse("ndcg"): values}, np.zeros(4)).risk_bound(0.9, at_all_times=True)
    rates = [2.0 ** (1 - k) for k in range(40)]
    sums = [(rate * 0.5 + np.log((k + 1) * (k + 2) / 0.1)) / (1 - np.exp(-rate)) for k, rate in enumerate(rates)]
    assert bound == pytest.approx(min(1.0, min(sums) / 3))
    faultless = pr.Trace({pr.parse("ndcg"): np.ones(10_000)}, np.zeros(10_000))
    assert faultless.risk_bound(0.95, at_all_times=True) == pytest.approx(np.log(40) / (1 - np.exp(-2)) / 10_000)


@pytest.mark.deep
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("pick", PICKS)
def test_risk_bounds_hold_as_often_as_they_say_in_many_runs(pick, confidence):
    n = 2000
    assert misses(n, 100, confidence, PICKS[pick], seed=1) <= 1 - confidence + 3 * np.sqrt(0.25 / n)


@pytest.mark.deep
def test_risk_bounds_of_a_learner_hold_as_often_as_they_say():
    """Queries drawn from a set of twelve, on which every ranker's risk is known exactly."""
    rng = np.random.default_rng(0)
    X, grades = rng.normal(size=(12, 5, 4)), rng.integers(0, 3, size=(12, 5))
    grades[:, 0] = 2
    everything = pr.QueryStream.from_arrays(X.reshape(-1, 4), grades.ravel(), group=[5] * 12)
    missed = 0
    for _ in range(150):
        learner, values, risks = pr.ListwisePerceptron(transforms=None), [], []
        for query in rng.integers(12, size=30):
            scores = learner.predict(everything.X) if learner.n_rounds else np.zeros(60)
            found = pr.parse("ndcg").per_query(scores, everything.relevance, everything.offsets, 0)
            risks.append(1 - found.mean())
            values.append(found[query])
            learner.learn_one(X[query], grades[query])
        trace = pr.Trace({pr.parse("ndcg"): np.array(values)}, np.zeros(30))
        missed += np.mean(risks) > trace.risk_bound(0.8)
    assert missed <= 0.2 * 150
