"""Models of other libraries, functions and own models beside ours: what each does is what it would do alone."""

import csv
import re

import numpy as np
import pytest
from lightgbm import LGBMRanker
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRanker

import perceptrank as pr

STREAM = pr.mslr_shaped(150, n_documents=8, n_features=5, seed=1)
TRAIN, TEST = STREAM[:90], STREAM[90:]


def sizes(stream):
    return np.diff(stream.offsets)


def numbers(stream):
    return np.repeat(np.arange(len(stream)), sizes(stream))


def lightgbm(n=5):
    return LGBMRanker(n_estimators=n, n_jobs=1, verbose=-1)


def xgboost(n=5):
    return XGBRanker(n_estimators=n, n_jobs=1)


def last(stream):
    """Score by the last feature."""
    return stream.X[:, -1]


class Towards:
    """An own model, query by query: it moves towards relevant documents, from arrays."""

    def __init__(self):
        self.w, self.seen = np.zeros(5), []

    def learn(self, X, relevance):
        self.seen.append(len(X))
        self.w = self.w + (relevance - relevance.mean()) @ X / 1e3

    def predict(self, X):
        return (X @ self.w)[:, None]


class OfStreams:
    """The same, from streams of one query."""

    def __init__(self):
        self.own = Towards()

    def learn(self, stream):
        self.own.learn(stream.X, stream.relevance)

    def scores(self, stream):
        return self.own.predict(stream.X).ravel()


class Fitted:
    """An own model that is fitted to a stream at once."""

    def fit(self, stream):
        self.w = np.linalg.lstsq(stream.X, stream.relevance, rcond=None)[0]

    def scores(self, stream):
        return stream.X @ self.w


def ndcg(scores, stream):
    return pr.NDCG(10).per_query(scores, stream.relevance, stream.offsets)


def test_models_are_fitted_and_scored_as_their_libraries_do():
    rankers = {
        "lightgbm": lightgbm(),
        "xgboost": xgboost(),
        "ridge": Ridge(),
        "pipeline": make_pipeline(StandardScaler(), lightgbm()),
        "own": Fitted(),
        "ours": pr.ListwisePerceptron(),
        "last": last,
    }
    result = pr.compare(rankers, TRAIN, ["ndcg@10", "ap"], test=TEST)
    own = {
        "lightgbm": lightgbm().fit(TRAIN.X, TRAIN.relevance, group=sizes(TRAIN)).predict(TEST.X),
        "xgboost": xgboost().fit(TRAIN.X, TRAIN.relevance, qid=numbers(TRAIN)).predict(TEST.X),
        "ridge": Ridge().fit(TRAIN.X, TRAIN.relevance).predict(TEST.X),
        "pipeline": lightgbm()
        .fit(StandardScaler().fit_transform(TRAIN.X), TRAIN.relevance, group=sizes(TRAIN))
        .predict(StandardScaler().fit(TRAIN.X).transform(TEST.X)),
        "own": TEST.X @ np.linalg.lstsq(TRAIN.X, TRAIN.relevance, rcond=None)[0],
        "last": last(TEST),
    }
    means = {each.name: each.mean for each in result.standings(on="test")}
    counted = np.all([~np.isnan(ndcg(scores, TEST)) for scores in own.values()], axis=0)
    for name, scores in own.items():
        assert means[name] == pytest.approx(ndcg(scores, TEST)[counted].mean(), rel=1e-9), name
    assert result.names_on("test") == list(rankers)
    assert result.names_on("progressive") == ["ours", "last"]
    progressive = {each.name: each for each in result.standings(on="progressive")}
    assert progressive["last"].mean == pytest.approx(np.nanmean(ndcg(last(TRAIN), TRAIN)))
    assert progressive["last"].n_updates == 0
    assert all(set(each.beats) <= {"ours", "last"} for each in progressive.values())


def test_own_models_rank_each_query_before_they_learn_from_it():
    result = pr.compare({"arrays": Towards(), "streams": OfStreams()}, [TRAIN[:40], TRAIN[40:]], orders=[3])
    model, values = Towards(), []
    for query in TRAIN.shuffled(3):
        values.append(pr.NDCG(10)(model.predict(query.X).ravel(), query.relevance))
        model.learn(query.X, query.relevance)
    for name in ("arrays", "streams"):
        np.testing.assert_array_equal(result.traces[name].values("ndcg@10"), values)
    online = Towards()
    pr.compare({"own": online}, TRAIN)
    assert online.seen == sizes(TRAIN).tolist()


