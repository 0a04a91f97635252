"""Forests from the text of RankLib."""

from typing import Any
from xml.etree import ElementTree

import numpy as np

from perceptrank.transforms.trees.forest import NEVER, Forest
from perceptrank.transforms.trees.reading import ForestBuilder

_KINDS = ("LambdaMART", "MART")


def parse_ranklib(text: str) -> Forest:
    """Return the forest of a file of RankLib's LambdaMART or MART; raise if it is damaged, or of another kind.

    The file does not say how many features there are: they are up to the last that a node looks at.
    """
    head = [line for line in text.splitlines() if line.startswith("##")]
    if head and (kind := head[0].strip("# \t")) not in _KINDS:
        raise ValueError(f"a model of RankLib must be one of trees, {' or '.join(_KINDS)}, got {kind[:80]!r}")
    body = "\n".join(line for line in text.splitlines() if not line.startswith("##")).strip()
    if "<!" in body:
        raise ValueError("a model of RankLib must have no declarations or comments, '<!'")  # entities could expand
    try:
        ensemble = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise ValueError(f"a model of RankLib must be trees in XML: {error}") from None
    builder, last = ForestBuilder(), 0
    for number, tree in enumerate(ensemble.findall("tree")):
        try:
            last = max(last, _add_tree(builder, tree))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            problem = f"lacks the split {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"tree {number} is damaged: {problem}") from None
    return builder.forest(max(last, 1), is_single=True)


def _add_tree(builder: ForestBuilder, tree: Any) -> int:
    """Add a tree; return the number of the last feature that it looks at, from 1 on, 0 if there is none."""
    weight = _single(tree.attrib["weight"])
    features: list[int] = []
    thresholds: list[float] = []
    values: list[float] = []
    children: tuple[list[int], list[int]] = [], []
    waiting = [(tree.find("split"), -1, 0)]
    while waiting:
        split, parent, side = waiting.pop()
        if split is None:
            raise ValueError("it has no split")
        if (output := split.find("output")) is not None:
            number = -1 - len(values)
            values.append(_single(output.text) * weight)
        else:
            number = len(features)
            features.append(int(split.findtext("feature", "")) - 1)
            thresholds.append(_single(split.findtext("threshold", "")))
            for numbers in children:
                numbers.append(0)  # until the child is there
            sides = {child.get("pos"): child for child in split.findall("split")}
            waiting += [(sides["right"], number, 1), (sides["left"], number, 0)]
        if parent >= 0:
            children[side][parent] = number
    builder.add(features, thresholds, *children, [NEVER] * len(features), values)
    return max(features, default=-1) + 1


def _single(text: str) -> float:
    with np.errstate(over="ignore"):  # what is too large becomes infinite, which no forest may have
        return float(np.float32(float(text)))
