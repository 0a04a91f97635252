"""Importance of features: how far they move scores, by weights and spreads; and how it changes between models."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from perceptrank.deploy.explanation.terms import Part, Products, Terms
from perceptrank.kernels.arrays import Floats, Ints
from perceptrank.stream.blocks import Blocks, as_blocks
from perceptrank.stream.query_stream import QueryStream

FROM_TRANSFORMS = "weight times spread, the spread as the model's transforms know it"
WITHIN_QUERIES = (
    "weight times spread within a query, which its transforms make 1; what is made of one feature is taken to rise "
    "together, as of a normally distributed one"
)
FROM_OTHER = "weight times spread, the spread as the transforms of the other model know it"
FROM_STREAM = "standard deviation of its contribution to scores within a query"
UNKNOWN = "unknown, as the model does not know the spreads of features; a file of queries tells"

KINDS = ("appeared", "disappeared", "changed sign", "grew", "shrank", "kept")
_SAME = 0.05  # relative change that is none


@dataclass(frozen=True)
class Curve:
    """The part of the score that a feature adds, as a function of it."""

    feature: int  # its number
    of: str  # what it is a function of, if that is not the feature itself
    edges: Floats  # where the function is given, in rising order
    values: Floats  # its values at the edges ("hat"), or below the first, between them, and above the last
    is_linear: bool  # True if it is linear between the edges; otherwise it is constant there
    masses: Floats  # share of documents: between neighbouring edges, or of each value

    @property
    def sign(self) -> int:
        """1 if it never falls, -1 if it never rises, 0 if neither, or both."""
        steps = np.diff(self.values)
        return int((steps >= 0).all()) - int((steps <= 0).all())

    @property
    def spread(self) -> float:
        """Standard deviation over documents whose quantiles the edges are."""
        low, high = (self.values[:-1], self.values[1:]) if self.is_linear else (self.values, self.values)
        if len(low) == 0:  # a constant feature
            return 0.0
        masses = self.masses / self.masses.sum()
        middle = float(self.values[0])
        low, high = low - middle, high - middle  # so that a constant has none, in spite of rounding
        mean = float(masses @ (low + high)) / 2
        square = float(masses @ (low * low + low * high + high * high)) / 3
        return math.sqrt(max(0.0, square - mean * mean))


@dataclass(frozen=True)
class Effects:
    """Effects of features on scores."""

    signs: Ints  # 1 where more of the feature is better, -1 where less is, 0 where it depends, or nothing has a weight
    net: Floats  # the effect of more of the feature: with the sign of the sum of its forms where it depends
    importance: Floats  # how far it moves scores, NaN where that is not known
    importance_is: str  # how the importance was found, in words
    curves: list[Curve]  # of features in bins


def effects_of(terms: Terms, measured: Floats | None) -> Effects:
    """Return the effects of all features; their importance is that of `measure_importance` if it is given."""
    n = len(terms.features)
    rising, squares, up, down = np.zeros(n), np.zeros(n), np.zeros(n, bool), np.zeros(n, bool)
    own = terms.outputs.curve < 0
    outputs = terms.outputs.take(np.flatnonzero(own))
    # Of what no spread is known, the weight says which way it goes, and NaN that no more is known.
    known = ~np.isnan(outputs.spread)
    moves = terms.weights[own] * np.where(known, outputs.spread, 1.0)
    bases, places = np.unique(outputs.base, return_inverse=True)
    together: Any = np.bincount(places, moves, len(bases))
    source = np.zeros(len(bases), np.int64)
    source[places] = outputs.source
    rises = np.zeros(len(bases), bool)
    rises[places] = outputs.rises
    np.add.at(rising, source[rises], together[rises])
    np.add.at(squares, source, together**2)
    np.add.at(squares, outputs.source[~known], math.nan)
    np.logical_or.at(up, outputs.source, (moves > 0) & outputs.rises)
    np.logical_or.at(down, outputs.source, (moves < 0) & outputs.rises)
    curves = [curve for part in terms.parts for curve in _curves(terms, part)]
    for curve in curves:
        last = float(curve.values[-1] - curve.values[0])
        rising[curve.feature] += last
        squares[curve.feature] += curve.spread**2
        up[curve.feature] |= curve.sign > 0 or (curve.sign == 0 and curve.spread > 0)
        down[curve.feature] |= curve.sign < 0 or (curve.sign == 0 and curve.spread > 0)
    signs = up.astype(np.int64) - down.astype(np.int64)
    importance, importance_is = np.sqrt(squares), FROM_TRANSFORMS if outputs.linear.all() else WITHIN_QUERIES
    if np.isnan(importance).any():
        importance_is = UNKNOWN
    if measured is not None:
        importance, importance_is = measured, FROM_STREAM
    net = np.where(signs == 0, np.sign(rising), signs) * importance
    return Effects(signs, net, importance, importance_is, curves)


def _curves(terms: Terms, part: Part) -> list[Curve]:
    outputs = part.outputs
    curves = []
    for number in np.unique(outputs.curve[outputs.curve >= 0]).tolist():
        functions, before = terms.curves[number]
        here = np.flatnonzero(outputs.curve == number)
        table = (part.weights[here] * outputs.factor[here]).reshape(-1, functions.n_each)
        firsts = here[:: functions.n_each]
        of = "" if before.label == "weight" else before.label
        for row in np.flatnonzero(table.any(axis=1)).tolist():
            feature, edges = int(outputs.source[firsts[row]]), functions.edges[outputs.column[firsts[row]]]
            curves.append(_curve(functions.kind, feature, of, edges, table[row]))
    return curves


def _curve(kind: str, feature: int, of: str, edges: Floats, weights: Floats) -> Curve:
    # Of equal edges the first counts, and stands for all documents between them.
    distinct, firsts = np.unique(edges, return_index=True)
    if kind == "hat":
        # Documents between equal edges have the value at the edge: a step of no width.
        numbers = np.searchsorted(distinct, edges)
        heights = weights[firsts][numbers]
        return Curve(feature, of, edges, heights, True, np.ones(len(edges) - 1))
    levels = np.concatenate([[0.0], np.cumsum(weights)]) if kind == "thermometer" else weights
    # Above an edge are documents of the bin after the last edge that is equal to it.
    above = np.searchsorted(edges, distinct, side="right")
    counts = np.diff(np.concatenate([[0], above, [len(edges) + 1]]))
    return Curve(feature, of, distinct, levels[np.concatenate([[0], above])], False, counts.astype(np.float64))


def lend_spreads(terms: Terms, effects: Effects, other: Terms) -> Effects:
    """Return effects whose importance, if it is unknown, is by the spreads of raw features that another model knows.

    They stay as they are if the model is not linear in its features, or the other knows no spread of one of them.
    """
    if not terms.outputs.linear.all():
        return effects
    known: dict[str, float] = {}
    for part in other.parts:
        outputs = part.outputs
        for k in np.flatnonzero(outputs.linear & ~np.isnan(outputs.spread)).tolist():
            factor = float(outputs.factor[k])  # 0 for a constant feature
            known[other.features[int(outputs.source[k])]] = float(outputs.spread[k]) / factor if factor > 0 else 0.0
    raw = np.zeros(len(terms.features))
    np.add.at(raw, terms.outputs.source, terms.weights * terms.outputs.factor)
    spreads = np.array(
        [known.get(name, 0.0 if weight == 0.0 else math.nan) for name, weight in zip(terms.features, raw, strict=True)]
    )
    importance = np.abs(raw) * spreads
    if np.isnan(importance).any():
        return effects
    return replace(effects, importance=importance, net=raw * spreads, importance_is=FROM_OTHER)


def measure_importance(models: list[Terms], stream: Blocks) -> list[Floats]:
    """Return for each model the deviation of each feature's contribution within queries, over a stream's documents."""
    squares, n_documents = [np.zeros(len(terms.features)) for terms in models], 0
    for block in as_blocks(stream, required=True):
        for terms, sums in zip(models, squares, strict=True):
            for part in terms.state.blocks(terms.aligned(block)):
                np.add(sums, _squares(terms.contributions(part), part, len(terms.features)), out=sums)
        n_documents += block.n_documents
    return [np.sqrt(sums / n_documents) for sums in squares]


def _squares(contributions: Floats | Products, block: QueryStream, n_features: int) -> Floats:
    """Return the sum of squared deviations from the query's mean, of each feature's contribution."""
    lengths = np.diff(block.offsets)
    if not isinstance(contributions, Products):
        # From the first document on, so that what all have in common, however large, costs no digits.
        apart = contributions - np.repeat(contributions[block.offsets[:-1]], lengths, axis=0)
        sums = np.add.reduceat(apart, block.offsets[:-1], axis=0)
        apart -= np.repeat(sums / lengths[:, None], lengths, axis=0)
        squares: Floats = np.einsum("ij,ij->j", apart, apart)
        return squares
    query_of = np.repeat(np.arange(len(block)), lengths)[contributions.rows]
    keys, places = np.unique(query_of * n_features + contributions.features, return_inverse=True)
    n_present = np.bincount(places, minlength=len(keys))
    sums_of: Any = np.bincount(places, contributions.values, len(keys))
    means = sums_of / lengths[keys // n_features]
    around: Any = np.bincount(places, (contributions.values - means[places]) ** 2, len(keys))
    around += (lengths[keys // n_features] - n_present) * means**2  # of documents without the feature
    totals: Any = np.bincount(keys % n_features, around, n_features)
    return np.asarray(totals, np.float64)


class FeatureChange(NamedTuple):
    """The change of a feature.

    Attributes
    ----------
    feature : str
    kind : str
        "appeared", "disappeared", "changed sign", "grew", "shrank" or "kept" (within 5 %).
    before, now : float
        Its share of all that moves scores, negative if less of the feature is better: absolute shares add up to 1.
    """

    feature: str
    kind: str
    before: float
    now: float

    @property
    def difference(self) -> float:
        """The share now minus the share before."""
        return self.now - self.before


def changes_between(old: dict[str, float], new: dict[str, float]) -> tuple[FeatureChange, ...]:
    """Compare shares by feature; the largest differences come first.

    Examples
    --------
    >>> [tuple(change) for change in changes_between({"a": 0.5, "b": 0.5}, {"a": 0.75, "c": -0.25})]
    [('b', 'disappeared', 0.5, 0.0), ('a', 'grew', 0.5, 0.75), ('c', 'appeared', 0.0, -0.25)]
    """
    names = [*new, *(name for name in old if name not in new)]
    pairs = [(name, old.get(name, 0.0), new.get(name, 0.0)) for name in names]
    changes = [FeatureChange(name, _kind(before, now), before, now) for name, before, now in pairs if before or now]
    return tuple(sorted(changes, key=lambda change: (-abs(change.difference), change.feature)))


def _kind(before: float, now: float) -> str:
    if before == 0.0 or now == 0.0:
        return "appeared" if before == 0.0 else "disappeared"
    if (before > 0) != (now > 0):
        return "changed sign"
    if abs(abs(now) - abs(before)) <= _SAME * max(abs(now), abs(before)):
        return "kept"
    return "grew" if abs(now) > abs(before) else "shrank"


def count_changes(changes: tuple[FeatureChange, ...]) -> str:
    """Count the kinds of changes, in words."""
    counts = Counter(change.kind for change in changes)
    return ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]) or "nothing"
