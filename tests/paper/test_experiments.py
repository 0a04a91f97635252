"""The experiments against plain loops, and what must come out of them whatever the seed."""

import os
from dataclasses import replace
from html import escape
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import perceptrank as pr
from perceptrank.cli.reproduce import _rows
from perceptrank.evaluation.plots import three_digits
from perceptrank.paper.contenders import CONTENDERS, LAST_ITERATE, MEASURES, RATES, Run
from perceptrank.paper.curves import running_mean_chart, running_means
from perceptrank.paper.real_sets import RealSet, find_sets, real_source
from perceptrank.paper.report.findings import _on_bounds, _on_losses
from perceptrank.paper.report.page import make_page
from perceptrank.paper.reproduction import Settings, reproduce
from perceptrank.paper.results import as_plain
from perceptrank.paper.simulated import MARGIN, MEASURE, run_simulated, simulated_source
from perceptrank.paper.trials import Source, first_tenth, run_trials, tune


@pytest.fixture(scope="module")
def noisy():
    """Trials on a small noisy stream, some of whose queries have no relevant document, shown twice."""
    stream = pr.separable(60, n_documents=6, n_features=5, n_grades=3, label_noise=0.3, seed=5).stream
    grades = stream.relevance.copy()
    grades[: 6 * 4] = 0
    stream = pr.QueryStream.from_arrays(stream.X, grades, group=[6] * 60)
    source = Source("noisy", "", lambda seed: stream, 60, passes=2, transform="running")
    return run_trials(source, [3, 4])


def shown(source, seed):
    """The blocks of a trial, put together anew."""
    return pr.QueryStream.concatenate(list(source.blocks(seed)))


@pytest.mark.parametrize("name", sorted(CONTENDERS))
def test_trials_are_what_each_learner_does_alone(noisy, name):
    stream = shown(noisy.source, 4)
    for measure in MEASURES:
        learner = CONTENDERS[name].make(measure, RATES[2])
        alone = learner.learn(stream, measure).values(measure)
        np.testing.assert_array_equal(noisy.values[Run(name, measure, RATES[2])][1], alone)


def test_a_trial_shows_every_query_once_a_pass_in_another_order(noisy):
    stream = shown(noisy.source, 3)
    first, second = stream.qids[:60], stream.qids[60:]
    assert sorted(first) == sorted(second) == sorted(noisy.source.draw(0).qids)
    assert list(first) != list(second)


def test_transforms_are_those_of_a_learner_that_has_them(noisy):
    plain = Source("", "", noisy.source.draw, 60, passes=2)
    expected = pr.ListwisePerceptron(transforms="running").learn(plain.blocks(3), "ndcg@10").values("ndcg@10")
    np.testing.assert_array_equal(noisy.values[Run("listwise", "ndcg@10", 1.0)][0], expected)


def test_tuning_against_loops(noisy):
    for measure in MEASURES:
        for one in tune(noisy, measure):
            runs = [Run(one.contender.name, measure, rate) for rate in (RATES if one.contender.has_rate else [1.0])]
            tables = {run.rate: noisy.values[run] for run in runs}
            whole = {rate: np.mean([np.mean(row[~np.isnan(row)]) for row in rows]) for rate, rows in tables.items()}
            best = max(whole, key=whole.get)
            assert one.whole.mean() == pytest.approx(whole[best])
            assert first_tenth(120) == 12
            for seed in range(2):
                start = {rate: np.nanmean(rows[seed, :12]) for rate, rows in tables.items()}
                default = one.contender.default_rate
                rate = max(start, key=lambda rate: (round(start[rate], 12), -abs(np.log(rate / default))))
                if one.honest_rates is not None:
                    assert one.honest_rates[seed] == rate
                assert one.honest_rest[seed] == pytest.approx(np.nanmean(tables[rate][seed, 12:]))


