"""Judgements against slow twins that are written from the definitions, and the files that they become."""

import csv
import json
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import gammaln

import perceptrank as pr
from perceptrank.clicks.judging.models import MAX_RANK, fit_prior

judge = pr.clicks.judgements


def make_log(impressions, **columns):
    """A log of impressions: (query, [(document, place, clicked), …])."""
    rows = [row for _, documents in impressions for row in documents]
    docids, place, clicked = zip(*rows, strict=True)
    return pr.QueryStream.from_arrays(
        np.empty((len(rows), 0)),
        group=[len(documents) for _, documents in impressions],
        docids=docids,
        place=place,
        clicked=clicked,
        columns={"user_query": [query for query, _ in impressions], **columns},
    )


@st.composite
def impressions(draw, values=(0.0, 1.0)):
    log = []
    for _ in range(draw(st.integers(1, 12))):
        size = draw(st.integers(1, 4))
        documents = draw(st.permutations("abcdé"))[:size]
        places = draw(st.permutations(range(1, 7)))[:size]
        shown = [draw(st.booleans()) for _ in range(size)]
        clicks = [draw(st.sampled_from(values)) for _ in range(size)]
        rows = [
            (document, place if is_shown else 0, click if is_shown else 0.0)
            for document, place, is_shown, click in zip(documents, places, shown, clicks, strict=True)
        ]
        log.append((draw(st.sampled_from(["shoes", "red, hats"])), rows))
    # What all logs have, so that none is empty.
    return [*log, ("shoes", [("a", 1, 1.0), ("b", 2, 0.0)])]


def twin(impressions, examination):
    """Sums from the definitions, impression by impression."""
    sums = defaultdict(lambda: defaultdict(float))
    for query, rows in impressions:
        shown = sorted((place, document, click) for document, place, click in rows if place > 0)
        clicked = [place for place, _, click in shown if click > 0]
        for place, document, click in shown:
            pair = sums[query, document]
            pair["clicks"] += click
            pair["shown"] += 1
            pair["exposure"] += examination[place - 1]
            pair["places"] = (*(pair["places"] or ()), place)
            if not clicked or place <= clicked[-1]:
                pair["above last"] += 1
                pair["last"] += click if clicked and place == clicked[-1] else 0
            if not clicked or place <= clicked[0]:
                pair["above first"] += 1
                pair["first"] += click if clicked and place == clicked[0] else 0
    return sums


EXAMINATION = np.array([1.0, 0.8, 0.5, 0.3, 0.2, 0.1])


@given(impressions(values=(0.0, 0.25, 1.0)))
def test_estimates_are_those_of_the_definitions(log):
    sums = twin(log, EXAMINATION)
    alpha, beta = 0.5, 2.0
    stream = make_log(log)
    for model, clicks, seen in (
        ("position", "clicks", "exposure"),
        ("cascade", "first", "above first"),
        ("dbn", "clicks", "above last"),
    ):
        bias = EXAMINATION if model == "position" else None
        judged = judge(stream, model, bias, prior=(alpha, beta))
        assert len(judged) == len(sums)
        for row in judged.rows():
            pair = sums[row["query"], row["docid"]]
            assert (row["clicks"], row["shown"]) == (pair["clicks"], pair["shown"])
            assert (row["smallest_place"], row["largest_place"]) == (min(pair["places"]), max(pair["places"]))
            assert row["exposure"] == pytest.approx(pair[seen])
            if not row["identified"]:
                assert np.isnan(row["estimate"])
                assert (row["low"], row["high"]) == (0, 1)
                assert row["reason"]
                assert np.isnan(row["grade"])
                assert pair[seen] == 0 or row["reason"].startswith("more clicks than")
                continue
            expected = min(1, (pair[clicks] + alpha) / (pair[seen] + alpha + beta))
            if model == "dbn":
                expected *= (pair["last"] + alpha) / (pair["clicks"] + alpha + beta)
            assert row["estimate"] == pytest.approx(expected)
            assert row["prior_share"] == pytest.approx((alpha + beta) / (pair[seen] + alpha + beta))
            assert 0 <= row["low"] < row["high"] <= 1


