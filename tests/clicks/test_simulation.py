"""Simulated impressions against one query after the other, and what they keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perceptrank as pr
from perceptrank.stream.columns import differences

clicks = pr.clicks
RNG = np.random.default_rng(0)
SIZES = [3, 1, 7, 4, 12, 2]
GRADED = pr.QueryStream.from_arrays(
    RNG.normal(size=(sum(SIZES), 3)).astype(np.float32),
    RNG.integers(0, 3, sum(SIZES)),
    group=SIZES,
)
WEIGHTS = [1.0, -0.5, 2.0]
USERS = [
    clicks.user("navigational", grades=3, stop="any"),
    clicks.mixture([clicks.user("informational", grades=3), clicks.contrary()], [0.7, 0.3]),
    clicks.position_based(1 / np.arange(1, 13)),
]


def assert_same(stream, other):
    assert repr(stream) == repr(other)
    assert stream.columns.keys() == other.columns.keys()
    np.testing.assert_array_equal(stream.X, other.X)
    np.testing.assert_array_equal(stream.offsets, other.offsets)
    for name, values in stream.columns.items():
        assert not differences(values, other.columns[name]).any(), name


def one_by_one(stream, user, weights, policy, n, queries, seed):
    """Show the queries one after the other; rows of documents as tuples."""
    _, showing, clicking = (np.random.default_rng([seed, i]) for i in range(3))
    rows = []
    for number, q in enumerate(queries):
        query = stream[int(q)]
        scores = [0.0] * len(query.relevance) if weights is None else np.asarray(query.X) @ weights
        order, propensity, text = clicks.policy(policy).show(scores, n, showing)
        clicked, examined = user.respond(query.relevance[order], clicking)
        for d, grade in enumerate(query.relevance):
            k = list(order).index(d) if d in order else None
            seen = (0, 0, 0, None) if k is None else (k + 1, clicked[k], examined[k], propensity[k])
            rows.append((number, str(query.qid), str(d + 1), text, grade, *query.X[d].tolist(), *seen))
    return rows


def rows_of(log):
    columns = log.per_document()
    numbers = np.repeat(log.qids, np.diff(log.offsets))
    propensity = [None if np.isnan(p) else p for p in log.propensity]
    names = [columns[name].tolist() for name in ("user_query", "docid", "policy")]
    values = zip(log.place, log.clicked, log.examined, propensity, strict=True)
    return [
        (number, *texts, grade, *x, *seen)
        for number, *texts, grade, x, seen in zip(
            numbers, *names, log.relevance, np.asarray(log.X).tolist(), values, strict=True
        )
    ]


@given(
    st.sampled_from(USERS),
    st.sampled_from(["none", "fair-pairs", "plackett-luce:0.5", "shuffle:3"]),
    st.sampled_from([None, WEIGHTS]),
    st.integers(1, 12),
    st.integers(0, 2**40),
)
@settings(max_examples=30)
def test_blocks_are_the_same_as_one_query_after_the_other(user, policy, weights, n, seed):
    log = pr.simulate_clicks(GRADED, user, ranker=weights, policy=policy, n=n, seed=seed)
    assert rows_of(log) == one_by_one(GRADED, user, weights, policy, n, range(6), seed)
    drawn = pr.simulate_clicks(GRADED, user, ranker=weights, policy=policy, n=n, seed=seed, impressions=9)
    queries = [int(text) for text in drawn.columns["user_query"]]
    assert rows_of(drawn) == one_by_one(GRADED, user, weights, policy, n, queries, seed)


def test_impressions_do_not_depend_on_blocks_or_on_how_many_follow(monkeypatch):
    whole = pr.simulate_clicks(GRADED, USERS[0], policy="plackett-luce", n=4, impressions=200, seed=5)
    assert_same(pr.simulate_clicks(GRADED, USERS[0], policy="plackett-luce", n=4, impressions=50, seed=5), whole[:50])
    once = pr.simulate_clicks(GRADED, USERS[0], policy="fair-pairs", seed=5)
    assert_same(pr.simulate_clicks([GRADED[:2], GRADED[2:]], USERS[0], policy="fair-pairs", seed=5), once)
    monkeypatch.setattr("perceptrank.clicks.simulation._BLOCK_DOCUMENTS", 10)
    scan = clicks.scan_simulated_clicks(GRADED, USERS[0], policy="plackett-luce", n=4, impressions=200, seed=5)
    assert len(list(scan)) > 50
    assert_same(pr.QueryStream.concatenate(scan), whole)
    assert_same(pr.simulate_clicks(GRADED, USERS[0], policy="fair-pairs", seed=5), once)
    other = pr.simulate_clicks(GRADED, USERS[0], policy="plackett-luce", n=4, impressions=200, seed=6)
    assert not np.array_equal(other.columns["user_query"], whole.columns["user_query"])


def test_documents_that_are_not_shown_can_be_left_out():
    settings = {"policy": "shuffle:4", "n": 3, "impressions": 40, "ranker": WEIGHTS}
    whole = pr.simulate_clicks(GRADED, USERS[0], **settings)
    shown = pr.simulate_clicks(GRADED, USERS[0], shown_only=True, **settings)
    assert (whole.place == 0).any()
    assert rows_of(shown) == [row for row in rows_of(whole) if row[-4] > 0]
    assert len(shown) == len(whole)


def test_queries_are_drawn_uniformly():
    log = pr.simulate_clicks(GRADED, USERS[0], impressions=6000, n=1, shown_only=True)
    counts = np.unique(np.asarray(log.columns["user_query"]), return_counts=True)[1]
    assert len(counts) == 6
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_rates_by_place_are_those_of_the_user():
    theta, a = np.array([1, 0.5, 0.3, 0.1]), np.array([0.2, 0.6, 0.9])
    user = clicks.position_based(theta, attraction=a)
    log = pr.simulate_clicks(GRADED, user, policy="shuffle:4", n=4, impressions=20_000, shown_only=True)
    for place in range(1, 5):
        for grade in range(3):
            here = (log.place == place) & (log.relevance == grade)
            error = 5 * np.sqrt(0.25 / here.sum())
            assert log.clicked[here].mean() == pytest.approx(theta[place - 1] * a[grade], abs=error)
            assert log.examined[here].mean() == pytest.approx(theta[place - 1], abs=error)


def test_rankers():
    learner = pr.FixedRanker(WEIGHTS)

    class Reversed:
        def scores(self, stream):
            return -learner.scores(stream)

    best = pr.simulate_clicks(GRADED, USERS[0], ranker=learner, n=12)
    worst = pr.simulate_clicks(GRADED, USERS[0], ranker=Reversed(), n=12)
    unranked = pr.simulate_clicks(GRADED, USERS[0], n=12)
    for q, (start, stop) in enumerate(zip(GRADED.offsets[:-1], GRADED.offsets[1:], strict=True)):
        expected = np.argsort(-learner.scores(GRADED)[start:stop], kind="stable")
        assert np.argsort(best.place[start:stop]).tolist() == expected.tolist()
        assert worst.place[start:stop].tolist() == [1 + SIZES[q] - place for place in best.place[start:stop]]
        assert unranked.place[start:stop].tolist() == list(range(1, 1 + SIZES[q]))
    sparse = pr.simulate_clicks(GRADED.to_sparse(), USERS[0], ranker=WEIGHTS, shown_only=True, n=2)
    assert_same(sparse.to_dense(), pr.simulate_clicks(GRADED, USERS[0], ranker=WEIGHTS, shown_only=True, n=2))


def test_what_the_stream_has_is_kept(tmp_path):
    X = np.array([[1.0], [np.nan], [2.0], [3.0]])
    columns = {"docid": list("abcd"), "query_weight": [1.0, 2.0], "comment": ["", "x", "", ""]}
    columns |= {"user_query": ["lamp", "vase"], "time": ["2026-01-01", "2026-01-02"], "session": ["s", "t"]}
    stream = pr.QueryStream(X, [0, 1, 2, 0], [0, 2, 4], qids=["u", "v"], columns=columns, missing="keep")
    log = pr.simulate_clicks(stream, USERS[0], impressions=5, shown_only=True, n=1, seed=1)
    queries = [["lamp", "vase"].index(text) for text in log.columns["user_query"]]
    assert set(queries) == {0, 1}
    assert log.docids.tolist() == [["a", "c"][q] for q in queries]
    assert log.query_weights.tolist() == [[1.0, 2.0][q] for q in queries]
    assert log.relevance.tolist() == [[0, 2][q] for q in queries]
    assert "comment" in log.columns
    assert not {"time", "session"} & set(log.columns)
    assert log.qids.tolist() == list(range(5))
    pr.write_store(log, tmp_path / "log.store")
    assert_same(pr.open_store(tmp_path / "log.store", comments=True)[:], log)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n": 0}, "n must be a whole number > 0, got 0"),
        ({"impressions": 0}, "impressions must be a whole number > 0, got 0"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"shown_only": 1}, "shown_only must be True or False"),
        ({"policy": "chaos"}, "policy must be none, fair-pairs"),
        ({"user": "perfect"}, r"user must be a user, such as perceptrank.clicks.user\('navigational'\), got 'perfect'"),
        ({"user": clicks.user("perfect", grades=2)}, "grades must be whole numbers from 0 to 1 for this user, got 2"),
        (
            {"ranker": [1.0]},
            r"ranker must have scores\(stream\), or be one weight per feature \(3\), got list of shape",
        ),
        ({"ranker": [1.0, np.nan, 0]}, "ranker must be finite, got nan at feature 1"),
        ({"ranker": type("Short", (), {"scores": lambda *_: [1.0]})()}, "score each of the 29 documents, got 1 scores"),
        ({"stream": []}, "the stream has no queries"),
        ({"stream": GRADED[:0], "impressions": 3}, "the stream has no queries"),
        ({"stream": [GRADED], "impressions": 3}, "stream must be a QueryStream if impressions are drawn, got list"),
        ({"stream": iter([GRADED])}, "must be re-iterable"),
        ({"user": clicks.position_based([1])}, "at most 1 places"),
    ],
)
def test_what_is_wrong_is_said(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pr.simulate_clicks(**({"stream": GRADED, "user": USERS[0]} | settings))


def test_clicks_need_grades():
    log = pr.simulate_clicks(GRADED, USERS[0]).with_columns({"relevance": None})
    with pytest.raises(ValueError, match="simulate_clicks needs the column 'relevance'"):
        pr.simulate_clicks(log, USERS[0])