def test_running_means_and_their_chart(noisy):
    values = noisy.values[Run("slam", "ap", 1.0)]
    means = running_means(values)
    for t in (0, 5, 119):
        seen = values[0, : t + 1]
        counted = seen[~np.isnan(seen)]
        assert means[0, t] == pytest.approx(counted.mean()) if len(counted) else np.isnan(means[0, t])
    tuned = tune(noisy, "ap")
    chart = running_mean_chart(noisy, tuned, "ap", "name", 2, "about")
    for one, series in zip(tuned, chart.series, strict=True):
        assert series.y[-1] == pytest.approx(one.whole.mean())
        assert series.high[-1] - series.y[-1] == pytest.approx(one.whole.std(ddof=1) / np.sqrt(2))
        assert not np.isnan(series.y).any()


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.deep)])
def test_losses_end_and_stay_under_their_bounds(quick):
    """On the whole stream Algorithms 2, 3 and the listwise perceptron lose nothing in the second half."""
    seeds = [100] if quick else [100, 101, 102]
    result = run_simulated(simulated_source(500, 5 if quick else 40), seeds)
    assert result.trials.source.n_rounds >= (1000 if quick else 10_000)
    with_theorem = [one for one in result.bound_checks if one.bounds is not None]
    assert {one.run.learner for one in with_theorem} == {LAST_ITERATE.name, "slam", "minimax", "slam-paper"}
    for one in with_theorem:
        assert one.holds
        assert (one.losses > 0).all()
        if not quick and one.run.learner != "slam-paper":
            assert not one.second_half.any(), one.contender.label
            assert max(one.last_losses) <= result.trials.source.n_rounds // 2
    stream = result.trials.source.draw(seeds[0])
    assert result.radii[0] == pytest.approx(np.linalg.norm(stream.X, axis=1).max())
    assert result.trials.source.facts["margin"] == MARGIN
    for rate, bounds in result.slam_bounds.items():
        losses = np.nansum(1 - result.trials.values[Run("slam", MEASURE, rate)], axis=1)
        assert (losses <= bounds).all()


def test_who_depends_on_the_rate():
    result = reproduce(Settings(quick=True, n_seeds=1)).streams[0]
    assert result.depends == {
        "listwise": False,
        "slam": True,
        "minimax": False,
        "listnet": True,
        "perceptron": False,
    }


def test_the_same_settings_give_the_same_numbers():
    first, second = (as_plain(reproduce(Settings(quick=True, n_seeds=1, seed=9), n_threads=n)) for n in (1, 2))
    assert first == second
    assert first["settings"]["seeds"] == [9]


def test_sets_below_a_folder(tmp_path):
    stream = pr.separable(30, n_documents=3, seed=1).stream
    for name in (
        "web/Fold1/train.txt",
        "web/Fold1/vali.txt",
        "web/Fold2/train.txt",
        "alone.txt.gz",
        "two/a.txt",
        "two/b.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pr.write_letor(stream, tmp_path / name)
    pr.write_store(stream, tmp_path / "kept.store")
    pr.write_parquet(stream, tmp_path / "table.parquet")
    (tmp_path / "readme.txt").write_text("Judged queries.\n")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "notes.md").write_text("not data")
    sets, left_out = find_sets(tmp_path)
    assert {one.name for one in sets} == {
        "web/Fold1", "web/Fold2", "alone.txt.gz", "two/a.txt", "two/b.txt", "kept.store", "table.parquet"
    }  # fmt: skip
    reasons = {one.name: one.reason for one in left_out}
    assert set(reasons) == {"web/Fold1/vali.txt", "readme.txt", "empty.txt"}
    assert {one.name: one.fold_of for one in sets if one.fold_of} == {"web/Fold1": "web", "web/Fold2": "web"}
    assert "readme.txt:1" in reasons["readme.txt"]
    for one in sets:
        assert real_source(one, transform="auto", order="given", passes=1, max_queries=20).n_queries == 20


