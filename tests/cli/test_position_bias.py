"""The command `position-bias`."""

import json

import numpy as np
import pytest
from support.impressions import fair_pairs, make_log

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
    pr.write_store(pr.mslr_shaped(3, n_documents=4), tmp_path / "judged")
    error = run("position-bias", tmp_path / "judged", code=1).stderr
    assert "position bias needs the columns place and clicked" in error
    assert (
        "--confidence must be between 0 and 1"
        in run("position-bias", tmp_path / "judged", "--confidence=2", code=1).stderr
    )


def test_position_bias_of_a_log_is_that_of_its_impressions(run, tmp_path):
    lines = ["impression,query,docid,place,clicked"]
    lines += [f"{i},shoes,{'ab'[i % 2]},1,{i % 3 % 2}\n{i},shoes,{'ba'[i % 2]},2,{i % 5 % 2}" for i in range(60)]
    (tmp_path / "log.csv").write_text("\n".join(lines), encoding="utf-8")
    printed = json.loads(run("position-bias", tmp_path / "log.csv", "--json").stdout)
    printed.pop("seconds")
    bias = pr.clicks.position_bias(pr.read_clicks(tmp_path / "log.csv"))
    assert bias.identified.all()
    assert printed == bias.as_plain()
