"""Judgements and position bias from shards: those of one process that reads them one after the other."""

import numpy as np
import pytest
from support.click_logs import write_lines
from support.clusters import ENGINES, Backwards, client_of

import perceptrank as pr
from perceptrank.distributed import ShardError, judgements, position_bias

pytestmark = pytest.mark.filterwarnings("default:::distributed", "default:::pyspark")  # which have some of their own
COLUMNS = ("estimate", "low", "high", "grade", "clicks", "shown", "exposure", "prior_share", "smallest_place")


@pytest.fixture(scope="module", params=ENGINES)
def client(request):
    with client_of(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def log():
    shop = pr.mslr_shaped(12, n_documents=6, n_features=3, seed=0)
    docids = [f"d{i % 17}" for i in range(shop.n_documents)]
    shop = pr.QueryStream.from_arrays(
        shop.X, shop.relevance, qid=np.repeat(shop.qids, np.diff(shop.offsets)), docids=docids
    )
    user = pr.clicks.position_based([1, 0.6, 0.5, 0.4, 0.3], attraction=[0.05, 0.3, 0.5, 0.7, 0.95])
    return pr.simulate_clicks(shop, user, policy="fair-pairs", impressions=2000, n=5, seed=0)


def assert_same(judged, expected):
    for name in ("query", "docid", "reason"):
        assert getattr(judged, name).tolist() == getattr(expected, name).tolist()
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(judged, name), getattr(expected, name))
    assert judged.n_impressions == expected.n_impressions
    assert (judged.bias is None) == (expected.bias is None)
    if judged.bias is not None:
        assert judged.bias.as_plain() == expected.bias.as_plain()


@pytest.mark.parametrize("model", ["position", "dbn", "cascade", "coec", "ctr"])
def test_judgements_are_those_of_one_process(client, log, model):
    parts = [log[:500], log[500:501], log[501:501], log[501:1600], log[1600:]]
    assert_same(judgements(parts, client, model), pr.clicks.judgements(log, model))


@pytest.mark.parametrize("method", ["auto", "swaps", "pairs", "pivot", "em", "regression-em"])
def test_position_bias_is_that_of_one_process(client, log, method):
    parts = [log[place : place + 300] for place in range(0, 2000, 300)]
    made = position_bias(parts, client, method, places=4, confidence=0.9)
    assert made.as_plain() == pr.clicks.position_bias(log, method, places=4, confidence=0.9).as_plain()


@pytest.mark.parametrize("shards", [None, 2, 7])
def test_files_are_shards(client, log, tmp_path, shards):
    expected = pr.clicks.judgements(log)
    for n, part in enumerate((log[:800], log[800:900], log[900:])):
        pr.write_store(part, tmp_path / f"{n}.store")
        pr.write_parquet(part, tmp_path / f"{n}.parquet")
    assert_same(judgements([tmp_path / f"{n}.store" for n in range(3)], client, shards=shards), expected)
    if shards != 7:  # Parquet files are not split
        assert_same(judgements(str(tmp_path / "*.parquet"), client, shards=shards), expected)


def test_sums_of_fractions_are_equal_up_to_rounding(client, log):
    """Clicks between 0 and 1, and swaps with another probability than one half."""
    user = pr.clicks.position_based([1, 0.6, 0.5, 0.4, 0.3])
    shop = pr.mslr_shaped(5, n_documents=6, n_features=3, seed=0)
    swapped = pr.simulate_clicks(shop, user, policy=pr.clicks.FairPairs(swap=0.3), impressions=3000, n=5, seed=0)
    parts = [swapped[place::7] for place in range(7)]
    made, expected = position_bias(parts, client, "swaps"), pr.clicks.position_bias(swapped, "swaps")
    np.testing.assert_allclose(made.examination, expected.examination, rtol=1e-12)
    np.testing.assert_allclose(made.high, expected.high, rtol=1e-12)
    partial = log.with_columns({"clicked": log.clicked * 0.3})
    parts = [partial[:700], partial[700:]]
    made = judgements(parts, client, bias=[1, 0.6, 0.5, 0.4, 0.3])
    expected = pr.clicks.judgements(partial, bias=[1, 0.6, 0.5, 0.4, 0.3])
    np.testing.assert_allclose(made.clicks, expected.clicks, rtol=1e-12)
    np.testing.assert_allclose(made.estimate, expected.estimate, rtol=1e-9)


