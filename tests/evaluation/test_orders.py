"""Comparisons over orders: each order is a pass of its own, marks are right, and tables say what was found."""

import csv
import re

import numpy as np
import pytest

import perceptrank as pr

STREAM = pr.separable(160, n_documents=8, n_features=5, label_noise=0.3, seed=4).stream
TRAIN, TEST = STREAM[:100], STREAM[100:]
MEASURES = ["ndcg@10", "ap"]


def learners():
    return {"list_wise": pr.ListwisePerceptron(), "slam": pr.SlamPerceptron(), "minimax": pr.MinimaxPerceptron()}


@pytest.fixture(scope="module")
def result():
    return pr.compare(learners(), TRAIN, MEASURES, test=TEST, orders=3, seed=5)


def made(values, weights=None, n_measures=1):
    """A comparison of given values, learners x orders x queries."""
    measures = [pr.parse(name) for name in MEASURES[:n_measures]]
    values = np.asarray(values, dtype=float)
    orders = [np.random.default_rng(seed).permutation(values.shape[2]) for seed in range(values.shape[1])]
    traces = [
        {
            f"l{i}": pr.Trace(
                dict.fromkeys(measures, own[k][order]),
                np.zeros(len(order)),
                None if weights is None else weights[order],
            )
            for i, own in enumerate(values)
        }
        for k, order in enumerate(orders)
    ]
    return pr.Comparison(traces, seeds=range(len(orders)))


def test_every_order_is_a_pass_of_its_own(result):
    for k, seed in enumerate([5, 6, 7]):
        alone = learners()
        traces = pr.compare(alone, TRAIN.shuffled(seed), MEASURES).traces
        for measure in MEASURES:
            for on, found in (
                ("progressive", {name: trace.mean(measure) for name, trace in traces.items()}),
                ("test", {name: pr.evaluate(one, TEST, measure).mean(measure) for name, one in alone.items()}),
            ):
                standings = {one.name: one for one in result.standings(measure, on)}
                for name, mean in found.items():
                    assert standings[name].per_order[k] == pytest.approx(mean, rel=1e-12), (measure, on)
        curves = result.curves("ap")
        for name, trace in traces.items():
            assert np.array_equal(curves[name][k], trace.running_mean("ap")[result.points - 1], equal_nan=True)
    for one in result.standings("ap"):
        assert one.mean == pytest.approx(np.mean(one.per_order))
        assert one.spread == pytest.approx(np.std(one.per_order, ddof=1))
        assert one.low < one.mean < one.high
    assert repr(result) == "Comparison(3 learners, 3 orders of 100 queries, 60 held out)"


def test_learners_stay_as_they_are_and_threads_and_blocks_change_nothing(result, tmp_path):
    given = learners()
    blocks = [TRAIN[:33], TRAIN[33:]]
    again = pr.compare(given, blocks, MEASURES, test=iter([TEST[:7], TEST[7:]]), orders=[5, 6, 7], n_threads=1)
    assert again.as_plain() == result.as_plain()
    assert all(learner.n_queries == 0 for learner in given.values())
    pr.write_store(TRAIN, tmp_path / "s.store")
    stored = pr.compare(learners(), pr.open_store(tmp_path / "s.store"), MEASURES, test=TEST, orders=3, seed=5)
    assert stored.as_plain() == result.as_plain()


def test_pieces_of_an_order_are_the_order(monkeypatch, result):
    monkeypatch.setattr("perceptrank.evaluation.comparing.BLOCK_BYTES", 1000)
    again = pr.compare(learners(), TRAIN, MEASURES, test=TEST, orders=3, seed=5)
    assert again.as_plain() == result.as_plain()


def test_a_difference_in_all_orders_and_queries_is_marked():
    rng = np.random.default_rng(0)
    difficulty = rng.uniform(0.2, 0.8, size=200)
    values = difficulty + rng.normal(scale=0.02, size=(3, 5, 200)) + np.array([0.0, 0.1, 0.1])[:, None, None]
    standings = {one.name: one for one in made(values).standings()}
    assert standings["l1"].beats == standings["l2"].beats == ("l0",)
    assert standings["l0"].beats == ()
    differences = {(one.better, one.worse): one for one in made(values).differences()}
    assert len(differences) == 3
    for (better, worse), one in differences.items():
        assert one.difference == pytest.approx(standings[better].mean - standings[worse].mean)
        assert one.low <= one.difference <= one.high
        assert one.is_significant == (one.low > 0) == (worse in standings[better].beats)


