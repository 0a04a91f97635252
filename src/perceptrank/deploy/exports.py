"""Exporting models, by the name of a target."""

import importlib
from dataclasses import fields
from typing import Any

from perceptrank.deploy.ranking_function import RankingFunction
from perceptrank.deploy.target import Export, Target

_TARGETS = {
    "python": ("python", "PythonFunction"),
    "javascript": ("javascript", "JavaScriptFunction"),
    "sql": ("sql", "SqlQuery"),
    "onnx": ("onnx", "OnnxGraph"),
    "elasticsearch": ("elasticsearch", "ElasticsearchModel"),
    "opensearch": ("elasticsearch", "OpenSearchModel"),
    "solr": ("solr", "SolrModel"),
    "ranklib": ("ranklib", "RankLibModel"),
    "vespa": ("vespa", "VespaProfile"),
    "pmml": ("pmml", "PmmlModel"),
    "hybrid": ("hybrid", "HybridWeights"),
}


def targets() -> list[str]:
    """Return the names of all targets.

    Examples
    --------
    >>> "python" in targets()
    True
    """
    return list(_TARGETS)


def export(model: Any, target: str, **options: Any) -> Export:
    """Export a model: return the file that another engine takes, with notes on its use.

    What a target cannot express is an error that says why and what to do; limits that change no ranking are notes.

    Parameters
    ----------
    model : learner
        It must have learned, and rank by one vector of weights.
    target : str
        One of `targets()`; docs/deploy.md has all of them, with what to do with the file.
    **options
        Those of the target.

    Raises
    ------
    ValueError
        If the model cannot be expressed, or there is no such target or option.
    ImportError
        If the target needs a package that is not installed.

    Examples
    --------
    >>> import perceptrank as pr
    >>> ranker = pr.ListwisePerceptron(transforms=None)
    >>> ranker.learn_one([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    True
    >>> exported = export(ranker, "python")
    >>> exported.notes
    ('the features have no names: they are f1 to f2, in the order of the columns',)
    >>> names = {}
    >>> exec(exported.text, names)
    >>> names["score"]({"f1": 1.0, "f2": 0.0}) == float(ranker.predict([[1.0, 0.0]])[0])
    True
    """
    chosen, function = make_target(target, options), RankingFunction.of(model)
    return chosen.settled(model, function).export(function)


def make_target(name: str, options: dict[str, Any]) -> Target:
    """Return the target of a name, with options."""
    if name not in _TARGETS:
        raise ValueError(f"target must be one of {', '.join(map(repr, _TARGETS))}, got {name!r}")
    module, class_name = _TARGETS[name]
    kind: type[Target] = getattr(importlib.import_module(f"perceptrank.deploy.engines.{module}"), class_name)
    known = [option.name for option in fields(kind)]
    for option in options:
        if option not in known:
            has = f"has the options {', '.join(known)}" if known else "has no options"
            raise ValueError(f"the target {name} {has}, got {option!r}")
    return kind(**options)
