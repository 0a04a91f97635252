"""The command `position-bias`."""

import json

import numpy as np
import pytest
from support.impressions import fair_pairs, make_log
from support.index_stand_in import IndexStandIn, as_records, make_ubi_log
from support.ltr_stand_in import served

import perceptrank as pr


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(0)
    lists = fair_pairs(3, 3) * 20
    pr.write_store(make_log(lists, rng.random((len(lists), 3)) < [0.8, 0.5, 0.3]), tmp_path / "impressions")
    return tmp_path / "impressions"


def test_position_bias_is_that_of_the_library(run, store):
    bias = pr.clicks.position_bias(pr.open_store(store), "swaps", places=4, confidence=0.9)
    printed = json.loads(
        run("position-bias", store, "--method=swaps", "--places=4", "--confidence=0.9", "--json").stdout
    )
    assert printed.pop("seconds") >= 0
    assert printed == bias.as_plain()
    text = run("position-bias", store, "--places", 4).stdout
    assert "Not identified, place 4: never shown." in text
    assert "was chosen" in text


def test_a_file_without_clicks_is_refused(run, tmp_path):
    pr.write_store(pr.mslr_shaped(3, n_documents=4), tmp_path / "judged.store")
    error = run("position-bias", tmp_path / "judged.store", code=1).stderr
    assert "position bias needs the columns 'place' and 'clicked'" in error
    assert (
        "--confidence must be between 0 and 1"
        in run("position-bias", tmp_path / "judged.store", "--confidence=2", code=1).stderr
    )


def test_logs_are_read_as_judge_reads_them(run, tmp_path):
    events, queries = make_ubi_log()
    for name, records in (("events", as_records(events)), ("queries", as_records(queries))):
        (tmp_path / f"{name}.ndjson").write_text("".join(json.dumps(record) + "\n" for record in records))
    words = ["position-bias", tmp_path / "events.ndjson", "--queries", tmp_path / "queries.ndjson", "--json"]
    bias = json.loads(run(*words).stdout)
    assert [place["shown"] for place in bias["places"]] == [60, 60, 60, 40, 20]
    stand_in = IndexStandIn()
    stand_in.write("ubi_events", events)
    stand_in.write("ubi_queries", queries)
    with served(stand_in) as url:
        live = json.loads(run("position-bias", url, "--json").stdout)
        assert live | {"seconds": 0} == bias | {"seconds": 0}
        secret = url.replace("http://", "http://ada:secret@")
        error = run("learn", secret, code=1).stderr
        assert (
            "an address of a live engine is no file: it is read as a log of clicks, by read_clicks or --clicks" in error
        )
        assert "secret" not in error
        run("convert", "--clicks", secret, tmp_path / "log.parquet", "--log", "since=2026-11-15")
    assert len(pr.read_parquet(tmp_path / "log.parquet", features=[])) == 18