def test_what_depends_on_the_order_is_not_marked():
    """A learner that is better in six of ten orders, for all queries alike, may be worse in the next ten."""
    rng = np.random.default_rng(1)
    shift = np.where(np.arange(10) < 6, 0.3, -0.3)[:, None]
    noise = rng.normal(scale=0.01, size=(2, 10, 400))
    values = 0.5 + noise + np.stack([shift, np.zeros_like(shift)])
    best, other = made(values).standings()
    assert (best.name, best.beats, other.beats) == ("l0", (), ())
    assert best.mean - other.mean > 0.05
    one_order = made(values[:, :1])
    assert one_order.standings()[0].beats == ("l1",)
    assert one_order.standings()[0].spread is None


def test_weights_left_out_queries_and_few_queries():
    rng = np.random.default_rng(2)
    values = rng.uniform(size=(2, 3, 60))
    values[0, 1, 7] = np.nan
    weights = rng.integers(0, 5, size=60).astype(float)
    counted = np.delete(np.arange(60), 7)
    for one in made(values, weights).standings():
        i = int(one.name[1])
        expected = [np.average(values[i, r, counted], weights=weights[counted]) for r in range(3)]
        np.testing.assert_allclose(one.per_order, expected, rtol=1e-12)
    few = made(values[:, :, :20] + np.array([0, 9])[:, None, None])
    assert np.isnan(few.standings()[0].low)
    assert all(one.beats == () for one in few.standings())
    with pytest.raises(ValueError, match="leaves out all"):
        made(np.full((2, 2, 40), np.nan)).standings()


@pytest.mark.deep
@pytest.mark.parametrize(("n_orders", "due_to_orders"), [(3, 0.02), (3, 0.1), (10, 0.0), (10, 0.02), (10, 0.1)])
def test_learners_that_are_alike_are_seldom_marked(n_orders, due_to_orders):
    """Four learners whose orders and queries vary, all with the same mean: marks in at most about one table of 20."""
    rng = np.random.default_rng(3)
    wrong, n = 0, 200
    for _ in range(n):
        shape = (4, n_orders, 80)
        values = (
            rng.normal(scale=0.1, size=(1, 1, 80))
            + rng.normal(scale=0.05, size=(4, 1, 80))
            + rng.normal(scale=due_to_orders, size=(4, n_orders, 1))
            + rng.normal(scale=0.05, size=shape)
        )
        wrong += any(one.beats for one in made(values).standings(n_resamples=500))
    assert wrong <= 0.09 * n


