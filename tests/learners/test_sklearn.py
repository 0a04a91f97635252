"""The rankers as scikit-learn estimators."""

import re
import subprocess
import sys

import numpy as np
import pytest
from support.learners import IMPLEMENTATIONS, LEARNERS, checks, classifies, every_kind

import perceptrank as pr
from perceptrank.learners.learning import accepts_sparse, measure_of

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

EXPECTED_TO_FAIL = {
    "check_estimators_unfitted": "a cold start is legal: before the first query every score is 0",
    "check_fit_score_takes_y": "score needs qid, and the check gives none",
    "check_pipeline_consistency": "score needs qid, and the check gives none",
    "check_do_not_raise_errors_in_init_or_set_params": "a wrong parameter is reported at once, not when it is used",
    "check_sample_weight_equivalence_on_dense_data": "weights are those of queries, and no number of copies",
}

ONE_QUERY = {"check_sample_weights_not_overwritten": "the check gives no qid, so that all rows are one query"}
SPARSE = {"check_sample_weight_equivalence_on_sparse_data": "weights are those of queries, and no number of copies"}
REFUSING = {"check_sample_weights_list": "the learner takes no weights"}
WITHIN_QUERIES = {"check_methods_subset_invariance": "a score depends on the other rows of its query"}


def scales_in_queries(learner):
    return any(leaf.scope == "query" for transform in learner.transforms_ for leaf in transform.leaves())


@checks(IMPLEMENTATIONS.values(), settings=LEARNERS)
@pytest.mark.filterwarnings("ignore")  # that we do not inherit from BaseEstimator is the point
def test_estimator_checks(make):
    """All at once: pytest takes far longer to show the source of expected failures than the checks themselves take."""
    expected = EXPECTED_TO_FAIL | (WITHIN_QUERIES if scales_in_queries(make()) else {})
    expected |= {} if classifies(make()) else ONE_QUERY
    expected |= SPARSE if accepts_sparse(make(), make().model) else {}
    expected |= REFUSING if re.search("prank|oap|buffered|kernel", make().name) else {}
    results = check_estimator(make(), expected_failed_checks=expected, on_skip=None)
    assert {one["check_name"] for one in results if one["status"] == "xfail"} == set(expected)
    assert len(results) > 30


@pytest.fixture
def data():
    stream = pr.separable(60, n_documents=8, n_features=5, seed=2).stream
    qid = np.repeat(stream.qids, 8)
    shuffle = np.random.default_rng(0).permutation(len(qid))
    return np.array(stream.X)[shuffle], np.array(stream.relevance)[shuffle], qid[shuffle]


def test_fit_measures_nothing(data):
    """There is no trace to return, and measuring takes as long as learning."""
    asked = []

    class Noting(pr.ListwisePerceptron):
        def learn(self, stream, measures=None):
            asked.append(measures)
            return super().learn(stream, measures)

    X, y, qid = data
    Noting().fit(X, y, qid=qid, n_passes=3)
    assert asked == [[]] * 3


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@every_kind
def test_clone(kind, data):
    X, y, qid = data
    ranker = kind(transforms="query-zscore").fit(X, y, qid=qid)
    copy = clone(ranker)
    assert copy.get_params() == ranker.get_params()
    learned = "dual_coef_" if kind is pr.KernelPerceptron else "coef_"
    assert not hasattr(copy, learned)
    assert hasattr(ranker, learned)


@every_kind
def test_pipeline(kind, data):
    X, y, qid = data
    pipeline = make_pipeline(StandardScaler(), kind())
    name = pipeline.steps[-1][0]
    pipeline.fit(X, y, **{f"{name}__qid": qid})
    direct = kind().fit(StandardScaler().fit_transform(X), y, qid=qid)
    assert np.array_equal(pipeline.predict(X), direct.predict(StandardScaler().fit_transform(X)))


@every_kind
def test_qid_is_routed(kind, data, routing):
    X, y, qid = data
    pipeline = Pipeline([("scale", StandardScaler()), ("rank", kind())]).fit(X, y, qid=qid)
    assert 0.5 < pipeline.score(X, y, qid=qid) <= 1
    assert pipeline["rank"].n_queries == 60


@every_kind
def test_grid_search_with_groups(kind, data, routing):
    X, y, qid = data
    grid = {"average": [False, True], "learning_rate": [0.001, 0.01], "strategy": ["leader", "hedge"]}
    grid = {name: values for name, values in grid.items() if name in kind.parameter_names}
    search = GridSearchCV(kind(), grid, cv=GroupKFold(3))
    search.fit(X, y, qid=qid, groups=qid)
    assert 0.5 < search.best_score_ <= 1
    scores = cross_val_score(kind(), X, y, cv=GroupKFold(3), params={"qid": qid, "groups": qid})
    assert len(scores) == 3