def test_orders_fit_copies_to_the_same_queries():
    forest, trees = RandomForestRegressor(3, random_state=0), lightgbm()
    result = pr.compare({"forest": forest, "trees": trees}, TRAIN, test=TEST, orders=[1, 2])
    assert not hasattr(forest, "estimators_")
    assert (result.sets, result.n_queries, result.names) == (["test"], 90, ["forest", "trees"])
    for k, seed in enumerate([1, 2]):
        shuffled = TRAIN.shuffled(seed)
        alone = RandomForestRegressor(3, random_state=0).fit(shuffled.X, shuffled.relevance)
        own = next(each for each in result.standings() if each.name == "forest")
        assert own.per_order[k] == pytest.approx(np.nanmean(ndcg(alone.predict(TEST.X), TEST)))
    with pytest.raises(ValueError, match="fitted to all queries at once"):
        result.plot("x.png")


def test_tables_leave_a_gap_where_a_model_has_no_value(tmp_path):
    rankers = {"trees_5": lightgbm(), "ours": pr.ListwisePerceptron()}
    result = pr.compare(rankers, TRAIN, ["ndcg@10", "ap"], test=TEST, orders=2)
    result.save_latex(tmp_path / "t.tex")
    result.save_csv(tmp_path / "t.csv")
    table = (tmp_path / "t.tex").read_text()
    row = next(line for line in table.splitlines() if r"trees\_5" in line)
    assert row.endswith(r"& -- & -- \\")
    assert row.count("&") == 5
    assert "Learners without a progressive mean are fitted to all queries at once." in table
    with open(tmp_path / "t.csv", newline="") as file:
        sets = {(each["name"], each["set"]) for each in csv.DictReader(file)}
    assert sets == {("trees_5", "test"), ("ours", "test"), ("ours", "progressive")}
    assert list(result.curves()) == ["ours"]
    result.plot(tmp_path / "t.svg")


def test_validation_chooses_the_candidate_that_is_best_on_it():
    vali, train = TRAIN[60:], TRAIN[:60]
    rates = {f"{rate:g}": pr.SlamPerceptron(learning_rate=rate) for rate in (1e-4, 0.1)}
    rankers = {"trees": [lightgbm(n) for n in (1, 30)], "slam": rates, "ours": pr.ListwisePerceptron()}
    result = pr.compare(rankers, train, vali=vali, test=TEST, orders=[4, 5])
    for n, name in ((1, "trees 1"), (30, "trees 2")):
        means = []
        for seed in (4, 5):
            own = train.shuffled(seed)
            model = lightgbm(n).fit(own.X, own.relevance, group=sizes(own))
            means.append(np.nanmean(ndcg(model.predict(vali.X), vali)))
        chosen = next(own for own in result.tuned.values() if name in own)
        assert chosen[name] == pytest.approx(np.mean(means))
    for chosen, means in result.tuned.items():
        assert means[chosen] == max(means.values())
    assert set(result.names) == set(result.tuned)
    assert len(result.names) == 3
    alone = pr.compare(rankers["slam"], train, test=TEST, orders=[4, 5])
    slam = next(name for name in result.names if name.startswith("slam"))
    found = next(each for each in result.standings() if each.name == slam)
    assert found.per_order == next(each for each in alone.standings() if slam.endswith(each.name)).per_order
    with pytest.raises(ValueError, match="'trees' has several candidates: `vali=…`"):
        pr.compare({"trees": [lightgbm()]}, train, test=TEST)
    empty = pr.QueryStream.from_arrays(np.eye(5), np.zeros(5))
    with pytest.raises(ValueError, match="no query of `vali` counts for ndcg@10"):
        pr.compare({"slam": [pr.SlamPerceptron(), pr.SlamPerceptron(learning_rate=2.0)]}, train, vali=empty)
    with pytest.raises(ValueError, match="no learner has several"):
        pr.compare([pr.ListwisePerceptron()], train, vali=vali)


def test_query_weights_reach_the_models():
    weights = np.linspace(0.5, 2, len(TRAIN))
    weighted = TRAIN.with_query_weights(weights)
    result = pr.compare({"trees": lightgbm(), "boosted": xgboost(), "ridge": Ridge()}, weighted, test=TEST)
    per_row = np.repeat(weights, sizes(TRAIN))
    own = {
        "trees": lightgbm().fit(TRAIN.X, TRAIN.relevance, group=sizes(TRAIN), sample_weight=per_row),
        "boosted": xgboost().fit(TRAIN.X, TRAIN.relevance, qid=numbers(TRAIN), sample_weight=weights),
        "ridge": Ridge().fit(TRAIN.X, TRAIN.relevance, sample_weight=per_row),
    }
    for each in result.standings():
        assert each.mean == pytest.approx(np.nanmean(ndcg(own[each.name].predict(TEST.X), TEST)))
    with pytest.raises(ValueError, match="own: Towards takes no query weights"):
        pr.compare({"own": Towards()}, weighted)
    with pytest.raises(ValueError, match="own: its `fit` takes no sample_weight"):
        pr.compare({"own": Plain()}, weighted, test=TEST)


