"""A Python function that needs nothing but Python."""

import platform
from dataclasses import dataclass
from typing import Any

import numpy as np

from perceptrank.deploy.additive import Additive
from perceptrank.deploy.folding import Folded
from perceptrank.deploy.target import SumTarget
from perceptrank.kernels.arrays import Floats

_RANK = '''


def rank(documents):
    """Return the places of one query's documents, best first; those of equal scores stay in their order."""
    scores = [score(features) for features in documents]
    return sorted(range(len(scores)), key=lambda place: -scores[place])
'''

_SOURCE = (
    '''\
"""Scores of documents: a linear model ({algorithm}) that perceptrank has exported."""

import math

BIAS = {bias!r}
TERMS = (  # name of a feature, weight, and what is subtracted from the feature first
{terms}
)


def score(features):
    """Return the score of a document, the larger the better, for a mapping from names of features to numbers.

    {absent}
    """
    total = BIAS
    for name, weight, offset in TERMS:
        total += weight * ({value} - offset)
    if not math.isfinite(total):
        raise ValueError(f"features must be finite numbers, got {{features!r}}")
    return total'''
    + _RANK
)

_CURVES = (
    '''\
"""Scores of documents: a sum of functions of features ({algorithm}) that perceptrank has exported."""

import math
from bisect import bisect_{side}

BIAS = {bias!r}
CURVES = (  # name of a feature, {columns}
{terms}
)


def score(features):
    """Return the score of a document, the larger the better, for a mapping from names of features to numbers.

    {absent}
    """
    total = BIAS
    for name, {parts} in CURVES:
        value = {value}
        if not math.isfinite(value):
            raise ValueError(f"feature {{name}} must be a finite number, got {{value!r}}")
{body}
    return total'''
    + _RANK
)

# Of how many edges a value is above, and what that adds.
_STEPS = "        total += heights[bisect_left(edges, value)]"
_LINES = """\
        for mean, inverse in scaling:
            value = (value - mean) * inverse
        place = bisect_right(edges, value)
        if 0 < place < len(edges):
            low, high = edges[place - 1], edges[place]
            rise = heights[place] - heights[place - 1]
            total += heights[place - 1] + rise * ((value - low) / (high - low))
        else:
            total += heights[min(place, len(edges) - 1)]"""


@dataclass(frozen=True, kw_only=True)
class PythonFunction(SumTarget):
    """Source text with a function `score`, and `rank` for the documents of a query."""

    name = "python"

    def write(self, folded: Folded) -> tuple[str, list[str]]:
        terms = "\n".join(f"    ({name!a}, {weight!r}, {offset!r})," for name, weight, offset in folded.terms())
        return _SOURCE.format(terms=terms, **_settings(folded)), []

    def write_curves(self, additive: Additive) -> tuple[str, list[str]]:
        rows, parts, columns = additive.rows()
        own = {"side": "left", "body": _STEPS} if additive.has_steps else {"side": "right", "body": _LINES}
        terms = "\n".join(f"    {row!a}," for row in rows)
        return _CURVES.format(terms=terms, parts=parts, columns=columns, **own, **_settings(additive)), []

    def engine(self) -> str:
        return f"{platform.python_implementation()} {platform.python_version()}"

    def run(self, model: Folded | Additive, text: str, columns: Any) -> Floats:
        names: dict[str, Any] = {}
        exec(compile(text, "<exported>", "exec"), names)
        return np.array([names["score"](dict(zip(model.used, row, strict=True))) for row in columns.tolist()])


def _settings(model: Folded | Additive) -> dict[str, Any]:
    absent, value = "A feature that is absent is an error.", "features[name]"
    if model.is_sparse:
        absent, value = "A feature that is absent is 0.", "features.get(name, 0.0)"
    return {"algorithm": model.algorithm, "bias": model.bias, "absent": absent, "value": value}
