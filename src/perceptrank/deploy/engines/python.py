"""A Python function that needs nothing but Python."""

import platform
from dataclasses import dataclass
from typing import Any

import numpy as np

from perceptrank.deploy.additive import Additive, table_of
from perceptrank.deploy.folding import Folded
from perceptrank.deploy.forests import node_rows
from perceptrank.deploy.target import SumTarget
from perceptrank.kernels.arrays import Floats

_SOURCE = '''\
"""Scores of documents: {model.kind} ({model.algorithm}) that perceptrank has exported."""

import math
{more_imports}
BIAS = {model.bias!r}
{table.name} = (  # name of a feature, {table.columns}
{rows}
)
{trees}

def score(features):
    """Return the score of a document, the larger the better, for a mapping from names of features to numbers.

    {absent}
    """
    total = BIAS
    for name, {table.parts} in {table.name}:
{body}
    return total


def rank(documents):
    """Return the places of one query's documents, best first; those of equal scores stay in their order."""
    scores = [score(features) for features in documents]
    return sorted(range(len(scores)), key=lambda place: -scores[place])
'''

_PRODUCTS = """\
        total += weight * ({value} - offset)
    if not math.isfinite(total):
        raise ValueError(f"features must be finite numbers, got {{features!r}}")"""
_TREES = """\
# Trees. A document goes from a node to the first of two others if the feature is not above the number, else to the
# second. Those below 0 are leaves: node -1 is the first, -2 the second.
NODES = (
{nodes}
)
ROOTS = {roots}
LEAVES = {leaves}
"""
_WALKS = """
    for node in ROOTS:
        while node >= 0:
            name, highest, first, second = NODES[node]
            node = first if {value} <= highest else second
        total += LEAVES[-1 - node]"""
_CHECKED = """\
        value = {value}
        if not math.isfinite(value):
            raise ValueError(f"feature {{name}} must be a finite number, got {{value!r}}")
"""
# Of how many edges a value is above, and what that adds.
_STEPS = f"{_CHECKED}        total += heights[bisect_left(edges, value)]"
_LINES = f"""{_CHECKED}\
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

    def write(self, model: Folded | Additive) -> tuple[str, list[str]]:
        body, more_imports, trees = _PRODUCTS, "", ""
        if model.forest is not None:
            body = _PRODUCTS + _WALKS
            trees = _TREES.format(
                nodes="\n".join(f"    {row!a}," for row in node_rows(model.forest, model.names)),
                roots=tuple(model.forest.roots.tolist()),
                leaves=tuple(model.forest.values.tolist()),
            )
        if isinstance(model, Additive):
            body, side = (_STEPS, "left") if model.has_steps else (_LINES, "right")
            more_imports = f"from bisect import bisect_{side}\n"
        absent, value = "A feature that is absent is an error.", "features[name]"
        if model.is_sparse:
            absent, value = "A feature that is absent is 0.", "features.get(name, 0.0)"
        table = table_of(model)
        text = _SOURCE.format(
            model=model,
            table=table,
            more_imports=more_imports,
            trees=trees,
            rows="\n".join(f"    {row!a}," for row in table.rows),
            absent=absent,
            body=body.format(value=value),
        )
        return text, []

    def engine(self) -> str:
        return f"{platform.python_implementation()} {platform.python_version()}"

    def run(self, model: Folded | Additive, text: str, columns: Any) -> Floats:
        names: dict[str, Any] = {}
        exec(compile(text, "<exported>", "exec"), names)
        return np.array([names["score"](dict(zip(model.used, row, strict=True))) for row in columns.tolist()])
