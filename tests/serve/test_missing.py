"""Features that documents do not have: the service takes them as the model's training did, or refuses them."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import perceptrank as pr
from perceptrank.cli.app import app
from perceptrank.io.errors import FormatError
from perceptrank.serve import ServedRanker, Settings, verify
from perceptrank.serve.documents import Document, decode_query
from perceptrank.serve.errors import FeatureMismatchError, InvalidRequestError
from perceptrank.serve.http.ranking import RankRequest

QUIET = Settings(snapshot_seconds=1e9)
ROWS = ["qid,docid,relevance,title,price", "1,a,1,3,", "1,b,0,1,5", "2,c,0,,7", "2,d,2,4,1", "3,e,1,2,", "3,f,0,1,2"]
WHOLE, ABSENT = {"title": 3.0, "price": 0.0}, {"title": 3.0}
NULL = {"title": 3.0, "price": None}
OTHER = Document("other", {"title": 1.0, "price": 4.0})


@pytest.fixture
def model(tmp_path, request):
    """A model of the command line, learned from a table that lacks some values."""
    table, path = tmp_path / "table.csv", tmp_path / "model.json"
    table.write_text("\n".join(ROWS) + "\n")
    run = CliRunner().invoke(app, ["learn", str(table), "--save", str(path), *request.param])
    assert run.exit_code == 0, run.output
    return path


def as_zero(path):
    return pytest.mark.parametrize("model", [["--zero-missing", *path]], indirect=True)


@pytest.mark.parametrize(
    "model",
    [["--zero-missing"], ["--zero-missing", "--transform", "missing"], ["--zero-missing", "--algorithm", "slam"]],
    indirect=True,
)
@pytest.mark.parametrize("features", [ABSENT, NULL, [3.0, None]], ids=["absent", "null", "list"])
def test_what_was_learned_as_0_is_0(model, tmp_path, features):
    ranker = ServedRanker(tmp_path / "s" / "r", pr.load(model), QUIET)
    expected = ranker.rank([Document("a", WHOLE), OTHER])
    ranked = ranker.rank([Document("a", features), OTHER])
    assert (ranked.scores, ranked.arranged.X.tolist()) == (expected.scores, expected.arranged.X.tolist())
    body = json.dumps({"documents": [{"id": "a", "features": features}]}).encode()
    assert decode_query(RankRequest, body, ranker.current) is None  # what is not there takes the long way
    ranker.learn([Document("a", features), OTHER], {"a": 2.0}, event_id="1").result(10)
    ranker.close()
    offline = pr.load(model)
    X = np.array([[3.0, 0.0], [1.0, 4.0]])
    offline.learn_one(X, [2.0, 0.0])
    assert json.dumps(ranker.current.learner.as_document()) == json.dumps(offline.as_document())
    assert verify(tmp_path / "s")[0].is_sound
    again = ServedRanker(tmp_path / "s" / "r", settings=QUIET)  # from its snapshot
    assert again.rank([Document("a", features), OTHER]).arranged.X[0].tolist() == [3.0, 0.0]
    again.close()


@pytest.mark.parametrize("model", [["--keep-missing", "--transform", "missing"]], indirect=True)
def test_a_model_that_fills_in_missing_values_gets_them(model, tmp_path):
    ranker = ServedRanker(tmp_path / "r", pr.load(model), QUIET)
    assert np.isnan(ranker.rank([Document("a", ABSENT), OTHER]).arranged.X[0, 1])
    ranker.close()


def test_a_model_that_does_not_say_gets_whole_documents_only(tmp_path):
    learner = pr.ListwisePerceptron()
    learner.learn(pr.QueryStream.from_arrays([[1.0, 2.0], [3.0, 4.0]], [1, 0], feature_names=["title", "price"]))
    assert "zero_missing" not in learner.as_document()
    ranker = ServedRanker(tmp_path / "r", learner, QUIET)
    with pytest.raises(FeatureMismatchError, match=r"lacks the feature 'price'.*--zero-missing"):
        ranker.rank([Document("a", ABSENT)])
    with pytest.raises(InvalidRequestError, match="must be finite numbers, got nan"):
        ranker.rank([Document("a", NULL)])
    ranker.close()


@as_zero([])
def test_a_challenger_that_is_promoted_goes_on_as_it_has_learned(model, tmp_path):
    ranker = ServedRanker(tmp_path / "s" / "r", pr.load(model), QUIET, challengers={"new": pr.SlamPerceptron()})
    for i in range(3):
        ranker.learn([Document("a", ABSENT), OTHER], {"a": 1.0}, event_id=str(i)).result(10)
    ranker.promote_challenger("new").result(10)
    assert ranker.current.learner.name == "slam"
    assert ranker.rank([Document("a", ABSENT), OTHER]).arranged.X[0].tolist() == [3.0, 0.0]
    ranker.close()
    assert verify(tmp_path / "s")[0].is_sound


@as_zero(["--dask", "--epochs", "1"])
def test_models_of_shards_say_it_too(model):
    assert pr.load(model).model.zero_missing


@as_zero([])
def test_a_model_that_is_continued_or_damaged(model, tmp_path):
    learner = pr.load(model)
    learner.learn_one([[1.0, 2.0], [2.0, 1.0]], [1, 0])
    learner.save(tmp_path / "again.json")
    assert pr.load(tmp_path / "again.json").model.zero_missing
    document = json.loads(model.read_text()) | {"zero_missing": 1}
    model.write_text(json.dumps(document))
    with pytest.raises(FormatError, match="zero_missing must be true or false, got 1"):
        pr.load(model)