def test_csv_has_every_order(result, tmp_path):
    result.save_csv(tmp_path / "t.csv")
    with open(tmp_path / "t.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 2 * 2
    letters = result.letters
    for row in rows:
        (one,) = [each for each in result.standings(row["measure"], row["set"]) if each.name == row["name"]]
        assert float(row["mean"]) == one.mean
        assert [float(row[f"seed {seed}"]) for seed in (5, 6, 7)] == list(one.per_order)
        assert row["beats"].split() == [letters[name] for name in one.beats]
        assert row["letter"] == letters[row["name"]]


def test_latex_has_the_best_bold_and_letters_of_the_beaten(result, tmp_path):
    result.save_latex(tmp_path / "t.tex")
    text = (tmp_path / "t.tex").read_text()
    for word in (r"\toprule", r"\midrule", r"\bottomrule", r"\cmidrule(lr){3-4} \cmidrule(lr){5-6}", "60 held-out"):
        assert word in text
    assert r"list\_wise" in text
    lines = [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if re.match(r"[a-c] & ", line)]
    assert [line[0] for line in lines] == ["a", "b", "c"]
    columns = [(on, measure) for on in ("test", "progressive") for measure in MEASURES]
    for k, (on, measure) in enumerate(columns):
        standings = result.standings(measure, on)
        for one in standings:
            (cell,) = [line[2 + k] for line in lines if line[0] == one.letter]
            mean = f"{one.mean:.4f}"
            marks = "".join(result.letters[name] for name in one.beats)
            raised = rf"$^{{\mathrm{{{marks}}}}}$" if marks else ""
            start = rf"\textbf{{{mean}}}" if mean == f"{standings[0].mean:.4f}" else mean
            assert cell == rf"{start}{raised} {{\scriptsize$\pm$ {one.spread:.4f}}}"
    assert any("mathrm" in line[2] for line in lines)
    assert text.count(r"\textbf") == 4


def test_names_mean_nothing_to_latex(tmp_path):
    found = pr.compare({"<a|b>\n & c": pr.SlamPerceptron()}, TRAIN[:20], orders=1)
    found.save_latex(tmp_path / "t.tex")
    assert r"a & \textless{}a\textbar{}b\textgreater{} \& c & " in (tmp_path / "t.tex").read_text()


def test_latex_says_what_counts_and_fits(tmp_path):
    X = np.arange(160.0).reshape(80, 2) % 7
    grades = np.where(np.arange(80) < 60, np.arange(80) % 2, 0)  # the last ten queries have no relevant documents
    stream = pr.QueryStream.from_arrays(X, grades, group=[2] * 40)
    learners = {"a": pr.SlamPerceptron(), "same": pr.SlamPerceptron()}

    def latex(measures, **settings):
        pr.compare(learners, stream, measures, orders=2, **settings).save_latex(tmp_path / "t.tex")
        return (tmp_path / "t.tex").read_text()

    text = latex(["ndcg@10", "ap"])
    assert r"\begin{table}" in text
    assert text.count("30 queries of the orders count") == 1
    assert "NDCG@10 & AP" in text
    assert text.count(r"\textbf") == 4  # means that are printed alike are both the best
    text = latex(["ndcg@10", "trec_eval:ap", "ndcg@10:empty=one"], test=stream)
    assert r"\begin{table*}" in text
    assert r"\end{table*}" in text
    assert "NDCG@10: 30 held-out queries and 30 queries of the orders count" in text
    assert " & NDCG@10:empty=one & " in text  # two columns of one name say how they differ
    assert "AP: " not in latex(["ndcg@10:empty=one", "ap:empty=zero"]).partition("AP: empty=zero.")[0]


def test_the_figure_is_as_wide_as_a_column_and_names_nine(tmp_path):
    pytest.importorskip("matplotlib")
    several = {f"slam {rate:g}": pr.SlamPerceptron(learning_rate=rate) for rate in np.geomspace(1e-3, 1, 12)}
    found = pr.compare(several, TRAIN[:40], orders=2)
    found.plot(tmp_path / "c.pdf")
    found.plot(tmp_path / "c.svg")
    content = (tmp_path / "c.pdf").read_bytes()
    assert b"/Type3" not in content
    assert b"/CIDFontType2" in content
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", content)
    assert float(box[1]) == pytest.approx(3.35 * 72, abs=1)
    drawn = (tmp_path / "c.svg").read_text()
    assert "3 others" in drawn
    shown = [name for name in several if f">{name}  " in drawn]
    assert len(shown) == 9
    assert set(shown) == set(list(found.letters)[:9])
    again = tmp_path / "again.pdf"
    found.plot(again)
    assert again.read_bytes() == content


def test_a_learner_that_fails_in_an_order_is_left_out():
    class Fails(pr.SlamPerceptron):
        """Fails at one query, wherever that comes."""

        def learn(self, stream, measures=None):
            if 3 in stream.qids[:50]:
                raise ValueError("no")
            return super().learn(stream, measures)

    both = {"good": pr.SlamPerceptron(), "bad": Fails()}
    found = pr.compare(both, TRAIN, test=TEST, orders=2, on_error="drop")
    assert found.names == ["good"]
    assert re.fullmatch(r"no \(order [01]\)", found.dropped["bad"])
    assert found.standings()[0].beats == ()
    with pytest.raises(ValueError, match="bad: no"):
        pr.compare(both, TRAIN, test=TEST, orders=2)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"orders": 0}, ValueError, "orders must be"),
        ({"orders": []}, ValueError, "orders must be"),
        ({"orders": [1, 1]}, ValueError, "all different"),
        ({"orders": "12"}, ValueError, "orders must be"),
        ({"orders": [-1]}, ValueError, "seed"),
        ({"seed": -1}, ValueError, "seed"),
        ({"measures": []}, ValueError, "at least one measure"),
        ({"test": []}, ValueError, "no queries"),
        ({"on_error": "skip"}, ValueError, "on_error"),
    ],
)
def test_wrong_arguments(wrong, error, message):
    with pytest.raises(error, match=message):
        pr.compare([pr.SlamPerceptron()], TRAIN[:5], **{"orders": 1} | wrong)


def test_what_was_not_recorded(result):
    with pytest.raises(KeyError, match="was not recorded"):
        result.standings("rr")
    with pytest.raises(ValueError, match="on must be one of 'test', 'progressive'"):
        result.standings("ap", "train")
    assert made(np.zeros((2, 2, 40))).sets == ["progressive"]