class Plain:
    """A regressor without weights."""

    def fit(self, X, y):
        pass

    def predict(self, X):
        return X[:, 0]


def test_sparse_features_stay_sparse():
    sparse = STREAM.to_sparse()
    result = pr.compare({"trees": lightgbm()}, sparse[:90], test=sparse[90:])
    dense = pr.compare({"trees": lightgbm()}, TRAIN, test=TEST)
    assert result.standings()[0].mean == dense.standings()[0].mean


def test_fitted_models_and_functions_are_evaluated(tmp_path):
    trees = lightgbm().fit(TRAIN.X, TRAIN.relevance, group=sizes(TRAIN))
    boosted = xgboost().fit(TRAIN.X, TRAIN.relevance, qid=numbers(TRAIN))
    result = pr.evaluate({"last_one": last, "trees": trees, "booster": trees.booster_}, TEST, ["ndcg@10", "ap"])
    assert result.mean("trees") == pytest.approx(np.nanmean(ndcg(trees.predict(TEST.X), TEST)))
    assert result.mean("trees") == result.mean("booster")
    of_xgboost = [pr.evaluate(each, TEST).mean("ndcg@10") for each in (boosted, boosted.get_booster())]
    assert of_xgboost == [pytest.approx(np.nanmean(ndcg(boosted.predict(TEST.X), TEST)))] * 2
    result.save_latex(tmp_path / "t.tex")
    table = (tmp_path / "t.tex").read_text()
    rows = [line for line in table.splitlines() if line.endswith(r"\\") and "&" in line]
    assert [row.count("&") for row in rows] == [4] * 4
    assert rows[1].startswith(rf"last\_one & {result.mean('last_one'):.4f} & -- &")
    trees_row = next(each for each in result.differences if each.model == "trees")
    assert f"{trees_row.difference:+.4f}" in rows[2]
    assert (r"\mathbf{" in rows[2].split("&")[2]) == (trees_row.low > 0 or trees_row.high < 0)
    assert re.sub(r"\\[&%$#_{}]", "", table).count("{") == re.sub(r"\\[&%$#_{}]", "", table).count("}")


def test_models_find_their_features_by_name():
    frame = STREAM.to_frame()
    some = ["f4", "f2"]
    ridge = Ridge().fit(frame[some], frame["relevance"])
    boosted = xgboost().fit(frame[some], frame["relevance"], qid=frame["qid"])
    named = pr.QueryStream.from_frame(frame)
    for model in (ridge, boosted):
        expected = np.nanmean(ndcg(model.predict(frame[some]), STREAM))
        assert pr.evaluate(model, named, "ndcg@10").mean("ndcg@10") == pytest.approx(expected)


class Broken(Plain):
    """A model whose methods fail."""

    def fit(self, X, y):
        raise RuntimeError("out of cheese")


class Short(Plain):
    """A model that does not score all documents."""

    def predict(self, X):
        return X[1:, 0]


def test_what_cannot_be_a_contender_is_said():
    rule = r"scores\(stream\)` or `predict\(X\)`, or a function of a stream; got "
    for bad, kind in ((LGBMRanker, "the class LGBMRanker"), (3, "int"), (None, "NoneType")):
        with pytest.raises(TypeError, match=rule + f"{kind} for 'bad'"):
            pr.compare({"bad": bad}, TRAIN)
        with pytest.raises(TypeError, match=rule + f"{kind} for 'bad'"):
            pr.evaluate({"bad": bad, "last": last}, TEST)
    with pytest.raises(ValueError, match=r"'trees' is fitted to all queries at once, .* `test=…` names"):
        pr.compare({"trees": lightgbm()}, TRAIN)
    with pytest.raises(ValueError, match="bad: Broken cannot be fitted: RuntimeError: out of cheese"):
        pr.compare({"bad": Broken()}, TRAIN, test=TEST)
    with pytest.raises(ValueError, match="bad: the ranker must score each of"):
        pr.compare({"bad": Short()}, TRAIN, test=TEST)
    with pytest.raises(ValueError, match=r"bad: function cannot score: KeyError: 'x'"):
        pr.compare({"bad": lambda stream: {}["x"]}, TRAIN)
    rankers = {"bad": Broken(), "worse": lambda stream: {}["x"], "ours": pr.SlamPerceptron()}
    result = pr.compare(rankers, TRAIN, test=TEST, orders=2, on_error="drop")
    assert result.names == ["ours"]
    assert result.dropped["bad"] == "Broken cannot be fitted: RuntimeError: out of cheese (order 0)"
    assert "KeyError" in result.dropped["worse"]
