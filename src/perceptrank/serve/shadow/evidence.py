"""Evidence of clicks on randomised lists for rankers: values from 0 to 1 that running comparisons take.

Clicks alone do not tell which of two rankers is better: users click what is shown high. Only the random part of what
was shown does. A fair preference is the difference of the clicks on two neighbours whose order a coin has drawn, each
order counting alike; a ranker gets it if it orders the two that way. In expectation, two rankers then differ by how
much more the documents are clicked that one of them prefers, whoever the users are and whatever was shown. So one log
compares any number of challengers with the model that ranks.

But neighbours in a list are those that its ranker is unsure about. On such pairs, another ranker that knows other
things is often right, even if it is far worse where the first is sure. So half of a comparison is by lists that the
model ranks, half by lists that the challenger ranks: whoever corrects the other's lists more often is better. Both are
explored in the same way, by fair pairs: of lists that are hardly random, there would be hardly any preferences.
"""

import math

import numpy as np

from perceptrank.evaluation.off_policy import agreed_preferences, weigh_places
from perceptrank.kernels.arrays import Floats
from perceptrank.measures import Measure
from perceptrank.measures.of_clicks import ClickMeasure, ExpectedClicks
from perceptrank.serve.log.records import ShownEntry
from perceptrank.stream.query_stream import QueryStream


def click_values(measure: ClickMeasure, stream: QueryStream, scores: Floats, *, ranks: bool) -> list[float]:
    """Return a value from 0 to 1 for each impression, NaN where nothing random was shown.

    For `clicks@k:clip=C` it is the clicks on the first k places in units of k C: as shown, of the model that ranks; as
    estimated with weights of at most C, of another. Clipping only lowers an estimate: what it says for a challenger
    holds.
    """
    clicked = stream.clicked
    assert clicked is not None
    if not isinstance(measure, ExpectedClicks):
        return list(agreed_preferences(stream, clicked, scores, bounded=True).tolist())
    weights, _, clicks, present = weigh_places(stream, clicked, scores, measure.n_places)
    weights = present if ranks else np.minimum(weights, measure.clip)
    values = (weights * clicks).sum(axis=1) / unit_of(measure)
    return list(np.where(present.any(axis=1), values, math.nan).tolist())


def duel_weight(measure: Measure, entry: ShownEntry, name: str, since: int) -> float:
    """Return how much a list counts in the comparison with a challenger, so that lists of both count alike.

    Estimates of clicks are of lists that the model ranks. Lists from before the comparison began may be of others.
    """
    if entry.version < since:
        return 0.0
    if isinstance(measure, ExpectedClicks):
        return float(entry.by == "")
    own, other = entry.chances.get(name, 0.0), entry.chances.get("", 0.0)
    rarer = min(own, other)
    return rarer / entry.chances[entry.by] if rarer > 0.0 and entry.by in ("", name) else 0.0


def unit_of(measure: object) -> float:
    """Return how many clicks per list a value of 1 stands for; 1 for measures that have no such unit."""
    return measure.n_places * measure.clip if isinstance(measure, ExpectedClicks) else 1.0
