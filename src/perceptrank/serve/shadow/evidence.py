"""Evidence of clicks on randomised lists for rankers: values from 0 to 1 that running comparisons take.

Users click what is shown high, so only the random part of what was shown tells which of two rankers is better. A fair
preference is the difference of the clicks on two neighbours whose order a coin has drawn; a ranker gets it if it orders
the two that way. In expectation, two rankers differ by how much more the documents are clicked that one of them
prefers, whoever the users are. So one log compares any number of challengers with the model that ranks.

But neighbours in a list are those that its ranker is unsure about, where another one is often right even if it is far
worse elsewhere. So half of a comparison is by lists that the model ranks, half by lists that the challenger ranks, all
explored by fair pairs: whoever corrects the other's lists more often is better.

Interleaving (the clicks on each one's documents in a common list) is biased. Only grades and fair preferences promote.
"""

import math

import numpy as np

from perceptrank.clicks.policies import NoExploration, Shown
from perceptrank.evaluation.off_policy import agreed_preferences, weigh_places
from perceptrank.kernels.arrays import Floats
from perceptrank.measures import Measure
from perceptrank.measures.of_clicks import ClickMeasure, ExpectedClicks, TeamDraft
from perceptrank.serve.log.records import ShownEntry
from perceptrank.stream.columns import POLICY
from perceptrank.stream.query_stream import QueryStream


def click_values(measure: ClickMeasure, stream: QueryStream, scores: Floats, *, ranks: bool) -> list[float]:
    """Return a value for each impression, NaN where nothing random was shown: from 0 to 1, unless it is an estimate.

    For `clicks@k:clip=C` it estimates clicks on the first k places by weights w of at most C. A challenger gets the sum
    of w c, which can only be too low, the model that ranks that of 1 - w (1 - c), which can only be too high. Values
    are in units of k (2 C - 1), by which they differ by at most 1. For `team-draft` it is the share of the clicks that
    go to documents of the ranker.
    """
    clicked = stream.clicked
    assert clicked is not None
    if isinstance(measure, TeamDraft):
        return _team_shares(stream, clicked, team=0 if ranks else 1)
    if not isinstance(measure, ExpectedClicks):
        return list(agreed_preferences(stream, clicked, scores, bounded=True).tolist())
    weights, _, clicks, present = weigh_places(stream, clicked, scores, measure.n_places)
    weights = np.minimum(weights, measure.clip)
    values = (1 - weights * (1 - clicks) if ranks else weights * clicks) * present
    values = values.sum(axis=1) / unit_of(measure)
    return list(np.where(present.any(axis=1), values, math.nan).tolist())


def draft_teams(scores: Floats, others: Floats, n: int, keep: int, rng: np.random.Generator) -> Shown:
    """Let the model that ranks, team 0, and a challenger, team 1, choose n documents in turns, given their scores.

    The policy says whose each document is, such as ``team-draft:-01``, with - for the best ones, which are kept.
    """
    choices = [np.argsort(-each, kind="stable").tolist() for each in (scores, others)]
    order = choices[0][:n][:keep]
    if len(order) == min(n, len(scores)):
        return Shown(np.array(order), np.ones(len(order)), NoExploration.name)
    teams = "-" * len(order)
    while (n_left := min(n, len(scores)) - len(order)) > 0:
        first = int(rng.integers(2))
        for team in (first, 1 - first)[:n_left]:
            order.append(next(row for row in choices[team] if row not in order))
            teams += str(team)
    return Shown(np.array(order), np.full(len(order), np.nan), f"{TeamDraft.name}:{teams}")


def _team_shares(stream: QueryStream, clicked: Floats, *, team: int) -> list[float]:
    """Return the share of the clicks on documents of a team; NaN for other lists, and without such clicks."""
    shares, place = [], np.asarray(stream.place)
    for policy, start, end in zip(stream.columns[POLICY].tolist(), stream.offsets, stream.offsets[1:], strict=False):
        name, _, teams = policy.partition(":")
        clicks = [0.0, 0.0]
        for j, click in zip(place[start:end].tolist(), clicked[start:end].tolist(), strict=True):
            if name == TeamDraft.name and j > 0 and (own := teams[j - 1]) != "-":
                clicks[int(own)] += click
        shares.append(clicks[team] / sum(clicks) if any(clicks) else math.nan)
    return shares


def duel_weight(measure: Measure, entry: ShownEntry, name: str, since: int) -> float:
    """Return how much a list counts in the comparison with a challenger, so that lists of both count alike.

    Estimates of clicks are of lists that the model ranks. Lists from before the comparison began may be of others.
    """
    if entry.version < since:
        return 0.0
    if isinstance(measure, ExpectedClicks):
        return float(entry.by == "")
    if isinstance(measure, TeamDraft):
        return float(entry.by == name)
    own, other = entry.chances.get(name, 0.0), entry.chances.get("", 0.0)
    rarer = min(own, other)
    return rarer / entry.chances[entry.by] if rarer > 0.0 and entry.by in ("", name) else 0.0


def unit_of(measure: object) -> float:
    """Return how many clicks per list a value of 1 stands for; 1 for measures that have no such unit."""
    return measure.n_places * (2 * measure.clip - 1) if isinstance(measure, ExpectedClicks) else 1.0