@example([("shoes", [("a", 0, 0.0)]), ("hats", [("a", 1, 0.0)]), ("shoes", [("a", 1, 1.0)])], 1)
@given(impressions(), st.integers(1, 5))
def test_sums_of_parts_are_the_sums_of_the_log(log, cut):
    stream = make_log(log)
    cut = min(cut, len(stream) - 1)
    settings = {"bias": EXAMINATION, "prior": (0.5, 2.0)}  # a prior that is fitted depends on the order by rounding
    whole = judge(stream, **settings)
    sums = [pr.clicks.JudgementSums() for _ in range(2)]
    for part, block in zip(sums, (stream[cut:], stream[:cut]), strict=True):
        for query in range(len(block)):
            part.add(block[query : query + 1])
    parts = judge(sums[0] + sums[1], **settings)
    blocks = judge([stream[:cut], stream[cut:]], **settings)

    def by_pair(judged):
        rows = list(judged.rows())
        return {(row["query"], row["docid"]): tuple(map(str, row.values())) for row in rows}

    assert by_pair(parts) == by_pair(whole)
    assert list(map(str, blocks.rows())) == list(map(str, whole.rows()))
    assert parts.n_impressions == whole.n_impressions == len(stream)


@given(impressions())
def test_coec_is_what_opensearch_computes(log):
    log = [*log, ("hats", [("low", MAX_RANK - 1, 1.0), ("last", MAX_RANK, 1.0), ("lost", MAX_RANK + 1, 1.0)])]
    clicks, shown, smallest = defaultdict(float), defaultdict(float), {}
    place_clicks, place_shown = defaultdict(float), defaultdict(float)
    for query, rows in log:
        for document, place, click in rows:
            if 0 < place <= MAX_RANK:
                pair = query, document
                clicks[pair] += click
                shown[pair] += 1
                smallest[pair] = min(place, smallest.get(pair, place))
                place_clicks[place] += click
                place_shown[place] += 1
    judged = judge(make_log(log), "coec")
    for row in judged.rows():
        pair = row["query"], row["docid"]
        rank = smallest.get(pair)
        rate = place_clicks[rank] / place_shown[rank] if rank is not None and rank < MAX_RANK else 0.0
        expected = rate * shown[pair]
        assert row["estimate"] == pytest.approx(clicks[pair] / expected if expected > 0 else 0.0)
        assert np.isnan(row["low"])
        assert np.isnan(row["grade"])
    rates = judge(make_log(log), "ctr")
    assert rates.estimate.tolist() == (rates.clicks / rates.shown).tolist()
    assert judged.ungraded() == {"model coec has no intervals": len(judged)}


def test_a_grade_needs_an_interval_within_one_band():
    rows = [("good", 1, 1.0), ("bad", 2, 0.0), ("seldom", 3, 0.0)]
    log = [("shoes", rows[:2])] * 199 + [("shoes", rows)]
    judged = judge(make_log(log), bias=EXAMINATION)
    grades = dict(zip(judged.docid.tolist(), judged.grade.tolist(), strict=True))
    assert (grades["good"], grades["bad"]) == (4.0, 0.0)
    assert np.isnan(grades["seldom"])
    assert judged.ungraded() == {"interval spans several bands": 1}
    coarse = judge(make_log(log), bias=EXAMINATION, thresholds=(0.9999,))
    assert coarse.docid[coarse.grade == 0].tolist() == ["bad"]


@pytest.mark.parametrize("model", ["position", "dbn", "cascade", "coec", "ctr"])
@pytest.mark.parametrize("clicked", [0.0, 1.0])
def test_logs_with_no_clicks_or_only_clicks(model, clicked):
    for n in (1, 30):
        log = make_log([("shoes", [("a", 1, clicked)])] * n + [("hats", [("a", 2, clicked), ("b", 1, clicked)])])
        judged = judge(log, model, [1.0, 0.5] if model == "position" else None)
        assert len(judged) == 3
        assert judged.query.tolist() == ["shoes", "hats", "hats"]
        known = judged.identified
        assert np.isfinite(judged.estimate[known]).all()
        assert known[0]
        if model in ("position", "dbn", "cascade"):
            assert (judged.low[known] <= judged.estimate[known]).all()
            assert (judged.estimate[known] <= judged.high[known]).all()


def test_what_was_not_shown_is_not_judged():
    judged = judge(make_log([("shoes", [("a", 1, 1.0), ("never", 0, 0.0)])]), bias=[1.0])
    assert judged.docid.tolist() == ["a"]
    with pytest.raises(ValueError, match="no document with an id was shown"):
        judge(make_log([("shoes", [("never", 0, 0.0)])]), bias=[1.0])


def test_documents_without_an_id_are_counted_and_said():
    judged = judge(make_log([("shoes", [("a", 1, 1.0), ("", 2, 1.0)])]), bias=[1.0, 0.5])
    assert judged.docid.tolist() == ["a"]
    assert judged.notes == ("1 shown documents without an id are not judged",)


