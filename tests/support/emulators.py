"""Engines as they read what is exported: emulators of them that take every number from the file.

Tests put these in the place of the package's own emulation, which does not read the file: what is written is then
what is compared with the model.
"""

import ast
import json
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np

from perceptrank.deploy.additive import read_additive
from perceptrank.deploy.engines.float_model import FloatModel, FloatTerm
from perceptrank.deploy.engines.hybrid import HybridWeights
from perceptrank.deploy.engines.pmml import SPACE, PmmlModel
from perceptrank.deploy.engines.score_shift import SHIFT_FEATURE
from perceptrank.deploy.engines.solr import SolrModel, with_slack
from perceptrank.deploy.engines.trees import is_linear
from perceptrank.deploy.engines.vespa import VespaProfile
from perceptrank.deploy.target import FillingTarget, fold_filled
from perceptrank.transforms.hybrid_scores import HybridScores

_NUMBER = r"\d[\d.]*(?:e[+-]?\d+)?"
_TERM = re.compile(rf"([+-]?) ?({_NUMBER})(?: \* (?:\((\w+) ([+-]) ({_NUMBER})\)|(\w+)))?")
_FUNCTION = re.compile(r"function (\w+)\(\) \{\n +expression: (.+)\n")
_FILLED = re.compile(rf"if \(isNan\((.+)\) == 1, (-?{_NUMBER}), \1\)")

_filling_scores = FillingTarget.scores
_hybrid_scores = HybridWeights.scores


def install(monkeypatch):
    """Let parity without an engine read the exported file."""
    monkeypatch.setattr(FillingTarget, "scores", filling_scores)
    monkeypatch.setattr(FloatModel, "run", float_scores)
    monkeypatch.setattr(HybridWeights, "scores", hybrid_scores)


def filling_scores(target, function, export, X, offsets):
    if target.harness is not None:
        return _filling_scores(target, function, export, X, offsets)
    given = read_additive(function) or fold_filled(function)
    read = {VespaProfile: vespa_scores, PmmlModel: pmml_scores}[type(target)]
    return read(target, given.used, export.text, given.columns(X))


def hybrid_scores(target, function, export, X, offsets):
    """Rank by the weights and the normalization of the request, in the order of its clauses."""
    scores, shares = read_shares(json.loads(export.text))

    class FromFile(HybridWeights):
        def _shares(self, function):
            return dict(zip(function.names, shares, strict=True))

    return _hybrid_scores(FromFile(), replace(function, transforms=[scores]), export, X, offsets)


def read_shares(body):
    """Return normalization and weights of a request as the engine has them, in the order of its clauses."""
    if "retriever" in body:
        ((kind, retriever),) = body["retriever"].items()
        shares = [part["weight"] for part in retriever["retrievers"]]
        if kind == "rrf":
            return HybridScores("elasticsearch", "rrf", rank_constant=retriever["rank_constant"]), shares
        (which,) = {part["normalizer"] for part in retriever["retrievers"]}
        return HybridScores("elasticsearch", {"minmax": "min_max", "l2_norm": "l2"}[which]), shares
    ((kind, processor),) = body["phase_results_processors"][0].items()
    shares = processor["combination"]["parameters"]["weights"]
    if kind == "score-ranker-processor":
        return HybridScores("opensearch", "rrf", rank_constant=processor["combination"]["rank_constant"]), shares
    return HybridScores("opensearch", processor["normalization"]["technique"]), shares


def float_scores(target, given, text, columns):
    names, body, is_solr = list(given.used), json.loads(text), isinstance(target, SolrModel)
    values = columns.astype(np.float32)
    scores = np.zeros(len(values), np.float32)
    if not is_linear(given):
        by_name = dict(zip(names, values.T, strict=True))
        if is_solr:
            leaves = [solr_leaf(tree["root"], by_name) for tree in body["params"]["trees"]]
        else:
            trees = json.loads(body["model"]["model"]["definition"])
            leaves = [xgboost_leaf(tree, by_name) for tree in trees]
        for leaf in leaves:
            scores = scores + leaf
        return scores.astype(np.float64)
    if target.shift.value:
        names, values = [*names, SHIFT_FEATURE], np.column_stack([values, np.ones(len(values), np.float32)])
    read = solr_terms if is_solr else elasticsearch_terms
    for j, (_, weight, mean, spread) in enumerate(read(body, names)):
        scores = scores + np.float32(weight) * ((values[:, j] - np.float32(mean)) / np.float32(spread))
    return scores.astype(np.float64)


def elasticsearch_terms(body, names):
    """Return the features of a request's body, in the order of the feature set."""
    model = body["model"]["model"]
    weights, normalizers = json.loads(model["definition"]), model.get("feature_normalizers", {})
    one = {"standard": {"mean": 0.0, "standard_deviation": 1.0}}
    found = [(name, normalizers.get(name, one)["standard"]) for name in names]
    return [FloatTerm(name, weights[name], how["mean"], how["standard_deviation"]) for name, how in found]


def solr_terms(body, names):
    """Return the features of a request's body, in their order."""
    found = []
    for feature in body["features"]:
        params = feature.get("norm", {}).get("params", {"avg": "0", "std": "1"})
        weight = body["params"]["weights"][feature["name"]]
        found.append(FloatTerm(feature["name"], weight, float(params["avg"]), float(params["std"])))
    return found


