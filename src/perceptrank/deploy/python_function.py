"""A Python function that needs nothing but Python."""

import platform
from dataclasses import dataclass
from typing import Any

import numpy as np

from perceptrank.deploy.folding import Folded
from perceptrank.deploy.target import LinearTarget
from perceptrank.kernels.arrays import Floats

_SOURCE = '''\
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
    return total


def rank(documents):
    """Return the places of one query's documents, best first; those of equal scores stay in their order."""
    scores = [score(features) for features in documents]
    return sorted(range(len(scores)), key=lambda place: -scores[place])
'''


@dataclass(frozen=True, kw_only=True)
class PythonFunction(LinearTarget):
    """Source text with a function `score`, and `rank` for the documents of a query."""

    name = "python"

    def write(self, folded: Folded) -> tuple[str, list[str]]:
        """Return the source text."""
        terms = "\n".join(f"    ({name!a}, {weight!r}, {offset!r})," for name, weight, offset in folded.terms())
        absent, value = "A feature that is absent is an error.", "features[name]"
        if folded.is_sparse:
            absent, value = "A feature that is absent is 0.", "features.get(name, 0.0)"
        text = _SOURCE.format(algorithm=folded.algorithm, bias=folded.bias, terms=terms, absent=absent, value=value)
        return text, []

    def engine(self) -> str:
        """Name the Python that runs."""
        return f"{platform.python_implementation()} {platform.python_version()}"

    def run(self, folded: Folded, text: str, columns: Any) -> Floats:
        """Return the scores that the function gives to documents."""
        made: dict[str, Any] = {}
        exec(compile(text, "<exported>", "exec"), made)
        names = [term.name for term in folded.terms()]
        return np.array([made["score"](dict(zip(names, row, strict=True))) for row in columns.tolist()])