def test_the_query_is_what_the_user_asked_or_the_id_of_the_impression():
    log = make_log([("shoes", [("a", 1, 1.0)]), ("shoes", [("a", 1, 0.0)]), ("", [("a", 1, 0.0)])])
    assert judge(log, bias=[1.0]).query.tolist() == ["shoes", "2"]
    assert judge(log.with_columns({"user_query": None}), bias=[1.0]).query.tolist() == ["0", "1", "2"]


def test_places_of_unknown_examination_are_left_out_and_said():
    rows = [("a", 1, 1.0), ("b", 2, 1.0), ("c", 3, 0.0)]
    swapped = [("a", 2, 1.0), ("b", 1, 0.0), ("c", 3, 1.0)]
    judged = judge(make_log([("shoes", rows), ("shoes", swapped)]), bias=[1.0, np.nan])
    by_id = {row["docid"]: row for row in judged.rows()}
    assert by_id["a"]["identified"]
    assert by_id["a"]["exposure"] == 1.0
    assert by_id["a"]["reason"] == "1 impressions left out: examination of place 2 is not known (NaN in `bias`)"
    assert not by_id["c"]["identified"]
    assert by_id["c"]["reason"] == ("examination of place 3 is not known (beyond the places of the position bias)")
    assert (by_id["c"]["low"], by_id["c"]["high"]) == (0.0, 1.0)
    assert np.isnan(by_id["c"]["estimate"])
    assert judged.docid[-1] == "c"


def test_position_bias_that_is_not_identified_gives_no_numbers_below_the_first_place():
    log = make_log([("shoes", [("a", 1, 1.0), ("b", 2, 1.0)]), ("shoes", [("a", 1, 0.0), ("b", 2, 0.0)])] * 300)
    judged = judge(log)
    by_id = {row["docid"]: row for row in judged.rows()}
    assert by_id["a"]["identified"]
    assert not by_id["b"]["identified"]
    assert np.isnan(by_id["b"]["grade"])
    assert "place 2" in by_id["b"]["reason"]


def test_position_bias_is_estimated_from_the_log_and_its_error_counts():
    rng = np.random.default_rng(1)
    log = []
    for _ in range(400):
        order = ["a", "b"] if rng.random() < 0.5 else ["b", "a"]
        clicks = rng.random(2) < np.array([1.0, 0.5]) * [{"a": 0.8, "b": 0.3}[document] for document in order]
        log.append(("shoes", [(document, k + 1, float(clicks[k])) for k, document in enumerate(order)]))
    stream = make_log(log, policy=["fair-pairs:1"] * 400)
    judged, bias = judge(stream), pr.clicks.position_bias(stream)
    np.testing.assert_array_equal(judged.bias.examination, bias.examination)
    exact = judge(stream, bias=np.minimum(bias.examination, 1.0))
    np.testing.assert_allclose(judged.estimate, exact.estimate, rtol=1e-9)
    assert (judged.low < exact.low).all()
    assert (judged.high > exact.high).all()
    with pytest.raises(ValueError, match="bias must be given with sums"):
        judge(pr.clicks.JudgementSums())


def test_more_clicks_than_the_bias_allows_are_no_judgement():
    log = make_log([("shoes", [("a", 2, 1.0)])] * 40)
    row = next(judge(log, bias=[1.0, 0.1]).rows())
    assert not row["identified"]
    assert row["reason"] == "more clicks than the examination of its places allows"


def test_unknown_propensities_make_no_difference():
    log = make_log([("shoes", [("a", 1, 1.0), ("b", 2, 0.0)])] * 5)
    other = log.with_columns({"propensity": [np.nan, 0.5] * 5})
    assert list(map(str, judge(log, bias=EXAMINATION).rows())) == list(map(str, judge(other, bias=EXAMINATION).rows()))


def test_the_prior_maximizes_the_likelihood_and_has_a_mean_for_each_place():
    rng = np.random.default_rng(0)
    place = np.repeat([1.0, 2.1, 7.0], 400)
    mean = np.repeat([0.6, 0.3, 0.1], 400)
    exposure = rng.uniform(1, 30, 1200)
    clicks = rng.poisson(exposure * rng.gamma(5 * mean, 1 / 5)).astype(float)
    prior = fit_prior(clicks, exposure, place)
    strength = prior.strength[0]
    assert np.ptp(prior.strength) < 1e-9
    assert 4 < strength < 6.3
    np.testing.assert_allclose(np.unique((prior.alpha / strength).round(9)), [0.1, 0.3, 0.6], atol=0.05)

    def likelihood(s):
        """Negative binomial, one document after the other."""
        total = 0.0
        for c, e, m in zip(clicks, exposure, prior.alpha / strength, strict=True):
            shape, p = m * s, s / (s + e)
            total += gammaln(c + shape) - gammaln(shape) - gammaln(c + 1) + shape * np.log(p) + c * np.log(1 - p)
        return total

    assert likelihood(strength) > max(likelihood(strength * 0.98), likelihood(strength * 1.02))