def test_a_search_without_routing_names_the_line_that_it_needs():
    stream = pr.separable(150, n_documents=10, n_features=3, seed=2).stream
    X, y, qid = np.array(stream.X), stream.relevance, np.repeat(stream.qids, 10)
    search = GridSearchCV(pr.SlamPerceptron(), {"learning_rate": [0.1, 1.0]}, cv=GroupKFold(4))
    with pytest.raises(ValueError, match=r"rows would be the documents of one query: give qid, .* after the line skl"):
        search.fit(X, y, groups=qid)
    with sklearn.config_context(enable_metadata_routing=True):  # which that line does
        assert search.fit(X, y, qid=qid, groups=qid).best_estimator_.n_queries == 150
    with pytest.raises(ValueError, match=r"score needs qid .* after the line sklearn\.set_config"):
        pr.SlamPerceptron().fit(X, y, group=[1500]).score(X, y)
    assert pr.SlamPerceptron().fit(pr.QueryStream.from_arrays(X, y)).n_queries == 1


def test_permutation_importance(data):
    """It hands over rows alone, so that the scorer knows their queries."""
    X, y, qid = data
    X = np.column_stack([X, np.zeros(len(X))])
    for ranker in (pr.ListwisePerceptron(), pr.SlamPerceptron(transforms=None)):
        ranker.fit(X, y, qid=qid)
        scorer = pr.make_scorer("ndcg@5", qid=qid)
        stream = pr.QueryStream.from_arrays(X, y, qid=qid)
        assert scorer(ranker, X, y) == pytest.approx(pr.evaluate(ranker, stream, "ndcg@5").mean("ndcg@5"), rel=1e-12)
        found = permutation_importance(ranker, X, y, scoring=scorer, n_repeats=3, random_state=0)
        assert found.importances_mean[:5].max() > 0.01
        assert found.importances_mean[5] == 0.0
    weights = (qid % 3).astype(float)
    expected = pr.SlamPerceptron("ndcg@5", transforms=None).fit(X, y, qid=qid)
    assert scorer(expected, X, y, sample_weight=weights) == expected.score(X, y, qid=qid, sample_weight=weights)
    with pytest.raises(ValueError, match=r"qid of make_scorer must be that of the rows .* got 480 for 100 rows"):
        scorer(ranker, X[:100], y[:100])
    with pytest.raises(ValueError, match=r"a scorer needs the query of each row: the line sklearn\.set_config"):
        pr.make_scorer("ndcg@5")(ranker, X, y)


def test_scorers_are_routed(data, routing):
    X, y, qid = data
    params = {"qid": qid, "groups": qid}
    for ranker in (pr.ListwisePerceptron("ndcg@5"), make_pipeline(StandardScaler(), pr.ListwisePerceptron("ndcg@5"))):
        own = cross_val_score(ranker, X, y, cv=GroupKFold(3), params=params)
        scores = cross_val_score(ranker, X, y, cv=GroupKFold(3), params=params, scoring=pr.make_scorer("ndcg@5"))
        np.testing.assert_allclose(scores, own, rtol=1e-12)
    scoring = {"ndcg": pr.make_scorer("ndcg"), "first": pr.make_scorer(pr.Precision(1))}
    search = GridSearchCV(
        pr.ListwisePerceptron(), {"average": [True]}, cv=GroupKFold(3), scoring=scoring, refit="first"
    )
    search.fit(X, y, qid=qid, groups=qid)
    assert 0.5 < search.cv_results_["mean_test_ndcg"][0] <= 1
    other = cross_val_score(  # an estimator that knows no queries
        LinearRegression(), X, y, cv=GroupKFold(3), params=params, scoring=pr.make_scorer("ndcg")
    )
    assert (other > 0.5).all()


def test_a_pipeline_scales_query_by_query(data, routing):
    X, y, qid = data
    ranker = pr.MinimaxPerceptron(transforms="query-zscore")
    pipeline = make_pipeline(StandardScaler(), ranker).fit(X, y, qid=qid)
    scaled = pipeline[0].transform(X)
    np.testing.assert_array_equal(pipeline.predict(X, qid=qid), pipeline[-1].predict(scaled, qid=qid))
    assert not np.array_equal(pipeline.predict(X, qid=qid), pipeline.predict(X))


def test_requests_can_be_changed(data, routing):
    X, y, qid = data
    ranker = pr.SlamPerceptron().set_fit_request(qid="query").set_score_request(qid=False)
    assert clone(ranker).get_metadata_routing().fit.requests["qid"] == "query"
    pipeline = make_pipeline(StandardScaler(), ranker).fit(X, y, query=qid)
    assert pipeline[-1].n_queries == 60