def test_folds_links_pipes_and_names(tmp_path):
    stream = pr.separable(12, n_documents=3, seed=1).stream
    for name in ("web/Fold1", "web/Fold2", "web/Fold3", "elsewhere/linked"):
        (tmp_path / name).mkdir(parents=True)
        pr.write_letor(stream, tmp_path / name / "train.txt")
    (tmp_path / "web/Fold1/train.txt").write_text("junk\n")
    root = tmp_path / "web"
    (root / "link").symlink_to(tmp_path / "elsewhere/linked")
    (root / "again").symlink_to(root)
    (root / "loop.txt").symlink_to(root / "loop.txt")
    os.mkfifo(root / "pipe.txt")
    (root / "cost$x_$").mkdir()
    pr.write_letor(stream, root / "cost$x_$" / "train.txt")
    latin = os.fsencode(root) + b"/caf\xe9"
    os.mkdir(latin)
    pr.write_letor(stream, os.fsdecode(latin + b"/train.txt"))
    sets, left_out = find_sets(root)
    assert {one.name for one in sets} == {"Fold2", "Fold3", "link", "cost$x_$", "caf\ufffd"}
    assert {one.fold_of for one in sets if one.name.startswith("Fold")} == {"web"}
    assert {one.name for one in left_out} == {"Fold1/train.txt"}
    (alone,), _ = find_sets(root / "Fold2")
    assert (alone.name, alone.fold_of) == ("Fold2", "")
    with pytest.raises(NotADirectoryError, match="does not exist"):
        find_sets(root / "none")


def test_a_set_with_too_little_to_learn_from_is_left_out(tmp_path):
    pr.write_letor(pr.separable(9, n_documents=3).stream, tmp_path / "few.txt")
    X, grades = np.eye(60)[:, :5], np.repeat([1.0, 0.0], 30)
    pr.write_letor(pr.QueryStream.from_arrays(X, np.ones(60), group=[2] * 30), tmp_path / "equal.txt")
    order = np.arange(60).reshape(2, 30).T.ravel()
    late = np.where(np.arange(60) < 2 * 12, grades[order], 0)
    pr.write_letor(pr.QueryStream.from_arrays(X[order], late, group=[2] * 30), tmp_path / "early.txt")
    result = reproduce(Settings(tmp_path, quick=True, n_seeds=1, order="given"))
    reasons = {one.name: one.reason for one in result.left_out}
    assert set(reasons) == {"few.txt", "equal.txt"}
    assert "different grades, got 9" in reasons["few.txt"]
    assert "different grades, got 0" in reasons["equal.txt"]


def test_an_honest_choice_among_equals_is_the_default(noisy):
    same = {run: np.where(np.arange(120) < 12, 0.5, values) for run, values in noisy.values.items()}
    for measure in MEASURES:
        for one in tune(replace(noisy, values=same), measure):
            if one.honest_rates is not None:
                assert set(one.honest_rates) == {one.contender.default_rate}
                default = type(one.contender.make(measure, 1.0))().learning_rate
                nearest = min(RATES, key=lambda rate: abs(np.log(rate / default)))
                assert one.contender.default_rate == nearest


def test_a_set_of_the_catalogue_is_read_as_such(tmp_path):
    (tmp_path / "MQ2008" / "Fold1").mkdir(parents=True)
    stream = pr.separable(30, n_documents=3, n_features=4, seed=1).stream
    pr.write_letor(stream, tmp_path / "MQ2008" / "Fold1" / "train.txt")
    (one,), _ = find_sets(tmp_path)
    assert one.name == pr.datasets()["mq2008"].title
    assert real_source(one, transform="none", order="given", passes=1, max_queries=None).draw(0).n_features == 46


def test_all_folds_are_run_and_their_mean_is_in_the_tables(tmp_path):
    for k in (1, 2):
        (tmp_path / "MQ2008" / f"Fold{k}").mkdir(parents=True)
        stream = pr.separable(30, n_documents=3, n_features=4, label_noise=0.3, seed=k).stream
        pr.write_letor(stream, tmp_path / "MQ2008" / f"Fold{k}" / "train.txt")
    title = pr.datasets()["mq2008"].title
    result = reproduce(Settings(tmp_path, quick=True, n_seeds=2))
    names = [f"{title}, Fold1", f"{title}, Fold2"]
    assert [one.trials.source.name for one in result.streams[1:]] == names
    assert [one.trials.source.draw(0).n_features for one in result.streams[1:]] == [46, 46]
    assert all(f"one of several folds of {title}" in one.trials.source.about for one in result.streams[1:])
    assert result.n_sets == 1
    (folds,) = as_plain(result)["folds"]
    assert (folds["set"], folds["folds"]) == (title, names)
    (row,) = [row for row in _rows(result) if row["stream"] == f"{title}, mean of 2 folds"]
    page = make_page(result, "0")
    assert f"{escape(title)}, mean of 2 folds" in page
    assert f"one real data set, 2 folds of {escape(title)}" in page
    for learner in CONTENDERS:
        each = [
            float(one.honest_rest.mean())
            for stream in result.streams[1:]
            for one in stream.tuned["ndcg@10"]
            if one.contender.name == learner
        ]
        found = folds["honest_after_first_tenth"]["ndcg@10"][learner]
        assert found["per_fold"] == each
        assert row[learner] == found["mean"] == pytest.approx(np.mean(each))