@pytest.mark.engine
@pytest.mark.parametrize("kind", ["dask", "spark"])
def test_frames_are_counted_after_a_shuffle(log, kind):
    """Queries come in the order of the partitions; all that is known of each document is the same."""
    settings = {"bias": [1, 0.6, 0.5, 0.4, 0.3], "prior": (1.0, 2.0)}
    frame = log.to_frame("pandas")
    with client_of(kind) as client:
        if kind == "dask":
            import dask.dataframe as dd

            made = judgements(dd.from_pandas(frame, npartitions=5, sort=False), client, **settings)
        else:
            made = judgements(client.createDataFrame(frame).repartition(5), **settings)
    expected = pr.clicks.judgements(log, **settings)
    assert made.n_impressions == 2000
    rows, others = ({(row["query"], row["docid"]): row for row in judged.rows()} for judged in (made, expected))
    assert rows.keys() == others.keys()
    for key, row in rows.items():
        np.testing.assert_equal(row, others[key])


@pytest.fixture
def days(log, tmp_path):
    """Three logs of events, each with a file of its queries."""
    ids, texts = log.docids.tolist(), [str(qid) for qid in log.columns["user_query"].tolist()]
    paths = []
    for day, (first, last) in enumerate(((0, 300), (300, 500), (500, 600))):
        events, queries = [], []
        for i in range(first, last):
            rows = range(log.offsets[i], log.offsets[i + 1])
            rows = sorted((row for row in rows if log.place[row] > 0), key=lambda row: log.place[row])
            common = {"query_id": f"q{i}", "timestamp": f"2026-01-0{day + 1}T12:00:00Z"}
            queries.append(common | {"user_query": texts[i], "query_response_hit_ids": [ids[row] for row in rows]})
            for row in rows:
                at = {"object": {"object_id": ids[row]}, "position": {"ordinal": int(log.place[row])}}
                names = ["impression", *["click"] * int(log.clicked[row])]
                events += [common | {"action_name": name, "event_attributes": at} for name in names]
        events.append({"query_id": f"none{day}", "action_name": "click", "timestamp": "2026-01-01T12:00:00Z"})
        write_lines(tmp_path / f"events{day}.ndjson", events)
        write_lines(tmp_path / f"queries{day}.ndjson", queries)
        paths.append((tmp_path / f"events{day}.ndjson", tmp_path / f"queries{day}.ndjson"))
    return paths


@pytest.mark.parametrize("shards", [None, 2, 1])
def test_logs_of_events_are_shards(client, log, days, shards):
    events, queries = zip(*days, strict=True)
    reports, expected = [], []
    made = judgements(list(events), client, queries=queries, shards=shards, report=reports.append)
    whole = pr.read_clicks(events, queries, report=expected.append)
    assert_same(made, pr.clicks.judgements(whole))
    assert made.n_impressions == 600
    assert reports == expected
    with pytest.warns(UserWarning, match=r"600 impressions.*3 clicks are left out"):
        position_bias(list(events), client, queries=queries)


def test_an_impression_in_two_logs_is_told(days):
    events, queries = (list(paths) for paths in zip(*days, strict=True))
    twice = [*events, events[1]], [*queries, queries[1]]
    with pytest.warns(UserWarning, match=r"200 of 600 impressions are in several files, such as .*1.ndjson and .*1.nd"):
        judged = judgements(twice[0], queries=twice[1], report=lambda report: None)
    assert judged.n_impressions == 800


