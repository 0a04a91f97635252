"""Presets against the tools themselves."""

import warnings

import numpy as np
import pytest

import perceptrank as pr


@pytest.fixture(scope="module")
def judged():
    """(scores with many ties, grades, sizes): queries without relevant documents and with one document among them."""
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 25, size=80)
    grades = rng.integers(0, 5, size=sizes.sum()) * (rng.random(sizes.sum()) < 0.4)
    starts = np.cumsum(sizes) - sizes
    for q in range(0, 80, 9):
        grades[starts[q] : starts[q] + sizes[q]] = 0
    return np.round(rng.normal(size=sizes.sum()), 1), grades, sizes


def per_query(measure, scores, grades, sizes):
    return measure.per_query(
        np.asarray(scores, float), np.asarray(grades, float), np.concatenate([[0], np.cumsum(sizes)])
    )


@pytest.mark.parametrize("k", [1, 5, 10])
def test_scikit_learn(judged, k):
    from sklearn.metrics import ndcg_score

    scores, grades, sizes = judged
    ours = per_query(pr.preset("scikit-learn", f"ndcg@{k}"), scores, grades, sizes)
    starts = np.cumsum(sizes) - sizes
    for q, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if size == 1:  # scikit-learn raises
            assert ours[q] == (grades[start] > 0)
            continue
        rows = slice(start, start + size)
        theirs = ndcg_score(grades[None, rows], scores[None, rows], k=k)
        assert ours[q] == pytest.approx(theirs, rel=1e-12, abs=1e-15)
        exp2 = ndcg_score(2.0 ** grades[None, rows] - 1, scores[None, rows], k=k)
        assert pr.NDCG(k, ties="expected", empty="zero")(scores[rows], grades[rows]) == pytest.approx(exp2, rel=1e-12)


def run_of(judged):
    """The queries as trec_eval's dictionaries, document numbers in input order."""
    scores, grades, sizes = judged
    qrel, run, start = {}, {}, 0
    for q, size in enumerate(sizes):
        names = [f"d{i:04d}" for i in range(size)]
        qrel[str(q)] = dict(zip(names, map(int, grades[start : start + size]), strict=True))
        run[str(q)] = dict(zip(names, map(float, scores[start : start + size]), strict=True))
        start += size
    return qrel, run


def test_trec_eval(judged):
    import pytrec_eval

    qrel, run = run_of(judged)
    names = {
        "ndcg": "ndcg",
        "ndcg_cut_10": "ndcg@10",
        "ndcg_cut_5": "ndcg@5",
        "map": "ap",
        "recip_rank": "rr",
        "P_5": "p@5",
        "P_10": "p@10",
    }
    theirs = pytrec_eval.RelevanceEvaluator(qrel, {"ndcg", "ndcg_cut", "map", "recip_rank", "P"}).evaluate(run)
    for their_name, our_name in names.items():
        ours = per_query(pr.preset("trec_eval", our_name), *judged)
        expected = [theirs[str(q)][their_name] for q in range(len(ours))]
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-15, err_msg=their_name)


def test_ir_measures(judged):
    import ir_measures
    from ir_measures import AP, RR, P, nDCG

    qrel, run = run_of(judged)
    pairs = {nDCG @ 10: "ndcg@10", nDCG: "ndcg", AP: "ap", RR: "rr", P @ 5: "p@5"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = list(ir_measures.iter_calc(list(pairs), qrel, run))
    for measure, name in pairs.items():
        ours = per_query(pr.preset("ir_measures", name), *judged)
        values = {int(one.query_id): one.value for one in theirs if one.measure == measure}
        assert len(values) == len(ours)
        np.testing.assert_allclose(ours, [values[q] for q in range(len(ours))], rtol=1e-12, atol=1e-15)


def test_err_of_ir_measures(judged):
    """Its ERR is computed by TREC's gdeval script, which prints five digits and has grades up to 4."""
    import shutil

    import ir_measures
    from ir_measures import ERR

    if shutil.which("perl") is None:
        pytest.skip("gdeval is a Perl script, and there is no perl")
    scores, grades, sizes = judged
    scores = scores + np.random.default_rng(1).normal(size=len(scores)) * 1e-3
    qrel, run = run_of((scores, grades, sizes))
    theirs = {int(one.query_id): one.value for one in ir_measures.iter_calc([ERR @ 10], qrel, run)}
    ours = per_query(pr.ERR(10, empty="zero"), scores, grades, sizes)
    assert len(theirs) > 50
    for q, value in theirs.items():
        assert ours[q] == pytest.approx(value, abs=1.01e-5)


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 20, size=60)
    X = np.round(rng.normal(size=(sizes.sum(), 3)), 1)
    y = rng.integers(0, 5, size=sizes.sum()) * (rng.random(sizes.sum()) < 0.5)
    y[: sizes[0]] = 0
    return X, y, sizes