def test_equal_learners_have_no_first_and_no_last(tmp_path):
    stream = pr.separable(30, n_documents=3, n_features=2, seed=1).stream
    same = pr.QueryStream.from_arrays(np.ones_like(stream.X), stream.relevance, group=[3] * 30)
    (tmp_path / "constant").mkdir()
    pr.write_letor(same, tmp_path / "constant" / "train.txt")
    result = reproduce(Settings(tmp_path, quick=True, n_seeds=1))
    assert all("In the end all have" in chart.caption for chart in result.streams[1].charts[:2])
    page = make_page(result, "0")
    assert "<b>0 of 1</b> real streams" in page
    assert "±" not in page[page.index('class="findings"') : page.index('id="simulated"')]  # of one seed


def test_one_query_may_be_enough():
    check = SimpleNamespace(contender=SimpleNamespace(label="quick"), has_stopped=True, last_losses=[1])
    stream = SimpleNamespace(simulated=SimpleNamespace(bound_checks=[check]), trials=SimpleNamespace(seeds=[0]))
    assert _on_losses(stream) == [("1", "query was enough for quick, which lost nothing later in its run.")]


def test_the_part_of_a_bound_is_that_of_one_seed():
    simulated = run_simulated(simulated_source(60, 2), [0, 1, 2])
    checks = [one for one in simulated.bound_checks if one.bounds is not None]
    parts = [lost / bound for one in checks for lost, bound in zip(one.losses, one.bounds, strict=True)]
    (kept, _), (part, _) = _on_bounds(SimpleNamespace(simulated=simulated))
    assert kept == f"{len(checks)} of {len(checks)}"
    assert part == f"{three_digits(100 * max(parts))} %"


@pytest.mark.parametrize(("size", "transform"), [(1.0, None), (1.5, "query-zscore")])
def test_automatic_transform(tmp_path, size, transform):
    X = np.tile([[size, 0.5], [0.25, -0.5]], (10, 1))
    path = tmp_path / "a.txt"
    pr.write_letor(pr.QueryStream.from_arrays(X, [1, 0] * 10, group=[2] * 10), path)
    assert (
        real_source(RealSet("a", path, {}), transform="auto", order="given", passes=1, max_queries=None).transform
        == transform
    )


def test_a_set_that_cannot_be_used_is_named_and_the_rest_goes_on(tmp_path):
    pr.write_letor(pr.QueryStream.from_arrays(np.eye(4), np.zeros(4), group=[2, 2]), tmp_path / "nothing.txt")
    pr.write_letor(pr.separable(30, n_documents=4, n_features=3).stream, tmp_path / "some.txt")
    result = reproduce(Settings(tmp_path, quick=True, n_seeds=1))
    assert [one.trials.source.name for one in result.streams] == ["simulated", "some.txt"]
    assert "needs 10 queries with documents of different grades, got 0" in result.left_out[0].reason


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"passes": 0}, "passes"),
        ({"transform": "log"}, "transform"),
        ({"order": "any"}, "order"),
        ({"n_seeds": 0}, "n_seeds"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_settings(wrong, message):
    with pytest.raises(ValueError, match=message):
        Settings(**wrong)


def test_the_command_says_all_settings():
    settings = Settings(Path("a b"), True, 3, 2, "none", "given", 4)
    expected = "perceptrank reproduce --data 'a b' --quick --seed 3 --seeds 2 --transform none --order given --passes 4"
    assert settings.command == expected
    odd = Settings(Path(os.fsdecode(b"caf\xe9"))).command
    assert odd.encode("utf-8").decode("utf-8") == odd
