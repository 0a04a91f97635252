"""Weights of a linear ranker in files of others: names and weights as JSON, and the linear models of search engines.

- `{"title_bm25": 1.0, "in_stock": 0.5}`: names and weights;
- Apache Solr's `LinearModel`, as it is uploaded or listed, with its normalizers;
- a `model/linear` of the Elasticsearch and OpenSearch LTR plugins, as it is uploaded or returned, with its normalizers.

Weights of normalized features become those of features as they are: both engines normalize by (x - a) / b, so a weight
is divided by b, and what is left is the same constant for every document.
"""

import json
import math
from pathlib import Path
from typing import Any

from perceptrank.io.errors import FileFormatError
from perceptrank.io.model_file import FORMAT

_KNOWN = "JSON: names and weights, Solr's LinearModel, or model/linear of the LTR plugin of Elasticsearch or OpenSearch"
_SOLR = "org.apache.solr.ltr.model."
_SPANS = {"StandardNormalizer": ("std",), "MinMaxNormalizer": ("max", "min"), "IdentityNormalizer": ()}
_ENGINE_SPANS = {"standard": ("standard_deviation",), "min_max": ("maximum", "minimum")}


class _WeightsError(ValueError):
    """Something in the file is not as it must be."""


def is_model(path: str | Path) -> bool:
    """Tell whether a file is a model of this package, or no JSON at all, which reading it as such reports."""
    try:
        document = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError):
        return True
    return isinstance(document, dict) and document.get("format") == FORMAT


def read_weights(path: str | Path) -> dict[str, float]:
    """Read names and weights of features from any of the files above; raise `FormatError` if it is another."""
    try:
        document = json.loads(Path(path).read_bytes(), object_pairs_hook=_without_repeats)
        weights = _weights_in(document)
        if not weights:
            raise _WeightsError("has no weights")
    except _WeightsError as error:
        raise FileFormatError(path, f" {error}") from None
    except (ValueError, RecursionError) as error:
        raise FileFormatError(path, f" must be {_KNOWN}: {error}") from None
    return weights


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise _WeightsError(f"has {_shown(name)} twice")
        members[name] = value
    return members


def _weights_in(document: Any) -> dict[str, float]:
    if isinstance(document, dict) and document and all(map(_is_number, document.values())):
        return {name: _finite(name, weight) for name, weight in document.items()}
    models = [*_models_in(document)]
    if len(models) > 1:
        raise _WeightsError(f"has {len(models)} models: give a file with one")
    if models:
        model = models[0]
        return _of_solr(model) if _is_solr(model) else _of_engine(model)
    wrong = [name for name in document if not _is_number(document[name])] if isinstance(document, dict) else []
    if wrong and len(wrong) < len(document):
        raise _WeightsError(f"has {_shown(document[wrong[0]])} for the weight of {wrong[0]!r}, which must be a number")
    raise _WeightsError(f"must be {_KNOWN}")


def _models_in(document: Any) -> Any:
    """Iterate over everything in a document that is a model of an engine, at any depth."""
    if isinstance(document, dict) and (_is_solr(document) or str(document.get("type", "")).startswith("model/")):
        yield document
        return
    inside = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    for value in inside:
        yield from _models_in(value)


def _is_solr(document: dict[str, Any]) -> bool:
    return isinstance(document.get("class"), str) and document["class"].startswith(_SOLR)


def _of_solr(model: dict[str, Any]) -> dict[str, float]:
    kind = model["class"].removeprefix(_SOLR)
    if kind != "LinearModel":
        raise _WeightsError(f"has a {kind}; of Solr's models a LinearModel alone is weights")
    params = model.get("params")
    weights = _object("params.weights", params.get("weights") if isinstance(params, dict) else None)
    spans = {}
    features = model.get("features") or []
    if not isinstance(features, list):
        raise _WeightsError(f"must have a list as features, got {_shown(features)}")
    for feature in features:
        if not isinstance(feature, dict) or not isinstance(feature.get("name"), str):
            raise _WeightsError("has features that are not objects with a name")
        if feature.get("norm") is not None:
            norm = _object("norm", feature["norm"])
            kind = str(norm.get("class")).rpartition(".")[2]
            parameters = _object("the parameters of norm", norm.get("params") or {})
            spans[feature["name"]] = _span(feature["name"], kind, parameters, _SPANS)
    return _divided(weights, spans)


def _of_engine(model: dict[str, Any]) -> dict[str, float]:
    if model["type"] != "model/linear":
        raise _WeightsError(f"has a {model['type']}; of the LTR plugin's models model/linear alone is weights")
    definition = model.get("definition")
    if isinstance(definition, str):
        definition = json.loads(definition, object_pairs_hook=_without_repeats)
    weights, spans = _object("definition", definition), {}
    for name, normalizer in _object("feature_normalizers", model.get("feature_normalizers") or {}).items():
        parts = list(_object(f"the normalizer of {name!r}", normalizer).items())
        if len(parts) != 1:
            raise _WeightsError(f"must have one normalizer for {name!r}, got {len(parts)}")
        spans[name] = _span(name, parts[0][0], _object(f"the normalizer of {name!r}", parts[0][1]), _ENGINE_SPANS)
    return _divided(weights, spans)


def _span(name: str, kind: str, parameters: dict[str, Any], known: dict[str, tuple[str, ...]]) -> float:
    """Return what a normalizer divides a feature by."""
    if kind not in known:
        raise _WeightsError(f"has a normalizer of {name!r} that is none of {', '.join(known)}: {kind}")
    try:
        values = [float(parameters[parameter]) for parameter in known[kind]]  # Solr has them as text
    except (KeyError, TypeError, ValueError):
        raise _WeightsError(f"has no numbers {' and '.join(known[kind])} in the normalizer of {name!r}") from None
    span = values[0] - values[1] if len(values) == 2 else values[0] if values else 1.0
    if not 0 < span < math.inf:
        raise _WeightsError(f"has a normalizer of {name!r} that divides by {span:g}, which must be > 0")
    return span


def _divided(weights: dict[str, Any], spans: dict[str, float]) -> dict[str, float]:
    return {name: _finite(name, _finite(name, weight) / spans.get(name, 1.0)) for name, weight in weights.items()}


def _object(what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _WeightsError(f"must have an object as {what}, got {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _finite(name: str, weight: Any) -> float:
    try:
        number = float(weight) if _is_number(weight) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _WeightsError(f"has {_shown(weight)} for the weight of {name!r}, which must be a finite number")
    return number
