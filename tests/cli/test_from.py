"""`learn --from`: any ranker of today is a start, and what is learned from it is no worse."""

import json

import numpy as np
import pytest
from support.shop import FEATURES, WEIGHTS, judged

import perceptrank as pr

SIDES = [("left", -0.1), ("right", 0.1)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Judgements and features of 300 queries, another 300, today's weights, and a column with their scores."""
    folder = tmp_path_factory.mktemp("shop")
    day, held = judged(300, 41), judged(300, 42)
    with (folder / "judgements.csv").open("w") as grades, (folder / "features.jsonl").open("w") as features:
        grades.write("qid,docid,relevance\n")
        for query in day:
            for row, docid in enumerate(query.docids):
                grades.write(f"{query.qid},{docid},{query.relevance[row]:.0f}\n")
                values = dict(zip(FEATURES, query.X[row].tolist(), strict=True))
                features.write(json.dumps({"qid": int(query.qid), "docid": docid, "features": values}) + "\n")
    pr.write_parquet(held, folder / "held.parquet")
    scored = pr.ScoreOf(pr.FixedRanker(WEIGHTS)).transform(day)
    pr.write_parquet(scored.with_features(scored.X, feature_names=(*FEATURES, "now")), folder / "scored.parquet")
    (folder / "weights.json").write_text(json.dumps(WEIGHTS))
    return folder


@pytest.mark.parametrize("transform", ["auto", "running"])
def test_the_day_of_a_shop(run, shop, transform, tmp_path, monkeypatch):
    """From files to a verdict: learning from today's weights gains as much as learning from scratch, and is ahead."""
    monkeypatch.chdir(shop)
    given = ("learn", "judgements.csv", "--features", "features.jsonl", "--transform", transform)
    from_weights = run(*given, "--from", "weights.json", "--save", tmp_path / "new.json", "--json").stdout
    learned, start = json.loads(from_weights)["rows"]
    scratch = json.loads(run(*given, "--save", tmp_path / "scratch.json", "--json").stdout)["rows"][0]
    assert learned["ndcg@10"] > start["ndcg@10"] + 0.03
    assert learned["ndcg@10"] > scratch["ndcg@10"] - 0.005
    held, rankers = "held.parquet", [tmp_path / "new.json", tmp_path / "scratch.json"]
    verdict = run("evaluate", "weights.json", rankers[0], held)
    assert "Yes: " in verdict.output
    values = [pr.evaluate(pr.load(one), pr.read_parquet(held), "ndcg@10").values("ndcg@10") for one in rankers]
    gained = values[0] - values[1]
    assert np.nanmean(gained) > -0.002


def test_a_column_of_scores_is_a_start(run, shop, tmp_path, monkeypatch):
    monkeypatch.chdir(shop)
    given = ("learn", "scored.parquet", "--save", tmp_path / "new.json")
    learned, start = json.loads(run(*given, "--from", "column:now", "--json").stdout)["rows"]
    assert learned["ndcg@10"] > start["ndcg@10"] + 0.03
    now = pr.evaluate(pr.FixedRanker({"now": 1.0}), pr.read_parquet("scored.parquet"), "ndcg@10")
    assert start["ndcg@10"] == pytest.approx(now.mean("ndcg@10"), abs=1e-4)
    assert pr.load(tmp_path / "new.json").learners[1].production == "now"
    assert "nothing is left to do" in " ".join(run(*given, "--from", "column:now", "--resume").output.split())
    again = run(*given, "--from", "column:price", "--resume", code=1)
    assert "is not from a run that began with column:price" in " ".join(again.output.split())
    missing = run("learn", "scored.parquet", "--from", "column:nothing", code=1)
    assert "'nothing'" in missing.output


def test_a_fixed_model_is_a_start_and_one_that_learns_is_with_an_algorithm(run, shop, tmp_path, monkeypatch):
    monkeypatch.chdir(shop)
    run("learn", "held.parquet", "--from", "weights.json", "--algorithm", "fixed", "--save", tmp_path / "now.json")
    run("learn", "held.parquet", "--from", tmp_path / "now.json", "--save", tmp_path / "new.json")
    run("learn", "held.parquet", "--from", "weights.json", "--save", tmp_path / "same.json")
    one, other = (pr.load(tmp_path / name) for name in ("new.json", "same.json"))
    held = pr.read_parquet("held.parquet")
    assert one.scores(held).tobytes() == other.scores(held).tobytes()
    run("learn", "held.parquet", "--from", tmp_path / "new.json", "--algorithm", "slam", "--save", tmp_path / "s.json")
    slam = pr.load(tmp_path / "s.json")
    assert (slam.name, slam.n_queries, slam.transforms_[0].ranker.name) == ("slam", 300, "tournament")
    show = run("show", tmp_path / "s.json", "held.parquet").output
    assert "score" in show
    fixed = run("learn", "held.parquet", "--from", tmp_path / "s.json", "--algorithm", "fixed", code=1)
    assert "--algorithm fixed is for rankers that do not learn" in " ".join(fixed.output.split())
    assert pr.load(tmp_path / "s.json").n_queries == 300


def test_a_wrapper_with_a_learner_by_default_takes_its_settings(run, shop, tmp_path, monkeypatch):
    monkeypatch.chdir(shop)
    given = ("learn", "held.parquet", "--algorithm", "trees", "--set", "first_fit=100000", "--save")
    run(*given, tmp_path / "new.json", "--from", "weights.json", "--transform", "running")
    assert [each.name for each in pr.load(tmp_path / "new.json").transforms_] == ["score-of", "trees", "running"]
    run(*given, tmp_path / "new.json")
    resumed = run(*given, tmp_path / "new.json", "--resume")
    assert "nothing is left to do" in " ".join(resumed.output.split())
    saved, alone = pr.load(tmp_path / "new.json"), pr.WithTrees(first_fit=100_000)
    assert saved.as_document()["parameters"] == alone.as_document()["parameters"]


def test_what_ends_below_its_start_is_said(run, tmp_path, monkeypatch):
    """The start ranks by a, and grades follow a: from the first query on, or only in the later half."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(240, 3))
    for name, wanted in {"kept": X[:, 0], "turned": np.where(np.arange(240) < 120, -X[:, 0], X[:, 0])}.items():
        grades = np.digitize(wanted, [-0.5, 0.5, 1.5])
        stream = pr.QueryStream.from_arrays(X, grades, group=[6] * 40, feature_names=["a", "b", "c"])
        pr.write_parquet(stream, f"{name}.parquet")
        result = run("learn", f"{name}.parquet", "--from", "column:a", "--algorithm", "listwise")
        said = " ".join(result.output.split())
        assert ("what was learned ends below its start: ndcg@10 is" in said) == (name == "turned")


def write_trees(folder):
    """The same two trees as LightGBM and RankLib write them: title_bm25 above 4, and clicks above 10."""
    lightgbm = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=5\n"
    lightgbm += f"feature_names={' '.join(FEATURES)}\n"
    ranklib = "## LambdaMART\n<ensemble>"
    for number, (feature, threshold) in enumerate([(0, 4.0), (5, 10.0)]):
        lightgbm += (
            f"\nTree={number}\nnum_leaves=2\nsplit_feature={feature}\nthreshold={threshold}\ndecision_type=0\n"
            "left_child=-1\nright_child=-2\nleaf_value=-0.1 0.1\nis_linear=0\nshrinkage=1\n"
        )
        left, right = (f'<split pos="{side}"><output>{value}</output></split>' for side, value in SIDES)
        split = f"<split><feature>{feature + 1}</feature><threshold>{threshold}</threshold>{left}{right}</split>"
        ranklib += f'<tree id="{number}" weight="1">{split}</tree>'
    (folder / "lightgbm.txt").write_text(lightgbm + "\nend of trees\n")
    (folder / "ranklib.xml").write_text(ranklib + "</ensemble>\n")


@pytest.mark.parametrize("name", ["lightgbm.txt", "ranklib.xml"])
def test_trees_are_a_start_and_their_leaves_are_learned(run, shop, name, tmp_path, monkeypatch):
    monkeypatch.chdir(shop)
    write_trees(tmp_path)
    given = ("learn", "held.parquet", "--from", tmp_path / name, "--save", tmp_path / "new.json")
    learned, start = json.loads(run(*given, "--json").stdout)["rows"]
    held = pr.read_parquet("held.parquet")
    forest = pr.read_forest(tmp_path / name, 6 if name == "ranklib.xml" else None)
    now = pr.FixedRanker(forest.values, transforms=pr.TreeLeaves(forest))
    assert start["ndcg@10"] == pytest.approx(pr.evaluate(now, held, "ndcg@10").mean("ndcg@10"), abs=1e-4)
    assert learned["ndcg@10"] >= start["ndcg@10"] - 0.003
    ranker = pr.load(tmp_path / "new.json")
    np.testing.assert_allclose(pr.forest_of(ranker).scores(np.asarray(held.X)), ranker.scores(held), rtol=1e-6)
    assert "nothing is left to do" in " ".join(run(*given, "--resume").output.split())
    # The strength of the start does not depend on how the queries come in blocks.
    run(*given[:-1], tmp_path / "parts.json", "--checkpoint", 7)
    assert pr.load(tmp_path / "parts.json").as_document() == ranker.as_document()
    # With settings, their score alone is the start; as they are, they are a model like others.
    run(*given, "--transform", "running", "--measure", "ap")
    assert [each.name for each in pr.load(tmp_path / "new.json").members[1].transforms_] == ["score-of", "running"]
    run(*given, "--algorithm", "fixed")
    assert pr.load(tmp_path / "new.json").scores(held).tobytes() == now.scores(held).tobytes()


def test_xgboost_is_recognised(run, shop, tmp_path, monkeypatch):
    xgboost = pytest.importorskip("xgboost")
    monkeypatch.chdir(shop)
    held = pr.read_parquet("held.parquet")
    data = xgboost.DMatrix(np.asarray(held.X), held.relevance, feature_names=list(FEATURES))
    xgboost.train({"max_depth": 2, "nthread": 1}, data, 3).save_model(tmp_path / "trees.json")
    result = run("learn", "held.parquet", "--from", tmp_path / "trees.json", "--save", tmp_path / "new.json")
    assert "its start" in result.output
    assert pr.forest_of(pr.load(tmp_path / "new.json")).n_trees == pr.read_forest(tmp_path / "trees.json").n_trees
    xgboost.train({"max_depth": 2, "nthread": 1}, data, 3).save_model(tmp_path / "trees.ubj")
    refused = run("learn", "held.parquet", "--from", tmp_path / "trees.ubj", code=1)
    assert "save it as JSON" in " ".join(refused.output.split())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("tree\nversion=v4\n", "must begin with the line 'tree' and have trees"),
        ("<ensemble><tree>", "is not a forest that can be read"),
        ('{"learner": {}, "version": [2, 0, 0]}', "is not a forest that can be read"),
        ("nothing", "wrong"),
    ],
)
def test_damaged_starts_write_nothing(run, shop, content, message, tmp_path, monkeypatch):
    monkeypatch.chdir(shop)
    (tmp_path / "wrong").write_text(content)
    result = run("learn", "held.parquet", "--from", tmp_path / "wrong", "--save", tmp_path / "new.json", code=1)
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "new.json").exists()
