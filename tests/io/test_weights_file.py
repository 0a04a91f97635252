"""Weights in files of others."""

import json

import pytest

import perceptrank as pr
from perceptrank.io.weights_file import is_model, read_weights

SOLR = {
    "class": "org.apache.solr.ltr.model.LinearModel",
    "name": "shop",
    "store": "shop_features",
    "features": [
        {"name": "title"},
        {
            "name": "price",
            "norm": {"class": "org.apache.solr.ltr.norm.StandardNormalizer", "params": {"avg": "20", "std": "4.0"}},
        },
        {
            "name": "stock",
            "norm": {"class": "org.apache.solr.ltr.norm.MinMaxNormalizer", "params": {"min": "1", "max": "3"}},
        },
    ],
    "params": {"weights": {"title": 1.0, "price": -2.0, "stock": 5}},
}
LINEAR = {"type": "model/linear", "definition": {"title": 1.0, "price": -2.0, "stock": 5}}
NORMALIZERS = {
    "price": {"standard": {"mean": 20, "standard_deviation": 4.0}},
    "stock": {"min_max": {"minimum": 1, "maximum": 3}},
}
RAW = {"title": 1.0, "price": -0.5, "stock": 2.5}


def written(tmp_path, document):
    path = tmp_path / "weights.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.mark.parametrize(
    "document",
    [
        RAW,
        SOLR,
        [SOLR],
        {"responseHeader": {"status": 0}, "models": [SOLR]},
        LINEAR | {"feature_normalizers": NORMALIZERS},
        {"model": {"name": "m", "model": LINEAR | {"feature_normalizers": NORMALIZERS}}},
        {"model": {"name": "m", "model": {"type": "model/linear", "definition": json.dumps(RAW)}}},
        {"_index": ".ltrstore", "_source": {"type": "model", "model": {"model": LINEAR | {"definition": RAW}}}},
    ],
)
def test_weights_of_features_as_they_are(document, tmp_path):
    path = written(tmp_path, document)
    assert read_weights(path) == RAW
    assert not is_model(path)


def test_normalized_scores_and_raw_ones_differ_by_a_constant(tmp_path):
    """The engines' own arithmetic: weight times (x - average) / deviation, and (x - min) / (max - min)."""
    weights = read_weights(written(tmp_path, SOLR))
    differences = []
    for title, price, stock in ((1.0, 2.0, 3.0), (-4.0, 0.5, 9.0), (0.0, 0.0, 0.0)):
        engine = 1.0 * title - 2.0 * ((price - 20) / 4.0) + 5 * ((stock - 1) / (3 - 1))
        raw = weights["title"] * title + weights["price"] * price + weights["stock"] * stock
        differences.append(engine - raw)
    assert differences == pytest.approx([differences[0]] * 3)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{}", "must be JSON: names and weights"),
        ("[1, 2]", "must be JSON: names and weights"),
        ("7", "must be JSON: names and weights"),
        ("{", "must be JSON: names and weights"),
        ('{"a": 1, "a": 2}', "has 'a' twice"),
        ('{"a": 1, "b": "2"}', "has '2' for the weight of 'b', which must be a number"),
        ('{"a": NaN}', "has nan for the weight of 'a', which must be a finite number"),
        ('{"a": 1e999}', "has inf for the weight of 'a'"),
        (f'{{"a": 1{"0" * 400}}}', "for the weight of 'a', which must be a finite number"),
        ([SOLR, SOLR], "has 2 models"),
        (SOLR | {"class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"}, "has a MultipleAdditiveTreesModel"),
        (SOLR | {"params": {}}, "must have an object as params.weights, got None"),
        (SOLR | {"params": {"weights": {}}}, "has no weights"),
        (SOLR | {"params": {"weights": {"title": "x"}}}, "has 'x' for the weight of 'title'"),
        (SOLR | {"features": [{"name": "title", "norm": {"class": "a.Log"}}]}, "normalizer of 'title' that is none of"),
        (
            SOLR | {"features": [{"name": "title", "norm": {"class": "a.StandardNormalizer", "params": {"std": "0"}}}]},
            "normalizer of 'title' that divides by 0",
        ),
        (
            SOLR | {"features": [{"name": "title", "norm": {"class": "a.StandardNormalizer"}}]},
            "has no numbers std in the normalizer of 'title'",
        ),
        ({"type": "model/ranklib", "definition": "## LambdaMART"}, "has a model/ranklib"),
        (LINEAR | {"feature_normalizers": {"price": {}}}, "must have one normalizer for 'price', got 0"),
        (LINEAR | {"definition": [1]}, r"must have an object as definition, got \[1\]"),
    ],
)
def test_what_is_no_weights(document, message, tmp_path):
    path = written(tmp_path, document)
    with pytest.raises(pr.FormatError, match=message) as error:
        read_weights(path)
    assert str(error.value).startswith(str(path))


def test_models_of_ours_are_not_weights(tmp_path):
    pr.ListwisePerceptron().save(tmp_path / "model.json")
    assert is_model(tmp_path / "model.json")
    (tmp_path / "model.json").write_text("no JSON")  # as which a damaged model is reported
    assert is_model(tmp_path / "model.json")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"type": "model/linear", "class": 3, "definition": {"a": 1}}, None),
        (
            {"class": "org.apache.solr.ltr.model.LinearModel", "features": 5, "params": {"weights": {"a": 1}}},
            "a list as",
        ),
        (
            {
                "class": "org.apache.solr.ltr.model.LinearModel",
                "features": [{"name": "a", "norm": {"class": "x.StandardNormalizer", "params": 3}}],
                "params": {"weights": {"a": 1}},
            },
            "an object as the parameters of norm, got 3",
        ),
        (
            {
                "type": "model/linear",
                "definition": {"a": 1e300},
                "feature_normalizers": {"a": {"standard": {"mean": 0, "standard_deviation": 1e-300}}},
            },
            "inf for the weight of 'a', which must be a finite number",
        ),
        ({"a": 1, "b": "x" * 1000}, r"has 'x{76}… for the weight of 'b'"),
    ],
)
def test_documents_of_others_that_are_odd(tmp_path, document, problem):
    path = tmp_path / "w.json"
    path.write_text(json.dumps(document))
    if problem is None:
        assert read_weights(path) == {"a": 1.0}
        return
    with pytest.raises(pr.FormatError, match=problem):
        read_weights(path)


def test_a_name_twice_among_many(tmp_path):
    path = tmp_path / "w.json"
    path.write_text("{" + ", ".join(f'"f{j}": 1' for j in range(100_000)) + ', "f99999": 2}')
    with pytest.raises(pr.FormatError, match="has 'f99999' twice"):
        read_weights(path)