def test_lightgbm(features):
    import lightgbm as lgb

    X, y, sizes = features
    data = lgb.Dataset(X, y, group=sizes, free_raw_data=False)
    parameters = {
        "objective": "lambdarank",
        "metric": ["ndcg", "map"],
        "eval_at": [1, 5, 10, 1000],
        "num_leaves": 3,
        "min_data_in_leaf": 5,
        "verbosity": -1,
        "num_threads": 1,
    }
    record = {}
    booster = lgb.train(
        parameters, data, 2, valid_sets=[data], valid_names=["t"], callbacks=[lgb.record_evaluation(record)]
    )
    scores = booster.predict(X, raw_score=True)
    assert len(np.unique(scores)) < len(scores) / 4, "ties are what this test is about"
    for k in (1, 5, 10, 1000):
        ours = per_query(pr.preset("lightgbm", f"ndcg@{k}"), scores, y, sizes).mean()
        assert ours == pytest.approx(record["t"][f"ndcg@{k}"][-1], rel=1e-12)
    ours = per_query(pr.preset("lightgbm", "ap"), scores, y, sizes).mean()
    assert ours == pytest.approx(record["t"]["map@1000"][-1], rel=1e-12)


@pytest.mark.parametrize("name", ["ndcg", "ndcg@5", "ap"])
def test_xgboost(features, name):
    import xgboost as xgb

    X, y, sizes = features
    if name == "ap":
        y = (y > 0).astype(int)  # XGBoost's map takes binary labels only
    data = xgb.DMatrix(X, label=y, group=sizes)
    record = {}
    booster = xgb.train(
        {
            "objective": "rank:pairwise",
            "eval_metric": name.replace("ap", "map"),
            "max_depth": 1,
            "nthread": 1,
            "verbosity": 0,
        },
        data,
        2,
        evals=[(data, "t")],
        evals_result=record,
        verbose_eval=False,
    )
    scores = booster.predict(data)
    assert len(np.unique(scores)) < len(scores) / 4, "ties are what this test is about"
    ours = per_query(pr.preset("xgboost", name), scores, y, sizes).mean()
    assert ours == pytest.approx(next(iter(record["t"].values()))[-1], rel=1e-6)


def test_presets_refuse_what_they_cannot_reproduce():
    with pytest.raises(ValueError, match="ndcg and ndcg@k only"):
        pr.preset("scikit-learn", "ap")
    with pytest.raises(ValueError, match="'lightgbm', 'xgboost'"):
        pr.preset("solr", "ap")


@pytest.mark.parametrize(
    ("name", "tool", "plain"),
    [
        ("trec_eval:ndcg@10", "trec_eval", "ndcg@10"),
        (" TREC_eval:MAP ", "trec_eval", "ap"),
        ("ir_measures:p@5", "ir_measures", "p@5"),
        ("sklearn:ndcg", "scikit-learn", "ndcg"),
        ("scikit-learn:ndcg@3", "scikit-learn", "ndcg@3"),
        ("lightgbm:ndcg@5:seed=3", "lightgbm", "ndcg@5:seed=3"),
        ("lightgbm:ndcg@5:ties=stable", "lightgbm", "ndcg@5"),
        ("xgboost:err@10", "xgboost", "err@10"),
    ],
)
def test_conventions_by_name(name, tool, plain):
    assert pr.parse(name) == pr.preset(tool, plain)
    assert pr.parse(str(pr.parse(name))) == pr.parse(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sklearn:ap", "the scikit-learn preset offers ndcg and ndcg@k only"),
        ("trec_eval:ndcg@10:gain=exp2", "trec_eval has gain=linear, not gain=exp2: leave out trec_eval: or gain="),
        ("lightgbm:ap:empty=zero", "lightgbm has empty=one, not empty=zero"),
        ("trec_eval:", "unknown measure ''"),
        ("solr:ap", "unknown measure 'solr:ap'. Known measures: .* trec_eval:ndcg@10"),
        ("trec_eval:lightgbm:ap", "unknown measure 'lightgbm:ap'"),
    ],
)
def test_conventions_that_cannot_be_had_by_name(name, message):
    with pytest.raises(ValueError, match=message):
        pr.parse(name)


def test_names_of_conventions_wherever_measures_are_named(judged):
    """A pass of learning, an evaluation and a comparison record what the tools themselves say of the same scores."""
    import pytrec_eval
    from sklearn.metrics import ndcg_score

    scores, grades, sizes = judged
    stream = pr.QueryStream.from_arrays(scores[:, None], grades, group=sizes)
    names = ["trec_eval:ndcg@10", "trec_eval:ap", "sklearn:ndcg@10"]
    ranker = pr.FixedRanker([1.0])
    traces = [
        ranker.learn(stream, names),
        pr.evaluate(ranker, stream, names),
        pr.compare([pr.FixedRanker([1.0])], stream, names).traces["fixed"],
    ]
    qrel, run = run_of(judged)
    theirs = pytrec_eval.RelevanceEvaluator(qrel, {"ndcg_cut", "map"}).evaluate(run)
    starts = np.cumsum(sizes) - sizes
    rows = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    for trace in traces:
        for ours, their_name in zip(names, ("ndcg_cut_10", "map"), strict=False):
            expected = [theirs[str(q)][their_name] for q in range(len(sizes))]
            np.testing.assert_allclose(trace.values(ours), expected, rtol=1e-12, atol=1e-15)
        values = trace.values("sklearn:ndcg@10")
        for q in np.flatnonzero(sizes > 1):
            expected = ndcg_score(grades[None, rows[q]], scores[None, rows[q]], k=10)
            assert values[q] == pytest.approx(expected, rel=1e-12, abs=1e-15)