def test_a_log_without_impressions_adds_nothing(client, days, tmp_path):
    none = tmp_path / "none.ndjson"
    write_lines(none, [{"query_id": "z", "action_name": "click", "timestamp": "2026-01-01T12:00:00Z"}])
    reports, expected = [], []
    logs = [tmp_path / f"day{n}.ndjson" for n in range(3)]
    for log, parts in zip(logs, days, strict=True):
        log.write_text("".join(part.read_text() for part in parts))
    made = judgements([none, *logs, none], client, report=reports.append)
    assert_same(made, pr.clicks.judgements(pr.read_clicks([none, *logs, none], report=expected.append)))
    assert reports[0].impressions == expected[0].impressions == 600
    assert "5 clicks are left out" in str(reports[0])
    with pytest.raises(ValueError, match=r"there are no impressions in .*none.ndjson.*: 2 clicks are left out"):
        position_bias([none, none], client)


def test_a_table_of_clicks_without_rows_adds_nothing(client, tmp_path):
    header = "impression,query,docid,place,clicked\n"
    for name, rows in (("a", "1,q,a,1,1\n1,q,b,2,0\n"), ("none", ""), ("b", "2,q,b,1,0\n2,q,a,2,1\n")):
        (tmp_path / f"{name}.csv").write_text(header + rows)
    for names in ("none", "a", "b"), ("a", "none", "b"):
        files = [tmp_path / f"{name}.csv" for name in names]
        assert_same(judgements(files, client), pr.clicks.judgements(pr.scan_clicks(files)))
    with pytest.raises(ValueError, match=r"there are no impressions in .*none.csv: they have no rows"):
        judgements(tmp_path / "none.csv", client)


def test_errors_name_the_shard_and_its_file(client, log, days, tmp_path):
    events, queries = (list(paths) for paths in zip(*days, strict=True))
    (tmp_path / "bad.ndjson").write_text(events[0].read_text() + "nonsense\n")
    with pytest.raises(
        ShardError if client is None else Exception, match=r"bad.ndjson:\d+:1: a line must be an object"
    ) as caught:
        judgements([events[1], tmp_path / "bad.ndjson"], client, queries=queries[:2])
    if not isinstance(client, Backwards):
        assert "shard 1 (" in str(caught.value)
        assert caught.value.shard == 1
        with pytest.raises(ShardError, match=r"shard 1 \(stream 1\) failed.*'place'"):
            judgements([log, pr.mslr_shaped(3)], client)


def test_logs_that_count_from_different_places_are_refused(days, tmp_path):
    text = days[1][0].read_text()
    for place in range(1, 6):
        text = text.replace(f'"ordinal": {place}', f'"ordinal": {place - 1}')
    (tmp_path / "from0.ndjson").write_text(text)
    events, queries = [days[0][0], tmp_path / "from0.ndjson"], [days[0][1], days[1][1]]
    with pytest.raises(ValueError, match=r"from0.ndjson, beside the shards before: positions count from 0 in one log"):
        judgements(events, queries=queries)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"thresholds": [2]}, ValueError, "thresholds must be increasing"),
        ({"model": "dbn", "bias": [1.0]}, ValueError, "`bias` is for the model 'position'"),
        ({"model": "best"}, ValueError, "model must be"),
        ({"parts": []}, ValueError, "parts must not be empty"),
        ({"timeout": 0}, ValueError, "timeout"),
        ({"queries": "q.ndjson"}, TypeError, "queries can be given with logs of clicks only"),
        ({"first_place": 1}, TypeError, "first_place apply to files only"),
        ({"client": 3}, TypeError, "client must be"),
    ],
)
def test_what_is_refused(log, given, error, message):
    with pytest.raises(error, match=message):
        judgements(**{"parts": [log]} | given)


def test_what_is_refused_of_logs(log, days, tmp_path):
    events, queries = (list(paths) for paths in zip(*days, strict=True))
    pr.write_store(log, tmp_path / "log.store")
    for arguments, message in (
        ({"queries": queries[:1]}, "queries must be one file for each of 3 logs, in their order, got 1"),
        ({"shards": 4}, "shards must be at most 3, as logs are not split, got 4"),
        ({"first_place": 2}, "first_place must be 0 or 1, got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            judgements(events, **arguments)
    with pytest.raises(ValueError, match=r"of one kind: .*events0.ndjson is a log, .*log.store has impressions"):
        judgements([*events, tmp_path / "log.store"])
    with pytest.raises(TypeError, match="n_features"):
        judgements(events, n_features=3)