def test_ties_are_in_the_order_of_the_log():
    log = make_log([("shoes", [("z", 1, 0.0)]), ("shoes", [("a", 1, 0.0)]), ("shoes", [("m", 1, 0.0)])])
    assert judge(log, bias=[1.0]).docid.tolist() == ["z", "a", "m"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "pbm"}, "model must be one of 'position', 'dbn', 'cascade', 'coec', 'ctr', got 'pbm'"),
        ({"bias": [1.0, 0.0]}, "bias must be above 0 and at most 1, or NaN, got 0.0 at place 2"),
        ({"bias": [[1.0]]}, "bias must have one probability for each place"),
        ({"bias": [1.0], "model": "dbn"}, "`bias` is for the model 'position'"),
        ({"thresholds": (0.5, 0.4)}, "thresholds must be increasing numbers between 0 and 1, got"),
        ({"thresholds": ()}, "thresholds must be increasing"),
        ({"confidence": 95}, "confidence must be between 0 and 1, got 95"),
        ({"bias": [1.0], "prior": (0, 0)}, "prior must be a pair"),
        ({"bias": [1.0], "prior": 3}, "prior must be a pair"),
    ],
)
def test_arguments_are_checked(settings, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        judge(make_log([("shoes", [("a", 1, 1.0)])]), **settings)


def test_a_stream_without_clicks_is_refused_by_the_names_of_its_columns():
    with pytest.raises(ValueError, match="judging needs the columns 'place', 'clicked' and 'docid'"):
        judge(pr.QueryStream.from_arrays([[1.0]], [1]), bias=[1.0])


QUERIES = ['red "shoes", size 9', "hats", "é\n", "12"]


@pytest.fixture
def judged():
    """Judgements of four queries, of which a document each is graded 4, one 0, and one has no grade."""
    rows = [("good", 1, 1.0), ("bad", 2, 0.0)]
    log = [(query, rows) for query in QUERIES for _ in range(100)]
    log += [(query, [*rows, ("seldom", 3, 0.0)]) for query in QUERIES]
    return judge(make_log(log), bias=EXAMINATION)


def write_features(path):
    """Features of all documents as JSON lines."""
    lines = [
        {"query": query, "docid": docid, "bm25": value, "price": -value}
        for query in QUERIES
        for docid, value in (("good", 3.0), ("bad", 1.0), ("seldom", 2.0))
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_files_with_all_columns_are_read_back(tmp_path, judged):
    for name in ("full.csv", "full.jsonl"):
        assert judged.write(tmp_path / name) == 12
    with (tmp_path / "full.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (tmp_path / "full.jsonl").read_text().splitlines()]
    for row, line, expected in zip(rows, lines, judged.rows(), strict=True):
        assert list(row) == list(line) == list(expected)
        for column, value in expected.items():
            if isinstance(value, bool):
                assert (row[column], line[column]) == (str(value).lower(), value)
            elif isinstance(value, float):
                assert float(row[column] or "nan") == value or (value != value and line[column] is None)  # noqa: PLR0124
                assert value != value or line[column] == value  # noqa: PLR0124
            else:
                assert (row[column], line[column]) == (str(value), value)


@pytest.mark.parametrize("name", ["judged.csv", "judged.jsonl"])
def test_what_is_written_can_be_learned_from(tmp_path, judged, name):
    judged.write(tmp_path / name)
    features = write_features(tmp_path / "features.jsonl")
    unused = pytest.warns(UserWarning, match="columns that are not used")
    with unused, pytest.warns(UserWarning, match="4 rows without a grade are left out"):
        stream = pr.read_table(tmp_path / name, features)
    assert (len(stream), stream.feature_names) == (4, ("bm25", "price"))
    ranker = pr.ListwisePerceptron()
    ranker.learn(stream)
    assert pr.evaluate(ranker, stream, "ndcg").mean("ndcg") == 1
    with unused:
        estimates = pr.read_table(tmp_path / name, features, relevance="estimate")
    assert estimates.n_documents == 12
    expected = {(row["query"], row["docid"]): row["estimate"] for row in judged.rows()}
    for query in estimates:
        for docid, relevance in zip(query.docids.tolist(), query.relevance.tolist(), strict=True):
            assert expected[query.qid, docid] == relevance


def test_quepid_imports_the_file(tmp_path, judged):
    """Its own check splits the first line at commas, and compares it as text: no carriage return, no quotes."""
    path = tmp_path / "ratings.csv"
    assert judged.write(path, "quepid") == 8
    text = path.read_bytes().decode()
    assert text.split("\n")[0].split(",") == ["query", "docid", "rating"]
    assert "\r" not in text
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert rows == [[query, docid, rating] for query in QUERIES for docid, rating in (("good", "4"), ("bad", "0"))]
    with pytest.warns(UserWarning, match="left out"):
        assert pr.read_table(path, write_features(tmp_path / "features.jsonl")).n_documents == 8
    assert judged.write(path, "quepid", ratings="estimate") == 12


def test_the_workbench_imports_the_file(tmp_path, judged):
    """Its importer casts document ids and ratings to text, and parses ratings as numbers."""
    path = tmp_path / "clicks-of-may.json"
    assert judged.write(path) == 8
    body = json.loads(path.read_text())
    assert (body["name"], body["type"]) == ("clicks-of-may", "IMPORT_JUDGMENT")
    assert [each["query"] for each in body["judgmentRatings"]] == QUERIES
    assert body["judgmentRatings"][0]["ratings"] == [
        {"docId": "good", "rating": "4"},
        {"docId": "bad", "rating": "0"},
    ]
    judged.write(path, ratings="estimate")
    ratings = json.loads(path.read_text())["judgmentRatings"][0]["ratings"]
    assert [float(each["rating"]) for each in ratings] == judged.estimate[:3].tolist()


def test_files_that_cannot_be_written_say_why(tmp_path, judged):
    with pytest.raises(ValueError, match="the suffix of a file of judgements must be one of"):
        judged.write(tmp_path / "judged.parquet")
    with pytest.raises(ValueError, match=r"all columns must be one of \.csv, \.jsonl, \.ndjson"):
        judged.write(tmp_path / "judged.json", "full")
    unsure = judge(make_log([("shoes", [("a", 1, 1.0)])]), bias=[1.0])
    with pytest.raises(ValueError, match="none of 1 documents has a rating: interval spans several bands; `ratings="):
        unsure.write(tmp_path / "ratings.csv", "quepid")
    assert not list(tmp_path.iterdir())


def test_a_log_with_features_becomes_a_stream_of_graded_queries(judged):
    X = np.arange(24.0).reshape(12, 2)
    docids = ["good", "bad", "seldom"] * 4
    features = pr.QueryStream.from_arrays(
        X, qid=np.repeat(QUERIES, 3), docids=docids, place=[1, 2, 3] * 4, clicked=[0] * 12
    )
    stream = judged.to_stream(features, "grade")
    assert stream.qids.tolist() == QUERIES
    assert stream.relevance.tolist() == [4.0, 0.0] * 4
    np.testing.assert_array_equal(stream.X, X[[0, 1, 3, 4, 6, 7, 9, 10]])
    assert judged.to_stream([features[:2], features[2:]]).n_documents == 12
    assert judged.to_stream(features.to_sparse()).is_sparse
    with pytest.raises(ValueError, match="blocks must have the same features"):
        judged.to_stream([features[:2], features[2:].with_features(X[6:], feature_names=["a", "b"])])
    # Impressions of the same query: the features are those of the first.
    asked = features.with_columns({"user_query": ["hats"] * 4})
    with pytest.warns(UserWarning, match="6 judgements without features are left out"):
        first = judged.to_stream(asked, "grade")
    np.testing.assert_array_equal(first.X, X[:2])
    with pytest.raises(ValueError, match="none of 12 judgements has features"):
        judged.to_stream(features.with_columns({"user_query": ["other"] * 4}))


def test_a_frame_has_the_columns_of_the_file(judged):
    pytest.importorskip("pandas")
    frame = judged.to_frame()
    assert frame["docid"].tolist() == judged.docid.tolist()
    assert list(frame.columns) == list(next(judged.rows()))


def test_the_summary_adds_up(judged):
    plain = json.loads(json.dumps(judged.as_plain()))
    assert plain["documents"] == plain["graded"] + sum(plain["not graded"].values()) == 12
    assert plain["grades"] == {"0": 4, "4": 4}
    assert (plain["queries"], plain["impressions"]) == (4, 404)


def test_documents_without_ids_are_not_said_to_be_unshown():
    log = pr.QueryStream.from_arrays(np.empty((2, 0)), group=[2], docids=["", ""], place=[1, 2], clicked=[1, 0])
    with pytest.raises(ValueError, match="no document with an id was shown: those that were shown have no id"):
        pr.clicks.judgements(log)