def xgboost_leaf(node, values):
    if "leaf" in node:
        return np.float32(node["leaf"])
    ways = {child["nodeid"]: xgboost_leaf(child, values) for child in node["children"]}
    is_less = values[node["split"]] < np.float32(node["split_condition"])
    return np.where(is_less, ways[node["yes"]], ways[node["no"]])


def solr_leaf(node, values):
    if "feature" not in node:
        return np.float32(node["value"])
    is_up = values[node["feature"]] <= np.float32(with_slack(float(node["threshold"])))
    return np.where(is_up, solr_leaf(node["left"], values), solr_leaf(node["right"], values))


def vespa_scores(target, names, text, columns):
    """Return the scores that the rank profile means: its functions and terms are read from it."""
    words, _ = target._words(names)
    given = {target._reference(name, words): columns[:, j] for j, name in enumerate(names)}
    values = {}
    for name, expression in _FUNCTION.findall(text):
        values[name] = _computed(expression, given, values)
    scores = np.zeros(len(columns))
    for sign, weight, shifted, way, offset, plain in _read_terms(text):
        product = float(sign + weight)
        if shifted:
            product = product * (values[shifted] + float(way + offset))
        elif plain:
            product = product * values[plain]
        scores = scores + product
    return scores


def _read_terms(text):
    inside = text.split("        expression {\n")[1].split("\n        }\n", 1)[0]
    for line in inside.split("\n"):
        found = _TERM.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"the rank profile has a term that cannot be read: {line.strip()!r}")
        yield tuple(part or "" for part in found.groups())


def _computed(expression, given, made):
    """Return the value of a function, by rank features and the functions before it."""
    filled = _FILLED.fullmatch(expression)
    if filled is not None:
        value = given[filled[1]]
        return np.where(np.isnan(value), float(filled[2]), value)
    if expression.startswith("isNan("):
        return np.isnan(given[expression[len("isNan(") : -1]]).astype(np.float64)
    if expression in given:
        return given[expression]
    return _evaluated(ast.parse(expression.replace("if (", "choose("), mode="eval").body, made)


def _evaluated(node, made):
    """Return the value of an expression of numbers, functions, and conditions."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return made[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_evaluated(inner, made)
        case ast.BinOp(left=left, op=how, right=right):
            operation = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide}[type(how)]
            return operation(_evaluated(left, made), _evaluated(right, made))
        case ast.Compare(left=left, ops=[how], comparators=[right]):
            one, other = _evaluated(left, made), _evaluated(right, made)
            return one == other if isinstance(how, ast.Eq) else one <= other
        case ast.Call(func=ast.Name(id="isNan"), args=[inner]):
            return np.isnan(_evaluated(inner, made))
        case ast.Call(func=ast.Name(id="choose"), args=[condition, one_way, other_way]):
            return np.where(_evaluated(condition, made), _evaluated(one_way, made), _evaluated(other_way, made))
    raise ValueError(f"the rank profile has an expression that cannot be read: {ast.unparse(node)!r}")


def pmml_scores(target, names, text, columns):
    """Return the scores that the document means: its fields and table are read from it."""
    values = {name: columns[:, j] for j, name in enumerate(names)}
    model = ET.fromstring(text).find(_tag("RegressionModel"))
    assert model is not None
    for field in model.iter(_tag("MiningField")):
        if "missingValueReplacement" in field.attrib:
            value = values[field.attrib["name"]]
            replacement = float(field.attrib["missingValueReplacement"])
            values[field.attrib["name"]] = np.where(np.isnan(value), replacement, value)
    for field in model.iter(_tag("DerivedField")):
        values[field.attrib["name"]] = _computed_field(field[0], values)
    table = model.find(_tag("RegressionTable"))
    assert table is not None
    scores = np.full(len(columns), float(table.attrib["intercept"]))
    for one in table:
        scores = scores + float(one.attrib["coefficient"]) * values[one.attrib["name"]]
    return scores


def _computed_field(node, values):
    if node.tag == _tag("Discretize"):
        intervals = [one.find(_tag("Interval")) for one in node]
        edges = [float(one.attrib["rightMargin"]) for one in intervals[:-1] if one is not None]
        heights = np.array([float(one.attrib["binValue"]) for one in node])
        return heights[np.searchsorted(edges, values[node.attrib["field"]], side="left")]
    if node.tag == _tag("NormContinuous"):
        knots = np.array([[float(one.attrib["orig"]), float(one.attrib["norm"])] for one in node])
        return np.interp(values[node.attrib["field"]], *knots.T)
    if node.tag == _tag("FieldRef"):
        return values[node.attrib["field"]]
    if node.tag == _tag("Constant"):
        return float(node.text or "")
    parts = [_computed_field(part, values) for part in node]
    match node.attrib["function"]:
        case "-":
            return parts[0] - parts[1]
        case "*":
            return parts[0] * parts[1]
        case "lessOrEqual":
            return parts[0] <= parts[1]
        case "isMissing":
            return np.isnan(parts[0])
        case "if":
            return np.where(*parts)
    raise ValueError(f"the document has a function that cannot be read: {node.attrib['function']!r}")


def _tag(name):
    return f"{{{SPACE}}}{name}"