def test_data_frames_carry_their_names(data):
    pandas = pytest.importorskip("pandas")
    X, y, qid = data
    frame = pandas.DataFrame(X, columns=list("abcde"))
    ranker = pr.ListwisePerceptron().fit(frame, y, qid=qid)
    assert list(ranker.feature_names_in_) == list("abcde")
    assert np.array_equal(ranker.predict(frame), ranker.predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        ranker.predict(frame[list("edcba")])


def test_scikit_learn_is_not_imported_by_us():
    code = (
        "import sys, numpy as np, perceptrank as pr; r = pr.ListwisePerceptron().fit(np.eye(3), [0, 1, 2]);"
        "r.predict(np.eye(3)); r.get_params(); repr(r); assert not [m for m in sys.modules if m.startswith('sklearn')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@every_kind
def test_sample_weights_are_those_of_queries(kind, data):
    X, y, qid = data
    of_query = np.random.default_rng(1).choice([0.0, 0.25, 1.0], size=qid.max() + 1)
    order = np.unique(qid, return_index=True)[1].argsort()
    stream = pr.QueryStream.from_arrays(X, y, qid=qid, query_weights=of_query[np.unique(qid)[order]])
    np.testing.assert_array_equal(stream.query_weights, of_query[stream.qids])
    ranker, other = kind(), kind()
    if not kind.accepts_query_weights and kind.algorithm not in ("sum", "tournament"):
        with pytest.raises(ValueError, match="takes no query weights"):
            ranker.fit(X, y, qid=qid, sample_weight=of_query[qid])
        return
    other.learn(stream)
    ranker.fit(X, y, qid=qid, sample_weight=of_query[qid])
    np.testing.assert_array_equal(ranker.predict(X, qid=qid), other.predict(X, qid=qid))
    other.learn(stream)
    ranker.partial_fit(X, y, qid=qid, sample_weight=of_query[qid])
    np.testing.assert_array_equal(ranker.predict(X, qid=qid), other.predict(X, qid=qid))
    values = pr.evaluate(ranker, stream, measure_of(ranker)).values(measure_of(ranker))
    counted = ~np.isnan(values)
    expected = np.average(values[counted], weights=stream.query_weights[counted])
    assert ranker.score(X, y, qid=qid, sample_weight=of_query[qid]) == pytest.approx(expected, rel=1e-12)
    assert ranker.score(stream) == pytest.approx(expected, rel=1e-12)


def test_sample_weights_of_a_classifier_are_those_of_examples(data):
    X, y, _ = data
    weights = np.random.default_rng(2).random(len(y))
    fitted, looped = pr.Perceptron().fit(X, y > 1, sample_weight=weights), pr.Perceptron()
    for x, label, weight in zip(X, y > 1, weights, strict=True):
        looped.learn_one(x, label, weight)
    np.testing.assert_array_equal(fitted.weights, looped.weights)


def test_wrong_sample_weights(data):
    X, y, qid = data
    weights = np.ones(len(y))
    weights[qid == 7] = np.arange(1, 9)
    ranker = pr.RankNet()
    with pytest.raises(ValueError, match=r"same for all documents of a query, got 1.0 and 2.0 in query 7"):
        ranker.fit(X, y, qid=qid, sample_weight=weights)
    with pytest.raises(
        ValueError, match=r"sample_weight must have one number per document, shape \(480,\), got \(60,\)"
    ):
        ranker.fit(X, y, qid=qid, sample_weight=np.ones(60))
    with pytest.raises(ValueError, match="all weights are zero"):
        ranker.fit(X, y, qid=qid, sample_weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match="finite and not negative"):
        ranker.fit(X, y, qid=qid, sample_weight=-weights)
    with pytest.raises(ValueError, match="holds grades, queries and their weights already"):
        ranker.fit(pr.QueryStream.from_arrays(X, y, qid=qid), sample_weight=weights)
    assert ranker.n_queries == 0


def test_sample_weights_are_routed_if_asked_for(data, routing):
    X, y, qid = data
    weights = (qid % 3).astype(float)
    ranker = pr.RankNet().set_fit_request(sample_weight=True).set_score_request(sample_weight="importance")
    requests = clone(ranker).get_metadata_routing()
    assert requests.fit.requests == {"qid": True, "sample_weight": True}
    assert requests.score.requests == {"qid": True, "sample_weight": "importance"}
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(scaler, ranker).fit(X, y, qid=qid, sample_weight=weights)
    direct = pr.RankNet().fit(StandardScaler().fit_transform(X), y, qid=qid, sample_weight=weights)
    np.testing.assert_array_equal(pipeline[-1].coef_, direct.coef_)
    with pytest.raises(TypeError, match="takes qid and sample_weight, got weight"):
        ranker.set_fit_request(weight=True)
